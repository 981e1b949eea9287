//! Why output could not be written or read.

use std::io;
use std::path::{Path, PathBuf};

/// Why output could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    /// Something is there already.
    #[error("{} exists; choose another folder or replace it with --force", .0.display())]
    Exists(PathBuf),
    /// A folder that Pliant did not write is there. It must not be replaced.
    #[error("{} is not an output folder of pliant and will not be replaced", .0.display())]
    NotAnOutput(PathBuf),
    /// A file is there.
    #[error("{} is not a folder", .0.display())]
    NotAFolder(PathBuf),
    /// The path names no folder: `/`, `..`.
    #[error("{} does not name a new folder", .0.display())]
    NotAName(PathBuf),
    /// The system refused.
    #[error("cannot {doing} {}: {source}", .path.display())]
    Io {
        /// What was tried: "write", "read".
        doing: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The file is not what pliant writes.
    #[error("cannot read {}: {why}", .path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
}

impl OutputError {
    pub(super) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Self::Io { doing, path, source }
    }

    /// The same error, about the folder `asked` if it was about something in the folder `place`. Nobody asked for that one.
    pub(super) fn about(self, place: &Path, asked: &Path) -> Self {
        match self {
            Self::Io { doing, path, source } if path.starts_with(place) => Self::io(doing, asked)(source),
            other => other,
        }
    }

    pub(super) fn malformed(path: &Path) -> impl FnOnce(String) -> Self {
        let path = path.to_path_buf();
        move |why| Self::Malformed { path, why }
    }
}
