//! Hold times: for how long a receiver had the packet whose time it echoes, so that a round-trip time splits into the
//! network's part and the host's (Swift, SIGCOMM 2020, section 3.2).

use super::receiver::{acks, data_packet, receiver};
use super::*;
use crate::packet::Ecn;

fn data(segment: u64, sent_us: u64) -> Packet {
    data_packet(segment * MSS, MSS as u16, DataFlags::HOLD, us(sent_us), Ecn::NotEct)
}

fn feed(end: &mut End<TcpReceiver>, at_us: u64, packet: Packet) -> Vec<Sent> {
    end.feed(Input::Packet(us(at_us), packet, SackBlocks::EMPTY)).to_vec()
}

/// Hold times reported, in microseconds.
fn holds(sent: &[Sent]) -> Vec<Option<u64>> {
    let in_us = |hold: Span| hold.as_ps() / Span::from_us(1).as_ps();
    sent.iter().map(|sent| sent.packet.hold(&sent.sack).map(in_us)).collect()
}

/// One acknowledgement of two packets echoes the first and reports its wait for the second; a late one, the timer's.
#[test]
fn a_delayed_acknowledgement_reports_its_delay() {
    let mut end = receiver(&TcpConfig { ack_every: 2, ..config() });
    assert_eq!(feed(&mut end, 110, data(0, 100)), []);
    assert_eq!(holds(&feed(&mut end, 130, data(1, 105))), [Some(20)]);
    assert_eq!(feed(&mut end, 140, data(2, 110)), []);
    let late = end.feed(Input::Timeout(us(640))).to_vec();
    assert_eq!((acks(&late), holds(&late)), ([3].to_vec(), [Some(500)].to_vec()));
}

/// Behind a gap acknowledgements echo the packet before it, which stays here ever longer; SACK blocks travel along.
#[test]
fn behind_a_gap_the_echoed_packet_is_held() {
    let mut end = receiver(&config());
    assert_eq!(holds(&feed(&mut end, 110, data(0, 100))), [Some(0)]);
    let duplicates = [feed(&mut end, 120, data(2, 102)), feed(&mut end, 125, data(3, 103))].concat();
    assert_eq!((acks(&duplicates), holds(&duplicates)), ([1, 1].to_vec(), [Some(10), Some(15)].to_vec()));
    assert!(duplicates.iter().all(|sent| sent.packet.has_sack() && !sent.sack.as_slice().is_empty()));
    assert_eq!(holds(&feed(&mut end, 150, data(1, 140))), [Some(0)], "the retransmission is echoed");
}

/// Over 10 us forth and 25 back every sample is 35 us of the network's, whatever the receiver waits and the network
/// loses. Who does not ask hears nothing, and nothing travels beside its acknowledgements.
#[test]
fn the_controller_hears_what_the_network_took() {
    for (asks_hold, prr) in [(true, false), (true, true), (false, false)] {
        let config = TcpConfig { ack_every: 2, max_ack_delay: Span::from_us(100), prr, ..config() };
        let controller = TestController { asks_hold, ..TestController::aimd(3) };
        let back = Path::new(Span::from_us(25));
        let mut pair = pair(&config, controller, dropping(&[5, 6, 20, 70]), back);
        complete(&mut pair, 101 * MSS);
        let samples = &pair.sender.transport.controller().samples;
        let measured = samples.iter().filter(|sample| sample.rtt.is_some());
        let fabric: Vec<_> = measured.clone().map(AckSample::fabric_delay).collect();
        let expected = asks_hold.then_some(Span::from_us(35));
        assert!(fabric.len() > 30 && fabric.iter().all(|delay| *delay == expected), "{fabric:?}");
        let waits = measured.filter(|sample| sample.rtt > Some(Span::from_us(35))).count();
        assert!(waits > 0, "some waited");
        let beside = |sent: &&Sent| sent.packet.has_attachment() && !sent.packet.has_sack();
        assert_eq!(pair.receiver.sent.iter().any(|sent| beside(&sent)), asks_hold);
    }
}

/// What is asked for is both or one: the delay keeps its meaning beside a hold time.
#[test]
fn delays_and_hold_times_are_reported_together() {
    let mut end = receiver(&config());
    let flags = DataFlags::HOLD.with(DataFlags::DELAY);
    let sent = feed(&mut end, 130, data_packet(0, MSS as u16, flags, us(100), Ecn::NotEct));
    assert_eq!(holds(&sent), [Some(0)]);
    assert_eq!(sent[0].packet.delay(&sent[0].sack), Some(crate::time::OneWayDelay::from_ns(30_000)));
}
