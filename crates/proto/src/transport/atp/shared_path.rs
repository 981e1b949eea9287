//! Rate control on paths shared with others, where the paper's law would do harm.
//!
//! A CUBIC window (RFC 9438) limits the packets in flight. It starts as TCP's does and leaves slow start when delays
//! rise (HyStart++, RFC 9406). It is cut at most once per round trip: at a congestion loss, at a mark, and when the
//! smoothed round-trip time exceeds the least by more than the delay target. A window T_δ without any acknowledgement
//! leaves one packet. Lost packets need not be sent again, but they all count.
//!
//! A loss is a congestion loss if packets were waiting: if the round-trip time that came with its news is nearer to the
//! recent largest one than to the least (Spike: Tobe, Tamura, Molano, Ghosh, Tokuda 2000; Cen, Cosman, Voelker 2003).
//! Delays below [`NOISE`] and below the time of a packet of the flow's own in the queue (Vegas' estimate as in TCP
//! Veno: Fu, Liew 2003) are attributed to hosts. With only one of these rules, many flows on a slow link, or few on a
//! fast one, would not see a short queue. A drop-tail queue is full when it drops, whatever its length, so every loss
//! there cuts, as it does for CUBIC. Other losses, of radio or of a policer, are tolerated up to the target: arrivals
//! earn them, at most [`ALLOWANCE`] losses. Beyond that every loss cuts.
//!
//! The least round-trip time is that of the whole flow. If a path becomes longer by more than the delay target, the
//! flow keeps giving way. The largest is that of the last one or two [`MEMORY`], so that one late packet, or a queue
//! that no longer exists, does not hide congestion for long.

use super::config::SharedPathConfig;
use super::knowledge::Knowledge;
use crate::congestion::cubic::{Cubic, CubicConfig, HyStartKind};
use crate::congestion::{AckSample, Cause, Congestion, CongestionControl};
use crate::time::{Instant, Span};
use crate::transport::tcp::PacingFactors;

/// Losses without a queue that are tolerated at once: twice the losses of a path at half the target, in 400 packets at
/// 1 %.
const ALLOWANCE: f64 = 4.0;
/// Delays above this are queues, whoever's packets wait. It is the granularity of timers on real hosts.
const NOISE: Span = Span::from_ms(1);
/// Least time for which the largest round-trip time is remembered.
const MEMORY: Span = Span::from_secs(10);

/// The window and when it was cut.
#[derive(Clone, Debug)]
pub(super) struct SharedPath {
    cubic: Cubic,
    delay_target: Span,
    mss: u64,
    /// Tolerated fraction of losses without a queue, and how many may still come.
    target_loss: f64,
    allowance: f64,
    /// Newest round-trip time.
    latest_rtt: Span,
    /// The largest since `since`, and in the period before it.
    largest_rtt: [Span; 2],
    since: Instant,
    /// Packets below this number were sent before the last cut, so their fate says nothing about it.
    recovery: u64,
}

impl SharedPath {
    /// An unknown path. Packets carry `payload` bytes, and the fraction `target_loss` of them may vanish.
    pub(super) fn new(config: SharedPathConfig, payload: u16, target_loss: f64) -> Self {
        // Packets are paced, so slow start needs no limit on bursts (RFC 9406, section 4.3).
        let window = CubicConfig {
            initial_window: config.initial_window,
            hystart: HyStartKind::Rfc9406,
            hystart_burst_limit: u16::MAX,
            ..CubicConfig::default()
        };
        Self {
            cubic: Cubic::new(window, payload),
            delay_target: config.delay_target,
            mss: u64::from(payload),
            target_loss,
            allowance: ALLOWANCE,
            latest_rtt: Span::ZERO,
            largest_rtt: [Span::ZERO; 2],
            since: Instant::ZERO,
            recovery: 0,
        }
    }

    /// Forgets the path.
    pub(super) fn on_new_path(&mut self) {
        self.cubic.on_idle();
        (self.latest_rtt, self.largest_rtt) = (Span::ZERO, [Span::ZERO; 2]);
    }

    /// Packets that may be in flight.
    #[inline]
    pub(super) fn window(&self) -> u64 {
        (self.cubic.window() / self.mss).max(1)
    }

    fn in_slow_start(&self) -> bool {
        self.cubic.window() < self.cubic.ssthresh()
    }

    /// The rate that spreads the window over a round-trip time, a little faster so that the window remains the limit.
    pub(super) fn packets_per_second(&self, rtt: Span) -> f64 {
        let factors = PacingFactors::default();
        let factor = if self.in_slow_start() { factors.slow_start } else { factors.avoidance };
        factor * self.cubic.window() as f64 / self.mss as f64 / rtt.as_secs_f64().max(1e-9)
    }

    /// A packet has arrived. `know` is the state after it.
    pub(super) fn on_ack(&mut self, now: Instant, rtt: Option<Span>, know: &Knowledge) {
        self.allowance = (self.allowance + self.target_loss).min(ALLOWANCE);
        if let Some(rtt) = rtt {
            self.note_rtt(now, rtt);
        }
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
            hold: None,
        });
    }

    fn note_rtt(&mut self, now: Instant, rtt: Span) {
        if now.since(self.since) > MEMORY {
            self.largest_rtt = [Span::ZERO, self.largest_rtt[0]];
            self.since = now;
        }
        self.latest_rtt = rtt;
        self.largest_rtt[0] = self.largest_rtt[0].max(rtt);
    }

    /// Whether packets wait: the newest round-trip time is in the upper half, and higher than the lateness of hosts
    /// explains.
    fn has_queue(&self, know: &Knowledge) -> bool {
        let Some(base) = know.base_rtt else { return true };
        let largest = self.largest_rtt[0].max(self.largest_rtt[1]);
        let queued = self.latest_rtt.minus(base);
        let own = queued.as_secs_f64() * self.window() as f64 / self.latest_rtt.as_secs_f64().max(1e-9);
        (own >= 1.0 || queued >= NOISE) && queued.times(2) >= largest.minus(base)
    }

    /// Packet `number` is lost.
    pub(super) fn on_lost(&mut self, now: Instant, number: u64, know: &Knowledge) {
        if number < self.recovery {
            return;
        }
        if self.allowance >= 1.0 && !self.has_queue(know) {
            self.allowance -= 1.0;
        } else {
            self.cut(now, number, Cause::Loss, know);
        }
    }

    /// Packet `number` signals congestion. The window shrinks, once per round trip.
    pub(super) fn cut(&mut self, now: Instant, number: u64, cause: Cause, know: &Knowledge) {
        if number < self.recovery {
            return;
        }
        self.recovery = know.next;
        let (unacked, next) = (know.settled * self.mss, know.next * self.mss);
        let flight = self.cubic.window();
        self.cubic.on_congestion(&Congestion { now, cause, flight, unacked, next, first: true });
    }

    /// A window T_δ that began with packet `first` is over. `arrived` of its packets have arrived.
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
        SharedPath::new(SharedPathConfig { initial_window: 10, delay_target: Span::from_ms(5) }, 1460, 0.01)
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

    /// Acknowledgements with these round-trip times in microseconds, the last of which comes with the news of a loss.
    fn lose(path: &mut SharedPath, rtts_us: &[u64], number: u64) {
        for &us in rtts_us {
            path.note_rtt(Instant::ZERO, Span::from_us(us));
        }
        path.on_lost(Instant::ZERO, number, &know(RTT, number, number + 50));
    }

    /// A window of 100 packets, and a queue that was seen to add up to 4 ms to the 20: a loss in its upper half cuts, one
    /// in the lower half does not. Without a larger delay before, a packet of its own must wait, or any for a millisecond.
    #[test]
    fn a_loss_counts_if_packets_wait() {
        let loss = |window: u16, rtts: &[u64]| {
            let mut path = path();
            let window = CubicConfig { initial_window: window, ..CubicConfig::default() };
            path.cubic = Cubic::new(window, 1460);
            lose(&mut path, rtts, 3);
            path.window()
        };
        assert_eq!(loss(100, &[24_000, 22_000]), 70, "half of the largest");
        assert_eq!(loss(100, &[24_000, 21_900]), 100, "below");
        assert_eq!(loss(100, &[20_300]), 70, "100 * 0.3 / 20.3 packets of its own, and no larger delay yet");
        assert_eq!(loss(100, &[20_150]), 100, "less than a packet of its own");
        assert_eq!(loss(10, &[20_990]), 10, "10 * 0.99 / 20.99 packets");
        assert_eq!(loss(10, &[21_000]), 7, "those of others");
    }

    /// What is borne without a queue: 4 losses at once, then one in 100 packets. Packets from before the cut cost nothing.
    #[test]
    fn losses_without_a_queue_are_borne_up_to_the_target() {
        let mut path = path();
        for number in 0..4 {
            lose(&mut path, &[20_000], number);
        }
        assert_eq!(path.window(), 10);
        lose(&mut path, &[20_000], 4);
        assert_eq!(path.window(), 7, "the fifth");
        (0..101).for_each(|_| path.on_ack(Instant::ZERO, None, &know(RTT, 5, 54)));
        lose(&mut path, &[20_000], 53);
        lose(&mut path, &[20_000], 54);
        assert_eq!(path.window(), 7, "one more is earned, and was not spent on a packet from before the cut");
        lose(&mut path, &[20_000], 55);
        assert_eq!(path.window(), 4);
    }

    /// A largest delay of long ago does not hide a queue for ever.
    #[test]
    fn the_largest_delay_is_forgotten() {
        let mut path = path();
        let at = |seconds| Instant::ZERO.after(Span::from_secs(seconds));
        path.note_rtt(at(0), Span::from_ms(60));
        path.note_rtt(at(11), Span::from_ms(25));
        assert!(!path.has_queue(&know(RTT, 0, 1)));
        path.note_rtt(at(22), Span::from_ms(25));
        assert!(path.has_queue(&know(RTT, 0, 1)));
    }
}
