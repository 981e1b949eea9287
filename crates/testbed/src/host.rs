//! A host of a testbed: the process that has all flows of one host of the scenario, both those it sends and those it
//! receives.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::iter::Peekable;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pliant_net::clock::SharedClock;
use pliant_net::host::{Host, HostApplication};
use pliant_proto::packet::{Body, EndpointId, Packet, Side, TrafficClass};
use pliant_proto::time::{Instant, Span};
use pliant_proto::transport::any::AnyTransport;
use pliant_proto::transport::push::TaskId;
use pliant_proto::transport::{Command, Event, Transport};
use pliant_sim::engine::{FlowMessages, Opened, flow_path};
use pliant_sim::run::Opener;
use pliant_sim::scenario::{Resolved, Scenario};
use pliant_sim::topology::NodeId;
use pliant_sim::traffic::{FlowSpec, Traffic, UNLIMITED_BYTES};

use crate::control::{Letter, Reply, To, pushes};
use crate::kernel_tcp::{KernelFlow, KernelProgress, KernelReceivers, KernelSender, KernelTcp, has_end};
use crate::messages::{
    HostReport, OVER, Parent, ReceiverReport, SenderReport, await_network, cpu_seconds, report, say,
};
use crate::network;
use crate::pattern::Pattern;

/// A receiver is there so long before its flow starts, unless it has the first word.
const AHEAD: Span = Span::from_ms(50);
/// Longest sleep: how soon a stop is heard.
const NAP: Span = Span::from_ms(20);
/// Port of all hosts.
pub const PORT: u16 = 7800;

/// What a host needs to know.
#[derive(Clone, Debug)]
pub struct HostArguments {
    /// Number of the host.
    pub host: u32,
    /// Its own address.
    pub address: Ipv4Addr,
    /// Addresses of all hosts, as this one reaches them.
    pub peers: Vec<Ipv4Addr>,
}

/// Why a host failed.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// The scenario cannot be read; it could when the run began.
    #[error(transparent)]
    Scenario(#[from] pliant_sim::scenario::ScenarioError),
    /// The system refused.
    #[error("host: {0}")]
    Io(#[from] std::io::Error),
}

/// A flow that this host sends or receives.
struct Flow {
    number: u64,
    spec: FlowSpec,
    /// Row of the results that it counts for.
    group: u16,
    messages: Option<Box<FlowMessages>>,
    /// Task that the flow pushes a part of.
    task: Option<TaskId>,
    /// Bytes for which the send buffer had no room yet.
    unwritten: u64,
    finished: bool,
    delivered: u64,
    received: Option<Instant>,
    wrong: u64,
}

impl Flow {
    fn new(number: u64, spec: FlowSpec) -> Self {
        Self {
            number,
            spec,
            group: spec.group,
            messages: None,
            task: None,
            unwritten: 0,
            finished: false,
            delivered: 0,
            received: None,
            wrong: 0,
        }
    }
}

/// All flows of this host, as its transports' application.
struct Flows {
    pattern: Arc<Pattern>,
    senders: HashMap<u64, Flow>,
    receivers: HashMap<u64, Flow>,
    /// Tasks of which all has arrived, until their other flows have heard of it.
    complete: Vec<TaskId>,
    /// Bytes delivered since the sample before, by group, and bytes that arrived without a credit.
    delivered: BTreeMap<u16, [u64; 2]>,
}

impl Flows {
    fn of(&mut self, endpoint: EndpointId) -> Option<&mut Flow> {
        let flows = if endpoint.side() == Side::Initiator { &mut self.senders } else { &mut self.receivers };
        flows.get_mut(&u64::from(endpoint.flow()))
    }

    fn delivered(&mut self, endpoint: EndpointId, bytes: u64) {
        if let Some(flow) = self.of(endpoint) {
            flow.delivered += bytes;
            let group = flow.group;
            self.delivered.entry(group).or_default()[0] += bytes;
        }
    }
}

/// Where a packet's payload lies in its flow, as the pattern counts.
fn pattern_offset(packet: &Packet) -> u64 {
    match packet.body() {
        Body::Data { seq, .. }
        | Body::Scheduled { seq, .. }
        | Body::Unscheduled { seq, .. }
        | Body::HomaData { seq, .. }
        | Body::Datagram { seq, .. } => seq,
        Body::Message { message, fragment, .. } => u64::from(message) * 4099 + u64::from(fragment) * 1031,
        Body::Symbol { block, symbol, .. } => u64::from(block) * 4099 + u64::from(symbol) * 1031,
        _ => 0,
    }
}

impl HostApplication<AnyTransport> for Flows {
    fn fill(&mut self, endpoint: EndpointId, packet: &Packet, payload: &mut [u8]) {
        self.pattern.fill(endpoint.flow().into(), pattern_offset(packet), payload);
    }

    fn arrived(&mut self, endpoint: EndpointId, packet: &Packet, payload: &[u8]) {
        let wrong = self.pattern.wrong(endpoint.flow().into(), pattern_offset(packet), payload);
        let Some(flow) = self.of(endpoint) else { return };
        flow.wrong += wrong;
        let group = flow.group;
        if let Body::Unscheduled { len, .. } = packet.body() {
            self.delivered.entry(group).or_default()[1] += u64::from(len);
        }
    }

    fn event(&mut self, now: Instant, endpoint: EndpointId, event: Event) {
        match event {
            Event::Deliver(range) => {
                self.delivered(endpoint, range.len());
                if let Some(flow) = self.of(endpoint)
                    && flow.messages.as_mut().is_some_and(|messages| messages.on_remote_bytes(range))
                {
                    flow.received.get_or_insert(now);
                }
            }
            Event::DeliverMessage { message, bytes } => {
                self.delivered(endpoint, bytes.into());
                if let Some(flow) = self.of(endpoint)
                    && flow.messages.as_mut().is_some_and(|messages| messages.on_message(message))
                {
                    flow.received = Some(now);
                }
            }
            Event::Received => {
                if let Some(flow) = self.of(endpoint) {
                    flow.received.get_or_insert(now);
                    if let Some(task) = flow.task {
                        self.complete.push(task);
                    }
                }
            }
            Event::DeliverSymbol { bytes } => self.delivered(endpoint, bytes.into()),
            Event::ToController(message) => Parent::post(&Letter { flow: endpoint.flow().into(), message }),
            Event::Finished => {
                if let Some(flow) = self.of(endpoint) {
                    flow.finished = true;
                }
            }
            Event::GiveUp { .. }
            | Event::Connected
            | Event::Release(_)
            | Event::Ask(_)
            | Event::AskHost(_)
            | Event::Decode { .. } => {}
        }
    }

    fn refill(&mut self, now: Instant, endpoint: EndpointId, transport: &mut AnyTransport) -> bool {
        match self.of(endpoint) {
            Some(flow) if endpoint.side() == Side::Initiator => write(transport, now, &mut flow.unwritten),
            _ => false,
        }
    }
}

/// Writes what the send buffer has room for, and ends the stream behind the last byte. Whether there was room.
fn write(transport: &mut AnyTransport, now: Instant, unwritten: &mut u64) -> bool {
    let bytes = transport.send_space().min(*unwritten);
    if bytes == 0 {
        return false;
    }
    *unwritten -= bytes;
    transport.handle_command(now, Command::Send { bytes });
    if *unwritten == 0 {
        transport.handle_command(now, Command::Finish);
    }
    true
}

/// Runs a host until its parent says stop. This is a process of its own.
pub fn run(scenario: &Path, arguments: &HostArguments) -> Result<(), HostError> {
    if !await_network() {
        return Ok(());
    }
    let scenario = Scenario::load(scenario)?.resolve()?;
    let address = SocketAddrV4::new(arguments.address, PORT);
    let uplink = scenario.topology.uplink(NodeId(arguments.host));
    let link = scenario.topology.link(uplink).rate;
    let mut host = Host::bind(address, SharedClock::start(), scenario.wire(), link)?;
    let receivers = KernelReceivers::default();
    let pattern = Arc::new(Pattern::default());
    let kernel = KernelTcp {
        pattern: Arc::clone(&pattern),
        clock: host.clock(),
        stop: Arc::new(AtomicBool::new(false)),
        receivers: Arc::clone(&receivers),
    };
    let Some((parent, clock)) = Parent::meet() else { return Ok(()) };
    host.set_alarm(parent.alarm());
    let kernel = KernelTcp { clock, stop: parent.stop_flag(), ..kernel };
    for (index, group) in scenario.groups.iter().enumerate() {
        if network::is_kernel(&scenario, &group.name) {
            kernel.listen(arguments.address, index as u16, TrafficClass::new(group.ack_class).octet())?;
        }
    }
    let mut running = Running {
        scenario: &scenario,
        arguments,
        starts: Starts::new(&scenario, arguments.host, AHEAD),
        opener: Opener::new(&scenario),
        host,
        flows: Flows {
            pattern,
            senders: HashMap::new(),
            receivers: HashMap::new(),
            complete: Vec::new(),
            delivered: BTreeMap::new(),
        },
        early: Vec::new(),
        kernel,
        kernel_senders: BTreeMap::new(),
        kernel_told: BTreeMap::new(),
        pending: BTreeSet::new(),
        report: HostReport::default(),
        cpu_before: cpu_seconds(),
    };
    running.host.set_clock(clock);
    running.run(&parent)?;
    report(&running.finish());
    Ok(())
}

/// The flows of one host: those it receives a while before they start, those it sends or fetches when they do.
struct Starts {
    traffic: Peekable<std::iter::Enumerate<Traffic>>,
    host: u32,
    ahead: Span,
    /// Whether receivers of a group fetch, by group.
    fetches: Vec<bool>,
    /// Flows to send or fetch, seen while those to receive were looked for.
    later: VecDeque<(u64, FlowSpec)>,
}

enum Start {
    Receive(u64, FlowSpec),
    Send(u64, FlowSpec),
}

impl Starts {
    fn new(scenario: &Resolved, host: u32, ahead: Span) -> Self {
        let traffic = scenario.traffic().expect("the scenario was checked").enumerate().peekable();
        let fetches = (0..scenario.groups.len() as u16).map(|group| pushes(scenario, group)).collect();
        Self { traffic, host, ahead, fetches, later: VecDeque::new() }
    }

    /// What is due at `now`.
    fn next(&mut self, now: Instant) -> Option<Start> {
        if self.later.front().is_some_and(|(_, spec)| spec.start <= now) {
            let start = if self.later[0].1.source == self.host { Start::Send } else { Start::Receive };
            return self.later.pop_front().map(|(number, spec)| start(number, spec));
        }
        while let Some((number, spec)) = self.traffic.next_if(|(_, spec)| spec.start <= now.after(self.ahead)) {
            let number = number as u64;
            let fetched = spec.destination == self.host && self.fetches[usize::from(spec.group)];
            if spec.source == self.host || fetched {
                self.later.push_back((number, spec));
            } else if spec.destination == self.host {
                return Some(Start::Receive(number, spec));
            }
        }
        None
    }

    /// When to ask again.
    fn next_at(&mut self) -> Option<Instant> {
        let later = self.later.front().map(|(_, spec)| spec.start);
        let ahead = self.traffic.peek().map(|(_, spec)| spec.start.before(self.ahead));
        [later, ahead].into_iter().flatten().min()
    }

    fn is_empty(&mut self) -> bool {
        self.later.is_empty() && self.traffic.peek().is_none()
    }
}

struct Running<'a> {
    scenario: &'a Resolved,
    arguments: &'a HostArguments,
    starts: Starts,
    opener: Opener<'a>,
    host: Host<AnyTransport>,
    flows: Flows,
    kernel: KernelTcp,
    kernel_senders: BTreeMap<u64, (FlowSpec, Arc<KernelSender>)>,
    /// Bytes of each flow of the operating system that samples have counted.
    kernel_told: BTreeMap<u64, u64>,
    /// Replies of the controller's to flows that have not started here.
    early: Vec<Reply>,
    /// When the application of a flow of messages has the next one.
    pending: BTreeSet<(Instant, u64)>,
    report: HostReport,
    /// Processor time that was spent before the start.
    cpu_before: f64,
}

impl Running<'_> {
    fn run(&mut self, parent: &Parent) -> Result<(), HostError> {
        let wait = self.host.clock().until_start();
        std::thread::sleep(std::time::Duration::from_nanos(wait.as_ps() / 1000));
        let interval = self.scenario.spec.sample_interval;
        let mut next_sample = interval.map(|interval| Instant::ZERO.after(interval));
        let mut told = false;
        while !parent.has_stopped() {
            let now = self.host.clock().now();
            while let Some(start) = self.starts.next(now) {
                match start {
                    Start::Receive(number, spec) => self.receive(number, spec),
                    Start::Send(number, spec) => self.send(number, spec),
                }
            }
            let replies = std::mem::take(&mut self.early).into_iter();
            for reply in replies.chain(std::iter::from_fn(|| parent.next_reply())) {
                self.hear(reply);
            }
            while let Some(task) = self.flows.complete.pop() {
                self.tell_others(task);
            }
            while let Some(&(at, flow)) = self.pending.first().filter(|(at, _)| *at <= now) {
                self.pending.remove(&(at, flow));
                self.hand_over(flow);
            }
            if let (Some(at), Some(interval)) = (next_sample, interval)
                && at <= now
            {
                self.sample(at);
                next_sample = Some(at.after(interval));
            }
            if !told && self.is_over() {
                told = true;
                if say(OVER).is_none() {
                    break;
                }
            }
            let pending = self.pending.first().map(|(at, _)| *at);
            let until = [Some(now.after(NAP)), self.starts.next_at(), pending, next_sample];
            let until = until.into_iter().flatten().min().expect("there is a nap");
            self.host.turn(&mut self.flows, until)?;
        }
        Ok(())
    }

    /// Both sides of a flow, of which this host needs one.
    fn open(&mut self, spec: &FlowSpec) -> Opened<AnyTransport> {
        let mut path = Vec::new();
        flow_path(&self.scenario.routing, spec, self.scenario.spec.seed, &mut path);
        self.opener.open(spec, &path)
    }

    fn is_kernel(&self, spec: &FlowSpec) -> bool {
        network::is_kernel(self.scenario, &self.scenario.groups[usize::from(spec.group)].name)
    }

    fn peer(&self, host: u32) -> SocketAddrV4 {
        SocketAddrV4::new(self.arguments.peers[host as usize], PORT)
    }

    fn receive(&mut self, number: u64, spec: FlowSpec) {
        let peer = self.peer(spec.source);
        if self.is_kernel(&spec) {
            self.flows.receivers.insert(number, Flow::new(number, spec));
            return;
        }
        let Opened { responder, group, messages, push, .. } = self.open(&spec);
        let task = push.map(|push| push.task);
        self.flows.receivers.insert(number, Flow { group, messages, task, ..Flow::new(number, spec) });
        let endpoint = EndpointId::new(number as u32, Side::Responder);
        self.host.open(endpoint, responder, peer);
        self.host.act(endpoint, &mut self.flows, |_, _, _| {});
    }

    fn send(&mut self, number: u64, spec: FlowSpec) {
        let peer = self.peer(spec.destination);
        if self.is_kernel(&spec) {
            let group = &self.scenario.groups[usize::from(spec.group)];
            let kernel = self.scenario.spec.traffic[&group.name].kernel.expect("it is the kernel's");
            let progress = Arc::new(KernelSender::default());
            let flow = KernelFlow {
                number,
                bytes: spec.bytes,
                group: spec.group,
                octet: TrafficClass::new(spec.class.unwrap_or(group.class)).octet(),
                congestion: kernel.congestion.name(),
                to: *peer.ip(),
            };
            self.kernel.send(flow, Arc::clone(&progress));
            self.kernel_senders.insert(number, (spec, progress));
            return;
        }
        let Opened { initiator, group, messages, .. } = self.open(&spec);
        let unwritten = if messages.is_some() { 0 } else { spec.bytes };
        self.flows.senders.insert(number, Flow { group, messages, unwritten, ..Flow::new(number, spec) });
        let endpoint = EndpointId::new(number as u32, Side::Initiator);
        self.host.open(endpoint, initiator, peer);
        self.host.act(endpoint, &mut self.flows, |transport, flows, now| {
            let flow = flows.senders.get_mut(&number).expect("it was just added");
            match &mut flow.messages {
                Some(messages) => messages.begin(transport, now),
                None => _ = write(transport, now, &mut flow.unwritten),
            }
        });
        self.schedule(number);
    }

    /// Takes a reply of the controller's to one of this host's flows.
    fn hear(&mut self, reply: Reply) {
        let (side, command) = match reply.to {
            To::Source(order) => (Side::Initiator, Command::Push(order)),
            To::Receiver(message) => (Side::Responder, Command::PushReceiver(message)),
        };
        let endpoint = EndpointId::new(reply.flow as u32, side);
        if self.host.transport(endpoint).is_none() {
            self.early.push(reply);
            return;
        }
        self.host.act(endpoint, &mut self.flows, |transport, _, now| transport.handle_command(now, command));
    }

    /// An object is complete: its receiver tells its sources.
    fn tell_others(&mut self, task: TaskId) {
        let flows = self.flows.receivers.values().filter(|flow| flow.task == Some(task));
        let numbers: Vec<u64> = flows.map(|flow| flow.number).collect();
        for number in numbers {
            let endpoint = EndpointId::new(number as u32, Side::Responder);
            self.host.act(endpoint, &mut self.flows, |_, _, _| {});
        }
    }

    fn hand_over(&mut self, number: u64) {
        let endpoint = EndpointId::new(number as u32, Side::Initiator);
        self.host.act(endpoint, &mut self.flows, |transport, flows, now| {
            if let Some(messages) = flows.senders.get_mut(&number).and_then(|flow| flow.messages.as_mut()) {
                messages.hand_over(transport, now);
            }
        });
        self.schedule(number);
    }

    fn schedule(&mut self, number: u64) {
        let messages = self.flows.senders.get(&number).and_then(|flow| flow.messages.as_ref());
        if let Some(at) = messages.and_then(|messages| messages.next_at()) {
            self.pending.insert((at, number));
        }
    }

    /// Whether all flows with an end are over and no more will start.
    fn is_over(&mut self) -> bool {
        let now = self.host.clock().now();
        if now < Instant::ZERO.after(self.scenario.spec.duration) && !self.starts.is_empty() {
            return false;
        }
        let ends = |flow: &&Flow| flow.spec.bytes != UNLIMITED_BYTES;
        let kernel = self.kernel.receivers.lock().expect("receivers do not panic");
        let received = |flow: &Flow| {
            flow.received.is_some()
                || kernel.get(&flow.number).is_some_and(|progress| progress.received_ps.load(Ordering::Relaxed) > 0)
        };
        self.starts.is_empty()
            && self.flows.senders.values().filter(ends).all(|flow| flow.finished)
            && self.flows.receivers.values().filter(ends).all(received)
            && self
                .kernel_senders
                .values()
                .all(|(spec, sender)| !has_end(spec.bytes) || sender.finished.load(Ordering::Relaxed))
    }

    fn sample(&mut self, at: Instant) {
        let mut delivered = std::mem::take(&mut self.flows.delivered);
        for (number, progress) in self.kernel.receivers.lock().expect("receivers do not panic").iter() {
            let now = progress.delivered.load(Ordering::Relaxed);
            let before = self.kernel_told.insert(*number, now).unwrap_or(0);
            delivered.entry(progress.group).or_default()[0] += now - before;
        }
        let at = at.since(Instant::ZERO).as_ps();
        let samples = delivered.into_iter().map(|(group, [bytes, reactive])| (at, group, bytes, reactive));
        self.report.throughput.extend(samples);
    }

    fn finish(mut self) -> HostReport {
        for flow in self.flows.senders.values() {
            let transport = self.host.transport(EndpointId::new(flow.number as u32, Side::Initiator));
            let counted = transport.map(Transport::statistics).unwrap_or_default();
            self.report.senders.push(SenderReport {
                flow: flow.number,
                finished: flow.finished,
                given_up_bytes: counted.given_up_bytes,
                low_bytes: counted.policy.low_bytes,
                low_ps: counted.policy.low_ps,
                retransmissions: counted.retransmissions,
                timeouts: counted.timeouts,
                wasted_credits: counted.wasted_credits,
                pauses: counted.pauses,
                paused_ps: counted.paused.as_ps(),
            });
        }
        for (&flow, (_, sender)) in &self.kernel_senders {
            let finished = sender.finished.load(Ordering::Relaxed);
            let retransmissions = sender.retransmissions.load(Ordering::Relaxed);
            self.report.senders.push(SenderReport { flow, finished, retransmissions, ..SenderReport::default() });
        }
        let kernel = self.kernel.receivers.lock().expect("receivers do not panic");
        for flow in self.flows.receivers.values() {
            let report = if let Some(progress) = kernel.get(&flow.number) {
                kernel_report(flow.number, progress)
            } else {
                let transport = self.host.transport(EndpointId::new(flow.number as u32, Side::Responder));
                let counted = transport.map(Transport::statistics).unwrap_or_default();
                let counts = flow.messages.as_ref().map(|messages| messages.counts());
                ReceiverReport {
                    flow: flow.number,
                    delivered_bytes: flow.delivered,
                    received_ps: flow.received.map(|at| at.since(Instant::ZERO).as_ps()),
                    marks: counted.marks,
                    credits: counted.credits_sent,
                    reactive_bytes: counted.reactive_bytes,
                    reorder_bytes: counted.reorder_bytes,
                    symbols: counted.symbols,
                    excess_symbols: counted.excess_symbols,
                    decoded_blocks: counted.decoded_blocks,
                    whole_blocks: counted.whole_blocks,
                    wrong_bytes: flow.wrong,
                    messages: counts.map(|counts| [counts.total, counts.needed, counts.delivered]),
                }
            };
            self.report.receivers.push(report);
        }
        drop(kernel);
        let refused = self.host.refused();
        self.report.malformed = refused.malformed;
        self.report.stray = refused.stray;
        self.report.failed_sends = self.host.failed();
        self.report.cpu_s = cpu_seconds() - self.cpu_before;
        self.report
    }
}

fn kernel_report(flow: u64, progress: &KernelProgress) -> ReceiverReport {
    let received = progress.received_ps.load(Ordering::Relaxed);
    ReceiverReport {
        flow,
        delivered_bytes: progress.delivered.load(Ordering::Relaxed),
        received_ps: (received > 0).then_some(received),
        wrong_bytes: progress.wrong.load(Ordering::Relaxed),
        ..ReceiverReport::default()
    }
}
