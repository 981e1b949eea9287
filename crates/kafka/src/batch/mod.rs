//! Batches of records, taken apart and made whole again without some of their records.
//!
//! A batch that loses records keeps its offsets, `lastOffsetDelta` above all: consumers go on behind a batch by it, and
//! some wait for ever where it is lowered to the last record that is left. What the log cleaner of a broker leaves of a
//! batch looks the same.

mod codec;
mod unopened;

use std::collections::BTreeSet;

use self::codec::Codec;
pub use self::unopened::{MAX_PLAIN, MAX_RECORDS, Room, Unopened};
use crate::ledger::extend_ranges;

/// Bytes in front of what `batchLength` counts, in every version of the format.
const LENGTH_END: usize = 12;
const MAGIC_AT: usize = 16;
const CRC_AT: usize = 17;
const ATTRIBUTES_AT: usize = 21;
const MAX_TIMESTAMP_AT: usize = 35;
const COUNT_AT: usize = 57;
/// Bytes in front of the records.
const HEADER: usize = 61;

/// Bits of the attributes, beside the three of the codec.
mod attribute {
    /// The maximum is the time at which the broker took the batch, and that of every record.
    pub(super) const LOG_APPEND_TIME: i16 = 1 << 3;
    pub(super) const TRANSACTIONAL: i16 = 1 << 4;
    pub(super) const CONTROL: i16 = 1 << 5;
}

/// What a batch says of itself, without being unpacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchHeader {
    /// Offset of its first record, when it had all.
    pub base: i64,
    /// Offset of its last record, when it had all.
    pub last: i64,
    /// How many records it has.
    pub records: u32,
    attributes: i16,
}

impl BatchHeader {
    /// Of the bytes that begin with a batch of magic 2: the header and the batch's size.
    fn read(bytes: &[u8]) -> Option<(Self, usize)> {
        let size = size(bytes)?;
        if size < HEADER || bytes.len() < size || bytes[MAGIC_AT] != 2 {
            return None;
        }
        let base = i64::from_be_bytes(array(bytes, 0));
        let delta = u32::try_from(i32::from_be_bytes(array(bytes, 23))).ok()?;
        let records = u32::try_from(i32::from_be_bytes(array(bytes, COUNT_AT))).ok()?;
        let last = base.checked_add(i64::from(delta)).filter(|_| base >= 0)?;
        let attributes = i16::from_be_bytes(array(bytes, ATTRIBUTES_AT));
        // A batch has no two records of one offset.
        (records <= delta.saturating_add(1)).then_some((Self { base, last, records, attributes }, size))
    }

    /// Whether it tells of a transaction's end and has no record of an application.
    pub fn is_control(&self) -> bool {
        self.attributes & attribute::CONTROL != 0
    }

    /// Whether its records are part of a transaction.
    pub fn is_transactional(&self) -> bool {
        self.attributes & attribute::TRANSACTIONAL != 0
    }
}

/// A part of what a fetch gives of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section<'a> {
    /// A batch.
    Batch(BatchHeader, &'a [u8]),
    /// Anything else: messages of older formats, a last batch that is cut short.
    Other(&'a [u8]),
}

/// What a fetch gives of a partition, part for part. All parts together are the whole.
pub fn sections(mut bytes: &[u8]) -> impl Iterator<Item = Section<'_>> {
    std::iter::from_fn(move || {
        if bytes.is_empty() {
            return None;
        }
        let whole = size(bytes).filter(|size| *size <= bytes.len());
        let (section, rest) = bytes.split_at(whole.unwrap_or(bytes.len()));
        bytes = rest;
        Some(BatchHeader::read(section).map_or(Section::Other(section), |(header, _)| Section::Batch(header, section)))
    })
}

/// Bytes of the batch, or the message of an older format, that begins here.
fn size(bytes: &[u8]) -> Option<usize> {
    let head: [u8; LENGTH_END] = *bytes.first_chunk()?;
    let length = i32::from_be_bytes(array(&head, 8));
    usize::try_from(length).ok().map(|length| length + LENGTH_END)
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("as many as were asked for")
}

/// Where a record is.
#[derive(Clone, Copy, Debug)]
struct Record {
    offset: i64,
    timestamp: i64,
    start: u32,
    end: u32,
}

/// Records of a batch that stand in a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordGroup {
    /// How many there are.
    pub records: u32,
    /// Their offsets, first and last of each range.
    pub offsets: Vec<(i64, i64)>,
    /// They themselves, packed as the batch is.
    pub bytes: Vec<u8>,
}

/// The batch of an [anchor](Batch::anchor) and of those groups in front of it that are there, in order: how many records each
/// has, and its bytes.
pub fn join<'g>(
    anchor: &[u8],
    groups: impl Iterator<Item = (u32, &'g [u8])>,
    room: &mut Room,
) -> Result<Vec<u8>, Unopened> {
    let anchor = Batch::open(anchor, room)?;
    let (mut header, _) = BatchHeader::read(anchor.whole).ok_or(Unopened::NoBatch)?;
    let (mut plain, codec) = (Vec::new(), anchor.codec);
    for (records, bytes) in groups {
        header.records = header.records.checked_add(records).ok_or(Unopened::TooLarge)?;
        match codec {
            Codec::None => plain.extend_from_slice(bytes),
            _ => plain.extend(unpack(codec, bytes, room)?),
        }
        if plain.len() + anchor.plain.len() > MAX_PLAIN || header.records as usize > MAX_RECORDS {
            return Err(Unopened::TooLarge);
        }
    }
    plain.extend_from_slice(&anchor.plain);
    let base_timestamp = i64::from_be_bytes(array(anchor.whole, 27));
    let records = read_records(&plain, &header, base_timestamp).ok_or(Unopened::Records)?;
    let whole = Batch { whole: anchor.whole, codec, plain, records };
    Ok(whole.build(&whole.records.iter().collect::<Vec<_>>()))
}

/// A batch that is taken apart.
#[derive(Debug)]
pub struct Batch<'a> {
    whole: &'a [u8],
    codec: Codec,
    plain: Vec<u8>,
    records: Vec<Record>,
}

impl<'a> Batch<'a> {
    /// Takes a whole batch apart, control batches excepted, if there is room for what it is unpacked to.
    pub fn open(whole: &'a [u8], room: &mut Room) -> Result<Self, Unopened> {
        let (header, size) = BatchHeader::read(whole).ok_or(Unopened::NoBatch)?;
        if size != whole.len() || header.is_control() {
            return Err(Unopened::NoBatch);
        }
        if crc32c::crc32c(&whole[ATTRIBUTES_AT..]) != u32::from_be_bytes(array(whole, CRC_AT)) {
            return Err(Unopened::Crc);
        }
        if header.records as usize > MAX_RECORDS {
            return Err(Unopened::TooLarge);
        }
        let codec = Codec::of(header.attributes).ok_or(Unopened::Codec)?;
        let plain = unpack(codec, &whole[HEADER..], room)?;
        let records = read_records(&plain, &header, i64::from_be_bytes(array(whole, 27))).ok_or(Unopened::Records)?;
        Ok(Self { whole, codec, plain, records })
    }

    /// The offsets of its records, in order.
    pub fn offsets(&self) -> impl DoubleEndedIterator<Item = i64> + ExactSizeIterator + '_ {
        self.records.iter().map(|record| record.offset)
    }

    /// The batch without some of its records. It is as it was if none of them is in it.
    pub fn without(&self, lost: &BTreeSet<i64>) -> Vec<u8> {
        let kept: Vec<&Record> = self.records.iter().filter(|record| !lost.contains(&record.offset)).collect();
        if kept.len() == self.records.len() { self.whole.to_vec() } else { self.build(&kept) }
    }

    /// The batch with its last record alone; `None` if it has none.
    pub fn anchor(&self) -> Option<Vec<u8>> {
        Some(self.build(&[self.records.last()?]))
    }

    /// Its records but for the last in groups, each packed as the batch is to about `bytes`, or of a record that is larger.
    pub fn groups(&self, bytes: usize) -> Vec<RecordGroup> {
        let packed = (self.whole.len() - HEADER).max(1);
        let most = match self.codec {
            Codec::None => bytes,
            // Little is packed less well than much.
            _ => (bytes * self.plain.len() / packed).max(bytes) / 4 * 3,
        };
        let mut groups = Vec::new();
        let mut rest = &self.records[..self.records.len().saturating_sub(1)];
        while let Some(first) = rest.first() {
            let fits = rest.iter().take_while(|record| (record.end - first.start) as usize <= most).count().max(1);
            let (group, behind) = rest.split_at(fits);
            rest = behind;
            let plain = &self.plain[first.start as usize..group[fits - 1].end as usize];
            let mut offsets: Vec<(i64, i64)> = Vec::new();
            for Record { offset, .. } in group {
                extend_ranges(&mut offsets, *offset, *offset);
            }
            groups.push(RecordGroup { records: fits as u32, offsets, bytes: self.codec.pack(plain) });
        }
        groups
    }

    fn build(&self, kept: &[&Record]) -> Vec<u8> {
        let mut plain = Vec::with_capacity(self.plain.len());
        for record in kept {
            plain.extend_from_slice(&self.plain[record.start as usize..record.end as usize]);
        }
        let mut batch = self.whole[..HEADER].to_vec();
        batch.extend(self.codec.pack(&plain));
        let length = (batch.len() - LENGTH_END) as i32;
        batch[8..LENGTH_END].copy_from_slice(&length.to_be_bytes());
        batch[COUNT_AT..HEADER].copy_from_slice(&(kept.len() as i32).to_be_bytes());
        let attributes = i16::from_be_bytes(array(&batch, ATTRIBUTES_AT));
        // Timestamps of records count from the base, which stays. Of no records the maximum stays too.
        let latest = kept.iter().map(|record| record.timestamp).max();
        if let Some(latest) = latest.filter(|_| attributes & attribute::LOG_APPEND_TIME == 0) {
            batch[MAX_TIMESTAMP_AT..MAX_TIMESTAMP_AT + 8].copy_from_slice(&latest.to_be_bytes());
        }
        let crc = crc32c::crc32c(&batch[ATTRIBUTES_AT..]);
        batch[CRC_AT..ATTRIBUTES_AT].copy_from_slice(&crc.to_be_bytes());
        batch
    }
}

/// What packed records are, as far as there is room.
fn unpack(codec: Codec, packed: &[u8], room: &mut Room) -> Result<Vec<u8>, Unopened> {
    let (most, beyond) = room.limit(packed.len());
    // A codec unpacks a block before it can be stopped.
    if most == 0 {
        return Err(beyond);
    }
    let unpacked = codec.unpack(packed, most).map_err(|error| if error == Unopened::TooLarge { beyond } else { error });
    // What cannot be unpacked may have cost as much as what can.
    room.spend(unpacked.as_ref().map_or(most, Vec::len));
    unpacked
}

/// The records of a batch, if they are as many as it says, with offsets in order, and nothing else is there.
fn read_records(plain: &[u8], header: &BatchHeader, base_timestamp: i64) -> Option<Vec<Record>> {
    // No record is shorter than its seven fields: a false count reserves no more than there can be.
    let mut records: Vec<Record> = Vec::with_capacity((header.records as usize).min(plain.len() / 7));
    let mut rest = plain;
    for _ in 0..header.records {
        let start = plain.len() - rest.len();
        let length = usize::try_from(take_varint(&mut rest)?).ok()?;
        let (mut body, behind) = rest.split_at_checked(length)?;
        rest = behind;
        body = body.get(1..)?; // attributes
        let timestamp = base_timestamp.checked_add(take_varint(&mut body)?)?;
        let delta = take_varint(&mut body).filter(|delta| *delta >= 0)?;
        let offset = header.base.checked_add(delta)?;
        if offset > header.last || records.last().is_some_and(|last| last.offset >= offset) {
            return None;
        }
        records.push(Record { offset, timestamp, start: start as u32, end: (plain.len() - rest.len()) as u32 });
    }
    rest.is_empty().then_some(records)
}

/// A number of variable length in the zigzag form of protocol buffers.
fn take_varint(bytes: &mut &[u8]) -> Option<i64> {
    let mut value = 0u64;
    for shift in (0..70).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f).checked_shl(shift)?;
        if *byte < 0x80 {
            return Some((value >> 1) as i64 ^ -((value & 1) as i64));
        }
    }
    None
}

#[cfg(test)]
mod tests;
