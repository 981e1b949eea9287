//! ATP, pFabric and the sender-drop strawmen in the simulator.

use pliant_proto::time::Span;
use pliant_sim::oracle::fairness::jain;
use pliant_sim::results::{FlowState, RunResult};

use crate::scenarios::run_with;

/// Two flows of ATP_Base whose messages come at 990 and 10 Mbit/s (of payload), into 100 Mbit/s. The slow one's come at
/// random: with two constant gaps it would meet the queue at always the same phases of the fast one.
const UNFAIR: &str = r#"
duration = "4s"
drain = "0s"
[topology]
kind = "dumbbell"
pairs = 2
edge_link = { rate = "10Gbit/s", delay = "1us" }
bottleneck_link = { rate = "100Mbit/s", delay = "1us" }
[queues]
plan = "atp"
[host_queues]
plan = "drop-tail"
[traffic.fast]
kind = "flows"
flows = [{ source = 0, destination = 2 }]
transport = "atp"
class = 1
ack_class = 0
contract = { min_delivery = 0.001 }
messages = { size = "1460B", count = 400000, gap = "11798ns", streaming = true }
atp = { variant = "base" }
[traffic.slow]
kind = "flows"
flows = [{ source = 1, destination = 3 }]
transport = "atp"
class = 1
ack_class = 0
contract = { min_delivery = 0.001 }
messages = { size = "1460B", count = 100000, gap = "1168us", gap_law = "exponential", streaming = true }
atp = { variant = "base" }
"#;

/// Section 4.3, limitation 2: without rate control the link is shared by the rates at which flows send: of 100 Mbit/s
/// the second gets 1.
#[test]
fn base_shares_by_sending_rate() {
    let result = run_with(UNFAIR, &[]);
    let mbit = |group: usize| result.flows[group].delivered_bytes as f64 * 8e-6 / 4.0 * 1538.0 / 1460.0;
    assert!((mbit(1) - 1.0).abs() < 0.15, "{} Mbit/s", mbit(1));
    assert!((mbit(0) - 99.0).abs() < 1.0, "{} Mbit/s", mbit(0));
}

/// `count` flows of ATP over one link of 10 Gbit/s.
fn sharing(count: usize) -> String {
    let flows = (0..count).map(|pair| format!("{{ source = {pair}, destination = {} }}", count + pair));
    let messages = 400_000 / count;
    format!(
        r#"
duration = "20ms"
drain = "0s"
[topology]
kind = "dumbbell"
pairs = {count}
edge_link = {{ rate = "10Gbit/s", delay = "5us" }}
bottleneck_link = {{ rate = "10Gbit/s", delay = "5us" }}
[queues]
plan = "atp"
[host_queues]
plan = "drop-tail"
[traffic.all]
kind = "flows"
flows = [{}]
transport = "atp"
class = 1
ack_class = 0
contract = {{ min_delivery = 0.5 }}
messages = {{ size = "1460B", count = {messages}, streaming = true }}
"#,
        flows.collect::<Vec<_>>().join(", ")
    )
}

/// What the bottleneck did from 20 to 60 ms, after the start.
struct Steady {
    /// Share of the primary packets that it dropped.
    loss: f64,
    /// Share of the time in which it sent anything.
    utilisation: f64,
    /// Of the flows' goodputs.
    jain: f64,
}

fn steady(count: usize, changes: &[&str]) -> Steady {
    let text = sharing(count);
    let (before, after) = (run_with(&text, changes), run_with(&text, &[changes, &["duration=60ms"]].concat()));
    let ports = |result: &RunResult| {
        let mut sums = [0; 3];
        for row in result.ports.iter().filter(|row| row.name == "switch 0 -> switch 1") {
            if row.queue_name.starts_with("primary") {
                sums[0] += row.counters.admitted.packets;
                sums[1] += row.counters.dropped.iter().map(|tally| tally.packets).sum::<u64>();
            }
            sums[2] += row.dequeued().bytes;
        }
        sums
    };
    let (first, second) = (ports(&before), ports(&after));
    let [admitted, dropped, bytes] = [0, 1, 2].map(|index| (second[index] - first[index]) as f64);
    let goodputs: Vec<f64> = std::iter::zip(&before.flows, &after.flows)
        .map(|(before, after)| (after.delivered_bytes - before.delivered_bytes) as f64)
        .collect();
    Steady { loss: dropped / (admitted + dropped), utilisation: bytes * 8.0 / (10e9 * 0.04), jain: jain(&goodputs) }
}

/// The adaptive control settles at its target loss of 0.1, the link is full, and 2 to 64 flows share it.
#[test]
fn many_flows_settle_at_the_target_loss() {
    for (flows, fairness) in [(2, 0.99), (16, 0.95), (64, 0.7)] {
        let Steady { loss, utilisation, jain } = steady(flows, &[]);
        assert!((loss - 0.1).abs() <= 0.03, "{flows} flows lose {loss}");
        assert!(utilisation > 0.97, "{flows} flows use {utilisation}");
        assert!(jain > fairness, "{flows} flows: {jain}");
    }
}

/// With more than 1/m flows the paper's fixed m is not stable: one step up from the fair rate asks for several times the
/// link. The adaptive form is, whatever the number of flows.
#[test]
fn fixed_increase_is_not_stable_with_many_flows() {
    let fixed = ["traffic.all.atp.adaptive=false", "traffic.all.atp.target_within_bound=false"];
    let [few, many] = [2, 64].map(|flows| steady(flows, &fixed).loss);
    assert!((few - 0.1).abs() <= 0.03, "2 flows lose {few}");
    assert!(many > 0.5, "64 flows lose {many}");
}

/// A window's end that is set when it has passed must not stop a flow: with the paper's form, whose rates change fast,
/// every flow goes on.
#[test]
fn no_flow_stalls() {
    let fixed = ["traffic.all.atp.variant=pri", "traffic.all.atp.adaptive=false", "duration=60ms"];
    let result = run_with(&sharing(8), &fixed);
    assert!(result.simulated > Span::from_us(59_999), "something is pending until the end");
    let goodputs: Vec<f64> = result.flows.iter().map(|flow| flow.delivered_bytes as f64).collect();
    assert!(jain(&goodputs) > 0.9, "{goodputs:?}");
}

/// Half a dozen jobs to one host, each of 200 messages.
const JOBS: &str = r#"
duration = "5ms"
[topology]
kind = "leaf-spine"
leaves = 3
spines = 3
hosts_per_leaf = 4
host_link = { rate = "1Gbit/s", delay = "1us" }
host_delay = "10us"
[queues]
plan = "atp"
[traffic.jobs]
kind = "periodic"
period = "5ms"
sources = "0..8"
destinations = "8..12"
destination_choice = "random"
transport = "atp"
class = 1
ack_class = 0
contract = { min_delivery = 0.85 }
messages = { workload = "key_value", count = 200, gap = "5us", gap_law = "key-value" }
"#;

/// Every transport completes its jobs with at least what the contract asks for, sprayed or not, and none delivers more
/// than there is. The same seed gives the same messages to all.
#[test]
fn every_transport_keeps_the_contract() {
    let sizes = |result: &RunResult| result.flows.iter().map(|flow| flow.bytes).collect::<Vec<_>>();
    let reference = sizes(&run_with(JOBS, &[]));
    assert!(reference.iter().any(|&bytes| bytes != reference[0]), "sizes are drawn");
    for transport in ["atp", "pfabric", "dctcp-sd", "dctcp-bw"] {
        for change in ["routing=ecmp", "routing=spray-random", "routing=flow-round-robin", "messages.streaming=true"] {
            let plan = if transport == "pfabric" { "queues.plan=pfabric" } else { "queues.plan=atp" };
            let class = if transport.starts_with("dctcp") { "traffic.jobs.class=0" } else { "traffic.jobs.class=1" };
            let transport_change = format!("traffic.jobs.transport={transport}");
            let result = run_with(JOBS, &[&transport_change, change, plan, class]);
            assert_eq!(sizes(&result), reference, "{transport}");
            for flow in &result.flows {
                let counts = flow.messages.expect("messages are counted");
                assert_eq!((counts.total, counts.needed), (200, 170), "{transport}");
                assert_eq!(flow.state, FlowState::Completed, "{transport} {change}: {flow:?}");
                assert!(counts.delivered >= 170 && counts.delivered <= 200, "{transport} {change}: {counts:?}");
            }
            if transport == "dctcp-sd" {
                let exact = result.flows.iter().all(|flow| flow.messages.is_some_and(|counts| counts.delivered == 170));
                assert!(exact, "exactly the share is left out");
            }
        }
    }
}

/// A pinned group keeps to the paths that it has without spraying, whatever becomes of others.
#[test]
fn pinned_flows_keep_to_one_path() {
    let text = JOBS.replace("contract = { min_delivery = 0.85 }\n", "");
    let dctcp = ["traffic.jobs.transport=dctcp", "class=0"];
    let rows = |change: &[&str]| {
        let result = run_with(&text, &[&dctcp, change].concat());
        result.flows.iter().map(|flow| (flow.completed, flow.retransmissions, flow.ideal_fct)).collect::<Vec<_>>()
    };
    assert_eq!(rows(&[]), rows(&["routing=spray-random", "traffic.jobs.pinned=true"]));
    assert_ne!(rows(&[]), rows(&["routing=spray-random"]));
}

/// Reliable transports and UDP count messages, too.
#[test]
fn messages_are_counted_for_every_transport() {
    for (transport, more) in [("dctcp", "seed=1"), ("cubic", "seed=1"), ("udp", "traffic.jobs.udp.rate=1Gbit/s")] {
        let text = JOBS.replace("contract = { min_delivery = 0.85 }\n", "");
        let changes = [&format!("traffic.jobs.transport={transport}")[..], more, "class=0", "queues.plan=shared"];
        let result = run_with(&text, &changes);
        for flow in &result.flows {
            let counts = flow.messages.expect("messages are counted");
            let whole = flow.delivered_bytes == flow.bytes;
            assert_eq!((counts.total, whole), (200, counts.delivered == 200), "{transport}: {flow:?}");
        }
    }
}

/// The published example: 1 MB at 0, 100 kB at 100 us and 10 kB at 150 us over 10 Gbit/s take 888, 88 and 8 us under
/// SRPT without headers. Headers are 40 of 1500 bytes here, two links take 2 us and a packet time each.
#[test]
fn pfabric_is_srpt() {
    let text = r#"
duration = "5ms"
[topology]
kind = "star"
hosts = 4
link = { rate = "10Gbit/s", delay = "1us" }
[packets]
framing = "ip"
[queues]
plan = "pfabric"
[traffic.all]
kind = "flows"
flows = [
  { source = 0, destination = 3, size = "1MB" },
  { source = 1, destination = 3, size = "100kB", start = "100us" },
  { source = 2, destination = 3, size = "10kB", start = "150us" },
]
transport = "pfabric"
pfabric = { rto = "15us" }
"#;
    let result = run_with(text, &[]);
    let overhead = 1500.0 / 1460.0;
    for (flow, alone) in result.flows.iter().zip([888.0, 88.0, 8.0]) {
        let fct = flow.fct().expect("completed").as_us_f64();
        let expected = alone * overhead + 2.0 + 2.0 * 1.2;
        assert!(fct > expected - 2.5 && fct < expected + 0.03 * alone + 2.5, "{fct} us, expected {expected}");
    }
    assert_eq!(result.flows[2].drops, 0, "the most urgent flow loses nothing");
    assert!(result.simulated < Span::from_ms(5));
}
