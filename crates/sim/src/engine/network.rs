//! Everything between the endpoints: links, shared buffers, the choice of paths.

use std::collections::BTreeSet;

use pliant_proto::host::{Host, HostRequest};
use pliant_proto::packet::{EndpointId, Packet, Side, TrafficClass};
use pliant_proto::rng::Stream;
use pliant_proto::switch::queue::{Admission, DropReason, QueueCounters};
use pliant_proto::switch::{Link, SharedBuffer};
use pliant_proto::time::Instant;
use pliant_proto::units::Rate;

use super::attachments::Attachments;
use super::hosts::Hosts;
use super::losses::Losses;
use super::schedule::{Schedule, kind};
use super::setup::{Flowlets, PathChoice, Reroute, Setup};
use crate::port_plans::PortPlans;
use crate::routing::{Routing, ecmp_hash};
use crate::topology::{LinkId, NodeId, Topology};
use crate::traffic::FlowSpec;

/// Links, buffers and path choice.
pub(super) struct Network<'a> {
    topology: &'a Topology,
    routing: &'a Routing,
    plans: PortPlans<'a>,
    links: Vec<Link>,
    hosts: u32,
    /// The shared buffer of each node that has one; empty if none has.
    shared: Vec<Option<SharedBuffer>>,
    path_choice: PathChoice,
    /// Whether a packet's next link is not simply that of its flow's path.
    chooses: bool,
    reroutes: &'a [Reroute],
    /// The links that paths leave out now.
    left_out: Option<&'a BTreeSet<u32>>,
    seed: u64,
    /// Draws for random spraying.
    stream: Stream,
    /// Packets sprayed so far by each node, for spraying in turn.
    turns: Vec<u32>,
    /// What is left of the order in which each node goes through its equal-cost links, for spraying by permutations.
    orders: Vec<Vec<u16>>,
    /// The flowlets of packets to each endpoint, for each switch that they passed.
    flowlets: Vec<Vec<Flowlet>>,
    /// The same where switches have tables of a fixed size: those of each switch that has chosen so far.
    flowlet_tables: Vec<Vec<Option<(LinkId, Instant)>>>,
    /// SACK blocks of packets under way.
    pub(super) attachments: Attachments,
    losses: Losses,
    /// What the flows of each host share.
    pub(super) shared_hosts: Hosts,
}

impl<'a> Network<'a> {
    pub(super) fn new(setup: &Setup<'a>) -> Self {
        let topology = setup.topology;
        let plans = setup.plans;
        let link = |(id, spec): (usize, &crate::topology::Link)| {
            let plan = plans.of(topology, LinkId(id as u32));
            let trims = topology.is_host(spec.from) && plan.trims().is_some();
            assert!(!trims, "hosts do not trim: nothing could be returned to their flows");
            Link::new(spec.rate, spec.delay, spec.to.0, plan, setup.seed, &format!("link {id}"))
        };
        let nodes = topology.nodes() as usize;
        let shared = |node| plans.shared_buffer(topology, NodeId(node));
        let shares = plans.all().any(|plan| plan.shared_buffer.is_some());
        Self {
            topology,
            routing: setup.routing,
            plans,
            links: topology.links().iter().enumerate().map(link).collect(),
            hosts: topology.hosts(),
            shared: if shares { (0..nodes as u32).map(shared).collect() } else { Vec::new() },
            path_choice: setup.path_choice,
            chooses: setup.path_choice != PathChoice::Ecmp || !setup.reroutes.is_empty(),
            reroutes: setup.reroutes,
            left_out: None,
            seed: setup.seed,
            stream: Stream::named(setup.seed, "spray"),
            turns: vec![0; nodes],
            orders: vec![Vec::new(); if setup.path_choice == PathChoice::SprayPermutation { nodes } else { 0 }],
            flowlets: Vec::new(),
            flowlet_tables: vec![
                Vec::new();
                if matches!(setup.path_choice, PathChoice::Flowlet(_)) { nodes } else { 0 }
            ],
            attachments: Attachments::default(),
            losses: Losses::new(setup.losses, setup.seed),
            shared_hosts: Hosts::default(),
        }
    }

    /// Takes the packet that arrives on `link` now; tells the node it reaches, `None` for a host.
    #[inline(always)]
    pub(super) fn take_arrival(
        &mut self,
        now: Instant,
        link: u32,
        schedule: &mut Schedule,
    ) -> (Packet, Option<NodeId>) {
        let (port, shared) = self.port_and_buffer(link);
        let mut packet = port.take_arrival(now, shared);
        packet.hops += 1;
        let to = port.to();
        Self::schedule_next(port, link, schedule);
        (packet, (to >= self.hosts).then_some(NodeId(to)))
    }

    /// Queues a packet on `link`.
    #[inline(always)]
    pub(super) fn enqueue(&mut self, now: Instant, link: u32, packet: &Packet, schedule: &mut Schedule) -> Admission {
        if self.losses.takes(now, link, packet) {
            return Admission::Dropped(DropReason::Loss);
        }
        if !self.shared.is_empty() {
            return self.enqueue_shared(now, link, packet, schedule);
        }
        let port = &mut self.links[link as usize];
        let idle = port.next_arrival().is_none();
        let admission = port.enqueue(now, packet, None);
        if idle {
            Self::schedule_next(port, link, schedule);
        }
        admission
    }

    /// The packet that the last one queued on `link` displaced or sent back.
    pub(super) fn take_displaced(&mut self, link: u32) -> Option<Packet> {
        self.links[link as usize].take_displaced()
    }

    /// The same where queues share a buffer, and for packets so rare that they are not worth another copy of the short way.
    /// A port that is behind still holds what should have left, so a packet that fits beside that fits; only otherwise the
    /// free room must be known.
    #[inline(never)]
    pub(super) fn enqueue_shared(
        &mut self,
        now: Instant,
        link: u32,
        packet: &Packet,
        schedule: &mut Schedule,
    ) -> Admission {
        let (port, shared) = self.port_and_buffer(link);
        if shared.is_some_and(|shared| !port.fits_shared(packet, shared)) {
            self.catch_up_neighbours(now, link, schedule);
        }
        let (port, shared) = self.port_and_buffer(link);
        let idle = port.next_arrival().is_none();
        let admission = port.enqueue(now, packet, shared);
        if idle {
            Self::schedule_next(port, link, schedule);
        }
        admission
    }

    /// The time has come that [`Link::wake_at`] named.
    #[inline(never)]
    pub(super) fn wake(&mut self, now: Instant, link: u32, schedule: &mut Schedule) {
        let (port, shared) = self.port_and_buffer(link);
        if port.next_arrival().is_none() {
            port.catch_up(now, shared);
            Self::schedule_next(port, link, schedule);
        }
    }

    /// Schedules the first arrival of a wire that has no event pending, or the wake-up of a port that waits for tokens.
    #[inline(always)]
    fn schedule_next(port: &mut Link, link: u32, schedule: &mut Schedule) {
        if let Some(at) = port.next_arrival() {
            schedule.arrival(at, link);
        } else if let Some(at) = port.wake_at() {
            schedule.push(at, kind::WAKE_PORT, link);
        }
    }

    #[inline]
    fn port_and_buffer(&mut self, link: u32) -> (&mut Link, Option<&mut SharedBuffer>) {
        let shared = if self.shared.is_empty() {
            None
        } else {
            self.shared[self.topology.links()[link as usize].from.index()].as_mut()
        };
        (&mut self.links[link as usize], shared)
    }

    /// A shared buffer's free room is known only when all its node's ports are up to date. A port whose tokens come at
    /// this very instant may so find a packet for its idle wire before its wake-up does.
    fn catch_up_neighbours(&mut self, now: Instant, link: u32, schedule: &mut Schedule) {
        let node = self.topology.links()[link as usize].from;
        let Some(Some(shared)) = self.shared.get_mut(node.index()) else { return };
        for neighbour in self.topology.outgoing(node) {
            let port = &mut self.links[neighbour.index()];
            let idle = port.next_arrival().is_none();
            port.catch_up(now, Some(shared));
            if idle {
                Self::schedule_next(port, neighbour.0, schedule);
            }
        }
    }

    /// The next link of a packet at `node` towards `destination` when each packet chooses its path.
    pub(super) fn spray(&mut self, node: NodeId, destination: u32) -> u32 {
        let links = self.routing.next_links(node, NodeId(destination));
        if links.is_empty() {
            return self.topology.outgoing(node)[0].0;
        }
        let choice = match self.path_choice {
            _ if links.len() == 1 => 0,
            PathChoice::SprayRandom => self.stream.below(links.len() as u64) as usize,
            PathChoice::SprayRoundRobin => {
                let turn = &mut self.turns[node.index()];
                *turn = turn.wrapping_add(1);
                *turn as usize % links.len()
            }
            PathChoice::SprayPermutation => {
                let order = &mut self.orders[node.index()];
                // An order of more links than there are to this destination is one for others.
                if let Some(choice) = order.pop().map(usize::from).filter(|&choice| choice < links.len()) {
                    choice
                } else {
                    order.clear();
                    order.extend(0..links.len() as u16);
                    self.stream.shuffle(order);
                    usize::from(order.pop().expect("there is a link"))
                }
            }
            PathChoice::Flowlet(_) => unreachable!("flowlets have a choice of their own"),
            PathChoice::Ecmp => unreachable!("a pinned path needs no choice"),
        };
        links[choice].0
    }

    /// How packets go by flowlets, if they do.
    pub(super) fn by_flowlets(&self) -> Option<Flowlets> {
        match self.path_choice {
            PathChoice::Flowlet(flowlets) => Some(flowlets),
            _ => None,
        }
    }

    /// The next link at `node` of a packet to an endpoint on `destination`: that of the last packet if it passed less than
    /// the gap ago, else one at random. A flow's first takes its pinned path. With a table of a fixed size, the last packet of
    /// any flow of the same entry counts; `flow` is the flow's number.
    pub(super) fn flowlet(
        &mut self,
        (now, Flowlets { gap, table }): (Instant, Flowlets),
        node: NodeId,
        (to, destination, flow): (EndpointId, u32, u64),
        pinned: u32,
    ) -> u32 {
        let links = match self.routing.next_links(node, NodeId(destination)) {
            [] => return self.topology.outgoing(node)[0].0,
            [only] => return only.0,
            links => links,
        };
        if let Some(entries) = table {
            let of_switch = &mut self.flowlet_tables[node.index()];
            of_switch.resize(entries as usize, None);
            // Both directions of a flow have entries of their own, and other ones at each switch.
            let key = ecmp_hash(node, NodeId(u32::from(to.side() == Side::Initiator)), flow);
            let entry = &mut of_switch[((u128::from(key) * u128::from(entries)) >> 64) as usize];
            let chosen = match *entry {
                Some((link, at)) if now.since(at) < gap && links.contains(&link) => link,
                _ => links[self.routing.weighted_choice(links, self.stream.below(1 << 32) as u32)],
            };
            *entry = Some((chosen, now));
            return chosen.0;
        }
        let place = to.index() as usize;
        if self.flowlets.len() <= place {
            self.flowlets.resize_with(place + 1, Vec::new);
        }
        let of_endpoint = &mut self.flowlets[place];
        let known = of_endpoint.iter().position(|flowlet| flowlet.node == node);
        let chosen = match known.map(|at| of_endpoint[at]) {
            Some(last) if now.since(last.at) < gap && links.contains(&last.link) => last.link,
            None if links.contains(&LinkId(pinned)) => LinkId(pinned),
            _ => links[self.routing.weighted_choice(links, self.stream.below(1 << 32) as u32)],
        };
        let flowlet = Flowlet { node, link: chosen, at: now };
        match known {
            Some(at) => of_endpoint[at] = flowlet,
            None => of_endpoint.push(flowlet),
        }
        chosen.0
    }

    /// A new flow has these endpoints: what their last one left is no longer so.
    pub(super) fn forget_flowlets(&mut self, endpoints: [EndpointId; 2]) {
        for endpoint in endpoints {
            if let Some(flowlets) = self.flowlets.get_mut(endpoint.index() as usize) {
                flowlets.clear();
            }
        }
    }

    /// Whether a packet's next link is not simply that of its flow's path.
    #[inline]
    pub(super) fn chooses(&self) -> bool {
        self.chooses
    }

    /// Takes the paths of a move.
    pub(super) fn reroute(&mut self, number: usize) {
        let reroute = &self.reroutes[number];
        (self.routing, self.left_out) = (&reroute.routing, Some(&reroute.dead));
    }

    /// Whether paths leave this link out now.
    pub(super) fn is_left_out(&self, link: u32) -> bool {
        self.left_out.is_some_and(|dead| dead.contains(&link))
    }

    /// The link of a packet's pinned path if it leaves `node` and is not left out, else one that comes nearer.
    pub(super) fn keep_to_path(&self, node: NodeId, destination: u32, pinned: u32, hash: u64) -> u32 {
        let leaves = self.topology.links().get(pinned as usize).is_some_and(|link| link.from == node);
        if leaves && !self.is_left_out(pinned) {
            return pinned;
        }
        match self.routing.next_links(node, NodeId(destination)) {
            // A switch without a link: what reached it is lost with the first one that failed.
            [] => self.topology.outgoing(node)[0].0,
            _ => self.routing.ecmp_link(node, NodeId(destination), hash).0,
        }
    }

    /// Whether each packet chooses its path.
    #[inline]
    pub(super) fn sprays(&self) -> bool {
        self.path_choice != PathChoice::Ecmp
    }

    /// Pins the path of a new flow. The seed and the flow's place in its group choose among equal-cost paths, so another
    /// group moves no flow of this one.
    pub(super) fn path(&self, spec: &FlowSpec, path: &mut Vec<LinkId>) {
        flow_path(self.routing, spec, self.seed, path);
    }

    /// The links of the pinned path that `route` begins with: up to the first that reaches a host.
    pub(super) fn path_of(&self, route: &[u32]) -> Vec<u32> {
        let last = route.iter().position(|&link| self.links[link as usize].to() < self.hosts);
        route[..=last.expect("a path ends at a host")].to_vec()
    }

    /// A link with all decisions taken that were due.
    pub(super) fn caught_up(&mut self, now: Instant, link: u32) -> &Link {
        let (port, shared) = self.port_and_buffer(link);
        port.catch_up(now, shared);
        port
    }

    /// Passes on what an endpoint, whose host sends it by link `nic`, asks of what the flows of its host share.
    ///
    /// A flow that keeps to its path arrives by the link by which its answers leave. Where switches choose for each packet or
    /// each burst, it arrives by any.
    pub(super) fn ask_host(
        &mut self,
        now: Instant,
        (host, nic): (u32, u32),
        end: (EndpointId, u32),
        request: HostRequest,
        schedule: &mut Schedule,
    ) {
        let (topology, sprays, node) = (self.topology, self.sprays(), NodeId(host));
        let links = topology.outgoing(node);
        let place = links.iter().position(|link| link.0 == nic).unwrap_or_default();
        let machines = || {
            let rates: Vec<Rate> = links.iter().map(|&link| topology.link(link).rate).collect();
            let together = [topology.host_rate(node)];
            Host::with_links(&rates, if sprays { &together } else { &rates })
        };
        self.shared_hosts.ask(now, (host, place), end, request, machines, schedule);
    }

    /// A link's rate.
    pub(super) fn rate(&self, link: u32) -> Rate {
        self.topology.links()[link as usize].rate
    }

    /// Whether nothing reaches a host now.
    pub(super) fn is_cut_off(&self, now: Instant, host: u32) -> bool {
        self.topology.outgoing(NodeId(host)).iter().all(|link| self.losses.all_at(now, link.reverse().0))
    }

    /// The queue of a link that takes a class.
    pub(super) fn queue_of(&self, link: u32, class: TrafficClass) -> usize {
        usize::from(self.plans.of(self.topology, LinkId(link)).queue_of_class[class.class()])
    }

    /// Every link as it is at `now`.
    pub(super) fn links_at(&mut self, now: Instant) -> impl Iterator<Item = &Link> {
        for link in 0..self.links.len() as u32 {
            let (port, shared) = self.port_and_buffer(link);
            port.catch_up(now, shared);
        }
        self.links.iter()
    }

    /// Each queue's counts, by link.
    pub(super) fn counters(&self) -> impl Iterator<Item = Vec<QueueCounters>> {
        self.links.iter().enumerate().map(|(link, port)| {
            let mut counters = port.counters();
            for (class, lost) in self.losses.counts(link as u32) {
                let sum = &mut counters[self.queue_of(link as u32, class)].dropped[DropReason::Loss as usize];
                (sum.packets, sum.bytes) = (sum.packets + lost.packets, sum.bytes + lost.bytes);
            }
            counters
        })
    }

    /// Asserts that no packet or byte was made or lost, on each link and from link to link.
    pub(super) fn assert_conserved(&self) {
        for (id, link) in self.links.iter().enumerate() {
            link.assert_conserved(|| format!("link {id}"));
        }
    }

    /// Packets queued or on a wire.
    pub(super) fn in_flight(&self) -> u64 {
        self.links.iter().map(Link::in_flight).sum()
    }

    /// Packets that crossed a link.
    pub(super) fn packet_hops(&self) -> u64 {
        self.links.iter().map(|link| link.arrived().packets).sum()
    }
}

/// The last packet of a flow that passed a switch.
#[derive(Clone, Copy, Debug)]
struct Flowlet {
    node: NodeId,
    link: LinkId,
    at: Instant,
}

/// Puts into `path` the links of a flow. The seed and its place in its group choose among equal-cost paths.
pub fn flow_path(routing: &Routing, spec: &FlowSpec, seed: u64, path: &mut Vec<LinkId>) {
    let (source, destination) = (NodeId(spec.source), NodeId(spec.destination));
    if routing.is_in_turn() {
        return routing.path_in_turn(source, destination, spec.sequence, path);
    }
    let key = spec.sequence ^ u64::from(spec.group) << 48 ^ seed.rotate_left(32);
    routing.path(source, destination, key, path);
}
