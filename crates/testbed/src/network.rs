//! From a scenario to a switch: its links with their queues, rates and delays, and the ways between them.

use std::net::Ipv4Addr;

use pliant_net::switch::ethernet::Mode;
use pliant_net::switch::forwarder::DEFAULT_FRAME_BYTES;
use pliant_net::switch::{
    FabricConfig, FaultConfig, ForwardingTable, Ingress, LinkConfig, LoadBalancing, NextHop, SwitchConfig,
};
use pliant_proto::switch::{Discipline, QueuePlan};
use pliant_proto::time::Span;
use pliant_proto::units::Rate;
use pliant_sim::scenario::{Resolved, RoutingName};
use pliant_sim::topology::{LinkId, NodeId};
use pliant_sim::traffic::TrafficSpec;

/// Port of all hosts.
pub const PORT: u16 = 7800;
/// Where hosts hear what others say of their links.
pub(crate) const REPORT_PORT: u16 = 7799;
/// Most hosts of a testbed: each is a process.
pub const MAX_HOSTS: u32 = 64;
/// Fastest link that the switch keeps to packet by packet.
pub const MAX_RATE: Rate = Rate::from_gbit_per_sec(1);

/// Why a scenario cannot run on a testbed: the key, and the reason.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{key}: {why}")]
pub struct Unsuitable {
    /// The key of the scenario.
    pub key: String,
    /// What is wrong with it there.
    pub why: String,
}

fn refuse<T>(key: impl Into<String>, why: impl Into<String>) -> Result<T, Unsuitable> {
    Err(Unsuitable { key: key.into(), why: why.into() })
}

/// Refuses what exists in the simulator only, and what a testbed cannot keep up with.
pub fn check(scenario: &Resolved, on_loopback: bool, mode: Mode) -> Result<(), Unsuitable> {
    let topology = &scenario.topology;
    if topology.hosts() > MAX_HOSTS {
        return refuse("topology", format!("{} hosts, a testbed has at most {MAX_HOSTS}", topology.hosts()));
    }
    let too_fast = |link: &&pliant_sim::topology::Link| mode == Mode::Fidelity && link.rate > MAX_RATE;
    if let Some(link) = topology.links().iter().find(too_fast) {
        let name = format!("{} -> {}", topology.node_name(link.from), topology.node_name(link.to));
        let why =
            format!("{name} has {}; the testbed's switch keeps up to {MAX_RATE} (or use --mode speed)", link.rate);
        return refuse("topology", why);
    }
    load_balancing(scenario.spec.routing).or_else(|why| refuse("routing", why))?;
    if !scenario.spec.path_weights.are_equal() {
        return refuse("path_weights", "the testbed's switch takes all links alike");
    }
    if !scenario.spec.outages.is_empty() {
        return refuse("outages", "the testbed's hosts are always up");
    }
    if !scenario.losses.is_empty() {
        return refuse("losses", "the testbed's switch loses nothing by itself");
    }
    if scenario.spec.sample_windows {
        return refuse("sample_windows", "only the simulator looks into senders");
    }
    let others = scenario.other_plans.plans().iter().map(|plan| ("queues.ports", plan));
    for (key, plan) in
        [("queues", &scenario.switch_plan), ("host_queues", &scenario.host_plan)].into_iter().chain(others)
    {
        if plan.queues.iter().any(|queue| queue.discipline == Discipline::PFabric) {
            return refuse(key, "the testbed's switch does not know the priorities that pFabric writes into packets");
        }
        if plan.trims().is_some() {
            return refuse(key, "the testbed's switch forwards whole frames or none: it does not trim");
        }
    }
    let least = DEFAULT_FRAME_BYTES as u64 - 128;
    if u64::from(scenario.mss()) > least {
        return refuse("packets.mss", format!("is above the {least} bytes that the testbed's frames have room for"));
    }
    for group in &scenario.groups {
        if matches!(group.traffic, TrafficSpec::ClosedLoop(_)) {
            let key = format!("traffic.{}.kind", group.name);
            return refuse(key, "the testbed starts flows at times that are known before");
        }
        if group.bundle {
            let key = format!("traffic.{}.bundle", group.name);
            return refuse(
                key,
                "bundles exist in the simulator only: a testbed gives each flow a connection of its own",
            );
        }
        let key = format!("traffic.{}.transport", group.name);
        let facts = group.transport.facts();
        if on_loopback && facts.kernel.is_some() {
            return refuse(key, "kernel needs network namespaces, the relay on loopback carries UDP only");
        }
        if let Some(why) = facts.simulator_only {
            return refuse(key, why);
        }
    }
    Ok(())
}

/// How the software switch chooses among equal links, where it knows the way.
pub(crate) fn load_balancing(routing: RoutingName) -> Result<LoadBalancing, String> {
    let unknown = |name: &str| Err(format!("the software switch does not know \"{name}\""));
    match routing {
        RoutingName::Ecmp => Ok(LoadBalancing::Ecmp),
        RoutingName::SprayRandom => Ok(LoadBalancing::SprayRandom),
        RoutingName::SprayRoundRobin => Ok(LoadBalancing::SprayRoundRobin),
        RoutingName::FlowRoundRobin => unknown("flow-round-robin"),
        RoutingName::SprayPermutation => unknown("spray-permutation"),
        RoutingName::Flowlet => unknown("flowlet"),
    }
}

/// Whether a group's flows push parts of objects.
pub(crate) fn pushes(scenario: &Resolved, group: u16) -> bool {
    scenario.groups[usize::from(group)].transport.facts().pushes
}

/// The switch that stands for all links and switches of a scenario. Port `h` leads to host `h`.
///
/// All links of a host are inside the switch, with their queues, and a real host has one pipe to them. So of a host with several
/// links the switch chooses the one by which a frame leaves, as it chooses all others.
pub fn switch_config(scenario: &Resolved, faults: FaultConfig, mode: Mode) -> SwitchConfig {
    let (frames, frame_bytes) = mode.frames();
    let topology = &scenario.topology;
    let hosts = topology.hosts();
    let several: Vec<u32> = (0..hosts).filter(|&host| topology.has_several_links(NodeId(host))).collect();
    let end = |node: NodeId| {
        if topology.is_host(node) { NextHop::Port(node.0 as u16) } else { NextHop::Node(node.0 - hosts) }
    };
    let link = |(id, link): (usize, &pliant_sim::topology::Link)| LinkConfig {
        name: topology.link_name(LinkId(id as u32)),
        owner: link.from.0,
        to: end(link.to),
        rate: link.rate,
        delay: link.delay,
        plan: match scenario.other_plans.of(LinkId(id as u32)) {
            Some(other) => 2 + other,
            None => usize::from(topology.is_host(link.from)),
        },
        // The choice among a host's switches or cables is the same on the way there and back, and not that among what follows.
        hash_turn: if topology.tier(link.to) <= 1 { 16 } else { 0 },
    };
    let routes_to = |node: NodeId, host: u32| {
        let links = scenario.routing.next_links(node, NodeId(host));
        links.iter().map(|link| link.0).collect()
    };
    let routes = |node: NodeId| (0..hosts).map(|host| routes_to(node, host)).collect();
    let nodes = (hosts..topology.nodes()).chain(several.iter().copied()).map(NodeId);
    let ingress = |host: u32| match several.binary_search(&host) {
        Ok(place) => Ingress::Node(topology.switches() + place as u32),
        Err(_) => Ingress::Link(topology.uplink(NodeId(host)).0),
    };
    // A real host has a jitter of its own.
    let still = |plan: &QueuePlan| QueuePlan { jitter: Span::ZERO, ..plan.clone() };
    SwitchConfig {
        fabric: FabricConfig {
            plans: scenario.plans().all().map(still).collect(),
            links: topology.links().iter().enumerate().map(link).collect(),
            ingress: (0..hosts).map(ingress).collect(),
            routes: nodes.map(routes).collect(),
            // What it does not know was refused.
            load_balancing: load_balancing(scenario.spec.routing).unwrap_or_default(),
            seed: scenario.spec.seed,
        },
        ports: (0..hosts).map(|host| topology.node_name(NodeId(host))).collect(),
        faults,
        frames,
        frame_bytes,
        sample_interval: scenario.spec.sample_interval,
    }
}

/// Address of a host inside the testbed.
pub fn address(host: u32) -> Ipv4Addr {
    Ipv4Addr::new(10, 77, (host / 250) as u8, (host % 250 + 1) as u8)
}

/// Station address of a host: locally administered.
pub fn station(host: u32) -> [u8; 6] {
    let [high, low] = (host as u16).to_be_bytes();
    [0x02, 0x70, 0x6c, 0x00, high, low]
}

/// Which port leads to which host.
pub fn addresses(hosts: u32) -> ForwardingTable {
    let mut table = ForwardingTable::default();
    for host in 0..hosts {
        let fresh = table.add_mac(station(host), host as u16) && table.add_ipv4(address(host).into(), host as u16);
        assert!(fresh, "hosts have addresses of their own");
    }
    table
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use pliant_sim::scenario::Scenario;

    use super::*;

    fn dumbbell() -> Resolved {
        let text = r#"
            duration = "1s"
            [topology]
            kind = "dumbbell"
            pairs = 2
            edge_link = { rate = "1Gbit/s", delay = "10us" }
            bottleneck_link = { rate = "500Mbit/s", delay = "100us" }
            [traffic.a]
            kind = "flows"
            flows = [{ source = 0, destination = 2 }]
        "#;
        Scenario::parse(text, Path::new("t.toml")).unwrap().resolve().unwrap()
    }

    /// A bundle is refused by its key.
    #[test]
    fn bundles_are_refused_by_name() {
        let mut scenario = dumbbell();
        assert!(check(&scenario, false, Mode::Fidelity).is_ok());
        scenario.groups[0].bundle = true;
        let why = check(&scenario, false, Mode::Fidelity).unwrap_err().to_string();
        assert!(why.contains("traffic.a.bundle") && why.contains("in the simulator only"), "{why}");
    }

    /// Following the switch's links from any host to any other ends there, over three links between the sides and two
    /// within one.
    #[test]
    fn every_way_ends_at_its_host() {
        let scenario = dumbbell();
        let FabricConfig { links, ingress, routes, .. } =
            switch_config(&scenario, FaultConfig::default(), Mode::Fidelity).fabric;
        for (from, to) in (0..4u16).flat_map(|from| (0..4u16).map(move |to| (from, to))).filter(|(a, b)| a != b) {
            let Ingress::Link(mut link) = ingress[usize::from(from)] else { panic!("hosts have uplinks") };
            let mut hops = 1;
            while let NextHop::Node(node) = links[link as usize].to {
                link = routes[node as usize][usize::from(to)][0];
                hops += 1;
            }
            assert_eq!(links[link as usize].to, NextHop::Port(to));
            assert_eq!(hops, if (from < 2) == (to < 2) { 2 } else { 3 });
        }
    }

    /// Four hosts, each on two leaves: a frame leaves its host by one of two links, whatever the hash of its flow ends at its
    /// host, comes back over the same leaves, and hashes use all paths between two pairs of leaves.
    #[test]
    fn the_switch_chooses_among_the_links_of_a_host() {
        let text = r#"
            duration = "1s"
            [topology]
            kind = "leaf-spine"
            leaves = 4
            spines = 2
            hosts_per_leaf = 2
            leaves_per_host = 2
            host_link = "1Gbit/s"
            fabric_link = "1Gbit/s"
            [traffic.a]
            kind = "permutation"
            size = "1MB"
        "#;
        let scenario = Scenario::parse(text, Path::new("t.toml")).unwrap().resolve().unwrap();
        assert_eq!(check(&scenario, false, Mode::Fidelity), Ok(()));
        let config = switch_config(&scenario, FaultConfig::default(), Mode::Fidelity).fabric;
        let way = |from: u16, to: u16, flow: u32| {
            let Ingress::Node(mut node) = config.ingress[usize::from(from)] else { panic!("hosts have two links") };
            let mut way = Vec::new();
            loop {
                let links = &config.routes[node as usize][usize::from(to)];
                let turn = config.links[links[0] as usize].hash_turn;
                let link = links[flow.rotate_right(turn) as usize % links.len()];
                way.push(link);
                match config.links[link as usize].to {
                    NextHop::Node(next) => node = next,
                    NextHop::Port(port) => break assert_eq!(port, to),
                }
                assert!(way.len() <= 4, "no way goes round");
            }
            way
        };
        let mut ways = std::collections::BTreeSet::new();
        for flow in (0..64u32).map(|flow| flow.wrapping_mul(0x9e37_79b9)) {
            let (there, back) = (way(0, 3, flow), way(3, 0, flow));
            let turned: Vec<u32> = back.iter().rev().map(|&link| LinkId(link).reverse().0).collect();
            assert_eq!(there, turned, "{flow}");
            ways.insert(there);
        }
        assert_eq!(ways.len(), 4, "two leaves, two spines");
    }

    #[test]
    fn what_a_testbed_cannot_do_is_refused_by_key() {
        let mut scenario = dumbbell();
        assert_eq!(check(&scenario, false, Mode::Fidelity), Ok(()));
        scenario.spec.sample_windows = true;
        assert_eq!(check(&scenario, false, Mode::Fidelity).unwrap_err().key, "sample_windows");
        let by = |transport: &str| {
            let text = format!(
                "duration = \"1ms\"\n[topology]\nkind = \"star\"\nhosts = 2\nlink = {{ rate = \"1Gbit/s\", delay = \"1us\" }}\n\
                 [queues]\nplan = \"{transport}\"\n[traffic.web]\nkind = \"permutation\"\nsize = \"1kB\"\n\
                 transport = \"{transport}\"\n"
            );
            let scenario = Scenario::parse(&text, Path::new("t.toml")).unwrap().resolve().unwrap();
            check(&scenario, false, Mode::Fidelity)
        };
        assert_eq!(by("ndp").unwrap_err().key, "queues");
        assert_eq!(by("homa"), Ok(()));
        let text = dumbbell().to_toml().replace("1Gbit/s", "10Gbit/s");
        let fast = Scenario::parse(&text, Path::new("t.toml")).unwrap().resolve().unwrap();
        let error = check(&fast, false, Mode::Fidelity).unwrap_err().to_string();
        assert!(error.contains("host 0 -> ") && error.contains("10Gbit/s"), "{error}");
        assert_eq!(check(&fast, false, Mode::Speed), Ok(()));
    }
}
