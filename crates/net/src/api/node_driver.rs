//! A node's thread: it drives the socket and serves what applications want.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::time::Duration;

use pliant_proto::contract::Contract;
use pliant_proto::time::Instant;
use pliant_proto::transport::Command;
use pliant_proto::transport::any::{AnyAnswer, AnyTransport};

use super::buffers::{BufferedApplication, Buffers, SharedConnection, Status};
use super::report::Delivery;
use super::shared_node::SharedNode;
use crate::bundle::{
    BundleApplication, BundleDriver, BundleSession, BundleStatus, NodeApplication, SharedBundle, produce_all,
    take_called,
};
use crate::clock::{Clock, realtime_ns};
use crate::connection::{Caller, Closed, ConnectionId, Event, require_right};
use crate::driver::{ConnectionHandler, Session};
use crate::flow::{Answer, FlowSettings, Opening, Protocol};
use crate::poll::PollWaker;
use crate::transfer::Settings;

/// What the content of an opening is.
const STREAM: &[u8] = b"stream";
const MESSAGES: &[u8] = b"messages";
const BUNDLE: &[u8] = b"bundle";
/// How long the thread sleeps at most.
const MAX_SLEEP: Duration = Duration::from_secs(1);

/// The node's thread's side.
pub(super) struct NodeDriver {
    driver: BundleDriver,
    connections: Connections,
}

/// What a caller wants.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wants {
    Stream,
    Messages,
    Bundle,
}

impl NodeDriver {
    /// A driver on a socket bound to `address`, and the address that it got.
    pub(super) fn open(address: SocketAddr, mut settings: Settings, accepts: bool) -> io::Result<(Self, SocketAddr)> {
        let waker = PollWaker::new()?;
        let (mut driver, buffer): (BundleDriver, _) = settings.driver(address, accepts)?;
        settings.flow.receive_buffer = settings.flow.receive_buffer.min(buffer as u64 / 2);
        driver.set_waker(waker.clone());
        let address = driver.local_address()?;
        let node = Arc::new(SharedNode::new(waker, settings));
        let connections = Connections { node, clock: driver.clock(), calling: Vec::new(), calling_bundles: Vec::new() };
        Ok((Self { driver, connections }, address))
    }

    /// The node that it drives.
    pub(super) fn node(&self) -> Arc<SharedNode> {
        self.connections.node.clone()
    }

    /// Runs until the node and all its connections are dropped, or its socket fails.
    pub(super) fn run(self) {
        let Self { mut driver, mut connections } = self;
        let _end = Parting(Arc::downgrade(&connections.node));
        loop {
            let closing = connections.node.is_closing();
            if let Err(error) = driver.run_once(&mut connections, MAX_SLEEP) {
                connections.fail(&driver, &error);
                return;
            }
            for connection in connections.node.take_queued() {
                connections.serve(&mut driver, &connection);
            }
            connections.settle(&mut driver);
            connections.follow_schedule(&mut driver);
            if closing {
                connections.node.part();
            }
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

/// However the thread ends, nobody waits for it any more.
struct Parting(Weak<SharedNode>);

impl Drop for Parting {
    fn drop(&mut self) {
        if let Some(node) = self.0.upgrade() {
            node.part();
        }
    }
}

/// The connections of a node, as its thread sees them.
struct Connections {
    node: Arc<SharedNode>,
    clock: Clock,
    calling: Vec<(ConnectionId, Arc<SharedConnection>)>,
    calling_bundles: Vec<(ConnectionId, Arc<SharedBundle>)>,
}

/// Notes by size of message what has arrived, once a flow of messages is over.
fn note_sizes(session: &BundleSession, buffers: &mut Buffers) {
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
    fn serve(&mut self, driver: &mut BundleDriver, shared: &Arc<SharedConnection>) {
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
        let Buffers { wanted, deadline, contract, .. } = &mut *buffers;
        let mut commands = Vec::new();
        commands.extend(wanted.size.take().map(Command::SetSize));
        commands.extend(deadline.take_command(driver.now()));
        let send = std::mem::take(&mut wanted.send);
        commands.extend((send > 0).then_some(Command::Send { bytes: send }));
        commands.extend(wanted.announce.take().map(|messages| Command::AnnounceMessages { messages }));
        commands.extend(wanted.messages.drain(..).map(|bytes| Command::SendMessage { bytes }));
        let changed = contract.filter(|_| std::mem::take(&mut wanted.contract));
        commands.extend(changed.iter().flat_map(|contract| self.bounds(contract)));
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

    /// The commands that give a flow under this contract what it is now.
    fn bounds(&self, contract: &Contract) -> [Command<AnyAnswer>; 4] {
        Command::of_bounds(&self.node.day().contract(contract))
    }

    /// Gives flows that run the contract of this time of day, when another part of the schedule begins.
    fn follow_schedule(&mut self, driver: &mut BundleDriver) {
        if !self.node.day().read(driver.now()) {
            return;
        }
        let of_node = self.node.flow().contract;
        let contract = |session: &BundleSession| match &session.application {
            NodeApplication::Buffered(application) => application.0.lock().contract.unwrap_or(of_node),
            NodeApplication::Bundle(application) => application.bundle.lock().contract,
        };
        let standing = driver.connections().filter_map(|id| driver.session(id).map(|session| (id, contract(session))));
        for (connection, contract) in standing.collect::<Vec<_>>() {
            for command in self.bounds(&contract) {
                driver.command(connection, command);
            }
        }
    }

    /// Notes what transports have counted, and closes what nobody holds and has sent all.
    fn settle(&mut self, driver: &mut BundleDriver) {
        let mut over = Vec::new();
        for connection in driver.connections() {
            let Some(session) = driver.session(connection) else { continue };
            let NodeApplication::Buffered(application) = &session.application else { continue };
            let mut buffers = application.0.lock();
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
        while let Some(overdue) = self.node.take_overdue_bundle(self.clock.now()) {
            let why = "nobody has accepted it in time";
            if let Some(connection) = { overdue.lock().connection } {
                let _ = driver.close(connection, 1, why);
            }
            self.end_bundle(&overdue, Closed::Failed(why.into()));
        }
        for connection in over {
            let _ = driver.close(connection, 0, "");
        }
    }

    /// Calls for bundles, tells transports of contracts that have changed, and gives them what there is to send.
    fn serve_bundles(&mut self, driver: &mut BundleDriver) {
        if self.node.bundles().lock().is_empty() {
            return;
        }
        for bundle in self.node.bundles().take_queued() {
            let mut state = bundle.lock();
            state.queued = false;
            let (closing, calling) = (state.closing, matches!(state.status, BundleStatus::Calling));
            let changed = std::mem::take(&mut state.changed).then_some(state.contract);
            let connection = state.connection;
            drop(state);
            match connection {
                Some(connection) if closing => {
                    // The peer is told; a socket that fails is noticed in the next iteration.
                    let _ = driver.close(connection, 0, "");
                    take_called(&mut self.calling_bundles, connection);
                    self.end_bundle(&bundle, Closed::Failed("it was closed".into()));
                }
                Some(connection) => {
                    for command in changed.iter().flat_map(|contract| self.bounds(contract)) {
                        driver.command(connection, command);
                    }
                }
                None if closing => self.end_bundle(&bundle, Closed::Failed("it was closed".into())),
                None if calling => match self.call_for_bundle(driver, &bundle) {
                    Ok(connection) => self.calling_bundles.push((connection, bundle)),
                    Err(why) => self.end_bundle(&bundle, Closed::Failed(why)),
                },
                None => {}
            }
        }
        for (connection, bundle) in produce_all(driver, |_, _| ()) {
            let _ = driver.close(connection, 0, "");
            self.end_bundle(&bundle, Closed::Failed("nobody holds it any more".into()));
        }
    }

    fn call_for_bundle(&self, driver: &mut BundleDriver, bundle: &SharedBundle) -> Result<ConnectionId, String> {
        let flow = self.node.flow();
        let opening = Opening { offers: flow.offers(), mtu: flow.mtu, content: BUNDLE.to_vec() };
        let connection = driver.connect(bundle.key.0, &opening.encode()).map_err(|error| error.to_string())?;
        let mut state = bundle.lock();
        (state.connection, state.peer) = (Some(connection), driver.identity(connection));
        // A peer whose key gives it no right to open streams opens none.
        if !state.peer_may_open() {
            state.multiplexer.take_no_streams();
        }
        Ok(connection)
    }

    /// A bundle's connection is over.
    fn end_bundle(&self, bundle: &SharedBundle, why: Closed) {
        bundle.close(why, self.node.bundles());
        self.node.bundles().lock().remove(bundle);
    }

    /// The session of a bundle whose peer sends packets of `mtu` bytes.
    fn session_of_bundle(&self, bundle: &Arc<SharedBundle>, mtu: u16) -> Option<BundleSession> {
        let mut state = bundle.lock();
        let contract = self.node.day().contract(&state.contract);
        let flow = FlowSettings { contract, auto_consume: true, ..self.node.flow().clone() };
        let path = self.node.settings().path_to(bundle.key.0);
        let sender = flow.sender(Protocol::Tcp, path, None, self.clock.phase_ps(flow.reflex_cycle())).ok()?;
        let receiver = flow.receiver(Protocol::Tcp, path, mtu, 0);
        state.open();
        drop(state);
        let application = BundleApplication { bundle: bundle.clone(), bundles: self.node.bundles().clone() };
        let session = Session::new(NodeApplication::Bundle(application));
        Some(session.sending(sender, flow.contract.max_rate).receiving(receiver))
    }

    /// The session of a peer's bundle, which waits to be accepted.
    fn accept_bundle(
        &self,
        now: Instant,
        connection: ConnectionId,
        from: SocketAddr,
        mtu: u16,
    ) -> Option<BundleSession> {
        let bundle = self.node.new_bundle(from, &self.node.flow().contract, false).ok()?;
        bundle.lock().connection = Some(connection);
        let session = self.session_of_bundle(&bundle, mtu)?;
        self.node.add_bundle(&bundle);
        if !self.node.add_to_bundle_backlog(now, bundle.clone(), from.ip()) {
            self.end_bundle(&bundle, Closed::Failed("too many wait to be accepted".into()));
            return None;
        }
        Some(session)
    }

    /// The socket has failed: everybody is told.
    fn fail(&mut self, driver: &BundleDriver, error: &io::Error) {
        let why = format!("the socket has failed: {error}");
        let sessions = driver.connections().filter_map(|connection| driver.session(connection));
        let standing = sessions.filter_map(|session| match &session.application {
            NodeApplication::Buffered(application) => Some(application.0.clone()),
            NodeApplication::Bundle(_) => None,
        });
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
    ) -> Option<BundleSession> {
        let mut buffers = shared.lock();
        let contract = self.node.day().contract(&self.node.flow().contract);
        let flow = FlowSettings { contract, ..self.node.flow().clone() };
        let path = self.node.settings().path_to(buffers.peer);
        let session = Session::new(NodeApplication::Buffered(BufferedApplication(shared.clone())));
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

    fn check_opening(opening: &[u8]) -> Result<(Opening, Protocol, Wants), String> {
        let opening = Opening::decode(opening).ok_or("the connection does not begin as this program's do")?;
        let (protocol, wants) = match &opening.content[..] {
            STREAM => (Protocol::Tcp, Wants::Stream),
            MESSAGES => (Protocol::Atp, Wants::Messages),
            BUNDLE => (Protocol::Tcp, Wants::Bundle),
            _ => return Err("neither a stream, nor messages, nor a bundle".into()),
        };
        if !opening.offers.contains(&protocol) {
            return Err("no transport that both sides have".into());
        }
        Ok((opening, protocol, wants))
    }
}

impl ConnectionHandler<AnyTransport, NodeApplication> for Connections {
    fn answer(&mut self, caller: Caller<'_>, opening: &[u8]) -> Result<Vec<u8>, String> {
        require_right(caller.rights().open, "open streams")?;
        if self.node.is_closing() {
            return Err("it is about to end".into());
        }
        let (_, protocol, wants) = Self::check_opening(opening)?;
        let full = match wants {
            Wants::Stream | Wants::Messages => self.node.is_backlog_full(wants == Wants::Messages, caller.from.ip()),
            Wants::Bundle => self.node.is_bundle_backlog_full(caller.from.ip()),
        };
        if full {
            return Err("too many wait to be accepted".into());
        }
        Ok(Answer { protocol, unix_ns: realtime_ns(), note: 0 }.encode())
    }

    fn open(&mut self, now: Instant, connection: ConnectionId, event: Event) -> Option<BundleSession> {
        match event {
            Event::Connected { answer } => {
                if let Some(bundle) = take_called(&mut self.calling_bundles, connection) {
                    let answer = Answer::decode(&answer).filter(|answer| answer.protocol == Protocol::Tcp);
                    let session = answer.and_then(|_| self.session_of_bundle(&bundle, self.node.flow().mtu));
                    if session.is_none() {
                        self.end_bundle(&bundle, Closed::Failed("it answers as no node does".into()));
                    }
                    return session;
                }
                let shared = take_called(&mut self.calling, connection)?;
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
                let (opening, protocol, wants) = Self::check_opening(&opening).ok()?;
                if wants == Wants::Bundle {
                    return self.accept_bundle(now, connection, from, opening.mtu);
                }
                let messages = wants == Wants::Messages;
                let shared = Arc::new(self.node.connection(from, messages));
                shared.lock().connection = Some(connection);
                let session = self.session(&shared, protocol, opening.mtu, false)?;
                self.node.add_to_backlog(now, shared, messages, from.ip()).then_some(session)
            }
            Event::Closed(_) | Event::Notice(_) | Event::HostReport(_) | Event::Moved { .. } | Event::OwnMove => None,
        }
    }

    /// Has the transports of bundles send what there is.
    fn received(&mut self, driver: &mut BundleDriver) {
        self.serve_bundles(driver);
    }

    fn closed(&mut self, connection: ConnectionId, session: Option<BundleSession>, why: Closed) {
        if let Some(bundle) = take_called(&mut self.calling_bundles, connection) {
            self.end_bundle(&bundle, why.clone());
        }
        let calling = take_called(&mut self.calling, connection);
        // A peer that has all it wants may close in the iteration in which the flow ends.
        let standing = session.and_then(|session| {
            match &session.application {
                NodeApplication::Buffered(application) => note_sizes(&session, &mut application.0.lock()),
                NodeApplication::Bundle(application) => self.end_bundle(&application.bundle, why.clone()),
            }
            match session.application {
                NodeApplication::Buffered(application) => Some(application.0),
                NodeApplication::Bundle(_) => None,
            }
        });
        for shared in standing.into_iter().chain(calling) {
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
        let shared = Arc::new(SharedConnection::new(([127, 0, 0, 1], 9).into(), 1000, 1000, false));
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
        let bundle = node.new_bundle(([127, 0, 0, 1], 9).into(), &Contract::default(), true).unwrap();
        node.add_bundle(&bundle);
        driver.connections.serve_bundles(&mut driver.driver);
        assert!(bundle.lock().poll_open(&context).is_pending());
        let mut accept_bundle = pin!(node.accept_bundle());
        assert!(accept_bundle.as_mut().poll(&mut context).is_pending());
        let queued = call(&node);
        assert!([&called, &queued].iter().all(|handle| handle.poll_open(&context).is_pending()));
        driver.driver.break_socket();
        driver.run();
        assert_eq!(count.0.load(Ordering::Relaxed), 6, "each was woken");
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
        let Poll::Ready(Err(error)) = accept_bundle.as_mut().poll(&mut context) else { panic!("it waits for ever") };
        says(&error);
        let later = node.new_bundle(([127, 0, 0, 1], 9).into(), &Contract::default(), true).unwrap();
        node.add_bundle(&later);
        for bundle in [bundle, later] {
            let Poll::Ready(Err(error)) = bundle.lock().poll_open(&context) else { panic!("it waits for ever") };
            says(&error);
        }
    }
}
