//! What can be wrong with a scenario, and where.

use std::fmt;
use std::path::PathBuf;

use crate::one_line::OneLine;
use crate::topology::TopologyError;
use crate::traffic::TrafficError;

/// Where a value of a scenario came from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Place {
    /// A line of a file, counted from 1.
    Line {
        /// The file as it was named.
        file: PathBuf,
        /// The line.
        line: usize,
    },
    /// What the command line put over the file, such as `--set seed=2`.
    Flag(String),
    /// What a program gave as a value, under this name. It has no lines.
    Program(String),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line { file, line } => write!(f, "{}:{line}", file.display()),
            Self::Flag(text) | Self::Program(text) => f.write_str(text),
        }
    }
}

/// Why a scenario was refused. Every message is one line and names the file and the key or line.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// The file cannot be read.
    #[error("{}: {}", OneLine(file.display()), OneLine(source))]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// What the operating system says.
        source: std::io::Error,
    },
    /// The file is not TOML.
    #[error("{}: {}", OneLine(place), OneLine(why))]
    Syntax {
        /// Where.
        place: Place,
        /// What the parser says.
        why: String,
    },
    /// A key is not known, missing, or has a value that cannot be.
    #[error("{}: `{}`: {}", OneLine(place), OneLine(key), OneLine(why))]
    Key {
        /// Where it was given.
        place: Place,
        /// The key with its tables, dotted.
        key: String,
        /// What is wrong and what would be right.
        why: String,
    },
    /// An override that does not lead anywhere.
    #[error("{}: {}", OneLine(flag), OneLine(why))]
    Override {
        /// The flag as it was given.
        flag: String,
        /// What is wrong with it.
        why: String,
    },
    /// The topology cannot be built.
    #[error("{}: `topology`: {}", OneLine(place), OneLine(source))]
    Topology {
        /// Where the topology is described.
        place: Place,
        /// Why.
        source: Box<TopologyError>,
    },
    /// The traffic cannot be made.
    #[error("{}: {}", OneLine(place), OneLine(source))]
    Traffic {
        /// Where the group or its key is.
        place: Place,
        /// Why.
        source: Box<TrafficError>,
    },
}

impl ScenarioError {
    /// The same, which also says of what.
    pub(in super::super) fn saying(self, of_what: &str) -> Self {
        match self {
            Self::Key { place, key, why } => Self::Key { place, key, why: format!("{why} ({of_what})") },
            other => other,
        }
    }

    /// Where the value stands that is refused; `None` if no value of the document is.
    pub fn place(&self) -> Option<&Place> {
        match self {
            Self::Unreadable { .. } | Self::Override { .. } => None,
            Self::Syntax { place, .. }
            | Self::Key { place, .. }
            | Self::Topology { place, .. }
            | Self::Traffic { place, .. } => Some(place),
        }
    }

    /// The key with its tables, dotted, if the error is about one.
    pub fn key(&self) -> Option<String> {
        match self {
            Self::Key { key, .. } => Some(key.clone()),
            Self::Topology { .. } => Some("topology".to_owned()),
            Self::Traffic { source, .. } => Some(source.key()),
            Self::Unreadable { .. } | Self::Syntax { .. } | Self::Override { .. } => None,
        }
    }
}
