//! A byte stream both ways.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use pliant_proto::contract::Contract;
use pliant_proto::time::Span;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::bundle_handle::StreamOfBundle;
use super::handle::Handle;
use super::mistake::invalid;
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
    /// other bounds are those it was opened with. A stream has no known size, so it has [`set_done_by`](Self::set_done_by) in
    /// place of the contract's `done_by`; this call leaves that as it is.
    ///
    /// # Errors
    ///
    /// If the transport does not honour it or it cannot change so, and for a stream of a bundle, which has the contract.
    pub fn set_contract(&self, contract: &Contract) -> io::Result<()> {
        let By::Own(handle) = &self.by else {
            return Err(invalid("the contract of a stream of a bundle is that of the bundle"));
        };
        handle.node().check_change(handle.node().flow(), contract)?;
        let mut buffers = handle.lock();
        (buffers.contract, buffers.wanted.contract) = (Some(*contract), true);
        drop(buffers);
        handle.queue();
        Ok(())
    }

    /// Announces `bytes` beyond those written so far, all of which must be across `span` from now. The stream keeps the rate
    /// that this needs, as long as a normal flow has it, and gives way beyond it. A new announcement replaces the one before;
    /// one without a span removes it.
    ///
    /// If it will be late, the [report](Self::report) says so, and the stream is a normal flow from then on. That includes bytes
    /// that are written too late.
    ///
    /// # Errors
    ///
    /// If the transport does not honour `done_by`, the contract does not give way or its `max_rate` makes it late, the span is
    /// zero, and for a stream of a bundle, which has the time of [its own](super::Bundle::set_done_by).
    pub fn set_done_by(&self, bytes: u64, span: Option<Span>) -> io::Result<()> {
        let By::Own(handle) = &self.by else {
            return Err(invalid("the time of a stream of a bundle is that of the bundle"));
        };
        let mut buffers = handle.lock();
        let contract = buffers.contract.unwrap_or(handle.node().flow().contract);
        handle.node().check_done_by(contract, bytes, span)?;
        buffers.wanted.size = Some(buffers.written().saturating_add(bytes));
        buffers.deadline.set(span);
        drop(buffers);
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
