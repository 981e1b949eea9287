//! HyStart++ (RFC 9406): leaves the initial slow start when the round-trip time rises, before packets are lost.
//!
//! | knob | default | source |
//! |---|---|---|
//! | minimum threshold | 4 ms | RFC 9406 section 4.3 |
//! | maximum threshold | 16 ms | RFC 9406 section 4.3 |
//! | burst limit L | 8 segments | RFC 9406 section 4.3; without limit where the transport paces |
//!
//! The minimum of 4 ms makes it ineffective at datacenter round-trip times. Lower it there.

use super::AckSample;
use crate::time::Span;

/// Samples that a round needs before its minimum counts (N_RTT_SAMPLE).
const SAMPLES: u8 = 8;
/// The threshold is this fraction of the round-trip time (MIN_RTT_DIVISOR).
const RTT_DIVISOR: u64 = 8;
/// Growth in conservative slow start is divided by this (CSS_GROWTH_DIVISOR).
const CONSERVATIVE_DIVISOR: u64 = 4;
/// Rounds of conservative slow start before avoidance (CSS_ROUNDS).
const CONSERVATIVE_ROUNDS: u8 = 5;

/// Settings of [`HyStart`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HyStartConfig {
    /// Least rise of the round-trip time that counts. Default 4 ms.
    pub minimum_threshold: Span,
    /// Largest rise that is required; not below the minimum. Default 16 ms.
    pub maximum_threshold: Span,
    /// Segments that one acknowledgement may add, at least 1; `u16::MAX` is no limit. Default 8.
    pub burst_limit: u16,
}

impl Default for HyStartConfig {
    fn default() -> Self {
        Self { minimum_threshold: Span::from_ms(4), maximum_threshold: Span::from_ms(16), burst_limit: 8 }
    }
}

/// The rise over a round-trip time that ends slow start (RttThresh).
pub(super) fn threshold(rtt: Span, minimum: Span, maximum: Span) -> Span {
    rtt.divided_by(RTT_DIVISOR).clamp(minimum, maximum)
}

/// The state of HyStart++ during the initial slow start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HyStart {
    minimum_threshold: Span,
    maximum_threshold: Span,
    /// The round ends when this byte is acknowledged (windowEnd).
    round_end: u64,
    /// Least round-trip times of the last and of this round; [`Span::MAX`] without a sample.
    last_minimum: Span,
    current_minimum: Span,
    /// In conservative slow start, the minimum that led there. A round-trip time below it means that the rise was a
    /// false alarm.
    baseline: Option<Span>,
    burst_limit: u16,
    samples: u8,
    conservative_rounds: u8,
}

impl HyStart {
    /// A connection's first round.
    pub fn new(config: HyStartConfig) -> Self {
        assert!(config.minimum_threshold <= config.maximum_threshold, "the minimum is not above the maximum");
        assert!(config.burst_limit > 0, "an acknowledgement adds at least one segment");
        let HyStartConfig { minimum_threshold, maximum_threshold, burst_limit } = config;
        Self {
            minimum_threshold,
            maximum_threshold,
            burst_limit,
            round_end: 0,
            last_minimum: Span::MAX,
            current_minimum: Span::MAX,
            baseline: None,
            samples: 0,
            conservative_rounds: 0,
        }
    }

    /// Bytes that the window grows by for this acknowledgement.
    pub(super) fn growth(&self, acked: u64, mss: u64) -> u64 {
        let limit = if self.burst_limit == u16::MAX { u64::MAX } else { u64::from(self.burst_limit) * mss };
        acked.min(limit) / if self.baseline.is_some() { CONSERVATIVE_DIVISOR } else { 1 }
    }

    /// Follows the rounds; true when slow start is over.
    pub(super) fn on_ack(&mut self, sample: &AckSample) -> bool {
        if let Some(rtt) = sample.rtt {
            self.current_minimum = self.current_minimum.min(rtt);
            self.samples = self.samples.saturating_add(1);
        }
        if self.samples >= SAMPLES {
            self.judge_round();
        }
        sample.unacked >= self.round_end && self.end_round(sample.next)
    }

    fn judge_round(&mut self) {
        match self.baseline {
            Some(baseline) if self.current_minimum < baseline => self.baseline = None,
            Some(_) => {}
            None if self.last_minimum == Span::MAX => {}
            None => {
                let threshold = threshold(self.last_minimum, self.minimum_threshold, self.maximum_threshold);
                if self.current_minimum >= self.last_minimum.plus(threshold) {
                    self.baseline = Some(self.current_minimum);
                    self.conservative_rounds = 0;
                }
            }
        }
    }

    /// A round in which conservative slow start began counts as one of its rounds.
    fn end_round(&mut self, next: u64) -> bool {
        self.round_end = next;
        self.last_minimum = self.current_minimum;
        self.current_minimum = Span::MAX;
        self.samples = 0;
        if self.baseline.is_some() {
            self.conservative_rounds += 1;
        }
        self.conservative_rounds >= CONSERVATIVE_ROUNDS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 9406 section 4.2: an eighth of the round-trip time, between 4 and 16 ms.
    #[test]
    fn thresholds() {
        let HyStartConfig { minimum_threshold, maximum_threshold, .. } = HyStartConfig::default();
        for (rtt_ms, threshold_us) in [(10, 4_000), (50, 6_250), (100, 12_500), (200, 16_000)] {
            let found = threshold(Span::from_ms(rtt_ms), minimum_threshold, maximum_threshold);
            assert_eq!(found, Span::from_us(threshold_us));
        }
        let datacenter = threshold(Span::from_us(80), Span::from_us(4), maximum_threshold);
        assert_eq!(datacenter, Span::from_us(10));
    }
}
