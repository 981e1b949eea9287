//! A stream of a bundle, as a program sees it.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::oneshot::channel;

use super::change::ChangeBytes;
use super::frame::StreamId;
use super::shared::{Attachment, OpenedStream, SharedBundle, SharedBundles};
use crate::socket::canonical;

/// A stream that the peer has opened.
pub struct AcceptedStream {
    /// The peer.
    pub peer: SocketAddr,
    /// The peer's name in the key file, if it has one.
    pub name: Option<String>,
    /// Name of the class.
    pub class: String,
    /// What the peer says of it.
    pub header: Vec<u8>,
    /// The stream.
    pub stream: BundleStream,
}

/// The streams that peers open, in the order in which they do.
pub struct AcceptedStreams {
    bundles: Arc<SharedBundles>,
    opened: UnboundedReceiver<OpenedStream>,
}

impl AcceptedStreams {
    pub(super) fn new(bundles: Arc<SharedBundles>, opened: UnboundedReceiver<OpenedStream>) -> Self {
        Self { bundles, opened }
    }

    /// The next stream; it may be awaited in a `select`.
    ///
    /// # Errors
    ///
    /// Why the node has ended: it was dropped, its socket has failed, or its thread has panicked.
    pub async fn next(&mut self) -> io::Result<AcceptedStream> {
        let Some(OpenedStream { bundle, stream, header }) = self.opened.recv().await else {
            return Err(self.bundles.failure().unwrap_or_else(|| io::ErrorKind::ConnectionReset.into()));
        };
        let (peer, class) = (canonical(bundle.key.0), bundle.key.1.clone());
        let name = bundle.lock().peer_name();
        let stream = BundleStream::new(self.bundles.clone(), bundle, stream);
        Ok(AcceptedStream { peer, name, class, header, stream })
    }
}

/// A byte stream both ways. It is reset when it is dropped before both sides have ended it.
pub struct BundleStream {
    bundles: Arc<SharedBundles>,
    bundle: Arc<SharedBundle>,
    stream: StreamId,
    /// Dropped once it was finished and read, it leaves the peer's side to the peer.
    lingers: bool,
}

impl BundleStream {
    pub(super) fn new(bundles: Arc<SharedBundles>, bundle: Arc<SharedBundle>, stream: StreamId) -> Self {
        Self { bundles, bundle, stream, lingers: false }
    }

    /// The same for a stream that is not reset when it is dropped after it was finished, unless the peer sends more.
    pub(crate) fn lingering(bundles: Arc<SharedBundles>, bundle: Arc<SharedBundle>, stream: StreamId) -> Self {
        Self { bundles, bundle, stream, lingers: true }
    }

    /// Carries bytes between it and a connected socket, both ways, until both sides have ended, each in its own time. What
    /// ends one side with an error, as dropping this future does, resets the other.
    ///
    /// The node's thread does it: neither that nor a task has to wake the other for every piece.
    ///
    /// # Errors
    ///
    /// Whatever ended a side.
    pub async fn carry(self, socket: OwnedFd) -> io::Result<()> {
        self.carry_by(socket, None).await
    }

    /// The same with bytes that are changed on their way, by the node's thread: it must not wait.
    ///
    /// # Errors
    ///
    /// As [`carry`](Self::carry), or whatever `change` refuses.
    pub async fn carry_changed(self, socket: OwnedFd, change: Box<dyn ChangeBytes>) -> io::Result<()> {
        self.carry_by(socket, Some(change)).await
    }

    async fn carry_by(self, socket: OwnedFd, change: Option<Box<dyn ChangeBytes>>) -> io::Result<()> {
        let (over, told) = channel();
        let (bundle, stream) = (self.bundle.clone(), self.stream);
        self.bundles.attach(Attachment { bundle, stream, socket, change, over });
        told.await.unwrap_or_else(|_| Err(io::ErrorKind::ConnectionReset.into()))
    }

    /// Resets it: the peer hears `code`, one of [`reset_code`](super::reset_code).
    pub fn reset(self, code: u8) {
        self.bundle.lock().multiplexer.reset(self.stream, code);
    }
}

impl Drop for BundleStream {
    fn drop(&mut self) {
        let mut state = self.bundle.lock();
        if self.lingers {
            state.multiplexer.leave(self.stream);
        } else {
            state.multiplexer.drop_stream(self.stream);
        }
        state.forget(self.stream, &self.bundles);
        drop(state);
        self.bundles.queue(&self.bundle);
    }
}

impl BundleStream {
    /// Reads: through a shared reference, for one reader beside one writer.
    pub(crate) fn poll_take(&self, context: &Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut state = self.bundle.lock();
        let read = state.poll_read(self.stream, into.initialize_unfilled(), context);
        let wants = state.multiplexer.has_control();
        drop(state);
        if wants {
            self.bundles.queue(&self.bundle);
        }
        read.map_ok(|count| into.advance(count))
    }

    pub(crate) fn poll_give(&self, context: &Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = self.bundle.lock().poll_write(self.stream, bytes, context);
        if matches!(written, Poll::Ready(Ok(_))) {
            self.bundles.queue(&self.bundle);
        }
        written
    }

    /// Ends what goes out; ready once the peer has all of it.
    pub(crate) fn poll_end(&self, context: &Context<'_>) -> Poll<io::Result<()>> {
        let finished = self.bundle.lock().poll_finish(self.stream, context);
        self.bundles.queue(&self.bundle);
        finished
    }
}

impl AsyncRead for BundleStream {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.poll_take(context, into)
    }
}

impl AsyncWrite for BundleStream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_give(context, bytes)
    }

    /// What is written is on its way; nothing waits to be flushed.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Ends what goes out. What comes in goes on.
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.bundle.lock().multiplexer.finish(self.stream);
        self.bundles.queue(&self.bundle);
        Poll::Ready(Ok(()))
    }
}
