//! `checksums.txt`: length and checksum of every file of a point of a sweep. A point whose files are not as they were written
//! is not taken for finished.
//!
//! The checksum is FNV-1a of 64 bits. Each of its steps is a bijection, so a change of one byte always shows; it is no defence
//! against a change on purpose.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use pliant_proto::rng::{FNV1A_BASIS, fnv1a_from};

use super::error::OutputError;
use super::files;
use super::folder::write_text;
use crate::text_file;

/// How much of a point's files is looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CheckDepth {
    /// That they are there with their lengths; no file but the list is read.
    Lengths,
    /// Their checksums, too.
    Content,
}

/// Writes the list of the files that are in `folder`; returns it.
pub(super) fn write_checksums(folder: &Path) -> Result<String, OutputError> {
    let mut text = String::new();
    for name in files::OF_A_RUN {
        let path = folder.join(name);
        if !path.exists() {
            continue;
        }
        let (bytes, checksum) = of_file(&path).map_err(OutputError::io("read", &path))?;
        text.push_str(&line(name, bytes, checksum));
    }
    write_text(&folder.join(files::CHECKSUMS), &text)?;
    Ok(text)
}

/// The line of a file.
fn line(name: &str, bytes: u64, checksum: u64) -> String {
    format!("{checksum:016x} {bytes} {name}\n")
}

/// Compares the files of a point with its `checksums.txt`.
///
/// # Errors
///
/// The first file that is missing, of another length or of another content, by name.
pub fn check_point(dir: &Path, depth: CheckDepth) -> Result<(), String> {
    let list = files::CHECKSUMS;
    let text = match text_file::read_short(&dir.join(list)) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(format!("it has no {list}")),
        Err(error) => return Err(format!("{list}: {error}")),
    };
    let mut seen = Vec::new();
    for entry in text.lines() {
        let (name, bytes, checksum) = parse(entry).ok_or_else(|| format!("{list} is damaged"))?;
        let path = dir.join(name);
        let found = fs::symlink_metadata(&path).map_err(|error| format!("{name}: {error}"))?;
        if !found.is_file() || found.len() != bytes {
            return Err(format!("{name} has {} bytes and was written with {bytes}", found.len()));
        }
        if depth == CheckDepth::Content {
            let found = of_file(&path).map_err(|error| format!("{name}: {error}"))?;
            if found != (bytes, checksum) {
                return Err(format!("{name} is not as it was written: its checksum differs"));
            }
        }
        seen.push(name);
    }
    match [files::SCENARIO, files::SUMMARY, files::FLOWS_PARQUET].into_iter().find(|name| !seen.contains(name)) {
        Some(name) => Err(format!("{list} lacks {name}")),
        None => Ok(()),
    }
}

/// The name, length and checksum of a line. A name is one of a run's files, so no other file is ever opened.
fn parse(entry: &str) -> Option<(&'static str, u64, u64)> {
    let (checksum, rest) = entry.split_once(' ')?;
    let (bytes, name) = rest.split_once(' ')?;
    let name = files::OF_A_RUN.into_iter().find(|known| *known == name)?;
    Some((name, bytes.parse().ok()?, u64::from_str_radix(checksum, 16).ok()?))
}

/// Length and checksum of a file, read in pieces.
fn of_file(path: &Path) -> io::Result<(u64, u64)> {
    let mut file = File::open(path)?;
    let (mut bytes, mut checksum, mut piece) = (0, FNV1A_BASIS, vec![0; 1 << 16]);
    loop {
        match file.read(&mut piece) {
            Ok(0) => return Ok((bytes, checksum)),
            Ok(count) => {
                bytes += count as u64;
                checksum = fnv1a_from(checksum, &piece[..count]);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
