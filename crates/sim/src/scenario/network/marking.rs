//! The keys `ecn` and `red` of a queue.

use std::fmt;

use pliant_proto::switch::marker::{Level, MarkAt, MarkerConfig, PhantomConfig, RedConfig, RedUnit, Scope, Threshold};
use pliant_proto::time::Span;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};

use super::limit::Length;
use crate::units_serde;

/// Time of a full Ethernet frame at 10 Gbit/s.
pub(super) const DEFAULT_MEAN_PACKET_TIME: Span = Span::from_ps(1_230_400);

/// Marking above a threshold: `"65 packets"`, `"80us"`, a table with more keys, or `false`.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum EcnSpec {
    /// Does not mark.
    #[default]
    Off,
    /// Marks.
    On(ThresholdSpec),
}

/// A marking threshold.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ThresholdSpec {
    /// A packet that finds so many packets, or with which more than so many bytes are queued, is marked; a time stands
    /// for the bytes that the link sends in it. The DCTCP paper uses 65 packets at 10 Gbit/s, 20 at 1 Gbit/s.
    pub threshold: Length,
    /// When the queue is looked at: `"enqueue"` or `"dequeue"`. Default: `"enqueue"`.
    #[serde(default)]
    pub at: At,
    /// What is looked at: the `"queue"` itself or the whole `"port"`. Default: `"queue"`.
    #[serde(default)]
    pub scope: Of,
    /// What becomes of packets that cannot be marked: `"drop"` (RFC 3168) or `"pass"`. Default: `"drop"`.
    #[serde(default)]
    pub not_ect: NotEct,
    /// The threshold is that of a phantom queue, which drains at this share of the link's rate, in (0, 1] (HULL, NSDI 2012,
    /// section 4.1). Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain: Option<f64>,
}

/// When a threshold is compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum At {
    /// When a packet joins the queue.
    #[default]
    Enqueue,
    /// When it leaves, with the queue it leaves behind.
    Dequeue,
}

/// What counts as the queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Of {
    /// The packet's own queue.
    #[default]
    Queue,
    /// All queues of the port.
    Port,
}

/// What becomes of packets that cannot be marked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NotEct {
    /// They are dropped where others are marked.
    #[default]
    Drop,
    /// They pass.
    Pass,
}

/// A queue length of RED: a number of packets, or a text such as `"30kB"` or `"80us"`.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(untagged, expecting = "a number of packets, or a length such as \"30kB\" or \"80us\"")]
pub enum RedLength {
    /// Packets; not whole, as the queue is averaged.
    Packets(f64),
    /// Bytes, or time of the link.
    Length(Length),
}

impl RedLength {
    fn measured(self) -> (f64, RedUnit) {
        match self {
            Self::Packets(packets) => (packets, RedUnit::Packets),
            Self::Length(Length(Level::Packets(packets))) => (f64::from(packets), RedUnit::Packets),
            Self::Length(Length(Level::Bytes(bytes))) => (bytes as f64, RedUnit::Bytes),
            Self::Length(Length(Level::Time(span))) => (span.as_secs_f64(), RedUnit::Seconds),
        }
    }
}

/// Random early detection (Floyd and Jacobson 1993).
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RedSpec {
    /// Average queue at which marking begins: packets as a number, at least 0, or bytes or time of the link as text.
    pub min: RedLength,
    /// Average queue at which `max_probability` is reached, in the same unit, at least `min`.
    pub max: RedLength,
    /// Marking probability there, in (0, 1]. Default: 0.1.
    #[serde(default = "default_max_probability")]
    pub max_probability: f64,
    /// Weight of the queue now in the average, in (0, 1]. Default: 0.002.
    #[serde(default = "default_weight")]
    pub weight: f64,
    /// The probability rises to 1 between `max` and twice `max` instead of jumping. Default: true.
    #[serde(default = "default_gentle")]
    pub gentle: bool,
    /// Drops above that even what could be marked. Default: false.
    #[serde(default)]
    pub hard_drop: bool,
    /// Time of one mean packet, by which the average decays while idle. Default: a full frame at 10 Gbit/s.
    #[serde(default = "default_mean_packet_time", with = "units_serde")]
    pub mean_packet_time: Span,
    /// Spreads marks evenly; otherwise each packet is judged by itself. Default: true.
    #[serde(default = "default_spread")]
    pub spread: bool,
    /// With `spread`: at least 1/p packets between marks in place of 1, as in ns-2 and ns-3. Default: false.
    #[serde(default)]
    pub wait: bool,
    /// A packet that finds at most one queued passes, and spacing starts over, as in ns-2 and ns-3. Default: false.
    #[serde(default)]
    pub spares_short: bool,
}

fn default_spread() -> bool {
    true
}

fn default_max_probability() -> f64 {
    0.1
}

fn default_weight() -> f64 {
    0.002
}

fn default_gentle() -> bool {
    true
}

fn default_mean_packet_time() -> Span {
    DEFAULT_MEAN_PACKET_TIME
}

impl EcnSpec {
    /// Marks at `threshold`, with every other key at its default.
    pub(super) const fn threshold(threshold: Length) -> Self {
        Self::On(ThresholdSpec { threshold, at: At::Enqueue, scope: Of::Queue, not_ect: NotEct::Drop, drain: None })
    }

    /// The same, but packets that cannot be marked pass.
    pub(super) fn passing(self) -> Self {
        match self {
            Self::Off => Self::Off,
            Self::On(spec) => Self::On(ThresholdSpec { not_ect: NotEct::Pass, ..spec }),
        }
    }

    /// Whether it does not mark.
    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference to the field")]
    pub(super) fn is_off(&self) -> bool {
        *self == Self::Off
    }

    pub(super) fn marker(self) -> MarkerConfig {
        let Self::On(spec) = self else { return MarkerConfig::None };
        let pass_not_ect = spec.not_ect == NotEct::Pass;
        if let Some(drain) = spec.drain {
            return MarkerConfig::Phantom(PhantomConfig { drain, level: spec.threshold.0, pass_not_ect });
        }
        MarkerConfig::Threshold(Threshold {
            level: spec.threshold.0,
            at: match spec.at {
                At::Enqueue => MarkAt::Enqueue,
                At::Dequeue => MarkAt::Dequeue,
            },
            scope: match spec.scope {
                Of::Queue => Scope::Queue,
                Of::Port => Scope::Port,
            },
            pass_not_ect,
        })
    }
}

impl RedSpec {
    /// Drops by the queue of the moment, linearly from none at `min` to all at `max` packets.
    pub(super) fn instantaneous(min: f64, max: f64) -> Self {
        Self {
            min: RedLength::Packets(min),
            max: RedLength::Packets(max),
            max_probability: 1.0,
            weight: 1.0,
            gentle: false,
            hard_drop: false,
            mean_packet_time: default_mean_packet_time(),
            spread: false,
            wait: false,
            spares_short: false,
        }
    }

    pub(super) fn marker(&self) -> Result<MarkerConfig, &'static str> {
        let ((min, unit), (max, unit_of_max)) = (self.min.measured(), self.max.measured());
        if unit != unit_of_max {
            return Err("min and max must both be in packets, in bytes or in time");
        }
        Ok(MarkerConfig::Red(RedConfig {
            min,
            max,
            unit,
            max_probability: self.max_probability,
            weight: self.weight,
            gentle: self.gentle,
            hard_drop: self.hard_drop,
            mean_packet_time: self.mean_packet_time,
            spread: self.spread,
            wait: self.wait,
            spares_short: self.spares_short,
        }))
    }
}

impl Serialize for EcnSpec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Off => serializer.serialize_bool(false),
            Self::On(threshold) => threshold.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for EcnSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(EcnVisitor)
    }
}

struct EcnVisitor;

impl<'de> Visitor<'de> for EcnVisitor {
    type Value = EcnSpec;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a threshold such as \"65 packets\" or \"80us\", a table with the key threshold, or false")
    }

    fn visit_bool<E: Error>(self, on: bool) -> Result<EcnSpec, E> {
        if on { Err(E::custom("true needs a threshold, such as \"65 packets\"")) } else { Ok(EcnSpec::Off) }
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<EcnSpec, E> {
        text.parse().map(EcnSpec::threshold).map_err(E::custom)
    }

    fn visit_map<M: MapAccess<'de>>(self, map: M) -> Result<EcnSpec, M::Error> {
        let spec = ThresholdSpec::deserialize(MapAccessDeserializer::new(map))?;
        if spec.drain.is_some() && (spec.at, spec.scope) != (At::Enqueue, Of::Queue) {
            return Err(M::Error::custom("`drain` counts what comes to its own queue: leave out `at` and `scope`"));
        }
        Ok(EcnSpec::On(spec))
    }
}
