//! A node's thread: it drives the socket and serves what applications want.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use pliant_proto::time::Instant;
use pliant_proto::transport::Command;
use pliant_proto::transport::any::AnyTransport;

use super::buffers::{BufferedApplication, Buffers, SharedConnection, Status};
use super::report::Delivery;
use super::shared_node::SharedNode;
use crate::clock::{Clock, realtime_ns};
use crate::connection::{Caller, Closed, ConnectionId, Event, require_right};
use crate::driver::{ConnectionHandler, Driver, Session};
use crate::flow::{Answer, Opening, Protocol};
use crate::poll::PollWaker;
use crate::transfer::Settings;

/// What the content of an opening is.
const STREAM: &[u8] = b"stream";
const MESSAGES: &[u8] = b"messages";
/// How long the thread sleeps at most.
const MAX_SLEEP: Duration = Duration::from_secs(1);

/// The node's thread's side.
pub(super) struct NodeDriver {
    driver: ConnectionDriver,
    connections: Connections,
}

type ConnectionDriver = Driver<AnyTransport, BufferedApplication>;
type ConnectionSession = Session<AnyTransport, BufferedApplication>;

impl NodeDriver {
    /// A driver on a socket bound to `address`, and the address that it got.
    pub(super) fn open(address: SocketAddr, mut settings: Settings, accepts: bool) -> io::Result<(Self, SocketAddr)> {
        let waker = PollWaker::new()?;
        let (mut driver, buffer): (ConnectionDriver, _) = settings.driver(address, accepts)?;
        settings.flow.receive_buffer = settings.flow.receive_buffer.min(buffer as u64 / 2);
        driver.set_waker(waker.clone());
        let address = driver.local_address()?;
        let node = Arc::new(SharedNode::new(waker, settings));
        let connections = Connections { node, clock: driver.clock(), calling: Vec::new() };
        Ok((Self { driver, connections }, address))
    }

    /// The node that it drives.
    pub(super) fn node(&self) -> Arc<SharedNode> {
        self.connections.node.clone()
    }

    /// Runs until the node and all its connections are dropped, or its socket fails.
    pub(super) fn run(self) {
        let Self { mut driver, mut connections } = self;
        loop {
            if let Err(error) = driver.run_once(&mut connections, MAX_SLEEP) {
                connections.fail(&driver, &error);
                return;
            }
            for connection in connections.node.take_queued() {
                connections.serve(&mut driver, &connection);
            }
            connections.settle(&mut driver);
            // Only this thread holds the shared state: neither the node nor a connection is left.
            if connections.node.is_closing()
                && Arc::strong_count(&connections.node) == 1
                && driver.connections().next().is_none()
            {
                return;
            }
        }
    }
}

/// The connections of a node, as its thread sees them.
struct Connections {
    node: Arc<SharedNode>,
    clock: Clock,
    calling: Vec<(ConnectionId, Arc<SharedConnection>)>,
}

/// Notes by size of message what has arrived, once a flow of messages is over.
fn note_sizes(session: &ConnectionSession, buffers: &mut Buffers) {
    if buffers.outgoing.finished
        && buffers.outgoing.by_size.is_none()
        && let Some(AnyTransport::AtpSender(sender)) = session.sender()
    {
        buffers.outgoing.by_size = Some(sender.by_size());
        buffers.wake();
    }
}

impl Connections {
    /// Does what an application wants.
    fn serve(&mut self, driver: &mut ConnectionDriver, shared: &Arc<SharedConnection>) {
        let mut buffers = shared.lock();
        buffers.wanted.queued = false;
        let Some(connection) = buffers.connection else {
            if buffers.status == Status::Calling && !buffers.wanted.abandoned {
                let content = if buffers.carries_messages() { MESSAGES } else { STREAM };
                let flow = self.node.flow();
                let opening = Opening { offers: flow.offers(), mtu: flow.mtu, content: content.to_vec() };
                match driver.connect(buffers.peer, &opening.encode()) {
                    Ok(connection) => {
                        buffers.connection = Some(connection);
                        self.calling.push((connection, shared.clone()));
                    }
                    Err(error) => {
                        buffers.close(Closed::Failed(error.to_string()));
                    }
                }
            }
            return;
        };
        if buffers.status != Status::Open {
            return;
        }
        let wanted = &mut buffers.wanted;
        let mut commands = Vec::new();
        let send = std::mem::take(&mut wanted.send);
        commands.extend((send > 0).then_some(Command::Send { bytes: send }));
        commands.extend(wanted.announce.take().map(|messages| Command::AnnounceMessages { messages }));
        commands.extend(wanted.messages.drain(..).map(|bytes| Command::SendMessage { bytes }));
        commands.extend(wanted.contract.take().iter().flat_map(Command::of_contract));
        commands.extend(std::mem::take(&mut wanted.finish).then_some(Command::Finish));
        let consume = std::mem::take(&mut wanted.consume);
        buffers.incoming.consumed(consume);
        drop(buffers);
        for command in commands {
            driver.command(connection, command);
        }
        if consume > 0 {
            driver.command_incoming(connection, Command::Consume { bytes: consume });
        }
    }

    /// Notes what transports have counted, and closes what nobody holds and has sent all.
    fn settle(&mut self, driver: &mut ConnectionDriver) {
        let mut over = Vec::new();
        for connection in driver.connections() {
            let Some(session) = driver.session(connection) else { continue };
            let mut buffers = session.application.0.lock();
            buffers.sender = session.sender_statistics();
            buffers.receiver = session.receiver_statistics();
            if buffers.incoming.ended
                && buffers.incoming.delivery.is_none()
                && let Some(AnyTransport::AtpReceiver(receiver)) = session.receiver()
                && let Some(report) = receiver.report()
            {
                let missing = report.missing().collect();
                buffers.incoming.delivery =
                    Some(Delivery { messages: report.messages, delivered: report.delivered, missing });
                buffers.wake();
            }
            note_sizes(session, &mut buffers);
            let sent = !buffers.outgoing.finish || buffers.outgoing.finished;
            if buffers.wanted.abandoned && sent {
                over.push(connection);
            }
        }
        self.calling.retain(|(connection, shared)| {
            let abandoned = shared.lock().wanted.abandoned;
            if abandoned {
                over.push(*connection);
            }
            !abandoned
        });
        // The peers are told; a socket that fails is noticed in the next iteration.
        while let Some(overdue) = self.node.take_overdue(self.clock.now()) {
            let connection = overdue.lock().connection;
            if let Some(connection) = connection {
                let _ = driver.close(connection, 1, "nobody has accepted it in time");
            }
        }
        for connection in over {
            let _ = driver.close(connection, 0, "");
        }
    }

    /// The socket has failed: everybody is told.
    fn fail(&mut self, driver: &ConnectionDriver, error: &io::Error) {
        let why = format!("the socket has failed: {error}");
        let sessions = driver.connections().filter_map(|connection| driver.session(connection));
        let standing = sessions.map(|session| session.application.0.clone());
        for shared in standing.chain(self.calling.drain(..).map(|(_, shared)| shared)) {
            shared.lock().close(Closed::Failed(why.clone()));
        }
        self.node.fail(&why);
    }

    /// A session of a new connection, both ways for a stream.
    fn session(
        &self,
        shared: &Arc<SharedConnection>,
        protocol: Protocol,
        mtu: u16,
        calls: bool,
    ) -> Option<ConnectionSession> {
        let mut buffers = shared.lock();
        let (flow, path) = (self.node.flow(), self.node.settings().path_to(buffers.peer));
        let session = Session::new(BufferedApplication(shared.clone()));
        let sender = || flow.sender(protocol, path, None, self.clock.phase_ps(flow.reflex_cycle()));
        let receiver = || flow.receiver(protocol, path, mtu, 0);
        let session = match (protocol, calls) {
            (Protocol::Tcp, _) => session.sending(sender().ok()?, flow.contract.max_rate).receiving(receiver()),
            (Protocol::Atp, true) => session.sending(sender().ok()?, flow.contract.max_rate),
            (Protocol::Atp, false) => session.receiving(receiver()),
            _ => return None,
        };
        buffers.protocol = Some(protocol);
        buffers.status = Status::Open;
        buffers.wake();
        drop(buffers);
        Some(session)
    }

    fn check_opening(opening: &[u8]) -> Result<(Opening, Protocol, bool), String> {
        let opening = Opening::decode(opening).ok_or("the connection does not begin as this program's do")?;
        let (protocol, messages) = match &opening.content[..] {
            STREAM => (Protocol::Tcp, false),
            MESSAGES => (Protocol::Atp, true),
            _ => return Err("neither a stream nor messages".into()),
        };
        if !opening.offers.contains(&protocol) {
            return Err("no transport that both sides have".into());
        }
        Ok((opening, protocol, messages))
    }
}

impl ConnectionHandler<AnyTransport, BufferedApplication> for Connections {
    fn answer(&mut self, caller: Caller<'_>, opening: &[u8]) -> Result<Vec<u8>, String> {
        require_right(caller.rights().open, "open streams")?;
        if self.node.is_closing() {
            return Err("it is about to end".into());
        }
        let (_, protocol, messages) = Self::check_opening(opening)?;
        if self.node.is_backlog_full(messages, caller.from.ip()) {
            return Err("too many wait to be accepted".into());
        }
        Ok(Answer { protocol, unix_ns: realtime_ns(), note: 0 }.encode())
    }

    fn open(&mut self, now: Instant, connection: ConnectionId, event: Event) -> Option<ConnectionSession> {
        match event {
            Event::Connected { answer } => {
                let at = self.calling.iter().position(|(calling, _)| *calling == connection)?;
                let (_, shared) = self.calling.swap_remove(at);
                let offers = self.node.flow().offers();
                let answer = Answer::decode(&answer).filter(|answer| offers.contains(&answer.protocol));
                let session =
                    answer.and_then(|answer| self.session(&shared, answer.protocol, self.node.flow().mtu, true));
                if session.is_none() {
                    shared.lock().close(Closed::Failed("it answers as no node does".into()));
                }
                session
            }
            Event::Accepted { from, opening, .. } => {
                let (opening, protocol, messages) = Self::check_opening(&opening).ok()?;
                let shared = Arc::new(SharedConnection::new(from, self.node.flow().receive_buffer, messages));
                shared.lock().connection = Some(connection);
                let session = self.session(&shared, protocol, opening.mtu, false)?;
                self.node.add_to_backlog(now, shared, messages, from.ip()).then_some(session)
            }
            Event::Closed(_) | Event::Notice(_) | Event::Moved { .. } | Event::OwnMove => None,
        }
    }

    fn closed(&mut self, connection: ConnectionId, session: Option<ConnectionSession>, why: Closed) {
        let calling = self.calling.iter().position(|(calling, _)| *calling == connection);
        let calling = calling.map(|at| self.calling.swap_remove(at).1);
        // A peer that has all it wants may close in the iteration in which the flow ends.
        if let Some(session) = &session {
            note_sizes(session, &mut session.application.0.lock());
        }
        for shared in session.map(|session| session.application.0).into_iter().chain(calling) {
            shared.lock().close(why.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::task::{Context, Poll, Wake, Waker};

    use super::*;
    use crate::api::handle::Handle;

    /// Counts how often it was woken.
    #[derive(Default)]
    struct Count(AtomicU32);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn open() -> NodeDriver {
        NodeDriver::open(([127, 0, 0, 1], 0).into(), Settings::default(), true).unwrap().0
    }

    fn call(node: &Arc<SharedNode>) -> Handle {
        let shared = Arc::new(SharedConnection::new(([127, 0, 0, 1], 9).into(), 1000, false));
        let handle = Handle::new(node.clone(), shared);
        handle.queue();
        handle
    }

    /// A socket that fails ends the thread, and everybody hears why: who waits for a connection, who called before the
    /// thread looked and after it did, and who comes when it is gone.
    #[test]
    fn everybody_hears_of_a_socket_that_failed() {
        let mut driver = open();
        let node = driver.node();
        let count = Arc::new(Count::default());
        let waker = Waker::from(count.clone());
        let mut context = Context::from_waker(&waker);
        let mut accepts = [false, true].map(|messages| Box::pin(node.accept(messages)));
        assert!(accepts.iter_mut().all(|accept| accept.as_mut().poll(&mut context).is_pending()));
        let called = call(&node);
        for connection in node.take_queued() {
            driver.connections.serve(&mut driver.driver, &connection);
        }
        let queued = call(&node);
        assert!([&called, &queued].iter().all(|handle| handle.poll_open(&context).is_pending()));
        driver.driver.break_socket();
        driver.run();
        assert_eq!(count.0.load(Ordering::Relaxed), 4, "each was woken");
        let says = |error: &io::Error| assert!(error.to_string().starts_with("the socket has failed: "), "{error}");
        for accept in &mut accepts {
            let Poll::Ready(Err(error)) = accept.as_mut().poll(&mut context) else { panic!("it waits for ever") };
            says(&error);
        }
        for handle in [called, queued, call(&node)] {
            let Poll::Ready(Err(error)) = handle.poll_open(&context) else { panic!("it waits for ever") };
            says(&error);
        }
        let Poll::Ready(Err(error)) = pin!(node.accept(false)).poll(&mut context) else { panic!("it waits for ever") };
        says(&error);
    }
}
