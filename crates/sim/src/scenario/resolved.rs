//! A scenario with every default filled in, everything built, and everything checked against everything else: what is
//! known of it.

use std::path::Path;
use std::sync::Arc;

use pliant_proto::contract::Contract;
use pliant_proto::packet::WireFormat;
use pliant_proto::switch::QueuePlan;
use pliant_proto::time::Span;
use pliant_proto::transport::atp::LossBound;
use toml::{Table, Value};

use super::file::spec::ScenarioSpec;
use super::network::queues::QueuesSpec;
use super::reflex::ReflexGroup;
use crate::engine::{LinkLoss, Reroute};
use crate::families::{GroupTransport, TransportName};
use crate::port_plans::{OtherPlans, PortPlans};
use crate::routing::Routing;
use crate::topology::{Link, LinkId, NodeId, Topology};
use crate::traffic::{
    Environment, Fabric, Offered, Traffic, TrafficError, TrafficGroup, TrafficSpec, generate, offered,
};
use crate::workload::{Messages, PacketFormat};

/// `drain` where a file does not say, in units of `duration`.
pub(super) const DEFAULT_DRAIN: u64 = 10;

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
    /// The ports that differ from these.
    pub other_plans: OtherPlans,
    /// The traffic groups, in the file's order.
    pub groups: Vec<Group>,
    /// Whether each host has the transports with credits; empty if all have.
    pub(super) deployed: Vec<bool>,
    /// What links lose.
    pub losses: Vec<LinkLoss>,
    /// When paths move since links failed or came back.
    pub reroutes: Vec<Reroute>,
    /// What can run but is hardly meant, a line each.
    pub warnings: Vec<String>,
    pub(super) fabric: Fabric,
    pub(super) class_names: Vec<String>,
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
    /// Whether its flows between the same two hosts share one.
    pub bundle: bool,
    /// How far it may bend.
    pub contract: Contract,
    /// How its flows give way, if they do.
    pub reflex: Option<ReflexGroup>,
    /// What carries it.
    pub transport: Arc<dyn GroupTransport>,
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
    /// Its name.
    pub name: TransportName,
    /// Traffic class of its data and acknowledgements.
    pub class: u8,
    /// The transport.
    pub transport: Arc<dyn GroupTransport>,
}

impl Group {
    /// Whether TCP alone carries it, in one queue, leaving nothing out, below no rate of its own and without a time to be done.
    pub fn is_plain_tcp(&self) -> bool {
        self.transport.facts().is_plain_tcp && self.contract.max_rate.is_none() && self.contract.done_by.is_none()
    }
}

impl Resolved {
    /// The queues of every port.
    pub fn plans(&self) -> PortPlans<'_> {
        PortPlans { switches: &self.switch_plan, hosts: &self.host_plan, others: &self.other_plans }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.spec.name.as_deref().unwrap_or_default()
    }

    /// The scenario as a file that resolves to the same.
    pub fn to_toml(&self) -> String {
        let written = |table: &Table| toml::to_string(table).expect("a scenario is made of tables and plain values");
        let mut table = self.to_table();
        let Some(Value::Table(groups)) = table.remove("traffic") else { return written(&table) };
        // Written group by group: `toml` takes the square of the number of tables of a document.
        let mut text = written(&table);
        for (name, group) in groups {
            let only = Table::from_iter([(name, group)]);
            text.push('\n');
            text.push_str(&written(&Table::from_iter([("traffic".to_owned(), Value::Table(only))])));
        }
        text
    }

    /// The same as a table.
    pub fn to_table(&self) -> Table {
        Table::try_from(&self.spec).expect("a scenario is made of tables and plain values")
    }

    /// How many ports have which queues, in words; `None` where all ports of switches, and all of hosts, have the same.
    pub fn kinds_of_ports(&self) -> Option<String> {
        if self.other_plans.plans().is_empty() {
            return None;
        }
        let at_switches = &self.spec.queues;
        let at_hosts = self.spec.host_queues.as_ref().unwrap_or(at_switches);
        let mut told = Vec::new();
        for (of_hosts, table, queues, first) in
            [(false, "queues", at_switches, 0), (true, "host_queues", at_hosts, at_switches.ports.len())]
        {
            let count = |plan: Option<usize>| {
                let links = self.topology.links().iter().zip((0..).map(LinkId));
                let ours = links.filter(|(link, _)| self.topology.is_host(link.from) == of_hosts);
                ours.filter(|(_, id)| self.other_plans.of(*id) == plan).count()
            };
            told.push(format!("{} as `{table}`", count(None)));
            let element = |(index, ports): (usize, &QueuesSpec)| {
                format!("{} as `{table}.ports.{index}` ({})", count(Some(first + index)), ports.choice())
            };
            told.extend(queues.ports.iter().enumerate().map(element));
        }
        Some(told.join(", "))
    }

    /// Why the simulator cannot run it, if so.
    pub fn testbed_only(&self) -> Option<String> {
        self.groups.iter().find_map(|group| {
            let (key, why) = group.transport.facts().testbed_only?;
            Some(format!("traffic.{}.{key}: {why}", group.name))
        })
    }

    /// Bytes around a payload.
    pub fn wire(&self) -> WireFormat {
        self.spec.packets.framing.into()
    }

    /// Payload bytes of a full packet.
    pub fn mss(&self) -> u16 {
        self.spec.packets.mss.0 as u16
    }

    /// Whether each flow's share of its max-min fair rate is computed.
    pub fn computes_shares(&self) -> bool {
        self.spec.shares == Some(true)
    }

    /// How often the oracle of `near-opt` flows tells rates.
    pub fn oracle_interval(&self) -> Span {
        self.spec.oracle.unwrap_or_default().interval
    }

    /// How often hosts tell each other which rate is fair on their links, and which groups' flows are told.
    pub fn host_reports(&self) -> Option<(Span, Vec<bool>)> {
        let of_group = |group: &Group| group.transport.facts().host_reports;
        let interval = self.groups.iter().filter_map(of_group).min()?;
        Some((interval, self.groups.iter().map(|group| of_group(group).is_some()).collect()))
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
    pub(super) fn upgraded_share(&self) -> f64 {
        let (mut upgraded, mut all) = (0.0, 0.0);
        // A trace that vanished is told of when the scenario runs.
        for flow in self.traffic().into_iter().flatten() {
            let has_credits = self.groups[usize::from(flow.group)].transport.facts().credits.is_some();
            let moves = has_credits && self.is_upgraded(flow.source, flow.destination);
            upgraded += if moves { flow.bytes as f64 } else { 0.0 };
            all += flow.bytes as f64;
        }
        if all > 0.0 { upgraded / all } else { 0.0 }
    }

    /// The flows of all groups by start time. Only files that changed since the scenario was resolved can fail.
    pub fn traffic(&self) -> Result<Traffic, TrafficError> {
        self.with_groups(generate)
    }

    /// What each group offers to links on average.
    pub(super) fn offered(&self) -> Result<Vec<Offered>, TrafficError> {
        self.with_groups(offered)
    }

    /// The links of one path between two hosts.
    pub(super) fn path(&self, source: u32, destination: u32) -> impl Iterator<Item = &Link> {
        let (mut node, destination) = (NodeId(source), NodeId(destination));
        std::iter::from_fn(move || {
            let link = self.topology.link(*self.routing.next_links(node, destination).first()?);
            node = link.to;
            Some(link)
        })
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
