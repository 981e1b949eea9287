//! ATP: approximate transmission (Liu, Tsai, Zhang: ATP, a datacenter approximate transmission protocol).
//!
//! A flow is a list of messages of which a fraction, the maximum loss rate (MLR), may be missing at its end. A message
//! arrives whole or not at all. The sender sends every message once, as fast as it may. The receiver counts whole
//! messages, N. Once N is enough for all ([`LossBound::needed`]), the flow ends, and the rest is not sent. Lost packets
//! are sent again only if all were sent and N is still too small.
//!
//! Its parts can be enabled separately ([`AtpConfig`]): *Base* is the above at the line rate. *RC* controls the rate by
//! loss (`rate`). *Pri* derives a priority from the rate. *Full* adds a backup sub-flow of the lowest priority, and
//! sends the message with the least remaining data first (`order`).
//!
//! Where the paper is silent or cannot be followed:
//!
//! - Acknowledgements carry N itself, not N / (1 − MLR). No fraction travels, and only the sender knows the bound.
//!   "Larger than the
//!   total" would never become true for a reliable flow; the rule is N ≥ N − ⌊N · MLR⌋.
//! - Each packet is acknowledged at once, with the fate of the 64 packets before it, so that lost acknowledgements are
//!   harmless. Losses
//!   are found by the order of sending, and by a timer at the tail.
//! - A flow may end before the application has given all messages, if it announced their number
//!   ([`Command::AnnounceMessages`](crate::transport::Command)). Otherwise the bound applies to the messages given until
//!   the application finishes, and until then every message is sent at least once.
//! - `Close` tells the receiver how many messages there were. The receiver then reports which are missing ([`Report`]).
//! - A lost backup packet was sent speculatively and counts as unsent. The backup sub-flow is limited to a probe per
//!   window while less
//!   than 5 % of it arrives.
//!
//! If small messages are sent first, the missing ones are large. An estimate over the messages that arrived is biased
//! if it depends on their size. [`AtpSender::by_size`] gives the delivered share by size. [`Order::Uniform`] adds no
//! bias to that of the network, in which a message of more packets is more likely to lose one.

mod backup;
mod bound;
mod config;
mod knowledge;
mod messages;
mod order;
mod rate;
mod receiver;
mod sender;
mod shared_path;
mod subflow;
#[cfg(test)]
mod tests;

pub use bound::LossBound;
pub use config::{
    AtpConfig, AtpConfigError, DATACENTER_TIMER, LossDetection, RateControlConfig, SharedPathConfig, WAN_TIMER,
};
pub use messages::{MAX_MESSAGES, SizeClass};
pub use order::Order;
pub use receiver::{AtpReceiver, Report};
pub use sender::AtpSender;

use crate::contract::Field;

/// The contract fields that it honours.
pub const HONOURS: &[Field] = &[Field::MinDelivery, Field::MaxRate];
