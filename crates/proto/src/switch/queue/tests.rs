//! One queue's limits and counts, at their ends.

use super::*;
use crate::packet::{Body, DataFlags, TrafficClass};
use crate::switch::marker::{Level, MarkAt, MarkerConfig, Scope, Threshold};
use crate::time::Span;
use crate::units::{Bytes, Rate};

fn packet(bytes: u16) -> Packet {
    let body = Body::Data { seq: 0, sent_at: Instant::ZERO, len: bytes, flags: DataFlags::NONE };
    Packet::new(TrafficClass::new(0).with_ecn(Ecn::Ect0), bytes, body)
}

fn red(bytes: u16) -> Packet {
    let mut packet = packet(bytes);
    packet.traffic_class = packet.traffic_class.with_red(true);
    packet
}

fn queue(config: &QueueConfig) -> Queue {
    Queue::new(config, Rate::from_gbit_per_sec(10), || unreachable!("no marker here draws"))
}

fn admit(queue: &mut Queue, packet: Packet) -> Admission {
    queue.admit(Instant::ZERO, &mut { packet }, queue.occupancy(), None)
}

/// Every reason has a name of its own, which files use.
#[test]
fn reasons_have_names() {
    assert_eq!(DropReason::ALL.map(DropReason::name), ["tail", "colour", "shared_buffer", "early", "loss"]);
}

/// Packets and bytes fit up to the limits and not beyond; what left makes room.
#[test]
fn limits_hold_to_the_byte() {
    let mut held = queue(&QueueConfig { limit_bytes: 3000, ..QueueConfig::tail_drop("a", 3) });
    assert_eq!(admit(&mut held, packet(1500)), Admission::Queued);
    assert_eq!(admit(&mut held, packet(1501)), Admission::Dropped(DropReason::Tail));
    assert_eq!(admit(&mut held, packet(1500)), Admission::Queued);
    assert_eq!(admit(&mut held, packet(1)), Admission::Dropped(DropReason::Tail));
    held.release(Instant::ZERO, &mut packet(1500), held.occupancy(), None);
    assert_eq!((admit(&mut held, packet(100)), admit(&mut held, packet(100))), (Admission::Queued, Admission::Queued));
    assert_eq!(admit(&mut held, packet(100)), Admission::Dropped(DropReason::Tail), "three packets");
    let counters = held.counters();
    assert_eq!(counters.admitted, Tally { packets: 4, bytes: 3200 });
    assert_eq!(counters.dropped[DropReason::Tail as usize], Tally { packets: 3, bytes: 1602 });
    assert_eq!((counters.max_packets, held.occupancy()), (3, Occupancy { packets: 3, bytes: 1700 }));
}

/// A limit in time is one in bytes at its link, here 10 Gbit/s: 2.4 us are 3000 bytes. The least limit holds.
#[test]
fn a_limit_in_time_is_one_in_bytes() {
    let config = QueueConfig { limit_time: Some(Span::from_ns(2400)), ..QueueConfig::tail_drop("a", 3) };
    assert_eq!(config.bytes_at(Rate::from_gbit_per_sec(1)), 300);
    for (limit_bytes, room) in [(u64::MAX, 3000), (2000, 2000), (4000, 3000)] {
        let mut held = queue(&QueueConfig { limit_bytes, ..config.clone() });
        assert_eq!(admit(&mut held, packet(1000)), Admission::Queued);
        assert_eq!(admit(&mut held, packet(room - 999)), Admission::Dropped(DropReason::Tail));
        assert_eq!(admit(&mut held, packet(room - 1000)), Admission::Queued);
    }
}

/// Selective dropping: red packets up to their own limit, whatever green ones hold.
#[test]
fn red_packets_have_their_own_limit() {
    let mut held = queue(&QueueConfig { red_limit_bytes: 2000, ..QueueConfig::tail_drop("a", 10) });
    assert_eq!(admit(&mut held, packet(9000)), Admission::Queued);
    assert_eq!((admit(&mut held, red(1500)), admit(&mut held, red(500))), (Admission::Queued, Admission::Queued));
    assert_eq!(held.red_bytes(), 2000);
    assert_eq!(admit(&mut held, red(1)), Admission::Dropped(DropReason::Colour));
    assert_eq!(admit(&mut held, packet(1)), Admission::Queued);
    held.release(Instant::ZERO, &mut packet(9000), held.occupancy(), None);
    assert_eq!(held.red_bytes(), 2000, "a green packet left");
    held.release(Instant::ZERO, &mut red(1500), held.occupancy(), None);
    assert_eq!((held.red_bytes(), admit(&mut held, red(1500))), (500, Admission::Queued));
    held.displace(&red(1500));
    assert_eq!(held.red_bytes(), 500, "displaced like left");
    held.displace(&packet(1));
    assert_eq!((held.red_bytes(), held.occupancy()), (500, Occupancy { packets: 1, bytes: 500 }));
    assert_eq!(held.counters().admitted, Tally { packets: 3, bytes: 11_000 });
    let mut without = queue(&QueueConfig::tail_drop("a", 10));
    admit(&mut without, red(1500));
    assert_eq!(without.red_bytes(), 0, "counted only where they are limited");
}

/// A packet takes the place of another if without that one there is room for it.
#[test]
fn another_packet_may_make_room() {
    let mut held = queue(&QueueConfig { limit_bytes: 3000, ..QueueConfig::tail_drop("a", 2) });
    admit(&mut held, packet(1500));
    admit(&mut held, packet(1000));
    assert!(!held.fits(1) && held.fits_in_place_of(1500, 1000) && held.fits_in_place_of(2000, 1500));
    assert!(!held.fits_in_place_of(1501, 1000) && !held.fits_in_place_of(2001, 1500));
}

/// A port's threshold judges what leaves by what is left in all queues: the packet itself no longer counts. Three packets
/// here and two elsewhere, at most three behind: the third to leave is the first unmarked.
#[test]
fn a_departure_is_judged_by_what_it_leaves_behind() {
    for (level, marks) in [(Level::Packets(3), [true, true, false]), (Level::Bytes(2999), [true, true, false])] {
        let threshold = Threshold { level, at: MarkAt::Dequeue, scope: Scope::Port, pass_not_ect: false };
        let marker = MarkerConfig::Threshold(threshold);
        let mut held = queue(&QueueConfig { marker, ..QueueConfig::tail_drop("a", 10) });
        (0..3).for_each(|_| _ = admit(&mut held, packet(1000)));
        for (left, marked) in (1..).zip(marks) {
            let mut packet = packet(1000);
            let own = held.occupancy();
            let port = Occupancy { packets: own.packets + 2, bytes: own.bytes + 2000 - u64::from(left == 3) };
            held.release(Instant::ZERO, &mut packet, port, None);
            assert_eq!(packet.traffic_class.ecn() == Ecn::Ce, marked, "{level:?}, number {left}");
        }
        assert_eq!(held.counters().marked_packets, 2);
    }
}

/// Packets that pass an empty port are counted; those with which a limit, a marker or a shared buffer might have to do
/// something are not let through.
#[test]
fn only_what_nothing_objects_to_passes() {
    let mut held = queue(&QueueConfig { limit_bytes: 1500, ..QueueConfig::tail_drop("a", 1) });
    assert!(held.pass_through(&packet(1500), None) && !held.pass_through(&packet(1501), None));
    assert_eq!((held.counters().admitted, held.counters().max_packets), (Tally { packets: 1, bytes: 1500 }, 1));
    assert_eq!(held.occupancy(), Occupancy::default());
    let full = SharedBuffer::new(Bytes(1000));
    assert!(!held.pass_through(&packet(1001), Some(&full)) && held.pass_through(&packet(500), Some(&full)));
    assert!(!queue(&QueueConfig { limit_packets: 0, ..QueueConfig::tail_drop("a", 1) }).pass_through(&packet(1), None));
}
