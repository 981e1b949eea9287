//! Credits and sub-flows, as packets name them.

use crate::time::{Instant, Span};

/// A time in units of 1.024 ns, modulo 4.4 s: as short as TCP's timestamps (RFC 7323), and enough for round-trip times.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ShortTime(u32);

impl ShortTime {
    const UNIT_BITS: u32 = 10;

    /// The short form of `at`.
    #[inline]
    pub const fn of(at: Instant) -> Self {
        Self((at.as_ps() >> Self::UNIT_BITS) as u32)
    }

    /// As 32 bits.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// From 32 bits; all are valid.
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// Time from this to `now`, below 4.4 s.
    #[inline]
    pub const fn until(self, now: Instant) -> Span {
        Span::from_ps((Self::of(now).0.wrapping_sub(self.0) as u64) << Self::UNIT_BITS)
    }

    /// The latest such time that is no later than `now`, rounded down to a unit.
    #[inline]
    pub const fn latest(self, now: Instant) -> Instant {
        let rounded = Instant::from_ps(now.as_ps() >> Self::UNIT_BITS << Self::UNIT_BITS);
        rounded.before(self.until(now))
    }
}

/// What a credit is known by: the data sent on it echoes both.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CreditStamp {
    /// Its number, one more than that of the credit before, modulo 2³².
    pub number: u32,
    /// When it was sent, on the clock of the credits' sender.
    pub sent_at: ShortTime,
}

impl CreditStamp {
    /// As 64 bits.
    pub(super) const fn to_bits(self) -> u64 {
        (self.number as u64) << 32 | self.sent_at.0 as u64
    }

    /// From 64 bits; all are valid.
    pub(super) const fn from_bits(bits: u64) -> Self {
        Self { number: (bits >> 32) as u32, sent_at: ShortTime(bits as u32) }
    }
}

/// One of the two sub-flows of a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Subflow {
    /// Sends on credits, or what was guaranteed.
    Proactive,
    /// Sends what its window lets go.
    Reactive,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Round-trip times survive the short form to its unit, also where it wraps.
    #[test]
    fn short_times_measure_round_trips() {
        for start in [0, 5_000_000, (1 << 42) - 3_000, 7 << 42] {
            let (sent, now) = (Instant::from_ps(start), Instant::from_ps(start + 52_000_000));
            let measured = ShortTime::of(sent).until(now).as_ps();
            assert!(measured.abs_diff(52_000_000) < 1024, "{measured} from {start}");
            assert!(sent.since(ShortTime::of(sent).latest(now)).as_ps() < 1024);
        }
    }
}
