//! Which services a rule is about.

use core::fmt::{Display, Formatter};
use core::net::IpAddr;
use core::str::FromStr;

/// Addresses and ports of services: `127.0.0.1:6379`, `10.1.0.0/16:9000`, `[2001:db8::]/32:*`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ServiceRule {
    network: IpAddr,
    bits: u8,
    /// Any, if none is said.
    port: Option<u16>,
}

/// A text is no rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WrongRule;

impl Display for WrongRule {
    fn fmt(&self, to: &mut Formatter<'_>) -> core::fmt::Result {
        to.write_str("not ADDRESS:PORT, ADDRESS/BITS:PORT or either with `*` for any port")
    }
}

impl core::error::Error for WrongRule {}

impl ServiceRule {
    /// Whether it is about a service.
    pub fn matches(&self, address: IpAddr, port: u16) -> bool {
        // An IPv4 address in IPv6's clothes is the IPv4 address.
        let address = address.to_canonical();
        address.is_ipv4() == self.network.is_ipv4()
            && truncated(address, self.bits) == self.network
            && self.port.is_none_or(|own| own == port)
    }

    /// How exactly it names what it is about: longer prefixes first, then a port.
    pub fn exactness(&self) -> (u8, bool) {
        (self.bits, self.port.is_some())
    }
}

impl Display for ServiceRule {
    fn fmt(&self, to: &mut Formatter<'_>) -> core::fmt::Result {
        match self.network {
            IpAddr::V4(address) => write!(to, "{address}/{}:", self.bits)?,
            IpAddr::V6(address) => write!(to, "[{address}]/{}:", self.bits)?,
        }
        match self.port {
            Some(port) => write!(to, "{port}"),
            None => to.write_str("*"),
        }
    }
}

impl FromStr for ServiceRule {
    type Err = WrongRule;

    fn from_str(text: &str) -> Result<Self, WrongRule> {
        let (network, port) = text.rsplit_once(':').ok_or(WrongRule)?;
        let port = if port == "*" { None } else { Some(port.parse().map_err(|_| WrongRule)?) };
        let (address, bits) = match network.split_once('/') {
            Some((address, bits)) => (address, Some(bits.parse().map_err(|_| WrongRule)?)),
            None => (network, None),
        };
        let bare = address.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        if bare.is_none() && address.contains(':') {
            return Err(WrongRule);
        }
        let address: IpAddr = bare.unwrap_or(address).parse().map_err(|_| WrongRule)?;
        let most: u8 = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.unwrap_or(most);
        if bits > most {
            return Err(WrongRule);
        }
        Ok(Self { network: truncated(address, bits), bits, port })
    }
}

/// The first bits of an address.
fn truncated(address: IpAddr, bits: u8) -> IpAddr {
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
            IpAddr::V4((address.to_bits() & mask).into())
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
            IpAddr::V6((address.to_bits() & mask).into())
        }
    }
}

/// Whether one of some rules with spaces between is about a service. What is no rule is about none.
pub fn any_matches(rules: &str, address: IpAddr, port: u16) -> bool {
    let rules = rules.split_ascii_whitespace().filter_map(|rule| rule.parse::<ServiceRule>().ok());
    rules.into_iter().any(|rule| rule.matches(address, port))
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use proptest::prelude::*;
    use std::string::ToString;

    #[test]
    fn services_are_matched_by_network_and_port() {
        let matches = |rule: &str, address: &str, port| {
            rule.parse::<ServiceRule>().unwrap().matches(address.parse().unwrap(), port)
        };
        assert!(matches("127.0.0.1:6379", "127.0.0.1", 6379) && !matches("127.0.0.1:6379", "127.0.0.1", 6380));
        assert!(matches("10.1.0.0/16:*", "10.1.2.3", 1) && !matches("10.1.0.0/16:*", "10.2.0.1", 1));
        assert!(matches("10.1.2.3/16:*", "10.1.9.9", 1), "bits beyond the prefix do not count");
        assert!(matches("[2001:db8::]/32:9000", "2001:db8::7", 9000));
        assert!(matches("0.0.0.0/0:*", "9.9.9.9", 9) && !matches("0.0.0.0/0:*", "::9", 9));
        assert!(matches("[::]/0:*", "::9", 9) && !matches("[::]/0:*", "9.9.9.9", 9));
        assert!(matches("127.0.0.1:80", "::ffff:127.0.0.1", 80), "another spelling of the same address");
        for wrong in ["", "127.0.0.1", "127.0.0.1:x", "host:80", "10.0.0.0/33:1", "2001:db8::1:80", "10.0.0.1/8"] {
            assert!(wrong.parse::<ServiceRule>().is_err(), "{wrong}");
        }
        assert!(any_matches(" 10.0.0.0/8:1  nonsense 9.9.9.9:* ", "9.9.9.9".parse().unwrap(), 7));
        assert!(!any_matches("", "9.9.9.9".parse().unwrap(), 7));
    }

    proptest! {
        /// A rule's own text is the rule, and it is about its own network.
        #[test]
        fn rules_round_trip(address: IpAddr, bits in 0_u8..=128, port: Option<u16>) {
            let bits = bits.min(if address.is_ipv4() { 32 } else { 128 });
            let rule = ServiceRule { network: truncated(address, bits), bits, port };
            prop_assert_eq!(rule.to_string().parse(), Ok(rule));
            // IPv6 addresses that stand for IPv4's are IPv4's.
            if address.to_canonical() == address {
                prop_assert!(rule.matches(address, port.unwrap_or(1)));
            }
        }

        #[test]
        fn no_text_panics(text: std::string::String) {
            let _ = text.parse::<ServiceRule>();
            let _ = any_matches(&text, IpAddr::from([1, 2, 3, 4]), 5);
        }
    }
}
