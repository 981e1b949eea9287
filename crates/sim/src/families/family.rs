//! What a transport family is, and what it makes for a scenario and for a run.

use std::fmt;
use std::sync::Arc;

use pliant_proto::congestion::ControllerSettings;
use pliant_proto::contract::policy::Policy;
use pliant_proto::contract::{Contract, Field};
use pliant_proto::packet::WireFormat;
use pliant_proto::settings::Description;
use pliant_proto::switch::{Discipline, QueuePlan};
use pliant_proto::time::Span;
use pliant_proto::transport::any::AnyTransport;
use pliant_proto::transport::atp::LossBound;
use pliant_proto::transport::express_pass::CreditConfig;
use serde::{Serialize, Serializer};
use toml::Table;

use super::kernel_congestion::KernelCongestion;
use crate::engine::PushFlow;
use crate::port_plans::PortPlans;
use crate::tables::{KeyError, Tables};
use crate::topology::{LinkId, Topology};
use crate::traffic::{FlowSpec, TrafficSpec};

/// A transport that scenarios can name: a [`Member`] and its [`Family`].
#[derive(Clone, Copy)]
pub struct TransportName {
    member: &'static Member,
    family: &'static dyn Family,
}

impl TransportName {
    pub(super) const fn of(member: &'static Member, family: &'static dyn Family) -> Self {
        Self { member, family }
    }

    /// Its name in scenario files.
    pub fn name(self) -> &'static str {
        self.member.name
    }

    /// What it is, in a line.
    pub fn description(self) -> &'static str {
        self.member.description
    }

    /// Fields of the contract that it honours by itself.
    pub fn honours(self) -> &'static [Field] {
        self.member.honours
    }

    /// What the rest of a scenario needs to know of it.
    pub fn traits(self) -> Traits {
        self.member.traits
    }

    /// Its family.
    pub fn family(self) -> &'static dyn Family {
        self.family
    }

    /// The tables of settings that it has, the most specific first.
    pub fn tables(self) -> Vec<SettingsTable> {
        self.family.tables(self)
    }
}

impl PartialEq for TransportName {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for TransportName {}

impl fmt::Debug for TransportName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for TransportName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// A transport that scenarios can name.
#[derive(Clone, Copy, Debug)]
pub struct Member {
    /// Its name in scenario files.
    pub name: &'static str,
    /// What it is, in a line.
    pub description: &'static str,
    /// Fields of the contract that it honours by itself. REFLEX over it honours others, too.
    pub honours: &'static [Field],
    /// What the rest of a scenario needs to know of it.
    pub traits: Traits,
}

/// What the rest of a scenario needs to know of a transport.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Traits {
    /// REFLEX can bend its flows.
    pub bends: bool,
    /// Its senders can pause for a queue above their own.
    pub pauses: bool,
    /// It takes packets out of order for losses.
    pub needs_order: bool,
    /// Where nothing is marked, it learns of congestion from losses alone.
    pub fills_queues: bool,
    /// It sends messages and nothing else.
    pub sends_messages: bool,
    /// Its flows may be given messages.
    pub takes_messages: bool,
    /// The sources of an object can share it out among them while they send.
    pub shares_objects: bool,
    /// Its receivers send credits, so data must take the path of its credits back.
    pub has_credits: bool,
    /// Several flows can share one of its own: it carries a stream of bytes, counts those that wait, and need not know the end.
    pub bundles: bool,
    /// The plan that gives each of its classes a queue of its own, as it should have.
    pub queue_per_class: Option<&'static str>,
    /// It can stand for the flows of hosts that a deployment has not reached.
    pub is_legacy: bool,
}

impl Traits {
    /// Those of a transport that has none of them but takes messages.
    pub const PLAIN: Self = Self {
        bends: false,
        pauses: false,
        needs_order: false,
        fills_queues: false,
        sends_messages: false,
        takes_messages: true,
        shares_objects: false,
        has_credits: false,
        bundles: false,
        queue_per_class: None,
        is_legacy: false,
    };
}

/// One table of settings of a transport.
#[derive(Clone, Debug)]
pub struct SettingsTable {
    /// Its name below `[traffic.NAME]`.
    pub name: &'static str,
    /// What it sets, as a heading: `Settings of TCP`.
    pub title: &'static str,
    /// Its settings.
    pub settings: Vec<Description>,
    /// The settings at their defaults, as a scenario writes them.
    pub defaults: Table,
}

/// A transport family.
pub trait Family: Send + Sync {
    /// The names that scenarios use for it.
    fn members(&self) -> &'static [Member];

    /// The tables of settings that a member has, the most specific first.
    fn tables(&self, member: TransportName) -> Vec<SettingsTable>;

    /// Settings of the congestion controller of a member of the TCP family; `None` of others.
    fn controller(&self, _member: TransportName) -> Option<Box<dyn ControllerSettings>> {
        None
    }

    /// Traffic classes that a group uses beside its own and that of its acknowledgements: the key that asks for each, and
    /// the class. `tables` are as the file has them.
    fn classes(&self, _member: TransportName, _class: u8, _tables: &Tables) -> Vec<(String, u8)> {
        Vec::new()
    }

    /// Writes every default into the group's tables and makes its transport from them.
    ///
    /// # Errors
    ///
    /// The key below the group that is wrong, and why.
    fn resolve(&self, group: &mut GroupSettings<'_>) -> Result<Arc<dyn GroupTransport>, KeyError>;
}

/// What a family makes a group's transport from.
#[derive(Debug)]
pub struct GroupSettings<'a> {
    /// The member that the group names.
    pub transport: TransportName,
    /// Traffic class of its data.
    pub class: u8,
    /// Traffic class of its acknowledgements.
    pub ack_class: u8,
    /// How far it may bend.
    pub contract: &'a Contract,
    /// How many of its messages may be missing.
    pub max_loss: LossBound,
    /// What it sends.
    pub traffic: &'a TrafficSpec,
    /// Whether REFLEX bends it.
    pub has_reflex: bool,
    /// Its tables of settings. The family writes the defaults into them.
    pub tables: &'a mut Tables,
    /// The network that it runs on.
    pub network: NetworkSettings<'a>,
}

/// What a family needs to know of the network.
#[derive(Clone, Copy, Debug)]
pub struct NetworkSettings<'a> {
    /// Payload bytes of a full packet.
    pub mss: u16,
    /// Bytes around a payload.
    pub wire: WireFormat,
    /// Whether each flow keeps to one path.
    pub one_path: bool,
    /// Settings of TCP for all groups.
    pub shared_tcp: &'a Table,
    /// Queues of host ports.
    pub host_plan: &'a QueuePlan,
    /// Queues of switch ports.
    pub switch_plan: &'a QueuePlan,
}

impl GroupSettings<'_> {
    /// Refuses a transport whose data of `class` switches do not trim.
    pub(super) fn check_trims(&self, class: u8) -> Result<(), KeyError> {
        let plan = self.network.switch_plan;
        let queue = &plan.queues[usize::from(plan.queue_of_class[usize::from(class)])];
        if matches!(queue.discipline, Discipline::Trim { .. }) {
            return Ok(());
        }
        let transport = self.transport.name();
        let why = format!(
            "{transport} needs switches that trim, and queue \"{}\", which takes class {class}, does not: see the plans \
             ndp and scdp",
            queue.name
        );
        Err(("transport".to_owned(), why))
    }
}

/// A group's transport with its settings.
pub trait GroupTransport: fmt::Debug + Send + Sync {
    /// What opens the group's flows during one run.
    fn endpoints<'a>(&'a self, run: RunSettings<'a>) -> Box<dyn Endpoints + 'a>;

    /// What is asked of it elsewhere.
    fn facts(&self) -> Facts<'_> {
        Facts::default()
    }
}

/// What is asked of a group's transport elsewhere.
#[derive(Clone, Copy, Default, Debug)]
pub struct Facts<'a> {
    /// TCP alone carries it, in one queue and leaving nothing out.
    pub is_plain_tcp: bool,
    /// Why the simulator cannot run it: the key and the reason.
    pub testbed_only: Option<(&'static str, &'static str)>,
    /// Why a testbed cannot run it.
    pub simulator_only: Option<&'static str>,
    /// The congestion control of the operating system that a testbed runs.
    pub kernel: Option<KernelCongestion>,
    /// Its credit loop.
    pub credits: Option<&'a CreditConfig>,
    /// It asks the oracle.
    pub asks_oracle: bool,
    /// Hosts tell its flows so often which rate is fair on their links.
    pub host_reports: Option<Span>,
    /// It pushes objects.
    pub pushes: bool,
    /// It weighs flows by the threshold at which switches mark.
    pub takes_threshold: bool,
    /// Its messages arrive whole or not at all, in any order.
    pub delivers_messages: bool,
    /// No switch can mark its data: packets are not ECN-capable.
    pub not_ect: bool,
}

/// What opening flows needs to know of a run.
#[derive(Clone, Copy, Debug)]
pub struct RunSettings<'a> {
    /// Number of the group in the scenario.
    pub group: u16,
    /// Its name.
    pub name: &'a str,
    /// Traffic class of its data.
    pub class: u8,
    /// Traffic class of its acknowledgements.
    pub ack_class: u8,
    /// What it sends.
    pub traffic: &'a TrafficSpec,
    /// How many of its messages may be missing.
    pub max_loss: LossBound,
    /// The run's seed.
    pub seed: u64,
    /// Payload bytes of a full packet.
    pub mss: u16,
    /// Bytes around a payload.
    pub wire: WireFormat,
    /// Nodes and links.
    pub topology: &'a Topology,
    /// Queues of every port.
    pub plans: PortPlans<'a>,
}

/// Opens the flows of one group. What flows have in common is kept here.
pub trait Endpoints {
    /// Both endpoints of `flow` on `path`; its sender asks `policy`, of transports that [bend](Traits::bends).
    fn open(&mut self, flow: &FlowSpec, path: &[LinkId], policy: Option<Policy>) -> FlowEndpoints;
}

/// The two endpoints of a flow.
pub struct FlowEndpoints {
    /// Sends its data.
    pub initiator: AnyTransport,
    /// Receives it.
    pub responder: AnyTransport,
    /// What the controller of objects must know of it, if it pushes.
    pub push: Option<PushFlow>,
}

impl<I: Into<AnyTransport>, R: Into<AnyTransport>> From<(I, R)> for FlowEndpoints {
    fn from((initiator, responder): (I, R)) -> Self {
        Self { initiator: initiator.into(), responder: responder.into(), push: None }
    }
}
