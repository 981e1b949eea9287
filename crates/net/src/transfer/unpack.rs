//! Unpacks the archive of a directory, entry by entry and within limits.

use std::error::Error;
use std::fs::{File, Permissions, set_permissions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use tar::EntryType;

use super::settings::Limits;

/// Most folders inside each other. The walk to a file looks at each of them.
const MAX_DEPTH: usize = 256;
/// What an owner needs of a folder to put something into it.
const OWNER: u32 = 0o700;
/// Most bytes of what stands before an entry, such as a long name: they are read into memory.
const MAX_EXTENSION_BYTES: u64 = 64 << 10;
/// Most lists of the parts of a sparse file, of 21 parts each.
const MAX_SPARSE_LISTS: u32 = 16 << 10;
/// Bytes of a header, of which contents have a multiple.
const BLOCK_BYTES: u64 = 512;

/// Unpacks `archive` into the directory `into`, which is new and empty. Only files, directories and links to them are
/// made, with the permissions that the umask leaves; `cancelled` ends it.
pub(super) fn unpack(mut archive: &File, into: &Path, limits: &Limits, cancelled: &AtomicBool) -> io::Result<()> {
    archive.rewind()?;
    check_headers(archive, limits, cancelled)?;
    archive.rewind()?;
    // The kernel has applied the umask to it.
    let umask = 0o777 & !into.metadata()?.permissions().mode();
    // Symbolic links on the way to it are not those of an archive.
    let into = into.canonicalize()?;
    let mut archive = tar::Archive::new(Cancellable { archive, cancelled });
    let (mut files, mut bytes) = (0u64, 0u64);
    // Folders that their owner may not write to get their permissions once all is in them.
    let mut closed_folders: Vec<(PathBuf, u32)> = Vec::new();
    for entry in archive.entries()? {
        let mut entry = entry?;
        let kind = entry.header().entry_type();
        let path = inside(&entry.path()?)?;
        let refuse = |why: &str| io::Error::new(io::ErrorKind::InvalidData, format!("{}: {why}", path.display()));
        if path.components().count() > MAX_DEPTH {
            return Err(refuse(&format!("more than {MAX_DEPTH} folders inside each other")));
        }
        files += 1;
        if files > limits.max_files {
            return Err(refuse(&format!("more than {} files: `recv --max-files`", limits.max_files)));
        }
        bytes = bytes.saturating_add(entry.size());
        if bytes > limits.max_bytes {
            return Err(refuse(&format!("more than {} bytes: `recv --max-bytes`", limits.max_bytes)));
        }
        entry.set_mask(umask);
        match kind {
            EntryType::Directory => {
                let mode = entry.header().mode()? & 0o777 & !umask;
                entry.unpack_in(&into).map_err(|error| at(&path, &error))?;
                if mode & OWNER != OWNER && path != Path::new("") {
                    set_permissions(into.join(&path), Permissions::from_mode(mode | OWNER))?;
                    closed_folders.push((path, mode));
                }
            }
            EntryType::Regular | EntryType::GNUSparse | EntryType::Symlink | EntryType::Link => {
                entry.unpack_in(&into).map_err(|error| at(&path, &error))?;
            }
            _ => return Err(refuse("neither a file nor a directory nor a link")),
        }
    }
    // Those inside others come later in an archive.
    for (path, mode) in closed_folders.into_iter().rev() {
        set_permissions(into.join(&path), Permissions::from_mode(mode)).map_err(|error| at(&path, &error))?;
    }
    Ok(())
}

/// Refuses, by a look at all headers, what would be read into memory without a bound: long names and lists of the parts
/// of sparse files. PAX extensions, which may say another size than the header, are refused whatever they say.
fn check_headers(mut archive: &File, limits: &Limits, cancelled: &AtomicBool) -> io::Result<()> {
    let refuse = |why: &str| Err(io::Error::new(io::ErrorKind::InvalidData, why));
    // Each entry has at most one extension of each of two kinds.
    let most = limits.max_files.saturating_mul(3);
    let mut number = 0;
    let mut header = [0; BLOCK_BYTES as usize];
    let mut at = 0u64;
    loop {
        archive.seek(SeekFrom::Start(at))?;
        match archive.read_exact(&mut header) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            read => read?,
        }
        if header == [0; BLOCK_BYTES as usize] {
            return Ok(());
        }
        number += 1;
        if number > most {
            return refuse(&format!("more than {} files: `recv --max-files`", limits.max_files));
        }
        if cancelled.load(Ordering::Relaxed) {
            return Err(io::Error::other(INTERRUPTED));
        }
        let entry = tar::Header::from_byte_slice(&header);
        let size = entry.entry_size()?;
        let mut extended = false;
        match entry.entry_type() {
            EntryType::GNULongName | EntryType::GNULongLink if size > MAX_EXTENSION_BYTES => {
                return refuse("a name of more than 64 KiB");
            }
            EntryType::XHeader | EntryType::XGlobalHeader => {
                return refuse("it has PAX extensions, which no sender makes");
            }
            EntryType::GNUSparse => extended = entry.as_gnu().is_some_and(tar::GnuHeader::is_extended),
            _ => {}
        }
        at = at.saturating_add(BLOCK_BYTES);
        let mut lists = 0;
        while extended {
            archive.seek(SeekFrom::Start(at))?;
            archive.read_exact(&mut header)?;
            // Whether another list follows (the format's field `isextended`).
            extended = header[504] == 1;
            at = at.saturating_add(BLOCK_BYTES);
            lists += 1;
            if lists > MAX_SPARSE_LISTS {
                return refuse("a sparse file of too many parts");
            }
        }
        let Some(next) = size.checked_next_multiple_of(BLOCK_BYTES).and_then(|size| at.checked_add(size)) else {
            return refuse("an entry is larger than any file");
        };
        at = next;
    }
}

/// The path of an entry without what stands for the directory itself; an error if it leaves the directory.
fn inside(path: &Path) -> io::Result<PathBuf> {
    let mut inside = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => inside.push(name),
            Component::CurDir => {}
            Component::RootDir | Component::ParentDir | Component::Prefix(_) => {
                let why = format!("{}: it would lie outside of the directory", path.display());
                return Err(io::Error::new(io::ErrorKind::InvalidData, why));
            }
        }
    }
    Ok(inside)
}

/// The system's error, with the entry's name instead of that of the temporary directory.
fn at(path: &Path, error: &io::Error) -> io::Error {
    let mut innermost = error;
    while let Some(inner) = innermost.get_ref().and_then(|inner| find(inner)) {
        innermost = inner;
    }
    if innermost.raw_os_error().is_some() {
        return io::Error::new(innermost.kind(), format!("{}: {innermost}", path.display()));
    }
    if innermost.kind() == io::ErrorKind::Other && innermost.to_string() == INTERRUPTED {
        return io::Error::other(INTERRUPTED);
    }
    // What the library adds names the temporary directory.
    let why = match innermost.kind() {
        io::ErrorKind::Other => "it cannot be unpacked into the directory".to_owned(),
        kind => kind.to_string(),
    };
    io::Error::new(innermost.kind(), format!("{}: {why}", path.display()))
}

/// The first error of the system's among an error and its causes.
fn find<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e io::Error> {
    error.downcast_ref().or_else(|| error.source().and_then(find))
}

const INTERRUPTED: &str = "interrupted";

/// An archive whose reading can be ended.
struct Cancellable<'a> {
    archive: &'a File,
    cancelled: &'a AtomicBool,
}

impl Read for Cancellable<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        // No error of the kind Interrupted: that would be tried again.
        if self.cancelled.load(Ordering::Relaxed) {
            Err(io::Error::other(INTERRUPTED))
        } else {
            self.archive.read(into)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    const LIMITS: Limits = Limits { max_bytes: 1000, max_files: 4 };

    /// An archive of empty entries, or of files with ten bytes.
    fn archive(entries: &[(&str, EntryType, u32)]) -> File {
        let mut builder = tar::Builder::new(tempfile::tempfile().unwrap());
        for (path, kind, mode) in entries {
            let mut header = tar::Header::new_gnu();
            // As a hostile sender would: the library refuses such names.
            header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
            header.set_entry_type(*kind);
            header.set_mode(*mode);
            let content: &[u8] = if *kind == EntryType::Regular { b"0123456789" } else { b"" };
            header.set_size(content.len() as u64);
            if matches!(kind, EntryType::Symlink | EntryType::Link) {
                header.set_link_name("a").unwrap();
            }
            header.set_cksum();
            builder.append(&header, content).unwrap();
        }
        builder.into_inner().unwrap()
    }

    fn unpacked(entries: &[(&str, EntryType, u32)], limits: &Limits) -> (tempfile::TempDir, io::Result<()>) {
        let directory = tempfile::tempdir().unwrap();
        let result = unpack(&archive(entries), directory.path(), limits, &AtomicBool::new(false));
        (directory, result)
    }

    #[test]
    fn files_folders_and_links_are_unpacked() {
        use EntryType::{Directory, Link, Regular, Symlink};
        let entries = [
            ("./", Directory, 0o755),
            ("closed", Directory, 0o555),
            ("closed/a", Regular, 0o4755),
            ("link", Symlink, 0o777),
        ];
        let (directory, result) = unpacked(&entries, &LIMITS);
        result.unwrap();
        let mode = |name: &str| directory.path().join(name).metadata().unwrap().permissions().mode() & 0o7777;
        let umask = 0o777 & !mode(".");
        assert_eq!(std::fs::read(directory.path().join("closed/a")).unwrap(), b"0123456789");
        assert_eq!((mode("closed"), mode("closed/a")), (0o555 & !umask, 0o755 & !umask), "no set-user-ID bit");
        assert!(directory.path().join("link").symlink_metadata().unwrap().is_symlink());
        let (directory, result) = unpacked(&[("a", Regular, 0o644), ("b", Link, 0o644)], &LIMITS);
        result.unwrap();
        assert_eq!(std::fs::read(directory.path().join("b")).unwrap(), b"0123456789");
    }

    #[test]
    fn what_is_hostile_is_refused() {
        use EntryType::{Block, Char, Directory, Fifo, Link, Regular, Symlink};
        let deep = "d/".repeat(49);
        let many: Vec<_> = ["a", "b", "c", "d", "e"].iter().map(|name| (*name, Regular, 0o644)).collect();
        for (entries, why) in [
            (&[("../a", Regular, 0o644)][..], "outside"),
            (&[("/a", Regular, 0o644)], "outside"),
            (&[("a", Fifo, 0o644)], "neither a file"),
            (&[("a", Char, 0o644)], "neither a file"),
            (&[("a", Block, 0o644)], "neither a file"),
            (&many, "more than 4 files"),
            (&[("a", Symlink, 0o777), ("a/b", Regular, 0o644)], "a/b"),
            (&[("b", Link, 0o644)], "b: "),
        ] {
            let (_directory, result) = unpacked(entries, &LIMITS);
            let error = result.expect_err(why).to_string();
            assert!(error.contains(why) && !error.contains("/tmp"), "{why}: {error}");
        }
        let (_directory, result) = unpacked(&many, &Limits { max_bytes: 30, max_files: 10 });
        assert!(result.unwrap_err().to_string().contains("more than 30 bytes"));
        let (_directory, result) = unpacked(&[(&deep, Directory, 0o755)], &LIMITS);
        result.unwrap();
        // Longer names than a header holds come before it.
        let mut builder = tar::Builder::new(tempfile::tempfile().unwrap());
        builder.append_data(&mut header_of_nothing(), "d/".repeat(300) + "f", io::empty()).unwrap();
        let file = builder.into_inner().unwrap();
        let directory = tempfile::tempdir().unwrap();
        let error = unpack(&file, directory.path(), &LIMITS, &AtomicBool::new(false)).unwrap_err();
        assert!(error.to_string().contains("256 folders"), "{error}");
    }

    fn header_of_nothing() -> tar::Header {
        let mut header = tar::Header::new_gnu();
        header.set_size(0);
        header.set_mode(0o644);
        header
    }

    #[test]
    fn it_can_be_ended_and_nonsense_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let entries = [("a", EntryType::Regular, 0o644)];
        let error = unpack(&archive(&entries), directory.path(), &LIMITS, &AtomicBool::new(true)).unwrap_err();
        assert!(error.to_string().contains(INTERRUPTED), "{error}");
        let mut nonsense = tempfile::tempfile().unwrap();
        nonsense.write_all(&[7; 1024]).unwrap();
        unpack(&nonsense, directory.path(), &LIMITS, &AtomicBool::new(false)).unwrap_err();
        let mut header = header_of_nothing();
        header.set_entry_type(EntryType::GNULongName);
        header.set_size(1 << 40);
        header.set_cksum();
        let mut endless = tempfile::tempfile().unwrap();
        endless.write_all(header.as_bytes()).unwrap();
        endless.set_len(1 << 41).unwrap();
        let error = unpack(&endless, directory.path(), &LIMITS, &AtomicBool::new(false)).unwrap_err();
        assert!(error.to_string().contains("64 KiB"), "{error}");
    }
}
