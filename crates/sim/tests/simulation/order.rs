//! Order of arrival: on one path, packets of one class never overtake each other; sprayed ones do.

use std::cell::Cell;
use std::convert::Infallible;
use std::rc::Rc;
use std::sync::Arc;

use pliant_proto::congestion::Algorithm;
use pliant_proto::packet::{Body, DataFlags, Packet, SackBlocks, TrafficClass, WireFormat};
use pliant_proto::rng::Stream;
use pliant_proto::switch::marker::{MarkAt, MarkerConfig};
use pliant_proto::switch::plan::SchedulerConfig;
use pliant_proto::switch::{QueueConfig, QueuePlan};
use pliant_proto::time::{Instant, Span};
use pliant_proto::transport::tcp::TcpConfig;
use pliant_proto::transport::{Command, Deadline, Event, Statistics, Timer, Transport};
use pliant_sim::engine::PathChoice;
use pliant_sim::recorder::NoRecorder;
use pliant_sim::results::FlowState;
use pliant_sim::topology::{FatTree, LeafSpine, Topology};
use pliant_sim::traffic::FlowSpec;

use crate::common::{MSS, TestBed, cable, fifo, flow, mark_from, tcp};

const CLASSES: u8 = 3;

/// What all probes of a run saw.
#[derive(Default)]
struct Arrivals {
    packets: Cell<u64>,
    overtaken: Cell<u64>,
}

/// One side of a flow of numbered packets, in random classes and sizes and with random pauses.
enum Probe {
    Sender { left: u64, number: u64, next_at: Option<Instant>, stream: Box<Stream>, finished: bool },
    Receiver { next: [u64; CLASSES as usize], arrivals: Rc<Arrivals> },
}

impl Transport for Probe {
    type Request = Infallible;
    type Answer = Infallible;

    fn handle_packet(&mut self, _: Instant, packet: &Packet, _: &SackBlocks) {
        let (Self::Receiver { next, arrivals }, Body::Data { seq, .. }) = (self, packet.body()) else { return };
        let next = &mut next[packet.traffic_class.class()];
        arrivals.packets.set(arrivals.packets.get() + 1);
        arrivals.overtaken.set(arrivals.overtaken.get() + u64::from(seq < *next));
        *next = seq + 1;
    }

    fn handle_command(&mut self, _: Instant, command: Command) {
        if let (Self::Sender { left, .. }, Command::Send { bytes }) = (self, command) {
            *left += bytes / u64::from(MSS);
        }
    }

    fn handle_timeout(&mut self, _: Instant) {}

    fn poll_transmit(&mut self, now: Instant) -> Option<Packet> {
        let Self::Sender { left, number, next_at, stream, .. } = self else { return None };
        if *left == 0 || next_at.is_some_and(|at| at > now) {
            return None;
        }
        (*left, *number) = (*left - 1, *number + 1);
        let burst = stream.below(4) > 0;
        *next_at = Some(now.after(if burst { Span::ZERO } else { Span::from_ns(stream.below(10_000)) }));
        let class = TrafficClass::new(stream.below(u64::from(CLASSES)) as u8);
        let len = 1 + stream.below(u64::from(MSS)) as u16;
        let body = Body::Data { seq: *number, sent_at: now, len, flags: DataFlags::NONE };
        Some(Packet::new(class, WireFormat::ETHERNET.wire_bytes(len), body))
    }

    fn poll_event(&mut self) -> Option<Event> {
        let Self::Sender { left: 0, finished, .. } = self else { return None };
        (!std::mem::replace(finished, true)).then_some(Event::Finished)
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        let Self::Sender { left: 1.., next_at: Some(at), .. } = *self else { return None };
        Some(Deadline { at, why: Timer::Pace })
    }

    fn statistics(&self) -> Statistics {
        Statistics::default()
    }
}

fn fat_tree() -> Topology {
    FatTree { k: 4, link: cable(10, 1), host_delay: Span::ZERO }.build().expect("a fat-tree")
}

fn leaf_spine() -> Topology {
    let spec = LeafSpine {
        leaves: 4,
        spines: 3,
        hosts_per_leaf: 4,
        leaves_per_host: 1,
        cables: 1,
        host_link: cable(10, 1),
        fabric_link: Some(cable(25, 2)),
        host_delay: Span::ZERO,
    };
    spec.build().expect("a leaf-spine")
}

/// Flows among the 16 hosts, four from each host on average, most of them to the first six hosts: a congested network.
fn crossing(bytes: u64) -> Vec<FlowSpec> {
    let mut stream = Stream::named(3, "crossing");
    let any = |_| {
        let source = stream.below(16) as u32;
        let destination = (source + 1 + stream.below(15) as u32) % 16;
        let destination = if destination > 6 && source > 6 { destination - 6 } else { destination };
        let destination = if destination == source { (source + 1) % 16 } else { destination };
        flow(source, destination, bytes)
    };
    (0..64).map(any).collect()
}

/// Runs probes; gives packets that arrived, packets overtaken, packets dropped.
fn probe(topology: Topology, path_choice: PathChoice, device_fifo_packets: u32) -> (u64, u64, u64) {
    let queue = |name| QueueConfig { weight: 2, ..QueueConfig::tail_drop(name, 40) };
    let queues = vec![queue("strict"), queue("first"), queue("second")];
    let scheduler = SchedulerConfig::Dwrr { strict: 1, quantum_bytes: 1538 };
    let plan = QueuePlan { device_fifo_packets, ..QueuePlan::per_class(queues, scheduler) };
    let mut bed = TestBed::new(topology, plan, &TcpConfig::default());
    bed.path_choice = path_choice;
    let arrivals = Rc::new(Arrivals::default());
    let mut seed = 0;
    let pair = |_: &FlowSpec| {
        seed += 1;
        let stream = Box::new(Stream::named(seed, "probe"));
        let sender = Probe::Sender { left: 0, number: 0, next_at: None, stream, finished: false };
        (sender, Probe::Receiver { next: [0; CLASSES as usize], arrivals: Rc::clone(&arrivals) })
    };
    let outcome = bed.run(&crossing(1000 * u64::from(MSS)), pair, NoRecorder, Instant::MAX);
    let drops = outcome.flows.iter().map(|row| u64::from(row.drops)).sum();
    assert_eq!(arrivals.packets.get() + drops, 64_000, "every packet arrives or is counted as dropped");
    (arrivals.packets.get(), arrivals.overtaken.get(), drops)
}

/// Within a class nothing overtakes on a flow's one path, however full the queues and whatever the device FIFO.
#[test]
fn one_path_keeps_order() {
    for topology in [fat_tree(), leaf_spine()] {
        for device_fifo_packets in [0, 1, 20] {
            let (arrived, overtaken, dropped) = probe(topology.clone(), PathChoice::Ecmp, device_fifo_packets);
            println!("{arrived} arrived, {overtaken} overtaken, {dropped} dropped");
            assert_eq!(overtaken, 0);
            assert!(dropped > 0, "the network is congested");
        }
    }
}

/// Sprayed packets overtake, and TCP delivers each byte once all the same.
#[test]
fn spraying_reorders_and_tcp_delivers() {
    for path_choice in [PathChoice::SprayRandom, PathChoice::SprayRoundRobin] {
        let (_, overtaken, _) = probe(fat_tree(), path_choice, 0);
        assert!(overtaken > 0, "spraying reorders");
        for (sack, rack) in [(false, false), (true, false), (true, true)] {
            let config = Arc::new(TcpConfig { sack, rack, ..TcpConfig::default() });
            for marker in [MarkerConfig::None, mark_from(20, MarkAt::Enqueue)] {
                let mut bed = TestBed::new(fat_tree(), fifo(50, marker), &config);
                bed.path_choice = path_choice;
                let flows = crossing(300_000);
                let pair = |_: &FlowSpec| tcp(&config, Algorithm::NewReno.controller(MSS));
                let outcome = bed.run(&flows, pair, NoRecorder, Instant::MAX);
                assert_eq!(outcome.flows.len(), flows.len());
                for row in &outcome.flows {
                    assert!(matches!(row.state, FlowState::Completed));
                    assert_eq!(row.delivered_bytes, 300_000);
                }
            }
        }
    }
}
