//! When and how a receiver acknowledges.

use super::*;
use crate::packet::{ByteRange, Ecn, TrafficClass};

/// A receiver driven by hand; gives its acknowledgements as (ack in segments, SACK blocks in segments).
pub(super) fn receiver(config: &TcpConfig) -> End<TcpReceiver> {
    End::new(TcpReceiver::new(Arc::new(config.clone())))
}

pub(super) fn data_packet(seq: u64, len: u16, flags: DataFlags, sent_at: Instant, ecn: Ecn) -> Packet {
    let body = Body::Data { seq, sent_at, len, flags };
    Packet::new(TrafficClass::default().with_ecn(ecn), len + 78, body)
}

pub(super) fn data(segment: u64) -> Packet {
    data_packet(segment * MSS, MSS as u16, DataFlags::NONE, us(segment), Ecn::NotEct)
}

/// Acknowledgements as numbers of segments.
pub(super) fn acks(sent: &[Sent]) -> Vec<u64> {
    let acks = sent.iter().filter_map(|sent| match sent.packet.body() {
        Body::Ack { ack, .. } => Some(ack / MSS),
        _ => None,
    });
    acks.collect()
}

fn blocks(sent: &Sent) -> Vec<(u64, u64)> {
    sent.sack.as_slice().iter().map(|ByteRange { start, end }| (start / MSS, end / MSS)).collect()
}

fn flags(sent: &Sent) -> AckFlags {
    match sent.packet.body() {
        Body::Ack { flags, .. } => flags,
        _ => AckFlags::NONE,
    }
}

fn echo(sent: &Sent) -> Option<Instant> {
    match sent.packet.body() {
        Body::Ack { echo, .. } => echo,
        _ => None,
    }
}

fn feed(end: &mut End<TcpReceiver>, at: u64, packet: Packet) -> Vec<Sent> {
    end.feed(Input::Packet(us(at), packet, SackBlocks::EMPTY)).to_vec()
}

#[test]
fn every_second_packet_or_the_delay() {
    let delayed = TcpConfig { ack_every: 2, ..config() };
    let mut end = receiver(&delayed);
    assert_eq!(acks(&feed(&mut end, 10, data(0))), []);
    assert_eq!(end.deadline.unwrap().at, us(510));
    let sent = feed(&mut end, 11, data(1));
    assert_eq!(acks(&sent), [2]);
    assert_eq!(echo(&sent[0]), Some(us(0)), "the earliest unacknowledged packet's time (RFC 7323)");
    assert_eq!(end.deadline, None);
    assert_eq!(acks(&feed(&mut end, 12, data(2))), []);
    assert_eq!(acks(end.feed(Input::Timeout(us(300)))), [], "early");
    let sent = end.feed(Input::Timeout(us(512))).to_vec();
    assert_eq!((acks(&sent), echo(&sent[0])), ([3].to_vec(), Some(us(2))));
}

/// Data that leaves for the peer takes along the acknowledgement that is withheld, and none where nothing is.
#[test]
fn a_withheld_acknowledgement_goes_with_data() {
    let mut end = receiver(&TcpConfig { ack_every: 2, ..config() });
    for (at, segment) in [(10, 0), (20, 1), (30, 2)] {
        assert_eq!(acks(&feed(&mut end, at, data(segment))), []);
        let sent = end.feed(Input::Command(us(at + 5), Command::Acknowledge)).to_vec();
        assert_eq!((acks(&sent), echo(&sent[0])), ([segment + 1].to_vec(), Some(us(segment))));
        assert_eq!(end.deadline, None);
        assert!(end.feed(Input::Command(us(at + 6), Command::Acknowledge)).is_empty());
    }
}

#[test]
fn fin_gaps_and_duplicates_are_answered_at_once() {
    let delayed = TcpConfig { ack_every: 2, ..config() };
    let mut end = receiver(&delayed);
    assert_eq!(acks(&feed(&mut end, 10, data(0))), []);
    let sent = feed(&mut end, 11, data(2));
    assert_eq!((acks(&sent), blocks(&sent[0])), ([1].to_vec(), [(2, 3)].to_vec()), "out of order");
    let sent = feed(&mut end, 12, data(4));
    assert_eq!(blocks(&sent[0]), [(4, 5), (2, 3)], "the latest first");
    let sent = feed(&mut end, 13, data(1));
    assert_eq!((acks(&sent), blocks(&sent[0])), ([3].to_vec(), [(4, 5)].to_vec()), "fills a gap");
    assert_eq!(echo(&sent[0]), Some(us(1)), "the packet that filled it");
    let sent = feed(&mut end, 14, data(0));
    assert_eq!((acks(&sent), blocks(&sent[0])), ([3].to_vec(), [(0, 1), (4, 5)].to_vec()), "D-SACK first");
    assert!(flags(&sent[0]).contains(AckFlags::DSACK));
    let sent = feed(&mut end, 15, data(4));
    assert_eq!(blocks(&sent[0]), [(4, 5), (4, 5)], "duplicate, then the block that holds it (RFC 2883)");
    let fin = data_packet(3 * MSS, MSS as u16, DataFlags::NONE, us(3), Ecn::NotEct);
    assert_eq!(acks(&feed(&mut end, 16, fin)), [5]);
    let fin = data_packet(5 * MSS, 0, DataFlags::FIN, us(5), Ecn::NotEct);
    assert_eq!(acks(&feed(&mut end, 17, fin)), [5]);
    assert_eq!(end.transport.next_expected(), 5 * MSS + 1);
    assert_eq!(end.delivered(), 5 * MSS);
    assert_eq!(end.events.last().unwrap().1, Event::Received);
    assert_eq!(end.transport.statistics().duplicate_bytes, 2 * MSS);
    assert_eq!(feed(&mut end, 18, data(2)).len(), 1, "duplicates are answered after the end");
}

#[test]
fn a_batch_is_acknowledged_as_if_packets_had_come_one_by_one() {
    // In order 0, then 2, 3 out of order, all before the first poll: one acknowledgement each.
    let mut end = receiver(&config());
    for segment in [0, 2, 3] {
        end.transport.handle_packet(us(10), &data(segment), &SackBlocks::EMPTY);
    }
    end.drain(us(10));
    assert_eq!(acks(&end.sent), [1, 1, 1]);
    assert_eq!(end.sent.iter().map(blocks).collect::<Vec<_>>(), [[].to_vec(), [(2, 3)].to_vec(), [(2, 4)].to_vec()]);
    // In-order packets share one.
    let mut end = receiver(&config());
    for segment in 0..10 {
        end.transport.handle_packet(us(10), &data(segment), &SackBlocks::EMPTY);
    }
    end.drain(us(10));
    assert_eq!(acks(&end.sent), [10]);
    assert_eq!(echo(&end.sent[0]), Some(us(0)));
}

#[test]
fn impossible_data_changes_nothing() {
    let mut end = receiver(&config());
    feed(&mut end, 1, data(0));
    let packet = |seq, len, flags| data_packet(seq, len, flags, us(1), Ecn::NotEct);
    assert_eq!(feed(&mut end, 2, packet(MSS, 0, DataFlags::NONE)), [], "no payload and no FIN");
    for (seq, len) in [(u64::MAX, 1000), (u64::MAX - 10, 1000), (MAX_STREAM, 1)] {
        assert_eq!(feed(&mut end, 2, packet(seq, len, DataFlags::FIN)), [], "beyond every stream");
    }
    feed(&mut end, 3, packet(4 * MSS, 1000, DataFlags::FIN));
    assert_eq!(feed(&mut end, 4, packet(5 * MSS, 1000, DataFlags::NONE)), [], "beyond FIN");
    assert_eq!(feed(&mut end, 4, packet(2 * MSS, 1000, DataFlags::FIN)), [], "FIN at a second place");
    assert_eq!(feed(&mut end, 4, packet(2 * MSS, 1000, DataFlags::NONE)).len(), 1);
    assert_eq!(end.transport.next_expected(), MSS);
    // FIN below data that is there already.
    let mut end = receiver(&config());
    feed(&mut end, 1, data(5));
    assert_eq!(feed(&mut end, 2, packet(0, 1000, DataFlags::FIN)), []);
}

#[test]
fn times_of_out_of_order_packets_are_not_echoed() {
    let mut end = receiver(&config());
    feed(&mut end, 1, data(0));
    let sent = feed(&mut end, 3, data(2));
    assert_eq!(echo(&sent[0]), Some(us(0)), "the last one that moved the edge (RFC 7323 section 4.3)");
    let late = data_packet(MSS, 1000, DataFlags::RETRANSMISSION, us(9), Ecn::NotEct);
    assert_eq!(echo(&feed(&mut end, 20, late)[0]), Some(us(9)));
}
