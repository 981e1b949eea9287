//! A socket with a thread of its own, and its connections.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use pliant_proto::time::Instant;
use pliant_proto::transport::Command;
use pliant_proto::transport::any::AnyTransport;

use super::buffers::{Buffers, Phase, Port, Shared};
use super::messages::{Delivery, MessageReceiver, MessageSender};
use super::stream::Stream;
use crate::clock::realtime_ns;
use crate::connection::{Closed, ConnectionId, Event};
use crate::driver::{Clock, Driver, Link, Service};
use crate::flow::{Answer, Family, FlowSettings, Opening};
use crate::socket::Alarm;
use crate::transfer::{Settings, path_to};

/// Connections that wait to be accepted; more are refused.
const BACKLOG: usize = 128;
/// What the content of an opening is.
const STREAM: &[u8] = b"stream";
const MESSAGES: &[u8] = b"messages";
/// How long the thread sleeps at most.
const NAP: Duration = Duration::from_secs(1);

/// What applications and the node's thread share.
pub(super) struct Desk {
    alarm: Alarm,
    /// Connections whose applications want something.
    queue: Mutex<Vec<Arc<Shared>>>,
    backlog: Mutex<Backlog>,
    closing: AtomicBool,
    settings: Settings,
}

#[derive(Default)]
struct Backlog {
    waiting: VecDeque<(Arc<Shared>, bool)>,
    wakers: Vec<Waker>,
}

impl Desk {
    /// Has the node look at what this connection wants.
    pub(super) fn queue(&self, shared: &Arc<Shared>) {
        let mut buffers = shared.lock();
        let queued = std::mem::replace(&mut buffers.wanted.queued, true);
        drop(buffers);
        if !queued {
            self.queue.lock().unwrap_or_else(PoisonError::into_inner).push(shared.clone());
            self.alarm.ring();
        }
    }

    pub(super) fn flow(&self) -> &FlowSettings {
        &self.settings.flow
    }
}

/// A socket with a thread of its own, which ends when the node and all its connections are dropped.
pub struct Node {
    desk: Arc<Desk>,
    address: SocketAddr,
}

impl Drop for Node {
    fn drop(&mut self) {
        self.desk.closing.store(true, Ordering::Relaxed);
        // Nobody will accept these any more.
        for (shared, _) in &self.desk.backlog.lock().unwrap_or_else(PoisonError::into_inner).waiting {
            shared.lock().wanted.abandoned = true;
        }
        self.desk.alarm.ring();
    }
}

impl Node {
    /// A node that only calls others.
    pub fn client(address: SocketAddr, settings: Settings) -> io::Result<Self> {
        Self::start(address, settings, false)
    }

    /// A node that others may call.
    pub fn bind(address: SocketAddr, settings: Settings) -> io::Result<Self> {
        Self::start(address, settings, true)
    }

    fn start(address: SocketAddr, mut settings: Settings, accepts: bool) -> io::Result<Self> {
        settings.check(address).map_err(invalid)?;
        settings.flow.auto_consume = false;
        let (report, made) = std::sync::mpsc::sync_channel(1);
        // The driver is made where it runs: transports may share what belongs to an object, and stay in their thread.
        let work = move || match Self::open(address, settings, accepts) {
            Ok((driver, office, address)) => {
                _ = report.send(Ok((office.desk.clone(), address)));
                run(driver, office);
            }
            Err(error) => _ = report.send(Err(error)),
        };
        std::thread::Builder::new().name("pliant".into()).spawn(work)?;
        let (desk, address) = made.recv().map_err(io::Error::other)??;
        Ok(Self { desk, address })
    }

    fn open(
        address: SocketAddr,
        mut settings: Settings,
        accepts: bool,
    ) -> io::Result<(Driver<AnyTransport, Port>, Office, SocketAddr)> {
        let alarm = Alarm::new()?;
        let (mut driver, buffer) = settings.driver::<AnyTransport, Port>(address, accepts)?;
        settings.flow.receive_buffer = settings.flow.receive_buffer.min(buffer as u64 / 2);
        driver.set_alarm(alarm.clone());
        let address = driver.local_address()?;
        let desk = Arc::new(Desk {
            alarm,
            queue: Mutex::default(),
            backlog: Mutex::default(),
            closing: AtomicBool::new(false),
            settings,
        });
        let office = Office { desk, clock: driver.clock(), calling: Vec::new() };
        Ok((driver, office, address))
    }

    /// The socket's address.
    pub fn local_address(&self) -> SocketAddr {
        self.address
    }

    /// Calls `to` for a byte stream.
    pub async fn connect(&self, to: SocketAddr) -> io::Result<Stream> {
        let flow = self.desk.flow();
        if flow.transport.family() != Family::Tcp || flow.contract.min_delivery < 1.0 {
            return Err(invalid("a stream needs a transport with a window, and all of it must arrive"));
        }
        let shared = self.call(to, false).await?;
        Ok(Stream::new(self.desk.clone(), shared))
    }

    /// Calls `to` for messages, whose transport is `atp`.
    pub async fn connect_messages(&self, to: SocketAddr) -> io::Result<MessageSender> {
        if self.desk.flow().transport.family() != Family::Atp {
            return Err(invalid("messages need the transport atp"));
        }
        let shared = self.call(to, true).await?;
        Ok(MessageSender::new(self.desk.clone(), shared))
    }

    async fn call(&self, to: SocketAddr, messages: bool) -> io::Result<Arc<Shared>> {
        self.desk.settings.check(to).map_err(invalid)?;
        let shared = Arc::new(Shared::new(to, self.desk.flow().receive_buffer, messages));
        let held = Abandon(&self.desk, Some(shared.clone()));
        self.desk.queue(&shared);
        poll_fn(|context| {
            let mut buffers = shared.lock();
            match &buffers.phase {
                Phase::Open => Poll::Ready(Ok(())),
                Phase::Closed(_) => Poll::Ready(Err(buffers.failure().expect("it is closed"))),
                Phase::Calling => {
                    buffers.wait(context.waker());
                    Poll::Pending
                }
            }
        })
        .await?;
        held.keep();
        Ok(shared)
    }

    /// The next byte stream that somebody opens.
    pub async fn accept(&self) -> io::Result<Stream> {
        let shared = poll_fn(|context| self.poll_backlog(context, false)).await;
        Ok(Stream::new(self.desk.clone(), shared))
    }

    /// The next that somebody opens for messages.
    pub async fn accept_messages(&self) -> io::Result<MessageReceiver> {
        let shared = poll_fn(|context| self.poll_backlog(context, true)).await;
        Ok(MessageReceiver::new(self.desk.clone(), shared))
    }

    fn poll_backlog(&self, context: &Context<'_>, messages: bool) -> Poll<Arc<Shared>> {
        let mut backlog = self.desk.backlog.lock().unwrap_or_else(PoisonError::into_inner);
        let found = backlog.waiting.iter().position(|(_, has_messages)| *has_messages == messages);
        if let Some((shared, _)) = found.and_then(|at| backlog.waiting.remove(at)) {
            return Poll::Ready(shared);
        }
        backlog.wakers.push(context.waker().clone());
        Poll::Pending
    }
}

fn invalid(why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why)
}

/// Tells the node that nobody waits for a call any more, unless it is kept.
struct Abandon<'d>(&'d Desk, Option<Arc<Shared>>);

impl Abandon<'_> {
    fn keep(mut self) {
        self.1 = None;
    }
}

impl Drop for Abandon<'_> {
    fn drop(&mut self) {
        if let Some(shared) = self.1.take() {
            shared.lock().wanted.abandoned = true;
            self.0.queue(&shared);
        }
    }
}

/// The node's thread's side.
struct Office {
    desk: Arc<Desk>,
    clock: Clock,
    calling: Vec<(ConnectionId, Arc<Shared>)>,
}

fn run(mut driver: Driver<AnyTransport, Port>, mut office: Office) {
    loop {
        if let Err(error) = driver.turn(&mut office, NAP) {
            office.fail(&driver, &error);
            return;
        }
        let wanted = std::mem::take(&mut *office.desk.queue.lock().unwrap_or_else(PoisonError::into_inner));
        for shared in wanted {
            office.serve(&mut driver, &shared);
        }
        office.settle(&mut driver);
        // Only this thread and nobody else knows of the desk: no node, no connection.
        if office.desk.closing.load(Ordering::Relaxed)
            && Arc::strong_count(&office.desk) == 1
            && driver.connections().next().is_none()
        {
            return;
        }
    }
}

/// Notes by size of message what has arrived, once a flow of messages is over.
fn note_sizes(link: &Link<AnyTransport, Port>, buffers: &mut Buffers) {
    if buffers.outgoing.finished
        && buffers.outgoing.by_size.is_none()
        && let Some(AnyTransport::AtpSender(sender)) = link.sender()
    {
        buffers.outgoing.by_size = Some(sender.by_size());
        buffers.wake();
    }
}

impl Office {
    /// Does what an application wants.
    fn serve(&mut self, driver: &mut Driver<AnyTransport, Port>, shared: &Arc<Shared>) {
        let mut buffers = shared.lock();
        buffers.wanted.queued = false;
        let Some(connection) = buffers.connection else {
            if buffers.phase == Phase::Calling && !buffers.wanted.abandoned {
                let content = if buffers.carries_messages() { MESSAGES } else { STREAM };
                let flow = self.desk.flow();
                let opening = Opening { offers: flow.offers(), mtu: flow.mtu, content: content.to_vec() };
                match driver.connect(buffers.peer, &opening.encode()) {
                    Ok(connection) => {
                        buffers.connection = Some(connection);
                        self.calling.push((connection, shared.clone()));
                    }
                    Err(error) => {
                        buffers.phase = Phase::Closed(Closed::Failed(error.to_string()));
                        buffers.wake();
                    }
                }
            }
            return;
        };
        if buffers.phase != Phase::Open {
            return;
        }
        let wanted = &mut buffers.wanted;
        let mut commands = Vec::new();
        let send = std::mem::take(&mut wanted.send);
        commands.extend((send > 0).then_some(Command::Send { bytes: send }));
        commands.extend(wanted.announce.take().map(|messages| Command::AnnounceMessages { messages }));
        commands.extend(wanted.messages.drain(..).map(|bytes| Command::SendMessage { bytes }));
        commands.extend(wanted.weight.take().map(Command::SetWeight));
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
    fn settle(&mut self, driver: &mut Driver<AnyTransport, Port>) {
        let mut over = Vec::new();
        for connection in driver.connections() {
            let Some(link) = driver.link(connection) else { continue };
            let mut buffers = link.application.0.lock();
            buffers.sender = link.sender_statistics();
            buffers.receiver = link.receiver_statistics();
            if buffers.incoming.ended
                && buffers.incoming.delivery.is_none()
                && let Some(AnyTransport::AtpReceiver(receiver)) = link.receiver()
                && let Some(report) = receiver.report()
            {
                let missing = report.missing().collect();
                buffers.incoming.delivery =
                    Some(Delivery { messages: report.messages, delivered: report.delivered, missing });
                buffers.wake();
            }
            note_sizes(link, &mut buffers);
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
        for connection in over {
            // The peer is told; a socket that fails is noticed in the next turn.
            let _ = driver.close(connection, 0, "");
        }
    }

    /// The socket has failed: everybody is told.
    fn fail(&mut self, driver: &Driver<AnyTransport, Port>, error: &io::Error) {
        let links = driver.connections().filter_map(|connection| driver.link(connection));
        let standing = links.map(|link| link.application.0.clone());
        for shared in standing.chain(self.calling.drain(..).map(|(_, shared)| shared)) {
            let mut buffers = shared.lock();
            buffers.phase = Phase::Closed(Closed::Failed(error.to_string()));
            buffers.wake();
        }
    }

    /// A link of a new connection, both ways for a stream.
    fn link(&self, shared: &Arc<Shared>, family: Family, mtu: u16, calls: bool) -> Option<Link<AnyTransport, Port>> {
        let mut buffers = shared.lock();
        let (flow, path) = (self.desk.flow(), path_to(buffers.peer, &self.desk.settings));
        let link = Link::new(Port(shared.clone()));
        let sender = || flow.sender(family, path, None, self.clock.phase_ps(flow.reflex_cycle()));
        let receiver = || flow.receiver(family, path, mtu, 0);
        let link = match (family, calls) {
            (Family::Tcp, _) => link.sending(sender().ok()?, flow.rate_cap).receiving(receiver()),
            (Family::Atp, true) => link.sending(sender().ok()?, flow.rate_cap),
            (Family::Atp, false) => link.receiving(receiver()),
            _ => return None,
        };
        buffers.family = Some(family);
        buffers.phase = Phase::Open;
        buffers.wake();
        drop(buffers);
        Some(link)
    }

    fn judge(opening: &[u8]) -> Result<(Opening, Family, bool), String> {
        let opening = Opening::decode(opening).ok_or("the connection does not begin as this program's do")?;
        let (family, messages) = match &opening.content[..] {
            STREAM => (Family::Tcp, false),
            MESSAGES => (Family::Atp, true),
            _ => return Err("neither a stream nor messages".into()),
        };
        if !opening.offers.contains(&family) {
            return Err("no transport that both sides have".into());
        }
        Ok((opening, family, messages))
    }
}

impl Service<AnyTransport, Port> for Office {
    fn answer(&mut self, _: SocketAddr, opening: &[u8]) -> Result<Vec<u8>, String> {
        if self.desk.closing.load(Ordering::Relaxed) {
            return Err("it is about to end".into());
        }
        if self.desk.backlog.lock().unwrap_or_else(PoisonError::into_inner).waiting.len() >= BACKLOG {
            return Err("too many wait to be accepted".into());
        }
        let (_, family, _) = Self::judge(opening)?;
        Ok(Answer { family, unix_ns: realtime_ns() }.encode())
    }

    fn open(&mut self, _: Instant, connection: ConnectionId, event: Event) -> Option<Link<AnyTransport, Port>> {
        match event {
            Event::Connected { answer } => {
                let at = self.calling.iter().position(|(calling, _)| *calling == connection)?;
                let (_, shared) = self.calling.swap_remove(at);
                let offers = self.desk.flow().offers();
                let answer = Answer::decode(&answer).filter(|answer| offers.contains(&answer.family));
                let link = answer.and_then(|answer| self.link(&shared, answer.family, self.desk.flow().mtu, true));
                if link.is_none() {
                    let mut buffers = shared.lock();
                    buffers.phase = Phase::Closed(Closed::Failed("it answers as no node does".into()));
                    buffers.wake();
                }
                link
            }
            Event::Accepted { from, opening } => {
                let (opening, family, messages) = Self::judge(&opening).ok()?;
                let shared = Arc::new(Shared::new(from, self.desk.flow().receive_buffer, messages));
                shared.lock().connection = Some(connection);
                let link = self.link(&shared, family, opening.mtu, false)?;
                let mut backlog = self.desk.backlog.lock().unwrap_or_else(PoisonError::into_inner);
                if backlog.waiting.len() >= BACKLOG {
                    return None;
                }
                backlog.waiting.push_back((shared, messages));
                backlog.wakers.drain(..).for_each(Waker::wake);
                Some(link)
            }
            Event::Closed(_) | Event::Notice(_) => None,
        }
    }

    fn closed(&mut self, connection: ConnectionId, link: Option<Link<AnyTransport, Port>>, why: Closed) {
        let calling = self.calling.iter().position(|(calling, _)| *calling == connection);
        let calling = calling.map(|at| self.calling.swap_remove(at).1);
        // A peer that has all it wants may close in the turn in which the flow ends.
        if let Some(link) = &link {
            note_sizes(link, &mut link.application.0.lock());
        }
        for shared in link.map(|link| link.application.0).into_iter().chain(calling) {
            let mut buffers = shared.lock();
            buffers.phase = Phase::Closed(why.clone());
            buffers.wake();
        }
    }
}
