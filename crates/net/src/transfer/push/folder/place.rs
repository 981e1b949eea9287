//! Puts the files of a folder into their places.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Permissions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{AtFlags, Mode, OFlags, linkat, mkdirat, openat, readlinkat, renameat, statat, symlinkat, unlinkat};
use rustix::io::Errno;

use super::FolderFilter;
use super::listing::{FolderEntry, FolderEntryKind, FolderListing};
use crate::seam::{DiskOperation, before};
use crate::transfer::directory::{at, file_beneath, folder_beneath, hash_of};

/// Name of a file until it is complete.
const TEMPORARY: &str = ".pliant-placed";
const OWNER: u32 = 0o700;

/// Puts what `filter` selects of a folder below `root`. The contents of its files are concatenated in `contents`. What
/// is already there and equal stays. Anything else with a file's name is replaced, each file at once. What the listing
/// does not have stays.
pub(super) fn place(
    listing: &FolderListing,
    contents: &File,
    root: &Path,
    filter: &FolderFilter,
    umask: u32,
    interrupted: &AtomicBool,
) -> io::Result<()> {
    if ignores_case(root)?
        && let Some(clash) = listing.case_clash()
    {
        let why =
            "another file of the folder has this name but for capitals, which this file system does not tell apart";
        return Err(at(clash, &io::Error::new(io::ErrorKind::InvalidData, why)));
    }
    let placed = |entry| PlacedEntry::new(root, entry, umask);
    let mut closed_folders = Vec::new();
    let mut starts = listing.files().map(|(_, start, _)| start);
    let wanted = listing.wanted_files(filter);
    for entry in &listing.entries {
        if interrupted.load(Ordering::Relaxed) {
            return Err(io::Error::other("interrupted"));
        }
        let start = if matches!(entry.kind, FolderEntryKind::File { .. }) { starts.next() } else { None };
        if !filter.takes(&entry.path) && !wanted.contains(entry.path.as_path()) {
            continue;
        }
        let placed = placed(entry);
        let done = match &entry.kind {
            FolderEntryKind::Folder => placed.folder().map(|closed| {
                if closed {
                    closed_folders.push(entry);
                }
            }),
            FolderEntryKind::File { modified, bytes, hash } => {
                placed.file(contents, start.expect("each file has a place"), *bytes, *hash, *modified)
            }
            FolderEntryKind::Link { to } => placed.link(to),
            FolderEntryKind::Same { first } => placed.same(first),
        };
        done.map_err(|error| at(&entry.path, &error))?;
    }
    // Those that their owner may not write to get their permissions once all is in them, the inner ones first.
    for entry in closed_folders.into_iter().rev() {
        let placed = placed(entry);
        let folder = placed.open_folder().map_err(|error| at(&entry.path, &error))?;
        File::from(folder).set_permissions(Permissions::from_mode(placed.mode))?;
    }
    Ok(())
}

/// Whether the file system ignores case in names.
fn ignores_case(root: &Path) -> io::Result<bool> {
    let probe = tempfile::Builder::new().prefix(".pliant-CASE").tempfile_in(root)?;
    let name = probe.path().file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    Ok(root.join(name).symlink_metadata().is_ok())
}

impl FolderListing {
    /// The first path that differs from another only in case.
    fn case_clash(&self) -> Option<&Path> {
        let mut seen = std::collections::HashSet::new();
        let clashes = |entry: &&FolderEntry| !seen.insert(entry.path.to_string_lossy().to_lowercase());
        self.entries.iter().find(clashes).map(|entry| entry.path.as_path())
    }
}

/// An entry that is being put into its place.
struct PlacedEntry<'l> {
    root: &'l Path,
    entry: &'l FolderEntry,
    /// Its permissions, less the umask.
    mode: u32,
}

impl<'l> PlacedEntry<'l> {
    fn new(root: &'l Path, entry: &'l FolderEntry, umask: u32) -> Self {
        Self { root, entry, mode: u32::from(entry.mode) & !umask }
    }

    /// The folder for it, created if necessary. No link is followed.
    fn above(&self) -> io::Result<(OwnedFd, &OsStr)> {
        let path = &self.entry.path;
        match folder_beneath(self.root, path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let above: Vec<&Path> = path.ancestors().skip(1).filter(|above| *above != Path::new("")).collect();
                for above in above.into_iter().rev() {
                    let (folder, name) = folder_beneath(self.root, above)?;
                    match mkdirat(folder, name, Mode::from_raw_mode(0o777)) {
                        Ok(()) | Err(Errno::EXIST) => {}
                        Err(error) => return Err(error.into()),
                    }
                }
                folder_beneath(self.root, path)
            }
            found => found,
        }
    }

    fn open_folder(&self) -> io::Result<OwnedFd> {
        let (above, name) = self.above()?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(openat(above, name, flags, Mode::empty())?)
    }

    /// Creates a folder, or uses the existing one. Returns whether its owner has no access to it in the end.
    fn folder(&self) -> io::Result<bool> {
        let (above, name) = self.above()?;
        match mkdirat(&above, name, Mode::from_raw_mode(self.mode | OWNER)) {
            Ok(()) => Ok(self.mode & OWNER != OWNER),
            Err(Errno::EXIST) => {
                self.open_folder().map(|_| false).map_err(|_| io::Error::other("already there, and no folder"))
            }
            Err(error) => Err(error.into()),
        }
    }

    fn file(&self, contents: &File, start: u64, bytes: u64, hash: blake3::Hash, modified: i64) -> io::Result<()> {
        let since = Duration::from_secs(modified.unsigned_abs());
        let modified: Option<SystemTime> =
            if modified < 0 { UNIX_EPOCH.checked_sub(since) } else { UNIX_EPOCH.checked_add(since) };
        let modified = modified.ok_or_else(|| io::Error::other("a time that is none"))?;
        let (above, name) = self.above()?;
        let mode = Permissions::from_mode(self.mode);
        if let Ok(there) = file_beneath(self.root, &self.entry.path)
            && let metadata = there.metadata()?
            && metadata.len() == bytes
            // Another name of the same file may be no part of the folder: it is left alone.
            && metadata.nlink() == 1
            && hash_of(&there, |_| Ok(()))? == hash
        {
            if metadata.mode() & 0o777 != self.mode {
                there.set_permissions(mode)?;
            }
            return if metadata.modified()? == modified { Ok(()) } else { there.set_modified(modified) };
        }
        let mut new = File::from(Self::temporary(&above)?);
        before(DiskOperation::Write(bytes as usize), self.root)?;
        let part = ContentPart { file: contents, at: start, left: bytes };
        let written = copy(part, &mut new, hash).and_then(|()| {
            new.set_permissions(mode)?;
            new.set_modified(modified)
        });
        self.put(&above, name, written)
    }

    fn temporary(above: &OwnedFd) -> io::Result<OwnedFd> {
        let _ = unlinkat(above, TEMPORARY, AtFlags::empty());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(openat(above, TEMPORARY, flags, Mode::from_raw_mode(0o600))?)
    }

    /// Gives the temporary file its name, if it was created.
    fn put(&self, above: &OwnedFd, name: &OsStr, made: io::Result<()>) -> io::Result<()> {
        let put = made.and_then(|()| {
            before(DiskOperation::Rename, self.root)?;
            renameat(above, TEMPORARY, above, name).map_err(|error| match error {
                Errno::ISDIR => io::Error::other("already there, and a folder"),
                error => error.into(),
            })
        });
        if put.is_err() {
            let _ = unlinkat(above, TEMPORARY, AtFlags::empty());
        }
        put
    }

    fn link(&self, to: &Path) -> io::Result<()> {
        let (above, name) = self.above()?;
        if readlinkat(&above, name, Vec::new()).is_ok_and(|there| there.as_bytes() == to.as_os_str().as_encoded_bytes())
        {
            return Ok(());
        }
        let _ = unlinkat(&above, TEMPORARY, AtFlags::empty());
        let made = symlinkat(to, &above, TEMPORARY).map_err(io::Error::from);
        self.put(&above, name, made)
    }

    /// Creates another name of a file that is in its place.
    fn same(&self, first: &Path) -> io::Result<()> {
        let (above, name) = self.above()?;
        let (folder, of): (OwnedFd, OsString) = {
            let (folder, of) = folder_beneath(self.root, first)?;
            (folder, of.to_owned())
        };
        let place = |folder: &OwnedFd, name: &OsStr| {
            statat(folder.as_fd(), name, AtFlags::SYMLINK_NOFOLLOW).map(|there| (there.st_dev, there.st_ino))
        };
        if place(&above, name).is_ok_and(|there| place(&folder, &of) == Ok(there)) {
            return Ok(());
        }
        let _ = unlinkat(&above, TEMPORARY, AtFlags::empty());
        let made = linkat(&folder, &of, &above, TEMPORARY, AtFlags::empty()).map_err(io::Error::from);
        self.put(&above, name, made)
    }
}

fn copy(mut from: ContentPart<'_>, into: &mut File, hash: blake3::Hash) -> io::Result<()> {
    let (mut hasher, mut piece) = (blake3::Hasher::new(), vec![0; 128 << 10]);
    loop {
        let bytes = from.read(&mut piece)?;
        if bytes == 0 {
            break;
        }
        hasher.update(&piece[..bytes]);
        into.write_all(&piece[..bytes])?;
    }
    if hasher.finalize() == hash { Ok(()) } else { Err(io::Error::other("its content is not the one of the listing")) }
}

/// A part of a file.
struct ContentPart<'f> {
    file: &'f File,
    at: u64,
    left: u64,
}

impl Read for ContentPart<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let length = self.left.min(into.len() as u64) as usize;
        let read = self.file.read_at(&mut into[..length], self.at)?;
        self.at += read as u64;
        self.left -= read as u64;
        Ok(read)
    }
}
