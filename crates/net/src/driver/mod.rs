//! Connections with their transports on one UDP socket.
//!
//! The loop is the simulator's with a real clock: what arrived is handled, deadlines that have come are handled, then
//! every transport that was touched is drained into batches, and the loop sleeps until the next datagram or deadline.
//! One driver is one thread's.

mod clock;
mod link;

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use pliant_proto::packet::TrafficClass;
use pliant_proto::time::{Instant, Span};
use pliant_proto::transport::{Command, Timer, Transport};
use pliant_proto::wire;

pub use clock::Clock;
pub use link::{Application, Link, Place};

use crate::connection::{Closed, ConnectError, ConnectionId, Endpoint, Event, Refused};
use crate::socket::{Alarm, Batch, Socket};
use link::Direction;

/// System calls for what has arrived before transports may answer.
const RECEIVE_CALLS: usize = 4;
/// How far back packets that were due are sent as if in time; those before are late for good.
const CATCH_UP: Span = Span::from_ms(1);

/// What the peer is told when a link fails.
const FAILED: u8 = 1;

/// What a driver asks whoever owns it.
pub trait Service<T, A> {
    /// Somebody calls and says `opening`: what to answer, or why not. It may be asked more than once of one call, and of
    /// calls that come to nothing.
    fn answer(&mut self, from: SocketAddr, opening: &[u8]) -> Result<Vec<u8>, String>;

    /// A connection stands: `event` is `Connected` or `Accepted`. `None` closes it.
    fn open(&mut self, now: Instant, connection: ConnectionId, event: Event) -> Option<Link<T, A>>;

    /// A connection has ended; the link is what it was, `None` if it never stood.
    fn closed(&mut self, connection: ConnectionId, link: Option<Link<T, A>>, why: Closed);
}

/// A socket with its connections, their transports and applications, and a clock.
pub struct Driver<T, A> {
    endpoint: Endpoint,
    socket: Socket,
    clock: Clock,
    links: Vec<Option<Box<Link<T, A>>>>,
    /// Places in `links` that have something to send.
    touched: Vec<usize>,
    outbox: Batch,
    now: Instant,
}

impl<T: Transport, A: Application> Driver<T, A> {
    /// A driver without connections.
    pub fn new(socket: Socket, endpoint: Endpoint, clock: Clock) -> Self {
        let now = clock.now();
        Self { endpoint, socket, clock, links: Vec::new(), touched: Vec::new(), outbox: Batch::default(), now }
    }

    /// Calls `to`.
    pub fn connect(&mut self, to: SocketAddr, opening: &[u8]) -> Result<ConnectionId, ConnectError> {
        self.now = self.clock.now();
        self.endpoint.connect(self.now, to, opening)
    }

    /// A connection's link.
    pub fn link(&self, connection: ConnectionId) -> Option<&Link<T, A>> {
        let link = self.links.get(connection.place())?.as_deref()?;
        (link.connection == connection).then_some(link)
    }

    /// A connection's application. What it changes is noticed with the next [`command`](Self::command).
    pub fn application(&mut self, connection: ConnectionId) -> Option<&mut A> {
        let link = self.links.get_mut(connection.place())?.as_deref_mut()?;
        (link.connection == connection).then_some(&mut link.application)
    }

    /// Connections that stand.
    pub fn connections(&self) -> impl Iterator<Item = ConnectionId> + '_ {
        self.links.iter().flatten().map(|link| link.connection)
    }

    /// Tells the outgoing flow's transport something; what follows from it is sent in the next turn.
    pub fn command(&mut self, connection: ConnectionId, command: Command) {
        self.tell(connection, Direction::Outgoing, command);
    }

    /// Tells the incoming flow's transport something: that bytes were consumed.
    pub fn command_incoming(&mut self, connection: ConnectionId, command: Command) {
        self.tell(connection, Direction::Incoming, command);
    }

    /// Says a few bytes to a connection's peer with the next turn; they may be lost.
    pub fn notify(&mut self, connection: ConnectionId, content: &[u8]) {
        self.endpoint.notify(connection, content);
    }

    fn tell(&mut self, connection: ConnectionId, direction: Direction, command: Command) {
        let now = self.now;
        let place = connection.place();
        if let Some(Some(link)) = self.links.get_mut(place)
            && link.connection == connection
            && let Some(flow) = link.flow(direction)
        {
            flow.transport.handle_command(now, command);
            link.touch(&mut self.touched);
        }
    }

    /// Sends what its transports have to say, then ends a connection and tells the peer; returns what it was.
    pub fn close(&mut self, connection: ConnectionId, code: u8, reason: &str) -> io::Result<Option<Link<T, A>>> {
        self.now = self.clock.now();
        self.flush()?;
        self.endpoint.close(self.now, connection, code, reason);
        let link = self.take(connection);
        self.flush()?;
        Ok(link)
    }

    fn take(&mut self, connection: ConnectionId) -> Option<Link<T, A>> {
        let slot = self.links.get_mut(connection.place())?;
        if slot.as_ref()?.connection != connection {
            return None;
        }
        slot.take().map(|link| *link)
    }

    /// Time from when the peer was heard last to the last turn.
    pub fn silence(&self, connection: ConnectionId) -> Span {
        self.endpoint.silence(self.now, connection).unwrap_or(Span::ZERO)
    }

    /// What was refused.
    pub fn refused(&self) -> Refused {
        self.endpoint.refused()
    }

    /// The socket's address.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        self.socket.local_address()
    }

    /// When the last turn began.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Lets `alarm` end a turn's sleep.
    pub fn set_alarm(&mut self, alarm: Alarm) {
        self.socket.set_alarm(alarm);
    }

    /// The clock.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// Handles all that has arrived and all that is due, then sleeps until there is more, for `at_most` at the longest.
    /// Fails only if the socket does: a link that fails is closed.
    pub fn turn(&mut self, service: &mut impl Service<T, A>, at_most: Duration) -> io::Result<()> {
        let now = self.clock.now();
        self.catch_up(now)?;
        self.now = now;
        let received = self.receive(now, service)?;
        let due = self.handle_timeouts(now, service);
        let sent = self.flush()?;
        self.close_failed(now, service)?;
        if received || due || sent {
            return Ok(());
        }
        let deadlines = self.links.iter().flatten().filter_map(|link| link.deadline());
        let next = deadlines.chain(self.endpoint.poll_timeout()).min();
        let until = next.map_or(at_most, |at| Duration::from_nanos(at.since(now).as_ps().div_ceil(1000)).min(at_most));
        if until.is_zero() { Ok(()) } else { self.socket.wait_readable(until) }
    }

    /// Sends packets whose time came while this thread slept as if it had not: a timer that is late by a tick would
    /// otherwise bound every rate.
    fn catch_up(&mut self, now: Instant) -> io::Result<()> {
        let from = now.before(CATCH_UP).max(self.now);
        for place in 0..self.links.len() {
            let Some(link) = &mut self.links[place] else { continue };
            for direction in Direction::BOTH {
                while let Some(flow) = link.flow(direction)
                    && let Some(deadline) = flow.deadline.filter(|deadline| deadline.why == Timer::Pace)
                    && deadline.at <= now
                {
                    let at = deadline.at.max(from);
                    flow.transport.handle_timeout(at);
                    let next = link.drain(at, direction, &self.socket, &mut self.endpoint, &mut self.outbox);
                    // What wants the same moment again waits for the turn.
                    if next.is_some_and(|next| next.at <= at) {
                        break;
                    }
                }
            }
        }
        send(&self.socket, &mut self.outbox)
    }

    fn receive(&mut self, now: Instant, service: &mut impl Service<T, A>) -> io::Result<bool> {
        let mut any = false;
        let Self { endpoint, socket, links, touched, .. } = self;
        // What waits is handled before anything is said to it: one acknowledgement then answers all of it.
        for _ in 0..RECEIVE_CALLS {
            let taken = socket.receive(|datagram| {
                let (from, bytes) = (datagram.from, datagram.bytes);
                let arrival =
                    endpoint.handle_datagram(now, from, bytes, &mut |from, opening| service.answer(from, opening));
                while let Some((connection, event)) = endpoint.poll_event() {
                    handle_event(now, connection, event, links, touched, endpoint, service);
                }
                let Some(arrival) = arrival else { return };
                let Some(Some(link)) = links.get_mut(arrival.connection.place()) else { return };
                let class = TrafficClass::default().with_ecn(datagram.ecn);
                let Ok((packet, sack, payload)) = wire::decode(&bytes[arrival.packet.clone()], class) else {
                    endpoint.count_refused(|refused| refused.malformed += 1);
                    return;
                };
                let at = arrival.packet.start;
                let payload = &bytes[at + payload.start..at + payload.end];
                match link.handle(now, &packet, &sack, payload) {
                    Ok(()) => link.touch(touched),
                    Err(count) => endpoint.count_refused(count),
                }
            })?;
            any |= taken.datagrams > 0;
            if !taken.is_full() {
                break;
            }
        }
        Ok(any)
    }

    fn handle_timeouts(&mut self, now: Instant, service: &mut impl Service<T, A>) -> bool {
        let mut any = false;
        for link in self.links.iter_mut().flatten() {
            for direction in Direction::BOTH {
                if let Some(flow) = link.flow(direction)
                    && flow.deadline.is_some_and(|deadline| deadline.at <= now)
                {
                    flow.transport.handle_timeout(now);
                    any = true;
                    link.touch(&mut self.touched);
                }
            }
        }
        if self.endpoint.poll_timeout().is_some_and(|at| at <= now) {
            any = true;
            self.endpoint.handle_timeout(now);
            while let Some((connection, event)) = self.endpoint.poll_event() {
                let Self { endpoint, links, touched, .. } = self;
                handle_event(now, connection, event, links, touched, endpoint, service);
            }
        }
        any
    }

    /// Drains every link that was touched, and the endpoint. Whether anything was there.
    fn flush(&mut self) -> io::Result<bool> {
        let mut any = !self.touched.is_empty();
        while let Some(place) = self.touched.pop() {
            let Some(link) = &mut self.links[place] else { continue };
            link.touched = false;
            for direction in Direction::BOTH {
                link.drain(self.now, direction, &self.socket, &mut self.endpoint, &mut self.outbox);
            }
        }
        send(&self.socket, &mut self.outbox)?;
        let class = TrafficClass::default();
        while let Some((to, bytes)) = self.endpoint.poll_transmit() {
            any = true;
            if !self.outbox.accepts(to, class, bytes.len(), self.socket.max_segments()) {
                send(&self.socket, &mut self.outbox)?;
            }
            self.outbox.push(to, class, bytes.len()).copy_from_slice(&bytes);
        }
        send(&self.socket, &mut self.outbox)?;
        Ok(any)
    }

    /// Closes links whose application or socket has failed.
    fn close_failed(&mut self, now: Instant, service: &mut impl Service<T, A>) -> io::Result<()> {
        for place in 0..self.links.len() {
            let Some(failure) = self.links[place].as_mut().and_then(|link| link.failure.take()) else { continue };
            let Some(link) = self.links[place].take() else { continue };
            self.endpoint.close(now, link.connection, FAILED, &failure.to_string());
            self.flush()?;
            let why = Closed::Failed(failure.to_string());
            service.closed(link.connection, Some(*link), why);
        }
        Ok(())
    }
}

/// What follows from an event of the endpoint's.
fn handle_event<T: Transport, A: Application>(
    now: Instant,
    connection: ConnectionId,
    event: Event,
    links: &mut Vec<Option<Box<Link<T, A>>>>,
    touched: &mut Vec<usize>,
    endpoint: &mut Endpoint,
    service: &mut impl Service<T, A>,
) {
    let place = connection.place();
    if let Event::Closed(why) = event {
        let link = links.get_mut(place).and_then(|slot| slot.take_if(|link| link.connection == connection));
        service.closed(connection, link.map(|link| *link), why);
        return;
    }
    if let Event::Notice(content) = event {
        if let Some(Some(link)) = links.get_mut(place)
            && link.connection == connection
        {
            link.application.notice(&content);
        }
        return;
    }
    let calls = matches!(event, Event::Connected { .. });
    let (Some(peer), Some(remote)) = (endpoint.peer(connection), endpoint.remote(connection)) else { return };
    let Some(mut link) = service.open(now, connection, event) else {
        endpoint.close(now, connection, FAILED, "not wanted");
        return;
    };
    link.stand(connection, peer, remote, calls);
    if links.len() <= place {
        links.resize_with(place + 1, || None);
    }
    link.touch(touched);
    links[place] = Some(Box::new(link));
}

/// Sends a batch and empties it.
fn send(socket: &Socket, batch: &mut Batch) -> io::Result<()> {
    if batch.is_empty() {
        return Ok(());
    }
    let sent = socket.send(batch);
    batch.clear();
    match sent {
        // As good as a loss on the way, and what has to arrive is sent again.
        Err(error) if is_of_the_path(&error) => Ok(()),
        other => other,
    }
}

/// Whether the network, not the socket, refuses: that may pass.
fn is_of_the_path(error: &io::Error) -> bool {
    use io::ErrorKind::{HostUnreachable, NetworkDown, NetworkUnreachable};
    matches!(error.kind(), HostUnreachable | NetworkDown | NetworkUnreachable)
}
