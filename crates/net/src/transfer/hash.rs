//! Content hashes.

use super::error::TransferError;

/// Bytes of a hash.
pub(super) const HASH_BYTES: usize = blake3::OUT_LEN;

/// An error if the content does not have the announced hash.
pub(super) fn check_hash(name: &str, got: blake3::Hash, expected: blake3::Hash) -> Result<(), TransferError> {
    if got == expected { Ok(()) } else { Err(TransferError::HashMismatch { name: name.to_owned(), got, expected }) }
}
