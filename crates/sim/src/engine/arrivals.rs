//! The pending arrivals: a heap of eight-byte keys.
//!
//! A key is the time since an epoch and the link's number, so one comparison orders by (time, link). Half the bytes of
//! a general event make the heap, which every hop sifts, a fifth faster. A wider heap was slower.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use pliant_proto::time::{Instant, Span};

/// A priority queue of (time, link).
pub(super) struct Arrivals {
    heap: BinaryHeap<Reverse<u64>>,
    link_bits: u32,
    epoch: Instant,
}

impl Arrivals {
    /// An empty queue for links `0..links`.
    pub(super) fn new(links: usize) -> Self {
        let link_bits = usize::BITS - links.leading_zeros();
        assert!(link_bits <= 32, "links are numbered in 32 bits");
        Self { heap: BinaryHeap::with_capacity(links), link_bits, epoch: Instant::ZERO }
    }

    /// The key of an arrival on `link`; `None` if it lies too far beyond `now`.
    #[inline]
    pub(super) fn key(&mut self, now: Instant, at: Instant, link: u32) -> Option<u64> {
        let ahead = at.since(self.epoch).as_ps();
        if ahead.leading_zeros() >= self.link_bits {
            return Some(ahead << self.link_bits | u64::from(link));
        }
        self.key_after_rebase(now, at, link)
    }

    #[cold]
    fn key_after_rebase(&mut self, now: Instant, at: Instant, link: u32) -> Option<u64> {
        let passed = now.since(self.epoch).as_ps() << self.link_bits;
        self.epoch = now;
        self.heap = self.heap.drain().map(|Reverse(key)| Reverse(key - passed)).collect();
        let ahead = at.since(now).as_ps();
        (ahead.leading_zeros() >= self.link_bits).then(|| ahead << self.link_bits | u64::from(link))
    }

    /// The first arrival.
    #[inline]
    pub(super) fn peek(&self) -> Option<(Instant, u32)> {
        let Reverse(key) = *self.heap.peek()?;
        let at = self.epoch.after(Span::from_ps(key >> self.link_bits));
        Some((at, (key & ((1 << self.link_bits) - 1)) as u32))
    }

    /// Adds an arrival.
    #[inline]
    pub(super) fn push(&mut self, key: u64) {
        self.heap.push(Reverse(key));
    }

    /// Replaces the first arrival.
    #[inline]
    pub(super) fn replace_first(&mut self, key: u64) {
        if let Some(mut first) = self.heap.peek_mut() {
            *first = Reverse(key);
        }
    }

    /// Removes the first arrival.
    #[inline]
    pub(super) fn remove_first(&mut self) {
        if let Some(first) = self.heap.peek_mut() {
            PeekMut::pop(first);
        }
    }

    /// Whether nothing is pending.
    pub(super) fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys stay in order when the epoch moves, and what lies beyond a key's reach is refused.
    #[test]
    fn the_epoch_moves_with_time() {
        let mut arrivals = Arrivals::new(1 << 20);
        let reach = 1u64 << 43;
        let mut now = Instant::ZERO;
        for round in 0..5 {
            let at = now.after(Span::from_ps(reach / 2 + round));
            let key = arrivals.key(now, at, 7).expect("within reach of now");
            arrivals.push(key);
            assert_eq!(arrivals.peek(), Some((at, 7)));
            now = at;
            arrivals.remove_first();
        }
        assert_eq!(arrivals.key(now, now.after(Span::from_ps(reach * 2)), 7), None);
    }
}
