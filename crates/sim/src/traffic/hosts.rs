//! Sets of hosts as a scenario writes them.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Hosts by index: `"0..16"` (without the last), `"0..4,8,12..16"`, `[0, 3, 7]` or one number. The order is kept.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(try_from = "HostSetText", into = "String")]
pub struct HostSet(Vec<Range<u32>>);

#[derive(Deserialize)]
#[serde(untagged, expecting = "is not a set of hosts such as \"0..16\", [0, 3, 7] or 5")]
enum HostSetText {
    One(u32),
    List(Vec<u32>),
    Text(String),
}

/// Refuses a host that is not one of `hosts`.
pub(super) fn no_host(host: u32, hosts: u32) -> String {
    match hosts.checked_sub(1) {
        Some(last) => format!("host {host} does not exist, hosts are 0 to {last}"),
        None => format!("host {host} does not exist, there are no hosts"),
    }
}

impl HostSet {
    /// The indices, each once and below `hosts`.
    pub(crate) fn resolve(&self, hosts: u32) -> Result<Vec<u32>, String> {
        let mut seen = vec![false; hosts as usize];
        let mut indices = Vec::new();
        for range in &self.0 {
            if range.end > hosts {
                return Err(no_host(range.end - 1, hosts));
            }
            for host in range.clone() {
                if std::mem::replace(&mut seen[host as usize], true) {
                    return Err(format!("host {host} is named twice"));
                }
                indices.push(host);
            }
        }
        if indices.is_empty() { Err("names no host".to_owned()) } else { Ok(indices) }
    }

    fn single(host: u32) -> Result<Range<u32>, String> {
        let end = host.checked_add(1).ok_or_else(|| format!("host {host} is out of range"))?;
        Ok(host..end)
    }
}

impl TryFrom<HostSetText> for HostSet {
    type Error = String;

    fn try_from(text: HostSetText) -> Result<Self, String> {
        match text {
            HostSetText::One(host) => Ok(Self(vec![Self::single(host)?])),
            HostSetText::List(hosts) => Ok(Self(hosts.into_iter().map(Self::single).collect::<Result<_, _>>()?)),
            HostSetText::Text(text) => text.parse(),
        }
    }
}

impl FromStr for HostSet {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |part: &str| {
            part.trim()
                .parse::<u32>()
                .map_err(|_| format!("\"{text}\" is not a set of hosts such as \"0..16\" or \"0,3,7\""))
        };
        let range = |part: &str| match part.split_once("..") {
            Some((start, end)) => Ok(number(start)?..number(end)?),
            None => Self::single(number(part)?),
        };
        Ok(Self(text.split(',').map(range).collect::<Result<_, _>>()?))
    }
}

impl fmt::Display for HostSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, range) in self.0.iter().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            if range.len() == 1 {
                write!(f, "{comma}{}", range.start)?;
            } else {
                write!(f, "{comma}{}..{}", range.start, range.end)?;
            }
        }
        Ok(())
    }
}

impl From<HostSet> for String {
    fn from(set: HostSet) -> Self {
        set.to_string()
    }
}
