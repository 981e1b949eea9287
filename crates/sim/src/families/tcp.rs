//! The TCP family: one byte stream, with a congestion controller for each member.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use pliant_proto::congestion::ControllerSettings;
use pliant_proto::congestion::{Algorithm, AnyController, CongestionControl, EcnMode};
use pliant_proto::contract::Field;
use pliant_proto::contract::cross_queue_notification::CrossQueueConfig;
use pliant_proto::contract::policy::Policy;
use pliant_proto::packet::TrafficClass;
use pliant_proto::rng::Stream;
use pliant_proto::settings::{AnySettings, Description, OutOfRange, Range, ReadError, Settings, Value};
use pliant_proto::time::Span;
use pliant_proto::transport::any::AnyTransport;
use pliant_proto::transport::sender_drop::{self, DropPolicy, SenderDrop};
use pliant_proto::transport::tcp::{CrossQueueSender, PacingFactors, TcpConfig, TcpReceiver, TcpSender};
use pliant_proto::units::Bytes;
use pliant_proto::{choices, settings};
use toml::Table;

use super::family::{
    Endpoints, Facts, Family, FlowEndpoints, GroupSettings, GroupTransport, Member, RunSettings, SettingsTable, Traits,
    TransportName,
};
use crate::cross_queue::{self, CROSS_QUEUE_TABLE};
use crate::tables::{self, KeyError, Tables, below};
use crate::topology::LinkId;
use crate::traffic::FlowSpec;

/// The table of a group's settings of TCP.
pub const TCP_TABLE: &str = "tcp";

choices! {
    /// How congestion marks are echoed.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum EcnEcho {
        /// Packets are not ECN-capable.
        Off = "off",
        /// The receiver repeats a mark until the sender has answered it (RFC 3168).
        Classic = "classic",
        /// The receiver echoes each mark (RFC 8257).
        Accurate = "accurate",
    }
}

impl From<EcnEcho> for EcnMode {
    fn from(echo: EcnEcho) -> Self {
        match echo {
            EcnEcho::Off => Self::Off,
            EcnEcho::Classic => Self::Classic,
            EcnEcho::Accurate => Self::Accurate,
        }
    }
}

settings! {
    /// Settings of TCP beside those of its controller. Defaults are for datacenters.
    #[derive(Clone, PartialEq, Debug)]
    pub struct TcpSettings {
        /// Least retransmission timeout.
        pub min_rto: Span = Span::from_ms(1) => [
            default: "`\"1ms\"`; `flexpass`: `\"4ms\"`", limits: "up to `max_rto`", source: "RFC 6298: 1 s"
        ],
        /// Greatest retransmission timeout.
        pub max_rto: Span = Span::from_secs(60) => [range: Range::from(Span::from_secs(60)), source: "RFC 6298"],
        /// Retransmission timeout before the first round-trip time.
        pub initial_rto: Span = Span::from_ms(10) => [range: Range::above(Span::ZERO), source: "RFC 6298: 1 s"],
        /// Least retransmission timeout after a connection request was lost, until data is sampled. `"0s"` switches this
        /// rule off, as in ns-3.
        pub rto_after_lost_syn: Span = Span::from_secs(3) => [limits: "up to `max_rto`", source: "RFC 6298, 5.7"],
        /// Clock granularity G, the least value of 4 RTTVAR.
        pub granularity: Span = Span::from_us(1) => [source: "RFC 6298"],
        /// The smoothed round-trip time takes an eighth of each sample. Otherwise it is the newest sample.
        pub smooth_rtt: bool = true => [source: "RFC 6298, 2.3"],
        /// Acknowledgements of data that was sent again are samples of the round-trip time, by their echoes. Otherwise, as without
        /// timestamps, they are none (Karn's algorithm), and a backoff lasts until data is acknowledged that was sent once.
        pub time_retransmissions: bool = true => [source: "RFC 7323; RFC 6298 section 3: false"],
        /// Packets that one acknowledgement may answer.
        pub ack_every: u8 = 2 => [range: Range::from(1).of("packet"), source: "RFC 5681"],
        /// Longest delay of an acknowledgement.
        pub delayed_ack: Span = Span::from_us(500) => [source: "RFC 5681: up to 500 ms"],
        /// Whether a connection is requested and granted before data.
        pub handshake: bool = false => [],
        /// Selective acknowledgements.
        pub sack: bool = true => [default: "true; `newreno`: false", source: "RFC 2018, RFC 6675"],
        /// SACK blocks per acknowledgement.
        pub sack_blocks: u8 = 3 => [range: Range::closed(1, 4).of("blocks"), source: "RFC 2018"],
        /// Loss detection by time, and tail loss probes; needs `sack`.
        pub rack: bool = false => [source: "RFC 8985"],
        /// A cut of the window is taken back if all that was sent again had arrived: packets overtook each other. From then on twice as
        /// many SACKed segments make one lost, at most 96; needs `sack`.
        pub adapt_to_reordering: bool = false => [default: "false; on sockets: true", source: "RFC 3708, RFC 4015, RFC 4653"],
        /// Sending the first unacknowledged segment again restarts the retransmission timer, as in Linux.
        pub restart_timer: bool = false => [default: "false; on sockets: true", source: "RFC 9002 section 6.2.1"],
        /// With REFLEX by queues: packets that a flow overtakes itself when it moves up count as lost only two round trips
        /// after the move.
        pub expect_overtaking: bool = false => [default: "false; on sockets: true"],
        /// Sends in proportion to what arrives while losses are repaired; needs `sack`.
        pub prr: bool = false => [source: "RFC 6937"],
        /// New data on the first two duplicate acknowledgements.
        pub limited_transmit: bool = true => [source: "RFC 3042"],
        /// How marks are echoed: not at all (`"off"`), until the sender has answered (`"classic"`), or each mark
        /// (`"accurate"`).
        pub ecn: Option<EcnEcho> = None => [default: "the controller's", source: "RFC 3168, RFC 8257"],
        /// Spreads packets at 2 (slow start) or 1.2 times cwnd / SRTT.
        pub pacing: bool = false => [source: "Linux"],
        /// Most bytes that the sender holds, sent or not.
        pub send_buffer: Option<Bytes> = None => [range: Range::above(Bytes(0)), default: "no limit"],
        /// Most bytes that the receiver holds.
        pub receive_buffer: Option<Bytes> = None => [range: Range::from(Bytes(256)), default: "no limit"],
    }
}

/// A window that shares a byte stream: TCP's settings and those of a controller.
pub(super) struct Window {
    settings: TcpSettings,
    controller: Box<dyn ControllerSettings>,
}

impl AnySettings for Window {
    fn describe_all(&self) -> Vec<Description> {
        let mut all = TcpSettings::describe();
        all.extend(self.controller.describe_all());
        all
    }

    fn get_value(&self, key: &str) -> Option<Option<Value>> {
        self.settings.get(key).or_else(|| self.controller.get_value(key))
    }

    fn set_value(&mut self, key: &str, value: &Value) -> Option<Result<(), ReadError>> {
        self.settings.set(key, value).or_else(|| self.controller.set_value(key, value))
    }

    fn check_all(&self) -> Result<(), OutOfRange> {
        self.settings.check()?;
        self.controller.check_all()
    }
}

impl std::fmt::Debug for Window {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Window").field("settings", &self.settings).field("controller", &self.controller).finish()
    }
}

impl Window {
    /// The window of a member of any family that has one, at its defaults.
    pub(super) fn of(transport: TransportName, controller: Box<dyn ControllerSettings>) -> Self {
        let mut settings = TcpSettings::default();
        match transport.name() {
            "newreno" => settings.sack = false,
            // FlexPass, section 6.2.
            "flexpass" => settings.min_rto = Span::from_ms(4),
            _ => {}
        }
        Self { settings, controller }
    }

    /// Lays the settings of `table` over these, but for those that only other transports have.
    pub(super) fn lay_shared(&mut self, table: &Table) -> Result<(), KeyError> {
        for (key, value) in table {
            if let Some(Err(why)) = self.set_value(key, &tables::from_toml(value)) {
                return Err((key.clone(), tables::in_words(why)));
            }
        }
        Ok(())
    }

    /// Lays a group's own settings over these.
    pub(super) fn lay_own(&mut self, table: &Table) -> Result<(), KeyError> {
        tables::read_over(self, table)
    }

    /// The table `tcp` as the reference and `pliant show` have it.
    pub(super) fn table(&self) -> SettingsTable {
        let title = "TCP";
        SettingsTable { name: TCP_TABLE, title, settings: self.describe_all(), defaults: tables::write(self) }
    }

    /// The configuration for a group, and the controller of a new flow. Writes the settings into its table `tcp`.
    pub(super) fn config(self, group: &mut GroupSettings<'_>) -> Result<(TcpConfig, AnyController), KeyError> {
        let of_tcp = |error| below(TCP_TABLE, error);
        tables::check(&self).map_err(of_tcp)?;
        let mss = group.network.mss;
        let controller = self.controller.controller(mss, group.contract);
        let own = &self.settings;
        let mut rto = TcpConfig::default().rto;
        rto.minimum = own.min_rto;
        rto.maximum = own.max_rto;
        rto.initial = own.initial_rto;
        rto.after_lost_syn = own.rto_after_lost_syn;
        rto.granularity = own.granularity;
        rto.smooth = own.smooth_rtt;
        let config = TcpConfig {
            mss,
            wire: group.network.wire,
            data_class: TrafficClass::new(group.class),
            ack_class: TrafficClass::new(group.ack_class),
            handshake: own.handshake,
            sack: own.sack,
            sack_blocks: own.sack_blocks,
            rack: own.rack,
            adapt_to_reordering: own.adapt_to_reordering,
            restart_timer: own.restart_timer,
            expect_overtaking: own.expect_overtaking,
            prr: own.prr,
            limited_transmit: own.limited_transmit,
            ack_every: own.ack_every,
            max_ack_delay: own.delayed_ack,
            ecn: own.ecn.map_or(controller.ecn_mode(), EcnMode::from),
            one_way_delay: controller.needs_one_way_delay(),
            time_retransmissions: own.time_retransmissions,
            rto,
            send_buffer: own.send_buffer.map(|bytes| bytes.0),
            receive_buffer: own.receive_buffer.map(|bytes| bytes.0),
            pacing: own.pacing.then(PacingFactors::default),
            ..TcpConfig::default()
        };
        config.check().map_err(|why| (TCP_TABLE.to_owned(), why.to_string()))?;
        group.tables.insert(TCP_TABLE.to_owned(), tables::write(&self));
        Ok((config, controller))
    }
}

fn controller_of(transport: TransportName) -> Option<Box<dyn ControllerSettings>> {
    transport.family().controller(transport)
}

/// A member of the TCP family.
const TCP: Traits = Traits {
    bends: true,
    pauses: true,
    needs_order: true,
    fills_queues: true,
    bundles: true,
    is_legacy: true,
    ..Traits::PLAIN
};
/// A member that leaves messages out. It cannot leave out bytes as well.
const MESSAGES: Traits = Traits { bends: false, pauses: false, sends_messages: true, bundles: false, ..TCP };

const fn member(algorithm: Algorithm) -> Member {
    Member { name: algorithm.name(), description: algorithm.description(), honours: algorithm.honours(), traits: TCP }
}

const MEMBERS: &[Member] = &[
    member(Algorithm::Reno),
    member(Algorithm::NewReno),
    member(Algorithm::Cubic),
    member(Algorithm::Dctcp),
    member(Algorithm::WeightedFair),
    member(Algorithm::TcpLp),
    member(Algorithm::Ledbat),
    member(Algorithm::LedbatPlusPlus),
    Member { traits: Traits { bends: false, ..TCP }, ..member(Algorithm::Bounded) },
    Member {
        name: "dctcp-sd",
        description: "DCTCP; the sender leaves out a share 1 - min_delivery of the messages (ATP's DCTCP-SD)",
        honours: sender_drop::HONOURS,
        traits: MESSAGES,
    },
    Member {
        name: "dctcp-bw",
        description: "DCTCP; the sender leaves messages out while it sees congestion (ATP's DCTCP-BW)",
        honours: sender_drop::HONOURS,
        traits: MESSAGES,
    },
];

/// The built-in members.
pub(super) struct TcpFamily;

/// A built-in member.
pub(super) fn built_in(name: &str) -> TransportName {
    let member = MEMBERS.iter().find(|member| member.name == name).expect("it is built in");
    TransportName::of(member, &TcpFamily)
}

impl Family for TcpFamily {
    fn members(&self) -> &'static [Member] {
        MEMBERS
    }

    fn controller(&self, member: TransportName) -> Option<Box<dyn ControllerSettings>> {
        let algorithm = match member.name() {
            "dctcp-sd" | "dctcp-bw" => Algorithm::Dctcp,
            name => name.parse().ok()?,
        };
        Some(algorithm.settings())
    }

    fn tables(&self, member: TransportName) -> Vec<SettingsTable> {
        tables(member)
    }

    fn classes(&self, _: TransportName, _: u8, tables: &Tables) -> Vec<(String, u8)> {
        cross_queue::classes(tables)
    }

    fn resolve(&self, group: &mut GroupSettings<'_>) -> Result<Arc<dyn GroupTransport>, KeyError> {
        Ok(Arc::new(tcp(group)?))
    }
}

fn tables(member: TransportName) -> Vec<SettingsTable> {
    controller_of(member).map(|controller| Window::of(member, controller).table()).into_iter().collect()
}

/// A congestion controller of another crate.
#[derive(Clone, Copy)]
pub struct ForeignController {
    /// Its name in scenario files.
    pub name: &'static str,
    /// What it is, in a line.
    pub description: &'static str,
    /// Fields of the contract that it honours.
    pub honours: &'static [Field],
    /// Its settings at their defaults.
    pub settings: ControllerDefaults,
}

/// Gives the settings of a foreign controller at their defaults.
pub type ControllerDefaults = &'static (dyn Fn() -> Box<dyn ControllerSettings> + Send + Sync);

impl fmt::Debug for ForeignController {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ForeignController").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The controller of another crate, as a family of one member.
struct ForeignTcp {
    settings: ControllerDefaults,
    members: &'static [Member],
}

/// The family of a foreign controller, which lives as long as the program.
pub(super) fn foreign(controller: ForeignController) -> &'static dyn Family {
    let ForeignController { name, description, honours, settings } = controller;
    let members = Box::leak(Box::new([Member { name, description, honours, traits: TCP }]));
    Box::leak(Box::new(ForeignTcp { settings, members }))
}

impl Family for ForeignTcp {
    fn members(&self) -> &'static [Member] {
        self.members
    }

    fn tables(&self, member: TransportName) -> Vec<SettingsTable> {
        tables(member)
    }

    fn controller(&self, _: TransportName) -> Option<Box<dyn ControllerSettings>> {
        Some((self.settings)())
    }

    fn classes(&self, _: TransportName, _: u8, tables: &Tables) -> Vec<(String, u8)> {
        cross_queue::classes(tables)
    }

    fn resolve(&self, group: &mut GroupSettings<'_>) -> Result<Arc<dyn GroupTransport>, KeyError> {
        Ok(Arc::new(tcp(group)?))
    }
}

/// Writes the group's settings out and makes its transport from them.
fn tcp(group: &mut GroupSettings<'_>) -> Result<TcpTransport, KeyError> {
    tcp_of(group, group.transport, &Table::new())
}

/// The same for a group whose transport `model` stands for, with `defaults` over the settings for all groups.
pub(super) fn tcp_of(
    group: &mut GroupSettings<'_>,
    model: TransportName,
    defaults: &Table,
) -> Result<TcpTransport, KeyError> {
    let of_tcp = |error| below(TCP_TABLE, error);
    let controller = controller_of(model).expect("it is a member of the TCP family");
    let mut window = Window::of(model, controller);
    window.lay_shared(group.network.shared_tcp).map_err(of_tcp)?;
    window.lay_shared(defaults).map_err(of_tcp)?;
    let own = group.tables.get(TCP_TABLE).cloned().unwrap_or_default();
    window.lay_own(&own).map_err(of_tcp)?;
    let (config, controller) = window.config(group)?;
    if group.has_reflex && group.tables.contains_key(CROSS_QUEUE_TABLE) {
        // Bounds on a flow's rate say nothing of time in which it may not send.
        let why = "a flow follows one policy, and this group has a table reflex";
        return Err((CROSS_QUEUE_TABLE.to_owned(), why.to_owned()));
    }
    let cross_queue = cross_queue::resolve(group.tables, group.class, group.network.switch_plan)?;
    let sender_drop = match model.name() {
        "dctcp-sd" => Some(DropPolicy::Fixed),
        "dctcp-bw" => Some(DropPolicy::Congested),
        _ => None,
    };
    Ok(TcpTransport { config, controller, cross_queue, sender_drop })
}

/// A member of the TCP family with its settings.
#[derive(Clone, Debug)]
pub(super) struct TcpTransport {
    /// Settings of both sides.
    config: TcpConfig,
    /// The congestion controller of a new sender.
    controller: AnyController,
    /// When a sender pauses for the queue above, if it does.
    cross_queue: Option<CrossQueueConfig>,
    /// Leaves messages out before they are sent.
    sender_drop: Option<DropPolicy>,
}

impl GroupTransport for TcpTransport {
    fn endpoints<'a>(&'a self, run: RunSettings<'a>) -> Box<dyn Endpoints + 'a> {
        Box::new(TcpEndpoints { transport: self, run, configs: BTreeMap::new() })
    }

    fn facts(&self) -> Facts<'_> {
        Facts {
            is_plain_tcp: self.cross_queue.is_none() && self.sender_drop.is_none(),
            not_ect: self.config.ecn == EcnMode::Off,
            simulator_only: self
                .sender_drop
                .map(|_| "leaves messages out of a byte stream, which the testbed's receivers cannot tell"),
            ..Facts::default()
        }
    }
}

/// A new sender's controller, which knows how many links its path has.
pub(super) fn on_path(controller: &AnyController, path: &[LinkId]) -> AnyController {
    let mut controller = controller.clone();
    controller.set_hops(path.len() as u8);
    controller
}

struct TcpEndpoints<'a> {
    transport: &'a TcpTransport,
    run: RunSettings<'a>,
    /// For each class that flows have asked for.
    configs: BTreeMap<Option<u8>, Arc<TcpConfig>>,
}

impl Endpoints for TcpEndpoints<'_> {
    fn open(&mut self, flow: &FlowSpec, path: &[LinkId], policy: Option<Policy>) -> FlowEndpoints {
        let TcpTransport { config, controller, cross_queue, sender_drop } = self.transport;
        let config = self.configs.entry(flow.class).or_insert_with(|| {
            let class = flow.class.map(TrafficClass::new);
            let data_class = class.unwrap_or(config.data_class);
            let ack_class = class.unwrap_or(config.ack_class);
            Arc::new(TcpConfig { data_class, ack_class, ..config.clone() })
        });
        let mut sender = TcpSender::new(Arc::clone(config), on_path(controller, path));
        if let Some(policy) = policy {
            sender = sender.with_policy(policy);
        }
        let sender = match (*cross_queue, *sender_drop) {
            (Some(policy), _) => CrossQueueSender::new(sender, policy).into(),
            (None, Some(policy)) => {
                let name = format!("traffic.{}.drop.{}", self.run.name, flow.sequence);
                let stream = Stream::named(self.run.seed, &name);
                Box::new(SenderDrop::new(sender, self.run.mss, policy, self.run.max_loss, stream)).into()
            }
            (None, None) => AnyTransport::from(sender),
        };
        (sender, TcpReceiver::new(Arc::clone(config))).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenarios can name every built-in controller.
    #[test]
    fn every_controller_is_a_member() {
        for algorithm in Algorithm::ALL {
            let is_member = MEMBERS.iter().any(|member| member.name == algorithm.name());
            assert!(is_member, "`MEMBERS` in crates/sim/src/families/tcp.rs lacks `{algorithm}`");
        }
    }
}
