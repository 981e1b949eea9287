//! What arrived out of order, and how a receiver reports it (RFC 2018, RFC 2883).

use alloc::vec::Vec;

use crate::packet::{ByteRange, MAX_SACK_BLOCKS, SackBlocks};

/// Most ranges kept apart; data that would need one more is refused, so a hostile peer cannot grow memory.
const MAX_RANGES: usize = 1 << 14;
/// Arrivals remembered for the order of reports. More than a report holds: merged ranges give up a place.
const RECENT: usize = 2 * MAX_SACK_BLOCKS;

/// Received ranges beyond the next expected byte: sorted, disjoint, not adjacent. Allocates on first use.
#[derive(Clone, Debug, Default)]
pub struct Reassembly {
    ranges: Vec<ByteRange>,
    /// First bytes of the latest arrivals, the most recent first.
    recent: [u64; RECENT],
    recent_count: usize,
}

impl Reassembly {
    /// Whether nothing waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The lowest range that waits.
    pub fn first(&self) -> Option<ByteRange> {
        self.ranges.first().copied()
    }

    /// One past the highest byte that waits; zero if none does.
    pub fn highest(&self) -> u64 {
        self.ranges.last().map_or(0, |range| range.end)
    }

    /// Adds `range`; gives the first part of it that was there already, if any, and how many bytes were. `None` if
    /// there is no room for another range.
    pub fn insert(&mut self, range: ByteRange) -> Option<(u64, Option<ByteRange>)> {
        let first = self.ranges.partition_point(|held| held.end < range.start);
        let last = self.ranges.partition_point(|held| held.start <= range.end);
        if first == last && self.ranges.len() >= MAX_RANGES {
            return None;
        }
        let (mut duplicate_bytes, mut duplicate, mut merged) = (0, None, range);
        for held in &self.ranges[first..last] {
            let overlap = ByteRange::new(held.start.max(range.start), held.end.min(range.end));
            if !overlap.is_empty() {
                duplicate_bytes += overlap.len();
                duplicate = duplicate.or(Some(overlap));
            }
            merged = ByteRange::new(merged.start.min(held.start), merged.end.max(held.end));
        }
        if last == first + 1 {
            self.ranges[first] = merged;
        } else {
            self.ranges.splice(first..last, [merged]);
        }
        self.remember(range.start);
        Some((duplicate_bytes, duplicate))
    }

    /// Takes out what is in order from `next` on; gives the next byte expected then.
    pub fn take_in_order(&mut self, mut next: u64) -> u64 {
        let taken = self.ranges.iter().take_while(|range| {
            let in_order = range.start <= next;
            if in_order {
                next = next.max(range.end);
            }
            in_order
        });
        let count = taken.count();
        self.ranges.drain(..count);
        if self.ranges.is_empty() {
            self.recent_count = 0;
        }
        next
    }

    /// The range that holds `byte`.
    pub fn containing(&self, byte: u64) -> Option<ByteRange> {
        let index = self.ranges.partition_point(|range| range.end <= byte);
        self.ranges.get(index).copied().filter(|range| range.start <= byte)
    }

    /// Adds blocks to `report`, the range of the latest arrival first, then those most recently reported (RFC 2018
    /// section 4), up to `limit` blocks in all.
    pub fn report(&self, report: &mut SackBlocks, limit: usize) {
        let held = self.recent[..self.recent_count].iter().filter_map(|byte| self.containing(*byte));
        let own = report.as_slice().len();
        for range in held {
            if report.as_slice().len() >= limit {
                return;
            }
            if !report.as_slice()[own..].contains(&range) {
                report.push(range);
            }
        }
    }

    fn remember(&mut self, byte: u64) {
        let known = self.recent[..self.recent_count].iter().position(|held| *held == byte);
        let from = known.unwrap_or_else(|| {
            self.recent_count = (self.recent_count + 1).min(RECENT);
            self.recent_count - 1
        });
        self.recent.copy_within(..from, 1);
        self.recent[0] = byte;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;
    use proptest::prelude::*;

    fn range(start: u64, end: u64) -> ByteRange {
        ByteRange::new(start, end)
    }

    fn blocks(reassembly: &Reassembly) -> Vec<ByteRange> {
        let mut report = SackBlocks::EMPTY;
        reassembly.report(&mut report, MAX_SACK_BLOCKS);
        report.as_slice().to_vec()
    }

    #[test]
    fn latest_arrival_is_reported_first() {
        let mut held = Reassembly::default();
        for start in [10, 30, 50, 70, 90] {
            held.insert(range(start, start + 5));
        }
        assert_eq!(blocks(&held), [range(90, 95), range(70, 75), range(50, 55), range(30, 35)]);
        held.insert(range(15, 20));
        assert_eq!(blocks(&held), [range(10, 20), range(90, 95), range(70, 75), range(50, 55)]);
    }

    /// RFC 2018 section 4: a report holds as many distinct blocks as it can. Where two of the latest arrivals are one
    /// range by now, an earlier one takes the place that this leaves.
    #[test]
    fn merging_makes_room_for_an_earlier_arrival() {
        let mut held = Reassembly::default();
        for start in [10, 30, 50, 70, 90] {
            held.insert(range(start, start + 5));
        }
        held.insert(range(75, 90));
        assert_eq!(blocks(&held), [range(70, 95), range(50, 55), range(30, 35), range(10, 15)]);
        held.insert(range(95, 100));
        assert_eq!(blocks(&held), [range(70, 100), range(50, 55), range(30, 35), range(10, 15)]);
    }

    #[test]
    fn merging_keeps_one_block_and_delivery_removes_it() {
        let mut held = Reassembly::default();
        held.insert(range(10, 20));
        held.insert(range(30, 40));
        held.insert(range(20, 30));
        assert_eq!(blocks(&held), [range(10, 40)]);
        held.insert(range(50, 60));
        assert_eq!((held.first(), held.highest()), (Some(range(10, 40)), 60));
        assert_eq!(held.take_in_order(9), 9);
        assert_eq!(held.take_in_order(10), 40);
        assert_eq!((held.take_in_order(50), held.first()), (60, None));
        assert!(held.is_empty() && blocks(&held).is_empty());
    }

    #[test]
    fn duplicates_are_found_with_their_place() {
        let mut held = Reassembly::default();
        assert_eq!(held.insert(range(10, 20)), Some((0, None)));
        assert_eq!(held.insert(range(30, 40)), Some((0, None)));
        assert_eq!(held.insert(range(15, 35)), Some((10, Some(range(15, 20)))));
        assert_eq!(held.insert(range(12, 14)), Some((2, Some(range(12, 14)))));
    }

    #[test]
    fn the_number_of_ranges_is_bounded() {
        let mut held = Reassembly::default();
        for i in 0..MAX_RANGES as u64 {
            assert!(held.insert(range(2 * i, 2 * i + 1)).is_some());
        }
        assert_eq!(held.insert(range(1 << 40, (1 << 40) + 1)), None);
        assert!(held.insert(range(1, 2)).is_some(), "filling a gap needs no room");
    }

    proptest! {
        /// Against a plain set of bytes: the same bytes held, the same number of duplicates, ranges kept maximal.
        #[test]
        fn behaves_like_a_set_of_bytes(inserts in prop::collection::vec((0u64..60, 1u64..10), 0..40)) {
            let (mut held, mut set) = (Reassembly::default(), BTreeSet::new());
            for (start, len) in inserts {
                let fresh = (start..start + len).filter(|byte| set.insert(*byte)).count() as u64;
                prop_assert_eq!(held.insert(range(start, start + len)).unwrap().0, len - fresh);
                prop_assert!(held.ranges.windows(2).all(|pair| pair[0].end < pair[1].start));
                prop_assert!((0..70).all(|byte| held.containing(byte).is_some() == set.contains(&byte)));
                prop_assert!(blocks(&held)[0].start <= start && start < blocks(&held)[0].end);
            }
        }
    }
}
