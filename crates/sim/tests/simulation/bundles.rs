//! Bundles: flows between two hosts that share one flow and one contract take what one flow takes, and each keeps its own
//! size, start and completion.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::sample::select;

use pliant_proto::time::Instant;
use pliant_sim::results::{FlowRow, FlowState, RunResult};

use crate::common::cases;
use crate::scenarios::{DROP_TAIL_LINE, GREEDY, resolve_with, run_resolved, run_with, try_resolve};

/// A line of 1 Gbit/s. `many` are 64 flows from host 1 to host 3, `single` is one from host 0 to host 2.
const LINE: &str = r#"
duration = "1s"
drain = "0s"
host_jitter = "5us"
[topology]
kind = "dumbbell"
pairs = 2
edge_link = { rate = "10Gbit/s", delay = "5us" }
bottleneck_link = { rate = "1Gbit/s", delay = "50us" }
[queues]
plan = "shared"
limit = "300kB"
ecn = "20 packets"
[traffic.single]
kind = "flows"
flows = [{ source = 0, destination = 2 }]
"#;

fn many(flows: usize, keys: &str) -> String {
    let list = vec!["{ source = 1, destination = 3 }"; flows].join(", ");
    format!("[traffic.many]\nkind = \"flows\"\nflows = [{list}]\n{keys}\n")
}

/// Bytes that flows from `source` delivered.
fn delivered(result: &RunResult, source: u32) -> u64 {
    result.flows.iter().filter(|flow| flow.source == source).map(|flow| flow.delivered_bytes).sum()
}

fn share_of_many(result: &RunResult) -> f64 {
    let (single, many) = (delivered(result, 0) as f64, delivered(result, 1) as f64);
    many / (single + many)
}

/// 64 flows in a bundle take what one flow takes beside another: half of the line. Without the bundle they take 64 of 65
/// parts. Turns are a segment long, so the members of a bundle have the same but for the first windows, which are those of the
/// flows that start first.
#[test]
fn a_bundle_of_64_flows_takes_what_one_flow_takes() {
    let scenario = format!("{LINE}{}", many(64, "bundle = true"));
    let bundled = run_with(&scenario, &[]);
    let share = share_of_many(&bundled);
    assert!((0.47..=0.53).contains(&share), "{share}");
    let own: Vec<u64> = bundled.flows.iter().filter(|flow| flow.source == 1).map(|flow| flow.delivered_bytes).collect();
    let (least, most) = own.iter().fold((u64::MAX, 0), |(least, most), &bytes| (least.min(bytes), most.max(bytes)));
    assert!(own.len() == 64 && most - least <= 20 * 1460, "{least} to {most} bytes");
    let share = share_of_many(&run_with(&scenario, &["traffic.many.bundle=false"]));
    assert!(share > 0.95, "{share}, 64/65 = 0.985");
}

/// The promise is to the sum: 64 flows of `bounded` in a bundle keep what one flow of `bounded` keeps beside CUBIC, within a
/// tenth. Without the bundle, each of the 64 is promised half of a CUBIC flow's rate.
#[test]
fn the_promise_is_to_the_sum() {
    let keys = "transport = \"bounded\"\ncontract = { min_share = 0.5 }\ntcp = { min_rto = \"200ms\", rack = true, prr = true }";
    let one = share_of_many(&run_with(&format!("{DROP_TAIL_LINE}{GREEDY}{}", many(1, keys)), &[]));
    let bundle = format!("{DROP_TAIL_LINE}{GREEDY}{}", many(64, &format!("bundle = true\n{keys}")));
    let bundled = share_of_many(&run_with(&bundle, &[]));
    let apart = share_of_many(&run_with(&bundle, &["traffic.many.bundle=false"]));
    println!("one {one:.3}, 64 in a bundle {bundled:.3}, 64 apart {apart:.3}");
    assert!((bundled / one - 1.0).abs() <= 0.1, "{bundled} in a bundle, {one} alone");
    assert!(apart > 2.0 * bundled, "{apart} apart, {bundled} in a bundle");
}

/// In two classes, too: 64 flows of `bounded-two-class` in a bundle take what a bundle of one does and what a flow without an
/// end does, and keep half of a fair share, a quarter of the line, within a tenth.
#[test]
fn the_promise_of_two_classes_is_to_the_sum() {
    let keys = "transport = \"bounded-two-class\"\nclass = 1\ncontract = { min_share = 0.5 }";
    let share = |flows, bundle: bool| {
        let scenario = format!("{LINE}{}", many(flows, &format!("bundle = {bundle}\n{keys}")));
        share_of_many(&run_with(&scenario, &["duration=300ms", "queues.plan=dwrr-9-1", "queues.limit=1MB"]))
    };
    let (one, all) = (share(1, true), share(64, true));
    assert!((all / one - 1.0).abs() < 0.01 && all > 0.225, "{all} of the line, a bundle of one {one}");
    let (single, apart) = (share(1, false), share(64, false));
    assert!(
        (all / single - 1.0).abs() < 0.02 && apart > 0.7,
        "{all} of the line, a single flow {single}, 64 apart {apart}"
    );
}

/// Two hosts, one flow.
const ALONE: &str = r#"
duration = "1s"
[topology]
kind = "dumbbell"
pairs = 1
edge_link = { rate = "10Gbit/s", delay = "5us" }
bottleneck_link = { rate = "1Gbit/s", delay = "100us" }
[queues]
plan = "strict"
limit = "100kB"
ecn = "20 packets"
[traffic.many]
kind = "flows"
flows = [{ source = 0, destination = 1, size = "SIZE" }]
bundle = true
"#;

/// A bundle of one flow is that flow: the same completion time to the picosecond, from a byte to many windows, with and
/// without losses, pacing, a handshake or a greatest rate. Not so of `bounded-two-class`, which looks at what is left. With a limited send buffer it is the same to a ten-thousandth.
#[test]
fn a_bundle_of_one_flow_is_that_flow() {
    let transports: [&[&str]; 8] = [
        &["traffic.many.transport=dctcp"],
        &["traffic.many.transport=cubic", "queues.ecn=false"],
        &["traffic.many.transport=kernel", "queues.ecn=false"],
        &["traffic.many.transport=newreno", "queues.ecn=false", r#"traffic.many.tcp={ send_buffer = "30kB" }"#],
        &["traffic.many.transport=bounded", "traffic.many.contract.min_share=0.5"],
        &["traffic.many.transport=dctcp", r#"traffic.many.contract={ max_rate = "300Mbit/s" }"#],
        &["traffic.many.transport=cubic", "traffic.many.class=1", "traffic.many.cross_queue={}"],
        &["traffic.many.transport=ledbat++"],
    ];
    for size in ["1B", "1460B", "1461B", "100kB", "3MB", "20MB"] {
        for changes in transports {
            let scenario = ALONE.replace("SIZE", size);
            let bundled = run_with(&scenario, changes);
            let plain = run_with(&scenario, &[changes, &["traffic.many.bundle=false"]].concat());
            let story = |result: &RunResult| {
                let flow = &result.flows[0];
                (flow.state, flow.fct(), flow.ideal_fct, flow.retransmissions, flow.timeouts, flow.drops)
            };
            assert_eq!(bundled.flows.len(), 1);
            assert_eq!(bundled.flows[0].state, FlowState::Completed);
            if changes.iter().any(|change| change.contains("send_buffer")) {
                // A flow writes what its buffer has room for, cut where the room ends.
                let [bundled, plain] =
                    [&bundled, &plain].map(|run| run.flows[0].fct().expect("completed").as_secs_f64());
                assert!((bundled / plain - 1.0).abs() < 1e-4, "{size}: {bundled} s, not {plain} s");
                continue;
            }
            assert_eq!(story(&bundled), story(&plain), "{size} {changes:?}");
        }
    }
}

/// A flow of 100 kB that joins a bundle under a flow of 1 GB takes every other segment: it has twice its own bytes and what
/// was in flight before it to wait for, not a gigabyte.
#[test]
fn a_small_member_is_not_blocked_behind_a_large_one() {
    let flows = r#"flows = [{ source = 0, destination = 1, size = "1GB" }, { source = 0, destination = 1, size = "100kB", start = "200ms" }]"#;
    let scenario = ALONE.replace(r#"flows = [{ source = 0, destination = 1, size = "SIZE" }]"#, flows);
    let result = run_with(&scenario, &["drain=20s"]);
    let [large, small] = &result.flows[..] else { panic!("two flows") };
    assert_eq!((large.state, small.state), (FlowState::Completed, FlowState::Completed));
    // 200 kB and at most 100 kB in the queue take 2.5 ms at 1 Gbit/s. 1 GB takes 8.4 s.
    let fct = small.fct().expect("completed").as_secs_f64();
    assert!((1.6e-3..4e-3).contains(&fct), "{fct} s");
}

/// A closed loop goes on in its bundle: each flow starts when the one before it is over.
#[test]
fn closed_loops_go_on_in_a_bundle() {
    let text = r#"
duration = "10ms"
[topology]
kind = "star"
hosts = 2
link = { rate = "10Gbit/s", delay = "1us" }
[traffic.loops]
kind = "closed-loop"
source = 0
destination = 1
loops = 3
size = "20kB"
bundle = true
"#;
    let result = run_with(text, &[]);
    assert!(result.flows.len() > 100, "{} flows", result.flows.len());
    assert!(result.flows.iter().all(|flow| flow.state == FlowState::Completed && flow.delivered_bytes == flow.bytes));
    let mut ends: BTreeMap<u64, Instant> = BTreeMap::new();
    for flow in &result.flows {
        let before = ends.insert(flow.request, flow.completed.expect("completed"));
        assert!(before.is_none_or(|before| before < flow.start), "flow {} of loop {}", flow.id, flow.request);
    }
    assert_eq!(ends.len(), 3);
}

/// Who cannot carry a bundle says so, with the key; what has no meaning in a bundle, too.
#[test]
fn what_has_no_bundle_is_refused_by_name() {
    let scenario = |keys: &str| {
        format!(
            "duration = \"1ms\"\n[topology]\nkind = \"star\"\nhosts = 2\nlink = \"10Gbit/s\"\n[traffic.g]\nkind = \"flows\"\n\
             flows = [{{ source = 0, destination = 1, size = \"1kB\" }}]\nbundle = true\n{keys}\n"
        )
    };
    for transport in
        ["push", "atp", "pfabric", "homa", "ndp", "scdp", "udp", "dccp", "near-opt", "flexpass", "dctcp-sd"]
    {
        let why = try_resolve(&scenario(&format!("transport = \"{transport}\""))).expect_err(transport);
        let said = format!("{transport} does not carry several flows in one stream of bytes");
        assert!(why.contains("traffic.g.bundle") && why.contains(&said), "{why}");
    }
    let refused = [
        ("messages = { size = \"1kB\" }", "traffic.g.messages", "a bundle carries bytes"),
        (
            "transport = \"bounded\"\ncontract = { min_share = 0.5, done_by = \"1s\" }",
            "traffic.g.contract.done_by",
            "the bundle does not",
        ),
        (
            "reflex = {}\ncontract = { min_share = 0.5, min_delivery = 0.9 }",
            "traffic.g.contract.min_delivery",
            "a bundle has no end",
        ),
    ];
    for (keys, key, said) in refused {
        let why = try_resolve(&scenario(keys)).expect_err(key);
        assert!(why.contains(key) && why.contains(said), "{why}");
    }
    let why = try_resolve(&format!("shares = true\n{}", scenario(""))).expect_err("shares");
    assert!(why.contains("traffic.g.bundle") && why.contains("`shares`"), "{why}");
    let bounded = scenario("transport = \"bounded\"\ncontract = { min_share = 0.5 }");
    assert!(!resolve_with(&bounded, &[]).computes_shares(), "a promise alone does not ask for them");
}

/// Transports that carry bundles, with the plan and the keys that they need.
fn carriers() -> impl Strategy<Value = (&'static str, &'static str)> {
    select(vec![
        ("shared", "transport = \"dctcp\""),
        ("drop-tail", "transport = \"cubic\""),
        ("drop-tail", "transport = \"newreno\"\ntcp = { send_buffer = \"20kB\" }"),
        ("drop-tail", "transport = \"kernel\""),
        ("shared", "transport = \"weighted-fair\"\ncontract = { weight = 0.25 }"),
        ("drop-tail", "transport = \"bounded\"\ncontract = { min_share = 0.5 }"),
        ("drop-tail", "transport = \"dctcp\"\ncontract = { max_rate = \"200Mbit/s\" }"),
        ("reflex", "transport = \"dctcp\"\ncontract = { min_share = 0.8 }\nreflex = { interval = \"1ms\" }"),
        ("strict", "transport = \"cubic\"\nclass = 1\ncross_queue = {}"),
        ("dwrr-9-1", "transport = \"bounded-two-class\"\nclass = 1\ncontract = { min_share = 0.5 }"),
    ])
}

fn groups() -> impl Strategy<Value = String> {
    let flow = (0u32..4, 1u32..4, 0u64..3000, prop_oneof![1u64..3000, 1u64..400_000]);
    prop::collection::vec(flow, 1..24).prop_map(|flows| {
        let flow = |(source, hop, start, size): (u32, u32, u64, u64)| {
            let destination = (source + hop) % 4;
            format!("{{ source = {source}, destination = {destination}, start = \"{start}us\", size = \"{size}B\" }}")
        };
        format!("flows = [{}]", flows.into_iter().map(flow).collect::<Vec<_>>().join(", "))
    })
}

proptest! {
    #![proptest_config(cases(60))]

    /// Every byte of every member arrives once, whatever carries the bundles and however much is lost. No member is faster
    /// than alone on an empty path. Rows of packet counts add up, and a second run is the same.
    #[test]
    fn every_member_has_its_bytes(
        (plan, keys) in carriers(), flows in groups(), loss in select(vec![0.0, 0.01, 0.1]), seed in 0u32..1000, limit in 5u32..60,
    ) {
        let losses = if loss > 0.0 {
            format!("losses = [{{ link = \"switch 0 -> host 1\", probability = {loss} }}]\n")
        } else {
            String::new()
        };
        let text = format!(
            "duration = \"10ms\"\ndrain = \"1000s\"\nseed = {seed}\n{losses}[topology]\nkind = \"star\"\nhosts = 4\n\
             link = \"1Gbit/s\"\n[queues]\nplan = \"{plan}\"\nlimit = \"{limit} packets\"\n[host_queues]\nplan = \"{plan}\"\n\
             [traffic.g]\nkind = \"flows\"\n{flows}\nbundle = true\n{keys}\n"
        );
        let scenario = resolve_with(&text, &[]);
        let result = run_resolved(&scenario);
        for flow in &result.flows {
            prop_assert_eq!(flow.state, FlowState::Completed, "{:?}", flow);
            prop_assert_eq!(flow.delivered_bytes, flow.bytes);
            prop_assert!(flow.fct().is_some_and(|fct| fct >= flow.ideal_fct), "{:?}", flow);
        }
        // Without losses on a wire, whatever a queue refused was some row's.
        if loss == 0.0 {
            let refused = crate::common::dropped(&result.ports.iter().map(|port| vec![port.counters]).collect::<Vec<_>>());
            let told: u64 = result.flows.iter().map(|flow: &FlowRow| u64::from(flow.drops)).sum();
            prop_assert!(told <= refused, "{} of {}", told, refused);
        }
        prop_assert_eq!(run_resolved(&scenario).digest, result.digest);
    }
}
