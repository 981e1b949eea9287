//! The table of files that are offered and fetched.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use pliant_net::bundle::BundleClass;
use pliant_net::connection::Keys;
use pliant_net::flow::SocketTransport;
use pliant_proto::congestion::Algorithm;
use pliant_proto::units::Bytes;
use serde::Deserialize;
use toml::Spanned;

use super::class::from_text;
use super::{ConfigError, File, Listen, Source, called_by, overlap};

/// Files that a daemon offers and fetches.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ObjectsConfig {
    /// Where others fetch them, by UDP.
    pub(crate) listen: Listen,
    /// Folders that are offered.
    pub(crate) offer: Vec<PathBuf>,
    /// Who has files, by name.
    pub(crate) sources: BTreeMap<String, SocketAddr>,
    /// Which source is called at an address, by its name in the key file.
    pub(crate) called: Vec<(SocketAddr, String)>,
    /// Where fetched files go, and most bytes of them.
    pub(crate) cache: PathBuf,
    pub(crate) cache_limit: Bytes,
    /// Whose contract all of it has.
    pub(crate) class: String,
}

/// The same as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ObjectsTable {
    listen: Spanned<SocketAddr>,
    class: Spanned<String>,
    #[serde(default)]
    offer: Vec<Spanned<PathBuf>>,
    #[serde(default)]
    sources: BTreeMap<Spanned<String>, SocketAddr>,
    #[serde(default = "default_cache")]
    cache: PathBuf,
    #[serde(default = "default_limit", deserialize_with = "from_text")]
    cache_limit: Bytes,
    /// Where programs fetch them, by HTTP.
    pub(super) door: Option<Spanned<SocketAddr>>,
}

fn default_cache() -> PathBuf {
    "objects".into()
}

fn default_limit() -> Bytes {
    Bytes(10 << 30)
}

impl ObjectsTable {
    pub(super) fn to_config(
        &self,
        source: &Source<'_>,
        file: &File,
        keys: &Keys,
        folder: &Path,
        classes: &[BundleClass],
    ) -> Result<ObjectsConfig, ConfigError> {
        let listen = source.listen(&self.listen);
        if overlap(listen.address, *file.listen.get_ref()) {
            let line = source.line(file.listen.span().start);
            let why = format!("line {line} has this port for the daemon's bundles: files need one of their own");
            return Err(source.wrong(self.listen.span().start, why));
        }
        let wrong_class = |why: String| Err(source.wrong(self.class.span().start, why));
        let name = self.class.get_ref();
        let Some(class) = classes.iter().find(|class| class.name == *name) else {
            return wrong_class(format!("there is no class `{name}` in [classes]"));
        };
        let transport = SocketTransport::Tcp(Algorithm::WeightedFair);
        if class.flow.transport != transport {
            return wrong_class(format!("files are carried by {transport}, and `{name}` has {}", class.flow.transport));
        }
        if class.flow.contract.weight < 0.5 {
            return wrong_class(format!("files are carried with a weight of at least 0.5, and `{name}` has less"));
        }
        for offered in &self.offer {
            let path = folder.join(offered.get_ref());
            if !path.is_dir() {
                return Err(source.wrong(offered.span().start, format!("{} is no folder", path.display())));
            }
        }
        let named = |(name, address): (&Spanned<String>, &SocketAddr)| (name.get_ref().clone(), *address);
        Ok(ObjectsConfig {
            listen,
            offer: self.offer.iter().map(|offered| folder.join(offered.get_ref())).collect(),
            sources: self.sources.iter().map(named).collect(),
            called: called_by(source, keys, &self.sources, listen.address)?,
            cache: folder.join(&self.cache),
            cache_limit: self.cache_limit,
            class: name.clone(),
        })
    }
}
