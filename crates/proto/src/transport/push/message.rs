//! What receiver, controller and sources tell each other beside symbols.
//!
//! All of it may be lost, repeated or overtaken: fetch and fin are sent until they are answered, orders until they are
//! accepted and again with every refresh, and the latest order wins.

/// Number of a delivery task: one object on its way to one receiver. The receiver chooses it.
pub type TaskId = u64;

/// What an end of a push flow asks of its surroundings. The controller answers a source with [`ToSource`] and a receiver
/// with [`ToReceiver`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PushRequest {
    /// A message to the controller.
    Controller(ToController),
    /// The symbols that have come of this block of an object may decode it: worth an attempt, and another each time that
    /// it is said again. Who holds the payload answers by [`PushReceiver::handle_decoded`](super::PushReceiver).
    Decode {
        /// Which, from 0.
        block: u32,
    },
}

/// To the controller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ToController {
    /// A receiver wants an object.
    Fetch,
    /// How far a receiver is. It is the receiver's heartbeat, too.
    Report {
        /// Blocks decoded without a gap: the first one still needed.
        decoded: u32,
        /// Symbols still needed for the object.
        remaining: u64,
        /// Bit `i`: a symbol of the source in slot `i` has come since the report before the last.
        heard: u32,
        /// For the first block still needed, one past the largest place k in a slot of which a symbol i + kM has arrived.
        next: u32,
    },
    /// A receiver has the whole object.
    Fin,
    /// A source follows the order with this number.
    Accepted {
        /// The slot that it sends for.
        slot: u8,
        /// The order's number.
        number: u32,
    },
}

/// From the controller to a receiver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ToReceiver {
    /// The object is on its way.
    FetchAck,
    /// The controller has closed the task.
    FinAck,
}

/// From the controller to a source.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ToSource {
    /// Counts the orders for a push flow; an older one than the last is ignored.
    pub number: u32,
    /// What to do.
    pub order: Order,
}

/// What a source is to do.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Order {
    /// Send symbols.
    Push {
        /// Its slot i, below `slots`.
        slot: u8,
        /// Number of slots M.
        slots: u8,
        /// Sources that push this object now.
        sources: u8,
        /// First block to send.
        block: u32,
        /// Place k of the first symbol i + kM to send of that block.
        start: u32,
        /// Weight of the flow (theta).
        weight: f64,
    },
    /// Have this weight (theta).
    Theta {
        /// The weight.
        weight: f64,
    },
    /// Send nothing until the next `Push`: the receiver is silent, or another source has the slot.
    Pause,
    /// The task is over.
    Stop,
}
