//! Which queue sends next.
//!
//! Strict priority first, then one of: nothing, deficit weighted round robin (Shreedhar and Varghese 1995),
//! self-clocked fair queueing (Golestani 1994). The port keeps the packets; the scheduler sees their sizes.

use alloc::boxed::Box;
use alloc::collections::VecDeque;

use super::plan::{QueuePlan, SchedulerConfig};
use crate::packet::CLASSES;

/// The scheduler of the queues behind the strict ones.
#[derive(Clone, Debug)]
pub(super) enum Weighted {
    None,
    Dwrr(Dwrr),
    Scfq(Scfq),
}

impl Weighted {
    pub(super) fn new(plan: &QueuePlan) -> Self {
        match plan.scheduler {
            SchedulerConfig::Strict => Self::None,
            SchedulerConfig::Dwrr { quantum_bytes, .. } => Self::Dwrr(Dwrr::new(
                plan.queues.iter().map(|queue| u64::from(queue.weight) * u64::from(quantum_bytes)),
            )),
            SchedulerConfig::Wfq { .. } => {
                Self::Scfq(Scfq::new(plan.queues.iter().map(|queue| u64::from(queue.weight))))
            }
        }
    }

    /// A packet of `bytes` joined `queue`, which held `before` packets.
    #[inline]
    pub(super) fn on_enqueue(&mut self, queue: u8, bytes: u32, before: u32) {
        match self {
            Self::Dwrr(dwrr) if before == 0 => dwrr.active.push(queue),
            Self::None | Self::Dwrr(_) => {}
            Self::Scfq(scfq) => scfq.on_enqueue(queue, bytes),
        }
    }

    /// The queue that sends now; `head` gives the size of a queue's first packet. The caller takes that packet.
    #[inline]
    pub(super) fn next(&mut self, head: impl Fn(u8) -> u32) -> Option<u8> {
        match self {
            Self::None => None,
            Self::Dwrr(dwrr) => dwrr.next(head),
            Self::Scfq(scfq) => scfq.next(),
        }
    }

    /// The queue that sent last is empty now.
    #[inline]
    pub(super) fn on_emptied(&mut self, queue: u8) {
        if let Self::Dwrr(dwrr) = self {
            dwrr.on_emptied(queue);
        }
    }

    /// The link found nothing to send.
    #[inline]
    pub(super) fn on_idle(&mut self) {
        if let Self::Scfq(scfq) = self {
            scfq.on_idle();
        }
    }
}

/// Deficit weighted round robin.
///
/// A queue that turns active joins the tail with no deficit, is given its quantum once per visit, sends while its head
/// fits, and keeps the rest unless it runs empty.
#[derive(Clone, Debug)]
pub(super) struct Dwrr {
    active: ActiveList,
    /// Whether the first active queue was given its quantum on this visit.
    visiting: bool,
    accounts: Box<[Account]>,
}

/// What a queue may send.
#[derive(Clone, Copy, Debug)]
struct Account {
    deficit: u64,
    quantum: u64,
}

impl Dwrr {
    fn new(quanta: impl Iterator<Item = u64>) -> Self {
        let accounts = quanta.map(|quantum| Account { deficit: 0, quantum }).collect();
        Self { active: ActiveList::default(), visiting: false, accounts }
    }

    #[inline]
    fn next(&mut self, head: impl Fn(u8) -> u32) -> Option<u8> {
        loop {
            let queue = self.active.first()?;
            let account = &mut self.accounts[usize::from(queue)];
            if !self.visiting {
                account.deficit += account.quantum;
                self.visiting = true;
            }
            let bytes = u64::from(head(queue));
            if bytes <= account.deficit {
                account.deficit -= bytes;
                return Some(queue);
            }
            self.visiting = false;
            self.active.remove_first();
            self.active.push(queue);
        }
    }

    #[inline]
    fn on_emptied(&mut self, queue: u8) {
        assert_eq!(self.active.first(), Some(queue), "only the visited queue can run empty");
        self.active.remove_first();
        self.accounts[usize::from(queue)].deficit = 0;
        self.visiting = false;
    }
}

/// Queues that hold packets, in the order of their turns. In place: a port touches it for every packet.
#[derive(Clone, Debug, Default)]
struct ActiveList {
    first: u8,
    count: u8,
    queues: [u8; CLASSES],
}

impl ActiveList {
    #[inline]
    fn first(&self) -> Option<u8> {
        (self.count > 0).then(|| self.queues[usize::from(self.first) % CLASSES])
    }

    #[inline]
    fn push(&mut self, queue: u8) {
        assert!(usize::from(self.count) < CLASSES, "a queue is active once");
        self.queues[usize::from(self.first + self.count) % CLASSES] = queue;
        self.count += 1;
    }

    #[inline]
    fn remove_first(&mut self) {
        self.first = (self.first + 1) % CLASSES as u8;
        self.count -= 1;
    }
}

/// Self-clocked fair queueing: each packet gets a finish tag, the least tag is served first.
#[derive(Clone, Debug)]
pub(super) struct Scfq {
    /// Tag of the packet in service.
    virtual_time: u64,
    arrivals: u64,
    flows: Box<[TaggedQueue]>,
}

#[derive(Clone, Debug)]
struct TaggedQueue {
    weight: u64,
    last_tag: u64,
    /// Tag and arrival number of each packet: equal tags leave first come, first served.
    tags: VecDeque<(u64, u64)>,
}

/// Tags are in 2⁻¹⁶ bytes per unit of weight.
const TAG_SCALE: u64 = 1 << 16;

impl Scfq {
    fn new(weights: impl Iterator<Item = u64>) -> Self {
        let queue = |weight| TaggedQueue { weight, last_tag: 0, tags: VecDeque::new() };
        Self { virtual_time: 0, arrivals: 0, flows: weights.map(queue).collect() }
    }

    fn on_enqueue(&mut self, queue: u8, bytes: u32) {
        let flow = &mut self.flows[usize::from(queue)];
        flow.last_tag = flow.last_tag.max(self.virtual_time) + u64::from(bytes) * TAG_SCALE / flow.weight;
        flow.tags.push_back((flow.last_tag, self.arrivals));
        self.arrivals += 1;
    }

    fn next(&mut self) -> Option<u8> {
        let heads = self.flows.iter().enumerate().filter_map(|(queue, flow)| Some((*flow.tags.front()?, queue)));
        let ((tag, _), queue) = heads.min()?;
        self.flows[queue].tags.pop_front();
        self.virtual_time = tag;
        Some(queue as u8)
    }

    fn on_idle(&mut self) {
        if self.virtual_time != 0 {
            self.virtual_time = 0;
            self.flows.iter_mut().for_each(|flow| flow.last_tag = 0);
        }
    }
}
