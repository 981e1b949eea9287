//! NDP (Handley et al., SIGCOMM 2017): senders begin at line rate, switches trim packets that they cannot queue, and
//! receivers pull the rest.
//!
//! The sender sends an initial window as a burst. After that each packet leaves on a pull, packets to be sent again
//! first. The receiver answers every packet at once, with an acknowledgement or, where only the header arrived, with a
//! negative one. It asks its [host](crate::host) for a turn to pull the next. The host gives one turn per full packet's
//! time, in turn to all flows. Once everything has arrived no further pull is sent.
//!
//! A packet that a switch returned waits for a pull, unless none is to be expected. A timeout is the last resort, for
//! lost headers and control packets.
//!
//! It needs queues of discipline [`Trim`](crate::switch::Discipline::Trim) at switches. The switches choose paths, per
//! packet, and the receiver accepts any order. In the paper the senders choose them, so its second exception for
//! returned packets (only this path is bad) is left out.
//!
//! | knob | default | source |
//! | --- | --- | --- |
//! | `initial_window` | 15 packets | the published simulator; about a bandwidth-delay product |
//! | least timeout | 1 ms | recalled from the paper; the published simulator has 5 ms |

mod receiver;
mod sender;
#[cfg(test)]
mod tests;

pub use receiver::NdpReceiver;
pub(super) use receiver::Pulls;
pub use sender::NdpSender;

use core::fmt;

use crate::contract::Field;
use crate::packet::{TrafficClass, WireFormat};
use crate::recovery::rtt::RtoBounds;
use crate::time::Span;

/// The contract fields that it honours: none.
pub const HONOURS: &[Field] = &[];

/// Settings that both sides of NDP flows share; many flows share one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NdpConfig {
    /// Most payload bytes per packet, above 0; a full packet takes at most 65535 bytes on the wire. Default 1460.
    pub payload: u16,
    /// Bytes around a payload. Default [`WireFormat::ETHERNET`].
    pub wire: WireFormat,
    /// Class of data; Not-ECT. Default 0.
    pub data_class: TrafficClass,
    /// Class of acknowledgements and pulls, which is that of headers in switches. Default 31.
    pub control_class: TrafficClass,
    /// Packets sent before the first pull, at least 1. Default 15.
    pub initial_window: u32,
    /// Bounds of the timeout.
    pub rto: RtoBounds,
}

/// Default class of headers and control packets.
pub const CONTROL_CLASS: u8 = 31;

impl Default for NdpConfig {
    fn default() -> Self {
        Self {
            payload: 1460,
            wire: WireFormat::ETHERNET,
            data_class: TrafficClass::default(),
            control_class: TrafficClass::new(CONTROL_CLASS),
            initial_window: 15,
            rto: RtoBounds::default(),
        }
    }
}

impl NdpConfig {
    /// Checks every range.
    pub fn check(&self) -> Result<(), NdpConfigError> {
        let RtoBounds { minimum, maximum, initial, .. } = self.rto;
        match self {
            _ if self.payload == 0 || self.payload.checked_add(self.wire.header_bytes).is_none() => {
                Err(NdpConfigError::Payload)
            }
            _ if self.initial_window == 0 => Err(NdpConfigError::InitialWindow),
            _ if minimum > maximum || initial == Span::ZERO => Err(NdpConfigError::Rto),
            _ => Ok(()),
        }
    }
}

/// Why a configuration was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NdpConfigError {
    /// `payload` is zero, or a full packet exceeds 65535 bytes on the wire.
    Payload,
    /// `initial_window` is zero.
    InitialWindow,
    /// `rto`: the least timeout exceeds the greatest, or the first is zero.
    Rto,
}

impl fmt::Display for NdpConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Payload => "payload must be above 0, and a full packet at most 65535 bytes on the wire",
            Self::InitialWindow => "initial_window must be at least 1 packet",
            Self::Rto => "the least timeout must not exceed the greatest, and the first must be above 0s",
        })
    }
}

impl core::error::Error for NdpConfigError {}
