//! The messages that clients may send through a door.

pub(crate) const PRODUCE: i16 = 0;
pub(crate) const FETCH: i16 = 1;
pub(crate) const METADATA: i16 = 3;
pub(crate) const FIND_COORDINATOR: i16 = 10;
pub(crate) const SASL_HANDSHAKE: i16 = 17;
pub(crate) const API_VERSIONS: i16 = 18;
pub(crate) const DESCRIBE_CONFIGS: i16 = 32;
pub(crate) const DESCRIBE_CLUSTER: i16 = 60;

/// A kind of request.
#[derive(Debug)]
pub(crate) struct Api {
    pub(crate) key: i16,
    pub(crate) name: &'static str,
    /// The newest version whose layout is known.
    newest: i16,
}

/// What clients of Apache Kafka 4.1 send. What brokers and controllers send each other is left out, as are share groups,
/// whose responses name addresses too.
const APIS: &[Api] = &[
    Api { key: 0, name: "Produce", newest: 13 },
    Api { key: 1, name: "Fetch", newest: 18 },
    Api { key: 2, name: "ListOffsets", newest: 10 },
    Api { key: 3, name: "Metadata", newest: 13 },
    Api { key: 8, name: "OffsetCommit", newest: 10 },
    Api { key: 9, name: "OffsetFetch", newest: 10 },
    Api { key: 10, name: "FindCoordinator", newest: 6 },
    Api { key: 11, name: "JoinGroup", newest: 9 },
    Api { key: 12, name: "Heartbeat", newest: 4 },
    Api { key: 13, name: "LeaveGroup", newest: 5 },
    Api { key: 14, name: "SyncGroup", newest: 5 },
    Api { key: 15, name: "DescribeGroups", newest: 6 },
    Api { key: 16, name: "ListGroups", newest: 5 },
    Api { key: 17, name: "SaslHandshake", newest: 1 },
    Api { key: 18, name: "ApiVersions", newest: 4 },
    Api { key: 19, name: "CreateTopics", newest: 7 },
    Api { key: 20, name: "DeleteTopics", newest: 6 },
    Api { key: 21, name: "DeleteRecords", newest: 2 },
    Api { key: 22, name: "InitProducerId", newest: 6 },
    Api { key: 23, name: "OffsetForLeaderEpoch", newest: 4 },
    Api { key: 24, name: "AddPartitionsToTxn", newest: 5 },
    Api { key: 25, name: "AddOffsetsToTxn", newest: 4 },
    Api { key: 26, name: "EndTxn", newest: 5 },
    Api { key: 28, name: "TxnOffsetCommit", newest: 5 },
    Api { key: 29, name: "DescribeAcls", newest: 3 },
    Api { key: 30, name: "CreateAcls", newest: 3 },
    Api { key: 31, name: "DeleteAcls", newest: 3 },
    Api { key: 32, name: "DescribeConfigs", newest: 4 },
    Api { key: 33, name: "AlterConfigs", newest: 2 },
    Api { key: 34, name: "AlterReplicaLogDirs", newest: 2 },
    Api { key: 35, name: "DescribeLogDirs", newest: 4 },
    Api { key: 36, name: "SaslAuthenticate", newest: 2 },
    Api { key: 37, name: "CreatePartitions", newest: 3 },
    Api { key: 38, name: "CreateDelegationToken", newest: 3 },
    Api { key: 39, name: "RenewDelegationToken", newest: 2 },
    Api { key: 40, name: "ExpireDelegationToken", newest: 2 },
    Api { key: 41, name: "DescribeDelegationToken", newest: 3 },
    Api { key: 42, name: "DeleteGroups", newest: 2 },
    Api { key: 43, name: "ElectLeaders", newest: 2 },
    Api { key: 44, name: "IncrementalAlterConfigs", newest: 1 },
    Api { key: 45, name: "AlterPartitionReassignments", newest: 1 },
    Api { key: 46, name: "ListPartitionReassignments", newest: 0 },
    Api { key: 47, name: "OffsetDelete", newest: 0 },
    Api { key: 48, name: "DescribeClientQuotas", newest: 1 },
    Api { key: 49, name: "AlterClientQuotas", newest: 1 },
    Api { key: 50, name: "DescribeUserScramCredentials", newest: 0 },
    Api { key: 51, name: "AlterUserScramCredentials", newest: 0 },
    Api { key: 55, name: "DescribeQuorum", newest: 2 },
    Api { key: 57, name: "UpdateFeatures", newest: 2 },
    Api { key: 60, name: "DescribeCluster", newest: 2 },
    Api { key: 61, name: "DescribeProducers", newest: 0 },
    Api { key: 64, name: "UnregisterBroker", newest: 0 },
    Api { key: 65, name: "DescribeTransactions", newest: 0 },
    Api { key: 66, name: "ListTransactions", newest: 2 },
    Api { key: 68, name: "ConsumerGroupHeartbeat", newest: 1 },
    Api { key: 69, name: "ConsumerGroupDescribe", newest: 1 },
    Api { key: 71, name: "GetTelemetrySubscriptions", newest: 0 },
    Api { key: 72, name: "PushTelemetry", newest: 0 },
    Api { key: 74, name: "ListConfigResources", newest: 1 },
    Api { key: 75, name: "DescribeTopicPartitions", newest: 0 },
    Api { key: 80, name: "AddRaftVoter", newest: 0 },
    Api { key: 81, name: "RemoveRaftVoter", newest: 0 },
];

/// The request of a key.
pub(crate) fn api(key: i16) -> Option<&'static Api> {
    APIS.binary_search_by_key(&key, |api| api.key).ok().map(|at| &APIS[at])
}

impl Api {
    /// Whether a version's layout is known. Layouts older than a broker's oldest are its own to refuse.
    pub(crate) fn knows(&self, version: i16) -> bool {
        (self.oldest()..=self.newest).contains(&version)
    }

    /// The handshake of version 0 is followed by tokens in frames without a header.
    fn oldest(&self) -> i16 {
        i16::from(self.key == SASL_HANDSHAKE)
    }
}

/// The versions that a door offers of those that a broker offers: none if the message is not known.
///
/// The oldest stays the broker's, even where it is only for show: librdkafka looks for Produce 0 before it compresses.
pub(crate) fn clamp(key: i16, oldest: i16, newest: i16) -> Option<(i16, i16)> {
    let api = api(key)?;
    let versions = (oldest.max(api.oldest()), newest.min(api.newest));
    (versions.0 <= versions.1).then_some(versions)
}

#[cfg(test)]
mod tests {
    use kafka_protocol::messages::ApiKey;

    use super::*;

    /// The table against that of another codec, made from Kafka's own schemas.
    #[test]
    fn versions_are_those_of_the_schemas() {
        for api in APIS {
            let known = ApiKey::try_from(api.key).unwrap();
            assert_eq!((format!("{known:?}").as_str(), known.valid_versions().max), (api.name, api.newest));
        }
        assert!(APIS.is_sorted_by_key(|api| api.key));
    }

    #[test]
    fn versions_are_clamped() {
        assert_eq!(clamp(FETCH, 4, 99), Some((4, 18)));
        assert_eq!(clamp(PRODUCE, 0, 12), Some((0, 12)));
        assert_eq!(clamp(SASL_HANDSHAKE, 0, 1), Some((1, 1)));
        assert_eq!(clamp(FETCH, 19, 21), None, "newer than anything known");
        assert_eq!(clamp(78, 1, 1), None, "share groups");
    }
}
