//! What bounds `bounded-two-class`: the same scenario with senders that know their true fair rate.
//!
//! `cargo test -p pliant-sim --lib perfect -- --ignored --nocapture`, with scenario files and overrides in `PLIANT_PERFECT`:
//! `FILE KEY=VALUE KEY=VALUE; FILE ...`. The first of them is what others' speed-ups are taken over.

use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;
use std::sync::atomic::AtomicBool;

use pliant_proto::packet::{Packet, SackBlocks};
use pliant_proto::transport::any::{AnyAnswer, AnyRequest};
use pliant_proto::transport::{Command, Deadline, Event, Statistics, Transport};

use super::*;
use crate::oracle::max_min::{FlowDemand, max_min};
use crate::scenario::{Override, Scenario};

/// Who is open on which path, and what is fair.
#[derive(Default)]
struct World {
    /// Bytes of payload per second of each link.
    capacities: Vec<f64>,
    open: Vec<(u64, Vec<usize>)>,
    rates: BTreeMap<u64, f64>,
    stale: bool,
    opened: u64,
}

impl World {
    fn rate(&mut self, flow: u64) -> Option<f64> {
        if std::mem::take(&mut self.stale) {
            let flows: Vec<FlowDemand<'_>> =
                self.open.iter().map(|(_, links)| FlowDemand { links, weight: 1.0, demand: None }).collect();
            let rates = max_min(&self.capacities, &flows);
            self.rates = self.open.iter().map(|(flow, _)| *flow).zip(rates).collect();
        }
        self.rates.get(&flow).copied()
    }

    fn close(&mut self, flow: u64) {
        self.open.retain(|(open, _)| *open != flow);
        self.stale = true;
    }
}

/// One side of a flow: when the receiver has everything, the flow is closed.
struct Known {
    inner: AnyTransport,
    flow: u64,
    world: Rc<RefCell<World>>,
}

impl Transport for Known {
    type Request = AnyRequest;
    type Answer = AnyAnswer;

    fn handle_packet(&mut self, now: Instant, packet: &Packet, sack: &SackBlocks) {
        self.inner.handle_packet(now, packet, sack);
    }
    fn handle_command(&mut self, now: Instant, command: Command<AnyAnswer>) {
        self.inner.handle_command(now, command);
    }
    fn handle_timeout(&mut self, now: Instant) {
        if let AnyTransport::TwoClassSender(sender) = &mut self.inner
            && let Some(rate) = self.world.borrow_mut().rate(self.flow)
        {
            sender.set_fair_rate(rate);
        }
        self.inner.handle_timeout(now);
    }
    fn poll_transmit(&mut self, now: Instant) -> Option<Packet> {
        self.inner.poll_transmit(now)
    }
    fn sack_blocks(&self) -> &SackBlocks {
        self.inner.sack_blocks()
    }
    fn poll_event(&mut self) -> Option<Event<AnyRequest>> {
        let event = self.inner.poll_event();
        if matches!(event, Some(Event::Received)) {
            self.world.borrow_mut().close(self.flow);
        }
        event
    }
    fn poll_timeout(&self) -> Option<Deadline> {
        self.inner.poll_timeout()
    }
    fn send_space(&self) -> u64 {
        self.inner.send_space()
    }
    fn statistics(&self) -> Statistics {
        self.inner.statistics()
    }
}

/// Runs with senders that know; if `knows` is false, with others.
fn run_known(scenario: &Resolved, knows: bool) -> RunResult {
    let payload = Segmentation { mss: scenario.mss(), wire: scenario.wire() }.goodput_ratio();
    let links = scenario.topology.links();
    let capacities = links.iter().map(|link| link.rate.bits_per_sec() as f64 / 8.0 * payload).collect();
    let world = Rc::new(RefCell::new(World { capacities, ..World::default() }));
    let adapt = |opened: Opened<AnyTransport>, path: &[LinkId]| {
        let flow = {
            let mut world = world.borrow_mut();
            world.opened += 1;
            let flow = world.opened;
            if knows {
                world.open.push((flow, path.iter().map(|link| link.index()).collect()));
                world.stale = true;
            }
            flow
        };
        opened.map(|inner| Known { inner, flow, world: Rc::clone(&world) })
    };
    run_as(scenario, NoRecorder, &AtomicBool::new(false), &mut |_| {}, adapt).unwrap().0
}

/// Mean and 99th percentile of the completion times of regular flows in ms, and the part of flexible flows below 0.8 of their
/// fair share.
fn summary(result: &RunResult) -> (f64, f64, f64, usize) {
    let group = |name: &str| result.groups.iter().position(|group| group.name == name).unwrap() as u16;
    let (regular, flexible) = (group("regular"), group("flexible"));
    let mut times: Vec<f64> = result
        .flows
        .iter()
        .filter(|flow| flow.group == regular)
        .filter_map(|flow| flow.fct().map(|fct| fct.as_secs_f64() * 1e3))
        .collect();
    times.sort_by(f64::total_cmp);
    let shares: Vec<f64> =
        result.flows.iter().filter(|flow| flow.group == flexible).filter_map(|flow| flow.fair_share.get()).collect();
    let below = shares.iter().filter(|share| **share < 0.8).count() as f64 / shares.len() as f64;
    let p99 = times[(times.len() * 99).div_ceil(100) - 1];
    (times.iter().sum::<f64>() / times.len() as f64, p99, below, shares.len())
}

/// Prints a line for each run. A file with `!` before it is one whose senders know.
#[test]
#[ignore = "an experiment: it takes minutes"]
fn perfect_knowledge() {
    let runs = std::env::var("PLIANT_PERFECT").unwrap_or_default();
    let mut first = None;
    for run in runs.split(';').map(str::trim).filter(|run| !run.is_empty()) {
        let mut words = run.split_whitespace();
        let file = words.next().unwrap();
        let (knows, file) = file.strip_prefix('!').map_or((false, file), |file| (true, file));
        let changes: Vec<_> = words.map(|change| Override::parse("--set", change).unwrap()).collect();
        let text = std::fs::read_to_string(file).unwrap();
        let scenario = Scenario::parse(&text, Path::new(file)).and_then(|scenario| scenario.with(&changes)).unwrap();
        let (mean, p99, below, flows) = summary(&run_known(&scenario.resolve().unwrap(), knows));
        let (first_mean, first_p99) = *first.get_or_insert((mean, p99));
        println!("{:.3} {:.3} {below:.4} of {flows}: {run}", first_mean / mean, first_p99 / p99);
    }
}
