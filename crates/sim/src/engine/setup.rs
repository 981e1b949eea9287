//! What a run is made of.

use std::collections::BTreeSet;

use pliant_proto::time::{Instant, Span};

use super::losses::LinkLoss;
use crate::port_plans::PortPlans;
use crate::routing::Routing;
use crate::topology::Topology;

/// How a switch picks among equal-cost next hops.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PathChoice {
    /// By flow: one path per flow, the same both ways. A symmetric hash chooses it, or the flow's number where flows take
    /// turns.
    #[default]
    Ecmp,
    /// At random for each packet.
    SprayRandom,
    /// In turn for each packet.
    SprayRoundRobin,
    /// In turn for each packet, in a fresh random order each time round (NDP, SIGCOMM 2017, section 3.1.1).
    SprayPermutation,
    /// At random, in proportion to weights, whenever a flow has sent nothing through a switch for a while (LetFlow, NSDI 2017).
    Flowlet(Flowlets),
}

/// How switches part the flowlets of flows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Flowlets {
    /// A flow that has sent nothing for so long begins a flowlet.
    pub gap: Span,
    /// Entries of each switch's table, which flows share whose hashes meet; without it each flow has its own.
    pub table: Option<u32>,
}

/// What a run is made of, beside its traffic and transports.
pub struct Setup<'a> {
    /// Nodes and links.
    pub topology: &'a Topology,
    /// Next hops.
    pub routing: &'a Routing,
    /// Queues of every port.
    pub plans: PortPlans<'a>,
    /// How switches pick among equal-cost next hops.
    pub path_choice: PathChoice,
    /// How often an oracle tells rates to the flows that ask for them, above zero. None is computed where none asks.
    pub oracle_interval: Span,
    /// How often hosts tell each other which rate is fair on their links, and of each traffic group, whether its flows are told. None
    /// is of groups beyond these.
    pub host_reports: Option<(Span, Vec<bool>)>,
    /// Of each traffic group, whether its flows share one between the same hosts. Groups beyond these have no bundles.
    pub bundled: &'a [bool],
    /// Payload bytes of a full packet.
    pub mss: u16,
    /// Seed of every random stream.
    pub seed: u64,
    /// What links lose.
    pub losses: &'a [LinkLoss],
    /// When paths move, by time.
    pub reroutes: &'a [Reroute],
}

/// From some time on, packets take the paths without some links.
#[derive(Clone, Debug)]
pub struct Reroute {
    /// When.
    pub at: Instant,
    /// The links that are left out, both directions of each cable.
    pub dead: BTreeSet<u32>,
    /// The paths without them.
    pub routing: Routing,
}
