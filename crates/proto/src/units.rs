//! Bytes and rates, and the reading of quantities with units.

use core::fmt;
use core::str::FromStr;

use crate::time::Span;
pub use crate::unit_text::ParseUnitError;
use crate::unit_text::parse_with_unit;

/// A number of bytes in a configuration. Inside the machines byte counts and offsets are plain `u64`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Bytes(pub u64);

/// A rate in bits per second.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Rate(u64);

impl Rate {
    /// A rate of `bits` bits per second.
    pub const fn from_bits_per_sec(bits: u64) -> Self {
        Self(bits)
    }

    /// A rate of `gbit` Gbit/s.
    pub const fn from_gbit_per_sec(gbit: u64) -> Self {
        Self(gbit * 1_000_000_000)
    }

    /// Bits per second.
    #[inline]
    pub const fn bits_per_sec(self) -> u64 {
        self.0
    }

    /// Bytes per second, for control laws and reports.
    pub fn bytes_per_sec_f64(self) -> f64 {
        self.0 as f64 / 8.0
    }

    /// Time that `bytes` take at this rate, rounded up to a picosecond. For a sequence of packets use
    /// [`Serializer`], which loses nothing to rounding.
    pub const fn time_for(self, bytes: u64) -> Span {
        let ps = (bytes as u128 * PS_TIMES_BITS_PER_BYTE as u128).div_ceil(self.0 as u128);
        Span::from_ps(if ps > u64::MAX as u128 { u64::MAX } else { ps as u64 })
    }

    /// Whole bytes that fit into `span`.
    pub const fn bytes_in(self, span: Span) -> u64 {
        (self.0 as u128 * span.as_ps() as u128 / PS_TIMES_BITS_PER_BYTE as u128) as u64
    }
}

/// Picoseconds a byte takes at one bit per second.
const PS_TIMES_BITS_PER_BYTE: u64 = 8_000_000_000_000;

/// Turns packet sizes into transmission times at one rate, carrying the fraction of a picosecond from packet to
/// packet, so that a million packets take exactly a million times one packet's real time.
#[derive(Clone, Copy, Debug)]
pub struct Serializer {
    ps_per_byte: u64,
    /// `PS_TIMES_BITS_PER_BYTE % rate`: zero for the usual rates (1, 10, 25, 40, 100, 400 Gbit/s).
    numerator: u64,
    rate: u64,
    carry: u64,
}

impl Serializer {
    /// A serializer at `rate`, which must not be zero.
    pub fn new(rate: Rate) -> Self {
        assert!(rate.0 > 0, "a link needs a rate");
        Self {
            ps_per_byte: PS_TIMES_BITS_PER_BYTE / rate.0,
            numerator: PS_TIMES_BITS_PER_BYTE % rate.0,
            rate: rate.0,
            carry: 0,
        }
    }

    /// Picoseconds per byte, if a byte takes a whole number of them.
    pub fn whole_ps_per_byte(&self) -> Option<u64> {
        (self.numerator == 0).then_some(self.ps_per_byte)
    }

    /// Transmission time of the next packet.
    #[inline]
    pub fn transmit(&mut self, bytes: u32) -> Span {
        let whole = u64::from(bytes) * self.ps_per_byte;
        if self.numerator == 0 { Span::from_ps(whole) } else { self.transmit_with_carry(whole, bytes) }
    }

    #[cold]
    fn transmit_with_carry(&mut self, whole: u64, bytes: u32) -> Span {
        let total = u128::from(bytes) * u128::from(self.numerator) + u128::from(self.carry);
        self.carry = (total % u128::from(self.rate)) as u64;
        Span::from_ps(whole + (total / u128::from(self.rate)) as u64)
    }
}

const RATE_UNITS: &[(&str, u64)] =
    &[("Tbit/s", 1_000_000_000_000), ("Gbit/s", 1_000_000_000), ("Mbit/s", 1_000_000), ("kbit/s", 1_000), ("bit/s", 1)];
/// The same as they are read: also as switches' manuals write them.
const READ_RATE_UNITS: &[(&str, u64)] = &[
    ("Tbit/s", 1_000_000_000_000),
    ("Gbit/s", 1_000_000_000),
    ("Mbit/s", 1_000_000),
    ("kbit/s", 1_000),
    ("bit/s", 1),
    ("Tbps", 1_000_000_000_000),
    ("Gbps", 1_000_000_000),
    ("Mbps", 1_000_000),
    ("kbps", 1_000),
    ("bps", 1),
];

const BYTE_UNITS: &[(&str, u64)] = &[
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("B", 1),
];

/// Prints `value` in the largest unit that keeps it whole.
fn print_with_unit(f: &mut fmt::Formatter<'_>, value: u64, units: &[(&str, u64)]) -> fmt::Result {
    let best = units.iter().filter(|(_, size)| value.is_multiple_of(*size)).max_by_key(|(_, size)| *size);
    let (name, size) = best.expect("one divides everything");
    if value == 0 { write!(f, "0{}", units[units.len() - 1].0) } else { write!(f, "{}{name}", value / size) }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        print_with_unit(f, self.0, RATE_UNITS)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        print_with_unit(f, self.0, BYTE_UNITS)
    }
}

impl FromStr for Rate {
    type Err = ParseUnitError;

    /// Reads `10Gbit/s`, `2.5Gbit/s`; the unit is required.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse_with_unit(text, "a rate such as \"10Gbit/s\"", READ_RATE_UNITS).map(Self)
    }
}

impl FromStr for Bytes {
    type Err = ParseUnitError;

    /// Reads `250MB`, `64KiB`, `1460B`; the unit is required.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse_with_unit(text, "a size such as \"250MB\"", BYTE_UNITS).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn quantities_parse_and_print() {
        assert_eq!("10Gbit/s".parse::<Rate>().unwrap(), Rate::from_gbit_per_sec(10));
        assert_eq!("2.5Gbit/s".parse::<Rate>().unwrap().bits_per_sec(), 2_500_000_000);
        assert_eq!("2.5Gbps".parse::<Rate>().unwrap().to_string(), "2500Mbit/s", "read, and printed the one way");
        assert_eq!("250MB".parse::<Bytes>().unwrap(), Bytes(250_000_000));
        assert_eq!("1 MiB".parse::<Bytes>().unwrap(), Bytes(1 << 20));
        assert_eq!(Bytes(1 << 20).to_string(), "1MiB");
        assert_eq!(Bytes(250_000).to_string(), "250kB");
        assert_eq!(Rate::from_gbit_per_sec(40).to_string(), "40Gbit/s");
        for bad in ["", "10", "Gbit/s", "1.2.3MB", "0.5B", "10 Gb", "99999999999999999999MB", "-1MB", ".MB"] {
            assert!(bad.parse::<Rate>().is_err() && bad.parse::<Bytes>().is_err(), "{bad}");
        }
    }

    #[test]
    fn serializer_carries_the_remainder() {
        let mut third = Serializer::new(Rate::from_bits_per_sec(3));
        let total: u64 = (0..3).map(|_| third.transmit(1).as_ps()).sum();
        assert_eq!(total, 8_000_000_000_000, "three bytes at 3 bit/s take exactly 8 s");
        let mut ten = Serializer::new(Rate::from_gbit_per_sec(10));
        assert_eq!(ten.transmit(1500), Span::from_ns(1200));
    }

    #[test]
    fn rate_and_time_are_inverse() {
        let rate = Rate::from_gbit_per_sec(40);
        assert_eq!(rate.time_for(1538), Span::from_ps(307_600));
        assert_eq!(rate.bytes_in(Span::from_ps(307_600)), 1538);
    }
}
