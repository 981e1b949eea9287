//! Speed of the software switch, in packets per CPU-second: `bench/switch.sh` puts its parts together.
//!
//! `switch_speed ethernet IN OUT SECONDS`: forwards between two interfaces with two queues under 9:1.
//! `switch_speed repeater IN OUT SECONDS`: passes frames on between two interfaces, and nothing else: the kernel's part.
//! `switch_speed relay SECONDS`: the same between two hosts on loopback.
//! `switch_speed blast FROM TO SECONDS`: sends datagrams of 1472 bytes as fast as it can.
//! `switch_speed sink AT SECONDS`: receives them.

use std::net::{SocketAddrV4, UdpSocket};
use std::time::Duration;

use pliant_net::clock::SharedClock;
use pliant_net::socket::{Batch, Socket};
use pliant_net::switch::ethernet::{EthernetConfig, EthernetSwitch, Mode};
use pliant_net::switch::forwarder::{DEFAULT_FRAMES, Switch};
use pliant_net::switch::frame::PLIANT_CLASSES;
use pliant_net::switch::relay::{Relay, RelayConfig, RelayPort};
use pliant_net::switch::repeater::Repeater;
use pliant_net::switch::{
    FabricConfig, FaultConfig, ForwardingTable, Ingress, LinkConfig, LoadBalancing, NextHop, SwitchConfig, WireSize,
};
use pliant_proto::packet::TrafficClass;
use pliant_proto::switch::plan::SchedulerConfig;
use pliant_proto::switch::{QueueConfig, QueuePlan};
use pliant_proto::time::{Instant, Span};
use pliant_proto::units::Rate;
use rustix::time::{ClockId, clock_gettime};

/// Payload of a full Ethernet frame: 1514 bytes with its headers.
const PAYLOAD: usize = 1472;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["ethernet", input, output, seconds] => ethernet(input, output, seconds.parse().expect("seconds")),
        ["repeater", input, output, seconds] => repeater([input, output], seconds.parse().expect("seconds")),
        ["relay", seconds] => relay(seconds.parse().expect("seconds")),
        ["blast", from, to, seconds] => blast(from, to, seconds.parse().expect("seconds")),
        ["sink", at, seconds] => sink(at, seconds.parse().expect("seconds")),
        _ => panic!("see the head of switch_speed.rs"),
    }
}

fn config(ports: [&str; 2]) -> SwitchConfig {
    let queue = |name, weight| QueueConfig { weight, ..QueueConfig::tail_drop(name, 4096) };
    let scheduler = SchedulerConfig::Dwrr { strict: 0, quantum_bytes: 1538 };
    let plan = QueuePlan::per_class(vec![queue("high", 9), queue("low", 1)], scheduler);
    let link = |port: u16| LinkConfig {
        hash_turn: 0,
        name: ports[usize::from(port)].to_owned(),
        owner: 0,
        to: NextHop::Port(port),
        rate: Rate::from_gbit_per_sec(100),
        delay: Span::ZERO,
        plan: 0,
    };
    SwitchConfig {
        fabric: FabricConfig {
            plans: vec![plan],
            links: vec![link(0), link(1)],
            ingress: vec![Ingress::Node(0); 2],
            routes: vec![vec![vec![0], vec![1]]],
            load_balancing: LoadBalancing::Ecmp,
            seed: 1,
        },
        ports: ports.map(str::to_owned).to_vec(),
        faults: FaultConfig::default(),
        frames: DEFAULT_FRAMES,
        frame_bytes: 2048,
        sample_interval: None,
    }
}

/// Processor time of this thread in seconds.
fn cpu() -> f64 {
    let spent = clock_gettime(ClockId::ThreadCPUTime);
    spent.tv_sec as f64 + spent.tv_nsec as f64 / 1e9
}

fn repeater(names: [&str; 2], seconds: u64) {
    let mut repeater = Repeater::open(names).expect("the interfaces are there");
    let clock = SharedClock::start();
    let (mut passed, before) = (0, cpu());
    while clock.now() < Instant::ZERO.after(Span::from_secs(seconds)) {
        passed += repeater.run_once(Duration::from_millis(10)).expect("the repeater holds");
    }
    let spent = cpu() - before;
    println!("repeater: {passed} packets in {spent:.2} CPU-s: {:.0} per CPU-second", passed as f64 / spent);
}

/// Runs until the time is over, then says what it cost.
fn measure<S>(seconds: u64, state: &mut S, mut run_once: impl FnMut(&mut S), switch: impl Fn(&S) -> &Switch) {
    let clock = SharedClock::start();
    let end = Instant::ZERO.after(Span::from_secs(seconds));
    let before = cpu();
    while clock.now() < end {
        run_once(state);
    }
    let spent = cpu() - before;
    let sent: u64 = switch(state).ports().iter().map(|port| port.sent).sum();
    let overrun: u64 = switch(state).ports().iter().map(|port| port.overrun).sum();
    println!(
        "switch: {sent} packets in {spent:.2} CPU-s: {:.0} per CPU-second ({overrun} overrun)",
        sent as f64 / spent
    );
}

fn ethernet(input: &str, output: &str, seconds: u64) {
    let mut addresses = ForwardingTable::default();
    addresses.add_ipv4(0x0a09_0001, 0);
    addresses.add_ipv4(0x0a09_0002, 1);
    let config = EthernetConfig {
        switch: config([input, output]),
        interfaces: vec![input.to_owned(), output.to_owned()],
        addresses,
        wire_size: WireSize::default(),
        mode: Mode::Fidelity,
        class_of_dscp: PLIANT_CLASSES,
    };
    let mut running = EthernetSwitch::open(&config, SharedClock::start()).expect("the interfaces are there");
    let run_once = |running: &mut EthernetSwitch| running.run_once(Duration::from_millis(10)).expect("the switch runs");
    measure(seconds, &mut running, run_once, EthernetSwitch::switch);
}

fn relay(seconds: u64) {
    let port = |host: u8| RelayPort {
        host: SocketAddrV4::new([127, 77, 0, host].into(), 7700),
        alias: SocketAddrV4::new([127, 77, 1, host].into(), 7700),
    };
    let config =
        RelayConfig { switch: config(["a", "b"]), ports: vec![port(1), port(2)], wire_size: WireSize::default() };
    let mut running = Relay::open(&config, SharedClock::start()).expect("loopback is free");
    let run_once = |running: &mut Relay| running.run_once(Duration::from_millis(10)).expect("the relay runs");
    measure(seconds, &mut running, run_once, Relay::switch);
}

/// Batches of 44, which the kernel cuts before the interface: the sender must be faster than the switch.
fn blast(from: &str, to: &str, seconds: u64) {
    let socket = Socket::bind(from.parse().expect("an address")).expect("an address of this host");
    let to = to.parse().expect("an address");
    let (mut batch, mut segments) = (Batch::default(), 0u64);
    while batch.accepts(to, TrafficClass::default(), PAYLOAD, socket.max_segments()) {
        batch.push(to, TrafficClass::default(), PAYLOAD);
        segments += 1;
    }
    let clock = SharedClock::start();
    let (mut sent, before) = (0u64, cpu());
    while clock.now() < Instant::ZERO.after(Span::from_secs(seconds)) {
        sent += if socket.send(&batch).is_ok() { segments } else { 0 };
    }
    let spent = cpu() - before;
    println!("sender, 44 datagrams per call: {sent} in {spent:.2} CPU-s: {:.0} per CPU-second", sent as f64 / spent);
}

fn sink(at: &str, seconds: u64) {
    let socket = UdpSocket::bind(at).expect("an address of this host");
    socket.set_read_timeout(Some(Duration::from_millis(100))).expect("a timeout");
    let clock = SharedClock::start();
    let (mut buffer, mut got) = ([0; 2048], 0u64);
    while clock.now() < Instant::ZERO.after(Span::from_secs(seconds)) {
        got += u64::from(socket.recv(&mut buffer).is_ok());
    }
    println!("received {got}");
}
