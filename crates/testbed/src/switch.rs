//! The switch of a testbed: the process that holds all its links and queues.

use std::net::Ipv4Addr;
use std::path::Path;
use std::time::Duration;

use pliant_net::clock::SharedClock;
use pliant_net::switch::counters::{Names, text};
use pliant_net::switch::ethernet::{EthernetConfig, EthernetSwitch, Mode};
use pliant_net::switch::frame::PLIANT_CLASSES;
use pliant_net::switch::relay::{Relay, RelayConfig, RelayPort};
use pliant_net::switch::{FaultConfig, Switch, SwitchConfig, SwitchDriver, SwitchError, WireSize};
use pliant_proto::switch::Link;
use pliant_proto::switch::queue::QueueCounters;
use pliant_proto::time::Instant;
use pliant_sim::scenario::Scenario;

use crate::messages::{self, Parent, QueueReport, SwitchReport, await_network, cpu_seconds};
use crate::network::{self, PORT};

/// How soon a stop is heard.
const MAX_SLEEP: Duration = Duration::from_millis(20);

/// Where hosts are.
#[derive(Clone, Debug)]
pub enum Medium {
    /// Behind interfaces of this network namespace, by host.
    Interfaces(Vec<String>),
    /// On loopback: each host's own address, and the one that stands for it.
    Loopback(Vec<(Ipv4Addr, Ipv4Addr)>),
}

/// Why a switch failed.
#[derive(Debug, thiserror::Error)]
pub enum SwitchProcessError {
    /// The scenario cannot be read; it could when the run began.
    #[error(transparent)]
    Scenario(#[from] pliant_sim::scenario::ScenarioError),
    /// It cannot start.
    #[error("switch: {0}")]
    Start(#[from] SwitchError),
    /// The system refused.
    #[error("switch: {0}")]
    Io(#[from] std::io::Error),
}

/// Opens the switch that stands for all links and switches of a scenario.
fn open(
    config: SwitchConfig,
    medium: &Medium,
    wire: WireSize,
    (hosts, mode): (u32, Mode),
) -> Result<SwitchDriver, SwitchError> {
    // Until it is told when time begins.
    let clock = SharedClock::start();
    match medium {
        Medium::Interfaces(interfaces) => {
            let config = EthernetConfig {
                switch: config,
                interfaces: interfaces.clone(),
                addresses: network::addresses(hosts),
                wire_size: wire,
                mode,
                class_of_dscp: PLIANT_CLASSES,
            };
            Ok(EthernetSwitch::open(&config, clock)?.into())
        }
        Medium::Loopback(addresses) => {
            let at = |address| std::net::SocketAddrV4::new(address, PORT);
            let ports = addresses.iter().map(|&(host, alias)| RelayPort { host: at(host), alias: at(alias) });
            let config = RelayConfig { switch: config, ports: ports.collect(), wire_size: wire };
            Ok(Relay::open(&config, clock)?.into())
        }
    }
}

/// Runs the switch until its parent says stop. This is a process of its own.
pub fn run(scenario: &Path, medium: &Medium, mode: Mode, faults: FaultConfig) -> Result<(), SwitchProcessError> {
    if !await_network() {
        return Ok(());
    }
    // First in line for a processor, where that is allowed: frames should be late by as little as can be.
    let _ = rustix::process::setpriority_process(None, -20);
    let scenario = Scenario::load(scenario)?.resolve()?;
    let config = network::switch_config(&scenario, faults, mode);
    let names = Names::new(&config);
    let wire = WireSize::framed(scenario.wire());
    let mut driver = open(config, medium, wire, (scenario.topology.hosts(), mode))?;
    let Some((parent, clock)) = Parent::meet() else { return Ok(()) };
    std::thread::sleep(Duration::from_nanos(clock.until_start().as_ps() / 1000));
    driver.set_clock(clock);
    let cpu_before = cpu_seconds();
    while !parent.has_stopped() {
        driver.run_once(MAX_SLEEP)?;
    }
    let switch = driver.switch_mut();
    switch.advance(clock.now());
    switch.assert_conserved();
    messages::report(&SwitchReport { cpu_s: cpu_seconds() - cpu_before, ..report(switch, &names) });
    Ok(())
}

fn report(switch: &mut Switch, names: &Names) -> SwitchReport {
    let counters: Vec<Vec<QueueCounters>> = switch.fabric().counters().collect();
    let left: Vec<_> = switch.fabric_mut().links_now().map(Link::occupancies).collect();
    let queues = counters.into_iter().zip(left).map(|(counters, left)| {
        let queue = |(counters, left): (QueueCounters, pliant_proto::switch::queue::Occupancy)| {
            // Every field by name: a counter that is added cannot be left out.
            let QueueCounters { admitted, dropped, marked_packets, trimmed_packets, returned_packets, max_packets } =
                counters;
            QueueReport {
                admitted: [admitted.packets, admitted.bytes],
                dropped: dropped.iter().map(|tally| [tally.packets, tally.bytes]).collect(),
                marked: marked_packets,
                trimmed: trimmed_packets,
                returned: returned_packets,
                max_packets,
                left_packets: left.packets,
                left_bytes: left.bytes,
            }
        };
        counters.into_iter().zip(left).map(queue).collect()
    });
    let queues = queues.collect();
    let samples = switch.take_samples().into_iter();
    let samples = samples
        .map(|s| (s.at.since(Instant::ZERO).as_ps(), s.link, s.queue, s.packets, s.bytes, s.red_bytes))
        .collect();
    let sum = |of: fn(&pliant_net::switch::PortCounters) -> u64| switch.ports().iter().map(of).sum();
    let (late, faults) = (switch.lateness(), switch.fault_counters());
    SwitchReport {
        queues,
        samples,
        hops: switch.fabric().hops(),
        overrun: sum(|port| port.overrun),
        refused: sum(|port| port.malformed + port.tagged + port.oversized + port.unknown_destination + port.no_frame),
        send_failed: sum(|port| port.send_failed),
        late_median_ps: late.quantile(0.5).as_ps(),
        late_p99_ps: late.quantile(0.99).as_ps(),
        late_max_ps: late.max.as_ps(),
        faults: [faults.lost, faults.blacked_out, faults.duplicated, faults.corrupted, faults.reordered],
        cpu_s: 0.0,
        counters: text(names, switch),
    }
}
