//! Duplicate-aware scheduling: a second server answers every request too (Bashir et al., DAS, CoNEXT 2019).

use pliant_proto::rng::Stream;
use serde::{Deserialize, Serialize};

use super::context::Context;
use super::error::TrafficError;
use super::flow_spec::Arrival;
use super::hosts::HostSet;

/// Every flow of another group once more: at the same instant, of the same size, to the same destination, from another
/// source. Neither of the two is ever cancelled.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DuplicatesSpec {
    /// The group whose flows are sent again.
    pub of: String,
    /// Hosts that send: for each flow a random one other than the flow's own two. Default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sources: Option<HostSet>,
}

/// The running generator: the other group's, a second time, with other sources.
#[derive(Debug)]
pub(super) struct Duplicates<G> {
    originals: G,
    sources: Vec<u32>,
    source_choice: Stream,
}

impl<G: Iterator<Item = Arrival>> Duplicates<G> {
    /// `originals` makes the generator of the group whose flows are sent again.
    pub(super) fn new(
        spec: &DuplicatesSpec,
        context: &Context<'_>,
        originals: impl Fn() -> Result<G, TrafficError>,
    ) -> Result<Self, TrafficError> {
        let sources = context.hosts("sources", spec.sources.as_ref())?;
        // Three sources always leave one; fewer are looked at flow by flow.
        let without_other = |flow: &Arrival| !sources.iter().any(|&host| is_other(host, flow));
        if sources.len() < 3
            && let Some(flow) = originals()?.find(without_other)
        {
            let (from, to) = (flow.source, flow.destination);
            return Err(
                context.error("sources", format!("no host is left for a duplicate of a flow from {from} to {to}"))
            );
        }
        Ok(Self { originals: originals()?, sources, source_choice: context.stream("sources") })
    }

    pub(super) fn originals(&self) -> &G {
        &self.originals
    }
}

/// Whether `host` is neither end of `flow`.
fn is_other(host: u32, flow: &Arrival) -> bool {
    host != flow.source && host != flow.destination
}

impl<G: Iterator<Item = Arrival>> Iterator for Duplicates<G> {
    type Item = Arrival;

    fn next(&mut self) -> Option<Arrival> {
        let flow = self.originals.next()?;
        let source = loop {
            let drawn = self.sources[self.source_choice.below(self.sources.len() as u64) as usize];
            if is_other(drawn, &flow) {
                break drawn;
            }
        };
        Some(Arrival { source, class: None, ..flow })
    }
}
