//! Lengths of queues, in packets or bytes.

use std::fmt;
use std::str::FromStr;

use pliant_proto::switch::marker::Level;
use pliant_proto::units::Bytes;
use serde::{Deserialize, Serialize};

/// What a queue holds: `"466 packets"`, `"1MB"`, or both, `"466 packets, 1MB"`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Limit {
    packets: Option<u32>,
    bytes: Option<u64>,
}

impl Limit {
    /// Packets only.
    pub const fn in_packets(packets: u32) -> Self {
        Self { packets: Some(packets), bytes: None }
    }

    /// Bytes only.
    pub const fn in_bytes(bytes: u64) -> Self {
        Self { packets: None, bytes: Some(bytes) }
    }

    /// Most packets.
    pub fn packets(self) -> u32 {
        self.packets.unwrap_or(u32::MAX)
    }

    /// Most bytes.
    pub fn bytes(self) -> u64 {
        self.bytes.unwrap_or(u64::MAX)
    }
}

/// A queue length at which something happens: `"65 packets"` or `"100kB"`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Length(pub Level);

/// Reads `65 packets` or `100kB`.
fn parse_level(text: &str) -> Result<Level, String> {
    let text = text.trim();
    let Some(number) = text.strip_suffix("packets").or_else(|| text.strip_suffix("packet")) else {
        let bytes = text.parse::<Bytes>().map(|bytes| Level::Bytes(bytes.0));
        return bytes.map_err(|_| format!("\"{text}\" is not a queue length such as \"65 packets\" or \"100kB\""));
    };
    let packets = number.trim().parse();
    packets.map(Level::Packets).map_err(|_| format!("\"{text}\" is not a whole number of packets"))
}

impl FromStr for Limit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut limit = Self { packets: None, bytes: None };
        for part in text.split(',') {
            let twice = match parse_level(part)? {
                Level::Packets(packets) => limit.packets.replace(packets).is_some(),
                Level::Bytes(bytes) => limit.bytes.replace(bytes).is_some(),
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
        match (self.packets, self.bytes) {
            (Some(packets), Some(bytes)) => write!(f, "{packets} packets, {}", Bytes(bytes)),
            (Some(packets), None) => write!(f, "{packets} packets"),
            (None, bytes) => write!(f, "{}", Bytes(bytes.unwrap_or(u64::MAX))),
        }
    }
}

impl fmt::Display for Length {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Level::Packets(packets) => write!(f, "{packets} packets"),
            Level::Bytes(bytes) => Bytes(bytes).fmt(f),
        }
    }
}

impl FromStr for Length {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        parse_level(text).map(Self)
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
        for text in ["466 packets", "1MB", "466 packets, 1MB"] {
            assert_eq!(text.parse::<Limit>().unwrap().to_string(), text);
        }
        assert_eq!("65 packets".parse(), Ok(Length(Level::Packets(65))));
        assert_eq!("100kB".parse(), Ok(Length(Level::Bytes(100_000))));
        for bad in ["", "65", "65 parcels", "-1 packets", "1 packets, 2 packets", "1MB, 1kB", "packets"] {
            assert!(bad.parse::<Limit>().is_err(), "{bad}");
        }
    }
}
