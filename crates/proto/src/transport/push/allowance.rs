//! How much a source may have under way, whatever its window.

use crate::time::Span;

/// Most bytes of symbols under way. Symbols that are under way when a block is complete were sent for nothing, and on a short
/// path more of them only wait in a queue: so it begins small. A long path takes more. So it grows, once a round trip, while
/// packets do not wait.
pub(super) struct Allowance {
    first: u64,
    most: u64,
    bytes: u64,
    /// The shortest round trip so far, and that since the round began.
    least: Option<Span>,
    lately: Option<Span>,
    /// The round ends when this packet is acknowledged.
    ends: u64,
    /// It has held the source up in this round.
    was_full: bool,
}

impl Allowance {
    /// Begins with `first` bytes, `None` for no limit, and grows up to `most`; `None` does not grow.
    pub(super) fn new(first: Option<u64>, most: Option<u64>) -> Self {
        let first = first.unwrap_or(u64::MAX);
        let most = most.unwrap_or(first).max(first);
        Self { first, most, bytes: first, least: None, lately: None, ends: 0, was_full: false }
    }

    /// Whether so many bytes under way are all that may be.
    pub(super) fn is_full(&mut self, under_way: u64) -> bool {
        let full = under_way >= self.bytes;
        self.was_full |= full;
        full
    }

    /// Packet `number` was answered after `rtt`; the next new one will be `next`.
    #[inline]
    pub(super) fn on_sample(&mut self, number: u64, next: u64, rtt: Span) {
        if self.first < self.most {
            self.judge(number, next, rtt);
        }
    }

    fn judge(&mut self, number: u64, next: u64, rtt: Span) {
        let least = self.least.map_or(rtt, |least| least.min(rtt));
        let lately = self.lately.map_or(rtt, |lately| lately.min(rtt));
        (self.least, self.lately) = (Some(least), Some(lately));
        if number < self.ends {
            return;
        }
        let (now, path) = (lately.as_ps(), least.as_ps());
        if self.was_full && 4 * now <= 5 * path {
            self.bytes = self.most.min(self.bytes / 2 * 3);
        } else if 4 * now > 6 * path {
            self.bytes = self.first.max(self.bytes / 4 * 3);
        }
        (self.lately, self.ends, self.was_full) = (None, next, false);
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    /// A round of four packets, each answered after so many milliseconds, in which the source has all under way that it may.
    fn round(allowance: &mut Allowance, ms: u64) -> u64 {
        for packet in allowance.ends..allowance.ends + 4 {
            assert!(allowance.is_full(allowance.bytes));
            allowance.on_sample(packet, packet + 4, Span::from_ms(ms));
        }
        allowance.bytes
    }

    /// It grows by half in each round without a queue, to its bound; and with a queue it shrinks to what it was. A round is judged when the
    /// next one begins.
    #[test]
    fn it_grows_while_packets_do_not_wait() {
        let mut allowance = Allowance::new(Some(1000), Some(5000));
        let bytes: Vec<u64> = (0..5).map(|_| round(&mut allowance, 100)).collect();
        assert_eq!(bytes, [1500, 2250, 3375, 5000, 5000]);
        let bytes: Vec<u64> = (0..8).map(|_| round(&mut allowance, 160)).collect();
        assert_eq!(bytes, [5000, 3750, 2811, 2106, 1578, 1182, 1000, 1000]);
    }

    /// Where packets wait it stays as it is, and so it does if the source has less under way.
    #[test]
    fn it_stays_where_it_would_not_help() {
        let mut allowance = Allowance::new(Some(1000), Some(5000));
        allowance.on_sample(0, 1, Span::from_ms(1));
        for packet in 1..20 {
            assert!(allowance.is_full(1000));
            allowance.on_sample(packet, packet + 1, Span::from_us(1400));
        }
        assert_eq!(allowance.bytes, 1000);
        let mut allowance = Allowance::new(Some(1000), Some(5000));
        for number in 0..20 {
            assert!(!allowance.is_full(999));
            allowance.on_sample(number, number + 1, Span::from_ms(1));
        }
        assert_eq!(allowance.bytes, 1000);
        let mut unlimited = Allowance::new(None, None);
        assert!(!unlimited.is_full(u64::MAX - 1));
    }
}
