//! The codec between a [`Packet`] with its SACK blocks and the bytes of a UDP datagram.
//!
//! Every datagram begins with eight bytes, then come its kind's fields; numbers are in network byte order, times in
//! picoseconds of the sender's clock. A payload follows the header of Data and fills the datagram.
//!
//! ```text
//!  byte   0       1              2      3             4..8
//!         0x50    version|kind   flags  SACK blocks   flow number * 2 + side of the receiver
//!
//!  Data   8..16 seq       16..24 sent_at   24..26 len      then the payload
//!  Ack    8..16 ack       16..24 echo      24..26 window   then each SACK block: start, end (8 bytes each)
//!  Syn    8..16 sent_at
//!  SynAck 8..16 echo      16..18 window
//!
//!  CreditRequest 8..16 sent_at   16..24 backlog
//!  Credit        8..12 number    12..16 sent_at
//!  CreditStop    8..16 end
//!  Scheduled     8..16 seq       16..20 number   20..24 credit's number   24..28 its sent_at   28..30 len   payload
//!  Unscheduled   8..16 seq       16..20 number   20..22 len                                                 payload
//!  SubflowAck    8..16 ack       16..20 first    20..24 end   24 sub-flow: 0 proactive, 1 reactive
//! ```
//!
//! Times of credits are in units of 1.024 ns, modulo 2³².
//!
//! The traffic class is not here: it is the IP header's, for switches to read. Each packet has one encoding, and
//! [`decode`] accepts nothing else, so what is accepted encodes to the same bytes again.

use core::fmt;
use core::ops::Range;

use crate::packet::{
    Body, ByteRange, CreditStamp, EndpointId, Flags, MAX_SACK_BLOCKS, Packet, SackBlocks, ShortTime, Subflow,
    TrafficClass,
};
use crate::time::Instant;

/// First byte of every datagram.
const MAGIC: u8 = 0x50;
/// Version of this format, in the upper half of the second byte.
const VERSION: u8 = 1;

const KIND_DATA: u8 = 0;
const KIND_ACK: u8 = 1;
const KIND_SYN: u8 = 2;
const KIND_SYN_ACK: u8 = 3;
const KIND_CREDIT_REQUEST: u8 = 8;
const KIND_CREDIT: u8 = 9;
const KIND_CREDIT_STOP: u8 = 10;
const KIND_SCHEDULED: u8 = 11;
const KIND_UNSCHEDULED: u8 = 12;
const KIND_SUBFLOW_ACK: u8 = 13;

const COMMON_BYTES: usize = 8;
const ACK_BYTES: usize = COMMON_BYTES + 18;
const SACK_BLOCK_BYTES: usize = 16;

/// Bytes before the payload of every Data datagram, always the same: segmentation offload needs equal sizes.
pub const DATA_HEADER_BYTES: usize = COMMON_BYTES + 18;
/// Most bytes that [`encode`] writes: an acknowledgement with all its SACK blocks.
pub const MAX_HEADER_BYTES: usize = ACK_BYTES + MAX_SACK_BLOCKS * SACK_BLOCK_BYTES;

/// Encoding of an acknowledgement that echoes no time.
const NO_ECHO: u64 = u64::MAX;

const DATA_FLAGS: Flags = Flags::FIN.with(Flags::CWR).with(Flags::RETRANSMISSION);
const UNSCHEDULED_FLAGS: Flags = Flags::FIN.with(Flags::RETRANSMISSION);
const ACK_FLAGS: Flags = Flags::ECE.with(Flags::SACK).with(Flags::DSACK);

/// Why a datagram is no packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WireError {
    /// It ends before its header does.
    TooShort,
    /// It has bytes beyond its end, or a payload of another length than it says.
    WrongLength,
    /// It does not begin as this protocol's datagrams do.
    WrongMagic,
    /// It is of another version of this format.
    UnknownVersion(u8),
    /// It is of a kind that this version does not know.
    UnknownKind(u8),
    /// It has a flag that is unknown or does not belong to its kind.
    WrongFlags(u8),
    /// It counts SACK blocks that its kind or flags do not allow, or too many.
    WrongSackCount(u8),
    /// A SACK block holds no byte.
    EmptySackBlock,
    /// A time or a stream offset is beyond what can be represented.
    OutOfRange,
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooShort => f.write_str("the datagram ends within its header"),
            Self::WrongLength => f.write_str("the datagram is not as long as it says"),
            Self::WrongMagic => f.write_str("the datagram is of another protocol"),
            Self::UnknownVersion(version) => write!(f, "format version {version} is not known"),
            Self::UnknownKind(kind) => write!(f, "packet kind {kind} is not known"),
            Self::WrongFlags(flags) => write!(f, "flags {flags:#04x} do not belong to the packet's kind"),
            Self::WrongSackCount(count) => write!(f, "{count} SACK blocks do not fit the packet's kind and flags"),
            Self::EmptySackBlock => f.write_str("a SACK block is empty"),
            Self::OutOfRange => f.write_str("a time or stream offset is out of range"),
        }
    }
}

impl core::error::Error for WireError {}

/// Writes the header of `packet`, and `sack` if the packet [has any](Packet::has_sack), to the start of `buffer`;
/// returns its length. The payload of Data goes behind it. [`MAX_HEADER_BYTES`] of buffer suffice for every packet.
///
/// # Panics
/// If the buffer is too small, or a packet with the flag SACK comes without blocks.
pub fn encode(packet: &Packet, sack: &SackBlocks, buffer: &mut [u8]) -> usize {
    let mut writer = Writer { buffer, at: 0 };
    let to = packet.to;
    match packet.body() {
        Body::Data { seq, sent_at, len, flags } => {
            writer.common(KIND_DATA, flags, 0, to);
            writer.u64(seq);
            writer.u64(sent_at.as_ps());
            writer.u16(len);
        }
        Body::Ack { ack, echo, window, flags } => {
            let blocks = if packet.has_sack() { sack.as_slice() } else { &[] };
            assert!(!packet.has_sack() || !blocks.is_empty(), "the flag SACK promises blocks");
            writer.common(KIND_ACK, flags, blocks.len() as u8, to);
            writer.u64(ack);
            writer.u64(echo.map_or(NO_ECHO, Instant::as_ps));
            writer.u16(window);
            for block in blocks {
                writer.u64(block.start);
                writer.u64(block.end);
            }
        }
        Body::Syn { sent_at } => {
            writer.common(KIND_SYN, Flags::NONE, 0, to);
            writer.u64(sent_at.as_ps());
        }
        Body::SynAck { echo, window } => {
            writer.common(KIND_SYN_ACK, Flags::NONE, 0, to);
            writer.u64(echo.as_ps());
            writer.u16(window);
        }
        body => encode_credit_body(&mut writer, body, to),
    }
    writer.at
}

/// Writes what only transports with credits send.
fn encode_credit_body(writer: &mut Writer<'_>, body: Body, to: EndpointId) {
    match body {
        Body::CreditRequest { sent_at, backlog } => {
            writer.common(KIND_CREDIT_REQUEST, Flags::NONE, 0, to);
            writer.u64(sent_at.as_ps());
            writer.u64(backlog);
        }
        Body::Credit(stamp) => {
            writer.common(KIND_CREDIT, Flags::NONE, 0, to);
            writer.stamp(stamp);
        }
        Body::CreditStop { end, flags } => {
            writer.common(KIND_CREDIT_STOP, flags, 0, to);
            writer.u64(end);
        }
        Body::Scheduled { seq, number, credit, len, flags } => {
            writer.common(KIND_SCHEDULED, flags, 0, to);
            writer.u64(seq);
            writer.u32(number);
            writer.stamp(credit);
            writer.u16(len);
        }
        Body::Unscheduled { seq, number, len, flags } => {
            writer.common(KIND_UNSCHEDULED, flags, 0, to);
            writer.u64(seq);
            writer.u32(number);
            writer.u16(len);
        }
        Body::SubflowAck { ack, first, end, subflow, flags } => {
            writer.common(KIND_SUBFLOW_ACK, flags, 0, to);
            writer.u64(ack);
            writer.u32(first);
            writer.u32(end);
            writer.put(&[u8::from(subflow == Subflow::Reactive)]);
        }
        Body::Data { .. } | Body::Ack { .. } | Body::Syn { .. } | Body::SynAck { .. } => {
            unreachable!("these need no credits")
        }
    }
}

/// Reads a datagram that arrived with `traffic_class` in its IP header. Returns the packet, its SACK blocks, and where
/// in the datagram its payload lies. The packet's size on the wire is the datagram's length; its attachment is zero.
pub fn decode(datagram: &[u8], traffic_class: TrafficClass) -> Result<(Packet, SackBlocks, Range<usize>), WireError> {
    let mut reader = Reader { rest: datagram };
    let common = Common::read(&mut reader)?;
    let mut sack = SackBlocks::EMPTY;
    let body = match common.kind {
        KIND_DATA => read_data(&mut reader, &common)?,
        KIND_ACK => read_ack(&mut reader, &common, &mut sack)?,
        KIND_SYN => read_syn(&mut reader, &common)?,
        KIND_SYN_ACK => read_syn_ack(&mut reader, &common)?,
        kind => read_credit_body(&mut reader, &common, kind)?,
    };
    let payload = datagram.len() - reader.rest.len()..datagram.len();
    let wire_bytes = u16::try_from(datagram.len()).unwrap_or(u16::MAX);
    let packet = Packet::new(traffic_class, wire_bytes, body).to(common.to);
    if payload.len() == usize::from(packet.payload()) {
        Ok((packet, sack, payload))
    } else {
        Err(WireError::WrongLength)
    }
}

fn read_data(reader: &mut Reader<'_>, common: &Common) -> Result<Body, WireError> {
    let flags = common.flags_among(DATA_FLAGS)?;
    common.no_sack()?;
    let (seq, sent_at, len) = (reader.u64()?, reader.time()?, reader.u16()?);
    check_end(seq, len, flags)?;
    Ok(Body::Data { seq, sent_at, len, flags })
}

fn read_ack(reader: &mut Reader<'_>, common: &Common, sack: &mut SackBlocks) -> Result<Body, WireError> {
    let flags = common.flags_among(ACK_FLAGS)?;
    if flags.contains(Flags::DSACK) && !flags.contains(Flags::SACK) {
        return Err(WireError::WrongFlags(flags.bits()));
    }
    let ack = reader.u64()?;
    let echo = match reader.u64()? {
        NO_ECHO => None,
        ps => Some(Instant::from_ps(ps)),
    };
    let window = reader.u16()?;
    if (common.sack_blocks > 0) != flags.contains(Flags::SACK) {
        return Err(WireError::WrongSackCount(common.sack_blocks));
    }
    for _ in 0..common.sack_blocks {
        let block = ByteRange::new(reader.u64()?, reader.u64()?);
        if block.is_empty() {
            return Err(WireError::EmptySackBlock);
        }
        if !sack.push(block) {
            return Err(WireError::WrongSackCount(common.sack_blocks));
        }
    }
    Ok(Body::Ack { ack, echo, window, flags })
}

fn read_syn(reader: &mut Reader<'_>, common: &Common) -> Result<Body, WireError> {
    common.flags_among(Flags::NONE)?;
    common.no_sack()?;
    Ok(Body::Syn { sent_at: reader.time()? })
}

fn read_syn_ack(reader: &mut Reader<'_>, common: &Common) -> Result<Body, WireError> {
    common.flags_among(Flags::NONE)?;
    common.no_sack()?;
    Ok(Body::SynAck { echo: reader.time()?, window: reader.u16()? })
}

/// Reads what only transports with credits send.
fn read_credit_body(reader: &mut Reader<'_>, common: &Common, kind: u8) -> Result<Body, WireError> {
    let allowed = match kind {
        KIND_CREDIT_REQUEST | KIND_CREDIT => Flags::NONE,
        KIND_CREDIT_STOP => Flags::FIN,
        KIND_SCHEDULED => DATA_FLAGS,
        KIND_UNSCHEDULED => UNSCHEDULED_FLAGS,
        KIND_SUBFLOW_ACK => Flags::ECE,
        unknown => return Err(WireError::UnknownKind(unknown)),
    };
    let flags = common.flags_among(allowed)?;
    common.no_sack()?;
    Ok(match kind {
        KIND_CREDIT_REQUEST => Body::CreditRequest { sent_at: reader.time()?, backlog: reader.u64()? },
        KIND_CREDIT => Body::Credit(reader.stamp()?),
        KIND_CREDIT_STOP => Body::CreditStop { end: reader.u64()?, flags },
        KIND_SCHEDULED => {
            let (seq, number, credit, len) = (reader.u64()?, reader.u32()?, reader.stamp()?, reader.u16()?);
            check_end(seq, len, flags)?;
            Body::Scheduled { seq, number, credit, len, flags }
        }
        KIND_UNSCHEDULED => {
            let (seq, number, len) = (reader.u64()?, reader.u32()?, reader.u16()?);
            check_end(seq, len, flags)?;
            Body::Unscheduled { seq, number, len, flags }
        }
        _ => {
            let (ack, first, end) = (reader.u64()?, reader.u32()?, reader.u32()?);
            let subflow = match reader.take()? {
                [0] => Subflow::Proactive,
                [1] => Subflow::Reactive,
                _ => return Err(WireError::OutOfRange),
            };
            Body::SubflowAck { ack, first, end, subflow, flags }
        }
    })
}

/// FIN takes a sequence number of its own.
fn check_end(seq: u64, len: u16, flags: Flags) -> Result<(), WireError> {
    let taken = u64::from(len) + u64::from(flags.contains(Flags::FIN));
    seq.checked_add(taken).map(|_| ()).ok_or(WireError::OutOfRange)
}

/// What every datagram begins with.
struct Common {
    kind: u8,
    flags: u8,
    sack_blocks: u8,
    to: EndpointId,
}

impl Common {
    fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let [magic, version_and_kind, flags, sack_blocks] = reader.take()?;
        if magic != MAGIC {
            return Err(WireError::WrongMagic);
        }
        if version_and_kind >> 4 != VERSION {
            return Err(WireError::UnknownVersion(version_and_kind >> 4));
        }
        let to = EndpointId::from_index(u32::from_be_bytes(reader.take()?));
        Ok(Self { kind: version_and_kind & 0xf, flags, sack_blocks, to })
    }

    fn flags_among(&self, allowed: Flags) -> Result<Flags, WireError> {
        Flags::from_bits(self.flags).filter(|&flags| allowed.contains(flags)).ok_or(WireError::WrongFlags(self.flags))
    }

    fn no_sack(&self) -> Result<(), WireError> {
        if self.sack_blocks == 0 { Ok(()) } else { Err(WireError::WrongSackCount(self.sack_blocks)) }
    }
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or(WireError::TooShort)?;
        self.rest = rest;
        Ok(*taken)
    }

    fn u16(&mut self) -> Result<u16, WireError> {
        self.take().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Result<u32, WireError> {
        self.take().map(u32::from_be_bytes)
    }

    fn u64(&mut self) -> Result<u64, WireError> {
        self.take().map(u64::from_be_bytes)
    }

    fn stamp(&mut self) -> Result<CreditStamp, WireError> {
        Ok(CreditStamp { number: self.u32()?, sent_at: ShortTime::from_bits(self.u32()?) })
    }

    fn time(&mut self) -> Result<Instant, WireError> {
        let ps = self.u64()?;
        if ps > Instant::MAX.as_ps() { Err(WireError::OutOfRange) } else { Ok(Instant::from_ps(ps)) }
    }
}

struct Writer<'a> {
    buffer: &'a mut [u8],
    at: usize,
}

impl Writer<'_> {
    fn common(&mut self, kind: u8, flags: Flags, sack_blocks: u8, to: EndpointId) {
        self.put(&[MAGIC, VERSION << 4 | kind, flags.bits(), sack_blocks]);
        self.put(&to.index().to_be_bytes());
    }

    fn put(&mut self, bytes: &[u8]) {
        self.buffer[self.at..self.at + bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len();
    }

    fn u16(&mut self, value: u16) {
        self.put(&value.to_be_bytes());
    }

    fn u32(&mut self, value: u32) {
        self.put(&value.to_be_bytes());
    }

    fn u64(&mut self, value: u64) {
        self.put(&value.to_be_bytes());
    }

    fn stamp(&mut self, stamp: CreditStamp) {
        self.u32(stamp.number);
        self.u32(stamp.sent_at.bits());
    }
}

#[cfg(test)]
mod tests;
