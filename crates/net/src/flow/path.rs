//! What surrounds a payload on its way to a peer.

use std::net::SocketAddr;

use pliant_proto::packet::WireFormat;
use pliant_proto::wire::MAX_DATA_HEADER_BYTES;

/// Bytes of IP and UDP headers.
const IPV4_UDP_BYTES: u16 = 20 + 8;
const IPV6_UDP_BYTES: u16 = 40 + 8;
/// Ethernet's header, FCS, preamble and gap; its shortest frame with them.
const ETHERNET_BYTES: u16 = 38;
pub(super) const ETHERNET_MINIMUM_BYTES: u16 = 84;
/// Smallest packet that every IPv4 host takes (RFC 791), and with it what encryption and IPv6 add.
pub const MIN_MTU: u16 = 576;

/// Where a flow's packets go.
#[derive(Clone, Copy, Debug)]
pub struct Path {
    /// Whether in IPv6.
    pub ipv6: bool,
    /// Bytes that encryption adds.
    pub sealing_bytes: u16,
}

impl Path {
    /// To `peer`, with so many bytes of encryption around a packet.
    pub fn to(peer: SocketAddr, sealing_bytes: usize) -> Self {
        Self { ipv6: peer.is_ipv6(), sealing_bytes: sealing_bytes as u16 }
    }

    fn header_bytes(self) -> u16 {
        let ip = if self.ipv6 { IPV6_UDP_BYTES } else { IPV4_UDP_BYTES };
        ip + self.sealing_bytes + MAX_DATA_HEADER_BYTES as u16
    }

    /// Payload bytes of a full packet.
    pub fn payload(self, mtu: u16) -> u16 {
        mtu - self.header_bytes()
    }

    /// On the wire, Ethernet's own included as far as a packet's length can say: what a rate is a rate of.
    pub(crate) fn wire(self, mtu: u16) -> WireFormat {
        let framing = full_bytes(mtu) - mtu;
        WireFormat { header_bytes: self.header_bytes() + framing, minimum_bytes: ETHERNET_MINIMUM_BYTES }
    }
}

/// Bytes of a full packet on the wire.
pub(super) fn full_bytes(mtu: u16) -> u16 {
    mtu.saturating_add(ETHERNET_BYTES)
}
