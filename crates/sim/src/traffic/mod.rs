//! Who sends how much to whom, and when.
//!
//! A scenario has named groups of traffic, each described by a [`TrafficSpec`]. [`generate`] turns them into one
//! stream of [`FlowSpec`]s by start time. Every group draws from random streams of its own, named after it, so adding
//! or changing a group moves no flow of another. Memory is bounded by the number of groups and hosts, not of flows.

mod all_to_all;
mod context;
mod duplicates;
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
mod remainder;
mod trace;

use std::io;
use std::path::Path;

use pliant_proto::time::{Instant, Span};
use pliant_proto::units::Rate;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::workload::{DistributionError, MAX_SIZE_BYTES, Messages, PacketFormat};
use context::Context;

pub use all_to_all::AllToAllSpec;
pub use duplicates::DuplicatesSpec;
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
pub use trace::{TraceSpec, write_trace};

/// Size of a flow without an end: more than any run carries.
pub const UNLIMITED_BYTES: u64 = MAX_SIZE_BYTES;

/// One flow to start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlowSpec {
    /// When the application starts it.
    pub start: Instant,
    /// Index of the sending host.
    pub source: u32,
    /// Index of the receiving host, never the source.
    pub destination: u32,
    /// Payload bytes, at least 1.
    pub bytes: u64,
    /// Index of its traffic group in the scenario.
    pub group: u16,
    /// Traffic class that a trace asks for in place of the group's own.
    pub class: Option<u8>,
    /// Its number within the group, from 0.
    pub sequence: u64,
}

/// What a generator yields; the merge adds group and sequence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Arrival {
    start: Instant,
    source: u32,
    destination: u32,
    bytes: u64,
    class: Option<u8>,
}

impl Arrival {
    fn new(start_ps: u64, (source, destination): (u32, u32), bytes: u64) -> Self {
        Self { start: Instant::from_ps(start_ps), source, destination, bytes, class: None }
    }
}

/// The facts of a topology that traffic depends on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fabric {
    /// The rack of each host, by host index.
    pub racks: Vec<u32>,
    /// Rate of every host's link.
    pub host_rate: Rate,
    /// Sum of the rates of all links from racks upwards, in one direction; `None` without such links.
    pub uplinks: Option<Rate>,
    /// Length of the run: no flow starts later.
    pub duration: Span,
}

impl Fabric {
    /// Number of hosts.
    pub fn hosts(&self) -> u32 {
        self.racks.len() as u32
    }
}

/// What all groups have in common.
#[derive(Clone, Copy, Debug)]
pub struct Environment<'a> {
    /// Where the traffic runs.
    pub fabric: &'a Fabric,
    /// The run's seed.
    pub seed: u64,
    /// Folder that relative paths in the scenario start from.
    pub directory: &'a Path,
    /// Names of the traffic classes by number, as traces may use them.
    pub classes: &'a [&'a str],
}

/// One traffic group of a scenario.
#[derive(Clone, Copy, Debug)]
pub struct TrafficGroup<'a> {
    /// Its name: `backup` for the table `[traffic.backup]`.
    pub name: &'a str,
    /// What it sends.
    pub spec: &'a TrafficSpec,
    /// How its transport cuts flows into packets, for loads that count bytes on the wire.
    pub packets: PacketFormat,
    /// The messages of its flows, where they were asked for.
    pub messages: Option<&'a Messages>,
}

/// The traffic of one group, as a scenario describes it. `kind` selects the variant.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum TrafficSpec {
    /// Flows arrive as a Poisson process, between random pairs.
    Poisson(PoissonSpec),
    /// Many hosts send to one at the same instant, again and again.
    Incast(IncastSpec),
    /// On-off: each source sends a burst once per period.
    Periodic(PeriodicSpec),
    /// Each host sends one flow to another; each receives one.
    Permutation(PermutationSpec),
    /// Each host sends one flow to every other.
    AllToAll(AllToAllSpec),
    /// A list of flows, without an end unless they have a size.
    Flows(LongFlowsSpec),
    /// Flows read from a file.
    Trace(TraceSpec),
    /// Every flow of another group once more, from another source.
    Duplicates(DuplicatesSpec),
    /// The flows that a `poisson` group leaves out by size.
    Remainder(RemainderSpec),
    /// Objects that come from several hosts at once.
    Objects(ObjectsSpec),
}

impl TrafficSpec {
    /// Whether flows have no end because none is given.
    pub fn has_endless_flows(&self) -> bool {
        match self {
            Self::Permutation(spec) => spec.size.is_none() && spec.workload.is_none(),
            Self::Flows(spec) => spec.flows.iter().any(|flow| flow.size.is_none()),
            _ => false,
        }
    }

    /// Flows that bring one object.
    pub fn flows_per_object(&self) -> Option<u32> {
        match self {
            Self::Objects(spec) => Some(spec.fanout()),
            _ => None,
        }
    }

    /// Flows that share the bytes of one object out among them while they send; 1 where each flow has bytes of its own.
    pub fn flows_that_share(&self) -> u32 {
        match self {
            Self::Objects(spec) if !spec.splits() => spec.fanout(),
            _ => 1,
        }
    }
}

/// Why traffic was refused.
#[derive(Debug, Error)]
pub enum TrafficError {
    /// A key has a value that cannot be.
    #[error("`traffic.{group}.{key}`: {why}")]
    Key {
        /// Name of the traffic group.
        group: String,
        /// The key.
        key: &'static str,
        /// What is wrong and what would be right.
        why: String,
    },
    /// A distribution of sizes was refused.
    #[error("`traffic.{group}.{key}`: {source}")]
    Sizes {
        /// Name of the traffic group.
        group: String,
        /// The key.
        key: &'static str,
        /// Why.
        source: DistributionError,
    },
    /// A trace cannot be opened or read.
    #[error("`traffic.{group}.path`: {path}: {source}")]
    Unreadable {
        /// Name of the traffic group.
        group: String,
        /// The trace.
        path: String,
        /// What the operating system says.
        source: io::Error,
    },
    /// A line of a trace does not say what it must.
    #[error("`traffic.{group}.path`: {path}:{line}: {why}")]
    TraceLine {
        /// Name of the traffic group.
        group: String,
        /// The trace.
        path: String,
        /// Line number, from 1.
        line: u64,
        /// What is wrong with it.
        why: String,
    },
}

/// The flows of all groups by (start, group, sequence). A group's index in `groups` is its number in the flows.
pub fn generate(groups: &[TrafficGroup<'_>], environment: &Environment<'_>) -> Result<Traffic, TrafficError> {
    let generators = contexts(groups, environment).map(|context| context.generator()).collect::<Result<_, _>>()?;
    let counted = |group: &TrafficGroup<'_>| group.messages.filter(|messages| messages.count().is_some()).cloned();
    Ok(Traffic::new(generators, groups.iter().map(counted)))
}

/// Each group in its surroundings.
fn contexts<'a>(groups: &'a [TrafficGroup<'a>], environment: &'a Environment<'a>) -> impl Iterator<Item = Context<'a>> {
    groups.iter().map(move |group| Context { group, groups, environment })
}

/// The running generator of one group.
#[derive(Debug)]
enum Generator {
    Poisson(Box<poisson::Poisson>),
    Incast(Box<incast::Incast>),
    Periodic(Box<periodic::Periodic>),
    AllToAll(Box<all_to_all::AllToAll>),
    Listed(std::vec::IntoIter<Arrival>),
    Trace(Box<trace::Trace>),
    Duplicates(Box<duplicates::Duplicates>),
    Objects(Box<objects::Objects>),
}

impl Generator {
    /// Why it ended early.
    fn error(&self) -> Option<&TrafficError> {
        match self {
            Self::Trace(trace) => trace.error(),
            Self::Duplicates(duplicates) => duplicates.error(),
            _ => None,
        }
    }
}

impl Iterator for Generator {
    type Item = Arrival;

    fn next(&mut self) -> Option<Arrival> {
        match self {
            Self::Poisson(generator) => generator.next(),
            Self::Incast(generator) => generator.next(),
            Self::Periodic(generator) => generator.next(),
            Self::AllToAll(generator) => generator.next(),
            Self::Listed(flows) => flows.next(),
            Self::Trace(generator) => generator.next(),
            Self::Duplicates(generator) => generator.next(),
            Self::Objects(generator) => generator.next(),
        }
    }
}

impl Context<'_> {
    fn generator(&self) -> Result<Generator, TrafficError> {
        Ok(match self.group.spec {
            TrafficSpec::Poisson(spec) => Generator::Poisson(Box::new(poisson::Poisson::new(spec, self)?)),
            TrafficSpec::Incast(spec) => Generator::Incast(Box::new(incast::Incast::new(spec, self)?)),
            TrafficSpec::Periodic(spec) => Generator::Periodic(Box::new(periodic::Periodic::new(spec, self)?)),
            TrafficSpec::Permutation(spec) => Generator::Listed(permutation::flows(spec, self)?.into_iter()),
            TrafficSpec::AllToAll(spec) => Generator::AllToAll(Box::new(all_to_all::AllToAll::new(spec, self)?)),
            TrafficSpec::Flows(spec) => Generator::Listed(long_flows::flows(spec, self)?.into_iter()),
            TrafficSpec::Trace(spec) => Generator::Trace(Box::new(trace::Trace::new(spec, self)?)),
            TrafficSpec::Duplicates(spec) => Generator::Duplicates(Box::new(duplicates::Duplicates::new(spec, self)?)),
            TrafficSpec::Remainder(spec) => Generator::Poisson(Box::new(remainder::flows(spec, self)?)),
            TrafficSpec::Objects(spec) => Generator::Objects(Box::new(objects::Objects::new(spec, self)?)),
        })
    }
}

#[cfg(test)]
mod tests;
