//! The offer of a source: many files, by name and hash. Some may still be incoming: their blocks are offered once
//! verified.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use atomic_refcell::AtomicRefCell;
use blake3::hazmat::ChainingValue;
use tokio::sync::watch;

use super::coding::Encoder;
use super::folder::{FOLDER_END, FolderContents, FolderFilter, KnownFolder, ReadFolder};
use super::hash_tree::{BLOCK_BYTES, HashTree, PageNumber, VerifiedPages, blocks_of};
use super::message::{FileSelector, MAX_NAME_BYTES, Offered};
use crate::entropy;
use crate::poll::PollWaker;
use crate::transfer::error::TransferError;
use crate::transfer::source::{self, Source};

/// Blocks whose intermediate symbols are kept: those that four receivers have open, at any positions.
const ENCODERS: usize = 16;
/// Most files of one offer.
const MAX_OBJECTS: usize = 1 << 16;

const TOO_MANY: &str = "more files than one offer has: 65536";

/// How a file's blocks are verified.
enum Tree {
    /// It was read as a whole.
    Whole(HashTree),
    /// What arrived was verified page by page.
    Pages(Arc<Mutex<VerifiedPages>>),
}

/// Where the bytes of a file are.
enum ContentPlace {
    File(File),
    /// In the contents of a folder, from here on.
    Folder(Arc<FolderContents>, u64),
}

/// A folder that is offered under a name, which ends with a slash. One folder may have many names, for parts of it.
#[derive(PartialEq, Eq)]
struct NamedFolder {
    root: PathBuf,
    name: String,
}

/// Its role in an offered folder.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FolderPart {
    /// The listing of the folder.
    Listing,
    /// The contents of all files of the folder.
    Contents,
    /// One of its files.
    File,
}

/// An offered file.
pub struct HeldFile {
    bytes: ContentPlace,
    /// The offered folder to which it belongs, and its role there.
    part_of: Option<(Arc<NamedFolder>, FolderPart)>,
    path: PathBuf,
    offered: Offered,
    tree: Tree,
    /// Its progress.
    there: watch::Sender<Coming>,
}

/// The progress of an incoming file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Coming {
    /// Complete blocks of 2 MiB, from the first on.
    pub blocks: u32,
    /// No more will arrive, whether or not the file is complete.
    pub over: bool,
}

impl HeldFile {
    fn open(path: &Path, name: Option<&str>) -> Result<Self, TransferError> {
        let source = Source::open(path)?;
        let fail = |error| TransferError::File { path: path.into(), error };
        let source::Content::File { mut file, .. } = source.content else {
            return Err(fail(io::Error::new(io::ErrorKind::InvalidInput, "neither a file nor a folder of files")));
        };
        let tree = HashTree::read(&mut file).map_err(fail)?;
        let name = name.map_or(source.name, str::to_owned);
        Ok(Self::whole(ContentPlace::File(file), None, path.into(), name, tree))
    }

    fn whole(
        bytes: ContentPlace,
        part_of: Option<(Arc<NamedFolder>, FolderPart)>,
        path: PathBuf,
        name: String,
        tree: HashTree,
    ) -> Self {
        let offered = Offered { bytes: tree.bytes(), hash: tree.root(), name };
        let there = watch::Sender::new(Coming { blocks: blocks_of(offered.bytes) as u32, over: true });
        Self { bytes, part_of, path, offered, tree: Tree::Whole(tree), there }
    }

    fn is_part(&self, part: FolderPart) -> bool {
        self.part_of.as_ref().is_some_and(|(_, own)| *own == part)
    }

    fn is_of_folder(&self, folder: &NamedFolder) -> bool {
        self.part_of.as_ref().is_some_and(|(own, _)| **own == *folder)
    }

    fn read_exact_at(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
        let read = match &self.bytes {
            ContentPlace::File(file) => file.read_exact_at(into, offset),
            ContentPlace::Folder(contents, start) => contents.read_exact_at(into, start + offset),
        };
        // The peer is told, too.
        read.map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => io::Error::new(error.kind(), "the file has become shorter"),
            _ => error,
        })
    }

    /// What it is.
    pub fn offered(&self) -> &Offered {
        &self.offered
    }

    /// Its path, now or later.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Complete blocks of 2 MiB, from the first on.
    pub fn there(&self) -> u32 {
        self.there.borrow().blocks
    }

    /// Reports whenever more is there, and once no more will arrive.
    pub fn follow(&self) -> watch::Receiver<Coming> {
        self.there.subscribe()
    }

    /// Available bytes, from the first on.
    pub fn bytes_there(&self) -> u64 {
        (u64::from(self.there()) * u64::from(BLOCK_BYTES)).min(self.offered.bytes)
    }

    /// Whether all of it is there.
    pub fn is_whole(&self) -> bool {
        self.bytes_there() == self.offered.bytes
    }

    /// Reads what is available at an offset, and returns how much that is.
    pub fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        let length = self.bytes_there().saturating_sub(offset).min(into.len() as u64) as usize;
        self.read_exact_at(&mut into[..length], offset)?;
        Ok(length)
    }

    pub(super) fn page(&self, page: PageNumber) -> Option<Vec<ChainingValue>> {
        match &self.tree {
            Tree::Whole(tree) => tree.page(page).map(<[ChainingValue]>::to_vec),
            Tree::Pages(pages) => pages.lock().unwrap_or_else(PoisonError::into_inner).get(&page).cloned(),
        }
    }

    /// Reads a block from its byte `offset` on. Bytes beyond its end are zero.
    pub(super) fn read(&self, block: u32, offset: u64, into: &mut [u8]) -> io::Result<()> {
        let start = u64::from(block) * u64::from(BLOCK_BYTES);
        let (offset, end) = (start + offset, self.offered.bytes.min(start + u64::from(BLOCK_BYTES)));
        let there = end.saturating_sub(offset).min(into.len() as u64) as usize;
        into[there..].fill(0);
        self.read_exact_at(&mut into[..there], offset)
    }
}

/// An incoming file, for receivers that fetch it from here once it is offered.
pub(super) struct Growing {
    files: OfferedFiles,
    file: Arc<HeldFile>,
}

impl Growing {
    /// Offers it from now on.
    pub(super) fn offer(&self) -> Result<(), TransferError> {
        let inserted = self.files.insert(self.file.clone());
        inserted.map_err(|error| TransferError::File { path: self.file.path.clone(), error })?;
        self.files.wake();
        Ok(())
    }

    /// This many of its blocks are there and verified.
    pub(super) fn grow(&self, there: u32) {
        self.file.there.send_replace(Coming { blocks: there, over: false });
        self.files.wake();
    }

    /// Where verified pages of its hash tree go.
    pub(super) fn pages(&self) -> Arc<Mutex<VerifiedPages>> {
        match &self.file.tree {
            Tree::Pages(pages) => pages.clone(),
            Tree::Whole(_) => unreachable!("it was begun in part"),
        }
    }
}

impl Drop for Growing {
    /// A file that will not become complete is no longer offered.
    fn drop(&mut self) {
        if !self.file.is_whole() {
            self.files.lock().files.retain(|file| !Arc::ptr_eq(file, &self.file));
        }
        self.file.there.send_modify(|coming| coming.over = true);
    }
}

/// How a folder was read for an offer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FolderReading {
    /// Bytes of files that were read.
    pub bytes: u64,
    /// Whether every change since shows in the times of its files. If not, it must be looked at again.
    pub is_settled: bool,
}

/// What is known of the folder at `root` of which these are the parts.
fn known<'k>(parts: &'k [Arc<HeldFile>], root: &Path) -> Option<KnownFolder<'k>> {
    let contents = parts.iter().find(|file| file.is_part(FolderPart::Contents))?;
    let (ContentPlace::Folder(places, _), Tree::Whole(tree)) = (&contents.bytes, &contents.tree) else { return None };
    let of_file = |file: &'k Arc<HeldFile>| match &file.tree {
        Tree::Whole(tree) => Some((file.path.strip_prefix(root).ok()?, tree)),
        Tree::Pages(_) => None,
    };
    let files = parts.iter().filter(|file| file.is_part(FolderPart::File)).filter_map(of_file).collect();
    Some(KnownFolder { contents: places, tree, files })
}

/// An offer. Copies share it.
#[derive(Clone, Default)]
pub struct OfferedFiles(Arc<Mutex<OfferState>>);

#[derive(Default)]
struct OfferState {
    files: Vec<Arc<HeldFile>>,
    /// Wakers of the servers.
    wakers: Vec<PollWaker>,
    /// A random number, drawn when it is first needed.
    who: Option<u64>,
}

impl OfferedFiles {
    /// An empty offer.
    pub fn new() -> Self {
        Self::default()
    }

    fn lock(&self) -> MutexGuard<'_, OfferState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self) {
        self.lock().wakers.iter().for_each(PollWaker::wake);
    }

    /// The random number of this offer among receivers of the same file.
    pub(super) fn who(&self) -> u64 {
        // Without randomness it is the first of every row, which costs time at the worst.
        let drawn = || u64::from_be_bytes(*entropy::seed().unwrap_or_default().first_chunk().expect("it has 32 bytes"));
        *self.lock().who.get_or_insert_with(drawn)
    }

    pub(super) fn add_waker(&self, waker: PollWaker) {
        self.lock().wakers.push(waker);
    }

    /// Adds the file at `path`, or the folder there with all its files. If two have one name, the first has it.
    pub fn add(&self, path: &Path) -> Result<(), TransferError> {
        if path.is_dir() { self.add_folder(path, &FolderFilter::default()).map(drop) } else { self.open(path, None) }
    }

    /// Adds the folder at `path` under its name and a slash, and each of its files that `filter` selects under its path
    /// in the folder. Leaves out names that begin with a dot, and what is in such folders. Reads each file once, for
    /// its hash. What was offered of the folder before is replaced, and only what has changed or moved is read.
    pub fn add_folder(&self, path: &Path, filter: &FolderFilter) -> Result<FolderReading, TransferError> {
        let fail = |error| TransferError::File { path: path.into(), error };
        let folder = if path.file_name().is_some() { path.to_owned() } else { path.canonicalize().map_err(fail)? };
        let Some(name) = folder.file_name().and_then(|name| name.to_str()) else {
            return Err(fail(io::Error::new(io::ErrorKind::InvalidInput, "its name is not UTF-8")));
        };
        self.replace_folder(NamedFolder { root: path.to_owned(), name: format!("{name}{FOLDER_END}") }, "", filter)
    }

    /// The same under another name than the folder's own. The name goes before the paths of its files, too, so that many
    /// folders can have files of one name.
    pub fn add_folder_named(
        &self,
        path: &Path,
        name: &str,
        filter: &FolderFilter,
    ) -> Result<FolderReading, TransferError> {
        let name = format!("{name}{FOLDER_END}");
        self.replace_folder(NamedFolder { root: path.to_owned(), name: name.clone() }, &name, filter)
    }

    /// Offers a folder, whose files have `before` in front of their paths.
    fn replace_folder(
        &self,
        folder: NamedFolder,
        before: &str,
        filter: &FolderFilter,
    ) -> Result<FolderReading, TransferError> {
        let folder = Arc::new(folder);
        let (path, name) = (folder.root.as_path(), folder.name.as_str());
        let fail = |error| TransferError::File { path: path.into(), error };
        let offered: Vec<_> = self.lock().files.iter().filter(|file| file.is_of_folder(&folder)).cloned().collect();
        let read = FolderContents::read(path, filter, known(&offered, path).as_ref()).map_err(fail)?;
        let reading = FolderReading { bytes: read.bytes, is_settled: read.is_settled() };
        let ReadFolder { listing, contents, tree, files, .. } = read;
        let mut file = tempfile::tempfile().map_err(fail)?;
        file.write_all(&listing).map_err(fail)?;
        let contents = Arc::new(contents);
        let part = |part| Some((folder.clone(), part));
        let mut parts: Vec<Arc<HeldFile>> = Vec::with_capacity(files.len() + 2);
        for (within, start, tree) in files {
            // What has another name is in the folder all the same.
            let name = within.to_str().map(|within| format!("{before}{within}"));
            let Some(name) = name.filter(|name| name.len() <= MAX_NAME_BYTES) else { continue };
            let bytes = ContentPlace::Folder(contents.clone(), start);
            parts.push(HeldFile::whole(bytes, part(FolderPart::File), path.join(within), name, tree).into());
        }
        let of_listing = HashTree::read(&listing[..]).map_err(fail)?;
        let bytes = ContentPlace::File(file);
        let own = part(FolderPart::Listing);
        parts.push(HeldFile::whole(bytes, own, path.join(".listing"), name.to_owned(), of_listing).into());
        let bytes = ContentPlace::Folder(contents, 0);
        let own = part(FolderPart::Contents);
        parts.push(HeldFile::whole(bytes, own, path.join(".contents"), name.to_owned(), tree).into());
        let mut state = self.lock();
        // All at once: nobody finds a part of one version beside a part of another.
        let others = state.files.iter().filter(|file| !file.is_of_folder(&folder)).count();
        if others + parts.len() > MAX_OBJECTS {
            return Err(fail(io::Error::other(TOO_MANY)));
        }
        state.files.retain(|file| !file.is_of_folder(&folder));
        state.files.extend(parts);
        Ok(reading)
    }

    /// Withdraws the folder at `path` that was added under a name. Connections that fetch something of it still have it.
    pub fn remove_folder(&self, path: &Path, name: &str) {
        let folder = NamedFolder { root: path.to_owned(), name: format!("{name}{FOLDER_END}") };
        self.lock().files.retain(|file| !file.is_of_folder(&folder));
    }

    /// Adds the file at `path` under another name than its own.
    pub fn add_named(&self, path: &Path, name: &str) -> Result<(), TransferError> {
        self.open(path, Some(name))
    }

    fn open(&self, path: &Path, name: Option<&str>) -> Result<(), TransferError> {
        let object = Arc::new(HeldFile::open(path, name)?);
        self.insert(object).map_err(|error| TransferError::File { path: path.into(), error })
    }

    /// Adds a file and removes the one with the same path.
    fn insert(&self, object: Arc<HeldFile>) -> io::Result<()> {
        let mut state = self.lock();
        let same = state.files.iter().position(|other| other.part_of.is_none() && other.path == object.path);
        match same {
            Some(at) => state.files[at] = object,
            None if state.files.len() == MAX_OBJECTS => return Err(io::Error::other(TOO_MANY)),
            None => state.files.push(object),
        }
        Ok(())
    }

    /// Keeps what `keeps` selects. Connections that fetch another file still have it.
    pub fn retain(&self, keeps: impl FnMut(&Arc<HeldFile>) -> bool) {
        self.lock().files.retain(keeps);
    }

    /// All of them, and what is in a folder.
    pub fn list(&self) -> Vec<Arc<HeldFile>> {
        self.lock().files.iter().filter(|file| !file.is_part(FolderPart::Contents)).cloned().collect()
    }

    /// The selected file, or why there is none.
    pub fn find(&self, file: &FileSelector) -> Result<Arc<HeldFile>, String> {
        let state = self.lock();
        let found = match file {
            FileSelector::Only => {
                let is_file =
                    |file: &&Arc<HeldFile>| file.part_of.as_ref().is_none_or(|(_, part)| *part == FolderPart::File);
                let files: Vec<_> = state.files.iter().filter(is_file).collect();
                match &files[..] {
                    [only] => Some(*only),
                    [] => return Err("it offers nothing yet".to_owned()),
                    files => return Err(format!("it offers {} files: say which by name or hash", files.len())),
                }
            }
            // A whole one, if there are both.
            FileSelector::Hash(hash) => {
                let mut same = state.files.iter().filter(|object| object.offered.hash == *hash);
                let first = same.clone().next();
                same.find(|object| object.is_whole()).or(first)
            }
            FileSelector::Name(name) => {
                let named = |file: &&Arc<HeldFile>| file.offered.name == *name && !file.is_part(FolderPart::Contents);
                state.files.iter().find(named).or_else(|| in_folder(&state.files, name))
            }
        };
        found.cloned().ok_or_else(|| match file {
            FileSelector::Hash(hash) => format!("it offers nothing with the hash {hash}"),
            FileSelector::Name(name) => format!("it offers no `{name}`"),
            FileSelector::Only => "it offers nothing".to_owned(),
        })
    }

    /// An incoming file, of which the blocks with these values are in `file`. It is not offered yet.
    pub(super) fn begin(&self, offered: Offered, path: &Path, file: File, pages: VerifiedPages, there: u32) -> Growing {
        let tree = Tree::Pages(Arc::new(Mutex::new(pages)));
        let there = watch::Sender::new(Coming { blocks: there, over: false });
        let (bytes, part_of) = (ContentPlace::File(file), None);
        let file = Arc::new(HeldFile { bytes, part_of, path: path.into(), offered, tree, there });
        Growing { files: self.clone(), file }
    }
}

/// The file whose name is that of an offered folder, with its slash, and then its path there.
fn in_folder<'f>(files: &'f [Arc<HeldFile>], name: &str) -> Option<&'f Arc<HeldFile>> {
    let listings = files.iter().filter(|file| file.is_part(FolderPart::Listing));
    listings.into_iter().find_map(|listing| {
        let within = name.strip_prefix(&listing.offered.name)?;
        let (folder, _) = listing.part_of.as_ref()?;
        files.iter().find(|file| {
            let path = || file.path.strip_prefix(&folder.root).ok()?.to_str();
            file.is_part(FolderPart::File) && file.is_of_folder(folder) && path() == Some(within)
        })
    })
}

/// A file's hash, bytes of a symbol, a block.
type EncoderKey = (blake3::Hash, u16, u32);

/// The intermediate symbols of few blocks, for all receivers of an offer together.
#[derive(Default)]
pub(super) struct Encoders(AtomicRefCell<VecDeque<(EncoderKey, Encoder)>>);

impl Encoders {
    /// Writes a repair symbol of a block that has `symbols` source symbols.
    pub(super) fn write(
        &self,
        object: &HeldFile,
        symbols: u32,
        (block, symbol): (u32, u32),
        into: &mut [u8],
    ) -> io::Result<()> {
        let bytes = into.len() as u16;
        let mut encoders = self.0.borrow_mut();
        let key = (object.offered.hash, bytes, block);
        if let Some((_, encoder)) = encoders.iter().find(|(known, _)| *known == key) {
            encoder.write(symbol, into);
            return Ok(());
        }
        let mut content = vec![0; symbols as usize * usize::from(bytes)];
        object.read(block, 0, &mut content)?;
        let encoder = Encoder::new(bytes, &content);
        encoder.write(symbol, into);
        if encoders.len() == ENCODERS {
            encoders.pop_front();
        }
        encoders.push_back((key, encoder));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Files are found by name and hash; what is hidden, or is a folder, is not offered; the only one needs no name.
    #[test]
    fn files_of_a_folder_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, content: &[u8]| std::fs::write(folder.path().join(name), content).unwrap();
        write("a", b"first");
        let objects = OfferedFiles::new();
        objects.add(folder.path()).unwrap();
        assert_eq!(objects.find(&FileSelector::Only).unwrap().offered().name, "a");
        write("b", b"second");
        write(".hidden", b"");
        std::fs::create_dir(folder.path().join("c")).unwrap();
        objects.add(folder.path()).unwrap();
        // And what is in the folder.
        assert_eq!(objects.list().len(), 3);
        let found = |file: &FileSelector| objects.find(file).map(|object| object.offered().name.clone());
        assert_eq!(found(&FileSelector::Only), Err("it offers 2 files: say which by name or hash".to_owned()));
        assert_eq!(found(&FileSelector::Hash(blake3::hash(b"second"))), Ok("b".to_owned()));
        assert_eq!(found(&FileSelector::Name("a".into())), Ok("a".to_owned()));
        for name in ["c", ".hidden", "../a", ""] {
            assert_eq!(found(&FileSelector::Name(name.into())), Err(format!("it offers no `{name}`")));
        }
        write("a", b"changed");
        objects.add(&folder.path().join("a")).unwrap();
        assert_eq!(found(&FileSelector::Hash(blake3::hash(b"changed"))), Ok("a".to_owned()));
        assert!(objects.add(&folder.path().join("nothing")).is_err());
        objects.remove_folder(folder.path(), folder.path().file_name().unwrap().to_str().unwrap());
        // It was added by itself, too.
        assert_eq!(found(&FileSelector::Only), Ok("a".to_owned()));
    }

    /// Many folders have files of one name under different ones; of a folder that is read again all parts are of the last
    /// time; a file is also found by the name of its folder and its path there.
    #[test]
    fn folders_have_names() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, content: &str| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        };
        let (one, two) = (folder.path().join("one"), folder.path().join("two"));
        write("one/sub/file", "1");
        write("one/other", "2");
        write("two/sub/file", "3");
        let files = OfferedFiles::new();
        let all = FolderFilter::default();
        let found = |files: &OfferedFiles, name: &str| {
            let file = files.find(&FileSelector::Name(name.to_owned())).ok()?;
            let mut content = [0; 1];
            file.read_at(0, &mut content).ok()?;
            Some(content[0])
        };
        files.add_folder_named(&one, "a", &all).unwrap();
        files.add_folder_named(&two, "b", &all).unwrap();
        for (name, expected) in
            [("a/sub/file", Some(b'1')), ("b/sub/file", Some(b'3')), ("sub/file", None), ("a/../two/sub/file", None)]
        {
            assert_eq!(found(&files, name), expected, "{name}");
        }
        let before = files.find(&FileSelector::Name("a/".into())).unwrap().offered().hash;
        std::fs::remove_file(one.join("other")).unwrap();
        write("one/sub/file", "4");
        files.add_folder_named(&one, "a", &all).unwrap();
        assert_eq!((found(&files, "a/other"), found(&files, "a/sub/file")), (None, Some(b'4')));
        assert_ne!(files.find(&FileSelector::Name("a/".into())).unwrap().offered().hash, before);
        let none = FolderFilter::new(&[], &["sub".to_owned()]).unwrap();
        files.add_folder_named(&one, "empty", &none).unwrap();
        assert_eq!((found(&files, "a/sub/file"), found(&files, "empty/sub/file")), (Some(b'4'), None));
        files.remove_folder(&one, "a");
        assert_eq!((found(&files, "a/sub/file"), files.list().len()), (None, 3));
        files.add_folder(&one, &all).unwrap();
        for name in ["sub/file", "one/sub/file"] {
            assert_eq!(found(&files, name), Some(b'4'), "{name}");
        }
    }

    /// What comes in is there as far as it is verified, and is gone if it will not become whole.
    #[test]
    fn what_comes_in_is_offered_as_far_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("part");
        std::fs::write(&path, vec![7; BLOCK_BYTES as usize + 5]).unwrap();
        let file = File::open(&path).unwrap();
        let content = std::fs::read(&path).unwrap();
        let offered = Offered { bytes: content.len() as u64, hash: blake3::hash(&content), name: "part".into() };
        let objects = OfferedFiles::new();
        let growing = objects.begin(offered.clone(), &path, file.try_clone().unwrap(), VerifiedPages::new(), 0);
        assert!(objects.list().is_empty(), "it is not offered yet");
        growing.offer().unwrap();
        let object = objects.find(&FileSelector::Hash(offered.hash)).unwrap();
        assert_eq!((object.there(), object.read_at(0, &mut [0; 8]).unwrap()), (0, 0));
        growing.grow(1);
        assert_eq!(object.read_at(u64::from(BLOCK_BYTES) - 3, &mut [0; 8]).unwrap(), 3);
        assert!(!object.is_whole() && !object.follow().borrow().over);
        drop(growing);
        assert!(object.follow().borrow().over);
        assert!(objects.list().is_empty());
        let growing = objects.begin(offered, &path, file, VerifiedPages::new(), 1);
        growing.offer().unwrap();
        growing.grow(2);
        drop(growing);
        assert!(objects.list()[0].is_whole());
    }
}
