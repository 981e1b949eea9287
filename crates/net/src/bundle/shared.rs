//! What applications' tasks and the node's thread share.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use pliant_proto::contract::Contract;
use pliant_proto::transport::Statistics;
use rustix::net::sockopt::set_socket_linger;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot::Sender;

use super::change::ChangeBytes;
use super::class::BundleClass;
use super::frame::StreamId;
use super::message_flows::MessageFlows;
use super::multiplexer::{Multiplexer, ReadOutcome, StreamEvent, reset_code};
use super::mutex::lock;
use super::report::{BundleEnd, PathReport};
use super::unread::PeerUnread;
use crate::connection::{Closed, ConnectionId, KEY_BYTES, Keys, Peer, source_of};
use crate::flow::SendDeadline;
use crate::poll::PollWaker;
use crate::socket::canonical;

/// A bundle's peer, and the name of its class.
pub(crate) type BundleKey = (SocketAddr, String);

/// The number of a relay at its node. It is never used again.
pub(super) type RelayId = u64;

/// A stream and the socket from and to which its bytes are to be carried.
pub(super) struct Attachment {
    pub(super) bundle: Arc<SharedBundle>,
    pub(super) stream: StreamId,
    pub(super) socket: OwnedFd,
    pub(super) change: Option<Box<dyn ChangeBytes>>,
    /// Hears when both sides are over.
    pub(super) over: Sender<io::Result<()>>,
}

impl Attachment {
    /// It is over: whoever waits for that hears it. The socket is reset if it was not ended.
    pub(super) fn end(self, over: io::Result<()>) {
        if over.is_err() {
            let _ = set_socket_linger(&self.socket, Some(Duration::ZERO));
        }
        drop(self.socket);
        // Nobody may wait any more.
        let _ = self.over.send(over);
    }

    /// The node has ended.
    pub(super) fn end_with_node(self) {
        self.end(Err(io::ErrorKind::ConnectionReset.into()));
    }
}

/// A stream that a peer has opened.
pub(crate) struct OpenedStream {
    pub(super) bundle: Arc<SharedBundle>,
    pub(super) stream: StreamId,
    pub(super) header: Vec<u8>,
}

/// Keys, and which peer is called at an address.
type KeyChange = (Keys, Vec<(SocketAddr, String)>);

/// A peer, and the name of a class: by the key if it is the peer's own, or else by the address.
type Sharer = (Result<[u8; KEY_BYTES], IpAddr>, String);

/// The bundles that are not over.
#[derive(Default)]
pub(crate) struct Bundles {
    /// Those in which streams are opened.
    pub(super) current: HashMap<BundleKey, Arc<SharedBundle>>,
    /// All, by number.
    all: BTreeMap<u64, Arc<SharedBundle>>,
    last_number: u64,
    /// Those of a peer in a class, which share the bound of unread bytes. Some may be over while a program holds them.
    sharing: HashMap<Sharer, Sharing>,
}

/// What shares a bound, and the bound's sum.
#[derive(Default)]
struct Sharing {
    unread: Weak<PeerUnread>,
    bundles: Vec<Weak<SharedBundle>>,
}

impl Bundles {
    pub(crate) fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    /// From now on a bundle shares the bound of unread bytes with all others of the peer in its class.
    pub(super) fn share_unread(&mut self, bundle: &Arc<SharedBundle>, peer: Option<&Peer>) {
        self.sharing.retain(|_, sharing| sharing.unread.strong_count() > 0);
        let (address, class) = &bundle.key;
        let who = peer.map_or_else(|| Err(source_of(address.ip())), |peer| Ok(peer.key));
        let sharing = self.sharing.entry((who, class.clone())).or_default();
        sharing.bundles.retain(|known| known.strong_count() > 0);
        let unread = sharing.unread.upgrade().unwrap_or_default();
        sharing.unread = Arc::downgrade(&unread);
        sharing.bundles.push(Arc::downgrade(bundle));
        bundle.lock().multiplexer.share_unread(unread);
    }

    /// The bundles that share the bound of unread bytes with one.
    fn sharing(&self, bundle: &Arc<SharedBundle>) -> Vec<Arc<SharedBundle>> {
        let own = Arc::downgrade(bundle);
        let sharing = self.sharing.values().find(|sharing| sharing.bundles.iter().any(|known| known.ptr_eq(&own)));
        sharing.into_iter().flat_map(|sharing| &sharing.bundles).filter_map(Weak::upgrade).collect()
    }

    /// Takes a new bundle, in which streams are opened from now on.
    pub(crate) fn insert(&mut self, bundle: Arc<SharedBundle>) {
        self.all.insert(bundle.number, bundle.clone());
        self.current.insert(bundle.key.clone(), bundle);
    }

    pub(super) fn all(&self) -> Vec<Arc<SharedBundle>> {
        self.all.values().cloned().collect()
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// No stream is opened in it any more.
    pub(super) fn remove_current(&mut self, bundle: &SharedBundle) {
        if self.current.get(&bundle.key).is_some_and(|known| known.number == bundle.number) {
            self.current.remove(&bundle.key);
        }
    }

    /// It is over.
    pub(crate) fn remove(&mut self, bundle: &SharedBundle) {
        self.remove_current(bundle);
        self.all.remove(&bundle.number);
    }
}

/// A node's bundles.
pub(crate) struct SharedBundles {
    pub(super) waker: PollWaker,
    bundles: Mutex<Bundles>,
    classes: RwLock<Arc<[BundleClass]>>,
    /// Those that the node's thread has not taken yet.
    keys: Mutex<Option<KeyChange>>,
    /// Bundles that have something to send, or to be called.
    queue: Mutex<Vec<Arc<SharedBundle>>>,
    /// Sockets that the node's thread has not taken yet; `None` when it takes no more.
    attachments: Mutex<Option<Vec<Attachment>>>,
    messages: Mutex<MessageFlows>,
    /// Relays whose streams have news.
    news: Mutex<Vec<RelayId>>,
    /// Where streams go that peers open; without it they wait in their bundle.
    accepted: Mutex<Option<UnboundedSender<OpenedStream>>>,
    /// Who hears of bundles that end without their peers' word.
    ends: Mutex<Option<UnboundedSender<BundleEnd>>>,
    /// Why there are no connections any more.
    ended: OnceLock<Closed>,
}

impl SharedBundles {
    pub(crate) fn new(
        waker: PollWaker,
        accepted: Option<UnboundedSender<OpenedStream>>,
        classes: Vec<BundleClass>,
    ) -> Self {
        Self {
            waker,
            bundles: Mutex::default(),
            classes: RwLock::new(classes.into()),
            keys: Mutex::default(),
            queue: Mutex::default(),
            attachments: Mutex::new(Some(Vec::new())),
            messages: Mutex::default(),
            news: Mutex::default(),
            accepted: Mutex::new(accepted),
            ends: Mutex::default(),
            ended: OnceLock::new(),
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Bundles> {
        lock(&self.bundles)
    }

    pub(super) fn follow_ends(&self, ends: UnboundedSender<BundleEnd>) {
        *lock(&self.ends) = Some(ends);
    }

    /// Tells who listens that a bundle ends, if its peer has not ended it and somebody loses a stream by it.
    pub(super) fn tell_end(&self, bundle: &SharedBundle, why: &Closed) {
        let Some(ends) = lock(&self.ends).clone() else { return };
        let state = bundle.lock();
        let streams = state.multiplexer.established_streams();
        if streams == 0 || !matches!(state.status, BundleStatus::Open) || matches!(why, Closed::ByPeer { .. }) {
            return;
        }
        let (name, address) = (state.peer_name(), canonical(state.address));
        let (peer, class) = bundle.key.clone();
        // Nobody may listen any more.
        let _ = ends.send(BundleEnd { peer: canonical(peer), address, name, class, streams, why: why.clone() });
    }

    pub(super) fn messages(&self) -> MutexGuard<'_, MessageFlows> {
        lock(&self.messages)
    }

    pub(super) fn classes(&self) -> Arc<[BundleClass]> {
        self.classes.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn class(&self, name: &str) -> Option<BundleClass> {
        self.classes().iter().find(|class| class.name == name).cloned()
    }

    /// Puts new classes, and returns the old ones.
    pub(super) fn set_classes(&self, classes: Vec<BundleClass>) -> Arc<[BundleClass]> {
        std::mem::replace(&mut *self.classes.write().unwrap_or_else(PoisonError::into_inner), classes.into())
    }

    /// Has the node's thread take keys.
    pub(super) fn put_keys(&self, keys: Keys, called: Vec<(SocketAddr, String)>) {
        *lock(&self.keys) = Some((keys, called));
        self.waker.wake();
    }

    pub(super) fn take_keys(&self) -> Option<KeyChange> {
        lock(&self.keys).take()
    }

    /// Has the node's thread carry a stream's bytes from and to a socket, unless it has ended.
    pub(super) fn attach(&self, attachment: Attachment) {
        match &mut *lock(&self.attachments) {
            Some(attachments) => attachments.push(attachment),
            None => return attachment.end_with_node(),
        }
        self.waker.wake();
    }

    pub(super) fn take_attachments(&self) -> Vec<Attachment> {
        lock(&self.attachments).as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Has the node's thread look at a relay.
    pub(super) fn tell(&self, relay: RelayId) {
        lock(&self.news).push(relay);
    }

    pub(super) fn has_news(&self) -> bool {
        !lock(&self.news).is_empty()
    }

    pub(super) fn take_news(&self, into: &mut Vec<RelayId>) {
        into.append(&mut lock(&self.news));
    }

    /// Why there are no connections any more, if there are none.
    pub(super) fn failure(&self) -> Option<io::Error> {
        self.ended.get().map(error_of)
    }

    /// All connections are over, and nobody opens any.
    pub(crate) fn close_all(&self, why: &Closed) {
        // Before the bundles are taken: who opens one later sees it.
        let _ = self.ended.set(why.clone());
        for bundle in std::mem::take(&mut *self.lock()).all() {
            bundle.close(why.clone(), self);
        }
        let attachments = lock(&self.attachments).take();
        attachments.into_iter().flatten().for_each(Attachment::end_with_node);
        drop(lock(&self.accepted).take());
    }

    /// Resets the fullest streams of the fullest bundles that share a bundle's bound of unread bytes, until they keep it.
    pub(super) fn make_room(&self, bundle: &Arc<SharedBundle>, most: u64) {
        let sharing = self.lock().sharing(bundle);
        while let Some(fullest) = sharing.iter().max_by_key(|bundle| bundle.lock().multiplexer.unread()) {
            let mut state = fullest.lock();
            // Programs read meanwhile.
            if state.multiplexer.unread() == 0 || state.multiplexer.all_unread() <= most {
                break;
            }
            state.multiplexer.reset_fullest();
            fullest.handle_events(state, self);
        }
    }

    /// Has the node's thread look at a bundle.
    pub(crate) fn queue(&self, bundle: &Arc<SharedBundle>) {
        if std::mem::replace(&mut bundle.lock().queued, true) {
            return;
        }
        lock(&self.queue).push(bundle.clone());
        self.waker.wake();
    }

    pub(crate) fn take_queued(&self) -> Vec<Arc<SharedBundle>> {
        std::mem::take(&mut *lock(&self.queue))
    }
}

/// How a bundle stands.
#[derive(Clone, Debug)]
pub(crate) enum BundleStatus {
    /// The peer is to be called, or was.
    Calling,
    Open,
    Closed(Closed),
}

/// Who waits for a stream.
enum Waiting {
    Tasks {
        reader: Option<Waker>,
        writer: Option<Waker>,
    },
    Relay {
        relay: RelayId,
        /// It will look.
        told: bool,
    },
}

impl Default for Waiting {
    fn default() -> Self {
        Self::Tasks { reader: None, writer: None }
    }
}

impl Waiting {
    fn wake(&mut self, to_read: bool, to_write: bool, bundles: &SharedBundles) {
        match self {
            Self::Tasks { reader, writer } => {
                let wakers = [reader.take_if(|_| to_read), writer.take_if(|_| to_write)];
                wakers.into_iter().flatten().for_each(Waker::wake);
            }
            Self::Relay { relay, told } => {
                if !std::mem::replace(told, true) {
                    bundles.tell(*relay);
                }
            }
        }
    }
}

/// One bundle.
pub(crate) struct SharedBundle {
    pub(crate) number: u64,
    pub(crate) key: BundleKey,
    state: Mutex<BundleState>,
}

/// What is known of a bundle.
pub(crate) struct BundleState {
    pub(crate) multiplexer: Multiplexer,
    pub(crate) status: BundleStatus,
    pub(crate) connection: Option<ConnectionId>,
    /// The node's thread will look at it.
    pub(crate) queued: bool,
    /// Its weight or its rate is another than its transport's.
    pub(crate) changed: bool,
    /// It ends with its last stream.
    pub(crate) retired: bool,
    /// Who its peer is, where keys tell.
    pub(crate) peer: Option<Arc<Peer>>,
    /// Where it is now: the key keeps the address at which it was called, or from which it has.
    pub(super) address: SocketAddr,
    waiting: BTreeMap<StreamId, Waiting>,
    /// What this side sends is under it.
    pub(crate) contract: Contract,
    /// So many bytes of all streams are to be across by the deadline, while not all of them are framed.
    pub(crate) announced: Option<u64>,
    pub(crate) deadline: SendDeadline,
    /// It ends now, and its streams with it.
    pub(crate) closing: bool,
    /// Nobody holds it or a stream of it any more: it ends once the peer has all that was said.
    pub(crate) abandoned: bool,
    /// Streams that the peer has opened and nobody has accepted yet, if they wait here.
    opened: VecDeque<StreamId>,
    /// Who waits for the peer's answer, or for such a stream.
    tasks: Vec<Waker>,
    pub(crate) sender: Statistics,
    pub(crate) receiver: Statistics,
    pub(crate) path: PathReport,
}

impl SharedBundle {
    pub(crate) fn new(
        number: u64,
        key: BundleKey,
        multiplexer: Multiplexer,
        status: BundleStatus,
        contract: Contract,
    ) -> Arc<Self> {
        let state = BundleState {
            multiplexer,
            status,
            connection: None,
            queued: false,
            changed: false,
            retired: false,
            peer: None,
            address: key.0,
            waiting: BTreeMap::new(),
            contract,
            announced: None,
            deadline: SendDeadline::default(),
            closing: false,
            abandoned: false,
            opened: VecDeque::new(),
            tasks: Vec::new(),
            sender: Statistics::default(),
            receiver: Statistics::default(),
            path: PathReport::default(),
        };
        Arc::new(Self { number, key, state: Mutex::new(state) })
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, BundleState> {
        lock(&self.state)
    }

    /// Tells who waits what has happened, and whoever accepts of new streams.
    pub(crate) fn handle_events(self: &Arc<Self>, mut state: MutexGuard<'_, BundleState>, bundles: &SharedBundles) {
        let mut opened = Vec::new();
        while let Some(event) = state.multiplexer.poll_event() {
            match event {
                StreamEvent::Opened { stream, header } => opened.push((stream, header)),
                StreamEvent::Readable(stream) => state.wake(stream, true, false, bundles),
                StreamEvent::Writable(stream) => state.wake(stream, false, true, bundles),
                StreamEvent::Reset { stream, .. } => state.wake(stream, true, true, bundles),
            }
        }
        drop(state);
        for (stream, header) in opened {
            let Some(accepted) = lock(&bundles.accepted).clone() else {
                self.lock().keep_opened(stream);
                continue;
            };
            if accepted.send(OpenedStream { bundle: self.clone(), stream, header }).is_err() {
                self.lock().multiplexer.drop_stream(stream);
            }
        }
    }

    /// The connection is over: everybody hears why. What it was closed for first stands.
    pub(crate) fn close(&self, why: Closed, bundles: &SharedBundles) {
        let mut state = self.lock();
        if !matches!(state.status, BundleStatus::Closed(_)) {
            state.status = BundleStatus::Closed(why);
        }
        state.wake_tasks();
        for mut waiting in std::mem::take(&mut state.waiting).into_values() {
            waiting.wake(true, true, bundles);
        }
    }
}

impl BundleState {
    /// The peer's name in the key file, if it has one.
    pub(super) fn peer_name(&self) -> Option<String> {
        self.peer.as_ref().and_then(|peer| peer.name.clone())
    }

    fn wake(&mut self, stream: StreamId, to_read: bool, to_write: bool, bundles: &SharedBundles) {
        if let Some(waiting) = self.waiting.get_mut(&stream) {
            waiting.wake(to_read, to_write, bundles);
        }
    }

    /// A relay waits for a stream from now on, and has just looked.
    pub(super) fn set_relay(&mut self, stream: StreamId, relay: RelayId) {
        self.waiting.insert(stream, Waiting::Relay { relay, told: false });
    }

    /// A task waits for a stream.
    fn wait(&mut self, stream: StreamId, to_read: bool, context: &Context<'_>) {
        // A stream that is carried belongs to its relay.
        if let Waiting::Tasks { reader, writer } = self.waiting.entry(stream).or_default() {
            let waker = if to_read { reader } else { writer };
            *waker = Some(context.waker().clone());
        }
    }

    fn wake_tasks(&mut self) {
        self.tasks.drain(..).for_each(Waker::wake);
    }

    fn wait_for_bundle(&mut self, context: &Context<'_>) {
        if !self.tasks.iter().any(|known| known.will_wake(context.waker())) {
            self.tasks.push(context.waker().clone());
        }
    }

    /// The connection stands.
    pub(crate) fn open(&mut self) {
        self.status = BundleStatus::Open;
        self.wake_tasks();
    }

    /// Ready once the peer that was called has answered.
    pub(crate) fn poll_open(&mut self, context: &Context<'_>) -> Poll<io::Result<()>> {
        if let Some(error) = self.failure() {
            return Poll::Ready(Err(error));
        }
        if matches!(self.status, BundleStatus::Open) {
            return Poll::Ready(Ok(()));
        }
        self.wait_for_bundle(context);
        Poll::Pending
    }

    fn keep_opened(&mut self, stream: StreamId) {
        if self.abandoned {
            return self.multiplexer.drop_stream(stream);
        }
        self.opened.push_back(stream);
        self.wake_tasks();
    }

    /// The next stream that the peer has opened. What came before the connection ended can still be taken.
    pub(crate) fn poll_accept(&mut self, context: &Context<'_>) -> Poll<io::Result<StreamId>> {
        if let Some(stream) = self.opened.pop_front() {
            return Poll::Ready(Ok(stream));
        }
        if let Some(error) = self.failure() {
            return Poll::Ready(Err(error));
        }
        self.wait_for_bundle(context);
        Poll::Pending
    }

    /// Nobody holds it or one of its streams: it takes none that the peer opens, and ends once the peer has all that was said.
    pub(crate) fn abandon(&mut self) {
        self.abandoned = true;
        // A peer that has not answered has nothing to hear.
        self.closing |= matches!(self.status, BundleStatus::Calling);
        self.multiplexer.take_no_streams();
        while let Some(stream) = self.opened.pop_front() {
            self.multiplexer.drop_stream(stream);
        }
    }

    /// Ends what a stream sends; ready once the peer has all of it.
    pub(super) fn poll_finish(&mut self, stream: StreamId, context: &Context<'_>) -> Poll<io::Result<()>> {
        self.multiplexer.finish(stream);
        if self.multiplexer.has_delivered(stream) {
            return Poll::Ready(Ok(()));
        }
        if let Some(code) = self.multiplexer.reset_of(stream) {
            return Poll::Ready(Err(reset_error(code)));
        }
        if let Some(error) = self.failure() {
            // A peer that has all it wants may be gone before its last acknowledgement has come.
            let gone = matches!(self.status, BundleStatus::Closed(Closed::ByPeer { code: 0, .. }));
            let ended = self.multiplexer.read(stream, &mut []) == ReadOutcome::Ended;
            return Poll::Ready(if gone && ended { Ok(()) } else { Err(error) });
        }
        self.wait(stream, false, context);
        Poll::Pending
    }

    /// Whether streams may be opened in it.
    pub(super) fn takes_streams(&self) -> bool {
        !self.retired && !self.closing && !matches!(self.status, BundleStatus::Closed(_))
    }

    /// Whether its key gives the peer the right to open streams; without keys that tell peers apart everybody has it.
    pub(crate) fn peer_may_open(&self) -> bool {
        self.peer.as_ref().is_none_or(|peer| peer.rights.open)
    }

    /// Nobody waits for a stream any more; a relay is told so.
    pub(super) fn forget(&mut self, stream: StreamId, bundles: &SharedBundles) {
        if let Some(mut waiting @ Waiting::Relay { .. }) = self.waiting.remove(&stream) {
            waiting.wake(true, true, bundles);
        }
    }

    /// Why nothing goes any more.
    pub(crate) fn failure(&self) -> Option<io::Error> {
        let BundleStatus::Closed(why) = &self.status else { return None };
        Some(error_of(why))
    }

    /// Why a stream takes nothing to be sent any more.
    pub(super) fn write_error(&mut self, stream: StreamId) -> io::Error {
        match self.multiplexer.read(stream, &mut []) {
            ReadOutcome::Reset(code) => reset_error(code),
            _ => io::ErrorKind::BrokenPipe.into(),
        }
    }

    pub(super) fn poll_read(
        &mut self,
        stream: StreamId,
        into: &mut [u8],
        context: &Context<'_>,
    ) -> Poll<io::Result<usize>> {
        // What came before the connection ended can still be read.
        match self.multiplexer.read(stream, into) {
            ReadOutcome::Bytes(count) => Poll::Ready(Ok(count)),
            ReadOutcome::Ended => Poll::Ready(Ok(0)),
            ReadOutcome::Reset(code) => Poll::Ready(Err(reset_error(code))),
            ReadOutcome::Nothing => {
                if let Some(error) = self.failure() {
                    return Poll::Ready(Err(error));
                }
                self.wait(stream, true, context);
                Poll::Pending
            }
        }
    }

    pub(super) fn poll_write(
        &mut self,
        stream: StreamId,
        bytes: &[u8],
        context: &Context<'_>,
    ) -> Poll<io::Result<usize>> {
        if let Some(error) = self.failure() {
            return Poll::Ready(Err(error));
        }
        match self.multiplexer.write(stream, bytes) {
            None => Poll::Ready(Err(self.write_error(stream))),
            Some(0) if !bytes.is_empty() => {
                self.wait(stream, false, context);
                Poll::Pending
            }
            Some(count) => Poll::Ready(Ok(count)),
        }
    }
}

/// What a connection's end means to a program.
fn error_of(why: &Closed) -> io::Error {
    let kind = match why {
        Closed::NoAnswer(_) | Closed::Silent(_) => io::ErrorKind::TimedOut,
        why if why.is_refusal() => io::ErrorKind::ConnectionRefused,
        _ => io::ErrorKind::ConnectionReset,
    };
    io::Error::new(kind, why.clone())
}

/// What a reset means to a program.
pub(super) fn reset_error(code: u8) -> io::Error {
    match code {
        reset_code::TOO_MANY => io::Error::new(io::ErrorKind::ConnectionRefused, "the peer takes no more streams"),
        reset_code::DENIED => io::Error::new(io::ErrorKind::PermissionDenied, "the peer does not allow it"),
        reset_code::REFUSED => io::ErrorKind::ConnectionRefused.into(),
        reset_code::UNREACHABLE => io::ErrorKind::HostUnreachable.into(),
        reset_code::TIMED_OUT => io::ErrorKind::TimedOut.into(),
        _ => io::ErrorKind::ConnectionReset.into(),
    }
}
