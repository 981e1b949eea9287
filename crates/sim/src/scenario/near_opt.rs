//! The tables `oracle` and `traffic.NAME.near_opt`.

use pliant_proto::recovery::rtt::RtoBounds;
use pliant_proto::time::Span;
use serde::{Deserialize, Serialize};

use super::queues::KeyError;
use crate::units_serde;

/// Intervals of the oracle; below, one packet more or less in an interval would decide.
const INTERVALS: std::ops::RangeInclusive<Span> = Span::from_us(10)..=Span::from_secs(1);

/// What the transport `near-opt` is told, and when.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OracleSpec {
    /// How often every link computes the rate that it offers, 10 us to 1 s. Default: `"25us"`, a link delay of the
    /// paper's network.
    #[serde(with = "units_serde")]
    pub interval: Span,
}

impl Default for OracleSpec {
    fn default() -> Self {
        Self { interval: Span::from_us(25) }
    }
}

impl OracleSpec {
    /// Checks every range.
    pub(super) fn check(self) -> Result<(), KeyError> {
        let refuse = |key: &str, why: &str| Err((key.to_owned(), why.to_owned()));
        if INTERVALS.contains(&self.interval) { Ok(()) } else { refuse("interval", "must be between 10us and 1s") }
    }
}

/// Settings of the transport `near-opt`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NearOptSpec {
    /// Least time after which the oracle is asked about an unacknowledged packet, at most 60 s. Default: `"1ms"`.
    #[serde(with = "units_serde")]
    pub min_rto: Span,
    /// The same before the first round-trip time, above 0s. Default: `"10ms"`.
    #[serde(with = "units_serde")]
    pub initial_rto: Span,
}

impl Default for NearOptSpec {
    fn default() -> Self {
        let RtoBounds { minimum, initial, .. } = RtoBounds::default();
        Self { min_rto: minimum, initial_rto: initial }
    }
}

impl NearOptSpec {
    /// Checks every range.
    pub(super) fn check(&self) -> Result<(), KeyError> {
        let refuse = |key: &str, why: &str| Err((format!("near_opt.{key}"), why.to_owned()));
        if self.min_rto > RtoBounds::default().maximum {
            return refuse("min_rto", "must be at most 60s");
        }
        if self.initial_rto == Span::ZERO {
            return refuse("initial_rto", "must be longer than 0s");
        }
        Ok(())
    }

    /// Bounds of the retransmission timeout.
    pub(crate) fn rto(&self) -> RtoBounds {
        RtoBounds { minimum: self.min_rto, initial: self.initial_rto, ..RtoBounds::default() }
    }
}
