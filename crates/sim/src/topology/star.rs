//! Hosts around one switch.

use pliant_proto::time::Span;
use serde::{Deserialize, Serialize};

use super::builder::{Builder, Size};
use super::spec::TopologyKind;
use super::spec::check_range;
use super::{LinkSpec, MAX_HOSTS, Topology, TopologyError};

/// For lists.
pub(super) const KIND: TopologyKind = TopologyKind {
    name: "star",
    description: "hosts around one switch",
    example: r#"[topology]
kind = "star"
hosts = 40
link = { rate = "10Gbit/s", delay = "10us" }
"#,
};

/// `hosts` hosts on one switch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Star {
    /// Number of hosts, 2 to 1,000,000.
    pub hosts: u32,
    /// Cable of each host.
    pub link: LinkSpec,
    /// Processing delay of a host, added to each direction of its link. Default 0.
    #[serde(default, with = "crate::units_serde")]
    pub host_delay: Span,
}

impl Star {
    /// Builds it.
    pub fn build(&self) -> Result<Topology, TopologyError> {
        let hosts = check_range("hosts", self.hosts, 2..=MAX_HOSTS)?;
        let link = self.link.check("link")?.at_host(self.host_delay);
        let mut builder =
            Builder::new("star", Size { hosts, switches: 1, cables: hosts })?.name_from(self.hosts, "switch", None);
        for host in 0..self.hosts {
            builder.cable(host, self.hosts, link, 0);
        }
        builder.finish()
    }
}
