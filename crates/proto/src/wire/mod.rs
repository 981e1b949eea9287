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
//!            nanoseconds, wrapping), then, with the flag HOLD, the hold time (4 bytes, nanoseconds), then each SACK block:
//!            start, end (8 bytes each)
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

mod credit;
mod extended;
mod format;
mod push;
#[cfg(test)]
mod tests;

pub use format::WireError;

use core::ops::Range;

use self::format::{Common, DATA_FLAGS, NO_FLAGS, Reader, Writer, check_end};

use crate::packet::{AckFlags, Body, ByteRange, DataFlags, MAX_SACK_BLOCKS, Packet, SackBlocks, TrafficClass};
use crate::time::{Instant, OneWayDelay, Span};

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
const HOLD_BYTES: usize = 4;
const SACK_BLOCK_BYTES: usize = 16;

/// Bytes before the payload of every Data datagram, always the same: segmentation offload needs equal sizes.
pub const DATA_HEADER_BYTES: usize = COMMON_BYTES + 18;
/// Most bytes before the payload of any datagram that has one.
pub const MAX_DATA_HEADER_BYTES: usize = COMMON_BYTES + 22;
/// Most bytes that [`encode`] writes: an acknowledgement with a delay, a hold time and all its SACK blocks.
pub const MAX_HEADER_BYTES: usize = ACK_BYTES + DELAY_BYTES + HOLD_BYTES + MAX_SACK_BLOCKS * SACK_BLOCK_BYTES;

/// Encoding of an acknowledgement that echoes no time.
const NO_ECHO: u64 = u64::MAX;

/// Of an answer to a probe: it was marked.
const MARKED: u8 = 8;
/// Of an acknowledgement of a message's packet: it was of the backup sub-flow.
const BACKUP: u8 = 128;

const ACK_FLAGS: AckFlags =
    AckFlags::ECE.with(AckFlags::SACK).with(AckFlags::DSACK).with(AckFlags::DELAY).with(AckFlags::HOLD);
const MESSAGE_FLAGS: DataFlags = DataFlags::FIN.with(DataFlags::RETRANSMISSION).with(DataFlags::BACKUP);

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
            writer.common(KIND_DATA, flags.bits(), 0, to);
            writer.u64(seq);
            writer.u64(sent_at.as_ps());
            writer.u16(len);
        }
        Body::Ack { ack, echo, window, flags } => {
            let blocks = if packet.has_sack() { sack.as_slice() } else { &[] };
            assert!(!packet.has_sack() || !blocks.is_empty(), "the flag SACK promises blocks");
            writer.common(KIND_ACK, flags.bits(), blocks.len() as u8, to);
            writer.u64(ack);
            writer.u64(echo.map_or(NO_ECHO, Instant::as_ps));
            writer.u16(window);
            if let Some(delay) = packet.delay(sack) {
                writer.put(&delay.to_bits().to_be_bytes());
            }
            if let Some(hold) = packet.hold(sack) {
                writer.u32((hold.as_ps() / Span::from_ns(1).as_ps()) as u32);
            }
            for block in blocks {
                writer.u64(block.start);
                writer.u64(block.end);
            }
        }
        Body::Syn { sent_at } => {
            writer.common(KIND_SYN, NO_FLAGS, 0, to);
            writer.u64(sent_at.as_ps());
        }
        Body::SynAck { echo, window } => {
            writer.common(KIND_SYN_ACK, NO_FLAGS, 0, to);
            writer.u64(echo.as_ps());
            writer.u16(window);
        }
        Body::Probe { sent_at } => {
            writer.common(KIND_PROBE, NO_FLAGS, 0, to);
            writer.u64(sent_at.as_ps());
        }
        Body::ProbeEcho { echo, marked } => {
            writer.common(KIND_PROBE_ECHO, if marked { MARKED } else { NO_FLAGS }, 0, to);
            writer.u64(echo.as_ps());
        }
        Body::Message { number, message, fragment, length, priority, len, flags } => {
            writer.common(KIND_MESSAGE, flags.bits(), 0, to);
            for field in [number, message, fragment, length, priority] {
                writer.u32(field);
            }
            writer.u16(len);
        }
        Body::MessageAck { number, received, complete, marks, backup } => {
            writer.common(KIND_MESSAGE_ACK, if backup { BACKUP } else { NO_FLAGS }, 0, to);
            writer.u32(number);
            writer.u64(received);
            writer.u32(complete);
            writer.u16(marks);
        }
        Body::Close { messages } => {
            writer.common(KIND_CLOSE, NO_FLAGS, 0, to);
            writer.u32(messages);
        }
        Body::CloseAck { complete } => {
            writer.common(KIND_CLOSE_ACK, NO_FLAGS, 0, to);
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
        body @ (Body::CreditRequest { .. }
        | Body::Credit(_)
        | Body::CreditStop { .. }
        | Body::Scheduled { .. }
        | Body::Unscheduled { .. }
        | Body::SubflowAck { .. }) => credit::encode(&mut writer, body, to),
    }
    writer.at
}

/// Reads a datagram that arrived with `traffic_class` in its IP header. Returns the packet, its SACK blocks, and where
/// in the datagram its payload lies. The packet's size on the wire is the datagram's length; it leads to no attachment.
pub fn decode(datagram: &[u8], traffic_class: TrafficClass) -> Result<(Packet, SackBlocks, Range<usize>), WireError> {
    let mut reader = Reader { rest: datagram };
    let common = Common::read(&mut reader)?;
    let (mut sack, mut delay, mut hold) = (SackBlocks::EMPTY, None, None);
    let body = match common.kind {
        KIND_DATA => read_data(&mut reader, &common)?,
        KIND_ACK => read_ack(&mut reader, &common, &mut sack, (&mut delay, &mut hold))?,
        KIND_SYN => Body::Syn { sent_at: read_stamp(&mut reader, &common, NO_FLAGS)?.0 },
        KIND_SYN_ACK => read_syn_ack(&mut reader, &common)?,
        KIND_PROBE => Body::Probe { sent_at: read_stamp(&mut reader, &common, NO_FLAGS)?.0 },
        KIND_PROBE_ECHO => {
            let (echo, flags) = read_stamp(&mut reader, &common, MARKED)?;
            Body::ProbeEcho { echo, marked: flags == MARKED }
        }
        KIND_MESSAGE => read_message(&mut reader, &common)?,
        KIND_MESSAGE_ACK => read_message_ack(&mut reader, &common)?,
        KIND_CLOSE | KIND_CLOSE_ACK => read_close(&mut reader, &common)?,
        format::KIND_EXTENDED => extended::read(&mut reader, &common)?,
        _ => credit::read(&mut reader, &common)?,
    };
    let payload = datagram.len() - reader.rest.len()..datagram.len();
    let wire_bytes = u16::try_from(datagram.len()).unwrap_or(u16::MAX);
    let mut packet = Packet::new(traffic_class, wire_bytes, body).to(common.to);
    if let Some(hold) = hold {
        packet.set_hold(hold, &mut sack);
    }
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
    let flags = DataFlags::from_bits(common.flags_among(DATA_FLAGS.bits())?);
    common.no_sack()?;
    let (seq, sent_at, len) = (reader.u64()?, reader.time()?, reader.u16()?);
    check_end(seq, len, flags.contains(DataFlags::FIN))?;
    Ok(Body::Data { seq, sent_at, len, flags })
}

fn read_ack(
    reader: &mut Reader<'_>,
    common: &Common,
    sack: &mut SackBlocks,
    (delay, hold): (&mut Option<OneWayDelay>, &mut Option<Span>),
) -> Result<Body, WireError> {
    let flags = AckFlags::from_bits(common.flags_among(ACK_FLAGS.bits())?);
    if flags.contains(AckFlags::DSACK) && !flags.contains(AckFlags::SACK) {
        return Err(WireError::WrongFlags(flags.bits()));
    }
    let ack = reader.u64()?;
    let echo = match reader.u64()? {
        NO_ECHO => None,
        ps => Some(Instant::from_ps(ps)),
    };
    let window = reader.u16()?;
    if flags.contains(AckFlags::DELAY) {
        *delay = Some(OneWayDelay::from_bits(reader.u32()?));
    }
    if flags.contains(AckFlags::HOLD) {
        *hold = Some(Span::from_ns(reader.u32()?.into()));
    }
    if (common.sack_blocks > 0) != flags.contains(AckFlags::SACK) {
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
    // What is reported is written into the packet with its flag.
    let flags = AckFlags::from_bits(flags.bits() & !AckFlags::DELAY.with(AckFlags::HOLD).bits());
    Ok(Body::Ack { ack, echo, window, flags })
}

/// What kinds with no more than a time have: it, and their flags.
fn read_stamp(reader: &mut Reader<'_>, common: &Common, allowed: u8) -> Result<(Instant, u8), WireError> {
    let flags = common.flags_among(allowed)?;
    common.no_sack()?;
    Ok((reader.time()?, flags))
}

fn read_syn_ack(reader: &mut Reader<'_>, common: &Common) -> Result<Body, WireError> {
    let (echo, _) = read_stamp(reader, common, NO_FLAGS)?;
    Ok(Body::SynAck { echo, window: reader.u16()? })
}

fn read_message(reader: &mut Reader<'_>, common: &Common) -> Result<Body, WireError> {
    let flags = DataFlags::from_bits(common.flags_among(MESSAGE_FLAGS.bits())?);
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
    let backup = common.flags_among(BACKUP)? == BACKUP;
    common.no_sack()?;
    let (number, received) = (reader.u32()?, reader.u64()?);
    Ok(Body::MessageAck { number, received, complete: reader.u32()?, marks: reader.u16()?, backup })
}

fn read_close(reader: &mut Reader<'_>, common: &Common) -> Result<Body, WireError> {
    common.flags_among(NO_FLAGS)?;
    common.no_sack()?;
    let count = reader.u32()?;
    Ok(if common.kind == KIND_CLOSE { Body::Close { messages: count } } else { Body::CloseAck { complete: count } })
}
