//! Files that appear whole or not at all, and those that a user names.

use std::fs;
use std::path::Path;

use pliant_sim::text_file;

use crate::error::CliError;

/// The text of a file that a user names.
pub(crate) fn read_text(path: &Path) -> Result<String, CliError> {
    text_file::read(path).map_err(|error| CliError::User(format!("{}: {error}", path.display())))
}

/// Writes a file whole, in place of what is there; several processes may, and the last one to finish stays.
pub(crate) fn write_atomically(path: &Path, content: &str) -> Result<(), CliError> {
    let fresh = path.with_extension(format!("new-{}", std::process::id()));
    let written = fs::create_dir_all(path.parent().unwrap_or(Path::new("")))
        .and_then(|()| fs::write(&fresh, content))
        .and_then(|()| fs::rename(&fresh, path));
    written.map_err(|error| {
        // What stopped the writing is the error to tell.
        let _ = fs::remove_file(&fresh);
        CliError::Machine(format!("cannot write {}: {error}", path.display()))
    })
}
