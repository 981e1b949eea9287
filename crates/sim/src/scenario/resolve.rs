//! Fills in every default of a scenario, builds everything, and checks everything against everything else.

use pliant_proto::packet::{CLASSES, WireFormat};
use pliant_proto::switch::QueuePlan;
use pliant_proto::time::Span;
use pliant_proto::units::{Bytes, Rate};

use super::file::document::Document;
use super::file::error::ScenarioError;
use super::file::spec::{DEFAULT_FLOWLET_GAP, RoutingName, ScenarioSpec};
use super::lint::warnings;
use super::network::ports::Whose;
use super::network::queues::{QueuesSpec, Reserve};
use super::network::{losses, outages};
use super::resolve_group::{LEGACY_CLASS, resolve_group};
use super::resolved::{DEFAULT_DRAIN, Group, Resolved};
use crate::families::{NetworkSettings, check_shared_tcp};
use crate::port_plans::OtherPlans;
use crate::routing::Routing;
use crate::tables::{KeyError, below};
use crate::topology::{LinkId, NodeId, Topology, TopologyError};
use crate::traffic::{Fabric, TrafficError, TrafficSpec};

/// Headers of IP and TCP, without options.
const IP_AND_TCP_BYTES: u64 = 40;
/// Payload bytes of a full packet.
const MSS_RANGE: std::ops::RangeInclusive<u64> = 64..=65_000;
/// Most entries of a switch's table of flowlets.
const MAX_FLOWLET_ENTRIES: u32 = 1 << 20;
/// Least share that is reserved for traffic, however little of it there is.
const LEAST_SHARE: f64 = 0.01;
/// Most samples of a run: each has a row for every queue and group, in memory until the end.
const MAX_SAMPLES: u64 = 10_000_000;

/// Fills in, builds and checks.
pub(super) fn resolve(document: &Document) -> Result<Resolved, ScenarioError> {
    let spec: ScenarioSpec = document.decode()?;
    let resolved = resolve_spec(document, spec.clone())?;
    if !follows_traffic(&spec) {
        return Ok(resolved);
    }
    let follows = |queues: &QueuesSpec| queues.follows_traffic();
    check_oracle(&resolved).map_err(|why| {
        let own = spec.host_queues.as_ref().is_some_and(follows) && !follows(&spec.queues);
        document.error(if own { "host_queues.reserve" } else { "queues.reserve" }, why)
    })?;
    // Which bytes are upgraded is known once everything else is.
    let share = Reserve::Share(resolved.upgraded_share().max(LEAST_SHARE));
    let mut spec = spec;
    for queues in [Some(&mut spec.queues), spec.host_queues.as_mut()].into_iter().flatten() {
        if follows(queues) {
            queues.reserve = Some(share);
        }
    }
    resolve_spec(document, spec)
}

/// Whether a share reserved by the queues follows the traffic.
pub(super) fn follows_traffic(spec: &ScenarioSpec) -> bool {
    [Some(&spec.queues), spec.host_queues.as_ref()].into_iter().flatten().any(QueuesSpec::follows_traffic)
}

fn resolve_spec(document: &Document, mut spec: ScenarioSpec) -> Result<Resolved, ScenarioError> {
    if let Some(mtu) = spec.packets.mtu.take() {
        if document.gives("packets.mss") {
            return Err(document.error("packets.mtu", "goes without `mss`, which is 40 bytes less"));
        }
        spec.packets.mss = Bytes(mtu.0.saturating_sub(IP_AND_TCP_BYTES));
        if !MSS_RANGE.contains(&spec.packets.mss.0) {
            return Err(document.error("packets.mtu", "must be between 104B and 65040B"));
        }
    }
    check_top(document, &spec)?;
    spec.name.get_or_insert_with(|| document.file_stem());
    spec.drain.get_or_insert(spec.duration.times(DEFAULT_DRAIN));
    if spec.routing == RoutingName::Flowlet {
        spec.flowlet_gap.get_or_insert(DEFAULT_FLOWLET_GAP);
    }
    // A promise of a share is held against what came of it.
    let promises = spec.traffic.values().any(|group| group.keys.contract.min_share < 1.0);
    let moves = reroute_key(&spec);
    let bundled = spec.traffic.iter().find(|(_, group)| group.keys.bundle).map(|(name, _)| name.clone());
    let told = spec.routing == RoutingName::Ecmp && moves.is_none() && bundled.is_none();
    spec.shares.get_or_insert(promises && told);
    if let (Some(true), Some(name)) = (spec.shares, bundled) {
        let why = "the max-min rates of `shares` are those of single flows: not with `bundle`";
        return Err(document.error(&format!("traffic.{name}.bundle"), why));
    }
    if let (Some(true), Some(key)) = (spec.shares, moves) {
        return Err(document.error(&key, "a fair rate is that of one path: not with `shares`"));
    }
    spec.variants.clear();

    let topology_error = |source| {
        let key = match &source {
            TopologyError::OutOfRange { key, .. }
            | TopologyError::NotMultiple { key, .. }
            | TopologyError::ZeroRate { key } => format!("topology.{key}"),
            _ => "topology".to_owned(),
        };
        ScenarioError::Topology { place: document.place(&key), source: Box::new(source) }
    };
    let topology = spec.topology.build().map_err(topology_error)?;
    let mut routing = Routing::new(&topology).map_err(topology_error)?;
    let weights = spec.path_weights.resolve(&topology).map_err(|(key, why)| document.error(&key, why))?;
    if !weights.is_empty() {
        routing = routing.weighted(weights.clone());
    }
    if spec.routing == RoutingName::FlowRoundRobin {
        routing = routing.in_turn();
    }

    let host_key = if spec.host_queues.is_some() { "host_queues" } else { "queues" };
    let host_queues = spec.host_queues.clone().unwrap_or_else(|| spec.queues.at_hosts(&topology));
    let switches = build_queues(document, "queues", &spec.queues, (&topology, Whose::Switches))?;
    let mut hosts = build_queues(document, host_key, &host_queues, (&topology, Whose::Hosts))?;
    for (plan, (below, _)) in hosts.plans.iter_mut().zip(hosts.spec.tables()) {
        plan.jitter = spec.host_jitter.unwrap_or_default();
        plan.check().map_err(|error| document.error("host_jitter", error.why))?;
        if let Some(queue) = plan.trims() {
            let why =
                "hosts do not trim, for nothing could be returned to their flows: give them `host_queues` of their own";
            return Err(document.error(&format!("{host_key}.{below}queue.{queue}"), why));
        }
    }
    let class_names = class_names(&switches.spec);
    for built in [&switches, &hosts] {
        check_limits(document, &spec, &topology, built)?;
        check_classes(document, &spec, built)?;
    }
    let other_plans = other_plans(&topology, &switches, &hosts);
    (spec.queues, spec.host_queues) = (switches.spec, Some(hosts.spec));
    let (mut switch_plans, mut host_plans) = (switches.plans.into_iter(), hosts.plans.into_iter());
    let (switch_plan, host_plan) =
        switch_plans.next().zip(host_plans.next()).expect("the first plan of each is that of its table");

    let shared_tcp = std::mem::take(&mut spec.transport);
    check_shared_tcp(&shared_tcp).map_err(|error| {
        let (key, why) = below("transport", error);
        document.error(&key, why)
    })?;
    let network = NetworkSettings {
        mss: spec.packets.mss.0 as u16,
        wire: spec.packets.framing.into(),
        one_path: spec.routing == RoutingName::Ecmp,
        shared_tcp: &shared_tcp,
        host_plan: &host_plan,
        switch_plan: &switch_plan,
    };
    let names: Vec<String> = spec.traffic.keys().cloned().collect();
    let groups: Vec<Group> = names
        .iter()
        .map(|name| resolve_group(document, &mut spec, name.clone(), network, host_key))
        .collect::<Result<_, _>>()?;
    check_other_ports(document, &spec, &names, network, (host_key, other_plans.plans()))?;
    check_pushed(document, &groups, &other_plans)?;
    check_min_rates(document, &groups, &topology)?;
    let deployed = spec.deployment.map_or(Vec::new(), |deployment| deployment.hosts(&topology, spec.seed));
    if groups.iter().any(|group| group.transport.facts().asks_oracle) {
        spec.oracle.get_or_insert_default();
    }

    let place = |(key, why): KeyError| document.error(&key, why);
    let mut losses = losses::resolve(&spec.losses, &topology).map_err(place)?;
    losses.extend(outages::resolve(&spec.outages, &topology).map_err(place)?);
    let reroutes = outages::reroutes(&spec.outages, &topology, &weights).map_err(place)?;
    if let (Some(first), true) = (reroute_key(&spec), groups.iter().any(|group| group.transport.facts().asks_oracle)) {
        return Err(document.error(&first, "an oracle knows the paths of the start only: not with near-opt"));
    }
    let fabric = fabric(&topology, spec.duration);
    let mut resolved = Resolved {
        spec,
        topology,
        routing,
        switch_plan,
        host_plan,
        other_plans,
        groups,
        deployed,
        losses,
        reroutes,
        warnings: Vec::new(),
        fabric,
        class_names,
    };
    check_traffic(document, &resolved)?;
    resolved.warnings = warnings(document, &resolved);
    Ok(resolved)
}

/// The key that lets paths move.
fn reroute_key(spec: &ScenarioSpec) -> Option<String> {
    let index = spec.outages.iter().position(|outage| outage.reroute_after.is_some())?;
    Some(format!("outages.{index}.reroute_after"))
}

fn check_top(document: &Document, spec: &ScenarioSpec) -> Result<(), ScenarioError> {
    let refuse = |key: &str, why: &str| Err(document.error(key, why));
    if spec.seed > i64::MAX as u64 {
        return refuse("seed", "must be at most 2^63 - 1");
    }
    if spec.duration == Span::ZERO {
        return refuse("duration", "must be longer than 0s");
    }
    if spec.warmup >= spec.duration {
        return refuse("warmup", "must be shorter than `duration`");
    }
    if let Some(until) = spec.measure_until
        && (until <= spec.warmup || until > spec.duration)
    {
        return refuse("measure_until", "must be after `warmup` and at most `duration`");
    }
    if spec.shares == Some(true) && spec.routing != RoutingName::Ecmp {
        return refuse("shares", "needs `routing` \"ecmp\": a fair rate is that of one path");
    }
    if spec.routing == RoutingName::FlowRoundRobin && !spec.outages.is_empty() {
        return refuse("outages", "move paths that a hash chooses: they do not go with `routing` \"flow-round-robin\"");
    }
    let by_flowlet = spec.routing == RoutingName::Flowlet;
    if spec.flowlet_gap.is_some() && !by_flowlet {
        return refuse("flowlet_gap", "goes with `routing` \"flowlet\"");
    }
    if spec.flowlet_table.is_some() && !by_flowlet {
        return refuse("flowlet_table", "goes with `routing` \"flowlet\"");
    }
    if spec.flowlet_table.is_some_and(|entries| !(1..=MAX_FLOWLET_ENTRIES).contains(&entries)) {
        return refuse("flowlet_table", &format!("must be between 1 and {MAX_FLOWLET_ENTRIES}"));
    }
    if spec.flowlet_gap == Some(Span::ZERO) {
        return refuse("flowlet_gap", "must be longer than 0s: \"spray-random\" chooses for each packet");
    }
    if !spec.path_weights.are_equal() && !by_flowlet && spec.routing != RoutingName::Ecmp {
        return refuse("path_weights", "goes with `routing` \"ecmp\" or \"flowlet\": the others take all links alike");
    }
    if spec.sample_interval == Some(Span::ZERO) {
        return refuse("sample_interval", "must be longer than 0s");
    }
    if let Some(interval) = spec.sample_interval
        && spec.duration.as_ps() / interval.as_ps() > MAX_SAMPLES
    {
        let least = spec.duration.divided_by(MAX_SAMPLES);
        return refuse("sample_interval", &format!("{MAX_SAMPLES} samples are the most: at least {least}"));
    }
    if spec.sample_windows && spec.sample_interval.is_none() {
        return refuse("sample_windows", "needs a `sample_interval`");
    }
    if !MSS_RANGE.contains(&spec.packets.mss.0) {
        return refuse("packets.mss", "must be between 64B and 65000B");
    }
    let with_credits = spec.traffic.values().find(|group| group.keys.transport.traits().has_credits);
    if let Some(group) = with_credits.filter(|_| spec.routing != RoutingName::Ecmp) {
        let name = group.keys.transport.name();
        return refuse("routing", &format!("must be \"ecmp\": {name} needs data to take the way of its credits back"));
    }
    if spec.deployment.is_some_and(|deployment| !(0.0..=1.0).contains(&deployment.deployed)) {
        return refuse("deployment.deployed", "must lie in [0, 1]");
    }
    if let Err((key, why)) = spec.oracle.map_or(Ok(()), crate::families::OracleSpec::check) {
        return refuse(&format!("oracle.{key}"), &why);
    }
    if spec.traffic.is_empty() {
        return refuse("traffic", "names no traffic group: give at least one [traffic.NAME]");
    }
    if spec.traffic.len() > usize::from(u16::MAX) {
        return refuse("traffic", "has more than 65535 groups");
    }
    Ok(())
}

/// The table of the queues of switches or hosts, written out, and what was made of it.
struct Queues<'k> {
    key: &'k str,
    whose: Whose,
    spec: QueuesSpec,
    /// That of the table, then those of its `ports`.
    plans: Vec<QueuePlan>,
}

impl Queues<'_> {
    /// The plan, by number, of the port that sends on `link`; `None` if the port is of the other kind of nodes.
    fn plan_of(&self, topology: &Topology, link: LinkId) -> Option<usize> {
        let of_host = topology.is_host(topology.link(link).from);
        let is_ours = of_host == (self.whose == Whose::Hosts);
        is_ours.then(|| self.spec.element_of(topology, link).map_or(0, |element| element + 1))
    }
}

fn build_queues<'k>(
    document: &Document,
    key: &'k str,
    spec: &QueuesSpec,
    (topology, whose): (&Topology, Whose),
) -> Result<Queues<'k>, ScenarioError> {
    let place = |(below, why): KeyError| document.error(format!("{key}.{below}").trim_end_matches('.'), why);
    let spec = spec.expanded().map_err(place)?;
    spec.check_ports(topology, whose).map_err(place)?;
    let build = |(above, table): (String, &QueuesSpec)| {
        table.build().map_err(|(below, why)| place((format!("{above}{below}").trim_end_matches('.').to_owned(), why)))
    };
    let plans = spec.tables().map(build).collect::<Result<_, _>>()?;
    Ok(Queues { key, whose, spec, plans })
}

/// The ports that differ: those of switches, then those of hosts.
fn other_plans(topology: &Topology, switches: &Queues<'_>, hosts: &Queues<'_>) -> OtherPlans {
    let plans = switches.plans[1..].iter().chain(&hosts.plans[1..]).cloned().collect();
    OtherPlans::new(plans, topology.links().len(), |link| {
        let of_switch = || switches.plan_of(topology, link)?.checked_sub(1);
        let of_host = || Some(hosts.plan_of(topology, link)?.checked_sub(1)? + switches.plans.len() - 1);
        of_switch().or_else(of_host)
    })
}

/// What a group's transport asks of queues it asks of the ports that differ, too.
fn check_other_ports(
    document: &Document,
    spec: &ScenarioSpec,
    names: &[String],
    network: NetworkSettings<'_>,
    (host_key, plans): (&str, &[QueuePlan]),
) -> Result<(), ScenarioError> {
    let at_hosts = spec.host_queues.as_ref().map_or(&[][..], |queues| &queues.ports);
    for (index, (ports, plan)) in spec.queues.ports.iter().chain(at_hosts).zip(plans).enumerate() {
        let at_switches = index < spec.queues.ports.len();
        let mut with = spec.clone();
        // This one first, and the others beside it: some ask what is so somewhere.
        let first = |all: &QueuesSpec| QueuesSpec {
            ports: all.tables().map(|(_, table)| table.clone()).collect(),
            ..ports.clone()
        };
        let network = if at_switches {
            with.queues = first(&spec.queues);
            NetworkSettings { switch_plan: plan, ..network }
        } else {
            with.host_queues = spec.host_queues.as_ref().map(first);
            NetworkSettings { host_plan: plan, ..network }
        };
        for name in names {
            resolve_group(document, &mut with, name.clone(), network, host_key).map_err(|error| {
                let whose = if at_switches { "switch" } else { "host" };
                error.saying(&format!("of {whose} ports: {}", ports.choice()))
            })?;
        }
    }
    Ok(())
}

/// The controller of pushed objects knows one marking threshold.
fn check_pushed(document: &Document, groups: &[Group], others: &OtherPlans) -> Result<(), ScenarioError> {
    let takes_threshold = |group: &&Group| group.transport.facts().takes_threshold;
    match groups.iter().find(takes_threshold).filter(|_| !others.plans().is_empty()) {
        Some(group) => {
            let why = "is needed beside `ports`: otherwise it follows from one marking threshold of all ports";
            Err(document.error(&format!("traffic.{}.push.high_weight", group.name), why))
        }
        None => Ok(()),
    }
}

/// A queue whose limit is a time must hold a full packet, or none would pass.
fn check_limits(
    document: &Document,
    spec: &ScenarioSpec,
    topology: &Topology,
    built: &Queues<'_>,
) -> Result<(), ScenarioError> {
    let full = WireFormat::from(spec.packets.framing).wire_bytes(spec.packets.mss.0 as u16);
    for (number, (plan, (below, _))) in built.plans.iter().zip(built.spec.tables()).enumerate() {
        let ours = topology.link_ids().filter(|&link| built.plan_of(topology, link) == Some(number));
        let Some(rate) = ours.map(|link| topology.link(link).rate).min() else { continue };
        for (index, queue) in plan.queues.iter().enumerate() {
            let Some(limit) = queue.limit_time.filter(|limit| rate.bytes_in(*limit) < u64::from(full)) else {
                continue;
            };
            let bytes = rate.bytes_in(limit);
            let why = format!("{limit} of a link of {rate} are {bytes} bytes: not even a full packet of {full}");
            return Err(document.error(&format!("{}.{below}queue.{index}.limit", built.key), why));
        }
    }
    Ok(())
}

/// What traces may call the classes: each by the queue that takes it, up to the class with which all queues are named.
fn class_names(queues: &QueuesSpec) -> Vec<String> {
    let of_class = queues.queue_of_class().unwrap_or([None; CLASSES]);
    let name = |queue: &Option<u8>| queue.map_or(String::new(), |queue| queues.queue[usize::from(queue)].name.clone());
    let last = queues.queue.iter().filter_map(|queue| queue.classes.iter().min()).max();
    of_class.iter().map(name).take(last.map_or(0, |&last| usize::from(last) + 1)).collect()
}

/// Every class in use must go to a queue.
fn check_classes(document: &Document, spec: &ScenarioSpec, built: &Queues<'_>) -> Result<(), ScenarioError> {
    for (name, group) in &spec.traffic {
        let (keys, tables) = (&group.keys, &group.tables);
        let transport = keys.transport;
        let own = [("class", keys.class), ("ack_class", keys.ack_class.unwrap_or(keys.class))];
        let of_family = transport.family().classes(transport, keys.class, tables);
        let legacy = spec.deployment.filter(|_| transport.traits().has_credits);
        let legacy = legacy.map(|_| ("legacy_class".to_owned(), keys.legacy_class.unwrap_or(LEGACY_CLASS)));
        let all = own.map(|(key, class)| (key.to_owned(), class)).into_iter().chain(of_family).chain(legacy);
        for (key, class) in all {
            let error = |why: String| Err(document.error(&format!("traffic.{name}.{key}"), why));
            if usize::from(class) >= CLASSES {
                return error(format!("class {class} does not exist, classes are 0 to {}", CLASSES - 1));
            }
            for (below, queues) in built.spec.tables() {
                if !queues.queue.iter().any(|queue| queue.classes.contains(&class)) {
                    let table = format!("{}.{below}", built.key);
                    return error(format!("no queue of `{}` takes class {class}", table.trim_end_matches('.')));
                }
            }
        }
    }
    Ok(())
}

/// What traffic depends on. Hosts of different rates count as the slowest; of one with several links these count together.
fn fabric(topology: &Topology, duration: Span) -> Fabric {
    let hosts = (0..topology.hosts()).map(NodeId);
    let host_rate = hosts.clone().map(|host| topology.host_rate(host)).min().expect("a topology has hosts");
    let above_racks = |link: &&crate::topology::Link| {
        !topology.is_host(link.from) && topology.tier(link.from) == 1 && !topology.is_host(link.to)
    };
    let uplinks: u64 = topology.links().iter().filter(above_racks).map(|link| link.rate.bits_per_sec()).sum();
    Fabric {
        racks: hosts.map(|host| topology.rack(host).0 - topology.hosts()).collect(),
        host_rate,
        uplinks: (uplinks > 0).then(|| Rate::from_bits_per_sec(uplinks)),
        duration,
    }
}

/// Lets every generator check itself, and that traces ask for classes that exist.
fn check_traffic(document: &Document, resolved: &Resolved) -> Result<(), ScenarioError> {
    let mut traffic = resolved.traffic().map_err(|source| {
        let (group, key) = match &source {
            TrafficError::Key { group, key, .. } | TrafficError::Sizes { group, key, .. } => (group, *key),
            TrafficError::Unreadable { group, .. } | TrafficError::TraceLine { group, .. } => (group, "path"),
        };
        let place = document.place(&format!("traffic.{group}.{key}"));
        ScenarioError::Traffic { place, source: Box::new(source) }
    })?;
    let is_trace = |group: &Group| matches!(group.traffic, TrafficSpec::Trace(_));
    let taken = |table: &QueuesSpec| table.queue_of_class().unwrap_or([None; CLASSES]);
    let lacks = |class: u8| {
        let mut tables = resolved.spec.queues.tables();
        tables.find(|(_, table)| taken(table)[usize::from(class)].is_none()).map(|(below, _)| format!("queues.{below}"))
    };
    let lacking: Vec<Option<String>> = (0..CLASSES as u8).map(lacks).collect();
    if !resolved.groups.iter().any(is_trace) || lacking.iter().all(Option::is_none) {
        return Ok(());
    }
    let lost = |class: u8| lacking[usize::from(class)].as_ref();
    match traffic.find(|flow| flow.class.is_some_and(|class| lost(class).is_some())) {
        Some(flow) => {
            let group = &resolved.groups[usize::from(flow.group)].name;
            let (number, class) = (flow.sequence + 1, flow.class.unwrap_or_default());
            let table = lost(class).map_or("queues", |table| table.trim_end_matches('.'));
            let why = format!("flow {number} of the trace asks for class {class}, which no queue of `{table}` takes");
            Err(document.error(&format!("traffic.{group}.path"), why))
        }
        None => Ok(()),
    }
}

/// Refuses a promised rate that no link carries.
fn check_min_rates(document: &Document, groups: &[Group], topology: &Topology) -> Result<(), ScenarioError> {
    let fastest = topology.links().iter().map(|link| link.rate).max().unwrap_or_default();
    match groups.iter().find(|group| group.contract.min_rate > fastest) {
        Some(group) => {
            let why = format!("{} is above the rate of the fastest link, {fastest}", group.contract.min_rate);
            Err(document.error(&format!("traffic.{}.contract.min_rate", group.name), why))
        }
        None => Ok(()),
    }
}

/// Refuses a reserved share that follows the traffic where nothing sets that traffic apart.
fn check_oracle(resolved: &Resolved) -> Result<(), &'static str> {
    let has_credits = |group: &&Group| group.transport.facts().credits.is_some();
    let mut groups = resolved.groups.iter().filter(has_credits).peekable();
    if groups.peek().is_none() {
        return Err("\"traffic\" is the share of groups with credits, and there is none");
    }
    let queue_of = |class: u8| resolved.switch_plan.queue_of_class[usize::from(class)];
    let together =
        groups.any(|group| group.legacy.as_ref().is_some_and(|legacy| queue_of(legacy.class) == queue_of(group.class)));
    if together {
        return Err("\"traffic\" weighs two queues, so legacy flows need a class of the other one: legacy_class");
    }
    Ok(())
}
