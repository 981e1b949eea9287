//! NDP over scripted paths; what a switch trims is written out by hand.

use alloc::sync::Arc;
use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::host::HostAnswer;
use crate::packet::{Body, EndpointId, Packet, PulledFlags, SackBlocks};
use crate::time::Instant;
use crate::transport::pair::{End, Fate, Input, Pair, Path, any_fates, by_number};
use crate::transport::{Command, Event, Transport};
use crate::units::Rate;

const DELAY: Span = Span::from_us(5);
/// A full packet at 10 Gbit/s.
const PACKET: Span = Span::from_ps(1_230_400);
const RATE: Rate = Rate::from_gbit_per_sec(10);

type Ndp = Pair<NdpSender, NdpReceiver>;

fn pair(fate: impl FnMut(usize) -> Fate + 'static, back: impl FnMut(usize) -> Fate + 'static) -> Ndp {
    let config = Arc::new(NdpConfig::default());
    let (mut fate, mut fate_back) = (fate, back);
    let forth = Path::new(DELAY).with_rate(RATE).with_fate(move |number, _, _| fate(number));
    let back = Path::new(DELAY).with_fate(move |number, _, _| fate_back(number));
    Pair::new(NdpSender::new(Arc::clone(&config)), NdpReceiver::new(config), forth, back)
}

fn data(number: u64, sent_us: u64, flags: PulledFlags) -> Packet {
    let sent_at = Instant::ZERO.after(Span::from_us(sent_us));
    let body = Body::Pulled { seq: number * 1460, sent_at, len: 1460, flags };
    Packet::new(TrafficClass::default(), 1538, body).to(EndpointId::default())
}

fn at_us(us: u64) -> Instant {
    Instant::ZERO.after(Span::from_us(us))
}

/// Alone, a flow sends its window at once and then one packet per packet time: it takes its size over the rate and the
/// way, for the window is longer than a round trip.
#[test]
fn a_lone_flow_runs_at_line_rate() {
    let mut pair = pair(|_| Fate::Pass, |_| Fate::Pass);
    pair.transfer(1000 * 1460);
    assert!(pair.run_until(Instant::MAX));
    assert_eq!(pair.receiver.delivered(), 1_460_000);
    assert_eq!(pair.receiver.time_of(Event::Received), Some(Instant::ZERO.after(PACKET.times(1000)).after(DELAY)));
    let first = pair.sender.sent.iter().filter(|sent| sent.at == Instant::ZERO).count();
    assert_eq!(first, 15);
    let statistics = pair.sender.transport.statistics();
    assert_eq!((statistics.retransmissions, statistics.timeouts), (0, 0));
    assert!(pair.sender.time_of(Event::Finished).is_some());
}

/// Each whole packet is acknowledged, each header negatively; each brings a pull, with the count of all; pulls are a
/// packet time apart; the last packet stops them.
#[test]
fn the_receiver_answers_and_pulls() {
    let mut end = End::new(NdpReceiver::new(Arc::new(NdpConfig::default())));
    let body = |sent: &[crate::transport::pair::Sent]| sent.iter().map(|sent| sent.packet.body()).collect::<Vec<_>>();
    let ack =
        |number: u64, trimmed, complete| Body::PulledAck { seq: number * 1460, echo: at_us(0), trimmed, complete };
    let whole = end.feed(Input::Packet(at_us(5), data(0, 0, PulledFlags::NONE), SackBlocks::EMPTY));
    assert_eq!(body(whole), [ack(0, false, false)]);
    let header = end.feed(Input::Packet(at_us(5), data(1, 0, PulledFlags::TRIMMED), SackBlocks::EMPTY));
    assert_eq!(body(header), [ack(1, true, false)]);
    let asked = end.events.iter().filter(|(_, event)| matches!(event, Event::Ask(_))).count();
    assert_eq!(asked, 1, "one turn at a time");
    assert_eq!(body(end.feed(Input::Command(at_us(5), Command::Answer(HostAnswer::Turn)))), [Body::Pull { count: 1 }]);
    assert_eq!(body(end.feed(Input::Command(at_us(7), Command::Answer(HostAnswer::Turn)))), [Body::Pull { count: 2 }]);
    let last = end.feed(Input::Packet(at_us(9), data(1, 0, PulledFlags::FIN), SackBlocks::EMPTY));
    assert_eq!(body(last), [ack(1, false, true)]);
    assert!(end.feed(Input::Command(at_us(9), Command::Answer(HostAnswer::Turn))).is_empty());
    assert_eq!(end.delivered(), 2920);
}

/// What was trimmed goes before what is new, in the order in which that was learnt, one packet per pull; a pull that was
/// lost is made up for by the next.
#[test]
fn what_was_trimmed_goes_first() {
    let mut end = End::new(NdpSender::new(Arc::new(NdpConfig { initial_window: 3, ..NdpConfig::default() })));
    assert_eq!(end.feed(Input::Command(at_us(0), Command::Send { bytes: 10 * 1460 })).len(), 3);
    let control = |body| Packet::new(TrafficClass::default(), 84, body).to(EndpointId::default());
    let mut feed = |us, body| {
        let sent = end.feed(Input::Packet(at_us(us), control(body), SackBlocks::EMPTY));
        let seqs = sent.iter().map(|sent| match sent.packet.body() {
            Body::Pulled { seq, .. } => seq / 1460,
            other => panic!("{other:?}"),
        });
        seqs.collect::<Vec<_>>()
    };
    let nack = |number: u64| Body::PulledAck { seq: number * 1460, echo: at_us(0), trimmed: true, complete: false };
    assert_eq!(feed(10, nack(2)), []);
    assert_eq!(feed(10, nack(1)), []);
    assert_eq!(feed(11, Body::Pull { count: 1 }), [2]);
    assert_eq!(feed(12, Body::Pull { count: 3 }), [1, 3], "pull 2 was lost");
    assert_eq!(feed(13, Body::Pull { count: 2 }), [], "and is late");
    assert_eq!(feed(14, nack(2)), [], "an answer to the first transmission is no news");
}

/// A returned packet waits for the pull that another packet under way will bring; the only one is sent again at once.
#[test]
fn a_returned_packet_waits_unless_it_is_alone() {
    let returned = PulledFlags::TRIMMED.with(PulledFlags::RETURNED);
    for (packets, again) in [(2u64, 0), (1, 1)] {
        let mut end = End::new(NdpSender::new(Arc::new(NdpConfig::default())));
        end.feed(Input::Command(at_us(0), Command::Send { bytes: packets * 1460 }));
        let sent = end.feed(Input::Packet(at_us(5), data(0, 0, returned), SackBlocks::EMPTY));
        assert_eq!(sent.len(), again, "{packets} packets");
    }
}

/// The whole window is lost without a header: after the timeout as many leave again.
#[test]
fn a_timeout_is_the_last_resort() {
    let mut pair = pair(|number| if number < 15 { Fate::Drop } else { Fate::Pass }, |_| Fate::Pass);
    pair.transfer(40 * 1460);
    assert!(pair.run_until(Instant::MAX));
    assert_eq!(pair.receiver.delivered(), 40 * 1460);
    let statistics = pair.sender.transport.statistics();
    assert_eq!((statistics.retransmissions, statistics.timeouts), (15, 1));
}

proptest! {
    /// Whatever is lost, doubled or delayed on both ways, everything arrives in order, and the flow ends.
    #[test]
    fn everything_arrives(
        forth in any_fates(),
        back in any_fates(),
        bytes in 0u64..200_000,
    ) {
        let mut pair = pair(by_number(forth), by_number(back));
        pair.transfer(bytes);
        pair.check_everything_arrives(bytes)?;
    }
}
