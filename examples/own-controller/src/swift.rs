//! Swift (Kumar et al., "Swift: Delay is Simple and Effective for Congestion Control in the Datacenter", SIGCOMM 2020).
//!
//! Two windows follow two delays: one that of the fabric, one that of the remote host. The flow uses the smaller. Each
//! grows by additive increase while its delay is below its target, and shrinks in proportion to the excess, once per
//! round trip (section 3.1, algorithm 1). The fabric's target grows with the hops of the path and shrinks with the window
//! (section 3.5). A window below one packet is paced (section 3.4).

use pliant_proto::congestion::{
    AckSample, AnyController, Cause, Congestion, CongestionControl, ControllerSettings, EcnMode,
};
use pliant_proto::contract::Contract;
use pliant_proto::settings;
use pliant_proto::settings::Range;
use pliant_proto::time::{Instant, Span};

settings! {
    /// Settings of Swift.
    #[derive(Clone, Copy, PartialEq, Debug)]
    pub struct SwiftConfig {
        /// Initial window in segments.
        pub initial_window: u16 = 10 => [range: Range::from(1).of("segment"), source: "RFC 6928"],
        /// Target of the fabric delay on a path without hops, for large windows.
        pub base_target: Span = Span::from_us(25) => [range: Range::above(Span::ZERO), source: "SIGCOMM 2020, 3.5"],
        /// What each hop adds to that target.
        pub hop_target: Span = Span::from_us(1) => [source: "SIGCOMM 2020, 3.5"],
        /// Most that a small window adds to that target.
        pub flow_range: Span = Span::from_us(50) => [source: "SIGCOMM 2020, 3.5"],
        /// Target of the time for which the remote host holds packets. It must exceed the longest delay of an
        /// acknowledgement.
        pub host_target: Span = Span::from_ms(1) => [range: Range::above(Span::ZERO), source: "SIGCOMM 2020, 3.3"],
        /// Additive increase in segments per round trip (ai).
        pub increase: f64 = 1.0 => [range: Range::above(0.0), source: "SIGCOMM 2020, algorithm 1"],
        /// Share of the relative excess by which a window shrinks (beta).
        pub decrease: f64 = 0.8 => [range: Range::above_to(0.0, 1.0), source: "SIGCOMM 2020, algorithm 1"],
        /// Most by which a window shrinks at once (max_mdf).
        pub most_decrease: f64 = 0.5 => [range: Range::open(0.0, 1.0), source: "SIGCOMM 2020, algorithm 1"],
        /// Least window in segments.
        pub min_window: f64 = 0.01 => [range: Range::above_to(0.0, 1.0), source: "SIGCOMM 2020, 3.4"],
    }
}

impl ControllerSettings for SwiftConfig {
    fn controller(&self, mss: u16, _: &Contract) -> AnyController {
        AnyController::foreign(Swift::new(*self, mss))
    }
}

/// Windows between which the fabric's target grows as they shrink, in segments (fs_min_cwnd, fs_max_cwnd).
const FLOW_SCALING: (f64, f64) = (0.1, 100.0);
/// Largest window, in segments.
const MAX_WINDOW: f64 = 10_000.0;
/// Timeouts in a row after which the window is the least.
const RESET_TIMEOUTS: u32 = 5;

/// A window that follows one delay.
#[derive(Clone, Copy, Debug)]
struct DelayWindow {
    segments: f64,
    decreased_at: Option<Instant>,
}

impl DelayWindow {
    fn new(segments: f64) -> Self {
        Self { segments, decreased_at: None }
    }

    fn on_ack(&mut self, config: &SwiftConfig, sample: &AckSample, acked: f64, delay: Span, target: Span) {
        if delay < target {
            if sample.window_limited && !sample.in_recovery {
                self.segments += config.increase * acked / self.segments.max(1.0);
            }
        } else {
            let (delay, target) = (delay.as_secs_f64(), target.as_secs_f64());
            self.cut(config, sample.now, sample.smoothed_rtt, config.decrease * (delay - target) / delay);
        }
        self.segments = self.segments.clamp(config.min_window, MAX_WINDOW);
    }

    /// Shrinks by `share`, at most once per round trip.
    fn cut(&mut self, config: &SwiftConfig, now: Instant, round_trip: Span, share: f64) {
        if self.decreased_at.is_none_or(|at| now >= at.after(round_trip)) {
            self.segments = (self.segments * (1.0 - share.min(config.most_decrease))).max(config.min_window);
            self.decreased_at = Some(now);
        }
    }
}

/// The controller of Swift.
#[derive(Clone, Debug)]
struct Swift {
    config: SwiftConfig,
    mss: f64,
    hops: u8,
    fabric: DelayWindow,
    host: DelayWindow,
    smoothed_rtt: Span,
    timeouts: u32,
}

impl Swift {
    fn new(config: SwiftConfig, mss: u16) -> Self {
        let window = DelayWindow::new(config.initial_window.into());
        let (mss, fabric, host) = (mss.into(), window, window);
        Self { config, mss, hops: 0, fabric, host, smoothed_rtt: Span::ZERO, timeouts: 0 }
    }

    /// Target of the fabric delay: more for long paths and for small windows.
    fn fabric_target(&self) -> Span {
        let (least, most) = FLOW_SCALING;
        let root = |window: f64| 1.0 / window.sqrt();
        let small = (root(self.fabric.segments) - root(most)) / (root(least) - root(most));
        let added = self.config.flow_range.as_secs_f64() * small.clamp(0.0, 1.0);
        let hops = self.config.hop_target.times(self.hops.into());
        self.config.base_target.plus(hops).plus(Span::from_ns((added * 1e9) as u64))
    }
}

impl CongestionControl for Swift {
    fn on_ack(&mut self, sample: &AckSample) {
        self.smoothed_rtt = sample.smoothed_rtt;
        let acked = sample.acked as f64 / self.mss;
        if sample.acked > 0 {
            self.timeouts = 0;
        }
        if let Some(delay) = sample.fabric_delay() {
            let target = self.fabric_target();
            self.fabric.on_ack(&self.config, sample, acked, delay, target);
        }
        if let Some(delay) = sample.hold {
            self.host.on_ack(&self.config, sample, acked, delay, self.config.host_target);
        }
    }

    fn on_congestion(&mut self, event: &Congestion) {
        let windows = [&mut self.fabric, &mut self.host];
        if event.cause == Cause::Timeout {
            self.timeouts += 1;
        }
        for window in windows {
            if self.timeouts >= RESET_TIMEOUTS {
                window.segments = self.config.min_window;
            } else {
                window.cut(&self.config, event.now, self.smoothed_rtt, 1.0);
            }
        }
    }

    fn window(&self) -> u64 {
        ((self.fabric.segments.min(self.host.segments) * self.mss) as u64).max(1)
    }

    fn ssthresh(&self) -> u64 {
        self.window()
    }

    fn ecn_mode(&self) -> EcnMode {
        EcnMode::Off
    }

    fn needs_hold_time(&self) -> bool {
        true
    }

    fn needs_pacing(&self) -> bool {
        true
    }

    fn set_hops(&mut self, hops: u8) {
        self.hops = hops;
    }
}
