//! The keys of a scenario file.

use indexmap::IndexMap;
use pliant_proto::packet::WireFormat;
use pliant_proto::time::Span;
use pliant_proto::units::Bytes;
use serde::{Deserialize, Serialize};
use toml::Table;

use super::super::network::losses::LossSpec;
use super::super::network::outages::OutageSpec;
use super::super::network::path_weights::PathWeights;
use super::super::network::queues::QueuesSpec;
use super::deployment::DeploymentSpec;
use super::group::GroupSpec;
use crate::engine::{Flowlets, PathChoice};
use crate::families::OracleSpec;
use crate::topology::TopologySpec;
use crate::units_serde;

/// A whole scenario file.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScenarioSpec {
    /// What it is called in tables and folders. Default: the file's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What it shows, in a sentence. Default: empty.
    #[serde(default)]
    pub description: String,
    /// Seed of every random stream, 0 to 2^63 - 1. Default: 1.
    #[serde(default = "default_seed")]
    pub seed: u64,
    /// Flows start until here; flows without an end run until here. Above 0s.
    #[serde(with = "units_serde")]
    pub duration: Span,
    /// Flows under way may take this much longer before the run stops. Default: ten times `duration`.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "units_serde::optional")]
    pub drain: Option<Span>,
    /// Flows that start before this are left out of statistics. Default: `"0s"`.
    #[serde(default, with = "units_serde")]
    pub warmup: Span,
    /// Flows that start here or later are left out of statistics. Default: `duration`.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "units_serde::optional")]
    pub measure_until: Option<Span>,
    /// Whether each flow's share of its max-min fair rate is computed. Default: where a contract promises one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shares: Option<bool>,
    /// How a switch picks among equal-cost links: `"ecmp"` (by a hash of the flow), `"flow-round-robin"` (in turn by flow),
    /// `"flowlet"` (by burst of a flow), `"spray-random"`, `"spray-round-robin"` or `"spray-permutation"` (by packet).
    /// Default: `"ecmp"`.
    #[serde(default)]
    pub routing: RoutingName,
    /// With `"flowlet"`: a packet that comes so long after the last one of its flow may take another link. Default: 50us.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "units_serde::optional")]
    pub flowlet_gap: Option<Span>,
    /// With `"flowlet"`: entries of each switch's table of flowlets, 1 to 1048576. Flows whose hashes meet share one. Default:
    /// each flow has its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flowlet_table: Option<u32>,
    /// How often links that are as near are taken: `"equal"`, by `"rate"`, or an array of links with weights. Default: `"equal"`.
    #[serde(default, skip_serializing_if = "PathWeights::are_equal")]
    pub path_weights: PathWeights,
    /// Interval at which queue lengths and throughput are recorded. Default: not recorded.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "units_serde::optional")]
    pub sample_interval: Option<Span>,
    /// Whether the windows of senders are recorded at that interval, too. Default: false.
    #[serde(default)]
    pub sample_windows: bool,
    /// Packets that links lose by themselves. Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub losses: Vec<LossSpec>,
    /// Hosts, links and switches that are down for a while, and hosts that send badly. Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outages: Vec<OutageSpec>,
    /// A packet that finds its host's port idle starts up to so much later, by a uniform draw, up to a second. Default: 0.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "units_serde::optional")]
    pub host_jitter: Option<Span>,
    /// Hosts, switches and cables.
    pub topology: TopologySpec,
    /// How payload is cut and framed.
    #[serde(default)]
    pub packets: PacketsSpec,
    /// Queues of switch ports. Default: the plan `shared`.
    #[serde(default)]
    pub queues: QueuesSpec,
    /// Queues of host ports. Default: as `queues`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_queues: Option<QueuesSpec>,
    /// Settings of the TCP family for every group that does not have its own.
    #[serde(default, skip_serializing_if = "Table::is_empty")]
    pub transport: Table,
    /// Which hosts have the transports with credits. Default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deployment: Option<DeploymentSpec>,
    /// What `near-opt` flows are told; without such flows nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oracle: Option<OracleSpec>,
    /// Traffic groups by name, at least one.
    pub traffic: IndexMap<String, GroupSpec>,
    /// Variants for `pliant compare`: overrides by dotted key. Default: none.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub variants: IndexMap<String, Table>,
}

/// The gap between flowlets where a file does not say.
pub(in super::super) const DEFAULT_FLOWLET_GAP: Span = Span::from_us(50);

fn default_seed() -> u64 {
    1
}

/// How a switch picks among equal-cost links.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RoutingName {
    /// By a hash of the flow.
    #[default]
    Ecmp,
    /// In turn for each flow.
    FlowRoundRobin,
    /// At random for each packet.
    SprayRandom,
    /// In turn for each packet.
    SprayRoundRobin,
    /// In turn for each packet, in a fresh random order each time round.
    SprayPermutation,
    /// At random for each burst of a flow.
    Flowlet,
}

impl ScenarioSpec {
    /// How switches pick among equal-cost links.
    pub fn path_choice(&self) -> PathChoice {
        match self.routing {
            RoutingName::Ecmp | RoutingName::FlowRoundRobin => PathChoice::Ecmp,
            RoutingName::SprayRandom => PathChoice::SprayRandom,
            RoutingName::SprayRoundRobin => PathChoice::SprayRoundRobin,
            RoutingName::SprayPermutation => PathChoice::SprayPermutation,
            RoutingName::Flowlet => PathChoice::Flowlet(Flowlets {
                gap: self.flowlet_gap.unwrap_or(DEFAULT_FLOWLET_GAP),
                table: self.flowlet_table,
            }),
        }
    }
}

/// The table `packets`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PacketsSpec {
    /// Most payload bytes per packet, 64 to 65000. Default: `"1460B"`, a 1500-byte IP packet.
    #[serde(with = "units_serde")]
    pub mss: Bytes,
    /// In place of `mss`: the largest IP packet, 40 bytes more. Default: `mss` decides.
    #[serde(skip_serializing_if = "Option::is_none", with = "units_serde::optional")]
    pub mtu: Option<Bytes>,
    /// What counts as on the wire: `"ethernet"` with preamble and gap (78 bytes around a payload, at least 84) or `"ip"`
    /// (40 bytes) or `"ppp"` (54 bytes). Default: `"ethernet"`.
    pub framing: Framing,
}

impl Default for PacketsSpec {
    fn default() -> Self {
        Self { mss: Bytes(1460), mtu: None, framing: Framing::Ethernet }
    }
}

/// What counts as on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Framing {
    /// Ethernet frames with preamble and gap.
    #[default]
    Ethernet,
    /// IP packets.
    Ip,
    /// PPP frames of TCP with timestamps, as on ns-3's point-to-point links.
    Ppp,
}

impl From<Framing> for WireFormat {
    fn from(framing: Framing) -> Self {
        match framing {
            Framing::Ethernet => Self::ETHERNET,
            Framing::Ip => Self::IP,
            Framing::Ppp => Self::PPP,
        }
    }
}
