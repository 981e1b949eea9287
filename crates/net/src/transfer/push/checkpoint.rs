//! What is kept of a file that is being fetched, so that a fetch that was cut off, however, goes on where it was.
//!
//! Beside the file's place lie `.pliant-HASH.part`, its blocks in order, and `.pliant-HASH.blocks`, which has for each
//! block its end (eight bytes, in network byte order) and the BLAKE3 hash of all up to there. HASH are 32 digits of the
//! content's. What is there is hashed before it is trusted: a machine that lost power may have kept one file and not the
//! other.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

/// Digits of the hash in names.
const DIGITS: usize = 32;
/// End and hash of a block.
const RECORD_BYTES: usize = 8 + blake3::OUT_LEN;

/// The blocks so far of a file, which stay unless the file is put into its place.
pub(super) struct Checkpoint {
    part: File,
    records: File,
    part_path: PathBuf,
    records_path: PathBuf,
    path: PathBuf,
    written: u64,
    committed: bool,
}

impl Checkpoint {
    /// What is kept of the content with this hash beside `path`; nothing at first. `None` if another fetch is at it.
    pub(super) fn open(path: &Path, hash: &blake3::Hash) -> io::Result<Option<Self>> {
        let name = |ending: &str| path.with_file_name(format!(".pliant-{}.{ending}", &hash.to_hex()[..DIGITS]));
        let (part_path, records_path) = (name("part"), name("blocks"));
        // Nobody else's link is followed.
        let open = |path: &Path| {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(true).truncate(false).custom_flags(libc::O_NOFOLLOW);
            options.open(path)
        };
        // The error would name the temporary file, which means nothing to the user.
        let part = open(&part_path).map_err(|error| io::Error::from(error.kind()))?;
        match flock(&part, FlockOperation::NonBlockingLockExclusive) {
            Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
            locked => locked?,
        }
        if !part.metadata()?.is_file() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let records = open(&records_path).map_err(|error| io::Error::from(error.kind()))?;
        let path = path.to_owned();
        Ok(Some(Self { part, records, part_path, records_path, path, written: 0, committed: false }))
    }

    /// Where the file is to lie.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Goes on behind the blocks of `block_bytes` that are there, of `size` bytes in all; gives how many bytes these have,
    /// and their hash so far. What is there beyond is cut off.
    pub(super) fn resume(&mut self, block_bytes: u64, size: u64) -> io::Result<(u64, blake3::Hasher)> {
        let (verified, mut hasher) = self.verified(size)?;
        let whole = if verified == size { size } else { verified - verified % block_bytes };
        if whole < verified {
            // Checkpoint in blocks of another size, none of which ends here.
            self.part.rewind()?;
            hasher = hash(&mut self.part, blake3::Hasher::new(), whole)?;
        }
        self.part.set_len(whole)?;
        self.part.seek(SeekFrom::Start(whole))?;
        self.records.set_len(0)?;
        self.records.rewind()?;
        self.written = whole;
        if whole > 0 {
            self.record(&hasher)?;
        }
        Ok((whole, hasher))
    }

    /// Up to where the records vouch for what is there, and the hash of that.
    fn verified(&mut self, size: u64) -> io::Result<(u64, blake3::Hasher)> {
        let there = self.part.metadata()?.len().min(size);
        let (mut verified, mut hasher) = (0, blake3::Hasher::new());
        let mut record = [0; RECORD_BYTES];
        while self.records.read_exact(&mut record).is_ok() {
            let (end, expected) = record.split_first_chunk().expect("a record has more than eight bytes");
            let end = u64::from_be_bytes(*end);
            if end <= verified || end > there {
                break;
            }
            let next = hash(&mut self.part, hasher.clone(), end - verified)?;
            if next.finalize().as_bytes() != expected {
                break;
            }
            (verified, hasher) = (end, next);
        }
        Ok((verified, hasher))
    }

    /// Keeps the next block; `hasher` has hashed all up to its end.
    pub(super) fn write(&mut self, block: &[u8], hasher: &blake3::Hasher) -> io::Result<()> {
        self.part.write_all(block)?;
        self.written += block.len() as u64;
        self.record(hasher)
    }

    fn record(&mut self, hasher: &blake3::Hasher) -> io::Result<()> {
        let mut record = [0; RECORD_BYTES];
        record[..8].copy_from_slice(&self.written.to_be_bytes());
        record[8..].copy_from_slice(hasher.finalize().as_bytes());
        self.records.write_all(&record)
    }

    /// Puts it into its place: on the disk before it takes the place of another.
    pub(super) fn commit(mut self) -> Result<PathBuf, (PathBuf, io::Error)> {
        let committed = self.part.sync_all().and_then(|()| std::fs::rename(&self.part_path, &self.path));
        if let Err(error) = committed {
            return Err((self.path.clone(), error));
        }
        self.committed = true;
        Ok(self.path.clone())
    }

    /// Forgets what is there: it is not what it should be.
    pub(super) fn discard(mut self) {
        self.written = 0;
    }
}

impl Drop for Checkpoint {
    fn drop(&mut self) {
        if self.committed || self.written == 0 {
            let _ = std::fs::remove_file(&self.records_path);
        }
        if !self.committed && self.written == 0 {
            let _ = std::fs::remove_file(&self.part_path);
        }
    }
}

/// Hashes so many bytes more.
fn hash(file: &mut File, mut hasher: blake3::Hasher, bytes: u64) -> io::Result<blake3::Hasher> {
    let end = hasher.count() + bytes;
    hasher.update_reader(file.take(bytes))?;
    if hasher.count() < end { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(hasher) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BLOCK: u64 = 1000;

    fn content() -> Vec<u8> {
        (0..10_500u32).map(|byte| (byte * byte % 251) as u8).collect()
    }

    /// Writes blocks and drops it, as a fetch that is cut off.
    fn begin(path: &Path, blocks: usize) {
        let (content, mut hasher) = (content(), blake3::Hasher::new());
        let mut kept = Checkpoint::open(path, &blake3::hash(&content)).unwrap().unwrap();
        assert_eq!(kept.resume(BLOCK, content.len() as u64).unwrap().0, 0);
        for block in content.chunks(BLOCK as usize).take(blocks) {
            hasher.update(block);
            kept.write(block, &hasher).unwrap();
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

        /// However a fetch was cut off and whatever became of its files, what is resumed is a start of the content, in
        /// whole blocks of the size that the new fetch has, as long as nothing before it was damaged; its hash goes on.
        #[test]
        fn what_is_resumed_is_a_start_of_the_content(
            blocks in 0usize..12, size in 1u64..3000, cut in prop::option::of((any::<bool>(), 0u64..11_000)),
            flip in prop::option::of(0usize..10_500),
        ) {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("x");
            let content = content();
            begin(&path, blocks);
            let name = |ending: &str| {
                let hash = blake3::hash(&content).to_hex();
                directory.path().join(format!(".pliant-{}.{ending}", &hash[..DIGITS]))
            };
            let mut sound = (blocks * 1000).min(content.len()) as u64;
            if blocks > 0 {
                if let Some((part, length)) = cut {
                    let file = OpenOptions::new().write(true).open(name(if part { "part" } else { "blocks" })).unwrap();
                    let length = length.min(file.metadata().unwrap().len());
                    file.set_len(length).unwrap();
                    let whole = if part { length / BLOCK * BLOCK } else { length / RECORD_BYTES as u64 * BLOCK };
                    sound = sound.min(if part && length == content.len() as u64 { length } else { whole });
                }
                let mut bytes = std::fs::read(name("part")).unwrap();
                if let Some(at) = flip.filter(|at| *at < bytes.len()) {
                    bytes[at] ^= 1;
                    std::fs::write(name("part"), bytes).unwrap();
                    sound = sound.min(at as u64 / BLOCK * BLOCK);
                }
            }
            let mut kept = Checkpoint::open(&path, &blake3::hash(&content)).unwrap().unwrap();
            let (resumed, mut hasher) = kept.resume(size, content.len() as u64).unwrap();
            let expected = if sound == content.len() as u64 { sound } else { sound / size * size };
            prop_assert_eq!(resumed, expected);
            for block in content[resumed as usize..].chunks(size as usize) {
                hasher.update(block);
                kept.write(block, &hasher).unwrap();
            }
            prop_assert_eq!(hasher.finalize(), blake3::hash(&content));
            kept.commit().unwrap();
            prop_assert_eq!(std::fs::read(&path).unwrap(), content);
            prop_assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1, "nothing else is left");
        }
    }

    /// Two at once do not write into one file; nothing is left of one that got nowhere, or of false content.
    #[test]
    fn one_fetch_at_a_time_keeps() {
        let directory = tempfile::tempdir().unwrap();
        let (path, hash) = (directory.path().join("x"), blake3::hash(b"x"));
        let first = Checkpoint::open(&path, &hash).unwrap();
        assert!(first.is_some() && Checkpoint::open(&path, &hash).unwrap().is_none());
        drop(first);
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
        begin(&path, 3);
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 2);
        Checkpoint::open(&path, &blake3::hash(&content())).unwrap().unwrap().discard();
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}
