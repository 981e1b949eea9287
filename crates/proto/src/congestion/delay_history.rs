//! The delays that LEDBAT and LEDBAT++ remember: the path's base delay and the current delay (RFC 6817 section 3.4.2).
//!
//! The base delay is the least of the last intervals' minima. The current delay is the least of the last samples. Their
//! difference is the queueing delay. The clocks' offset is in both and cancels.

use crate::settings;
use crate::settings::Range;
use crate::time::{Instant, OneWayDelay, Span};

/// Most intervals that a history keeps: RFC 6817's BASE_HISTORY.
pub const MAX_BASE_HISTORY: u8 = 10;
/// Most samples that the filter of the current delay uses.
pub const MAX_NOISE_FILTER: u8 = 8;

settings! {
    /// How long delays are remembered.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct DelayHistoryConfig {
        /// Intervals whose least delays make the base delay (BASE_HISTORY).
        pub base_history: u8 = MAX_BASE_HISTORY => [
            range: Range::closed(1, MAX_BASE_HISTORY).of("intervals"), source: "RFC 6817"
        ],
        /// Length of such an interval. A change of route is noticed after `base_history` of them.
        pub base_interval: Span = Span::from_secs(60) => [range: Range::above(Span::ZERO), source: "RFC 6817"],
        /// The delay now is the least of so many samples (CURRENT_FILTER).
        pub noise_filter: u8 = 4 => [
            range: Range::closed(1, MAX_NOISE_FILTER).of("samples"), source: "RFC 6817"
        ],
    }
}

/// The delays of one flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct DelayHistory {
    /// Minima of the last intervals, a ring. Meaningless before the first sample.
    minima: [OneWayDelay; MAX_BASE_HISTORY as usize],
    /// The last samples, a ring.
    recent: [OneWayDelay; MAX_NOISE_FILTER as usize],
    /// Least of `minima`.
    base: OneWayDelay,
    /// End of the current interval; `None` before the first sample.
    interval_end: Option<Instant>,
    interval: Span,
    minima_length: u8,
    minima_at: u8,
    recent_length: u8,
    recent_at: u8,
}

impl DelayHistory {
    pub(super) fn new(config: DelayHistoryConfig) -> Self {
        assert!((1..=MAX_BASE_HISTORY).contains(&config.base_history), "a history keeps 1 to 10 intervals");
        assert!((1..=MAX_NOISE_FILTER).contains(&config.noise_filter), "a filter looks at 1 to 8 samples");
        assert!(config.base_interval > Span::ZERO, "an interval takes time");
        let none = OneWayDelay::from_ns(0);
        Self {
            minima: [none; MAX_BASE_HISTORY as usize],
            recent: [none; MAX_NOISE_FILTER as usize],
            base: none,
            interval_end: None,
            interval: config.base_interval,
            minima_length: config.base_history,
            minima_at: 0,
            recent_length: config.noise_filter,
            recent_at: 0,
        }
    }

    /// Takes a sample.
    #[inline]
    pub(super) fn record(&mut self, now: Instant, delay: OneWayDelay) {
        match self.interval_end {
            Some(end) if now < end => {
                let minimum = &mut self.minima[usize::from(self.minima_at)];
                *minimum = minimum.min(delay);
                self.base = self.base.min(delay);
            }
            Some(_) => self.begin_interval(now, delay),
            None => {
                // The first sample stands in for those that are missing: it is forgotten when they would be.
                self.minima.fill(delay);
                self.recent.fill(delay);
                self.begin_interval(now, delay);
            }
        }
        self.recent_at += 1;
        if self.recent_at >= self.recent_length {
            self.recent_at = 0;
        }
        self.recent[usize::from(self.recent_at)] = delay;
    }

    /// Forgets the oldest minimum, only one even after a long silence (RFC 6817's `update_base_delay`).
    #[cold]
    fn begin_interval(&mut self, now: Instant, delay: OneWayDelay) {
        let interval = self.interval.as_ps();
        let begun = Instant::from_ps(now.as_ps() / interval * interval);
        self.interval_end = Some(begun.after(self.interval));
        self.minima_at = (self.minima_at + 1) % self.minima_length;
        self.minima[usize::from(self.minima_at)] = delay;
        let kept = &self.minima[..usize::from(self.minima_length)];
        self.base = kept.iter().fold(delay, |least, &minimum| least.min(minimum));
    }

    /// The least delay remembered; `None` before the first sample.
    #[inline]
    pub(super) fn base(&self) -> Option<OneWayDelay> {
        self.interval_end.map(|_| self.base)
    }

    /// Nanoseconds by which the current delay exceeds the base delay; zero before the first sample.
    #[inline]
    pub(super) fn queueing_ns(&self) -> i64 {
        let kept = &self.recent[..usize::from(self.recent_length)];
        let current = kept[1..].iter().fold(kept[0], |least, &delay| least.min(delay));
        // The filter can remember a delay that the history has forgotten.
        current.minus(self.base).max(0)
    }
}
