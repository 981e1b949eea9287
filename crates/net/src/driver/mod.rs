//! Connections with their transports on one UDP socket.
//!
//! What arrives is opened and checked by the connections' endpoint; all that waits in the socket is handled before it is
//! answered. One driver is one thread's.

mod mark_probes;
mod octets;
mod outbox;
mod receipts;
mod session;

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use pliant_proto::host::fair_rates::LinkReport;
use pliant_proto::packet::TrafficClass;
use pliant_proto::time::{Instant, Span};
use pliant_proto::transport::any::Member;
use pliant_proto::transport::rate_cap::RateCap;
use pliant_proto::transport::{Command, Transport};
use pliant_proto::units::Rate;
use pliant_proto::wire;

pub use session::{Application, PayloadLocation, Session};

use crate::clock::{Clock, to_timeout};
use crate::connection::{
    Caller, Closed, ConnectError, ConnectionId, Endpoint, Event, KeyChangeError, Keys, Peer, Refused,
};
use crate::event_loop::{EventHandler, MAX_ARREARS, ReceiveOutcome, Schedule, Timed, run_once};
use crate::host_reports::{HostReports, OwnFlow};
use crate::poll::PollWaker;
use crate::socket::{Batch, Socket};
use outbox::send;
use session::{Direction, WayOut, of_number};

/// What the peer is told when a session fails.
const FAILED: u8 = 1;

/// What both sides are told when packets do not fit the interface: without it they would wait for one another.
const TOO_LARGE: &str = "packets of that size do not fit the link: use a smaller --mtu";

/// What a driver asks whoever owns it.
pub trait ConnectionHandler<T, A> {
    /// Somebody calls and says `opening`: what to answer, or why not. It may be asked more than once of one call, and of
    /// calls that come to nothing.
    fn answer(&mut self, caller: Caller<'_>, opening: &[u8]) -> Result<Vec<u8>, String>;

    /// A connection stands: `event` is `Connected` or `Accepted`. `None` closes it.
    fn open(&mut self, now: Instant, connection: ConnectionId, event: Event) -> Option<Session<T, A>>;

    /// A connection has ended; the session is what it was, `None` if it never stood.
    fn closed(&mut self, connection: ConnectionId, session: Option<Session<T, A>>, why: Closed);

    /// What had arrived was handled. Nothing was said to it yet: what follows from it goes with the answers. Default:
    /// nothing follows.
    fn received(&mut self, _driver: &mut Driver<T, A>) {}
}

/// A socket with its connections, their transports and applications, and a clock.
pub struct Driver<T, A> {
    endpoint: Endpoint,
    socket: Socket,
    clock: Clock,
    sessions: Vec<Option<Box<Session<T, A>>>>,
    /// Indices in `sessions` that have something to send.
    touched: Vec<usize>,
    schedule: Schedule,
    outbox: Batch,
    now: Instant,
    /// What arrives may wait until a pacer lets something go.
    patient: bool,
    host_reports: Option<Box<HostReports>>,
}

impl<T: Member, A: Application> Driver<T, A> {
    /// A driver without connections.
    pub fn new(socket: Socket, endpoint: Endpoint, clock: Clock) -> Self {
        let now = clock.now();
        Self {
            endpoint,
            socket,
            clock,
            sessions: Vec::new(),
            touched: Vec::new(),
            schedule: Schedule::default(),
            outbox: Batch::default(),
            now,
            patient: false,
            host_reports: None,
        }
    }

    /// From now on it tells peers every `interval` which rate is fair on this host's link, whose rate is `line`, and hears what they say.
    /// Fails if the kernel does not tell of this host's connections.
    pub fn report_host(&mut self, line: Rate, interval: Span) -> io::Result<()> {
        self.host_reports = Some(Box::new(HostReports::new(line, interval)?));
        Ok(())
    }

    /// From now on what arrives waits while every flow is one that sends, and is held by its pacer, for two milliseconds at the
    /// most: it would not let anything go sooner, and to wake up for it costs as much as to send a batch. For transports that
    /// take no delay from when an acknowledgement is seen.
    pub fn be_patient(&mut self) {
        self.patient = true;
    }

    /// Calls `to`.
    pub fn connect(&mut self, to: SocketAddr, opening: &[u8]) -> Result<ConnectionId, ConnectError> {
        self.now = self.clock.now();
        self.endpoint.connect(self.now, to, opening)
    }

    /// A connection's session.
    pub fn session(&self, connection: ConnectionId) -> Option<&Session<T, A>> {
        let session = self.sessions.get(connection.index())?.as_deref()?;
        (session.connection == connection).then_some(session)
    }

    /// A connection's application. What it changes is noticed with the next [`command`](Self::command).
    pub fn application(&mut self, connection: ConnectionId) -> Option<&mut A> {
        standing(&mut self.sessions, connection).map(|session| &mut session.application)
    }

    /// Connections that stand.
    pub fn connections(&self) -> impl Iterator<Item = ConnectionId> + '_ {
        self.sessions.iter().flatten().map(|session| session.connection)
    }

    /// Tells the outgoing flow's transport something; what follows from it is sent in the next iteration.
    pub fn command(&mut self, connection: ConnectionId, command: Command<T::Answer>) {
        self.tell(connection, Direction::Outgoing, command);
    }

    /// Tells the incoming flow's transport something: that bytes were consumed.
    pub fn command_incoming(&mut self, connection: ConnectionId, command: Command<T::Answer>) {
        self.tell(connection, Direction::Incoming, command);
    }

    /// From now on a connection that stands receives by `transport`. Nothing happens if it is over.
    pub fn receive_by(&mut self, connection: ConnectionId, transport: T) {
        if let Some(session) = standing(&mut self.sessions, connection) {
            session.receive_by(transport);
            session.touch(&mut self.touched);
        }
    }

    /// From now on a connection that stands sends by `transport`, at no more than `rate` on the wire. Nothing happens if it
    /// is over.
    pub fn send_by(&mut self, connection: ConnectionId, transport: T, rate: Option<Rate>) {
        if let Some(session) = standing(&mut self.sessions, connection) {
            session.send_by(transport, rate);
            if self.endpoint.overhead() != (0, 0) {
                session.hold_to_receipts(self.endpoint.draw_seed());
            }
            session.touch(&mut self.touched);
        }
    }

    /// From now on these keys are taken ([`Endpoint::set_keys`]).
    pub fn set_keys(&mut self, keys: Keys) -> Result<(), KeyChangeError> {
        self.now = self.clock.now();
        self.endpoint.set_keys(self.now, keys, FAILED)
    }

    /// From now on these peers are called at these addresses ([`Config::called`](crate::connection::Config::called)).
    pub fn set_called(&mut self, called: Vec<(SocketAddr, String)>) {
        self.endpoint.set_called(called);
    }

    /// Who a connection's peer is, where keys tell.
    pub fn identity(&self, connection: ConnectionId) -> Option<Arc<Peer>> {
        self.endpoint.identity(connection)
    }

    /// Says a few bytes to a connection's peer with the next iteration; they may be lost.
    pub fn notify(&mut self, connection: ConnectionId, content: &[u8]) {
        self.endpoint.notify(connection, content);
    }

    /// Asks a connection's peer for a sign of life with the next iteration.
    pub fn ping(&mut self, connection: ConnectionId) {
        self.endpoint.ping(connection);
    }

    fn tell(&mut self, connection: ConnectionId, direction: Direction, command: Command<T::Answer>) {
        let now = self.now;
        if let Some(session) = standing(&mut self.sessions, connection)
            && let Some(flow) = session.flow(direction)
        {
            flow.timed.tell(now).handle_command(now, command);
            session.touch(&mut self.touched);
        }
    }

    /// Sends what its transports have to say, then ends a connection and tells the peer; returns what it was.
    pub fn close(&mut self, connection: ConnectionId, code: u8, reason: &str) -> io::Result<Option<Session<T, A>>> {
        self.now = self.clock.now();
        self.flush()?;
        self.endpoint.close(self.now, connection, code, reason);
        let session = self.take(connection);
        self.flush()?;
        Ok(session)
    }

    fn take(&mut self, connection: ConnectionId) -> Option<Session<T, A>> {
        let slot = self.sessions.get_mut(connection.index())?;
        if slot.as_ref()?.connection != connection {
            return None;
        }
        slot.take().map(|session| *session)
    }

    /// Time from when the peer was heard last to the last iteration.
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

    /// When the last iteration began.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Lets `waker` end an iteration's sleep.
    pub fn set_waker(&mut self, waker: PollWaker) {
        self.socket.set_waker(waker);
    }

    /// Lets an iteration's sleep end while there is something to read in `file`.
    pub(crate) fn wait_for_also(&mut self, file: Arc<OwnedFd>) {
        self.socket.wait_for_also(file);
    }

    /// Its socket fails from now on.
    #[cfg(test)]
    pub(crate) fn break_socket(&mut self) {
        self.socket.break_down();
    }

    /// The clock.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// Handles all that has arrived and all that is due, then sleeps until there is more, for `at_most` at the longest.
    /// Fails only if the socket does: a session that fails is closed.
    pub fn run_once(&mut self, handler: &mut impl ConnectionHandler<T, A>, at_most: Duration) -> io::Result<()> {
        let busy = run_once(&mut Iteration { driver: self, handler })?;
        self.close_failed(handler)?;
        let now = self.clock.now();
        if let Some(until) = self.held_until().filter(|until| *until <= now.after(MAX_ARREARS)) {
            let sleep = to_timeout(until.since(now)).min(at_most);
            return if sleep.is_zero() { Ok(()) } else { self.socket.wait_for_others(sleep) };
        }
        if busy {
            return Ok(());
        }
        let next =
            self.schedule.next_at().into_iter().chain(self.endpoint.poll_timeout()).chain(self.reports_at()).min();
        let until = next.map_or(at_most, |at| to_timeout(at.since(now)).min(at_most));
        if until.is_zero() { Ok(()) } else { self.socket.wait_readable(until) }
    }

    /// Until when nothing that arrives could let anything go, if the driver is patient.
    fn held_until(&self) -> Option<Instant> {
        if !self.patient || !self.touched.is_empty() {
            return None;
        }
        let mut sessions = self.sessions.iter().flatten();
        let first = sessions.next()?.held_until()?;
        sessions.try_fold(first, |until, session| Some(until.min(session.held_until()?)))
    }

    /// When hosts are told what is fair, if there is anybody to tell.
    fn reports_at(&self) -> Option<Instant> {
        let reports = self.host_reports.as_ref()?;
        self.sessions.iter().any(Option::is_some).then(|| reports.next_at())
    }

    /// Tells peers what is fair on this host's link, and flows what is fair for them. Whether it was time.
    fn report_if_due(&mut self) -> bool {
        let now = self.now;
        if self.reports_at().is_none_or(|at| at > now) {
            return false;
        }
        let Self { endpoint, sessions, touched, host_reports, .. } = self;
        let Some(reports) = host_reports else { return false };
        let own: Vec<OwnFlow> = sessions.iter_mut().flatten().map(|session| session.own_flow(now)).collect();
        reports.exchange(now, &own, |connection, report, fair| {
            endpoint.report_host(connection, report);
            let Some(session) = standing(sessions, connection) else { return };
            if let Some((fair, flow)) = fair.zip(session.flow(Direction::Outgoing)) {
                flow.timed.tell(now).handle_command(now, Command::SetFairRate(fair));
                session.touch(touched);
            }
        });
        true
    }

    /// Sends what its transports and the endpoint have to say.
    fn flush(&mut self) -> io::Result<()> {
        self.drain_touched();
        self.send_all()
    }

    /// Drains every session that was touched. Whether there was any.
    fn drain_touched(&mut self) -> bool {
        let any = !self.touched.is_empty();
        while let Some(index) = self.touched.pop() {
            let Some(session) = &mut self.sessions[index] else { continue };
            session.touched = false;
            let Self { socket, endpoint, outbox, schedule, .. } = self;
            session.drain_all(self.now, &mut WayOut { socket, endpoint, outbox, schedule });
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

    /// Closes sessions whose application or socket has failed, or whose packets are too large for the interface.
    fn close_failed(&mut self, handler: &mut impl ConnectionHandler<T, A>) -> io::Result<()> {
        if let Some(peer) = self.socket.take_too_large() {
            for session in self.sessions.iter_mut().flatten().filter(|session| session.peer() == peer) {
                session.failure.get_or_insert_with(|| io::Error::other(TOO_LARGE));
            }
        }
        for index in 0..self.sessions.len() {
            let Some(failure) = self.sessions[index].as_mut().and_then(|session| session.failure.take()) else {
                continue;
            };
            let Some(session) = self.sessions[index].take() else { continue };
            self.endpoint.close(self.now, session.connection, FAILED, &failure.to_string());
            self.flush()?;
            let why = Closed::Failed(failure.to_string());
            handler.closed(session.connection, Some(*session), why);
        }
        Ok(())
    }
}

/// A driver in its loop, with its owner.
struct Iteration<'d, T, A, S> {
    driver: &'d mut Driver<T, A>,
    handler: &'d mut S,
}

impl<T: Member, A: Application, S: ConnectionHandler<T, A>> Iteration<'_, T, A, S> {
    /// Handles what the endpoint has to say of its connections.
    fn handle_events(&mut self) {
        let Driver { endpoint, sessions, touched, now, .. } = &mut *self.driver;
        while let Some((connection, event)) = endpoint.poll_event() {
            handle_event(*now, connection, event, sessions, touched, endpoint, self.handler);
        }
    }
}

impl<T: Member, A: Application, S: ConnectionHandler<T, A>> EventHandler for Iteration<'_, T, A, S> {
    type Transport = RateCap<T>;

    fn now(&mut self) -> Instant {
        self.driver.now = self.driver.clock.now();
        self.driver.now
    }

    fn schedule(&mut self) -> &mut Schedule {
        &mut self.driver.schedule
    }

    fn parts(&mut self, number: u32) -> (&mut Schedule, Option<&mut Timed<RateCap<T>>>) {
        let (index, direction) = of_number(number);
        let Driver { schedule, sessions, .. } = &mut *self.driver;
        let session = sessions.get_mut(index).and_then(|session| session.as_deref_mut());
        (schedule, session.and_then(|session| session.flow(direction)).map(|flow| &mut flow.timed))
    }

    fn drain(&mut self, number: u32, at: Instant) {
        let (index, direction) = of_number(number);
        let Driver { schedule, sessions, socket, endpoint, outbox, .. } = &mut *self.driver;
        if let Some(Some(session)) = sessions.get_mut(index) {
            session.drain(at, direction, &mut WayOut { socket, endpoint, outbox, schedule });
        }
    }

    fn receive(&mut self, now: Instant) -> io::Result<ReceiveOutcome> {
        let Driver { endpoint, socket, sessions, touched, .. } = &mut *self.driver;
        let handler = &mut *self.handler;
        let taken = socket.receive(|datagram| {
            let (from, bytes) = (datagram.from, datagram.bytes);
            let arrival =
                endpoint.handle_datagram(now, from, bytes, &mut |caller, opening| handler.answer(caller, opening));
            while let Some((connection, event)) = endpoint.poll_event() {
                handle_event(now, connection, event, sessions, touched, endpoint, handler);
            }
            let Some(arrival) = arrival else { return };
            let Some(Some(session)) = sessions.get_mut(arrival.connection.index()) else { return };
            let class = TrafficClass::default().with_ecn(datagram.ecn);
            let Ok((packet, sack, payload)) = wire::decode(&bytes[arrival.packet.clone()], class) else {
                endpoint.count_refused(|refused| refused.malformed += 1);
                return;
            };
            let at = arrival.packet.start;
            let payload = &bytes[at + payload.start..at + payload.end];
            match session.handle(now, &packet, &sack, payload) {
                Ok(()) => session.touch(touched),
                Err(count) => endpoint.count_refused(count),
            }
        })?;
        Ok(ReceiveOutcome { any: taken.datagrams > 0, full: taken.is_full() })
    }

    fn answer(&mut self) -> io::Result<bool> {
        self.handler.received(self.driver);
        let now = self.driver.now;
        let due = self.driver.endpoint.poll_timeout().is_some_and(|at| at <= now);
        if due {
            self.driver.endpoint.handle_timeout(now);
            self.handle_events();
        }
        let reported = self.driver.report_if_due();
        Ok(self.driver.drain_touched() || due || reported)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.driver.send_all()
    }
}

/// The session of a connection that stands.
fn standing<T, A>(sessions: &mut [Option<Box<Session<T, A>>>], connection: ConnectionId) -> Option<&mut Session<T, A>> {
    let session = sessions.get_mut(connection.index())?.as_deref_mut()?;
    (session.connection == connection).then_some(session)
}

/// What follows from an event of the endpoint's.
fn handle_event<T: Member, A: Application>(
    now: Instant,
    connection: ConnectionId,
    event: Event,
    sessions: &mut Vec<Option<Box<Session<T, A>>>>,
    touched: &mut Vec<usize>,
    endpoint: &mut Endpoint,
    handler: &mut impl ConnectionHandler<T, A>,
) {
    let index = connection.index();
    match event {
        Event::Closed(why) => {
            let slot = sessions.get_mut(index);
            let session = slot.and_then(|slot| slot.take_if(|session| session.connection == connection));
            handler.closed(connection, session.map(|session| *session), why);
        }
        Event::Notice(content) => {
            if let Some(session) = standing(sessions, connection) {
                session.application.notice(&content);
            }
        }
        Event::HostReport(report) => {
            if let Some(session) = standing(sessions, connection) {
                session.heard = Some((now, LinkReport::decode(report)));
            }
        }
        Event::Moved { to } => {
            if let Some(session) = standing(sessions, connection) {
                session.move_to(now, to);
                session.touch(touched);
            }
        }
        Event::OwnMove => {
            if let Some(session) = standing(sessions, connection) {
                session.take_new_path(now);
                session.touch(touched);
            }
        }
        Event::Connected { .. } | Event::Accepted { .. } => {
            let calls = matches!(event, Event::Connected { .. });
            let (Some(peer), Some(remote)) = (endpoint.peer(connection), endpoint.remote(connection)) else { return };
            let Some(mut session) = handler.open(now, connection, event) else {
                endpoint.close(now, connection, FAILED, "not wanted");
                return;
            };
            session.stand(connection, peer, remote, calls);
            if endpoint.overhead() != (0, 0) {
                session.hold_to_receipts(endpoint.draw_seed());
            }
            if sessions.len() <= index {
                sessions.resize_with(index + 1, || None);
            }
            session.touch(touched);
            sessions[index] = Some(Box::new(session));
        }
    }
}
