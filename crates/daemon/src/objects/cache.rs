//! A folder of fetched files with a limit.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{SystemTime, UNIX_EPOCH};

use pliant_net::transfer::{OfferedFiles, is_left_part, remove_part};
use tempfile::TempDir;

use crate::mutex::lock;

/// How the names of temporary folders begin.
const TEMPORARY: &str = ".pliant-beside-";

/// A file of the folder.
struct Entry {
    path: PathBuf,
    bytes: u64,
    /// When it was requested, by order of requests, and when it was written, if it was not requested since the start.
    used: (u64, SystemTime),
}

/// Files by order of requests.
#[derive(Default)]
struct Uses {
    count: u64,
    last: HashMap<PathBuf, u64>,
}

/// The folder, and the order of requests.
pub(super) struct Cache {
    folder: PathBuf,
    limit: u64,
    uses: Mutex<Uses>,
}

impl Cache {
    /// Creates the folder if there is none. Removes temporary folders of a daemon that was killed.
    pub(super) fn open(folder: &Path, limit: u64) -> io::Result<Self> {
        std::fs::create_dir_all(folder)?;
        for entry in std::fs::read_dir(folder)?.flatten() {
            if entry.file_name().as_encoded_bytes().starts_with(TEMPORARY.as_bytes()) {
                let _ = std::fs::remove_dir_all(entry.path());
            }
        }
        Ok(Self { folder: folder.canonicalize()?, limit, uses: Mutex::default() })
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// A folder for what is fetched and not kept.
    pub(super) fn temporary(&self) -> io::Result<TempDir> {
        tempfile::Builder::new().prefix(TEMPORARY).tempdir_in(&self.folder)
    }

    pub(super) fn limit(&self) -> u64 {
        self.limit
    }

    /// Notes a request for a file, which need not be in this folder.
    pub(super) fn note_use(&self, path: &Path) {
        if path.parent() == Some(&self.folder) {
            let mut uses = lock(&self.uses);
            uses.count += 1;
            let count = uses.count;
            uses.last.insert(path.to_owned(), count);
        }
    }

    fn entries(&self) -> Vec<Entry> {
        let uses = lock(&self.uses);
        let entries = std::fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let entry = |entry: std::fs::DirEntry| {
            let (path, found) = (entry.path(), entry.metadata().ok()?);
            let used = (uses.last.get(&path).copied().unwrap_or(0), found.modified().unwrap_or(UNIX_EPOCH));
            found.is_file().then_some(Entry { path, bytes: found.len(), used })
        };
        entries.filter_map(entry).collect()
    }

    /// Removes the least recently requested complete files, and what interrupted fetches have left, until `more` bytes fit below
    /// the limit. Returns how many bytes fit then. Incoming files stay.
    pub(super) fn make_room(&self, more: u64, files: &OfferedFiles) -> u64 {
        let mut entries = self.entries();
        let mut sum: u64 = entries.iter().map(|entry| entry.bytes).sum();
        entries.retain(|entry| !is_hidden(&entry.path) || is_left_part(&entry.path));
        entries.sort_unstable_by_key(|entry| entry.used);
        let mut removable: u64 = entries.iter().map(|entry| entry.bytes).sum();
        for entry in entries {
            if sum + more <= self.limit {
                break;
            }
            files.retain(|file| file.path() != entry.path || !file.is_whole());
            let is_gone = if is_hidden(&entry.path) {
                remove_part(&entry.path)
            } else {
                std::fs::remove_file(&entry.path).is_ok()
            };
            if is_gone {
                lock(&self.uses).last.remove(&entry.path);
                sum -= entry.bytes;
                removable -= entry.bytes;
            }
        }
        // What is there may go for what comes.
        self.limit.saturating_sub(sum - removable.min(sum))
    }

    /// Removes a file, if it is in this folder.
    pub(super) fn remove(&self, path: &Path) {
        if path.parent() == Some(&self.folder) {
            lock(&self.uses).last.remove(path);
            let _ = std::fs::remove_file(path);
        }
    }

    /// Its complete files.
    pub(super) fn files(&self) -> Vec<PathBuf> {
        self.entries().into_iter().map(|entry| entry.path).filter(|path| !is_hidden(path)).collect()
    }
}

fn is_hidden(path: &Path) -> bool {
    path.file_name().is_none_or(|name| name.as_encoded_bytes().starts_with(b"."))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a killed daemon has left beside its files goes when the next begins.
    #[test]
    fn temporary_folders_do_not_outlive_a_kill() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open(folder.path(), 100).unwrap();
        let left = cache.temporary().unwrap().keep();
        std::fs::write(left.join("content"), "x").unwrap();
        let own = folder.path().join(".of-somebody");
        std::fs::create_dir(&own).unwrap();
        Cache::open(folder.path(), 100).unwrap();
        assert!(!left.exists() && own.exists());
    }

    /// Who was not asked for longest goes first, and no more than has to. Parts count: one in use stays, one that was left goes.
    #[test]
    fn the_oldest_goes_first() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open(&folder.path().join("new/cache"), 100).unwrap();
        let write = |name: &str, bytes: usize| {
            let path = cache.folder().join(name);
            std::fs::write(&path, vec![0; bytes]).unwrap();
            path
        };
        let [a, b, c] = [("a", 30), ("b", 30), ("c", 30)].map(|(name, bytes)| write(name, bytes));
        let [part, left] = [(1, 5), (2, 3)].map(|(number, bytes)| write(&format!(".pliant-{number:032x}.part"), bytes));
        let in_use = std::fs::File::open(&part).unwrap();
        rustix::fs::flock(&in_use, rustix::fs::FlockOperation::LockExclusive).unwrap();
        let files = OfferedFiles::new();
        files.add(&a).unwrap();
        for path in [&b, &c, &a] {
            cache.note_use(path);
        }
        assert_eq!(cache.make_room(0, &files), 95, "all but the part in use may go");
        assert!(cache.files().len() == 3 && left.exists());
        cache.make_room(6, &files);
        assert!(!left.exists() && !b.exists() && c.exists() && a.exists());
        cache.make_room(70, &files);
        assert!(!a.exists() && !c.exists() && part.exists() && files.list().is_empty());
        assert_eq!(cache.make_room(500, &files), 95);
    }
}
