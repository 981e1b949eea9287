//! Quantities with units in scenario files: `#[serde(with = "crate::units_serde")]`.
//!
//! Works for every type that is read and printed as text with a unit: `Rate`, `Span`, `Bytes`. A bare number is
//! refused, so no file depends on a default unit.

use std::fmt::{self, Display};
use std::marker::PhantomData;
use std::str::FromStr;

use serde::de::{Deserializer, Error, Visitor};
use serde::ser::Serializer;

/// Writes `value` as text with its unit.
pub fn serialize<T: Display, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

/// Reads a value from text with a unit.
pub fn deserialize<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: FromStr<Err: Display>,
    D: Deserializer<'de>,
{
    deserializer.deserialize_str(QuantityVisitor(PhantomData))
}

struct QuantityVisitor<T>(PhantomData<T>);

impl<T: FromStr<Err: Display>> Visitor<'_> for QuantityVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a quantity with its unit in quotes, such as \"10Gbit/s\", \"5us\" or \"250MB\"")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }
}

/// The same for `Option`: add `#[serde(default)]` to let the key be left out.
pub mod optional {
    use std::fmt::Display;
    use std::str::FromStr;

    use serde::de::Deserializer;
    use serde::ser::Serializer;

    /// Writes the value, if there is one, as text with its unit.
    pub fn serialize<T: Display, S: Serializer>(value: &Option<T>, serializer: S) -> Result<S::Ok, S::Error> {
        match value {
            Some(value) => serializer.collect_str(value),
            None => serializer.serialize_none(),
        }
    }

    /// Reads a value from text with a unit.
    pub fn deserialize<'de, T, D>(deserializer: D) -> Result<Option<T>, D::Error>
    where
        T: FromStr<Err: Display>,
        D: Deserializer<'de>,
    {
        super::deserialize(deserializer).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use pliant_proto::time::Span;
    use pliant_proto::units::{Bytes, Rate};
    use serde::{Deserialize, Serialize};

    #[derive(Serialize, Deserialize, PartialEq, Debug)]
    struct Quantities {
        #[serde(with = "super")]
        rate: Rate,
        #[serde(with = "super")]
        delay: Span,
        #[serde(default, with = "super::optional")]
        buffer: Option<Bytes>,
    }

    #[test]
    fn quantities_survive_a_round_trip() {
        let text = "rate = \"2500Mbit/s\"\ndelay = \"1500ns\"\nbuffer = \"250MB\"\n";
        let read: Quantities = toml::from_str(text).unwrap();
        assert_eq!((read.rate.bits_per_sec(), read.delay), (2_500_000_000, Span::from_ns(1500)));
        assert_eq!(read.buffer, Some(Bytes(250_000_000)));
        assert_eq!(toml::to_string(&read).unwrap(), text);
        let without: Quantities = toml::from_str("rate = \"1Gbit/s\"\ndelay = \"0s\"").unwrap();
        assert_eq!(without.buffer, None);
        assert_eq!(toml::from_str::<Quantities>(&toml::to_string(&without).unwrap()).unwrap(), without);
    }

    #[test]
    fn bare_numbers_and_foreign_units_are_refused() {
        let error = |text| toml::from_str::<Quantities>(text).unwrap_err().to_string();
        assert!(error("rate = 10\ndelay = \"1us\"").contains("quantity with its unit"));
        assert!(error("rate = \"10Gb\"\ndelay = \"1us\"").contains("unit is not known"));
        assert!(error("rate = \"1Gbit/s\"\ndelay = \"1Gbit/s\"").contains("is not a time"));
    }
}
