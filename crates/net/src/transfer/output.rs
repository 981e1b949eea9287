//! Where received content goes: a temporary file that is moved into its place at the end.

use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use tempfile::NamedTempFile;

use super::announcement::{Announcement, Kind};
use super::checkpoint::{Checkpoint, write_pieces};
use super::directory::{Index, Unchanged, Unpacked, replace_tree, unpack};
use super::names::{parent, persist, rename_new, sync, sync_folder_of};
use super::settings::Limits;
use crate::seam::{DiskOperation, before};

/// Beginning of the names of temporary files.
const PREFIX: &str = ".pliant-";

/// The destination of received content.
#[derive(Clone, Debug)]
pub enum Target {
    /// Into this directory, under the sender's name.
    Directory(PathBuf),
    /// Into this file.
    File(PathBuf),
    /// Nowhere: received, hashed and forgotten.
    Discard,
}

impl Target {
    /// Whether content replaces an existing file: one that the user has named, or wants to `overwrite`.
    pub(super) fn replaces(&self, overwrite: bool) -> bool {
        overwrite || matches!(self, Self::File(_))
    }
}

/// Refuses a place that is taken.
pub(super) fn require_free(path: &Path) -> Result<(), OutputError> {
    match path.symlink_metadata() {
        Ok(_) => Err(already_there(path, "`--overwrite` replaces it")),
        Err(_) => Ok(()),
    }
}

fn already_there(path: &Path, why: &str) -> OutputError {
    let error = io::Error::new(io::ErrorKind::AlreadyExists, format!("already there: {why}"));
    OutputError::File(path.to_owned(), error)
}

/// An open destination.
pub(super) enum Output {
    Discarded,
    Temporary {
        file: NamedTempFile,
        path: PathBuf,
        /// It may replace another file.
        replaces: bool,
    },
    /// A file that stays after an interruption.
    Kept {
        checkpoint: Checkpoint,
        /// It may replace another file.
        replaces: bool,
    },
}

impl Output {
    /// Opens a temporary file beside the place of the content. A user who names a file means that file. A name chosen
    /// by the peer replaces no other file, unless the user wants to `overwrite`.
    ///
    /// With a `kept` name it opens what an interrupted transfer has left under it, unless another transfer uses that. A
    /// directory replaces another if its `index` says that the same peer has sent that one.
    pub(super) fn open(
        target: &Target,
        announcement: &Announcement,
        overwrite: bool,
        kept: Option<&blake3::Hash>,
        index: Option<&Path>,
    ) -> Result<Self, OutputError> {
        let Some(path) = path_in(target, announcement)? else { return Ok(Self::Discarded) };
        let replaces = target.replaces(overwrite);
        if announcement.kind == Kind::Directory && path.symlink_metadata().is_ok() {
            let Some(index) = index else {
                return Err(already_there(&path, "`--overwrite` replaces a directory that the same peer has sent"));
            };
            match Index::open(&path, index) {
                Ok(Some(_)) => {}
                Ok(None) => return Err(already_there(&path, "it is not a directory that this peer has sent")),
                Err(error) => return Err(OutputError::File(path, error)),
            }
        } else if !replaces && announcement.kind != Kind::Listing {
            require_free(&path)?;
            if announcement.partial {
                require_free(&list_beside(&path))?;
            }
        }
        if let Some(kept) = kept {
            match Checkpoint::open(&path, kept) {
                Ok(Some(checkpoint)) => return Ok(Self::Kept { checkpoint, replaces }),
                Ok(None) => {}
                Err(error) => return Err(OutputError::File(path, error)),
            }
        }
        match temporary_beside(&path) {
            Ok(file) => Ok(Self::Temporary { file, path, replaces }),
            Err(error) => Err(OutputError::File(path, error)),
        }
    }

    pub(super) fn path(&self) -> Option<&Path> {
        match self {
            Self::Discarded => None,
            Self::Temporary { path, .. } => Some(path),
            Self::Kept { checkpoint, .. } => Some(checkpoint.path()),
        }
    }

    /// Appends to a content that arrives in order.
    pub(super) fn write(&mut self, content: &[u8]) -> io::Result<()> {
        match self {
            Self::Discarded => Ok(()),
            // Errors of the temporary file itself would name it, to the peer as well.
            Self::Temporary { file, path, .. } => {
                before(DiskOperation::Write(content.len()), path)?;
                write_pieces(file.as_file(), content)
            }
            Self::Kept { checkpoint, .. } => checkpoint.write(content),
        }
    }

    /// Removes everything.
    pub(super) fn discard(self) {
        if let Self::Kept { checkpoint, .. } = self {
            checkpoint.discard();
        }
    }

    /// Whether it may replace another file.
    pub(super) fn replaces(&self) -> bool {
        matches!(self, Self::Temporary { replaces: true, .. } | Self::Kept { replaces: true, .. })
    }

    /// Puts a file into its place. It is on the disk before it replaces another, and its name afterwards.
    pub(super) fn commit(self) -> Result<Option<PathBuf>, (PathBuf, io::Error)> {
        match self {
            Self::Discarded => Ok(None),
            Self::Temporary { file, path, replaces } => {
                let synced = sync(file.as_file(), &path);
                let committed = synced.and_then(|()| persist(file, &path, replaces));
                told_of(path, committed)
            }
            Self::Kept { checkpoint, replaces } => checkpoint.commit(replaces).map(Some),
        }
    }

    /// Unpacks an archive into a temporary directory. Gives it its name once all of it is on the disk, and notes its
    /// files in `index`. Also returns what was not in the archive.
    pub(super) fn unpack(
        self,
        limits: &Limits,
        cancelled: &AtomicBool,
        index: Option<&Path>,
    ) -> Result<(Option<PathBuf>, Unchanged), (PathBuf, io::Error)> {
        // The archive loses its name at once: it need not reach the disk.
        let (path, archive) = match self {
            Self::Discarded => return Ok((None, Unchanged::default())),
            Self::Temporary { file, path, .. } => (path, Ok(file.into_file())),
            Self::Kept { checkpoint, .. } => (checkpoint.path().to_owned(), checkpoint.into_file()),
        };
        match archive.and_then(|archive| unpack_beside(archive, &path, limits, cancelled, index)) {
            Ok(unchanged) => Ok((Some(path), unchanged)),
            Err(error) => Err((path, error)),
        }
    }

    /// The listing of a directory, and its path; `None` if nothing is kept.
    pub(super) fn into_listing(self) -> Option<(File, PathBuf)> {
        match self {
            Self::Temporary { file, path, .. } => Some((file.into_file(), path)),
            Self::Discarded | Self::Kept { .. } => None,
        }
    }
}

fn told_of(path: PathBuf, result: io::Result<()>) -> Result<Option<PathBuf>, (PathBuf, io::Error)> {
    match result {
        Ok(()) => Ok(Some(path)),
        Err(error) => Err((path, error)),
    }
}

fn unpack_beside(
    archive: File,
    path: &Path,
    limits: &Limits,
    cancelled: &AtomicBool,
    index_path: Option<&Path>,
) -> io::Result<Unchanged> {
    let permissions = Permissions::from_mode(0o777);
    let directory = tempfile::Builder::new().prefix(PREFIX).permissions(permissions).tempdir_in(parent(path))?;
    let earlier = index_path.map(|index| Index::open(path, index)).transpose()?.flatten();
    let replaces = earlier.is_some();
    let Unpacked { unchanged, index } = unpack(&archive, directory.path(), limits, cancelled, earlier, index_path)?;
    drop(archive);
    // One call for all the files; each by itself would wait for the disk as often as there are files.
    before(DiskOperation::Sync, path)?;
    rustix::fs::syncfs(File::open(directory.path())?)?;
    if replaces {
        replace_tree(directory.path(), path, index)?;
        let _ = directory.keep();
        return Ok(unchanged);
    }
    rename_new(directory.path(), path)?;
    // It has another name now.
    let _ = directory.keep();
    sync_folder_of(path)?;
    if let Some(index) = index {
        // Without it the directory is not replaced, and is in its place all the same.
        let _ = index.finish_for(path);
    }
    Ok(unchanged)
}

/// The place of a content that is kept.
pub(super) fn path_in(target: &Target, announcement: &Announcement) -> Result<Option<PathBuf>, OutputError> {
    Ok(match target {
        _ if announcement.kind == Kind::Test => None,
        Target::Discard => None,
        Target::File(path) => Some(path.clone()),
        Target::Directory(directory) => Some(directory.join(plain_name(&announcement.name).ok_or(OutputError::Name)?)),
    })
}

/// Why there is no destination.
pub(super) enum OutputError {
    /// The name leaves the directory.
    Name,
    /// The file cannot be created.
    File(PathBuf, io::Error),
}

/// The path of the list of missing parts of the file at `path`.
pub(super) fn list_beside(path: &Path) -> PathBuf {
    path.with_file_name(format!("{}.missing", path.file_name().unwrap_or_default().to_string_lossy()))
}

/// A file that vanishes unless it is put into its place, with the permissions of a new file.
pub(super) fn temporary_beside(path: &Path) -> io::Result<NamedTempFile> {
    before(DiskOperation::Create, path)?;
    let created =
        tempfile::Builder::new().prefix(PREFIX).permissions(Permissions::from_mode(0o666)).tempfile_in(parent(path));
    // The error would name the temporary file, which means nothing to the user.
    created.map_err(|error| error.kind().into())
}

/// The name, if it names a file directly in the directory, so that no sender writes elsewhere.
pub(super) fn plain_name(name: &str) -> Option<&str> {
    let plain = !name.is_empty() && name != "." && name != ".." && !name.contains(['/', '\\', '\0']);
    plain.then_some(name)
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
