//! Topologies: hosts, switches and the cables between them, as flat arrays.
//!
//! Hosts are nodes `0..hosts`, switches follow. A cable is two directed links, `2k` and `2k + 1`, so the way back is
//! one bit away. One file per builder; a new one is its file, a variant of [`TopologySpec`] and a line in its `build`.

mod b4;
mod builder;
mod clos;
mod dumbbell;
mod edge_list;
mod error;
mod fat_tree;
mod kinds;
mod leaf_spine;
mod parking_lot;
mod spec;
mod star;
#[cfg(test)]
mod tests;

pub use b4::B4;
pub use clos::Clos;
pub use dumbbell::Dumbbell;
pub use edge_list::EdgeList;
pub use error::{EdgeError, TopologyError};
pub use fat_tree::FatTree;
pub use kinds::{TOPOLOGIES, TopologySpec};
pub use leaf_spine::LeafSpine;
pub use parking_lot::ParkingLot;
pub use spec::{LinkSpec, TopologyKind};
pub use star::Star;

use std::collections::BTreeMap;
use std::fmt::Write;

use pliant_proto::time::Span;
use pliant_proto::units::Rate;

/// Most hosts a topology may have.
pub const MAX_HOSTS: u64 = 1_000_000;
/// Most directed links a topology may have.
pub const MAX_LINKS: u64 = 1 << 31;

/// A host or a switch: hosts come first, switches follow.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeId(pub u32);

/// One direction of a cable.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LinkId(pub u32);

impl NodeId {
    /// The node as an index.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl LinkId {
    /// The link as an index into [`Topology::links`].
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// The other direction of the same cable.
    #[inline]
    pub const fn reverse(self) -> Self {
        Self(self.0 ^ 1)
    }
}

/// A directed link: what leaves `from` arrives at `to` after serialisation at `rate` and then `delay`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Link {
    /// The sending node.
    pub from: NodeId,
    /// The receiving node.
    pub to: NodeId,
    /// Transmission rate.
    pub rate: Rate,
    /// Propagation delay; on a host's link it includes the host's processing delay.
    pub delay: Span,
    /// Number of the spine or plane the link belongs to, the same seen from both ends of a path. Equal-cost next hops
    /// are ordered by it, so that both directions of a flow choose the same plane.
    pub plane: u32,
}

/// How nodes are called.
#[derive(Clone, Debug)]
enum NodeNames {
    /// Runs of nodes of one kind, in order of their first node.
    Groups(Vec<NodeGroup>),
    /// Names as a file gave them, by node.
    Listed(Vec<String>),
}

/// A run of nodes of one kind, from `first` to the next group.
#[derive(Clone, Copy, Debug)]
struct NodeGroup {
    first: u32,
    label: &'static str,
    /// Nodes are called `label pod.number` if they come in pods of this many.
    per_pod: Option<u32>,
}

impl NodeGroup {
    fn name(self, node: u32) -> String {
        let number = node - self.first;
        match self.per_pod {
            Some(per_pod) => format!("{} {}.{}", self.label, number / per_pod, number % per_pod),
            None => format!("{} {number}", self.label),
        }
    }
}

/// A network: connected, every host on a switch, or on several.
#[derive(Clone, Debug)]
pub struct Topology {
    kind: &'static str,
    hosts: u32,
    switches: u32,
    links: Vec<Link>,
    /// Links leaving node `n` are `outgoing[offsets[n]..offsets[n + 1]]`.
    offsets: Vec<u32>,
    outgoing: Vec<LinkId>,
    uplinks: Vec<LinkId>,
    /// Tier of each switch: 1 at the hosts.
    tiers: Vec<u32>,
    layered: bool,
    names: NodeNames,
    /// Which of several links between the same nodes a link is, from 2; the first, and one alone, is not listed.
    parallel: BTreeMap<LinkId, u32>,
}

impl Topology {
    /// Number of hosts.
    pub fn hosts(&self) -> u32 {
        self.hosts
    }

    /// Number of switches.
    pub fn switches(&self) -> u32 {
        self.switches
    }

    /// Hosts and switches together.
    pub fn nodes(&self) -> u32 {
        self.hosts + self.switches
    }

    /// Whether `node` is a host.
    #[inline]
    pub fn is_host(&self, node: NodeId) -> bool {
        node.0 < self.hosts
    }

    /// All directed links.
    #[inline]
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// The numbers of all directed links, in order.
    pub fn link_ids(&self) -> impl Iterator<Item = LinkId> + use<> {
        (0..self.links.len() as u32).map(LinkId)
    }

    /// The link of this [name](Self::link_name).
    pub fn link_named(&self, name: &str) -> Option<LinkId> {
        self.link_ids().find(|&link| self.link_name(link) == name)
    }

    /// One link.
    #[inline]
    pub fn link(&self, link: LinkId) -> &Link {
        &self.links[link.index()]
    }

    /// The links that leave `node`, in the order in which they were laid.
    #[inline]
    pub fn outgoing(&self, node: NodeId) -> &[LinkId] {
        &self.outgoing[self.offsets[node.index()] as usize..self.offsets[node.index() + 1] as usize]
    }

    /// The first link that leaves a host; most hosts have no other.
    #[inline]
    pub fn uplink(&self, host: NodeId) -> LinkId {
        self.uplinks[host.index()]
    }

    /// Whether a host has several links.
    #[inline]
    pub fn has_several_links(&self, host: NodeId) -> bool {
        self.outgoing(host).len() > 1
    }

    /// The rate of all links of a host together, in one direction.
    pub fn host_rate(&self, host: NodeId) -> Rate {
        let rates = self.outgoing(host).iter().map(|&link| self.link(link).rate.bits_per_sec());
        Rate::from_bits_per_sec(rates.fold(0, u64::saturating_add))
    }

    /// The edge switch of a host; of several that of its first link.
    #[inline]
    pub fn rack(&self, host: NodeId) -> NodeId {
        self.link(self.uplink(host)).to
    }

    /// Tier of a node: hosts 0, their switches 1, and each further switch one more than its nearest neighbour below.
    #[inline]
    pub fn tier(&self, node: NodeId) -> u32 {
        if self.is_host(node) { 0 } else { self.tiers[(node.0 - self.hosts) as usize] }
    }

    /// Tiers of switches: 1 for a star, 2 for leaf-spine, 3 for a fat-tree.
    pub fn tiers(&self) -> u32 {
        self.tiers.iter().copied().max().unwrap_or(0)
    }

    /// Whether every shortest path climbs and then descends, choosing among equals only in ways that the opposite
    /// direction repeats. Holds for all builders except edge lists, where it is unknown.
    pub fn is_layered(&self) -> bool {
        self.layered
    }

    /// What a node is called: "host 3", "leaf 0", "agg 2.1".
    pub fn node_name(&self, node: NodeId) -> String {
        assert!(node.0 < self.nodes(), "node {} does not exist", node.0);
        match &self.names {
            NodeNames::Listed(names) => names[node.index()].clone(),
            NodeNames::Groups(groups) => {
                let after = groups.partition_point(|group| group.first <= node.0);
                groups[after - 1].name(node.0)
            }
        }
    }

    /// What a link is called: "host 3 -> leaf 0", the second between the same nodes "leaf 0 -> leaf 1 (2)".
    pub fn link_name(&self, id: LinkId) -> String {
        let link = self.link(id);
        let name = format!("{} -> {}", self.node_name(link.from), self.node_name(link.to));
        self.parallel.get(&id).map_or(name.clone(), |number| format!("{name} ({number})"))
    }

    /// Capacity from below over capacity to above of the switches of `tier`, at the worst of them; `None` if one of
    /// them has nothing above it.
    pub fn oversubscription(&self, tier: u32) -> Option<f64> {
        let switches = (self.hosts..self.nodes()).map(NodeId).filter(|&node| self.tier(node) == tier);
        let ratios = switches.map(|node| {
            let towards = |above: bool| -> u64 {
                let links = self.outgoing(node).iter().map(|&link| self.link(link));
                let wanted = links.filter(|link| {
                    let other = self.tier(link.to);
                    if above { other > tier } else { other < tier }
                });
                wanted.map(|link| link.rate.bits_per_sec()).sum()
            };
            let above = towards(true);
            (above > 0).then(|| towards(false) as f64 / above as f64)
        });
        ratios.collect::<Option<Vec<f64>>>()?.into_iter().reduce(f64::max)
    }

    /// One line for people: sizes, host rates, oversubscription tier by tier.
    pub fn describe(&self) -> String {
        let plural = |count: u32, noun: &str| if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") };
        let switches = if self.switches == 1 { "1 switch".into() } else { format!("{} switches", self.switches) };
        let tiers = plural(self.tiers(), "tier");
        let cables = plural(self.links.len() as u32 / 2, "cable");
        let mut line = format!("{}: {} hosts, {switches} in {tiers}, {cables}", self.kind, self.hosts);
        let rates = self.uplinks.iter().map(|&link| self.link(link).rate);
        let (slowest, fastest) = rates.fold((None, None), |(low, high): (Option<Rate>, Option<Rate>), rate| {
            (Some(low.map_or(rate, |low| low.min(rate))), high.max(Some(rate)))
        });
        if let (Some(slowest), Some(fastest)) = (slowest, fastest) {
            let range = if slowest == fastest { slowest.to_string() } else { format!("{slowest} to {fastest}") };
            write!(line, ", host links {range}").expect("writing to a string succeeds");
        }
        let several = (0..self.hosts).filter(|&host| self.has_several_links(NodeId(host))).count();
        if several > 0 {
            write!(line, ", {several} hosts with several links").expect("writing to a string succeeds");
        }
        let ratios: Vec<String> =
            (1..=self.tiers()).map_while(|tier| self.oversubscription(tier)).map(print_ratio).collect();
        if !ratios.is_empty() {
            write!(line, ", oversubscription {} from the hosts up", ratios.join(" and "))
                .expect("writing to a string succeeds");
        }
        line
    }

    /// Bytes of memory the arrays take.
    pub fn memory_bytes(&self) -> usize {
        self.links.len() * size_of::<Link>()
            + (self.offsets.len() + self.outgoing.len() + self.uplinks.len() + self.tiers.len()) * size_of::<u32>()
    }
}

/// "3:1", or "1.25:1" with at most two decimals.
fn print_ratio(ratio: f64) -> String {
    let text = format!("{ratio:.2}");
    format!("{}:1", text.trim_end_matches('0').trim_end_matches('.'))
}
