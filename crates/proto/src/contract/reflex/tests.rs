//! Both algorithms by hand-computed numbers, and what holds whatever is acknowledged.

use alloc::string::ToString;
use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;

const HIGH: TrafficClass = TrafficClass::new(0);
const LOW: TrafficClass = TrafficClass::new(1);
/// Bytes per interval of 5 ms at 5 Gbit/s.
const SHARE: u64 = 3_125_000;

fn ms(ms: u64) -> Instant {
    Instant::ZERO.after(Span::from_ms(ms))
}

fn config(alpha: f64, r: f64) -> ReflexConfig {
    let contract = Contract { min_share: alpha, min_delivery: r, ..Contract::default() };
    ReflexConfig::new(contract, GiveWay::Queue { high: HIGH, low: LOW })
}

/// A policy and the flow that it bends.
struct Flow {
    reflex: Reflex,
    acked: u64,
}

impl Flow {
    fn start(config: ReflexConfig, size: Option<u64>, at: Instant) -> Self {
        let mut reflex = Reflex::new(Arc::new(config), size, 0).expect("within range");
        reflex.on_start(at);
        Self { reflex, acked: 0 }
    }

    /// Ends the interval under way, in which `acked` bytes were acknowledged.
    fn step(&mut self, acked: u64) -> Directive {
        self.acked += acked;
        let at = self.reflex.deadline().expect("the flow goes on");
        self.reflex.on_deadline(at, Progress { acked_bytes: self.acked, sent_bytes: self.acked })
    }

    /// Ends intervals with `acked` bytes each until one has ended at `until`.
    fn run(&mut self, acked: u64, until: Instant) {
        while self.reflex.deadline().is_some_and(|at| at <= until) {
            self.step(acked);
        }
    }

    fn standing(&self) -> &Standing {
        self.reflex.standing().expect("an interval has ended")
    }
}

/// Figure 9 by its formula: a cycle is lost to synchronisation, then each full cycle saves 1 − alpha of its share.
fn first_low_by_formula(alpha: f64, exploit: f64) -> f64 {
    let cycle = (2.0 + exploit) * 5.0;
    cycle * (1.0 + libm::ceil(alpha * exploit * 5.0 / ((1.0 - alpha) * cycle)))
}

/// Two equal flows, alpha = 0.9, exploit phases of three intervals: 175 ms by figure 9. By the algorithm's letter the
/// fair share is known 10 ms into a cycle, where alone a low phase can begin: 185 ms.
#[test]
fn a_flow_gives_way_once_its_budget_covers_an_exploit_phase() {
    assert_eq!(first_low_by_formula(0.9, 3.0), 175.0);
    let mut flow = Flow::start(config(0.9, 1.0), None, ms(0));
    let mut changes = Vec::new();
    for _ in 0..41 {
        if let Some(class) = flow.step(SHARE).class {
            changes.push((flow.standing().at, class));
        }
        if flow.standing().at == ms(160) {
            assert!((flow.standing().rate_budget - 25.0 * 312_500.0).abs() < 1.0, "below 8 437 500 bytes");
        }
    }
    assert_eq!(changes, [(ms(185), LOW), (ms(200), HIGH)]);
    let counts = flow.reflex.counts(ms(205), Progress { acked_bytes: flow.acked, sent_bytes: flow.acked });
    assert_eq!((counts.low_bytes, counts.low_ps), (3 * SHARE, Span::from_ms(15).as_ps()));
}

/// Algorithm 1: alpha = 0.5 of 200 MB/s are 500 kB per interval.
#[test]
fn budgets_are_drained_in_their_order() {
    let mut flow = Flow::start(config(0.5, 0.9), Some(100_000_000), ms(0));
    flow.reflex.fair_rate = Some(2e8);
    let budgets = |flow: &Flow| (flow.standing().rate_budget, flow.standing().delivery_budget);
    flow.step(600_000);
    assert_eq!(budgets(&flow), (100_000.0, 10_000_000.0));
    let directive = flow.step(300_000);
    assert_eq!(budgets(&flow), (0.0, 9_900_000.0), "the rest comes out of the delivery budget");
    assert_eq!(directive.stream_end, Some(99_900_000), "and need not be sent");
    flow.reflex.delivery_budget = 50_000.0;
    assert_eq!(flow.step(300_000).stream_end, Some(90_000_000));
    assert_eq!(budgets(&flow), (-150_000.0, 0.0), "what nothing covers is owed");
    flow.step(500_000);
    assert_eq!(budgets(&flow), (-150_000.0, 0.0));
}

/// Without a delivery budget every byte short of the share is owed.
#[test]
fn a_reliable_flow_drains_nothing() {
    let mut flow = Flow::start(config(0.5, 1.0), Some(100_000_000), ms(0));
    flow.reflex.fair_rate = Some(2e8);
    assert_eq!(flow.step(300_000).stream_end, Some(100_000_000));
    assert_eq!((flow.standing().rate_budget, flow.standing().delivery_budget), (-200_000.0, 0.0));
}

/// A flow is synchronised where it first sees a cycle end, and measures in the next one: until then it keeps no budget.
#[test]
fn a_flow_synchronises_before_it_measures() {
    // Start, end of the first interval, first measurement, all in ms.
    for (start, first, measured) in [(0, 5, 35), (12, 15, 35), (24, 25, 60), (25, 30, 60), (26, 30, 60), (29, 30, 60)] {
        let mut flow = Flow::start(config(0.9, 1.0), None, ms(start));
        flow.step(SHARE);
        assert_eq!((flow.standing().at, flow.standing().interval), (ms(first), Span::from_ms(first - start)));
        while flow.standing().fair_rate.is_none() {
            assert_eq!(flow.standing().rate_budget, 0.0);
            flow.step(SHARE);
        }
        assert_eq!((flow.standing().at, flow.standing().fair_rate), (ms(measured), Some(6.25e8)), "from {start} ms");
    }
}

/// The measure interval is booked by the share measured before it; then the new share decides.
#[test]
fn a_measurement_counts_from_its_end() {
    let mut flow = Flow::start(config(0.9, 1.0), None, ms(0));
    flow.run(SHARE, ms(55));
    flow.step(2 * SHARE);
    assert_eq!((flow.standing().at, flow.standing().fair_rate), (ms(60), Some(1.25e9)));
    let booked = 4.0 * 312_500.0 + (6_250_000.0 - 2_812_500.0);
    assert!((flow.standing().rate_budget - booked).abs() < 1.0, "{}", flow.standing().rate_budget);
}

/// Low begins where an exploit phase does, never within one, and lasts to its end though the budget goes negative.
#[test]
fn a_low_phase_lasts_an_exploit_phase() {
    let mut flow = Flow::start(config(0.9, 1.0), None, ms(0));
    flow.run(SHARE, ms(185));
    assert!(flow.standing().low);
    flow.run(0, ms(195));
    assert!(flow.standing().low && flow.standing().rate_budget > 0.0);
    flow.reflex.rate_budget = -1.0;
    flow.run(0, ms(195));
    assert!(flow.standing().low);
    flow.run(0, ms(200));
    assert!(!flow.standing().low);
    flow.reflex.rate_budget = 1e12;
    flow.run(SHARE, ms(205));
    assert!(!flow.standing().low);
    flow.run(SHARE, ms(210));
    assert!(flow.standing().low);
}

/// alpha = 0 and a share of zero ask for no budget but some: strictly more than nothing.
#[test]
fn what_costs_nothing_needs_any_budget() {
    let mut free = Flow::start(config(0.0, 1.0), None, ms(0));
    free.run(SHARE, ms(35));
    assert!(!free.standing().low, "the budget is empty");
    free.run(SHARE, ms(60));
    assert!(free.standing().low);
    let mut starved = Flow::start(config(0.9, 1.0), None, ms(0));
    starved.run(0, ms(35));
    assert_eq!((starved.standing().fair_rate, starved.standing().low), (Some(0.0), false));
    starved.run(10, ms(60));
    assert!(starved.standing().low && starved.standing().rate_budget == 40.0 + 10.0);
    let mut unreliable = Flow::start(config(0.9, 0.5), Some(1000), ms(0));
    unreliable.run(0, ms(35));
    assert!(unreliable.standing().low, "half may be given up");
}

/// A flow with a delivery budget is over once what is acknowledged and what is given up make up its size.
#[test]
fn giving_up_ends_a_flow_early() {
    let size = 20 * SHARE;
    let mut flow = Flow::start(config(1.0, 0.5), Some(size), ms(0));
    flow.run(SHARE, ms(35));
    assert!(flow.standing().low);
    // Nothing comes through: each interval drains a share, of the ten there are.
    for drained in 1..=3u64 {
        assert_eq!(flow.step(0).stream_end, Some(size - drained * SHARE));
    }
    flow.run(0, ms(55));
    flow.step(SHARE);
    assert_eq!((flow.standing().at, flow.standing().fair_rate), (ms(60), Some(6.25e8)));
    flow.run(0, ms(80));
    assert_eq!(flow.reflex.stream_end(), size - 8 * SHARE);
    flow.step(SHARE);
    flow.run(0, ms(95));
    assert_eq!((flow.acked, flow.reflex.stream_end()), (9 * SHARE, size - 10 * SHARE));
    let last = flow.step(SHARE);
    assert!(last.finish && last.stream_end == Some(0), "{last:?}");
    assert_eq!((flow.acked, flow.reflex.deadline()), (size / 2, None));
}

/// Boundaries fall where the host's own clock has them, ahead or behind.
#[test]
fn an_offset_moves_the_boundaries() {
    for (offset_ms, first) in [(0, 5), (2, 3), (-2, 2), (25, 5), (-27, 2), (1002, 3)] {
        let mut reflex =
            Reflex::new(Arc::new(config(0.9, 1.0)), None, offset_ms * 1_000_000_000).expect("within range");
        reflex.on_start(ms(0));
        assert_eq!(reflex.deadline(), Some(ms(first)), "{offset_ms} ms");
    }
}

/// A call that comes late sees every phase that it missed.
#[test]
fn a_late_call_makes_up_for_what_it_missed() {
    let mut flow = Flow::start(config(0.9, 1.0), None, ms(0));
    let standing = |flow: &mut Flow, at: u64| {
        flow.acked += SHARE;
        flow.reflex.on_deadline(ms(at), Progress { acked_bytes: flow.acked, sent_bytes: flow.acked });
        (flow.standing().at, flow.reflex.deadline(), flow.reflex.synchronised)
    };
    assert_eq!(standing(&mut flow, 27), (ms(27), Some(ms(30)), true));
    assert_eq!(standing(&mut flow, 1003), (ms(1003), Some(ms(1005)), true));
    assert!(!flow.standing().low);
}

#[test]
fn what_cannot_be_is_refused() {
    let base = || config(0.9, 1.0);
    let weight = |low| ReflexConfig { give_way: GiveWay::Weight { high: 1.0, low }, ..base() };
    for (config, error) in [
        (config(1.1, 1.0), ReflexError::Contract),
        (config(f64::NAN, 1.0), ReflexError::Contract),
        (config(0.9, -0.1), ReflexError::Contract),
        (ReflexConfig { interval: Span::ZERO, ..base() }, ReflexError::Interval),
        (ReflexConfig { interval: Span::MAX, ..base() }, ReflexError::Interval),
        (ReflexConfig { warmup: 0, ..base() }, ReflexError::Phase),
        (ReflexConfig { exploit: 0, ..base() }, ReflexError::Phase),
        (weight(1.0), ReflexError::Weight),
        (weight(0.0), ReflexError::Weight),
        (config(0.9, 0.5), ReflexError::SizeUnknown),
    ] {
        assert_eq!(Reflex::new(Arc::new(config), None, 0).err(), Some(error));
    }
    assert!(Reflex::new(Arc::new(config(0.9, 0.5)), Some(1), 0).is_ok());
}

proptest! {
    /// Whatever is acknowledged: no more is given up than the contract allows, a flow that ends has acknowledged what it
    /// must, and low phases are whole exploit phases.
    #[test]
    fn bounds_hold_whatever_happens(
        alpha in 0.0..=1.0f64, r in 0.0..=1.0f64, size in 1u64..200_000_000, start_us in 0u64..60_000,
        acked in prop::collection::vec(0u64..5_000_000, 1..200),
    ) {
        let start = Instant::ZERO.after(Span::from_us(start_us));
        let mut flow = Flow::start(config(alpha, r), Some(size), start);
        let needed = flow.reflex.config.contract.needed_bytes(size);
        prop_assert!(needed as f64 >= r * size as f64);
        let mut was_low = false;
        for bytes in acked {
            let left = flow.reflex.stream_end().saturating_sub(flow.acked);
            let directive = flow.step(bytes.min(left));
            prop_assert!(flow.reflex.stream_end() >= needed);
            prop_assert!(flow.reflex.delivery_budget >= 0.0);
            if directive.finish {
                prop_assert!(flow.acked >= needed);
                break;
            }
            let Standing { low, phase, .. } = *flow.standing();
            prop_assert!(!low || phase == Phase::Exploit);
            if low && !was_low {
                prop_assert_eq!(flow.reflex.config.phase(flow.reflex.interval - 1), Phase::Measure);
            }
            if was_low && !low {
                prop_assert_eq!(phase, Phase::Warmup);
            }
            was_low = low;
        }
    }
}

/// A measurement phase that a late call left out whole measured nothing: the fair rate stays what it was, and before the
/// first measurement there is none. Of the cycle of 25 ms the phase is 5 ms to 10 ms.
#[test]
fn a_phase_that_was_missed_measures_nothing() {
    for (until, rate) in [(50, Some(6.25e8)), (25, None)] {
        let mut flow = Flow::start(config(0.9, 1.0), None, ms(0));
        flow.run(SHARE, ms(until));
        let progress = Progress { acked_bytes: flow.acked, sent_bytes: flow.acked };
        flow.reflex.on_deadline(ms(until + 12), progress);
        assert_eq!((flow.standing().at, flow.standing().phase), (ms(until + 12), Phase::Exploit));
        assert_eq!(flow.standing().fair_rate, rate, "until {until} ms");
    }
}

/// A flow starts once: more data later changes neither the interval under way nor the end of a finished flow.
#[test]
fn a_flow_starts_once() {
    let mut flow = Flow::start(config(0.9, 1.0), Some(2 * SHARE), ms(1));
    flow.reflex.on_start(ms(3));
    flow.step(SHARE);
    assert_eq!(flow.standing().interval, Span::from_ms(4));
    assert!(flow.step(SHARE).finish);
    flow.reflex.on_start(ms(12));
    assert_eq!(flow.reflex.deadline(), None);
}

/// Each range of a configuration, at its ends; what is refused says why.
#[test]
fn configurations_are_checked() {
    let weights = |high, low| ReflexConfig { give_way: GiveWay::Weight { high, low }, ..config(0.5, 1.0) };
    let longest = Span::from_ps(1 << 61);
    let halves = |interval| ReflexConfig { interval, warmup: 1, measure: 1, exploit: 2, ..config(0.5, 1.0) };
    for allowed in
        [config(0.0, 0.0), config(1.0, 1.0), weights(2.0, 1.0), weights(1e-9, 1e-10), halves(Span::from_ps(1 << 60))]
    {
        assert_eq!(allowed.check(), Ok(()));
    }
    for (refused, word) in [
        (config(1.1, 1.0), "min_share"),
        (config(1.0, -0.1), "min_delivery"),
        (ReflexConfig { warmup: 0, ..config(0.5, 1.0) }, "phase"),
        (ReflexConfig { measure: 0, ..config(0.5, 1.0) }, "phase"),
        (ReflexConfig { exploit: 0, ..config(0.5, 1.0) }, "phase"),
        (halves(Span::ZERO), "interval"),
        (halves(longest), "interval"),
        (weights(1.0, 1.0), "weight"),
        (weights(1.0, 2.0), "weight"),
        (weights(1.0, 0.0), "weight"),
        (weights(1.0, -1.0), "weight"),
    ] {
        let error = refused.check().unwrap_err();
        assert!(error.to_string().contains(word), "{error}");
    }
    let unknown = Reflex::new(Arc::new(config(0.5, 0.9)), None, 0).unwrap_err();
    assert!(unknown.to_string().contains("size"), "{unknown}");
}

/// Phases are written and read by the same names.
#[test]
fn phases_have_names() {
    let names = ["warmup", "measure", "exploit"];
    let phases = [Phase::Warmup, Phase::Measure, Phase::Exploit];
    assert_eq!((phases.map(Phase::name), names.map(Phase::from_name)), (names, phases.map(Some)));
    assert_eq!(Phase::from_name(""), None);
}

/// The policy that a sender asks is REFLEX itself: the same deadlines, directives and counts.
#[test]
fn the_policy_is_asked_through() {
    use crate::contract::policy::Policy;
    let mut flow = Flow::start(config(0.5, 0.9), Some(20 * SHARE), ms(0));
    let mut policy = Policy::from(Reflex::new(Arc::new(config(0.5, 0.9)), Some(20 * SHARE), 0).expect("within range"));
    assert_eq!(policy.deadline(), None);
    policy.on_start(ms(0));
    while let Some(at) = flow.reflex.deadline() {
        assert_eq!(policy.deadline(), Some(at));
        let directive = flow.step(SHARE / 2);
        let progress = Progress { acked_bytes: flow.acked, sent_bytes: flow.acked };
        assert_eq!(policy.on_deadline(at, progress), directive);
        assert_eq!(policy.stream_end(), flow.reflex.stream_end());
        assert_eq!(policy.counts(at, progress), flow.reflex.counts(at, progress));
    }
    assert_eq!(policy.deadline(), None);
    assert!(flow.reflex.counts(ms(10_000), Progress::default()).low_bytes > 0, "it gave way");
}
