//! Lays cables one by one and finishes the arrays of a [`Topology`].

use std::collections::{BTreeMap, VecDeque};

use super::{Link, LinkId, LinkSpec, MAX_HOSTS, MAX_LINKS, NodeGroup, NodeId, NodeNames, Topology, TopologyError};

/// Sizes of a topology before it is built, wide enough not to overflow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    pub(super) hosts: u64,
    pub(super) switches: u64,
    pub(super) cables: u64,
}

/// A topology in the making.
#[derive(Debug)]
pub(super) struct Builder {
    kind: &'static str,
    hosts: u32,
    switches: u32,
    links: Vec<Link>,
    names: NodeNames,
    layered: bool,
}

impl Builder {
    /// An empty topology of this size; refuses sizes beyond the limits before it takes memory.
    pub(super) fn new(kind: &'static str, size: Size) -> Result<Self, TopologyError> {
        if size.hosts > MAX_HOSTS {
            return Err(TopologyError::TooManyHosts { hosts: size.hosts });
        }
        // A connected network has a cable per switch, so this bounds switches too.
        let links = size.cables.max(size.switches).saturating_mul(2);
        if links > MAX_LINKS {
            return Err(TopologyError::TooManyLinks { links });
        }
        let hosts = size.hosts as u32;
        Ok(Self {
            kind,
            hosts,
            switches: size.switches as u32,
            links: Vec::with_capacity(links as usize),
            names: NodeNames::Groups(vec![NodeGroup { first: 0, label: "host", per_pod: None }]),
            layered: true,
        })
    }

    /// Names the nodes from `first` on `label`, in pods of `per_pod` if given. Call in order of `first`.
    pub(super) fn name_from(mut self, first: u32, label: &'static str, per_pod: Option<u32>) -> Self {
        if let NodeNames::Groups(groups) = &mut self.names {
            groups.push(NodeGroup { first, label, per_pod });
        }
        self
    }

    /// Gives every node the name that a file gave it, and expects any wiring.
    pub(super) fn listed(mut self, names: Vec<String>) -> Self {
        self.names = NodeNames::Listed(names);
        self.layered = false;
        self
    }

    /// The two directions of a flow may choose differently, step by step.
    pub(super) fn unlayered(mut self) -> Self {
        self.layered = false;
        self
    }

    /// Lays a cable between `a` and `b`.
    pub(super) fn cable(&mut self, a: u32, b: u32, spec: LinkSpec, plane: u32) {
        let (from, to) = (NodeId(a), NodeId(b));
        let link = Link { from, to, rate: spec.rate, delay: spec.delay, plane };
        self.links.push(link);
        self.links.push(Link { from: to, to: from, ..link });
    }

    /// Indexes the links and checks that the network is one.
    pub(super) fn finish(self) -> Result<Topology, TopologyError> {
        let nodes = (self.hosts + self.switches) as usize;
        let (offsets, outgoing) = index_by_sender(nodes, &self.links);
        let uplinks = (0..self.hosts as usize).map(|host| {
            assert!(offsets[host + 1] > offsets[host], "host {host} has a link");
            outgoing[offsets[host] as usize]
        });
        let mut topology = Topology {
            kind: self.kind,
            hosts: self.hosts,
            switches: self.switches,
            uplinks: uplinks.collect(),
            links: self.links,
            offsets,
            outgoing,
            tiers: Vec::new(),
            layered: self.layered,
            names: self.names,
            parallel: BTreeMap::new(),
        };
        topology.parallel = topology.parallel_links();
        topology.check_connected()?;
        topology.tiers = topology.distances_from_hosts();
        Ok(topology)
    }
}

/// Sorts links by sending node, keeping their order within a node (counting sort).
fn index_by_sender(nodes: usize, links: &[Link]) -> (Vec<u32>, Vec<LinkId>) {
    let mut offsets = vec![0u32; nodes + 1];
    for link in links {
        offsets[link.from.index() + 1] += 1;
    }
    for node in 0..nodes {
        offsets[node + 1] += offsets[node];
    }
    let mut next = offsets.clone();
    let mut outgoing = vec![LinkId(0); links.len()];
    for (id, link) in links.iter().enumerate() {
        let place = &mut next[link.from.index()];
        outgoing[*place as usize] = LinkId(id as u32);
        *place += 1;
    }
    (offsets, outgoing)
}

impl Topology {
    /// The number of each link that is not the first between its nodes.
    fn parallel_links(&self) -> BTreeMap<LinkId, u32> {
        let mut parallel = BTreeMap::new();
        for node in 0..self.nodes() {
            let mut of_node: Vec<LinkId> = self.outgoing(NodeId(node)).to_vec();
            of_node.sort_by_key(|&link| (self.link(link).to, link));
            for same in of_node.chunk_by(|&a, &b| self.link(a).to == self.link(b).to) {
                parallel.extend(same.iter().copied().zip(1..).skip(1));
            }
        }
        parallel
    }

    fn check_connected(&self) -> Result<(), TopologyError> {
        let distances = self.breadth_first([NodeId(0)]);
        match distances.iter().position(Option::is_none) {
            None => Ok(()),
            Some(node) => Err(TopologyError::Unreachable {
                file: None,
                from: self.node_name(NodeId(0)),
                to: self.node_name(NodeId(node as u32)),
            }),
        }
    }

    /// Hops from each switch to its nearest host.
    fn distances_from_hosts(&self) -> Vec<u32> {
        let distances = self.breadth_first((0..self.hosts).map(NodeId));
        let switches = &distances[self.hosts as usize..];
        switches.iter().map(|distance| distance.expect("a connected network has no lone switch")).collect()
    }

    /// Hops from the nearest of `sources` to each node; `None` where there is no path.
    fn breadth_first(&self, sources: impl IntoIterator<Item = NodeId>) -> Vec<Option<u32>> {
        let mut distances = vec![None; self.nodes() as usize];
        let mut queue = VecDeque::new();
        for source in sources {
            distances[source.index()] = Some(0);
            queue.push_back((source, 0));
        }
        while let Some((node, distance)) = queue.pop_front() {
            for &link in self.outgoing(node) {
                let to = self.link(link).to;
                if distances[to.index()].is_none() {
                    distances[to.index()] = Some(distance + 1);
                    queue.push_back((to, distance + 1));
                }
            }
        }
        distances
    }
}
