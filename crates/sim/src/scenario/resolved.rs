//! A scenario with every default filled in, everything built, and everything checked against everything else.

use std::path::Path;

use pliant_proto::congestion::AnyController;
use pliant_proto::contract::cross_queue_notification::CrossQueueConfig;
use pliant_proto::contract::{Contract, ContractError, Field};
use pliant_proto::packet::{CLASSES, TrafficClass, WireFormat};
use pliant_proto::switch::QueuePlan;
use pliant_proto::time::Span;
use pliant_proto::transport::atp::{AtpConfig, LossBound};
use pliant_proto::transport::dccp::DccpConfig;
use pliant_proto::transport::express_pass::CreditConfig;
use pliant_proto::transport::homa::HomaConfig;
use pliant_proto::transport::ndp::NdpConfig;
use pliant_proto::transport::scdp::ScdpConfig;
use pliant_proto::transport::sender_drop::DropPolicy;
use pliant_proto::transport::tcp::TcpConfig;
use pliant_proto::units::Rate;
use toml::Table;

use super::atp::MessageTransport;
use super::credit::CreditCarrier;
use super::credit_carrier::{LEGACY_CLASS, check_oracle, credit_carrier, legacy_carrier};
use super::dccp::DccpSpec;
use super::document::Document;
use super::error::ScenarioError;
use super::group::{GroupSpec, TransportName};
use super::homa::HomaSpec;
use super::kernel::kernel_carrier;
use super::losses;
use super::ndp::NdpSpec;
use super::near_opt::{NearOptSpec, OracleSpec};
use super::outages;
use super::push::{PushCarrier, push_carrier};
use super::queues::{KeyError, QueuesSpec, Reserve};
use super::reflex::ReflexGroup;
use super::scdp::ScdpSpec;
use super::spec::{PacketsSpec, RoutingName, ScenarioSpec};
use super::tcp::TcpSpec;
use super::udp::UdpSpec;
use super::warnings::warnings;
use crate::engine::LinkLoss;
use crate::routing::Routing;
use crate::topology::{NodeId, Topology, TopologyError};
use crate::traffic::{
    Environment, FANOUT_MAX, Fabric, Offered, Traffic, TrafficError, TrafficGroup, TrafficSpec, generate, offered,
};
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
    /// Whether each host has the transports with credits; empty if all have.
    deployed: Vec<bool>,
    /// What links lose.
    pub losses: Vec<LinkLoss>,
    /// What can run but is hardly meant, a line each.
    pub warnings: Vec<String>,
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
    /// Whether each of its flows keeps to one path though others do not.
    pub pinned: bool,
    /// How far it may bend.
    pub contract: Contract,
    /// How its flows give way, if they do.
    pub reflex: Option<ReflexGroup>,
    /// What carries it.
    pub carrier: Carrier,
    /// The messages that its flows consist of; `None` if they are plain sequences of bytes.
    pub messages: Option<Messages>,
    /// How many of these may be missing.
    pub max_loss: LossBound,
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
    /// DCCP.
    Dccp(Box<DccpConfig>),
    /// NDP.
    Ndp(Box<NdpConfig>),
    /// SCDP.
    Scdp(Box<ScdpConfig>),
    /// Homa.
    Homa(Box<HomaConfig>),
    /// Near-Opt.
    NearOpt(NearOptSpec),
    /// Push.
    Push(Box<PushCarrier>),
    /// ATP or pFabric. The largest rate may stand for that of the sender's link.
    Messages(Box<AtpConfig>),
    /// The operating system's TCP with a congestion control of which the simulator has no model.
    Kernel,
}

/// A member of the TCP family with its settings.
#[derive(Clone, Debug)]
pub struct TcpCarrier {
    /// Settings of both sides.
    pub config: TcpConfig,
    /// The congestion controller of a new sender.
    pub controller: AnyController,
    /// When a sender pauses for the queue above, if it does.
    pub cross_queue: Option<CrossQueueConfig>,
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

    /// Why the simulator cannot run it, if so.
    pub fn testbed_only(&self) -> Option<String> {
        let group = self.groups.iter().find(|group| matches!(group.carrier, Carrier::Kernel))?;
        Some(format!(
            "traffic.{}.kernel.congestion: the simulator has no model of it, only a testbed runs it",
            group.name
        ))
    }

    /// Bytes around a payload.
    pub fn wire(&self) -> WireFormat {
        self.spec.packets.framing.into()
    }

    /// Payload bytes of a full packet.
    pub fn mss(&self) -> u16 {
        self.spec.packets.mss.0 as u16
    }

    /// How often the oracle of `near-opt` flows tells rates.
    pub fn oracle_interval(&self) -> Span {
        self.spec.oracle.unwrap_or_default().interval
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
        self.with_groups(generate)
    }

    /// What each group offers to links on average.
    pub(super) fn offered(&self) -> Result<Vec<Offered>, TrafficError> {
        self.with_groups(offered)
    }

    fn with_groups<T>(&self, act: impl FnOnce(&[TrafficGroup<'_>], &Environment<'_>) -> T) -> T {
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
        act(&groups, &environment)
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
    let host_queues = spec.host_queues.clone().unwrap_or_else(|| spec.queues.at_hosts());
    let (queues, switch_plan) = build_queues(document, "queues", &spec.queues)?;
    let (host_queues, host_plan) = build_queues(document, host_key, &host_queues)?;
    if let Some(queue) = host_plan.trims() {
        let why =
            "hosts do not trim, for nothing could be returned to their flows: give them `host_queues` of their own";
        return Err(document.error(&format!("{host_key}.queue.{queue}"), why));
    }
    let class_names = class_names(&queues);
    check_classes(document, &spec, &[("queues", &queues), (host_key, &host_queues)])?;
    (spec.queues, spec.host_queues) = (queues, Some(host_queues));

    let names: Vec<String> = spec.traffic.keys().cloned().collect();
    let mut groups = Vec::with_capacity(names.len());
    for name in names {
        let group = resolve_group(document, &mut spec, &name, [&host_plan, &switch_plan])?;
        groups.push(resolve_reflex(document, &mut spec, host_key, group)?);
    }
    let deployed = spec.deployment.map_or(Vec::new(), |deployment| deployment.hosts(&topology, spec.seed));
    spec.transport = TcpSpec::default();
    if groups.iter().any(|group| matches!(group.carrier, Carrier::NearOpt(_))) {
        spec.oracle.get_or_insert_default();
    }

    let place = |(key, why): KeyError| document.error(&key, why);
    let mut losses = losses::resolve(&spec.losses, &topology).map_err(place)?;
    losses.extend(outages::resolve(&spec.outages, &topology).map_err(place)?);
    let fabric = fabric(&topology, spec.duration);
    let mut resolved = Resolved {
        spec,
        topology,
        routing,
        switch_plan,
        host_plan,
        groups,
        deployed,
        losses,
        warnings: Vec::new(),
        fabric,
        class_names,
    };
    check_traffic(document, &resolved)?;
    resolved.warnings = warnings(document, &resolved);
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
    if let Some(until) = spec.measure_until
        && (until <= spec.warmup || until > spec.duration)
    {
        return refuse("measure_until", "must be after `warmup` and at most `duration`");
    }
    if spec.shares && spec.routing != RoutingName::Ecmp {
        return refuse("shares", "needs `routing` \"ecmp\": a fair rate is that of one path");
    }
    if spec.sample_interval == Some(Span::ZERO) {
        return refuse("sample_interval", "must be longer than 0s");
    }
    if spec.sample_windows && spec.sample_interval.is_none() {
        return refuse("sample_windows", "needs a `sample_interval`");
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
    if let Err((key, why)) = spec.oracle.map_or(Ok(()), OracleSpec::check) {
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
            _ if group.transport == TransportName::Scdp => group.class.saturating_add(ScdpSpec::MORE_CLASSES),
            _ if group.transport == TransportName::Homa => {
                let more = group.homa.as_ref().map_or(HomaSpec::default().more_classes(), HomaSpec::more_classes);
                group.class.saturating_add(more)
            }
            _ if group.transport != TransportName::Atp => group.class,
            atp => group.class.saturating_add(atp.clone().unwrap_or_default().classes() - 1),
        };
        let own = (group.class..=last.max(group.class)).map(|class| ("class", class));
        let acks = [("ack_class", group.ack_class.unwrap_or(group.class))];
        let probes = group.cross_queue.map(|cross_queue| ("cross_queue.probe_class", cross_queue.probe_class));
        let credit = group.credit.as_ref();
        let legacy = spec.deployment.filter(|_| group.transport.has_credits());
        let credits = [
            ("legacy_class", legacy.map(|_| group.legacy_class.unwrap_or(LEGACY_CLASS))),
            ("credit.class", credit.and_then(|credit| credit.class)),
            ("credit.reactive_class", credit.and_then(|credit| credit.reactive_class)),
        ];
        let control = match group.transport {
            TransportName::Ndp => Some(("ndp.class", Some(group.ndp.unwrap_or_default().class))),
            TransportName::Scdp => Some(("scdp.class", Some(group.scdp.unwrap_or_default().class))),
            _ => None,
        };
        let credits = credits.into_iter().chain(control).filter_map(|(key, class)| class.map(|class| (key, class)));
        for (key, class) in own.chain(acks).chain(probes).chain(credits) {
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
    let ScenarioSpec { packets, queues, transport: defaults, traffic, routing, seed, deployment, .. } = spec;
    let group = traffic.get_mut(name).expect("the name comes from here");
    let contract = Contract::from(group.contract);
    let mut honours = group.transport.honours().to_vec();
    if group.reflex.is_some() {
        honours.push(Field::MinShare);
        // Which symbols an object can do without its receiver decides.
        if group.transport != TransportName::Push {
            honours.push(Field::MinDelivery);
        }
    }
    contract.check(&honours).map_err(|why| contract_error(document, name, group.transport, why))?;
    group.ack_class.get_or_insert(group.class);
    if let TrafficSpec::Objects(spec) = &mut group.traffic {
        spec.fanout = Some(spec.fanout());
        if !(1..=FANOUT_MAX).contains(&spec.fanout()) {
            let why = format!("{} sources: an object has 1 to {FANOUT_MAX}", spec.fanout());
            return Err(document.error(&format!("traffic.{name}.fanout"), why));
        }
        let shares_out = group.transport.shares_objects_out();
        spec.split.get_or_insert(!shares_out);
        if !spec.splits() && !shares_out {
            let why = format!("{} has no way to share an object out: only true fits", group.transport.name());
            return Err(document.error(&format!("traffic.{name}.split"), why));
        }
    }
    let max_loss =
        max_loss(group, &contract).map_err(|(key, why)| document.error(&format!("traffic.{name}.{key}"), why))?;
    let place = |(key, why): KeyError| group_error(document, name, &key, why);
    let tcp = TcpParts { defaults, packets, queues, contract: &contract };
    let legacy = legacy_carrier(group, tcp, deployment.is_some()).map_err(place)?;
    let carrier = check_tables(group).and_then(|()| match group.transport {
        TransportName::Udp => udp_carrier(group),
        TransportName::Dccp => DccpSpec::carrier(group, packets),
        TransportName::Ndp => NdpSpec::carrier(group, packets, plans[1]),
        TransportName::Scdp => ScdpSpec::carrier(group, packets, plans[1]),
        TransportName::Homa => HomaSpec::carrier(group, packets),
        TransportName::NearOpt => near_opt_carrier(group, *routing),
        TransportName::Push => Ok(Carrier::Push(Box::new(push_carrier(group, &contract, packets, plans[1])?))),
        TransportName::Kernel => kernel_carrier(group, tcp),
        TransportName::Atp | TransportName::PFabric => message_carrier(group, packets, max_loss),
        TransportName::ExpressPass | TransportName::Layered | TransportName::FlexPass => {
            Ok(Carrier::Credit(Box::new(credit_carrier(group, tcp, plans)?)))
        }
        _ => Ok(Carrier::Tcp(Box::new(tcp_carrier(group, tcp)?))),
    });
    let carrier = carrier.map_err(place)?;
    let messages = messages(group, name, *seed, packets);
    let messages = messages.map_err(|(key, why)| document.error(&format!("traffic.{name}.{key}"), why))?;
    let GroupSpec { class, ack_class, pinned, ref traffic, .. } = *group;
    let (traffic, ack_class, name) = (traffic.clone(), ack_class.unwrap_or(class), name.to_owned());
    let reflex = None;
    Ok(Group { name, traffic, class, ack_class, pinned, contract, reflex, carrier, messages, max_loss, legacy })
}

/// A setting for all groups is found where it is given.
fn group_error(document: &Document, name: &str, key: &str, why: String) -> ScenarioError {
    let shared = key.replacen("legacy_tcp.", "transport.", 1).replacen("tcp.", "transport.", 1);
    let own = format!("traffic.{name}.{key}");
    let is_shared = shared != key && !document.gives(&own) && document.gives(&shared);
    document.error(if is_shared { &shared } else { own.trim_end_matches('.') }, why)
}

/// The group with its table `reflex`, if it has one.
fn resolve_reflex(
    document: &Document,
    spec: &mut ScenarioSpec,
    host_key: &str,
    group: Group,
) -> Result<Group, ScenarioError> {
    let ScenarioSpec { queues, host_queues, traffic, .. } = spec;
    let group_spec = traffic.get_mut(&group.name).expect("the group comes from here");
    let Some(mut reflex) = group_spec.reflex.take() else { return Ok(group) };
    let plans = [("queues", &*queues), (host_key, host_queues.as_ref().unwrap_or(queues))];
    let built = reflex.build(group_spec, &plans);
    let built = built.map_err(|(key, why)| document.error(&format!("traffic.{}.{key}", group.name), why))?;
    group_spec.reflex = Some(reflex);
    Ok(Group { reflex: Some(built), ..group })
}

/// Tables that do not go with the transport are mistakes.
fn check_tables(group: &GroupSpec) -> Result<(), KeyError> {
    let of_tcp = group.transport.is_tcp();
    // What leaves messages out by itself cannot leave out bytes beside.
    let bends = of_tcp && !group.transport.sends_messages();
    let of = |transport| group.transport == transport;
    let has_window = of_tcp || of(TransportName::Layered) || of(TransportName::FlexPass) || of(TransportName::Kernel);
    let tables = [
        ("tcp", group.tcp.is_some(), has_window, "has no settings of TCP"),
        ("credit", group.credit.is_some(), group.transport.has_credits(), "has no settings of credits"),
        ("kernel", group.kernel.is_some(), of(TransportName::Kernel), "is not the operating system's"),
        ("udp", group.udp.is_some(), of(TransportName::Udp), "has no settings of UDP"),
        ("ndp", group.ndp.is_some(), of(TransportName::Ndp), "has no settings of NDP"),
        ("scdp", group.scdp.is_some(), of(TransportName::Scdp), "has no settings of SCDP"),
        ("homa", group.homa.is_some(), of(TransportName::Homa), "has no settings of Homa"),
        ("dccp", group.dccp.is_some(), of(TransportName::Dccp), "has no settings of DCCP"),
        ("near_opt", group.near_opt.is_some(), of(TransportName::NearOpt), "has no settings of Near-Opt"),
        ("push", group.push.is_some(), of(TransportName::Push), "has no settings of push"),
        ("messages", group.messages.is_some(), !of(TransportName::Push), "moves objects, not messages"),
        ("atp", group.atp.is_some(), of(TransportName::Atp), "has no settings of ATP"),
        ("pfabric", group.pfabric.is_some(), of(TransportName::PFabric), "has no settings of pFabric"),
        ("cross_queue", group.cross_queue.is_some(), bends, "does not pause, only transports with a window do"),
        ("reflex", group.reflex.is_some(), bends || of(TransportName::Push), "has no window that could give way"),
    ];
    match tables.into_iter().find(|(_, given, fits, _)| *given && !fits) {
        Some((key, .., why)) => Err((key.to_owned(), format!("{} {why}", group.transport.name()))),
        None => Ok(()),
    }
}

/// How many messages may be missing: for transports that leave some out, the complement of what must arrive.
fn max_loss(group: &GroupSpec, contract: &Contract) -> Result<LossBound, KeyError> {
    if !group.transport.honours().contains(&Field::MinDelivery) {
        return Ok(LossBound::RELIABLE);
    }
    LossBound::from_min_delivery(contract.min_delivery).ok_or_else(|| {
        let why = "must be above 0: who needs no message needs no flow";
        ("contract.min_delivery".to_owned(), why.to_owned())
    })
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

fn near_opt_carrier(group: &mut GroupSpec, routing: RoutingName) -> Result<Carrier, KeyError> {
    if routing != RoutingName::Ecmp {
        let why = "near-opt needs routing = \"ecmp\": its oracle follows the one path of a flow";
        return Err(("transport".to_owned(), why.to_owned()));
    }
    let spec = group.near_opt.get_or_insert_default();
    spec.check()?;
    Ok(Carrier::NearOpt(*spec))
}

/// What a group's TCP follows from, beside its own keys.
#[derive(Clone, Copy)]
pub(super) struct TcpParts<'a> {
    pub(super) defaults: &'a TcpSpec,
    pub(super) packets: &'a PacketsSpec,
    pub(super) queues: &'a QueuesSpec,
    pub(super) contract: &'a Contract,
}

/// Writes the group's settings out and makes its transport from them.
pub(super) fn tcp_carrier(group: &mut GroupSpec, parts: TcpParts<'_>) -> Result<TcpCarrier, KeyError> {
    let TcpParts { defaults, packets, queues, contract } = parts;
    let below = |(key, why): KeyError| (format!("tcp.{key}"), why);
    let own = group.tcp.clone().unwrap_or_default();
    own.check_keys(group.transport).map_err(below)?;
    let explicit = own.explicit(defaults, group.transport);
    explicit.check_ranges().map_err(below)?;
    let mss = packets.mss.0 as u16;
    let controller = explicit.controller(group.transport, contract, mss).expect("only the TCP family comes here");
    let config = TcpConfig {
        mss,
        wire: packets.framing.into(),
        data_class: TrafficClass::new(group.class),
        ack_class: TrafficClass::new(group.ack_class.unwrap_or(group.class)),
        ..explicit.config(&controller)
    };
    config.check().map_err(|why| ("tcp".to_owned(), why.to_string()))?;
    group.tcp = Some(explicit);
    if group.reflex.is_some() && group.cross_queue.is_some() {
        // Bounds on a flow's rate say nothing of time in which it may not send.
        return Err((
            "cross_queue".to_owned(),
            "a flow follows one policy, and this group has a table reflex".to_owned(),
        ));
    }
    let class = group.class;
    let cross_queue = group.cross_queue.as_mut().map(|cross_queue| cross_queue.resolve(class, queues)).transpose()?;
    let sender_drop = match group.transport {
        TransportName::DctcpSenderDrop => Some(DropPolicy::Fixed),
        TransportName::DctcpBandwidth => Some(DropPolicy::Congested),
        _ => None,
    };
    Ok(TcpCarrier { config, controller, cross_queue, sender_drop })
}

fn contract_error(document: &Document, name: &str, transport: TransportName, why: ContractError) -> ScenarioError {
    let (ContractError::OutOfRange(field) | ContractError::NotHonoured(field)) = why;
    let honours = |field: Field| TransportName::ALL.into_iter().filter(move |name| name.honours().contains(&field));
    let why = match why {
        ContractError::OutOfRange(_) => why.to_string(),
        ContractError::NotHonoured(Field::MinDelivery) if transport == TransportName::Push => {
            "push brings objects whole: it does not honour min_delivery".to_owned()
        }
        ContractError::NotHonoured(field @ (Field::MinDelivery | Field::MinShare)) => {
            format!("{} honours {field} only with a table [traffic.{name}.reflex]", transport.name())
        }
        ContractError::NotHonoured(field) => {
            let who: Vec<_> = honours(field).map(TransportName::name).collect();
            let who = format!("these do: {}", who.join(", "));
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
