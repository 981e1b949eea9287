//! Where received contents go: a temporary file that takes its place at the end.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use super::announcement::{Announcement, Kind};

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
    pub(super) fn commit(self, kind: Kind) -> Result<Option<PathBuf>, (PathBuf, io::Error)> {
        let Self::Temporary { file, path } = self else { return Ok(None) };
        let committed = if kind == Kind::Directory {
            unpack(file, &path)
        } else {
            file.as_file().sync_all().and_then(|()| file.persist(&path).map(drop).map_err(|failed| failed.error))
        };
        match committed {
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
