//! Endpoints that talk through a network that a test controls.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;

use pliant_proto::time::{Instant, Span};
use proptest::prelude::*;

use super::datagram::HelloHeader;
use super::noise::key_pair;
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
    let of = |private, peer| Config { keys: Keys::Static { private, peers: vec![anyone(peer)] }, ..Config::default() };
    [(Config::default(), Config::default()), (preshared(), preshared()), (of(a.0, b.1), of(b.0, a.1))]
}

/// A peer without a name, which may do everything.
fn anyone(key: [u8; KEY_BYTES]) -> Arc<Peer> {
    Arc::new(Peer { key, name: None, rights: Rights::default() })
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
        let [(b, Event::Accepted { from, opening, .. })] = &pair.events_b[..] else { panic!("{:?}", pair.events_b) };
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
        let mut accept = |_: Caller<'_>, _: &[u8]| refuse.map_or(Ok(b"answer".to_vec()), |why| Err(why.to_owned()));
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

/// A datagram's kind, by number.
fn kind(bytes: &[u8]) -> u8 {
    bytes[1] % 16
}

fn nonce(hello: &[u8]) -> [u8; 8] {
    hello[8..16].try_into().unwrap()
}

fn address(number: u32) -> SocketAddr {
    SocketAddr::from((std::net::Ipv4Addr::from(0x0a00_0000 + number), 9))
}

/// What `from` is answered.
fn ask(endpoint: &mut Endpoint, now: Instant, from: SocketAddr, bytes: &[u8]) -> Option<Vec<u8>> {
    endpoint.handle_datagram(now, from, &mut bytes.to_vec(), &mut |_, _| Ok(b"answer".to_vec()));
    endpoint.poll_transmit().map(|(to, answer)| {
        assert_eq!((to, answer.len() <= bytes.len() || kind(&answer) == 2), (from, true));
        answer
    })
}

/// The second hello of a call that `caller` begins from `from`: with its cookie.
fn second_hello(caller: &mut Endpoint, called_side: &mut Endpoint, now: Instant, from: SocketAddr) -> Vec<u8> {
    caller.connect(now, called(), b"opening").unwrap();
    let (_, hello) = caller.poll_transmit().unwrap();
    let mut cookie = ask(called_side, now, from, &hello).unwrap();
    caller.handle_datagram(now, called(), &mut cookie, &mut |_, _| unreachable!());
    caller.poll_transmit().unwrap().1
}

/// Whether it is a hello with a cookie.
fn has_cookie(bytes: &[u8]) -> bool {
    kind(bytes) == 0 && bytes[16..40] != [0; 24]
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
    assert!(pair.log.iter().filter(|(from_caller, _)| !from_caller).all(|(_, bytes)| kind(bytes) == 1), "cookies only");

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
    let (to, hello) = pair.a.poll_transmit().unwrap();
    let nonce = nonce(&hello);
    pair.hear_a(called(), &super::datagram::refusal_of_version(a.get()));
    for code in [RefusalCode::Security, RefusalCode::Busy] {
        pair.hear_a(called(), &super::datagram::refusal(a.get(), code, [7; 8]));
    }
    assert_eq!(pair.a.refused().stray, 2, "whoever does not know the hello cannot answer it");
    pair.hear_a(called(), &super::datagram::refusal(a.get(), RefusalCode::Security, nonce));
    assert_eq!(to, called());
    pair.hear_b(caller(), &hello);
    // Nor later, when the first welcome is lost.
    let mut welcomes = 0;
    pair.run(Span::from_secs(3), |_, bytes| {
        welcomes += u32::from(kind(bytes) == 2);
        kind(bytes) != 2 || welcomes > 1
    });
    assert_eq!(pair.events_a, [(a, Event::Connected { answer: b"answer".to_vec() })]);
}

/// A cookie is taken once for each hello: an old one, or one of somebody who did not see the hello, does not disturb the
/// handshake that has begun with a newer one.
#[test]
fn cookies_answer_one_hello() {
    let mut pair = Pair::new((preshared(), preshared()));
    let a = pair.a.connect(pair.now, called(), b"").unwrap();
    let (_, hello) = pair.a.poll_transmit().unwrap();
    pair.hear_a(called(), &super::datagram::cookie(a.get(), [7; 8], &[1; 24]));
    assert_eq!((pair.a.refused().stray, pair.a.poll_transmit()), (1, None));
    pair.hear_b(caller(), &hello);
    let (_, cookie) = pair.b.poll_transmit().unwrap();
    pair.hear_a(called(), &cookie);
    pair.hear_a(called(), &cookie);
    assert_eq!(pair.a.refused().stray, 2);
    pair.settle(|_, _| true);
    assert_eq!(pair.events_a, [(a, Event::Connected { answer: b"answer".to_vec() })]);
}

/// A hello that is no longer than its answer would be gets none, and every hello that a caller sends is longer.
#[test]
fn short_hellos_are_not_answered() {
    for (calling, called_side) in all_keys() {
        let mut pair = Pair::new((calling, called_side));
        pair.a.connect(pair.now, called(), b"").unwrap();
        let (_, hello) = pair.a.poll_transmit().unwrap();
        for length in 40..hello.len() {
            assert_eq!(ask(&mut pair.b, pair.now, caller(), &hello[..length]), None, "{length} bytes");
        }
        let cookie = ask(&mut pair.b, pair.now, caller(), &hello).unwrap();
        assert!(cookie.len() < hello.len());
        pair.hear_a(called(), &cookie);
        let (_, hello) = pair.a.poll_transmit().unwrap();
        assert!(has_cookie(&hello) && hello.len() > cookie.len());
    }
}

/// Somebody who repeats a caller's hellos has cookies sent to it until it takes no more at once. It takes others with time, and
/// is connected, though the cookies that it had are good no more.
#[test]
fn cookies_that_are_used_up_come_again() {
    let patient = Config { connect_timeout: Span::from_secs(60), ..preshared() };
    let (mut pair, mut taken) = (Pair::new((patient, preshared())), 0);
    let a = pair.a.connect(pair.now, called(), b"").unwrap();
    for _ in 0..100 {
        // What the receiver hears is a hello without a cookie, with the caller's nonce; the caller's own hellos are withheld.
        let last = std::iter::from_fn(|| pair.a.poll_transmit()).last();
        let Some((_, mut hello)) = last else { break };
        hello.truncate(64);
        hello[16..].fill(0);
        pair.hear_b(caller(), &hello);
        let (_, cookie) = pair.b.poll_transmit().unwrap();
        pair.hear_a(called(), &cookie);
        taken += 1;
    }
    assert!((8..20).contains(&taken), "{taken}");
    pair.run(Span::from_secs(11), |_, _| false);
    pair.run(Span::from_secs(10), |_, _| true);
    assert_eq!(pair.events_a, [(a, Event::Connected { answer: b"answer".to_vec() })]);
}

/// Static keys of several peers do not say whom to call; a name does, if there is one.
#[test]
fn callers_say_which_peer() {
    let connect = |file: &str, name: Option<&str>| {
        let keys = Keys::parse(file, "k").unwrap();
        let called = name.map(|name| (called(), name.to_owned())).into_iter().collect();
        let mut endpoint = Endpoint::new(Config { keys, called, ..Config::default() }, [1; 32]);
        endpoint.connect(Instant::ZERO, self::called(), b"").map(|_| ())
    };
    let key = |digits: &str| digits.repeat(32);
    let two = format!("private {}\npeer {} west\npeer {} east\n", key("01"), key("02"), key("03"));
    assert_eq!(connect(&two, None), Err(ConnectError::ManyPeers));
    assert_eq!(connect(&two, Some("east")), Ok(()));
    assert_eq!(connect(&two, Some("north")), Err(ConnectError::UnknownPeer("north".into())));
    assert_eq!(connect(&format!("private {}\npeer {}\n", key("01"), key("02")), None), Ok(()));
    let preshared_file = format!("preshared {}", key("01"));
    assert_eq!(connect(&preshared_file, None), Ok(()));
    assert_eq!(connect(&preshared_file, Some("east")), Err(ConnectError::NoNames("east".into())));
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

/// A close to a peer that was not heard for three seconds is repeated unasked while it is remembered, for twelve: where this
/// side has moved, the peer does not find it. One to a peer that was heard just before is said once.
#[test]
fn a_close_to_a_silent_peer_is_repeated_unasked() {
    for configs in all_keys() {
        for (silence_ms, said) in [(100, 1), (3100, 4)] {
            let (mut pair, _, b) = Pair::connected(configs.clone());
            pair.run(Span::from_ms(silence_ms), |_, _| true);
            pair.b.close(pair.now, b, 0, "done");
            pair.log.clear();
            pair.run(Span::from_secs(25), |_, _| false);
            assert_eq!(pair.log.iter().filter(|(of_a, _)| !of_a).count(), said, "after {silence_ms} ms");
            assert_eq!(pair.b.connections(), 0);
        }
    }
    for configs in all_keys().into_iter().skip(1) {
        let (mut pair, a, b) = Pair::connected(configs);
        pair.run(Span::from_ms(3100), |_, _| true);
        pair.b.close(pair.now, b, 0, "done");
        pair.run(Span::from_ms(900), |_, _| false);
        pair.b.handle_timeout(pair.now.after(Span::from_ms(100)));
        let (_, close) = pair.b.poll_transmit().unwrap();
        pair.hear_a(address(3), &close);
        assert_eq!(pair.events_a, [(a, Event::Closed(Closed::ByPeer { code: 0, reason: "done".into() }))]);
    }
}

/// A caller that has moved and did not hear of a close is told where it is now, in no more than three times what it sent:
/// without the reason, if need be. What overtook others, and what somebody has changed, is told nothing.
#[test]
fn a_close_finds_a_caller_who_has_moved() {
    let long = "a long reason ".repeat(10);
    for configs in all_keys().into_iter().skip(1) {
        for reason in ["done", &long] {
            let (mut pair, a, b) = Pair::connected(configs.clone());
            pair.b.close(pair.now, b, 3, reason);
            pair.settle(|_, _| false);
            let elsewhere = address(1);
            pair.a.ping(a);
            let (_, overtaken) = pair.a.poll_transmit().unwrap();
            pair.a.ping(a);
            let (_, ping) = pair.a.poll_transmit().unwrap();
            let mut changed = ping.clone();
            *changed.last_mut().unwrap() ^= 1;
            pair.hear_b(elsewhere, &changed);
            assert_eq!(pair.b.poll_transmit(), None);
            pair.hear_b(elsewhere, &ping);
            let (to, close) = pair.b.poll_transmit().unwrap();
            assert!(to == elsewhere && close.len() <= 3 * ping.len());
            pair.hear_b(address(2), &overtaken);
            assert_eq!(pair.b.poll_transmit(), None);
            pair.hear_a(called(), &close);
            let reason = if reason.len() < 50 { reason } else { "" };
            assert_eq!(pair.events_a, [(a, Event::Closed(Closed::ByPeer { code: 3, reason: reason.into() }))]);
            assert!(pair.events_b.is_empty());
        }
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
        let header =
            HelloHeader { security: Security::Preshared, initiator: number + 1, nonce: [1; 8], cookie: [0; 24] };
        let mut hello = super::datagram::first_hello(&header);
        pair.b.handle_datagram(pair.now, from, &mut hello, &mut |_, _| unreachable!("no key"));
        let (to, answer) = pair.b.poll_transmit().unwrap();
        assert!(to == from && answer.len() < hello.len());
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
    // Fifty of one address are looked at at once, more only as time passes.
    assert_eq!(forged, 50);
    assert_eq!((pair.b.connections(), pair.packets_b.len()), (1, 100));
}

/// Hellos of a peer with the key, each begun and left, fill no more than their slots, and those only for the idle
/// timeout.
#[test]
fn unconfirmed_connections_are_bounded() {
    let (mut pair, a, _) = Pair::connected((preshared(), Config { max_unconfirmed: 8, ..preshared() }));
    for _ in 0..100 {
        pair.a.connect(pair.now, called(), b"").unwrap();
        // The last word, which would confirm it, is lost.
        pair.settle(|from_caller, bytes| !(from_caller && kind(bytes) == 5));
        assert!(pair.b.connections() <= 9, "{}", pair.b.connections());
    }
    let there = pair.packet(a, 1);
    pair.hear_b(caller(), &there);
    assert_eq!(pair.packets_b.len(), 1);
    pair.run(Span::from_secs(25), |_, _| false);
    let there = pair.packet(a, 2);
    pair.hear_b(caller(), &there);
    assert_eq!((pair.b.connections(), pair.packets_b.len()), (9, 2));
    pair.run(Span::from_secs(6), |_, _| false);
    assert_eq!(pair.b.connections(), 1);
}

/// A recorded hello is worth nothing to others. Whoever sends it from another address, to the endpoint after a restart, to
/// another receiver with the same key, or again from the same address, as it was or with a fresh cookie in it, hears of no
/// more than a cookie, and the application hears nothing.
#[test]
fn recorded_hellos_are_worth_nothing() {
    for (caller_config, called_config) in all_keys().into_iter().skip(1) {
        let (mut pair, a, _) = Pair::connected((caller_config, called_config.clone()));
        let second = |(from_caller, bytes): &&(bool, Vec<u8>)| *from_caller && has_cookie(bytes);
        let recorded = pair.log.iter().find(second).unwrap().1.clone();
        pair.a.close(pair.now, a, 0, "");
        pair.run(Span::from_secs(5), |_, _| true);
        assert_eq!(pair.b.connections(), 0);
        pair.b.poll_event();
        let thief: SocketAddr = "198.51.100.1:1".parse().unwrap();
        let other = |seed| Endpoint::new(called_config.clone(), [seed; 32]);
        let restarted = (other(50), caller());
        for (mut endpoint, from) in [(pair.b, thief), restarted, (other(51), thief)] {
            let mut fresh = ask(&mut endpoint, pair.now, from, &recorded[..40]).unwrap_or_default();
            for round in 0..3 {
                let mut hello = recorded.clone();
                if round > 0 {
                    hello[16..40].copy_from_slice(&fresh[16..40]);
                }
                let mut none = |_: Caller<'_>, _: &[u8]| unreachable!("the application hears of it");
                endpoint.handle_datagram(pair.now, from, &mut hello, &mut none);
                if let Some((_, answer)) = endpoint.poll_transmit() {
                    assert_eq!(kind(&answer), 1, "a cookie");
                    fresh = answer;
                }
            }
            assert_eq!((endpoint.connections(), endpoint.poll_event()), (0, None));
        }
    }
}

/// The same from the caller's own address, while its cookie lives, once the connection is over: it is older than what was
/// taken.
#[test]
fn a_hello_is_taken_once() {
    for configs in all_keys() {
        let (mut pair, a, _) = Pair::connected(configs);
        let second = |(from_caller, bytes): &&(bool, Vec<u8>)| *from_caller && has_cookie(bytes);
        let recorded = pair.log.iter().find(second).unwrap().1.clone();
        pair.a.close(pair.now, a, 0, "");
        pair.run(Span::from_secs(5), |_, _| true);
        assert_eq!(pair.b.connections(), 0);
        let before = pair.b.refused().replayed;
        for _ in 0..100 {
            assert_eq!(ask(&mut pair.b, pair.now, caller(), &recorded).map(|answer| kind(&answer)), Some(1));
        }
        assert_eq!((pair.b.connections(), pair.b.refused().replayed - before), (0, 100));
    }
}

/// A hello that a later one of the same caller has overtaken is not taken; its caller begins anew, and gets through.
#[test]
fn overtaken_callers_begin_anew() {
    for configs in all_keys() {
        let mut pair = Pair::new(configs);
        let slow = pair.a.connect(pair.now, called(), b"opening").unwrap();
        let mut held = Vec::new();
        pair.settle(|from_caller, bytes| {
            let hold = from_caller && has_cookie(bytes);
            held.extend(hold.then(|| bytes.to_vec()));
            !hold
        });
        let fast = pair.a.connect(pair.now, called(), b"opening").unwrap();
        pair.settle(|_, _| true);
        assert_eq!(pair.events_a, [(fast, Event::Connected { answer: b"answer".to_vec() })]);
        pair.hear_b(caller(), &held[0]);
        assert_eq!((pair.b.connections(), pair.b.refused().replayed), (1, 1));
        pair.settle(|_, _| true);
        assert_eq!(pair.events_a[1..], [(slow, Event::Connected { answer: b"answer".to_vec() })]);
    }
}

/// Strangers who begin handshakes from a thousand addresses and leave them fill half the places: whoever has proven itself
/// before keeps its own, and so does a stranger who holds one place where another holds many.
#[test]
fn strangers_do_not_keep_out_who_is_known() {
    let (mut pair, ..) = Pair::connected((preshared(), preshared()));
    let mut strangers = Endpoint::new(Config { max_connections: 10_000, ..preshared() }, [8; 32]);
    let of_known = second_hello(&mut pair.a, &mut pair.b, pair.now, caller());
    let welcome = ask(&mut pair.b, pair.now, caller(), &of_known).unwrap();
    for number in 0..500 {
        let hello = second_hello(&mut strangers, &mut pair.b, pair.now, address(number));
        ask(&mut pair.b, pair.now, address(number), &hello);
        assert!(pair.b.connections() <= 2 + 32, "{}", pair.b.connections());
    }
    assert_eq!(ask(&mut pair.b, pair.now, caller(), &of_known), Some(welcome), "its place is kept");

    let mut endpoint = Endpoint::new(preshared(), [9; 32]);
    let hello = second_hello(&mut strangers, &mut endpoint, pair.now, address(1000));
    let welcome = ask(&mut endpoint, pair.now, address(1000), &hello).unwrap();
    for number in 0..600 {
        pair.now = pair.now.after(Span::from_ms(1));
        let from = address(2000 + number % 3);
        let hello = second_hello(&mut strangers, &mut endpoint, pair.now, from);
        ask(&mut endpoint, pair.now, from, &hello);
    }
    assert_eq!(ask(&mut endpoint, pair.now, address(1000), &hello), Some(welcome), "others hold more");
}

/// One address has its share of places, whoever asks from there; beyond it is told to call later, and loses none.
#[test]
fn an_address_has_its_share_of_places() {
    let now = Instant::ZERO.after(Span::from_secs(1));
    let (mut endpoint, mut caller_side) = (Endpoint::new(preshared(), [9; 32]), Endpoint::new(preshared(), [8; 32]));
    let hellos: Vec<Vec<u8>> = (0..100).map(|_| second_hello(&mut caller_side, &mut endpoint, now, caller())).collect();
    let answers: Vec<u8> =
        hellos.iter().map(|hello| kind(&ask(&mut endpoint, now, caller(), hello).unwrap())).collect();
    let expected: Vec<u8> = (0..100).map(|number| if number < 16 { 2 } else { 3 }).collect();
    assert_eq!((answers, endpoint.connections()), (expected, 16));
    assert_eq!(kind(&ask(&mut endpoint, now, caller(), &hellos[0]).unwrap()), 2, "the first is there still");
}

/// Who sends garbage spends a budget of its own: another stranger's handshake is looked at. Many such sources spend that
/// of all strangers, and a peer that has proven itself is looked at still.
#[test]
fn garbage_is_charged_to_its_source() {
    let (mut pair, ..) = Pair::connected((preshared(), preshared()));
    let mut intruder =
        Endpoint::new(Config { keys: Keys::Preshared([1; 32]), max_connections: 16_000, ..preshared() }, [7; 32]);
    let mut stranger = Endpoint::new(preshared(), [8; 32]);
    for _ in 0..2000 {
        let garbage = second_hello(&mut intruder, &mut pair.b, pair.now, address(1));
        assert_eq!(ask(&mut pair.b, pair.now, address(1), &garbage), None);
    }
    assert_eq!(pair.b.refused().forged, 50);
    let hello = second_hello(&mut stranger, &mut pair.b, pair.now, address(2));
    assert_eq!(ask(&mut pair.b, pair.now, address(2), &hello).map(|answer| kind(&answer)), Some(2), "welcome");
    for number in 0..2000 {
        let from = address(100 + number % 100);
        let garbage = second_hello(&mut intruder, &mut pair.b, pair.now, from);
        assert_eq!(ask(&mut pair.b, pair.now, from, &garbage), None);
    }
    assert!(pair.b.refused().forged <= 1000);
    let hello = second_hello(&mut pair.a, &mut pair.b, pair.now, caller());
    assert_eq!(ask(&mut pair.b, pair.now, caller(), &hello).map(|answer| kind(&answer)), Some(2), "welcome");
}

/// A thousand calls of one address at once find no room, call again, and all get through.
#[test]
fn who_finds_no_room_calls_again() {
    let few = Config { max_connections: 40, max_per_peer: 32, ..preshared() };
    let mut pair = Pair::new((preshared(), few));
    for _ in 0..1000 {
        pair.a.connect(pair.now, called(), b"").unwrap();
    }
    let (mut connected, mut busy) = (0, 0);
    for _ in 0..600 {
        pair.run(Span::from_ms(100), |_, bytes| {
            busy += u32::from(kind(bytes) == 3);
            true
        });
        for (connection, event) in std::mem::take(&mut pair.events_a) {
            assert!(matches!(event, Event::Connected { .. }), "{event:?}");
            connected += 1;
            pair.a.close(pair.now, connection, 0, "");
        }
        pair.log.clear();
    }
    assert_eq!(connected, 1000);
    assert!(busy > 100, "{busy}");
}

/// A host with the same key cannot end a connection of another: its resets are not believed.
#[test]
fn another_host_cannot_reset() {
    let here = Config { host: [1; 32], ..preshared() };
    let (mut pair, a, _) = Pair::connected((preshared(), here.clone()));
    let there = pair.packet(a, 1);
    let mut other = Endpoint::new(Config { host: [2; 32], ..preshared() }, [8; 32]);
    let reset = ask(&mut other, pair.now, caller(), &there).unwrap();
    pair.hear_a(called(), &reset);
    assert_eq!((&pair.events_a[..], pair.a.refused().forged), (&[][..], 1));
    let reset = ask(&mut Endpoint::new(here, [9; 32]), pair.now, caller(), &there).unwrap();
    pair.hear_a(called(), &reset);
    assert_eq!(pair.events_a, [(a, Event::Closed(Closed::Reset))]);
}

/// Where `endpoint` sends what it has to say to `connection`'s peer.
fn destination(endpoint: &mut Endpoint, connection: ConnectionId) -> SocketAddr {
    endpoint.notify(connection, b"where");
    let last = std::iter::from_fn(|| endpoint.poll_transmit()).last();
    last.expect("it says something").0
}

/// A caller that is heard from a new address is asked there, by less than it sent; only once it has answered from there the
/// rest follows. So it goes on, from one address to the next and back.
#[test]
fn a_connection_survives_a_new_address() {
    for configs in all_keys().into_iter().skip(1) {
        let (mut pair, a, b) = Pair::connected(configs);
        for turn in 1..4 {
            let elsewhere = if turn == 3 { caller() } else { address(turn) };
            pair.now = pair.now.after(Span::from_secs(1));
            let before = pair.b.peer(b).unwrap();
            let packet = pair.packet(a, turn);
            pair.hear_b(elsewhere, &packet);
            assert_eq!(pair.packets_b.len(), turn as usize, "what is sealed counts from everywhere");
            let (to, challenge) = pair.b.poll_transmit().unwrap();
            assert!(to == elsewhere && challenge.len() < 3 * packet.len());
            assert_eq!(pair.b.poll_transmit(), None);
            assert_eq!(destination(&mut pair.b, b), before, "nothing is proven yet");
            pair.hear_a(called(), &challenge);
            // It learns that its path is another one, once, unless only its port is.
            let own = if before.ip() == elsewhere.ip() { vec![] } else { vec![(a, Event::OwnMove)] };
            assert_eq!(std::mem::take(&mut pair.events_a), own);
            let (to, response) = pair.a.poll_transmit().unwrap();
            assert_eq!(to, called());
            pair.hear_b(elsewhere, &response);
            assert_eq!(pair.events_b.drain(..).collect::<Vec<_>>(), [(b, Event::Moved { to: elsewhere })]);
            assert_eq!((pair.b.peer(b), destination(&mut pair.b, b)), (Some(elsewhere), elsewhere));
        }
        assert_eq!((pair.b.refused().stray, pair.b.refused().forged, pair.b.refused().replayed), (0, 0, 0));
    }
}

/// A caller that gets a new address before the other side has heard it confirm the connection still gets it: it has shown
/// that it has the keys, and is asked at the new address like any other that moves.
#[test]
fn a_caller_may_move_before_its_connection_counts() {
    for configs in all_keys().into_iter().skip(1) {
        let mut pair = Pair::new(configs);
        let a = pair.a.connect(pair.now, called(), b"opening").unwrap();
        // Sealed datagrams are lost until it has moved.
        pair.settle(|from_caller, bytes| !from_caller || kind(bytes) != 5);
        assert!(pair.events_b.is_empty() && pair.events_a.len() == 1);
        let elsewhere = address(1);
        pair.a.ping(a);
        let (_, ping) = pair.a.poll_transmit().unwrap();
        pair.hear_b(elsewhere, &ping);
        let [(b, Event::Accepted { from, .. })] = pair.events_b[..] else { panic!("{:?}", pair.events_b) };
        assert_eq!(from, caller(), "nothing is proven yet");
        let (to, challenge) = pair.b.poll_transmit().unwrap();
        assert!(to == elsewhere && challenge.len() < 3 * ping.len());
        pair.hear_a(called(), &challenge);
        let response = std::iter::from_fn(|| pair.a.poll_transmit()).last().unwrap().1;
        pair.hear_b(elsewhere, &response);
        assert_eq!(pair.b.peer(b), Some(elsewhere));
    }
}

/// Who was called asks a silent caller for signs of life by itself, three times before the idle timeout, from when the connection
/// stands: it need not wait until an unconfirmed one would have been forgotten.
#[test]
fn who_was_called_asks_for_signs_of_life() {
    for idle_timeout in [Span::from_secs(30), Span::from_secs(2)] {
        for (a, b) in all_keys() {
            let (mut pair, ..) = Pair::connected((a, Config { idle_timeout, ..b }));
            pair.log.clear();
            pair.run(Span::from_ps(idle_timeout.as_ps() / 10 * 9), |from_caller, _| !from_caller);
            assert_eq!(pair.log.iter().filter(|(from_caller, _)| !from_caller).count(), 3, "{idle_timeout:?}");
        }
    }
}

/// A caller that was welcomed, and then not heard for almost as long as it waits for a sign of life itself, still gets its
/// connection, from its old address or a new one.
#[test]
fn a_caller_that_is_heard_late_has_its_connection() {
    for configs in all_keys() {
        let sealed = !matches!(configs.0.keys, Keys::Plain);
        for from in [Some(caller()), sealed.then(|| address(1))].into_iter().flatten() {
            let mut pair = Pair::new(configs.clone());
            let a = pair.a.connect(pair.now, called(), b"opening").unwrap();
            let mut welcomed = false;
            pair.run(Span::from_secs(28), |from_caller, bytes| {
                let passes = !welcomed;
                welcomed |= !from_caller && kind(bytes) == 2;
                passes
            });
            assert_eq!(pair.events_a, [(a, Event::Connected { answer: b"answer".to_vec() })]);
            assert_eq!(pair.events_b, []);
            pair.a.ping(a);
            let (_, ping) = pair.a.poll_transmit().unwrap();
            pair.hear_b(from, &ping);
            assert!(matches!(pair.events_b[..], [(_, Event::Accepted { .. })]), "{from}: {:?}", pair.events_b);
        }
    }
}

/// Who sees packets and sends them on from an address of their own is asked, and cannot answer: not with the challenge, nor
/// with the answer that the caller gives, which comes from the caller's address. A packet that overtook others moves
/// nothing, and however many addresses there are, there are five questions a second.
#[test]
fn copies_from_elsewhere_move_nothing() {
    let (mut pair, a, b) = Pair::connected((preshared(), preshared()));
    let attacker = address(66);
    let (first, second) = (pair.packet(a, 1), pair.packet(a, 2));
    pair.hear_b(caller(), &second);
    pair.hear_b(attacker, &first);
    assert_eq!(pair.b.poll_transmit(), None, "it is not the newest");
    let third = pair.packet(a, 3);
    pair.hear_b(attacker, &third);
    let (to, challenge) = pair.b.poll_transmit().unwrap();
    assert_eq!(to, attacker);
    pair.hear_b(attacker, &challenge);
    assert_eq!(pair.b.refused().stray, 1, "it is the caller's");
    assert!(pair.b.poll_transmit().is_none_or(|(_, answer)| kind(&answer) == 4), "a reset at most");
    pair.hear_a(called(), &challenge);
    let (_, response) = pair.a.poll_transmit().unwrap();
    pair.hear_b(caller(), &response);
    pair.hear_b(attacker, &response);
    assert_eq!((pair.b.refused().replayed, pair.b.peer(b)), (1, Some(caller())));
    assert_eq!(destination(&mut pair.b, b), caller());
    // The copies arrive first, each from another address.
    let mut asked = 0;
    for number in 0..1000 {
        pair.now = pair.now.after(Span::from_ms(1));
        let packet = pair.packet(a, 10 + number);
        pair.hear_b(address(100 + number), &packet);
        pair.hear_b(caller(), &packet);
        asked += std::iter::from_fn(|| pair.b.poll_transmit()).count();
    }
    assert!((4..=6).contains(&asked), "{asked} questions");
    assert_eq!((pair.b.peer(b), pair.events_b.len()), (Some(caller()), 0));
    // What is not sealed by the peer is not even a question.
    let packet = packet(&mut pair.b, b, 5);
    pair.hear_b(attacker, &packet);
    assert!(pair.b.poll_transmit().is_none_or(|(_, answer)| kind(&answer) == 4), "a reset at most");
    assert_eq!(pair.b.peer(b), Some(caller()));
    // Copies of what who was called says move nothing either.
    pair.hear_a(attacker, &packet);
    let (to, challenge) = pair.a.poll_transmit().unwrap();
    assert!(to == attacker && challenge.len() < 3 * packet.len());
    pair.hear_a(attacker, &challenge);
    assert_eq!((pair.a.peer(a), destination(&mut pair.a, a)), (Some(called()), called()));
}

/// Who was called may move as well: the caller asks it at its new address, by less than it sent, and follows once it has
/// answered from there. A caller that has not finished its handshake follows nobody.
#[test]
fn who_was_called_may_move() {
    for configs in all_keys().into_iter().skip(1) {
        let (mut pair, a, b) = Pair::connected(configs.clone());
        for turn in 1..4 {
            let elsewhere = if turn == 3 { called() } else { address(turn) };
            pair.now = pair.now.after(Span::from_secs(1));
            let before = pair.a.peer(a).unwrap();
            let packet = packet(&mut pair.b, b, turn);
            pair.hear_a(elsewhere, &packet);
            assert_eq!(pair.packets_a.len(), turn as usize, "what is sealed counts from everywhere");
            let (to, challenge) = pair.a.poll_transmit().unwrap();
            assert!(to == elsewhere && challenge.len() < 3 * packet.len());
            assert_eq!(destination(&mut pair.a, a), before, "nothing is proven yet");
            pair.hear_b(caller(), &challenge);
            let own = if before.ip() == elsewhere.ip() { vec![] } else { vec![(b, Event::OwnMove)] };
            assert_eq!(std::mem::take(&mut pair.events_b), own);
            let (to, response) = pair.b.poll_transmit().unwrap();
            assert_eq!(to, caller());
            pair.hear_a(elsewhere, &response);
            assert_eq!(std::mem::take(&mut pair.events_a), [(a, Event::Moved { to: elsewhere })]);
            assert_eq!((pair.a.peer(a), destination(&mut pair.a, a)), (Some(elsewhere), elsewhere));
        }
        let mut pair = Pair::new(configs);
        let a = pair.a.connect(pair.now, called(), b"opening").unwrap();
        let welcome = std::cell::RefCell::new(Vec::new());
        pair.settle(|from_caller, bytes| {
            let is_welcome = !from_caller && kind(bytes) == 2;
            if is_welcome {
                welcome.borrow_mut().extend_from_slice(bytes);
            }
            !is_welcome
        });
        let welcome = welcome.into_inner();
        assert!(!welcome.is_empty());
        pair.hear_a(address(1), &welcome);
        assert_eq!((pair.events_a.len(), pair.a.peer(a)), (0, Some(called())));
    }
}

/// Answers to strangers that wait to be sent leave room for what connections say.
#[test]
fn strangers_do_not_crowd_out_connections() {
    let (mut pair, _, b) = Pair::connected((preshared(), preshared()));
    for number in 0..5000 {
        let header = HelloHeader { security: Security::Preshared, initiator: number, nonce: [1; 8], cookie: [0; 24] };
        let mut hello = super::datagram::first_hello(&header);
        pair.b.handle_datagram(pair.now, address(number), &mut hello, &mut |_, _| unreachable!());
    }
    pair.b.notify(b, b"here");
    let waiting: Vec<_> = std::iter::from_fn(|| pair.b.poll_transmit()).collect();
    assert!(waiting.len() < 1000 && waiting.last().unwrap().0 == caller(), "{}", waiting.len());
}

/// A peer with the key gets its slots and no more, and is told.
#[test]
fn connections_per_peer_are_bounded() {
    let mut pair = Pair::new((preshared(), Config { max_per_peer: 2, ..preshared() }));
    for _ in 0..3 {
        pair.a.connect(pair.now, called(), b"").unwrap();
    }
    pair.run(Span::from_secs(61), |_, _| true);
    let busy = |event: &&(ConnectionId, Event)| event.1 == Event::Closed(Closed::Busy);
    assert_eq!((pair.events_b.len(), pair.events_a.iter().filter(busy).count()), (2, 1));
}

/// A peer with a key of its own gets no more slots from many addresses, so that another peer finds room.
#[test]
fn many_addresses_give_a_key_no_more_connections() {
    let [own, greedy, other] = [1, 2, 3].map(|seed| key_pair(Random::from_seed([seed; 32])));
    let keys = |private, peers: &[[u8; KEY_BYTES]]| Keys::Static {
        private,
        peers: peers.iter().map(|key| anyone(*key)).collect(),
    };
    let called_side =
        Config { keys: keys(own.0, &[greedy.1, other.1]), max_connections: 4, max_per_peer: 2, ..Config::default() };
    let mut pair = Pair::new((preshared(), called_side));
    let mut is_accepted = |private, host: u8| {
        let config = Config { keys: keys(private, &[own.1]), accepts: false, ..Config::default() };
        let mut caller = Endpoint::new(config, [host; 32]);
        caller.connect(pair.now, called(), b"").unwrap();
        let from = SocketAddr::from(([192, 0, 2, host], 1000));
        while let Some((_, bytes)) = caller.poll_transmit() {
            pair.hear_b(from, &bytes);
            while let Some((_, mut bytes)) = pair.b.poll_transmit() {
                caller.handle_datagram(pair.now, called(), &mut bytes, &mut |_, _| Ok(Vec::new()));
            }
        }
        pair.events_b
            .iter()
            .any(|(_, event)| matches!(event, Event::Accepted { from: accepted, .. } if *accepted == from))
    };
    assert_eq!([11, 12, 13, 14, 15].map(|host| is_accepted(greedy.0, host)), [true, true, false, false, false]);
    assert_eq!([21, 22, 23].map(|host| is_accepted(other.0, host)), [true, true, false]);
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
            // It is over once the other side has forgotten it, which happens if that never hears a sign of life.
            let open = matches!(pair.events_a.last(), Some((_, Event::Connected { .. })));
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
                    let version = if version < 200 { VERSION } else { version & 0xf };
                    bytes[..4].copy_from_slice(&[0x51, version << 4 | kind, security, 0]);
                }
                let length = bytes.len();
                endpoint.handle_datagram(Instant::ZERO, caller(), &mut bytes, &mut |_, _| Ok(vec![0; 900]));
                let answered: usize = std::iter::from_fn(|| endpoint.poll_transmit()).map(|(_, out)| out.len()).sum();
                prop_assert!(answered == 0 || answered < length, "{answered} bytes for {length}");
                prop_assert_eq!(endpoint.connections(), 0);
            }
        }
    }
}

/// A side with the keys of two others knows which of them calls, and by whose name it calls.
#[test]
fn peers_are_told_apart() {
    let pairs = [1, 2, 3].map(|seed| key_pair(Random::from_seed([seed; 32])));
    let named = |at: usize, name: &str| {
        Arc::new(Peer { key: pairs[at].1, name: Some(name.to_owned()), rights: Rights::default() })
    };
    let keys = |own: usize, peers| Keys::Static { private: pairs[own].0, peers };
    let called_keys = keys(2, vec![named(0, "west"), named(1, "east")]);
    for (own, name) in [(0, "west"), (1, "east")] {
        // The caller knows another one, too: it says whom it means.
        let caller_keys = keys(own, vec![named(1 - own, "other"), named(2, "called")]);
        let caller_config =
            Config { keys: caller_keys, called: vec![(called(), "called".to_owned())], ..Config::default() };
        let mut pair = Pair::new((caller_config, Config { keys: called_keys.clone(), ..Config::default() }));
        pair.a.connect(pair.now, called(), b"opening").unwrap();
        pair.settle(|_, _| true);
        let [(_, Event::Accepted { caller: Some(peer), .. })] = &pair.events_b[..] else { panic!("nobody") };
        assert_eq!(peer.name.as_deref(), Some(name));
    }
}

/// A caller that may do less than when it called is cut off, and hears why; with as many rights or more it stays.
#[test]
fn a_right_that_is_taken_away_ends_its_connections() {
    let [.., configs] = all_keys();
    let (mut pair, a, b) = Pair::connected(configs.clone());
    let Keys::Static { private, peers } = &configs.1.keys else { unreachable!("the third kind") };
    let with = |rights| {
        let peer = Peer { rights, ..(*peers[0]).clone() };
        Keys::Static { private: *private, peers: vec![Arc::new(peer)] }
    };
    pair.b.set_keys(pair.now, with(Rights::default()), 1).unwrap();
    assert_eq!(pair.b.poll_event(), None);
    // Its own call to the peer needs no right.
    let from_b = pair.b.connect(pair.now, address(9), b"opening").unwrap();
    let without_fetch = Rights { fetch: false, ..Rights::default() };
    pair.b.set_keys(pair.now, with(without_fetch.clone()), 1).unwrap();
    assert_eq!(pair.b.poll_event(), Some((b, Event::Closed(Closed::Restricted))));
    assert_eq!(pair.b.poll_event(), None);
    assert_eq!(pair.b.peer(from_b), Some(address(9)));
    pair.settle(|_, _| true);
    let [(closed, Event::Closed(Closed::ByPeer { code: 1, reason }))] = &pair.events_a[..] else {
        panic!("{:?}", pair.events_a)
    };
    assert_eq!((*closed, reason.as_str()), (a, "the key has fewer rights now"));
    for (rights, others, covered) in [
        (Rights::default(), without_fetch.clone(), true),
        (without_fetch, Rights::default(), false),
        (Rights { send: None, ..Rights::default() }, Rights { send: None, ..Rights::default() }, true),
        (Rights { send: None, ..Rights::default() }, Rights::default(), false),
        // What was begun goes into the other folder.
        (Rights::default(), Rights { send: Some("a".into()), ..Rights::default() }, false),
        (Rights { open: false, ..Rights::default() }, Rights::default(), false),
    ] {
        assert_eq!(rights.cover(&others), covered, "{rights:?} {others:?}");
    }
}

/// Who has no line in the new keys is told so and gone; the others stay, and come again.
#[test]
fn a_key_that_is_taken_away_ends_its_connections() {
    let [.., configs] = all_keys();
    let (mut pair, a, b) = Pair::connected(configs.clone());
    let Keys::Static { private, peers } = &configs.1.keys else { unreachable!("the third kind") };
    let another = anyone(key_pair(Random::from_seed([9; 32])).1);
    let with = |peers: Vec<Arc<Peer>>| Keys::Static { private: *private, peers };
    let more = with(vec![peers[0].clone(), another.clone()]);
    pair.b.set_keys(pair.now, more, 1).unwrap();
    pair.settle(|_, _| true);
    assert_eq!(pair.b.poll_event(), None, "a new line ends nothing");
    pair.b.set_keys(pair.now, with(vec![another]), 1).unwrap();
    assert_eq!(pair.b.poll_event(), Some((b, Event::Closed(Closed::Revoked))));
    pair.settle(|_, _| true);
    let [(closed, Event::Closed(Closed::ByPeer { code: 1, reason }))] = &pair.events_a[..] else {
        panic!("{:?}", pair.events_a)
    };
    assert_eq!((*closed, reason.as_str()), (a, "the key is not taken any more"));
    pair.events_a.clear();
    pair.a.connect(pair.now, called(), b"opening").unwrap();
    pair.settle(|_, _| true);
    assert_eq!((pair.events_a.len(), pair.events_b.len()), (0, 0), "it is a stranger now");
    let own = Keys::Static { private: [7; 32], peers: peers.clone() };
    for other in [Keys::Plain, Keys::Preshared([1; 32]), own] {
        assert_eq!(pair.b.set_keys(pair.now, other, 1), Err(KeyChangeError));
    }
}
