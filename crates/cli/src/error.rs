//! What ends a command early.

use std::fmt;
use std::io;

use pliant_net::switch::SwitchError;
use pliant_net::transfer::{MirrorFault, TransferError};
use pliant_sim::output::OutputError;
use pliant_sim::run::RunError;
use pliant_sim::scenario::ScenarioError;
use pliant_testbed::TestbedError;
use pliant_testbed::host::HostError;
use pliant_testbed::plan::PlanFileError;
use pliant_testbed::switch::SwitchProcessError;

/// Why a command failed.
#[derive(Debug)]
pub enum CliError {
    /// A scenario was refused.
    Scenario(Box<ScenarioError>),
    /// The user can put it right: a flag, a key, a file.
    User(String),
    /// The machine failed.
    Machine(String),
    /// The peer does not answer, or refuses.
    NoPeer(String),
    /// The peer was lost under way.
    PeerLost(String),
    /// What arrived is not what was sent, or less than was promised.
    WrongContent(String),
    /// Whoever read our output has gone: nobody is left to tell.
    OutputClosed,
}

impl CliError {
    /// The process' exit code.
    pub fn code(&self) -> u8 {
        match self {
            Self::OutputClosed => 0,
            Self::Machine(_) => 1,
            Self::User(_) | Self::Scenario(_) => 2,
            Self::NoPeer(_) => 3,
            Self::PeerLost(_) => 4,
            Self::WrongContent(_) => 5,
        }
    }
}

impl std::error::Error for CliError {}

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User(why)
            | Self::Machine(why)
            | Self::NoPeer(why)
            | Self::PeerLost(why)
            | Self::WrongContent(why) => f.write_str(why),
            Self::Scenario(error) => error.fmt(f),
            Self::OutputClosed => f.write_str("the output was closed"),
        }
    }
}

impl From<ScenarioError> for CliError {
    fn from(error: ScenarioError) -> Self {
        Self::Scenario(Box::new(error))
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
            OutputError::Io { ref source, .. } if !is_about_a_path(source.kind()) => Self::Machine(error.to_string()),
            _ => Self::User(error.to_string()),
        }
    }
}

/// Whether another path would have helped.
fn is_about_a_path(kind: io::ErrorKind) -> bool {
    use io::ErrorKind as Kind;
    matches!(
        kind,
        Kind::AlreadyExists
            | Kind::IsADirectory
            | Kind::NotADirectory
            | Kind::NotFound
            | Kind::PermissionDenied
            | Kind::ReadOnlyFilesystem
    )
}

impl From<io::Error> for CliError {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe { Self::OutputClosed } else { Self::Machine(error.to_string()) }
    }
}

impl From<TransferError> for CliError {
    /// A path or an address that cannot work is the user's mistake.
    fn from(error: TransferError) -> Self {
        use io::ErrorKind as Kind;
        let text = error.to_string();
        let kind = match &error {
            TransferError::NotLoopback(_)
            | TransferError::Flow(_)
            | TransferError::Connect(_)
            | TransferError::Sources(_)
            | TransferError::CannotBeOffered => Kind::InvalidInput,
            TransferError::File { error, .. } | TransferError::Socket { error, .. } => error.kind(),
            TransferError::NoAnswer { .. } | TransferError::Mirror { fault: MirrorFault::Absent, .. } => {
                return Self::NoPeer(text);
            }
            TransferError::Ended { why, .. } if why.is_refusal() => return Self::NoPeer(text),
            TransferError::Ended { .. }
            | TransferError::Silent { .. }
            | TransferError::Unconfirmed { .. }
            | TransferError::Mirror { fault: MirrorFault::Lost, .. }
            | TransferError::NotPlaced { .. } => return Self::PeerLost(text),
            TransferError::NotATransfer { .. }
            | TransferError::Mirror { fault: MirrorFault::WrongContent, .. }
            | TransferError::HashMismatch { .. }
            | TransferError::OtherContent { .. }
            | TransferError::TooLarge { .. }
            | TransferError::NoMajority { .. }
            | TransferError::Differs { .. }
            | TransferError::Changed { .. }
            | TransferError::BoundMissed { .. } => return Self::WrongContent(text),
            TransferError::Interrupted => Kind::Interrupted,
        };
        match kind {
            Kind::AddrInUse | Kind::AddrNotAvailable | Kind::InvalidInput => Self::User(text),
            kind if is_about_a_path(kind) => Self::User(text),
            _ => Self::Machine(text),
        }
    }
}

impl From<TestbedError> for CliError {
    fn from(error: TestbedError) -> Self {
        match error {
            TestbedError::Unsuitable(_) | TestbedError::NotPermitted => Self::User(error.to_string()),
            TestbedError::Process { .. } | TestbedError::Io { .. } => Self::Machine(error.to_string()),
        }
    }
}

impl From<PlanFileError> for CliError {
    fn from(error: PlanFileError) -> Self {
        Self::User(error.to_string())
    }
}

impl From<SwitchError> for CliError {
    fn from(error: SwitchError) -> Self {
        Self::User(error.to_string())
    }
}

impl From<HostError> for CliError {
    fn from(error: HostError) -> Self {
        Self::Machine(error.to_string())
    }
}

impl From<SwitchProcessError> for CliError {
    fn from(error: SwitchProcessError) -> Self {
        Self::Machine(error.to_string())
    }
}
