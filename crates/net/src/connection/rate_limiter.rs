//! Rate limits.

use pliant_proto::time::{Instant, Span};

/// A budget of events per second, with bursts of up to a second's worth.
pub(super) struct RateLimiter {
    per_second: u32,
    left: u32,
    refilled: Instant,
}

impl RateLimiter {
    pub(super) fn new(per_second: u32) -> Self {
        Self { per_second, left: per_second, refilled: Instant::ZERO }
    }

    /// Whether the event may happen. If so, it is counted.
    pub(super) fn take(&mut self, now: Instant) -> bool {
        let allowed = self.has_any(now);
        self.left -= u32::from(allowed);
        allowed
    }

    /// Whether a full burst is available.
    pub(super) fn is_whole(&mut self, now: Instant) -> bool {
        self.has_any(now) && self.left == self.per_second
    }

    /// Whether the event may happen.
    pub(super) fn has_any(&mut self, now: Instant) -> bool {
        let gap = Span::from_secs(1).as_ps() / u64::from(self.per_second.max(1));
        let earned = now.since(self.refilled).as_ps() / gap;
        if earned > 0 {
            self.left = u64::from(self.left).saturating_add(earned).min(u64::from(self.per_second)) as u32;
            self.refilled = self.refilled.after(Span::from_ps(earned * gap));
        }
        self.left > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As many at once as in a second, then one for each of its parts, and never more than a second's worth.
    #[test]
    fn allowances_are_kept() {
        let at = |ms: u64| Instant::ZERO.after(Span::from_ms(ms));
        let mut allowance = RateLimiter::new(10);
        let mut taken = |ms: u64| (0..100).filter(|_| allowance.take(at(ms))).count();
        assert_eq!([taken(0), taken(99), taken(100), taken(350), taken(400), taken(60_000)], [10, 0, 1, 2, 1, 10]);
    }
}
