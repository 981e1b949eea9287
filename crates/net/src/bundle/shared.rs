//! What applications' tasks and the node's thread share.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::task::{Context, Poll, Waker};

use pliant_proto::transport::Statistics;
use tokio::sync::mpsc::UnboundedSender;

use super::class::BundleClass;
use super::frame::StreamId;
use super::multiplexer::{Multiplexer, ReadOutcome, StreamEvent, reset_code};
use crate::connection::{Closed, ConnectionId, Keys, Peer};
use crate::poll::PollWaker;

/// A bundle's peer, and the name of its class.
pub(super) type BundleKey = (SocketAddr, String);

/// A stream that a peer has opened.
pub(super) struct OpenedStream {
    pub(super) bundle: Arc<SharedBundle>,
    pub(super) stream: StreamId,
    pub(super) header: Vec<u8>,
}

/// Keys, and which peer is called at an address.
type KeyChange = (Keys, Vec<(SocketAddr, String)>);

/// The bundles that are not over.
#[derive(Default)]
pub(super) struct Bundles {
    /// Those in which streams are opened.
    pub(super) current: HashMap<BundleKey, Arc<SharedBundle>>,
    /// All, by number.
    all: BTreeMap<u64, Arc<SharedBundle>>,
    last_number: u64,
}

impl Bundles {
    pub(super) fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    /// Takes a new bundle, in which streams are opened from now on.
    pub(super) fn insert(&mut self, bundle: Arc<SharedBundle>) {
        self.all.insert(bundle.number, bundle.clone());
        self.current.insert(bundle.key.clone(), bundle);
    }

    pub(super) fn all(&self) -> Vec<Arc<SharedBundle>> {
        self.all.values().cloned().collect()
    }

    /// No stream is opened in it any more.
    pub(super) fn remove_current(&mut self, bundle: &SharedBundle) {
        if self.current.get(&bundle.key).is_some_and(|known| known.number == bundle.number) {
            self.current.remove(&bundle.key);
        }
    }

    /// It is over.
    pub(super) fn remove(&mut self, bundle: &SharedBundle) {
        self.remove_current(bundle);
        self.all.remove(&bundle.number);
    }
}

/// A node's bundles.
pub(super) struct SharedBundles {
    pub(super) waker: PollWaker,
    bundles: Mutex<Bundles>,
    classes: RwLock<Arc<[BundleClass]>>,
    /// Those that the node's thread has not taken yet.
    keys: Mutex<Option<KeyChange>>,
    /// Bundles that have something to send, or to be called.
    queue: Mutex<Vec<Arc<SharedBundle>>>,
    pub(super) accepted: UnboundedSender<OpenedStream>,
}

impl SharedBundles {
    pub(super) fn new(waker: PollWaker, accepted: UnboundedSender<OpenedStream>, classes: Vec<BundleClass>) -> Self {
        let classes = RwLock::new(classes.into());
        Self { waker, bundles: Mutex::default(), classes, keys: Mutex::default(), queue: Mutex::default(), accepted }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Bundles> {
        self.bundles.lock().unwrap_or_else(PoisonError::into_inner)
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
        *self.keys.lock().unwrap_or_else(PoisonError::into_inner) = Some((keys, called));
        self.waker.wake();
    }

    pub(super) fn take_keys(&self) -> Option<KeyChange> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// All connections are over.
    pub(super) fn close_all(&self, why: &Closed) {
        for bundle in std::mem::take(&mut *self.lock()).all() {
            bundle.close(why.clone());
        }
    }

    /// Has the node's thread look at a bundle.
    pub(super) fn queue(&self, bundle: &Arc<SharedBundle>) {
        if std::mem::replace(&mut bundle.lock().queued, true) {
            return;
        }
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).push(bundle.clone());
        self.waker.wake();
    }

    pub(super) fn take_queued(&self) -> Vec<Arc<SharedBundle>> {
        std::mem::take(&mut *self.queue.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// How a bundle stands.
#[derive(Clone, Debug)]
pub(super) enum BundleStatus {
    /// The peer is to be called, or was.
    Calling,
    Open,
    Closed(Closed),
}

/// Who waits for a stream.
#[derive(Default)]
struct Waiting {
    reader: Option<Waker>,
    writer: Option<Waker>,
}

/// One bundle.
pub(super) struct SharedBundle {
    pub(super) number: u64,
    pub(super) key: BundleKey,
    state: Mutex<BundleState>,
}

/// What is known of a bundle.
pub(super) struct BundleState {
    pub(super) multiplexer: Multiplexer,
    pub(super) status: BundleStatus,
    pub(super) connection: Option<ConnectionId>,
    /// The node's thread will look at it.
    pub(super) queued: bool,
    /// Its weight or its rate is another than its transport's.
    pub(super) changed: bool,
    /// It ends with its last stream.
    pub(super) retired: bool,
    /// Who its peer is, where keys tell.
    pub(super) peer: Option<Arc<Peer>>,
    waiting: BTreeMap<StreamId, Waiting>,
    pub(super) sender: Statistics,
    pub(super) receiver: Statistics,
}

impl SharedBundle {
    pub(super) fn new(number: u64, key: BundleKey, multiplexer: Multiplexer, status: BundleStatus) -> Arc<Self> {
        let state = BundleState {
            multiplexer,
            status,
            connection: None,
            queued: false,
            changed: false,
            retired: false,
            peer: None,
            waiting: BTreeMap::new(),
            sender: Statistics::default(),
            receiver: Statistics::default(),
        };
        Arc::new(Self { number, key, state: Mutex::new(state) })
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, BundleState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells who waits what has happened, and whoever accepts of new streams.
    pub(super) fn handle_events(self: &Arc<Self>, bundles: &SharedBundles) {
        let mut state = self.lock();
        let mut opened = Vec::new();
        while let Some(event) = state.multiplexer.poll_event() {
            match event {
                StreamEvent::Opened { stream, header } => opened.push((stream, header)),
                StreamEvent::Readable(stream) => state.wake(stream, true, false),
                StreamEvent::Writable(stream) => state.wake(stream, false, true),
                StreamEvent::Reset { stream, .. } => state.wake(stream, true, true),
            }
        }
        drop(state);
        for (stream, header) in opened {
            if bundles.accepted.send(OpenedStream { bundle: self.clone(), stream, header }).is_err() {
                self.lock().multiplexer.drop_stream(stream);
            }
        }
    }

    /// The connection is over: everybody hears why.
    pub(super) fn close(&self, why: Closed) {
        let mut state = self.lock();
        state.status = BundleStatus::Closed(why);
        for waiting in std::mem::take(&mut state.waiting).into_values() {
            waiting.reader.into_iter().chain(waiting.writer).for_each(Waker::wake);
        }
    }
}

impl BundleState {
    fn wake(&mut self, stream: StreamId, reader: bool, writer: bool) {
        let Some(waiting) = self.waiting.get_mut(&stream) else { return };
        let wakers = [waiting.reader.take_if(|_| reader), waiting.writer.take_if(|_| writer)];
        wakers.into_iter().flatten().for_each(Waker::wake);
    }

    /// Whether streams may be opened in it.
    pub(super) fn takes_streams(&self) -> bool {
        !self.retired && !matches!(self.status, BundleStatus::Closed(_))
    }

    /// Whether its key gives the peer the right to open streams; without keys that tell peers apart everybody has it.
    pub(super) fn peer_may_open(&self) -> bool {
        self.peer.as_ref().is_none_or(|peer| peer.rights.open)
    }

    pub(super) fn forget(&mut self, stream: StreamId) {
        self.waiting.remove(&stream);
    }

    /// Why nothing goes any more.
    fn failure(&self) -> Option<io::Error> {
        let BundleStatus::Closed(why) = &self.status else { return None };
        let kind = match why {
            Closed::NoAnswer(_) | Closed::Silent(_) => io::ErrorKind::TimedOut,
            why if why.is_refusal() => io::ErrorKind::ConnectionRefused,
            _ => io::ErrorKind::ConnectionReset,
        };
        Some(io::Error::new(kind, why.to_string()))
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
                self.waiting.entry(stream).or_default().reader = Some(context.waker().clone());
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
            None => Poll::Ready(Err(match self.multiplexer.read(stream, &mut []) {
                ReadOutcome::Reset(code) => reset_error(code),
                _ => io::ErrorKind::BrokenPipe.into(),
            })),
            Some(0) if !bytes.is_empty() => {
                self.waiting.entry(stream).or_default().writer = Some(context.waker().clone());
                Poll::Pending
            }
            Some(count) => Poll::Ready(Ok(count)),
        }
    }
}

/// What a reset means to a program.
fn reset_error(code: u8) -> io::Error {
    match code {
        reset_code::TOO_MANY => io::Error::new(io::ErrorKind::ConnectionRefused, "the peer takes no more streams"),
        reset_code::DENIED => io::Error::new(io::ErrorKind::PermissionDenied, "the peer does not allow it"),
        reset_code::REFUSED => io::ErrorKind::ConnectionRefused.into(),
        reset_code::UNREACHABLE => io::ErrorKind::HostUnreachable.into(),
        reset_code::TIMED_OUT => io::ErrorKind::TimedOut.into(),
        _ => io::ErrorKind::ConnectionReset.into(),
    }
}
