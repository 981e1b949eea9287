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
    /// How many times what makes a segment lost was doubled, because packets overtake each other.
    doubled: u8,
    /// Bytes that are not lost whatever is SACKed above them; empty as a rule.
    spared: ByteRange,
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

    /// Duplicate acknowledgements, or SACKed ranges, that make a segment lost now.
    #[inline]
    pub const fn dup_thresh(&self) -> u32 {
        DUP_THRESH << self.doubled
    }

    /// Doubles so many times what makes a segment lost.
    pub const fn double_dup_thresh(&mut self, times: u8) {
        self.doubled = times;
    }

    /// Bytes below this that are not SACKed are lost (IsLost): at least three SACKed ranges lie above them, or more
    /// than two segments' worth of SACKed bytes; more of them where packets overtake each other.
    pub fn lost_below(&self, mss: u64) -> u64 {
        let dup_thresh = self.dup_thresh();
        let (mut ranges, mut bytes) = (0, 0);
        for range in self.sacked.iter().rev() {
            ranges += 1;
            bytes += range.len();
            if ranges >= dup_thresh || bytes > u64::from(dup_thresh - 1) * mss {
                return range.start;
            }
        }
        0
    }

    /// Whether anything from `unacked` on is lost.
    #[inline]
    pub fn has_lost(&self, unacked: u64, mss: u64) -> bool {
        let lost_below = self.lost_below(mss);
        lost_below > unacked
            && (self.spared.is_empty()
                || self.holes_within(unacked, lost_below) > self.spared_within(unacked, lost_below))
    }

    /// Bytes of `range` are not lost from now on, though later ones have arrived: these took another way. An empty range
    /// ends that.
    pub fn spare(&mut self, range: ByteRange) {
        self.spared = range;
    }

    /// What was spared may be lost after all: it is repaired again from the first spared byte on.
    pub fn stop_sparing(&mut self, unacked: u64) {
        if !self.spared.is_empty() {
            self.high_rxt = self.high_rxt.min(self.spared.start.max(unacked));
            self.spared = ByteRange::default();
        }
    }

    /// Bytes of `from..to` that are spared and not SACKed.
    fn spared_within(&self, from: u64, to: u64) -> u64 {
        self.holes_within(self.spared.start.max(from), self.spared.end.min(to))
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
        // What is spared is in the network like what is not lost.
        let spared = self.spared_within(unacked.max(self.high_rxt), lost_below);
        self.holes_within(lost_below, next) + self.holes_within(unacked, self.high_rxt) + spared
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

    /// The first hole at or above HighRxt that is not spared, cut at `limit`.
    pub fn next_hole(&self, limit: u64) -> Option<ByteRange> {
        let hole = self.hole_from(self.high_rxt, limit)?;
        if self.spared.is_empty() || hole.end <= self.spared.start || hole.start >= self.spared.end {
            return Some(hole);
        }
        if hole.start < self.spared.start {
            return Some(ByteRange::new(hole.start, self.spared.start));
        }
        self.hole_from(self.spared.end, limit)
    }

    /// The first hole at or above `start`, cut at `limit`.
    fn hole_from(&self, mut start: u64, limit: u64) -> Option<ByteRange> {
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
        (!hole.is_empty() && hole.start >= self.spared.end).then_some(hole)
    }

    /// The rescue of this recovery was sent; HighRxt stays.
    pub fn rescued(&mut self, recovery_point: u64) {
        self.rescue_rxt = recovery_point;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn board(ranges: &[(u64, u64)]) -> Scoreboard {
        let mut board = Scoreboard::default();
        for (start, end) in ranges {
            board.insert(ByteRange::new(*start, *end));
        }
        board
    }

    #[test]
    fn lost_are_three_ranges_or_more_than_two_segments_below() {
        assert_eq!(board(&[(100, 110), (120, 130)]).lost_below(10), 0, "exactly two segments");
        assert_eq!(board(&[(100, 110), (120, 131)]).lost_below(10), 100, "one byte more");
        assert_eq!(board(&[(100, 101), (110, 111), (120, 121)]).lost_below(10), 100, "three ranges");
        assert_eq!(board(&[(50, 60), (100, 101), (110, 111), (120, 121)]).lost_below(10), 100);
    }

    #[test]
    fn pipe_follows_the_trace_of_ten_segments() {
        // Segments of one byte, 0 acknowledged, 1 and 2 lost: SACK 3..6, retransmission of 1, SACK 6, SACK 7.
        let mut board = board(&[(3, 6)]);
        board.begin(1);
        assert_eq!(board.pipe(1, 10, 1), 4);
        assert_eq!(board.next_lost(1), Some(ByteRange::new(1, 3)));
        board.retransmitted(2);
        assert_eq!(board.pipe(1, 10, 1), 5);
        board.insert(ByteRange::new(6, 7));
        assert_eq!(board.pipe(1, 10, 1), 4);
        board.insert(ByteRange::new(7, 8));
        assert_eq!((board.pipe(1, 10, 1), board.next_lost(1)), (3, Some(ByteRange::new(2, 3))));
    }

    #[test]
    fn rescue_comes_once_and_only_after_the_first_retransmission_arrived() {
        let mut board = board(&[(3, 8)]);
        board.begin(0);
        board.retransmitted(1);
        assert_eq!(board.rescue(1, 10), None, "nothing beyond the first retransmission is acknowledged");
        board.advance(8);
        assert_eq!(board.rescue(8, 10), Some(ByteRange::new(8, 10)));
        board.rescued(10);
        assert_eq!(board.rescue(9, 10), None);
    }

    /// The highest hole lies below the last SACKed bytes if those end the stream.
    #[test]
    fn rescue_takes_the_highest_hole() {
        for (ranges, unacked, hole) in [
            (&[(3, 8)][..], 2, (2, 3)),
            (&[(3, 5), (7, 8)], 2, (5, 7)),
            (&[(3, 5), (6, 7)], 2, (7, 8)),
            (&[(3, 5)], 2, (5, 8)),
        ] {
            let mut board = board(ranges);
            board.begin(0);
            board.retransmitted(1);
            board.advance(unacked);
            assert_eq!(board.rescue(unacked, 8), Some(ByteRange::new(hole.0, hole.1)), "{ranges:?}");
        }
    }

    /// Ranges that touch are one: three segments in a row are no three ranges.
    #[test]
    fn adjacent_ranges_are_one() {
        for order in [[0, 1, 2], [2, 1, 0], [0, 2, 1], [1, 0, 2]] {
            let board = board(&order.map(|place| (100 + place, 101 + place)));
            assert_eq!((board.lost_below(10), board.sacked_bytes(), board.highest()), (0, 3, 103), "{order:?}");
            assert!(!board.is_empty() && board.sacked.len() == 1);
        }
    }

    #[test]
    fn what_was_retransmitted_is_no_hole() {
        let mut board = board(&[(5, 8)]);
        board.begin(2);
        assert_eq!((board.high_rxt(), board.next_hole(5)), (2, Some(ByteRange::new(2, 5))));
        board.retransmitted(5);
        assert_eq!((board.high_rxt(), board.next_hole(5), board.next_unsacked()), (5, None, None));
        assert_eq!(board.next_hole(8), None);
        assert_eq!(board.next_hole(9), Some(ByteRange::new(8, 9)));
    }

    /// Beyond so many ranges further ones are forgotten; those that are kept still grow.
    #[test]
    fn a_hostile_receiver_cannot_grow_the_board() {
        let mut board = Scoreboard::default();
        for number in 0..=MAX_RANGES as u64 {
            let kept = board.insert(ByteRange::new(10 * number, 10 * number + 2));
            assert_eq!(kept, if number == MAX_RANGES as u64 { 0 } else { 2 });
        }
        assert_eq!(board.insert(ByteRange::new(1, 4)), 2);
        assert_eq!((board.sacked.len(), board.sacked_bytes()), (MAX_RANGES, 2 * MAX_RANGES as u64 + 2));
    }

    #[test]
    fn a_receiver_that_forgets_is_not_believed() {
        let mut board = board(&[(5, 8)]);
        board.forget_if_reneged(4);
        assert_eq!(board.sacked_bytes(), 3);
        board.forget_if_reneged(5);
        assert!(board.is_empty() && board.sacked_bytes() == 0);
    }

    const MSS: u64 = 3;
    const END: u64 = 60;

    /// RFC 6675's definitions, byte by byte.
    struct Model {
        sacked: [bool; END as usize],
        unacked: u64,
        high_rxt: u64,
    }

    impl Model {
        fn is_sacked(&self, byte: u64) -> bool {
            byte < END && byte >= self.unacked && self.sacked[byte as usize]
        }

        fn is_lost(&self, byte: u64) -> bool {
            let above = (byte + 1..END).filter(|above| self.is_sacked(*above));
            let starts = above.clone().filter(|above| *above == byte + 1 || !self.is_sacked(above - 1));
            starts.count() >= 3 || above.count() as u64 > 2 * MSS
        }

        fn pipe(&self) -> u64 {
            let counts = (self.unacked..END)
                .filter(|byte| !self.is_sacked(*byte))
                .map(|byte| u64::from(!self.is_lost(byte)) + u64::from(byte < self.high_rxt));
            counts.sum()
        }

        fn next(&self, eligible: impl Fn(u64) -> bool) -> Option<u64> {
            (self.high_rxt.max(self.unacked)..END).find(|byte| !self.is_sacked(*byte) && eligible(*byte))
        }
    }

    proptest! {
        #[test]
        fn agrees_with_the_definitions(
            blocks in prop::collection::vec((0..END, 1u64..8), 0..12),
            (first, second) in (0u64..20, 0u64..20),
            retransmitted in 0u64..40,
        ) {
            let (mut board, mut model) = (Scoreboard::default(), Model { sacked: [false; 60], unacked: 0, high_rxt: 0 });
            board.begin(0);
            for (index, (start, len)) in blocks.iter().copied().enumerate() {
                let range = ByteRange::new(start.max(model.unacked), (start + len).min(END));
                if !range.is_empty() {
                    let fresh = (range.start..range.end).filter(|byte| !model.is_sacked(*byte)).count() as u64;
                    prop_assert_eq!(board.insert(range), fresh);
                    (range.start..range.end).for_each(|byte| model.sacked[byte as usize] = true);
                }
                if index == 4 || index == 8 {
                    model.unacked = model.unacked.max(if index == 4 { first } else { first + second });
                    board.advance(model.unacked);
                }
            }
            board.retransmitted(retransmitted);
            model.high_rxt = retransmitted.max(model.unacked);
            prop_assert_eq!(board.pipe(model.unacked, END, MSS), model.pipe());
            prop_assert_eq!(board.next_lost(MSS).map(|hole| hole.start), model.next(|byte| model.is_lost(byte)));
            let highest = (0..END).rev().find(|byte| model.is_sacked(*byte)).unwrap_or(0);
            prop_assert_eq!(board.next_unsacked().map(|hole| hole.start), model.next(|byte| byte < highest));
            let sacked = (0..END).filter(|byte| model.is_sacked(*byte)).count() as u64;
            prop_assert_eq!(board.sacked_bytes(), sacked);
        }
    }
}
