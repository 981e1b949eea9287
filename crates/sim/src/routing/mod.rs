//! Shortest paths, equal-cost choices and the pinned path of a flow.
//!
//! Distances are hops. Tables hold, for each switch and each class of destinations, one set of next links; sets that
//! are equal are stored once. A class is all edge switches with the same neighbours (a pod of a fat-tree, all leaves
//! of a leaf-spine): every other switch reaches them alike, so tables grow with pods, not with racks or hosts.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::topology::{Link, LinkId, NodeId, Topology, TopologyError};

#[cfg(test)]
mod tests;

/// Most table entries (four bytes each) that routing may take.
const MAX_ENTRIES: u64 = 1 << 28;

/// Marks the set of a switch next to a class: its links lead to the class's members one by one, in their order.
const DIRECT: u32 = 1 << 31;

/// Distance of what has not been reached.
const UNREACHED: u32 = u32::MAX;

/// Next hops of every switch towards every host.
#[derive(Clone, Debug)]
pub struct Routing {
    hosts: u32,
    classes: u32,
    /// Edge switch of each host, as a switch index (its node number minus the number of hosts).
    racks: Vec<u32>,
    uplinks: Vec<LinkId>,
    /// Last link towards each host.
    downlinks: Vec<LinkId>,
    memberships: Vec<Membership>,
    /// Set number for switch `s` towards class `c` at `s * classes + c`, maybe with [`DIRECT`].
    table: Vec<u32>,
    sets: NextLinkSets,
    /// Next node and its tier by link, to walk a path without the topology.
    heads: Vec<Head>,
    layered: bool,
    max_hops: u32,
}

/// Where an edge switch stands among its class.
#[derive(Clone, Copy, Debug, Default)]
struct Membership {
    class: u32,
    position: u32,
}

/// Where a link leads.
#[derive(Clone, Copy, Debug)]
struct Head {
    to: NodeId,
    tier: u32,
}

impl Routing {
    /// Computes all shortest paths of a topology.
    pub fn new(topology: &Topology) -> Result<Self, TopologyError> {
        Self::without(topology, &BTreeSet::new())
    }

    /// The same without these links between switches, of which both directions are listed. An error where that leaves a host
    /// without a path to another.
    pub fn without(topology: &Topology, dead: &BTreeSet<u32>) -> Result<Self, TopologyError> {
        let fabric = Fabric::new(topology, dead);
        let classes = fabric.classes(topology);
        let entries = classes.len() as u64 * u64::from(topology.switches());
        if entries > MAX_ENTRIES {
            return Err(TopologyError::TooManyRoutes { entries, limit: MAX_ENTRIES });
        }
        let uplinks: Vec<LinkId> = (0..topology.hosts()).map(|host| topology.uplink(NodeId(host))).collect();
        let head = |link: &Link| Head { to: link.to, tier: topology.tier(link.to) };
        let mut routing = Self {
            hosts: topology.hosts(),
            classes: classes.len() as u32,
            racks: uplinks.iter().map(|&link| topology.link(link).to.0 - topology.hosts()).collect(),
            downlinks: uplinks.iter().map(|link| link.reverse()).collect(),
            uplinks,
            memberships: memberships(&classes, topology.switches()),
            table: vec![0; entries as usize],
            sets: NextLinkSets::default(),
            heads: topology.links().iter().map(head).collect(),
            // With links missing, the two directions of a path need not find the same choices.
            layered: topology.is_layered() && dead.is_empty(),
            max_hops: 0,
        };
        routing.fill(&fabric, &classes).map_err(|(from, to)| TopologyError::Unreachable {
            file: None,
            from: topology.node_name(NodeId(topology.hosts() + from)),
            to: topology.node_name(NodeId(topology.hosts() + to)),
        })?;
        Ok(routing)
    }

    /// Equal-cost links out of `node` towards `host`, ordered by plane. Empty at the host itself.
    #[inline]
    pub fn next_links(&self, node: NodeId, host: NodeId) -> &[LinkId] {
        if node.0 < self.hosts {
            return if node == host { &[] } else { std::slice::from_ref(&self.uplinks[node.index()]) };
        }
        let (switch, rack) = (node.0 - self.hosts, self.racks[host.index()]);
        if switch == rack {
            return std::slice::from_ref(&self.downlinks[host.index()]);
        }
        let Membership { class, position } = self.memberships[rack as usize];
        let entry = self.table[switch as usize * self.classes as usize + class as usize];
        let set = self.sets.get(entry & !DIRECT);
        if entry & DIRECT == 0 { set } else { std::slice::from_ref(&set[position as usize]) }
    }

    /// The link out of `node` towards `host` that a flow with this [`ecmp_hash`] takes.
    ///
    /// In a layered topology each tier that is entered spends bits of its own, so that the tiers choose independently,
    /// and both directions of a flow spend the same bits on the same choice. In others each switch has its own bits.
    #[inline]
    pub fn ecmp_link(&self, node: NodeId, host: NodeId, hash: u64) -> LinkId {
        match self.next_links(node, host) {
            &[only] => only,
            links => {
                let first = links[0];
                let salt = if self.layered { self.heads[first.index()].tier } else { node.0 };
                links[choose(hash, salt, links.len())]
            }
        }
    }

    /// Puts into `path` the links of the flow `key` from `src` to `dst`, two different hosts. The path of
    /// `(dst, src, key)` is exactly the reverse.
    pub fn path(&self, src: NodeId, dst: NodeId, key: u64, path: &mut Vec<LinkId>) {
        assert!(src != dst, "a path joins two different hosts");
        path.clear();
        if self.layered || src < dst {
            self.walk(src, dst, ecmp_hash(src, dst, key), path);
        } else {
            // Hop by hop the two directions of an arbitrary graph may differ: the lower host decides for both.
            self.walk(dst, src, ecmp_hash(src, dst, key), path);
            path.reverse();
            for link in path {
                *link = link.reverse();
            }
        }
    }

    /// Links of the longest path between two hosts.
    pub fn max_hops(&self) -> usize {
        self.max_hops as usize
    }

    /// Bytes of memory the tables take.
    pub fn memory_bytes(&self) -> usize {
        (self.racks.len() + self.uplinks.len() + self.downlinks.len() + self.table.len()) * size_of::<u32>()
            + self.memberships.len() * size_of::<Membership>()
            + self.heads.len() * size_of::<Head>()
            + self.sets.memory_bytes()
    }

    fn walk(&self, src: NodeId, dst: NodeId, hash: u64, path: &mut Vec<LinkId>) {
        let mut node = src;
        while node != dst {
            let link = self.ecmp_link(node, dst, hash);
            path.push(link);
            node = self.heads[link.index()].to;
            assert!(path.len() <= self.max_hops(), "shortest paths do not loop");
        }
    }

    /// An error names two edge switches without a path between them.
    fn fill(&mut self, fabric: &Fabric, classes: &[Vec<u32>]) -> Result<(), (u32, u32)> {
        let mut index = HashMap::new();
        let mut distances = vec![UNREACHED; fabric.switches()];
        for (class, members) in classes.iter().enumerate() {
            fabric.distances_to(members, &mut distances);
            if let Some(&cut) = self.racks.iter().find(|&&rack| distances[rack as usize] == UNREACHED) {
                return Err((cut, members[0]));
            }
            for switch in 0..fabric.switches() {
                // A switch that lost its last link reaches nothing: its set is empty.
                let distance = distances[switch];
                let set = self.sets.insert(fabric.next_hops(switch, members, &distances), &mut index);
                // Of a class by itself all links lead to its one member, and there may be several.
                let is_direct = distance == 1 && members.len() > 1;
                self.table[switch * classes.len() + class] = if is_direct { set | DIRECT } else { set };
            }
            self.max_hops = self.max_hops.max(2 + self.farthest_rack(members, &distances));
        }
        Ok(())
    }

    /// Hops from the farthest edge switch to a class; two between its members, by a neighbour they share.
    fn farthest_rack(&self, members: &[u32], distances: &[u32]) -> u32 {
        let others = self.racks.iter().map(|&rack| distances[rack as usize]).max().unwrap_or(0);
        if members.len() > 1 { others.max(2) } else { others }
    }
}

/// The hash of a flow for equal-cost choices: the same for both directions. `key` tells apart the flows of one pair of
/// hosts, as ports do.
pub fn ecmp_hash(src: NodeId, dst: NodeId, key: u64) -> u64 {
    let pair = u64::from(src.0.min(dst.0)) << 32 | u64::from(src.0.max(dst.0));
    mix(mix(pair) ^ key)
}

/// One of `count` choices by the bits of `hash` that belong to `salt`.
#[inline]
fn choose(hash: u64, salt: u32, count: usize) -> usize {
    let bits = mix(hash.wrapping_add(u64::from(salt) << 32)) >> 32;
    ((bits * count as u64) >> 32) as usize
}

/// SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): every input bit reaches every output bit.
#[inline]
fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Sets of next links, each stored once.
#[derive(Clone, Debug)]
struct NextLinkSets {
    links: Vec<LinkId>,
    /// Set `s` is `links[offsets[s]..offsets[s + 1]]`.
    offsets: Vec<u32>,
}

impl Default for NextLinkSets {
    fn default() -> Self {
        Self { links: Vec::new(), offsets: vec![0] }
    }
}

impl NextLinkSets {
    #[inline]
    fn get(&self, set: u32) -> &[LinkId] {
        &self.links[self.offsets[set as usize] as usize..self.offsets[set as usize + 1] as usize]
    }

    /// Number of the set `links`, which `index` finds if it is stored already.
    fn insert(&mut self, links: Vec<LinkId>, index: &mut HashMap<Vec<LinkId>, u32>) -> u32 {
        if let Some(&set) = index.get(&links) {
            return set;
        }
        let set = self.offsets.len() as u32 - 1;
        self.links.extend_from_slice(&links);
        self.offsets.push(self.links.len() as u32);
        index.insert(links, set);
        set
    }

    fn memory_bytes(&self) -> usize {
        (self.links.len() + self.offsets.len()) * size_of::<u32>()
    }
}

/// An arc between switches, seen from its sender; switches are counted from 0.
#[derive(Clone, Copy, Debug)]
struct Arc {
    to: u32,
    plane: u32,
    link: LinkId,
}

/// The switches and the links between them, without the hosts.
#[derive(Debug)]
struct Fabric {
    /// Arcs leaving switch `s`, ordered by plane, are `arcs[offsets[s]..offsets[s + 1]]`.
    offsets: Vec<usize>,
    arcs: Vec<Arc>,
}

impl Fabric {
    fn new(topology: &Topology, dead: &BTreeSet<u32>) -> Self {
        let mut fabric = Self { offsets: vec![0], arcs: Vec::new() };
        for switch in (topology.hosts()..topology.nodes()).map(NodeId) {
            let start = fabric.arcs.len();
            for &link in topology.outgoing(switch) {
                let head = topology.link(link);
                if !topology.is_host(head.to) && !dead.contains(&link.0) {
                    fabric.arcs.push(Arc { to: head.to.0 - topology.hosts(), plane: head.plane, link });
                }
            }
            fabric.arcs[start..].sort_unstable_by_key(|arc| (arc.plane, arc.to, arc.link));
            fabric.offsets.push(fabric.arcs.len());
        }
        fabric
    }

    fn switches(&self) -> usize {
        self.offsets.len() - 1
    }

    fn arcs(&self, switch: usize) -> &[Arc] {
        &self.arcs[self.offsets[switch]..self.offsets[switch + 1]]
    }

    /// Edge switches grouped by their set of neighbours: members of one class are two hops apart and equally far from every
    /// other switch. A switch with several cables to a neighbour is a class by itself.
    fn classes(&self, topology: &Topology) -> Vec<Vec<u32>> {
        let mut classes: BTreeMap<(Vec<u32>, Option<u32>), Vec<u32>> = BTreeMap::new();
        let edge = (0..topology.switches()).filter(|&switch| topology.tier(NodeId(topology.hosts() + switch)) == 1);
        for switch in edge {
            let mut neighbours: Vec<u32> = self.arcs(switch as usize).iter().map(|arc| arc.to).collect();
            neighbours.sort_unstable();
            // Those that lost every cable have the same neighbours, none, and yet no path to each other.
            let is_alone = neighbours.is_empty() || neighbours.windows(2).any(|pair| pair[0] == pair[1]);
            let alone = is_alone.then_some(switch);
            classes.entry((neighbours, alone)).or_default().push(switch);
        }
        classes.into_values().collect()
    }

    /// Hops from every switch to the nearest of `members`.
    fn distances_to(&self, members: &[u32], distances: &mut [u32]) {
        distances.fill(UNREACHED);
        let mut queue: Vec<u32> = members.to_vec();
        for &member in members {
            distances[member as usize] = 0;
        }
        let mut next = 0;
        while next < queue.len() {
            let switch = queue[next] as usize;
            next += 1;
            let distance = distances[switch] + 1;
            for arc in self.arcs(switch) {
                if distances[arc.to as usize] == UNREACHED {
                    distances[arc.to as usize] = distance;
                    queue.push(arc.to);
                }
            }
        }
    }

    /// Links out of `switch` towards a class. Beside the class: one link per member, in their order. In the class: all
    /// links, since every neighbour is shared. Elsewhere: the links that come nearer, ordered by plane.
    fn next_hops(&self, switch: usize, members: &[u32], distances: &[u32]) -> Vec<LinkId> {
        let distance = distances[switch];
        let nearer = |arc: &&Arc| distance == 0 || distances[arc.to as usize] < distance;
        let mut arcs: Vec<&Arc> = self.arcs(switch).iter().filter(nearer).collect();
        if distance == 1 && members.len() > 1 {
            arcs.sort_unstable_by_key(|arc| arc.to);
            assert_eq!(arcs.len(), members.len(), "a neighbour of one member is a neighbour of all");
        }
        arcs.into_iter().map(|arc| arc.link).collect()
    }
}

fn memberships(classes: &[Vec<u32>], switches: u32) -> Vec<Membership> {
    let mut memberships = vec![Membership::default(); switches as usize];
    for (class, members) in classes.iter().enumerate() {
        for (position, &member) in members.iter().enumerate() {
            memberships[member as usize] = Membership { class: class as u32, position: position as u32 };
        }
    }
    memberships
}
