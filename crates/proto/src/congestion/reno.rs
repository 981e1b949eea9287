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
//! | growth | RFC 5681's | Linux's (`net/ipv4/tcp_cong.c`) differs, see below |
//!
//! In slow start Linux counts all that an acknowledgement brings, as far as ssthresh, and the rest in avoidance. RFC 5681
//! adds one segment at most, so delayed acknowledgements slow its slow start down. Linux cuts half of the window, not of
//! the flight. Its windows are whole segments.

use super::{AckSample, Cause, Congestion, CongestionControl, EcnMode};
use crate::settings::Range;
use crate::{choices, settings};

/// What avoidance counts towards the next segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Counting {
    /// Bytes acknowledged: delayed acknowledgements do not slow the growth (RFC 3465).
    #[default]
    Bytes,
    /// Acknowledgements, each worth `MSS * MSS / cwnd` (RFC 5681 equation 3).
    Acks,
}

choices! {
    /// How slow start grows, and what a loss leaves.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum RenoGrowth {
        /// As the RFC says.
        Rfc5681 = "rfc5681",
        /// As in Linux.
        Linux = "linux",
    }
}

settings! {
    /// Settings of [`Reno`].
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct RenoConfig {
        /// Initial window in segments. RFC 5681 gives 2 to 4.
        pub initial_window: u16 = 10 => [range: Range::from(1).of("segment"), source: "RFC 6928"],
        /// How Reno's slow start grows, and what a loss leaves: as in RFC 5681, by one segment at most for each
        /// acknowledgement, and half of the flight; or as in Linux, by all that is acknowledged, and half of the window.
        pub reno_growth: RenoGrowth = RenoGrowth::Rfc5681 => [source: "RFC 5681; Linux, tcp_cong.c"],
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
    growth: RenoGrowth,
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
            growth: config.reno_growth,
        }
    }

    /// Slow start or avoidance, whatever the acknowledgement echoes. Avoidance adds `weight` segments per round trip.
    #[inline]
    pub(super) fn grow(&mut self, sample: &AckSample, weight: f64) {
        if sample.acked == 0 || sample.in_recovery || !sample.window_limited {
            return;
        }
        let mss = self.mss();
        let mut acked = sample.acked;
        if self.cwnd < self.ssthresh {
            if self.growth == RenoGrowth::Rfc5681 {
                self.cwnd = self.cwnd.saturating_add(acked.min(mss));
                return;
            }
            // `tcp_slow_start`
            let counted = acked.div_ceil(mss).saturating_mul(mss).min(self.ssthresh - self.cwnd);
            self.cwnd = self.cwnd.saturating_add(counted);
            acked = acked.saturating_sub(counted);
            if acked == 0 {
                return;
            }
        }
        let mut counts = if self.counting == Counting::Bytes { acked } else { mss };
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

    /// RFC 5681 equation 4, or `tcp_reno_ssthresh`.
    fn half_of(&self, flight: u64) -> u64 {
        let mss = self.mss();
        let half = match self.growth {
            RenoGrowth::Rfc5681 => flight / 2,
            RenoGrowth::Linux => self.cwnd / mss / 2 * mss,
        };
        half.max(2 * mss)
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
        let flight = match self.growth {
            RenoGrowth::Rfc5681 => flight,
            RenoGrowth::Linux => flight.div_ceil(self.mss()).saturating_mul(self.mss()),
        };
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
