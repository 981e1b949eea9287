//! Pairs of hosts across one bottleneck.

use pliant_proto::time::Span;
use serde::{Deserialize, Serialize};

use super::builder::{Builder, Size};
use super::spec::TopologyKind;
use super::spec::check_count;
use super::{LinkSpec, Topology, TopologyError};

/// For lists.
pub(super) const KIND: TopologyKind = TopologyKind {
    name: "dumbbell",
    description: "pairs of hosts across one bottleneck",
    example: r#"[topology]
kind = "dumbbell"
pairs = 4
edge_link = { rate = "10Gbit/s", delay = "1us" }
bottleneck_link = { rate = "10Gbit/s", delay = "10us" }
"#,
};

/// Hosts `0..pairs` on the left switch, `pairs..2 * pairs` on the right one, one cable between the switches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dumbbell {
    /// Hosts on each side, 1 to 500,000.
    pub pairs: u32,
    /// Cable of each host.
    pub edge_link: LinkSpec,
    /// Cable between the switches.
    pub bottleneck_link: LinkSpec,
    /// Processing delay of a host, added to each direction of its link. Default 0.
    #[serde(default, with = "crate::units_serde")]
    pub host_delay: Span,
}

impl Dumbbell {
    /// Builds it.
    pub fn build(&self) -> Result<Topology, TopologyError> {
        let pairs = check_count("pairs", self.pairs)?;
        let edge = self.edge_link.check("edge_link")?.at_host(self.host_delay);
        let bottleneck = self.bottleneck_link.check("bottleneck_link")?;
        let size = Size { hosts: 2 * pairs, switches: 2, cables: 2 * pairs + 1 };
        let (left, right) = (2 * self.pairs, 2 * self.pairs + 1);
        let mut builder = Builder::new("dumbbell", size)?.name_from(left, "switch", None);
        for host in 0..2 * self.pairs {
            builder.cable(host, if host < self.pairs { left } else { right }, edge, 0);
        }
        builder.cable(left, right, bottleneck, 0);
        builder.finish()
    }
}
