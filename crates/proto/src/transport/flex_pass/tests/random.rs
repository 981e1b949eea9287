//! Whatever the network does.

use proptest::prelude::*;
use proptest::sample::select;

use super::*;
use crate::transport::express_pass::CreditConfig;
use crate::transport::express_pass::FeedbackLaw;

/// Odds per thousand that a packet of each kind is lost, and that any is delayed or repeated.
#[derive(Clone, Copy, Debug)]
struct Odds {
    red: u64,
    data: u64,
    credits: u64,
    control: u64,
    delay: u64,
    repeat: u64,
}

fn odds() -> impl Strategy<Value = Odds> {
    (0u64..900, 0u64..200, 0u64..500, 0u64..300, 0u64..50, 0u64..50)
        .prop_map(|(red, data, credits, control, delay, repeat)| Odds { red, data, credits, control, delay, repeat })
}

/// A path that misbehaves in the first 50 ms and then no more.
fn bad_path(odds: Odds, seed: u64, name: &str) -> Path {
    let mut stream = Stream::named(seed, name);
    path().with_fate(move |_, now, packet| {
        if now > Instant::ZERO.after(Span::from_ms(50)) {
            return Fate::Pass;
        }
        let lose = match packet.body() {
            _ if packet.traffic_class.is_red() => odds.red,
            Body::Scheduled { .. } => odds.data,
            Body::Credit(_) => odds.credits,
            _ => odds.control,
        };
        match draw_fate(&mut stream, [lose, odds.delay, odds.repeat]) {
            Fate::Pass if packet.traffic_class.is_ect() && stream.below(4) == 0 => Fate::Mark,
            fate => fate,
        }
    })
}

fn config() -> impl Strategy<Value = FlexPassConfig> {
    let law = select(&[FeedbackLaw::Bic, FeedbackLaw::Delivered, FeedbackLaw::Multiplicative][..]);
    let window = (any::<bool>(), any::<bool>(), any::<bool>()).prop_map(|(handshake, red_acks, as_mark)| {
        let loss_cut = if as_mark { LossCut::AsMark } else { LossCut::Halve };
        Reactive::Window(Window { handshake, loss_cut, red_acks, ..Window::default() })
    });
    let burst = (1u64..40).prop_map(|packets| Reactive::Burst {
        bytes: packets * MSS,
        class: crate::packet::TrafficClass::new(0).with_red(true),
        timeout: Span::from_ms(4),
    });
    let reactive = prop_oneof![3 => window, 1 => burst];
    let splitting = select(&[Splitting::SharedBuffer, Splitting::BothEnds][..]);
    let buffer = prop::option::of((1u64..100).prop_map(|packets| packets * MSS));
    (law, reactive, splitting, select(&[1u16, 2, 64][..]), buffer).prop_map(
        |(law, reactive, splitting, proactive_ack_every, reorder_buffer)| {
            let mut credit = CreditConfig::default();
            credit.feedback.law = law;
            FlexPassConfig { credit, reactive, splitting, proactive_ack_every, reorder_buffer }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// Whatever is lost, marked, delayed or repeated on either sub-flow, of credits, acknowledgements, requests and
    /// stops, and whatever the options: every byte reaches the application once and in order, both sides end, the sender
    /// may forget everything, and what each sub-flow brought adds up.
    #[test]
    fn every_byte_arrives_once(
        (forth, back) in (odds(), odds()),
        seed in any::<u64>(),
        writes in prop::collection::vec((1u64..150_000, 0u64..500), 1..4),
        config in config(),
    ) {
        let buffer = config.reorder_buffer;
        let mut pair = pair_with(config, bad_path(forth, seed, "forth"), bad_path(back, seed, "back"));
        let bytes = pair.write_with_pauses(&writes);
        pair.check_everything_is_released(bytes, Span::from_secs(20))?;
        let (sent, received) = (pair.sender.transport.statistics(), pair.receiver.transport.statistics());
        let (proactive, reactive) = pair.sender.transport.sent_bytes();
        prop_assert_eq!(proactive + reactive, sent.bytes_sent);
        prop_assert!(received.reactive_bytes <= reactive.min(bytes));
        prop_assert!(bytes - received.reactive_bytes <= proactive);
        if let Some(buffer) = buffer {
            prop_assert!(received.reorder_bytes <= buffer);
        }
    }
}

proptest! {
    /// No packet, however absurd, panics either side or makes it deliver what was not sent in order.
    #[test]
    fn hostile_packets_do_no_harm(
        bodies in prop::collection::vec((any::<(u64, u32, u32, u16)>(), 0u8..10), 0..60),
    ) {
        let config = Arc::new(FlexPassConfig::default());
        let mut sending = End::new(sender(&config));
        let mut receiving = End::new(FlexPassReceiver::new(Arc::clone(&config), HALF_RATE, Stream::named(1, "x")));
        sending.feed(Input::Command(Instant::ZERO, Command::Send { bytes: 100_000 }));
        for (index, ((long, number, other, len), kind)) in bodies.into_iter().enumerate() {
            let now = Instant::ZERO.after(Span::from_us(index as u64));
            let credit = CreditStamp { number: other, sent_at: ShortTime::from_bits(number) };
            let (flags, subflow) = (DataFlags::FIN, if len % 2 == 0 { Subflow::Reactive } else { Subflow::Proactive });
            let body = match kind {
                0 => Body::Scheduled { seq: long, number, credit, len, flags },
                1 => Body::Unscheduled { seq: long % 1_000_000, number, len, flags: DataFlags::NONE },
                2 => Body::SubflowAck { ack: long, first: number, end: other, subflow, flags: AckFlags::ECE },
                3 => {
                    let (ack, first, end) = (long % 100_002, number % 20, other % 20);
                    Body::SubflowAck { ack, first, end, subflow, flags: AckFlags::NONE }
                }
                4 => Body::CreditStop { end: long, flags },
                5 => Body::Credit(credit),
                6 => Body::CreditRequest { sent_at: now, backlog: long },
                7 => Body::Ack { ack: long % 100_002, echo: None, window: len, flags: AckFlags::NONE },
                8 => Body::SynAck { echo: Instant::from_ps(long), window: len },
                _ => Body::Syn { sent_at: Instant::from_ps(long) },
            };
            let packet = Packet::new(crate::packet::TrafficClass::from_octet(len as u8), len, body);
            sending.feed(Input::Packet(now, packet, SackBlocks::EMPTY));
            receiving.feed(Input::Packet(now, packet, SackBlocks::EMPTY));
            sending.feed(Input::Timeout(now));
            receiving.feed(Input::Timeout(now));
        }
        receiving.delivered();
    }
}
