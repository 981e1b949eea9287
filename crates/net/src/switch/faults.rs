//! What a bad network does to frames: loss, duplication, corruption, reordering, blackouts.
//!
//! Applied to what leaves the switch, after all queues, so that a plan's counts stay those of a good network.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use pliant_proto::rng::Stream;
use pliant_proto::time::{Instant, Span};

/// How bad the network is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FaultConfig {
    /// Probability that a frame is lost, in [0, 1].
    pub loss: f64,
    /// Probability that a frame is sent twice, in [0, 1].
    pub duplicate: f64,
    /// Probability that one bit of a frame's payload is flipped, in [0, 1].
    pub corrupt: f64,
    /// Probability that a frame is held back, so that later ones overtake it, in [0, 1].
    pub reorder: f64,
    /// How long it is held back.
    pub reorder_delay: Span,
    /// Times from the start of the switch and lengths in which every frame is lost.
    pub blackouts: Vec<(Span, Span)>,
}

impl FaultConfig {
    /// Whether anything is bad at all.
    pub fn is_any(&self) -> bool {
        [self.loss, self.duplicate, self.corrupt, self.reorder].iter().any(|p| *p > 0.0) || !self.blackouts.is_empty()
    }

    /// Checks probabilities; the error names the key.
    pub fn check(&self) -> Result<(), &'static str> {
        let probabilities =
            [("loss", self.loss), ("duplicate", self.duplicate), ("corrupt", self.corrupt), ("reorder", self.reorder)];
        match probabilities.into_iter().find(|(_, p)| !(0.0..=1.0).contains(p)) {
            Some((key, _)) => Err(key),
            None => Ok(()),
        }
    }
}

/// What was done to frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultCounters {
    /// Lost at random.
    pub lost: u64,
    /// Lost in a blackout.
    pub blacked_out: u64,
    /// Sent twice.
    pub duplicated: u64,
    /// Changed by a bit.
    pub corrupted: u64,
    /// Held back.
    pub reordered: u64,
}

/// What happens to one frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fate {
    /// It is not sent.
    pub lost: bool,
    /// It is sent twice.
    pub duplicated: bool,
    /// A random number that picks the bit to flip.
    pub corrupted: Option<u64>,
    /// It is sent so much later.
    pub held: Option<Span>,
}

impl Fate {
    /// Nothing happens.
    pub const NONE: Self = Self { lost: false, duplicated: false, corrupted: None, held: None };
}

/// Draws fates, and keeps what is held back.
pub struct Faults<T> {
    config: FaultConfig,
    any: bool,
    stream: Stream,
    counters: FaultCounters,
    held: BinaryHeap<Reverse<Held<T>>>,
    held_so_far: u64,
}

struct Held<T> {
    until: Instant,
    order: u64,
    what: T,
}

impl<T> PartialEq for Held<T> {
    fn eq(&self, other: &Self) -> bool {
        (self.until, self.order) == (other.until, other.order)
    }
}

impl<T> Eq for Held<T> {}

impl<T> PartialOrd for Held<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Held<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.until, self.order).cmp(&(other.until, other.order))
    }
}

impl<T> Faults<T> {
    /// Faults after `config`, which must have passed [`FaultConfig::check`].
    pub fn new(config: FaultConfig, seed: u64) -> Self {
        Self {
            any: config.is_any(),
            config,
            stream: Stream::named(seed, "faults"),
            counters: FaultCounters::default(),
            held: BinaryHeap::new(),
            held_so_far: 0,
        }
    }

    /// What happens to a frame that leaves at `now`.
    #[inline]
    pub fn judge(&mut self, now: Instant) -> Fate {
        if self.any { self.draw(now) } else { Fate::NONE }
    }

    #[cold]
    fn draw(&mut self, now: Instant) -> Fate {
        let since_start = now.since(Instant::ZERO);
        let dark = |&(from, length): &(Span, Span)| since_start >= from && since_start < from.plus(length);
        if self.config.blackouts.iter().any(dark) {
            self.counters.blacked_out += 1;
            return Fate { lost: true, ..Fate::NONE };
        }
        // One draw for each kind and frame, so that changing one leaves the others as they were.
        let [loss, duplicate, corrupt, reorder] = std::array::from_fn(|_| self.stream.unit());
        let bit = self.stream.next_u64();
        let fate = Fate {
            lost: loss < self.config.loss,
            duplicated: duplicate < self.config.duplicate,
            corrupted: (corrupt < self.config.corrupt).then_some(bit),
            held: (reorder < self.config.reorder).then_some(self.config.reorder_delay),
        };
        if fate.lost {
            self.counters.lost += 1;
            return Fate { lost: true, ..Fate::NONE };
        }
        self.counters.duplicated += u64::from(fate.duplicated);
        self.counters.corrupted += u64::from(fate.corrupted.is_some());
        self.counters.reordered += u64::from(fate.held.is_some());
        fate
    }

    /// Keeps something back.
    pub fn hold(&mut self, until: Instant, what: T) {
        self.held_so_far += 1;
        self.held.push(Reverse(Held { until, order: self.held_so_far, what }));
    }

    /// Something whose time has come.
    pub fn release(&mut self, now: Instant) -> Option<T> {
        if self.held.peek().is_some_and(|Reverse(first)| first.until <= now) {
            self.held.pop().map(|Reverse(held)| held.what)
        } else {
            None
        }
    }

    /// When the first of what is held back is due.
    pub fn next_release(&self) -> Option<Instant> {
        self.held.peek().map(|Reverse(first)| first.until)
    }

    /// How many are held back.
    pub fn held(&self) -> usize {
        self.held.len()
    }

    /// What was done so far.
    pub fn counters(&self) -> FaultCounters {
        self.counters
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Frequencies of 100,000 frames lie within four standard deviations of their probabilities.
    #[test]
    fn fates_come_as_often_as_asked() {
        let config = FaultConfig { loss: 0.05, duplicate: 0.1, corrupt: 0.02, reorder: 0.3, ..FaultConfig::default() };
        let mut faults = Faults::<()>::new(config, 7);
        let frames = 100_000;
        for _ in 0..frames {
            faults.judge(Instant::ZERO);
        }
        let FaultCounters { lost, duplicated, corrupted, reordered, .. } = faults.counters();
        let survive = 0.95;
        for (count, p) in
            [(lost, 0.05), (duplicated, 0.1 * survive), (corrupted, 0.02 * survive), (reordered, 0.3 * survive)]
        {
            let (mean, deviation) = (p * f64::from(frames), (p * (1.0 - p) * f64::from(frames)).sqrt());
            assert!((count as f64 - mean).abs() < 4.0 * deviation, "{count} of {mean}");
        }
    }

    #[test]
    fn a_blackout_loses_all_and_ends() {
        let config = FaultConfig { blackouts: vec![(Span::from_ms(5), Span::from_ms(2))], ..FaultConfig::default() };
        let mut faults = Faults::<()>::new(config, 1);
        let lost = |faults: &mut Faults<()>, us| faults.judge(Instant::ZERO.after(Span::from_us(us))).lost;
        assert!(
            !lost(&mut faults, 4999) && lost(&mut faults, 5000) && lost(&mut faults, 6999) && !lost(&mut faults, 7000)
        );
    }

    #[test]
    fn what_is_held_comes_in_the_order_of_its_time() {
        let mut faults = Faults::new(FaultConfig::default(), 1);
        let at = |us| Instant::ZERO.after(Span::from_us(us));
        for (until, what) in [(30, 'c'), (10, 'a'), (10, 'b')] {
            faults.hold(at(until), what);
        }
        assert_eq!(faults.next_release(), Some(at(10)));
        assert_eq!(faults.release(at(9)), None);
        let order: String = std::iter::from_fn(|| faults.release(at(30))).collect();
        assert_eq!(order, "abc");
    }
}
