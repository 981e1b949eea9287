//! What the fuzz targets check, on stable Rust and for a bounded time: each corpus is replayed, and so are random changes
//! of it, always the same.

use std::path::{Path, PathBuf};

use pliant_proto::rng::Stream;

#[path = "../../../fuzz/checks/bundle_frames.rs"]
mod bundle_frames;
#[path = "../../../fuzz/checks/connection_endpoint.rs"]
mod connection_endpoint;
#[path = "../../../fuzz/checks/connection_parsers.rs"]
mod connection_parsers;
#[path = "../../../fuzz/checks/control_request.rs"]
mod control_request;
#[path = "../../../fuzz/checks/distribution_parser.rs"]
mod distribution_parser;
#[path = "../../../fuzz/checks/fetch_protocol.rs"]
mod fetch_protocol;
#[path = "../../../fuzz/checks/frame_parser.rs"]
mod frame_parser;
#[path = "../../../fuzz/checks/handshake_sequence.rs"]
mod handshake_sequence;
#[path = "../../../fuzz/checks/kafka_apart.rs"]
mod kafka_apart;
#[path = "../../../fuzz/checks/kafka_records.rs"]
mod kafka_records;
#[path = "../../../fuzz/checks/object_request.rs"]
mod object_request;
#[path = "../../../fuzz/checks/preload_request.rs"]
mod preload_request;
#[path = "../../../fuzz/checks/proxy_request.rs"]
mod proxy_request;
#[path = "../../../fuzz/checks/scenario_parser.rs"]
mod scenario_parser;
#[path = "../../../fuzz/checks/stream_header.rs"]
mod stream_header;
#[path = "../../../fuzz/checks/switch_plan.rs"]
mod switch_plan;
#[path = "../../../fuzz/checks/wire_codec.rs"]
mod wire_codec;

/// Octets that mean something to one parser or another.
const TELLING: [u8; 8] = [0, 1, 0x7f, 0x80, 0xff, b'"', b'\n', b'.'];

/// A change as a fuzzer makes it: bits, octets, pieces cut out, doubled, taken from another input.
fn change(bytes: &mut Vec<u8>, other: &[u8], random: &mut Stream) {
    let length = bytes.len() as u64;
    let at = random.below(length + 1) as usize;
    let end = at + random.below((length - at as u64).min(16) + 1) as usize;
    match random.below(7) {
        0 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
        1 if at < bytes.len() => bytes[at] = random.next_u64() as u8,
        2 if at < bytes.len() => bytes[at] = TELLING[random.below(TELLING.len() as u64) as usize],
        3 => drop(bytes.drain(at..end)),
        4 => {
            let piece = bytes[at..end].to_vec();
            bytes.splice(at..at, piece);
        }
        5 if !other.is_empty() => {
            let from = random.below(other.len() as u64) as usize;
            let until = from + random.below((other.len() - from) as u64 + 1) as usize;
            bytes.splice(at..end, other[from..until].iter().copied());
        }
        _ => bytes.truncate(at),
    }
}

/// Folders of scenarios, right and wrong: as good as a corpus (`make fuzz` takes the same).
const SCENARIOS: &str = include_str!("../../../fuzz/scenarios.txt");

/// The files of a folder in order.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

/// Checks a corpus and the files of other folders, and each of these inputs after 1 to 4 changes, `changes` times.
fn replay(target: &str, others: &[&str], changes: u32, check: fn(&[u8])) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let corpus = root.join("fuzz/corpus").join(target);
    let others = others.iter().flat_map(|folder| files(&root.join(folder)));
    let paths: Vec<_> = files(&corpus).into_iter().chain(others).collect();
    let inputs: Vec<Vec<u8>> = paths.iter().map(|path| std::fs::read(path).unwrap()).collect();
    assert!(!inputs.is_empty(), "{target} has a corpus");
    for input in &inputs {
        check(input);
    }
    let mut random = Stream::named(1, target);
    for input in &inputs {
        for _ in 0..changes {
            let mut changed = input.clone();
            for _ in 0..=random.below(4) {
                let other = &inputs[random.below(inputs.len() as u64) as usize];
                change(&mut changed, other, &mut random);
            }
            // What made it fail is in the message: it belongs into the corpus.
            let failed = std::panic::catch_unwind(|| check(&changed)).is_err();
            assert!(!failed, "{target} fails on {changed:02x?}");
        }
    }
}

#[test]
fn packets_are_refused_or_round_trip() {
    replay("wire_codec", &[], 20_000, wire_codec::check);
}

#[test]
fn frames_stay_what_they_are() {
    replay("frame_parser", &[], 20_000, frame_parser::check);
}

#[test]
fn what_peers_say_first_is_refused_or_round_trips() {
    replay("connection_parsers", &[], 20_000, connection_parsers::check);
}

#[test]
fn connections_survive_their_network() {
    replay("connection_endpoint", &[], 2_000, connection_endpoint::check);
}

#[test]
fn handshakes_survive_an_attacker() {
    replay("handshake_sequence", &[], 1_000, handshake_sequence::check);
}

#[test]
fn fetches_survive_what_is_said() {
    replay("fetch_protocol", &[], 5_000, fetch_protocol::check);
}

#[test]
fn responses_are_put_together_or_refused() {
    replay("kafka_apart", &[], 5_000, kafka_apart::check);
}

#[test]
fn records_are_left_out_within_the_bound() {
    replay("kafka_records", &[], 2_000, kafka_records::check);
}

#[test]
fn scenarios_are_refused_in_one_line() {
    let folders: Vec<_> = SCENARIOS.lines().collect();
    replay("scenario_parser", &folders, 10, scenario_parser::check);
}

#[test]
fn distributions_are_refused_or_hold() {
    replay("distribution_parser", &[], 5_000, distribution_parser::check);
}

#[test]
fn plans_are_refused_in_one_line_or_switch() {
    replay("switch_plan", &[], 500, switch_plan::check);
}

#[test]
fn peers_put_anything_into_bundles() {
    replay("bundle_frames", &[], 20_000, bundle_frames::check);
}

#[test]
fn requests_to_daemons_are_refused_or_round_trip() {
    replay("control_request", &[], 20_000, control_request::check);
}

#[test]
fn requests_of_the_preload_library_are_refused_or_round_trip() {
    replay("preload_request", &[], 20_000, preload_request::check);
}

#[test]
fn requests_to_the_proxy_are_refused_or_name_a_service() {
    replay("proxy_request", &[], 20_000, proxy_request::check);
}

#[test]
fn requests_for_files_are_refused_or_name_one() {
    replay("object_request", &[], 20_000, object_request::check);
}

#[test]
fn headers_of_streams_are_refused_or_name_a_service() {
    replay("stream_header", &[], 20_000, stream_header::check);
}
