//! The order of a pFabric queue (Alizadeh et al., SIGCOMM 2013, section 4.1).
//!
//! Queues are two bandwidth-delay products deep, some tens of packets, so a search through all costs little.

use alloc::collections::VecDeque;

use crate::packet::Packet;

/// The packet that leaves next: the earliest of the flow whose packet is the most urgent, so that a flow's packets are
/// not reordered and its earliest, which everything else waits for, does not starve.
pub(super) fn next(packets: &VecDeque<Packet>) -> Option<usize> {
    if packets.len() <= 1 {
        return (!packets.is_empty()).then_some(0);
    }
    let to = packets.get(place(ranks(packets, u64::MAX, u64::min)))?.to;
    let (front, back) = packets.as_slices();
    let of_flow = |packet: &Packet| packet.to == to;
    front.iter().position(of_flow).or_else(|| Some(front.len() + back.iter().position(of_flow)?))
}

/// The packet that makes room for an arriving one of `priority`: the least urgent, the latest of several. `None` if that
/// is the arriving one.
pub(super) fn victim(packets: &VecDeque<Packet>, priority: u32) -> Option<usize> {
    let worst = ranks(packets, 0, u64::max);
    (worst >> 32 > u64::from(priority)).then_some(place(worst))
}

/// Folds the packets' ranks: priority and place in one number, so that a search compares without a branch, which no
/// processor could predict.
#[inline(always)]
fn ranks(packets: &VecDeque<Packet>, initial: u64, choose: impl Fn(u64, u64) -> u64) -> u64 {
    let (front, back) = packets.as_slices();
    let (mut chosen, mut index) = (initial, 0);
    for packets in [front, back] {
        for packet in packets {
            chosen = choose(chosen, u64::from(packet.priority()) << 32 | index);
            index += 1;
        }
    }
    chosen
}

#[inline(always)]
fn place(rank: u64) -> usize {
    rank as u32 as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{Body, DataFlags, EndpointId, Side, TrafficClass};
    use crate::switch::queue::DropReason;
    use crate::switch::{Admission, Discipline, EgressPort, Next, QueueConfig, QueuePlan};
    use crate::time::Instant;
    use crate::units::Rate;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    /// Packet `number` of `flow`, which has so much left.
    fn packet(flow: u32, priority: u32, number: u32) -> Packet {
        let body =
            Body::Message { number, message: 0, fragment: 0, length: 1, priority, len: 1, flags: DataFlags::NONE };
        Packet::new(TrafficClass::new(0), 1500, body).to(EndpointId::new(flow, Side::Responder))
    }

    fn port(limit: u32) -> EgressPort {
        let queue = QueueConfig { discipline: Discipline::PFabric, ..QueueConfig::tail_drop("pfabric", limit) };
        let plan = QueuePlan::single(queue);
        plan.check().expect("a valid plan");
        EgressPort::new(&plan, Rate::from_gbit_per_sec(10), 1, "port")
    }

    fn offer(port: &mut EgressPort, packet: Packet) -> Admission {
        port.enqueue(Instant::ZERO, packet, None)
    }

    fn name(packet: &Packet) -> (u32, u32) {
        match packet.body() {
            Body::Message { number, .. } => (packet.to.flow(), number),
            _ => unreachable!("only messages are sent here"),
        }
    }

    fn drained(port: &mut EgressPort) -> Vec<(u32, u32)> {
        let next = || match port.dequeue(Instant::ZERO, None) {
            Next::Packet(packet) => Some(name(&packet)),
            _ => None,
        };
        core::iter::from_fn(next).collect()
    }

    /// The most urgent packet is flow 1's third, and flow 1's earliest goes first: a flow is never reordered.
    #[test]
    fn the_earliest_of_the_most_urgent_flow_leaves() {
        let mut port = port(10);
        for (flow, priority, number) in [(2, 50, 0), (1, 90, 0), (1, 60, 1), (1, 30, 2), (2, 40, 1)] {
            assert_eq!(offer(&mut port, packet(flow, priority, number)), Admission::Queued);
        }
        assert_eq!(drained(&mut port), [(1, 0), (1, 1), (1, 2), (2, 0), (2, 1)]);
    }

    /// A full queue drops the greatest value, the latest of several; the arriving packet if that is it.
    #[test]
    fn the_least_urgent_makes_room() {
        let mut port = port(3);
        for (flow, priority) in [(1, 10), (2, 20), (3, 20)] {
            assert_eq!(offer(&mut port, packet(flow, priority, 0)), Admission::Queued);
        }
        assert_eq!(offer(&mut port, packet(4, 20, 0)), Admission::Dropped(DropReason::Tail), "itself, the latest");
        assert_eq!(port.take_displaced(), None);
        assert_eq!(offer(&mut port, packet(5, 5, 0)), Admission::Displaced);
        assert_eq!(port.take_displaced().as_ref().map(name), Some((3, 0)));
        let counters = port.queues().next().unwrap().counters();
        assert_eq!((counters.admitted.packets, counters.dropped[DropReason::Tail as usize].packets), (3, 2));
        assert_eq!(port.occupancy(), port.queues().next().unwrap().occupancy());
        assert_eq!(drained(&mut port), [(5, 0), (1, 0), (2, 0)]);
    }

    proptest! {
        /// Overloaded, it never drops a packet while a less urgent one stays, loses none and makes none.
        #[test]
        fn what_is_dropped_is_the_worst(offers in proptest::collection::vec((0..5u32, 0..100u32, any::<bool>()), 0..200)) {
            let mut port = port(8);
            let mut held: Vec<(u32, u32)> = Vec::new();
            let priorities: Vec<u32> = offers.iter().map(|offer| offer.1).collect();
            let priority = |&(_, number): &(u32, u32)| priorities[number as usize];
            for (number, &(flow, urgency, leaves)) in (0..).zip(&offers) {
                let admission = offer(&mut port, packet(flow, urgency, number));
                held.push((flow, number));
                let gone = match admission {
                    Admission::Queued => None,
                    Admission::Dropped(_) => held.last().copied(),
                    Admission::Returned => unreachable!("nothing is trimmed here"),
                    Admission::Displaced => port.take_displaced().as_ref().map(name),
                };
                if let Some(gone) = gone {
                    prop_assert!(held.iter().all(|other| priority(other) <= priority(&gone)));
                    held.retain(|other| *other != gone);
                }
                if leaves && let Next::Packet(packet) = port.dequeue(Instant::ZERO, None) {
                    let best = held.iter().map(priority).min();
                    let flow_best = held.iter().filter(|other| other.0 == packet.to.flow()).map(priority).min();
                    prop_assert_eq!(best, flow_best, "it is of the flow with the most urgent packet");
                    held.retain(|other| *other != name(&packet));
                }
                prop_assert_eq!(port.occupancy().packets as usize, held.len());
            }
            let mut left = drained(&mut port);
            left.sort_unstable();
            held.sort_unstable();
            prop_assert_eq!(left, held);
        }
    }
}
