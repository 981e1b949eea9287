//! What ports that trim need beside their queues (NDP: Handley et al., SIGCOMM 2017, section 3.1).

use alloc::boxed::Box;
use alloc::vec;

use crate::rng::Stream;

/// The coin of a port that trims, and what it counts per queue.
#[derive(Clone, Debug)]
pub(super) struct Trimmer {
    pub(super) stream: Stream,
    pub(super) trimmed: Box<[u64]>,
    pub(super) returned: Box<[u64]>,
}

impl Trimmer {
    pub(super) fn new(queues: usize, stream: Stream) -> Self {
        Self { stream, trimmed: vec![0; queues].into(), returned: vec![0; queues].into() }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use crate::packet::{Body, DataFlags, EndpointId, Packet, PulledFlags, Side, TrafficClass};
    use crate::switch::plan::SchedulerConfig;
    use crate::switch::queue::Occupancy;
    use crate::switch::{Admission, Discipline, EgressPort, Next, QueueConfig, QueuePlan};
    use crate::time::Instant;
    use crate::units::Rate;

    const HEADERS: u8 = 31;
    /// Headers that fit beside 8 packets of 1500 bytes: 8 * 1500 / 64, rounded up.
    const HEADERS_MAX: u32 = 188;

    /// NDP's port: a header queue of weight 10 headers before a data queue of 8 packets.
    fn port(seed: u64) -> EgressPort {
        let headers = QueueConfig {
            discipline: Discipline::ReturnToSender,
            weight: 10 * 64,
            ..QueueConfig::tail_drop("headers", HEADERS_MAX)
        };
        let discipline = Discipline::Trim { header_bytes: 64, header_class: HEADERS };
        let data = QueueConfig { discipline, weight: 1500, ..QueueConfig::tail_drop("data", 8) };
        let scheduler = SchedulerConfig::Dwrr { strict: 0, quantum_bytes: 1 };
        let mut plan = QueuePlan::per_class([headers, data].into(), scheduler);
        plan.queue_of_class = core::array::from_fn(|class| u8::from(class != usize::from(HEADERS)));
        plan.check().expect("a valid plan");
        EgressPort::new(&plan, Rate::from_gbit_per_sec(10), seed, "port")
    }

    fn packet(number: u64) -> Packet {
        let body = Body::Pulled { seq: number, sent_at: Instant::ZERO, len: 1460, flags: PulledFlags::NONE };
        Packet::new(TrafficClass::new(0), 1500, body).to(EndpointId::new(3, Side::Responder))
    }

    fn offer(port: &mut EgressPort, packet: Packet) -> Admission {
        port.enqueue(Instant::ZERO, packet, None)
    }

    fn next(port: &mut EgressPort) -> Option<Packet> {
        match port.dequeue(Instant::ZERO, None) {
            Next::Packet(packet) => Some(packet),
            _ => None,
        }
    }

    /// Number of a packet, and whether it was trimmed.
    fn name(packet: &Packet) -> (u64, bool) {
        let Body::Pulled { seq, flags, .. } = packet.body() else { panic!("{packet:?} is no data") };
        assert_eq!(packet.wire_bytes, if flags.contains(PulledFlags::TRIMMED) { 64 } else { 1500 });
        assert_eq!(packet.traffic_class.class() == usize::from(HEADERS), flags.contains(PulledFlags::TRIMMED));
        (seq, flags.contains(PulledFlags::TRIMMED))
    }

    /// Eight packets stay whole; each further one makes a header of itself or of the last one, with equal probability.
    #[test]
    fn a_full_queue_makes_headers() {
        let (mut own, rounds) = (0, 2000);
        for seed in 0..rounds {
            let mut port = port(seed);
            for number in 0..9 {
                assert_eq!(offer(&mut port, packet(number)), Admission::Queued);
            }
            let left: Vec<(u64, bool)> = core::iter::from_fn(|| next(&mut port).as_ref().map(name)).collect();
            let header = left.iter().find(|(_, trimmed)| *trimmed).expect("one was trimmed").0;
            assert!(header == 7 || header == 8, "{header}");
            own += u64::from(header == 8);
            let whole: Vec<u64> = left.iter().filter(|(_, trimmed)| !trimmed).map(|(number, _)| *number).collect();
            assert_eq!(whole, (0..9).filter(|number| *number != header).collect::<Vec<_>>());
            let counters: Vec<_> = port.counters().collect();
            assert_eq!((counters[0].admitted.packets, counters[1].admitted.packets), (1, 8));
            assert_eq!((counters[1].trimmed_packets, counters[0].returned_packets), (1, 0));
        }
        let share = own as f64 / rounds as f64;
        assert!((share - 0.5).abs() < 0.04, "{share} of the arriving packets");
    }

    /// Ten headers go before each data packet while both wait.
    #[test]
    fn ten_headers_per_packet() {
        let mut port = port(1);
        for number in 0..50 {
            offer(&mut port, packet(number));
        }
        let order: Vec<bool> = core::iter::from_fn(|| next(&mut port)).map(|packet| name(&packet).1).collect();
        let runs: Vec<usize> = order.split(|trimmed| !trimmed).map(<[bool]>::len).collect();
        assert_eq!(order.len(), 50);
        // The data queue was the first to hold something.
        assert_eq!(runs[..6], [0, 10, 10, 10, 10, 2]);
    }

    /// Nothing is lost while 188 headers fit; the next goes back to its sender, and one that has been there is dropped.
    #[test]
    fn the_header_too_many_goes_back() {
        let mut port = port(1);
        for number in 0..u64::from(8 + HEADERS_MAX) {
            assert_eq!(offer(&mut port, packet(number)), Admission::Queued);
        }
        assert_eq!(offer(&mut port, packet(1000)), Admission::Returned);
        let mut back = port.take_displaced().expect("it goes back");
        assert!(back.is_returnable());
        back.turn_back(4);
        assert!(!back.is_returnable() && back.to.side() == Side::Initiator && back.hops == 4);
        assert!(matches!(offer(&mut port, back), Admission::Dropped(_)));
        assert_eq!(port.counters().next().map(|headers| headers.returned_packets), Some(1));
    }

    /// Others than pulled data are not trimmed but dropped.
    #[test]
    fn others_are_dropped() {
        let mut port = port(1);
        for number in 0..8 {
            offer(&mut port, packet(number));
        }
        let body = Body::Data { seq: 0, sent_at: Instant::ZERO, len: 1460, flags: DataFlags::NONE };
        let other = Packet::new(TrafficClass::new(0), 1500, body).to(EndpointId::new(4, Side::Responder));
        assert!(matches!(offer(&mut port, other), Admission::Dropped(_)));
    }

    /// The last packet queued is trimmed only if it can be: behind one that cannot, the arriving packet always is.
    #[test]
    fn others_stay_whole() {
        for seed in 0..50 {
            let mut port = port(seed);
            (0..7).for_each(|number| _ = offer(&mut port, packet(number)));
            let body = Body::Data { seq: 0, sent_at: Instant::ZERO, len: 1460, flags: DataFlags::NONE };
            let other = Packet::new(TrafficClass::new(0), 1500, body).to(EndpointId::new(4, Side::Responder));
            assert_eq!((offer(&mut port, other), offer(&mut port, packet(8))), (Admission::Queued, Admission::Queued));
            let mut left: Vec<Packet> = core::iter::from_fn(|| next(&mut port)).collect();
            left.retain(Packet::is_returnable);
            assert_eq!(left.iter().map(name).collect::<Vec<_>>(), [(8, true)], "seed {seed}");
        }
    }

    proptest! {
        /// Under any load every packet offered leaves once, whole or as a header, or goes back; none is dropped, and what
        /// the queues count is what they hold.
        #[test]
        fn nothing_is_lost(steps in prop::collection::vec((0..20u64, 0..12u64), 1..60), seed: u64) {
            let mut port = port(seed);
            let (mut offered, mut seen) = (0, Vec::new());
            for (arrivals, departures) in steps {
                for _ in 0..arrivals {
                    match offer(&mut port, packet(offered)) {
                        Admission::Queued => {}
                        Admission::Returned => seen.push(name(&port.take_displaced().unwrap()).0),
                        other => prop_assert!(false, "{:?}", other),
                    }
                    offered += 1;
                }
                seen.extend((0..departures).map_while(|_| next(&mut port)).map(|packet| name(&packet).0));
                let held: u32 = port.queues().map(|queue| queue.occupancy().packets).sum();
                prop_assert_eq!(held, port.occupancy().packets);
                prop_assert!(port.queues().nth(1).unwrap().occupancy().packets <= 8);
            }
            seen.extend(core::iter::from_fn(|| next(&mut port)).map(|packet| name(&packet).0));
            prop_assert_eq!(port.occupancy(), Occupancy::default());
            seen.sort_unstable();
            prop_assert_eq!(seen, (0..offered).collect::<Vec<_>>());
        }
    }
}
