//! What a scenario can do but is hardly meant to.

use std::collections::BTreeMap;

use pliant_proto::time::{Instant, Span};

use super::Resolved;
use super::document::Document;
use super::group::{GroupSpec, TransportName};
use super::marking::EcnSpec;
use super::odd_queues::{idle_classes, low_threshold};
use super::queues::{KeyError, QueuesSpec};
use super::reflex::queue_of;
use super::spec::RoutingName;
use crate::topology::Link;
use crate::traffic::FlowSpec;

/// Flows whose round-trip times are looked at.
const FLOWS_LOOKED_AT: usize = 1000;

/// Flows among which one that is measured is looked for.
const FLOWS_SEARCHED: usize = 100_000;

/// One line for each oddity, which names file, line and key.
pub(super) fn warnings(document: &Document, resolved: &Resolved) -> Vec<String> {
    let mut warnings = Vec::new();
    let mut warn = |name: &str, (key, why): KeyError| {
        warnings.push(document.error(&format!("traffic.{name}.{key}"), why).to_string());
    };
    let trips = first_round_trips(resolved);
    for (number, (name, group)) in resolved.spec.traffic.iter().enumerate() {
        if let Some(reflex) = &group.reflex {
            reflex.oddity(round_trip(resolved, number)).into_iter().for_each(|oddity| warn(name, oddity));
        }
        if let Some(oddity) = early_timeout(group, trips.get(&number).map(|(_, time)| time)) {
            warn(name, oddity);
        }
        if let Some(oddity) = shared_priorities(group, &resolved.spec.queues) {
            warn(name, oddity);
        }
        if group.transport.is_tcp() && !group.pinned && resolved.spec.routing != RoutingName::Ecmp {
            let why = "takes reordering by `routing` for loss; `pinned = true` keeps its flows on one path each";
            warn(name, ("transport".to_owned(), format!("{} {why}", group.transport.name())));
        }
    }
    let odd_queues = idle_classes(document, resolved).into_iter().chain(low_threshold(document, resolved, &trips));
    warnings.extend(odd_queues.map(|(key, why)| document.error(&key, why).to_string()));
    let unmeasured = |name: &String| document.error(&format!("traffic.{name}"), UNMEASURED).to_string();
    warnings.extend(groups_unmeasured(resolved).iter().map(unmeasured));
    warnings.extend(resolved.overload_warning());
    warnings.extend(in_step(resolved).map(|why| document.error("queues", why).to_string()));
    warnings
}

/// Flows that hear of congestion by losses alone, at queues that drop by their tail, from hosts exactly in step.
fn in_step(resolved: &Resolved) -> Option<String> {
    let spec = &resolved.spec;
    if spec.host_jitter.is_some() {
        return None;
    }
    let is_tcp = |group: &&GroupSpec| group.transport.is_tcp() || group.transport == TransportName::Kernel;
    let tail_drop = spec.traffic.values().filter(is_tcp).find_map(|group| {
        let queue = &spec.queues.queue[queue_of(&spec.queues, group.class)?];
        (queue.ecn == EcnSpec::Off && queue.red.is_none()).then_some(&queue.name)
    })?;
    resolved.traffic().ok()?.nth(1)?;
    Some(format!(
        "\"{tail_drop}\" drops by its tail, and hosts are exactly in step: every tie falls to the same flows (phase \
         effects); `host_jitter = \"1us\"` breaks ties, and \"0s\" says that this is meant"
    ))
}

const UNMEASURED: &str =
    "all its flows start before `warmup` is over or after `measure_until`: none counts in the statistics";

/// Names of the groups that have flows, but none that is measured.
fn groups_unmeasured(resolved: &Resolved) -> Vec<String> {
    let spec = &resolved.spec;
    let measured = Instant::ZERO.after(spec.warmup)..Instant::ZERO.after(spec.measure_until.unwrap_or(Span::MAX));
    if measured.start == Instant::ZERO && spec.measure_until.is_none() {
        return Vec::new();
    }
    // Whether each group has flows, and whether one of them counts.
    let mut found = vec![(false, false); spec.traffic.len()];
    let mut flows = resolved.traffic().into_iter().flatten();
    for flow in flows.by_ref().take(FLOWS_SEARCHED) {
        let (any, counted) = &mut found[usize::from(flow.group)];
        (*any, *counted) = (true, *counted || measured.contains(&flow.start));
        if found.iter().all(|&(_, counted)| counted) {
            return Vec::new();
        }
    }
    if flows.next().is_some() {
        return Vec::new();
    }
    let unmeasured = spec.traffic.keys().zip(found).filter(|(_, found)| *found == (true, false));
    unmeasured.map(|(name, _)| name.clone()).collect()
}

/// Priorities of ATP that are none, because a queue takes several of its classes.
fn shared_priorities(group: &GroupSpec, queues: &QueuesSpec) -> Option<KeyError> {
    if group.transport != TransportName::Atp {
        return None;
    }
    let classes = group.atp.clone().unwrap_or_default().classes();
    let classes = group.class..=group.class.saturating_add(classes - 1);
    let first =
        classes.clone().find(|&class| class > group.class && queue_of(queues, class - 1) == queue_of(queues, class))?;
    let name = queue_of(queues, first).map_or("", |queue| &queues.queue[queue].name);
    let (from, to) = (classes.start(), classes.end());
    let why = format!(
        "{}: classes {from} to {to} are priorities and backup, but {} and {first} share the queue \"{name}\"; the plan atp has one for each",
        group.class,
        first - 1
    );
    Some(("class".to_owned(), why))
}

/// A timeout that passes before the first answer can come: every flow sends its first packets twice.
fn early_timeout(group: &GroupSpec, round_trip: Option<&Span>) -> Option<KeyError> {
    let (&round_trip, initial) = (round_trip?, group.tcp.as_ref()?.initial_rto?);
    let why = format!(
        "{initial} is shorter than a round trip of {}: whatever a flow sends first, it sends twice",
        round_trip.rounded()
    );
    (initial < round_trip).then(|| ("tcp.initial_rto".to_owned(), why))
}

/// By group, the longest round-trip time among the first flows of all, and source and destination of that flow.
pub(super) type FirstRoundTrips = BTreeMap<usize, ((u32, u32), Span)>;

fn first_round_trips(resolved: &Resolved) -> FirstRoundTrips {
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
fn round_trip(resolved: &Resolved, group: usize) -> Span {
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
