//! Runs a resolved scenario to its end.
//!
//! The run is cut into slices of simulated time, after which progress is told and an interrupt is heard. Slices follow
//! from the scenario alone and change no event, so they change no result.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cpu_time::ThreadTime;
use pliant_proto::packet::TrafficClass;
use pliant_proto::switch::queue::QueueCounters;
use pliant_proto::time::{Instant, Span};
use pliant_proto::transport::any::AnyTransport;
use pliant_proto::transport::tcp::{TcpConfig, TcpReceiver, TcpSender};
use pliant_proto::transport::udp::{UdpConfig, UdpReceiver, UdpSender};

use crate::engine::{Opened, Setup, Simulation, Totals};
use crate::oracle::{Segmentation, ideal_fct};
use crate::recorder::{NoRecorder, Recorder, SeriesRecorder};
use crate::results::{FlowRow, QueueSample, ThroughputSample};
use crate::scenario::{Carrier, Resolved};
use crate::topology::LinkId;
use crate::traffic::{FlowSpec, TrafficError, UNLIMITED_BYTES};

/// Slices in `duration`.
const SLICES: u64 = 1000;

/// How far a run is.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Simulated time so far.
    pub now: Span,
    /// Simulated time at which no more flows start.
    pub duration: Span,
    /// Packets that crossed a link so far.
    pub packet_hops: u64,
    /// Flows that started so far.
    pub flows_started: u64,
    /// Flows that are over.
    pub flows_over: u64,
}

/// What a run leaves.
#[derive(Debug)]
pub struct Ran {
    /// One row per started flow, by number.
    pub flows: Vec<FlowRow>,
    /// Counts of each queue, by link.
    pub ports: Vec<Vec<QueueCounters>>,
    /// Counts of the run.
    pub totals: Totals,
    /// When it stopped.
    pub ended: Instant,
    /// Queues that held something, at each look of the recorder.
    pub queue_samples: Vec<QueueSample>,
    /// Bytes delivered between looks, per traffic group.
    pub throughput: Vec<ThroughputSample>,
    /// Time it took.
    pub wall: Duration,
    /// Time it computed, on its one thread.
    pub cpu: Duration,
    /// Whether it was stopped from outside.
    pub interrupted: bool,
}

/// Runs until every flow with an end is over, or `drain` after `duration`. Flows without an end run at least until
/// `duration`. Only a trace that was changed since the scenario was resolved can fail.
pub fn run(
    scenario: &Resolved,
    interrupt: &AtomicBool,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Ran, TrafficError> {
    match scenario.spec.sample_interval {
        Some(interval) => {
            let recorder = SeriesRecorder::new(interval, scenario.groups.len());
            let (mut ran, recorder) = run_with(scenario, recorder, interrupt, progress)?;
            (ran.queue_samples, ran.throughput) = (recorder.queues, recorder.throughput);
            Ok(ran)
        }
        None => run_with(scenario, NoRecorder, interrupt, progress).map(|(ran, _)| ran),
    }
}

fn run_with<R: Recorder>(
    scenario: &Resolved,
    recorder: R,
    interrupt: &AtomicBool,
    progress: &mut dyn FnMut(&Progress),
) -> Result<(Ran, R), TrafficError> {
    let clock = Clock::start();
    let setup = Setup {
        topology: &scenario.topology,
        routing: &scenario.routing,
        switch_plan: &scenario.switch_plan,
        host_plan: &scenario.host_plan,
        path_choice: scenario.spec.routing.into(),
        seed: scenario.spec.seed,
    };
    let mut traffic = scenario.traffic()?;
    let endless = Rc::new(Cell::new(0u64));
    let failed = Rc::new(Cell::new(None));
    let mut opener = Opener::new(scenario);
    let open = {
        let endless = Rc::clone(&endless);
        move |flow: &FlowSpec, path: &[LinkId]| {
            endless.set(endless.get() + u64::from(flow.bytes == UNLIMITED_BYTES));
            opener.open(flow, path)
        }
    };
    let mut simulation = Simulation::new(&setup, flows_of(&mut traffic, &failed), open, recorder);

    let duration = scenario.spec.duration;
    let end = Instant::ZERO.after(duration).after(scenario.drain());
    let slice = duration.divided_by(SLICES).max(Span::from_ps(1));
    let mut until = Instant::ZERO;
    let mut interrupted = false;
    while until < end {
        until = until.after(slice).min(end);
        let more = simulation.run_until(until);
        let (flows_started, flows_over) = simulation.flow_counts();
        let now = until.since(Instant::ZERO);
        let packet_hops = simulation.packet_hops();
        progress(&Progress { now, duration, packet_hops, flows_started, flows_over });
        let only_endless = flows_started - flows_over == endless.get();
        if !more || now >= duration && only_endless {
            break;
        }
        if interrupt.load(Ordering::Relaxed) {
            interrupted = true;
            break;
        }
    }
    let outcome = simulation.finish();
    let (wall, cpu) = clock.read();
    let ran = Ran {
        flows: outcome.flows,
        ports: outcome.ports,
        totals: outcome.totals,
        ended: outcome.ended,
        queue_samples: Vec::new(),
        throughput: Vec::new(),
        wall,
        cpu,
        interrupted,
    };
    Ok((ran, outcome.recorder))
}
