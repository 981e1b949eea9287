//! Time: instants and spans in whole picoseconds.
//!
//! At 40 Gbit/s one byte lasts 200 ps, so nanoseconds would bias every short packet. A `u64` of picoseconds spans
//! 213 days.

use core::fmt;
use core::num::NonZeroU64;
use core::str::FromStr;

use crate::unit_text::{ParseUnitError, parse_with_unit};

/// A point in time, in picoseconds since the start of the run (or of the process).
///
/// Stored plus one in a `NonZeroU64`, so `Option<Instant>` is eight bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(NonZeroU64);

/// A length of time in picoseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Span(u64);

impl Default for Instant {
    /// [`ZERO`](Self::ZERO).
    fn default() -> Self {
        Self::ZERO
    }
}

impl Instant {
    /// The start of the run.
    pub const ZERO: Self = Self(NonZeroU64::MIN);
    /// Later than every deadline.
    pub const MAX: Self = Self(NonZeroU64::MAX);

    /// The instant `ps` picoseconds after the start.
    #[inline]
    pub const fn from_ps(ps: u64) -> Self {
        match NonZeroU64::new(ps.wrapping_add(1)) {
            Some(value) => Self(value),
            None => Self::MAX,
        }
    }

    /// Picoseconds since the start.
    #[inline]
    pub const fn as_ps(self) -> u64 {
        self.0.get() - 1
    }

    /// As the bits of an optional instant.
    #[inline]
    pub(crate) const fn to_bits(self) -> u64 {
        self.0.get()
    }

    /// An optional instant as 64 bits; zero is none.
    #[inline]
    pub(crate) const fn option_to_bits(at: Option<Self>) -> u64 {
        match at {
            Some(at) => at.0.get(),
            None => 0,
        }
    }

    /// Inverse of [`Self::option_to_bits`].
    #[inline]
    pub(crate) const fn option_from_bits(bits: u64) -> Option<Self> {
        match NonZeroU64::new(bits) {
            Some(bits) => Some(Self(bits)),
            None => None,
        }
    }

    /// Seconds since the start, for reports and control laws.
    pub fn as_secs_f64(self) -> f64 {
        self.as_ps() as f64 / 1e12
    }

    /// Time since `earlier`; zero if `earlier` is later.
    #[inline]
    pub const fn since(self, earlier: Self) -> Span {
        Span(self.0.get().saturating_sub(earlier.0.get()))
    }

    /// The instant `span` earlier; saturates at [`Instant::ZERO`].
    #[inline]
    pub const fn before(self, span: Span) -> Self {
        match NonZeroU64::new(self.0.get().saturating_sub(span.0)) {
            Some(value) => Self(value),
            None => Self::ZERO,
        }
    }

    /// This instant moved by `span`; saturates at [`Instant::MAX`].
    #[inline]
    pub const fn after(self, span: Span) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

impl Span {
    /// No time.
    pub const ZERO: Self = Self(0);
    /// Longer than any run.
    pub const MAX: Self = Self(u64::MAX);

    /// A span of `ps` picoseconds.
    #[inline]
    pub const fn from_ps(ps: u64) -> Self {
        Self(ps)
    }

    /// A span of `ns` nanoseconds.
    pub const fn from_ns(ns: u64) -> Self {
        Self(ns.saturating_mul(1_000))
    }

    /// A span of `us` microseconds.
    pub const fn from_us(us: u64) -> Self {
        Self(us.saturating_mul(1_000_000))
    }

    /// A span of `ms` milliseconds.
    pub const fn from_ms(ms: u64) -> Self {
        Self(ms.saturating_mul(1_000_000_000))
    }

    /// A span of `s` seconds.
    pub const fn from_secs(s: u64) -> Self {
        Self(s.saturating_mul(1_000_000_000_000))
    }

    /// A span of `s` seconds, rounded to the nearest picosecond; negative and NaN give zero.
    pub fn from_secs_f64(s: f64) -> Self {
        Self(libm::round(s * 1e12) as u64)
    }

    /// Picoseconds.
    #[inline]
    pub const fn as_ps(self) -> u64 {
        self.0
    }

    /// Seconds, for reports and control laws.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e12
    }

    /// Microseconds, for reports.
    pub fn as_us_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// As people read it: to four digits, in the largest unit of which there is one: `4.003ms`. What must be read back
    /// prints itself.
    pub fn rounded(self) -> impl fmt::Display {
        Rounded(self)
    }

    /// Sum; saturates.
    #[inline]
    pub const fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// Difference; zero if `other` is longer.
    #[inline]
    pub const fn minus(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// `factor` times this span; saturates.
    #[inline]
    pub const fn times(self, factor: u64) -> Self {
        Self(self.0.saturating_mul(factor))
    }

    /// This span divided by `divisor`, rounded down.
    #[inline]
    pub const fn divided_by(self, divisor: u64) -> Self {
        Self(self.0 / divisor)
    }
}

/// How long a packet was under way, in nanoseconds, between two clocks that nobody set alike: only differences mean
/// anything.
///
/// 32 bits that wrap, compared as serial numbers are (RFC 1982): right as long as delays that are compared lie within
/// 2.1 s of each other, whatever the clocks' offset, and whichever clock is ahead.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct OneWayDelay(u32);

impl OneWayDelay {
    /// From `sent_at` on the sender's clock to `received_at` on the receiver's.
    #[inline]
    pub const fn between(sent_at: Instant, received_at: Instant) -> Self {
        let ps = received_at.as_ps().wrapping_sub(sent_at.as_ps()).cast_signed();
        Self(ps.div_euclid(1_000) as u32)
    }

    /// A delay of `ns` nanoseconds; negative where the receiver's clock is behind.
    #[inline]
    pub const fn from_ns(ns: i64) -> Self {
        Self(ns as u32)
    }

    /// The delay in an acknowledgement's field; every value is one.
    #[inline]
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// As an acknowledgement's field.
    #[inline]
    pub const fn to_bits(self) -> u32 {
        self.0
    }

    /// Nanoseconds by which this delay exceeds `other`; negative if it is shorter.
    #[inline]
    pub const fn minus(self, other: Self) -> i64 {
        self.0.wrapping_sub(other.0).cast_signed() as i64
    }

    /// This delay and `ns` nanoseconds.
    #[inline]
    #[must_use]
    pub const fn plus_ns(self, ns: i64) -> Self {
        Self(self.0.wrapping_add(ns as u32))
    }

    /// The shorter of two delays.
    #[inline]
    #[must_use]
    pub const fn min(self, other: Self) -> Self {
        if other.minus(self) < 0 { other } else { self }
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&Span(self.as_ps()), f)
    }
}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

const SPAN_UNITS: &[(&str, u64)] =
    &[("s", 1_000_000_000_000), ("ms", 1_000_000_000), ("us", 1_000_000), ("ns", 1_000), ("ps", 1)];
/// The same as they are read: also the longer ones, which are printed in seconds.
const READ_SPAN_UNITS: &[(&str, u64)] = &[
    ("h", 3_600_000_000_000_000),
    ("min", 60_000_000_000_000),
    ("s", 1_000_000_000_000),
    ("ms", 1_000_000_000),
    ("us", 1_000_000),
    ("ns", 1_000),
    ("ps", 1),
];

impl fmt::Display for Span {
    /// Exact, in the largest unit that keeps it whole: `5us`, `1500ns`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, size) = SPAN_UNITS
            .iter()
            .find(|(_, size)| self.0.is_multiple_of(*size))
            .expect("one picosecond divides everything");
        if self.0 == 0 { f.write_str("0s") } else { write!(f, "{}{name}", self.0 / size) }
    }
}

/// [`Span::rounded`].
struct Rounded(Span);

impl fmt::Display for Rounded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = |ps: u64| SPAN_UNITS.iter().find(|(_, size)| ps >= *size);
        let Some((_, size)) = unit(self.0.0) else { return self.0.fmt(f) };
        let last_digit = match self.0.0 / size {
            0..10 => size / 1000,
            10..100 => size / 100,
            100..1000 => size / 10,
            _ => *size,
        };
        let last_digit = last_digit.max(1);
        let ps = self.0.0.saturating_add(last_digit / 2) / last_digit * last_digit;
        // 999.96 us is 1 ms.
        let (name, size) = unit(ps).expect("rounding leaves no span empty");
        write!(f, "{}", ps / size)?;
        let (mut fraction, mut digits) = (ps % size / (size / 1000).max(1), 3);
        if fraction > 0 {
            while fraction % 10 == 0 {
                (fraction, digits) = (fraction / 10, digits - 1);
            }
            write!(f, ".{fraction:0digits$}")?;
        }
        f.write_str(name)
    }
}

impl FromStr for Span {
    type Err = ParseUnitError;

    /// Reads `5us`, `1.5ms`, `0s`; the unit is required.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse_with_unit(text, "a time such as \"5us\"", READ_SPAN_UNITS).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn option_of_instant_is_eight_bytes() {
        assert_eq!(size_of::<Option<Instant>>(), 8);
    }

    #[test]
    fn spans_parse_and_print_exactly() {
        for (text, ps) in [
            ("5us", 5_000_000),
            ("1.5ms", 1_500_000_000),
            ("0s", 0),
            ("800ps", 800),
            ("2 s", 2_000_000_000_000),
            ("1.5min", 90_000_000_000_000),
            ("2h", 7_200_000_000_000_000),
        ] {
            assert_eq!(text.parse::<Span>().unwrap().as_ps(), ps);
        }
        assert_eq!(Span::from_ns(1500).to_string(), "1500ns");
        assert_eq!(Span::from_us(5).to_string(), "5us");
        assert_eq!("1h".parse::<Span>().unwrap().to_string(), "3600s", "read, and printed the one way");
        assert!("5".parse::<Span>().unwrap_err().to_string().contains("unit"));
        assert!("5Gbit/s".parse::<Span>().is_err());
        assert!("0.5ps".parse::<Span>().is_err(), "below one picosecond");
    }

    /// Four digits that are right, in the unit that a person would take; what has no more is told exactly.
    #[test]
    fn spans_for_people_have_four_digits() {
        for (ps, text) in [
            (4_002_595_200, "4.003ms"),
            (100_000_000, "100us"),
            (12_344_999, "12.34us"),
            (12_345_000, "12.35us"),
            (999_949_999, "999.9us"),
            (999_950_000, "1ms"),
            (999_960_000, "1ms"),
            (1_500_000, "1.5us"),
            (1_050, "1.05ns"),
            (999, "999ps"),
            (1, "1ps"),
            (0, "0s"),
            (59_999_600_000_000, "60s"),
            (12_345_678_000_000_000, "12346s"),
            (u64::MAX, "18446744s"),
        ] {
            assert_eq!(Span(ps).rounded().to_string(), text, "{ps}");
        }
    }

    /// Delays differ by the same amount whatever the clocks' offset: none, the receiver's ahead, behind, and about to
    /// wrap.
    #[test]
    fn one_way_delays_do_not_depend_on_the_offset_of_clocks() {
        let sent = Instant::ZERO.after(Span::from_secs(10));
        for offset_ns in [0, 1, -1, 3_000_000_000, -3_000_000_000, (1 << 32) - 60_000, -(1 << 32), 7_777_777_777] {
            let received = |delay_ns: i64| {
                let ns = 10_000_000_000 + offset_ns + delay_ns;
                Instant::ZERO.after(Span::from_ns(ns as u64))
            };
            let [short, long] = [50_000, 150_000].map(|ns| OneWayDelay::between(sent, received(ns)));
            assert_eq!((long.minus(short), short.minus(long)), (100_000, -100_000), "{offset_ns}");
            assert_eq!((short.min(long), long.min(short)), (short, short));
            assert_eq!(short.plus_ns(100_000), long);
            assert_eq!(long.plus_ns(-100_000), short);
        }
    }

    /// Whole nanoseconds, rounded down on both sides of zero, so that a step of the clock is a step of the delay.
    #[test]
    fn one_way_delays_round_down() {
        let at = Instant::from_ps;
        assert_eq!(OneWayDelay::between(at(5_000), at(6_999)), OneWayDelay::from_ns(1));
        assert_eq!(OneWayDelay::between(at(5_000), at(4_999)), OneWayDelay::from_ns(-1));
    }

    #[test]
    fn instants_saturate() {
        assert_eq!(Instant::ZERO.since(Instant::from_ps(5)), Span::ZERO);
        assert_eq!(Instant::MAX.after(Span::from_secs(1)), Instant::MAX);
        assert_eq!(Instant::ZERO.as_ps(), 0);
    }
}
