//! The codec between a [`Packet`] with its SACK blocks and the bytes of a UDP datagram.
//!
//! Every datagram begins with eight bytes, then come its kind's fields; numbers are in network byte order, times in
//! picoseconds of the sender's clock. A payload follows the header of Data and fills the datagram.
//!
//! ```text
//!  byte   0       1              2      3             4..8
//!         0x50    version|kind   flags  SACK blocks   flow number * 2 + side of the receiver
//!
//!  Data      8..16 seq       16..24 sent_at   24..26 len      then the payload
//!  Ack       8..16 ack       16..24 echo      24..26 window   then, with the flag DELAY, the one-way delay (4 bytes,
//!            nanoseconds, wrapping), then each SACK block: start, end (8 bytes each)
//!  Syn       8..16 sent_at
//!  SynAck    8..16 echo      16..18 window
//!  Probe     8..16 sent_at
//!  ProbeEcho 8..16 echo
//!
//!  Message    8..12 number   12..16 message    16..20 fragment  20..24 length  24..28 priority  28..30 len
//!             then the payload
//!  MessageAck 8..12 number   12..20 received   20..24 complete  24..26 marks
//!  Close      8..12 messages
//!  CloseAck   8..12 complete
//!
//!  CreditRequest, CreditStop, Credit, Scheduled, Unscheduled, SubflowAck: see `wire/credit.rs`
//!  Symbol, SymbolAck: see `wire/push.rs`
//!  Datagram, AckVector, Pulled, PulledAck, Pull, HomaData, Grant, Resend, Busy, Done: see `wire/extended.rs`
//! ```
//!
//! The traffic class is not here: it is the IP header's, for switches to read. Each packet has one encoding, and
//! [`decode`] accepts nothing else, so what is accepted encodes to the same bytes again.

use core::fmt;
use core::ops::Range;

use crate::packet::{Body, ByteRange, EndpointId, Flags, MAX_SACK_BLOCKS, Packet, SackBlocks, TrafficClass};
use crate::time::{Instant, OneWayDelay};

/// First byte of every datagram.
const MAGIC: u8 = 0x50;
/// Version of this format, in the upper half of the second byte.
const VERSION: u8 = 1;

const KIND_DATA: u8 = 0;
const KIND_ACK: u8 = 1;
const KIND_SYN: u8 = 2;
const KIND_SYN_ACK: u8 = 3;
const KIND_PROBE: u8 = 4;
const KIND_PROBE_ECHO: u8 = 5;
const KIND_MESSAGE: u8 = 6;
const KIND_MESSAGE_ACK: u8 = 7;
const KIND_CLOSE: u8 = 8;
const KIND_CLOSE_ACK: u8 = 9;

const COMMON_BYTES: usize = 8;
const ACK_BYTES: usize = COMMON_BYTES + 18;
const DELAY_BYTES: usize = 4;
const SACK_BLOCK_BYTES: usize = 16;

/// Bytes before the payload of every Data datagram, always the same: segmentation offload needs equal sizes.
pub const DATA_HEADER_BYTES: usize = COMMON_BYTES + 18;
/// Most bytes before the payload of any datagram that has one.
pub const MAX_DATA_HEADER_BYTES: usize = COMMON_BYTES + 22;
/// Most bytes that [`encode`] writes: an acknowledgement with a delay and all its SACK blocks.
pub const MAX_HEADER_BYTES: usize = ACK_BYTES + DELAY_BYTES + MAX_SACK_BLOCKS * SACK_BLOCK_BYTES;

/// Encoding of an acknowledgement that echoes no time.
const NO_ECHO: u64 = u64::MAX;

const DATA_FLAGS: Flags = Flags::FIN.with(Flags::CWR).with(Flags::RETRANSMISSION).with(Flags::DELAY);
const ACK_FLAGS: Flags = Flags::ECE.with(Flags::SACK).with(Flags::DSACK).with(Flags::DELAY);
const MESSAGE_FLAGS: Flags = Flags::FIN.with(Flags::RETRANSMISSION).with(Flags::BACKUP);

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
    /// A time or a stream offset is beyond what can be represented, or a fragment beyond its message.
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
            Self::OutOfRange => f.write_str("a time, a stream offset or a fragment is out of range"),
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
            if let Some(delay) = packet.delay(sack) {
                writer.put(&delay.to_bits().to_be_bytes());
            }
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
        Body::Probe { sent_at } => {
            writer.common(KIND_PROBE, Flags::NONE, 0, to);
            writer.u64(sent_at.as_ps());
        }
        Body::ProbeEcho { echo, marked } => {
            writer.common(KIND_PROBE_ECHO, Flags::NONE.with_if(Flags::ECE, marked), 0, to);
            writer.u64(echo.as_ps());
        }
        Body::Message { number, message, fragment, length, priority, len, flags } => {
            writer.common(KIND_MESSAGE, flags, 0, to);
            for field in [number, message, fragment, length, priority] {
                writer.u32(field);
            }
            writer.u16(len);
        }
        Body::MessageAck { number, received, complete, marks, flags } => {
            writer.common(KIND_MESSAGE_ACK, flags, 0, to);
            writer.u32(number);
            writer.u64(received);
            writer.u32(complete);
            writer.u16(marks);
        }
        Body::Close { messages } => {
            writer.common(KIND_CLOSE, Flags::NONE, 0, to);
            writer.u32(messages);
        }
        Body::CloseAck { complete } => {
            writer.common(KIND_CLOSE_ACK, Flags::NONE, 0, to);
            writer.u32(complete);
        }
        Body::Symbol { .. } | Body::SymbolAck { .. } => push::encode(&mut writer, packet.body(), to),
        body @ (Body::Datagram { .. }
        | Body::AckVector { .. }
        | Body::Pulled { .. }
        | Body::PulledAck { .. }
        | Body::Pull { .. }
        | Body::HomaData { .. }
        | Body::Grant { .. }
        | Body::Resend { .. }
        | Body::Busy
        | Body::Done) => extended::encode(&mut writer, body, to),
        body => credit::encode(&mut writer, body, to),
    }
    writer.at
}

/// Reads a datagram that arrived with `traffic_class` in its IP header. Returns the packet, its SACK blocks, and where
/// in the datagram its payload lies. The packet's size on the wire is the datagram's length; it leads to no attachment.
pub fn decode(datagram: &[u8], traffic_class: TrafficClass) -> Result<(Packet, SackBlocks, Range<usize>), WireError> {
    let mut reader = Reader { rest: datagram };
    let common = Common::read(&mut reader)?;
    let (mut sack, mut delay) = (SackBlocks::EMPTY, None);
    let body = match common.kind {
        KIND_DATA => read_data(&mut reader, &common)?,
        KIND_ACK => read_ack(&mut reader, &common, &mut sack, &mut delay)?,
        KIND_SYN => Body::Syn { sent_at: read_stamp(&mut reader, &common, Flags::NONE)?.0 },
        KIND_SYN_ACK => read_syn_ack(&mut reader, &common)?,
        KIND_PROBE => Body::Probe { sent_at: read_stamp(&mut reader, &common, Flags::NONE)?.0 },
        KIND_PROBE_ECHO => {
            let (echo, flags) = read_stamp(&mut reader, &common, Flags::ECE)?;
            Body::ProbeEcho { echo, marked: flags.contains(Flags::ECE) }
        }
        KIND_MESSAGE => read_message(&mut reader, &common)?,
        KIND_MESSAGE_ACK => read_message_ack(&mut reader, &common)?,
        KIND_CLOSE | KIND_CLOSE_ACK => read_close(&mut reader, &common)?,
        extended::KIND_EXTENDED => extended::read(&mut reader, &common)?,
        _ => credit::read(&mut reader, &common)?,
    };
    let payload = datagram.len() - reader.rest.len()..datagram.len();
    let wire_bytes = u16::try_from(datagram.len()).unwrap_or(u16::MAX);
    let mut packet = Packet::new(traffic_class, wire_bytes, body).to(common.to);
    if let Some(delay) = delay {
        packet.set_delay(delay, &mut sack);
    }
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

fn read_ack(
    reader: &mut Reader<'_>,
    common: &Common,
    sack: &mut SackBlocks,
    delay: &mut Option<OneWayDelay>,
) -> Result<Body, WireError> {
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
    if flags.contains(Flags::DELAY) {
        *delay = Some(OneWayDelay::from_bits(u32::from_be_bytes(reader.take()?)));
    }
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

/// What kinds with no more than a time have: it, and their flags.
fn read_stamp(reader: &mut Reader<'_>, common: &Common, allowed: Flags) -> Result<(Instant, Flags), WireError> {
    let flags = common.flags_among(allowed)?;
    common.no_sack()?;
    Ok((reader.time()?, flags))
}

fn read_syn_ack(reader: &mut Reader<'_>, common: &Common) -> Result<Body, WireError> {
    let (echo, _) = read_stamp(reader, common, Flags::NONE)?;
    Ok(Body::SynAck { echo, window: reader.u16()? })
}

fn read_message(reader: &mut Reader<'_>, common: &Common) -> Result<Body, WireError> {
    let flags = common.flags_among(MESSAGE_FLAGS)?;
    common.no_sack()?;
    let (number, message, fragment) = (reader.u32()?, reader.u32()?, reader.u32()?);
    let (length, priority, len) = (reader.u32()?, reader.u32()?, reader.u16()?);
    // Every fragment holds a byte at least.
    if len == 0 || u64::from(fragment) + u64::from(len) > u64::from(length) {
        return Err(WireError::OutOfRange);
    }
    Ok(Body::Message { number, message, fragment, length, priority, len, flags })
}

fn read_message_ack(reader: &mut Reader<'_>, common: &Common) -> Result<Body, WireError> {
    let flags = common.flags_among(Flags::BACKUP)?;
    common.no_sack()?;
    let (number, received) = (reader.u32()?, reader.u64()?);
    Ok(Body::MessageAck { number, received, complete: reader.u32()?, marks: reader.u16()?, flags })
}

fn read_close(reader: &mut Reader<'_>, common: &Common) -> Result<Body, WireError> {
    common.flags_among(Flags::NONE)?;
    common.no_sack()?;
    let count = reader.u32()?;
    Ok(if common.kind == KIND_CLOSE { Body::Close { messages: count } } else { Body::CloseAck { complete: count } })
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
        let flags = Flags::from_bits(self.flags);
        if allowed.contains(flags) { Ok(flags) } else { Err(WireError::WrongFlags(self.flags)) }
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
}

mod credit;
mod extended;
mod push;
#[cfg(test)]
mod tests;
