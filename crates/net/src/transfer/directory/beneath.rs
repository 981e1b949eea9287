//! Files below a folder, opened without following links.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path};

use rustix::fs::{CWD, Mode, OFlags, openat};

/// Bytes read and hashed at once.
const PIECE_BYTES: usize = 128 << 10;

/// The folder below `root` that contains `path`, and the name there.
pub(in super::super) fn folder_beneath<'p>(root: &Path, path: &'p Path) -> io::Result<(OwnedFd, &'p OsStr)> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut folder = openat(CWD, root, flags, Mode::empty())?;
    let mut parts = path.components().peekable();
    while let Some(part) = parts.next() {
        let Component::Normal(name) = part else { break };
        if parts.peek().is_none() {
            return Ok((folder, name));
        }
        folder = openat(&folder, name, flags | OFlags::NOFOLLOW, Mode::empty())?;
    }
    Err(io::ErrorKind::InvalidInput.into())
}

/// The umask, found from a folder just created, to which the kernel has applied it.
pub(in super::super) fn umask_of(made: &Path) -> io::Result<u32> {
    Ok(0o777 & !made.metadata()?.mode())
}

/// The regular file at `path` below `root`.
pub(in super::super) fn file_beneath(root: &Path, path: &Path) -> io::Result<File> {
    let (folder, name) = folder_beneath(root, path)?;
    // Nobody writes to a FIFO that was put there.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(openat(folder, name, flags, Mode::empty())?);
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::ErrorKind::InvalidInput.into()) }
}

/// The hash of `file` from its present position on. Each piece is passed to `each`, which may stop.
pub(in super::super) fn hash_of(
    file: &File,
    mut each: impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<blake3::Hash> {
    let (mut hasher, mut piece, mut file) = (blake3::Hasher::new(), vec![0; PIECE_BYTES], file);
    loop {
        let bytes = match file.read(&mut piece) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read?,
        };
        if bytes == 0 {
            return Ok(hasher.finalize());
        }
        hasher.update(&piece[..bytes]);
        each(&piece[..bytes])?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No link leads out, and what is no file is not opened.
    #[test]
    fn nothing_is_reached_by_a_link() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        std::fs::create_dir_all(path("root/a")).unwrap();
        std::fs::create_dir(path("out")).unwrap();
        std::fs::write(path("out/secret"), "x").unwrap();
        std::fs::write(path("root/a/file"), "content").unwrap();
        std::os::unix::fs::symlink(path("out"), path("root/link")).unwrap();
        std::os::unix::fs::symlink(path("out/secret"), path("root/a/link")).unwrap();
        let open = |name: &str| file_beneath(&path("root"), Path::new(name));
        assert_eq!(hash_of(&open("a/file").unwrap(), |_| Ok(())).unwrap(), blake3::hash(b"content"));
        for name in ["link/secret", "a/link", "../out/secret", "/etc/passwd", "a", "none", ""] {
            assert!(open(name).is_err(), "{name}");
        }
    }
}
