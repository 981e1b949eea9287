//! DCCP over scripted paths.

use alloc::collections::BTreeSet;
use alloc::rc::Rc;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::RefCell;

use proptest::prelude::*;

use super::sender::AckRatioControl;
use super::*;
use crate::congestion::reno::{Reno, RenoConfig};
use crate::packet::{Body, DataFlags, EndpointId, Packet, SackBlocks};
use crate::rng::Stream;
use crate::time::Instant;
use crate::transport::pair::{End, Fate, Input, Pair, Path};
use crate::transport::tcp::{TcpConfig, TcpReceiver, TcpSender};
use crate::transport::{Command, Event, Transport};
use crate::units::Rate;

const DELAY: Span = Span::from_us(50);
const PAYLOAD: u64 = 1460;

fn config() -> DccpConfig {
    DccpConfig { ack_ratio: AckRatio::Fixed(1), ..DccpConfig::default() }
}

fn pair(config: DccpConfig, fate: impl FnMut(usize) -> Fate + 'static) -> Pair<DccpSender, DccpReceiver> {
    let config = Arc::new(config);
    let mut fate = fate;
    let forth = Path::new(DELAY).with_fate(move |number, _, _| fate(number));
    Pair::new(DccpSender::new(Arc::clone(&config)), DccpReceiver::new(config), forth, Path::new(DELAY))
}

fn number(packet: &Packet) -> u32 {
    let Body::Datagram { number, .. } = packet.body() else { panic!("{packet:?} is no datagram") };
    number
}

fn delivered(pair: &Pair<DccpSender, DccpReceiver>) -> u64 {
    pair.receiver.transport.arrivals.unique_bytes()
}

/// Slow start doubles the window every round trip, and every packet arrives in order.
#[test]
fn slow_start_doubles() {
    let mut pair = pair(config(), |_| Fate::Pass);
    pair.transfer(70 * PAYLOAD);
    assert!(pair.run_until(Instant::MAX));
    let rounds = |round: u64| {
        let at = Instant::ZERO.after(DELAY.times(2 * round));
        pair.sender.sent.iter().filter(|sent| sent.at == at).count()
    };
    assert_eq!([rounds(0), rounds(1), rounds(2)], [10, 20, 40]);
    assert_eq!(pair.receiver.delivered(), 70 * PAYLOAD);
    assert_eq!(pair.receiver.time_of(Event::Received), Some(Instant::ZERO.after(DELAY.times(5))));
    assert_eq!(pair.sender.time_of(Event::Finished), Some(Instant::ZERO.after(DELAY.times(6))));
}

/// Packet 12 of a window of 20 is lost: 10 acknowledged packets have doubled the window to 20; 10 and 11 make it 22;
/// 13, 14 and 15 make it 25 less the one that is told of the loss, and halve it. One loss in the same window changes
/// nothing more, and nothing is sent again.
#[test]
fn a_loss_halves_once_per_window() {
    let mut pair = pair(config(), |number| if number == 12 || number == 20 { Fate::Drop } else { Fate::Pass });
    pair.command_sender(Command::Send { bytes: 1000 * PAYLOAD });
    // Packets 10 to 29 arrive in the third half of a round trip, their acknowledgements in the fourth.
    pair.run_until(Instant::ZERO.after(DELAY.times(4)));
    let sender = &pair.sender.transport;
    // 10 + 10 + 2 (10, 11) + 2 (13, 14); 15 tells of the loss: 24 / 2. Then 14 more arrive (16 to 29 without 20):
    // one more window of 12, 2 left over.
    assert_eq!((sender.window(), sender.statistics().fast_recoveries), (13, 1));
    assert_eq!(sender.ssthresh, 12);
}

/// A mark halves the window as a loss does, once per window; without `ecn` no packet can be marked.
#[test]
fn a_mark_halves() {
    for (ecn, halvings) in [(true, 1), (false, 0)] {
        let mut pair = pair(DccpConfig { ecn, ..config() }, |number| match number {
            3 | 5 => Fate::Mark,
            _ => Fate::Pass,
        });
        pair.command_sender(Command::Send { bytes: 1000 * PAYLOAD });
        pair.run_until(Instant::ZERO.after(DELAY.times(2)));
        assert_eq!(pair.sender.transport.statistics().fast_recoveries, halvings);
    }
}

/// A whole window is lost: after the timeout the window is one packet, ssthresh half of what it was, and what was in
/// flight is given up.
#[test]
fn a_timeout_gives_up_what_was_in_flight() {
    let mut pair = pair(config(), |number| if number < 10 { Fate::Drop } else { Fate::Pass });
    pair.transfer(30 * PAYLOAD);
    let initial = DccpConfig::default().rto.initial;
    pair.run_until(Instant::ZERO.after(initial));
    let sender = &pair.sender.transport;
    assert_eq!((sender.window(), sender.ssthresh, sender.pipe(), sender.statistics().timeouts), (1, 5, 1, 1));
    assert!(pair.run_until(Instant::MAX));
    assert_eq!(delivered(&pair), 20 * PAYLOAD);
    assert_eq!(pair.sender.sent.len(), 30);
    assert!(pair.sender.time_of(Event::Finished).is_some());
    assert_eq!(pair.receiver.time_of(Event::Received), None, "not all arrived");
}

/// What was lost is handed in again behind everything else, in packets with new numbers.
#[test]
fn what_was_lost_comes_again_at_the_end() {
    let lost = |number: usize| if number % 7 == 3 && number < 60 { Fate::Drop } else { Fate::Pass };
    let mut pair = pair(DccpConfig { repeat_lost: true, ..config() }, lost);
    pair.transfer(60 * PAYLOAD);
    assert!(pair.run_until(Instant::MAX));
    assert_eq!(delivered(&pair), 60 * PAYLOAD);
    assert!(pair.receiver.time_of(Event::Received).is_some());
    let again = pair.sender.sent[60..].iter().map(|sent| match sent.packet.body() {
        Body::Datagram { seq, .. } => seq / PAYLOAD,
        _ => unreachable!("only datagrams are sent"),
    });
    assert_eq!(again.collect::<Vec<_>>(), [3, 10, 17, 24, 31, 38, 45, 52, 59]);
    assert!(pair.sender.sent.iter().enumerate().all(|(index, sent)| number(&sent.packet) == index as u32));
}

/// With an ack ratio of 2 every second packet is answered, the odd last one after the delay; a gap is told at once.
#[test]
fn acknowledgements_follow_the_ratio() {
    let receiver = DccpConfig { ack_ratio: AckRatio::Fixed(2), ..config() };
    let mut end = End::new(DccpReceiver::new(Arc::new(receiver)));
    let data = |number: u32| {
        let body =
            Body::Datagram { seq: u64::from(number) * 100, number, ack_ratio: 2, len: 100, flags: DataFlags::NONE };
        Packet::new(TrafficClass::default(), 178, body).to(EndpointId::default())
    };
    let mut feed = |us, number| {
        let at = Instant::ZERO.after(Span::from_us(us));
        end.feed(Input::Packet(at, data(number), SackBlocks::EMPTY)).first().map(|sent| sent.packet.body())
    };
    assert_eq!(feed(1, 0), None);
    let vector = |number, received, count| Some(Body::AckVector { number, received, marked: 0, count });
    assert_eq!(feed(2, 1), vector(1, 0b1, 0));
    assert_eq!(feed(3, 3), vector(3, 0b110, 1), "2 is missing");
    assert_eq!(feed(4, 2), vector(3, 0b111, 2), "and comes late");
    assert_eq!(feed(5, 4), None);
    assert_eq!(end.deadline.map(|deadline| deadline.at), Some(Instant::ZERO.after(Span::from_us(505))));
    assert_eq!(end.feed(Input::Timeout(Instant::ZERO.after(Span::from_us(505)))).len(), 1);
}

/// Of a window of 20 packets: a lost acknowledgement doubles the ratio; then 20 / (16 - 4) = 1 quiet window lowers it to
/// 3, 20 / (9 - 3) = 3 to 2, 20 / (4 - 2) = 10 to 1, where it stays.
#[test]
fn the_ack_ratio_adapts() {
    let mut control = AckRatioControl::new(AckRatio::Adaptive);
    let mut ratios = Vec::new();
    for window in 0..20u16 {
        // The first acknowledgement, number 0, is lost.
        let packet = 20 * u64::from(window + 1);
        control.on_ack(window + 1, packet, packet + 1, 20);
        ratios.push(control.ratio);
    }
    assert_eq!(ratios[..5], [4, 3, 3, 3, 2]);
    assert_eq!((ratios[13], ratios[14], ratios[19]), (2, 1, 1));
}

/// Under the same pattern of losses, well apart or in bursts within a window, as many halvings as SACK-Reno.
#[test]
fn halvings_are_those_of_sack_reno() {
    let pattern: BTreeSet<u64> = [100, 101, 300, 700, 705, 712, 1500, 2200, 2201, 2202, 3000].into();
    let bytes = 4000 * PAYLOAD;
    let drops = pattern.clone();
    let mut dccp = pair(config(), move |number| if drops.contains(&(number as u64)) { Fate::Drop } else { Fate::Pass });
    dccp.transfer(bytes);
    assert!(dccp.run_until(Instant::MAX));

    let tcp = Arc::new(TcpConfig { ack_every: 1, ..TcpConfig::default() });
    let forth = Path::new(DELAY).with_fate(move |_, _, packet| match packet.body() {
        Body::Data { seq, flags, .. }
            if !flags.contains(DataFlags::RETRANSMISSION) && pattern.contains(&(seq / PAYLOAD)) =>
        {
            Fate::Drop
        }
        _ => Fate::Pass,
    });
    let sender = TcpSender::new(Arc::clone(&tcp), Reno::new(RenoConfig::default(), 1460));
    let mut reno = Pair::new(sender, TcpReceiver::new(tcp), forth, Path::new(DELAY));
    reno.transfer(bytes);
    assert!(reno.run_until(Instant::MAX));

    let (ours, theirs) = (dccp.sender.transport.statistics(), reno.sender.transport.statistics());
    assert_eq!((ours.timeouts, theirs.timeouts), (0, 0));
    assert_eq!(ours.fast_recoveries, theirs.fast_recoveries);
    assert_eq!(ours.fast_recoveries, 6, "seven places, of which 100 and 300 or none may share a window");
}

/// Mean window in packets over `packets` packets sent, under random loss at `rate`.
fn random_loss(rate: f64, packets: u64, link: Option<Rate>) -> (f64, f64) {
    let stream = RefCell::new(Stream::named(3, "losses"));
    let fate = move |_, _: Instant, _: &Packet| {
        if stream.borrow_mut().unit() < rate { Fate::Drop } else { Fate::Pass }
    };
    let config = Arc::new(config());
    let mut forth = Path::new(DELAY).with_fate(fate);
    if let Some(link) = link {
        forth = forth.with_rate(link);
    }
    let sender = DccpSender::new(Arc::clone(&config));
    let mut pair = Pair::new(sender, DccpReceiver::new(config), forth, Path::new(DELAY));
    pair.transfer(packets * PAYLOAD);
    assert!(pair.run_until(Instant::MAX));
    let seconds = pair.now.as_secs_f64();
    let round_trips = seconds / DELAY.times(2).as_secs_f64();
    (packets as f64 / round_trips, delivered(&pair) as f64 * 8.0 / seconds)
}

/// Goodput follows 1.31/sqrt(p) packets per round trip, the constant of independent losses, within 10 %. The first slow
/// start ends with the first loss, after 1/p packets, and takes several more to come down: about 5/p packets that the law
/// does not have, so the rarer the losses the longer the run.
#[test]
fn goodput_follows_the_square_root_law() {
    for (rate, packets) in [(3e-3, 400_000), (1e-3, 400_000), (1e-4, 2_000_000)] {
        let (window, _) = random_loss(rate, packets, None);
        let constant = window * rate.sqrt();
        assert!((constant / 1.31 - 1.0).abs() <= 0.1, "{constant} at {rate}");
    }
}

/// Above 10 % random loss less than 5 % of a link of a million packets a second is left (PPUSH, figure 4b).
#[test]
fn heavy_loss_starves_it() {
    let link = Rate::from_bits_per_sec(1_000_000 * 1538 * 8);
    for rate in [0.11, 0.2, 0.4] {
        let (_, goodput) = random_loss(rate, 20_000, Some(link));
        let share = goodput / (1e6 * PAYLOAD as f64 * 8.0);
        assert!(share < 0.05, "{share} at {rate}");
    }
}

proptest! {
    /// Whatever is dropped, delayed, doubled or marked: every number appears once on the wire, what is delivered is what
    /// was sent and not dropped, the sender ends with an empty pipe; and with `repeat_lost` all arrives.
    #[test]
    fn numbers_are_unique_and_bytes_conserved(
        fates in prop::collection::vec(
            prop_oneof![
                6 => Just(Fate::Pass), 2 => Just(Fate::Drop), 1 => Just(Fate::Mark), 1 => Just(Fate::Duplicate),
                1 => (1u64..3000).prop_map(|us| Fate::Delay(Span::from_us(us))),
            ], 1..200),
        back in prop::collection::vec(prop_oneof![4 => Just(Fate::Pass), 1 => Just(Fate::Drop)], 1..200),
        bytes in 0u64..300_000,
        ecn: bool,
        repeat_lost: bool,
        adaptive: bool,
    ) {
        let ack_ratio = if adaptive { AckRatio::Adaptive } else { AckRatio::Fixed(2) };
        let config = Arc::new(DccpConfig { ecn, ack_ratio, repeat_lost, ..config() });
        let arrived = Rc::new(RefCell::new(BTreeSet::new()));
        let seen = Rc::clone(&arrived);
        let forth = Path::new(DELAY).with_fate(move |index, _, packet| {
            let fate = fates.get(index).copied().unwrap_or(Fate::Pass);
            if let (Body::Datagram { seq, len, .. }, true) = (packet.body(), fate != Fate::Drop) {
                seen.borrow_mut().insert((seq, len));
            }
            fate
        });
        let back = Path::new(DELAY).with_fate(move |index, _, _| back.get(index).copied().unwrap_or(Fate::Pass));
        let sender = DccpSender::new(Arc::clone(&config));
        let mut pair = Pair::new(sender, DccpReceiver::new(config), forth, back);
        pair.transfer(bytes);
        prop_assert!(pair.run_until(Instant::ZERO.after(Span::from_secs(100))), "it ends");
        let numbers: Vec<u32> = pair.sender.sent.iter().map(|sent| number(&sent.packet)).collect();
        prop_assert_eq!(numbers, (0..pair.sender.sent.len() as u32).collect::<Vec<_>>());
        let expected: u64 = arrived.borrow().iter().map(|(_, len)| u64::from(*len)).sum();
        prop_assert_eq!(delivered(&pair), expected);
        prop_assert_eq!(pair.sender.transport.pipe(), 0);
        prop_assert!(pair.sender.time_of(Event::Finished).is_some());
        if repeat_lost {
            prop_assert_eq!(delivered(&pair), bytes);
            prop_assert!(pair.receiver.time_of(Event::Received).is_some());
        }
    }
}
