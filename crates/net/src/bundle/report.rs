//! How bundles stand.

use std::net::SocketAddr;
use std::time::Duration;

use pliant_proto::time::Span;
use pliant_proto::transport::any::AnyTransport;
use pliant_proto::transport::{Statistics, Transport};
use pliant_proto::units::Rate;

use super::multiplexer::MultiplexerCounts;
use crate::connection::Closed;

/// How a bundle stands.
#[derive(Clone, Debug)]
pub struct BundleReport {
    /// Its number at this node: no other bundle has it.
    pub number: u64,
    /// The peer, by the address at which it was called, or from which it has called.
    pub peer: SocketAddr,
    /// Where it is now.
    pub address: SocketAddr,
    /// The peer's name in the key file, if it has one.
    pub name: Option<String>,
    /// Name of the class.
    pub class: String,
    /// Whether the peer has answered.
    pub open: bool,
    /// Its class has changed or gone: it ends with its last stream, and new streams go elsewhere.
    pub retired: bool,
    /// Streams that are open.
    pub streams: usize,
    /// Bytes of streams that this side holds.
    pub held_bytes: u64,
    /// Of what it sends, the bytes that its transport has not asked for yet.
    pub unsent_bytes: u64,
    /// Counts of streams and their bytes.
    pub counts: MultiplexerCounts,
    /// Counts of what sends.
    pub sender: Statistics,
    /// Counts of what receives.
    pub receiver: Statistics,
    /// What the transport that sends knows of the path.
    pub path: PathReport,
}

/// A bundle that ended without its peer's word, and the streams that this has cut.
#[derive(Clone, Debug)]
pub struct BundleEnd {
    /// The peer, by the address at which it was called, or from which it had called.
    pub peer: SocketAddr,
    /// Where it was last.
    pub address: SocketAddr,
    /// The peer's name in the key file, if it has one.
    pub name: Option<String>,
    /// Name of the class.
    pub class: String,
    /// Streams that both sides knew of and that were not over, at least one.
    pub streams: usize,
    /// Why it ended.
    pub why: Closed,
}

/// What a transport that sends knows of its path.
#[derive(Clone, Copy, Default, Debug)]
pub struct PathReport {
    /// The smoothed round-trip time; zero before the first sample, and for transports that measure none.
    pub round_trip: Duration,
    /// The least that it was.
    pub least_round_trip: Duration,
    /// The rate of payload that a normal flow would have in its place, if the transport estimates it.
    pub normal_rate: Option<Rate>,
}

impl PathReport {
    /// Takes in what `sender` knows now.
    pub(super) fn note(&mut self, sender: &AnyTransport) {
        self.normal_rate = sender.normal_rate();
        let rtt = sender.window_state().map_or(Span::ZERO, |window| window.rtt);
        if rtt > Span::ZERO {
            self.round_trip = Duration::from_nanos(rtt.as_ps() / 1000);
            if self.least_round_trip.is_zero() || self.round_trip < self.least_round_trip {
                self.least_round_trip = self.round_trip;
            }
        }
    }
}
