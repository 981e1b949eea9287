//! Callers, two receivers with the same key, and an attacker who sees every datagram, may withhold it, repeat it, change
//! it and send it from any address to anybody, while receivers are restarted and time passes. Whatever the input makes of
//! that: every call is accepted at most once, and only from its own address; nobody is told more bytes than it sent before
//! it has a connection; places are bounded; only a receiver that forgot a connection can reset it.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use pliant_net::connection::{Closed, Config, ConnectionId, Datagram, Endpoint, Event, Keys, VERSION, decode};
use pliant_proto::time::{Instant, Span};

const CALLERS: usize = 3;
const RECEIVERS: usize = 2;
const MAX_CONNECTIONS: usize = 8;
const MAX_PER_ADDRESS: usize = 2;
const LOG: usize = 128;
/// Bytes of a hello before the handshake's message: header, nonce, cookie.
const HELLO_BYTES: usize = 40;
const NONCE: std::ops::Range<usize> = 8..16;
const COOKIE: std::ops::Range<usize> = 16..40;

struct Host {
    endpoint: Endpoint,
    config: Config,
    address: SocketAddr,
    /// Times it was started.
    starts: u8,
    open: Vec<ConnectionId>,
}

impl Host {
    fn new(number: usize, accepts: bool, plain: bool) -> Self {
        let keys = if plain { Keys::Plain } else { Keys::Preshared([7; 32]) };
        let config = Config {
            keys,
            accepts,
            max_connections: MAX_CONNECTIONS,
            max_unconfirmed: 4,
            max_unconfirmed_per_address: MAX_PER_ADDRESS,
            host: [number as u8; 32],
            unix_ns: number as u64 * 1_000_000,
            ..Config::default()
        };
        let endpoint = Endpoint::new(config.clone(), [number as u8; 32]);
        let address = ([192, 0, 2, number as u8], 7410).into();
        Self { endpoint, config, address, starts: 0, open: Vec::new() }
    }

    fn restart(&mut self) {
        self.starts = self.starts.wrapping_add(1);
        let mut seed = [self.address.ip().is_ipv4().into(); 32];
        seed[0] = self.starts;
        self.endpoint = Endpoint::new(self.config.clone(), seed);
        self.open.clear();
    }
}

/// Datagrams: from whom, to whom, and what.
type Sent = (SocketAddr, SocketAddr, Vec<u8>);

struct World {
    plain: bool,
    now: Instant,
    callers: Vec<Host>,
    receivers: Vec<Host>,
    calls: u64,
    /// Calls by their opening, with who made them.
    made: Vec<(u64, SocketAddr)>,
    accepted: BTreeSet<u64>,
    connected: BTreeSet<(SocketAddr, u32)>,
    /// What each caller's connection is to its receiver.
    remotes: Vec<(SocketAddr, ConnectionId, SocketAddr, u32)>,
    wire: Vec<Sent>,
    log: Vec<Sent>,
}

impl World {
    fn new(plain: bool) -> Self {
        Self {
            plain,
            now: Instant::ZERO.after(Span::from_secs(1)),
            callers: (0..CALLERS).map(|number| Host::new(number + 10, false, plain)).collect(),
            receivers: (0..RECEIVERS).map(|number| Host::new(number + 20, true, plain)).collect(),
            calls: 0,
            made: Vec::new(),
            accepted: BTreeSet::new(),
            connected: BTreeSet::new(),
            remotes: Vec::new(),
            wire: Vec::new(),
            log: Vec::new(),
        }
    }

    fn connect(&mut self, caller: usize, receiver: usize) {
        let to = self.receivers[receiver % RECEIVERS].address;
        let host = &mut self.callers[caller % CALLERS];
        if host.endpoint.connect(self.now, to, &self.calls.to_be_bytes()).is_ok() {
            self.made.push((self.calls, host.address));
            self.calls += 1;
        }
        self.collect();
    }

    /// Takes what hosts have to say.
    fn collect(&mut self) {
        for host in self.callers.iter_mut().chain(&mut self.receivers) {
            while let Some((to, bytes)) = host.endpoint.poll_transmit() {
                self.wire.push((host.address, to, bytes));
            }
        }
        self.wire.truncate(LOG);
    }

    fn deliver(&mut self, (from, to, bytes): Sent) {
        let mut opened = bytes.clone();
        let host = self.callers.iter_mut().chain(&mut self.receivers).find(|host| host.address == to);
        if let Some(host) = host {
            host.endpoint.handle_datagram(self.now, from, &mut opened, &mut |_, opening| Ok(opening.to_vec()));
            assert!(host.endpoint.connections() <= MAX_CONNECTIONS);
            let mut answers = Vec::new();
            while let Some((to, answer)) = host.endpoint.poll_transmit() {
                answers.push((host.address, to, answer));
            }
            // What anybody gets; the rest takes a cookie, or a key.
            let is_answer = |(_, _, answer): &&Sent| {
                let known = decode(answer).expect("hosts send what can be read");
                matches!(known, Datagram::Cookie { .. } | Datagram::Refusal { .. } | Datagram::Reset { .. })
            };
            let told: usize = answers.iter().filter(is_answer).map(|(_, _, answer)| answer.len()).sum();
            assert!(told <= bytes.len(), "{told} bytes for {}", bytes.len());
            self.wire.extend(answers);
            self.wire.truncate(LOG);
        }
        self.log.push((from, to, bytes));
        if self.log.len() > LOG {
            self.log.remove(0);
        }
        self.hear_events();
    }

    fn hear_events(&mut self) {
        for receiver in &mut self.receivers {
            while let Some((connection, event)) = receiver.endpoint.poll_event() {
                match event {
                    Event::Accepted { from, opening, .. } => {
                        receiver.open.push(connection);
                        if !self.plain {
                            let call = u64::from_be_bytes(opening.try_into().expect("as it was said"));
                            assert!(self.made.contains(&(call, from)), "nobody called like that from there");
                            assert!(self.accepted.insert(call), "one call was accepted twice");
                        }
                    }
                    Event::Closed(_) => receiver.open.retain(|open| *open != connection),
                    Event::Connected { .. } => panic!("receivers do not call"),
                    Event::Notice(_) | Event::HostReport(_) | Event::Moved { .. } | Event::OwnMove => {}
                }
            }
        }
        for caller in &mut self.callers {
            while let Some((connection, event)) = caller.endpoint.poll_event() {
                match event {
                    Event::Connected { .. } => {
                        let new = self.connected.insert((caller.address, connection.get()));
                        assert!(new, "connected twice");
                        caller.open.push(connection);
                        let peer = caller.endpoint.peer(connection).expect("it stands");
                        let remote = caller.endpoint.remote(connection).expect("it stands");
                        self.remotes.push((caller.address, connection, peer, remote));
                    }
                    Event::Closed(why) => {
                        caller.open.retain(|open| *open != connection);
                        if why == Closed::Reset && !self.plain {
                            let of = |(address, known, ..): &&(SocketAddr, ConnectionId, SocketAddr, u32)| {
                                *address == caller.address && *known == connection
                            };
                            let (_, _, peer, remote) = self.remotes.iter().find(of).expect("it stood");
                            let receiver =
                                self.receivers.iter().find(|host| host.address == *peer).expect("a receiver");
                            let stands = receiver.open.iter().any(|open| open.get() == *remote);
                            assert!(!stands, "a connection that stands was reset");
                        }
                    }
                    Event::Accepted { .. } => panic!("nobody calls callers"),
                    // The attacker may pass questions and answers on, and be taken for a peer that moves.
                    Event::Notice(_) | Event::HostReport(_) | Event::Moved { .. } | Event::OwnMove => {}
                }
            }
        }
    }

    fn pass(&mut self, span: Span) {
        self.now = self.now.after(span);
        for host in self.callers.iter_mut().chain(&mut self.receivers) {
            host.endpoint.handle_timeout(self.now);
        }
        self.collect();
        self.hear_events();
    }

    /// Lets everything through for a while.
    fn settle(&mut self) {
        for _ in 0..64 {
            if self.wire.is_empty() {
                return;
            }
            let sent = self.wire.remove(0);
            self.deliver(sent);
        }
    }

    fn address(&self, number: usize) -> SocketAddr {
        match number % (CALLERS + RECEIVERS + 2) {
            n if n < CALLERS => self.callers[n].address,
            n if n < CALLERS + RECEIVERS => self.receivers[n - CALLERS].address,
            n => ([198, 51, 100, n as u8], 1).into(),
        }
    }
}

pub(crate) fn check(input: &[u8]) {
    let Some((first, operations)) = input.split_first() else { return };
    let mut world = World::new(first & 1 == 1);
    let mut operations = operations.iter().copied();
    while let Some(operation) = operations.next() {
        let (a, b) = (usize::from(operations.next().unwrap_or(0)), usize::from(operations.next().unwrap_or(0)));
        // The log from its end: what was said last is named by small numbers.
        let logged = |world: &World, number: usize| {
            (!world.log.is_empty()).then(|| world.log[world.log.len() - 1 - number % world.log.len()].clone())
        };
        match operation % 14 {
            0 => world.connect(a, b),
            1 => {
                if !world.wire.is_empty() {
                    let sent = world.wire.remove(a % world.wire.len());
                    world.deliver(sent);
                }
            }
            2 => {
                // Withheld, and known to the attacker.
                if !world.wire.is_empty() {
                    let sent = world.wire.remove(a % world.wire.len());
                    world.log.push(sent);
                }
            }
            3 => {
                if let Some(sent) = logged(&world, a) {
                    world.deliver(sent);
                }
            }
            4 => {
                if let Some((_, to, bytes)) = logged(&world, a) {
                    let from = world.address(b);
                    world.deliver((from, to, bytes));
                }
            }
            5 => {
                if let Some((from, _, bytes)) = logged(&world, a) {
                    let to = world.address(b);
                    world.deliver((from, to, bytes));
                }
            }
            6 => {
                // A hello with another's cookie.
                let (hello, cookie) = (logged(&world, a), logged(&world, b));
                if let (Some((from, to, mut hello)), Some((_, _, cookie))) = (hello, cookie)
                    && hello.len() >= HELLO_BYTES
                    && cookie.len() >= HELLO_BYTES
                {
                    hello[COOKIE].copy_from_slice(&cookie[COOKIE]);
                    if a % 2 == 0 {
                        hello[NONCE].copy_from_slice(&cookie[NONCE]);
                    }
                    world.deliver((from, to, hello));
                }
            }
            7 => world.pass(Span::from_ms(a as u64 * 40)),
            8 => {
                world.receivers[a % RECEIVERS].restart();
            }
            9 => {
                let now = world.now;
                let host = &mut world.callers[a % CALLERS];
                if let Some(connection) = host.open.pop() {
                    host.endpoint.close(now, connection, 0, "");
                    world.collect();
                }
            }
            10 => {
                let receiver = &mut world.receivers[a % RECEIVERS];
                if let Some(connection) = receiver.open.pop() {
                    receiver.endpoint.close(world.now, connection, 0, "");
                    world.collect();
                }
            }
            11 => {
                if let Some((from, to, mut bytes)) = logged(&world, a) {
                    if !bytes.is_empty() {
                        let at = b % bytes.len();
                        bytes[at] ^= 1 << (b % 8);
                    }
                    world.deliver((from, to, bytes));
                }
            }
            12 => {
                // A hello without a cookie, in somebody's name.
                let (from, to) = (world.address(a), world.receivers[b % RECEIVERS].address);
                let header = [0x51, VERSION << 4, u8::from(!world.plain), 0, 0, 0, 0, a as u8];
                world.deliver((from, to, [&header[..], &[0; HELLO_BYTES - 8]].concat()));
            }
            _ => world.settle(),
        }
        world.wire.truncate(LOG);
    }
}
