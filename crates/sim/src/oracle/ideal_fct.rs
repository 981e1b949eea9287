//! Ideal flow completion time: the time a flow takes alone on its path.
//!
//! Store and forward. Packet i of size s_i leaves link l at D(i,l) = max(D(i−1,l), D(i,l−1) + delay(l−1)) + s_i / C_l,
//! and the flow ends when its last byte arrives. D of the last packet at the last link is the longest way through the
//! grid of packets and links, and since all packets but the last are equal, the longest way turns only at few places:
//! packet 1 crosses the links before the bottleneck, the bottleneck carries the equal packets, the last of them crosses
//! the following links, and somewhere from the bottleneck on the way turns to the last packet. One pass over the links
//! finds it.

use pliant_proto::packet::WireFormat;
use pliant_proto::time::Span;
use pliant_proto::units::Rate;

/// How a flow is cut into packets: full ones of `mss` payload bytes, and a last one with the rest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segmentation {
    /// Payload bytes of a full packet; above zero.
    pub mss: u16,
    /// Bytes around every payload.
    pub wire: WireFormat,
}

impl Segmentation {
    /// Packets of a flow of `bytes` payload bytes; an empty flow is one empty packet.
    pub fn packets(self, bytes: u64) -> u64 {
        bytes.div_ceil(u64::from(self.mss)).max(1)
    }

    /// Bytes on the wire of a flow of `bytes` payload bytes.
    pub fn wire_bytes(self, bytes: u64) -> u64 {
        (self.packets(bytes) - 1) * self.full_packet() + self.last_packet(bytes)
    }

    /// Payload over wire bytes of full packets: what turns a link's rate into the goodput it can carry.
    pub fn goodput_ratio(self) -> f64 {
        f64::from(self.mss) / self.full_packet() as f64
    }

    fn full_packet(self) -> u64 {
        u64::from(self.wire.wire_bytes(self.mss))
    }

    fn last_packet(self, bytes: u64) -> u64 {
        let payload = bytes - (self.packets(bytes) - 1) * u64::from(self.mss);
        u64::from(self.wire.wire_bytes(payload as u16))
    }
}

/// Time from the start of a flow of `bytes` payload bytes, alone on `path`, until its last byte arrives. `path` gives
/// rate and delay of every link in order; processing in hosts and switches is part of the delays. For a flow that ends
/// at the sender, add the time of an empty flow on the way back: the acknowledgement's.
///
/// Exact where a byte takes a whole number of picoseconds on every link (1, 10, 25, 40, 100, 400 Gbit/s). At other
/// rates each link's share is rounded down, so the result is never above what any serializer achieves and less than
/// two picoseconds per link below it. Takes one pass over the links, whatever the flow's size.
pub fn ideal_fct(bytes: u64, cut: Segmentation, path: impl IntoIterator<Item = (Rate, Span)>) -> Span {
    assert!(cut.mss > 0, "a full packet carries payload");
    let full_packets = cut.packets(bytes) - 1;
    let full_bytes = if full_packets > 0 { cut.full_packet() } else { 0 };
    let mut longest = LongestWays::default();
    let mut delays = Span::ZERO;
    for (rate, delay) in path {
        longest = longest.cross(rate, full_bytes, full_packets, cut.last_packet(bytes));
        delays = delays.plus(delay);
    }
    delays.plus(longest.last)
}

/// FCT over ideal FCT. Panics below 1: nothing beats the ideal, so the simulation or the ideal is wrong.
pub fn slowdown(fct: Span, ideal: Span) -> f64 {
    assert!(ideal > Span::ZERO && fct >= ideal, "a flow took {fct}, its ideal is {ideal}");
    fct.as_ps() as f64 / ideal.as_ps() as f64
}

/// Lengths of the longest ways through the links so far, by the packet at which they stand.
#[derive(Clone, Copy, Default)]
struct LongestWays {
    /// At the first packet: the bottleneck is still to come.
    first: Span,
    /// At the last full packet.
    full: Span,
    /// At the last packet of all.
    last: Span,
}

impl LongestWays {
    /// Extends the ways by a link. On it a way stays at its packet or moves on, carrying every packet between.
    ///
    /// Before the first link only the way at the first packet is real. The others may start at zero too: on that link
    /// they lose against it, which carries more. A flow without full packets has `full_bytes` zero.
    fn cross(self, rate: Rate, full_bytes: u64, full_packets: u64, last_bytes: u64) -> Self {
        let (full, last) = (u128::from(full_bytes), u128::from(last_bytes));
        let all_full = full * u128::from(full_packets);
        let extend = |way: Span, bytes| way.plus(time_rounded_down(rate, bytes));
        Self {
            first: extend(self.first, full),
            full: extend(self.first, all_full).max(extend(self.full, full)),
            last: extend(self.first, all_full + last).max(extend(self.full, full + last)).max(extend(self.last, last)),
        }
    }
}

/// Whole picoseconds in the time of `bytes` at `rate`; saturates like every span.
fn time_rounded_down(rate: Rate, bytes: u128) -> Span {
    let ps = bytes.saturating_mul(8_000_000_000_000) / u128::from(rate.bits_per_sec());
    Span::from_ps(u64::try_from(ps).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pliant_proto::units::Serializer;
    use proptest::prelude::*;

    const ETHERNET: Segmentation = Segmentation { mss: 1460, wire: WireFormat::ETHERNET };

    fn four_hops(gbit: [u64; 4]) -> Vec<(Rate, Span)> {
        gbit.map(|rate| (Rate::from_gbit_per_sec(rate), Span::from_us(1))).to_vec()
    }

    fn sizes(bytes: u64, cut: Segmentation) -> Vec<u32> {
        let full = std::iter::repeat_n(cut.full_packet(), cut.packets(bytes) as usize - 1);
        full.chain([cut.last_packet(bytes)]).map(|size| size as u32).collect()
    }

    /// The recursion, packet by packet and link by link, with serializers that carry remainders. `carries` are bytes
    /// that each serializer sent before, which leave it any remainder.
    fn plain_recursion(bytes: u64, cut: Segmentation, path: &[(Rate, Span)], carries: &[u32]) -> Span {
        let mut arrivals = vec![Span::ZERO; sizes(bytes, cut).len()];
        for (link, &(rate, delay)) in path.iter().enumerate() {
            let mut serializer = Serializer::new(rate);
            serializer.transmit(carries.get(link).copied().unwrap_or(0));
            let mut free = Span::ZERO;
            for (arrival, size) in arrivals.iter_mut().zip(sizes(bytes, cut)) {
                free = free.max(*arrival).plus(serializer.transmit(size));
                *arrival = free.plus(delay);
            }
        }
        *arrivals.last().expect("a flow has a packet")
    }

    /// Four hops of 1 us, MSS 1460 in Ethernet frames: equal links, and a faster core.
    #[test]
    fn known_values() {
        for (bytes, equal_ps, fast_core_ps) in [
            (1, 4_268_800, 4_168_000),
            (1460, 8_921_600, 7_076_000),
            (10_000, 16_128_000, 14_282_400),
            (100_000, 91_996_800, 90_151_200),
            (1_000_000, 850_435_200, 848_589_600),
        ] {
            let ideal = |gbit| ideal_fct(bytes, ETHERNET, four_hops(gbit)).as_ps();
            assert_eq!((ideal([10; 4]), ideal([10, 40, 40, 10])), (equal_ps, fast_core_ps), "{bytes} bytes");
        }
    }

    /// 2 packets of 1538 and 618 bytes over 10, then 1 Gbit/s: the slow second link sets the pace.
    #[test]
    fn slow_later_link_sets_the_pace() {
        let path = [(Rate::from_gbit_per_sec(10), Span::ZERO), (Rate::from_gbit_per_sec(1), Span::ZERO)];
        assert_eq!(ideal_fct(2000, ETHERNET, path), Span::from_ps(1_230_400 + (1538 + 618) * 8000));
    }

    #[test]
    fn absurd_flows_saturate() {
        assert_eq!(ideal_fct(u64::MAX, ETHERNET, [(Rate::from_bits_per_sec(1), Span::MAX)]), Span::MAX);
    }

    #[test]
    fn segmentation_counts_the_wire() {
        assert_eq!((ETHERNET.packets(0), ETHERNET.packets(1460), ETHERNET.packets(1461)), (1, 1, 2));
        assert_eq!(ETHERNET.wire_bytes(0), 84, "an acknowledgement is a minimal frame");
        assert_eq!(ETHERNET.wire_bytes(1461), 1538 + 84);
        assert!((ETHERNET.goodput_ratio() - 0.949).abs() < 5e-4);
    }

    #[test]
    fn slowdown_is_a_ratio() {
        assert_eq!(slowdown(Span::from_us(3), Span::from_us(2)), 1.5);
        assert!(std::panic::catch_unwind(|| slowdown(Span::from_us(1), Span::from_us(2))).is_err());
    }

    fn cuts() -> impl Strategy<Value = Segmentation> {
        (1u16..3000, 0u16..100, 0u16..200).prop_map(|(mss, header_bytes, minimum_bytes)| Segmentation {
            mss,
            wire: WireFormat { header_bytes, minimum_bytes },
        })
    }

    fn spans() -> impl Strategy<Value = Span> {
        (0u64..10_000_000).prop_map(Span::from_ps)
    }

    proptest! {
        /// Where bytes take whole picoseconds the one pass equals the recursion.
        #[test]
        fn equals_the_recursion(
            bytes in 0u64..60_000,
            cut in cuts(),
            path in prop::collection::vec(
                (prop::sample::select(vec![1u64, 2, 5, 8, 10, 25, 40, 100, 400]), spans()), 1..8),
        ) {
            let path: Vec<_> = path.into_iter().map(|(gbit, delay)| (Rate::from_gbit_per_sec(gbit), delay)).collect();
            prop_assert_eq!(ideal_fct(bytes, cut, path.iter().copied()), plain_recursion(bytes, cut, &path, &[]));
        }

        /// At any rate no serializer, whatever it sent before, beats the ideal, and it is tight.
        #[test]
        fn bounds_every_serializer(
            bytes in 0u64..30_000,
            cut in cuts(),
            path in prop::collection::vec((1_000_000u64..400_000_000_000, spans()), 1..8),
            carries in prop::collection::vec(0u32..100_000, 8),
        ) {
            let path: Vec<_> =
                path.into_iter().map(|(bits, delay)| (Rate::from_bits_per_sec(bits), delay)).collect();
            let ideal = ideal_fct(bytes, cut, path.iter().copied());
            let sent = plain_recursion(bytes, cut, &path, &carries);
            prop_assert!(ideal <= sent && sent.minus(ideal).as_ps() < 2 * path.len() as u64, "{} {}", ideal, sent);
        }
    }
}
