//! What groups and queues together make of each other: classes that part nothing, thresholds for slower links.

use pliant_proto::units::Rate;

use super::super::file::document::Document;
use super::super::file::group::{GroupSpec, REFLEX_TABLE};
use super::super::network::marking::{EcnSpec, NotEct};
use super::super::network::queues::QueuesSpec;
use super::super::resolved::Resolved;
use super::round_trips::FirstRoundTrips;
use crate::tables::KeyError;
use crate::topology::Link;
use crate::traffic::TrafficSpec;

/// A class of its own that changes nothing, because all classes in use go through one queue everywhere: `traffic.NAME.class`
/// and why. Where variants of the file choose other queues, or the command line chose these, one queue is what others are
/// held against.
pub(super) fn idle_classes(document: &Document, resolved: &Resolved) -> Vec<KeyError> {
    let spec = &resolved.spec;
    let is_meant = variants_choose_queues(document) || document.is_from_command_line("queues.plan");
    if is_meant || !spec.traffic.values().all(uses_one_class) {
        return Vec::new();
    }
    let plans = [Some(&spec.queues), spec.host_queues.as_ref()];
    let classes =
        || spec.traffic.values().flat_map(|group| [group.keys.class, group.keys.ack_class.unwrap_or(group.keys.class)]);
    let is_one = |plan: &QueuesSpec| {
        let mut queues = classes().map(|class| plan.queue_of(class));
        let first = queues.next();
        queues.all(|queue| Some(queue) == first)
    };
    if !plans.into_iter().flatten().flat_map(QueuesSpec::tables).all(|(_, plan)| is_one(plan)) {
        return Vec::new();
    }
    let class = |group: &GroupSpec| group.keys.class;
    let first = spec.traffic.values().next();
    let second = first.and_then(|first| spec.traffic.values().find(|other| class(other) != class(first)));
    let oddity = |(name, group): (&String, &GroupSpec)| {
        let key = format!("traffic.{name}.class");
        // The first group with another class.
        let other = [first, second].into_iter().flatten().find(|other| class(other) != class(group))?;
        let queue = &spec.queues.queue_for(group.keys.class)?.name;
        let why = format!(
            "has no effect: classes {} and {} both go through \"{queue}\"; `queues.plan` has plans that part them, such as \
             \"dwrr-9-1\" or \"strict\"",
            group.keys.class, other.keys.class
        );
        document.gives(&key).then_some((key, why))
    };
    // Of two groups either could be the one apart: once is enough.
    spec.traffic.iter().rev().find_map(oddity).into_iter().collect()
}

/// Whether data of the group is of one class, which the file says.
fn uses_one_class(group: &GroupSpec) -> bool {
    let transport = group.keys.transport;
    transport.family().classes(transport, group.keys.class, &group.tables).is_empty()
        && !transport.traits().has_credits
        && !group.tables.contains_key(REFLEX_TABLE)
        && !matches!(group.keys.traffic, TrafficSpec::Trace(_))
}

/// Whether a variant of the file chooses queues.
fn variants_choose_queues(document: &Document) -> bool {
    let variants = document.root().get("variants").and_then(toml::Value::as_table);
    let chooses = |variant: &toml::Value| {
        let keys = variant.as_table().into_iter().flat_map(toml::Table::keys);
        keys.into_iter().any(|key| key.split('.').next().is_some_and(|table| table.ends_with("queues")))
    };
    variants.is_some_and(|variants| variants.values().any(chooses))
}

/// Groups whose packets cannot be marked, in queues that drop these where they mark others.
pub(super) fn dropped_for_marks(document: &Document, resolved: &Resolved) -> Vec<KeyError> {
    let spec = &resolved.spec;
    let oddity = |(number, (name, group)): (usize, (&String, &GroupSpec))| {
        if !resolved.groups[number].transport.facts().not_ect {
            return None;
        }
        let (queue, marking) = spec.queues.tables().enumerate().find_map(|(place, (_, table))| {
            let at = table.queue_of(group.keys.class)?;
            let EcnSpec::On(marking) = table.queue[at].ecn else { return None };
            let above = document.root().get("queues");
            let own = place.checked_sub(1).map_or(above, |index| above?.get("ports")?.get(index));
            let written = |queues: Option<&toml::Value>| {
                let of_queue = queues.and_then(|queues| queues.get("queue")?.get(at)?.get("ecn"));
                of_queue.or_else(|| queues?.get("ecn")).cloned()
            };
            let is_meant = written(own).or_else(|| written(above)).is_some_and(|ecn| ecn.get("not_ect").is_some());
            (marking.not_ect != NotEct::Pass && !is_meant).then_some((&table.queue[at], marking))
        })?;
        let (transport, threshold) = (group.keys.transport.name(), String::from(marking.threshold));
        let why = format!(
            "packets of {transport} cannot be marked, and \"{}\" drops these from {threshold} on, where it marks others; \
             `ecn = {{ threshold = \"{threshold}\", not_ect = \"pass\" }}` lets them wait up to its limit, and \"drop\" says \
             that this is meant",
            queue.name
        );
        Some((format!("traffic.{name}.transport"), why))
    };
    spec.traffic.iter().enumerate().filter_map(oddity).collect()
}

/// A marking threshold of the plan's own below a seventh of rate × round trip (DCTCP, SIGCOMM 2010, section 3.4): a link
/// would run dry. The rate is that of the slowest link of the path.
pub(super) fn low_threshold(document: &Document, resolved: &Resolved, trips: &FirstRoundTrips) -> Option<KeyError> {
    let queues = document.root().get("queues");
    if ["ecn", "queue"].iter().any(|key| queues.and_then(|queues| queues.get(key)).is_some()) {
        return None;
    }
    let full: u32 = resolved.wire().wire_bytes(resolved.mss()).into();
    let mut worst: Option<(u64, String)> = None;
    for (&number, &(path, round_trip)) in trips {
        let group = resolved.spec.traffic.values().nth(number)?;
        let queue = resolved.spec.queues.queue_for(group.keys.class)?;
        let EcnSpec::On(marking) = queue.ecn else { continue };
        if !group.keys.transport.traits().needs_order {
            continue;
        }
        let rate: Rate = resolved.path(path.0, path.1).map(|link: &Link| link.rate).min()?;
        let threshold = marking.threshold.0.bytes(full, rate);
        let bytes = rate.bits_per_sec() as f64 / 8.0 * round_trip.as_secs_f64() / 7.0;
        if bytes > threshold as f64 && worst.as_ref().is_none_or(|(most, _)| bytes as u64 > *most) {
            let packets = (bytes / f64::from(full)).ceil();
            let why = format!(
                "the plan marks from {} on, and a seventh of rate × round trip ({rate}, {}) is {packets} packets: links \
                 would run dry; `ecn = \"{packets} packets\"` fits, with a `limit` above it",
                String::from(marking.threshold),
                round_trip.rounded()
            );
            worst = Some((bytes as u64, why));
        }
    }
    worst.map(|(_, why)| ("queues.ecn".to_owned(), why))
}
