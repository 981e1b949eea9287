//! A link against the plain reading of what it does: every decision taken by itself, as soon as it is due.

use super::*;
use crate::packet::{Body, Ecn, EndpointId, PulledFlags, Side, TrafficClass};
use crate::switch::marker::{Level, MarkAt, MarkerConfig, RedConfig, RedUnit, Scope, Threshold};
use crate::switch::plan::{QueueConfig, SchedulerConfig, ShaperConfig, ShaperRate};
use crate::units::Bytes;
use alloc::string::ToString;
use alloc::vec;
use proptest::prelude::*;

const DELAY: Span = Span::from_us(2);

fn ns(ns: u64) -> Instant {
    Instant::ZERO.after(Span::from_ns(ns))
}

fn packet(class: u8, bytes: u16, number: u64) -> Packet {
    let body = Body::Pulled { seq: number, sent_at: Instant::ZERO, len: bytes, flags: PulledFlags::NONE };
    Packet::new(TrafficClass::new(class), bytes, body).to(EndpointId::new(u32::from(class), Side::Responder))
}

/// One event at a time: no packet passes a queue uncounted, none is on the wire before it starts.
struct Plain {
    port: EgressPort,
    serializer: Serializer,
    busy_until: Instant,
    decide_at: Instant,
    wire: VecDeque<(Instant, Packet)>,
}

impl Plain {
    fn new(rate: Rate, plan: &QueuePlan) -> Self {
        let (busy_until, decide_at) = (Instant::ZERO, Instant::ZERO);
        let port = EgressPort::new(plan, rate, 1, "link");
        Self { port, serializer: Serializer::new(rate), busy_until, decide_at, wire: VecDeque::new() }
    }

    fn advance(&mut self, now: Instant, mut shared: Option<&mut SharedBuffer>) {
        while self.decide_at <= now {
            match self.port.dequeue(self.decide_at, shared.as_deref_mut()) {
                Next::Packet(packet) => {
                    self.busy_until = self.decide_at.after(self.serializer.transmit(packet.wire_bytes.into()));
                    self.decide_at = self.busy_until;
                    self.wire.push_back((self.busy_until.after(DELAY), packet));
                }
                Next::NotBefore(later) => self.decide_at = later,
                Next::Empty => return,
            }
        }
    }

    fn enqueue(&mut self, now: Instant, packet: Packet, mut shared: Option<&mut SharedBuffer>) -> Admission {
        self.advance(now, shared.as_deref_mut());
        let admission = self.port.enqueue(now, packet, shared.as_deref_mut());
        if !matches!(admission, Admission::Dropped(_)) && self.busy_until <= now {
            self.decide_at = now;
            self.advance(now, shared);
        }
        admission
    }
}

/// The link with a driver as the simulator has it: arrivals and wake-ups in order of time, nothing else.
struct Driven {
    link: Link,
    wake: Option<Instant>,
    arrived: Vec<(Instant, Packet)>,
}

impl Driven {
    fn run_until(&mut self, until: Instant, mut shared: Option<&mut SharedBuffer>) {
        loop {
            self.wake = self.link.wake_at().or(self.wake);
            let arrival = self.link.next_arrival().filter(|at| *at <= until);
            let wake = self.wake.filter(|at| *at <= until);
            match (arrival, wake) {
                (Some(at), _) if wake.is_none_or(|wake| at <= wake) => {
                    self.arrived.push((at, self.link.take_arrival(at, shared.as_deref_mut())));
                }
                (_, Some(at)) => {
                    self.wake = None;
                    self.link.catch_up(at, shared.as_deref_mut());
                }
                _ => return,
            }
        }
    }
}

fn threshold(level: Level, at: MarkAt, scope: Scope) -> MarkerConfig {
    MarkerConfig::Threshold(Threshold { level, at, scope, pass_not_ect: false })
}

/// One plan for each way that a packet can take through a link; with the bytes of a shared buffer, if it has one.
fn plans() -> Vec<(QueuePlan, Option<u64>)> {
    let queue = |name: &str| QueueConfig::tail_drop(name, 5);
    let three = || vec![queue("a"), QueueConfig { weight: 2, ..queue("b") }, queue("c")];
    let red = RedConfig {
        min: 1.0,
        max: 4.0,
        unit: RedUnit::Packets,
        max_probability: 0.5,
        weight: 1.0,
        gentle: true,
        hard_drop: false,
        mean_packet_time: Span::from_ns(1200),
        spread: false,
        wait: false,
        spares_short: false,
    };
    let averaging = RedConfig { weight: 0.3, spread: true, ..red };
    let credits = |shaper| QueueConfig { shaper: Some(shaper), ..queue("credits") };
    let shaper = ShaperConfig { rate: ShaperRate::Share(0.2), depth_bytes: 2000 };
    let pool = |queues: Vec<QueueConfig>| -> Vec<QueueConfig> {
        queues.into_iter().map(|queue| QueueConfig { reserved_bytes: 1000, ..queue }).collect()
    };
    let dwrr = |strict| SchedulerConfig::Dwrr { strict, quantum_bytes: 1000 };
    let headers = QueueConfig { discipline: Discipline::ReturnToSender, ..QueueConfig::tail_drop("headers", 1) };
    let trim = Discipline::Trim { header_bytes: 64, header_class: 0 };
    let data = QueueConfig { discipline: trim, ..queue("data") };
    let single = |config| QueuePlan::single(config);
    let mark = |marker| QueueConfig { marker, ..queue("a") };
    let limited = QueueConfig { limit_bytes: 6000, red_limit_bytes: 2000, ..queue("a") };
    let of_port = threshold(Level::Packets(3), MarkAt::Dequeue, Scope::Port);
    let plans = [
        (single(mark(threshold(Level::Packets(3), MarkAt::Enqueue, Scope::Queue))), None),
        (single(QueueConfig { marker: threshold(Level::Bytes(3000), MarkAt::Dequeue, Scope::Queue), ..limited }), None),
        (single(mark(threshold(Level::Bytes(1000), MarkAt::Enqueue, Scope::Queue))), None),
        (single(mark(MarkerConfig::Red(red))), None),
        (single(mark(MarkerConfig::Red(averaging))), None),
        (single(pool(three()).remove(0)), Some(4000)),
        (single(credits(shaper)), None),
        (QueuePlan::per_class(vec![queue("a"), credits(shaper)], SchedulerConfig::Strict), None),
        (QueuePlan::per_class(vec![mark(of_port), queue("b")], SchedulerConfig::Strict), None),
        (QueuePlan::per_class(three(), dwrr(1)), None),
        (QueuePlan::per_class(pool(three()), dwrr(0)), Some(6000)),
        (QueuePlan::per_class(three(), SchedulerConfig::Wfq { strict: 1 }), None),
        (QueuePlan::per_class(vec![credits(shaper), queue("b"), queue("c")], dwrr(1)), None),
        (QueuePlan::per_class(vec![headers, data], dwrr(1)), None),
    ];
    for (plan, _) in &plans {
        plan.check().expect("a valid plan");
    }
    plans.into()
}

/// RED's average by hand: weight 1/2, and packets that take a microsecond to send. Of five that come at once the first starts, so
/// that 0, 0, 1, 2 and 3 are queued before them: 0, 0, 0.5, 1.25, 2.125. The last has left after 5 us. One that comes after
/// 7 us finds 2.125 / 4, and being the first, half of that: 0.265625; with the next, which waits behind it, it is
/// 0.1328125, and with a third after 7.5 us 0.56640625. That has left after 10 us; a packet after 13 us finds an eighth,
/// and halves it: 0.035400390625.
///
/// With min = max the packet is marked from that average on, so thresholds on both sides of it tell it.
#[test]
fn red_is_idle_from_the_end_of_the_last_packet_on() {
    let averages = [0.0, 0.0, 0.5, 1.25, 2.125, 0.265625, 0.1328125, 0.56640625, 0.035400390625];
    let at = [0, 0, 0, 0, 0, 7000, 7000, 7500, 13_000];
    let marked = |others: u32, threshold: f64| -> Vec<bool> {
        let red = RedConfig {
            min: threshold,
            max: threshold,
            unit: RedUnit::Packets,
            max_probability: 1.0,
            weight: 0.5,
            gentle: false,
            hard_drop: false,
            mean_packet_time: Span::from_us(1),
            spread: true,
            wait: false,
            spares_short: false,
        };
        let queue = QueueConfig { marker: MarkerConfig::Red(red), ..QueueConfig::tail_drop("red", 10) };
        let mut queues = vec![queue];
        queues.extend((0..others).map(|_| QueueConfig::tail_drop("other", 10)));
        let plan = QueuePlan::per_class(queues, SchedulerConfig::Strict);
        let mut driven = Driven {
            link: Link::new(Rate::from_gbit_per_sec(10), DELAY, 0, &plan, 1, "link"),
            wake: None,
            arrived: Vec::new(),
        };
        for (number, at) in at.into_iter().enumerate() {
            driven.run_until(ns(at), None);
            let mut packet = packet(0, 1250, number as u64);
            packet.traffic_class = packet.traffic_class.with_ecn(Ecn::Ect0);
            assert_eq!(driven.link.enqueue(ns(at), &packet, None), Admission::Queued);
        }
        driven.run_until(ns(1_000_000), None);
        driven.arrived.iter().map(|(_, packet)| packet.traffic_class.ecn() == Ecn::Ce).collect()
    };
    for (number, average) in averages.into_iter().enumerate() {
        for others in [0, 1] {
            assert!(marked(others, average + 1e-9).get(number) == Some(&false), "packet {number}, less");
            let above = average - 1e-9;
            assert!(above < 0.0 || marked(others, above).get(number) == Some(&true), "packet {number}, more");
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Step {
    /// Nanoseconds since the step before.
    after: u64,
    class: u8,
    bytes: u16,
    red: bool,
    ecn: Ecn,
    /// The link is looked at beforehand; nothing may depend on it.
    look: bool,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let after = prop_oneof![3 => 0..100u64, 2 => 0..3000u64, 1 => 0..30_000u64];
    let ecn = prop_oneof![Just(Ecn::Ect0), Just(Ecn::NotEct)];
    let step = (after, 0u8..3, 64u16..1600, any::<bool>(), ecn, any::<bool>())
        .prop_map(|(after, class, bytes, red, ecn, look)| Step { after, class, bytes, red, ecn, look });
    proptest::collection::vec(step, 1..120)
}

proptest! {
    /// Whatever the plan, the rate and the traffic: the same packets are refused, displaced and marked, the same arrive at
    /// the same times, and between them the same is queued and counted, however rarely the link is looked at.
    #[test]
    fn late_decisions_are_those_taken_in_time(
        plan in 0..plans().len(),
        gbit_per_sec in prop_oneof![Just(10u64), Just(3)],
        steps in steps(),
    ) {
        let (plan, pool) = plans().swap_remove(plan);
        let rate = Rate::from_gbit_per_sec(gbit_per_sec);
        let mut pools = [pool, pool].map(|bytes| bytes.map(|bytes| SharedBuffer::new(Bytes(bytes))));
        let [own, other] = &mut pools;
        let mut plain = Plain::new(rate, &plan);
        let mut driven = Driven { link: Link::new(rate, DELAY, 7, &plan, 1, "link"), wake: None, arrived: Vec::new() };
        let (mut now, mut arrived) = (Instant::ZERO, Vec::new());
        for (number, step) in (0..).zip(&steps) {
            now = now.after(Span::from_ns(step.after));
            driven.run_until(now, own.as_mut());
            plain.advance(now, other.as_mut());
            while plain.wire.front().is_some_and(|(at, _)| *at <= now) {
                arrived.extend(plain.wire.pop_front());
            }
            prop_assert_eq!(&driven.arrived, &arrived);
            if step.look {
                driven.link.catch_up(now, own.as_mut());
                let (link, port) = (&driven.link, &plain.port);
                let queued: Vec<Occupancy> = port.queues().map(Queue::occupancy).collect();
                prop_assert_eq!(link.occupancies(), queued);
                prop_assert_eq!(link.counters(), port.counters().collect::<Vec<_>>());
                prop_assert_eq!(link.in_flight(), u64::from(port.occupancy().packets) + plain.wire.len() as u64);
                if let Some((at, _)) = plain.wire.front() {
                    prop_assert_eq!(link.next_arrival(), Some(*at));
                }
                link.assert_conserved(|| "link".to_string());
                prop_assert_eq!(own.as_ref().map(SharedBuffer::used), other.as_ref().map(SharedBuffer::used));
            }
            let mut packet = packet(step.class, step.bytes, number);
            packet.traffic_class = packet.traffic_class.with_red(step.red).with_ecn(step.ecn);
            let admission = driven.link.enqueue(now, &packet, own.as_mut());
            prop_assert_eq!(admission, plain.enqueue(now, packet, other.as_mut()));
            if matches!(admission, Admission::Displaced | Admission::Returned) {
                let displaced = driven.link.take_displaced();
                prop_assert!(displaced.is_some());
                prop_assert_eq!(displaced, plain.port.take_displaced());
            }
        }
        let end = now.after(Span::from_ms(1));
        driven.run_until(end, own.as_mut());
        plain.advance(end, other.as_mut());
        arrived.extend(plain.wire);
        prop_assert_eq!(&driven.arrived, &arrived);
        prop_assert_eq!((driven.link.in_flight(), driven.link.arrived().packets), (0, arrived.len() as u64));
        let bytes: u64 = arrived.iter().map(|(_, packet)| u64::from(packet.wire_bytes)).sum();
        prop_assert_eq!(driven.link.arrived().bytes, bytes);
        driven.link.assert_conserved(|| "link".to_string());
    }
}

/// A device FIFO of two packets behind strict priority: when the urgent packet comes, A is on the wire and B and C have
/// been taken, so it waits for both and passes D only. 1500 bytes take 1200 ns at 10 Gbit/s.
#[test]
fn a_device_fifo_is_delay_that_priority_cannot_pass() {
    let queues = vec![QueueConfig::tail_drop("urgent", 10), QueueConfig::tail_drop("other", 10)];
    let plan = QueuePlan { device_fifo_packets: 2, ..QueuePlan::per_class(queues, SchedulerConfig::Strict) };
    let mut link = Link::new(Rate::from_gbit_per_sec(10), DELAY, 7, &plan, 1, "link");
    for number in 0..4 {
        assert_eq!(link.enqueue(ns(0), &packet(1, 1500, number), None), Admission::Queued);
    }
    assert_eq!(link.device_bytes(ns(0)), 3000);
    link.enqueue(ns(1000), &packet(0, 1500, 4), None);
    assert_eq!(link.occupancies().iter().map(|queue| queue.packets).collect::<Vec<_>>(), [1, 1]);
    // B has started: the urgent packet has taken its place.
    link.catch_up(ns(1200), None);
    assert_eq!((link.device_bytes(ns(1200)), link.in_flight()), (3000, 5));
    let mut left = Vec::new();
    while let Some(at) = link.next_arrival() {
        let Body::Pulled { seq, .. } = link.take_arrival(at, None).body() else { unreachable!() };
        left.push((seq, at));
    }
    let expected = [(0, 1), (1, 2), (2, 3), (4, 4), (3, 5)].map(|(seq, place)| (seq, ns(place * 1200).after(DELAY)));
    assert_eq!(left, expected);
    assert_eq!(link.device_bytes(ns(6000)), 0);
    // Two wait behind the first of three, one when the second starts.
    (0..3).for_each(|number| _ = link.enqueue(ns(9000), &packet(1, 1500, number), None));
    assert_eq!((link.device_bytes(ns(9000)), link.device_bytes(ns(10_200))), (3000, 1500));
    // Of one packet only: nothing is taken ahead of the one that waits for the link.
    let mut link =
        Link::new(Rate::from_gbit_per_sec(10), DELAY, 7, &QueuePlan { device_fifo_packets: 1, ..plan }, 1, "link");
    (0..4).for_each(|number| _ = link.enqueue(ns(0), &packet(1, 1500, number), None));
    assert_eq!((link.device_bytes(ns(0)), link.occupancies()[1].packets), (1500, 2));
}

/// A queue that waits for tokens on an idle wire asks to be woken, once; not while something is on the wire, whose arrival
/// wakes it, nor when nothing is queued. Tokens for 100 bytes come in 100 ns; a wire of 10 Gbit/s is free long before.
#[test]
fn a_wait_for_tokens_is_told_once() {
    let shaper = ShaperConfig { rate: ShaperRate::Fixed(Rate::from_gbit_per_sec(8)), depth_bytes: 100 };
    let plan = QueuePlan::single(QueueConfig { shaper: Some(shaper), ..QueueConfig::tail_drop("credits", 10) });
    let mut link = Link::new(Rate::from_gbit_per_sec(10), Span::from_ns(5), 7, &plan, 1, "link");
    assert_eq!((link.to(), link.wake_at()), (7, None));
    for number in 0..2 {
        link.enqueue(ns(0), &packet(0, 100, number), None);
    }
    assert_eq!(link.wake_at(), None, "the first is on the wire");
    link.take_arrival(ns(85), None);
    assert_eq!((link.wake_at(), link.wake_at()), (Some(ns(100)), None));
    link.catch_up(ns(99), None);
    assert_eq!(link.next_arrival(), None);
    link.catch_up(ns(100), None);
    assert_eq!(link.next_arrival(), Some(ns(185)));
    link.take_arrival(ns(185), None);
    assert_eq!(link.wake_at(), None, "nothing is queued");
}

/// A link that shares a buffer says whether a packet has room: with alpha = 1 while the queue with it holds no more than
/// what is free. Known for one queue and for several.
#[test]
fn room_in_a_shared_buffer_is_told() {
    let queues = || vec![QueueConfig::tail_drop("a", 10), QueueConfig::tail_drop("b", 10)];
    for plan in [QueuePlan::single(queues().remove(0)), QueuePlan::per_class(queues(), SchedulerConfig::Strict)] {
        let mut pool = SharedBuffer::new(Bytes(3000));
        let mut link = Link::new(Rate::from_gbit_per_sec(10), DELAY, 7, &plan, 1, "link");
        assert!(link.fits_shared(&packet(0, 1500, 0), &pool));
        (0..2).for_each(|number| _ = link.enqueue(ns(0), &packet(0, 1000, number), Some(&mut pool)));
        assert_eq!((pool.used(), link.in_flight()), (1000, 2), "the first is on the wire");
        assert!(link.fits_shared(&packet(0, 1000, 2), &pool));
        assert!(!link.fits_shared(&packet(0, 1001, 2), &pool));
    }
}

/// The check of conservation can fail: by a packet and by a byte.
#[test]
fn what_is_not_conserved_is_noticed() {
    let plan = QueuePlan::single(QueueConfig::tail_drop("a", 10));
    let with = |arrived: Tally| {
        let mut link = Link::new(Rate::from_gbit_per_sec(10), DELAY, 7, &plan, 1, "link");
        (0..3).for_each(|number| _ = link.enqueue(ns(0), &packet(0, 1000, number), None));
        link.take_arrival(link.next_arrival().expect("on the wire"), None);
        link.arrived = arrived;
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| link.assert_conserved(|| "the link".to_string())))
            .is_ok()
    };
    let whole = Tally { packets: 1, bytes: 1000 };
    assert!(with(whole));
    assert!(!with(Tally { packets: 0, ..whole }) && !with(Tally { bytes: 999, ..whole }));
}

/// A packet that finds the link idle starts within the jitter, at a time of its own; one behind it follows without a
/// gap.
#[test]
fn jitter_is_of_idle_links_only() {
    let most = Span::from_us(10);
    let plan = QueuePlan { jitter: most, ..QueuePlan::single(QueueConfig::tail_drop("only", 10)) };
    let mut link = Link::new(Rate::from_gbit_per_sec(1), Span::from_us(5), 0, &plan, 1, "link");
    let packet = packet(0, 1250, 0);
    let mut delays = Vec::new();
    for round in 1..=1000 {
        let now = Instant::ZERO.after(Span::from_ms(round));
        for _ in 0..2 {
            assert_eq!(link.enqueue(now, &packet, None), Admission::Queued);
        }
        let first = link.next_arrival().expect("it is on the wire");
        delays.push(first.since(now.after(Span::from_us(10 + 5))));
        link.take_arrival(first, None);
        let second = first.after(Span::from_us(10));
        link.catch_up(second, None);
        assert_eq!(link.next_arrival(), Some(second), "back to back");
        link.take_arrival(second, None);
    }
    assert!(delays.iter().all(|delay| *delay <= most));
    let mean = delays.iter().map(|delay| delay.as_secs_f64()).sum::<f64>() / 1000.0;
    assert!((4.5e-6..5.5e-6).contains(&mean), "a uniform draw has a mean of 5 us: {mean}");
    link.assert_conserved(|| "link".into());
}
