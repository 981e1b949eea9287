//! What a batch cannot be taken apart for.

use thiserror::Error;

/// Most bytes of a batch's records, unpacked. A batch with more stays whole.
pub const MAX_PLAIN: usize = 32 << 20;
/// Most records of a batch that is taken apart.
pub const MAX_RECORDS: usize = 1 << 20;

/// Most bytes that the batches of one response are unpacked to: those of one batch, and so many for each byte of the response,
/// at most so many in all. What comes after stays whole: a producer can pack 32 MiB into a kilobyte, and a response has room for
/// a hundred thousand of these.
const UNPACKED_PER_BYTE: usize = 16;
const MAX_UNPACKED: usize = 512 << 20;

/// What the batches of a response may still be unpacked to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room(usize);

impl Room {
    #[cfg(test)]
    pub(crate) fn of(bytes: usize) -> Self {
        Self(bytes)
    }

    /// For a response of so many bytes.
    pub fn for_response(bytes: usize) -> Self {
        Self(bytes.saturating_mul(UNPACKED_PER_BYTE).saturating_add(MAX_PLAIN).min(MAX_UNPACKED))
    }

    /// For what another side has unpacked in a room of its own, in which the last batch may have found too little.
    pub(crate) fn for_received() -> Self {
        Self(MAX_UNPACKED + MAX_PLAIN)
    }

    /// Whether a batch may be unpacked.
    pub(super) fn is_left(self) -> bool {
        self.0 > 0
    }

    /// A batch was unpacked to so many bytes.
    pub(super) fn spend(&mut self, bytes: usize) {
        self.0 = self.0.saturating_sub(bytes);
    }
}

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
    /// The batches of its response in front of it have as many bytes as may be unpacked.
    #[error("the batches in front of it are all that is unpacked of a response")]
    NoRoom,
    /// Its records are not as many as it says, or not in order.
    #[error("the batch's records cannot be read")]
    Records,
}
