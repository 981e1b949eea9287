//! The request for a fetch, its news for the user, and its result.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pliant_proto::transport::push::ReceiverCounts;

use super::message::FileSelector;
use super::mirror::{FromMirror, Mirror};
use super::offered_files::OfferedFiles;
use super::own_blocks::OwnBlocks;
use crate::connection::Refused;
use crate::transfer::error::TransferError;

/// The wanted file, and who else fetches it.
#[derive(Clone, Default)]
pub struct WantedFile {
    /// BLAKE3 hash of the content.
    pub hash: Option<blake3::Hash>,
    /// The file's name at sources that offer many. Without a hash, who offers a file of another name is excluded.
    pub name: Option<String>,
    /// Its name here, in a target that is a folder. Without one its sources choose it.
    pub kept_as: Option<String>,
    /// Receivers of the same file, which offer what they have. They have no vote on the content. They are called once
    /// it is known, and again when they are lost. A source among them becomes a peer if it has nothing, has a part, or
    /// is lost.
    pub peers: Vec<SocketAddr>,
    /// Servers that supply any bytes of it: in addition to the sources or, if the hash is known, without them. They
    /// have no vote.
    pub mirrors: Vec<Arc<dyn Mirror>>,
    /// What the receiver may already have of it.
    pub own: Option<Arc<dyn OwnBlocks>>,
    /// Where each block of the file is offered once it is verified, and the file afterwards.
    pub offered_in: Option<OfferedFiles>,
}

impl From<Option<blake3::Hash>> for WantedFile {
    fn from(hash: Option<blake3::Hash>) -> Self {
        Self { hash, ..Self::default() }
    }
}

impl WantedFile {
    pub(super) fn selector(&self) -> FileSelector {
        match (self.hash, &self.name) {
            (Some(hash), _) => FileSelector::Hash(hash),
            (None, Some(name)) => FileSelector::Name(name.clone()),
            (None, None) => FileSelector::Only,
        }
    }
}

/// News of a running fetch for the user.
#[derive(Debug)]
pub enum FetchNews<'e> {
    /// A source was lost or excluded.
    Lost(&'e TransferError),
    /// A source sends almost nothing, and rests while there is another.
    Slow(&'e str),
    /// Not all sources have answered, and the fetch begins with the content of those that have.
    Begun {
        /// Sources that have answered.
        answered: usize,
        /// Sources in all.
        called: usize,
    },
    /// A source answered after that and offers something else.
    Disputed,
    /// No source is left, and mirrors give the rest.
    MirrorsAlone(&'e TransferError),
}

impl fmt::Display for FetchNews<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lost(error) => error.fmt(f),
            Self::Slow(why) => f.write_str(why),
            Self::Begun { answered, called } => write!(
                f,
                "{answered} of {called} sources have answered, and offer the same: it is fetched, and gets its place once the \
                 others have answered or are given up"
            ),
            Self::MirrorsAlone(error) => {
                write!(f, "{error}: no source is left; mirrors give the rest, which is verified once all of it is here")
            }
            Self::Disputed => f.write_str(
                "a source that answered late offers something else: all sources are asked again, and waited for",
            ),
        }
    }
}

/// A fetched file, or what is said of one that was only asked about.
#[derive(Clone, Debug)]
pub struct Fetched {
    /// Its name here: the one that was asked for, or the one given by most of its sources.
    pub name: String,
    /// Where it is now, unless it was discarded or only asked about.
    pub path: Option<PathBuf>,
    /// Its bytes.
    pub bytes: u64,
    /// Those of them that were already there.
    pub kept: u64,
    /// BLAKE3 hash of the content, as given by the sources.
    pub hash: blake3::Hash,
    /// From the call to the last byte.
    pub elapsed: Duration,
    /// What each source sent.
    pub sources: Vec<FromSource>,
    /// What each mirror supplied.
    pub mirrors: Vec<FromMirror>,
    /// Blocks, and useless symbols.
    pub counts: ReceiverCounts,
    /// Datagrams that were not passed to any transport.
    pub refused: Refused,
}

/// What one source sent.
#[derive(Clone, Debug)]
pub struct FromSource {
    /// The source.
    pub address: SocketAddr,
    /// Whether it has answered, with an offer or a refusal.
    pub answered: bool,
    /// Symbols that came from it.
    pub symbols: u64,
    /// Those of them that arrived twice or too late.
    pub excess_symbols: u64,
    /// Marked packets.
    pub marks: u64,
    /// Why it was lost or rests, if so.
    pub lost: Option<String>,
}
