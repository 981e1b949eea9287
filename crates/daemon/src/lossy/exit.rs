//! What the connections of an exit to Kafka share, and their path.

use std::collections::BTreeSet;
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
use crate::topics::{MAX_TOPICS, TopicNumbers};

/// Most bytes of responses that are kept at a time, of all connections. What they are made into is about as much again.
const MAX_KEPT: usize = 256 << 20;

/// What the connections of an exit share.
pub(crate) struct LossyExit {
    pub(crate) ledgers: Ledgers,
    /// A client hears of topics' numbers on one connection and uses them on all.
    pub(super) topics: Mutex<TopicNumbers>,
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
