//! The client of a control socket.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use serde_json::Value;
use thiserror::Error;

use super::message::{Answer, Request};

/// Most bytes of an answer, enough for a status of ten thousand bundles.
const MAX_ANSWER_BYTES: u64 = 16 << 20;

/// Why a daemon did not do what it was asked.
#[derive(Debug, Error)]
pub enum ControlError {
    /// Nobody answers at the socket.
    #[error("no daemon at {path}: {error}")]
    Absent {
        /// The socket.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// Only the daemon's user and root may open the socket.
    #[error("this user may not open {path}, the socket of a daemon: {error}")]
    Denied {
        /// The socket.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// It broke off, or its answer is invalid.
    #[error("the daemon at {path} does not answer: {error}")]
    Broken {
        /// The socket.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// It refuses, with the reason.
    #[error("{0}")]
    Refused(String),
}

impl ControlError {
    /// The socket cannot be opened.
    fn unreached(path: &Path, error: io::Error) -> Self {
        let path = path.to_owned();
        match error.kind() {
            io::ErrorKind::PermissionDenied => Self::Denied { path, error },
            _ => Self::Absent { path, error },
        }
    }
}

/// Sends a request to the daemon whose control socket is at `path`, and waits for its answer.
pub fn request(path: &Path, request: &Request) -> Result<Value, ControlError> {
    let mut stream = UnixStream::connect(path).map_err(|error| ControlError::unreached(path, error))?;
    match ask(&mut stream, request).map_err(|error| ControlError::Broken { path: path.to_owned(), error })? {
        Answer::Ok(value) => Ok(value),
        Answer::Error(why) => Err(ControlError::Refused(why)),
    }
}

fn ask(stream: &mut UnixStream, request: &Request) -> io::Result<Answer> {
    let mut line = serde_json::to_string(request)?;
    line.push('\n');
    stream.write_all(line.as_bytes())?;
    let mut answer = String::new();
    BufReader::new(stream.take(MAX_ANSWER_BYTES)).read_line(&mut answer)?;
    if answer.is_empty() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(serde_json::from_str(&answer)?)
}

/// The default path of a daemon's control socket: in the folder that systemd gives a service, in the one that a session
/// gives its user, or in `/run/pliant` for root. `None` if there is none of these.
pub fn default_path() -> Option<PathBuf> {
    let folder = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let system = || rustix::process::geteuid().is_root().then(|| PathBuf::from("/run"));
    let folder = folder("RUNTIME_DIRECTORY")
        .or_else(|| folder("XDG_RUNTIME_DIR").or_else(system).map(|folder| folder.join("pliant")));
    Some(folder?.join("daemon.sock"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever may not ask a daemon is not told that there is none. Root, who may run this test, may open all.
    #[test]
    fn a_socket_that_one_may_not_open_is_not_absent() {
        for (kind, starts) in [
            (io::ErrorKind::PermissionDenied, "this user may not open s, the socket of a daemon: "),
            (io::ErrorKind::ConnectionRefused, "no daemon at s: "),
        ] {
            let shown = ControlError::unreached(Path::new("s"), kind.into()).to_string();
            assert!(shown.starts_with(starts), "{shown}");
        }
    }
}
