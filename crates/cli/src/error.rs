//! What ends a command early.

use std::fmt;
use std::io;

use pliant_sim::output::OutputError;
use pliant_sim::run::RunError;
use pliant_sim::scenario::ScenarioError;

/// Why a command failed.
#[derive(Debug)]
pub(crate) enum CliError {
    /// The user can put it right: a flag, a key, a file.
    User(String),
    /// The machine failed.
    Machine(String),
    /// Whoever read our output has gone: nobody is left to tell.
    OutputClosed,
}

impl CliError {
    pub(crate) fn is_user(&self) -> bool {
        matches!(self, Self::User(_))
    }
}

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User(why) | Self::Machine(why) => f.write_str(why),
            Self::OutputClosed => f.write_str("the output was closed"),
        }
    }
}

impl From<ScenarioError> for CliError {
    fn from(error: ScenarioError) -> Self {
        Self::User(error.to_string())
    }
}

impl From<RunError> for CliError {
    fn from(error: RunError) -> Self {
        Self::Machine(error.to_string())
    }
}

impl From<OutputError> for CliError {
    fn from(error: OutputError) -> Self {
        match error {
            OutputError::Io { ref source, .. } if source.kind() != io::ErrorKind::NotFound => {
                Self::Machine(error.to_string())
            }
            _ => Self::User(error.to_string()),
        }
    }
}

impl From<io::Error> for CliError {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe { Self::OutputClosed } else { Self::Machine(error.to_string()) }
    }
}
