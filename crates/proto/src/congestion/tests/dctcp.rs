//! DCTCP's controller alone: its steady state before a queue in slots, with marks that are exact. The simulator's
//! `dctcp_table` tests hold the whole sender, the real echo of marks and a real port against the same table.

use super::super::dctcp::{Dctcp, DctcpConfig, LossCut};
use super::super::{AckSample, Cause, CongestionControl, EcnMode};
use super::model::{Bottleneck, MSS};
use super::{ack, assert_near, congestion};
use crate::time::Span;

const SEGMENT: u64 = MSS as u64;

fn dctcp() -> Dctcp {
    Dctcp::new(DctcpConfig::default(), MSS)
}

#[test]
fn stays_small_and_asks_for_accurate_echo() {
    assert!(size_of::<Dctcp>() <= 96);
    assert_eq!(dctcp().ecn_mode(), EcnMode::Accurate);
}

/// RFC 8257 section 3.3: alpha is updated once per window, by bytes, and starts at 1.
#[test]
fn alpha_averages_the_marked_fraction_of_each_window() {
    let mut dctcp = dctcp();
    dctcp.on_ack(&AckSample { unacked: 1000, next: 10_000, ..ack(1000) });
    assert_eq!(dctcp.alpha(), 1.0 - 1.0 / 16.0);
    dctcp.on_ack(&AckSample { unacked: 4000, next: 14_000, ece: true, ..ack(3000) });
    assert_eq!(dctcp.alpha(), 0.9375, "the window is not over");
    dctcp.on_ack(&AckSample { unacked: 13_000, next: 20_000, ..ack(9000) });
    assert_eq!(dctcp.alpha(), 0.9375 * 15.0 / 16.0 + 0.25 / 16.0);
}

/// RFC 8257 sections 3.3 and 3.4: a mark cuts by alpha/2 and ends slow start, a loss halves whatever alpha is.
#[test]
fn marks_cut_by_alpha_and_losses_halve() {
    let config = DctcpConfig { initial_alpha: 0.2, ..DctcpConfig::default() };
    let mut dctcp = Dctcp::new(config, MSS);
    dctcp.on_congestion(&congestion(Cause::Ecn, 10 * SEGMENT));
    assert_eq!((dctcp.window(), dctcp.ssthresh()), (9 * SEGMENT, 9 * SEGMENT));
    dctcp.on_congestion(&congestion(Cause::Loss, 8 * SEGMENT));
    assert_eq!((dctcp.window(), dctcp.ssthresh()), (4 * SEGMENT, 4 * SEGMENT));
}

/// ns-3's DCTCP until 2026 (`TcpDctcp::GetSsThresh`): a loss and a timeout set ssthresh to (1 - alpha/2) cwnd, whatever was
/// in flight. With alpha 0.2 a loss leaves 9 of 10 segments, with alpha 0 all, with alpha 1 half.
#[test]
fn losses_may_cut_as_marks() {
    for (initial_alpha, left) in [(0.0, 10), (0.2, 9), (1.0, 5)] {
        let config = DctcpConfig { initial_alpha, loss_cut: LossCut::AsMark, ..DctcpConfig::default() };
        let mut dctcp = Dctcp::new(config, MSS);
        dctcp.on_congestion(&congestion(Cause::Loss, 8 * SEGMENT));
        assert_eq!(
            (dctcp.window(), dctcp.ssthresh()),
            (left * SEGMENT, left * SEGMENT),
            "loss at alpha {initial_alpha}"
        );
        let mut dctcp = Dctcp::new(config, MSS);
        dctcp.on_congestion(&congestion(Cause::Timeout, 8 * SEGMENT));
        assert_eq!((dctcp.window(), dctcp.ssthresh()), (SEGMENT, left * SEGMENT), "timeout at alpha {initial_alpha}");
        // The second timeout of the same segment: ssthresh stays (RFC 5681).
        dctcp.on_congestion(&crate::congestion::Congestion { first: false, ..congestion(Cause::Timeout, SEGMENT) });
        assert_eq!((dctcp.window(), dctcp.ssthresh()), (SEGMENT, left * SEGMENT));
    }
}

#[test]
fn marks_stop_at_the_floor_and_never_raise_the_window() {
    let mut dctcp = dctcp();
    (0..10).for_each(|_| dctcp.on_congestion(&congestion(Cause::Ecn, 0)));
    assert_eq!(dctcp.window(), 2 * SEGMENT);
    dctcp.on_congestion(&congestion(Cause::Timeout, 2 * SEGMENT));
    dctcp.on_congestion(&congestion(Cause::Ecn, 0));
    assert_eq!(dctcp.window(), SEGMENT);
}

/// In Linux's state CWR the window of 9 segments stands for the 10 that were sent before the cut; the 9 after them add one.
#[test]
fn growth_may_wait_until_a_cut_is_answered() {
    for (cwr_growth, after_ten, after_nineteen) in [(true, 10, 11), (false, 9, 10)] {
        let config = DctcpConfig { initial_alpha: 0.2, cwr_growth, ..DctcpConfig::default() };
        let mut dctcp = Dctcp::new(config, MSS);
        let cut = congestion(Cause::Ecn, 10 * SEGMENT);
        dctcp.on_congestion(&crate::congestion::Congestion { next: 10 * SEGMENT, ..cut });
        let mut acknowledge = |from: u64, to: u64| {
            for segment in from..=to {
                dctcp.on_ack(&AckSample { unacked: segment * SEGMENT, next: 20 * SEGMENT, ..ack(SEGMENT) });
            }
            dctcp.window() / SEGMENT
        };
        assert_eq!((acknowledge(1, 10), acknowledge(11, 19)), (after_ten, after_nineteen), "{cwr_growth}");
    }
}

/// In slow start ten marked segments add ten where the SIGCOMM paper's growth is asked for.
#[test]
fn growth_on_marked_acknowledgements_must_be_asked_for() {
    for (ece_growth, segments) in [(false, 10), (true, 20)] {
        let mut dctcp = Dctcp::new(DctcpConfig { ece_growth, ..DctcpConfig::default() }, MSS);
        for segment in 1..=10 {
            dctcp.on_ack(&AckSample { unacked: segment * SEGMENT, next: 20 * SEGMENT, ece: true, ..ack(SEGMENT) });
        }
        assert_eq!(dctcp.window() / SEGMENT, segments);
    }
}

/// In avoidance each acknowledged segment adds `weight / W` segments, so W² grows by twice the weight. The window is of whole segments.
#[test]
fn avoidance_adds_its_weight_each_window() {
    for weight in [0.1, 0.25, 1.0, 2.0, 5.0, 20.0] {
        let mut dctcp = Dctcp::new(DctcpConfig { initial_alpha: 0.0, ..DctcpConfig::default() }, MSS);
        dctcp.set_weight(weight);
        dctcp.on_congestion(&congestion(Cause::Ecn, 10 * SEGMENT));
        for acked in 1..=200 {
            dctcp.on_ack(&ack(SEGMENT));
            let (window, expected) =
                (dctcp.window() as f64 / MSS as f64, (100.0 + 2.0 * weight * f64::from(acked)).sqrt());
            assert!((window - expected).abs() <= 1.0 + 0.05 * weight, "{window}, not {expected}, weight {weight}");
        }
    }
}

/// A window follows its weight down at once, and up by slow start. The first slow start goes on, and what is not a number is ignored.
#[test]
fn a_window_follows_its_weight() {
    let mut dctcp = Dctcp::new(DctcpConfig { initial_alpha: 0.2, ..DctcpConfig::default() }, MSS);
    dctcp.set_weight(0.1);
    assert_eq!((dctcp.window(), dctcp.ssthresh()), (10 * SEGMENT, u64::MAX));
    dctcp.set_weight(1.0);
    dctcp.on_congestion(&congestion(Cause::Ecn, 10 * SEGMENT));
    dctcp.set_weight(1.0 / 3.0);
    assert_eq!((dctcp.window(), dctcp.ssthresh()), (3 * SEGMENT, 3 * SEGMENT));
    dctcp.set_weight(f64::NAN);
    dctcp.set_weight(1.0);
    assert_eq!((dctcp.window(), dctcp.ssthresh()), (3 * SEGMENT, 9 * SEGMENT));
    (0..6).for_each(|_| dctcp.on_ack(&ack(SEGMENT)));
    assert_eq!(dctcp.window(), 9 * SEGMENT);
    dctcp.set_weight(1e-9);
    assert_eq!(dctcp.window(), SEGMENT);
}

/// The steady state of SIGCOMM 2010 section 3.3 at 10 Gbit/s, 1500 bytes and 100 µs.
#[test]
fn queue_and_alpha_settle_where_the_analysis_says() {
    let table = [(1, 65, 0.122, 58.0, 66.0), (2, 40, 0.174, 33.0, 42.0), (2, 65, 0.161, 56.0, 67.0)];
    for (senders, mark_at, expected_alpha, low, high) in table {
        let controllers = (0..senders).map(|_| dctcp());
        let mut bottleneck = Bottleneck::new(controllers, 83, Span::from_ns(1200), mark_at);
        bottleneck.run(200_000, |_| {});
        let (mut alphas, slots) = (0.0, 1_000_000);
        let seen = bottleneck.run(slots, |senders| alphas += senders[0].controller.alpha());
        assert_near(alphas / slots as f64, expected_alpha, 0.1);
        assert_near(seen.queue_quantile(0.05) as f64, low, 0.1);
        assert_near(seen.longest_queue() as f64, high, 0.1);
        assert!(seen.utilisation() >= 0.999);
    }
}
