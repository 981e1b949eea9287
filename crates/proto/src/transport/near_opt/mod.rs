//! Near-Opt: a fair transport to which an oracle tells its rate and its losses (Bashir, Faisal, Dogar, "Characterizing
//! TCP's Performance for Low-Priority Flows Inside a Cloud", arXiv 2401.08890, section 3).
//!
//! It is a reference for what low-priority flows can reach, not a protocol to deploy. The sender has no window and no
//! slow start: it sends at the latest rate from the oracle. It repeats a packet only if the oracle confirms that it was
//! dropped, so no retransmission is spurious. The machine has no oracle: its driver answers each [`OracleRequest`] with
//! an [`OracleAnswer`].
//!
//! | knob | default | source |
//! | --- | --- | --- |
//! | `rto.minimum` | 1 ms | paper, section 3 (its TCP) |
//! | `rto.initial` | 10 ms | as [TCP](super::tcp) here |
//! | handshake | none | the paper is silent |
//! | acknowledgements | one per packet, each echoes when its packet was sent | the paper is silent |
//!
//! The sender asks about a packet when its retransmission timer expires, which has no backoff, or earlier when an
//! acknowledgement answers a packet sent after it.
//!
//! The paper's oracle lists dropped packets. Ours also reports dropped acknowledgements. Otherwise a flow whose last
//! acknowledgement is lost would wait without end.

mod pacer;
mod receiver;
mod sender;
#[cfg(test)]
mod tests;

pub use receiver::NearOptReceiver;
pub use sender::NearOptSender;

use crate::contract::Field;
use crate::packet::{TrafficClass, WireFormat};
use crate::recovery::rtt::RtoBounds;
use crate::units::Rate;

/// The contract fields that it honours: none.
pub const HONOURS: &[Field] = &[];

/// A request of a transport to an oracle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OracleRequest {
    /// The flow has data to send. From now on [`OracleAnswer::Rate`] gives its rate, for the first time at once.
    FollowRate {
        /// Class of its data packets.
        class: TrafficClass,
    },
    /// Everything is acknowledged: no more rates, until the next `FollowRate`.
    UnfollowRate,
    /// The fate of the data packet that begins at byte `seq`. [`OracleAnswer::Fate`] answers.
    Fate {
        /// Offset of its first byte.
        seq: u64,
    },
}

/// An answer of an oracle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OracleAnswer {
    /// From now on the flow sends at this rate, on the wire. Zero stops it.
    Rate(Rate),
    /// The fate of a data packet.
    Fate {
        /// First byte of that packet.
        seq: u64,
        /// Its fate.
        fate: PacketFate,
    },
}

/// An oracle's knowledge of a data packet that was sent and is not acknowledged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PacketFate {
    /// The network has dropped it.
    Dropped,
    /// It arrived, but an acknowledgement of everything below `ack` was dropped.
    Arrived {
        /// The number in that acknowledgement.
        ack: u64,
    },
    /// Neither: it, or its acknowledgement, is still on its way.
    UnderWay,
}

/// Settings that both sides of Near-Opt flows share; many flows share one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NearOptConfig {
    /// Most payload bytes per packet, above 0; a full packet takes at most 65535 bytes on the wire. Default 1460.
    pub mss: u16,
    /// Bytes around a payload. Default [`WireFormat::ETHERNET`].
    pub wire: WireFormat,
    /// Class of data packets; they are Not-ECT. Default 0.
    pub data_class: TrafficClass,
    /// Class of acknowledgements; they are Not-ECT. Default 0.
    pub ack_class: TrafficClass,
    /// Bounds of the retransmission timeout.
    pub rto: RtoBounds,
}

impl Default for NearOptConfig {
    fn default() -> Self {
        Self {
            mss: 1460,
            wire: WireFormat::ETHERNET,
            data_class: TrafficClass::default(),
            ack_class: TrafficClass::default(),
            rto: RtoBounds::default(),
        }
    }
}
