//! Lengths of queues, in packets or bytes.

use std::fmt;
use std::str::FromStr;

use pliant_proto::switch::marker::Level;
use pliant_proto::time::Span;
use pliant_proto::units::Bytes;
use serde::{Deserialize, Serialize};

/// What a queue holds: `"466 packets"`, `"1MB"`, `"40ms"` of what its link sends, or several, `"466 packets, 1MB"`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Limit {
    packets: Option<u32>,
    bytes: Option<u64>,
    time: Option<Span>,
}

impl Limit {
    /// Packets only.
    pub const fn in_packets(packets: u32) -> Self {
        Self { packets: Some(packets), bytes: None, time: None }
    }

    /// Bytes only.
    pub const fn in_bytes(bytes: u64) -> Self {
        Self { packets: None, bytes: Some(bytes), time: None }
    }

    /// Most packets.
    pub fn packets(self) -> u32 {
        self.packets.unwrap_or(u32::MAX)
    }

    /// Most bytes.
    pub fn bytes(self) -> u64 {
        self.bytes.unwrap_or(u64::MAX)
    }

    /// Most bytes, as the time in which the link sends them.
    pub fn time(self) -> Option<Span> {
        self.time
    }
}

/// A queue length at which something happens: `"65 packets"`, `"100kB"`, or `"78us"` of what its link sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Length(pub Level);

impl FromStr for Length {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if let Some(number) = text.strip_suffix("packets").or_else(|| text.strip_suffix("packet")) {
            let packets = number.trim().parse();
            let level = packets.map(|packets| Self(Level::Packets(packets)));
            return level.map_err(|_| format!("\"{text}\" is not a whole number of packets"));
        }
        let bytes = || text.parse().map(|Bytes(bytes)| Level::Bytes(bytes));
        let level = text.parse().map(Level::Time).or_else(|_| bytes()).map(Self);
        level.map_err(|_| format!("\"{text}\" is not a queue length such as \"65 packets\", \"100kB\" or \"78us\""))
    }
}

impl fmt::Display for Length {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Level::Packets(packets) => write!(f, "{packets} packets"),
            Level::Bytes(bytes) => Bytes(bytes).fmt(f),
            Level::Time(span) => span.fmt(f),
        }
    }
}

impl FromStr for Limit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut limit = Self::default();
        for part in text.split(',') {
            let twice = match part.parse::<Length>()?.0 {
                Level::Packets(packets) => limit.packets.replace(packets).is_some(),
                Level::Bytes(bytes) => limit.bytes.replace(bytes).is_some(),
                Level::Time(span) => limit.time.replace(span).is_some(),
            };
            if twice {
                return Err(format!("\"{text}\" names two limits of one kind"));
            }
        }
        Ok(limit)
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let levels =
            [self.packets.map(Level::Packets), self.bytes.map(Level::Bytes), self.time.map(Level::Time)].into_iter();
        for (index, level) in levels.flatten().enumerate() {
            write!(f, "{}{}", if index > 0 { ", " } else { "" }, Length(level))?;
        }
        Ok(())
    }
}

macro_rules! as_text {
    ($type:ty) => {
        impl TryFrom<String> for $type {
            type Error = String;

            fn try_from(text: String) -> Result<Self, String> {
                text.parse()
            }
        }

        impl From<$type> for String {
            fn from(value: $type) -> Self {
                value.to_string()
            }
        }
    };
}

as_text!(Limit);
as_text!(Length);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_read_and_printed() {
        for text in ["466 packets", "1MB", "466 packets, 1MB", "40ms", "466 packets, 1MB, 40ms"] {
            assert_eq!(text.parse::<Limit>().unwrap().to_string(), text);
        }
        assert_eq!("65 packets".parse(), Ok(Length(Level::Packets(65))));
        assert_eq!("100kB".parse(), Ok(Length(Level::Bytes(100_000))));
        assert_eq!("78us".parse(), Ok(Length(Level::Time(Span::from_us(78)))));
        for bad in ["", "65", "65 parcels", "-1 packets", "1 packets, 2 packets", "1MB, 1kB", "1ms, 1s", "packets"] {
            assert!(bad.parse::<Limit>().is_err(), "{bad}");
        }
    }
}
