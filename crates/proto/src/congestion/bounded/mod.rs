//! `bounded`: background traffic that gives way and keeps a promised share (this project's own design).
//!
//! It sends at `max(scavenger, min_share * normal, min_rate, min(needed, normal))`. The scavenger takes what others
//! leave, and almost nothing while they are active. `normal` is the rate that a CUBIC flow would have on the observed
//! path.
//!
//! **Telling its own queue from others'.** The scavenger is paced below the line's rate. So it builds a queue only
//! while it grows, and then a small one of known size. Any other delay comes from other traffic. When delay appears,
//! the flow slows down and waits to see whether the delay goes (*drain*). If it goes, it was the flow's own, or one
//! short answer of others. If it stays, or returns at once, others are active. The flow then *watches*: it sends a
//! trickle of single packets until their delays have been flat for a while. An idle path is recognised by flat delays,
//! not by low ones. A flow that came late never saw the path without a queue, but between others' packets delays vary
//! by whole packets. A lossy path without delay is not a busy one.
//!
//! **Others that come and go.** A path that others use part of the time is never flat for long. While it watches, the
//! flow counts how often its packets wait. If they often meet an empty queue, the flow takes what others leave
//! (*sharing*): it cruises at nine tenths of that, less a tenth of the line, and slows down while others' packets are
//! in the queue.
//!
//! | state | rate | left when |
//! |---|---|---|
//! | watch | a trickle | delays were flat for `quiet` and two round trips: ramp; the queue often runs empty: cruise, sharing |
//! | ramp | doubles each round | delay: drain; nine tenths of the line: cruise |
//! | cruise | grows by a segment per round, then by more | delay: drain |
//! | drain | half | the delay is gone: cruise; it stays: watch |
//!
//! The contract's `min_share` is 1 by default, as for all traffic that does not bend. The flow is then a normal one.
//!
//! `min_rate` is a second floor. It is at most the greater of 0.95 of the line and what arrived before, and at most 0.9 of what arrives
//! in rounds of many losses.
//!
//! `needed` is the rate with which a flow meets its deadline (`done_by`), at most that of a normal flow. When time
//! presses, the flow must be a normal one. Then real CUBIC takes over from the virtual window.
//!
//! Losses above `loss_tolerance` without delay come from a policer or a tiny buffer. The rate then falls to what
//! arrives.

mod normal;
mod path;

use alloc::boxed::Box;

use self::normal::NormalFlow;
use self::path::{Flat, LeastDelay, LineRate, Others, Queue};
use super::cubic::{Cubic, CubicConfig};
use super::{AckSample, Cause, Congestion, CongestionControl, EcnMode};
use crate::settings;
use crate::settings::Range;
use crate::time::{Instant, OneWayDelay, Span};
use crate::units::Rate;

settings! {
    /// Settings of [`Bounded`].
    #[derive(Clone, Copy, PartialEq, Debug)]
    pub struct BoundedConfig {
        /// Window in segments with which the virtual normal flow begins.
        pub initial_window: u16 = 10 => [range: Range::from(1).of("segment"), source: "RFC 6928"],
        /// Variation of delays that hosts and links make by themselves: less is never taken for a queue.
        pub jitter: Span = Span::from_us(250) => [
            range: Range::closed(Span::from_ns(1), Span::from_secs(1)), source: "Pliant, docs/bounded.md"
        ],
        /// Delay in full packets' time that is taken for others' traffic.
        pub foreign_packets: u16 = 4 => [range: Range::from(1).of("packet"), source: "Pliant, docs/bounded.md"],
        /// Part of the line that is sent while others use it, to see when they stop. At most a packet each millisecond, at
        /// least one in 50 ms.
        pub trickle: f64 = 0.015 => [range: Range::open(0.0, 1.0), source: "Pliant, docs/bounded.md"],
        /// Delays must have been flat for so long, and for two round trips, before the path counts as idle. Up to eight
        /// times as long after attempts that met others.
        pub quiet: Span = Span::from_ms(25) => [range: Range::above(Span::ZERO), source: "Pliant, docs/bounded.md"],
        /// How long the least delay is remembered; a longer path is noticed after so long.
        pub memory: Span = Span::from_secs(5) => [range: Range::above(Span::ZERO), source: "Pliant, docs/bounded.md"],
        /// Part of the packets that may be lost without delay before the rate follows.
        pub loss_tolerance: f64 = 0.03 => [range: Range::open(0.0, 1.0), source: "Pliant, docs/bounded.md"],
    }
}

/// Least length of a round, in the ramp and while cruising.
const RAMP_ROUND: Span = Span::from_ms(4);
const CRUISE_ROUND: Span = Span::from_ms(10);
/// Shortest and longest gap between the trickle's packets, in seconds.
const TRICKLE_GAP: (f64, f64) = (0.001, 0.05);
/// Gap of the trickle before the line's rate is known.
const FIRST_GAP: f64 = 0.01;
/// Longest burst, in seconds at the line's rate.
const BURST_TIME: f64 = 200e-6;
const MAX_BURST: f64 = 16.0;
/// Packets that leave within this time of each other count as leaving together.
const TOGETHER: Span = Span::from_us(100);
/// Gaps of faster flows tell nothing: hosts read their packets several at a time, and a pair that was read at once counts as a line of this rate.
const FASTEST_GAPS: Rate = Rate::from_bits_per_sec(200_000_000);
/// Least number of samples of a round, and of a flat stretch.
const LEAST_SAMPLES: u32 = 4;
/// Kept fraction of a rate that filled the line.
const AFTER_FULL: f64 = 0.95;
/// Kept fraction of the rate that arrived in a round of many losses.
const AFTER_LOSSES: f64 = 0.9;
/// Growth per round, after losses, of the rate that the path is assumed to carry.
const REGROWTH: f64 = 1.05;
/// Largest growth in a round, as a fraction of the rate.
const LARGEST_STEP: f64 = 0.02;
/// Greatest factor on `quiet`.
const MOST_PATIENCE: f64 = 8.0;
/// If delays are flat for this many times `quiet`, the path has become longer.
const LONGER_PATH: f64 = 80.0;
/// Kept fraction of the rate while a small queue of the flow's own drains.
const SMALL_DRAIN: f64 = 0.8;
/// A queue that lasts this long and a round trip is a standing one. In seconds.
const STANDING: f64 = 0.004;
/// A queue that lasts is the flow's own only from this fraction of the line's rate on.
const OWN_QUEUE: f64 = 0.5;
/// Longest time that a drain waits for the delay to go.
const LONGEST_DRAIN: f64 = 0.02;
/// Fraction taken of what others leave, and fraction of the line left free beyond that.
const TAKEN: f64 = 0.9;
const LEFT_FREE: f64 = 0.1;
/// Others' share of the line is a mean over this many times `quiet`, and over as many packets of the trickle as are needed. It is
/// known after this many times and packets.
const SHARE_MEMORY: f64 = 16.0;
const SHARE_WATCH: f64 = 4.0;
const SHARE_SAMPLES: u32 = 16;
/// If packets wait for this many times `quiet` in a row, and for this many packets of the trickle, the queue is a standing one. The
/// trickle of a slow line has few packets in that time, and a transfer of others outlasts them.
const LONGEST_WAIT: f64 = 2.0;
const LONGEST_WAIT_PACKETS: f64 = 20.0;
/// A queue below this fraction of what the flow itself may have made counts as empty.
const EMPTY: f64 = 0.3;
/// What others leave is taken only if it is at least this many times the trickle.
const LEAST_SHARE: f64 = 3.0;
/// Growth per round towards what others leave.
const SHARE_GROWTH: f64 = 1.25;
/// Kept fraction of the rate while others' packets are in the queue.
const SHARED_DRAIN: f64 = 0.3;
/// Acknowledgements may come this much later than the network causes.
const ACK_SLACK: f64 = 0.01;

#[derive(Clone, Copy, PartialEq, Debug)]
enum Phase {
    Watch,
    Ramp,
    Cruise,
    /// The delay must go until then, at this fraction of the rate. `ours` if the flow had grown into it.
    Drain {
        began: Instant,
        until: Instant,
        ours: bool,
        part: f64,
    },
}

/// A round trip or more, over which rates are measured.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
struct Round {
    began: Instant,
    /// It ends when all bytes below are acknowledged.
    end: u64,
    delivered: u64,
    lost: u64,
    samples: u32,
    repaired: bool,
}

/// The controller of `bounded`.
#[derive(Clone, Debug)]
pub struct Bounded(Box<State>);

#[derive(Clone, PartialEq, Debug)]
struct State {
    config: BoundedConfig,
    mss: f64,
    min_share: f64,
    /// The promised least rate, in bytes of payload per second.
    min_rate: f64,
    /// The rate that the flow needs to meet its deadline, in bytes of payload per second.
    needed: f64,
    /// Takes over while time presses.
    late: Option<Box<Cubic>>,
    /// The part of `min_rate` that the path was found to carry, after more losses than are tolerated.
    carried: f64,
    normal: NormalFlow,
    phase: Phase,
    /// The scavenger's rate in bytes of payload per second.
    rate: f64,
    /// Rate that arrived in the last round.
    arrived: f64,
    /// Most that arrived in a round of the last seconds.
    most_arrived: f64,
    /// Rate that was sent in the last round.
    paced: f64,
    line: LineRate,
    /// When the last packet left, and its delay.
    last: Option<(Instant, OneWayDelay)>,
    /// Least delay of the last seconds; `None` before the first sample.
    least: Option<LeastDelay>,
    flat: Option<Flat>,
    /// Delay without queue, as found by the ramp.
    base: OneWayDelay,
    /// Latest queueing delay in nanoseconds.
    queue_ns: f64,
    rtt: f64,
    least_rtt: f64,
    round: Round,
    /// Growth per round, in segments.
    step: f64,
    /// Factor on `quiet`.
    patience: f64,
    /// When others were seen last, and when the path was last found idle.
    met: Option<Instant>,
    others: Others,
    /// Others are active part of the time, and the flow takes what they leave.
    sharing: bool,
    idle_since: Instant,
    watch_since: Instant,
    /// When the delay was last that of an empty queue.
    low_at: Instant,
    full_rate: f64,
}

impl State {
    /// Time of a full packet on the line, in seconds.
    fn packet_time(&self) -> f64 {
        self.line.get().map_or((self.least_rtt / 2.0).min(0.001), |rate| self.mss / rate)
    }

    /// Largest queue of a flow without competition, in nanoseconds.
    fn own_ns(&self) -> f64 {
        (2.5 * self.packet_time() * 1e9).max(span_ns(self.config.jitter))
    }

    /// Largest delay that counts as an empty queue, in nanoseconds. On a fast line hosts' jitter is more than a few packets take.
    fn empty_ns(&self) -> f64 {
        let by_hosts = span_ns(self.config.jitter) - 1.5e9 * self.packet_time();
        by_hosts.max(EMPTY * self.own_ns())
    }

    /// Least delay that only others can cause, in nanoseconds.
    fn foreign_ns(&self) -> f64 {
        let packets = f64::from(self.config.foreign_packets) * self.packet_time() * 1e9;
        // What a round's growth may have built until it is seen, in two round trips.
        let grown = 2.0 * self.step * self.packet_time() * 1e9;
        packets.max(span_ns(self.config.jitter)) + self.burst_ns() + grown
    }

    /// How long the last packet of a burst waits for the others, in nanoseconds.
    fn burst_ns(&self) -> f64 {
        f64::from(self.burst() - 1) * self.packet_time() * 1e9
    }

    /// Time between the trickle's packets, in seconds.
    fn trickle_gap(&self) -> f64 {
        let gap = |rate: f64| (self.mss / (self.config.trickle * rate)).clamp(TRICKLE_GAP.0, TRICKLE_GAP.1);
        self.line.certain().map_or(FIRST_GAP, gap)
    }

    fn trickle(&self) -> f64 {
        self.mss / self.trickle_gap()
    }

    /// The floor of the rate in bytes per second: the greater of the promised share and the promised rate.
    fn floor(&self) -> f64 {
        if self.rtt == 0.0 {
            return 0.0;
        }
        let normal = self.normal_rate();
        (self.min_share * normal).max(self.needed.min(normal)).max(self.promised_rate())
    }

    /// The rate of the virtual normal flow, in bytes per second.
    fn normal_rate(&self) -> f64 {
        if self.rtt == 0.0 { 0.0 } else { self.normal.window() * self.mss / self.rtt }
    }

    /// The share of the normal flow's rate that is kept now.
    fn kept_share(&self) -> f64 {
        let normal = self.normal_rate();
        if self.needed >= normal && self.needed > 0.0 { 1.0 } else { self.min_share.max(self.needed / normal.max(1.0)) }
    }

    /// The promised rate, as far as the path carries it. A promise above the line's rate must not fill the line with
    /// losses. In a low class others' packets tear most pairs apart, and the line looks slower than what arrived before.
    fn promised_rate(&self) -> f64 {
        let line = self.line.get().unwrap_or(0.0);
        self.min_rate.min((AFTER_FULL * line).max(self.most_arrived)).min(self.carried)
    }

    fn sending_rate(&self) -> f64 {
        let scavenger = match self.phase {
            Phase::Watch => self.trickle(),
            Phase::Drain { part, .. } => part * self.line.get().map_or(self.rate, |line| self.rate.min(line)),
            Phase::Ramp | Phase::Cruise => self.rate,
        };
        scavenger.max(self.trickle()).max(self.floor())
    }

    /// Packets that leave together: at least two, except in the trickle of a known line, because the time between them tells the
    /// line's rate.
    fn burst(&self) -> u8 {
        let rate = self.sending_rate();
        if rate <= self.trickle() && self.line.is_settled() {
            return 1;
        }
        (rate * BURST_TIME / self.mss).clamp(2.0, MAX_BURST) as u8
    }

    fn begin_round(&mut self, now: Instant, next: u64) {
        self.round = Round { began: now, end: next, ..Round::default() };
    }

    fn watch(&mut self, now: Instant) {
        self.phase = Phase::Watch;
        self.watch_since = now;
        self.flat = None;
        self.others = Others::default();
        self.sharing = false;
        self.step = 1.0;
        if now.since(self.idle_since).as_secs_f64() < 4.0 * self.quiet() {
            self.patience = (2.0 * self.patience).min(MOST_PATIENCE);
        } else {
            self.patience = 1.0;
        }
    }

    fn quiet(&self) -> f64 {
        self.config.quiet.as_secs_f64().max(2.0 * self.rtt)
    }

    /// The rate that filled the line last, unless a queue has told since that the line is slower.
    fn full(&self) -> f64 {
        self.line.get().map_or(self.full_rate, |line| self.full_rate.min(line))
    }

    /// What others leave of the line, in bytes per second, once it is known. Part of it stays free: the fuller the
    /// line, the longer others' packets wait.
    fn left_over(&self, now: Instant) -> Option<f64> {
        let line = self.line.get()?;
        let others = self.others.part(now, SHARE_SAMPLES, SHARE_WATCH * self.quiet())?;
        Some((TAKEN * (1.0 - others) - LEFT_FREE) * line)
    }

    fn follow_others(&mut self, now: Instant) {
        let Some(line) = self.line.get() else { return };
        let own = self.sending_rate().min(self.arrived) / line;
        let quiet = self.quiet();
        let queue = match self.queue_ns {
            queue if queue <= self.empty_ns() => Queue::Empty,
            queue if queue <= self.own_ns() + self.burst_ns() => Queue::Short,
            _ => Queue::Long,
        };
        let gap = self.trickle_gap();
        let memory = (SHARE_MEMORY * quiet).max(f64::from(SHARE_SAMPLES) * gap);
        let longest = (LONGEST_WAIT * quiet).max(LONGEST_WAIT_PACKETS * gap);
        self.others.record(now, queue, own, memory, longest);
    }

    /// Others are active only part of the time: takes what they leave.
    fn share(&mut self, now: Instant, next: u64, base: OneWayDelay, left_over: f64) {
        self.sharing = true;
        self.met = Some(now);
        self.base = base;
        self.idle_since = now;
        self.full_rate = 0.0;
        self.cruise(now, next, left_over / 2.0);
    }

    fn ramp(&mut self, now: Instant, next: u64, base: OneWayDelay) {
        self.phase = Phase::Ramp;
        self.base = base;
        self.idle_since = now;
        let packets = 8.0 * self.mss / self.rtt.max(RAMP_ROUND.as_secs_f64());
        self.rate = self.line.certain().map_or(packets, |rate| rate / 8.0).max(2.0 * self.trickle());
        self.begin_round(now, next);
    }

    fn drain(&mut self, now: Instant, ours: bool) {
        // Growth while cruising makes a small queue.
        let part = match self.phase {
            Phase::Cruise if ours => SMALL_DRAIN,
            _ if self.sharing => SHARED_DRAIN,
            _ => 0.5,
        };
        self.phase = Phase::Drain { began: now, until: now, ours, part };
        self.step = 1.0;
        self.extend_drain();
    }

    /// Extends the drain. At half of the line's rate, a queue of the flow's own is gone after twice its time, counted
    /// from when the slower rate arrives there. Until then it grows.
    fn extend_drain(&mut self) {
        let longest = LONGEST_DRAIN.max(3.0 * self.least_rtt);
        if let Phase::Drain { began, until, part, .. } = &mut self.phase {
            let emptying = self.queue_ns / 1e9 / (1.0 - *part);
            let wait = self.least_rtt + emptying + self.config.jitter.as_secs_f64();
            *until = (*until).max(began.after(Span::from_secs_f64(wait.min(longest))));
        }
    }

    fn cruise(&mut self, now: Instant, next: u64, rate: f64) {
        self.phase = Phase::Cruise;
        self.rate = rate.max(2.0 * self.trickle());
        self.low_at = now;
        self.begin_round(now, next);
    }

    fn on_delay(&mut self, sample: &AckSample, delay: OneWayDelay) {
        let now = sample.now;
        let memory = self.config.memory;
        self.least.get_or_insert_with(|| LeastDelay::starting_with(now, delay, memory)).record(now, delay);
        let spread = self.own_ns();
        match &mut self.flat {
            Some(flat) => flat.record(now, delay, spread),
            None => self.flat = Some(Flat::starting_with(now, delay)),
        }
        if self.phase != Phase::Watch && delay.minus(self.base) < 0 {
            self.base = delay;
        }
        let least = self.least.map_or(delay, |least| least.get());
        let base = if self.phase == Phase::Watch { least } else { self.base };
        self.queue_ns = delay.minus(base).max(0) as f64;
        self.round.samples += 1;
        self.follow_others(now);
        match self.phase {
            Phase::Watch => self.watch_delay(sample, least),
            Phase::Ramp if self.queue_ns > self.foreign_ns() => {
                // Half of it made no queue, unless the delay came after the next step.
                let line = self.line.get().map_or(f64::INFINITY, |rate| AFTER_FULL * rate);
                self.rate = (self.rate / 2.0).min(line);
                self.full_rate = self.rate;
                self.drain(now, true);
            }
            Phase::Cruise if self.queue_ns > self.foreign_ns() => {
                let again = self.met.is_some_and(|met| now.since(met) < self.config.quiet);
                self.met = Some(now);
                if again && !self.sharing { self.watch(now) } else { self.drain(now, false) }
            }
            Phase::Drain { ours, .. } if self.queue_ns <= self.own_ns() => {
                if ours {
                    self.rate = AFTER_FULL * self.rate.min(self.full_rate);
                }
                if self.sharing {
                    // Others come again before a round is over: it goes on.
                    (self.phase, self.low_at) = (Phase::Cruise, now);
                } else {
                    self.cruise(now, sample.next, self.rate);
                }
            }
            // Others' packets come one after the other. They end, or the queue stands. It is not the flow's own.
            Phase::Drain { until, began, .. } if now >= until && self.sharing && self.left_over(now).is_some() => {
                self.phase = Phase::Drain { began, until, ours: false, part: SHARED_DRAIN };
            }
            Phase::Drain { until, .. } if now >= until => self.watch(now),
            Phase::Drain { .. } => self.extend_drain(),
            Phase::Cruise if self.queue_ns <= spread => self.low_at = now,
            Phase::Cruise if now.since(self.low_at).as_secs_f64() <= self.rtt.max(STANDING) => {}
            // Far below the line's rate the flow makes no queue that lasts.
            Phase::Cruise if !self.sharing && self.line.get().is_some_and(|line| self.rate < OWN_QUEUE * line) => {
                self.met = Some(now);
                self.drain(now, false);
            }
            Phase::Cruise => {
                self.full_rate = self.arrived.min(self.rate);
                if !self.sharing {
                    self.line.on_full(self.full_rate);
                }
                self.drain(now, true);
            }
            Phase::Ramp => {}
        }
    }

    fn watch_delay(&mut self, sample: &AckSample, least: OneWayDelay) {
        let Some(flat) = self.flat else { return };
        let length = sample.now.since(flat.since).as_secs_f64();
        let quiet = self.quiet() * self.patience;
        let low = flat.least.minus(least) as f64 <= self.own_ns() || length > LONGER_PATH * self.quiet();
        if flat.samples >= LEAST_SAMPLES && length >= quiet && low {
            self.ramp(sample.now, sample.next, flat.least);
            return;
        }
        let patient = sample.now.since(self.watch_since).as_secs_f64() >= SHARE_WATCH * self.quiet() * self.patience;
        if patient
            && self.queue_ns <= self.own_ns()
            && self.others.leave_it_empty()
            && let Some(left_over) = self.left_over(sample.now).filter(|rate| *rate > LEAST_SHARE * self.trickle())
        {
            self.share(sample.now, sample.next, least, left_over);
        }
    }

    fn end_round(&mut self, sample: &AckSample) {
        let round = self.round;
        let seconds = sample.now.since(round.began).as_secs_f64();
        let arrived = round.delivered as f64 / seconds;
        let before = core::mem::replace(&mut self.arrived, arrived);
        let forgotten = (seconds / self.config.memory.as_secs_f64()).min(1.0);
        self.most_arrived = arrived.max((1.0 - forgotten) * self.most_arrived);
        // What arrives now was sent a round before. Holes hide what arrived until they are filled.
        let expected = self.paced;
        self.paced = self.sending_rate();
        let follows = arrived.max(before) >= 0.8 * expected;
        let tolerated = self.config.loss_tolerance * (round.lost.saturating_add(round.delivered)) as f64;
        let lossy = round.lost as f64 > tolerated + f64::from(LEAST_SAMPLES) * self.mss;
        self.carried =
            if lossy { (AFTER_LOSSES * arrived.max(before)).min(self.carried) } else { self.carried * REGROWTH };
        if !round.repaired && matches!(self.phase, Phase::Ramp | Phase::Cruise) {
            self.line.at_least(arrived);
        }
        match self.phase {
            Phase::Ramp | Phase::Cruise if lossy => {
                self.step = 1.0;
                self.rate = (AFTER_LOSSES * arrived.max(before).min(self.rate)).max(2.0 * self.trickle());
                self.phase = Phase::Cruise;
                self.low_at = sample.now;
            }
            Phase::Ramp => {
                let line = self.line.get().unwrap_or(f64::INFINITY);
                let known = if self.full_rate > 0.0 { self.full() } else { line };
                if self.rate >= 0.9 * known {
                    self.phase = Phase::Cruise;
                    self.low_at = sample.now;
                } else if !follows && arrived < expected / 2.0 {
                    // The application, not the path, is the limit.
                    let least = self.trickle();
                    self.rate = (2.0 * arrived.max(before)).clamp(least, self.rate.max(least));
                    self.phase = Phase::Cruise;
                    self.low_at = sample.now;
                } else {
                    self.rate = (2.0 * self.rate).min(0.92 * known);
                }
            }
            Phase::Cruise | Phase::Drain { .. } if self.sharing => {
                let left_over = self.left_over(sample.now).unwrap_or(0.0);
                if left_over < LEAST_SHARE * self.trickle() {
                    self.watch(sample.now);
                } else {
                    self.rate = left_over.min(SHARE_GROWTH * self.rate);
                }
                if self.met.is_some_and(|met| sample.now.since(met).as_secs_f64() > SHARE_MEMORY * self.quiet()) {
                    self.sharing = false;
                }
            }
            Phase::Cruise if self.rate < self.full() => self.rate = (REGROWTH * self.rate).min(self.full()),
            Phase::Cruise if follows => {
                self.step = self.step.min(LARGEST_STEP * self.rate * seconds / self.mss);
                self.rate += self.step * self.mss / seconds;
                self.step *= 2.0;
                self.full_rate = self.full_rate.max(arrived);
            }
            Phase::Cruise | Phase::Watch | Phase::Drain { .. } => {}
        }
        self.begin_round(sample.now, sample.next);
    }

    fn follow_round(&mut self, sample: &AckSample) {
        let round = &mut self.round;
        round.delivered = round.delivered.saturating_add(sample.acked);
        round.repaired |= sample.in_recovery;
        let least = match self.phase {
            Phase::Ramp => RAMP_ROUND,
            _ => CRUISE_ROUND,
        };
        let old = sample.now.since(round.began) >= least;
        if old && sample.unacked >= round.end && round.samples >= LEAST_SAMPLES {
            self.end_round(sample);
        }
    }

    /// Uses a pair of packets that left together: how much later did the second arrive? The receiver says for how long
    /// it held the first, or acknowledged both separately.
    fn follow_pair(&mut self, sample: &AckSample) {
        let sent = sample.rtt.map(|rtt| sample.now.before(rtt));
        let last = core::mem::replace(&mut self.last, sent.zip(sample.delay));
        if sample.in_recovery {
            return;
        }
        let together = last.zip(self.last).filter(|(last, this)| this.0.since(last.0) < TOGETHER);
        let beyond_first = sample.acked as f64 - self.mss;
        let (bytes, seconds) = if beyond_first > 0.0 {
            let Some(hold) = sample.hold else { return };
            (beyond_first, hold.as_secs_f64())
        } else if let Some((last, this)) = together {
            (sample.acked as f64, this.1.minus(last.1) as f64 / 1e9)
        } else {
            return;
        };
        if bytes > 0.0 && bytes <= 2.0 * self.mss {
            let behind_queue = self.queue_ns > self.own_ns();
            self.line.on_pair(bytes, seconds, behind_queue);
        }
    }

    fn follow_normal(&mut self, now: Instant) {
        if self.rtt == 0.0 {
            return;
        }
        // Without the line's rate the flow at most doubles.
        let most = self.line.get().unwrap_or(2.0 * self.arrived.max(self.trickle()) / self.kept_share().max(0.01));
        self.normal.advance(now, self.rtt, most * self.rtt / self.mss);
    }
}

fn span_ns(span: Span) -> f64 {
    span.as_secs_f64() * 1e9
}

impl Bounded {
    /// A controller before its first packet; `mss` is the payload of a full segment in bytes.
    pub fn new(config: BoundedConfig, mss: u16) -> Self {
        assert!(mss > 0, "a segment holds at least one byte");
        Self(Box::new(State::new(config, f64::from(mss))))
    }
}

impl State {
    fn new(config: BoundedConfig, mss: f64) -> Self {
        Self {
            config,
            mss,
            min_share: 1.0,
            min_rate: 0.0,
            needed: 0.0,
            late: None,
            carried: f64::INFINITY,
            normal: NormalFlow::new(config.initial_window),
            phase: Phase::Watch,
            rate: 0.0,
            arrived: 0.0,
            most_arrived: 0.0,
            paced: 0.0,
            line: LineRate::default(),
            last: None,
            least: None,
            flat: None,
            base: OneWayDelay::from_ns(0),
            queue_ns: 0.0,
            rtt: 0.0,
            least_rtt: f64::INFINITY,
            round: Round::default(),
            step: 1.0,
            patience: 1.0,
            met: None,
            others: Others::default(),
            sharing: false,
            idle_since: Instant::ZERO,
            watch_since: Instant::ZERO,
            low_at: Instant::ZERO,
            full_rate: 0.0,
        }
    }
}

impl CongestionControl for Bounded {
    fn on_ack(&mut self, sample: &AckSample) {
        let state = &mut *self.0;
        if let Some(rtt) = sample.rtt {
            state.rtt = sample.smoothed_rtt.as_secs_f64();
            state.least_rtt = state.least_rtt.min(rtt.as_secs_f64());
        }
        if let Some(cubic) = &mut state.late {
            cubic.on_ack(sample);
        }
        state.follow_round(sample);
        // A peer that does not report one-way delays: the round trip, less what the receiver held, does as well.
        let round_trip = || sample.fabric_delay().or(sample.rtt);
        let delay =
            sample.delay.or_else(|| Some(OneWayDelay::between(Instant::ZERO, Instant::ZERO.after(round_trip()?))));
        if let Some(delay) = delay {
            state.on_delay(sample, delay);
        }
        state.follow_pair(sample);
        state.follow_normal(sample.now);
    }

    fn on_congestion(&mut self, event: &Congestion) {
        let state = &mut *self.0;
        if let Some(cubic) = &mut state.late {
            cubic.on_congestion(event);
        }
        match event.cause {
            Cause::Timeout => {
                if event.first {
                    state.normal.time_out();
                }
                state.watch(event.now);
            }
            Cause::Ecn => {
                state.normal.cut();
                if state.phase != Phase::Watch {
                    state.watch(event.now);
                }
            }
            Cause::Loss => {
                state.normal.lose();
                // Behind a queue a loss is news of congestion. Without one it is none.
                if state.queue_ns > state.own_ns() && state.phase == Phase::Cruise {
                    state.drain(event.now, true);
                }
            }
        }
    }

    fn on_lost(&mut self, bytes: u64) {
        self.0.round.lost = self.0.round.lost.saturating_add(bytes);
    }

    fn on_spurious_loss(&mut self, ssthresh: u64) {
        self.0.normal.take_back();
        if let Some(cubic) = &mut self.0.late {
            cubic.on_spurious_loss(ssthresh);
        }
    }

    fn on_idle(&mut self) {
        // The path may be another one, or have changed.
        let State { config, mss, min_share, min_rate, needed, .. } = *self.0;
        let late = self.0.late.take().map(|mut cubic| {
            cubic.on_idle();
            cubic
        });
        *self.0 = State { min_share, min_rate, needed, late, ..State::new(config, mss) };
    }

    /// The rate decides. The window only limits the flight while acknowledgements stay away.
    fn window(&self) -> u64 {
        let state = &*self.0;
        if let Some(cubic) = &state.late {
            return cubic.window();
        }
        let rtt = if state.rtt > 0.0 { state.rtt } else { ACK_SLACK };
        (2.0 * state.sending_rate() * (rtt + ACK_SLACK) + 8.0 * state.mss) as u64
    }

    fn ssthresh(&self) -> u64 {
        self.0.late.as_ref().map_or_else(|| self.window(), |cubic| cubic.ssthresh())
    }

    fn pacing_rate(&self) -> Option<Rate> {
        let rate = match &self.0.late {
            // Twice the window in a round trip, as Linux paces slow start.
            Some(cubic) => 2.0 * cubic.window() as f64 / self.0.rtt.max(1e-6),
            None => self.0.sending_rate(),
        };
        Some(Rate::from_bits_per_sec((8.0 * rate).max(1.0) as u64))
    }

    fn pacing_burst(&self) -> u8 {
        self.0.burst()
    }

    fn ecn_mode(&self) -> EcnMode {
        EcnMode::Off
    }

    fn needs_one_way_delay(&self) -> bool {
        true
    }

    fn needs_hold_time(&self) -> bool {
        true
    }

    fn set_min_share(&mut self, share: f64) {
        self.0.min_share = share;
    }

    fn set_min_rate(&mut self, rate: Rate) {
        self.0.min_rate = rate.bytes_per_sec_f64();
    }

    fn set_needed_rate(&mut self, rate: Rate) {
        self.0.needed = rate.bytes_per_sec_f64();
        let is_late = rate.bits_per_sec() == u64::MAX;
        if is_late != self.0.late.is_some() {
            self.0.late = is_late.then(|| Box::new(Cubic::new(CubicConfig::default(), self.0.mss as u16)));
        }
    }

    fn measures_gaps(&self) -> bool {
        self.pacing_rate().is_some_and(|rate| rate <= FASTEST_GAPS)
    }

    fn normal_rate(&self) -> Option<Rate> {
        let rate = self.0.normal_rate();
        (rate > 0.0).then(|| Rate::from_bits_per_sec((8.0 * rate) as u64))
    }
}
