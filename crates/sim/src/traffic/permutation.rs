//! A random permutation: every host sends one flow and receives one.

use pliant_proto::rng::Stream;
use pliant_proto::time::Span;
use serde::{Deserialize, Serialize};

use super::context::Context;
use super::error::TrafficError;
use super::flow_spec::Arrival;
use super::hosts::HostSet;
use crate::workload::SizeRange;

/// One flow from each host to its image under a random permutation without a fixed point, all at the same instant.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PermutationSpec {
    /// The hosts that take part, at least two. Default: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hosts: Option<HostSet>,
    /// Size of each flow: `"1MB"`, or `"2kB..200kB"` for a uniform one. Default: flows have no end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<SizeRange>,
    /// Name of a flow-size distribution, or the path of one; in place of `size`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workload: Option<String>,
    /// When they start. Default: 0s.
    #[serde(skip_serializing_if = "Option::is_none", with = "crate::units_serde::optional")]
    pub start: Option<Span>,
}

pub(super) fn flows(spec: &PermutationSpec, context: &Context<'_>) -> Result<Vec<Arrival>, TrafficError> {
    let start = context.window(spec.start, None)?.start;
    let pairs = spec.pairs(context)?;
    let sizes = context.sizes_or_unlimited(spec.size, spec.workload.as_deref())?;
    let mut size_choice = context.stream("sizes");
    let flow = |pair| Arrival::new(start, pair, sizes.sample(&mut size_choice));
    Ok(pairs.into_iter().map(flow).collect())
}

impl PermutationSpec {
    /// Each host and its image.
    pub(super) fn pairs(&self, context: &Context<'_>) -> Result<Vec<(u32, u32)>, TrafficError> {
        let hosts = context.hosts("hosts", self.hosts.as_ref())?;
        if hosts.len() < 2 {
            return Err(context.error("hosts", "a permutation needs two hosts"));
        }
        let images = derangement(&hosts, &mut context.stream("permutation"));
        Ok(hosts.into_iter().zip(images).collect())
    }
}

/// Uniform over all permutations without a fixed point: shuffles until there is none, e times on average.
fn derangement(hosts: &[u32], stream: &mut Stream) -> Vec<u32> {
    let mut images = hosts.to_vec();
    loop {
        stream.shuffle(&mut images);
        if hosts.iter().zip(&images).all(|(host, image)| host != image) {
            return images;
        }
    }
}
