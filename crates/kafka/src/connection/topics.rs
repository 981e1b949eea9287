//! Which topics messages are about.

use super::head::{FIXED_HEAD, behind_header, frame_size, i16_at, produce_from_acks};
use crate::api;
use crate::walk::{Malformed, Walk};

/// The oldest metadata that names a topic's number, and the oldest requests that use it.
pub(super) const OLDEST_TOPIC_IDS: i16 = 10;
pub(super) const FETCH_BY_ID: i16 = 13;
const PRODUCE_BY_ID: i16 = 13;

/// A topic as a request names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TopicName<'a> {
    /// Up to version 12 of Fetch and Produce.
    Name(&'a str),
    /// From version 13.
    Id([u8; 16]),
}

/// Hears that a topic has a number, and its name.
pub type LearnTopic<'l> = dyn FnMut([u8; 16], &str) + 'l;

/// What a request is about, as far as the way that it takes may depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// It produces to topics, or fetches from them.
    Topics,
    /// The broker learns who the client is, which holds for this connection with it only.
    Authentication,
    /// Anything else.
    Other,
}

/// The beginning of a client's request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestHead {
    /// Bytes of the whole request.
    pub size: usize,
    /// What it is about.
    pub subject: Subject,
}

impl RequestHead {
    /// As many bytes tell it.
    pub const BYTES: usize = FIXED_HEAD;

    /// Reads [`BYTES`](Self::BYTES); nothing if no request begins with them.
    pub fn read(head: &[u8]) -> Option<Self> {
        let size = frame_size(head, FIXED_HEAD).ok()?;
        let subject = match i16_at(head, 4) {
            api::PRODUCE | api::FETCH => Subject::Topics,
            api::SASL_HANDSHAKE => Subject::Authentication,
            _ => Subject::Other,
        };
        Some(Self { size, subject })
    }
}

/// The topics that a request about [some](Subject::Topics) names, as far as it has come.
///
/// # Panics
///
/// If its [head](RequestHead::BYTES) has not come.
pub fn topics(request: &[u8]) -> Vec<TopicName<'_>> {
    let mut found = Vec::new();
    let (key, version, body) = (i16_at(request, 4), i16_at(request, 6), &request[FIXED_HEAD..]);
    let mut find = |topic| found.push(topic);
    // What is cut short or malformed is the broker's to refuse.
    let _ = if key == api::FETCH {
        fetch_request(body, version, &mut find).map(drop)
    } else {
        produce_request(body, version, &mut find)
    };
    found
}

/// Reads a request to keep records from behind the correlation number, and tells its topics.
fn produce_request<'a>(body: &'a [u8], version: i16, produces: &mut dyn FnMut(TopicName<'a>)) -> Result<(), Malformed> {
    let mut ignored = Vec::new();
    let mut walk = produce_from_acks(body, version, &mut ignored)?;
    walk.copy(2 + 4)?; // acks, timeout_ms
    walk.array(|walk| {
        produces(topic(walk, version >= PRODUCE_BY_ID)?);
        walk.array(|walk| {
            walk.copy(4)?; // index
            walk.take_bytes()?; // records
            walk.tags()
        })?;
        walk.tags()
    })
}

/// Reads a request for records from behind the correlation number, and tells its topics. Gives the number of the broker
/// that fetches; it is negative if a consumer does.
pub(super) fn fetch_request<'a>(
    body: &'a [u8],
    version: i16,
    fetches: &mut dyn FnMut(TopicName<'a>),
) -> Result<i32, Malformed> {
    let mut ignored = Vec::new();
    let mut walk = behind_header(body, version >= 12, &mut ignored)?;
    let mut replica = if version < 15 { walk.take_i32()? } else { -1 };
    walk.copy(4 + 4 + 4 + 1)?; // max_wait_ms, min_bytes, max_bytes, isolation_level
    if version >= 7 {
        walk.copy(4 + 4)?; // session_id, session_epoch
    }
    // Offset, partition and partition_max_bytes; the leader's epoch, the last epoch, and the oldest offset.
    let of_partition = 8
        + 4
        + 4
        + if version >= 9 { 4 } else { 0 }
        + if version >= 12 { 4 } else { 0 }
        + if version >= 5 { 8 } else { 0 };
    walk.array(|walk| {
        fetches(topic(walk, version >= FETCH_BY_ID)?);
        walk.array(|walk| {
            walk.copy(of_partition)?;
            walk.tags()
        })?;
        walk.tags()
    })?;
    if version < 15 {
        return Ok(replica);
    }
    // What is forgotten, and rack_id.
    walk.array(|walk| {
        topic(walk, version >= FETCH_BY_ID)?;
        walk.array(|walk| walk.copy(4))?;
        walk.tags()
    })?;
    walk.copy_string()?;
    walk.tags_with(1, |walk| {
        replica = walk.take_i32()?;
        Ok::<_, Malformed>(())
    })?;
    Ok(replica)
}

/// Copies a topic's name or number.
pub(super) fn topic<'a>(walk: &mut Walk<'a, '_>, by_id: bool) -> Result<TopicName<'a>, Malformed> {
    if by_id {
        let id = walk.take_id()?;
        walk.put(&id);
        return Ok(TopicName::Id(id));
    }
    let name = walk.take_string()?;
    walk.put_string(name);
    Ok(TopicName::Name(name.unwrap_or_default()))
}

/// The numbers of topics in a response to Metadata, from behind the correlation number.
pub(super) fn learn(version: i16, body: &[u8], learn: &mut LearnTopic<'_>) -> Result<(), Malformed> {
    let mut ignored = Vec::new();
    let mut walk = Walk::new(body, &mut ignored, true);
    walk.tags()?;
    walk.copy(4)?; // throttle_time_ms
    walk.array(|walk| {
        walk.copy(4)?; // node_id
        walk.copy_string()?; // host
        walk.copy(4)?; // port
        walk.copy_string()?; // rack
        walk.tags()
    })?;
    walk.copy_string()?; // cluster_id
    walk.copy(4)?; // controller_id
    walk.array(|walk| {
        walk.copy(2)?; // error_code
        let name = walk.take_string()?;
        let id = walk.take_id()?;
        if let Some(name) = name.filter(|_| id != [0; 16]) {
            learn(id, name);
        }
        walk.copy(1)?; // is_internal
        walk.array(|walk| {
            walk.copy(2 + 4 + 4 + 4)?; // error_code, partition, leader and its epoch
            for _ in 0..3 {
                walk.array(|walk| walk.copy(4))?; // replicas, those in sync, those that are offline
            }
            walk.tags()
        })?;
        walk.copy(4)?; // topic_authorized_operations
        walk.tags()
    })?;
    debug_assert!(version >= OLDEST_TOPIC_IDS);
    Ok(())
}

#[cfg(test)]
mod tests {
    use bytes::{Bytes, BytesMut};
    use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic, ForgottenTopic};
    use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
    use kafka_protocol::messages::{ApiKey, FetchRequest, ProduceRequest, RequestHeader, TopicName as Name};
    use kafka_protocol::protocol::{Encodable, StrBytes};
    use proptest::prelude::*;
    use uuid::Uuid;

    use super::*;

    fn name(topic: &str) -> Name {
        StrBytes::from_string(topic.to_owned()).into()
    }

    fn framed(key: ApiKey, version: i16, body: &impl Encodable) -> Vec<u8> {
        let mut bytes = BytesMut::new();
        let header = RequestHeader::default()
            .with_request_api_key(key as i16)
            .with_request_api_version(version)
            .with_client_id(Some(StrBytes::from_static_str("client")));
        header.encode(&mut bytes, key.request_header_version(version)).unwrap();
        body.encode(&mut bytes, version).unwrap();
        [&(bytes.len() as i32).to_be_bytes(), &bytes[..]].concat()
    }

    /// The topics of two requests in every version, as another codec writes them; what has come of them names the first ones.
    #[test]
    fn requests_name_topics() {
        let both = [("clicks", Uuid::from_u128(7)), ("views", Uuid::from_u128(8))];
        let produced = both.map(|(topic, id)| {
            let partition = PartitionProduceData::default().with_index(3).with_records(Some(Bytes::from(vec![1; 700])));
            (topic, id, TopicProduceData::default().with_partition_data(vec![partition.clone(), partition]))
        });
        let fetched = both.map(|(topic, id)| {
            (
                topic,
                id,
                FetchTopic::default().with_partitions(vec![FetchPartition::default(), FetchPartition::default()]),
            )
        });
        for version in 3..=13 {
            let topics = produced.clone().map(|(topic, id, data)| {
                if version < PRODUCE_BY_ID { data.with_name(name(topic)) } else { data.with_topic_id(id) }
            });
            let request = ProduceRequest::default().with_acks(1).with_topic_data(topics.into());
            check(&framed(ApiKey::Produce, version, &request), version, &both);
        }
        for version in 4..=18 {
            let topics = fetched.clone().map(|(topic, id, data)| {
                if version < FETCH_BY_ID { data.with_topic(name(topic)) } else { data.with_topic_id(id) }
            });
            // What a session fetches no more is no topic of this request.
            let forgotten = match version {
                7..FETCH_BY_ID => vec![ForgottenTopic::default().with_topic(name("old")).with_partitions(vec![1])],
                FETCH_BY_ID.. => {
                    vec![ForgottenTopic::default().with_topic_id(Uuid::from_u128(9)).with_partitions(vec![1])]
                }
                _ => Vec::new(),
            };
            let request = FetchRequest::default().with_topics(topics.into()).with_forgotten_topics_data(forgotten);
            check(&framed(ApiKey::Fetch, version, &request), version, &both);
        }
    }

    fn check(request: &[u8], version: i16, both: &[(&str, Uuid)]) {
        let expected: Vec<TopicName<'_>> = both
            .iter()
            .map(|(name, id)| if version < 13 { TopicName::Name(name) } else { TopicName::Id(id.into_bytes()) })
            .collect();
        assert_eq!(topics(request), expected, "{version}");
        for cut in RequestHead::BYTES..request.len() {
            assert!(expected.starts_with(&topics(&request[..cut])), "{version} {cut}");
        }
        let head = RequestHead { size: request.len(), subject: Subject::Topics };
        assert_eq!(RequestHead::read(&request[..RequestHead::BYTES]), Some(head));
    }

    proptest! {
        /// Whatever a client sends for a request, and however it is cut, names no more than there is.
        #[test]
        fn any_bytes_name_topics(version in 0..20i16, key in 0..2u8, body in prop::collection::vec(any::<u8>(), 0..300)) {
            let request = [&[0, 0, 2, 0, 0, key], &version.to_be_bytes()[..], &[0; 4], &body].concat();
            prop_assert!(topics(&request).len() <= body.len());
        }
    }

    #[test]
    fn heads_tell_what_requests_are_about() {
        let head = |key: u8, size: i32| {
            let head = [&size.to_be_bytes()[..], &[0, key, 0, 1, 0, 0, 0, 9]].concat();
            RequestHead::read(&head).map(|head| (head.size, head.subject))
        };
        assert_eq!(head(17, 20), Some((24, Subject::Authentication)));
        assert_eq!(head(12, 20), Some((24, Subject::Other)));
        assert_eq!(head(1, -1), None);
        assert_eq!(head(1, 3), None);
        assert_eq!(head(1, i32::MAX), None);
    }
}
