//! The event loop: topology and transports go in, flow rows and port counts come out.
//!
//! One event per packet and hop: its arrival. Events are ordered by (time, kind, entity), never by when they were
//! scheduled, so the order in which a run's parts happen to act does not change its result.

mod arrivals;
mod attachments;
mod bundle;
mod flows;
mod host_reports;
mod hosts;
mod losses;
mod messages;
mod network;
mod objects;
mod oracle;
mod outlet;
mod schedule;
mod setup;

pub use flows::{Open, Opened};
pub use losses::{LinkLoss, LossKind};
pub use messages::FlowMessages;
pub use network::flow_path;
pub use objects::{HighWeight, Mail, Objects, PushFlow};
pub use setup::{Flowlets, PathChoice, Reroute, Setup};

use pliant_proto::contract::policy::Policy;
use pliant_proto::packet::{Body, EndpointId, Packet, SackBlocks, Side};
use pliant_proto::switch::Link;
use pliant_proto::switch::queue::{Admission, Occupancy, QueueCounters};
use pliant_proto::time::Instant;
use pliant_proto::transport::any::{AnyAnswer, Member};
use pliant_proto::transport::near_opt::OracleAnswer;
use pliant_proto::transport::push::{Outgoing, TaskId, ToReceiver};
use pliant_proto::transport::{Command, Event, Outlet, Transport, drain};

use crate::recorder::Recorder;
use crate::results::FlowRow;
use crate::topology::{LinkId, NodeId};
use crate::traffic::FlowSpec;
use flows::{Content, Endpoint, Flows, Slot};
use host_reports::HostReports;
use network::Network;
use oracle::Oracle;
use outlet::SimulatedHost;
use schedule::{Schedule, kind, order_of};

/// What a run did, beside its flows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Totals {
    /// Packets that crossed a link.
    pub packet_hops: u64,
    /// Events handled.
    pub events: u64,
    /// Messages to and from the controller of objects.
    pub control_messages: u64,
    /// Digest of every arrival, flow start and timeout in order: equal digests mean equal runs.
    pub digest: u64,
}

/// What is left of a run.
pub struct Outcome<R> {
    /// One row per started flow, by number.
    pub flows: Vec<FlowRow>,
    /// Counts of each queue, by link.
    pub ports: Vec<Vec<QueueCounters>>,
    /// What each queue still holds, by link.
    pub left: Vec<Vec<Occupancy>>,
    /// Counts of the run.
    pub totals: Totals,
    /// When the run stopped.
    pub ended: Instant,
    /// The recorder with what it recorded.
    pub recorder: R,
}

/// One run of the simulator.
///
/// `T` is the transport at both ends of every flow; `R` records what happens beside the flows' own rows.
pub struct Simulation<'a, T: Member, R: Recorder> {
    now: Instant,
    schedule: Schedule,
    network: Network<'a>,
    flows: Flows<'a, T>,
    oracle: Oracle,
    host_reports: Option<HostReports>,
    objects: Objects,
    recorder: R,
    events: u64,
    digest: u64,
    /// Time of the earliest pending start of a flow; others of these events are stale.
    next_start: Instant,
    /// Packets that a host's own port dropped to make room, while their flows are not at hand.
    displaced: Vec<Packet>,
}

impl<'a, T: Member, R: Recorder> Simulation<'a, T, R> {
    /// A run at time zero. `traffic` yields flows by start time; `open` makes both transports of a flow that starts.
    pub fn new(
        setup: &Setup<'a>,
        traffic: impl Iterator<Item = FlowSpec> + 'a,
        open: impl FnMut(&FlowSpec, &[LinkId]) -> Opened<T> + 'a,
        recorder: R,
    ) -> Self {
        let mut simulation = Self {
            now: Instant::ZERO,
            schedule: Schedule::new(setup.topology.links().len()),
            network: Network::new(setup),
            flows: Flows::new(most_hops(setup), (setup.bundled, setup.mss), Box::new(traffic), Box::new(open)),
            oracle: Oracle::new(setup.oracle_interval),
            host_reports: setup.host_reports.clone().map(|(interval, told)| HostReports::new(interval, told)),
            objects: Objects::default(),
            recorder,
            events: 0,
            digest: 0,
            next_start: Instant::MAX,
            displaced: Vec::new(),
        };
        simulation.schedule_flow_start();
        for (number, reroute) in (0..).zip(setup.reroutes) {
            simulation.schedule.push(reroute.at, kind::REROUTE, number);
        }
        if simulation.host_reports.is_some() {
            simulation.schedule.push(Instant::ZERO, kind::HOST_REPORTS, 0);
        }
        if R::ON {
            simulation.schedule.push(Instant::ZERO, kind::SAMPLE, 0);
        }
        simulation
    }

    /// Runs up to the last event not after `end`. Returns whether events are left.
    pub fn run_until(&mut self, end: Instant) -> bool {
        while let Some(event) = self.schedule.begin_next(end) {
            assert!(event.at >= self.now, "time never runs backwards");
            self.now = event.at;
            self.events += 1;
            match event.kind {
                kind::ARRIVAL => self.handle_arrival(event.entity),
                kind::WAKE_PORT => self.network.wake(self.now, event.entity, &mut self.schedule),
                kind::TIMER => self.handle_timer(EndpointId::from_index(event.entity), event.order),
                kind::FLOW_START => self.handle_flow_start(),
                kind::ORACLE_REQUESTS => self.handle_oracle_requests(),
                kind::ORACLE_UPDATE => self.handle_oracle_update(),
                kind::MESSAGE => self.handle_message_due(event.entity, event.order),
                kind::CONTROL => self.handle_control(),
                kind::HOST => self.handle_host(event.entity),
                kind::REROUTE => self.handle_reroute(event.entity),
                kind::HOST_REPORTS => self.handle_host_reports(),
                _ => self.handle_sample(),
            }
            self.schedule.finish();
        }
        !self.schedule.is_empty()
    }

    /// When the next event is due; [`Instant::MAX`] if there is none.
    pub fn next_at(&self) -> Instant {
        self.schedule.next_at()
    }

    /// The time of the last event.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Events handled so far.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Packets that crossed a link so far, summed over all links.
    pub fn packet_hops(&self) -> u64 {
        self.network.packet_hops()
    }

    /// Flows started and flows over so far.
    pub fn flow_counts(&self) -> (u64, u64) {
        self.flows.counts()
    }

    /// Ends the run. Asserts that packets and bytes were conserved on every link and from end to end.
    pub fn finish(mut self) -> Outcome<R> {
        let left = self.network.links_at(self.now).map(Link::occupancies).collect();
        self.network.assert_conserved();
        let in_flight = self.network.in_flight();
        assert_eq!(in_flight, self.flows.in_flight(), "packets are conserved from end to end");
        assert!(in_flight == 0 || !self.schedule.is_empty(), "{in_flight} packets are stuck: nothing will move them");
        let totals = Totals {
            packet_hops: self.network.packet_hops(),
            events: self.events,
            control_messages: self.objects.messages(),
            digest: self.digest,
        };
        Outcome {
            ports: self.network.counters().collect(),
            left,
            flows: self.flows.into_rows(),
            totals,
            ended: self.now,
            recorder: self.recorder,
        }
    }

    #[inline]
    fn handle_arrival(&mut self, link: u32) {
        self.mix(kind::ARRIVAL, link);
        let (packet, switch) = self.network.take_arrival(self.now, link, &mut self.schedule);
        let Some(switch) = switch else { return self.deliver(&packet) };
        let next = self.next_link(switch, &packet);
        match self.network.enqueue(self.now, next, &packet, &mut self.schedule) {
            Admission::Queued => {}
            Admission::Dropped(_) => self.lose(&packet),
            Admission::Displaced => self.lose_displaced(next),
            Admission::Returned => self.return_to_sender(switch, next),
        }
    }

    /// The link that a packet takes next at `node`.
    #[inline(always)]
    fn next_link(&mut self, node: NodeId, packet: &Packet) -> u32 {
        if self.network.chooses() {
            return self.choose_link(node, packet);
        }
        self.flows.routes[packet.to.index() as usize * self.flows.stride + usize::from(packet.hops)]
    }

    /// The same where packets choose their path, or paths move.
    #[inline(never)]
    fn choose_link(&mut self, node: NodeId, packet: &Packet) -> u32 {
        let (stride, hops) = (self.flows.stride, usize::from(packet.hops));
        // On a way round a packet may have come further than any path is long.
        let place = (hops < stride).then_some(packet.to.index() as usize * stride + hops);
        let pinned = place.map_or(u32::MAX, |place| self.flows.routes[place]);
        let (destination, flow) = (self.flows.host(packet.to), packet.to.flow());
        if !self.network.sprays() || self.flows.slots[flow as usize].pinned {
            self.network.keep_to_path(node, destination, pinned, u64::from(flow))
        } else if let Some(flowlets) = self.network.by_flowlets() {
            let number = self.flows.slots[flow as usize].id;
            self.network.flowlet((self.now, flowlets), node, (packet.to, destination, number), pinned)
        } else {
            self.network.spray(node, destination)
        }
    }

    /// Paths move: flows whose path has a link that is left out, or is longer than it need be, take a shortest one. Packets
    /// under way that are on no path of their flow any more go on by the new tables, on which each hop comes nearer.
    #[cold]
    fn handle_reroute(&mut self, number: u32) {
        self.mix(kind::REROUTE, number);
        self.network.reroute(number as usize);
        let mut path = Vec::new();
        for flow in 0..self.flows.slots.len() as u32 {
            let route = self.flows.route_of(flow);
            let own = self.network.path_of(route);
            self.network.path(self.flows.spec(flow), &mut path);
            if path.len() < own.len() || own.iter().any(|&link| self.network.is_left_out(link)) {
                self.flows.pin(flow, &path);
            }
        }
    }

    /// A packet that was in the network is gone.
    #[cold]
    fn lose(&mut self, packet: &Packet) {
        let slot = &mut self.flows.slots[packet.to.flow() as usize];
        slot.drops += 1;
        slot.in_flight -= 1;
        self.network.attachments.take(packet);
        self.oracle.on_drop(packet);
        self.flows.close_if_over(packet.to.flow());
    }

    /// The last packet queued on `link` took the place of another.
    #[cold]
    fn lose_displaced(&mut self, link: u32) {
        if let Some(packet) = self.network.take_displaced(link) {
            self.lose(&packet);
        }
    }

    /// A header has found no room on `link` of `node`: it goes back to its sender from there.
    #[cold]
    fn return_to_sender(&mut self, node: NodeId, link: u32) {
        let mut packet = self.network.take_displaced(link).expect("a header goes back");
        let stride = self.flows.stride;
        let route = &self.flows.routes[packet.to.index() as usize * stride..][..stride];
        packet.turn_back(self.network.path_of(route).len() as u8);
        let next = self.next_link(node, &packet);
        if self.network.enqueue_shared(self.now, next, &packet, &mut self.schedule) != Admission::Queued {
            self.lose(&packet);
        }
    }

    #[inline]
    fn deliver(&mut self, packet: &Packet) {
        let attached;
        let sack = if packet.has_attachment() {
            attached = self.network.attachments.take(packet);
            &attached
        } else {
            &SackBlocks::EMPTY
        };
        let slot = &mut self.flows.slots[packet.to.flow() as usize];
        slot.in_flight -= 1;
        if R::ON
            && let Body::Unscheduled { len, .. } = packet.body()
        {
            self.recorder.arrived_reactive(slot.group, u64::from(len));
        }
        self.with_transport(packet.to, |transport, _, now| transport.handle_packet(now, packet, sack));
    }

    /// `order` is that of the flow which set the timer: its slot may be another's by now.
    fn handle_timer(&mut self, endpoint: EndpointId, order: u32) {
        let flow = self.flows.slots[endpoint.flow() as usize].id;
        let state = &mut self.flows.endpoints[endpoint.index() as usize];
        if state.armed != self.now || order_of(flow) != order {
            return;
        }
        state.armed = Instant::MAX;
        match state.transport.poll_timeout() {
            Some(deadline) if deadline.at > self.now => {
                state.armed = deadline.at;
                self.schedule.push_of_flow(deadline.at, kind::TIMER, flow, endpoint.index());
            }
            Some(_) => {
                self.mix(kind::TIMER, endpoint.index());
                self.with_transport(endpoint, |transport, _, now| transport.handle_timeout(now));
                if R::ON {
                    self.record_policy(endpoint);
                }
            }
            None => {}
        }
    }

    /// Tells the recorder if the endpoint's policy has just ended an interval.
    fn record_policy(&mut self, endpoint: EndpointId) {
        let Some(Policy::Reflex(reflex)) = self.flows.endpoints[endpoint.index() as usize].transport.policy() else {
            return;
        };
        if let Some(standing) = reflex.standing().filter(|standing| standing.at == self.now) {
            let slot = &self.flows.slots[endpoint.flow() as usize];
            self.recorder.reflex(slot.id, slot.group, standing);
        }
    }

    fn handle_flow_start(&mut self) {
        if self.next_start != self.now {
            return;
        }
        self.next_start = Instant::MAX;
        let (spec, number) = self.flows.take_next();
        if self.flows.is_bundled(spec.group) {
            self.join_bundle(spec, number);
            return self.schedule_flow_start();
        }
        let bytes = spec.bytes;
        let mut path = Vec::new();
        self.network.path(&spec, &mut path);
        let initiator = self.flows.open(number, spec, &path);
        if self.network.chooses() {
            self.network.forget_flowlets([initiator, initiator.peer()]);
        }
        self.mix(kind::FLOW_START, initiator.index());
        if let Some(push) = self.flows.slots[initiator.flow() as usize].push {
            let links = path.iter().map(|link| (link.0, self.network.rate(link.0)));
            self.objects.add(self.now, initiator.flow(), push, links);
        }
        self.with_transport(initiator.peer(), |_, _, _| {});
        self.with_transport(initiator, |transport, slot, now| {
            if let Some(messages) = slot.content.messages_mut() {
                messages.begin(transport, now);
            } else {
                slot.unwritten = bytes;
                write(transport, now, &mut slot.unwritten);
            }
        });
        self.schedule_message(initiator.flow());
        self.schedule_flow_start();
    }

    /// A flow joins the bundle of its hosts, which takes the path that its first flow would have.
    #[cold]
    fn join_bundle(&mut self, spec: FlowSpec, number: u64) {
        let known = self.flows.bundle_of(&spec);
        let mut path = Vec::new();
        match known {
            Some(slot) => path.extend(self.network.path_of(self.flows.route_of(slot)).into_iter().map(LinkId)),
            None => self.network.path(&spec, &mut path),
        }
        let initiator = self.flows.join(number, spec, &path);
        if known.is_none() {
            if self.network.chooses() {
                self.network.forget_flowlets([initiator, initiator.peer()]);
            }
            self.with_transport(initiator.peer(), |_, _, _| {});
        }
        self.mix(kind::FLOW_START, initiator.index());
        self.with_transport(initiator, |_, _, _| {});
    }

    /// The application of a flow has another message, unless the flow is over and its slot another's.
    fn handle_message_due(&mut self, flow: u32, order: u32) {
        let is_its_own = order_of(self.flows.slots[flow as usize].id) == order;
        if is_its_own && self.flows.next_message(flow) == Some(self.now) {
            self.mix(kind::MESSAGE, flow);
            self.with_transport(EndpointId::new(flow, Side::Initiator), |transport, slot, now| {
                if let Some(messages) = slot.content.messages_mut() {
                    messages.hand_over(transport, now);
                }
            });
            self.schedule_message(flow);
        }
    }

    fn schedule_message(&mut self, flow: u32) {
        if let Some(at) = self.flows.next_message(flow) {
            self.schedule.push_of_flow(at, kind::MESSAGE, self.flows.slots[flow as usize].id, flow);
        }
    }

    fn schedule_flow_start(&mut self) {
        if let Some(start) = self.flows.next_start().map(|start| start.max(self.now))
            && start < self.next_start
        {
            self.next_start = start;
            self.schedule.push(start, kind::FLOW_START, 0);
        }
    }

    fn handle_oracle_requests(&mut self) {
        while let Some((endpoint, request)) = self.oracle.next_request() {
            let route = &self.flows.routes[endpoint.peer().index() as usize * self.flows.stride..][..self.flows.stride];
            let answer = self.oracle.answer(self.now, endpoint, request, route, &mut self.network);
            self.bring(endpoint, answer);
        }
        self.schedule_oracle_update();
    }

    fn handle_oracle_update(&mut self) {
        for (flow, rate) in self.oracle.update(self.now, &mut self.network) {
            let sender = EndpointId::new(flow, Side::Initiator);
            self.bring(sender, OracleAnswer::Rate(rate));
        }
        self.schedule_oracle_update();
    }

    fn schedule_oracle_update(&mut self) {
        if let Some(at) = self.oracle.schedule_update(self.now) {
            self.schedule.push(at, kind::ORACLE_UPDATE, 0);
        }
    }

    /// Delivers the mail of objects, and lets their controller act.
    fn handle_control(&mut self) {
        self.mix(kind::CONTROL, 0);
        while let Some(mail) = self.objects.take_mail(self.now) {
            match mail {
                Mail::ToController(task, message) => self.objects.deliver(self.now, task, message),
                Mail::Out(Outgoing::Source(task, source, order)) => {
                    if let Some(source) = self.reached(task, source, Side::Initiator) {
                        self.bring(source, order);
                    }
                }
                Mail::Out(Outgoing::Receiver(task, message)) => {
                    if let Some(receiver) = self.reached(task, 0, Side::Responder) {
                        self.bring(receiver, message);
                    }
                    if message == ToReceiver::FinAck {
                        self.objects.forget(task);
                    }
                }
            }
        }
        let Self { objects, schedule, now, .. } = self;
        objects.advance(*now, |at| schedule.push(at, kind::CONTROL, 0));
    }

    /// Whether the flow in this slot is still one of the task.
    fn pushes(&self, flow: u32, task: TaskId) -> bool {
        self.flows.slots[flow as usize].push.is_some_and(|push| push.task == task)
    }

    /// The end of a task's flow that a message of its controller reaches, if it reaches one.
    fn reached(&self, task: TaskId, source: u64, side: Side) -> Option<EndpointId> {
        let flow = self.objects.flow_of(task, source).filter(|&flow| self.pushes(flow, task))?;
        let host = self.flows.slots[flow as usize].host(side);
        (!self.network.is_cut_off(self.now, host)).then_some(EndpointId::new(flow, side))
    }

    /// An object is complete: its receiver tells its other sources.
    #[cold]
    fn handle_woken(&mut self) {
        while let Some((flow, task)) = self.objects.woken.pop() {
            if self.pushes(flow, task) {
                self.with_transport(EndpointId::new(flow, Side::Responder), |_, _, _| {});
            }
        }
    }

    /// Brings the answers of what the flows of a host share.
    #[inline(never)]
    fn handle_host(&mut self, host: u32) {
        if !self.network.shared_hosts.wake(self.now, host) {
            return;
        }
        self.mix(kind::HOST, host);
        while let Some((endpoint, answer)) = self.network.shared_hosts.next_answer(self.now, host, &mut self.schedule) {
            self.bring(endpoint, answer);
        }
    }

    /// Hosts hear what other hosts said of their links, and tell the flows that ask.
    fn handle_host_reports(&mut self) {
        let Some(reports) = &mut self.host_reports else { return };
        let flows = self.flows.open_flows();
        let told = reports.exchange(self.now, &flows, |link| self.network.rate(link.0));
        let next = reports.next_at(self.now);
        for (flow, rate) in told {
            self.with_transport(EndpointId::new(flow, Side::Initiator), |transport, _, now| {
                transport.handle_command(now, Command::SetFairRate(rate));
            });
        }
        // Without flows there is nothing to tell, and alone in the schedule reports would keep the run going for ever.
        if !flows.is_empty() || self.next_start != Instant::MAX {
            self.schedule.push(next, kind::HOST_REPORTS, 0);
        }
    }

    fn handle_sample(&mut self) {
        let next = self.recorder.sample(self.now, self.network.links_at(self.now));
        if self.recorder.wants_windows() {
            for (flow, group, window) in self.flows.windows() {
                self.recorder.window(self.now, flow, group, window);
            }
        }
        // Alone in the schedule, a sample would keep the run going for ever.
        if !self.schedule.is_empty() {
            self.schedule.push(next, kind::SAMPLE, 0);
        }
    }

    /// Brings a transport what its surroundings answer.
    fn bring(&mut self, endpoint: EndpointId, answer: impl Into<AnyAnswer>) {
        let answer = answer.into();
        self.with_transport(endpoint, |transport, _, now| transport.handle_answer(now, answer));
    }

    /// Lets a transport act, then takes all it has to say.
    #[inline]
    fn with_transport(&mut self, endpoint: EndpointId, act: impl FnOnce(&mut T, &mut Slot, Instant)) {
        let Flows { endpoints, slots, routes, stride, .. } = &mut self.flows;
        let peer = endpoint.peer();
        let Endpoint { transport, armed } = &mut endpoints[endpoint.index() as usize];
        let slot = &mut slots[endpoint.flow() as usize];
        act(transport, slot, self.now);
        let mut outlet = SimulatedHost {
            now: self.now,
            endpoint,
            nic: routes[peer.index() as usize * *stride],
            armed,
            slot,
            network: &mut self.network,
            oracle: &mut self.oracle,
            objects: &mut self.objects,
            schedule: &mut self.schedule,
            recorder: &mut self.recorder,
            displaced: &mut self.displaced,
        };
        if matches!(outlet.slot.content, Content::Bundle(_)) {
            drain_bundle(transport, self.now, &mut outlet);
        } else {
            drain(transport, self.now, &mut outlet);
            if outlet.slot.unwritten > 0 && endpoint.side() == Side::Initiator {
                write(transport, self.now, &mut outlet.slot.unwritten);
                drain(transport, self.now, &mut outlet);
            }
        }
        while let Some(packet) = self.displaced.pop() {
            self.lose(&packet);
        }
        if self.flows.slots[endpoint.flow() as usize].is_waited_for() && self.flows.go_on(self.now, endpoint.flow()) {
            self.schedule_flow_start();
        }
        self.flows.close_if_over(endpoint.flow());
        if !self.objects.woken.is_empty() {
            self.handle_woken();
        }
    }

    #[inline]
    fn mix(&mut self, kind: u8, entity: u32) {
        let event = self.now.as_ps() ^ u64::from(entity) << 40 ^ u64::from(kind) << 56;
        self.digest = (self.digest.rotate_left(5) ^ event).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

/// Links of the longest path that a flow may ever have.
fn most_hops(setup: &Setup<'_>) -> usize {
    let moved = setup.reroutes.iter().map(|reroute| reroute.routing.max_hops());
    moved.fold(setup.routing.max_hops(), usize::max)
}

/// Writes what the send buffer has room for, and ends the stream behind the last byte.
fn write<T: Transport>(transport: &mut T, now: Instant, unwritten: &mut u64) {
    let bytes = transport.send_space().min(*unwritten);
    if bytes == 0 {
        return;
    }
    *unwritten -= bytes;
    transport.handle_command(now, Command::Send { bytes });
    if *unwritten == 0 {
        transport.handle_command(now, Command::Finish);
    }
}

/// What [`drain`] is to other flows. The flows of a bundle write before each packet, so the transport never finds fewer full
/// segments than it would find of a single flow.
#[cold]
#[inline(never)]
fn drain_bundle<T: Member, R: Recorder>(transport: &mut T, now: Instant, outlet: &mut SimulatedHost<'_, '_, R>) {
    let sends = outlet.endpoint.side() == Side::Initiator;
    loop {
        if let Content::Bundle(bundle) = &mut outlet.slot.content
            && sends
        {
            bundle.write(transport, now);
        }
        let Some(packet) = transport.poll_transmit(now) else { break };
        let sack = if packet.has_attachment() { transport.sack_blocks() } else { &SackBlocks::EMPTY };
        Outlet::<T::Request>::transmit(outlet, packet, sack);
    }
    while let Some(event) = transport.poll_event() {
        if let Content::Bundle(bundle) = &mut outlet.slot.content
            && let Event::Release(range) = event
        {
            outlet.slot.finished |= bundle.on_released(range);
        }
        outlet.event(event);
    }
    Outlet::<T::Request>::arm(outlet, transport.poll_timeout());
}
