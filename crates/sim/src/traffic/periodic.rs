//! Periodic bursts: backups, checkpoints, updates of a training job.

use pliant_proto::rng::Stream;
use pliant_proto::time::Span;
use serde::{Deserialize, Serialize};

use super::context::Context;
use super::error::TrafficError;
use super::flow_spec::Arrival;
use super::hosts::HostSet;
use crate::workload::{Distribution, SizeRange};

/// Each source starts one flow, once or every period.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PeriodicSpec {
    /// Hosts that send. Default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sources: Option<HostSet>,
    /// Hosts that receive. Default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destinations: Option<HostSet>,
    /// Whom a source sends to: `"paired"` (default) or `"random"`.
    #[serde(default)]
    pub destination_choice: DestinationChoice,
    /// Size of each burst: `"1MB"`, or `"2kB..200kB"` for a uniform one. Either this or `workload`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<SizeRange>,
    /// Name of a flow-size distribution, or the path of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<String>,
    /// Time from one burst of a source to its next, above 0s. Default: a single burst of each.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "crate::units_serde::optional")]
    pub period: Option<Span>,
    /// Delay of each source behind the one before it, wrapped at the period if there is one. Default: 0s, all at once.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "crate::units_serde::optional")]
    pub stagger: Option<Span>,
    /// When the first burst starts: the phase. Default: 0s.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "crate::units_serde::optional")]
    pub start: Option<Span>,
    /// Bursts start before this. Default: the run's duration.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "crate::units_serde::optional")]
    pub stop: Option<Span>,
}

/// How a periodic source chooses its destination.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DestinationChoice {
    /// The source's place among the sources is its destination's place among the destinations, counted round; the next
    /// one if that is the source itself. With one destination all send to it.
    #[default]
    Paired,
    /// A random one for each burst.
    Random,
}

impl PeriodicSpec {
    /// Each source with the destination that is paired with it.
    pub(super) fn pairs(
        context: &Context<'_>,
        sources: &[u32],
        destinations: &[u32],
    ) -> Result<Vec<(u32, u32)>, TrafficError> {
        let pair = |(place, &source): (usize, &u32)| {
            let destination = (0..2)
                .map(|skip| destinations[(place + skip) % destinations.len()])
                .find(|destination| *destination != source)
                .ok_or_else(|| context.error("destinations", format!("host {source} has none but itself")))?;
            Ok((source, destination))
        };
        sources.iter().enumerate().map(pair).collect()
    }
}

/// The running generator.
#[derive(Debug)]
pub(super) struct Periodic {
    /// Offset within the period and pair of each source, by offset.
    bursts: Vec<(u64, (u32, u32))>,
    destinations: Vec<u32>,
    destination_choice: Option<Stream>,
    size_choice: Stream,
    sizes: Distribution,
    period_ps: Option<u64>,
    /// Start of the round under way; `None` after the last one.
    round_ps: Option<u64>,
    stop_ps: u64,
    next: usize,
}

impl Periodic {
    pub(super) fn new(spec: &PeriodicSpec, context: &Context<'_>) -> Result<Self, TrafficError> {
        let window = context.window(spec.start, spec.stop)?;
        let period_ps = spec.period.map(|period| context.period(period)).transpose()?;
        let stagger_ps = u128::from(spec.stagger.unwrap_or(Span::ZERO).as_ps());
        let sources = context.hosts("sources", spec.sources.as_ref())?;
        let destinations = context.hosts("destinations", spec.destinations.as_ref())?;
        let random = spec.destination_choice == DestinationChoice::Random;
        let mut bursts = Vec::with_capacity(sources.len());
        for (place, pair) in PeriodicSpec::pairs(context, &sources, &destinations)?.into_iter().enumerate() {
            let behind = place as u128 * stagger_ps;
            let offset = period_ps.map_or(behind, |period| behind % u128::from(period));
            let offset = u64::try_from(offset).unwrap_or(u64::MAX);
            bursts.push((offset, pair));
        }
        bursts.sort_by_key(|(offset, _)| *offset);
        Ok(Self {
            bursts,
            destinations,
            destination_choice: random.then(|| context.stream("destinations")),
            size_choice: context.stream("sizes"),
            sizes: context.sizes(spec.size, spec.workload.as_deref())?,
            period_ps,
            round_ps: Some(window.start),
            stop_ps: window.end,
            next: 0,
        })
    }
}

impl Iterator for Periodic {
    type Item = Arrival;

    fn next(&mut self) -> Option<Arrival> {
        if self.next == self.bursts.len() {
            self.next = 0;
            let now = self.round_ps?;
            self.round_ps = self.period_ps.and_then(|period| now.checked_add(period));
        }
        let (offset, (source, paired)) = self.bursts[self.next];
        let start = self.round_ps?.saturating_add(offset);
        if start >= self.stop_ps {
            return None;
        }
        self.next += 1;
        let destination = match &mut self.destination_choice {
            Some(stream) => another(source, &self.destinations, stream),
            None => paired,
        };
        Some(Arrival::new(start, (source, destination), self.sizes.sample(&mut self.size_choice)))
    }
}

/// A random one of `hosts` other than `host`; there is one.
fn another(host: u32, hosts: &[u32], stream: &mut Stream) -> u32 {
    loop {
        let drawn = hosts[stream.below(hosts.len() as u64) as usize];
        if drawn != host {
            return drawn;
        }
    }
}
