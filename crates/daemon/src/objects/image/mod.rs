//! Images of containers: their layouts in folders, their names, and verification.

pub(super) mod layout;
pub(super) mod name;
pub(super) mod sha256;
pub(super) mod tags;

use std::collections::HashSet;
use std::sync::Mutex;

use pliant_net::transfer::Hash;

use crate::mutex::lock;

/// Most files that are remembered as verified.
const MAX_VERIFIED: usize = 1 << 16;

/// Files that have the SHA-256 of their name, by their own hash.
#[derive(Default)]
pub(super) struct Verified(Mutex<HashSet<Hash>>);

impl Verified {
    pub(super) fn contains(&self, file: &Hash) -> bool {
        lock(&self.0).contains(file)
    }

    /// Remembers it. If there are too many, it forgets all others.
    pub(super) fn insert(&self, file: Hash) {
        let mut files = lock(&self.0);
        if files.len() >= MAX_VERIFIED {
            files.clear();
        }
        files.insert(file);
    }
}
