//! LEDBAT++ (draft-irtf-iccrg-ledbat-plus-plus): LEDBAT without its latecomer advantage.
//!
//! It measures round trips, grows more slowly than Reno, gives way in proportion to its window, and slows down from
//! time to time so that every flow sees the path without a queue.
//!
//! | knob | default | source (the draft) |
//! |---|---|---|
//! | target | 60 ms | section 4.2 |
//! | base history, interval, noise filter | 10, 1 minute, 4 | section 4.1, RFC 6817 |
//! | initial and minimum window | 2 segments | RFC 6817 |
//! | slowdowns | yes, 9 times their length apart | section 4.4 |
//!
//! GAIN is `1 / min(16, ceil(2 * target / base delay))`. Below the target the window grows by GAIN segments per round
//! trip. Above, it changes by `max(GAIN - W * (queueing delay / target - 1), -W / 2)` segments, spread over
//! acknowledgements. Slow start adds GAIN segments per acknowledged segment. The first slow start ends at three
//! quarters of the target, later ones at ssthresh. Two round trips after the first, a slowdown begins: ssthresh is set
//! to the window, the window to its minimum for two round trips, and slow start leads back.
//!
//! As in [LEDBAT](super::ledbat), a target far above the path's round-trip times makes it slow (GAIN stays at 1/16) and
//! unable to see queues.

use super::delay_history::{DelayHistory, DelayHistoryConfig};
use super::ledbat::{DelayWindow, MAX_TARGET};
use super::{AckSample, Cause, Congestion, CongestionControl, EcnMode};
use crate::settings;
use crate::settings::Range;
use crate::time::{Instant, OneWayDelay, Span};

/// The least GAIN is one over this.
const MAX_GAIN_DIVISOR: u64 = 16;
/// Round trips from the end of the first slow start to the first slowdown, and round trips for which a slowdown holds
/// the window.
const SLOWDOWN_RTTS: u64 = 2;
/// Share of the target at which the first slow start ends.
const SLOW_START_LIMIT: f64 = 0.75;

settings! {
    /// Settings of [`LedbatPlusPlus`].
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct LedbatPlusPlusConfig {
        /// Initial window in segments.
        pub initial_window: u16 = 2 => [range: Range::from(1).of("segment"), source: "RFC 6817"],
        /// Queueing delay that is aimed at. Above what queues hold, losses decide as for `reno`, so datacenters need one
        /// near the round-trip time.
        pub target: Span = Span::from_ms(60) => [
            range: Range::closed(Span::from_ns(1), MAX_TARGET), source: "draft-irtf-iccrg-ledbat-plus-plus"
        ],
        /// Delay, losses and slowdowns cut the window no deeper than to so many segments.
        pub min_window: u16 = 2 => [
            range: Range::from(1).of("segment"), source: "draft-irtf-iccrg-ledbat-plus-plus"
        ],
        /// Whether it slows down now and then, so that every flow sees the path without queue.
        pub slowdowns: bool = true => [source: "draft-irtf-iccrg-ledbat-plus-plus"],
        /// Time from one slowdown to the next in units of its length.
        pub slowdown_ratio: u16 = 9 => [range: Range::from(1), source: "draft-irtf-iccrg-ledbat-plus-plus"],
    }
    nested {
        /// Memory of round-trip times.
        pub history: DelayHistoryConfig
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// Slow start that ends at three quarters of the target.
    FirstSlowStart,
    /// Slow start that ends at ssthresh.
    SlowStart,
    /// Follows the delay.
    Avoidance,
    /// The window is held at its minimum.
    Hold,
}

/// The controller of LEDBAT++.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LedbatPlusPlus {
    history: DelayHistory,
    window: DelayWindow,
    ssthresh: u64,
    phase: Phase,
    /// When the current slowdown began.
    slowdown_began: Option<Instant>,
    /// End of the hold, otherwise the begin of the next slowdown.
    deadline: Option<Instant>,
    slowdown_ratio: u16,
    slowdowns: bool,
}

impl LedbatPlusPlus {
    /// A controller before its first packet; `mss` is the payload of a full segment in bytes.
    pub fn new(config: LedbatPlusPlusConfig, mss: u16) -> Self {
        assert!(config.slowdown_ratio > 0, "slowdowns are apart");
        Self {
            history: DelayHistory::new(config.history),
            window: DelayWindow::new(config.target, config.initial_window, config.min_window, mss),
            ssthresh: u64::MAX,
            phase: Phase::FirstSlowStart,
            slowdown_began: None,
            deadline: None,
            slowdown_ratio: config.slowdown_ratio,
            slowdowns: config.slowdowns,
        }
    }

    /// Growth below the target in segments per round trip (GAIN), in [1/16, 1].
    pub fn gain(&self) -> f64 {
        let base_ns = self.history.base().map_or(0, |base| base.minus(OneWayDelay::from_ns(0)));
        let divisor = (2 * self.window.target_ns()).div_ceil(base_ns.max(1).cast_unsigned());
        1.0 / divisor.min(MAX_GAIN_DIVISOR) as f64
    }

    /// Queueing delay now, as measured.
    pub fn queueing_delay(&self) -> Span {
        Span::from_ns(self.history.queueing_ns().cast_unsigned())
    }

    /// Whether the window is held down to let queues drain.
    pub fn is_slowing_down(&self) -> bool {
        self.slowdown_began.is_some()
    }

    /// Ends slow start, and the slowdown of which it was part.
    fn enter_avoidance(&mut self, now: Instant, smoothed_rtt: Span) {
        self.phase = Phase::Avoidance;
        self.ssthresh = self.window.bytes();
        let first = now.after(smoothed_rtt.times(SLOWDOWN_RTTS));
        match self.slowdown_began.take() {
            Some(began) => {
                let length = now.since(began);
                self.deadline = Some(now.after(length.times(u64::from(self.slowdown_ratio))));
            }
            None => _ = self.deadline.get_or_insert(first),
        }
    }

    fn slow_down(&mut self, sample: &AckSample) {
        self.ssthresh = self.window.bytes();
        self.window.shrink_to_floor();
        self.slowdown_began = Some(sample.now);
        self.phase = Phase::Hold;
        self.deadline = Some(sample.now.after(sample.smoothed_rtt.times(SLOWDOWN_RTTS)));
    }

    fn follow_delay(&mut self, sample: &AckSample) {
        let growth = self.gain() * self.window.share(sample.acked);
        let excess = self.window.in_targets(&self.history) - 1.0;
        let acked = sample.acked as f64;
        let change = if excess < 0.0 { growth } else { (growth - acked * excess).max(-acked / 2.0) };
        self.window.apply(sample, change);
    }

    fn grow_in_slow_start(&mut self, sample: &AckSample) {
        let growth = self.gain() * sample.acked as f64;
        // Up to ssthresh, not beyond.
        let room = self.ssthresh.saturating_sub(self.window.bytes()) as f64;
        self.window.apply(sample, growth.min(room));
    }
}

impl CongestionControl for LedbatPlusPlus {
    fn on_ack(&mut self, sample: &AckSample) {
        if let Some(rtt) = sample.rtt {
            // Beyond 1 s it is congestion enough, and wrapping delays stay comparable.
            let rtt = rtt.min(Span::from_secs(1));
            self.history.record(sample.now, OneWayDelay::between(Instant::ZERO, Instant::ZERO.after(rtt)));
        }
        if sample.acked == 0 {
            return;
        }
        let due = self.deadline.is_some_and(|at| sample.now >= at);
        match self.phase {
            Phase::Hold if due => self.phase = Phase::SlowStart,
            Phase::Hold => {}
            Phase::FirstSlowStart if self.window.in_targets(&self.history) > SLOW_START_LIMIT => {
                self.enter_avoidance(sample.now, sample.smoothed_rtt);
            }
            Phase::FirstSlowStart => self.grow_in_slow_start(sample),
            Phase::SlowStart => {
                self.grow_in_slow_start(sample);
                if self.window.bytes() >= self.ssthresh {
                    self.enter_avoidance(sample.now, sample.smoothed_rtt);
                }
            }
            Phase::Avoidance if due && self.slowdowns => self.slow_down(sample),
            Phase::Avoidance => self.follow_delay(sample),
        }
    }

    fn on_congestion(&mut self, event: &Congestion) {
        let floor = self.window.floor();
        match event.cause {
            // What the slowdown will return to is too much.
            Cause::Loss | Cause::Ecn if self.phase == Phase::Hold => {
                self.ssthresh = (self.ssthresh / 2).max(floor).min(self.ssthresh);
            }
            Cause::Loss | Cause::Ecn => {
                self.window.halve();
                self.ssthresh = self.window.bytes();
                if self.phase == Phase::FirstSlowStart {
                    self.phase = Phase::SlowStart;
                }
            }
            Cause::Timeout => {
                if event.first {
                    self.ssthresh = (event.flight / 2).max(floor);
                }
                self.window.collapse();
                self.phase = Phase::SlowStart;
            }
        }
    }

    fn on_idle(&mut self) {
        self.window.restart();
    }

    #[inline]
    fn window(&self) -> u64 {
        self.window.bytes()
    }

    fn ssthresh(&self) -> u64 {
        if self.phase == Phase::Avoidance { self.ssthresh.min(self.window.bytes()) } else { self.ssthresh }
    }

    /// Off. Under [`EcnMode::Classic`] a mark halves the window as a loss does.
    fn ecn_mode(&self) -> EcnMode {
        EcnMode::Off
    }
}
