//! TCP-LP (Kuzmanovic and Knightly, INFOCOM 2003): uses the bandwidth that others leave, and yields when the one-way
//! delay rises, before a queue that others need overflows.
//!
//! A smoothed delay above a threshold between the least and the greatest observed delay is an early indication of
//! congestion. The first indication halves the window and begins an inference phase without growth. Another one within
//! the phase means that others want the bandwidth, and leaves one segment. Otherwise, and on losses, the controller is
//! [`Reno`].
//!
//! | knob | default | source |
//! |---|---|---|
//! | threshold (delta) | 0.15 | the paper, section III |
//! | delay weight (gamma) | 1/8 | the paper, section III |
//! | inference phase | 3 round-trip times | the paper, section III |
//! | extremes | the paper's | below |
//!
//! [`Extremes`] chooses between the paper and Linux (`tcp_lp.c`, which ns-3 follows). In the paper the extremes are
//! over the whole connection. Slow start only collects them, and they are used from the first congestion on.
//! Indications within a round trip of the last reaction are ignored. Linux leaves out the greatest delay, acts from the
//! first sample on, and after each cut starts with the smoothed delay as the least and twice it as the greatest.
//!
//! Deviations from Linux:
//!
//! - Doubling a delay is meaningless where clocks differ. So an estimate of the delay itself is doubled: the smoothed
//!   delay less half of
//!   the least round-trip time. This is exact where both directions are alike and the return path has no queue.
//! - A cut ends slow start, as the paper's additive increase requires. Linux leaves ssthresh unchanged.
//! - Times are in nanoseconds instead of milliseconds.

use super::reno::{Reno, RenoConfig};
use super::{AckSample, Cause, Congestion, CongestionControl, EcnMode};
use crate::settings::Range;
use crate::time::{Instant, OneWayDelay, Span};
use crate::{choices, settings};

choices! {
    /// How the least and the greatest delay are found.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub enum Extremes {
        /// Over the whole connection.
        #[default]
        Paper = "paper",
        /// Without the greatest, and anew after each cut.
        Linux = "linux",
    }
}

settings! {
    /// Settings of [`TcpLp`].
    #[derive(Clone, Copy, PartialEq, Debug)]
    pub struct TcpLpConfig {
        /// Where between the least one-way delay (0) and the greatest (1) congestion begins.
        pub delay_threshold: f64 = 0.15 => [range: Range::open(0.0, 1.0), source: "INFOCOM 2003"],
        /// Weight of the newest one-way delay in the smoothed one.
        pub delay_weight: f64 = 0.125 => [range: Range::above_to(0.0, 1.0), source: "INFOCOM 2003"],
        /// Round trips after an indication of congestion without growth. Another indication in them leaves a single
        /// segment.
        pub inference_rtts: u8 = 3 => [range: Range::from(1).of("round trip"), source: "INFOCOM 2003"],
        /// How the least and the greatest delay are found: over the whole connection (`"paper"`), or without the
        /// greatest and anew after each cut (`"linux"`).
        pub delay_extremes: Extremes = Extremes::Paper => [source: "INFOCOM 2003, Linux"],
    }
    nested {
        /// Growth.
        pub reno: RenoConfig
    }
}

/// Observed delays, all relative to each other.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Delays {
    least: OneWayDelay,
    greatest: OneWayDelay,
    /// Linux: a delay above the greatest, which is left out.
    outlier: OneWayDelay,
    latest: OneWayDelay,
    /// Nanoseconds by which the smoothed delay exceeds `latest`.
    smoothed_excess: f64,
}

impl Delays {
    fn starting_with(delay: OneWayDelay) -> Self {
        Self { least: delay, greatest: delay, outlier: delay, latest: delay, smoothed_excess: 0.0 }
    }

    fn update(&mut self, delay: OneWayDelay, weight: f64, extremes: Extremes) {
        self.least = self.least.min(delay);
        let kept = match extremes {
            Extremes::Linux if delay.minus(self.outlier) > 0 => core::mem::replace(&mut self.outlier, delay),
            Extremes::Paper | Extremes::Linux => delay,
        };
        if kept.minus(self.greatest) > 0 {
            self.greatest = kept;
        }
        let excess = self.smoothed_excess - delay.minus(self.latest) as f64;
        self.smoothed_excess = excess * (1.0 - weight);
        self.latest = delay;
    }

    fn smoothed(&self) -> OneWayDelay {
        self.latest.plus_ns(libm::round(self.smoothed_excess) as i64)
    }

    fn exceed(&self, threshold: f64) -> bool {
        let above_least = self.latest.minus(self.least) as f64 + self.smoothed_excess;
        above_least > threshold * self.greatest.minus(self.least) as f64
    }

    /// Linux: forgets all but the smoothed delay, of which `path_ns` nanoseconds are the path's.
    fn restart(&mut self, path_ns: i64) {
        self.least = self.smoothed();
        self.greatest = self.least.plus_ns(path_ns);
        self.outlier = self.greatest;
    }
}

/// The controller of TCP-LP.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct TcpLp {
    reno: Reno,
    threshold: f64,
    delay_weight: f64,
    delays: Option<Delays>,
    /// Least round-trip time; [`Span::MAX`] without a sample.
    least_rtt: Span,
    /// When the current or last inference phase began.
    inferring_since: Option<Instant>,
    /// When the window last shrank, for any reason.
    reacted_at: Option<Instant>,
    inference_rtts: u8,
    extremes: Extremes,
}

impl TcpLp {
    /// A controller before its first packet; `mss` is the payload of a full segment in bytes.
    pub fn new(config: TcpLpConfig, mss: u16) -> Self {
        assert!(config.delay_threshold > 0.0 && config.delay_threshold < 1.0, "the threshold lies in (0, 1)");
        assert!(config.delay_weight > 0.0 && config.delay_weight <= 1.0, "the delay weight lies in (0, 1]");
        assert!(config.inference_rtts > 0, "inference takes at least a round trip");
        Self {
            reno: Reno::new(config.reno, mss),
            threshold: config.delay_threshold,
            delay_weight: config.delay_weight,
            delays: None,
            least_rtt: Span::MAX,
            inferring_since: None,
            reacted_at: None,
            inference_rtts: config.inference_rtts,
            extremes: config.delay_extremes,
        }
    }

    /// Whether less than `rtts` round trips have passed since `then`.
    fn within(sample: &AckSample, then: Option<Instant>, rtts: u8) -> bool {
        then.is_some_and(|then| sample.now.since(then) < sample.smoothed_rtt.times(u64::from(rtts)))
    }

    fn is_inferring(&self, sample: &AckSample) -> bool {
        Self::within(sample, self.inferring_since, self.inference_rtts)
    }

    /// Whether an indication counts now.
    fn may_yield(&self, sample: &AckSample) -> bool {
        match self.extremes {
            Extremes::Paper => self.reno.ssthresh() != u64::MAX && !Self::within(sample, self.reacted_at, 1),
            Extremes::Linux => true,
        }
    }

    /// Takes a delay; true if it indicates congestion.
    fn note(&mut self, delay: OneWayDelay) -> bool {
        let Some(delays) = &mut self.delays else {
            self.delays = Some(Delays::starting_with(delay));
            return false;
        };
        delays.update(delay, self.delay_weight, self.extremes);
        delays.exceed(self.threshold)
    }

    /// Early indication of congestion.
    fn yield_to_others(&mut self, sample: &AckSample) {
        let mss = self.reno.mss();
        let cwnd = if self.is_inferring(sample) { mss } else { (self.reno.window() / 2).max(mss) };
        self.reno.cut_to(cwnd);
        self.inferring_since = Some(sample.now);
        self.reacted_at = Some(sample.now);
        if let (Extremes::Linux, Some(delays)) = (self.extremes, &mut self.delays) {
            let path = sample.smoothed_rtt.minus(self.least_rtt.divided_by(2));
            delays.restart((path.as_ps() / 1_000).cast_signed());
        }
    }
}

impl CongestionControl for TcpLp {
    fn on_ack(&mut self, sample: &AckSample) {
        self.least_rtt = sample.rtt.map_or(self.least_rtt, |rtt| rtt.min(self.least_rtt));
        let congested = sample.delay.is_some_and(|delay| self.note(delay));
        if congested && self.may_yield(sample) {
            self.yield_to_others(sample);
        } else if !self.is_inferring(sample) {
            self.reno.on_ack(sample);
        }
    }

    fn on_congestion(&mut self, event: &Congestion) {
        self.reacted_at = Some(event.now);
        // Half of the flight or two segments may be more than what early indications have left.
        let cwnd = self.reno.window();
        self.reno.on_congestion(event);
        if event.cause != Cause::Timeout && self.reno.window() > cwnd {
            self.reno.cut_to(cwnd);
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

    fn ecn_mode(&self) -> EcnMode {
        EcnMode::Off
    }

    fn needs_one_way_delay(&self) -> bool {
        true
    }
}
