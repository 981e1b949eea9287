//! How large flows are: the published distributions, and sizes as a scenario names them.

mod distribution;
mod messages;
mod packets;
mod records;

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use pliant_proto::units::Bytes;
use serde::{Deserialize, Serialize};

use crate::suggest;
use crate::text_file;

pub use distribution::{Distribution, DistributionError, MAX_LINES, MAX_SIZE_BYTES};
pub use messages::{GapLaw, Message, MessageSource, Messages, MessagesSpec};
pub use packets::PacketFormat;
pub use records::{DATA_FOLDER, Records, missing_data};

/// The distributions that are part of the program: name and table.
pub const BUILT_IN: &[(&str, &str)] = &[
    ("alibaba_storage", include_str!("../../../../workloads/alibaba_storage.csv")),
    ("cache_follower", include_str!("../../../../workloads/cache_follower.csv")),
    ("data_mining", include_str!("../../../../workloads/data_mining.csv")),
    ("flexpass_cache_follower", include_str!("../../../../workloads/flexpass_cache_follower.csv")),
    ("flexpass_data_mining", include_str!("../../../../workloads/flexpass_data_mining.csv")),
    ("flexpass_facebook", include_str!("../../../../workloads/flexpass_facebook.csv")),
    ("flexpass_web_server", include_str!("../../../../workloads/flexpass_web_server.csv")),
    ("hadoop", include_str!("../../../../workloads/hadoop.csv")),
    ("key_value", include_str!("../../../../workloads/key_value.csv")),
    ("web_search", include_str!("../../../../workloads/web_search.csv")),
    ("web_server", include_str!("../../../../workloads/web_server.csv")),
];

/// Flow sizes as a scenario names them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Size {
    /// Every flow has this many bytes.
    Fixed(u64),
    /// Every whole number of bytes from the first to the second, both included, is equally likely.
    Uniform(u64, u64),
    /// The name of a [`BUILT_IN`] distribution, the path of a file of the same form, or the text of such a file.
    Workload(String),
}

impl Size {
    /// The distribution to draw from. A name that is not built in is a path, relative to `directory`.
    pub fn distribution(&self, directory: &Path) -> Result<Distribution, DistributionError> {
        match self {
            Self::Fixed(bytes) => Distribution::fixed(*bytes),
            Self::Uniform(least, most) => Distribution::uniform(*least, *most),
            Self::Workload(name) => workload(name, directory),
        }
    }
}

/// Whether the value of a key `workload` is itself the table of sizes: it has lines, as neither name nor path has.
pub(crate) fn is_table(workload: &str) -> bool {
    workload.contains('\n')
}

fn workload(name: &str, directory: &Path) -> Result<Distribution, DistributionError> {
    if let Some((_, text)) = BUILT_IN.iter().find(|(built_in, _)| *built_in == name) {
        return Distribution::parse(name, text);
    }
    if is_table(name) {
        return Distribution::parse("table of sizes", name);
    }
    if !name.contains(['/', '\\', '.']) {
        let hint = suggest::hint(name, BUILT_IN.iter().map(|(name, _)| *name));
        return Err(DistributionError::Unknown { name: name.to_owned(), hint });
    }
    let text = text_file::read(&directory.join(name))
        .map_err(|error| DistributionError::Unreadable { name: name.to_owned(), why: error.to_string() })?;
    Distribution::parse(name, &text)
}

/// The text of a `size` key: `"1MB"` is a fixed size, `"2kB..200kB"` a uniform one with both ends included.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SizeRange {
    least: u64,
    most: u64,
}

impl SizeRange {
    /// Every flow has `bytes` bytes.
    pub const fn fixed(bytes: u64) -> Self {
        Self { least: bytes, most: bytes }
    }

    /// Smallest size in bytes.
    pub const fn least(self) -> u64 {
        self.least
    }

    /// Largest size in bytes.
    pub const fn most(self) -> u64 {
        self.most
    }

    /// What the text means.
    pub const fn size(self) -> Size {
        if self.least == self.most { Size::Fixed(self.least) } else { Size::Uniform(self.least, self.most) }
    }
}

impl FromStr for SizeRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bytes = |text: &str| text.parse::<Bytes>().map(|bytes| bytes.0).map_err(|error| error.to_string());
        let (least, most) = text.split_once("..").unwrap_or((text, text));
        Ok(Self { least: bytes(least)?, most: bytes(most)? })
    }
}

impl TryFrom<String> for SizeRange {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl fmt::Display for SizeRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.size() {
            Size::Uniform(least, most) => write!(f, "{}..{}", Bytes(least), Bytes(most)),
            _ => Bytes(self.least).fmt(f),
        }
    }
}

impl From<SizeRange> for String {
    fn from(range: SizeRange) -> Self {
        range.to_string()
    }
}

#[cfg(test)]
mod tests;
