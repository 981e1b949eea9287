//! The fat-tree of k-port switches (Al-Fares, Loukissas, Vahdat, SIGCOMM 2008).

use pliant_proto::time::Span;
use serde::{Deserialize, Serialize};

use super::spec::TopologyKind;
use super::spec::check_range;
use super::{Clos, LinkSpec, Topology, TopologyError};

/// For lists.
pub(super) const KIND: TopologyKind = TopologyKind {
    name: "fat-tree",
    description: "three tiers of equal k-port switches, nowhere oversubscribed",
    example: r#"[topology]
kind = "fat-tree"
k = 8
link = { rate = "10Gbit/s", delay = "1us" }
"#,
};

/// k³/4 hosts, k pods of k/2 edge and k/2 aggregation switches, k²/4 core switches; all links alike.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FatTree {
    /// Ports of every switch: even, 2 to 158.
    pub k: u32,
    /// Every cable.
    pub link: LinkSpec,
    /// Processing delay of a host, added to each direction of its link. Default 0.
    #[serde(default, with = "crate::units_serde")]
    pub host_delay: Span,
}

impl FatTree {
    /// Builds it.
    pub fn build(&self) -> Result<Topology, TopologyError> {
        let k = check_range("k", self.k, 2..=158)?;
        if k % 2 != 0 {
            return Err(TopologyError::NotMultiple {
                key: "k",
                value: k,
                divisor: 2,
                reason: "half of a switch's ports face up",
            });
        }
        let half = self.k / 2;
        let clos = Clos {
            pods: self.k,
            racks_per_pod: half,
            aggs_per_pod: half,
            hosts_per_rack: half,
            cores: half * half,
            host_link: self.link.check("link")?,
            fabric_link: None,
            core_link: None,
            host_delay: self.host_delay,
        };
        clos.build_as("fat-tree")
    }
}
