//! A byte stream both ways.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use pliant_proto::contract::Contract;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::bundle_handle::{StreamOfBundle, invalid};
use super::handle::Handle;
use super::report::Report;

/// An encrypted byte stream both ways, by a flow of its own or in a [`Bundle`](super::Bundle). Dropped, it is closed once what
/// was written before a shutdown is across. A stream of a bundle that was not shut down before is reset, unless it was read to
/// its end and nothing was written to it.
pub struct Stream {
    by: By,
}

/// What carries it.
enum By {
    Own(Handle),
    Bundle(StreamOfBundle),
}

impl Stream {
    pub(super) fn new(handle: Handle) -> Self {
        Self { by: By::Own(handle) }
    }

    pub(super) fn of_bundle(stream: StreamOfBundle) -> Self {
        Self { by: By::Bundle(stream) }
    }

    /// Changes the contract while the stream runs: its weight, `min_rate` and `max_rate`, and of `bounded` `min_share`. The
    /// other bounds are those it was opened with, and a stream, of which nobody knows how long it will be, has no `done_by`.
    ///
    /// # Errors
    ///
    /// If the transport does not honour it or it cannot change so, and for a stream of a bundle, which has the contract.
    pub fn set_contract(&self, contract: &Contract) -> io::Result<()> {
        let By::Own(handle) = &self.by else {
            return Err(invalid("the contract of a stream of a bundle is that of the bundle"));
        };
        let changed = handle.flow().changed_to(*contract).and_then(|changed| changed.check_stream());
        changed.map_err(|error| invalid(&error.to_string()))?;
        handle.lock().wanted.contract = Some(*contract);
        handle.queue();
        Ok(())
    }

    /// How its flow stands, which is that of all its streams for a stream of a bundle.
    pub fn report(&self) -> Report {
        match &self.by {
            By::Own(handle) => handle.report(),
            By::Bundle(stream) => stream.report(),
        }
    }
}

impl Stream {
    /// Reads: through a shared reference, for one reader beside one writer.
    pub(super) fn poll_take(&self, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let handle = match &self.by {
            By::Own(handle) => handle,
            By::Bundle(stream) => return stream.poll_take(context, into),
        };
        let mut buffers = handle.lock();
        let taken = buffers.incoming.take(into.initialize_unfilled());
        if taken > 0 {
            into.advance(taken);
            buffers.wanted.consume += taken as u64;
            drop(buffers);
            handle.queue();
            return Poll::Ready(Ok(()));
        }
        let nothing_more = buffers.incoming.ended || into.remaining() == 0;
        buffers.poll(nothing_more.then_some(()), context)
    }

    pub(super) fn poll_give(&self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let handle = match &self.by {
            By::Own(handle) => handle,
            By::Bundle(stream) => return stream.poll_give(context, bytes),
        };
        let mut buffers = handle.lock();
        if let Some(error) = buffers.failure() {
            return Poll::Ready(Err(error));
        }
        if buffers.outgoing.finish {
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::BrokenPipe, "the stream was shut down")));
        }
        let written = buffers.write(bytes);
        if written == 0 && !bytes.is_empty() {
            buffers.wait(context.waker());
            return Poll::Pending;
        }
        drop(buffers);
        handle.queue();
        Poll::Ready(Ok(written))
    }

    pub(super) fn poll_end(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &self.by {
            By::Own(handle) => handle.poll_finish(context),
            By::Bundle(stream) => stream.poll_end(context),
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.poll_take(context, into)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_give(context, bytes)
    }

    /// What is written is on its way; nothing waits to be flushed.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Ends what goes out; ready once the peer has all of it.
    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_end(context)
    }
}
