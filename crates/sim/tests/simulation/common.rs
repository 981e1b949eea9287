//! A network, its flows and their transports in few words.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use pliant_proto::congestion::{AckSample, Congestion, CongestionControl, EcnMode};
use pliant_proto::packet::{Packet, SackBlocks};
use pliant_proto::switch::marker::{Level, MarkAt, MarkerConfig, Scope, Threshold};
use pliant_proto::switch::queue::QueueCounters;
use pliant_proto::switch::{Link, QueueConfig, QueuePlan};
use pliant_proto::time::{Instant, Span};
use pliant_proto::transport::any::{AnyAnswer, AnyRequest, Member};
use pliant_proto::transport::near_opt::{NearOptConfig, NearOptReceiver, NearOptSender};
use pliant_proto::transport::tcp::{TcpConfig, TcpReceiver, TcpSender};
use pliant_proto::transport::udp::{UdpConfig, UdpReceiver, UdpSender};
use pliant_proto::transport::{Command, Deadline, Event, Statistics, Transport};
use pliant_proto::units::Rate;
use pliant_sim::engine::{Opened, Outcome, PathChoice, Setup, Simulation};
use pliant_sim::oracle::ideal_fct::{Segmentation, ideal_fct};
use pliant_sim::port_plans::{OtherPlans, PortPlans};
use pliant_sim::recorder::Recorder;
use pliant_sim::results::FlowRow;
use pliant_sim::routing::Routing;
use pliant_sim::topology::{Dumbbell, LinkId, LinkSpec, Topology};
use pliant_sim::traffic::FlowSpec;
use proptest::test_runner::Config as ProptestConfig;

/// Property tests of so many cases, or of as many as `PROPTEST_CASES` says.
pub(crate) fn cases(usual: u32) -> ProptestConfig {
    let given = std::env::var_os("PROPTEST_CASES").is_some();
    let default = ProptestConfig::default();
    ProptestConfig { cases: if given { default.cases } else { usual }, ..default }
}

/// Payload bytes of a full packet in every test.
pub(crate) const MSS: u16 = 1460;

/// Bytes of a flow that outlasts every test.
pub(crate) const ENDLESS: u64 = 1 << 50;

/// Either side of a TCP flow under the controller `C`, of a constant-rate flow or of a Near-Opt flow.
pub(crate) enum Endpoint<C> {
    TcpSender(TcpSender<C>),
    TcpReceiver(TcpReceiver),
    UdpSender(UdpSender),
    UdpReceiver(UdpReceiver),
    NearOptSender(NearOptSender),
    NearOptReceiver(NearOptReceiver),
}

macro_rules! either {
    ($self:ident, $transport:ident => $call:expr) => {
        match $self {
            Self::TcpSender($transport) => $call,
            Self::TcpReceiver($transport) => $call,
            Self::UdpSender($transport) => $call,
            Self::UdpReceiver($transport) => $call,
            Self::NearOptSender($transport) => $call,
            Self::NearOptReceiver($transport) => $call,
        }
    };
}

impl<C: CongestionControl> Transport for Endpoint<C> {
    type Request = AnyRequest;
    type Answer = AnyAnswer;

    fn handle_packet(&mut self, now: Instant, packet: &Packet, sack: &SackBlocks) {
        either!(self, transport => transport.handle_packet(now, packet, sack));
    }
    fn handle_command(&mut self, now: Instant, command: Command<AnyAnswer>) {
        either!(self, transport => {
            if let Some(command) = command.filter_map_answer(|answer| answer.try_into().ok()) {
                transport.handle_command(now, command);
            }
        });
    }
    fn handle_timeout(&mut self, now: Instant) {
        either!(self, transport => transport.handle_timeout(now));
    }
    fn poll_transmit(&mut self, now: Instant) -> Option<Packet> {
        either!(self, transport => transport.poll_transmit(now))
    }
    fn sack_blocks(&self) -> &SackBlocks {
        either!(self, transport => transport.sack_blocks())
    }
    fn poll_event(&mut self) -> Option<Event<AnyRequest>> {
        either!(self, transport => transport.poll_event().map(|event| event.map_request(AnyRequest::from)))
    }
    fn poll_timeout(&self) -> Option<Deadline> {
        either!(self, transport => transport.poll_timeout())
    }
    fn statistics(&self) -> Statistics {
        either!(self, transport => transport.statistics())
    }
}

/// Both sides of a TCP flow.
pub(crate) fn tcp<C>(config: &Arc<TcpConfig>, controller: C) -> (Endpoint<C>, Endpoint<C>)
where
    C: CongestionControl,
{
    let sender = TcpSender::new(Arc::clone(config), controller);
    (Endpoint::TcpSender(sender), Endpoint::TcpReceiver(TcpReceiver::new(Arc::clone(config))))
}

/// Both sides of a constant-rate flow.
pub(crate) fn udp<C>(config: UdpConfig) -> (Endpoint<C>, Endpoint<C>) {
    (Endpoint::UdpSender(UdpSender::new(config)), Endpoint::UdpReceiver(UdpReceiver::new()))
}

/// Both sides of a Near-Opt flow.
pub(crate) fn near_opt<C>(config: NearOptConfig) -> (Endpoint<C>, Endpoint<C>) {
    let config = Arc::new(config);
    let sender = NearOptSender::new(Arc::clone(&config));
    (Endpoint::NearOptSender(sender), Endpoint::NearOptReceiver(NearOptReceiver::new(config)))
}

/// A flow between two hosts.
pub(crate) fn flow(source: u32, destination: u32, bytes: u64) -> FlowSpec {
    FlowSpec { start: Instant::ZERO, source, destination, bytes, group: 0, class: None, sequence: 0, again: None }
}

/// Endless flows from host `i` to host `pairs + i` of a dumbbell, each a group of its own.
pub(crate) fn across(pairs: u32) -> Vec<FlowSpec> {
    (0..pairs).map(|pair| FlowSpec { group: pair as u16, ..flow(pair, pairs + pair, ENDLESS) }).collect()
}

/// A cable of `gbit` Gbit/s and `delay_us` microseconds.
pub(crate) fn cable(gbit: u64, delay_us: u64) -> LinkSpec {
    LinkSpec { rate: Rate::from_gbit_per_sec(gbit), delay: Span::from_us(delay_us) }
}

/// A dumbbell of `pairs` pairs.
pub(crate) fn dumbbell(pairs: u32, edge_link: LinkSpec, bottleneck_link: LinkSpec) -> Topology {
    let spec = Dumbbell { pairs, edge_link, bottleneck_link, host_delay: Span::ZERO };
    spec.build().expect("a dumbbell")
}

/// The bottleneck of a dumbbell, from left to right.
pub(crate) fn bottleneck(pairs: u32) -> usize {
    4 * pairs as usize
}

/// A threshold of `packets` packets per queue.
pub(crate) fn mark_from(packets: u32, at: MarkAt) -> MarkerConfig {
    MarkerConfig::Threshold(Threshold { level: Level::Packets(packets), at, scope: Scope::Queue, pass_not_ect: true })
}

/// One queue of `limit` packets that marks.
pub(crate) fn fifo(limit: u32, marker: MarkerConfig) -> QueuePlan {
    QueuePlan::single(QueueConfig { marker, ..QueueConfig::tail_drop("fifo", limit) })
}

/// An instant `ms` milliseconds after the start.
pub(crate) fn at_ms(ms: u64) -> Instant {
    Instant::ZERO.after(Span::from_ms(ms))
}

/// No port differs from the others of its kind.
static ALL_ALIKE: OtherPlans = OtherPlans::NONE;

/// A network to run flows on.
pub(crate) struct TestBed {
    pub(crate) topology: Topology,
    pub(crate) routing: Routing,
    pub(crate) switch_plan: QueuePlan,
    pub(crate) host_plan: QueuePlan,
    pub(crate) path_choice: PathChoice,
    pub(crate) oracle_interval: Span,
    pub(crate) cut: Segmentation,
    pub(crate) seed: u64,
}

impl TestBed {
    /// A network with `switch_plan` at switches and hosts that drop nothing.
    pub(crate) fn new(topology: Topology, switch_plan: QueuePlan, config: &TcpConfig) -> Self {
        let routing = Routing::new(&topology).expect("routes");
        let host_plan = fifo(u32::MAX, MarkerConfig::None);
        let cut = Segmentation { mss: config.mss, wire: config.wire };
        let (path_choice, oracle_interval) = (PathChoice::Ecmp, Span::from_us(25));
        Self { topology, routing, switch_plan, host_plan, path_choice, oracle_interval, cut, seed: 1 }
    }

    /// A run of `flows`, sorted by start; `pair` makes the two sides of each.
    pub(crate) fn start<'a, T: Member, R: Recorder>(
        &'a self,
        flows: &'a [FlowSpec],
        mut pair: impl FnMut(&FlowSpec) -> (T, T) + 'a,
        recorder: R,
    ) -> Simulation<'a, T, R> {
        for plan in [&self.switch_plan, &self.host_plan] {
            assert_eq!(plan.check(), Ok(()));
        }
        let setup = Setup {
            topology: &self.topology,
            routing: &self.routing,
            plans: PortPlans { switches: &self.switch_plan, hosts: &self.host_plan, others: &ALL_ALIKE },
            path_choice: self.path_choice,
            oracle_interval: self.oracle_interval,
            host_reports: None,
            losses: &[],
            reroutes: &[],
            bundled: &[],
            mss: MSS,
            seed: self.seed,
        };
        let open = move |spec: &FlowSpec, path: &[LinkId]| {
            let (initiator, responder) = pair(spec);
            let ideal_fct = self.ideal_fct(spec.bytes, path);
            Opened {
                initiator,
                responder,
                ideal_fct,
                messages: None,
                pinned: false,
                group: spec.group,
                object: None,
                push: None,
            }
        };
        Simulation::new(&setup, flows.iter().copied(), open, recorder)
    }

    /// Runs `flows` until `end`, or until nothing is left to happen.
    pub(crate) fn run<T: Member, R: Recorder>(
        &self,
        flows: &[FlowSpec],
        pair: impl FnMut(&FlowSpec) -> (T, T),
        recorder: R,
        end: Instant,
    ) -> Outcome<R> {
        let mut simulation = self.start(flows, pair, recorder);
        simulation.run_until(end);
        simulation.finish()
    }

    fn ideal_fct(&self, bytes: u64, path: &[LinkId]) -> Span {
        let links = path.iter().map(|&link| self.topology.link(link));
        ideal_fct(bytes, self.cut, links.map(|link| (link.rate, link.delay)))
    }
}

/// Watches one port from `from` on: its queues' lengths at every look, and what each group delivered.
pub(crate) struct Watch {
    port: usize,
    from: Instant,
    interval: Span,
    on: bool,
    /// Packets waiting at each look, all queues together.
    pub(crate) lengths: Vec<u32>,
    /// Bytes delivered since `from`, per group.
    pub(crate) delivered: Vec<u64>,
}

impl Watch {
    pub(crate) fn new(port: usize, from: Instant, interval: Span, groups: usize) -> Self {
        Self { port, from, interval, on: false, lengths: Vec::new(), delivered: vec![0; groups] }
    }

    /// Mean length in packets.
    pub(crate) fn mean_length(&self) -> f64 {
        self.lengths.iter().map(|&length| f64::from(length)).sum::<f64>() / self.lengths.len() as f64
    }

    /// The length that a `share` of the looks does not exceed.
    pub(crate) fn percentile(&self, share: f64) -> u32 {
        let mut sorted = self.lengths.clone();
        sorted.sort_unstable();
        sorted[(share * (sorted.len() - 1) as f64) as usize]
    }

    /// Bits per second each group delivered until `end`.
    pub(crate) fn goodputs(&self, end: Instant) -> Vec<f64> {
        let seconds = end.since(self.from).as_secs_f64();
        self.delivered.iter().map(|&bytes| bytes as f64 * 8.0 / seconds).collect()
    }
}

impl Recorder for Watch {
    const ON: bool = true;

    fn sample<'a>(&mut self, now: Instant, mut links: impl Iterator<Item = &'a Link>) -> Instant {
        if now < self.from {
            return self.from;
        }
        self.on = true;
        let link = links.nth(self.port).expect("the port exists");
        self.lengths.push(link.queues().map(|queue| queue.occupancy().packets).sum());
        now.after(self.interval)
    }

    fn delivered(&mut self, group: u16, bytes: u64) {
        if self.on {
            self.delivered[usize::from(group)] += bytes;
        }
    }
}

/// What a [`Watched`] controller saw from an instant on.
#[derive(Default)]
pub(crate) struct Seen {
    window_time: f64,
    value_time: f64,
    seconds: f64,
    rtt_seconds: f64,
    last: Option<Instant>,
    pub(crate) cuts: u64,
    pub(crate) timeouts: u64,
}

impl Seen {
    /// Mean window over time, in bytes.
    pub(crate) fn mean_window(&self) -> f64 {
        self.window_time / self.seconds
    }

    /// Mean over time of the watched value.
    pub(crate) fn mean_value(&self) -> f64 {
        self.value_time / self.seconds
    }

    /// Mean over time of the smoothed round-trip time, in seconds.
    pub(crate) fn mean_rtt(&self) -> f64 {
        self.rtt_seconds / self.seconds
    }
}

/// A controller under observation.
pub(crate) struct Watched<C> {
    controller: C,
    from: Instant,
    value: fn(&C) -> f64,
    seen: Rc<RefCell<Seen>>,
}

impl<C> Watched<C> {
    pub(crate) fn new(controller: C, from: Instant, value: fn(&C) -> f64, seen: &Rc<RefCell<Seen>>) -> Self {
        Self { controller, from, value, seen: Rc::clone(seen) }
    }
}

impl<C: CongestionControl> CongestionControl for Watched<C> {
    fn on_ack(&mut self, sample: &AckSample) {
        if sample.now >= self.from {
            let mut seen = self.seen.borrow_mut();
            let seconds = seen.last.map_or(0.0, |last| sample.now.since(last).as_secs_f64());
            seen.last = Some(sample.now);
            seen.seconds += seconds;
            seen.window_time += self.controller.window() as f64 * seconds;
            seen.value_time += (self.value)(&self.controller) * seconds;
            seen.rtt_seconds += sample.smoothed_rtt.as_secs_f64() * seconds;
        }
        self.controller.on_ack(sample);
    }
    fn on_congestion(&mut self, event: &Congestion) {
        if event.now >= self.from {
            let mut seen = self.seen.borrow_mut();
            seen.cuts += 1;
            seen.timeouts += u64::from(event.cause == pliant_proto::congestion::Cause::Timeout);
        }
        self.controller.on_congestion(event);
    }
    fn on_lost(&mut self, bytes: u64) {
        self.controller.on_lost(bytes);
    }
    fn on_recovered(&mut self, flight: u64) {
        self.controller.on_recovered(flight);
    }
    fn on_idle(&mut self) {
        self.controller.on_idle();
    }
    fn window(&self) -> u64 {
        self.controller.window()
    }
    fn ssthresh(&self) -> u64 {
        self.controller.ssthresh()
    }
    fn ecn_mode(&self) -> EcnMode {
        self.controller.ecn_mode()
    }
}

/// Packets refused by any queue.
pub(crate) fn dropped(ports: &[Vec<QueueCounters>]) -> u64 {
    let queues = ports.iter().flatten();
    queues.map(|queue| queue.dropped.iter().map(|tally| tally.packets).sum::<u64>()).sum()
}

/// What a row says of its flow, its number apart.
pub(crate) fn story(row: &FlowRow) -> (u32, u32, Instant, Option<Instant>, u64, [u32; 4]) {
    let counts = [row.retransmissions, row.timeouts, row.marks, row.drops];
    (row.source, row.destination, row.start, row.completed, row.delivered_bytes, counts)
}
