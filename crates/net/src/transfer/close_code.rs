//! What the side that ends a connection says of its transfer.

/// It has all it wants.
pub(super) const DONE: u8 = 0;
/// It cannot go on.
pub(super) const FAILED: u8 = 1;
/// Its user stopped it.
pub(super) const INTERRUPTED: u8 = 2;
