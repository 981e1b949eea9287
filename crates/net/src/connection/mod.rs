//! Connections: who is there, is it really them, are they still there.
//!
//! ```text
//! initiator                                      responder
//!   Hello  ------------------------------------>   keeps nothing
//!          <------------------------------------  Cookie
//!   Hello with it, Noise message 1  ----------->   the address is proven, and the key
//!          <------------------------------------  Welcome, Noise message 2
//!   Ping, sealed  ----------------------------->   now the connection counts
//! ```
//!
//! [`Endpoint`] is a machine as the transports are: datagrams and time in, datagrams, events and deadlines out; no
//! socket, no clock, and the random numbers of the seed that it is given.
//!
//! What an attacker can make it do:
//!
//! | who | costs |
//! |---|---|
//! | sends from addresses that are not theirs | an answer no longer than what they sent |
//! | can receive at their address, has no key | one failed decryption per hello ([`Config::handshakes_per_second`]), no memory |
//! | repeats a genuine hello within ten seconds, from its address | one of [`Config::max_unconfirmed`] places for five seconds |
//! | has a key | [`Config::max_per_peer`] of [`Config::max_connections`] places |
//! | changes, repeats, reflects, invents sealed datagrams | a count |
//!
//! A peer that has forgotten a connection, because it was restarted, says so with a token that only holders of its key
//! can make (as RFC 9000 section 10.3). Refusals before that are hints, believed only while nobody else answers.

mod allowance;
mod cookie;
mod datagram;
mod endpoint;
mod handshake;
mod keys;
mod open;
mod random;
mod replay;
mod seal;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;

use pliant_proto::time::Span;
use thiserror::Error;

pub use datagram::{
    Datagram, MAX_NOTICE_BYTES, RefusalCode, SEALED_HEADER_BYTES, Security, TAG_BYTES, VERSION, decode,
};
pub use endpoint::{Accept, Arrival, Endpoint};
pub use keys::{KEY_BYTES, KeyError, Keys};
pub use seal::PACKETS_PER_KEY;

/// Most bytes that an opening or an answer carries.
pub const MAX_OPENING_BYTES: usize = 900;

/// What an endpoint is told once.
#[derive(Clone, Debug)]
pub struct Config {
    /// Its keys. Default: none, plain.
    pub keys: Keys,
    /// Whether others may connect to it. Default true.
    pub accepts: bool,
    /// How long it calls. Default 10 s.
    pub connect_timeout: Span,
    /// Silence after which a peer is given up; it is asked for a sign of life four times in this time. Default 30 s.
    pub idle_timeout: Span,
    /// Most connections, at most 16384. Default 1024.
    pub max_connections: usize,
    /// Most connections with one IP address. Default 256.
    pub max_per_peer: usize,
    /// Most connections whose peer has not shown yet that it has the keys; the oldest makes room. Default 64.
    pub max_unconfirmed: usize,
    /// Handshakes that are looked at per second. Default 1000, about a tenth of a processor.
    pub handshakes_per_second: u32,
    /// Packets sealed under one key. Default [`PACKETS_PER_KEY`].
    pub packets_per_key: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            keys: Keys::Plain,
            accepts: true,
            connect_timeout: Span::from_secs(10),
            idle_timeout: Span::from_secs(30),
            max_connections: 1024,
            max_per_peer: 256,
            max_unconfirmed: 64,
            handshakes_per_second: 1000,
            packets_per_key: PACKETS_PER_KEY,
        }
    }
}

/// A connection's number is its place in the table, and random bits above.
const PLACE_BITS: u32 = 14;

/// A connection's number at this endpoint, never that of another soon after.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct ConnectionId(pub(super) u32);

impl ConnectionId {
    /// Bits of a connection's number: with two more for a flow and a side it fills a packet's address.
    pub const BITS: u32 = 30;

    /// The number.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// Its place among the endpoint's connections, from 0: for tables with an entry per connection.
    pub const fn place(self) -> usize {
        (self.0 & ((1 << PLACE_BITS) - 1)) as usize
    }
}

/// What happened to a connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// The peer that was called answers.
    Connected {
        /// What it answered.
        answer: Vec<u8>,
    },
    /// A peer that called stands.
    Accepted {
        /// Its address.
        from: SocketAddr,
        /// What it said first.
        opening: Vec<u8>,
    },
    /// The peer says a few bytes beside its packets ([`Endpoint::notify`]).
    Notice(Vec<u8>),
    /// The connection is over.
    Closed(Closed),
}

/// Why a connection is over.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum Closed {
    /// The peer has closed it.
    #[error("closed by the peer{}", if reason.is_empty() { String::new() } else { format!(": {reason}") })]
    ByPeer {
        /// 0 if all is well.
        code: u8,
        /// In the peer's words.
        reason: String,
    },
    /// The peer does not know it any more.
    #[error("the peer was restarted")]
    Reset,
    /// The peer was silent for the idle timeout.
    #[error("nothing heard for {0}")]
    Silent(Span),
    /// Nobody answered.
    #[error("no answer within {0}")]
    NoAnswer(Span),
    /// Somebody answers but does not take the key.
    #[error("somebody answers, but not to this key")]
    WrongKey,
    /// The peer speaks another version.
    #[error("it speaks version {0} of the protocol, this is version {VERSION}")]
    Version(u8),
    /// The peer wants another kind of protection.
    #[error("it wants another kind of key (preshared, static or none)")]
    Security,
    /// The peer has no room.
    #[error("it has no room for another connection")]
    Busy,
    /// This side could not go on.
    #[error("{0}")]
    Failed(String),
    /// The peer refused what was asked.
    #[error("it refuses: {0}")]
    Refused(String),
}

impl Closed {
    /// Whether there never was a connection.
    pub fn is_refusal(&self) -> bool {
        matches!(
            self,
            Self::NoAnswer(_) | Self::WrongKey | Self::Version(_) | Self::Security | Self::Busy | Self::Refused(_)
        )
    }
}

/// Why no connection was begun.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum ConnectError {
    /// There is no room.
    #[error("too many connections")]
    Full,
    /// Static keys of more than one peer.
    #[error("the key file must name one peer, the one to connect to")]
    ManyPeers,
    /// An opening that is too long.
    #[error("what is said first must not exceed {MAX_OPENING_BYTES} bytes")]
    Opening,
}

/// What became of datagrams that were of no use.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Refused {
    /// Not a datagram or packet of this protocol.
    pub malformed: u64,
    /// Of no connection here, or from another address.
    pub stray: u64,
    /// Sent by this side: somebody returned it.
    pub reflected: u64,
    /// Not sealed or signed with the right key.
    pub forged: u64,
    /// Seen before.
    pub replayed: u64,
    /// Without a cookie, or with a bad one: answered with a cookie.
    pub unproven: u64,
    /// Beyond a limit.
    pub excessive: u64,
}
