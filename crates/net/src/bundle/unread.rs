//! Bytes that wait to be read, of all bundles that share a bound.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What all bundles of a peer in a class hold together. It is a sum and guards nothing: no order of memory is needed.
#[derive(Debug, Default)]
pub(super) struct PeerUnread(AtomicU64);

/// What one bundle holds of it, until it is dropped.
#[derive(Debug, Default)]
pub(super) struct Unread {
    own: u64,
    all: Arc<PeerUnread>,
}

impl Unread {
    /// This bundle's bytes.
    pub(super) fn own(&self) -> u64 {
        self.own
    }

    /// Those of all bundles that share the bound.
    pub(super) fn all(&self) -> u64 {
        self.all.0.load(Ordering::Relaxed)
    }

    /// How many bundles share the bound.
    pub(super) fn sharers(&self) -> u64 {
        Arc::strong_count(&self.all) as u64
    }

    /// From now on the bound is that of `all`.
    pub(super) fn share(&mut self, all: Arc<PeerUnread>) {
        let before = std::mem::replace(self, Self { own: 0, all });
        self.add(before.own);
    }

    pub(super) fn add(&mut self, bytes: u64) {
        self.own += bytes;
        self.all.0.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn remove(&mut self, bytes: u64) {
        self.own -= bytes;
        self.all.0.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Drop for Unread {
    fn drop(&mut self) {
        self.all.0.fetch_sub(self.own, Ordering::Relaxed);
    }
}
