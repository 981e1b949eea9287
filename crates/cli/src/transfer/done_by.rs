//! When a transfer must be done, as users say it.

use std::fmt;

use chrono::{DateTime, Days, FixedOffset, Local, NaiveTime, TimeZone, Utc};
use pliant_proto::contract::deadline::MOST_DAYS;
use pliant_proto::time::Span;

/// When a transfer must be done.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum DoneBy {
    /// So long after it begins.
    In(Span),
    /// When the clocks here show this next.
    TimeOfDay(NaiveTime),
    At(DateTime<FixedOffset>),
}

/// Reads a span, a time of day or a time with its zone (RFC 3339).
pub(super) fn parse(text: &str) -> Result<DoneBy, String> {
    if let Ok(span) = text.parse::<Span>() {
        return if span == Span::ZERO { Err("it must be above 0".to_owned()) } else { Ok(DoneBy::In(span)) };
    }
    let of_day = ["%H:%M", "%H:%M:%S"].iter().find_map(|format| NaiveTime::parse_from_str(text, format).ok());
    let at = || DateTime::parse_from_rfc3339(text).map(DoneBy::At).ok();
    of_day.map(DoneBy::TimeOfDay).or_else(at).ok_or_else(|| {
        "it must be a time from now (2h), a time of day (06:00) or a date with its zone (2026-11-26T06:00:00Z)"
            .to_owned()
    })
}

impl fmt::Display for DoneBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::In(span) => span.fmt(f),
            Self::TimeOfDay(time) => time.fmt(f),
            Self::At(at) => f.write_str(&at.to_rfc3339_opts(chrono::SecondsFormat::AutoSi, true)),
        }
    }
}

impl DoneBy {
    /// How long it is from now until then.
    #[allow(clippy::disallowed_methods, reason = "users mean the clock on the wall")]
    pub(super) fn span_from_now(self) -> Result<Span, String> {
        self.span_from(&Utc::now().with_timezone(&Local))
    }

    /// The same from `now`, in the zone where it is said.
    fn span_from<Z: TimeZone>(self, now: &DateTime<Z>) -> Result<Span, String> {
        let at = match self {
            Self::In(span) => return Ok(span),
            Self::At(at) => at.with_timezone(&Utc),
            Self::TimeOfDay(time) => next(time, now).ok_or_else(|| format!("--done-by: {self} is not a time here"))?,
        };
        let left = at.signed_duration_since(now.with_timezone(&Utc));
        match left.to_std().ok().filter(|left| !left.is_zero()) {
            None => Err(format!("--done-by: {self} has passed")),
            Some(left) if left.as_secs() > MOST_DAYS * 86_400 => {
                Err(format!("--done-by: {self} is more than {MOST_DAYS} days away"))
            }
            Some(left) => Ok(Span::from_secs_f64(left.as_secs_f64())),
        }
    }
}

/// When the clocks of `now`'s zone show `time` next: today, or tomorrow, or, where it is left out by a change to summer time,
/// the day after.
fn next<Z: TimeZone>(time: NaiveTime, now: &DateTime<Z>) -> Option<DateTime<Utc>> {
    let zone = now.timezone();
    let on =
        |day| zone.from_local_datetime(&now.date_naive().checked_add_days(Days::new(day))?.and_time(time)).earliest();
    (0..=2).filter_map(on).map(|at| at.with_timezone(&Utc)).find(|at| *at > now.with_timezone(&Utc))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A span, a time of day that is still to come or that comes tomorrow, and a time in another zone.
    #[test]
    fn every_way_to_say_it_is_a_span_from_now() {
        let now = DateTime::parse_from_rfc3339("2026-11-25T22:00:00+01:00").unwrap();
        let span = |text: &str| parse(text).and_then(|by| by.span_from(&now));
        assert_eq!(span("2h"), Ok(Span::from_secs(7200)));
        assert_eq!(span("22:30"), Ok(Span::from_secs(1800)));
        assert_eq!(span("06:00:30"), Ok(Span::from_secs(8 * 3600 + 30)));
        assert_eq!(span("22:00"), Ok(Span::from_secs(86_400)), "the next one");
        assert_eq!(span("2026-11-25T22:00:00Z"), Ok(Span::from_secs(3600)));
    }

    #[test]
    fn what_has_passed_or_is_no_time_is_refused() {
        let now = DateTime::parse_from_rfc3339("2026-11-25T22:00:00+01:00").unwrap();
        let refused = |text: &str| parse(text).and_then(|by| by.span_from(&now)).unwrap_err();
        assert_eq!(refused("2026-11-25T21:00:00Z"), "--done-by: 2026-11-25T21:00:00Z has passed");
        assert_eq!(refused("2036-11-25T21:00:00Z"), "--done-by: 2036-11-25T21:00:00Z is more than 200 days away");
        assert_eq!(refused("0s"), "it must be above 0");
        for text in ["", "25:00", "soon", "2", "2026-11-25", "-2h"] {
            assert!(refused(text).contains("a time of day (06:00)"), "{text}");
        }
    }
}
