//! The daemon's end of its control socket.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;

use super::message::{Answer, MAX_LINE_BYTES, Request};
use super::status::Status;
use crate::change::{reload, set_class};
use crate::config::ConfigError;
use crate::shared::Shared;

/// Only the owner can connect.
const MODE: u32 = 0o600;
/// Most users of the socket at a time.
const MAX_CLIENTS: usize = 64;

/// A control socket. Its file is removed when it is dropped.
pub(crate) struct ControlSocket {
    listener: UnixListener,
    path: PathBuf,
    /// The file's own number: another daemon's file is left alone.
    inode: u64,
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        if fs::symlink_metadata(&self.path).is_ok_and(|found| found.ino() == self.inode) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl ControlSocket {
    /// Makes the socket, and its folder if there is none. What another daemon has left behind is replaced; where another
    /// one answers, this one does not start.
    pub(crate) fn bind(path: &Path) -> Result<Self, ConfigError> {
        Self::try_bind(path).map_err(|error| ConfigError::File { path: path.into(), error })
    }

    fn try_bind(path: &Path) -> io::Result<Self> {
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty() && !folder.exists()) {
            DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        match fs::symlink_metadata(path) {
            Ok(found) if !std::os::unix::fs::FileTypeExt::is_socket(&found.file_type()) => {
                return Err(io::Error::new(io::ErrorKind::AlreadyExists, "a file that is no socket is in the way"));
            }
            Ok(_) if std::os::unix::net::UnixStream::connect(path).is_ok() => {
                return Err(io::Error::new(
                    io::ErrorKind::AddrInUse,
                    "another daemon has this control socket: `control` in the file names one of its own",
                ));
            }
            _ => {}
        }
        // Nobody finds it under its name before it has its mode.
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let hidden = path.with_file_name(format!(".{name}.{}", std::process::id()));
        let _ = fs::remove_file(&hidden);
        let listener = UnixListener::bind(&hidden)?;
        let made = fs::set_permissions(&hidden, Permissions::from_mode(MODE))
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

    /// Answers requests, for ever.
    pub(crate) async fn serve(self, shared: Arc<Shared>) {
        let clients = Arc::new(Semaphore::new(MAX_CLIENTS));
        let user = rustix::process::geteuid().as_raw();
        loop {
            // It is never closed.
            let Ok(client) = clients.clone().acquire_owned().await else { return };
            match self.listener.accept().await {
                // A mode can be changed; who a user is cannot.
                Ok((stream, _)) if stream.peer_cred().is_ok_and(|who| who.uid() == user || who.uid() == 0) => {
                    let shared = shared.clone();
                    tokio::spawn(async move {
                        // Whoever breaks off does not wait for an answer.
                        let _ = serve_client(stream, &shared).await;
                        drop(client);
                    });
                }
                Ok(_) => {}
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    }
}

async fn serve_client(stream: UnixStream, shared: &Arc<Shared>) -> io::Result<()> {
    let (from, mut to) = stream.into_split();
    let mut from = BufReader::new(from);
    loop {
        let mut line = Vec::new();
        (&mut from).take(MAX_LINE_BYTES).read_until(b'\n', &mut line).await?;
        if line.is_empty() {
            return Ok(());
        }
        let request = serde_json::from_slice::<Request>(&line);
        let ends = matches!(request, Ok(Request::Drain { .. }));
        let done = match request {
            Ok(request) => answer(request, shared).await,
            Err(error) => Err(format!("this is no request: {error}")),
        };
        let mut answer = serde_json::to_vec(&done.map_or_else(Answer::Error, Answer::Ok))?;
        answer.push(b'\n');
        let sent = to.write_all(&answer).await;
        if ends {
            shared.end();
        }
        // The rest of a line that is too long would be no request either.
        if !line.ends_with(b"\n") {
            return Ok(());
        }
        sent?;
    }
}

async fn answer(request: Request, shared: &Arc<Shared>) -> Result<Value, String> {
    match request {
        Request::Status => serde_json::to_value(Status::of(shared)).map_err(|error| error.to_string()),
        Request::Reload => reload(shared).await.map(|()| Value::Null).map_err(|error| error.to_string()),
        Request::Set { class, settings } => set_class(shared, &class, &settings).await.map(|()| Value::Null),
        Request::Drain { limit_seconds } => {
            let limit = limit_seconds.map_or_else(|| shared.config().drain, Duration::from_secs);
            Ok(json!({ "cut": shared.drain(limit).await }))
        }
    }
}
