//! Loss detection by time, and the tail loss probe: RACK-TLP (RFC 8985).
//!
//! A segment is lost once one sent after it is known to be delivered and a reordering window has passed. Every
//! segment keeps a record while it is in flight, so this is an option.

use alloc::collections::VecDeque;

use crate::packet::ByteRange;
use crate::recovery::scoreboard::DUP_THRESH;
use crate::time::{Instant, Span};

/// Recoveries for which a reordering window widened by D-SACK lasts (RFC 8985 section 6.2, step 4).
pub(crate) const WIDENED_RECOVERIES: u32 = 16;
/// Probe timeout before the first round-trip sample (RFC 8985 section 7.2).
const FIRST_PROBE_TIMEOUT: Span = Span::from_secs(1);

/// What is known of one segment in flight.
#[derive(Clone, Copy, Debug)]
struct Segment {
    range: ByteRange,
    sent_at: Instant,
    retransmitted: bool,
    sacked: bool,
    lost: bool,
}

/// A tail loss probe that waits for its answer.
#[derive(Clone, Copy, Debug)]
struct Probe {
    /// SND.NXT after the probe (TLP.end_seq).
    end: u64,
    /// The segment sent again; `None` for new data.
    retransmission: Option<ByteRange>,
}

/// RACK-TLP's state of one flow.
#[derive(Debug)]
pub struct Rack {
    /// Everything not cumulatively acknowledged, in sequence.
    segments: VecDeque<Segment>,
    /// Bytes neither SACKed nor lost.
    in_flight: u64,
    lost_segments: usize,
    sacked_segments: u32,
    /// Transmission time and end of the most recently sent segment that was delivered (RACK.xmit_ts, RACK.end_seq).
    newest: Option<(Instant, u64)>,
    /// Round-trip time of that segment (RACK.rtt).
    rtt: Span,
    min_rtt: Span,
    /// One past the highest byte delivered (RACK.fack).
    highest_delivered: u64,
    reordering_seen: bool,
    window_multiple: u64,
    window_persists: u32,
    /// SND.NXT when the window was last widened.
    dsack_round: Option<u64>,
    reorder_deadline: Option<Instant>,
    /// When what is sent began to overtake, and where: what was sent before ends there.
    overtaken: Option<(Instant, u64)>,
    max_ack_delay: Span,
    probe: Option<Probe>,
    probe_deadline: Option<Instant>,
}

impl Rack {
    /// Nothing sent yet. `max_ack_delay` is how long the receiver may hold back an acknowledgement.
    pub fn new(max_ack_delay: Span) -> Self {
        Self {
            segments: VecDeque::new(),
            in_flight: 0,
            lost_segments: 0,
            sacked_segments: 0,
            newest: None,
            rtt: Span::ZERO,
            min_rtt: Span::MAX,
            highest_delivered: 0,
            reordering_seen: false,
            window_multiple: 1,
            window_persists: WIDENED_RECOVERIES,
            dsack_round: None,
            reorder_deadline: None,
            overtaken: None,
            max_ack_delay,
            probe: None,
            probe_deadline: None,
        }
    }

    /// Bytes in the network: neither acknowledged, nor SACKed, nor lost.
    pub fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// The earlier of the reordering and the probe timer.
    pub fn deadline(&self) -> Option<Instant> {
        [self.reorder_deadline, self.probe_deadline].into_iter().flatten().min()
    }

    /// A new segment was sent.
    pub fn on_sent(&mut self, now: Instant, range: ByteRange) {
        let segment = Segment { range, sent_at: now, retransmitted: false, sacked: false, lost: false };
        self.segments.push_back(segment);
        self.in_flight += range.len();
    }

    /// The segment that begins at `start` was sent again.
    pub fn on_retransmitted(&mut self, now: Instant, start: u64) {
        let index = self.segments.partition_point(|segment| segment.range.start < start);
        let Some(segment) = self.segments.get_mut(index) else { return };
        (segment.sent_at, segment.retransmitted) = (now, true);
        if core::mem::take(&mut segment.lost) {
            self.lost_segments -= 1;
            self.in_flight += segment.range.len();
        }
    }

    /// Everything below `unacked` is acknowledged.
    pub fn on_acknowledged(&mut self, now: Instant, unacked: u64) {
        self.overtaken = self.overtaken.filter(|(_, end)| unacked < *end);
        while let Some(mut segment) = self.segments.front().copied().filter(|segment| segment.range.end <= unacked) {
            self.segments.pop_front();
            if segment.sacked {
                self.sacked_segments -= 1;
            } else {
                self.on_delivered(now, &mut segment);
            }
        }
    }

    /// `block` is SACKed.
    pub fn on_sacked(&mut self, now: Instant, block: ByteRange) {
        let first = self.segments.partition_point(|segment| segment.range.start < block.start);
        for index in first..self.segments.len() {
            let mut segment = self.segments[index];
            if segment.range.end > block.end {
                break;
            }
            if !segment.sacked {
                self.on_delivered(now, &mut segment);
                segment.sacked = true;
                self.sacked_segments += 1;
                self.segments[index] = segment;
            }
        }
    }

    /// Steps 1 to 3 of RFC 8985 section 6.2 for one segment delivered for the first time.
    fn on_delivered(&mut self, now: Instant, segment: &mut Segment) {
        if core::mem::take(&mut segment.lost) {
            self.lost_segments -= 1;
        } else {
            self.in_flight -= segment.range.len();
        }
        let rtt = now.since(segment.sent_at);
        // Sooner than any round trip: an earlier transmission was delivered.
        let ambiguous = segment.retransmitted && rtt < self.min_rtt;
        if !segment.retransmitted {
            self.min_rtt = self.min_rtt.min(rtt);
            self.reordering_seen |= segment.range.end < self.highest_delivered;
        }
        if !ambiguous {
            self.rtt = rtt;
            self.newest = self.newest.max(Some((segment.sent_at, segment.range.end)));
        }
        self.highest_delivered = self.highest_delivered.max(segment.range.end);
    }

    /// Widens the reordering window once per round in which a D-SACK tells of a needless retransmission.
    pub fn follow_duplicates(&mut self, unacked: u64, next: u64, dsack: bool) {
        if self.dsack_round.is_some_and(|round| unacked >= round) {
            self.dsack_round = None;
        }
        if dsack && self.dsack_round.is_none() {
            self.dsack_round = Some(next);
            self.window_multiple += 1;
            self.window_persists = WIDENED_RECOVERIES;
        }
    }

    /// The clock stood still while the segments in flight went on: like that of a retransmission, their time tells
    /// nothing if it is shorter than any round trip.
    pub fn on_clock_stopped(&mut self) {
        for segment in &mut self.segments {
            segment.retransmitted = true;
        }
    }

    /// What is sent from now on, from the byte `next` on, overtakes what is in flight: that is lost only a round trip and the
    /// largest reordering window, a smoothed round trip (RFC 8985 section 6.2), from now.
    pub fn expect_overtaking(&mut self, now: Instant, next: u64) {
        self.overtaken = Some((now, next));
    }

    /// A recovery ended: after enough of them the reordering window is narrow again.
    pub fn on_recovered(&mut self) {
        self.window_persists = self.window_persists.saturating_sub(1);
        if self.window_persists == 0 {
            self.window_multiple = 1;
        }
    }

    /// How much later than a delivered segment another may still arrive (RACK_update_reo_wnd).
    fn reordering_window(&self, smoothed: Span, in_recovery: bool) -> Span {
        if !self.reordering_seen && (in_recovery || self.sacked_segments >= DUP_THRESH) {
            return Span::ZERO;
        }
        self.min_rtt.divided_by(4).times(self.window_multiple).min(smoothed)
    }

    /// Marks what is lost by now and arms the timer for what may be lost later; true if anything was marked.
    pub fn detect(&mut self, now: Instant, smoothed: Span, in_recovery: bool) -> bool {
        self.reorder_deadline = None;
        let Some(newest) = self.newest else { return false };
        let patience = self.rtt.plus(self.reordering_window(smoothed, in_recovery));
        let (before, mut latest) = (self.lost_segments, None);
        for segment in &mut self.segments {
            // First transmissions are in order of time: from here on everything was sent after the newest delivered.
            if !segment.retransmitted && segment.sent_at > newest.0 {
                break;
            }
            if segment.sacked || segment.lost || (segment.sent_at, segment.range.end) >= newest {
                continue;
            }
            let overtaken = self.overtaken.filter(|(_, end)| segment.range.end <= *end && !segment.retransmitted);
            let lost_at = match overtaken {
                Some((at, _)) => segment.sent_at.max(at).after(self.rtt.plus(smoothed)),
                None => segment.sent_at.after(patience),
            };
            if lost_at <= now {
                segment.lost = true;
                self.lost_segments += 1;
                self.in_flight -= segment.range.len();
            } else {
                latest = latest.max(Some(lost_at));
            }
        }
        self.reorder_deadline = latest;
        self.lost_segments > before
    }

    /// The retransmission timer expired: the first segment is lost, and what was sent long enough ago
    /// (RACK_mark_losses_on_RTO).
    pub fn on_timeout(&mut self, now: Instant, smoothed: Span) {
        let patience = self.rtt.plus(self.reordering_window(smoothed, false));
        let mut first = true;
        for segment in &mut self.segments {
            if !segment.sacked && !segment.lost && (first || segment.sent_at.after(patience) <= now) {
                segment.lost = true;
                self.lost_segments += 1;
                self.in_flight -= segment.range.len();
            }
            first &= segment.sacked;
        }
        self.reorder_deadline = None;
        self.overtaken = None;
        self.probe = None;
        self.probe_deadline = None;
    }

    /// The lowest lost segment.
    pub fn next_lost(&self) -> Option<ByteRange> {
        if self.lost_segments == 0 {
            return None;
        }
        self.segments.iter().find(|segment| segment.lost).map(|segment| segment.range)
    }

    /// Sets the probe timer after new data was sent or acknowledged (RFC 8985 section 7.2); `rto_at` is when the
    /// retransmission timer expires.
    pub fn arm_probe(&mut self, now: Instant, smoothed: Span, rto_at: Option<Instant>, in_recovery: bool) {
        let wanted = !in_recovery && self.sacked_segments == 0 && self.probe.is_none() && !self.segments.is_empty();
        let delay = if self.segments.len() == 1 { self.max_ack_delay } else { Span::ZERO };
        let timeout = if smoothed == Span::ZERO { FIRST_PROBE_TIMEOUT } else { smoothed.times(2).plus(delay) };
        let at = now.after(timeout);
        self.probe_deadline = wanted.then(|| rto_at.map_or(at, |rto_at| at.min(rto_at)));
    }

    /// Whether the probe timer has expired; it does once.
    pub fn take_probe(&mut self, now: Instant) -> bool {
        let due = self.probe_deadline.is_some_and(|at| at <= now);
        if due {
            self.probe_deadline = None;
        }
        due && !self.segments.is_empty()
    }

    /// Whether the reordering timer has expired.
    pub fn reordering_settled(&self, now: Instant) -> bool {
        self.reorder_deadline.is_some_and(|at| at <= now)
    }

    /// The segment that a probe without new data repeats: the last one.
    pub fn last_segment(&self) -> Option<ByteRange> {
        self.segments.back().map(|segment| segment.range)
    }

    /// A probe was sent; SND.NXT is `next` after it.
    pub fn on_probe_sent(&mut self, next: u64, retransmission: Option<ByteRange>) {
        self.probe = Some(Probe { end: next, retransmission });
    }

    /// Settles an outstanding probe (RFC 8985 section 7.4.2); true if it repaired a loss that nothing else has told of,
    /// so that the window must shrink. `plain_duplicate` is an acknowledgement that neither moves nor SACKs anything.
    pub fn settle_probe(&mut self, unacked: u64, dsack: Option<ByteRange>, plain_duplicate: bool) -> bool {
        let Some(probe) = self.probe.filter(|probe| unacked >= probe.end) else { return false };
        let Some(range) = probe.retransmission else {
            self.probe = None;
            return false;
        };
        let both_arrived = dsack.is_some_and(|dsack| dsack.end + 1 >= range.end) || plain_duplicate;
        if both_arrived || unacked > probe.end {
            self.probe = None;
        }
        unacked > probe.end && !both_arrived
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    fn us(us: u64) -> Instant {
        Instant::ZERO.after(Span::from_us(us))
    }

    fn segment(number: u64) -> ByteRange {
        ByteRange::new(number * 10, number * 10 + 10)
    }

    const SMOOTHED: Span = Span::from_us(100);

    /// `count` segments of ten bytes, sent one microsecond apart from time zero.
    fn sent(count: u64) -> Rack {
        let mut rack = Rack::new(Span::ZERO);
        for number in 0..count {
            rack.on_sent(us(number), segment(number));
        }
        rack
    }

    #[test]
    fn a_segment_is_lost_once_the_window_has_passed() {
        let mut rack = sent(3);
        rack.on_sacked(us(102), segment(2));
        // Round trip 100 us, window a quarter of it: 0 and 1 are due 125 us after they were sent.
        assert!(!rack.detect(us(102), SMOOTHED, false));
        assert_eq!(rack.deadline(), Some(us(126)), "when the later of the two is due");
        assert!(rack.detect(us(126), SMOOTHED, false));
        assert_eq!((rack.next_lost(), rack.in_flight()), (Some(segment(0)), 0));
        rack.on_retransmitted(us(126), 0);
        assert_eq!((rack.next_lost(), rack.in_flight()), (Some(segment(1)), 10));
    }

    #[test]
    fn three_sacked_segments_need_no_window_until_reordering_is_seen() {
        let mut rack = sent(5);
        (1..4).for_each(|number| rack.on_sacked(us(100 + number), segment(number)));
        assert!(rack.detect(us(103), SMOOTHED, false));
        let mut rack = sent(6);
        rack.on_sacked(us(102), segment(2));
        rack.on_sacked(us(103), segment(1));
        rack.on_sacked(us(104), ByteRange::new(10, 50));
        assert!(!rack.detect(us(104), SMOOTHED, false), "segment 1 came after 2");
    }

    #[test]
    fn an_answer_too_soon_is_to_the_first_transmission() {
        let mut rack = sent(4);
        rack.on_acknowledged(us(100), 10);
        rack.on_retransmitted(us(110), 10);
        rack.on_acknowledged(us(112), 20);
        assert!(
            !rack.detect(us(112), SMOOTHED, true),
            "2 and 3 were sent before the retransmission, but it tells nothing"
        );
        assert_eq!(rack.deadline(), None);
    }

    #[test]
    fn duplicates_widen_the_window_once_a_round_for_sixteen_recoveries() {
        let mut rack = sent(4);
        rack.reordering_seen = true;
        rack.on_acknowledged(us(100), 10);
        rack.follow_duplicates(10, 40, true);
        rack.follow_duplicates(20, 40, true);
        assert_eq!(rack.reordering_window(SMOOTHED, true), Span::from_us(50), "twice a quarter");
        rack.follow_duplicates(40, 80, true);
        assert_eq!(rack.reordering_window(SMOOTHED, true), Span::from_us(75));
        rack.follow_duplicates(80, 120, true);
        rack.follow_duplicates(120, 160, true);
        assert_eq!(rack.reordering_window(SMOOTHED, true), SMOOTHED, "never above the round trip");
        (1..WIDENED_RECOVERIES).for_each(|_| rack.on_recovered());
        assert_eq!(rack.reordering_window(SMOOTHED, true), SMOOTHED, "fifteen recoveries are not enough");
        rack.on_recovered();
        assert_eq!(rack.reordering_window(SMOOTHED, true), Span::from_us(25));
    }

    #[test]
    fn the_probe_waits_two_round_trips_and_for_a_delayed_acknowledgement() {
        let mut rack = Rack::new(Span::from_us(500));
        rack.on_sent(us(0), segment(0));
        rack.arm_probe(us(0), SMOOTHED, None, false);
        assert_eq!(rack.deadline(), Some(us(700)), "one segment: the receiver may hold back its answer");
        rack.on_sent(us(1), segment(1));
        rack.arm_probe(us(1), SMOOTHED, None, false);
        assert_eq!(rack.deadline(), Some(us(201)));
        rack.arm_probe(us(1), SMOOTHED, Some(us(150)), false);
        assert_eq!(rack.deadline(), Some(us(150)), "never later than the retransmission timeout");
        rack.arm_probe(us(1), SMOOTHED, None, true);
        assert_eq!(rack.deadline(), None, "not in recovery");
        rack.arm_probe(us(1), Span::ZERO, None, false);
        assert_eq!(rack.deadline(), Some(us(1_000_001)), "one second without a sample");
    }

    #[test]
    fn a_repeated_segment_that_arrived_twice_was_no_loss() {
        for (dsack, plain_duplicate, unacked, loss) in [
            (Some(segment(3)), false, 40, false),
            (None, true, 40, false),
            (None, false, 40, false),
            (None, false, 50, true),
            (Some(segment(3)), false, 50, false),
        ] {
            let mut rack = sent(4);
            rack.on_probe_sent(40, Some(segment(3)));
            assert_eq!(
                rack.settle_probe(unacked, dsack, plain_duplicate),
                loss,
                "{dsack:?} {plain_duplicate} {unacked}"
            );
        }
    }

    #[test]
    fn after_a_timeout_only_old_segments_are_lost() {
        let mut rack = sent(3);
        rack.on_acknowledged(us(100), 10);
        rack.on_sent(us(950), segment(3));
        rack.on_timeout(us(1000), SMOOTHED);
        assert_eq!((rack.next_lost(), rack.in_flight()), (Some(segment(1)), 10), "the last was just sent");
        rack.on_retransmitted(us(1000), 10);
        assert_eq!((rack.next_lost(), rack.in_flight()), (Some(segment(2)), 20));
        rack.on_retransmitted(us(1000), 20);
        assert_eq!((rack.next_lost(), rack.in_flight()), (None, 30));
    }

    /// A retransmission is later than what was sent after the original: the others are still judged. Segment 0 was sent
    /// again when 1 became due.
    #[test]
    fn a_retransmission_does_not_hide_later_segments() {
        let mut rack = sent(4);
        rack.on_sacked(us(102), segment(2));
        assert!(rack.detect(us(125), SMOOTHED, false));
        rack.on_retransmitted(us(125), 0);
        assert!(rack.detect(us(126), SMOOTHED, false));
        assert_eq!(rack.next_lost(), Some(segment(1)));
        assert!(!rack.detect(us(126), SMOOTHED, false), "nothing more");
    }

    /// Of segments that were sent at the same moment those with lower sequence numbers count as sent before (RFC 8985
    /// section 6.2, step 2, RACK_sent_after).
    #[test]
    fn a_burst_is_in_order_of_sequence() {
        let mut rack = Rack::new(Span::ZERO);
        (0..4).for_each(|number| rack.on_sent(us(0), segment(number)));
        rack.on_sacked(us(100), segment(2));
        assert!(rack.detect(us(125), SMOOTHED, false));
        assert_eq!((rack.in_flight(), rack.next_lost()), (10, Some(segment(0))), "all but the last");
    }

    /// A block tells of the segments that lie in it whole, and of each once.
    #[test]
    fn only_whole_segments_are_sacked() {
        let mut rack = sent(4);
        rack.on_sacked(us(100), ByteRange::new(10, 25));
        assert_eq!(rack.in_flight(), 30);
        rack.on_sacked(us(100), ByteRange::new(5, 40));
        assert_eq!((rack.in_flight(), rack.sacked_segments), (10, 3));
    }

    /// An answer to a retransmission after the shortest round trip, no sooner, is to the retransmission; after the clock
    /// stood still the same goes for first transmissions.
    #[test]
    fn an_answer_after_a_round_trip_is_to_the_retransmission() {
        let mut rack = sent(3);
        rack.on_acknowledged(us(100), 10);
        rack.on_retransmitted(us(200), 10);
        rack.on_sacked(us(300), segment(1));
        assert_eq!((rack.newest, rack.rtt), (Some((us(200), 20)), Span::from_us(100)));
        let mut rack = sent(3);
        rack.on_acknowledged(us(100), 10);
        rack.on_clock_stopped();
        rack.on_acknowledged(us(100), 20);
        assert_eq!((rack.newest, rack.rtt), (Some((us(0), 10)), Span::from_us(100)), "99 us is sooner than any");
    }

    /// The probe timer tells once that it has expired, and not if nothing is left to probe for.
    #[test]
    fn the_probe_timer_expires_once() {
        let mut rack = sent(2);
        rack.arm_probe(us(1), SMOOTHED, None, false);
        assert!(!rack.take_probe(us(200)) && rack.take_probe(us(201)) && !rack.take_probe(us(201)));
        assert_eq!(rack.last_segment(), Some(segment(1)));
        rack.arm_probe(us(1), SMOOTHED, None, false);
        rack.on_acknowledged(us(150), 20);
        assert!(!rack.take_probe(us(201)));
        assert_eq!((rack.deadline(), rack.last_segment()), (None, None));
    }

    #[test]
    fn the_reordering_timer_is_due_when_the_window_is_over() {
        let mut rack = sent(3);
        rack.on_sacked(us(102), segment(2));
        assert!(!rack.reordering_settled(us(1000)), "not armed");
        rack.detect(us(102), SMOOTHED, false);
        assert!(!rack.reordering_settled(us(125)) && rack.reordering_settled(us(126)));
    }

    /// A probe is settled once (RFC 8985 section 7.4.2): until SND.NXT after it is acknowledged it waits, by an
    /// acknowledgement of just that it goes on waiting for a duplicate, and then for anything beyond.
    #[test]
    fn a_probe_waits_for_its_answer() {
        let probed = |retransmission| {
            let mut rack = sent(4);
            rack.on_probe_sent(40, retransmission);
            rack
        };
        let mut rack = probed(Some(segment(3)));
        assert!(!rack.settle_probe(39, None, true), "its end is not acknowledged");
        assert!(!rack.settle_probe(40, None, false));
        assert!(rack.settle_probe(41, None, false), "more is, and no duplicate came: it repaired a loss");
        assert!(!rack.settle_probe(41, None, false), "once");
        let mut rack = probed(Some(segment(3)));
        assert!(!rack.settle_probe(40, None, true) && !rack.settle_probe(50, None, false), "both had arrived");
        let mut rack = probed(None);
        assert!(!rack.settle_probe(40, None, false) && !rack.settle_probe(50, None, false), "new data repairs nothing");
        // A FIN takes a number and no byte: a D-SACK of all that arrived may end one below.
        for (end, loss) in [(40, false), (39, false), (38, true)] {
            assert_eq!(probed(Some(segment(3))).settle_probe(50, Some(ByteRange::new(30, end)), false), loss, "{end}");
        }
    }

    #[derive(Clone, Copy, Debug)]
    enum Operation {
        Send,
        Retransmit,
        Acknowledge(u64),
        Sack(u64, u64),
        Detect,
        Timeout,
    }

    fn operations() -> impl Strategy<Value = Vec<(u64, Operation)>> {
        let operation = prop_oneof![
            4 => Just(Operation::Send),
            2 => Just(Operation::Retransmit),
            2 => (0..40u64).prop_map(Operation::Acknowledge),
            4 => (0..40u64, 1..6u64).prop_map(|(first, count)| Operation::Sack(first, count)),
            3 => Just(Operation::Detect),
            1 => Just(Operation::Timeout),
        ];
        proptest::collection::vec((0..200u64, operation), 0..150)
    }

    proptest! {
        /// Whatever happens, the counts are those of the records: bytes in flight, lost and SACKed segments; no segment is
        /// both lost and SACKed, and the lowest lost one is told.
        #[test]
        fn counts_agree_with_the_records(operations in operations()) {
            let (mut rack, mut now, mut sent, mut unacked) = (Rack::new(Span::ZERO), us(0), 0, 0);
            for (after, operation) in operations {
                now = now.after(Span::from_us(after));
                match operation {
                    Operation::Send => {
                        rack.on_sent(now, segment(sent));
                        sent += 1;
                    }
                    Operation::Retransmit => if let Some(range) = rack.next_lost() {
                        rack.on_retransmitted(now, range.start);
                    },
                    Operation::Acknowledge(number) => {
                        unacked = unacked.max(number.min(sent));
                        rack.on_acknowledged(now, unacked * 10);
                    }
                    Operation::Sack(first, count) => {
                        let (first, end) = (first.max(unacked), (first + count).min(sent));
                        if first < end {
                            rack.on_sacked(now, ByteRange::new(first * 10, end * 10));
                        }
                    }
                    Operation::Detect => {
                        let before = rack.lost_segments;
                        let marked = rack.detect(now, SMOOTHED, false);
                        prop_assert_eq!(marked, rack.lost_segments > before);
                    }
                    Operation::Timeout => rack.on_timeout(now, SMOOTHED),
                }
                let count = |of: fn(&Segment) -> bool| rack.segments.iter().filter(|segment| of(segment)).count();
                prop_assert_eq!(rack.in_flight(), 10 * count(|segment| !segment.sacked && !segment.lost) as u64);
                prop_assert_eq!(rack.lost_segments, count(|segment| segment.lost));
                prop_assert_eq!(rack.sacked_segments as usize, count(|segment| segment.sacked));
                prop_assert_eq!(count(|segment| segment.sacked && segment.lost), 0);
                let lost = rack.segments.iter().find(|segment| segment.lost).map(|segment| segment.range);
                prop_assert_eq!(rack.next_lost(), lost);
            }
        }
    }
}
