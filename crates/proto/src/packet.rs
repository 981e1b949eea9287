//! The one packet type: what a transport emits, a switch port judges and a driver carries.
//!
//! A [`Packet`] is `Copy` and 32 bytes, two to a cache line: a hop reads and writes it once. Payload is a range of the
//! flow's byte stream, never bytes; SACK blocks, which few packets need, travel beside it.

use core::fmt;

use crate::time::{Instant, OneWayDelay};

pub use self::body::{Body, Flags, NO_CLAIM, WINDOW_UNIT, WINDOW_UNLIMITED};
pub use self::credit::{CreditStamp, ShortTime, Subflow};
pub use self::endpoint::{EndpointId, Side};
pub use self::sack::{MAX_SACK_BLOCKS, SackBlocks};
pub use self::traffic_class::{CLASSES, Ecn, TrafficClass};

mod body;
mod credit;
mod endpoint;
mod sack;
mod traffic_class;

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
        Self {
            to: EndpointId::from_index(0),
            wire_bytes,
            traffic_class,
            hops: 0,
            offset,
            stamp,
            attachment,
            amount,
            flags,
            kind,
        }
    }

    /// The same packet, addressed.
    #[inline]
    #[must_use]
    pub const fn to(mut self, to: EndpointId) -> Self {
        self.to = to;
        self
    }

    /// What it says.
    #[inline(always)]
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
    fn ethernet_sizes() {
        assert_eq!(WireFormat::ETHERNET.wire_bytes(1460), 1538);
        assert_eq!(WireFormat::ETHERNET.wire_bytes(0), 84);
        assert_eq!(WireFormat::IP.wire_bytes(0), 40);
    }
}
