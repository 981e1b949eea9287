//! A receiver's note of a directory that a peer has sent: its files and their hashes, in the archive's order.
//!
//! ```text
//!  byte  0..8      8..16    16..48                                48..
//!        magic     files    twice: inode, time of birth (ns)      of each file: bytes of the path (2), path, hash (32)
//! ```
//!
//! It belongs to the directory that has the inode and the time of birth of one of the two: the one being replaced and
//! the one that replaces it. So it is valid whenever a crash comes.

use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use tempfile::NamedTempFile;

use super::super::names::{parent, persist};

const MAGIC: &[u8; 8] = b"pliant 1";
const HEADER_BYTES: usize = 48;
/// Digits of the hash in names.
const DIGITS: usize = 32;
const HASH_BYTES: usize = blake3::OUT_LEN;

/// The path of the note on what a peer has sent to `directory`, beside it.
pub(in super::super) fn index_path(directory: &Path, peer: Option<&[u8; 32]>) -> PathBuf {
    let name = directory.file_name().unwrap_or_default().as_encoded_bytes();
    let mut hasher = blake3::Hasher::new_derive_key("Pliant name of what a peer has sent of a directory");
    let hash = hasher.update(peer.map_or(&[][..], |key| key)).update(name).finalize();
    directory.with_file_name(format!(".pliant-{}.index", &hash.to_hex()[..DIGITS]))
}

/// What distinguishes a directory from others of its name.
pub(super) fn mark_of(directory: &Path) -> io::Result<[u64; 2]> {
    let metadata = directory.symlink_metadata()?;
    if !metadata.is_dir() {
        return Err(io::ErrorKind::NotADirectory.into());
    }
    // Some file systems do not know it.
    let born = metadata.created().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
    Ok([metadata.ino(), born.as_nanos() as u64])
}

/// A file that a peer has sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Entry {
    pub(super) path: PathBuf,
    pub(super) hash: blake3::Hash,
}

/// The files that a peer has sent, read one by one.
pub(in super::super) struct Index {
    directory: PathBuf,
    reader: BufReader<File>,
    files: u64,
    read: u64,
}

impl Index {
    /// The note at `path` about `directory`; `None` if there is none for this directory.
    pub(in super::super) fn open(directory: &Path, path: &Path) -> io::Result<Option<Self>> {
        let Ok(mark) = mark_of(directory) else { return Ok(None) };
        let opened = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path);
        let file = match opened {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            // The error would name the index, which means nothing to the user.
            opened => opened.map_err(|error| io::Error::from(error.kind()))?,
        };
        let mut header = [0; HEADER_BYTES];
        let mut reader = BufReader::new(file);
        if reader.read_exact(&mut header).is_err() || !header.starts_with(MAGIC) {
            return Ok(None);
        }
        let numbers: [u64; 5] = std::array::from_fn(|number| {
            let at = MAGIC.len() + 8 * number;
            u64::from_be_bytes(header[at..at + 8].try_into().expect("eight bytes"))
        });
        if numbers[1..3] != mark && numbers[3..5] != mark {
            return Ok(None);
        }
        Ok(Some(Self { directory: directory.to_owned(), reader, files: numbers[0], read: 0 }))
    }

    /// The directory.
    pub(in super::super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Number of files in the note.
    pub(in super::super) fn files(&self) -> u64 {
        self.files
    }

    /// The next file.
    pub(super) fn next(&mut self) -> io::Result<Option<Entry>> {
        if self.read == self.files {
            return Ok(None);
        }
        self.read += 1;
        let mut length = [0; 2];
        self.reader.read_exact(&mut length)?;
        let mut path = vec![0; u16::from_be_bytes(length).into()];
        self.reader.read_exact(&mut path)?;
        let mut hash = [0; HASH_BYTES];
        self.reader.read_exact(&mut hash)?;
        let path = PathBuf::from(std::ffi::OsString::from_vec(path));
        Ok(Some(Entry { path, hash: hash.into() }))
    }
}

/// An index being written.
pub(in super::super) struct IndexWriter {
    file: BufWriter<NamedTempFile>,
    path: PathBuf,
    files: u64,
}

impl IndexWriter {
    pub(super) fn new(path: &Path) -> io::Result<Self> {
        let file = tempfile::Builder::new().prefix(".pliant-").tempfile_in(parent(path));
        let mut file = BufWriter::new(file.map_err(|error| io::Error::from(error.kind()))?);
        file.write_all(&[0; HEADER_BYTES])?;
        Ok(Self { file, path: path.to_owned(), files: 0 })
    }

    pub(super) fn add(&mut self, path: &Path, hash: &blake3::Hash) -> io::Result<()> {
        let path = path.as_os_str().as_bytes();
        // No system opens such a path at once either; the file is sent again.
        let Ok(length) = u16::try_from(path.len()) else { return Ok(()) };
        self.file.write_all(&length.to_be_bytes())?;
        self.file.write_all(path)?;
        self.file.write_all(hash.as_bytes())?;
        self.files += 1;
        Ok(())
    }

    /// Makes it the index of `directory` from now on.
    pub(in super::super) fn finish_for(self, directory: &Path) -> io::Result<()> {
        let mark = mark_of(directory)?;
        self.finish([mark, mark])
    }

    /// Makes it the index of a directory with one of these marks.
    pub(super) fn finish(self, marks: [[u64; 2]; 2]) -> io::Result<()> {
        let file = self.file.into_inner().map_err(io::IntoInnerError::into_error)?;
        let numbers = [&[self.files][..], marks.as_flattened()].concat();
        let numbers = numbers.into_iter().flat_map(u64::to_be_bytes);
        let header: Vec<u8> = MAGIC.iter().copied().chain(numbers).collect();
        file.as_file().write_all_at(&header, 0)?;
        file.as_file().sync_all()?;
        persist(file, &self.path, true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What is noted is read; of another directory of the same name nothing is known.
    #[test]
    fn an_index_is_of_one_directory() {
        let directory = tempfile::tempdir().unwrap();
        let there = directory.path().join("tree");
        std::fs::create_dir(&there).unwrap();
        let path = index_path(&there, Some(&[1; 32]));
        assert!(path != index_path(&there, None) && path.parent() == there.parent());
        let write = |marks| {
            let mut writer = IndexWriter::new(&path).unwrap();
            writer.add(Path::new("a/b"), &blake3::hash(b"x")).unwrap();
            writer.finish(marks).unwrap();
        };
        let mark = mark_of(&there).unwrap();
        for marks in [[mark, [0; 2]], [[0; 2], mark]] {
            write(marks);
            let mut index = Index::open(&there, &path).unwrap().unwrap();
            assert_eq!(index.next().unwrap(), Some(Entry { path: "a/b".into(), hash: blake3::hash(b"x") }));
            assert_eq!(index.next().unwrap(), None);
        }
        write([[mark[0] + 1, mark[1]], [0; 2]]);
        assert!(Index::open(&there, &path).unwrap().is_none());
        write([mark, mark]);
        std::fs::remove_dir(&there).unwrap();
        std::fs::write(&there, "a file").unwrap();
        assert!(Index::open(&there, &path).unwrap().is_none());
    }

    proptest! {
        /// Any bytes in the place of an index are an end, with bounded memory.
        #[test]
        fn nonsense_ends(bytes in prop::collection::vec(any::<u8>(), 0..300), whole in any::<bool>()) {
            let directory = tempfile::tempdir().unwrap();
            let there = directory.path().join("tree");
            std::fs::create_dir(&there).unwrap();
            let mark = mark_of(&there).unwrap();
            let path = index_path(&there, None);
            let header: Vec<u8> =
                MAGIC.iter().copied().chain([u64::MAX, mark[0], mark[1], 0, 0].into_iter().flat_map(u64::to_be_bytes)).collect();
            std::fs::write(&path, if whole { [header, bytes].concat() } else { bytes }).unwrap();
            if let Some(mut index) = Index::open(&there, &path).unwrap() {
                while let Ok(Some(_)) = index.next() {}
            }
        }
    }
}
