//! The link that all groups together load most, and a warning where that is more than it carries.

use std::collections::BTreeMap;

use pliant_proto::units::Rate;

use super::super::resolved::Resolved;
use crate::topology::NodeId;
use crate::traffic::Offered;

/// Sums of loads that come to exactly a link's rate may exceed it by rounding.
const ROUNDING: f64 = 1e-6;

/// Most groups that are named, the largest first if there are more.
const GROUPS_NAMED: usize = 16;

/// What carries the traffic of several groups.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Carrier {
    FromHost(u32),
    ToHost(u32),
    /// All links between a rack's switch and other switches, away from it.
    FromRack(u32),
    /// The same towards it.
    ToRack(u32),
}

impl Resolved {
    /// What the groups together put on the link that they load most at some time, in a line; `None` of traffic that has
    /// no mean.
    pub fn busiest_link(&self) -> Option<String> {
        self.busiest(|_| true).map(|(_, told)| told)
    }

    /// The same, of groups that go on, if it is more than the link carries: queues before it grow without end. Each group
    /// alone is checked when the scenario is resolved.
    pub(in super::super) fn overload_warning(&self) -> Option<String> {
        let (load, told) = self.busiest(|group| !group.once)?;
        (load > 1.0 + ROUNDING).then(|| format!("traffic puts {told}: its queue grows without end"))
    }

    /// The greatest load of a link as a part of its rate, and what makes it.
    fn busiest(&self, counts: impl Fn(&Offered) -> bool) -> Option<(f64, String)> {
        // A trace that vanished is told of when the scenario runs.
        let mut offered = self.offered().ok()?;
        offered.retain(counts);
        let mut changes: Vec<(u64, bool, usize)> = Vec::with_capacity(2 * offered.len());
        for (number, group) in offered.iter().enumerate() {
            changes.extend([(group.window.start, true, number), (group.window.end, false, number)]);
        }
        // Ends come before starts of the same time.
        changes.sort_unstable();
        let mut loads = BTreeMap::<Carrier, f64>::new();
        let mut worst: Option<(f64, Carrier, u64)> = None;
        for (now, starts, number) in changes {
            for (carrier, load) in carriers(&offered[number]) {
                let sum = loads.entry(carrier).or_default();
                *sum += if starts { load } else { -load };
                // Between two starts loads only fall.
                let Some(capacity) = self.capacity(carrier).filter(|_| starts) else { continue };
                let part = *sum / capacity.bits_per_sec() as f64;
                if worst.is_none_or(|(most, ..)| part > most) {
                    worst = Some((part, carrier, now));
                }
            }
        }
        worst.map(|(load, carrier, now)| (load, self.describe(carrier, now, &offered)))
    }

    fn capacity(&self, carrier: Carrier) -> Option<Rate> {
        match carrier {
            Carrier::FromHost(host) | Carrier::ToHost(host) => Some(self.topology.host_rate(NodeId(host))),
            Carrier::FromRack(rack) | Carrier::ToRack(rack) => {
                let above = self.topology.outgoing(self.switch_of(rack)).iter().map(|&link| self.topology.link(link));
                let rates = above.filter(|link| !self.topology.is_host(link.to)).map(|link| link.rate.bits_per_sec());
                let all: u64 = rates.sum();
                (all > 0).then(|| Rate::from_bits_per_sec(all))
            }
        }
    }

    fn switch_of(&self, rack: u32) -> NodeId {
        NodeId(self.topology.hosts() + rack)
    }

    fn describe(&self, carrier: Carrier, now: u64, offered: &[Offered]) -> String {
        let active = offered.iter().filter(|group| group.window.contains(&now));
        let of_group = |group: &Offered| carriers(group).find(|(other, _)| *other == carrier).map(|(_, load)| load);
        let mut parts: Vec<(&str, f64)> = active
            .filter_map(|group| Some((self.groups[usize::from(group.group)].name.as_str(), of_group(group)?)))
            .collect();
        if parts.len() > GROUPS_NAMED {
            parts.sort_by(|(_, a), (_, b)| b.total_cmp(a));
        }
        let total: f64 = parts.iter().map(|(_, load)| load / 1e9).sum();
        let others = parts.len().saturating_sub(GROUPS_NAMED);
        let named = parts.iter().take(GROUPS_NAMED).map(|(name, load)| format!("{name} {:.3}", load / 1e9));
        let others = (others > 0).then(|| format!("and {others} other groups"));
        let parts: Vec<String> = named.chain(others).collect();
        let switch = |rack| self.topology.node_name(self.switch_of(rack));
        let links = |host| if self.topology.has_several_links(NodeId(host)) { "links" } else { "link" };
        let link = match carrier {
            Carrier::FromHost(host) => format!("the {} from host {host}", links(host)),
            Carrier::ToHost(host) => format!("the {} to host {host}", links(host)),
            Carrier::FromRack(rack) => format!("the links from {} to other switches", switch(rack)),
            Carrier::ToRack(rack) => format!("the links from other switches to {}", switch(rack)),
        };
        let rate = self.capacity(carrier).map_or(String::new(), |rate| format!(", of {rate}"));
        format!("{total:.3} Gbit/s ({}) on {link}{rate}", parts.join(", "))
    }
}

fn carriers(group: &Offered) -> impl Iterator<Item = (Carrier, f64)> {
    let from = group.from_hosts.iter().map(|&(host, load)| (Carrier::FromHost(host), load));
    let to = group.to_hosts.iter().map(|&(host, load)| (Carrier::ToHost(host), load));
    let leaves = group.from_racks.iter().map(|&(rack, load)| (Carrier::FromRack(rack), load));
    let comes = group.to_racks.iter().map(|&(rack, load)| (Carrier::ToRack(rack), load));
    from.chain(to).chain(leaves).chain(comes)
}
