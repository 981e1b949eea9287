//! A folder at a source: its listing, and its files' contents, read in place.

use std::collections::HashMap;
use std::fs::{File, FileType, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::super::hash_tree::{HashTree, TreeBuilder};
use super::FolderFilter;
use super::listing::{FolderEntry, FolderEntryKind, FolderListing, LEADS_OUT, fits, stays_inside};
use crate::transfer::directory::{Walk, at, file_beneath};

/// Bytes that are read at once.
const PIECE_BYTES: usize = 256 << 10;

/// What shows that a file has changed: its size, and its modification time (ns).
type FileState = (u64, i128);

fn state(metadata: &Metadata) -> FileState {
    (metadata.len(), i128::from(metadata.mtime()) * 1_000_000_000 + i128::from(metadata.mtime_nsec()))
}

/// A hash of what shows that a folder has changed: the names, kinds, permissions, sizes and times of what the `filter`
/// selects, and where links lead. No file is opened.
pub fn state_of_folder(root: &Path, filter: &FolderFilter) -> io::Result<blake3::Hash> {
    let mut hasher = blake3::Hasher::new();
    for entry in (Selected { walk: Walk::new(root), filter }) {
        let (path, kind) = entry?;
        let metadata = root.join(&path).symlink_metadata().map_err(|error| at(&path, &error))?;
        let to = if kind.is_symlink() { root.join(&path).read_link()? } else { PathBuf::new() };
        for name in [&path, &to] {
            hasher.update(&(name.as_os_str().len() as u64).to_be_bytes());
            hasher.update(name.as_os_str().as_encoded_bytes());
        }
        hasher.update(&metadata.mode().to_be_bytes());
        if !kind.is_dir() {
            // The time of the last change of the inode shows what a program has done that sets the other time back.
            let changed = i128::from(metadata.ctime()) * 1_000_000_000 + i128::from(metadata.ctime_nsec());
            let (bytes, modified) = state(&metadata);
            for number in [i128::from(bytes), modified, changed, i128::from(metadata.ino())] {
                hasher.update(&number.to_be_bytes());
            }
        }
    }
    Ok(hasher.finalize())
}

/// The entries of a folder without names that begin with a dot, and without what the filter excludes.
struct Selected<'f> {
    walk: Walk,
    filter: &'f FolderFilter,
}

impl Iterator for Selected<'_> {
    type Item = io::Result<(PathBuf, FileType)>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let (path, kind) = match self.walk.next()? {
                Ok(entry) => entry,
                Err(error) => return Some(Err(error)),
            };
            let is_hidden = path.iter().any(|name| name.as_encoded_bytes().starts_with(b"."));
            if is_hidden || self.filter.leaves_out(&path) {
                // It need not be readable.
                if kind.is_dir() {
                    self.walk.prune();
                }
            } else if kind.is_dir() || self.filter.takes(&path) {
                return Some(Ok((path, kind)));
            }
        }
    }
}

/// The concatenated contents of a folder's files. Files are opened when they are read, because there may be more than a
/// process may have open.
pub(in super::super) struct FolderContents {
    root: PathBuf,
    files: Vec<ContentFile>,
    /// The file that was read last.
    last: Mutex<Option<(usize, File)>>,
}

struct ContentFile {
    path: PathBuf,
    at: u64,
    state: FileState,
}

/// A folder that was read.
pub(in super::super) struct ReadFolder {
    pub(in super::super) listing: Vec<u8>,
    pub(in super::super) contents: FolderContents,
    pub(in super::super) tree: HashTree,
    /// For each file: its path in the folder, where its contents begin, and its hash tree.
    pub(in super::super) files: Vec<(PathBuf, u64, HashTree)>,
}

impl FolderContents {
    /// Reads the folder at `root` once. Leaves out everything that is neither a file nor a folder nor a link, names
    /// that begin with a dot, and what the `filter` excludes. Fails if a file changes meanwhile.
    pub(in super::super) fn read(root: &Path, filter: &FolderFilter) -> io::Result<ReadFolder> {
        let (mut entries, mut firsts) = (Vec::new(), HashMap::new());
        let (mut files, mut trees, mut all) = (Vec::new(), Vec::new(), TreeBuilder::new());
        let (mut start, mut piece) = (0, vec![0; PIECE_BYTES]);
        for entry in (Selected { walk: Walk::new(root), filter }) {
            let (path, kind) = entry?;
            let refuse = |why: &str| Err(at(&path, &io::Error::new(io::ErrorKind::InvalidData, why)));
            if !fits(&path) {
                return refuse("its path has more than 4096 bytes");
            }
            if kind.is_dir() {
                let mode = root.join(&path).symlink_metadata().map_err(|error| at(&path, &error))?.mode();
                entries.push(FolderEntry { path, mode: (mode & 0o777) as u16, kind: FolderEntryKind::Folder });
            } else if kind.is_symlink() {
                let to = root.join(&path).read_link().map_err(|error| at(&path, &error))?;
                if !stays_inside(&path, &to) || !fits(&to) {
                    return refuse(&format!("{LEADS_OUT}: `--exclude` leaves it out"));
                }
                entries.push(FolderEntry { path, mode: 0o777, kind: FolderEntryKind::Link { to } });
            } else if kind.is_file() {
                let file = file_beneath(root, &path).map_err(|error| at(&path, &error))?;
                let before = file.metadata()?;
                let mode = (before.mode() & 0o777) as u16;
                if before.nlink() > 1
                    && let Some(first) = firsts.get(&(before.dev(), before.ino()))
                {
                    let kind = FolderEntryKind::Same { first: PathBuf::clone(first) };
                    entries.push(FolderEntry { path, mode, kind });
                    continue;
                }
                let mut tree = TreeBuilder::new();
                loop {
                    let bytes = (&file).read(&mut piece).map_err(|error| at(&path, &error))?;
                    if bytes == 0 {
                        break;
                    }
                    tree.update(&piece[..bytes]);
                    all.update(&piece[..bytes]);
                }
                let (tree, after) = (tree.finish(), file.metadata()?);
                if state(&before) != state(&after) || tree.bytes() != after.len() {
                    return refuse(CHANGED);
                }
                firsts.insert((before.dev(), before.ino()), path.clone());
                let (modified, bytes, hash) = (after.mtime(), tree.bytes(), tree.root());
                entries.push(FolderEntry {
                    path: path.clone(),
                    mode,
                    kind: FolderEntryKind::File { modified, bytes, hash },
                });
                files.push(ContentFile { path: path.clone(), at: start, state: state(&after) });
                trees.push((path, start, tree));
                start += bytes;
            }
        }
        // With patterns of files to include, a folder without any is left out.
        let needed: std::collections::HashSet<PathBuf> = entries
            .iter()
            .filter(|entry| entry.kind != FolderEntryKind::Folder || filter.takes(&entry.path))
            .flat_map(|entry| entry.path.ancestors().map(Path::to_owned))
            .collect();
        entries.retain(|entry| needed.contains(&entry.path));
        let tree = all.finish();
        let listing = FolderListing { bytes: start, hash: tree.root(), entries }.encode();
        let contents = Self { root: root.to_owned(), files, last: Mutex::new(None) };
        Ok(ReadFolder { listing, contents, tree, files: trees })
    }

    /// Reads at an offset of the concatenated contents.
    pub(in super::super) fn read_exact_at(&self, mut into: &mut [u8], mut offset: u64) -> io::Result<()> {
        while !into.is_empty() {
            let number = self.files.partition_point(|file| file.at + file.state.0 <= offset);
            let Some(file) = self.files.get(number) else { return Err(io::ErrorKind::UnexpectedEof.into()) };
            let within = offset - file.at;
            let length = (file.state.0 - within).min(into.len() as u64) as usize;
            let (now, later) = into.split_at_mut(length);
            self.read_file(number, now, within).map_err(|error| at(&file.path, &error))?;
            (into, offset) = (later, offset + length as u64);
        }
        Ok(())
    }

    fn read_file(&self, number: usize, into: &mut [u8], within: u64) -> io::Result<()> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let file = match last.take() {
            Some((other, file)) if other == number => file,
            _ => {
                let file = file_beneath(&self.root, &self.files[number].path)?;
                if state(&file.metadata()?) != self.files[number].state {
                    return Err(io::Error::other(CHANGED));
                }
                file
            }
        };
        file.read_exact_at(into, within)?;
        *last = Some((number, file));
        Ok(())
    }
}

const CHANGED: &str = "it was changed since it was read";
