//! Fills in every default of a traffic group, and chooses and checks what carries it.

use std::path::Path;

use pliant_proto::contract::{Contract, ContractError, Field};
use pliant_proto::packet::TrafficClass;
use pliant_proto::switch::QueuePlan;
use pliant_proto::transport::atp::LossBound;
use pliant_proto::transport::sender_drop::DropPolicy;
use pliant_proto::transport::tcp::TcpConfig;

use super::atp::MessageTransport;
use super::credit_carrier::{credit_carrier, legacy_carrier};
use super::dccp::DccpSpec;
use super::document::Document;
use super::error::ScenarioError;
use super::group::{GroupSpec, TransportName};
use super::homa::HomaSpec;
use super::kernel::kernel_carrier;
use super::ndp::NdpSpec;
use super::push::push_carrier;
use super::queues::{KeyError, QueuesSpec};
use super::resolved::{Carrier, Group, TcpCarrier};
use super::scdp::ScdpSpec;
use super::spec::{PacketsSpec, RoutingName, ScenarioSpec};
use super::tcp::TcpSpec;
use crate::traffic::{FANOUT_MAX, TrafficSpec};
use crate::workload::Messages;

pub(super) fn resolve_group(
    document: &Document,
    spec: &mut ScenarioSpec,
    name: &str,
    plans: [&QueuePlan; 2],
) -> Result<Group, ScenarioError> {
    if name.is_empty() || name.contains('.') {
        return Err(document.error("traffic", format!("a group cannot be called \"{name}\"")));
    }
    let ScenarioSpec { packets, queues, transport: defaults, traffic, routing, seed, deployment, .. } = spec;
    let group = traffic.get_mut(name).expect("the name comes from here");
    let contract = Contract::from(group.contract);
    let mut honours = group.transport.honours().to_vec();
    if group.reflex.is_some() {
        honours.push(Field::MinShare);
        // Which symbols an object can do without its receiver decides.
        if group.transport != TransportName::Push {
            honours.push(Field::MinDelivery);
        }
    }
    contract.check(&honours).map_err(|why| contract_error(document, name, group.transport, why))?;
    group.ack_class.get_or_insert(group.class);
    if let TrafficSpec::Objects(spec) = &mut group.traffic {
        spec.fanout = Some(spec.fanout());
        if !(1..=FANOUT_MAX).contains(&spec.fanout()) {
            let why = format!("{} sources: an object has 1 to {FANOUT_MAX}", spec.fanout());
            return Err(document.error(&format!("traffic.{name}.fanout"), why));
        }
        let shares_out = group.transport.shares_objects_out();
        spec.split.get_or_insert(!shares_out);
        if !spec.splits() && !shares_out {
            let why = format!("{} has no way to share an object out: only true fits", group.transport.name());
            return Err(document.error(&format!("traffic.{name}.split"), why));
        }
    }
    let max_loss =
        max_loss(group, &contract).map_err(|(key, why)| document.error(&format!("traffic.{name}.{key}"), why))?;
    let place = |(key, why): KeyError| group_error(document, name, &key, why);
    let tcp = TcpParts { defaults, packets, queues, contract: &contract };
    let legacy = legacy_carrier(group, tcp, deployment.is_some()).map_err(place)?;
    let carrier = check_tables(group).and_then(|()| match group.transport {
        TransportName::Udp => udp_carrier(group),
        TransportName::Dccp => DccpSpec::carrier(group, packets),
        TransportName::Ndp => NdpSpec::carrier(group, packets, plans[1]),
        TransportName::Scdp => ScdpSpec::carrier(group, packets, plans[1]),
        TransportName::Homa => HomaSpec::carrier(group, packets),
        TransportName::NearOpt => near_opt_carrier(group, *routing),
        TransportName::Push => Ok(Carrier::Push(Box::new(push_carrier(group, &contract, packets, plans[1])?))),
        TransportName::Kernel => kernel_carrier(group, tcp),
        TransportName::Atp | TransportName::PFabric => message_carrier(group, packets, max_loss),
        TransportName::ExpressPass | TransportName::Layered | TransportName::FlexPass => {
            Ok(Carrier::Credit(Box::new(credit_carrier(group, tcp, plans)?)))
        }
        _ => Ok(Carrier::Tcp(Box::new(tcp_carrier(group, tcp)?))),
    });
    let carrier = carrier.map_err(place)?;
    let messages = messages(group, name, *seed, packets);
    let messages = messages.map_err(|(key, why)| document.error(&format!("traffic.{name}.{key}"), why))?;
    let GroupSpec { class, ack_class, pinned, ref traffic, .. } = *group;
    let (traffic, ack_class, name) = (traffic.clone(), ack_class.unwrap_or(class), name.to_owned());
    let reflex = None;
    Ok(Group { name, traffic, class, ack_class, pinned, contract, reflex, carrier, messages, max_loss, legacy })
}

/// A setting for all groups is found where it is given.
fn group_error(document: &Document, name: &str, key: &str, why: String) -> ScenarioError {
    let shared = key.replacen("legacy_tcp.", "transport.", 1).replacen("tcp.", "transport.", 1);
    let own = format!("traffic.{name}.{key}");
    let is_shared = shared != key && !document.gives(&own) && document.gives(&shared);
    document.error(if is_shared { &shared } else { own.trim_end_matches('.') }, why)
}

/// The group with its table `reflex`, if it has one.
pub(super) fn resolve_reflex(
    document: &Document,
    spec: &mut ScenarioSpec,
    host_key: &str,
    group: Group,
) -> Result<Group, ScenarioError> {
    let ScenarioSpec { queues, host_queues, traffic, .. } = spec;
    let group_spec = traffic.get_mut(&group.name).expect("the group comes from here");
    let Some(mut reflex) = group_spec.reflex.take() else { return Ok(group) };
    let plans = [("queues", &*queues), (host_key, host_queues.as_ref().unwrap_or(queues))];
    let built = reflex.build(group_spec, &plans);
    let built = built.map_err(|(key, why)| document.error(&format!("traffic.{}.{key}", group.name), why))?;
    group_spec.reflex = Some(reflex);
    Ok(Group { reflex: Some(built), ..group })
}

/// Tables that do not go with the transport are mistakes.
fn check_tables(group: &GroupSpec) -> Result<(), KeyError> {
    let of_tcp = group.transport.is_tcp();
    // What leaves messages out by itself cannot leave out bytes beside.
    let bends = of_tcp && !group.transport.sends_messages();
    let of = |transport| group.transport == transport;
    let has_window = of_tcp || of(TransportName::Layered) || of(TransportName::FlexPass) || of(TransportName::Kernel);
    let tables = [
        ("tcp", group.tcp.is_some(), has_window, "has no settings of TCP"),
        ("credit", group.credit.is_some(), group.transport.has_credits(), "has no settings of credits"),
        ("kernel", group.kernel.is_some(), of(TransportName::Kernel), "is not the operating system's"),
        ("udp", group.udp.is_some(), of(TransportName::Udp), "has no settings of UDP"),
        ("ndp", group.ndp.is_some(), of(TransportName::Ndp), "has no settings of NDP"),
        ("scdp", group.scdp.is_some(), of(TransportName::Scdp), "has no settings of SCDP"),
        ("homa", group.homa.is_some(), of(TransportName::Homa), "has no settings of Homa"),
        ("dccp", group.dccp.is_some(), of(TransportName::Dccp), "has no settings of DCCP"),
        ("near_opt", group.near_opt.is_some(), of(TransportName::NearOpt), "has no settings of Near-Opt"),
        ("push", group.push.is_some(), of(TransportName::Push), "has no settings of push"),
        ("messages", group.messages.is_some(), !of(TransportName::Push), "moves objects, not messages"),
        ("atp", group.atp.is_some(), of(TransportName::Atp), "has no settings of ATP"),
        ("pfabric", group.pfabric.is_some(), of(TransportName::PFabric), "has no settings of pFabric"),
        ("cross_queue", group.cross_queue.is_some(), bends, "does not pause, only transports with a window do"),
        (
            "reflex",
            group.reflex.is_some(),
            bends || of(TransportName::Push),
            "has no window that could give way, as cubic and dctcp have",
        ),
    ];
    match tables.into_iter().find(|(_, given, fits, _)| *given && !fits) {
        Some((key, .., why)) => Err((key.to_owned(), format!("{} {why}", group.transport.name()))),
        None => Ok(()),
    }
}

/// How many messages may be missing: for transports that leave some out, the complement of what must arrive.
fn max_loss(group: &GroupSpec, contract: &Contract) -> Result<LossBound, KeyError> {
    if !group.transport.honours().contains(&Field::MinDelivery) {
        return Ok(LossBound::RELIABLE);
    }
    LossBound::from_min_delivery(contract.min_delivery).ok_or_else(|| {
        let why = "must be above 0: who needs no message needs no flow";
        ("contract.min_delivery".to_owned(), why.to_owned())
    })
}

/// Writes the settings of ATP or pFabric out and makes the transport's configuration from them.
fn message_carrier(group: &mut GroupSpec, packets: &PacketsSpec, max_loss: LossBound) -> Result<Carrier, KeyError> {
    let of = MessageTransport {
        max_loss,
        payload: packets.mss.0 as u16,
        wire: packets.framing.into(),
        data_class: TrafficClass::new(group.class),
        control_class: TrafficClass::new(group.ack_class.unwrap_or(group.class)),
    };
    let (table, config) = if group.transport == TransportName::Atp {
        let spec = group.atp.take().unwrap_or_default();
        let config = spec.config(of);
        group.atp = Some(spec.explicit());
        ("atp", config)
    } else {
        ("pfabric", group.pfabric.insert(group.pfabric.unwrap_or_default()).config(of))
    };
    config.map(|config| Carrier::Messages(Box::new(config))).map_err(|(key, why)| (format!("{table}.{key}"), why))
}

/// The messages of a group's flows: those asked for; one per packet for transports of messages; none for others.
fn messages(group: &GroupSpec, name: &str, seed: u64, packets: &PacketsSpec) -> Result<Option<Messages>, KeyError> {
    let refuse = |key: &str, why: &str| Err((key.to_owned(), why.to_owned()));
    let built = group.messages.as_ref().map(|spec| spec.build(name, seed, Path::new(""))).transpose();
    let messages = built.map_err(|(key, why)| (format!("messages.{key}"), why))?;
    let counted = messages.as_ref().is_some_and(|messages| messages.count().is_some());
    if counted && matches!(group.traffic, TrafficSpec::Trace(_)) {
        return refuse("messages.count", "a trace gives the size of each flow");
    }
    let endless = !counted && group.traffic.has_endless_flows();
    if endless && group.transport.sends_messages() && !messages.as_ref().is_some_and(Messages::arrive_over_time) {
        let why = "is missing: a flow without an end would be all messages at once; give it a size, or messages a gap";
        return refuse("messages.gap", why);
    }
    if endless && messages.is_some() && !group.transport.sends_messages() {
        return refuse("messages", "need flows with an end here, or messages.count");
    }
    Ok(messages.or_else(|| group.transport.sends_messages().then(|| Messages::cut(packets.mss.0 as u16))))
}

fn udp_carrier(group: &GroupSpec) -> Result<Carrier, KeyError> {
    let refuse = |key: &str, why: &str| Err((key.to_owned(), why.to_owned()));
    match group.udp {
        None => refuse("udp.rate", "is missing: udp needs a rate"),
        Some(udp) if udp.rate.bits_per_sec() == 0 => refuse("udp.rate", "must be above zero"),
        Some(udp) => Ok(Carrier::Udp(udp)),
    }
}

fn near_opt_carrier(group: &mut GroupSpec, routing: RoutingName) -> Result<Carrier, KeyError> {
    if routing != RoutingName::Ecmp {
        let why = "near-opt needs routing = \"ecmp\": its oracle follows the one path of a flow";
        return Err(("transport".to_owned(), why.to_owned()));
    }
    let spec = group.near_opt.get_or_insert_default();
    spec.check()?;
    Ok(Carrier::NearOpt(*spec))
}

/// What a group's TCP follows from, beside its own keys.
#[derive(Clone, Copy)]
pub(super) struct TcpParts<'a> {
    pub(super) defaults: &'a TcpSpec,
    pub(super) packets: &'a PacketsSpec,
    pub(super) queues: &'a QueuesSpec,
    pub(super) contract: &'a Contract,
}

/// Writes the group's settings out and makes its transport from them.
pub(super) fn tcp_carrier(group: &mut GroupSpec, parts: TcpParts<'_>) -> Result<TcpCarrier, KeyError> {
    let TcpParts { defaults, packets, queues, contract } = parts;
    let below = |(key, why): KeyError| (format!("tcp.{key}"), why);
    let own = group.tcp.clone().unwrap_or_default();
    own.check_keys(group.transport).map_err(below)?;
    let explicit = own.explicit(defaults, group.transport);
    explicit.check_ranges().map_err(below)?;
    let mss = packets.mss.0 as u16;
    let controller = explicit.controller(group.transport, contract, mss).expect("only the TCP family comes here");
    let config = TcpConfig {
        mss,
        wire: packets.framing.into(),
        data_class: TrafficClass::new(group.class),
        ack_class: TrafficClass::new(group.ack_class.unwrap_or(group.class)),
        ..explicit.config(&controller)
    };
    config.check().map_err(|why| ("tcp".to_owned(), why.to_string()))?;
    group.tcp = Some(explicit);
    if group.reflex.is_some() && group.cross_queue.is_some() {
        // Bounds on a flow's rate say nothing of time in which it may not send.
        return Err((
            "cross_queue".to_owned(),
            "a flow follows one policy, and this group has a table reflex".to_owned(),
        ));
    }
    let class = group.class;
    let cross_queue = group.cross_queue.as_mut().map(|cross_queue| cross_queue.resolve(class, queues)).transpose()?;
    let sender_drop = match group.transport {
        TransportName::DctcpSenderDrop => Some(DropPolicy::Fixed),
        TransportName::DctcpBandwidth => Some(DropPolicy::Congested),
        _ => None,
    };
    Ok(TcpCarrier { config, controller, cross_queue, sender_drop })
}

fn contract_error(document: &Document, name: &str, transport: TransportName, why: ContractError) -> ScenarioError {
    let (ContractError::OutOfRange(field) | ContractError::NotHonoured(field)) = why;
    let honours = |field: Field| TransportName::ALL.into_iter().filter(move |name| name.honours().contains(&field));
    let why = match why {
        ContractError::OutOfRange(_) => why.to_string(),
        ContractError::NotHonoured(Field::MinDelivery) if transport == TransportName::Push => {
            "push brings objects whole: it does not honour min_delivery".to_owned()
        }
        ContractError::NotHonoured(field @ (Field::MinDelivery | Field::MinShare)) => {
            format!("{} honours {field} only with a table [traffic.{name}.reflex]", transport.name())
        }
        ContractError::NotHonoured(field) => {
            let who: Vec<_> = honours(field).map(TransportName::name).collect();
            let who = format!("these do: {}", who.join(", "));
            format!("{} does not honour {field} ({who})", transport.name())
        }
    };
    document.error(&format!("traffic.{name}.contract.{field}"), why)
}
