//! Queue disciplines of other crates.
//!
//! A plan holds a [`ForeignDiscipline`](super::ForeignDiscipline), which makes one [`ForeignQueue`] for each port. The
//! port keeps the counts and asserts that the queue neither loses a packet nor makes one; what else it does with them is
//! its own.

use core::fmt::Debug;

use super::queue::{DropReason, Occupancy};
use crate::packet::Packet;
use crate::time::Instant;

/// What became of a packet that arrived at a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Enqueued {
    /// It is queued.
    Queued,
    /// It is queued, and this packet of the queue is dropped for it.
    Displaced(Packet),
    /// It is dropped.
    Dropped(DropReason),
}

/// One queue. It keeps its packets and gives each back once, with the bytes that it came with; it may
/// [mark](crate::packet::Ecn::Ce) those that are ECN-capable.
pub trait ForeignQueue: Debug + Send {
    /// A packet arrives.
    fn enqueue(&mut self, now: Instant, packet: Packet) -> Enqueued;

    /// Bytes on the wire of the packet that [`dequeue`](Self::dequeue) gives next; `None` if nothing is queued.
    fn next_bytes(&self) -> Option<u16>;

    /// Gives the next packet; `None` if nothing is queued.
    fn dequeue(&mut self, now: Instant) -> Option<Packet>;

    /// What is queued.
    fn occupancy(&self) -> Occupancy;

    /// Packets that it has marked so far.
    fn marked_packets(&self) -> u64 {
        0
    }
}

#[cfg(test)]
mod tests;
