//! Settings of `bounded` with two classes.

use core::fmt;

use crate::packet::{Ecn, TrafficClass, WireFormat};
use crate::recovery::rtt::RtoBounds;
use crate::time::Span;
use crate::transport::flex_pass::{Reactive, Window};
use crate::units::Rate;

/// How far a flow goes to keep its promise.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Bounds {
    /// How far above the promised share the flow aims, from 0. Default 0.1.
    pub margin: f64,
    /// The fraction of what the flow can still earn that it may owe, from 0 to 1. Default 0.5.
    pub debt: f64,
    /// Greatest rate of the guarantee and the scavenger together while they pay back, in fair rates, from 1. Default
    /// 1.5.
    pub greatest_share: f64,
    /// Greatest rate of the guarantee, relative to a DCTCP flow that joins the high class now, above 0. Default 1.5.
    pub greatest_weight: f64,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { margin: 0.1, debt: 0.5, greatest_share: 1.5, greatest_weight: 1.5 }
    }
}

impl Bounds {
    /// For a flow that knows its fair rate: it needs less margin, and may take more to be at it. They meet the goals of
    /// `experiments/bounded/two_class_1.toml`.
    pub const OF_KNOWN_RATE: Self = Self { margin: 0.03, debt: 0.9, greatest_share: 3.0, greatest_weight: 8.0 };

    fn is_sound(&self) -> bool {
        (0.0..=1.0).contains(&self.margin)
            && (0.0..=1.0).contains(&self.debt)
            && self.greatest_share >= 1.0
            && self.greatest_weight > 0.0
            && self.greatest_share.is_finite()
            && self.greatest_weight.is_finite()
    }
}

/// Settings that flows share; many flows share one.
#[derive(Clone, PartialEq, Debug)]
pub struct TwoClassConfig {
    /// Payload bytes of a full packet. Default 1460.
    pub mss: u16,
    /// Bytes around a payload.
    pub wire: WireFormat,
    /// The scavenger: its class, which is the low one, and its timeouts.
    pub scavenger: Reactive,
    /// The guarantee: its class, which is the high one, and its timeouts.
    pub guarantee: Reactive,
    /// Class of acknowledgements.
    pub ack_class: TrafficClass,
    /// Packets of the scavenger that one acknowledgement answers, from 1. Default 2.
    pub ack_every: u8,
    /// Longest delay of an acknowledgement. Default 500 us.
    pub max_ack_delay: Span,
    /// Most bytes that the receiver keeps beyond the next expected one, at least one packet. Default: no limit.
    pub reorder_buffer: Option<u64>,
    /// Interval for the ledger and the choice of the guarantee's rate. It is longer if a round trip, or the gap between
    /// two packets of the guarantee, is longer. Default 1 ms.
    pub interval: Span,
    /// Least rate of the guarantee, as a fraction of the line's, above 0. Default 0.01.
    pub trickle: f64,
    /// How far it goes to keep its promise.
    pub bounds: Bounds,
    /// What holds in place of these while hosts tell the fair rate. Default: the same.
    pub bounds_when_told: Option<Bounds>,
    /// Time in which debt beyond what it may owe is paid back, above 0. Default 10 ms.
    pub catch_up: Span,
    /// Largest growth of the guarantee's rate in an interval, as a factor above 1. Default 1.3.
    pub growth: f64,
    /// How long a packet waits that finds its queue at the marking threshold while its class has the line alone, above
    /// 0. Default: the flow measures it.
    pub marked_wait: Option<Span>,
}

impl TwoClassConfig {
    /// A sub-flow in `class`, marked rather than dropped.
    pub fn subflow(class: TrafficClass, rto: RtoBounds) -> Reactive {
        Reactive::Window(Window { class: class.with_ecn(Ecn::Ect0), rto, ..Window::default() })
    }

    /// Bytes of payload per second at a rate on the wire.
    pub(super) fn payload_rate(&self, on_the_wire: Rate) -> f64 {
        let payload = f64::from(self.mss) / f64::from(self.wire.wire_bytes(self.mss));
        on_the_wire.bytes_per_sec_f64() * payload
    }

    /// What holds while hosts tell the fair rate, or do not.
    pub(super) fn bounds_if(&self, told: bool) -> Bounds {
        self.bounds_when_told.filter(|_| told).unwrap_or(self.bounds)
    }

    /// The class of a sub-flow.
    pub(super) fn class_of(subflow: &Reactive) -> TrafficClass {
        match subflow {
            Reactive::Window(window) => window.class,
            Reactive::Burst { class, .. } => *class,
        }
    }
}

impl Default for TwoClassConfig {
    fn default() -> Self {
        Self {
            mss: 1460,
            wire: WireFormat::ETHERNET,
            scavenger: Self::subflow(TrafficClass::new(1), RtoBounds::default()),
            guarantee: Self::subflow(TrafficClass::new(0), RtoBounds::default()),
            ack_class: TrafficClass::new(0),
            ack_every: 2,
            max_ack_delay: Span::from_us(500),
            reorder_buffer: None,
            interval: Span::from_ms(1),
            trickle: 0.01,
            bounds: Bounds::default(),
            bounds_when_told: None,
            catch_up: Span::from_ms(10),
            growth: 1.3,
            marked_wait: None,
        }
    }
}

/// Why a configuration was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TwoClassConfigError {
    /// `mss` is zero.
    Mss,
    /// `ack_every` is zero.
    AckEvery,
    /// Both sub-flows are in one class, or one of them is a burst.
    Classes,
    /// The least timeout exceeds the greatest, or the first is zero.
    Rto,
    /// `reorder_buffer` holds no packet.
    Buffer,
    /// `interval`, `catch_up` or `marked_wait` is zero.
    Spans,
    /// `trickle`, `margin`, `debt`, `greatest_share`, `greatest_weight` or `growth` is out of its range.
    Shares,
}

impl fmt::Display for TwoClassConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Mss => "mss must be at least 1",
            Self::AckEvery => "ack_every must be at least 1",
            Self::Classes => "the scavenger and the guarantee must be windows in two classes",
            Self::Rto => "rto.minimum must not exceed rto.maximum, and rto.initial must not be 0s",
            Self::Buffer => "reorder_buffer must hold a packet",
            Self::Spans => "interval, catch_up and marked_wait must not be 0s",
            Self::Shares => {
                "trickle must lie in (0, 1], margin in [0, 1], debt in [0, 1], greatest_share must be at least 1, \
                 greatest_weight above 0, and growth above 1"
            }
        })
    }
}

impl core::error::Error for TwoClassConfigError {}

impl TwoClassConfig {
    /// Checks every range.
    pub fn check(&self) -> Result<(), TwoClassConfigError> {
        let require = |holds: bool, error| if holds { Ok(()) } else { Err(error) };
        require(self.mss > 0, TwoClassConfigError::Mss)?;
        require(self.ack_every > 0, TwoClassConfigError::AckEvery)?;
        let (Reactive::Window(low), Reactive::Window(high)) = (&self.scavenger, &self.guarantee) else {
            return Err(TwoClassConfigError::Classes);
        };
        require(low.class.class() != high.class.class(), TwoClassConfigError::Classes)?;
        let sound = |rto: &RtoBounds| rto.minimum <= rto.maximum && rto.initial > Span::ZERO;
        require(sound(&low.rto) && sound(&high.rto), TwoClassConfigError::Rto)?;
        let holds_packet = |bytes: u64| bytes >= u64::from(self.mss);
        require(self.reorder_buffer.is_none_or(holds_packet), TwoClassConfigError::Buffer)?;
        let spans = [Some(self.interval), Some(self.catch_up), self.marked_wait];
        require(spans.iter().flatten().all(|span| *span > Span::ZERO), TwoClassConfigError::Spans)?;
        let shares = self.trickle > 0.0
            && self.trickle <= 1.0
            && self.growth > 1.0
            && self.growth.is_finite()
            && [true, false].iter().all(|told| self.bounds_if(*told).is_sound());
        require(shares, TwoClassConfigError::Shares)
    }
}
