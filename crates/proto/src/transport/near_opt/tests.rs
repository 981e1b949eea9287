//! A sender and a receiver over a scripted path, with an oracle that knows what the path has dropped.

use alloc::collections::BTreeSet;
use alloc::rc::Rc;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};

use proptest::prelude::*;

use super::*;
use crate::packet::{AckFlags, Body, DataFlags, EndpointId, Packet, SackBlocks, WINDOW_UNLIMITED};
use crate::time::{Instant, Span};
use crate::transport::pair::{End, Fate, Input, Pair, Path};
use crate::transport::{Command, Event, Transport};
use crate::units::Rate;

const DELAY: Span = Span::from_us(50);
const RATE: Rate = Rate::from_gbit_per_sec(10);
/// 1460 bytes of payload at 10 Gbit/s, in Ethernet frames.
const PACKET: Span = Span::from_ps(1_230_400);

type Near = Pair<NearOptSender, NearOptReceiver>;

fn config() -> Arc<NearOptConfig> {
    Arc::new(NearOptConfig::default())
}

fn at_us(us: u64) -> Instant {
    Instant::ZERO.after(Span::from_us(us))
}

/// What a path may do to the packet of this number.
type Fates = fn(usize) -> Fate;

/// A path that delivers everything.
const CLEAN: Fates = |_| Fate::Pass;

/// A pair whose data meets `fate` and whose acknowledgements meet `back`; the oracle tells `rate` and what was dropped.
fn pair(rate: Rate, fate: impl Fn(usize) -> Fate + 'static, back: impl Fn(usize) -> Fate + 'static) -> Near {
    let drops = Rc::new(RefCell::new(BTreeSet::new()));
    let dropped = Rc::clone(&drops);
    let lost_ack = Rc::new(Cell::new(0));
    let highest = Rc::clone(&lost_ack);
    let back = Path::new(DELAY).with_fate(move |number, _, packet| {
        let fate = back(number);
        if let (Fate::Drop, Body::Ack { ack, .. }) = (fate, packet.body()) {
            lost_ack.set(ack.max(lost_ack.get()));
        }
        fate
    });
    let forth = Path::new(DELAY).with_fate(move |number, _, packet| {
        let fate = fate(number);
        if fate == Fate::Drop {
            assert!(drops.borrow_mut().insert(seq(packet)), "a packet is under way once at most");
        }
        fate
    });
    let oracle = move |request| match request {
        OracleRequest::FollowRate { .. } => Some(OracleAnswer::Rate(rate)),
        OracleRequest::UnfollowRate => None,
        OracleRequest::Fate { seq } => {
            let fate = match highest.get() {
                _ if dropped.borrow_mut().remove(&seq) => PacketFate::Dropped,
                ack if ack > seq => PacketFate::Arrived { ack },
                _ => PacketFate::UnderWay,
            };
            Some(OracleAnswer::Fate { seq, fate })
        }
    };
    Pair::new(NearOptSender::new(config()), NearOptReceiver::new(config()), forth, back).with_oracle(oracle)
}

fn seq(packet: &Packet) -> u64 {
    let Body::Data { seq, .. } = packet.body() else { panic!("{packet:?} is no data") };
    seq
}

/// Times at which the sender asked for the fate of packets.
fn asked(pair: &Near) -> Vec<(Instant, u64)> {
    let asks = pair.sender.events.iter().filter_map(|(at, event)| match event {
        Event::Ask(OracleRequest::Fate { seq }) => Some((*at, *seq)),
        _ => None,
    });
    asks.collect()
}

/// What a transfer of 10 MB without loss takes: its packets at the rate it was told, and the way.
#[test]
fn a_transfer_takes_its_size_over_the_rate() {
    let mut pair = pair(RATE, CLEAN, CLEAN);
    pair.transfer(10_000_000);
    assert!(pair.run_until(Instant::MAX));
    assert_eq!(pair.receiver.delivered(), 10_000_000);
    // The first leaves at once: one gap less than packets.
    let gaps = 10_000_000u64.div_ceil(1460) - 1;
    let received = Instant::ZERO.after(PACKET.times(gaps)).after(DELAY);
    assert_eq!(pair.receiver.time_of(Event::Received), Some(received));
    assert_eq!(pair.sender.time_of(Event::Finished), Some(received.after(DELAY)));
    assert_eq!(pair.sender.transport.statistics().retransmissions, 0);
    assert!(asked(&pair).is_empty());
}

/// Nothing leaves before a rate is told; zero stops and a new rate resumes, without a burst.
#[test]
fn the_rate_is_obeyed() {
    let mut end = End::new(NearOptSender::new(config()));
    assert!(end.feed(Input::Command(at_us(0), Command::Send { bytes: 1 << 20 })).is_empty());
    let class = config().data_class;
    assert_eq!(end.events, [(at_us(0), Event::Ask(OracleRequest::FollowRate { class }))]);
    assert_eq!(end.feed(Input::Command(at_us(3), Command::Answer(OracleAnswer::Rate(RATE)))).len(), 1);
    assert_eq!(end.deadline.map(|deadline| deadline.at), Some(at_us(3).after(PACKET)));
    let zero = Rate::from_bits_per_sec(0);
    assert!(end.feed(Input::Command(at_us(3), Command::Answer(OracleAnswer::Rate(zero)))).is_empty());
    assert!(end.feed(Input::Timeout(at_us(2000))).is_empty());
    assert!(
        end.feed(Input::Command(at_us(2000), Command::Answer(OracleAnswer::Rate(RATE)))).is_empty(),
        "the first packet is owed still"
    );
    assert_eq!(end.feed(Input::Timeout(at_us(2000).after(PACKET))).len(), 1);
}

/// A gap is asked about when the next packet is acknowledged; the dropped packet goes before anything new.
#[test]
fn a_gap_is_asked_about_at_once() {
    let mut pair = pair(RATE, |number| if number == 5 { Fate::Drop } else { Fate::Pass }, CLEAN);
    pair.transfer(1_000_000);
    assert!(pair.run_until(Instant::MAX));
    let next_acked = Instant::ZERO.after(PACKET.times(6)).after(DELAY.times(2));
    assert_eq!(asked(&pair), [(next_acked, 5 * 1460)]);
    let again = pair.sender.sent.iter().find(|sent| sent.at > next_acked).expect("it goes on");
    assert_eq!(seq(&again.packet), 5 * 1460);
    let statistics = pair.sender.transport.statistics();
    assert_eq!((statistics.retransmissions, statistics.timeouts), (1, 0));
    assert_eq!(pair.receiver.transport.statistics().duplicate_bytes, 0);
}

/// A lost tail is asked about when its timer expires: RTO_min here, far above three round trips.
#[test]
fn a_lost_tail_is_asked_about_after_the_timeout() {
    let last = 99;
    let fate = move |number| if (last - 2..=last).contains(&number) { Fate::Drop } else { Fate::Pass };
    let mut pair = pair(RATE, fate, CLEAN);
    pair.transfer(100 * 1460);
    assert!(pair.run_until(Instant::MAX));
    let sent = |number: usize| Instant::ZERO.after(PACKET.times(number as u64));
    let expected: Vec<_> = (last - 2..=last).map(|n| (sent(n).after(Span::from_ms(1)), n as u64 * 1460)).collect();
    assert_eq!(asked(&pair), expected);
    let statistics = pair.sender.transport.statistics();
    assert_eq!((statistics.retransmissions, statistics.timeouts), (3, 3));
    assert_eq!(pair.receiver.delivered(), 100 * 1460);
}

/// A packet that only waits is asked about once per RTO, never later and later, and never repeated.
#[test]
fn what_was_not_dropped_is_waited_for_without_backoff() {
    let fate = |number| if number == 50 { Fate::Delay(Span::from_us(7500)) } else { Fate::Pass };
    let mut pair = pair(RATE, fate, CLEAN);
    pair.transfer(51 * 1460);
    assert!(pair.run_until(Instant::MAX));
    let sent = Instant::ZERO.after(PACKET.times(50));
    let expected: Vec<_> = (1..=7).map(|ms| (sent.after(Span::from_ms(ms)), 50 * 1460)).collect();
    assert_eq!(asked(&pair), expected);
    assert_eq!(pair.sender.transport.statistics().retransmissions, 0);
    assert!(pair.sender.time_of(Event::Finished).is_some());
}

/// The last acknowledgement is lost: the oracle knows, and the flow ends after one timeout without sending anything.
#[test]
fn a_lost_last_acknowledgement_is_made_good() {
    let mut pair = pair(RATE, CLEAN, |number| if number >= 8 { Fate::Drop } else { Fate::Pass });
    pair.transfer(10 * 1460);
    assert!(pair.run_until(Instant::MAX));
    let sent = Instant::ZERO.after(PACKET.times(8));
    assert_eq!(pair.sender.time_of(Event::Finished), Some(sent.after(Span::from_ms(1))));
    assert_eq!(pair.sender.transport.statistics().packets_sent, 10);
}

/// Data that comes after everything was acknowledged asks for a rate anew.
#[test]
fn an_idle_flow_leaves_the_oracle_and_comes_back() {
    let mut pair = pair(RATE, CLEAN, CLEAN);
    pair.command_sender(Command::Send { bytes: 3000 });
    pair.run_until(at_us(1000));
    pair.command_sender(Command::Send { bytes: 3000 });
    pair.run_until(at_us(2000));
    pair.command_sender(Command::Finish);
    assert!(pair.run_until(Instant::MAX));
    let class = config().data_class;
    let asks = pair.sender.events.iter().filter_map(|(_, event)| match event {
        Event::Ask(request) => Some(*request),
        _ => None,
    });
    let each = [OracleRequest::FollowRate { class }, OracleRequest::UnfollowRate];
    assert_eq!(asks.collect::<Vec<_>>(), [each, each, each].concat());
    assert_eq!(pair.receiver.delivered(), 6000);
    assert!(pair.receiver.time_of(Event::Received).is_some() && pair.sender.time_of(Event::Finished).is_some());
}

/// Acknowledgements of what was never sent, answers to what was never asked and packets of no honest sender change
/// nothing.
#[test]
fn nonsense_is_ignored() {
    let mut sender = End::new(NearOptSender::new(config()));
    sender.feed(Input::Command(at_us(0), Command::Send { bytes: 1 << 20 }));
    sender.feed(Input::Command(at_us(0), Command::Answer(OracleAnswer::Rate(RATE))));
    let ack = |ack, echo| {
        let body = Body::Ack { ack, echo, window: WINDOW_UNLIMITED, flags: AckFlags::NONE };
        Packet::new(config().ack_class, 84, body).to(EndpointId::default())
    };
    for (number, echo) in [(1 << 40, Some(at_us(0))), (1460, Some(at_us(100))), (1460, None)] {
        sender.feed(Input::Packet(at_us(50), ack(number, echo), SackBlocks::EMPTY));
    }
    sender.feed(Input::Command(at_us(60), Command::Answer(OracleAnswer::Fate { seq: 0, fate: PacketFate::Dropped })));
    assert_eq!(sender.transport.statistics().retransmissions, 0);
    assert!(!sender.events.iter().any(|(_, event)| matches!(event, Event::Release(_))));

    let mut receiver = End::new(NearOptReceiver::new(config()));
    let data =
        |seq, len, flags| Packet::new(config().data_class, 1538, Body::Data { seq, sent_at: at_us(0), len, flags });
    for packet in [data(u64::MAX - 5, 100, DataFlags::NONE), data(1 << 62, 1, DataFlags::FIN)] {
        assert!(receiver.feed(Input::Packet(at_us(1), packet, SackBlocks::EMPTY)).is_empty());
    }
    receiver.feed(Input::Packet(at_us(2), data(0, 100, DataFlags::FIN), SackBlocks::EMPTY));
    assert!(receiver.feed(Input::Packet(at_us(3), data(100, 100, DataFlags::NONE), SackBlocks::EMPTY)).is_empty());
    assert_eq!(receiver.delivered(), 100);
}

fn fates() -> impl Strategy<Value = Vec<Fate>> {
    let delay = (1u64..3000).prop_map(|us| Fate::Delay(Span::from_us(us)));
    prop::collection::vec(prop_oneof![6 => Just(Fate::Pass), 2 => Just(Fate::Drop), 1 => delay], 1..200)
}

proptest! {
    /// Whatever is dropped or delayed on both ways: everything arrives, each dropped packet is sent again exactly once
    /// per drop, and nothing else is.
    #[test]
    fn retransmissions_are_drops(
        forth in fates(),
        back in fates(),
        bytes in 0u64..300_000,
        gbit in 1u64..40,
    ) {
        let drops = Rc::new(RefCell::new(0));
        let count = Rc::clone(&drops);
        let fate = move |number: usize| {
            let fate = forth.get(number).copied().unwrap_or(Fate::Pass);
            *count.borrow_mut() += u64::from(fate == Fate::Drop);
            fate
        };
        let back = move |number: usize| back.get(number).copied().unwrap_or(Fate::Pass);
        let mut pair = pair(Rate::from_gbit_per_sec(gbit), fate, back);
        pair.transfer(bytes);
        prop_assert!(pair.run_until(Instant::ZERO.after(Span::from_secs(60))), "it ends");
        prop_assert_eq!(pair.receiver.delivered(), bytes);
        prop_assert!(pair.sender.time_of(Event::Finished).is_some());
        prop_assert_eq!(pair.sender.transport.statistics().retransmissions, *drops.borrow());
        prop_assert_eq!(pair.receiver.transport.statistics().duplicate_bytes, 0);
    }
}
