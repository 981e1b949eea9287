//! The traffic of a group, as a scenario describes it.

use serde::{Deserialize, Serialize};

use super::all_to_all::AllToAllSpec;
use super::closed_loop::ClosedLoopSpec;
use super::duplicates::DuplicatesSpec;
use super::incast::IncastSpec;
use super::long_flows::LongFlowsSpec;
use super::objects::ObjectsSpec;
use super::periodic::PeriodicSpec;
use super::permutation::PermutationSpec;
use super::poisson::PoissonSpec;
use super::remainder::RemainderSpec;
use super::trace::TraceSpec;
use crate::workload::{Messages, PacketFormat};

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
    /// Flows between two hosts of which each starts when the one before it is over.
    ClosedLoop(ClosedLoopSpec),
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
