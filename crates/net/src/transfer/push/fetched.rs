//! What is wanted of a fetch, what the user hears of it, and what came of it.

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

/// What is fetched, and who else fetches it.
#[derive(Clone, Default)]
pub struct WantedFile {
    /// BLAKE3 hash of the content.
    pub hash: Option<blake3::Hash>,
    /// The file's name at sources that offer many.
    pub name: Option<String>,
    /// Who may fetch the same, and offers what it has already. They have no vote in what is fetched; they are called once
    /// that is known, and again when they are lost. A source that is among them is a peer once it has nothing, a part, or is
    /// lost.
    pub peers: Vec<SocketAddr>,
    /// Servers that give any bytes of it, beside the sources or, for who has the hash, where no source is left. They have no
    /// vote.
    pub mirrors: Vec<Arc<dyn Mirror>>,
    /// What the receiver may have of it already.
    pub own: Option<Arc<dyn OwnBlocks>>,
    /// Where the file is offered, block by block as they are verified, and from then on.
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

/// What the user hears of a fetch under way.
#[derive(Debug)]
pub enum FetchNews<'e> {
    /// A source is lost, or left out.
    Lost(&'e TransferError),
    /// A source sends next to nothing, and rests while there is another.
    Slow(&'e str),
    /// Not all sources have answered, and what the others offer is fetched already.
    Begun {
        /// Sources that have answered.
        answered: usize,
        /// Sources in all.
        called: usize,
    },
    /// A source answered after that, and offers something else.
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

/// What was fetched.
#[derive(Clone, Debug)]
pub struct Fetched {
    /// The name that most of its sources gave.
    pub name: String,
    /// Where it is now, unless it was discarded.
    pub path: Option<PathBuf>,
    /// Its bytes.
    pub bytes: u64,
    /// Of these, those that were there before.
    pub kept: u64,
    /// BLAKE3 hash of the content, which is the one that the sources said.
    pub hash: blake3::Hash,
    /// From the call to the last byte.
    pub elapsed: Duration,
    /// What each source has sent.
    pub sources: Vec<FromSource>,
    /// What each mirror has given.
    pub mirrors: Vec<FromMirror>,
    /// Blocks, and symbols that were of no use.
    pub counts: ReceiverCounts,
    /// Datagrams that were not passed to any transport.
    pub refused: Refused,
}

/// What came from one source.
#[derive(Clone, Debug)]
pub struct FromSource {
    /// The source.
    pub address: SocketAddr,
    /// Whether it has said what it offers, or that it does not.
    pub answered: bool,
    /// Symbols that came from it.
    pub symbols: u64,
    /// Of these, those that came twice or too late.
    pub excess_symbols: u64,
    /// Of the packets, those that were marked.
    pub marks: u64,
    /// Why it was lost, or rests, if it was or does.
    pub lost: Option<String>,
}
