//! Shares of links: max-min fairness where theory promises it, schedulers' shares, residual capacity, starvation.

use std::sync::Arc;

use pliant_proto::congestion::dctcp::{Dctcp, DctcpConfig};
use pliant_proto::congestion::{AnyController, EcnMode};
use pliant_proto::packet::{TrafficClass, WireFormat};
use pliant_proto::rng::Stream;
use pliant_proto::switch::marker::{MarkAt, MarkerConfig};
use pliant_proto::switch::plan::SchedulerConfig;
use pliant_proto::switch::{QueueConfig, QueuePlan};
use pliant_proto::time::{Instant, Span};
use pliant_proto::transport::tcp::{PacingFactors, TcpConfig};
use pliant_proto::transport::udp::UdpConfig;
use pliant_proto::units::Rate;
use pliant_sim::oracle::max_min::{FlowDemand, max_min};
use pliant_sim::results::FlowState;
use pliant_sim::topology::{LinkSpec, ParkingLot, Topology};
use pliant_sim::traffic::FlowSpec;

use crate::common::{
    ENDLESS, Endpoint, MSS, TestBed, Watch, across, at_ms, bottleneck, cable, dumbbell, fifo, flow, mark_from, tcp, udp,
};

const PAYLOAD_SHARE: f64 = 1460.0 / 1500.0;

fn tcp_config(ecn: EcnMode, class: u8) -> Arc<TcpConfig> {
    let class = TrafficClass::new(class);
    let classes = TcpConfig { data_class: class, ack_class: class, ..TcpConfig::default() };
    Arc::new(TcpConfig { wire: WireFormat::IP, ack_every: 1, ecn, ..classes })
}

/// A sender of `bits_per_sec`, headers included.
fn constant(bits_per_sec: u64, class: u8) -> UdpConfig {
    let rate = Rate::from_bits_per_sec(bits_per_sec);
    UdpConfig { rate, payload: MSS, wire: WireFormat::IP, class: TrafficClass::new(class) }
}

fn dctcp() -> AnyController {
    Dctcp::new(DctcpConfig::default(), MSS).into()
}

/// A flow whose demand is limited if its rate in bits per second is given.
#[derive(Clone, Copy)]
struct Demand {
    spec: FlowSpec,
    rate: Option<u64>,
}

/// Rates measured and rates max-min fair, both on the wire and in Gbit/s, of flows that share marking queues. Hosts
/// start up to a microsecond late, or lockstep would settle which flow a mark hits, for long (phase effects).
fn rates(topology: Topology, pacing: Option<PacingFactors>, demands: &[Demand]) -> Vec<(f64, f64)> {
    let config = Arc::new(TcpConfig { pacing, ..TcpConfig::clone(&tcp_config(EcnMode::Accurate, 0)) });
    let mut bed = TestBed::new(topology, fifo(1000, mark_from(65, MarkAt::Enqueue)), &config);
    bed.host_plan.jitter = Span::from_us(1);
    let mut path = Vec::new();
    let paths: Vec<Vec<usize>> = demands
        .iter()
        .map(|Demand { spec, .. }| {
            let node = pliant_sim::topology::NodeId;
            bed.routing.path(node(spec.source), node(spec.destination), 0, &mut path);
            path.iter().map(|link| link.index()).collect()
        })
        .collect();
    let capacities: Vec<f64> = bed.topology.links().iter().map(|link| link.rate.bits_per_sec() as f64 / 1e9).collect();
    let wanted = |demand: &Demand| demand.rate.map(|rate| rate as f64 / 1e9);
    let flows = demands.iter().zip(&paths);
    let flows: Vec<FlowDemand> =
        flows.map(|(demand, links)| FlowDemand { links, weight: 1.0, demand: wanted(demand) }).collect();
    let fair = max_min(&capacities, &flows);
    let specs: Vec<FlowSpec> = demands.iter().map(|demand| demand.spec).collect();
    let pair = |spec: &FlowSpec| match demands[usize::from(spec.group)].rate {
        Some(rate) => udp(constant(rate, 0)),
        None => tcp(&config, dctcp()),
    };
    let watch = Watch::new(0, at_ms(200), Span::from_ms(10), specs.len());
    let outcome = bed.run(&specs, pair, watch, at_ms(1000));
    let measured = outcome.recorder.goodputs(at_ms(1000)).into_iter().map(|rate| rate / PAYLOAD_SHARE / 1e9);
    measured.zip(fair).collect()
}

/// How close to its max-min fair rate a flow comes.
const CLOSE: f64 = 0.1;

/// Flows with one bottleneck each and equal round trips reach their max-min fair rates: those that want less get it,
/// the others divide the rest.
#[test]
fn dumbbells_are_shared_max_min_fairly() {
    let mut stream = Stream::named(1, "dumbbells");
    for _ in 0..5 {
        let pairs = 2 + stream.below(5) as u32;
        let demand = |spec: FlowSpec| {
            let spec = FlowSpec { start: Instant::ZERO.after(Span::from_us(17 * u64::from(spec.source))), ..spec };
            let limited = spec.source % 3 == 1;
            Demand { spec, rate: limited.then(|| 500_000_000 * (1 + stream.below(3))) }
        };
        let demands: Vec<Demand> = across(pairs).into_iter().map(demand).collect();
        let rates = rates(dumbbell(pairs, cable(40, 10), cable(10, 10)), None, &demands);
        println!("{rates:.3?}");
        for (measured, fair) in rates {
            assert!((measured / fair - 1.0).abs() <= CLOSE, "{measured} where {fair} is fair");
        }
    }
}

fn parking_lot(hops: u32) -> Topology {
    let delay = Span::from_ns(100);
    let bottleneck_link = LinkSpec { rate: Rate::from_gbit_per_sec(10), delay };
    let spec = ParkingLot { hops, edge_link: cable(40, 20), bottleneck_link, host_delay: Span::ZERO };
    spec.build().expect("a parking lot")
}

/// A flow crosses three hops, one of them congested: it gets its max-min fair rate there, since its round trip is 1 %
/// longer than the others' and nobody else marks it. So it is where senders pace. Where they send bursts as fast as their
/// edges, the first hop stretches those of the long flow: at the congested hop the others' bursts find the queue that they
/// made themselves, and are marked more, and the long flow gets more than is fair, for however long.
#[test]
fn one_congested_hop_of_three_decides() {
    let endless = |group: u16, source, destination| FlowSpec { group, ..flow(source, destination, ENDLESS) };
    let mut demands = vec![Demand { spec: endless(0, 0, 1), rate: None }];
    demands.push(Demand { spec: endless(1, 2, 3), rate: Some(3_000_000_000) });
    for group in 2..5 {
        demands.push(Demand { spec: endless(group, 4, 5), rate: None });
    }
    demands.push(Demand { spec: endless(5, 6, 7), rate: Some(5_000_000_000) });
    let paced = rates(parking_lot(3), Some(PacingFactors::default()), &demands);
    let in_bursts = rates(parking_lot(3), None, &demands);
    println!("{paced:.3?}, in bursts {in_bursts:.3?}");
    for (measured, fair) in paced {
        assert!((measured / fair - 1.0).abs() <= CLOSE, "{measured} where {fair} is fair");
    }
    let (long, fair) = in_bursts[0];
    assert!(long / fair > 1.0 + CLOSE, "{long} where {fair} is fair");
}

/// On three congested hops max-min fairness gives the long flow a half. DCTCP does not: marks add up along the path, so
/// that windows which go as one over the marks are proportionally fair at best, a quarter (Kelly 1998), and the long
/// flow waits in three queues while its rivals wait in one. Its rivals take what it leaves.
#[test]
fn three_congested_hops_disfavour_the_long_flow() {
    let mut demands = vec![Demand { spec: FlowSpec { group: 0, ..flow(0, 1, ENDLESS) }, rate: None }];
    for hop in 0..3u32 {
        let spec = flow(2 + 2 * hop, 3 + 2 * hop, ENDLESS);
        demands.push(Demand { spec: FlowSpec { group: 1 + hop as u16, ..spec }, rate: None });
    }
    let rates = rates(parking_lot(3), None, &demands);
    println!("{rates:.3?}");
    let (long, fair) = rates[0];
    assert_eq!(fair, 5.0);
    assert!((0.2..=2.5).contains(&long), "{long}");
    for (cross, _) in &rates[1..] {
        assert!((cross + long) / 10.0 >= 0.99, "{cross} beside {long}");
    }
}

fn two_classes(scheduler: SchedulerConfig, weights: [u32; 2]) -> QueuePlan {
    let queue = |name, weight| QueueConfig { weight, marker: mark_from(65, MarkAt::Enqueue), ..deep(name) };
    QueuePlan::per_class(vec![queue("first", weights[0]), queue("second", weights[1])], scheduler)
}

fn deep(name: &str) -> QueueConfig {
    QueueConfig { marker: MarkerConfig::None, ..QueueConfig::tail_drop(name, 1000) }
}

const DWRR: SchedulerConfig = SchedulerConfig::Dwrr { strict: 0, quantum_bytes: 1500 };
const WFQ: SchedulerConfig = SchedulerConfig::Wfq { strict: 0 };

/// Shares of the bottleneck of two classes under `plan`: `pair` makes flow `i`, of class `i`.
fn class_rates(plan: QueuePlan, pair: impl Fn(u8) -> (Endpoint<AnyController>, Endpoint<AnyController>)) -> Vec<f64> {
    let config = tcp_config(EcnMode::Accurate, 0);
    let bed = TestBed::new(dumbbell(2, cable(40, 10), cable(10, 10)), plan, &config);
    let watch = Watch::new(bottleneck(2), at_ms(100), Span::from_ms(10), 2);
    let outcome = bed.run(&across(2), |spec| pair(spec.group as u8), watch, at_ms(600));
    let goodputs = outcome.recorder.goodputs(at_ms(600));
    goodputs.into_iter().map(|rate| rate / PAYLOAD_SHARE / 10e9).collect()
}

/// Backlogged classes get their weights' shares within 1 % of the link, from senders that never yield and from DCTCP.
#[test]
fn weighted_classes_get_their_shares() {
    for (scheduler, weights) in [(DWRR, [9, 1]), (DWRR, [1, 1]), (WFQ, [99, 1]), (WFQ, [2, 1])] {
        let total = f64::from(weights[0] + weights[1]);
        for yields in [false, true] {
            let pair = |class| {
                if yields {
                    tcp(&tcp_config(EcnMode::Accurate, class), dctcp())
                } else {
                    udp(constant(20_000_000_000, class))
                }
            };
            let shares = class_rates(two_classes(scheduler, weights), pair);
            println!("{scheduler:?} {weights:?}, yields {yields}: {shares:.4?}");
            for (share, weight) in shares.iter().zip(weights) {
                assert!((share - f64::from(weight) / total).abs() <= 0.01, "{share} for weight {weight}");
            }
        }
    }
}

/// Strict priority leaves the low class exactly what the high one does not use, and 0.5 % less at most.
#[test]
fn strict_priority_leaves_the_rest() {
    for high_gbit in [1, 6, 9] {
        let pair = |class| match class {
            0 => udp(constant(high_gbit * 1_000_000_000, 0)),
            _ => tcp(&tcp_config(EcnMode::Accurate, 1), dctcp()),
        };
        let shares = class_rates(two_classes(SchedulerConfig::Strict, [1, 1]), pair);
        println!("{high_gbit} Gbit/s: {shares:.4?}");
        let high = high_gbit as f64 / 10.0;
        assert!((shares[0] / high - 1.0).abs() <= 0.001, "{}", shares[0]);
        assert!((0.995..=1.0001).contains(&(shares[1] / (1.0 - high))), "{}", shares[1]);
    }
}

/// A flow that strict priority starves for five seconds sends nothing meanwhile but what its timer allows, survives,
/// and finishes once the line is free.
#[test]
fn a_starved_flow_survives() {
    let config = tcp_config(EcnMode::Off, 1);
    let plan = QueuePlan::per_class(vec![deep("high"), deep("low")], SchedulerConfig::Strict);
    let bed = TestBed::new(dumbbell(2, cable(1, 10), cable(1, 10)), plan, &config);
    let high_bytes = 5 * 1_000_000_000 / 8 / 1500 * 1460;
    let low = FlowSpec { start: at_ms(1), group: 1, ..flow(1, 3, 10_000_000) };
    let pair = |spec: &FlowSpec| match spec.group {
        0 => udp(constant(1_000_000_000, 0)),
        _ => tcp(&config, pliant_proto::congestion::Algorithm::Cubic.controller(MSS)),
    };
    let watch = Watch::new(bottleneck(2), Instant::ZERO, Span::from_ms(100), 2);
    let outcome = bed.run(&[flow(0, 2, high_bytes), low], pair, watch, Instant::MAX);
    let [high, low] = outcome.flows.as_slice() else { panic!("two flows started") };
    println!("{:?}, {} timeouts, {} repeated", low.completed, low.timeouts, low.retransmissions);
    assert!(matches!(high.state, FlowState::Completed) && matches!(low.state, FlowState::Completed));
    assert_eq!((high.drops, low.delivered_bytes), (0, 10_000_000));
    let completed = low.completed.expect("it completed");
    assert!(completed > at_ms(5000) && completed < at_ms(15_000), "{completed:?}");
    assert!((5..30).contains(&low.timeouts), "{} timeouts", low.timeouts);
}
