//! Symbols of objects and their acknowledgements.
//!
//! ```text
//!  byte       8       9..
//!  Symbol     16      9..13 number   13..17 block      17..21 symbol    21..23 len                          payload
//!  SymbolAck  17      9..13 number   13..17 received   17..21 decoded   21..25 needed   25..29 claim   29..31 marks
//! ```

use super::format::{COMPLETE, Common, NO_FLAGS, Reader, WireError, Writer};
use crate::packet::{Body, DataFlags, EndpointId};
use crate::transport::push::MAX_SYMBOL;

pub(super) const SYMBOL: u8 = 16;
pub(super) const ACK: u8 = 17;

/// Writes a body that is one of these.
pub(super) fn encode(writer: &mut Writer<'_>, body: Body, to: EndpointId) {
    match body {
        Body::Symbol { number, block, symbol, len, flags } => {
            writer.extended(SYMBOL, flags.bits(), to);
            for field in [number, block, symbol] {
                writer.u32(field);
            }
            writer.u16(len);
        }
        Body::SymbolAck { number, received, decoded, needed, claim, marks, complete } => {
            writer.extended(ACK, if complete { COMPLETE } else { NO_FLAGS }, to);
            for field in [number, received, decoded, needed, claim] {
                writer.u32(field);
            }
            writer.u16(marks);
        }
        _ => unreachable!("other bodies are no symbols"),
    }
}

/// Reads a datagram of this kind, one of the two.
pub(super) fn read(reader: &mut Reader<'_>, common: &Common, kind: u8) -> Result<Body, WireError> {
    if kind == SYMBOL {
        let flags = DataFlags::from_bits(common.flags_among(DataFlags::RETRANSMISSION.bits())?);
        let (number, block, symbol, len) = (reader.u32()?, reader.u32()?, reader.u32()?, reader.u16()?);
        let valid = symbol <= MAX_SYMBOL && len > 0;
        return if valid { Ok(Body::Symbol { number, block, symbol, len, flags }) } else { Err(WireError::OutOfRange) };
    }
    let complete = common.flags_among(COMPLETE)? == COMPLETE;
    let (number, received, decoded) = (reader.u32()?, reader.u32()?, reader.u32()?);
    let (needed, claim, marks) = (reader.u32()?, reader.u32()?, reader.u16()?);
    Ok(Body::SymbolAck { number, received, decoded, needed, claim, marks, complete })
}
