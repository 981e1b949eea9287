//! Where an interrupted transfer continues.
//!
//! A sender announces an identity of its content, under which the receiver keeps what arrives. If something is kept,
//! the receiver answers how many blocks. Each side then hashes these blocks of its own content, and the sender sends
//! its [hashes](Prefixes::hashes): of all of them, and of fewer and fewer, because the last ones written before a crash
//! may never have reached the disk. The receiver says how far both agree, and the sender continues after that.
//!
//! These messages are notices of the connection, which may be lost. The sender repeats its hashes until it gets an
//! answer.
//!
//! ```text
//!  byte  0            1..5
//!        4: hashes    blocks   first 16 bytes of the hash up to each of the points
//!        5: start     blocks
//! ```

use crate::seam;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::sync::{Arc, Weak};
use std::time::{SystemTime, UNIX_EPOCH};

/// Bytes of a block: a power of two, at whose multiples BLAKE3's tree has whole subtrees.
pub(super) const RESUME_BLOCK_BYTES: u64 = 2 << 20;

/// Most points at which hashes are compared.
const MAX_POINTS: usize = 8;
/// Bytes of a hash in a notice. If a transfer continues from a wrong point, its content does not have the right hash in
/// the end.
const SHORT_HASH_BYTES: usize = 16;
const HASHES: u8 = 4;
const START: u8 = 5;

type ShortHash = [u8; SHORT_HASH_BYTES];

/// The identity of a file, which distinguishes it from others with little doubt. The hashes decide.
pub(super) fn identity(path: &Path, name: &str, bytes: u64, modified: Option<SystemTime>) -> [u8; 32] {
    let modified = modified.and_then(|time| time.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
    let mut hasher = blake3::Hasher::new_derive_key("Pliant identity of a file that is sent");
    for part in [path.as_os_str().as_encoded_bytes(), name.as_bytes()] {
        hasher.update(&(part.len() as u64).to_be_bytes()).update(part);
    }
    hasher.update(&bytes.to_be_bytes()).update(&modified.as_nanos().to_be_bytes());
    hasher.finalize().into()
}

/// The name under which a receiver keeps what one peer sends with an identity.
pub(super) fn name_of(identity: &[u8; 32], peer: Option<&[u8; 32]>) -> blake3::Hash {
    let peer = peer.map_or(&[][..], |key| key);
    blake3::Hasher::new_derive_key("Pliant name of what is kept").update(identity).update(peer).finalize()
}

/// Blocks of `kept` bytes that need not be sent of a content of `size` bytes. Something is always sent.
pub(super) fn blocks_kept(kept: u64, size: u64) -> u32 {
    u32::try_from(kept.min(size.saturating_sub(1)) / RESUME_BLOCK_BYTES).unwrap_or(u32::MAX)
}

/// The numbers of blocks at which hashes are compared: all, all but one, two, four and so on.
fn points(blocks: u32) -> impl Iterator<Item = u32> {
    let less = std::iter::once(0).chain((0..MAX_POINTS as u32 - 1).map(|doubled| 1 << doubled));
    less.map_while(move |less| blocks.checked_sub(less).filter(|point| *point > 0))
}

/// A content whose first blocks have been hashed.
#[derive(Clone)]
pub(super) struct Prefix {
    pub(super) bytes: u64,
    pub(super) hasher: blake3::Hasher,
}

/// The first blocks of a file, with the hash up to each of the points.
pub(super) struct Prefixes {
    blocks: u32,
    /// From the longest to the shortest.
    at_points: Vec<Prefix>,
}

impl Prefixes {
    /// Reads and hashes the first `blocks` of a file. Ends early if nobody holds what `wanted` refers to.
    fn read(file: &File, blocks: u32, wanted: &Weak<()>) -> io::Result<Self> {
        let points: Vec<u32> = points(blocks).collect();
        let mut block = vec![0; RESUME_BLOCK_BYTES as usize];
        let (mut hasher, mut at_points) = (blake3::Hasher::new(), Vec::new());
        for number in 0..blocks {
            if wanted.strong_count() == 0 {
                return Err(io::ErrorKind::Interrupted.into());
            }
            file.read_exact_at(&mut block, u64::from(number) * RESUME_BLOCK_BYTES)?;
            hasher.update(&block);
            if points.contains(&(number + 1)) {
                let bytes = u64::from(number + 1) * RESUME_BLOCK_BYTES;
                at_points.insert(0, Prefix { bytes, hasher: hasher.clone() });
            }
        }
        Ok(Self { blocks, at_points })
    }

    /// The hashes for the notice.
    pub(super) fn hashes(&self) -> Hashes {
        let short = |prefix: &Prefix| -> ShortHash {
            *prefix.hasher.finalize().as_bytes().first_chunk().expect("a hash is longer")
        };
        Hashes { blocks: self.blocks, at_points: self.at_points.iter().map(short).collect() }
    }

    /// The longest prefix that both have.
    pub(super) fn common(&self, theirs: &Hashes) -> Option<Prefix> {
        if theirs.blocks != self.blocks {
            return None;
        }
        let own = self.hashes();
        let mut both = self.at_points.iter().zip(own.at_points.iter().zip(&theirs.at_points));
        both.find(|(_, (own, theirs))| own == theirs).map(|(prefix, _)| prefix.clone())
    }

    /// The prefix of this many blocks.
    pub(super) fn of(&self, blocks: u32) -> Option<Prefix> {
        self.at_points.iter().find(|prefix| prefix.bytes == u64::from(blocks) * RESUME_BLOCK_BYTES).cloned()
    }
}

/// First blocks that a thread hashes. It stops when this is dropped.
pub(super) struct Hashing {
    result: Receiver<io::Result<Prefixes>>,
    _wanted: Arc<()>,
}

impl Hashing {
    /// Begins to hash the first `blocks` of a file.
    pub(super) fn begin(file: File, blocks: u32) -> Self {
        let (done, result) = sync_channel(1);
        let wanted = Arc::new(());
        let still = Arc::downgrade(&wanted);
        std::thread::spawn(seam::task(move || {
            // Nobody listens if it is not wanted any more.
            let _ = done.send(Prefixes::read(&file, blocks, &still));
        }));
        Self { result, _wanted: wanted }
    }

    /// The result, once it is there.
    pub(super) fn poll(&self) -> Option<io::Result<Prefixes>> {
        match self.result.try_recv() {
            Ok(result) => Some(result),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(Err(io::Error::other("the file could not be hashed"))),
        }
    }
}

/// A sender's hashes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Hashes {
    blocks: u32,
    at_points: Vec<ShortHash>,
}

/// A notice of either side.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum ResumeNotice {
    /// The sender's hashes.
    Hashes(Hashes),
    /// The receiver already has this many blocks.
    Start(u32),
}

impl ResumeNotice {
    /// As bytes.
    pub(super) fn encode(&self) -> Vec<u8> {
        match self {
            Self::Hashes(Hashes { blocks, at_points }) => {
                [&[HASHES][..], &blocks.to_be_bytes(), at_points.as_flattened()].concat()
            }
            Self::Start(blocks) => [&[START][..], &blocks.to_be_bytes()].concat(),
        }
    }

    /// From bytes; `None` if they are another notice.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let (&kind, rest) = bytes.split_first()?;
        let (blocks, rest) = rest.split_first_chunk()?;
        let blocks = u32::from_be_bytes(*blocks);
        let (at_points, rest) = rest.as_chunks();
        match kind {
            HASHES if rest.is_empty() && at_points.len() == points(blocks).count() => {
                Some(Self::Hashes(Hashes { blocks, at_points: at_points.to_vec() }))
            }
            START if rest.is_empty() && at_points.is_empty() => Some(Self::Start(blocks)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use proptest::prelude::*;

    use super::*;

    const BLOCK: usize = RESUME_BLOCK_BYTES as usize;

    fn prefixes(content: &[u8], blocks: u32) -> Prefixes {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(content).unwrap();
        let hashing = Hashing::begin(file, blocks);
        loop {
            if let Some(result) = hashing.poll() {
                return result.unwrap();
            }
            std::thread::yield_now();
        }
    }

    #[test]
    fn points_grow_fewer() {
        let of = |blocks| points(blocks).collect::<Vec<_>>();
        assert_eq!(of(0), [0; 0]);
        assert_eq!(of(1), [1]);
        assert_eq!(of(5), [5, 4, 3, 1]);
        assert_eq!(of(1000), [1000, 999, 998, 996, 992, 984, 968, 936]);
        assert_eq!(blocks_kept(10 << 20, 10 << 20), 4, "some of it is always sent");
        assert_eq!(blocks_kept(10 << 20, (10 << 20) + 1), 5);
        assert_eq!(blocks_kept(0, 0), 0);
    }

    /// A receiver whose last blocks never reached the disk has what came before them.
    #[test]
    fn what_both_have_is_found() {
        let content: Vec<u8> = (0..6 * BLOCK as u32).map(|byte| (byte.wrapping_mul(byte) >> 7) as u8).collect();
        let sender = prefixes(&content, 6);
        for (damaged, start) in
            [(None, Some(6)), (Some(5), Some(5)), (Some(4), Some(4)), (Some(3), Some(2)), (Some(0), None)]
        {
            let mut kept = content.clone();
            if let Some(block) = damaged {
                kept[block * BLOCK + 7] ^= 1;
            }
            let common = prefixes(&kept, 6).common(&sender.hashes());
            assert_eq!(
                common.as_ref().map(|prefix| prefix.bytes),
                start.map(|blocks| blocks * RESUME_BLOCK_BYTES),
                "{damaged:?}"
            );
            if let (Some(mut common), Some(start)) = (common, start) {
                common.hasher.update(&content[start as usize * BLOCK..]);
                assert_eq!(common.hasher.finalize(), blake3::hash(&content), "it goes on");
                assert_eq!(
                    sender.of(start as u32).unwrap().hasher.finalize(),
                    blake3::hash(&content[..start as usize * BLOCK])
                );
            }
        }
        assert!(prefixes(&content, 5).common(&sender.hashes()).is_none(), "they speak of different blocks");
    }

    #[test]
    fn a_file_that_is_too_short_is_an_error() {
        assert!(Prefixes::read(&tempfile::tempfile().unwrap(), 1, &Arc::downgrade(&Arc::new(()))).is_err());
    }

    proptest! {
        #[test]
        fn notices_round_trip_and_nonsense_is_none(bytes in prop::collection::vec(any::<u8>(), 0..150), kind in 4u8..6) {
            let bytes = [&[kind][..], &bytes].concat();
            if let Some(notice) = ResumeNotice::decode(&bytes) {
                prop_assert_eq!(notice.encode(), bytes);
            }
        }

        #[test]
        fn hashes_fit_a_notice(blocks in 1u32.., byte: u8) {
            let at_points = vec![[byte; SHORT_HASH_BYTES]; points(blocks).count()];
            let notice = ResumeNotice::Hashes(Hashes { blocks, at_points });
            prop_assert!(notice.encode().len() <= crate::connection::MAX_NOTICE_BYTES);
            prop_assert_eq!(ResumeNotice::decode(&notice.encode()), Some(notice));
        }
    }
}
