//! A greatest rate and a least share by time of day.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

use crate::units::Rate;

/// Seconds of a day.
pub const DAY: u32 = 86_400;
/// Most parts of a schedule: one for each quarter of an hour.
pub const MAX_PARTS: usize = 96;

/// A time of day in seconds, below [`DAY`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct TimeOfDay(u32);

impl TimeOfDay {
    /// So many seconds after midnight; those of whole days do not count.
    pub const fn from_seconds(seconds: u32) -> Self {
        Self(seconds % DAY)
    }

    /// Seconds from here to the next `other`, below a day.
    const fn until(self, other: Self) -> u32 {
        (other.0 + DAY - self.0) % DAY
    }
}

impl FromStr for TimeOfDay {
    type Err = String;

    /// Reads `22:00` and `22:00:30`.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || alloc::format!("{text}: a time of day is HH:MM, such as 22:00");
        let two = |part: &str| part.parse::<u32>().ok().filter(|_| part.len() == 2 && !part.starts_with('+'));
        let mut parts = text.split(':').map(two);
        let mut next = |below: u32| parts.next().flatten().filter(|value| *value < below);
        let (hour, minute) = next(24).zip(next(60)).ok_or_else(wrong)?;
        let second = if text.len() > 5 { next(60).ok_or_else(wrong)? } else { 0 };
        if parts.next().is_some() { Err(wrong()) } else { Ok(Self(3600 * hour + 60 * minute + second)) }
    }
}

impl fmt::Display for TimeOfDay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (hour, minute, second) = (self.0 / 3600, self.0 / 60 % 60, self.0 % 60);
        write!(f, "{hour:02}:{minute:02}")?;
        if second > 0 { write!(f, ":{second:02}") } else { Ok(()) }
    }
}

/// A part of the day with a contract of its own.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct DayPart {
    /// It begins.
    pub from: TimeOfDay,
    /// It ends, which may be on the next day.
    pub to: TimeOfDay,
    /// Greatest rate on the wire, above 0; `None` bounds none.
    pub max_rate: Option<Rate>,
    /// Least share of the fair rate, in [0, 1], if it is not the contract's.
    pub min_share: Option<f64>,
}

/// Parts of the day with contracts of their own. At other times the flow's counts.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct DaySchedule(Vec<DayPart>);

/// Why parts are no schedule.
#[derive(Clone, PartialEq, Debug)]
pub enum ScheduleError {
    /// A part begins when it ends.
    Empty(DayPart),
    /// Two parts have a time in common.
    Overlap(DayPart, DayPart),
    /// A part's greatest rate is zero.
    NoRate(DayPart),
    /// There are more than [`MAX_PARTS`].
    TooMany,
}

impl FromStr for DayPart {
    type Err = String;

    /// Reads `22:00-06:00=none`, `08:00-18:00=20Mbit/s` and, with a share of its own, `04:00-06:00=none+min-share=1`.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            let examples = "such as 08:00-18:00=20Mbit/s or 04:00-06:00=none+min-share=1";
            alloc::format!("it must be FROM-TO=RATE or FROM-TO=RATE+min-share=SHARE, {examples}")
        };
        let (times, bounds) = text.split_once('=').ok_or_else(wrong)?;
        let (from, to) = times.split_once('-').ok_or_else(wrong)?;
        let (rate, share) = bounds.split_once('+').map_or((bounds, None), |(rate, share)| (rate, Some(share)));
        let max_rate =
            if rate == "none" { None } else { Some(rate.parse::<Rate>().map_err(|error| error.to_string())?) };
        let share_of = |share: &str| {
            let share = share.strip_prefix("min-share=").ok_or_else(wrong)?.parse::<f64>();
            let share = share.ok().filter(|share| (0.0..=1.0).contains(share));
            share.ok_or_else(|| String::from("min-share must be between 0 and 1"))
        };
        Ok(Self { from: from.parse()?, to: to.parse()?, max_rate, min_share: share.map(share_of).transpose()? })
    }
}

impl FromStr for DaySchedule {
    type Err = String;

    /// Reads parts with commas between them; no text is a schedule that says nothing.
    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split(',').filter(|_| !text.is_empty());
        let parts = parts.map(|part| part.parse().map_err(|error| alloc::format!("{part}: {error}")));
        Self::new(parts.collect::<Result<_, _>>()?).map_err(|error| error.to_string())
    }
}

impl fmt::Display for DayPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.from, self.to)
    }
}

impl fmt::Display for ScheduleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty(part) => write!(f, "{part} ends when it begins"),
            Self::Overlap(one, other) => write!(f, "{one} and {other} have a time in common"),
            Self::NoRate(part) => write!(f, "max_rate of {part} must be above 0: at no rate nothing is sent"),
            Self::TooMany => write!(f, "more than {MAX_PARTS} parts"),
        }
    }
}

impl core::error::Error for ScheduleError {}

impl DayPart {
    fn holds(&self, at: TimeOfDay) -> bool {
        self.from.until(at) < self.from.until(self.to)
    }
}

impl DaySchedule {
    /// A schedule of these parts.
    pub fn new(parts: Vec<DayPart>) -> Result<Self, ScheduleError> {
        if parts.len() > MAX_PARTS {
            return Err(ScheduleError::TooMany);
        }
        for (index, part) in parts.iter().enumerate() {
            if part.from == part.to {
                return Err(ScheduleError::Empty(*part));
            }
            if part.max_rate == Some(Rate::default()) {
                return Err(ScheduleError::NoRate(*part));
            }
            let meets = |other: &&DayPart| other.holds(part.from) || part.holds(other.from);
            if let Some(other) = parts[..index].iter().find(meets) {
                return Err(ScheduleError::Overlap(*other, *part));
            }
        }
        Ok(Self(parts))
    }

    /// Whether it says nothing.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Its parts.
    pub fn parts(&self) -> &[DayPart] {
        &self.0
    }

    /// The part that holds at a time of day, if it says something of it.
    pub fn part(&self, at: TimeOfDay) -> Option<&DayPart> {
        self.0.iter().find(|part| part.holds(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::Contract;
    use alloc::vec;
    use proptest::prelude::*;

    fn time(text: &str) -> TimeOfDay {
        text.parse().unwrap()
    }

    fn part(from: &str, to: &str, mbit: u64) -> DayPart {
        let rate = Rate::from_bits_per_sec(mbit * 1_000_000);
        DayPart { from: time(from), to: time(to), max_rate: (mbit > 0).then_some(rate), min_share: None }
    }

    /// By night without a bound, by day 20 Mbit/s, and 50 Mbit/s as the contract says in between.
    #[test]
    fn parts_count_from_their_beginning_to_their_end() {
        let schedule = DaySchedule::new(vec![part("22:00", "06:00", 0), part("08:00", "18:00", 20)]).unwrap();
        let contract = Contract { max_rate: Some(Rate::from_bits_per_sec(50_000_000)), ..Contract::default() };
        let rate = |text: &str| contract.at(time(text), &schedule).max_rate.map(|rate| rate.bits_per_sec() / 1_000_000);
        let expected = [
            ("21:59:59", Some(50)),
            ("22:00", None),
            ("00:00", None),
            ("05:59:59", None),
            ("06:00", Some(50)),
            ("08:00", Some(20)),
            ("17:59", Some(20)),
            ("18:00", Some(50)),
        ];
        for (text, at) in expected {
            assert_eq!(rate(text), at, "{text}");
        }
    }

    /// In the last hours before the morning a flow gives way no more; a floor in bits per second is in vain then.
    #[test]
    fn a_part_has_a_share_of_its_own() {
        let last = DayPart { min_share: Some(1.0), ..part("04:00", "06:00", 0) };
        let half = DayPart { min_share: Some(0.5), ..part("06:00", "07:00", 20) };
        let schedule = DaySchedule::new(vec![last, half, part("07:00", "08:00", 20)]).unwrap();
        let min_rate = Rate::from_bits_per_sec(5_000_000);
        let contract = Contract { min_share: 0.0, min_rate, ..Contract::default() };
        for (at, share, rate) in [
            ("03:59", 0.0, min_rate),
            ("04:00", 1.0, Rate::default()),
            ("06:00", 0.5, min_rate),
            ("07:30", 0.0, min_rate),
        ] {
            let now = contract.at(time(at), &schedule);
            assert_eq!((now.min_share, now.min_rate), (share, rate), "{at}");
        }
    }

    #[test]
    fn what_is_no_schedule_is_refused_by_its_part() {
        let why = |parts: Vec<DayPart>| DaySchedule::new(parts).unwrap_err().to_string();
        assert_eq!(why(vec![part("06:00", "06:00", 1)]), "06:00-06:00 ends when it begins");
        assert_eq!(
            why(vec![part("22:00", "06:00", 1), part("05:00", "07:00", 1)]),
            "22:00-06:00 and 05:00-07:00 have a time in common"
        );
        let none = DayPart { max_rate: Some(Rate::default()), ..part("06:00", "07:00", 1) };
        assert_eq!(why(vec![none]), "max_rate of 06:00-07:00 must be above 0: at no rate nothing is sent");
        assert_eq!(why(vec![part("06:00", "07:00", 1); 97]), "more than 96 parts");
        for text in ["", "6:00", "24:00", "06:60", "06:00:60", "06:00:", "06", "+6:00", "06:00:00:00", "noon"] {
            assert!(text.parse::<TimeOfDay>().is_err(), "{text}");
        }
    }

    /// A whole schedule in a line, and what is wrong with a part of one.
    #[test]
    fn a_schedule_is_read_from_text() {
        let read = |text: &str| text.parse::<DaySchedule>();
        let expected = DaySchedule::new(vec![part("22:00", "06:00", 0), part("08:00", "18:00", 20)]);
        assert_eq!(read("22:00-06:00=none,08:00-18:00=20Mbit/s"), Ok(expected.unwrap()));
        assert_eq!(read(""), Ok(DaySchedule::default()));
        let last = DayPart { min_share: Some(1.0), ..part("04:00", "06:00", 0) };
        let slow = DayPart { min_share: Some(0.25), ..part("08:00", "18:00", 20) };
        let expected = DaySchedule::new(vec![last, slow]);
        assert_eq!(read("04:00-06:00=none+min-share=1,08:00-18:00=20Mbit/s+min-share=0.25"), Ok(expected.unwrap()));
        for (text, why) in [
            (",", ": it must be FROM-TO=RATE"),
            ("22:00-06:00", "22:00-06:00: it must be FROM-TO=RATE"),
            ("22:00-6:00=none", "22:00-6:00=none: 6:00: a time of day is HH:MM"),
            ("22:00-06:00=fast", "22:00-06:00=fast: "),
            ("22:00-06:00=none+", "22:00-06:00=none+: it must be FROM-TO=RATE"),
            ("22:00-06:00=none+weight=2", "22:00-06:00=none+weight=2: it must be FROM-TO=RATE"),
            ("22:00-06:00=none+min-share=1.5", "22:00-06:00=none+min-share=1.5: min-share must be between 0 and 1"),
            ("22:00-06:00=none+min-share=nan", "22:00-06:00=none+min-share=nan: min-share must be between 0 and 1"),
            ("22:00-06:00=none,05:00-07:00=none", "22:00-06:00 and 05:00-07:00 have a time in common"),
            ("22:00-06:00=0Mbit/s", "max_rate of 22:00-06:00 must be above 0"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.starts_with(why), "{text}: {error}");
        }
    }

    proptest! {
        /// Any text is read or refused, and what is read is written as it was.
        #[test]
        fn any_text_is_a_time_or_refused(text in "\\PC{0,10}|[0-2][0-9]:[0-5][0-9](:[0-5][0-9])?") {
            if let Ok(time) = text.parse::<TimeOfDay>() {
                prop_assert_eq!(time.to_string().parse::<TimeOfDay>().unwrap(), time);
            }
        }
    }
}
