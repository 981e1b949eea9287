//! Weighted equal-cost paths, and flowlets.

use std::fmt::Write;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use pliant_sim::results::{FlowState, RunResult};
use pliant_sim::run::run;
use pliant_sim::scenario::{Override, Resolved, Scenario};

/// Two leaves with three spines between them, all flows from leaf 1 to leaf 0: the sender has the higher number.
const THREE: &str = r#"
duration = "40ms"

[topology]
kind = "leaf-spine"
leaves = 2
spines = 3
hosts_per_leaf = 8
host_link = "10Gbit/s"
fabric_link = "40Gbit/s"

[traffic.web]
kind = "poisson"
sources = "8..16"
destinations = "0..8"
size = "20kB"
load = 0.4
"#;

fn resolve(changes: &[&str]) -> Resolved {
    let changes: Vec<Override> = changes.iter().map(|text| Override::parse("--set", text).unwrap()).collect();
    Scenario::parse(THREE, Path::new("three.toml")).unwrap().with(&changes).unwrap().resolve().unwrap()
}

fn ran(changes: &[&str]) -> RunResult {
    run(&resolve(changes), &AtomicBool::new(false), &mut |_| {}).unwrap()
}

/// Share of the packets of leaf 1 on the way up that each spine gets.
fn shares(result: &RunResult) -> [f64; 3] {
    let packets = |spine: u32| {
        let name = format!("leaf 1 -> spine {spine}");
        result.ports.iter().filter(|row| row.name == name).map(|row| row.dequeued().packets as f64).sum::<f64>()
    };
    let packets = [0, 1, 2].map(packets);
    packets.map(|of_spine| of_spine / packets.iter().sum::<f64>())
}

fn overtaken(result: &RunResult) -> u64 {
    result.flows.iter().map(|flow| u64::from(flow.overtaken)).sum()
}

const WEIGHTS: &str = "path_weights=[{link=\"leaf 1 -> spine 0\", weight=3}, {link=\"leaf 1 -> spine 1\", weight=2}]";

/// Data leaves its sender's leaf by the weights there, with flows and with flowlets; weights elsewhere change nothing.
#[test]
fn load_splits_by_weight() {
    for routing in ["routing=ecmp", "routing=flowlet"] {
        for (weights, expected) in [
            ("path_weights=equal", [1.0 / 3.0; 3]),
            ("path_weights=rate", [1.0 / 3.0; 3]),
            (WEIGHTS, [0.5, 1.0 / 3.0, 1.0 / 6.0]),
            ("path_weights=[{link=\"leaf 0 -> spine 0\", weight=9}]", [1.0 / 3.0; 3]),
        ] {
            let result = ran(&[routing, weights]);
            assert!(result.flows.iter().all(|flow| flow.state == FlowState::Completed));
            for (share, expected) in shares(&result).into_iter().zip(expected) {
                assert!((share - expected).abs() < 0.025, "{routing} {weights}: {:?}", shares(&result));
            }
        }
    }
}

/// By rate: of two cables between the same switches the one four times as fast gets four fifths.
#[test]
fn load_splits_by_rate() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let mut cables = "from,to,rate,delay\nleft,right,40Gbit/s,1us\nleft,right,10Gbit/s,1us\n".to_owned();
    for host in 0..8 {
        let side = if host < 4 { "left" } else { "right" };
        writeln!(cables, "host{host},{side},10Gbit/s,1us").unwrap();
    }
    std::fs::write(folder.join("cables.csv"), cables).unwrap();
    let text = "duration = \"40ms\"\npath_weights = \"rate\"\n[topology]\nkind = \"edge-list\"\nfile = \"cables.csv\"\n\
                [traffic.web]\nkind = \"poisson\"\nsize = \"20kB\"\nload = 0.4\ninter_rack = true\n";
    let scenario = Scenario::parse(text, &folder.join("two.toml")).unwrap().resolve().unwrap();
    let result = run(&scenario, &AtomicBool::new(false), &mut |_| {}).unwrap();
    let sent = |name: &str| result.ports.iter().find(|row| row.name == name).unwrap().dequeued().bytes as f64;
    for (fast, slow) in [("left -> right", "left -> right (2)"), ("right -> left", "right -> left (2)")] {
        let share = sent(fast) / (sent(fast) + sent(slow));
        assert!((share - 0.8).abs() < 0.03, "{fast}: {share}");
    }
}

/// A gap longer than the run makes flowlets flows; one of a picosecond is spraying; what is between reorders less the longer
/// it is. Flows on one path are never reordered.
#[test]
fn the_gap_decides_how_much_is_reordered() {
    let by_flow = ran(&[WEIGHTS]);
    assert_eq!(overtaken(&by_flow), 0);
    let with_gap = |gap: &str| {
        let slow = ["topology.fabric_link=10Gbit/s", "web.load=0.2", "web.size=200kB", "host_jitter=1us"];
        let result = ran(&[&["routing=flowlet", gap][..], &slow].concat());
        assert!(result.flows.iter().all(|flow| flow.state == FlowState::Completed), "{gap}");
        overtaken(&result)
    };
    assert_eq!(with_gap("flowlet_gap=1s"), 0, "one flowlet each");
    let [long, middle, short] = ["flowlet_gap=200us", "flowlet_gap=20us", "flowlet_gap=1ps"].map(with_gap);
    assert!(short > 1000 && middle < short / 4 && long < middle, "{long}, {middle}, {short}");
}

/// A flow whose application pauses longer than the gap changes paths; one that never pauses does not.
#[test]
fn flowlets_begin_after_gaps() {
    let of_messages = |gap: &str| {
        let text = format!(
            "routing = \"flowlet\"\nflowlet_gap = \"{gap}\"\n{}[traffic.chat]\nkind = \"flows\"\n\
             flows = [{{ source = 8, destination = 0, size = \"200kB\" }}]\n\
             messages = {{ size = \"1kB\", gap = \"100us\" }}\n",
            &THREE[..THREE.find("[traffic").unwrap()]
        );
        let scenario = Scenario::parse(&text, Path::new("chat.toml")).unwrap().resolve().unwrap();
        run(&scenario, &AtomicBool::new(false), &mut |_| {}).unwrap()
    };
    let patient = of_messages("300us");
    assert_eq!(shares(&patient).iter().filter(|&&share| share > 0.0).count(), 1, "{:?}", shares(&patient));
    let quick = of_messages("50us");
    assert!(shares(&quick).iter().all(|&share| share > 0.2), "{:?}", shares(&quick));
    assert_eq!(overtaken(&quick), 0, "a gap longer than the difference of the paths");
}

/// With one entry for all flows of a switch they go as one flow does: all on one path, as long as no two packets are further
/// apart than the gap, and over all paths if each message is. With as many entries as there may be, flows hardly meet, and go
/// as they do where each has an entry of its own.
#[test]
fn flows_of_one_entry_share_its_path() {
    let busy = ["routing=flowlet", "flowlet_gap=300us", "web.load=0.3"];
    let paths = |more: &[&str]| shares(&ran(&[&busy[..], more].concat()));
    let one = paths(&["flowlet_table=1"]);
    assert_eq!(one.iter().filter(|&&share| share > 0.0).count(), 1, "{one:?}");
    for table in [&["flowlet_table=1048576"][..], &[]] {
        let many = paths(table);
        assert!(many.iter().all(|share| (share - 1.0 / 3.0).abs() < 0.04), "{table:?}: {many:?}");
    }
    // A handful of entries for hundreds of flows at a time: each has its path, and none changes while it is in use.
    let few = ran(&[&busy[..], &["flowlet_table=4"]].concat());
    assert_eq!(overtaken(&few), 0);
    let of_messages = |gap: &str| {
        let text = format!(
            "routing = \"flowlet\"\nflowlet_table = 1\nflowlet_gap = \"{gap}\"\n{}[traffic.chat]\nkind = \"flows\"\n\
             flows = [{{ source = 8, destination = 0, size = \"200kB\" }}, {{ source = 9, destination = 1, size = \"200kB\" }}]\n\
             messages = {{ size = \"1kB\", gap = \"100us\" }}\n",
            &THREE[..THREE.find("[traffic").unwrap()]
        );
        let scenario = Scenario::parse(&text, Path::new("chat.toml")).unwrap().resolve().unwrap();
        shares(&run(&scenario, &AtomicBool::new(false), &mut |_| {}).unwrap())
    };
    assert_eq!(of_messages("300us").iter().filter(|&&share| share > 0.0).count(), 1);
    assert!(of_messages("50us").iter().all(|&share| share > 0.2));
}

/// The same seed gives the same run, another seed another; a link that fails is left by flowlets, too.
#[test]
fn runs_repeat_and_failed_links_are_left() {
    let changes = ["routing=flowlet", "flowlet_gap=20us", WEIGHTS];
    let digest = ran(&changes).digest;
    assert_eq!(ran(&changes).digest, digest);
    assert_ne!(ran(&[&changes[..], &["seed=2"]].concat()).digest, digest);
    let outage = "outages=[{links=[\"leaf 1 -> spine 0\"], reroute_after=\"0s\"}]";
    let result = ran(&[&changes[..], &[outage]].concat());
    assert!(result.flows.iter().all(|flow| flow.state == FlowState::Completed && flow.drops == 0));
    let [none, two, one] = shares(&result);
    assert!(none == 0.0 && (two - 2.0 / 3.0).abs() < 0.03 && (one - 1.0 / 3.0).abs() < 0.03, "{two} {one}");
}

/// What is wrong is said at its key.
#[test]
fn mistakes_are_named() {
    for (changes, said) in [
        (&["flowlet_gap=50us"][..], "flowlet_gap`: goes with `routing` \"flowlet\""),
        (&["routing=flowlet", "flowlet_gap=0s"], "flowlet_gap`: must be longer than 0s"),
        (&["flowlet_table=64"], "flowlet_table`: goes with `routing` \"flowlet\""),
        (&["routing=flowlet", "flowlet_table=0"], "flowlet_table`: must be between 1 and 1048576"),
        (&["routing=flowlet", "flowlet_table=1048577"], "flowlet_table`: must be between 1 and 1048576"),
        (&["routing=spray-random", "path_weights=rate"], "path_weights`: goes with `routing` \"ecmp\" or \"flowlet\""),
        (&["path_weights=[{link=\"leaf 0 -> spine 7\", weight=1}]"], "path_weights.0.link`: unknown link"),
        (
            &["path_weights=[{link=\"leaf 0 -> spine 0\", weight=0}]"],
            "path_weights.0.weight`: must be between 1 and 65535",
        ),
        (
            &["path_weights=[{link=\"leaf 0 -> spine 0\", weight=1}, {link=\"leaf 0 -> spine 0\", weight=2}]"],
            "path_weights.1.link`: leaf 0 -> spine 0 has a weight already",
        ),
        (&["path_weights=heavy"], "path_weights`: must be \"equal\", \"rate\", or an array"),
        (&["routing=flowlet", "shares=true"], "shares`: needs `routing` \"ecmp\""),
        (
            &["routing=flow-round-robin", "outages=[{links=[\"leaf 1 -> spine 0\"], reroute_after=\"0s\"}]"],
            "outages`: move paths that a hash chooses",
        ),
    ] {
        let changes: Vec<Override> = changes.iter().map(|text| Override::parse("--set", text).unwrap()).collect();
        let scenario = Scenario::parse(THREE, Path::new("three.toml")).unwrap().with(&changes);
        let error = scenario.and_then(|scenario| scenario.resolve()).expect_err("an error").to_string();
        assert!(error.contains(said), "{error}");
    }
}
