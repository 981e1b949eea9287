//! Unix sockets with names in the file system.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tokio::net::{UnixListener, UnixStream};

/// The longest path of a socket in bytes: `sun_path` has 108 with its end, and until it is renamed, a dot, a dot and a process
/// of seven digits are in its name too.
const MAX_PATH_BYTES: usize = 107 - 9;

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
        let hidden = path.with_file_name(hidden_name(path));
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

    /// Refuses a path that something else occupies, or where no socket can be made. The file of a daemon that has ended does
    /// not count. It leaves nothing behind.
    pub(crate) fn check(path: &Path, key: &str) -> io::Result<()> {
        match fs::symlink_metadata(path) {
            Ok(found) if !found.file_type().is_socket() => {
                Err(io::Error::new(io::ErrorKind::AlreadyExists, "a file that is no socket is in the way"))
            }
            Ok(_) if std::os::unix::net::UnixStream::connect(path).is_ok() => {
                let why = format!("another daemon has this socket: `{key}` in the file names one of its own");
                Err(io::Error::new(io::ErrorKind::AddrInUse, why))
            }
            _ => Self::check_place(path),
        }
    }

    /// Makes a socket in the folder, or where the folder would be made, and removes it.
    fn check_place(path: &Path) -> io::Result<()> {
        let bytes = path.as_os_str().len();
        if bytes > MAX_PATH_BYTES {
            let why = format!("the path of a socket has at most {MAX_PATH_BYTES} bytes, and this one has {bytes}");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let folder = path.ancestors().skip(1).find(|folder| folder.as_os_str().is_empty() || folder.exists());
        let folder = folder.unwrap_or(Path::new(""));
        let hidden = folder.join(hidden_name(path));
        let _ = fs::remove_file(&hidden);
        let made = std::os::unix::net::UnixListener::bind(&hidden).map_err(|error| {
            let shown = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
            io::Error::new(error.kind(), format!("no socket can be made in {}: {error}", shown.display()))
        });
        let _ = fs::remove_file(&hidden);
        made.map(drop)
    }

    pub(crate) async fn accept(&self) -> io::Result<UnixStream> {
        self.listener.accept().await.map(|(stream, _)| stream)
    }
}

/// The name of a socket that is not ready.
fn hidden_name(path: &Path) -> String {
    format!(".{}.{}", path.file_name().unwrap_or_default().to_string_lossy(), std::process::id())
}
