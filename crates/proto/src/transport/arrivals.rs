//! Counts the bytes of a stream that is never put in order, each byte once.

use alloc::collections::VecDeque;

use crate::packet::ByteRange;

/// The bytes of a stream that have arrived, in any order.
pub(super) struct Arrivals {
    /// Most gaps remembered for late packets. Bytes of forgotten gaps count as duplicates.
    gaps_max: usize,
    /// One past the highest byte seen.
    highest: u64,
    unique_bytes: u64,
    duplicate_bytes: u64,
    /// Missing bytes below `highest`, ascending: the latest gaps.
    gaps: VecDeque<ByteRange>,
    /// Bytes not yet given to the application.
    fresh: VecDeque<ByteRange>,
}

impl Arrivals {
    /// Begins with nothing. In a stream with more than `gaps_max` gaps the earliest are forgotten.
    pub(super) fn new(gaps_max: usize) -> Self {
        let (gaps, fresh) = (VecDeque::new(), VecDeque::new());
        Self { gaps_max, highest: 0, unique_bytes: 0, duplicate_bytes: 0, gaps, fresh }
    }

    /// Number of different bytes that arrived.
    pub(super) fn unique_bytes(&self) -> u64 {
        self.unique_bytes
    }

    /// Bytes that arrived more than once.
    pub(super) fn duplicate_bytes(&self) -> u64 {
        self.duplicate_bytes
    }

    /// Takes the bytes of a packet.
    #[inline]
    pub(super) fn take(&mut self, range: ByteRange) {
        let ByteRange { start, end } = range;
        if start < self.highest {
            self.fill_gaps(ByteRange::new(start, end.min(self.highest)));
        } else if start > self.highest {
            self.gaps.push_back(ByteRange::new(self.highest, start));
            self.forget_gaps();
        }
        let beyond = ByteRange::new(start.max(self.highest), end);
        if !beyond.is_empty() {
            self.deliver(beyond);
        }
        self.highest = self.highest.max(end);
    }

    /// Bytes that the application has not been given yet, if there are any.
    #[inline]
    pub(super) fn poll(&mut self) -> Option<ByteRange> {
        self.fresh.pop_front()
    }

    fn deliver(&mut self, range: ByteRange) {
        self.unique_bytes += range.len();
        match self.fresh.back_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => self.fresh.push_back(range),
        }
    }

    /// A packet below the highest byte. Its missing bytes count, the others are duplicates.
    fn fill_gaps(&mut self, late: ByteRange) {
        self.duplicate_bytes += late.len();
        let mut index = self.gaps.partition_point(|gap| gap.end <= late.start);
        while let Some(&gap) = self.gaps.get(index).filter(|gap| gap.start < late.end) {
            let filled = ByteRange::new(gap.start.max(late.start), gap.end.min(late.end));
            self.duplicate_bytes -= filled.len();
            self.gaps.remove(index);
            for rest in [ByteRange::new(gap.start, filled.start), ByteRange::new(filled.end, gap.end)] {
                if !rest.is_empty() {
                    self.gaps.insert(index, rest);
                    index += 1;
                }
            }
            self.deliver(filled);
        }
        self.forget_gaps();
    }

    fn forget_gaps(&mut self) {
        while self.gaps.len() > self.gaps_max {
            self.gaps.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;
    use proptest::prelude::*;

    proptest! {
        /// Against a plain set of bytes: each byte is delivered once, however packets overlap and reorder.
        #[test]
        fn behaves_like_a_set_of_bytes(packets in prop::collection::vec((0u64..60, 1u64..10), 0..40)) {
            let (mut arrivals, mut set) = (Arrivals::new(1000), BTreeSet::new());
            for (start, len) in packets {
                arrivals.take(ByteRange::new(start, start + len));
                let expected: BTreeSet<u64> = (start..start + len).filter(|byte| set.insert(*byte)).collect();
                let delivered = core::iter::from_fn(|| arrivals.poll()).flat_map(|range| range.start..range.end);
                let delivered: alloc::vec::Vec<u64> = delivered.collect();
                prop_assert_eq!(delivered.len(), expected.len(), "each once");
                prop_assert_eq!(delivered.into_iter().collect::<BTreeSet<u64>>(), expected);
                prop_assert!(arrivals.gaps.iter().zip(arrivals.gaps.iter().skip(1)).all(|(a, b)| a.end < b.start));
            }
            prop_assert_eq!(arrivals.unique_bytes(), set.len() as u64);
        }
    }
}
