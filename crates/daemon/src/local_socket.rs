//! Unix sockets with names in the file system.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tokio::net::{UnixListener, UnixStream};

/// A listening socket. Its file is removed when it is dropped.
pub(crate) struct LocalSocket {
    listener: UnixListener,
    path: PathBuf,
    /// The inode of its file, so that another daemon's file is not removed.
    inode: u64,
}

impl Drop for LocalSocket {
    fn drop(&mut self) {
        if fs::symlink_metadata(&self.path).is_ok_and(|found| found.ino() == self.inode) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl LocalSocket {
    /// Creates the socket, and its folder if there is none. It replaces the file of a daemon that has ended. If another
    /// daemon answers there, this one does not start. `key` names the socket in the daemon's file.
    pub(crate) fn bind(path: &Path, mode: u32, key: &str) -> io::Result<Self> {
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty() && !folder.exists()) {
            DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        Self::check(path, key)?;
        // Nobody finds it under its name before it has its mode.
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let hidden = path.with_file_name(format!(".{name}.{}", std::process::id()));
        let _ = fs::remove_file(&hidden);
        let listener = UnixListener::bind(&hidden)?;
        let made = fs::set_permissions(&hidden, Permissions::from_mode(mode))
            .and_then(|()| fs::symlink_metadata(&hidden))
            .and_then(|found| fs::rename(&hidden, path).map(|()| found.ino()));
        match made {
            Ok(inode) => Ok(Self { listener, path: path.into(), inode }),
            Err(error) => {
                let _ = fs::remove_file(&hidden);
                Err(error)
            }
        }
    }

    /// Refuses a path that something else occupies. The file of a daemon that has ended does not count.
    pub(crate) fn check(path: &Path, key: &str) -> io::Result<()> {
        match fs::symlink_metadata(path) {
            Ok(found) if !found.file_type().is_socket() => {
                Err(io::Error::new(io::ErrorKind::AlreadyExists, "a file that is no socket is in the way"))
            }
            Ok(_) if std::os::unix::net::UnixStream::connect(path).is_ok() => {
                let why = format!("another daemon has this socket: `{key}` in the file names one of its own");
                Err(io::Error::new(io::ErrorKind::AddrInUse, why))
            }
            _ => Ok(()),
        }
    }

    pub(crate) async fn accept(&self) -> io::Result<UnixStream> {
        self.listener.accept().await.map(|(stream, _)| stream)
    }
}
