//! One transport on one UDP socket.
//!
//! The loop is the simulator's with a real clock: what arrived is handled, a deadline that has come is handled, then
//! the transport is drained into batches, and the loop sleeps until the next datagram or deadline.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use pliant_proto::packet::{EndpointId, Packet, SackBlocks, TrafficClass};
use pliant_proto::time::{Instant, Span};
use pliant_proto::transport::{Command, Deadline, Event, Outlet, Transport, drain};
use pliant_proto::wire;

use crate::socket::{Batch, Datagram, Socket};

/// System calls for what has arrived before the transport may answer.
const RECEIVE_CALLS: usize = 4;

/// The bytes behind a transport: it moves ranges, the application holds what they mean.
pub trait Application {
    /// Writes the stream's bytes from `offset` on into `payload`.
    fn read(&mut self, offset: u64, payload: &mut [u8]) -> io::Result<()>;
    /// Keeps payload that arrived; it may lie ahead of what was delivered, or repeat it.
    fn write(&mut self, offset: u64, payload: &[u8]) -> io::Result<()>;
    /// Hears what the transport has to say.
    fn event(&mut self, event: Event) -> io::Result<()>;
}

/// What became of datagrams that were not passed to the transport.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Refused {
    /// Not a packet of this protocol.
    pub malformed: u64,
    /// Of another flow or from another address.
    pub stray: u64,
    /// Sent by this side: somebody returned it.
    pub reflected: u64,
}

/// Monotonic time as the machines count it.
#[derive(Clone, Copy, Debug)]
pub struct Clock(std::time::Instant);

impl Clock {
    /// A clock that reads zero now.
    #[allow(clippy::disallowed_methods, reason = "a driver is where the clock is read")]
    pub fn start() -> Self {
        Self(std::time::Instant::now())
    }

    /// Time since the start.
    pub fn now(&self) -> Instant {
        Instant::from_ps(u64::try_from(self.0.elapsed().as_nanos() * 1000).unwrap_or(u64::MAX - 1))
    }
}

/// A transport with its socket, its peer and its clock.
pub struct Driver<T> {
    transport: T,
    socket: Socket,
    clock: Clock,
    /// This side's endpoint: what a datagram must be addressed to.
    endpoint: EndpointId,
    peer: SocketAddr,
    deadline: Option<Deadline>,
    outbox: Batch,
    refused: Refused,
    now: Instant,
    last_heard: Instant,
}

impl<T: Transport> Driver<T> {
    /// `transport` as `endpoint`, talking to `peer` over `socket`.
    pub fn new(transport: T, socket: Socket, clock: Clock, endpoint: EndpointId, peer: SocketAddr) -> Self {
        let outbox = Batch::default();
        let (deadline, refused, now) = (None, Refused::default(), clock.now());
        Self { transport, socket, clock, endpoint, peer, deadline, outbox, refused, now, last_heard: now }
    }

    /// The transport.
    pub fn transport(&self) -> &T {
        &self.transport
    }

    /// What was refused.
    pub fn refused(&self) -> Refused {
        self.refused
    }

    /// When the last turn began.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Time from when the peer was heard last, or from the start, to the last turn.
    pub fn silence(&self) -> Span {
        self.now.since(self.last_heard)
    }

    /// Tells the transport something and sends what follows from it.
    pub fn command(&mut self, command: Command, application: &mut impl Application) -> io::Result<()> {
        let now = self.clock.now();
        self.transport.handle_command(now, command);
        self.drain(now, application)
    }

    /// Handles a datagram that was received before this driver was made, the one that opened the flow.
    pub fn datagram(&mut self, datagram: Datagram<'_>, application: &mut impl Application) -> io::Result<()> {
        let now = self.clock.now();
        let mut incoming = Incoming {
            transport: &mut self.transport,
            endpoint: self.endpoint,
            peer: self.peer,
            refused: &mut self.refused,
            last_heard: &mut self.last_heard,
        };
        incoming.handle(now, datagram, application)?;
        self.drain(now, application)
    }

    /// Handles all that has arrived and all that is due, then sleeps until there is more, for `at_most` at the longest.
    pub fn turn(&mut self, application: &mut impl Application, at_most: Duration) -> io::Result<()> {
        let now = self.clock.now();
        self.now = now;
        let mut incoming = Incoming {
            transport: &mut self.transport,
            endpoint: self.endpoint,
            peer: self.peer,
            refused: &mut self.refused,
            last_heard: &mut self.last_heard,
        };
        let mut failure = Ok(());
        let mut received = 0;
        // What waits is handled before anything is said to it: one acknowledgement then answers all of it.
        for _ in 0..RECEIVE_CALLS {
            let taken = self.socket.receive(|datagram| {
                if failure.is_ok() {
                    failure = incoming.handle(now, datagram, application);
                }
            })?;
            received += taken.datagrams;
            if !taken.is_full() {
                break;
            }
        }
        failure?;
        let due = self.deadline.is_some_and(|deadline| deadline.at <= now);
        if due {
            self.transport.handle_timeout(now);
        }
        if received > 0 || due {
            return self.drain(now, application);
        }
        let until_deadline = self.deadline.map_or(Span::MAX, |deadline| deadline.at.since(now));
        self.socket.wait_readable(at_most.min(Duration::from_nanos(until_deadline.as_ps().div_ceil(1000))))
    }

    fn drain(&mut self, now: Instant, application: &mut impl Application) -> io::Result<()> {
        let mut outlet = Outgoing {
            socket: &self.socket,
            peer: self.peer,
            to: self.endpoint.peer(),
            batch: &mut self.outbox,
            deadline: &mut self.deadline,
            application,
            failure: Ok(()),
        };
        drain(&mut self.transport, now, &mut outlet);
        outlet.flush();
        outlet.failure
    }
}

/// The way in: from a datagram to the transport and the application.
struct Incoming<'d, T> {
    transport: &'d mut T,
    endpoint: EndpointId,
    peer: SocketAddr,
    refused: &'d mut Refused,
    last_heard: &'d mut Instant,
}

impl<T: Transport> Incoming<'_, T> {
    fn handle(&mut self, now: Instant, datagram: Datagram<'_>, application: &mut impl Application) -> io::Result<()> {
        let traffic_class = TrafficClass::default().with_ecn(datagram.ecn);
        let Ok((packet, sack, payload)) = wire::decode(datagram.bytes, traffic_class) else {
            self.refused.malformed += 1;
            return Ok(());
        };
        if packet.to == self.endpoint.peer() {
            self.refused.reflected += 1;
            return Ok(());
        }
        if packet.to != self.endpoint || datagram.from != self.peer {
            self.refused.stray += 1;
            return Ok(());
        }
        *self.last_heard = now;
        if let pliant_proto::packet::Body::Data { seq, .. } = packet.body() {
            application.write(seq, &datagram.bytes[payload])?;
        }
        self.transport.handle_packet(now, &packet, &sack);
        Ok(())
    }
}

/// The way out: from the transport to batches and the application.
struct Outgoing<'d, A> {
    socket: &'d Socket,
    peer: SocketAddr,
    to: EndpointId,
    batch: &'d mut Batch,
    deadline: &'d mut Option<Deadline>,
    application: &'d mut A,
    failure: io::Result<()>,
}

impl<A: Application> Outgoing<'_, A> {
    fn flush(&mut self) {
        if !self.batch.is_empty() {
            if self.failure.is_ok() {
                self.failure = self.socket.send(self.batch);
            }
            self.batch.clear();
        }
    }
}

impl<A: Application> Outlet for Outgoing<'_, A> {
    fn transmit(&mut self, mut packet: Packet, sack: &SackBlocks) {
        packet.to = self.to;
        let mut header = [0; wire::MAX_HEADER_BYTES];
        let header_bytes = wire::encode(&packet, sack, &mut header);
        let bytes = header_bytes + usize::from(packet.payload());
        let ecn = packet.traffic_class.ecn();
        if !self.batch.accepts(self.peer, ecn, bytes, self.socket.max_segments()) {
            self.flush();
        }
        let (head, payload) = self.batch.push(self.peer, ecn, bytes).split_at_mut(header_bytes);
        head.copy_from_slice(&header[..header_bytes]);
        if let pliant_proto::packet::Body::Data { seq, .. } = packet.body()
            && self.failure.is_ok()
        {
            self.failure = self.application.read(seq, payload);
        }
    }

    fn event(&mut self, event: Event) {
        if self.failure.is_ok() {
            self.failure = self.application.event(event);
        }
    }

    fn arm(&mut self, deadline: Option<Deadline>) {
        *self.deadline = deadline;
    }
}
