//! The `topology` table of a scenario file.

use std::fmt;
use std::ops::RangeInclusive;

use pliant_proto::time::Span;
use pliant_proto::units::Rate;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde::{Deserialize, Serialize};

use super::{MAX_HOSTS, TopologyError};

/// A topology that scenarios can name.
#[derive(Clone, Copy, Debug)]
pub struct TopologyKind {
    /// Its name: the value of `kind`.
    pub name: &'static str,
    /// What it is, in a line.
    pub description: &'static str,
    /// A table `topology` to copy.
    pub example: &'static str,
}

/// A kind of cable: `{ rate = "10Gbit/s", delay = "1us" }`, or `"10Gbit/s"` with the usual delay. Both directions are alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LinkSpec {
    /// Transmission rate of each direction; above zero.
    #[serde(with = "crate::units_serde")]
    pub rate: Rate,
    /// Propagation delay of each direction; switch processing may be added here.
    #[serde(with = "crate::units_serde")]
    pub delay: Span,
}

/// Delay of a cable of which only the rate is given: that of a switch and some metres.
const USUAL_DELAY: Span = Span::from_us(1);

impl<'de> Deserialize<'de> for LinkSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(LinkVisitor)
    }
}

struct LinkVisitor;

impl<'de> Visitor<'de> for LinkVisitor {
    type Value = LinkSpec;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a rate such as \"10Gbit/s\", or a table with the keys rate and delay")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<LinkSpec, E> {
        Ok(LinkSpec { rate: text.parse().map_err(E::custom)?, delay: USUAL_DELAY })
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<LinkSpec, A::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Keys {
            #[serde(with = "crate::units_serde")]
            rate: Rate,
            #[serde(with = "crate::units_serde")]
            delay: Span,
        }
        let Keys { rate, delay } = Keys::deserialize(MapAccessDeserializer::new(map))?;
        Ok(LinkSpec { rate, delay })
    }
}

impl LinkSpec {
    /// Refuses a rate of zero, naming `key`.
    pub(super) fn check(self, key: &'static str) -> Result<Self, TopologyError> {
        if self.rate.bits_per_sec() == 0 { Err(TopologyError::ZeroRate { key }) } else { Ok(self) }
    }

    /// The same cable at a host that takes `host_delay` to process a packet.
    pub(super) fn at_host(self, host_delay: Span) -> Self {
        Self { delay: self.delay.plus(host_delay), ..self }
    }
}

/// Refuses a `value` outside `range`, naming `key`.
pub(super) fn check_range(key: &'static str, value: u32, range: RangeInclusive<u64>) -> Result<u64, TopologyError> {
    let value = u64::from(value);
    if range.contains(&value) {
        Ok(value)
    } else {
        Err(TopologyError::OutOfRange { key, value, minimum: *range.start(), maximum: *range.end() })
    }
}

/// Refuses a count of zero or beyond any topology, naming `key`.
pub(super) fn check_count(key: &'static str, value: u32) -> Result<u64, TopologyError> {
    check_range(key, value, 1..=MAX_HOSTS)
}
