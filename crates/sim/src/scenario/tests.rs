use std::path::Path;

use super::*;

const SMALL: &str = r#"
duration = "1ms"

[topology]
kind = "leaf-spine"
leaves = 2
spines = 2
hosts_per_leaf = 4
host_link = { rate = "10Gbit/s", delay = "1us" }

[traffic.web]
kind = "poisson"
workload = "web_search"
load = 0.5

[traffic.backup]
kind = "incast"
size = "100kB"
period = "500us"
class = 1
transport = "weighted-fair"
contract = { weight = 0.25 }
tcp = { min_rto = "5ms" }

[variants.strict]
"queues.plan" = "strict"

[variants.light]
load = 0.1
queues.plan = "dwrr-9-1"
"#;

fn parse(text: &str) -> Result<Scenario, ScenarioError> {
    Scenario::parse(text, Path::new("small.toml"))
}

fn resolve(text: &str) -> Result<Resolved, ScenarioError> {
    parse(text)?.resolve()
}

fn set(text: &str, overrides: &[&str]) -> Result<Resolved, ScenarioError> {
    let overrides = overrides.iter().map(|text| Override::parse("--set", text)).collect::<Result<Vec<_>, _>>()?;
    parse(text)?.with(&overrides)?.resolve()
}

fn message<T>(result: Result<T, ScenarioError>) -> String {
    let text = result.err().expect("an error").to_string();
    assert!(!text.contains('\n'), "one line: {text}");
    text
}

/// What `check` prints, read again, is the same scenario: in words and in what was built.
#[test]
fn the_resolved_scenario_survives_a_round_trip() {
    let variants = parse(SMALL).unwrap().variants().unwrap();
    for (_, overrides) in variants.iter().chain([&("none".to_owned(), Vec::new())]) {
        let first = parse(SMALL).unwrap().with(overrides).unwrap().resolve().unwrap();
        let again = Scenario::parse(&first.to_toml(), Path::new("elsewhere/other.toml")).unwrap().resolve().unwrap();
        assert_eq!(again.spec, first.spec);
        assert_eq!(again.switch_plan, first.switch_plan);
        assert_eq!(again.to_toml(), first.to_toml());
    }
}

#[test]
fn defaults_are_written_out() {
    let resolved = resolve(SMALL).unwrap();
    assert_eq!(resolved.name(), "small");
    assert_eq!(resolved.drain(), pliant_proto::time::Span::from_ms(10));
    assert_eq!(resolved.groups[1].ack_class, 1, "acknowledgements follow their data");
    let text = resolved.to_toml();
    for line in ["drain = \"10ms\"", "framing = \"ethernet\"", "limit = \"466 packets\"", "min_rto = \"5ms\""] {
        assert!(text.contains(line), "{line} in\n{text}");
    }
}

#[test]
fn variants_keep_their_order_and_lead_to_their_lines() {
    let variants = parse(SMALL).unwrap().variants().unwrap();
    assert_eq!(variants.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["strict", "light"]);
    assert_eq!(variants[1].1.len(), 2);
    let broken = SMALL.replace("\"dwrr-9-1\"", "\"dwwr-9-1\"");
    let scenario = parse(&broken).unwrap();
    let light = &scenario.variants().unwrap()[1].1;
    assert_eq!(
        message(scenario.with(light).and_then(|scenario| scenario.resolve())),
        "small.toml:30: `queues.plan`: unknown queue plan `dwwr-9-1`, did you mean `dwrr-W-W`?"
    );
}

/// Mistakes and what is said about them: each names the line and the key.
#[test]
fn mistakes_are_named() {
    for (right, wrong, expected) in [
        ("leaves = 2", "leafs = 2", "small.toml:6: `topology.leafs`: unknown key `leafs`, did you mean `leaves`?"),
        ("load = 0.5", "laod = 0.5", "small.toml:14: `traffic.web.laod`: unknown key `laod`, did you mean `load`?"),
        ("class = 1", "clas = 1", "small.toml:20: `traffic.backup.clas`: unknown key `clas`, did you mean `class`?"),
        (
            "\"leaf-spine\"",
            "\"leafspine\"",
            "small.toml:5: `topology.kind`: unknown value `leafspine`, did you mean `leaf-spine`?",
        ),
        (
            "\"poisson\"",
            "\"poison\"",
            "small.toml:12: `traffic.web.kind`: unknown value `poison`, did you mean `poisson`?",
        ),
        ("spines = 2\n", "", "small.toml:4: `topology.spines`: is missing"),
        (", delay = \"1us\"", "", "small.toml:9: `topology.host_link.delay`: is missing"),
        ("duration = \"1ms\"", "", "small.toml:1: `duration`: is missing"),
        ("\"10Gbit/s\"", "\"10Gbps\"", "small.toml:9: `topology.host_link.rate`: \"10Gbps\" is not a rate"),
        ("\"1ms\"", "1", "small.toml:2: `duration`: invalid type: integer `1`, expected a quantity with its unit"),
        ("\"100kB\"", "\"100k\"", "small.toml:18: `traffic.backup.size`: \"100k\" is not a size"),
        ("load = 0.5", "load = 1.5", "small.toml:14: traffic.web.load: 1.5 would put 15.000 Gbit/s"),
        ("\"web_search\"", "\"web_serch\"", "small.toml:13: traffic.web.workload: "),
        (
            "size = \"100kB\"",
            "size = \"100kB\"\nreceivers = 8",
            "small.toml:19: traffic.backup.receivers: host 8 does not exist",
        ),
        (
            "\"weighted-fair\"",
            "\"dctcp\"",
            "small.toml:22: `traffic.backup.contract.weight`: dctcp does not honour weight (these do: weighted-fair)",
        ),
        (
            "min_rto",
            "hystart = true, min_rto",
            "small.toml:23: `traffic.backup.tcp.hystart`: weighted-fair does not have it, only cubic",
        ),
        ("load = 0.5", "load = 0.5\nload = 0.6", "small.toml:15: duplicate key"),
        ("class = 1", "class = 32", "small.toml:20: `traffic.backup.class`: class 32 does not exist"),
        (
            "[traffic.web]",
            "[queues]\nplan = \"strict\"\nscheduler = \"dwrr\"\n[traffic.web]",
            "small.toml:13: `queues.scheduler`: the plan decides",
        ),
        (
            "[traffic.web]",
            "[[queues.queue]]\nname = \"one\"\nclasses = [0]\nlimit = \"1MB\"\n[traffic.web]",
            "small.toml:24: `traffic.backup.class`: no queue of `queues` takes class 1",
        ),
        (
            "[traffic.web]",
            "[queues]\necn = { threshold = \"65 packet\", at = \"noon\" }\n[traffic.web]",
            "small.toml:12: `queues.ecn.at`: unknown value `noon`, there are: enqueue, dequeue",
        ),
    ] {
        assert!(SMALL.contains(right), "{right}");
        let text = message(resolve(&SMALL.replacen(right, wrong, 1)));
        assert!(text.starts_with(expected), "{text}\nshould begin with\n{expected}");
    }
}

#[test]
fn queues_written_out() {
    let queues = r#"
[queues]
scheduler = "dwrr"
quantum = "1500B"
shared_buffer = "4.5MB"

[[queues.queue]]
name = "regular"
classes = [0]
weight = 9
limit = "466 packets, 1MB"
ecn = { threshold = "100kB", at = "dequeue", scope = "port", not_ect = "pass" }
colour_limit = "150kB"

[[queues.queue]]
name = "flexible"
classes = [1, 2]
limit = "1MB"
buffer_alpha = 0.25
red = { min = 5.0, max = 15.0 }
"#;
    let text = SMALL.replace("[traffic.web]", &format!("{queues}\n[traffic.web]"));
    let plan = resolve(&text).unwrap().switch_plan;
    assert_eq!((plan.queues[0].weight, plan.queues[0].limit_packets, plan.queues[0].limit_bytes), (9, 466, 1_000_000));
    assert_eq!((plan.queue_of_class[1], plan.queue_of_class[2]), (1, 1));
    assert_eq!(plan.shared_buffer, Some(pliant_proto::units::Bytes(4_500_000)));
    let named = set(&text, &["queues.plan=strict"]).unwrap();
    assert_eq!(named.switch_plan.queues.len(), 2, "a named plan takes the place of one written out");
    assert_eq!(set(&text, &["queues.queue.1.weight=3"]).unwrap().switch_plan.queues[1].weight, 3);
    let error = message(set(&text, &["queues.queue.1.weight=0"]));
    assert!(error.contains("queue.1") && error.contains("weight must be above 0"), "{error}");
    assert!(message(set(&text, &["queues.queue.7.weight=1"])).contains("leads nowhere"));
}

/// Short keys find the one key they can mean; values need no quotes.
#[test]
fn overrides() {
    let resolved =
        set(SMALL, &["load=0.25", "seed=9", "duration=2ms", "queues.plan=dwrr-4-1", "backup.tcp.ack_every=1"]);
    let resolved = resolved.unwrap();
    assert_eq!((resolved.spec.seed, resolved.switch_plan.queues[0].weight), (9, 4));
    assert_eq!(resolved.spec.traffic["backup"].tcp.as_ref().unwrap().ack_every, Some(1));
    for (change, expected) in [
        (
            "class=1",
            "--set class=1: `class` may mean `traffic.backup.class`, `traffic.web.class`: give more of the key",
        ),
        ("laod=0.1", "--set laod=0.1: no key of this scenario ends in `laod`, did you mean `load`?"),
        ("traffic.wbe.load=0.1", "--set traffic.wbe.load=0.1: unknown traffic group `wbe`, did you mean `web`?"),
        ("load=lots", "--set load=lots: `traffic.web.load`: invalid type: string \"lots\""),
        ("topology.leafs=3", "--set topology.leafs=3: `topology.leafs`: unknown key `leafs`, did you mean `leaves`?"),
        ("seed", "--set seed: is not of the form KEY=VALUE"),
        ("seed.x=1", "--set seed.x=1: `seed`: invalid type: map, expected u64"),
    ] {
        let text = message(set(SMALL, &[change]));
        assert!(text.starts_with(expected), "{text}\nshould begin with\n{expected}");
    }
}

#[test]
fn settings_of_all_groups_give_way_to_those_of_one() {
    let text = SMALL.replace("[traffic.web]", "[transport]\nmin_rto = \"2ms\"\nhystart = true\n\n[traffic.web]");
    let resolved = resolve(&text).unwrap();
    let min_rto = |group: &str| resolved.spec.traffic[group].tcp.as_ref().unwrap().min_rto.unwrap().to_string();
    assert_eq!((min_rto("web"), min_rto("backup")), ("2ms".to_owned(), "5ms".to_owned()));
    assert_eq!(resolved.spec.traffic["web"].tcp.as_ref().unwrap().hystart, None, "DCTCP does not have it");
    let broken = message(resolve(&text.replace("hystart = true", "gain = 2.0")));
    assert!(broken.starts_with("small.toml:13: `transport.gain`: must lie in (0, 1]"), "{broken}");
}

const REFERENCE: &str = include_str!("../../../../docs/scenario.md");

/// The keys of `T`, as serde lists them when it meets one that it does not know; `kind` chooses among tagged tables.
fn keys_of<T: serde::de::DeserializeOwned>(kind: Option<&str>) -> Vec<String> {
    let kind = kind.map(|kind| ("kind".to_owned(), toml::Value::from(kind)));
    let table: toml::Table = kind.into_iter().chain([("?".to_owned(), toml::Value::from(0))]).collect();
    names(table.try_into::<T>())
}

/// The values of the enumeration `T`, likewise.
fn values_of<T: serde::de::DeserializeOwned>() -> Vec<String> {
    names(toml::Value::from("?").try_into::<T>())
}

/// The kinds of the tagged table `T`, likewise.
fn kinds_of<T: serde::de::DeserializeOwned>() -> Vec<String> {
    names(toml::Table::from_iter([("kind".to_owned(), toml::Value::from("?"))]).try_into::<T>())
}

fn names<T>(refused: Result<T, toml::de::Error>) -> Vec<String> {
    let message = refused.err().expect("nothing is called `?`").message().to_owned();
    let names: Vec<String> = message.split('`').skip(3).step_by(2).map(str::to_owned).collect();
    assert!(message.starts_with("unknown") && !names.is_empty(), "{message}");
    names
}

/// The reference of scenario files names every key in its section, every kind and every value.
#[test]
fn every_key_is_documented() {
    use crate::topology::{LinkSpec, TopologySpec};
    use crate::traffic::{DestinationChoice, LoadCounts, LoadOn, LongFlow, ReceiverOrder, TrafficSpec};

    let (topologies, traffics) = (kinds_of::<TopologySpec>(), kinds_of::<TrafficSpec>());
    let mut sections = vec![
        ("Top level", keys_of::<ScenarioSpec>(None)),
        ("Top level", values_of::<RoutingName>()),
        ("Values", keys_of::<LinkSpec>(None)),
        ("Topology", topologies.clone()),
        ("Packets", keys_of::<PacketsSpec>(None)),
        ("Packets", values_of::<Framing>()),
        ("Queues", keys_of::<QueuesSpec>(None)),
        ("Queues", values_of::<Scheduler>()),
        ("Queues", PRESETS.iter().map(|(name, _)| (*name).to_owned()).collect()),
        ("Queue", keys_of::<QueueSpec>(None)),
        ("Queue", keys_of::<ShaperSpec>(None)),
        ("ecn", keys_of::<ThresholdSpec>(None)),
        ("ecn", [values_of::<At>(), values_of::<Of>(), values_of::<NotEct>()].concat()),
        ("red", keys_of::<RedSpec>(None)),
        ("Traffic groups", group::GROUP_KEYS.map(str::to_owned).to_vec()),
        ("Traffic groups", [keys_of::<ContractSpec>(None), keys_of::<UdpSpec>(None)].concat()),
        ("Deployment", keys_of::<DeploymentSpec>(None)),
        ("Deployment", [values_of::<Unit>(), values_of::<Order>()].concat()),
        ("Credit settings", keys_of::<CreditSpec>(None)),
        ("Credit settings", [values_of::<Variant>(), values_of::<FeedbackName>()].concat()),
        ("Credit settings", [values_of::<SplittingName>(), values_of::<LossCutName>()].concat()),
        ("Traffic groups", TransportName::ALL.map(|name| name.name().to_owned()).to_vec()),
        ("poisson", [values_of::<LoadOn>(), values_of::<LoadCounts>()].concat()),
        ("incast", values_of::<ReceiverOrder>()),
        ("periodic", values_of::<DestinationChoice>()),
        ("flows", keys_of::<LongFlow>(None)),
        ("Flow sizes", crate::workload::BUILT_IN.iter().map(|(name, _)| (*name).to_owned()).collect()),
        ("TCP settings", [keys_of::<TcpSpec>(None), values_of::<EcnEcho>()].concat()),
    ];
    sections.extend(topologies.iter().map(|kind| ("Topology", keys_of::<TopologySpec>(Some(kind)))));
    sections.extend(traffics.iter().map(|kind| (kind.as_str(), keys_of::<TrafficSpec>(Some(kind)))));
    for (heading, names) in sections {
        let after = REFERENCE
            .split("\n#")
            .find(|part| part.trim_start_matches('#').lines().next() == Some(&format!(" {heading}")));
        let section = after.unwrap_or_else(|| panic!("no section {heading}"));
        for name in names {
            let written = [format!("`{name}`"), format!("`\"{name}\"`"), format!("{name} = ")];
            assert!(written.iter().any(|text| section.contains(text)), "`{name}` is not in the section {heading}");
        }
    }
}

/// The reference's example is a scenario, and so are its variants.
#[test]
fn the_documented_example_resolves() {
    let example = REFERENCE.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("an example");
    let scenario = parse(example).unwrap();
    let variants = scenario.variants().unwrap();
    assert_eq!(variants.len(), 2);
    for (name, overrides) in variants {
        assert!(scenario.with(&overrides).unwrap().resolve().is_ok(), "{name}");
    }
}
