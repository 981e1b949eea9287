//! The switch without sockets.

use pliant_proto::packet::{Ecn, TrafficClass};
use pliant_proto::switch::plan::SchedulerConfig;
use pliant_proto::switch::{QueueConfig, QueuePlan};
use pliant_proto::time::{Instant, Span};
use pliant_proto::units::Rate;
use proptest::prelude::*;

use super::fabric::{FabricConfig, Ingress, LinkConfig, LoadBalancing, NextHop};
use super::faults::FaultConfig;
use super::forwarder::{Departure, FrameMetadata, Switch, SwitchConfig};
use super::forwarding_table::ForwardingTable;

/// One node with `ports` ports whose links have this rate and delay.
fn star(ports: u32, rate: Rate, delay: Span, plan: QueuePlan) -> SwitchConfig {
    let link = |port: u32| LinkConfig {
        hash_turn: 0,
        name: format!("to {port}"),
        owner: 0,
        to: NextHop::Port(port as u16),
        rate,
        delay,
        plan: 0,
    };
    SwitchConfig {
        fabric: FabricConfig {
            plans: vec![plan],
            links: (0..ports).map(link).collect(),
            ingress: vec![Ingress::Node(0); ports as usize],
            routes: vec![(0..ports).map(|port| vec![port]).collect()],
            load_balancing: LoadBalancing::Ecmp,
            seed: 1,
        },
        ports: (0..ports).map(|port| port.to_string()).collect(),
        faults: FaultConfig::default(),
        frames: 64,
        frame_bytes: 256,
        sample_interval: None,
    }
}

fn metadata(destination: u16, class: u8, wire_bytes: u16) -> FrameMetadata {
    let traffic_class = TrafficClass::new(class).with_ecn(Ecn::Ect0);
    FrameMetadata { destination: Some(destination), wire_bytes, traffic_class, flow: 0 }
}

fn at(us: u64) -> Instant {
    Instant::ZERO.after(Span::from_us(us))
}

fn take(switch: &mut Switch, now: Instant, port: u16, metadata: &FrameMetadata, content: &[u8]) {
    switch.port_mut(port).received += 1;
    switch.take(now, port, metadata, content);
}

/// All that is to be sent at `now`, with its content.
fn departures(switch: &mut Switch, now: Instant) -> Vec<(Departure, Vec<u8>)> {
    switch.advance(now);
    let mut all = Vec::new();
    while let Some(departure) = switch.poll_departure(now) {
        all.push((departure, switch.frame(departure.frame).to_vec()));
        switch.recycle(&departure, true);
    }
    all
}

/// 1250 bytes at 100 Mbit/s take 100 us; with 5 us of delay the n-th of a burst leaves at 100 n + 5, whenever the
/// driver comes.
#[test]
fn frames_leave_at_the_plans_rate() {
    let plan = QueuePlan::single(QueueConfig::tail_drop("all", 10));
    let rate = Rate::from_bits_per_sec(100_000_000);
    let mut switch = Switch::new(&star(2, rate, Span::from_us(5), plan));
    for content in 0..3 {
        take(&mut switch, at(0), 0, &metadata(1, 0, 1250), &[content]);
    }
    assert_eq!(switch.next_departure(), Some(at(105)));
    assert_eq!(departures(&mut switch, at(104)).len(), 0);
    let first = departures(&mut switch, at(105));
    assert_eq!(first.len(), 1);
    assert_eq!((first[0].0.source, first[0].0.port, &first[0].1[..]), (0, 1, &[0][..]));
    assert_eq!(switch.next_departure(), Some(at(205)));
    // Late by far: the two others were due at 205 and 305, and all that is said about it is how late they were.
    let rest = departures(&mut switch, at(1000));
    assert_eq!(rest.iter().map(|(_, content)| content[0]).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(switch.lateness().max, Span::from_us(795));
    switch.assert_conserved();
}

/// With 9:1 by deficit round robin, of 100 full frames of two backlogged classes 90 are of the first.
#[test]
fn shares_are_those_of_the_plan() {
    let queue = |name, weight| QueueConfig { weight, ..QueueConfig::tail_drop(name, 200) };
    let scheduler = SchedulerConfig::Dwrr { strict: 0, quantum_bytes: 1538 };
    let plan = QueuePlan::per_class(vec![queue("high", 9), queue("low", 1)], scheduler);
    let config = SwitchConfig { frames: 400, ..star(2, Rate::from_gbit_per_sec(1), Span::ZERO, plan) };
    let mut switch = Switch::new(&config);
    for _ in 0..150 {
        for class in 0..2 {
            take(&mut switch, at(0), 0, &metadata(1, class, 1538), &[class]);
        }
    }
    // 100 frames of 1538 bytes at 1 Gbit/s take 1230.4 us. The first went before the others came.
    let left = departures(&mut switch, at(1230));
    assert_eq!(left.len(), 99);
    let high = left.iter().filter(|(_, content)| content[0] == 0).count();
    assert!((88..=91).contains(&high), "{high}");
}

/// The third of three that find two queued is marked, and the mark is on what leaves.
#[test]
fn marks_leave_with_the_frame() {
    let marker = pliant_proto::switch::marker::MarkerConfig::Threshold(threshold());
    let plan = QueuePlan::single(QueueConfig { marker, ..QueueConfig::tail_drop("all", 10) });
    let mut switch = Switch::new(&star(2, Rate::from_gbit_per_sec(1), Span::ZERO, plan));
    for content in 0..4 {
        take(&mut switch, at(0), 0, &metadata(1, 0, 1250), &[content]);
    }
    let marked: Vec<bool> = departures(&mut switch, at(100))
        .iter()
        .map(|(departure, _)| departure.traffic_class.ecn() == Ecn::Ce)
        .collect();
    // The first is on the wire, the second finds none queued, the third one, the fourth two.
    assert_eq!(marked, [false, false, false, true]);
}

fn threshold() -> pliant_proto::switch::marker::Threshold {
    use pliant_proto::switch::marker::{Level, MarkAt, Scope, Threshold};
    Threshold { level: Level::Packets(2), at: MarkAt::Enqueue, scope: Scope::Queue, pass_not_ect: false }
}

#[test]
fn a_group_frame_goes_to_all_others() {
    let plan = QueuePlan::single(QueueConfig::tail_drop("all", 10));
    let mut switch = Switch::new(&star(4, Rate::from_gbit_per_sec(1), Span::ZERO, plan));
    let arp = FrameMetadata { destination: None, wire_bytes: 84, traffic_class: TrafficClass::default(), flow: 0 };
    take(&mut switch, at(0), 2, &arp, b"who has");
    let mut ports: Vec<u16> = departures(&mut switch, at(10)).iter().map(|(departure, _)| departure.port).collect();
    ports.sort_unstable();
    assert_eq!(ports, [0, 1, 3]);
    switch.assert_conserved();
}

#[test]
fn addresses_are_found() {
    let mut table = ForwardingTable::default();
    assert!(table.add_mac([2, 0, 0, 0, 0, 1], 1) && table.add_ipv4(0x0a00_0002, 2));
    assert!(!table.add_ipv4(0x0a00_0002, 3), "an address has one port");
    assert_eq!(table.find([2, 0, 0, 0, 0, 1], Some(0x0a00_0002)), Some(1), "the station first");
    assert_eq!(table.find([2, 0, 0, 0, 0, 9], Some(0x0a00_0002)), Some(2));
    assert_eq!(table.find([2, 0, 0, 0, 0, 9], Some(1)), None);
    assert_eq!(table.find([2, 0, 0, 0, 0, 9], None), None);
}

/// Queue lengths are those at the time of the look, though the driver came later.
#[test]
fn samples_are_of_their_time() {
    let plan = QueuePlan::single(QueueConfig::tail_drop("all", 10));
    let config = SwitchConfig {
        sample_interval: Some(Span::from_us(10)),
        ..star(2, Rate::from_gbit_per_sec(1), Span::ZERO, plan)
    };
    let mut switch = Switch::new(&config);
    for _ in 0..4 {
        take(&mut switch, at(1), 0, &metadata(1, 0, 1250), &[0]);
    }
    switch.advance(at(45));
    // 10 us each: one on the wire and three queued at 1; one less at 11, 21, 31.
    let lengths: Vec<(Instant, u32)> = switch.take_samples().iter().map(|s| (s.at, s.packets)).collect();
    assert_eq!(lengths, [(at(10), 3), (at(20), 2), (at(30), 1)]);
}

/// Two links in a row, 30 us and 50 us: nothing can leave before the second's delay is over, and the driver sleeps so
/// long; what it then finds left at its time.
#[test]
fn inner_links_wake_nobody() {
    let plan = QueuePlan::single(QueueConfig::tail_drop("all", 10));
    let mut config = star(2, Rate::from_gbit_per_sec(1), Span::from_us(50), plan);
    config.fabric.links.push(LinkConfig {
        hash_turn: 0,
        name: "host 0".to_owned(),
        owner: 1,
        to: NextHop::Node(0),
        rate: Rate::from_gbit_per_sec(1),
        delay: Span::from_us(30),
        plan: 0,
    });
    config.fabric.ingress[0] = Ingress::Link(2);
    let mut switch = Switch::new(&config);
    take(&mut switch, at(0), 0, &metadata(1, 0, 1250), &[7]);
    assert_eq!(switch.next_departure(), Some(at(10 + 30 + 50)));
    assert_eq!(departures(&mut switch, at(90)).len(), 0);
    assert_eq!(switch.next_departure(), Some(at(10 + 30 + 10 + 50)));
    assert_eq!(departures(&mut switch, at(100)).len(), 1);
    assert_eq!(switch.lateness().max, Span::ZERO);
}

#[derive(Clone, Debug)]
struct Step {
    wait_ns: u64,
    port: u16,
    destination: u16,
    class: u8,
    wire_bytes: u16,
    content: usize,
    look: bool,
}

fn step() -> impl Strategy<Value = Step> {
    (0u64..20_000, 0u16..3, 0u16..4, 0u8..3, 84u16..1539, 0usize..300, any::<bool>()).prop_map(
        |(wait_ns, port, destination, class, wire_bytes, content, look)| Step {
            wait_ns,
            port,
            destination,
            class,
            wire_bytes,
            content,
            look,
        },
    )
}

/// Corruption flips one bit of a frame, however short it is, and none in what stands before it: that the kernel reads, and
/// it takes no frame of which it makes no sense.
#[test]
fn corruption_spares_what_is_no_part_of_the_frame() {
    let plan = QueuePlan::single(QueueConfig::tail_drop("all", 1000));
    let mut config = star(2, Rate::from_gbit_per_sec(100), Span::ZERO, plan);
    config.faults = FaultConfig { corrupt: 1.0, ..FaultConfig::default() };
    for spared in [0, 24] {
        let mut switch = Switch::new(&config).sparing(spared);
        let (mut now, mut first) = (Instant::ZERO, usize::MAX);
        for number in 0..4000 {
            let content = vec![0; spared + number % 100];
            take(&mut switch, now, 0, &metadata(1, 0, 84), &content);
            now = now.after(Span::from_us(1));
            let [(_, left)] = &departures(&mut switch, now)[..] else { panic!("one frame leaves") };
            let flipped: u32 = left.iter().map(|byte| byte.count_ones()).sum();
            assert_eq!(flipped, u32::from(content.len() > spared), "{} bytes", content.len());
            first = first.min(left.iter().position(|byte| *byte != 0).unwrap_or(first));
        }
        assert_eq!(first, spared);
    }
}

proptest! {
    /// Whatever arrives, under loss, duplication, corruption and reordering: every frame leaves once, with the content
    /// that it came with unless a bit was flipped, or is counted as refused or lost; and buffers come back.
    #[test]
    fn frames_are_conserved(
        steps in proptest::collection::vec(step(), 1..300),
        loss in 0.0..0.3f64,
        duplicate in 0.0..0.3f64,
        reorder in 0.0..0.3f64,
    ) {
        let queue = |name, weight| QueueConfig { weight, ..QueueConfig::tail_drop(name, 8) };
        let scheduler = SchedulerConfig::Dwrr { strict: 1, quantum_bytes: 1538 };
        let plan = QueuePlan::per_class(vec![queue("a", 1), queue("b", 2), queue("c", 1)], scheduler);
        let mut config = star(3, Rate::from_gbit_per_sec(1), Span::from_us(3), plan);
        // Destination 3 is all others.
        config.faults =
            FaultConfig { loss, duplicate, reorder, reorder_delay: Span::from_us(30), ..FaultConfig::default() };
        let mut switch = Switch::new(&config);
        let (mut now, mut left) = (Instant::ZERO, 0);
        for (number, step) in steps.iter().enumerate() {
            now = now.after(Span::from_ns(step.wait_ns));
            let mut metadata = metadata(step.destination, step.class, step.wire_bytes);
            if step.destination == 3 {
                metadata.destination = None;
            }
            let content: Vec<u8> = (0..step.content).map(|byte| (byte + number) as u8).collect();
            take(&mut switch, now, step.port, &metadata, &content);
            if step.look {
                for (_, content) in departures(&mut switch, now) {
                    left += 1;
                    prop_assert!(content.windows(2).all(|pair| pair[1] == pair[0].wrapping_add(1)));
                }
            }
            switch.assert_conserved();
        }
        left += departures(&mut switch, now.after(Span::from_secs(1))).len() as u64;
        switch.assert_conserved();
        prop_assert_eq!(switch.next_departure(), None);
        let sent: u64 = switch.ports().iter().map(|port| port.sent).sum();
        prop_assert_eq!(sent, left);
    }
}
