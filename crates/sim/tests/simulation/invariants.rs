//! What holds in every run: conservation (asserted by the engine when a run ends), delivery, lower bounds on time, and
//! independence of the results from how the run is driven.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use proptest::prelude::*;
use proptest::sample::select;

use pliant_proto::congestion::reno::{Reno, RenoConfig};
use pliant_proto::congestion::{Algorithm, AnyController, CongestionControl, EcnMode};
use pliant_proto::packet::{TrafficClass, WireFormat};
use pliant_proto::switch::marker::{Level, MarkAt, MarkerConfig, PhantomConfig, RedConfig, RedUnit, Scope, Threshold};
use pliant_proto::switch::plan::{SchedulerConfig, ShaperConfig, ShaperRate};
use pliant_proto::switch::{Link, QueueConfig, QueuePlan};
use pliant_proto::time::{Instant, Span};
use pliant_proto::transport::near_opt::NearOptConfig;
use pliant_proto::transport::tcp::{PacingFactors, TcpConfig};
use pliant_proto::transport::udp::UdpConfig;
use pliant_proto::units::{Bytes, Rate};
use pliant_sim::engine::{Outcome, PathChoice};
use pliant_sim::oracle::ideal_fct::slowdown;
use pliant_sim::recorder::{NoRecorder, Recorder, SeriesRecorder};
use pliant_sim::results::FlowState;
use pliant_sim::run::run;
use pliant_sim::topology::{FatTree, LeafSpine, LinkSpec, ParkingLot, Star, Topology};
use pliant_sim::traffic::FlowSpec;

use crate::common::{self, Endpoint, MSS, TestBed, cable, dumbbell, fifo, flow, near_opt, story, tcp, udp};
use crate::scenarios::resolve_with;

/// How one flow is carried.
#[derive(Clone, Debug)]
enum Carrier {
    Tcp { config: Arc<TcpConfig>, algorithm: Algorithm },
    Udp(UdpConfig),
    NearOpt(NearOptConfig),
}

impl Carrier {
    fn endpoints(&self) -> (Endpoint<AnyController>, Endpoint<AnyController>) {
        match self {
            Self::Tcp { config, algorithm } => tcp(config, algorithm.controller(MSS)),
            Self::Udp(config) => udp(*config),
            Self::NearOpt(config) => near_opt(config.clone()),
        }
    }
}

/// A network, and flows by start time; a flow's group is its carrier's index.
#[derive(Clone, Debug)]
struct Case {
    topology: Topology,
    switch_plan: QueuePlan,
    host_plan: QueuePlan,
    path_choice: PathChoice,
    seed: u64,
    flows: Vec<FlowSpec>,
    carriers: Vec<Carrier>,
}

impl Case {
    fn bed(&self) -> TestBed {
        let mut bed = TestBed::new(self.topology.clone(), self.switch_plan.clone(), &TcpConfig::default());
        bed.host_plan = self.host_plan.clone();
        bed.path_choice = self.path_choice;
        bed.seed = self.seed;
        bed
    }

    /// Runs to the end with pauses, the first after `slice`.
    fn run_in_slices<R: Recorder>(&self, recorder: R, slice: Span) -> Outcome<R> {
        let bed = self.bed();
        let pair = |spec: &FlowSpec| self.carriers[usize::from(spec.group)].endpoints();
        let mut simulation = bed.start(&self.flows, pair, recorder);
        let mut end = Instant::ZERO;
        while simulation.run_until(end) {
            end = sparser(end.max(simulation.now()), slice);
        }
        simulation.finish()
    }

    fn run(&self) -> Outcome<NoRecorder> {
        self.run_in_slices(NoRecorder, Span::MAX)
    }
}

/// The time after `now` by `step`, and by ever more as a run waits out timeouts of seconds.
fn sparser(now: Instant, step: Span) -> Instant {
    now.after(step).after(now.since(Instant::ZERO).divided_by(64))
}

/// Records series, ever more sparsely.
struct Sparse {
    series: SeriesRecorder,
    interval: Span,
}

impl Recorder for Sparse {
    const ON: bool = true;

    fn sample<'a>(&mut self, now: Instant, links: impl Iterator<Item = &'a Link>) -> Instant {
        self.series.sample(now, links);
        sparser(now, self.interval)
    }

    fn delivered(&mut self, group: u16, bytes: u64) {
        self.series.delivered(group, bytes);
    }
}

pub(crate) fn topologies() -> impl Strategy<Value = Topology> {
    let link = || (select(vec![10u64, 25, 40, 7]), 0u64..20).prop_map(|(gbit, delay_us)| cable(gbit, delay_us));
    let star = (2u32..8, link()).prop_map(|(hosts, link)| Star { hosts, link, host_delay: Span::ZERO }.build());
    let dumbbells = (1u32..5, link(), link()).prop_map(|(pairs, edge, middle)| Ok(dumbbell(pairs, edge, middle)));
    let leaf_spine = (2u32..4, 1u32..4, 1u32..4, link(), link()).prop_map(
        |(leaves, spines, hosts_per_leaf, host_link, fabric_link)| {
            let fabric_link = Some(fabric_link);
            LeafSpine {
                leaves,
                spines,
                hosts_per_leaf,
                leaves_per_host: 1,
                cables: 1,
                host_link,
                fabric_link,
                host_delay: Span::from_ns(300),
            }
            .build()
        },
    );
    let fat_tree = link().prop_map(|link| FatTree { k: 4, link, host_delay: Span::ZERO }.build());
    prop_oneof![star, dumbbells, leaf_spine, fat_tree].prop_map(|topology| topology.expect("a topology"))
}

fn markers() -> impl Strategy<Value = MarkerConfig> {
    let level = prop_oneof![(1u32..30).prop_map(Level::Packets), (1u64..40_000).prop_map(Level::Bytes)];
    let at = select(vec![MarkAt::Enqueue, MarkAt::Dequeue]);
    let scope = select(vec![Scope::Queue, Scope::Port]);
    let threshold = (level, at, scope, any::<bool>()).prop_map(|(level, at, scope, pass_not_ect)| {
        // A limit below one packet would drop every packet that is not ECN-capable.
        let level = if let Level::Bytes(bytes) = level { Level::Bytes(bytes.max(3000)) } else { level };
        MarkerConfig::Threshold(Threshold { level, at, scope, pass_not_ect })
    });
    // Packets of 1500 bytes take 1.2 us at 10 Gbit/s.
    let unit = select(vec![(RedUnit::Packets, 1.0), (RedUnit::Bytes, 1500.0), (RedUnit::Seconds, 1.2e-6)]);
    let red = (1.0f64..10.0, 0.0f64..20.0, unit, 0.01f64..1.0, any::<bool>(), any::<bool>()).prop_map(
        |(min, above, (unit, packet), max_probability, gentle, hard_drop)| {
            MarkerConfig::Red(RedConfig {
                min: min * packet,
                max: (min + above) * packet,
                unit,
                max_probability,
                weight: 0.1,
                gentle,
                hard_drop,
                mean_packet_time: Span::from_ns(1200),
                spread: true,
                wait: false,
                spares_short: false,
            })
        },
    );
    let phantom = (0.5f64..1.0, 3000u64..40_000, any::<bool>()).prop_map(|(drain, bytes, pass_not_ect)| {
        MarkerConfig::Phantom(PhantomConfig { drain, level: Level::Bytes(bytes), pass_not_ect })
    });
    prop_oneof![1 => Just(MarkerConfig::None), 2 => threshold, 1 => red, 1 => phantom]
}

fn queues(name: &'static str) -> impl Strategy<Value = QueueConfig> {
    let limit = prop_oneof![1u32..10, 10u32..200];
    let red_limit = prop_oneof![Just(u64::MAX), 2000u64..50_000];
    (limit, markers(), red_limit, 1u32..10, 0.25f64..4.0, 0u64..5000).prop_map(
        move |(limit, marker, red_limit_bytes, weight, buffer_alpha, reserved_bytes)| QueueConfig {
            marker,
            red_limit_bytes,
            weight,
            buffer_alpha,
            reserved_bytes,
            ..QueueConfig::tail_drop(name, limit)
        },
    )
}

fn schedulers() -> impl Strategy<Value = SchedulerConfig> {
    prop_oneof![
        Just(SchedulerConfig::Strict),
        (0u8..3, 1u32..4000).prop_map(|(strict, quantum_bytes)| SchedulerConfig::Dwrr { strict, quantum_bytes }),
        (0u8..3).prop_map(|strict| SchedulerConfig::Wfq { strict }),
    ]
}

fn plans() -> impl Strategy<Value = QueuePlan> {
    let shaper = (100u64..9000, 84u32..4000).prop_map(|(mbit, depth_bytes)| ShaperConfig {
        rate: ShaperRate::Fixed(Rate::from_bits_per_sec(mbit * 1_000_000)),
        depth_bytes,
    });
    let several = (queues("a"), queues("b"), queues("c"), schedulers(), prop::option::weighted(0.3, shaper)).prop_map(
        |(mut a, b, c, scheduler, shaper)| {
            a.shaper = shaper.filter(|_| scheduler.strict_queues(3) > 0);
            QueuePlan::per_class(vec![a, b, c], scheduler)
        },
    );
    let plan = prop_oneof![queues("only").prop_map(QueuePlan::single), several];
    let shared = prop::option::weighted(0.3, (30_000u64..300_000).prop_map(Bytes));
    let jitter = select(vec![0, 0, 5]).prop_map(Span::from_us);
    (plan, select(vec![0, 0, 1, 20]), shared, jitter).prop_map(|(plan, device_fifo_packets, shared_buffer, jitter)| {
        QueuePlan { device_fifo_packets, shared_buffer, jitter, ..plan }
    })
}

fn tcp_carriers() -> impl Strategy<Value = Carrier> {
    let ecn = select(vec![EcnMode::Off, EcnMode::Classic, EcnMode::Accurate]);
    let algorithm = select(Algorithm::ALL.to_vec());
    let classes = (0u8..3, any::<bool>(), 0u8..3);
    let options = (any::<[bool; 5]>(), 1u8..4, prop::option::weighted(0.2, 4000u64..100_000));
    (algorithm, ecn, classes, options).prop_map(|(algorithm, ecn, (data, red, ack), (options, ack_every, buffer))| {
        let [sack, rack, handshake, paced, limited_transmit] = options;
        let config = TcpConfig {
            data_class: TrafficClass::new(data).with_red(red),
            ack_class: TrafficClass::new(ack),
            ecn,
            sack,
            rack: sack && rack,
            handshake,
            limited_transmit,
            ack_every,
            receive_buffer: buffer,
            one_way_delay: algorithm.controller(MSS).needs_one_way_delay(),
            pacing: paced.then(PacingFactors::default),
            ..TcpConfig::default()
        };
        Carrier::Tcp { config: Arc::new(config), algorithm }
    })
}

fn udp_carriers() -> impl Strategy<Value = Carrier> {
    (1u64..20_000, 0u8..3).prop_map(|(mbit, class)| {
        let rate = Rate::from_bits_per_sec(mbit * 1_000_000);
        let class = TrafficClass::new(class);
        Carrier::Udp(UdpConfig { rate, payload: MSS, wire: WireFormat::ETHERNET, class })
    })
}

fn near_opt_carriers() -> impl Strategy<Value = Carrier> {
    (0u8..3, 0u8..3).prop_map(|(data, ack)| {
        let (data_class, ack_class) = (TrafficClass::new(data), TrafficClass::new(ack));
        Carrier::NearOpt(NearOptConfig { data_class, ack_class, ..NearOptConfig::default() })
    })
}

/// What is drawn for one flow: source, how far from it the destination is, bytes, start in microseconds, and the rest.
pub(crate) type Drawn<C> = (u32, u32, u64, u64, C);

fn drawn_flows(most: usize) -> impl Strategy<Value = Vec<Drawn<Carrier>>> {
    drawn(most, prop_oneof![5 => tcp_carriers(), 1 => udp_carriers(), 2 => near_opt_carriers()])
}

fn drawn(most: usize, carrier: impl Strategy<Value = Carrier>) -> impl Strategy<Value = Vec<Drawn<Carrier>>> {
    let bytes = prop_oneof![1u64..3000, 1u64..300_000];
    prop::collection::vec((any::<u32>(), any::<u32>(), bytes, 0u64..500, carrier), 1..most)
}

/// Flows between the hosts `first..first + hosts`, by start time; a flow's group is its index in what was drawn.
pub(crate) fn placed<C>(drawn: Vec<Drawn<C>>, first: u32, hosts: u32) -> (Vec<FlowSpec>, Vec<C>) {
    let place = |(group, (source, hop, bytes, start_us, _)): (usize, &Drawn<C>)| {
        let source = source % hosts;
        let destination = (source + 1 + hop % (hosts - 1)) % hosts;
        let start = Instant::ZERO.after(Span::from_us(*start_us));
        FlowSpec { start, group: group as u16, ..flow(first + source, first + destination, *bytes) }
    };
    let mut flows: Vec<FlowSpec> = drawn.iter().enumerate().map(place).collect();
    flows.sort_by_key(|flow| flow.start);
    (flows, drawn.into_iter().map(|(.., carrier)| carrier).collect())
}

fn cases() -> impl Strategy<Value = Case> {
    let path_choice = select(vec![PathChoice::Ecmp, PathChoice::SprayRandom, PathChoice::SprayRoundRobin]);
    let host_plan = prop_oneof![3 => Just(fifo(u32::MAX, MarkerConfig::None)), 1 => plans()];
    (topologies(), plans(), host_plan, path_choice, any::<u64>(), drawn_flows(16)).prop_map(
        |(topology, switch_plan, host_plan, path_choice, seed, drawn)| {
            let (flows, carriers) = placed(drawn, 0, topology.hosts());
            // The oracle follows the one path of a flow.
            let follows = carriers.iter().any(|carrier| matches!(carrier, Carrier::NearOpt(_)));
            let path_choice = if follows { PathChoice::Ecmp } else { path_choice };
            Case { topology, switch_plan, host_plan, path_choice, seed, flows, carriers }
        },
    )
}

proptest! {
    #![proptest_config(common::cases(1500))]

    /// Every flow ends: TCP and Near-Opt deliver each byte once whatever the queues do, UDP what was not dropped. None
    /// is faster than the ideal. Near-Opt repeats no packet that was not dropped.
    #[test]
    fn every_flow_ends_as_it_must(case in cases()) {
        let outcome = case.run();
        prop_assert_eq!(outcome.flows.len(), case.flows.len());
        for row in &outcome.flows {
            let carrier = &case.carriers[usize::from(row.group)];
            match carrier {
                Carrier::Tcp { .. } => {
                    prop_assert!(matches!(row.state, FlowState::Completed));
                    prop_assert_eq!(row.delivered_bytes, row.bytes);
                }
                Carrier::Udp(_) => {
                    prop_assert!(!matches!(row.state, FlowState::Unfinished));
                    prop_assert!(row.bytes - row.delivered_bytes <= u64::from(row.drops) * u64::from(MSS));
                    prop_assert_eq!(row.delivered_bytes == row.bytes, row.drops == 0);
                }
                Carrier::NearOpt(_) => {
                    prop_assert!(matches!(row.state, FlowState::Completed));
                    prop_assert_eq!(row.delivered_bytes, row.bytes);
                    prop_assert!(row.retransmissions <= row.drops);
                }
            }
            // Sprayed flows add up the rates of their paths; the ideal is one path's.
            let bounded = row.delivered_bytes == row.bytes && case.path_choice == PathChoice::Ecmp;
            if let Some(completed) = row.completed.filter(|_| bounded) {
                prop_assert!(slowdown(completed.since(row.start), row.ideal_fct) >= 1.0);
            }
        }
    }

    /// The same seed gives the same run, recorded or not, in one go or in slices.
    #[test]
    fn a_run_is_its_seed(case in cases(), interval_us in 1u64..200, slice_us in 1u64..5000) {
        let plain = case.run();
        let stories = |flows: &[_]| flows.iter().map(story).collect::<Vec<_>>();
        let expected = (plain.totals, stories(&plain.flows), plain.ports.clone());
        let again = case.run();
        prop_assert_eq!(&(again.totals, stories(&again.flows), again.ports), &expected);
        let slices = case.run_in_slices(NoRecorder, Span::from_us(slice_us));
        prop_assert_eq!(&(slices.totals, stories(&slices.flows), slices.ports), &expected);
        let interval = Span::from_us(interval_us);
        let recorder = Sparse { series: SeriesRecorder::new(interval, case.carriers.len(), true), interval };
        let recorded = case.run_in_slices(recorder, Span::MAX);
        prop_assert_eq!(recorded.totals.digest, plain.totals.digest);
        prop_assert_eq!(recorded.totals.packet_hops, plain.totals.packet_hops);
        prop_assert_eq!(stories(&recorded.flows), stories(&plain.flows));
        prop_assert_eq!(recorded.ports, plain.ports);
    }

    /// Flows among other hosts of a star change nothing for those that were there: no port is shared. But they may change
    /// in which slots the engine keeps flows, by which timers of the same picosecond are ordered: so no two flows start at
    /// the same one, and none acts at the ticks of an oracle.
    #[test]
    fn disjoint_flows_do_not_meet(
        plan in plans(),
        seed: u64,
        ours in drawn(8, prop_oneof![5 => tcp_carriers(), 1 => udp_carriers()]),
        theirs in drawn_flows(8),
    ) {
        let switch_plan = QueuePlan { shared_buffer: None, ..plan };
        let topology = Star { hosts: 8, link: cable(10, 2), host_delay: Span::ZERO }.build().expect("a star");
        let host_plan = fifo(u32::MAX, MarkerConfig::None);
        let (mut flows, carriers) = placed(ours, 0, 4);
        for (place, flow) in (0..).zip(&mut flows) {
            flow.start = flow.start.after(Span::from_ps(place));
        }
        let alone = Case { topology, switch_plan, host_plan, path_choice: PathChoice::Ecmp, seed, flows, carriers };
        let mut together = alone.clone();
        let (others, more) = placed(theirs, 4, 4);
        together.flows.extend(others.iter().map(|flow| {
            FlowSpec { group: flow.group + alone.carriers.len() as u16, ..*flow }
        }));
        together.flows.sort_by_key(|flow| flow.start);
        together.carriers.extend(more);
        let of_ours = |outcome: Outcome<NoRecorder>| {
            let ours = outcome.flows.iter().filter(|row| usize::from(row.group) < alone.carriers.len());
            ours.map(story).collect::<Vec<_>>()
        };
        prop_assert_eq!(of_ours(together.run()), of_ours(alone.run()));
    }

    /// A queue that has its port for itself works the same whatever would schedule it against others: the single
    /// queue's short way through a port agrees with the general way bit for bit.
    #[test]
    fn one_queue_needs_no_scheduler(case in cases(), queue in queues("busy"), busy in 0usize..3, scheduler in schedulers()) {
        let shared_buffer = case.switch_plan.shared_buffer;
        // A marker that draws is named after its queue, so the name stays.
        let idle = |name| QueueConfig::tail_drop(name, 10);
        let mut queues = vec![idle("first"), idle("second"), idle("third")];
        queues[busy] = queue.clone();
        let mut scheduled = QueuePlan::per_class(queues, scheduler);
        scheduled.queue_of_class.fill(busy as u8);
        let single = Case { switch_plan: QueuePlan { shared_buffer, ..QueuePlan::single(queue) }, ..case.clone() };
        let scheduled = Case { switch_plan: QueuePlan { shared_buffer, ..scheduled }, ..case };
        let (single, scheduled) = (single.run(), scheduled.run());
        prop_assert_eq!(single.totals.digest, scheduled.totals.digest);
        let stories = |flows: &[_]| flows.iter().map(story).collect::<Vec<_>>();
        prop_assert_eq!(stories(&single.flows), stories(&scheduled.flows));
        for (single, scheduled) in single.ports.iter().zip(&scheduled.ports) {
            // Hosts' ports are the same in both.
            if single.len() == scheduled.len() {
                prop_assert_eq!(single, scheduled);
            } else {
                prop_assert_eq!(&single[0], &scheduled[busy]);
            }
        }
    }
}

/// A lone flow with a window for all of it takes exactly the ideal time, whatever its size, its packets' headers and
/// the rates on its way.
#[test]
fn a_lone_flow_takes_the_ideal_time() {
    let link = |gbit, ns| LinkSpec { rate: Rate::from_gbit_per_sec(gbit), delay: Span::from_ns(ns) };
    let leaf_spine = |host_gbit, fabric_gbit| LeafSpine {
        leaves: 2,
        spines: 2,
        hosts_per_leaf: 1,
        leaves_per_host: 1,
        cables: 1,
        host_link: link(host_gbit, 1000),
        fabric_link: Some(link(fabric_gbit, 1000)),
        host_delay: Span::ZERO,
    };
    let row = ParkingLot { hops: 6, edge_link: link(25, 10), bottleneck_link: link(10, 777), host_delay: Span::ZERO };
    let topologies = [
        Star { hosts: 2, link: link(100, 5), host_delay: Span::from_ns(500) }.build(),
        leaf_spine(10, 10).build(),
        leaf_spine(10, 40).build(),
        leaf_spine(40, 10).build(),
        FatTree { k: 4, link: link(25, 0), host_delay: Span::ZERO }.build(),
        row.build(),
    ];
    for topology in topologies.map(|topology| topology.expect("a topology")) {
        for wire in [WireFormat::IP, WireFormat::ETHERNET] {
            let config = Arc::new(TcpConfig { wire, ..TcpConfig::default() });
            let bed = TestBed::new(topology.clone(), fifo(u32::MAX, MarkerConfig::None), &config);
            let last = topology.hosts() - 1;
            for bytes in [1, 6, 7, 1459, 1460, 1461, 10_000, 100_000, 1_000_000, 5_000_001] {
                let window = RenoConfig { initial_window: 4000, ..RenoConfig::default() };
                let flows = [flow(0, if topology.hosts() > 8 { last } else { 1 }, bytes)];
                let pair = |_: &FlowSpec| tcp(&config, Reno::new(window, MSS));
                let outcome = bed.run(&flows, pair, NoRecorder, Instant::MAX);
                let row = &outcome.flows[0];
                let fct = row.completed.expect("it completed").since(row.start);
                assert_eq!(fct, row.ideal_fct, "{bytes} bytes");
            }
        }
    }
    let known = TestBed::new(
        leaf_spine(10, 40).build().expect("a leaf-spine"),
        fifo(100, MarkerConfig::None),
        &TcpConfig::default(),
    );
    let config = Arc::new(TcpConfig::default());
    let pair = |_: &FlowSpec| tcp(&config, Algorithm::Reno.controller(MSS));
    let outcome = known.run(&[flow(0, 1, 10_000)], pair, NoRecorder, Instant::MAX);
    let completed = outcome.flows[0].completed.expect("it completed");
    assert_eq!(completed.since(Instant::ZERO), Span::from_ps(14_282_400), "10 kB over 10, 40, 40, 10 Gbit/s");
}

/// A class that waits for tokens holds nobody up: packets behind it in strict priority leave meanwhile, with a device
/// FIFO as without.
#[test]
fn waiting_for_tokens_holds_nobody_up() {
    for device_fifo_packets in [0, 1, 20] {
        let shaper = ShaperConfig { rate: ShaperRate::Fixed(Rate::from_bits_per_sec(1_000_000)), depth_bytes: 1538 };
        let shaped = QueueConfig { shaper: Some(shaper), ..QueueConfig::tail_drop("shaped", 100) };
        let plan = QueuePlan::per_class(vec![shaped, QueueConfig::tail_drop("other", 100)], SchedulerConfig::Strict);
        let config = TcpConfig { data_class: TrafficClass::new(1), ..TcpConfig::default() };
        let plan = QueuePlan { device_fifo_packets, ..plan };
        let bed = TestBed::new(dumbbell(2, cable(10, 1), cable(10, 1)), plan, &config);
        let (rate, class) = (Rate::from_gbit_per_sec(1), TrafficClass::new(0));
        let slow = UdpConfig { rate, payload: MSS, wire: WireFormat::ETHERNET, class };
        let config = Arc::new(config);
        let pair = |spec: &FlowSpec| match spec.group {
            0 => udp(slow),
            _ => tcp(&config, Algorithm::Reno.controller(MSS)),
        };
        let start = Instant::ZERO.after(Span::from_us(200));
        let flows = [flow(0, 2, 5 * u64::from(MSS)), FlowSpec { start, group: 1, ..flow(1, 3, 10_000) }];
        let outcome = bed.run(&flows, pair, NoRecorder, Instant::MAX);
        let row = &outcome.flows[1];
        let fct = row.completed.expect("it completed").since(row.start);
        assert_eq!(fct, row.ideal_fct, "beside a device FIFO of {device_fifo_packets} packets");
    }
}

/// Between the retransmissions of a flow that hears nothing for minutes a run has nothing to do: it looks up for progress
/// and interrupts a thousand times until `duration` and at most once per event after it.
#[test]
fn silence_costs_nothing() {
    let text = "duration = '1ms'\ndrain = '1000s'\nlosses = [{ link = 'host 0 -> switch 0', at = '0s', packets = 100 }]\n\
                [topology]\nkind = 'star'\nhosts = 2\nlink = { rate = '10Gbit/s', delay = '1us' }\n\
                [traffic.a]\nkind = 'flows'\nflows = [{ source = 0, destination = 1, size = '1kB' }]\n";
    let (mut looks, interrupt) = (0, AtomicBool::new(false));
    let result = run(&resolve_with(text, &[]), &interrupt, &mut |_| looks += 1).unwrap();
    assert!(result.simulated >= Span::from_secs(600), "{}", result.simulated);
    assert!((1..=1000 + result.events).contains(&looks), "{looks} looks at {} events", result.events);
}
