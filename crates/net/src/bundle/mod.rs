//! Many streams between two hosts that share one contract and one congestion state.
//!
//! A bundle is one flow of a transport with a window, both ways. [`Multiplexer`] puts the bytes of many streams into it and
//! takes them out again. A packet that is lost holds up the streams whose bytes it carries, not the others: frames of
//! streams lie in cells of the transport's byte stream that are read in any order. A reader that stops holds up its own
//! stream: every stream has a window.
//!
//! What need not all arrive travels beside it, in [flows of messages](OutgoingMessages) of the same class.

mod application;
mod cells;
mod change;
mod class;
mod frame;
mod message_flows;
mod messages;
mod multiplexer;
mod mutex;
mod node;
mod relays;
mod report;
mod shared;
mod stream;
mod unread;

pub(crate) use application::{
    BundleApplication, BundleDriver, BundleSession, NodeApplication, produce_all, take_called,
};
pub use change::ChangeBytes;
pub use class::BundleClass;
pub use frame::{MAX_HEADER_BYTES, StreamId};
pub use message_flows::{MessageToken, SendMessages};
pub use messages::{ExpectedMessages, IncomingMessages, OutgoingMessages};
pub use multiplexer::{
    Multiplexer, MultiplexerConfig, MultiplexerCounts, ReadOutcome, StreamEvent, Violation, reset_code,
};
pub use node::{BundleNode, NodeChange};
pub use report::{BundleEnd, BundleReport, PathReport};
pub(crate) use shared::{BundleStatus, SharedBundle, SharedBundles};
pub use stream::{AcceptedStream, AcceptedStreams, BundleStream};

#[cfg(test)]
mod tests;
