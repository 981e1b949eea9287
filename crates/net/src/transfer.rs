//! Moves a file: `send` on one side, `recv` on the other.
//!
//! The stream is a small header (magic, name, size), the file's bytes, and their BLAKE3 hash. The receiver writes into
//! a temporary file beside the target and renames it once the hash agrees, so a broken transfer leaves nothing behind.

mod receive;
mod send;

pub use receive::{Received, Receiver, Target};
pub use send::{Sent, Source, send};

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pliant_proto::congestion::{Algorithm, AnyController, CongestionControl};
use pliant_proto::packet::WireFormat;
use pliant_proto::recovery::rtt::RtoBounds;
use pliant_proto::time::Span;
use pliant_proto::transport::tcp::TcpConfig;
use pliant_proto::wire::DATA_HEADER_BYTES;
use thiserror::Error;

/// Bytes of the IPv4 and UDP headers around a datagram.
const IP_UDP_BYTES: u16 = 28;
/// How long a loop sleeps at most, so that an interrupt is noticed.
const NAP: Duration = Duration::from_millis(50);
/// Between reports of progress.
const PROGRESS_INTERVAL: Span = Span::from_ms(100);
/// Smallest packet that every IPv4 host takes (RFC 791).
const MIN_MTU: u16 = 576;

/// Settings of a transfer. Both sides must agree on nothing but the protocol's version.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Congestion controller of the sender.
    pub algorithm: Algorithm,
    /// Weight of a weighted-fair sender.
    pub weight: f64,
    /// Largest IP packet, 576 to 65535 bytes.
    pub mtu: u16,
    /// Most bytes the receiver holds, at least 64 kB; half the socket's buffer if that is less.
    pub receive_buffer: u64,
    /// How long a sender waits for an answer to its request.
    pub connect_timeout: Span,
    /// Silence after which the peer is given up.
    pub idle_timeout: Span,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            algorithm: Algorithm::Dctcp,
            weight: 1.0,
            mtu: 1500,
            receive_buffer: 1 << 20,
            connect_timeout: Span::from_secs(10),
            idle_timeout: Span::from_secs(30),
        }
    }
}

impl Settings {
    pub(crate) fn check(&self) -> Result<(), TransferError> {
        if self.mtu < MIN_MTU { Err(TransferError::Mtu(self.mtu)) } else { Ok(()) }
    }

    /// Payload bytes per datagram.
    pub(crate) fn mss(&self) -> u16 {
        self.mtu - IP_UDP_BYTES - DATA_HEADER_BYTES as u16
    }

    /// The machine's configuration: the simulator's, with the timers of a real host. A receiver takes it from the
    /// default settings: accurate echo also answers senders that are not ECN-capable,
    /// and delays are reported to whoever asks.
    pub fn tcp(&self) -> Arc<TcpConfig> {
        let defaults = TcpConfig::default();
        Arc::new(TcpConfig {
            mss: self.mss(),
            wire: WireFormat { header_bytes: IP_UDP_BYTES + DATA_HEADER_BYTES as u16, minimum_bytes: 0 },
            handshake: true,
            ecn: self.controller().ecn_mode(),
            one_way_delay: self.controller().needs_one_way_delay(),
            rto: RtoBounds {
                // A busy host may not run a process for some ten milliseconds; its silence is no loss.
                minimum: Span::from_ms(50),
                initial: Span::from_ms(200),
                granularity: Span::from_ms(1),
                ..defaults.rto
            },
            receive_buffer: Some(self.receive_buffer),
            ..defaults
        })
    }

    /// The sender's congestion controller.
    pub fn controller(&self) -> AnyController {
        let mut controller = self.algorithm.controller(self.mss());
        controller.set_weight(self.weight);
        controller
    }
}

/// How far a transfer is.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Progress {
    /// Bytes of the file that are across.
    pub done_bytes: u64,
    /// Bytes of the file.
    pub total_bytes: u64,
}

/// Why a transfer failed.
#[derive(Debug, Error)]
pub enum TransferError {
    /// The address is not this host's loopback.
    #[error("{0} is not a loopback address: transfers are not encrypted yet, so only loopback is allowed")]
    NotLoopback(SocketAddr),
    /// Packets so small are not worth their headers.
    #[error("an mtu of {0} bytes is too small: it must be {MIN_MTU} to 65535")]
    Mtu(u16),
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
    /// Nothing was heard from the peer for the idle timeout.
    #[error("nothing heard from {address} for {timeout}")]
    Silent {
        /// The peer.
        address: SocketAddr,
        /// For how long.
        timeout: Span,
    },
    /// Nobody ever answered.
    #[error("no answer from {address} within {timeout}: is `pliant recv` running there?")]
    NoAnswer {
        /// The peer.
        address: SocketAddr,
        /// For how long.
        timeout: Span,
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
    /// The user stopped it.
    #[error("interrupted")]
    Interrupted,
}

/// Refuses every address that is not loopback.
fn require_loopback(address: SocketAddr) -> Result<(), TransferError> {
    let loopback = match address.ip() {
        IpAddr::V4(ip) => ip.is_loopback(),
        IpAddr::V6(ip) => ip.is_loopback(),
    };
    if loopback { Ok(()) } else { Err(TransferError::NotLoopback(address)) }
}

/// The start of every stream: magic, version, length of the name, size of the file, the name, then zeros. Always as
/// long, so that the receiver knows where the file begins before it begins.
const HEADER_BYTES: u64 = 512;
const MAGIC: [u8; 4] = *b"PLNT";
const VERSION: u8 = 1;
const NAME_AT: usize = 4 + 1 + 1 + 8;
const HASH_BYTES: usize = blake3::OUT_LEN;
/// Larger files are taken for nonsense.
const MAX_FILE_BYTES: u64 = 1 << 56;

fn encode_header(name: &str, size: u64) -> [u8; HEADER_BYTES as usize] {
    let longest = (0..=name.len().min(255)).rev().find(|&end| name.is_char_boundary(end));
    let name = &name[..longest.unwrap_or(0)];
    let mut header = [0; HEADER_BYTES as usize];
    header[..4].copy_from_slice(&MAGIC);
    header[4..6].copy_from_slice(&[VERSION, name.len() as u8]);
    header[6..NAME_AT].copy_from_slice(&size.to_be_bytes());
    header[NAME_AT..][..name.len()].copy_from_slice(name.as_bytes());
    header
}

/// Name and size of the file.
fn decode_header(header: &[u8; HEADER_BYTES as usize]) -> Result<(String, u64), &'static str> {
    let (fixed, name) = header.split_at(NAME_AT);
    let [m0, m1, m2, m3, version, name_bytes, size @ ..] = fixed else { unreachable!("the header has a fixed length") };
    if [*m0, *m1, *m2, *m3] != MAGIC {
        return Err("the stream does not start as a transfer does");
    }
    if *version != VERSION {
        return Err("it speaks another version");
    }
    let size = u64::from_be_bytes(size.try_into().expect("eight bytes before the name"));
    if size > MAX_FILE_BYTES {
        return Err("it announces an absurd size");
    }
    let name = str::from_utf8(&name[..usize::from(*name_bytes)]).map_err(|_| "the name it gives is not UTF-8")?;
    Ok((name.to_owned(), size))
}

#[cfg(test)]
mod tests;
