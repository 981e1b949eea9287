//! Events of connections, and why connections end.

use std::net::SocketAddr;
use std::sync::Arc;

use pliant_proto::host::fair_rates::REPORT_BYTES;
use pliant_proto::time::Span;
use thiserror::Error;

use super::datagram::{MAX_OPENING_BYTES, VERSION};
use super::peers::{Peer, Rights};

/// An event of a connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// The called peer answers.
    Connected {
        /// Its answer.
        answer: Vec<u8>,
    },
    /// The connection with a calling peer is established.
    Accepted {
        /// Its address.
        from: SocketAddr,
        /// Who it is, if keys identify callers.
        caller: Option<Arc<Peer>>,
        /// Its first message.
        opening: Vec<u8>,
    },
    /// The calling peer has a new address, and has proven it.
    Moved {
        /// The address.
        to: SocketAddr,
    },
    /// The peer hears this side, which called, from the address of another host. So this side's packets take another
    /// path.
    OwnMove,
    /// The peer sent a few bytes besides its packets ([`notify`](super::endpoint::Endpoint::notify)).
    Notice(Vec<u8>),
    /// The peer says which rate is fair on its host's link.
    HostReport([u8; REPORT_BYTES]),
    /// The connection is over.
    Closed(Closed),
}

/// A caller.
#[derive(Clone, Copy, Debug)]
pub struct Caller<'a> {
    /// From where.
    pub from: SocketAddr,
    /// Who it is, if keys identify callers.
    pub peer: Option<&'a Peer>,
}

impl Caller<'_> {
    /// What it may do: everything if keys do not identify callers.
    pub fn rights(&self) -> Rights {
        self.peer.map(|peer| peer.rights.clone()).unwrap_or_default()
    }
}

/// Why a connection ended.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum Closed {
    /// The peer has closed it.
    #[error("closed by the peer{}", if reason.is_empty() { String::new() } else { format!(": {reason}") })]
    ByPeer {
        /// 0 for a normal end.
        code: u8,
        /// In the peer's words.
        reason: String,
    },
    /// The peer no longer knows it.
    #[error("the peer was restarted")]
    Reset,
    /// The peer was silent for the idle timeout.
    #[error("nothing heard for {0}")]
    Silent(Span),
    /// Nobody answered.
    #[error("no answer within {0}")]
    NoAnswer(Span),
    /// Somebody answers but does not accept the key.
    #[error("somebody answers, but not to this key")]
    WrongKey,
    /// The peer speaks another version.
    #[error("it speaks version {0} of the protocol, this is version {VERSION}")]
    Version(u8),
    /// The peer wants another kind of protection.
    #[error("it wants another kind of key (preshared, static or none)")]
    Security,
    /// The peer has no room.
    #[error("it has no room for another connection: there are too many in all, or from this address")]
    Busy,
    /// The peer's key is no longer in the key file.
    #[error("its key is not taken any more")]
    Revoked,
    /// The peer's key has fewer rights now than when it called.
    #[error("its key has fewer rights now")]
    Restricted,
    /// This side could not continue.
    #[error("{0}")]
    Failed(String),
    /// The peer refused the request.
    #[error("it refuses: {0}")]
    Refused(String),
}

impl Closed {
    /// Whether the connection was never established.
    pub fn is_refusal(&self) -> bool {
        matches!(
            self,
            Self::NoAnswer(_) | Self::WrongKey | Self::Version(_) | Self::Security | Self::Busy | Self::Refused(_)
        )
    }
}

/// New keys are of another kind than the old ones, or have another key for this side.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("only peers can change while it runs: another kind of key, or another key of its own, needs a restart")]
pub struct KeyChangeError;

/// Why no connection was begun.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum ConnectError {
    /// There is no room.
    #[error("too many connections")]
    Full,
    /// Static keys of more than one peer, or of none.
    #[error("the key file has more than one peer, or none: say which, as in NAME@HOST:PORT")]
    ManyPeers,
    /// No peer has that name.
    #[error("the key file has no peer that is called {0}")]
    UnknownPeer(String),
    /// A peer was named, but every holder of the key is the peer.
    #[error("{0}: names are of peers with keys of their own; this key has none")]
    NoNames(String),
    /// An opening that is too long.
    #[error("what is said first must not exceed {MAX_OPENING_BYTES} bytes")]
    Opening,
}
