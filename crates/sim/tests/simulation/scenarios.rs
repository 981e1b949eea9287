//! Scenarios written out in tests, run as the command does.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use pliant_sim::results::{FlowRow, FlowState, RunResult};
use pliant_sim::run::run;
use pliant_sim::scenario::{Override, Resolved, Scenario, ScenarioError};

/// 12 s on a drop-tail line of 100 Mbit/s between two pairs of hosts, with a buffer of more than a bandwidth-delay product.
pub(crate) const DROP_TAIL_LINE: &str = r#"
duration = "12s"
warmup = "0s"
drain = "0s"
host_jitter = "20us"
[topology]
kind = "dumbbell"
pairs = 2
edge_link = { rate = "1Gbit/s", delay = "10us" }
bottleneck_link = { rate = "100Mbit/s", delay = "30us" }
[queues]
plan = "drop-tail"
limit = "500kB"
[host_queues]
plan = "drop-tail"
limit = "10000 packets"
"#;

/// One flow that takes what it gets, from host 0 to host 2.
pub(crate) const GREEDY: &str = r#"
[traffic.foreground]
kind = "flows"
flows = [{ source = 0, destination = 2 }]
transport = "kernel"
"#;

/// The scenario `text` under `changes`, each as `KEY=VALUE`.
pub(crate) fn resolve_with(text: &str, changes: &[&str]) -> Resolved {
    let changes: Vec<_> = changes.iter().map(|change| Override::parse("--set", change).expect("KEY=VALUE")).collect();
    resolve(text, &changes).unwrap_or_else(|error| panic!("{error}"))
}

/// The scenario `text`, or why it is refused.
pub(crate) fn try_resolve(text: &str) -> Result<Resolved, String> {
    resolve(text, &[]).map_err(|error| error.to_string())
}

fn resolve(text: &str, changes: &[Override]) -> Result<Resolved, ScenarioError> {
    Scenario::parse(text, Path::new("test.toml"))?.with(changes)?.resolve()
}

/// What becomes of it.
pub(crate) fn run_resolved(scenario: &Resolved) -> RunResult {
    run(scenario, &AtomicBool::new(false), &mut |_| {}).expect("a run")
}

/// Both in one.
pub(crate) fn run_with(text: &str, changes: &[&str]) -> RunResult {
    run_resolved(&resolve_with(text, changes))
}

/// When the last flow completed, in seconds; all did.
pub(crate) fn last_completion(result: &RunResult) -> f64 {
    assert!(result.flows.iter().all(|flow| flow.state == FlowState::Completed));
    result.flows.iter().filter_map(FlowRow::fct).max().expect("there are flows").as_secs_f64()
}
