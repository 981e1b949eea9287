//! The file that `pliant switch` reads: ports, their rates and queues, the addresses behind them.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::{Path, PathBuf};

use pliant_net::switch::ethernet::{EthernetConfig, Mode};
use pliant_net::switch::frame::PLIANT_CLASSES;
use pliant_net::switch::relay::{RelayConfig, RelayPort};
use pliant_net::switch::{
    FabricConfig, FaultConfig, ForwardingTable, Ingress, LinkConfig, NextHop, SwitchConfig, WireSize,
};
use pliant_proto::packet::CLASSES;
use pliant_proto::switch::Discipline;
use pliant_proto::time::Span;
use pliant_proto::units::Rate;
use pliant_sim::one_line::OneLine;
use pliant_sim::scenario::{QueuesSpec, RoutingName};
use pliant_sim::text_file;
use pliant_sim::units_serde;
use serde::Deserialize;

use crate::network::load_balancing;

/// A plan.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PlanSpec {
    /// Seed of markers and faults. Default: 1.
    #[serde(default = "default_seed")]
    seed: u64,
    /// Rate of ports that do not give theirs.
    #[serde(default, with = "units_serde::optional")]
    rate: Option<Rate>,
    /// Delay behind ports that do not give theirs. Default: 0s.
    #[serde(default, with = "units_serde::optional")]
    delay: Option<Span>,
    /// Queues of ports that do not give theirs, as in a scenario. Default: the plan `shared`.
    #[serde(default)]
    queues: QueuesSpec,
    /// Traffic class of DSCPs. Default: the upper five bits of each.
    #[serde(default)]
    dscp: toml::Table,
    /// How one of a port's links is chosen, as in a scenario. Default: `"ecmp"`.
    #[serde(default)]
    routing: RoutingName,
    /// What counts as a frame. Default: `"fidelity"`.
    #[serde(default)]
    mode: ModeName,
    /// What a bad network would do.
    #[serde(default)]
    faults: FaultSpec,
    /// The ports, two at least.
    port: Vec<PortSpec>,
}

/// What a switch on interfaces takes for a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum ModeName {
    /// A frame.
    #[default]
    Fidelity,
    /// A superframe, too.
    Speed,
}

impl From<ModeName> for Mode {
    fn from(name: ModeName) -> Self {
        match name {
            ModeName::Fidelity => Self::Fidelity,
            ModeName::Speed => Self::Speed,
        }
    }
}

fn default_seed() -> u64 {
    1
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PortSpec {
    /// The interface; or `host` and `alias`.
    interface: Option<String>,
    /// Address of the host's own socket, on loopback.
    host: Option<SocketAddrV4>,
    /// Address that stands for the host.
    alias: Option<SocketAddrV4>,
    /// Addresses behind the interface: IPv4, or station addresses.
    #[serde(default)]
    addresses: Vec<String>,
    /// Links that lead to it, each with this rate and queues of its own. Default: 1.
    links: Option<u32>,
    #[serde(default, with = "units_serde::optional")]
    rate: Option<Rate>,
    #[serde(default, with = "units_serde::optional")]
    delay: Option<Span>,
    queues: Option<QueuesSpec>,
}

/// The table `faults`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FaultSpec {
    loss: f64,
    duplicate: f64,
    corrupt: f64,
    reorder: f64,
    #[serde(with = "units_serde::optional")]
    reorder_delay: Option<Span>,
    blackouts: Vec<BlackoutSpec>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct BlackoutSpec {
    #[serde(with = "units_serde")]
    from: Span,
    #[serde(with = "units_serde")]
    length: Span,
}

/// More ports than this are a slip: a switch looks at each in every iteration.
const MAX_PORTS: usize = 1024;
/// More links to one port than this are, too.
const MAX_LINKS: u32 = 64;

/// How long frames are held back to be overtaken, unless it is said.
const DEFAULT_REORDER_DELAY: Span = Span::from_ms(1);

impl FaultSpec {
    /// Reads the table from TOML text, as `--faults` gives it.
    pub fn parse(text: &str) -> Result<Self, String> {
        toml::from_str(text).map_err(|error| error.message().to_owned())
    }

    /// The faults; the error names the key.
    pub fn build(&self) -> Result<FaultConfig, String> {
        let config = FaultConfig {
            loss: self.loss,
            duplicate: self.duplicate,
            corrupt: self.corrupt,
            reorder: self.reorder,
            reorder_delay: self.reorder_delay.unwrap_or(DEFAULT_REORDER_DELAY),
            blackouts: self.blackouts.iter().map(|blackout| (blackout.from, blackout.length)).collect(),
        };
        match config.check() {
            Ok(()) => Ok(config),
            Err(key) => Err(format!("{key}: a probability lies in [0, 1]")),
        }
    }
}

/// Why a plan was refused.
#[derive(Debug, thiserror::Error)]
pub enum PlanFileError {
    /// It cannot be read.
    #[error("cannot read {}: {error}", OneLine(.file.display()))]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// The system's reason.
        error: io::Error,
    },
    /// It is not a plan.
    #[error("{}{}: {}", OneLine(.file.display()), .line.map_or(String::new(), |line| format!(", line {line}")), OneLine(.why))]
    Wrong {
        /// The file.
        file: PathBuf,
        /// The line, where one is to blame.
        line: Option<usize>,
        /// The key, and what is wrong with it.
        why: String,
    },
}

/// A plan that was read.
#[derive(Clone, Debug)]
pub enum Plan {
    /// Between interfaces.
    Ethernet(Box<EthernetConfig>),
    /// On loopback.
    Relay(Box<RelayConfig>),
}

impl Plan {
    /// Reads a file.
    pub fn load(file: &Path) -> Result<Self, PlanFileError> {
        let text = text_file::read(file).map_err(|error| PlanFileError::Unreadable { file: file.to_owned(), error })?;
        Self::parse(&text, file)
    }

    /// Reads the text of a file; `file` appears in errors.
    pub fn parse(text: &str, file: &Path) -> Result<Self, PlanFileError> {
        let wrong = |line: Option<usize>, why: String| PlanFileError::Wrong { file: file.to_owned(), line, why };
        let spec: PlanSpec = toml::from_str(text).map_err(|error| {
            let line = error.span().map(|span| text[..span.start].matches('\n').count() + 1);
            wrong(line, error.message().lines().next().unwrap_or_default().to_owned())
        })?;
        spec.build().map_err(|why| wrong(None, why))
    }

    /// The switch.
    pub fn switch(&self) -> &SwitchConfig {
        match self {
            Self::Ethernet(config) => &config.switch,
            Self::Relay(config) => &config.switch,
        }
    }
}

impl PlanSpec {
    fn build(&self) -> Result<Plan, String> {
        let ports = &self.port;
        if ports.len() < 2 {
            return Err("port: a switch has two ports at least".to_owned());
        }
        if ports.len() > MAX_PORTS {
            return Err(format!("port: a switch has at most {MAX_PORTS} ports, not {}", ports.len()));
        }
        let names = (0..).zip(ports).map(|(index, port)| port_name(index, port)).collect::<Result<Vec<_>, _>>()?;
        if let Some(twice) = names.iter().enumerate().find(|(at, name)| names[..*at].contains(name)) {
            return Err(format!("port.{}: {} is a port already", twice.0, twice.1));
        }
        let faults = self.faults.build().map_err(|why| format!("faults.{why}"))?;
        let switch = self.switch(names, faults)?;
        if ports[0].interface.is_some() { self.ethernet(switch) } else { self.relay(switch) }
    }

    fn switch(&self, names: Vec<String>, faults: FaultConfig) -> Result<SwitchConfig, String> {
        let load_balancing = load_balancing(self.routing).map_err(|why| format!("routing: {why}"))?;
        let (mut plans, mut links, mut routes) = (Vec::new(), Vec::new(), Vec::new());
        for (index, (port, name)) in self.port.iter().zip(&names).enumerate() {
            let rate = port.rate.or(self.rate).filter(|rate| rate.bits_per_sec() > 0);
            let rate =
                rate.ok_or_else(|| format!("port.{index}.rate: is missing or zero, here and above the ports"))?;
            let (key, queues) = match &port.queues {
                Some(queues) => (format!("port.{index}.queues"), queues),
                None => ("queues".to_owned(), &self.queues),
            };
            let plan = queues.plan().map_err(|(below, why)| format!("{key}.{below}: {why}"))?;
            if plan.queues.iter().any(|queue| queue.discipline == Discipline::PFabric) {
                return Err(format!("{key}: a switch does not know the priorities that pFabric writes into packets"));
            }
            plans.push(plan);
            let count = port.links.unwrap_or(1);
            if !(1..=MAX_LINKS).contains(&count) {
                return Err(format!("port.{index}.links: {count} is not from 1 to {MAX_LINKS}"));
            }
            let first = links.len() as u32;
            links.extend((1..=count).map(|number| LinkConfig {
                hash_turn: 0,
                name: if count > 1 { format!("{number} to {name}") } else { format!("to {name}") },
                owner: 0,
                to: NextHop::Port(index as u16),
                rate,
                delay: port.delay.or(self.delay).unwrap_or(Span::ZERO),
                plan: index,
            }));
            routes.push((first..first + count).collect());
        }
        let (frames, frame_bytes) = Mode::from(self.mode).frames();
        Ok(SwitchConfig {
            fabric: FabricConfig {
                plans,
                links,
                ingress: vec![Ingress::Node(0); names.len()],
                routes: vec![routes],
                load_balancing,
                seed: self.seed,
            },
            ports: names,
            faults,
            frames,
            frame_bytes,
            sample_interval: None,
        })
    }

    fn ethernet(&self, switch: SwitchConfig) -> Result<Plan, String> {
        let mut addresses = ForwardingTable::default();
        let mut interfaces = Vec::new();
        for (index, port) in (0u16..).zip(&self.port) {
            let Some(interface) = &port.interface else {
                return Err(format!("port.{index}: has no interface, as others do"));
            };
            interfaces.push(interface.clone());
            for address in &port.addresses {
                let added = match (address.parse::<Ipv4Addr>(), parse_station(address)) {
                    (Ok(ipv4), _) => addresses.add_ipv4(ipv4.into(), index),
                    (_, Some(station)) => addresses.add_mac(station, index),
                    _ => return Err(format!("port.{index}.addresses: {address} is no address of IPv4 or station")),
                };
                if !added {
                    return Err(format!("port.{index}.addresses: {address} is another port's"));
                }
            }
        }
        let mut class_of_dscp = PLIANT_CLASSES;
        for (dscp, class) in &self.dscp {
            let place = dscp.parse().ok().filter(|dscp: &usize| *dscp < 64);
            let place = place.ok_or_else(|| format!("dscp.{dscp}: a DSCP is a number from 0 to 63"))?;
            let class = class.as_integer().filter(|class| (0..CLASSES as i64).contains(class));
            class_of_dscp[place] = class.ok_or_else(|| format!("dscp.{dscp}: a class is a number from 0 to 31"))? as u8;
        }
        let wire_size = WireSize::default();
        Ok(Plan::Ethernet(Box::new(EthernetConfig {
            switch,
            interfaces,
            addresses,
            wire_size,
            mode: self.mode.into(),
            class_of_dscp,
        })))
    }

    fn relay(&self, switch: SwitchConfig) -> Result<Plan, String> {
        if switch.faults.corrupt > 0.0 {
            let why = "a relay cannot corrupt what it sends: the kernel would make a new checksum for it";
            return Err(format!("faults.corrupt: {why}"));
        }
        if self.mode != ModeName::Fidelity {
            return Err("mode: a relay has no superframes".to_owned());
        }
        if !self.dscp.is_empty() {
            return Err("dscp: a relay takes the upper five bits of each".to_owned());
        }
        let port = |(index, port): (usize, &PortSpec)| match (port.host, port.alias) {
            (Some(host), Some(alias)) => Ok(RelayPort { host, alias }),
            _ => Err(format!("port.{index}: has no host and alias, as others do")),
        };
        let ports = self.port.iter().enumerate().map(port).collect::<Result<Vec<_>, _>>()?;
        Ok(Plan::Relay(Box::new(RelayConfig { switch, ports, wire_size: WireSize::default() })))
    }
}

fn port_name(index: usize, port: &PortSpec) -> Result<String, String> {
    match (&port.interface, port.host, port.alias) {
        (Some(interface), None, None) => Ok(interface.clone()),
        (None, Some(host), Some(_)) => Ok(host.to_string()),
        _ => Err(format!("port.{index}: needs an interface, or host and alias")),
    }
}

fn parse_station(text: &str) -> Option<[u8; 6]> {
    let octets: Vec<u8> = text.split(':').map(|part| u8::from_str_radix(part, 16)).collect::<Result<_, _>>().ok()?;
    octets.try_into().ok()
}

#[cfg(test)]
mod tests {
    use pliant_net::switch::LoadBalancing;

    use super::*;

    const TWO: &str = r#"
        rate = "500Mbit/s"
        queues = { plan = "dwrr-9-1" }
        dscp = { 46 = 0, 0 = 1 }
        [[port]]
        interface = "a"
        addresses = ["10.0.0.1", "02:00:00:00:00:01"]
        [[port]]
        interface = "b"
        addresses = ["10.0.0.2"]
        rate = "20Mbit/s"
        delay = "1ms"
    "#;

    fn error(text: &str) -> String {
        Plan::parse(text, Path::new("plan.toml")).unwrap_err().to_string()
    }

    #[test]
    fn a_plan_is_read() {
        let Ok(Plan::Ethernet(config)) = Plan::parse(TWO, Path::new("plan.toml")) else { panic!("it is right") };
        let [a, b] = &config.switch.fabric.links[..] else { panic!("two links") };
        assert_eq!((a.rate, a.delay), (Rate::from_bits_per_sec(500_000_000), Span::ZERO));
        assert_eq!((b.rate, b.delay), (Rate::from_bits_per_sec(20_000_000), Span::from_ms(1)));
        assert_eq!(config.switch.fabric.plans[0].queues.len(), 2);
        assert_eq!((config.class_of_dscp[46], config.class_of_dscp[0], config.class_of_dscp[2]), (0, 1, 1));
        assert_eq!(config.addresses.find([2, 0, 0, 0, 0, 1], None), Some(0));
        assert_eq!(config.addresses.find([9; 6], Some(0x0a00_0002)), Some(1));
    }

    #[test]
    fn several_links_lead_to_a_port() {
        let text = TWO.replacen("interface = \"a\"", "interface = \"a\"\nlinks = 2", 1);
        let text = format!("routing = \"spray-round-robin\"\n{text}");
        let Ok(Plan::Ethernet(config)) = Plan::parse(&text, Path::new("plan.toml")) else { panic!("it is right") };
        let fabric = &config.switch.fabric;
        assert_eq!(fabric.load_balancing, LoadBalancing::SprayRoundRobin);
        let names: Vec<&str> = fabric.links.iter().map(|link| link.name.as_str()).collect();
        assert_eq!(names, ["1 to a", "2 to a", "to b"]);
        assert_eq!(fabric.routes, [[vec![0, 1], vec![2]]]);
        let ends: Vec<NextHop> = fabric.links.iter().map(|link| link.to).collect();
        assert_eq!(ends, [NextHop::Port(0), NextHop::Port(0), NextHop::Port(1)]);
    }

    #[test]
    fn mistakes_are_named() {
        for (from, to, expected) in [
            ("500Mbit/s", "500Mbits", "line 2"),
            ("interface = \"b\"", "interfce = \"b\"", "line 9"),
            ("\"dwrr-9-1\"", "\"dwrr\"", "queues.plan"),
            ("46 = 0", "64 = 0", "dscp.64"),
            ("46 = 0", "46 = 32", "dscp.46"),
            ("\"10.0.0.2\"", "\"10.0.0.1\"", "another port's"),
            ("\"10.0.0.2\"", "\"ten\"", "port.1.addresses"),
            ("interface = \"b\"", "interface = \"a\"", "a port already"),
            ("rate = \"500Mbit/s\"", "", "port.0.rate"),
            ("interface = \"b\"", "interface = \"b\"\nlinks = 0", "port.1.links: 0 is not from 1 to 64"),
            ("interface = \"b\"", "interface = \"b\"\nlinks = 65", "port.1.links: 65 is not"),
            ("rate = \"500Mbit/s\"", "rate = \"500Mbit/s\"\nrouting = \"flowlet\"", "does not know \"flowlet\""),
            ("rate = \"500Mbit/s\"", "rate = \"500Mbit/s\"\nfaults = { loss = 2.0 }", "faults.loss"),
        ] {
            let error = error(&TWO.replacen(from, to, 1));
            assert!(error.starts_with("plan.toml") && error.contains(expected), "{error}");
        }
        assert!(error("rate = \"1Gbit/s\"\n[[port]]\ninterface = \"a\"").contains("two ports"));
        let many = "[[port]]\ninterface = \"a\"\n".repeat(MAX_PORTS + 1);
        assert!(error(&format!("rate = \"1Gbit/s\"\n{many}")).contains("at most 1024 ports, not 1025"));
    }

    #[test]
    fn relays_are_plans_too() {
        let text = "rate = \"1Gbit/s\"\n[[port]]\nhost = \"127.0.1.1:7\"\nalias = \"127.0.2.1:7\"\n\
            [[port]]\nhost = \"127.0.1.2:7\"\nalias = \"127.0.2.2:7\"\n";
        assert!(matches!(Plan::parse(text, Path::new("p")), Ok(Plan::Relay(_))));
        assert!(error(&format!("faults = {{ corrupt = 0.1 }}\n{text}")).contains("faults.corrupt"));
    }
}
