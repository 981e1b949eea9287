//! The list of a file's missing parts, stored beside it.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use pliant_proto::packet::ByteRange;

use super::names::persist;
use super::output::{list_beside, temporary_beside};

/// Writes the list of missing parts of the file at `path`, which should have `bytes`. The list replaces an old one if
/// it `replaces`.
pub(super) fn write_list(path: &Path, missing: &[ByteRange], bytes: u64, replaces: bool) -> io::Result<()> {
    let list = list_beside(path);
    let mut file = temporary_beside(&list)?;
    let lost: u64 = missing.iter().map(|range| range.len()).sum();
    writeln!(file, "# {lost} bytes of {bytes} are missing: first byte, one past the last")?;
    missing.iter().try_for_each(|range| writeln!(file, "{} {}", range.start, range.end))?;
    file.as_file().sync_all()?;
    persist(file, &list, replaces)
}

/// The file at `path` is whole, so a list of an earlier transfer is removed.
pub(super) fn forget_list(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(list_beside(path)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// The same for a file that was put into its place, if there is one.
pub(super) fn committed_whole(path: Option<PathBuf>) -> Result<Option<PathBuf>, (PathBuf, io::Error)> {
    match path.as_deref().map(forget_list) {
        Some(Err(error)) => Err((path.unwrap_or_default(), error)),
        _ => Ok(path),
    }
}
