//! The array `ports` of the tables `queues` and `host_queues`: ports whose queues differ, by rate, tier and direction.

use std::collections::BTreeSet;

use pliant_proto::units::Rate;

use super::direction::Direction;
use super::queues::{QueuesSpec, Reserve};
use crate::tables::KeyError;
use crate::topology::{LinkId, Topology};

/// Most elements of `ports`.
const MAX_PORTS: usize = 64;

/// Of which nodes the ports are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) enum Whose {
    /// Of switches.
    Switches,
    /// Of hosts.
    Hosts,
}

impl QueuesSpec {
    /// What hosts have where only switches are told: the elements that choose by rate alone, of rates that hosts have.
    pub(super) fn ports_at_hosts(&self, topology: &Topology) -> Vec<Self> {
        let is_host = |link: &LinkId| topology.is_host(topology.link(*link).from);
        let links = || topology.link_ids().filter(is_host);
        let at_hosts = |ports: &&Self| {
            (ports.tier, ports.direction) == (None, None) && links().any(|link| ports.chooses(topology, link))
        };
        self.ports.iter().filter(at_hosts).map(|ports| ports.at_hosts(topology)).collect()
    }

    /// Whether this element of `ports` is about the port that sends on `link`, of a node of the right kind.
    pub(in super::super) fn chooses(&self, topology: &Topology, link: LinkId) -> bool {
        let port = topology.link(link);
        self.rate.is_none_or(|rate| rate == port.rate)
            && self.tier.is_none_or(|tier| tier == topology.tier(port.from))
            && self.direction.is_none_or(|direction| direction == Direction::of(topology, link))
    }

    /// The element of `ports` that the port sending on `link` has: of several the last.
    pub(in super::super) fn element_of(&self, topology: &Topology, link: LinkId) -> Option<usize> {
        self.ports.iter().rposition(|ports| ports.chooses(topology, link))
    }

    /// How an element chooses, in words.
    pub(in super::super) fn choice(&self) -> String {
        let (tier, direction) =
            (self.tier.map(|tier| format!("tier {tier}")), self.direction.as_ref().map(Direction::to_string));
        let parts = [tier, direction, self.rate.map(|rate| rate.to_string())];
        parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }

    /// The elements of `ports` written out, each over the `expanded` rest of this table; or the key that is wrong.
    pub(super) fn expanded_ports(&self, expanded: &Self) -> Result<Vec<Self>, KeyError> {
        if self.ports.len() > MAX_PORTS {
            return Err(("ports".to_owned(), format!("has {} elements, {MAX_PORTS} are the most", self.ports.len())));
        }
        let base = self.plan.as_ref().map_or("`queues`".to_owned(), |plan| format!("the plan {plan}"));
        let element = |(index, element): (usize, &Self)| {
            let below = |(key, why): KeyError| (format!("ports.{index}.{key}").trim_end_matches('.').to_owned(), why);
            element.over(expanded, &base).map_err(below)
        };
        self.ports.iter().enumerate().map(element).collect()
    }

    /// An element over the rest of its table: with a plan or queues of its own it stands by itself.
    fn over(&self, expanded: &Self, base: &str) -> Result<Self, KeyError> {
        let refuse = |key: &str, why: &str| Err((key.to_owned(), why.to_owned()));
        if (self.rate, self.tier, self.direction) == (None, None, None) {
            return refuse("", "chooses no ports: give it `rate`, `tier` or `direction`");
        }
        if !self.ports.is_empty() {
            return refuse("ports", "an element of `ports` has no `ports` of its own");
        }
        if matches!(self.reserve, Some(Reserve::Following(_))) {
            return refuse("reserve", "must be a number here: \"traffic\" goes above, for all ports");
        }
        let alone = Self { rate: None, tier: None, direction: None, ..self.clone() };
        let mut ports = if self.plan.is_some() || !self.queue.is_empty() {
            let mut alone = alone.expanded()?;
            alone.shared_buffer = alone.shared_buffer.or(expanded.shared_buffer);
            alone
        } else {
            let written_out = [
                ("scheduler", self.scheduler.is_some()),
                ("strict", self.strict.is_some()),
                ("reserve", self.reserve.is_some()),
            ];
            if let Some((key, _)) = written_out.iter().find(|(_, given)| *given) {
                return refuse(key, "goes with a `plan` or `queue` of this element");
            }
            expanded.clone().adjusted(&alone, base, None)?
        };
        (ports.rate, ports.tier, ports.direction) = (self.rate, self.tier, self.direction);
        Ok(ports)
    }

    /// Checks what the elements of `ports` choose: each some port, and all ports of a node share one buffer.
    pub(in super::super) fn check_ports(&self, topology: &Topology, whose: Whose) -> Result<(), KeyError> {
        let is_ours = |link: &LinkId| topology.is_host(topology.link(*link).from) == (whose == Whose::Hosts);
        let links = || topology.link_ids().filter(is_ours);
        for (index, ports) in self.ports.iter().enumerate() {
            let refuse =
                |key: &str, why: String| Err((format!("ports.{index}.{key}").trim_end_matches('.').to_owned(), why));
            if whose == Whose::Hosts && ports.tier.is_some() {
                return refuse("tier", "hosts have none: choose by `rate`".to_owned());
            }
            if whose == Whose::Hosts && ports.direction.is_some() {
                return refuse("direction", "all ports of hosts lead up: choose by `rate`".to_owned());
            }
            if let Some(tier) = ports.tier.filter(|tier| !(1..=topology.tiers()).contains(tier)) {
                return refuse("tier", format!("tier {tier} does not exist, tiers are 1 to {}", topology.tiers()));
            }
            if !links().any(|link| ports.chooses(topology, link)) {
                let rates: BTreeSet<Rate> = links().map(|link| topology.link(link).rate).collect();
                let rates: Vec<String> = rates.iter().map(Rate::to_string).collect();
                let nodes = if whose == Whose::Hosts { "hosts" } else { "switches" };
                let key = if ports.rate.is_some() { "rate" } else { "" };
                return refuse(
                    key,
                    format!("no port is {}: those of {nodes} have {}", ports.choice(), rates.join(", ")),
                );
            }
        }
        let buffer =
            |link: LinkId| self.element_of(topology, link).map_or(self, |index| &self.ports[index]).shared_buffer;
        for link in links() {
            let node = topology.link(link).from;
            let first = topology.outgoing(node)[0];
            if buffer(link) != buffer(first) {
                let index = self.element_of(topology, link).or(self.element_of(topology, first)).unwrap_or(0);
                let why = format!(
                    "all ports of a node share one buffer, and those of {} would have two: choose by `tier` alone",
                    topology.node_name(node)
                );
                return Err((format!("ports.{index}.shared_buffer"), why));
            }
        }
        Ok(())
    }
}
