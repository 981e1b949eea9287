//! Kinds beyond the sixteen that fit into the second byte: there stands 15, and the kind follows in a byte of its own.
//!
//! ```text
//!  byte         8    9..
//!  Symbol, SymbolAck: see `push.rs`
//!  Datagram     24   9..17 seq        17..21 number   21..23 ack_ratio   23..25 len     payload
//!  AckVector    25   9..13 number     13..21 received 21..25 marked      25..27 count
//!  Pulled       26   9..17 seq        17..25 sent_at   25..27 len        payload, none with the flag TRIMMED
//!  PulledAck    27   9..17 seq        17..25 echo
//!  Pull         28   9..13 count
//!  HomaData     29   9..17 seq        17..25 size      25..27 len        payload
//!  Grant        30   9..17 end        17 level
//!  Resend       31   9..17 start      17..25 end       25 level
//!  Busy         32
//!  Done         33
//! ```

use super::format::{COMPLETE, Common, NO_FLAGS, Reader, WireError, Writer, check_end};
use super::push;
use crate::packet::{Body, ByteRange, DataFlags, EndpointId, PulledFlags};

const DATAGRAM: u8 = 24;
const ACK_VECTOR: u8 = 25;
const PULLED: u8 = 26;
const PULLED_ACK: u8 = 27;
const PULL: u8 = 28;
const HOMA_DATA: u8 = 29;
const GRANT: u8 = 30;
const RESEND: u8 = 31;
const BUSY: u8 = 32;
const DONE: u8 = 33;

/// Of an answer to pulled data: only its header arrived.
const TRIMMED: u8 = 16;
pub(super) const DATAGRAM_FLAGS: DataFlags = DataFlags::FIN;
pub(super) const PULLED_FLAGS: PulledFlags =
    PulledFlags::FIN.with(PulledFlags::RETRANSMISSION).with(PulledFlags::TRIMMED).with(PulledFlags::RETURNED);
pub(super) const HOMA_DATA_FLAGS: DataFlags = DataFlags::RETRANSMISSION;

/// Writes a body that is of one of these kinds.
pub(super) fn encode(writer: &mut Writer<'_>, body: Body, to: EndpointId) {
    match body {
        Body::Datagram { seq, number, ack_ratio, len, flags } => {
            writer.extended(DATAGRAM, flags.bits(), to);
            writer.u64(seq);
            writer.u32(number);
            writer.u16(ack_ratio);
            writer.u16(len);
        }
        Body::AckVector { number, received, marked, count } => {
            writer.extended(ACK_VECTOR, NO_FLAGS, to);
            writer.u32(number);
            writer.u64(received);
            writer.u32(marked);
            writer.u16(count);
        }
        Body::Pulled { seq, sent_at, len, flags } => {
            writer.extended(PULLED, flags.bits(), to);
            writer.u64(seq);
            writer.u64(sent_at.as_ps());
            writer.u16(len);
        }
        Body::PulledAck { seq, echo, trimmed, complete } => {
            let flags = if trimmed { TRIMMED } else { NO_FLAGS } | if complete { COMPLETE } else { NO_FLAGS };
            writer.extended(PULLED_ACK, flags, to);
            writer.u64(seq);
            writer.u64(echo.as_ps());
        }
        Body::Pull { count } => {
            writer.extended(PULL, NO_FLAGS, to);
            writer.u32(count);
        }
        Body::HomaData { seq, size, len, flags } => {
            writer.extended(HOMA_DATA, flags.bits(), to);
            writer.u64(seq);
            writer.u64(size);
            writer.u16(len);
        }
        Body::Grant { end, level } => {
            writer.extended(GRANT, NO_FLAGS, to);
            writer.u64(end);
            writer.put(&[level]);
        }
        Body::Resend { range, level } => {
            writer.extended(RESEND, NO_FLAGS, to);
            writer.u64(range.start);
            writer.u64(range.end);
            writer.put(&[level]);
        }
        Body::Busy => writer.extended(BUSY, NO_FLAGS, to),
        Body::Done => writer.extended(DONE, NO_FLAGS, to),
        _ => unreachable!("other bodies have short kinds"),
    }
}

/// Reads a datagram of one of these kinds, and refuses others.
pub(super) fn read(reader: &mut Reader<'_>, common: &Common) -> Result<Body, WireError> {
    common.no_sack()?;
    let [kind] = reader.take()?;
    Ok(match kind {
        push::SYMBOL | push::ACK => push::read(reader, common, kind)?,
        DATAGRAM => {
            let flags = DataFlags::from_bits(common.flags_among(DATAGRAM_FLAGS.bits())?);
            let (seq, number, ack_ratio, len) = (reader.u64()?, reader.u32()?, reader.u16()?, reader.u16()?);
            check_end(seq, len, flags.contains(DataFlags::FIN))?;
            Body::Datagram { seq, number, ack_ratio, len, flags }
        }
        ACK_VECTOR => {
            common.flags_among(NO_FLAGS)?;
            let (number, received) = (reader.u32()?, reader.u64()?);
            Body::AckVector { number, received, marked: reader.u32()?, count: reader.u16()? }
        }
        PULLED => {
            let flags = PulledFlags::from_bits(common.flags_among(PULLED_FLAGS.bits())?);
            // Only what was cut off is returned.
            if flags.contains(PulledFlags::RETURNED) && !flags.contains(PulledFlags::TRIMMED) {
                return Err(WireError::WrongFlags(flags.bits()));
            }
            let (seq, sent_at, len) = (reader.u64()?, reader.time()?, reader.u16()?);
            check_end(seq, len, flags.contains(PulledFlags::FIN))?;
            Body::Pulled { seq, sent_at, len, flags }
        }
        PULLED_ACK => {
            let flags = common.flags_among(TRIMMED | COMPLETE)?;
            let (trimmed, complete) = (flags & TRIMMED != 0, flags & COMPLETE != 0);
            Body::PulledAck { seq: reader.u64()?, echo: reader.time()?, trimmed, complete }
        }
        PULL => {
            common.flags_among(NO_FLAGS)?;
            Body::Pull { count: reader.u32()? }
        }
        HOMA_DATA => {
            let flags = DataFlags::from_bits(common.flags_among(HOMA_DATA_FLAGS.bits())?);
            let (seq, size, len) = (reader.u64()?, reader.u64()?, reader.u16()?);
            if seq.checked_add(len.into()).is_none_or(|end| end > size) {
                return Err(WireError::OutOfRange);
            }
            Body::HomaData { seq, size, len, flags }
        }
        GRANT => {
            common.flags_among(NO_FLAGS)?;
            let end = reader.u64()?;
            let [level] = reader.take()?;
            Body::Grant { end, level }
        }
        RESEND => {
            common.flags_among(NO_FLAGS)?;
            let range = ByteRange::new(reader.u64()?, reader.u64()?);
            let [level] = reader.take()?;
            Body::Resend { range, level }
        }
        BUSY | DONE => {
            common.flags_among(NO_FLAGS)?;
            if kind == BUSY { Body::Busy } else { Body::Done }
        }
        unknown => return Err(WireError::UnknownKind(unknown)),
    })
}
