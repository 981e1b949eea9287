//! Hosts with several links, and several cables between the same nodes.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use pliant_sim::engine::flow_path;
use pliant_sim::results::{FlowRow, FlowState, RunResult};
use pliant_sim::run::run;
use pliant_sim::scenario::{Resolved, Scenario};

/// Twelve hosts, each on both leaves of a pair; many small flows to the other pair.
const DUAL: &str = r#"
duration = "20ms"

[topology]
kind = "leaf-spine"
leaves = 4
spines = 2
hosts_per_leaf = 6
leaves_per_host = 2
host_link = "10Gbit/s"
fabric_link = "40Gbit/s"

[traffic.web]
kind = "poisson"
size = "20kB"
load = 0.3
"#;

fn resolve(text: &str) -> Resolved {
    Scenario::parse(text, Path::new("dual.toml")).unwrap().resolve().unwrap()
}

fn error(text: &str) -> String {
    let refused = Scenario::parse(text, Path::new("dual.toml")).and_then(|scenario| scenario.resolve());
    refused.expect_err("an error").to_string()
}

fn ran(text: &str) -> RunResult {
    run(&resolve(text), &AtomicBool::new(false), &mut |_| {}).unwrap()
}

/// Bytes that left each port.
fn sent(result: &RunResult) -> BTreeMap<&str, u64> {
    let mut sent = BTreeMap::new();
    for row in &result.ports {
        *sent.entry(&*row.name).or_default() += row.dequeued().bytes;
    }
    sent
}

/// The load is that of both links, flows take either by hash, in both directions, and the same seed gives the same run.
#[test]
fn both_links_of_a_host_carry_its_flows() {
    let result = ran(DUAL);
    assert_eq!(ran(DUAL).digest, result.digest);
    assert!(result.flows.len() > 5000, "{} flows: 0.3 of 240 Gbit/s", result.flows.len());
    assert!(result.flows.iter().all(|flow| flow.state == FlowState::Completed));
    let sent = sent(&result);
    for (there, back) in [("host 0 -> leaf 0", "host 0 -> leaf 1"), ("leaf 0 -> host 0", "leaf 1 -> host 0")] {
        let ratio = sent[there] as f64 / sent[back] as f64;
        assert!((0.8..1.25).contains(&ratio), "{there}: {ratio}");
    }
    for row in &result.ports {
        assert!(row.dequeued().packets > 0, "{} is used", row.name);
    }
}

/// One flow stays on one link of each end.
#[test]
fn a_flow_keeps_to_one_link() {
    let flows = "[traffic.one]\nkind = \"flows\"\nflows = [{ source = 0, destination = 11, size = \"1MB\" }]\n";
    let text = format!("{}{flows}", &DUAL[..DUAL.find("[traffic").unwrap()]);
    let result = ran(&text);
    let used = result.ports.iter().filter(|row| row.dequeued().packets > 0).count();
    assert_eq!(used, 8, "four links there and four back");
}

/// A link of a host fails and comes back, and so does a leaf: flows move to the other, nothing is lost after the move, all
/// flows complete, and a link that is down carries nothing after packets under way have gone.
#[test]
fn a_failed_link_of_a_host_is_left() {
    let never = "until = \"19ms\"\nreroute_after = \"0s\"\n";
    for outage in ["links = [\"host 0 -> leaf 1\"]\n", "switches = [\"leaf 1\"]\n"] {
        let text = format!("{DUAL}\n[[outages]]\n{outage}from = \"0s\"\n{never}");
        let result = ran(&text.replace("duration = \"20ms\"", "duration = \"15ms\""));
        assert!(result.flows.iter().all(|flow| flow.state == FlowState::Completed && flow.drops == 0), "{outage}");
        let sent = sent(&result);
        assert_eq!((sent["host 0 -> leaf 1"], sent["leaf 1 -> host 0"]), (0, 0), "{outage}");
        assert!(sent["host 0 -> leaf 0"] > 0 && sent["leaf 0 -> host 0"] > 0);
    }
    let text = format!(
        "{DUAL}\n[[outages]]\nlinks = [\"leaf 1 -> host 0\"]\nfrom = \"5ms\"\nuntil = \"10ms\"\nreroute_after = \"100us\"\n"
    );
    let result = ran(&text);
    assert!(result.flows.iter().all(|flow| flow.state == FlowState::Completed));
    let lost: u64 = result.flows.iter().map(|flow| u64::from(flow.drops)).sum();
    assert!(lost > 0, "until paths move the link loses what is sent on it");
    let both = sent(&result);
    assert!(both["host 0 -> leaf 1"] > 0, "before, and again afterwards");
}

/// Two cables between each leaf and each spine: each carries its part, and one of them may fail.
#[test]
fn parallel_cables_share_the_load() {
    let text =
        DUAL.replace("leaves_per_host = 2\n", "cables = 2\n").replace("load = 0.3", "load = 0.3\ninter_rack = true");
    let result = ran(&text);
    let sent = sent(&result);
    for (there, back) in [
        ("leaf 0 -> spine 0", "leaf 0 -> spine 0 (2)"),
        ("leaf 0 -> spine 0", "leaf 0 -> spine 1 (2)"),
        ("spine 1 -> leaf 2", "spine 1 -> leaf 2 (2)"),
    ] {
        let ratio = sent[there] as f64 / sent[back] as f64;
        assert!((0.8..1.25).contains(&ratio), "{there}: {ratio}");
    }
    let outage = "[[outages]]\nlinks = [\"leaf 0 -> spine 0 (2)\"]\nreroute_after = \"0s\"\n";
    let result = ran(&format!("{text}\n{outage}"));
    let sent = self::sent(&result);
    assert_eq!((sent["leaf 0 -> spine 0 (2)"], sent["spine 0 -> leaf 0 (2)"]), (0, 0));
    assert!(result.flows.iter().all(|flow| flow.state == FlowState::Completed && flow.drops == 0));
}

/// What cannot be is said by name.
#[test]
fn mistakes_are_named() {
    let single = DUAL.replace("leaves_per_host = 2\n", "");
    for (text, said) in [
        (
            format!("{single}\n[[outages]]\nlinks = [\"host 0 -> leaf 0\"]\n"),
            "`outages.0.links`: host 0 -> leaf 0 is the only link of host 0: name the host as `hosts`",
        ),
        (
            format!("{single}\n[[outages]]\nswitches = [\"leaf 0\"]\n"),
            "`outages.0.switches`: leaf 0 is the only switch of hosts such as host 0: name these as `hosts`, too",
        ),
        (
            format!(
                "{DUAL}\n[[outages]]\nlinks = [\"host 0 -> leaf 0\", \"host 0 -> leaf 1\"]\nreroute_after = \"1ms\"\n"
            ),
            "`outages.0.reroute_after`: without",
        ),
        (DUAL.replace("leaves = 4", "leaves = 3"), "`leaves` = 3 must be a multiple of 2"),
    ] {
        let refused = error(&text);
        assert!(refused.contains(said), "{refused}");
    }
}

/// Credits take the way of their data back, over the same link of a dual-homed host.
#[test]
fn credits_pace_dual_homed_hosts() {
    let text = format!("{DUAL}transport = \"expresspass\"\n[queues]\nplan = \"expresspass\"\n");
    let result = ran(&text);
    assert!(result.flows.iter().all(|flow| flow.state == FlowState::Completed));
}

/// Three hosts at a switch, to which host 0 has so many cables; `flows` begin at once. The name of the file tells tests apart.
fn at_a_switch(cables: usize, flows: &str, transport: &str, routing: &str, seed: u64) -> Resolved {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let file = format!("at_a_switch_{cables}.csv");
    let cable = |host: u32| format!("host{host},tor,10Gbit/s,1us\n");
    let list: String = [vec![cable(0); cables], vec![cable(1), cable(2)]].concat().concat();
    std::fs::write(folder.join(&file), format!("from,to,rate,delay\n{list}")).unwrap();
    let text = format!(
        "duration = \"1ms\"\ndrain = \"1s\"\nseed = {seed}\nrouting = \"{routing}\"\n[topology]\nkind = \"edge-list\"\n\
         file = \"{file}\"\n[queues]\nplan = \"{transport}\"\n[traffic.two]\nkind = \"flows\"\n\
         transport = \"{transport}\"\nflows = [{flows}]\n"
    );
    Scenario::parse(&text, &folder.join("two.toml")).unwrap().resolve().unwrap()
}

const INCAST: &str = "{ source = 1, destination = 0, size = \"5MB\" }, { source = 2, destination = 0, size = \"5MB\" }";
const OUTCAST: &str =
    "{ source = 0, destination = 1, size = \"5MB\" }, { source = 0, destination = 2, size = \"5MB\" }";

/// Whether the flows of a scenario are on different links of host 0.
fn are_spread(scenario: &Resolved) -> bool {
    let mut used = Vec::new();
    for flow in scenario.traffic().unwrap() {
        let mut path = Vec::new();
        flow_path(&scenario.routing, &flow, scenario.spec.seed, &mut path);
        used.push(if flow.source == 0 { path[0] } else { path[path.len() - 1] });
    }
    used.windows(2).all(|two| two[0] != two[1])
}

/// When the last flow is over.
fn all_over(scenario: &Resolved) -> f64 {
    let result = run(scenario, &AtomicBool::new(false), &mut |_| {}).unwrap();
    let over = |flow: &FlowRow| flow.fct().expect("it is over").as_secs_f64();
    result.flows.iter().map(over).fold(0.0, f64::max)
}

/// Two flows to a host with two links of the senders' rate, or from it, take half of the time that they take over one link:
/// with receivers that pull and with receivers that grant, flow by flow, and packet by packet whatever path flows are pinned to.
#[test]
fn two_links_take_half_the_time() {
    for transport in ["ndp", "scdp", "homa"] {
        for (flows, what) in [(INCAST, "to it"), (OUTCAST, "from it")] {
            let one = all_over(&at_a_switch(1, flows, transport, "ecmp", 1));
            let alone = 5e6 * 8.0 / 10e9;
            assert!((one / (2.0 * alone) - 1.0).abs() < 0.08, "{transport} {what} over one link: {one}");
            let spread = (1..50).map(|seed| at_a_switch(2, flows, transport, "ecmp", seed)).find(are_spread).unwrap();
            let two = all_over(&spread);
            assert!((two / one - 0.5).abs() < 0.02, "{transport} {what}: {two} of {one}");
        }
        let together = (1..50).map(|seed| at_a_switch(2, INCAST, transport, "spray-permutation", seed));
        let together = together.into_iter().find(|scenario| !are_spread(scenario)).unwrap();
        let one = all_over(&at_a_switch(1, INCAST, transport, "spray-permutation", 1));
        let two = all_over(&together);
        assert!((two / one - 0.5).abs() < 0.02, "{transport} sprayed: {two} of {one}");
    }
}

/// Under each transport with turns or grants, many flows between hosts with two switches complete, and the same seed gives the
/// same run; a link that fails is left.
#[test]
fn transports_with_turns_run_on_dual_homed_hosts() {
    for transport in ["ndp", "scdp", "homa"] {
        let text = format!("{DUAL}transport = \"{transport}\"\n[queues]\nplan = \"{transport}\"\n");
        let text = text.replace("duration = \"20ms\"", "duration = \"3ms\"");
        let outage = "[[outages]]\nlinks = [\"host 0 -> leaf 1\"]\nfrom = \"1ms\"\nreroute_after = \"50us\"\n";
        for text in [text.clone(), format!("{text}\n{outage}")] {
            let result = ran(&text);
            assert!(result.flows.iter().all(|flow| flow.state == FlowState::Completed), "{transport}");
            assert_eq!(ran(&text).digest, result.digest, "{transport}");
        }
    }
}
