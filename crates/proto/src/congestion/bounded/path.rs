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

/// How far one pair of packets moves the estimate of the line's rate.
const PAIR_GAIN: f64 = 0.02;

/// Payload that the line carries, in bytes per second.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct LineRate(Option<f64>);

impl LineRate {
    pub(super) fn get(self) -> Option<f64> {
        self.0
    }

    /// Two packets that left together arrived so that the line carried `rate` between them. Behind a queue that is the
    /// line's rate, whatever bursts it would let through (a token bucket has no tokens then); foreign packets between the
    /// two make it less, hence a median.
    pub(super) fn on_pair(&mut self, rate: f64, behind_queue: bool) {
        match &mut self.0 {
            None => self.0 = Some(rate),
            Some(known) if behind_queue => *known *= if rate > *known { 1.0 + PAIR_GAIN } else { 1.0 - PAIR_GAIN },
            Some(_) => {}
        }
    }

    /// So much arrived over a whole round: the line carries no less.
    pub(super) fn at_least(&mut self, rate: f64) {
        if self.0.is_none_or(|known| known < rate) {
            self.0 = Some(rate);
        }
    }

    /// The flow itself had filled the line, and so much arrived then.
    pub(super) fn on_full(&mut self, rate: f64) {
        self.0 = Some(self.0.map_or(rate, |known| known + (rate - known) / 4.0));
    }
}
