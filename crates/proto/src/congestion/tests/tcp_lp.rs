use super::super::reno::RenoConfig;
use super::super::tcp_lp::{Extremes, TcpLp, TcpLpConfig};
use super::super::{AckSample, Cause, Congestion, CongestionControl};
use super::model::MSS;
use super::{ack, congestion};
use crate::time::{Instant, OneWayDelay, Span};

const SEGMENT: u64 = MSS as u64;
const RTT: Span = Span::from_us(100);

/// A flow whose acknowledgements are scripted; the clocks differ by `offset_ns`.
struct Flow {
    controller: TcpLp,
    now: Instant,
    offset_ns: i64,
}

impl Flow {
    fn new(config: TcpLpConfig, offset_ns: i64) -> Self {
        Self { controller: TcpLp::new(config, MSS), now: Instant::ZERO, offset_ns }
    }

    /// Smoothed delays are the samples.
    fn unsmoothed(extremes: Extremes, offset_ns: i64) -> Self {
        Self::new(TcpLpConfig { delay_weight: 1.0, delay_extremes: extremes, ..TcpLpConfig::default() }, offset_ns)
    }

    /// As the paper has it, with a window of 40 segments ten round trips after a loss, and delays from 50 to 150 us.
    fn in_avoidance() -> Self {
        let reno = RenoConfig { initial_window: 80, ..RenoConfig::default() };
        let mut flow = Self::new(TcpLpConfig { reno, delay_weight: 1.0, ..TcpLpConfig::default() }, 0);
        flow.sees(150.0);
        flow.sees(50.0);
        flow.controller.on_congestion(&congestion(Cause::Loss, 80 * SEGMENT));
        flow.later(10);
        flow
    }

    fn sees(&mut self, delay_us: f64) {
        let delay = OneWayDelay::from_ns((delay_us * 1_000.0) as i64 + self.offset_ns);
        let sample = AckSample { now: self.now, smoothed_rtt: RTT, rtt: Some(RTT), delay: Some(delay), ..ack(0) };
        self.controller.on_ack(&sample);
    }

    fn acked(&mut self, delay_us: f64) {
        let delay = OneWayDelay::from_ns((delay_us * 1_000.0) as i64 + self.offset_ns);
        let acked = self.controller.window();
        let sample = AckSample { now: self.now, smoothed_rtt: RTT, rtt: Some(RTT), delay: Some(delay), ..ack(acked) };
        self.controller.on_ack(&sample);
    }

    fn later(&mut self, rtts: u64) {
        self.now = self.now.after(RTT.times(rtts));
    }

    fn segments(&self) -> u64 {
        self.controller.window() / SEGMENT
    }
}

const OFFSETS_NS: [i64; 5] = [0, -1_000_000, 5_000_000_000, i32::MAX as i64 - 100_000, -7_000_000_000_000];

#[test]
fn stays_small() {
    assert!(size_of::<TcpLp>() <= 128);
}

/// Between 50 and 150 us the threshold of 0.15 is at 65 us. With weight 1 the smoothed delay is the sample.
#[test]
fn yields_above_the_threshold_whatever_the_clocks() {
    for offset_ns in OFFSETS_NS {
        for (delay_us, cut) in [(64.9, false), (65.0, false), (65.1, true)] {
            let mut flow = Flow::unsmoothed(Extremes::Paper, offset_ns);
            flow.sees(150.0);
            flow.sees(50.0);
            flow.controller.on_congestion(&congestion(Cause::Loss, 20 * SEGMENT));
            flow.later(2);
            flow.sees(delay_us);
            assert_eq!(flow.segments(), if cut { 5 } else { 10 }, "{delay_us} us, offset {offset_ns} ns");
        }
    }
}

/// Gamma of 1/8: 50 us and three times 100 us are 66.5 us, two times 61.7 us.
#[test]
fn the_delay_is_smoothed() {
    for offset_ns in OFFSETS_NS {
        let mut flow = Flow::new(TcpLpConfig::default(), offset_ns);
        flow.sees(50.0);
        flow.sees(150.0);
        (0..200).for_each(|_| flow.sees(50.0));
        flow.controller.on_congestion(&congestion(Cause::Loss, 20 * SEGMENT));
        flow.later(2);
        for segments in [10, 10, 5] {
            flow.sees(100.0);
            assert_eq!(flow.segments(), segments);
        }
    }
}

/// The pseudo-code of section III: two indications two round trips apart leave one segment, four apart halve twice.
#[test]
fn a_second_indication_within_three_round_trips_leaves_one_segment() {
    for (rtts, segments) in [(2, 1), (4, 10)] {
        let mut flow = Flow::in_avoidance();
        assert_eq!(flow.segments(), 40);
        flow.sees(100.0);
        assert_eq!(flow.segments(), 20);
        flow.later(rtts);
        flow.sees(100.0);
        assert_eq!(flow.segments(), segments, "{rtts} round trips later");
    }
}

/// Section III: reacts at most once per round trip, a loss included.
#[test]
fn indications_within_a_round_trip_of_a_reaction_are_ignored() {
    let mut flow = Flow::in_avoidance();
    (0..5).for_each(|_| flow.sees(100.0));
    assert_eq!(flow.segments(), 20);
    let mut flow = Flow::in_avoidance();
    flow.controller.on_congestion(&Congestion { now: flow.now, ..congestion(Cause::Loss, 40 * SEGMENT) });
    flow.sees(100.0);
    assert_eq!(flow.segments(), 20);
    flow.later(1);
    flow.sees(100.0);
    assert_eq!(flow.segments(), 10);
}

/// During inference nothing grows; afterwards Reno's segment per round trip.
#[test]
fn the_window_grows_again_after_inference() {
    let mut flow = Flow::in_avoidance();
    flow.sees(100.0);
    assert_eq!(flow.segments(), 20);
    for segments in [20, 20, 21, 22] {
        flow.later(1);
        flow.acked(50.0);
        assert_eq!(flow.segments(), segments);
    }
}

/// Slow start only collects delays: a first flow's own queue must not look like others'.
#[test]
fn slow_start_goes_on_until_the_first_congestion() {
    let mut flow = Flow::new(TcpLpConfig::default(), 0);
    for round in 0..5 {
        flow.acked(50.0 + 100.0 * f64::from(round));
        flow.later(1);
    }
    assert_eq!((flow.segments(), flow.controller.ssthresh()), (15, u64::MAX), "a segment per acknowledgement");
}

/// Linux: the greatest delay is left out (the second greatest counts), and a cut makes the smoothed delay the least and
/// puts the greatest the path's own delay above: a delay that stays is no further indication.
#[test]
fn linux_leaves_out_the_greatest_and_restarts_after_a_cut() {
    for offset_ns in OFFSETS_NS {
        // The second sample is an indication, since nothing greater than the first counts: from now on the least is
        // 50 us, and the path's part of it RTT - RTT / 2 = 50 us, so that 100 us is the greatest.
        let mut flow = Flow::unsmoothed(Extremes::Linux, offset_ns);
        flow.sees(40.0);
        flow.sees(50.0);
        assert_eq!(flow.segments(), 5);
        (0..8).for_each(|_| flow.sees(50.0));
        for (delay_us, segments) in [(57.4, 5), (57.6, 2)] {
            flow.later(10);
            flow.sees(delay_us);
            assert_eq!(flow.segments(), segments, "{delay_us} us, offset {offset_ns} ns");
        }
        // Anew from 57.6 and 107.6 us. 150 us is an outlier, and 200 us puts it in its place; both indicate as well,
        // and start over: the same delay again is no indication.
        for (delay_us, segments) in [(150.0, 1), (150.0, 1), (157.4, 1), (200.0, 1)] {
            flow.later(10);
            flow.sees(delay_us);
            assert_eq!(flow.segments(), segments);
        }
    }
}

/// Losses are Reno's, but never raise a window that indications have left below two segments.
#[test]
fn losses_halve_and_timeouts_collapse() {
    let mut flow = Flow::in_avoidance();
    flow.controller.on_congestion(&congestion(Cause::Loss, 40 * SEGMENT));
    assert_eq!(flow.segments(), 20);
    flow.controller.on_congestion(&congestion(Cause::Timeout, 20 * SEGMENT));
    assert_eq!((flow.segments(), flow.controller.ssthresh()), (1, 10 * SEGMENT));
    flow.controller.on_congestion(&congestion(Cause::Loss, SEGMENT));
    assert_eq!(flow.segments(), 1);
}
