//! What can be sent.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

use super::announcement::Kind;
use super::error::TransferError;

/// Bytes that a reader hands over at once, and how many such pieces wait at most.
const PIECE_BYTES: usize = 64 << 10;
const PIECES: usize = 16;

/// Something to be sent.
#[derive(Debug)]
pub struct Source {
    pub(super) kind: Kind,
    pub(super) name: String,
    /// Named in errors.
    pub(super) path: PathBuf,
    pub(super) content: Content,
}

/// Where the bytes come from.
#[derive(Debug)]
pub(super) enum Content {
    /// A regular file, or a temporary archive of a directory.
    File { file: File, bytes: u64 },
    /// Pieces that a thread reads; an error ends them, and so does their end.
    Pieces(Receiver<io::Result<Vec<u8>>>),
    /// So many zeros.
    Zeros(u64),
    /// Zeros for so long.
    ZerosFor(Duration),
}

impl Source {
    /// The file or directory at `path`. A directory is packed into a temporary archive first, beside the system's other
    /// temporary files.
    pub fn open(path: &Path) -> Result<Self, TransferError> {
        let fail = |error| TransferError::File { path: path.into(), error };
        let file = File::open(path).map_err(fail)?;
        let metadata = file.metadata().map_err(fail)?;
        let name = || -> io::Result<String> {
            // `.` and `..` have no name of their own.
            let path = if path.file_name().is_some() { path.to_owned() } else { path.canonicalize()? };
            Ok(path.file_name().map_or_else(|| "file".into(), |name| name.to_string_lossy().into_owned()))
        };
        let name = name().map_err(fail)?;
        let (kind, content) = if metadata.is_dir() {
            let (file, bytes) = pack(path).map_err(fail)?;
            (Kind::Directory, Content::File { file, bytes })
        } else if metadata.is_file() {
            (Kind::File, Content::File { file, bytes: metadata.len() })
        } else {
            return Err(fail(io::Error::new(io::ErrorKind::InvalidInput, "neither a regular file nor a directory")));
        };
        Ok(Self { kind, name, path: path.into(), content })
    }

    /// What `reader` gives until it ends, under `name`.
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
        Self { kind: Kind::Stream, name: name.to_owned(), path: name.into(), content }
    }

    /// So many zeros, which the receiver does not keep.
    pub fn zeros(bytes: u64) -> Self {
        Self { kind: Kind::Test, name: "test".into(), path: "test".into(), content: Content::Zeros(bytes) }
    }

    /// Zeros for so long, which the receiver does not keep.
    pub fn zeros_for(time: Duration) -> Self {
        Self { kind: Kind::Test, name: "test".into(), path: "test".into(), content: Content::ZerosFor(time) }
    }

    /// Its bytes, if they are known.
    pub fn bytes(&self) -> Option<u64> {
        match self.content {
            Content::File { bytes, .. } | Content::Zeros(bytes) => Some(bytes),
            Content::Pieces(_) | Content::ZerosFor(_) => None,
        }
    }
}

/// An archive of a directory's contents. Symbolic links are packed as links.
fn pack(path: &Path) -> io::Result<(File, u64)> {
    let mut archive = tar::Builder::new(tempfile::tempfile()?);
    archive.follow_symlinks(false);
    archive.append_dir_all(".", path)?;
    let file = archive.into_inner()?;
    let bytes = file.metadata()?.len();
    Ok((file, bytes))
}
