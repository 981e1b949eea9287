use alloc::sync::Arc;
use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::packet::{Body, DataFlags, Packet};
use crate::rng::Stream;
use crate::time::{Instant, Span};
use crate::transport::pair::{Fate, Pair, Path, draw_fate};
use crate::transport::{Command, Event, Transport};
use crate::units::Rate;

/// Bytes of credits per second that fill 10 Gbit/s.
pub(crate) const FULL_RATE: f64 = 64_734_895.0;

fn pair_with(config: CreditConfig, forth: Path, back: Path) -> Pair<ExpressPassSender, ExpressPassReceiver> {
    let config = Arc::new(config);
    let receiver = ExpressPassReceiver::new(Arc::clone(&config), FULL_RATE, Stream::named(1, "credits"));
    Pair::new(ExpressPassSender::new(config), receiver, forth, back)
}

/// A path of 10 Gbit/s and 10 us.
pub(crate) fn path() -> Path {
    Path::new(Span::from_us(10)).with_rate(Rate::from_gbit_per_sec(10))
}

fn bodies(pair: &Pair<ExpressPassSender, ExpressPassReceiver>) -> (Vec<Body>, Vec<Body>) {
    let all = |sent: &[crate::transport::pair::Sent]| sent.iter().map(|sent| sent.packet.body()).collect();
    (all(&pair.sender.sent), all(&pair.receiver.sent))
}

/// The life of a flow of three packets without losses: request, one packet per credit with its echo, stop, answer.
#[test]
fn a_flow_asks_sends_and_stops() {
    let mut pair = pair_with(CreditConfig::default(), path(), path());
    pair.transfer(3_000);
    assert!(pair.run_until(Instant::MAX));
    let (forth, back) = bodies(&pair);
    assert!(matches!(forth[0], Body::CreditRequest { backlog: 3_000, .. }), "{:?}", forth[0]);
    let data: Vec<_> = forth
        .iter()
        .filter_map(|body| match *body {
            Body::Scheduled { seq, credit, len, flags, .. } => Some((seq, credit.number, len, flags)),
            _ => None,
        })
        .collect();
    assert_eq!(data, [(0, 1, 1460, DataFlags::NONE), (1460, 2, 1460, DataFlags::NONE), (2920, 3, 80, DataFlags::FIN)]);
    assert_eq!(forth[4], Body::CreditStop { end: 3_000, flags: DataFlags::FIN });
    assert!(matches!(back[0], Body::Credit(_)), "the first credit goes at once");
    assert!(matches!(back.last(), Some(Body::Ack { ack: 3_001, .. })), "{:?}", back.last());
    assert_eq!(pair.receiver.delivered(), 3_000);
    assert_eq!(pair.sender.time_of(Event::Finished).is_some(), pair.receiver.time_of(Event::Received).is_some());
    // Request, credit, data: one and a half round trips and what the packets take.
    let received = pair.receiver.time_of(Event::Received).unwrap();
    assert!(received > Instant::ZERO.after(Span::from_us(30)) && received < Instant::ZERO.after(Span::from_us(40)));
    let wasted = pair.sender.transport.statistics().wasted_credits;
    let sent = pair.receiver.transport.statistics().credits_sent;
    assert_eq!(sent, 3 + wasted);
}

/// A request that is lost goes again after 100 us, and again, without backoff.
#[test]
fn requests_are_repeated_every_100_us() {
    let lose = |number: usize, _: Instant, _: &Packet| if number < 3 { Fate::Drop } else { Fate::Pass };
    let mut pair = pair_with(CreditConfig::default(), path().with_fate(lose), path());
    pair.transfer(1_000);
    assert!(pair.run_until(Instant::MAX));
    let times: Vec<u64> = pair.sender.sent[..4].iter().map(|sent| sent.at.as_ps() / 1_000_000).collect();
    assert_eq!(times, [0, 100, 200, 300]);
    assert_eq!(pair.receiver.delivered(), 1_000);
}

/// Credits that are slower than the recovery timeout of 4 ms: 1, 10 or 100 of them per second pass. The sender asks anew when
/// it has heard nothing for 4 ms, and again after 100 us, 200 us and so on up to 3.2 ms, then every 4 ms: seven requests by
/// 10.3 ms. Nothing is lost, so nothing is sent twice.
#[test]
fn slow_credits_cost_few_requests() {
    for (per_second, packets) in [(1u64, 5u64), (10, 20), (100, 50)] {
        let (gap, mut next) = (Span::from_ps(1_000_000_000_000 / per_second), Instant::ZERO);
        let shaped = move |_: usize, now: Instant, packet: &Packet| match packet.body() {
            Body::Credit(_) if now < next => Fate::Drop,
            Body::Credit(_) => {
                next = now.after(gap);
                Fate::Pass
            }
            _ => Fate::Pass,
        };
        let mut pair = pair_with(CreditConfig::default(), path(), path().with_fate(shaped));
        pair.transfer(packets * 1460);
        assert!(pair.run_until(Instant::MAX));
        assert_eq!(pair.receiver.delivered(), packets * 1460);
        assert_eq!(pair.sender.transport.statistics().retransmissions, 0);
        let requests = bodies(&pair).0.iter().filter(|body| matches!(body, Body::CreditRequest { .. })).count() as u64;
        let most = 1 + (packets - 1) * (5 + gap.as_ps() / Span::from_ms(4).as_ps());
        assert!(requests <= most, "{requests} requests, at most {most}, at {per_second} credits per second");
    }
}

/// A gap is named at once and every 100 us until it is filled; what follows it is discarded, and the sender goes back.
#[test]
fn a_gap_is_repaired_by_going_back() {
    // The third packet on the path is the second of data.
    let lose = |number: usize, _: Instant, _: &Packet| if number == 2 { Fate::Drop } else { Fate::Pass };
    let mut pair = pair_with(CreditConfig::default(), path().with_fate(lose), path());
    pair.transfer(30 * 1460);
    assert!(pair.run_until(Instant::MAX));
    assert_eq!(pair.receiver.delivered(), 30 * 1460);
    let nacks = |body: &Body| matches!(body, Body::Ack { ack: 1460, .. });
    assert!(bodies(&pair).1.iter().any(nacks));
    let statistics = pair.sender.transport.statistics();
    assert!(statistics.retransmissions > 0 && statistics.bytes_sent > 30 * 1460, "{statistics:?}");
}

/// A stop as soon as one round trip's credits cover what is left wastes none of them, or next to none, and ends the flow no
/// later; a stop behind the last packet wastes those of a round trip, 15 at 20 us.
#[test]
fn an_early_stop_wastes_no_credits() {
    let flow = |early_stop| {
        let mut config = CreditConfig { early_stop, jitter: 0.0, ..CreditConfig::default() };
        config.feedback.initial_rate = 1.0;
        let mut pair = pair_with(config, path(), path());
        pair.transfer(200 * 1460);
        assert!(pair.run_until(Instant::MAX));
        assert!(pair.sender.time_of(Event::Finished).is_some());
        let received = pair.receiver.time_of(Event::Received).expect("everything arrives");
        (pair.sender.transport.statistics().wasted_credits, received)
    };
    let ((wasted, late), (early_wasted, early)) = (flow(false), flow(true));
    assert!(wasted >= 15 && early_wasted <= 2, "{wasted} and {early_wasted} wasted");
    assert!(early <= late.after(Span::from_us(1)), "{early} after {late}");
}

/// Data that comes when the flow has stopped is asked for anew: an application that pauses loses nothing.
#[test]
fn an_application_may_pause() {
    let mut pair = pair_with(CreditConfig::default(), path(), path());
    for ms in 0..5 {
        pair.now = Instant::ZERO.after(Span::from_ms(ms));
        pair.command_sender(Command::Send { bytes: 10_000 });
        pair.run_until(Instant::ZERO.after(Span::from_ms(ms)).after(Span::from_us(900)));
        assert_eq!(pair.receiver.delivered(), 10_000 * (ms + 1));
    }
    pair.command_sender(Command::Finish);
    assert!(pair.run_until(Instant::MAX));
    assert!(pair.receiver.time_of(Event::Received).is_some() && pair.sender.time_of(Event::Finished).is_some());
}

/// A flow of no bytes ends at both sides.
#[test]
fn an_empty_flow_ends() {
    let mut pair = pair_with(CreditConfig::default(), path(), path());
    pair.command_sender(Command::Finish);
    assert!(pair.run_until(Instant::MAX));
    assert!(pair.receiver.time_of(Event::Received).is_some() && pair.sender.time_of(Event::Finished).is_some());
}

/// A long flow that loses no credit ends at the full rate: one packet per 1.2976 us, 94.82 % of 10 Gbit/s.
#[test]
fn full_credits_are_94_82_percent_of_the_line() {
    let mut config = CreditConfig::default();
    config.feedback.initial_rate = 1.0;
    let mut pair = pair_with(config, path(), path());
    pair.command_sender(Command::Send { bytes: 1 << 40 });
    pair.run_until(Instant::ZERO.after(Span::from_ms(1)));
    let before = pair.receiver.delivered();
    pair.run_until(Instant::ZERO.after(Span::from_ms(11)));
    let wire = (pair.receiver.delivered() - before) as f64 / 1460.0 * 1538.0 * 8.0;
    assert!((wire / 1e8 - 0.9482).abs() < 0.002, "{}", wire / 1e8);
}

/// What a path does: loses, delays or repeats with these odds per thousand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Odds {
    pub(crate) lose: u64,
    pub(crate) delay: u64,
    pub(crate) repeat: u64,
}

pub(crate) fn odds() -> impl Strategy<Value = Odds> {
    (0u64..300, 0u64..50, 0u64..50).prop_map(|(lose, delay, repeat)| Odds { lose, delay, repeat })
}

/// A path that misbehaves in the first 50 ms and then no more.
pub(crate) fn bad_path(odds: Odds, seed: u64, name: &str) -> Path {
    let mut stream = Stream::named(seed, name);
    path().with_fate(move |_, now, _| {
        if now > Instant::ZERO.after(Span::from_ms(50)) {
            return Fate::Pass;
        }
        draw_fate(&mut stream, [odds.lose, odds.delay, odds.repeat])
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever is lost, delayed or repeated of requests, credits, data, stops and their answers: every byte reaches the
    /// application once and in order, both sides end, and the sender is told that it may forget all.
    #[test]
    fn every_byte_arrives_once(
        (forth, back) in (odds(), odds()),
        seed in any::<u64>(),
        bytes in 1u64..300_000,
        law in prop::sample::select(&[FeedbackLaw::Bic, FeedbackLaw::Delivered, FeedbackLaw::Multiplicative][..]),
        early_stop in any::<bool>(),
    ) {
        let mut config = CreditConfig { credit_bytes: (78, 90), early_stop, ..CreditConfig::default() };
        config.feedback.law = law;
        let mut pair = pair_with(config, bad_path(forth, seed, "forth"), bad_path(back, seed, "back"));
        pair.transfer(bytes);
        pair.check_everything_is_released(bytes, Span::from_secs(5))?;
    }
}
