//! What a scenario can do but is hardly meant to.

use pliant_proto::time::{Instant, Span};

use super::super::file::document::Document;
use super::super::file::group::GroupSpec;
use super::super::file::spec::{RoutingName, ScenarioSpec};
use super::super::network::marking::EcnSpec;
use super::super::network::queues::{QueueSpec, QueuesSpec};
use super::super::resolved::Resolved;
use super::odd_queues::{dropped_for_marks, idle_classes, low_threshold};
use super::round_trips::{first_round_trips, round_trip};
use crate::families::TCP_TABLE;
use crate::tables::KeyError;
use crate::traffic::{DestinationChoice, TrafficSpec};

/// Flows among which one that is measured is looked for.
const FLOWS_SEARCHED: usize = 100_000;

/// One line for each oddity, which names file, line and key.
pub(in super::super) fn warnings(document: &Document, resolved: &Resolved) -> Vec<String> {
    let mut warnings = Vec::new();
    let mut warn = |name: &str, (key, why): KeyError| {
        warnings.push(document.error(&format!("traffic.{name}.{key}"), why).to_string());
    };
    let trips = first_round_trips(resolved);
    for (number, (name, group)) in resolved.spec.traffic.iter().enumerate() {
        if let Some(reflex) = &resolved.groups[number].reflex {
            reflex.oddity(round_trip(resolved, number)).into_iter().for_each(|oddity| warn(name, oddity));
        }
        if let Some(oddity) = early_timeout(group, trips.get(&number).map(|(_, time)| time)) {
            warn(name, oddity);
        }
        if let Some(oddity) = shared_priorities(group, &resolved.spec.queues) {
            warn(name, oddity);
        }
        let transport = group.keys.transport;
        let keeps_order = matches!(resolved.spec.routing, RoutingName::Ecmp | RoutingName::Flowlet);
        if transport.traits().needs_order && !group.keys.pinned && !keeps_order {
            let why = "takes reordering by `routing` for loss; `pinned = true` keeps its flows on one path each";
            warn(name, ("transport".to_owned(), format!("{} {why}", transport.name())));
        }
    }
    let odd_queues = idle_classes(document, resolved)
        .into_iter()
        .chain(low_threshold(document, resolved, &trips))
        .chain(dropped_for_marks(document, resolved))
        .chain(neighbours(document, resolved));
    warnings.extend(odd_queues.map(|(key, why)| document.error(&key, why).to_string()));
    let unmeasured = |name: &String| document.error(&format!("traffic.{name}"), UNMEASURED).to_string();
    warnings.extend(groups_unmeasured(resolved).iter().map(unmeasured));
    warnings.extend(resolved.overload_warning());
    warnings.extend(in_step(resolved).map(|why| document.error("queues", why).to_string()));
    warnings
}

/// Periodic groups that name no hosts and do not say whom each sends to: each host sends to the next one, which is mostly
/// in its own rack.
fn neighbours(document: &Document, resolved: &Resolved) -> Vec<KeyError> {
    let racks = &resolved.fabric.racks;
    let flows = racks.len();
    let stay = (0..flows).filter(|&host| racks[host] == racks[(host + 1) % flows]).count();
    if stay == flows || 2 * stay <= flows {
        return Vec::new();
    }
    let oddity = |(name, group): (&String, &GroupSpec)| {
        let TrafficSpec::Periodic(spec) = &group.keys.traffic else { return None };
        let is_meant = document.gives(&format!("traffic.{name}.destination_choice"));
        let why = format!(
            "each host sends to the next one, and {stay} of {flows} flows stay in their rack; `destination_choice = \
             \"random\"`, or `sources` and `destinations`, send them through the network, and \"paired\" says that this is \
             meant"
        );
        (spec.sources.is_none() && spec.destinations.is_none() && spec.destination_choice == DestinationChoice::Paired)
            .then_some((format!("traffic.{name}.destination_choice"), why))
            .filter(|_| !is_meant)
    };
    resolved.spec.traffic.iter().filter_map(oddity).collect()
}

/// Hosts exactly in step where that decides which flows hear of congestion.
fn in_step(resolved: &Resolved) -> Option<String> {
    if resolved.spec.host_jitter.is_some() {
        return None;
    }
    let (queue, why) = tail_drop_in_step(resolved).or_else(|| marks_in_step(resolved))?;
    resolved.traffic().ok()?.nth(1)?;
    Some(format!(
        "\"{queue}\" {why} (phase effects); `host_jitter = \"1us\"` breaks ties, and \"0s\" says that this is meant"
    ))
}

/// Groups whose transport fills queues, each with its queue.
fn queue_fillers(spec: &ScenarioSpec) -> impl Iterator<Item = (&GroupSpec, &QueueSpec)> {
    let fillers = spec.traffic.values().filter(|group| group.keys.transport.traits().fills_queues);
    fillers.filter_map(|group| Some((group, spec.queues.queue_for(group.keys.class)?)))
}

/// Flows that hear of congestion by losses alone, at queues that drop by their tail.
fn tail_drop_in_step(resolved: &Resolved) -> Option<(&str, &'static str)> {
    let tail_drop = |queue: &QueueSpec| queue.ecn == EcnSpec::Off && queue.red.is_none();
    let (_, queue) = queue_fillers(&resolved.spec).find(|(_, queue)| tail_drop(queue))?;
    Some((&queue.name, "drops by its tail, and hosts are exactly in step: every tie falls to the same flows"))
}

/// Flows without an end at a marking threshold, where packets come as evenly as they leave: two equal flows of DCTCP share a
/// link by 7.2 to 2.3. Behind a link that is slower than the hosts' they share it evenly. Flows that come and go beside
/// them change little.
fn marks_in_step(resolved: &Resolved) -> Option<(&str, &'static str)> {
    if resolved.topology.links().iter().any(|link| link.rate < resolved.fabric.host_rate) {
        return None;
    }
    let (_, queue) = queue_fillers(&resolved.spec)
        .find(|(group, queue)| group.keys.traffic.has_endless_flows() && queue.ecn != EcnSpec::Off)?;
    let why = "marks from a threshold on, and hosts are exactly in step: of two flows without an end one may keep three \
               times the other's rate";
    Some((&queue.name, why))
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
        // What follows a flow of a closed loop is not known before it runs.
        let goes_on = flow.again.is_some_and(|again| again.until > measured.start) && flow.start < measured.end;
        (*any, *counted) = (true, *counted || goes_on || measured.contains(&flow.start));
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

/// Classes of a transport that should have a queue each, and share one.
fn shared_priorities(group: &GroupSpec, queues: &QueuesSpec) -> Option<KeyError> {
    let (transport, own) = (group.keys.transport, group.keys.class);
    let plan = transport.traits().queue_per_class?;
    let classes = transport.family().classes(transport, own, &group.tables);
    let (_, to) = classes.last()?;
    let shares = |class: &u8| queues.queue_of(class - 1) == queues.queue_of(*class);
    let first = (own + 1..=*to).find(shares)?;
    let name = queues.queue_of(first).map_or("", |queue| &queues.queue[queue].name);
    let why = format!(
        "{own}: classes {own} to {to} are priorities and backup, but {} and {first} share the queue \"{name}\"; the plan \
         {plan} has one for each",
        first - 1
    );
    Some(("class".to_owned(), why))
}

/// A timeout that passes before the first answer can come: every flow sends its first packets twice.
fn early_timeout(group: &GroupSpec, round_trip: Option<&Span>) -> Option<KeyError> {
    let initial = group.tables.get(TCP_TABLE)?.get("initial_rto")?.as_str()?;
    let (&round_trip, initial) = (round_trip?, initial.parse::<Span>().ok()?);
    let why = format!(
        "{initial} is shorter than a round trip of {}: whatever a flow sends first, it sends twice",
        round_trip.rounded()
    );
    (initial < round_trip).then(|| ("tcp.initial_rto".to_owned(), why))
}
