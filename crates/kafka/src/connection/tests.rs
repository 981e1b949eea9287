use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::api_versions_response::{ApiVersion, ApiVersionsResponse};
use kafka_protocol::messages::describe_cluster_response::DescribeClusterBroker;
use kafka_protocol::messages::fetch_response::{
    AbortedTransaction, FetchableTopicResponse, LeaderIdAndEpoch as FetchLeader, NodeEndpoint as FetchEndpoint,
    PartitionData,
};
use kafka_protocol::messages::find_coordinator_response::Coordinator;
use kafka_protocol::messages::metadata_response::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use kafka_protocol::messages::produce_response::{
    BatchIndexAndErrorMessage, LeaderIdAndEpoch, NodeEndpoint as ProduceEndpoint, PartitionProduceResponse,
    TopicProduceResponse,
};
use kafka_protocol::messages::{
    ApiKey, BrokerId, DescribeClusterResponse, FetchResponse, FindCoordinatorResponse, MetadataResponse,
    ProduceRequest, ProduceResponse, RequestHeader, TopicName, TransactionalId,
};
use kafka_protocol::protocol::{Decodable, Encodable, StrBytes};
use proptest::prelude::*;

use super::*;
use crate::refusal::{MAX_FRAME, MAX_REWRITTEN};

fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

/// A frame with a header of the given tagged form.
fn response(correlation: i32, flexible: bool, body: &impl Encodable, version: i16) -> Vec<u8> {
    let mut frame = vec![0; 4];
    frame.extend(correlation.to_be_bytes());
    if flexible {
        frame.push(0);
    }
    let mut bytes = BytesMut::new();
    body.encode(&mut bytes, version).unwrap();
    frame.extend_from_slice(&bytes);
    let length = frame.len() as i32 - 4;
    frame[..4].copy_from_slice(&length.to_be_bytes());
    frame
}

fn request(key: i16, version: i16, correlation: i32, body: &[u8]) -> Vec<u8> {
    let mut frame = ((8 + body.len()) as i32).to_be_bytes().to_vec();
    frame.extend(key.to_be_bytes());
    frame.extend(version.to_be_bytes());
    frame.extend(correlation.to_be_bytes());
    frame.extend_from_slice(body);
    frame
}

/// Moves every broker n to `door`, port 20000 + n; to no other.
fn door(broker: &Advertised) -> Result<Local, String> {
    if broker.node != 3 {
        return Err(format!("broker {} is unknown", broker.node));
    }
    Ok(Local { host: "door".into(), port: 20_000 + broker.node as u16 })
}

/// What a client gets for a response to a request of a key and a version, when it comes in pieces.
fn through(key: i16, version: i16, frame: &[u8], piece: usize) -> Result<Vec<u8>, Refusal> {
    let mut connection = Connection::default();
    connection.take_request(&request(key, version, 7, &[0xff, 0xff]), &mut Vec::new())?;
    let mut output = Vec::new();
    for piece in frame.chunks(piece) {
        connection.take_response(piece, door, &mut output)?;
    }
    connection.end_responses()?;
    assert_eq!(connection.pending(), 0);
    Ok(output)
}

fn flexible(key: ApiKey, version: i16) -> bool {
    key.response_header_version(version) == 1
}

/// One response, with addresses and with their replacements.
fn check<T: Encodable + Decodable + PartialEq + std::fmt::Debug>(key: ApiKey, version: i16, from: &T, to: &T) {
    let flexible = flexible(key, version);
    for piece in [1, 7, 1 << 20] {
        let output = through(key as i16, version, &response(7, flexible, from, version), piece).unwrap();
        assert_eq!(output, response(7, flexible, to, version), "{key:?} {version}");
    }
}

/// A broker's fields before and after.
fn ends() -> [(StrBytes, i32); 2] {
    [(text("kafka-3.rack2.example"), 9092), (text("door"), 20_003)]
}

/// Every version of every response that names brokers, against the frames of another codec.
#[test]
fn advertised_brokers_are_moved_in_every_version() {
    for version in 0..=13 {
        let [from, to] = ends().map(|(host, port)| {
            let mut broker =
                MetadataResponseBroker::default().with_node_id(BrokerId(3)).with_host(host).with_port(port);
            if version >= 1 {
                broker.rack = Some(text("rack2"));
            }
            let partition = MetadataResponsePartition::default().with_leader_id(BrokerId(3)).with_partition_index(1);
            let topic = MetadataResponseTopic::default().with_name(Some(TopicName(text("clicks"))));
            MetadataResponse::default()
                .with_brokers(vec![broker])
                .with_topics(vec![topic.with_partitions(vec![partition])])
        });
        check(ApiKey::Metadata, version, &from, &to);
    }
    for version in 0..=6 {
        let [from, to] = ends().map(|(host, port)| {
            if version >= 4 {
                let found = Coordinator::default().with_key(text("group")).with_node_id(BrokerId(3));
                let absent = Coordinator::default().with_node_id(BrokerId(-1)).with_port(-1).with_error_code(15);
                let coordinators = vec![found.with_host(host).with_port(port), absent];
                FindCoordinatorResponse::default().with_coordinators(coordinators)
            } else {
                FindCoordinatorResponse::default().with_node_id(BrokerId(3)).with_host(host).with_port(port)
            }
        });
        check(ApiKey::FindCoordinator, version, &from, &to);
    }
    for version in 0..=2 {
        let [from, to] = ends().map(|(host, port)| {
            let broker = DescribeClusterBroker::default().with_broker_id(BrokerId(3)).with_host(host).with_port(port);
            DescribeClusterResponse::default().with_cluster_id(text("cluster")).with_brokers(vec![broker])
        });
        check(ApiKey::DescribeCluster, version, &from, &to);
    }
    for version in 13..=18 {
        let [from, to] = ends().map(|(host, port)| {
            let aborted = vec![AbortedTransaction::default().with_first_offset(3)];
            let partition = PartitionData::default()
                .with_records(Some(Bytes::from(vec![5; 3000])))
                .with_aborted_transactions(Some(aborted));
            let topic = FetchableTopicResponse::default().with_partitions(vec![partition.clone(), partition]);
            let mut response = FetchResponse::default().with_session_id(9).with_responses(vec![topic]);
            if version >= 16 {
                response.node_endpoints =
                    vec![FetchEndpoint::default().with_node_id(BrokerId(3)).with_host(host).with_port(port)];
            }
            response
        });
        check(ApiKey::Fetch, version, &from, &to);
    }
    for version in 3..=13 {
        let [from, to] = ends().map(|(host, port)| {
            let mut partition = PartitionProduceResponse::default().with_base_offset(77);
            if version >= 8 {
                let error = BatchIndexAndErrorMessage::default().with_batch_index_error_message(Some(text("late")));
                partition.record_errors = vec![error];
            }
            if version >= 10 {
                partition.current_leader = LeaderIdAndEpoch::default().with_leader_id(BrokerId(3)).with_leader_epoch(2);
            }
            let mut topic = TopicProduceResponse::default().with_partition_responses(vec![partition]);
            if version < 13 {
                topic.name = TopicName(text("clicks"));
            }
            let mut response = ProduceResponse::default().with_responses(vec![topic]);
            if version >= 10 {
                response.node_endpoints =
                    vec![ProduceEndpoint::default().with_node_id(BrokerId(3)).with_host(host).with_port(port)];
            }
            response
        });
        let body = produce(version, 1);
        let mut connection = Connection::default();
        connection.take_request(&body, &mut Vec::new()).unwrap();
        let flexible = flexible(ApiKey::Produce, version);
        let mut output = Vec::new();
        connection.take_response(&response(7, flexible, &from, version), door, &mut output).unwrap();
        assert_eq!(output, response(7, flexible, &to, version), "{version}");
    }
}

/// A long response to Fetch, with a leader that has moved to broker 3 at `host`.
fn long_fetch(host: &str, port: i32, sizes: &[usize]) -> FetchResponse {
    let partition = |size: &usize| {
        let aborted = AbortedTransaction::default().with_first_offset(3);
        PartitionData::default()
            .with_error_code(6)
            .with_current_leader(FetchLeader::default().with_leader_id(BrokerId(3)).with_leader_epoch(2))
            .with_records((*size > 0).then(|| Bytes::from(vec![*size as u8; *size])))
            .with_aborted_transactions(size.is_multiple_of(2).then(|| vec![aborted; size % 5]))
    };
    let topic = FetchableTopicResponse::default().with_partitions(sizes.iter().map(partition).collect());
    let endpoint = FetchEndpoint::default().with_node_id(BrokerId(3)).with_host(text(host)).with_port(port);
    FetchResponse::default()
        .with_session_id(9)
        .with_responses(vec![FetchableTopicResponse::default(), topic.clone(), topic])
        .with_node_endpoints(vec![endpoint])
}

/// Long responses to Fetch have other addresses in as many bytes; where these are longer there are none. All else is as it was, however
/// the frame comes, and what is records is never looked at.
#[test]
fn long_fetches_pass_as_they_come() {
    let sizes = [70_000, 0, 1, 200, 16_384, 3];
    for version in 16..=18 {
        for host in ["kafka-3.rack2.example", "door", "doo", "b3"] {
            let from = long_fetch(host, 9092, &sizes);
            let frame = response(7, true, &from, version);
            // As long, longer by two or more: filled up. Shorter, or longer by one: no room.
            let fits = host.len() == 4 || host.len() > 5;
            let mut to = long_fetch("door", 20_003, &sizes);
            if !fits {
                to.node_endpoints.clear();
            }
            for piece in [1, 7, 4096, 1 << 20] {
                let output = through(1, version, &frame, piece).unwrap();
                assert_eq!(output.len(), frame.len());
                let mut body = Bytes::from(output[9..].to_vec());
                let mut got = FetchResponse::decode(&mut body, version).unwrap();
                got.unknown_tagged_fields.clear();
                assert_eq!(got, to, "{version} {host}");
                assert!(body.is_empty());
            }
            let mut connection = Connection::default();
            connection.take_request(&request(1, version, 7, &[0xff, 0xff]), &mut Vec::new()).unwrap();
            let (mut left, mut looked_at) = (&frame[..], 0);
            while !left.is_empty() {
                let passing = connection.passing();
                let count = passing.max(1).min(left.len());
                if passing > 0 {
                    connection.pass(count);
                } else {
                    looked_at += 1;
                    connection.take_response(&left[..1], door, &mut Vec::new()).unwrap();
                }
                left = &left[count..];
            }
            assert!(looked_at < 250, "{looked_at}");
            assert_eq!(connection.pending(), 0);
        }
        let silent = long_fetch("door", 20_003, &sizes).with_node_endpoints(Vec::new());
        let frame = response(7, true, &silent, version);
        assert_eq!(through(1, version, &frame, 999), Ok(frame));
    }
}

/// A long response to Fetch that is cut short, or says more than it has, ends the connection.
#[test]
fn long_fetches_that_lie_are_refused() {
    let frame = response(7, true, &long_fetch("door", 9092, &[70_000]), 17);
    let with_length = |length: usize, body: &[u8]| [&(length as i32).to_be_bytes(), body].concat();
    for cut in [1, 5, 30, 60_000, 70_050] {
        let short = with_length(frame.len() - 4 - cut, &frame[4..frame.len() - cut]);
        for piece in [1, 1 << 20] {
            assert_eq!(through(1, 17, &short, piece), Err(Refusal::Truncated), "{cut}");
        }
    }
    let long = with_length(frame.len() - 3, &[&frame[4..], &[0]].concat());
    assert_eq!(through(1, 17, &long, 1 << 20), Err(Refusal::Malformed));
    // A varint of more than 32 bits, and tagged fields without number.
    let lying = [&frame[4..9], &[0; 10], &vec![0xff; 70_000][..]].concat();
    assert_eq!(through(1, 17, &with_length(lying.len(), &lying), 1 << 20), Err(Refusal::Malformed));
}

/// A produce request as another codec writes it.
fn produce(version: i16, acks: i16) -> Vec<u8> {
    let mut bytes = BytesMut::from(&[0; 4][..]);
    let header = RequestHeader::default()
        .with_request_api_key(0)
        .with_request_api_version(version)
        .with_correlation_id(7)
        .with_client_id(Some(text("client")));
    header.encode(&mut bytes, ApiKey::Produce.request_header_version(version)).unwrap();
    let id = Some(TransactionalId(text(&"t".repeat(300))));
    ProduceRequest::default().with_acks(acks).with_transactional_id(id).encode(&mut bytes, version).unwrap();
    let mut frame = bytes.to_vec();
    let length = frame.len() as i32 - 4;
    frame[..4].copy_from_slice(&length.to_be_bytes());
    frame
}

#[test]
fn a_produce_request_without_acknowledgement_has_no_response() {
    for version in 3..=13 {
        for (acks, pending) in [(0, 0), (1, 1), (-1, 1)] {
            let mut connection = Connection::default();
            let frame = produce(version, acks);
            let mut output = Vec::new();
            for byte in &frame {
                connection.take_request(&[*byte], &mut output).unwrap();
            }
            assert_eq!((connection.pending(), &output), (pending, &frame), "{version} {acks}");
        }
    }
}

/// The protocol guide's ApiVersions, version 0, written by hand: error 0; Fetch 4 to 99, Vote 0 to 2, key 900.
#[test]
fn versions_are_lowered_to_known_ones() {
    let row = |key: i16, min: i16, max: i16| [key, min, max].map(i16::to_be_bytes).concat();
    let frame = |rows: &[Vec<u8>], code: i16| {
        let mut body = 7i32.to_be_bytes().to_vec();
        body.extend(code.to_be_bytes());
        body.extend((rows.len() as i32).to_be_bytes());
        body.extend(rows.concat());
        [(body.len() as i32).to_be_bytes().to_vec(), body].concat()
    };
    let broker = frame(&[row(1, 4, 99), row(52, 0, 2), row(900, 0, 0)], 0);
    assert_eq!(through(18, 0, &broker, 3), Ok(frame(&[row(1, 4, 18)], 0)));
    // A broker that does not know version 4 answers in version 0.
    let broker = frame(&[row(18, 0, 3)], 35);
    assert_eq!(through(18, 4, &broker, 3), Ok(broker));
    // A client whose version is not known here is told by the same error, with what there is.
    let mut connection = Connection::default();
    let mut asked = Vec::new();
    connection.take_request(&request(18, 5, 7, &[0xff, 0xff, 0, 2, b'a', 2, b'b', 0]), &mut asked).unwrap();
    assert_eq!(asked, request(18, 0, 7, &[0xff, 0xff]));
    let mut told = Vec::new();
    connection.take_response(&frame(&[row(18, 0, 5)], 0), door, &mut told).unwrap();
    assert_eq!(told, frame(&[row(18, 0, 4)], 35));
}

#[test]
fn versions_are_lowered_in_every_version_of_the_list() {
    for version in 0..=4 {
        let row = |key, min, max| ApiVersion::default().with_api_key(key).with_min_version(min).with_max_version(max);
        let list = |rows| ApiVersionsResponse::default().with_api_keys(rows);
        let from = list(vec![row(0, 0, 40), row(78, 1, 1), row(17, 0, 1), row(18, 0, 3)]);
        let to = list(vec![row(0, 0, 13), row(17, 1, 1), row(18, 0, 3)]);
        assert!(!flexible(ApiKey::ApiVersions, version), "its header is of version 0 always");
        check(ApiKey::ApiVersions, version, &from, &to);
    }
}

#[test]
fn what_is_not_kafka_or_not_known_is_refused_by_name() {
    let mut oversized = ((MAX_FRAME + 1) as i32).to_be_bytes().to_vec();
    oversized.extend([0; 8]);
    for (bytes, refusal) in [
        (vec![22, 3, 1, 2, 0], Refusal::Tls),
        (b"GET / HTTP/1.1".to_vec(), Refusal::Oversized { bytes: 0x4745_5424, most: MAX_FRAME }),
        (oversized, Refusal::Oversized { bytes: MAX_FRAME + 5, most: MAX_FRAME }),
        (vec![0, 0, 0, 2, 0, 0], Refusal::Length(2)),
        (vec![0xff; 4], Refusal::Length(-1)),
        (request(900, 0, 1, &[]), Refusal::UnknownKey(900)),
        (request(1, 19, 1, &[]), Refusal::UnknownVersion { api: "Fetch", version: 19 }),
        (request(1, -1, 1, &[]), Refusal::UnknownVersion { api: "Fetch", version: -1 }),
        (request(17, 2, 1, &[]), Refusal::UnknownVersion { api: "SaslHandshake", version: 2 }),
        (request(0, 9, 1, &[0, 9, b'c']), Refusal::Truncated),
    ] {
        let mut connection = Connection::default();
        let mut output = Vec::new();
        assert_eq!(connection.take_request(&bytes, &mut output), Err(refusal));
        assert!(output.is_empty());
    }
    let frame = |correlation: i32| [8i32.to_be_bytes(), correlation.to_be_bytes(), [0; 4]].concat();
    assert_eq!(
        Connection::default().take_response(&frame(1), door, &mut Vec::new()),
        Err(Refusal::Uncorrelated { got: 1, expected: None })
    );
    assert_eq!(through(12, 4, &frame(8), 99), Err(Refusal::Uncorrelated { got: 8, expected: Some(7) }));
    assert_eq!(through(12, 4, &frame(7)[..11], 99), Err(Refusal::Truncated));
    assert_eq!(through(3, 0, &frame(7)[..11], 99), Err(Refusal::Truncated));
    let mut large = (MAX_REWRITTEN as i32).to_be_bytes().to_vec();
    large.extend(7i32.to_be_bytes());
    assert_eq!(through(3, 0, &large, 99), Err(Refusal::Oversized { bytes: MAX_REWRITTEN + 4, most: MAX_REWRITTEN }));
    // Two billion brokers in a frame of twelve bytes.
    let lying = [12i32.to_be_bytes(), 7i32.to_be_bytes(), i32::MAX.to_be_bytes(), [0; 4]].concat();
    assert_eq!(through(3, 0, &lying, 99), Err(Refusal::Truncated));
}

/// Whoever advertises brokers without end has them looked up so often and no more.
#[test]
fn brokers_of_a_response_are_bounded() {
    let broker = MetadataResponseBroker::default().with_node_id(BrokerId(3)).with_host(text("b")).with_port(1);
    let brokers = |count| MetadataResponse::default().with_brokers(vec![broker.clone(); count]);
    assert!(through(3, 0, &response(7, false, &brokers(1 << 16), 0), 1 << 20).is_ok());
    let refused = through(3, 0, &response(7, false, &brokers((1 << 16) + 1), 0), 1 << 20);
    assert!(matches!(&refused, Err(Refusal::Broker(why)) if why.contains("more than 65536 times")), "{refused:?}");
}

/// Handshakes of SASL go as they are, but for Kerberos and for version 0: of these the broker hears a mechanism that it does not
/// have, so that the client gets Kafka's own error, and the door says why when the client has gone.
#[test]
fn handshakes_that_a_door_cannot_carry_are_refused_by_the_broker() {
    let handshake = |version, mechanism: &str| {
        let body = [&[0, 1, b'c'][..], &(mechanism.len() as i16).to_be_bytes(), mechanism.as_bytes()].concat();
        request(17, version, 7, &body)
    };
    for (version, mechanism, refusal) in [
        (1, "PLAIN", None),
        (1, "SCRAM-SHA-256", None),
        (1, "OAUTHBEARER", None),
        (1, "GSSAPI", Some(Refusal::Kerberos)),
        (0, "PLAIN", Some(Refusal::SaslTokens)),
    ] {
        let mut connection = Connection::default();
        let mut asked = Vec::new();
        for byte in handshake(version, mechanism) {
            connection.take_request(&[byte], &mut asked).unwrap();
        }
        let heard = if refusal.is_some() { NO_MECHANISM } else { mechanism };
        assert_eq!(asked, handshake(version, heard));
        // No such mechanism (33), but PLAIN.
        let frame = [&15i32.to_be_bytes()[..], &7i32.to_be_bytes(), &[0, 33, 0, 0, 0, 1, 0, 5], b"PLAIN"].concat();
        let frame = [&(frame.len() as i32 - 4).to_be_bytes()[..], &frame[4..]].concat();
        let mut told = Vec::new();
        connection.take_response(&frame, door, &mut told).unwrap();
        assert_eq!((told, connection.pending()), (frame, 0));
        assert_eq!(connection.end_requests().err(), refusal);
    }
    let cut = handshake(1, "PLAIN");
    let cut = [&(cut.len() as i32 - 5).to_be_bytes()[..], &cut[4..cut.len() - 1]].concat();
    assert_eq!(Connection::default().take_request(&cut, &mut Vec::new()), Err(Refusal::Truncated));
}

/// A broker whose listener wants TLS answers with an alert, shorter than a response's head.
#[test]
fn a_broker_that_speaks_tls_is_named() {
    assert_eq!(through(12, 4, &[21, 3, 3, 0, 2, 2, 80], 1), Err(Refusal::BrokerTls));
    assert_eq!(through(12, 4, &[21, 3, 3, 0, 2, 2, 80], 99), Err(Refusal::BrokerTls));
}

#[test]
fn a_broker_without_a_place_ends_the_connection() {
    let broker = MetadataResponseBroker::default().with_host(text("b")).with_port(1);
    let frame = response(7, false, &MetadataResponse::default().with_brokers(vec![broker]), 0);
    let mut connection = Connection::default();
    connection.take_request(&request(3, 0, 7, &[0xff, 0xff]), &mut Vec::new()).unwrap();
    let refused = connection.take_response(&frame, |_| Err("no ports left".into()), &mut Vec::new());
    assert_eq!(refused, Err(Refusal::Broker("no ports left".into())));
}

/// A broker whose number or port cannot be has no place here, and its address does not reach the client, who would go there.
#[test]
fn no_address_passes_for_its_number_or_port() {
    for (node, port) in [(-2, 9092), (i32::MIN, 9092), (3, -1), (3, 65_536), (3, i32::MAX)] {
        let broker =
            MetadataResponseBroker::default().with_node_id(BrokerId(node)).with_host(text("b")).with_port(port);
        let frame = response(7, false, &MetadataResponse::default().with_brokers(vec![broker]), 0);
        let refused = Err(Refusal::Broker(format!("broker {node} advertises `b:{port}`")));
        assert_eq!(through(3, 0, &frame, 99), refused);
    }
}

proptest! {
    /// Whatever a long response to Fetch is, it comes to an end without a panic, and is never longer than it was.
    #[test]
    fn nonsense_that_is_long_is_refused_without_a_panic(
        heads in prop::collection::vec(prop::collection::vec(prop_oneof![Just(0u8), Just(1), Just(2), any::<u8>()], 0..80), 1..4),
        pieces in prop::collection::vec(1..5000usize, 1..20),
    ) {
        let mut body: Vec<u8> = heads.iter().flat_map(|head| [&head[..], &[0; 40]].concat()).collect();
        body.resize(LONG_FETCH + 1, 0);
        let mut frame = [(body.len() as i32 + 4).to_be_bytes(), 7i32.to_be_bytes()].concat();
        frame.extend(body);
        let mut connection = Connection::default();
        connection.take_request(&request(1, 17, 7, &[0xff, 0xff]), &mut Vec::new()).unwrap();
        let (mut left, mut got) = (&frame[..], Vec::new());
        for piece in pieces.iter().cycle() {
            let passing = connection.passing().min(left.len());
            let (taken, rest) = left.split_at(if passing > 0 { passing } else { left.len().min(*piece) });
            if passing > 0 {
                connection.pass(passing);
                got.extend_from_slice(taken);
            } else if connection.take_response(taken, door, &mut got).is_err() {
                break;
            }
            left = rest;
            if left.is_empty() {
                prop_assert_eq!(got.len(), frame.len());
                break;
            }
        }
    }

    /// Frames of both directions that nothing is changed in come out as they went in, whatever pieces they come in.
    #[test]
    fn frames_pass_through_in_any_pieces(
        bodies in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..200), 0..5u8), 1..20),
        pieces in prop::collection::vec(1..50usize, 1..20),
    ) {
        let mut requests = Vec::new();
        let mut responses = Vec::new();
        for (number, (body, kind)) in bodies.iter().enumerate() {
            let (key, version) = [(12, 4), (11, 9), (2, 10), (1, 15), (36, 2)][usize::from(*kind)];
            requests.extend(request(key, version, number as i32, body));
            let length = body.len() as i32 + 4;
            responses.extend([length.to_be_bytes(), (number as i32).to_be_bytes()].concat());
            responses.extend(body);
        }
        let mut connection = Connection::default();
        let (mut sent, mut got) = (Vec::new(), Vec::new());
        let mut left = &requests[..];
        for piece in pieces.iter().cycle() {
            let (taken, rest) = left.split_at(left.len().min(*piece));
            connection.take_request(taken, &mut sent).unwrap();
            left = rest;
            if left.is_empty() {
                break;
            }
        }
        prop_assert_eq!(connection.pending(), bodies.len());
        let mut left = &responses[..];
        for piece in pieces.iter().rev().cycle() {
            // What is known to pass need not be looked at.
            let passing = connection.passing();
            let (taken, rest) = left.split_at(left.len().min(if passing > 0 { passing.min(*piece) } else { *piece }));
            if passing > 0 && piece % 2 == 0 {
                connection.pass(taken.len());
                got.extend_from_slice(taken);
            } else {
                connection.take_response(taken, door, &mut got).unwrap();
            }
            left = rest;
            if left.is_empty() {
                break;
            }
        }
        prop_assert_eq!(connection.pending(), 0);
        prop_assert!(sent == requests && got == responses);
        prop_assert!(connection.end_requests().is_ok() && connection.end_responses().is_ok());
    }

    /// Whatever comes, in whatever pieces, there is no panic, and nothing is kept but one frame.
    #[test]
    fn nonsense_is_refused_without_a_panic(
        key in 0..82i16, version in 0..20i16,
        body in prop::collection::vec(any::<u8>(), 0..300),
        noise in prop::collection::vec(any::<u8>(), 0..100),
    ) {
        let mut connection = Connection::default();
        let asked = connection.take_request(&request(key, version, 7, &body), &mut Vec::new());
        if asked.is_ok() {
            let mut frame = (body.len() as i32 + 4).to_be_bytes().to_vec();
            frame.extend(7i32.to_be_bytes());
            frame.extend(&body);
            let _ = connection.take_response(&frame, door, &mut Vec::new());
        }
        let _ = Connection::default().take_request(&noise, &mut Vec::new());
    }
}
