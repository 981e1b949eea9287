//! Where a switch port leads.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::topology::{LinkId, Topology};

/// Where a switch port leads.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// To a higher tier.
    Up,
    /// To a lower tier, or to a host.
    Down,
    /// To a switch of the same tier.
    Across,
}

impl Direction {
    /// Where the port that sends on `link` leads.
    pub fn of(topology: &Topology, link: LinkId) -> Self {
        let link = topology.link(link);
        match topology.tier(link.to).cmp(&topology.tier(link.from)) {
            std::cmp::Ordering::Greater => Self::Up,
            std::cmp::Ordering::Less => Self::Down,
            std::cmp::Ordering::Equal => Self::Across,
        }
    }
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Up => "up",
            Self::Down => "down",
            Self::Across => "across",
        })
    }
}

impl FromStr for Direction {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let all = [Self::Up, Self::Down, Self::Across];
        let found = all.into_iter().find(|direction| direction.to_string() == text);
        found.ok_or_else(|| format!("\"{text}\" is not \"up\", \"down\" or \"across\""))
    }
}
