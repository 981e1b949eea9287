//! Quantities with units in configuration files: `#[serde(with = "units_serde::span")]`.

use std::fmt::Display;
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize as _, Deserializer, Serializer};

fn write<T: Display, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

fn read<'de, T: FromStr<Err: Display>, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
}

fn write_option<T: Display, S: Serializer>(value: Option<&T>, serializer: S) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => serializer.collect_str(value),
        None => serializer.serialize_none(),
    }
}

macro_rules! quantity {
    ($name:ident, $type:ty) => {
        #[doc = concat!("A [`", stringify!($type), "`] as text with its unit.")]
        pub(crate) mod $name {
            use serde::{Deserializer, Serializer};

            pub(crate) fn serialize<S: Serializer>(value: &$type, serializer: S) -> Result<S::Ok, S::Error> {
                super::write(value, serializer)
            }

            pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<$type, D::Error> {
                super::read(deserializer)
            }
        }
    };
}

macro_rules! optional_quantity {
    ($name:ident, $type:ty) => {
        #[doc = concat!("An optional [`", stringify!($type), "`]; pair it with `#[serde(default)]`.")]
        pub(crate) mod $name {
            use serde::{Deserializer, Serializer};

            #[allow(clippy::ref_option, reason = "serde calls it with a reference to the field")]
            pub(crate) fn serialize<S: Serializer>(value: &Option<$type>, serializer: S) -> Result<S::Ok, S::Error> {
                super::write_option(value.as_ref(), serializer)
            }

            pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<$type>, D::Error> {
                super::read(deserializer).map(Some)
            }
        }
    };
}

quantity!(span, pliant_proto::time::Span);
optional_quantity!(option_span, pliant_proto::time::Span);
optional_quantity!(option_bytes, pliant_proto::units::Bytes);
