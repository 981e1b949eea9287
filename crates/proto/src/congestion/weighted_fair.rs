//! Weighted fair congestion control: reacts to marks as DCTCP does, with a sensitivity that divides a link by weights.
//!
//! From Luo et al., "Efficient Multisource Data Delivery in Edge Cloud With Rateless Parallel Push" (WFCC). Each
//! acknowledged segment moves the window by `1/W`, a marked one by `1/W − alpha/(2·theta)`. The marks that flows share
//! then balance at windows in proportion to theta. A change of weight causes no burst. Losses do not shrink the window:
//! the transport replaces lost packets, and a path that marks signals congestion by marks.
//!
//! | knob | default | source |
//! |---|---|---|
//! | theta | 1 | the paper; it assigns 0.5 to (C·RTT + K)/2 |
//! | gain g | 1/16 | the paper |
//! | initial window | 10 segments | RFC 6928 |
//! | initial alpha | 1 | RFC 8257 section 4.2 |
//! | loss-blind | no | see below |
//! | tolerated loss | 2 % | see below |
//!
//! Deviations from the paper:
//!
//! - The paper starts with a window of 1 and alpha of 0, and leaves larger starts to future work. Here slow start runs
//!   until the first
//!   mark or loss, and alpha starts at 1 to stop its overshoot.
//! - The paper never reacts to loss, which floods a bottleneck that does not mark. Here, on a path that has never
//!   marked, a window that
//!   lost more than the tolerated fraction counts as fully marked, and alpha follows the lost fraction. `loss_blind` is
//!   the paper's behaviour.
//! - Acknowledged bytes count instead of acknowledgements, so an acknowledgement of many bytes has their weight.

use super::{AckSample, Cause, Congestion, CongestionControl, EcnMode};
use crate::settings;
use crate::settings::Range;

/// Range of theta. Values outside are set to the nearer end.
const WEIGHTS: core::ops::RangeInclusive<f64> = 1e-3..=1e9;

settings! {
    /// Settings of [`WeightedFair`].
    #[derive(Clone, Copy, PartialEq, Debug)]
    pub struct WeightedFairConfig {
        /// Initial window in segments.
        pub initial_window: u16 = 10 => [range: Range::from(1).of("segment"), source: "RFC 6928"],
        /// Weight of the newest window in alpha (g).
        pub gain: f64 = 1.0 / 16.0 => [range: Range::above_to(0.0, 1.0), source: "RFC 8257"],
        /// Alpha before the first window.
        pub initial_alpha: f64 = 1.0 => [range: Range::closed(0.0, 1.0), source: "RFC 8257"],
        /// Whether losses are ignored on paths that never marked.
        pub loss_blind: bool = false => [source: "PPUSH: true"],
    }
    fixed {
        /// Weight against other flows (theta), in [10⁻³, 10⁹]. Default 1.
        pub weight: f64 = 1.0,
        /// Fraction of a window that may be lost without reaction, in [0, 1]. Default 0.02.
        pub tolerated_loss: f64 = 0.02
    }
}

/// The controller of weighted fair congestion control.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct WeightedFair {
    /// W, in segments.
    cwnd: f64,
    alpha: f64,
    weight: f64,
    /// The cost of a marked segment, `alpha / (2 * theta)`. It is stored because it changes only once per window.
    cut: f64,
    gain: f64,
    tolerated_loss: f64,
    /// The observation window ends when this byte is acknowledged.
    window_end: u64,
    acked: u64,
    marked: u64,
    lost: u64,
    mss: u16,
    initial_window: u16,
    slow_start: bool,
    /// Whether losses count: not if loss-blind, and not after the path has marked.
    guards_against_loss: bool,
}

impl WeightedFair {
    /// A controller before its first packet; `mss` is the payload of a full segment in bytes.
    pub fn new(config: WeightedFairConfig, mss: u16) -> Self {
        assert!(mss > 0, "a segment holds at least one byte");
        assert!(config.initial_window > 0, "a window holds at least one segment");
        assert!(config.gain > 0.0 && config.gain <= 1.0, "gain lies in (0, 1]");
        assert!((0.0..=1.0).contains(&config.initial_alpha), "alpha lies in [0, 1]");
        let mut controller = Self {
            cwnd: f64::from(config.initial_window),
            alpha: config.initial_alpha,
            weight: 1.0,
            cut: 0.0,
            gain: config.gain,
            tolerated_loss: config.tolerated_loss,
            window_end: 0,
            acked: 0,
            marked: 0,
            lost: 0,
            mss,
            initial_window: config.initial_window,
            slow_start: true,
            guards_against_loss: !config.loss_blind,
        };
        controller.set_weight(config.weight);
        controller
    }

    /// Estimated fraction of marked bytes, in [0, 1].
    pub fn alpha(&self) -> f64 {
        self.alpha
    }

    /// The window in segments (W), without the rounding of [`window`](CongestionControl::window).
    pub fn cwnd(&self) -> f64 {
        self.cwnd
    }

    /// The flow's weight (theta).
    pub fn weight(&self) -> f64 {
        self.weight
    }

    fn segments(&self, bytes: u64) -> f64 {
        bytes as f64 / f64::from(self.mss)
    }

    fn set_alpha(&mut self, alpha: f64) {
        self.alpha = alpha;
        self.cut = alpha / (2.0 * self.weight);
    }

    /// Ends an observation window: once per round trip.
    fn end_window(&mut self, next: u64) {
        let sent = self.acked.saturating_add(self.lost) as f64;
        let lost = self.lost as f64 / sent;
        if self.guards_against_loss && lost > self.tolerated_loss {
            self.set_alpha(self.alpha + self.gain * (lost - self.alpha));
            self.shrink(self.cwnd * self.cut);
        } else if self.acked > 0 {
            let marked = self.marked as f64 / self.acked as f64;
            self.set_alpha(self.alpha + self.gain * (marked - self.alpha));
        }
        self.window_end = next;
        (self.acked, self.marked, self.lost) = (0, 0, 0);
    }

    fn shrink(&mut self, segments: f64) {
        self.cwnd = (self.cwnd - segments).max(1.0);
    }

    fn on_mark(&mut self, acked: f64) {
        self.slow_start = false;
        self.guards_against_loss = false;
        self.shrink(acked * self.cut);
    }
}

impl CongestionControl for WeightedFair {
    fn on_ack(&mut self, sample: &AckSample) {
        let acked = self.segments(sample.acked);
        self.acked = self.acked.saturating_add(sample.acked);
        // Recovery is no reason not to grow: losses do not count.
        if sample.window_limited {
            self.cwnd += if self.slow_start && !sample.ece { acked } else { acked / self.cwnd };
        }
        if sample.ece {
            self.marked = self.marked.saturating_add(sample.acked);
            self.on_mark(acked);
        }
        if sample.unacked > self.window_end {
            self.end_window(sample.next);
        }
    }

    /// Marks were already handled in [`on_ack`](CongestionControl::on_ack).
    fn on_congestion(&mut self, event: &Congestion) {
        match event.cause {
            Cause::Ecn => {}
            Cause::Loss => {
                self.slow_start = false;
                // At least this one, should the transport not count its losses.
                self.lost = self.lost.max(u64::from(self.mss));
            }
            Cause::Timeout => {
                self.slow_start = false;
                self.cwnd = 1.0;
            }
        }
    }

    fn on_lost(&mut self, bytes: u64) {
        self.lost = self.lost.saturating_add(bytes);
    }

    fn on_idle(&mut self) {
        self.cwnd = self.cwnd.min(f64::from(self.initial_window));
    }

    /// Whole segments, rounded to the nearest. Rounding down would take half a segment from small windows, and so from
    /// small weights.
    fn window(&self) -> u64 {
        ((self.cwnd + 0.5) as u64).saturating_mul(u64::from(self.mss))
    }

    /// Slow start ends at the first mark or loss, whatever the window is then.
    fn ssthresh(&self) -> u64 {
        if self.slow_start { u64::MAX } else { self.window() }
    }

    fn ecn_mode(&self) -> EcnMode {
        EcnMode::Accurate
    }

    fn marked_fraction(&self) -> Option<f64> {
        Some(self.alpha)
    }

    /// Weights also come from the network, so one that is not a number is ignored.
    fn set_weight(&mut self, weight: f64) {
        if !weight.is_nan() {
            self.weight = weight.clamp(*WEIGHTS.start(), *WEIGHTS.end());
            self.set_alpha(self.alpha);
        }
    }
}
