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
//! The receiver's half of the credit loop is in `source` and [`feedback`](FeedbackLaw), the sender's in `requester`.
//! [`flex_pass`](super::flex_pass) and [`layering`](super::layering) use both. Only faults lose data. Such losses are
//! repaired as in the published simulators: the receiver names the missing byte (NACK, every 100 us) and discards what
//! follows, and the sender goes back to it.
//!
//! Deviations from the published simulators:
//!
//! - A receiver answers a stop with an acknowledgement, and the stop is repeated until then. So a sender knows that
//!   everything arrived,
//!   whatever is lost. The simulators wait for one round trip.
//! - A sender without credits for [`recovery_timeout`](CreditConfig::recovery_timeout) asks again, at growing
//!   intervals.
//! - Credits out of order are ignored, not fatal.
//! - A receiver keeps no state after a stop, because nothing depends on it.

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
