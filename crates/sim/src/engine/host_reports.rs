//! Hosts that tell each other which rate is fair on their links ([`pliant_proto::host::fair_rates`]).
//!
//! Reports take an interval to arrive, and cost nothing here. A real one is a datagram with 16 bytes.

use std::collections::BTreeMap;

use pliant_proto::host::fair_rates::{FairRates, FlowCounts};
use pliant_proto::time::{Instant, Span};
use pliant_proto::units::Rate;

use crate::topology::LinkId;

/// All links of hosts that have flows, each by its direction up; a host with several links is as many hosts.
pub(super) struct HostReports {
    interval: Span,
    told_groups: Vec<bool>,
    hosts: BTreeMap<LinkId, FairRates<LinkId>>,
}

/// A flow under way: its slot, its group, and the links of the hosts at its ends, which lead up from them.
pub(super) struct OpenFlow {
    pub(super) slot: u32,
    pub(super) group: u16,
    pub(super) from: LinkId,
    pub(super) to: LinkId,
}

impl HostReports {
    /// Hosts that report every `interval`. Flows are told whose group's number has `true`.
    pub(super) fn new(interval: Span, told_groups: Vec<bool>) -> Self {
        assert!(interval > Span::ZERO, "an interval takes time");
        Self { interval, told_groups, hosts: BTreeMap::new() }
    }

    pub(super) fn next_at(&self, now: Instant) -> Instant {
        now.after(self.interval)
    }

    /// Ends an interval: what is fair for each flow whose group is told, by slot.
    pub(super) fn exchange(
        &mut self,
        now: Instant,
        flows: &[OpenFlow],
        rate: impl Fn(LinkId) -> Rate,
    ) -> Vec<(u32, Rate)> {
        for host in flows.iter().flat_map(|flow| [flow.from, flow.to]) {
            self.hosts.entry(host).or_insert_with(|| FairRates::new(rate(host), rate(host.reverse())));
        }
        self.carry(now, flows);
        let (up, down) = (FlowCounts { up: 1, down: 0 }, FlowCounts { up: 0, down: 1 });
        for flow in flows {
            self.host(flow.from).count(now, flow.to, up);
            self.host(flow.to).count(now, flow.from, down);
        }
        self.hosts.values_mut().for_each(|host| host.end_interval(now));
        self.carry(now, flows);
        let is_told = |flow: &&OpenFlow| self.told_groups.get(usize::from(flow.group)).copied().unwrap_or(false);
        let told = flows.iter().filter(is_told);
        told.filter_map(|flow| Some((flow.slot, self.hosts[&flow.from].fair_rate(now, flow.to)?))).collect()
    }

    /// Brings the reports of hosts to those that they have flows with.
    fn carry(&mut self, now: Instant, flows: &[OpenFlow]) {
        for (host, peer) in flows.iter().flat_map(|flow| [(flow.from, flow.to), (flow.to, flow.from)]) {
            let report = self.hosts[&peer].report();
            self.host(host).hear(now, peer, report);
        }
    }

    fn host(&mut self, host: LinkId) -> &mut FairRates<LinkId> {
        self.hosts.get_mut(&host).expect("it was entered")
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
            // Even links lead up from the hosts, the next ones down to them.
            let rates: Vec<Rate> =
                (0..40).map(|_| Rate::from_gbit_per_sec([1, 10, 25, 40][below(4) as usize])).collect();
            let ends: Vec<[u32; 2]> = (0..=below(60)).map(|_| [2 * below(20), 2 * below(20)]).collect();
            let ends_of = |[from, to]: &[u32; 2]| (LinkId(*from), LinkId(*to));
            let flows: Vec<OpenFlow> = (0..)
                .zip(ends.iter().map(ends_of))
                .map(|(slot, (from, to))| OpenFlow { slot, group: 0, from, to })
                .collect();
            let mut reports = HostReports::new(Span::from_ms(1), vec![true]);
            let mut exchange = || reports.exchange(Instant::ZERO, &flows, |link| rates[link.index()]);
            let told = (0..40).map(|_| exchange()).last().unwrap();

            let capacities: Vec<f64> = rates.iter().map(|rate| rate.bits_per_sec() as f64).collect();
            let paths: Vec<Vec<usize>> = ends.iter().map(|[from, to]| vec![*from as usize, *to as usize + 1]).collect();
            let demand = |links| FlowDemand { links, weight: 1.0, demand: None };
            let fair = max_min(&capacities, &paths.iter().map(|path| demand(path.as_slice())).collect::<Vec<_>>());
            for ((slot, rate), fair) in told.into_iter().zip(fair) {
                let ratio = rate.bits_per_sec() as f64 / fair;
                assert!((0.999..1.001).contains(&ratio), "seed {seed}, flow {slot}: told {ratio} of its fair rate");
            }
        }
    }

    /// A flow is told nothing unless its group is, and counts all the same. A cable between hosts is a link of both.
    #[test]
    fn flows_that_are_not_told_count() {
        let flow = |slot, group| OpenFlow { slot, group, from: LinkId(2 * slot), to: LinkId(100) };
        let rate = |_| Rate::from_gbit_per_sec(10);
        let mut reports = HostReports::new(Span::from_ms(1), vec![false, true]);
        let flows = [flow(1, 0), flow(2, 1), flow(3, 7)];
        assert_eq!(reports.exchange(Instant::ZERO, &flows, rate), [(2, Rate::from_bits_per_sec(3_333_333_333))]);
        let cable = OpenFlow { slot: 4, group: 1, from: LinkId(50), to: LinkId(51) };
        assert_eq!(reports.exchange(Instant::ZERO, &[cable], rate), [(4, Rate::from_gbit_per_sec(10))]);
    }
}
