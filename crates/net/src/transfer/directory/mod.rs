//! Directories: packed into an archive, without the files that the receiver has from an earlier transfer, and unpacked.
//!
//! A receiver that may replace a directory notes beside it which files with which hashes one peer has sent ([`index`]). When
//! that peer sends the directory again it first says a digest of the path and the content of every file ([`listing`]), and
//! hears which of them it has sent before and are still there, by a new look at their content. The archive holds only the
//! hash of such a file, and the receiver puts the one that it has into the new directory. No peer hears anything of files
//! that it has not sent itself.

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

/// Files of a directory that were not sent, as the receiver had them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Unchanged {
    /// How many.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Type of an archive's entry for a file that the receiver has: its content is the file's BLAKE3 hash.
const UNCHANGED: u8 = b'U';

/// What is said of something that the user has stopped.
const INTERRUPTED: &str = "interrupted";
