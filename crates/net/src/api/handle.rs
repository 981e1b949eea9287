//! An application's end of a connection.

use std::io;
use std::sync::{Arc, MutexGuard};
use std::task::{Context, Poll};

use super::buffers::{Buffers, SharedConnection, Status};
use super::report::Report;
use super::shared_node::SharedNode;
use crate::connection::Closed;
use crate::flow::Protocol;

/// Holds a connection. Once it is dropped, the connection is closed as soon as what was finished is across.
pub(super) struct Handle {
    node: Arc<SharedNode>,
    connection: Arc<SharedConnection>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.lock().wanted.abandoned = true;
        self.queue();
    }
}

impl Handle {
    pub(super) fn new(node: Arc<SharedNode>, connection: Arc<SharedConnection>) -> Self {
        Self { node, connection }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Buffers> {
        self.connection.lock()
    }

    /// Has the node look at what the connection wants. Its buffers must not be locked.
    pub(super) fn queue(&self) {
        self.node.queue(&self.connection);
    }

    pub(super) fn node(&self) -> &SharedNode {
        &self.node
    }

    /// How the connection stands.
    pub(super) fn report(&self) -> Report {
        let buffers = self.lock();
        let protocol = buffers.protocol.unwrap_or(Protocol::Tcp);
        let Buffers { peer, sender, receiver, .. } = *buffers;
        Report { peer, protocol, sender, receiver, late: buffers.deadline.late() }
    }

    /// Ready once the peer that was called answers.
    pub(super) fn poll_open(&self, context: &Context<'_>) -> Poll<io::Result<()>> {
        let mut buffers = self.lock();
        match &buffers.status {
            Status::Open => Poll::Ready(Ok(())),
            Status::Closed(_) => Poll::Ready(Err(buffers.failure().expect("it is closed"))),
            Status::Calling => {
                buffers.wait(context.waker());
                Poll::Pending
            }
        }
    }

    /// Ends what goes out; ready once the peer has all of it.
    pub(super) fn poll_finish(&self, context: &Context<'_>) -> Poll<io::Result<()>> {
        let mut buffers = self.lock();
        if !buffers.outgoing.finish {
            buffers.outgoing.finish = true;
            buffers.wanted.finish = true;
            drop(buffers);
            self.queue();
            buffers = self.lock();
        }
        if buffers.outgoing.finished {
            return Poll::Ready(Ok(()));
        }
        match &buffers.status {
            // A peer that has all it wants may be gone before its last acknowledgement has come.
            Status::Closed(Closed::ByPeer { code: 0, .. }) if buffers.incoming.ended => Poll::Ready(Ok(())),
            Status::Closed(_) => Poll::Ready(Err(buffers.failure().expect("it is closed"))),
            _ => {
                buffers.wait(context.waker());
                Poll::Pending
            }
        }
    }
}
