//! One queue's counts, and its judgement of an arriving packet.
//!
//! A [`Queue`] stores no packets. [`EgressPort`](super::EgressPort) keeps them beside it; a driver with one queue per
//! port may keep them on its wire, since their order of leaving is known.

mod occupancy;

pub use occupancy::{DropReason, Occupancy};

use super::marker::{Marker, Verdict};
use super::plan::{Discipline, QueueConfig};
use super::shared_buffer::{Alpha, SharedBuffer};
use crate::packet::{Ecn, Packet};
use crate::rng::Stream;
use crate::time::Instant;
use crate::units::Rate;

/// What became of an arriving packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Admission {
    /// It is queued, marked if it had to be.
    Queued,
    /// It is queued in place of another packet, which [`EgressPort::take_displaced`](super::EgressPort) gives.
    Displaced,
    /// It or another packet was trimmed and its header had no room: [`EgressPort::take_displaced`](super::EgressPort)
    /// gives what goes back to its sender. The arriving packet is queued unless it is the one.
    Returned,
    /// It is gone.
    Dropped(DropReason),
}

/// Packets and bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// Packets.
    pub packets: u64,
    /// Bytes on the wire.
    pub bytes: u64,
}

impl Tally {
    /// Counts a packet.
    #[inline]
    pub fn add(&mut self, bytes: u32) {
        self.packets += 1;
        self.bytes += u64::from(bytes);
    }
}

/// What a queue counted. Admitted = left + still queued, in packets and in bytes, at every moment: a packet that another
/// displaced counts as refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct QueueCounters {
    /// Taken in.
    pub admitted: Tally,
    /// Refused, by [`DropReason`].
    pub dropped: [Tally; DropReason::ALL.len()],
    /// Marked here.
    pub marked_packets: u64,
    /// Trimmed here: the header was not queued here, if it was at all.
    pub trimmed_packets: u64,
    /// Headers for which there was no room here and that went back to their senders.
    pub returned_packets: u64,
    /// Largest number of packets queued.
    pub max_packets: u32,
}

/// One queue's limits, marker and counts.
///
/// In declared order: what every packet touches comes first and fits 40 bytes.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct Queue {
    bytes: u64,
    packets: u32,
    /// A packet that finds fewer packets than this is admitted unmarked: no limit and no marker can object. Zero where
    /// that depends on more than their number.
    look_packets: u32,
    admitted: Tally,
    max_packets: u32,
    /// The largest packet that is admitted unmarked where nothing else is queued, but for a shared buffer.
    alone_bytes: u32,
    limit_packets: u32,
    limit_bytes: u64,
    marker: Marker,
    red_bytes: u64,
    red_limit_bytes: u64,
    reserved_bytes: u64,
    alpha: Alpha,
    marked_packets: u64,
    dropped: [Tally; DropReason::ALL.len()],
}

impl Queue {
    /// An empty queue for a link of rate `link`; `stream` is asked for only by a marker that draws.
    pub fn new(config: &QueueConfig, link: Rate, stream: impl FnOnce() -> Stream) -> Self {
        let limit_bytes = config.bytes_at(link);
        let by_packets_only = limit_bytes == u64::MAX && config.red_limit_bytes == u64::MAX;
        let look_packets = config.marker.unmarked_below().min(config.limit_packets);
        let alone_bytes = limit_bytes.min(config.red_limit_bytes).min(config.marker.unmarked_alone(link));
        // Another crate's discipline sees every packet.
        let judges_all = config.limit_packets == 0 || matches!(config.discipline, Discipline::Foreign(_));
        Self {
            bytes: 0,
            packets: 0,
            look_packets: if by_packets_only { look_packets } else { 0 },
            admitted: Tally::default(),
            max_packets: 0,
            alone_bytes: if judges_all { 0 } else { alone_bytes.try_into().unwrap_or(u32::MAX) },
            limit_packets: config.limit_packets,
            limit_bytes,
            marker: Marker::new(&config.marker, link, stream),
            red_bytes: 0,
            red_limit_bytes: config.red_limit_bytes,
            reserved_bytes: config.reserved_bytes,
            alpha: Alpha::new(config.buffer_alpha),
            marked_packets: 0,
            dropped: Default::default(),
        }
    }

    /// What is queued now.
    #[inline]
    pub fn occupancy(&self) -> Occupancy {
        Occupancy { packets: self.packets, bytes: self.bytes }
    }

    /// What was counted.
    pub fn counters(&self) -> QueueCounters {
        QueueCounters {
            admitted: self.admitted,
            dropped: self.dropped,
            marked_packets: self.marked_packets,
            trimmed_packets: 0,
            returned_packets: 0,
            max_packets: self.max_packets,
        }
    }

    /// Bytes of red packets queued.
    pub fn red_bytes(&self) -> u64 {
        self.red_bytes
    }

    /// Judges an arriving packet, marks it if it must be, and counts it in or out. `port` is what all queues of the
    /// port hold.
    #[inline]
    pub fn admit(
        &mut self,
        now: Instant,
        packet: &mut Packet,
        port: Occupancy,
        shared: Option<&mut SharedBuffer>,
    ) -> Admission {
        if self.packets >= self.look_packets || shared.is_some() {
            let admission = self.judge(now, packet, port, shared);
            if admission != Admission::Queued {
                return admission;
            }
        }
        self.count_in(packet);
        Admission::Queued
    }

    /// Counts a packet in.
    #[inline]
    pub(super) fn count_in(&mut self, packet: &Packet) {
        self.packets += 1;
        self.bytes += u64::from(packet.wire_bytes);
        self.admitted.add(u32::from(packet.wire_bytes));
        self.max_packets = self.max_packets.max(self.packets);
    }

    /// Whether nothing is queued.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.packets == 0
    }

    /// Counts a packet in and out that finds its port empty and the link free. False if it must be judged: then
    /// nothing was counted.
    #[inline]
    pub fn pass_through(&mut self, packet: &Packet, shared: Option<&SharedBuffer>) -> bool {
        let passes = self.may_pass_through(packet, shared);
        if passes {
            self.count_through(packet);
        }
        passes
    }

    /// Whether a packet that finds its port empty and the link free need not be judged.
    #[inline]
    pub(super) fn may_pass_through(&self, packet: &Packet, shared: Option<&SharedBuffer>) -> bool {
        u32::from(packet.wire_bytes) <= self.alone_bytes && shared.is_none_or(|shared| self.fits_shared(packet, shared))
    }

    /// Counts a packet in and out.
    #[inline]
    pub(super) fn count_through(&mut self, packet: &Packet) {
        self.admitted.add(u32::from(packet.wire_bytes));
        self.max_packets = self.max_packets.max(1);
    }

    /// Everything that may refuse or mark a packet, and the counts that only such plans need.
    #[inline(never)]
    fn judge(
        &mut self,
        now: Instant,
        packet: &mut Packet,
        port: Occupancy,
        shared: Option<&mut SharedBuffer>,
    ) -> Admission {
        let bytes = u32::from(packet.wire_bytes);
        let red = packet.traffic_class.is_red();
        let before = self.occupancy();
        if let Some(shared) = &shared
            && !self.fits_shared(packet, shared)
        {
            return self.refuse(bytes, DropReason::SharedBuffer);
        }
        if red && self.red_bytes + u64::from(bytes) > self.red_limit_bytes {
            return self.refuse(bytes, DropReason::Colour);
        }
        if !self.fits(u64::from(bytes)) {
            return self.refuse(bytes, DropReason::Tail);
        }
        match self.marker.on_enqueue(now, bytes, packet.traffic_class.is_ect(), before, port) {
            Verdict::Pass => {}
            Verdict::Mark => self.mark(packet),
            Verdict::Drop => return self.refuse(bytes, DropReason::Early),
        }
        if let Some(shared) = shared {
            shared.take(u64::from(bytes), before.bytes, self.reserved_bytes);
        }
        if self.counts_red() && red {
            self.red_bytes += u64::from(bytes);
        }
        Admission::Queued
    }

    /// Whether `shared` has room for a packet beside what is queued.
    #[inline]
    pub fn fits_shared(&self, packet: &Packet, shared: &SharedBuffer) -> bool {
        shared.fits(u64::from(packet.wire_bytes), self.bytes, self.reserved_bytes, self.alpha)
    }

    /// Red packets are counted only where they are limited.
    #[inline]
    fn counts_red(&self) -> bool {
        self.red_limit_bytes != u64::MAX
    }

    /// Counts a queued packet that makes room for another as if it had been refused.
    pub(super) fn displace(&mut self, packet: &Packet) {
        self.withdraw(packet);
        self.dropped[DropReason::Tail as usize].add(u32::from(packet.wire_bytes));
    }

    /// Counts a queued packet out as if it had never come.
    pub(super) fn withdraw(&mut self, packet: &Packet) {
        let bytes = u32::from(packet.wire_bytes);
        self.packets -= 1;
        self.bytes -= u64::from(bytes);
        self.admitted.packets -= 1;
        self.admitted.bytes -= u64::from(bytes);
        if self.counts_red() && packet.traffic_class.is_red() {
            self.red_bytes -= u64::from(bytes);
        }
    }

    /// Whether a packet of `bytes` fits under the queue's own limits.
    #[inline]
    pub(super) fn fits(&self, bytes: u64) -> bool {
        self.packets < self.limit_packets && self.bytes + bytes <= self.limit_bytes
    }

    /// Whether a packet of `bytes` would fit if one of `freed` bytes were gone.
    pub(super) fn fits_in_place_of(&self, bytes: u64, freed: u64) -> bool {
        self.packets <= self.limit_packets && self.bytes - freed + bytes <= self.limit_bytes
    }

    /// Counts a packet that leaves, and marks it if it must be marked now.
    #[inline(always)]
    pub fn release(&mut self, now: Instant, packet: &mut Packet, port: Occupancy, shared: Option<&mut SharedBuffer>) {
        let bytes = u64::from(packet.wire_bytes);
        if let Some(shared) = shared {
            shared.release(bytes, self.bytes, self.reserved_bytes);
        }
        self.packets -= 1;
        self.bytes -= bytes;
        if self.counts_red() && packet.traffic_class.is_red() {
            self.red_bytes -= bytes;
        }
        if self.marker.acts_on_dequeue() {
            let port = Occupancy { packets: port.packets - 1, bytes: port.bytes - bytes };
            if self.marker.marks_on_dequeue(packet.traffic_class.is_ect(), self.occupancy(), port) {
                self.mark(packet);
            }
            if self.packets == 0 {
                self.marker.on_emptied(now, bytes);
            }
        }
    }

    #[inline]
    fn mark(&mut self, packet: &mut Packet) {
        packet.traffic_class = packet.traffic_class.with_ecn(Ecn::Ce);
        self.marked_packets += 1;
    }

    /// Counts a packet that is refused.
    #[cold]
    pub(super) fn refuse(&mut self, bytes: u32, reason: DropReason) -> Admission {
        self.dropped[reason as usize].add(bytes);
        Admission::Dropped(reason)
    }
}

#[cfg(test)]
mod tests;
