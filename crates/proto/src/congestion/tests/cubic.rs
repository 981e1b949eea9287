use alloc::vec::Vec;

use super::super::cubic::{Cubic, CubicConfig, Growth, HyStartKind};
use super::super::{AckSample, Cause, Congestion, CongestionControl};
use super::model::{LossyPath, MSS, Sender};
use super::{ack, assert_near, congestion};
use crate::time::{Instant, Span};

const SEGMENT: u64 = MSS as u64;

fn cubic() -> Cubic {
    Cubic::new(CubicConfig::default(), MSS)
}

/// Alone on its path, where fast convergence would only lower the mean.
fn alone(initial_window: u16) -> Cubic {
    Cubic::new(CubicConfig { initial_window, fast_convergence: false, ..CubicConfig::default() }, MSS)
}

fn path(rtt: Span) -> LossyPath {
    LossyPath { rtt, segments_per_ack: 1 }
}

#[test]
fn stays_small() {
    assert!(size_of::<Cubic>() <= 168);
}

/// RFC 9438 sections 4.6 and 4.8: beta of the flight; at least two segments on loss, one on a mark or timeout.
#[test]
fn congestion_cuts_as_the_rfc_says() {
    let mut cubic = cubic();
    cubic.on_congestion(&congestion(Cause::Loss, 10 * SEGMENT));
    assert_eq!((cubic.window(), cubic.ssthresh()), (7 * SEGMENT, 7 * SEGMENT));
    cubic.on_congestion(&congestion(Cause::Loss, SEGMENT));
    assert_eq!((cubic.window(), cubic.ssthresh()), (2 * SEGMENT, 2 * SEGMENT));
    cubic.on_congestion(&congestion(Cause::Ecn, SEGMENT));
    assert_eq!((cubic.window(), cubic.ssthresh()), (SEGMENT, 2 * SEGMENT));
    cubic.on_congestion(&congestion(Cause::Timeout, 10 * SEGMENT));
    assert_eq!((cubic.window(), cubic.ssthresh()), (SEGMENT, 7 * SEGMENT));
    cubic.on_congestion(&Congestion { first: false, ..congestion(Cause::Timeout, SEGMENT) });
    assert_eq!(cubic.ssthresh(), 7 * SEGMENT);
}

/// RFC 4015: after a loss that was none slow start leads back to the window, and the curve goes on where it was.
#[test]
fn a_spurious_loss_is_taken_back() {
    let mut cubic = cubic();
    cubic.on_congestion(&congestion(Cause::Loss, 100 * SEGMENT));
    let plateau_of = |cubic: &mut Cubic| rounds(cubic, Instant::ZERO, Span::from_ms(50), 40, true);
    let now = plateau_of(&mut cubic);
    let before = cubic.window();
    cubic.on_congestion(&congestion(Cause::Loss, before));
    assert!(cubic.window() < before);
    cubic.on_spurious_loss(before);
    assert_eq!(cubic.ssthresh(), before);
    let cut = cubic.window();
    (0..=(before - cut) / SEGMENT).for_each(|_| cubic.on_ack(&AckSample { now, ..ack(SEGMENT) }));
    assert!(cubic.window() >= before && cubic.window() < before + 2 * SEGMENT, "{}", cubic.window());
    let mut started = self::cubic();
    started.on_congestion(&congestion(Cause::Loss, 10 * SEGMENT));
    started.on_spurious_loss(u64::MAX);
    assert_eq!(started.ssthresh(), u64::MAX, "the first slow start goes on");
}

/// Feeds one acknowledgement of a whole window per round trip for `rounds`.
fn rounds(cubic: &mut Cubic, start: Instant, rtt: Span, rounds: u64, window_limited: bool) -> Instant {
    (1..=rounds).fold(start, |_, round| {
        let now = start.after(rtt.times(round));
        let acked = cubic.window();
        cubic.on_ack(&AckSample { now, smoothed_rtt: rtt, window_limited, ..ack(acked) });
        now
    })
}

/// RFC 9438 section 4.8: the avoidance that follows a timeout starts on its plateau, convex, not below an old one.
#[test]
fn after_a_timeout_the_curve_starts_flat() {
    let rtt = Span::from_ms(100);
    let mut cubic = cubic();
    let mut now = rounds(&mut cubic, Instant::ZERO, rtt, 100, true);
    cubic.on_congestion(&congestion(Cause::Timeout, 200 * SEGMENT));
    while cubic.window() < cubic.ssthresh() {
        now = rounds(&mut cubic, now, rtt, 1, true);
    }
    let started = cubic.window();
    rounds(&mut cubic, now, rtt, 3, true);
    assert!(cubic.window() < started + 4 * SEGMENT, "Reno's pace at most, far from the curve's concave start");
}

/// RFC 9438 section 5.8: while the application is the limit, the curve's time stands still.
#[test]
fn time_without_need_for_the_window_does_not_count() {
    let rtt = Span::from_ms(100);
    let at = |pause: u64| {
        let mut cubic = cubic();
        cubic.on_congestion(&congestion(Cause::Loss, 1000 * SEGMENT));
        let now = rounds(&mut cubic, Instant::ZERO, rtt, 10, true);
        let now = rounds(&mut cubic, now, rtt, pause, false);
        rounds(&mut cubic, now, rtt, 10, true);
        cubic.window()
    };
    assert_eq!(at(0), at(300));
}

/// RFC 9438 section 5.2: mean window under periodic loss, 1.054 (RTT/p)^0.75. The plateau is where it is expected from
/// the start for the larger window, because it approaches that point only slowly: the curve is flat there.
#[test]
fn mean_window_under_periodic_loss() {
    let rtt = Span::from_ms(100);
    let many = path(rtt).mean_cwnd(&mut Sender::new(alone(10)), 5_000_000, 6_000_000, |packet, _| packet % 10_000 == 0);
    assert_near(many, 187.0, 0.1);
    let plateau = (5926.0 / 0.925) as u16;
    let few = path(rtt).mean_cwnd(&mut Sender::new(alone(plateau)), 0, 10_000_000, |packet, _| packet % 1_000_000 == 0);
    assert_near(few, 5926.0, 0.02);
}

/// Round trips per cycle, and mean window over the largest, when a packet is lost each time the window reaches
/// `largest` segments.
fn sawtooth(rtt: Span, largest: f64) -> (f64, f64) {
    let cycle = (0.567 * 0.85 * largest * largest) as u64;
    let mut losses = std::vec::Vec::new();
    let mean = path(rtt).mean_cwnd(&mut Sender::new(alone(10)), cycle, 5 * cycle, |packet, cwnd| {
        // One loss per cycle: what is in flight behind it arrives.
        let lost = cwnd >= largest && losses.last().is_none_or(|last| packet > last + 2 * largest as u64);
        if lost {
            losses.push(packet);
        }
        lost
    });
    // Slow start overshoots; what follows it is no cycle.
    losses.retain(|&packet| packet >= cycle);
    let packets_per_cycle = (losses[losses.len() - 1] - losses[0]) as f64 / (losses.len() - 1) as f64;
    (packets_per_cycle / mean, mean / largest)
}

/// At datacenter round-trip times CUBIC is AIMD with 0.529 and 0.7.
#[test]
fn short_round_trips_give_reno_friendly_sawtooths() {
    for largest in [50.0, 200.0] {
        let (period, mean) = sawtooth(Span::from_us(100), largest);
        assert_near(period, 0.567 * largest, 0.05);
        assert_near(mean, 0.85, 0.02);
    }
}

/// The Reno-friendly region ends at a mean window of 52 segments at 100 ms and 1654 at 10 ms: below, a cycle lasts as
/// long as AIMD's; above, the curve is back on its plateau sooner. For shorter round trips a cycle takes too many packets:
/// there the curve itself is asked (`the_reno_friendly_region_grows_as_round_trips_shrink`).
#[test]
fn reno_friendly_region_ends_where_the_curve_overtakes() {
    for (rtt_ms, border) in [(100, 52.0), (10, 1654.0)] {
        let rtt = Span::from_ms(rtt_ms);
        let below = border / 0.85 / 1.5;
        assert_near(sawtooth(rtt, below).0, 0.567 * below, 0.05);
        let above = border / 0.85 * 1.5;
        let to_plateau = libm::cbrt(0.3 * above / 0.4) / rtt.as_secs_f64();
        assert!(to_plateau < 0.8 * 0.567 * above);
        assert_near(sawtooth(rtt, above).0, to_plateau, 0.1);
    }
}

/// Slow start under HyStart++ in rounds of ten acknowledgements, whose round-trip times are given per round.
fn slow_start(rtts_ms: &[u64]) -> Cubic {
    let config = CubicConfig { hystart: HyStartKind::Rfc9406, ..CubicConfig::default() };
    let mut cubic = Cubic::new(config, MSS);
    let mut unacked = 0;
    let mut acknowledge = |rtt_ms| {
        unacked += SEGMENT;
        let rtt = Some(Span::from_ms(rtt_ms));
        cubic.on_ack(&AckSample { unacked, next: unacked + 10 * SEGMENT, rtt, ..ack(SEGMENT) });
    };
    acknowledge(rtts_ms[0]);
    for &rtt_ms in rtts_ms {
        (0..10).for_each(|_| acknowledge(rtt_ms));
    }
    cubic
}

/// RFC 9406 section 4.2: a rise by the threshold quarters the growth from the eighth sample on, and after five rounds
/// slow start is over; a smaller rise changes nothing.
#[test]
fn hystart_leaves_slow_start_when_the_rtt_rises() {
    assert_eq!(slow_start(&[10, 13, 16]).window(), 41 * SEGMENT);
    let conservative = slow_start(&[10, 14]);
    assert_eq!(conservative.window(), (11 + 10 + 7) * SEGMENT + 3 * SEGMENT / 4);
    assert_eq!(conservative.ssthresh(), u64::MAX);
    assert_eq!(slow_start(&[10, 14, 14, 14, 14]).ssthresh(), u64::MAX);
    let over = slow_start(&[10, 14, 14, 14, 14, 14]);
    assert_eq!(over.ssthresh(), over.window());
}

/// RFC 9406 section 4.2: a minimum below the one that raised the alarm resumes slow start.
#[test]
fn hystart_resumes_slow_start_after_a_false_alarm() {
    let resumed = slow_start(&[10, 14, 12, 12, 12, 12, 12, 12]);
    assert_eq!(resumed.ssthresh(), u64::MAX);
    assert_eq!(resumed.window() - slow_start(&[10, 14, 12]).window(), 50 * SEGMENT);
}

/// RFC 9438 section 4.10: the first avoidance after HyStart++ starts on its plateau.
#[test]
fn avoidance_after_hystart_starts_flat() {
    let mut cubic = slow_start(&[10, 14, 14, 14, 14, 14]);
    let started = cubic.window();
    rounds(&mut cubic, Instant::ZERO, Span::from_ms(10), 4, true);
    assert!((started..=started + 4 * SEGMENT).contains(&cubic.window()));
}

/// Slow start under Linux's HyStart from a window of 20 segments: rounds of acknowledgements that come `gap_us` apart, each
/// with a round-trip time in microseconds. The window after each.
fn linux_slow_start(gap_us: u64, rtts_us: &[u64], per_round: u64) -> (Cubic, Vec<u64>) {
    slow_start_under(HyStartKind::Linux, gap_us, rtts_us, per_round)
}

fn slow_start_under(hystart: HyStartKind, gap_us: u64, rtts_us: &[u64], per_round: u64) -> (Cubic, Vec<u64>) {
    let config = CubicConfig { initial_window: 20, hystart, ..CubicConfig::default() };
    let mut cubic = Cubic::new(config, MSS);
    let (mut unacked, mut now, mut windows) = (0, Instant::ZERO.after(Span::from_ms(1)), Vec::new());
    for (number, &rtt_us) in (0..).zip(rtts_us) {
        unacked += SEGMENT;
        now = now.after(Span::from_us(gap_us));
        let round_end = (number / per_round + 1) * per_round;
        let sample = AckSample {
            now,
            unacked,
            next: round_end * SEGMENT,
            rtt: Some(Span::from_us(rtt_us)),
            smoothed_rtt: Span::from_us(rtts_us[0]),
            ..ack(SEGMENT)
        };
        cubic.on_ack(&sample);
        windows.push(cubic.window() / SEGMENT);
    }
    (cubic, windows)
}

/// By hand: a round-trip time of 100 ms and a window of 20 segments of 1000 bytes pace 400 kB/s, so that a burst of 256 KiB
/// counts with its limit of 1 ms. A train of acknowledgements 1 ms apart is longer than (100 + 1) / 2 ms with its 52nd,
/// 51 ms behind the round's first; until then each adds a segment. A gap above 2 ms breaks the train.
#[test]
fn linux_hystart_ends_slow_start_by_a_train() {
    let (cubic, windows) = linux_slow_start(1000, &[100_000; 60], 1000);
    assert_eq!((windows[50], cubic.ssthresh()), (71, 71 * SEGMENT));
    assert!(windows[59] <= 72, "avoidance begins flat: {windows:?}");
    let (broken, windows) = linux_slow_start(3000, &[100_000; 60], 1000);
    assert_eq!((windows[59], broken.ssthresh()), (80, u64::MAX));
}

/// By hand: least round-trip time 40 ms, rise max(40 / 8, 4) = 5 ms. In the second round of 20 the first eight samples of
/// 46 ms only count, and the ninth ends slow start. 45 ms is no rise above 5 ms.
#[test]
fn linux_hystart_ends_slow_start_by_delay() {
    let rounds = |second: u64| [[40_000; 20], [second; 20]].concat();
    let (cubic, windows) = linux_slow_start(3000, &rounds(46_000), 20);
    assert_eq!((windows[27], windows[28], cubic.ssthresh()), (48, 48, 48 * SEGMENT));
    assert_eq!(linux_slow_start(3000, &rounds(45_000), 20).0.ssthresh(), u64::MAX);
}

/// By hand, for ns-3: a train of acknowledgements 1 ms apart is longer than the round-trip time of 100 ms with its 102nd, 101 ms
/// behind the round's first, at 20 + 101 segments. The rise is the whole 40 ms: of 20 samples of 81 ms the first is the last
/// of the round before, eight count, and the tenth ends slow start; 80 ms is no rise above it. Gaps of 3 ms break the train.
#[test]
fn ns3s_hystart_asks_for_a_whole_round_trip() {
    let (cubic, windows) = slow_start_under(HyStartKind::Ns3, 1000, &[100_000; 110], 1000);
    assert_eq!((windows[100], cubic.ssthresh()), (121, 121 * SEGMENT));
    let rounds = |second: u64| [[40_000; 20], [second; 20]].concat();
    let (cubic, windows) = slow_start_under(HyStartKind::Ns3, 3000, &rounds(81_000), 20);
    assert_eq!((windows[28], cubic.ssthresh()), (49, 49 * SEGMENT));
    assert_eq!(slow_start_under(HyStartKind::Ns3, 3000, &rounds(80_000), 20).0.ssthresh(), u64::MAX);
}

/// By hand, for ns-3: 20 acknowledgements 100 us apart last 1.9 ms, which is no longer than a round trip of 1950 us; but the
/// 21st, which begins the next round, is 2 ms behind the first, and ends slow start at 20 + 20 segments. Where rounds are
/// 2.1 ms apart, their gap breaks the train.
#[test]
fn ns3s_hystart_ends_slow_start_with_the_round_after() {
    let (cubic, windows) = slow_start_under(HyStartKind::Ns3, 100, &[1950; 40], 20);
    assert_eq!((windows[19], cubic.ssthresh()), (40, 40 * SEGMENT));
    assert_eq!(slow_start_under(HyStartKind::Ns3, 2100, &[1950; 40], 1).0.ssthresh(), u64::MAX);
}

/// After a timeout it watches again. By hand: a window of one segment grows by one with each acknowledgement, 1 ms apart. The
/// first round is over below 16 segments' train; the second begins with the 22nd acknowledgement, and its train is longer
/// than (20 + 1) / 2 ms with the 33rd, at 33 segments.
#[test]
fn linux_hystart_is_armed_again_by_a_timeout() {
    let (mut cubic, _) = linux_slow_start(3000, &[[40_000; 20], [46_000; 20]].concat(), 20);
    cubic.on_congestion(&Congestion {
        now: Instant::ZERO.after(Span::from_ms(400)),
        cause: Cause::Timeout,
        flight: 100 * SEGMENT,
        unacked: 0,
        next: 0,
        first: true,
    });
    assert_eq!((cubic.window(), cubic.ssthresh()), (SEGMENT, 70 * SEGMENT));
    let (mut unacked, mut now) = (100 * SEGMENT, Instant::ZERO.after(Span::from_ms(401)));
    for _ in 0..40 {
        unacked += SEGMENT;
        now = now.after(Span::from_ms(1));
        let (rtt, next) = (Some(Span::from_ms(20)), unacked + 20 * SEGMENT);
        cubic.on_ack(&AckSample { now, unacked, next, rtt, smoothed_rtt: Span::from_ms(20), ..ack(SEGMENT) });
    }
    assert_eq!(cubic.ssthresh(), 33 * SEGMENT);
}

/// Linux's growth from a window of 100 segments.
fn as_linux() -> Cubic {
    Cubic::new(CubicConfig { initial_window: 100, growth: Growth::Linux, ..CubicConfig::default() }, MSS)
}

/// Acknowledges `segments` one by one, at the connection's beginning, and returns the window in segments.
fn one_by_one(cubic: &mut Cubic, segments: u64) -> u64 {
    (0..segments).for_each(|_| cubic.on_ack(&ack(SEGMENT)));
    cubic.window() / SEGMENT
}

/// By hand from `bictcp_update` and `cubictcp_recalc_ssthresh`, at a round-trip time at which the curve stands still. A loss
/// at 100 segments leaves 70. The line of Reno gains a segment with more than 70 * 15 / 8 = 131 acknowledged ones, and the
/// next, from 71, with more than 133, of which one is left over. Each time the window pays at once, from what has been
/// acknowledged since its last segment.
#[test]
fn linux_follows_renos_line_after_a_loss() {
    let mut cubic = as_linux();
    cubic.on_congestion(&congestion(Cause::Loss, 60 * SEGMENT));
    assert_eq!((cubic.window(), cubic.ssthresh()), (70 * SEGMENT, 70 * SEGMENT), "of the window, not of the flight");
    assert_eq!([131, 1, 132, 1].map(|segments| one_by_one(&mut cubic, segments)), [70, 71, 71, 72]);
}

/// By hand: cuts are to 717/1024 of the window, rounded down, where 0.7 of 90 is less than 63 in binary. A second loss at 63
/// segments leaves 44, and a plateau of 63 * 1741 / 2048 = 53. So the curve lasts cbrt(9 / 0.4) = 2.823 s. At 2 s it is 0.22
/// segments below its plateau, which is none: each 44 / 9 = 4 segments gain one. At 1 s it is 2.42 below, which is 2: each 44 /
/// 7 = 6.
#[test]
fn linux_cuts_and_follows_the_curve_in_whole_segments() {
    let after = |ms| {
        let mut cubic =
            Cubic::new(CubicConfig { initial_window: 90, growth: Growth::Linux, ..CubicConfig::default() }, MSS);
        cubic.on_congestion(&congestion(Cause::Loss, 90 * SEGMENT));
        assert_eq!(cubic.window(), 63 * SEGMENT);
        cubic.on_congestion(&congestion(Cause::Loss, 63 * SEGMENT));
        assert_eq!(one_by_one(&mut cubic, 1), 44);
        let now = Instant::ZERO.after(Span::from_ms(ms));
        let mut acknowledged = 0;
        while cubic.window() == 44 * SEGMENT {
            cubic.on_ack(&AckSample { now, ..ack(SEGMENT) });
            acknowledged += 1;
        }
        1 + acknowledged
    };
    assert_eq!((after(2000), after(1000)), (4, 6));
}

/// By hand: a loss at 100 segments leaves 70, a timeout then a ssthresh of 49, which 48 acknowledgements reach. With the
/// largest window forgotten each 20 segments gain one (`cnt` is 20 at most while `last_max_cwnd` is 0). The RFC's line of
/// Reno adds half a segment in a round trip.
#[test]
fn linux_forgets_the_largest_window_after_a_timeout() {
    let after_timeout = |growth| {
        let config = CubicConfig { initial_window: 100, growth, ..CubicConfig::default() };
        let mut cubic = Cubic::new(config, MSS);
        cubic.on_congestion(&congestion(Cause::Loss, 100 * SEGMENT));
        cubic.on_congestion(&congestion(Cause::Timeout, 70 * SEGMENT));
        assert_eq!(one_by_one(&mut cubic, 48), 49);
        cubic
    };
    let mut linux = after_timeout(Growth::Linux);
    assert_eq!([19, 1, 19, 1].map(|segments| one_by_one(&mut linux, segments)), [49, 50, 50, 51]);
    let mut rfc = after_timeout(Growth::Rfc9438);
    one_by_one(&mut rfc, 49);
    assert_near(rfc.window() as f64 / SEGMENT as f64, 49.52, 0.001);
}

/// `cnt` is 2 at least: an acknowledged segment adds half a segment at most, however far the curve has run. What was
/// acknowledged while the curve stood still is worth one segment (`tcp_cong_avoid_ai`).
#[test]
fn linux_adds_half_a_segment_at_most() {
    let mut cubic = as_linux();
    cubic.on_congestion(&congestion(Cause::Loss, 100 * SEGMENT));
    let late = rounds(&mut cubic, Instant::ZERO, Span::from_ms(1), 1, true).after(Span::from_secs(60));
    let before = cubic.window();
    cubic.on_ack(&AckSample { now: late, ..ack(10 * SEGMENT) });
    assert_eq!(cubic.window() - before, (1 + 5) * SEGMENT);
}

/// `tcp_slow_start`: all that an acknowledgement brings counts as far as ssthresh, and the rest in avoidance, where it pays half
/// of the 20 segments for one.
#[test]
fn linux_counts_what_is_left_of_slow_start_in_avoidance() {
    let mut cubic = as_linux();
    cubic.on_congestion(&congestion(Cause::Timeout, 0));
    cubic.on_ack(&ack(79 * SEGMENT));
    assert_eq!((cubic.window(), cubic.ssthresh()), (70 * SEGMENT, 70 * SEGMENT));
    assert_eq!([9, 1].map(|segments| one_by_one(&mut cubic, segments)), [70, 71]);
}

/// By hand from ns-3's `TcpCubic::Update` and `IncreaseWindow`: a loss at 100 segments leaves 70, and the curve lasts
/// cbrt(30 / 0.4) = 4.217 s. Just after, it is on its plateau, so that `w` segments gain one for each `w / (100 - w)`, rounded
/// down. There the window stands still, without a line of Reno: 9,999 segments gain none. Where the curve is at 101 they pay
/// for one, and where it is at 110 for nine, one with each acknowledgement.
#[test]
fn ns3_stands_still_where_the_curve_does_and_pays_later() {
    let config = CubicConfig { initial_window: 100, growth: Growth::Ns3, ..CubicConfig::default() };
    let mut cubic = Cubic::new(config, MSS);
    let acknowledge = |cubic: &mut Cubic, ms: u64, segments: u64| {
        let now = Instant::ZERO.after(Span::from_ms(ms));
        (0..segments).for_each(|_| cubic.on_ack(&AckSample { now, ..ack(SEGMENT) }));
        cubic.window() / SEGMENT
    };
    cubic.on_congestion(&congestion(Cause::Loss, 60 * SEGMENT));
    assert_eq!(cubic.window(), 70 * SEGMENT);
    let start = acknowledge(&mut cubic, 0, 1);
    assert_eq!(start, 70);
    let to_plateau: u64 = (70..100).map(|window| window / (100 - window)).sum();
    assert_eq!(acknowledge(&mut cubic, 4300, to_plateau - 2), 99);
    assert_eq!(acknowledge(&mut cubic, 4300, 1), 100);
    assert_eq!(acknowledge(&mut cubic, 4300, 9_999), 100);
    assert_eq!(acknowledge(&mut cubic, 5_617, 1), 101);
    assert_eq!(acknowledge(&mut cubic, 5_617, 1), 101);
    assert_eq!(acknowledge(&mut cubic, 7_150, 9), 110);
    // A cut leaves what was acknowledged: a second later the curve is at 95, 18 segments above.
    cubic.on_congestion(&congestion(Cause::Loss, 110 * SEGMENT));
    acknowledge(&mut cubic, 7_150, 1);
    let after_cut = cubic.window() / SEGMENT;
    assert!((77..=78).contains(&after_cut), "{after_cut}");
    assert_eq!(acknowledge(&mut cubic, 8_150, 95 - after_cut), 95);
    assert_eq!(acknowledge(&mut cubic, 8_150, 1), 95);
}

/// By hand: after a timeout each 20 segments gain one, as in Linux, and what was acknowledged before counts: the timeout left 9.
#[test]
fn ns3_keeps_what_was_acknowledged_at_a_timeout() {
    let config = CubicConfig { initial_window: 100, growth: Growth::Ns3, ..CubicConfig::default() };
    let mut cubic = Cubic::new(config, MSS);
    cubic.on_congestion(&congestion(Cause::Timeout, 0));
    assert_eq!((cubic.window(), cubic.ssthresh()), (SEGMENT, 70 * SEGMENT));
    assert_eq!([69, 9].map(|segments| one_by_one(&mut cubic, segments)), [70, 70]);
    cubic.on_congestion(&congestion(Cause::Timeout, 0));
    assert_eq!((cubic.window(), cubic.ssthresh()), (SEGMENT, 49 * SEGMENT));
    assert_eq!([48, 10, 1, 19, 1].map(|segments| one_by_one(&mut cubic, segments)), [49, 49, 50, 50, 51]);
}
