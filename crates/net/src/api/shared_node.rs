//! What applications' threads and the node's thread share of a node.

use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll};

use pliant_proto::time::Instant;

use super::backlog::Backlog;
use super::buffers::SharedConnection;
use crate::connection::Closed;
use crate::flow::FlowSettings;
use crate::poll::PollWaker;
use crate::transfer::Settings;

/// One node, shared.
pub(super) struct SharedNode {
    waker: PollWaker,
    /// Connections whose applications want something.
    queue: Mutex<Vec<Arc<SharedConnection>>>,
    backlog: Mutex<Backlog>,
    closing: AtomicBool,
    /// Why its thread serves nobody any more.
    failure: OnceLock<String>,
    settings: Settings,
}

/// Ends a connection that nobody serves any more.
fn end(connection: &SharedConnection, why: &str) {
    let mut buffers = connection.lock();
    buffers.wanted.queued = false;
    buffers.close(Closed::Failed(why.to_owned()));
}

/// Waits for a connection. Dropped, it waits no more.
pub(super) struct Accepting<'n> {
    node: &'n SharedNode,
    messages: bool,
    number: u64,
}

impl Future for Accepting<'_> {
    type Output = io::Result<Arc<SharedConnection>>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut backlog = self.node.backlog();
        if let Some(why) = self.node.failure.get() {
            return Poll::Ready(Err(io::Error::other(why.clone())));
        }
        if let Some(connection) = backlog.take(self.messages) {
            return Poll::Ready(Ok(connection));
        }
        backlog.wait(self.number, context.waker().clone());
        Poll::Pending
    }
}

impl Drop for Accepting<'_> {
    fn drop(&mut self) {
        self.node.backlog().forget(self.number);
    }
}

impl SharedNode {
    /// A node without connections, whose thread `waker` wakes.
    pub(super) fn new(waker: PollWaker, settings: Settings) -> Self {
        let (queue, backlog) = (Mutex::default(), Mutex::default());
        Self { waker, queue, backlog, closing: AtomicBool::new(false), failure: OnceLock::new(), settings }
    }

    /// Has the node look at what this connection wants.
    pub(super) fn queue(&self, connection: &Arc<SharedConnection>) {
        let mut buffers = connection.lock();
        let queued = std::mem::replace(&mut buffers.wanted.queued, true);
        drop(buffers);
        if queued {
            return;
        }
        let mut queue = self.queued();
        match self.failure.get() {
            Some(why) => end(connection, why),
            None => queue.push(connection.clone()),
        }
        drop(queue);
        self.waker.wake();
    }

    /// Takes the connections that were queued.
    pub(super) fn take_queued(&self) -> Vec<Arc<SharedConnection>> {
        std::mem::take(&mut *self.queued())
    }

    fn queued(&self) -> MutexGuard<'_, Vec<Arc<SharedConnection>>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The thread serves nobody any more: whoever waits for a connection hears why, and so does whoever comes later.
    pub(super) fn fail(&self, why: &str) {
        // Before the queue is emptied: what is queued later sees it.
        let why = self.failure.get_or_init(|| why.to_owned());
        for connection in self.take_queued() {
            end(&connection, why);
        }
        let mut backlog = self.backlog();
        for connection in backlog.drain() {
            end(&connection, why);
        }
        backlog.wake_all();
    }

    pub(super) fn settings(&self) -> &Settings {
        &self.settings
    }

    pub(super) fn flow(&self) -> &FlowSettings {
        &self.settings.flow
    }

    fn backlog(&self) -> MutexGuard<'_, Backlog> {
        self.backlog.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether another connection of this kind from `address` must be refused.
    pub(super) fn is_backlog_full(&self, messages: bool, address: IpAddr) -> bool {
        self.backlog().is_full(messages, address)
    }

    /// Lets a connection from `address` wait to be accepted. False if there is no room.
    pub(super) fn add_to_backlog(
        &self,
        now: Instant,
        connection: Arc<SharedConnection>,
        messages: bool,
        address: IpAddr,
    ) -> bool {
        self.backlog().add(now, connection, messages, address)
    }

    /// The next connection that nobody has accepted in time.
    pub(super) fn take_overdue(&self, now: Instant) -> Option<Arc<SharedConnection>> {
        self.backlog().take_overdue(now)
    }

    /// The next connection to accept, with messages or without.
    pub(super) fn accept(&self, messages: bool) -> Accepting<'_> {
        let number = self.backlog().number();
        Accepting { node: self, messages, number }
    }

    /// The node is dropped: nobody will accept what waits.
    pub(super) fn close(&self) {
        self.closing.store(true, Ordering::Relaxed);
        for connection in self.backlog().connections() {
            connection.lock().wanted.abandoned = true;
        }
        self.waker.wake();
    }

    pub(super) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::Waker;

    use super::*;

    /// Whoever waits for a connection is remembered once, however often it looks, and forgotten when it gives up: a program
    /// that waits with a time limit, again and again, costs nothing.
    #[test]
    fn who_waits_is_remembered_once() {
        let node = SharedNode::new(PollWaker::new().unwrap(), Settings::default());
        let mut context = Context::from_waker(Waker::noop());
        let mut accept = pin!(node.accept(false));
        for _ in 0..1000 {
            assert!(accept.as_mut().poll(&mut context).is_pending());
            assert!(pin!(node.accept(true)).poll(&mut context).is_pending());
        }
        assert_eq!(node.backlog().waiters(), 1);
        let connection = Arc::new(SharedConnection::new(([127, 0, 0, 1], 9).into(), 1000, false));
        assert!(node.add_to_backlog(Instant::ZERO, connection.clone(), false, [127, 0, 0, 1].into()));
        assert_eq!(node.backlog().waiters(), 0, "woken");
        let Poll::Ready(Ok(accepted)) = accept.as_mut().poll(&mut context) else { panic!("it is there") };
        assert!(Arc::ptr_eq(&accepted, &connection));
    }
}
