//! Reno and NewReno (RFC 5681, RFC 6582): one more segment per round trip, half the window on congestion.
//!
//! The two differ in how they repair a loss, which is the transport's work. What remains of NewReno here is
//! [`on_recovered`](CongestionControl::on_recovered). Window inflation by duplicate acknowledgements is also the
//! transport's.
//!
//! | knob | default | source |
//! |---|---|---|
//! | initial window | 10 segments | RFC 6928 |
//! | counting in avoidance | bytes | RFC 3465; RFC 5681 section 3.1 recommends it |

use super::{AckSample, Cause, Congestion, CongestionControl, EcnMode};
use crate::settings;
use crate::settings::Range;

/// What avoidance counts towards the next segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Counting {
    /// Bytes acknowledged: delayed acknowledgements do not slow the growth (RFC 3465).
    #[default]
    Bytes,
    /// Acknowledgements, each worth `MSS * MSS / cwnd` (RFC 5681 equation 3).
    Acks,
}

settings! {
    /// Settings of [`Reno`].
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct RenoConfig {
        /// Initial window in segments. RFC 5681 gives 2 to 4.
        pub initial_window: u16 = 10 => [range: Range::from(1).of("segment"), source: "RFC 6928"],
    }
    fixed {
        /// What avoidance counts. Default bytes.
        pub counting: Counting = Counting::Bytes
    }
}

/// The controller of Reno and NewReno.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reno {
    cwnd: u64,
    ssthresh: u64,
    /// Counted towards the next segment. It is carried over, so avoidance needs no division and loses nothing.
    counted: u64,
    mss: u16,
    initial_window: u16,
    counting: Counting,
}

impl Reno {
    /// A controller before its first packet; `mss` is the payload of a full segment in bytes.
    pub fn new(config: RenoConfig, mss: u16) -> Self {
        assert!(mss > 0, "a segment holds at least one byte");
        assert!(config.initial_window > 0, "a window holds at least one segment");
        Self {
            cwnd: u64::from(config.initial_window) * u64::from(mss),
            ssthresh: u64::MAX,
            counted: 0,
            mss,
            initial_window: config.initial_window,
            counting: config.counting,
        }
    }

    /// Slow start or avoidance, whatever the acknowledgement echoes. Avoidance adds `weight` segments per round trip.
    #[inline]
    pub(super) fn grow(&mut self, sample: &AckSample, weight: f64) {
        if sample.acked == 0 || sample.in_recovery || !sample.window_limited {
            return;
        }
        let mss = self.mss();
        if self.cwnd < self.ssthresh {
            self.cwnd = self.cwnd.saturating_add(sample.acked.min(mss));
            return;
        }
        let mut counts = if self.counting == Counting::Bytes { sample.acked } else { mss };
        // A stretched acknowledgement earns one segment now and at most one later, per unit of weight: no burst.
        let mut earned = 1;
        if weight != 1.0 {
            counts = (counts as f64 * weight) as u64;
            earned = (self.counted.saturating_add(counts) / self.cwnd).clamp(1, libm::ceil(weight) as u64);
        }
        self.counted = self.counted.saturating_add(counts);
        let price = earned.saturating_mul(self.cwnd);
        if self.counted >= price {
            self.counted = (self.counted - price).min(price);
            self.cwnd = self.cwnd.saturating_add(earned.saturating_mul(mss));
        }
    }

    /// Sets the window and ends slow start there. Bytes counted towards the next segment stay counted. Otherwise a
    /// small window that marks cut a little every round trip would never grow, and larger ones would keep their share.
    #[inline]
    pub(super) fn cut_to(&mut self, cwnd: u64) {
        self.cwnd = cwnd;
        self.ssthresh = cwnd;
    }

    /// Sets where slow start ends, without changing the window.
    pub(super) fn set_ssthresh(&mut self, ssthresh: u64) {
        self.ssthresh = ssthresh;
    }

    #[inline]
    pub(super) fn mss(&self) -> u64 {
        u64::from(self.mss)
    }

    /// RFC 5681 equation 4.
    fn half_of(&self, flight: u64) -> u64 {
        (flight / 2).max(2 * self.mss())
    }

    fn on_timeout(&mut self, event: &Congestion) {
        if event.first {
            self.ssthresh = self.half_of(event.flight);
        }
        self.cwnd = self.mss();
        self.counted = 0;
    }
}

impl CongestionControl for Reno {
    #[inline]
    fn on_ack(&mut self, sample: &AckSample) {
        // RFC 3168 section 6.1.2: no growth on an acknowledgement that echoes congestion.
        if !sample.ece {
            self.grow(sample, 1.0);
        }
    }

    fn on_congestion(&mut self, event: &Congestion) {
        match event.cause {
            Cause::Loss | Cause::Ecn => {
                self.cut_to(self.half_of(event.flight));
                self.counted = 0;
            }
            Cause::Timeout => self.on_timeout(event),
        }
    }

    fn on_recovered(&mut self, flight: u64) {
        // RFC 6582 section 3.2 step 3, option 1. Recovery has kept cwnd at ssthresh, which is the RFC's upper bound.
        self.cwnd = self.cwnd.min(flight.max(self.mss()).saturating_add(self.mss()));
    }

    fn on_spurious_loss(&mut self, ssthresh: u64) {
        self.ssthresh = self.ssthresh.max(ssthresh);
    }

    fn on_idle(&mut self) {
        self.cwnd = self.cwnd.min(u64::from(self.initial_window) * self.mss());
    }

    #[inline]
    fn window(&self) -> u64 {
        self.cwnd
    }

    #[inline]
    fn ssthresh(&self) -> u64 {
        self.ssthresh
    }

    /// Off, as for loss-based baselines. Under [`EcnMode::Classic`] a mark halves the window as a loss does.
    fn ecn_mode(&self) -> EcnMode {
        EcnMode::Off
    }
}
