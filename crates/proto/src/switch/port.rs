//! An egress port: classifier, queues, scheduler and shapers put together.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::format;

use super::plan::{QueueConfig, QueuePlan};
use super::queue::{Admission, Occupancy, Queue};
use super::scheduler::Weighted;
use super::shaper::TokenBucket;
use super::shared_buffer::SharedBuffer;
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
#[derive(Clone, Debug)]
pub struct EgressPort {
    occupancy: Occupancy,
    strict: u8,
    /// Queue `i` has a shaper if bit `i` is set.
    shaped: u32,
    weighted: Weighted,
    queue_of_class: [u8; CLASSES],
    queues: Box<[PacketQueue]>,
}

#[derive(Clone, Debug)]
#[repr(C)]
struct PacketQueue {
    packets: VecDeque<Packet>,
    queue: Queue,
    shaper: Option<TokenBucket>,
}

impl EgressPort {
    /// An empty port to a link of rate `link` after `plan`, which must have passed [`QueuePlan::check`]. Markers that draw take their streams
    /// from `seed` and `name`.
    pub fn new(plan: &QueuePlan, link: Rate, seed: u64, name: &str) -> Self {
        let stream = |config: &QueueConfig| Stream::named(seed, &format!("{name}/{}", config.name));
        let queues = plan.queues.iter().map(|config| PacketQueue {
            queue: Queue::new(config, || stream(config)),
            packets: VecDeque::new(),
            shaper: config.shaper.map(|shaper| TokenBucket::new(shaper, link)),
        });
        Self {
            occupancy: Occupancy::default(),
            shaped: (0..).zip(&plan.queues).map(|(bit, queue)| u32::from(queue.shaper.is_some()) << bit).sum(),
            strict: plan.scheduler.strict_queues(plan.queues.len()) as u8,
            weighted: Weighted::new(plan),
            queue_of_class: plan.queue_of_class,
            queues: queues.collect(),
        }
    }

    /// Counts a packet in and out that finds every queue empty and the link free. False if it must be queued first:
    /// then nothing was counted. Strict priority and DWRR keep no memory of such a packet, so they need not see it.
    #[inline]
    pub fn pass_through(&mut self, packet: &Packet) -> bool {
        let index = self.queue_of_class[packet.traffic_class.class()];
        self.occupancy.packets == 0
            && !matches!(self.weighted, Weighted::Scfq(_))
            && self.shaped >> index & 1 == 0
            && self.queues[usize::from(index)].queue.pass_through(packet)
    }

    /// Judges an arriving packet and queues it.
    #[inline]
    pub fn enqueue(&mut self, now: Instant, mut packet: Packet, shared: Option<&mut SharedBuffer>) -> Admission {
        let index = self.queue_of_class[packet.traffic_class.class()];
        let queue = &mut self.queues[usize::from(index)];
        let before = queue.queue.occupancy().packets;
        let admission = queue.queue.admit(now, &mut packet, self.occupancy, shared);
        if admission == Admission::Queued {
            queue.packets.push_back(packet);
            self.occupancy.packets += 1;
            self.occupancy.bytes += u64::from(packet.wire_bytes);
            if index >= self.strict {
                self.weighted.on_enqueue(index, u32::from(packet.wire_bytes), before);
            }
        }
        admission
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
            let Some(head) = queue.packets.front() else { continue };
            if self.shaped >> index & 1 != 0
                && let Some(shaper) = &mut queue.shaper
                && let Err(at) = shaper.take(now, u32::from(head.wire_bytes))
            {
                not_before = not_before.min(at);
                continue;
            }
            return Next::Packet(self.take(index, shared));
        }
        let queues = &self.queues;
        let head = |index: u8| {
            let head = queues[usize::from(index)].packets.front();
            u32::from(head.expect("an active queue holds a packet").wire_bytes)
        };
        match self.weighted.next(head) {
            Some(index) => {
                let packet = self.take(index, shared);
                if self.queues[usize::from(index)].packets.is_empty() {
                    self.weighted.on_emptied(index);
                }
                Next::Packet(packet)
            }
            None => Next::NotBefore(not_before),
        }
    }

    #[inline]
    fn take(&mut self, index: u8, shared: Option<&mut SharedBuffer>) -> Packet {
        let queue = &mut self.queues[usize::from(index)];
        let mut packet = queue.packets.pop_front().expect("the scheduler chose a queue that holds a packet");
        queue.queue.release(&mut packet, self.occupancy, shared);
        self.occupancy.packets -= 1;
        self.occupancy.bytes -= u64::from(packet.wire_bytes);
        packet
    }

    /// What all queues hold.
    #[inline]
    pub fn occupancy(&self) -> Occupancy {
        self.occupancy
    }

    /// Each queue's counts, in the plan's order.
    pub fn queues(&self) -> impl Iterator<Item = &Queue> {
        self.queues.iter().map(|queue| &queue.queue)
    }
}

#[cfg(test)]
#[path = "port_tests.rs"]
mod tests;
