//! Random ordered pairs of different hosts, and what share of them uses which link.

use std::collections::BTreeMap;

use pliant_proto::rng::Stream;

use super::context::Context;
use super::error::TrafficError;
use super::hosts::HostSet;

/// Uniform over all ordered pairs of a source and a different destination, of another rack if so asked.
#[derive(Debug)]
pub(super) struct Pairs {
    sources: Vec<u32>,
    destinations: Vec<u32>,
    /// The rack of each host.
    racks: Vec<u32>,
    inter_rack: bool,
}

/// Shares of all flows that hosts send, and that hosts receive.
pub(super) type HostShares = (Vec<(u32, f64)>, Vec<(u32, f64)>);

/// Shares of all pairs that cross a link.
pub(super) struct LinkShares {
    /// Largest share of pairs with one host in common, and that host, as a sender or as a receiver.
    pub(super) busiest_host: f64,
    pub(super) host: u32,
    pub(super) sends: bool,
    /// Share of pairs in different racks.
    pub(super) inter_rack: f64,
}

impl Pairs {
    pub(super) fn new(
        context: &Context<'_>,
        sources: Option<&HostSet>,
        destinations: Option<&HostSet>,
        inter_rack: bool,
    ) -> Result<Self, TrafficError> {
        let pairs = Self {
            sources: context.hosts("sources", sources)?,
            destinations: context.hosts("destinations", destinations)?,
            racks: context.fabric().racks.clone(),
            inter_rack,
        };
        let partners = pairs.partners(&pairs.sources, &pairs.destinations, inter_rack);
        if partners.iter().any(|count| *count > 0) {
            Ok(pairs)
        } else if inter_rack {
            Err(context.error("inter_rack", "no source and destination are in different racks"))
        } else {
            Err(context.error("destinations", "no source has a destination other than itself"))
        }
    }

    /// Draws a pair. Refused draws are repeated: at least one pair exists.
    pub(super) fn draw(&self, stream: &mut Stream) -> (u32, u32) {
        loop {
            let source = self.sources[stream.below(self.sources.len() as u64) as usize];
            let destination = self.destinations[stream.below(self.destinations.len() as u64) as usize];
            let same_rack = self.racks[source as usize] == self.racks[destination as usize];
            if source != destination && !(self.inter_rack && same_rack) {
                return (source, destination);
            }
        }
    }

    pub(super) fn link_shares(&self) -> LinkShares {
        let receivers = self.partners(&self.sources, &self.destinations, self.inter_rack);
        let senders = self.partners(&self.destinations, &self.sources, self.inter_rack);
        let total = receivers.iter().sum::<u64>() as f64;
        let crossing = self.partners(&self.sources, &self.destinations, true).iter().sum::<u64>() as f64;
        let (sending, receiving) = (busiest(&self.sources, &receivers), busiest(&self.destinations, &senders));
        let sends = sending.1 >= receiving.1;
        let (host, count) = if sends { sending } else { receiving };
        LinkShares { busiest_host: count as f64 / total, host, sends, inter_rack: crossing / total }
    }

    /// Share of all pairs that each source has, and each destination.
    pub(super) fn host_shares(&self) -> HostShares {
        let shares = |hosts: &[u32], others: &[u32]| {
            let partners = self.partners(hosts, others, self.inter_rack);
            let total = partners.iter().sum::<u64>() as f64;
            hosts.iter().zip(partners).map(|(&host, count)| (host, count as f64 / total)).collect()
        };
        (shares(&self.sources, &self.destinations), shares(&self.destinations, &self.sources))
    }

    /// For each of `hosts`, the number of `others` it makes a pair with.
    fn partners(&self, hosts: &[u32], others: &[u32], inter_rack: bool) -> Vec<u64> {
        let mut in_rack = BTreeMap::<u32, u64>::new();
        let mut is_other = vec![false; self.racks.len()];
        for &other in others {
            *in_rack.entry(self.racks[other as usize]).or_default() += 1;
            is_other[other as usize] = true;
        }
        let excluded = |host: u32| {
            if inter_rack {
                in_rack.get(&self.racks[host as usize]).copied().unwrap_or(0)
            } else {
                u64::from(is_other[host as usize])
            }
        };
        hosts.iter().map(|&host| others.len() as u64 - excluded(host)).collect()
    }
}

/// The first host with the largest count.
fn busiest(hosts: &[u32], counts: &[u64]) -> (u32, u64) {
    hosts.iter().copied().zip(counts.iter().copied()).rev().max_by_key(|(_, count)| *count).expect("sets are not empty")
}
