//! A byte stream both ways.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use pliant_proto::contract::Contract;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::handle::Handle;
use super::report::Report;
use crate::flow::FlowSettings;

/// An encrypted byte stream both ways. Dropped, it is closed once what was written before a shutdown is across.
pub struct Stream {
    handle: Handle,
}

impl Stream {
    pub(super) fn new(handle: Handle) -> Self {
        Self { handle }
    }

    /// Changes the contract while the stream runs: its weight. The bounds are those it was opened with.
    pub fn set_contract(&self, contract: &Contract) -> io::Result<()> {
        let flow = self.handle.flow();
        let refuse = |why: String| Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        if let Err(error) = (FlowSettings { contract: *contract, ..flow.clone() }).check() {
            return refuse(error.to_string());
        }
        let bounds = |contract: &Contract| (contract.min_delivery, contract.min_share, contract.min_rate);
        if bounds(contract) != bounds(&flow.contract) {
            return refuse("min_delivery, min_share and min_rate cannot change while a stream runs".to_owned());
        }
        self.handle.lock().wanted.weight = Some(contract.weight);
        self.handle.queue();
        Ok(())
    }

    /// How it stands.
    pub fn report(&self) -> Report {
        self.handle.report()
    }
}

impl Stream {
    /// Reads: through a shared reference, for one reader beside one writer.
    pub(super) fn poll_take(&self, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut buffers = self.handle.lock();
        let taken = buffers.incoming.take(into.initialize_unfilled());
        if taken > 0 {
            into.advance(taken);
            buffers.wanted.consume += taken as u64;
            drop(buffers);
            self.handle.queue();
            return Poll::Ready(Ok(()));
        }
        let nothing_more = buffers.incoming.ended || into.remaining() == 0;
        buffers.poll(nothing_more.then_some(()), context)
    }

    pub(super) fn poll_give(&self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut buffers = self.handle.lock();
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
        self.handle.queue();
        Poll::Ready(Ok(written))
    }

    pub(super) fn poll_end(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.handle.poll_finish(context)
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
