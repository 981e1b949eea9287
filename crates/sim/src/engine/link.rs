//! A directed link: an egress port and the wire behind it.
//!
//! A link has one pending event at most: the arrival of the first packet on its wire. The port takes its scheduling
//! decisions late: [`Link::catch_up`] takes, in order, all that were due. A backlogged port always has a packet on its
//! wire, so nothing else needs an event, except a queue that waits for tokens on an idle wire ([`Link::wake_at`]).

use std::collections::VecDeque;

use pliant_proto::packet::Packet;
use pliant_proto::switch::queue::{Admission, Occupancy, Queue, QueueCounters, Tally};
use pliant_proto::switch::{EgressPort, Next, QueuePlan, SharedBuffer};
use pliant_proto::time::{Instant, Span};
use pliant_proto::units::{Rate, Serializer};

/// A packet on a wire.
#[derive(Clone, Copy, Debug)]
struct OnWire {
    arrives: Instant,
    packet: Packet,
}

/// A port with its wire. In declared order, from a cache line's start: what every packet touches comes first.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Link {
    /// When the last packet committed to the wire has left the port.
    busy_until: Instant,
    delay: Span,
    serializer: Serializer,
    wire: VecDeque<OnWire>,
    arrived: Tally,
    queueing: Queueing,
}

#[derive(Debug)]
enum Queueing {
    /// One queue: the order of leaving is known on arrival, so a packet goes to the wire at once, and only its count
    /// stays in the queue until its transmission starts.
    Fifo(Fifo),
    Scheduled(Box<Scheduled>),
}

/// One queue.
#[derive(Debug)]
#[repr(C)]
struct Fifo {
    /// When the first packet that waits starts; [`Instant::MAX`] if none waits.
    next_start: Instant,
    queue: Queue,
}

/// Several queues behind a scheduler.
#[derive(Debug)]
struct Scheduled {
    port: EgressPort,
    /// When the next scheduling decision may be taken.
    decide_at: Instant,
    /// Times at which the packets in the device FIFO start, oldest first; at most as many as it holds.
    device_starts: VecDeque<Instant>,
    device_fifo: usize,
    /// Latest wake-up asked for.
    wake_at: Option<Instant>,
}

impl Link {
    /// An idle link. `name` names the random streams of its markers.
    pub(super) fn new(rate: Rate, delay: Span, plan: &QueuePlan, seed: u64, name: &str) -> Self {
        let port = EgressPort::new(plan, seed, name);
        let only = (plan.queues.len() == 1 && plan.device_fifo_packets == 0 && plan.queues[0].shaper.is_none())
            .then(|| port.queues().next().expect("a plan has a queue").clone());
        let queueing = match only {
            Some(queue) => Queueing::Fifo(Fifo { next_start: Instant::MAX, queue }),
            None => Queueing::Scheduled(Box::new(Scheduled {
                port,
                decide_at: Instant::ZERO,
                device_starts: VecDeque::new(),
                device_fifo: plan.device_fifo_packets as usize,
                wake_at: None,
            })),
        };
        Self {
            busy_until: Instant::ZERO,
            delay,
            serializer: Serializer::new(rate),
            wire: VecDeque::new(),
            arrived: Tally::default(),
            queueing,
        }
    }

    /// When the first packet on the wire arrives.
    #[inline]
    pub(super) fn next_arrival(&self) -> Option<Instant> {
        self.wire.front().map(|first| first.arrives)
    }

    /// Queues a packet, after all decisions that were due.
    #[inline(always)]
    pub(super) fn enqueue(
        &mut self,
        now: Instant,
        packet: &Packet,
        mut shared: Option<&mut SharedBuffer>,
    ) -> Admission {
        let Queueing::Fifo(fifo) = &mut self.queueing else { return self.enqueue_scheduled(now, *packet, shared) };
        let mut packet = *packet;
        if fifo.next_start <= now {
            fifo.start_due(now, self.delay, &mut self.wire, shared.as_deref_mut());
        }
        let idle = self.busy_until <= now;
        if !(idle && shared.is_none() && fifo.queue.pass_through(&packet)) {
            let port = fifo.queue.occupancy();
            let admission = fifo.queue.admit(now, &mut packet, port, shared.as_deref_mut());
            if admission != Admission::Queued {
                return admission;
            }
            if idle {
                let port = fifo.queue.occupancy();
                fifo.queue.release(&mut packet, port, shared);
            } else if port.packets == 0 {
                fifo.next_start = self.busy_until;
            }
        }
        let start = self.busy_until.max(now);
        self.commit(start, packet);
        Admission::Queued
    }

    #[inline(never)]
    fn enqueue_scheduled(&mut self, now: Instant, packet: Packet, mut shared: Option<&mut SharedBuffer>) -> Admission {
        self.decide(now, shared.as_deref_mut());
        let Queueing::Scheduled(scheduled) = &mut self.queueing else { unreachable!("several queues") };
        if self.busy_until <= now
            && scheduled.device_fifo == 0
            && shared.is_none()
            && scheduled.port.pass_through(&packet)
        {
            let free_at = self.commit(now, packet);
            let Queueing::Scheduled(scheduled) = &mut self.queueing else { unreachable!("several queues") };
            scheduled.decide_at = free_at;
            return Admission::Queued;
        }
        let admission = scheduled.port.enqueue(now, packet, shared.as_deref_mut());
        let idle = self.busy_until <= now && scheduled.device_fifo == 0;
        if admission == Admission::Queued && (idle || scheduled.decide_at <= now) {
            scheduled.decide_at = now;
            self.decide(now, shared);
        }
        admission
    }

    /// Takes all scheduling decisions that were due by `now`.
    #[inline]
    pub(super) fn catch_up(&mut self, now: Instant, shared: Option<&mut SharedBuffer>) {
        match &mut self.queueing {
            Queueing::Fifo(fifo) if fifo.next_start <= now => {
                fifo.start_due(now, self.delay, &mut self.wire, shared);
            }
            Queueing::Fifo(_) => {}
            Queueing::Scheduled(_) => self.decide(now, shared),
        }
    }

    fn decide(&mut self, now: Instant, mut shared: Option<&mut SharedBuffer>) {
        loop {
            let Queueing::Scheduled(scheduled) = &mut self.queueing else { unreachable!("several queues") };
            let at = scheduled.decide_at;
            if at > now {
                return;
            }
            match scheduled.port.dequeue(at, shared.as_deref_mut()) {
                Next::Packet(packet) => {
                    let start = self.busy_until.max(at);
                    let free_at = scheduled.occupy_device(start);
                    let busy_until = self.commit(start, packet);
                    let Queueing::Scheduled(scheduled) = &mut self.queueing else { unreachable!("several queues") };
                    scheduled.decide_at = at.max(free_at.unwrap_or(busy_until));
                }
                Next::NotBefore(later) => scheduled.decide_at = later,
                Next::Empty => return,
            }
        }
    }

    /// Puts a packet on the wire that starts at `start`; returns when the port is free again.
    #[inline(always)]
    fn commit(&mut self, start: Instant, packet: Packet) -> Instant {
        self.busy_until = start.after(self.serializer.transmit(u32::from(packet.wire_bytes)));
        self.wire.push_back(OnWire { arrives: self.busy_until.after(self.delay), packet });
        self.busy_until
    }

    /// Takes the packet that arrives at the far end now. Call [`Self::catch_up`] after it if the wire is empty.
    #[inline]
    pub(super) fn take_arrival(&mut self, now: Instant, shared: Option<&mut SharedBuffer>) -> Packet {
        if let Queueing::Fifo(fifo) = &mut self.queueing
            && fifo.queue.occupancy().packets as usize == self.wire.len()
        {
            fifo.start_due(now, self.delay, &mut self.wire, shared);
        }
        let first = self.wire.pop_front().expect("an arrival needs a packet on the wire");
        assert!(first.arrives == now, "a packet arrives at its time");
        if self.wire.is_empty() {
            // Starts over at the ring's first place: an idle link keeps to one cache line.
            self.wire.clear();
        }
        self.arrived.add(u32::from(first.packet.wire_bytes));
        first.packet
    }

    /// When a port whose wire is empty must be woken because its queues wait for tokens; says so once per time.
    pub(super) fn wake_at(&mut self) -> Option<Instant> {
        let Queueing::Scheduled(scheduled) = &mut self.queueing else { return None };
        if !self.wire.is_empty() || scheduled.port.occupancy().packets == 0 {
            return None;
        }
        let at = Some(scheduled.decide_at);
        (scheduled.wake_at != at).then(|| scheduled.wake_at = at).and(at)
    }

    /// What is queued, per queue in the plan's order; the caller has caught up.
    pub(super) fn occupancies(&self) -> Vec<Occupancy> {
        self.queues().iter().map(|queue| queue.occupancy()).collect()
    }

    /// Each queue's counts, in the plan's order.
    pub(super) fn counters(&self) -> Vec<QueueCounters> {
        self.queues().iter().map(|queue| queue.counters()).collect()
    }

    fn queues(&self) -> Vec<&Queue> {
        match &self.queueing {
            Queueing::Fifo(fifo) => vec![&fifo.queue],
            Queueing::Scheduled(scheduled) => scheduled.port.queues().collect(),
        }
    }

    /// Packets that arrived at the far end.
    pub(super) fn arrived(&self) -> Tally {
        self.arrived
    }

    /// Asserts that every packet and byte admitted has arrived, is on the wire or is queued.
    pub(super) fn assert_conserved(&self, name: impl Fn() -> String) {
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
    pub(super) fn in_flight(&self) -> u64 {
        self.inside().packets
    }

    fn inside(&self) -> Tally {
        let mut inside = Tally::default();
        for on_wire in &self.wire {
            inside.add(u32::from(on_wire.packet.wire_bytes));
        }
        if let Queueing::Scheduled(scheduled) = &self.queueing {
            inside.packets += u64::from(scheduled.port.occupancy().packets);
            inside.bytes += scheduled.port.occupancy().bytes;
        }
        inside
    }
}

impl Fifo {
    /// Counts the packets that have started by `now` out of the queue.
    #[inline(never)]
    fn start_due(
        &mut self,
        now: Instant,
        delay: Span,
        wire: &mut VecDeque<OnWire>,
        mut shared: Option<&mut SharedBuffer>,
    ) {
        while self.next_start <= now {
            let waiting = self.queue.occupancy();
            let index = wire.len() - waiting.packets as usize;
            let first = &mut wire[index];
            self.queue.release(&mut first.packet, waiting, shared.as_deref_mut());
            // The next one starts when this one has left.
            self.next_start = if waiting.packets == 1 { Instant::MAX } else { first.arrives.before(delay) };
        }
    }
}

impl Scheduled {
    /// Books a packet into the device FIFO; returns when it can take the next, `None` if there is no such FIFO.
    fn occupy_device(&mut self, start: Instant) -> Option<Instant> {
        if self.device_fifo == 0 {
            return None;
        }
        self.device_starts.push_back(start);
        if self.device_starts.len() < self.device_fifo {
            return Some(Instant::ZERO);
        }
        while self.device_starts.len() > self.device_fifo {
            self.device_starts.pop_front();
        }
        self.device_starts.front().copied()
    }
}
