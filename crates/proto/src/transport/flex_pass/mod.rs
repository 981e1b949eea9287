//! FlexPass (Lim et al., EuroSys 2023): ExpressPass with legacy traffic on the same links. Credits release a guaranteed
//! share of a link, a DCTCP window uses the rest, and the switch drops the latter first.
//!
//! One send buffer feeds two sub-flows. Every packet carries its place in the flow, for reassembly, and its number in
//! its sub-flow, for loss detection.
//!
//! | state of a packet (figure 4) | kept as |
//! |---|---|
//! | pending | the range from the next byte to the end of what was written |
//! | sent as proactive, sent as reactive | a queue per sub-flow, in the order sent |
//! | lost | a queue |
//! | acknowledged | gone |
//!
//! - A **credit** sends, in this order, lost data, pending data, or the oldest reactive packet that is not acknowledged
//!   (proactive
//!   retransmission). That packet leaves the reactive window.
//! - A **reactive acknowledgement** that reports a gap makes the packets in it lost, because the network keeps the
//!   order. They leave the window
//!   and are never sent reactively again. An open window sends pending data.
//! - A **timeout** of the reactive sub-flow makes all its packets lost. A timeout of the proactive sub-flow does the
//!   same there and asks for
//!   credits again.
//! - A **stop** follows when nothing is left to send or to be acknowledged.
//!
//! An acknowledgement names the latest run of packets without a gap (cumulative while nothing is missing, the first
//! SACK block otherwise). Beyond the paper it also names the next byte of the flow that the receiver expects. So the
//! next acknowledgement makes up for a lost one.
//!
//! Options: Aeolus' burst before the first credit instead of the window ([`Reactive::Burst`]), RC3's splitting of the
//! flow from both ends ([`Splitting::BothEnds`]), and differences of the published simulator from the paper:
//!
//! | published simulator | option |
//! |---|---|
//! | the reactive sub-flow may send after a handshake, not at once | [`Window::handshake`] |
//! | pure acknowledgements of the reactive sub-flow are red | [`Window::red_acks`] |
//! | the window is at most 180 segments | [`Window::maximum`] |
//! | proactive data is answered only where something is missing (NACK) | [`FlexPassConfig::proactive_ack_every`] |
//! | the receiver scales its rate by the queue's weight twice | [`CreditConfig::pacing_scale`](super::express_pass::CreditConfig::pacing_scale) |
//! | another law of credit feedback | [`FeedbackLaw::Delivered`](super::express_pass::FeedbackLaw::Delivered) |
//! | credits of 78 to 90 bytes | [`CreditConfig::credit_bytes`](super::express_pass::CreditConfig::credit_bytes) |
//!
//! Its receiver asks for missing data until it arrives, and its sender has no timer for proactive data. Here the sender
//! has one. So a receiver that acknowledges rarely sends an acknowledgement after a quarter of that timer at the
//! latest, as delayed acknowledgements do (RFC 1122 section 4.2.3.2). Silence then means loss at every rate.
//!
//! Its receiver also discards what follows a gap of the proactive sub-flow (go-back-N). Here it is kept. Its
//! alternative queues for reactive data are a matter of [`Window::class`].

mod config;
mod proactive;
pub(super) mod reactive;
mod receiver;
mod sender;
#[cfg(test)]
mod tests;

pub use config::{FlexPassConfig, FlexPassConfigError, Reactive, Splitting, Window};
pub use receiver::FlexPassReceiver;
pub use sender::FlexPassSender;

use crate::contract::Field;
use crate::packet::ByteRange;
use crate::time::Instant;

/// The contract fields that it honours: none.
pub const HONOURS: &[Field] = &[Field::MaxRate];

/// A packet that was sent and is not acknowledged.
#[derive(Clone, Copy, Debug)]
struct Sent {
    start: u64,
    at: Instant,
    number: u32,
    len: u16,
}

impl Sent {
    fn range(&self) -> ByteRange {
        ByteRange::new(self.start, self.start + u64::from(self.len))
    }
}

/// The packets without a gap that an acknowledgement names: `first..end`, modulo 2³².
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Run {
    pub(super) first: u32,
    pub(super) end: u32,
}

impl Run {
    /// The packet `number` has arrived. Returns the run that its acknowledgement names, and how many packets after the
    /// expected one it came. This is negative if the network changed the order or sent it twice.
    pub(super) fn take(&mut self, number: u32) -> (Self, i32) {
        let ahead = number.wrapping_sub(self.end) as i32;
        let next = number.wrapping_add(1);
        match ahead {
            0 => self.end = next,
            1.. => *self = Self { first: number, end: next },
            _ => return (Self { first: number, end: next }, ahead),
        }
        (*self, ahead)
    }

    /// Whether everything up to `number`, itself included, has arrived or is lost.
    fn settles(self, number: u32) -> bool {
        self.end.wrapping_sub(number) as i32 > 0
    }

    /// Whether the packet `number`, which is settled, has arrived.
    fn holds(self, number: u32) -> bool {
        number.wrapping_sub(self.first) as i32 >= 0
    }
}
