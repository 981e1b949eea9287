//! Queues that differ by port: by rate, tier and direction.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use pliant_proto::switch::marker::{Level, MarkerConfig};
use pliant_proto::time::Span;
use pliant_sim::results::{PortRow, RunResult};
use pliant_sim::run::run;
use pliant_sim::scenario::{Override, Resolved, Scenario};
use pliant_sim::topology::LinkId;

/// Eight hosts of 25 Gbit/s send to eight others through one link of 100 Gbit/s.
const RACKS: &str = r#"
duration = "2ms"
drain = "0s"
host_jitter = "1us"

[topology]
kind = "leaf-spine"
leaves = 2
spines = 1
hosts_per_leaf = 8
host_link = "25Gbit/s"
fabric_link = "100Gbit/s"

[traffic.bulk]
kind = "periodic"
sources = "0..8"
destinations = "8..16"
size = "4MB"
transport = "cubic"
"#;

fn resolve(text: &str) -> Resolved {
    Scenario::parse(text, Path::new("ports.toml")).unwrap().resolve().unwrap()
}

fn ran(scenario: &Resolved) -> RunResult {
    run(scenario, &AtomicBool::new(false), &mut |_| {}).unwrap()
}

fn with(queues: &str) -> String {
    format!("{RACKS}\n[queues]\n{queues}\n")
}

fn error(text: &str) -> String {
    let refused = Scenario::parse(text, Path::new("ports.toml")).and_then(|scenario| scenario.resolve());
    refused.expect_err("an error").to_string()
}

fn row<'r>(result: &'r RunResult, name: &str) -> &'r PortRow {
    result.ports.iter().find(|row| row.name == name).unwrap()
}

/// The one port that is full holds what its own element says, and no other port drops.
#[test]
fn the_full_port_has_its_own_limit() {
    for (element, limit) in [("direction = \"up\"", 30), ("rate = \"100Gbit/s\"", 30), ("tier = 2", 200)] {
        let text = with(&format!(
            "plan = \"drop-tail\"\nlimit = \"200 packets\"\n[[queues.ports]]\n{element}\nlimit = \"30 packets\""
        ));
        let result = ran(&resolve(&text));
        let full = row(&result, "leaf 0 -> spine 0");
        assert_eq!(full.counters.max_packets, limit, "{element}");
        assert!(full.counters.dropped.iter().any(|tally| tally.packets > 0));
        let others = result.ports.iter().filter(|row| row.name != full.name);
        assert!(others.flat_map(|row| row.counters.dropped).all(|tally| tally.packets == 0), "{element}");
    }
}

/// An element that says what the table says changes no event; nor does one about ports that carry nothing.
#[test]
fn elements_that_say_the_same_change_nothing() {
    let plain = ran(&resolve(&with("plan = \"strict\"\nlimit = \"100 packets\""))).digest;
    for ports in [
        "[[queues.ports]]\ntier = 1\nlimit = \"100 packets\"",
        "[[queues.ports]]\nrate = \"100Gbit/s\"\nplan = \"strict\"\nlimit = \"100 packets\"",
        "[[queues.ports]]\ntier = 1\nlimit = \"1 packet\"\n[[queues.ports]]\ntier = 1\nlimit = \"100 packets\"",
    ] {
        let text = with(&format!("plan = \"strict\"\nlimit = \"100 packets\"\n{ports}"));
        assert_eq!(ran(&resolve(&text)).digest, plain, "{ports}");
    }
}

/// Tiers may have plans of their own; each port's rows have its queues' names, and what `check` prints is the same scenario.
#[test]
fn tiers_have_plans_of_their_own() {
    let text = with(
        "plan = \"dwrr-9-1\"\nshared_buffer = \"4MB\"\n[[queues.ports]]\ntier = 2\nplan = \"shared\"\necn = \"10us\"\n\
         [[queues.ports]]\ntier = 1\ndirection = \"down\"\necn = { threshold = \"100kB\" }",
    );
    let scenario = resolve(&text);
    let again = resolve(&scenario.to_toml());
    assert_eq!(again.other_plans, scenario.other_plans);
    assert_eq!(again.to_toml(), scenario.to_toml());
    let level = |name: &str| {
        let link = scenario.topology.link_named(name).unwrap();
        let plan = scenario.plans().of(&scenario.topology, link);
        assert_eq!(plan.shared_buffer.map(|bytes| bytes.0), Some(4_000_000), "{name}");
        match plan.queues[0].marker {
            MarkerConfig::Threshold(threshold) => (plan.queues.len(), threshold.level),
            _ => panic!("{name} marks"),
        }
    };
    assert_eq!(level("spine 0 -> leaf 1"), (1, Level::Time(Span::from_us(10))));
    assert_eq!(level("leaf 1 -> host 8"), (2, Level::Bytes(100_000)));
    assert_eq!(level("leaf 0 -> spine 0"), (2, Level::Packets(65)));
    assert_eq!(level("host 0 -> leaf 0"), (2, Level::Packets(65)), "a tier is of switches");
    let result = ran(&scenario);
    let names = |port: &str| -> Vec<&str> {
        result.ports.iter().filter(|row| row.name == port).map(|row| &*row.queue_name).collect()
    };
    assert_eq!(names("spine 0 -> leaf 1"), ["shared"]);
    assert_eq!(names("leaf 0 -> spine 0").len(), 2);
    assert_eq!(
        scenario.kinds_of_ports().unwrap(),
        "2 as `queues`, 2 as `queues.ports.0` (tier 2), 16 as `queues.ports.1` (tier 1, down), 16 as `host_queues`"
    );
}

/// What is chosen by rate holds for hosts of that rate, too, and a variant's plan has the elements laid over it.
#[test]
fn rates_count_at_hosts_and_in_variants() {
    let text = with("limit = \"300 packets\"\n[[queues.ports]]\nrate = \"25Gbit/s\"\nlimit = \"20us\"");
    let set = Override::parse("--set", "queues.plan=strict").unwrap();
    let scenario = Scenario::parse(&text, Path::new("ports.toml")).unwrap().with(&[set]).unwrap().resolve().unwrap();
    for link in scenario.topology.link_ids() {
        let plan = scenario.plans().of(&scenario.topology, link);
        let slow = scenario.topology.link(link).rate.bits_per_sec() == 25_000_000_000;
        assert_eq!(plan.queues.len(), 2);
        let expected = if slow { (u32::MAX, Some(Span::from_us(20))) } else { (300, None) };
        assert_eq!((plan.queues[1].limit_packets, plan.queues[1].limit_time), expected);
    }
}

/// No queue ever holds more than its own port's limit, whatever the ports.
#[test]
fn no_port_exceeds_its_own_limit() {
    for seed in 0..8u32 {
        let text = with(&format!(
            "plan = \"dwrr-3-1\"\nlimit = \"{} packets\"\n[[queues.ports]]\ndirection = \"down\"\nlimit = \"{} packets\"\n\
             [[queues.ports]]\ntier = 2\nlimit = \"{} packets\"",
            3 + 7 * seed,
            40 - 5 * seed,
            5 + seed
        ));
        let scenario = resolve(&text.replace("duration = ", &format!("seed = {seed}\nduration = ")));
        let result = ran(&scenario);
        for row in &result.ports {
            let plan = scenario.plans().of(&scenario.topology, LinkId(row.port));
            let limit = plan.queues[usize::from(row.queue)].limit_packets;
            assert!(row.counters.max_packets <= limit, "{} holds {}", row.name, row.counters.max_packets);
        }
    }
}

/// What is wrong is said by name, at its key.
#[test]
fn mistakes_are_named() {
    for (queues, said) in [
        ("tier = 1", "`queues.tier`: chooses ports: it goes into an element of `ports`"),
        (
            "[[queues.ports]]\nlimit = \"1MB\"",
            "`queues.ports.0`: chooses no ports: give it `rate`, `tier` or `direction`",
        ),
        (
            "[[queues.ports]]\nrate = \"40Gbit/s\"",
            "`queues.ports.0.rate`: no port is 40Gbit/s: those of switches have 25Gbit/s, 100Gbit/s",
        ),
        ("[[queues.ports]]\ntier = 3", "`queues.ports.0.tier`: tier 3 does not exist, tiers are 1 to 2"),
        ("[[queues.ports]]\ntier = 2\ndirection = \"up\"", "`queues.ports.0`: no port is tier 2, up"),
        (
            "[[queues.ports]]\ntier = 1\nscheduler = \"dwrr\"",
            "`queues.ports.0.scheduler`: goes with a `plan` or `queue`",
        ),
        ("[[queues.ports]]\ntier = 1\ncolour_limit = \"1kB\"", "`queues.ports.0.colour_limit`: `queues` limits no red"),
        ("[[queues.ports]]\ntier = 1\nplan = \"strikt\"", "`queues.ports.0.plan`: "),
        ("[[queues.ports]]\ntier = 1\nlimit = \"1ns\"", "`queues.ports.0.queue.0.limit`: 1ns of a link of 25Gbit/s"),
        (
            "[[queues.ports]]\nrate = \"100Gbit/s\"\nshared_buffer = \"1MB\"",
            "`queues.ports.0.shared_buffer`: all ports of a node share one buffer, and those of leaf 0 would have two",
        ),
        (
            "[[queues.ports]]\ntier = 2\n[[queues.ports.queue]]\nname = \"a\"\nclasses = [1]\nlimit = \"1MB\"",
            "`traffic.bulk.class`: no queue of `queues.ports.0` takes class 0",
        ),
        (
            "[[queues.ports]]\ntier = 1\nlimmit = \"1MB\"",
            "`queues.ports.0.limmit`: unknown key `limmit`, did you mean `limit`?",
        ),
        ("[[queues.ports]]\ntier = 1\ndirection = \"left\"", "`queues.ports.0.direction`: "),
        (
            "[[queues.ports]]\ntier = 1\n[[queues.ports.ports]]\ntier = 1",
            "`queues.ports.0.ports`: an element of `ports` has no `ports` of its own",
        ),
        (
            "[host_queues]\n[[host_queues.ports]]\ntier = 1",
            "`host_queues.ports.0.tier`: hosts have none: choose by `rate`",
        ),
        (
            "[host_queues]\n[[host_queues.ports]]\nrate = \"100Gbit/s\"",
            "`host_queues.ports.0.rate`: no port is 100Gbit/s: those of hosts have 25Gbit/s",
        ),
    ] {
        let text = error(&with(queues));
        assert!(text.contains(said), "{queues}: {text}");
        assert!(text.starts_with("ports.toml:"), "{text}");
    }
}

/// What transports need of queues they need at every port.
#[test]
fn transports_are_checked_at_every_port() {
    let text = with("plan = \"expresspass\"\n[[queues.ports]]\ntier = 2\nplan = \"shared\"");
    let said = error(&text.replace("cubic", "expresspass"));
    assert!(said.contains("is not shaped") && said.contains("(of switch ports: tier 2)"), "{said}");
    let text = with("plan = \"ndp\"\n[[queues.ports]]\nrate = \"100Gbit/s\"\nplan = \"homa\"");
    let said = error(&text.replace("cubic", "ndp"));
    assert!(said.contains("ndp needs switches that trim"), "{said}");
    // REFLEX needs a second queue somewhere, and not at every port.
    let bends = "transport = \"dctcp\"\ncontract = { min_share = 0.5 }\nreflex = {}";
    let text =
        with("plan = \"dwrr-9-1\"\n[[queues.ports]]\ntier = 2\nplan = \"shared\"\n[host_queues]\nplan = \"shared\"");
    assert!(resolve(&text.replace("transport = \"cubic\"", bends)).groups[0].reflex.is_some());
    let text = text.replace("dwrr-9-1", "shared").replace("transport = \"cubic\"", bends);
    assert!(error(&text).contains("nobody would give way"), "{}", error(&text));
}
