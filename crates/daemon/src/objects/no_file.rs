//! Why a program does not get a file.

use std::io::{self, ErrorKind};

use pliant_net::connection::Closed;
use pliant_net::transfer::TransferError;

/// Why a program does not get a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum NoFile {
    /// Nobody has it.
    Unknown(String),
    /// It exists and could not be fetched.
    Failed(String),
    /// It does not fit into the cache, or onto its disk.
    TooLarge(String),
    /// Too many files are being fetched.
    Busy,
}

/// Whether a file was not written because there is no room for it.
fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge)
}

impl From<TransferError> for NoFile {
    fn from(error: TransferError) -> Self {
        let text = error.to_string();
        match error {
            TransferError::Ended { why: Closed::Refused(_), .. } => Self::Unknown(text),
            TransferError::TooLarge { .. } => Self::TooLarge(text),
            TransferError::File { error, .. } if is_full(&error) => Self::TooLarge(text),
            _ => Self::Failed(text),
        }
    }
}
