//! Rate control on paths that are shared with others, where the paper's law would do harm.
//!
//! The packets under way are limited by a CUBIC window (RFC 9438) that starts as TCP's does and leaves slow start when
//! delays rise (HyStart++, RFC 9406). It is cut at most once per round trip: as soon as a window T_δ has lost more than
//! the target, at a mark, and when the smoothed round-trip time exceeds the least by more than the delay target. A window
//! without any acknowledgement leaves one packet. Lost packets need not be sent again, but they count all the same.
//!
//! The least round-trip time is that of the whole flow: on a path that becomes longer by more than the delay target the
//! flow keeps giving way.

use super::config::SharedPathConfig;
use super::rate::Knowledge;
use crate::congestion::cubic::{Cubic, CubicConfig};
use crate::congestion::hystart::HyStartConfig;
use crate::congestion::{AckSample, Cause, Congestion, CongestionControl};
use crate::time::{Instant, Span};
use crate::transport::tcp::PacingFactors;

/// The window and when it was cut.
#[derive(Clone, Debug)]
pub(super) struct SharedPath {
    cubic: Cubic,
    delay_target: Span,
    mss: u64,
    /// Packets below this number were sent before the last cut: what becomes of them tells nothing of it.
    recovery: u64,
}

impl SharedPath {
    /// A path of which nothing is known; packets carry `payload` bytes.
    pub(super) fn new(config: SharedPathConfig, payload: u16) -> Self {
        // Packets are paced, so slow start needs no limit on bursts (RFC 9406, section 4.3).
        let hystart = Some(HyStartConfig { burst_limit: u16::MAX, ..HyStartConfig::default() });
        let window = CubicConfig { initial_window: config.initial_window, hystart, ..CubicConfig::default() };
        Self {
            cubic: Cubic::new(window, payload),
            delay_target: config.delay_target,
            mss: u64::from(payload),
            recovery: 0,
        }
    }

    /// Packets that may be under way.
    #[inline]
    pub(super) fn window(&self) -> u64 {
        (self.cubic.window() / self.mss).max(1)
    }

    fn in_slow_start(&self) -> bool {
        self.cubic.window() < self.cubic.ssthresh()
    }

    /// The rate that spreads the window over a round-trip time, and a little faster, so that the window is the limit.
    pub(super) fn packets_per_second(&self, rtt: Span) -> f64 {
        let factors = PacingFactors::default();
        let factor = if self.in_slow_start() { factors.slow_start } else { factors.avoidance };
        factor * self.cubic.window() as f64 / self.mss as f64 / rtt.as_secs_f64().max(1e-9)
    }

    /// A packet has arrived; `know` is of after it.
    pub(super) fn on_ack(&mut self, now: Instant, rtt: Option<Span>, know: &Knowledge) {
        let flight = know.under_way + 1;
        // As Linux does (`tcp_is_cwnd_limited`): in slow start half the window is enough to let it grow.
        let window_limited = if self.in_slow_start() { 2 * flight > self.window() } else { flight >= self.window() };
        self.cubic.on_ack(&AckSample {
            now,
            acked: self.mss,
            unacked: know.settled * self.mss,
            next: know.next * self.mss,
            flight: flight * self.mss,
            ece: false,
            rtt,
            smoothed_rtt: know.rtt,
            window_limited,
            in_recovery: know.settled < self.recovery,
            delay: None,
        });
    }

    /// Packet `number` tells of congestion: the window shrinks, once per round trip.
    pub(super) fn cut(&mut self, now: Instant, number: u64, cause: Cause, know: &Knowledge) {
        if number < self.recovery {
            return;
        }
        self.recovery = know.next;
        let (unacked, next) = (know.settled * self.mss, know.next * self.mss);
        let flight = self.cubic.window();
        self.cubic.on_congestion(&Congestion { now, cause, flight, unacked, next, first: true });
    }

    /// A window T_δ that began with packet `first` is over, and `arrived` of its packets have arrived.
    pub(super) fn judge(&mut self, now: Instant, arrived: u32, first: u64, know: &Knowledge) {
        if arrived == 0 {
            self.cut(now, first, Cause::Timeout, know);
        } else if know.base_rtt.is_some_and(|base| know.rtt > base.plus(self.delay_target)) {
            self.cut(now, first, Cause::Loss, know);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Span = Span::from_ms(20);

    fn path() -> SharedPath {
        SharedPath::new(SharedPathConfig { initial_window: 10, delay_target: Span::from_ms(5) }, 1460)
    }

    fn know(rtt: Span, settled: u64, next: u64) -> Knowledge {
        Knowledge { rtt, base_rtt: Some(RTT), settled, next, under_way: next - settled }
    }

    /// The first window is TCP's, and doubles in the first round trip.
    #[test]
    fn it_starts_as_tcp_does() {
        let mut path = path();
        assert_eq!(path.window(), 10);
        assert_eq!(path.packets_per_second(RTT), 2.0 * 10.0 / 0.020);
        for number in 1..=10 {
            path.on_ack(Instant::ZERO.after(RTT), Some(RTT), &know(RTT, number, 10 + 2 * number));
        }
        assert_eq!(path.window(), 20);
    }

    /// RFC 9438, section 4.6: what remains is 0.7, whatever told of the congestion; once for the packets of one round trip.
    #[test]
    fn one_cut_per_round_trip() {
        let mut path = path();
        path.cut(Instant::ZERO, 3, Cause::Loss, &know(RTT, 3, 13));
        assert_eq!(path.window(), 7);
        path.cut(Instant::ZERO, 12, Cause::Ecn, &know(RTT, 4, 14));
        path.judge(Instant::ZERO, 8, 4, &know(Span::from_ms(26), 4, 14));
        assert_eq!(path.window(), 7, "packets sent before the cut");
        path.judge(Instant::ZERO, 8, 13, &know(Span::from_ms(25), 20, 24));
        assert_eq!(path.window(), 7, "a delay at the target");
        path.judge(Instant::ZERO, 8, 13, &know(Span::from_ms(26), 20, 24));
        assert_eq!(path.window(), 4, "a delay beyond it");
        path.judge(Instant::ZERO, 0, 24, &know(RTT, 24, 30));
        assert_eq!(path.window(), 1, "silence");
    }
}
