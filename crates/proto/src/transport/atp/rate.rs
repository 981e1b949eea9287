//! Loss-based rate control (section 5.1) and the priority that follows from the rate (section 5.2).
//!
//! Time is cut into windows T_δ. A window's loss is that of the packets sent in it, by their numbers, and it is judged
//! once all of them have arrived or are lost, at the latest one window and one round-trip time after its end: packets
//! still under way are no losses.
//!
//! Equation (1) is printed as R_{j+1} = (1−m) R_{j+1} + m R_max, which holds for R_max alone; R_j is meant on the right.
//! The text cuts "by a factor of 2", equation (2) by l/2: the equation counts. Equation (3), for windows without any
//! acknowledgement, holds only if packets were sent.
//!
//! With fixed m the step at the fair rate of N flows is m R_max = N m R: with more than 1/m flows it more than doubles
//! the rate. Hence the adaptive form. It also waits for the effect of each change: a window that began before the last
//! one is not judged, since the loss in it is that of another rate.

use alloc::boxed::Box;
use alloc::collections::VecDeque;

use super::config::{AtpConfig, RateControlConfig, SharedPathConfig};
use crate::congestion::cubic::{Cubic, CubicConfig};
use crate::congestion::{AckSample, Cause, Congestion, CongestionControl};
use crate::time::{Instant, Span};
use crate::units::Rate;

/// Bounds of the adaptive m.
const INCREASE_MIN: f64 = 1.0 / 256.0;
const INCREASE_MAX: f64 = 0.5;
/// Least target where the target follows the bound: a flow that may lose nothing must still find its rate.
const TARGET_MIN: f64 = 0.01;
/// Windows that are too poor in packets last at most so many times longer.
const STRETCH: u64 = 4;
/// The least rate is one packet in so many round-trip times.
const SLOWEST_RTTS: f64 = 4.0;
/// A rate changes its priority only if it is beyond the threshold by this much: a change of queue reorders packets.
const HYSTERESIS: f64 = 1.1;

/// Packets sent in one window.
#[derive(Clone, Copy, Debug)]
struct Window {
    /// Number of its first packet.
    first: u64,
    sent: u32,
    arrived: u32,
    marked: bool,
    /// When it ends, with enough packets and with fewer.
    closes: Instant,
    closes_poor: Instant,
    /// When it is judged at the latest.
    judged_at: Instant,
}

/// What the sender knows when it asks for a judgement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Knowledge {
    /// Smoothed round-trip time, or a guess.
    pub(super) rtt: Span,
    /// Least round-trip time seen; `None` before the first.
    pub(super) base_rtt: Option<Span>,
    /// All packets below have arrived or are lost.
    pub(super) settled: u64,
    /// Number of the next packet.
    pub(super) next: u64,
}

/// How the rate follows from losses.
#[derive(Clone, Debug)]
enum Law {
    /// The paper's equations: m, and whether the last window raised the rate.
    Equations { increase: f64, rising: Option<bool> },
    /// A window that others on the path understand.
    Window(Box<Cubic>, SharedPathConfig),
}

/// The rate of a flow.
#[derive(Clone, Debug)]
pub(super) struct RateControl {
    config: RateControlConfig,
    law: Law,
    target: f64,
    /// Bits per second.
    rate: f64,
    max_rate: f64,
    packet_bits: f64,
    mss: u64,
    /// Closed ones, oldest first, and one that is open.
    windows: VecDeque<Window>,
    open: Option<Window>,
    /// Index of the priority from 0, and the thresholds' constants.
    priority: u8,
    priorities: u8,
    priority_base: f64,
}

impl RateControl {
    /// The control of a flow that starts at the largest rate, or with the first window of a shared path.
    pub(super) fn new(config: &AtpConfig, control: RateControlConfig, rtt_guess: Span) -> Self {
        let max_rate = config.max_rate.bits_per_sec() as f64;
        let law = match control.shared_path {
            None => Law::Equations { increase: control.increase, rising: None },
            Some(shared) => {
                let window = CubicConfig { initial_window: shared.initial_window, ..CubicConfig::default() };
                Law::Window(Box::new(Cubic::new(window, config.payload)), shared)
            }
        };
        let bound = config.max_loss.fraction().max(TARGET_MIN);
        let mut this = Self {
            config: control,
            law,
            target: if control.target_within_bound { control.target_loss.min(bound) } else { control.target_loss },
            rate: max_rate,
            max_rate,
            packet_bits: f64::from(config.wire.wire_bytes(config.payload)) * 8.0,
            mss: u64::from(config.payload),
            windows: VecDeque::with_capacity(4),
            open: None,
            priority: config.priorities - 1,
            priorities: config.priorities,
            priority_base: config.priority_base,
        };
        this.follow_window(rtt_guess);
        this.update_priority();
        this
    }

    /// The rate on the wire.
    pub(super) fn rate(&self) -> Rate {
        Rate::from_bits_per_sec(libm::round(self.rate).max(1.0) as u64)
    }

    /// What is left of the largest rate, if it is enough for anything.
    pub(super) fn spare(&self) -> Option<Rate> {
        let spare = self.max_rate - self.rate;
        (spare >= self.max_rate / 256.0).then(|| Rate::from_bits_per_sec(spare as u64))
    }

    /// Index of the priority, 0 for the highest.
    pub(super) fn priority(&self) -> u8 {
        self.priority
    }

    /// A packet leaves.
    #[inline]
    pub(super) fn on_sent(&mut self, now: Instant, number: u64, rtt: Span) {
        match &mut self.open {
            Some(window) => window.sent += 1,
            None => self.open_window(now, number, rtt),
        }
    }

    fn open_window(&mut self, now: Instant, first: u64, rtt: Span) {
        let length = self.window_length(rtt);
        self.open = Some(Window {
            first,
            sent: 1,
            arrived: 0,
            marked: false,
            closes: now.after(length),
            closes_poor: now.after(length.times(STRETCH)),
            judged_at: Instant::MAX,
        });
    }

    /// A packet has arrived.
    #[inline]
    pub(super) fn on_arrived(&mut self, number: u64) {
        if let Some(window) = self.window_of(number) {
            window.arrived += 1;
        }
    }

    /// A packet has arrived with a mark.
    pub(super) fn on_marked(&mut self, number: u64) {
        if let Some(window) = self.window_of(number) {
            window.marked = true;
        }
    }

    #[inline]
    fn window_of(&mut self, number: u64) -> Option<&mut Window> {
        let closed = self.windows.iter_mut().rev();
        self.open.iter_mut().chain(closed).find(|window| window.first <= number)
    }

    /// Whether [`Self::on_ack`] wants to hear of every acknowledgement.
    #[inline]
    pub(super) fn listens(&self) -> bool {
        matches!(self.law, Law::Window(..))
    }

    /// A packet has arrived: only a window law listens.
    pub(super) fn on_ack(&mut self, now: Instant, bytes: u64, rtt: Option<Span>, limited: bool, know: &Knowledge) {
        let Law::Window(cubic, _) = &mut self.law else { return };
        let (unacked, next) = (know.settled * self.mss, know.next * self.mss);
        cubic.on_ack(&AckSample {
            now,
            acked: bytes,
            unacked,
            next,
            flight: next.saturating_sub(unacked) + bytes,
            ece: false,
            rtt,
            smoothed_rtt: know.rtt,
            window_limited: limited,
            in_recovery: false,
            delay: None,
        });
        self.follow_window(know.rtt);
    }

    /// The rate of a window law is its window per round-trip time.
    fn follow_window(&mut self, rtt: Span) {
        let Law::Window(cubic, _) = &self.law else { return };
        let segments = cubic.window() as f64 / self.mss as f64;
        self.rate = (segments * self.packet_bits / rtt.as_secs_f64().max(1e-9)).min(self.max_rate);
    }

    /// When [`Self::advance`] has something to do, at the latest.
    #[inline]
    pub(super) fn deadline(&self) -> Option<Instant> {
        let judgement = self.windows.front().map(|window| window.judged_at);
        let closing = self.open.as_ref().map(|window| self.closing(window));
        judgement.into_iter().chain(closing).min()
    }

    /// When an open window ends.
    #[inline]
    fn closing(&self, window: &Window) -> Instant {
        if window.sent >= self.config.min_window_packets { window.closes } else { window.closes_poor }
    }

    /// T_δ: a round-trip time, but not too short for its packets.
    fn window_length(&self, rtt: Span) -> Span {
        let packets = f64::from(self.config.min_window_packets) * self.packet_bits / self.rate;
        rtt.max(Span::from_secs_f64(packets)).max(self.config.min_window)
    }

    /// Closes and judges the windows that are due. Whether the rate changed.
    pub(super) fn advance(&mut self, now: Instant, know: &Knowledge) -> bool {
        if let Some(mut window) = self.open
            && self.closing(&window) <= now
        {
            window.judged_at = now.after(self.window_length(know.rtt)).after(know.rtt);
            self.windows.push_back(window);
            self.open = None;
        }
        let mut changed = false;
        while let Some(&window) = self.windows.front() {
            if know.settled < window.first + u64::from(window.sent) && window.judged_at > now {
                break;
            }
            self.windows.pop_front();
            self.judge(now, &window, know);
            changed = true;
            if self.config.adaptive {
                self.windows.clear();
                self.open = None;
            }
        }
        changed
    }

    fn judge(&mut self, now: Instant, window: &Window, know: &Knowledge) {
        let loss = f64::from(window.sent - window.arrived) / f64::from(window.sent);
        match &mut self.law {
            Law::Equations { increase, rising } => {
                let raises = window.arrived > 0 && loss <= self.target;
                let share = self.rate / self.max_rate;
                if self.config.adaptive {
                    let factor = if *rising == Some(raises) { 2.0 } else { 0.5 };
                    *increase = (*increase * factor).clamp(INCREASE_MIN, INCREASE_MAX);
                    *rising = Some(raises);
                }
                let m = if self.config.adaptive { increase.min(2.0 * share) } else { *increase };
                self.rate = match (raises, window.arrived) {
                    (true, _) => (1.0 - m) * self.rate + m * self.max_rate,
                    (false, 0) => self.rate * (1.0 - self.config.silence_cut),
                    (false, _) => self.rate * (1.0 - loss / 2.0),
                };
                let slowest = self.packet_bits / (SLOWEST_RTTS * know.rtt.as_secs_f64().max(1e-9));
                self.rate = self.rate.max(slowest).min(self.max_rate);
            }
            Law::Window(cubic, shared) => {
                let waits = know.base_rtt.is_some_and(|base| know.rtt > base.plus(shared.delay_target));
                let cause = match (window.arrived, loss > self.target || waits, window.marked) {
                    (0, ..) => Some(Cause::Timeout),
                    (_, true, _) => Some(Cause::Loss),
                    (_, _, true) => Some(Cause::Ecn),
                    _ => None,
                };
                if let Some(cause) = cause {
                    let (unacked, next) = (know.settled * self.mss, know.next * self.mss);
                    let flight = cubic.window();
                    cubic.on_congestion(&Congestion { now, cause, flight, unacked, next, first: true });
                }
                self.follow_window(know.rtt);
            }
        }
        self.update_priority();
    }

    /// P_m iff α_{m−1} ≤ R < α_m.
    fn update_priority(&mut self) {
        let rank = |rate: f64| {
            let above = |k: u8| libm::pow(self.priority_base, -f64::from(self.priorities - k)) * self.max_rate;
            (1..self.priorities).take_while(|&k| rate >= above(k)).count() as u8
        };
        // The rank is that of both ends of the hysteresis, or stays between them.
        self.priority = self.priority.clamp(rank(self.rate / HYSTERESIS), rank(self.rate * HYSTERESIS));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::atp::LossBound;

    const RTT: Span = Span::from_us(100);

    fn config(control: RateControlConfig, max_loss: f64) -> AtpConfig {
        let bound = LossBound::from_min_delivery(1.0 - max_loss).unwrap();
        let rate_control = Some(control);
        AtpConfig { rate_control, ..AtpConfig::full(bound, Rate::from_gbit_per_sec(10)) }
    }

    fn control(control: RateControlConfig, max_loss: f64) -> RateControl {
        RateControl::new(&config(control, max_loss), control, RTT)
    }

    fn gbit(control: &RateControl) -> f64 {
        control.rate / 1e9
    }

    /// One window of `sent` packets of which `arrived` arrive.
    fn window(control: &mut RateControl, start: &mut (Instant, u64), sent: u64, arrived: u64) {
        let (at, first) = *start;
        for number in first..first + sent {
            control.on_sent(at, number, RTT);
        }
        let next = first + sent;
        let closing = control.deadline().expect("an open window");
        let know = |settled| Knowledge { rtt: RTT, base_rtt: Some(RTT), settled, next };
        assert!(!control.advance(closing, &know(first)), "its packets are under way");
        for number in first..first + arrived {
            control.on_arrived(number);
        }
        assert!(control.advance(closing, &know(next)), "all is known");
        *start = (closing, next);
    }

    /// Equations (1) to (3) with m = 1/16 and β = 0.1, and that a window below the target of 0.1 counts as good.
    #[test]
    fn the_equations() {
        let mut control = control(RateControlConfig::paper(), 0.5);
        let mut at = (Instant::ZERO, 0);
        assert_eq!(gbit(&control), 10.0, "it begins at the line rate");
        window(&mut control, &mut at, 10, 5);
        assert_eq!(gbit(&control), 7.5, "R (1 - l/2), l = 0.5");
        window(&mut control, &mut at, 10, 0);
        assert_eq!(gbit(&control), 6.75, "R (1 - beta)");
        window(&mut control, &mut at, 10, 9);
        assert_eq!(gbit(&control), 6.953125, "(1 - m) R + m R_max");
    }

    /// A window's packets are judged when they are known, at the latest a window and a round-trip time after its end;
    /// what is under way then is lost.
    #[test]
    fn packets_under_way_are_no_losses_until_late() {
        let mut control = control(RateControlConfig::paper(), 0.5);
        (0..10).for_each(|number| control.on_sent(Instant::ZERO, number, RTT));
        let know = Knowledge { rtt: RTT, base_rtt: None, settled: 0, next: 10 };
        assert!(!control.advance(Instant::ZERO.after(RTT), &know));
        (0..4).for_each(|number| control.on_arrived(number));
        assert!(!control.advance(Instant::ZERO.after(RTT.times(3).minus(Span::from_ps(1))), &know));
        assert_eq!(control.deadline(), Some(Instant::ZERO.after(RTT.times(3))));
        assert!(control.advance(Instant::ZERO.after(RTT.times(3)), &know));
        assert_eq!(gbit(&control), 7.0);
    }

    /// Too few packets say little of a loss rate: the window waits for more, but not for ever.
    #[test]
    fn poor_windows_last_longer() {
        let mut control = control(RateControlConfig::paper(), 0.5);
        control.on_sent(Instant::ZERO, 0, RTT);
        assert_eq!(control.deadline(), Some(Instant::ZERO.after(RTT.times(4))));
        (1..8).for_each(|number| control.on_sent(Instant::ZERO, number, RTT));
        assert_eq!(control.deadline(), Some(Instant::ZERO.after(RTT)));
    }

    /// One window without loss at the fair rate of N flows on a link of R_max. With fixed m the rate grows 1 + m (N - 1)
    /// times over: with more than 1/m = 16 flows it more than doubles, with 256 it is 17 times too large. The adaptive
    /// form never more than trebles it.
    #[test]
    fn fixed_increase_overshoots_with_many_flows() {
        for flows in [8.0, 16.0, 128.0, 256.0] {
            let raised = |form: RateControlConfig| {
                let mut control = control(form, 0.5);
                control.rate = 10e9 / flows;
                window(&mut control, &mut (Instant::ZERO, 0), 10, 10);
                control.rate / (10e9 / flows)
            };
            let fixed = raised(RateControlConfig::paper());
            assert!((fixed - (1.0 + (flows - 1.0) / 16.0)).abs() < 1e-9, "{fixed}");
            let adaptive = raised(RateControlConfig { increase: 0.5, ..RateControlConfig::default() });
            assert!(adaptive > 1.0 && adaptive < 3.0, "{adaptive}");
        }
    }

    #[test]
    fn the_rate_stays_within_its_bounds() {
        let mut control = control(RateControlConfig::default(), 0.5);
        let mut at = (Instant::ZERO, 0);
        (0..300).for_each(|_| window(&mut control, &mut at, 1, 0));
        let slowest = 1538.0 * 8.0 / (4.0 * RTT.as_secs_f64());
        assert!((control.rate / slowest - 1.0).abs() < 1e-9, "one packet in four round-trip times");
        (0..300).for_each(|_| window(&mut control, &mut at, 10, 10));
        assert!(gbit(&control) > 9.99 && gbit(&control) <= 10.0);
    }

    #[test]
    fn the_target_follows_the_bound_if_asked() {
        let target = |form, max_loss| control(form, max_loss).target;
        assert_eq!(target(RateControlConfig::default(), 0.05), 0.05);
        assert_eq!(target(RateControlConfig::default(), 0.5), 0.1);
        assert_eq!(target(RateControlConfig::default(), 0.0), 0.01);
        assert_eq!(target(RateControlConfig::paper(), 0.0), 0.1);
    }

    /// Six priorities at 10 Gbit/s: thresholds at 1/32, 1/16, 1/8, 1/4 and 1/2, the lowest rates before all others, and
    /// a rate within ten per cent of a threshold keeps the priority it has.
    #[test]
    fn slow_flows_have_priority() {
        let mut control = control(RateControlConfig::default(), 0.5);
        assert_eq!(control.priority(), 5, "the lowest at the line rate");
        for (gbit, priority) in
            [(0.2, 0), (0.5, 1), (1.0, 2), (2.0, 3), (4.0, 4), (8.0, 5), (4.8, 5), (4.0, 4), (5.2, 4)]
        {
            control.rate = gbit * 1e9;
            control.update_priority();
            assert_eq!(control.priority(), priority, "{gbit} Gbit/s");
        }
    }

    /// A shared path: the first window of ten packets, growth as CUBIC's slow start, a cut to 0.7 for a loss above one
    /// per cent, a mark or a queue above the target.
    #[test]
    fn a_shared_path_is_treated_as_cubic_would() {
        let know = Knowledge { rtt: RTT, base_rtt: Some(RTT), settled: 1000, next: 1000 };
        let window = |arrived, marked, know: &Knowledge| {
            let mut control = control(RateControlConfig::wan(), 0.5);
            let before = control.rate;
            assert!((before * RTT.as_secs_f64() / (1538.0 * 8.0) - 10.0).abs() < 1e-9, "ten packets");
            let closes = Instant::ZERO;
            let window =
                Window { first: 0, sent: 1000, arrived, marked, closes, closes_poor: closes, judged_at: closes };
            control.judge(Instant::ZERO, &window, know);
            control.rate / before * (know.rtt.as_secs_f64() / RTT.as_secs_f64())
        };
        let late = Knowledge { rtt: RTT.plus(Span::from_ms(6)), ..know };
        assert_eq!((window(1000, false, &know), window(995, false, &know)), (1.0, 1.0));
        let cut = |ratio: f64| (ratio - 0.7).abs() < 1e-9;
        assert!(cut(window(980, false, &know)) && cut(window(1000, true, &know)) && cut(window(1000, false, &late)));
    }
}
