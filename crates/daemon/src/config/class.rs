//! Classes in the configuration file.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::num::NonZeroUsize;
use std::str::FromStr;

use pliant_net::bundle::BundleClass;
use pliant_net::flow::{Classes, FlowSettings, SocketTransport};
use pliant_proto::contract::Contract;
use pliant_proto::contract::schedule::{DayPart, DaySchedule, TimeOfDay};
use pliant_proto::units::{Bytes, Rate};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use toml::{Table, Value};

use super::words::in_words;

/// A table of a class.
#[derive(Deserialize, Clone, Debug)]
#[serde(deny_unknown_fields)]
pub(super) struct ClassTable {
    #[serde(deserialize_with = "from_text")]
    transport: SocketTransport,
    #[serde(default = "one")]
    weight: f64,
    #[serde(default = "one")]
    min_share: f64,
    #[serde(default, deserialize_with = "some_from_text")]
    min_rate: Option<Rate>,
    #[serde(default, deserialize_with = "some_from_text")]
    max_rate: Option<Rate>,
    #[serde(default)]
    schedule: Vec<PartTable>,
    #[serde(default)]
    class: u8,
    #[serde(default)]
    message_class: Option<u8>,
    #[serde(default, deserialize_with = "some_from_text")]
    message_line_rate: Option<Rate>,
    #[serde(default = "default_mtu")]
    mtu: u16,
    #[serde(default = "default_streams", deserialize_with = "above_zero")]
    max_streams: usize,
    #[serde(default = "default_memory", deserialize_with = "from_text")]
    memory: Bytes,
    #[serde(default = "default_unread", deserialize_with = "from_text")]
    unread: Bytes,
    #[serde(default = "default_window", deserialize_with = "from_text")]
    window: Bytes,
}

/// A part of the day with its own greatest rate and least share; without a rate there is no limit.
#[derive(Deserialize, Clone, Copy, Debug)]
#[serde(deny_unknown_fields)]
struct PartTable {
    #[serde(deserialize_with = "from_text")]
    from: TimeOfDay,
    #[serde(deserialize_with = "from_text")]
    to: TimeOfDay,
    #[serde(default, deserialize_with = "some_from_text")]
    max_rate: Option<Rate>,
    #[serde(default)]
    min_share: Option<f64>,
}

fn one() -> f64 {
    1.0
}

fn default_mtu() -> u16 {
    1200
}

fn default_streams() -> usize {
    10_000
}

fn default_memory() -> Bytes {
    Bytes(128 << 20)
}

fn default_unread() -> Bytes {
    Bytes(256 << 20)
}

fn default_window() -> Bytes {
    Bytes(8 << 20)
}

pub(super) fn from_text<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err: Display>,
{
    // What is no text is told as what the key wants: a rate without a unit may be a number.
    let text = match Value::deserialize(deserializer)? {
        Value::String(text) => text,
        other => other.to_string(),
    };
    text.parse().map_err(D::Error::custom)
}

/// A number above zero, because nothing can be opened at zero.
pub(super) fn above_zero<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    NonZeroUsize::deserialize(deserializer).map(NonZeroUsize::get)
}

/// A rate above zero, because nothing can be sent at zero.
fn some_from_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Rate>, D::Error> {
    let rate: Rate = from_text(deserializer)?;
    if rate.bits_per_sec() == 0 { Err(D::Error::custom("a rate above zero is wanted")) } else { Ok(Some(rate)) }
}

impl ClassTable {
    /// A key that says how messages travel, if it has one.
    pub(super) fn message_key(&self) -> Option<&'static str> {
        let line_rate = self.message_line_rate.map(|_| "message_line_rate");
        self.message_class.map(|_| "message_class").or(line_rate)
    }

    /// The class, if it can carry streams.
    pub(super) fn to_class(&self, name: &str) -> std::io::Result<BundleClass> {
        let contract = Contract {
            weight: self.weight,
            min_share: self.min_share,
            min_rate: self.min_rate.unwrap_or_default(),
            max_rate: self.max_rate,
            ..Contract::default()
        };
        let flow = FlowSettings {
            transport: self.transport,
            contract,
            classes: Classes { data: self.class, control: self.class, ..Classes::default() },
            mtu: self.mtu,
            ..FlowSettings::default()
        }
        .with_receive_buffer(self.window.0);
        let part = |&PartTable { from, to, max_rate, min_share }: &PartTable| DayPart { from, to, max_rate, min_share };
        let schedule = DaySchedule::new(self.schedule.iter().map(part).collect());
        let wrong = |error| std::io::Error::other(format!("class {name}: schedule: {error}"));
        let class = BundleClass {
            name: name.to_owned(),
            flow,
            message_class: self.message_class.unwrap_or(self.class),
            message_line_rate: self.message_line_rate,
            schedule: schedule.map_err(wrong)?,
            max_streams: self.max_streams,
            window_budget: self.memory.0,
            max_unread: self.unread.0,
        };
        class.check()?;
        Ok(class)
    }
}

/// A class with some of its keys changed, each as it would be written in the file; `none` removes a key.
pub(super) fn set_keys(table: &Table, name: &str, settings: &BTreeMap<String, String>) -> Result<Changed, String> {
    let mut table = table.clone();
    for (key, text) in settings {
        if text == "none" {
            table.remove(key);
            continue;
        }
        // Numbers are numbers where the key wants one; all else is text.
        let number = || text.parse().map(Value::Integer).ok().or_else(|| text.parse().map(Value::Float).ok());
        table.insert(key.clone(), number().unwrap_or_else(|| Value::String(text.clone())));
    }
    let written = ClassTable::deserialize(table.clone()).map_err(|error| in_words(error.message()))?;
    let class = written.to_class(name).map_err(|error| error.to_string())?;
    Ok(Changed { table, class })
}

/// The result of [`set_keys`].
pub(super) struct Changed {
    pub(super) table: Table,
    pub(super) class: BundleClass,
}
