//! The numbered packets that are under way: what each carries, and which are lost.
//!
//! For transports that number packets as they are sent (ATP's sub-flows, push), so that order is that of sending, never
//! that of what they carry. A packet is lost once so many packets sent after it have arrived (3 in both papers), or when it
//! has waited for longer than a timer: without that the last packets of a flow would wait for ever.
//! A packet that was taken for lost and arrives after all widens the threshold to the reordering it showed, which
//! per-packet spraying needs. If the packets that overtook it had another priority it shows nothing: the rest of a flow's
//! fast start may wait in the lowest queue for as long as the others are busy.

use alloc::collections::VecDeque;

use crate::time::Instant;

/// Resolved packets kept behind the loss boundary: an acknowledgement that comes late still finds its packet.
const KEPT: u64 = 128;
/// Largest reordering threshold, in packets: what one acknowledgement tells of.
const THRESHOLD_MAX: u64 = 64;

/// The same of flows in which only time tells of losses: a starved packet may come when thousands were given up.
const KEPT_BY_TIME: u64 = 4096;
/// The threshold of such flows.
pub(crate) const NEVER: u32 = u32::MAX;

/// What a packet number stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Sent {
    pub(crate) at: Instant,
    /// Which message, or block of an object.
    pub(crate) message: u32,
    /// Which fragment of the message, or symbol of the block.
    pub(crate) fragment: u32,
    /// Traffic class.
    pub(crate) class: u8,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    UnderWay,
    Arrived,
    Lost,
}

/// The packets of a flow or sub-flow, by number.
#[derive(Clone, Debug)]
pub(crate) struct Flight {
    log: VecDeque<(Sent, State)>,
    /// Number of the log's first packet.
    base: u64,
    /// Every packet below has arrived or is lost.
    settled: u64,
    /// Packets below have been judged by order: those that had not arrived are lost.
    boundary: u64,
    /// Packets at `boundary` and above that have arrived.
    arrived_above: u64,
    /// One past the highest number that has arrived.
    highest: u64,
    threshold: u64,
    under_way: u64,
    /// When the first packet that is not settled was sent.
    oldest: Instant,
}

impl Flight {
    /// Nothing sent; a packet is lost when `threshold` later ones have arrived.
    pub(crate) fn new(threshold: u32) -> Self {
        Self {
            log: VecDeque::new(),
            base: 0,
            settled: 0,
            boundary: 0,
            arrived_above: 0,
            highest: 0,
            threshold: u64::from(threshold),
            under_way: 0,
            oldest: Instant::ZERO,
        }
    }

    /// Makes room for as many of `packets` as are kept at a time.
    pub(crate) fn reserve(&mut self, packets: u32) {
        self.log.reserve(u64::from(packets).min(2 * KEPT) as usize);
    }

    /// Number of the next packet.
    pub(crate) fn next_number(&self) -> u64 {
        self.base + self.log.len() as u64
    }

    /// Packets that have neither arrived nor are lost.
    #[inline]
    pub(crate) fn under_way(&self) -> u64 {
        self.under_way
    }

    /// Every packet below has arrived or is lost.
    pub(crate) fn settled(&self) -> u64 {
        self.settled
    }

    /// Notes a packet; gives its number.
    pub(crate) fn push(&mut self, sent: Sent) -> u64 {
        let number = self.next_number();
        if self.settled == number {
            self.oldest = sent.at;
        }
        self.log.push_back((sent, State::UnderWay));
        self.under_way += 1;
        number
    }

    /// The full number of which a packet carries the low half: that nearest below what was sent last.
    pub(crate) fn expand(&self, number: u32) -> Option<u64> {
        let next = self.next_number();
        next.checked_sub(u64::from((next as u32).wrapping_sub(number))).filter(|&number| number < next)
    }

    /// A packet has arrived. Gives it the first time, also if it was taken for lost.
    #[inline]
    pub(crate) fn arrived(&mut self, number: u64) -> Option<Sent> {
        let (sent, state) = self.log.get_mut(usize::try_from(number.checked_sub(self.base)?).ok()?)?;
        let (sent, was) = (*sent, core::mem::replace(state, State::Arrived));
        match was {
            State::Arrived => return None,
            State::UnderWay => self.under_way -= 1,
            State::Lost => self.note_reordering(number, sent.class),
        }
        if number >= self.boundary {
            self.arrived_above += 1;
        }
        self.highest = self.highest.max(number + 1);
        Some(sent)
    }

    /// A packet that was taken for lost has arrived after all.
    #[cold]
    fn note_reordering(&mut self, number: u64, class: u8) {
        let overtaken_by = self.highest.checked_sub(1 + self.base).and_then(|index| self.log.get(index as usize));
        if self.by_order() && number < self.boundary && overtaken_by.is_some_and(|(sent, _)| sent.class == class) {
            self.threshold = self.threshold.max(self.highest.saturating_sub(number) + 1).min(THRESHOLD_MAX);
        }
    }

    fn by_order(&self) -> bool {
        self.threshold != u64::from(NEVER)
    }

    /// Takes for lost every packet after which enough others have arrived.
    #[inline]
    pub(crate) fn judge_order(&mut self, mut lost: impl FnMut(u64, Sent)) {
        while self.by_order() && self.boundary < self.highest {
            let index = (self.boundary - self.base) as usize;
            let (sent, state) = &mut self.log[index];
            let arrived = u64::from(*state == State::Arrived);
            if self.arrived_above < self.threshold + arrived {
                break;
            }
            self.arrived_above -= arrived;
            if *state == State::UnderWay {
                *state = State::Lost;
                self.under_way -= 1;
                lost(self.boundary, *sent);
            }
            self.boundary += 1;
        }
        self.settle();
    }

    /// Takes for lost every packet sent at `until` or before that has not arrived.
    pub(crate) fn judge_time(&mut self, until: Instant, mut lost: impl FnMut(u64, Sent)) {
        let from = (self.settled - self.base) as usize;
        for (number, (sent, state)) in (self.settled..).zip(self.log.range_mut(from..)) {
            if sent.at > until {
                break;
            }
            if *state == State::UnderWay {
                *state = State::Lost;
                self.under_way -= 1;
                lost(number, *sent);
            }
        }
        self.settle();
    }

    /// When the oldest packet under way was sent.
    #[inline]
    pub(crate) fn oldest(&self) -> Option<Instant> {
        (self.under_way > 0).then_some(self.oldest)
    }

    fn settle(&mut self) {
        let from = (self.settled - self.base) as usize;
        for (sent, state) in self.log.range(from..) {
            if *state == State::UnderWay {
                self.oldest = sent.at;
                break;
            }
            self.settled += 1;
        }
        if !self.by_order() {
            self.boundary = self.settled;
        }
        let kept = if self.by_order() { KEPT } else { KEPT_BY_TIME };
        while self.base + kept < self.settled.min(self.boundary) {
            self.log.pop_front();
            self.base += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Span;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    fn flight(packets: u32) -> Flight {
        let mut flight = Flight::new(3);
        for fragment in 0..packets {
            let at = Instant::ZERO.after(Span::from_us(fragment.into()));
            flight.push(Sent { at, message: 0, fragment, class: 1 });
        }
        flight
    }

    fn judged(flight: &mut Flight) -> Vec<u32> {
        let mut lost = Vec::new();
        flight.judge_order(|_, sent| lost.push(sent.fragment));
        lost
    }

    /// The paper's rule: three acknowledgements for packets sent after it.
    #[test]
    fn three_later_packets_make_a_loss() {
        let mut flight = flight(8);
        for (number, expected) in [(2, &[][..]), (5, &[]), (6, &[0, 1]), (7, &[3, 4])] {
            assert!(flight.arrived(number).is_some());
            // After 2, 5 and 6 three have arrived behind 0 and 1; after 7 three behind 3 and 4.
            assert_eq!(judged(&mut flight), expected, "after {number}");
        }
        assert_eq!((flight.under_way(), flight.settled()), (0, 8));
    }

    #[test]
    fn a_packet_that_comes_late_widens_the_threshold() {
        let mut flight = flight(20);
        for number in 1..6 {
            flight.arrived(number);
        }
        assert_eq!(judged(&mut flight), [0]);
        assert!(flight.arrived(0).is_some(), "it counts when it comes");
        assert!(flight.arrived(0).is_none(), "once");
        for number in 7..13 {
            flight.arrived(number);
        }
        assert_eq!(judged(&mut flight), [], "six later packets are no loss any more");
        flight.arrived(13);
        assert_eq!(judged(&mut flight), [6], "seven are");
    }

    /// What was overtaken by packets of another priority waited in another queue: that is no reordering of the path.
    #[test]
    fn another_priority_is_no_reordering() {
        let mut flight = flight(1);
        for fragment in 1..20 {
            flight.push(Sent { at: Instant::ZERO, message: 0, fragment, class: 2 });
        }
        (1..10).for_each(|number| _ = flight.arrived(number));
        assert_eq!(judged(&mut flight), [0]);
        assert!(flight.arrived(0).is_some());
        for number in [11, 12, 13] {
            flight.arrived(number);
        }
        assert_eq!(judged(&mut flight), [10], "three later packets are still a loss");
    }

    /// The last packets have no later ones: only time finds their loss.
    #[test]
    fn the_tail_is_found_by_time() {
        let mut flight = flight(4);
        flight.arrived(0);
        assert_eq!(judged(&mut flight), []);
        assert_eq!(flight.oldest(), Some(Instant::ZERO.after(Span::from_us(1))));
        let mut lost = Vec::new();
        flight.judge_time(Instant::ZERO.after(Span::from_us(2)), |_, sent| lost.push(sent.fragment));
        assert_eq!((lost.as_slice(), flight.under_way()), (&[1, 2][..], 1));
        assert!(flight.arrived(2).is_some());
    }

    /// Without a rule of order the log stays as short as with one, and no packet that comes late makes such a rule.
    #[test]
    fn by_time_alone_the_log_stays_short() {
        let mut flight = Flight::new(NEVER);
        for fragment in 0..10_000 {
            let at = Instant::ZERO.after(Span::from_us(fragment.into()));
            let number = flight.push(Sent { at, message: 0, fragment, class: 1 });
            if fragment % 2 == 0 {
                flight.arrived(number);
            }
            assert_eq!(judged(&mut flight), [0; 0], "order tells nothing");
            if fragment % 10 == 9 {
                let mut lost = 0;
                flight.judge_time(at, |_, _| lost += 1);
                assert_eq!(lost, 5, "the odd ones");
                assert!(flight.arrived(number).is_some(), "late");
            }
        }
        assert!(flight.log.len() as u64 <= KEPT_BY_TIME + 10, "{} entries", flight.log.len());
    }

    #[test]
    fn nothing_sent_is_nothing_lost() {
        let mut flight = flight(0);
        assert_eq!((judged(&mut flight), flight.oldest(), flight.under_way()), (Vec::new(), None, 0));
        flight.judge_time(Instant::MAX, |_, _| panic!("nothing was sent"));
        flight.reserve(10);
        assert!((10..KEPT as usize).contains(&flight.log.capacity()));
        flight.reserve(u32::MAX);
        assert!((2 * KEPT as usize..4 * KEPT as usize).contains(&flight.log.capacity()), "no more than is kept");
    }

    /// The packet that overtook may be the last one sent.
    #[test]
    fn the_last_packet_may_show_reordering() {
        let mut flight = flight(6);
        (1..6).for_each(|number| _ = flight.arrived(number));
        assert_eq!(judged(&mut flight), [0]);
        assert!(flight.arrived(0).is_some());
        assert_eq!(flight.threshold, 7, "five later packets and itself came first: seven make a loss");
    }

    /// A packet that only time took for lost shows nothing of the order.
    #[test]
    fn a_packet_lost_by_time_is_no_reordering() {
        let mut flight = flight(6);
        (1..3).for_each(|number| _ = flight.arrived(number));
        assert_eq!(judged(&mut flight), []);
        flight.judge_time(Instant::ZERO, |number, _| assert_eq!(number, 0));
        assert!(flight.arrived(0).is_some());
        assert_eq!(flight.threshold, 3);
    }

    /// Of the resolved packets the last ones are kept, so many and no more; the oldest under way is found behind them.
    #[test]
    fn late_acknowledgements_find_their_packets() {
        let mut flight = Flight::new(NEVER);
        for fragment in 0..5000 {
            let at = Instant::ZERO.after(Span::from_us(fragment.into()));
            flight.push(Sent { at, message: 0, fragment, class: 1 });
        }
        flight.judge_time(Instant::ZERO.after(Span::from_us(4998)), |_, _| {});
        assert_eq!((flight.settled(), flight.oldest()), (4999, Some(Instant::ZERO.after(Span::from_us(4999)))));
        assert_eq!(flight.arrived(4998 - KEPT_BY_TIME), None);
        assert_eq!(flight.arrived(4999 - KEPT_BY_TIME).map(|sent| sent.fragment), Some(4999 - KEPT_BY_TIME as u32));
    }

    #[test]
    fn numbers_are_expanded_across_the_wrap() {
        let mut flight = flight(0);
        assert_eq!(flight.expand(0), None, "nothing was sent");
        flight.base = (1 << 32) - 1;
        for fragment in 0..2 {
            flight.push(Sent { at: Instant::ZERO, message: 0, fragment, class: 1 });
        }
        assert_eq!(
            (flight.expand(u32::MAX), flight.expand(0), flight.expand(1)),
            (Some(u32::MAX.into()), Some(1 << 32), None),
            "1 was not sent yet"
        );
    }

    proptest! {
        /// Against the rule word by word: a packet under way is lost iff three later ones have arrived.
        #[test]
        fn losses_follow_the_rule(order in proptest::collection::vec(0..40u64, 0..120)) {
            let mut flight = flight(40);
            let (mut arrived, mut lost) = ([false; 40], [false; 40]);
            for number in order {
                let new = flight.arrived(number).is_some();
                prop_assert_eq!(new, !arrived[number as usize]);
                if lost[number as usize] {
                    // From here on the threshold is another.
                    break;
                }
                arrived[number as usize] = true;
                for sent in judged(&mut flight) {
                    lost[sent as usize] = true;
                }
                for packet in 0..40 {
                    let later = arrived[packet + 1..].iter().filter(|&&arrived| arrived).count();
                    prop_assert_eq!(lost[packet], !arrived[packet] && later >= 3, "packet {}", packet);
                }
                let under_way = (0..40).filter(|&packet| !arrived[packet] && !lost[packet]).count();
                prop_assert_eq!(flight.under_way(), under_way as u64);
            }
        }
    }
}
