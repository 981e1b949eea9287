//! Why transfers fail.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::path::PathBuf;

use pliant_proto::time::Span;
use thiserror::Error;

use crate::connection::{Closed, ConnectError};
use crate::flow::FlowError;

/// Why a transfer failed.
#[derive(Debug, Error)]
pub enum TransferError {
    /// The address is not this host's loopback.
    #[error("{0} is not a loopback address: beyond this host a transfer needs a key, `--key FILE`")]
    NotLoopback(SocketAddr),
    /// The settings do not fit together.
    #[error("{0}")]
    Flow(FlowError),
    /// No connection was begun.
    #[error("{0}")]
    Connect(ConnectError),
    /// The file cannot be read or written.
    #[error("{path}: {error}")]
    File {
        /// Which file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The socket failed.
    #[error("{address}: {error}")]
    Socket {
        /// Which address.
        address: SocketAddr,
        /// Why.
        error: io::Error,
    },
    /// Nobody ever answered.
    #[error(
        "no answer from {}: does `pliant recv`, or `pliant offer`, run there, with `--listen` on \
         an address of that network? By default they listen on loopback only",
        within(.addresses, *.timeout)
    )]
    NoAnswer {
        /// The addresses of the peer, in the order in which they were called.
        addresses: Vec<SocketAddr>,
        /// For how long each was called.
        timeout: Span,
    },
    /// The connection ended before the transfer did.
    #[error("{address}: {why}")]
    Ended {
        /// The peer.
        address: SocketAddr,
        /// Why.
        why: Closed,
    },
    /// The receiver is heard, but does not say what its sender needs to know.
    #[error("{address} is there, but has not said {what} for {silence}")]
    Silent {
        /// The receiver.
        address: SocketAddr,
        /// What it does not say.
        what: &'static str,
        /// How long it has not said it.
        silence: Span,
    },
    /// Everything has arrived, but the receiver did not say what became of it.
    #[error("{address}: {why}; all of it has arrived there, but not the word that it is in its place")]
    Unconfirmed {
        /// The receiver.
        address: SocketAddr,
        /// Why nothing more was heard.
        why: Closed,
    },
    /// Everything has arrived, but the receiver could not store it.
    #[error("{address} has all of it but did not keep it: {why}")]
    NotPlaced {
        /// The receiver.
        address: SocketAddr,
        /// In the receiver's words.
        why: String,
    },
    /// The receiver says that the content that arrived differs from what was sent.
    #[error("{address} did not keep it: {why}")]
    Differs {
        /// The receiver.
        address: SocketAddr,
        /// In the receiver's words.
        why: String,
    },
    /// A file changed during the transfer.
    #[error("{path}: it was changed while it was sent")]
    Changed {
        /// Which file.
        path: PathBuf,
    },
    /// What arrived is not a transfer.
    #[error("{address} does not send a file: {why}")]
    NotATransfer {
        /// The peer.
        address: SocketAddr,
        /// What is wrong.
        why: &'static str,
    },
    /// The content differs from what was sent.
    #[error("content of {name} differs from what was sent: hash {got}, expected {expected}")]
    HashMismatch {
        /// Name of the file.
        name: String,
        /// Hash of what arrived.
        got: blake3::Hash,
        /// Hash of what was sent.
        expected: blake3::Hash,
    },
    /// A source offers another content than the one being fetched.
    #[error("{address} offers another content: {offered}; {taken} is fetched{}", by_votes(*.votes, *.answers))]
    OtherContent {
        /// The source.
        address: SocketAddr,
        /// BLAKE3 hash of its offer.
        offered: blake3::Hash,
        /// BLAKE3 hash of the content being fetched.
        taken: blake3::Hash,
        /// Sources that offer the content being fetched; 0 if the user gave its hash.
        votes: usize,
        /// Sources that answered.
        answers: usize,
    },
    /// No content is offered by more than half of the sources that answered.
    #[error("the sources do not agree, so that none is believed; name a content by `--hash`:{}", list(.offers))]
    NoMajority {
        /// Each source with the size and the BLAKE3 hash of its offer.
        offers: Vec<(SocketAddr, u64, blake3::Hash)>,
    },
    /// Less arrived than the contract promises.
    #[error("{delivered} of {total} bytes of {name} arrived, less than its contract promises")]
    BoundMissed {
        /// Name of the file.
        name: String,
        /// Bytes that arrived.
        delivered: u64,
        /// Bytes of the file.
        total: u64,
    },
    /// A source's offer exceeds the limit.
    #[error("{address} offers {bytes} bytes, and {most} may be fetched")]
    TooLarge {
        /// The source.
        address: SocketAddr,
        /// Bytes of its offer.
        bytes: u64,
        /// The limit in bytes.
        most: u64,
    },
    /// A mirror does not supply what it should.
    #[error("{mirror}: {why}")]
    Mirror {
        /// Its name in messages.
        mirror: String,
        /// In what it fails.
        fault: MirrorFault,
        /// Why.
        why: String,
    },
    /// Sources that do not fit together.
    #[error("{0}")]
    Sources(&'static str),
    /// Another fetch is at the same content, or it is discarded, so this one cannot offer it.
    #[error("what another fetch is at, or what is discarded, cannot be offered")]
    CannotBeOffered,
    /// The user stopped it.
    #[error("interrupted")]
    Interrupted,
}

/// In what a mirror fails. The later says more of the file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum MirrorFault {
    /// It does not answer, or does not have the file.
    Absent,
    /// It has answered, and then did not supply all of it.
    Lost,
    /// What it supplies is not what is fetched.
    WrongContent,
}

impl TransferError {
    /// Whether a file was not written because there is no room for it.
    pub fn is_full(&self) -> bool {
        let full = |kind| matches!(kind, ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge);
        matches!(self, Self::File { error, .. } if full(error.kind()))
    }

    /// Whether the other side never took part.
    pub(super) fn is_absence(&self) -> bool {
        match self {
            Self::NoAnswer { .. } | Self::Mirror { fault: MirrorFault::Absent, .. } => true,
            Self::Ended { why, .. } => why.is_refusal(),
            _ => false,
        }
    }

    /// Why a connection to `address` ended.
    pub(super) fn ended(address: SocketAddr, why: Closed) -> Self {
        match why {
            Closed::NoAnswer(timeout) => Self::NoAnswer { addresses: vec![address], timeout },
            why => Self::Ended { address, why },
        }
    }

    /// The same of a peer that did not answer at these addresses before.
    pub(super) fn after(self, silent: &[SocketAddr]) -> Self {
        match self {
            Self::NoAnswer { addresses, timeout } => {
                Self::NoAnswer { addresses: [silent, &addresses].concat(), timeout }
            }
            other => other,
        }
    }
}

fn within(addresses: &[SocketAddr], timeout: Span) -> String {
    let each = if addresses.len() > 1 { " each" } else { "" };
    let addresses = addresses.iter().map(SocketAddr::to_string).collect::<Vec<_>>();
    format!("{} within {timeout}{each}", addresses.join(" and "))
}

fn by_votes(votes: usize, answers: usize) -> String {
    if votes > 0 { format!(", which {votes} of {answers} sources offer") } else { String::new() }
}

fn list(offers: &[(SocketAddr, u64, blake3::Hash)]) -> String {
    let each = offers.iter().map(|(address, bytes, hash)| format!(" {address} offers {hash} ({bytes} bytes)"));
    each.collect::<Vec<_>>().join(",")
}

/// A copy of the error.
pub(super) fn copy(error: &io::Error) -> io::Error {
    error.raw_os_error().map_or_else(|| io::Error::new(error.kind(), error.to_string()), io::Error::from_raw_os_error)
}
