//! An application's hold on a bundle, and on a stream of one.

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::ReadBuf;

use super::mistake::invalid;
use super::report::Report;
use super::shared_node::SharedNode;
use crate::bundle::{BundleStream, SharedBundle};
use crate::flow::{FlowSettings, Protocol};

/// Holds a bundle, for an application that has it or one of its streams.
pub(super) struct BundleHandle {
    pub(super) node: Arc<SharedNode>,
    pub(super) bundle: Arc<SharedBundle>,
}

impl Drop for BundleHandle {
    fn drop(&mut self) {
        self.bundle.lock().abandon();
        self.queue();
    }
}

impl BundleHandle {
    pub(super) fn new(node: Arc<SharedNode>, bundle: Arc<SharedBundle>) -> Self {
        Self { node, bundle }
    }

    /// Has the node look at the bundle, which must not be locked.
    pub(super) fn queue(&self) {
        self.node.bundles().queue(&self.bundle);
    }

    /// Ready once the peer that was called answers.
    pub(super) fn poll_open(&self, context: &Context<'_>) -> Poll<io::Result<()>> {
        self.bundle.lock().poll_open(context)
    }

    /// How its flow stands.
    pub(super) fn report(&self) -> Report {
        let state = self.bundle.lock();
        let (peer, late) = (self.bundle.key.0, state.deadline.late());
        Report { peer, protocol: Protocol::Tcp, sender: state.sender, receiver: state.receiver, late }
    }
}

/// Refuses a bundle that cannot be.
pub(super) fn check(flow: &FlowSettings) -> io::Result<()> {
    if flow.transport.protocol() != Protocol::Tcp || flow.contract.min_delivery < 1.0 {
        return Err(invalid("a bundle needs a transport with a window, and all of it must arrive"));
    }
    flow.check_stream().map_err(invalid)
}

/// A stream of a bundle. It is let go before the bundle is.
pub(super) struct StreamOfBundle {
    stream: BundleStream,
    handle: Arc<BundleHandle>,
}

impl StreamOfBundle {
    /// The stream of this number.
    pub(super) fn new(handle: &Arc<BundleHandle>, stream: u32) -> Self {
        let BundleHandle { node, bundle } = &**handle;
        let stream = BundleStream::lingering(node.bundles().clone(), bundle.clone(), stream);
        Self { stream, handle: handle.clone() }
    }

    pub(super) fn poll_take(&self, context: &Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.stream.poll_take(context, into)
    }

    pub(super) fn poll_give(&self, context: &Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.stream.poll_give(context, bytes)
    }

    pub(super) fn poll_end(&self, context: &Context<'_>) -> Poll<io::Result<()>> {
        self.stream.poll_end(context)
    }

    pub(super) fn report(&self) -> Report {
        self.handle.report()
    }
}
