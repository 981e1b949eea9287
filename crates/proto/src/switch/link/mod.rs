//! A directed link: an egress port and the wire behind it. The simulator and the software switch are made of these.
//!
//! A link has one pending event at most: the arrival of the first packet on its wire. The port takes its scheduling
//! decisions late: [`Link::catch_up`] takes, in order, all that were due. A backlogged port always has a packet on its
//! wire, so nothing else needs an event, except a queue that waits for tokens on an idle wire ([`Link::wake_at`]).

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::plan::{Discipline, QueuePlan};
use super::port::{EgressPort, Next};
use super::queue::{Admission, Occupancy, Queue, QueueCounters, Tally};
use super::shared_buffer::SharedBuffer;
use crate::packet::Packet;
use crate::rng::Stream;
use crate::time::{Instant, Span};
use crate::units::{Rate, Serializer};

/// A packet on a wire.
#[derive(Clone, Copy, Debug)]
struct OnWire {
    arrives: Instant,
    packet: Packet,
}

/// A port with its wire.
///
/// In declared order: an arrival touches the first cache line, a packet that joins the only queue the first two.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Link {
    wire: VecDeque<OnWire>,
    arrived: Tally,
    /// When the last packet committed to the wire has left the port.
    busy_until: Instant,
    /// Node at the far end.
    to: u32,
    /// Packets on the wire that have not started and so are queued still; [`SCHEDULED`] if there are several queues.
    waiting: u32,

    delay: Span,
    /// Zero if a byte does not take a whole number: then the serializer tells.
    ps_per_byte: u64,
    /// When the first packet that waits starts; [`Instant::MAX`] if none waits.
    next_start: Instant,
    /// The only queue. The order of leaving is known on arrival, so a packet goes to the wire at once, and only its
    /// count stays in the queue until its transmission starts.
    queue: Queue,

    serializer: Serializer,
    /// Several queues, a shaper, a device FIFO or jitter, in place of the only queue.
    scheduled: Option<Box<Scheduled>>,
}

/// Marks a link with several queues; no wire holds so many packets.
const SCHEDULED: u32 = u32::MAX;

/// Several queues behind a scheduler. In declared order: what every packet touches comes first.
#[derive(Debug)]
#[repr(C, align(64))]
struct Scheduled {
    /// When the link, or the device FIFO before it, can take the next packet.
    free_at: Instant,
    /// When to take the next scheduling decision: not before `free_at`, later where tokens are missing.
    decide_at: Instant,
    port: EgressPort,
    device_fifo: usize,
    jitter: Option<Box<Jitter>>,
    /// Latest wake-up asked for.
    wake_at: Option<Instant>,
    /// Times at which the packets in the device FIFO start, oldest first; at most as many as it holds.
    device_starts: VecDeque<Instant>,
}

/// How much later than it could a packet starts on an idle link.
#[derive(Debug)]
struct Jitter {
    most: Span,
    stream: Stream,
}

impl Link {
    /// An idle link to node `to`. `name` names the random streams of its markers.
    pub fn new(rate: Rate, delay: Span, to: u32, plan: &QueuePlan, seed: u64, name: &str) -> Self {
        let port = EgressPort::new(plan, rate, seed, name);
        let queue = port.queues().next().expect("a plan has a queue").clone();
        let only = &plan.queues[0];
        let simple = plan.queues.len() == 1
            && plan.device_fifo_packets == 0
            && plan.jitter == Span::ZERO
            && only.shaper.is_none()
            && only.discipline == Discipline::Fifo;
        let scheduled = (!simple).then(|| {
            Box::new(Scheduled {
                port,
                free_at: Instant::ZERO,
                decide_at: Instant::ZERO,
                device_starts: VecDeque::new(),
                device_fifo: plan.device_fifo_packets as usize,
                wake_at: None,
                jitter: (plan.jitter > Span::ZERO).then(|| {
                    Box::new(Jitter { most: plan.jitter, stream: Stream::named(seed, &format!("{name}/jitter")) })
                }),
            })
        });
        let serializer = Serializer::new(rate);
        Self {
            wire: VecDeque::new(),
            arrived: Tally::default(),
            busy_until: Instant::ZERO,
            to,
            waiting: if simple { 0 } else { SCHEDULED },
            delay,
            ps_per_byte: serializer.whole_ps_per_byte().unwrap_or(0),
            next_start: Instant::MAX,
            queue,
            serializer,
            scheduled,
        }
    }

    /// Node at the far end.
    #[inline]
    pub fn to(&self) -> u32 {
        self.to
    }

    /// When the first packet on the wire arrives.
    #[inline]
    pub fn next_arrival(&self) -> Option<Instant> {
        self.wire.front().map(|first| first.arrives)
    }

    /// Queues a packet, after all decisions that were due.
    #[inline(always)]
    pub fn enqueue(&mut self, now: Instant, packet: &Packet, mut shared: Option<&mut SharedBuffer>) -> Admission {
        if self.waiting == SCHEDULED {
            return self.enqueue_scheduled(now, *packet, shared);
        }
        if self.next_start <= now {
            self.start_due(now, shared.as_deref_mut());
        }
        let idle = self.busy_until <= now;
        if idle && self.queue.pass_through(packet, shared.as_deref()) {
            self.commit(now, *packet);
            return Admission::Queued;
        }
        let mut packet = *packet;
        let port = self.queue.occupancy();
        let admission = self.queue.admit(now, &mut packet, port, shared.as_deref_mut());
        if admission != Admission::Queued {
            return admission;
        }
        if idle {
            let port = self.queue.occupancy();
            self.queue.release(now, &mut packet, port, shared);
        } else {
            if self.waiting == 0 {
                self.next_start = self.busy_until;
            }
            self.waiting += 1;
        }
        self.commit(self.busy_until.max(now), packet);
        Admission::Queued
    }

    #[inline(never)]
    fn enqueue_scheduled(&mut self, now: Instant, packet: Packet, mut shared: Option<&mut SharedBuffer>) -> Admission {
        self.decide(now, shared.as_deref_mut());
        let busy_until = self.busy_until;
        let scheduled = self.scheduled_mut();
        let idle = busy_until <= now && scheduled.device_fifo == 0;
        if idle && scheduled.port.pass_through(now, &packet, shared.as_deref()) {
            let start = scheduled.start(busy_until, now);
            let free_at = self.commit(start, packet);
            self.scheduled_mut().occupied_until(free_at);
            return Admission::Queued;
        }
        let admission = scheduled.port.enqueue(now, packet, shared.as_deref_mut());
        // Others may be waiting for tokens; this packet need not.
        let queued = !matches!(admission, Admission::Dropped(_));
        if queued && scheduled.free_at <= now {
            scheduled.decide_at = now;
            self.decide(now, shared);
        }
        admission
    }

    /// Whether `shared` has room for a packet beside what was queued when the last decision was taken.
    #[inline]
    pub fn fits_shared(&self, packet: &Packet, shared: &SharedBuffer) -> bool {
        match &self.scheduled {
            Some(scheduled) => scheduled.port.fits_shared(packet, shared),
            None => self.queue.fits_shared(packet, shared),
        }
    }

    /// The packet that the last one queued displaced or sent back.
    pub fn take_displaced(&mut self) -> Option<Packet> {
        self.scheduled_mut().port.take_displaced()
    }

    #[inline]
    fn scheduled_mut(&mut self) -> &mut Scheduled {
        self.scheduled.as_mut().expect("a link marked so has several queues")
    }

    /// Takes all scheduling decisions that were due by `now`.
    pub fn catch_up(&mut self, now: Instant, shared: Option<&mut SharedBuffer>) {
        if self.waiting == SCHEDULED {
            self.decide(now, shared);
        } else {
            self.start_due(now, shared);
        }
    }

    /// Counts the packets that have started by `now` out of the only queue.
    #[inline(never)]
    fn start_due(&mut self, now: Instant, mut shared: Option<&mut SharedBuffer>) {
        while self.next_start <= now {
            let index = self.wire.len() - self.waiting as usize;
            let first = &mut self.wire[index];
            let port = self.queue.occupancy();
            self.queue.release(self.next_start, &mut first.packet, port, shared.as_deref_mut());
            self.waiting -= 1;
            // The next one starts when this one has left.
            self.next_start = if self.waiting == 0 { Instant::MAX } else { first.arrives.before(self.delay) };
        }
    }

    #[inline]
    fn decide(&mut self, now: Instant, shared: Option<&mut SharedBuffer>) {
        let scheduled = self.scheduled_mut();
        if scheduled.decide_at <= now && !scheduled.port.rests() {
            self.take_decisions(now, shared);
        }
    }

    #[inline(never)]
    fn take_decisions(&mut self, now: Instant, mut shared: Option<&mut SharedBuffer>) {
        loop {
            let busy_until = self.busy_until;
            let scheduled = self.scheduled_mut();
            let at = scheduled.decide_at;
            if at > now {
                return;
            }
            match scheduled.port.dequeue(at, shared.as_deref_mut()) {
                Next::Packet(packet) => {
                    let start = scheduled.start(busy_until, at);
                    let device_free_at = scheduled.occupy_device(start);
                    let link_free_at = self.commit(start, packet);
                    self.scheduled_mut().occupied_until(at.max(device_free_at.unwrap_or(link_free_at)));
                }
                Next::NotBefore(later) => scheduled.decide_at = later,
                Next::Empty => return,
            }
        }
    }

    /// Puts a packet on the wire that starts at `start`; returns when the port is free again.
    #[inline(always)]
    fn commit(&mut self, start: Instant, packet: Packet) -> Instant {
        let bytes = u32::from(packet.wire_bytes);
        let time = if self.ps_per_byte == 0 {
            self.serializer.transmit(bytes)
        } else {
            Span::from_ps(u64::from(bytes) * self.ps_per_byte)
        };
        self.busy_until = start.after(time);
        self.wire.push_back(OnWire { arrives: self.busy_until.after(self.delay), packet });
        self.busy_until
    }

    /// Takes the packet that arrives at the far end now.
    #[inline(always)]
    pub fn take_arrival(&mut self, now: Instant, mut shared: Option<&mut SharedBuffer>) -> Packet {
        if self.waiting as usize == self.wire.len() {
            self.start_due(now, shared.as_deref_mut());
        }
        let first = self.wire.pop_front().expect("an arrival needs a packet on the wire");
        assert!(first.arrives == now, "a packet arrives at its time");
        self.arrived.add(u32::from(first.packet.wire_bytes));
        if self.wire.is_empty() {
            // Starts over at the ring's first place: an idle link keeps to one cache line.
            self.wire.clear();
            if self.waiting == SCHEDULED {
                self.decide(now, shared);
            }
        }
        first.packet
    }

    /// When a port whose wire is empty must be woken because its queues wait for tokens; says so once per time.
    #[inline]
    pub fn wake_at(&mut self) -> Option<Instant> {
        if self.waiting == SCHEDULED && self.wire.is_empty() { self.scheduled_mut().wake_at() } else { None }
    }

    /// What is queued, per queue in the plan's order; the caller has caught up.
    pub fn occupancies(&self) -> Vec<Occupancy> {
        self.queues().map(Queue::occupancy).collect()
    }

    /// Each queue's counts, in the plan's order.
    pub fn counters(&self) -> Vec<QueueCounters> {
        match &self.scheduled {
            Some(scheduled) => scheduled.port.counters().collect(),
            None => alloc::vec![self.queue.counters()],
        }
    }

    /// Its queues, in the plan's order.
    pub fn queues(&self) -> impl Iterator<Item = &Queue> {
        let scheduled = self.scheduled.as_ref().map(|scheduled| scheduled.port.queues());
        let only = scheduled.is_none().then_some(&self.queue);
        only.into_iter().chain(scheduled.into_iter().flatten())
    }

    /// Bytes that wait in the device FIFO; the caller has caught up.
    pub fn device_bytes(&self, now: Instant) -> u64 {
        let Some(scheduled) = &self.scheduled else { return 0 };
        let waiting = scheduled.device_starts.iter().rev().take_while(|start| **start > now).count();
        self.wire.iter().rev().take(waiting).map(|on_wire| u64::from(on_wire.packet.wire_bytes)).sum()
    }

    /// Packets that arrived at the far end.
    pub fn arrived(&self) -> Tally {
        self.arrived
    }

    /// Asserts that every packet and byte admitted has arrived, is on the wire or is queued.
    pub fn assert_conserved(&self, name: impl Fn() -> String) {
        let mut admitted = Tally::default();
        for counters in self.counters() {
            admitted.packets += counters.admitted.packets;
            admitted.bytes += counters.admitted.bytes;
        }
        let inside = self.inside();
        let accounted =
            Tally { packets: self.arrived.packets + inside.packets, bytes: self.arrived.bytes + inside.bytes };
        assert_eq!(admitted, accounted, "packets and bytes are conserved on {}", name());
    }

    /// Packets queued or on the wire.
    pub fn in_flight(&self) -> u64 {
        self.inside().packets
    }

    fn inside(&self) -> Tally {
        let mut inside = Tally::default();
        for on_wire in &self.wire {
            inside.add(u32::from(on_wire.packet.wire_bytes));
        }
        if let Some(scheduled) = &self.scheduled {
            inside.packets += u64::from(scheduled.port.occupancy().packets);
            inside.bytes += scheduled.port.occupancy().bytes;
        }
        inside
    }
}

impl Scheduled {
    /// When a packet starts that can at `at`, on a link that is busy until then or has been idle.
    #[inline]
    fn start(&mut self, busy_until: Instant, at: Instant) -> Instant {
        match &mut self.jitter {
            Some(jitter) if busy_until < at => at.after(Span::from_ps(jitter.stream.below(jitter.most.as_ps() + 1))),
            _ => busy_until.max(at),
        }
    }

    /// No further packet can be taken before `free_at`.
    fn occupied_until(&mut self, free_at: Instant) {
        self.free_at = free_at;
        self.decide_at = free_at;
    }

    /// When to wake the port if packets wait, unless that was said before.
    fn wake_at(&mut self) -> Option<Instant> {
        if self.port.occupancy().packets == 0 || self.wake_at == Some(self.decide_at) {
            return None;
        }
        self.wake_at = Some(self.decide_at);
        self.wake_at
    }

    /// Books a packet into the device FIFO; returns when it can take the next, `None` if there is no such FIFO.
    fn occupy_device(&mut self, start: Instant) -> Option<Instant> {
        if self.device_fifo == 0 {
            return None;
        }
        self.device_starts.push_back(start);
        while self.device_starts.len() > self.device_fifo {
            self.device_starts.pop_front();
        }
        self.device_starts.front().copied()
    }
}

#[cfg(test)]
mod tests;
