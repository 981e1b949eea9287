//! A clock that several processes of one machine share.

use std::time::Duration;

use pliant_proto::time::{Instant, Span};
use rustix::time::{ClockId, Timespec, clock_gettime};

fn nanoseconds(clock: ClockId) -> u64 {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(clock);
    tv_sec.unsigned_abs() * 1_000_000_000 + tv_nsec.unsigned_abs()
}

/// The system's monotonic clock, counted from an epoch that processes can tell each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedClock {
    epoch_ns: u64,
}

impl SharedClock {
    /// A clock that reads zero now.
    pub fn start() -> Self {
        Self { epoch_ns: nanoseconds(ClockId::Monotonic) }
    }

    /// A clock that will read zero in so long.
    pub fn starting_in(span: Span) -> Self {
        Self { epoch_ns: nanoseconds(ClockId::Monotonic) + span.as_ps() / 1000 }
    }

    /// The clock of another process of this machine, from its [`epoch_ns`](Self::epoch_ns).
    pub fn from_epoch_ns(epoch_ns: u64) -> Self {
        Self { epoch_ns }
    }

    /// What it was made from, in nanoseconds of the system's monotonic clock.
    pub fn epoch_ns(&self) -> u64 {
        self.epoch_ns
    }

    /// Time since the epoch; zero before it.
    pub fn now(&self) -> Instant {
        Instant::from_ps(nanoseconds(ClockId::Monotonic).saturating_sub(self.epoch_ns).saturating_mul(1000))
    }

    /// Time until the epoch; zero after it.
    pub fn until_start(&self) -> Span {
        Span::from_ns(self.epoch_ns.saturating_sub(nanoseconds(ClockId::Monotonic)))
    }
}

/// A sleep of at least `span`: who wakes early must sleep again.
pub fn nap(span: Span) -> Duration {
    Duration::from_nanos(span.as_ps().div_ceil(1000))
}

/// The system's time of day in nanoseconds, in which the kernel stamps frames.
pub(crate) fn realtime_ns() -> u64 {
    nanoseconds(ClockId::Realtime)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_makes_the_same_clock() {
        let clock = SharedClock::start();
        let other = SharedClock::from_epoch_ns(clock.epoch_ns());
        let (first, second, third) = (clock.now(), other.now(), clock.now());
        assert!(first <= second && second <= third);
    }

    #[test]
    fn a_clock_that_starts_later_reads_zero() {
        let clock = SharedClock::starting_in(Span::from_secs(1000));
        assert_eq!(clock.now(), Instant::ZERO);
        assert!(clock.until_start() > Span::from_secs(999));
    }
}
