//! Packs a directory into an archive.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// An archive of what is in the directory at `path`, and its bytes. Symbolic links are packed as links; what is neither a
/// file nor a directory nor a link is told in `skipped`. Fails if a file is changed meanwhile: half of what was is no copy.
pub(super) fn pack(path: &Path, skipped: &mut Vec<PathBuf>) -> io::Result<(File, u64)> {
    let mut archive = tar::Builder::new(tempfile::tempfile()?);
    archive.follow_symlinks(false);
    // Folders that are still to be packed, by their names in the archive.
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        let there = path.join(&folder);
        let names = std::fs::read_dir(&there)
            .and_then(|entries| entries.map(|entry| Ok(entry?.file_name())).collect::<io::Result<Vec<_>>>());
        let mut names = names.map_err(|error| at(&folder, &error))?;
        // The same folder gives the same archive.
        names.sort_unstable();
        for name in names {
            let (name, there) = (folder.join(&name), there.join(&name));
            let kind = there.symlink_metadata().map_err(|error| at(&name, &error))?.file_type();
            let packed = if kind.is_dir() {
                folders.push(name.clone());
                archive.append_dir(&name, &there)
            } else if kind.is_symlink() {
                archive.append_path_with_name(&there, &name)
            } else if kind.is_file() {
                pack_file(&mut archive, &name, &there)
            } else {
                skipped.push(there);
                Ok(())
            };
            packed.map_err(|error| at(&name, &error))?;
        }
    }
    let file = archive.into_inner()?;
    let bytes = file.metadata()?.len();
    Ok((file, bytes))
}

fn pack_file(archive: &mut tar::Builder<File>, name: &Path, path: &Path) -> io::Result<()> {
    // What has become a FIFO or a link since it was looked at is not waited for and not followed.
    let mut file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW).open(path)?;
    let before = file.metadata()?;
    if !before.is_file() {
        return Err(io::Error::other("it was changed while it was packed"));
    }
    archive.append_file(name, &mut file)?;
    let after = file.metadata()?;
    if (before.len(), before.modified().ok()) == (after.len(), after.modified().ok()) {
        Ok(())
    } else {
        Err(io::Error::other("it was changed while it was packed"))
    }
}

/// The error with the name of the file in the directory.
fn at(name: &Path, error: &io::Error) -> io::Error {
    let named = if name == Path::new("") { error.to_string() } else { format!("{}: {error}", name.display()) };
    io::Error::new(error.kind(), named)
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
        let mut skipped = Vec::new();
        let (mut file, bytes) = pack(directory.path(), &mut skipped).unwrap();
        assert_eq!(skipped, [path("fifo"), path("socket")]);
        assert_eq!(file.metadata().unwrap().len(), bytes);
        io::Seek::rewind(&mut file).unwrap();
        let mut archive = tar::Archive::new(file);
        let names: Vec<_> =
            archive.entries().unwrap().map(|entry| entry.unwrap().path().unwrap().into_owned()).collect();
        assert_eq!(names, [Path::new("folder"), Path::new("folder/a"), Path::new("folder/link")]);
    }
}
