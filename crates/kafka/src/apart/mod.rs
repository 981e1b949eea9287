//! Responses to fetches whose records travel apart from them, in messages of which some may be missing.
//!
//! ```text
//! broker -- response --> Plan:    the response with batches of their last record alone, and what was taken out
//!                                 --> Carried --> client
//!                        messages: the records, as many to one as a packet holds --> Carried
//! ```
//!
//! What has to arrive travels in the response: everything but records, and every batch's last record, by which clients go on.
//! What is missing in the end is settled by the receiving side within each account, and told in a [`Report`]; it asks for the
//! rest again. Nothing is lost twice: which records are in messages is decided in the partition's ledger before they leave.

mod carried;

pub use carried::Carried;

use crate::batch::{Batch, BatchHeader, RecordGroup, Room, Section, sections};
use crate::ledger::{Entry, Ledger, MinDelivery};
use crate::refusal::Refusal;
use crate::thin::{Bound, LossOrder, batch};

/// Most messages of a response; what does not go into them stays in the response.
pub const MAX_MESSAGES: usize = 1 << 17;
/// Bytes of a message in front of the records: the group's number.
const MESSAGE_HEAD: usize = 4;
/// A part of what is given of a partition: bytes as they are.
const AS_IT_IS: u8 = 0;
/// A batch whose records travel apart, but for the last.
const APART: u8 = 1;

/// Records of which together so many may be lost: those of a partition, or of a batch of a transaction.
#[derive(Clone, Copy, Debug)]
struct Account {
    partition: usize,
    may_lose: u32,
    transactional: bool,
}

/// Records that travel in a message.
#[derive(Clone, Debug)]
struct Group {
    account: u32,
    records: u32,
    offsets: Vec<(i64, i64)>,
    /// The least is lost first.
    rank: (u64, u64),
    message: Vec<u8>,
}

/// How records are put into messages.
#[derive(Clone, Copy, Debug)]
pub struct Cut {
    /// The least part of the records that is delivered.
    pub min_delivery: MinDelivery,
    /// Bytes of a message that travels in one packet.
    pub payload: usize,
    /// Which records are lost first, if the path leaves the choice.
    pub order: LossOrder,
    /// Whether records are left out of batches that are not worth messages.
    pub leaves_out: bool,
}

/// What was taken out of a response.
#[derive(Clone, Debug)]
pub struct Plan {
    accounts: Vec<Account>,
    groups: Vec<Group>,
    partitions: usize,
    room: Room,
}

impl Plan {
    /// For a response of so many bytes.
    pub fn for_response(bytes: usize) -> Self {
        let (accounts, groups, partitions) = (Vec::new(), Vec::new(), 0);
        Self { accounts, groups, partitions, room: Room::for_response(bytes) }
    }

    /// Appends to `output` what travels in place of `records`, which are a partition's: its number counts the calls. Gives what
    /// that adds to the ledger, which has taken it in.
    pub fn take_apart(&mut self, records: &[u8], ledger: &mut Ledger, cut: Cut, output: &mut Vec<u8>) -> Entry {
        let partition = self.partitions;
        self.partitions += 1;
        let mut entry = Entry::default();
        let first = self.accounts.len();
        self.accounts.push(Account { partition, may_lose: 0, transactional: false });
        for section in sections(records) {
            match section {
                Section::Batch(header, bytes) => {
                    if !self.take_batch(&header, bytes, first, ledger, cut, &mut entry, output) {
                        let bound = Bound { min_delivery: cut.min_delivery, order: cut.order };
                        let lossy = cut.leaves_out.then_some(bound);
                        let mut left = Vec::with_capacity(bytes.len());
                        batch(&header, bytes, ledger, lossy, &mut self.room, &mut entry, &mut left);
                        put_part(output, AS_IT_IS, &left);
                    }
                }
                Section::Other(bytes) => put_part(output, AS_IT_IS, bytes),
            }
        }
        let carried: u64 = self
            .groups
            .iter()
            .filter(|group| group.account == first as u32)
            .map(|group| u64::from(group.records))
            .sum();
        self.accounts[first].may_lose = ledger.may_lose(cut.min_delivery, 0).min(carried) as u32;
        let unsettled = self.accounts[first..].iter().map(|account| u64::from(account.may_lose)).sum();
        ledger.take(&Entry { unsettled, ..Entry::default() });
        entry.unsettled = unsettled;
        entry
    }

    /// Takes a batch apart, if that is new to the ledger and worth it.
    #[allow(clippy::too_many_arguments, reason = "it is a part of the function above")]
    fn take_batch(
        &mut self,
        header: &BatchHeader,
        bytes: &[u8],
        account: usize,
        ledger: &mut Ledger,
        cut: Cut,
        all: &mut Entry,
        output: &mut Vec<u8>,
    ) -> bool {
        let (base, last) = (header.base, header.last);
        let is_new = last < i64::MAX && !ledger.any_decided(base, last) && ledger.has_room();
        if !is_new || header.is_control() || header.records < 2 {
            return false;
        }
        let Ok(batch) = Batch::open(bytes, &mut self.room) else { return false };
        let Some(anchor) = batch.anchor() else { return false };
        let groups = batch.groups(cut.payload.saturating_sub(MESSAGE_HEAD).max(1));
        // Packed in groups they may be more than all of them at once: then nothing is gained by what may be lost.
        let apart: usize = groups.iter().map(|group| group.bytes.len() + MESSAGE_HEAD).sum();
        let least = apart - cut.min_delivery.may_lose(apart as u64) as usize;
        if least + anchor.len() >= bytes.len() || self.groups.len() + groups.len() > MAX_MESSAGES {
            return false;
        }
        let records = batch.offsets().len() as u64;
        let mut entry = Entry::default();
        entry.decide(base, last);
        let account = if header.is_transactional() {
            // Of a transaction that is aborted a consumer gets nothing: each batch is held to the bound by itself.
            entry.transactional.fetched = records;
            let may_lose = cut.min_delivery.may_lose(records).min(records - 1) as u32;
            self.accounts.push(Account { partition: self.partitions - 1, may_lose, transactional: true });
            self.accounts.len() - 1
        } else {
            entry.plain.fetched = records;
            account
        };
        ledger.take(&entry);
        all.append(entry);
        let content = [&(groups.len() as u32).to_be_bytes(), &anchor[..]].concat();
        put_part(output, APART, &content);
        for RecordGroup { records, offsets, bytes } in groups {
            let message = [&(self.groups.len() as u32).to_be_bytes(), &bytes[..]].concat();
            let rank = cut.order.rank(offsets.first().map_or(0, |(first, _)| *first as u64));
            self.groups.push(Group { account: account as u32, records, offsets, rank, message });
        }
        true
    }

    /// Whether all travels in the response.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Bytes of all messages.
    pub fn bytes(&self) -> usize {
        self.groups.iter().map(|group| group.message.len()).sum()
    }

    /// The messages. Those that may all be missing come last, and of these the last is lost first.
    pub fn messages(&self) -> Vec<&[u8]> {
        let mut left = self.allowances();
        let mut by_rank: Vec<&Group> = self.groups.iter().collect();
        by_rank.sort_by_key(|group| group.rank);
        let spends = |group: &&Group| spend(&mut left[group.account as usize], group.records);
        let (mut spared, needed): (Vec<&Group>, Vec<&Group>) = by_rank.into_iter().partition(spends);
        spared.extend(needed);
        spared.into_iter().rev().map(|group| &group.message[..]).collect()
    }

    /// How many messages may be missing: whichever they are, no account loses more than it may if each has no more than its
    /// share of them.
    pub fn may_miss(&self) -> usize {
        let mut left = self.allowances();
        let mut largest: Vec<&Group> = self.groups.iter().collect();
        largest.sort_by_key(|group| std::cmp::Reverse(group.records));
        let spends = |group: &&&Group| {
            let left = &mut left[group.account as usize];
            let spends = spend(left, group.records);
            // What is smaller comes after: nothing more of the account may be missing.
            *left = if spends { *left } else { 0 };
            spends
        };
        largest.iter().filter(spends).count()
    }

    fn allowances(&self) -> Vec<u32> {
        self.accounts.iter().map(|account| account.may_lose).collect()
    }

    /// Nothing of the partition that was taken apart last travels apart after all.
    pub fn drop_partition(&mut self) {
        self.partitions -= 1;
        let before = |account: &Account| account.partition < self.partitions;
        let accounts = self.accounts.iter().take_while(|account| before(account)).count();
        self.accounts.truncate(accounts);
        let groups = self.groups.iter().take_while(|group| (group.account as usize) < accounts).count();
        self.groups.truncate(groups);
    }

    /// What the other side is told of a response of a version: these are its bytes from its correlation number on, and its
    /// messages come in a flow of this number.
    pub fn head(&self, flow: u32, version: i16, response: &[u8]) -> Vec<u8> {
        let mut head = Vec::with_capacity(response.len() + 8 * self.groups.len() + 64);
        head.extend(flow.to_be_bytes());
        head.extend(version.to_be_bytes());
        head.extend((self.accounts.len() as u32).to_be_bytes());
        head.extend(self.accounts.iter().flat_map(|account| account.may_lose.to_be_bytes()));
        head.extend((self.groups.len() as u32).to_be_bytes());
        for group in &self.groups {
            head.extend(group.account.to_be_bytes());
            head.extend(group.records.to_be_bytes());
        }
        head.extend_from_slice(response);
        head
    }

    /// What a report adds to the ledger of each partition, which has not taken it in.
    pub fn settle(&self, report: &Report) -> Result<Vec<Entry>, Refusal> {
        let mut entries = vec![Entry::default(); self.partitions];
        let mut left = self.allowances();
        for account in &self.accounts {
            entries[account.partition].settled += u64::from(account.may_lose);
        }
        for number in self.numbers(&report.lost)? {
            let group = &self.groups[number];
            if !spend(&mut left[group.account as usize], group.records) {
                return Err(Refusal::Bound);
            }
            let Account { partition, transactional, .. } = self.accounts[group.account as usize];
            let entry = &mut entries[partition];
            for (first, last) in &group.offsets {
                entry.lose_range(*first, *last);
            }
            let counts = if transactional { &mut entry.transactional } else { &mut entry.plain };
            counts.lost += u64::from(group.records);
        }
        Ok(entries)
    }

    /// The messages that a report asks for again: each with its length in front.
    pub fn again(&self, report: &Report) -> Result<Vec<u8>, Refusal> {
        let mut bytes = Vec::new();
        for number in self.numbers(&report.again)? {
            let message = &self.groups[number].message;
            bytes.extend((message.len() as u32).to_be_bytes());
            bytes.extend_from_slice(message);
        }
        Ok(bytes)
    }

    /// The groups of ranges that a peer names, each once and in order.
    fn numbers(&self, ranges: &[(u32, u32)]) -> Result<Vec<usize>, Refusal> {
        let (mut numbers, mut next) = (Vec::new(), 0);
        for &(first, last) in ranges {
            if first < next || last < first || last as usize >= self.groups.len() {
                return Err(Refusal::Malformed);
            }
            numbers.extend(first as usize..=last as usize);
            next = last + 1;
        }
        Ok(numbers)
    }
}

/// What became of a response's messages, as ranges of their numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// They are lost for good.
    pub lost: Vec<(u32, u32)>,
    /// They are missing, and have to come after all.
    pub again: Vec<(u32, u32)>,
}

impl Report {
    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for ranges in [&self.lost, &self.again] {
            bytes.extend((ranges.len() as u32).to_be_bytes());
            for (first, last) in ranges {
                bytes.extend(first.to_be_bytes());
                bytes.extend(last.to_be_bytes());
            }
        }
        bytes
    }

    /// From bytes.
    pub fn parse(bytes: &[u8]) -> Result<Self, Refusal> {
        let mut rest = bytes;
        let mut ranges = || {
            let count = take_u32(&mut rest)?;
            // A false count ends at the input's end.
            (0..count).map(|_| Ok((take_u32(&mut rest)?, take_u32(&mut rest)?))).collect::<Result<Vec<_>, Refusal>>()
        };
        let report = Self { lost: ranges()?, again: ranges()? };
        if rest.is_empty() { Ok(report) } else { Err(Refusal::Malformed) }
    }

    fn push(ranges: &mut Vec<(u32, u32)>, number: u32) {
        match ranges.last_mut() {
            Some(range) if range.1 + 1 == number => range.1 = number,
            _ => ranges.push((number, number)),
        }
    }
}

/// Takes so many from what is left, if that is enough.
fn spend(left: &mut u32, records: u32) -> bool {
    let rest = left.checked_sub(records);
    *left = rest.unwrap_or(*left);
    rest.is_some()
}

/// Appends records of a partition that travel in the response.
pub fn put_as_they_are(records: &[u8], output: &mut Vec<u8>) {
    put_part(output, AS_IT_IS, records);
}

fn put_part(output: &mut Vec<u8>, kind: u8, content: &[u8]) {
    output.push(kind);
    output.extend((content.len() as u32).to_be_bytes());
    output.extend_from_slice(content);
}

fn take_u32(bytes: &mut &[u8]) -> Result<u32, Refusal> {
    let (number, rest) = bytes.split_first_chunk().ok_or(Refusal::Truncated)?;
    *bytes = rest;
    Ok(u32::from_be_bytes(*number))
}

fn take<'b>(bytes: &mut &'b [u8], count: usize) -> Result<&'b [u8], Refusal> {
    let (taken, rest) = bytes.split_at_checked(count).ok_or(Refusal::Truncated)?;
    *bytes = rest;
    Ok(taken)
}

#[cfg(test)]
mod tests;
