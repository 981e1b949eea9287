//! Poisson arrivals between uniformly random pairs.

use std::ops::Range;

use pliant_proto::rng::Stream;
use pliant_proto::time::Span;
use pliant_proto::units::Bytes;
use serde::{Deserialize, Serialize};

use super::context::Context;
use super::error::TrafficError;
use super::flow_spec::Arrival;
use super::hosts::HostSet;
use super::load::{LoadCounts, LoadOn};
use super::load::{LoadSpec, arrivals_per_second};
use super::pairs::Pairs;
use super::profile::LoadProfile;
use crate::workload::{Distribution, SizeRange};

/// Flows arrive as one Poisson process; the pair of each is uniform over ordered pairs of different hosts.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PoissonSpec {
    /// Mean load of the links that `load_on` names, above 0 and at most 1. Either this or `rate_per_s`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load: Option<f64>,
    /// Mean number of flows that arrive per second, above 0 and at most 1e12; may overload links.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_per_s: Option<f64>,
    /// A CSV file with the columns `time,factor`: the load, or rate, is so many times as high from each time of the run to the
    /// next. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// `"host-links"` (default) or `"uplinks"`.
    pub load_on: LoadOn,
    /// `"wire"` (default) or `"payload"`.
    pub load_counts: LoadCounts,
    /// Size of each flow: `"1MB"`, or `"2kB..200kB"` for a uniform one. Either this or `workload`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<SizeRange>,
    /// Name of a flow-size distribution, or the path of one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workload: Option<String>,
    /// Drops flows below this size, after the load is computed. A group of kind `remainder` has what is dropped: one
    /// load is split by size, small and large flows under different contracts. Default: none.
    #[serde(skip_serializing_if = "Option::is_none", with = "crate::units_serde::optional")]
    pub size_at_least: Option<Bytes>,
    /// Drops flows of this size and above, after the load is computed. Default: none.
    #[serde(skip_serializing_if = "Option::is_none", with = "crate::units_serde::optional")]
    pub size_below: Option<Bytes>,
    /// Hosts that send. Default: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sources: Option<HostSet>,
    /// Hosts that receive. Default: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destinations: Option<HostSet>,
    /// Only pairs in different racks. Default: false.
    pub inter_rack: bool,
    /// Flows arrive from here on. Default: 0s.
    #[serde(skip_serializing_if = "Option::is_none", with = "crate::units_serde::optional")]
    pub start: Option<Span>,
    /// Flows arrive before this. Default: the run's duration.
    #[serde(skip_serializing_if = "Option::is_none", with = "crate::units_serde::optional")]
    pub stop: Option<Span>,
    /// Most flows to start. Default: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flows: Option<u64>,
}

impl PoissonSpec {
    pub(super) fn load_spec(&self) -> LoadSpec {
        let Self { load, rate_per_s, load_on, load_counts, .. } = *self;
        LoadSpec { load, rate_per_s, load_on, load_counts }
    }

    /// The factors of its load by time.
    pub(super) fn profile(&self, context: &Context<'_>) -> Result<Option<LoadProfile>, TrafficError> {
        self.profile.as_ref().map(|file| LoadProfile::read(file, context)).transpose()
    }

    /// Sizes that are kept after the load is computed.
    pub(super) fn kept_sizes(&self) -> Range<u64> {
        self.size_at_least.map_or(0, |size| size.0)..self.size_below.map_or(u64::MAX, |size| size.0)
    }
}

/// The running generator.
#[derive(Debug)]
pub(super) struct Poisson {
    gaps: Stream,
    pair_choice: Stream,
    size_choice: Stream,
    pairs: Pairs,
    sizes: Distribution,
    /// Sizes that the group keeps, and whether this is the group, or the remainder.
    kept: Range<u64>,
    yields_kept: bool,
    mean_gap_ps: f64,
    /// How the rate follows the time.
    profile: Option<LoadProfile>,
    /// The last arrival: whole picoseconds and the fraction that the next gap carries.
    now_ps: u64,
    fraction: f64,
    stop_ps: u64,
    flows_left: u64,
}

impl Poisson {
    pub(super) fn new(spec: &PoissonSpec, context: &Context<'_>) -> Result<Self, TrafficError> {
        let window = context.window(spec.start, spec.stop)?;
        let pairs = Pairs::new(context, spec.sources.as_ref(), spec.destinations.as_ref(), spec.inter_rack)?;
        let sizes = context.sizes(spec.size, spec.workload.as_deref())?;
        let profile = spec.profile(context)?;
        let peak = profile.as_ref().map_or(1.0, LoadProfile::peak);
        let rate = arrivals_per_second(context, &spec.load_spec(), peak, &pairs, &sizes)?;
        let kept = spec.kept_sizes();
        if kept.is_empty() || kept.start > sizes.max_bytes() || kept.end <= sizes.quantile(0.0) {
            return Err(context.error("size_at_least", "no flow is of a size that is kept"));
        }
        Ok(Self {
            gaps: context.stream("gaps"),
            pair_choice: context.stream("pairs"),
            size_choice: context.stream("sizes"),
            pairs,
            sizes,
            kept,
            yields_kept: true,
            mean_gap_ps: 1e12 / rate,
            profile,
            now_ps: window.start,
            fraction: 0.0,
            stop_ps: window.end,
            flows_left: spec.flows.unwrap_or(u64::MAX),
        })
    }

    /// The flows that the group drops in place of those it keeps; `None` if it drops none.
    pub(super) fn into_remainder(self) -> Option<Self> {
        let drops = self.kept.start > self.sizes.quantile(0.0) || self.kept.end <= self.sizes.max_bytes();
        drops.then_some(Self { yields_kept: false, ..self })
    }

    fn advance(&mut self) {
        if let Some(profile) = &self.profile {
            self.now_ps = profile.after(self.now_ps, self.gaps.exponential(self.mean_gap_ps));
            return;
        }
        let gap = self.gaps.exponential(self.mean_gap_ps) + self.fraction;
        let whole = libm::floor(gap);
        self.fraction = gap - whole;
        self.now_ps = self.now_ps.saturating_add(whole as u64);
    }
}

impl Iterator for Poisson {
    type Item = Arrival;

    fn next(&mut self) -> Option<Arrival> {
        while self.flows_left > 0 {
            self.advance();
            if self.now_ps >= self.stop_ps {
                self.flows_left = 0;
                break;
            }
            let pair = self.pairs.draw(&mut self.pair_choice);
            let bytes = self.sizes.sample(&mut self.size_choice);
            let is_kept = self.kept.contains(&bytes);
            self.flows_left -= u64::from(is_kept);
            if is_kept == self.yields_kept {
                return Some(Arrival::new(self.now_ps, pair, bytes));
            }
        }
        None
    }
}
