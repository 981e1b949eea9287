//! What is fetched before a program waits for it: a part of a file ahead of the bytes before it, and files of a folder ahead of
//! their requests.
//!
//! A file arrives in order. A program that asks for a part far behind what is there, such as the index at the end of an
//! archive, would wait for everything before. So the blocks of that part are fetched by themselves, beside the file. They
//! are verified like all others, and are not kept: the file gets them again when it comes to them.
//!
//! A program that reads a folder file by file would wait for the sources with each. So when it asks for a file that follows the
//! one before, those that come next are fetched too, a few and not too large, as long as its user has places to spare.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use pliant_net::transfer::{
    self, FileSelector, FolderIndex, HeldFile, OfferedFiles, OnlyBlocks, Target, TransferError, WantedFile,
};
use tokio::sync::oneshot;

use super::asker::Asker;
use super::{Objects, key_of};
use crate::mutex::lock;

/// Most bytes of a part that is fetched ahead. A longer one would cost too much a second time.
const MAX_PART_BYTES: u64 = 64 << 20;
/// Blocks that a file may lack before a part without it being fetched ahead.
const NEAR_BLOCKS: u32 = 8;
/// Most files of a folder that are fetched ahead of a request, and most bytes of them.
const FILES_AHEAD: usize = 4;
const FILES_AHEAD_BYTES: u64 = 64 << 20;

/// Whether a part of a file is so far behind what is there, and so short, that it is fetched ahead.
fn is_ahead(there: u32, part: &Range<u64>) -> bool {
    let first = OnlyBlocks::of_bytes(part).first();
    part.end - part.start <= MAX_PART_BYTES && first.saturating_sub(there) > NEAR_BLOCKS
}

impl Objects {
    /// A file of which this part arrives before everything else, if that is of use and can be had. It must be asked for
    /// nothing but the part.
    pub(super) async fn ahead(
        self: &Arc<Self>,
        file: &Arc<HeldFile>,
        part: Range<u64>,
        asker: &Asker,
    ) -> Option<Arc<HeldFile>> {
        if file.is_whole() || self.config.sources.is_empty() || !is_ahead(file.there(), &part) {
            return None;
        }
        let place = self.place(&self.ahead, asker).await.ok()?;
        let (hash, files) = (file.offered().hash, OfferedFiles::new());
        let (this, into, (ended, mut end)) = (self.clone(), files.clone(), oneshot::channel::<()>());
        std::thread::spawn(move || {
            // Why it failed is not told: the file itself goes on.
            let _ = this.fetch_part(hash, &part, into);
            drop((place, ended));
        });
        loop {
            if let Ok(begun) = files.find(&FileSelector::Hash(hash)) {
                return Some(begun);
            }
            if tokio::time::timeout(Duration::from_millis(5), &mut end).await.is_ok() {
                return files.find(&FileSelector::Hash(hash)).ok();
            }
        }
    }

    /// Begins to fetch the files that a program will ask for next, if it reads the folder in order.
    pub(super) async fn fetch_next(self: &Arc<Self>, folder: &str, index: &FolderIndex, path: &Path, asker: &Asker) {
        if self.config.sources.is_empty() || !self.walks.follows(folder, index, path) {
            return;
        }
        let origin = asker.origin(&self.askers).await;
        let mut bytes = 0;
        for (_, next) in index.files_after(path).take(FILES_AHEAD) {
            bytes += next.bytes;
            if bytes > FILES_AHEAD_BYTES {
                return;
            }
            let file = FileSelector::Hash(next.hash);
            let Some(key) = key_of(&file) else { continue };
            if self.files.find(&file).is_ok() || lock(&self.fetches).contains_key(&key) {
                continue;
            }
            let Some(place) = self.fetching.take_spare(origin) else { return };
            self.begin(key, &file, place);
        }
    }

    fn fetch_part(&self, hash: transfer::Hash, part: &Range<u64>, into: OfferedFiles) -> Result<(), TransferError> {
        let folder = self
            .cache
            .temporary()
            .map_err(|error| TransferError::File { path: self.cache.folder().to_owned(), error })?;
        let sources = self.sources();
        let wanted = WantedFile {
            hash: Some(hash),
            peers: sources.clone(),
            offered_in: Some(into),
            own: Some(Arc::new(OnlyBlocks::of_bytes(part))),
            ..WantedFile::default()
        };
        let (target, settings) = (Target::File(folder.path().join("part")), lock(&self.settings).clone());
        transfer::fetch(&sources, wanted, &target, &settings, &self.stop, |_| {}, |_| {}).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What comes soon is waited for, and what is long is not fetched twice.
    #[test]
    fn short_parts_far_behind_are_fetched_ahead() {
        let block = 2 << 20;
        for (there, part, expected) in [
            (0, 0..1, false),
            (0, 8 * block..9 * block, false),
            (0, 9 * block..9 * block + 1, true),
            (90, 9 * block..9 * block + 1, false),
            (0, 9 * block..9 * block + MAX_PART_BYTES, true),
            (0, 9 * block..9 * block + MAX_PART_BYTES + 1, false),
        ] {
            assert_eq!(is_ahead(there, &part), expected, "{there} {part:?}");
        }
    }
}
