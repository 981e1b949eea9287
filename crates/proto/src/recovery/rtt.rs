//! Round-trip time and retransmission timeout (RFC 6298), in whole picoseconds.

use crate::time::Span;

/// Bounds of the retransmission timeout.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RtoBounds {
    /// Clock granularity G: the least value of `4 * RTTVAR`. Default 1 us; REFLEX's ns-3 uses 1 ms.
    pub granularity: Span,
    /// Least timeout. Default 1 ms, as in datacenters (1 to 10 ms); RFC 6298 (2.4) says 1 s.
    pub minimum: Span,
    /// Whether SRTT takes an eighth of a sample (RFC 6298, 2.3). Otherwise it is the newest sample, as in ns-3 with 1 for
    /// `RttMeanDeviation::Alpha`. Default true.
    pub smooth: bool,
    /// Greatest timeout, also of backoff; at least 60 s (RFC 6298, 2.5). Default 60 s.
    pub maximum: Span,
    /// Timeout before the first sample. Default 10 ms; RFC 6298 (2.1) says 1 s.
    pub initial: Span,
    /// Least timeout after a connection request was lost, until data is sampled. Default 3 s (RFC 6298, 5.7).
    pub after_lost_syn: Span,
}

impl RtoBounds {
    /// The default: those of a datacenter.
    pub const DEFAULT: Self = Self {
        granularity: Span::from_us(1),
        minimum: Span::from_ms(1),
        smooth: true,
        maximum: Span::from_secs(60),
        initial: Span::from_ms(10),
        after_lost_syn: Span::from_secs(3),
    };
}

impl Default for RtoBounds {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Longest sample taken: the sums below stay within 64 bits, whatever a peer echoes.
const SAMPLE_MAX_PS: u64 = 1 << 60;

/// Smoothed round-trip time, its variation and the timeout that follows from them.
#[derive(Clone, Copy, Debug)]
pub struct RttEstimator {
    smoothed: Span,
    variation: Span,
    rto: Span,
}

impl RttEstimator {
    /// An estimator without samples.
    pub fn new(bounds: &RtoBounds) -> Self {
        Self { smoothed: Span::ZERO, variation: Span::ZERO, rto: bounds.initial }
    }

    /// Takes one sample; this also ends any backoff.
    #[inline]
    pub fn sample(&mut self, bounds: &RtoBounds, rtt: Span) {
        let rtt = rtt.as_ps().clamp(1, SAMPLE_MAX_PS);
        let (smoothed, variation) = (self.smoothed.as_ps(), self.variation.as_ps());
        if smoothed == 0 {
            (self.smoothed, self.variation) = (Span::from_ps(rtt), Span::from_ps(rtt / 2));
        } else {
            // RTTVAR first: it needs the old SRTT (RFC 6298, 2.3).
            self.variation = Span::from_ps((3 * variation + smoothed.abs_diff(rtt)) / 4);
            self.smoothed = Span::from_ps(if bounds.smooth { (7 * smoothed + rtt) / 8 } else { rtt });
        }
        let margin = self.variation.times(4).max(bounds.granularity);
        self.rto = self.smoothed.plus(margin).max(bounds.minimum).min(bounds.maximum);
    }

    /// Smoothed round-trip time (SRTT); zero before the first sample.
    #[inline]
    pub const fn smoothed(&self) -> Span {
        self.smoothed
    }

    /// Variation of the round-trip time (RTTVAR).
    pub const fn variation(&self) -> Span {
        self.variation
    }

    /// The timeout (RTO), backoff included.
    #[inline]
    pub const fn rto(&self) -> Span {
        self.rto
    }

    /// Doubles the timeout (RFC 6298, 5.5).
    pub fn back_off(&mut self, bounds: &RtoBounds) {
        self.rto = self.rto.times(2).min(bounds.maximum);
    }

    /// Data transmission begins after a connection request was lost (RFC 6298, 5.7).
    pub fn begin_after_lost_syn(&mut self, bounds: &RtoBounds) {
        self.rto = self.rto.max(bounds.after_lost_syn);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(bounds: &RtoBounds, samples_us: &[u64]) -> RttEstimator {
        let mut rtt = RttEstimator::new(bounds);
        for us in samples_us {
            rtt.sample(bounds, Span::from_us(*us));
        }
        rtt
    }

    const UNBOUNDED: RtoBounds = RtoBounds {
        granularity: Span::ZERO,
        minimum: Span::ZERO,
        maximum: Span::from_secs(60),
        initial: Span::from_secs(1),
        after_lost_syn: Span::from_secs(3),
        smooth: true,
    };

    /// 100 and 900 us: SRTT 200 us, or 900 us. The variation, 50 us and then 237.5 us, is the same.
    #[test]
    fn the_mean_may_be_the_newest_sample() {
        for (smooth, smoothed) in [(true, 200), (false, 900)] {
            let mut rtt = RttEstimator::new(&UNBOUNDED);
            for sample in [100, 900] {
                rtt.sample(&RtoBounds { smooth, ..UNBOUNDED }, Span::from_us(sample));
            }
            assert_eq!((rtt.smoothed(), rtt.variation()), (Span::from_us(smoothed), Span::from_ns(237_500)));
        }
    }

    #[test]
    fn variation_is_updated_before_the_mean() {
        let rtt = after(&UNBOUNDED, &[100, 140]);
        assert_eq!(rtt.smoothed(), Span::from_us(105));
        assert_eq!(rtt.variation(), Span::from_ns(47_500), "46.25 us would be the wrong order");
        assert_eq!(rtt.rto(), Span::from_us(295));
    }

    #[test]
    fn granularity_is_the_least_margin() {
        let coarse = RtoBounds { granularity: Span::from_ms(1), ..UNBOUNDED };
        assert_eq!(after(&coarse, &[100, 140]).rto(), Span::from_us(1105));
    }

    #[test]
    fn first_sample_gives_three_times_itself() {
        assert_eq!(RttEstimator::new(&UNBOUNDED).rto(), Span::from_secs(1));
        assert_eq!(after(&UNBOUNDED, &[100]).rto(), Span::from_us(300));
    }

    #[test]
    fn backoff_doubles_up_to_the_maximum_and_a_sample_ends_it() {
        let mut rtt = after(&UNBOUNDED, &[100]);
        rtt.back_off(&UNBOUNDED);
        rtt.back_off(&UNBOUNDED);
        assert_eq!(rtt.rto(), Span::from_us(1200));
        for _ in 0..40 {
            rtt.back_off(&UNBOUNDED);
        }
        assert_eq!(rtt.rto(), Span::from_secs(60));
        rtt.sample(&UNBOUNDED, Span::from_us(100));
        assert_eq!(rtt.rto(), Span::from_us(250));
    }

    #[test]
    fn a_lost_request_starts_data_with_three_seconds() {
        let mut rtt = after(&UNBOUNDED, &[100]);
        rtt.begin_after_lost_syn(&UNBOUNDED);
        assert_eq!(rtt.rto(), Span::from_secs(3));
        rtt.sample(&UNBOUNDED, Span::from_us(100));
        assert_eq!(rtt.rto(), Span::from_us(250));
    }

    #[test]
    fn absurd_samples_stay_within_bounds() {
        let mut rtt = RttEstimator::new(&UNBOUNDED);
        for sample in [Span::MAX, Span::ZERO, Span::MAX, Span::MAX] {
            rtt.sample(&UNBOUNDED, sample);
            assert!(rtt.rto() <= UNBOUNDED.maximum);
        }
    }
}
