//! Spaces packets at a rate that may change at any moment.

use crate::time::{Instant, Span};
use crate::units::Rate;

/// Bits owed for a byte, in units of 10⁻¹² bit. A rate of 1 bit/s pays one unit per picosecond.
const PER_BYTE: i64 = 8_000_000_000_000;

/// After each packet the flow owes its bits, which the rate pays off. The next packet leaves when nothing is owed.
///
/// A new rate changes only what is paid from then on, and fractions of a picosecond are carried over. Over any time,
/// the packets sent are worth the integral of the rate, within one packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pacer {
    rate: Rate,
    /// In 10⁻¹² bit. Negative by what was overpaid within the last picosecond.
    owed: i64,
    paid_until: Instant,
}

impl Pacer {
    /// A pacer that lets nothing pass before it has a rate.
    pub(super) fn stopped() -> Self {
        Self { rate: Rate::from_bits_per_sec(0), owed: 0, paid_until: Instant::ZERO }
    }

    /// The rate from `now` on; zero stops.
    pub(super) fn set_rate(&mut self, now: Instant, rate: Rate) {
        self.pay(now);
        self.rate = rate;
    }

    /// Whether a packet may leave.
    #[inline]
    pub(super) fn allows(&mut self, now: Instant) -> bool {
        self.pay(now);
        self.owed <= 0 && self.rate.bits_per_sec() > 0
    }

    /// A packet of `wire_bytes` leaves.
    #[inline]
    pub(super) fn on_sent(&mut self, wire_bytes: u16) {
        self.owed += i64::from(wire_bytes) * PER_BYTE;
    }

    /// When the next packet may leave; `None` while stopped.
    #[inline]
    pub(super) fn next_at(&self) -> Option<Instant> {
        let rate = self.rate.bits_per_sec();
        let wait = (self.owed.max(0) as u64).checked_add(rate.checked_sub(1)?)? / rate;
        Some(self.paid_until.after(Span::from_ps(wait)))
    }

    #[inline]
    fn pay(&mut self, now: Instant) {
        let rate = self.rate.bits_per_sec();
        let paid = u128::from(rate) * u128::from(now.since(self.paid_until).as_ps());
        // Who waits for data pays nothing in advance.
        let owed = i128::from(self.owed) - paid as i128;
        self.owed = owed.max(-i128::from(rate)) as i64;
        self.paid_until = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Departures of packets of `bytes`, as many as there are until `end`, under rates that change at given times.
    fn departures(changes: &[(u64, u64)], bytes: u16, end_ps: u64) -> Vec<u64> {
        let (mut pacer, mut changes, mut left) = (Pacer::stopped(), changes.iter().peekable(), Vec::new());
        loop {
            let change = changes.peek().map(|(at, _)| *at);
            let next = pacer.next_at().map(Instant::as_ps);
            match (change, next) {
                (Some(at), next) if next.is_none_or(|next| at <= next) => {
                    let (_, rate) = changes.next().expect("it was peeked");
                    pacer.set_rate(Instant::from_ps(at), Rate::from_bits_per_sec(*rate));
                }
                (_, Some(at)) if at <= end_ps => {
                    assert!(pacer.allows(Instant::from_ps(at)));
                    pacer.on_sent(bytes);
                    left.push(at);
                }
                _ => return left,
            }
        }
    }

    use std::vec::Vec;

    /// 1500 bytes at 10 Gbit/s are 1.2 us apart; at 7 Gbit/s, where a byte takes no whole number of picoseconds, seven
    /// packets take exactly 12 us.
    #[test]
    fn packets_leave_at_the_rate() {
        assert_eq!(departures(&[(0, 10_000_000_000)], 1500, 3_600_000), [0, 1_200_000, 2_400_000, 3_600_000]);
        assert_eq!(departures(&[(0, 7_000_000_000)], 1500, 12_000_000)[7], 12_000_000);
    }

    /// Half a packet is paid at 1 Gbit/s, the other half at 2 Gbit/s: 6 + 3 us. A stop in between costs its own length.
    #[test]
    fn a_new_rate_counts_from_its_own_time() {
        let rates = [(0, 1_000_000_000), (6_000_000, 2_000_000_000)];
        assert_eq!(departures(&rates, 1500, 9_000_000), [0, 9_000_000]);
        let stop = [(0, 1_000_000_000), (6_000_000, 0), (16_000_000, 2_000_000_000)];
        assert_eq!(departures(&stop, 1500, 19_000_000), [0, 19_000_000]);
    }

    /// Idle time buys no burst.
    #[test]
    fn idle_time_is_not_saved_up() {
        let mut pacer = Pacer::stopped();
        pacer.set_rate(Instant::ZERO, Rate::from_gbit_per_sec(1));
        let late = Instant::ZERO.after(Span::from_secs(1000));
        assert!(pacer.allows(late));
        pacer.on_sent(1500);
        assert!(!pacer.allows(late));
        assert!(pacer.next_at().is_some_and(|at| at.since(late) > Span::from_us(11)));
    }

    proptest! {
        /// Whatever the rates do, the n-th packet leaves when the integral of the rate is worth n packets, to the
        /// picosecond.
        #[test]
        fn what_leaves_is_the_integral(
            changes in prop::collection::vec((1u64..50_000_000, 0u64..20_000_000_000), 1..20),
            bytes in 64u16..9000,
        ) {
            let mut at = 0;
            let changes: Vec<(u64, u64)> = changes.into_iter().map(|(gap, rate)| { at += gap; (at, rate) }).collect();
            let end = at + 20_000_000;
            let left = departures(&changes, bytes, end);
            let integral = |until: u64| -> u128 {
                let ends = changes.iter().skip(1).map(|(at, _)| *at).chain([u64::MAX]);
                let pieces = changes.iter().zip(ends);
                pieces.map(|((from, rate), to)| u128::from(to.min(until).saturating_sub(*from)) * u128::from(*rate)).sum()
            };
            let packet = u128::from(bytes) * PER_BYTE as u128;
            for (number, at) in left.iter().enumerate().skip(1) {
                prop_assert!(integral(*at) >= number as u128 * packet, "packet {} too early", number);
                prop_assert!(integral(*at - 2) < number as u128 * packet, "packet {} too late", number);
            }
            prop_assert!(left.is_empty() || integral(end) < (left.len() as u128 + 1) * packet);
        }
    }
}
