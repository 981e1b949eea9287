//! The bytes behind a receiver of whole contents: window, hash, temporary file.

use std::fs::Permissions;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use pliant_proto::transport::Event;
use tempfile::NamedTempFile;

use super::partial::placed_whole;
use super::receive::Target;
use super::{Announcement, HASH_BYTES, Kind};

/// Bytes of the content hashed and written at once. A power of two, at whose multiples BLAKE3's tree has whole subtrees.
const PIECE_BYTES: u64 = 128 << 10;

/// A stream of content and hash.
pub(super) struct Whole {
    kind: Kind,
    /// The content's bytes, once they are known.
    size: Option<u64>,
    /// What arrived and is not taken yet: byte `n` lies at `n` modulo its length, so that no piece wraps.
    window: Box<[u8]>,
    /// The stream is complete up to here.
    delivered: u64,
    /// The stream is hashed and written up to here.
    taken: u64,
    output: Output,
    hasher: blake3::Hasher,
    /// What is wrong with it beside what the system says.
    pub(super) lie: Option<&'static str>,
}

/// Where content goes.
pub(super) enum Output {
    Discarded,
    Temporary { file: NamedTempFile, path: PathBuf },
}

impl Output {
    /// A temporary file beside where the content is to lie.
    pub(super) fn open(target: &Target, announcement: &Announcement) -> Result<Self, OutputError> {
        let Some(path) = path_in(target, announcement)? else { return Ok(Self::Discarded) };
        if announcement.kind == Kind::Directory && path.symlink_metadata().is_ok() {
            let error = io::Error::new(io::ErrorKind::AlreadyExists, "already there: a directory is not replaced");
            return Err(OutputError::File(path, error));
        }
        match temporary_beside(&path) {
            Ok(file) => Ok(Self::Temporary { file, path }),
            Err(error) => Err(OutputError::File(path, error)),
        }
    }

    pub(super) fn path(&self) -> Option<&Path> {
        match self {
            Self::Discarded => None,
            Self::Temporary { path, .. } => Some(path),
        }
    }

    /// Puts it into its place: on the disk before it takes the place of another.
    pub(super) fn place(self, kind: Kind) -> Result<Option<PathBuf>, (PathBuf, io::Error)> {
        let Self::Temporary { file, path } = self else { return Ok(None) };
        let placed = if kind == Kind::Directory {
            unpack(file, &path)
        } else {
            file.as_file().sync_all().and_then(|()| file.persist(&path).map(drop).map_err(|failed| failed.error))
        };
        match placed {
            Ok(()) => Ok(Some(path)),
            Err(error) => Err((path, error)),
        }
    }
}

/// Where content is to lie, if it is to be kept.
pub(super) fn path_in(target: &Target, announcement: &Announcement) -> Result<Option<PathBuf>, OutputError> {
    Ok(match target {
        _ if announcement.kind == Kind::Test => None,
        Target::Discard => None,
        Target::File(path) => Some(path.clone()),
        Target::Directory(directory) => Some(directory.join(plain_name(&announcement.name).ok_or(OutputError::Name)?)),
    })
}

/// Why nothing can be written.
pub(super) enum OutputError {
    /// The name leaves the directory.
    Name,
    /// The file cannot be made.
    File(PathBuf, io::Error),
}

/// Unpacks an archive into a temporary directory and gives it its name.
fn unpack(mut archive: NamedTempFile, path: &Path) -> io::Result<()> {
    use std::io::Seek;
    let directory = tempfile::Builder::new().permissions(Permissions::from_mode(0o777)).tempdir_in(parent(path))?;
    archive.as_file_mut().rewind()?;
    tar::Archive::new(archive.as_file()).unpack(directory.path())?;
    std::fs::rename(directory.path(), path)?;
    // It has another name now.
    let _ = directory.keep();
    Ok(())
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// A file that vanishes unless it is put into its place, with the permissions that any new file gets.
pub(super) fn temporary_beside(path: &Path) -> io::Result<NamedTempFile> {
    let created = tempfile::Builder::new()
        .prefix(".pliant-")
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(parent(path));
    // The error would name the temporary file, which means nothing to the user.
    created.map_err(|error| error.kind().into())
}

/// The name if it names a file in the directory itself, so that no sender writes elsewhere.
fn plain_name(name: &str) -> Option<&str> {
    let plain = !name.is_empty() && name != "." && name != ".." && !name.contains(['/', '\\', '\0']);
    plain.then_some(name)
}

impl Whole {
    /// A stream of which up to `receive_buffer` bytes may arrive ahead of the first byte missing.
    pub(super) fn new(announcement: &Announcement, output: Output, receive_buffer: u64) -> Self {
        // Beyond what the transport takes there is a piece that waits to be full, and the hash behind it.
        let window_bytes = receive_buffer.next_multiple_of(PIECE_BYTES) + 2 * PIECE_BYTES;
        Self {
            kind: announcement.kind,
            size: announcement.size,
            window: vec![0; window_bytes as usize].into(),
            delivered: 0,
            taken: 0,
            output,
            hasher: blake3::Hasher::new(),
            lie: None,
        }
    }

    /// Bytes of the content that are taken.
    pub(super) fn taken(&self) -> u64 {
        self.taken
    }

    pub(super) fn path(&self) -> Option<&Path> {
        self.output.path()
    }

    fn refuse(&mut self, why: &'static str) -> io::Error {
        self.lie = Some(why);
        io::Error::other(why)
    }

    /// Where the stream's byte `offset` lies in the window.
    fn position(&self, offset: u64) -> usize {
        (offset % self.window.len() as u64) as usize
    }

    /// Takes what was delivered: whole pieces, and the rest of the content once its end is known.
    fn take(&mut self) -> io::Result<()> {
        if self.size.is_some_and(|size| self.delivered > size + HASH_BYTES as u64) {
            return Err(self.refuse("it is longer than announced"));
        }
        loop {
            let end = match self.size {
                Some(size) => (self.taken + PIECE_BYTES).min(size),
                None => self.taken + PIECE_BYTES,
            };
            // The last bytes of a stream without a size are its hash.
            let ahead = if self.size.is_none() { HASH_BYTES as u64 } else { 0 };
            if end == self.taken || self.delivered < end + ahead {
                return Ok(());
            }
            let at = self.position(self.taken);
            let piece = &self.window[at..at + (end - self.taken) as usize];
            self.hasher.update(piece);
            if let Output::Temporary { file, .. } = &mut self.output {
                // Errors of the temporary file itself would name it, to the peer as well.
                file.as_file().write_all(piece)?;
            }
            self.taken = end;
        }
    }

    pub(super) fn write(&mut self, offset: u64, payload: &[u8]) {
        // The machine refuses what lies outside the window; so does the buffer, before it.
        let skip = self.delivered.saturating_sub(offset).min(payload.len() as u64);
        let (offset, payload) = (offset.saturating_add(skip), &payload[skip as usize..]);
        let last = self.taken + self.window.len() as u64;
        if payload.is_empty() || offset > last || last - offset < payload.len() as u64 {
            return;
        }
        let at = self.position(offset);
        let until_end = payload.len().min(self.window.len() - at);
        self.window[at..at + until_end].copy_from_slice(&payload[..until_end]);
        self.window[..payload.len() - until_end].copy_from_slice(&payload[until_end..]);
    }

    pub(super) fn event(&mut self, event: Event) -> io::Result<()> {
        match event {
            Event::Deliver(range) => {
                assert_eq!(range.start, self.delivered, "bytes are delivered in order");
                self.delivered = range.end;
                self.take()
            }
            Event::Received => {
                let content = self.delivered.checked_sub(HASH_BYTES as u64);
                let Some(content) = content.filter(|content| self.size.is_none_or(|size| size == *content)) else {
                    return Err(self.refuse("it is shorter than announced"));
                };
                self.size = Some(content);
                self.take()
            }
            _ => Ok(()),
        }
    }

    /// What it hashes to, and what it should; call it once it is received.
    pub(super) fn hashes(&self) -> (blake3::Hash, blake3::Hash) {
        let expected: [u8; HASH_BYTES] =
            std::array::from_fn(|byte| self.window[self.position(self.taken + byte as u64)]);
        (self.hasher.finalize(), expected.into())
    }

    pub(super) fn place(self) -> Result<Option<PathBuf>, (PathBuf, io::Error)> {
        self.output.place(self.kind).and_then(placed_whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_leave_the_directory_are_refused() {
        for (name, plain) in
            [("a.bin", true), ("..", false), ("../x", false), ("/etc/passwd", false), ("", false), ("a\0b", false)]
        {
            assert_eq!(plain_name(name).is_some(), plain, "{name:?}");
        }
    }
}
