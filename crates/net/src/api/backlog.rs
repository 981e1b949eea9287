//! Connections that wait to be accepted.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::task::Waker;

use pliant_proto::time::{Instant, Span};

use crate::connection::source_of;

/// Connections of one kind that wait; more are refused. Streams do not take the places of messages: many programs accept
/// one kind only.
const PLACES: usize = 128;
/// How many of them one address has.
const PLACES_PER_ADDRESS: usize = PLACES / 4;
/// A connection that nobody accepts in this time is closed.
const ACCEPTED_WITHIN: Span = Span::from_secs(30);

/// Connections `C` that wait to be accepted, in the order in which they came, and who waits for one.
pub(super) struct Backlog<C> {
    waiting: VecDeque<Waiting<C>>,
    /// By the number of whoever waits.
    wakers: BTreeMap<u64, Waker>,
    next_accept: u64,
}

struct Waiting<C> {
    connection: C,
    messages: bool,
    source: IpAddr,
    since: Instant,
}

impl<C> Default for Backlog<C> {
    fn default() -> Self {
        Self { waiting: VecDeque::new(), wakers: BTreeMap::new(), next_accept: 0 }
    }
}

impl<C> Backlog<C> {
    /// Whether another connection of this kind from `address` must be refused.
    pub(super) fn is_full(&self, messages: bool, address: IpAddr) -> bool {
        let source = source_of(address);
        let of_kind = || self.waiting.iter().filter(|waiting| waiting.messages == messages);
        of_kind().count() >= PLACES
            || of_kind().filter(|waiting| waiting.source == source).count() >= PLACES_PER_ADDRESS
    }

    /// Lets a connection from `address` wait. False if there is no room.
    pub(super) fn add(&mut self, now: Instant, connection: C, messages: bool, address: IpAddr) -> bool {
        if self.is_full(messages, address) {
            return false;
        }
        self.waiting.push_back(Waiting { connection, messages, source: source_of(address), since: now });
        self.wake_all();
        true
    }

    /// The connection of this kind that has waited longest.
    pub(super) fn take(&mut self, messages: bool) -> Option<C> {
        let at = self.waiting.iter().position(|waiting| waiting.messages == messages)?;
        Some(self.waiting.remove(at)?.connection)
    }

    /// The next connection that has waited too long at `now`.
    pub(super) fn take_overdue(&mut self, now: Instant) -> Option<C> {
        let overdue = self.waiting.front().is_some_and(|first| now.since(first.since) >= ACCEPTED_WITHIN);
        overdue.then(|| self.waiting.pop_front()).flatten().map(|waiting| waiting.connection)
    }

    /// Takes all that wait.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = C> {
        self.waiting.drain(..).map(|waiting| waiting.connection)
    }

    /// All that wait.
    pub(super) fn connections(&self) -> impl Iterator<Item = &C> {
        self.waiting.iter().map(|waiting| &waiting.connection)
    }

    /// A number for somebody who waits.
    pub(super) fn number(&mut self) -> u64 {
        self.next_accept += 1;
        self.next_accept
    }

    /// Remembers who waits, once.
    pub(super) fn wait(&mut self, number: u64, waker: Waker) {
        self.wakers.insert(number, waker);
    }

    /// Forgets who waits no more.
    pub(super) fn forget(&mut self, number: u64) {
        self.wakers.remove(&number);
    }

    /// Everybody looks for himself.
    pub(super) fn wake_all(&mut self) {
        while let Some((_, waker)) = self.wakers.pop_first() {
            waker.wake();
        }
    }

    /// How many wait for a connection.
    #[cfg(test)]
    pub(super) fn waiters(&self) -> usize {
        self.wakers.len()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::api::buffers::SharedConnection;

    fn add(backlog: &mut Backlog<Arc<SharedConnection>>, seconds: u64, messages: bool, address: u8) -> bool {
        let connection = Arc::new(SharedConnection::new(([10, 0, 0, address], 9).into(), 10, 10, messages));
        let now = Instant::ZERO.after(Span::from_secs(seconds));
        backlog.add(now, connection, messages, [10, 0, 0, address].into())
    }

    /// Whoever has a key and opens connections that nobody accepts holds a quarter of the places of one kind. Other
    /// addresses have the rest, and the other kind has places of its own.
    #[test]
    fn an_address_does_not_fill_the_backlog() {
        let mut backlog = Backlog::default();
        let mut add_many = |address| (0..1000).filter(|_| add(&mut backlog, 0, true, address)).count();
        assert_eq!([1, 1, 2, 3].map(&mut add_many), [32, 0, 32, 32]);
        assert!(add(&mut backlog, 0, true, 4));
        assert_eq!((0..1000).filter(|_| add(&mut backlog, 0, true, 5)).count(), 31, "128 in all");
        assert!(add(&mut backlog, 0, false, 1), "streams have places of their own");
        assert!(backlog.take(true).is_some() && backlog.take(false).is_some() && backlog.take(false).is_none());
        assert!(add(&mut backlog, 0, true, 1), "what was accepted makes room");
    }

    /// What nobody accepts for 30 seconds leaves its place, the oldest first.
    #[test]
    fn a_place_is_not_held_for_ever() {
        let mut backlog = Backlog::default();
        (0..3).for_each(|seconds| assert!(add(&mut backlog, seconds * 10, true, 1)));
        let overdue = |backlog: &mut Backlog<_>, seconds| {
            let now = Instant::ZERO.after(Span::from_secs(seconds));
            std::iter::from_fn(|| backlog.take_overdue(now)).count()
        };
        assert_eq!([29, 30, 39, 50].map(|seconds| overdue(&mut backlog, seconds)), [0, 1, 0, 2]);
    }
}
