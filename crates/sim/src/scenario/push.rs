//! The table `traffic.NAME.push`.

use pliant_proto::congestion::weighted_fair::WeightedFairConfig;
use pliant_proto::contract::Contract;
use pliant_proto::packet::{TrafficClass, WireFormat};
use pliant_proto::recovery::rtt::RtoBounds;
use pliant_proto::switch::QueuePlan;
use pliant_proto::switch::marker::{Level, MarkerConfig};
use pliant_proto::time::Span;
use pliant_proto::transport::push::{MAX_BLOCK_SYMBOLS, PushConfig, Weighting, weights};
use pliant_proto::units::Bytes;
use serde::{Deserialize, Serialize};

use super::group::GroupSpec;
use super::queues::KeyError;
use super::spec::PacketsSpec;
use crate::traffic::TrafficSpec;
use crate::units_serde;

/// Bytes of a block where none are given.
const BLOCK: Bytes = Bytes(4_000_000);

/// Settings of the transport `push`.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PushSpec {
    /// How flows are weighed: `"remaining"`, smallest remaining task first (the paper's Algorithm 1), or `"equal"`, all by
    /// `contract.weight`. Default: `"remaining"`, with a weight in the contract `"equal"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weights: Option<WeightsName>,
    /// Bytes of a block, at most 56403 symbols. A symbol is the payload of a full packet. Default: `"4MB"`.
    #[serde(skip_serializing_if = "Option::is_none", with = "units_serde::optional")]
    pub block: Option<Bytes>,
    /// Most sources of an object at once, at least those that do not wait, at most 32. Default: as many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slots: Option<u8>,
    /// Sources of an object, fewer than its fanout, that wait, and take the places of silent ones. Default: 0.
    pub waiting: u8,
    /// Lets any source send a source symbol that the receiver misses. Default: false, as the paper.
    pub claims: bool,
    /// Large weight of every link (theta⁺), at least 1. Default: of each link (C·d + K)/2, by its rate, the flow's round trip
    /// and the threshold of its queue (equation 20).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub high_weight: Option<f64>,
    /// Time that a message to or from the controller takes. Default: `"0s"`.
    #[serde(with = "units_serde")]
    pub control_delay: Span,
    /// How often a receiver reports, above 0s. Default: `"50ms"`.
    #[serde(skip_serializing_if = "Option::is_none", with = "units_serde::optional")]
    pub report: Option<Span>,
    /// Weight of the newest window in alpha, in (0, 1]. Default: 0.0625.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gain: Option<f64>,
    /// Alpha before the first window, in [0, 1]. Default: 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial_alpha: Option<f64>,
    /// First window in packets, at least 1. Default: 10.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial_window: Option<u16>,
    /// Ignores losses on paths that never marked, as the paper does. Default: false.
    pub loss_blind: bool,
    /// A packet is lost when so many sent after it have arrived, at least 1. Default: 3.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reorder_threshold: Option<u32>,
    /// Least time without any acknowledgement after which all packets are lost, at most 60 s. Default: `"1ms"`.
    #[serde(skip_serializing_if = "Option::is_none", with = "units_serde::optional")]
    pub min_rto: Option<Span>,
    /// The same before the first acknowledgement, above 0s. Default: `"10ms"`.
    #[serde(skip_serializing_if = "Option::is_none", with = "units_serde::optional")]
    pub initial_rto: Option<Span>,
}

/// How flows are weighed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WeightsName {
    /// Smallest remaining task first.
    Remaining,
    /// All alike, by the contract.
    Equal,
}

/// The transport `push` with its settings.
#[derive(Clone, Debug)]
pub struct PushCarrier {
    /// Settings of sources and receivers.
    pub config: PushConfig,
    /// How flows are weighed.
    pub weighting: Weighting,
    /// Large weight of every link, if one was given.
    pub high_weight: Option<f64>,
    /// Packets at which the queue of its data marks; zero if it does not.
    pub threshold: f64,
    /// Time that a message to or from the controller takes.
    pub control_delay: Span,
    /// Flows that bring one object.
    pub fanout: u32,
    /// Whether each brings a part of its own.
    pub splits: bool,
}

impl PushSpec {
    /// These settings with every default written out, for symbols of `symbol` bytes.
    pub(super) fn explicit(&self, contract: &Contract, fanout: u32, splits: bool) -> Self {
        let (window, rto) = (WeightedFairConfig::default(), RtoBounds::default());
        let config = PushConfig::new(1, WireFormat::IP);
        let by_contract = if contract.weight == 1.0 { WeightsName::Remaining } else { WeightsName::Equal };
        Self {
            weights: Some(self.weights.unwrap_or(by_contract)),
            block: Some(self.block.unwrap_or(BLOCK)),
            slots: Some(self.slots.unwrap_or_else(|| {
                let sending = fanout.saturating_sub(self.waiting.into()).max(1);
                if splits { 1 } else { u8::try_from(sending).unwrap_or(u8::MAX) }
            })),
            waiting: self.waiting,
            claims: self.claims,
            high_weight: self.high_weight,
            control_delay: self.control_delay,
            report: Some(self.report.unwrap_or(config.report)),
            gain: Some(self.gain.unwrap_or(window.gain)),
            initial_alpha: Some(self.initial_alpha.unwrap_or(window.initial_alpha)),
            initial_window: Some(self.initial_window.unwrap_or(window.initial_window)),
            loss_blind: self.loss_blind,
            reorder_threshold: Some(self.reorder_threshold.unwrap_or(config.reorder_threshold)),
            min_rto: Some(self.min_rto.unwrap_or(rto.minimum)),
            initial_rto: Some(self.initial_rto.unwrap_or(rto.initial)),
        }
    }

    fn config(&self, weight: f64, packets: &PacketsSpec) -> PushConfig {
        let symbol = packets.mss.0 as u16;
        let default = PushConfig::new(symbol, packets.framing.into());
        let block = self.block.unwrap_or(BLOCK).0 / u64::from(symbol);
        let (window, rto) = (default.window, default.rto);
        PushConfig {
            block_symbols: u32::try_from(block).unwrap_or(u32::MAX),
            slots: self.slots.unwrap_or(default.slots),
            reorder_threshold: self.reorder_threshold.unwrap_or(default.reorder_threshold),
            window: WeightedFairConfig {
                weight,
                gain: self.gain.unwrap_or(window.gain),
                initial_window: self.initial_window.unwrap_or(window.initial_window),
                initial_alpha: self.initial_alpha.unwrap_or(window.initial_alpha),
                loss_blind: self.loss_blind,
                ..window
            },
            rto: RtoBounds {
                minimum: self.min_rto.unwrap_or(rto.minimum),
                initial: self.initial_rto.unwrap_or(rto.initial),
                ..rto
            },
            report: self.report.unwrap_or(default.report),
            claims: self.claims,
            ..default
        }
    }
}

/// Writes the group's settings out and makes its transport from them.
pub(super) fn push_carrier(
    group: &mut GroupSpec,
    contract: &Contract,
    packets: &PacketsSpec,
    plan: &QueuePlan,
) -> Result<PushCarrier, KeyError> {
    let refuse = |key: &str, why: String| Err((key.to_owned(), why));
    let (fanout, splits) = match &group.traffic {
        TrafficSpec::Objects(spec) => (spec.fanout(), spec.splits()),
        _ => (1, true),
    };
    let own = group.push.clone().unwrap_or_default();
    if splits && own.slots.is_some_and(|slots| slots != 1) {
        return refuse("push.slots", "each part of a split object has one source: only 1 fits".to_owned());
    }
    let spec = own.explicit(contract, fanout, splits);
    let waiting = u32::from(spec.waiting);
    if waiting > 0 && (splits || waiting >= fanout) {
        return refuse("push.waiting", format!("of {fanout} sources that share an object one at least sends"));
    }
    if waiting > 0 && spec.claims {
        // A symbol no longer tells the slot of its source.
        return refuse("push.claims", "needs a slot for each source, of those that wait, too".to_owned());
    }
    let sending = fanout - waiting;
    if spec.slots.is_some_and(|slots| u32::from(slots) < sending) && !splits {
        return refuse("push.slots", format!("must be at least the fanout: {sending} sources need a slot each"));
    }
    if waiting > 0 && spec.slots.is_some_and(|slots| u32::from(slots) > sending) {
        return refuse("push.waiting", format!("nobody waits for a slot while {sending} sources do not fill them"));
    }
    let by_remaining = spec.weights == Some(WeightsName::Remaining);
    if by_remaining && contract.weight != 1.0 {
        return refuse(
            "push.weights",
            "\"remaining\" gives weights of its own: contract.weight needs \"equal\"".to_owned(),
        );
    }
    if !by_remaining && contract.priority != 0 {
        return refuse("push.weights", "\"equal\" knows no contract.priority, which needs \"remaining\"".to_owned());
    }
    if contract.weight < weights::LOW_WEIGHT {
        return refuse("contract.weight", format!("{} is below 0.5, the least weight of push", contract.weight));
    }
    if spec.high_weight.is_some_and(|weight| !(1.0..=1e9).contains(&weight)) {
        return refuse("push.high_weight", "must lie in [1, 1e9]".to_owned());
    }
    let config = PushConfig {
        data_class: TrafficClass::new(group.class),
        ack_class: TrafficClass::new(group.ack_class.unwrap_or(group.class)),
        ..spec.config(contract.weight, packets)
    };
    let symbols = spec.block.unwrap_or(BLOCK).0 / u64::from(config.symbol);
    if !(1..=u64::from(MAX_BLOCK_SYMBOLS)).contains(&symbols) {
        let why = format!("holds {symbols} symbols of {} bytes: 1 to {MAX_BLOCK_SYMBOLS} there may be", config.symbol);
        return refuse("push.block", why);
    }
    if config.rto.minimum > config.rto.maximum {
        return refuse("push.min_rto", "must be at most 60s".to_owned());
    }
    config.check().map_err(|error| (format!("push.{}", error.key), error.why.to_owned()))?;
    let queue = &plan.queues[usize::from(plan.queue_of_class[usize::from(group.class)])];
    let full = f64::from(config.wire.wire_bytes(config.symbol));
    let threshold = match queue.marker {
        MarkerConfig::None => 0.0,
        MarkerConfig::Threshold(threshold) => match threshold.level {
            Level::Packets(packets) => packets.into(),
            Level::Bytes(bytes) => bytes as f64 / full,
        },
        MarkerConfig::Red(red) => red.min_packets,
    };
    let (high_weight, control_delay) = (spec.high_weight, spec.control_delay);
    group.push = Some(spec);
    let weighting = if by_remaining {
        Weighting::Remaining { priority: contract.priority }
    } else {
        Weighting::Fixed(contract.weight)
    };
    Ok(PushCarrier { config, weighting, high_weight, threshold, control_delay, fanout, splits })
}
