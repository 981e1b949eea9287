//! What a packet says.

use super::{ByteRange, CreditStamp, Subflow};
use crate::time::Instant;

/// Makes a set of flags in one octet. Each kind of body has the set that its flags are in, so that the compiler refuses
/// a flag that the body does not have.
macro_rules! flags {
    ($(#[$set_doc:meta])* $set:ident { $($(#[$doc:meta])* $name:ident = $bits:literal,)* }) => {
        $(#[$set_doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
        pub struct $set(u8);

        impl $set {
            /// No flag.
            pub const NONE: Self = Self(0);
            $($(#[$doc])* pub const $name: Self = Self($bits);)*

            /// Whether every flag of `other` is set.
            #[inline]
            pub const fn contains(self, other: Self) -> bool {
                self.0 & other.0 == other.0
            }

            /// Whether any flag of `other` is set.
            #[inline]
            pub const fn intersects(self, other: Self) -> bool {
                self.0 & other.0 != 0
            }

            /// These flags and those of `other`.
            #[inline]
            #[must_use]
            pub const fn with(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }

            /// These flags and `other` if `on`.
            #[inline]
            #[must_use]
            pub const fn with_if(self, other: Self, on: bool) -> Self {
                if on { self.with(other) } else { self }
            }

            /// As one octet.
            pub const fn bits(self) -> u8 {
                self.0
            }

            /// From one octet; a bit without a flag is kept.
            pub const fn from_bits(bits: u8) -> Self {
                Self(bits)
            }
        }
    };
}

flags! {
    /// Flags of a packet with payload, or of one that tells of the payload before it.
    DataFlags {
        /// The stream or the message ends with this packet's last byte.
        FIN = 1,
        /// The sender has reduced its window (RFC 3168).
        CWR = 2,
        /// Sent before; its timestamp still measures this transmission.
        RETRANSMISSION = 4,
        /// The receiver's window had no room for this packet before: a larger one would be used.
        WINDOW_FULL = 8,
        /// Asks for the time for which the receiver holds this packet ([`Packet::hold`](super::Packet::hold)).
        HOLD = 16,
        /// Asks for the delay of this packet ([`Packet::delay`](super::Packet::delay)).
        DELAY = 64,
        /// Of the backup sub-flow, which counts its packets by itself.
        BACKUP = 128,
    }
}

flags! {
    /// Flags of an acknowledgement.
    AckFlags {
        /// Reports for how long the packet was held ([`Packet::hold`](super::Packet::hold)).
        HOLD = 2,
        /// The packet had waited in a busy queue (two classes).
        WAITED = 4,
        /// Echoes a congestion mark (RFC 3168, RFC 8257).
        ECE = 8,
        /// SACK blocks travel beside the packet.
        SACK = 16,
        /// The first SACK block reports a duplicate (RFC 2883).
        DSACK = 32,
        /// Reports a delay ([`Packet::delay`](super::Packet::delay)).
        DELAY = 64,
    }
}

flags! {
    /// Flags of pulled data.
    PulledFlags {
        /// The stream ends with this packet's last byte.
        FIN = 1,
        /// Sent before.
        RETRANSMISSION = 4,
        /// A switch has cut the payload off.
        TRIMMED = 16,
        /// Cut off and on its way back to its sender.
        RETURNED = 32,
    }
}

/// What a packet says, as [`Packet::body`](super::Packet::body) reads it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Body {
    /// Bytes `seq .. seq + len` of the stream; FIN takes one sequence number after them.
    Data {
        /// Offset of the first byte.
        seq: u64,
        /// When the sender sent it, on the sender's clock.
        sent_at: Instant,
        /// Payload bytes.
        len: u16,
        /// FIN, CWR, RETRANSMISSION, HOLD, DELAY.
        flags: DataFlags,
    },
    /// Acknowledges everything below `ack`.
    Ack {
        /// Next byte expected.
        ack: u64,
        /// `sent_at` of the data packet that this answers (RFC 7323 rules); `None` where there is none.
        echo: Option<Instant>,
        /// Receive window in units of [`WINDOW_UNIT`] bytes; [`WINDOW_UNLIMITED`] is no limit.
        window: u16,
        /// HOLD, ECE, SACK, DSACK, DELAY.
        flags: AckFlags,
    },
    /// Asks for a connection.
    Syn {
        /// When it was sent, on the sender's clock.
        sent_at: Instant,
    },
    /// Grants a connection.
    SynAck {
        /// `sent_at` of the request.
        echo: Instant,
        /// The responder's receive window, as in `Ack`.
        window: u16,
    },
    /// Asks how the queue that it goes through stands (cross-queue congestion notification).
    Probe {
        /// When it was sent, on the sender's clock.
        sent_at: Instant,
    },
    /// Answers a probe.
    ProbeEcho {
        /// `sent_at` of the probe.
        echo: Instant,
        /// Whether the probe arrived marked CE.
        marked: bool,
    },
    /// A fragment of a message. All fragments of a message carry equally many bytes; only the last, which has the flag
    /// FIN, may carry fewer.
    Message {
        /// Counts the packets of a sub-flow as they are sent, modulo 2³²; a retransmission has a new number.
        number: u32,
        /// Which message of the flow, from 0.
        message: u32,
        /// Which fragment of the message, from 0.
        fragment: u32,
        /// Bytes of the whole message.
        length: u32,
        /// What a [pFabric queue](crate::switch::plan::Discipline::PFabric) sorts by: the least is the most urgent.
        priority: u32,
        /// Payload bytes.
        len: u16,
        /// FIN, RETRANSMISSION, BACKUP.
        flags: DataFlags,
    },
    /// Acknowledges packets of messages.
    MessageAck {
        /// Number of the packet that this answers.
        number: u32,
        /// Bit `i`: the packet `number - 1 - i` has arrived, too.
        received: u64,
        /// Messages that have arrived whole.
        complete: u32,
        /// Packets of the sub-flow that arrived marked CE, modulo 2¹⁶.
        marks: u16,
        /// Whether the packet was of the backup sub-flow.
        backup: bool,
    },
    /// The sender of messages is done.
    Close {
        /// Messages that the flow had, whether sent or not.
        messages: u32,
    },
    /// Answers `Close`.
    CloseAck {
        /// Messages of the flow that have arrived whole.
        complete: u32,
    },
    /// Asks for credits.
    CreditRequest {
        /// When it was sent, on the sender's clock.
        sent_at: Instant,
        /// Bytes that wait to be sent.
        backlog: u64,
    },
    /// Lets one data packet go.
    Credit(CreditStamp),
    /// Asks for no more credits: everything was sent.
    CreditStop {
        /// One past the last byte sent.
        end: u64,
        /// FIN.
        flags: DataFlags,
    },
    /// Data that was sent on a credit, or at a rate that its sender keeps.
    Scheduled {
        /// Offset of the first byte in the flow's stream.
        seq: u64,
        /// Number of the packet in its sub-flow, modulo 2³².
        number: u32,
        /// The credit; without one, the packet's own number and when it was sent.
        credit: CreditStamp,
        /// Payload bytes.
        len: u16,
        /// FIN, CWR, RETRANSMISSION, HOLD, DELAY.
        flags: DataFlags,
    },
    /// Data that was sent without a credit.
    Unscheduled {
        /// Offset of the first byte in the flow's stream.
        seq: u64,
        /// Number of the packet in its sub-flow, modulo 2³².
        number: u32,
        /// Payload bytes.
        len: u16,
        /// FIN, RETRANSMISSION.
        flags: DataFlags,
    },
    /// Bytes that are never sent again under the same number (DCCP, RFC 4340).
    Datagram {
        /// Offset of the first byte in the flow's stream.
        seq: u64,
        /// Number of the packet, one more than that of the packet before, modulo 2³².
        number: u32,
        /// Packets that one acknowledgement is to answer, at least 1 (RFC 4341 section 6.1).
        ack_ratio: u16,
        /// Payload bytes.
        len: u16,
        /// FIN.
        flags: DataFlags,
    },
    /// Tells which datagrams have arrived, and which of them marked (ack vector, RFC 4340 section 11.4).
    AckVector {
        /// Highest number that has arrived.
        number: u32,
        /// Bit `i`: the packet `number - 1 - i` has arrived, too.
        received: u64,
        /// Bit `i`: the packet `number - i` arrived marked CE.
        marked: u32,
        /// Counts the flow's acknowledgements, modulo 2¹⁶.
        count: u16,
    },
    /// Data that its receiver pulls, and of which a switch without room for it keeps the header ([`Packet::trim`](super::Packet::trim)).
    Pulled {
        /// Offset of the first byte in the flow's stream; of coded data the number of the symbol.
        seq: u64,
        /// When the sender sent it, on the sender's clock.
        sent_at: Instant,
        /// Payload bytes, also after they were cut off.
        len: u16,
        /// FIN, RETRANSMISSION, TRIMMED, RETURNED.
        flags: PulledFlags,
    },
    /// Answers a packet of pulled data.
    PulledAck {
        /// `seq` of the packet.
        seq: u64,
        /// `sent_at` of the packet.
        echo: Instant,
        /// Whether only its header arrived.
        trimmed: bool,
        /// Whether the receiver has all that it needs.
        complete: bool,
    },
    /// Lets packets of pulled data go.
    Pull {
        /// How many in all, modulo 2³²: a pull that is lost is made up for by the next.
        count: u32,
    },
    /// A part of a message (Homa).
    HomaData {
        /// Offset of the first byte in the message.
        seq: u64,
        /// Bytes of the whole message.
        size: u64,
        /// Payload bytes.
        len: u16,
        /// RETRANSMISSION.
        flags: DataFlags,
    },
    /// Lets the bytes of a message below `end` go.
    Grant {
        /// One past the last byte that may be sent.
        end: u64,
        /// Level of priority, from 0.
        level: u8,
    },
    /// Asks for bytes of a message that did not arrive.
    Resend {
        /// Which.
        range: ByteRange,
        /// Level of priority, from 0.
        level: u8,
    },
    /// The message is known, and there is a reason to wait.
    Busy,
    /// The whole message has arrived.
    Done,
    /// Answers a packet of a sub-flow.
    SubflowAck {
        /// Next byte of the flow expected.
        ack: u64,
        /// First packet of the latest run without a gap: zero if none was missing, else this is a selective
        /// acknowledgement.
        first: u32,
        /// One past the last packet of that run.
        end: u32,
        /// Whose packet numbers these are.
        subflow: Subflow,
        /// ECE, WAITED.
        flags: AckFlags,
    },
    /// A coded symbol of a block of an object (push).
    Symbol {
        /// Counts the packets of a push flow as they are sent, modulo 2³².
        number: u32,
        /// Which block of the object, from 0.
        block: u32,
        /// Which symbol of the block (RFC 6330's encoding symbol identifier), below 2²⁴.
        symbol: u32,
        /// Payload bytes.
        len: u16,
        /// RETRANSMISSION.
        flags: DataFlags,
    },
    /// Acknowledges symbols of one push flow.
    SymbolAck {
        /// Number of the packet that this answers.
        number: u32,
        /// Bit `i`: the packet `number - 1 - i` has arrived, too.
        received: u32,
        /// Blocks decoded without a gap: the first one still needed.
        decoded: u32,
        /// Symbols still needed from this sender for the block of the packet answered; zero once it is decoded.
        needed: u32,
        /// A source symbol of that block that any sender may send; [`NO_CLAIM`] for none.
        claim: u32,
        /// Packets of the flow that arrived marked CE, modulo 2¹⁶.
        marks: u16,
        /// Whether the object is complete. Then the other fields may say nothing.
        complete: bool,
    },
}

/// In [`Body::SymbolAck`]: no symbol is claimed.
pub const NO_CLAIM: u32 = u32::MAX;

/// Bytes per unit of the advertised window (window scale 8, RFC 7323).
pub const WINDOW_UNIT: u64 = 256;
/// Advertised by a receiver without a buffer limit.
pub const WINDOW_UNLIMITED: u16 = u16::MAX;
