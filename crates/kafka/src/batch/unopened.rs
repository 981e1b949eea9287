//! What a batch cannot be taken apart for.

use thiserror::Error;

/// Most bytes of a batch's records, unpacked. A batch with more stays whole.
pub const MAX_PLAIN: usize = 32 << 20;
/// Most records of a batch that is taken apart.
pub const MAX_RECORDS: usize = 1 << 20;

/// Why a batch stays whole.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum Unopened {
    /// It is cut short, or of an older format.
    #[error("this is no whole batch of records with magic 2")]
    NoBatch,
    /// Its checksum is wrong.
    #[error("the batch's CRC-32C is wrong")]
    Crc,
    /// Its records cannot be unpacked.
    #[error("the batch's records cannot be unpacked")]
    Codec,
    /// It has too many bytes or records.
    #[error("the batch has more than {MAX_PLAIN} bytes or {MAX_RECORDS} records")]
    TooLarge,
    /// Its records are not as many as it says, or not in order.
    #[error("the batch's records cannot be read")]
    Records,
}
