//! Near-Opt: a fair transport that an oracle tells its rate and its losses (Bashir, Faisal, Dogar, "Characterizing
//! TCP's Performance for Low-Priority Flows Inside a Cloud", arXiv 2401.08890, section 3).
//!
//! A yardstick for what low-priority flows can reach, not a protocol to deploy. The sender has no window and no slow
//! start: it sends at the rate it was told last. It repeats a packet only if the oracle confirms that it was dropped,
//! so no retransmission is spurious. The machine knows no oracle: its driver answers each [`OracleRequest`] with an
//! [`OracleAnswer`].
//!
//! | knob | default | source |
//! | --- | --- | --- |
//! | `rto.minimum` | 1 ms | paper, section 3 (its TCP) |
//! | `rto.initial` | 10 ms | as [TCP](super::tcp) here |
//! | handshake | none | the paper is silent |
//! | acknowledgements | one per packet, each echoes when its packet was sent | the paper is silent |
//!
//! A packet is asked about when its retransmission timer expires, which is never backed off, or earlier when an
//! acknowledgement answers a packet that was sent after it.
//!
//! The paper's oracle lists dropped packets. Ours tells of dropped acknowledgements too: a flow whose last one is lost
//! would otherwise wait for ever.

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

/// What a transport wants of an oracle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OracleRequest {
    /// The flow has data to send: from now on [`OracleAnswer::Rate`] tells its rate, first at once.
    FollowRate {
        /// Class of its data packets.
        class: TrafficClass,
    },
    /// Everything is acknowledged: no more rates, until the next `FollowRate`.
    UnfollowRate,
    /// What became of the data packet that begins at byte `seq`? [`OracleAnswer::Fate`] answers.
    Fate {
        /// Offset of its first byte.
        seq: u64,
    },
}

/// What an oracle answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OracleAnswer {
    /// From now on the flow sends at this rate, on the wire. Zero stops it.
    Rate(Rate),
    /// What became of a data packet.
    Fate {
        /// First byte of the data packet asked about.
        seq: u64,
        /// What became of it.
        fate: PacketFate,
    },
}

/// What an oracle knows of a data packet that was sent and is not acknowledged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PacketFate {
    /// The network has dropped it.
    Dropped,
    /// It arrived, but an acknowledgement of everything below `ack` was dropped.
    Arrived {
        /// The number in that acknowledgement.
        ack: u64,
    },
    /// Neither: it, or its acknowledgement, still waits somewhere.
    UnderWay,
}

/// Everything that both sides of Near-Opt flows have in common; many flows share one.
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
