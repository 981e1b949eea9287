//! What of a topic's records has been left out, by offset, and what may be.
//!
//! Whether a record is left out is decided once, when it is fetched first. Whoever fetches it again, after a restart or
//! for another group, gets the same: nothing counts twice, and all see the same records.

use std::collections::BTreeMap;

use roaring::RoaringTreemap;
use serde::{Deserialize, Serialize};

/// Most records of a partition that a ledger knows to be left out. With more, no other is, until the broker has deleted
/// the oldest.
pub const MAX_LOST: u64 = 1 << 22;
/// Most ranges of offsets that were fetched, as consumers that jump about make them. A fetch beyond stays whole.
const MAX_RANGES: usize = 1 << 12;
/// Most ranges in an entry.
const MAX_ENTRY_RANGES: usize = 4096;
/// A part of a million.
const MILLION: u64 = 1_000_000;

/// The least part of the records that is delivered, in millionths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct MinDelivery(u32);

impl MinDelivery {
    /// From a part of one; `None` if it is not above zero and at most one.
    pub fn from_part(part: f64) -> Option<Self> {
        (part > 0.0 && part <= 1.0).then(|| Self((part * MILLION as f64).round().max(1.0) as u32))
    }

    /// Most records that may be left out of so many.
    pub fn may_lose(self, records: u64) -> u64 {
        (u128::from(records) * u128::from(MILLION as u32 - self.0) / u128::from(MILLION)) as u64
    }
}

impl TryFrom<u32> for MinDelivery {
    type Error = String;

    fn try_from(millionths: u32) -> Result<Self, String> {
        if (1..=MILLION as u32).contains(&millionths) {
            Ok(Self(millionths))
        } else {
            Err(format!("{millionths} millionths are no part of one"))
        }
    }
}

impl From<MinDelivery> for u32 {
    fn from(part: MinDelivery) -> Self {
        part.0
    }
}

/// Counts of records, each once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordCounts {
    /// That were fetched.
    pub fetched: u64,
    /// Of these, those that were left out.
    pub lost: u64,
}

impl RecordCounts {
    fn add(&mut self, other: Self) {
        self.fetched += other.fetched;
        self.lost += other.lost;
    }
}

/// What a fetch adds to a ledger: what a journal has a line for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Offsets that are decided now, first and last of each range.
    pub decided: Vec<(i64, i64)>,
    /// Offsets of records that are left out, first and last of each range.
    pub lost: Vec<(i64, i64)>,
    /// Records outside of transactions.
    pub plain: RecordCounts,
    /// Records of transactions.
    pub transactional: RecordCounts,
    /// So many of the records that are on their way from now on may be lost.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unsettled: u64,
    /// Of those that were on their way, the fate of so many is known now.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub settled: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Entry {
    /// Whether it says nothing.
    pub fn is_empty(&self) -> bool {
        self.decided.is_empty()
    }

    /// Notes that a record is left out; each offset is beyond the one before.
    pub(crate) fn lose(&mut self, offset: i64) {
        extend_ranges(&mut self.lost, offset, offset);
    }

    /// Notes that all records of a range are lost; each range is beyond the one before.
    pub(crate) fn lose_range(&mut self, first: i64, last: i64) {
        extend_ranges(&mut self.lost, first, last);
    }

    /// Adds what another entry adds; its ranges are beyond this one's.
    pub(crate) fn append(&mut self, later: Self) {
        later.decided.into_iter().for_each(|(first, last)| extend_ranges(&mut self.decided, first, last));
        later.lost.into_iter().for_each(|(first, last)| extend_ranges(&mut self.lost, first, last));
        self.plain.add(later.plain);
        self.transactional.add(later.transactional);
        self.unsettled += later.unsettled;
        self.settled += later.settled;
    }

    /// Notes that all offsets of a range are decided; each range is beyond the one before.
    pub(crate) fn decide(&mut self, first: i64, last: i64) {
        extend_ranges(&mut self.decided, first, last);
    }

    /// Whether its ranges are ranges of offsets.
    fn is_sound(&self) -> bool {
        let sound = |&(first, last): &(i64, i64)| 0 <= first && first <= last && last < i64::MAX;
        self.decided.iter().chain(&self.lost).all(sound)
    }
}

/// Adds a range behind the others: to the last one, if it follows that without a gap.
pub(crate) fn extend_ranges(ranges: &mut Vec<(i64, i64)>, first: i64, last: i64) {
    match ranges.last_mut() {
        Some(end) if end.1 + 1 == first => end.1 = last,
        _ => ranges.push((first, last)),
    }
}

/// The ledger of a partition.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ledger {
    /// Ranges of offsets that are decided: the last of each by the first. No two touch.
    decided: BTreeMap<i64, i64>,
    lost: RoaringTreemap,
    plain: RecordCounts,
    transactional: RecordCounts,
    /// Of records that were given to the path, so many may be lost. They count as if they were.
    unsettled: u64,
}

impl Ledger {
    /// Takes an entry in. An entry that is damaged changes nothing, and is said to be so.
    pub fn take(&mut self, entry: &Entry) -> bool {
        if !entry.is_sound() {
            return false;
        }
        for &(first, last) in &entry.decided {
            self.decide(first, last);
        }
        for &(first, last) in &entry.lost {
            self.lost.insert_range(first as u64..=last as u64);
        }
        self.plain.add(entry.plain);
        self.transactional.add(entry.transactional);
        self.unsettled = self.unsettled.saturating_add(entry.unsettled).saturating_sub(entry.settled);
        true
    }

    fn decide(&mut self, mut first: i64, mut last: i64) {
        // What touches it becomes one with it.
        while let Some((&start, &end)) =
            self.decided.range(..=last + 1).next_back().filter(|(_, end)| **end >= first - 1)
        {
            self.decided.remove(&start);
            (first, last) = (first.min(start), last.max(end));
        }
        self.decided.insert(first, last);
    }

    /// Whether an offset is decided.
    pub fn is_decided(&self, offset: i64) -> bool {
        self.decided.range(..=offset).next_back().is_some_and(|(_, last)| *last >= offset)
    }

    /// Whether all offsets of a range are decided.
    pub fn all_decided(&self, first: i64, last: i64) -> bool {
        self.decided.range(..=first).next_back().is_some_and(|(_, end)| *end >= last)
    }

    /// Whether any offset of a range is decided.
    pub fn any_decided(&self, first: i64, last: i64) -> bool {
        self.decided.range(..=last).next_back().is_some_and(|(_, end)| *end >= first)
    }

    /// Whether a record is left out.
    pub fn is_lost(&self, offset: i64) -> bool {
        self.lost.contains(offset as u64)
    }

    /// Whether records of a range are left out.
    pub fn any_lost(&self, first: i64, last: i64) -> bool {
        let below = if first > 0 { self.lost.rank(first as u64 - 1) } else { 0 };
        self.lost.rank(last as u64) > below
    }

    /// Whether there is room to note more.
    pub(crate) fn has_room(&self) -> bool {
        self.lost.len() < MAX_LOST && self.decided.len() < MAX_RANGES
    }

    /// Records of which nobody has said whether they arrived, and which may be lost: they are under way, or whoever received
    /// them has gone.
    pub fn unsettled(&self) -> u64 {
        self.unsettled
    }

    /// Records outside of transactions.
    #[cfg(test)]
    pub(crate) fn plain(&self) -> RecordCounts {
        self.plain
    }

    /// How many records outside of transactions may still be lost, with so many new ones.
    pub(crate) fn may_lose(&self, min_delivery: MinDelivery, new: u64) -> u64 {
        min_delivery.may_lose(self.plain.fetched + new).saturating_sub(self.plain.lost + self.unsettled)
    }

    /// All records.
    pub fn counts(&self) -> RecordCounts {
        let mut all = self.plain;
        all.add(self.transactional);
        all
    }

    /// Ranges of offsets of records that are left out, in order.
    pub fn lost(&self) -> impl Iterator<Item = (i64, i64)> + '_ {
        let mut offsets = self.lost.iter().map(|offset| offset as i64).peekable();
        std::iter::from_fn(move || {
            let first = offsets.next()?;
            let mut last = first;
            while offsets.next_if_eq(&(last + 1)).is_some() {
                last += 1;
            }
            Some((first, last))
        })
    }

    /// The broker has deleted what is below an offset: it is never fetched again. The counts stay.
    pub fn forget_below(&mut self, offset: i64) {
        if self.decided.first_key_value().is_none_or(|(first, _)| *first >= offset) {
            return;
        }
        self.lost.remove_range(..offset.max(0) as u64);
        let kept = self.decided.split_off(&offset);
        if let Some((_, last)) =
            std::mem::replace(&mut self.decided, kept).pop_last().filter(|(_, last)| *last >= offset)
        {
            self.decided.insert(offset, last);
        }
    }

    /// Entries that make this ledger of an empty one, none of them long.
    pub fn entries(&self) -> Vec<Entry> {
        let decided: Vec<_> = self.decided.iter().map(|(first, last)| (*first, *last)).collect();
        let Self { plain, transactional, unsettled, .. } = *self;
        let head = Entry { decided, plain, transactional, unsettled, ..Entry::default() };
        let mut entries = vec![head];
        let mut lost = self.lost().peekable();
        while lost.peek().is_some() {
            let lost = lost.by_ref().take(MAX_ENTRY_RANGES).collect();
            entries.push(Entry { lost, ..Entry::default() });
        }
        entries
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn bounds_are_exact() {
        for (part, records, lost) in [
            (0.8, 10, 2),
            (0.9, 10, 1),
            (0.9, 9, 0),
            (1.0, u64::MAX, 0),
            (0.25, 7, 5),
            (0.000_001, 1_000_000, 999_999),
            (1e-9, 1_000_000, 999_999),
        ] {
            assert_eq!(MinDelivery::from_part(part).unwrap().may_lose(records), lost, "{part} {records}");
        }
        for part in [0.0, -0.5, 1.000_001, f64::NAN, f64::INFINITY] {
            assert_eq!(MinDelivery::from_part(part), None, "{part}");
        }
        assert!(MinDelivery::try_from(0).is_err() && MinDelivery::try_from(1_000_001).is_err());
    }

    #[test]
    fn damaged_entries_change_nothing() {
        let mut ledger = Ledger::default();
        for decided in [(-1, 3), (5, 4), (0, i64::MAX)] {
            assert!(!ledger.take(&Entry { decided: vec![decided], ..Entry::default() }));
        }
        assert_eq!(ledger, Ledger::default());
    }

    proptest! {
        /// Against sets of single offsets: what is decided and lost, what is forgotten, and that entries say all.
        #[test]
        fn ranges_are_sets_of_offsets(
            ranges in prop::collection::vec((0..200i64, 0..20i64, any::<bool>()), 0..30), below in 0..200i64,
        ) {
            let mut ledger = Ledger::default();
            let (mut decided, mut lost) = (std::collections::BTreeSet::new(), std::collections::BTreeSet::new());
            for (first, length, loses) in ranges {
                let range = vec![(first, first + length)];
                let entry = Entry {
                    decided: range.clone(), lost: if loses { range } else { vec![] }, ..Entry::default()
                };
                prop_assert!(ledger.take(&entry));
                decided.extend(first..=first + length);
                if loses {
                    lost.extend(first..=first + length);
                }
            }
            for forget in [false, true] {
                if forget {
                    ledger.forget_below(below);
                    decided.retain(|offset| *offset >= below);
                    lost.retain(|offset| *offset >= below);
                }
                for offset in 0..230 {
                    prop_assert_eq!(ledger.is_decided(offset), decided.contains(&offset));
                    prop_assert_eq!(ledger.is_lost(offset), lost.contains(&offset));
                    let ahead = offset..=offset + 7;
                    prop_assert_eq!(ledger.all_decided(offset, offset + 7), ahead.clone().all(|o| decided.contains(&o)));
                    prop_assert_eq!(ledger.any_decided(offset, offset + 7), ahead.clone().any(|o| decided.contains(&o)));
                    prop_assert_eq!(ledger.any_lost(offset, offset + 7), ahead.clone().any(|o| lost.contains(&o)));
                }
                let listed: Vec<i64> = ledger.lost().flat_map(|(first, last)| first..=last).collect();
                prop_assert_eq!(listed, lost.iter().copied().collect::<Vec<_>>());
                let mut again = Ledger::default();
                for entry in ledger.entries() {
                    again.take(&entry);
                }
                prop_assert_eq!(&again, &ledger);
            }
        }
    }
}
