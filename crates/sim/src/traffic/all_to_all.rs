//! All to all: the shuffle phase of batch jobs, and collectives.

use pliant_proto::rng::Stream;
use pliant_proto::time::Span;
use serde::{Deserialize, Serialize};

use super::context::Context;
use super::error::TrafficError;
use super::flow_spec::Arrival;
use super::hosts::HostSet;
use crate::workload::{Distribution, SizeRange};

/// Every host starts one flow to every other, all at the same instant, once or every period.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AllToAllSpec {
    /// The hosts that take part, at least two. Default: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hosts: Option<HostSet>,
    /// Size of each flow: `"1MB"`, or `"2kB..200kB"` for a uniform one. Either this or `workload`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<SizeRange>,
    /// Name of a flow-size distribution, or the path of one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workload: Option<String>,
    /// Time from one round to the next, above 0s. Default: a single round.
    #[serde(skip_serializing_if = "Option::is_none", with = "crate::units_serde::optional")]
    pub period: Option<Span>,
    /// When the first round starts. Default: 0s.
    #[serde(skip_serializing_if = "Option::is_none", with = "crate::units_serde::optional")]
    pub start: Option<Span>,
    /// Rounds start before this. Default: the run's duration.
    #[serde(skip_serializing_if = "Option::is_none", with = "crate::units_serde::optional")]
    pub stop: Option<Span>,
}

/// The running generator.
#[derive(Debug)]
pub(super) struct AllToAll {
    hosts: Vec<u32>,
    size_choice: Stream,
    sizes: Distribution,
    period_ps: Option<u64>,
    round_ps: Option<u64>,
    stop_ps: u64,
    /// Distance from source to destination in `hosts`, and the source's place: no receiver is first everywhere.
    shift: usize,
    place: usize,
}

impl AllToAll {
    pub(super) fn new(spec: &AllToAllSpec, context: &Context<'_>) -> Result<Self, TrafficError> {
        let window = context.window(spec.start, spec.stop)?;
        let hosts = context.hosts("hosts", spec.hosts.as_ref())?;
        if hosts.len() < 2 {
            return Err(context.error("hosts", "all to all needs two hosts"));
        }
        Ok(Self {
            hosts,
            size_choice: context.stream("sizes"),
            sizes: context.sizes(spec.size, spec.workload.as_deref())?,
            period_ps: spec.period.map(|period| context.period(period)).transpose()?,
            round_ps: Some(window.start),
            stop_ps: window.end,
            shift: 1,
            place: 0,
        })
    }

    fn advance(&mut self, now: u64) {
        self.place += 1;
        if self.place == self.hosts.len() {
            (self.place, self.shift) = (0, self.shift + 1);
        }
        if self.shift == self.hosts.len() {
            self.shift = 1;
            self.round_ps = self.period_ps.and_then(|period| now.checked_add(period));
        }
    }
}

impl Iterator for AllToAll {
    type Item = Arrival;

    fn next(&mut self) -> Option<Arrival> {
        let now = self.round_ps.filter(|now| *now < self.stop_ps)?;
        let destination = self.hosts[(self.place + self.shift) % self.hosts.len()];
        let bytes = self.sizes.sample(&mut self.size_choice);
        let flow = Arrival::new(now, (self.hosts[self.place], destination), bytes);
        self.advance(now);
        Some(flow)
    }
}
