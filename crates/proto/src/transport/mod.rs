//! Transports: one side of one flow, as a machine.
//!
//! A driver feeds a transport with `handle_packet`, `handle_command` and `handle_timeout`, and after each calls
//! [`drain`], which polls in a fixed order until nothing is left: packets to send, events for the application, the
//! next deadline. The simulator, the UDP runtime and the tests all use the one `drain`.

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
pub mod tcp;
pub mod udp;

use self::near_opt::{OracleRequest, PacketFate};
use self::push::{ToController, ToReceiver, ToSource};
use crate::contract::policy::{Policy, PolicyCounts};
use crate::host::HostRequest;
use crate::packet::{ByteRange, Packet, SackBlocks};
use crate::time::{Instant, Span};
use crate::units::Rate;

/// What the application, or an oracle, tells a transport.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Command {
    /// `bytes` more bytes are there to be sent.
    Send {
        /// How many.
        bytes: u64,
    },
    /// Another message of so many bytes is there to be sent. To a transport of byte streams, more bytes.
    SendMessage {
        /// How many.
        bytes: u32,
    },
    /// The flow will have so many messages; a transport that may leave some out need not wait for all of them.
    AnnounceMessages {
        /// How many.
        messages: u32,
    },
    /// Nothing follows the bytes given so far.
    Finish,
    /// The application has taken `bytes` delivered bytes out of the receive buffer. Without it the buffer fills.
    Consume {
        /// How many.
        bytes: u64,
    },
    /// The flow's weight is now this.
    SetWeight(f64),
    /// An oracle's answer to `OracleRequest::FollowRate`: from now on the flow sends at this rate, on the wire. Zero
    /// stops it.
    SetRate(Rate),
    /// An oracle's answer to `OracleRequest::Fate`.
    Fate {
        /// First byte of the data packet asked about.
        seq: u64,
        /// What became of it.
        fate: PacketFate,
    },
    /// The controller of an object orders one of its sources.
    Push(ToSource),
    /// The controller of an object answers its receiver.
    PushReceiver(ToReceiver),
    /// The host's answer to `HostRequest::PullTurn` or `SendTurn`: it is this flow's turn.
    Turn,
    /// The host's answer to `HostRequest::Grants`.
    Grant {
        /// Bytes of the message that may be sent.
        end: u64,
        /// Level of priority for them, from 0.
        level: u8,
    },
    /// The object that the flow brings a part of is complete: another of its flows has brought the rest.
    ObjectComplete,
}

impl Command {
    /// Bytes that it hands over to a transport of byte streams.
    pub const fn bytes(&self) -> Option<u64> {
        match *self {
            Self::Send { bytes } => Some(bytes),
            Self::SendMessage { bytes } => Some(bytes as u64),
            _ => None,
        }
    }
}

/// What a transport tells the application, or asks an oracle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// A connection stands; data may flow.
    Connected,
    /// These bytes arrived, in order, each exactly once.
    Deliver(ByteRange),
    /// A whole message arrived, in any order, each exactly once.
    DeliverMessage {
        /// Which, from 0.
        message: u32,
        /// Its bytes.
        bytes: u32,
    },
    /// The sender leaves this message out for good; it has sent nothing of it.
    GiveUp {
        /// Which, from 0.
        message: u32,
    },
    /// These bytes need not be kept any longer: the peer has them.
    Release(ByteRange),
    /// The peer's last byte was delivered, or the peer has closed a flow of messages.
    Received,
    /// Everything was sent and acknowledged (sender).
    Finished,
    /// A question to an oracle, for drivers that have one.
    Ask(OracleRequest),
    /// A symbol arrived that its block still needed.
    DeliverSymbol {
        /// Bytes that it stands for; all symbols that are told of make the object.
        bytes: u32,
    },
    /// The symbols that have come of this block of an object may decode it: worth an attempt, and another each time that
    /// it is said again.
    Decode {
        /// Which, from 0.
        block: u32,
    },
    /// A message to the controller of an object.
    ToController(ToController),
    /// A request to what all flows of the host share.
    AskHost(HostRequest),
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
    /// Next probe of the queue above, or too long a silence about it (cross-queue congestion notification).
    Probe,
    /// The flow's policy wants to be asked.
    Policy,
    /// A window of rate control ends or is judged.
    RateControl,
    /// A report to the controller of an object, or a message to it again.
    Report,
}

/// When a transport wants to be called, and why.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Deadline {
    /// When.
    pub at: Instant,
    /// Which of its timers it is.
    pub why: Timer,
}

/// What a transport counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Statistics {
    /// Data packets sent, retransmissions included.
    pub packets_sent: u64,
    /// Payload bytes sent, retransmissions included.
    pub bytes_sent: u64,
    /// Data packets sent again.
    pub retransmissions: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Times that loss recovery began without a timeout.
    pub fast_recoveries: u64,
    /// Data packets that arrived marked CE (receiver), or acknowledgements with ECE (sender).
    pub marks: u64,
    /// Payload bytes that arrived more than once (receiver).
    pub duplicate_bytes: u64,
    /// Credits sent (receiver).
    pub credits_sent: u64,
    /// Credits that came when there was nothing to send (sender).
    pub wasted_credits: u64,
    /// Of the different payload bytes that arrived, those without a credit (receiver).
    pub reactive_bytes: u64,
    /// Largest distance from the next byte expected to the end of what waited beyond it (receiver of two sub-flows).
    pub reorder_bytes: u64,
    /// Packets of an object's symbols that arrived (receiver).
    pub symbols: u64,
    /// Of these, those that were of a block already decoded, or came twice.
    pub excess_symbols: u64,
    /// Blocks of the object that had to be decoded (receiver, at its end towards the first source).
    pub decoded_blocks: u32,
    /// Blocks of the object that needed no decoding.
    pub whole_blocks: u32,
    /// Times that the sender was told to stand still (cross-queue congestion notification).
    pub pauses: u64,
    /// Time for which it stood still, in the pauses that are over.
    pub paused: Span,
    /// Bytes the application gave and the policy decided not to send (sender).
    pub given_up_bytes: u64,
    /// What the policy counted (sender).
    pub policy: PolicyCounts,
}

/// One side of one flow.
pub trait Transport {
    /// A packet for this side arrived; `sack` holds its SACK blocks if it has any.
    fn handle_packet(&mut self, now: Instant, packet: &Packet, sack: &SackBlocks);

    /// The application spoke.
    fn handle_command(&mut self, now: Instant, command: Command);

    /// The deadline of [`poll_timeout`](Self::poll_timeout) has come. Called early it does nothing.
    fn handle_timeout(&mut self, now: Instant);

    /// The next packet to send now, if any.
    fn poll_transmit(&mut self, now: Instant) -> Option<Packet>;

    /// The SACK blocks of the packet that `poll_transmit` gave last, if it [has any](Packet::has_sack).
    fn sack_blocks(&self) -> &SackBlocks {
        &SackBlocks::EMPTY
    }

    /// The next event for the application, if any.
    fn poll_event(&mut self) -> Option<Event>;

    /// When to call [`handle_timeout`](Self::handle_timeout).
    fn poll_timeout(&self) -> Option<Deadline>;

    /// Bytes that `Command::Send` would take now; what exceeds them is not taken.
    fn send_space(&self) -> u64 {
        u64::MAX
    }

    /// What was counted so far.
    fn statistics(&self) -> Statistics;

    /// The policy that bends the flow, if it has one (sender).
    fn policy(&self) -> Option<&Policy> {
        None
    }

    /// How its window stands, if it has one (sender).
    fn window_state(&self) -> Option<WindowState> {
        None
    }
}

/// How a sender's window stands.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct WindowState {
    /// The congestion window, in full packets.
    pub packets: f64,
    /// Estimated fraction of marked packets, of controllers that have one.
    pub alpha: Option<f64>,
    /// Smoothed round-trip time; zero before the first sample.
    pub rtt: Span,
}

/// Where a driver takes a transport's outputs.
pub trait Outlet {
    /// Sends a packet; `sack` are the blocks that travel beside it, empty for most.
    fn transmit(&mut self, packet: Packet, sack: &SackBlocks);
    /// Passes an event to the application.
    fn event(&mut self, event: Event);
    /// Sets the one deadline of this transport.
    fn arm(&mut self, deadline: Option<Deadline>);
}

/// Polls a transport until it has nothing more to say. Call it after every `handle_*`.
#[inline]
pub fn drain<T: Transport>(transport: &mut T, now: Instant, outlet: &mut impl Outlet) {
    while let Some(packet) = transport.poll_transmit(now) {
        outlet.transmit(packet, if packet.has_sack() { transport.sack_blocks() } else { &SackBlocks::EMPTY });
    }
    while let Some(event) = transport.poll_event() {
        outlet.event(event);
    }
    outlet.arm(transport.poll_timeout());
}
