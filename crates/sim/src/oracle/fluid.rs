//! What low-priority flows could reach at one link: the capacity that higher classes left, as a fluid.
//!
//! The record of the higher classes' transmissions on the link is taken as given. In the time that is left the link
//! serves one flow alone ([`Leftover::alone`]: no flow is faster), or all flows present at equal rates
//! ([`Leftover::processor_sharing`]: what a fair transport without delays would do).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use pliant_proto::time::{Instant, Span};
use pliant_proto::units::Rate;

/// What a flow brings to the link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FluidFlow {
    /// When it is there, all at once.
    pub arrival: Instant,
    /// Bytes on the wire.
    pub bytes: u64,
}

/// A link's time that higher classes do not use.
#[derive(Clone, Debug)]
pub struct Leftover {
    capacity: Rate,
    /// Each time in which a higher class transmits, with what was left before it, in picoseconds.
    busy: Vec<(Instant, Instant, u64)>,
}

impl Leftover {
    /// What is left of a link of rate `capacity` that transmits for higher classes in the spans `busy` of start and
    /// end, which are in order and do not overlap.
    pub fn new(capacity: Rate, busy: impl IntoIterator<Item = (Instant, Instant)>) -> Self {
        let (mut left, mut last) = (0, Instant::ZERO);
        let busy = busy.into_iter().map(|(start, end)| {
            assert!(start >= last && end >= start, "transmissions are in order and do not overlap");
            left += start.since(last).as_ps();
            last = end;
            (start, end, left)
        });
        Self { capacity, busy: busy.collect() }
    }

    /// When `bytes` that are there at `arrival` have been sent, with everything that is left for them alone.
    pub fn alone(&self, flow: FluidFlow) -> Instant {
        self.instant(self.left_until(flow.arrival) as f64 + self.time(flow.bytes))
    }

    /// When each flow is over under processor sharing: at every moment all flows present get equal rates. In their
    /// order, by arrival.
    pub fn processor_sharing(&self, flows: &[FluidFlow]) -> Vec<Instant> {
        assert!(flows.is_sorted_by_key(|flow| flow.arrival), "flows come by arrival");
        let mut sharing = Sharing::default();
        let mut over = vec![Instant::MAX; flows.len()];
        for (number, flow) in flows.iter().enumerate() {
            let arrival = self.left_until(flow.arrival) as f64;
            sharing.run_until(arrival, |number, at| over[number] = self.instant(at));
            sharing.present.push(Reverse(Present { until: sharing.each + self.time(flow.bytes), number }));
        }
        sharing.run_until(f64::INFINITY, |number, at| over[number] = self.instant(at));
        over
    }

    /// Picoseconds that `bytes` take.
    fn time(&self, bytes: u64) -> f64 {
        bytes as f64 * 8e12 / self.capacity.bits_per_sec() as f64
    }

    /// Time left over until `at`, in picoseconds.
    fn left_until(&self, at: Instant) -> u64 {
        let begun = self.busy.partition_point(|(start, ..)| *start <= at);
        match begun.checked_sub(1).map(|last| self.busy[last]) {
            Some((_, end, left)) => left + at.since(end).as_ps(),
            None => at.as_ps(),
        }
    }

    /// The first moment by which so many picoseconds were left over.
    fn instant(&self, left: f64) -> Instant {
        let left = left.round() as u64;
        let passed = self.busy.partition_point(|(.., before)| *before < left);
        match passed.checked_sub(1).map(|last| self.busy[last]) {
            Some((_, end, before)) => end.after(Span::from_ps(left - before)),
            None => Instant::from_ps(left),
        }
    }
}

/// Processor sharing in left-over time.
#[derive(Default)]
struct Sharing {
    now: f64,
    /// What a flow present since the beginning has got, in picoseconds of the whole link.
    each: f64,
    present: BinaryHeap<Reverse<Present>>,
}

impl Sharing {
    /// Serves until `end`; tells which flows are over and when.
    fn run_until(&mut self, end: f64, mut over: impl FnMut(usize, f64)) {
        while let Some(Reverse(first)) = self.present.peek() {
            let flows = self.present.len() as f64;
            let at = self.now + (first.until - self.each) * flows;
            if at > end {
                self.each += (end - self.now) / flows;
                break;
            }
            over(first.number, at);
            (self.now, self.each) = (at, first.until);
            self.present.pop();
        }
        self.now = end;
    }
}

/// A flow being served until [`Sharing::each`] is `until`.
#[derive(PartialEq)]
struct Present {
    until: f64,
    number: usize,
}

impl Eq for Present {}

impl PartialOrd for Present {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Present {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.until.total_cmp(&other.until).then(self.number.cmp(&other.number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RATE: Rate = Rate::from_gbit_per_sec(10);

    fn us(us: u64) -> Instant {
        Instant::ZERO.after(Span::from_us(us))
    }

    fn flow(arrival_us: u64, bytes: u64) -> FluidFlow {
        FluidFlow { arrival: us(arrival_us), bytes }
    }

    /// 10 Gbit/s carry 1250 bytes per microsecond. Two flows of 12.5 kB from 0 and one of 5 kB from 6 us on: until then
    /// the two have had 3 us each, the third needs 4 us of its own, which take 12; by 18 us each of the two lacks 3 us,
    /// which take 6.
    #[test]
    fn equal_rates_for_all_present() {
        let idle = Leftover::new(RATE, []);
        let over = idle.processor_sharing(&[flow(0, 12_500), flow(0, 12_500), flow(6, 5000)]);
        assert_eq!(over, [us(24), us(24), us(18)]);
        assert_eq!(idle.alone(flow(6, 5000)), us(10));
    }

    /// The higher class transmits in [5, 15) and [20, 21) us: a flow of 10 us from 2 us on gets 3, 5 and 2 us.
    #[test]
    fn higher_classes_go_first() {
        let busy = Leftover::new(RATE, [(us(5), us(15)), (us(20), us(21))]);
        assert_eq!(busy.alone(flow(2, 12_500)), us(23));
        assert_eq!(busy.alone(flow(2, 10_000)), us(20), "it is over when the higher class begins, not when that ends");
        assert_eq!(busy.alone(flow(7, 1250)), us(16), "it waits for the end");
        assert_eq!(busy.processor_sharing(&[flow(2, 12_500)]), [us(23)]);
    }

    proptest! {
        /// Processor sharing does no work twice and leaves none undone: the last flow of a busy period is over when the
        /// work of all is done, and no flow is over before it could be alone.
        #[test]
        fn work_is_conserved(
            gaps in prop::collection::vec((1u64..20_000_000, 1u64..10_000_000), 0..40),
            flows in prop::collection::vec((0u64..30_000_000, 64u64..100_000), 1..30),
        ) {
            let mut at = Instant::ZERO;
            let busy = gaps.into_iter().map(|(gap, length)| {
                let start = at.after(Span::from_ps(gap));
                at = start.after(Span::from_ps(length));
                (start, at)
            });
            let left = Leftover::new(RATE, busy);
            let mut arrival = Instant::ZERO;
            let flows: Vec<FluidFlow> = flows
                .into_iter()
                .map(|(gap, bytes)| {
                    arrival = arrival.after(Span::from_ps(gap));
                    FluidFlow { arrival, bytes }
                })
                .collect();
            let over = left.processor_sharing(&flows);
            for (flow, over) in flows.iter().zip(&over) {
                prop_assert!(over.after(Span::from_ps(2)) >= left.alone(*flow));
            }
            // First come, first served keeps the link as busy.
            let mut done = Instant::ZERO;
            for flow in &flows {
                done = left.alone(FluidFlow { arrival: flow.arrival.max(done), bytes: flow.bytes });
            }
            let last = *over.iter().max().expect("there are flows");
            prop_assert!(last.since(done).max(done.since(last)) < Span::from_ns(1), "{} {}", last, done);
        }
    }
}
