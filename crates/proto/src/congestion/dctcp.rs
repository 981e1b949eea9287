//! DCTCP (RFC 8257): cuts the window by the fraction of marked bytes, and keeps the queue near the marking threshold.
//!
//! Growth, loss, timeout and idle restart are [`Reno`]'s. A loss halves the window whatever the fraction of marks (RFC
//! 8257 section 3.4). Until 2026, ns-3's DCTCP cut by alpha/2 at a loss, as at a mark; [`LossCut::AsMark`] reproduces
//! that.
//!
//! | knob | default | source |
//! |---|---|---|
//! | gain g | 1/16 | RFC 8257 section 4.2; stable below 1.386 / √(2(C·RTT + K)) (SIGCOMM 2010, equation 15) |
//! | initial alpha | 1 | RFC 8257 section 4.2 |
//! | cut at a loss | half | RFC 8257 section 3.4 |
//! | minimum window | 2 segments | Linux; 1 spares a queue that very many flows share |
//! | growth after a cut | at once | RFC 8257; Linux and ns-3 wait until what was sent before the cut is acknowledged (their state CWR) |
//! | growth on acknowledgements with ECE | no | RFC 3168 section 6.1.2, which RFC 8257 leaves in force |
//! | weight | 1 | this project: avoidance adds so many segments per round trip |
//!
//! The weight is no part of the RFC. At the same alpha a flow that adds w segments per round trip has w times the window (SIGCOMM 2010,
//! section 3.3, with w in place of 1), so w = 1 is DCTCP itself. Behind a threshold flows do not see the same marks, and shares go about
//! with the power 1.2 of the weight. If the weight falls, the window falls with it at once, down to one segment. If it
//! rises, slow start leads to the window that goes with it, without a burst.
//!
//! The SIGCOMM 2010 paper (section 3.3) assumes that the window grows on acknowledgements with ECE, so its steady state is a little
//! higher ([`ece_growth`](DctcpConfig::ece_growth)).

use super::reno::{Reno, RenoConfig};
use super::{AckSample, Cause, Congestion, CongestionControl, EcnMode};
use crate::settings::Range;
use crate::{choices, settings};

choices! {
    /// How a loss cuts the window.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub enum LossCut {
        /// By half.
        #[default]
        Halve = "halve",
        /// As a mark: by half of the fraction of marked bytes.
        AsMark = "as-mark",
    }
}

settings! {
    /// Settings of [`Dctcp`].
    #[derive(Clone, Copy, PartialEq, Debug)]
    pub struct DctcpConfig {
        /// Weight of the newest window in alpha (g).
        pub gain: f64 = 1.0 / 16.0 => [range: Range::above_to(0.0, 1.0), source: "RFC 8257"],
        /// Alpha before the first window.
        pub initial_alpha: f64 = 1.0 => [range: Range::closed(0.0, 1.0), source: "RFC 8257"],
        /// Marks cut the window no deeper than to so many segments.
        pub min_window: u16 = 2 => [range: Range::from(1).of("segment"), source: "Linux"],
        /// How a loss cuts the window: by half (`"halve"`), or by alpha/2 as a mark does (`"as-mark"`). A timeout sets ssthresh
        /// alike.
        pub loss_cut: LossCut = LossCut::Halve => [source: "RFC 8257; ns-3 until 2026: `\"as-mark\"`"],
        /// After a mark's cut the window grows at once, on acknowledgements that echo no mark. Otherwise it stands until what was sent
        /// before the cut is acknowledged.
        pub cwr_growth: bool = true => [source: "RFC 8257; Linux, ns-3 (CWR): false"],
        /// The window grows on acknowledgements that echo a mark, too.
        pub ece_growth: bool = false => [source: "RFC 3168 section 6.1.2; SIGCOMM 2010: true"],
    }
    nested {
        /// Growth.
        pub reno: RenoConfig
    }
}

/// Range of the weight. Values outside are set to the nearer end.
const WEIGHTS: core::ops::RangeInclusive<f64> = 1e-3..=1e3;

/// The controller of DCTCP.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Dctcp {
    reno: Reno,
    alpha: f64,
    gain: f64,
    /// The observation window ends when this byte is acknowledged (DCTCP.WindowEnd).
    window_end: u64,
    acked: u64,
    marked: u64,
    weight: f64,
    minimum_window: u16,
    loss_cut: LossCut,
    cwr_growth: bool,
    ece_growth: bool,
    /// What was sent before the last cut by a mark ends here.
    cut_end: u64,
}

impl Dctcp {
    /// A controller before its first packet; `mss` is the payload of a full segment in bytes.
    pub fn new(config: DctcpConfig, mss: u16) -> Self {
        assert!(config.gain > 0.0 && config.gain <= 1.0, "gain lies in (0, 1]");
        assert!((0.0..=1.0).contains(&config.initial_alpha), "alpha lies in [0, 1]");
        assert!(config.min_window > 0, "a window holds at least one segment");
        Self {
            reno: Reno::new(config.reno, mss),
            alpha: config.initial_alpha,
            gain: config.gain,
            window_end: 0,
            acked: 0,
            marked: 0,
            weight: 1.0,
            minimum_window: config.min_window,
            loss_cut: config.loss_cut,
            cwr_growth: config.cwr_growth,
            ece_growth: config.ece_growth,
            cut_end: 0,
        }
    }

    /// Estimated fraction of marked bytes, in [0, 1].
    pub fn alpha(&self) -> f64 {
        self.alpha
    }

    /// Ends an observation window: once per round trip.
    fn update_alpha(&mut self, next: u64) {
        if self.acked > 0 {
            self.alpha += self.gain * (self.marked as f64 / self.acked as f64 - self.alpha);
        }
        self.window_end = next;
        self.acked = 0;
        self.marked = 0;
    }

    /// Marks cut no deeper. A weight below 1 goes with a smaller window, of a segment at least.
    fn floor(&self) -> u64 {
        let floor = u64::from(self.minimum_window) * self.reno.mss();
        if self.weight < 1.0 { ((floor as f64 * self.weight) as u64).max(self.reno.mss()) } else { floor }
    }

    /// The window after a mark.
    fn cut_by_alpha(&self) -> u64 {
        let cwnd = self.reno.window();
        // The floor stops a cut; it does not raise a window that a timeout left below it.
        let floor = self.floor().min(cwnd);
        let cut = (cwnd as f64 * self.alpha * 0.5) as u64;
        (cwnd - cut).max(floor)
    }

    fn on_loss(&mut self, event: &Congestion) {
        match (self.loss_cut, event.cause) {
            (LossCut::Halve, _) => self.reno.on_congestion(event),
            (LossCut::AsMark, Cause::Timeout) => {
                let ssthresh = self.cut_by_alpha().max(2 * self.reno.mss());
                self.reno.on_congestion(event);
                if event.first {
                    self.reno.set_ssthresh(ssthresh);
                }
            }
            (LossCut::AsMark, _) => self.reno.cut_to(self.cut_by_alpha()),
        }
    }
}

impl CongestionControl for Dctcp {
    #[inline]
    fn on_ack(&mut self, sample: &AckSample) {
        self.acked = self.acked.saturating_add(sample.acked);
        if sample.ece {
            self.marked = self.marked.saturating_add(sample.acked);
        }
        if sample.unacked > self.window_end {
            self.update_alpha(sample.next);
        }
        if (self.ece_growth || !sample.ece) && (self.cwr_growth || sample.unacked > self.cut_end) {
            self.reno.grow(sample, self.weight);
        }
    }

    fn on_congestion(&mut self, event: &Congestion) {
        match event.cause {
            Cause::Ecn => {
                self.reno.cut_to(self.cut_by_alpha());
                self.cut_end = event.next;
            }
            Cause::Loss | Cause::Timeout => self.on_loss(event),
        }
    }

    fn on_recovered(&mut self, flight: u64) {
        self.reno.on_recovered(flight);
    }

    fn on_spurious_loss(&mut self, ssthresh: u64) {
        self.reno.on_spurious_loss(ssthresh);
    }

    fn on_idle(&mut self) {
        self.reno.on_idle();
    }

    #[inline]
    fn window(&self) -> u64 {
        self.reno.window()
    }

    #[inline]
    fn ssthresh(&self) -> u64 {
        self.reno.ssthresh()
    }

    fn marked_fraction(&self) -> Option<f64> {
        Some(self.alpha)
    }

    fn ecn_mode(&self) -> EcnMode {
        EcnMode::Accurate
    }

    /// Weights also come from the network, so one that is not a number is ignored.
    fn set_weight(&mut self, weight: f64) {
        if weight.is_nan() {
            return;
        }
        let before = core::mem::replace(&mut self.weight, weight.clamp(*WEIGHTS.start(), *WEIGHTS.end()));
        // The first slow start goes on until the path says what there is.
        if self.weight == before || self.reno.ssthresh() == u64::MAX {
            return;
        }
        let window = ((self.reno.window() as f64 * self.weight / before) as u64).max(self.floor());
        if self.weight < before {
            self.reno.cut_to(window.min(self.reno.window()));
        } else {
            self.reno.set_ssthresh(window);
        }
    }
}
