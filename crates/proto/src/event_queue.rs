//! The queue of pending events, ordered by (time, kind, order, entity).
//!
//! The order never depends on when an event was inserted, so two drivers that schedule differently agree bit for bit.
//! A binary heap of 16-byte keys wins up to some 16 thousand pending events, which one run does not reach.

use alloc::collections::BinaryHeap;
use alloc::collections::binary_heap::PeekMut;
use core::cmp::Reverse;

use crate::time::Instant;

/// An event: when, what kind, and whose. The driver gives kinds and entities their meaning.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Event {
    /// When it is due.
    pub at: Instant,
    /// What kind, below 16: of simultaneous events the lower kind comes first.
    pub kind: u8,
    /// Of simultaneous events of one kind the lower order comes first. Only its lower 28 bits count.
    pub order: u32,
    /// Whose: of simultaneous events of one kind and order the lower entity comes first.
    pub entity: u32,
}

impl Event {
    /// The bits of an order that count.
    pub const ORDER: u32 = (1 << 28) - 1;

    #[inline]
    fn key(self) -> u128 {
        let low = u64::from(self.kind) << 60 | u64::from(self.order & Self::ORDER) << 32 | u64::from(self.entity);
        u128::from(self.at.as_ps()) << 64 | u128::from(low)
    }

    /// Whether it is handled before `other`.
    #[inline]
    pub fn precedes(&self, other: &Self) -> bool {
        self.key() < other.key()
    }

    #[inline]
    fn from_key(key: u128) -> Self {
        Self {
            at: Instant::from_ps((key >> 64) as u64),
            kind: (key >> 60) as u8 & 0xf,
            order: (key >> 32) as u32 & Self::ORDER,
            entity: key as u32,
        }
    }
}

/// A priority queue of [`Event`]s.
#[derive(Default, Clone)]
pub struct EventQueue {
    heap: BinaryHeap<Reverse<u128>>,
}

impl EventQueue {
    /// An empty queue.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an event.
    #[inline]
    pub fn push(&mut self, event: Event) {
        debug_assert!(event.kind < 16, "a kind has four bits of the key");
        self.heap.push(Reverse(event.key()));
    }

    /// The earliest event.
    #[inline]
    pub fn peek(&self) -> Option<Event> {
        self.heap.peek().map(|key| Event::from_key(key.0))
    }

    /// Takes the earliest event.
    #[inline]
    pub fn pop(&mut self) -> Option<Event> {
        self.heap.pop().map(|key| Event::from_key(key.0))
    }

    /// Removes the earliest event.
    #[inline]
    pub fn remove_first(&mut self) {
        if let Some(first) = self.heap.peek_mut() {
            PeekMut::pop(first);
        }
    }

    /// Number of pending events.
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// Whether nothing is pending.
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    proptest! {
        /// Events leave in the order (time, kind, order, entity) whatever the order they came in, and as they came in.
        #[test]
        fn total_order(mut events in proptest::collection::vec((0u64..50, 0u8..16, 0u32..50, 0u32..50), 0..200)) {
            let mut queue = EventQueue::new();
            for &(at, kind, order, entity) in &events {
                queue.push(Event { at: Instant::from_ps(at), kind, order, entity });
            }
            let mut out = Vec::new();
            while let Some(event) = queue.pop() {
                out.push((event.at.as_ps(), event.kind, event.order, event.entity));
            }
            events.sort_unstable();
            prop_assert_eq!(out, events);
        }
    }
}
