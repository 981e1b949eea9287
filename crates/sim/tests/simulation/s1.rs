//! Long flows across a dumbbell of equal links, as peers simulate it: eight under DCTCP, two under CUBIC.

use std::sync::Arc;

use pliant_proto::congestion::{Algorithm, EcnMode};
use pliant_proto::packet::WireFormat;
use pliant_proto::recovery::rtt::RtoBounds;
use pliant_proto::switch::QueuePlan;
use pliant_proto::switch::marker::{Level, MarkAt, MarkerConfig, PhantomConfig};
use pliant_proto::time::{Instant, Span};
use pliant_proto::transport::tcp::TcpConfig;
use pliant_sim::engine::Outcome;
use pliant_sim::oracle::fairness::jain;

use crate::common::{MSS, TestBed, Watch, across, at_ms, bottleneck, cable, dropped, dumbbell, fifo, mark_from, tcp};
use crate::scenarios::run_with;

/// The scenarios that peers run as well.
const S1: &str = include_str!("../../../../bench/scenarios/s1.toml");
const S1C: &str = include_str!("../../../../bench/scenarios/s1c.toml");

const WARM_UP_MS: u64 = 200;
const END_MS: u64 = 1000;

fn run(pairs: u32, edge_gbit: u64, algorithm: Algorithm, ecn: EcnMode, plan: QueuePlan) -> Outcome<Watch> {
    let rto = RtoBounds { minimum: Span::from_ms(250), ..RtoBounds::default() };
    let config = Arc::new(TcpConfig { wire: WireFormat::IP, ack_every: 1, ecn, rto, ..TcpConfig::default() });
    let bed = TestBed::new(dumbbell(pairs, cable(edge_gbit, 5), cable(10, 5)), plan, &config);
    let watch = Watch::new(bottleneck(pairs), at_ms(WARM_UP_MS), Span::from_us(10), pairs as usize);
    let mut flows = across(pairs);
    for flow in &mut flows {
        flow.start = Instant::ZERO.after(Span::from_ns(13_700 * u64::from(flow.source)));
    }
    bed.run(&flows, |_| tcp(&config, algorithm.controller(MSS)), watch, at_ms(END_MS))
}

/// Goodput of all flows as a share of what the bottleneck can carry, and its fairness.
fn shares(outcome: &Outcome<Watch>) -> (f64, f64) {
    let goodputs = outcome.recorder.goodputs(at_ms(END_MS));
    (goodputs.iter().sum::<f64>() / (10e9 * 1460.0 / 1500.0), jain(&goodputs))
}

/// DCTCP keeps the link full and the queue near K = 65 without a drop; ns-3 3.37 has a mean queue of 60 packets here.
/// Where edges are as fast as the bottleneck, packets come in lockstep with departures, and which flow's packet comes
/// first in each step biases the flows' marks for long (phase effects, Floyd and Jacobson 1992).
#[test]
fn eight_dctcp_flows() {
    for (edge_gbit, least_fairness) in [(10, 0.998), (40, 0.999)] {
        let plan = fifo(1000, mark_from(65, MarkAt::Enqueue));
        let outcome = run(8, edge_gbit, Algorithm::Dctcp, EcnMode::Accurate, plan);
        let (utilisation, fairness) = shares(&outcome);
        let queue = outcome.recorder.mean_length();
        println!("edges {edge_gbit}: utilisation {utilisation:.5}, Jain {fairness:.5}, queue {queue:.2}");
        assert!((0.998..=1.0001).contains(&utilisation), "{utilisation}");
        assert!(fairness >= least_fairness, "{fairness}");
        assert!((58.0..=63.0).contains(&queue), "{queue}");
        assert!((71..=75).contains(&outcome.recorder.percentile(1.0)));
        assert_eq!(dropped(&outcome.ports), 0);
    }
}

/// A phantom queue marks for the rate alone: DCTCP sends no more than its share of the link, and the real queue stays
/// nearly empty (HULL, NSDI 2012, sections 3.1 and 4.1). With the share at 1 the link is full again.
#[test]
fn a_phantom_queue_trades_bandwidth_for_the_queue() {
    for (drain, utilisations) in [(0.8, 0.72..=0.801), (0.95, 0.855..=0.951), (1.0, 0.95..=1.001)] {
        let marker = PhantomConfig { drain, level: Level::Bytes(65 * 1538), pass_not_ect: true };
        let plan = fifo(1000, MarkerConfig::Phantom(marker));
        let outcome = run(8, 10, Algorithm::Dctcp, EcnMode::Accurate, plan);
        let (utilisation, fairness) = shares(&outcome);
        let queue = outcome.recorder.mean_length();
        println!("drain {drain}: utilisation {utilisation:.5}, Jain {fairness:.5}, queue {queue:.2}");
        assert!(utilisations.contains(&utilisation), "{drain}: {utilisation}");
        assert!(fairness >= 0.98 && (drain == 1.0 || queue < 10.0), "{drain}: {fairness}, {queue}");
        assert_eq!(dropped(&outcome.ports), 0);
    }
}

/// Fairness of the flows of a scenario over the whole of it.
fn fairness(scenario: &str, changes: &[&str]) -> f64 {
    let delivered: Vec<f64> = run_with(scenario, changes).flows.iter().map(|row| row.delivered_bytes as f64).collect();
    println!("{changes:?}: {delivered:?}, Jain {:.5}", jain(&delivered));
    jain(&delivered)
}

/// S1 as it is run beside peers: eight flows that start at once share the whole second.
#[test]
fn s1_is_fair_over_its_second() {
    assert!(fairness(S1, &[]) >= 0.999);
}

/// CUBIC fills a drop-tail queue of 100 packets. In ns-3, with edges as fast as the bottleneck and 100 packets in
/// hosts, it has a goodput of 0.998 of the line, a fairness of 0.971 and a mean queue of 91 packets. Such edges are in
/// [`two_cubic_flows_behind_equal_edges`].
#[test]
fn two_cubic_flows() {
    let outcome = run(2, 40, Algorithm::Cubic, EcnMode::Off, fifo(100, MarkerConfig::None));
    let (utilisation, fairness) = shares(&outcome);
    let queue = outcome.recorder.mean_length();
    let lost = dropped(&outcome.ports);
    let repeated: u32 = outcome.flows.iter().map(|row| row.retransmissions).sum();
    let timeouts: u32 = outcome.flows.iter().map(|row| row.timeouts).sum();
    println!("utilisation {utilisation:.5}, Jain {fairness:.5}, queue {queue:.2}, {lost} lost, {repeated} repeated");
    assert!((0.995..=1.001).contains(&utilisation), "{utilisation}");
    assert!(fairness >= 0.97, "{fairness}");
    assert!((75.0..=100.0).contains(&queue), "{queue}");
    assert_eq!(timeouts, 0);
    // SACK repeats what was lost, and once per recovery at most a segment that was not (RFC 6675, NextSeg rule 4).
    assert!((lost..=lost + lost / 50).contains(&u64::from(repeated)), "{repeated} repeated, {lost} lost");
}

/// S1c as it is run beside peers, with edges as fast as the bottleneck. A flow whose window exceeds its path sends at
/// just the rate at which the full queue is emptied, each of its packets in the place that was just vacated: the other
/// flow's packet, one per timeout, finds none. A microsecond of jitter does not end that, since the port of such a flow
/// never idles, and neither does HyStart among hosts in step. Both together do: no window exceeds the path at first, and
/// later losses fall to either flow. HyStart's threshold is RFC 9406's least one for round trips a thousandth as long; a
/// timeout takes a quarter of a second here, so this is asked of ten.
#[test]
fn two_cubic_flows_behind_equal_edges() {
    let jitter = "host_jitter=1us";
    let hystart = ["hystart=true", "hystart_threshold=4us"];
    for locked_out in [&[][..], &[jitter], &hystart] {
        assert!(fairness(S1C, locked_out) < 0.51, "{locked_out:?}");
    }
    assert!(fairness(S1C, &[&[jitter, "duration=10s"], &hystart[..]].concat()) >= 0.97);
}
