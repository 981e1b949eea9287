//! A scenario with every default filled in, everything built, and everything checked against everything else.

use std::path::Path;

use pliant_proto::congestion::{AnyController, CongestionControl};
use pliant_proto::contract::{Contract, ContractError, Field};
use pliant_proto::packet::{CLASSES, TrafficClass, WireFormat};
use pliant_proto::switch::QueuePlan;
use pliant_proto::time::Span;
use pliant_proto::transport::express_pass::CreditConfig;
use pliant_proto::transport::tcp::TcpConfig;
use pliant_proto::units::Rate;
use toml::Table;

use super::credit::CreditCarrier;
use super::credit_carrier::{LEGACY_CLASS, credit_carrier, legacy_carrier};
use super::document::Document;
use super::error::ScenarioError;
use super::group::{GroupSpec, TransportName};
use super::queues::{KeyError, QueuesSpec, Reserve};
use super::spec::{PacketsSpec, RoutingName, ScenarioSpec};
use super::tcp::TcpSpec;
use super::udp::UdpSpec;
use crate::routing::Routing;
use crate::topology::{NodeId, Topology, TopologyError};
use crate::traffic::{Environment, Fabric, Traffic, TrafficError, TrafficGroup, TrafficSpec, generate};
use crate::workload::PacketFormat;

/// `drain` where a file does not say, in units of `duration`.
const DEFAULT_DRAIN: u64 = 10;
/// Payload bytes of a full packet.
const MSS_RANGE: std::ops::RangeInclusive<u64> = 64..=65_000;

/// A scenario ready to run.
#[derive(Clone, Debug)]
pub struct Resolved {
    /// The file's keys, all given.
    pub spec: ScenarioSpec,
    /// Nodes and links.
    pub topology: Topology,
    /// Next hops.
    pub routing: Routing,
    /// Queues of switch ports.
    pub switch_plan: QueuePlan,
    /// Queues of host ports.
    pub host_plan: QueuePlan,
    /// The traffic groups, in the file's order.
    pub groups: Vec<Group>,
    /// Whether each host has the transports with credits; empty if all have.
    deployed: Vec<bool>,
    pub(super) fabric: Fabric,
    class_names: Vec<String>,
}

/// A traffic group ready to run.
#[derive(Clone, Debug)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// What it sends.
    pub traffic: TrafficSpec,
    /// Traffic class of its data.
    pub class: u8,
    /// Traffic class of its acknowledgements.
    pub ack_class: u8,
    /// How far it may bend.
    pub contract: Contract,
    /// What carries it.
    pub carrier: Carrier,
    /// What carries flows whose ends are not both deployed, if there may be some.
    pub legacy: Option<Legacy>,
}

/// What carries the flows of a group whose ends are not both deployed.
#[derive(Clone, Debug)]
pub struct Legacy {
    /// Its transport.
    pub transport: TransportName,
    /// Traffic class of its data and acknowledgements.
    pub class: u8,
    /// Its settings.
    pub carrier: TcpCarrier,
}

/// A transport with its settings.
#[derive(Clone, Debug)]
pub enum Carrier {
    /// A transport with credits.
    Credit(Box<CreditCarrier>),
    /// A member of the TCP family.
    Tcp(Box<TcpCarrier>),
    /// Datagrams.
    Udp(UdpSpec),
}

/// A member of the TCP family with its settings.
#[derive(Clone, Debug)]
pub struct TcpCarrier {
    /// Settings of both sides.
    pub config: TcpConfig,
    /// The congestion controller of a new sender.
    pub controller: AnyController,
}

impl Resolved {
    /// Its name.
    pub fn name(&self) -> &str {
        self.spec.name.as_deref().unwrap_or_default()
    }

    /// The scenario as a file that resolves to the same.
    pub fn to_toml(&self) -> String {
        toml::to_string(&self.to_table()).expect("a scenario is made of tables and plain values")
    }

    pub(super) fn to_table(&self) -> Table {
        Table::try_from(&self.spec).expect("a scenario is made of tables and plain values")
    }

    /// Bytes around a payload.
    pub fn wire(&self) -> WireFormat {
        self.spec.packets.framing.into()
    }

    /// Payload bytes of a full packet.
    pub fn mss(&self) -> u16 {
        self.spec.packets.mss.0 as u16
    }

    /// How long flows under way may take after `duration`.
    pub fn drain(&self) -> Span {
        self.spec.drain.unwrap_or(self.spec.duration.times(DEFAULT_DRAIN))
    }

    /// Whether both ends have the transports with credits.
    pub fn is_upgraded(&self, source: u32, destination: u32) -> bool {
        let has = |host: u32| self.deployed.get(host as usize).copied().unwrap_or(true);
        has(source) && has(destination)
    }

    /// Share of the bytes of all flows of groups with credits whose ends are both deployed, in [0, 1].
    fn upgraded_share(&self) -> f64 {
        let (mut upgraded, mut all) = (0.0, 0.0);
        // A trace that vanished is told of when the scenario runs.
        for flow in self.traffic().into_iter().flatten() {
            let moves = matches!(self.groups[usize::from(flow.group)].carrier, Carrier::Credit(_))
                && self.is_upgraded(flow.source, flow.destination);
            upgraded += if moves { flow.bytes as f64 } else { 0.0 };
            all += flow.bytes as f64;
        }
        if all > 0.0 { upgraded / all } else { 0.0 }
    }

    /// The rate of credits that a host's port to a link of rate `link` lets through, on the wire; `None` if it shapes none.
    pub fn credit_rate(&self, credit: &CreditConfig, link: Rate) -> Option<Rate> {
        let queue = self.host_plan.queue_of_class[credit.credit_class.class()];
        self.host_plan.queues[usize::from(queue)].shaper.map(|shaper| shaper.rate.at(link))
    }

    /// The flows of all groups by start time. Only files that changed since the scenario was resolved can fail.
    pub fn traffic(&self) -> Result<Traffic, TrafficError> {
        let classes: Vec<&str> = self.class_names.iter().map(String::as_str).collect();
        let environment =
            Environment { fabric: &self.fabric, seed: self.spec.seed, directory: Path::new(""), classes: &classes };
        let packets = PacketFormat::new(self.mss(), self.wire());
        let group = |group: &'_ Group| (group.name.clone(), group.traffic.clone());
        let named: Vec<(String, TrafficSpec)> = self.groups.iter().map(group).collect();
        let groups: Vec<TrafficGroup<'_>> =
            named.iter().map(|(name, spec)| TrafficGroup { name, spec, packets }).collect();
        generate(&groups, &environment)
    }
}

/// Least share that is reserved for traffic, however little of it there is.
const LEAST_SHARE: f64 = 0.01;

/// Fills in, builds and checks.
pub(super) fn resolve(document: &Document) -> Result<Resolved, ScenarioError> {
    let spec: ScenarioSpec = document.decode()?;
    let follows = |queues: &QueuesSpec| queues.follows_traffic();
    let oracle = follows(&spec.queues) || spec.host_queues.as_ref().is_some_and(follows);
    let resolved = resolve_spec(document, spec.clone())?;
    if !oracle {
        return Ok(resolved);
    }
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

fn resolve_spec(document: &Document, mut spec: ScenarioSpec) -> Result<Resolved, ScenarioError> {
    check_top(document, &spec)?;
    spec.name.get_or_insert_with(|| document.file_stem());
    spec.drain.get_or_insert(spec.duration.times(DEFAULT_DRAIN));
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
    let topology = spec.topology.build(Path::new("")).map_err(topology_error)?;
    let routing = Routing::new(&topology).map_err(topology_error)?;

    let host_key = if spec.host_queues.is_some() { "host_queues" } else { "queues" };
    let host_queues = spec.host_queues.clone().unwrap_or_else(|| spec.queues.clone());
    let (queues, switch_plan) = build_queues(document, "queues", &spec.queues)?;
    let (host_queues, host_plan) = build_queues(document, host_key, &host_queues)?;
    let class_names = class_names(&queues);
    check_classes(document, &spec, &[("queues", &queues), (host_key, &host_queues)])?;
    (spec.queues, spec.host_queues) = (queues, Some(host_queues));

    let names: Vec<String> = spec.traffic.keys().cloned().collect();
    let mut groups = Vec::with_capacity(names.len());
    for name in names {
        groups.push(resolve_group(document, &mut spec, &name, [&host_plan, &switch_plan])?);
    }
    let deployed = spec.deployment.map_or(Vec::new(), |deployment| deployment.hosts(&topology, spec.seed));
    spec.transport = TcpSpec::default();

    let fabric = fabric(&topology, spec.duration);
    let resolved = Resolved { spec, topology, routing, switch_plan, host_plan, groups, deployed, fabric, class_names };
    check_traffic(document, &resolved)?;
    Ok(resolved)
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
    if spec.sample_interval == Some(Span::ZERO) {
        return refuse("sample_interval", "must be longer than 0s");
    }
    if !MSS_RANGE.contains(&spec.packets.mss.0) {
        return refuse("packets.mss", "must be between 64B and 65000B");
    }
    let with_credits = spec.traffic.values().find(|group| group.transport.has_credits());
    if let Some(group) = with_credits.filter(|_| spec.routing != RoutingName::Ecmp) {
        let name = group.transport.name();
        return refuse("routing", &format!("must be \"ecmp\": {name} needs data to take the way of its credits back"));
    }
    if spec.deployment.is_some_and(|deployment| !(0.0..=1.0).contains(&deployment.deployed)) {
        return refuse("deployment.deployed", "must lie in [0, 1]");
    }
    if spec.traffic.is_empty() {
        return refuse("traffic", "names no traffic group: give at least one [traffic.NAME]");
    }
    if spec.traffic.len() > usize::from(u16::MAX) {
        return refuse("traffic", "has more than 65535 groups");
    }
    Ok(())
}

fn build_queues(document: &Document, key: &str, spec: &QueuesSpec) -> Result<(QueuesSpec, QueuePlan), ScenarioError> {
    let expanded = spec.expanded();
    let built = expanded.and_then(|expanded| expanded.build().map(|plan| (expanded, plan)));
    built.map_err(|(below, why)| document.error(format!("{key}.{below}").trim_end_matches('.'), why))
}

/// What traces may call the classes: each by the queue that takes it, up to the class with which all queues are named.
fn class_names(queues: &QueuesSpec) -> Vec<String> {
    let of_class = queues.queue_of_class().unwrap_or([None; CLASSES]);
    let name = |queue: &Option<u8>| queue.map_or(String::new(), |queue| queues.queue[usize::from(queue)].name.clone());
    let last = queues.queue.iter().filter_map(|queue| queue.classes.iter().min()).max();
    of_class.iter().map(name).take(last.map_or(0, |&last| usize::from(last) + 1)).collect()
}

/// Every class in use must go to a queue.
fn check_classes(document: &Document, spec: &ScenarioSpec, plans: &[(&str, &QueuesSpec)]) -> Result<(), ScenarioError> {
    for (name, group) in &spec.traffic {
        let credit = group.credit.as_ref();
        let legacy = spec.deployment.filter(|_| group.transport.has_credits());
        let classes = [
            ("class", Some(group.class)),
            ("ack_class", Some(group.ack_class.unwrap_or(group.class))),
            ("legacy_class", legacy.map(|_| group.legacy_class.unwrap_or(LEGACY_CLASS))),
            ("credit.class", credit.and_then(|credit| credit.class)),
            ("credit.reactive_class", credit.and_then(|credit| credit.reactive_class)),
        ];
        for (key, class) in classes.into_iter().filter_map(|(key, class)| class.map(|class| (key, class))) {
            let error = |why: String| Err(document.error(&format!("traffic.{name}.{key}"), why));
            if usize::from(class) >= CLASSES {
                return error(format!("class {class} does not exist, classes are 0 to {}", CLASSES - 1));
            }
            for (table, queues) in plans {
                if !queues.queue.iter().any(|queue| queue.classes.contains(&class)) {
                    return error(format!("no queue of `{table}` takes class {class}"));
                }
            }
        }
    }
    Ok(())
}

fn resolve_group(
    document: &Document,
    spec: &mut ScenarioSpec,
    name: &str,
    plans: [&QueuePlan; 2],
) -> Result<Group, ScenarioError> {
    if name.is_empty() || name.contains('.') {
        return Err(document.error("traffic", format!("a group cannot be called \"{name}\"")));
    }
    let ScenarioSpec { packets, transport: defaults, traffic, deployment, .. } = spec;
    let group = traffic.get_mut(name).expect("the name comes from here");
    let contract = Contract::from(group.contract);
    contract.check(group.transport.honours()).map_err(|why| contract_error(document, name, group.transport, why))?;
    group.ack_class.get_or_insert(group.class);
    let place = |(key, why): KeyError| group_error(document, name, &key, why);
    let legacy = legacy_carrier(group, defaults, packets, &contract, deployment.is_some()).map_err(place)?;
    if group.credit.is_some() && !group.transport.has_credits() {
        let why = format!("{} has no settings of credits", group.transport.name());
        return Err(document.error(&format!("traffic.{name}.credit"), why));
    }
    let carrier = if group.transport.has_credits() {
        let carrier = credit_carrier(group, defaults, packets, &contract, plans);
        Carrier::Credit(Box::new(carrier.map_err(place)?))
    } else if group.transport == TransportName::Udp {
        let (below, refused) = (format!("traffic.{name}"), udp_carrier(group));
        refused.map_err(|(key, why)| document.error(&format!("{below}.{key}"), why))?
    } else {
        let carrier = tcp_carrier(group, defaults, packets, &contract).map_err(place)?;
        Carrier::Tcp(Box::new(carrier))
    };
    let GroupSpec { class, ack_class, ref traffic, .. } = *group;
    let (traffic, ack_class) = (traffic.clone(), ack_class.unwrap_or(class));
    Ok(Group { name: name.to_owned(), traffic, class, ack_class, contract, carrier, legacy })
}

/// A setting for all groups is found where it is given.
fn group_error(document: &Document, name: &str, key: &str, why: String) -> ScenarioError {
    let shared = key.replacen("legacy_tcp.", "transport.", 1).replacen("tcp.", "transport.", 1);
    let own = format!("traffic.{name}.{key}");
    let is_shared = !document.gives(&own) && document.gives(&shared);
    document.error(if is_shared { &shared } else { own.trim_end_matches('.') }, why)
}

fn udp_carrier(group: &GroupSpec) -> Result<Carrier, KeyError> {
    let refuse = |key: &str, why: &str| Err((key.to_owned(), why.to_owned()));
    match group.udp {
        _ if group.tcp.is_some() => refuse("tcp", "udp has no settings of TCP"),
        None => refuse("udp.rate", "is missing: udp needs a rate"),
        Some(udp) if udp.rate.bits_per_sec() == 0 => refuse("udp.rate", "must be above zero"),
        Some(udp) => Ok(Carrier::Udp(udp)),
    }
}

/// Writes the group's settings out and makes its transport from them.
pub(super) fn tcp_carrier(
    group: &mut GroupSpec,
    defaults: &TcpSpec,
    packets: &PacketsSpec,
    contract: &Contract,
) -> Result<TcpCarrier, KeyError> {
    let below = |(key, why): KeyError| (format!("tcp.{key}"), why);
    if group.udp.is_some() {
        return Err(("udp".to_owned(), format!("{} has no settings of UDP", group.transport.name())));
    }
    let own = group.tcp.clone().unwrap_or_default();
    own.check_keys(group.transport).map_err(below)?;
    let explicit = own.explicit(defaults, group.transport);
    explicit.check_ranges().map_err(below)?;
    let mss = packets.mss.0 as u16;
    let controller = explicit.controller(group.transport, contract, mss).expect("udp has a carrier of its own");
    let config = TcpConfig {
        mss,
        wire: packets.framing.into(),
        data_class: TrafficClass::new(group.class),
        ack_class: TrafficClass::new(group.ack_class.unwrap_or(group.class)),
        ..explicit.config(controller.ecn_mode())
    };
    config.check().map_err(|why| ("tcp".to_owned(), why.to_string()))?;
    group.tcp = Some(explicit);
    Ok(TcpCarrier { config, controller })
}

fn contract_error(document: &Document, name: &str, transport: TransportName, why: ContractError) -> ScenarioError {
    let (ContractError::OutOfRange(field) | ContractError::NotHonoured(field)) = why;
    let honours = |field: Field| TransportName::ALL.into_iter().filter(move |name| name.honours().contains(&field));
    let why = match why {
        ContractError::OutOfRange(_) => why.to_string(),
        ContractError::NotHonoured(field) => {
            let others: Vec<_> = honours(field).map(TransportName::name).collect();
            let who = if others.is_empty() {
                "no transport does yet".to_owned()
            } else {
                format!("these do: {}", others.join(", "))
            };
            format!("{} does not honour {field} ({who})", transport.name())
        }
    };
    document.error(&format!("traffic.{name}.contract.{field}"), why)
}

/// What traffic depends on. Host links of different rates count as the slowest.
fn fabric(topology: &Topology, duration: Span) -> Fabric {
    let host = |host: u32| topology.link(topology.uplink(NodeId(host)));
    let hosts = 0..topology.hosts();
    let host_rate = hosts.clone().map(|number| host(number).rate).min().expect("a topology has hosts");
    let above_racks = |link: &&crate::topology::Link| {
        !topology.is_host(link.from) && topology.tier(link.from) == 1 && !topology.is_host(link.to)
    };
    let uplinks: u64 = topology.links().iter().filter(above_racks).map(|link| link.rate.bits_per_sec()).sum();
    Fabric {
        racks: hosts.map(|number| host(number).to.0 - topology.hosts()).collect(),
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
    let taken = resolved.spec.queues.queue_of_class().unwrap_or([None; CLASSES]);
    if !resolved.groups.iter().any(is_trace) || taken.iter().all(Option::is_some) {
        return Ok(());
    }
    let lost = |class: u8| taken[usize::from(class)].is_none();
    match traffic.find(|flow| flow.class.is_some_and(lost)) {
        Some(flow) => {
            let group = &resolved.groups[usize::from(flow.group)].name;
            let (number, class) = (flow.sequence + 1, flow.class.unwrap_or_default());
            let why = format!("flow {number} of the trace asks for class {class}, which no queue of `queues` takes");
            Err(document.error(&format!("traffic.{group}.path"), why))
        }
        None => Ok(()),
    }
}
