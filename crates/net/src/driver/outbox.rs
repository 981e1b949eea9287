//! Sending what was collected.

use std::io;

use crate::socket::{Batch, Socket};

/// Sends a batch and empties it. It fails only if the socket does: what a destination does not take is lost, and what has
/// to arrive is sent again.
pub(super) fn send(socket: &Socket, batch: &mut Batch) -> io::Result<()> {
    if batch.is_empty() {
        return Ok(());
    }
    let sent = socket.send(batch);
    batch.clear();
    sent
}
