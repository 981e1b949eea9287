//! Packs a directory into an archive.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use tar::{EntryType, Header};

use super::listing::Held;
use super::walk::{Walk, at};
use super::{INTERRUPTED, UNCHANGED, Unchanged};

/// What is not packed of the directory at `path`: everything that is neither a file nor a directory nor a link.
pub(in super::super) fn skipped_in(path: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = Walk::new(path).filter_map(|entry| match entry {
        Ok((_, kind)) if kind.is_dir() || kind.is_symlink() || kind.is_file() => None,
        Ok((name, _)) => Some(Ok(path.join(name))),
        Err(error) => Some(Err(error)),
    });
    entries.collect()
}

/// An archive of the directory at `path`, its size, and what it leaves out because the receiver has it (`held`).
/// Symbolic links are packed as links. Fails if a file changes meanwhile, because half of the old content would not be
/// a copy.
pub(in super::super) fn pack(path: &Path, held: &Held, interrupted: &AtomicBool) -> io::Result<(File, u64, Unchanged)> {
    let mut archive = tar::Builder::new(tempfile::tempfile()?);
    archive.follow_symlinks(false);
    let mut unchanged = Unchanged::default();
    // The same directory gives the same archive.
    for entry in Walk::new(path) {
        let (name, kind) = entry?;
        if interrupted.load(Ordering::Relaxed) {
            return Err(io::Error::other(INTERRUPTED));
        }
        let there = path.join(&name);
        let packed = if kind.is_dir() {
            archive.append_dir(&name, &there)
        } else if kind.is_symlink() {
            archive.append_path_with_name(&there, &name)
        } else if kind.is_file() {
            pack_file(&mut archive, &name, &there, held, &mut unchanged)
        } else {
            Ok(())
        };
        packed.map_err(|error| at(&name, &error))?;
    }
    let file = archive.into_inner()?;
    let bytes = file.metadata()?.len();
    Ok((file, bytes, unchanged))
}

fn pack_file(
    archive: &mut tar::Builder<File>,
    name: &Path,
    path: &Path,
    held: &Held,
    unchanged: &mut Unchanged,
) -> io::Result<()> {
    // What has become a FIFO or a link since it was looked at is not waited for and not followed.
    let mut file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW).open(path)?;
    let before = file.metadata()?;
    if !before.is_file() {
        return Err(io::Error::other("it was changed while it was packed"));
    }
    let state = |metadata: &Metadata| (metadata.len(), metadata.modified().ok());
    // What was changed since it was hashed is sent.
    if let Some(hashed) = held.get(name).filter(|hashed| (hashed.bytes, hashed.modified) == state(&before)) {
        let mut header = Header::new_gnu();
        header.set_metadata(&before);
        header.set_entry_type(EntryType::new(UNCHANGED));
        header.set_size(blake3::OUT_LEN as u64);
        unchanged.files += 1;
        unchanged.bytes += before.len();
        return archive.append_data(&mut header, name, &hashed.hash.as_bytes()[..]);
    }
    archive.append_file(name, &mut file)?;
    let after = file.metadata()?;
    if state(&before) == state(&after) { Ok(()) } else { Err(io::Error::other("it was changed while it was packed")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    /// Files and links are there, a socket and a FIFO are told, and nothing waits for a FIFO's writer.
    #[test]
    fn only_files_folders_and_links_are_packed() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        std::fs::create_dir(path("folder")).unwrap();
        std::fs::write(path("folder/a"), "content").unwrap();
        std::os::unix::fs::symlink("a", path("folder/link")).unwrap();
        let _socket = UnixListener::bind(path("socket")).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            path("fifo"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
        let held = Held::default();
        let (mut file, bytes, unchanged) = pack(directory.path(), &held, &AtomicBool::new(false)).unwrap();
        assert_eq!(skipped_in(directory.path()).unwrap(), [path("fifo"), path("socket")]);
        assert_eq!(unchanged, Unchanged::default());
        assert_eq!(file.metadata().unwrap().len(), bytes);
        io::Seek::rewind(&mut file).unwrap();
        let mut archive = tar::Archive::new(file);
        let names: Vec<_> =
            archive.entries().unwrap().map(|entry| entry.unwrap().path().unwrap().into_owned()).collect();
        assert_eq!(names, [Path::new("folder"), Path::new("folder/a"), Path::new("folder/link")]);
    }
}
