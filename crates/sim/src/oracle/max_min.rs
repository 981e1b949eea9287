//! Weighted max-min fair rates by water-filling (Bertsekas and Gallager, Data Networks, section 6.5.2).
//!
//! The rate per unit of weight of all flows rises together; where a link is full its flows freeze. A demand is a private
//! link of the flow's own.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// One flow that wants a share.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct FlowDemand<'a> {
    /// The links it crosses, as indices of the capacities.
    pub links: &'a [usize],
    /// Its weight, above zero: rates at a shared bottleneck are in proportion to weights.
    pub weight: f64,
    /// Most it can use, in the unit of the capacities; `None` if it takes what it gets.
    pub demand: Option<f64>,
}

/// The max-min fair rate of each flow, in the unit of `capacities`; infinite for a flow without links and demand.
///
/// A link's rate includes headers: multiply by
/// [`goodput_ratio`](super::ideal_fct::Segmentation::goodput_ratio) before comparing with measured goodput.
pub fn max_min(capacities: &[f64], flows: &[FlowDemand]) -> Vec<f64> {
    assert!(flows.iter().all(|flow| flow.weight > 0.0 && flow.weight.is_finite()), "weights are above zero");
    let mut filling = Filling {
        limits: limits(capacities, flows),
        flows,
        rates: vec![f64::INFINITY; flows.len()],
        frozen: vec![false; flows.len()],
    };
    filling.run();
    filling.rates
}

/// A capacity and the flows that share it.
struct Limit {
    capacity: f64,
    flows: Vec<usize>,
}

/// The links, then a private link for each demand.
fn limits(capacities: &[f64], flows: &[FlowDemand]) -> Vec<Limit> {
    assert!(capacities.iter().all(|&capacity| capacity >= 0.0 && capacity.is_finite()), "capacities are finite");
    let mut limits: Vec<Limit> = capacities.iter().map(|&capacity| Limit { capacity, flows: Vec::new() }).collect();
    for (number, flow) in flows.iter().enumerate() {
        for &link in flow.links {
            limits[link].flows.push(number);
        }
    }
    for (number, flow) in flows.iter().enumerate() {
        if let Some(capacity) = flow.demand {
            assert!(capacity >= 0.0, "demands are not negative");
            limits.push(Limit { capacity, flows: vec![number] });
        }
    }
    limits
}

struct Filling<'a> {
    limits: Vec<Limit>,
    flows: &'a [FlowDemand<'a>],
    rates: Vec<f64>,
    frozen: Vec<bool>,
}

impl Filling<'_> {
    /// Freezes limits by rising level. Levels only rise as flows freeze, so a level that was queued is a lower bound:
    /// it is computed anew when its turn comes, and waits again if it is no longer the least.
    fn run(&mut self) {
        let mut queue: BinaryHeap<Reverse<Level>> =
            (0..self.limits.len()).filter_map(|limit| self.level(limit)).map(Reverse).collect();
        while let Some(Reverse(Level { limit, .. })) = queue.pop() {
            let Some(now) = self.level(limit) else { continue };
            if queue.peek().is_some_and(|Reverse(next)| *next < now) {
                queue.push(Reverse(now));
            } else {
                self.freeze(limit, now.rate_per_weight);
            }
        }
    }

    /// The rate per weight at which a limit's unfrozen flows fill it; `None` without such flows. Summed from scratch:
    /// subtracting would pile up rounding errors.
    fn level(&self, limit: usize) -> Option<Level> {
        let Limit { capacity, flows } = &self.limits[limit];
        let (mut left, mut weight) = (*capacity, 0.0);
        for &flow in flows {
            if self.frozen[flow] {
                left -= self.rates[flow];
            } else {
                weight += self.flows[flow].weight;
            }
        }
        (weight > 0.0).then(|| Level { rate_per_weight: left.max(0.0) / weight, limit })
    }

    fn freeze(&mut self, limit: usize, rate_per_weight: f64) {
        for &flow in &self.limits[limit].flows {
            if !self.frozen[flow] {
                self.frozen[flow] = true;
                self.rates[flow] = rate_per_weight * self.flows[flow].weight;
            }
        }
    }
}

/// When a limit fills; ordered by level, then by number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Level {
    pub(super) rate_per_weight: f64,
    pub(super) limit: usize,
}

impl Ord for Level {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.rate_per_weight.total_cmp(&other.rate_per_weight).then(self.limit.cmp(&other.limit))
    }
}

impl PartialOrd for Level {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Level {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Level {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn equal_flow(links: &[usize]) -> FlowDemand<'_> {
        FlowDemand { links, weight: 1.0, demand: None }
    }

    fn assert_close(rates: &[f64], expected: &[f64]) {
        assert_eq!(rates.len(), expected.len());
        let close = rates.iter().zip(expected).all(|(rate, expected)| (rate - expected).abs() < 1e-12);
        assert!(close, "{rates:?} instead of {expected:?}");
    }

    /// L1 = L2 = 10, L3 = 6: the flows of L3 get 2, the others share the rest of L1.
    #[test]
    fn three_links_six_flows() {
        let flows: [&[usize]; 6] = [&[0, 1], &[0], &[1, 2], &[2], &[2], &[0]];
        let rates = max_min(&[10.0, 10.0, 6.0], &flows.map(equal_flow));
        let third = 10.0 / 3.0;
        assert_close(&rates, &[third, third, 2.0, 2.0, 2.0, third]);
    }

    #[test]
    fn parking_lot_halves_every_link() {
        let flows: [&[usize]; 4] = [&[0, 1, 2], &[0], &[1], &[2]];
        assert_close(&max_min(&[1.0; 3], &flows.map(equal_flow)), &[0.5; 4]);
    }

    #[test]
    fn weights_divide_and_demands_cap() {
        let flow = |weight, demand| FlowDemand { links: &[0], weight, demand };
        assert_close(&max_min(&[12.0], &[flow(1.0, None), flow(2.0, None), flow(3.0, None)]), &[2.0, 4.0, 6.0]);
        assert_close(&max_min(&[12.0], &[flow(1.0, None), flow(2.0, None), flow(3.0, Some(3.0))]), &[3.0, 6.0, 3.0]);
        assert_close(&max_min(&[12.0], &[flow(1.0, Some(4.0)), flow(1.0, Some(5.0))]), &[4.0, 5.0]);
        assert_close(&max_min(&[12.0], &[flow(1.0, Some(0.0)), flow(1.0, None)]), &[0.0, 12.0]);
    }

    #[test]
    fn edges_of_the_definition() {
        assert!(max_min(&[1.0], &[]).is_empty());
        let free = FlowDemand { links: &[], weight: 1.0, demand: None };
        assert_eq!(max_min(&[1.0], &[free]), [f64::INFINITY]);
        assert_eq!(max_min(&[1.0], &[FlowDemand { demand: Some(2.0), ..free }]), [2.0]);
        assert_eq!(max_min(&[0.0, 1.0], &[equal_flow(&[0, 1]), equal_flow(&[1])]), [0.0, 1.0]);
    }

    type Network = (Vec<f64>, Vec<(Vec<usize>, f64, Option<f64>)>);

    fn networks() -> impl Strategy<Value = Network> {
        prop::collection::vec(0.1..100.0f64, 1..8).prop_flat_map(|capacities| {
            let links = prop::sample::subsequence((0..capacities.len()).collect::<Vec<_>>(), 1..=capacities.len());
            let flow = (links, 0.1..10.0f64, prop::option::of(0.0..50.0f64));
            (Just(capacities), prop::collection::vec(flow, 1..20))
        })
    }

    proptest! {
        /// The definition: no link is overloaded, and a flow below its demand crosses a full link on which no flow has
        /// a higher rate per weight.
        #[test]
        fn every_flow_has_a_bottleneck((capacities, flows) in networks()) {
            let flows: Vec<FlowDemand> = flows
                .iter()
                .map(|(links, weight, demand)| FlowDemand { links, weight: *weight, demand: *demand })
                .collect();
            let rates = max_min(&capacities, &flows);
            let crossing = |link| (0..flows.len()).filter(|&flow| flows[flow].links.contains(&link)).collect();
            let on: Vec<Vec<usize>> = (0..capacities.len()).map(crossing).collect();
            let load = |link: usize| on[link].iter().map(|&flow| rates[flow]).sum::<f64>();
            for (link, &capacity) in capacities.iter().enumerate() {
                prop_assert!(load(link) <= capacity * (1.0 + 1e-9));
            }
            for (number, flow) in flows.iter().enumerate() {
                let level = rates[number] / flow.weight;
                let bottleneck = flow.links.iter().any(|&link| {
                    load(link) >= capacities[link] * (1.0 - 1e-9)
                        && on[link].iter().all(|&other| rates[other] / flows[other].weight <= level * (1.0 + 1e-9))
                });
                let met = flow.demand.is_some_and(|demand| rates[number] >= demand * (1.0 - 1e-9));
                prop_assert!(flow.demand.is_none_or(|demand| rates[number] <= demand * (1.0 + 1e-9)));
                prop_assert!(bottleneck || met, "flow {} of {:?}", number, rates);
            }
        }
    }
}
