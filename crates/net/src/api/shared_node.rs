//! What applications' threads and the node's thread share of a node.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll};

use pliant_proto::contract::Contract;
use pliant_proto::contract::schedule::DaySchedule;
use pliant_proto::time::{Instant, Span};

use super::backlog::Backlog;
use super::buffers::SharedConnection;
use super::mistake::invalid;
use crate::bundle::{BundleClass, BundleStatus, Multiplexer, MultiplexerConfig, SharedBundle, SharedBundles};
use crate::connection::Closed;
use crate::day_clock::DayClock;
use crate::flow::FlowSettings;
use crate::poll::PollWaker;
use crate::transfer::Settings;

/// Most streams of a bundle that its peer may have open.
const MAX_STREAMS: usize = 1024;
/// Most bytes that the windows of a bundle's streams grow to together, beyond the first 64 KiB of each.
const WINDOW_BUDGET: u64 = 64 << 20;
/// Most bytes of a bundle that wait to be read: all that streams within their windows can hold.
const MAX_UNREAD: u64 = MAX_STREAMS as u64 * (64 << 10) + WINDOW_BUDGET;

/// One node, shared.
pub(super) struct SharedNode {
    waker: PollWaker,
    /// Connections whose applications want something.
    queue: Mutex<Vec<Arc<SharedConnection>>>,
    backlog: Mutex<Backlog<Arc<SharedConnection>>>,
    bundles: Arc<SharedBundles>,
    bundle_backlog: Mutex<Backlog<Arc<SharedBundle>>>,
    closing: AtomicBool,
    /// The thread has served what was wanted before the node was dropped, or has ended.
    parted: (Mutex<bool>, Condvar),
    /// Why its thread serves nobody any more.
    failure: OnceLock<String>,
    settings: Settings,
    day: Mutex<DayClock>,
}

/// Ends a connection that nobody serves any more.
fn end(connection: &SharedConnection, why: &str) {
    let mut buffers = connection.lock();
    buffers.wanted.queued = false;
    buffers.close(Closed::Failed(why.to_owned()));
}

/// Waits for a connection. Dropped, it waits no more.
pub(super) struct Accepting<'n, C> {
    backlog: &'n Mutex<Backlog<C>>,
    failure: &'n OnceLock<String>,
    messages: bool,
    number: u64,
}

impl<C> Future for Accepting<'_, C> {
    type Output = io::Result<C>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut backlog = lock(self.backlog);
        if let Some(why) = self.failure.get() {
            return Poll::Ready(Err(io::Error::other(why.clone())));
        }
        if let Some(connection) = backlog.take(self.messages) {
            return Poll::Ready(Ok(connection));
        }
        backlog.wait(self.number, context.waker().clone());
        Poll::Pending
    }
}

impl<C> Drop for Accepting<'_, C> {
    fn drop(&mut self) {
        lock(self.backlog).forget(self.number);
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl SharedNode {
    /// A node without connections, whose thread `waker` wakes.
    pub(super) fn new(waker: PollWaker, settings: Settings) -> Self {
        let bundles = Arc::new(SharedBundles::new(waker.clone(), None, Vec::new()));
        let day = Mutex::new(DayClock::new(settings.schedule.clone()));
        Self {
            waker,
            queue: Mutex::default(),
            backlog: Mutex::default(),
            bundles,
            bundle_backlog: Mutex::default(),
            closing: AtomicBool::new(false),
            parted: (Mutex::new(false), Condvar::new()),
            failure: OnceLock::new(),
            settings,
            day,
        }
    }

    /// Gives the node another schedule.
    pub(super) fn set_schedule(&self, schedule: DaySchedule) -> io::Result<()> {
        self.flow().check_live_schedule(&schedule).map_err(invalid)?;
        self.day().set_schedule(schedule);
        self.waker.wake();
        Ok(())
    }

    /// Which part of its schedule holds, as its thread has read it.
    pub(super) fn day(&self) -> MutexGuard<'_, DayClock> {
        lock(&self.day)
    }

    /// Refuses a contract to which streams of `flow` cannot change, now or in a part of the schedule.
    pub(super) fn check_change(&self, flow: &FlowSettings, contract: &Contract) -> io::Result<()> {
        let changed = flow.changed_to(*contract).and_then(|changed| {
            changed.check_stream()?;
            changed.check_live_schedule(self.day().schedule())
        });
        changed.map_err(invalid)
    }

    /// Refuses that `bytes` under `contract` are across after `span`, where that cannot be or promises nothing.
    pub(super) fn check_done_by(&self, contract: Contract, bytes: u64, span: Option<Span>) -> io::Result<()> {
        let flow = FlowSettings { contract, ..self.flow().clone() };
        span.map_or(Ok(()), |span| flow.check_done_by(bytes, span)).map_err(invalid)
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
        lock(&self.queue)
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
        drop(backlog);
        self.bundles.close_all(&Closed::Failed(why.clone()));
        let mut bundles = lock(&self.bundle_backlog);
        drop(bundles.drain());
        bundles.wake_all();
    }

    /// The bundles of the node.
    pub(super) fn bundles(&self) -> &Arc<SharedBundles> {
        &self.bundles
    }

    /// A bundle with `peer`, which this side calls or has accepted.
    ///
    /// # Errors
    ///
    /// If the node's window is too small for one.
    pub(super) fn new_bundle(
        &self,
        peer: SocketAddr,
        contract: &Contract,
        calls: bool,
    ) -> io::Result<Arc<SharedBundle>> {
        let FlowSettings { receive_buffer, largest_receive_buffer, .. } = *self.flow();
        if receive_buffer < BundleClass::LEAST_WINDOW {
            let why = format!("a window of {receive_buffer} bytes is too small for a bundle, which needs 64 kB");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let multiplexer = Multiplexer::new(MultiplexerConfig {
            calls,
            max_streams: MAX_STREAMS,
            window_budget: WINDOW_BUDGET,
            max_unread: MAX_UNREAD,
            receive_buffer: largest_receive_buffer,
        });
        let number = self.bundles.lock().next_number();
        Ok(SharedBundle::new(number, (peer, String::new()), multiplexer, BundleStatus::Calling, *contract))
    }

    /// Has the node look at a bundle that is new.
    pub(super) fn add_bundle(&self, bundle: &Arc<SharedBundle>) {
        self.bundles.lock().insert(bundle.clone());
        // A thread that fails says why first, and then ends the bundles that are there.
        match self.failure.get() {
            Some(why) => bundle.close(Closed::Failed(why.clone()), &self.bundles),
            None => self.bundles.queue(bundle),
        }
    }

    /// Whether another bundle from `address` must be refused.
    pub(super) fn is_bundle_backlog_full(&self, address: IpAddr) -> bool {
        lock(&self.bundle_backlog).is_full(false, address)
    }

    /// Lets a bundle from `address` wait to be accepted. False if there is no room.
    pub(super) fn add_to_bundle_backlog(&self, now: Instant, bundle: Arc<SharedBundle>, address: IpAddr) -> bool {
        lock(&self.bundle_backlog).add(now, bundle, false, address)
    }

    /// The next bundle that nobody has accepted in time.
    pub(super) fn take_overdue_bundle(&self, now: Instant) -> Option<Arc<SharedBundle>> {
        lock(&self.bundle_backlog).take_overdue(now)
    }

    /// The next bundle to accept.
    pub(super) fn accept_bundle(&self) -> Accepting<'_, Arc<SharedBundle>> {
        let number = lock(&self.bundle_backlog).number();
        Accepting { backlog: &self.bundle_backlog, failure: &self.failure, messages: false, number }
    }

    pub(super) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// A connection with `peer`, of which nothing is there yet.
    pub(super) fn connection(&self, peer: SocketAddr, messages: bool) -> SharedConnection {
        let FlowSettings { receive_buffer, largest_receive_buffer, .. } = *self.flow();
        SharedConnection::new(peer, receive_buffer, largest_receive_buffer, messages)
    }

    pub(super) fn flow(&self) -> &FlowSettings {
        &self.settings.flow
    }

    fn backlog(&self) -> MutexGuard<'_, Backlog<Arc<SharedConnection>>> {
        lock(&self.backlog)
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
    pub(super) fn accept(&self, messages: bool) -> Accepting<'_, Arc<SharedConnection>> {
        let number = self.backlog().number();
        Accepting { backlog: &self.backlog, failure: &self.failure, messages, number }
    }

    /// The node is dropped: nobody will accept what waits.
    pub(super) fn close(&self) {
        // Whoever sees it sees what was queued before.
        self.closing.store(true, Ordering::Release);
        for connection in self.backlog().connections() {
            connection.lock().wanted.abandoned = true;
        }
        let waiting: Vec<_> = lock(&self.bundle_backlog).drain().collect();
        for bundle in waiting {
            bundle.lock().closing = true;
            self.bundles.queue(&bundle);
        }
        self.waker.wake();
    }

    pub(super) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    /// The thread has served what was wanted before the node was dropped, or ends.
    pub(super) fn part(&self) {
        *lock(&self.parted.0) = true;
        self.parted.1.notify_all();
    }

    /// Waits until it has: connections that were dropped before have told their peers.
    pub(super) fn wait_parted(&self) {
        let parted = self.parted.1.wait_while(lock(&self.parted.0), |parted| !*parted);
        drop(parted.unwrap_or_else(PoisonError::into_inner));
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
        let connection = Arc::new(SharedConnection::new(([127, 0, 0, 1], 9).into(), 1000, 1000, false));
        assert!(node.add_to_backlog(Instant::ZERO, connection.clone(), false, [127, 0, 0, 1].into()));
        assert_eq!(node.backlog().waiters(), 0, "woken");
        let Poll::Ready(Ok(accepted)) = accept.as_mut().poll(&mut context) else { panic!("it is there") };
        assert!(Arc::ptr_eq(&accepted, &connection));
    }
}
