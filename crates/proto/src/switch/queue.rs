//! One queue's counts, and its judgement of an arriving packet.
//!
//! A [`Queue`] stores no packets. [`EgressPort`](super::EgressPort) keeps them beside it; a driver with one queue per
//! port may keep them on its wire, since their order of leaving is known.

use super::marker::{Marker, Verdict};
use super::plan::QueueConfig;
use super::shared_buffer::{Alpha, SharedBuffer};
use crate::packet::{Ecn, Packet};
use crate::rng::Stream;
use crate::time::Instant;

/// What is queued.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Occupancy {
    /// Packets.
    pub packets: u32,
    /// Bytes on the wire.
    pub bytes: u64,
}

/// Why a packet was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum DropReason {
    /// The queue's own limit.
    Tail,
    /// The limit of red packets.
    Colour,
    /// The shared buffer or its dynamic threshold.
    SharedBuffer,
    /// The marker, for a packet that cannot be marked.
    Early,
}

impl DropReason {
    /// Every reason, in the order of [`QueueCounters::dropped`].
    pub const ALL: [Self; 4] = [Self::Tail, Self::Colour, Self::SharedBuffer, Self::Early];

    /// Its name in tables and files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tail => "tail",
            Self::Colour => "colour",
            Self::SharedBuffer => "shared_buffer",
            Self::Early => "early",
        }
    }
}

/// What became of an arriving packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Admission {
    /// It is queued, marked if it had to be.
    Queued,
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

/// What a queue counted. Admitted = left + still queued, in packets and in bytes, at every moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct QueueCounters {
    /// Admitted.
    pub admitted: Tally,
    /// Refused, by [`DropReason`].
    pub dropped: [Tally; DropReason::ALL.len()],
    /// Marked here.
    pub marked_packets: u64,
    /// Largest number of packets queued.
    pub max_packets: u32,
    /// Largest number of bytes queued.
    pub max_bytes: u64,
}

/// One queue's limits, marker and counts.
#[derive(Clone, Debug)]
pub struct Queue {
    occupancy: Occupancy,
    limit_packets: u32,
    limit_bytes: u64,
    marker: Marker,
    counters: QueueCounters,
    red_bytes: u64,
    red_limit_bytes: u64,
    reserved_bytes: u64,
    alpha: Alpha,
}

impl Queue {
    /// An empty queue; `stream` is asked for only by a marker that draws.
    pub fn new(config: &QueueConfig, stream: impl FnOnce() -> Stream) -> Self {
        Self {
            occupancy: Occupancy::default(),
            limit_packets: config.limit_packets,
            limit_bytes: config.limit_bytes,
            marker: Marker::new(&config.marker, stream),
            counters: QueueCounters::default(),
            red_bytes: 0,
            red_limit_bytes: config.red_limit_bytes,
            reserved_bytes: config.reserved_bytes,
            alpha: Alpha::new(config.buffer_alpha),
        }
    }

    /// What is queued now.
    #[inline]
    pub fn occupancy(&self) -> Occupancy {
        self.occupancy
    }

    /// What was counted.
    pub fn counters(&self) -> &QueueCounters {
        &self.counters
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
        let bytes = u32::from(packet.wire_bytes);
        let red = packet.traffic_class.is_red();
        let before = self.occupancy;
        let after_bytes = before.bytes + u64::from(bytes);
        if let Some(shared) = &shared
            && !shared.fits(u64::from(bytes), before.bytes, self.reserved_bytes, self.alpha)
        {
            return self.refuse(bytes, DropReason::SharedBuffer);
        }
        if red && self.red_bytes + u64::from(bytes) > self.red_limit_bytes {
            return self.refuse(bytes, DropReason::Colour);
        }
        if before.packets >= self.limit_packets || after_bytes > self.limit_bytes {
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
        self.occupancy = Occupancy { packets: before.packets + 1, bytes: after_bytes };
        if red {
            self.red_bytes += u64::from(bytes);
        }
        self.counters.admitted.add(bytes);
        self.counters.max_packets = self.counters.max_packets.max(before.packets + 1);
        self.counters.max_bytes = self.counters.max_bytes.max(after_bytes);
        Admission::Queued
    }

    /// Counts a packet that leaves, and marks it if it must be marked now.
    #[inline]
    pub fn release(&mut self, packet: &mut Packet, port: Occupancy, shared: Option<&mut SharedBuffer>) {
        let bytes = u64::from(packet.wire_bytes);
        if let Some(shared) = shared {
            shared.release(bytes, self.occupancy.bytes, self.reserved_bytes);
        }
        self.occupancy.packets -= 1;
        self.occupancy.bytes -= bytes;
        if packet.traffic_class.is_red() {
            self.red_bytes -= bytes;
        }
        if self.marker.acts_on_dequeue() {
            let port = Occupancy { packets: port.packets - 1, bytes: port.bytes - bytes };
            if self.marker.marks_on_dequeue(packet.traffic_class.is_ect(), self.occupancy, port) {
                self.mark(packet);
            }
        }
    }

    /// Whether packets can be marked when they leave.
    pub fn marks_on_dequeue(&self) -> bool {
        self.marker.acts_on_dequeue()
    }

    #[inline]
    fn mark(&mut self, packet: &mut Packet) {
        packet.traffic_class = packet.traffic_class.with_ecn(Ecn::Ce);
        self.counters.marked_packets += 1;
    }

    #[cold]
    fn refuse(&mut self, bytes: u32, reason: DropReason) -> Admission {
        self.counters.dropped[reason as usize].add(bytes);
        Admission::Dropped(reason)
    }
}
