//! Numbers with units, as people write them.

use alloc::string::String;
use core::fmt;

/// Why a quantity with a unit was not understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseUnitError {
    text: String,
    expected: &'static str,
    why: &'static str,
    /// Units that would have been understood, if that is the matter.
    units: &'static [(&'static str, u64)],
}

impl fmt::Display for ParseUnitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\" is not {}: {}", self.text, self.expected, self.why)?;
        for (index, (name, _)) in self.units.iter().enumerate() {
            write!(f, "{}{name}", if index == 0 { ", there are: " } else { ", " })?;
        }
        Ok(())
    }
}

impl core::error::Error for ParseUnitError {}

/// Reads a decimal number followed by one of `units`, exactly: a value that is not a whole number of the smallest
/// unit, or does not fit, is refused.
pub(crate) fn parse_with_unit(
    text: &str,
    expected: &'static str,
    units: &'static [(&'static str, u64)],
) -> Result<u64, ParseUnitError> {
    let fail = |why| ParseUnitError { text: text.chars().take(40).collect(), expected, why, units: &[] };
    let trimmed = text.trim();
    let split = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '_').unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(split);
    let unit = unit.trim();
    if number.is_empty() {
        return Err(fail("it has no number"));
    }
    if unit.is_empty() {
        return Err(ParseUnitError { units, ..fail("it has no unit") });
    }
    let Some((_, size)) = units.iter().find(|(name, _)| *name == unit) else {
        return Err(ParseUnitError { units, ..fail("its unit is not known here") });
    };
    let (mut value, mut scale, mut seen_point, mut seen_digit) = (0u128, 1u128, false, false);
    for c in number.chars() {
        match c {
            '_' => {}
            '.' if seen_point => return Err(fail("it has two decimal points")),
            '.' => seen_point = true,
            digit => {
                seen_digit = true;
                value = value * 10 + u128::from(digit as u8 - b'0');
                if seen_point {
                    scale *= 10;
                }
                if value > u128::from(u64::MAX) || scale > 1_000_000_000_000_000_000 {
                    return Err(fail("it has too many digits"));
                }
            }
        }
    }
    if !seen_digit {
        return Err(fail("it has no number"));
    }
    let total = value * u128::from(*size);
    if total % scale != 0 {
        return Err(fail("it is not a whole number of the smallest unit"));
    }
    u64::try_from(total / scale).map_err(|_| fail("it is too large"))
}
