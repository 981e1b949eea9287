//! A node: one socket, its bundles, and the thread that drives them.

use std::io;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use pliant_proto::time::Instant;
use pliant_proto::transport::Command;
use pliant_proto::transport::any::AnyTransport;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::application::{BundleApplication, BundleDriver, BundleSession, NodeApplication, produce_all, take_called};
use super::class::{BundleClass, invalid};
use super::frame::MAX_HEADER_BYTES;
use super::message_flows::{MessageCall, MessageFlow, MessageToken};
use super::messages::{ExpectedMessages, IncomingMessages};
use super::multiplexer::Multiplexer;
use super::mutex::lock;
use super::relays::Relays;
use super::report::{BundleEnd, BundleReport};
use super::shared::{BundleStatus, SharedBundle, SharedBundles};
use super::stream::{AcceptedStreams, BundleStream};
use crate::api::buffers::{BufferedApplication, Status};
use crate::clock::{Clock, realtime_ns};
use crate::connection::{Caller, Closed, ConnectionId, Event, Keys, Peer, require_right};
use crate::driver::{ConnectionHandler, Session};
use crate::entropy;
use crate::flow::{Answer, FlowSettings, Opening, Protocol};
use crate::poll::PollWaker;
use crate::socket::{canonical, known_at};
use crate::transfer::Settings;

/// How the content of an opening begins; the name of a class follows.
const BUNDLE: &[u8] = b"bundle ";
/// How long the thread sleeps at most.
const MAX_SLEEP: Duration = Duration::from_millis(250);

/// What of a node changes while it runs.
#[derive(Clone, Debug)]
pub struct NodeChange {
    /// All classes from now on.
    pub classes: Vec<BundleClass>,
    /// The keys: of the same kind as before, and its own the same.
    pub keys: Keys,
    /// Which peer is called at an address, by its name in the key file.
    pub called: Vec<(SocketAddr, String)>,
}

/// A socket with a thread of its own and the bundles on it. The thread ends when it is dropped.
pub struct BundleNode {
    shared: Arc<SharedBundles>,
    settings: Settings,
    address: SocketAddr,
    stop: Arc<std::sync::atomic::AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Drop for BundleNode {
    fn drop(&mut self) {
        self.stop.store(true, std::sync::atomic::Ordering::Relaxed);
        self.shared.waker.wake();
        if let Some(thread) = self.thread.take() {
            // A thread that has panicked has said so.
            let _ = thread.join();
        }
    }
}

impl BundleNode {
    /// A node on `address`, port 0 for any free one, with these classes. The peers' streams come out of the second value.
    ///
    /// # Errors
    ///
    /// If a class cannot carry streams, or there is no such socket.
    pub fn bind(
        address: SocketAddr,
        settings: Settings,
        classes: Vec<BundleClass>,
    ) -> io::Result<(Self, AcceptedStreams)> {
        settings.check(address).map_err(invalid)?;
        for class in &classes {
            class.check()?;
        }
        let waker = PollWaker::new()?;
        let (accepted, streams) = unbounded_channel();
        let shared = Arc::new(SharedBundles::new(waker, Some(accepted), classes));
        let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let (report, made) = std::sync::mpsc::sync_channel(1);
        let called = all_known_at(address, settings.called);
        let settings = Settings { called, ..settings };
        let thread = NodeThread { shared: shared.clone(), settings: settings.clone(), stop: stop.clone() };
        // The driver is made where it runs: transports may share what belongs to an object, and stay in their thread.
        let work = move || thread.run(address, &report);
        let thread = std::thread::Builder::new().name("pliant-bundles".into()).spawn(work)?;
        let address = made.recv().map_err(io::Error::other)??;
        let accepted = AcceptedStreams::new(shared.clone(), streams);
        Ok((Self { shared, settings, address, stop, thread: Some(thread) }, accepted))
    }

    /// The socket's address.
    pub fn local_address(&self) -> SocketAddr {
        self.address
    }

    /// Opens a stream of a class to a peer, which is called if there is no bundle to it. It can be written at once; that
    /// the peer does not answer shows in the stream.
    ///
    /// # Errors
    ///
    /// If there is no such class, no way to the peer, the header is longer than [`MAX_HEADER_BYTES`], or the node has ended.
    pub fn open(&self, peer: SocketAddr, class: &str, header: Vec<u8>) -> io::Result<BundleStream> {
        self.settings.check(canonical(peer)).map_err(invalid)?;
        let peer = known_at(self.address, peer);
        if header.len() > MAX_HEADER_BYTES {
            return Err(invalid("the header of a stream is too long"));
        }
        let known = self.shared.class(class);
        let known = known.ok_or_else(|| invalid(format!("there is no class {class}")))?;
        let mut bundles = self.shared.lock();
        if let Some(error) = self.shared.failure() {
            return Err(error);
        }
        let key = (peer, class.to_owned());
        let usable = |bundle: &&Arc<SharedBundle>| bundle.lock().takes_streams();
        let standing = bundles.current.get(&key).filter(usable).cloned();
        let bundle = standing.unwrap_or_else(|| {
            let multiplexer = Multiplexer::new(known.multiplexer(true));
            let (number, contract) = (bundles.next_number(), known.flow.contract);
            let bundle = SharedBundle::new(number, key, multiplexer, BundleStatus::Calling, contract);
            bundles.insert(bundle.clone());
            bundle
        });
        // Under the lock, or the bundle could be retired and end before it has its stream.
        let stream = bundle.lock().multiplexer.open(header);
        drop(bundles);
        self.shared.queue(&bundle);
        Ok(BundleStream::new(self.shared.clone(), bundle, stream))
    }

    /// Expects receivers of messages of a class, from whoever is told the token.
    ///
    /// # Errors
    ///
    /// If there is no such class, or the system gives no random numbers.
    pub fn expect_messages(&self, class: &str) -> io::Result<ExpectedMessages> {
        self.shared.class(class).ok_or_else(|| invalid(format!("there is no class {class}")))?;
        let token = *entropy::seed()?.first_chunk().expect("a seed is longer than a token");
        Ok(ExpectedMessages::new(self.shared.clone(), token, class.to_owned()))
    }

    /// Calls a peer that expects receivers of messages; `number` tells this flow from others of the same token. That the peer
    /// does not answer shows in the flow.
    ///
    /// # Errors
    ///
    /// If there is no such class, or no way to the peer.
    pub fn call_for_messages(
        &self,
        peer: SocketAddr,
        class: &str,
        token: MessageToken,
        number: u32,
    ) -> io::Result<IncomingMessages> {
        self.settings.check(canonical(peer)).map_err(invalid)?;
        let peer = known_at(self.address, peer);
        let known = self.shared.class(class).ok_or_else(|| invalid(format!("there is no class {class}")))?;
        let call = MessageCall { token, number, class: class.to_owned() };
        Ok(IncomingMessages::call(self.shared.clone(), call, peer, known.flow.receive_buffer))
    }

    /// Payload bytes of a packet of messages of a class to a peer; `None` if there is no such class.
    pub fn message_payload(&self, peer: SocketAddr, class: &str) -> Option<usize> {
        let class = self.shared.class(class)?;
        let peer = known_at(self.address, peer);
        Some(usize::from(self.settings.path_to(peer).payload(class.flow.mtu)))
    }

    /// Changes classes, keys and names while streams go on. A class that differs in its weight, its greatest rate or its
    /// limits changes at once. Where anything else of it differs, or it is gone, bundles of it carry their streams to
    /// their end as they are, and new streams begin in a new bundle, or not at all.
    ///
    /// # Errors
    ///
    /// If a class cannot carry streams, or the keys cannot change so. Then all stays as it was.
    pub fn change(&self, change: NodeChange) -> io::Result<()> {
        let NodeChange { classes, keys, called } = change;
        for class in &classes {
            class.check()?;
        }
        self.settings.keys.check_change(&keys).map_err(invalid)?;
        self.shared.put_keys(keys, all_known_at(self.address, called));
        let old = self.shared.set_classes(classes);
        let mut bundles = self.shared.lock();
        for bundle in bundles.all() {
            let (before, after) = (find(&old, &bundle.key.1), self.shared.class(&bundle.key.1));
            let mut state = bundle.lock();
            match (before, after) {
                (Some(before), Some(after)) if before.changes_live_to(&after) => {
                    let max_streams = if state.peer_may_open() { after.max_streams } else { 0 };
                    state.multiplexer.set_limits(max_streams, after.window_budget, after.max_unread);
                    (state.contract, state.changed) = (after.flow.contract, true);
                }
                (before, after) => {
                    if after.is_none() {
                        state.multiplexer.set_limits(0, 0, before.map_or(0, |class| class.max_unread));
                    }
                    state.retired = true;
                    drop(state);
                    bundles.remove_current(&bundle);
                }
            }
        }
        for bundle in bundles.all() {
            self.shared.queue(&bundle);
        }
        Ok(())
    }

    /// The bundles that end from now on while they carry streams, and not by their peer's word. Who asks again takes the
    /// place of who did before.
    pub fn follow_ends(&self) -> UnboundedReceiver<BundleEnd> {
        let (ends, follows) = unbounded_channel();
        self.shared.follow_ends(ends);
        follows
    }

    /// Whether every peer that has answered has all that was said to it, and no stream is open to it.
    pub fn is_idle(&self) -> bool {
        let idle = |bundle: &Arc<SharedBundle>| {
            let state = bundle.lock();
            !matches!(state.status, BundleStatus::Open) || state.multiplexer.is_over()
        };
        self.shared.lock().all().iter().all(idle)
    }

    /// The classes.
    pub fn classes(&self) -> Arc<[BundleClass]> {
        self.shared.classes()
    }

    /// How every bundle stands, in the order of peers and classes.
    pub fn reports(&self) -> Vec<BundleReport> {
        let report = |bundle: Arc<SharedBundle>| {
            let state = bundle.lock();
            let (peer, class) = bundle.key.clone();
            BundleReport {
                number: bundle.number,
                peer: canonical(peer),
                address: canonical(state.address),
                name: state.peer_name(),
                class,
                open: matches!(state.status, BundleStatus::Open),
                retired: state.retired,
                streams: state.multiplexer.streams(),
                held_bytes: state.multiplexer.held_bytes(),
                unsent_bytes: state.multiplexer.unsent_bytes(),
                counts: state.multiplexer.counts(),
                sender: state.sender,
                receiver: state.receiver,
                path: state.path,
            }
        };
        let all = self.shared.lock().all();
        let mut reports: Vec<_> = all.into_iter().map(report).collect();
        reports.sort_by(|a, b| (a.peer, &a.class, a.number).cmp(&(b.peer, &b.class, b.number)));
        reports
    }
}

fn all_known_at(own: SocketAddr, called: Vec<(SocketAddr, String)>) -> Vec<(SocketAddr, String)> {
    called.into_iter().map(|(peer, name)| (known_at(own, peer), name)).collect()
}

/// What a caller that wants messages says; nothing if it wants something else.
fn message_call(opening: &[u8]) -> Option<MessageCall> {
    let opening = Opening::decode(opening).filter(|opening| opening.offers.contains(&Protocol::Atp))?;
    MessageCall::read(&opening.content)
}

fn find<'c>(classes: &'c [BundleClass], name: &str) -> Option<&'c BundleClass> {
    classes.iter().find(|class| class.name == name)
}

/// What the thread of a node begins with.
struct NodeThread {
    shared: Arc<SharedBundles>,
    settings: Settings,
    stop: Arc<std::sync::atomic::AtomicBool>,
}

impl NodeThread {
    fn run(self, address: SocketAddr, report: &std::sync::mpsc::SyncSender<io::Result<SocketAddr>>) {
        let opened = self.settings.driver::<AnyTransport, NodeApplication>(address, true);
        let (mut driver, buffer) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                _ = report.send(Err(error));
                return;
            }
        };
        driver.set_waker(self.shared.waker.clone());
        let relays = match Relays::new(self.shared.clone()) {
            Ok(relays) => relays,
            Err(error) => {
                _ = report.send(Err(error));
                return;
            }
        };
        driver.wait_for_also(relays.file());
        _ = report.send(driver.local_address());
        let clock = driver.clock();
        let receive_buffer = buffer as u64 / 2;
        let (calling, calling_messages) = (Vec::new(), Vec::new());
        let mut connections =
            Connections { thread: &self, clock, receive_buffer, calling, calling_messages, relays, failure: None };
        // Without it everybody would wait for a thread that is gone.
        let ran = catch_unwind(AssertUnwindSafe(|| self.drive(&mut driver, &mut connections)));
        let why = Closed::Failed(ran.unwrap_or_else(|_| "the node's thread has panicked".into()));
        // First what needs nothing of the driver: after a panic it may panic again.
        self.shared.close_all(&why);
        connections.end_messages(&driver, &why);
        let here: Vec<ConnectionId> = driver.connections().collect();
        for connection in here {
            let _ = driver.close(connection, 0, "the daemon ends");
        }
    }

    /// Drives the socket until it has failed or the node is dropped. Returns which.
    fn drive(&self, driver: &mut BundleDriver, connections: &mut Connections<'_>) -> String {
        while !self.stop.load(std::sync::atomic::Ordering::Relaxed) {
            let ran = driver.run_once(connections, MAX_SLEEP);
            if let Err(error) = ran.and(connections.failure.take().map_or(Ok(()), Err)) {
                return format!("the socket has failed: {error}");
            }
            if let Some((keys, called)) = self.shared.take_keys() {
                // They were held against the first ones when they were put.
                let _ = driver.set_keys(keys);
                driver.set_called(called);
                connections.judge_peers(driver);
            }
        }
        "the node has ended".into()
    }
}

/// The connections of a node, as its thread sees them.
struct Connections<'t> {
    thread: &'t NodeThread,
    clock: Clock,
    /// What the kernel's buffer bears.
    receive_buffer: u64,
    calling: Vec<(ConnectionId, Arc<SharedBundle>)>,
    calling_messages: Vec<(ConnectionId, Arc<MessageFlow>)>,
    relays: Relays,
    /// Why sockets cannot be waited for.
    failure: Option<io::Error>,
}

impl Connections<'_> {
    /// Lets peers open streams whose keys have the right, in connections that stand, and no others.
    fn judge_peers(&self, driver: &BundleDriver) {
        for connection in driver.connections() {
            let Some(session) = driver.session(connection) else { continue };
            let Some(bundle) = session.application.bundle() else { continue };
            self.admit(bundle, driver.identity(connection));
        }
        for (connection, bundle) in &self.calling {
            self.admit(bundle, driver.identity(*connection));
        }
    }

    /// Notes who a bundle's peer is, and whether it may open streams.
    fn admit(&self, bundle: &SharedBundle, peer: Option<Arc<Peer>>) {
        let class = self.thread.shared.class(&bundle.key.1);
        let mut state = bundle.lock();
        state.peer = peer;
        if let Some(class) = class {
            let max_streams = if state.peer_may_open() { class.max_streams } else { 0 };
            state.multiplexer.set_limits(max_streams, class.window_budget, class.max_unread);
        }
    }

    /// Calls who is to be called, and gives transports what there is to send.
    fn serve_all(&mut self, driver: &mut BundleDriver) {
        for bundle in self.thread.shared.take_queued() {
            let mut state = bundle.lock();
            state.queued = false;
            if let Some(connection) = state.connection.filter(|_| std::mem::take(&mut state.changed)) {
                for command in Command::of_bounds(&state.contract) {
                    driver.command(connection, command);
                }
            }
            if matches!(state.status, BundleStatus::Calling) && state.connection.is_none() {
                match self.call(driver, &bundle) {
                    Ok(connection) => {
                        (state.connection, state.peer) = (Some(connection), driver.identity(connection));
                        self.calling.push((connection, bundle.clone()));
                    }
                    Err(why) => {
                        drop(state);
                        self.end(&bundle, Closed::Failed(why));
                    }
                }
            }
        }
        self.serve_messages(driver);
        let note = |application: &BufferedApplication, sender| application.0.lock().sender = sender;
        for (connection, bundle) in produce_all(driver, note) {
            // A socket that has failed fails in the loop as well.
            let _ = driver.close(connection, 0, "its class has changed");
            self.end(&bundle, Closed::Failed("its class has changed".into()));
        }
    }

    /// Calls whom messages are wanted from, begins flows, and ends those that nobody holds.
    fn serve_messages(&mut self, driver: &mut BundleDriver) {
        let queued = self.thread.shared.messages().take_queued();
        for flow in queued {
            let mut buffers = flow.connection.lock();
            buffers.wanted.queued = false;
            let abandoned = buffers.wanted.abandoned;
            let Some(connection) = buffers.connection else {
                if buffers.status == Status::Calling && !abandoned {
                    match self.call_for_messages(driver, &flow.call, buffers.peer) {
                        Ok(connection) => {
                            buffers.connection = Some(connection);
                            self.calling_messages.push((connection, flow.clone()));
                        }
                        Err(why) => buffers.close(Closed::Failed(why)),
                    }
                }
                continue;
            };
            if abandoned {
                drop(buffers);
                take_called(&mut self.calling_messages, connection);
                // A socket that has failed fails in the loop as well.
                let _ = driver.close(connection, 0, "");
                continue;
            }
            let Some(how) = lock(&flow.begin).take().filter(|_| buffers.status == Status::Open) else { continue };
            let Some(class) = self.thread.shared.class(&flow.call.class) else {
                drop(buffers);
                let _ = driver.close(connection, 1, "the class has gone");
                continue;
            };
            let messages = std::mem::take(&mut buffers.wanted.messages);
            let peer = buffers.peer;
            drop(buffers);
            let settings = class.messages();
            let sender = settings.message_sender(self.thread.settings.path_to(peer), how.max_loss, how.all);
            driver.send_by(connection, sender, settings.contract.max_rate);
            driver.command(connection, Command::AnnounceMessages { messages: messages.len() as u32 });
            for bytes in messages {
                driver.command(connection, Command::SendMessage { bytes });
            }
            driver.command(connection, Command::Finish);
        }
    }

    /// No flow of messages goes on.
    fn end_messages(&mut self, driver: &BundleDriver, why: &Closed) {
        let sessions = driver.connections().filter_map(|connection| driver.session(connection));
        for session in sessions {
            if let NodeApplication::Buffered(application) = &session.application {
                application.0.lock().close(why.clone());
            }
        }
        for (_, flow) in self.calling_messages.drain(..) {
            flow.connection.lock().close(why.clone());
        }
        self.thread.shared.messages().end(why);
    }

    fn call_for_messages(
        &self,
        driver: &mut BundleDriver,
        call: &MessageCall,
        peer: SocketAddr,
    ) -> Result<ConnectionId, String> {
        let class = self.thread.shared.class(&call.class).ok_or("the class has gone")?;
        let opening = Opening { offers: vec![Protocol::Atp], mtu: class.flow.mtu, content: call.content() };
        driver.connect(peer, &opening.encode()).map_err(|error| error.to_string())
    }

    /// The session of a peer's flow of messages, which sends nothing yet; nothing if it is not expected.
    fn accept_messages(&self, connection: ConnectionId, from: SocketAddr, call: MessageCall) -> Option<BundleSession> {
        let class = self.thread.shared.class(&call.class)?;
        let flow = self.thread.shared.messages().accept(call, from, class.flow.receive_buffer)?;
        let mut buffers = flow.connection.lock();
        (buffers.connection, buffers.status) = (Some(connection), Status::Open);
        drop(buffers);
        Some(Session::new(NodeApplication::Buffered(BufferedApplication(flow.connection.clone()))))
    }

    /// The session of a flow of messages that was called for.
    fn receive_messages(&self, flow: &MessageFlow) -> Option<BundleSession> {
        let class = self.thread.shared.class(&flow.call.class)?.messages();
        let settings = FlowSettings { receive_buffer: class.receive_buffer.min(self.receive_buffer), ..class };
        let mut buffers = flow.connection.lock();
        let receiver = settings.receiver(Protocol::Atp, self.thread.settings.path_to(buffers.peer), settings.mtu, 0);
        buffers.status = Status::Open;
        buffers.wake();
        let application = BufferedApplication(flow.connection.clone());
        Some(Session::new(NodeApplication::Buffered(application)).receiving(receiver))
    }

    /// A bundle's connection is over.
    fn end(&self, bundle: &Arc<SharedBundle>, why: Closed) {
        self.thread.shared.tell_end(bundle, &why);
        bundle.close(why, &self.thread.shared);
        self.thread.shared.lock().remove(bundle);
    }

    fn call(&self, driver: &mut BundleDriver, bundle: &SharedBundle) -> Result<ConnectionId, String> {
        let (peer, name) = &bundle.key;
        let class = self.thread.shared.class(name).ok_or("the class has gone")?;
        let content = [BUNDLE, name.as_bytes()].concat();
        let opening = Opening { offers: class.flow.offers(), mtu: class.flow.mtu, content };
        driver.connect(*peer, &opening.encode()).map_err(|error| error.to_string())
    }

    /// A session of a bundle whose peer sends packets of `mtu` bytes.
    fn session(&self, bundle: &Arc<SharedBundle>, class: &BundleClass, mtu: u16) -> Option<BundleSession> {
        let path = self.thread.settings.path_to(bundle.key.0);
        let flow =
            FlowSettings { receive_buffer: class.flow.receive_buffer.min(self.receive_buffer), ..class.flow.clone() };
        let sender = flow.sender(Protocol::Tcp, path, None, self.clock.phase_ps(flow.reflex_cycle())).ok()?;
        let receiver = flow.receiver(Protocol::Tcp, path, mtu, 0);
        bundle.lock().status = BundleStatus::Open;
        let application = BundleApplication { bundle: bundle.clone(), bundles: self.thread.shared.clone() };
        Some(
            Session::new(NodeApplication::Bundle(application))
                .sending(sender, flow.contract.max_rate)
                .receiving(receiver),
        )
    }

    /// What a caller wants.
    fn judge(&self, opening: &[u8]) -> Result<(Opening, BundleClass), String> {
        let opening = Opening::decode(opening).ok_or("the connection does not begin as a daemon's do")?;
        let name = opening.content.strip_prefix(BUNDLE).and_then(|name| str::from_utf8(name).ok());
        let name = name.ok_or("this is a daemon, which carries streams of classes")?;
        let class = self.thread.shared.class(name).ok_or_else(|| format!("there is no class {name} here"))?;
        if !opening.offers.contains(&Protocol::Tcp) {
            return Err("no transport that both sides have".into());
        }
        Ok((opening, class))
    }
}

impl ConnectionHandler<AnyTransport, NodeApplication> for Connections<'_> {
    fn answer(&mut self, caller: Caller<'_>, opening: &[u8]) -> Result<Vec<u8>, String> {
        require_right(caller.rights().open, "open streams")?;
        if let Some(call) = message_call(opening) {
            if !self.thread.shared.messages().expects(&call) {
                return Err("nobody here sends messages to it".into());
            }
            return Ok(Answer { protocol: Protocol::Atp, unix_ns: realtime_ns(), note: 0 }.encode());
        }
        self.judge(opening)?;
        Ok(Answer { protocol: Protocol::Tcp, unix_ns: realtime_ns(), note: 0 }.encode())
    }

    fn open(&mut self, _: Instant, connection: ConnectionId, event: Event) -> Option<BundleSession> {
        match event {
            Event::Connected { answer } => {
                if let Some(flow) = take_called(&mut self.calling_messages, connection) {
                    let takes = Answer::decode(&answer).is_some_and(|answer| answer.protocol == Protocol::Atp);
                    let session = if takes { self.receive_messages(&flow) } else { None };
                    if session.is_none() {
                        flow.connection.lock().close(Closed::Failed("it answers as no daemon does".into()));
                    }
                    return session;
                }
                let bundle = take_called(&mut self.calling, connection)?;
                let class = self.thread.shared.class(&bundle.key.1);
                let session = Answer::decode(&answer)
                    .filter(|answer| answer.protocol == Protocol::Tcp)
                    .and(class)
                    .and_then(|class| self.session(&bundle, &class, class.flow.mtu));
                match &session {
                    Some(_) => {
                        let peer = bundle.lock().peer.clone();
                        self.thread.shared.lock().share_unread(&bundle, peer.as_deref());
                        self.admit(&bundle, peer);
                    }
                    None => self.end(&bundle, Closed::Failed("it answers as no daemon does".into())),
                }
                session
            }
            Event::Accepted { from, opening, caller } => {
                if let Some(call) = message_call(&opening) {
                    return self.accept_messages(connection, from, call);
                }
                let (opening, class) = self.judge(&opening).ok()?;
                let key = (from, class.name.clone());
                let multiplexer = Multiplexer::new(class.multiplexer(false));
                let mut bundles = self.thread.shared.lock();
                let number = bundles.next_number();
                let bundle = SharedBundle::new(number, key, multiplexer, BundleStatus::Open, class.flow.contract);
                bundles.share_unread(&bundle, caller.as_deref());
                drop(bundles);
                bundle.lock().connection = Some(connection);
                let session = self.session(&bundle, &class, opening.mtu)?;
                self.admit(&bundle, caller);
                // New streams go by this one: a peer calls again when it has retired the one before.
                self.thread.shared.lock().insert(bundle);
                Some(session)
            }
            Event::Closed(_) | Event::Notice(_) | Event::HostReport(_) | Event::Moved { .. } | Event::OwnMove => None,
        }
    }

    /// Carries bytes from and to sockets, and has transports send what there is.
    fn received(&mut self, driver: &mut BundleDriver) {
        self.failure = self.relays.run().err();
        self.serve_all(driver);
        // What makes room for more goes with it.
        while self.failure.is_none() && self.relays.have_news() {
            self.failure = self.relays.run().err();
            self.serve_all(driver);
        }
    }

    fn closed(&mut self, connection: ConnectionId, session: Option<BundleSession>, why: Closed) {
        if let Some(flow) = take_called(&mut self.calling_messages, connection) {
            flow.connection.lock().close(why.clone());
        }
        let mut bundle = take_called(&mut self.calling, connection);
        match session.map(|session| session.application) {
            Some(NodeApplication::Bundle(application)) => bundle = Some(application.bundle),
            Some(NodeApplication::Buffered(application)) => application.0.lock().close(why.clone()),
            None => {}
        }
        if let Some(bundle) = bundle {
            self.end(&bundle, why);
        }
    }
}
