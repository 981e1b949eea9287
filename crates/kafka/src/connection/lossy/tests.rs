use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::describe_configs_response::{DescribeConfigsResourceResult, DescribeConfigsResult};
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic, ForgottenTopic, ReplicaState};
use kafka_protocol::messages::fetch_response::{AbortedTransaction, FetchableTopicResponse, PartitionData};
use kafka_protocol::messages::metadata_response::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use kafka_protocol::messages::{
    ApiKey, BrokerId, DescribeConfigsRequest, DescribeConfigsResponse, FetchRequest, FetchResponse, MetadataResponse,
    RequestHeader, TopicName as Name,
};
use kafka_protocol::protocol::{Decodable, Encodable, StrBytes};
use proptest::prelude::*;
use uuid::Uuid;

use super::*;

fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

fn framed(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as i32).to_be_bytes(), bytes].concat()
}

fn request(key: ApiKey, version: i16, correlation: i32, body: &impl Encodable) -> Vec<u8> {
    let mut bytes = BytesMut::new();
    let header = RequestHeader::default()
        .with_request_api_key(key as i16)
        .with_request_api_version(version)
        .with_correlation_id(correlation)
        .with_client_id(Some(text("client")));
    header.encode(&mut bytes, key.request_header_version(version)).unwrap();
    body.encode(&mut bytes, version).unwrap();
    framed(&bytes)
}

fn response(key: ApiKey, version: i16, correlation: i32, body: &impl Encodable) -> Vec<u8> {
    let mut bytes = BytesMut::from(&correlation.to_be_bytes()[..]);
    if key.response_header_version(version) == 1 {
        bytes.extend_from_slice(&[0]);
    }
    body.encode(&mut bytes, version).unwrap();
    framed(&bytes)
}

/// Notes what it hears, and leaves every second byte out.
#[derive(Default)]
struct Halves {
    learned: Vec<([u8; 16], String)>,
    wanted: Vec<String>,
    policies: Vec<(String, Option<String>)>,
    asked: Vec<String>,
    fetched: Vec<(String, i32, i64)>,
    /// Responses of more bytes find no room.
    room: Option<usize>,
}

fn named(topic: TopicName<'_>) -> String {
    match topic {
        TopicName::Name(name) => name.to_owned(),
        TopicName::Id(id) => format!("{id:?}"),
    }
}

impl Thinner for Halves {
    fn learn(&mut self, id: [u8; 16], name: &str) {
        self.learned.push((id, name.to_owned()));
    }

    fn fetches(&mut self, topic: TopicName<'_>) {
        self.asked.push(named(topic));
    }

    fn wanted(&mut self) -> Vec<String> {
        std::mem::take(&mut self.wanted)
    }

    fn policy(&mut self, topic: &str, policy: Option<&str>) {
        self.policies.push((topic.to_owned(), policy.map(ToOwned::to_owned)));
    }

    fn has_room(&mut self, bytes: usize) -> bool {
        self.room.is_none_or(|room| bytes <= room)
    }

    fn thin(&mut self, fetched: &Fetched<'_>, output: &mut Vec<u8>) {
        self.fetched.push((named(fetched.topic), fetched.partition, fetched.log_start));
        output.extend(fetched.records.iter().step_by(2));
    }
}

const ID: Uuid = Uuid::from_bytes([7; 16]);

fn a_fetch(version: i16, replica: i32) -> Vec<u8> {
    let partition = FetchPartition::default().with_partition(3).with_fetch_offset(9);
    let mut topic = FetchTopic::default().with_partitions(vec![partition.clone(), partition]);
    let mut body = FetchRequest::default().with_max_wait_ms(500);
    if version >= 7 {
        let mut forgotten = ForgottenTopic::default().with_partitions(vec![1, 2]);
        if version >= 13 {
            forgotten.topic_id = ID;
        } else {
            forgotten.topic = Name(text("old"));
        }
        body.forgotten_topics_data = vec![forgotten];
    }
    if version >= 13 {
        topic.topic_id = ID;
    } else {
        topic.topic = Name(text("clicks"));
    }
    if version >= 15 {
        body.replica_state = ReplicaState::default().with_replica_id(BrokerId(replica));
    } else {
        body.replica_id = BrokerId(replica);
    }
    request(ApiKey::Fetch, version, 7, &body.with_topics(vec![topic]))
}

/// Responses of every version, in pieces: another codec's frames, with other records.
#[test]
fn records_of_every_version_are_replaced() {
    for version in 4..=18 {
        let frame = |records: &[Option<Vec<u8>>]| {
            let partition = |(number, records): (usize, &Option<Vec<u8>>)| {
                let mut partition = PartitionData::default()
                    .with_partition_index(number as i32)
                    .with_high_watermark(500)
                    .with_records(records.clone().map(Bytes::from))
                    .with_aborted_transactions(Some(vec![AbortedTransaction::default().with_first_offset(3)]));
                if version >= 5 {
                    partition.log_start_offset = 40;
                }
                partition
            };
            let partitions = records.iter().enumerate().map(partition).collect();
            let mut topic = FetchableTopicResponse::default().with_partitions(partitions);
            if version >= 13 {
                topic.topic_id = ID;
            } else {
                topic.topic = Name(text("clicks"));
            }
            response(ApiKey::Fetch, version, 7, &FetchResponse::default().with_responses(vec![topic]))
        };
        let full: Vec<u8> = (0..3000).map(|byte| byte as u8).collect();
        let half: Vec<u8> = full.iter().copied().step_by(2).collect();
        let (from, to) = (frame(&[Some(full), Some(vec![]), None]), frame(&[Some(half), Some(vec![]), None]));
        for piece in [1, 100, 1 << 20] {
            let mut connection = LossyConnection::default();
            let mut halves = Halves::default();
            let (mut asked, mut got) = (Vec::new(), Vec::new());
            let fetch = a_fetch(version, -1);
            for piece in fetch.chunks(piece) {
                connection.take_request(piece, &mut halves, &mut asked).unwrap();
            }
            assert_eq!(asked, fetch);
            for piece in from.chunks(piece) {
                connection.take_response(piece, &mut halves, &mut got).unwrap();
            }
            assert_eq!(got, to, "version {version}");
            let topic = if version >= 13 { format!("{:?}", ID.as_bytes()) } else { "clicks".to_owned() };
            assert_eq!(halves.asked, std::slice::from_ref(&topic));
            assert_eq!(halves.fetched, [(topic, 0, if version >= 5 { 40 } else { -1 })]);
            assert!(connection.end_requests().is_ok() && connection.end_responses().is_ok());
        }
    }
}

/// What there is no room for goes to the client as it is; the next response may find some.
#[test]
fn responses_without_room_pass() {
    let partition = PartitionData::default().with_records(Some(Bytes::from(vec![1; 1000])));
    let topic = FetchableTopicResponse::default().with_topic(Name(text("clicks"))).with_partitions(vec![partition]);
    let whole = response(ApiKey::Fetch, 11, 7, &FetchResponse::default().with_responses(vec![topic]));
    for piece in [1, 100, 1 << 20] {
        let mut halves = Halves { room: Some(500), ..Halves::default() };
        let (mut connection, mut got) = (LossyConnection::default(), Vec::new());
        for _ in 0..3 {
            connection.take_request(&a_fetch(11, -1), &mut halves, &mut Vec::new()).unwrap();
        }
        for piece in whole.chunks(piece) {
            connection.take_response(piece, &mut halves, &mut got).unwrap();
            assert!(!connection.keeps());
        }
        assert!(got == whole && halves.fetched.is_empty());
        halves.room = None;
        assert!(connection.completes(1));
        connection.take_response(&whole[..50], &mut halves, &mut got).unwrap();
        assert!(
            connection.keeps() && !connection.completes(whole.len() - 51) && connection.completes(whole.len() - 50)
        );
        connection.take_response(&whole[50..], &mut halves, &mut got).unwrap();
        assert_eq!((got.len(), halves.fetched.len()), (2 * whole.len() - 500, 1));
    }
}

#[test]
fn replicas_are_refused_in_every_version() {
    for version in 4..=18 {
        let mut connection = LossyConnection::default();
        let refused = connection.take_request(&a_fetch(version, 2), &mut Halves::default(), &mut Vec::new());
        assert_eq!(refused, Err(Refusal::Replica(2)), "version {version}");
    }
}

#[test]
fn numbers_of_topics_are_learned() {
    for version in 10..=13 {
        let partition = MetadataResponsePartition::default()
            .with_replica_nodes(vec![BrokerId(1)])
            .with_isr_nodes(vec![BrokerId(1), BrokerId(2)]);
        let topic = |name: Option<&str>, id: Uuid| {
            MetadataResponseTopic::default()
                .with_name(name.map(|name| Name(text(name))))
                .with_topic_id(id)
                .with_partitions(vec![partition.clone(), partition.clone()])
        };
        let mut topics = vec![topic(Some("clicks"), ID), topic(Some("no number"), Uuid::nil())];
        if version >= 12 {
            topics.push(topic(None, ID));
        }
        let broker = MetadataResponseBroker::default().with_host(text("kafka")).with_rack(Some(text("r")));
        let body = MetadataResponse::default()
            .with_cluster_id(Some(text("cluster")))
            .with_brokers(vec![broker])
            .with_topics(topics);
        let mut connection = LossyConnection::default();
        let mut halves = Halves::default();
        let asked = request(ApiKey::Metadata, version, 7, &kafka_protocol::messages::MetadataRequest::default());
        connection.take_request(&asked, &mut halves, &mut Vec::new()).unwrap();
        let frame = response(ApiKey::Metadata, version, 7, &body);
        let mut got = Vec::new();
        connection.take_response(&frame, &mut halves, &mut got).unwrap();
        assert_eq!(got, frame, "it goes on as it was");
        assert_eq!(halves.learned, [(*ID.as_bytes(), "clicks".to_owned())]);
    }
}

/// The exit's own question goes in front of the client's fetch, and its answer not to the client.
#[test]
fn policies_are_asked_for_on_the_way() {
    let mut halves = Halves { wanted: vec!["clicks".into(), "state".into(), "secret".into()], ..Halves::default() };
    let mut connection = LossyConnection::default();
    let (mut asked, fetch) = (Vec::new(), a_fetch(12, -1));
    connection.take_request(&fetch, &mut halves, &mut asked).unwrap();
    let question = asked.strip_suffix(&fetch[..]).unwrap();
    let mut bytes = Bytes::copy_from_slice(&question[4..]);
    let header = RequestHeader::decode(&mut bytes, 1).unwrap();
    assert_eq!((header.request_api_key, header.request_api_version, header.correlation_id), (32, 1, 0));
    let body = DescribeConfigsRequest::decode(&mut bytes, 1).unwrap();
    let names: Vec<_> = body.resources.iter().map(|each| (each.resource_type, each.resource_name.as_str())).collect();
    assert_eq!(names, [(2, "clicks"), (2, "state"), (2, "secret")]);
    assert!(body.resources.iter().all(|each| each.configuration_keys.as_ref().unwrap()[0].as_str() == CLEANUP_POLICY));
    let result = |topic: &str, policy: Option<&str>| {
        let config = |policy: &str| {
            DescribeConfigsResourceResult::default().with_name(text(CLEANUP_POLICY)).with_value(Some(text(policy)))
        };
        DescribeConfigsResult::default()
            .with_resource_type(2)
            .with_resource_name(text(topic))
            .with_error_code(if policy.is_none() { 29 } else { 0 })
            .with_configs(policy.map(config).into_iter().collect())
    };
    let results = vec![result("clicks", Some("delete")), result("state", Some("compact")), result("secret", None)];
    let answer = response(ApiKey::DescribeConfigs, 1, 0, &DescribeConfigsResponse::default().with_results(results));
    let fetched = response(ApiKey::Fetch, 12, 7, &FetchResponse::default());
    let mut got = Vec::new();
    connection.take_response(&[answer, fetched.clone()].concat(), &mut halves, &mut got).unwrap();
    assert_eq!(got, fetched);
    let policy = |topic: &str, policy: Option<&str>| (topic.to_owned(), policy.map(ToOwned::to_owned));
    let all = [policy("clicks", Some("delete")), policy("state", Some("compact")), policy("secret", None)];
    assert_eq!(halves.policies, all);
}

#[test]
fn what_is_too_long_or_has_no_request_is_refused() {
    let mut halves = Halves::default();
    let mut long = a_fetch(12, -1);
    long[..4].copy_from_slice(&(MAX_FETCH_REQUEST as i32).to_be_bytes());
    let refused = LossyConnection::default().take_request(&long, &mut halves, &mut Vec::new());
    assert_eq!(refused, Err(Refusal::Oversized { bytes: MAX_FETCH_REQUEST + 4, most: MAX_FETCH_REQUEST }));
    let answer = response(ApiKey::Fetch, 12, 7, &FetchResponse::default());
    let refused = LossyConnection::default().take_response(&answer, &mut halves, &mut Vec::new());
    assert_eq!(refused, Err(Refusal::Uncorrelated { got: 7, expected: None }));
}

proptest! {
    /// Whatever the broker and the client say, in whatever pieces, there is no panic.
    #[test]
    fn nonsense_is_refused_without_a_panic(
        kind in 0..3usize, version in 0..19i16,
        body in prop::collection::vec(any::<u8>(), 0..300), noise in prop::collection::vec(any::<u8>(), 0..100),
    ) {
        let key = [api::FETCH, api::METADATA, api::DESCRIBE_CONFIGS][kind];
        let head = [&key.to_be_bytes()[..], &version.to_be_bytes(), &7i32.to_be_bytes()].concat();
        let mut halves = Halves { wanted: vec!["clicks".into()], ..Halves::default() };
        let mut connection = LossyConnection::default();
        let _ = connection.take_request(&framed(&[head, noise].concat()), &mut halves, &mut Vec::new());
        for pending in connection.frames.due.0.iter().map(|pending| pending.correlation).collect::<Vec<_>>() {
            let frame = framed(&[&pending.to_be_bytes(), &body[..]].concat());
            if connection.take_response(&frame, &mut halves, &mut Vec::new()).is_err() {
                break;
            }
        }
    }
}
