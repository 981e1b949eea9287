//! A node: one socket, its bundles, and the thread that drives them.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use pliant_proto::packet::ByteRange;
use pliant_proto::time::Instant;
use pliant_proto::transport::any::{AnyRequest, AnyTransport};
use pliant_proto::transport::{Command, Event as TransportEvent, Statistics};
use tokio::sync::mpsc::unbounded_channel;

use super::frame::MAX_HEADER_BYTES;
use super::multiplexer::{Multiplexer, MultiplexerConfig};
use super::shared::{BundleStatus, SharedBundle, SharedBundles};
use super::stream::{AcceptedStreams, BundleStream};
use crate::clock::{Clock, realtime_ns};
use crate::connection::{Closed, ConnectionId, Event};
use crate::driver::{Application, ConnectionHandler, Driver, PayloadLocation, Session};
use crate::flow::{Answer, FlowSettings, Opening, Protocol};
use crate::poll::PollWaker;
use crate::transfer::Settings;

/// How the content of an opening begins; the name of a class follows.
const BUNDLE: &[u8] = b"bundle ";
/// How long the thread sleeps at most.
const MAX_SLEEP: Duration = Duration::from_millis(250);

/// What the streams of a class have in common.
#[derive(Clone, Debug)]
pub struct BundleClass {
    /// Its name: both sides must have a class of it.
    pub name: String,
    /// Transport, contract and traffic classes of what this side sends.
    pub flow: FlowSettings,
    /// Most streams that a peer may have open.
    pub max_streams: usize,
    /// Most bytes that the windows of a bundle's streams grow to together.
    pub window_budget: u64,
}

/// How a bundle stands.
#[derive(Clone, Debug)]
pub struct BundleReport {
    /// The peer.
    pub peer: SocketAddr,
    /// Name of the class.
    pub class: String,
    /// Whether the peer has answered.
    pub open: bool,
    /// Streams that are open.
    pub streams: usize,
    /// Counts of what sends.
    pub sender: Statistics,
    /// Counts of what receives.
    pub receiver: Statistics,
}

/// A socket with a thread of its own and the bundles on it. The thread ends when it is dropped.
pub struct BundleNode {
    shared: Arc<SharedBundles>,
    classes: Arc<[BundleClass]>,
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
        let classes: Arc<[BundleClass]> = classes.into();
        let waker = PollWaker::new()?;
        let (accepted, streams) = unbounded_channel();
        let shared = Arc::new(SharedBundles::new(waker, accepted));
        let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let (report, made) = std::sync::mpsc::sync_channel(1);
        let thread = NodeThread {
            shared: shared.clone(),
            classes: classes.clone(),
            settings: settings.clone(),
            stop: stop.clone(),
        };
        // The driver is made where it runs: transports may share what belongs to an object, and stay in their thread.
        let work = move || thread.run(address, &report);
        let thread = std::thread::Builder::new().name("pliant-bundles".into()).spawn(work)?;
        let address = made.recv().map_err(io::Error::other)??;
        let accepted = AcceptedStreams::new(shared.clone(), streams);
        Ok((Self { shared, classes, settings, address, stop, thread: Some(thread) }, accepted))
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
    /// If there is no such class, no way to the peer, or the header is longer than [`MAX_HEADER_BYTES`].
    pub fn open(&self, peer: SocketAddr, class: &str, header: Vec<u8>) -> io::Result<BundleStream> {
        self.settings.check(peer).map_err(invalid)?;
        if header.len() > MAX_HEADER_BYTES {
            return Err(invalid("the header of a stream is too long"));
        }
        let known = self.classes.iter().find(|known| known.name == class);
        let known = known.ok_or_else(|| invalid(format!("there is no class {class}")))?;
        let mut bundles = self.shared.lock();
        let key = (peer, class.to_owned());
        let usable = |bundle: &&Arc<SharedBundle>| !matches!(bundle.lock().status, BundleStatus::Closed(_));
        let standing = bundles.get(&key).filter(usable).cloned();
        let bundle = standing.unwrap_or_else(|| {
            let multiplexer = Multiplexer::new(known.multiplexer(true));
            let bundle = SharedBundle::new(key.clone(), multiplexer, BundleStatus::Calling);
            bundles.insert(key, bundle.clone());
            bundle
        });
        drop(bundles);
        let stream = bundle.lock().multiplexer.open(header);
        self.shared.queue(&bundle);
        Ok(BundleStream::new(self.shared.clone(), bundle, stream))
    }

    /// How every bundle stands.
    pub fn reports(&self) -> Vec<BundleReport> {
        let bundles = self.shared.lock();
        let report = |bundle: &Arc<SharedBundle>| {
            let state = bundle.lock();
            let (peer, class) = bundle.key.clone();
            let open = matches!(state.status, BundleStatus::Open);
            let streams = state.multiplexer.streams();
            BundleReport { peer, class, open, streams, sender: state.sender, receiver: state.receiver }
        };
        let mut reports: Vec<_> = bundles.values().map(report).collect();
        reports.sort_by(|a, b| (a.peer, &a.class).cmp(&(b.peer, &b.class)));
        reports
    }
}

impl BundleClass {
    /// Refuses a class that cannot carry streams, which need all their bytes and a transport with a window.
    pub fn check(&self) -> io::Result<()> {
        let wrong = |why: String| Err(invalid(format!("class {}: {why}", self.name)));
        if let Err(error) = self.flow.check() {
            return wrong(error.to_string());
        }
        if self.flow.transport.protocol() != Protocol::Tcp {
            return wrong(format!("{} does not carry streams", self.flow.transport.name()));
        }
        if self.flow.contract.min_delivery < 1.0 {
            return wrong("all bytes of a stream must arrive: min_delivery is 1".to_owned());
        }
        Ok(())
    }

    fn multiplexer(&self, calls: bool) -> MultiplexerConfig {
        let (max_streams, window_budget) = (self.max_streams, self.window_budget);
        MultiplexerConfig { calls, max_streams, window_budget, receive_buffer: self.flow.receive_buffer }
    }
}

fn invalid(why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why)
}

/// A bundle's end of its connection.
struct BundleApplication {
    bundle: Arc<SharedBundle>,
    bundles: Arc<SharedBundles>,
}

impl Application for BundleApplication {
    fn read(&mut self, location: PayloadLocation, payload: &mut [u8]) -> io::Result<()> {
        let PayloadLocation::Stream(offset) = location else { unreachable!("bundles are streams") };
        self.bundle.lock().multiplexer.read_sent(offset, payload);
        Ok(())
    }

    fn write(&mut self, location: PayloadLocation, payload: &[u8]) -> io::Result<()> {
        let PayloadLocation::Stream(offset) = location else { return Ok(()) };
        let received = self.bundle.lock().multiplexer.receive(offset, payload);
        self.bundle.handle_events(&self.bundles);
        received.map_err(io::Error::other)
    }

    fn event(&mut self, event: TransportEvent<AnyRequest>) -> io::Result<()> {
        if let TransportEvent::Release(ByteRange { end, .. }) = event {
            self.bundle.lock().multiplexer.release(end);
        }
        Ok(())
    }
}

type BundleSession = Session<AnyTransport, BundleApplication>;
type BundleDriver = Driver<AnyTransport, BundleApplication>;

/// What the thread of a node begins with.
struct NodeThread {
    shared: Arc<SharedBundles>,
    classes: Arc<[BundleClass]>,
    settings: Settings,
    stop: Arc<std::sync::atomic::AtomicBool>,
}

impl NodeThread {
    fn run(self, address: SocketAddr, report: &std::sync::mpsc::SyncSender<io::Result<SocketAddr>>) {
        let opened = self.settings.driver::<AnyTransport, BundleApplication>(address, true);
        let (mut driver, buffer) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                _ = report.send(Err(error));
                return;
            }
        };
        driver.set_waker(self.shared.waker.clone());
        _ = report.send(driver.local_address());
        let clock = driver.clock();
        let mut connections =
            Connections { thread: &self, clock, receive_buffer: buffer as u64 / 2, calling: Vec::new() };
        while !self.stop.load(std::sync::atomic::Ordering::Relaxed) {
            if let Err(error) = driver.run_once(&mut connections, MAX_SLEEP) {
                let why = Closed::Failed(format!("the socket has failed: {error}"));
                self.shared.lock().drain().for_each(|(_, bundle)| bundle.close(why.clone()));
                return;
            }
            connections.serve_all(&mut driver);
        }
        let here: Vec<ConnectionId> = driver.connections().collect();
        for connection in here {
            let _ = driver.close(connection, 0, "the daemon ends");
        }
        self.shared.lock().drain().for_each(|(_, bundle)| bundle.close(Closed::Failed("the node has ended".into())));
    }

    fn class(&self, name: &str) -> Option<&BundleClass> {
        self.classes.iter().find(|class| class.name == name)
    }
}

/// The connections of a node, as its thread sees them.
struct Connections<'t> {
    thread: &'t NodeThread,
    clock: Clock,
    /// What the kernel's buffer bears.
    receive_buffer: u64,
    calling: Vec<(ConnectionId, Arc<SharedBundle>)>,
}

impl Connections<'_> {
    /// Calls who is to be called, and gives transports what there is to send.
    fn serve_all(&mut self, driver: &mut BundleDriver) {
        for bundle in self.thread.shared.take_queued() {
            let mut state = bundle.lock();
            state.queued = false;
            if matches!(state.status, BundleStatus::Calling) && state.connection.is_none() {
                match self.call(driver, &bundle) {
                    Ok(connection) => {
                        state.connection = Some(connection);
                        self.calling.push((connection, bundle.clone()));
                    }
                    Err(why) => {
                        drop(state);
                        bundle.close(Closed::Failed(why));
                    }
                }
            }
        }
        let here: Vec<ConnectionId> = driver.connections().collect();
        for connection in here {
            let Some(session) = driver.session(connection) else { continue };
            let (sender, receiver) = (session.sender_statistics(), session.receiver_statistics());
            let bundle = session.application.bundle.clone();
            let mut state = bundle.lock();
            (state.sender, state.receiver) = (sender, receiver);
            let bytes = state.multiplexer.produce();
            drop(state);
            bundle.handle_events(&self.thread.shared);
            if bytes > 0 {
                driver.command(connection, Command::Send { bytes });
            }
        }
    }

    fn call(&self, driver: &mut BundleDriver, bundle: &SharedBundle) -> Result<ConnectionId, String> {
        let (peer, name) = &bundle.key;
        let class = self.thread.class(name).ok_or("the class has gone")?;
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
        Some(Session::new(application).sending(sender, flow.rate_cap).receiving(receiver))
    }

    /// What a caller wants.
    fn judge(&self, opening: &[u8]) -> Result<(Opening, &BundleClass), String> {
        let opening = Opening::decode(opening).ok_or("the connection does not begin as a daemon's do")?;
        let name = opening.content.strip_prefix(BUNDLE).and_then(|name| str::from_utf8(name).ok());
        let name = name.ok_or("this is a daemon, which carries streams of classes")?;
        let class = self.thread.class(name).ok_or_else(|| format!("there is no class {name} here"))?;
        if !opening.offers.contains(&Protocol::Tcp) {
            return Err("no transport that both sides have".into());
        }
        Ok((opening, class))
    }
}

impl ConnectionHandler<AnyTransport, BundleApplication> for Connections<'_> {
    fn answer(&mut self, _: SocketAddr, opening: &[u8]) -> Result<Vec<u8>, String> {
        self.judge(opening)?;
        Ok(Answer { protocol: Protocol::Tcp, unix_ns: realtime_ns() }.encode())
    }

    fn open(&mut self, _: Instant, connection: ConnectionId, event: Event) -> Option<BundleSession> {
        match event {
            Event::Connected { answer } => {
                let at = self.calling.iter().position(|(calling, _)| *calling == connection)?;
                let (_, bundle) = self.calling.swap_remove(at);
                let class = self.thread.class(&bundle.key.1)?;
                let session = Answer::decode(&answer)
                    .filter(|answer| answer.protocol == Protocol::Tcp)
                    .and_then(|_| self.session(&bundle, class, class.flow.mtu));
                if session.is_none() {
                    bundle.close(Closed::Failed("it answers as no daemon does".into()));
                }
                session
            }
            Event::Accepted { from, opening } => {
                let (opening, class) = self.judge(&opening).ok()?;
                let key = (from, class.name.clone());
                let multiplexer = Multiplexer::new(class.multiplexer(false));
                let bundle = SharedBundle::new(key.clone(), multiplexer, BundleStatus::Open);
                bundle.lock().connection = Some(connection);
                let session = self.session(&bundle, class, opening.mtu)?;
                // One that this side has called meanwhile stays as it is, beside this one.
                self.thread.shared.lock().entry(key).or_insert(bundle);
                Some(session)
            }
            Event::Closed(_) | Event::Notice(_) | Event::Moved { .. } => None,
        }
    }

    fn closed(&mut self, connection: ConnectionId, session: Option<BundleSession>, why: Closed) {
        let calling = self.calling.iter().position(|(calling, _)| *calling == connection);
        let calling = calling.map(|at| self.calling.swap_remove(at).1);
        for bundle in session.map(|session| session.application.bundle).into_iter().chain(calling) {
            bundle.close(why.clone());
            let mut bundles = self.thread.shared.lock();
            if bundles.get(&bundle.key).is_some_and(|known| Arc::ptr_eq(known, &bundle)) {
                bundles.remove(&bundle.key);
            }
        }
    }
}
