//! Output folders that appear whole or not at all.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process;

use super::error::OutputError;
use super::files::{COMPARISON, SUMMARY, VERDICTS};

/// Writes a folder at `target`: `fill` writes into a temporary folder beside it, which then takes its place. After an
/// error, which names `target` and no file that was never to be seen, nothing is left of it, and what stood at `target`
/// stands there still.
///
/// With `force` an output folder at `target` is replaced: it is moved aside, and removed once the new one is in place.
/// Between these two renames, which a crash could separate, it lies beside its place under a hidden name.
pub(super) fn write_whole(
    target: &Path,
    force: bool,
    fill: impl FnOnce(&Path) -> Result<(), OutputError>,
) -> Result<(), OutputError> {
    let asked = target;
    let target = resolve(target)?;
    let occupied = check_target(&target, force)?;
    let staged = Staged::create(&target).map_err(|error| error.about(&target, asked))?;
    let filled = fill(&staged.path).and_then(|()| sync(&staged.path));
    filled.map_err(|error| error.about(&staged.path, asked))?;
    let placed = if occupied { staged.replace(&target) } else { staged.rename_to(&target) };
    placed?;
    sync(parent(&target))
}

/// Whether an output folder can be written at `target`, asked before the work whose result it will hold. Nothing is left
/// behind.
///
/// # Errors
///
/// What [`write_run`](super::write_run) would refuse: an existing folder without `force`, one that Pliant has not
/// written, a place where no folder can be made.
pub fn check_folder(target: &Path, force: bool) -> Result<(), OutputError> {
    if target.file_name().is_none() {
        return Err(OutputError::NotAName(target.to_path_buf()));
    }
    let real = fs::canonicalize(target).unwrap_or_else(|_| target.to_path_buf());
    check_target(&real, force)?;
    let mut place = real.as_path();
    while !parent(place).exists() {
        place = parent(place);
    }
    Staged::create(place).map(drop).map_err(|error| error.about(parent(place), target))
}

/// The path without symbolic links, so that what is renamed is the folder and not a link to it.
fn resolve(target: &Path) -> Result<PathBuf, OutputError> {
    if target.file_name().is_none() {
        return Err(OutputError::NotAName(target.to_path_buf()));
    }
    if let Ok(path) = fs::canonicalize(target) {
        return Ok(path);
    }
    let parent = parent(target);
    fs::create_dir_all(parent).map_err(OutputError::io("create", parent))?;
    Ok(target.to_path_buf())
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Whether something stands at `target` that has to be moved away; an error if it may not be.
fn check_target(target: &Path, force: bool) -> Result<bool, OutputError> {
    if !target.exists() {
        return Ok(false);
    }
    if !target.is_dir() {
        return Err(OutputError::NotAFolder(target.to_path_buf()));
    }
    let empty = fs::read_dir(target).map_err(OutputError::io("read", target))?.next().is_none();
    if empty {
        return Ok(false);
    }
    let written_by_pliant = [SUMMARY, COMPARISON, VERDICTS].into_iter().any(|file| target.join(file).is_file());
    match (force, written_by_pliant) {
        (false, _) => Err(OutputError::Exists(target.to_path_buf())),
        (true, false) => Err(OutputError::NotAnOutput(target.to_path_buf())),
        (true, true) => Ok(true),
    }
}

/// A temporary folder, removed when dropped.
struct Staged {
    path: PathBuf,
}

impl Staged {
    fn create(target: &Path) -> Result<Self, OutputError> {
        let path = sibling(target, "new");
        fs::create_dir(&path).map_err(OutputError::io("create", target))?;
        Ok(Self { path })
    }

    /// Takes the place of `target`, which is free or an empty folder.
    fn rename_to(self, target: &Path) -> Result<(), OutputError> {
        fs::rename(&self.path, target).map_err(OutputError::io("write", target))
    }

    fn replace(self, target: &Path) -> Result<(), OutputError> {
        let old = sibling(target, "old");
        fs::rename(target, &old).map_err(OutputError::io("replace", target))?;
        if let Err(error) = self.rename_to(target) {
            fs::rename(&old, target).map_err(OutputError::io("put back", &old))?;
            return Err(error);
        }
        fs::remove_dir_all(&old).map_err(OutputError::io("remove", &old))
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        // Once renamed there is nothing to remove; and an error here must not hide the one that led here.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// A hidden name beside `target`, of this process alone.
fn sibling(target: &Path, role: &str) -> PathBuf {
    let name = target.file_name().expect("checked by resolve").to_string_lossy();
    target.with_file_name(format!(".{name}.{role}-{}", process::id()))
}

/// Makes the entries of folder `path` durable.
fn sync(path: &Path) -> Result<(), OutputError> {
    File::open(path).and_then(|folder| folder.sync_all()).map_err(OutputError::io("write", path))
}

/// Creates the file at `path`, lets `fill` write it and makes it durable.
pub(super) fn write_file(
    path: &Path,
    fill: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> Result<(), OutputError> {
    let write = || {
        let mut out = BufWriter::new(File::create(path)?);
        fill(&mut out)?;
        out.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()
    };
    write().map_err(OutputError::io("write", path))
}

/// The same with a text.
pub(super) fn write_text(path: &Path, text: &str) -> Result<(), OutputError> {
    write_file(path, |out| out.write_all(text.as_bytes()))
}
