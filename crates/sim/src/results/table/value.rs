//! The value of a column in one row, and what kinds of values there are.

use std::borrow::Cow;

/// What a column holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Unsigned 64-bit integers.
    Integer,
    /// Unsigned 64-bit integers, or nothing.
    OptionalInteger,
    /// Floating-point numbers, or nothing.
    OptionalNumber,
    /// Text.
    Text,
}

/// The value of a column in one row.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Value<'a> {
    Integer(u64),
    OptionalInteger(Option<u64>),
    OptionalNumber(Option<f64>),
    Text(Cow<'a, str>),
}

impl Value<'_> {
    #[inline]
    pub(crate) fn integer(&self) -> u64 {
        if let Self::Integer(value) = self { *value } else { unreachable!("{self:?} in a column of integers") }
    }

    #[inline]
    pub(crate) fn optional_integer(&self) -> Option<u64> {
        if let Self::OptionalInteger(value) = self {
            *value
        } else {
            unreachable!("{self:?} for an integer or nothing")
        }
    }

    #[inline]
    pub(crate) fn optional_number(&self) -> Option<f64> {
        if let Self::OptionalNumber(value) = self { *value } else { unreachable!("{self:?} for a number or nothing") }
    }

    /// The text of a column of text.
    pub(crate) fn text(&self) -> &str {
        if let Self::Text(value) = self { value } else { unreachable!("{self:?} in a column of text") }
    }

    /// The integer of an optional column, if there is one and it fits into 32 bits.
    pub(crate) fn optional_small(&self) -> Result<Option<u32>, String> {
        self.optional_integer().map(small).transpose()
    }

    /// The value as a number. `None` of text, and where there is nothing.
    pub(crate) fn number(&self) -> Option<f64> {
        match *self {
            Self::Integer(value) => Some(value as f64),
            Self::OptionalInteger(value) => value.map(|value| value as f64),
            Self::OptionalNumber(value) => value,
            Self::Text(_) => None,
        }
    }
}

/// An integer that fits into `T`.
pub(super) fn small<T: TryFrom<u64>>(value: u64) -> Result<T, String> {
    T::try_from(value).map_err(|_| format!("{value} is too large"))
}
