//! Whatever the path does, and whatever arrives.

use core::convert::Infallible;

use super::*;
use crate::congestion::EcnMode;
use crate::contract::cross_queue_notification::CrossQueueConfig;
use crate::packet::{ByteRange, TrafficClass};
use crate::rng::Stream;
use crate::units::Rate;
use proptest::prelude::*;

/// A path that loses, doubles, delays and marks packets at random, up to a time.
pub(super) fn bad_path(seed: u64, name: &str, loss: f64) -> Path {
    let mut stream = Stream::named(seed, name);
    ten_us().with_rate(Rate::from_gbit_per_sec(10)).with_fate(move |_, _, _| {
        let (draw, extra) = (stream.unit(), stream.below(30_000_000));
        match draw {
            draw if draw < loss => Fate::Drop,
            draw if draw < loss + 0.05 => Fate::Duplicate,
            draw if draw < loss + 0.10 => Fate::Delay(Span::from_ps(extra)),
            draw if draw < loss + 0.20 => Fate::Mark,
            _ => Fate::Pass,
        }
    })
}

prop_compose! {
    pub(super) fn any_config()(
        (sack, rack, limited_transmit, handshake) in any::<(bool, bool, bool, bool)>(),
        ack_every in 1u8..4,
        ecn in prop_oneof![Just(EcnMode::Off), Just(EcnMode::Classic), Just(EcnMode::Accurate)],
        buffer in prop_oneof![Just(None), (256u64..30_000).prop_map(Some)],
        (paced, one_way_delay, prr, adapts, time_retransmissions) in any::<(bool, bool, bool, bool, bool)>(),
    ) -> TcpConfig {
        let pacing = paced.then(PacingFactors::default);
        let (rack, prr, adapt_to_reordering) = (sack && rack, sack && prr, sack && adapts);
        TcpConfig {
            sack, rack, prr, adapt_to_reordering, restart_timer: adapts, limited_transmit, handshake, ack_every, ecn, pacing, receive_buffer: buffer, one_way_delay,
            time_retransmissions,
            ..config()
        }
    }
}

fn any_body() -> impl Strategy<Value = Body> {
    // Small numbers collide with the flow's state, large ones test the edges of arithmetic.
    let number = || prop_oneof![0u64..20_000, (0u64..20).prop_map(|n| n * MSS), u64::MAX - 3000..u64::MAX];
    let time = || prop_oneof![0u64..2_000_000_000, any::<u64>()].prop_map(Instant::from_ps);
    let flags = || any::<u8>().prop_map(DataFlags::from_bits);
    let ack_flags = || any::<u8>().prop_map(AckFlags::from_bits);
    let window = || prop_oneof![Just(WINDOW_UNLIMITED), 0u16..100, any::<u16>()];
    let length = prop_oneof![0u16..2, Just(1000u16), any::<u16>()];
    prop_oneof![
        4 => (number(), time(), length, flags()).prop_map(|(seq, sent_at, len, flags)| {
            Body::Data { seq, sent_at, len, flags }
        }),
        4 => (number(), prop::option::of(time()), window(), ack_flags()).prop_map(|(ack, echo, window, flags)| {
            Body::Ack { ack, echo, window, flags }
        }),
        1 => time().prop_map(|sent_at| Body::Syn { sent_at }),
        1 => (time(), window()).prop_map(|(echo, window)| Body::SynAck { echo, window }),
        1 => time().prop_map(|sent_at| Body::Probe { sent_at }),
        1 => (time(), any::<bool>()).prop_map(|(echo, marked)| Body::ProbeEcho { echo, marked }),
    ]
}

fn any_packet() -> impl Strategy<Value = (Packet, SackBlocks)> {
    let number = || prop_oneof![0u64..20_000, (0u64..20).prop_map(|n| n * MSS), any::<u64>()];
    (any_body(), any::<u8>(), prop::collection::vec((number(), number()), 0..=4)).prop_map(|(body, class, ranges)| {
        let mut sack = SackBlocks::EMPTY;
        for (start, end) in ranges {
            sack.push(ByteRange::new(start, end));
        }
        (Packet::new(TrafficClass::from_octet(class), 1078, body), sack)
    })
}

#[derive(Clone, Copy, Debug)]
enum Operation {
    Packet(Packet, SackBlocks),
    Command(Command),
    Wait(u64),
    Deadline,
}

fn any_operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        6 => any_packet().prop_map(|(packet, sack)| Operation::Packet(packet, sack)),
        1 => prop_oneof![0u64..20_000, any::<u64>()].prop_map(|bytes| Operation::Command(Command::Send { bytes })),
        1 => prop_oneof![0u64..20_000, any::<u64>()].prop_map(|bytes| Operation::Command(Command::Consume { bytes })),
        1 => Just(Operation::Command(Command::Finish)),
        1 => (0u64..1_000_000_000).prop_map(Operation::Wait),
        2 => Just(Operation::Deadline),
    ]
}

/// Applies operations one after the other; drains are bounded by the windows.
fn operate<T: Transport<Answer = Infallible>>(mut end: End<T>, operations: &[Operation]) {
    let mut now = us(1000);
    for operation in operations {
        match operation {
            Operation::Packet(packet, sack) => drop(end.feed(Input::Packet(now, *packet, *sack)).len()),
            Operation::Command(command) => drop(end.feed(Input::Command(now, *command)).len()),
            Operation::Wait(ps) => now = now.after(Span::from_ps(*ps)),
            Operation::Deadline => {
                now = end.deadline.map_or(now, |deadline| deadline.at.max(now));
                end.feed(Input::Timeout(now));
                assert!(end.deadline.is_none_or(|deadline| deadline.at > now), "a deadline that came is gone");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Loss, reordering, duplication and marks, under every option: each byte delivered once, in order, and an end.
    #[test]
    fn every_byte_arrives_once_in_order(
        config in any_config(), seed in any::<u64>(), loss in 0.0f64..0.3, bytes in 0u64..150_000,
    ) {
        let (forth, back) = (bad_path(seed, "forth", loss), bad_path(seed, "back", loss));
        let mut pair = pair(&config, TestController::aimd(4), forth, back);
        complete(&mut pair, bytes);
        let statistics = pair.sender.transport.statistics();
        prop_assert!(statistics.bytes_sent >= bytes);
    }

    /// A sender survives arbitrary packets, commands and waits.
    #[test]
    fn a_sender_survives_anything(
        config in any_config(), operations in prop::collection::vec(any_operation(), 0..60), window in 0u64..20,
    ) {
        operate(End::new(TcpSender::new(Arc::new(config), TestController::fixed(window))), &operations);
    }

    /// So does one that pauses.
    #[test]
    fn a_pausing_sender_survives_anything(
        config in any_config(), operations in prop::collection::vec(any_operation(), 0..60), window in 0u64..20,
    ) {
        let cross_queue = CrossQueueConfig::default();
        let sender = TcpSender::new(Arc::new(config), TestController::fixed(window));
        operate(End::new(CrossQueueSender::new(sender, cross_queue)), &operations);
    }

    /// A receiver survives arbitrary packets, commands and waits.
    #[test]
    fn a_receiver_survives_anything(
        config in any_config(), auto_consume in any::<bool>(), operations in prop::collection::vec(any_operation(), 0..60),
    ) {
        let config = TcpConfig { auto_consume, ..config };
        let mut end = End::new(TcpReceiver::new(Arc::new(config)));
        end.feed(Input::Packet(us(1), receiver::data(0), SackBlocks::EMPTY));
        operate(end, &operations);
    }
}
