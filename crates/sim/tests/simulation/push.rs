//! Push flows in a network: Theorem 1 of PPUSH and what follows from its fluid model, and objects from many sources.

use std::fmt::Write;
use std::path::Path;

use pliant_proto::time::Span;
use pliant_sim::fluid::Bottleneck;
use pliant_sim::results::RunResult;
use pliant_sim::scenario::Scenario;

use crate::scenarios::run_with;

/// Symbols of 1210 bytes on the wire, as in the paper.
const PACKET_BITS: u64 = 8 * 1210;

/// What a bottleneck marks: each packet beyond a threshold; or each by itself, with a probability that rises with the queue
/// from 20 packets to 140, so that all flows see the same.
#[derive(Clone, Copy, PartialEq)]
enum Marks {
    Threshold,
    Equal,
}

/// A bottleneck of `packets_per_s`, with this round trip and these queues, and long flows: weight, how many of it. Each is a
/// traffic group.
fn long_flows(link: Bottleneck, marks: Marks, seconds: u32, groups: &[(f64, u32)]) -> String {
    let Bottleneck { packets_per_s, propagation_s, threshold, limit } = link;
    let hosts: u32 = groups.iter().map(|(_, flows)| flows).sum();
    let rate = packets_per_s as u64 * PACKET_BITS;
    // Links of hosts are ten times as fast: what is queued is queued at the bottleneck.
    let delay_ns = (propagation_s * 1e9 / 2.0) as u64;
    let mut text = format!(
        "duration = \"{seconds}s\"\ndrain = \"0s\"\nsample_interval = \"1ms\"\nsample_windows = true\n\
         packets = {{ mss = \"1170B\", framing = \"ip\" }}\n\
         topology = {{ kind = \"dumbbell\", pairs = {hosts}, edge_link = {{ rate = \"{}bit/s\", delay = \"1us\" }}, \
         bottleneck_link = {{ rate = \"{rate}bit/s\", delay = \"{delay_ns}ns\" }} }}\n",
        10 * rate,
    );
    let queues = match marks {
        Marks::Threshold => {
            format!("limit = \"{limit} packets\"\necn = {{ threshold = \"{threshold} packets\" }}\n")
        }
        Marks::Equal => format!(
            "[[queues.queue]]\nname = \"all\"\nclasses = [0]\nlimit = \"{limit} packets\"\n\
             red = {{ min = 20, max = 140, max_probability = 1.0, weight = 1.0, gentle = false, spread = false }}\n"
        ),
    };
    write!(text, "[queues]\n{queues}").expect("text grows");
    for (source, weight) in weights(groups).enumerate() {
        write!(
            text,
            "[traffic.f{source:03}]\nkind = \"flows\"\ntransport = \"push\"\ncontract = {{ weight = {weight} }}\n\
             push = {{ weights = \"equal\" }}\nflows = [{{ source = {source}, destination = {} }}]\n",
            hosts as usize + source
        )
        .expect("text grows");
    }
    text
}

/// Weight of each flow.
fn weights(groups: &[(f64, u32)]) -> impl Iterator<Item = f64> {
    groups.iter().flat_map(|&(weight, flows)| std::iter::repeat_n(weight, flows as usize))
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0u32), |(sum, count), value| (sum + value, count + 1));
    assert!(count > 0, "a mean of something");
    sum / f64::from(count)
}

const WARMUP: Span = Span::from_secs(1);
/// With 4 s after the warm-up.
const SECONDS: u32 = 5;

fn alpha_of(result: &RunResult) -> f64 {
    let from = pliant_proto::time::Instant::ZERO.after(WARMUP);
    mean(result.window_samples.iter().filter(|sample| sample.at > from).filter_map(|sample| sample.window.alpha))
}

/// Length of the receiver's queue, over time, in packets.
fn queue_of(result: &RunResult) -> f64 {
    let from = pliant_proto::time::Instant::ZERO.after(WARMUP);
    let busiest = result.ports.iter().max_by_key(|port| port.counters.max_packets).expect("ports").port;
    let held = result.queue_samples.iter().filter(|sample| sample.port == busiest && sample.at > from);
    let looks = result.throughput_samples.iter().filter(|sample| sample.group == 0 && sample.at > from).count();
    held.map(|sample| f64::from(sample.packets)).sum::<f64>() / looks as f64
}

/// C·d + K = 400 packets, a round trip of 0.4 ms. Windows converge like exp(−t·α²/(2θ·R)): within 0.2 s here.
const LINK: Bottleneck = Bottleneck { packets_per_s: 1e6, propagation_s: 0.000_32, threshold: 80.0, limit: 2000.0 };

/// 2 to 50 flows, and ratios to 100: weight, how many.
const GROUPS: [&[(f64, u32)]; 5] = [
    &[(1.0, 1), (4.0, 1)],
    &[(1.0, 1), (100.0, 1)],
    &[(1.0, 5), (10.0, 5)],
    &[(0.5, 49), (50.0, 1)],
    &[(1.0, 25), (3.0, 25)],
];

/// Least and greatest bandwidth per theta of any flow, over that of all flows together.
fn imbalance(result: &RunResult, groups: &[(f64, u32)]) -> (f64, f64) {
    let mut delivered = vec![0u64; weights(groups).count()];
    let from = pliant_proto::time::Instant::ZERO.after(WARMUP);
    for sample in result.throughput_samples.iter().filter(|sample| sample.at > from) {
        delivered[usize::from(sample.group)] += sample.delivered_bytes;
    }
    let fair = delivered.iter().sum::<u64>() as f64 / weights(groups).sum::<f64>();
    let shares = delivered.iter().zip(weights(groups)).map(|(&bytes, weight)| bytes as f64 / weight / fair);
    let range =
        shares.fold((f64::INFINITY, 0.0), |(least, most): (f64, f64), share| (least.min(share), most.max(share)));
    println!("{groups:?}: bandwidth per theta from {:.3} to {:.3}", range.0, range.1);
    range
}

/// Theorem 1: in the stable state each flow has bandwidth in proportion to its theta, within 5 % for 2 to 50 flows and ratios
/// to 100. Its premise is that all flows see the same marks, which here they do: each packet is marked by itself. Which are
/// is chance, so the means are over 4 s, 10,000 round trips.
#[test]
fn bandwidth_follows_theta_where_marks_are_equal() {
    for groups in GROUPS {
        let result = run_with(&long_flows(LINK, Marks::Equal, SECONDS, groups), &[]);
        let (least, most) = imbalance(&result, groups);
        assert!(least >= 0.95 && most <= 1.05, "{groups:?}: bandwidth per theta from {least} to {most}");
    }
}

/// The limit of Theorem 1: behind a threshold, packets that follow their acknowledgements keep their places in the round
/// trip, so a flow may always be the one that finds the queue full, or the one that does not. Bandwidth per theta of a flow
/// is up to an eighth off here. Alpha is sqrt(2·Σθ/(C·d + K)), equation 18, within 10 % all the same.
#[test]
fn a_threshold_marks_flows_unequally() {
    for groups in GROUPS {
        // Chance decides nothing here: 1 s after the warm-up is enough.
        let result = run_with(&long_flows(LINK, Marks::Threshold, 2, groups), &[]);
        let sum: f64 = weights(groups).sum();
        let (least, most) = imbalance(&result, groups);
        assert!(least > 0.85 && most < 1.15, "{groups:?}: bandwidth per theta from {least} to {most}");
        let (alpha, expected) = (alpha_of(&result), (2.0 * sum / LINK.packets_in_flight()).sqrt());
        assert!((alpha / expected - 1.0).abs() < 0.10, "{groups:?}: alpha {alpha}, expected {expected}");
    }
}

/// Where Σθ exceeds (C·d + K)/2 all packets are marked, windows are 2θ, and the queue is 2·Σθ − C·d.
#[test]
fn too_many_flows_make_a_longer_queue() {
    let link = Bottleneck { packets_per_s: 20_000.0, propagation_s: 0.004, threshold: 30.0, limit: 400.0 };
    let result = run_with(&long_flows(link, Marks::Threshold, 5, &[(1.0, 50), (2.0, 25)]), &[]);
    let (queue, expected) = (queue_of(&result), 2.0 * 100.0 - 80.0);
    assert!((queue / expected - 1.0).abs() < 0.05, "{queue} packets queued, expected {expected}");
    assert!(alpha_of(&result) > 0.99);
}

const OBJECTS: &str = r#"
duration = "1s"
drain = "20s"
topology = { kind = "star", hosts = 16, link = { rate = "968Mbit/s", delay = "20us" } }
queues = { limit = "100 packets", ecn = { threshold = "30 packets" } }
packets = { mss = "1170B", framing = "ip" }

[traffic.images]
kind = "objects"
transport = "push"
holders = "0..4"
receivers = "4..16"
size = "300kB..3MB"
load = 0.8
objects = 40
push = { block = "500kB" }
"#;

/// Every object arrives whole, from all its sources, in the same time with and without a recorder; and the parts that the
/// sources bring add up to it. What comes beyond need is at most a bandwidth-delay product from each source in each block.
#[test]
fn objects_arrive_from_their_sources() {
    let result = run_with(OBJECTS, &[]);
    let objects = result.objects();
    assert_eq!((objects.len(), result.flows.len()), (40, 120));
    for object in &objects {
        assert!(object.completed.is_some() && object.delivered_bytes == object.bytes, "{object:?}");
        assert_eq!(object.decoded_blocks + object.whole_blocks, object.bytes.div_ceil(499_590) as u32);
        // A round trip over two links of 20 us and back is 80 us, a packet 10 us.
        let bound = u64::from(object.sources * (object.decoded_blocks + object.whole_blocks)) * 8;
        assert!(object.excess_symbols <= bound, "{} symbols in vain, bound {bound}", object.excess_symbols);
    }
    let recorded = run_with(OBJECTS, &["sample_interval=1ms", "sample_windows=true"]);
    assert_eq!(recorded.digest, result.digest);
    assert_eq!(run_with(OBJECTS, &[]).digest, result.digest);
}

/// The paper's variants: sharing objects out beats splitting them, and weights by remaining size beat equal ones.
#[test]
fn sharing_out_and_weighing_both_help() {
    let mean_time = |changes: &[&str]| {
        let result = run_with(OBJECTS, changes);
        mean(result.objects().iter().map(|object| object.completion_time().expect("complete").as_secs_f64()))
    };
    let neither = mean_time(&["split=true", "push.weights=equal"]);
    let weighed = mean_time(&["split=true"]);
    let shared = mean_time(&["push.weights=equal"]);
    let both = mean_time(&[]);
    assert!(
        weighed < neither && shared < neither && both < weighed && both < shared,
        "{neither} {weighed} {shared} {both}"
    );
}

/// The same objects move by any transport: same receivers, sources and sizes.
#[test]
fn every_transport_moves_the_same_objects() {
    let key = |result: &RunResult| {
        let objects = result.objects();
        objects.iter().map(|object| (object.receiver, object.bytes, object.start, object.sources)).collect::<Vec<_>>()
    };
    let pushed = run_with(OBJECTS, &[]);
    for transport in ["dctcp", "reno"] {
        let text = OBJECTS.replace("push = {", "#");
        let split = run_with(&text, &[&format!("traffic.images.transport={transport}")]);
        assert_eq!(key(&split), key(&pushed), "{transport}");
        assert!(split.objects().iter().all(|object| object.completed.is_some()), "{transport}");
    }
}

/// A link that loses a burst or a share of its packets: the burst is counted, and what is lost is sent again.
#[test]
fn links_lose_what_they_are_told_to() {
    let lossy = r#"losses=[{ link = "switch 0 -> host 4", at = "1ms", packets = 25 }]"#;
    let one = ["receivers=4", "objects=1", "period=0s", "fanout=2"];
    let text = OBJECTS.replace("load = 0.8\n", "period = \"0s\"\n");
    let result = run_with(&text, &[&[lossy][..], &one].concat());
    let lost: u64 = result.ports.iter().map(|port| port.counters.dropped[4].packets).sum();
    assert_eq!(lost, 25);
    assert_eq!(result.flows.iter().map(|flow| u64::from(flow.drops)).sum::<u64>(), 25);
    assert!(result.objects()[0].completed.is_some());
    let lossy = r#"losses=[{ link = "switch 0 -> host 4", probability = 0.3 }]"#;
    let result = run_with(&text, &[&[lossy][..], &one].concat());
    let port = result.ports.iter().find(|port| port.name == "switch 0 -> host 4").expect("it is there");
    let (sent, lost) = (port.counters.admitted.packets as f64, port.counters.dropped[4].packets as f64);
    assert!((lost / (sent + lost) - 0.3).abs() < 0.05, "{lost} of {sent}");
    assert!(result.objects()[0].completed.is_some());
}

/// A push flow beside a regular one on a link of 10 Gbit/s.
const CONTRACT: &str = r#"
duration = "3s"
drain = "5s"
packets = { mss = "1460B" }
topology = { kind = "dumbbell", pairs = 2, edge_link = { rate = "10Gbit/s", delay = "1us" }, bottleneck_link = { rate = "2Gbit/s", delay = "10us" } }
queues = { limit = "300 packets", ecn = { threshold = "65 packets" } }

[traffic.object]
kind = "flows"
transport = "push"
push = { weights = "equal" }
contract = { min_share = 1.0, weight = 4.0 }
reflex = { give_way = "weight" }
flows = [{ source = 0, destination = 2, size = "500MB" }]

[traffic.regular]
kind = "flows"
transport = "dctcp"
flows = [{ source = 1, destination = 3, start = "500ms", size = "100MB" }]
"#;

/// REFLEX over push: with a budget the flow lowers its theta now and then, so the regular one ends sooner; and the rate
/// that it keeps is what the contract says, or more. Bytes it cannot give up, and says so.
#[test]
fn a_contract_lowers_theta() {
    let run_at = |share: &str| {
        let result = run_with(CONTRACT, &[&format!("object.contract.min_share={share}")]);
        let time = |flow: usize| result.flows[flow].fct().expect("complete").as_secs_f64();
        (time(0), time(1), result.flows[0].low_time.as_secs_f64())
    };
    let ((push, regular, low), (bent_push, bent_regular, bent_low)) = (run_at("1.0"), run_at("0.6"));
    assert_eq!(low, 0.0);
    assert!(bent_low > 0.1, "gave way for {bent_low} s");
    assert!(bent_regular < 0.95 * regular, "{bent_regular} s against {regular} s");
    // Alone with half of the link it would take 4.2 s.
    assert!(bent_push >= push && bent_push < 4.2 / 0.6, "{bent_push} s against {push} s");
    let refused = Scenario::parse(&CONTRACT.replace("min_share = 1.0", "min_delivery = 0.9"), Path::new("push.toml"))
        .and_then(|scenario| scenario.resolve());
    let message = refused.expect_err("refused").to_string();
    assert!(message.contains("traffic.object.contract.min_delivery"), "{message}");
}

/// One object from hosts 0 to 2 to host 7.
const OBJECT: &str = r#"
duration = "20s"
drain = "0s"
topology = { kind = "star", hosts = 8, link = { rate = "968Mbit/s", delay = "20us" } }
queues = { limit = "100 packets", ecn = { threshold = "30 packets" } }
packets = { mss = "1170B", framing = "ip" }

[traffic.object]
kind = "objects"
transport = "push"
fanout = 3
holders = "0..3"
receivers = 7
size = "40MB"
period = "0s"
objects = 1
push = { weights = "equal" }
"#;

/// Time of the object in seconds, and the part of it that each host brought, by host.
fn one_object(changes: &[&str]) -> (f64, Vec<f64>) {
    let result = run_with(OBJECT, changes);
    let object = result.objects()[0];
    let mut parts = vec![0.0; 8];
    for flow in &result.flows {
        parts[flow.source as usize] = flow.delivered_bytes as f64 / object.bytes as f64;
    }
    assert_eq!(object.delivered_bytes, object.bytes);
    (object.completion_time().expect("complete").as_secs_f64(), parts)
}

/// Hosts that are down: the others bring what they do not, one that joins brings a part, one that takes orders and sends
/// nothing is no worse than a dead one, and after a pause of all, longer than sources wait, the object goes on.
#[test]
fn sources_fail_join_and_lie() {
    let (well, parts) = one_object(&[]);
    assert!(parts[..3].iter().all(|part| *part > 0.2), "{parts:?}");
    for loss in ["", ", loss = 1.0"] {
        let outage = format!("outages=[{{ hosts = \"0..2\", from = \"50ms\"{loss} }}]");
        let (time, parts) = one_object(&[&outage]);
        assert!(time < 1.2 * well && parts[2] > 0.5, "{time} s against {well} s, {parts:?}");
    }
    let (_, parts) = one_object(&[r#"outages=[{ hosts = "0", until = "150ms" }]"#]);
    assert!(parts[0] > 0.05 && parts[0] < 0.3, "{parts:?}");
    let (time, _) = one_object(&[r#"outages=[{ hosts = "0..3", from = "50ms", until = "12s" }]"#]);
    assert!(time > 12.0 && time < 12.0 + well + 1.0, "{time} s");
}

/// A fourth source waits while three send, and takes the place of one that is down.
#[test]
fn a_source_that_waits_takes_over() {
    let four = ["object.fanout=4", "object.holders=0..4", "object.size=120MB", "push.waiting=1"];
    let (_, parts) = one_object(&four);
    assert_eq!(parts.iter().filter(|part| **part > 0.0).count(), 3, "{parts:?}");
    let waiting = (0..4).find(|host| parts[*host] == 0.0).expect("one waits");
    let down = (waiting + 1) % 4;
    let outage = format!("outages=[{{ hosts = {down}, from = \"20ms\" }}]");
    let (_, parts) = one_object(&[&four[..], &[&outage]].concat());
    assert!(parts[waiting] > 0.1, "{parts:?}");
}

/// Two objects of which the larger has priority: it takes what it takes alone, within 20 %; without it the smaller one goes
/// first.
#[test]
fn priority_goes_before_the_remaining_size() {
    let text = OBJECT
        .replace("[traffic.object]", "[traffic.small]")
        .replace("40MB", "10MB")
        .replace("\"equal\"", "\"remaining\"");
    let large = &OBJECT[OBJECT.find("[traffic.object]").expect("it is there")..];
    let text = format!("{text}{}", large.replace("\"equal\"", "\"remaining\""));
    let times = |changes: &[&str]| {
        let result = run_with(&text, changes);
        let time = |group: u16| {
            let objects = result.objects();
            let object = objects.iter().find(|object| object.group == group).expect("one each");
            object.completion_time().expect("complete").as_secs_f64()
        };
        (time(0), time(1))
    };
    let group_of_small = run_with(&text, &[]).groups.iter().position(|group| group.name == "small").expect("there");
    let order = |(first, second)| if group_of_small == 0 { (first, second) } else { (second, first) };
    let (small, large) = order(times(&[]));
    let (patient, urgent) = order(times(&["object.contract.priority=1"]));
    let (alone, _) = one_object(&[]);
    assert!(urgent < 1.2 * alone && urgent < large, "{urgent} s, alone {alone} s, without priority {large} s");
    assert!(patient > 2.0 * small, "{patient} s against {small} s");
}

/// What is left out by messages to and from the controller that take no room on links and no time: as packets of 84 bytes
/// they would be less than a five-hundredth of the objects' bytes; and with a round trip's delay each way an object takes
/// two of these longer, its fetch and its sources' orders, and else the same within 2 %.
#[test]
fn messages_of_the_controller_are_few_and_may_be_late() {
    let mean_time = |result: &RunResult| {
        mean(result.objects().iter().map(|object| object.completion_time().expect("complete").as_secs_f64()))
    };
    let prompt = run_with(OBJECTS, &[]);
    let bytes: u64 = prompt.objects().iter().map(|object| object.bytes).sum();
    let messages = prompt.control_messages;
    assert!(messages > 40 * 8, "fetch and fin with their answers, three orders and what accepts them: {messages}");
    assert!(messages * 84 < bytes / 500, "{messages} messages for {bytes} bytes");
    let late = run_with(OBJECTS, &["push.control_delay=100us"]);
    let (prompt, late) = (mean_time(&prompt), mean_time(&late));
    assert!((late - prompt - 2.0 * 100e-6).abs() < 0.02 * prompt, "{late} s against {prompt} s");
}
