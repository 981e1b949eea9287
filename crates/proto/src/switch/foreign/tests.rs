use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::packet::{Body, DataFlags, Ecn, EndpointId, Side, TrafficClass};
use crate::rng::Stream;
use crate::switch::plan::{SchedulerConfig, ShaperConfig, ShaperRate};
use crate::switch::{Admission, Discipline, EgressPort, ForeignDiscipline, Link, Next, QueueConfig, QueuePlan};
use crate::time::Span;
use crate::units::Rate;

/// Last in, first out: the oldest packet makes room. Refuses every seventh packet of its stream's choice, and marks what
/// waits alone.
#[derive(Debug)]
struct LastFirst {
    refuses: bool,
}

#[derive(Debug)]
struct Stack {
    packets: VecDeque<Packet>,
    limit: usize,
    refuses: bool,
    stream: Stream,
    marked: u64,
}

impl ForeignDiscipline for LastFirst {
    fn name(&self) -> &'static str {
        "last-first"
    }

    fn queue(&self, config: &QueueConfig, link: Rate, stream: Stream) -> Box<dyn ForeignQueue> {
        assert_eq!(link, Rate::from_gbit_per_sec(10));
        let limit = config.limit_packets as usize;
        Box::new(Stack { packets: VecDeque::new(), limit, refuses: self.refuses, stream, marked: 0 })
    }
}

impl ForeignQueue for Stack {
    fn enqueue(&mut self, _now: Instant, mut packet: Packet) -> Enqueued {
        if self.refuses && self.stream.below(7) == 0 {
            return Enqueued::Dropped(DropReason::Early);
        }
        if self.packets.is_empty() && packet.traffic_class.is_ect() {
            packet.traffic_class = packet.traffic_class.with_ecn(Ecn::Ce);
            self.marked += 1;
        }
        self.packets.push_back(packet);
        if self.packets.len() <= self.limit {
            return Enqueued::Queued;
        }
        self.packets.pop_front().map_or(Enqueued::Queued, Enqueued::Displaced)
    }

    fn next_bytes(&self) -> Option<u16> {
        self.packets.back().map(|packet| packet.wire_bytes)
    }

    fn dequeue(&mut self, _now: Instant) -> Option<Packet> {
        self.packets.pop_back()
    }

    fn occupancy(&self) -> Occupancy {
        let bytes = self.packets.iter().map(|packet| u64::from(packet.wire_bytes)).sum();
        Occupancy { packets: self.packets.len() as u32, bytes }
    }

    fn marked_packets(&self) -> u64 {
        self.marked
    }
}

const LINK: Rate = Rate::from_gbit_per_sec(10);

fn config(name: &str, limit: u32, refuses: bool) -> QueueConfig {
    let discipline = Discipline::Foreign(Arc::new(LastFirst { refuses }));
    QueueConfig { discipline, ..QueueConfig::tail_drop(name, limit) }
}

fn packet(class: u8, number: u64, bytes: u16) -> Packet {
    let body = Body::Data { seq: number, sent_at: Instant::ZERO, len: 1, flags: DataFlags::NONE };
    let class = TrafficClass::new(class).with_ecn(Ecn::Ect0);
    Packet::new(class, bytes, body).to(EndpointId::new(1, Side::Responder))
}

fn number(packet: &Packet) -> u64 {
    match packet.body() {
        Body::Data { seq, .. } => seq,
        other => panic!("{other:?}"),
    }
}

fn drained(port: &mut EgressPort) -> Vec<u64> {
    let next = || match port.dequeue(Instant::ZERO, None) {
        Next::Packet(packet) => Some(number(&packet)),
        _ => None,
    };
    core::iter::from_fn(next).collect()
}

/// The last packet leaves first, the oldest makes room; both are counted as the port's own disciplines count.
#[test]
fn another_crate_s_discipline_queues_and_displaces() {
    let mut port = EgressPort::new(&QueuePlan::single(config("own", 3, false)), LINK, 1, "port");
    let admissions = [0, 1, 2, 3].map(|number| port.enqueue(Instant::ZERO, packet(0, number, 1000), None));
    assert_eq!(admissions, [Admission::Queued, Admission::Queued, Admission::Queued, Admission::Displaced]);
    assert_eq!(port.take_displaced().as_ref().map(number), Some(0));
    assert_eq!(port.occupancy(), Occupancy { packets: 3, bytes: 3000 });
    assert_eq!(drained(&mut port), [3, 2, 1]);
    let counters = port.counters().next().expect("a queue");
    assert_eq!((counters.admitted.packets, counters.admitted.bytes), (3, 3000), "a displaced packet counts as refused");
    assert_eq!(counters.dropped[DropReason::Tail as usize].packets, 1);
    assert_eq!((counters.marked_packets, counters.max_packets), (1, 3));
}

/// Every packet is shown to the discipline, also one that finds its link free.
#[test]
fn another_crate_s_discipline_sees_every_packet() {
    let plan = QueuePlan::single(config("own", 3, false));
    let mut link = Link::new(LINK, Span::from_us(1), 0, &plan, 1, "link");
    assert_eq!(link.enqueue(Instant::ZERO, &packet(0, 0, 1000), None), Admission::Queued);
    let arrives = link.next_arrival().expect("it is on its way");
    assert_eq!(arrives, Instant::from_ps(1_800_000));
    assert_eq!(link.take_arrival(arrives, None).traffic_class.ecn(), Ecn::Ce);
    assert_eq!(link.counters()[0].marked_packets, 1);
}

/// It takes its turn among other queues, by its next packet's bytes, and waits for tokens like others.
#[test]
fn another_crate_s_discipline_is_scheduled_and_shaped() {
    let dwrr = SchedulerConfig::Dwrr { strict: 0, quantum_bytes: 1000 };
    let plan = QueuePlan::per_class([config("own", 9, false), QueueConfig::tail_drop("fifo", 9)].into(), dwrr);
    assert_eq!(plan.check(), Ok(()));
    let mut port = EgressPort::new(&plan, LINK, 1, "port");
    for number in 0..4 {
        for class in 0..2 {
            let admission = port.enqueue(Instant::ZERO, packet(class, number + 10 * u64::from(class), 1000), None);
            assert_eq!(admission, Admission::Queued);
        }
    }
    assert_eq!(drained(&mut port), [3, 10, 2, 11, 1, 12, 0, 13]);
    let shaper = ShaperConfig { rate: ShaperRate::Fixed(Rate::from_gbit_per_sec(1)), depth_bytes: 1000 };
    let shaped = QueueConfig { shaper: Some(shaper), ..config("own", 9, false) };
    let mut port = EgressPort::new(&QueuePlan::single(shaped), LINK, 1, "port");
    for number in 0..2 {
        assert_eq!(port.enqueue(Instant::ZERO, packet(0, number, 1000), None), Admission::Queued);
    }
    assert!(matches!(port.dequeue(Instant::ZERO, None), Next::Packet(packet) if number(&packet) == 1));
    assert_eq!(port.dequeue(Instant::ZERO, None), Next::NotBefore(Instant::from_ps(8_000_000)));
}

/// What such a queue cannot have is refused with the plan; the same discipline makes equal plans.
#[test]
fn plans_check_another_crate_s_discipline() {
    let plan = QueuePlan::single(config("own", 3, false));
    assert_eq!(plan.check(), Ok(()));
    assert_eq!(plan, plan.clone());
    assert_ne!(plan, QueuePlan::single(config("own", 3, false)), "another discipline of the same name");
    let mut shared = plan.clone();
    shared.shared_buffer = Some(crate::units::Bytes(1));
    let mut red = plan.clone();
    red.queues[0].red_limit_bytes = 1;
    let mut fair = plan.clone();
    fair.scheduler = SchedulerConfig::Wfq { strict: 0 };
    for plan in [shared, red, fair] {
        assert!(plan.check().is_err());
    }
}

/// A queue that loses a packet is caught at once.
#[test]
#[should_panic(expected = "a queue neither loses packets nor makes them")]
fn a_queue_that_loses_packets_is_caught() {
    #[derive(Debug)]
    struct Hole;
    impl ForeignDiscipline for Hole {
        fn name(&self) -> &'static str {
            "hole"
        }
        fn queue(&self, _config: &QueueConfig, _link: Rate, _stream: Stream) -> Box<dyn ForeignQueue> {
            Box::new(Self)
        }
    }
    impl ForeignQueue for Hole {
        fn enqueue(&mut self, _now: Instant, _packet: Packet) -> Enqueued {
            Enqueued::Queued
        }
        fn next_bytes(&self) -> Option<u16> {
            None
        }
        fn dequeue(&mut self, _now: Instant) -> Option<Packet> {
            None
        }
        fn occupancy(&self) -> Occupancy {
            Occupancy::default()
        }
    }
    let discipline = Discipline::Foreign(Arc::new(Hole));
    let plan = QueuePlan::single(QueueConfig { discipline, ..QueueConfig::tail_drop("hole", 3) });
    EgressPort::new(&plan, LINK, 1, "port").enqueue(Instant::ZERO, packet(0, 0, 100), None);
}

proptest! {
    /// Whatever is offered to links of such queues: each packet arrives, is dropped or is pushed out, once, and the link's
    /// own count agrees.
    #[test]
    fn packets_are_conserved(
        offers in proptest::collection::vec((0..2u8, 40..1500u16, 0..3_000u64), 1..200),
        limit in 1..6u32,
    ) {
        let queues = [config("a", limit, true), config("b", limit, true)].into();
        let plan = QueuePlan::per_class(queues, SchedulerConfig::Strict);
        let mut link = Link::new(LINK, Span::from_ns(500), 0, &plan, 7, "link");
        let (mut now, mut arrived, mut gone, mut offered) = (Instant::ZERO, 0u64, 0u64, 0u64);
        for (class, bytes, ns) in offers {
            now = now.after(Span::from_ns(ns));
            while let Some(at) = link.next_arrival().filter(|at| *at <= now) {
                link.take_arrival(at, None);
                arrived += 1;
            }
            offered += 1;
            match link.enqueue(now, &packet(class, offered, bytes), None) {
                Admission::Queued => {}
                Admission::Displaced => {
                    prop_assert!(link.take_displaced().is_some());
                    gone += 1;
                }
                Admission::Dropped(_) => gone += 1,
                Admission::Returned => unreachable!("nothing is trimmed here"),
            }
            link.assert_conserved(|| "link".into());
            prop_assert_eq!(offered, arrived + gone + link.in_flight());
        }
        while let Some(at) = link.next_arrival() {
            link.take_arrival(at, None);
            arrived += 1;
        }
        prop_assert_eq!((offered, link.in_flight()), (arrived + gone, 0));
    }
}
