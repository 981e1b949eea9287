//! Folders with everything in them: offered here, and looked up for programs.
//!
//! An offered folder is checked every few seconds, and read again when it has changed. Of a folder that a program asks
//! for, the listing comes from here or from the sources, which vote on it. Then its files are known by their hashes.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use pliant_net::transfer::{FileSelector, FolderFilter, FolderIndex, Hash, OfferedFiles, state_of_folder};
use tokio::sync::Mutex as AsyncMutex;
use tokio::time::Instant;

use super::no_file::NoFile;
use super::watch::INTERVAL;
use crate::log::say;
use crate::mutex::lock;

/// A folder is checked again after this many times as long as the check took, so that the check of many files takes little
/// of a processor. It is left alone for at least the usual interval, and for as long as it took to read.
const REST: u32 = 20;
/// Most bytes and entries of a listing that is looked up for programs, and most such listings.
pub(super) const MAX_LISTING_BYTES: u64 = 16 << 20;
const MAX_ENTRIES: u64 = 1 << 18;
const MAX_LISTINGS: usize = 8;
/// The last character of a folder's name as a source gives it.
const FOLDER_END: char = '/';

/// An offered folder, and its state at the last check.
#[derive(Clone)]
pub(super) struct OfferedFolder {
    name: String,
    path: PathBuf,
    filter: FolderFilter,
    state: Option<Hash>,
    due: Option<Instant>,
    problem: Option<String>,
}

impl OfferedFolder {
    pub(super) fn new(name: String, path: PathBuf, filter: FolderFilter) -> Self {
        Self { name, path, filter, state: None, due: None, problem: None }
    }

    /// Offers the folder if it is new or has changed, and withdraws it if it is gone. What cannot be read, or changes while
    /// it is, is not offered until it can; what was read before is offered on.
    pub(super) fn look(&mut self, now: Instant, files: &OfferedFiles) {
        if self.due.is_some_and(|due| now < due) {
            return;
        }
        let begun = Instant::now();
        let state = state_of_folder(&self.path, &self.filter);
        let checking = begun.elapsed();
        let problem = match state {
            Ok(state) if self.state == Some(state) => None,
            // What changes while it is read has another state at the next check, or does not show yet.
            Ok(state) => match files.add_folder_named(&self.path, &self.name, &self.filter) {
                Ok(reading) => {
                    self.state = reading.is_settled.then_some(state);
                    None
                }
                Err(error) => Some(error.to_string()),
            },
            Err(error) => {
                if !self.path.is_dir() {
                    files.remove_folder(&self.path, &self.name);
                    self.state = None;
                }
                Some(format!("{}: {error}", self.path.display()))
            }
        };
        if let Some(why) = problem.as_ref().filter(|why| self.problem.as_ref() != Some(why)) {
            say(&format!("folder {}", self.name), why);
        }
        self.problem = problem;
        let all = begun.elapsed();
        self.due = Some(now + all + INTERVAL.max(checking * REST).max(all));
    }

    /// What is offered of it.
    pub(super) fn state(&self, files: &OfferedFiles) -> FolderState {
        let listing = files.find(&FileSelector::Name(listing_name(&self.name))).ok();
        let hash = listing.map(|listing| listing.offered().hash);
        FolderState { name: self.name.clone(), hash, problem: self.problem.clone() }
    }
}

/// What is offered of a folder.
pub(crate) struct FolderState {
    pub(crate) name: String,
    /// Hash of its listing, if it is offered.
    pub(crate) hash: Option<Hash>,
    /// Why its present state is not.
    pub(crate) problem: Option<String>,
}

/// What a source calls the listing of a folder.
pub(super) fn listing_name(folder: &str) -> String {
    format!("{folder}{FOLDER_END}")
}

/// A listing that was looked up.
#[derive(Clone)]
pub(super) struct Listing {
    hash: Hash,
    index: Arc<FolderIndex>,
    asked_at: Instant,
}

/// The place of a listing. Who looks it up holds it, so nobody does so twice.
type Place = Arc<AsyncMutex<Option<Listing>>>;

/// Listings that were looked up lately.
#[derive(Default)]
pub(super) struct Listings(Mutex<HashMap<String, Place>>);

impl Listings {
    fn place(&self, folder: &str) -> Option<Place> {
        let mut places = lock(&self.0);
        if !places.contains_key(folder) && places.len() == MAX_LISTINGS {
            // Nobody can come to hold one while the map is locked.
            let asked_at = |place: &Place| place.try_lock().ok().and_then(|listing| Some(listing.as_ref()?.asked_at));
            let unused = places.iter().filter(|(_, place)| Arc::strong_count(place) == 1);
            let oldest = unused.min_by_key(|(_, place)| asked_at(place)).map(|(folder, _)| folder.clone())?;
            places.remove(&oldest);
        }
        Some(places.entry(folder.to_owned()).or_default().clone())
    }

    /// What is in a folder. `ask` gets its listing, with its hash. It is asked at most once in the interval in which
    /// sources check their folders. If it fails, the last listing counts.
    pub(super) async fn find<F>(
        &self,
        now: Instant,
        folder: &str,
        ask: impl FnOnce() -> F,
    ) -> Result<Arc<FolderIndex>, NoFile>
    where
        F: Future<Output = Result<(Hash, Vec<u8>), NoFile>>,
    {
        let place = self.place(folder).ok_or(NoFile::Busy)?;
        let mut known = place.lock().await;
        if let Some(listing) = known.as_ref().filter(|listing| now.duration_since(listing.asked_at) < INTERVAL) {
            return Ok(listing.index.clone());
        }
        let index = match (ask().await, known.as_ref()) {
            (Ok((hash, _)), Some(before)) if before.hash == hash => Ok((hash, before.index.clone())),
            (Ok((hash, bytes)), _) => read(folder, &bytes).map(|index| (hash, index)),
            (Err(NoFile::Failed(_) | NoFile::Busy), Some(before)) => Ok((before.hash, before.index.clone())),
            (Err(why), _) => Err(why),
        };
        *known = index.as_ref().ok().map(|(hash, index)| Listing { hash: *hash, index: index.clone(), asked_at: now });
        index.map(|(_, index)| index)
    }
}

fn read(folder: &str, listing: &[u8]) -> Result<Arc<FolderIndex>, NoFile> {
    let index = FolderIndex::read(listing, MAX_ENTRIES);
    index.map(Arc::new).map_err(|why| NoFile::Failed(format!("the listing of {folder}: {why}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::path::Path;
    use std::time::Duration;

    fn names(files: &OfferedFiles) -> Vec<String> {
        let mut names: Vec<_> = files.list().iter().map(|file| file.offered().name.clone()).collect();
        names.sort();
        names
    }

    /// A folder is offered with what is in it, again when that changes, and not before it is checked again; a link that leads
    /// out is named, and what was there before is offered on; a folder that is gone is not offered.
    #[test]
    fn a_folder_is_followed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("models");
        std::fs::create_dir_all(path.join("sub")).unwrap();
        let write = |name: &str, content: &str| std::fs::write(path.join(name), content).unwrap();
        write("sub/a", "one");
        write("b.tmp", "left out");
        let filter = FolderFilter::new(&[], &["*.tmp".to_owned()]).unwrap();
        let (files, mut offered) = (OfferedFiles::new(), OfferedFolder::new("m".to_owned(), path.clone(), filter));
        let mut now = Instant::now();
        let mut look = |advance: bool| {
            now = if advance { now + 2 * INTERVAL } else { now };
            offered.look(now, &files);
            (names(&files), offered.problem.clone())
        };
        let hash = || files.find(&FileSelector::Name("m/".to_owned())).ok().map(|file| file.offered().hash);
        let both = vec!["m/".to_owned(), "m/sub/a".to_owned()];
        assert_eq!(look(true), (both.clone(), None));
        let first = hash();
        write("sub/a", "two");
        assert_eq!(look(false), (both.clone(), None));
        assert_eq!(hash(), first, "it is not due");
        assert_eq!(look(true), (both.clone(), None));
        assert_ne!(hash(), first);
        std::os::unix::fs::symlink("/etc", path.join("out")).unwrap();
        let (names, problem) = look(true);
        assert_eq!(names, both);
        assert!(problem.unwrap().contains("out: this link leads out of the folder"));
        std::fs::remove_file(path.join("out")).unwrap();
        assert_eq!(look(true), (both, None));
        std::fs::remove_dir_all(&path).unwrap();
        let (names, problem) = look(true);
        assert!(names.is_empty() && problem.unwrap().contains("models: "));
    }

    /// A listing is asked for once while it is new; the last one counts while nobody answers; the ninth takes the place of
    /// the one that was asked for longest ago.
    #[tokio::test]
    async fn listings_are_kept_for_a_while() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a"), "x").unwrap();
        let files = OfferedFiles::new();
        files.add_folder_named(folder.path(), "m", &FolderFilter::default()).unwrap();
        let listing = files.find(&FileSelector::Name("m/".to_owned())).unwrap();
        let mut bytes = vec![0; listing.offered().bytes as usize];
        listing.read_at(0, &mut bytes).unwrap();
        let (hash, asked, listings) = (listing.offered().hash, Cell::new(0), Listings::default());
        let now = Cell::new(Instant::now());
        let find = async |folder: &str, answer: Result<(), NoFile>| {
            let ask = || {
                asked.set(asked.get() + 1);
                let answer = answer.map(|()| (hash, bytes.clone()));
                async { answer }
            };
            let found = listings.find(now.get(), folder, ask).await;
            (found.map(|index| index.find(Path::new("a")).is_some()), asked.get())
        };
        let silent = || Err(NoFile::Failed("no answer".to_owned()));
        assert_eq!(find("m", silent()).await, (Err(NoFile::Failed("no answer".to_owned())), 1));
        assert_eq!(find("m", Ok(())).await, (Ok(true), 2));
        assert_eq!(find("m", Ok(())).await, (Ok(true), 2));
        now.set(now.get() + INTERVAL);
        assert_eq!(find("m", silent()).await, (Ok(true), 3));
        for number in 0..MAX_LISTINGS {
            now.set(now.get() + Duration::from_millis(1));
            assert_eq!(find(&number.to_string(), Ok(())).await.1, 4 + number);
        }
        assert_eq!(lock(&listings.0).len(), MAX_LISTINGS);
        assert_eq!(find("7", silent()).await, (Ok(true), 11));
        assert_eq!(find("m", Err(NoFile::Unknown(String::new()))).await, (Err(NoFile::Unknown(String::new())), 12));
        assert_eq!(find("wrong", Ok(())).await.0, Ok(true));
    }
}
