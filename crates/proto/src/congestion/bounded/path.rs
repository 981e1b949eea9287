//! What one flow learns of its path: the delay without queue, whether delays are flat, and the rate of the line.

use crate::time::{Instant, OneWayDelay, Span};

/// The least delay of the last one to two intervals.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct LeastDelay {
    current: OneWayDelay,
    previous: OneWayDelay,
    ends: Instant,
    interval: Span,
}

impl LeastDelay {
    pub(super) fn starting_with(now: Instant, delay: OneWayDelay, interval: Span) -> Self {
        Self { current: delay, previous: delay, ends: now.after(interval), interval }
    }

    pub(super) fn record(&mut self, now: Instant, delay: OneWayDelay) {
        if now >= self.ends {
            self.previous = self.current;
            self.current = delay;
            self.ends = now.after(self.interval);
        }
        self.current = self.current.min(delay);
    }

    pub(super) fn get(&self) -> OneWayDelay {
        self.current.min(self.previous)
    }
}

/// A stretch of time in which delays differed little.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Flat {
    pub(super) since: Instant,
    pub(super) least: OneWayDelay,
    greatest: OneWayDelay,
    pub(super) samples: u32,
}

impl Flat {
    pub(super) fn starting_with(now: Instant, delay: OneWayDelay) -> Self {
        Self { since: now, least: delay, greatest: delay, samples: 1 }
    }

    /// Takes a delay. One that lies further than `spread_ns` from another begins a new stretch.
    pub(super) fn record(&mut self, now: Instant, delay: OneWayDelay, spread_ns: f64) {
        let least = self.least.min(delay);
        let greatest = if delay.minus(self.greatest) > 0 { delay } else { self.greatest };
        if greatest.minus(least) as f64 > spread_ns {
            *self = Self::starting_with(now, delay);
        } else {
            *self = Self { least, greatest, samples: self.samples.saturating_add(1), ..*self };
        }
    }
}

/// The queue that a packet met.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Queue {
    Empty,
    /// Short enough to be the flow's own.
    Short,
    Long,
}

/// The share of the line that others use, as single packets see it.
///
/// A packet that meets a queue came while the line was busy. The flow then has its own share of the line, and others
/// have the rest. So others' share is the mean over time of `1 - own share` while packets wait, and of 0 while they do
/// not (PASTA: paced packets see time averages).
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Others {
    busy: f64,
    /// Fractions of the time in which the queue is almost empty, and in which it is a little longer.
    empty: f64,
    short: f64,
    last: Option<Instant>,
    since: Option<Instant>,
    samples: u32,
    waiting_since: Option<Instant>,
}

impl Others {
    /// Records that a packet met a queue while the flow had `own` of the line. The mean is over about `memory` seconds.
    /// A wait of more than `longest` seconds is a standing queue, which leaves nothing.
    pub(super) fn record(&mut self, now: Instant, queue: Queue, own: f64, memory: f64, longest: f64) {
        let waited = queue == Queue::Long;
        let began = *self.since.get_or_insert(now);
        let last = self.last.replace(now).unwrap_or(now);
        self.samples = self.samples.saturating_add(1);
        if waited {
            let since = *self.waiting_since.get_or_insert(now);
            if now.since(since).as_secs_f64() > longest {
                *self = Self { last: Some(now), waiting_since: Some(since), ..Self::default() };
                return;
            }
        } else {
            self.waiting_since = None;
        }
        // The mean of all while there is less than `memory` of it.
        let span = now.since(last).as_secs_f64();
        let weight = span / now.since(began).as_secs_f64().clamp(span.max(1e-9), memory.max(span));
        let others = if waited { (1.0 - own).max(0.0) } else { 0.0 };
        self.busy += weight * (others - self.busy);
        self.empty += weight * (f64::from(u8::from(queue == Queue::Empty)) - self.empty);
        self.short += weight * (f64::from(u8::from(queue == Queue::Short)) - self.short);
    }

    /// Whether the queue runs empty. If it only varied above a level that it never leaves, as many packets would meet a
    /// little more than the least delay as meet the least delay.
    pub(super) fn leave_it_empty(&self) -> bool {
        self.empty >= 3.0 * self.short
    }

    /// Others' share of the line, once it is known from this many packets over this many seconds.
    pub(super) fn part(&self, now: Instant, samples: u32, seconds: f64) -> Option<f64> {
        let since = self.since?;
        (self.samples >= samples && now.since(since).as_secs_f64() >= seconds).then_some(self.busy)
    }
}

/// How far one pair of packets moves the estimate of the line's rate.
const PAIR_GAIN: f64 = 0.02;
/// A median is of this many pairs.
const PAIRS: usize = 15;
/// Packets less apart than this were read at once. In seconds.
const AT_ONCE: f64 = 1e-6;
/// Hosts read at once what arrives within about this time. In seconds.
const READ_TOGETHER: f64 = 50e-6;
/// If the estimate is more than this many times what pairs in a queue say, it came from a burst that a token bucket let through.
const FAR_ABOVE: f64 = 2.0;

/// Two packets that left together.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
struct Pair {
    /// Bytes of the second over the time by which it arrived later.
    rate: f64,
    /// They arrived so close to each other that hosts may read them at once.
    close: bool,
}

/// The last pairs.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
struct Pairs {
    last: [Pair; PAIRS],
    next: usize,
    known: usize,
}

impl Pairs {
    fn record(&mut self, pair: Pair) {
        self.last[self.next] = pair;
        self.next = (self.next + 1) % PAIRS;
        self.known = (self.known + 1).min(PAIRS);
    }

    /// The pair of median rate; `None` before the first.
    fn median(&self) -> Option<Pair> {
        let mut pairs = self.last;
        let pairs = &mut pairs[..self.known];
        pairs.sort_unstable_by(|one, other| one.rate.total_cmp(&other.rate));
        pairs.get(self.known / 2).copied()
    }

    fn are_close(&self) -> bool {
        self.median().is_some_and(|pair| pair.close)
    }

    /// Hardly any pair is close. Others' packets tear pairs apart, but nothing brings two close to each other in the queue of a slow
    /// line.
    fn are_apart(&self) -> bool {
        4 * self.last[..self.known].iter().filter(|pair| pair.close).count() <= self.known
    }

    /// More than half of what the median is to rest on.
    fn are_enough(&self) -> bool {
        self.known > PAIRS / 2
    }
}

/// Payload that the line carries, in bytes per second.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct LineRate {
    rate: Option<f64>,
    settled: bool,
    /// The first pairs, until the rate is settled.
    first: Pairs,
    /// The last pairs in a queue.
    queued: Pairs,
}

impl LineRate {
    pub(super) fn get(&self) -> Option<f64> {
        self.rate
    }

    /// The rate does not rest on a few pairs, which others' packets may have torn apart, nor on a burst.
    pub(super) fn is_settled(&self) -> bool {
        self.settled
    }

    /// The rate, unless pairs that arrived close to each other are all that tells it: then the line is fast, or a token bucket lets
    /// bursts through.
    pub(super) fn certain(&self) -> Option<f64> {
        self.rate.filter(|_| self.settled || !self.first.are_close())
    }

    /// Takes a pair: two packets left together, and the second, of `bytes`, arrived so many `seconds` after the first. In
    /// a queue this tells the line's rate, whatever bursts the line would let through (a token bucket has no tokens then). Foreign
    /// packets between the two lower it, hence a median.
    ///
    /// A pair that was read at once shows only that the line is fast, or that a token bucket had tokens. If such pairs did not count,
    /// the few that others' packets tear apart would decide on a fast line.
    pub(super) fn on_pair(&mut self, bytes: f64, seconds: f64, in_queue: bool) {
        let apart = if seconds < AT_ONCE { READ_TOGETHER } else { seconds };
        let pair = Pair { rate: bytes / apart, close: seconds < READ_TOGETHER };
        if in_queue {
            self.queued.record(pair);
        }
        let Some(known) = self.rate.filter(|_| self.settled) else {
            self.first.record(pair);
            self.rate = self.first.median().map(|pair| pair.rate);
            self.settled = self.first.known == PAIRS && (!self.first.are_close() || self.queued.are_enough());
            return;
        };
        if !in_queue || !self.queued.are_enough() {
            return;
        }
        let Some(queued) = self.queued.median() else { return };
        self.rate = Some(match pair.rate {
            _ if self.queued.are_apart() && known > FAR_ABOVE * queued.rate => queued.rate,
            rate if rate > known => known * (1.0 + PAIR_GAIN),
            _ if self.queued.are_apart() => known * (1.0 - PAIR_GAIN),
            _ => known,
        });
    }

    /// This much arrived over a whole round, so the line carries at least that.
    pub(super) fn at_least(&mut self, rate: f64) {
        if self.rate.is_none_or(|known| known < rate) {
            (self.rate, self.settled) = (Some(rate), true);
        }
    }

    /// The flow itself had filled the line, and this much arrived.
    pub(super) fn on_full(&mut self, rate: f64) {
        self.rate = Some(self.rate.map_or(rate, |known| known + (rate - known) / 4.0));
        self.settled = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Span = Span::from_ms(1);

    /// Every fourth packet waits, while the flow has two fifths of the line: others have a quarter of three fifths.
    #[test]
    fn others_have_the_rest_of_the_time_in_which_packets_wait() {
        let (mut others, mut now) = (Others::default(), Instant::ZERO);
        for packet in 0..4000 {
            now = now.after(MS);
            others.record(now, if packet % 4 == 0 { Queue::Long } else { Queue::Empty }, 0.4, 0.4, 0.05);
        }
        let part = others.part(now, 16, 0.1).expect("it is known after 4 s");
        assert!((part - 0.25 * 0.6).abs() < 0.005, "{part}");
        assert!(others.leave_it_empty());
    }

    /// It is known after so many packets over so long, not before.
    #[test]
    fn a_few_packets_tell_nothing() {
        let (mut others, mut now) = (Others::default(), Instant::ZERO);
        for _ in 0..16 {
            assert_eq!(others.part(now, 16, 0.01), None);
            now = now.after(MS);
            others.record(now, Queue::Empty, 0.0, 0.4, 0.05);
        }
        assert_eq!(others.part(now, 16, 0.01), Some(0.0));
        assert_eq!(others.part(now, 16, 0.1), None);
    }

    /// Packets that all wait for long meet a queue that stands: nothing is known any more, until they do not.
    #[test]
    fn a_queue_that_stands_leaves_nothing() {
        let (mut others, mut now) = (Others::default(), Instant::ZERO);
        for queue in [Queue::Empty, Queue::Long, Queue::Empty] {
            for _ in 0..100 {
                now = now.after(MS);
                others.record(now, queue, 0.0, 0.4, 0.05);
            }
            assert_eq!(others.part(now, 16, 0.01).is_some(), queue == Queue::Empty);
        }
    }

    /// Delays that vary evenly above a level never left are no queue that runs empty.
    #[test]
    fn a_level_is_no_empty_queue() {
        let (mut others, mut now) = (Others::default(), Instant::ZERO);
        for packet in 0..1000 {
            now = now.after(MS);
            others.record(now, [Queue::Empty, Queue::Short, Queue::Long][packet % 3], 0.0, 0.4, 0.05);
        }
        assert!(!others.leave_it_empty());
    }

    /// Others' packets between the two of a pair make the line look slow. A few such pairs do not matter, even the first.
    #[test]
    fn torn_pairs_do_not_slow_the_line() {
        let mut line = LineRate::default();
        line.on_pair(1e3, 1e-3, true);
        assert_eq!((line.get(), line.is_settled()), (Some(1e6), false));
        for pair in 1..PAIRS {
            line.on_pair(if pair % 3 == 0 { 200.0 } else { 600.0 }, 1e-4, pair % 2 == 0);
        }
        assert_eq!((line.get(), line.is_settled()), (Some(6e6), true));
        line.on_pair(900.0, 1e-4, false);
        assert_eq!(line.get(), Some(6e6));
    }

    /// What arrived over a round is no guess.
    #[test]
    fn a_round_settles_the_rate() {
        let mut line = LineRate::default();
        line.on_pair(1e3, 1e-3, true);
        line.at_least(4e6);
        assert_eq!((line.get(), line.is_settled()), (Some(4e6), true));
        line.on_pair(1e3, 1e-3, false);
        assert_eq!(line.get(), Some(4e6));
    }

    /// A token bucket lets the first 15 pairs through at once. That is not certain, and the first eight pairs in a queue tell the line's
    /// rate. A round with a burst in it makes the line look faster again, until the next pair in a queue.
    #[test]
    fn a_burst_does_not_make_the_line_fast() {
        let mut line = LineRate::default();
        (0..PAIRS).for_each(|_| line.on_pair(1200.0, 0.0, false));
        assert_eq!((line.get(), line.certain(), line.is_settled()), (Some(1200.0 / READ_TOGETHER), None, false));
        (0..8).for_each(|_| line.on_pair(1200.0, 480e-6, true));
        assert_eq!((line.certain(), line.is_settled()), (Some(2.5e6), true));
        line.at_least(6e6);
        line.on_pair(1200.0, 480e-6, true);
        assert_eq!(line.get(), Some(2.5e6));
    }

    /// On a fast line nine of ten pairs come at once, and every tenth is torn apart by a burst of others. The torn ones decide
    /// neither what is thought of the line at first, nor later.
    #[test]
    fn a_fast_line_is_not_taken_for_a_slow_one() {
        let pair = |number: usize| if number.is_multiple_of(10) { 500e-6 } else { 0.0 };
        let mut line = LineRate::default();
        (0..PAIRS).for_each(|number| line.on_pair(1200.0, pair(number), true));
        let told = 1200.0 / READ_TOGETHER;
        assert_eq!((line.get(), line.is_settled()), (Some(told), true));
        line.at_least(125e6);
        (0..1000).for_each(|number| line.on_pair(1200.0, pair(number), true));
        assert_eq!(line.get(), Some(125e6));
    }

    /// Bursts of others tear three of five pairs apart, far enough for a line of 20 Mbit/s. A slow line brings no pair close together.
    #[test]
    fn bursts_of_others_do_not_make_a_line_slow() {
        let mut line = LineRate::default();
        line.at_least(23e6);
        (0..1000).for_each(|number| line.on_pair(1200.0, if number % 5 < 3 { 500e-6 } else { 0.0 }, true));
        assert!(line.get() >= Some(23e6), "{:?}", line.get());
    }
}
