//! LEDBAT (RFC 6817): holds the queueing delay that it causes at a target, and so yields to flows that fill queues.
//!
//! Each acknowledgement moves the window by `GAIN * (TARGET - queueing delay) / TARGET` segments per window. Delays are
//! one-way, so a queue on the return path does not matter. Losses halve the window.
//!
//! | knob | default | source |
//! |---|---|---|
//! | target | 100 ms | RFC 6817 section 3.2: at most that |
//! | gain | 1 | RFC 6817 section 3.2: at most that |
//! | base history, interval, noise filter | 10, 1 minute, 4 | RFC 6817 section 2.4.2 |
//! | initial window | 2 segments | RFC 6817 INIT_CWND |
//! | minimum window | 2 segments | RFC 6817 MIN_CWND |
//! | slow start | no | RFC 6817 has none; ns-3 has it on |
//!
//! If queues cannot reach the target, it behaves as Reno. Datacenters need a target near their round-trip times. A flow
//! that starts while another holds a queue takes that queue for the base delay and drives the other out (the latecomer
//! advantage, RFC 6817 section 4.4).
//!
//! Deviations: slow start, if on, also ends when the queueing delay reaches the target. ALLOWED_INCREASE limits the
//! window to the flight and one segment only while something other than the window limits the sender. Otherwise the
//! flight equalled the window when the sender last could send, and is less now only because acknowledgements came in a
//! batch.

use super::delay_history::{DelayHistory, DelayHistoryConfig};
use super::{AckSample, Cause, Congestion, CongestionControl, EcnMode};
use crate::settings;
use crate::settings::Range;
use crate::time::Span;

/// Longest target, in nanoseconds: far below what wrapping delays can tell apart.
pub const MAX_TARGET: Span = Span::from_secs(1);

settings! {
    /// Settings of [`Ledbat`].
    #[derive(Clone, Copy, PartialEq, Debug)]
    pub struct LedbatConfig {
        /// Initial window in segments.
        pub initial_window: u16 = 2 => [range: Range::from(1).of("segment"), source: "RFC 6817"],
        /// Queueing delay that is aimed at. Above what queues hold, losses decide as for `reno`, so datacenters need one
        /// near the round-trip time.
        pub target: Span = Span::from_ms(100) => [
            range: Range::closed(Span::from_ns(1), MAX_TARGET), source: "RFC 6817: up to 100 ms"
        ],
        /// Growth without queueing delay in segments per round trip.
        pub gain: f64 = 1.0 => [range: Range::above_to(0.0, 1.0), source: "RFC 6817"],
        /// Delay and losses cut the window no deeper than to so many segments.
        pub min_window: u16 = 2 => [range: Range::from(1).of("segment"), source: "RFC 6817"],
        /// Whether the window doubles each round trip until the target or a loss.
        pub slow_start: bool = false => [source: "RFC 6817; ns-3: true"],
    }
    nested {
        /// Memory of delays.
        pub history: DelayHistoryConfig
    }
}

/// The controller of LEDBAT.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Ledbat {
    history: DelayHistory,
    window: DelayWindow,
    /// Without slow start, never above the window.
    ssthresh: u64,
    gain: f64,
    slow_start: bool,
}

impl Ledbat {
    /// A controller before its first packet; `mss` is the payload of a full segment in bytes.
    pub fn new(config: LedbatConfig, mss: u16) -> Self {
        assert!(config.gain > 0.0 && config.gain <= 1.0, "gain lies in (0, 1]");
        let window = DelayWindow::new(config.target, config.initial_window, config.min_window, mss);
        Self {
            history: DelayHistory::new(config.history),
            window,
            ssthresh: if config.slow_start { u64::MAX } else { u64::from(mss) },
            gain: config.gain,
            slow_start: config.slow_start,
        }
    }

    /// Queueing delay now, as measured.
    pub fn queueing_delay(&self) -> Span {
        Span::from_ns(self.history.queueing_ns().cast_unsigned())
    }

    /// RFC 6817's update, for `acked` bytes.
    fn follow_delay(&mut self, sample: &AckSample, off_target: f64) {
        let change = self.gain * off_target * self.window.share(sample.acked);
        self.window.apply(sample, change);
    }
}

impl CongestionControl for Ledbat {
    fn on_ack(&mut self, sample: &AckSample) {
        if let Some(delay) = sample.delay {
            self.history.record(sample.now, delay);
        }
        if sample.acked == 0 {
            return;
        }
        let off_target = 1.0 - self.window.in_targets(&self.history);
        if self.window.bytes() >= self.ssthresh {
            self.follow_delay(sample, off_target);
        } else if off_target > 0.0 {
            self.window.apply(sample, sample.acked.min(self.window.mss()) as f64);
        } else {
            self.ssthresh = self.window.bytes();
            self.follow_delay(sample, off_target);
        }
    }

    fn on_congestion(&mut self, event: &Congestion) {
        match event.cause {
            Cause::Loss | Cause::Ecn => {
                self.window.halve();
                self.ssthresh = self.ssthresh.min(self.window.bytes());
            }
            Cause::Timeout => {
                if self.slow_start && event.first {
                    self.ssthresh = (event.flight / 2).max(self.window.floor());
                }
                self.window.collapse();
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
        self.ssthresh
    }

    /// Off. Under [`EcnMode::Classic`] a mark halves the window as a loss does.
    fn ecn_mode(&self) -> EcnMode {
        EcnMode::Off
    }

    fn needs_one_way_delay(&self) -> bool {
        true
    }
}

/// The window of a controller that follows a target delay.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct DelayWindow {
    /// In bytes, with its fraction.
    cwnd: f64,
    target_ns: u32,
    mss: u16,
    initial: u16,
    minimum: u16,
}

impl DelayWindow {
    pub(super) fn new(target: Span, initial: u16, minimum: u16, mss: u16) -> Self {
        assert!(mss > 0, "a segment holds at least one byte");
        assert!(initial > 0 && minimum > 0, "a window holds at least one segment");
        assert!((Span::from_ns(1)..=MAX_TARGET).contains(&target), "a target lies between 1 ns and 1 s");
        let target_ns = (target.as_ps() / 1_000) as u32;
        Self { cwnd: f64::from(initial) * f64::from(mss), target_ns, mss, initial, minimum }
    }

    #[inline]
    pub(super) fn bytes(&self) -> u64 {
        self.cwnd as u64
    }

    #[inline]
    pub(super) fn mss(&self) -> u64 {
        u64::from(self.mss)
    }

    pub(super) fn target_ns(&self) -> u64 {
        u64::from(self.target_ns)
    }

    /// The minimum window in bytes.
    pub(super) fn floor(&self) -> u64 {
        u64::from(self.minimum) * self.mss()
    }

    /// The queueing delay in units of the target.
    #[inline]
    pub(super) fn in_targets(&self, history: &DelayHistory) -> f64 {
        history.queueing_ns() as f64 / f64::from(self.target_ns)
    }

    /// Bytes that this acknowledgement adds if a full window of acknowledgements adds a segment.
    #[inline]
    pub(super) fn share(&self, acked: u64) -> f64 {
        acked as f64 * f64::from(self.mss) / self.cwnd
    }

    /// Moves the window by `change` bytes: up only if the sender needs it, and down to the minimum at most.
    #[inline]
    pub(super) fn apply(&mut self, sample: &AckSample, change: f64) {
        let floor = self.floor() as f64;
        let may_grow = sample.window_limited && !sample.in_recovery;
        if change > 0.0 && !may_grow {
            let allowed = (sample.flight.saturating_add(self.mss()) as f64).max(floor);
            if !sample.window_limited {
                self.cwnd = self.cwnd.min(allowed);
            }
            return;
        }
        // A timeout leaves less than the minimum, which growth restores (RFC 6817) but a cut does not.
        let floor = if change > 0.0 { floor } else { floor.min(self.cwnd) };
        self.cwnd = (self.cwnd + change).max(floor);
    }

    /// A loss: half, at least the minimum, never more than before.
    pub(super) fn halve(&mut self) {
        self.cwnd = self.cwnd.min((self.cwnd / 2.0).max(self.floor() as f64));
    }

    /// Down to the minimum window.
    pub(super) fn shrink_to_floor(&mut self) {
        self.cwnd = self.cwnd.min(self.floor() as f64);
    }

    /// A timeout: one segment.
    pub(super) fn collapse(&mut self) {
        self.cwnd = f64::from(self.mss);
    }

    /// Idle for long: the initial window, or less.
    pub(super) fn restart(&mut self) {
        self.cwnd = self.cwnd.min(f64::from(self.initial) * f64::from(self.mss));
    }
}
