//! Connections with their transports on one UDP socket.
//!
//! What arrives is opened and checked by the connections' endpoint; all that waits in the socket is handled before it is
//! answered. One driver is one thread's.

mod clock;
mod link;

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use pliant_proto::packet::TrafficClass;
use pliant_proto::time::{Instant, Span};
use pliant_proto::transport::rate_cap::RateCap;
use pliant_proto::transport::{Command, Transport};
use pliant_proto::wire;

pub use clock::Clock;
pub use link::{Application, Link, Place};

use crate::clock::nap;
use crate::connection::{Closed, ConnectError, ConnectionId, Endpoint, Event, Refused};
use crate::event_loop::{Carrier, Schedule, Taken, Timed, turn};
use crate::socket::{Alarm, Batch, Socket};
use link::{Direction, of_number};

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
    schedule: Schedule,
    outbox: Batch,
    now: Instant,
}

impl<T: Transport, A: Application> Driver<T, A> {
    /// A driver without connections.
    pub fn new(socket: Socket, endpoint: Endpoint, clock: Clock) -> Self {
        let now = clock.now();
        Self {
            endpoint,
            socket,
            clock,
            links: Vec::new(),
            touched: Vec::new(),
            schedule: Schedule::default(),
            outbox: Batch::default(),
            now,
        }
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
            flow.timed.tell(now).handle_command(now, command);
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
        let busy = turn(&mut Turn { driver: self, service })?;
        self.close_failed(service)?;
        if busy {
            return Ok(());
        }
        let next = self.schedule.next_at().into_iter().chain(self.endpoint.poll_timeout()).min();
        let now = self.clock.now();
        let until = next.map_or(at_most, |at| nap(at.since(now)).min(at_most));
        if until.is_zero() { Ok(()) } else { self.socket.wait_readable(until) }
    }

    /// Sends what its transports and the endpoint have to say.
    fn flush(&mut self) -> io::Result<()> {
        self.drain_touched();
        self.send_all()
    }

    /// Drains every link that was touched. Whether there was any.
    fn drain_touched(&mut self) -> bool {
        let any = !self.touched.is_empty();
        while let Some(place) = self.touched.pop() {
            let Some(link) = &mut self.links[place] else { continue };
            link.touched = false;
            for direction in Direction::BOTH {
                let (now, socket) = (self.now, &self.socket);
                link.drain(now, direction, socket, &mut self.endpoint, &mut self.outbox, &mut self.schedule);
            }
        }
        any
    }

    fn send_all(&mut self) -> io::Result<()> {
        send(&self.socket, &mut self.outbox)?;
        let class = TrafficClass::default();
        while let Some((to, bytes)) = self.endpoint.poll_transmit() {
            if !self.outbox.accepts(to, class, bytes.len(), self.socket.max_segments()) {
                send(&self.socket, &mut self.outbox)?;
            }
            self.outbox.push(to, class, bytes.len()).copy_from_slice(&bytes);
        }
        send(&self.socket, &mut self.outbox)
    }

    /// Closes links whose application or socket has failed.
    fn close_failed(&mut self, service: &mut impl Service<T, A>) -> io::Result<()> {
        for place in 0..self.links.len() {
            let Some(failure) = self.links[place].as_mut().and_then(|link| link.failure.take()) else { continue };
            let Some(link) = self.links[place].take() else { continue };
            self.endpoint.close(self.now, link.connection, FAILED, &failure.to_string());
            self.flush()?;
            let why = Closed::Failed(failure.to_string());
            service.closed(link.connection, Some(*link), why);
        }
        Ok(())
    }
}

/// A driver in its loop, with its owner.
struct Turn<'d, T, A, S> {
    driver: &'d mut Driver<T, A>,
    service: &'d mut S,
}

impl<T: Transport, A: Application, S: Service<T, A>> Turn<'_, T, A, S> {
    /// Handles what the endpoint has to say of its connections.
    fn handle_events(&mut self) {
        let Driver { endpoint, links, touched, now, .. } = &mut *self.driver;
        while let Some((connection, event)) = endpoint.poll_event() {
            handle_event(*now, connection, event, links, touched, endpoint, self.service);
        }
    }
}

impl<T: Transport, A: Application, S: Service<T, A>> Carrier for Turn<'_, T, A, S> {
    type Transport = RateCap<T>;

    fn now(&mut self) -> Instant {
        self.driver.now = self.driver.clock.now();
        self.driver.now
    }

    fn schedule(&mut self) -> &mut Schedule {
        &mut self.driver.schedule
    }

    fn parts(&mut self, number: u32) -> (&mut Schedule, Option<&mut Timed<RateCap<T>>>) {
        let (place, direction) = of_number(number);
        let Driver { schedule, links, .. } = &mut *self.driver;
        let link = links.get_mut(place).and_then(|link| link.as_deref_mut());
        (schedule, link.and_then(|link| link.flow(direction)).map(|flow| &mut flow.timed))
    }

    fn drain(&mut self, number: u32, at: Instant) {
        let (place, direction) = of_number(number);
        let Driver { schedule, links, socket, endpoint, outbox, .. } = &mut *self.driver;
        if let Some(Some(link)) = links.get_mut(place) {
            link.drain(at, direction, socket, endpoint, outbox, schedule);
        }
    }

    fn receive(&mut self, now: Instant) -> io::Result<Taken> {
        let Driver { endpoint, socket, links, touched, .. } = &mut *self.driver;
        let service = &mut *self.service;
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
        Ok(Taken { any: taken.datagrams > 0, full: taken.is_full() })
    }

    fn answer(&mut self) -> io::Result<bool> {
        let now = self.driver.now;
        let due = self.driver.endpoint.poll_timeout().is_some_and(|at| at <= now);
        if due {
            self.driver.endpoint.handle_timeout(now);
            self.handle_events();
        }
        Ok(self.driver.drain_touched() || due)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.driver.send_all()
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
