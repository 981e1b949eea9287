//! Hosts that tell each other which rate is fair on their links ([`pliant_proto::transport::two_class::host_link`]).
//!
//! Reports take an interval to arrive, ride on packets that are sent anyway, and cost nothing here. A real one takes eight bytes.

use std::collections::BTreeMap;

use pliant_proto::time::{Instant, Span};
use pliant_proto::transport::two_class::host_link::HostLink;
use pliant_proto::units::Rate;

/// The links of all hosts that have flows, by the links' numbers.
pub(super) struct HostReports {
    interval: Span,
    told_groups: Vec<bool>,
    links: BTreeMap<u32, HostLink>,
}

/// A flow under way: its slot, its group, and the first and the last link of its path with their rates.
pub(super) struct OpenFlow {
    pub(super) slot: u32,
    pub(super) group: u16,
    pub(super) ends: [(u32, Rate); 2],
}

impl HostReports {
    /// Hosts that report every `interval`. Flows are told whose group's number has `true`.
    pub(super) fn new(interval: Span, told_groups: Vec<bool>) -> Self {
        assert!(interval > Span::ZERO, "an interval takes time");
        Self { interval, told_groups, links: BTreeMap::new() }
    }

    pub(super) fn next_at(&self, now: Instant) -> Instant {
        now.after(self.interval)
    }

    /// Ends an interval: what is fair for each flow whose group is told, by slot.
    pub(super) fn exchange(&mut self, flows: &[OpenFlow]) -> Vec<(u32, Rate)> {
        for flow in flows {
            let ends = flow.ends.map(|(link, rate)| {
                let new = || HostLink::new(rate.bits_per_sec() as f64);
                (link, self.links.entry(link).or_insert_with(new).level())
            });
            let [(up, of_up), (down, of_down)] = ends;
            let mut count = |link, other| self.links.get_mut(&link).expect("it was entered").count(other);
            if up == down {
                count(up, f64::INFINITY);
            } else {
                count(up, of_down);
                count(down, of_up);
            }
        }
        self.links.values_mut().for_each(HostLink::end_interval);
        let is_told = |flow: &&OpenFlow| self.told_groups.get(usize::from(flow.group)).copied().unwrap_or(false);
        let fair = |flow: &OpenFlow| {
            let level = |(link, _): (u32, Rate)| self.links[&link].level();
            let fair = level(flow.ends[0]).min(level(flow.ends[1]));
            (flow.slot, Rate::from_bits_per_sec(fair as u64))
        };
        flows.iter().filter(is_told).map(fair).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::max_min::{FlowDemand, max_min};
    use pliant_proto::rng::Stream;

    /// In random networks whose bottlenecks are hosts' links, a few reports tell each flow its max-min fair rate: 20 hosts, links of four
    /// speeds, 1 to 60 flows between random hosts. Each interval settles at least the bottlenecks of the next level.
    #[test]
    fn reports_tell_the_max_min_fair_rates() {
        for seed in 0..200 {
            let mut random = Stream::named(seed, "reports");
            let mut below = |bound: u32| (random.unit() * f64::from(bound)) as u32;
            // Links 0 to 19 lead up from the hosts, the others down to them.
            let rates: Vec<Rate> =
                (0..40).map(|_| Rate::from_gbit_per_sec([1, 10, 25, 40][below(4) as usize])).collect();
            let ends: Vec<[u32; 2]> = (0..=below(60)).map(|_| [below(20), 20 + below(20)]).collect();
            let of_links = |ends: &[u32; 2]| ends.map(|link| (link, rates[link as usize]));
            let flows: Vec<OpenFlow> =
                (0..).zip(&ends).map(|(slot, ends)| OpenFlow { slot, group: 0, ends: of_links(ends) }).collect();
            let mut reports = HostReports::new(Span::from_ms(1), vec![true]);
            let told = (0..40).map(|_| reports.exchange(&flows)).last().unwrap();

            let capacities: Vec<f64> = rates.iter().map(|rate| rate.bits_per_sec() as f64).collect();
            let paths: Vec<Vec<usize>> = ends.iter().map(|ends| ends.map(|link| link as usize).to_vec()).collect();
            let demand = |links| FlowDemand { links, weight: 1.0, demand: None };
            let fair = max_min(&capacities, &paths.iter().map(|path| demand(path.as_slice())).collect::<Vec<_>>());
            for ((slot, rate), fair) in told.into_iter().zip(fair) {
                let ratio = rate.bits_per_sec() as f64 / fair;
                assert!((0.999..1.001).contains(&ratio), "seed {seed}, flow {slot}: told {ratio} of its fair rate");
            }
        }
    }

    /// A flow is told nothing unless its group is, and counts all the same. The two ends of a cable between hosts are one link.
    #[test]
    fn flows_that_are_not_told_count() {
        let link = |number| (number, Rate::from_gbit_per_sec(10));
        let flow = |slot, group| OpenFlow { slot, group, ends: [link(slot), link(9)] };
        let mut reports = HostReports::new(Span::from_ms(1), vec![false, true]);
        let flows = [flow(1, 0), flow(2, 1), flow(3, 7)];
        assert_eq!(reports.exchange(&flows), [(2, Rate::from_bits_per_sec(3_333_333_333))]);
        let cable = OpenFlow { slot: 4, group: 1, ends: [link(5), link(5)] };
        assert_eq!(reports.exchange(&[cable]), [(4, Rate::from_gbit_per_sec(10))]);
    }
}
