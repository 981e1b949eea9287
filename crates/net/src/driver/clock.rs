//! Time as drivers read it.

use pliant_proto::time::{Instant, Span};

use crate::clock::{SharedClock, realtime_ns};

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

    /// How far the system's clock is ahead of this one, modulo `cycle`, in picoseconds: hosts whose system clocks agree
    /// then divide time into the same cycles.
    pub fn phase_ps(&self, cycle: Span) -> i64 {
        (u128::from(self.unix_ns) * 1000 % u128::from(cycle.as_ps().max(1))) as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
