//! Settings and limits of an endpoint.

use std::net::SocketAddr;

use pliant_proto::time::Span;

use super::keys::Keys;
use super::seal::PACKETS_PER_KEY;

/// Settings of an endpoint, fixed at its creation.
#[derive(Clone, Debug)]
pub struct Config {
    /// Its keys. Default: none, plain.
    pub keys: Keys,
    /// The name in the key file of the peer at an address. Without an entry it is the only peer of the key file.
    pub called: Vec<(SocketAddr, String)>,
    /// Whether others may connect to it. Default true.
    pub accepts: bool,
    /// How long it calls a peer that does not answer. Default 10 s.
    pub connect_timeout: Span,
    /// How long it calls a peer without room, at growing intervals. Default 60 s.
    pub busy_timeout: Span,
    /// Silence after which a peer counts as gone. It is asked for a sign of life four times in this time. A caller has as
    /// long to show that it has the keys. Default 30 s.
    pub idle_timeout: Span,
    /// Most connections, at most 16384. Default 1024.
    pub max_connections: usize,
    /// Most connections with one IP address, and most that one key of its own has called for, from all addresses. Default 256.
    pub max_per_peer: usize,
    /// Most connections whose peer has not yet shown that it has the keys. Half of them are reserved for addresses that
    /// have shown it before. Default 64.
    pub max_unconfirmed: usize,
    /// Most of these for one address, which is then told to call again later. Default 16.
    pub max_unconfirmed_per_address: usize,
    /// Handshakes processed per second, and as many again for addresses that have shown that they have the keys.
    /// Default 1000, about a tenth of a processor.
    pub handshakes_per_second: u32,
    /// Handshakes of one address that may fail per second. Default 50.
    pub forged_per_second: u32,
    /// Identifies this host and its socket among others with the same keys, also after a restart. A reset is believed
    /// only from the same host. Default zeros.
    pub host: [u8; 32],
    /// Time of day when the endpoint's clock reads zero, in nanoseconds since 1970. A peer orders this side's calls by
    /// it. Default 0.
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
