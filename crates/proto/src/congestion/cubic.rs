//! CUBIC (RFC 9438): after a cut the window returns to where it was along a cubic curve of time, not of round trips.
//!
//! Windows are `f64` segments, as in the RFC's formulas.
//!
//! | knob | default | source |
//! |---|---|---|
//! | initial window | 10 segments | RFC 6928 |
//! | C | 0.4 segments/s³ | RFC 9438 section 5.1 |
//! | beta | 0.7 (what remains) | RFC 9438 section 4.6 |
//! | fast convergence | on | RFC 9438 section 4.7; off for flows that are alone |
//! | HyStart | off | RFC 9438 section 4.10 recommends it: RFC 9406's, Linux's or ns-3's |
//! | growth | RFC 9438's | Linux's (`net/ipv4/tcp_cubic.c`) and ns-3's differ, see below |
//!
//! Choices where the RFC leaves room: avoidance adds (target − cwnd)/cwnd for each new acknowledgement (section 4.4),
//! not for each segment as Linux does. Entering the Reno-friendly region never lowers the window. The curve starts with
//! the first acknowledgement after recovery.
//!
//! Linux's growth and ns-3's are in [`cubic_linux`](super::cubic_linux).

use super::cubic_linux::LinuxGrowth;
use super::hystart::{HyStart, HyStartConfig};
use super::hystart_linux::{LinuxHyStart, Variant};
use super::{AckSample, Cause, Congestion, CongestionControl, EcnMode};
use crate::settings::{Range, ReadError, SettingValue, Text, Value, choice, choice_kind};
use crate::time::{Instant, Span};
use crate::{choices, settings};

/// Steepness of the curve in segments per second cubed (RFC 9438 section 5.1).
const C: f64 = 0.4;
/// Least window in segments after a loss, and least ssthresh.
const FLOOR_LOSS: f64 = 2.0;
/// Least window in segments after a mark, and window after a timeout.
const FLOOR_MARK: f64 = 1.0;
/// The curve's target lies at most this factor above the window.
const LARGEST_STEP: f64 = 1.5;

/// How slow start ends before packets are lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum HyStartKind {
    /// Not at all.
    #[default]
    Off,
    /// HyStart++ (RFC 9406), in the initial slow start.
    Rfc9406,
    /// HyStart as in Linux, in every slow start.
    Linux,
    /// HyStart as in ns-3: without allowance for bursts.
    Ns3,
}

impl HyStartKind {
    const NAMES: [&'static str; 4] = ["off", "rfc9406", "linux", "ns3"];

    /// The name that users give.
    pub const fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

impl SettingValue for HyStartKind {
    type Bound = u64;

    fn kind() -> Text {
        choice_kind(&Self::NAMES)
    }

    /// Also reads the former values true and false.
    fn read(value: &Value) -> Result<Self, ReadError> {
        match value {
            Value::Flag(false) => Ok(Self::Off),
            Value::Flag(true) => Ok(Self::Rfc9406),
            value => Ok([Self::Off, Self::Rfc9406, Self::Linux, Self::Ns3][choice(value, &Self::NAMES)?]),
        }
    }

    fn write(&self) -> Option<Value> {
        Some(Value::Text(self.name().into()))
    }

    fn bound(&self) -> Option<&u64> {
        None
    }
}

choices! {
    /// How the window grows in avoidance, and what a timeout leaves.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum Growth {
        /// As the RFC says.
        Rfc9438 = "rfc9438",
        /// As in Linux.
        Linux = "linux",
        /// As in ns-3, which copied Linux's but for the line of Reno.
        Ns3 = "ns3",
    }
}

settings! {
    /// Settings of [`Cubic`].
    #[derive(Clone, Copy, PartialEq, Debug)]
    pub struct CubicConfig {
        /// Initial window in segments.
        pub initial_window: u16 = 10 => [range: Range::from(1).of("segment"), source: "RFC 6928"],
        /// What remains of the window after congestion.
        pub beta: f64 = 0.7 => [range: Range::open(0.0, 1.0), source: "RFC 9438"],
        /// Whether a flow whose maximum shrinks gives way further.
        pub fast_convergence: bool = true => [source: "RFC 9438"],
        /// How slow start ends before packets are lost: by RFC 9406's HyStart++ (also `true`), or as in Linux, by trains
        /// of acknowledgements as well, or as in ns-3, which allows for no bursts of the host.
        pub hystart: HyStartKind = HyStartKind::Off => [source: "RFC 9406; Linux, tcp_cubic.c"],
        /// With `hystart`: least rise of the round-trip time that counts. It has no effect where queues add less.
        pub hystart_threshold: Span = Span::from_ms(4) => [source: "RFC 9406"],
        /// How CUBIC's window grows, and what a timeout leaves: as in RFC 9438, or as in Linux, in whole segments, by at
        /// least a twentieth in a round trip until a loss tells the largest window, and anew after a timeout. As in ns-3 it
        /// grows so, too, but never as fast as Reno where the curve is slower.
        pub growth: Growth = Growth::Rfc9438 => [source: "RFC 9438; Linux, tcp_cubic.c; ns-3, tcp-cubic.cc"],
    }
    fixed {
        /// With RFC 9406's `hystart`: segments that one acknowledgement may add, at least 1; `u16::MAX` is no limit. Default 8.
        pub hystart_burst_limit: u16 = 8
    }
}

impl CubicConfig {
    fn hystart_config(&self) -> HyStartConfig {
        let HyStartConfig { maximum_threshold, .. } = HyStartConfig::default();
        HyStartConfig {
            minimum_threshold: self.hystart_threshold,
            maximum_threshold: maximum_threshold.max(self.hystart_threshold),
            burst_limit: self.hystart_burst_limit,
        }
    }

    fn slow_start(&self) -> SlowStart {
        match self.hystart {
            HyStartKind::Off => SlowStart::Plain,
            HyStartKind::Rfc9406 => SlowStart::Rfc9406(HyStart::new(self.hystart_config())),
            HyStartKind::Linux => SlowStart::Linux(LinuxHyStart::new(self.hystart_threshold, Variant::Linux)),
            HyStartKind::Ns3 => SlowStart::Linux(LinuxHyStart::new(self.hystart_threshold, Variant::Ns3)),
        }
    }
}

/// What watches slow start.
#[derive(Clone, Copy, PartialEq, Debug)]
enum SlowStart {
    Plain,
    Rfc9406(HyStart),
    Linux(LinuxHyStart),
}

/// The controller of CUBIC.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Cubic {
    cwnd: f64,
    /// Infinite before any congestion.
    ssthresh: f64,
    /// The curve's plateau (W_max).
    plateau: f64,
    /// Window when ssthresh was last set.
    cwnd_prior: f64,
    /// Seconds from the curve's start to its plateau (K).
    k: f64,
    /// Window that Reno would have (W_est).
    reno_window: f64,
    beta: f64,
    /// When the curve started, shifted by the time in which the window was not the limit; `None` outside of avoidance.
    epoch: Option<Instant>,
    last_ack: Instant,
    slow_start: SlowStart,
    mss: u16,
    initial_window: u16,
    fast_convergence: bool,
    /// The next curve starts on its plateau: after a timeout, or when HyStart++ ended slow start.
    start_on_plateau: bool,
    /// For Linux's growth.
    linux: Option<LinuxGrowth>,
}

impl Cubic {
    /// A controller before its first packet; `mss` is the payload of a full segment in bytes.
    pub fn new(config: CubicConfig, mss: u16) -> Self {
        assert!(mss > 0, "a segment holds at least one byte");
        assert!(config.initial_window > 0, "a window holds at least one segment");
        assert!(config.beta > 0.0 && config.beta < 1.0, "beta lies in (0, 1)");
        let linux = match config.growth {
            Growth::Rfc9438 => None,
            Growth::Linux => Some(LinuxGrowth::new(Variant::Linux)),
            Growth::Ns3 => Some(LinuxGrowth::new(Variant::Ns3)),
        };
        Self {
            cwnd: f64::from(config.initial_window),
            ssthresh: f64::INFINITY,
            plateau: 0.0,
            cwnd_prior: 0.0,
            k: 0.0,
            reno_window: 0.0,
            beta: linux.map_or(config.beta, |linux| linux.beta(config.beta)),
            epoch: None,
            last_ack: Instant::ZERO,
            slow_start: config.slow_start(),
            mss,
            initial_window: config.initial_window,
            fast_convergence: config.fast_convergence,
            start_on_plateau: false,
            linux,
        }
    }

    fn segments(&self, bytes: u64) -> f64 {
        bytes as f64 / f64::from(self.mss)
    }

    fn slow_start(&mut self, sample: &AckSample) {
        let mss = u64::from(self.mss);
        let is_initial = self.ssthresh == f64::INFINITY;
        match &mut self.slow_start {
            SlowStart::Rfc9406(hystart) if is_initial => {
                let over = hystart.on_ack(sample);
                let growth = hystart.growth(sample.acked, mss);
                self.grow(sample, growth);
                if over {
                    self.leave_slow_start();
                }
            }
            SlowStart::Linux(hystart) => {
                if hystart.on_ack(sample, self.cwnd, self.ssthresh, f64::from(self.mss)) {
                    self.leave_slow_start();
                    self.avoidance(sample);
                } else {
                    self.grow_to_ssthresh(sample);
                }
            }
            _ if self.linux.is_some() => self.grow_to_ssthresh(sample),
            _ => self.grow(sample, sample.acked.min(mss)),
        }
    }

    /// `tcp_slow_start`: all that was acknowledged counts as far as ssthresh. With Linux's growth the rest counts in avoidance.
    fn grow_to_ssthresh(&mut self, sample: &AckSample) {
        if self.linux.is_none() {
            self.grow(sample, sample.acked);
            self.cwnd = self.cwnd.min(self.ssthresh);
            return;
        }
        let packets = sample.acked.div_ceil(u64::from(self.mss));
        let room = self.ssthresh - self.cwnd;
        self.grow(sample, packets.min(room as u64) * u64::from(self.mss));
        if packets as f64 > room {
            self.avoidance(&AckSample { acked: (packets - room as u64) * u64::from(self.mss), ..*sample });
        }
    }

    fn leave_slow_start(&mut self) {
        self.ssthresh = self.cwnd;
        self.cwnd_prior = self.cwnd;
        self.start_on_plateau = true;
    }

    fn grow(&mut self, sample: &AckSample, bytes: u64) {
        if sample.window_limited && !sample.ece {
            self.cwnd += self.segments(bytes);
        }
    }

    fn avoidance(&mut self, sample: &AckSample) {
        if !sample.window_limited {
            // RFC 9438 section 5.8: time in which the application was the limit does not count.
            let unused = sample.now.since(self.last_ack);
            self.epoch = self.epoch.map(|epoch| epoch.after(unused));
            return;
        }
        if sample.ece {
            return;
        }
        let epoch = match self.epoch {
            Some(epoch) => epoch,
            None => self.start_epoch(sample.now),
        };
        let elapsed = sample.now.since(epoch);
        if self.linux.is_some() {
            self.follow_curve_as_linux(elapsed, sample);
        } else {
            self.follow_curve(elapsed, sample);
        }
    }

    fn follow_curve_as_linux(&mut self, elapsed: Span, sample: &AckSample) {
        let Some(linux) = &mut self.linux else { return };
        let packets = sample.acked.div_ceil(u64::from(self.mss));
        let distance = linux.ahead(elapsed).as_secs_f64() - self.k;
        let target = self.plateau + LinuxGrowth::whole(C * distance * distance * distance);
        self.reno_window += linux.reno_segments(self.cwnd, self.beta, packets);
        self.cwnd += linux.segments(self.cwnd, target, self.reno_window, packets);
    }

    fn follow_curve(&mut self, elapsed: Span, sample: &AckSample) {
        self.reno_window += self.reno_increase() * self.segments(sample.acked) / self.cwnd;
        if self.curve(elapsed) < self.reno_window {
            self.cwnd = self.cwnd.max(self.reno_window);
        } else {
            let target = self.curve(elapsed.plus(sample.smoothed_rtt)).clamp(self.cwnd, LARGEST_STEP * self.cwnd);
            self.cwnd += (target - self.cwnd) / self.cwnd;
        }
    }

    /// RFC 9438 section 4.3: slower than Reno to make up for the gentler cut, until the old window is reached.
    fn reno_increase(&self) -> f64 {
        if self.reno_window >= self.cwnd_prior { 1.0 } else { 3.0 * (1.0 - self.beta) / (1.0 + self.beta) }
    }

    /// W_cubic (RFC 9438 equation 1), `elapsed` after the curve's start.
    fn curve(&self, elapsed: Span) -> f64 {
        let distance = elapsed.as_secs_f64() - self.k;
        C * distance * distance * distance + self.plateau
    }

    fn start_epoch(&mut self, now: Instant) -> Instant {
        if self.start_on_plateau || self.cwnd >= self.plateau {
            self.plateau = self.cwnd;
        }
        self.k = libm::cbrt((self.plateau - self.cwnd) / C);
        self.reno_window = self.cwnd;
        if let Some(linux) = &mut self.linux {
            linux.on_epoch();
        }
        self.start_on_plateau = false;
        self.epoch = Some(now);
        now
    }

    /// What a cut leaves of the window, in segments.
    fn after_cut(&self, flight: u64) -> f64 {
        match self.linux {
            Some(_) => libm::floor(self.cwnd * self.beta),
            None => self.segments(flight) * self.beta,
        }
    }

    /// RFC 9438 sections 4.6 and 4.7.
    fn cut(&mut self, flight: u64, floor: f64) {
        let gives_way = self.fast_convergence && self.cwnd < self.plateau;
        self.plateau = if gives_way { self.cwnd * (1.0 + self.beta) / 2.0 } else { self.cwnd };
        let left = self.after_cut(flight);
        self.set_ssthresh(flight);
        self.cwnd = left.max(floor);
        self.start_on_plateau = false;
        self.epoch = None;
        if let Some(linux) = &mut self.linux {
            self.plateau = libm::floor(self.plateau);
            linux.on_cut();
        }
    }

    fn set_ssthresh(&mut self, flight: u64) {
        self.cwnd_prior = self.cwnd;
        self.ssthresh = self.after_cut(flight).max(FLOOR_LOSS);
    }

    /// RFC 9438 section 4.8.
    fn on_timeout(&mut self, event: &Congestion) {
        if event.first {
            self.set_ssthresh(event.flight);
        }
        self.cwnd = FLOOR_MARK;
        self.start_on_plateau = true;
        self.epoch = None;
        if let Some(linux) = &mut self.linux {
            self.plateau = 0.0;
            linux.on_timeout();
        }
        if let SlowStart::Linux(hystart) = &mut self.slow_start {
            hystart.on_timeout(event.now, event.next);
        }
    }
}

impl CongestionControl for Cubic {
    fn on_ack(&mut self, sample: &AckSample) {
        if let Some(linux) = &mut self.linux {
            linux.note(sample);
        }
        if sample.acked > 0 && !sample.in_recovery {
            if self.cwnd < self.ssthresh {
                self.slow_start(sample);
            } else {
                if let SlowStart::Linux(hystart) = &mut self.slow_start {
                    hystart.note(sample);
                }
                self.avoidance(sample);
            }
        }
        self.last_ack = sample.now;
    }

    fn on_congestion(&mut self, event: &Congestion) {
        match event.cause {
            Cause::Loss => self.cut(event.flight, FLOOR_LOSS),
            Cause::Ecn => self.cut(event.flight, FLOOR_MARK),
            Cause::Timeout => self.on_timeout(event),
        }
    }

    fn on_recovered(&mut self, flight: u64) {
        let flight = self.segments(flight);
        let flight = if self.linux.is_some() { libm::ceil(flight) } else { flight };
        self.cwnd = self.cwnd.min(flight.max(1.0) + 1.0);
    }

    fn on_spurious_loss(&mut self, ssthresh: u64) {
        let before = if ssthresh == u64::MAX { f64::INFINITY } else { self.segments(ssthresh) };
        self.ssthresh = self.ssthresh.max(before);
        self.epoch = None;
    }

    fn on_idle(&mut self) {
        self.cwnd = self.cwnd.min(f64::from(self.initial_window));
        self.epoch = None;
    }

    fn window(&self) -> u64 {
        (self.cwnd * f64::from(self.mss)) as u64
    }

    fn ssthresh(&self) -> u64 {
        // The cast saturates: infinity becomes u64::MAX.
        (self.ssthresh * f64::from(self.mss)) as u64
    }

    /// Off, as for loss-based baselines. Under [`EcnMode::Classic`] a mark cuts by beta, to one segment at least.
    fn ecn_mode(&self) -> EcnMode {
        EcnMode::Off
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A curve that starts at 0.7 of its plateau of `plateau` segments.
    fn after_cut(plateau: f64) -> Cubic {
        let config = CubicConfig { initial_window: 1, ..CubicConfig::default() };
        let mut cubic = Cubic { cwnd: plateau, ..Cubic::new(config, 1000) };
        cubic.cut(plateau as u64 * 1000, FLOOR_LOSS);
        cubic.start_epoch(Instant::ZERO);
        cubic
    }

    /// RFC 9438 equations 1 and 2.
    #[test]
    fn the_curve_is_the_rfcs() {
        let cubic = after_cut(100.0);
        assert!((cubic.k - 4.217).abs() < 0.001);
        let table = [(0.0, 70.0), (1.0, 86.68), (2.0, 95.64), (cubic.k, 100.0), (6.0, 102.27), (8.0, 121.65)];
        for (seconds, window) in table {
            assert!((cubic.curve(Span::from_secs_f64(seconds)) - window).abs() < 0.01, "W({seconds})");
        }
        let large = after_cut(1000.0);
        assert!((large.k - 9.086).abs() < 0.001);
        for (seconds, window) in [(4.0, 947.39), (10.0, 1000.31)] {
            assert!((large.curve(Span::from_secs_f64(seconds)) - window).abs() < 0.01, "W({seconds})");
        }
    }

    /// RFC 9438 section 4.7: a second cut below the old plateau lowers the new one to 0.85 of the window.
    #[test]
    fn fast_convergence_lowers_the_plateau() {
        let mut cubic = after_cut(100.0);
        cubic.cut(70_000, FLOOR_LOSS);
        assert_eq!(cubic.plateau, 70.0 * 1.7 / 2.0);
        let mut selfish = Cubic { fast_convergence: false, ..after_cut(100.0) };
        selfish.cut(70_000, FLOOR_LOSS);
        assert_eq!(selfish.plateau, 70.0);
    }

    /// RFC 9438 section 4.3 with beta 0.7.
    #[test]
    fn reno_increase_is_0_529_until_the_old_window() {
        let mut cubic = after_cut(100.0);
        assert!((cubic.reno_increase() - 0.529).abs() < 0.001);
        cubic.reno_window = 100.0;
        assert_eq!(cubic.reno_increase(), 1.0);
    }

    /// Whether a cycle ends on the line of Reno, where it began with a cut of `largest` segments and the window has
    /// followed that line back to them.
    fn ends_reno_friendly(rtt: Span, largest: f64) -> bool {
        let mut cubic = after_cut(largest);
        let round_trips = (largest - cubic.reno_window) / cubic.reno_increase();
        (cubic.cwnd, cubic.reno_window) = (largest, largest);
        let sample = AckSample { smoothed_rtt: rtt, ..crate::congestion::tests::ack(0) };
        cubic.follow_curve(Span::from_secs_f64(round_trips * rtt.as_secs_f64()), &sample);
        cubic.cwnd == cubic.reno_window
    }

    /// RFC 9438 section 5.2: the mean window is 1.054 (RTT/p)^0.75, but no less than Reno's 1.22/sqrt(p): the first is
    /// larger from 52 segments on at a round trip of 100 ms, from 1654 at 10 ms, 5.2e4 at 1 ms and 1.7e6 at 100 us. The
    /// mean is 0.85 of the largest window. A cycle of Reno's line that much higher or lower by a tenth is over before
    /// the curve is back on its plateau, or after.
    #[test]
    fn the_reno_friendly_region_grows_as_round_trips_shrink() {
        for (rtt_us, border) in [(100_000, 52.0), (10_000, 1654.0), (1000, 5.2e4), (100, 1.7e6)] {
            let ends = |mean: f64| ends_reno_friendly(Span::from_us(rtt_us), mean / 0.85);
            assert!(ends(0.9 * border) && !ends(1.1 * border), "{rtt_us} us");
        }
    }
}
