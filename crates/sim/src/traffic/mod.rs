//! Who sends how much to whom, and when.
//!
//! A scenario has named groups of traffic, each described by a [`TrafficSpec`]. [`generate`] turns them into one
//! stream of [`FlowSpec`]s by start time. Every group draws from random streams of its own, named after it, so adding
//! or changing a group moves no flow of another. Memory is bounded by the number of groups and hosts, not of flows.

mod all_to_all;
mod closed_loop;
mod context;
mod duplicates;
mod environment;
mod error;
mod flow_spec;
mod generator;
mod groups;
mod hosts;
mod incast;
mod load;
mod long_flows;
mod merge;
mod objects;
mod offered;
mod pairs;
mod periodic;
mod permutation;
mod poisson;
mod profile;
mod remainder;
mod spec;
mod trace;

pub use all_to_all::AllToAllSpec;
pub use closed_loop::ClosedLoopSpec;
pub use duplicates::DuplicatesSpec;
pub use environment::{Environment, Fabric};
pub use error::TrafficError;
pub use flow_spec::{Again, FlowSpec, UNLIMITED_BYTES};
pub use hosts::HostSet;
pub use incast::{IncastSpec, ReceiverOrder};
pub use load::{LoadCounts, LoadOn};
pub use long_flows::{LongFlow, LongFlowsSpec};
pub use merge::Traffic;
pub use objects::{FANOUT_MAX, ObjectsSpec};
pub use offered::{Offered, offered};
pub use periodic::{DestinationChoice, PeriodicSpec};
pub use permutation::PermutationSpec;
pub use poisson::PoissonSpec;
pub use remainder::RemainderSpec;
pub use spec::{TrafficGroup, TrafficSpec};
pub use trace::{TraceSpec, write_trace};

/// The flows of all groups by (start, group, sequence). A group's index in `groups` is its number in the flows.
pub fn generate(groups: &[TrafficGroup<'_>], environment: &Environment<'_>) -> Result<Traffic, TrafficError> {
    let generators = groups::each(groups, environment).map(|group| group.generator()).collect::<Result<_, _>>()?;
    let counted = |group: &TrafficGroup<'_>| group.messages.filter(|messages| messages.count().is_some()).cloned();
    Ok(Traffic::new(generators, groups.iter().map(counted)))
}

#[cfg(test)]
mod tests;
