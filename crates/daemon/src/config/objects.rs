//! The table `[objects]` of the configuration file.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use pliant_proto::units::Bytes;
use serde::Deserialize;
use toml::Spanned;

use super::class::from_text;

/// The table.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ObjectsTable {
    pub(super) listen: Spanned<SocketAddr>,
    pub(super) class: Spanned<String>,
    #[serde(default)]
    pub(super) offer: Vec<Spanned<PathBuf>>,
    /// Offered folders with everything in them, by name.
    #[serde(default)]
    pub(super) folders: BTreeMap<Spanned<String>, FolderTable>,
    #[serde(default)]
    pub(super) sources: BTreeMap<Spanned<String>, SocketAddr>,
    /// Folders of HTTP and S3 servers with the same files.
    #[serde(default)]
    pub(super) mirrors: Vec<Spanned<String>>,
    /// The required hash of a file, by name.
    #[serde(default)]
    pub(super) hashes: BTreeMap<String, Spanned<String>>,
    #[serde(default = "default_cache")]
    pub(super) cache: PathBuf,
    #[serde(default = "default_limit", deserialize_with = "from_text")]
    pub(super) cache_limit: Bytes,
    /// Where programs fetch them, by HTTP.
    pub(super) door: Option<Spanned<SocketAddr>>,
}

/// An offered folder.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FolderTable {
    pub(super) path: Spanned<PathBuf>,
    #[serde(default)]
    pub(super) include: Vec<Spanned<String>>,
    #[serde(default)]
    pub(super) exclude: Vec<Spanned<String>>,
}

fn default_cache() -> PathBuf {
    "objects".into()
}

fn default_limit() -> Bytes {
    Bytes(10 << 30)
}
