//! What a batch cannot be taken apart for.

use thiserror::Error;

/// Most bytes of a batch's records, unpacked. A batch with more stays whole.
pub const MAX_PLAIN: usize = 32 << 20;
/// Most records of a batch that is taken apart.
pub const MAX_RECORDS: usize = 1 << 20;

/// Most bytes that a batch is unpacked to for each byte that it has, or [`ALWAYS_PLAIN`] if that is more. Applications' records
/// are packed to a tenth or a fiftieth; a producer that wants to cost others time packs to a thousandth.
const PLAIN_PER_BYTE: usize = 64;
/// A batch may always be unpacked to so much, which is the most that a broker takes of a batch by default (`message.max.bytes`).
const ALWAYS_PLAIN: usize = 1 << 20;

/// Most bytes that the batches of one response are unpacked to: so many, and so many for each byte of the response, at most so
/// many in all. The last is about what a client takes as one response (librdkafka's `receive.message.max.bytes`, 100 MB).
const UNPACKED_ALWAYS: usize = 4 << 20;
const UNPACKED_PER_BYTE: usize = 16;
const MAX_UNPACKED: usize = 128 << 20;

/// What the batches of a response may still be unpacked to. Unpacking stops at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    left: usize,
    plain_per_byte: usize,
}

impl Room {
    #[cfg(test)]
    pub(crate) fn of(left: usize) -> Self {
        Self { left, plain_per_byte: PLAIN_PER_BYTE }
    }

    #[cfg(test)]
    pub(crate) fn spent(self, after: Self) -> usize {
        self.left - after.left
    }

    /// For a response of so many bytes.
    pub fn for_response(bytes: usize) -> Self {
        let left = bytes.saturating_mul(UNPACKED_PER_BYTE).saturating_add(UNPACKED_ALWAYS).min(MAX_UNPACKED);
        Self { left, plain_per_byte: PLAIN_PER_BYTE }
    }

    /// For what another side has unpacked in a room of its own and packed again in parts, of which some are packed better than
    /// the whole was.
    pub(crate) fn for_received() -> Self {
        Self { left: MAX_UNPACKED + MAX_PLAIN, plain_per_byte: usize::MAX }
    }

    /// Most bytes that `packed` bytes may be unpacked to, and what it means if they are more.
    pub(super) fn limit(self, packed: usize) -> (usize, Unopened) {
        let of_batch = packed.saturating_mul(self.plain_per_byte).clamp(ALWAYS_PLAIN, MAX_PLAIN);
        if self.left < of_batch { (self.left, Unopened::NoRoom) } else { (of_batch, Unopened::TooLarge) }
    }

    /// A batch was unpacked to so many bytes.
    pub(super) fn spend(&mut self, bytes: usize) {
        self.left = self.left.saturating_sub(bytes);
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
    #[error("the batch has more than {MAX_RECORDS} records or {MAX_PLAIN} bytes, or unpacks to far more than it has")]
    TooLarge,
    /// The batches of its response in front of it have as many bytes as may be unpacked.
    #[error("the batches in front of it are all that is unpacked of a response")]
    NoRoom,
    /// Its records are not as many as it says, or not in order.
    #[error("the batch's records cannot be read")]
    Records,
}
