//! Directories: packed into an archive, without the files that the receiver has from an earlier transfer, and unpacked.
//!
//! A receiver that may replace a directory notes beside it which files with which hashes a peer has sent ([`index`]).
//! When that peer sends the directory again, it first sends a digest of the path and the content of every file
//! ([`listing`]). The receiver answers which of them this peer has sent before and are still there, after reading their
//! content again. The archive holds only the hash of such a file, and the receiver uses its own copy for the new
//! directory. No peer learns anything about files that it has not sent itself.

mod beneath;
mod index;
mod listing;
mod pack;
mod unpack;
mod walk;

pub(super) use beneath::{file_beneath, folder_beneath, hash_of, umask_of};
pub(super) use index::{Index, index_path};
pub(super) use listing::{DIGEST_BYTES, FileHashes, Held, HeldNotice, PageRequests, compare};
pub(super) use pack::{pack, skipped_in};
pub(super) use unpack::{Unpacked, replace_tree, unpack};
pub(super) use walk::{Walk, at};

/// Files of a directory that were not sent, because the receiver had them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Unchanged {
    /// How many.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Type of an archive entry for a file that the receiver has. Its content is the file's BLAKE3 hash.
const UNCHANGED: u8 = b'U';

/// Message when the user has stopped something.
const INTERRUPTED: &str = "interrupted";
