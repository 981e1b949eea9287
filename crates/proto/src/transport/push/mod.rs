//! Push: one object from many sources at once.
//!
//! PPUSH of Luo et al., "Efficient Multisource Data Delivery in Edge Cloud With Rateless Parallel Push", section III. A
//! [receiver](PushReceiver) fetches an object from a [controller](Controller), which has some of the [sources](PushSource)
//! that hold it push coded symbols to the receiver. Any set of symbols somewhat larger than a block decodes it
//! (RaptorQ, RFC 6330), so sources need not agree on who sends what, and a loss costs one symbol of whichever source.
//!
//! Symbols are numbers here: of a block of K symbols, 0 to K − 1 are its source symbols, and those above are repair
//! symbols. The source in slot i of M sends i, i + M, i + 2M and so on. All K source symbols are the block; else each
//! symbol from the K-th on decodes it with probability 255/256, which makes RFC 6330's failure rates of 256⁻¹ with K
//! symbols, 256⁻² with K + 1 and so on.
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
//! A source that three reports in a row call silent gives its slot to one that waits; where none does, it is ordered
//! again.
//!
//! Beyond the paper tasks may have a rank before their size ([`weights`]), and a source may ask a
//! [policy](crate::contract::policy), which lowers its weight, or changes the class of its packets, while a contract lets
//! it.
//!
//! Deviations from the paper. A lost repair symbol is not sent again: the next one does as well. The congestion window
//! guards against loss on paths that do not mark ([`weighted_fair`](crate::congestion::weighted_fair)). With claims the
//! receiver follows the sources' rates and shares a block's source symbols out among them: a source that would be done
//! before another gets the other's last symbols, one with each acknowledgement, and sends them in place of its owner. All
//! are done at once then, next to nothing is sent twice, and a block seldom needs decoding. A source that has sent its share
//! is told that nothing is needed, until no source has anything left; while it hears nothing it asks every 5 ms.

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

/// The contract fields that it honours by itself; a policy that its sources ask adds its own.
pub const HONOURS: &[Field] = &[Field::Weight, Field::Priority, Field::MaxRate];
