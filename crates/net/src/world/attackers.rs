//! Who wishes the others ill: somebody without the key who sees every datagram and writes from any address, and somebody
//! with the key who keeps connections idle or lies about what has arrived.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pliant_proto::packet::{Body, Packet, SackBlocks};
use pliant_proto::rng::Stream;
use pliant_proto::time::{Instant, Span};
use pliant_proto::transport::any::{AnyRequest, AnyTransport};
use pliant_proto::transport::{Command, Deadline, Statistics, Transport};

use super::here::SimulatedSocket;
use super::schedule::World;
use crate::clock::Clock;
use crate::connection::{Caller, Closed, Config, ConnectionId, Endpoint, Event, Keys};
use crate::driver::{Application, ConnectionHandler, Driver, PayloadLocation, Session};
use crate::flow::{Answer, Protocol};
use crate::seam;
use crate::socket::Socket;
use crate::transfer::Settings;
use crate::transfer::verdict::AT_WORK;

/// Kinds of datagrams in their second byte (crate::connection).
const HELLO: u8 = 0;
const COOKIE: u8 = 1;
const WELCOME: u8 = 2;
const RESET: u8 = 4;
pub(super) const SEALED: u8 = 5;
/// Bytes of a hello before its message, of one that has none yet, and where the cookie lies.
const HELLO_BYTES: usize = 40;
const FIRST_HELLO_BYTES: usize = 64;
const COOKIE_AT: usize = 16;

/// Sources to which no answer can be sent.
const NOWHERE: [&str; 4] = ["10.0.0.9:0", "255.255.255.255:9", "192.0.2.1:9", "198.51.100.1:9"];

/// Kind of a datagram of the connection layer.
pub(super) fn kind(bytes: &[u8]) -> Option<u8> {
    (bytes.len() > 8 && bytes[0] == 0x51).then(|| bytes[1] & 0xf)
}

/// What an attacker has achieved that must not be.
pub(super) type Gains = Arc<Mutex<Vec<String>>>;

/// Sees everything that is sent, has no key, and writes from every address.
pub(super) struct Observer {
    pub(super) random: Stream,
    /// The receiver that is attacked, and another one with the same key.
    pub(super) receiver: SocketAddr,
    pub(super) other: SocketAddr,
    pub(super) gains: Gains,
}

type Seen = (SocketAddr, SocketAddr, Vec<u8>);

impl Observer {
    /// Goes on until the world ends.
    pub(super) fn run(mut self, world: &Arc<World>) {
        world.watch();
        let own = SimulatedSocket::bind(([0, 0, 0, 0], 0).into()).expect("a port is free").expect("it is in a world");
        let mut hellos: Vec<Vec<u8>> = Vec::new();
        loop {
            seam::sleep(Duration::from_micros(200 + self.random.below(5_000)));
            let seen = world.take_seen();
            for (_, _, bytes) in &seen {
                if kind(bytes) == Some(HELLO) && bytes.len() > FIRST_HELLO_BYTES {
                    hellos.push(bytes.clone());
                }
            }
            self.pass_resets_on(world, &seen);
            for _ in 0..3 {
                if seen.is_empty() {
                    break;
                }
                let chosen = seen[self.random.below(seen.len() as u64) as usize].clone();
                self.harass(world, chosen);
            }
            if let Some(hello) = hellos.get(self.random.below(hellos.len().max(1) as u64) as usize) {
                self.repeat_hello(world, &own, hello);
            }
            self.hear(&own, &hellos);
        }
    }

    /// The other receiver does not know the connection, and says so; the sender is to take that for the receiver's word.
    fn pass_resets_on(&mut self, world: &World, seen: &[Seen]) {
        for (from, to, bytes) in seen {
            if kind(bytes) == Some(RESET) && *from == self.other {
                world.inject(self.receiver, *to, bytes);
            }
        }
    }

    fn harass(&mut self, world: &World, (from, to, bytes): Seen) {
        if from == self.other || to == self.other {
            return;
        }
        let mut changed = bytes.clone();
        match self.random.below(8) {
            0 => world.inject(from, to, &bytes),
            1 => {
                changed.truncate(self.random.below(bytes.len() as u64 + 1) as usize);
                world.inject(from, to, &changed);
            }
            // What nobody has signed can be changed by whoever sees it: a handshake is only delayed.
            2 if kind(&bytes) == Some(SEALED) => {
                let bit = self.random.below(bytes.len() as u64 * 8) as usize;
                changed[bit / 8] ^= 1 << (bit % 8);
                world.inject(from, to, &changed);
            }
            3 => world.inject(to, from, &bytes),
            4 if kind(&bytes) == Some(HELLO) || kind(&bytes) == Some(SEALED) => {
                let nowhere = NOWHERE[self.random.below(4) as usize].parse().expect("an address");
                world.inject(nowhere, to, &bytes);
            }
            5 if kind(&bytes) == Some(SEALED) => {
                let token: Vec<u8> = (0..16).map(|_| self.random.below(256) as u8).collect();
                world.inject(
                    to,
                    from,
                    &[&[bytes[0], bytes[1] & 0xf0 | RESET, 0, 0], &bytes[4..8], &token[..]].concat(),
                );
            }
            6 if kind(&bytes) == Some(SEALED) && to == self.receiver => world.inject(from, self.other, &bytes),
            7 => {
                let noise: Vec<u8> = (0..self.random.below(1500)).map(|_| self.random.below(256) as u8).collect();
                world.inject(from, to, &noise);
            }
            _ => {}
        }
    }

    /// Asks for a cookie of its own for somebody else's hello, and repeats that.
    fn repeat_hello(&mut self, world: &World, own: &SimulatedSocket, hello: &[u8]) {
        let mut asks = hello[..FIRST_HELLO_BYTES].to_vec();
        asks[COOKIE_AT..].fill(0);
        // A destination that takes nothing is no concern of its.
        let _ = own.send(self.receiver, 0, &asks, asks.len());
        world.inject(own.address(), self.receiver, hello);
    }

    fn hear(&mut self, own: &SimulatedSocket, hellos: &[Vec<u8>]) {
        for (from, _, answer) in own.receive(100) {
            match kind(&answer) {
                Some(COOKIE) if answer.len() == HELLO_BYTES => {
                    let of = hellos.iter().find(|hello| hello[4..16] == answer[4..16]);
                    if let Some(hello) = of {
                        let again = [&hello[..COOKIE_AT], &answer[COOKIE_AT..], &hello[HELLO_BYTES..]].concat();
                        let _ = own.send(self.receiver, 0, &again, again.len());
                    }
                }
                Some(WELCOME) if from == self.receiver && hellos.iter().any(|hello| hello[4..8] == answer[4..8]) => {
                    let mut gains = self.gains.lock().expect("nobody panics with it");
                    gains.push("somebody else's hello was welcomed".into());
                }
                _ => {}
            }
        }
    }
}

/// Has the key and calls again and again, but sends nothing.
pub(super) struct Idler {
    pub(super) receiver: SocketAddr,
    pub(super) keys: Keys,
    pub(super) opening: Vec<u8>,
    pub(super) connections: usize,
}

struct Nothing;

impl Application for Nothing {
    fn read(&mut self, _: PayloadLocation, _: &mut [u8]) -> std::io::Result<()> {
        Ok(())
    }

    fn write(&mut self, _: PayloadLocation, _: &[u8]) -> std::io::Result<()> {
        Ok(())
    }

    fn event(&mut self, _: pliant_proto::transport::Event<AnyRequest>) -> std::io::Result<()> {
        Ok(())
    }
}

type IdleSession = Session<AnyTransport, Nothing>;

impl ConnectionHandler<AnyTransport, Nothing> for Nothing {
    fn answer(&mut self, _: Caller<'_>, _: &[u8]) -> Result<Vec<u8>, String> {
        Err("nobody calls".into())
    }

    fn open(&mut self, _: Instant, _: ConnectionId, _: Event) -> Option<IdleSession> {
        Some(Session::new(Nothing))
    }

    fn closed(&mut self, _: ConnectionId, _: Option<IdleSession>, _: Closed) {}
}

/// A receiving transport whose acknowledgements run ahead of what has come, by so many bytes.
pub(super) struct Ahead(AnyTransport, u64);

impl Transport for Ahead {
    type Request = <AnyTransport as Transport>::Request;
    type Answer = <AnyTransport as Transport>::Answer;

    fn handle_packet(&mut self, now: Instant, packet: &Packet, sack: &SackBlocks) {
        self.0.handle_packet(now, packet, sack);
    }

    fn handle_command(&mut self, now: Instant, command: Command<Self::Answer>) {
        self.0.handle_command(now, command);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.0.handle_timeout(now);
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Packet> {
        let packet = self.0.poll_transmit(now)?;
        let body = match packet.body() {
            Body::Ack { ack, echo, window, flags } if self.1 > 0 => {
                Body::Ack { ack: ack + self.1, echo, window, flags }
            }
            _ => return Some(packet),
        };
        Some(Packet::new(packet.traffic_class, packet.wire_bytes, body).to(packet.to))
    }

    fn sack_blocks(&self) -> &SackBlocks {
        self.0.sack_blocks()
    }

    fn poll_event(&mut self) -> Option<pliant_proto::transport::Event<Self::Request>> {
        self.0.poll_event()
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        self.0.poll_timeout()
    }

    fn statistics(&self) -> Statistics {
        self.0.statistics()
    }
}

/// Receives with the key whatever is sent by TCP, and says nothing of it but what its transport does, or that it is at work.
pub(super) struct Liar {
    pub(super) address: SocketAddr,
    pub(super) settings: Settings,
    /// So many more bytes are acknowledged.
    pub(super) ahead: u64,
    /// What it says that it has already.
    pub(super) note: u64,
    /// It says every second that it is at work.
    pub(super) at_work: bool,
}

impl ConnectionHandler<Ahead, Nothing> for Liar {
    fn answer(&mut self, _: Caller<'_>, _: &[u8]) -> Result<Vec<u8>, String> {
        Ok(Answer { protocol: Protocol::Tcp, unix_ns: 0, note: self.note }.encode())
    }

    fn open(&mut self, _: Instant, _: ConnectionId, event: Event) -> Option<Session<Ahead, Nothing>> {
        let Event::Accepted { from, .. } = event else { return None };
        let receiver = self.settings.flow.receiver(Protocol::Tcp, self.settings.path_to(from), 1200, 1);
        Some(Session::new(Nothing).receiving(Ahead(receiver, self.ahead)))
    }

    fn closed(&mut self, _: ConnectionId, _: Option<Session<Ahead, Nothing>>, _: Closed) {}
}

impl Liar {
    /// Goes on until the world ends.
    pub(super) fn run(mut self) {
        let socket = Socket::bind(self.address).expect("the port is free");
        let config = Config { keys: self.settings.keys.clone(), ..Config::default() };
        let mut driver = Driver::new(socket, Endpoint::new(config, [8; 32]), Clock::start());
        let mut said_at = driver.now();
        while driver.run_once(&mut self, Duration::from_millis(20)).is_ok() {
            let now = driver.now();
            if self.at_work && now.since(said_at) >= Span::from_secs(1) {
                said_at = now;
                let here: Vec<_> = driver.connections().collect();
                for connection in here {
                    driver.notify(connection, AT_WORK);
                }
            }
        }
    }
}

impl Idler {
    /// Goes on until the world ends.
    pub(super) fn run(self) {
        let socket = Socket::bind(([0, 0, 0, 0], 0).into()).expect("a port is free");
        let config = Config { keys: self.keys, accepts: false, ..Config::default() };
        let mut driver = Driver::new(socket, Endpoint::new(config, [9; 32]), Clock::start());
        let mut called = 0;
        loop {
            if called < self.connections && driver.connect(self.receiver, &self.opening).is_ok() {
                called += 1;
            }
            if driver.run_once(&mut Nothing, Duration::from_millis(20)).is_err() {
                return;
            }
        }
    }
}
