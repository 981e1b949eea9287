//! Settings of ATP.

use core::fmt;

use super::bound::LossBound;
use super::order::Order;
use crate::packet::{CLASSES, TrafficClass, WireFormat};
use crate::recovery::rtt::RtoBounds;
use crate::time::Span;
use crate::units::Rate;

/// Settings of both sides of an ATP flow.
#[derive(Clone, PartialEq, Debug)]
pub struct AtpConfig {
    /// Maximum loss rate of the flow's messages (MLR).
    pub max_loss: LossBound,
    /// Most payload bytes per packet, above 0. Usual: 1460.
    pub payload: u16,
    /// Bytes around a payload.
    pub wire: WireFormat,
    /// Largest rate on the wire (R_max), the line rate of the sender's link; above 0.
    pub max_rate: Rate,
    /// Class of the highest priority. Priority `k` has the class `k - 1` above it, and the backup sub-flow the class
    /// after the last priority. In the profile for wide areas packets are ECN-capable.
    pub data_class: TrafficClass,
    /// Class of acknowledgements and of the end of the flow, preferably one without loss.
    pub control_class: TrafficClass,
    /// Controls the rate by loss (section 5.1). Without it the flow sends at `max_rate`.
    pub rate_control: Option<RateControlConfig>,
    /// Number of priorities K that follow from the rate (section 5.2), 1 to 30; 1 for none. The paper's switch has 6.
    pub priorities: u8,
    /// Threshold `k` of the rates is `max_rate / base^(K - k)`; above 1. Default 2: with six priorities, thresholds
    /// from 1/32 of the line rate on. With 4, up to 1024 flows have different priorities.
    pub priority_base: f64,
    /// Uses the rest of the line rate for a backup sub-flow of the lowest priority (section 5.3).
    pub backup: bool,
    /// Which message is sent next (section 5.4).
    pub order: Order,
    /// How losses are detected.
    pub loss: LossDetection,
    /// Packets carry the flow's missing bytes as their priority, for [pFabric's queue](crate::transport::pfabric).
    pub remaining_as_priority: bool,
    /// Bounds of the tail timer: SRTT + 4 RTTVAR, doubled while nothing arrives.
    pub timer: RtoBounds,
    /// Most bytes of incomplete messages that the receiver keeps.
    pub reassembly_limit: u64,
    /// Limit for whole messages that wait for `Command::Consume`, in bytes. Above it the receiver takes fragments only
    /// of messages that have begun. Refused fragments count as lost, which slows the sender down. `None`: the
    /// application takes everything at once.
    pub delivery_limit: Option<u64>,
    /// The flow does not end before every message was sent once and has arrived or is lost, however many have arrived:
    /// missing is what the network has lost, and no more. The paper: off.
    pub sends_all: bool,
}

/// How losses are detected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LossDetection {
    /// A packet is lost when this many packets sent after it have arrived (the paper's dupAck, 3), or when the tail
    /// timer has expired.
    Order {
        /// How many, at least 1.
        threshold: u32,
    },
    /// A packet is lost when it was not acknowledged for this long.
    Timeout(Span),
}

/// Settings of the loss-based rate control.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RateControlConfig {
    /// Target loss rate (TLR), in (0, 1). The paper: 0.1, useful from 0.05 to 0.25. On a shared path: tolerated losses
    /// without a queue.
    pub target_loss: f64,
    /// Aims at min(TLR, max(MLR, 0.01)), because losses beyond the flow's bound are sent again anyway. The paper: off.
    pub target_within_bound: bool,
    /// Weight m of the maximum rate in an increase, in (0, 1]. Default 1/16.
    pub increase: f64,
    /// Scales m by the root of the rate's share of the maximum, doubles it in a long series of increases, and lets each
    /// change take effect before the next. The paper: off. Then more than 1/m flows on one link are not stable.
    pub adaptive: bool,
    /// Cut β without any acknowledgement in a window, in (0, 1). The paper: 0.1.
    pub silence_cut: f64,
    /// Least length of a window. Default 50 us; 1 ms on real hosts.
    pub min_window: Span,
    /// Least packets of a window, unless it is already four times as long as intended. Default 8.
    pub min_window_packets: u32,
    /// Care for other traffic on shared paths, which the paper's law lacks.
    pub shared_path: Option<SharedPathConfig>,
}

/// Settings outside of an isolated queue. The rate is that of a CUBIC window (RFC 9438). It is cut at a mark, when
/// packets waited too long in queues, and at losses: at all losses where packets wait, else at losses above the target.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SharedPathConfig {
    /// First window in packets. Default 10.
    pub initial_window: u16,
    /// Longest queueing delay. Default 5 ms.
    pub delay_target: Span,
}

impl Default for RateControlConfig {
    /// The paper's constants with an adaptive m.
    fn default() -> Self {
        Self {
            target_loss: 0.1,
            target_within_bound: true,
            increase: 1.0 / 16.0,
            adaptive: true,
            silence_cut: 0.1,
            min_window: Span::from_us(50),
            min_window_packets: 8,
            shared_path: None,
        }
    }
}

impl RateControlConfig {
    /// The law as printed in the paper.
    pub fn paper() -> Self {
        Self { target_within_bound: false, adaptive: false, ..Self::default() }
    }

    /// For paths that are shared with others: small target loss, CUBIC's window, a delay guard.
    pub fn wan() -> Self {
        Self {
            target_loss: 0.01,
            min_window: Span::from_ms(1),
            min_window_packets: 16,
            shared_path: Some(SharedPathConfig { initial_window: 10, delay_target: Span::from_ms(5) }),
            ..Self::default()
        }
    }
}

/// Bounds of the tail timer in datacenters.
pub const DATACENTER_TIMER: RtoBounds = RtoBounds {
    granularity: Span::from_us(1),
    minimum: Span::from_us(20),
    maximum: Span::from_secs(1),
    initial: Span::from_ms(1),
    after_lost_syn: Span::from_ms(1),
    ..RtoBounds::DEFAULT
};

/// Bounds of the tail timer in wide areas.
pub const WAN_TIMER: RtoBounds = RtoBounds {
    granularity: Span::from_ms(1),
    minimum: Span::from_ms(10),
    maximum: Span::from_secs(60),
    initial: Span::from_secs(1),
    after_lost_syn: Span::from_secs(1),
    ..RtoBounds::DEFAULT
};

impl AtpConfig {
    /// All of ATP for a datacenter: R_max `max_rate`, packets of 1460 bytes in Ethernet frames, data from class 1 on,
    /// control in class 0.
    pub fn full(max_loss: LossBound, max_rate: Rate) -> Self {
        Self {
            max_loss,
            payload: 1460,
            wire: WireFormat::ETHERNET,
            max_rate,
            data_class: TrafficClass::new(1),
            control_class: TrafficClass::new(0),
            rate_control: Some(RateControlConfig::default()),
            priorities: 6,
            priority_base: 2.0,
            backup: true,
            order: Order::Mrdf,
            loss: LossDetection::Order { threshold: 3 },
            remaining_as_priority: false,
            timer: DATACENTER_TIMER,
            reassembly_limit: u64::MAX,
            delivery_limit: None,
            sends_all: false,
        }
    }

    /// ATP_Base (section 4): line rate, retransmission in the order of sending.
    pub fn base(max_loss: LossBound, max_rate: Rate) -> Self {
        let full = Self::full(max_loss, max_rate);
        Self { rate_control: None, priorities: 1, backup: false, order: Order::Fifo, ..full }
    }

    /// Class of the backup sub-flow.
    pub(super) fn backup_class(&self) -> TrafficClass {
        self.class_of(self.priorities)
    }

    /// Class of the priority with this index, from 0.
    pub(super) fn class_of(&self, priority: u8) -> TrafficClass {
        TrafficClass::new(self.data_class.class() as u8 + priority).with_ecn(self.data_class.ecn())
    }

    /// Checks every value against its range.
    pub fn check(&self) -> Result<(), AtpConfigError> {
        let refuse = |key, why| Err(AtpConfigError { key, why });
        if self.payload == 0 || self.payload.checked_add(self.wire.header_bytes).is_none() {
            return refuse("payload", "packets carry something and stay below 65536 bytes");
        }
        if self.max_rate.bits_per_sec() == 0 {
            return refuse("rate", "must be above zero");
        }
        if self.priorities == 0 || self.priorities > 30 {
            return refuse("priorities", "must lie in 1 to 30");
        }
        if !(self.priority_base > 1.0 && self.priority_base.is_finite()) {
            return refuse("priority_base", "must be a number above 1");
        }
        let last = self.data_class.class() + usize::from(self.priorities) - usize::from(!self.backup);
        if last >= CLASSES {
            return refuse("priorities", "priorities and backup need a class each, and classes end at 31");
        }
        if self.backup && self.rate_control.is_none() {
            return refuse("backup", "needs rate control: without it nothing is left of the line rate");
        }
        if self.priorities > 1 && self.rate_control.is_none() {
            return refuse("priorities", "follow from the rate: they need rate control");
        }
        match self.loss {
            LossDetection::Order { threshold: 0 } => return refuse("reorder_threshold", "must be at least 1"),
            LossDetection::Timeout(Span::ZERO) => return refuse("rto", "must be above zero"),
            _ => {}
        }
        self.rate_control.map_or(Ok(()), |control| control.check())
    }
}

impl RateControlConfig {
    fn check(&self) -> Result<(), AtpConfigError> {
        let refuse = |key, why| Err(AtpConfigError { key, why });
        let inside = |value: f64| value > 0.0 && value < 1.0;
        if !inside(self.target_loss) {
            return refuse("target_loss", "must lie in (0, 1)");
        }
        if !(self.increase > 0.0 && self.increase <= 1.0) {
            return refuse("increase", "must lie in (0, 1]");
        }
        if !inside(self.silence_cut) {
            return refuse("silence_cut", "must lie in (0, 1)");
        }
        if self.min_window_packets == 0 {
            return refuse("min_window_packets", "must be at least 1");
        }
        if self.shared_path.is_some_and(|shared| shared.initial_window == 0) {
            return refuse("initial_window", "must be at least 1 packet");
        }
        Ok(())
    }
}

/// Which setting was refused, and why.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AtpConfigError {
    /// The setting's name in scenario files.
    pub key: &'static str,
    /// What would be correct.
    pub why: &'static str,
}

impl fmt::Display for AtpConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.key, self.why)
    }
}

impl core::error::Error for AtpConfigError {}
