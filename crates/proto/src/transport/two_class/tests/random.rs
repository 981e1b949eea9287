//! Whatever the network does.

use proptest::prelude::*;

use super::*;

/// Odds per thousand that a packet of each kind is lost, and that any is delayed or repeated.
#[derive(Clone, Copy, Debug)]
struct Odds {
    low: u64,
    high: u64,
    control: u64,
    delay: u64,
    repeat: u64,
}

fn odds() -> impl Strategy<Value = Odds> {
    (0u64..900, 0u64..300, 0u64..300, 0u64..50, 0u64..50).prop_map(|(low, high, control, delay, repeat)| Odds {
        low,
        high,
        control,
        delay,
        repeat,
    })
}

/// A path that misbehaves in the first 50 ms and then no more.
fn bad_path(odds: Odds, seed: u64, name: &str) -> Path {
    let mut stream = Stream::named(seed, name);
    path().with_fate(move |_, now, packet| {
        if now > Instant::ZERO.after(Span::from_ms(50)) {
            return Fate::Pass;
        }
        let lose = match packet.body() {
            Body::Unscheduled { .. } => odds.low,
            Body::Scheduled { .. } => odds.high,
            _ => odds.control,
        };
        match draw_fate(&mut stream, [lose, odds.delay, odds.repeat]) {
            Fate::Pass if packet.traffic_class.is_ect() && stream.below(4) == 0 => Fate::Mark,
            fate => fate,
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// Whatever is lost, marked, delayed or repeated in either class, of data and of acknowledgements, and whatever was
    /// promised: every byte reaches the application once and in order, both sides end, and the sender may forget everything.
    #[test]
    fn every_byte_arrives_once_and_in_order(
        (forth, back) in (odds(), odds()),
        seed in any::<u64>(),
        share in 0.0..=1.0,
        writes in prop::collection::vec((1u64..150_000, 0u64..500), 1..4),
    ) {
        let mut pair = pair(share, bad_path(forth, seed, "forth"), bad_path(back, seed, "back"));
        let bytes = pair.write_with_pauses(&writes);
        pair.check_everything_is_released(bytes, Span::from_secs(60))?;
        let (guarantee, scavenger) = pair.sender.transport.sent_bytes();
        prop_assert_eq!(guarantee + scavenger, pair.sender.transport.statistics().bytes_sent);
    }

    /// A receiver that lies about what arrived and how long it waited, and a flow that asks for more than its share: the
    /// guarantee is never faster than `greatest_weight` DCTCP flows of the high class, which only its marks slow down, or than
    /// the trickle. So the harm to others is that of so many flows.
    #[test]
    fn lies_are_worth_as_much_as_a_few_flows(
        share in 0.0..=1.0,
        told in prop::option::of(0.0..1e15),
        intervals in prop::collection::vec(
            ((0.0..1e12, 0.0..1e12, 0.0..100.0, any::<bool>(), any::<bool>(), 0.0..1e12), 0.0..=1.0, 0.0..10.0, 0.0..10.0),
            1..60,
        ),
    ) {
        let config = TwoClassConfig::default();
        let mut ledger = Ledger::new(share);
        for ((scavenger, guarantee, wait, marked, scavenger_dead, remaining), busy, joining, of_busy) in intervals {
            let interval = Interval { seconds: 0.001, scavenger, guarantee, scavenger_dead, wait, marked, remaining, told };
            let seen = seen(busy, joining, of_busy);
            let rate = ledger.book(&config, &interval, &seen);
            let most = (config.bounds.greatest_weight * seen.joining_rate).max(config.trickle * seen.line);
            prop_assert!(rate <= most && rate <= seen.line, "{rate} of {most}");
        }
    }

    /// No packet, however absurd, panics either side or makes it deliver what was not sent in order.
    #[test]
    fn hostile_packets_do_no_harm(
        bodies in prop::collection::vec((any::<(u64, u32, u32, u16)>(), 0u8..7), 0..60),
    ) {
        let config = Arc::new(TwoClassConfig::default());
        let mut sending = End::new(sender(&config, 0.8));
        let mut receiving = End::new(TwoClassReceiver::new(Arc::clone(&config)));
        sending.feed(Input::Command(Instant::ZERO, Command::Send { bytes: 100_000 }));
        for (index, ((long, number, other, len), kind)) in bodies.into_iter().enumerate() {
            let now = Instant::ZERO.after(Span::from_us(100 * index as u64));
            let credit = CreditStamp { number: other, sent_at: ShortTime::from_bits(number) };
            let (flags, subflow) = (DataFlags::FIN, if len % 2 == 0 { Subflow::Reactive } else { Subflow::Proactive });
            let body = match kind {
                0 => Body::Scheduled { seq: long, number, credit, len, flags },
                1 => Body::Scheduled { seq: long % 1_000_000, number, credit, len, flags: DataFlags::NONE },
                2 => Body::Unscheduled { seq: long % 1_000_000, number, len, flags: DataFlags::NONE },
                3 => Body::SubflowAck { ack: long, first: number, end: other, subflow, flags: AckFlags::ECE },
                4 => {
                    let (ack, first, end) = (long % 100_002, number % 20, other % 20);
                    Body::SubflowAck { ack, first, end, subflow, flags: AckFlags::WAITED }
                }
                5 => Body::CreditStop { end: long, flags },
                _ => Body::Ack { ack: long % 100_002, echo: None, window: len, flags: AckFlags::NONE },
            };
            let packet = Packet::new(TrafficClass::from_octet(len as u8), len, body);
            sending.feed(Input::Packet(now, packet, SackBlocks::EMPTY));
            receiving.feed(Input::Packet(now, packet, SackBlocks::EMPTY));
            sending.feed(Input::Timeout(now));
            receiving.feed(Input::Timeout(now));
        }
        receiving.delivered();
    }
}
