//! A token bucket that loses no fraction of a token.

use super::plan::ShaperConfig;
use crate::time::{Instant, Span};
use crate::units::Rate;

/// Tokens are counted in bits times picoseconds, so that `rate * time` is exact.
const UNITS_PER_BYTE: u128 = 8_000_000_000_000;

/// A token bucket.
#[derive(Clone, Debug)]
pub(super) struct TokenBucket {
    bits_per_sec: u64,
    depth: u128,
    tokens: u128,
    updated: Instant,
}

impl TokenBucket {
    /// A full bucket at a link of rate `link`.
    pub(super) fn new(config: ShaperConfig, link: Rate) -> Self {
        let depth = u128::from(config.depth_bytes) * UNITS_PER_BYTE;
        Self { bits_per_sec: config.rate.at(link).bits_per_sec(), depth, tokens: depth, updated: Instant::ZERO }
    }

    /// Takes tokens for `bytes`, or says when there will be enough. A packet larger than the bucket passes when the
    /// bucket is full.
    pub(super) fn take(&mut self, now: Instant, bytes: u32) -> Result<(), Instant> {
        let gained = u128::from(now.since(self.updated).as_ps()) * u128::from(self.bits_per_sec);
        self.tokens = (self.tokens + gained).min(self.depth);
        self.updated = self.updated.max(now);
        let needed = (u128::from(bytes) * UNITS_PER_BYTE).min(self.depth);
        if self.tokens >= needed {
            self.tokens -= needed;
            return Ok(());
        }
        let wait = (needed - self.tokens).div_ceil(u128::from(self.bits_per_sec));
        Err(now.after(Span::from_ps(u64::try_from(wait).unwrap_or(u64::MAX))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::switch::plan::ShaperRate;

    fn credits() -> TokenBucket {
        // ExpressPass's credit share.
        let rate = ShaperRate::Share(84.0 / (84.0 + 1538.0));
        TokenBucket::new(ShaperConfig { rate, depth_bytes: 2 * 84 }, Rate::from_gbit_per_sec(10))
    }

    /// Backlogged for 10 ms at 10 Gbit/s: 7706 ± 2 credits, and a burst after idling of at most two.
    #[test]
    fn a_credit_queue_passes_7706_credits_in_10_ms() {
        let (mut bucket, mut now, mut passed) = (credits(), Instant::ZERO, 0);
        while now < Instant::from_ps(10_000_000_000) {
            match bucket.take(now, 84) {
                Ok(()) => passed += 1,
                Err(later) => {
                    assert!(later > now, "a refusal names a later time");
                    now = later;
                }
            }
        }
        assert!((7704..=7710).contains(&passed), "{passed}");
        assert!((passed - 7706i32).abs() <= 2, "{passed}");
    }

    #[test]
    fn idling_saves_at_most_the_depth() {
        let mut bucket = credits();
        let late = Instant::from_ps(1_000_000_000_000);
        assert!(bucket.take(late, 84).is_ok() && bucket.take(late, 84).is_ok() && bucket.take(late, 84).is_err());
    }

    #[test]
    fn the_refusal_time_is_exact() {
        let mut bucket = credits();
        while bucket.take(Instant::ZERO, 84).is_ok() {}
        let at = bucket.take(Instant::ZERO, 84).unwrap_err();
        assert!(bucket.clone().take(Instant::from_ps(at.as_ps() - 1), 84).is_err());
        assert!(bucket.take(at, 84).is_ok());
    }
}
