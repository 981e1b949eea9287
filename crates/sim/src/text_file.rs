//! Text files that a user names. Beyond a size they are taken for a mistake: a device or a capture must not fill memory.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Largest list of a folder's files.
const MOST_SHORT_BYTES: u64 = 1 << 20;
/// Largest scenario, plan, experiment, distribution or list of cables.
const MOST_BYTES: u64 = 64 << 20;
/// Largest table of records.
const MOST_TABLE_BYTES: u64 = 1 << 30;

/// Opens a file of which no more than 64 MiB can be read: then reading fails and says so.
pub fn open(path: &Path) -> io::Result<impl Read + use<>> {
    bounded(path, MOST_BYTES)
}

/// The text of a file of up to 1 MiB.
pub fn read_short(path: &Path) -> io::Result<String> {
    io::read_to_string(bounded(path, MOST_SHORT_BYTES)?)
}

/// The text of a file of up to 64 MiB.
pub fn read(path: &Path) -> io::Result<String> {
    io::read_to_string(bounded(path, MOST_BYTES)?)
}

/// The text of a table of up to 1 GiB.
pub fn read_table(path: &Path) -> io::Result<String> {
    io::read_to_string(bounded(path, MOST_TABLE_BYTES)?)
}

fn bounded(path: &Path, most: u64) -> io::Result<Bounded<File>> {
    File::open(path).map(|file| Bounded { inner: file, most, left: most })
}

struct Bounded<R> {
    inner: R,
    most: u64,
    left: u64,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        match self.left.checked_sub(count as u64) {
            Some(left) => self.left = left,
            None => {
                return Err(io::Error::other(format!("larger than {} MiB: not a file of this kind", self.most >> 20)));
            }
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file of as many bytes as may be is read whole, a byte more is refused, and so is what never ends.
    #[test]
    fn a_file_ends_where_it_must() {
        let read = |bytes: u64, most: u64| {
            let mut text = String::new();
            let bounded = &mut Bounded { inner: io::repeat(b'#').take(bytes), most, left: most };
            bounded.read_to_string(&mut text).map(|count| count as u64).map_err(|error| error.to_string())
        };
        assert_eq!(read(1 << 20, 1 << 20), Ok(1 << 20));
        assert_eq!(read((1 << 20) + 1, 1 << 20), Err("larger than 1 MiB: not a file of this kind".into()));
        assert!(read(u64::MAX, MOST_BYTES).is_err());
    }
}
