//! The part of a file that has arrived, kept so that an interrupted transfer can continue.
//!
//! The file `.pliant-NAME.part` beside the target holds its blocks in order. NAME is 32 digits of the content's hash
//! (`fetch`), or of the sender's identity for it (`recv`). Nothing guarantees what is in it. A fetch hashes it block by
//! block and compares that with the content's hash tree, as it does with what sources send. A receiver compares it with
//! the sender's file.

use std::ffi::OsStr;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::num::NonZeroU64;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use blake3::hazmat::ChainingValue;
use rustix::fs::{Advice, FlockOperation, fadvise, flock};

use super::names::{parent, rename_new, sync, sync_folder_of};
use super::push::hash_tree::{BLOCK_BYTES, blocks_of, value_of};
use crate::clock::realtime_ns;
use crate::seam::{self, DiskOperation, before};

/// Digits of the hash in names.
const DIGITS: usize = 32;
/// Most parts of interrupted transfers in one folder.
const MAX_PARTS: usize = 64;
/// How long a part waits for its transfer.
const MAX_AGE: Duration = Duration::from_secs(7 * 24 * 3600);

/// Most bytes that one call writes. Calls of 2 MiB took six times the processor's time on a virtual machine, perhaps because the
/// kernel keeps what each of them writes in one large page.
const WRITE_BYTES: usize = 256 << 10;

/// Appends content to a file, in pieces.
pub(super) fn write_pieces(mut file: impl Write, content: &[u8]) -> io::Result<()> {
    content.chunks(WRITE_BYTES).try_for_each(|piece| file.write_all(piece))
}

/// Asks the system to begin writing a part of a file to the disk, so that little is left at the end. It promises
/// nothing.
fn begin_writeback(file: &File, offset: u64, bytes: usize) {
    // Linux writes what is to be forgotten, and forgets nothing that is not written.
    let _ = fadvise(file, offset, NonZeroU64::new(bytes as u64), Advice::DontNeed);
}

/// The blocks of a file so far. They stay unless the file is put into its place.
pub(super) struct Checkpoint {
    part: File,
    part_path: PathBuf,
    path: PathBuf,
    written: u64,
    committed: bool,
}

impl Checkpoint {
    /// Opens what is kept of the content with this hash beside `path`, nothing at first. `None` if another transfer
    /// uses it.
    pub(super) fn open(path: &Path, hash: &blake3::Hash) -> io::Result<Option<Self>> {
        let part_path = part_path(path, hash);
        before(DiskOperation::Create, path)?;
        // Nobody else's link is followed.
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).custom_flags(libc::O_NOFOLLOW);
        // The error would name the temporary file, which means nothing to the user.
        let part = options.open(&part_path).map_err(|error| io::Error::from(error.kind()))?;
        match flock(&part, FlockOperation::NonBlockingLockExclusive) {
            Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
            locked => locked?,
        }
        let metadata = part.metadata()?;
        if !metadata.is_file() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        if metadata.nlink() == 0 {
            // It was cleared away between the two.
            return Self::open(path, hash);
        }
        if metadata.len() == 0 {
            // A folder of many files takes a while, for which nobody waits.
            let folder = parent(path).to_owned();
            let now = UNIX_EPOCH + Duration::from_nanos(realtime_ns());
            std::thread::spawn(seam::task(move || clear_up(&folder, now)));
        }
        let path = path.to_owned();
        Ok(Some(Self { part, part_path, path, written: metadata.len(), committed: false }))
    }

    /// Bytes in the part.
    pub(super) fn written(&self) -> u64 {
        self.written
    }

    /// A second handle on the bytes, for reading.
    pub(super) fn part(&self) -> io::Result<File> {
        self.part.try_clone()
    }

    /// The bytes as a file without a name.
    pub(super) fn into_file(self) -> io::Result<File> {
        let part = self.part.try_clone();
        self.discard();
        part
    }

    /// Removes it, because nothing of it is worth keeping.
    pub(super) fn discard(mut self) {
        self.written = 0;
    }

    /// The final place of the file.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The chaining values of its whole blocks, for a file of `size` bytes.
    pub(super) fn values(&mut self, size: u64) -> io::Result<Vec<ChainingValue>> {
        self.part.rewind()?;
        let mut kept = (&self.part).take(size);
        let (mut values, mut content) = (Vec::new(), Vec::with_capacity(BLOCK_BYTES as usize));
        let mut end = 0;
        while kept.by_ref().take(BLOCK_BYTES.into()).read_to_end(&mut content)? > 0 {
            end += content.len() as u64;
            if content.len() < BLOCK_BYTES as usize && end < size {
                break;
            }
            values.push(value_of(blocks_of(size), values.len() as u64, &content));
            content.clear();
        }
        Ok(values)
    }

    /// Continues after the first `bytes`. The rest is cut off.
    pub(super) fn resume(&mut self, bytes: u64) -> io::Result<()> {
        self.part.set_len(bytes)?;
        self.part.seek(SeekFrom::Start(bytes))?;
        self.written = bytes;
        Ok(())
    }

    /// Appends content.
    pub(super) fn write(&mut self, content: &[u8]) -> io::Result<()> {
        before(DiskOperation::Write(content.len()), &self.path)?;
        write_pieces(&self.part, content)?;
        begin_writeback(&self.part, self.written, content.len());
        self.written += content.len() as u64;
        Ok(())
    }

    /// Skips this many unwanted bytes.
    pub(super) fn skip(&mut self, bytes: u64) -> io::Result<()> {
        self.resume(self.written + bytes)
    }

    /// Puts the file into its place. It is on the disk before it replaces another.
    pub(super) fn commit(mut self, replaces: bool) -> Result<PathBuf, (PathBuf, io::Error)> {
        let rename = || {
            if replaces {
                before(DiskOperation::Rename, &self.path)?;
                std::fs::rename(&self.part_path, &self.path)
            } else {
                rename_new(&self.part_path, &self.path)
            }
        };
        let synced = sync(&self.part, &self.path);
        let committed = synced.and_then(|()| rename()).and_then(|()| sync_folder_of(&self.path));
        if let Err(error) = committed {
            // All of it is there: it waits for the place.
            return Err((self.path.clone(), error));
        }
        self.committed = true;
        Ok(self.path.clone())
    }
}

impl Drop for Checkpoint {
    fn drop(&mut self) {
        if !self.committed && self.written == 0 {
            let _ = std::fs::remove_file(&self.part_path);
        }
    }
}

/// Removes parts in `folder` that nobody continues: those older than a week, and the oldest beyond the limit. Parts in
/// use stay.
fn clear_up(folder: &Path, now: SystemTime) {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let parts = entries.filter(|entry| is_part(&entry.file_name())).filter_map(|entry| {
        // Nobody's link.
        let metadata = entry.metadata().ok().filter(Metadata::is_file)?;
        Some((metadata.modified().ok()?, entry.path()))
    });
    let mut parts: Vec<_> = parts.collect();
    parts.sort_unstable();
    let beyond = parts.len().saturating_sub(MAX_PARTS);
    for (number, (modified, path)) in parts.into_iter().enumerate() {
        let age = now.duration_since(modified).unwrap_or_default();
        if number < beyond || age > MAX_AGE {
            remove_part(&path);
        }
    }
}

fn is_part(name: &OsStr) -> bool {
    let digits = name.to_str().and_then(|name| name.strip_prefix(".pliant-")?.strip_suffix(".part"));
    digits.is_some_and(|digits| digits.len() == DIGITS && digits.bytes().all(|digit| digit.is_ascii_hexdigit()))
}

/// Whether this is what an interrupted transfer has left, which none continues now.
pub fn is_left_part(path: &Path) -> bool {
    path.file_name().is_some_and(is_part) && lock_part(path).is_some()
}

/// Removes a part unless a transfer uses it. Whether it is gone.
pub fn remove_part(path: &Path) -> bool {
    // It is removed under the lock: who opens it now finds that it has no name.
    lock_part(path).is_some_and(|_locked| std::fs::remove_file(path).is_ok())
}

/// Opens a part that no transfer uses. None does as long as it is open.
fn lock_part(path: &Path) -> Option<File> {
    let opened = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path);
    opened.ok().filter(|part| flock(part, FlockOperation::NonBlockingLockExclusive).is_ok())
}

/// The path of the part for the content with this hash.
fn part_path(path: &Path, hash: &blake3::Hash) -> PathBuf {
    path.with_file_name(format!(".pliant-{}.part", &hash.to_hex()[..DIGITS]))
}

/// Bytes kept beside `path` of the content with this hash.
pub(super) fn kept_bytes(path: &Path, hash: &blake3::Hash) -> u64 {
    part_path(path, hash).symlink_metadata().map_or(0, |metadata| if metadata.is_file() { metadata.len() } else { 0 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BLOCK: usize = BLOCK_BYTES as usize;

    fn content() -> Vec<u8> {
        (0..3 * BLOCK as u32 + 500).map(|byte| (byte.wrapping_mul(byte) % 251) as u8).collect()
    }

    /// What is written in pieces is whole and in order, and no call writes as much as a large page of 2 MiB.
    #[test]
    fn no_call_fills_a_large_page() {
        struct Calls(Vec<Vec<u8>>);
        impl Write for Calls {
            fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
                self.0.push(piece.to_vec());
                Ok(piece.len())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut calls = Calls(Vec::new());
        write_pieces(&mut calls, &content()).unwrap();
        assert!(calls.0.iter().all(|piece| piece.len() <= BLOCK / 8));
        assert!(calls.0.concat() == content());
    }

    /// Writes blocks and drops it, as a fetch that is cut off.
    fn begin(path: &Path, content: &[u8], blocks: usize) {
        let mut kept = Checkpoint::open(path, &blake3::hash(content)).unwrap().unwrap();
        assert_eq!(kept.values(content.len() as u64).unwrap(), Vec::<ChainingValue>::new());
        for block in content.chunks(BLOCK).take(blocks) {
            kept.write(block).unwrap();
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

        /// However a fetch was cut off and whatever became of its file, the values are those of what is there, in whole
        /// blocks; what is damaged has another value. It goes on behind what is right, and nothing else is left.
        #[test]
        fn values_tell_what_is_right(
            blocks in 0usize..5, cut in prop::option::of(0usize..3 * BLOCK + 600), flip in prop::option::of(0usize..3 * BLOCK),
        ) {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("x");
            let content = content();
            begin(&path, &content, blocks);
            let part = directory.path().join(format!(".pliant-{}.part", &blake3::hash(&content).to_hex()[..DIGITS]));
            let mut there = std::fs::read(&part).unwrap_or_default();
            if blocks > 0 {
                there.truncate(cut.unwrap_or(there.len()));
                if let Some(byte) = flip.and_then(|at| there.get_mut(at)) {
                    *byte ^= 1;
                }
                std::fs::write(&part, &there).unwrap();
            }
            let right: Vec<_> = (0u64..).zip(content.chunks(BLOCK)).map(|(block, bytes)| value_of(4, block, bytes)).collect();
            let mut kept = Checkpoint::open(&path, &blake3::hash(&content)).unwrap().unwrap();
            let values = kept.values(content.len() as u64).unwrap();
            let whole = if there.len() == content.len() { 4 } else { there.len() / BLOCK };
            prop_assert_eq!(values.len(), whole);
            for (block, value) in values.iter().enumerate() {
                let is_right = there[block * BLOCK..].iter().zip(&content[block * BLOCK..]).take(BLOCK).all(|(a, b)| a == b);
                prop_assert_eq!(*value == right[block], is_right);
            }
            let resumed = values.iter().zip(&right).take_while(|(value, right)| value == right).count();
            kept.resume((resumed * BLOCK).min(content.len()) as u64).unwrap();
            for block in content.chunks(BLOCK).skip(resumed) {
                kept.write(block).unwrap();
            }
            kept.commit(true).unwrap();
            prop_assert!(std::fs::read(&path).unwrap() == content);
            prop_assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1, "nothing else is left");
        }
    }

    /// What nobody goes on with is removed, for its age or as there is too much of it, the oldest first; what is in use, and
    /// what has another name or is a link, stays.
    #[test]
    fn abandoned_parts_are_cleared_away() {
        let directory = tempfile::tempdir().unwrap();
        let (path, now) = (directory.path().join("x"), directory.path().metadata().unwrap().modified().unwrap());
        let part = |number: u64, age: u64| {
            let name = directory.path().join(format!(".pliant-{number:032x}.part"));
            let file = File::create(&name).unwrap();
            file.set_modified(now - Duration::from_secs(age)).unwrap();
            name
        };
        let week = MAX_AGE.as_secs();
        let [old, new] = [part(1, week + 1), part(2, week - 1)];
        let mut used = Checkpoint::open(&path, &blake3::hash(&[])).unwrap().unwrap();
        used.write(b"x").unwrap();
        let in_use = part_path(&path, &blake3::hash(&[]));
        used.part.set_modified(now - Duration::from_secs(2 * week)).unwrap();
        let other = directory.path().join(".pliant-of-somebody.part");
        std::fs::write(&other, "x").unwrap();
        File::options().write(true).open(&other).unwrap().set_modified(now - Duration::from_secs(2 * week)).unwrap();
        let link = directory.path().join(format!(".pliant-{:032x}.part", 3));
        std::os::unix::fs::symlink(&other, &link).unwrap();
        clear_up(directory.path(), now);
        assert_eq!(
            [&old, &new, &in_use, &other, &link].map(|path| path.symlink_metadata().is_ok()),
            [false, true, true, true, true]
        );
        let many: Vec<_> = (0..MAX_PARTS as u64).map(|number| part(100 + number, number)).collect();
        clear_up(directory.path(), now);
        let left = many.iter().filter(|path| path.exists()).count();
        // Those in use are the oldest, and count.
        assert!((MAX_PARTS - 1..=MAX_PARTS).contains(&left) && !new.exists() && in_use.exists(), "{left}");
        drop(used);
        // Whoever was about to open a part that is cleared away begins anew.
        assert!(Checkpoint::open(&path, &blake3::hash(&[])).unwrap().is_some());
    }

    /// Two at once do not write into one file; nothing is left of one that got nowhere, and what another has kept stays
    /// when it is only looked at.
    #[test]
    fn one_fetch_at_a_time_keeps() {
        let directory = tempfile::tempdir().unwrap();
        let (path, hash) = (directory.path().join("x"), blake3::hash(&content()));
        let files = || std::fs::read_dir(directory.path()).unwrap().count();
        let first = Checkpoint::open(&path, &hash).unwrap();
        assert!(first.is_some() && Checkpoint::open(&path, &hash).unwrap().is_none());
        drop(first);
        assert_eq!(files(), 0);
        begin(&path, &content(), 2);
        assert_eq!(files(), 1);
        drop(Checkpoint::open(&path, &hash).unwrap().unwrap());
        let mut kept = Checkpoint::open(&path, &hash).unwrap().unwrap();
        assert_eq!(kept.values(content().len() as u64).unwrap().len(), 2);
        kept.resume(0).unwrap();
        drop(kept);
        assert_eq!(files(), 0);
    }
}
