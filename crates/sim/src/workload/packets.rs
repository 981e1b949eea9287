//! Bytes on the wire of a flow, exactly for one size and in expectation over a distribution.

use pliant_proto::packet::WireFormat;

use super::Distribution;

/// How a transport cuts a flow into packets: full segments, then one with the rest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PacketFormat {
    mss: u16,
    wire: WireFormat,
}

impl PacketFormat {
    /// Segments of `mss` payload bytes in packets of the form `wire`. A full segment must need no padding.
    pub fn new(mss: u16, wire: WireFormat) -> Self {
        assert!(mss > 0 && u32::from(mss) + u32::from(wire.header_bytes) >= u32::from(wire.minimum_bytes));
        Self { mss, wire }
    }

    /// Bytes that a flow of `bytes` payload bytes puts on a link if nothing is sent twice.
    pub fn wire_bytes(self, bytes: u64) -> u64 {
        let mss = u64::from(self.mss);
        let full = bytes / mss * u64::from(self.wire.wire_bytes(self.mss));
        match (bytes % mss) as u16 {
            0 => full,
            rest => full + u64::from(self.wire.wire_bytes(rest)),
        }
    }

    /// The mean of [`PacketFormat::wire_bytes`] over flow sizes drawn from `sizes`, in closed form: payload, headers
    /// of the expected number of packets, and padding of last packets shorter than the shortest packet.
    pub fn mean_wire_bytes(self, sizes: &Distribution) -> f64 {
        let mss = u64::from(self.mss);
        let packets = sizes.survival_sum(0, mss);
        let header = self.wire.header_bytes;
        // A last packet of r bytes is padded by `padded - r`. P(S mod mss = r) is the difference of two survival sums,
        // and the weighted sum of these differences telescopes.
        let padded = u64::from(self.wire.minimum_bytes.saturating_sub(header));
        let padding = match padded {
            0 | 1 => 0.0,
            _ => (padded - 1) as f64 * packets - (1..padded).map(|r| sizes.survival_sum(r, mss)).sum::<f64>(),
        };
        sizes.mean_bytes() + f64::from(header) * packets + padding
    }
}
