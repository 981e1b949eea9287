//! Shortest paths, equal-cost choices and the pinned path of a flow.
//!
//! Distances are hops. Tables hold, for each switch and each class of destinations, one set of next links; sets that
//! are equal are stored once. A class is all edge switches with the same neighbours (a pod of a fat-tree, all leaves
//! of a leaf-spine): every other switch reaches them alike, so tables grow with pods, not with racks or hosts.
//!
//! A host with several links is an edge switch of its own in these tables, with itself as its only host, which carries nothing
//! for others. Tables count such places: the switches first, then those hosts.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::topology::{Link, LinkId, NodeId, Topology, TopologyError};

#[cfg(test)]
mod tests;

/// Most table entries (four bytes each) that routing may take.
const MAX_ENTRIES: u64 = 1 << 28;

/// Marks the set of a switch next to a class: its links lead to the class's members one by one, in their order.
const DIRECT: u32 = 1 << 31;

/// Stands for the link of a host that has several.
const SEVERAL: LinkId = LinkId(u32::MAX);

/// Distance of what has not been reached.
const UNREACHED: u32 = u32::MAX;

/// Next hops of every switch, and of hosts with several links, towards every host.
#[derive(Clone, Debug)]
pub struct Routing {
    hosts: u32,
    classes: u32,
    /// Place of each host's edge switch, or of the host itself.
    racks: Vec<u32>,
    /// The link of each host, or [`SEVERAL`].
    uplinks: Vec<LinkId>,
    /// Last link towards each host, or [`SEVERAL`].
    downlinks: Vec<LinkId>,
    memberships: Vec<Membership>,
    /// Set number for place `s` towards class `c` at `s * classes + c`, maybe with [`DIRECT`].
    table: Vec<u32>,
    sets: NextLinkSets,
    /// Next node and its tier by link, to walk a path without the topology.
    heads: Vec<Head>,
    layered: bool,
    /// By link, how often it is taken against others that are as near; empty if all are taken alike.
    weights: Vec<u64>,
    in_turn: bool,
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

    /// The same without these links, of which both directions are listed, and none is the only one of a host. An error where
    /// that leaves a host without a path to another.
    pub fn without(topology: &Topology, dead: &BTreeSet<u32>) -> Result<Self, TopologyError> {
        let fabric = Fabric::new(topology, dead);
        let (mut racks, mut uplinks) = (Vec::new(), Vec::new());
        for host in (0..topology.hosts()).map(NodeId) {
            let several = topology.has_several_links(host);
            uplinks.push(if several { SEVERAL } else { topology.uplink(host) });
            racks.push(if several { fabric.place(host) } else { fabric.place(topology.rack(host)) });
        }
        let classes = fabric.classes(&racks);
        let entries = classes.len() as u64 * fabric.places() as u64;
        if entries > MAX_ENTRIES {
            return Err(TopologyError::TooManyRoutes { entries, limit: MAX_ENTRIES });
        }
        let head = |link: &Link| Head { to: link.to, tier: topology.tier(link.to) };
        let mut routing = Self {
            hosts: topology.hosts(),
            classes: classes.len() as u32,
            racks,
            downlinks: uplinks.iter().map(|&link| if link == SEVERAL { SEVERAL } else { link.reverse() }).collect(),
            uplinks,
            memberships: memberships(&classes, fabric.places() as u32),
            table: vec![0; entries as usize],
            sets: NextLinkSets::default(),
            heads: topology.links().iter().map(head).collect(),
            // With links missing, the two directions of a path need not find the same choices.
            layered: topology.is_layered() && dead.is_empty(),
            weights: Vec::new(),
            in_turn: false,
            max_hops: 0,
        };
        routing.fill(&fabric, &classes).map_err(|(from, to)| TopologyError::Unreachable {
            file: None,
            from: topology.node_name(fabric.node(from)),
            to: topology.node_name(fabric.node(to)),
        })?;
        Ok(routing)
    }

    /// The same where flows take links that are as near in proportion to these weights, one above 0 for each link: weighted
    /// equal-cost paths (WCMP, EuroSys 2014). The sender's side decides, step by step.
    pub fn weighted(self, weights: Vec<u64>) -> Self {
        assert!(
            weights.len() == self.heads.len() && weights.iter().all(|&weight| weight > 0),
            "each link has a weight"
        );
        Self { weights, layered: false, ..self }
    }

    /// The same where flows take the links that are as near in turn.
    pub fn in_turn(self) -> Self {
        Self { in_turn: true, ..self }
    }

    /// Whether flows take the links that are as near in turn.
    pub fn is_in_turn(&self) -> bool {
        self.in_turn
    }

    /// Whether some links are taken more often than others that are as near.
    pub fn is_weighted(&self) -> bool {
        !self.weights.is_empty()
    }

    /// One of `links`, in proportion to their weights, by a number from 0 up to 2^32.
    pub fn weighted_choice(&self, links: &[LinkId], drawn: u32) -> usize {
        if self.weights.is_empty() {
            return ((u64::from(drawn) * links.len() as u64) >> 32) as usize;
        }
        let weight = |link: &LinkId| u128::from(self.weights[link.index()]);
        let sum: u128 = links.iter().map(weight).sum();
        let mut left = (u128::from(drawn) * sum) >> 32;
        for (number, link) in links.iter().enumerate() {
            match left.checked_sub(weight(link)) {
                Some(rest) => left = rest,
                None => return number,
            }
        }
        unreachable!("what is drawn is below the sum")
    }

    /// Equal-cost links out of `node` towards `host`, ordered by plane. Empty at the host itself.
    #[inline]
    pub fn next_links(&self, node: NodeId, host: NodeId) -> &[LinkId] {
        if node == host {
            return &[];
        }
        let rack = self.racks[host.index()];
        let place = if node.0 < self.hosts {
            let uplink = &self.uplinks[node.index()];
            if *uplink != SEVERAL {
                return std::slice::from_ref(uplink);
            }
            self.racks[node.index()]
        } else {
            node.0 - self.hosts
        };
        if place == rack {
            return std::slice::from_ref(&self.downlinks[host.index()]);
        }
        let Membership { class, position } = self.memberships[rack as usize];
        let entry = self.table[place as usize * self.classes as usize + class as usize];
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
                links[self.weighted_choice(links, bits(hash, salt))]
            }
        }
    }

    /// Puts into `path` the links of the flow `key` from `src` to `dst`, two different hosts. Without weights the path of
    /// `(dst, src, key)` is exactly the reverse.
    pub fn path(&self, src: NodeId, dst: NodeId, key: u64, path: &mut Vec<LinkId>) {
        assert!(src != dst, "a path joins two different hosts");
        path.clear();
        if self.layered || self.is_weighted() || src < dst {
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

    /// Puts into `path` the links of the flow with this number from `src` to `dst`, two different hosts, where flows take
    /// turns. The number counts through the links: those at the first switch with several, and after each round of them
    /// those at the next.
    pub fn path_in_turn(&self, src: NodeId, dst: NodeId, number: u64, path: &mut Vec<LinkId>) {
        assert!(src != dst, "a path joins two different hosts");
        path.clear();
        let (mut node, mut rounds) = (src, number);
        while node != dst {
            let links = self.next_links(node, dst);
            let several = links.len() as u64;
            let link = links[(rounds % several) as usize];
            rounds /= several;
            path.push(link);
            node = self.heads[link.index()].to;
            assert!(path.len() <= self.max_hops(), "shortest paths do not loop");
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
            + self.weights.len() * size_of::<u64>()
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

    /// An error names two places without a path between them.
    fn fill(&mut self, fabric: &Fabric, classes: &[Vec<u32>]) -> Result<(), (u32, u32)> {
        let mut index = HashMap::new();
        let mut distances = vec![UNREACHED; fabric.places()];
        for (class, members) in classes.iter().enumerate() {
            fabric.distances_to(members, &mut distances);
            if let Some(&cut) = self.racks.iter().find(|&&rack| distances[rack as usize] == UNREACHED) {
                return Err((cut, members[0]));
            }
            for place in 0..fabric.places() {
                // A switch that lost its last link reaches nothing: its set is empty.
                let distance = distances[place];
                let set = self.sets.insert(fabric.next_hops(place, members, &distances), &mut index);
                // Of a class by itself all links lead to its one member, and there may be several.
                let is_direct = distance == 1 && members.len() > 1;
                self.table[place * classes.len() + class] = if is_direct { set | DIRECT } else { set };
            }
            let last = u32::from(members.iter().any(|&member| !fabric.is_host(member)));
            self.max_hops = self.max_hops.max(last + self.farthest_host(fabric, members, &distances));
        }
        Ok(())
    }

    /// Hops from the farthest host to a class; two between its members, by a neighbour they share.
    fn farthest_host(&self, fabric: &Fabric, members: &[u32], distances: &[u32]) -> u32 {
        let hops = |&rack: &u32| {
            let between = match distances[rack as usize] {
                0 if members.len() > 1 => 2,
                distance => distance,
            };
            between + u32::from(!fabric.is_host(rack))
        };
        self.racks.iter().map(hops).max().unwrap_or(0)
    }
}

/// The hash of a flow for equal-cost choices: the same for both directions. `key` tells apart the flows of one pair of
/// hosts, as ports do.
pub fn ecmp_hash(src: NodeId, dst: NodeId, key: u64) -> u64 {
    let pair = u64::from(src.0.min(dst.0)) << 32 | u64::from(src.0.max(dst.0));
    mix(mix(pair) ^ key)
}

/// The bits of `hash` that belong to `salt`.
#[inline]
fn bits(hash: u64, salt: u32) -> u32 {
    (mix(hash.wrapping_add(u64::from(salt) << 32)) >> 32) as u32
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

/// An arc between places, seen from its sender.
#[derive(Clone, Copy, Debug)]
struct Arc {
    to: u32,
    plane: u32,
    link: LinkId,
}

/// The switches, the hosts with several links, and the links between them, without the other hosts.
#[derive(Debug)]
struct Fabric {
    hosts: u32,
    switches: u32,
    /// The hosts with several links, in their order.
    several: Vec<u32>,
    /// Arcs leaving place `s`, ordered by plane, are `arcs[offsets[s]..offsets[s + 1]]`.
    offsets: Vec<usize>,
    arcs: Vec<Arc>,
}

impl Fabric {
    fn new(topology: &Topology, dead: &BTreeSet<u32>) -> Self {
        let (hosts, switches) = (topology.hosts(), topology.switches());
        let several = (0..hosts).filter(|&host| topology.has_several_links(NodeId(host))).collect();
        let mut fabric = Self { hosts, switches, several, offsets: vec![0], arcs: Vec::new() };
        for place in 0..fabric.places() as u32 {
            let start = fabric.arcs.len();
            for &link in topology.outgoing(fabric.node(place)) {
                let head = topology.link(link);
                let is_left = !topology.is_host(head.to) || topology.has_several_links(head.to);
                if is_left && !dead.contains(&link.0) {
                    let to = fabric.place(head.to);
                    fabric.arcs.push(Arc { to, plane: head.plane, link });
                }
            }
            fabric.arcs[start..].sort_unstable_by_key(|arc| (arc.plane, arc.to, arc.link));
            fabric.offsets.push(fabric.arcs.len());
        }
        fabric
    }

    fn places(&self) -> usize {
        self.switches as usize + self.several.len()
    }

    /// The place of a switch, or of a host with several links.
    fn place(&self, node: NodeId) -> u32 {
        if node.0 >= self.hosts {
            return node.0 - self.hosts;
        }
        self.switches + self.several.binary_search(&node.0).expect("a host with several links") as u32
    }

    /// The node at a place.
    fn node(&self, place: u32) -> NodeId {
        NodeId(place.checked_sub(self.switches).map_or(self.hosts + place, |host| self.several[host as usize]))
    }

    /// Whether a place is a host: it carries nothing for others.
    fn is_host(&self, place: u32) -> bool {
        place >= self.switches
    }

    fn arcs(&self, place: usize) -> &[Arc] {
        &self.arcs[self.offsets[place]..self.offsets[place + 1]]
    }

    /// The places of hosts grouped by their set of neighbours: members of one class are two hops apart and equally far from
    /// every other place. One with several cables to a neighbour is a class by itself.
    fn classes(&self, racks: &[u32]) -> Vec<Vec<u32>> {
        let mut classes: BTreeMap<(Vec<u32>, Option<u32>), Vec<u32>> = BTreeMap::new();
        for place in racks.iter().copied().collect::<BTreeSet<u32>>() {
            let mut neighbours: Vec<u32> = self.arcs(place as usize).iter().map(|arc| arc.to).collect();
            neighbours.sort_unstable();
            // Those without a switch beside them have the same neighbours, and yet no path to each other.
            let is_alone = neighbours.iter().all(|&neighbour| self.is_host(neighbour))
                || neighbours.windows(2).any(|pair| pair[0] == pair[1]);
            let alone = is_alone.then_some(place);
            classes.entry((neighbours, alone)).or_default().push(place);
        }
        classes.into_values().collect()
    }

    /// Hops from every place to the nearest of `members`. Hosts are reached, and not passed through.
    fn distances_to(&self, members: &[u32], distances: &mut [u32]) {
        distances.fill(UNREACHED);
        let mut queue: Vec<u32> = members.to_vec();
        for &member in members {
            distances[member as usize] = 0;
        }
        let mut next = 0;
        while next < queue.len() {
            let place = queue[next];
            next += 1;
            let distance = distances[place as usize] + 1;
            if distance > 1 && self.is_host(place) {
                continue;
            }
            for arc in self.arcs(place as usize) {
                if distances[arc.to as usize] == UNREACHED {
                    distances[arc.to as usize] = distance;
                    queue.push(arc.to);
                }
            }
        }
    }

    /// Links out of `place` towards a class. Beside the class: one link per member, in their order. In the class: all links to
    /// switches, since every neighbour is shared. Elsewhere: the links that come nearer, ordered by plane.
    fn next_hops(&self, place: usize, members: &[u32], distances: &[u32]) -> Vec<LinkId> {
        let distance = distances[place];
        let nearer = |arc: &&Arc| {
            let left = distances[arc.to as usize];
            let ends_there = left == 0 && distance > 0;
            (distance == 0 || left < distance) && (ends_there || !self.is_host(arc.to))
        };
        let mut arcs: Vec<&Arc> = self.arcs(place).iter().filter(nearer).collect();
        if distance == 1 && members.len() > 1 {
            arcs.sort_unstable_by_key(|arc| arc.to);
            assert_eq!(arcs.len(), members.len(), "a neighbour of one member is a neighbour of all");
        }
        arcs.into_iter().map(|arc| arc.link).collect()
    }
}

fn memberships(classes: &[Vec<u32>], places: u32) -> Vec<Membership> {
    let mut memberships = vec![Membership::default(); places as usize];
    for (class, members) in classes.iter().enumerate() {
        for (position, &member) in members.iter().enumerate() {
            memberships[member as usize] = Membership { class: class as u32, position: position as u32 };
        }
    }
    memberships
}
