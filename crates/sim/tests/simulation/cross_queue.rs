//! Cross-queue congestion notification in the network of the paper's co-location experiment (Bashir, Faisal and Dogar,
//! "Characterizing TCP's Performance for Low-Priority Flows Inside a Cloud", sections 3.2 and 5): workers send updates
//! to one server, all at once, above storage traffic of low priority to the same server.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use pliant_proto::switch::queue::DropReason;
use pliant_proto::time::Span;
use pliant_sim::results::{FlowRow, FlowState, RunResult};
use pliant_sim::scenario::{Override, Scenario};

/// Eight workers, an update of 4 MB at half load; queues of 128 and 64 kB, 100 us of round trip, K = 30 kB.
const CO_LOCATION: &str = r#"
duration = "20ms"
[topology]
kind = "star"
hosts = 13
link = { rate = "10Gbit/s", delay = "25us" }
[[queues.queue]]
name = "high"
classes = [0]
limit = "128kB"
ecn = { threshold = "30kB", not_ect = "pass" }
[[queues.queue]]
name = "low"
classes = [1]
limit = "64kB"
[host_queues]
plan = "strict"
limit = "10MB"
ecn = false
[transport]
initial_window = 2
ack_every = 1
receive_buffer = "1MB"
[traffic.training]
kind = "incast"
sources = "1..9"
receivers = 0
size = "500kB"
period = "6400us"
transport = "cubic"
[traffic.storage]
kind = "periodic"
sources = "9..13"
destinations = 0
size = "500kB"
period = "4ms"
stagger = "1ms"
class = 1
transport = "cubic"
"#;

const NOTIFIED: &str = "traffic.storage.cross_queue.interval=100us";

fn run(changes: &[&str]) -> RunResult {
    let changes: Vec<_> = changes.iter().map(|change| Override::parse("--set", change).unwrap()).collect();
    let scenario = Scenario::parse(CO_LOCATION, Path::new("co_location.toml")).unwrap();
    let resolved = scenario.with(&changes).unwrap().resolve().unwrap();
    pliant_sim::run::run(&resolved, &AtomicBool::new(false), &mut |_| {}).unwrap()
}

/// A sum over the flows of a group, `training` or `storage`.
fn sum(result: &RunResult, group: u16, value: impl Fn(&FlowRow) -> u32) -> u32 {
    result.flows.iter().filter(|flow| flow.group == group).map(value).sum()
}

/// Flows that pause for the bursts above them retransmit less and time out less than flows that do not, with initial
/// windows of two and of ten segments; and all of both finish.
#[test]
fn pausing_spares_retransmissions_and_timeouts() {
    for window in ["transport.initial_window=2", "transport.initial_window=10"] {
        let (plain, notified) = (run(&[window]), run(&[window, NOTIFIED]));
        for result in [&plain, &notified] {
            assert!(result.flows.iter().all(|flow| flow.state == FlowState::Completed));
            let again = (sum(result, 1, |flow| flow.retransmissions), sum(result, 1, |flow| flow.timeouts));
            println!("{window}: storage sent {} again after {} timeouts", again.0, again.1);
        }
        assert!(sum(&notified, 1, |flow| flow.retransmissions) < sum(&plain, 1, |flow| flow.retransmissions));
        assert!(sum(&notified, 1, |flow| flow.timeouts) < sum(&plain, 1, |flow| flow.timeouts));
        assert!(sum(&notified, 1, |flow| flow.pauses) > 0);
        assert_eq!(sum(&plain, 1, |flow| flow.pauses) + sum(&notified, 0, |flow| flow.pauses), 0);
        assert!(notified.flows.iter().all(|flow| (flow.pauses == 0) == (flow.paused == Span::ZERO)));
    }
}

/// The threshold only marks: traffic that is not ECN-capable is never dropped for it, and never marked.
#[test]
fn the_threshold_spares_traffic_that_is_not_ecn_capable() {
    let result = run(&[NOTIFIED]);
    let high = || result.ports.iter().filter(|port| port.queue_name == "high");
    assert_eq!(high().map(|port| port.dropped(DropReason::Early).packets).sum::<u64>(), 0);
    assert!(high().map(|port| port.dropped(DropReason::Tail).packets).sum::<u64>() > 0, "the bursts fill 128 kB");
    assert!(high().map(|port| port.counters.marked_packets).sum::<u64>() > 0, "probes are marked");
    assert_eq!(sum(&result, 0, |flow| flow.marks) + sum(&result, 1, |flow| flow.marks), 0, "data is not");
}

/// Probes alone change little: where the queue above never reaches its threshold, no flow pauses, and none retransmits or
/// times out more or less.
#[test]
fn without_congestion_above_nothing_pauses() {
    let quiet = ["traffic.training.size=1kB", "storage.size=200kB"];
    let (plain, notified) = (run(&quiet), run(&[&quiet[..], &[NOTIFIED]].concat()));
    assert_eq!(sum(&notified, 1, |flow| flow.pauses), 0);
    assert!(notified.packet_hops > plain.packet_hops, "probes and echoes");
    for flow in 0..plain.flows.len() {
        let (plain, notified) = (&plain.flows[flow], &notified.flows[flow]);
        assert_eq!((plain.retransmissions, plain.timeouts), (notified.retransmissions, notified.timeouts));
    }
}

/// A group that is starved for the whole run, with pauses or without, loses no flow: all finish once the link is free.
#[test]
fn a_starved_group_finishes_when_the_link_is_free() {
    let starving = ["traffic.training.period=3ms", "storage.size=20kB", "drain=10s"];
    for changes in [&starving[..], &[&starving[..], &[NOTIFIED]].concat()] {
        let result = run(changes);
        assert!(
            result.flows.iter().all(|flow| flow.state == FlowState::Completed && flow.delivered_bytes == flow.bytes)
        );
    }
}
