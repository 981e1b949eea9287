//! ExpressPass (Cho, Jang, Han, SIGCOMM 2017): the receiver sends credits, one for each data packet, and every port
//! limits them, so that the data they release never exceeds a link.
//!
//! ```text
//! sender                     receiver
//!   CreditRequest  ------->            and again every 100 us until a credit comes
//!           <-------  Credit           paced, with jitter; its rate follows the credits that were lost
//!   Scheduled  ----------->            one packet per credit, which it echoes
//!   CreditStop  ---------->            when nothing is left to send
//!           <-------  Ack              what was received
//! ```
//!
//! The receiver's half of the credit loop is in `source` and [`feedback`](FeedbackLaw), the sender's in `requester`;
//! [`flex_pass`](super::flex_pass) and [`layering`](super::layering) use both. Losses of data, which only faults cause,
//! are repaired as in the published simulators: the receiver names the byte it misses (NACK, every 100 us) and discards
//! what follows, the sender goes back there.
//!
//! Deviations from the published simulators: a receiver answers a stop with an acknowledgement, and the stop is repeated
//! until then, so a sender knows that everything arrived, whatever is lost (theirs waits for one round trip); a sender
//! that gets no credit for [`recovery_timeout`](CreditConfig::recovery_timeout) asks anew, less and less often; credits that come out of
//! order are ignored, not fatal; a receiver has no state after a stop, since nothing depends on it.

mod config;
mod feedback;
mod receiver;
mod requester;
mod sender;
mod source;
#[cfg(test)]
mod tests;

pub use config::{CreditConfig, CreditConfigError, credit_share};
pub use feedback::{FeedbackConfig, FeedbackLaw};
pub use receiver::ExpressPassReceiver;
pub use sender::ExpressPassSender;

use crate::contract::Field;

/// The contract fields that it honours: none.
pub const HONOURS: &[Field] = &[Field::MaxRate];

pub(crate) use requester::{Phase, Requester};
pub(crate) use source::CreditSource;
