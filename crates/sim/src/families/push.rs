//! PPUSH: coded symbols of an object, from many sources at once.

use std::collections::BTreeMap;
use std::sync::Arc;

use pliant_proto::congestion::weighted_fair::WeightedFairConfig;
use pliant_proto::contract::policy::Policy;
use pliant_proto::packet::TrafficClass;
use pliant_proto::recovery::rtt::RtoBounds;
use pliant_proto::rng::Stream;
use pliant_proto::settings::{Range, Settings};
use pliant_proto::switch::QueuePlan;
use pliant_proto::switch::marker::Level;
use pliant_proto::time::Span;
use pliant_proto::transport::push::{
    self, MAX_BLOCK_SYMBOLS, Partition, PushConfig, PushPort, PushReceiver, PushSource, SharedReceiver, Weighting,
    weights,
};
use pliant_proto::units::{Bytes, Serializer};
use pliant_proto::{choices, settings};

use super::family::{
    Endpoints, Facts, Family, FlowEndpoints, GroupSettings, GroupTransport, Member, RunSettings, SettingsTable, Traits,
    TransportName,
};
use crate::engine::{HighWeight, PushFlow};
use crate::tables::{KeyError, read_table, write};
use crate::topology::LinkId;
use crate::traffic::{FlowSpec, TrafficSpec};

const TABLE: &str = "push";

choices! {
    /// How flows are weighed.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum Weights {
        /// Smallest remaining task first.
        Remaining = "remaining",
        /// All alike, by the contract.
        Equal = "equal",
    }
}

settings! {
    /// Settings of the transport `push`.
    #[derive(Clone, PartialEq, Debug)]
    pub struct PushSettings {
        /// How flows are weighed. `"remaining"`: on each link the task with least left has a large weight, all others 0.5.
        /// `"equal"`: all have `contract.weight`.
        pub weights: Option<Weights> = None => [
            default: "`\"remaining\"`; with a weight in the contract `\"equal\"`", source: "PPUSH, algorithm 1"
        ],
        /// Size of a block, which is coded by itself, at most 56403 symbols. A symbol is the payload of a full packet.
        pub block: Bytes = Bytes(4_000_000) => [source: "RFC 6330"],
        /// Slots of an object, among which its symbols are dealt out. More than sources cost decoding.
        pub slots: Option<u8> = None => [default: "the sources that do not wait", limits: "from that, up to 32"],
        /// Sources of an object that wait, and take the places of those that three reports in a row call silent.
        pub waiting: u8 = 0 => [limits: "fewer than the fanout; not with `split`, `claims` or more slots", source: "PPUSH, section III-A"],
        /// Any source may send a source symbol that the receiver misses, in place of a repair symbol.
        pub claims: bool = false => [source: "PPUSH: false"],
        /// Large weight of every link (theta⁺).
        pub high_weight: Option<f64> = None => [
            range: Range::closed(1.0, 1e9),
            default: "(C·d + K)/2 of each link, by its rate, the flow's round trip and the threshold of its queue",
            source: "PPUSH, equation 20"
        ],
        /// Time that a message to or from the controller takes.
        pub control_delay: Span = Span::ZERO => [],
        /// How often a receiver tells the controller what is left.
        pub report: Span = Span::from_ms(50) => [range: Range::above(Span::ZERO)],
        /// Weight of the newest window in alpha.
        pub gain: f64 = WeightedFairConfig::default().gain => [range: Range::above_to(0.0, 1.0), source: "RFC 8257"],
        /// Alpha before the first window.
        pub initial_alpha: f64 = WeightedFairConfig::default().initial_alpha => [
            range: Range::closed(0.0, 1.0), source: "RFC 8257"
        ],
        /// First window.
        pub initial_window: u16 = WeightedFairConfig::default().initial_window => [range: Range::from(1).of("packet")],
        /// Ignores losses on paths that never marked.
        pub loss_blind: bool = false => [source: "PPUSH: true"],
        /// A packet is lost when so many sent after it have arrived.
        pub reorder_threshold: u32 = 3 => [range: Range::from(1).of("packet")],
        /// Least time without any acknowledgement after which all packets are lost.
        pub min_rto: Span = RtoBounds::DEFAULT.minimum => [range: Range::up_to(RtoBounds::DEFAULT.maximum)],
        /// The same before the first acknowledgement.
        pub initial_rto: Span = RtoBounds::DEFAULT.initial => [range: Range::above(Span::ZERO)],
    }
}

impl PushSettings {
    /// Settings of sources and receivers.
    fn config(&self, group: &GroupSettings<'_>, slots: u8) -> PushConfig {
        let default = PushConfig::new(group.network.mss, group.network.wire);
        let block = self.block.0 / u64::from(default.symbol);
        PushConfig {
            data_class: TrafficClass::new(group.class),
            ack_class: TrafficClass::new(group.ack_class),
            block_symbols: u32::try_from(block).unwrap_or(u32::MAX),
            slots,
            reorder_threshold: self.reorder_threshold,
            window: WeightedFairConfig {
                weight: group.contract.weight,
                gain: self.gain,
                initial_window: self.initial_window,
                initial_alpha: self.initial_alpha,
                loss_blind: self.loss_blind,
                ..default.window
            },
            rto: RtoBounds { minimum: self.min_rto, initial: self.initial_rto, ..default.rto },
            report: self.report,
            claims: self.claims,
            ..default
        }
    }

    /// The settings of a group's table with the defaults that follow from the group.
    fn explicit(mut self, weight: f64, fanout: u32, splits: bool) -> (Self, Weights, u8) {
        let by_contract = if weight == 1.0 { Weights::Remaining } else { Weights::Equal };
        let weights = *self.weights.get_or_insert(by_contract);
        let sending = fanout.saturating_sub(self.waiting.into()).max(1);
        let all = if splits { 1 } else { u8::try_from(sending).unwrap_or(u8::MAX) };
        let slots = *self.slots.get_or_insert(all);
        (self, weights, slots)
    }
}

/// Flows that bring one object, and whether each brings a part of its own.
fn sharing(traffic: &TrafficSpec) -> (u32, bool) {
    match traffic {
        TrafficSpec::Objects(spec) => (spec.fanout(), spec.splits()),
        _ => (1, true),
    }
}

pub(super) struct PushFamily;

impl Family for PushFamily {
    fn members(&self) -> &'static [Member] {
        &[Member {
            name: "push",
            description: "PPUSH: coded symbols of an object from many sources at once, weighted by remaining size",
            honours: push::HONOURS,
            traits: Traits { bends: true, shares_objects: true, takes_messages: false, ..Traits::PLAIN },
        }]
    }

    fn tables(&self, _: TransportName) -> Vec<SettingsTable> {
        let (settings, ..) = PushSettings::default().explicit(1.0, 1, true);
        let defaults = write(&settings);
        vec![SettingsTable { name: TABLE, title: "push", settings: PushSettings::describe(), defaults }]
    }

    fn resolve(&self, group: &mut GroupSettings<'_>) -> Result<Arc<dyn GroupTransport>, KeyError> {
        let refuse = |key: &str, why: String| Err((key.to_owned(), why));
        let (fanout, splits) = sharing(group.traffic);
        let own: PushSettings = read_table(group.tables, TABLE)?;
        if splits && own.slots.is_some_and(|slots| slots != 1) {
            return refuse("push.slots", "each part of a split object has one source: only 1 fits".to_owned());
        }
        let contract = group.contract;
        let (settings, weights, slots) = own.explicit(contract.weight, fanout, splits);
        let waiting = u32::from(settings.waiting);
        if waiting > 0 && (splits || waiting >= fanout) {
            return refuse("push.waiting", format!("of {fanout} sources that share an object one at least sends"));
        }
        if waiting > 0 && settings.claims {
            // A symbol no longer tells the slot of its source.
            return refuse("push.claims", "needs a slot for each source, of those that wait, too".to_owned());
        }
        let sending = fanout - waiting;
        if u32::from(slots) < sending && !splits {
            return refuse("push.slots", format!("must be at least the fanout: {sending} sources need a slot each"));
        }
        if waiting > 0 && u32::from(slots) > sending {
            return refuse("push.waiting", format!("nobody waits for a slot while {sending} sources do not fill them"));
        }
        if weights == Weights::Remaining && contract.weight != 1.0 {
            let why = "\"remaining\" gives weights of its own: contract.weight needs \"equal\"";
            return refuse("push.weights", why.to_owned());
        }
        if weights == Weights::Equal && contract.priority != 0 {
            let why = "\"equal\" knows no contract.priority, which needs \"remaining\"";
            return refuse("push.weights", why.to_owned());
        }
        if contract.weight < weights::LOW_WEIGHT {
            return refuse("contract.weight", format!("{} is below 0.5, the least weight of push", contract.weight));
        }
        let config = settings.config(group, slots);
        let symbols = settings.block.0 / u64::from(config.symbol);
        if !(1..=u64::from(MAX_BLOCK_SYMBOLS)).contains(&symbols) {
            let why =
                format!("holds {symbols} symbols of {} bytes: 1 to {MAX_BLOCK_SYMBOLS} there may be", config.symbol);
            return refuse("push.block", why);
        }
        config.check().map_err(|error| (format!("{TABLE}.{}", error.key), error.why.to_owned()))?;
        let threshold = threshold(group.network.switch_plan, group.class, &config);
        group.tables.insert(TABLE.to_owned(), write(&settings));
        let weighting = match weights {
            Weights::Remaining => Weighting::Remaining { priority: contract.priority },
            Weights::Equal => Weighting::Fixed(contract.weight),
        };
        let PushSettings { high_weight, control_delay, .. } = settings;
        Ok(Arc::new(Push { config, weighting, high_weight, threshold, control_delay, fanout, splits }))
    }
}

/// Where the queue of data of `class` marks first.
fn threshold(plan: &QueuePlan, class: u8, config: &PushConfig) -> Option<Level> {
    let queue = usize::from(plan.queue_of_class[usize::from(class)]);
    plan.queues[queue].marker.lowest(u32::from(config.wire.wire_bytes(config.symbol)))
}

#[derive(Clone, Debug)]
struct Push {
    /// Settings of sources and receivers.
    config: PushConfig,
    /// How flows are weighed.
    weighting: Weighting,
    /// Large weight of every link, if one was given.
    high_weight: Option<f64>,
    /// Packets at which the queue of its data marks; zero if it does not.
    threshold: Option<Level>,
    /// Time that a message to or from the controller takes.
    control_delay: Span,
    /// Flows that bring one object.
    fanout: u32,
    /// Whether each brings a part of its own.
    splits: bool,
}

impl GroupTransport for Push {
    fn endpoints<'a>(&'a self, run: RunSettings<'a>) -> Box<dyn Endpoints + 'a> {
        Box::new(PushEndpoints { push: self, run, configs: BTreeMap::new(), receivers: BTreeMap::new() })
    }

    fn facts(&self) -> Facts<'_> {
        Facts { pushes: true, takes_threshold: self.high_weight.is_none(), ..Facts::default() }
    }
}

/// A receiver that more flows of its object will share.
struct Shared {
    receiver: SharedReceiver,
    flows_left: u32,
}

struct PushEndpoints<'a> {
    push: &'a Push,
    run: RunSettings<'a>,
    /// For each class that flows have asked for.
    configs: BTreeMap<Option<u8>, Arc<PushConfig>>,
    /// Receivers of which not all flows are open.
    receivers: BTreeMap<u64, Shared>,
}

impl Endpoints for PushEndpoints<'_> {
    fn open(&mut self, flow: &FlowSpec, path: &[LinkId], policy: Option<Policy>) -> FlowEndpoints {
        let push = self.push;
        let config = self.configs.entry(flow.class).or_insert_with(|| {
            let class = |own: TrafficClass| flow.class.map_or(own, TrafficClass::new);
            let PushConfig { data_class, ack_class, .. } = push.config;
            let (data_class, ack_class) = (class(data_class), class(ack_class));
            Arc::new(PushConfig { data_class, ack_class, ..push.config.clone() })
        });
        // A flow without an end may have more blocks than are counted; no run carries so many.
        let most = u64::from(u32::MAX) * u64::from(config.block_symbols) * u64::from(config.symbol);
        let partition = Partition::new(flow.bytes.min(most), config.symbol, config.block_symbols);
        let partition = partition.expect("flows have bytes, and blocks can be counted");
        let number = |sequence: u64| u64::from(flow.group) << 48 | sequence;
        let delivery = number(flow.sequence / u64::from(push.fanout));
        let task = if push.splits { number(flow.sequence) } else { delivery };
        let seed = self.run.seed;
        let shared = self.receivers.entry(task).or_insert_with(|| {
            let stream = Stream::named(seed, &format!("decoder/{task}"));
            let receiver = PushReceiver::new(Arc::clone(config), partition, stream, flow.start);
            let flows_left = if push.splits { 1 } else { push.fanout };
            Shared { receiver: receiver.into_shared(), flows_left }
        });
        let peer = shared.receiver.borrow_mut().add_peer();
        let port = PushPort::new(Arc::clone(&shared.receiver), peer);
        shared.flows_left -= 1;
        if shared.flows_left == 0 {
            self.receivers.remove(&task);
        }
        let packet_bytes = config.wire.wire_bytes(config.symbol);
        let push_flow = PushFlow {
            task,
            delivery,
            symbols: partition.symbols(),
            slots: config.slots,
            weighting: push.weighting,
            high: push.high_weight.map_or_else(
                || HighWeight::OfLink {
                    rtt: round_trip(&self.run, path, packet_bytes, config.wire.wire_bytes(0)),
                    packet_bytes,
                    threshold: push.threshold,
                },
                HighWeight::Fixed,
            ),
            delay: push.control_delay,
        };
        let source = PushSource::new(Arc::clone(config), partition);
        let source = match policy {
            Some(policy) => source.with_policy(policy),
            None => source,
        };
        FlowEndpoints { initiator: source.into(), responder: port.into(), push: Some(push_flow) }
    }
}

/// Time that a packet and its acknowledgement take on a path without queues.
fn round_trip(run: &RunSettings<'_>, path: &[LinkId], packet_bytes: u16, ack_bytes: u16) -> Span {
    path.iter().map(|&link| run.topology.link(link)).fold(Span::ZERO, |sum, link| {
        let mut wire = Serializer::new(link.rate);
        let sent = wire.transmit(packet_bytes.into()).plus(wire.transmit(ack_bytes.into()));
        sum.plus(sent).plus(link.delay.times(2))
    })
}
