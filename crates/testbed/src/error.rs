//! Why scenarios do not run on a testbed.

use std::io;

use crate::network::Unsuitable;

/// Why a scenario did not run.
#[derive(Debug, thiserror::Error)]
pub enum TestbedError {
    /// The scenario asks for what a testbed cannot do.
    #[error(transparent)]
    Unsuitable(#[from] Unsuitable),
    /// The user may not make network namespaces.
    #[error(
        "network namespaces need root, or the capabilities CAP_SYS_ADMIN, CAP_NET_ADMIN and CAP_NET_RAW; --relay does without, on loopback"
    )]
    NotPermitted,
    /// A process ended before it should, or did not answer.
    #[error("the testbed's {who} {what}")]
    Process {
        /// Which one.
        who: String,
        /// What it did.
        what: String,
    },
    /// The system refused.
    #[error("cannot {doing}: {error}")]
    Io {
        /// What was tried.
        doing: &'static str,
        /// The system's reason.
        error: io::Error,
    },
}

/// The error of an attempt that the system refused.
pub(crate) fn failed(doing: &'static str) -> impl Fn(io::Error) -> TestbedError {
    move |error| TestbedError::Io { doing, error }
}
