//! What a receiver of a folder already has of its contents.

use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use super::super::hash_tree::BLOCK_BYTES;
use super::super::own_blocks::{OwnBlock, OwnBlocks};
use super::FolderFilter;
use super::listing::FolderListing;
use crate::transfer::directory::file_beneath;

/// The existing files of a folder that a listing also has.
pub(super) struct OwnFolder {
    root: PathBuf,
    /// Path, where its contents begin, its size, and whether it is wanted.
    files: Vec<(PathBuf, u64, u64, bool)>,
    bytes: u64,
}

impl OwnFolder {
    pub(super) fn new(root: PathBuf, listing: &FolderListing, filter: &FolderFilter) -> Self {
        // Another name of a file may be wanted where the first is not.
        let wanted = listing.wanted_files(filter);
        let files = listing.files().map(|(entry, at, bytes)| {
            let is_wanted = wanted.contains(entry.path.as_path());
            (entry.path.clone(), at, bytes, is_wanted)
        });
        Self { root, files: files.collect(), bytes: listing.bytes }
    }
}

impl OwnBlocks for OwnFolder {
    fn block(&self, number: u32) -> Option<OwnBlock> {
        let start = u64::from(number) * u64::from(BLOCK_BYTES);
        let end = (start + u64::from(BLOCK_BYTES)).min(self.bytes);
        let first = self.files.partition_point(|(_, at, bytes, _)| at + bytes <= start);
        let within =
            || self.files[first..].iter().take_while(|(_, at, ..)| *at < end).filter(|(_, _, bytes, _)| *bytes > 0);
        if within().all(|(.., wanted)| !wanted) {
            return Some(OwnBlock::NotWanted);
        }
        let mut content = vec![0; (end - start) as usize];
        for (path, at, bytes, _) in within() {
            let (from, to) = (start.max(*at), end.min(at + bytes));
            let file = file_beneath(&self.root, path).ok()?;
            file.read_exact_at(&mut content[(from - start) as usize..(to - start) as usize], from - at).ok()?;
        }
        Some(OwnBlock::Candidate(content))
    }
}
