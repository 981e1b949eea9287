//! Programs that read folders in order.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use pliant_net::transfer::FolderIndex;

use crate::mutex::lock;

/// How many files a program may leave out, or ask for in another order, and still read the folder in order.
const NEAR_FILES: usize = 8;
/// Most folders of which the last request is known.
const MAX_WALKS: usize = 64;

/// The file of each folder that was asked for last.
#[derive(Default)]
pub(super) struct Walks(Mutex<HashMap<String, PathBuf>>);

impl Walks {
    /// Notes a request. Whether it follows the last one of its folder.
    pub(super) fn follows(&self, folder: &str, index: &FolderIndex, path: &Path) -> bool {
        let mut walks = lock(&self.0);
        if walks.len() >= MAX_WALKS && !walks.contains_key(folder) {
            walks.clear();
        }
        let last = walks.insert(folder.to_owned(), path.to_owned());
        last.is_some_and(|last| index.files_after(&last).take(NEAR_FILES).any(|(next, _)| next == path))
    }
}
