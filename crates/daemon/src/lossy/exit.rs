//! What the connections of an exit to Kafka share, and their path.

use std::collections::{BTreeSet, HashMap};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use pliant_kafka::ledger::Entry;
use pliant_net::bundle::BundleNode;

use super::congestion::PathState;
use super::journal::{LedgerKey, Ledgers};
use crate::mutex::lock;

/// Most topics whose numbers are known, and most that are asked for on a connection.
pub(super) const MAX_TOPICS: usize = 10_000;

/// What the connections of an exit share.
pub(crate) struct LossyExit {
    pub(crate) ledgers: Ledgers,
    /// Names of topics by their numbers: a client hears of them on one connection and uses them on all.
    pub(super) names: Mutex<HashMap<[u8; 16], Arc<str>>>,
    told: Mutex<BTreeSet<String>>,
    /// Responses whose records have travelled in messages.
    pub(super) carried: AtomicU64,
}

impl LossyExit {
    pub(crate) fn new(ledgers: Ledgers) -> Self {
        Self { ledgers, names: Mutex::default(), told: Mutex::default(), carried: AtomicU64::new(0) }
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
            eprintln!("kafka exit: {what}");
            told.insert(what);
        }
    }
}

/// A class's path to a peer.
pub(crate) struct Path<'n> {
    pub(crate) node: &'n BundleNode,
    pub(crate) peer: SocketAddr,
    pub(crate) class: String,
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
