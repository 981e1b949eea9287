//! Runs a resolved scenario to its end.
//!
//! The run is cut into slices of simulated time, after which progress is told and an interrupt is heard. Slices follow
//! from the scenario alone and change no event, so they change no result.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cpu_time::ThreadTime;
use pliant_proto::contract::Contract;
use pliant_proto::contract::reflex::ReflexConfig;
use pliant_proto::packet::TrafficClass;
use pliant_proto::switch::queue::{Occupancy, QueueCounters};
use pliant_proto::time::{Instant, Span};
use pliant_proto::transport::any::{AnyTransport, Member, PlainTcp};
use pliant_proto::transport::atp::LossBound;
use pliant_proto::units::Rate;

use crate::engine::{FlowMessages, Opened, Outcome, PathChoice, Setup, Simulation};
use crate::families::{Endpoints, FlowEndpoints, RunSettings};
use crate::oracle::fair_rates::Paths;
use crate::oracle::ideal_fct::{Segmentation, ideal_fct};
use crate::recorder::{NoRecorder, Recorder, SeriesRecorder};
use crate::results::{FlowRow, FlowState, GroupInfo, ObjectPart, PortRow, RunResult};
use crate::scenario::{Group, Resolved};
use crate::topology::{LinkId, NodeId};
use crate::traffic::{FlowSpec, UNLIMITED_BYTES};

/// Slices in `duration`.
const SLICES: u64 = 1000;

/// How far a run is.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Simulated time so far.
    pub now: Span,
    /// Simulated time at which no more flows start.
    pub duration: Span,
    /// Packets that crossed a link when they were last counted: no longer ago than as many events as there are links.
    pub packet_hops: u64,
    /// Flows that started so far.
    pub flows_started: u64,
    /// Flows that are over.
    pub flows_over: u64,
}

/// Why a run that was resolved failed all the same: a trace changed under it.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct RunError(String);

/// Runs until every flow with an end is over, or `drain` after `duration`. Flows without an end run at least until
/// `duration`. Only a trace that was changed since the scenario was resolved can fail.
pub fn run(
    scenario: &Resolved,
    interrupt: &AtomicBool,
    progress: &mut dyn FnMut(&Progress),
) -> Result<RunResult, RunError> {
    match scenario.spec.sample_interval {
        Some(interval) => {
            let recorder = SeriesRecorder::new(interval, group_infos(scenario).len(), scenario.spec.sample_windows);
            let (mut result, recorder) = run_recorded(scenario, recorder, interrupt, progress)?;
            (result.queue_samples, result.throughput_samples) = (recorder.queues, recorder.throughput);
            (result.reflex_samples, result.window_samples) = (recorder.reflex, recorder.windows);
            Ok(result)
        }
        None => run_recorded(scenario, NoRecorder, interrupt, progress).map(|(result, _)| result),
    }
}

fn run_recorded<R: Recorder>(
    scenario: &Resolved,
    recorder: R,
    interrupt: &AtomicBool,
    progress: &mut dyn FnMut(&Progress),
) -> Result<(RunResult, R), RunError> {
    if scenario.groups.iter().all(Group::is_plain_tcp) {
        run_with::<PlainTcp, R>(scenario, recorder, interrupt, progress)
    } else {
        run_with::<AnyTransport, R>(scenario, recorder, interrupt, progress)
    }
}

/// `T` must be able to stand for every transport of the scenario.
fn run_with<T: Member + TryFrom<AnyTransport>, R: Recorder>(
    scenario: &Resolved,
    recorder: R,
    interrupt: &AtomicBool,
    progress: &mut dyn FnMut(&Progress),
) -> Result<(RunResult, R), RunError> {
    let narrow = |transport: AnyTransport| T::try_from(transport).ok().expect("a transport that the scenario has");
    run_as(scenario, recorder, interrupt, progress, |opened: Opened<AnyTransport>, _| opened.map(narrow))
}

/// Runs with what `adapt` makes of each flow's transports and its path.
fn run_as<T: Member, R: Recorder>(
    scenario: &Resolved,
    recorder: R,
    interrupt: &AtomicBool,
    progress: &mut dyn FnMut(&Progress),
    mut adapt: impl FnMut(Opened<AnyTransport>, &[LinkId]) -> Opened<T>,
) -> Result<(RunResult, R), RunError> {
    if let Some(why) = scenario.testbed_only() {
        return Err(RunError(why));
    }
    let clock = Clock::start();
    let bundled: Vec<bool> = scenario.groups.iter().map(|group| group.bundle).collect();
    let setup = Setup {
        topology: &scenario.topology,
        routing: &scenario.routing,
        plans: scenario.plans(),
        path_choice: scenario.spec.path_choice(),
        oracle_interval: scenario.oracle_interval(),
        host_reports: scenario.host_reports(),
        losses: &scenario.losses,
        reroutes: &scenario.reroutes,
        bundled: &bundled,
        mss: scenario.mss(),
        seed: scenario.spec.seed,
    };
    let mut traffic = scenario.traffic().map_err(|error| RunError(error.to_string()))?;
    let endless = Cell::new(0u64);
    let mut flows = FlowFactory::new(scenario);
    let mut paths = Paths::default();
    let open = |flow: &FlowSpec, path: &[LinkId]| {
        if scenario.computes_shares() {
            paths.push(path.iter().map(|link| link.0));
        }
        endless.set(endless.get() + u64::from(flow.bytes == UNLIMITED_BYTES));
        adapt(flows.open(flow, path), path)
    };
    let mut simulation = Simulation::new(&setup, &mut traffic, open, recorder);
    let interrupted = advance(&mut simulation, scenario, &endless, interrupt, progress);
    let outcome = simulation.finish();
    if let Some(error) = traffic.error() {
        return Err(RunError(error.to_string()));
    }
    let Outcome { mut flows, ports, left, totals, ended, recorder } = outcome;
    if scenario.computes_shares() {
        shares::fill(&mut flows, &paths, scenario, ended);
    }
    let (wall_s, cpu_s) = clock.read();
    let result = RunResult {
        scenario: scenario.name().to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        seed: scenario.spec.seed,
        digest: totals.digest,
        simulated: ended.since(Instant::ZERO),
        wall_s,
        cpu_s,
        packet_hops: totals.packet_hops,
        events: totals.events,
        control_messages: totals.control_messages,
        interrupted,
        overloaded: None,
        groups: group_infos(scenario),
        flows: measured(flows, scenario),
        ports: port_rows(scenario, ports, left),
        queue_samples: Vec::new(),
        throughput_samples: Vec::new(),
        reflex_samples: Vec::new(),
        window_samples: Vec::new(),
    };
    result.assert_invariants();
    Ok((result, recorder))
}

/// Advances slice by slice to the end of the run. Returns whether it was interrupted before.
fn advance<T: Member, R: Recorder>(
    simulation: &mut Simulation<'_, T, R>,
    scenario: &Resolved,
    endless: &Cell<u64>,
    interrupt: &AtomicBool,
    progress: &mut dyn FnMut(&Progress),
) -> bool {
    let duration = scenario.spec.duration;
    let end = Instant::ZERO.after(duration).after(scenario.drain());
    let slice = duration.divided_by(SLICES).max(Span::from_ps(1));
    let links = scenario.topology.links().len() as u64;
    let (mut packet_hops, mut counted_at) = (0, 0);
    let mut until = Instant::ZERO;
    while until < end {
        // Slices in which nothing happens are skipped, but not the one in which flows cease to start.
        let due = simulation.next_at().since(Instant::ZERO);
        let due = if until.since(Instant::ZERO) < duration { due.min(duration) } else { due };
        let silent = slice.times(due.as_ps().saturating_sub(1) / slice.as_ps());
        until = until.max(Instant::ZERO.after(silent)).after(slice).min(end);
        let more = simulation.run_until(until);
        let (flows_started, flows_over) = simulation.flow_counts();
        let now = until.since(Instant::ZERO);
        // A sum over all links: in a large network most slices have fewer events.
        if simulation.events() - counted_at >= links {
            (packet_hops, counted_at) = (simulation.packet_hops(), simulation.events());
        }
        progress(&Progress { now, duration, packet_hops, flows_started, flows_over });
        let only_endless = flows_started - flows_over == endless.get();
        if !more || now >= duration && only_endless {
            break;
        }
        if interrupt.load(Ordering::Relaxed) {
            return true;
        }
    }
    false
}

/// Opens the flows of a scenario.
pub struct FlowFactory<'a> {
    scenario: &'a Resolved,
    groups: Vec<GroupFlows<'a>>,
}

/// Opens the flows of one group.
struct GroupFlows<'a> {
    group: &'a Group,
    endpoints: Box<dyn Endpoints + 'a>,
    legacy: Option<LegacyFlows<'a>>,
    /// For each class that flows have asked for.
    reflex: BTreeMap<Option<u8>, Arc<ReflexConfig>>,
}

/// Opens those whose ends are not both deployed.
struct LegacyFlows<'a> {
    endpoints: Box<dyn Endpoints + 'a>,
    /// Their row of [`RunResult::groups`].
    row: u16,
}

impl<'a> FlowFactory<'a> {
    /// For the flows of a scenario.
    pub fn new(scenario: &'a Resolved) -> Self {
        let of_group = |((number, group), row): ((u16, &'a Group), Option<u16>)| {
            let run = RunSettings {
                group: number,
                name: &group.name,
                class: group.class,
                ack_class: group.ack_class,
                traffic: &group.traffic,
                max_loss: group.max_loss,
                seed: scenario.spec.seed,
                mss: scenario.mss(),
                wire: scenario.wire(),
                topology: &scenario.topology,
                plans: scenario.plans(),
            };
            let legacy = group.legacy.as_ref().zip(row);
            let legacy = legacy.map(|(legacy, row)| LegacyFlows { endpoints: legacy.transport.endpoints(run), row });
            GroupFlows { group, endpoints: group.transport.endpoints(run), legacy, reflex: BTreeMap::new() }
        };
        let groups = (0..).zip(&scenario.groups).zip(legacy_rows(scenario)).map(of_group).collect();
        Self { scenario, groups }
    }

    /// Both sides of `flow`, which takes `path`. It must not be of a group that only a testbed can run. The flow that a bundle
    /// shares has no end.
    pub fn open(&mut self, flow: &FlowSpec, path: &[LinkId]) -> Opened<AnyTransport> {
        let scenario = self.scenario;
        let GroupFlows { group, endpoints, legacy, reflex } = &mut self.groups[usize::from(flow.group)];
        let upgraded = scenario.is_upgraded(flow.source, flow.destination);
        let carried = if group.bundle { FlowSpec { bytes: UNLIMITED_BYTES, ..*flow } } else { *flow };
        let policy = group.reflex.as_ref().map(|of_group| {
            let class = TrafficClass::new(flow.class.unwrap_or(group.class));
            let config = reflex.entry(flow.class).or_insert_with(|| Arc::new(of_group.config_in(class)));
            of_group.policy(Arc::clone(config), &carried, scenario.spec.seed).into()
        });
        let (row, opened) = match legacy.as_mut().filter(|_| !upgraded) {
            // Their class is not the trace's to say.
            Some(legacy) => (legacy.row, legacy.endpoints.open(&FlowSpec { class: None, ..carried }, path, None)),
            None => (flow.group, endpoints.open(&carried, path, policy)),
        };
        let messages = group.messages.as_ref().map(|messages| {
            let source = messages.source(flow.sequence, flow.bytes);
            let endless = flow.bytes == UNLIMITED_BYTES;
            let total = (!endless).then(|| messages.count_of(flow.sequence, flow.bytes));
            let whole = group.transport.facts().delivers_messages;
            Box::new(FlowMessages::new(source, total, group.max_loss, !messages.streaming, whole))
        });
        let object = group.traffic.flows_per_object().map(|flows| ObjectPart {
            number: flow.sequence / u64::from(flows),
            shares: group.traffic.flows_that_share() > 1,
        });
        let ideal_fct = ideal_fct_of(scenario, group, flow, path);
        let FlowEndpoints { initiator, responder, push } = opened;
        let Contract { done_by, max_rate, .. } = group.contract;
        let initiator = initiator.bounded_by(carried.bytes, done_by, max_rate);
        Opened { initiator, responder, ideal_fct, messages, pinned: group.pinned, group: row, object, push }
    }
}

/// Time that `flow` would take alone on `path`.
fn ideal_fct_of(scenario: &Resolved, group: &Group, flow: &FlowSpec, path: &[LinkId]) -> Span {
    let destination = NodeId(flow.destination);
    // A flow alone sends without gaps, or waits for them: as one flowlet it is as fast as on one path.
    let one_path = matches!(scenario.spec.path_choice(), PathChoice::Ecmp | PathChoice::Flowlet(_));
    let sprays = !one_path && !group.pinned;
    // Sprayed packets spread over all equal-cost paths: no flow is faster than where each hop has the rate of as
    // many links as the choices so far can reach. A host sends a flow by one link; the last hop has the destination's.
    let mut parallel = 1;
    let links = path.iter().map(|&link| scenario.topology.link(link)).map(|link| {
        if sprays && !scenario.topology.is_host(link.from) {
            parallel *= scenario.routing.next_links(link.from, destination).len() as u64;
        }
        let last = scenario.topology.outgoing(destination).len() as u64;
        let width = if link.to == destination { parallel.min(last) } else { parallel };
        (Rate::from_bits_per_sec(link.rate.bits_per_sec().saturating_mul(width)), link.delay)
    });
    ideal_fct(flow.bytes, Segmentation { mss: scenario.mss(), wire: scenario.wire() }, links)
}

/// Rows of legacy flows follow those of all groups, in the groups' order.
fn legacy_rows(scenario: &Resolved) -> Vec<Option<u16>> {
    let mut next = scenario.groups.len() as u16;
    let mut row = |group: &Group| {
        group.legacy.as_ref().map(|_| {
            next += 1;
            next - 1
        })
    };
    scenario.groups.iter().map(&mut row).collect()
}

/// The flows that started after the warm-up and before the end of the measured time. Those without an end are not taken
/// for unfinished, nor those for completed whose last byte arrived after others were lost for good.
pub fn measured(mut flows: Vec<FlowRow>, scenario: &Resolved) -> Vec<FlowRow> {
    let measure_from = Instant::ZERO.after(scenario.spec.warmup);
    let measure_until = Instant::ZERO.after(scenario.spec.measure_until.unwrap_or(Span::MAX));
    flows.retain(|flow| (measure_from..measure_until).contains(&flow.start));
    for flow in &mut flows {
        // Legacy flows, whose rows follow, repair all losses.
        let group = scenario.groups.get(usize::from(flow.group));
        let lacks = group.is_some_and(|group| match flow.messages {
            Some(counts) if group.max_loss != LossBound::RELIABLE => counts.delivered < counts.needed,
            // They bring an object together.
            _ if flow.shares_object => false,
            _ => flow.delivered_bytes < group.contract.needed_bytes(flow.bytes),
        });
        if flow.bytes == UNLIMITED_BYTES && flow.state == FlowState::Unfinished {
            (flow.state, flow.ideal_fct) = (FlowState::RanToEnd, Span::ZERO);
        } else if flow.state == FlowState::Completed && lacks {
            (flow.state, flow.completed) = (FlowState::SentWithLoss, None);
        }
    }
    flows
}

/// A row for each queue of each port, from the counts and what is left in them, by link and queue.
pub fn port_rows(scenario: &Resolved, ports: Vec<Vec<QueueCounters>>, left: Vec<Vec<Occupancy>>) -> Vec<PortRow> {
    let topology = &scenario.topology;
    let mut rows = Vec::new();
    for (port, (counters, left)) in ports.into_iter().zip(left).enumerate() {
        let link = LinkId(port as u32);
        let plan = scenario.plans().of(topology, link);
        for (queue, (counters, left)) in counters.into_iter().zip(left).enumerate() {
            rows.push(PortRow {
                port: link.0,
                queue: queue as u8,
                name: topology.link_name(link),
                queue_name: plan.queues[queue].name.clone(),
                counters,
                left,
            });
        }
    }
    rows
}

/// The groups, then the legacy flows of those that have some.
pub fn group_infos(scenario: &Resolved) -> Vec<GroupInfo> {
    let legacy = |group: &Group| {
        group.legacy.as_ref().map(|legacy| GroupInfo {
            name: format!("{}.legacy", group.name),
            transport: legacy.name.name().to_owned(),
            class: class_text(scenario, legacy.class),
            min_share: 1.0,
            contract: "none".to_owned(),
        })
    };
    let groups = scenario.groups.iter().map(|group| group_info(scenario, group));
    groups.chain(scenario.groups.iter().filter_map(legacy)).collect()
}

/// A class with the queue that takes it.
fn class_text(scenario: &Resolved, class: u8) -> String {
    let queue = scenario.switch_plan.queue_of_class[usize::from(class)];
    format!("{class} ({})", scenario.switch_plan.queues[usize::from(queue)].name)
}

fn group_info(scenario: &Resolved, group: &Group) -> GroupInfo {
    let spec = &scenario.spec.traffic[&group.name].keys;
    let asked = [
        ("min_delivery", spec.contract.min_delivery),
        ("min_share", spec.contract.min_share),
        ("weight", spec.contract.weight),
    ];
    let mut asked: Vec<String> =
        asked.iter().filter(|(_, value)| *value != 1.0).map(|(field, value)| format!("{field} {value}")).collect();
    if spec.contract.min_rate != Rate::default() {
        asked.push(format!("min_rate {}", spec.contract.min_rate));
    }
    if let Some(rate) = spec.contract.max_rate {
        asked.push(format!("max_rate {rate}"));
    }
    if let Some(span) = spec.contract.done_by {
        asked.push(format!("done_by {span}"));
    }
    if spec.contract.priority != 0 {
        asked.push(format!("priority {}", spec.contract.priority));
    }
    if group.bundle {
        asked.push("bundle".to_owned());
    }
    GroupInfo {
        name: group.name.clone(),
        transport: format!("{}{}", spec.transport.name(), if group.reflex.is_some() { " + reflex" } else { "" }),
        class: class_text(scenario, group.class),
        min_share: spec.contract.min_share,
        contract: if asked.is_empty() { "none".to_owned() } else { asked.join(", ") },
    }
}

/// What the run costs. Results do not depend on it.
struct Clock {
    wall: std::time::Instant,
    /// A run is one thread.
    cpu: ThreadTime,
}

impl Clock {
    #[allow(clippy::disallowed_methods, reason = "the cost of a run is measured, its events are not")]
    fn start() -> Self {
        Self { wall: std::time::Instant::now(), cpu: ThreadTime::now() }
    }

    /// Seconds elapsed, and seconds computed.
    fn read(&self) -> (f64, f64) {
        (self.wall.elapsed().as_secs_f64(), self.cpu.elapsed().as_secs_f64())
    }
}

mod shares;
#[cfg(test)]
mod tests;
