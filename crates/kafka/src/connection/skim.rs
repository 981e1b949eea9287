//! A walk through a response to Fetch as it comes. Only its end may name brokers, and nothing before it is kept.

use crate::walk::Malformed;

/// Most bytes of a varint of 32 bits.
const MAX_VARINT: u32 = 5;
/// Lengths of what passes unread, in the layout of versions 16 to 18.
const THROTTLE_ERROR_SESSION: u64 = 4 + 2 + 4;
const TOPIC_ID: u64 = 16;
const PARTITION_ERROR_OFFSETS: u64 = 4 + 2 + 3 * 8;
const ABORTED_TRANSACTION: u64 = 2 * 8;
const PREFERRED_REPLICA: u64 = 4;

/// The structure whose tagged fields are read.
#[derive(Clone, Copy, Debug)]
enum Of {
    Header,
    Aborted,
    Partition,
    Topic,
}

/// The varint that is read next.
#[derive(Clone, Copy, Debug)]
enum Next {
    /// How many tagged fields there are, the number of one, its size.
    Tags(Of),
    Tag(Of),
    TagSize(Of),
    Topics,
    Partitions,
    Aborted,
    RecordsSize,
    /// None: the end has come, which is the response's own tagged fields.
    End,
}

/// How far the walk is.
#[derive(Debug)]
pub(super) struct Skim {
    /// So many bytes pass before the next varint.
    passing: u64,
    next: Next,
    /// What has come of the varint, and how many bytes.
    value: u64,
    bytes: u32,
    /// What is left of each.
    tags: u32,
    topics: u32,
    partitions: u32,
    aborted: u32,
}

impl Skim {
    /// A walk from behind the correlation number on.
    pub(super) fn new() -> Self {
        let next = Next::Tags(Of::Header);
        Self { passing: 0, next, value: 0, bytes: 0, tags: 0, topics: 0, partitions: 0, aborted: 0 }
    }

    /// So many bytes that come next need not be looked at.
    pub(super) fn passing(&self) -> u64 {
        self.passing
    }

    /// So many of them have gone.
    pub(super) fn pass(&mut self, count: u64) {
        self.passing -= count;
    }

    /// Whether the end has come.
    pub(super) fn is_at_end(&self) -> bool {
        matches!(self.next, Next::End) && self.passing == 0
    }

    /// Takes bytes; how many of them come before the end.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Result<usize, Malformed> {
        let mut taken = 0;
        while taken < bytes.len() && !self.is_at_end() {
            if self.passing > 0 {
                let count = self.passing.min((bytes.len() - taken) as u64);
                self.passing -= count;
                taken += count as usize;
                continue;
            }
            self.take_byte(bytes[taken])?;
            taken += 1;
        }
        Ok(taken)
    }

    fn take_byte(&mut self, byte: u8) -> Result<(), Malformed> {
        self.value |= u64::from(byte & 0x7f) << (7 * self.bytes);
        self.bytes += 1;
        if byte >= 0x80 {
            return if self.bytes < MAX_VARINT { Ok(()) } else { Err(Malformed::Length) };
        }
        let value = u32::try_from(self.value).map_err(|_| Malformed::Length)?;
        (self.value, self.bytes) = (0, 0);
        // Of arrays and records: null is 0, and a length is 1 less.
        let length = value.saturating_sub(1);
        match self.next {
            Next::Tags(of) => {
                self.tags = value;
                self.next_tag(of);
            }
            Next::Tag(of) => self.next = Next::TagSize(of),
            Next::TagSize(of) => {
                self.passing += u64::from(value);
                self.tags -= 1;
                self.next_tag(of);
            }
            Next::Topics => {
                self.topics = length;
                self.next_topic();
            }
            Next::Partitions => {
                self.partitions = length;
                self.next_partition();
            }
            Next::Aborted => {
                self.aborted = length;
                self.next_aborted();
            }
            Next::RecordsSize => {
                self.passing += u64::from(length);
                self.next = Next::Tags(Of::Partition);
            }
            Next::End => unreachable!("nothing is taken behind the end"),
        }
        Ok(())
    }

    fn next_tag(&mut self, of: Of) {
        if self.tags > 0 {
            self.next = Next::Tag(of);
            return;
        }
        match of {
            Of::Header => {
                self.passing += THROTTLE_ERROR_SESSION;
                self.next = Next::Topics;
            }
            Of::Aborted => self.next_aborted(),
            Of::Partition => self.next_partition(),
            Of::Topic => self.next_topic(),
        }
    }

    fn next_topic(&mut self) {
        self.next = match self.topics.checked_sub(1) {
            None => Next::End,
            Some(left) => {
                self.topics = left;
                self.passing += TOPIC_ID;
                Next::Partitions
            }
        };
    }

    fn next_partition(&mut self) {
        self.next = match self.partitions.checked_sub(1) {
            None => Next::Tags(Of::Topic),
            Some(left) => {
                self.partitions = left;
                self.passing += PARTITION_ERROR_OFFSETS;
                Next::Aborted
            }
        };
    }

    fn next_aborted(&mut self) {
        self.next = match self.aborted.checked_sub(1) {
            None => {
                self.passing += PREFERRED_REPLICA;
                Next::RecordsSize
            }
            Some(left) => {
                self.aborted = left;
                self.passing += ABORTED_TRANSACTION;
                Next::Tags(Of::Aborted)
            }
        };
    }
}
