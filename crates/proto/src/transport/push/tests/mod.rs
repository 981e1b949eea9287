//! Several sources, a receiver and a controller on paths that lose, and what must hold whatever happens.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use super::*;
use crate::packet::{Body, DataFlags, Ecn, Packet, SackBlocks, WireFormat};
use crate::rng::Stream;
use crate::time::{Instant, Span};
use crate::transport::{Command, Event, Transport};

mod random;

const TASK: TaskId = 7;
const SYMBOL: u16 = 1000;

fn at_ms(ms: u64) -> Instant {
    Instant::ZERO.after(Span::from_ms(ms))
}

fn config(slots: u8) -> PushConfig {
    PushConfig { slots, block_symbols: 100, ..PushConfig::new(SYMBOL, WireFormat::IP) }
}

/// Where a source is, and what becomes of it.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// Time to send one packet.
    packet: Span,
    delay: Span,
    /// Of its packets and their acknowledgements, in percent.
    loss: u64,
    /// Packets that find more than so many queued are marked.
    threshold: u64,
    /// And those that find more than so many are dropped.
    limit: u64,
    joins_ms: u64,
    /// It goes silent, and nobody tells the controller.
    dies_ms: Option<u64>,
    /// And comes back.
    returns_ms: u64,
    /// It sends packets that nobody asked for, as many again as it should.
    floods: bool,
}

const PLACE: Place = Place {
    packet: Span::from_us(10),
    delay: Span::from_us(50),
    loss: 0,
    threshold: 30,
    limit: u64::MAX,
    joins_ms: 0,
    dies_ms: None,
    returns_ms: u64::MAX,
    floods: false,
};

struct Site {
    place: Place,
    source: PushSource,
    port: PushPort,
    busy_until: Instant,
    deadline: Option<Instant>,
    sent: u64,
}

#[derive(Clone, Copy)]
enum Happening {
    Symbol(usize, Packet),
    Ack(usize, Packet),
    ToController(ToController),
    ToSource(usize, ToSource),
    ToReceiver(ToReceiver),
    Join(usize),
}

/// All machines of one task.
struct World {
    now: Instant,
    sites: Vec<Site>,
    receiver: SharedReceiver,
    receiver_alive: bool,
    controller: Controller,
    coming: BTreeMap<(Instant, u64), Happening>,
    count: u64,
    stream: Stream,
    /// Of messages of the controller, in percent: lost, repeated.
    control: (u64, u64),
    delivered: u64,
    received: Vec<Instant>,
    bytes: u64,
    partition: Partition,
    /// Sources and blocks of which they sent repair symbols: so often a block must be encoded.
    encoded: BTreeSet<(usize, u32)>,
}

impl World {
    fn new(config: PushConfig, bytes: u64, places: &[Place], weighting: Weighting, seed: u64) -> Self {
        let (slots, config) = (config.slots, Arc::new(config));
        let partition = Partition::new(bytes, config.symbol, config.block_symbols).expect("an object");
        let stream = Stream::named(seed, "decoder");
        let receiver = PushReceiver::new(Arc::clone(&config), partition, stream, Instant::ZERO);
        let receiver = receiver.into_shared();
        let mut controller = Controller::new(ControllerConfig::default());
        controller.add_task(TASK, 0, partition.symbols(), slots, weighting);
        let site = |place: &Place| {
            let peer = receiver.borrow_mut().add_peer();
            Site {
                place: *place,
                source: PushSource::new(Arc::clone(&config), partition),
                port: PushPort::new(Arc::clone(&receiver), peer),
                busy_until: Instant::ZERO,
                deadline: None,
                sent: 0,
            }
        };
        let mut world = Self {
            now: Instant::ZERO,
            sites: places.iter().map(site).collect(),
            receiver,
            receiver_alive: true,
            controller,
            coming: BTreeMap::new(),
            count: 0,
            stream: Stream::named(seed, "paths"),
            control: (0, 0),
            delivered: 0,
            received: vec![Instant::MAX; places.len()],
            bytes,
            partition,
            encoded: BTreeSet::new(),
        };
        for (number, place) in places.iter().enumerate() {
            world.schedule(at_ms(place.joins_ms), Happening::Join(number));
        }
        world
    }

    fn schedule(&mut self, at: Instant, what: Happening) {
        self.coming.insert((at, self.count), what);
        self.count += 1;
    }

    fn is_dead(&self, site: usize) -> bool {
        let Place { dies_ms, returns_ms, .. } = self.sites[site].place;
        dies_ms.is_some_and(|ms| at_ms(ms) <= self.now) && (returns_ms == u64::MAX || self.now < at_ms(returns_ms))
    }

    /// Runs until the object is complete and everyone knows, or `end`; tells when the last byte came.
    fn run(&mut self, end: Instant) -> Option<Instant> {
        self.poll();
        loop {
            let deadlines = self.sites.iter().filter_map(|site| site.deadline);
            let of_receiver = self.receiver.borrow().poll_timeout().filter(|_| self.receiver_alive);
            let deadline = deadlines.chain(self.controller.poll_timeout()).chain(of_receiver).min();
            let arrival = self.coming.keys().next().map(|(at, _)| *at);
            let Some(next) = [deadline, arrival].into_iter().flatten().min().filter(|at| *at <= end) else { break };
            self.now = self.now.max(next);
            if arrival == Some(next) {
                let (_, what) = self.coming.pop_first().expect("something comes");
                self.happen(what);
            } else {
                self.receiver.borrow_mut().handle_timeout(self.now);
                self.controller.handle_timeout(self.now);
                for site in &mut self.sites {
                    site.source.handle_timeout(self.now);
                }
            }
            self.poll();
            assert!(self.count < 3_000_000, "nothing ends");
        }
        let complete = self.receiver.borrow().is_complete();
        assert_eq!(complete, self.delivered == self.bytes, "every byte exactly once");
        complete.then(|| *self.received.iter().min().expect("a source"))
    }

    fn happen(&mut self, what: Happening) {
        let now = self.now;
        match what {
            Happening::Symbol(site, packet) if self.receiver_alive => {
                self.sites[site].port.handle_packet(now, &packet, &SackBlocks::EMPTY);
            }
            Happening::Ack(site, packet) if !self.is_dead(site) => {
                self.sites[site].source.handle_packet(now, &packet, &SackBlocks::EMPTY);
            }
            Happening::ToSource(site, order) if !self.is_dead(site) => {
                self.sites[site].source.handle_command(now, Command::Answer(order));
            }
            Happening::ToController(message) => self.controller.handle_message(now, TASK, message),
            Happening::ToReceiver(message) => self.receiver.borrow_mut().handle_message(message),
            Happening::Join(site) => {
                let holding = Holding { source: site as u64, path: vec![0] };
                self.controller.add_source(now, TASK, holding);
            }
            Happening::Symbol(..) | Happening::Ack(..) | Happening::ToSource(..) => {}
        }
    }

    fn percent(&mut self, percent: u64) -> bool {
        self.stream.below(100) < percent
    }

    fn poll(&mut self) {
        for site in 0..self.sites.len() {
            while let Some(packet) = self.sites[site].source.poll_transmit(self.now) {
                if let Body::Symbol { block, symbol, .. } = packet.body()
                    && symbol >= self.partition.symbols_of(block)
                {
                    self.encoded.insert((site, block));
                }
                self.post_symbol(site, packet);
                if self.sites[site].place.floods
                    && let Body::Symbol { number, block, symbol, len, flags } = packet.body()
                {
                    // Twice, and from far beyond what may be open.
                    self.post_symbol(site, packet);
                    let body = Body::Symbol { number, block: block + 9, symbol, len, flags };
                    self.post_symbol(site, Packet::new(packet.traffic_class, packet.wire_bytes, body));
                }
            }
            while let Some(packet) = self.sites[site].port.poll_transmit(self.now) {
                let lost = self.percent(self.sites[site].place.loss);
                let at = self.now.after(self.sites[site].place.delay);
                if !lost {
                    self.schedule(at, Happening::Ack(site, packet));
                }
            }
            loop {
                let of_port = if self.receiver_alive { self.sites[site].port.poll_event() } else { None };
                let Some(event) = self.sites[site].source.poll_event().or(of_port) else { break };
                match event {
                    Event::DeliverSymbol { bytes } => self.delivered += u64::from(bytes),
                    Event::Received => {
                        assert_eq!(self.received[site], Instant::MAX, "told once");
                        self.received[site] = self.now;
                    }
                    Event::Ask(PushRequest::Controller(message)) => self.post_control(Happening::ToController, message),
                    _ => {}
                }
            }
            let alive = !self.is_dead(site);
            self.sites[site].deadline = self.sites[site].source.poll_timeout().filter(|_| alive).map(|d| d.at);
        }
        while let Some(message) = self.controller.poll_message() {
            match message {
                Outgoing::Receiver(_, message) => self.post_control(Happening::ToReceiver, message),
                Outgoing::Source(_, source, order) => {
                    self.post_control(|order| Happening::ToSource(source as usize, order), order);
                }
            }
        }
    }

    fn post_control<M: Copy>(&mut self, wrap: impl Fn(M) -> Happening, message: M) {
        let (lost, repeated) = self.control;
        let copies = if self.percent(lost) { 0 } else { 1 + u64::from(self.percent(repeated)) };
        for copy in 0..copies {
            let at = self.now.after(Span::from_us(100 + 700 * copy));
            self.schedule(at, wrap(message));
        }
    }

    fn post_symbol(&mut self, number: usize, mut packet: Packet) {
        if self.is_dead(number) {
            return;
        }
        let lost = self.percent(self.sites[number].place.loss);
        let site = &mut self.sites[number];
        site.sent += 1;
        let start = site.busy_until.max(self.now);
        let queued = start.since(self.now).as_ps() / site.place.packet.as_ps();
        if queued > site.place.limit {
            return;
        }
        if queued > site.place.threshold {
            packet.traffic_class = packet.traffic_class.with_ecn(Ecn::Ce);
        }
        site.busy_until = start.after(site.place.packet);
        let at = site.busy_until.after(site.place.delay);
        if !lost {
            self.schedule(at, Happening::Symbol(number, packet));
        }
    }

    fn counts(&self) -> ReceiverCounts {
        self.receiver.borrow().counts()
    }
}

/// Two equal sources bring an object in half the time of one, without decoding: half its source symbols each.
#[test]
fn two_sources_share_an_object() {
    let bytes = 1000 * u64::from(SYMBOL);
    let one = World::new(config(1), bytes, &[PLACE], Weighting::Fixed(1.0), 1).run(at_ms(1000));
    let mut world = World::new(config(2), bytes, &[PLACE; 2], Weighting::Fixed(1.0), 1);
    let two = world.run(at_ms(1000));
    let [one, two] = [one, two].map(|at| at.expect("complete").as_secs_f64() * 1e3);
    assert!((10.0..11.5).contains(&one), "1000 packets of 10 us: {one} ms");
    assert!((5.0..6.0).contains(&two), "half of that: {two} ms");
    assert_eq!(world.counts().decoded_blocks, 0);
    assert!(world.sites.iter().all(|site| site.sent < 560), "about half each");
}

/// A source in a slot sends the symbols i + kM, in blocks one after the other, and stays so when it starts in the middle.
#[test]
fn a_source_keeps_to_its_slot() {
    let partition = Partition::new(250 * u64::from(SYMBOL), SYMBOL, 100).expect("an object");
    let mut source = PushSource::new(Arc::new(config(3)), partition);
    let push = Order::Push { slot: 2, slots: 3, sources: 1, block: 1, start: 4, weight: 1.0 };
    assert!(source.poll_transmit(at_ms(0)).is_none(), "nothing was ordered");
    source.handle_command(at_ms(0), Command::Answer(ToSource { number: 0, order: push }));
    let sent: Vec<(u32, u32)> = core::iter::from_fn(|| source.poll_transmit(at_ms(0)))
        .map(|packet| match packet.body() {
            Body::Symbol { block, symbol, .. } => (block, symbol),
            other => panic!("{other:?}"),
        })
        .collect();
    let expected: Vec<(u32, u32)> = (4..14).map(|k| (1, 2 + 3 * k)).collect();
    assert_eq!(sent, expected, "an initial window of ten");
}

/// With (u − v + 2)/N or fewer needed of it and as many under way, a source goes on with the next block.
#[test]
fn blocks_overlap_when_enough_is_under_way() {
    let partition = Partition::new(200 * u64::from(SYMBOL), SYMBOL, 6).expect("an object");
    let mut source = PushSource::new(Arc::new(config(1)), partition);
    let push = Order::Push { slot: 0, slots: 1, sources: 1, block: 0, start: 0, weight: 1.0 };
    source.handle_command(at_ms(0), Command::Answer(ToSource { number: 0, order: push }));
    let blocks: Vec<u32> = core::iter::from_fn(|| source.poll_transmit(at_ms(0)))
        .filter_map(|packet| match packet.body() {
            Body::Symbol { block, .. } => Some(block),
            _ => None,
        })
        .collect();
    assert_eq!(
        blocks,
        [0, 0, 0, 0, 0, 0, 0, 0, 0, 1],
        "6 + 2 are needed of the first; one more goes out, as the paper says"
    );
}

/// RFC 6330's failure rates: K symbols fail to decode once in 256 times, of which once in 256 with one more.
#[test]
fn decoding_fails_as_often_as_raptorq() {
    let blocks = 60_000u32;
    let config = Arc::new(PushConfig { block_symbols: 1, ..config(1) });
    let partition = Partition::new(u64::from(blocks) * u64::from(SYMBOL), SYMBOL, 1).expect("an object");
    let stream = Stream::named(5, "decoder");
    let mut receiver = PushReceiver::new(config, partition, stream, Instant::ZERO);
    let peer = receiver.add_peer();
    let mut number = 0;
    for block in 0..blocks {
        // Repair symbols only: the block's one source symbol would be the block.
        let mut symbol = 1;
        while receiver.remaining() > u64::from(blocks - 1 - block) || receiver.decoded_blocks() == block {
            let body = Body::Symbol { number, block, symbol, len: SYMBOL, flags: DataFlags::NONE };
            receiver.handle_symbol(at_ms(0), peer, &Packet::new(config_class(), 1040, body));
            (number, symbol) = (number + 1, symbol + 1);
        }
    }
    let failures = receiver.counts().overhead_symbols as f64 / f64::from(blocks);
    assert!((failures * 256.0 - 1.0).abs() < 0.2, "{failures} against 1/256");
}

/// Beside a decoder a block is decoded when the decoder says so: with K symbols it is asked, with each more again, and
/// with all source symbols, too; what it says of other blocks changes nothing.
#[test]
fn a_decoder_decides_what_is_decoded() {
    let config = Arc::new(PushConfig { block_symbols: 3, ..config(1) });
    let partition = Partition::new(6 * u64::from(SYMBOL), SYMBOL, 3).expect("an object");
    let receiver = PushReceiver::beside_decoder(config, partition, 0, Instant::ZERO).into_shared();
    let peer = receiver.borrow_mut().add_peer();
    let mut port = PushPort::new(receiver.clone(), peer);
    let mut number = 0;
    let mut asked = |block, symbol| {
        let body = Body::Symbol { number, block, symbol, len: SYMBOL, flags: DataFlags::NONE };
        number += 1;
        port.handle_packet(at_ms(0), &Packet::new(config_class(), 1040, body), &SackBlocks::EMPTY);
        let mut decodes = Vec::new();
        while let Some(event) = port.poll_event() {
            if let Event::Ask(PushRequest::Decode { block }) = event {
                decodes.push(block);
            }
        }
        decodes
    };
    assert_eq!([asked(0, 5), asked(0, 6)], [vec![], vec![]]);
    assert_eq!([asked(0, 7), asked(0, 0)], [vec![0], vec![0]]);
    assert_eq!(receiver.borrow().decoded_blocks(), 0);
    receiver.borrow_mut().handle_decoded(at_ms(0), 0);
    receiver.borrow_mut().handle_decoded(at_ms(0), 0);
    receiver.borrow_mut().handle_decoded(at_ms(0), 7);
    assert_eq!(receiver.borrow().decoded_blocks(), 1);
    assert_eq!([asked(0, 1), asked(1, 0), asked(1, 1), asked(1, 2)], [vec![], vec![], vec![], vec![1]]);
    assert!(!receiver.borrow().is_complete());
    receiver.borrow_mut().handle_decoded(at_ms(0), 1);
    assert!(receiver.borrow().is_complete());
    let counts = receiver.borrow().counts();
    assert_eq!((counts.decoded_blocks, counts.whole_blocks), (1, 1));
}

/// The acknowledgement of a symbol that may complete a block waits for the decoder's word. Nothing is needed once it is
/// decoded; as many symbols as are missing if what came is false, though all source symbols did; and one while there is no
/// word, for a source that is told that nothing is needed sends nothing any more.
#[test]
fn an_acknowledgement_waits_for_the_decoder() {
    #[derive(Clone, Copy)]
    enum Word {
        Decoded,
        Missing(u32),
        None,
    }
    let needed = |word, then: u32| {
        let config = Arc::new(PushConfig { block_symbols: 3, ..config(1) });
        let partition = Partition::new(6 * u64::from(SYMBOL), SYMBOL, 3).expect("an object");
        let receiver = PushReceiver::beside_decoder(config, partition, 0, Instant::ZERO).into_shared();
        let peer = receiver.borrow_mut().add_peer();
        let mut port = PushPort::new(receiver.clone(), peer);
        let mut said = Vec::new();
        for number in 0..3 + then {
            let body = Body::Symbol { number, block: 0, symbol: number, len: SYMBOL, flags: DataFlags::NONE };
            port.handle_packet(at_ms(0), &Packet::new(config_class(), 1040, body), &SackBlocks::EMPTY);
            if number == 2 {
                assert_eq!(port.poll_transmit(at_ms(0)), None, "it waits");
            }
            while port.poll_event().is_some() {}
            match word {
                Word::Decoded if number == 2 => receiver.borrow_mut().handle_decoded(at_ms(0), 0),
                Word::Missing(missing) if number == 2 => receiver.borrow_mut().handle_missing(0, missing),
                _ => {}
            }
            let Some(Body::SymbolAck { needed, .. }) = port.poll_transmit(at_ms(0)).map(|packet| packet.body()) else {
                panic!("every symbol is acknowledged")
            };
            said.push(needed);
        }
        said.split_off(2)
    };
    assert_eq!(needed(Word::Decoded, 1), [0, 0]);
    assert_eq!(needed(Word::None, 1), [2, 1]);
    assert_eq!(needed(Word::Missing(4), 5), [2, 5, 4, 3, 2, 1]);
}

/// A block that is complete, and of which the decoder says nothing yet, is asked for once per source, whatever its sources
/// have claimed: claims that were lost with their acknowledgements never arrive.
#[test]
fn a_complete_block_is_asked_for_once_until_the_decoder_says_more() {
    let config = Arc::new(PushConfig { claims: true, ..config(2) });
    let partition = Partition::new(100 * u64::from(SYMBOL), SYMBOL, 100).expect("an object");
    let receiver = PushReceiver::beside_decoder(config, partition, 0, Instant::ZERO).into_shared();
    let mut ports = [0, 1].map(|_| {
        let peer = receiver.borrow_mut().add_peer();
        PushPort::new(receiver.clone(), peer)
    });
    let mut heard = |from: usize, number, symbol| {
        let body = Body::Symbol { number, block: 0, symbol, len: SYMBOL, flags: DataFlags::NONE };
        ports[from].handle_packet(at_ms(0), &Packet::new(config_class(), 1040, body), &SackBlocks::EMPTY);
        while ports[from].poll_event().is_some() {}
        match ports[from].poll_transmit(at_ms(0)).map(|packet| packet.body()) {
            Some(Body::SymbolAck { needed, claim, .. }) => (needed, claim),
            other => panic!("every symbol is acknowledged: {other:?}"),
        }
    };
    heard(1, 0, 1);
    // All of its own, each with a claim; then repair symbols.
    let said: Vec<_> = (0..110).map(|number| heard(0, number, 2 * number)).collect();
    let claims = said.iter().filter(|(_, claim)| *claim != crate::packet::NO_CLAIM).count();
    assert!(claims > 20, "{claims} claims");
    // With 103 of them and the other's it has K + 4 symbols.
    assert!(said[101].0 > 20 && said[102..].iter().all(|(needed, _)| *needed == 1), "{:?}", &said[100..]);
}

fn config_class() -> crate::packet::TrafficClass {
    crate::packet::TrafficClass::new(0).with_ecn(Ecn::Ect0)
}

/// A source that dies is replaced by one that waits, which takes its slot and does not begin at the first symbol.
#[test]
fn a_replacement_inherits_the_slot() {
    let bytes = 100_000 * u64::from(SYMBOL);
    let dying = Place { dies_ms: Some(20), ..PLACE };
    let mut world = World::new(config(2), bytes, &[PLACE, dying, PLACE], Weighting::Fixed(1.0), 3);
    let done = world.run(at_ms(5000)).expect("complete").as_secs_f64() * 1e3;
    // Alone the first would take a second; silence shows after five reports, 250 ms, and half is left then of 730 ms.
    assert!(done < 750.0, "{done} ms");
    let first = world.sites[2].sent;
    assert!(first > 20_000, "the third took over: {first}");
}

/// Without any source the task waits; it goes on with one that joins, from where it was.
#[test]
fn all_sources_dead_then_one_joins() {
    let bytes = 5000 * u64::from(SYMBOL);
    let dying = Place { dies_ms: Some(10), ..PLACE };
    let late = Place { joins_ms: 4000, ..PLACE };
    let mut world = World::new(config(2), bytes, &[dying, dying, late], Weighting::Fixed(1.0), 3);
    assert_eq!(world.run(at_ms(3999)), None);
    let had = world.delivered / u64::from(SYMBOL);
    assert!(had > 1000, "something came before: {had}");
    let done = world.run(at_ms(9000)).expect("complete");
    assert!(done > at_ms(4000));
    assert!(world.sites[2].sent < 5000 - had + 500, "the late one sends what is missing: {}", world.sites[2].sent);
}

/// The only source is gone for so long that it gives up; when it is back the controller's repeated order finds it, and the
/// object is complete.
#[test]
fn the_only_source_comes_back() {
    let bytes = 20_000 * u64::from(SYMBOL);
    let gone = Place { dies_ms: Some(50), returns_ms: 15_000, ..PLACE };
    let mut world = World::new(config(1), bytes, &[gone], Weighting::Fixed(1.0), 3);
    assert_eq!(world.run(at_ms(14_999)), None);
    let done = world.run(at_ms(20_000)).expect("complete").as_secs_f64();
    // At most 150 ms until three reports call it silent, 200 ms until the order comes again, 200 ms for the object.
    assert!(done < 15.6, "{done} s");
}

/// A source whose slot another has taken comes back, and takes the slot of one that dies later: the reports tell that it
/// sends for its new slot, so it is not taken for silent there.
#[test]
fn a_source_comes_back_to_another_slot() {
    let bytes = 200_000 * u64::from(SYMBOL);
    let first = Place { dies_ms: Some(20), returns_ms: 400, ..PLACE };
    let second = Place { dies_ms: Some(600), ..PLACE };
    let mut world = World::new(config(2), bytes, &[first, second, PLACE], Weighting::Fixed(1.0), 3);
    let mut sent = 0;
    for ms in [900, 1000, 1100, 1200] {
        assert_eq!(world.run(at_ms(ms)), None, "200 MB take more than a second");
        assert!(world.sites[0].sent > sent, "the first sends at {ms} ms");
        sent = world.sites[0].sent;
    }
    assert!(world.run(at_ms(5000)).is_some());
}

/// A receiver that says nothing has its flows paused; when it is back they go on.
#[test]
fn a_silent_receiver_pauses_its_flows() {
    let bytes = 100_000 * u64::from(SYMBOL);
    let mut world = World::new(config(2), bytes, &[PLACE; 2], Weighting::Fixed(1.0), 3);
    assert_eq!(world.run(at_ms(100)), None);
    world.receiver_alive = false;
    world.run(at_ms(5000));
    let sent: u64 = world.sites.iter().map(|site| site.sent).sum();
    world.run(at_ms(8000));
    assert_eq!(world.sites.iter().map(|site| site.sent).sum::<u64>(), sent, "paused flows send nothing");
    world.receiver_alive = true;
    assert!(world.run(at_ms(20_000)).is_some(), "they resume");
}

/// Claims: of two sources of which one is ten times as fast, the fast one sends the slow one's source symbols; without
/// them most blocks must be decoded.
#[test]
fn claims_spare_decoding() {
    let slow = Place { packet: Span::from_us(100), ..PLACE };
    let decoded = |claims| {
        let config = PushConfig { claims, ..config(2) };
        let mut world = World::new(config, 4000 * u64::from(SYMBOL), &[PLACE, slow], Weighting::Fixed(1.0), 3);
        world.run(at_ms(5000)).expect("complete");
        let counts = world.counts();
        assert_eq!(counts.decoded_blocks + counts.whole_blocks, 40);
        counts.decoded_blocks
    };
    let (with, without) = (decoded(true), decoded(false));
    assert!(without > 30, "{without} of 40");
    // Blocks of 100 symbols are hardly more than what is under way.
    assert!(with < without / 2, "{with} of 40 with claims, {without} without");
}

/// With claims every source is busy to the end, whatever its speed: the object takes little more than the bound (what all
/// send together), next to nothing is sent in vain, and hardly a block must be decoded.
#[test]
fn claims_keep_sources_of_any_speed_busy() {
    for packet_us in [&[500, 167, 100][..], &[500, 100], &[167, 167, 167], &[10_000, 100], &[100]] {
        let (blocks, symbols) = (24, 1800);
        let config = PushConfig { claims: true, block_symbols: symbols, ..config(packet_us.len() as u8) };
        let place = |us: &u64| Place { packet: Span::from_us(*us), delay: Span::from_ms(1), ..PLACE };
        let places: Vec<Place> = packet_us.iter().map(place).collect();
        let all = blocks * u64::from(symbols);
        let mut world = World::new(config, all * u64::from(SYMBOL), &places, Weighting::Fixed(1.0), 3);
        let took = world.run(at_ms(60_000)).expect("complete").since(Instant::ZERO).as_secs_f64();
        let per_second: f64 = packet_us.iter().map(|us| 1e6 / *us as f64).sum();
        let (bound, counts) = (all as f64 / per_second, world.counts());
        assert!(took < 1.05 * bound, "{packet_us:?}: {took} s, the bound is {bound} s");
        assert!(counts.excess_symbols + counts.overhead_symbols < all / 50, "{packet_us:?}: {counts:?}");
        assert!(counts.decoded_blocks <= 6, "{packet_us:?}: {counts:?}");
        let encoded = world.encoded.len();
        assert!(
            encoded <= 2 * places.len(),
            "{packet_us:?}: blocks are encoded {encoded} times although nothing is lost"
        );
    }
}

/// The same on links that drop what does not fit into their buffers, of 50 ms and more. What a source has in flight is left
/// to it, though it may be more than its share of a block, and what was lost is sent again at once.
#[test]
fn claims_leave_alone_what_is_in_flight() {
    // Time of a packet, and buffer in packets. The first buffer holds 300 ms.
    let links = [
        &[(12_000, 26), (120, 440)][..],
        &[(12_000, 4), (120, 440)],
        &[(600, 105), (120, 440)],
        &[(600, 105), (200, 280), (120, 440)],
        &[(200, 280); 3],
        &[(120, 440)],
    ];
    for links in links {
        let (blocks, symbols) = (100, 1490);
        let config = PushConfig { claims: true, block_symbols: symbols, ..config(links.len() as u8) };
        let place = |(us, limit): &(u64, u64)| {
            let (packet, delay) = (Span::from_us(*us), Span::from_us(100));
            Place { packet, delay, threshold: u64::MAX, limit: *limit, ..PLACE }
        };
        let places: Vec<Place> = links.iter().map(place).collect();
        let all = blocks * u64::from(symbols);
        let mut world = World::new(config, all * u64::from(SYMBOL), &places, Weighting::Fixed(1.0), 3);
        let took = world.run(at_ms(60_000)).expect("complete").since(Instant::ZERO).as_secs_f64();
        let per_second: f64 = links.iter().map(|(us, _)| 1e6 / *us as f64).sum();
        let (bound, counts) = (all as f64 / per_second, world.counts());
        let vain = (counts.excess_symbols + counts.overhead_symbols) as f64 / all as f64;
        assert!(took < 1.005 * bound, "{links:?}: {took} s, the bound is {bound} s");
        assert!(vain < 0.005, "{links:?}: {vain} of the symbols in vain, {counts:?}");
        assert!(counts.decoded_blocks <= 10, "{links:?}: {counts:?}");
    }
}

/// A source that dies takes what it had in flight and what it had claimed with it. The others bring that, and are busy to the
/// end.
#[test]
fn the_others_do_the_work_of_one_that_dies() {
    let config = PushConfig { claims: true, block_symbols: 1490, ..config(3) };
    let place = |us, limit, dies_ms| {
        let (packet, delay) = (Span::from_us(us), Span::from_us(100));
        Place { packet, delay, threshold: u64::MAX, limit, dies_ms, ..PLACE }
    };
    let places = [place(600, 105, None), place(200, 280, None), place(120, 440, Some(3000))];
    let all = 100 * 1490;
    let mut world = World::new(config, all * u64::from(SYMBOL), &places, Weighting::Fixed(1.0), 3);
    let took = world.run(at_ms(60_000)).expect("complete").since(Instant::ZERO).as_secs_f64();
    let (others, last) = (1e6 / 600.0 + 1e6 / 200.0, 1e6 / 120.0);
    let bound = 3.0 + (all as f64 - 3.0 * (others + last)) / others;
    assert!(took < 1.02 * bound, "{took} s, the bound is {bound} s: {:?}", world.counts());
}

/// Symbols beyond need stay below one bandwidth-delay product per source and block.
#[test]
fn few_symbols_are_sent_in_vain() {
    let (blocks, sources) = (20, 3);
    let config = PushConfig { block_symbols: 1000, ..config(sources) };
    let places = [20, 10, 40].map(|us| Place { packet: Span::from_us(us), delay: Span::from_us(200), ..PLACE });
    let mut world = World::new(config, blocks * 1000 * u64::from(SYMBOL), &places, Weighting::Fixed(1.0), 3);
    world.run(at_ms(5000)).expect("complete");
    let excess = world.counts().excess_symbols;
    // 400 us at 20, 10 and 40 us a packet.
    let bound = blocks * (20 + 40 + 10);
    assert!(excess <= bound, "{excess} of at most {bound}");
}

/// Algorithm 1 through the messages: the smaller task's flow gets the large weight, and hands it on when it is done.
#[test]
fn the_controller_weighs_flows_by_remaining_size() {
    let mut controller = Controller::new(ControllerConfig::default());
    controller.set_high_weight(0, 55.0);
    for (task, symbols) in [(1, 1000), (2, 10)] {
        controller.add_task(task, task, symbols, 1, Weighting::Remaining { priority: 0 });
        controller.add_source(at_ms(0), task, Holding { source: task, path: vec![0] });
        controller.handle_message(at_ms(0), task, ToController::Fetch);
    }
    let mut weights = BTreeMap::new();
    let mut take = |controller: &mut Controller| {
        while let Some(message) = controller.poll_message() {
            if let Outgoing::Source(
                task,
                _,
                ToSource { order: Order::Push { weight, .. } | Order::Theta { weight }, .. },
            ) = message
            {
                weights.insert(task, weight);
            }
        }
        weights.clone()
    };
    assert_eq!(take(&mut controller), BTreeMap::from([(1, 0.5), (2, 54.5)]));
    controller.handle_message(at_ms(1), 2, ToController::Fin);
    assert_eq!(take(&mut controller)[&1], 55.0);
    assert_eq!(controller.poll_timeout(), Some(at_ms(200)));
    controller.handle_message(at_ms(2), 1, ToController::Fin);
    assert_eq!(controller.poll_timeout(), None, "nothing is left to do");
}

/// Who has three of five blocks of three symbols from an earlier fetch says so before it fetches: what is left is counted
/// without them, and the source is ordered to begin with the fourth.
#[test]
fn a_resumed_fetch_begins_behind_what_is_there() {
    let config = Arc::new(PushConfig { block_symbols: 3, ..config(1) });
    let partition = Partition::new(13 * u64::from(SYMBOL), SYMBOL, 3).expect("an object");
    let mut receiver = PushReceiver::beside_decoder(config, partition, 3, Instant::ZERO);
    assert_eq!((receiver.decoded_blocks(), receiver.remaining()), (3, 13 - 9));
    let mut controller = Controller::new(ControllerConfig::default());
    controller.add_task(TASK, 0, partition.symbols(), 1, Weighting::Fixed(1.0));
    controller.add_source(at_ms(0), TASK, Holding { source: 0, path: Vec::new() });
    while let Some(message) = receiver.poll_message() {
        controller.handle_message(at_ms(0), TASK, message);
    }
    let said: Vec<Outgoing> = core::iter::from_fn(|| controller.poll_message()).collect();
    assert!(matches!(said[0], Outgoing::Receiver(TASK, ToReceiver::FetchAck)), "{said:?}");
    let Outgoing::Source(TASK, 0, ToSource { order: Order::Push { block, start, .. }, .. }) = said[1] else {
        panic!("{said:?}");
    };
    assert_eq!((block, start), (3, 0));
}

/// A source that has a part of its object sends the blocks that are there, and asks for none that is not.
#[test]
fn a_growing_source_sends_what_is_there() {
    let partition = Partition::new(12 * u64::from(SYMBOL), SYMBOL, 3).expect("an object");
    let config = PushConfig { block_symbols: 3, claims: true, ..config(1) };
    let mut source = PushSource::growing(Arc::new(config), partition, 0);
    let push = Order::Push { slot: 0, slots: 1, sources: 1, block: 0, start: 0, weight: 1.0 };
    source.handle_command(at_ms(0), Command::Answer(ToSource { number: 0, order: push }));
    let sent = |source: &mut PushSource| {
        let blocks = core::iter::from_fn(|| source.poll_transmit(at_ms(1))).filter_map(|packet| match packet.body() {
            Body::Symbol { block, .. } => Some(block),
            _ => None,
        });
        let mut blocks: Vec<u32> = blocks.collect();
        blocks.dedup();
        blocks
    };
    assert_eq!(sent(&mut source), []);
    source.handle_timeout(at_ms(100));
    assert_eq!(sent(&mut source), [], "nothing is asked for");
    source.handle_command(at_ms(100), Command::SendMessage { bytes: 3000 });
    assert_eq!(sent(&mut source), [0]);
    source.handle_command(at_ms(100), Command::SendMessage { bytes: 3000 });
    assert_eq!(sent(&mut source), [1]);
    source.handle_command(at_ms(100), Command::SendMessage { bytes: 3000 });
    assert_eq!(sent(&mut source), [], "the window of ten is full");
}

/// A source that rests keeps its slot: it is told to pause, is not taken for silent, and begins anew where the receiver is.
#[test]
fn a_resting_source_keeps_its_slot() {
    let mut controller = Controller::new(ControllerConfig::default());
    controller.add_task(TASK, 0, 1000, 2, Weighting::Fixed(1.0));
    for source in [3, 4] {
        controller.add_source(at_ms(0), TASK, Holding { source, path: Vec::new() });
    }
    controller.handle_message(at_ms(0), TASK, ToController::Fetch);
    let orders = |controller: &mut Controller| -> Vec<(u64, Order)> {
        let to_source = |message| match message {
            Outgoing::Source(_, source, ToSource { order, .. }) => Some((source, order)),
            Outgoing::Receiver(..) => None,
        };
        core::iter::from_fn(|| controller.poll_message()).filter_map(to_source).collect()
    };
    assert_eq!(orders(&mut controller).len(), 2);
    controller.set_resting(at_ms(1), TASK, 3, true);
    assert_eq!(orders(&mut controller), [(3, Order::Pause)]);
    controller.set_resting(at_ms(1), TASK, 3, true);
    for ms in 2..12 {
        let report = ToController::Report { decoded: 5, remaining: 500, heard: 0b10, next: 7 };
        controller.handle_message(at_ms(ms), TASK, report);
    }
    assert_eq!(orders(&mut controller), [], "it is not ordered again");
    controller.set_resting(at_ms(12), TASK, 3, false);
    let [(3, Order::Push { slot: 0, sources: 2, block: 5, start: 7, .. })] = orders(&mut controller)[..] else {
        panic!("it goes on");
    };
}
