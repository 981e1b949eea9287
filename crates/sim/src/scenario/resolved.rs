//! A scenario with every default filled in, everything built, and everything checked against everything else.

use std::path::Path;

use pliant_proto::congestion::{AnyController, CongestionControl};
use pliant_proto::contract::{Contract, ContractError, Field};
use pliant_proto::packet::{CLASSES, TrafficClass, WireFormat};
use pliant_proto::switch::QueuePlan;
use pliant_proto::time::Span;
use pliant_proto::transport::atp::{AtpConfig, LossBound};
use pliant_proto::transport::sender_drop::DropPolicy;
use pliant_proto::transport::tcp::TcpConfig;
use pliant_proto::units::Rate;
use toml::Table;

use super::atp::MessageTransport;
use super::document::Document;
use super::error::ScenarioError;
use super::group::{GroupSpec, TransportName};
use super::queues::{KeyError, QueuesSpec};
use super::spec::{PacketsSpec, ScenarioSpec};
use super::tcp::TcpSpec;
use super::udp::UdpSpec;
use crate::routing::Routing;
use crate::topology::{NodeId, Topology, TopologyError};
use crate::traffic::{Environment, Fabric, Traffic, TrafficError, TrafficGroup, TrafficSpec, generate};
use crate::workload::{Messages, PacketFormat};

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
    /// The messages that its flows consist of; `None` if they are plain sequences of bytes.
    pub messages: Option<Messages>,
    /// How many of these may be missing.
    pub max_loss: LossBound,
}

/// A transport with its settings.
#[derive(Clone, Debug)]
pub enum Carrier {
    /// A member of the TCP family.
    Tcp(Box<TcpCarrier>),
    /// Datagrams.
    Udp(UdpSpec),
    /// ATP or pFabric. The largest rate may stand for that of the sender's link.
    Messages(Box<AtpConfig>),
}

/// A member of the TCP family with its settings.
#[derive(Clone, Debug)]
pub struct TcpCarrier {
    /// Settings of both sides.
    pub config: TcpConfig,
    /// The congestion controller of a new sender.
    pub controller: AnyController,
    /// Leaves messages out before they are sent.
    pub sender_drop: Option<DropPolicy>,
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

    /// The flows of all groups by start time. Only files that changed since the scenario was resolved can fail.
    pub fn traffic(&self) -> Result<Traffic, TrafficError> {
        let classes: Vec<&str> = self.class_names.iter().map(String::as_str).collect();
        let environment =
            Environment { fabric: &self.fabric, seed: self.spec.seed, directory: Path::new(""), classes: &classes };
        let packets = PacketFormat::new(self.mss(), self.wire());
        let group = |group: &'_ Group| (group.name.clone(), group.traffic.clone(), group.messages.clone());
        let named: Vec<(String, TrafficSpec, Option<Messages>)> = self.groups.iter().map(group).collect();
        let groups: Vec<TrafficGroup<'_>> = named
            .iter()
            .map(|(name, spec, messages)| TrafficGroup { name, spec, packets, messages: messages.as_ref() })
            .collect();
        generate(&groups, &environment)
    }
}

/// Fills in, builds and checks.
pub(super) fn resolve(document: &Document) -> Result<Resolved, ScenarioError> {
    let mut spec: ScenarioSpec = document.decode()?;
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
        groups.push(resolve_group(document, &mut spec, &name)?);
    }
    spec.transport = TcpSpec::default();

    let fabric = fabric(&topology, spec.duration);
    let resolved = Resolved { spec, topology, routing, switch_plan, host_plan, groups, fabric, class_names };
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
        let last = match &group.atp {
            _ if group.transport != TransportName::Atp => group.class,
            atp => group.class.saturating_add(atp.clone().unwrap_or_default().classes() - 1),
        };
        let classes = (group.class..=last.max(group.class)).map(|class| ("class", class));
        for (key, class) in classes.chain([("ack_class", group.ack_class.unwrap_or(group.class))]) {
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

fn resolve_group(document: &Document, spec: &mut ScenarioSpec, name: &str) -> Result<Group, ScenarioError> {
    if name.is_empty() || name.contains('.') {
        return Err(document.error("traffic", format!("a group cannot be called \"{name}\"")));
    }
    let ScenarioSpec { packets, transport: defaults, traffic, seed, .. } = spec;
    let group = traffic.get_mut(name).expect("the name comes from here");
    let contract = Contract::from(group.contract);
    contract.check(group.transport.honours()).map_err(|why| contract_error(document, name, group.transport, why))?;
    group.ack_class.get_or_insert(group.class);
    let below = format!("traffic.{name}");
    let refuse = |(key, why): KeyError| document.error(&format!("{below}.{key}"), why);
    check_tables(group).map_err(refuse)?;
    let max_loss = match group.transport {
        transport if transport.honours().contains(&Field::MinDelivery) => {
            let why = "must be above 0: a share of 0 asks for nothing";
            LossBound::from_min_delivery(contract.min_delivery)
                .ok_or_else(|| refuse(("contract.min_delivery".to_owned(), why.to_owned())))?
        }
        _ => LossBound::RELIABLE,
    };
    let carrier = match group.transport {
        TransportName::Udp => udp_carrier(group).map_err(refuse)?,
        TransportName::Atp | TransportName::PFabric => message_carrier(group, packets, max_loss).map_err(refuse)?,
        _ => {
            let tcp = tcp_carrier(group, defaults, packets, &contract);
            let carrier = tcp.map_err(|(key, why)| {
                // A setting for all groups is found where it is given.
                let (own, shared) = (format!("{below}.{key}"), key.replacen("tcp.", "transport.", 1));
                let is_shared = !document.gives(&own) && document.gives(&shared);
                document.error(if is_shared { &shared } else { &own }, why)
            })?;
            Carrier::Tcp(Box::new(carrier))
        }
    };
    let messages = messages(group, name, *seed, packets).map_err(refuse)?;
    let GroupSpec { class, ack_class, ref traffic, .. } = *group;
    let (traffic, ack_class) = (traffic.clone(), ack_class.unwrap_or(class));
    Ok(Group { name: name.to_owned(), traffic, class, ack_class, contract, carrier, messages, max_loss })
}

/// A group has settings of its own transport only.
fn check_tables(group: &GroupSpec) -> Result<(), KeyError> {
    let given = [
        ("tcp", group.tcp.is_some()),
        ("udp", group.udp.is_some()),
        ("atp", group.atp.is_some()),
        ("pfabric", group.pfabric.is_some()),
    ];
    let own = group.transport.settings_table();
    match given.iter().find(|(table, given)| *given && *table != own) {
        Some((table, _)) => {
            Err(((*table).to_owned(), format!("{} has no settings of {table}, only of {own}", group.transport.name())))
        }
        None => Ok(()),
    }
}

/// Writes the settings of ATP or pFabric out and makes the transport's configuration from them.
fn message_carrier(group: &mut GroupSpec, packets: &PacketsSpec, max_loss: LossBound) -> Result<Carrier, KeyError> {
    let of = MessageTransport {
        max_loss,
        payload: packets.mss.0 as u16,
        wire: packets.framing.into(),
        data_class: TrafficClass::new(group.class),
        control_class: TrafficClass::new(group.ack_class.unwrap_or(group.class)),
    };
    let (table, config) = if group.transport == TransportName::Atp {
        let spec = group.atp.take().unwrap_or_default();
        let config = spec.config(of);
        group.atp = Some(spec.explicit());
        ("atp", config)
    } else {
        ("pfabric", group.pfabric.insert(group.pfabric.unwrap_or_default()).config(of))
    };
    config.map(|config| Carrier::Messages(Box::new(config))).map_err(|(key, why)| (format!("{table}.{key}"), why))
}

/// The messages of a group's flows: those asked for; one per packet for transports of messages; none for others.
fn messages(group: &GroupSpec, name: &str, seed: u64, packets: &PacketsSpec) -> Result<Option<Messages>, KeyError> {
    let refuse = |key: &str, why: &str| Err((key.to_owned(), why.to_owned()));
    let built = group.messages.as_ref().map(|spec| spec.build(name, seed, Path::new(""))).transpose();
    let messages = built.map_err(|(key, why)| (format!("messages.{key}"), why))?;
    let counted = messages.as_ref().is_some_and(|messages| messages.count().is_some());
    if counted && matches!(group.traffic, TrafficSpec::Trace(_)) {
        return refuse("messages.count", "a trace gives the size of each flow");
    }
    let endless = !counted && group.traffic.has_endless_flows();
    if endless && group.transport.sends_messages() && !messages.as_ref().is_some_and(Messages::arrive_over_time) {
        let why = "is missing: a flow without an end would be all messages at once; give it a size, or messages a gap";
        return refuse("messages.gap", why);
    }
    if endless && messages.is_some() && !group.transport.sends_messages() {
        return refuse("messages", "need flows with an end here, or messages.count");
    }
    Ok(messages.or_else(|| group.transport.sends_messages().then(|| Messages::cut(packets.mss.0 as u16))))
}

fn udp_carrier(group: &GroupSpec) -> Result<Carrier, KeyError> {
    let refuse = |key: &str, why: &str| Err((key.to_owned(), why.to_owned()));
    match group.udp {
        None => refuse("udp.rate", "is missing: udp needs a rate"),
        Some(udp) if udp.rate.bits_per_sec() == 0 => refuse("udp.rate", "must be above zero"),
        Some(udp) => Ok(Carrier::Udp(udp)),
    }
}

/// Writes the group's settings out and makes its transport from them.
fn tcp_carrier(
    group: &mut GroupSpec,
    defaults: &TcpSpec,
    packets: &PacketsSpec,
    contract: &Contract,
) -> Result<TcpCarrier, KeyError> {
    let below = |(key, why): KeyError| (format!("tcp.{key}"), why);
    let own = group.tcp.clone().unwrap_or_default();
    own.check_keys(group.transport).map_err(below)?;
    let explicit = own.explicit(defaults, group.transport);
    explicit.check_ranges().map_err(below)?;
    let mss = packets.mss.0 as u16;
    let controller = explicit.controller(group.transport, contract, mss).expect("a member of the family");
    let config = TcpConfig {
        mss,
        wire: packets.framing.into(),
        data_class: TrafficClass::new(group.class),
        ack_class: TrafficClass::new(group.ack_class.unwrap_or(group.class)),
        ..explicit.config(controller.ecn_mode())
    };
    config.check().map_err(|why| ("tcp".to_owned(), why.to_string()))?;
    group.tcp = Some(explicit);
    let sender_drop = match group.transport {
        TransportName::DctcpSenderDrop => Some(DropPolicy::Fixed),
        TransportName::DctcpBandwidth => Some(DropPolicy::Congested),
        _ => None,
    };
    Ok(TcpCarrier { config, controller, sender_drop })
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
