use std::path::Path;
use std::sync::atomic::AtomicBool;

use super::*;
use crate::scenario::{Override, Scenario};

const SMALL: &str = r#"
duration = "2ms"
[topology]
kind = "leaf-spine"
leaves = 2
spines = 2
hosts_per_leaf = 4
host_link = { rate = "10Gbit/s", delay = "1us" }
[traffic.web]
kind = "poisson"
size = "2kB..100kB"
load = 0.6
[traffic.backup]
kind = "flows"
flows = [{ source = 0, destination = 5, size = "1MB" }, { source = 1, destination = 5, start = "100us" }]
class = 1
"#;

fn run_small(changes: &[&str]) -> RunResult {
    let changes: Vec<_> = changes.iter().map(|change| Override::parse("--set", change).unwrap()).collect();
    let scenario = Scenario::parse(SMALL, Path::new("small.toml")).unwrap();
    let resolved = scenario.with(&changes).unwrap().resolve().unwrap();
    run(&resolved, &AtomicBool::new(false), &mut |_| {}).unwrap()
}

/// Every finite flow completes, the endless one runs to the end, and nothing is lost between.
#[test]
fn a_small_scenario_runs_to_its_end() {
    let result = run_small(&[]);
    let states = |state| result.flows.iter().filter(|flow| flow.state == state).count();
    assert!(result.flows.len() > 100, "{} flows", result.flows.len());
    assert_eq!(states(FlowState::RanToEnd), 1);
    assert_eq!(states(FlowState::Completed), result.flows.len() - 1);
    assert!(result.simulated >= Span::from_ms(2) && !result.interrupted);
    assert_eq!(result.ports.len(), 2 * (8 + 4), "a queue for each direction of 8 host cables and 4 fabric cables");
}

/// Equal seeds give equal runs, recorded or not; another seed gives another.
#[test]
fn the_digest_depends_on_the_seed_alone() {
    let first = run_small(&[]);
    assert_eq!(first.digest, run_small(&[]).digest);
    let recorded = run_small(&["sample_interval=50us"]);
    assert_eq!((recorded.digest, &recorded.flows), (first.digest, &first.flows));
    assert!(!recorded.queue_samples.is_empty() && !recorded.throughput_samples.is_empty());
    assert_ne!(first.digest, run_small(&["seed=2"]).digest);
}

/// Every transport and every named queue plan carries the same flows to their end.
#[test]
fn transports_and_plans_complete() {
    for transport in ["reno", "newreno", "cubic", "dctcp", "weighted-fair"] {
        for plan in ["drop-tail", "shared", "strict", "dwrr-9-1", "wfq-99-1", "reflex", "low-priority"] {
            let result = run_small(&[
                &format!("traffic.web.transport={transport}"),
                &format!("queues.plan={plan}"),
                "duration=500us",
                "drain=1s",
            ]);
            let unfinished = result.flows.iter().filter(|flow| flow.state == FlowState::Unfinished).count();
            assert_eq!(unfinished, 0, "{transport} over {plan}");
        }
    }
}

#[test]
fn flows_of_the_warm_up_have_no_row() {
    let (all, warm) = (run_small(&[]), run_small(&["warmup=1ms"]));
    assert_eq!(all.digest, warm.digest);
    let late = all.flows.iter().filter(|flow| flow.start >= Instant::ZERO.after(Span::from_ms(1))).count();
    assert!(late < all.flows.len());
    assert_eq!(warm.flows.len(), late);
}

#[test]
fn an_interrupted_run_keeps_what_finished() {
    let resolved = Scenario::parse(SMALL, Path::new("small.toml")).unwrap().resolve().unwrap();
    let interrupt = AtomicBool::new(false);
    let mut stop_at_half = |progress: &Progress| {
        if progress.now >= Span::from_ms(1) {
            interrupt.store(true, Ordering::Relaxed);
        }
    };
    let result = run(&resolved, &interrupt, &mut stop_at_half).unwrap();
    assert!(result.interrupted && result.simulated <= Span::from_ms(1));
    assert!(result.flows.iter().any(|flow| flow.state == FlowState::Completed));
}

/// Datagrams beyond a link's rate are lost, and the flow says so.
#[test]
fn udp_overload_loses() {
    let result = run_small(&["traffic.web.load=0.01", "backup.transport=udp", "traffic.backup.udp.rate=9Gbit/s"]);
    let finite = result.flows.iter().find(|flow| flow.group == 1 && flow.bytes == 1_000_000).unwrap();
    assert_eq!(finite.state, FlowState::SentWithLoss);
    assert!(finite.delivered_bytes < finite.bytes && finite.drops > 0);
}

/// Where the fabric is slower than the hosts, sprayed packets beat any one path, but never the sum of the paths: the
/// run would panic.
#[test]
fn sprayed_flows_do_not_beat_their_ideal() {
    for routing in ["spray-random", "spray-round-robin"] {
        let changes = [
            "topology.spines=4",
            "topology.host_link.rate=40Gbit/s",
            "topology.fabric_link={rate=\"10Gbit/s\", delay=\"1us\"}",
            "traffic.web.load=0.2",
        ];
        let routing = format!("routing={routing}");
        let result = run_small(&[&changes[..], &[routing.as_str()]].concat());
        assert!(result.flows.iter().any(|flow| flow.state == FlowState::Completed));
    }
}
