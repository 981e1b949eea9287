//! The forwarding engine: links, the nodes between them, and what leaves them when.
//!
//! Pure: time and arrivals in, departures out. It is the simulator's network without the simulator: the same
//! [`Link`]s, which take their scheduling decisions at the times when they were due, however late the driver comes. A
//! switch that was descheduled for a while catches up as if it had not been; only the frames themselves are late.

use std::collections::VecDeque;

use pliant_proto::event_queue::{Event, EventQueue};
use pliant_proto::packet::{Body, EndpointId, Packet, TrafficClass};
use pliant_proto::rng::Stream;
use pliant_proto::switch::queue::{Admission, QueueCounters};
use pliant_proto::switch::{Link, QueuePlan, SharedBuffer};
use pliant_proto::time::{Instant, Span};
use pliant_proto::units::Rate;

/// Where a link leads, and where a port's frames go first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NextHop {
    /// A node that chooses the next link.
    Node(u32),
    /// Out of the switch by this port.
    Port(u16),
}

/// A directed link with its queues.
#[derive(Clone, Debug)]
pub struct LinkConfig {
    /// What it is called in counters.
    pub name: String,
    /// Node whose shared buffer its queues take part in; hosts may have numbers of their own.
    pub owner: u32,
    /// Where it leads.
    pub to: NextHop,
    /// Transmission rate.
    pub rate: Rate,
    /// Propagation delay.
    pub delay: Span,
    /// Index of its queues in [`FabricConfig::plans`].
    pub plan: usize,
    /// By so many bits a flow's hash is turned where this link is the first of several equal ones, so that choices on a
    /// flow's way that differ by it do not depend on each other.
    pub hash_turn: u32,
}

/// Where frames that arrive by a port go first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ingress {
    /// Through a link: the sending host's own port and cable.
    Link(u32),
    /// To a node at once: the cable is a real one.
    Node(u32),
}

/// How one of several equal links is chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LoadBalancing {
    /// By the flow.
    #[default]
    Ecmp,
    /// At random for each packet.
    SprayRandom,
    /// In turn for each packet.
    SprayRoundRobin,
}

/// What the engine is made of.
#[derive(Clone, Debug)]
pub struct FabricConfig {
    /// Queues that links have.
    pub plans: Vec<QueuePlan>,
    /// All links.
    pub links: Vec<LinkConfig>,
    /// For each port, where its frames go first.
    pub ingress: Vec<Ingress>,
    /// For each node and destination port the links that lead there, equal in cost; none if unreachable.
    pub routes: Vec<Vec<Vec<u32>>>,
    /// The choice among them.
    pub load_balancing: LoadBalancing,
    /// Seed of markers and of random choices.
    pub seed: u64,
}

/// A frame, as the engine sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arrival {
    /// Where the driver keeps it.
    pub frame: u32,
    /// Port it goes to.
    pub destination: u16,
    /// Bytes it takes on the wire.
    pub wire_bytes: u16,
    /// What queues look at.
    pub traffic_class: TrafficClass,
    /// Hash of its flow, the same for all packets of one.
    pub flow: u32,
}

/// What becomes of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Output {
    /// It leaves.
    Depart {
        /// The frame.
        frame: u32,
        /// The port it came by.
        source: u16,
        /// By this port.
        port: u16,
        /// With this traffic class, maybe marked on its way.
        traffic_class: TrafficClass,
        /// When it was due.
        due: Instant,
    },
    /// A queue refused it, and counted it, or no link leads to its destination.
    Drop {
        /// The frame.
        frame: u32,
    },
}

/// For each link the least time from an arrival at its end until the frame can leave: the delays of the shortest way
/// from there on.
fn ahead(config: &FabricConfig) -> Vec<Span> {
    let is_out = |end: NextHop| matches!(end, NextHop::Port(_));
    let mut ahead: Vec<Span> =
        config.links.iter().map(|link| if is_out(link.to) { Span::ZERO } else { Span::MAX }).collect();
    let mut changed = true;
    while changed {
        changed = false;
        for (index, link) in config.links.iter().enumerate() {
            let NextHop::Node(node) = link.to else { continue };
            let nexts = config.routes[node as usize].iter().flatten().map(|&next| next as usize);
            let least = nexts.map(|next| ahead[next].plus(config.links[next].delay)).min().unwrap_or(Span::MAX);
            if least < ahead[index] {
                ahead[index] = least;
                changed = true;
            }
        }
    }
    ahead
}

/// The least time from any entry to any port.
fn least_crossing(config: &FabricConfig) -> Span {
    let ahead = ahead(config);
    let through = |link: u32| config.links[link as usize].delay.plus(ahead[link as usize]);
    let from = |entry: &Ingress| match entry {
        Ingress::Link(link) => Some(through(*link)),
        Ingress::Node(node) => config.routes[*node as usize].iter().flatten().map(|&link| through(link)).min(),
    };
    config.ingress.iter().filter_map(from).min().unwrap_or(Span::ZERO)
}

/// Kinds of events.
const ARRIVAL: u8 = 0;
const WAKE: u8 = 1;

/// A frame's way, beside what the packet says.
#[derive(Clone, Copy, Debug, Default)]
struct FlowKey {
    source: u16,
    destination: u16,
    flow: u32,
}

/// The engine.
pub struct Fabric {
    now: Instant,
    links: Vec<Link>,
    ends: Vec<NextHop>,
    hash_turns: Vec<u32>,
    /// For each link the least time from an arrival at its end until the frame can leave.
    ahead: Vec<Span>,
    /// When each link was last to be woken.
    wakes: Vec<Instant>,
    /// The least time from a frame's arrival until it can leave.
    least_crossing: Span,
    owners: Vec<u32>,
    /// Shared buffer of each owner; empty if there is none.
    shared: Vec<Option<SharedBuffer>>,
    ingress: Vec<Ingress>,
    routes: Vec<Vec<Vec<u32>>>,
    load_balancing: LoadBalancing,
    stream: Stream,
    round_robin: u32,
    flow_keys: Vec<FlowKey>,
    events: EventQueue,
    outputs: VecDeque<Output>,
    unroutable: u64,
}

impl Fabric {
    /// An empty engine whose frames have numbers below `frames`.
    pub fn new(config: &FabricConfig, frames: usize) -> Self {
        let link = |(id, link): (usize, &LinkConfig)| {
            let to = match link.to {
                NextHop::Node(node) => node,
                NextHop::Port(port) => u32::from(port),
            };
            Link::new(link.rate, link.delay, to, &config.plans[link.plan], config.seed, &format!("link {id}"))
        };
        let owners: Vec<u32> = config.links.iter().map(|link| link.owner).collect();
        let buffer_of = |owner: u32| {
            let first = config.links.iter().find(|link| link.owner == owner)?;
            config.plans[first.plan].shared_buffer.map(SharedBuffer::new)
        };
        let shares = config.plans.iter().any(|plan| plan.shared_buffer.is_some());
        let last = owners.iter().max().map_or(0, |&last| last + 1);
        Self {
            now: Instant::ZERO,
            links: config.links.iter().enumerate().map(link).collect(),
            ends: config.links.iter().map(|link| link.to).collect(),
            hash_turns: config.links.iter().map(|link| link.hash_turn).collect(),
            ahead: ahead(config),
            wakes: vec![Instant::MAX; config.links.len()],
            least_crossing: least_crossing(config),
            owners,
            shared: if shares { (0..last).map(buffer_of).collect() } else { Vec::new() },
            ingress: config.ingress.clone(),
            routes: config.routes.clone(),
            load_balancing: config.load_balancing,
            stream: Stream::named(config.seed, "spray"),
            round_robin: 0,
            flow_keys: vec![FlowKey::default(); frames],
            events: EventQueue::new(),
            outputs: VecDeque::new(),
            unroutable: 0,
        }
    }

    /// Takes a frame that arrives by `port`, after all that was due before.
    pub fn arrive(&mut self, at: Instant, port: u16, arrival: &Arrival) {
        let (at, packet) = self.take(at, port, arrival);
        match self.ingress[usize::from(port)] {
            Ingress::Link(link) => self.enqueue(at, link, packet),
            Ingress::Node(node) => self.forward(at, node, packet),
        }
    }

    /// Puts a frame straight into the link before its destination port: what goes to all ports.
    pub fn arrive_at_last_link(&mut self, at: Instant, port: u16, arrival: &Arrival) {
        let (at, packet) = self.take(at, port, arrival);
        match self.ends.iter().position(|end| *end == NextHop::Port(arrival.destination)) {
            Some(link) => self.enqueue(at, link as u32, packet),
            None => self.drop_unroutable(&packet),
        }
    }

    fn take(&mut self, at: Instant, source: u16, arrival: &Arrival) -> (Instant, Packet) {
        let at = at.max(self.now);
        self.advance(at);
        self.flow_keys[arrival.frame as usize] =
            FlowKey { source, destination: arrival.destination, flow: arrival.flow };
        // Queues look at class and size only: any body will do.
        let packet = Packet::new(arrival.traffic_class, arrival.wire_bytes, Body::Close { messages: 0 });
        (at, packet.to(EndpointId::from_index(arrival.frame)))
    }

    /// Does all that is due by `now`.
    pub fn advance(&mut self, now: Instant) {
        while let Some(event) = self.events.peek().filter(|event| event.at <= now) {
            self.events.remove_first();
            self.now = self.now.max(event.at);
            if event.kind == ARRIVAL {
                self.handle_arrival(event.at, event.entity);
            } else {
                self.wake(event.at, event.entity);
            }
        }
        self.now = self.now.max(now);
    }

    /// The next frame that left or was refused.
    #[inline]
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// A time before which no frame leaves. What happens between links until then can be made up for.
    pub fn next_departure(&self) -> Option<Instant> {
        let arrivals = self.links.iter().zip(&self.wakes).zip(&self.ahead);
        let earliest = arrivals.filter_map(|((link, &wake), &ahead)| {
            let at =
                link.next_arrival().or_else(|| Some(wake).filter(|wake| *wake > self.now && *wake < Instant::MAX))?;
            Some(at.after(ahead))
        });
        earliest.min()
    }

    /// The least time from a frame's arrival until it can leave, by the delays on its way.
    pub fn least_crossing(&self) -> Span {
        self.least_crossing
    }

    /// Time up to which everything was done.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Frames that no link led on.
    pub fn unroutable(&self) -> u64 {
        self.unroutable
    }

    /// Counts of each queue of each link.
    pub fn counters(&self) -> impl Iterator<Item = Vec<QueueCounters>> {
        self.links.iter().map(Link::counters)
    }

    /// Every link as it is at the time up to which everything was done.
    pub fn links_now(&mut self) -> impl Iterator<Item = &Link> {
        for link in 0..self.links.len() as u32 {
            let now = self.now;
            let (link, shared) = self.link_and_buffer(link);
            link.catch_up(now, shared);
        }
        self.links.iter()
    }

    /// Packets that crossed a link.
    pub fn hops(&self) -> u64 {
        self.links.iter().map(|link| link.arrived().packets).sum()
    }

    /// Frames inside: queued, on a wire, or waiting for [`poll_output`](Self::poll_output).
    pub fn inside(&self) -> u64 {
        self.links.iter().map(Link::in_flight).sum::<u64>() + self.outputs.len() as u64
    }

    /// Asserts that every link gave on or holds what it took.
    pub fn assert_conserved(&self) {
        for (id, link) in self.links.iter().enumerate() {
            link.assert_conserved(|| format!("link {id}"));
        }
    }

    fn handle_arrival(&mut self, now: Instant, link: u32) {
        let (port, shared) = self.link_and_buffer(link);
        let packet = port.take_arrival(now, shared);
        self.schedule_next(link);
        match self.ends[link as usize] {
            NextHop::Node(node) => self.forward(now, node, packet),
            NextHop::Port(port) => {
                let (frame, traffic_class) = (packet.to.index(), packet.traffic_class);
                let source = self.flow_keys[frame as usize].source;
                self.outputs.push_back(Output::Depart { frame, source, port, traffic_class, due: now });
            }
        }
    }

    fn forward(&mut self, now: Instant, node: u32, packet: Packet) {
        let FlowKey { destination, flow, .. } = self.flow_keys[packet.to.index() as usize];
        let links = &self.routes[node as usize][usize::from(destination)];
        let link = match (links.as_slice(), self.load_balancing) {
            ([], _) => return self.drop_unroutable(&packet),
            (&[only], _) => only,
            (links, LoadBalancing::Ecmp) => {
                let turn = self.hash_turns[links[0] as usize];
                links[flow.rotate_right(turn) as usize % links.len()]
            }
            (links, LoadBalancing::SprayRandom) => links[self.stream.below(links.len() as u64) as usize],
            (links, LoadBalancing::SprayRoundRobin) => {
                self.round_robin = self.round_robin.wrapping_add(1);
                links[self.round_robin as usize % links.len()]
            }
        };
        self.enqueue(now, link, packet);
    }

    fn drop_unroutable(&mut self, packet: &Packet) {
        self.unroutable += 1;
        self.outputs.push_back(Output::Drop { frame: packet.to.index() });
    }

    fn enqueue(&mut self, now: Instant, link: u32, packet: Packet) {
        let (port, shared) = self.link_and_buffer(link);
        // A port that is behind still holds what should have left: a packet that fits beside that fits.
        if shared.is_some_and(|shared| !port.fits_shared(&packet, shared)) {
            self.catch_up_neighbours(now, link);
        }
        let (port, shared) = self.link_and_buffer(link);
        let idle = port.next_arrival().is_none();
        let admission = port.enqueue(now, &packet, shared);
        let lost = match admission {
            Admission::Queued => None,
            Admission::Dropped(_) => Some(packet),
            // Frames are never pulled data, so none is trimmed and none goes back.
            Admission::Displaced | Admission::Returned => port.take_displaced(),
        };
        if let Some(lost) = lost {
            self.outputs.push_back(Output::Drop { frame: lost.to.index() });
        }
        if idle {
            self.schedule_next(link);
        }
    }

    /// A shared buffer's free room is known only when all links of its owner are up to date.
    fn catch_up_neighbours(&mut self, now: Instant, link: u32) {
        let owner = self.owners[link as usize];
        for neighbour in 0..self.links.len() as u32 {
            if self.owners[neighbour as usize] == owner {
                let (port, shared) = self.link_and_buffer(neighbour);
                let idle = port.next_arrival().is_none();
                port.catch_up(now, shared);
                if idle {
                    self.schedule_next(neighbour);
                }
            }
        }
    }

    fn wake(&mut self, now: Instant, link: u32) {
        let (port, shared) = self.link_and_buffer(link);
        if port.next_arrival().is_none() {
            port.catch_up(now, shared);
            self.schedule_next(link);
        }
    }

    /// Schedules the first arrival of a wire that has no event pending, or the wake-up of a port that waits for tokens.
    fn schedule_next(&mut self, link: u32) {
        let port = &mut self.links[link as usize];
        if let Some(at) = port.next_arrival() {
            self.events.push(Event { at, kind: ARRIVAL, order: 0, entity: link });
        } else if let Some(at) = port.wake_at() {
            self.wakes[link as usize] = at;
            self.events.push(Event { at, kind: WAKE, order: 0, entity: link });
        }
    }

    #[inline]
    fn link_and_buffer(&mut self, link: u32) -> (&mut Link, Option<&mut SharedBuffer>) {
        let shared =
            if self.shared.is_empty() { None } else { self.shared[self.owners[link as usize] as usize].as_mut() };
        (&mut self.links[link as usize], shared)
    }
}
