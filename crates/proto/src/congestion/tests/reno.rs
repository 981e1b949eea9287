//! Reno's controller alone: its square-root law where each loss is repaired at once, so that nothing but growth and cuts
//! decides. The simulator's `loss_rate` tests hold the whole sender, its recovery included, against the same law.

use super::super::reno::{Counting, Reno, RenoConfig, RenoGrowth};
use super::super::{AckSample, Cause, Congestion, CongestionControl};
use super::model::{LossyPath, MSS, Sender};
use super::{ack, assert_near, congestion};
use crate::rng::Stream;
use crate::time::Span;

const SEGMENT: u64 = MSS as u64;

fn reno() -> Reno {
    Reno::new(RenoConfig::default(), MSS)
}

/// A controller in avoidance with a window of `segments`.
fn in_avoidance(segments: u64) -> Reno {
    let mut reno = reno();
    reno.on_congestion(&congestion(Cause::Loss, 2 * segments * SEGMENT));
    reno
}

#[test]
fn fits_a_cache_line_with_room() {
    assert!(size_of::<Reno>() <= 48);
}

/// RFC 4015: after a loss that was none slow start leads back to the window, the first one goes on.
#[test]
fn a_spurious_loss_is_taken_back() {
    let mut reno = in_avoidance(20);
    reno.on_congestion(&congestion(Cause::Loss, 20 * SEGMENT));
    reno.on_spurious_loss(20 * SEGMENT);
    assert_eq!((reno.window(), reno.ssthresh()), (10 * SEGMENT, 20 * SEGMENT));
    let mut started = self::reno();
    started.on_congestion(&congestion(Cause::Loss, 10 * SEGMENT));
    started.on_spurious_loss(u64::MAX);
    assert_eq!((started.window(), started.ssthresh()), (5 * SEGMENT, u64::MAX));
}

/// RFC 5681 section 3.1: slow start grows by what was acknowledged, at most a segment per acknowledgement.
#[test]
fn slow_start_grows_by_acked_bytes_up_to_a_segment() {
    let mut reno = reno();
    assert_eq!(reno.window(), 10 * SEGMENT);
    reno.on_ack(&ack(SEGMENT));
    reno.on_ack(&ack(300));
    reno.on_ack(&ack(5 * SEGMENT));
    assert_eq!(reno.window(), 12 * SEGMENT + 300);
}

/// `tcp_slow_start` and `tcp_reno_ssthresh`: all that is acknowledged counts as far as ssthresh, and the rest in avoidance. Half
/// of the window remains, in whole segments.
#[test]
fn linux_counts_all_that_is_acknowledged() {
    let config = RenoConfig { initial_window: 25, reno_growth: RenoGrowth::Linux, ..RenoConfig::default() };
    let mut reno = Reno::new(config, MSS);
    reno.on_ack(&ack(5 * SEGMENT + 1));
    assert_eq!(reno.window(), 31 * SEGMENT, "a packet shorter than a segment counts as one");
    reno.on_congestion(&congestion(Cause::Timeout, 9 * SEGMENT));
    assert_eq!((reno.window(), reno.ssthresh()), (SEGMENT, 15 * SEGMENT));
    reno.on_ack(&ack(20 * SEGMENT));
    assert_eq!(reno.window(), 15 * SEGMENT);
    reno.on_ack(&ack(9 * SEGMENT));
    assert_eq!(reno.window(), 16 * SEGMENT, "6 segments were left of slow start");
}

/// Avoidance adds one segment per window of bytes and carries the remainder over.
#[test]
fn avoidance_adds_a_segment_per_window_of_bytes() {
    let mut reno = in_avoidance(10);
    (0..9).for_each(|_| reno.on_ack(&ack(SEGMENT)));
    assert_eq!(reno.window(), 10 * SEGMENT);
    reno.on_ack(&ack(SEGMENT + 400));
    assert_eq!(reno.window(), 11 * SEGMENT);
    (0..10).for_each(|_| reno.on_ack(&ack(SEGMENT)));
    assert_eq!(reno.window(), 11 * SEGMENT);
    reno.on_ack(&ack(600));
    assert_eq!(reno.window(), 12 * SEGMENT, "the 400 bytes count");
}

/// Nothing grows in recovery, on duplicates, on ECE, or while the application limits the sender.
#[test]
fn only_new_acknowledgements_of_a_limited_sender_grow_the_window() {
    let mut reno = reno();
    reno.on_ack(&ack(0));
    reno.on_ack(&AckSample { in_recovery: true, ..ack(SEGMENT) });
    reno.on_ack(&AckSample { window_limited: false, ..ack(SEGMENT) });
    reno.on_ack(&AckSample { ece: true, ..ack(SEGMENT) });
    assert_eq!(reno, self::reno());
}

/// RFC 5681 equation 4 and section 3.1; RFC 6582 section 3.2 step 3.
#[test]
fn congestion_cuts_as_the_rfc_says() {
    let mut reno = reno();
    reno.on_congestion(&congestion(Cause::Loss, 9 * SEGMENT));
    assert_eq!((reno.window(), reno.ssthresh()), (4500, 4500));
    reno.on_recovered(2 * SEGMENT);
    assert_eq!(reno.window(), 3 * SEGMENT, "a small flight allows no burst");
    reno.on_congestion(&congestion(Cause::Timeout, 8 * SEGMENT));
    assert_eq!((reno.window(), reno.ssthresh()), (SEGMENT, 4 * SEGMENT));
    reno.on_congestion(&Congestion { first: false, ..congestion(Cause::Timeout, SEGMENT) });
    assert_eq!(reno.ssthresh(), 4 * SEGMENT, "only a segment's first timeout sets ssthresh");
    reno.on_congestion(&congestion(Cause::Ecn, SEGMENT));
    assert_eq!(reno.window(), 2 * SEGMENT, "never below two segments");
}

/// RFC 5681 section 4.1: idleness shrinks a large window to the initial one and leaves a small one.
#[test]
fn idle_restarts_from_the_initial_window() {
    let mut reno = in_avoidance(40);
    reno.on_idle();
    assert_eq!((reno.window(), reno.ssthresh()), (10 * SEGMENT, 40 * SEGMENT));
    let mut small = in_avoidance(3);
    small.on_idle();
    assert_eq!(small.window(), 3 * SEGMENT);
}

/// Mean window times √p when every `period`-th packet is lost.
fn constant_of_periodic_loss(config: RenoConfig, segments_per_ack: usize, period: u64) -> f64 {
    let path = LossyPath { rtt: Span::from_ms(10), segments_per_ack };
    let mut sender = Sender::new(Reno::new(config, MSS));
    let mean = path.mean_cwnd(&mut sender, 20 * period, 60 * period, |packet, _| packet % period == period - 1);
    mean / (period as f64).sqrt()
}

/// Mathis et al. 1997: √(3/2)/√p under periodic loss; a round trip of recovery costs a little at small windows.
#[test]
fn periodic_loss_gives_1_22_over_root_p() {
    for (period, expected) in [(1_000, 1.201), (10_000, 1.217), (100_000, 1.222)] {
        assert_near(constant_of_periodic_loss(RenoConfig::default(), 1, period), expected, 0.01);
    }
}

/// Independent losses let some windows grow far: 1.31/√p.
#[test]
fn random_loss_gives_1_31_over_root_p() {
    let path = LossyPath { rtt: Span::from_ms(10), segments_per_ack: 1 };
    let mut stream = Stream::named(1, "loss");
    let mean = path.mean_cwnd(&mut Sender::new(reno()), 10_000, 20_000_000, |_, _| stream.below(1_000) == 0);
    assert_near(mean / 1_000f64.sqrt(), 1.31, 0.02);
}

/// With one acknowledgement for two segments, counting acknowledgements halves the growth and costs √2; counting
/// bytes costs nothing.
#[test]
fn delayed_acknowledgements_cost_root_two_without_byte_counting() {
    let by_acks = RenoConfig { counting: Counting::Acks, ..RenoConfig::default() };
    assert_near(constant_of_periodic_loss(by_acks, 1, 10_000), 1.217, 0.01);
    assert_near(constant_of_periodic_loss(by_acks, 2, 10_000), 1.22 / 2f64.sqrt(), 0.02);
    assert_near(constant_of_periodic_loss(RenoConfig::default(), 2, 10_000), 1.217, 0.01);
}
