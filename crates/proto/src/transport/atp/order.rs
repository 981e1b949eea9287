//! Which message sends next.
//!
//! Exact minimal-remaining-data-first (MRDF) and the uniform order use a binary heap, O(log n). Arrival order and
//! binned MRDF use first-in-first-out lists, O(1): one list, or one per power of two of the remaining packets. A
//! message is in at most one queue of an [`Order`]. Memory is allocated only for new messages.

use alloc::vec::Vec;

/// The order in which messages are sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Order {
    /// In the order in which the application gave them.
    Fifo,
    /// Minimal remaining data first, by powers of two of the remaining packets, as in the paper's implementation.
    #[default]
    Mrdf,
    /// Minimal remaining data first, to the byte.
    MrdfExact,
    /// By a hash of the number, so that missing messages depend neither on size nor on age.
    Uniform,
}

/// One of the two queues.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Queue {
    /// Messages with packets that were not sent yet.
    Fresh,
    /// Messages with lost packets.
    Repair,
}

const NONE: u32 = u32::MAX;
/// Lists by powers of two: 1, 2, 3-4, 5-8, ... packets, the last for all above 16384.
const BINS: usize = 16;

/// A message's place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    /// The bin, or the sort key of the heap.
    key: u64,
    /// The message before it in its list, or its position in the heap.
    previous: u32,
    next: u32,
    queue: Option<Queue>,
}

impl Link {
    /// In no queue.
    pub(super) const APART: Self = Self { key: 0, previous: NONE, next: NONE, queue: None };
}

/// A message that holds its own place, so that all its data is in one cache line.
pub(super) trait Linked {
    fn link(&self) -> &Link;
    fn link_mut(&mut self) -> &mut Link;
}

/// Messages in two queues. The caller holds their list.
#[derive(Clone, Debug)]
pub(super) struct Schedule {
    order: Order,
    queues: [Members; 2],
}

#[derive(Clone, Debug)]
enum Members {
    Lists { ends: [(u32, u32); BINS], filled: u32 },
    Heap(Vec<u32>),
}

impl Schedule {
    pub(super) fn new(order: Order) -> Self {
        let members = || match order {
            Order::Fifo | Order::Mrdf => Members::Lists { ends: [(NONE, NONE); BINS], filled: 0 },
            Order::MrdfExact | Order::Uniform => Members::Heap(Vec::new()),
        };
        Self { order, queues: [members(), members()] }
    }

    /// Whether messages with little remaining data go first.
    pub(super) fn by_remaining(&self) -> bool {
        matches!(self.order, Order::Mrdf | Order::MrdfExact)
    }

    /// The first message of a queue.
    #[inline]
    pub(super) fn first(&self, queue: Queue) -> Option<u32> {
        match &self.queues[queue as usize] {
            Members::Lists { ends, filled } => (*filled != 0).then(|| ends[filled.trailing_zeros() as usize].0),
            Members::Heap(heap) => heap.first().copied(),
        }
    }

    /// The last message of a queue. In a heap it is a leaf, which is among the last.
    pub(super) fn last(&self, queue: Queue) -> Option<u32> {
        match &self.queues[queue as usize] {
            Members::Lists { ends, filled } => (*filled != 0).then(|| ends[filled.ilog2() as usize].1),
            Members::Heap(heap) => heap.last().copied(),
        }
    }

    /// Puts a message with this much remaining into a queue, or into none.
    #[inline]
    pub(super) fn place(
        &mut self,
        list: &mut [impl Linked],
        message: u32,
        queue: Option<Queue>,
        packets: u32,
        bytes: u32,
    ) {
        let link = *list[message as usize].link();
        let key = match self.order {
            Order::Fifo => 0,
            Order::Mrdf => u64::from(bin(packets)),
            Order::MrdfExact => u64::from(bytes) << 32 | u64::from(message),
            Order::Uniform => scatter(message),
        };
        // A message that stays keeps its turn.
        if link.queue == queue && (link.key == key || queue.is_none()) {
            return;
        }
        if let Some(old) = link.queue {
            self.remove(list, message, old);
        }
        let link = list[message as usize].link_mut();
        (link.key, link.queue) = (key, queue);
        if let Some(queue) = queue {
            self.insert(list, message, queue);
        }
    }

    fn insert(&mut self, list: &mut [impl Linked], message: u32, queue: Queue) {
        match &mut self.queues[queue as usize] {
            Members::Lists { ends, filled } => {
                let bin = list[message as usize].link().key as usize;
                let (first, last) = &mut ends[bin];
                let before = *last;
                let link = list[message as usize].link_mut();
                (link.previous, link.next) = (before, NONE);
                if before == NONE {
                    *first = message;
                } else {
                    list[before as usize].link_mut().next = message;
                }
                *last = message;
                *filled |= 1 << bin;
            }
            Members::Heap(heap) => {
                let position = heap.len();
                heap.push(message);
                sift_up(heap, list, position);
            }
        }
    }

    fn remove(&mut self, list: &mut [impl Linked], message: u32, queue: Queue) {
        let Link { key, previous, next, .. } = *list[message as usize].link();
        match &mut self.queues[queue as usize] {
            Members::Lists { ends, filled } => {
                let (first, last) = &mut ends[key as usize];
                if previous == NONE {
                    *first = next;
                } else {
                    list[previous as usize].link_mut().next = next;
                }
                if next == NONE {
                    *last = previous;
                } else {
                    list[next as usize].link_mut().previous = previous;
                }
                if *first == NONE {
                    *filled &= !(1 << key);
                }
            }
            Members::Heap(heap) => {
                let position = previous as usize;
                let moved = heap.pop().expect("the heap holds the message");
                if moved != message {
                    heap[position] = moved;
                    list[moved as usize].link_mut().previous = position as u32;
                    sift_up(heap, list, position);
                    let position = list[moved as usize].link().previous as usize;
                    sift_down(heap, list, position);
                }
            }
        }
    }
}

/// The bin for this many remaining packets.
fn bin(packets: u32) -> u32 {
    (u32::BITS - packets.saturating_sub(1).leading_zeros()).min(BINS as u32 - 1)
}

/// SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): one to one, so no two messages tie.
fn scatter(message: u32) -> u64 {
    let mut z = u64::from(message).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn key(list: &[impl Linked], message: u32) -> u64 {
    list[message as usize].link().key
}

fn sift_up(heap: &mut [u32], list: &mut [impl Linked], mut position: usize) {
    let message = heap[position];
    while position > 0 {
        let parent = (position - 1) / 2;
        if key(list, heap[parent]) <= key(list, message) {
            break;
        }
        heap[position] = heap[parent];
        list[heap[position] as usize].link_mut().previous = position as u32;
        position = parent;
    }
    heap[position] = message;
    list[message as usize].link_mut().previous = position as u32;
}

fn sift_down(heap: &mut [u32], list: &mut [impl Linked], mut position: usize) {
    let message = heap[position];
    loop {
        let left = 2 * position + 1;
        let Some(&first) = heap.get(left) else { break };
        let right = heap.get(left + 1).filter(|&&right| key(list, right) < key(list, first));
        let child = left + usize::from(right.is_some());
        if key(list, message) <= key(list, heap[child]) {
            break;
        }
        heap[position] = heap[child];
        list[heap[position] as usize].link_mut().previous = position as u32;
        position = child;
    }
    heap[position] = message;
    list[message as usize].link_mut().previous = position as u32;
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    impl Linked for Link {
        fn link(&self) -> &Link {
            self
        }

        fn link_mut(&mut self) -> &mut Link {
            self
        }
    }

    fn schedule(order: Order, remaining: &[u32]) -> (Schedule, Vec<Link>) {
        let (mut schedule, mut links) = (Schedule::new(order), alloc::vec![Link::APART; remaining.len()]);
        for (message, &packets) in (0..).zip(remaining) {
            schedule.place(&mut links, message, Some(Queue::Fresh), packets, packets * 1000);
        }
        (schedule, links)
    }

    fn emptied((mut schedule, mut links): (Schedule, Vec<Link>)) -> Vec<u32> {
        core::iter::from_fn(|| {
            let first = schedule.first(Queue::Fresh)?;
            schedule.place(&mut links, first, None, 0, 0);
            Some(first)
        })
        .collect()
    }

    #[test]
    fn bins_are_powers_of_two() {
        let bins = [1, 2, 3, 4, 5, 8, 9, 16_384, 16_385, u32::MAX].map(bin);
        assert_eq!(bins, [0, 1, 2, 2, 3, 3, 4, 14, 15, 15]);
    }

    #[test]
    fn each_order_is_its_own() {
        let remaining = [9, 4, 1, 3, 2, 1];
        assert_eq!(emptied(schedule(Order::Fifo, &remaining)), [0, 1, 2, 3, 4, 5]);
        assert_eq!(emptied(schedule(Order::Mrdf, &remaining)), [2, 5, 4, 1, 3, 0], "4 and 3 share a bin");
        assert_eq!(emptied(schedule(Order::MrdfExact, &remaining)), [2, 5, 4, 3, 1, 0]);
        let uniform = emptied(schedule(Order::Uniform, &remaining));
        let mut all = uniform.clone();
        all.sort_unstable();
        assert!(all == [0, 1, 2, 3, 4, 5] && uniform != all);
    }

    #[test]
    fn the_last_is_the_largest() {
        assert_eq!(schedule(Order::Mrdf, &[9, 4, 1]).0.last(Queue::Fresh), Some(0));
        assert_eq!(schedule(Order::Fifo, &[9, 4, 1]).0.last(Queue::Fresh), Some(2));
    }

    proptest! {
        /// Whatever happens to messages, the first of a queue is the one that a search through all would find: in arrival
        /// order that which has been there longest, by remaining data that with the least.
        #[test]
        fn the_first_is_what_a_search_finds(steps in proptest::collection::vec((0..12u32, 0..3u8, 1..20u32), 0..200)) {
            for order in [Order::Fifo, Order::Mrdf, Order::MrdfExact, Order::Uniform] {
                let (mut schedule, mut links) = schedule(order, &[1; 12]);
                // Queue, rank and the step at which a message got it.
                let rank = |message: u32, packets: u32| match order {
                    Order::Fifo => 0,
                    Order::Mrdf => u64::from(bin(packets)),
                    Order::MrdfExact => u64::from(packets * 1000) << 32 | u64::from(message),
                    Order::Uniform => scatter(message),
                };
                let mut model: Vec<_> = (0..12).map(|message| (Some(Queue::Fresh), rank(message, 1), message)).collect();
                for (step, &(message, queue, packets)) in (100..).zip(&steps) {
                    let queue = [None, Some(Queue::Fresh), Some(Queue::Repair)][usize::from(queue)];
                    schedule.place(&mut links, message, queue, packets, packets * 1000);
                    let place = &mut model[message as usize];
                    if (place.0, place.1) != (queue, rank(message, packets)) {
                        *place = (queue, rank(message, packets), step);
                    }
                    for queue in [Queue::Fresh, Queue::Repair] {
                        let members = (0..12u32).filter(|&message| model[message as usize].0 == Some(queue));
                        let first = members.min_by_key(|&message| (model[message as usize].1, model[message as usize].2));
                        prop_assert_eq!(schedule.first(queue), first, "{:?} {:?}", order, queue);
                    }
                }
            }
        }
    }
}
