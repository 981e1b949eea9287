//! Transports: one side of one flow, as a machine.
//!
//! A driver calls `handle_packet`, `handle_command` and `handle_timeout`. After each call it calls [`drain`], which
//! polls in a fixed order until nothing is left: packets to send, events for the application, the next deadline. The
//! simulator, the UDP runtime and the tests all use the same `drain`.
//!
//! No transport is named here. A message between one family and its driver is a type of that family, which
//! [`Transport::Request`] and [`Transport::Answer`] carry.

pub mod any;
mod arrivals;
pub mod atp;
pub mod dccp;
pub mod express_pass;
pub mod flex_pass;
pub mod homa;
pub mod layering;
pub mod ndp;
pub mod near_opt;
#[cfg(test)]
pub(crate) mod pair;
pub mod pfabric;
pub mod push;
pub mod rate_cap;
pub mod scdp;
pub mod sender_drop;
mod statistics;
pub mod tcp;
pub mod two_class;
pub mod udp;

use alloc::boxed::Box;
use core::convert::Infallible;
use core::fmt::Debug;

pub use self::statistics::Statistics;
use crate::contract::Contract;
use crate::contract::policy::Policy;
use crate::packet::{ByteRange, Packet, SackBlocks};
use crate::time::{Instant, Span};
use crate::units::Rate;

/// A message to a transport from its application, or from its driver in answers of type `A`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Command<A = Infallible> {
    /// `bytes` more bytes are ready to be sent.
    Send {
        /// How many.
        bytes: u64,
    },
    /// Another message of this many bytes is ready to be sent. For a transport of byte streams: more bytes.
    SendMessage {
        /// How many.
        bytes: u32,
    },
    /// The flow will have this many messages. A transport that may leave some out then need not wait for all of them.
    AnnounceMessages {
        /// How many.
        messages: u32,
    },
    /// Nothing follows the bytes given so far.
    Finish,
    /// The application has taken `bytes` delivered bytes out of the receive buffer. Without this the buffer fills.
    Consume {
        /// How many.
        bytes: u64,
    },
    /// Data of another flow is about to leave for the peer: an acknowledgement that is withheld goes with it.
    Acknowledge,
    /// Sets the flow's weight.
    SetWeight(f64),
    /// Sets the least share of the flow's fair rate.
    SetMinShare(f64),
    /// Sets the flow's least rate.
    SetMinRate(Rate),
    /// Sets the flow's greatest rate on the wire; zero removes it.
    SetMaxRate(Rate),
    /// Tells the flow what rate on the wire is fair on its path, as the hosts at its ends know it. It counts for a while.
    SetFairRate(Rate),
    /// The flow must be done this long after now; [`Span::MAX`] removes the deadline.
    SetDoneBy(Span),
    /// The flow is done, as its deadline sees it, once so many bytes of it are across, counted from its start.
    SetSize(u64),
    /// The driver answers what the transport [asked](Event::Ask).
    Answer(A),
}

impl<A> Command<A> {
    /// The commands that give a running flow this contract. Its deadline counts from now. Its bound of delivery and its
    /// priority do not change.
    pub fn of_contract(contract: &Contract) -> impl Iterator<Item = Self> + use<A> {
        let deadline = Self::SetDoneBy(contract.done_by.unwrap_or(Span::MAX));
        Self::of_bounds(contract).into_iter().chain([deadline])
    }

    /// The same without the deadline, which stays.
    pub fn of_bounds(contract: &Contract) -> [Self; 4] {
        [
            Self::SetWeight(contract.weight),
            Self::SetMinShare(contract.min_share),
            Self::SetMinRate(contract.min_rate),
            Self::SetMaxRate(contract.max_rate.unwrap_or_default()),
        ]
    }

    /// Bytes that it gives to a transport of byte streams.
    pub const fn bytes(&self) -> Option<u64> {
        match *self {
            Self::Send { bytes } => Some(bytes),
            Self::SendMessage { bytes } => Some(bytes as u64),
            Self::AnnounceMessages { .. }
            | Self::Finish
            | Self::Consume { .. }
            | Self::Acknowledge
            | Self::SetWeight(_)
            | Self::SetMinShare(_)
            | Self::SetMinRate(_)
            | Self::SetMaxRate(_)
            | Self::SetFairRate(_)
            | Self::SetDoneBy(_)
            | Self::SetSize(_)
            | Self::Answer(_) => None,
        }
    }

    /// The same with an answer that `take` accepts; `None` if it refuses the answer.
    #[inline]
    pub fn filter_map_answer<B>(self, take: impl FnOnce(A) -> Option<B>) -> Option<Command<B>> {
        Some(match self {
            Self::Send { bytes } => Command::Send { bytes },
            Self::SendMessage { bytes } => Command::SendMessage { bytes },
            Self::AnnounceMessages { messages } => Command::AnnounceMessages { messages },
            Self::Finish => Command::Finish,
            Self::Consume { bytes } => Command::Consume { bytes },
            Self::Acknowledge => Command::Acknowledge,
            Self::SetWeight(weight) => Command::SetWeight(weight),
            Self::SetMinShare(share) => Command::SetMinShare(share),
            Self::SetMinRate(rate) => Command::SetMinRate(rate),
            Self::SetMaxRate(rate) => Command::SetMaxRate(rate),
            Self::SetFairRate(rate) => Command::SetFairRate(rate),
            Self::SetDoneBy(span) => Command::SetDoneBy(span),
            Self::SetSize(bytes) => Command::SetSize(bytes),
            Self::Answer(answer) => Command::Answer(take(answer)?),
        })
    }
}

/// A message from a transport to its application, or to its driver in requests of type `R`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event<R = Infallible> {
    /// The connection is established; data may flow.
    Connected,
    /// These bytes arrived, in order, each exactly once.
    Deliver(ByteRange),
    /// A whole message arrived. Messages come in any order, each exactly once.
    DeliverMessage {
        /// Which, from 0.
        message: u32,
        /// Its bytes.
        bytes: u32,
    },
    /// The sender leaves this message out permanently. Nothing of it was sent.
    GiveUp {
        /// Which, from 0.
        message: u32,
    },
    /// The application need not keep these bytes any longer, because the peer has them.
    Release(ByteRange),
    /// The peer's last byte was delivered, or the peer has closed a flow of messages.
    Received,
    /// Everything was sent and acknowledged (sender).
    Finished,
    /// The flow will miss its deadline. At its present rate it will be done at `expected` ([`Instant::MAX`]: nothing
    /// moves). This is reported once (sender).
    WillBeLate {
        /// When it will be done.
        expected: Instant,
    },
    /// A symbol arrived that its block still needed.
    DeliverSymbol {
        /// Bytes that it stands for. All reported symbols together make the object.
        bytes: u32,
    },
    /// A request to the driver: to a host, an oracle or a controller. Only drivers of its family know it.
    Ask(R),
}

impl<R> Event<R> {
    /// The same with another request.
    #[inline]
    pub fn map_request<S>(self, change: impl FnOnce(R) -> S) -> Event<S> {
        match self {
            Self::Connected => Event::Connected,
            Self::Deliver(range) => Event::Deliver(range),
            Self::DeliverMessage { message, bytes } => Event::DeliverMessage { message, bytes },
            Self::GiveUp { message } => Event::GiveUp { message },
            Self::Release(range) => Event::Release(range),
            Self::Received => Event::Received,
            Self::Finished => Event::Finished,
            Self::WillBeLate { expected } => Event::WillBeLate { expected },
            Self::DeliverSymbol { bytes } => Event::DeliverSymbol { bytes },
            Self::Ask(request) => Event::Ask(change(request)),
        }
    }
}

/// Why a transport wants to be called.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Timer {
    /// Retransmission timeout (RFC 6298), of data or of a connection request.
    Retransmit,
    /// Zero-window probe (RFC 9293 section 3.8.6.1).
    Persist,
    /// Delayed acknowledgement.
    DelayedAck,
    /// The pacer allows the next packet.
    Pace,
    /// RACK reordering window or tail loss probe (RFC 8985).
    LossDetection,
    /// The next probe of the queue above, or too long a silence about it (cross-queue congestion notification).
    Probe,
    /// The flow's policy must be asked.
    Policy,
    /// A window of rate control ends or is evaluated.
    RateControl,
    /// A report to the controller of an object, or a repeated message to it.
    Report,
}

/// When a transport wants to be called, and why.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Deadline {
    /// When.
    pub at: Instant,
    /// Which of its timers it belongs to.
    pub why: Timer,
}

/// One side of one flow.
///
/// A transport whose driver only carries packets asks nothing. Its `Request` and `Answer` are [`Infallible`], which has
/// no values. [`any`] names the transports that ask.
pub trait Transport {
    /// Its requests to the driver.
    type Request: Copy + PartialEq + Debug;

    /// The driver's answers.
    type Answer: Copy + PartialEq + Debug;

    /// A packet for this side arrived. `sack` holds its SACK blocks, if any.
    fn handle_packet(&mut self, now: Instant, packet: &Packet, sack: &SackBlocks);

    /// A command of the application, or an answer of the driver.
    fn handle_command(&mut self, now: Instant, command: Command<Self::Answer>);

    /// The deadline of [`poll_timeout`](Self::poll_timeout) has passed. An early call does nothing.
    fn handle_timeout(&mut self, now: Instant);

    /// Packets take another path from now on (RFC 9000 section 9.4). What was learnt of the old path, above all the
    /// congestion window, does not apply to it. Default: nothing, for transports that know nothing of the path, as
    /// where the receiver's credits set the pace.
    fn handle_new_path(&mut self, _now: Instant) {}

    /// The next packet to send now, if any.
    fn poll_transmit(&mut self, now: Instant) -> Option<Packet>;

    /// The attachment of the packet that `poll_transmit` gave last, if [it has one](Packet::has_attachment).
    fn sack_blocks(&self) -> &SackBlocks {
        &SackBlocks::EMPTY
    }

    /// The next event for the application, if any.
    fn poll_event(&mut self) -> Option<Event<Self::Request>>;

    /// When to call [`handle_timeout`](Self::handle_timeout).
    fn poll_timeout(&self) -> Option<Deadline>;

    /// Bytes that `Command::Send` would accept now. Bytes beyond them are not accepted.
    fn send_space(&self) -> u64 {
        u64::MAX
    }

    /// Bytes that were given and not sent yet, by a transport that counts them (sender). Others say zero.
    fn unsent(&self) -> u64 {
        0
    }

    /// The counters so far.
    fn statistics(&self) -> Statistics;

    /// The policy that bends the flow, if it has one (sender).
    fn policy(&self) -> Option<&Policy> {
        None
    }

    /// The state of its window, if it has one (sender).
    fn window_state(&self) -> Option<WindowState> {
        None
    }

    /// Whether it measures how far apart the network brings its packets, so that none may be joined with another for segmentation
    /// offload (sender).
    fn measures_gaps(&self) -> bool {
        false
    }

    /// The rate of payload that a normal flow would have in its place, if its congestion controller estimates it (sender).
    fn normal_rate(&self) -> Option<Rate> {
        None
    }
}

impl<T: Transport + ?Sized> Transport for Box<T> {
    type Request = T::Request;
    type Answer = T::Answer;

    fn handle_packet(&mut self, now: Instant, packet: &Packet, sack: &SackBlocks) {
        (**self).handle_packet(now, packet, sack);
    }

    fn handle_command(&mut self, now: Instant, command: Command<T::Answer>) {
        (**self).handle_command(now, command);
    }

    fn handle_timeout(&mut self, now: Instant) {
        (**self).handle_timeout(now);
    }

    fn handle_new_path(&mut self, now: Instant) {
        (**self).handle_new_path(now);
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Packet> {
        (**self).poll_transmit(now)
    }

    fn sack_blocks(&self) -> &SackBlocks {
        (**self).sack_blocks()
    }

    fn poll_event(&mut self) -> Option<Event<T::Request>> {
        (**self).poll_event()
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        (**self).poll_timeout()
    }

    fn send_space(&self) -> u64 {
        (**self).send_space()
    }

    fn unsent(&self) -> u64 {
        (**self).unsent()
    }

    fn statistics(&self) -> Statistics {
        (**self).statistics()
    }

    fn policy(&self) -> Option<&Policy> {
        (**self).policy()
    }

    fn window_state(&self) -> Option<WindowState> {
        (**self).window_state()
    }

    fn measures_gaps(&self) -> bool {
        (**self).measures_gaps()
    }

    fn normal_rate(&self) -> Option<Rate> {
        (**self).normal_rate()
    }
}

/// The state of a sender's window.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct WindowState {
    /// The congestion window, in full packets.
    pub packets: f64,
    /// Estimated fraction of marked packets, for controllers that estimate it.
    pub alpha: Option<f64>,
    /// Smoothed round-trip time; zero before the first sample.
    pub rtt: Span,
}

/// Takes the outputs of a transport whose requests are of type `R`.
pub trait Outlet<R> {
    /// Sends a packet. `sack` are its attached blocks, empty for most.
    fn transmit(&mut self, packet: Packet, sack: &SackBlocks);
    /// Passes an event to the application, or a request to the driver.
    fn event(&mut self, event: Event<R>);
    /// Sets the one deadline of this transport.
    fn arm(&mut self, deadline: Option<Deadline>);
}

/// Polls a transport until it has no more output. Call it after every `handle_*`.
#[inline]
pub fn drain<T: Transport>(transport: &mut T, now: Instant, outlet: &mut impl Outlet<T::Request>) {
    while let Some(packet) = transport.poll_transmit(now) {
        outlet.transmit(packet, if packet.has_attachment() { transport.sack_blocks() } else { &SackBlocks::EMPTY });
    }
    while let Some(event) = transport.poll_event() {
        outlet.event(event);
    }
    outlet.arm(transport.poll_timeout());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every field that can change under a flow is told; no bound is zero, or endless.
    #[test]
    fn a_contract_is_told_by_commands() {
        let contract = Contract { min_share: 0.5, max_rate: Some(Rate::from_gbit_per_sec(1)), ..Contract::default() };
        let expected: [Command; 5] = [
            Command::SetWeight(1.0),
            Command::SetMinShare(0.5),
            Command::SetMinRate(Rate::default()),
            Command::SetMaxRate(Rate::from_gbit_per_sec(1)),
            Command::SetDoneBy(Span::MAX),
        ];
        assert!(Command::of_contract(&contract).eq(expected));
        assert!(expected.starts_with(&Command::of_bounds(&contract)));
    }
}
