//! Two tiers: every leaf connects to every spine.

use pliant_proto::time::Span;
use serde::{Deserialize, Serialize};

use super::builder::{Builder, Size};
use super::spec::TopologyKind;
use super::spec::check_count;
use super::{LinkSpec, Topology, TopologyError};

/// For lists.
pub(super) const KIND: TopologyKind = TopologyKind {
    name: "leaf-spine",
    description: "two tiers: every leaf connects to every spine",
    example: r#"[topology]
kind = "leaf-spine"
leaves = 4
spines = 2
hosts_per_leaf = 8
host_link = { rate = "10Gbit/s", delay = "1us" }
fabric_link = { rate = "40Gbit/s", delay = "1us" }
"#,
};

/// Host `h` sits at leaf `h / hosts_per_leaf`; with two leaves per host at both leaves of that pair.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LeafSpine {
    /// Edge switches, 1 to 1,000,000.
    pub leaves: u32,
    /// Switches above them, 1 to 1,000,000.
    pub spines: u32,
    /// Hosts on each leaf, 1 to 1,000,000.
    pub hosts_per_leaf: u32,
    /// Leaves that each host has a link to: `leaves` is a multiple of it. 2 for dual-homed hosts. Default: 1.
    #[serde(default = "one")]
    pub leaves_per_host: u32,
    /// Cables between each leaf and each spine. Default: 1.
    #[serde(default = "one")]
    pub cables: u32,
    /// Cable of each host.
    pub host_link: LinkSpec,
    /// Cable from a leaf to a spine. Default: like `host_link`.
    pub fabric_link: Option<LinkSpec>,
    /// Processing delay of a host, added to each direction of its link. Default 0.
    #[serde(default, with = "crate::units_serde")]
    pub host_delay: Span,
}

fn one() -> u32 {
    1
}

impl LeafSpine {
    /// Builds it.
    pub fn build(&self) -> Result<Topology, TopologyError> {
        let leaves = check_count("leaves", self.leaves)?;
        let spines = check_count("spines", self.spines)?;
        let homes = check_count("leaves_per_host", self.leaves_per_host)?;
        let cables = check_count("cables", self.cables)?;
        if leaves % homes != 0 {
            let reason = "so that each host has as many leaves";
            return Err(TopologyError::NotMultiple { key: "leaves", value: leaves, divisor: homes, reason });
        }
        let links = leaves * check_count("hosts_per_leaf", self.hosts_per_leaf)?;
        let hosts = links / homes;
        let host_link = self.host_link.check("host_link")?;
        let fabric_link = self.fabric_link.unwrap_or(host_link).check("fabric_link")?;
        let between = (leaves * spines).saturating_mul(cables);
        let size = Size { hosts, switches: leaves + spines, cables: links.saturating_add(between) };
        let builder = Builder::new("leaf-spine", size)?;
        let first_leaf = hosts as u32;
        let first_spine = first_leaf + self.leaves;
        let mut builder = builder.name_from(first_leaf, "leaf", None).name_from(first_spine, "spine", None);
        if homes > 1 || cables > 1 {
            builder = builder.unlayered();
        }
        for host in 0..first_leaf {
            let leaf = first_leaf + host / self.hosts_per_leaf * self.leaves_per_host;
            for home in 0..self.leaves_per_host {
                builder.cable(host, leaf + home, host_link.at_host(self.host_delay), 0);
            }
        }
        for leaf in 0..self.leaves {
            for spine in 0..self.spines {
                for _ in 0..self.cables {
                    builder.cable(first_leaf + leaf, first_spine + spine, fabric_link, spine);
                }
            }
        }
        builder.finish()
    }
}
