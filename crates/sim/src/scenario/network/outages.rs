//! The array `outages`: hosts, links and switches that are down, or hosts that send badly, for a while; and when paths move.

use std::collections::BTreeSet;

use pliant_proto::time::{Instant, Span};
use serde::{Deserialize, Serialize};

use crate::engine::{LinkLoss, LossKind, Reroute};
use crate::routing::Routing;
use crate::suggest;
use crate::tables::KeyError;
use crate::topology::{LinkId, NodeId, Topology, TopologyError};
use crate::traffic::HostSet;
use crate::units_serde;

/// Most moves of paths in a run: each has its tables.
const MAX_REROUTES: usize = 64;

/// Hosts, links or switches that are down for a while, or hosts whose packets are lost.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutageSpec {
    /// The hosts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hosts: Option<HostSet>,
    /// Links, each in either direction, as `ports.csv` names its port; the whole cable is down.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<String>,
    /// Switches by name, such as `"spine 0"`: all of their links are down. They are no host's only switch.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub switches: Vec<String>,
    /// From when on. Default: 0s.
    #[serde(default, with = "units_serde")]
    pub from: Span,
    /// Until when. Default: to the end.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "units_serde::optional")]
    pub until: Option<Span>,
    /// So long after links fail, and after they come back, paths move. Default: they do not.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "units_serde::optional")]
    pub reroute_after: Option<Span>,
    /// The probability with which each packet that they send is lost, in (0, 1]; they hear everything. Default: they are
    /// down, and neither send nor receive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<f64>,
}

impl OutageSpec {
    /// The links that are down, both directions of each; the key that is wrong otherwise.
    fn cables(&self, topology: &Topology) -> Result<BTreeSet<u32>, (&'static str, String)> {
        let mut dead = BTreeSet::new();
        // The only link of a host is the host's own matter.
        let only_host = |link: LinkId| {
            let link = topology.link(link);
            [link.from, link.to].into_iter().find(|&end| topology.is_host(end) && !topology.has_several_links(end))
        };
        for name in &self.links {
            let Some(link) = topology.link_named(name) else {
                let may_fail = topology.link_ids().filter(|&link| only_host(link).is_none());
                let all: Vec<String> = may_fail.map(|link| topology.link_name(link)).collect();
                return Err(("links", suggest::unknown("link", name, &all)));
            };
            if let Some(host) = only_host(link) {
                let host = topology.node_name(host);
                return Err(("links", format!("{name} is the only link of {host}: name the host as `hosts`")));
            }
            dead.extend([link.0, link.reverse().0]);
        }
        for name in &self.switches {
            let switches = || (topology.hosts()..topology.nodes()).map(NodeId);
            let Some(switch) = switches().find(|&switch| topology.node_name(switch) == *name) else {
                let all: Vec<String> = switches().map(|switch| topology.node_name(switch)).collect();
                return Err(("switches", suggest::unknown("switch", name, &all)));
            };
            for &link in topology.outgoing(switch) {
                if let Some(host) = only_host(link) {
                    let host = topology.node_name(host);
                    let why = format!("{name} is the only switch of hosts such as {host}: name these as `hosts`, too");
                    return Err(("switches", why));
                }
                dead.extend([link.0, link.reverse().0]);
            }
        }
        Ok(dead)
    }
}

/// When paths move, by time; or the first key that is wrong.
/// Links have the `weights` that they have from the start.
pub(in super::super) fn reroutes(
    specs: &[OutageSpec],
    topology: &Topology,
    weights: &[u64],
) -> Result<Vec<Reroute>, KeyError> {
    // When each set of links leaves the paths, and when it returns.
    let mut moves: Vec<(usize, Span, Span, BTreeSet<u32>)> = Vec::new();
    for (index, spec) in specs.iter().enumerate() {
        let Some(after) = spec.reroute_after else { continue };
        let refuse = |key: &str, why: String| (format!("outages.{index}.{key}"), why);
        let dead = spec.cables(topology).map_err(|(key, why)| refuse(key, why))?;
        if dead.is_empty() {
            return Err(refuse(
                "reroute_after",
                "is about `links` and `switches`: a host has no other path".to_owned(),
            ));
        }
        let back = spec.until.map_or(Span::MAX, |until| until.plus(after));
        moves.push((index, spec.from.plus(after), back, dead));
    }
    let times: BTreeSet<Span> =
        moves.iter().flat_map(|(_, from, back, _)| [*from, *back]).filter(|at| *at < Span::MAX).collect();
    if times.len() > MAX_REROUTES {
        return Err(("outages".to_owned(), format!("paths move {} times, {MAX_REROUTES} are the most", times.len())));
    }
    let at_time = |at: Span| {
        let now = moves.iter().filter(|(_, from, back, _)| (*from..*back).contains(&at));
        let dead: BTreeSet<u32> = now.clone().flat_map(|(.., dead)| dead).copied().collect();
        let routing = Routing::without(topology, &dead).map_err(|error| {
            let index = now.map(|(index, ..)| *index).max().unwrap_or(0);
            let why = match error {
                TopologyError::Unreachable { from, to, .. } => {
                    let name = |link: &u32| format!("`{}`", topology.link_name(LinkId(*link)));
                    let dead: Vec<String> = dead.iter().take(4).map(name).collect();
                    let more = if dead.len() < 4 { "" } else { " and more" };
                    format!(
                        "without {}{more} there is no path from {from} to {to}: leave one, or leave this key out",
                        dead.join(", ")
                    )
                }
                other => other.to_string(),
            };
            (format!("outages.{index}.reroute_after"), why)
        })?;
        let routing = if weights.is_empty() { routing } else { routing.weighted(weights.to_vec()) };
        Ok(Reroute { at: Instant::ZERO.after(at), dead, routing })
    };
    times.into_iter().map(at_time).collect()
}

/// What links lose for it, or the first key that is wrong.
pub(in super::super) fn resolve(specs: &[OutageSpec], topology: &Topology) -> Result<Vec<LinkLoss>, KeyError> {
    let mut losses = Vec::new();
    for (index, spec) in specs.iter().enumerate() {
        let refuse = |key: &str, why: String| (format!("outages.{index}.{key}"), why);
        let hosts = spec.hosts.as_ref().map(|hosts| hosts.resolve(topology.hosts())).transpose();
        let hosts = hosts.map_err(|why| refuse("hosts", why))?.unwrap_or_default();
        let cables = spec.cables(topology).map_err(|(key, why)| refuse(key, why))?;
        if hosts.is_empty() && cables.is_empty() {
            return Err(refuse("hosts", "is missing, and so are `links` and `switches`".to_owned()));
        }
        if spec.loss.is_some() && !cables.is_empty() {
            return Err(refuse("loss", "is about `hosts`; the array `losses` has links that lose packets".to_owned()));
        }
        let until = spec.until.unwrap_or(Span::MAX);
        if until <= spec.from {
            return Err(refuse("until", "must be after `from`".to_owned()));
        }
        let probability = spec.loss.unwrap_or(1.0);
        if !(probability > 0.0 && probability <= 1.0) {
            return Err(refuse("loss", "must be above 0 and at most 1".to_owned()));
        }
        let kind =
            LossKind::Within { from: Instant::ZERO.after(spec.from), until: Instant::ZERO.after(until), probability };
        losses.extend(cables.into_iter().map(|link| LinkLoss { link, kind }));
        for host in hosts {
            for uplink in topology.outgoing(NodeId(host)) {
                losses.push(LinkLoss { link: uplink.0, kind });
                if spec.loss.is_none() {
                    losses.push(LinkLoss { link: uplink.reverse().0, kind });
                }
            }
        }
    }
    Ok(losses)
}
