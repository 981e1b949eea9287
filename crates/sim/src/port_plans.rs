//! Which queues each port has: one plan for the ports of switches, one for those of hosts, and others for some ports.

use pliant_proto::switch::{QueuePlan, SharedBuffer};

use crate::topology::{LinkId, NodeId, Topology};

/// Ports whose queues differ from those of the other ports.
#[derive(Clone, PartialEq, Debug)]
pub struct OtherPlans {
    /// Their plans.
    plans: Vec<QueuePlan>,
    /// By link, 0 for a port like the others, else one more than the number of its plan; empty if no port differs.
    of_link: Vec<u16>,
}

impl OtherPlans {
    /// No port differs.
    pub const NONE: Self = Self { plans: Vec::new(), of_link: Vec::new() };

    /// `plans` at the ports to which `choice` gives a number of theirs.
    pub fn new(plans: Vec<QueuePlan>, links: usize, choice: impl Fn(LinkId) -> Option<usize>) -> Self {
        assert!(plans.len() < usize::from(u16::MAX), "{} plans are too many", plans.len());
        if plans.is_empty() {
            return Self::NONE;
        }
        let number = |link: u32| {
            choice(LinkId(link)).map_or(0, |plan| {
                assert!(plan < plans.len(), "plan {plan} does not exist");
                plan as u16 + 1
            })
        };
        let of_link = (0..links as u32).map(number).collect();
        Self { plans, of_link }
    }

    /// The plans.
    pub fn plans(&self) -> &[QueuePlan] {
        &self.plans
    }

    /// The number of a port's plan among [`plans`](Self::plans); `None` for a port like the others.
    pub fn of(&self, link: LinkId) -> Option<usize> {
        self.of_link.get(link.index()).and_then(|&number| usize::from(number).checked_sub(1))
    }
}

/// The queues of every port.
#[derive(Clone, Copy, Debug)]
pub struct PortPlans<'a> {
    /// Those of switch ports.
    pub switches: &'a QueuePlan,
    /// Those of host ports.
    pub hosts: &'a QueuePlan,
    /// The ports that differ.
    pub others: &'a OtherPlans,
}

impl<'a> PortPlans<'a> {
    /// The queues of the port that sends on `link`.
    pub fn of(self, topology: &Topology, link: LinkId) -> &'a QueuePlan {
        match self.others.of(link) {
            Some(plan) => &self.others.plans[plan],
            None if topology.is_host(topology.link(link).from) => self.hosts,
            None => self.switches,
        }
    }

    /// All plans.
    pub fn all(self) -> impl Iterator<Item = &'a QueuePlan> {
        [self.switches, self.hosts].into_iter().chain(&self.others.plans)
    }

    /// The buffer that the ports of `node` share, which is the same in all of their plans.
    pub fn shared_buffer(self, topology: &Topology, node: NodeId) -> Option<SharedBuffer> {
        self.of(topology, *topology.outgoing(node).first()?).shared_buffer.map(SharedBuffer::new)
    }
}
