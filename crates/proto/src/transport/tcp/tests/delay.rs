//! One-way delays: who asks, who is asked, and what the controller hears.

use super::receiver::{acks, receiver};
use super::*;
use crate::packet::TrafficClass;
use crate::time::OneWayDelay;

fn asking() -> TcpConfig {
    TcpConfig { one_way_delay: true, ..config() }
}

fn us_long(us: i64) -> OneWayDelay {
    OneWayDelay::from_ns(us * 1_000)
}

fn data(segment: u64, sent_us: u64, flags: DataFlags) -> Packet {
    let body = Body::Data { seq: segment * MSS, sent_at: us(sent_us), len: MSS as u16, flags };
    Packet::new(TrafficClass::default(), 1078, body)
}

fn feed(end: &mut End<TcpReceiver>, at_us: u64, packet: Packet) -> Vec<Sent> {
    end.feed(Input::Packet(us(at_us), packet, SackBlocks::EMPTY)).to_vec()
}

fn delays(sent: &[Sent]) -> Vec<Option<OneWayDelay>> {
    sent.iter().map(|sent| sent.packet.delay(&sent.sack)).collect()
}

/// A path of 10 us forth and 25 back: every sample is 10 us, on the data and not on the round trip; none is missing,
/// losses and all. Who does not ask hears nothing, and nothing on the wire differs.
#[test]
fn the_controller_hears_the_delay_of_the_way_forth() {
    for (config, expected) in [(asking(), Some(us_long(10))), (config(), None)] {
        let back = Path::new(Span::from_us(25));
        let mut pair = pair(&config, TestController::aimd(4), dropping(&[5, 6, 20]), back);
        complete(&mut pair, 100 * MSS);
        let samples = &pair.sender.transport.controller().samples;
        assert!(samples.len() > 90);
        assert!(samples.iter().all(|sample| sample.delay == expected));
        let asks =
            |sent: &Sent| matches!(sent.packet.body(), Body::Data { flags, .. } if flags.contains(DataFlags::DELAY));
        assert!(pair.sender.sent.iter().all(|sent| asks(sent) == expected.is_some()));
        assert!(pair.receiver.sent.iter().any(|sent| sent.packet.has_sack()), "with blocks beside it, too");
    }
}

/// A delayed acknowledgement reports the latest packet, as of its arrival; a delay is reported once.
#[test]
fn delayed_acknowledgements_report_the_latest_packet() {
    let mut end = receiver(&TcpConfig { ack_every: 2, ..asking() });
    assert_eq!(feed(&mut end, 110, data(0, 100, DataFlags::DELAY)), []);
    assert_eq!(delays(&feed(&mut end, 130, data(1, 105, DataFlags::DELAY))), [Some(us_long(25))]);
    assert_eq!(feed(&mut end, 140, data(2, 110, DataFlags::DELAY)), []);
    let late = end.feed(Input::Timeout(us(640))).to_vec();
    assert_eq!((acks(&late), delays(&late)), ([3].to_vec(), [Some(us_long(30))].to_vec()), "the wait is no delay");
    assert_eq!(delays(&feed(&mut end, 700, data(2, 600, DataFlags::NONE))), [None], "nobody asked");
}

/// Each acknowledgement of a disordered batch reports the packet that caused it.
#[test]
fn a_batch_reports_packet_by_packet() {
    let mut end = receiver(&asking());
    for (segment, sent_us) in [(0, 100), (2, 103), (3, 109)] {
        end.transport.handle_packet(us(120), &data(segment, sent_us, DataFlags::DELAY), &SackBlocks::EMPTY);
    }
    end.drain(us(120));
    assert_eq!(acks(&end.sent), [1, 1, 1]);
    assert_eq!(delays(&end.sent), [20, 17, 11].map(|delay| Some(us_long(delay))));
}

/// The receiver's clock may be far ahead or behind: differences stay, to the nanosecond.
#[test]
fn offsets_of_clocks_do_not_matter() {
    for (sent_us, received_us) in [(50, 1_000_000_000_000), (1_000_000_000_000, 50), (7_000_000, 7_000_000)] {
        let mut end = receiver(&asking());
        let first = delays(&feed(&mut end, received_us, data(0, sent_us, DataFlags::DELAY)))[0].unwrap();
        let second = delays(&feed(&mut end, received_us + 130, data(1, sent_us + 30, DataFlags::DELAY)))[0].unwrap();
        assert_eq!((second.minus(first), first.minus(second)), (100_000, -100_000));
    }
}
