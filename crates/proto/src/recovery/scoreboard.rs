//! What the receiver holds beyond the cumulative acknowledgement, and what follows for retransmission (RFC 6675).

use alloc::vec::Vec;

use crate::packet::ByteRange;

/// Duplicate acknowledgements, or SACKed ranges, that make a segment lost (RFC 6675 section 2).
pub const DUP_THRESH: u32 = 3;
/// Most ranges kept apart; further ones are forgotten, so a hostile peer cannot grow memory.
const MAX_RANGES: usize = 1 << 14;

/// The sender's scoreboard. Ranges are sorted, disjoint and not adjacent, and lie above SND.UNA.
#[derive(Clone, Debug, Default)]
pub struct Scoreboard {
    sacked: Vec<ByteRange>,
    sacked_bytes: u64,
    /// One past the highest byte retransmitted in this recovery (HighRxt).
    high_rxt: u64,
    /// Where the last rescue retransmission was justified (RescueRxt).
    rescue_rxt: u64,
}

impl Scoreboard {
    /// Whether nothing is SACKed.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.sacked.is_empty()
    }

    /// Bytes SACKed.
    pub const fn sacked_bytes(&self) -> u64 {
        self.sacked_bytes
    }

    /// One past the highest byte retransmitted in this recovery.
    pub const fn high_rxt(&self) -> u64 {
        self.high_rxt
    }

    /// One past the highest SACKed byte; zero if none is.
    pub fn highest(&self) -> u64 {
        self.sacked.last().map_or(0, |range| range.end)
    }

    /// Marks `range` as held by the receiver; gives how many of its bytes were not before.
    pub fn insert(&mut self, range: ByteRange) -> u64 {
        let first = self.sacked.partition_point(|held| held.end < range.start);
        let last = self.sacked.partition_point(|held| held.start <= range.end);
        if first == last && self.sacked.len() >= MAX_RANGES {
            return 0;
        }
        let mut merged = range;
        let mut known = 0;
        for held in &self.sacked[first..last] {
            known += held.len();
            merged = ByteRange::new(merged.start.min(held.start), merged.end.max(held.end));
        }
        if last == first + 1 {
            self.sacked[first] = merged;
        } else {
            self.sacked.splice(first..last, [merged]);
        }
        self.sacked_bytes += merged.len() - known;
        merged.len() - known
    }

    /// Everything below `unacked` is acknowledged.
    pub fn advance(&mut self, unacked: u64) {
        let gone = self.sacked.partition_point(|range| range.end <= unacked);
        self.sacked_bytes -= self.sacked.drain(..gone).map(ByteRange::len).sum::<u64>();
        if let Some(first) = self.sacked.first_mut()
            && first.start < unacked
        {
            self.sacked_bytes -= unacked - first.start;
            first.start = unacked;
        }
        self.high_rxt = self.high_rxt.max(unacked);
    }

    /// Bytes below this that are not SACKed are lost (IsLost): at least three SACKed ranges lie above them, or more
    /// than two segments' worth of SACKed bytes.
    pub fn lost_below(&self, mss: u64) -> u64 {
        let (mut ranges, mut bytes) = (0, 0);
        for range in self.sacked.iter().rev() {
            ranges += 1;
            bytes += range.len();
            if ranges >= DUP_THRESH || bytes > u64::from(DUP_THRESH - 1) * mss {
                return range.start;
            }
        }
        0
    }

    /// Forgets everything if the first unacknowledged byte is marked as held: the receiver broke its word (RFC 2018
    /// section 8), and only that byte would be missing.
    pub fn forget_if_reneged(&mut self, unacked: u64) {
        if self.sacked.first().is_some_and(|range| range.start <= unacked) {
            self.sacked.clear();
            self.sacked_bytes = 0;
        }
    }

    /// SACKed bytes below `sequence`.
    fn sacked_below(&self, sequence: u64) -> u64 {
        let below = self.sacked.iter().take_while(|range| range.start < sequence);
        below.map(|range| range.end.min(sequence) - range.start).sum()
    }

    /// Bytes of `from..to` that are not SACKed.
    pub fn holes_within(&self, from: u64, to: u64) -> u64 {
        if from >= to { 0 } else { to - from - (self.sacked_below(to) - self.sacked_below(from)) }
    }

    /// Bytes in the network (pipe): those neither SACKed nor lost, and those retransmitted, each counted once per copy.
    pub fn pipe(&self, unacked: u64, next: u64, mss: u64) -> u64 {
        let lost_below = self.lost_below(mss).max(unacked);
        self.holes_within(lost_below, next) + self.holes_within(unacked, self.high_rxt)
    }

    /// Recovery, or repair after a timeout, begins: nothing is retransmitted yet.
    pub fn begin(&mut self, unacked: u64) {
        self.high_rxt = unacked;
        self.rescue_rxt = u64::MAX;
    }

    /// Everything below `end` that is not SACKed has been retransmitted. The first retransmission of a recovery also
    /// forbids the rescue until it is acknowledged (RFC 6675 section 5, step 4.3).
    pub fn retransmitted(&mut self, end: u64) {
        self.high_rxt = self.high_rxt.max(end);
        if self.rescue_rxt == u64::MAX {
            self.rescue_rxt = end;
        }
    }

    /// The first hole at or above HighRxt, cut at `limit`.
    pub fn next_hole(&self, limit: u64) -> Option<ByteRange> {
        let mut start = self.high_rxt;
        let index = self.sacked.partition_point(|range| range.end <= start);
        let mut above = self.sacked[index..].iter();
        let mut end = limit;
        for range in above.by_ref() {
            if range.start > start {
                end = limit.min(range.start);
                break;
            }
            start = range.end;
        }
        (start < end).then_some(ByteRange::new(start, end))
    }

    /// The lowest lost hole above HighRxt (NextSeg rule 1).
    pub fn next_lost(&self, mss: u64) -> Option<ByteRange> {
        self.next_hole(self.lost_below(mss))
    }

    /// The lowest hole above HighRxt and below the highest SACKed byte (NextSeg rule 3).
    pub fn next_unsacked(&self) -> Option<ByteRange> {
        self.next_hole(self.highest())
    }

    /// The highest hole, once per recovery (NextSeg rule 4): against the loss of its last segments.
    pub fn rescue(&self, unacked: u64, next: u64) -> Option<ByteRange> {
        if unacked <= self.rescue_rxt || self.holes_within(unacked, next) == 0 {
            return None;
        }
        let mut hole = ByteRange::new(unacked, next);
        for range in self.sacked.iter().rev() {
            if range.end < hole.end {
                hole.start = range.end;
                break;
            }
            hole.end = range.start;
        }
        (!hole.is_empty()).then_some(hole)
    }

    /// The rescue of this recovery was sent; HighRxt stays.
    pub fn rescued(&mut self, recovery_point: u64) {
        self.rescue_rxt = recovery_point;
    }
}
