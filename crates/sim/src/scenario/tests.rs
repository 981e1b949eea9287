use std::path::Path;

use pliant_proto::congestion::CongestionControl;
use pliant_proto::contract::Contract;

use super::*;
use crate::families::{OracleSpec, TransportName};

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

/// A setting of a group, as the resolved scenario writes it.
fn setting(resolved: &Resolved, group: &str, table: &str, key: &str) -> Option<toml::Value> {
    resolved.spec.traffic[group].tables.get(table)?.get(key).cloned()
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

/// The text, which is written group by group, is that of the table as a whole, whatever the groups are called and have in them.
#[test]
fn groups_are_written_as_the_whole_would_be() {
    let more = r#"
[traffic."a b"]
kind = "poisson"
transport = "dctcp"
workload = "web_search"
load = 0.2
tcp = { min_rto = "2ms" }
[[traffic."0".flows]]
source = 0
destination = 1
[[traffic."0".flows]]
source = 1
destination = 0
size = "1kB"
[traffic."0"]
kind = "flows"
transport = "dctcp"
"#;
    for text in [SMALL.to_owned(), format!("{SMALL}{more}")] {
        let resolved = resolve(&text).unwrap();
        assert_eq!(resolved.to_toml(), toml::to_string(&resolved.to_table()).unwrap());
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

/// An array of a variant takes the place of the one that is there; a table is laid over it, also an empty one.
#[test]
fn variants_replace_arrays_and_make_tables() {
    let text = SMALL.to_owned()
        + r#"
[variants.written]
traffic.backup.tcp = {}
traffic.web = { reflex = {}, contract = { min_share = 0.8 } }
queues.queue = [{ name = "high", classes = [0], limit = "1MB" }, { name = "low", classes = [1], limit = "1MB" }]
"#;
    let scenario = parse(&text).unwrap();
    let (_, written) = scenario.variants().unwrap().pop().unwrap();
    let resolved = scenario.with(&written).and_then(|scenario| scenario.resolve()).unwrap();
    let names: Vec<&str> = resolved.spec.queues.queue.iter().map(|queue| queue.name.as_str()).collect();
    assert_eq!(names, ["high", "low"]);
    assert!(resolved.spec.traffic["web"].tables.contains_key("reflex"));
    assert_eq!(setting(&resolved, "backup", "tcp", "min_rto"), Some("5ms".into()));
}

/// A group whose flows all start in the warm-up has no statistics, and the user is told why.
#[test]
fn a_group_that_is_not_measured_is_named() {
    let text = SMALL.replace("kind = \"incast\"\nsize = \"100kB\"\nperiod = \"500us\"", "kind = \"permutation\"");
    assert_eq!(set(&text, &["host_jitter=0s"]).unwrap().warnings, Vec::<String>::new());
    let warnings = set(&text, &["host_jitter=0s", "warmup=100us"]).unwrap().warnings;
    assert!(warnings[0].starts_with("small.toml:16: `traffic.backup`: all its flows start before"), "{warnings:?}");
    assert_eq!(warnings.len(), 1);
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
        ("\"10Gbit/s\"", "\"10Gb\"", "small.toml:9: `topology.host_link.rate`: \"10Gb\" is not a rate"),
        ("\"1ms\"", "1", "small.toml:2: `duration`: integer `1` where a quantity with its unit"),
        ("\"100kB\"", "\"100k\"", "small.toml:18: `traffic.backup.size`: \"100k\" is not a size"),
        ("load = 0.5", "load = 1.5", "small.toml:14: `traffic.web.load`: 1.5 would put 15.000 Gbit/s"),
        ("\"web_search\"", "\"web_serch\"", "small.toml:13: `traffic.web.workload`: "),
        (
            "size = \"100kB\"",
            "size = \"100kB\"\nreceivers = 8",
            "small.toml:19: `traffic.backup.receivers`: host 8 does not exist",
        ),
        (
            "\"weighted-fair\"",
            "\"cubic\"",
            "small.toml:22: `traffic.backup.contract.weight`: cubic does not honour weight (these do: dctcp, weighted-fair, push)",
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
    let error = message(set(SMALL, &["queues.plan=dwrr-9-1", "queues.queue.1.weight=2"]));
    assert!(error.contains("plan dwrr-9-1 are not written out") && error.contains("`pliant show dwrr-9-1`"), "{error}");
    assert!(message(set(SMALL, &["host_queues.queue.0.weight=2"])).contains("`[[host_queues.queue]]`"));
}

/// Short keys find the one key they can mean; values need no quotes.
#[test]
fn overrides() {
    let resolved =
        set(SMALL, &["load=0.25", "seed=9", "duration=2ms", "queues.plan=dwrr-4-1", "backup.tcp.ack_every=1"]);
    let resolved = resolved.unwrap();
    assert_eq!((resolved.spec.seed, resolved.switch_plan.queues[0].weight), (9, 4));
    assert_eq!(setting(&resolved, "backup", "tcp", "ack_every"), Some(1.into()));
    for (change, expected) in [
        (
            "min_share=1",
            "--set min_share=1: `min_share` may mean `traffic.backup.contract.min_share`, \
             `traffic.web.contract.min_share`: give more of the key",
        ),
        ("laod=0.1", "--set laod=0.1: no key of this scenario ends in `laod`, did you mean `load`?"),
        ("traffic.wbe.load=0.1", "--set traffic.wbe.load=0.1: unknown traffic group `wbe`, did you mean `web`?"),
        ("load=lots", "--set load=lots: `traffic.web.load`: text \"lots\" where a number should be"),
        ("topology.leafs=3", "--set topology.leafs=3: `topology.leafs`: unknown key `leafs`, did you mean `leaves`?"),
        ("seed", "--set seed: is not of the form KEY=VALUE"),
        ("seed.x=1", "--set seed.x=1: `seed`: a table where a whole number from 0 on"),
    ] {
        let text = message(set(SMALL, &[change]));
        assert!(text.starts_with(expected), "{text}\nshould begin with\n{expected}");
    }
}

#[test]
fn settings_of_all_groups_give_way_to_those_of_one() {
    let text = SMALL.replace("[traffic.web]", "[transport]\nmin_rto = \"2ms\"\nhystart = true\n\n[traffic.web]");
    let resolved = resolve(&text).unwrap();
    let min_rto = |group: &str| setting(&resolved, group, "tcp", "min_rto");
    assert_eq!((min_rto("web"), min_rto("backup")), (Some("2ms".into()), Some("5ms".into())));
    assert_eq!(setting(&resolved, "web", "tcp", "hystart"), None, "DCTCP does not have it");
    let broken = message(resolve(&text.replace("hystart = true", "gain = 2.0")));
    assert!(broken.starts_with("small.toml:13: `transport.gain`: must lie in (0, 1]"), "{broken}");
}

/// Groups that each fit but together overload a link, or the uplinks, are told of; where they follow one another, or
/// just fill a link, nothing is said.
#[test]
fn groups_that_overload_together_are_warned_of() {
    let star = "duration = '10ms'\n[topology]\nkind = 'star'\nhosts = 9\nlink = { rate = '10Gbit/s', delay = '25us' }\n\
                [traffic.updates]\nkind = 'incast'\nsources = '0..8'\nreceivers = 8\nsize = '500kB'\nload = 0.8\n\
                [traffic.storage]\nkind = 'poisson'\nworkload = 'alibaba_storage'\ndestinations = 8\nload = 0.2\n";
    let warning = |changes: &[&str]| set(star, changes).unwrap().overload_warning();
    assert_eq!(warning(&[]), None);
    assert_eq!(
        warning(&["storage.load=0.3"]).unwrap(),
        "traffic puts 11.000 Gbit/s (updates 8.000, storage 3.000) on the link to host 8, of 10Gbit/s: its queue grows \
         without end"
    );
    assert_eq!(warning(&["storage.load=0.3", "traffic.updates.stop=5ms", "traffic.storage.start=5ms"]), None);
    assert!(
        warning(&["updates.load=0.1", "traffic.storage={kind=\"poisson\", size=\"1MB\", rate_per_s=12000}"]).is_some()
    );
    // Uplinks of half the hosts' rate: 0.3 of the hosts' fills 0.6 of them, 0.4 more is all, 0.5 too much.
    let fabric =
        SMALL.replace("host_link = {", "fabric_link = { rate = \"10Gbit/s\", delay = \"1us\" }\nhost_link = {");
    let fabric = fabric.replace("load = 0.5", "load = 0.3\ninter_rack = true");
    let warning = |changes: &[&str]| set(&fabric, changes).unwrap().overload_warning();
    assert_eq!(warning(&["backup.period=100ms"]), None);
    let both = |load: &str| {
        let backup = "traffic.backup={kind=\"poisson\", size=\"1MB\", inter_rack=true, load_on=\"uplinks\"}";
        warning(&[backup.replace('}', &format!(", load={load}}}")).as_str()])
    };
    assert_eq!(both("0.4"), None);
    // One direction of a dumbbell's bottleneck has twice the mean of both.
    let dumbbell = "duration = '10ms'\n[topology]\nkind = 'dumbbell'\npairs = 2\nedge_link = { rate = '10Gbit/s', delay = \
                    '1us' }\nbottleneck_link = { rate = '1Gbit/s', delay = '1us' }\n[traffic.users]\nkind = 'poisson'\nsize \
                    = '10kB'\nsources = '0..2'\ndestinations = '2..4'\nload_on = 'uplinks'\nload = 0.6\n";
    let resolved = resolve(dumbbell).unwrap();
    let told = "1.200 Gbit/s (users 1.200) on the links from switch 0 to other switches, of 1Gbit/s";
    assert_eq!(resolved.busiest_link().unwrap(), told);
    assert_eq!(resolved.overload_warning().unwrap(), format!("traffic puts {told}: its queue grows without end"));
    assert_eq!(set(dumbbell, &["users.load=0.5"]).unwrap().overload_warning(), None);
    assert!(both("0.5").unwrap().contains("on the links from leaf 0 to other switches, of 20Gbit/s"));
}

/// ATP's priorities need a queue each, and transports that take reordering for loss want one path: a line that names the
/// key, and the scenario runs all the same. The plan's early drop stays when `limit` and `ecn` change the accurate queue.
#[test]
fn what_does_not_go_with_atp_is_warned_of() {
    let text = "duration = '1ms'\nrouting = 'spray-random'\n\
                [topology]\nkind = 'leaf-spine'\nleaves = 2\nspines = 2\nhosts_per_leaf = 2\n\
                host_link = { rate = '10Gbit/s', delay = '1us' }\n[queues]\nplan = 'atp'\n\
                [traffic.jobs]\nkind = 'permutation'\nsize = '1MB'\ntransport = 'atp'\nclass = 1\nack_class = 0\n\
                [traffic.exact]\nkind = 'permutation'\nsize = '1MB'\npinned = true\n";
    let warnings = |changes: &[&str]| set(text, changes).unwrap().warnings;
    assert_eq!(warnings(&[]), [""; 0]);
    let shared = warnings(&["queues.plan=strict-8"]);
    assert!(shared.is_empty(), "eight queues of another plan: {shared:?}");
    for (plan, queue) in [("shared", "\"shared\""), ("dwrr-1-1", "\"flexible\"")] {
        let shared = warnings(&[&format!("queues.plan={plan}")]);
        assert!(shared[0].contains("`traffic.jobs.class`") && shared[0].contains(queue), "{shared:?}");
    }
    let sprayed = warnings(&["traffic.exact.pinned=false"]);
    assert!(sprayed[0].contains("`traffic.exact.transport`: dctcp takes reordering"), "{sprayed:?}");
    let adjusted = set(text, &["queues.limit=250 packets", "queues.ecn={threshold='20 packets'}"]).unwrap().switch_plan;
    let limits: Vec<u32> = adjusted.queues.iter().map(|queue| queue.limit_packets).collect();
    assert_eq!(limits, [250, 5, 5, 5, 5, 5, 5, 5]);
}

/// Low-priority TCP's set-up: a star of 40 hosts with an unloaded round-trip time of 100 us, strict priority everywhere, 128 kB
/// before 64 kB at the switch, and a device FIFO in hosts alone.
#[test]
fn the_set_up_of_low_priority_tcp() {
    let text = "duration = '1ms'\n[topology]\nkind = 'star'\nhosts = 40\nlink = { rate = '10Gbit/s', delay = '25us' }\n\
                [queues]\nplan = 'low-priority'\ndevice_fifo_packets = 0\n\
                [host_queues]\nplan = 'strict'\nlimit = '1000 packets'\necn = false\ndevice_fifo_packets = 100\n\
                [transport]\ninitial_window = 2\nack_every = 1\nsend_buffer = '1MB'\nreceive_buffer = '1MB'\n\
                [traffic.a]\nkind = 'permutation'\nsize = '1MB'\ntransport = 'cubic'\n";
    let resolved = resolve(text).unwrap();
    let (switch, host) = (&resolved.switch_plan, &resolved.host_plan);
    let limits: Vec<u64> = switch.queues.iter().map(|queue| queue.limit_bytes).collect();
    assert_eq!((limits.as_slice(), switch.device_fifo_packets), (&[128_000, 64_000][..], 0));
    let limits: Vec<u32> = host.queues.iter().map(|queue| queue.limit_packets).collect();
    assert_eq!((limits.as_slice(), host.device_fifo_packets), (&[1000, 1000][..], 100));
    let queues = || host.queues.iter().chain(&switch.queues);
    assert!(queues().all(|queue| queue.marker == pliant_proto::switch::marker::MarkerConfig::None));
    assert!([switch, host].iter().all(|plan| plan.scheduler == pliant_proto::switch::plan::SchedulerConfig::Strict));
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

/// Keys of elements of `ports`, which choose ports.
const PORT_CHOICE: [&str; 3] = ["rate", "tier", "direction"];

/// The reference of scenario files names every key in its section, every kind and every value.
#[test]
fn every_key_is_documented() {
    use crate::topology::{LinkSpec, TopologySpec};
    use crate::traffic::{DestinationChoice, LoadCounts, LoadOn, LongFlow, ReceiverOrder, TrafficSpec};
    use crate::workload::{GapLaw, MessagesSpec};

    let (topologies, traffics) = (kinds_of::<TopologySpec>(), kinds_of::<TrafficSpec>());
    let mut sections = vec![
        ("Top level", keys_of::<ScenarioSpec>(None)),
        ("Top level", values_of::<RoutingName>()),
        ("Top level", values_of::<WeightRule>()),
        ("Path weights", keys_of::<LinkWeight>(None)),
        ("Values", keys_of::<LinkSpec>(None)),
        ("Topology", topologies.clone()),
        ("Packets", keys_of::<PacketsSpec>(None)),
        ("Packets", values_of::<Framing>()),
        ("Queues", keys_of::<QueuesSpec>(None).into_iter().filter(|key| !PORT_CHOICE.contains(&&**key)).collect()),
        ("Ports that differ", PORT_CHOICE.map(str::to_owned).to_vec()),
        ("Ports that differ", values_of::<Direction>()),
        ("Queues", values_of::<Scheduler>()),
        ("Queues", PRESETS.iter().map(|(name, _)| (*name).to_owned()).collect()),
        ("Queue", keys_of::<QueueSpec>(None)),
        ("Queue", keys_of::<ShaperSpec>(None)),
        ("Queue", DisciplineName::BUILT_IN.map(|name| name.name().to_owned()).to_vec()),
        ("ecn", keys_of::<ThresholdSpec>(None)),
        ("ecn", [values_of::<At>(), values_of::<Of>(), values_of::<NotEct>()].concat()),
        ("red", keys_of::<RedSpec>(None)),
        ("Traffic groups", file::group::GROUP_KEYS.map(str::to_owned).to_vec()),
        ("Traffic groups", keys_of::<ContractSpec>(None)),
        ("Deployment", keys_of::<DeploymentSpec>(None)),
        ("Deployment", [values_of::<Unit>(), values_of::<Order>()].concat()),
        ("Near-Opt", keys_of::<OracleSpec>(None)),
        ("Losses", keys_of::<LossSpec>(None)),
        ("Outages", keys_of::<OutageSpec>(None)),
        ("Queue", keys_of::<TrimSpec>(None)),
        ("messages", [keys_of::<MessagesSpec>(None), values_of::<GapLaw>()].concat()),
        ("poisson", [values_of::<LoadOn>(), values_of::<LoadCounts>()].concat()),
        ("incast", [values_of::<ReceiverOrder>(), values_of::<LoadCounts>()].concat()),
        ("objects", values_of::<ReceiverOrder>()),
        ("periodic", values_of::<DestinationChoice>()),
        ("flows", keys_of::<LongFlow>(None)),
        ("Flow sizes", crate::workload::BUILT_IN.iter().map(|(name, _)| (*name).to_owned()).collect()),
    ];
    sections.extend(topologies.iter().map(|kind| ("Topology", keys_of::<TopologySpec>(Some(kind)))));
    sections.extend(traffics.iter().map(|kind| (kind.as_str(), keys_of::<TrafficSpec>(Some(kind)))));
    for (heading, names) in sections {
        let after = REFERENCE
            .split("\n#")
            .find(|part| part.trim_start_matches('#').lines().next() == Some(&format!(" {heading}")));
        let section = after.unwrap_or_else(|| panic!("docs/scenario.md has no section {heading}"));
        for name in names {
            let written = [format!("`{name}`"), format!("`\"{name}\"`"), format!("{name} = ")];
            let is_written = written.iter().any(|text| section.contains(text));
            assert!(is_written, "docs/scenario.md lacks `{name}` in the section {heading}");
        }
    }
}

/// Near-Opt has settings of its own, and an oracle is written out where it is asked.
#[test]
fn near_opt_has_its_settings() {
    let text =
        SMALL.replace("load = 0.5\n", "load = 0.5\ntransport = \"near-opt\"\nnear_opt = { min_rto = \"2ms\" }\n");
    let resolved = resolve(&text).unwrap();
    assert!(resolved.groups[0].transport.facts().asks_oracle);
    assert!(!resolved.spec.traffic["web"].tables.contains_key("tcp"));
    let written = resolved.to_toml();
    for line in ["[oracle]\ninterval = \"25us\"", "min_rto = \"2ms\"", "initial_rto = \"10ms\""] {
        assert!(written.contains(line), "{line} in\n{written}");
    }
    assert_eq!(set(&text, &["interval=50us"]).unwrap().oracle_interval(), pliant_proto::time::Span::from_us(50));
    assert!(!resolve(SMALL).unwrap().to_toml().contains("oracle"), "nobody asks it");
}

/// Delay-based transports: their own defaults, their ranges, and one-way delays asked for where they are needed.
#[test]
fn delay_based_transports_have_their_settings() {
    let with = |transport: &str, tcp: &str| {
        let group = format!("transport = \"{transport}\"\ntcp = {{ {tcp} }}\n");
        let text = SMALL.replace("load = 0.5\n", &format!("load = 0.5\n{group}"));
        resolve(&text)
    };
    for (transport, asks, lines) in [
        ("tcp-lp", true, &["initial_window = 10", "delay_threshold = 0.15", "inference_rtts = 3"][..]),
        ("ledbat", true, &["initial_window = 2", "target = \"100ms\"", "gain = 1.0", "base_interval = \"60s\""]),
        ("ledbat++", false, &["initial_window = 2", "target = \"60ms\"", "slowdown_ratio = 9", "noise_filter = 4"]),
        ("bounded", true, &["jitter = \"250us\"", "foreign_packets = 4", "trickle = 0.015", "quiet = \"25ms\""]),
        ("dctcp", false, &["initial_window = 10", "gain = 0.0625"]),
    ] {
        let resolved = with(transport, "").unwrap();
        let controller = TransportName::find(transport).unwrap();
        let controller = controller.family().controller(controller).unwrap().controller(1460, &Contract::default());
        assert_eq!(controller.needs_one_way_delay(), asks, "{transport}");
        let text = resolved.to_toml();
        for line in lines {
            assert!(text.contains(line), "{transport}: {line} in\n{text}");
        }
    }
    for (transport, wrong, expected) in [
        ("tcp-lp", "delay_threshold = 1.0", "must lie in (0, 1)"),
        ("tcp-lp", "delay_weight = 0.0", "must lie in (0, 1]"),
        ("tcp-lp", "inference_rtts = 0", "at least 1 round trip"),
        ("tcp-lp", "delay_extremes = \"ns-3\"", "ns-3"),
        ("ledbat", "target = \"0s\"", "between 1ns and 1s"),
        ("ledbat", "base_history = 11", "1 to 10 intervals"),
        ("ledbat", "base_interval = \"0s\"", "longer than 0s"),
        ("ledbat", "noise_filter = 9", "1 to 8 samples"),
        ("ledbat", "min_window = 0", "at least 1 segment"),
        ("ledbat", "slowdowns = false", "ledbat does not have it, only ledbat++"),
        ("ledbat++", "slowdown_ratio = 0", "at least 1"),
        ("ledbat++", "gain = 0.5", "ledbat++ does not have it, only dctcp, "),
        ("bounded", "trickle = 1.0", "must lie in (0, 1)"),
        ("cubic", "target = \"1ms\"", "cubic does not have it, only ledbat, ledbat++"),
    ] {
        let message = message(with(transport, wrong));
        assert!(message.contains(expected) && message.contains("traffic.web.tcp"), "{transport}: {message}");
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

/// Flows that hear of congestion by losses alone, from hosts exactly in step, are warned of until the file says that it is
/// meant.
#[test]
fn hosts_in_step_at_a_tail_drop_queue_are_warned_of() {
    let text = "duration = '1ms'\n[topology]\nkind = 'star'\nhosts = 4\nlink = { rate = '10Gbit/s', delay = '1us' }\n\
                [queues]\nplan = 'drop-tail'\n[traffic.a]\nkind = 'permutation'\nsize = '1MB'\ntransport = 'cubic'\n";
    let warnings = |changes: &[&str]| set(text, changes).unwrap().warnings;
    let in_step = warnings(&[]);
    assert!(in_step.len() == 1 && in_step[0].contains("`queues`: \"shared\" drops by its tail"), "{in_step:?}");
    for change in ["host_jitter=1us", "host_jitter=0s", "queues.ecn={threshold='65 packets', not_ect='pass'}"] {
        assert_eq!(warnings(&[change]), [""; 0], "{change}");
    }
}

/// So are flows without an end at a marking threshold, unless they end, or a link is slower than their hosts'.
#[test]
fn hosts_in_step_at_a_marking_threshold_are_warned_of() {
    let text = "duration = '1ms'\n[topology]\nkind = 'dumbbell'\npairs = 2\nedge_link = { rate = '10Gbit/s', delay = '1us' }\n\
                bottleneck_link = { rate = '10Gbit/s', delay = '1us' }\n[traffic.a]\nkind = 'permutation'\n\
                transport = 'dctcp'\n";
    let warnings = |changes: &[&str]| set(text, changes).unwrap().warnings;
    let in_step = warnings(&[]);
    assert!(in_step.len() == 1 && in_step[0].contains("`queues`: \"shared\" marks from a threshold on"), "{in_step:?}");
    for change in ["host_jitter=1us", "host_jitter=0s", "traffic.a.size=1MB", "topology.edge_link.rate=40Gbit/s"] {
        assert_eq!(warnings(&[change]), [""; 0], "{change}");
    }
    let beside = format!("{text}[traffic.b]\nkind = 'permutation'\nsize = '1MB'\ntransport = 'dctcp'\n");
    assert_eq!(resolve(&beside).unwrap().warnings.len(), 1);
}

/// A queue that marks drops what cannot be marked at the same threshold, which whoever compares LEDBAT++ or CUBIC with
/// DCTCP in it must know; unless the file says so itself, or the packets can be marked.
#[test]
fn packets_that_are_dropped_where_others_are_marked_are_warned_of() {
    let text = "duration = '1ms'\n[topology]\nkind = 'star'\nhosts = 4\nlink = { rate = '10Gbit/s', delay = '1us' }\n\
                [traffic.a]\nkind = 'permutation'\nsize = '1MB'\ntransport = 'ledbat++'\n";
    let warnings = |changes: &[&str]| set(text, changes).unwrap().warnings;
    for transport in ["ledbat++", "cubic"] {
        let dropped = warnings(&[&format!("traffic.a.transport={transport}")]);
        let told = format!(
            "`traffic.a.transport`: packets of {transport} cannot be marked, and \"shared\" drops these from 65"
        );
        assert!(dropped.len() == 1 && dropped[0].contains(&told), "{dropped:?}");
    }
    for change in [
        "queues.ecn={threshold='65 packets', not_ect='pass'}",
        "queues.ecn={threshold='65 packets', not_ect='drop'}",
        "traffic.a.tcp.ecn=classic",
        "traffic.a.transport=dctcp",
    ] {
        assert_eq!(warnings(&[change]), [""; 0], "{change}");
    }
}

/// Periodic groups without hosts send to the next host, which is mostly in the same rack: said unless the file asks for it.
#[test]
fn traffic_that_stays_in_its_rack_is_warned_of() {
    let backup = SMALL.replace("kind = \"incast\"", "kind = \"periodic\"");
    let warnings = |changes: &[&str]| set(&backup, changes).unwrap().warnings;
    let stays = warnings(&[]);
    let told =
        "`traffic.backup.destination_choice`: each host sends to the next one, and 6 of 8 flows stay in their rack";
    assert!(stays.len() == 1 && stays[0].contains(told), "{stays:?}");
    for change in
        ["backup.destination_choice=paired", "backup.destination_choice=random", "traffic.backup.destinations=0..4"]
    {
        assert_eq!(warnings(&[change]), [""; 0], "{change}");
    }
}

/// The words of switches' manuals: a link by its rate, Gbps, an MTU in place of the segment, minutes and hours.
#[test]
fn values_as_engineers_write_them() {
    let link = |text: &str| resolve(&SMALL.replace("{ rate = \"10Gbit/s\", delay = \"1us\" }", text)).unwrap();
    let long = link("{ rate = \"25Gbit/s\", delay = \"1us\" }").topology;
    for text in ["\"25Gbit/s\"", "\"25Gbps\""] {
        assert_eq!(link(text).topology.links(), long.links(), "{text}");
    }
    let error = message(resolve(&SMALL.replace("{ rate = \"10Gbit/s\", delay = \"1us\" }", "\"25 fast\"")));
    assert!(error.starts_with("small.toml:9: `topology.host_link`: \"25 fast\" is not a rate"), "{error}");
    assert_eq!(set(SMALL, &["packets.mtu=9000B"]).unwrap().mss(), 8960);
    let error = message(set(SMALL, &["packets.mss=1400B", "packets.mtu=1500B"]));
    assert!(error.contains("`packets.mtu`: goes without `mss`"), "{error}");
    assert!(message(set(SMALL, &["packets.mtu=90B"])).contains("must be between 104B and 65040B"));
    assert_eq!(set(SMALL, &["drain=2min"]).unwrap().drain(), pliant_proto::time::Span::from_secs(120));
}

/// What `check` prints as a table can be set as a table.
#[test]
fn a_whole_table_can_be_set() {
    let weight = |changes: &[&str]| set(SMALL, changes).unwrap().spec.traffic["backup"].keys.contract.weight;
    assert_eq!(weight(&["backup.contract={ weight = 0.5 }"]), 0.5);
    assert_eq!(weight(&["backup.contract={ weight = 0.5 }", "backup.contract.weight=0.125"]), 0.125);
    let error = message(set(SMALL, &["contract={ weight = 0.5 }"]));
    assert!(error.contains("`contract` may mean `traffic.backup.contract`, `traffic.web.contract`"), "{error}");
}

/// Of several keys that end alike, a short one means the one that the file writes.
#[test]
fn a_short_key_means_what_the_file_writes() {
    assert_eq!(set(SMALL, &["class=2", "queues.plan=dwrr-4-2-1"]).unwrap().spec.traffic["backup"].keys.class, 2);
    assert_eq!(set(SMALL, &["weight=0.5"]).unwrap().spec.traffic["backup"].keys.contract.weight, 0.5);
    let both = SMALL.replace("load = 0.5", "load = 0.5\nclass = 0");
    assert!(message(set(&both, &["class=1"])).contains("may mean `traffic.backup.class`, `traffic.web.class`"));
}

/// What is wrong with a plan that the command line chose is not the file's mistake.
#[test]
fn a_plan_of_the_command_line_is_told_as_such() {
    let error = message(set(SMALL, &["queues.plan=dwrr-90-10-0"]));
    assert!(error.starts_with("--set queues.plan=dwrr-90-10-0: "), "{error}");
}

/// A class of its own in one queue with the others is told of, unless a variant or the command line makes that queue the
/// one to compare with.
#[test]
fn a_class_without_effect_is_warned_of() {
    let (alone, _) = SMALL.split_once("[variants").unwrap();
    let warnings = |text: &str, changes: &[&str]| set(text, changes).unwrap().warnings;
    let idle = warnings(alone, &[]);
    assert!(idle.len() == 1 && idle[0].contains("small.toml:20: `traffic.backup.class`: has no effect"), "{idle:?}");
    let trace = alone.replace("class = 1", "");
    for (text, changes) in [
        (alone, &["queues.plan=shared"][..]),
        (alone, &["queues.plan=strict"]),
        (alone, &["traffic.web.class=1"]),
        (&trace, &[]),
        (SMALL, &[]),
    ] {
        assert_eq!(warnings(text, changes), [""; 0], "{changes:?}");
    }
}

/// A plan's own threshold is for 10 Gbit/s and a datacenter: where it would leave a link dry, that is said, with the value
/// that fits, unless the file says it itself.
#[test]
fn a_threshold_for_slower_links_is_warned_of() {
    let text = "duration = '1ms'\n[topology]\nkind = 'star'\nhosts = 3\nlink = { rate = '100Gbit/s', delay = '20us' }\n\
                [traffic.a]\nkind = 'permutation'\nsize = '1MB'\n";
    let low = set(text, &[]).unwrap().warnings;
    // Two links, forth and back, 80 us and some packets: 100 Gbit/s times that is 1 MB, a seventh of it 93 full frames.
    assert!(low.len() == 1 && low[0].contains("`queues.ecn`: the plan marks from 65 packets on"), "{low:?}");
    assert!(low[0].contains("(100Gbit/s, 80.") && low[0].contains("`ecn = \"94 packets\"` fits"), "{low:?}");
    for change in
        ["queues.ecn=94 packets", "queues.ecn=10 packets", "topology.link.rate=10Gbit/s", "traffic.a.transport=udp"]
    {
        let changes: &[&str] =
            if change.ends_with("udp") { &[change, "traffic.a.udp.rate=1Gbit/s"] } else { &[change] };
        assert_eq!(set(text, changes).unwrap().warnings, [""; 0], "{change}");
    }
}

/// A time that was computed is told to four digits, one that the file says as it says it.
#[test]
fn warnings_tell_times_as_people_do() {
    let slow = "duration = '1ms'\n[topology]\nkind = 'star'\nhosts = 2\nlink = { rate = '10Gbit/s', delay = '1ms' }\n\
                [queues]\nplan = 'reflex'\n[traffic.web]\nkind = 'flows'\nflows = [{ source = 0, destination = 1 }]\n\
                tcp = { initial_rto = '1234567ns' }\ncontract = { min_share = 0.5 }\nreflex = { interval = '100us' }\n";
    let warnings = resolve(slow).unwrap().warnings.join("\n");
    for told in [
        "phases of 100us are shorter than a round trip of 4.003ms: shares",
        "1234567ns is shorter than a round trip of 4.003ms: whatever",
    ] {
        assert!(warnings.contains(told), "{told} in\n{warnings}");
    }
}

/// A table that a program has means what the same file means, and its mistakes are told alike but for the line.
#[test]
fn a_table_of_a_program_is_a_scenario() {
    let text = "duration = '1ms'\n[topology]\nkind = 'star'\nhosts = 3\nlink = { rate = '1Gbit/s', delay = '1us' }\n\
                [traffic.a]\nkind = 'poisson'\nsize = '10kB'\nload = 0.3\ntransport = 'dctcp'\n";
    let of_file = |text: &str| Scenario::parse(text, Path::new("three.toml")).unwrap();
    let of_table = |text: &str| Scenario::of_table(text.parse().unwrap(), "three");
    assert_eq!(of_table(text).resolve().unwrap().to_toml(), of_file(text).resolve().unwrap().to_toml());
    for (right, wrong, key) in [
        ("'dctcp'", "'dcctp'", "traffic.a.transport"),
        ("load = 0.3\n", "load = 'x'\n", "traffic.a.load"),
        ("hosts = 3\n", "", "topology.hosts"),
        ("duration =", "druation =", "druation"),
        ("size = '10kB'", "size = '10kB..1kB'", "traffic.a.size"),
    ] {
        let text = text.replacen(right, wrong, 1);
        let [file, table] = [of_file(&text), of_table(&text)].map(|scenario| scenario.resolve().unwrap_err());
        let after = |error: &ScenarioError| {
            let place = error.place().unwrap().to_string();
            error.to_string().strip_prefix(&place).map(str::to_owned).expect("a message begins with its place")
        };
        assert_eq!(after(&file), after(&table));
        assert_eq!(table.place(), Some(&Place::Program("three".to_owned())));
        assert_eq!([file.key().as_deref(), table.key().as_deref()], [Some(key); 2], "{table}");
    }
}
