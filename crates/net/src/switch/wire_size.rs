//! Bytes that frames count for.

use pliant_proto::packet::{TrafficClass, WireFormat};
use pliant_proto::wire;

use super::frame::Layer4;

/// Bytes that a frame counts for on the wire of a plan, by what it carries. A scenario's packets have the headers of its
/// framing; real frames have others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WireSize {
    /// Added to the length of a frame with UDP.
    pub udp: i16,
    /// Added to the length of a frame with TCP.
    pub tcp: i16,
    /// Added to the length of any other.
    pub other: i16,
    /// The least it counts for.
    pub least: u16,
    /// Framing of Pliant's own packets, which count for their payload in it whatever their headers are in fact.
    pub framing: Option<WireFormat>,
}

impl Default for WireSize {
    /// What Ethernet adds: checksum, preamble and gap.
    fn default() -> Self {
        Self { udp: 24, tcp: 24, other: 24, least: 84, framing: None }
    }
}

impl WireSize {
    /// Sizes as a scenario with this framing has them: TCP with timestamps counts as without.
    pub fn framed(framing: WireFormat) -> Self {
        let headers = framing.header_bytes as i16;
        let (udp, tcp) = (headers - DATA_FRAME_BYTES, headers - 66);
        Self { udp, tcp, other: headers - 54, least: framing.minimum_bytes, framing: Some(framing) }
    }

    /// The size of a datagram in a frame of `bytes`.
    #[inline]
    pub fn of_datagram(&self, bytes: usize, datagram: &[u8]) -> u16 {
        if let Some(framing) = self.framing
            && let Ok((packet, ..)) = wire::decode(datagram, TrafficClass::default())
        {
            return framing.wire_bytes(packet.payload());
        }
        self.of(bytes, Layer4::Udp)
    }

    /// The size of a frame of `bytes`.
    pub fn of(&self, bytes: usize, layer4: Layer4) -> u16 {
        let added = match layer4 {
            Layer4::Udp => self.udp,
            Layer4::Tcp => self.tcp,
            Layer4::Other => self.other,
        };
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX).saturating_add(i64::from(added));
        u16::try_from(bytes.max(i64::from(self.least))).unwrap_or(u16::MAX)
    }
}

/// Headers of a frame with data of a byte stream: Ethernet, IPv4, UDP, and Pliant's own.
const DATA_FRAME_BYTES: i16 = 14 + 20 + 8 + wire::DATA_HEADER_BYTES as i16;
