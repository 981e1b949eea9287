//! What flags take: a value outside its range is told together with the range. The command line adds the flag's name.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

use pliant_proto::packet::CLASSES;

use crate::jobs::MAX_JOBS;

/// A whole number within `range`.
pub(crate) fn whole<T: TryFrom<u64>>(
    range: RangeInclusive<u64>,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync {
    move |text| {
        let number = text.parse::<u64>().ok().filter(|number| range.contains(number));
        number.and_then(|number| T::try_from(number).ok()).ok_or_else(|| match (*range.start(), *range.end()) {
            (least, u64::MAX) => format!("it must be a whole number from {least}"),
            (least, most) => format!("it must be a whole number from {least} to {most}"),
        })
    }
}

/// `--jobs`.
pub(crate) fn jobs() -> impl Fn(&str) -> Result<usize, String> + Clone + Send + Sync {
    whole(1..=MAX_JOBS as u64)
}

/// A traffic class.
pub(crate) fn class() -> impl Fn(&str) -> Result<u8, String> + Clone + Send + Sync {
    whole(0..=CLASSES as u64 - 1)
}

/// A number of which `holds` is true; `range` says in words when that is.
pub(crate) fn number(
    range: &'static str,
    holds: fn(f64) -> bool,
) -> impl Fn(&str) -> Result<f64, String> + Clone + Send + Sync {
    move |text| {
        let number = text.parse::<f64>().ok().filter(|number| number.is_finite() && holds(*number));
        number.ok_or_else(|| format!("it must be a number {range}"))
    }
}

/// A number above 0.
pub(crate) fn positive() -> impl Fn(&str) -> Result<f64, String> + Clone + Send + Sync {
    number("above 0", |number| number > 0.0)
}

/// A part of a whole.
pub(crate) fn fraction() -> impl Fn(&str) -> Result<f64, String> + Clone + Send + Sync {
    number("from 0 to 1", |number| (0.0..=1.0).contains(&number))
}

/// A quantity with a unit, above 0.
pub(crate) fn above_zero<T>() -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync
where
    T: FromStr<Err: Display> + Default + PartialOrd,
{
    |text| match text.parse::<T>() {
        Ok(value) if value > T::default() => Ok(value),
        Ok(_) => Err("it must be above 0".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// A quantity with a unit, within `range`.
pub(crate) fn within<T>(range: RangeInclusive<T>) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync
where
    T: FromStr<Err: Display> + Display + PartialOrd + Clone + Send + Sync,
{
    move |text| match text.parse::<T>() {
        Ok(value) if range.contains(&value) => Ok(value),
        Ok(_) => Err(format!("it must be from {} to {}", range.start(), range.end())),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pliant_proto::time::Span;
    use pliant_proto::units::Bytes;

    #[test]
    fn values_outside_their_range_are_told_it() {
        assert_eq!(jobs()("3"), Ok(3));
        assert_eq!(jobs()("0"), Err("it must be a whole number from 1 to 1024".to_owned()));
        assert_eq!(class()("31"), Ok(31));
        for text in ["32", "-1", "x", "1.5", ""] {
            assert_eq!(class()(text), Err("it must be a whole number from 0 to 31".to_owned()), "{text}");
        }
        assert_eq!(whole::<u64>(1..=u64::MAX)("0"), Err("it must be a whole number from 1".to_owned()));
        assert_eq!(fraction()("1"), Ok(1.0));
        for text in ["1.1", "-0.1", "nan", "inf", "x"] {
            assert_eq!(fraction()(text), Err("it must be a number from 0 to 1".to_owned()), "{text}");
            assert_eq!(positive()(text).is_err(), text != "1.1", "{text}");
        }
        assert_eq!(above_zero::<Span>()("0s"), Err("it must be above 0".to_owned()));
        assert!(above_zero::<Span>()("5").unwrap_err().contains("5us"), "units are asked for by example");
        assert_eq!(within(Bytes(64)..=Bytes(2000))("63B"), Err("it must be from 64B to 2kB".to_owned()));
    }
}
