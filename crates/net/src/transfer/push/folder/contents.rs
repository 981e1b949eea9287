//! A folder at a source: its listing, and its files' contents, read in place.

use std::collections::HashMap;
use std::fs::{File, FileType};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use blake3::hazmat::ChainingValue;

use super::super::hash_tree::{BLOCK_BYTES, HashTree, TreeBuilder, blocks_of};
use super::FolderFilter;
use super::listing::{FolderEntry, FolderEntryKind, FolderListing, LEADS_OUT, fits, stays_inside};
use super::stamp::{FileStamp, FileState, state};
use crate::clock::realtime_ns;
use crate::transfer::directory::{Walk, at, file_beneath};

const BLOCK: u64 = BLOCK_BYTES as u64;
/// Bytes that are read at once.
const PIECE_BYTES: usize = 256 << 10;

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
            let FileStamp { state: (bytes, modified), changed, .. } = FileStamp::of(&metadata);
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
    stamp: FileStamp,
    /// Whether a change since it was read has another stamp.
    is_settled: bool,
}

/// A folder that was read.
pub(in super::super) struct ReadFolder {
    pub(in super::super) listing: Vec<u8>,
    pub(in super::super) contents: FolderContents,
    pub(in super::super) tree: HashTree,
    /// For each file: its path in the folder, where its contents begin, and its hash tree.
    pub(in super::super) files: Vec<(PathBuf, u64, HashTree)>,
    /// Bytes that were read for it.
    pub(in super::super) bytes: u64,
}

impl ReadFolder {
    /// Whether every change of a file since shows.
    pub(in super::super) fn is_settled(&self) -> bool {
        self.contents.files.iter().all(|file| file.is_settled)
    }
}

/// A folder as it was read before.
pub(in super::super) struct KnownFolder<'k> {
    pub(in super::super) contents: &'k FolderContents,
    pub(in super::super) tree: &'k HashTree,
    /// Hash trees of its files, by their paths in the folder.
    pub(in super::super) files: HashMap<&'k Path, &'k HashTree>,
}

impl KnownFolder<'_> {
    /// The files that need not be read for their own hashes, by path: where their contents began, and their trees.
    fn unchanged(&self) -> HashMap<&Path, (FileStamp, u64, &HashTree)> {
        let mut unchanged = HashMap::new();
        for file in self.contents.files.iter().filter(|file| file.is_settled) {
            if let Some(tree) = self.files.get(&*file.path) {
                unchanged.insert(file.path.as_path(), (file.stamp, file.at, *tree));
            }
        }
        unchanged
    }
}

/// A file that is to be read, where its contents begin, and its tree if it has not changed.
struct FoundFile<'k> {
    path: PathBuf,
    mode: u16,
    modified: i64,
    stamp: FileStamp,
    /// Whether a change since has another stamp.
    is_settled: bool,
    at: u64,
    known: Option<&'k HashTree>,
    /// Its contents have not moved either.
    stays: bool,
}

impl FolderContents {
    /// Reads the folder at `root`. Leaves out everything that is neither a file nor a folder nor a link, names that begin
    /// with a dot, and what the `filter` excludes. Fails if a file changes meanwhile.
    ///
    /// A file that is as it was when `before` was read is not read again for its own hash. Of the concatenated contents a
    /// block is not read in which nothing has changed or moved, because a value of BLAKE3's tree depends on its position.
    /// So the files are in the order of their last change: what is new or changed goes to the end, and moves nothing but
    /// what is newer than it was.
    pub(in super::super) fn read(
        root: &Path,
        filter: &FolderFilter,
        before: Option<&KnownFolder<'_>>,
    ) -> io::Result<ReadFolder> {
        Self::read_after(root, filter, before, 0)
    }

    /// The same so many nanoseconds later.
    fn read_after(
        root: &Path,
        filter: &FolderFilter,
        before: Option<&KnownFolder<'_>>,
        later_ns: u64,
    ) -> io::Result<ReadFolder> {
        let (mut folders, mut found, mut others) = (Vec::new(), Vec::new(), Vec::new());
        let mut firsts = HashMap::new();
        for entry in (Selected { walk: Walk::new(root), filter }) {
            let (path, kind) = entry?;
            let refuse = |why: &str| Err(at(&path, &io::Error::new(io::ErrorKind::InvalidData, why)));
            if !fits(&path) {
                return refuse("its path has more than 4096 bytes");
            }
            if kind.is_dir() {
                let mode = root.join(&path).symlink_metadata().map_err(|error| at(&path, &error))?.mode();
                folders.push(FolderEntry { path, mode: (mode & 0o777) as u16, kind: FolderEntryKind::Folder });
            } else if kind.is_symlink() {
                let to = root.join(&path).read_link().map_err(|error| at(&path, &error))?;
                if !stays_inside(&path, &to) || !fits(&to) {
                    return refuse(&format!("{LEADS_OUT}: `--exclude` leaves it out"));
                }
                others.push(FolderEntry { path, mode: 0o777, kind: FolderEntryKind::Link { to } });
            } else if kind.is_file() {
                let file = file_beneath(root, &path).map_err(|error| at(&path, &error))?;
                let now = realtime_ns() + later_ns;
                let metadata = file.metadata()?;
                let mode = (metadata.mode() & 0o777) as u16;
                if metadata.nlink() > 1
                    && let Some(first) = firsts.get(&(metadata.dev(), metadata.ino()))
                {
                    let kind = FolderEntryKind::Same { first: PathBuf::clone(first) };
                    others.push(FolderEntry { path, mode, kind });
                    continue;
                }
                firsts.insert((metadata.dev(), metadata.ino()), path.clone());
                let (modified, stamp) = (metadata.mtime(), FileStamp::of(&metadata));
                let is_settled = stamp.is_settled(now);
                found.push(FoundFile { path, mode, modified, stamp, is_settled, at: 0, known: None, stays: false });
            }
        }
        found.sort_unstable_by(|a: &FoundFile<'_>, b| (a.modified, &a.path).cmp(&(b.modified, &b.path)));
        let unchanged = before.map(KnownFolder::unchanged).unwrap_or_default();
        let mut total = 0;
        for file in &mut found {
            file.at = total;
            total += file.stamp.state.0;
            if let Some((_, at, tree)) = unchanged.get(&*file.path).filter(|(stamp, ..)| *stamp == file.stamp) {
                (file.known, file.stays) = (Some(*tree), *at == file.at);
            }
        }
        let stay = found.iter().all(|file| file.stays);
        let whole = before.map(|before| before.tree).filter(|tree| stay && tree.bytes() == total);
        let mut reading = Reading::new(root, total, before, &found);
        let (mut entries, mut files, mut trees) = (folders, Vec::new(), Vec::new());
        for file in found {
            let tree = match file.known {
                Some(known) if whole.is_some() => known.clone(),
                _ => reading.file(&file)?,
            };
            let FoundFile { path, mode, modified, stamp, is_settled, at, .. } = file;
            let (bytes, hash) = (tree.bytes(), tree.root());
            entries.push(FolderEntry {
                path: path.clone(),
                mode,
                kind: FolderEntryKind::File { modified, bytes, hash },
            });
            files.push(ContentFile { path: path.clone(), at, state: stamp.state, stamp, is_settled });
            trees.push((path, at, tree));
        }
        entries.extend(others);
        // With patterns of files to include, a folder without any is left out.
        let needed: std::collections::HashSet<PathBuf> = entries
            .iter()
            .filter(|entry| entry.kind != FolderEntryKind::Folder || filter.takes(&entry.path))
            .flat_map(|entry| entry.path.ancestors().map(Path::to_owned))
            .collect();
        entries.retain(|entry| needed.contains(&entry.path));
        let Reading { all, bytes, .. } = reading;
        let tree = whole.cloned().unwrap_or_else(|| all.finish());
        let listing = FolderListing { bytes: total, hash: tree.root(), entries }.encode();
        let contents = Self { root: root.to_owned(), files, last: Mutex::new(None) };
        Ok(ReadFolder { listing, contents, tree, files: trees, bytes })
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

/// Reads the files of a folder in order, as far as they must be.
struct Reading<'r> {
    root: &'r Path,
    total: u64,
    /// The values of blocks that need not be read.
    kept: Vec<Option<ChainingValue>>,
    all: TreeBuilder,
    piece: Vec<u8>,
    /// Bytes that were read.
    bytes: u64,
}

impl<'r> Reading<'r> {
    fn new(root: &'r Path, total: u64, before: Option<&KnownFolder<'_>>, files: &[FoundFile<'_>]) -> Self {
        let blocks = blocks_of(total);
        // The value of an only block is another, and so is that of a block with another end.
        let same_end = |block: u64, bytes: u64| (block + 1) * BLOCK <= total.min(bytes) || total == bytes;
        let value = |block| {
            let tree = before.map(|before| before.tree).filter(|tree| same_end(block, tree.bytes()))?;
            tree.value(block).filter(|_| blocks > 1)
        };
        let mut kept: Vec<Option<ChainingValue>> = (0..blocks).map(value).collect();
        for file in files.iter().filter(|file| !file.stays && file.stamp.state.0 > 0) {
            let last = (file.at + file.stamp.state.0 - 1) / BLOCK;
            kept[(file.at / BLOCK) as usize..=last as usize].fill(None);
        }
        Self { root, total, kept, all: TreeBuilder::new(), piece: vec![0; PIECE_BYTES], bytes: 0 }
    }

    /// Reads the next file, and gives its tree.
    fn file(&mut self, file: &FoundFile<'_>) -> io::Result<HashTree> {
        let (path, length) = (&file.path, file.stamp.state.0);
        let in_file = |error: io::Error| at(path, &error);
        let changed = || Err(in_file(io::Error::new(io::ErrorKind::InvalidData, CHANGED)));
        let (mut opened, mut tree) = (None, TreeBuilder::new());
        let (mut next, end) = (file.at, file.at + length);
        while next < end {
            let block = next / BLOCK;
            let block_end = ((block + 1) * BLOCK).min(self.total);
            if let Some(value) = self.kept[block as usize] {
                if block_end <= end {
                    self.all.take_block(value, block_end - block * BLOCK);
                }
                next = block_end.min(end);
                continue;
            }
            if opened.is_none() {
                let source = file_beneath(self.root, path).map_err(in_file)?;
                if FileStamp::of(&source.metadata()?) != file.stamp {
                    return changed();
                }
                opened = Some(source);
            }
            let source = opened.as_ref().expect("it is opened");
            let piece = (block_end.min(end) - next).min(PIECE_BYTES as u64) as usize;
            let read = source.read_at(&mut self.piece[..piece], next - file.at).map_err(in_file)?;
            if read == 0 {
                return changed();
            }
            self.bytes += read as u64;
            self.all.update(&self.piece[..read]);
            if file.known.is_none() {
                tree.update(&self.piece[..read]);
            }
            next += read as u64;
        }
        if let Some(source) = opened
            && FileStamp::of(&source.metadata()?) != file.stamp
        {
            return changed();
        }
        Ok(file.known.cloned().unwrap_or_else(|| tree.finish()))
    }
}

const CHANGED: &str = "it was changed since it was read";

#[cfg(test)]
mod tests {
    use std::fs::FileTimes;
    use std::time::{Duration, UNIX_EPOCH};

    use pliant_proto::rng::Stream;

    use super::*;

    const KB: usize = 1 << 10;
    const MB: usize = 1 << 20;

    /// A folder whose files have the times that its test gives them.
    struct Site(tempfile::TempDir);

    impl Site {
        fn new(files: &[(&str, usize)]) -> Self {
            let site = Self(tempfile::tempdir().unwrap());
            for (name, bytes) in files {
                site.write(name, *bytes, 1000);
            }
            site
        }

        fn root(&self) -> &Path {
            self.0.path()
        }

        /// Writes a file until that shows in the time of its inode, however seldom its clock ticks.
        fn write(&self, name: &str, bytes: usize, modified_s: u64) {
            let path = self.root().join(name);
            let before = path.metadata().ok().map(|metadata| FileStamp::of(&metadata).changed);
            let mut content: Vec<u8> =
                (0..bytes as u32).map(|byte| (byte.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
            if let Some(first) = content.first_mut() {
                *first = modified_s as u8;
            }
            loop {
                // In place: another inode would show by itself.
                let file = File::options().write(true).create(true).truncate(false).open(&path).unwrap();
                file.set_len(bytes as u64).unwrap();
                file.write_all_at(&content, 0).unwrap();
                file.set_times(FileTimes::new().set_modified(UNIX_EPOCH + Duration::from_secs(modified_s))).unwrap();
                if before != Some(FileStamp::of(&file.metadata().unwrap()).changed) {
                    return;
                }
            }
        }

        /// Reads the folder. `settled`: so long after all changes that none can be hidden.
        fn read(&self, before: Option<&ReadFolder>, settled: bool) -> ReadFolder {
            let known = before.map(|before| KnownFolder {
                contents: &before.contents,
                tree: &before.tree,
                files: before.files.iter().map(|(path, _, tree)| (path.as_path(), tree)).collect(),
            });
            let later_ns = if settled { 10_000_000_000 } else { 0 };
            FolderContents::read_after(self.root(), &FolderFilter::default(), known.as_ref(), later_ns).unwrap()
        }

        /// The concatenated contents, read at once.
        fn contents(&self, read: &ReadFolder) -> Vec<u8> {
            read.files.iter().flat_map(|(path, ..)| std::fs::read(self.root().join(path)).unwrap()).collect()
        }
    }

    /// What is known after a change of some files is what one finds who reads all of it.
    fn check(site: &Site, read: &ReadFolder) {
        let fresh = site.read(None, true);
        assert_eq!(read.listing, fresh.listing);
        assert_eq!(read.tree.root(), blake3::hash(&site.contents(read)));
        for block in 0..=blocks_of(read.tree.bytes()) {
            assert_eq!(read.tree.value(block), fresh.tree.value(block), "block {block}");
        }
        for ((path, at, tree), (_, fresh_at, fresh_tree)) in read.files.iter().zip(&fresh.files) {
            assert_eq!((at, tree.root()), (fresh_at, fresh_tree.root()), "{}", path.display());
        }
    }

    /// Of a folder that was read nothing is read that has not changed: of a new file its own bytes and those before it in its
    /// block; of one that was changed in place, with the same size and even with its old time, the blocks in which it lies; of
    /// one that grew also what is newer than it was, because that moves.
    #[test]
    fn only_what_has_changed_is_read() {
        let site = Site::new(&[("a", 3 * MB), ("b", 5 * MB), ("c", MB + 100)]);
        let first = site.read(None, true);
        assert_eq!(first.bytes, (9 * MB + 100) as u64);
        let same = site.read(Some(&first), true);
        assert_eq!(same.bytes, 0);
        check(&site, &same);

        site.write("aa", 10, 2000);
        let added = site.read(Some(&same), true);
        assert_eq!(added.bytes, (MB + 100 + 10) as u64, "the last block is read, which began at 8 MiB");
        check(&site, &added);

        let hash = added.tree.root();
        site.write("a", 3 * MB, 1000 + 256);
        File::options().write(true).open(site.root().join("a")).unwrap().write_all_at(b"!", 0).unwrap();
        let time = UNIX_EPOCH + Duration::from_secs(1000);
        File::open(site.root().join("a")).unwrap().set_modified(time).unwrap();
        let changed = site.read(Some(&added), true);
        assert_ne!(changed.tree.root(), hash, "it has the same size and the same time as before");
        assert_eq!(changed.bytes, 4 * MB as u64);
        check(&site, &changed);

        site.write("b", 5 * MB + 1, 3000);
        let grown = site.read(Some(&changed), true);
        assert_eq!(grown.bytes, (7 * MB + 111) as u64, "all behind the first block, which is that of `a` alone");
        check(&site, &grown);
        site.write("b", 5 * MB + 2, 4000);
        let again = site.read(Some(&grown), true);
        assert_eq!(again.bytes, (5 * MB + 2 + 110) as u64, "it is the last by now, and moves nothing");
        check(&site, &again);
    }

    /// A file that was changed a moment before it was read may be changed again, and look the same: it is read again.
    #[test]
    fn a_change_in_the_same_tick_is_found() {
        let site = Site::new(&[("a", 100 * KB)]);
        let first = site.read(None, false);
        assert!(!first.is_settled());
        let again = site.read(Some(&first), true);
        assert_eq!(again.bytes, 100 * KB as u64);
        assert!(again.is_settled());
        assert_eq!(site.read(Some(&again), true).bytes, 0);
    }

    /// Whatever changes, what is known is what is there.
    #[test]
    fn whatever_changes_is_found() {
        for seed in 0..6 {
            let mut random = Stream::named(seed, "folder");
            let names = ["a", "b", "c", "d", "e"];
            let site = Site::new(&names.map(|name| (name, random.below(3 << 20) as usize)));
            let mut known = site.read(None, true);
            for round in 1..5 {
                let name = names[random.below(5) as usize];
                let size = |random: &mut Stream| match random.below(3) {
                    0 => random.below(3 << 20) as usize,
                    1 => random.below(3) as usize * 2 * MB,
                    _ => site.root().join(name).metadata().map_or(0, |metadata| metadata.len() as usize),
                };
                match random.below(4) {
                    0 => drop(std::fs::remove_file(site.root().join(name))),
                    1 => {
                        let _ = std::fs::rename(site.root().join(name), site.root().join("moved"));
                    }
                    _ => {
                        let size = size(&mut random);
                        site.write(name, size, 1000 + random.below(3) + round);
                    }
                }
                known = site.read(Some(&known), true);
                check(&site, &known);
            }
        }
    }
}
