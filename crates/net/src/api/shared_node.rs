//! What applications' threads and the node's thread share of a node.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};

use super::buffers::SharedConnection;
use crate::connection::Closed;
use crate::flow::FlowSettings;
use crate::poll::PollWaker;
use crate::transfer::Settings;

/// Connections that wait to be accepted; more are refused.
const BACKLOG: usize = 128;

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

/// Connections that wait to be accepted, whether they carry messages, and who waits for one.
#[derive(Default)]
struct Backlog {
    waiting: VecDeque<(Arc<SharedConnection>, bool)>,
    /// By the number of an [`Accepting`], which is there once while it waits.
    wakers: BTreeMap<u64, Waker>,
    next_accept: u64,
}

impl Backlog {
    fn is_full(&self) -> bool {
        self.waiting.len() >= BACKLOG
    }

    /// Everybody looks for himself.
    fn wake_all(&mut self) {
        while let Some((_, waker)) = self.wakers.pop_first() {
            waker.wake();
        }
    }
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
        let found = backlog.waiting.iter().position(|(_, has_messages)| *has_messages == self.messages);
        if let Some((connection, _)) = found.and_then(|at| backlog.waiting.remove(at)) {
            return Poll::Ready(Ok(connection));
        }
        backlog.wakers.insert(self.number, context.waker().clone());
        Poll::Pending
    }
}

impl Drop for Accepting<'_> {
    fn drop(&mut self) {
        self.node.backlog().wakers.remove(&self.number);
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
        for (connection, _) in backlog.waiting.drain(..) {
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

    /// Whether no more connections can wait to be accepted.
    pub(super) fn is_backlog_full(&self) -> bool {
        self.backlog().is_full()
    }

    /// Lets a connection wait to be accepted. False if there is no room.
    pub(super) fn add_to_backlog(&self, connection: Arc<SharedConnection>, messages: bool) -> bool {
        let mut backlog = self.backlog();
        if backlog.is_full() {
            return false;
        }
        backlog.waiting.push_back((connection, messages));
        backlog.wake_all();
        true
    }

    /// The next connection to accept, with messages or without.
    pub(super) fn accept(&self, messages: bool) -> Accepting<'_> {
        let mut backlog = self.backlog();
        let number = backlog.next_accept;
        backlog.next_accept += 1;
        Accepting { node: self, messages, number }
    }

    /// The node is dropped: nobody will accept what waits.
    pub(super) fn close(&self) {
        self.closing.store(true, Ordering::Relaxed);
        for (connection, _) in &self.backlog().waiting {
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
        assert_eq!(node.backlog().wakers.len(), 1);
        let connection = Arc::new(SharedConnection::new(([127, 0, 0, 1], 9).into(), 1000, false));
        assert!(node.add_to_backlog(connection.clone(), false));
        assert!(node.backlog().wakers.is_empty(), "woken");
        let Poll::Ready(Ok(accepted)) = accept.as_mut().poll(&mut context) else { panic!("it is there") };
        assert!(Arc::ptr_eq(&accepted, &connection));
    }
}
