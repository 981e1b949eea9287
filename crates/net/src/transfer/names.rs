//! Names of files: given so that they take no other file's place, and so that they last.

use std::fs::File;
use std::io;
use std::path::Path;

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use crate::seam::{DiskOperation, Mutant, before, is_mutant};

/// Renames something to a name that nothing has.
pub(super) fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    before(DiskOperation::Rename, to)?;
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // Some file systems do not have it.
        Err(Errno::INVAL | Errno::NOSYS) if to.symlink_metadata().is_err() => std::fs::rename(from, to),
        renamed => Ok(renamed?),
    }
}

/// Makes the content that is to lie at `path` last.
pub(super) fn sync(file: &File, path: &Path) -> io::Result<()> {
    if is_mutant(Mutant::ContentIsNotSynced) {
        return Ok(());
    }
    before(DiskOperation::Sync, path)?;
    file.sync_all()
}

/// Makes the name of a new file last.
pub(super) fn sync_folder_of(path: &Path) -> io::Result<()> {
    if is_mutant(Mutant::NamesAreNotSynced) {
        return Ok(());
    }
    before(DiskOperation::SyncFolder, path)?;
    File::open(parent(path))?.sync_all()
}

/// The folder of the file at `path`.
pub(super) fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
