//! Contents to send.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, SystemTime};

use super::announcement::Kind;
use super::directory::{FileHashes, Held, Unchanged, pack, skipped_in};
use super::error::TransferError;
use super::resume::identity;

/// Bytes that a reader gives at once, and most such pieces that wait.
const PIECE_BYTES: usize = 64 << 10;
const PIECES: usize = 16;

/// A content to send.
#[derive(Debug)]
pub struct Source {
    pub(super) kind: Kind,
    pub(super) name: String,
    /// Path in errors.
    pub(super) path: PathBuf,
    skipped: Vec<PathBuf>,
    pub(super) content: Content,
}

/// The origin of the bytes.
#[derive(Debug)]
pub(super) enum Content {
    /// A directory. It is packed once it is known what the receiver already has.
    Directory,
    /// A regular file, with its modification time, or a temporary archive of a directory.
    File { file: File, bytes: u64, modified: Option<SystemTime> },
    /// Pieces that a thread reads, until an error or the end.
    Pieces(Receiver<io::Result<Vec<u8>>>),
    /// This many zeros.
    Zeros(u64),
    /// Zeros for this long.
    ZerosFor(Duration),
}

impl Source {
    /// The file or directory at `path`. A directory is packed into a temporary archive before it is sent, beside the
    /// system's other temporary files.
    pub fn open(path: &Path) -> Result<Self, TransferError> {
        let fail = |error| TransferError::File { path: path.into(), error };
        let unsuitable = || fail(io::Error::new(io::ErrorKind::InvalidInput, "neither a regular file nor a directory"));
        let metadata = std::fs::metadata(path).map_err(fail)?;
        if !metadata.is_dir() && !metadata.is_file() {
            return Err(unsuitable());
        }
        let file = open(path).map_err(fail)?;
        let metadata = file.metadata().map_err(fail)?;
        let name = || -> io::Result<String> {
            // `.` and `..` have no name of their own.
            let path = if path.file_name().is_some() { path.to_owned() } else { path.canonicalize()? };
            Ok(path.file_name().map_or_else(|| "file".into(), |name| name.to_string_lossy().into_owned()))
        };
        let name = name().map_err(fail)?;
        let mut skipped = Vec::new();
        let (kind, content) = if metadata.is_dir() {
            skipped = skipped_in(path).map_err(fail)?;
            (Kind::Directory, Content::Directory)
        } else if metadata.is_file() {
            (Kind::File, Content::File { file, bytes: metadata.len(), modified: metadata.modified().ok() })
        } else {
            return Err(unsuitable());
        };
        Ok(Self { kind, name, path: path.into(), skipped, content })
    }

    /// The output of `reader` until its end, under `name`.
    pub fn stream(mut reader: impl Read + Send + 'static, name: &str) -> Self {
        let (pieces, receiver) = sync_channel(PIECES);
        // It ends with what it reads, or once nobody listens any more.
        std::thread::spawn(move || {
            loop {
                let mut piece = vec![0; PIECE_BYTES];
                let read = match reader.read(&mut piece) {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    read => read,
                };
                let done = !matches!(read, Ok(bytes) if bytes > 0);
                let piece = read.map(|bytes| {
                    piece.truncate(bytes);
                    piece
                });
                if pieces.send(piece).is_err() || done {
                    return;
                }
            }
        });
        let content = Content::Pieces(receiver);
        Self { kind: Kind::Stream, name: name.to_owned(), path: name.into(), skipped: Vec::new(), content }
    }

    /// This many zeros, which the receiver does not keep.
    pub fn zeros(bytes: u64) -> Self {
        Self::test(Content::Zeros(bytes))
    }

    /// Zeros for this long, which the receiver does not keep.
    pub fn zeros_for(time: Duration) -> Self {
        Self::test(Content::ZerosFor(time))
    }

    fn test(content: Content) -> Self {
        Self { kind: Kind::Test, name: "test".into(), path: "test".into(), skipped: Vec::new(), content }
    }

    /// What is not sent of a directory: sockets, FIFOs and devices.
    pub fn skipped(&self) -> &[PathBuf] {
        &self.skipped
    }

    /// One of which nothing was read.
    pub(super) fn unread(kind: Kind, name: String, path: PathBuf, content: Content) -> Self {
        Self { kind, name, path, skipped: Vec::new(), content }
    }

    /// The same again, unless it can be read only once.
    pub(super) fn again(&self) -> Option<Self> {
        let content = match &self.content {
            Content::File { file, bytes, modified } => {
                Content::File { file: file.try_clone().ok()?, bytes: *bytes, modified: *modified }
            }
            Content::Directory => Content::Directory,
            Content::Zeros(bytes) => Content::Zeros(*bytes),
            Content::ZerosFor(time) => Content::ZerosFor(*time),
            Content::Pieces(_) => return None,
        };
        Some(self.with(self.kind, content))
    }

    /// Its identity, if it can be read again.
    pub(super) fn identity(&self) -> Option<[u8; 32]> {
        let Content::File { bytes, modified, .. } = self.content else { return None };
        Some(identity(&self.path, &self.name, bytes, modified))
    }

    /// Its size in bytes, if known.
    pub fn bytes(&self) -> Option<u64> {
        match self.content {
            Content::File { bytes, .. } | Content::Zeros(bytes) => Some(bytes),
            Content::Directory | Content::Pieces(_) | Content::ZerosFor(_) => None,
        }
    }

    /// The archive of a directory without the `held` files, and these.
    pub(super) fn packed(&self, held: &Held, interrupted: &AtomicBool) -> Result<(Self, Unchanged), TransferError> {
        let packed = pack(&self.path, held, interrupted);
        let (file, bytes, unchanged) = packed.map_err(|error| self.failed(error, interrupted))?;
        Ok((self.with(self.kind, Content::File { file, bytes, modified: None }), unchanged))
    }

    /// The hashes of the files of a directory.
    pub(super) fn hashes(&self, interrupted: &AtomicBool) -> Result<FileHashes, TransferError> {
        FileHashes::read(&self.path, interrupted).map_err(|error| self.failed(error, interrupted))
    }

    /// The listing of these hashes, to be sent.
    pub(super) fn listing(&self, hashes: &FileHashes) -> Result<Self, TransferError> {
        let listing = hashes.listing().map_err(|error| TransferError::File { path: self.path.clone(), error })?;
        let (file, bytes) = listing;
        Ok(self.with(Kind::Listing, Content::File { file, bytes, modified: None }))
    }

    fn with(&self, kind: Kind, content: Content) -> Self {
        Self { kind, name: self.name.clone(), path: self.path.clone(), skipped: Vec::new(), content }
    }

    fn failed(&self, error: io::Error, interrupted: &AtomicBool) -> TransferError {
        if interrupted.load(Ordering::Relaxed) {
            return TransferError::Interrupted;
        }
        TransferError::File { path: self.path.clone(), error }
    }
}

/// Opens a file without waiting. A FIFO would wait for a writer.
fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)
}
