use proptest::collection::vec;
use proptest::prelude::*;

use super::super::delay_history::{DelayHistory, DelayHistoryConfig};
use crate::time::{Instant, OneWayDelay, Span};

const NEAR: DelayHistoryConfig =
    DelayHistoryConfig { base_history: 3, base_interval: Span::from_ms(10), noise_filter: 2 };

fn at_ms(ms: u64) -> Instant {
    Instant::ZERO.after(Span::from_ms(ms))
}

fn us(us: i64) -> OneWayDelay {
    OneWayDelay::from_ns(us * 1_000)
}

/// RFC 6817 section 3.4.2: the current delay is the least of the last samples, the base the least of all intervals.
#[test]
fn queueing_delay_is_current_less_base() {
    let mut history = DelayHistory::new(NEAR);
    assert_eq!((history.base(), history.queueing_ns()), (None, 0));
    for (sample, queueing) in [(80, 0), (50, 0), (70, 0), (90, 20), (65, 15), (200, 15), (300, 150)] {
        history.record(at_ms(1), us(sample));
        assert_eq!(history.queueing_ns(), queueing * 1_000, "after {sample} us");
    }
    assert_eq!(history.base(), Some(us(50)));
}

/// A minimum counts for the interval it was seen in and those that follow, three in all, aligned to the interval.
#[test]
fn base_delays_are_forgotten_with_their_interval() {
    let mut history = DelayHistory::new(NEAR);
    for (ms, sample, base) in
        [(9, 50, 50), (10, 60, 50), (19, 55, 50), (20, 70, 50), (29, 80, 50), (30, 90, 55), (40, 90, 70), (50, 90, 90)]
    {
        history.record(at_ms(ms), us(sample));
        assert_eq!(history.base(), Some(us(base)), "at {ms} ms");
    }
    // However long the silence, one interval passes.
    history.record(at_ms(1000), us(95));
    assert_eq!(history.base(), Some(us(90)));
}

/// The filter looks back over the end of an interval; what the base has forgotten is no negative queue.
#[test]
fn queueing_delays_are_never_negative() {
    let mut history = DelayHistory::new(DelayHistoryConfig { base_history: 1, ..NEAR });
    history.record(at_ms(9), us(50));
    history.record(at_ms(10), us(90));
    assert_eq!((history.base(), history.queueing_ns()), (Some(us(90)), 0));
}

proptest! {
    /// The clocks' offset is nowhere in the result, whichever way delays wrap.
    #[test]
    fn offsets_of_clocks_cancel(
        samples in vec((0..20u64, 0..1_000_000i64), 1..100),
        offset in any::<i64>(),
    ) {
        let mut histories = [DelayHistory::new(NEAR); 2];
        let mut ms = 0;
        for (step, ns) in samples {
            ms += step;
            histories[0].record(at_ms(ms), OneWayDelay::from_ns(ns));
            histories[1].record(at_ms(ms), OneWayDelay::from_ns(ns.wrapping_add(offset)));
            prop_assert_eq!(histories[0].queueing_ns(), histories[1].queueing_ns());
        }
    }
}
