//! A host of a testbed: the process that has all flows of one host of the scenario, both those it sends and those it
//! receives.

mod flows;
mod reports;
mod starts;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pliant_net::clock::SharedClock;
use pliant_net::host::Host;
use pliant_proto::host::fair_rates::FlowCounts;
use pliant_proto::packet::{EndpointId, Side, TrafficClass};
use pliant_proto::time::{Instant, Span};
use pliant_proto::transport::any::{AnyAnswer, AnyTransport, Member};
use pliant_proto::transport::push::TaskId;
use pliant_proto::transport::{Command, Statistics, Transport};
use pliant_sim::engine::{Opened, flow_path};
use pliant_sim::run::FlowFactory;
use pliant_sim::scenario::{Resolved, Scenario};
use pliant_sim::topology::NodeId;
use pliant_sim::traffic::{FlowSpec, UNLIMITED_BYTES};

use crate::kernel_tcp::{KernelFlow, KernelProgress, KernelReceivers, KernelSender, KernelTcp, has_end};
use crate::mail::{ControllerMessage, EndpointMessage};
use crate::messages::{
    HostReport, OVER, Parent, ReceiverReport, SenderReport, await_network, cpu_seconds, report, say,
};
use crate::network::PORT;
use crate::pattern::Pattern;
use flows::{Flow, Flows, write};
use reports::Reports;
use starts::{RECEIVER_LEAD, Start, Starts};

/// Longest sleep: how soon a stop is heard.
const MAX_SLEEP: Span = Span::from_ms(20);

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

/// Runs a host until its parent says stop. This is a process of its own.
pub fn run(scenario: &Path, arguments: &HostArguments) -> Result<(), HostError> {
    if !await_network() {
        return Ok(());
    }
    let scenario = Scenario::load(scenario)?.resolve()?;
    let address = SocketAddrV4::new(arguments.address, PORT);
    // Which of several links a packet takes the switch decides: flows take turns at the rate of all.
    let link = scenario.topology.host_rate(NodeId(arguments.host));
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
    host.set_waker(parent.waker());
    let kernel = KernelTcp { clock, stop: parent.stop_flag(), ..kernel };
    for (index, group) in scenario.groups.iter().enumerate() {
        if group.transport.facts().kernel.is_some() {
            kernel.listen(arguments.address, index as u16, TrafficClass::new(group.ack_class).octet())?;
        }
    }
    let host_reports = scenario.host_reports().map(|(interval, told_groups)| {
        let first = told_groups.iter().position(|told| *told).expect("some group is told");
        let class = scenario.groups[first].ack_class;
        let reports = Reports::bind(arguments.address, &arguments.peers, link, interval, class)?;
        Ok::<_, std::io::Error>((reports, told_groups))
    });
    let mut process = HostProcess {
        scenario: &scenario,
        arguments,
        starts: Starts::new(&scenario, arguments.host, RECEIVER_LEAD),
        factory: FlowFactory::new(&scenario),
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
        host_reports: host_reports.transpose()?,
        report: HostReport::default(),
        cpu_before: cpu_seconds(),
    };
    process.host.set_clock(clock);
    process.run(&parent)?;
    report(&process.finish());
    Ok(())
}

struct HostProcess<'a> {
    scenario: &'a Resolved,
    arguments: &'a HostArguments,
    starts: Starts,
    factory: FlowFactory<'a>,
    host: Host<AnyTransport>,
    flows: Flows,
    kernel: KernelTcp,
    kernel_senders: BTreeMap<u64, (FlowSpec, Arc<KernelSender>)>,
    /// Bytes of each flow of the operating system that samples have counted.
    kernel_told: BTreeMap<u64, u64>,
    /// Replies of the controller's to flows that have not started here.
    early: Vec<ControllerMessage>,
    /// When the application of a flow of messages has the next one.
    pending: BTreeSet<(Instant, u64)>,
    /// What hosts tell each other of their links, and which groups' flows are told.
    host_reports: Option<(Reports, Vec<bool>)>,
    report: HostReport,
    /// Processor time that was spent before the start.
    cpu_before: f64,
}

impl HostProcess<'_> {
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
            if self.host_reports.as_ref().is_some_and(|(reports, _)| reports.next_at() <= now) {
                self.exchange_reports(now)?;
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
            let reports = self.host_reports.as_ref().map(|(reports, _)| reports.next_at());
            let until = [Some(now.after(MAX_SLEEP)), self.starts.next_at(), pending, next_sample, reports];
            let until = until.into_iter().flatten().min().expect("there is a nap");
            self.host.run_once(&mut self.flows, until)?;
        }
        Ok(())
    }

    /// Both sides of a flow, of which this host needs one.
    fn open(&mut self, spec: &FlowSpec) -> Opened<AnyTransport> {
        let mut path = Vec::new();
        flow_path(&self.scenario.routing, spec, self.scenario.spec.seed, &mut path);
        self.factory.open(spec, &path)
    }

    fn is_kernel(&self, spec: &FlowSpec) -> bool {
        self.scenario.groups[usize::from(spec.group)].transport.facts().kernel.is_some()
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
            let congestion = group.transport.facts().kernel.expect("it is the kernel's");
            let progress = Arc::new(KernelSender::default());
            let flow = KernelFlow {
                number,
                bytes: spec.bytes,
                group: spec.group,
                octet: TrafficClass::new(spec.class.unwrap_or(group.class)).octet(),
                congestion: congestion.name(),
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
    fn hear(&mut self, reply: ControllerMessage) {
        let (side, answer) = match reply.to {
            EndpointMessage::Source(order) => (Side::Initiator, AnyAnswer::from(order)),
            EndpointMessage::Receiver(message) => (Side::Responder, AnyAnswer::from(message)),
        };
        let endpoint = EndpointId::new(reply.flow as u32, side);
        if self.host.transport(endpoint).is_none() {
            self.early.push(reply);
            return;
        }
        self.host.act(endpoint, &mut self.flows, |transport, _, now| transport.handle_answer(now, answer));
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

    /// Tells other hosts which rate is fair on this host's link, and its flows what is fair for them.
    fn exchange_reports(&mut self, now: Instant) -> Result<(), HostError> {
        let counts = self.flows_under_way(now);
        let Some((reports, told_groups)) = &mut self.host_reports else { return Ok(()) };
        reports.exchange(now, &counts)?;
        let is_told = |flow: &&Flow| !flow.finished && told_groups[usize::from(flow.spec.group)];
        let told = self.flows.senders.values().filter(is_told);
        let fair = |flow: &Flow| Some((flow.number, reports.fair_rate(now, flow.spec.destination)?));
        for (number, rate) in told.filter_map(fair).collect::<Vec<_>>() {
            let endpoint = EndpointId::new(number as u32, Side::Initiator);
            self.host.act(endpoint, &mut self.flows, |transport, _, now| {
                transport.handle_command(now, Command::SetFairRate(rate));
            });
        }
        Ok(())
    }

    /// Flows that have started and lack something, by the host at the other end.
    fn flows_under_way(&self, now: Instant) -> BTreeMap<u32, FlowCounts> {
        let mut counts: BTreeMap<u32, FlowCounts> = BTreeMap::new();
        for flow in self.flows.senders.values().filter(|flow| !flow.finished) {
            counts.entry(flow.spec.destination).or_default().up += 1;
        }
        let sends = |(_, sender): &&(FlowSpec, Arc<KernelSender>)| !sender.finished.load(Ordering::Relaxed);
        for (spec, _) in self.kernel_senders.values().filter(sends) {
            counts.entry(spec.destination).or_default().up += 1;
        }
        let kernel = self.kernel.receivers.lock().expect("receivers do not panic");
        let lacks = |flow: &&Flow| flow.spec.start <= now && !is_received(flow, &kernel);
        for flow in self.flows.receivers.values().filter(lacks) {
            counts.entry(flow.spec.source).or_default().down += 1;
        }
        counts
    }

    /// Whether all flows with an end are over and no more will start.
    fn is_over(&mut self) -> bool {
        let now = self.host.clock().now();
        if now < Instant::ZERO.after(self.scenario.spec.duration) && !self.starts.is_empty() {
            return false;
        }
        let ends = |flow: &&Flow| flow.spec.bytes != UNLIMITED_BYTES;
        let kernel = self.kernel.receivers.lock().expect("receivers do not panic");
        self.starts.is_empty()
            && self.flows.senders.values().filter(ends).all(|flow| flow.finished)
            && self.flows.receivers.values().filter(ends).all(|flow| is_received(flow, &kernel))
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
            self.report.senders.push(SenderReport { flow: flow.number, finished: flow.finished, counted });
        }
        for (&flow, (_, sender)) in &self.kernel_senders {
            let finished = sender.finished.load(Ordering::Relaxed);
            let retransmissions = sender.retransmissions.load(Ordering::Relaxed);
            let counted = Statistics { retransmissions, ..Statistics::default() };
            self.report.senders.push(SenderReport { flow, finished, counted });
        }
        let kernel = self.kernel.receivers.lock().expect("receivers do not panic");
        for flow in self.flows.receivers.values() {
            let report = if let Some(progress) = kernel.get(&flow.number) {
                kernel_report(flow.number, progress)
            } else {
                let transport = self.host.transport(EndpointId::new(flow.number as u32, Side::Responder));
                ReceiverReport {
                    flow: flow.number,
                    delivered_bytes: flow.delivered,
                    received_ps: flow.received.map(|at| at.since(Instant::ZERO).as_ps()),
                    wrong_bytes: flow.wrong,
                    messages: flow.messages.as_ref().map(|messages| messages.counts()),
                    record_error: flow.messages.as_ref().and_then(|messages| messages.record_error()),
                    counted: transport.map(Transport::statistics).unwrap_or_default(),
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

/// Whether all of a flow has arrived, by whomever it is carried.
fn is_received(flow: &Flow, kernel: &BTreeMap<u64, Arc<KernelProgress>>) -> bool {
    let by_kernel = kernel.get(&flow.number);
    flow.received.is_some() || by_kernel.is_some_and(|flow| flow.received_ps.load(Ordering::Relaxed) > 0)
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
