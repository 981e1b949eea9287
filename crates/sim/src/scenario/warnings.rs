//! What a scenario can do but is hardly meant to.

use pliant_proto::time::Span;

use super::Resolved;
use super::document::Document;
use crate::topology::{Link, NodeId};

/// Flows whose round-trip times are looked at.
const FLOWS_LOOKED_AT: usize = 1000;

/// One line for each oddity, which names file, line and key.
pub(super) fn warnings(document: &Document, resolved: &Resolved) -> Vec<String> {
    let mut warnings = Vec::new();
    for (number, (name, group)) in resolved.spec.traffic.iter().enumerate() {
        let Some(reflex) = &group.reflex else { continue };
        let host_queues = resolved.spec.host_queues.as_ref().unwrap_or(&resolved.spec.queues);
        let queues = [("queues", &resolved.spec.queues), ("host_queues", host_queues)];
        if let Some((key, why)) = reflex.oddity(group, &queues, round_trip(resolved, number)) {
            warnings.push(document.error(&format!("traffic.{name}.{key}"), why).to_string());
        }
    }
    warnings.extend(resolved.overload_warning());
    warnings
}

/// Longest round-trip time of a group's first flows over empty queues.
fn round_trip(resolved: &Resolved, group: usize) -> Span {
    let flows = resolved.traffic().into_iter().flatten().filter(|flow| usize::from(flow.group) == group);
    let times = flows.take(FLOWS_LOOKED_AT).map(|flow| {
        let (mut node, destination, mut time) = (NodeId(flow.source), NodeId(flow.destination), Span::ZERO);
        while let Some(&link) = resolved.routing.next_links(node, destination).first() {
            let Link { to, rate, delay, .. } = *resolved.topology.link(link);
            let packet = rate.time_for(u64::from(resolved.wire().wire_bytes(resolved.mss())));
            let answer = rate.time_for(u64::from(resolved.wire().wire_bytes(0)));
            (node, time) = (to, time.plus(delay.times(2)).plus(packet).plus(answer));
        }
        time
    });
    times.max().unwrap_or_default()
}
