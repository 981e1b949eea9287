//! What a sender knows about its path.

use crate::time::Span;

/// The sender's knowledge when it asks for a decision.
#[derive(Clone, Copy, Debug)]
pub(super) struct Knowledge {
    /// Smoothed round-trip time, or a guess.
    pub(super) rtt: Span,
    /// Least round-trip time seen; `None` before the first.
    pub(super) base_rtt: Option<Span>,
    /// All packets below have arrived or are lost.
    pub(super) settled: u64,
    /// Number of the next packet.
    pub(super) next: u64,
    /// Packets in flight.
    pub(super) under_way: u64,
}
