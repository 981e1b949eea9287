//! Knowledge about addresses: which have proven themselves, and what each has spent.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};

use pliant_proto::time::Instant;

use super::rate_limiter::RateLimiter;

/// Most addresses that have proven themselves. Beyond that the one with the oldest proof is forgotten.
const MAX_PROVEN: usize = 1024;
/// Most addresses with their own budget, until that is whole again.
const MAX_CHARGED: usize = 1024;
/// Budgets of all other addresses. They are shared by a keyed hash, so that nobody can choose with whom.
const BUDGETS: usize = 1024;

/// The owner of an address for limits: the owner of an IPv6 address has its whole /64.
pub(crate) fn source_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(ip) => IpAddr::V4(ip),
        IpAddr::V6(ip) => IpAddr::V6(Ipv6Addr::from_bits(ip.to_bits() >> 64 << 64)),
    }
}

/// The sources that have proven themselves, and how many failed handshakes each has left.
pub(super) struct Sources {
    key: [u8; blake3::KEY_LEN],
    /// When each last proved that it holds the keys.
    proven: BTreeMap<IpAddr, Instant>,
    forged_per_second: u32,
    charged: BTreeMap<IpAddr, RateLimiter>,
    budgets: Vec<RateLimiter>,
}

impl Sources {
    pub(super) fn new(key: [u8; 32], forged_per_second: u32) -> Self {
        let budgets = (0..BUDGETS).map(|_| RateLimiter::new(forged_per_second)).collect();
        Self { key, proven: BTreeMap::new(), forged_per_second, charged: BTreeMap::new(), budgets }
    }

    /// A peer at `address` has shown that it holds the keys.
    pub(super) fn prove(&mut self, now: Instant, address: IpAddr) {
        if self.proven.insert(source_of(address), now).is_none() && self.proven.len() > MAX_PROVEN {
            let oldest = self.proven.iter().min_by_key(|(_, proven)| **proven).map(|(source, _)| *source);
            oldest.map(|oldest| self.proven.remove(&oldest));
        }
    }

    /// Whether a peer at the address has done so.
    pub(super) fn is_proven(&self, address: IpAddr) -> bool {
        self.proven.contains_key(&source_of(address))
    }

    /// Whether another handshake of `address` may fail.
    pub(super) fn may_fail(&mut self, now: Instant, address: IpAddr) -> bool {
        match self.charged.get_mut(&source_of(address)) {
            Some(budget) => budget.has_any(now),
            None => self.charged.len() < MAX_CHARGED || self.budget(address).has_any(now),
        }
    }

    /// A handshake of `address` has failed.
    pub(super) fn charge(&mut self, now: Instant, address: IpAddr) {
        let source = source_of(address);
        if let Some(budget) = self.charged.get_mut(&source) {
            budget.take(now);
            return;
        }
        if self.charged.len() >= MAX_CHARGED {
            self.charged.retain(|_, budget| !budget.is_whole(now));
        }
        if self.charged.len() < MAX_CHARGED {
            self.charged.entry(source).or_insert_with(|| RateLimiter::new(self.forged_per_second)).take(now);
        } else {
            self.budget(address).take(now);
        }
    }

    fn budget(&mut self, address: IpAddr) -> &mut RateLimiter {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        match source_of(address) {
            IpAddr::V4(ip) => hasher.update(&ip.octets()),
            IpAddr::V6(ip) => hasher.update(&ip.octets()),
        };
        let hash = hasher.finalize();
        let place = u16::from_be_bytes([hash.as_bytes()[0], hash.as_bytes()[1]]);
        &mut self.budgets[usize::from(place) % BUDGETS]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(number: u32) -> IpAddr {
        IpAddr::V4(number.into())
    }

    /// The last thousand that proved themselves are known, whoever came before.
    #[test]
    fn the_last_are_remembered() {
        let mut sources = Sources::new([1; 32], 1);
        for number in 0..5000 {
            sources.prove(Instant::from_ps(u64::from(number) + 1), ip(number));
            sources.prove(Instant::from_ps(u64::from(number) + 1), ip(7));
        }
        assert_eq!(sources.proven.len(), MAX_PROVEN);
        assert!(sources.is_proven(ip(7)) && sources.is_proven(ip(4000)) && !sources.is_proven(ip(3000)));
    }

    /// Nobody pays for a single attacker, nor for as many as have budgets of their own; these are given up once they are whole
    /// again. Beyond that sources share.
    #[test]
    fn nobody_pays_for_another() {
        let mut sources = Sources::new([1; 32], 2);
        let at = |ms| Instant::ZERO.after(pliant_proto::time::Span::from_ms(ms));
        for attacker in 0..MAX_CHARGED as u32 - 1 {
            (0..3).for_each(|_| sources.charge(at(0), ip(attacker)));
            assert!(!sources.may_fail(at(0), ip(attacker)));
        }
        assert!((1_000_000..1_005_000).all(|honest| sources.may_fail(at(0), ip(honest))));
        for attacker in 10_000..30_000 {
            (0..2).for_each(|_| sources.charge(at(0), ip(attacker)));
        }
        assert_eq!(sources.charged.len(), MAX_CHARGED);
        let kept_out = (1_000_000..1_005_000).filter(|honest| !sources.may_fail(at(0), ip(*honest))).count();
        assert!(kept_out > 0, "they share");
        sources.charge(at(1000), ip(77_777));
        assert_eq!(sources.charged.len(), 1, "the others' are whole again");
    }

    /// Each source spends a budget of its own; all addresses of a /64 are one source, and an IPv4 address is the same in
    /// both families.
    #[test]
    fn budgets_are_of_sources() {
        let mut sources = Sources::new([1; 32], 3);
        let mut fails = |address: &str| {
            let address = address.parse().unwrap();
            let may = sources.may_fail(Instant::ZERO, address);
            sources.charge(Instant::ZERO, address);
            may
        };
        assert_eq!([0; 4].map(|_| fails("192.0.2.1")), [true, true, true, false]);
        assert!(!fails("::ffff:192.0.2.1") && fails("192.0.2.2"));
        assert_eq!(
            ["2001:db8::1", "2001:db8::2", "2001:db8::3:0:0:1", "2001:db8::5"].map(&mut fails),
            [true, true, true, false]
        );
        assert!(fails("2001:db8:0:1::1"));
    }
}
