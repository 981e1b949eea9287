//! What a connection's two directions share, and how bytes of the broker are taken.

use std::sync::Mutex;

use pliant_kafka::{LossyConnection, Refusal};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::task::block_in_place;

use super::thinner::ConnectionThinner;
use crate::mutex::lock;

/// What carries a connection's two directions share.
pub(super) type SharedBoth<'b, 's> = &'b Mutex<(LossyConnection, ConnectionThinner<'s>)>;

/// Waits until so many bytes of the broker may be taken: a peer has few responses unpacked at a time, and the others are those
/// of other peers.
pub(super) async fn turn<'u>(
    both: SharedBoth<'_, '_>,
    bytes: usize,
    unpacking: &'u Semaphore,
) -> Option<SemaphorePermit<'u>> {
    let completes = lock(both).0.completes(bytes);
    // It is never closed.
    if completes { unpacking.acquire().await.ok() } else { None }
}

/// Takes bytes of the broker, or its end. To unpack batches may take seconds, for which other connections do not wait.
pub(super) fn take_response(both: SharedBoth<'_, '_>, piece: &[u8], output: &mut Vec<u8>) -> Result<(), Refusal> {
    let (connection, thinner) = &mut *lock(both);
    if piece.is_empty() {
        connection.end_responses()
    } else if connection.completes(piece.len()) {
        block_in_place(|| connection.take_response(piece, thinner, output))
    } else {
        connection.take_response(piece, thinner, output)
    }
}

/// What was taken so far is written: unless part of a response is still being kept, nothing is.
pub(super) fn note_written(both: SharedBoth<'_, '_>) {
    let (connection, thinner) = &mut *lock(both);
    if !connection.keeps() {
        thinner.written();
    }
}
