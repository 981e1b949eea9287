//! From a group's keys to its transport with credits, and to that of its flows whose ends are not both deployed.

use pliant_proto::packet::WireFormat;
use pliant_proto::switch::QueuePlan;
use pliant_proto::switch::plan::{SchedulerConfig, ShaperRate};
use pliant_proto::transport::express_pass::{CreditConfig, credit_share};

use super::credit::{CreditCarrier, CreditKind, Variant};
use super::group::{GroupSpec, TransportName};
use super::presets::{CREDIT_BYTES, CREDIT_CLASS};
use super::queues::KeyError;
use super::resolve_group::{TcpParts, tcp_carrier};
use super::resolved::{Carrier, Legacy, Resolved};
use super::tcp::TcpSpec;

/// Traffic class of flows whose ends are not both deployed, unless a group says otherwise.
pub(super) const LEGACY_CLASS: u8 = 1;

/// What carries the flows of `group` whose ends are not both deployed, if hosts may differ.
pub(super) fn legacy_carrier(
    group: &mut GroupSpec,
    parts: TcpParts<'_>,
    partly: bool,
) -> Result<Option<Legacy>, KeyError> {
    let refuse = |key: &str, why: String| Err((key.to_owned(), why));
    if !(partly && group.transport.has_credits()) {
        let keys = [
            (group.legacy.is_some(), "legacy"),
            (group.legacy_class.is_some(), "legacy_class"),
            (group.legacy_tcp.is_some(), "legacy_tcp"),
        ];
        return match keys.into_iter().find(|(given, _)| *given) {
            Some((_, key)) => refuse(key, "needs a table [deployment] and a transport with credits".to_owned()),
            None => Ok(None),
        };
    }
    let transport = *group.legacy.get_or_insert(TransportName::Dctcp);
    let class = *group.legacy_class.get_or_insert(LEGACY_CLASS);
    if !transport.is_tcp() {
        return refuse("legacy", format!("{} is no member of the TCP family", transport.name()));
    }
    let mut legacy = GroupSpec {
        class,
        ack_class: Some(class),
        transport,
        credit: None,
        tcp: group.legacy_tcp.take(),
        ..group.clone()
    };
    let carrier = tcp_carrier(&mut legacy, parts);
    let carrier = carrier.map_err(|(key, why)| (key.replacen("tcp", "legacy_tcp", 1), why))?;
    group.legacy_tcp = legacy.tcp;
    Ok(Some(Legacy { transport, class, carrier }))
}

/// Writes the group's settings out and makes its transport with credits from them.
pub(super) fn credit_carrier(
    group: &mut GroupSpec,
    parts: TcpParts<'_>,
    plans: [&QueuePlan; 2],
) -> Result<CreditCarrier, KeyError> {
    let below = |(key, why): KeyError| (format!("credit.{key}"), why);
    let own = group.credit.clone().unwrap_or_default();
    own.check_keys(group.transport).map_err(below)?;
    let transport = group.transport;
    let class = own.class.unwrap_or(CREDIT_CLASS);
    let queues = plans.map(|plan| &plan.queues[usize::from(plan.queue_of_class[usize::from(class)])]);
    if let Some(queue) = queues.iter().find(|queue| queue.shaper.is_none()) {
        let why = format!(
            "credits are in class {class}, but its queue \"{}\" is not shaped: use the plan expresspass or flexpass",
            queue.name
        );
        return Err((if own.class.is_some() { "credit.class" } else { "transport" }.to_owned(), why));
    }
    let shaper = queues[0].shaper.expect("it was looked at");
    let full = WireFormat::from(parts.packets.framing).wire_bytes(parts.packets.mss.0 as u16);
    let reserve = match shaper.rate {
        ShaperRate::Share(share) => share / credit_share(CREDIT_BYTES, full),
        ShaperRate::Fixed(_) => 1.0,
    };
    let explicit = own.explicit(transport, reserve);
    let tcp = if transport == TransportName::ExpressPass {
        // Packets and classes only.
        let mut plain = GroupSpec { transport: TransportName::Dctcp, tcp: None, ..group.clone() };
        tcp_carrier(&mut plain, parts)?
    } else {
        let artifact = explicit.variant == Some(Variant::Artifact);
        let defaults =
            if artifact { parts.defaults.over(&TcpSpec::flexpass_artifact()) } else { parts.defaults.clone() };
        tcp_carrier(group, TcpParts { defaults: &defaults, ..parts })?
    };
    let credit = explicit.config(&tcp.config).map_err(below)?;
    for plan in plans {
        check_weights(plan, &credit, full).map_err(|why| ("transport".to_owned(), why))?;
    }
    let kind = match transport {
        TransportName::FlexPass => CreditKind::FlexPass(explicit.flex_pass(credit, &tcp.config).map_err(below)?),
        TransportName::Layered => CreditKind::Layered(credit, tcp.config.clone()),
        _ => match explicit.aeolus(&credit).map_err(below)? {
            Some(aeolus) => CreditKind::FlexPass(aeolus),
            None => CreditKind::ExpressPass(credit),
        },
    };
    group.credit = Some(explicit);
    Ok(CreditCarrier { kind, controller: tcp.controller })
}

/// How far weights, whole numbers, may miss a share of the link.
const WEIGHT_SLACK: f64 = 0.002;

/// Refuses credits that release more data, in packets of `full` bytes, than the queue of that data is sure to send: what
/// is released beyond that has no place, and is lost in the end.
fn check_weights(plan: &QueuePlan, credit: &CreditConfig, full: u16) -> Result<(), String> {
    let queue_of = |class: usize| usize::from(plan.queue_of_class[class]);
    let shaper = plan.queues[queue_of(credit.credit_class.class())].shaper;
    let Some(ShaperRate::Share(share)) = shaper.map(|shaper| shaper.rate) else { return Ok(()) };
    let (least, greatest) = credit.credit_bytes;
    let mean = (u32::from(least) + u32::from(greatest)).div_ceil(2) as u16;
    let released = share / credit_share(mean, full);
    let queue = queue_of(credit.data_class.class());
    let sure = match plan.scheduler {
        SchedulerConfig::Dwrr { strict, .. } | SchedulerConfig::Wfq { strict } if queue >= usize::from(strict) => {
            let weights = plan.queues[usize::from(strict)..].iter().map(|queue| f64::from(queue.weight));
            f64::from(plan.queues[queue].weight) / weights.sum::<f64>()
        }
        _ => 1.0,
    };
    if released <= sure + WEIGHT_SLACK {
        return Ok(());
    }
    Err(format!(
        "credits of {mean} bytes at {:.2} % of a link fill {:.0} % of it with packets of {full} bytes, but their queue \
         \"{}\" is sure of {:.0} % by its weight",
        share * 100.0,
        released * 100.0,
        plan.queues[queue].name,
        sure * 100.0
    ))
}

/// Refuses a reserved share that follows the traffic where nothing sets that traffic apart.
pub(super) fn check_oracle(resolved: &Resolved) -> Result<(), &'static str> {
    let mut groups = resolved.groups.iter().filter(|group| matches!(group.carrier, Carrier::Credit(_))).peekable();
    if groups.peek().is_none() {
        return Err("\"traffic\" is the share of groups with credits, and there is none");
    }
    let queue_of = |class: u8| resolved.switch_plan.queue_of_class[usize::from(class)];
    let together =
        groups.any(|group| group.legacy.as_ref().is_some_and(|legacy| queue_of(legacy.class) == queue_of(group.class)));
    if together {
        return Err("\"traffic\" weighs two queues, so legacy flows need a class of the other one: legacy_class");
    }
    Ok(())
}
