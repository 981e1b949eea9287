//! Which destinations a rule matches.

use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;

/// Hosts of a route: an address, a network, a name, a suffix of names (`*.rack2.example`), or `*` for all.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum HostRule {
    Network(IpNet),
    Name(String),
    /// Including the dot at its beginning.
    Suffix(String),
    All,
}

impl HostRule {
    /// How specifically it matches `host`; `None` if it does not match.
    pub(crate) fn exactness(&self, host: &str) -> Option<u32> {
        let address: Option<IpAddr> = host.parse().ok();
        let name = host.trim_end_matches('.').to_ascii_lowercase();
        match (self, address) {
            (Self::Network(network), Some(address)) => {
                network.contains(&address.to_canonical()).then(|| 1 + u32::from(network.prefix_len()))
            }
            (Self::Name(own), None) => (*own == name).then_some(u32::MAX),
            (Self::Suffix(own), None) => name.ends_with(own.as_str()).then_some(own.len() as u32),
            (Self::All, _) => Some(0),
            _ => None,
        }
    }
}

impl FromStr for HostRule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "*" {
            return Ok(Self::All);
        }
        if let Ok(network) = text.parse::<IpNet>() {
            return Ok(Self::Network(network.trunc()));
        }
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(Self::Network(address.into()));
        }
        let name = text.trim_end_matches('.').to_ascii_lowercase();
        let (suffix, rest) = match name.strip_prefix('*') {
            Some(rest) => (true, rest),
            None => (false, name.as_str()),
        };
        let of_name = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
        if rest.is_empty() || suffix && !rest.starts_with('.') || !rest.chars().all(of_name) {
            return Err(format!("`{text}` is no address, network, name, `*.SUFFIX` or `*`"));
        }
        Ok(if suffix { Self::Suffix(rest.to_owned()) } else { Self::Name(rest.to_owned()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_matched_by_the_most_exact_rule() {
        let exactness = |rule: &str, host: &str| rule.parse::<HostRule>().unwrap().exactness(host);
        assert!(exactness("10.1.0.0/16", "10.1.2.3") > exactness("10.0.0.0/8", "10.1.2.3"));
        assert!(exactness("*.rack2.example", "a.rack2.example.") > exactness("*.example", "a.RACK2.example"));
        assert!(exactness("a.example", "a.example") > exactness("*.example", "a.example"));
        assert!(exactness("0.0.0.0/0", "10.1.2.3") > exactness("*", "10.1.2.3"));
        assert_eq!(exactness("*.example", "example"), None);
        assert_eq!(exactness("*.example", "badexample"), None);
        assert_eq!(exactness("10.0.0.0/8", "ten.example"), None);
        for wrong in ["", "*example", "a b", "a/b"] {
            assert!(wrong.parse::<HostRule>().is_err(), "{wrong}");
        }
    }
}
