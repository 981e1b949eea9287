//! The `topology` table of a scenario file.

use std::ops::RangeInclusive;

use pliant_proto::time::Span;
use pliant_proto::units::Rate;
use serde::{Deserialize, Serialize};

use super::{MAX_HOSTS, TopologyError};

/// A topology that scenarios can name.
#[derive(Clone, Copy, Debug)]
pub struct TopologyKind {
    /// Its name: the value of `kind`.
    pub name: &'static str,
    /// What it is, in a line.
    pub description: &'static str,
    /// A table `topology` to copy.
    pub example: &'static str,
}

/// A kind of cable: `{ rate = "10Gbit/s", delay = "1us" }`. Both directions are alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkSpec {
    /// Transmission rate of each direction; above zero.
    #[serde(with = "crate::units_serde")]
    pub rate: Rate,
    /// Propagation delay of each direction; switch processing may be added here.
    #[serde(with = "crate::units_serde")]
    pub delay: Span,
}

impl LinkSpec {
    /// Refuses a rate of zero, naming `key`.
    pub(super) fn check(self, key: &'static str) -> Result<Self, TopologyError> {
        if self.rate.bits_per_sec() == 0 { Err(TopologyError::ZeroRate { key }) } else { Ok(self) }
    }

    /// The same cable at a host that takes `host_delay` to process a packet.
    pub(super) fn at_host(self, host_delay: Span) -> Self {
        Self { delay: self.delay.plus(host_delay), ..self }
    }
}

/// Refuses a `value` outside `range`, naming `key`.
pub(super) fn check_range(key: &'static str, value: u32, range: RangeInclusive<u64>) -> Result<u64, TopologyError> {
    let value = u64::from(value);
    if range.contains(&value) {
        Ok(value)
    } else {
        Err(TopologyError::OutOfRange { key, value, minimum: *range.start(), maximum: *range.end() })
    }
}

/// Refuses a count of zero or beyond any topology, naming `key`.
pub(super) fn check_count(key: &'static str, value: u32) -> Result<u64, TopologyError> {
    check_range(key, value, 1..=MAX_HOSTS)
}
