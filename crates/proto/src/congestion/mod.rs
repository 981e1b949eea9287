//! Congestion controllers: they compute a window, and nothing else.
//!
//! Loss detection, retransmission and the ECN echo belong to the transport ([`crate::transport::tcp`]); a controller
//! hears of acknowledgements and congestion and answers how many bytes may be in flight. One file per controller; a
//! new one is its file, a line in the list of [`AnyController`] and a name in [`Algorithm`].

pub mod cubic;
pub mod dctcp;
pub mod delay_history;
pub mod hystart;
pub mod ledbat;
pub mod ledbat_plus_plus;
pub mod reno;
pub mod tcp_lp;
#[cfg(test)]
mod tests;
pub mod weighted_fair;

use alloc::string::{String, ToString};
use core::fmt;
use core::str::FromStr;

use self::cubic::{Cubic, CubicConfig};
use self::dctcp::{Dctcp, DctcpConfig};
use self::ledbat::{Ledbat, LedbatConfig};
use self::ledbat_plus_plus::{LedbatPlusPlus, LedbatPlusPlusConfig};
use self::reno::{Reno, RenoConfig};
use self::tcp_lp::{TcpLp, TcpLpConfig};
use self::weighted_fair::{WeightedFair, WeightedFairConfig};
use crate::contract::Field;
use crate::time::{Instant, OneWayDelay, Span};

/// What one acknowledgement told, after the transport has worked out its meaning.
#[derive(Clone, Copy, Debug)]
pub struct AckSample {
    /// When it arrived.
    pub now: Instant,
    /// Bytes newly acknowledged in sequence; zero for a duplicate.
    pub acked: u64,
    /// First byte not yet acknowledged, after this acknowledgement (SND.UNA).
    pub unacked: u64,
    /// Next new byte to be sent (SND.NXT).
    pub next: u64,
    /// Bytes in flight before this acknowledgement was processed.
    pub flight: u64,
    /// Whether it echoes congestion (ECE).
    pub ece: bool,
    /// Round-trip time it measured, if it measured one.
    pub rtt: Option<Span>,
    /// One-way delay that it reports: of the latest data packet to arrive before it was sent.
    pub delay: Option<OneWayDelay>,
    /// Smoothed round-trip time (RFC 6298), [`Span::ZERO`] before the first sample.
    pub smoothed_rtt: Span,
    /// Whether the window limited the sender before this acknowledgement: only then may it grow (RFC 7661's concern).
    pub window_limited: bool,
    /// Whether the sender is repairing a loss: windows do not grow then.
    pub in_recovery: bool,
}

/// Why the window must shrink.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// A packet was lost and is being retransmitted.
    Loss,
    /// A packet was marked; reported at most once per window of data.
    Ecn,
    /// The retransmission timer expired.
    Timeout,
}

/// A congestion event.
#[derive(Clone, Copy, Debug)]
pub struct Congestion {
    /// When it was noticed.
    pub now: Instant,
    /// Why.
    pub cause: Cause,
    /// Bytes in flight when it was noticed, those sent by limited transmit excluded.
    pub flight: u64,
    /// First byte not yet acknowledged (SND.UNA).
    pub unacked: u64,
    /// Next new byte to be sent (SND.NXT).
    pub next: u64,
    /// For a timeout: whether the segment times out for the first time. ssthresh is set only then (RFC 5681).
    pub first: bool,
}

/// How a transport must treat ECN for a controller.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum EcnMode {
    /// Sends Not-ECT.
    #[default]
    Off,
    /// RFC 3168: the receiver latches ECE until CWR; retransmissions are Not-ECT.
    Classic,
    /// RFC 8257: the receiver echoes each mark; every packet is ECT.
    Accurate,
}

/// A congestion controller of one flow.
///
/// The transport calls [`on_ack`](Self::on_ack) for every acknowledgement first and then, if it told of congestion,
/// [`on_congestion`](Self::on_congestion). Windows are in bytes.
pub trait CongestionControl {
    /// An acknowledgement arrived.
    fn on_ack(&mut self, sample: &AckSample);

    /// Congestion was noticed.
    fn on_congestion(&mut self, event: &Congestion);

    /// The transport takes these bytes for lost. Congestion is reported apart from it, once per recovery.
    fn on_lost(&mut self, _bytes: u64) {}

    /// Loss recovery ended with `flight` bytes in flight (RFC 6582 full acknowledgement).
    fn on_recovered(&mut self, _flight: u64) {}

    /// The sender was idle for longer than one RTO (RFC 5681 section 4.1).
    fn on_idle(&mut self) {}

    /// Bytes that may be in flight (cwnd).
    fn window(&self) -> u64;

    /// Slow start ends at this window (ssthresh); `u64::MAX` before any congestion.
    fn ssthresh(&self) -> u64;

    /// How the transport treats ECN for this controller, unless its configuration says otherwise.
    fn ecn_mode(&self) -> EcnMode;

    /// Whether the transport must measure one-way delays for this controller.
    fn needs_one_way_delay(&self) -> bool {
        false
    }

    /// Estimated fraction of marked bytes, in [0, 1]; `None` of controllers that estimate none.
    fn marked_fraction(&self) -> Option<f64> {
        None
    }

    /// Changes the flow's weight while it runs; controllers without a weight ignore it.
    fn set_weight(&mut self, _weight: f64) {}
}

/// Makes an enum of controllers that is one itself. An enum, because controllers live inside their flows and a match
/// is cheaper than a pointer to somewhere else.
macro_rules! any_controller {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// One of the controllers.
        #[derive(Clone, Copy, PartialEq, Debug)]
        pub enum AnyController {
            $($(#[$doc])* $name($name),)*
        }

        $(impl From<$name> for AnyController {
            fn from(controller: $name) -> Self {
                Self::$name(controller)
            }
        })*

        impl CongestionControl for AnyController {
            #[inline]
            fn on_ack(&mut self, sample: &AckSample) {
                match self { $(Self::$name(controller) => controller.on_ack(sample),)* }
            }

            fn on_congestion(&mut self, event: &Congestion) {
                match self { $(Self::$name(controller) => controller.on_congestion(event),)* }
            }

            fn on_lost(&mut self, bytes: u64) {
                match self { $(Self::$name(controller) => controller.on_lost(bytes),)* }
            }

            fn on_recovered(&mut self, flight: u64) {
                match self { $(Self::$name(controller) => controller.on_recovered(flight),)* }
            }

            fn on_idle(&mut self) {
                match self { $(Self::$name(controller) => controller.on_idle(),)* }
            }

            #[inline]
            fn window(&self) -> u64 {
                match self { $(Self::$name(controller) => controller.window(),)* }
            }

            #[inline]
            fn ssthresh(&self) -> u64 {
                match self { $(Self::$name(controller) => controller.ssthresh(),)* }
            }

            fn ecn_mode(&self) -> EcnMode {
                match self { $(Self::$name(controller) => controller.ecn_mode(),)* }
            }

            fn needs_one_way_delay(&self) -> bool {
                match self { $(Self::$name(controller) => controller.needs_one_way_delay(),)* }
            }

            fn marked_fraction(&self) -> Option<f64> {
                match self { $(Self::$name(controller) => controller.marked_fraction(),)* }
            }

            fn set_weight(&mut self, weight: f64) {
                match self { $(Self::$name(controller) => controller.set_weight(weight),)* }
            }
        }
    };
}

any_controller! {
    /// Reno and NewReno.
    Reno,
    /// CUBIC.
    Cubic,
    /// DCTCP.
    Dctcp,
    /// Weighted fair congestion control.
    WeightedFair,
    /// TCP-LP.
    TcpLp,
    /// LEDBAT.
    Ledbat,
    /// LEDBAT++.
    LedbatPlusPlus,
}

/// The algorithms that users can name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Algorithm {
    /// `reno` (RFC 5681).
    Reno,
    /// `newreno` (RFC 6582): Reno's controller under NewReno's recovery.
    NewReno,
    /// `cubic` (RFC 9438).
    Cubic,
    /// `dctcp` (RFC 8257).
    Dctcp,
    /// `weighted-fair` (WFCC of PPUSH).
    WeightedFair,
    /// `tcp-lp` (INFOCOM 2003).
    TcpLp,
    /// `ledbat` (RFC 6817).
    Ledbat,
    /// `ledbat++` (draft-irtf-iccrg-ledbat-plus-plus).
    LedbatPlusPlus,
}

impl Algorithm {
    /// Every algorithm.
    pub const ALL: [Self; 8] = [
        Self::Reno,
        Self::NewReno,
        Self::Cubic,
        Self::Dctcp,
        Self::WeightedFair,
        Self::TcpLp,
        Self::Ledbat,
        Self::LedbatPlusPlus,
    ];

    /// The name in scenario files and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reno => "reno",
            Self::NewReno => "newreno",
            Self::Cubic => "cubic",
            Self::Dctcp => "dctcp",
            Self::WeightedFair => "weighted-fair",
            Self::TcpLp => "tcp-lp",
            Self::Ledbat => "ledbat",
            Self::LedbatPlusPlus => "ledbat++",
        }
    }

    /// Its controller with default knobs; `mss` is the payload of a full segment in bytes. For other knobs convert a
    /// controller into [`AnyController`].
    pub fn controller(self, mss: u16) -> AnyController {
        match self {
            Self::Reno | Self::NewReno => Reno::new(RenoConfig::default(), mss).into(),
            Self::Cubic => Cubic::new(CubicConfig::default(), mss).into(),
            Self::Dctcp => Dctcp::new(DctcpConfig::default(), mss).into(),
            Self::WeightedFair => WeightedFair::new(WeightedFairConfig::default(), mss).into(),
            Self::TcpLp => TcpLp::new(TcpLpConfig::default(), mss).into(),
            Self::Ledbat => Ledbat::new(LedbatConfig::default(), mss).into(),
            Self::LedbatPlusPlus => LedbatPlusPlus::new(LedbatPlusPlusConfig::default(), mss).into(),
        }
    }

    /// The contract fields that it honours.
    pub const fn honours(self) -> &'static [Field] {
        match self {
            Self::WeightedFair => &[Field::Weight],
            _ => &[],
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// No algorithm has this name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownAlgorithm(String);

impl fmt::Display for UnknownAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\" is no congestion control; known are", self.0)?;
        Algorithm::ALL.iter().enumerate().try_for_each(|(i, algorithm)| {
            let separator = if i == 0 { " " } else { ", " };
            write!(f, "{separator}{algorithm}")
        })
    }
}

impl core::error::Error for UnknownAlgorithm {}

impl FromStr for Algorithm {
    type Err = UnknownAlgorithm;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|algorithm| algorithm.name() == name);
        found.ok_or_else(|| UnknownAlgorithm(name.to_string()))
    }
}
