//! Push: one object from many sources at once.
//!
//! PPUSH of Luo et al., "Efficient Multisource Data Delivery in Edge Cloud With Rateless Parallel Push", section III. A
//! [receiver](PushReceiver) fetches an object from a [controller](Controller). The controller orders some of the
//! [sources](PushSource) that have it to push coded symbols to the receiver. Any set of symbols somewhat larger than a
//! block decodes it (RaptorQ, RFC 6330). So sources need not agree on which symbols each sends, and a loss costs one
//! symbol of any source.
//!
//! Symbols are numbers here. In a block of K symbols, 0 to K − 1 are its source symbols, and those above are repair
//! symbols. The source in slot i of M sends i, i + M, i + 2M and so on. All K source symbols are the block itself.
//! Otherwise each symbol from the K-th on decodes it with probability 255/256. This gives RFC 6330's failure rates of
//! 256⁻¹ with K symbols, 256⁻² with K + 1 and so on.
//!
//! | message | from, to | type |
//! |---|---|---|
//! | fetch, report, fin | receiver, controller | [`ToController`] |
//! | acknowledgement of fetch and fin | controller, receiver | [`ToReceiver`] |
//! | push, theta, pause, stop | controller, source | [`ToSource`] |
//! | accepted | source, controller | [`ToController`] |
//! | data | source, receiver | [`Body::Symbol`](crate::packet::Body::Symbol) |
//! | ACK, fin | receiver, source | [`Body::SymbolAck`](crate::packet::Body::SymbolAck) |
//!
//! | knob | default | source |
//! |---|---|---|
//! | block | 3333 symbols, 4 MB of 1200 bytes | the paper: small enough to decode in passing |
//! | open blocks | 4 | the paper has no bound; it is the receiver's memory |
//! | packets sent later that make a loss | 3 | the paper |
//! | report | every 50 ms | the paper: periodically |
//! | pause without a report | 3 s | the paper: a long time |
//! | weights | smallest remaining task first | the paper, [`weights`] |
//! | claims | off | none |
//!
//! A source that three reports in a row call silent gives its slot to a waiting one. If none waits, it is sent its
//! order again.
//!
//! Beyond the paper, tasks may have a rank that goes before their size ([`weights`]). A source may ask a
//! [policy](crate::contract::policy), which lowers its weight or changes the class of its packets as far as a contract
//! allows.
//!
//! Deviations from the paper:
//!
//! - A lost repair symbol is not sent again, because the next one serves as well.
//! - The congestion window guards against loss on paths that do not mark
//!   ([`weighted_fair`](crate::congestion::weighted_fair)).
//! - With claims, the receiver follows the sources' rates and distributes a block's source symbols among them. A source
//!   that would be done before another gets the other's last symbols, one with each acknowledgement, and sends them
//!   instead of their owner. Then all are done at once, almost nothing is sent twice, and a block rarely needs decoding.
//!   A source has no more symbols of a block under way than are left to it, so it rarely needs a repair symbol. A source
//!   that has sent its share is told that nothing is needed until no source has anything left; what it lost it sends
//!   again all the same. One and a half blocks' usual part are left alone, because a source may have that much in flight.
//!   While it receives nothing, it asks every 5 ms.

mod allowance;
mod config;
mod controller;
mod message;
mod partition;
mod receiver;
mod source;
#[cfg(test)]
mod tests;
pub mod weights;

pub use config::{OPEN_BLOCKS, PushConfig, PushConfigError};
pub use controller::{Controller, ControllerConfig, Holding, Outgoing, SourceId, Weighting};
pub use message::{Order, PushRequest, TaskId, ToController, ToReceiver, ToSource};
pub use partition::{MAX_BLOCK_SYMBOLS, MAX_SYMBOL, Partition};
pub use receiver::{PushPort, PushReceiver, ReceiverCounts, SharedReceiver};
pub use source::PushSource;

use crate::contract::Field;

/// The contract fields that it honours by itself. A policy of its sources adds its own.
pub const HONOURS: &[Field] = &[Field::Weight, Field::Priority, Field::MaxRate];
