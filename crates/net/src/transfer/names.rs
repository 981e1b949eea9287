//! Durable names of files that replace no other file.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use tempfile::NamedTempFile;

use crate::seam::{DiskOperation, Mutant, before, is_mutant};

/// Renames a file to a name that does not exist.
pub(super) fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    before(DiskOperation::Rename, to)?;
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // Some file systems do not have it.
        Err(Errno::INVAL | Errno::NOSYS) if to.symlink_metadata().is_err() => std::fs::rename(from, to),
        renamed => Ok(renamed?),
    }
}

/// Exchanges the names of the directories `new` and `there`.
pub(super) fn exchange(new: &Path, there: &Path) -> io::Result<()> {
    before(DiskOperation::Rename, there)?;
    match renameat_with(CWD, new, CWD, there, RenameFlags::EXCHANGE) {
        // Some file systems do not have it.
        Err(Errno::INVAL | Errno::NOSYS) => {
            let mut aside = new.as_os_str().to_owned();
            aside.push(".old");
            let aside = PathBuf::from(aside);
            std::fs::rename(there, &aside)?;
            if let Err(error) = std::fs::rename(new, there) {
                let _ = std::fs::rename(&aside, there);
                return Err(error);
            }
            std::fs::rename(&aside, new)
        }
        exchanged => Ok(exchanged?),
    }
}

/// Gives a temporary file its name, durably.
pub(super) fn persist(file: NamedTempFile, path: &Path, replaces: bool) -> io::Result<()> {
    before(DiskOperation::Rename, path)?;
    let persisted = if replaces { file.persist(path) } else { file.persist_noclobber(path) };
    persisted.map_err(|failed| failed.error)?;
    sync_folder_of(path)
}

/// Makes the content for `path` durable.
pub(super) fn sync(file: &File, path: &Path) -> io::Result<()> {
    if is_mutant(Mutant::ContentIsNotSynced) {
        return Ok(());
    }
    before(DiskOperation::Sync, path)?;
    file.sync_all()
}

/// Makes the name of a new file durable.
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
