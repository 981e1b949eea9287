//! The one packet type: what a transport emits, a switch port judges and a driver carries.
//!
//! A [`Packet`] is `Copy` and 32 bytes, two to a cache line: a hop reads and writes it once. Payload is a range of the
//! flow's byte stream, never bytes; SACK blocks, which few packets need, travel beside it.

use core::fmt;

use crate::time::{Instant, OneWayDelay};

pub use self::credit::{CreditStamp, ShortTime, Subflow};

mod credit;

/// A half-open range `start..end` of a flow's byte stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, PartialOrd, Ord, Hash)]
pub struct ByteRange {
    /// First byte.
    pub start: u64,
    /// One past the last byte.
    pub end: u64,
}

impl ByteRange {
    /// The range `start..end`.
    #[inline]
    pub const fn new(start: u64, end: u64) -> Self {
        Self { start, end }
    }

    /// Number of bytes.
    #[inline]
    pub const fn len(self) -> u64 {
        self.end.saturating_sub(self.start)
    }

    /// Whether it holds no byte.
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.start >= self.end
    }
}

/// Which side of a flow: the one that opened it, or the one that answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Side {
    /// Opened the flow; sends its data.
    Initiator,
    /// Receives the flow's data.
    Responder,
}

/// One side of one flow, in 32 bits: the address that a packet carries. Drivers give out the flow numbers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash, Default)]
pub struct EndpointId(u32);

impl EndpointId {
    /// Largest flow number.
    pub const MAX_FLOW: u32 = u32::MAX >> 1;

    /// The endpoint on `side` of flow number `flow`.
    #[inline]
    pub const fn new(flow: u32, side: Side) -> Self {
        assert!(flow <= Self::MAX_FLOW);
        Self(flow << 1 | matches!(side, Side::Responder) as u32)
    }

    /// The endpoint with this [`EndpointId::index`].
    #[inline]
    pub const fn from_index(index: u32) -> Self {
        Self(index)
    }

    /// The flow's number.
    #[inline]
    pub const fn flow(self) -> u32 {
        self.0 >> 1
    }

    /// Which side of the flow.
    #[inline]
    pub const fn side(self) -> Side {
        if self.0 & 1 == 0 { Side::Initiator } else { Side::Responder }
    }

    /// The other side of the same flow.
    #[inline]
    pub const fn peer(self) -> Self {
        Self(self.0 ^ 1)
    }

    /// `2 * flow + side`: dense, for tables with one entry per endpoint.
    #[inline]
    pub const fn index(self) -> u32 {
        self.0
    }
}

/// The ECN codepoint of an IP header (RFC 3168 section 5).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Default)]
#[repr(u8)]
pub enum Ecn {
    /// Not ECN-capable: congestion drops it.
    #[default]
    NotEct = 0b00,
    /// ECN-capable, codepoint ECT(1).
    Ect1 = 0b01,
    /// ECN-capable, codepoint ECT(0): what senders here use.
    Ect0 = 0b10,
    /// Congestion experienced.
    Ce = 0b11,
}

/// Number of traffic classes a packet can name.
pub const CLASSES: usize = 32;

/// The octet every queue looks at: traffic class (5 bits), drop colour (1 bit), ECN (2 bits). It maps one to one to
/// the IP header's DSCP and ECN fields.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Default)]
pub struct TrafficClass(u8);

impl TrafficClass {
    const RED: u8 = 0b100;

    /// Class number `class` (below [`CLASSES`]), green, not ECN-capable.
    #[inline]
    pub const fn new(class: u8) -> Self {
        assert!((class as usize) < CLASSES);
        Self(class << 3)
    }

    /// The octet, as it stands in the IP header's traffic class field.
    #[inline]
    pub const fn octet(self) -> u8 {
        self.0
    }

    /// The traffic class in an IP header's octet; every octet is one.
    #[inline]
    pub const fn from_octet(octet: u8) -> Self {
        Self(octet)
    }

    /// The class number, which a queue plan maps to a queue.
    #[inline]
    pub const fn class(self) -> usize {
        (self.0 >> 3) as usize
    }

    /// Whether a colour-aware dropper may drop it first.
    #[inline]
    pub const fn is_red(self) -> bool {
        self.0 & Self::RED != 0
    }

    /// The same class, red (dropped first) or green.
    #[inline]
    pub const fn with_red(self, red: bool) -> Self {
        if red { Self(self.0 | Self::RED) } else { Self(self.0 & !Self::RED) }
    }

    /// The ECN codepoint.
    #[inline]
    pub const fn ecn(self) -> Ecn {
        match self.0 & 0b11 {
            0b00 => Ecn::NotEct,
            0b01 => Ecn::Ect1,
            0b10 => Ecn::Ect0,
            _ => Ecn::Ce,
        }
    }

    /// The same class and colour with another ECN codepoint.
    #[inline]
    pub const fn with_ecn(self, ecn: Ecn) -> Self {
        Self(self.0 & !0b11 | ecn as u8)
    }

    /// Whether a switch may mark it.
    #[inline]
    pub const fn is_ect(self) -> bool {
        self.0 & 0b11 != 0
    }
}

/// Flags of a data packet or an acknowledgement.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub struct Flags(u8);

impl Flags {
    /// No flag.
    pub const NONE: Self = Self(0);
    /// Data: the stream ends with this packet's last byte.
    pub const FIN: Self = Self(1);
    /// Data: the sender has reduced its window (RFC 3168).
    pub const CWR: Self = Self(2);
    /// Data: sent before; its timestamp still measures this transmission.
    pub const RETRANSMISSION: Self = Self(4);
    /// Acknowledgement, answer to a probe: echoes a congestion mark (RFC 3168, RFC 8257).
    pub const ECE: Self = Self(8);
    /// Acknowledgement: SACK blocks travel beside the packet.
    pub const SACK: Self = Self(16);
    /// Acknowledgement: its first SACK block reports a duplicate (RFC 2883).
    pub const DSACK: Self = Self(32);
    /// Data: asks for the delay of this packet. Acknowledgement: reports one ([`Packet::delay`]).
    pub const DELAY: Self = Self(64);
    /// Message or its acknowledgement: of the backup sub-flow, which counts its packets by itself.
    pub const BACKUP: Self = Self(128);
    /// Pulled data: a switch has cut the payload off. Its answer: what arrived was so cut.
    pub const TRIMMED: Self = Self(16);
    /// Pulled data: cut off and on its way back to its sender.
    pub const RETURNED: Self = Self(32);

    /// Whether every flag of `other` is set.
    #[inline]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// These flags and those of `other`.
    #[inline]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// These flags and `other` if `on`.
    #[inline]
    pub const fn with_if(self, other: Self, on: bool) -> Self {
        if on { self.with(other) } else { self }
    }

    /// As one octet.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// From one octet; every bit is a flag.
    pub const fn from_bits(bits: u8) -> Self {
        Self(bits)
    }
}

/// What a packet says, as [`Packet::body`] reads it.
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
        /// FIN, CWR, RETRANSMISSION, DELAY.
        flags: Flags,
    },
    /// Acknowledges everything below `ack`.
    Ack {
        /// Next byte expected.
        ack: u64,
        /// `sent_at` of the data packet that this answers (RFC 7323 rules); `None` where there is none.
        echo: Option<Instant>,
        /// Receive window in units of [`WINDOW_UNIT`] bytes; [`WINDOW_UNLIMITED`] is no limit.
        window: u16,
        /// ECE, SACK, DSACK, DELAY.
        flags: Flags,
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
        flags: Flags,
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
        /// BACKUP.
        flags: Flags,
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
        flags: Flags,
    },
    /// Data that was sent on a credit.
    Scheduled {
        /// Offset of the first byte in the flow's stream.
        seq: u64,
        /// Number of the packet in its sub-flow, modulo 2³².
        number: u32,
        /// The credit.
        credit: CreditStamp,
        /// Payload bytes.
        len: u16,
        /// FIN, CWR, RETRANSMISSION.
        flags: Flags,
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
        flags: Flags,
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
        flags: Flags,
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
    /// Data that its receiver pulls, and of which a switch without room for it keeps the header ([`Packet::trim`]).
    Pulled {
        /// Offset of the first byte in the flow's stream; of coded data the number of the symbol.
        seq: u64,
        /// When the sender sent it, on the sender's clock.
        sent_at: Instant,
        /// Payload bytes, also after they were cut off.
        len: u16,
        /// FIN, RETRANSMISSION, TRIMMED, RETURNED.
        flags: Flags,
    },
    /// Answers a packet of pulled data.
    PulledAck {
        /// `seq` of the packet.
        seq: u64,
        /// `sent_at` of the packet.
        echo: Instant,
        /// TRIMMED: only its header arrived. FIN: the receiver has all that it needs.
        flags: Flags,
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
        flags: Flags,
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
        /// ECE.
        flags: Flags,
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
        flags: Flags,
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
        /// FIN: the object is complete. Then the other fields may say nothing.
        flags: Flags,
    },
}

/// In [`Body::SymbolAck`]: no symbol is claimed.
pub const NO_CLAIM: u32 = u32::MAX;

/// Bytes per unit of the advertised window (window scale 8, RFC 7323).
pub const WINDOW_UNIT: u64 = 256;
/// Advertised by a receiver without a buffer limit.
pub const WINDOW_UNLIMITED: u16 = u16::MAX;

/// One packet.
///
/// Its body is stored flat and read through [`Packet::body`]: as an enum in place, every move of a packet would be
/// split around the enum's tag, which cost a fifth of the simulator's speed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Packet {
    /// The endpoint it goes to. The driver writes it; a transport does not know its own number.
    pub to: EndpointId,
    /// Bytes it takes on the wire, headers and framing included.
    pub wire_bytes: u16,
    /// What queues look at.
    pub traffic_class: TrafficClass,
    /// Ports passed so far; drivers count it.
    pub hops: u8,
    /// `seq` or `ack`; message and fragment; block and symbol; `received` and `claim`; a count of messages; `backlog` or `end`.
    offset: u64,
    /// `sent_at` or `echo`, zero for none; number and priority; number and `complete`; a credit; a run of packets.
    stamp: u64,
    /// The driver's handle for SACK blocks; in an acknowledgement without any, the one-way delay; `length`; a number in a
    /// sub-flow; `needed`.
    attachment: u32,
    /// `len`, `window` or `marks`; which sub-flow.
    amount: u16,
    flags: Flags,
    kind: u8,
}

/// Values of [`Packet::kind`].
mod kind {
    pub(super) const DATA: u8 = 0;
    pub(super) const ACK: u8 = 1;
    pub(super) const SYN: u8 = 2;
    pub(super) const SYN_ACK: u8 = 3;
    pub(super) const PROBE: u8 = 4;
    pub(super) const PROBE_ECHO: u8 = 5;
    pub(super) const MESSAGE: u8 = 6;
    pub(super) const MESSAGE_ACK: u8 = 7;
    pub(super) const CLOSE: u8 = 8;
    pub(super) const CLOSE_ACK: u8 = 9;
    pub(super) const CREDIT_REQUEST: u8 = 10;
    pub(super) const CREDIT: u8 = 11;
    pub(super) const CREDIT_STOP: u8 = 12;
    pub(super) const SCHEDULED: u8 = 13;
    pub(super) const UNSCHEDULED: u8 = 14;
    pub(super) const SUBFLOW_ACK: u8 = 15;
    pub(super) const SYMBOL: u8 = 16;
    pub(super) const SYMBOL_ACK: u8 = 17;
    pub(super) const DATAGRAM: u8 = 24;
    pub(super) const ACK_VECTOR: u8 = 25;
    pub(super) const PULLED: u8 = 26;
    pub(super) const PULLED_ACK: u8 = 27;
    pub(super) const PULL: u8 = 28;
    pub(super) const HOMA_DATA: u8 = 29;
    pub(super) const GRANT: u8 = 30;
    pub(super) const RESEND: u8 = 31;
    pub(super) const BUSY: u8 = 32;
    pub(super) const DONE: u8 = 33;
}

/// Two halves of a field.
const fn join(high: u32, low: u32) -> u64 {
    (high as u64) << 32 | low as u64
}

impl Packet {
    /// A packet as a transport makes it: the driver adds the destination.
    // Where the kind is known little is left of it.
    #[inline(always)]
    pub const fn new(traffic_class: TrafficClass, wire_bytes: u16, body: Body) -> Self {
        let (kind, offset, stamp, amount, flags) = match body {
            Body::Data { seq, sent_at, len, flags } => (kind::DATA, seq, sent_at.to_bits(), len, flags),
            Body::Ack { ack, echo, window, flags } => (kind::ACK, ack, Instant::option_to_bits(echo), window, flags),
            Body::Syn { sent_at } => (kind::SYN, 0, sent_at.to_bits(), 0, Flags::NONE),
            Body::SynAck { echo, window } => (kind::SYN_ACK, 0, echo.to_bits(), window, Flags::NONE),
            Body::Probe { sent_at } => (kind::PROBE, 0, sent_at.to_bits(), 0, Flags::NONE),
            Body::ProbeEcho { echo, marked } => {
                let flags = if marked { Flags::ECE } else { Flags::NONE };
                (kind::PROBE_ECHO, 0, echo.to_bits(), 0, flags)
            }
            Body::Message { number, message, fragment, priority, len, flags, .. } => {
                (kind::MESSAGE, join(message, fragment), join(number, priority), len, flags)
            }
            Body::MessageAck { number, received, complete, marks, flags } => {
                (kind::MESSAGE_ACK, received, join(number, complete), marks, flags)
            }
            Body::Close { messages } => (kind::CLOSE, messages as u64, 0, 0, Flags::NONE),
            Body::CloseAck { complete } => (kind::CLOSE_ACK, complete as u64, 0, 0, Flags::NONE),
            Body::CreditRequest { sent_at, backlog } => {
                (kind::CREDIT_REQUEST, backlog, sent_at.to_bits(), 0, Flags::NONE)
            }
            Body::Credit(stamp) => (kind::CREDIT, 0, stamp.to_bits(), 0, Flags::NONE),
            Body::CreditStop { end, flags } => (kind::CREDIT_STOP, end, 0, 0, flags),
            Body::Scheduled { seq, credit, len, flags, .. } => (kind::SCHEDULED, seq, credit.to_bits(), len, flags),
            Body::Unscheduled { seq, len, flags, .. } => (kind::UNSCHEDULED, seq, 0, len, flags),
            Body::Datagram { seq, number, ack_ratio, len, flags } => {
                (kind::DATAGRAM, seq, join(number, ack_ratio as u32), len, flags)
            }
            Body::AckVector { number, received, marked, count } => {
                (kind::ACK_VECTOR, received, join(number, marked), count, Flags::NONE)
            }
            Body::Pulled { seq, sent_at, len, flags } => (kind::PULLED, seq, sent_at.to_bits(), len, flags),
            Body::PulledAck { seq, echo, flags } => (kind::PULLED_ACK, seq, echo.to_bits(), 0, flags),
            Body::Pull { count } => (kind::PULL, count as u64, 0, 0, Flags::NONE),
            Body::HomaData { seq, size, len, flags } => (kind::HOMA_DATA, seq, size, len, flags),
            Body::Grant { end, level } => (kind::GRANT, end, 0, level as u16, Flags::NONE),
            Body::Resend { range, level } => (kind::RESEND, range.start, range.end, level as u16, Flags::NONE),
            Body::Busy => (kind::BUSY, 0, 0, 0, Flags::NONE),
            Body::Done => (kind::DONE, 0, 0, 0, Flags::NONE),
            Body::SubflowAck { ack, first, end, subflow, flags } => {
                (kind::SUBFLOW_ACK, ack, join(first, end), subflow as u16, flags)
            }
            Body::Symbol { number, block, symbol, len, flags } => {
                (kind::SYMBOL, join(block, symbol), join(number, 0), len, flags)
            }
            Body::SymbolAck { number, received, decoded, claim, marks, flags, .. } => {
                (kind::SYMBOL_ACK, join(received, claim), join(number, decoded), marks, flags)
            }
        };
        let attachment = match body {
            Body::Message { length, .. } => length,
            Body::Scheduled { number, .. } | Body::Unscheduled { number, .. } => number,
            Body::SymbolAck { needed, .. } => needed,
            _ => 0,
        };
        Self { to: EndpointId(0), wire_bytes, traffic_class, hops: 0, offset, stamp, attachment, amount, flags, kind }
    }

    /// The same packet, addressed.
    #[inline]
    #[must_use]
    pub const fn to(mut self, to: EndpointId) -> Self {
        self.to = to;
        self
    }

    /// What it says.
    #[inline]
    pub const fn body(&self) -> Body {
        let Self { offset, amount, flags, .. } = *self;
        let echo = Instant::option_from_bits(self.stamp);
        let sent_at = match echo {
            Some(at) => at,
            None => Instant::ZERO,
        };
        match self.kind {
            kind::DATA => Body::Data { seq: offset, sent_at, len: amount, flags },
            kind::ACK => Body::Ack { ack: offset, echo, window: amount, flags },
            kind::SYN => Body::Syn { sent_at },
            kind::SYN_ACK => Body::SynAck { echo: sent_at, window: amount },
            kind::PROBE => Body::Probe { sent_at },
            kind::PROBE_ECHO => Body::ProbeEcho { echo: sent_at, marked: flags.contains(Flags::ECE) },
            kind::MESSAGE => Body::Message {
                number: (self.stamp >> 32) as u32,
                message: (offset >> 32) as u32,
                fragment: offset as u32,
                length: self.attachment,
                priority: self.stamp as u32,
                len: amount,
                flags,
            },
            kind::MESSAGE_ACK => Body::MessageAck {
                number: (self.stamp >> 32) as u32,
                received: offset,
                complete: self.stamp as u32,
                marks: amount,
                flags,
            },
            kind::CLOSE => Body::Close { messages: offset as u32 },
            kind::CLOSE_ACK => Body::CloseAck { complete: offset as u32 },
            kind::SYMBOL => Body::Symbol {
                number: (self.stamp >> 32) as u32,
                block: (offset >> 32) as u32,
                symbol: offset as u32,
                len: amount,
                flags,
            },
            kind::SYMBOL_ACK => Body::SymbolAck {
                number: (self.stamp >> 32) as u32,
                received: (offset >> 32) as u32,
                decoded: self.stamp as u32,
                needed: self.attachment,
                claim: offset as u32,
                marks: amount,
                flags,
            },
            _ => self.rare_body(sent_at),
        }
    }

    /// The body of a kind that few transports have.
    #[inline]
    const fn rare_body(&self, sent_at: Instant) -> Body {
        let Self { offset, stamp, attachment: number, amount, flags, .. } = *self;
        let credit = CreditStamp::from_bits(stamp);
        match self.kind {
            kind::CREDIT_REQUEST => Body::CreditRequest { sent_at, backlog: offset },
            kind::CREDIT => Body::Credit(credit),
            kind::CREDIT_STOP => Body::CreditStop { end: offset, flags },
            kind::SCHEDULED => Body::Scheduled { seq: offset, number, credit, len: amount, flags },
            kind::UNSCHEDULED => Body::Unscheduled { seq: offset, number, len: amount, flags },
            kind::DATAGRAM => Body::Datagram {
                seq: offset,
                number: (stamp >> 32) as u32,
                ack_ratio: stamp as u16,
                len: amount,
                flags,
            },
            kind::ACK_VECTOR => {
                Body::AckVector { number: (stamp >> 32) as u32, received: offset, marked: stamp as u32, count: amount }
            }
            kind::PULLED => Body::Pulled { seq: offset, sent_at, len: amount, flags },
            kind::PULLED_ACK => Body::PulledAck { seq: offset, echo: sent_at, flags },
            kind::PULL => Body::Pull { count: offset as u32 },
            kind::HOMA_DATA => Body::HomaData { seq: offset, size: stamp, len: amount, flags },
            kind::GRANT => Body::Grant { end: offset, level: amount as u8 },
            kind::RESEND => Body::Resend { range: ByteRange::new(offset, stamp), level: amount as u8 },
            kind::BUSY => Body::Busy,
            kind::DONE => Body::Done,
            _ => {
                let subflow = if amount == 0 { Subflow::Proactive } else { Subflow::Reactive };
                let (first, end) = ((stamp >> 32) as u32, stamp as u32);
                Body::SubflowAck { ack: offset, first, end, subflow, flags }
            }
        }
    }

    /// What a [pFabric queue](crate::switch::plan::Discipline::PFabric) sorts by: a message's priority, and 0, the most
    /// urgent, of everything else.
    #[inline]
    pub const fn priority(&self) -> u32 {
        if self.kind == kind::MESSAGE { self.stamp as u32 } else { 0 }
    }

    /// Sets the driver's handle for the SACK blocks that travel beside it.
    #[inline]
    pub const fn set_attachment(&mut self, attachment: u32) {
        self.attachment = attachment;
    }

    /// The driver's handle for the SACK blocks that travel beside it.
    #[inline]
    pub const fn attachment(&self) -> u32 {
        self.attachment
    }

    /// Makes an acknowledgement report the one-way delay of a data packet: in the field that otherwise leads to SACK
    /// blocks, or, if it has some, in `sack`, which holds them.
    #[inline]
    pub const fn set_delay(&mut self, delay: OneWayDelay, sack: &mut SackBlocks) {
        debug_assert!(self.kind == kind::ACK);
        self.flags = self.flags.with(Flags::DELAY);
        if self.has_sack() { sack.delay = delay.to_bits() } else { self.attachment = delay.to_bits() }
    }

    /// The one-way delay that it reports, if it does; `sack` is what travels beside it.
    #[inline]
    pub const fn delay(&self, sack: &SackBlocks) -> Option<OneWayDelay> {
        if self.kind != kind::ACK || !self.flags.contains(Flags::DELAY) {
            return None;
        }
        Some(OneWayDelay::from_bits(if self.has_sack() { sack.delay } else { self.attachment }))
    }

    /// Whether SACK blocks travel beside it.
    #[inline]
    pub const fn has_sack(&self) -> bool {
        self.kind == kind::ACK && self.flags.contains(Flags::SACK)
    }

    /// Whether a switch may [trim](Self::trim) it: pulled data that is still whole.
    #[inline]
    pub const fn is_trimmable(&self) -> bool {
        self.kind == kind::PULLED && !self.flags.contains(Flags::TRIMMED)
    }

    /// Cuts its payload off: what is left has `header_bytes` on the wire and goes in `class` (NDP, SIGCOMM 2017,
    /// section 3.1).
    pub const fn trim(&mut self, header_bytes: u16, class: u8) {
        debug_assert!(self.is_trimmable());
        self.flags = self.flags.with(Flags::TRIMMED);
        self.traffic_class = TrafficClass::new(class);
        if self.wire_bytes > header_bytes {
            self.wire_bytes = header_bytes;
        }
    }

    /// Whether a switch may return it to its sender: trimmed and not returned before.
    #[inline]
    pub const fn is_returnable(&self) -> bool {
        self.kind == kind::PULLED && self.flags.contains(Flags::TRIMMED) && !self.flags.contains(Flags::RETURNED)
    }

    /// Sends it back to its sender from a node on its path of `links` links. The driver queues it there as if it had come
    /// from its receiver.
    pub const fn turn_back(&mut self, links: u8) {
        debug_assert!(self.is_returnable());
        self.flags = self.flags.with(Flags::RETURNED);
        self.to = self.to.peer();
        self.hops = links - self.hops;
    }

    /// Payload bytes.
    #[inline]
    pub const fn payload(&self) -> u16 {
        let carries = match self.kind {
            kind::DATA
            | kind::MESSAGE
            | kind::SCHEDULED
            | kind::UNSCHEDULED
            | kind::SYMBOL
            | kind::DATAGRAM
            | kind::HOMA_DATA => true,
            kind::PULLED => !self.flags.contains(Flags::TRIMMED),
            _ => false,
        };
        if carries { self.amount } else { 0 }
    }
}

impl fmt::Debug for Packet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { to, wire_bytes, traffic_class, .. } = self;
        write!(f, "{:?} to {to:?}, {wire_bytes} B, {traffic_class:?}", self.body())
    }
}

/// Most SACK blocks an acknowledgement carries (RFC 2018: four, three beside timestamps in a TCP header).
pub const MAX_SACK_BLOCKS: usize = 4;

/// The SACK blocks of one acknowledgement, in the order reported: the most recent first (RFC 2018 section 4).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SackBlocks {
    blocks: [ByteRange; MAX_SACK_BLOCKS],
    /// The one-way delay that [`Packet::set_delay`] put here: beside blocks the packet has no room for it.
    delay: u32,
    count: u8,
}

impl SackBlocks {
    /// No blocks.
    pub const EMPTY: Self = Self { blocks: [ByteRange::new(0, 0); MAX_SACK_BLOCKS], delay: 0, count: 0 };

    /// Adds a block after the others; false if all places are taken.
    pub fn push(&mut self, block: ByteRange) -> bool {
        let free = usize::from(self.count) < MAX_SACK_BLOCKS;
        if free {
            self.blocks[usize::from(self.count)] = block;
            self.count += 1;
        }
        free
    }

    /// The blocks.
    pub fn as_slice(&self) -> &[ByteRange] {
        &self.blocks[..usize::from(self.count)]
    }
}

/// How large a payload's packet is on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WireFormat {
    /// Bytes around every payload.
    pub header_bytes: u16,
    /// Bytes that the shortest packet takes.
    pub minimum_bytes: u16,
}

impl WireFormat {
    /// IP and TCP headers only: 1460 bytes of payload make 1500, an acknowledgement 40.
    pub const IP: Self = Self { header_bytes: 40, minimum_bytes: 40 };
    /// As on ns-3's point-to-point links: PPP (2 bytes), IP (20), TCP (20) with the timestamp option (12).
    pub const PPP: Self = Self { header_bytes: 54, minimum_bytes: 54 };
    /// With Ethernet header, FCS, preamble and gap: 1460 bytes of payload make 1538, the shortest frame takes 84.
    pub const ETHERNET: Self = Self { header_bytes: 78, minimum_bytes: 84 };

    /// Bytes on the wire of a packet with `payload` bytes.
    #[inline]
    pub const fn wire_bytes(self, payload: u16) -> u16 {
        let bytes = payload + self.header_bytes;
        if bytes < self.minimum_bytes { self.minimum_bytes } else { bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_packets_share_a_cache_line() {
        assert_eq!(size_of::<Packet>(), 32);
    }

    /// A delay travels with blocks and without, and costs neither the packet nor the blocks a byte.
    #[test]
    fn acknowledgements_report_delays() {
        assert_eq!(size_of::<SackBlocks>(), MAX_SACK_BLOCKS * size_of::<ByteRange>() + 8);
        let delay = OneWayDelay::from_ns(-5);
        for flags in [Flags::ECE, Flags::SACK] {
            let body = |flags| Body::Ack { ack: 7, echo: None, window: 1, flags };
            let mut ack = Packet::new(TrafficClass::default(), 84, body(flags));
            let mut sack = SackBlocks::EMPTY;
            assert_eq!(ack.delay(&sack), None);
            ack.set_delay(delay, &mut sack);
            assert_eq!(ack.body(), body(flags.with(Flags::DELAY)));
            if ack.has_sack() {
                ack.set_attachment(9);
            }
            assert_eq!(ack.delay(&sack), Some(delay));
        }
    }

    #[test]
    fn traffic_class_keeps_its_parts_apart() {
        for octet in 0..=255u8 {
            let class = TrafficClass::from_octet(octet);
            let rebuilt = TrafficClass::new(class.class() as u8).with_red(class.is_red()).with_ecn(class.ecn());
            assert_eq!(rebuilt.octet(), octet);
        }
    }

    #[test]
    fn ethernet_sizes() {
        assert_eq!(WireFormat::ETHERNET.wire_bytes(1460), 1538);
        assert_eq!(WireFormat::ETHERNET.wire_bytes(0), 84);
        assert_eq!(WireFormat::IP.wire_bytes(0), 40);
    }

    #[test]
    fn endpoint_sides_are_peers() {
        let endpoint = EndpointId::new(7, Side::Responder);
        assert_eq!((endpoint.flow(), endpoint.peer().side()), (7, Side::Initiator));
        assert_eq!(endpoint.peer().peer(), endpoint);
    }
}
