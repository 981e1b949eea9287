//! What a receiver of a folder already has of its contents.

use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use super::super::hash_tree::BLOCK_BYTES;
use super::super::own_blocks::OwnBlocks;
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

impl OwnFolder {
    /// The bytes of a block, and the files of which it has some.
    fn within(&self, number: u32) -> (Range<u64>, impl Iterator<Item = &(PathBuf, u64, u64, bool)>) {
        let start = u64::from(number) * u64::from(BLOCK_BYTES);
        let end = (start + u64::from(BLOCK_BYTES)).min(self.bytes);
        let first = self.files.partition_point(|(_, at, bytes, _)| at + bytes <= start);
        let files = self.files[first..].iter().take_while(move |(_, at, ..)| *at < end);
        (start..end, files.filter(|(_, _, bytes, _)| *bytes > 0))
    }
}

impl OwnBlocks for OwnFolder {
    fn is_wanted(&self, number: u32) -> bool {
        self.within(number).1.any(|(.., wanted)| *wanted)
    }

    fn candidate(&self, number: u32) -> Option<Vec<u8>> {
        let (block, files) = self.within(number);
        let mut content = vec![0; (block.end - block.start) as usize];
        for (path, at, bytes, _) in files {
            let (from, to) = (block.start.max(*at), block.end.min(at + bytes));
            let file = file_beneath(&self.root, path).ok()?;
            let part = (from - block.start) as usize..(to - block.start) as usize;
            file.read_exact_at(&mut content[part], from - at).ok()?;
        }
        Some(content)
    }
}
