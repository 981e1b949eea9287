//! The listing of a folder, as bytes.
//!
//! ```text
//!  magic "pliant folder 1\n"  bytes of all contents (8)  their BLAKE3 hash (32), then of each entry:
//!  kind (1)  permissions (2)  path, and by kind
//!  0 folder
//!  1 file       modified, in seconds since 1970 (8)  bytes (8)  BLAKE3 hash (32)
//!  2 link       what it leads to, from where it lies
//!  3 same file  the path of a file before it, of which this is another name
//! ```
//!
//! A path has two bytes of length before it. Folders come before their content, and after them the files in the order of
//! their modification, and of their paths if that is the same; links and other names are last. Numbers are in network byte
//! order. The same tree, with the same times and permissions, has the same listing at every source. A receiver takes files
//! and links in any order in which they lie in folders that it knows.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use super::FolderFilter;

const MAGIC: &[u8; 16] = b"pliant folder 1\n";
/// Most bytes of a listing, which is kept in memory.
pub(super) const MAX_LISTING_BYTES: u64 = 256 << 20;
const MAX_PATH_BYTES: usize = 4096;
const PERMISSIONS: u16 = 0o777;

const FOLDER: u8 = 0;
const FILE: u8 = 1;
const LINK: u8 = 2;
const SAME: u8 = 3;

/// A folder's listing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct FolderListing {
    /// Size of the concatenated contents, and their hash.
    pub(super) bytes: u64,
    pub(super) hash: blake3::Hash,
    pub(super) entries: Vec<FolderEntry>,
}

/// An entry of a folder.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct FolderEntry {
    /// Path relative to the folder.
    pub(super) path: PathBuf,
    pub(super) mode: u16,
    pub(super) kind: FolderEntryKind,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum FolderEntryKind {
    Folder,
    /// A file, with its modification time in seconds since 1970.
    File {
        modified: i64,
        bytes: u64,
        hash: blake3::Hash,
    },
    /// A symbolic link.
    Link {
        to: PathBuf,
    },
    /// Another name of an earlier file.
    Same {
        first: PathBuf,
    },
}

impl FolderListing {
    /// As bytes. Paths are as long as a system allows.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = [&MAGIC[..], &self.bytes.to_be_bytes(), self.hash.as_bytes()].concat();
        for FolderEntry { path, mode, kind } in &self.entries {
            let number = match kind {
                FolderEntryKind::Folder => FOLDER,
                FolderEntryKind::File { .. } => FILE,
                FolderEntryKind::Link { .. } => LINK,
                FolderEntryKind::Same { .. } => SAME,
            };
            bytes.push(number);
            bytes.extend(mode.to_be_bytes());
            put_path(&mut bytes, path);
            match kind {
                FolderEntryKind::Folder => {}
                FolderEntryKind::File { modified, bytes: size, hash } => {
                    bytes.extend(modified.to_be_bytes());
                    bytes.extend(size.to_be_bytes());
                    bytes.extend(hash.as_bytes());
                }
                FolderEntryKind::Link { to: path } | FolderEntryKind::Same { first: path } => {
                    put_path(&mut bytes, path);
                }
            }
        }
        bytes
    }

    /// From bytes, with at most this many entries. Refuses by name every entry that lies or leads outside of the
    /// folder, lies in something that is not a folder, or has a name that already exists.
    pub(super) fn decode(bytes: &[u8], max_entries: u64) -> Result<Self, String> {
        let mut rest = UnreadListing(bytes);
        if rest.array() != Some(*MAGIC) {
            return Err("it is no listing of a folder".to_owned());
        }
        let mut listing = Self {
            bytes: u64::from_be_bytes(rest.array().ok_or(CUT)?),
            hash: rest.array::<{ blake3::OUT_LEN }>().ok_or(CUT)?.into(),
            entries: Vec::new(),
        };
        let (mut folders, mut files, mut others) = (HashSet::new(), HashSet::new(), HashSet::new());
        let mut contents = 0u64;
        while !rest.0.is_empty() {
            if listing.entries.len() as u64 >= max_entries {
                return Err(format!("more than {max_entries} files"));
            }
            let [kind] = rest.array().ok_or(CUT)?;
            let mode = u16::from_be_bytes(rest.array().ok_or(CUT)?);
            let path = rest.path()?;
            let shown = path.display().to_string();
            let refuse = |why: &str| Err(format!("{shown}: {why}"));
            if !is_inside(&path) {
                return refuse("it would lie outside of the folder");
            }
            if mode & !PERMISSIONS != 0 {
                return refuse("permissions that are none");
            }
            let above = path.parent().filter(|above| *above != Path::new(""));
            if above.is_some_and(|above| !folders.contains(above)) {
                return refuse("it lies in what is no folder");
            }
            if [&folders, &files, &others].into_iter().any(|there| there.contains(&path)) {
                return refuse("two of this name");
            }
            let kind = match kind {
                FOLDER => FolderEntryKind::Folder,
                FILE => FolderEntryKind::File {
                    modified: i64::from_be_bytes(rest.array().ok_or(CUT)?),
                    bytes: u64::from_be_bytes(rest.array().ok_or(CUT)?),
                    hash: rest.array::<{ blake3::OUT_LEN }>().ok_or(CUT)?.into(),
                },
                LINK => FolderEntryKind::Link { to: rest.path()? },
                SAME => FolderEntryKind::Same { first: rest.path()? },
                _ => return refuse("neither a file nor a folder nor a link"),
            };
            match &kind {
                FolderEntryKind::Folder => folders.insert(path.clone()),
                FolderEntryKind::File { bytes, .. } => {
                    contents = contents.checked_add(*bytes).ok_or_else(|| format!("{shown}: larger than any file"))?;
                    files.insert(path.clone())
                }
                FolderEntryKind::Link { to } if !stays_inside(&path, to) => return refuse(LEADS_OUT),
                FolderEntryKind::Same { first } if !files.contains(first) => {
                    return refuse("another name of a file that is not in the folder");
                }
                FolderEntryKind::Link { .. } | FolderEntryKind::Same { .. } => others.insert(path.clone()),
            };
            listing.entries.push(FolderEntry { path, mode, kind });
        }
        if contents != listing.bytes {
            return Err("its files have other sizes than it says".to_owned());
        }
        Ok(listing)
    }

    /// The files whose contents are wanted, also for another name of a file that is not.
    pub(super) fn wanted_files(&self, filter: &FolderFilter) -> HashSet<&Path> {
        let taken = self.entries.iter().filter(|entry| filter.takes(&entry.path));
        taken
            .filter_map(|entry| match &entry.kind {
                FolderEntryKind::File { .. } => Some(entry.path.as_path()),
                FolderEntryKind::Same { first } => Some(first.as_path()),
                FolderEntryKind::Folder | FolderEntryKind::Link { .. } => None,
            })
            .collect()
    }

    /// The files with their own contents, in order, and where these begin.
    pub(super) fn files(&self) -> impl Iterator<Item = (&FolderEntry, u64, u64)> {
        let mut at = 0;
        self.entries.iter().filter_map(move |entry| {
            let FolderEntryKind::File { bytes, .. } = entry.kind else { return None };
            let start = at;
            at += bytes;
            Some((entry, start, bytes))
        })
    }
}

/// Why a link is refused.
pub(super) const LEADS_OUT: &str = "this link leads out of the folder, or may";
const CUT: &str = "the listing of the folder is cut off";

/// Whether a path consists of names below a folder.
fn is_inside(path: &Path) -> bool {
    let bytes = path.as_os_str().as_bytes();
    let plain = |name: &[u8]| !name.is_empty() && name != b"." && name != b"..";
    !bytes.contains(&0) && bytes.split(|byte| *byte == b'/').all(plain)
}

/// Whether a link leads to something in the folder. `..` may occur only at its beginning, at most as often as there are
/// folders above the link. After another name it would apply to the target of that name, if that is a link.
pub(super) fn stays_inside(link: &Path, to: &Path) -> bool {
    let mut above = link.components().count() - 1;
    let mut names = false;
    !to.as_os_str().is_empty()
        && !to.as_os_str().as_bytes().contains(&0)
        && to.components().all(|part| match part {
            Component::Normal(_) => {
                names = true;
                true
            }
            Component::CurDir => true,
            Component::ParentDir if !names && above > 0 => {
                above -= 1;
                true
            }
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => false,
        })
}

fn put_path(into: &mut Vec<u8>, path: &Path) {
    let path = path.as_os_str().as_bytes();
    into.extend((path.len() as u16).to_be_bytes());
    into.extend(path);
}

/// Whether a path is short enough for a listing.
pub(super) fn fits(path: &Path) -> bool {
    path.as_os_str().len() <= MAX_PATH_BYTES
}

/// The unread part.
struct UnreadListing<'b>(&'b [u8]);

impl UnreadListing<'_> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (array, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*array)
    }

    fn path(&mut self) -> Result<PathBuf, String> {
        let length = usize::from(u16::from_be_bytes(self.array().ok_or(CUT)?));
        let (path, rest) = self.0.split_at_checked(length).ok_or(CUT)?;
        self.0 = rest;
        if length > MAX_PATH_BYTES {
            return Err("a path of more than 4096 bytes".to_owned());
        }
        Ok(PathBuf::from(OsStr::from_bytes(path)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn entry(path: &str, kind: FolderEntryKind) -> FolderEntry {
        FolderEntry { path: path.into(), mode: 0o644, kind }
    }

    fn file(bytes: u64) -> FolderEntryKind {
        FolderEntryKind::File { modified: -1, bytes, hash: blake3::hash(b"x") }
    }

    fn link(to: &str) -> FolderEntryKind {
        FolderEntryKind::Link { to: to.into() }
    }

    fn listing(entries: Vec<FolderEntry>) -> FolderListing {
        let sizes =
            entries.iter().map(|entry| if let FolderEntryKind::File { bytes, .. } = entry.kind { bytes } else { 0 });
        FolderListing { bytes: sizes.sum(), hash: blake3::hash(b"all"), entries }
    }

    /// What is written is read; whatever lies or leads out, has a name twice, or lies in no folder is refused by its name.
    #[test]
    fn what_leaves_the_folder_is_refused_by_name() {
        let right = listing(vec![
            entry("a", FolderEntryKind::Folder),
            entry("a/b", file(3)),
            entry("a/c", link("../a/b")),
            entry("d", FolderEntryKind::Same { first: "a/b".into() }),
        ]);
        assert_eq!(FolderListing::decode(&right.encode(), 4), Ok(right.clone()));
        assert_eq!(FolderListing::decode(&right.encode(), 3).unwrap_err(), "more than 3 files");
        assert_eq!(
            right.files().map(|(entry, at, bytes)| (entry.path.as_path(), at, bytes)).collect::<Vec<_>>(),
            [(Path::new("a/b"), 0, 3)]
        );
        for (wrong, name, why) in [
            (vec![entry("../x", file(0))], "../x", "outside"),
            (vec![entry("/etc/x", file(0))], "/etc/x", "outside"),
            (vec![entry("a/../x", file(0))], "a/../x", "outside"),
            (vec![entry("", file(0))], "", "outside"),
            (vec![entry("a//b", file(0))], "a//b", "outside"),
            (vec![entry("a\0b", file(0))], "a\0b", "outside"),
            (vec![entry("a/b", file(0))], "a/b", "no folder"),
            (vec![entry("a", link("b")), entry("a/b", file(0))], "a/b", "no folder"),
            (vec![entry("a", file(0)), entry("a", file(0))], "a", "two of this name"),
            (vec![entry("a", link("/etc/passwd"))], "a", "leads out"),
            (vec![entry("a", link(".."))], "a", "leads out"),
            (vec![entry("a", link("b/../.."))], "a", "leads out"),
            (vec![entry("a", FolderEntryKind::Same { first: "/etc/passwd".into() })], "a", "not in the folder"),
        ] {
            let error = FolderListing::decode(&listing(wrong).encode(), 10).unwrap_err();
            assert!(error.starts_with(&format!("{name}: ")) && error.contains(why), "{error}");
        }
        let sizes = FolderListing { bytes: 4, ..right };
        assert!(FolderListing::decode(&sizes.encode(), 10).unwrap_err().contains("other sizes"));
    }

    proptest! {
        /// Any bytes are refused, or are what their listing is written as.
        #[test]
        fn noise_is_refused(noise in prop::collection::vec(any::<u8>(), 0..300), cut in 0usize..80) {
            let whole = [&MAGIC[..], &[0; 40], &noise].concat();
            if let Ok(listing) = FolderListing::decode(&whole, 100) {
                prop_assert_eq!(listing.encode(), whole);
            }
            let right = listing(vec![entry("a", file(3)), entry("b", link("a"))]).encode();
            let cut = cut.min(right.len() - 1);
            prop_assert!(FolderListing::decode(&right[..cut], 100).is_err());
        }
    }
}
