//! The receiver of a folder.

use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::FOLDER_END;
use super::FolderFilter;
use super::listing::{FolderListing, MAX_LISTING_BYTES};
use super::own::OwnFolder;
use super::place::place;
use crate::seam::{DiskOperation, before};
use crate::transfer::directory::{file_beneath, hash_of, umask_of};
use crate::transfer::error::TransferError;
use crate::transfer::names::{parent, rename_new, sync_folder_of};
use crate::transfer::output::{OutputError, Target, plain_name, require_free};
use crate::transfer::progress::Progress;
use crate::transfer::push::fetch::{Attempt, Hearing, fetch_once};
use crate::transfer::push::fetched::{FetchNews, Fetched, WantedFile};
use crate::transfer::settings::{Limits, Settings};

/// Beginning of the names of temporary files, and the number of hash digits in them.
const PREFIX: &str = ".pliant-";
const DIGITS: usize = 32;

/// The wanted folder, and which part of it.
#[derive(Clone, Default)]
pub struct WantedFolder {
    /// Its name at the sources.
    pub name: String,
    /// BLAKE3 hash of its listing.
    pub hash: Option<blake3::Hash>,
    /// Which files of it.
    pub filter: FolderFilter,
}

/// Fetches a folder from those of `sources` that offer it, as [`fetch`](super::super::fetch) does a file: to the
/// target, or to a folder of its name in the target. If the folder exists and may be overwritten, changed files are
/// replaced, and only changes are sent. Files that the sources do not have stay.
pub fn fetch_folder(
    sources: &[SocketAddr],
    wanted: &WantedFolder,
    target: &Target,
    settings: &Settings,
    interrupted: &AtomicBool,
    mut progress: impl FnMut(Progress),
    mut tell: impl FnMut(FetchNews<'_>),
) -> Result<Fetched, TransferError> {
    let name = wanted.name.trim_end_matches(FOLDER_END);
    let in_file = |path: &Path, error| TransferError::File { path: path.to_owned(), error };
    let invalid = |why: &str| io::Error::new(io::ErrorKind::InvalidInput, why);
    let root = match target {
        Target::Discard => return Err(TransferError::Sources("a folder is not discarded: only files are")),
        Target::File(path) => path.clone(),
        Target::Directory(folder) => {
            let name =
                plain_name(name).ok_or_else(|| in_file(Path::new(name), invalid("not a plain name of a folder")))?;
            folder.join(name)
        }
    };
    let is_there = root.is_dir();
    if !is_there || !settings.overwrite {
        require_free(&root).map_err(|error| match error {
            OutputError::File(path, error) => in_file(&path, error),
            OutputError::Name => in_file(&root, invalid("not a plain name of a folder")),
        })?;
    }
    let beside = |error| in_file(&root, io::Error::from(io::Error::kind(&error)));
    before(DiskOperation::Create, &root).map_err(beside)?;
    let temporary = tempfile::Builder::new().prefix(PREFIX).tempdir_in(parent(&root)).map_err(beside)?;

    let path = temporary.path().join("listing");
    let max_bytes = settings.limits.max_bytes.min(MAX_LISTING_BYTES);
    let limits = Limits { max_bytes, ..settings.limits };
    // A second attempt replaces the first one's.
    let of_listing = Settings { limits, overwrite: true, ..settings.clone() };
    let file = WantedFile { hash: wanted.hash, name: Some(format!("{name}{FOLDER_END}")), ..WantedFile::default() };
    let into = Target::File(path.clone());
    let refuse = |why: String| in_file(&root, io::Error::new(io::ErrorKind::InvalidData, why));
    let mut hearing = Hearing::Later;
    // Sources that are slow to answer are heard while the contents come. Who disagrees then has everything begin again.
    let (fetched, listing, kept, contents, came) = loop {
        let mut attempt = Attempt::new(hearing);
        let fetched =
            fetch_once(sources, &file, &into, &of_listing, interrupted, &mut attempt, &mut |_| {}, &mut tell)?;
        hearing = Hearing::First;
        let Some(fetched) = fetched else {
            tell(FetchNews::Disputed);
            continue;
        };
        let bytes = std::fs::read(&path).map_err(beside)?;
        let listing = match FolderListing::decode(&bytes, settings.limits.max_files) {
            Err(_) if attempt.unheard.is_some() => continue,
            listing => listing.map_err(refuse)?,
        };
        drop(bytes);
        let kept = root.with_file_name(format!("{PREFIX}{}.contents", &listing.hash.to_hex()[..DIGITS]));
        let mut came = Fetched { bytes: 0, kept: 0, ..fetched.clone() };
        let wants_bytes = !listing.wanted_files(&wanted.filter).is_empty() && listing.bytes > 0;
        let there = if wants_bytes { whole(&kept, &listing) } else { None };
        let contents = if wants_bytes && there.is_none() {
            let own = Arc::new(OwnFolder::new(root.clone(), &listing, &wanted.filter));
            let file = WantedFile { hash: Some(listing.hash), own: Some(own), ..WantedFile::default() };
            let into = Target::File(kept.clone());
            let mut attempt = Attempt::beside(attempt.unheard);
            let contents =
                fetch_once(sources, &file, &into, settings, interrupted, &mut attempt, &mut progress, &mut tell)?;
            let Some(contents) = contents else {
                tell(FetchNews::Disputed);
                continue;
            };
            came = contents;
            File::open(&kept).map_err(beside)?
        } else if attempt.unheard.is_some() {
            continue;
        } else if let Some(file) = there {
            (came.bytes, came.kept) = (listing.bytes, listing.bytes);
            file
        } else {
            tempfile::tempfile_in(temporary.path()).map_err(beside)?
        };
        break (fetched, listing, kept, contents, came);
    };

    let new = temporary.path().join("folder");
    let umask = std::fs::create_dir(&new).and_then(|()| umask_of(&new)).map_err(beside)?;
    let placed = |root: &Path| place(&listing, &contents, root, &wanted.filter, umask, interrupted);
    let synced = |root: &Path| -> io::Result<()> {
        before(DiskOperation::Sync, root)?;
        // One call for all the files; each by itself would wait for the disk as often as there are files.
        Ok(rustix::fs::syncfs(File::open(root)?)?)
    };
    let done = if is_there {
        placed(&root).and_then(|()| synced(&root))
    } else {
        let placed = placed(&new).and_then(|()| synced(&new)).and_then(|()| rename_new(&new, &root));
        placed.and_then(|()| sync_folder_of(&root))
    };
    done.map_err(|error| {
        if interrupted.load(std::sync::atomic::Ordering::Relaxed) {
            TransferError::Interrupted
        } else {
            in_file(&root, error)
        }
    })?;
    let _ = std::fs::remove_file(&kept);
    let elapsed = fetched.elapsed + came.elapsed;
    Ok(Fetched { name: name.to_owned(), path: Some(root), hash: fetched.hash, elapsed, ..came })
}

/// The contents left by an interrupted fetch, if they are complete.
fn whole(path: &Path, listing: &FolderListing) -> Option<File> {
    let file = file_beneath(parent(path), Path::new(path.file_name()?)).ok()?;
    let same = file.metadata().is_ok_and(|metadata| metadata.len() == listing.bytes);
    (same && hash_of(&file, |_| Ok(())).is_ok_and(|hash| hash == listing.hash)).then_some(file)
}
