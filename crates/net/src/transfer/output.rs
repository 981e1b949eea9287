//! Where received contents go: a temporary file that takes its place at the end.

use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use tempfile::NamedTempFile;

use super::announcement::{Announcement, Kind};
use super::settings::Limits;
use super::unpack::unpack;

/// How the names of temporary files begin.
const PREFIX: &str = ".pliant-";

/// Where received contents go.
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
    /// Whether content takes the place of a file that is there: of one that the user has named, or wants to `overwrite`.
    pub(super) fn replaces(&self, overwrite: bool) -> bool {
        overwrite || matches!(self, Self::File(_))
    }
}

/// Refuses a place that something has.
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

/// Where content goes.
pub(super) enum Output {
    Discarded,
    Temporary {
        file: NamedTempFile,
        path: PathBuf,
        /// It may take the place of another file.
        replaces: bool,
    },
}

impl Output {
    /// A temporary file beside where the content is to lie. The user who names a file means that file; a name that the
    /// peer has chosen takes no other file's place, unless the user wants to `overwrite`.
    pub(super) fn open(target: &Target, announcement: &Announcement, overwrite: bool) -> Result<Self, OutputError> {
        let Some(path) = path_in(target, announcement)? else { return Ok(Self::Discarded) };
        let replaces = target.replaces(overwrite);
        if announcement.kind == Kind::Directory && path.symlink_metadata().is_ok() {
            return Err(already_there(&path, "a directory is not replaced"));
        }
        if !replaces {
            require_free(&path)?;
            if announcement.partial {
                require_free(&list_beside(&path))?;
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
        }
    }

    /// Whether it may take the place of another file.
    pub(super) fn replaces(&self) -> bool {
        matches!(self, Self::Temporary { replaces: true, .. })
    }

    /// Puts a file into its place: it is on the disk before it takes the place of another, and its name after that.
    pub(super) fn commit(self) -> Result<Option<PathBuf>, (PathBuf, io::Error)> {
        let Self::Temporary { file, path, replaces } = self else { return Ok(None) };
        let committed = file.as_file().sync_all().and_then(|()| persist(file, &path, replaces));
        told_of(path, committed)
    }

    /// Unpacks an archive into a temporary directory and gives it its name, once all of it is on the disk.
    pub(super) fn unpack(
        self,
        limits: &Limits,
        cancelled: &AtomicBool,
    ) -> Result<Option<PathBuf>, (PathBuf, io::Error)> {
        let Self::Temporary { file, path, .. } = self else { return Ok(None) };
        let unpacked = unpack_beside(file, &path, limits, cancelled);
        told_of(path, unpacked)
    }
}

fn told_of(path: PathBuf, result: io::Result<()>) -> Result<Option<PathBuf>, (PathBuf, io::Error)> {
    match result {
        Ok(()) => Ok(Some(path)),
        Err(error) => Err((path, error)),
    }
}

/// Gives a temporary file its name, for good.
pub(super) fn persist(file: NamedTempFile, path: &Path, replaces: bool) -> io::Result<()> {
    let persisted = if replaces { file.persist(path) } else { file.persist_noclobber(path) };
    persisted.map_err(|failed| failed.error)?;
    sync_folder_of(path)
}

fn unpack_beside(archive: NamedTempFile, path: &Path, limits: &Limits, cancelled: &AtomicBool) -> io::Result<()> {
    let permissions = Permissions::from_mode(0o777);
    let directory = tempfile::Builder::new().prefix(PREFIX).permissions(permissions).tempdir_in(parent(path))?;
    unpack(archive.as_file(), directory.path(), limits, cancelled)?;
    // The archive need not reach the disk.
    drop(archive);
    // One call for all the files; each by itself would wait for the disk as often as there are files.
    rustix::fs::syncfs(File::open(directory.path())?)?;
    rename_new(directory.path(), path)?;
    // It has another name now.
    let _ = directory.keep();
    sync_folder_of(path)
}

/// Renames something to a name that nothing has.
pub(super) fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // Some file systems do not have it.
        Err(Errno::INVAL | Errno::NOSYS) if to.symlink_metadata().is_err() => std::fs::rename(from, to),
        renamed => Ok(renamed?),
    }
}

/// Makes the name of a new file last.
pub(super) fn sync_folder_of(path: &Path) -> io::Result<()> {
    File::open(parent(path))?.sync_all()
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

/// The list of what is missing of the file at `path`.
pub(super) fn list_beside(path: &Path) -> PathBuf {
    path.with_file_name(format!("{}.missing", path.file_name().unwrap_or_default().to_string_lossy()))
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// A file that vanishes unless it is put into its place, with the permissions that any new file gets.
pub(super) fn temporary_beside(path: &Path) -> io::Result<NamedTempFile> {
    let created =
        tempfile::Builder::new().prefix(PREFIX).permissions(Permissions::from_mode(0o666)).tempfile_in(parent(path));
    // The error would name the temporary file, which means nothing to the user.
    created.map_err(|error| error.kind().into())
}

/// The name if it names a file in the directory itself, so that no sender writes elsewhere.
fn plain_name(name: &str) -> Option<&str> {
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
