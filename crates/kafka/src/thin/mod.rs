//! Leaves records out of what a fetch gives of a partition, within a bound, and notes it in the partition's ledger.
//!
//! Anchors are never left out: the last record of every batch. A batch that has no record at its end, or none at all,
//! stalls clients that go by records (kafkajs, kafka-go) and holds others' positions back (librdkafka).

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::batch::{Batch, BatchHeader, Room, Section, sections};
use crate::ledger::{Entry, Ledger, MinDelivery, RecordCounts};

/// Records of a burst: so many in a row.
const BURST: u64 = 32;

/// Which records are left out. Of several the first is the strictest: what it leaves out says least about the records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LossPattern {
    /// Each is as likely as any other.
    #[default]
    Uniform,
    /// 32 in a row.
    Bursts,
    /// The last of every batch, but for its anchor.
    Tails,
}

/// The order in which records of a partition are left out.
///
/// It differs from partition to partition: producers take these in turn, so records of the same offset are neighbours in time,
/// which are alike.
#[derive(Clone, Copy, Debug)]
pub struct LossOrder {
    pattern: LossPattern,
    seed: u64,
}

impl LossOrder {
    /// That of a topic's partition. It is the same in every process.
    pub fn new(pattern: LossPattern, topic: &str, partition: i32) -> Self {
        let seed = topic.bytes().fold(partition as u64, |seed, byte| mixed(seed ^ u64::from(byte)));
        Self { pattern, seed }
    }

    /// Records of a batch are left out in the order of this, the least first.
    pub(crate) fn rank(self, offset: u64) -> (u64, u64) {
        let drawn = |number: u64| mixed(number ^ self.seed);
        match self.pattern {
            LossPattern::Uniform => (drawn(offset), 0),
            LossPattern::Bursts => (drawn(offset / BURST), offset),
            LossPattern::Tails => (u64::MAX - offset, 0),
        }
    }
}

/// How many records may be left out, and which.
#[derive(Clone, Copy, Debug)]
pub struct Bound {
    /// The least part that is delivered.
    pub min_delivery: MinDelivery,
    /// Which of the others come first.
    pub order: LossOrder,
}

/// Appends to `output` what a consumer gets of `records`, and gives what it adds to the ledger, which has taken it in.
///
/// What is decided already stays as it was decided. Of the rest as much is left out as the bound of `lossy` allows, if there
/// is one; and only from batches that become smaller by it, and for which there is `room`.
pub fn thin(records: &[u8], ledger: &mut Ledger, lossy: Option<Bound>, room: &mut Room, output: &mut Vec<u8>) -> Entry {
    let mut entry = Entry::default();
    for section in sections(records) {
        match section {
            Section::Batch(header, bytes) => batch(&header, bytes, ledger, lossy, room, &mut entry, output),
            Section::Other(bytes) => output.extend_from_slice(bytes),
        }
    }
    entry
}

/// Appends to `output` what a consumer gets of a batch, and adds to `all` what it adds to the ledger.
pub(crate) fn batch(
    header: &BatchHeader,
    bytes: &[u8],
    ledger: &mut Ledger,
    lossy: Option<Bound>,
    room: &mut Room,
    all: &mut Entry,
    output: &mut Vec<u8>,
) {
    let (base, last) = (header.base, header.last);
    let is_new = !ledger.any_decided(base, last);
    // What has no room in the ledger, or says nothing, passes as if it had not been seen.
    if header.is_control() || last == i64::MAX || is_new && !ledger.has_room() {
        output.extend_from_slice(bytes);
        return;
    }
    let mut entry = Entry::default();
    entry.decide(base, last);
    let mut left = None;
    if is_new && lossy.is_none() {
        let counts = if header.is_transactional() { &mut entry.transactional } else { &mut entry.plain };
        counts.fetched = u64::from(header.records);
    } else if ledger.any_lost(base, last) || !ledger.all_decided(base, last) {
        let Ok(batch) = Batch::open(bytes, room) else {
            output.extend_from_slice(bytes);
            return;
        };
        left = choose(header, &batch, bytes.len(), ledger, lossy, &mut entry);
    }
    output.extend_from_slice(left.as_deref().unwrap_or(bytes));
    if !ledger.all_decided(base, last) {
        ledger.take(&entry);
        all.append(entry);
    }
}

/// The batch without what is left out of it, if anything is.
fn choose(
    header: &BatchHeader,
    batch: &Batch<'_>,
    size: usize,
    ledger: &Ledger,
    bound: Option<Bound>,
    entry: &mut Entry,
) -> Option<Vec<u8>> {
    let anchor = batch.offsets().next_back()?;
    let (decided, new): (Vec<i64>, Vec<i64>) = batch.offsets().partition(|offset| ledger.is_decided(*offset));
    let before: BTreeSet<i64> =
        decided.into_iter().filter(|offset| *offset != anchor && ledger.is_lost(*offset)).collect();
    let counts = RecordCounts { fetched: new.len() as u64, lost: 0 };
    // Of a transaction that is aborted a consumer gets nothing. So that the bound holds for those that are committed,
    // each batch of a transaction is held to it by itself.
    let is_transactional = header.is_transactional();
    let may = bound.map_or(0, |bound| {
        if is_transactional {
            bound.min_delivery.may_lose(counts.fetched)
        } else {
            ledger.may_lose(bound.min_delivery, counts.fetched)
        }
    });
    let mut drawn: Vec<i64> = new.into_iter().filter(|offset| *offset != anchor).collect();
    if let Some(bound) = bound {
        drawn.sort_by_cached_key(|offset| bound.order.rank(*offset as u64));
    }
    drawn.truncate(may as usize);
    let mut lost = before.clone();
    lost.extend(&drawn);
    let counted = if is_transactional { &mut entry.transactional } else { &mut entry.plain };
    *counted = counts;
    if lost.is_empty() {
        return None;
    }
    let left = batch.without(&lost);
    if left.len() < size {
        counted.lost = drawn.len() as u64;
        drawn.sort_unstable();
        for offset in drawn {
            entry.lose(offset);
        }
        return Some(left);
    }
    // Packed again it would be no smaller: nothing is gained by what would be lost.
    (!before.is_empty()).then(|| batch.without(&before))
}

/// Numbers in an order that no application's records follow (the finalizer of SplitMix64).
fn mixed(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

#[cfg(test)]
mod tests;
