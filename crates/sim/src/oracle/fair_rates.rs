//! Max-min fair rates that follow flows as they come and go.
//!
//! The rates are those of [`max_min`](super::max_min::max_min) for equal weights and no demands. A flow that comes or
//! goes can change only the rates of flows that share a link with it, directly or through others, so only these are
//! filled anew: the cost of a change does not grow with the network.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::max_min::Level;

/// The links that each flow crosses.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Paths {
    links: Vec<u32>,
    ends: Vec<usize>,
}

impl Paths {
    /// Adds the path of the next flow: at least one link, none twice.
    pub fn push(&mut self, path: impl IntoIterator<Item = u32>) {
        let before = self.links.len();
        self.links.extend(path);
        assert!(self.links.len() > before, "a flow crosses a link");
        self.ends.push(self.links.len());
    }

    /// The links that a flow crosses.
    pub fn of(&self, flow: usize) -> &[u32] {
        let start = flow.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.links[start..self.ends[flow]]
    }

    /// Number of flows.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are no flows.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }
}

/// The max-min fair rates of the flows that are open.
#[derive(Debug)]
pub struct FairRates<'a> {
    capacities: &'a [f64],
    paths: &'a Paths,
    /// The rate of each flow; zero while it is not open.
    rates: Vec<f64>,
    /// Open flows on each link.
    flows_on: Vec<Vec<u32>>,
    /// Links whose flows came or went since the last filling.
    touched: Vec<u32>,
    filling: Filling,
}

/// What one filling works with. Marks hold the number of the filling that set them, so none need be cleared.
#[derive(Debug)]
struct Filling {
    number: u32,
    links: Vec<u32>,
    flows: u32,
    link_marks: Vec<u32>,
    flow_marks: Vec<u32>,
    frozen_marks: Vec<u32>,
    /// Capacity that a link still has for the flows that wait, and how many wait.
    left: Vec<f64>,
    waiting: Vec<u32>,
    levels: BinaryHeap<Reverse<Level>>,
}

impl<'a> FairRates<'a> {
    /// No flow of `paths` is open. Capacities are above zero, in any unit, which is that of the rates.
    pub fn new(capacities: &'a [f64], paths: &'a Paths) -> Self {
        assert!(capacities.iter().all(|&capacity| capacity > 0.0 && capacity.is_finite()), "capacities are above zero");
        let (links, flows) = (capacities.len(), paths.len());
        let filling = Filling {
            number: 0,
            links: Vec::new(),
            flows: 0,
            link_marks: vec![0; links],
            flow_marks: vec![0; flows],
            frozen_marks: vec![0; flows],
            left: vec![0.0; links],
            waiting: vec![0; links],
            levels: BinaryHeap::new(),
        };
        let flows_on = vec![Vec::new(); links];
        Self { capacities, paths, rates: vec![0.0; flows], flows_on, touched: Vec::new(), filling }
    }

    /// A flow comes. Rates change at [`Self::refill`].
    pub fn open(&mut self, flow: usize) {
        for &link in self.paths.of(flow) {
            self.flows_on[link as usize].push(flow as u32);
        }
        self.touched.extend_from_slice(self.paths.of(flow));
    }

    /// An open flow goes. Its own rate is zero at once, others change at [`Self::refill`].
    pub fn close(&mut self, flow: usize) {
        for &link in self.paths.of(flow) {
            let flows = &mut self.flows_on[link as usize];
            let place = flows.iter().position(|&other| other == flow as u32).expect("only an open flow is closed");
            flows.swap_remove(place);
        }
        self.touched.extend_from_slice(self.paths.of(flow));
        self.rates[flow] = 0.0;
    }

    /// The rate of a flow as of the last filling.
    pub fn rate(&self, flow: usize) -> f64 {
        self.rates[flow]
    }

    /// Brings all rates up to date; tells each flow whose rate changed, and the rate before.
    pub fn refill(&mut self, changed: &mut Vec<(u32, f64)>) {
        self.gather();
        self.fill(changed);
    }

    /// Finds the links that flows connect with those touched.
    fn gather(&mut self) {
        let Filling { number, links, flows, link_marks, flow_marks, left, waiting, levels, .. } = &mut self.filling;
        *number += 1;
        links.clear();
        *flows = 0;
        for link in self.touched.drain(..) {
            if std::mem::replace(&mut link_marks[link as usize], *number) != *number {
                links.push(link);
            }
        }
        let mut next = 0;
        while let Some(&number_of_link) = links.get(next) {
            next += 1;
            let link = number_of_link as usize;
            for &flow in &self.flows_on[link] {
                if std::mem::replace(&mut flow_marks[flow as usize], *number) == *number {
                    continue;
                }
                *flows += 1;
                for &other in self.paths.of(flow as usize) {
                    if std::mem::replace(&mut link_marks[other as usize], *number) != *number {
                        links.push(other);
                    }
                }
            }
            (left[link], waiting[link]) = (self.capacities[link], self.flows_on[link].len() as u32);
            if waiting[link] > 0 {
                let rate_per_weight = left[link] / f64::from(waiting[link]);
                levels.push(Reverse(Level { rate_per_weight, limit: link }));
            }
        }
    }

    /// Freezes links by rising level. Levels only rise as flows freeze, so a level that was queued is a lower bound.
    fn fill(&mut self, changed: &mut Vec<(u32, f64)>) {
        let Filling { number, flows, frozen_marks, left, waiting, levels, .. } = &mut self.filling;
        while *flows > 0 {
            let Reverse(Level { limit: link, .. }) = levels.pop().expect("every waiting flow is on a queued link");
            if waiting[link] == 0 {
                continue;
            }
            let now = Level { rate_per_weight: left[link].max(0.0) / f64::from(waiting[link]), limit: link };
            if levels.peek().is_some_and(|Reverse(next)| *next < now) {
                levels.push(Reverse(now));
                continue;
            }
            for &flow in &self.flows_on[link] {
                if std::mem::replace(&mut frozen_marks[flow as usize], *number) == *number {
                    continue;
                }
                let before = std::mem::replace(&mut self.rates[flow as usize], now.rate_per_weight);
                if before != now.rate_per_weight {
                    changed.push((flow, before));
                }
                *flows -= 1;
                for &other in self.paths.of(flow as usize) {
                    left[other as usize] -= now.rate_per_weight;
                    waiting[other as usize] -= 1;
                }
            }
        }
        levels.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::max_min::{FlowDemand, max_min};
    use proptest::prelude::*;

    fn paths(of_flows: &[Vec<usize>]) -> Paths {
        let mut paths = Paths::default();
        for path in of_flows {
            paths.push(path.iter().map(|&link| link as u32));
        }
        paths
    }

    /// Three links of 1, a long flow over all and one flow on each: 1/2 each; without the flow on the first link the
    /// long flow gains nothing; without any of the short ones it has all.
    #[test]
    fn parking_lot() {
        let (capacities, paths) = ([1.0; 3], paths(&[vec![0, 1, 2], vec![0], vec![1], vec![2]]));
        let mut rates = FairRates::new(&capacities, &paths);
        let mut changed = Vec::new();
        for flow in 0..4 {
            rates.open(flow);
        }
        rates.refill(&mut changed);
        assert_eq!((0..4).map(|flow| rates.rate(flow)).collect::<Vec<_>>(), [0.5; 4]);
        assert_eq!(changed.len(), 4);
        changed.clear();
        rates.close(1);
        rates.refill(&mut changed);
        assert_eq!((changed.as_slice(), rates.rate(0), rates.rate(1)), (&[][..], 0.5, 0.0));
        rates.close(2);
        rates.close(3);
        rates.refill(&mut changed);
        assert_eq!((changed.as_slice(), rates.rate(0)), (&[(0, 0.5)][..], 1.0));
    }

    proptest! {
        /// Whatever comes and goes, the rates are those that the whole network filled from scratch would give, and no
        /// link carries more than its capacity.
        #[test]
        fn follow_the_reference(
            (capacities, flows) in prop::collection::vec(0.1..100.0f64, 1..8).prop_flat_map(|capacities| {
                let links = prop::sample::subsequence((0..capacities.len()).collect::<Vec<_>>(), 1..=capacities.len());
                (Just(capacities), prop::collection::vec(links, 1..20))
            }),
            steps in prop::collection::vec(prop::collection::vec(any::<prop::sample::Index>(), 0..4), 1..30),
        ) {
            let paths = paths(&flows);
            let mut rates = FairRates::new(&capacities, &paths);
            let mut open = vec![false; flows.len()];
            let mut changed = Vec::new();
            for step in steps {
                for flow in step {
                    let flow = flow.index(flows.len());
                    open[flow] = !open[flow];
                    if open[flow] { rates.open(flow) } else { rates.close(flow) }
                }
                rates.refill(&mut changed);
                let numbers: Vec<usize> = (0..flows.len()).filter(|&flow| open[flow]).collect();
                let demand = |&flow: &usize| FlowDemand { links: &flows[flow], weight: 1.0, demand: None };
                let expected = max_min(&capacities, &numbers.iter().map(demand).collect::<Vec<_>>());
                for (&flow, expected) in numbers.iter().zip(expected) {
                    prop_assert!((rates.rate(flow) / expected - 1.0).abs() < 1e-9, "flow {}", flow);
                }
                for (link, &capacity) in capacities.iter().enumerate() {
                    let load: f64 = (0..flows.len()).filter(|&flow| flows[flow].contains(&link)).map(|flow| rates.rate(flow)).sum();
                    prop_assert!(load <= capacity * (1.0 + 1e-9));
                }
            }
        }
    }
}
