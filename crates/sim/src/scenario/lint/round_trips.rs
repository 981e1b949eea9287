//! Round-trip times of a scenario's flows over empty queues.

use std::collections::BTreeMap;

use pliant_proto::time::Span;

use super::super::resolved::Resolved;
use crate::topology::Link;
use crate::traffic::FlowSpec;

/// Flows whose round-trip times are looked at.
const FLOWS_LOOKED_AT: usize = 1000;

/// By group, the longest round-trip time among the first flows of all, and source and destination of that flow.
pub(super) type FirstRoundTrips = BTreeMap<usize, ((u32, u32), Span)>;

pub(super) fn first_round_trips(resolved: &Resolved) -> FirstRoundTrips {
    let mut longest = BTreeMap::new();
    for flow in resolved.traffic().into_iter().flatten().take(FLOWS_LOOKED_AT) {
        let ends = (flow.source, flow.destination);
        let most: &mut ((u32, u32), Span) = longest.entry(usize::from(flow.group)).or_insert((ends, Span::ZERO));
        let time = round_trip_of(resolved, &flow);
        if time > most.1 {
            *most = (ends, time);
        }
    }
    longest
}

/// Longest round-trip time of a group's first flows over empty queues.
pub(super) fn round_trip(resolved: &Resolved, group: usize) -> Span {
    let flows = resolved.traffic().into_iter().flatten().filter(|flow| usize::from(flow.group) == group);
    flows.take(FLOWS_LOOKED_AT).map(|flow| round_trip_of(resolved, &flow)).max().unwrap_or_default()
}

fn round_trip_of(resolved: &Resolved, flow: &FlowSpec) -> Span {
    let of_link = |&Link { rate, delay, .. }: &Link| {
        let packet = rate.time_for(u64::from(resolved.wire().wire_bytes(resolved.mss())));
        let answer = rate.time_for(u64::from(resolved.wire().wire_bytes(0)));
        delay.times(2).plus(packet).plus(answer)
    };
    resolved.path(flow.source, flow.destination).map(of_link).fold(Span::ZERO, Span::plus)
}
