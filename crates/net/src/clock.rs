//! Clocks: one that several processes of a machine share, and one whose phases agree between hosts.

use std::time::Duration;

use chrono::{Local, TimeZone, Timelike};
use pliant_proto::contract::schedule::TimeOfDay;
use pliant_proto::time::{Instant, Span};
use rustix::time::{ClockId, Timespec, clock_gettime};

fn nanoseconds(clock: ClockId) -> u64 {
    #[cfg(test)]
    if let Some(simulated) = crate::world::here::nanoseconds(clock == ClockId::Realtime) {
        return simulated;
    }
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

/// Monotonic time as the machines count it.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    monotonic: SharedClock,
    /// The system's clock at the start, in nanoseconds since 1970.
    unix_ns: u64,
}

impl Clock {
    /// A clock that reads zero now.
    pub fn start() -> Self {
        Self { monotonic: SharedClock::start(), unix_ns: realtime_ns() }
    }

    /// Time since the start.
    pub fn now(&self) -> Instant {
        self.monotonic.now()
    }

    /// The system's time of day when this clock read zero, in nanoseconds since 1970.
    pub fn unix_ns(&self) -> u64 {
        self.unix_ns
    }

    /// How far the system's clock is ahead of this one, modulo `cycle`, in picoseconds: hosts whose system clocks agree
    /// then divide time into the same cycles.
    pub fn phase_ps(&self, cycle: Span) -> i64 {
        (u128::from(self.unix_ns) * 1000 % u128::from(cycle.as_ps().max(1))) as i64
    }
}

/// A sleep of at least `span`: who wakes early must sleep again.
pub fn to_timeout(span: Span) -> Duration {
    Duration::from_nanos(span.as_ps().div_ceil(1000))
}

/// What the clocks of this zone show.
pub fn time_of_day() -> TimeOfDay {
    let at = Local.timestamp_nanos(realtime_ns().cast_signed());
    TimeOfDay::from_seconds(at.num_seconds_from_midnight())
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

    /// Two clocks started at different times put a moment into the same place of a cycle.
    #[test]
    fn clocks_agree_on_phases() {
        let monotonic = SharedClock::start();
        let cycle = Span::from_ms(25);
        let (early, late) = (
            Clock { monotonic, unix_ns: 1_700_000_000_123_456_789 },
            Clock { monotonic, unix_ns: 1_700_000_003_000_000_000 },
        );
        let apart = late.unix_ns - early.unix_ns;
        // The same moment reads `apart` more on the early clock.
        let phase = |clock: Clock, reading_ns: u64| {
            (u128::from(reading_ns) * 1000 + clock.phase_ps(cycle) as u128) % u128::from(cycle.as_ps())
        };
        assert_eq!(phase(early, 5_000_000 + apart), phase(late, 5_000_000));
    }
}
