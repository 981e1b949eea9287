//! A row of switches with cross traffic at each hop.

use pliant_proto::time::Span;
use serde::{Deserialize, Serialize};

use super::builder::{Builder, Size};
use super::spec::TopologyKind;
use super::spec::check_range;
use super::{LinkSpec, Topology, TopologyError};

/// With the two hosts' links 255.
const MAX_HOPS: u64 = 253;

/// For lists.
pub(super) const KIND: TopologyKind = TopologyKind {
    name: "parking-lot",
    description: "a row of switches: one long pair, and one pair per hop",
    example: r#"[topology]
kind = "parking-lot"
hops = 3
edge_link = { rate = "10Gbit/s", delay = "1us" }
bottleneck_link = { rate = "10Gbit/s", delay = "1us" }
"#,
};

/// `hops` cables join `hops + 1` switches in a row. Hosts 0 and 1 sit at the two ends; hosts `2 + 2h` and `3 + 2h` sit
/// at the two ends of hop `h`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ParkingLot {
    /// Cables between switches, 1 to 253: packets count the links they cross in an octet.
    pub hops: u32,
    /// Cable of each host.
    pub edge_link: LinkSpec,
    /// Cable between neighbouring switches.
    pub bottleneck_link: LinkSpec,
    /// Processing delay of a host, added to each direction of its link. Default 0.
    #[serde(default, with = "crate::units_serde")]
    pub host_delay: Span,
}

impl ParkingLot {
    /// Builds it.
    pub fn build(&self) -> Result<Topology, TopologyError> {
        let hops = check_range("hops", self.hops, 1..=MAX_HOPS)?;
        let edge = self.edge_link.check("edge_link")?.at_host(self.host_delay);
        let bottleneck = self.bottleneck_link.check("bottleneck_link")?;
        let size = Size { hosts: 2 + 2 * hops, switches: hops + 1, cables: 3 * hops + 2 };
        let first = 2 + 2 * self.hops;
        let mut builder = Builder::new("parking-lot", size)?.name_from(first, "switch", None);
        builder.cable(0, first, edge, 0);
        builder.cable(1, first + self.hops, edge, 0);
        for hop in 0..self.hops {
            builder.cable(2 + 2 * hop, first + hop, edge, 0);
            builder.cable(3 + 2 * hop, first + hop + 1, edge, 0);
            builder.cable(first + hop, first + hop + 1, bottleneck, 0);
        }
        builder.finish()
    }
}
