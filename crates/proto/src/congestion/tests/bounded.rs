//! `bounded`: its virtual flow against CUBIC's closed form, and what it makes of delays.

use super::super::bounded::{Bounded, BoundedConfig};
use super::super::{AckSample, Cause, Congestion, CongestionControl};
use super::{assert_near, congestion};
use crate::rng::Stream;
use crate::time::{Instant, OneWayDelay, Span};
use crate::units::Rate;

const MSS: u16 = 1250;
/// Ten packets of payload in a millisecond: a line of 100 Mbit/s.
const LINE: f64 = 12.5e6;

/// A line of 100 Mbit/s and a round trip of 10 ms that answers pairs, with a queue of others' that the test sets.
struct Line {
    controller: Bounded,
    now: Instant,
    unacked: u64,
    /// Others' packets come between the two of a pair, which arrive so many times later after each other.
    torn: f64,
}

impl Line {
    fn new(min_share: f64) -> Self {
        let mut controller = Bounded::new(BoundedConfig::default(), MSS);
        controller.set_min_share(min_share);
        Self { controller, now: Instant::ZERO, unacked: 0, torn: 1.0 }
    }

    fn rate(&self) -> f64 {
        self.controller.pacing_rate().unwrap().bytes_per_sec_f64()
    }

    /// Sends at the controller's rate until `until`, packet by packet; `queue` is the delay of a packet in microseconds by
    /// when it is sent, in milliseconds.
    fn run(&mut self, until: Span, queue: impl Fn(u64) -> i64) {
        let rtt = Span::from_ms(10);
        while self.now.since(Instant::ZERO) < until {
            let burst = u64::from(self.controller.pacing_burst());
            let bytes = burst * u64::from(MSS);
            self.now = self.now.after(Span::from_secs_f64(bytes as f64 / self.rate()));
            self.unacked += bytes;
            let queue_ns = 1000 * queue(self.now.as_ps() / 1_000_000_000);
            self.controller.on_ack(&AckSample {
                now: self.now,
                acked: bytes,
                unacked: self.unacked,
                next: self.unacked + (self.rate() * rtt.as_secs_f64()) as u64,
                rtt: Some(rtt),
                delay: Some(OneWayDelay::from_ns(5_000_000 + queue_ns)),
                hold: (burst > 1).then(|| Span::from_secs_f64(self.torn * (burst - 1) as f64 * f64::from(MSS) / LINE)),
                smoothed_rtt: rtt,
                ..super::ack(0)
            });
        }
    }
}

/// On a path whose delays are flat it goes to nine tenths of the line within a quarter of a second.
#[test]
fn a_flat_path_is_an_idle_one() {
    let mut line = Line::new(0.0);
    line.run(Span::from_ms(250), |_| 0);
    assert!(line.rate() > 0.9 * LINE, "{}", line.rate());
}

/// Whoever comes late does not know the path without queue. Delays that vary by eight packets tell all the same.
#[test]
fn a_latecomer_watches_delays_that_vary() {
    let mut line = Line::new(0.0);
    line.run(Span::from_secs(4), |ms| 30_000 + 100 * (ms * 7 % 9).cast_signed());
    assert_near(line.rate(), 0.015 * LINE, 0.2);
}

/// Others come: within a round trip and a half the rate is halved, and soon it is the trickle.
#[test]
fn others_are_given_way() {
    let mut line = Line::new(0.0);
    line.run(Span::from_ms(250), |_| 0);
    line.run(Span::from_ms(260), |ms| 1000 + 100 * (ms * 7 % 9).cast_signed());
    assert!(line.rate() < 0.55 * LINE, "{}", line.rate());
    line.run(Span::from_ms(350), |ms| 1000 + 100 * (ms * 7 % 9).cast_signed());
    assert_near(line.rate(), 0.015 * LINE, 0.2);
}

/// Others that are there for a millisecond in seven leave six sevenths of the line. Most of it is taken.
#[test]
fn what_others_leave_is_taken() {
    let mut line = Line::new(0.0);
    line.run(Span::from_secs(1), |ms| if ms % 7 == 0 { 1000 } else { 0 });
    let before = line.unacked;
    line.run(Span::from_secs(3), |ms| if ms % 7 == 0 { 1000 } else { 0 });
    let part = (line.unacked - before) as f64 / (2.0 * LINE);
    assert!((0.4..0.86).contains(&part), "{part}");
}

/// With a promise the trickle is the promised share of a normal flow, which gets no more than the line.
#[test]
fn the_promise_is_kept_beside_others() {
    for share in [0.25, 0.5, 1.0] {
        let mut line = Line::new(share);
        line.run(Span::from_secs(4), |ms| 30_000 + 100 * (ms * 7 % 9).cast_signed());
        assert_near(line.rate(), share * LINE, 0.1);
    }
}

/// A promised rate is kept beside others, whatever the share: the greater of both holds.
#[test]
fn a_promised_rate_is_kept_beside_others() {
    for (share, promised, expected) in
        [(0.0, 30_000_000, 3.75e6), (0.5, 30_000_000, 0.5 * LINE), (0.25, 60_000_000, 7.5e6)]
    {
        let mut line = Line::new(share);
        line.controller.set_min_rate(Rate::from_bits_per_sec(promised));
        line.run(Span::from_secs(4), |ms| 30_000 + 100 * (ms * 7 % 9).cast_signed());
        assert_near(line.rate(), expected, 0.1);
    }
}

/// In a low class others' packets tear pairs apart, and the line seems to have a hundredth of its rate. The promised rate, which arrived
/// before, is kept.
#[test]
fn torn_pairs_do_not_break_a_promised_rate() {
    let mut line = Line::new(0.0);
    line.controller.set_min_rate(Rate::from_bits_per_sec(5_000_000));
    line.run(Span::from_ms(250), |_| 0);
    line.torn = 100.0;
    line.run(Span::from_ms(1500), |ms| 30_000 + 100 * (ms * 7 % 9).cast_signed());
    assert_near(line.rate(), 625e3, 0.05);
}

/// A rate that is needed is kept beside others, and no more than a normal flow has, which has the line here.
#[test]
fn a_needed_rate_is_kept_up_to_a_normal_flow_s() {
    let varying = |ms: u64| 30_000 + 100 * (ms * 7 % 9).cast_signed();
    for (needed, expected) in [(20_000_000, 2.5e6), (1_000_000_000, LINE)] {
        let mut line = Line::new(0.0);
        line.controller.set_needed_rate(Rate::from_bits_per_sec(needed));
        line.run(Span::from_secs(8), varying);
        assert_near(line.rate(), expected, 0.1);
        line.controller.set_needed_rate(Rate::default());
        line.run(Span::from_secs(9), varying);
        assert_near(line.rate(), 0.015 * LINE, 0.2);
    }
}

/// A flow that is late is CUBIC: it begins with ten segments, and a loss leaves it seven tenths of its window (RFC 9438).
#[test]
fn a_late_flow_is_cubic() {
    let mut line = Line::new(0.0);
    line.run(Span::from_secs(1), |_| 0);
    line.controller.set_needed_rate(Rate::from_bits_per_sec(u64::MAX));
    assert_eq!(line.controller.window(), 10 * u64::from(MSS));
    let sample = AckSample { now: line.now, acked: u64::from(MSS), window_limited: true, ..super::ack(0) };
    (0..5).for_each(|_| line.controller.on_ack(&sample));
    assert_eq!(line.controller.window(), 15 * u64::from(MSS), "slow start");
    line.controller.on_congestion(&congestion(Cause::Loss, 15 * u64::from(MSS)));
    assert_near(line.controller.window() as f64, 0.7 * 15.0 * f64::from(MSS), 0.01);
    line.controller.set_needed_rate(Rate::default());
    assert!(line.controller.window() > 15 * u64::from(MSS), "the scavenger on an idle line again");
}

/// A promise above the line is kept up to 0.95 of it, and not before the line's rate is known.
#[test]
fn a_promised_rate_stays_below_the_line() {
    let mut line = Line::new(0.0);
    line.controller.set_min_rate(Rate::from_bits_per_sec(1_000_000_000));
    assert!(line.rate() < 0.015 * LINE, "{}", line.rate());
    line.run(Span::from_secs(4), |ms| 30_000 + 100 * (ms * 7 % 9).cast_signed());
    assert_near(line.rate(), 0.95 * LINE, 0.02);
}

/// While half of the packets is lost, far more than 3 % and four packets of a round, the promise falls below what arrives, so
/// that it does not fill the path with losses. Without losses it is kept again.
#[test]
fn a_promised_rate_yields_to_losses() {
    let mut line = Line::new(0.0);
    line.controller.set_min_rate(Rate::from_bits_per_sec(50_000_000));
    let varying = |ms: u64| 30_000 + 100 * (ms * 7 % 9).cast_signed();
    line.run(Span::from_secs(4), varying);
    assert_near(line.rate(), LINE / 2.0, 0.1);
    for _ in 0..100 {
        let until = line.now.since(Instant::ZERO).plus(Span::from_ms(10));
        line.controller.on_lost((line.rate() / 200.0) as u64);
        line.run(until, varying);
    }
    assert!(line.rate() < 0.25 * LINE, "{}", line.rate());
    line.run(Span::from_secs(10), varying);
    assert_near(line.rate(), LINE / 2.0, 0.1);
}

/// CUBIC's average over periods of one loss each, RFC 9438's curve: after a cut from W the window is 0.7 W and returns to W
/// after K = cbrt(0.3 W / 0.4) seconds.
#[test]
fn the_normal_flow_follows_cubic_s_curve() {
    let mut line = Line::new(0.1);
    let varying = |ms: u64| 1000 + 100 * (ms * 7 % 9).cast_signed();
    line.run(Span::from_secs(4), varying);
    let full = line.rate();
    line.controller.on_congestion(&Congestion { now: line.now, ..congestion(Cause::Loss, 0) });
    assert_near(line.rate(), 0.7 * full, 0.02);
    // The window was 100 segments.
    let k = libm::cbrt(0.3 * 100.0 / 0.4);
    line.run(Span::from_secs_f64(4.0 + k / 2.0), varying);
    // Half of the way in time is seven eighths of the way up.
    assert_near(line.rate(), (1.0 - 0.3 / 8.0) * full, 0.05);
}

/// Packets had overtaken each other: the normal flow has its window again.
#[test]
fn a_spurious_loss_gives_the_normal_flow_its_window_back() {
    let mut line = Line::new(0.1);
    line.run(Span::from_secs(4), |ms| 1000 + 100 * (ms * 7 % 9).cast_signed());
    let full = line.rate();
    line.controller.on_congestion(&Congestion { now: line.now, ..congestion(Cause::Loss, 0) });
    line.controller.on_spurious_loss(u64::MAX);
    assert_near(line.rate(), full, 0.001);
}

/// A loss on a path without delay is none of congestion's: the scavenger goes on.
#[test]
fn a_loss_without_delay_is_no_news() {
    let mut line = Line::new(0.0);
    line.run(Span::from_secs(1), |_| 0);
    let before = line.rate();
    line.controller.on_congestion(&Congestion { now: line.now, ..congestion(Cause::Loss, 0) });
    assert_near(line.rate(), before, 0.01);
}

/// Bursts are pairs, as only packets that leave together tell the line's rate; once several have told it the trickle is single
/// packets.
#[test]
fn bursts_are_short() {
    let mut line = Line::new(0.0);
    let bursts = [(0, false), (20, false), (1000, true), (1500, false)].map(|(until, busy)| {
        line.run(Span::from_ms(until), |ms| if busy { 3000 * (1 + ms % 3).cast_signed() } else { 0 });
        line.controller.pacing_burst()
    });
    assert!(bursts[..3] == [2, 2, 1] && bursts[3] > 1, "{bursts:?}");
}

/// What a receiver reports of delays and of pairs is the receiver's to invent. Whatever it says, nothing panics, and the rate is
/// above zero and finite.
#[test]
fn no_report_makes_it_panic() {
    for seed in 0..4000 {
        let mut random = Stream::named(seed, "reports");
        let mut line = Line::new(0.5 * (seed % 3) as f64);
        let controller = &mut line.controller;
        let (mut now, mut unacked) = (Instant::ZERO, 0);
        // From a nanosecond to a second, each power of ten as often as others.
        let span = |random: &mut Stream| Span::from_secs_f64(1e-9 * 1e9f64.powf(random.unit()));
        // The last habit is a long path that becomes idle, whose program has little to send, and of which pairs tell the line late.
        let (habit, calm_at) = (random.below(4), random.below(400));
        let told_at = calm_at + random.below(300);
        for step in 0..2000 {
            now = now.after(if habit == 0 { span(&mut random) } else { Span::from_us(1 + random.below(2000)) });
            let packets = match habit {
                3 if step == told_at => 2,
                3 => random.below(40) / 39,
                _ => random.below(4),
            };
            let acked = packets * u64::from(MSS);
            unacked += acked;
            let smoothed_rtt = match habit {
                1 => span(&mut random),
                3 => Span::from_ms(100),
                _ => Span::from_ms(10),
            };
            let delay_ns = match habit {
                2 => random.next_u64() as i64 >> 20,
                3 if step >= calm_at => 5_000_000,
                _ => 5_000_000 + random.below(40_000) as i64,
            };
            controller.on_ack(&AckSample {
                now,
                unacked,
                next: unacked + random.below(if habit == 3 { 3 } else { 100 }) * u64::from(MSS),
                rtt: Some(smoothed_rtt),
                delay: Some(OneWayDelay::from_ns(delay_ns)),
                hold: if habit == 3 {
                    (step == told_at).then(|| Span::from_us(2))
                } else {
                    (random.below(3) > 0).then(|| span(&mut random))
                },
                smoothed_rtt,
                ece: habit < 3 && random.below(50) == 0,
                window_limited: random.below(3) > 0,
                in_recovery: habit < 3 && random.below(20) == 0,
                ..super::ack(acked)
            });
            if habit < 3 && random.below(40) == 0 {
                let cause = [Cause::Loss, Cause::Ecn, Cause::Timeout][random.below(3) as usize];
                controller.on_congestion(&Congestion { now, next: unacked, ..congestion(cause, 10 * u64::from(MSS)) });
            }
            let rate = controller.pacing_rate().map(Rate::bytes_per_sec_f64);
            assert!(rate.is_none_or(|rate| rate > 0.0 && rate.is_finite()), "seed {seed}: {rate:?}");
        }
    }
}

/// Gaps are measured up to 200 Mbit/s. A normal flow of ten packets of 10 kbit in a round trip paces at twice their rate: 200 Mbit/s with
/// 1 ms, and 222 Mbit/s with 0.9 ms.
#[test]
fn gaps_of_fast_flows_are_not_measured() {
    for (rtt, measures) in [(Span::from_ms(1), true), (Span::from_us(900), false)] {
        let mut controller = Bounded::new(BoundedConfig::default(), MSS);
        assert!(controller.measures_gaps(), "nothing is known yet");
        controller.set_needed_rate(Rate::from_bits_per_sec(u64::MAX));
        let now = Instant::ZERO.after(rtt);
        controller.on_ack(&AckSample { now, acked: 0, rtt: Some(rtt), smoothed_rtt: rtt, ..super::ack(0) });
        assert_eq!(controller.measures_gaps(), measures, "{:?}", controller.pacing_rate());
    }
}
