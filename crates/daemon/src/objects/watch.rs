//! Folders that are checked for changes.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use pliant_net::clock::Clock;
use pliant_net::transfer::{FileStamp, OfferedFiles};

use super::cache::Cache;
use super::image::layout;

/// How often a thread checks whether it must end, and how long folders are left alone.
pub(super) const TICK: Duration = Duration::from_millis(100);
pub(super) const INTERVAL: Duration = Duration::from_secs(3);
pub(super) const INTERVAL_TICKS: u32 = (INTERVAL.as_millis() / TICK.as_millis()) as u32;

/// The content of folders at the last check.
#[derive(Default)]
pub(super) struct Folders {
    /// `None` of a file that must be read again.
    known: HashMap<PathBuf, Option<FileStamp>>,
}

impl Folders {
    /// Offers new and changed files of these folders, without subfolders, and withdraws those that are gone.
    pub(super) fn look(&mut self, folders: &[PathBuf], files: &OfferedFiles) {
        let mut there = HashMap::new();
        for path in folders.iter().flat_map(|folder| files_in(folder)) {
            let now = Clock::start().unix_ns();
            let Some(found) = stamp(&path) else { continue };
            if self.known.get(&path) == Some(&Some(found)) {
                there.insert(path, Some(found));
            } else if files.add(&path).is_ok() {
                // Of a file that was changed while it was read another hash was taken than it has, and of one that was changed
                // a moment before that may not show: it is read again.
                let same = found.is_settled(now) && stamp(&path) == Some(found);
                there.insert(path, same.then_some(found));
            }
        }
        let gone = |path: &Path| self.known.contains_key(path) && !there.contains_key(path);
        files.retain(|file| !gone(file.path()));
        self.known.retain(|path, _| there.contains_key(path) || !folders.iter().any(|folder| path.starts_with(folder)));
        self.known.extend(there);
    }

    /// Offers what is in the cache from before. Files fetched since are already offered.
    pub(super) fn look_at_cache(&mut self, cache: &Cache, files: &OfferedFiles) {
        let offered: HashSet<PathBuf> = files.list().iter().map(|file| file.path().to_owned()).collect();
        for path in cache.files() {
            if !self.known.contains_key(&path) && !offered.contains(&path) {
                // What cannot be read is fetched again when somebody asks for it.
                let _ = files.add(&path);
            }
        }
    }
}

/// The files of a folder; of a layout of images, its blobs.
fn files_in(folder: &Path) -> Vec<PathBuf> {
    let blobs = layout::blobs(folder);
    let folder = blobs.as_deref().unwrap_or(folder);
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let plain = |path: &PathBuf| path.file_name().is_some_and(|name| !name.as_encoded_bytes().starts_with(b"."));
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(plain).collect();
    files.sort_unstable();
    files
}

fn stamp(path: &Path) -> Option<FileStamp> {
    path.metadata().ok().filter(std::fs::Metadata::is_file).map(|metadata| FileStamp::of(&metadata))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offered(files: &OfferedFiles) -> Vec<(String, u64)> {
        let mut files: Vec<_> =
            files.list().iter().map(|file| (file.offered().name.clone(), file.offered().bytes)).collect();
        files.sort();
        files
    }

    /// What comes, changes and goes is offered, anew, and not any more; what another has added stays.
    #[test]
    fn folders_are_followed() {
        let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let write = |name: &str, content: &str| std::fs::write(folder.path().join(name), content).unwrap();
        let (files, mut folders) = (OfferedFiles::new(), Folders::default());
        std::fs::write(other.path().join("fetched"), "x").unwrap();
        files.add(&other.path().join("fetched")).unwrap();
        let mut look = || folders.look(&[folder.path().to_owned(), "/no such folder".into()], &files);
        write("a", "one");
        write(".hidden", "one");
        look();
        let fetched = ("fetched".to_owned(), 1);
        assert_eq!(offered(&files), [("a".to_owned(), 3), fetched.clone()]);
        write("a", "four");
        write("b", "");
        look();
        assert_eq!(offered(&files), [("a".to_owned(), 4), ("b".to_owned(), 0), fetched.clone()]);
        std::fs::remove_file(folder.path().join("a")).unwrap();
        look();
        assert_eq!(offered(&files), [("b".to_owned(), 0), fetched]);
    }

    /// A file that was changed right after it was read, and has the same size and the same time of its last change, is read again.
    #[test]
    fn a_change_that_hardly_shows_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let (files, mut folders) = (OfferedFiles::new(), Folders::default());
        let mut hash_after = |content: &str| {
            std::fs::write(&path, content).unwrap();
            let time = std::time::UNIX_EPOCH + Duration::from_secs(1000);
            std::fs::File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
            folders.look(&[folder.path().to_owned()], &files);
            files.list()[0].offered().hash
        };
        let (one, two, again) = (hash_after("one"), hash_after("two"), hash_after("two"));
        assert_ne!(one, two);
        assert_eq!(two, again);
    }

    /// What the cache has from before is offered.
    #[test]
    fn the_cache_is_offered() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("kept"), "x").unwrap();
        std::fs::write(folder.path().join(".pliant-y.part"), "x").unwrap();
        let (files, mut folders) = (OfferedFiles::new(), Folders::default());
        let cache = Cache::open(folder.path(), 100).unwrap();
        for _ in 0..2 {
            folders.look_at_cache(&cache, &files);
            assert_eq!(offered(&files), [("kept".to_owned(), 1)]);
        }
    }
}
