//! The oracle of Near-Opt flows: it sees every queue they cross and every packet the network drops
//! ([`pliant_proto::transport::near_opt`]).
//!
//! The class of a link's queue is its place in the port's plan, the first above all others. What waits in the device
//! FIFO behind the scheduler leaves before any packet still in a queue, so it counts as queued whatever its class.
//! Rates are computed at the multiples of the interval at which there are flows to tell. Where a link had none for a
//! while, what it sent in the last interval is the mean since it was looked at last.
//!
//! The paper's formula is a fluid's. Packets of flows that together just fill a link meet at it, so each flow may have
//! one waiting though none sends too much. These do not count as queued; counted, they would leave 2 % of a link idle
//! with two flows and up to 11 % with sixteen, at the default interval.

mod rate;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use pliant_proto::packet::{Body, EndpointId, Packet, Side, TrafficClass};
use pliant_proto::switch::queue::Occupancy;
use pliant_proto::time::{Instant, Span};
use pliant_proto::transport::near_opt::{OracleAnswer, OracleRequest, PacketFate};
use pliant_proto::units::Rate;

use super::network::Network;
use rate::Load;

/// Knows the flows that ask, the links they cross, and what they lost.
pub(super) struct Oracle {
    interval: Span,
    /// Whether an update is pending.
    updates: bool,
    requests: VecDeque<(EndpointId, OracleRequest)>,
    /// By flow.
    flows: BTreeMap<u32, Followed>,
    /// Data packets of such flows that were dropped and not asked about since: flow and first byte.
    dropped: BTreeSet<(u32, u64)>,
    links: Vec<Watched>,
    /// Place in `links`, by link.
    places: BTreeMap<u32, usize>,
}

/// A flow with data to send.
struct Followed {
    /// Place in [`Oracle::links`] and queue, of each link of its path.
    path: Vec<(usize, usize)>,
    rate: Rate,
    /// The greatest number in an acknowledgement that was dropped.
    dropped_ack: u64,
}

/// A link that such flows cross or crossed.
struct Watched {
    link: u32,
    capacity: Rate,
    /// In the order of the plan.
    queues: Vec<QueueLoad>,
    /// Bytes that wait in the device FIFO.
    device_bytes: u64,
    /// Flows that cross it.
    flows: u32,
    /// When what it sent was last counted.
    counted_at: Instant,
}

/// A queue, as of the last look at it.
#[derive(Clone, Copy, Default)]
struct QueueLoad {
    /// Bytes that left it since the run began.
    left: u64,
    /// The same when they were last counted.
    left_before: u64,
    /// Bytes that left it in the interval before that.
    sent: u64,
    queued: Occupancy,
    flows: u32,
}

impl QueueLoad {
    /// What waits beyond one packet of each flow.
    fn backlog_bytes(&self) -> u64 {
        let Occupancy { packets, bytes } = self.queued;
        let backlog = packets.saturating_sub(self.flows);
        if backlog == 0 { 0 } else { bytes * u64::from(backlog) / u64::from(packets) }
    }
}

impl Oracle {
    /// An oracle that computes rates every `interval`, once somebody asks for them.
    pub(super) fn new(interval: Span) -> Self {
        assert!(interval > Span::ZERO, "an interval takes time");
        Self {
            interval,
            updates: false,
            requests: VecDeque::new(),
            flows: BTreeMap::new(),
            dropped: BTreeSet::new(),
            links: Vec::new(),
            places: BTreeMap::new(),
        }
    }

    /// Takes a request; true if it is now the only one that waits for an answer.
    #[cold]
    pub(super) fn ask(&mut self, endpoint: EndpointId, request: OracleRequest) -> bool {
        if request == OracleRequest::UnfollowRate {
            // At once: the flow's number may be given to another before answers are due.
            self.unfollow(endpoint.flow());
            return false;
        }
        self.requests.push_back((endpoint, request));
        self.requests.len() == 1
    }

    /// The network has dropped a packet.
    #[cold]
    pub(super) fn on_drop(&mut self, packet: &Packet) {
        let flow = packet.to.flow();
        let Some(followed) = self.flows.get_mut(&flow) else { return };
        match packet.body() {
            Body::Data { seq, .. } => {
                let new = self.dropped.insert((flow, seq));
                assert!(new, "a packet is sent again only after its drop was told");
            }
            Body::Ack { ack, .. } => followed.dropped_ack = followed.dropped_ack.max(ack),
            _ => {}
        }
    }

    /// The next request that waits for its [answer](Self::answer).
    pub(super) fn next_request(&mut self) -> Option<(EndpointId, OracleRequest)> {
        self.requests.pop_front()
    }

    /// Answers a request of `endpoint`, whose packets' path begins with `route`.
    pub(super) fn answer(
        &mut self,
        now: Instant,
        endpoint: EndpointId,
        request: OracleRequest,
        route: &[u32],
        network: &mut Network<'_>,
    ) -> OracleAnswer {
        let flow = endpoint.flow();
        assert_eq!(endpoint.side(), Side::Initiator, "the sender of a flow asks");
        match request {
            OracleRequest::FollowRate { class } => OracleAnswer::Rate(self.follow(now, flow, class, route, network)),
            OracleRequest::UnfollowRate => unreachable!("that needs no answer"),
            OracleRequest::Fate { seq } => OracleAnswer::Fate { seq, fate: self.fate(flow, seq) },
        }
    }

    fn follow(
        &mut self,
        now: Instant,
        flow: u32,
        class: TrafficClass,
        route: &[u32],
        network: &mut Network<'_>,
    ) -> Rate {
        assert!(!network.sprays(), "a flow whose rate is followed keeps to one path");
        let crossed = network.path_of(route);
        let path = crossed.into_iter().map(|link| (self.place(link, network), network.queue_of(link, class)));
        let path: Vec<(usize, usize)> = path.collect();
        for &(place, queue) in &path {
            let link = &mut self.links[place];
            link.look(now, network);
            if link.flows == 0 {
                link.count_sent(now, self.interval);
            }
            link.flows += 1;
            link.queues[queue].flows += 1;
        }
        let rate = fair_rate(&self.links, self.interval, &path);
        self.flows.insert(flow, Followed { path, rate, dropped_ack: 0 });
        rate
    }

    fn unfollow(&mut self, flow: u32) {
        let followed = self.flows.remove(&flow).expect("the flow was followed");
        for (place, queue) in followed.path {
            self.links[place].flows -= 1;
            self.links[place].queues[queue].flows -= 1;
        }
        assert!(
            self.dropped.range((flow, 0)..=(flow, u64::MAX)).next().is_none(),
            "a flow ends only after every packet of it that was dropped was sent again"
        );
    }

    fn fate(&mut self, flow: u32, seq: u64) -> PacketFate {
        if self.dropped.remove(&(flow, seq)) {
            return PacketFate::Dropped;
        }
        match self.flows.get(&flow) {
            Some(&Followed { dropped_ack, .. }) if dropped_ack > seq => PacketFate::Arrived { ack: dropped_ack },
            _ => PacketFate::UnderWay,
        }
    }

    /// When to update next, if there is somebody to tell and it was not said before.
    pub(super) fn schedule_update(&mut self, now: Instant) -> Option<Instant> {
        if self.updates || self.flows.is_empty() {
            return None;
        }
        self.updates = true;
        let interval = self.interval.as_ps();
        Some(Instant::from_ps((now.as_ps() / interval + 1).saturating_mul(interval)))
    }

    /// Looks at every link that flows cross and computes every rate; gives those that changed, by flow.
    pub(super) fn update(&mut self, now: Instant, network: &mut Network<'_>) -> Vec<(u32, Rate)> {
        self.updates = false;
        for link in self.links.iter_mut().filter(|link| link.flows > 0) {
            link.look(now, network);
            link.count_sent(now, self.interval);
        }
        let mut changed = Vec::new();
        for (&flow, followed) in &mut self.flows {
            let rate = fair_rate(&self.links, self.interval, &followed.path);
            if rate != followed.rate {
                followed.rate = rate;
                changed.push((flow, rate));
            }
        }
        changed
    }

    fn place(&mut self, link: u32, network: &Network<'_>) -> usize {
        *self.places.entry(link).or_insert_with(|| {
            self.links.push(Watched {
                link,
                capacity: network.rate(link),
                queues: Vec::new(),
                device_bytes: 0,
                flows: 0,
                counted_at: Instant::ZERO,
            });
            self.links.len() - 1
        })
    }
}

/// The least of what the links of a path offer.
fn fair_rate(links: &[Watched], interval: Span, path: &[(usize, usize)]) -> Rate {
    let offers = path.iter().map(|&(place, queue)| links[place].load(queue, interval).fair_rate());
    offers.min().expect("a path has links")
}

impl Watched {
    /// Looks at what is queued.
    fn look(&mut self, now: Instant, network: &mut Network<'_>) {
        let link = network.caught_up(now, self.link);
        self.device_bytes = link.device_bytes(now);
        for (index, queue) in link.queues().enumerate() {
            if index == self.queues.len() {
                self.queues.push(QueueLoad::default());
            }
            let load = &mut self.queues[index];
            load.queued = queue.occupancy();
            load.left = queue.counters().admitted.bytes - load.queued.bytes;
        }
    }

    /// Counts what was sent until the look just taken, once an interval has passed.
    fn count_sent(&mut self, now: Instant, interval: Span) {
        let (elapsed, interval) = (u128::from(now.since(self.counted_at).as_ps()), u128::from(interval.as_ps()));
        if elapsed < interval {
            return;
        }
        self.counted_at = now;
        for queue in &mut self.queues {
            let left = u128::from(queue.left - queue.left_before);
            queue.sent = (left * interval / elapsed) as u64;
            queue.left_before = queue.left;
        }
    }

    /// The link as the flows of a queue see it.
    fn load(&self, queue: usize, interval: Span) -> Load {
        let sent_above = self.queues[..queue].iter().map(|above| above.sent).sum();
        let above: u64 = self.queues[..queue].iter().map(|above| above.queued.bytes).sum();
        let own = self.queues[queue];
        let queued = above + self.device_bytes + own.backlog_bytes();
        Load { capacity: self.capacity, interval, sent_above, queued, flows: own.flows }
    }
}
