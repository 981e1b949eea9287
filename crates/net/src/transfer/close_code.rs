//! Why the side that ends a connection does so.

/// It has everything it wants.
pub(super) const DONE: u8 = 0;
/// It cannot continue.
pub(super) const FAILED: u8 = 1;
/// Its user stopped it.
pub(super) const INTERRUPTED: u8 = 2;
/// It only asked what is offered.
pub(super) const ASKED: u8 = 3;
