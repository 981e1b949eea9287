//! Which queue sends next.
//!
//! Strict priority first, then one of: nothing, deficit weighted round robin (Shreedhar and Varghese 1995), weighted round
//! robin by packets, self-clocked fair queueing (Golestani 1994). The port keeps the packets; the scheduler sees their sizes.

use alloc::boxed::Box;
use alloc::collections::VecDeque;

use super::plan::{QueueConfig, QueuePlan, SchedulerConfig};
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
            SchedulerConfig::Dwrr { quantum_bytes, .. } => Self::Dwrr(Dwrr::new(plan, quantum_bytes)),
            SchedulerConfig::Wrr { .. } => Self::Dwrr(Dwrr { by_packets: true, ..Dwrr::new(plan, 1) }),
            SchedulerConfig::Wfq { .. } => {
                Self::Scfq(Scfq::new(plan.queues.iter().map(|queue| u64::from(queue.weight))))
            }
        }
    }

    /// A packet of `bytes` joined `queue`, which held `before` packets.
    #[inline]
    pub(super) fn on_enqueue(&mut self, queue: u8, bytes: u32, before: u32) {
        match self {
            Self::Dwrr(dwrr) if before == 0 => dwrr.on_filled(queue),
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

/// Deficit weighted round robin among lanes of queues; most lanes are a single queue.
///
/// A lane that turns active joins the tail with no deficit, is given its quantum once per visit, sends while its head
/// fits, and keeps the rest unless it runs empty. Its head is that of its first queue that holds something.
#[derive(Clone, Debug)]
pub(super) struct Dwrr {
    active: ActiveList,
    /// Whether the first active lane was given its quantum on this visit.
    visiting: bool,
    /// Every packet counts as one byte: weighted round robin.
    by_packets: bool,
    /// Bit of each queue that holds something.
    filled: u32,
    /// By queue. A lane's is that of the first queue of those that share it.
    accounts: Box<[Account]>,
}

/// What a lane may send.
#[derive(Clone, Copy, Debug)]
struct Account {
    deficit: u64,
    quantum: u64,
    /// Bits of its queues.
    queues: u32,
    /// Lane of the queue.
    lane: u8,
}

impl Dwrr {
    fn new(plan: &QueuePlan, quantum_bytes: u32) -> Self {
        let lane_of = |index: usize| {
            let lane = plan.queues[index].lane;
            let shares = |other: usize| lane.is_some() && plan.queues[other].lane == lane;
            (0..index).find(|&other| shares(other)).unwrap_or(index)
        };
        let quantum = |weight: u32| u64::from(weight) * u64::from(quantum_bytes);
        let account = |(index, queue): (usize, &QueueConfig)| {
            let lane = lane_of(index) as u8;
            Account { deficit: 0, quantum: quantum(queue.weight), queues: 0, lane }
        };
        let mut accounts: Box<[Account]> = plan.queues.iter().enumerate().map(account).collect();
        for index in 0..plan.queues.len() {
            accounts[lane_of(index)].queues |= 1 << index;
        }
        Self { active: ActiveList::default(), visiting: false, by_packets: false, filled: 0, accounts }
    }

    #[inline]
    fn on_filled(&mut self, queue: u8) {
        let lane = self.accounts[usize::from(queue)].lane;
        if self.filled & self.accounts[usize::from(lane)].queues == 0 {
            self.active.push(lane);
        }
        self.filled |= 1 << queue;
    }

    #[inline]
    fn next(&mut self, head: impl Fn(u8) -> u32) -> Option<u8> {
        loop {
            let lane = self.active.first()?;
            let account = &mut self.accounts[usize::from(lane)];
            if !self.visiting {
                account.deficit += account.quantum;
                self.visiting = true;
            }
            let queue = (account.queues & self.filled).trailing_zeros() as u8;
            let bytes = if self.by_packets { 1 } else { u64::from(head(queue)) };
            if bytes <= account.deficit {
                account.deficit -= bytes;
                return Some(queue);
            }
            self.visiting = false;
            self.active.remove_first();
            self.active.push(lane);
        }
    }

    #[inline]
    fn on_emptied(&mut self, queue: u8) {
        let lane = self.accounts[usize::from(queue)].lane;
        assert_eq!(self.active.first(), Some(lane), "only the visited lane can run empty");
        self.filled &= !(1 << queue);
        let account = &mut self.accounts[usize::from(lane)];
        if self.filled & account.queues == 0 {
            account.deficit = 0;
            self.active.remove_first();
            self.visiting = false;
        }
    }
}

/// Lanes that hold packets, in the order of their turns. In place: a port touches it for every packet.
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
        assert!(usize::from(self.count) < CLASSES, "a lane is active once");
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
/// Virtual time from which tags are counted anew. On a link that never idles they would overflow, at 1 Gbit/s after 26
/// days; above it there is room for 2⁴⁷ bytes that wait.
const REBASE: u64 = 1 << 63;

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
        if tag > REBASE {
            self.rebase();
        }
        Some(queue as u8)
    }

    /// Counts tags from the virtual time on. No packet that waits has an earlier tag than that, and an earlier one of a
    /// queue without packets no longer decides anything: the order stays as it was.
    #[cold]
    fn rebase(&mut self) {
        let origin = core::mem::take(&mut self.virtual_time);
        for flow in &mut self.flows {
            flow.last_tag = flow.last_tag.saturating_sub(origin);
            flow.tags.iter_mut().for_each(|(tag, _)| *tag -= origin);
        }
    }

    fn on_idle(&mut self) {
        if self.virtual_time != 0 {
            self.virtual_time = 0;
            self.flows.iter_mut().for_each(|flow| flow.last_tag = 0);
        }
    }

    /// Finish tag of the packet in service, in whole bytes per unit of weight.
    #[cfg(test)]
    pub(super) fn tag_in_service(&self) -> u64 {
        self.virtual_time / TAG_SCALE
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    /// Weights count packets: with 2 and 1, of queues of full and of small packets, two leave the first for each of the
    /// second, and a queue that has run empty leaves its turns to the other.
    #[test]
    fn weighted_round_robin_counts_packets() {
        let queue = |(name, weight)| QueueConfig { weight, ..QueueConfig::tail_drop(name, 10) };
        let plan =
            QueuePlan::per_class([("full", 2), ("small", 1)].map(queue).into(), SchedulerConfig::Wrr { strict: 0 });
        let mut scheduler = Weighted::new(&plan);
        (0..2).for_each(|queue| scheduler.on_enqueue(queue, 1500, 0));
        let bytes = |queue| if queue == 0 { 1500 } else { 40 };
        let turns: Vec<_> = (0..6).map(|_| scheduler.next(bytes)).collect();
        assert_eq!(turns, [0, 0, 1, 0, 0, 1].map(Some));
        assert_eq!(scheduler.next(bytes), Some(0));
        scheduler.on_emptied(0);
        assert_eq!([(); 3].map(|()| scheduler.next(bytes)), [Some(1); 3]);
    }

    /// An idle link forgets its tags, so that they do not grow for ever; one that found nothing before has none.
    #[test]
    fn tags_start_over_on_an_idle_link() {
        let mut scheduler = Weighted::Scfq(Scfq::new([1, 2].into_iter()));
        (0..2).for_each(|queue| scheduler.on_enqueue(queue, 1000, 0));
        assert_eq!([(); 3].map(|()| scheduler.next(|_| 1000)), [Some(1), Some(0), None]);
        scheduler.on_idle();
        let Weighted::Scfq(scfq) = &scheduler else { unreachable!() };
        assert!(scfq.virtual_time == 0 && scfq.flows.iter().all(|flow| flow.last_tag == 0));
    }

    /// A scheduler of a link that has been busy until `virtual_time`, and then serves `operations`: packets that come, as
    /// queue and bytes, and turns to send. Gives the queue of each turn.
    fn served(weights: &[u64], virtual_time: u64, operations: &[Option<(u8, u32)>]) -> Vec<Option<u8>> {
        let mut scfq = Scfq::new(weights.iter().copied());
        scfq.virtual_time = virtual_time;
        let mut turns = Vec::new();
        for operation in operations {
            match *operation {
                Some((queue, bytes)) => scfq.on_enqueue(queue, bytes),
                None => turns.push(scfq.next()),
            }
        }
        turns
    }

    /// When tags are counted anew, a queue whose last tag is past starts at the virtual time like a new one, and what
    /// waits keeps its distance.
    #[test]
    fn queues_keep_their_places_when_tags_are_counted_anew() {
        let mut scfq = Scfq::new([1, 1, 1].into_iter());
        (scfq.virtual_time, scfq.flows[0].last_tag) = (REBASE, REBASE - 1);
        scfq.on_enqueue(2, 300);
        scfq.on_enqueue(1, 100);
        assert_eq!((scfq.next(), scfq.virtual_time), (Some(1), 0));
        assert_eq!(scfq.flows.iter().map(|flow| flow.last_tag / TAG_SCALE).collect::<Vec<_>>(), [0, 0, 200]);
        scfq.on_enqueue(0, 199);
        scfq.on_enqueue(2, 1);
        scfq.on_enqueue(1, 200);
        assert_eq!([(); 5].map(|()| scfq.next()), [Some(0), Some(2), Some(1), Some(2), None]);
    }

    proptest! {
        /// A link that is never idle serves in the same order whatever its virtual time is: also next to the greatest
        /// number, where the packets of all operations do not fit.
        #[test]
        fn the_order_does_not_hang_on_the_virtual_time(
            weights in prop::collection::vec(1u64..100, 3),
            before in 0u64..100_000,
            operations in prop::collection::vec(prop::option::weighted(0.6, (0u8..3, 40u32..1600)), 0..300),
        ) {
            let first = [Some((0, 1600)), None];
            let operations = [&first[..], &operations].concat();
            let order = served(&weights, 0, &operations);
            for start in [REBASE - before * TAG_SCALE, u64::MAX - 1600 * TAG_SCALE] {
                prop_assert_eq!(served(&weights, start, &operations), &order[..]);
            }
        }
    }
}
