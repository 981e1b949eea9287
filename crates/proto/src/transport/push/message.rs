//! The messages between receiver, controller and sources, other than symbols.
//!
//! Any of them may be lost, repeated or overtaken. Fetch and fin are sent until they are answered, orders until they
//! are accepted and again with every refresh. The latest order wins.

/// Number of a delivery task: one object on its way to one receiver. The receiver chooses it.
pub type TaskId = u64;

/// A request of one end of a push flow to its driver. The controller answers a source with [`ToSource`] and a receiver
/// with [`ToReceiver`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PushRequest {
    /// A message to the controller.
    Controller(ToController),
    /// The symbols of this block may decode it, so an attempt is worthwhile, and another each time this is repeated.
    /// The holder of the payload answers with [`PushReceiver::handle_decoded`](super::PushReceiver).
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
    /// A receiver's progress. It is also the receiver's heartbeat.
    Report {
        /// Blocks decoded without a gap, and so the number of the first one still needed.
        decoded: u32,
        /// Symbols still needed for the object.
        remaining: u64,
        /// Bit `i`: a symbol of the source in slot `i` has arrived since the report before the last.
        heard: u32,
        /// For the first block still needed, one past the largest place k in a slot of which a symbol i + kM has
        /// arrived.
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
    /// The request for the object was accepted.
    FetchAck,
    /// The controller has closed the task.
    FinAck,
}

/// From the controller to a source.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ToSource {
    /// Number of the order within its push flow. An order older than the last one is ignored.
    pub number: u32,
    /// What to do.
    pub order: Order,
}

/// What a source must do.
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
    /// Use this weight (theta).
    Theta {
        /// The weight.
        weight: f64,
    },
    /// Send nothing until the next `Push`, because the receiver is silent or another source has the slot.
    Pause,
    /// The task is over.
    Stop,
}
