//! Images of containers: how they lie in folders, what they are named, and that they are what their names say.

pub(super) mod layout;
pub(super) mod name;
pub(super) mod sha256;
pub(super) mod tags;

use std::collections::HashSet;
use std::sync::Mutex;

use pliant_net::transfer::Hash;

use crate::mutex::lock;

/// Most files of which it is remembered that they have the hash by which they are named.
const MAX_VERIFIED: usize = 1 << 16;

/// Files that have the SHA-256 by which they are named, by their own hash.
#[derive(Default)]
pub(super) struct Verified(Mutex<HashSet<Hash>>);

impl Verified {
    pub(super) fn contains(&self, file: &Hash) -> bool {
        lock(&self.0).contains(file)
    }

    /// Remembers it; when there are many, in place of all.
    pub(super) fn insert(&self, file: Hash) {
        let mut files = lock(&self.0);
        if files.len() >= MAX_VERIFIED {
            files.clear();
        }
        files.insert(file);
    }
}
