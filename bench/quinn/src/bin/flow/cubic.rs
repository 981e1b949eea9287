//! quinn's CUBIC with a mechanism as Pliant has it, to see what that makes of a comparison.

use std::any::Any;
use std::sync::Arc;
use std::time::Instant;

use quinn::congestion::{Controller, ControllerFactory, CubicConfig};
use quinn_proto::RttEstimator;

const BETA: f64 = 0.7;
/// Packets per second cubed.
const C: f64 = 0.4;
/// How much slower than Reno the window of a Reno flow is followed, to make up for the gentler cut.
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);

/// What differs from quinn's own.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Variant {
    /// Slow start adds a packet for each acknowledgement (RFC 5681), and not all that it acknowledges.
    pub slow_start_by_ack: bool,
    /// The curve and the window of a Reno flow begin at the window that a cut leaves (RFC 9438), and not at 0.7 of the
    /// curve's plateau (RFC 8312), which is less after fast convergence.
    pub rfc9438: bool,
}

impl ControllerFactory for Variant {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        let own = Arc::new(CubicConfig::default()).build(now, current_mtu);
        let inner = if self.rfc9438 { Box::new(Rfc9438::new(own.window(), current_mtu)) } else { own };
        if self.slow_start_by_ack { Box::new(SlowStartByAck { inner, counted: false }) } else { inner }
    }
}

/// Of what one acknowledgement tells, slow start learns of one packet.
struct SlowStartByAck {
    inner: Box<dyn Controller>,
    counted: bool,
}

impl Controller for SlowStartByAck {
    fn on_ack(&mut self, now: Instant, sent: Instant, bytes: u64, app_limited: bool, rtt: &RttEstimator) {
        let slow_start = self.inner.metrics().ssthresh.is_some_and(|ssthresh| self.inner.window() < ssthresh);
        if !(slow_start && self.counted) {
            self.inner.on_ack(now, sent, bytes, app_limited, rtt);
        }
        self.counted = true;
    }

    fn on_end_acks(&mut self, now: Instant, in_flight: u64, app_limited: bool, largest_packet_num_acked: Option<u64>) {
        self.counted = false;
        self.inner.on_end_acks(now, in_flight, app_limited, largest_packet_num_acked);
    }

    fn on_congestion_event(&mut self, now: Instant, sent: Instant, is_persistent_congestion: bool, lost_bytes: u64) {
        self.inner.on_congestion_event(now, sent, is_persistent_congestion, lost_bytes);
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.inner.on_mtu_update(new_mtu);
    }

    fn window(&self) -> u64 {
        self.inner.window()
    }

    fn metrics(&self) -> quinn_proto::congestion::ControllerMetrics {
        self.inner.metrics()
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(Self { inner: self.inner.clone_box(), counted: self.counted })
    }

    fn initial_window(&self) -> u64 {
        self.inner.initial_window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

/// quinn's, but for where the curve and the window of a Reno flow begin, and that this grows as Reno's from the window on
/// that was cut. Windows are in bytes.
#[derive(Clone)]
struct Rfc9438 {
    initial_window: u64,
    mtu: f64,
    window: f64,
    ssthresh: f64,
    cut_at: Option<Instant>,
    plateau: f64,
    seconds_to_plateau: f64,
    reno_window: f64,
    window_before_cut: f64,
    /// Growth that is not yet a packet.
    growth: f64,
}

impl Rfc9438 {
    fn new(initial_window: u64, mtu: u16) -> Self {
        Self {
            initial_window,
            mtu: f64::from(mtu),
            window: initial_window as f64,
            ssthresh: f64::INFINITY,
            cut_at: None,
            plateau: 0.0,
            seconds_to_plateau: 0.0,
            reno_window: 0.0,
            window_before_cut: 0.0,
            growth: 0.0,
        }
    }

    fn least(&self) -> f64 {
        2.0 * self.mtu
    }

    fn begin(&mut self, now: Instant) {
        self.cut_at = Some(now);
        self.seconds_to_plateau = ((self.plateau - self.window).max(0.0) / self.mtu / C).cbrt();
        self.reno_window = self.window;
    }

    fn avoidance(&mut self, now: Instant, bytes: f64, rtt: &RttEstimator) {
        if self.cut_at.is_none() {
            (self.plateau, self.window_before_cut) = (self.window, self.window);
            self.begin(now);
        }
        let elapsed = self.cut_at.map_or_else(Default::default, |at| now - at) + rtt.get();
        let curve = C * (elapsed.as_secs_f64() - self.seconds_to_plateau).powi(3) * self.mtu + self.plateau;
        let alpha = if self.reno_window >= self.window_before_cut { 1.0 } else { ALPHA };
        self.reno_window += alpha * bytes / self.window * self.mtu;
        if curve < self.reno_window {
            self.growth += (self.reno_window - self.window).max(0.0);
        } else if self.window < curve {
            self.growth += (curve - self.window) / self.window * self.mtu;
        }
        if self.growth >= self.mtu {
            self.window += self.mtu;
            self.growth = 0.0;
        }
    }
}

impl Controller for Rfc9438 {
    fn on_ack(&mut self, now: Instant, sent: Instant, bytes: u64, app_limited: bool, rtt: &RttEstimator) {
        if app_limited || self.cut_at.is_some_and(|at| sent <= at) {
            return;
        }
        if self.window < self.ssthresh {
            self.window += bytes as f64;
        } else {
            self.avoidance(now, bytes as f64, rtt);
        }
    }

    fn on_congestion_event(&mut self, now: Instant, sent: Instant, is_persistent_congestion: bool, _: u64) {
        if self.cut_at.is_some_and(|at| sent <= at) {
            return;
        }
        self.plateau = if self.window < self.plateau { self.window * (1.0 + BETA) / 2.0 } else { self.window };
        self.window_before_cut = self.window;
        self.ssthresh = (self.window * BETA).max(self.least());
        self.window = self.ssthresh;
        self.growth *= BETA;
        self.begin(now);
        if is_persistent_congestion {
            self.cut_at = None;
            self.ssthresh = (self.window * BETA).max(self.least());
            self.window = self.least();
            self.growth = 0.0;
        }
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.mtu = f64::from(new_mtu);
        self.window = self.window.max(self.least());
    }

    fn window(&self) -> u64 {
        self.window as u64
    }

    fn metrics(&self) -> quinn_proto::congestion::ControllerMetrics {
        let mut metrics = quinn_proto::congestion::ControllerMetrics::default();
        metrics.congestion_window = self.window();
        metrics.ssthresh = Some(self.ssthresh as u64);
        metrics
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn initial_window(&self) -> u64 {
        self.initial_window
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
