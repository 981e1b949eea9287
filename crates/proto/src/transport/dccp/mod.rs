//! DCCP with TCP-like congestion control (CCID 2; RFC 4340, RFC 4341): TCP's window over packets that are never
//! retransmitted.
//!
//! Every packet has a number of its own. Acknowledgements carry an ack vector: which of the last 65 packets arrived,
//! and which of the last 32 were marked. A packet is lost once three sent after it have arrived. A loss or a mark
//! halves the window once per window of data. Nothing stops while a loss is noticed, because nothing is repaired.
//!
//! | knob | default | source |
//! | --- | --- | --- |
//! | `initial_window` | 10 packets | as [TCP](super::tcp) here; RFC 4341 section 5 points to RFC 3390 (2 to 4) |
//! | `ack_ratio` | fixed, 2 | RFC 4341 section 6.1: the first ratio; two packets per acknowledgement, as TCP |
//! | `ecn` | off | PPUSH's semi-reliable DCCP is its loss-based baseline |
//! | `repeat_lost` | off | RFC 4341: loss is the application's matter |
//! | windows | packets, at least 1; ssthresh at least 2 | RFC 4341 section 5 |
//!
//! Features are not negotiated. Each packet carries the ack ratio that its sender asks for. There is no handshake, as
//! in the other transports here unless one is asked for.

mod receiver;
mod sender;
#[cfg(test)]
mod tests;

pub use receiver::DccpReceiver;
pub use sender::DccpSender;

use core::fmt;

use crate::contract::Field;
use crate::packet::{TrafficClass, WireFormat};
use crate::recovery::rtt::RtoBounds;
use crate::time::Span;

/// The contract fields that it honours: none.
pub const HONOURS: &[Field] = &[];

/// How many packets one acknowledgement answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AckRatio {
    /// This many, at least 1.
    Fixed(u16),
    /// 2 at first; twice as many after a window of data with a lost acknowledgement, one fewer after
    /// `cwnd / (R² - R)` windows without (RFC 4341 section 6.1.2). At most half the window.
    Adaptive,
}

/// Settings that both sides of a DCCP flow share; many flows share one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DccpConfig {
    /// Most payload bytes per packet, above 0; a full packet takes at most 65535 bytes on the wire. Default 1460.
    pub payload: u16,
    /// Bytes around a payload. Default [`WireFormat::ETHERNET`].
    pub wire: WireFormat,
    /// Class of data packets; ECT(0) with `ecn`. Default 0.
    pub data_class: TrafficClass,
    /// Class of acknowledgements; they are Not-ECT. Default 0.
    pub ack_class: TrafficClass,
    /// Packets that may be in flight at first, at least 1. Default 10.
    pub initial_window: u32,
    /// Whether data is ECN-capable: marks halve the window as losses do. Default false.
    pub ecn: bool,
    /// Packets per acknowledgement. Default 2, fixed.
    pub ack_ratio: AckRatio,
    /// Longest delay of an acknowledgement. Default 500 us, as [TCP](super::tcp) here.
    pub max_ack_delay: Span,
    /// Bounds of the retransmission timeout, after which everything in flight counts as lost.
    pub rto: RtoBounds,
    /// Whether the application gives lost data again, after everything else and in packets with new numbers, until all
    /// has arrived. Default false.
    pub repeat_lost: bool,
}

impl Default for DccpConfig {
    fn default() -> Self {
        Self {
            payload: 1460,
            wire: WireFormat::ETHERNET,
            data_class: TrafficClass::default(),
            ack_class: TrafficClass::default(),
            initial_window: 10,
            ecn: false,
            ack_ratio: AckRatio::Fixed(2),
            max_ack_delay: Span::from_us(500),
            rto: RtoBounds::default(),
            repeat_lost: false,
        }
    }
}

impl DccpConfig {
    /// Checks every range.
    pub fn check(&self) -> Result<(), DccpConfigError> {
        let RtoBounds { minimum, maximum, initial, .. } = self.rto;
        match self {
            _ if self.payload == 0 || self.payload.checked_add(self.wire.header_bytes).is_none() => {
                Err(DccpConfigError::Payload)
            }
            _ if self.initial_window == 0 => Err(DccpConfigError::InitialWindow),
            _ if self.ack_ratio == AckRatio::Fixed(0) => Err(DccpConfigError::AckRatio),
            _ if minimum > maximum || initial == Span::ZERO => Err(DccpConfigError::Rto),
            _ => Ok(()),
        }
    }
}

/// Why a configuration was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DccpConfigError {
    /// `payload` is zero, or a full packet exceeds 65535 bytes on the wire.
    Payload,
    /// `initial_window` is zero.
    InitialWindow,
    /// `ack_ratio` is zero.
    AckRatio,
    /// `rto`: the least timeout exceeds the greatest, or the first is zero.
    Rto,
}

impl fmt::Display for DccpConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Payload => "payload must be above 0, and a full packet at most 65535 bytes on the wire",
            Self::InitialWindow => "initial_window must be at least 1 packet",
            Self::AckRatio => "ack_ratio must be at least 1 packet",
            Self::Rto => "the least timeout must not exceed the greatest, and the first must be above 0s",
        })
    }
}

impl core::error::Error for DccpConfigError {}
