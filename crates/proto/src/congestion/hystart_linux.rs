//! HyStart as in Linux (Ha and Rhee, 2008; `net/ipv4/tcp_cubic.c`), and in ns-3, which copied it. Slow start ends when
//! a round's acknowledgements have come in a row for half a round-trip time, or when the round-trip time rises.
//!
//! | constant | value | name there |
//! |---|---|---|
//! | least window | 16 segments | `hystart_low_window` |
//! | longest gap in a train of acknowledgements | 2 ms | `hystart_ack_delta_us` |
//! | samples before the round's minimum counts | 8 | `HYSTART_MIN_SAMPLES` |
//! | rise | an eighth of the least round-trip time, 4 to 16 ms | `HYSTART_DELAY_THRESH` |
//! | bytes of a host's burst | 4 · 64 KiB at the pacing rate, 1 ms at most | `hystart_ack_delay` |
//!
//! Differences from HyStart++ (RFC 9406, [`hystart`](super::hystart)): no conservative slow start follows; a train of
//! acknowledgements counts, which also works where queues are short; it starts again after a timeout.
//!
//! ns-3's variant ([`Variant::Ns3`]; 3.37, `tcp-cubic.cc`) requires a train of the whole least round-trip time, makes
//! no allowance for bursts, and its rise is the whole least round-trip time, 4 ms to 1 s. At datacenter round trips the
//! two differ widely. A burst of 256 KiB is longer than the round trip, so Linux waits where ns-3 ends slow start. In
//! ns-3, as in Linux until 2021, an acknowledgement that begins a round is judged in the round before. It is always a
//! round trip behind that round's first. So where round trips are shorter than the longest gap, the first full round of
//! 16 segments ends slow start.

use super::AckSample;
use super::hystart::threshold;
use crate::time::{Instant, Span};

const LEAST_WINDOW: f64 = 16.0;
const LONGEST_GAP: Span = Span::from_ms(2);
const SAMPLES: u8 = 8;
const BURST_BYTES: f64 = 4.0 * 65536.0;
const LONGEST_BURST: Span = Span::from_ms(1);
const LARGEST_RISE: Span = Span::from_ms(16);
const NS3_LARGEST_RISE: Span = Span::from_secs(1);

/// Whose HyStart it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Variant {
    /// The kernel's.
    Linux,
    /// ns-3's.
    Ns3,
}

/// The state of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinuxHyStart {
    variant: Variant,
    minimum_threshold: Span,
    /// When the round began, and the last acknowledgement of its train.
    round_start: Instant,
    train: Instant,
    /// The round ends after this byte.
    round_end: u64,
    /// Least round-trip times: of the connection since its beginning or the last timeout, and of the round.
    least: Span,
    current: Span,
    samples: u8,
    found: bool,
}

impl LinuxHyStart {
    /// A connection before its first acknowledgement; a rise by less than `minimum_threshold` does not count.
    pub(super) fn new(minimum_threshold: Span, variant: Variant) -> Self {
        Self {
            variant,
            minimum_threshold,
            round_start: Instant::ZERO,
            train: Instant::ZERO,
            round_end: 0,
            least: Span::MAX,
            current: Span::MAX,
            samples: 0,
            found: false,
        }
    }

    /// Takes the round-trip time of an acknowledgement outside of slow start.
    #[inline]
    pub(super) fn note(&mut self, sample: &AckSample) {
        if let Some(rtt) = sample.rtt {
            self.least = self.least.min(rtt);
        }
    }

    /// Follows slow start with windows in segments of `mss` bytes; true when it is over.
    pub(super) fn on_ack(&mut self, sample: &AckSample, cwnd: f64, ssthresh: f64, mss: f64) -> bool {
        let Some(rtt) = sample.rtt else { return false };
        self.least = self.least.min(rtt);
        if self.found {
            return false;
        }
        let begins_round = sample.unacked > self.round_end;
        if begins_round && self.variant == Variant::Linux {
            self.begin_round(sample.now, sample.next);
        }
        // Before the first round there is nothing to judge by.
        if cwnd >= LEAST_WINDOW && self.round_end > 0 {
            self.found = self.is_a_long_train(sample, cwnd, ssthresh, mss) | self.is_a_rise(rtt);
        }
        if begins_round && self.variant == Variant::Ns3 && !self.found {
            self.begin_round(sample.now, sample.next);
        }
        self.found
    }

    fn begin_round(&mut self, now: Instant, next: u64) {
        (self.round_start, self.train, self.round_end) = (now, now, next);
        (self.current, self.samples) = (Span::MAX, 0);
    }

    fn is_a_long_train(&mut self, sample: &AckSample, cwnd: f64, ssthresh: f64, mss: f64) -> bool {
        if sample.now.since(self.train) > LONGEST_GAP {
            return false;
        }
        self.train = sample.now;
        let longest = match self.variant {
            Variant::Linux => self.least.plus(burst(sample, cwnd, ssthresh, mss)).divided_by(2),
            Variant::Ns3 => self.least,
        };
        sample.now.since(self.round_start) > longest
    }

    fn is_a_rise(&mut self, rtt: Span) -> bool {
        let counts = self.samples < SAMPLES;
        if counts || self.variant == Variant::Linux {
            self.current = self.current.min(rtt);
        }
        if counts {
            self.samples += 1;
            return false;
        }
        let minimum = self.minimum_threshold;
        let rise = match self.variant {
            Variant::Linux => threshold(self.least, minimum, LARGEST_RISE.max(minimum)),
            Variant::Ns3 => self.least.clamp(minimum, NS3_LARGEST_RISE.max(minimum)),
        };
        self.current > self.least.plus(rise)
    }

    /// After a timeout everything is as at the beginning, in a round that ends at `next`, after what was sent.
    pub(super) fn on_timeout(&mut self, now: Instant, next: u64) {
        self.begin_round(now, next);
        (self.least, self.found) = (Span::MAX, false);
    }
}

/// How long a burst of the sending host may last.
fn burst(sample: &AckSample, cwnd: f64, ssthresh: f64, mss: f64) -> Span {
    let pace = if cwnd < ssthresh / 2.0 { 2.0 } else { 1.2 };
    let rate = pace * cwnd * mss / sample.smoothed_rtt.as_secs_f64();
    // A rate of zero or infinity gives a burst of the limit or none.
    Span::from_secs_f64((BURST_BYTES / rate).min(LONGEST_BURST.as_secs_f64()))
}
