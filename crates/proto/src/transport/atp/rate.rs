//! Loss-based rate control (section 5.1) and the priority that follows from the rate (section 5.2).
//!
//! Time is divided into windows T_δ. A window's loss is that of the packets sent in it, by their numbers. It is
//! evaluated once all of them have arrived or are lost, at the latest one window and one round-trip time after its end.
//! Packets still in flight are not losses.
//!
//! Equation (1) is printed as R_{j+1} = (1−m) R_{j+1} + m R_max, which holds only for R_max; R_j is meant on the right.
//! The text cuts "by a factor of 2", equation (2) by l/2; the code follows the equation. Equation (3), for windows
//! without any acknowledgement, applies only if packets were sent.
//!
//! With a fixed m, the step at the fair rate of N flows is m R_max = N m R. With more than 1/m flows it more than
//! doubles the rate. Hence the adaptive form:
//!
//! - m shrinks with the rate's share of the maximum, to m/4 sqrt(R/R_max). A step from the fair rate of N flows is then
//!   m/4 sqrt(N) R. With
//!   m = 1/16 and tens of flows it is about as large as the cut of l/2 at a target of 0.1, so rates settle there even
//!   where a window has too few packets to tell 0.1 from 0.2. Halving m at each turn, as ExpressPass does, would follow
//!   that noise. Steps in proportion to R would never equalise rates.
//! - The first loss above the target ends the start at the largest rate. The rate becomes what arrived plus the target,
//!   at least an eighth
//!   of the rate before. With cuts of l/2, each halving would take a round trip and a window.
//! - From the fourth increase in a row on, steps double, up to 16 times. So capacity that becomes free is found soon.
//! - A window that began before the last change is not evaluated, because its loss belongs to another rate.
//! - Silence after enough packets counts as a loss of all of them, equation (2). The gentle equation (3) is for windows
//!   with too few.
//!
//! Paths shared with others have their own law ([`SharedPath`]).

use alloc::boxed::Box;
use alloc::collections::VecDeque;

use super::config::{AtpConfig, RateControlConfig};
use super::knowledge::Knowledge;
use super::shared_path::SharedPath;
use crate::congestion::Cause;
use crate::time::{Instant, Span};
use crate::units::Rate;

/// Adaptive steps double after this many increases in a row, and this often.
const STEADY_RISES: u32 = 3;
const DOUBLINGS: u32 = 4;
/// Least target where the target follows the bound, because a flow that may lose nothing must still find its rate.
const TARGET_MIN: f64 = 0.01;
/// The adaptive m is this fraction of the configured one, times the root of the rate's share of the maximum.
const SHARE_STEP: f64 = 1.0 / 4.0;
/// Least remaining fraction of the rate when the start ends.
const START_CUT: f64 = 1.0 / 8.0;
/// Windows with too few packets last at most this many times longer.
const STRETCH: u64 = 4;
/// The least rate as a fraction of the maximum. This many flows share a link without standing loss. A rate such as one
/// packet per few round-trip times would be far too high on short paths.
const SLOWEST: f64 = 1.0 / 4096.0;
/// A rate changes its priority only if it passes the threshold by this factor, because a change of queue reorders
/// packets.
const HYSTERESIS: f64 = 1.1;

/// Packets sent in one window.
#[derive(Clone, Copy, Debug)]
struct Window {
    /// Number of its first packet.
    first: u64,
    sent: u32,
    arrived: u32,
    opened: Instant,
    /// When it ends, with enough packets and with fewer.
    closes: Instant,
    closes_poor: Instant,
    /// Latest time of its evaluation.
    judged_at: Instant,
}

impl Window {
    /// Sets how long it is open.
    fn last(&mut self, length: Span) {
        (self.closes, self.closes_poor) = (self.opened.after(length), self.opened.after(length.times(STRETCH)));
    }
}

/// How the rate follows from losses.
#[derive(Clone, Debug)]
enum Law {
    /// The paper's equations, how many windows in a row have raised the rate, and whether one has cut it before.
    Equations { rises: u32, started: bool },
    /// A window that competes fairly with other traffic on the path.
    Window(Box<SharedPath>),
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
    /// Closed windows, oldest first, and the open one.
    windows: VecDeque<Window>,
    open: Option<Window>,
    /// Index of the priority from 0.
    priority: u8,
    /// The rates α_m from which the next priority begins, ascending.
    thresholds: Box<[f64]>,
}

impl RateControl {
    /// The control of a flow that starts at the largest rate, or with the first window of a shared path.
    pub(super) fn new(config: &AtpConfig, control: RateControlConfig, rtt_guess: Span) -> Self {
        let max_rate = config.max_rate.bits_per_sec() as f64;
        let bound = config.max_loss.fraction().max(TARGET_MIN);
        let target = if control.target_within_bound { control.target_loss.min(bound) } else { control.target_loss };
        let law = match control.shared_path {
            None => Law::Equations { rises: 0, started: !control.adaptive },
            Some(shared) => Law::Window(Box::new(SharedPath::new(shared, config.payload, target))),
        };
        let threshold = |k: u8| libm::pow(config.priority_base, -f64::from(config.priorities - k)) * max_rate;
        let mut this = Self {
            config: control,
            law,
            target,
            rate: max_rate,
            max_rate,
            packet_bits: f64::from(config.wire.wire_bytes(config.payload)) * 8.0,
            windows: VecDeque::with_capacity(4),
            open: None,
            priority: config.priorities - 1,
            thresholds: (1..config.priorities).map(threshold).collect(),
        };
        this.follow_window(rtt_guess);
        this.update_priority();
        this
    }

    /// The rate on the wire.
    pub(super) fn rate(&self) -> Rate {
        Rate::from_bits_per_sec(libm::round(self.rate).max(1.0) as u64)
    }

    /// The rest of the largest rate, if it is enough for anything.
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
            Some(window) => {
                window.sent += 1;
                if window.sent == self.config.min_window_packets {
                    self.close_if_due(now, rtt);
                }
            }
            None => self.open_window(now, number, rtt),
        }
    }

    fn open_window(&mut self, now: Instant, first: u64, rtt: Span) {
        let never = Instant::MAX;
        let (opened, closes, closes_poor, judged_at) = (now, never, never, never);
        let mut window = Window { first, sent: 1, arrived: 0, opened, closes, closes_poor, judged_at };
        window.last(self.window_length(rtt));
        self.open = Some(window);
    }

    /// The first round-trip time is known. The current window, whose length was a guess, may end sooner.
    pub(super) fn on_first_rtt(&mut self, rtt: Span) {
        let length = self.window_length(rtt);
        if let Some(window) = &mut self.open {
            window.last(length);
        }
    }

    /// A packet has arrived.
    #[inline]
    pub(super) fn on_arrived(&mut self, number: u64) {
        if let Some(window) = self.window_of(number) {
            window.arrived += 1;
        }
    }

    /// A packet is lost. Only a shared path reacts at once.
    pub(super) fn on_lost(&mut self, now: Instant, number: u64, know: &Knowledge) {
        if let Law::Window(path) = &mut self.law {
            path.on_lost(now, number, know);
            self.follow_window(know.rtt);
        }
    }

    /// A packet has arrived with a mark, which on a shared path counts as a loss.
    pub(super) fn on_marked(&mut self, now: Instant, number: u64, know: &Knowledge) {
        if let Law::Window(path) = &mut self.law {
            path.cut(now, number, Cause::Ecn, know);
            self.follow_window(know.rtt);
        }
    }

    #[inline]
    fn window_of(&mut self, number: u64) -> Option<&mut Window> {
        let closed = self.windows.iter_mut().rev();
        self.open.iter_mut().chain(closed).find(|window| window.first <= number)
    }

    /// Whether [`Self::on_ack`] must be called for every acknowledgement.
    #[inline]
    pub(super) fn listens(&self) -> bool {
        matches!(self.law, Law::Window(..))
    }

    /// A packet has arrived. Only a window law uses this.
    pub(super) fn on_ack(&mut self, now: Instant, rtt: Option<Span>, know: &Knowledge) {
        if let Law::Window(path) = &mut self.law {
            path.on_ack(now, rtt, know);
            self.follow_window(know.rtt);
        }
    }

    /// Whether another packet may be sent with this many in flight. The paper's law has no such limit.
    #[inline]
    pub(super) fn has_room(&self, under_way: u64) -> bool {
        match &self.law {
            Law::Equations { .. } => true,
            Law::Window(path) => under_way < path.window(),
        }
    }

    /// The path has changed. The window of a shared path starts again. The equations need nothing, because they
    /// evaluate each window T_δ by itself.
    pub(super) fn on_new_path(&mut self, rtt: Span) {
        if let Law::Window(path) = &mut self.law {
            path.on_new_path();
            if rtt > Span::ZERO {
                self.follow_window(rtt);
            }
        }
    }

    fn follow_window(&mut self, rtt: Span) {
        if let Law::Window(path) = &self.law {
            self.rate = (path.packets_per_second(rtt) * self.packet_bits).min(self.max_rate);
        }
    }

    /// When [`Self::advance`] has something to do, at the latest. [`Instant::MAX`] without a packet in a window.
    #[inline]
    pub(super) fn deadline(&self) -> Instant {
        let judgement = self.windows.front().map_or(Instant::MAX, |window| window.judged_at);
        let closing = self.open.as_ref().map_or(Instant::MAX, |window| self.closing(window));
        judgement.min(closing)
    }

    /// Whether [`Self::advance`] has something to do.
    #[inline]
    pub(super) fn is_due(&self, now: Instant, settled: u64) -> bool {
        let is_known = |window: &Window| settled >= window.first + u64::from(window.sent);
        self.deadline() <= now || self.windows.front().is_some_and(is_known)
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

    fn close_if_due(&mut self, now: Instant, rtt: Span) {
        if let Some(mut window) = self.open
            && self.closing(&window) <= now
        {
            window.judged_at = now.after(self.window_length(rtt)).after(rtt);
            self.windows.push_back(window);
            self.open = None;
        }
    }

    /// Closes and evaluates the windows that are due. Returns whether the rate changed.
    #[inline]
    pub(super) fn advance(&mut self, now: Instant, know: &Knowledge) -> bool {
        self.close_if_due(now, know.rtt);
        let mut changed = false;
        while let Some(&window) = self.windows.front() {
            if know.settled < window.first + u64::from(window.sent) && window.judged_at > now {
                break;
            }
            self.windows.pop_front();
            self.judge(now, &window, know);
            changed = true;
            if self.config.adaptive && !self.listens() {
                self.windows.clear();
                self.open = None;
            }
        }
        changed
    }

    fn judge(&mut self, now: Instant, window: &Window, know: &Knowledge) {
        match &mut self.law {
            Law::Equations { rises, started } => {
                let loss = f64::from(window.sent - window.arrived) / f64::from(window.sent);
                let raises = window.arrived > 0 && loss <= self.target;
                let (mut m, mut silent) = (self.config.increase, window.arrived == 0);
                if self.config.adaptive {
                    let doublings = rises.saturating_sub(STEADY_RISES).min(DOUBLINGS);
                    m = (m * f64::from(1 << doublings)).min(1.0) * SHARE_STEP * libm::sqrt(self.rate / self.max_rate);
                    *rises = if raises { *rises + 1 } else { 0 };
                    silent &= window.sent < self.config.min_window_packets;
                }
                let starting = !core::mem::replace(started, *started || !raises);
                self.rate = match (raises, silent) {
                    (true, _) => (1.0 - m) * self.rate + m * self.max_rate,
                    (false, true) => self.rate * (1.0 - self.config.silence_cut),
                    (false, false) if starting => self.rate * ((1.0 - loss) / (1.0 - self.target)).max(START_CUT),
                    (false, false) => self.rate * (1.0 - loss / 2.0),
                };
                self.rate = self.rate.clamp(SLOWEST * self.max_rate, self.max_rate);
            }
            Law::Window(path) => {
                path.judge(now, window.arrived, window.first, know);
                self.follow_window(know.rtt);
            }
        }
        self.update_priority();
    }

    /// P_m iff α_{m−1} ≤ R < α_m.
    fn update_priority(&mut self) {
        let rank = |rate: f64| self.thresholds.iter().take_while(|&&threshold| rate >= threshold).count() as u8;
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
        let closing = control.deadline();
        let know = |settled| Knowledge { rtt: RTT, base_rtt: Some(RTT), settled, next, under_way: next - settled };
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
        let know = Knowledge { rtt: RTT, base_rtt: None, settled: 0, next: 10, under_way: 10 };
        assert!(!control.advance(Instant::ZERO.after(RTT), &know));
        (0..4).for_each(|number| control.on_arrived(number));
        assert!(!control.advance(Instant::ZERO.after(RTT.times(3).minus(Span::from_ps(1))), &know));
        assert_eq!(control.deadline(), Instant::ZERO.after(RTT.times(3)));
        assert!(control.advance(Instant::ZERO.after(RTT.times(3)), &know));
        assert_eq!(gbit(&control), 7.0);
    }

    /// Too few packets say little of a loss rate: the window waits for more, but not for ever.
    #[test]
    fn poor_windows_last_longer() {
        let mut control = control(RateControlConfig::paper(), 0.5);
        control.on_sent(Instant::ZERO, 0, RTT);
        assert_eq!(control.deadline(), Instant::ZERO.after(RTT.times(4)));
        (1..8).for_each(|number| control.on_sent(Instant::ZERO, number, RTT));
        assert_eq!(control.deadline(), Instant::ZERO.after(RTT));
    }

    /// One window without loss at the fair rate of N flows on a link of R_max. With fixed m the rate grows 1 + m (N - 1)
    /// times over: with more than 1/m = 16 flows it more than doubles, with 256 it is 17 times too large. The adaptive
    /// form adds m/4 sqrt(N) of the rate, a quarter with 256 flows.
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
            let adaptive = raised(RateControlConfig::default());
            assert!((adaptive - (1.0 + flows.sqrt() * (1.0 - 1.0 / flows) / 64.0)).abs() < 1e-9, "{adaptive}");
        }
    }

    /// Steps of the adaptive form in windows without loss, in thousandths of a rate of 1 % of R_max: 2.5 m four times,
    /// then twice that, up to 16 times. A loss ends the row.
    #[test]
    fn steady_increases_double() {
        let mut control = control(RateControlConfig { increase: 0.01, ..RateControlConfig::default() }, 0.5);
        let mut at = (Instant::ZERO, 0);
        let mut step = |lost: u64| {
            control.rate = 1e8;
            window(&mut control, &mut at, 10, 10 - lost);
            libm::round((control.rate / 1e8 - 1.0) * 1e3)
        };
        assert_eq!([0; 9].map(&mut step), [25.0, 25.0, 25.0, 25.0, 50.0, 99.0, 198.0, 396.0, 396.0]);
        assert_eq!([5, 0, 10].map(step), [-444.0, 25.0, -500.0], "the first loss leaves what arrived / 0.9");
    }

    #[test]
    fn the_rate_stays_within_its_bounds() {
        let mut control = control(RateControlConfig::default(), 0.5);
        let mut at = (Instant::ZERO, 0);
        (0..300).for_each(|_| window(&mut control, &mut at, 1, 0));
        assert_eq!(control.rate, 10e9 / 4096.0);
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
}
