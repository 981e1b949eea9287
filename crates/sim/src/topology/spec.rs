//! The `topology` table of a scenario file.

use std::ops::RangeInclusive;
use std::path::Path;

use pliant_proto::time::Span;
use pliant_proto::units::Rate;
use serde::{Deserialize, Serialize};

use super::{B4, Clos, Dumbbell, EdgeList, FatTree, LeafSpine, MAX_HOSTS, ParkingLot, Star, Topology, TopologyError};

/// Which topology, and its sizes: the table `topology` of a scenario, told apart by `kind`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum TopologySpec {
    /// Pairs of hosts across one bottleneck.
    Dumbbell(Dumbbell),
    /// Hosts around one switch: "one big switch".
    #[serde(alias = "one-big-switch")]
    Star(Star),
    /// A row of switches, one long pair and one pair per hop.
    ParkingLot(ParkingLot),
    /// Two tiers: every leaf connects to every spine.
    LeafSpine(LeafSpine),
    /// Three tiers of equal k-port switches, nowhere oversubscribed.
    FatTree(FatTree),
    /// Three tiers with pods, of any sizes.
    Clos(Clos),
    /// Google's wide-area network, as far as it is known.
    B4(B4),
    /// Cables listed in a CSV file.
    EdgeList(EdgeList),
}

impl TopologySpec {
    /// Builds the topology; file names are relative to `base_dir`.
    pub fn build(&self, base_dir: &Path) -> Result<Topology, TopologyError> {
        match self {
            Self::Dumbbell(spec) => spec.build(),
            Self::Star(spec) => spec.build(),
            Self::ParkingLot(spec) => spec.build(),
            Self::LeafSpine(spec) => spec.build(),
            Self::FatTree(spec) => spec.build(),
            Self::Clos(spec) => spec.build(),
            Self::B4(spec) => spec.build(),
            Self::EdgeList(spec) => spec.build(base_dir),
        }
    }
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
