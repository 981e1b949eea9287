//! Settings and limits of an endpoint.

use std::net::SocketAddr;

use pliant_proto::time::Span;

use super::keys::Keys;
use super::seal::PACKETS_PER_KEY;

/// What an endpoint is told once.
#[derive(Clone, Debug)]
pub struct Config {
    /// Its keys. Default: none, plain.
    pub keys: Keys,
    /// Which peer is called at an address, by its name in the key file. Where there is nothing the key file's only one is.
    pub called: Vec<(SocketAddr, String)>,
    /// Whether others may connect to it. Default true.
    pub accepts: bool,
    /// How long it calls. Default 10 s.
    pub connect_timeout: Span,
    /// How long it goes on calling a peer that has no room, with growing gaps. Default 60 s.
    pub busy_timeout: Span,
    /// Silence after which a peer is given up; it is asked for a sign of life four times in this time. Default 30 s.
    pub idle_timeout: Span,
    /// Most connections, at most 16384. Default 1024.
    pub max_connections: usize,
    /// Most connections with one IP address. Default 256.
    pub max_per_peer: usize,
    /// Most connections whose peer has not shown yet that it has the keys. Half of them are kept for addresses that have
    /// shown it before. Default 64.
    pub max_unconfirmed: usize,
    /// Most of these of one address; it is told to call again later. Default 16.
    pub max_unconfirmed_per_address: usize,
    /// Handshakes that are looked at per second, and as many again of addresses that have shown that they have the keys.
    /// Default 1000, about a tenth of a processor.
    pub handshakes_per_second: u32,
    /// Handshakes of one address that may fail per second. Default 50.
    pub forged_per_second: u32,
    /// What tells this host and its socket from others that hold the same keys, the same after a restart: a reset is
    /// believed only of it. Default zeros.
    pub host: [u8; 32],
    /// The time of day when the endpoint's clock reads zero, in nanoseconds since 1970, by which a peer orders its calls.
    /// Default 0.
    pub unix_ns: u64,
    /// Packets sealed under one key. Default [`PACKETS_PER_KEY`].
    pub packets_per_key: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            keys: Keys::Plain,
            called: Vec::new(),
            accepts: true,
            connect_timeout: Span::from_secs(10),
            busy_timeout: Span::from_secs(60),
            idle_timeout: Span::from_secs(30),
            max_connections: 1024,
            max_per_peer: 256,
            max_unconfirmed: 64,
            max_unconfirmed_per_address: 16,
            handshakes_per_second: 1000,
            forged_per_second: 50,
            host: [0; 32],
            unix_ns: 0,
            packets_per_key: PACKETS_PER_KEY,
        }
    }
}
