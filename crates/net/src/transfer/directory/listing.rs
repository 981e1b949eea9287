//! A sender's listing of a directory's files, and the answer.
//!
//! The listing is a sorted file of digests, one of the path and the content of each file. A bit for each says whether
//! the receiver has it. The bits are requested and answered page by page, in notices of the connection, which may be
//! lost:
//!
//! ```text
//!  byte  0          1..5    5..
//!        6: ask     page
//!        7: page    page    a bit for each of 1280 digests, the first in the lowest bit of the first byte
//! ```

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use pliant_proto::time::{Instant, Span};

use super::INTERRUPTED;
use super::beneath::{file_beneath, hash_of};
use super::index::Index;
use super::walk::{Walk, at};

/// Bytes of a digest.
pub(in super::super) const DIGEST_BYTES: usize = 16;
/// Digests read at once. The first of each group is kept in memory.
const GROUP: usize = 256;
/// Bytes of a page of bits.
const PAGE_BYTES: usize = 160;
/// Most pages that are requested and not answered at a time.
const MAX_ASKED: usize = 16;
/// When an unanswered page is requested again.
const ASK_INTERVAL: Span = Span::from_ms(250);

const ASK: u8 = 6;
const PAGE: u8 = 7;

type Digest = [u8; DIGEST_BYTES];

fn digest_of(path: &Path, hash: &blake3::Hash) -> Digest {
    let path = path.as_os_str().as_encoded_bytes();
    let mut hasher = blake3::Hasher::new_derive_key("Pliant digest of a file of a directory");
    let digest = hasher.update(hash.as_bytes()).update(path).finalize();
    *digest.as_bytes().first_chunk().expect("a hash is longer")
}

/// A file and its hash.
#[derive(Clone, Debug)]
pub(super) struct HashedFile {
    pub(super) hash: blake3::Hash,
    pub(super) bytes: u64,
    pub(super) modified: Option<SystemTime>,
}

/// The files of a sender's directory.
#[derive(Default)]
pub(in super::super) struct FileHashes {
    /// In the order of their digests.
    files: Vec<(Digest, PathBuf, HashedFile)>,
}

impl FileHashes {
    /// Reads all files of the directory at `root`.
    pub(in super::super) fn read(root: &Path, interrupted: &AtomicBool) -> io::Result<Self> {
        let mut files = Vec::new();
        for entry in Walk::new(root) {
            let (path, kind) = entry?;
            if !kind.is_file() {
                continue;
            }
            let hashed = hash(root, &path, interrupted).map_err(|error| at(&path, &error))?;
            files.push((digest_of(&path, &hashed.hash), path, hashed));
        }
        files.sort_unstable_by_key(|(digest, ..)| *digest);
        Ok(Self { files })
    }

    /// Bytes of all of them.
    pub(in super::super) fn bytes(&self) -> u64 {
        self.files.iter().map(|(.., file)| file.bytes).sum()
    }

    /// The listing, and its size.
    pub(in super::super) fn listing(&self) -> io::Result<(File, u64)> {
        let mut file = BufWriter::new(tempfile::tempfile()?);
        for (digest, ..) in &self.files {
            file.write_all(digest)?;
        }
        let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
        Ok((file, (self.files.len() * DIGEST_BYTES) as u64))
    }

    /// The files that the receiver has.
    pub(in super::super) fn held(self, bits: &[u8]) -> Held {
        let is_held = |number: usize| bits.get(number / 8).is_some_and(|byte| byte >> (number % 8) & 1 != 0);
        let files = self.files.into_iter().enumerate().filter(|(number, _)| is_held(*number));
        Held { files: files.map(|(_, (_, path, hashed))| (path, hashed)).collect() }
    }
}

fn hash(root: &Path, path: &Path, interrupted: &AtomicBool) -> io::Result<HashedFile> {
    let file = file_beneath(root, path)?;
    let metadata = file.metadata()?;
    let hash = hash_of(&file, |_| go_on(!interrupted.load(Ordering::Relaxed)))?;
    Ok(HashedFile { hash, bytes: metadata.len(), modified: metadata.modified().ok() })
}

fn go_on(wanted: bool) -> io::Result<()> {
    if wanted { Ok(()) } else { Err(io::Error::other(INTERRUPTED)) }
}

/// Files of a sender's directory that the receiver has.
#[derive(Debug, Default)]
pub(in super::super) struct Held {
    files: HashMap<PathBuf, HashedFile>,
}

impl Held {
    /// The file at `path` with its hash.
    pub(super) fn get(&self, path: &Path) -> Option<&HashedFile> {
        self.files.get(path)
    }
}

/// A sender's listing at its receiver.
struct Listing<'f> {
    file: &'f File,
    /// The first digest of each group.
    firsts: Vec<Digest>,
    digests: u64,
}

impl<'f> Listing<'f> {
    fn read(mut file: &'f File) -> io::Result<Self> {
        file.rewind()?;
        let (mut firsts, mut digests, mut last) = (Vec::new(), 0u64, None);
        let mut reader = io::BufReader::new(file);
        loop {
            let mut digest = [0; DIGEST_BYTES];
            match reader.read_exact(&mut digest) {
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => break,
                read => read?,
            }
            if last.is_some_and(|last| digest <= last) {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "the listing of the directory is not in order"));
            }
            last = Some(digest);
            if digests.is_multiple_of(GROUP as u64) {
                firsts.push(digest);
            }
            digests += 1;
        }
        Ok(Self { file, firsts, digests })
    }

    /// The number of this digest.
    fn find(&self, digest: &Digest) -> io::Result<Option<u64>> {
        let Some(group) = self.firsts.partition_point(|first| first <= digest).checked_sub(1) else { return Ok(None) };
        let start = (group * GROUP) as u64;
        let count = (self.digests - start).min(GROUP as u64) as usize;
        let mut bytes = [0; GROUP * DIGEST_BYTES];
        let bytes = &mut bytes[..count * DIGEST_BYTES];
        self.file.read_exact_at(bytes, start * DIGEST_BYTES as u64)?;
        let (digests, _) = bytes.as_chunks::<DIGEST_BYTES>();
        Ok(digests.binary_search(digest).ok().map(|number| start + number as u64))
    }
}

/// A bit for each digest of `listing`: whether it belongs to a file that is in `index` and still there.
pub(in super::super) fn compare(
    listing: &File,
    index: Option<Index>,
    is_wanted: impl Fn() -> bool,
) -> io::Result<Vec<u8>> {
    let listing = Listing::read(listing)?;
    let mut bits = vec![0; listing.digests.div_ceil(8) as usize];
    let Some(mut index) = index else { return Ok(bits) };
    let directory = index.directory().to_owned();
    while let Some(entry) = index.next()? {
        go_on(is_wanted())?;
        let Some(number) = listing.find(&digest_of(&entry.path, &entry.hash))? else { continue };
        // What cannot be read is not there.
        let Ok(file) = file_beneath(&directory, &entry.path) else { continue };
        match hash_of(&file, |_| go_on(is_wanted())) {
            Ok(hash) if hash == entry.hash => bits[(number / 8) as usize] |= 1 << (number % 8),
            _ => {}
        }
    }
    Ok(bits)
}

/// A notice about the bits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in super::super) enum HeldNotice {
    /// The sender wants a page.
    Ask(u32),
    /// A page.
    Page(u32, Vec<u8>),
}

impl HeldNotice {
    /// The page of these bits, if there is one.
    pub(in super::super) fn page_of(bits: &[u8], page: u32) -> Option<Self> {
        bits.chunks(PAGE_BYTES).nth(page as usize).map(|bytes| Self::Page(page, bytes.to_vec()))
    }

    /// As bytes.
    pub(in super::super) fn encode(&self) -> Vec<u8> {
        match self {
            Self::Ask(page) => [&[ASK][..], &page.to_be_bytes()].concat(),
            Self::Page(page, bits) => [&[PAGE][..], &page.to_be_bytes(), bits].concat(),
        }
    }

    /// From bytes; `None` if they are another notice.
    pub(in super::super) fn decode(bytes: &[u8]) -> Option<Self> {
        let (&kind, rest) = bytes.split_first()?;
        let (page, bits) = rest.split_first_chunk()?;
        let page = u32::from_be_bytes(*page);
        match kind {
            ASK if bits.is_empty() => Some(Self::Ask(page)),
            PAGE if (1..=PAGE_BYTES).contains(&bits.len()) => Some(Self::Page(page, bits.to_vec())),
            _ => None,
        }
    }
}

/// A sender asks for the bits.
pub(in super::super) struct PageRequests {
    bits: Vec<u8>,
    /// The first page that was never requested.
    next: u32,
    /// Pages that were requested and did not arrive, and when they are requested again.
    asked: BTreeMap<u32, Instant>,
}

impl PageRequests {
    /// For this many digests.
    pub(in super::super) fn new(digests: u64) -> Self {
        Self { bits: vec![0; digests.div_ceil(8) as usize], next: 0, asked: BTreeMap::new() }
    }

    /// All the bits, once they are there.
    pub(in super::super) fn take_all(&mut self) -> Option<Vec<u8>> {
        let all = self.asked.is_empty() && self.next as usize == self.bits.len().div_ceil(PAGE_BYTES);
        all.then(|| std::mem::take(&mut self.bits))
    }

    /// A page has arrived. Returns whether it is useful: it must have been requested, and have the right length.
    pub(in super::super) fn take(&mut self, page: u32, bits: &[u8]) -> bool {
        let Some(own) = self.bits.chunks_mut(PAGE_BYTES).nth(page as usize) else { return false };
        let useful = own.len() == bits.len() && self.asked.remove(&page).is_some();
        if useful {
            own.copy_from_slice(bits);
        }
        useful
    }

    /// The requests that are due.
    pub(in super::super) fn due(&mut self, now: Instant) -> Vec<HeldNotice> {
        let pages = self.bits.len().div_ceil(PAGE_BYTES);
        while self.asked.len() < MAX_ASKED && (self.next as usize) < pages {
            self.asked.insert(self.next, now);
            self.next += 1;
        }
        let due = self.asked.iter_mut().filter(|(_, at)| **at <= now);
        due.map(|(page, at)| {
            *at = now.after(ASK_INTERVAL);
            HeldNotice::Ask(*page)
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::index::{IndexWriter, index_path, mark_of};
    use super::*;
    use proptest::prelude::*;

    static NEVER: AtomicBool = AtomicBool::new(false);

    /// A receiver's directory with an index, of which `sent` are the files that came from a peer.
    fn index(there: &Path, sent: &[(&str, &str)]) -> PathBuf {
        let path = index_path(there, None);
        let mut writer = IndexWriter::new(&path).unwrap();
        for (name, content) in sent {
            writer.add(Path::new(name), &blake3::hash(content.as_bytes())).unwrap();
        }
        let mark = mark_of(there).unwrap();
        writer.finish([mark, mark]).unwrap();
        path
    }

    fn tree(directory: &Path, files: &[(&str, &str)]) {
        for (name, content) in files {
            let path = directory.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
    }

    /// A sender hears of what it has sent and what is there still, and of nothing else: not of files that others have put
    /// there, whatever it guesses.
    #[test]
    fn a_peer_hears_of_its_own_files_alone() {
        let directory = tempfile::tempdir().unwrap();
        let (here, there) = (directory.path().join("here"), directory.path().join("there"));
        tree(
            &here,
            &[("a/same", "1"), ("changed", "2"), ("moved", "3"), ("gone", "4"), ("secret", "guess"), ("new", "5")],
        );
        tree(&there, &[("a/same", "1"), ("changed", "other"), ("elsewhere", "3"), ("secret", "guess")]);
        let sent = [("a/same", "1"), ("changed", "2"), ("elsewhere", "3"), ("gone", "4")];
        let path = index(&there, &sent);
        let hashes = FileHashes::read(&here, &NEVER).unwrap();
        let (listing, bytes) = hashes.listing().unwrap();
        assert_eq!(bytes, 6 * 16);
        let bits = compare(&listing, Index::open(&there, &path).unwrap(), || true).unwrap();
        let held = hashes.held(&bits);
        assert_eq!(held.files.keys().collect::<Vec<_>>(), [Path::new("a/same")]);
        assert!(compare(&listing, Index::open(&there, &path).unwrap(), || false).is_err(), "it can be ended");
    }

    /// A listing that is not sorted is refused: nothing is looked up in it.
    #[test]
    fn a_listing_in_disorder_is_refused() {
        let mut listing = tempfile::tempfile().unwrap();
        listing.write_all(&[[7; 16], [7; 16]].concat()).unwrap();
        assert!(compare(&listing, None, || true).unwrap_err().to_string().contains("not in order"));
    }

    proptest! {
        /// Each digest is found where it is, in listings of any length, and no other is.
        #[test]
        fn digests_are_found(numbers in prop::collection::btree_set(any::<u32>(), 0..1500), other in any::<u32>()) {
            let digest = |number: &u32| -> Digest {
                std::array::from_fn(|byte| if byte < 4 { number.to_be_bytes()[byte] } else { 0 })
            };
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(numbers.iter().map(digest).collect::<Vec<_>>().as_flattened()).unwrap();
            let listing = Listing::read(&file).unwrap();
            for (at, number) in numbers.iter().enumerate().step_by(37) {
                prop_assert_eq!(listing.find(&digest(number)).unwrap(), Some(at as u64));
            }
            prop_assert_eq!(listing.find(&digest(&other)).unwrap().is_some(), numbers.contains(&other));
        }

        /// Pages that are lost, repeated or made up: in the end the bits are those of the receiver.
        #[test]
        fn bits_arrive_whatever_is_lost(digests in 0u64..40_000, fates in prop::collection::vec(0u8..4, 1..50)) {
            let bits: Vec<u8> = (0..digests.div_ceil(8)).map(|byte| (byte * byte % 251) as u8).collect();
            let mut requests = PageRequests::new(digests);
            let (mut now, mut fates) = (Instant::ZERO, fates.into_iter().chain(std::iter::repeat(0)));
            for _ in 0..500 {
                for notice in requests.due(now) {
                    let Some(HeldNotice::Ask(page)) = HeldNotice::decode(&notice.encode()) else { unreachable!() };
                    let answer = HeldNotice::page_of(&bits, page).unwrap();
                    prop_assert!(answer.encode().len() <= crate::connection::MAX_NOTICE_BYTES);
                    let Some(HeldNotice::Page(page, answer)) = HeldNotice::decode(&answer.encode()) else { unreachable!() };
                    match fates.next() {
                        Some(1) => {}
                        Some(2) => assert!(!requests.take(page, &answer[1..])),
                        Some(3) => {
                            requests.take(page, &answer);
                            requests.take(page, &vec![0; answer.len()]);
                            requests.take(u32::MAX, &answer);
                        }
                        _ => drop(requests.take(page, &answer)),
                    }
                }
                now = now.after(ASK_INTERVAL);
            }
            prop_assert_eq!(requests.take_all(), Some(bits));
        }

        /// Any bytes in the place of a notice are nothing, or what is said again by the same bytes.
        #[test]
        fn notices_round_trip(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Some(notice) = HeldNotice::decode(&bytes) {
                prop_assert_eq!(notice.encode(), bytes);
            }
        }
    }
}
