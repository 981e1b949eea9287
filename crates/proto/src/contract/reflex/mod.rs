//! REFLEX: a flow gives way as long as its bounds allow (Kassing et al., "New primitives for bounded degradation in
//! network service", arXiv 2208.08429, section 4).
//!
//! All flexible flows divide time into the same cycles of warm-up, measure and exploit phases, by synchronised clocks.
//! In the measure phase all send at high priority, so a flow's own rate tells its fair share. What it gets beyond
//! alpha times that share fills a rate budget (algorithm 1); with enough of it the flow gives way for an exploit phase
//! (algorithm 2). What the rate budget cannot cover is taken from a delivery budget: so many bytes are never sent.
//!
//! | knob | default | source |
//! | --- | --- | --- |
//! | interval T_int | 5 ms | section 6.1 |
//! | warm-up : measure : exploit | 1 : 1 : 3 intervals | section 6.1 |
//! | alpha, r | [`Contract::min_share`], [`Contract::min_delivery`] | section 3 |
//!
//! Deviations: bytes acknowledged before the first measurement count towards the flow's size, or it would be held to
//! deliver more than all; budgets of bytes are rounded so that no bound is missed by rounding. Beside the paper's
//! change of queue a flow can give way by its controller's weight ([`GiveWay::Weight`]), the paper's "wimpier
//! congestion control" (section 8).

#[cfg(test)]
mod tests;

use alloc::sync::Arc;
use core::fmt;

use super::policy::{Directive, PolicyCounts, Progress};
use super::{Contract, Field};
use crate::packet::TrafficClass;
use crate::time::{Instant, Span};

/// The contract fields that a transport honours once its sender asks REFLEX, beside its own.
pub const HONOURS: &[Field] = &[Field::MinDelivery, Field::MinShare];

/// How a flow gives way in an exploit phase.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum GiveWay {
    /// Its data changes from one class to another.
    Queue {
        /// Class before, and after.
        high: TrafficClass,
        /// Class meanwhile.
        low: TrafficClass,
    },
    /// Its controller's weight changes.
    Weight {
        /// Weight before, and after.
        high: f64,
        /// Weight meanwhile, below `high`.
        low: f64,
    },
}

/// What many flows have in common.
#[derive(Clone, PartialEq, Debug)]
pub struct ReflexConfig {
    /// Length of an interval (T_int). Default 5 ms; above 0, and a cycle within 2^62 ps.
    pub interval: Span,
    /// Intervals of the warm-up phase (D_w), at least 1. Default 1.
    pub warmup: u32,
    /// Intervals of the measure phase (D_m), at least 1. Default 1.
    pub measure: u32,
    /// Intervals of the exploit phase (D_e), at least 1. Default 3.
    pub exploit: u32,
    /// The bounds: `min_share` is alpha, `min_delivery` is r.
    pub contract: Contract,
    /// How the flow gives way.
    pub give_way: GiveWay,
}

/// Why a configuration was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReflexError {
    /// A share or a fraction outside [0, 1].
    Contract,
    /// An interval of no time, or phases that do not fit into 2^62 ps.
    Interval,
    /// A phase without an interval.
    Phase,
    /// A low weight that is not below the high one, or not above zero.
    Weight,
    /// `min_delivery` below 1 for a flow whose size is not known.
    SizeUnknown,
}

impl fmt::Display for ReflexError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Contract => "min_share and min_delivery must lie in [0, 1]",
            Self::Interval => "the interval must be longer than 0s, and a cycle shorter than 50 days",
            Self::Phase => "every phase takes at least 1 interval",
            Self::Weight => "the low weight must be above 0 and below the flow's own",
            Self::SizeUnknown => "min_delivery below 1 needs a flow whose size is known",
        })
    }
}

impl core::error::Error for ReflexError {}

/// Longest cycle.
const CYCLE_MAX_PS: u128 = 1 << 62;

impl ReflexConfig {
    /// The paper's intervals.
    pub fn new(contract: Contract, give_way: GiveWay) -> Self {
        Self { interval: Span::from_ms(5), warmup: 1, measure: 1, exploit: 3, contract, give_way }
    }

    /// Checks every range.
    pub fn check(&self) -> Result<(), ReflexError> {
        let require = |holds: bool, error| if holds { Ok(()) } else { Err(error) };
        let Contract { min_delivery, min_share, .. } = self.contract;
        let unit = |value: f64| (0.0..=1.0).contains(&value);
        require(unit(min_share) && unit(min_delivery), ReflexError::Contract)?;
        require(self.warmup > 0 && self.measure > 0 && self.exploit > 0, ReflexError::Phase)?;
        let cycle = u128::from(self.cycle_intervals()) * u128::from(self.interval.as_ps());
        require(cycle > 0 && cycle <= CYCLE_MAX_PS, ReflexError::Interval)?;
        match self.give_way {
            GiveWay::Weight { high, low } => require(low > 0.0 && low < high, ReflexError::Weight),
            GiveWay::Queue { .. } => Ok(()),
        }
    }

    /// Intervals in a cycle.
    fn cycle_intervals(&self) -> u64 {
        u64::from(self.warmup) + u64::from(self.measure) + u64::from(self.exploit)
    }

    /// Length of a cycle.
    pub fn cycle(&self) -> Span {
        self.interval.times(self.cycle_intervals())
    }

    /// Phase of the interval with this number (DETERMINE_PHASE).
    fn phase(&self, interval: u64) -> Phase {
        let place = interval % self.cycle_intervals();
        if place < u64::from(self.warmup) {
            Phase::Warmup
        } else if place < u64::from(self.warmup) + u64::from(self.measure) {
            Phase::Measure
        } else {
            Phase::Exploit
        }
    }
}

/// A part of the cycle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// All flows send at high priority and settle.
    Warmup,
    /// They measure their fair shares.
    Measure,
    /// Those who can give way.
    Exploit,
}

impl Phase {
    const ALL: [Self; 3] = [Self::Warmup, Self::Measure, Self::Exploit];

    /// Its name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Warmup => "warmup",
            Self::Measure => "measure",
            Self::Exploit => "exploit",
        }
    }

    /// The phase with this [`name`](Self::name).
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|phase| phase.name() == name)
    }
}

/// A flow's standing at the end of an interval.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Standing {
    /// When the interval ended.
    pub at: Instant,
    /// Its length: shorter than all others for the first.
    pub interval: Span,
    /// Payload bytes acknowledged in it.
    pub acked_bytes: u64,
    /// Fair share as last measured (R_fair), in bytes per second.
    pub fair_rate: Option<f64>,
    /// Rate budget (B_alpha) in bytes; may be negative.
    pub rate_budget: f64,
    /// Delivery budget (B_r) in bytes.
    pub delivery_budget: f64,
    /// Phase of the interval that begins.
    pub phase: Phase,
    /// Whether the flow gives way in it.
    pub low: bool,
}

/// The policy of one flow.
#[derive(Clone, Debug)]
pub struct Reflex {
    config: Arc<ReflexConfig>,
    /// Time on the flow's clock at [`Instant::ZERO`], within a cycle.
    clock: Span,
    size: Option<u64>,
    fair_rate: Option<f64>,
    rate_budget: f64,
    delivery_budget: f64,
    /// The delivery budget at the start.
    spare: u64,
    phase: Option<Phase>,
    synchronised: bool,
    low: bool,
    probe_bytes: u64,
    probe_time: Span,
    /// Number of the interval under way.
    interval: u64,
    began: Instant,
    deadline: Option<Instant>,
    acked_before: u64,
    /// When the flow began to give way, and what it had sent.
    low_since: (Instant, u64),
    counted: PolicyCounts,
    standing: Option<Standing>,
}

impl Reflex {
    /// The policy of a flow of `size` bytes; `None` if it is not known. `clock_offset_ps` is how far the host's clock is
    /// ahead of the time it is given. Refuses a configuration out of range, and `min_delivery` below 1 without a size.
    pub fn new(config: Arc<ReflexConfig>, size: Option<u64>, clock_offset_ps: i64) -> Result<Self, ReflexError> {
        config.check()?;
        let spare = match size {
            Some(size) => size - config.contract.needed_bytes(size),
            None if config.contract.min_delivery < 1.0 => return Err(ReflexError::SizeUnknown),
            None => 0,
        };
        let cycle = config.cycle().as_ps() as i64;
        Ok(Self {
            clock: Span::from_ps(clock_offset_ps.rem_euclid(cycle) as u64),
            config,
            size,
            fair_rate: None,
            rate_budget: 0.0,
            delivery_budget: spare as f64,
            spare,
            phase: None,
            synchronised: false,
            low: false,
            probe_bytes: 0,
            probe_time: Span::ZERO,
            interval: 0,
            began: Instant::ZERO,
            deadline: None,
            acked_before: 0,
            low_since: (Instant::ZERO, 0),
            counted: PolicyCounts::default(),
            standing: None,
        })
    }

    /// The flow's standing when the last interval ended; `None` during the first.
    pub fn standing(&self) -> Option<&Standing> {
        self.standing.as_ref()
    }

    /// Number of the interval at `now` (ID_int).
    fn interval_at(&self, now: Instant) -> u64 {
        now.after(self.clock).as_ps() / self.config.interval.as_ps()
    }

    /// When the interval after `interval` begins.
    fn end_of(&self, interval: u64) -> Instant {
        Instant::ZERO.after(self.config.interval.times(interval + 1)).before(self.clock)
    }

    pub(super) fn on_start(&mut self, now: Instant) {
        if self.deadline.is_none() && self.standing.is_none() {
            self.interval = self.interval_at(now);
            self.began = now;
            self.deadline = Some(self.end_of(self.interval));
        }
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    pub(super) fn stream_end(&self) -> u64 {
        // Rounded down: whoever spends part of a byte still sends it.
        self.size.map_or(u64::MAX, |size| size - self.drained() as u64)
    }

    /// Bytes taken out of the delivery budget.
    fn drained(&self) -> f64 {
        self.spare as f64 - self.delivery_budget
    }

    pub(super) fn on_deadline(&mut self, now: Instant, progress: Progress) -> Directive {
        if self.deadline.is_none_or(|at| at > now) {
            return Directive::default();
        }
        let (was_low, acked) = (self.low, progress.acked_bytes - self.acked_before);
        self.counted = self.counts(now, progress);
        self.low_since = (now, progress.sent_bytes);
        let (current, elapsed) = (self.interval_at(now), now.since(self.began));
        (self.began, self.acked_before) = (now, progress.acked_bytes);
        // A call that comes late makes up for the intervals it missed; one cycle of them shows every phase.
        let missed = (current - self.interval).min(self.config.cycle_intervals());
        for (number, interval) in (current + 1 - missed..=current).enumerate() {
            let (acked, elapsed) = if number == 0 { (acked, elapsed) } else { (0, Span::ZERO) };
            if self.update(interval, acked, elapsed) {
                (self.deadline, self.low) = (None, false);
                return Directive { stream_end: Some(0), finish: true, ..Directive::default() };
            }
        }
        self.interval = current;
        self.deadline = Some(self.end_of(current));
        let Self { fair_rate, rate_budget, delivery_budget, low, .. } = *self;
        self.standing = Some(Standing {
            at: now,
            interval: elapsed,
            acked_bytes: acked,
            fair_rate,
            rate_budget,
            delivery_budget,
            phase: self.config.phase(current),
            low,
        });
        let mut directive = Directive { stream_end: Some(self.stream_end()), ..Directive::default() };
        if low != was_low {
            match self.config.give_way {
                GiveWay::Queue { high, low: given } => {
                    (directive.class, directive.overtakes) = (Some(if low { given } else { high }), !low);
                }
                GiveWay::Weight { high, low: given } => directive.weight = Some(if low { given } else { high }),
            }
        }
        directive
    }

    pub(super) fn counts(&self, now: Instant, progress: Progress) -> PolicyCounts {
        let PolicyCounts { low_bytes, low_ps } = self.counted;
        if !self.low {
            return self.counted;
        }
        let (since, sent) = self.low_since;
        PolicyCounts { low_bytes: low_bytes + (progress.sent_bytes - sent), low_ps: low_ps + now.since(since).as_ps() }
    }

    /// Algorithm 2, at the boundary before `interval`; `acked` bytes were acknowledged in the `elapsed` time before it.
    /// True once the flow has finished.
    fn update(&mut self, interval: u64, acked: u64, elapsed: Span) -> bool {
        if let Some(fair_rate) = self.fair_rate {
            self.adjust_budgets(fair_rate, acked, elapsed);
        }
        if self.size.is_some_and(|size| self.acked_before as f64 + self.drained() >= size as f64) {
            return true;
        }
        if self.phase == Some(Phase::Measure) && self.synchronised {
            self.probe_bytes += acked;
            self.probe_time = self.probe_time.plus(elapsed);
        }
        let (previous, upcoming) = (self.phase, self.config.phase(interval));
        if previous == Some(Phase::Exploit) && upcoming == Phase::Warmup {
            (self.synchronised, self.low) = (true, false);
        }
        if previous == Some(Phase::Measure) && upcoming == Phase::Exploit {
            if self.synchronised && self.probe_time > Span::ZERO {
                self.fair_rate = Some(self.probe_bytes as f64 / self.probe_time.as_secs_f64());
                (self.probe_bytes, self.probe_time) = (0, Span::ZERO);
            }
            if let Some(fair_rate) = self.fair_rate {
                self.low = self.rate_budget + self.delivery_budget > self.potential_loss(fair_rate);
            }
        }
        self.phase = Some(upcoming);
        false
    }

    /// Most bytes that an exploit phase without any progress would cost (L_potential).
    fn potential_loss(&self, fair_rate: f64) -> f64 {
        let exploit = self.config.interval.as_secs_f64() * f64::from(self.config.exploit);
        self.config.contract.min_share * fair_rate * exploit
    }

    /// Algorithm 1.
    fn adjust_budgets(&mut self, fair_rate: f64, acked: u64, elapsed: Span) {
        self.rate_budget += acked as f64 - self.config.contract.min_share * fair_rate * elapsed.as_secs_f64();
        if self.rate_budget >= 0.0 {
            return;
        }
        let left = self.delivery_budget + self.rate_budget;
        (self.rate_budget, self.delivery_budget) = if left >= 0.0 { (0.0, left) } else { (left, 0.0) };
    }
}
