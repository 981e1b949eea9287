//! The rate that a link offers to one flow.

use pliant_proto::time::Span;
use pliant_proto::units::Rate;

/// A link as a class of its flows sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Load {
    /// The link's rate.
    pub(super) capacity: Rate,
    /// T, above zero.
    pub(super) interval: Span,
    /// Bytes that the classes above sent in the last interval.
    pub(super) sent_above: u64,
    /// Bytes that wait now, of this class and those above.
    pub(super) queued: u64,
    /// Flows of this class with unsent or unacknowledged data, at least one.
    pub(super) flows: u32,
}

impl Load {
    /// What is left of the link in the next interval, taking the last one for a forecast, divided by the flows
    /// (arXiv 2401.08890, section 3). The paper's difference can be negative; no rate is.
    pub(super) fn fair_rate(&self) -> Rate {
        let interval = u128::from(self.interval.as_ps());
        // In 10⁻¹² bit: what the link carries in an interval, and what is spoken for.
        let carried = u128::from(self.capacity.bits_per_sec()) * interval;
        let taken = (u128::from(self.sent_above) + u128::from(self.queued)) * 8_000_000_000_000;
        let left = carried.saturating_sub(taken) / (interval * u128::from(self.flows));
        Rate::from_bits_per_sec(left as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const EXAMPLE: Load = Load {
        capacity: Rate::from_gbit_per_sec(10),
        interval: Span::from_us(100),
        sent_above: 50_000,
        queued: 12_500 + 12_500,
        flows: 4,
    };

    /// 10 Gbit/s, of which 4 Gbit/s went to the class above in the last 100 us, and 1 Gbit/s for that long is worth
    /// each of the two queues: a quarter of 4 Gbit/s.
    #[test]
    fn known_answer() {
        assert_eq!(EXAMPLE.fair_rate(), Rate::from_gbit_per_sec(1));
        assert_eq!(Load { sent_above: 0, queued: 0, ..EXAMPLE }.fair_rate().bits_per_sec(), 2_500_000_000);
    }

    /// A full low queue alone is worth twice the link at the default interval: the rate is zero, not negative.
    #[test]
    fn never_negative() {
        let full = Load { interval: Span::from_us(25), queued: 64_000, ..EXAMPLE };
        assert_eq!(full.fair_rate(), Rate::from_bits_per_sec(0));
    }

    proptest! {
        /// The flows together never get more than the link has left, and all of it but rounding.
        #[test]
        fn shares_add_up(
            bits in 1u64..1_000_000_000_000,
            interval_us in 10u64..1000,
            sent_above in 0u64..1_000_000,
            queued in 0u64..1_000_000,
            flows in 1u32..10_000,
        ) {
            let (capacity, interval) = (Rate::from_bits_per_sec(bits), Span::from_us(interval_us));
            let rate = Load { capacity, interval, sent_above, queued, flows }.fair_rate().bits_per_sec();
            let left = bits as f64 - (sent_above + queued) as f64 * 8e6 / interval_us as f64;
            let sum = (rate * u64::from(flows)) as f64;
            prop_assert!(sum <= left.max(0.0) + 1.0 && sum >= left - f64::from(flows) - 1.0, "{} of {}", sum, left);
        }
    }
}
