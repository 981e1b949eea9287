//! Transports of messages of which a bounded share may be missing: ATP, and pFabric at the line rate.

use std::collections::BTreeMap;
use std::sync::Arc;

use pliant_proto::contract::policy::Policy;
use pliant_proto::packet::{Ecn, TrafficClass};
use pliant_proto::settings::{Range, Settings};
use pliant_proto::time::Span;
use pliant_proto::transport::atp::{
    self, AtpConfig, AtpReceiver, AtpSender, LossBound, LossDetection, Order, RateControlConfig, SharedPathConfig,
    WAN_TIMER,
};
use pliant_proto::transport::pfabric::{self, DEFAULT_RTO, PFabricConfig};
use pliant_proto::units::Rate;
use pliant_proto::{choices, settings};

use super::family::{
    Endpoints, Facts, Family, FlowEndpoints, GroupSettings, GroupTransport, Member, RunSettings, SettingsTable, Traits,
    TransportName,
};
use crate::tables::{KeyError, Tables, below, read, read_table, write};
use crate::topology::LinkId;
use crate::traffic::FlowSpec;

const ATP: &str = "atp";
const PFABRIC: &str = "pfabric";

/// Stands for the rate of the sender's link until the flow's path is known.
const LINE_RATE: Rate = Rate::from_bits_per_sec(u64::MAX);

choices! {
    /// Where ATP runs.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum Profile {
        /// A datacenter with queues of its own.
        Datacenter = "datacenter",
        /// A path shared with others.
        Wan = "wan",
    }
}

choices! {
    /// Which parts of ATP are on.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum Variant {
        /// Line rate.
        Base = "base",
        /// And loss-based rate control.
        Rc = "rc",
        /// And priorities by rate.
        Pri = "pri",
        /// And the backup sub-flow and minimal remaining data first.
        Full = "full",
    }
}

choices! {
    /// Which message is sent next.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum OrderName {
        /// As they came.
        Fifo = "fifo",
        /// Minimal remaining data first, by powers of two.
        Mrdf = "mrdf",
        /// Minimal remaining data first, to the byte.
        MrdfExact = "mrdf-exact",
        /// By a hash.
        Uniform = "uniform",
    }
}

impl From<OrderName> for Order {
    fn from(name: OrderName) -> Self {
        match name {
            OrderName::Fifo => Self::Fifo,
            OrderName::Mrdf => Self::Mrdf,
            OrderName::MrdfExact => Self::MrdfExact,
            OrderName::Uniform => Self::Uniform,
        }
    }
}

settings! {
    /// Settings of the transport `atp`. Those without a value follow from `profile` and `variant`.
    #[derive(Clone, PartialEq, Debug)]
    pub struct AtpSettings {
        /// `"datacenter"` (the paper): starts at the line rate and keeps losing, for queues of its own. `"wan"`, for paths
        /// shared with others: a CUBIC window limits the packets under way, paced; marks, queueing delay and losses cut it,
        /// once per round trip. A loss without a queue is borne, up to the target: its round-trip time is nearer to the
        /// least than to the largest of the last 10 to 20 s, or adds less than 1 ms and less than a packet of the flow's
        /// own.
        pub profile: Profile = Profile::Datacenter => [],
        /// Which parts are on: line rate (`"base"`), and rate control (`"rc"`), and priorities (`"pri"`), and the backup
        /// sub-flow and minimal remaining data first (`"full"`).
        pub variant: Variant = Variant::Full => [source: "ATP, section 7.2"],
        /// Largest rate of a flow on the wire.
        pub rate: Option<Rate> = None => [
            range: Range::above(Rate::from_bits_per_sec(0)), default: "the rate of the sender's link"
        ],
        /// Loss rate at which the rate settles (TLR). Profile `wan`: share of losses without a queue that is borne.
        pub target_loss: Option<f64> = None => [
            range: Range::open(0.0, 1.0), default: "0.1; profile `wan`: 0.01", source: "ATP, section 5.1"
        ],
        /// Aims at min(TLR, max(1 − `min_delivery`, 0.01)).
        pub target_within_bound: Option<bool> = None => [default: "true", source: "the paper: false"],
        /// Weight m of the largest rate in an increase; with `adaptive` the first.
        pub increase: Option<f64> = None => [
            range: Range::above_to(0.0, 1.0), default: "0.0625", source: "ATP, section 5.1"
        ],
        /// m shrinks with the root of the rate's share of the largest, and doubles from the fourth increase in a row on, up
        /// to 16 times over. A window that began before the last change is not judged. Silence after `min_window_packets`
        /// is a loss of all. A fixed m is not stable with more than 1/m flows on a link.
        pub adaptive: Option<bool> = None => [default: "true", source: "the paper: false"],
        /// Cut of the rate after a window without any acknowledgement (β); with `adaptive` after one with too few packets.
        pub silence_cut: Option<f64> = None => [range: Range::open(0.0, 1.0), default: "0.1"],
        /// Least length of a window of rate control T_δ, which is otherwise a round-trip time.
        pub min_window: Option<Span> = None => [default: "`\"50us\"`; profile `wan`: `\"1ms\"`"],
        /// Least packets of a window, unless it has become four times as long.
        pub min_window_packets: Option<u32> = None => [default: "8; profile `wan`: 16"],
        /// Number of priorities by rate: classes from the group's `class` on.
        pub priorities: Option<u8> = None => [
            range: Range::closed(1, 30), default: "the variant's, 6 or 1", source: "ATP, section 5.2"
        ],
        /// Priority k ends at the rate `rate` / base^(`priorities` − k).
        pub priority_base: Option<f64> = None => [range: Range::above(1.0), default: "2", source: "ATP, section 5.2"],
        /// Fills the rest of the line rate from the other end of the messages. While less than 5 % of that arrives it sends
        /// one packet per window.
        pub backup: Option<bool> = None => [default: "the variant's", source: "ATP, section 5.3"],
        /// Which message is sent next: as they came (`"fifo"`), minimal remaining data first by powers of two of its
        /// packets (`"mrdf"`) or to the byte (`"mrdf-exact"`), or by a hash (`"uniform"`). Small messages first leaves the
        /// large ones out, so estimates over what arrived are biased by size.
        pub order: Option<OrderName> = None => [default: "the variant's", source: "ATP, section 5.4"],
        /// A packet is lost when so many later ones have arrived. It grows by the reordering that spraying shows.
        pub reorder_threshold: Option<u32> = None => [range: Range::from(1).of("packet"), default: "3"],
        /// Profile `wan`: first window.
        pub initial_window: Option<u16> = None => [range: Range::from(1).of("packet"), default: "10"],
        /// Profile `wan`: queueing delay above which the window is cut.
        pub delay_target: Option<Span> = None => [default: "`\"5ms\"`"],
    }
}

impl AtpSettings {
    /// These settings with every default written out.
    fn explicit(&self) -> Self {
        let config = self.config_with_defaults();
        let (control, shared) = (config.rate_control, config.rate_control.and_then(|control| control.shared_path));
        let order = if self.variant == Variant::Full { OrderName::Mrdf } else { OrderName::Fifo };
        Self {
            profile: self.profile,
            variant: self.variant,
            rate: self.rate,
            target_loss: control.map(|control| control.target_loss),
            target_within_bound: control.map(|control| control.target_within_bound),
            increase: control.map(|control| control.increase),
            adaptive: control.map(|control| control.adaptive),
            silence_cut: control.map(|control| control.silence_cut),
            min_window: control.map(|control| control.min_window),
            min_window_packets: control.map(|control| control.min_window_packets),
            priorities: Some(config.priorities),
            priority_base: control.map(|_| config.priority_base),
            backup: Some(config.backup),
            order: Some(self.order.unwrap_or(order)),
            reorder_threshold: Some(self.reorder_threshold.unwrap_or(3)),
            initial_window: shared.map(|shared| shared.initial_window),
            delay_target: shared.map(|shared| shared.delay_target),
        }
    }

    /// Classes that it uses from that of its data on.
    fn classes(&self) -> u8 {
        let config = self.config_with_defaults();
        config.priorities.saturating_add(u8::from(config.backup))
    }

    /// Refuses settings of parts that are off.
    fn check_parts(&self) -> Result<(), KeyError> {
        let refuse = |key: &str, why: &str| Err((key.to_owned(), why.to_owned()));
        let given = |keys: &[&'static str]| keys.iter().copied().find(|key| self.get(key).flatten().is_some());
        if self.variant == Variant::Base {
            let of_control = [
                "target_loss",
                "target_within_bound",
                "increase",
                "adaptive",
                "silence_cut",
                "min_window",
                "min_window_packets",
                "priority_base",
            ];
            if let Some(key) = given(&of_control) {
                return refuse(key, "variant base has no rate control");
            }
            if self.profile == Profile::Wan {
                return refuse("variant", "the profile wan needs rate control: base would flood the path");
            }
        }
        match given(&["initial_window", "delay_target"]) {
            Some(key) if self.profile != Profile::Wan => refuse(key, "only the profile wan has it"),
            _ => Ok(()),
        }
    }

    fn config_with_defaults(&self) -> AtpConfig {
        let full = AtpConfig::full(LossBound::RELIABLE, self.rate.unwrap_or(LINE_RATE));
        let wan = self.profile == Profile::Wan;
        let control = if wan { RateControlConfig::wan() } else { RateControlConfig::default() };
        let shared = control.shared_path.map(|shared| SharedPathConfig {
            initial_window: self.initial_window.unwrap_or(shared.initial_window),
            delay_target: self.delay_target.unwrap_or(shared.delay_target),
        });
        let control = RateControlConfig {
            target_loss: self.target_loss.unwrap_or(control.target_loss),
            target_within_bound: self.target_within_bound.unwrap_or(control.target_within_bound),
            increase: self.increase.unwrap_or(control.increase),
            adaptive: self.adaptive.unwrap_or(control.adaptive),
            silence_cut: self.silence_cut.unwrap_or(control.silence_cut),
            min_window: self.min_window.unwrap_or(control.min_window),
            min_window_packets: self.min_window_packets.unwrap_or(control.min_window_packets),
            shared_path: shared,
        };
        // On a shared path nothing looks at priorities, and a backup would go beside the careful rate.
        let (priorities, backup, order) = match self.variant {
            Variant::Base | Variant::Rc => (1, false, Order::Fifo),
            Variant::Pri => (6, false, Order::Fifo),
            Variant::Full => (6, true, Order::Mrdf),
        };
        AtpConfig {
            rate_control: (self.variant != Variant::Base).then_some(control),
            priorities: self.priorities.unwrap_or(if wan { 1 } else { priorities }),
            priority_base: self.priority_base.unwrap_or(full.priority_base),
            backup: self.backup.unwrap_or(backup && !wan),
            order: self.order.map_or(order, Order::from),
            loss: LossDetection::Order { threshold: self.reorder_threshold.unwrap_or(3) },
            timer: if wan { WAN_TIMER } else { full.timer },
            ..full
        }
    }
}

settings! {
    /// Settings of the transport `pfabric`.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct PFabricSettings {
        /// Time after which a packet that was not acknowledged is lost: three round-trip times.
        pub rto: Span = DEFAULT_RTO => [range: Range::above(Span::ZERO), source: "SIGCOMM 2013"],
    }
}

const TRAITS: Traits = Traits { sends_messages: true, ..Traits::PLAIN };

pub(super) struct AtpFamily;

impl Family for AtpFamily {
    fn members(&self) -> &'static [Member] {
        &[
            Member {
                name: ATP,
                description: "approximate transmission: a share of the messages may be missing (ATP)",
                honours: atp::HONOURS,
                traits: Traits { queue_per_class: Some("atp"), ..TRAITS },
            },
            Member {
                name: PFABRIC,
                description: "pFabric at the line rate, ends once enough messages have arrived (SIGCOMM 2013, ATP)",
                honours: pfabric::HONOURS,
                traits: TRAITS,
            },
        ]
    }

    fn tables(&self, member: TransportName) -> Vec<SettingsTable> {
        vec![if member.name() == ATP {
            let defaults = write(&AtpSettings::default().explicit());
            SettingsTable { name: ATP, title: "ATP", settings: AtpSettings::describe(), defaults }
        } else {
            let defaults = write(&PFabricSettings::default());
            SettingsTable { name: PFABRIC, title: "pFabric", settings: PFabricSettings::describe(), defaults }
        }]
    }

    fn classes(&self, member: TransportName, class: u8, tables: &Tables) -> Vec<(String, u8)> {
        if member.name() != ATP {
            return Vec::new();
        }
        let settings: AtpSettings = read(tables.get(ATP)).unwrap_or_default();
        let last = class.saturating_add(settings.classes().saturating_sub(1));
        (class..=last).map(|class| ("class".to_owned(), class)).collect()
    }

    fn resolve(&self, group: &mut GroupSettings<'_>) -> Result<Arc<dyn GroupTransport>, KeyError> {
        let table = group.transport.name();
        let data_class = TrafficClass::new(group.class);
        let (payload, wire, max_loss) = (group.network.mss, group.network.wire, group.max_loss);
        let control_class = TrafficClass::new(group.ack_class);
        let (config, written) = if table == ATP {
            let settings: AtpSettings = read_table(group.tables, ATP)?;
            settings.check_parts().map_err(|error| below(ATP, error))?;
            let ecn = if settings.profile == Profile::Wan { Ecn::Ect0 } else { Ecn::NotEct };
            let config = AtpConfig {
                max_loss,
                payload,
                wire,
                data_class: data_class.with_ecn(ecn),
                control_class,
                ..settings.config_with_defaults()
            };
            (config, write(&settings.explicit()))
        } else {
            let settings: PFabricSettings = read_table(group.tables, PFABRIC)?;
            let (rate, rto) = (LINE_RATE, settings.rto);
            let config = PFabricConfig { max_loss, payload, wire, rate, data_class, control_class, rto };
            (AtpConfig::from(config), write(&settings))
        };
        config.check().map_err(|error| (format!("{table}.{}", error.key), error.why.to_owned()))?;
        group.tables.insert(table.to_owned(), written);
        Ok(Arc::new(Messages { config }))
    }
}

/// ATP or pFabric. The largest rate may stand for that of the sender's link.
#[derive(Clone, Debug)]
struct Messages {
    config: AtpConfig,
}

impl GroupTransport for Messages {
    fn endpoints<'a>(&'a self, run: RunSettings<'a>) -> Box<dyn Endpoints + 'a> {
        Box::new(MessageEndpoints { config: &self.config, run, configs: BTreeMap::new() })
    }

    fn facts(&self) -> Facts<'_> {
        Facts { delivers_messages: true, ..Facts::default() }
    }
}

struct MessageEndpoints<'a> {
    config: &'a AtpConfig,
    run: RunSettings<'a>,
    /// For each class that flows have asked for, and each rate of a sender's link.
    configs: BTreeMap<(Option<u8>, Rate), Arc<AtpConfig>>,
}

impl Endpoints for MessageEndpoints<'_> {
    fn open(&mut self, flow: &FlowSpec, path: &[LinkId], _: Option<Policy>) -> FlowEndpoints {
        let line_rate = self.run.topology.link(path[0]).rate;
        let config = self.configs.entry((flow.class, line_rate)).or_insert_with(|| {
            let config = self.config;
            let max_rate = if config.max_rate == LINE_RATE { line_rate } else { config.max_rate };
            let class = |of: TrafficClass| flow.class.map_or(of, |class| TrafficClass::new(class).with_ecn(of.ecn()));
            let (data_class, control_class) = (class(config.data_class), class(config.control_class));
            Arc::new(AtpConfig { max_rate, data_class, control_class, ..config.clone() })
        });
        (AtpSender::new(Arc::clone(config)), AtpReceiver::new(Arc::clone(config))).into()
    }
}
