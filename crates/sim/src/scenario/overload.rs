//! Warns of links that all groups together offer more than they carry.

use std::collections::BTreeMap;

use pliant_proto::units::Rate;

use super::Resolved;
use crate::topology::NodeId;
use crate::traffic::Offered;

/// Sums of loads that come to exactly a link's rate may exceed it by rounding.
const ROUNDING: f64 = 1e-6;

/// What carries the traffic of several groups.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Carrier {
    FromHost(u32),
    ToHost(u32),
    /// All links above the racks together.
    Uplinks,
}

impl Resolved {
    /// The link, if any, that the groups at some time together offer most beyond what it carries, in a line: queues
    /// before it grow without end. Each group alone is checked when the scenario is resolved.
    pub(super) fn overload_warning(&self) -> Option<String> {
        // A trace that vanished is told of when the scenario runs.
        let offered = self.offered().ok()?;
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
                let excess = *sum / capacity.bits_per_sec() as f64;
                if excess > 1.0 + ROUNDING && worst.is_none_or(|(most, ..)| excess > most) {
                    worst = Some((excess, carrier, now));
                }
            }
        }
        worst.map(|(_, carrier, now)| self.describe(carrier, now, &offered))
    }

    fn capacity(&self, carrier: Carrier) -> Option<Rate> {
        match carrier {
            Carrier::FromHost(host) => Some(self.topology.link(self.topology.uplink(NodeId(host))).rate),
            Carrier::ToHost(host) => Some(self.topology.link(self.topology.uplink(NodeId(host)).reverse()).rate),
            Carrier::Uplinks => self.fabric.uplinks,
        }
    }

    fn describe(&self, carrier: Carrier, now: u64, offered: &[Offered]) -> String {
        let active = offered.iter().filter(|group| group.window.contains(&now));
        let of_group = |group: &Offered| carriers(group).find(|(other, _)| *other == carrier).map(|(_, load)| load);
        let parts: Vec<(&str, f64)> = active
            .filter_map(|group| Some((self.groups[usize::from(group.group)].name.as_str(), of_group(group)?)))
            .collect();
        let total: f64 = parts.iter().map(|(_, load)| load / 1e9).sum();
        let parts: Vec<String> = parts.iter().map(|(name, load)| format!("{name} {:.3}", load / 1e9)).collect();
        let (link, rate) = match carrier {
            Carrier::FromHost(host) => (format!("the link from host {host}"), self.capacity(carrier)),
            Carrier::ToHost(host) => (format!("the link to host {host}"), self.capacity(carrier)),
            Carrier::Uplinks => ("the links above the racks together".to_owned(), self.fabric.uplinks),
        };
        let rate = rate.map_or(String::new(), |rate| format!(", of {rate}"));
        format!("traffic puts {total:.3} Gbit/s ({}) on {link}{rate}: its queue grows without end", parts.join(", "))
    }
}

fn carriers(group: &Offered) -> impl Iterator<Item = (Carrier, f64)> {
    let from = group.from_hosts.iter().map(|&(host, load)| (Carrier::FromHost(host), load));
    let to = group.to_hosts.iter().map(|&(host, load)| (Carrier::ToHost(host), load));
    from.chain(to).chain([(Carrier::Uplinks, group.between_racks)])
}
