//! Near-Opt against theory: alone, among its like, and beside a class that goes first.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use proptest::prelude::*;

use pliant_proto::congestion::Algorithm;
use pliant_proto::packet::{Body, Packet, SackBlocks, TrafficClass, WireFormat};
use pliant_proto::rng::Stream;
use pliant_proto::switch::plan::SchedulerConfig;
use pliant_proto::switch::{QueueConfig, QueuePlan};
use pliant_proto::time::{Instant, Span};
use pliant_proto::transport::any::{AnyAnswer, AnyRequest, AnyTransport};
use pliant_proto::transport::near_opt::{NearOptConfig, NearOptReceiver, NearOptSender};
use pliant_proto::transport::tcp::{TcpConfig, TcpReceiver, TcpSender};
use pliant_proto::transport::udp::{UdpConfig, UdpReceiver, UdpSender};
use pliant_proto::transport::{Command, Deadline, Event, Statistics, Transport};
use pliant_proto::units::Rate;
use pliant_sim::oracle::fluid::{FluidFlow, Leftover};
use pliant_sim::oracle::max_min::{FlowDemand, max_min};
use pliant_sim::recorder::NoRecorder;
use pliant_sim::results::{FlowRow, FlowState};
use pliant_sim::topology::{LeafSpine, LinkId, LinkSpec, NodeId, ParkingLot, Star, Topology};
use pliant_sim::traffic::FlowSpec;

use crate::common::{ENDLESS, MSS, TestBed, Watch, at_ms, cable, dumbbell, flow};

const RATE: Rate = Rate::from_gbit_per_sec(10);
/// Propagation delay of a link where the round trip is to take 100 us over four links.
const LINK_DELAY: Span = Span::from_us(25);
const HIGH: u8 = 0;
const LOW: u8 = 1;
/// Bytes of a full packet on the wire.
const FULL: u64 = 1538;

/// What arrived at a receiver: when the last bit did, and how many bytes.
type Log = Rc<RefCell<Vec<(Instant, u16)>>>;

/// A transport that notes the data packets it receives.
struct Noted {
    inner: AnyTransport,
    log: Option<Log>,
}

impl Transport for Noted {
    type Request = AnyRequest;
    type Answer = AnyAnswer;

    fn handle_packet(&mut self, now: Instant, packet: &Packet, sack: &SackBlocks) {
        if let (Some(log), Body::Data { .. }) = (&self.log, packet.body()) {
            log.borrow_mut().push((now, packet.wire_bytes));
        }
        self.inner.handle_packet(now, packet, sack);
    }
    fn handle_command(&mut self, now: Instant, command: Command<AnyAnswer>) {
        self.inner.handle_command(now, command);
    }
    fn handle_timeout(&mut self, now: Instant) {
        self.inner.handle_timeout(now);
    }
    fn poll_transmit(&mut self, now: Instant) -> Option<Packet> {
        self.inner.poll_transmit(now)
    }
    fn sack_blocks(&self) -> &SackBlocks {
        self.inner.sack_blocks()
    }
    fn poll_event(&mut self) -> Option<Event<AnyRequest>> {
        self.inner.poll_event()
    }
    fn poll_timeout(&self) -> Option<Deadline> {
        self.inner.poll_timeout()
    }
    fn statistics(&self) -> Statistics {
        self.inner.statistics()
    }
}

type Pair = (AnyTransport, AnyTransport);

fn near_opt(class: u8, ack_class: u8) -> Pair {
    let (data_class, ack_class) = (TrafficClass::new(class), TrafficClass::new(ack_class));
    let config = Arc::new(NearOptConfig { data_class, ack_class, ..NearOptConfig::default() });
    (NearOptSender::new(Arc::clone(&config)).into(), NearOptReceiver::new(config).into())
}

fn cubic(class: u8) -> Pair {
    let class = TrafficClass::new(class);
    let config = Arc::new(TcpConfig { data_class: class, ack_class: class, ack_every: 1, ..TcpConfig::default() });
    let sender = TcpSender::new(Arc::clone(&config), Algorithm::Cubic.controller(MSS));
    (sender.into(), TcpReceiver::new(config).into())
}

fn udp(class: u8, rate: Rate) -> Pair {
    let class = TrafficClass::new(class);
    let config = UdpConfig { rate, payload: MSS, wire: WireFormat::ETHERNET, class };
    (UdpSender::new(config).into(), UdpReceiver::new().into())
}

/// Strict priority, 128 kB before 64 kB.
fn priorities() -> QueuePlan {
    let queue = |name, limit_bytes| QueueConfig { limit_bytes, ..QueueConfig::tail_drop(name, u32::MAX) };
    QueuePlan::per_class(vec![queue("high", 128_000), queue("low", 64_000)], SchedulerConfig::Strict)
}

/// A network with the queues of the low-priority study: 128 kB before 64 kB, at hosts before a device FIFO of 100
/// packets.
fn bed(topology: Topology) -> TestBed {
    let mut bed = TestBed::new(topology, priorities(), &TcpConfig::default());
    bed.host_plan = QueuePlan { device_fifo_packets: 100, ..priorities() };
    bed
}

/// The study's network: hosts around one switch, 10 Gbit/s.
fn star(hosts: u32, delay: Span) -> Topology {
    Star { hosts, link: LinkSpec { rate: RATE, delay }, host_delay: Span::ZERO }.build().expect("a star")
}

/// The link from the switch to host 0.
fn to_server(topology: &Topology) -> usize {
    topology.uplink(NodeId(0)).reverse().index()
}

/// A flow alone takes its size over the link's goodput and at most a round trip: exactly the ideal.
#[test]
fn alone_it_takes_its_size() {
    let bed = bed(star(4, LINK_DELAY));
    for bytes in [1, 1460, 100_000, 10_000_000] {
        let pair = |_: &FlowSpec| near_opt(LOW, LOW);
        let row = bed.run(&[flow(1, 0, bytes)], pair, NoRecorder, Instant::MAX).flows[0];
        let fct = row.completed.expect("it completes").since(Instant::ZERO);
        assert!(fct <= RATE.time_for(bed.cut.wire_bytes(bytes)).plus(LINK_DELAY.times(4)), "{bytes} B took {fct}");
        assert_eq!((fct, row.retransmissions, row.drops), (row.ideal_fct, 0, 0));
    }
}

/// As the transport of the high class it takes the link at once, whatever fills the low queue: the first packet waits
/// for one of the low class, the others for nothing.
#[test]
fn the_high_class_is_not_held_up() {
    let bed = bed(star(4, LINK_DELAY));
    let high = FlowSpec { start: at_ms(5), ..flow(1, 0, 10_000_000) };
    let flows = [FlowSpec { group: u16::from(LOW), ..flow(2, 0, ENDLESS) }, high];
    let pair = |spec: &FlowSpec| if spec.group == u16::from(LOW) { cubic(LOW) } else { near_opt(HIGH, HIGH) };
    let row = bed.run(&flows, pair, NoRecorder, at_ms(20)).flows[1];
    let late = row.completed.expect("it completes").since(row.start).minus(row.ideal_fct);
    assert!(late <= RATE.time_for(FULL), "{late} more than alone");
}

/// Endless flows between pairs of hosts, each in a group of its own, which start at random within 100 us.
fn endless(pairs: &[(u32, u32)], stream: &mut Stream) -> Vec<FlowSpec> {
    let flow = |(group, &(source, destination)): (usize, &(u32, u32))| {
        let start = Instant::from_ps(stream.below(100_000_000));
        FlowSpec { start, group: group as u16, ..flow(source, destination, ENDLESS) }
    };
    let mut flows: Vec<FlowSpec> = pairs.iter().enumerate().map(flow).collect();
    flows.sort_by_key(|flow| flow.start);
    flows
}

/// Rates of endless flows, in units of their max-min fair rates, from two intervals and a round trip after the last
/// start on; and the queue before host 0, in packets: mean and greatest.
fn shares(topology: Topology, pairs: &[(u32, u32)], stream: &mut Stream) -> (Vec<f64>, f64, u32) {
    let bed = bed(topology);
    let flows = endless(pairs, stream);
    let (from, end) = (Instant::ZERO.after(Span::from_us(100 + 2 * 25 + 160)), at_ms(10));
    let watch = Watch::new(to_server(&bed.topology), from, Span::from_ns(12_345), flows.len());
    let watch = bed.run(&flows, |_| near_opt(LOW, LOW), watch, end).recorder;
    let mut path = Vec::new();
    let mut links = |&(source, destination): &(u32, u32)| {
        bed.routing.path(NodeId(source), NodeId(destination), 0, &mut path);
        path.iter().map(|link: &LinkId| link.index()).collect::<Vec<usize>>()
    };
    let paths: Vec<Vec<usize>> = pairs.iter().map(&mut links).collect();
    let capacities: Vec<f64> = bed.topology.links().iter().map(|link| link.rate.bits_per_sec() as f64).collect();
    let demands: Vec<FlowDemand> = paths.iter().map(|links| FlowDemand { links, weight: 1.0, demand: None }).collect();
    let fair = max_min(&capacities, &demands);
    let rates = watch.goodputs(end).into_iter().zip(fair);
    let rates = rates.map(|(rate, fair)| rate / (fair * bed.cut.goodput_ratio())).collect();
    (rates, watch.mean_length(), watch.percentile(1.0))
}

/// Without a higher class, flows that share one bottleneck get equal shares of all of it, within 2 % of max-min two
/// intervals after the last start. One packet of each flow may wait, and no more.
#[test]
fn equal_flows_get_equal_shares() {
    let mut stream = Stream::named(1, "shares");
    for senders in [1, 2, 3, 4, 8, 16] {
        let pairs: Vec<(u32, u32)> = (1..=senders).map(|source| (source, 0)).collect();
        let (rates, mean, most) = shares(star(senders + 1, LINK_DELAY), &pairs, &mut stream);
        println!("{senders}: {rates:.4?}, {mean:.1} packets wait, {most} at most");
        assert!(rates.iter().all(|rate| (rate - 1.0).abs() <= 0.02), "{senders} flows get {rates:?}");
        assert!(most <= senders, "{most} packets of {senders} flows wait");
    }
}

/// The same over several links: a row of three bottlenecks, one bottleneck behind faster links, a leaf-spine.
#[test]
fn shares_are_max_min_fair_over_several_links() {
    let row = ParkingLot { hops: 3, edge_link: cable(10, 10), bottleneck_link: cable(10, 10), host_delay: Span::ZERO };
    let (hosts_per_leaf, fabric_link) = (4, Some(cable(10, 5)));
    let host_link = cable(10, 5);
    let fabric = LeafSpine {
        leaves: 2,
        spines: 1,
        hosts_per_leaf,
        leaves_per_host: 1,
        cables: 1,
        host_link,
        fabric_link,
        host_delay: Span::ZERO,
    };
    let mut stream = Stream::named(1, "several links");
    for (topology, pairs) in [
        (row.build().expect("a row"), vec![(0, 1), (2, 3), (4, 5), (6, 7)]),
        (dumbbell(5, cable(40, 10), cable(10, 10)), (0..5).map(|pair| (pair, 5 + pair)).collect()),
        (fabric.build().expect("a leaf-spine"), (0..4).map(|pair| (pair, 4 + pair)).collect()),
    ] {
        let (rates, ..) = shares(topology, &pairs, &mut stream);
        println!("{rates:.4?}");
        assert!(rates.iter().all(|rate| (rate - 1.0).abs() <= 0.02), "{rates:?}");
    }
}

/// Where they differ, the paper's rate is not max-min's: a link divides by all its flows, also those that others hold
/// back. Host 1 sends to host 0, as four others do, and to host 7 alone: there it gets half of its own link, not what
/// its first flow leaves of it, four fifths.
#[test]
fn what_a_flow_cannot_use_nobody_gets() {
    let pairs = [(1, 7), (1, 0), (2, 0), (3, 0), (4, 0), (5, 0)];
    let (rates, ..) = shares(star(8, LINK_DELAY), &pairs, &mut Stream::named(1, "held back"));
    println!("{rates:.4?}");
    assert!((rates[0] - 0.5 / 0.8).abs() <= 0.02 && rates[1..].iter().all(|rate| (rate - 1.0).abs() <= 0.02));
}

/// One flow of a random network.
#[derive(Clone, Copy, Debug)]
struct Drawn {
    source: u32,
    hop: u32,
    bytes: u64,
    start_us: u64,
    /// Near-Opt in the low class, UDP or TCP in the high one.
    kind: u8,
    mbit: u64,
}

fn drawn() -> impl Strategy<Value = Drawn> {
    let flow = (any::<u32>(), any::<u32>(), 1u64..400_000, 0u64..3000, 0u8..4, 100u64..9000);
    flow.prop_map(|(source, hop, bytes, start_us, kind, mbit)| Drawn { source, hop, bytes, start_us, kind, mbit })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// Beside bursts of a higher class and with low queues of a few packets, each packet that was dropped is sent again
    /// once for each drop, and no other: retransmissions are the drops exactly where acknowledgements cannot be
    /// dropped, and every packet that arrives is new in any case.
    #[test]
    fn retransmissions_are_drops(
        hosts in 3u32..8,
        delay_us in 1u64..30,
        limit in 1u32..40,
        acks_high: bool,
        drawn in prop::collection::vec(drawn(), 1..20),
    ) {
        let star = star(hosts, Span::from_us(delay_us));
        let queues = vec![QueueConfig::tail_drop("high", u32::MAX), QueueConfig::tail_drop("low", limit)];
        let plan = QueuePlan::per_class(queues, SchedulerConfig::Strict);
        let mut bed = TestBed::new(star, plan.clone(), &TcpConfig::default());
        bed.host_plan = plan;
        let mut flows: Vec<FlowSpec> = drawn.iter().enumerate().map(|(group, drawn)| {
            let source = drawn.source % hosts;
            // Half of the flows meet at host 0.
            let target = if drawn.hop % 2 == 0 && source != 0 { 0 } else { (source + 1 + drawn.hop % (hosts - 1)) % hosts };
            let start = Instant::ZERO.after(Span::from_us(drawn.start_us));
            FlowSpec { start, group: group as u16, ..flow(source, target, drawn.bytes) }
        }).collect();
        flows.sort_by_key(|flow| flow.start);
        let mut logs = BTreeMap::new();
        let pair = |spec: &FlowSpec| {
            let drawn = &drawn[usize::from(spec.group)];
            let (sender, receiver) = match drawn.kind {
                0 => udp(HIGH, Rate::from_bits_per_sec(drawn.mbit * 1_000_000)),
                1 => cubic(HIGH),
                _ => near_opt(LOW, if acks_high { HIGH } else { LOW }),
            };
            let log: &mut Log = logs.entry(spec.group).or_default();
            (Noted { inner: sender, log: None }, Noted { inner: receiver, log: Some(Rc::clone(log)) })
        };
        let outcome = bed.run(&flows, pair, NoRecorder, Instant::ZERO.after(Span::from_secs(100)));
        for row in outcome.flows.iter().filter(|row| drawn[usize::from(row.group)].kind > 1) {
            prop_assert!(matches!(row.state, FlowState::Completed));
            prop_assert_eq!(logs[&row.group].borrow().len() as u64, bed.cut.packets(row.bytes));
            if acks_high {
                prop_assert_eq!(row.retransmissions, row.drops);
            } else {
                prop_assert!(row.retransmissions <= row.drops);
            }
        }
    }
}

/// Flows to host 0 at Poisson times, of uniform sizes up to twice the mean, from eight hosts from `first` on.
fn poisson(group: u8, load: f64, mean: u64, first: u32, until: Instant) -> Vec<FlowSpec> {
    let mut stream = Stream::named(3, &format!("poisson {group}"));
    let (mut at, mut flows) = (0.0, Vec::new());
    let mean_gap = mean as f64 * FULL as f64 / f64::from(MSS) / load / (RATE.bits_per_sec() as f64 / 8.0);
    loop {
        at += stream.exponential(mean_gap);
        let start = Instant::ZERO.after(Span::from_secs_f64(at));
        if start >= until {
            return flows;
        }
        let (bytes, source) = (1 + stream.below(2 * mean), first + stream.below(8) as u32);
        flows.push(FlowSpec { start, group: u16::from(group), ..flow(source, 0, bytes) });
    }
}

/// Every period, eight hosts send 500 kB each to host 0: a gradient update of 4 MB.
fn updates(load: f64, until: Instant) -> Vec<FlowSpec> {
    let bytes = 500_000;
    let period = RATE.time_for(8 * bytes * FULL / u64::from(MSS)).as_secs_f64() / load;
    let starts = (0..).map(|round| Instant::ZERO.after(Span::from_secs_f64(f64::from(round) * period)));
    let round = |start| (1..=8).map(move |source| FlowSpec { start, group: u16::from(HIGH), ..flow(source, 0, bytes) });
    starts.take_while(|start| *start < until).flat_map(round).collect()
}

/// Mean FCT of the low flows over their mean under processor sharing of what the high class left on the link to host 0.
/// Asserts that no flow beats having all of that to itself, and that nothing was repeated that was not dropped.
fn over_fluid(delay: Span, interval: Span, high: Vec<FlowSpec>, low: Vec<FlowSpec>) -> f64 {
    let mut bed = bed(star(17, delay));
    bed.oracle_interval = interval;
    let mut flows = [high, low].concat();
    flows.sort_by_key(|flow| flow.start);
    let log = Log::default();
    let pair = |spec: &FlowSpec| {
        let is_high = spec.group == u16::from(HIGH);
        let (sender, receiver) = if is_high { cubic(HIGH) } else { near_opt(LOW, LOW) };
        (Noted { inner: sender, log: None }, Noted { inner: receiver, log: is_high.then(|| Rc::clone(&log)) })
    };
    let rows = bed.run(&flows, pair, NoRecorder, Instant::MAX).flows;
    // A packet's last bit leaves the port a propagation delay before it arrives.
    let busy = log.take().into_iter().map(|(at, bytes)| {
        let end = at.before(delay);
        (end.before(RATE.time_for(u64::from(bytes))), end)
    });
    let left = Leftover::new(RATE, busy);
    let fluid = |row: &FlowRow| {
        let bytes = bed.cut.wire_bytes(row.bytes);
        FluidFlow { arrival: row.start.after(RATE.time_for(bytes.min(FULL))).after(delay), bytes }
    };
    let mut low: Vec<(FluidFlow, &FlowRow)> =
        rows.iter().filter(|row| row.group == u16::from(LOW)).map(|row| (fluid(row), row)).collect();
    low.sort_by_key(|(fluid, _)| fluid.arrival);
    let shared = left.processor_sharing(&low.iter().map(|(fluid, _)| *fluid).collect::<Vec<_>>());
    let (mut taken, mut fair) = (0.0, 0.0);
    for ((fluid, row), shared) in low.iter().zip(shared) {
        let completed = row.completed.expect("it completes");
        assert!(completed >= left.alone(*fluid).after(delay), "flow {} beats having all to itself", row.id);
        assert!(row.retransmissions <= row.drops);
        taken += completed.since(row.start).as_secs_f64();
        fair += shared.after(delay).since(row.start).as_secs_f64();
    }
    taken / fair
}

/// The ratios of [`over_fluid`] for Poisson and for on-off traffic of the high class, at loads of 30 to 80 %, beside 10 %
/// of low traffic.
fn all_over_fluid(delay: Span, interval: Span) -> Vec<f64> {
    let mut ratios = Vec::new();
    for (mean, until_ms) in [(128_000, 200), (1_000_000, 200), (5_000_000, 1000)] {
        for load in [0.3, 0.5, 0.8] {
            let [high, low] = [(HIGH, load, 1), (LOW, 0.1, 9)]
                .map(|(group, load, first)| poisson(group, load, mean, first, at_ms(until_ms)));
            ratios.push(over_fluid(delay, interval, high, low));
            println!("flows of {mean} B, {load}: {:.4}", ratios.last().expect("one was added"));
        }
    }
    for load in [0.15, 0.3, 0.5, 0.8] {
        let low = poisson(LOW, 0.1, 128_000, 9, at_ms(200));
        ratios.push(over_fluid(delay, interval, updates(load, at_ms(200)), low));
        println!("updates, {load}: {:.4}", ratios.last().expect("one was added"));
    }
    ratios
}

/// Where information and packets take far less time than the high class takes to change, Near-Opt is within 5 % of
/// sharing, fairly and as a fluid, what the high class leaves.
#[test]
fn with_short_links_it_reaches_the_fluid_bound() {
    for ratio in all_over_fluid(Span::from_us(1), Span::from_us(10)) {
        assert!((ratio - 1.0).abs() <= 0.05, "{ratio}");
    }
}

/// The most that delay costs below; worst seen 1.63.
const DELAYED: f64 = 1.7;

/// In the study's network it is further away, by 2 to 63 %: what the high class does is known up to an interval late,
/// and the packets that answer it arrive a link's delay later still. 50 us after each pause of the high class begins the
/// link has nothing to send but what waited, and the formula lets little wait. That weighs most where pauses are short
/// (flows of 128 kB) and little is left (80 %). Leaving a flow's own queue out of the formula gains a part of it, at the
/// price of a full low queue; longer and shorter intervals gain nothing.
#[test]
fn delay_keeps_it_from_the_fluid_bound() {
    for ratio in all_over_fluid(LINK_DELAY, Span::from_us(25)) {
        assert!((0.95..=DELAYED).contains(&ratio), "{ratio}");
    }
}
