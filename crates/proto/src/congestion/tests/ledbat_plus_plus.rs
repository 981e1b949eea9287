use super::super::delay_history::DelayHistoryConfig;
use super::super::ledbat_plus_plus::{LedbatPlusPlus, LedbatPlusPlusConfig};
use super::super::{AckSample, Cause, CongestionControl};
use super::model::MSS;
use super::{ack, assert_near, congestion};
use crate::time::{Instant, Span};

const SEGMENT: u64 = MSS as u64;
const BASE: Span = Span::from_us(100);

/// A target of 50 us over a path of 100 us: GAIN is 1. The filter looks at one sample.
fn near() -> LedbatPlusPlusConfig {
    let history = DelayHistoryConfig { noise_filter: 1, ..DelayHistoryConfig::default() };
    LedbatPlusPlusConfig { target: Span::from_us(50), history, ..LedbatPlusPlusConfig::default() }
}

/// A flow with the time its acknowledgements come at.
struct Flow {
    controller: LedbatPlusPlus,
    now: Instant,
}

impl Flow {
    fn new(config: LedbatPlusPlusConfig) -> Self {
        Self { controller: LedbatPlusPlus::new(config, MSS), now: Instant::ZERO }
    }

    /// Out of slow start with a window of `segments`, and without slowdowns.
    fn in_avoidance(segments: u16) -> Self {
        let mut flow = Self::new(LedbatPlusPlusConfig { initial_window: segments, slowdowns: false, ..near() });
        flow.acked(0, 0);
        flow.acked(1, 40);
        assert_eq!(flow.controller.ssthresh(), u64::from(segments) * SEGMENT);
        flow
    }

    fn acked(&mut self, segments: u64, queueing_us: u64) {
        let rtt = BASE.plus(Span::from_us(queueing_us));
        let sample = AckSample { now: self.now, rtt: Some(rtt), smoothed_rtt: BASE, ..ack(segments * SEGMENT) };
        self.controller.on_ack(&sample);
    }

    /// The next of a window's worth of acknowledgements per base round trip.
    fn step(&mut self, queueing_us: u64) {
        let segments = self.controller.window() / SEGMENT;
        self.now = self.now.after(BASE.divided_by(segments));
        self.acked(1, queueing_us);
    }

    /// A window's worth of acknowledgements.
    fn round(&mut self, queueing_us: u64) {
        let segments = self.controller.window() / SEGMENT;
        (0..segments).for_each(|_| self.step(queueing_us));
    }

    fn segments(&self) -> f64 {
        self.controller.window() as f64 / SEGMENT as f64
    }
}

#[test]
fn stays_small() {
    assert!(size_of::<LedbatPlusPlus>() <= 160, "{}", size_of::<LedbatPlusPlus>());
}

/// The draft, section 4.2: GAIN = 1 / min(16, ceil(2 · TARGET / base)) with TARGET = 60 ms.
#[test]
fn gain_follows_the_base_delay() {
    for (base_ms, divisor) in [(1, 16.0), (5, 16.0), (10, 12.0), (30, 4.0), (60, 2.0), (120, 1.0), (500, 1.0)] {
        let mut controller = LedbatPlusPlus::new(LedbatPlusPlusConfig::default(), MSS);
        controller.on_ack(&AckSample { rtt: Some(Span::from_ms(base_ms)), ..ack(0) });
        assert_eq!(controller.gain(), 1.0 / divisor, "{base_ms} ms");
    }
}

/// Section 4.3: below the target GAIN segments per round trip; above, GAIN - W (queueing/target - 1), at most W/2 down.
#[test]
fn the_window_changes_by_the_draft_s_law() {
    for (queueing_us, change) in [(0, 1.0), (49, 1.0), (50, 1.0), (55, -9.0), (60, -19.0), (1000, -50.0)] {
        let mut flow = Flow::in_avoidance(100);
        let delay = Span::from_us(queueing_us).plus(BASE);
        // All at once: spread over the round the window would shrink meanwhile.
        flow.controller.on_ack(&AckSample { rtt: Some(delay), ..ack(100 * SEGMENT) });
        assert_near(flow.segments(), 100.0 + change, 1e-3);
    }
}

/// Section 4.1: slow start adds GAIN segments per segment and ends above three quarters of the target.
#[test]
fn slow_start_grows_by_gain_and_ends_below_the_target() {
    // 2 · 100 / 100: GAIN is a half.
    let mut flow = Flow::new(LedbatPlusPlusConfig { target: Span::from_us(100), initial_window: 8, ..near() });
    flow.round(0);
    assert_eq!(flow.segments(), 12.0);
    flow.round(75);
    assert_eq!((flow.segments(), flow.controller.ssthresh()), (18.0, u64::MAX));
    flow.acked(1, 76);
    assert_eq!(flow.controller.ssthresh(), 18 * SEGMENT);
}

/// Section 4.4: two round trips after slow start a slowdown begins: two segments for two round trips, then slow start
/// back to the old window; the next one comes nine times its length later, and takes a tenth of the time.
#[test]
fn slowdowns_take_a_tenth_of_the_time() {
    let mut flow = Flow::new(LedbatPlusPlusConfig { initial_window: 16, ..near() });
    flow.acked(0, 0);
    flow.acked(1, 40);
    let left_slow_start = flow.now;
    let next_change = |flow: &mut Flow, slowing_down: bool| {
        while flow.controller.is_slowing_down() != slowing_down {
            flow.step(0);
            assert!(flow.now < Instant::ZERO.after(Span::from_ms(100)));
        }
        flow.now
    };
    let began = next_change(&mut flow, true);
    assert_near(began.since(left_slow_start).as_us_f64(), 200.0, 0.05);
    let before = flow.controller.ssthresh();
    assert!((17..=19).contains(&(before / SEGMENT)));
    while flow.now < began.after(BASE.times(2)) {
        assert_eq!(flow.segments(), 2.0);
        flow.step(0);
    }
    let mut ended = next_change(&mut flow, false);
    assert_eq!(flow.controller.ssthresh(), before);
    // Two round trips of two segments, then exponential growth from 2 to 18: ln 9 of them.
    let mut length = ended.since(began).as_us_f64();
    assert_near(length, 200.0 + 100.0 * 9f64.ln(), 0.1);
    for _ in 0..3 {
        let began = next_change(&mut flow, true);
        assert_near(began.since(ended).as_us_f64(), 9.0 * length, 0.01);
        ended = next_change(&mut flow, false);
        length = ended.since(began).as_us_f64();
    }
}

/// A loss halves; during a slowdown it halves what slow start leads back to; a timeout leaves one segment. The first
/// slow start is over.
#[test]
fn congestion_cuts() {
    let mut flow = Flow::in_avoidance(40);
    flow.controller.on_congestion(&congestion(Cause::Loss, 40 * SEGMENT));
    assert_eq!((flow.segments(), flow.controller.ssthresh()), (20.0, 20 * SEGMENT));
    flow.controller.on_congestion(&congestion(Cause::Timeout, 20 * SEGMENT));
    assert_eq!((flow.segments(), flow.controller.ssthresh()), (1.0, 10 * SEGMENT));
    (0..5).for_each(|_| flow.round(45));
    assert!((10.0..=12.0).contains(&flow.segments()), "back to ssthresh, beyond three quarters of the target");

    let mut flow = Flow::new(LedbatPlusPlusConfig { initial_window: 16, ..near() });
    flow.acked(0, 0);
    flow.controller.on_congestion(&congestion(Cause::Loss, 16 * SEGMENT));
    assert_eq!((flow.segments(), flow.controller.ssthresh()), (8.0, 8 * SEGMENT));
    while !flow.controller.is_slowing_down() {
        flow.step(0);
    }
    let goal = flow.controller.ssthresh();
    flow.controller.on_congestion(&congestion(Cause::Loss, 2 * SEGMENT));
    assert_eq!((flow.segments(), flow.controller.ssthresh()), (2.0, goal / 2));
}
