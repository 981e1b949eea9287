//! Known traces of the schedulers, then conservation and fairness over random traffic.

use super::*;
use crate::packet::{Body, DataFlags, EndpointId, Side, TrafficClass};
use crate::switch::DropReason;
use crate::switch::plan::{SchedulerConfig, ShaperConfig, ShaperRate};
use crate::units::{Bytes, Rate};
use alloc::string::String;
use alloc::vec::Vec;
use proptest::prelude::*;

fn packet(class: u8, bytes: u16, number: u64) -> Packet {
    let body = Body::Data { seq: number, sent_at: Instant::ZERO, len: bytes, flags: DataFlags::NONE };
    let mut packet = Packet::new(TrafficClass::new(class), bytes, body);
    packet.to = EndpointId::new(u32::from(class), Side::Responder);
    packet
}

fn port(scheduler: SchedulerConfig, weights: &[u32]) -> EgressPort {
    let queue = |(index, &weight): (usize, &u32)| QueueConfig {
        weight,
        ..QueueConfig::tail_drop(&format!("q{index}"), 1_000_000)
    };
    let plan = QueuePlan::per_class(weights.iter().enumerate().map(queue).collect(), scheduler);
    plan.check().expect("a valid plan");
    EgressPort::new(&plan, Rate::from_gbit_per_sec(10), 1, "port")
}

fn enqueue(port: &mut EgressPort, class: u8, sizes: &[u16]) {
    for (number, &bytes) in sizes.iter().enumerate() {
        assert_eq!(port.enqueue(Instant::ZERO, packet(class, bytes, number as u64), None), Admission::Queued);
    }
}

fn next(port: &mut EgressPort) -> Option<Packet> {
    match port.dequeue(Instant::ZERO, None) {
        Next::Packet(packet) => Some(packet),
        _ => None,
    }
}

/// The order of leaving as text: class letter and size.
fn trace(port: &mut EgressPort) -> String {
    let name = |packet: Packet| format!("{}{}", (b'A' + packet.traffic_class.class() as u8) as char, packet.wire_bytes);
    let names: Vec<String> = core::iter::from_fn(|| next(port)).map(name).collect();
    names.join(" ")
}

/// Shreedhar and Varghese's example with quanta 500.
#[test]
fn drr_trace() {
    let mut port = port(SchedulerConfig::Dwrr { strict: 0, quantum_bytes: 500 }, &[1, 1, 1]);
    for (class, sizes) in [(0, &[200u16, 750, 20][..]), (1, &[500, 500]), (2, &[200, 600, 100, 50])] {
        enqueue(&mut port, class, sizes);
    }
    assert_eq!(trace(&mut port), "A200 B500 C200 A750 A20 B500 C600 C100 C50");
}

#[test]
fn drr_weights_two_to_one() {
    let mut port = port(SchedulerConfig::Dwrr { strict: 0, quantum_bytes: 1500 }, &[2, 1]);
    enqueue(&mut port, 0, &[1500; 6]);
    enqueue(&mut port, 1, &[1500; 3]);
    assert_eq!(trace(&mut port), "A1500 A1500 B1500 A1500 A1500 B1500 A1500 A1500 B1500");
}

/// Two lanes with equal quanta: A alone against B, C and D by strict priority. A has half of the link whatever is queued
/// beside it, and an idle lane earns nothing.
#[test]
fn lanes_share_and_are_strict_inside() {
    let queue = |(index, name): (usize, &str)| QueueConfig {
        lane: Some(u8::from(index > 0)),
        ..QueueConfig::tail_drop(name, 1_000_000)
    };
    let queues = ["a", "b", "c", "d"].into_iter().enumerate().map(queue).collect();
    let plan = QueuePlan::per_class(queues, SchedulerConfig::Dwrr { strict: 0, quantum_bytes: 1500 });
    plan.check().expect("a valid plan");
    let mut port = EgressPort::new(&plan, Rate::from_gbit_per_sec(10), 1, "port");
    enqueue(&mut port, 3, &[1500; 2]);
    enqueue(&mut port, 0, &[1500; 5]);
    enqueue(&mut port, 2, &[1500]);
    assert_eq!(next(&mut port).map(|packet| packet.traffic_class.class()), Some(2), "the lane that came first");
    enqueue(&mut port, 1, &[1500]);
    assert_eq!(trace(&mut port), "A1500 B1500 A1500 D1500 A1500 D1500 A1500 A1500");
}

/// 1500-byte against 64-byte packets with equal quanta: one large, then 23 small, later 24.
#[test]
fn drr_small_packets_share_by_bytes() {
    let mut port = port(SchedulerConfig::Dwrr { strict: 0, quantum_bytes: 1500 }, &[1, 1]);
    enqueue(&mut port, 0, &[1500; 20]);
    enqueue(&mut port, 1, &[64; 400]);
    let order: Vec<usize> = core::iter::from_fn(|| next(&mut port)).map(|p| p.traffic_class.class()).collect();
    let runs: Vec<usize> = order.split(|&class| class == 0).map(<[usize]>::len).filter(|&n| n > 0).collect();
    assert_eq!(runs[0], 23);
    assert!(runs[1..].iter().take(10).all(|&n| n == 23 || n == 24) && runs[..12].contains(&24), "{runs:?}");
}

/// SCFQ with A (weight 1) 3 x 100 and B (weight 1) 3 x 50 at 0, C (weight 2) 30 at 120, at rate 1: tags
/// 50 100 100 115 150 200 300.
#[test]
fn scfq_trace() {
    let mut port = port(SchedulerConfig::Wfq { strict: 0 }, &[1, 1, 2]);
    enqueue(&mut port, 0, &[100; 3]);
    enqueue(&mut port, 1, &[50; 3]);
    let (mut time, mut order, mut tags) = (0, String::new(), Vec::new());
    while let Some(packet) = next(&mut port) {
        let Weighted::Scfq(scfq) = &port.weighted else { unreachable!("the plan says WFQ") };
        tags.push(scfq.tag_in_service());
        let end = time + u64::from(packet.wire_bytes);
        if (time..end).contains(&120) {
            enqueue(&mut port, 2, &[30]);
        }
        time = end;
        order.push((b'A' + packet.traffic_class.class() as u8) as char);
    }
    assert_eq!((&*order, &*tags), ("BABCBAA", &[50, 100, 100, 115, 150, 200, 300][..]));
}

/// Equal tags leave in the order of their arrival, whatever the order of their queues.
#[test]
fn scfq_ties_are_first_come_first_served() {
    let mut port = port(SchedulerConfig::Wfq { strict: 0 }, &[1, 1, 1]);
    for class in [2, 0, 1] {
        enqueue(&mut port, class, &[100]);
    }
    assert_eq!(trace(&mut port), "C100 A100 B100");
}

#[test]
fn strict_queues_go_first_and_do_not_preempt_the_weighted_rest() {
    let mut port = port(SchedulerConfig::Dwrr { strict: 1, quantum_bytes: 1500 }, &[1, 1, 1]);
    enqueue(&mut port, 2, &[1500; 2]);
    enqueue(&mut port, 1, &[1500; 2]);
    enqueue(&mut port, 0, &[100; 2]);
    assert_eq!(trace(&mut port), "A100 A100 C1500 B1500 C1500 B1500");
}

#[test]
fn a_shaped_queue_yields_until_it_has_tokens() {
    let shaper = ShaperConfig { rate: ShaperRate::Fixed(Rate::from_bits_per_sec(8_000_000_000)), depth_bytes: 84 };
    let credit = QueueConfig { shaper: Some(shaper), ..QueueConfig::tail_drop("credit", 8) };
    let plan = QueuePlan::per_class(alloc::vec![credit, QueueConfig::tail_drop("data", 100)], SchedulerConfig::Strict);
    plan.check().expect("a valid plan");
    let mut port = EgressPort::new(&plan, Rate::from_gbit_per_sec(10), 1, "port");
    enqueue(&mut port, 0, &[84; 3]);
    enqueue(&mut port, 1, &[1500]);
    assert_eq!(next(&mut port).unwrap().wire_bytes, 84);
    assert_eq!(next(&mut port).unwrap().wire_bytes, 1500, "data goes while credits wait");
    assert_eq!(port.dequeue(Instant::ZERO, None), Next::NotBefore(Instant::from_ps(84_000)));
    assert!(matches!(port.dequeue(Instant::from_ps(84_000), None), Next::Packet(_)));
}

/// A shaped queue that is not the first is held back as well, and says when it has tokens once nothing else is queued,
/// also beside queues under DWRR.
#[test]
fn a_later_queue_may_be_shaped() {
    let shaper = ShaperConfig { rate: ShaperRate::Fixed(Rate::from_bits_per_sec(8_000_000_000)), depth_bytes: 84 };
    for scheduler in [SchedulerConfig::Strict, SchedulerConfig::Dwrr { strict: 2, quantum_bytes: 1500 }] {
        let credit = QueueConfig { shaper: Some(shaper), ..QueueConfig::tail_drop("credit", 8) };
        let plan = QueuePlan::per_class(
            alloc::vec![QueueConfig::tail_drop("first", 100), credit, QueueConfig::tail_drop("last", 100)],
            scheduler,
        );
        plan.check().expect("a valid plan");
        let mut port = EgressPort::new(&plan, Rate::from_gbit_per_sec(10), 1, "port");
        enqueue(&mut port, 1, &[84; 2]);
        enqueue(&mut port, 0, &[100]);
        enqueue(&mut port, 2, &[200]);
        assert_eq!(trace(&mut port), "A100 B84 C200");
        assert_eq!(port.dequeue(Instant::ZERO, None), Next::NotBefore(Instant::from_ps(84_000)));
    }
}

#[test]
fn plans_that_cannot_work_are_refused() {
    let queue = QueueConfig::tail_drop("a", 10);
    let shaped = QueueConfig {
        shaper: Some(ShaperConfig { rate: ShaperRate::Fixed(Rate::default()), depth_bytes: 1 }),
        ..queue.clone()
    };
    let dwrr = SchedulerConfig::Dwrr { strict: 0, quantum_bytes: 1500 };
    for (plan, word) in [
        (QueuePlan::per_class(Vec::new(), dwrr), "1 to 32"),
        (QueuePlan::per_class(alloc::vec![queue.clone(), queue.clone()], dwrr), "this name"),
        (QueuePlan::per_class(alloc::vec![shaped], dwrr), "strict"),
        (QueuePlan::single(QueueConfig::tail_drop("a", 0)), "limit"),
        (QueuePlan::single(QueueConfig { weight: 0, ..queue }), "weight"),
    ] {
        let error = alloc::string::ToString::to_string(&plan.check().unwrap_err());
        assert!(error.contains(word), "{error}");
    }
}

#[derive(Clone, Copy, Debug)]
enum Operation {
    Enqueue { class: u8, bytes: u16, red: bool, ect: bool },
    Dequeue,
}

fn operations() -> impl Strategy<Value = Vec<Operation>> {
    let enqueue = (0u8..5, 40u16..1600, any::<bool>(), any::<bool>())
        .prop_map(|(class, bytes, red, ect)| Operation::Enqueue { class, bytes, red, ect });
    proptest::collection::vec(prop_oneof![3 => enqueue, 2 => Just(Operation::Dequeue)], 0..400)
}

fn schedulers() -> impl Strategy<Value = SchedulerConfig> {
    prop_oneof![
        Just(SchedulerConfig::Strict),
        (0u8..3, 100u32..3000).prop_map(|(strict, quantum_bytes)| SchedulerConfig::Dwrr { strict, quantum_bytes }),
        (0u8..3).prop_map(|strict| SchedulerConfig::Wfq { strict }),
    ]
}

/// Limits of each queue in the property below.
const LIMIT_PACKETS: u32 = 12;
const LIMIT_BYTES: u64 = 10_000;
const RED_LIMIT_BYTES: u64 = 4_000;
const BUFFER_BYTES: u64 = 40_000;

fn reserved_bytes(queue: usize) -> u64 {
    queue as u64 * 500
}

/// What a queue holds, counted by the property below.
#[derive(Clone, Copy, Default)]
struct Held {
    packets: u32,
    bytes: u64,
    red_bytes: u64,
}

/// What is to become of a packet, in the order of the steps of admission. The shared buffer (Choudhury and Hahne, alpha =
/// 1/2): what all queues hold beyond their reserves stays within it, and one queue's share within half of what is free.
/// Selective dropping (FlexPass, section 4.1): a red packet within the limit of red ones, whatever green ones hold. The
/// queue's own limits: all that a green packet sees beside the buffer, so that red ones take 4000 bytes from it at most.
fn admission(held: &[Held; 4], queue: usize, bytes: u64, red: bool, shared: bool) -> Admission {
    let pooled = |queue: usize, bytes: u64| bytes.saturating_sub(reserved_bytes(queue));
    let used: u64 = held.iter().enumerate().map(|(queue, held)| pooled(queue, held.bytes)).sum();
    let (before, after) = (pooled(queue, held[queue].bytes), pooled(queue, held[queue].bytes + bytes));
    let free = BUFFER_BYTES - used;
    if shared && after > 0 && (after - before > free || 2 * after > free) {
        Admission::Dropped(DropReason::SharedBuffer)
    } else if red && held[queue].red_bytes + bytes > RED_LIMIT_BYTES {
        Admission::Dropped(DropReason::Colour)
    } else if held[queue].packets == LIMIT_PACKETS || held[queue].bytes + bytes > LIMIT_BYTES {
        Admission::Dropped(DropReason::Tail)
    } else {
        Admission::Queued
    }
}

proptest! {
    /// At every step, per queue: a packet is admitted or refused as the limits say, so that a green one is not dropped
    /// for red ones while it fits; admitted = left + queued, in packets and bytes; red packets never exceed their limit;
    /// packets of one queue leave in order.
    #[test]
    fn packets_and_bytes_are_conserved(scheduler in schedulers(), operations in operations(), shared in any::<bool>()) {
        let queue = |index: u32| QueueConfig {
            weight: index + 1,
            red_limit_bytes: RED_LIMIT_BYTES,
            limit_bytes: LIMIT_BYTES,
            buffer_alpha: 0.5,
            reserved_bytes: reserved_bytes(index as usize),
            ..QueueConfig::tail_drop(&format!("q{index}"), LIMIT_PACKETS)
        };
        let plan = QueuePlan::per_class((0..4).map(queue).collect(), scheduler);
        let mut buffer = shared.then(|| SharedBuffer::new(Bytes(BUFFER_BYTES)));
        let mut port = EgressPort::new(&plan, Rate::from_gbit_per_sec(10), 1, "port");
        let (mut left, mut last_number, mut refused) = ([(0u64, 0u64); 4], [0u64; 4], 0u64);
        let mut held = [Held::default(); 4];
        for (number, operation) in operations.into_iter().enumerate() {
            match operation {
                Operation::Enqueue { class, bytes, red, ect } => {
                    let mut arriving = packet(class, bytes, number as u64 + 1);
                    let ecn = if ect { crate::packet::Ecn::Ect0 } else { crate::packet::Ecn::NotEct };
                    arriving.traffic_class = arriving.traffic_class.with_red(red).with_ecn(ecn);
                    let queue = usize::from(class.min(3));
                    let expected = admission(&held, queue, bytes.into(), red, shared);
                    prop_assert_eq!(port.enqueue(Instant::ZERO, arriving, buffer.as_mut()), expected);
                    if expected == Admission::Queued {
                        held[queue].packets += 1;
                        held[queue].bytes += u64::from(bytes);
                        held[queue].red_bytes += u64::from(bytes) * u64::from(red);
                    } else {
                        refused += 1;
                    }
                }
                Operation::Dequeue => if let Next::Packet(packet) = port.dequeue(Instant::ZERO, buffer.as_mut()) {
                    let queue = packet.traffic_class.class().min(3);
                    left[queue].0 += 1;
                    left[queue].1 += u64::from(packet.wire_bytes);
                    held[queue].packets -= 1;
                    held[queue].bytes -= u64::from(packet.wire_bytes);
                    held[queue].red_bytes -= u64::from(packet.wire_bytes) * u64::from(packet.traffic_class.is_red());
                    let Body::Data { seq, .. } = packet.body() else { unreachable!() };
                    prop_assert!(seq > last_number[queue], "no reordering within a queue");
                    last_number[queue] = seq;
                },
            }
            let mut total = Occupancy::default();
            for ((queue, left), held) in port.queues().zip(left).zip(held) {
                let counters = queue.counters();
                prop_assert_eq!(queue.occupancy(), Occupancy { packets: held.packets, bytes: held.bytes });
                prop_assert_eq!(queue.red_bytes(), held.red_bytes);
                prop_assert_eq!(counters.admitted.packets, left.0 + u64::from(held.packets));
                prop_assert_eq!(counters.admitted.bytes, left.1 + held.bytes);
                prop_assert!(held.packets <= LIMIT_PACKETS && held.bytes <= LIMIT_BYTES);
                prop_assert!(held.red_bytes <= RED_LIMIT_BYTES);
                total.packets += held.packets;
                total.bytes += held.bytes;
            }
            prop_assert_eq!(total, port.occupancy());
            if let Some(buffer) = &buffer {
                prop_assert!(buffer.used() <= total.bytes && buffer.used() <= BUFFER_BYTES);
            }
        }
        let dropped: u64 = port.queues().flat_map(|queue| queue.counters().dropped).map(|tally| tally.packets).sum();
        prop_assert_eq!(dropped, refused);
    }

    /// Backlogged DWRR queues: service per weight differs by at most the quantum and two packets
    /// (Shreedhar and Varghese, theorem 2).
    #[test]
    fn dwrr_is_fair_in_every_interval(sizes in proptest::collection::vec((40u16..1500, 40u16..1500), 400), weight in 1u32..8) {
        let mut port = port(SchedulerConfig::Dwrr { strict: 0, quantum_bytes: 1500 }, &[weight, 1]);
        for &(a, b) in &sizes {
            enqueue(&mut port, 0, &[a]);
            enqueue(&mut port, 1, &[b]);
        }
        let mut served = [0f64; 2];
        for _ in 0..300 {
            let packet = next(&mut port).unwrap();
            served[packet.traffic_class.class()] += f64::from(packet.wire_bytes);
            let gap = served[0] / f64::from(weight) - served[1];
            prop_assert!(gap.abs() <= 1500.0 + 2.0 * 1500.0, "{gap}");
        }
    }

    /// Backlogged SCFQ queues i, j: |S_i/w_i - S_j/w_j| <= L_i/w_i + L_j/w_j.
    #[test]
    fn scfq_is_fair_in_every_interval(sizes in proptest::collection::vec((40u16..1500, 40u16..1500), 300), weight in 1u32..100) {
        let mut port = port(SchedulerConfig::Wfq { strict: 0 }, &[weight, 1]);
        enqueue(&mut port, 0, &sizes.iter().map(|pair| pair.0).collect::<Vec<_>>());
        enqueue(&mut port, 1, &sizes.iter().map(|pair| pair.1).collect::<Vec<_>>());
        let mut served = [0f64; 2];
        for _ in 0..250 {
            if port.queues().any(|queue| queue.occupancy().packets == 0) { break; }
            let packet = next(&mut port).unwrap();
            served[packet.traffic_class.class()] += f64::from(packet.wire_bytes);
            let gap = served[0] / f64::from(weight) - served[1];
            prop_assert!(gap.abs() <= 1500.0 / f64::from(weight) + 1500.0 + 1.0, "{gap}");
        }
    }
}

/// A discipline of another crate costs the others no byte.
#[test]
fn ports_stay_small() {
    assert!(size_of::<PacketQueue>() <= 320, "{}", size_of::<PacketQueue>());
    assert!(size_of::<EgressPort>() <= 184, "{}", size_of::<EgressPort>());
    assert!(size_of::<crate::switch::Link>() <= 384, "{}", size_of::<crate::switch::Link>());
}
