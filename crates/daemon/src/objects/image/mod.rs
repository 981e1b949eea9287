//! Images of containers: their layouts in folders, their names, and verification.

pub(super) mod layout;
pub(super) mod name;
pub(super) mod sha256;
pub(super) mod tags;

use std::collections::HashMap;
use std::sync::Mutex;

use pliant_net::transfer::Hash;
use tokio::sync::watch as channel;

use crate::mutex::lock;

/// Why content is neither given whole nor kept.
pub(super) const FALSE_CONTENT: &str = "what the sources agree on has another digest";
/// Most files that are remembered as verified.
const MAX_VERIFIED: usize = 1 << 16;

/// Whether a file has the digest of its name: `None` until it is known.
pub(super) type Verification = channel::Receiver<Option<bool>>;
/// Those of files, by their hash and that digest.
pub(super) type Verifications = Mutex<HashMap<(Hash, String), Verification>>;

/// The SHA-256 of files, by their own hash.
#[derive(Default)]
pub(super) struct Verified(Mutex<HashMap<Hash, String>>);

impl Verified {
    /// The SHA-256 of a file, if it is remembered.
    pub(super) fn digest(&self, file: &Hash) -> Option<String> {
        lock(&self.0).get(file).cloned()
    }

    /// Remembers it. If there are too many, it forgets all others.
    pub(super) fn insert(&self, file: Hash, digest: String) {
        let mut files = lock(&self.0);
        if files.len() >= MAX_VERIFIED {
            files.clear();
        }
        files.insert(file, digest);
    }
}
