//! The table `deployment`: which hosts have a transport with credits. A flow uses it if both of its ends have it.

use std::collections::BTreeMap;

use pliant_proto::rng::Stream;
use serde::{Deserialize, Serialize};

use crate::topology::{NodeId, Topology};

/// Which hosts are upgraded.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeploymentSpec {
    /// Fraction of the units that are upgraded, in [0, 1]; their number is rounded.
    pub deployed: f64,
    /// What is upgraded at once. Default: `"rack"`.
    #[serde(default)]
    pub by: Unit,
    /// In which order. Default: `"lowest"`.
    #[serde(default)]
    pub order: Order,
}

/// What is upgraded at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// A host.
    Host,
    /// The hosts of an edge switch.
    #[default]
    Rack,
    /// The hosts of all edge switches that lead to the same switches above.
    Pod,
}

/// In which order units are upgraded.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// The lowest number first.
    #[default]
    Lowest,
    /// At random, by the run's seed: a larger fraction contains a smaller one.
    Random,
}

impl DeploymentSpec {
    /// Whether each host is upgraded.
    pub(crate) fn hosts(&self, topology: &Topology, seed: u64) -> Vec<bool> {
        let unit_of: Vec<u32> = (0..topology.hosts()).map(|host| self.unit(topology, NodeId(host))).collect();
        // Units by the first host of each.
        let mut numbers = BTreeMap::new();
        for unit in &unit_of {
            let next = numbers.len();
            numbers.entry(*unit).or_insert(next);
        }
        let mut order: Vec<usize> = (0..numbers.len()).collect();
        if self.order == Order::Random {
            Stream::named(seed, "deployment").shuffle(&mut order);
        }
        let count = (self.deployed * numbers.len() as f64).round() as usize;
        let mut upgraded = vec![false; numbers.len()];
        order.iter().take(count).for_each(|&unit| upgraded[unit] = true);
        unit_of.iter().map(|unit| upgraded[numbers[unit]]).collect()
    }

    /// A number that the hosts of one unit share.
    fn unit(&self, topology: &Topology, host: NodeId) -> u32 {
        let rack = topology.rack(host);
        match self.by {
            Unit::Host => host.0,
            Unit::Rack => rack.0,
            Unit::Pod => {
                let above = topology.outgoing(rack).iter().map(|&link| topology.link(link).to);
                above.filter(|&node| !topology.is_host(node)).map(|node| node.0).min().unwrap_or(rack.0)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::{Clos, LinkSpec};
    use pliant_proto::time::Span;
    use pliant_proto::units::Rate;

    /// FlexPass's network: 8 pods of 4 racks of 6 hosts.
    fn network() -> Topology {
        let host_link = LinkSpec { rate: Rate::from_gbit_per_sec(40), delay: Span::from_us(4) };
        let clos = Clos {
            pods: 8,
            racks_per_pod: 4,
            aggs_per_pod: 2,
            hosts_per_rack: 6,
            cores: 8,
            host_link,
            fabric_link: None,
            core_link: None,
            host_delay: Span::ZERO,
        };
        clos.build().expect("a network")
    }

    fn hosts(deployed: f64, by: Unit, order: Order) -> Vec<u32> {
        let upgraded = DeploymentSpec { deployed, by, order }.hosts(&network(), 2);
        (0..).zip(upgraded).filter(|(_, upgraded)| *upgraded).map(|(host, _)| host).collect()
    }

    /// A quarter: 2 of 8 pods, 8 of 32 racks, 48 of 192 hosts, all 48 hosts with the lowest numbers.
    #[test]
    fn the_lowest_units_come_first() {
        for by in [Unit::Host, Unit::Rack, Unit::Pod] {
            assert_eq!(hosts(0.25, by, Order::Lowest), (0..48).collect::<Vec<_>>(), "{by:?}");
            assert!(hosts(0.0, by, Order::Lowest).is_empty());
            assert_eq!(hosts(1.0, by, Order::Lowest).len(), 192);
        }
    }

    /// At random whole units are upgraded, and a larger fraction contains a smaller one.
    #[test]
    fn random_units_are_whole_and_nested() {
        for (by, size) in [(Unit::Host, 1), (Unit::Rack, 6), (Unit::Pod, 24)] {
            let (quarter, half) = (hosts(0.25, by, Order::Random), hosts(0.5, by, Order::Random));
            assert_eq!((quarter.len(), half.len()), (48, 96));
            assert!(quarter.iter().all(|host| half.contains(host)), "{by:?}");
            assert!(half.iter().all(|host| half.contains(&(host / size * size))), "{by:?}");
            assert_ne!(quarter, (0..48).collect::<Vec<_>>(), "{by:?}: not the lowest");
        }
    }
}
