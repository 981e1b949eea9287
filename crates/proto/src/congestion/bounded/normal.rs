//! The normal flow by which a promise is measured: a virtual CUBIC window (RFC 9438) over the observed path.
//!
//! It sends nothing. Time moves it, because CUBIC's curve is a function of time. Losses and marks of the real flow cut
//! it. A window that would send faster than the line stops growing, because no flow gets more than the line.

use crate::time::Instant;

/// CUBIC's constants (RFC 9438 sections 4.6 and 5.1).
const BETA: f64 = 0.7;
const C: f64 = 0.4;
/// Least window in segments after a loss.
const FLOOR: f64 = 2.0;

/// The virtual window, in segments.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct NormalFlow {
    window: f64,
    /// Infinite before any congestion.
    ssthresh: f64,
    /// The curve's plateau (W_max).
    plateau: f64,
    /// Seconds from the curve's start to its plateau (K).
    k: f64,
    /// Window that Reno would have (W_est).
    reno: f64,
    /// When the curve began; `None` in slow start.
    epoch: Option<Instant>,
    /// When it was last moved.
    moved: Option<Instant>,
    /// Window, threshold and plateau before the last cut for a loss.
    before_loss: (f64, f64, f64),
}

impl NormalFlow {
    pub(super) fn new(initial_window: u16) -> Self {
        Self {
            window: f64::from(initial_window),
            ssthresh: f64::INFINITY,
            plateau: 0.0,
            k: 0.0,
            reno: 0.0,
            epoch: None,
            moved: None,
            before_loss: (0.0, 0.0, 0.0),
        }
    }

    /// Moves the window on to `now`, with round trips of `rtt` seconds, below `limit` segments.
    pub(super) fn advance(&mut self, now: Instant, rtt: f64, limit: f64) {
        let moved = self.moved.replace(now).unwrap_or(now);
        // Silence is no growth: a window grows by what is acknowledged.
        let rounds = (now.since(moved).as_secs_f64() / rtt).min(1.0);
        if self.window < self.ssthresh {
            self.window = (self.window * libm::exp2(rounds)).min(self.ssthresh);
        } else {
            let epoch = *self.epoch.get_or_insert(now);
            let distance = now.since(epoch).as_secs_f64() - self.k;
            let curve = C * distance * distance * distance + self.plateau;
            let gain = if self.reno >= self.plateau { 1.0 } else { 3.0 * (1.0 - BETA) / (1.0 + BETA) };
            self.reno += gain * rounds;
            // The curve never lies more than half above the window (RFC 9438 section 4.2).
            let target = curve.min(self.window * (1.0 + rounds / 2.0));
            self.window = self.window.max(target).max(self.reno);
        }
        let limit = limit.max(FLOOR);
        if self.window > limit {
            self.window = limit;
            self.reno = self.reno.min(limit);
        }
    }

    /// Packets were lost.
    pub(super) fn lose(&mut self) {
        self.before_loss = (self.window, self.ssthresh, self.plateau);
        self.cut();
    }

    /// Packets were lost, or marked.
    pub(super) fn cut(&mut self) {
        self.plateau = if self.window < self.plateau { self.window * (1.0 + BETA) / 2.0 } else { self.window };
        self.window = (self.window * BETA).max(FLOOR);
        self.ssthresh = self.window;
        self.begin_curve();
    }

    /// The curve leads from the window to the plateau, as soon as slow start is over.
    fn begin_curve(&mut self) {
        self.reno = self.window;
        self.k = libm::cbrt((self.plateau - self.window).max(0.0) / C);
        self.epoch = None;
    }

    /// The last loss was none.
    pub(super) fn take_back(&mut self) {
        let (window, ssthresh, plateau) = core::mem::take(&mut self.before_loss);
        self.window = self.window.max(window);
        self.ssthresh = self.ssthresh.max(ssthresh);
        self.plateau = self.plateau.max(plateau);
        self.begin_curve();
    }

    /// The retransmission timer expired.
    pub(super) fn time_out(&mut self) {
        self.cut();
        self.window = 1.0;
    }

    /// Segments that the flow would have in flight.
    pub(super) fn window(&self) -> f64 {
        self.window
    }
}
