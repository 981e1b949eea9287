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

/// Sends a request to the daemon whose control socket is at `path`, and waits for its answer.
pub fn request(path: &Path, request: &Request) -> Result<Value, ControlError> {
    let mut stream =
        UnixStream::connect(path).map_err(|error| ControlError::Absent { path: path.to_owned(), error })?;
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
