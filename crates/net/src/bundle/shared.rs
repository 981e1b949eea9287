//! What applications' tasks and the node's thread share.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use pliant_proto::transport::Statistics;
use tokio::sync::mpsc::UnboundedSender;

use super::frame::StreamId;
use super::multiplexer::{Multiplexer, ReadOutcome, StreamEvent, reset_code};
use crate::connection::{Closed, ConnectionId};
use crate::poll::PollWaker;

/// A bundle's peer, and the name of its class.
pub(super) type BundleKey = (SocketAddr, String);

/// A stream that a peer has opened.
pub(super) struct OpenedStream {
    pub(super) bundle: Arc<SharedBundle>,
    pub(super) stream: StreamId,
    pub(super) header: Vec<u8>,
}

/// A node's bundles.
pub(super) struct SharedBundles {
    pub(super) waker: PollWaker,
    pub(super) bundles: Mutex<HashMap<BundleKey, Arc<SharedBundle>>>,
    /// Bundles that have something to send, or to be called.
    queue: Mutex<Vec<Arc<SharedBundle>>>,
    pub(super) accepted: UnboundedSender<OpenedStream>,
}

impl SharedBundles {
    pub(super) fn new(waker: PollWaker, accepted: UnboundedSender<OpenedStream>) -> Self {
        Self { waker, bundles: Mutex::default(), queue: Mutex::default(), accepted }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, HashMap<BundleKey, Arc<SharedBundle>>> {
        self.bundles.lock().unwrap_or_else(PoisonError::into_inner)
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
    waiting: BTreeMap<StreamId, Waiting>,
    pub(super) sender: Statistics,
    pub(super) receiver: Statistics,
}

impl SharedBundle {
    pub(super) fn new(key: BundleKey, multiplexer: Multiplexer, status: BundleStatus) -> Arc<Self> {
        let state = BundleState {
            multiplexer,
            status,
            connection: None,
            queued: false,
            waiting: BTreeMap::new(),
            sender: Statistics::default(),
            receiver: Statistics::default(),
        };
        Arc::new(Self { key, state: Mutex::new(state) })
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
