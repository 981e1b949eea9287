//! The reliable byte stream of the TCP family.
//!
//! A flow has one direction: [`TcpSender`] sends data, [`TcpReceiver`] answers with acknowledgements. Sequence numbers
//! are byte offsets of the stream. FIN takes one number after the last byte. A congestion controller
//! ([`crate::congestion`]) says how much may be in flight. Everything else is here and in [`crate::recovery`].
//!
//! | mechanism | source |
//! | --- | --- |
//! | retransmission timeout, Karn's rule by timestamps | RFC 6298, RFC 7323 |
//! | loss recovery with SACK, and NewReno without | RFC 6675, RFC 6582 |
//! | loss detection by time, tail loss probe (option) | RFC 8985 |
//! | limited transmit, delayed acknowledgements, restart after idle | RFC 3042, RFC 5681 |
//! | ECN, classic and accurate | RFC 3168, RFC 8257 |
//! | windows, silly window avoidance, zero-window probes | RFC 9293 section 3.8.6 |
//! | a receive window that grows on long paths (option) | the sender says that it waits; Linux measures it |
//! | done by a time ([`DeadlineSender`]) | [`crate::contract::deadline`] |
//! | pauses while a queue above is congested ([`CrossQueueSender`]) | [`crate::contract::cross_queue_notification`] |
//!
//! Deviations:
//!
//! - Nothing is ever given up: neither a connection request nor a retransmission nor a probe.
//! - Nagle's algorithm is off.
//! - A responder repeats its grant only when asked again.
//! - After a timeout the sender resends what is not SACKed, from the first hole on, as the window allows, without
//!   moving SND.NXT
//!   back.

mod config;
mod receiver;
mod sender;
#[cfg(test)]
mod tests;

pub use config::{PacingFactors, TcpConfig, TcpConfigError};
pub use receiver::TcpReceiver;
pub use sender::{CrossQueueSender, DeadlineSender, TcpSender};

use crate::packet::{WINDOW_UNIT, WINDOW_UNLIMITED};
use crate::time::Span;

/// Round trip from which on a receive window may limit a flow for long. On shorter ones it limits nothing that a larger one would not.
const LONG_ROUND_TRIP: Span = Span::from_ms(5);
/// Longest stream, in bytes: sums of sequence numbers and windows stay far from overflow.
pub const MAX_STREAM: u64 = 1 << 62;

/// The right edge that an acknowledgement's window field grants.
#[inline]
fn window_end(ack: u64, window: u16) -> u64 {
    if window == WINDOW_UNLIMITED { u64::MAX } else { ack + u64::from(window) * WINDOW_UNIT }
}

/// The window field that grants at most `bytes`.
fn window_field(bytes: u64) -> u16 {
    (bytes / WINDOW_UNIT).min(u64::from(WINDOW_UNLIMITED - 1)) as u16
}
