//! Known answers, properties over random networks of two classes, and what happens when a class fails.

mod random;

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::competitors::Competitors;
use super::estimator::{Estimate, FairRate, Interval};
use super::ledger::Ledger;
use super::*;
use crate::congestion::dctcp::{Dctcp, DctcpConfig};
use crate::congestion::{AckSample, CongestionControl};
use crate::packet::{AckFlags, Body, CreditStamp, DataFlags, Packet, SackBlocks, ShortTime, Subflow, TrafficClass};
use crate::rng::Stream;
use crate::time::{Instant, Span};
use crate::transport::pair::{End, Fate, Input, Pair, Path, draw_fate};
use crate::transport::{Command, Event, Transport};
use crate::units::Rate;

const MSS: u64 = 1460;
const GIGABIT: f64 = 1e9 / 8.0;

type TestPair = Pair<TwoClassSender<Dctcp>, TwoClassReceiver>;

fn line() -> Rate {
    Rate::from_gbit_per_sec(10)
}

fn path() -> Path {
    Path::new(Span::from_us(10)).with_rate(line())
}

fn sender(config: &Arc<TwoClassConfig>, share: f64) -> TwoClassSender<Dctcp> {
    let controller = Dctcp::new(DctcpConfig::default(), config.mss);
    TwoClassSender::new(Arc::clone(config), controller, share, Some(line()))
}

fn pair(share: f64, forth: Path, back: Path) -> TestPair {
    let config = Arc::new(TwoClassConfig::default());
    let receiver = TwoClassReceiver::new(Arc::clone(&config));
    Pair::new(sender(&config, share), receiver, forth, back)
}

/// A path that loses all data of a class from `from` to `until`.
fn without_class(class: u8, from: Span, until: Span) -> Path {
    path().with_fate(move |_, now, packet| {
        let data = matches!(packet.body(), Body::Scheduled { .. } | Body::Unscheduled { .. });
        let dead = (Instant::ZERO.after(from)..Instant::ZERO.after(until)).contains(&now);
        if data && dead && packet.traffic_class.class() == usize::from(class) { Fate::Drop } else { Fate::Pass }
    })
}

fn seen(busy: f64, joining_gbit: f64, busy_gbit: f64) -> Estimate {
    let line = 10.0 * GIGABIT;
    Estimate { busy_rate: busy_gbit * GIGABIT, joining_rate: joining_gbit * GIGABIT, busy, line, marked_wait: None }
}

fn interval(scavenger_gbit: f64, guarantee_gbit: f64, wait_us: f64) -> Interval {
    Interval {
        seconds: 0.001,
        scavenger: scavenger_gbit * GIGABIT,
        guarantee: guarantee_gbit * GIGABIT,
        scavenger_dead: false,
        wait: wait_us * 1e-6,
        marked: wait_us > 0.0,
        remaining: 0.0,
        told: None,
    }
}

/// The estimate by count after many equal intervals, in Gbit/s.
fn counted(interval: &Interval, seen: &Estimate) -> f64 {
    let mut competitors = Competitors::new();
    let rates = (0..200).map(|_| competitors.fair_rate(Some(100e-6), 0.01 * seen.line, interval, seen));
    rates.last().unwrap() / GIGABIT
}

/// Data that leaves for the peer takes along the acknowledgement that is withheld of the scavenger's packets.
#[test]
fn a_withheld_acknowledgement_goes_with_data() {
    let config = TwoClassConfig { ack_every: 2, ..TwoClassConfig::default() };
    let mut end = End::new(TwoClassReceiver::new(Arc::new(config)));
    for number in 0..3 {
        let body = Body::Unscheduled { seq: u64::from(number) * MSS, number, len: MSS as u16, flags: DataFlags::NONE };
        let packet = Packet::new(TrafficClass::default(), 1538, body);
        assert!(end.feed(Input::Packet(Instant::ZERO, packet, SackBlocks::EMPTY)).is_empty());
        let sent = end.feed(Input::Command(Instant::ZERO, Command::Acknowledge)).to_vec();
        let [Body::SubflowAck { ack, .. }] = sent.iter().map(|sent| sent.packet.body()).collect::<Vec<_>>()[..] else {
            panic!("one acknowledgement is due")
        };
        assert_eq!(ack, u64::from(number + 1) * MSS);
        assert!(end.feed(Input::Command(Instant::ZERO, Command::Acknowledge)).is_empty());
    }
}

/// Closed forms, 10 Gbit/s: alone it is the line; of four flows that give way each has a quarter; beside one regular flow that
/// takes nine tenths without a queue, and with one more flow that gives way, it is a third, of which the scavenger, with
/// a twentieth, knows nothing.
#[test]
fn competitors_are_counted_by_how_long_the_low_class_waits() {
    let free = seen(0.0, 10.0, 5.0);
    let close = |rate: f64, expected: f64| assert!((rate / expected - 1.0).abs() < 0.01, "{rate} for {expected}");
    close(counted(&interval(9.9, 0.0, 0.0), &free), 9.9);
    close(counted(&interval(2.5, 0.0, 100.0), &free), 2.5);
    close(counted(&interval(0.5, 0.0, 1000.0), &free), 10.0 / (2.0 + 0.9));
    // The scavenger is silent: what a flow in the high class would have.
    close(counted(&interval(0.0, 0.0, 0.0), &seen(0.5, 8.0, 4.0)), 6.0);
}

/// The closed form of the marks: x = 10 Gbit/s and no guarantee make half of the line, and no marks at all are a virtual flow that
/// has grown to the whole line.
#[test]
fn a_virtual_flow_without_marks_has_the_line() {
    let mut estimator = FairRate::new(MSS as u16, Some(10.0 * GIGABIT));
    for round in 0..4000u64 {
        let sample = AckSample {
            now: Instant::ZERO.after(Span::from_us(100 * (round + 1))),
            acked: MSS,
            unacked: round,
            next: round,
            flight: MSS,
            ece: false,
            rtt: Some(Span::from_us(100)),
            delay: None,
            hold: None,
            smoothed_rtt: Span::from_us(100),
            window_limited: false,
            in_recovery: false,
        };
        estimator.on_ack(&sample);
    }
    let estimate = estimator.estimate(0.0);
    assert!((estimate.joining_rate / (10.0 * GIGABIT) - 1.0).abs() < 0.02, "{}", estimate.joining_rate / GIGABIT);
    assert!((estimate.busy_rate / (5.0 * GIGABIT) - 1.0).abs() < 0.02, "{}", estimate.busy_rate / GIGABIT);
    assert_eq!(estimate.busy, 0.0);
}

/// A flow that was promised nothing, or got more than its share, sends a trickle; one that is owed adds what the scavenger lacks,
/// at most its own bounds; one that knows its end may owe first.
#[test]
fn the_ledger_asks_for_what_the_scavenger_lacks() {
    let config = TwoClassConfig::default();
    let line = 10.0 * GIGABIT;
    let (trickle, busy) = (config.trickle * line, seen(1.0, 9.0, 5.0));
    let starved = interval(0.5, 0.0, 100.0);
    let last = |share: f64, interval: &Interval, seen: &Estimate| {
        let mut ledger = Ledger::new(share);
        let rates: Vec<f64> = (0..40).map(|_| ledger.book(&config, interval, seen)).collect();
        (*rates.last().unwrap(), ledger.balance())
    };
    assert_eq!(last(0.0, &starved, &busy).0, trickle);
    assert_eq!(last(0.8, &interval(9.0, 0.0, 0.0), &seen(0.0, 10.0, 5.0)).0, trickle);
    let (rate, balance) = last(0.8, &starved, &busy);
    assert!(balance < 0.0 && rate > 4.0 * GIGABIT, "{rate} {balance}");
    assert!(rate <= config.bounds.greatest_share * line);
    let crowded = seen(1.0, 0.2, 5.0);
    assert!(
        last(0.8, &starved, &crowded).0 <= config.bounds.greatest_weight * 0.2 * GIGABIT + 1.0,
        "it yields to overload"
    );
    let long = Interval { remaining: 1e9, ..starved };
    assert_eq!(last(0.8, &long, &busy).0, trickle, "it owes first");
}

/// On a path with nobody else the low class carries the flow, and the guarantee stays a trickle.
#[test]
fn alone_it_gives_way_and_has_the_line() {
    let mut pair = pair(0.8, path(), path());
    pair.transfer(20_000_000);
    assert!(pair.run_until(Instant::MAX));
    assert_eq!(pair.receiver.delivered(), 20_000_000);
    let (guarantee, scavenger) = pair.sender.transport.sent_bytes();
    assert!(guarantee * 20 < scavenger, "{guarantee} of {scavenger}");
    let done = pair.sender.time_of(Event::Finished).unwrap();
    assert!(done < Instant::ZERO.after(Span::from_ms(25)), "20 MB take 16 ms at 10 Gbit/s, and it took {done:?}");
}

/// Whichever class carries nothing from the first millisecond on, for good or for 50 ms, the flow lives on the other.
#[test]
fn it_survives_the_loss_of_either_class() {
    for class in [0, 1] {
        for until in [Span::from_ms(50), Span::from_secs(1000)] {
            let mut pair = pair(0.8, without_class(class, Span::from_ms(1), until), path());
            pair.transfer(5_000_000);
            assert!(pair.run_until(Instant::ZERO.after(Span::from_secs(60))), "class {class} until {until:?}");
            assert_eq!(pair.receiver.delivered(), 5_000_000);
            assert!(pair.sender.time_of(Event::Finished).is_some());
        }
    }
}

/// Reports of either sub-flow that are lost for good stop neither: what the other's say of the stream counts.
#[test]
fn it_survives_the_loss_of_its_reports() {
    for lost in [Subflow::Proactive, Subflow::Reactive] {
        let back = path().with_fate(move |_, _, packet| match packet.body() {
            Body::SubflowAck { subflow, .. } if subflow == lost => Fate::Drop,
            _ => Fate::Pass,
        });
        let mut pair = pair(0.8, path(), back);
        pair.transfer(1_000_000);
        assert!(pair.run_until(Instant::ZERO.after(Span::from_secs(60))), "{lost:?}");
        assert_eq!(pair.receiver.delivered(), 1_000_000);
    }
}

/// Values that no configuration may have are refused.
#[test]
fn configurations_are_checked() {
    let refused = |change: fn(&mut TwoClassConfig)| {
        let mut config = TwoClassConfig::default();
        change(&mut config);
        config.check().unwrap_err()
    };
    assert_eq!(TwoClassConfig::default().check(), Ok(()));
    assert_eq!(refused(|c| c.mss = 0), TwoClassConfigError::Mss);
    assert_eq!(refused(|c| c.ack_every = 0), TwoClassConfigError::AckEvery);
    assert_eq!(refused(|c| c.guarantee = c.scavenger.clone()), TwoClassConfigError::Classes);
    assert_eq!(refused(|c| c.marked_wait = Some(Span::ZERO)), TwoClassConfigError::Spans);
    assert_eq!(refused(|c| c.reorder_buffer = Some(1459)), TwoClassConfigError::Buffer);
    assert_eq!(refused(|c| c.growth = 1.0), TwoClassConfigError::Shares);
    assert_eq!(refused(|c| c.bounds.greatest_weight = f64::NAN), TwoClassConfigError::Shares);
}

/// What hosts say is fair counts in place of the estimate, in bytes of payload; after a tenth of a second of silence the estimate counts again.
#[test]
fn what_hosts_say_counts_while_they_say_it() {
    let after = |ms| Instant::ZERO.after(Span::from_ms(ms));
    // Without a bound the queue of this path, and with it an interval, would grow.
    let config = Arc::new(TwoClassConfig { reorder_buffer: Some(1 << 20), ..TwoClassConfig::default() });
    let receiver = TwoClassReceiver::new(Arc::clone(&config));
    let mut pair = Pair::new(sender(&config, 0.8), receiver, path(), path());
    pair.transfer(1_000_000_000);
    pair.run_until(after(50));
    let estimate = pair.sender.transport.fair_rate();
    pair.command_sender(Command::SetFairRate(Rate::from_gbit_per_sec(2)));
    pair.run_until(after(60));
    let payload = MSS as f64 / f64::from(TwoClassConfig::default().wire.wire_bytes(MSS as u16));
    let told = pair.sender.transport.fair_rate();
    assert!((told / (2.0 * GIGABIT * payload) - 1.0).abs() < 1e-9, "{told}");
    pair.run_until(after(200));
    let again = pair.sender.transport.fair_rate();
    assert!(estimate > 4.0 * GIGABIT && again > 4.0 * GIGABIT, "alone on 10 Gbit/s: {estimate}, {again}");
}

/// The low class takes a second for each packet, and the receiver keeps 64 kB beyond what it waits for. The guarantee sends again what is
/// held up, so that the flow goes on as with all the room; without that it would have 64 kB in a second.
#[test]
fn a_slow_class_does_not_hold_the_other_up() {
    let arrived = |reorder_buffer| {
        let config = Arc::new(TwoClassConfig { reorder_buffer, ..TwoClassConfig::default() });
        let receiver = TwoClassReceiver::new(Arc::clone(&config));
        let slow = path().with_fate(|_, _, packet| {
            let is_low = matches!(packet.body(), Body::Unscheduled { .. });
            if is_low { Fate::Delay(Span::from_secs(1)) } else { Fate::Pass }
        });
        let mut pair = Pair::new(sender(&config, 0.5), receiver, slow, path());
        pair.transfer(1_000_000_000);
        for ms in (0..900).step_by(50) {
            pair.run_until(Instant::ZERO.after(Span::from_ms(ms)));
            pair.command_sender(Command::SetFairRate(Rate::from_gbit_per_sec(1)));
        }
        pair.receiver.delivered()
    };
    let (all, little) = (arrived(None), arrived(Some(64_000)));
    assert!(little > 20_000_000, "{little}, and {all} with all the room");
}
