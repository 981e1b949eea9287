//! What the connections of an exit to Kafka share, and their path.

use std::collections::{BTreeSet, HashMap};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use pliant_kafka::ledger::Entry;
use pliant_net::bundle::BundleNode;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::congestion::PathState;
use super::journal::{LedgerKey, Ledgers};
use crate::log::say;
use crate::mutex::lock;

/// Most topics whose numbers are known, and most that are asked for on a connection.
pub(super) const MAX_TOPICS: usize = 10_000;
/// Most bytes of responses that are kept at a time, of all connections. What they are made into is about as much again.
const MAX_KEPT: usize = 256 << 20;

/// What the connections of an exit share.
pub(crate) struct LossyExit {
    pub(crate) ledgers: Ledgers,
    /// A client hears of topics' numbers on one connection and uses them on all.
    pub(super) topics: Mutex<Topics>,
    told: Mutex<BTreeSet<String>>,
    /// For bytes of responses that are kept.
    kept: Arc<Semaphore>,
    /// Responses whose records have travelled in messages.
    pub(super) carried: AtomicU64,
}

impl LossyExit {
    pub(crate) fn new(ledgers: Ledgers) -> Self {
        let kept = Arc::new(Semaphore::new(MAX_KEPT));
        Self { ledgers, topics: Mutex::default(), told: Mutex::default(), kept, carried: AtomicU64::new(0) }
    }

    /// Room for a response of so many bytes, while there is any.
    pub(super) fn keep(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        self.kept.clone().try_acquire_many_owned(u32::try_from(bytes).ok()?).ok()
    }

    /// How many responses' records have travelled in messages.
    pub(crate) fn carried(&self) -> u64 {
        self.carried.load(Ordering::Relaxed)
    }

    /// Forces to the disk what was noted.
    pub(crate) fn sync_ledgers(&self) {
        if let Err(error) = self.ledgers.sync() {
            self.tell(format!("the ledger cannot be forced to the disk, and nothing is left out any more: {error}"));
        }
    }

    /// Notes what was added to a ledger; whether that could be done.
    pub(super) fn note(&self, key: &LedgerKey, entry: Entry) -> bool {
        let noted = self.ledgers.note(key, entry);
        if let Err(error) = &noted {
            self.tell(format!("the ledger cannot be written, and nothing is left out any more: {error}"));
        }
        noted.is_ok()
    }

    /// Says something once.
    pub(super) fn tell(&self, what: String) {
        let mut told = lock(&self.told);
        if told.len() < MAX_TOPICS && !told.contains(&what) {
            say("kafka exit", &what);
            told.insert(what);
        }
    }
}

/// The number of a topic.
type TopicId = [u8; 16];

/// Names of topics and their numbers.
#[derive(Default)]
pub(super) struct Topics {
    names: HashMap<TopicId, Arc<str>>,
    /// A topic that was made anew has another number.
    numbers: HashMap<Arc<str>, BTreeSet<TopicId>>,
}

impl Topics {
    /// A topic has this number, unless too many are known.
    pub(super) fn learn(&mut self, id: TopicId, name: &str) {
        if self.names.get(&id).is_some_and(|known| **known == *name) {
            return;
        }
        if let Some(other) = self.names.remove(&id)
            && let Some(of_other) = self.numbers.get_mut(&other)
        {
            of_other.remove(&id);
            if of_other.is_empty() {
                self.numbers.remove(&other);
            }
        }
        if self.names.len() < MAX_TOPICS {
            let name: Arc<str> = name.into();
            self.names.insert(id, name.clone());
            self.numbers.entry(name).or_default().insert(id);
        }
    }

    /// The name of a number.
    pub(super) fn name(&self, id: TopicId) -> Option<Arc<str>> {
        self.names.get(&id).cloned()
    }

    /// The only number of a name.
    pub(super) fn number(&self, name: &str) -> Option<TopicId> {
        let numbers = self.numbers.get(name).filter(|numbers| numbers.len() == 1)?;
        numbers.first().copied()
    }
}

/// A class's path to a peer.
pub(crate) struct Path<'n> {
    pub(crate) node: &'n BundleNode,
    pub(crate) peer: SocketAddr,
    pub(crate) class: String,
    /// Limits how many of the peer's responses are unpacked at a time.
    pub(crate) unpacking: &'n Semaphore,
}

impl Path<'_> {
    pub(super) fn state(&self) -> PathState {
        let own =
            self.node.reports().into_iter().filter(|report| report.peer == self.peer && report.class == self.class);
        own.fold(PathState::default(), |state, report| PathState {
            signs: state.signs + report.sender.marks + report.sender.retransmissions,
            waiting: state.waiting + report.unsent_bytes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A name has one number, or it is not known which; a number has the name that was heard last.
    #[test]
    fn topics_are_known_by_name_and_number() {
        let mut topics = Topics::default();
        let [one, two] = [[1; 16], [2; 16]];
        topics.learn(one, "clicks");
        topics.learn(one, "clicks");
        assert_eq!((topics.name(one).as_deref(), topics.number("clicks")), (Some("clicks"), Some(one)));
        topics.learn(two, "clicks");
        assert_eq!((topics.name(two).as_deref(), topics.number("clicks")), (Some("clicks"), None));
        topics.learn(one, "views");
        assert_eq!((topics.number("views"), topics.number("clicks")), (Some(one), Some(two)));
        topics.learn(two, "views");
        assert_eq!((topics.number("clicks"), topics.numbers.len()), (None, 1));
        for number in 0..MAX_TOPICS as u128 + 5 {
            topics.learn(number.to_be_bytes(), "many");
        }
        assert_eq!(topics.names.len(), MAX_TOPICS);
    }
}
