//! The listing of a folder, for finding its files.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::ops::Bound;
use std::path::{Component, Path, PathBuf};

use super::listing::{FolderEntryKind, FolderListing, stays_inside};

/// Most links that are followed on the way to one file, as many as Linux follows.
const MAX_LINKS: usize = 40;
/// Most entries that are looked at for the files that follow one.
const MAX_SEARCHED: usize = 1024;

/// What is in a folder.
#[derive(Debug)]
pub struct FolderIndex {
    entries: BTreeMap<PathBuf, Indexed>,
}

#[derive(Debug)]
enum Indexed {
    Folder,
    File(FolderFile),
    Link { to: PathBuf },
}

/// A file of a folder.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FolderFile {
    /// BLAKE3 hash of its content.
    pub hash: blake3::Hash,
    /// Its bytes.
    pub bytes: u64,
    /// When it was last changed, in seconds since 1970.
    pub modified: i64,
}

/// What is at a path in a folder.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum InFolder<'i> {
    /// A file.
    File(FolderFile),
    /// A folder, with the names in it, and whether each is a folder.
    Folder(Vec<(&'i OsStr, bool)>),
}

impl FolderIndex {
    /// Reads a listing, with at most this many entries. Says which entry is wrong.
    pub fn read(listing: &[u8], max_entries: u64) -> Result<Self, String> {
        let listing = FolderListing::decode(listing, max_entries)?;
        let mut entries = BTreeMap::new();
        for entry in listing.entries {
            let indexed = match entry.kind {
                FolderEntryKind::Folder => Indexed::Folder,
                FolderEntryKind::File { modified, bytes, hash } => Indexed::File(FolderFile { hash, bytes, modified }),
                FolderEntryKind::Link { to } => Indexed::Link { to },
                FolderEntryKind::Same { first } => match entries.get(&first) {
                    Some(Indexed::File(file)) => Indexed::File(*file),
                    _ => return Err(format!("{}: another name of no file", entry.path.display())),
                },
            };
            entries.insert(entry.path, indexed);
        }
        Ok(Self { entries })
    }

    /// What is at this path, which may lead through links. None of them leads out of the folder.
    pub fn find(&self, path: &Path) -> Option<InFolder<'_>> {
        let path = self.resolve(path)?;
        match self.entries.get(&path) {
            Some(Indexed::File(file)) => Some(InFolder::File(*file)),
            _ if self.is_folder(&path) => Some(InFolder::Folder(self.names_in(&path))),
            _ => None,
        }
    }

    /// The files of the same folder whose names follow that of this path, in their order. Folders with many files between
    /// two of them end it.
    pub fn files_after<'i>(&'i self, path: &'i Path) -> impl Iterator<Item = (&'i Path, FolderFile)> {
        let folder = path.parent().unwrap_or(Path::new(""));
        let after = self.entries.range::<Path, _>((Bound::Excluded(path), Bound::Unbounded)).take(MAX_SEARCHED);
        after.take_while(move |(next, _)| next.starts_with(folder)).filter_map(move |(next, indexed)| match indexed {
            Indexed::File(file) if next.parent() == Some(folder) => Some((next.as_path(), *file)),
            _ => None,
        })
    }

    fn is_folder(&self, path: &Path) -> bool {
        path == Path::new("") || matches!(self.entries.get(path), Some(Indexed::Folder))
    }

    /// The path without links; `None` if one leads out, or there are too many.
    fn resolve(&self, path: &Path) -> Option<PathBuf> {
        let (mut there, mut links) = (PathBuf::new(), 0);
        let mut parts: Vec<PathBuf> = parts_of(path).rev().collect();
        while let Some(part) = parts.pop() {
            if part == Path::new("..") {
                if !there.pop() {
                    return None;
                }
                continue;
            }
            there.push(part);
            if let Some(Indexed::Link { to }) = self.entries.get(&there) {
                links += 1;
                if links > MAX_LINKS || !stays_inside(&there, to) {
                    return None;
                }
                there.pop();
                parts.extend(parts_of(to).rev());
            }
        }
        Some(there)
    }

    fn names_in(&self, folder: &Path) -> Vec<(&OsStr, bool)> {
        // Everything in a folder comes directly after it.
        let below = self.entries.range(folder.to_owned()..).take_while(|(path, _)| path.starts_with(folder));
        let mut names = Vec::new();
        for (path, _) in below.filter(|(path, _)| path.parent() == Some(folder)) {
            let is_folder = self.resolve(path).is_some_and(|to| self.is_folder(&to));
            names.extend(path.file_name().map(|name| (name, is_folder)));
        }
        names
    }
}

/// The names of a path, and `..`. An absolute path has none that is in a folder: it was refused.
fn parts_of(path: &Path) -> impl DoubleEndedIterator<Item = PathBuf> + '_ {
    path.components().filter(|part| *part != Component::CurDir).map(|part| PathBuf::from(part.as_os_str()))
}

#[cfg(test)]
mod tests {
    use super::super::listing::FolderEntry;
    use super::*;
    use proptest::prelude::*;

    fn index(entries: &[(&str, FolderEntryKind)]) -> FolderIndex {
        let entry =
            |(path, kind): &(&str, FolderEntryKind)| FolderEntry { path: path.into(), mode: 0o644, kind: kind.clone() };
        let listing = FolderListing { bytes: 7, hash: blake3::hash(b""), entries: entries.iter().map(entry).collect() };
        FolderIndex::read(&listing.encode(), 100).unwrap()
    }

    fn file(bytes: u64) -> FolderEntryKind {
        FolderEntryKind::File { modified: 5, bytes, hash: blake3::hash(&bytes.to_be_bytes()) }
    }

    fn link(to: &str) -> FolderEntryKind {
        FolderEntryKind::Link { to: to.into() }
    }

    /// Files are found by their paths, through links, and under other names; a circle of links, and what is not there, is not.
    #[test]
    fn files_of_a_folder_are_found() {
        let index = index(&[
            ("a", FolderEntryKind::Folder),
            ("a/file", file(7)),
            ("a/loop", link("loop")),
            ("a/up", link("../b")),
            ("a.txt", FolderEntryKind::Same { first: "a/file".into() }),
            ("b", link("a/./file")),
            ("c", link("a")),
        ]);
        let found = FolderFile { hash: blake3::hash(&7u64.to_be_bytes()), bytes: 7, modified: 5 };
        for path in ["a/file", "a.txt", "b", "a/up", "c/file", "c/up", "c/../a.txt"] {
            assert_eq!(index.find(Path::new(path)), Some(InFolder::File(found)), "{path}");
        }
        for path in ["a/loop", "a/none", "..", "../a", "a/../../a/file", "a/file/b", "/etc/passwd"] {
            assert_eq!(index.find(Path::new(path)), None, "{path}");
        }
        let after =
            |path: &str| index.files_after(Path::new(path)).map(|(path, _)| path.to_owned()).collect::<Vec<_>>();
        assert_eq!((after("a"), after("a/"), after("a.txt")), (vec!["a.txt".into()], vec!["a.txt".into()], Vec::new()));
        assert_eq!(
            (after("a/dir"), after("a/file"), after("")),
            (vec!["a/file".into()], Vec::new(), vec!["a.txt".into()])
        );
        let names = |path: &str| -> Vec<(String, bool)> {
            let Some(InFolder::Folder(names)) = index.find(Path::new(path)) else { panic!("{path} is a folder") };
            names.iter().map(|(name, is_folder)| (name.to_string_lossy().into_owned(), *is_folder)).collect()
        };
        let owned = |names: &[(&str, bool)]| -> Vec<(String, bool)> {
            names.iter().map(|(name, is_folder)| ((*name).to_owned(), *is_folder)).collect()
        };
        let in_a = owned(&[("file", false), ("loop", false), ("up", false)]);
        assert_eq!([names("a"), names("c")], [in_a.clone(), in_a]);
        assert_eq!(names(""), owned(&[("a", true), ("a.txt", false), ("b", false), ("c", true)]));
    }

    proptest! {
        /// Whatever links there are: every path is looked up in the end, and what is found is in the folder.
        #[test]
        fn every_search_ends(links in prop::collection::vec("[abc]|(\\.\\./)?[abc](/[abc])?|\\.", 3), path in "([abc]|\\.\\.)(/([abc]|\\.\\.)){0,4}") {
            let entries: Vec<(String, FolderEntryKind)> = ["a/a", "b", "c"].iter().zip(&links).map(|(name, to)| {
                let kind = if stays_inside(Path::new(name), Path::new(to)) { link(to) } else { file(0) };
                ((*name).to_owned(), kind)
            }).collect();
            let mut all = vec![("a", FolderEntryKind::Folder), ("a/b", file(7))];
            all.extend(entries.iter().map(|(name, kind)| (name.as_str(), kind.clone())));
            if let Some(InFolder::Folder(names)) = index(&all).find(Path::new(&path)) {
                prop_assert!(names.len() <= 3);
            }
        }
    }
}
