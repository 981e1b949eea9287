//! The list of built-in controllers. It generates [`AnyController`] and [`Algorithm`].

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use core::fmt;
use core::str::FromStr;

use super::bounded::{Bounded, BoundedConfig};
use super::controller::{AckSample, Congestion, CongestionControl, EcnMode};
use super::cubic::{Cubic, CubicConfig};
use super::dctcp::{Dctcp, DctcpConfig};
use super::foreign::{Foreign, ForeignController};
use super::ledbat::{Ledbat, LedbatConfig};
use super::ledbat_plus_plus::{LedbatPlusPlus, LedbatPlusPlusConfig};
use super::reno::{Reno, RenoConfig};
use super::tcp_lp::{TcpLp, TcpLpConfig};
use super::weighted_fair::{WeightedFair, WeightedFairConfig};
use crate::contract::{Contract, Field};
use crate::settings::AnySettings;
use crate::units::Rate;

/// Settings from which a controller is made.
pub trait ControllerSettings: AnySettings {
    /// A controller before its first packet, of a flow under `contract`; `mss` is the payload of a full segment in bytes.
    /// The settings must [lie in their ranges](AnySettings::check_all).
    fn controller(&self, mss: u16, contract: &Contract) -> AnyController;
}

/// Generates from one list the enum of controllers, itself a controller, and the algorithms that users can name. It is
/// an enum because controllers live inside their flows, and a match is cheaper than a pointer to another place.
///
/// An entry is a controller, its settings, and the algorithms that use it.
macro_rules! controllers {
    ($(
        $(#[$doc:meta])* $name:ident of $config:ty => {
            $(
                $(#[$algorithm_doc:meta])*
                $algorithm:ident = $text:literal: $description:literal, honours [$($field:ident),*];
            )*
        }
    )*) => {
        /// One of the controllers.
        #[derive(Clone, Debug)]
        pub enum AnyController {
            $($(#[$doc])* $name($name),)*
            /// A controller of another crate, called through a pointer.
            Foreign(Foreign),
        }

        $(impl From<$name> for AnyController {
            fn from(controller: $name) -> Self {
                Self::$name(controller)
            }
        }

        impl ControllerSettings for $config {
            fn controller(&self, mss: u16, contract: &Contract) -> AnyController {
                let mut controller = $name::new(*self, mss);
                controller.set_weight(contract.weight);
                controller.set_min_share(contract.min_share);
                controller.set_min_rate(contract.min_rate);
                controller.into()
            }
        })*

        impl CongestionControl for AnyController {
            #[inline]
            fn on_ack(&mut self, sample: &AckSample) {
                match self {
                    $(Self::$name(controller) => controller.on_ack(sample),)*
                    Self::Foreign(controller) => controller.on_ack(sample),
                }
            }

            fn on_congestion(&mut self, event: &Congestion) {
                match self {
                    $(Self::$name(controller) => controller.on_congestion(event),)*
                    Self::Foreign(controller) => controller.on_congestion(event),
                }
            }

            fn on_lost(&mut self, bytes: u64) {
                match self {
                    $(Self::$name(controller) => controller.on_lost(bytes),)*
                    Self::Foreign(controller) => controller.on_lost(bytes),
                }
            }

            fn on_recovered(&mut self, flight: u64) {
                match self {
                    $(Self::$name(controller) => controller.on_recovered(flight),)*
                    Self::Foreign(controller) => controller.on_recovered(flight),
                }
            }

            fn on_spurious_loss(&mut self, ssthresh: u64) {
                match self {
                    $(Self::$name(controller) => controller.on_spurious_loss(ssthresh),)*
                    Self::Foreign(controller) => controller.on_spurious_loss(ssthresh),
                }
            }

            fn on_idle(&mut self) {
                match self {
                    $(Self::$name(controller) => controller.on_idle(),)*
                    Self::Foreign(controller) => controller.on_idle(),
                }
            }

            #[inline]
            fn window(&self) -> u64 {
                match self {
                    $(Self::$name(controller) => controller.window(),)*
                    Self::Foreign(controller) => controller.window(),
                }
            }

            #[inline]
            fn ssthresh(&self) -> u64 {
                match self {
                    $(Self::$name(controller) => controller.ssthresh(),)*
                    Self::Foreign(controller) => controller.ssthresh(),
                }
            }

            fn pacing_rate(&self) -> Option<Rate> {
                match self {
                    $(Self::$name(controller) => controller.pacing_rate(),)*
                    Self::Foreign(controller) => controller.pacing_rate(),
                }
            }

            fn pacing_burst(&self) -> u8 {
                match self {
                    $(Self::$name(controller) => controller.pacing_burst(),)*
                    Self::Foreign(controller) => controller.pacing_burst(),
                }
            }

            fn ecn_mode(&self) -> EcnMode {
                match self {
                    $(Self::$name(controller) => controller.ecn_mode(),)*
                    Self::Foreign(controller) => controller.ecn_mode(),
                }
            }

            fn needs_one_way_delay(&self) -> bool {
                match self {
                    $(Self::$name(controller) => controller.needs_one_way_delay(),)*
                    Self::Foreign(controller) => controller.needs_one_way_delay(),
                }
            }

            fn needs_hold_time(&self) -> bool {
                match self {
                    $(Self::$name(controller) => controller.needs_hold_time(),)*
                    Self::Foreign(controller) => controller.needs_hold_time(),
                }
            }

            fn needs_pacing(&self) -> bool {
                match self {
                    $(Self::$name(controller) => controller.needs_pacing(),)*
                    Self::Foreign(controller) => controller.needs_pacing(),
                }
            }

            fn set_hops(&mut self, hops: u8) {
                match self {
                    $(Self::$name(controller) => controller.set_hops(hops),)*
                    Self::Foreign(controller) => controller.set_hops(hops),
                }
            }

            fn marked_fraction(&self) -> Option<f64> {
                match self {
                    $(Self::$name(controller) => controller.marked_fraction(),)*
                    Self::Foreign(controller) => controller.marked_fraction(),
                }
            }

            fn set_weight(&mut self, weight: f64) {
                match self {
                    $(Self::$name(controller) => controller.set_weight(weight),)*
                    Self::Foreign(controller) => controller.set_weight(weight),
                }
            }

            fn set_min_share(&mut self, share: f64) {
                match self {
                    $(Self::$name(controller) => controller.set_min_share(share),)*
                    Self::Foreign(controller) => controller.set_min_share(share),
                }
            }

            fn set_min_rate(&mut self, rate: Rate) {
                match self {
                    $(Self::$name(controller) => controller.set_min_rate(rate),)*
                    Self::Foreign(controller) => controller.set_min_rate(rate),
                }
            }

            fn set_needed_rate(&mut self, rate: Rate) {
                match self {
                    $(Self::$name(controller) => controller.set_needed_rate(rate),)*
                    Self::Foreign(controller) => controller.set_needed_rate(rate),
                }
            }

            fn measures_gaps(&self) -> bool {
                match self {
                    $(Self::$name(controller) => controller.measures_gaps(),)*
                    Self::Foreign(controller) => controller.measures_gaps(),
                }
            }

            fn normal_rate(&self) -> Option<Rate> {
                match self {
                    $(Self::$name(controller) => controller.normal_rate(),)*
                    Self::Foreign(controller) => controller.normal_rate(),
                }
            }
        }

        /// The algorithms that users can name.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
        pub enum Algorithm {
            $($($(#[$algorithm_doc])* $algorithm,)*)*
        }

        impl Algorithm {
            /// Every algorithm.
            pub const ALL: [Self; [$($($text,)*)*].len()] = [$($(Self::$algorithm,)*)*];

            /// The name in scenario files and on the command line.
            pub const fn name(self) -> &'static str {
                match self { $($(Self::$algorithm => $text,)*)* }
            }

            /// A description of one line.
            pub const fn description(self) -> &'static str {
                match self { $($(Self::$algorithm => $description,)*)* }
            }

            /// Its controller with default settings. `mss` is the payload of a full segment in bytes. For other
            /// settings, convert a controller into [`AnyController`].
            pub fn controller(self, mss: u16) -> AnyController {
                self.settings().controller(mss, &Contract::default())
            }

            /// Its settings at their defaults.
            pub fn settings(self) -> Box<dyn ControllerSettings> {
                match self { $($(Self::$algorithm)|* => Box::new(<$config>::default()),)* }
            }

            /// The contract fields that it honours. Every sender can be limited to a rate.
            pub const fn honours(self) -> &'static [Field] {
                match self { $($(Self::$algorithm => &[$(Field::$field,)* Field::MaxRate],)*)* }
            }
        }
    };
}

controllers! {
    /// Reno and NewReno.
    Reno of RenoConfig => {
        /// `reno` (RFC 5681).
        Reno = "reno": "TCP Reno with selective acknowledgements (RFC 5681, RFC 6675)", honours [];
        /// `newreno` (RFC 6582): Reno's controller under NewReno's recovery.
        NewReno = "newreno": "TCP NewReno, without selective acknowledgements (RFC 6582)", honours [];
    }
    /// CUBIC.
    Cubic of CubicConfig => {
        /// `cubic` (RFC 9438).
        Cubic = "cubic": "TCP CUBIC, with HyStart++ if asked (RFC 9438, RFC 9406)", honours [];
    }
    /// DCTCP.
    Dctcp of DctcpConfig => {
        /// `dctcp` (RFC 8257).
        Dctcp = "dctcp": "Data Center TCP: cuts by the fraction of marks, shares by contract.weight (RFC 8257)", honours [Weight];
    }
    /// Weighted fair congestion control.
    WeightedFair of WeightedFairConfig => {
        /// `weighted-fair` (WFCC of PPUSH).
        WeightedFair = "weighted-fair":
            "weighted fair congestion control: shares a link by contract.weight (PPUSH)", honours [Weight];
    }
    /// TCP-LP.
    TcpLp of TcpLpConfig => {
        /// `tcp-lp` (INFOCOM 2003).
        TcpLp = "tcp-lp":
            "TCP Low Priority: leaves bandwidth to others when one-way delays rise (INFOCOM 2003)", honours [];
    }
    /// LEDBAT.
    Ledbat of LedbatConfig => {
        /// `ledbat` (RFC 6817).
        Ledbat = "ledbat": "background transport that holds its queueing delay at a target (RFC 6817)", honours [];
    }
    /// LEDBAT++.
    LedbatPlusPlus of LedbatPlusPlusConfig => {
        /// `ledbat++` (draft-irtf-iccrg-ledbat-plus-plus).
        LedbatPlusPlus = "ledbat++":
            "LEDBAT by round-trip times, with slowdowns in place of the latecomer's advantage", honours [];
    }
    /// Bounded degradation over one queue.
    Bounded of BoundedConfig => {
        /// `bounded` (Pliant).
        Bounded = "bounded":
            "gives way, and keeps contract.min_share of what a CUBIC flow would have (Pliant)", honours [MinShare, MinRate, DoneBy];
    }
}

impl AnyController {
    /// A controller of another crate.
    pub fn foreign(controller: impl ForeignController + 'static) -> Self {
        Self::Foreign(Foreign::new(Box::new(controller)))
    }
}

impl Algorithm {
    /// Whether its flows give way to all others (RFC 6297). Such flows have no fair share of a link that a bound could
    /// keep.
    pub const fn is_less_than_best_effort(self) -> bool {
        matches!(self, Self::TcpLp | Self::Ledbat | Self::LedbatPlusPlus)
    }

    /// Whether it keeps `min_share` by itself. Others of TCP's family use REFLEX, which needs a second traffic class.
    pub fn keeps_min_share(self) -> bool {
        self.honours().contains(&Field::MinShare)
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
