//! Unpacks the archive of a directory, entry by entry and within limits.

use std::error::Error;
use std::fs::{File, Metadata, Permissions, set_permissions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat, openat};
use tar::EntryType;

use super::super::names::{exchange, sync_folder_of};
use super::super::settings::Limits;
use super::beneath::{file_beneath, folder_beneath, hash_of, umask_of};
use super::index::{Entry, Index, IndexWriter, mark_of};
use super::{INTERRUPTED, UNCHANGED, Unchanged, walk};
use crate::seam::{DiskOperation, before};

/// Most nested folders. The walk to a file visits each of them.
const MAX_DEPTH: usize = 256;
/// Permissions that an owner needs to put something into a folder.
const OWNER: u32 = 0o700;
/// Most bytes of what precedes an entry, such as a long name. They are read into memory.
const MAX_EXTENSION_BYTES: u64 = 64 << 10;
/// Most lists of the parts of a sparse file, with 21 parts each.
const MAX_SPARSE_LISTS: u32 = 16 << 10;
/// Bytes of a header. The size of contents is a multiple of it.
const BLOCK_BYTES: u64 = 512;

/// An unpacked directory.
pub(in super::super) struct Unpacked {
    /// Files that were not in the archive.
    pub(in super::super) unchanged: Unchanged,
    /// The note on the directory, if there is one.
    pub(in super::super) index: Option<IndexWriter>,
}

/// Unpacks `archive` into the directory `into`, which is new and empty. Creates only files, directories and links to
/// them, with the permissions that the umask leaves. `cancelled` ends it. Files that the archive leaves out come from
/// `earlier`, of the same peer, if they have not changed. With `index_path` the files are noted.
pub(in super::super) fn unpack(
    mut archive: &File,
    into: &Path,
    limits: &Limits,
    cancelled: &AtomicBool,
    mut earlier: Option<Index>,
    index_path: Option<&Path>,
) -> io::Result<Unpacked> {
    archive.rewind()?;
    check_headers(archive, limits, cancelled)?;
    archive.rewind()?;
    let umask = umask_of(into)?;
    // Symbolic links on the way to it are not those of an archive.
    let into = into.canonicalize()?;
    let mut archive = tar::Archive::new(Cancellable { archive, cancelled });
    let (mut files, mut bytes) = (0u64, 0u64);
    let (mut unchanged, mut index) = (Unchanged::default(), index_path.map(IndexWriter::new).transpose()?);
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
        if kind.as_byte() == UNCHANGED {
            let mut hash = [0; blake3::OUT_LEN];
            let mode = entry.header().mode()? & 0o777 & !umask;
            let wanted = Wanted { path: &path, mode, modified: entry.header().mtime()? };
            entry.read_exact(&mut hash).map_err(|_| refuse("nonsense in the place of a file"))?;
            let kept = wanted.keep(earlier.as_mut(), &hash.into(), &into, limits.max_bytes - bytes, cancelled);
            let kept = kept.map_err(|error| walk::at(&path, &error))?;
            bytes += kept;
            unchanged.files += 1;
            unchanged.bytes += kept;
            if let Some(index) = &mut index {
                index.add(&path, &hash.into())?;
            }
            continue;
        }
        bytes = bytes.saturating_add(entry.size());
        if bytes > limits.max_bytes {
            return Err(refuse(&format!("more than {} bytes: `recv --max-bytes`", limits.max_bytes)));
        }
        entry.set_mask(umask);
        before(DiskOperation::Write(entry.size() as usize), &into)?;
        match kind {
            EntryType::Directory => {
                let mode = entry.header().mode()? & 0o777 & !umask;
                entry.unpack_in(&into).map_err(|error| at(&path, &error))?;
                if mode & OWNER != OWNER && path != Path::new("") {
                    set_permissions(into.join(&path), Permissions::from_mode(mode | OWNER))?;
                    closed_folders.push((path, mode));
                }
            }
            EntryType::Regular | EntryType::GNUSparse => {
                entry.unpack_in(&into).map_err(|error| at(&path, &error))?;
                if let Some(index) = &mut index {
                    note(index, &into, &path, cancelled).map_err(|error| at(&path, &error))?;
                }
            }
            EntryType::Symlink | EntryType::Link => {
                entry.unpack_in(&into).map_err(|error| at(&path, &error))?;
            }
            _ => return Err(refuse("neither a file nor a directory nor a link")),
        }
    }
    // Those inside others come later in an archive.
    for (path, mode) in closed_folders.into_iter().rev() {
        set_permissions(into.join(&path), Permissions::from_mode(mode)).map_err(|error| at(&path, &error))?;
    }
    Ok(Unpacked { unchanged, index })
}

/// Notes a file as it is now.
fn note(index: &mut IndexWriter, into: &Path, path: &Path, cancelled: &AtomicBool) -> io::Result<()> {
    // What its own archive has made unreadable is sent again.
    let Ok(file) = file_beneath(into, path) else { return Ok(()) };
    let hash = hash_of(&file, |_| go_on(cancelled))?;
    index.add(path, &hash)
}

fn go_on(cancelled: &AtomicBool) -> io::Result<()> {
    // No error of the kind Interrupted: that would be tried again.
    if cancelled.load(Ordering::Relaxed) { Err(io::Error::other(INTERRUPTED)) } else { Ok(()) }
}

/// A file that an archive leaves out.
struct Wanted<'p> {
    path: &'p Path,
    mode: u32,
    /// Seconds since 1970.
    modified: u64,
}

impl Wanted<'_> {
    /// Puts the file of `earlier` into the new directory, and returns its size. It uses the file itself if it has the
    /// same permissions and times, else a copy. The archive names such files in the order of `earlier`, which is read
    /// once.
    fn keep(
        &self,
        earlier: Option<&mut Index>,
        hash: &blake3::Hash,
        into: &Path,
        max_bytes: u64,
        cancelled: &AtomicBool,
    ) -> io::Result<u64> {
        let refuse = |why: &str| Err(io::Error::new(io::ErrorKind::InvalidData, why));
        let Some(earlier) = earlier else { return refuse("it was not sent before") };
        let directory = earlier.directory().to_owned();
        let is_it = |entry: &Entry| entry.path == self.path && entry.hash == *hash;
        loop {
            match earlier.next()? {
                Some(entry) if is_it(&entry) => break,
                Some(_) => go_on(cancelled)?,
                None => return refuse("it was not sent before"),
            }
        }
        let Ok(file) = file_beneath(&directory, self.path) else { return refuse(CHANGED) };
        let metadata = file.metadata()?;
        if metadata.len() > max_bytes {
            return refuse("more bytes than the receiver takes: `recv --max-bytes`");
        }
        let (folder, name) = folder_beneath(into, self.path)?;
        if self.has_attributes(&metadata) {
            if hash_of(&file, |_| go_on(cancelled))? != *hash {
                return refuse(CHANGED);
            }
            let same = format!("/proc/self/fd/{}", file.as_raw_fd());
            if linkat(CWD, &same, &folder, name, AtFlags::SYMLINK_FOLLOW).is_ok() {
                return Ok(metadata.len());
            }
            // The file system has no links, or the system does not let this user.
            (&file).rewind()?;
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut copy = File::from(openat(&folder, name, flags, Mode::from_raw_mode(0o600))?);
        let copied = hash_of(&file, |piece| {
            go_on(cancelled)?;
            copy.write_all(piece)
        })?;
        if copied != *hash {
            return refuse(CHANGED);
        }
        copy.set_permissions(Permissions::from_mode(self.mode))?;
        copy.set_modified(UNIX_EPOCH + Duration::from_secs(self.modified))?;
        Ok(metadata.len())
    }

    fn has_attributes(&self, metadata: &Metadata) -> bool {
        metadata.mode() & 0o7777 == self.mode && u64::try_from(metadata.mtime()) == Ok(self.modified)
    }
}

/// Why a file that an archive leaves out is missing.
const CHANGED: &str = "it is not there any more as it was sent before: send the directory again";

/// Replaces the directory `there`, to which `earlier` belongs, by the unpacked directory `new`. The old content is
/// removed.
pub(in super::super) fn replace_tree(new: &Path, there: &Path, index: Option<IndexWriter>) -> io::Result<()> {
    // It belongs to both directories until it is clear which one is there.
    if let Some(index) = index {
        let mark = mark_of(new)?;
        index.finish([mark_of(there).unwrap_or(mark), mark])?;
    }
    exchange(new, there)?;
    sync_folder_of(there)?;
    // The new one is in its place, whatever becomes of the old one. Folders may be closed to their owner.
    if std::fs::remove_dir_all(new).is_err() {
        open_folders(new);
        let _ = std::fs::remove_dir_all(new);
    }
    Ok(())
}

/// Gives the owner of folders the permission to remove what is in them.
fn open_folders(root: &Path) {
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        let _ = set_permissions(&folder, Permissions::from_mode(OWNER));
        let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
        folders.extend(
            entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path()),
        );
    }
}

/// Checks all headers and refuses what would be read into memory without a bound: long names, and lists of the parts of
/// sparse files. PAX extensions may give another size than the header, and are always refused.
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

/// The path of an entry without components that stand for the directory itself; an error if it leaves the directory.
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

/// The system's error, with the name of the entry instead of the temporary directory.
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

/// The first system error among an error and its causes.
fn find<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e io::Error> {
    error.downcast_ref().or_else(|| error.source().and_then(find))
}

/// An archive whose reading can be cancelled.
struct Cancellable<'a> {
    archive: &'a File,
    cancelled: &'a AtomicBool,
}

impl Read for Cancellable<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        go_on(self.cancelled)?;
        self.archive.read(into)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    const LIMITS: Limits = Limits { max_bytes: 1000, max_files: 4 };
    static NEVER: AtomicBool = AtomicBool::new(false);

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
        let result = unpack(&archive(entries), directory.path(), limits, &NEVER, None, None);
        (directory, result.map(|_| ()))
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
        let error = unpack(&file, directory.path(), &LIMITS, &NEVER, None, None).err().unwrap();
        assert!(error.to_string().contains("256 folders"), "{error}");
        // The error comes with the first that is too deep, however deep it is.
        let mut builder = tar::Builder::new(tempfile::tempfile().unwrap());
        builder.append_data(&mut header_of_nothing(), "d/".repeat(2000) + "f", io::empty()).unwrap();
        let file = builder.into_inner().unwrap();
        let error = unpack(&file, directory.path(), &LIMITS, &NEVER, None, None).err().unwrap();
        assert!(error.to_string().contains("256 folders"), "{error}");
    }

    fn header_of_nothing() -> tar::Header {
        let mut header = tar::Header::new_gnu();
        header.set_size(0);
        header.set_mode(0o644);
        header
    }

    /// An archive that leaves files out gets those that the same peer has sent, as they were sent; not by another path, with
    /// another content, twice, by a link, or of somebody else. What is there already stays as it is.
    #[test]
    fn files_that_are_left_out_are_the_peers_own() {
        use super::super::index::index_path;
        let directory = tempfile::tempdir().unwrap();
        let there = directory.path().join("there");
        std::fs::create_dir_all(there.join("folder")).unwrap();
        for name in ["a", "folder/b", "changed", "secret"] {
            std::fs::write(there.join(name), name).unwrap();
        }
        std::os::unix::fs::symlink("secret", there.join("link")).unwrap();
        let path = index_path(&there, None);
        let mut writer = IndexWriter::new(&path).unwrap();
        let hash = |content: &str| blake3::hash(content.as_bytes());
        for (name, content) in [("a", "a"), ("folder/b", "folder/b"), ("changed", "as it was"), ("link", "secret")] {
            writer.add(Path::new(name), &hash(content)).unwrap();
        }
        writer.finish_for(&there).unwrap();
        let go = |wanted: &[(&str, &str)], limits: &Limits, links: &[(&str, &str)], index: bool| {
            let mut builder = tar::Builder::new(tempfile::tempfile().unwrap());
            let mut header = header_of_nothing();
            header.set_entry_type(EntryType::Directory);
            header.set_mode(0o755);
            builder.append_data(&mut header, "folder", io::empty()).unwrap();
            for (name, to) in links {
                let mut header = header_of_nothing();
                header.set_entry_type(EntryType::Symlink);
                header.set_path(name).unwrap();
                // As a hostile sender would: the library refuses such links.
                header.set_link_name_literal(to).unwrap();
                header.set_cksum();
                builder.append(&header, io::empty()).unwrap();
            }
            for (name, content) in wanted {
                let mut header = header_of_nothing();
                header.set_entry_type(EntryType::new(UNCHANGED));
                header.set_size(32);
                header.set_mtime(1_000_000);
                builder.append_data(&mut header, name, &hash(content).as_bytes()[..]).unwrap();
            }
            let into = tempfile::tempdir_in(directory.path()).unwrap();
            let earlier = if index { Index::open(&there, &path).unwrap() } else { None };
            let archive = builder.into_inner().unwrap();
            let unpacked = unpack(&archive, into.path(), limits, &NEVER, earlier, None);
            (unpacked.map(|unpacked| unpacked.unchanged), into)
        };
        let both = [("a", "a"), ("folder/b", "folder/b")];
        let (unchanged, into) = go(&both, &LIMITS, &[], true);
        assert_eq!(unchanged.unwrap(), Unchanged { files: 2, bytes: 9 });
        assert_eq!(std::fs::read(into.path().join("folder/b")).unwrap(), b"folder/b");
        assert_eq!(into.path().join("a").metadata().unwrap().mtime(), 1_000_000);
        assert_ne!(there.join("a").metadata().unwrap().mtime(), 1_000_000, "what is there stays as it is");
        let out = directory.path().to_str().unwrap();
        for (wanted, links, index, why) in [
            (&[("secret", "secret")][..], &[][..], true, "secret: it was not sent before"),
            (&[("a", "b")], &[], true, "a: it was not sent before"),
            (&[("b", "a")], &[], true, "b: it was not sent before"),
            (&[("a", "a"), ("a", "a")], &[], true, "a: it was not sent before"),
            (&[("folder/b", "folder/b"), ("a", "a")], &[], true, "a: it was not sent before"),
            (&[("changed", "as it was")], &[], true, "changed: it is not there any more"),
            (&[("link", "secret")], &[], true, "link: it is not there any more"),
            (&[("a", "a")], &[], false, "a: it was not sent before"),
            // The way to it is one of the archive's own links.
            (&[("folder/b", "folder/b")], &[("folder", out)], true, "folder"),
            (&[("a", "a")], &[("a", out)], true, "a: "),
        ] {
            let (unchanged, into) = go(wanted, &Limits { max_files: 10, ..LIMITS }, links, index);
            let error = unchanged.expect_err(why).to_string();
            assert!(error.contains(why) && !error.contains("/tmp"), "{why}: {error}");
            assert!(!directory.path().join("b").exists(), "{}", into.path().display());
        }
        let (few, _) = go(&both, &Limits { max_bytes: 8, max_files: 10 }, &[], true);
        assert!(few.unwrap_err().to_string().contains("more bytes than the receiver takes"));
        let (few, _) = go(&both, &Limits { max_bytes: 100, max_files: 2 }, &[], true);
        assert!(few.unwrap_err().to_string().contains("more than 2 files"));
    }

    #[test]
    fn it_can_be_ended_and_nonsense_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let entries = [("a", EntryType::Regular, 0o644)];
        let error =
            unpack(&archive(&entries), directory.path(), &LIMITS, &AtomicBool::new(true), None, None).err().unwrap();
        assert!(error.to_string().contains(INTERRUPTED), "{error}");
        let mut nonsense = tempfile::tempfile().unwrap();
        nonsense.write_all(&[7; 1024]).unwrap();
        unpack(&nonsense, directory.path(), &LIMITS, &NEVER, None, None).err().unwrap();
        let mut header = header_of_nothing();
        header.set_entry_type(EntryType::GNULongName);
        header.set_size(1 << 40);
        header.set_cksum();
        let mut endless = tempfile::tempfile().unwrap();
        endless.write_all(header.as_bytes()).unwrap();
        endless.set_len(1 << 41).unwrap();
        let error = unpack(&endless, directory.path(), &LIMITS, &NEVER, None, None).err().unwrap();
        assert!(error.to_string().contains("64 KiB"), "{error}");
    }
}
