//! Google's wide-area network between data centers, B4 (Jain et al., SIGCOMM 2013), as PPUSH uses it.
//!
//! PPUSH counts 18 sites and 42 links on 4 continents. A public tracing of the published map has these 18 sites and 40 of
//! the links; the other two are not known and not here.

use pliant_proto::time::Span;
use pliant_proto::units::Rate;
use serde::{Deserialize, Serialize};

use super::builder::{Builder, Size};
use super::spec::TopologyKind;
use super::spec::check_count;
use super::{LinkSpec, Topology, TopologyError};

/// Sites: Asia 0 to 4, North America 5 to 11, South America 12, Europe 13 to 17.
pub(super) const SITES: u32 = 18;

/// Links within continents.
pub(super) const NEAR: [(u32, u32); 28] = [
    (0, 1),
    (0, 2),
    (0, 3),
    (0, 4),
    (1, 2),
    (1, 3),
    (1, 4),
    (5, 6),
    (5, 7),
    (5, 8),
    (5, 9),
    (6, 8),
    (6, 9),
    (7, 8),
    (7, 9),
    (7, 10),
    (7, 11),
    (8, 9),
    (9, 10),
    (9, 11),
    (10, 11),
    (13, 14),
    (13, 15),
    (13, 16),
    (14, 15),
    (15, 16),
    (15, 17),
    (16, 17),
];

/// Links between continents.
pub(super) const FAR: [(u32, u32); 12] =
    [(1, 5), (3, 5), (3, 6), (4, 5), (4, 6), (6, 12), (7, 16), (8, 12), (10, 15), (11, 12), (11, 14), (11, 15)];

/// For lists.
pub(super) const KIND: TopologyKind = TopologyKind {
    name: "b4",
    description: "Google's wide-area network: 18 sites on 4 continents, the 40 links of it that are known",
    example: r#"[topology]
kind = "b4"
hosts_per_site = 1
host_link = { rate = "10Gbit/s", delay = "10us" }
rate = "1Gbit/s"
"#,
};

/// Host `h` sits at site `h / hosts_per_site`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct B4 {
    /// Hosts at each of the 18 sites, 1 to 55,555. Default 1.
    #[serde(default = "one")]
    pub hosts_per_site: u32,
    /// Cable of each host.
    pub host_link: LinkSpec,
    /// Rate of the links between sites, above zero. Default: that of `host_link`.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "crate::units_serde::optional")]
    pub rate: Option<Rate>,
    /// Delay of the links within a continent. Default 1 ms.
    #[serde(default = "near", with = "crate::units_serde")]
    pub near_delay: Span,
    /// Delay of the links between continents. Default 10 ms.
    #[serde(default = "far", with = "crate::units_serde")]
    pub far_delay: Span,
    /// Processing delay of a host, added to each direction of its link. Default 0.
    #[serde(default, with = "crate::units_serde")]
    pub host_delay: Span,
}

fn one() -> u32 {
    1
}

fn near() -> Span {
    Span::from_ms(1)
}

fn far() -> Span {
    Span::from_ms(10)
}

impl B4 {
    /// Builds it.
    pub fn build(&self) -> Result<Topology, TopologyError> {
        let hosts = u64::from(SITES) * check_count("hosts_per_site", self.hosts_per_site)?;
        let host_link = self.host_link.check("host_link")?;
        let rate = self.rate.unwrap_or(host_link.rate);
        if rate.bits_per_sec() == 0 {
            return Err(TopologyError::OutOfRange { key: "rate", value: 0, minimum: 1, maximum: u64::MAX });
        }
        let cables = hosts + (NEAR.len() + FAR.len()) as u64;
        let builder = Builder::new("b4", Size { hosts, switches: SITES.into(), cables })?;
        let first_site = hosts as u32;
        let names = (0..first_site).map(|host| format!("host {host}"));
        let mut builder = builder.listed(names.chain((0..SITES).map(|site| format!("site {site}"))).collect());
        for host in 0..first_site {
            builder.cable(host, first_site + host / self.hosts_per_site, host_link.at_host(self.host_delay), 0);
        }
        for (links, delay) in [(&NEAR[..], self.near_delay), (&FAR[..], self.far_delay)] {
            for &(a, b) in links {
                builder.cable(first_site + a, first_site + b, LinkSpec { rate, delay }, 0);
            }
        }
        builder.finish()
    }
}
