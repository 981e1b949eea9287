//! The one packet type: what a transport emits, a switch port judges and a driver carries.
//!
//! A [`Packet`] is `Copy` and 32 bytes, two to a cache line: a hop reads and writes it once. Payload is a range of the
//! flow's byte stream, never bytes; SACK blocks, which few packets need, travel beside it.

use core::fmt;

use crate::time::{Instant, OneWayDelay, Span};

pub use self::body::{AckFlags, Body, DataFlags, NO_CLAIM, PulledFlags, WINDOW_UNIT, WINDOW_UNLIMITED};
pub use self::byte_range::ByteRange;
pub use self::credit::{CreditStamp, ShortTime, Subflow};
pub use self::endpoint::{EndpointId, Side};
pub use self::sack::{MAX_SACK_BLOCKS, SackBlocks};
pub use self::traffic_class::{CLASSES, Ecn, TrafficClass};

mod body;
mod byte_range;
mod credit;
mod endpoint;
mod sack;
mod traffic_class;

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
    /// The driver's handle for what travels beside it; in an acknowledgement without, the one-way delay; `length`; a number in a
    /// sub-flow; `needed`.
    attachment: u32,
    /// `len`, `window` or `marks`; which sub-flow.
    amount: u16,
    /// Flags, in the set of its kind; whether a probe was marked; what an acknowledgement answers.
    flags: u8,
    /// A [`Kind`] by its number: as an enum it would leave room for the tag of an `Option`, around which a move would be
    /// split.
    kind: u8,
}

/// Makes the kinds of packets from their list.
macro_rules! kinds {
    ($($name:ident),* $(,)?) => {
        /// Which [`Body`] a packet has.
        #[derive(Clone, Copy)]
        #[repr(u8)]
        enum Kind {
            $($name,)*
        }

        impl Kind {
            /// From its number, which is one.
            #[inline(always)]
            const fn from_number(number: u8) -> Self {
                match number {
                    $(_ if number == Self::$name as u8 => Self::$name,)*
                    _ => Self::Done,
                }
            }
        }
    };
}

kinds! {
    Data, Ack, Syn, SynAck, Probe, ProbeEcho, Message, MessageAck, Close, CloseAck, CreditRequest, Credit, CreditStop, Scheduled, Unscheduled, SubflowAck, Symbol, SymbolAck, Datagram, AckVector, Pulled, PulledAck, Pull, HomaData, Grant, Resend, Busy, Done,
}

/// What an answer to a probe says in [`Packet::flags`]: it was marked.
const MARKED: u8 = 8;
/// What an acknowledgement says there: its packet was of the backup sub-flow.
const BACKUP: u8 = 128;
/// What an acknowledgement says there: only a header arrived.
const TRIMMED: u8 = 16;
/// What an acknowledgement says there: nothing more is needed.
const COMPLETE: u8 = 1;

/// `bit` if `on`.
const fn bit_if(bit: u8, on: bool) -> u8 {
    if on { bit } else { 0 }
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
        let (kind, offset, stamp, attachment, amount, flags) = match body {
            Body::Data { seq, sent_at, len, flags } => (Kind::Data, seq, sent_at.to_bits(), 0, len, flags.bits()),
            Body::Ack { ack, echo, window, flags } => {
                (Kind::Ack, ack, Instant::option_to_bits(echo), 0, window, flags.bits())
            }
            Body::Syn { sent_at } => (Kind::Syn, 0, sent_at.to_bits(), 0, 0, 0),
            Body::SynAck { echo, window } => (Kind::SynAck, 0, echo.to_bits(), 0, window, 0),
            Body::Probe { sent_at } => (Kind::Probe, 0, sent_at.to_bits(), 0, 0, 0),
            Body::ProbeEcho { echo, marked } => (Kind::ProbeEcho, 0, echo.to_bits(), 0, 0, bit_if(MARKED, marked)),
            Body::Message { number, message, fragment, length, priority, len, flags } => {
                (Kind::Message, join(message, fragment), join(number, priority), length, len, flags.bits())
            }
            Body::MessageAck { number, received, complete, marks, backup } => {
                (Kind::MessageAck, received, join(number, complete), 0, marks, bit_if(BACKUP, backup))
            }
            Body::Close { messages } => (Kind::Close, messages as u64, 0, 0, 0, 0),
            Body::CloseAck { complete } => (Kind::CloseAck, complete as u64, 0, 0, 0, 0),
            Body::CreditRequest { sent_at, backlog } => (Kind::CreditRequest, backlog, sent_at.to_bits(), 0, 0, 0),
            Body::Credit(stamp) => (Kind::Credit, 0, stamp.to_bits(), 0, 0, 0),
            Body::CreditStop { end, flags } => (Kind::CreditStop, end, 0, 0, 0, flags.bits()),
            Body::Scheduled { seq, number, credit, len, flags } => {
                (Kind::Scheduled, seq, credit.to_bits(), number, len, flags.bits())
            }
            Body::Unscheduled { seq, number, len, flags } => (Kind::Unscheduled, seq, 0, number, len, flags.bits()),
            Body::Datagram { seq, number, ack_ratio, len, flags } => {
                (Kind::Datagram, seq, join(number, ack_ratio as u32), 0, len, flags.bits())
            }
            Body::AckVector { number, received, marked, count } => {
                (Kind::AckVector, received, join(number, marked), 0, count, 0)
            }
            Body::Pulled { seq, sent_at, len, flags } => (Kind::Pulled, seq, sent_at.to_bits(), 0, len, flags.bits()),
            Body::PulledAck { seq, echo, trimmed, complete } => {
                let flags = bit_if(TRIMMED, trimmed) | bit_if(COMPLETE, complete);
                (Kind::PulledAck, seq, echo.to_bits(), 0, 0, flags)
            }
            Body::Pull { count } => (Kind::Pull, count as u64, 0, 0, 0, 0),
            Body::HomaData { seq, size, len, flags } => (Kind::HomaData, seq, size, 0, len, flags.bits()),
            Body::Grant { end, level } => (Kind::Grant, end, 0, 0, level as u16, 0),
            Body::Resend { range, level } => (Kind::Resend, range.start, range.end, 0, level as u16, 0),
            Body::Busy => (Kind::Busy, 0, 0, 0, 0, 0),
            Body::Done => (Kind::Done, 0, 0, 0, 0, 0),
            Body::SubflowAck { ack, first, end, subflow, flags } => {
                (Kind::SubflowAck, ack, join(first, end), 0, subflow as u16, flags.bits())
            }
            Body::Symbol { number, block, symbol, len, flags } => {
                (Kind::Symbol, join(block, symbol), join(number, 0), 0, len, flags.bits())
            }
            Body::SymbolAck { number, received, decoded, needed, claim, marks, complete } => (
                Kind::SymbolAck,
                join(received, claim),
                join(number, decoded),
                needed,
                marks,
                bit_if(COMPLETE, complete),
            ),
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
            kind: kind as u8,
        }
    }

    #[inline(always)]
    const fn kind(&self) -> Kind {
        Kind::from_number(self.kind)
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
        match self.kind() {
            Kind::Data => Body::Data { seq: offset, sent_at, len: amount, flags: DataFlags::from_bits(flags) },
            Kind::Ack => Body::Ack { ack: offset, echo, window: amount, flags: AckFlags::from_bits(flags) },
            Kind::Syn => Body::Syn { sent_at },
            Kind::SynAck => Body::SynAck { echo: sent_at, window: amount },
            Kind::Probe => Body::Probe { sent_at },
            Kind::ProbeEcho => Body::ProbeEcho { echo: sent_at, marked: flags & MARKED != 0 },
            Kind::Message => Body::Message {
                number: (self.stamp >> 32) as u32,
                message: (offset >> 32) as u32,
                fragment: offset as u32,
                length: self.attachment,
                priority: self.stamp as u32,
                len: amount,
                flags: DataFlags::from_bits(flags),
            },
            Kind::MessageAck => Body::MessageAck {
                number: (self.stamp >> 32) as u32,
                received: offset,
                complete: self.stamp as u32,
                marks: amount,
                backup: flags & BACKUP != 0,
            },
            Kind::Close => Body::Close { messages: offset as u32 },
            Kind::CloseAck => Body::CloseAck { complete: offset as u32 },
            Kind::Symbol => Body::Symbol {
                number: (self.stamp >> 32) as u32,
                block: (offset >> 32) as u32,
                symbol: offset as u32,
                len: amount,
                flags: DataFlags::from_bits(flags),
            },
            Kind::SymbolAck => Body::SymbolAck {
                number: (self.stamp >> 32) as u32,
                received: (offset >> 32) as u32,
                decoded: self.stamp as u32,
                needed: self.attachment,
                claim: offset as u32,
                marks: amount,
                complete: flags & COMPLETE != 0,
            },
            Kind::CreditRequest
            | Kind::Credit
            | Kind::CreditStop
            | Kind::Scheduled
            | Kind::Unscheduled
            | Kind::SubflowAck
            | Kind::Datagram
            | Kind::AckVector
            | Kind::Pulled
            | Kind::PulledAck
            | Kind::Pull
            | Kind::HomaData
            | Kind::Grant
            | Kind::Resend
            | Kind::Busy
            | Kind::Done => self.rare_body(sent_at),
        }
    }

    /// The body of a kind that few transports have.
    #[inline]
    const fn rare_body(&self, sent_at: Instant) -> Body {
        let Self { offset, stamp, attachment: number, amount, flags, .. } = *self;
        let credit = CreditStamp::from_bits(stamp);
        let data_flags = DataFlags::from_bits(flags);
        match self.kind() {
            Kind::CreditRequest => Body::CreditRequest { sent_at, backlog: offset },
            Kind::Credit => Body::Credit(credit),
            Kind::CreditStop => Body::CreditStop { end: offset, flags: data_flags },
            Kind::Scheduled => Body::Scheduled { seq: offset, number, credit, len: amount, flags: data_flags },
            Kind::Unscheduled => Body::Unscheduled { seq: offset, number, len: amount, flags: data_flags },
            Kind::Datagram => Body::Datagram {
                seq: offset,
                number: (stamp >> 32) as u32,
                ack_ratio: stamp as u16,
                len: amount,
                flags: data_flags,
            },
            Kind::AckVector => {
                Body::AckVector { number: (stamp >> 32) as u32, received: offset, marked: stamp as u32, count: amount }
            }
            Kind::Pulled => Body::Pulled { seq: offset, sent_at, len: amount, flags: PulledFlags::from_bits(flags) },
            Kind::PulledAck => {
                let (trimmed, complete) = (flags & TRIMMED != 0, flags & COMPLETE != 0);
                Body::PulledAck { seq: offset, echo: sent_at, trimmed, complete }
            }
            Kind::Pull => Body::Pull { count: offset as u32 },
            Kind::HomaData => Body::HomaData { seq: offset, size: stamp, len: amount, flags: data_flags },
            Kind::Grant => Body::Grant { end: offset, level: amount as u8 },
            Kind::Resend => Body::Resend { range: ByteRange::new(offset, stamp), level: amount as u8 },
            Kind::Busy => Body::Busy,
            Kind::Done => Body::Done,
            Kind::SubflowAck => {
                let subflow = if amount == 0 { Subflow::Proactive } else { Subflow::Reactive };
                let (first, end) = ((stamp >> 32) as u32, stamp as u32);
                Body::SubflowAck { ack: offset, first, end, subflow, flags: AckFlags::from_bits(flags) }
            }
            Kind::Data
            | Kind::Ack
            | Kind::Syn
            | Kind::SynAck
            | Kind::Probe
            | Kind::ProbeEcho
            | Kind::Message
            | Kind::MessageAck
            | Kind::Close
            | Kind::CloseAck
            | Kind::Symbol
            | Kind::SymbolAck => unreachable!(),
        }
    }

    /// What a [pFabric queue](crate::switch::plan::Discipline::PFabric) sorts by: a message's priority, and 0, the most
    /// urgent, of everything else.
    #[inline]
    pub const fn priority(&self) -> u32 {
        if matches!(self.kind(), Kind::Message) { self.stamp as u32 } else { 0 }
    }

    /// Sets the driver's handle for what travels beside it.
    #[inline]
    pub const fn set_attachment(&mut self, attachment: u32) {
        self.attachment = attachment;
    }

    /// The driver's handle for what travels beside it.
    #[inline]
    pub const fn attachment(&self) -> u32 {
        self.attachment
    }

    /// Makes an acknowledgement report the one-way delay of a data packet: in the field that otherwise leads to what
    /// travels beside it, or, if something does, in `sack`, which is that.
    #[inline]
    pub const fn set_delay(&mut self, delay: OneWayDelay, sack: &mut SackBlocks) {
        debug_assert!(matches!(self.kind(), Kind::Ack));
        self.flags |= AckFlags::DELAY.bits();
        if self.has_attachment() { sack.delay = delay.to_bits() } else { self.attachment = delay.to_bits() }
    }

    /// Makes an acknowledgement report for how long its receiver held the packet whose time it echoes, to a nanosecond, at
    /// most 4.29 s: in `sack`, which then travels beside it. Before a [delay](Self::set_delay) is set.
    pub const fn set_hold(&mut self, hold: Span, sack: &mut SackBlocks) {
        debug_assert!(matches!(self.kind(), Kind::Ack) && !self.is_ack_with(AckFlags::DELAY));
        self.flags |= AckFlags::HOLD.bits();
        let ns = hold.as_ps() / Span::from_ns(1).as_ps();
        sack.hold = if ns > u32::MAX as u64 { u32::MAX } else { ns as u32 };
    }

    /// The hold time that it reports, if it does; `sack` is what travels beside it.
    #[inline]
    pub const fn hold(&self, sack: &SackBlocks) -> Option<Span> {
        if self.is_ack_with(AckFlags::HOLD) { Some(Span::from_ns(sack.hold as u64)) } else { None }
    }

    /// The one-way delay that it reports, if it does; `sack` is what travels beside it.
    #[inline]
    pub const fn delay(&self, sack: &SackBlocks) -> Option<OneWayDelay> {
        if !self.is_ack_with(AckFlags::DELAY) {
            return None;
        }
        Some(OneWayDelay::from_bits(if self.has_attachment() { sack.delay } else { self.attachment }))
    }

    /// Whether SACK blocks travel beside it.
    #[inline]
    pub const fn has_sack(&self) -> bool {
        self.is_ack_with(AckFlags::SACK)
    }

    /// Whether anything travels beside it: SACK blocks, a hold time.
    #[inline]
    pub const fn has_attachment(&self) -> bool {
        self.is_ack_with(AckFlags::SACK.with(AckFlags::HOLD))
    }

    /// Whether it is an acknowledgement with any of these flags.
    #[inline]
    const fn is_ack_with(&self, flags: AckFlags) -> bool {
        matches!(self.kind(), Kind::Ack) && AckFlags::from_bits(self.flags).intersects(flags)
    }

    /// Whether it is pulled data; gives its flags.
    #[inline]
    const fn pulled_flags(&self) -> Option<PulledFlags> {
        if matches!(self.kind(), Kind::Pulled) { Some(PulledFlags::from_bits(self.flags)) } else { None }
    }

    /// Whether a switch may [trim](Self::trim) it: pulled data that is still whole.
    #[inline]
    pub const fn is_trimmable(&self) -> bool {
        matches!(self.pulled_flags(), Some(flags) if !flags.contains(PulledFlags::TRIMMED))
    }

    /// Cuts its payload off: what is left has `header_bytes` on the wire and goes in `class` (NDP, SIGCOMM 2017,
    /// section 3.1).
    pub const fn trim(&mut self, header_bytes: u16, class: u8) {
        debug_assert!(self.is_trimmable());
        self.flags |= PulledFlags::TRIMMED.bits();
        self.traffic_class = TrafficClass::new(class);
        if self.wire_bytes > header_bytes {
            self.wire_bytes = header_bytes;
        }
    }

    /// Whether a switch may return it to its sender: trimmed and not returned before.
    #[inline]
    pub const fn is_returnable(&self) -> bool {
        let Some(flags) = self.pulled_flags() else { return false };
        flags.contains(PulledFlags::TRIMMED) && !flags.contains(PulledFlags::RETURNED)
    }

    /// Sends it back to its sender from a node on its path of `links` links. The driver queues it there as if it had come
    /// from its receiver.
    pub const fn turn_back(&mut self, links: u8) {
        debug_assert!(self.is_returnable());
        self.flags |= PulledFlags::RETURNED.bits();
        self.to = self.to.peer();
        self.hops = links - self.hops;
    }

    /// Payload bytes.
    #[inline]
    pub const fn payload(&self) -> u16 {
        let carries = match self.kind() {
            Kind::Data
            | Kind::Message
            | Kind::Scheduled
            | Kind::Unscheduled
            | Kind::Symbol
            | Kind::Datagram
            | Kind::HomaData => true,
            Kind::Pulled => self.is_trimmable(),
            Kind::Ack
            | Kind::Syn
            | Kind::SynAck
            | Kind::Probe
            | Kind::ProbeEcho
            | Kind::MessageAck
            | Kind::Close
            | Kind::CloseAck
            | Kind::CreditRequest
            | Kind::Credit
            | Kind::CreditStop
            | Kind::SubflowAck
            | Kind::SymbolAck
            | Kind::AckVector
            | Kind::PulledAck
            | Kind::Pull
            | Kind::Grant
            | Kind::Resend
            | Kind::Busy
            | Kind::Done => false,
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

    /// One of each body, with its payload's bytes.
    fn every_body() -> [(Body, u16); 30] {
        let at = Instant::from_ps(77);
        let credit = CreditStamp { number: 6, sent_at: ShortTime::from_bits(9) };
        let (number, len, flags) = (0x0a0b_0c0d, 1460, DataFlags::FIN.with(DataFlags::RETRANSMISSION));
        let pulled = PulledFlags::FIN.with(PulledFlags::RETRANSMISSION);
        [
            (Body::Data { seq: 5, sent_at: at, len, flags: flags.with(DataFlags::CWR).with(DataFlags::HOLD) }, 1460),
            (Body::Ack { ack: 5, echo: Some(at), window: 4, flags: AckFlags::ECE.with(AckFlags::DSACK) }, 0),
            (Body::Ack { ack: 5, echo: None, window: 4, flags: AckFlags::NONE }, 0),
            (Body::Syn { sent_at: at }, 0),
            (Body::SynAck { echo: at, window: 4 }, 0),
            (Body::Probe { sent_at: at }, 0),
            (Body::ProbeEcho { echo: at, marked: true }, 0),
            (
                Body::Message {
                    number,
                    message: 2,
                    fragment: 3,
                    length: 9000,
                    priority: 4,
                    len,
                    flags: flags.with(DataFlags::BACKUP),
                },
                1460,
            ),
            (Body::MessageAck { number, received: 5, complete: 6, marks: 7, backup: true }, 0),
            (Body::Close { messages: 5 }, 0),
            (Body::CloseAck { complete: 5 }, 0),
            (Body::CreditRequest { sent_at: at, backlog: 5 }, 0),
            (Body::Credit(credit), 0),
            (Body::CreditStop { end: 5, flags: DataFlags::FIN }, 0),
            (Body::Scheduled { seq: 5, number, credit, len, flags }, 1460),
            (Body::Unscheduled { seq: 5, number, len, flags }, 1460),
            (Body::Datagram { seq: 5, number, ack_ratio: 2, len, flags: DataFlags::FIN }, 1460),
            (Body::AckVector { number, received: 5, marked: 6, count: 7 }, 0),
            (Body::Pulled { seq: 5, sent_at: at, len, flags: pulled }, 1460),
            (Body::Pulled { seq: 5, sent_at: at, len, flags: pulled.with(PulledFlags::TRIMMED) }, 0),
            (Body::PulledAck { seq: 5, echo: at, trimmed: true, complete: false }, 0),
            (Body::Pull { count: 5 }, 0),
            (Body::HomaData { seq: 5, size: 9000, len, flags: DataFlags::RETRANSMISSION }, 1460),
            (Body::Grant { end: 5, level: 6 }, 0),
            (Body::Resend { range: ByteRange::new(5, 6), level: 7 }, 0),
            (Body::Busy, 0),
            (Body::Done, 0),
            (Body::SubflowAck { ack: 5, first: 6, end: 7, subflow: Subflow::Reactive, flags: AckFlags::ECE }, 0),
            (Body::Symbol { number, block: 2, symbol: 3, len, flags: DataFlags::RETRANSMISSION }, 1460),
            (Body::SymbolAck { number, received: 2, decoded: 3, needed: 4, claim: 5, marks: 6, complete: true }, 0),
        ]
    }

    /// A packet says what it was made to say, and of its payload as much as travels.
    #[test]
    fn every_body_is_read_as_it_was_made() {
        for (body, payload) in every_body() {
            let packet = Packet::new(TrafficClass::new(3), 100, body);
            assert_eq!((packet.body(), packet.payload()), (body, payload));
            let trimmable = matches!(body, Body::Pulled { flags, .. } if !flags.contains(PulledFlags::TRIMMED));
            assert_eq!(packet.is_trimmable(), trimmable, "{body:?}");
        }
    }

    /// In one set no two flags share a bit.
    #[test]
    fn each_bit_means_one_thing() {
        let data = [
            DataFlags::FIN,
            DataFlags::CWR,
            DataFlags::RETRANSMISSION,
            DataFlags::HOLD,
            DataFlags::DELAY,
            DataFlags::BACKUP,
        ];
        let acks = [AckFlags::HOLD, AckFlags::ECE, AckFlags::SACK, AckFlags::DSACK, AckFlags::DELAY];
        let pulled = [PulledFlags::FIN, PulledFlags::RETRANSMISSION, PulledFlags::TRIMMED, PulledFlags::RETURNED];
        for set in [&data.map(DataFlags::bits)[..], &acks.map(AckFlags::bits), &pulled.map(PulledFlags::bits)] {
            assert!(set.iter().all(|bits| bits.is_power_of_two()));
            assert_eq!(set.iter().fold(0, |all, bits| all | bits).count_ones() as usize, set.len());
        }
    }

    /// A delay travels with blocks and without, and costs the packet no byte.
    #[test]
    fn acknowledgements_report_delays() {
        assert_eq!(size_of::<SackBlocks>(), MAX_SACK_BLOCKS * size_of::<ByteRange>() + 16);
        let delay = OneWayDelay::from_ns(-5);
        for flags in [AckFlags::ECE, AckFlags::SACK] {
            let body = |flags| Body::Ack { ack: 7, echo: None, window: 1, flags };
            let mut ack = Packet::new(TrafficClass::default(), 84, body(flags));
            let mut sack = SackBlocks::EMPTY;
            assert_eq!(ack.delay(&sack), None);
            ack.set_delay(delay, &mut sack);
            assert_eq!(ack.body(), body(flags.with(AckFlags::DELAY)));
            if ack.has_sack() {
                ack.set_attachment(9);
            }
            assert_eq!(ack.delay(&sack), Some(delay));
        }
    }

    /// A hold time travels beside the packet, with a delay and without, and is not lost among blocks.
    #[test]
    fn acknowledgements_report_hold_times() {
        let delay = OneWayDelay::from_ns(-5);
        let body = |flags| Body::Ack { ack: 7, echo: None, window: 1, flags };
        for flags in [AckFlags::ECE, AckFlags::SACK] {
            for (hold, reported) in
                [(Span::from_ps(1_999), 1), (Span::from_us(500), 500_000), (Span::from_secs(9), u32::MAX)]
            {
                let mut ack = Packet::new(TrafficClass::default(), 84, body(flags));
                let mut sack = SackBlocks::EMPTY;
                assert_eq!((ack.hold(&sack), ack.has_attachment()), (None, flags == AckFlags::SACK));
                ack.set_hold(hold, &mut sack);
                ack.set_delay(delay, &mut sack);
                assert_eq!(ack.body(), body(flags.with(AckFlags::HOLD).with(AckFlags::DELAY)));
                assert!(ack.has_attachment());
                ack.set_attachment(9);
                assert_eq!(ack.hold(&sack), Some(Span::from_ns(reported.into())));
                assert_eq!(ack.delay(&sack), Some(delay));
            }
        }
    }

    #[test]
    fn ethernet_sizes() {
        assert_eq!(WireFormat::ETHERNET.wire_bytes(1460), 1538);
        assert_eq!(WireFormat::ETHERNET.wire_bytes(0), 84);
        assert_eq!(WireFormat::IP.wire_bytes(0), 40);
    }
}
