//! Endpoints that talk through a network that a test controls.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use pliant_proto::time::{Instant, Span};
use proptest::prelude::*;

use super::handshake::key_pair;
use super::random::Random;
use super::*;

const CALLER: &str = "192.0.2.1:1000";
const CALLED: &str = "192.0.2.2:2000";

fn caller() -> SocketAddr {
    CALLER.parse().unwrap()
}

fn called() -> SocketAddr {
    CALLED.parse().unwrap()
}

fn preshared() -> Config {
    Config { keys: Keys::Preshared([9; 32]), ..Config::default() }
}

/// Configurations of a caller and a called side for each kind of keys.
fn all_keys() -> [(Config, Config); 3] {
    let (a, b) = (key_pair(Random::from_seed([1; 32])), key_pair(Random::from_seed([2; 32])));
    let of = |private, peer| Config { keys: Keys::Static { private, peers: vec![peer] }, ..Config::default() };
    [(Config::default(), Config::default()), (preshared(), preshared()), (of(a.0, b.1), of(b.0, a.1))]
}

/// Two endpoints, and what each has to say.
struct Pair {
    now: Instant,
    a: Endpoint,
    b: Endpoint,
    events_a: Vec<(ConnectionId, Event)>,
    events_b: Vec<(ConnectionId, Event)>,
    packets_a: Vec<Vec<u8>>,
    packets_b: Vec<Vec<u8>>,
    /// Every datagram so far; `true` from the caller.
    log: Vec<(bool, Vec<u8>)>,
    refuse: Option<&'static str>,
}

impl Pair {
    fn new((a, b): (Config, Config)) -> Self {
        Self {
            now: Instant::ZERO.after(Span::from_secs(100)),
            a: Endpoint::new(Config { accepts: false, ..a }, [3; 32]),
            b: Endpoint::new(b, [4; 32]),
            events_a: Vec::new(),
            events_b: Vec::new(),
            packets_a: Vec::new(),
            packets_b: Vec::new(),
            log: Vec::new(),
            refuse: None,
        }
    }

    /// A pair with a connection, and its number at both ends.
    fn connected(configs: (Config, Config)) -> (Self, ConnectionId, ConnectionId) {
        let mut pair = Self::new(configs);
        let a = pair.a.connect(pair.now, called(), b"opening").unwrap();
        pair.settle(|_, _| true);
        assert_eq!(pair.events_a, [(a, Event::Connected { answer: b"answer".to_vec() })]);
        let [(b, Event::Accepted { from, opening })] = &pair.events_b[..] else { panic!("{:?}", pair.events_b) };
        assert_eq!((*from, &opening[..]), (caller(), &b"opening"[..]));
        let b = *b;
        pair.events_a.clear();
        pair.events_b.clear();
        (pair, a, b)
    }

    fn hear_a(&mut self, from: SocketAddr, datagram: &[u8]) {
        let mut bytes = datagram.to_vec();
        let arrival = self.a.handle_datagram(self.now, from, &mut bytes, &mut |_, _| Ok(Vec::new()));
        if let Some(arrival) = arrival {
            self.packets_a.push(bytes[arrival.packet].to_vec());
        }
        self.events_a.extend(std::iter::from_fn(|| self.a.poll_event()));
    }

    fn hear_b(&mut self, from: SocketAddr, datagram: &[u8]) {
        let mut bytes = datagram.to_vec();
        let refuse = self.refuse;
        let mut accept = |_: SocketAddr, _: &[u8]| refuse.map_or(Ok(b"answer".to_vec()), |why| Err(why.to_owned()));
        if let Some(arrival) = self.b.handle_datagram(self.now, from, &mut bytes, &mut accept) {
            self.packets_b.push(bytes[arrival.packet].to_vec());
        }
        self.events_b.extend(std::iter::from_fn(|| self.b.poll_event()));
    }

    /// Carries what both say until they are silent; `passes` hears the side and the datagram.
    fn settle(&mut self, mut passes: impl FnMut(bool, &[u8]) -> bool) {
        loop {
            let mut any = false;
            while let Some((to, bytes)) = self.a.poll_transmit() {
                any = true;
                self.log.push((true, bytes.clone()));
                if to == called() && passes(true, &bytes) {
                    self.hear_b(caller(), &bytes);
                }
            }
            while let Some((to, bytes)) = self.b.poll_transmit() {
                any = true;
                self.log.push((false, bytes.clone()));
                if to == caller() && passes(false, &bytes) {
                    self.hear_a(called(), &bytes);
                }
            }
            if !any {
                return;
            }
        }
    }

    /// Lets time pass, with every deadline at its time.
    fn run(&mut self, span: Span, mut passes: impl FnMut(bool, &[u8]) -> bool) {
        let end = self.now.after(span);
        loop {
            self.settle(&mut passes);
            let next = [self.a.poll_timeout(), self.b.poll_timeout()].into_iter().flatten().min();
            let Some(next) = next.filter(|next| *next <= end) else { break };
            assert!(next >= self.now, "deadlines do not lie in the past");
            self.now = next;
            self.a.handle_timeout(self.now);
            self.b.handle_timeout(self.now);
            self.events_a.extend(std::iter::from_fn(|| self.a.poll_event()));
            self.events_b.extend(std::iter::from_fn(|| self.b.poll_event()));
        }
        self.now = end;
    }

    /// A sealed packet of the caller's, as it travels.
    fn packet(&mut self, connection: ConnectionId, content: u32) -> Vec<u8> {
        packet(&mut self.a, connection, content)
    }
}

/// A packet of an endpoint's, as it travels.
fn packet(endpoint: &mut Endpoint, connection: ConnectionId, content: u32) -> Vec<u8> {
    let (before, behind) = endpoint.overhead();
    let to = endpoint.remote(connection).unwrap() << 2;
    let packet = [&[0x50, 0, 0, 0][..], &to.to_be_bytes(), &content.to_be_bytes()].concat();
    let mut bytes = [vec![0; before], packet, vec![0; behind]].concat();
    assert!(endpoint.seal(connection, &mut bytes));
    bytes
}

fn content(packet: &[u8]) -> u32 {
    u32::from_be_bytes(packet[8..12].try_into().unwrap())
}

/// Under each kind of keys: both sides learn what the other said, packets arrive both ways, a close is told once.
#[test]
fn connections_stand_carry_packets_and_end() {
    for configs in all_keys() {
        let (mut pair, a, b) = Pair::connected(configs);
        assert_eq!((pair.a.connections(), pair.b.connections()), (1, 1));
        let there = pair.packet(a, 5);
        pair.hear_b(caller(), &there);
        let back = packet(&mut pair.b, b, 6);
        pair.hear_a(called(), &back);
        assert_eq!(pair.packets_b.iter().map(|p| content(p)).collect::<Vec<_>>(), [5]);
        assert_eq!(pair.packets_a.iter().map(|p| content(p)).collect::<Vec<_>>(), [6]);
        pair.a.close(pair.now, a, 3, "enough");
        pair.run(Span::from_secs(60), |_, _| true);
        let closed = Closed::ByPeer { code: 3, reason: "enough".into() };
        assert_eq!(pair.events_b, [(b, Event::Closed(closed))]);
        assert_eq!(pair.events_a, []);
        assert_eq!((pair.a.connections(), pair.b.connections()), (0, 0));
        assert_eq!(
            (pair.a.refused(), pair.b.refused()),
            (Refused::default(), Refused { unproven: 1, ..Refused::default() })
        );
    }
}

/// Keys that change every second packet carry a thousand, and each arrives once.
#[test]
fn keys_change_under_way() {
    let configs = (Config { packets_per_key: 2, ..preshared() }, preshared());
    let (mut pair, a, _) = Pair::connected(configs);
    for number in 0..1000 {
        let there = pair.packet(a, number);
        pair.hear_b(caller(), &there);
        pair.hear_b(caller(), &there);
    }
    assert_eq!(pair.packets_b.iter().map(|p| content(p)).collect::<Vec<_>>(), (0..1000).collect::<Vec<_>>());
    assert_eq!(pair.b.refused().replayed, 1000);
}

/// Nobody there, another key, another kind of keys, another version, a refusal: each ends with its own reason, and the
/// called side keeps nothing of it.
#[test]
fn calls_that_come_to_nothing_say_why() {
    let strangers = (Config { keys: Keys::Preshared([8; 32]), ..Config::default() }, preshared());
    let mut pair = Pair::new(strangers.clone());
    pair.a.connect(pair.now, called(), b"").unwrap();
    pair.run(Span::from_secs(11), |_, _| false);
    let ended = |pair: &Pair| match &pair.events_a[..] {
        [(_, Event::Closed(why))] => why.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(ended(&pair), Closed::NoAnswer(Span::from_secs(10)));

    let mut pair = Pair::new(strangers);
    pair.a.connect(pair.now, called(), b"").unwrap();
    pair.run(Span::from_secs(11), |_, _| true);
    assert_eq!(ended(&pair), Closed::WrongKey);
    assert_eq!((pair.b.connections(), &pair.events_b[..]), (0, &[][..]));
    assert!(pair.b.refused().forged > 1);
    assert!(
        pair.log.iter().filter(|(from_caller, _)| !from_caller).all(|(_, bytes)| bytes[1] & 0xf == 1),
        "cookies only"
    );

    let mut pair = Pair::new((Config::default(), preshared()));
    pair.a.connect(pair.now, called(), b"").unwrap();
    pair.run(Span::from_secs(11), |_, _| true);
    assert_eq!(ended(&pair), Closed::Security);

    let mut pair = Pair::new((preshared(), preshared()));
    pair.refuse = Some("one is enough");
    pair.a.connect(pair.now, called(), b"").unwrap();
    pair.run(Span::from_secs(11), |_, _| true);
    assert_eq!(ended(&pair), Closed::Refused("one is enough".into()));
    assert_eq!((pair.a.connections(), pair.b.connections(), pair.events_b.len()), (0, 0, 0));

    let mut pair = Pair::new((preshared(), preshared()));
    pair.a.connect(pair.now, called(), b"").unwrap();
    let (_, mut hello) = pair.a.poll_transmit().unwrap();
    hello[1] = 7 << 4;
    pair.hear_b(caller(), &hello);
    let (_, mut refusal) = pair.b.poll_transmit().unwrap();
    refusal[1] = 7 << 4 | 3;
    pair.hear_a(called(), &refusal);
    assert_eq!(pair.events_a, [], "a hint is believed only while nobody else answers");
    pair.run(Span::from_secs(1), |_, _| false);
    assert_eq!(ended(&pair), Closed::Version(7));
}

/// A hint that anybody may have sent does not stop a handshake that goes on.
#[test]
fn hints_do_not_stop_a_handshake() {
    let mut pair = Pair::new((preshared(), preshared()));
    let a = pair.a.connect(pair.now, called(), b"").unwrap();
    for code in [RefusalCode::Version, RefusalCode::Security, RefusalCode::Busy] {
        pair.hear_a(called(), &super::datagram::refusal(a.get(), code));
    }
    pair.settle(|_, _| true);
    assert_eq!(pair.events_a, [(a, Event::Connected { answer: b"answer".to_vec() })]);
}

/// Static keys of several peers do not say whom to call.
#[test]
fn callers_have_one_peer() {
    let keys = Keys::Static { private: [1; 32], peers: vec![[2; 32], [3; 32]] };
    let mut endpoint = Endpoint::new(Config { keys, ..Config::default() }, [1; 32]);
    assert_eq!(endpoint.connect(Instant::ZERO, called(), b""), Err(ConnectError::ManyPeers));
    let mut endpoint = Endpoint::new(Config { max_connections: 1, ..preshared() }, [1; 32]);
    assert_eq!(endpoint.connect(Instant::ZERO, called(), &[0; 901]), Err(ConnectError::Opening));
    assert!(endpoint.connect(Instant::ZERO, called(), b"").is_ok());
    assert_eq!(endpoint.connect(Instant::ZERO, called(), b""), Err(ConnectError::Full));
}

/// Signs of life keep an idle connection; without them it ends on both sides after the idle timeout, and not before.
#[test]
fn silence_ends_a_connection() {
    for configs in all_keys() {
        let (mut pair, a, b) = Pair::connected(configs);
        pair.run(Span::from_secs(300), |_, _| true);
        assert_eq!((&pair.events_a[..], &pair.events_b[..]), (&[][..], &[][..]));
        pair.run(Span::from_secs(22), |_, _| false);
        assert_eq!((&pair.events_a[..], &pair.events_b[..]), (&[][..], &[][..]));
        pair.run(Span::from_secs(9), |_, _| false);
        let silent = Event::Closed(Closed::Silent(Span::from_secs(30)));
        assert_eq!((&pair.events_a[..], &pair.events_b[..]), (&[(a, silent.clone())][..], &[(b, silent)][..]));
    }
}

/// A close that was lost is repeated to a peer that goes on, also to one that was silent for long and stays so for twice as
/// long again, as a retransmission timer makes it: it is not taken for restarted. In the end it is forgotten.
#[test]
fn a_lost_close_is_repeated_after_a_long_silence() {
    for configs in all_keys() {
        let (mut pair, a, b) = Pair::connected(configs);
        pair.run(Span::from_ms(1100), |_, _| true);
        pair.b.close(pair.now, b, 0, "done");
        pair.run(Span::from_ms(2200), |_, _| false);
        let there = pair.packet(a, 1);
        pair.hear_b(caller(), &there);
        pair.settle(|_, _| true);
        assert_eq!(pair.events_a, [(a, Event::Closed(Closed::ByPeer { code: 0, reason: "done".into() }))]);
        assert!(pair.packets_b.is_empty());
        pair.run(Span::from_secs(60), |_, _| true);
        assert_eq!((pair.a.connections(), pair.b.connections()), (0, 0));
    }
}

/// A peer that was restarted with its keys says so at the next datagram; nobody else can.
#[test]
fn restarted_peers_are_noticed() {
    let (mut pair, a, b) = Pair::connected((preshared(), preshared()));
    for keys in [Keys::Preshared([8; 32]), Keys::Plain] {
        pair.b = Endpoint::new(Config { keys, ..Config::default() }, [5; 32]);
        let there = pair.packet(a, 1);
        pair.hear_b(caller(), &there);
        pair.settle(|_, _| true);
        assert_eq!(pair.events_a, []);
    }
    assert_eq!(pair.a.refused().forged, 2);
    pair.b = Endpoint::new(preshared(), [6; 32]);
    let there = pair.packet(a, 2);
    pair.hear_b(caller(), &there);
    let (_, reset) = pair.b.poll_transmit().unwrap();
    assert!(reset.len() < there.len());
    pair.hear_a(caller(), &reset);
    assert_eq!(pair.events_a, [], "from another address");
    pair.hear_a(called(), &reset);
    assert_eq!(pair.events_a, [(a, Event::Closed(Closed::Reset))]);
    let _ = b;
}

/// Resets are limited: a flood of unknown datagrams is not answered one by one.
#[test]
fn resets_are_limited() {
    let mut endpoint = Endpoint::new(preshared(), [1; 32]);
    let mut answers = 0;
    for number in 0..10_000u32 {
        let mut bytes = [super::datagram::sealed_header(0, number, 0).as_slice(), &[0; 40]].concat();
        endpoint.handle_datagram(Instant::ZERO, caller(), &mut bytes, &mut |_, _| unreachable!());
        answers += std::iter::from_fn(|| endpoint.poll_transmit()).count();
    }
    assert_eq!(answers, 100);
}

/// 100,000 half-open handshakes from as many addresses, and 10,000 from an address that proves itself but has no key, cost
/// no connection; and the one that stands carries a packet after each.
#[test]
fn half_open_handshakes_cost_nothing() {
    let (mut pair, a, _) = Pair::connected((preshared(), preshared()));
    let mut stranger = Endpoint::new(Config { keys: Keys::Preshared([1; 32]), ..preshared() }, [7; 32]);
    for number in 0..100_000u32 {
        let from = SocketAddr::from(([10, (number >> 16) as u8, (number >> 8) as u8, number as u8], 9));
        let mut hello = super::datagram::hello(Security::Preshared, number + 1, &[0; 24], &[0; 96]);
        pair.b.handle_datagram(pair.now, from, &mut hello, &mut |_, _| unreachable!("no key"));
        let (to, answer) = pair.b.poll_transmit().unwrap();
        assert!(to == from && answer.len() <= hello.len());
        if number.is_multiple_of(1000) {
            let there = pair.packet(a, number);
            pair.hear_b(caller(), &there);
        }
    }
    let from = "198.51.100.1:1".parse().unwrap();
    for _ in 0..1000 {
        let id = stranger.connect(pair.now, called(), b"").unwrap();
        let (_, mut hello) = stranger.poll_transmit().unwrap();
        pair.b.handle_datagram(pair.now, from, &mut hello, &mut |_, _| unreachable!("no key"));
        let (_, mut cookie) = pair.b.poll_transmit().unwrap();
        stranger.handle_datagram(pair.now, called(), &mut cookie, &mut |_, _| unreachable!());
        let (_, hello) = stranger.poll_transmit().unwrap();
        for _ in 0..10 {
            pair.b.handle_datagram(pair.now, from, &mut hello.clone(), &mut |_, _| unreachable!("no key"));
        }
        assert_eq!(pair.b.poll_transmit(), None, "who has no key hears no more than a cookie");
        stranger.close(pair.now, id, 0, "");
    }
    let Refused { unproven, forged, excessive, .. } = pair.b.refused();
    assert_eq!((unproven, forged + excessive), (101_001, 10_000));
    // A thousand handshakes are looked at at once, more only as time passes; the pair's own was one.
    assert_eq!(forged, 999);
    assert_eq!((pair.b.connections(), pair.packets_b.len()), (1, 100));
}

/// Hellos of a peer with the key, each begun and left, fill no more than their places, and those only for five seconds.
#[test]
fn unconfirmed_connections_are_bounded() {
    let (mut pair, a, _) = Pair::connected((preshared(), Config { max_unconfirmed: 8, ..preshared() }));
    for _ in 0..100 {
        pair.a.connect(pair.now, called(), b"").unwrap();
        // The last word, which would confirm it, is lost.
        pair.settle(|from_caller, bytes| !(from_caller && bytes[1] & 0xf == 5));
        assert!(pair.b.connections() <= 9, "{}", pair.b.connections());
    }
    let there = pair.packet(a, 1);
    pair.hear_b(caller(), &there);
    assert_eq!(pair.packets_b.len(), 1);
    pair.run(Span::from_secs(6), |_, _| false);
    assert_eq!(pair.b.connections(), 1);
}

/// A peer with the key gets its places and no more, and is told.
#[test]
fn connections_per_peer_are_bounded() {
    let mut pair = Pair::new((preshared(), Config { max_per_peer: 2, ..preshared() }));
    for _ in 0..3 {
        pair.a.connect(pair.now, called(), b"").unwrap();
    }
    pair.run(Span::from_secs(2), |_, _| true);
    let busy = |event: &&(ConnectionId, Event)| event.1 == Event::Closed(Closed::Busy);
    assert_eq!((pair.events_b.len(), pair.events_a.iter().filter(busy).count()), (2, 1));
}

/// What is done to a datagram under way.
#[derive(Clone, Copy, Debug)]
enum Mischief {
    Pass,
    Drop,
    Twice,
    Flip(prop::sample::Index),
    Cut(prop::sample::Index),
    Grow,
    Reflect,
    /// An earlier datagram of either side arrives again, at either side.
    Old(prop::sample::Index, bool),
    /// From another address.
    Moved,
}

fn mischief() -> impl Strategy<Value = Mischief> {
    use prop::sample::Index;
    prop_oneof![
        4 => Just(Mischief::Pass),
        1 => Just(Mischief::Drop),
        1 => Just(Mischief::Twice),
        1 => any::<Index>().prop_map(Mischief::Flip),
        1 => any::<Index>().prop_map(Mischief::Cut),
        1 => Just(Mischief::Grow),
        1 => Just(Mischief::Reflect),
        1 => (any::<Index>(), any::<bool>()).prop_map(|(which, to_b)| Mischief::Old(which, to_b)),
        1 => Just(Mischief::Moved),
    ]
}

impl Pair {
    fn suffer(&mut self, mischief: Mischief, from_caller: bool, bytes: &[u8]) {
        let (source, other) = if from_caller { (caller(), called()) } else { (called(), caller()) };
        let deliver = |pair: &mut Self, to_b: bool, from, bytes: &[u8]| {
            if to_b { pair.hear_b(from, bytes) } else { pair.hear_a(from, bytes) }
        };
        let mut changed = bytes.to_vec();
        match mischief {
            Mischief::Drop => return,
            Mischief::Pass | Mischief::Old(..) => {}
            Mischief::Twice => deliver(self, from_caller, source, bytes),
            Mischief::Flip(index) => {
                let bit = index.index(changed.len() * 8);
                changed[bit / 8] ^= 1 << (bit % 8);
            }
            Mischief::Cut(index) => changed.truncate(index.index(bytes.len())),
            Mischief::Grow => changed.push(0),
            Mischief::Reflect => return deliver(self, !from_caller, other, bytes),
            Mischief::Moved => return deliver(self, from_caller, "203.0.113.9:9".parse().unwrap(), bytes),
        }
        if let Mischief::Old(which, to_b) = mischief
            && !self.log.is_empty()
        {
            let old = self.log[which.index(self.log.len())].1.clone();
            let from = if to_b { caller() } else { called() };
            deliver(self, to_b, from, &old);
        }
        deliver(self, from_caller, source, &changed);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Whatever happens to the datagrams of a handshake and of packets after it: nobody panics, both sides agree on the
    /// connection if they have one, and every packet that arrives was sent, and arrives once.
    #[test]
    fn nothing_but_what_was_sent_arrives(
        deeds in prop::collection::vec(mischief(), 1..80), static_keys in any::<bool>(),
    ) {
        let [_, preshared, of_pairs] = all_keys();
        let mut pair = Pair::new(if static_keys { of_pairs } else { preshared });
        let a = pair.a.connect(pair.now, called(), b"opening").unwrap();
        let mut sent = BTreeSet::new();
        for (step, deed) in deeds.into_iter().enumerate() {
            let open = pair.events_a.iter().any(|event| matches!(event.1, Event::Connected { .. }));
            let bytes = if step % 3 == 0 && open && pair.a.remote(a).is_some() {
                sent.insert(step as u32);
                Some((true, pair.packet(a, step as u32)))
            } else if let Some((_, bytes)) = pair.a.poll_transmit() {
                Some((true, bytes))
            } else {
                pair.b.poll_transmit().map(|(_, bytes)| (false, bytes))
            };
            match bytes {
                Some((from_caller, bytes)) => {
                    pair.log.push((from_caller, bytes.clone()));
                    pair.suffer(deed, from_caller, &bytes);
                }
                None => pair.run(Span::from_ms(300), |_, _| false),
            }
        }
        let arrived: Vec<u32> = pair.packets_b.iter().map(|packet| content(packet)).collect();
        let distinct: BTreeSet<u32> = arrived.iter().copied().collect();
        prop_assert_eq!(distinct.len(), arrived.len(), "a packet arrived twice");
        prop_assert!(distinct.is_subset(&sent));
        prop_assert!(pair.packets_a.is_empty());
        let connected = pair.events_a.iter().filter(|event| matches!(event.1, Event::Connected { .. })).count();
        let accepted = pair.events_b.iter().filter(|event| matches!(event.1, Event::Accepted { .. })).count();
        prop_assert!(connected <= 1 && accepted <= connected, "{connected} and {accepted}");
        prop_assert!(pair.b.connections() <= 2);
    }

    /// Handshakes succeed whichever of their first datagrams are lost.
    #[test]
    fn handshakes_survive_losses(losses in prop::collection::vec(any::<bool>(), 12)) {
        for configs in all_keys() {
            let patient = Config { connect_timeout: Span::from_secs(60), ..configs.0 };
            let mut pair = Pair::new((patient, configs.1));
            let mut turn = 0;
            pair.a.connect(pair.now, called(), b"opening").unwrap();
            pair.run(Span::from_secs(59), |_, _| {
                turn += 1;
                !losses.get(turn).copied().unwrap_or(false)
            });
            prop_assert!(matches!(pair.events_a[..], [(_, Event::Connected { .. })]), "{:?}", pair.events_a);
            prop_assert!(matches!(pair.events_b[..], [(_, Event::Accepted { .. })]), "{:?}", pair.events_b);
        }
    }

    /// Whoever has not shown that it is at its address gets no more than three bytes for one; here, no more than one.
    #[test]
    fn answers_do_not_amplify(
        datagrams in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..200), 0u8..7, 0u8..3, any::<u8>()), 1..50),
    ) {
        for config in [Config::default(), preshared()] {
            let mut endpoint = Endpoint::new(config, [1; 32]);
            for (mut bytes, kind, security, version) in datagrams.clone() {
                if bytes.len() > 8 {
                    let version = if version < 200 { 1 } else { version & 0xf };
                    bytes[..4].copy_from_slice(&[0x51, version << 4 | kind, security, 0]);
                }
                let length = bytes.len();
                endpoint.handle_datagram(Instant::ZERO, caller(), &mut bytes, &mut |_, _| Ok(vec![0; 900]));
                let answered: usize = std::iter::from_fn(|| endpoint.poll_transmit()).map(|(_, out)| out.len()).sum();
                prop_assert!(answered <= length, "{answered} bytes for {length}");
                prop_assert_eq!(endpoint.connections(), 0);
            }
        }
    }
}
