use super::super::ledbat::{Ledbat, LedbatConfig};
use super::super::{AckSample, Cause, Congestion, CongestionControl};
use super::model::MSS;
use super::{ack, congestion};
use crate::time::{OneWayDelay, Span};

const SEGMENT: u64 = MSS as u64;

/// TARGET of 100 us; the filter looks at one sample, so that each sample is the delay.
fn near() -> LedbatConfig {
    let history = super::super::delay_history::DelayHistoryConfig { noise_filter: 1, ..Default::default() };
    LedbatConfig { target: Span::from_us(100), history, ..LedbatConfig::default() }
}

fn with_window(config: LedbatConfig, segments: u16) -> Ledbat {
    let mut ledbat = Ledbat::new(LedbatConfig { initial_window: segments, ..config }, MSS);
    ledbat.on_ack(&AckSample { delay: Some(OneWayDelay::from_ns(0)), ..ack(0) });
    ledbat
}

/// The window in segments after a window's worth of acknowledgements, each for a segment, with this queueing delay.
fn after_a_round(mut ledbat: Ledbat, queueing_us: i64) -> f64 {
    let segments = ledbat.window() / SEGMENT;
    let delay = Some(OneWayDelay::from_ns(queueing_us * 1_000));
    for _ in 0..segments {
        ledbat.on_ack(&AckSample { delay, flight: ledbat.window(), ..ack(SEGMENT) });
    }
    ledbat.window() as f64 / SEGMENT as f64
}

#[test]
fn stays_small() {
    assert!(size_of::<Ledbat>() <= 152, "{}", size_of::<Ledbat>());
}

/// RFC 6817 section 2.4.2: GAIN · off_target segments per round trip, up and down.
#[test]
fn the_window_follows_the_distance_to_the_target() {
    for (gain, queueing_us, change) in
        [(1.0, 0, 1.0), (1.0, 50, 0.5), (1.0, 100, 0.0), (1.0, 150, -0.5), (1.0, 300, -2.0), (0.5, 0, 0.5)]
    {
        let after = after_a_round(with_window(LedbatConfig { gain, ..near() }, 100), queueing_us);
        // The window that a change is spread over changes with it.
        assert!((after - 100.0 - change).abs() <= 0.03, "{gain} {queueing_us} {after}");
    }
}

/// RFC 6817: INIT_CWND and MIN_CWND are two segments; a queue however long leaves that.
#[test]
fn the_minimum_window_stays() {
    let mut ledbat = Ledbat::new(near(), MSS);
    assert_eq!(ledbat.window(), 2 * SEGMENT);
    ledbat.on_ack(&AckSample { delay: Some(OneWayDelay::from_ns(0)), ..ack(SEGMENT) });
    assert_eq!(after_a_round(ledbat, 100_000), 2.0);
}

/// RFC 6817: a loss halves, but leaves two segments; a timeout leaves one, and the next acknowledgement two again.
#[test]
fn congestion_cuts_as_the_rfc_says() {
    let mut ledbat = with_window(near(), 10);
    ledbat.on_congestion(&congestion(Cause::Loss, 10 * SEGMENT));
    assert_eq!(ledbat.window(), 5 * SEGMENT);
    (0..3).for_each(|_| ledbat.on_congestion(&congestion(Cause::Loss, 10 * SEGMENT)));
    assert_eq!(ledbat.window(), 2 * SEGMENT);
    ledbat.on_congestion(&congestion(Cause::Timeout, 2 * SEGMENT));
    assert_eq!(ledbat.window(), SEGMENT);
    ledbat.on_congestion(&Congestion { first: false, ..congestion(Cause::Loss, SEGMENT) });
    assert_eq!(ledbat.window(), SEGMENT, "a loss raises nothing");
    ledbat.on_ack(&AckSample { delay: Some(OneWayDelay::from_ns(0)), ..ack(SEGMENT) });
    assert_eq!(ledbat.window(), 2 * SEGMENT);
}

/// RFC 6817's ALLOWED_INCREASE: while the application is the limit, the window is no more than the flight and one
/// segment.
#[test]
fn an_idle_window_shrinks_to_what_is_used() {
    let mut ledbat = with_window(near(), 40);
    ledbat.on_ack(&AckSample { flight: 9 * SEGMENT, window_limited: false, ..ack(SEGMENT) });
    assert_eq!(ledbat.window(), 10 * SEGMENT);
    ledbat.on_ack(&AckSample { flight: 0, window_limited: false, ..ack(SEGMENT) });
    assert_eq!(ledbat.window(), 2 * SEGMENT);
}

/// With slow start the window doubles each round trip until the queue is at the target.
#[test]
fn slow_start_ends_at_the_target() {
    let mut ledbat = with_window(LedbatConfig { slow_start: true, ..near() }, 2);
    let sample = |us: i64| AckSample { delay: Some(OneWayDelay::from_ns(us * 1_000)), ..ack(SEGMENT) };
    (0..2).for_each(|_| ledbat.on_ack(&sample(0)));
    (0..4).for_each(|_| ledbat.on_ack(&sample(99)));
    assert_eq!((ledbat.window(), ledbat.ssthresh()), (8 * SEGMENT, u64::MAX));
    ledbat.on_ack(&sample(100));
    assert_eq!((ledbat.window(), ledbat.ssthresh()), (8 * SEGMENT, 8 * SEGMENT));
    ledbat.on_congestion(&congestion(Cause::Timeout, 8 * SEGMENT));
    assert_eq!((ledbat.window(), ledbat.ssthresh()), (SEGMENT, 4 * SEGMENT));
}

/// Only differences of delays count: the sender's clock ahead, behind, and a delay that wraps.
#[test]
fn clocks_need_not_agree() {
    let window = |offset_ns: i64| {
        let mut ledbat = Ledbat::new(LedbatConfig { initial_window: 50, ..near() }, MSS);
        for us in [0, 30, 170, 60, 240, 10] {
            let delay = Some(OneWayDelay::from_ns(us * 1_000 + offset_ns));
            ledbat.on_ack(&AckSample { delay, ..ack(5 * SEGMENT) });
        }
        ledbat
    };
    for offset_ns in [1, -50_000, 3_000_000_000, -86_400_000_000_000] {
        let (here, there) = (window(0), window(offset_ns));
        assert_eq!((here.window(), here.queueing_delay()), (there.window(), there.queueing_delay()));
    }
}
