//! Why a program does not get a file.

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

impl From<TransferError> for NoFile {
    fn from(error: TransferError) -> Self {
        let (text, is_full) = (error.to_string(), error.is_full());
        match error {
            TransferError::Ended { why: Closed::Refused(_), .. } => Self::Unknown(text),
            TransferError::TooLarge { .. } => Self::TooLarge(text),
            _ if is_full => Self::TooLarge(text),
            _ => Self::Failed(text),
        }
    }
}
