//! What holds whatever becomes of sources, packets and messages.

use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;

fn any_place() -> impl Strategy<Value = Place> {
    let times = (1u64..200, 1u64..2000, 0u64..40);
    let limit = prop_oneof![2 => Just(u64::MAX), 1 => 10u64..100];
    let dies = prop::option::weighted(0.4, (0u64..300, prop::option::of(1u64..12_000)));
    (times, (0u64..20, limit), 0u64..300, dies, any::<bool>(), any::<bool>()).prop_map(
        |((packet, delay, loss), (threshold, limit), joins_ms, dies, late, floods)| Place {
            packet: Span::from_us(packet),
            delay: Span::from_us(delay),
            loss,
            threshold,
            limit,
            joins_ms: if late { joins_ms } else { 0 },
            dies_ms: dies.map(|(ms, _)| ms),
            returns_ms: dies.and_then(|(ms, gone)| Some(ms + gone?)).unwrap_or(u64::MAX),
            floods,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// An object arrives exactly once and whole, whatever sources die, join, come back or flood, whatever is lost, and
    /// whatever becomes of the controller's messages; as long as one source lives in the end. Where a third of all packets
    /// is lost each way, the last source's timer may double to a minute: 1,000 s leave time for that.
    #[test]
    fn an_object_arrives_whole(
        places in prop::collection::vec(any_place(), 1..5),
        slots in 1u8..4,
        bytes in 1u64..600_000,
        control in (0u64..40, 0u64..40),
        claims in any::<bool>(),
        seed in any::<u64>(),
    ) {
        let config = PushConfig { claims, block_symbols: 50, ..config(slots) };
        let survivor = match places[0].returns_ms {
            u64::MAX => Place { dies_ms: None, ..places[0] },
            _ => places[0],
        };
        let places: Vec<Place> = core::iter::once(survivor).chain(places.iter().copied()).collect();
        let mut world = World::new(config, bytes, &places, Weighting::Remaining { priority: 0 }, seed);
        world.control = control;
        prop_assert!(world.run(at_ms(1_000_000)).is_some(), "complete");
        prop_assert_eq!(world.delivered, bytes);
    }
}

/// Any order, as decoders of orders let it through.
fn orders() -> impl Strategy<Value = Order> {
    let push =
        (0u8..32, 1u8..33, 0u32..20, any::<u32>(), 0.5..1e9).prop_map(|(slot, sources, block, start, weight)| {
            Order::Push { slot, slots: 32, sources, block, start, weight }
        });
    prop_oneof![push, (0.5..1e9).prop_map(|weight| Order::Theta { weight }), Just(Order::Pause), Just(Order::Stop)]
}

fn small(limit: u32) -> impl Strategy<Value = u32> {
    prop_oneof![4 => 0..limit, 1 => any::<u32>()]
}

proptest! {
    /// Whatever a controller orders and a receiver acknowledges, truly or not: a source does not panic, and sends symbols of
    /// blocks that the object has.
    #[test]
    fn no_acknowledgement_makes_a_source_panic(
        inputs in prop::collection::vec(
            (0u64..20, small(8), orders(), (small(60), any::<u32>(), small(12), small(120), small(110), any::<u16>())),
            1..60,
        ),
    ) {
        let partition = Partition::new(1_050 * u64::from(SYMBOL), SYMBOL, 100).expect("an object");
        let mut source = PushSource::new(Arc::new(config(32)), partition);
        let mut now = Instant::ZERO;
        for (ms, kind, order, (number, received, decoded, needed, claim, marks)) in inputs {
            now = now.after(Span::from_ms(ms * ms * ms));
            match kind {
                0..2 => source.handle_command(now, Command::Answer(ToSource { number, order })),
                2 => source.handle_timeout(now),
                _ => {
                    let complete = kind == 3 && claim == 7;
                    let body = Body::SymbolAck { number, received, decoded, needed, claim, marks, complete };
                    source.handle_packet(now, &Packet::new(config_class(), 84, body), &SackBlocks::EMPTY);
                }
            }
            // A window that does not close is an input, too.
            for _ in 0..200 {
                let Some(packet) = source.poll_transmit(now) else { break };
                let Body::Symbol { block, symbol, .. } = packet.body() else { unreachable!("it sends symbols") };
                prop_assert!(block < partition.blocks() && symbol <= MAX_SYMBOL);
            }
            while source.poll_event().is_some() {}
        }
    }

    /// Whatever sources send: a receiver beside a decoder does not panic, asks for open blocks only, and never counts more
    /// symbols than the object has.
    #[test]
    fn no_symbol_makes_a_receiver_panic(
        symbols in prop::collection::vec((any::<u32>(), small(12), small(20), any::<bool>()), 1..400),
    ) {
        let partition = Partition::new(105 * u64::from(SYMBOL), SYMBOL, 10).expect("an object");
        let config = Arc::new(PushConfig { block_symbols: 10, claims: true, ..config(3) });
        let receiver = PushReceiver::beside_decoder(config, partition, 0, Instant::ZERO).into_shared();
        let peers = [(); 2].map(|()| receiver.borrow_mut().add_peer());
        let mut ports = peers.map(|peer| PushPort::new(receiver.clone(), peer));
        for (ms, (number, block, symbol, which)) in symbols.into_iter().enumerate() {
            let (now, port) = (at_ms(ms as u64), &mut ports[usize::from(which)]);
            let body = Body::Symbol { number, block, symbol, len: SYMBOL, flags: DataFlags::NONE };
            port.handle_packet(now, &Packet::new(config_class(), 1040, body), &SackBlocks::EMPTY);
            while port.poll_transmit(now).is_some() {}
            while let Some(event) = port.poll_event() {
                if let Event::Ask(PushRequest::Decode { block }) = event {
                    let first = receiver.borrow().decoded_blocks();
                    prop_assert!((first..first + OPEN_BLOCKS).contains(&block));
                    if number % 3 > 0 {
                        receiver.borrow_mut().handle_decoded(now, block);
                    }
                }
            }
            receiver.borrow_mut().handle_timeout(now);
            prop_assert!(receiver.borrow().remaining() <= partition.symbols());
        }
    }
}
