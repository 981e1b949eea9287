//! What flows got of their max-min fair rate, measured directly.
//!
//! Two yardsticks, both over the flows' own paths and links of known payload capacity:
//!
//! - the **fluid system**: the same arrivals, each served at its max-min fair rate until it has everything. It says
//!   when a flow would have completed had every flow, always, had exactly its fair rate.
//! - the **entitlement**: the fair rate among the flows that really were open, integrated over a flow's open time. It
//!   says how many bytes the flow should have had, given how long the others really took.
//!
//! A network whose flows always have their fair rates is the fluid system: there the two agree.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::fair_rates::{FairRates, Paths};

/// A flow of the fluid system.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct FluidFlow {
    /// When it comes, in any unit of time.
    pub arrival: f64,
    /// What it is to be served; infinite for a flow without an end.
    pub bytes: f64,
}

/// When each flow of the fluid system has been served; infinity for a flow without an end. Capacities are bytes per unit
/// of time.
pub fn fluid_completions(capacities: &[f64], paths: &Paths, flows: &[FluidFlow]) -> Vec<f64> {
    assert_eq!(flows.len(), paths.len(), "every flow has a path");
    let mut order: Vec<usize> = (0..flows.len()).collect();
    order.sort_by(|&a, &b| flows[a].arrival.total_cmp(&flows[b].arrival));
    let mut arrivals = order.into_iter().peekable();

    let mut service = Service::new(capacities, paths);
    let mut completions = vec![f64::INFINITY; flows.len()];
    // When a flow would complete at its rate of now; `NAN` before it comes and after it went. Entries of the queue
    // that say something else are out of date.
    let mut expected = vec![f64::NAN; flows.len()];
    let mut queue: BinaryHeap<Reverse<(Time, u32)>> = BinaryHeap::new();
    loop {
        while queue.peek().is_some_and(|Reverse((time, flow))| expected[*flow as usize] != time.0) {
            queue.pop();
        }
        let next_arrival = arrivals.peek().map(|&flow| flows[flow].arrival);
        let next_completion = queue.peek().map(|Reverse((time, _))| time.0);
        let Some(now) = [next_arrival, next_completion].into_iter().flatten().min_by(f64::total_cmp) else { break };
        while queue.peek().is_some_and(|Reverse((time, _))| time.0 <= now) {
            let Some(Reverse((_, flow))) = queue.pop() else { break };
            let flow = flow as usize;
            if expected[flow] == now {
                (expected[flow], completions[flow]) = (f64::NAN, now);
                service.close(flow, now);
            }
        }
        while let Some(flow) = arrivals.next_if(|&flow| flows[flow].arrival <= now) {
            service.open(flow, now);
        }
        service.refill(now);
        for &(flow, _) in &service.changed {
            let number = flow as usize;
            let left = (flows[number].bytes - service.served[number]).max(0.0);
            if left.is_finite() {
                expected[number] = now + left / service.rates.rate(number);
                queue.push(Reverse((Time(expected[number]), flow)));
            }
        }
    }
    completions
}

/// How much each flow was entitled to: its fair rate among the flows open at the same time, integrated from when it
/// opens to when it closes. Flows without a time (`None`) take no part. Capacities are bytes per unit of time.
pub fn entitlements(capacities: &[f64], paths: &Paths, open: &[Option<(f64, f64)>]) -> Vec<f64> {
    assert_eq!(open.len(), paths.len(), "every flow has a path");
    let mut changes: Vec<(Time, u32, bool)> = Vec::with_capacity(2 * open.len());
    for (flow, times) in open.iter().enumerate() {
        if let Some((opens, closes)) = times.filter(|(opens, closes)| opens < closes) {
            changes.extend([(Time(opens), flow as u32, true), (Time(closes), flow as u32, false)]);
        }
    }
    changes.sort_unstable();
    let mut service = Service::new(capacities, paths);
    for simultaneous in changes.chunk_by(|a, b| a.0 == b.0) {
        let now = simultaneous[0].0.0;
        for &(_, flow, opens) in simultaneous {
            if opens { service.open(flow as usize, now) } else { service.close(flow as usize, now) }
        }
        service.refill(now);
    }
    service.served
}

/// What flows have been served at their fair rates.
struct Service<'a> {
    rates: FairRates<'a>,
    /// Bytes of each flow, up to the last change of its rate, and when that was.
    served: Vec<f64>,
    since: Vec<f64>,
    /// Flows whose rates the last refill changed, and their rates before.
    changed: Vec<(u32, f64)>,
}

impl<'a> Service<'a> {
    fn new(capacities: &'a [f64], paths: &'a Paths) -> Self {
        let flows = paths.len();
        let rates = FairRates::new(capacities, paths);
        Self { rates, served: vec![0.0; flows], since: vec![0.0; flows], changed: Vec::new() }
    }

    fn open(&mut self, flow: usize, now: f64) {
        self.since[flow] = now;
        self.rates.open(flow);
    }

    fn close(&mut self, flow: usize, now: f64) {
        self.served[flow] += self.rates.rate(flow) * (now - self.since[flow]);
        self.rates.close(flow);
    }

    /// Brings rates up to date after flows came and went.
    fn refill(&mut self, now: f64) {
        self.changed.clear();
        self.rates.refill(&mut self.changed);
        for &(flow, before) in &self.changed {
            let flow = flow as usize;
            self.served[flow] += before * (now - self.since[flow]);
            self.since[flow] = now;
        }
    }
}

/// A time, ordered.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Time(f64);

impl Eq for Time {}

impl Ord for Time {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl PartialOrd for Time {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn paths(of_flows: &[&[u32]]) -> Paths {
        let mut paths = Paths::default();
        for path in of_flows {
            paths.push(path.iter().copied());
        }
        paths
    }

    fn fluid(arrival: f64, bytes: f64) -> FluidFlow {
        FluidFlow { arrival, bytes }
    }

    /// One link of 10: a flow of 100 from 0, one of 30 from 4. Alone until 4 the first has 40; both at 5 until the
    /// second is through at 10; the first, with 30 left, is through at 13.
    #[test]
    fn two_flows_overlap() {
        let paths = paths(&[&[0], &[0]]);
        assert_eq!(fluid_completions(&[10.0], &paths, &[fluid(0.0, 100.0), fluid(4.0, 30.0)]), [13.0, 10.0]);
        // In a network that starves the second flow until the first is through at 10, the first was entitled to
        // 40 + 30, the second, open until 13, to 30 + 30.
        assert_eq!(entitlements(&[10.0], &paths, &[Some((0.0, 10.0)), Some((4.0, 13.0))]), [70.0, 60.0]);
        assert_eq!(entitlements(&[10.0], &paths, &[None, Some((4.0, 13.0))]), [0.0, 90.0]);
    }

    /// Two links of 1: a long flow over both, one on each, all of 10 bytes. All have 1/2 until the flow of 4 bytes on
    /// the first link is through at 8; that frees nothing for the long flow, whose other link is still shared.
    #[test]
    fn parking_lot() {
        let paths = paths(&[&[0, 1], &[0], &[1]]);
        let flows = [fluid(0.0, 10.0), fluid(0.0, 4.0), fluid(0.0, 10.0)];
        assert_eq!(fluid_completions(&[1.0; 2], &paths, &flows), [20.0, 8.0, 20.0]);
    }

    /// A flow without an end takes its part and never completes; simultaneous flows complete together.
    #[test]
    fn endless_and_simultaneous_flows() {
        let paths = paths(&[&[0], &[0], &[0]]);
        let flows = [fluid(0.0, f64::INFINITY), fluid(1.0, 2.0), fluid(1.0, 2.0)];
        assert_eq!(fluid_completions(&[3.0], &paths, &flows), [f64::INFINITY, 3.0, 3.0]);
    }

    proptest! {
        /// In the fluid system every flow is served exactly what it is entitled to: every share is 1.
        #[test]
        fn the_fluid_system_gives_everyone_its_share(
            (capacities, flows) in prop::collection::vec(0.1..10.0f64, 1..8).prop_flat_map(|capacities| {
                let links = prop::sample::subsequence((0..capacities.len() as u32).collect::<Vec<_>>(), 1..=capacities.len());
                (Just(capacities), prop::collection::vec((links, 0.0..50.0f64, 0.1..100.0f64), 1..40))
            }),
        ) {
            let mut paths = Paths::default();
            for (links, ..) in &flows {
                paths.push(links.iter().copied());
            }
            let demands: Vec<_> = flows.iter().map(|&(_, arrival, bytes)| fluid(arrival, bytes)).collect();
            let completions = fluid_completions(&capacities, &paths, &demands);
            let open: Vec<_> = demands.iter().zip(&completions).map(|(flow, &end)| Some((flow.arrival, end))).collect();
            for (flow, entitled) in demands.iter().zip(entitlements(&capacities, &paths, &open)) {
                prop_assert!((entitled / flow.bytes - 1.0).abs() < 1e-6, "{} of {}", entitled, flow.bytes);
            }
        }
    }
}
