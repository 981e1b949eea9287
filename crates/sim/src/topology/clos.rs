//! Three tiers with pods, of any sizes.

use pliant_proto::time::Span;
use serde::{Deserialize, Serialize};

use super::builder::{Builder, Size};
use super::spec::TopologyKind;
use super::spec::check_count;
use super::{LinkSpec, Topology, TopologyError};

/// For lists.
pub(super) const KIND: TopologyKind = TopologyKind {
    name: "clos",
    description: "three tiers with pods, of any sizes",
    example: r#"[topology]
kind = "clos"
pods = 4
racks_per_pod = 2
aggs_per_pod = 2
hosts_per_rack = 6
cores = 4
host_link = { rate = "10Gbit/s", delay = "1us" }
"#,
};

/// Every rack connects to every aggregation switch of its pod; core `c` connects to aggregation switch
/// `c % aggs_per_pod` of every pod. Oversubscription follows from the sizes.
///
/// FlexPass's network (EuroSys 2023, section 6.2): 8 pods of 4 racks and 2 aggregation switches, 6 hosts per rack,
/// 8 cores, all links 40 Gbit/s: 192 hosts, 3:1 at the racks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Clos {
    /// Pods, 1 to 1,000,000.
    pub pods: u32,
    /// Edge switches in a pod, 1 to 1,000,000.
    pub racks_per_pod: u32,
    /// Aggregation switches in a pod, 1 to 1,000,000.
    pub aggs_per_pod: u32,
    /// Hosts on each edge switch, 1 to 1,000,000.
    pub hosts_per_rack: u32,
    /// Core switches: a multiple of `aggs_per_pod`, up to 1,000,000.
    pub cores: u32,
    /// Cable of each host.
    pub host_link: LinkSpec,
    /// Cable from an edge to an aggregation switch. Default: like `host_link`.
    pub fabric_link: Option<LinkSpec>,
    /// Cable from an aggregation to a core switch. Default: like `fabric_link`.
    pub core_link: Option<LinkSpec>,
    /// Processing delay of a host, added to each direction of its link. Default 0.
    #[serde(default, with = "crate::units_serde")]
    pub host_delay: Span,
}

impl Clos {
    /// Builds it.
    pub fn build(&self) -> Result<Topology, TopologyError> {
        self.build_as("clos")
    }

    pub(super) fn build_as(&self, kind: &'static str) -> Result<Topology, TopologyError> {
        let size = self.checked_size()?;
        let host_link = self.host_link.check("host_link")?;
        let fabric_link = self.fabric_link.unwrap_or(host_link).check("fabric_link")?;
        let core_link = self.core_link.unwrap_or(fabric_link).check("core_link")?;
        let builder = Builder::new(kind, size)?;
        let racks = self.pods * self.racks_per_pod;
        let first_rack = racks * self.hosts_per_rack;
        let first_agg = first_rack + racks;
        let first_core = first_agg + self.pods * self.aggs_per_pod;
        let mut builder = builder
            .name_from(first_rack, "tor", Some(self.racks_per_pod))
            .name_from(first_agg, "agg", Some(self.aggs_per_pod))
            .name_from(first_core, "core", None);
        for host in 0..first_rack {
            builder.cable(host, first_rack + host / self.hosts_per_rack, host_link.at_host(self.host_delay), 0);
        }
        for rack in 0..racks {
            for agg in 0..self.aggs_per_pod {
                let pod = rack / self.racks_per_pod;
                builder.cable(first_rack + rack, first_agg + pod * self.aggs_per_pod + agg, fabric_link, agg);
            }
        }
        for pod in 0..self.pods {
            for core in 0..self.cores {
                let agg = first_agg + pod * self.aggs_per_pod + core % self.aggs_per_pod;
                builder.cable(agg, first_core + core, core_link, core);
            }
        }
        builder.finish()
    }

    fn checked_size(&self) -> Result<Size, TopologyError> {
        let pods = check_count("pods", self.pods)?;
        let racks = pods * check_count("racks_per_pod", self.racks_per_pod)?;
        let aggs_per_pod = check_count("aggs_per_pod", self.aggs_per_pod)?;
        let cores = check_count("cores", self.cores)?;
        if cores % aggs_per_pod != 0 {
            let reason = "the aggregation switches of a pod, which share the cores evenly";
            return Err(TopologyError::NotMultiple { key: "cores", value: cores, divisor: aggs_per_pod, reason });
        }
        // Each factor is at most a million, so products of three fit.
        let hosts = racks * check_count("hosts_per_rack", self.hosts_per_rack)?;
        Ok(Size {
            hosts,
            switches: racks + pods * aggs_per_pod + cores,
            cables: hosts + racks * aggs_per_pod + pods * cores,
        })
    }
}
