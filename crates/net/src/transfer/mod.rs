//! Moves a file, a directory or a stream: `send` on one side, `recv` on the other; or a file from many sources at once:
//! `offer` at each, `fetch` at the receiver.
//!
//! What is sent is announced in the handshake ([`Announcement`]). Reliable transports carry the content and its BLAKE3
//! hash; what may arrive in part, under a contract that allows it, is reported with what is missing instead. The receiver
//! writes into a temporary file beside the target and puts it in its place at the end, so that a broken transfer is never
//! taken for a whole one.

mod announcement;
mod outgoing;
mod partial;
mod push;
mod receive;
mod send;
mod source;
mod whole;

pub use announcement::{Announcement, Kind};
pub use push::{Fetched, FromSource, Offer, Offered, Order, Request, Served, fetch};
pub use receive::{Received, Receiver, Target};
pub(crate) use send::path_to;
pub use send::{ClockOffset, Sent, send};
pub use source::Source;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use pliant_proto::time::Span;
use thiserror::Error;

use crate::connection::{Closed, Config, ConnectError, Endpoint, Keys};
use crate::driver::{Application, Clock, Driver};
use crate::entropy;
use crate::flow::{FlowError, FlowSettings};
use crate::socket::Socket;

/// How long a loop sleeps at most, so that an interrupt is noticed.
const NAP: Duration = Duration::from_millis(50);
/// Between reports of progress.
const PROGRESS_INTERVAL: Span = Span::from_ms(100);
/// Most transfers at a time, and with one peer: each holds its receive buffer and somewhat more.
const MAX_CONNECTIONS: usize = 256;
const MAX_PER_PEER: usize = 64;
const HASH_BYTES: usize = blake3::OUT_LEN;
/// What the side that stops says.
const CODE_DONE: u8 = 0;
const CODE_FAILED: u8 = 1;
const CODE_INTERRUPTED: u8 = 2;

/// Settings of a transfer.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How the flow is carried.
    pub flow: FlowSettings,
    /// Keys; plain transfers are for loopback and testbeds. Default: plain.
    pub keys: Keys,
    /// Allows plain transfers beyond loopback. Default false.
    pub testbed: bool,
    /// Least fraction of a content that a receiver keeps, if its sender promises no more. Default 1: whole ones only.
    pub min_delivery: f64,
    /// Where a sender, or who fetches, binds its socket. Default: any free port.
    pub bind: Option<SocketAddr>,
    /// Uses segmentation offload. Default true.
    pub offload: bool,
    /// How long a sender waits for an answer to its request. Default 10 s.
    pub connect_timeout: Span,
    /// Silence after which the peer is given up. Default 30 s.
    pub idle_timeout: Span,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            flow: FlowSettings::default(),
            keys: Keys::Plain,
            testbed: false,
            min_delivery: 1.0,
            bind: None,
            offload: true,
            connect_timeout: Span::from_secs(10),
            idle_timeout: Span::from_secs(30),
        }
    }
}

impl Settings {
    /// Refuses what cannot work towards, or at, `address`.
    pub fn check(&self, address: SocketAddr) -> Result<(), TransferError> {
        if self.keys == Keys::Plain && !self.testbed {
            require_loopback(address)?;
        }
        self.flow.check().map_err(TransferError::Flow)
    }

    /// A driver on a socket bound to `address`.
    pub(crate) fn driver<T: pliant_proto::transport::Transport, A: Application>(
        &self,
        address: SocketAddr,
        accepts: bool,
    ) -> io::Result<(Driver<T, A>, usize)> {
        let socket = Socket::bind(address)?;
        let socket = if self.offload { socket } else { socket.without_offload() };
        let buffer = socket.receive_buffer_bytes();
        let config = Config {
            keys: self.keys.clone(),
            accepts,
            connect_timeout: self.connect_timeout,
            idle_timeout: self.idle_timeout,
            max_connections: MAX_CONNECTIONS,
            max_per_peer: MAX_PER_PEER,
            ..Config::default()
        };
        // Timers at the scheduler's default slack of 50 us would make pacing coarse; without the right it stays so.
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
        Ok((Driver::new(socket, Endpoint::new(config, entropy::seed()?), Clock::start()), buffer))
    }
}

/// How far a transfer is.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Progress {
    /// Bytes of the content that are across.
    pub done_bytes: u64,
    /// Bytes of the content, if that is known.
    pub total_bytes: Option<u64>,
}

/// Why a transfer failed.
#[derive(Debug, Error)]
pub enum TransferError {
    /// The address is not this host's loopback.
    #[error("{0} is not a loopback address: beyond this host a transfer needs a key, `--key FILE`")]
    NotLoopback(SocketAddr),
    /// The settings do not go together.
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
    #[error("no answer from {address} within {timeout}: is `pliant recv`, or `pliant offer`, running there?")]
    NoAnswer {
        /// The peer.
        address: SocketAddr,
        /// For how long.
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
    /// Sources that do not go together.
    #[error("{0}")]
    Sources(&'static str),
    /// The user stopped it.
    #[error("interrupted")]
    Interrupted,
}

impl TransferError {
    /// Why a connection to `address` ended.
    fn ended(address: SocketAddr, why: Closed) -> Self {
        match why {
            Closed::NoAnswer(timeout) => Self::NoAnswer { address, timeout },
            why => Self::Ended { address, why },
        }
    }
}

/// An error if content hashes to something else than was said.
fn hold_hash(name: &str, got: blake3::Hash, expected: blake3::Hash) -> Result<(), TransferError> {
    if got == expected { Ok(()) } else { Err(TransferError::HashMismatch { name: name.to_owned(), got, expected }) }
}

/// Refuses every address that is not loopback.
fn require_loopback(address: SocketAddr) -> Result<(), TransferError> {
    let loopback = match address.ip() {
        IpAddr::V4(ip) => ip.is_loopback(),
        IpAddr::V6(ip) => ip.is_loopback(),
    };
    if loopback { Ok(()) } else { Err(TransferError::NotLoopback(address)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_is_allowed_without_keys() {
        let of = |keys, testbed| Settings { keys, testbed, ..Settings::default() };
        for (address, loopback) in
            [("127.0.0.1:1", true), ("[::1]:1", true), ("10.0.0.1:1", false), ("0.0.0.0:1", false), ("[::]:1", false)]
        {
            let address = address.parse().unwrap();
            assert_eq!(of(Keys::Plain, false).check(address).is_ok(), loopback, "{address}");
            assert!(of(Keys::Plain, true).check(address).is_ok(), "{address}");
            assert!(of(Keys::Preshared([1; 32]), false).check(address).is_ok(), "{address}");
        }
    }
}
