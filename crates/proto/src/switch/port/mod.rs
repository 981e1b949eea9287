//! An egress port: classifier, queues, scheduler and shapers put together.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::format;

use super::foreign::{Enqueued, ForeignQueue};
use super::pfabric;
use super::plan::{Discipline, QueueConfig, QueuePlan};
use super::queue::{Admission, Occupancy, Queue, QueueCounters};
use super::scheduler::Weighted;
use super::shaper::TokenBucket;
use super::shared_buffer::SharedBuffer;
use super::trim::Trimmer;
use crate::packet::{CLASSES, Packet};
use crate::rng::Stream;
use crate::time::Instant;
use crate::units::Rate;

/// What a port has to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// This packet, now; it has left its queue.
    Packet(Packet),
    /// Nothing before this time: what is queued waits for tokens.
    NotBefore(Instant),
    /// Nothing is queued.
    Empty,
}

/// The queues of one port and the choice among them.
///
/// The driver owns the link: it calls [`dequeue`](Self::dequeue) whenever the link (or the device FIFO before it) can
/// take a packet, at the time when that became so.
///
/// In declared order: what every packet touches comes first.
#[derive(Debug)]
#[repr(C)]
pub struct EgressPort {
    occupancy: Occupancy,
    queues: Box<[PacketQueue]>,
    /// Queue `i` has a shaper if bit `i` is set.
    shaped: u32,
    /// Queue `i` has a discipline other than first in, first out if bit `i` is set.
    disciplined: u32,
    strict: u8,
    weighted: Weighted,
    queue_of_class: [u8; CLASSES],

    /// The packet that made room for the last one queued.
    displaced: Option<Packet>,
    /// What queues that trim need.
    trimmer: Option<Box<Trimmer>>,
}

/// In declared order: what every packet touches fits the first cache line and a quarter.
#[derive(Debug)]
#[repr(C, align(64))]
struct PacketQueue {
    packets: VecDeque<Packet>,
    queue: Queue,
    shaper: Option<TokenBucket>,
    order: Order,
}

/// A [`Discipline`] at work.
#[derive(Debug)]
enum Order {
    Fifo,
    PFabric,
    Trim {
        header_bytes: u16,
        header_class: u8,
    },
    ReturnToSender,
    /// Keeps the packets itself.
    Foreign(Box<dyn ForeignQueue>),
}

impl Order {
    fn new(config: &QueueConfig, link: Rate, stream: impl FnOnce() -> Stream) -> Self {
        match config.discipline {
            Discipline::Fifo => Self::Fifo,
            Discipline::PFabric => Self::PFabric,
            Discipline::Trim { header_bytes, header_class } => Self::Trim { header_bytes, header_class },
            Discipline::ReturnToSender => Self::ReturnToSender,
            Discipline::Foreign(ref discipline) => Self::Foreign(discipline.queue(config, link, stream())),
        }
    }
}

impl PacketQueue {
    /// Bytes of the packet that leaves next.
    #[inline]
    fn next_bytes(&self, disciplined: bool) -> Option<u32> {
        let bytes =
            if disciplined { self.next_bytes_in_order() } else { self.packets.front().map(|packet| packet.wire_bytes) };
        bytes.map(u32::from)
    }

    fn next_bytes_in_order(&self) -> Option<u16> {
        let next = match &self.order {
            Order::Fifo | Order::Trim { .. } | Order::ReturnToSender => self.packets.front(),
            Order::PFabric => pfabric::next(&self.packets).and_then(|index| self.packets.get(index)),
            Order::Foreign(foreign) => return foreign.next_bytes(),
        };
        next.map(|packet| packet.wire_bytes)
    }

    /// Takes the packet that leaves next.
    fn take_in_order(&mut self, now: Instant) -> Option<Packet> {
        match &mut self.order {
            Order::Fifo | Order::Trim { .. } | Order::ReturnToSender => self.packets.pop_front(),
            Order::PFabric => pfabric::next(&self.packets).and_then(|index| self.packets.remove(index)),
            Order::Foreign(foreign) => foreign.dequeue(now),
        }
    }

    /// Asserts that a queue of another crate holds what was counted into it.
    fn assert_conserved(&self) {
        if let Order::Foreign(foreign) = &self.order {
            assert_eq!(foreign.occupancy(), self.queue.occupancy(), "a queue neither loses packets nor makes them");
        }
    }
}

impl EgressPort {
    /// An empty port to a link of rate `link` after `plan`, which must have passed [`QueuePlan::check`]. Markers that draw take their streams
    /// from `seed` and `name`.
    pub fn new(plan: &QueuePlan, link: Rate, seed: u64, name: &str) -> Self {
        let stream = |config: &QueueConfig| Stream::named(seed, &format!("{name}/{}", config.name));
        let queues = plan.queues.iter().map(|config| PacketQueue {
            queue: Queue::new(config, link, || stream(config)),
            packets: VecDeque::new(),
            shaper: config.shaper.map(|shaper| TokenBucket::new(shaper, link)),
            order: Order::new(config, link, || stream(config)),
        });
        let bits = |is_set: fn(&QueueConfig) -> bool| {
            (0..).zip(&plan.queues).map(|(bit, queue)| u32::from(is_set(queue)) << bit).sum()
        };
        Self {
            occupancy: Occupancy::default(),
            shaped: bits(|queue| queue.shaper.is_some()),
            disciplined: bits(|queue| queue.discipline != Discipline::Fifo),
            strict: plan.scheduler.strict_queues(plan.queues.len()) as u8,
            weighted: Weighted::new(plan),
            queue_of_class: plan.queue_of_class,
            queues: queues.collect(),
            displaced: None,
            trimmer: plan
                .trims()
                .map(|_| Box::new(Trimmer::new(plan.queues.len(), Stream::named(seed, &format!("{name}/trim"))))),
        }
    }

    /// Counts a packet in and out that finds every queue empty and the link free. False if it must be queued first:
    /// then nothing was counted. Strict priority and DWRR keep no memory of such a packet, so they need not see it.
    #[inline]
    pub fn pass_through(&mut self, now: Instant, packet: &Packet, shared: Option<&SharedBuffer>) -> bool {
        if !self.rests() {
            return false;
        }
        let index = self.queue_of_class[packet.traffic_class.class()];
        let PacketQueue { queue, shaper, .. } = &mut self.queues[usize::from(index)];
        if !queue.may_pass_through(packet, shared) {
            return false;
        }
        if has(self.shaped, index)
            && let Some(shaper) = shaper
            && shaper.take(now, u32::from(packet.wire_bytes)).is_err()
        {
            return false;
        }
        queue.count_through(packet);
        true
    }

    /// Whether nothing is queued and no scheduler remembers what was.
    #[inline]
    pub fn rests(&self) -> bool {
        self.occupancy.packets == 0 && !matches!(self.weighted, Weighted::Scfq(_))
    }

    /// Judges an arriving packet and queues it.
    #[inline]
    pub fn enqueue(&mut self, now: Instant, mut packet: Packet, shared: Option<&mut SharedBuffer>) -> Admission {
        let index = self.queue_of_class[packet.traffic_class.class()];
        let disciplined = has(self.disciplined, index);
        let queue = &mut self.queues[usize::from(index)];
        let before = queue.queue.occupancy().packets;
        if disciplined {
            let full = !queue.queue.fits(packet.wire_bytes.into());
            match queue.order {
                Order::Foreign(_) => return self.enqueue_foreign(now, index, packet),
                Order::PFabric if full => self.make_room(index, &packet),
                Order::Trim { header_bytes, header_class } if full && packet.is_trimmable() => {
                    return self.trim(now, index, packet, header_bytes, header_class);
                }
                Order::ReturnToSender if full && packet.is_returnable() => return self.give_back(index, packet),
                Order::Fifo | Order::PFabric | Order::Trim { .. } | Order::ReturnToSender => {}
            }
        }
        let queue = &mut self.queues[usize::from(index)];
        let admission = queue.queue.admit(now, &mut packet, self.occupancy, shared);
        if admission == Admission::Queued {
            queue.packets.push_back(packet);
            self.occupancy.packets += 1;
            self.occupancy.bytes += u64::from(packet.wire_bytes);
            if index >= self.strict {
                self.weighted.on_enqueue(index, u32::from(packet.wire_bytes), before);
            }
            if disciplined && self.displaced.is_some() {
                return Admission::Displaced;
            }
        }
        admission
    }

    /// Whether `shared` has room for a packet beside what its queue holds.
    #[inline]
    pub fn fits_shared(&self, packet: &Packet, shared: &SharedBuffer) -> bool {
        let index = self.queue_of_class[packet.traffic_class.class()];
        self.queues[usize::from(index)].queue.fits_shared(packet, shared)
    }

    /// Takes the packet that was displaced or is to go back, once after each [`Admission::Displaced`] or
    /// [`Admission::Returned`].
    pub fn take_displaced(&mut self) -> Option<Packet> {
        self.displaced.take()
    }

    /// Lets a queue of another crate's discipline judge an arriving packet.
    fn enqueue_foreign(&mut self, now: Instant, index: u8, packet: Packet) -> Admission {
        let place = &mut self.queues[usize::from(index)];
        let before = place.queue.occupancy().packets;
        let Order::Foreign(foreign) = &mut place.order else { unreachable!("the caller looked") };
        let admission = match foreign.enqueue(now, packet) {
            Enqueued::Queued => Admission::Queued,
            Enqueued::Displaced(victim) => {
                place.queue.displace(&victim);
                self.occupancy.packets -= 1;
                self.occupancy.bytes -= u64::from(victim.wire_bytes);
                self.displaced = Some(victim);
                Admission::Displaced
            }
            Enqueued::Dropped(reason) => place.queue.refuse(packet.wire_bytes.into(), reason),
        };
        if !matches!(admission, Admission::Dropped(_)) {
            place.queue.count_in(&packet);
            self.occupancy.packets += 1;
            self.occupancy.bytes += u64::from(packet.wire_bytes);
            if index >= self.strict {
                self.weighted.on_enqueue(index, u32::from(packet.wire_bytes), before);
            }
        }
        place.assert_conserved();
        admission
    }

    /// Takes a packet less urgent than `packet` out of a pFabric queue, if taking one is enough.
    #[cold]
    fn make_room(&mut self, index: u8, packet: &Packet) {
        let PacketQueue { packets, queue, .. } = &mut self.queues[usize::from(index)];
        let Some(victim) = pfabric::victim(packets, packet.priority()) else { return };
        if !queue.fits_in_place_of(packet.wire_bytes.into(), packets[victim].wire_bytes.into()) {
            return;
        }
        let victim = packets.remove(victim).expect("the victim is queued");
        queue.displace(&victim);
        self.occupancy.packets -= 1;
        self.occupancy.bytes -= u64::from(victim.wire_bytes);
        self.displaced = Some(victim);
    }

    /// Makes the arriving packet or the last one queued a header, and queues that instead.
    #[cold]
    fn trim(&mut self, now: Instant, index: u8, mut packet: Packet, header_bytes: u16, header_class: u8) -> Admission {
        let trimmer = self.trimmer.as_mut().expect("a plan with a queue that trims has one");
        trimmer.trimmed[usize::from(index)] += 1;
        let queue = &mut self.queues[usize::from(index)];
        let last = queue.packets.back().copied().filter(|last| {
            last.is_trimmable() && queue.queue.fits_in_place_of(packet.wire_bytes.into(), last.wire_bytes.into())
        });
        if let Some(last) = last.filter(|_| trimmer.stream.below(2) == 0) {
            queue.packets.pop_back();
            queue.queue.withdraw(&last);
            let admission = queue.queue.admit(now, &mut packet, self.occupancy, None);
            assert_eq!(admission, Admission::Queued, "it fits in place of the last one, and nothing else is asked");
            queue.packets.push_back(packet);
            self.occupancy.bytes += u64::from(packet.wire_bytes);
            self.occupancy.bytes -= u64::from(last.wire_bytes);
            packet = last;
        }
        packet.trim(header_bytes, header_class);
        self.enqueue(now, packet, None)
    }

    /// There is no room for a header.
    #[cold]
    fn give_back(&mut self, index: u8, packet: Packet) -> Admission {
        let trimmer = self.trimmer.as_mut().expect("headers come where packets are trimmed");
        trimmer.returned[usize::from(index)] += 1;
        self.displaced = Some(packet);
        Admission::Returned
    }

    /// Takes the next packet, as of `now`.
    #[inline]
    pub fn dequeue(&mut self, now: Instant, shared: Option<&mut SharedBuffer>) -> Next {
        if self.occupancy.packets == 0 {
            self.weighted.on_idle();
            return Next::Empty;
        }
        let mut not_before = Instant::MAX;
        for index in 0..self.strict {
            let queue = &mut self.queues[usize::from(index)];
            if queue.queue.is_empty() {
                continue;
            }
            if has(self.shaped, index)
                && let Some(bytes) = queue.next_bytes(has(self.disciplined, index))
                && let Some(shaper) = &mut queue.shaper
                && let Err(at) = shaper.take(now, bytes)
            {
                not_before = not_before.min(at);
                continue;
            }
            return Next::Packet(self.take(now, index, shared));
        }
        let (queues, disciplined) = (&self.queues, self.disciplined);
        let head = |index: u8| {
            queues[usize::from(index)].next_bytes(has(disciplined, index)).expect("an active queue holds a packet")
        };
        match self.weighted.next(head) {
            Some(index) => {
                let packet = self.take(now, index, shared);
                if self.queues[usize::from(index)].queue.is_empty() {
                    self.weighted.on_emptied(index);
                }
                Next::Packet(packet)
            }
            None => Next::NotBefore(not_before),
        }
    }

    #[inline]
    fn take(&mut self, now: Instant, index: u8, shared: Option<&mut SharedBuffer>) -> Packet {
        let disciplined = has(self.disciplined, index);
        let queue = &mut self.queues[usize::from(index)];
        let packet = if disciplined { queue.take_in_order(now) } else { queue.packets.pop_front() };
        let mut packet = packet.expect("the scheduler chose a queue that holds a packet");
        queue.queue.release(now, &mut packet, self.occupancy, shared);
        self.occupancy.packets -= 1;
        self.occupancy.bytes -= u64::from(packet.wire_bytes);
        if disciplined {
            queue.assert_conserved();
        }
        packet
    }

    /// What all queues hold.
    #[inline]
    pub fn occupancy(&self) -> Occupancy {
        self.occupancy
    }

    /// Each queue's counts, in the plan's order.
    pub fn counters(&self) -> impl Iterator<Item = QueueCounters> {
        self.queues.iter().enumerate().map(|(index, queue)| {
            let (trimmed_packets, returned_packets) =
                self.trimmer.as_ref().map_or((0, 0), |trimmer| (trimmer.trimmed[index], trimmer.returned[index]));
            let counted = queue.queue.counters();
            let marked_packets = match &queue.order {
                Order::Foreign(foreign) => foreign.marked_packets(),
                Order::Fifo | Order::PFabric | Order::Trim { .. } | Order::ReturnToSender => counted.marked_packets,
            };
            QueueCounters { marked_packets, trimmed_packets, returned_packets, ..counted }
        })
    }

    /// The queues, in the plan's order.
    pub fn queues(&self) -> impl Iterator<Item = &Queue> {
        self.queues.iter().map(|queue| &queue.queue)
    }
}

/// Whether the bit of a queue is set.
#[inline]
fn has(queues: u32, index: u8) -> bool {
    queues >> index & 1 != 0
}

#[cfg(test)]
mod tests;
