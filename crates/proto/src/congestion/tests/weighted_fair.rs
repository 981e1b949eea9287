use alloc::vec::Vec;

use super::super::weighted_fair::{WeightedFair, WeightedFairConfig};
use super::super::{AckSample, Cause, CongestionControl};
use super::model::{Bottleneck, MSS, Observed};
use super::{ack, assert_near, congestion};
use crate::time::Span;

const SEGMENT: u64 = MSS as u64;
const SLOT: Span = Span::from_us(1);

fn with_weight(weight: f64) -> WeightedFair {
    WeightedFair::new(WeightedFairConfig { weight, ..WeightedFairConfig::default() }, MSS)
}

/// A bottleneck with 80 packets of propagation delay that marks at 30, as in the paper's micro-benchmarks.
fn bottleneck(weights: impl Iterator<Item = f64>) -> Bottleneck<WeightedFair> {
    with_pipe(80, weights)
}

fn with_pipe(rtt: u64, weights: impl Iterator<Item = f64>) -> Bottleneck<WeightedFair> {
    let mut bottleneck = Bottleneck::new(weights.map(with_weight), rtt, SLOT, 30);
    // Without it the flows' phases lock, and one keeps meeting the other's marks.
    bottleneck.jitter = 4;
    bottleneck
}

/// Runs past the start, then measures; also the mean alpha of the first sender.
fn steady(bottleneck: &mut Bottleneck<WeightedFair>) -> (Observed, f64) {
    bottleneck.run(200_000, |_| {});
    let (mut alphas, slots) = (0.0, 1_000_000);
    let seen = bottleneck.run(slots, |senders| alphas += senders[0].controller.alpha());
    (seen, alphas / slots as f64)
}

#[test]
fn stays_small() {
    assert!(size_of::<WeightedFair>() <= 112);
}

/// A marked segment moves the window by 1/W − alpha/(2 theta), an unmarked one by 1/W; slow start ends at the mark.
#[test]
fn each_marked_segment_cuts() {
    let mut controller = with_weight(2.0);
    controller.on_ack(&ack(2 * SEGMENT));
    assert_eq!((controller.window(), controller.ssthresh()), (12 * SEGMENT, u64::MAX));
    let cut = controller.alpha() / 4.0;
    controller.on_ack(&AckSample { ece: true, ..ack(SEGMENT) });
    let expected = 12.0 + 1.0 / 12.0 - cut;
    assert_eq!((controller.cwnd(), controller.window()), (expected, 12 * SEGMENT));
    controller.on_ack(&ack(SEGMENT));
    assert_eq!(controller.cwnd(), expected + 1.0 / expected);
}

/// A changed weight takes effect with the next mark, without a burst; nonsense is ignored.
#[test]
fn weights_change_without_a_burst() {
    let mut controller = with_weight(1.0);
    let before = controller.window();
    controller.set_weight(4.0);
    assert_eq!(controller.window(), before);
    controller.set_weight(f64::NAN);
    assert_eq!(controller.weight(), 4.0);
    controller.set_weight(-1.0);
    assert!(controller.weight() > 0.0);
}

/// The paper's figure 4a: once the path has marked, losses leave the window alone; a timeout collapses it.
#[test]
fn losses_do_not_shrink_the_window_where_marks_were_seen() {
    let mut controller = with_weight(1.0);
    controller.on_ack(&AckSample { ece: true, unacked: 1, next: 2, ..ack(SEGMENT) });
    let mut cwnd = controller.cwnd();
    for unacked in 3..100 {
        controller.on_lost(5 * SEGMENT);
        controller.on_congestion(&congestion(Cause::Loss, 10 * SEGMENT));
        controller.on_ack(&AckSample { unacked, next: unacked, in_recovery: true, ..ack(SEGMENT) });
        assert!(controller.cwnd() > cwnd);
        cwnd = controller.cwnd();
    }
    controller.on_congestion(&congestion(Cause::Timeout, 10 * SEGMENT));
    assert_eq!(controller.window(), SEGMENT);
}

/// The fluid limit: shares in proportion to theta, alpha √(2Σθ/(C·RTT + K)), the queue at the threshold; with a long
/// pipe and with hardly any.
#[test]
fn bandwidth_is_proportional_to_theta() {
    for rtt in [2, 80] {
        let (seen, alpha) = steady(&mut with_pipe(rtt, [1.0, 4.0].into_iter()));
        assert_near(seen.delivered[1] as f64 / seen.delivered[0] as f64, 4.0, 0.05);
        assert_near(alpha, (2.0 * 5.0 / (rtt as f64 + 30.0)).sqrt(), 0.1);
        assert_near(seen.mean_queue(), 30.0, 0.1);
        assert!(seen.utilisation() >= 0.999);
    }
}

/// A weight changed while the flow runs changes its share to match, and the link stays full.
#[test]
fn shares_follow_weights_that_change() {
    let mut bottleneck = bottleneck([1.0, 1.0].into_iter());
    let (equal, _) = steady(&mut bottleneck);
    assert_near(equal.delivered[1] as f64 / equal.delivered[0] as f64, 1.0, 0.05);
    bottleneck.senders[1].controller.set_weight(3.0);
    let (seen, _) = steady(&mut bottleneck);
    assert_near(seen.delivered[1] as f64 / seen.delivered[0] as f64, 3.0, 0.05);
    assert!(seen.utilisation() >= 0.999);
}

#[test]
fn alpha_follows_the_sum_of_weights() {
    for weights in [[1.0, 1.0], [1.0, 8.0], [10.0, 10.0]] {
        let (_, alpha) = steady(&mut bottleneck(weights.into_iter()));
        assert_near(alpha, (2.0 * weights.iter().sum::<f64>() / 110.0).sqrt(), 0.1);
    }
}

/// Beyond Σθ = (C·RTT + K)/2 every packet is marked, windows stay at 2θ and the queue at 2Σθ − C·RTT.
#[test]
fn overload_leaves_a_queue_of_twice_the_weights_less_the_pipe() {
    let incast: Vec<f64> = core::iter::repeat_n(0.5, 178).chain([1.0]).collect();
    for weights in [incast, alloc::vec![1.0; 90]] {
        let (seen, _) = steady(&mut bottleneck(weights.into_iter()));
        assert_near(seen.mean_queue(), 100.0, 0.1);
    }
}

/// Where nothing marks, the guard keeps the loss of a drop-tail bottleneck near what it tolerates; loss-blind flows
/// flood it.
#[test]
fn guard_bounds_loss_on_paths_that_never_mark() {
    let loss_rate = |loss_blind| {
        let config = WeightedFairConfig { loss_blind, ..WeightedFairConfig::default() };
        let controllers = (0..2).map(|_| WeightedFair::new(config, MSS));
        let mut bottleneck = Bottleneck::new(controllers, 80, SLOT, usize::MAX);
        bottleneck.limit = 100;
        steady(&mut bottleneck).0.loss_rate()
    };
    assert!(loss_rate(false) < 0.03);
    assert!(loss_rate(true) > 0.5);
}
