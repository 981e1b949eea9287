//! What only transports with credits or two sub-flows send. Times of credits are in units of 1.024 ns, modulo 2³².
//!
//! ```text
//!  byte          8..
//!  Request       8 zero          9..17 sent_at   17..25 backlog
//!  Stop          8 one           9..17 end
//!  Credit        8..12 number    12..16 sent_at
//!  Scheduled     8..16 seq       16..20 number   20..24 credit's number   24..28 its sent_at   28..30 len   payload
//!  Unscheduled   8..16 seq       16..20 number   20..22 len                                                 payload
//!  SubflowAck    8..16 ack       16..20 first    20..24 end   24 sub-flow: 0 proactive, 1 reactive
//! ```
//!
//! Of two classes (`bounded-two-class`) Scheduled is data of the guarantee and Unscheduled that of the scavenger; a Stop with FIN tells
//! the end by itself.

use super::format::{Common, DATA_FLAGS, NO_FLAGS, Reader, WireError, Writer, check_end};
use crate::packet::{AckFlags, Body, CreditStamp, DataFlags, EndpointId, ShortTime, Subflow};

/// A request for credits or for an end of them: one kind, for kinds are few.
const KIND_CREDIT_CONTROL: u8 = 10;
const KIND_CREDIT: u8 = 11;
const KIND_SCHEDULED: u8 = 12;
const KIND_UNSCHEDULED: u8 = 13;
const KIND_SUBFLOW_ACK: u8 = 14;

const REQUEST: u8 = 0;
const STOP: u8 = 1;

/// As a stream's data.
pub(super) const SCHEDULED_FLAGS: DataFlags = DATA_FLAGS;
pub(super) const UNSCHEDULED_FLAGS: DataFlags = DataFlags::FIN.with(DataFlags::RETRANSMISSION);

pub(super) const SUBFLOW_ACK_FLAGS: AckFlags = AckFlags::ECE.with(AckFlags::WAITED);

/// Writes a body that is of one of these kinds.
pub(super) fn encode(writer: &mut Writer<'_>, body: Body, to: EndpointId) {
    match body {
        Body::CreditRequest { sent_at, backlog } => {
            writer.common(KIND_CREDIT_CONTROL, NO_FLAGS, 0, to);
            writer.put(&[REQUEST]);
            writer.u64(sent_at.as_ps());
            writer.u64(backlog);
        }
        Body::CreditStop { end, flags } => {
            writer.common(KIND_CREDIT_CONTROL, flags.bits(), 0, to);
            writer.put(&[STOP]);
            writer.u64(end);
        }
        Body::Credit(stamp) => {
            writer.common(KIND_CREDIT, NO_FLAGS, 0, to);
            put_stamp(writer, stamp);
        }
        Body::Scheduled { seq, number, credit, len, flags } => {
            writer.common(KIND_SCHEDULED, flags.bits(), 0, to);
            writer.u64(seq);
            writer.u32(number);
            put_stamp(writer, credit);
            writer.u16(len);
        }
        Body::Unscheduled { seq, number, len, flags } => {
            writer.common(KIND_UNSCHEDULED, flags.bits(), 0, to);
            writer.u64(seq);
            writer.u32(number);
            writer.u16(len);
        }
        Body::SubflowAck { ack, first, end, subflow, flags } => {
            writer.common(KIND_SUBFLOW_ACK, flags.bits(), 0, to);
            writer.u64(ack);
            writer.u32(first);
            writer.u32(end);
            writer.put(&[subflow as u8]);
        }
        _ => unreachable!("other bodies need no credits"),
    }
}

/// Reads a datagram of one of these kinds, and refuses others.
pub(super) fn read(reader: &mut Reader<'_>, common: &Common) -> Result<Body, WireError> {
    let allowed = match common.kind {
        KIND_CREDIT_CONTROL => DataFlags::FIN.bits(),
        KIND_CREDIT => NO_FLAGS,
        KIND_SCHEDULED => SCHEDULED_FLAGS.bits(),
        KIND_UNSCHEDULED => UNSCHEDULED_FLAGS.bits(),
        KIND_SUBFLOW_ACK => SUBFLOW_ACK_FLAGS.bits(),
        unknown => return Err(WireError::UnknownKind(unknown)),
    };
    let bits = common.flags_among(allowed)?;
    let flags = DataFlags::from_bits(bits);
    common.no_sack()?;
    Ok(match common.kind {
        KIND_CREDIT_CONTROL => read_control(reader, common, flags)?,
        KIND_CREDIT => Body::Credit(stamp(reader)?),
        KIND_SCHEDULED => {
            let (seq, number, credit, len) = (reader.u64()?, reader.u32()?, stamp(reader)?, reader.u16()?);
            check_end(seq, len, flags.contains(DataFlags::FIN))?;
            Body::Scheduled { seq, number, credit, len, flags }
        }
        KIND_UNSCHEDULED => {
            let (seq, number, len) = (reader.u64()?, reader.u32()?, reader.u16()?);
            check_end(seq, len, flags.contains(DataFlags::FIN))?;
            Body::Unscheduled { seq, number, len, flags }
        }
        _ => {
            let (ack, first, end) = (reader.u64()?, reader.u32()?, reader.u32()?);
            let subflow = match reader.take()? {
                [0] => Subflow::Proactive,
                [1] => Subflow::Reactive,
                _ => return Err(WireError::OutOfRange),
            };
            Body::SubflowAck { ack, first, end, subflow, flags: AckFlags::from_bits(bits) }
        }
    })
}

fn read_control(reader: &mut Reader<'_>, common: &Common, flags: DataFlags) -> Result<Body, WireError> {
    match reader.take()? {
        [REQUEST] => {
            common.flags_among(NO_FLAGS)?;
            Ok(Body::CreditRequest { sent_at: reader.time()?, backlog: reader.u64()? })
        }
        [STOP] => Ok(Body::CreditStop { end: reader.u64()?, flags }),
        _ => Err(WireError::OutOfRange),
    }
}

fn stamp(reader: &mut Reader<'_>) -> Result<CreditStamp, WireError> {
    Ok(CreditStamp { number: reader.u32()?, sent_at: ShortTime::from_bits(reader.u32()?) })
}

fn put_stamp(writer: &mut Writer<'_>, stamp: CreditStamp) {
    writer.u32(stamp.number);
    writer.u32(stamp.sent_at.bits());
}
