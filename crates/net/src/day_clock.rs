//! Which part of a schedule holds now, by the clock on the wall.

use pliant_proto::contract::Contract;
use pliant_proto::contract::schedule::{DayPart, DaySchedule, TimeOfDay};
use pliant_proto::time::{Instant, Span};

use crate::clock::time_of_day;

/// How often the time of day is read.
const READ_INTERVAL: Span = Span::from_secs(1);

/// Follows a schedule.
#[derive(Debug)]
pub(crate) struct DayClock {
    schedule: DaySchedule,
    part: Option<DayPart>,
    read_at: Option<Instant>,
}

impl DayClock {
    /// A clock that has not been read.
    pub(crate) fn new(schedule: DaySchedule) -> Self {
        Self { schedule, part: None, read_at: None }
    }

    /// The schedule that it follows.
    pub(crate) fn schedule(&self) -> &DaySchedule {
        &self.schedule
    }

    /// Follows another schedule.
    pub(crate) fn set_schedule(&mut self, schedule: DaySchedule) {
        (self.schedule, self.read_at) = (schedule, None);
    }

    /// Looks at the time of day, unless it was read within the last second. Whether another part holds than before.
    pub(crate) fn read(&mut self, now: Instant) -> bool {
        let nothing = self.schedule.is_empty() && self.part.is_none();
        if nothing || self.read_at.is_some_and(|at| now.since(at) < READ_INTERVAL) {
            return false;
        }
        self.read_at = Some(now);
        self.set_time(time_of_day())
    }

    fn set_time(&mut self, at: TimeOfDay) -> bool {
        let part = self.schedule.part(at).copied();
        std::mem::replace(&mut self.part, part) != part
    }

    /// The contract of a flow in the part that holds.
    pub(crate) fn contract(&self, contract: &Contract) -> Contract {
        self.part.map_or(*contract, |part| contract.within(&part))
    }
}

#[cfg(test)]
mod tests {
    use pliant_proto::units::Rate;

    use super::*;

    /// A part is announced when it begins and when it ends, each once; a schedule that is taken away ends its part.
    #[test]
    fn parts_begin_and_end_once() {
        let slow = Some(Rate::from_bits_per_sec(8000));
        let time = |text: &str| text.parse::<TimeOfDay>().unwrap();
        let day = DayPart { from: time("08:00"), to: time("18:00"), max_rate: slow, min_share: None };
        let mut clock = DayClock::new(DaySchedule::new(vec![day]).unwrap());
        let mut rate = |at: &str| {
            let changed = clock.set_time(time(at));
            (changed, clock.contract(&Contract::default()).max_rate)
        };
        assert_eq!(rate("07:59:59"), (false, None));
        assert_eq!((rate("08:00"), rate("12:00")), ((true, slow), (false, slow)));
        assert_eq!((rate("18:00"), rate("23:00")), ((true, None), (false, None)));
        assert_eq!(rate("09:00"), (true, slow));
        clock.set_schedule(DaySchedule::default());
        assert!(clock.read(Instant::ZERO), "the part is over");
        assert_eq!(clock.contract(&Contract::default()), Contract::default());
        assert!(!clock.read(Instant::ZERO.after(Span::from_secs(9))));
    }
}
