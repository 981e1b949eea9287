//! A byte stream both ways.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use pliant_proto::contract::Contract;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::Report;
use super::buffers::{Phase, Shared};
use super::node::Desk;
use crate::connection::Closed;
use crate::flow::{Family, FlowSettings};

/// An encrypted byte stream both ways. Dropped, it is closed once what was written before a shutdown is across.
pub struct Stream {
    desk: Arc<Desk>,
    shared: Arc<Shared>,
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.shared.lock().wanted.abandoned = true;
        self.desk.queue(&self.shared);
    }
}

/// How a connection stands.
pub(super) fn report(shared: &Shared) -> Report {
    let buffers = shared.lock();
    let family = buffers.family.unwrap_or(Family::Tcp);
    Report { peer: buffers.peer, family, sender: buffers.sender, receiver: buffers.receiver }
}

impl Stream {
    pub(super) fn new(desk: Arc<Desk>, shared: Arc<Shared>) -> Self {
        Self { desk, shared }
    }

    /// Changes the contract while the stream runs: its weight. The bounds are those it was opened with.
    pub fn set_contract(&self, contract: &Contract) -> io::Result<()> {
        let flow = self.desk.flow();
        let refuse = |why: String| Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        if let Err(error) = (FlowSettings { contract: *contract, ..flow.clone() }).check() {
            return refuse(error.to_string());
        }
        let bounds = |contract: &Contract| (contract.min_delivery, contract.min_share);
        if bounds(contract) != bounds(&flow.contract) {
            return refuse("min_delivery and min_share cannot change while a stream runs".to_owned());
        }
        self.shared.lock().wanted.weight = Some(contract.weight);
        self.desk.queue(&self.shared);
        Ok(())
    }

    /// How it stands.
    pub fn report(&self) -> Report {
        report(&self.shared)
    }
}

impl Stream {
    /// Reads: through a shared reference, for one reader beside one writer.
    pub(super) fn poll_take(&self, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut buffers = self.shared.lock();
        let taken = buffers.incoming.take(into.initialize_unfilled());
        if taken > 0 {
            into.advance(taken);
            buffers.wanted.consume += taken as u64;
            drop(buffers);
            self.desk.queue(&self.shared);
            return Poll::Ready(Ok(()));
        }
        let nothing_more = buffers.incoming.ended || into.remaining() == 0;
        buffers.poll(nothing_more.then_some(()), context)
    }

    pub(super) fn poll_give(&self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut buffers = self.shared.lock();
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
        self.desk.queue(&self.shared);
        Poll::Ready(Ok(written))
    }

    pub(super) fn poll_end(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        poll_finish(&self.desk, &self.shared, context)
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

/// Ends what goes out; ready once the peer has all of it.
pub(super) fn poll_finish(desk: &Desk, shared: &Arc<Shared>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
    let mut buffers = shared.lock();
    if !buffers.outgoing.finish {
        buffers.outgoing.finish = true;
        buffers.wanted.finish = true;
        drop(buffers);
        desk.queue(shared);
        buffers = shared.lock();
    }
    if buffers.outgoing.finished {
        return Poll::Ready(Ok(()));
    }
    match &buffers.phase {
        // A peer that has all it wants may be gone before its last acknowledgement has come.
        Phase::Closed(Closed::ByPeer { code: 0, .. }) if buffers.incoming.ended => Poll::Ready(Ok(())),
        Phase::Closed(_) => Poll::Ready(Err(buffers.failure().expect("it is closed"))),
        _ => {
            buffers.wait(context.waker());
            Poll::Pending
        }
    }
}
