//! Congestion marks: RFC 3168 and RFC 8257.

use super::receiver::{data_packet, receiver};
use super::*;
use crate::congestion::EcnMode;
use crate::packet::Ecn;

fn mode(ecn: EcnMode, ack_every: u8) -> TcpConfig {
    TcpConfig { ack_every, ecn, ..config() }
}

/// Feeds in-order segments with these marks one by one; gives (segments acknowledged, ECE) for each acknowledgement.
fn echoes(config: &TcpConfig, marks: &[bool]) -> Vec<(u64, bool)> {
    let mut end = receiver(config);
    for (segment, ce) in marks.iter().enumerate() {
        let ecn = if *ce { Ecn::Ce } else { Ecn::Ect0 };
        let packet = data_packet(segment as u64 * MSS, MSS as u16, DataFlags::NONE, us(1), ecn);
        end.feed(Input::Packet(us(1), packet, SackBlocks::EMPTY));
    }
    let acks = end.sent.iter().filter_map(|sent| match sent.packet.body() {
        Body::Ack { ack, flags, .. } => Some((ack / MSS, flags.contains(AckFlags::ECE))),
        _ => None,
    });
    acks.collect()
}

#[test]
fn dctcp_echoes_each_mark() {
    let marks = [false, true, true, false];
    let expected = [(1, false), (2, true), (3, true), (4, false)];
    assert_eq!(echoes(&mode(EcnMode::Accurate, 1), &marks), expected);
}

#[test]
fn dctcp_answers_what_is_withheld_before_a_change() {
    // Packet 1 is withheld when 2 comes marked: acknowledged under the old mark, then 2 under the new one at once.
    // The pair 3, 4 is delayed as usual; 5 changes with nothing withheld.
    let marks = [false, true, true, true, false, false];
    let expected = [(1, false), (2, true), (4, true), (5, false)];
    assert_eq!(echoes(&mode(EcnMode::Accurate, 2), &marks), expected);
}

#[test]
fn dctcp_changes_within_a_batch_are_not_merged() {
    let mut end = receiver(&mode(EcnMode::Accurate, 2));
    for (segment, ecn) in [Ecn::Ect0, Ecn::Ce, Ecn::Ect0, Ecn::Ce].into_iter().enumerate() {
        let packet = data_packet(segment as u64 * MSS, MSS as u16, DataFlags::NONE, us(1), ecn);
        end.transport.handle_packet(us(1), &packet, &SackBlocks::EMPTY);
    }
    end.drain(us(1));
    let ece = end.sent.iter().map(|sent| match sent.packet.body() {
        Body::Ack { ack, flags, .. } => (ack / MSS, flags.contains(AckFlags::ECE)),
        _ => panic!("only acknowledgements"),
    });
    assert_eq!(ece.collect::<Vec<_>>(), [(1, false), (2, true), (3, false), (4, true)]);
}

#[test]
fn classic_latches_until_the_window_was_reduced() {
    let mut end = receiver(&mode(EcnMode::Classic, 1));
    let mut ece = Vec::new();
    let packets = [
        (Ecn::Ect0, DataFlags::NONE),
        (Ecn::Ce, DataFlags::NONE),
        (Ecn::Ect0, DataFlags::NONE),
        (Ecn::Ect0, DataFlags::CWR),
    ];
    for (segment, (ecn, flags)) in packets.into_iter().enumerate() {
        let packet = data_packet(segment as u64 * MSS, MSS as u16, flags, us(1), ecn);
        let sent = end.feed(Input::Packet(us(1), packet, SackBlocks::EMPTY));
        ece.push(matches!(sent[0].packet.body(), Body::Ack { flags, .. } if flags.contains(AckFlags::ECE)));
    }
    assert_eq!(ece, [false, true, true, false]);
    assert_eq!(end.transport.statistics().marks, 1);
}

#[test]
fn the_window_is_reduced_once_per_window_of_data() {
    for ecn in [EcnMode::Classic, EcnMode::Accurate] {
        // Every packet of the first 100 us is marked: with 20 us round trips the sender hears of it five times.
        let marking = |_: usize, at: Instant, _: &Packet| if at < us(100) { Fate::Mark } else { Fate::Pass };
        let forth = ten_us().with_rate(crate::units::Rate::from_gbit_per_sec(10)).with_fate(marking);
        let mut pair = pair(&mode(ecn, 1), TestController::fixed(20), forth, ten_us());
        complete(&mut pair, 400 * MSS);
        let controller = pair.sender.transport.controller();
        let count = controller.congestions.len();
        assert!(controller.causes().iter().all(|cause| *cause == Cause::Ecn));
        assert!((4..=6).contains(&count), "{count} reductions");
        for two in controller.congestions.windows(2) {
            assert!(two[1].unacked > two[0].next, "a whole window lies between");
        }
        let cwr =
            pair.sender.sent.iter().filter(
                |sent| matches!(sent.packet.body(), Body::Data { flags, .. } if flags.contains(DataFlags::CWR)),
            );
        assert_eq!(cwr.count(), count);
    }
}

#[test]
fn codepoints_follow_the_mode() {
    for (ecn, data, again, acks) in [
        (EcnMode::Off, Ecn::NotEct, Ecn::NotEct, Ecn::NotEct),
        (EcnMode::Classic, Ecn::Ect0, Ecn::NotEct, Ecn::NotEct),
        (EcnMode::Accurate, Ecn::Ect0, Ecn::Ect0, Ecn::Ect0),
    ] {
        let mut pair = pair(&mode(ecn, 1), TestController::fixed(10), dropping(&[3]), ten_us());
        complete(&mut pair, 20 * MSS);
        for sent in &pair.sender.sent {
            let Body::Data { flags, .. } = sent.packet.body() else { panic!("only data") };
            let expected = if flags.contains(DataFlags::RETRANSMISSION) { again } else { data };
            assert_eq!(sent.packet.traffic_class.ecn(), expected);
        }
        assert!(pair.receiver.sent.iter().all(|sent| sent.packet.traffic_class.ecn() == acks));
    }
}

#[test]
fn a_mark_in_a_window_reduced_by_loss_is_not_counted_again() {
    let mut end = sender(&mode(EcnMode::Classic, 1), TestController::aimd(10), 40 * MSS);
    answer(&mut end, us(20), 0, &[(1, 4)]);
    let packet = ack_with(2 * MSS, WINDOW_UNLIMITED, AckFlags::ECE);
    end.feed(Input::Packet(us(21), packet, SackBlocks::EMPTY));
    assert_eq!(end.transport.controller().causes(), [Cause::Loss]);
}
