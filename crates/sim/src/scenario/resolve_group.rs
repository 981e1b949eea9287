//! Fills in every default of a traffic group, and chooses and checks what carries it.

use std::path::Path;

use pliant_proto::contract::{Contract, ContractError, Field};
use pliant_proto::transport::atp::LossBound;

use super::file::document::Document;
use super::file::error::ScenarioError;
use super::file::group::{GroupKeys, GroupSpec, LEGACY_TABLE, REFLEX_TABLE};
use super::file::spec::ScenarioSpec;
use super::reflex;
use super::resolved::{Group, Legacy};
use crate::cross_queue::CROSS_QUEUE_TABLE;
use crate::families::{GroupSettings, NetworkSettings, SettingsTable, TCP_TABLE, TransportName};
use crate::tables::{KeyError, Tables};
use crate::traffic::{FANOUT_MAX, TrafficSpec};
use crate::workload::Messages;

/// Traffic class of flows whose ends are not both deployed, unless a group says otherwise.
pub(super) const LEGACY_CLASS: u8 = 1;

pub(super) fn resolve_group(
    document: &Document,
    spec: &mut ScenarioSpec,
    name: String,
    network: NetworkSettings<'_>,
    host_key: &str,
) -> Result<Group, ScenarioError> {
    if name.is_empty() || name.contains('.') {
        return Err(document.error("traffic", format!("a group cannot be called \"{name}\"")));
    }
    let ScenarioSpec { queues, host_queues, traffic, seed, deployment, .. } = spec;
    let group = traffic.get_mut(&name).expect("the name comes from here");
    let contract = Contract::from(group.keys.contract);
    let transport = group.keys.transport;
    let traits = transport.traits();
    let has_reflex = group.tables.contains_key(REFLEX_TABLE);
    let mut honours = transport.honours().to_vec();
    if has_reflex {
        honours.push(Field::MinShare);
        // Which symbols an object can do without its receiver decides.
        if traits.takes_messages {
            honours.push(Field::MinDelivery);
        }
    }
    contract.check(&honours).map_err(|why| contract_error(document, &name, transport, why))?;
    check_done_by(group).map_err(|(key, why)| group_error(document, &name, &key, why))?;
    check_bundle(&group.keys).map_err(|(key, why)| group_error(document, &name, &key, why))?;
    if let TrafficSpec::Flows(spec) = &group.keys.traffic {
        let largest = spec.flows.iter().filter_map(|flow| flow.size).max();
        let checked = largest.map_or(Ok(()), |size| contract.check_size(size.0));
        checked.map_err(|why| contract_error(document, &name, transport, why))?;
    }
    let ack_class = *group.keys.ack_class.get_or_insert(group.keys.class);
    let class = group.keys.class;
    if let TrafficSpec::Objects(spec) = &mut group.keys.traffic {
        spec.fanout = Some(spec.fanout());
        if !(1..=FANOUT_MAX).contains(&spec.fanout()) {
            let why = format!("{} sources: an object has 1 to {FANOUT_MAX}", spec.fanout());
            return Err(document.error(&format!("traffic.{name}.fanout"), why));
        }
        let shares_out = traits.shares_objects;
        spec.split.get_or_insert(!shares_out);
        if !spec.splits() && !shares_out {
            let why = format!("{} has no way to share an object out: only true fits", transport.name());
            return Err(document.error(&format!("traffic.{name}.split"), why));
        }
    }
    let place = |(key, why): KeyError| group_error(document, &name, &key, why);
    let max_loss = max_loss(transport, &contract).map_err(place)?;
    let traffic = group.keys.traffic.clone();
    let mut settings = GroupSettings {
        transport,
        class,
        ack_class,
        contract: &contract,
        max_loss,
        traffic: &traffic,
        has_reflex,
        tables: &mut group.tables,
        network,
    };
    let legacy = legacy(&mut group.keys, &mut settings, deployment.is_some()).map_err(place)?;
    check_tables(&group.keys, settings.tables).map_err(place)?;
    check_owners(transport, settings.tables).map_err(place)?;
    let resolved = transport.family().resolve(&mut settings).map_err(place)?;
    let messages = messages(&group.keys, &name, *seed, network.mss).map_err(place)?;
    let tables = [("queues", &*queues), (host_key, host_queues.as_ref().unwrap_or(queues))];
    let plans: Vec<_> =
        tables.iter().flat_map(|(key, queues)| queues.tables().map(move |(_, table)| (*key, table))).collect();
    let reflex = reflex::resolve(group, &plans).map_err(place)?;
    let GroupKeys { pinned, bundle, .. } = group.keys;
    Ok(Group {
        name,
        traffic,
        class,
        ack_class,
        pinned,
        bundle,
        contract,
        reflex,
        transport: resolved,
        messages,
        max_loss,
        legacy,
    })
}

/// A setting for all groups is found where it is given.
fn group_error(document: &Document, name: &str, key: &str, why: String) -> ScenarioError {
    let shared = key.replacen("legacy_tcp.", "transport.", 1).replacen("tcp.", "transport.", 1);
    let own = format!("traffic.{name}.{key}");
    let is_shared = shared != key && !document.gives(&own) && document.gives(&shared);
    document.error(if is_shared { &shared } else { own.trim_end_matches('.') }, why)
}

/// Only a flow whose size is known from the start can be done by a time.
fn check_done_by(group: &GroupSpec) -> Result<(), KeyError> {
    let GroupSpec { keys: group, tables } = group;
    let refuse = |why: &str| Err(("contract.done_by".to_owned(), why.to_owned()));
    if group.contract.done_by.is_none() {
        return Ok(());
    }
    if group.traffic.has_endless_flows() {
        return refuse("needs flows with an end: give them a size");
    }
    if tables.contains_key(CROSS_QUEUE_TABLE) {
        return refuse("knows nothing of pauses: not with a table cross_queue");
    }
    if group.messages.is_some() {
        return refuse("needs flows that are there from the start, and messages come over time");
    }
    Ok(())
}

/// A bundle is one stream of bytes without an end.
fn check_bundle(group: &GroupKeys) -> Result<(), KeyError> {
    let refuse = |key: &str, why: String| Err((key.to_owned(), why));
    if !group.bundle {
        return Ok(());
    }
    if !group.transport.traits().bundles {
        let (name, who) = (group.transport.name(), these_do(|name| name.traits().bundles));
        return refuse("bundle", format!("{name} does not carry several flows in one stream of bytes ({who})"));
    }
    if group.messages.is_some() {
        return refuse("messages", "a bundle carries bytes of its flows in turn: not with `bundle`".to_owned());
    }
    if group.contract.done_by.is_some() {
        let why = "the flows of a bundle end one by one, and the bundle does not: not with `bundle`".to_owned();
        return refuse("contract.done_by", why);
    }
    if group.contract.min_delivery < 1.0 {
        let why = "a bundle has no end before which it could give bytes up: not with `bundle`".to_owned();
        return refuse("contract.min_delivery", why);
    }
    Ok(())
}

/// What carries the flows of a group whose ends are not both deployed, if hosts may differ. Writes the defaults out.
fn legacy(keys: &mut GroupKeys, group: &mut GroupSettings<'_>, partly: bool) -> Result<Option<Legacy>, KeyError> {
    let refuse = |key: &str, why: String| Err((key.to_owned(), why));
    if !(partly && keys.transport.traits().has_credits) {
        let given = [
            (keys.legacy.is_some(), "legacy"),
            (keys.legacy_class.is_some(), "legacy_class"),
            (group.tables.contains_key(LEGACY_TABLE), LEGACY_TABLE),
        ];
        return match given.into_iter().find(|(given, _)| *given) {
            Some((_, key)) => refuse(key, "needs a table [deployment] and a transport with credits".to_owned()),
            None => Ok(None),
        };
    }
    let name = *keys.legacy.get_or_insert_default();
    let class = *keys.legacy_class.get_or_insert(LEGACY_CLASS);
    if !name.traits().is_legacy {
        return refuse("legacy", format!("{} is no member of the TCP family", name.name()));
    }
    let own = group.tables.remove(LEGACY_TABLE).unwrap_or_default();
    let mut tables = Tables::from([(TCP_TABLE.to_owned(), own)]);
    let mut legacy =
        GroupSettings { transport: name, class, ack_class: class, tables: &mut tables, has_reflex: false, ..*group };
    let resolved = check_owners(name, legacy.tables).and_then(|()| name.family().resolve(&mut legacy));
    let transport = resolved.map_err(|(key, why)| (key.replacen(TCP_TABLE, LEGACY_TABLE, 1), why))?;
    group.tables.extend(tables.remove(TCP_TABLE).map(|own| (LEGACY_TABLE.to_owned(), own)));
    Ok(Some(Legacy { name, class, transport }))
}

/// Tables that do not go with the transport are mistakes.
fn check_tables(group: &GroupKeys, tables: &Tables) -> Result<(), KeyError> {
    let name = group.transport.name();
    let (traits, own) = (group.transport.traits(), group.transport.tables());
    for table in tables.keys() {
        let fits = match table.as_str() {
            CROSS_QUEUE_TABLE => traits.pauses,
            REFLEX_TABLE => traits.bends,
            LEGACY_TABLE => true,
            table => own.iter().any(|own| own.name == table),
        };
        if !fits {
            let why = match table.as_str() {
                CROSS_QUEUE_TABLE => "does not pause, only transports with a window do".to_owned(),
                REFLEX_TABLE => "has no window that could give way, as cubic and dctcp have".to_owned(),
                table => format!("has no settings of {}", title(table)),
            };
            return Err((table.clone(), format!("{name} {why}")));
        }
    }
    if group.messages.is_some() && !traits.takes_messages {
        return Err(("messages".to_owned(), format!("{name} moves objects, not messages")));
    }
    Ok(())
}

/// Settings that only other transports have are mistakes.
fn check_owners(transport: TransportName, tables: &Tables) -> Result<(), KeyError> {
    for table in transport.tables() {
        let has = |other: &SettingsTable, key: &str| {
            other.name == table.name && other.settings.iter().any(|setting| setting.key == key)
        };
        let given = tables.get(table.name).into_iter().flat_map(|given| given.keys());
        for key in given.filter(|key| !has(&table, key)) {
            let owns = |name: &TransportName| name.tables().iter().any(|other| has(other, key));
            let owners: Vec<&str> = TransportName::all().into_iter().filter(owns).map(TransportName::name).collect();
            if !owners.is_empty() {
                let why = format!("{} does not have it, only {}", transport.name(), owners.join(", "));
                return Err((format!("{}.{key}", table.name), why));
            }
        }
    }
    Ok(())
}

/// What a table of settings is of.
fn title(table: &str) -> &'static str {
    let all = TransportName::all().into_iter().flat_map(TransportName::tables);
    all.into_iter().find(|known| known.name == table).map_or("this kind", |known| known.title)
}

/// How many messages may be missing: for transports that leave some out, the complement of what must arrive.
fn max_loss(transport: TransportName, contract: &Contract) -> Result<LossBound, KeyError> {
    if !transport.honours().contains(&Field::MinDelivery) {
        return Ok(LossBound::RELIABLE);
    }
    LossBound::from_min_delivery(contract.min_delivery).ok_or_else(|| {
        let why = "must be above 0: who needs no message needs no flow";
        ("contract.min_delivery".to_owned(), why.to_owned())
    })
}

/// The messages of a group's flows: those asked for; one per packet for transports of messages; none for others.
fn messages(group: &GroupKeys, name: &str, seed: u64, mss: u16) -> Result<Option<Messages>, KeyError> {
    let refuse = |key: &str, why: &str| Err((key.to_owned(), why.to_owned()));
    let built = group.messages.as_ref().map(|spec| spec.build(name, seed, Path::new(""))).transpose();
    let messages = built.map_err(|(key, why)| (format!("messages.{key}"), why))?;
    let counted = messages.as_ref().is_some_and(|messages| messages.count().is_some());
    if counted && matches!(group.traffic, TrafficSpec::Trace(_)) {
        return refuse("messages.count", "a trace gives the size of each flow");
    }
    let endless = !counted && group.traffic.has_endless_flows();
    if endless && group.transport.traits().sends_messages && !messages.as_ref().is_some_and(Messages::arrive_over_time)
    {
        let why = "is missing: a flow without an end would be all messages at once; give it a size, or messages a gap";
        return refuse("messages.gap", why);
    }
    if endless && messages.is_some() && !group.transport.traits().sends_messages {
        return refuse("messages", "need flows with an end here, or messages.count");
    }
    Ok(messages.or_else(|| group.transport.traits().sends_messages.then(|| Messages::cut(mss))))
}

/// Which transports do what one does not.
fn these_do(what: impl Fn(&TransportName) -> bool) -> String {
    let who: Vec<_> = TransportName::all().into_iter().filter(what).map(TransportName::name).collect();
    format!("these do: {}", who.join(", "))
}

fn contract_error(document: &Document, name: &str, transport: TransportName, why: ContractError) -> ScenarioError {
    let (ContractError::OutOfRange(field)
    | ContractError::NotHonoured(field)
    | ContractError::NoEffect(field)
    | ContractError::Contradiction(field, _)) = why;
    let why = match why {
        ContractError::OutOfRange(_) | ContractError::NoEffect(_) | ContractError::Contradiction(..) => why.to_string(),
        ContractError::NotHonoured(Field::MinDelivery) if !transport.traits().takes_messages => {
            format!("{} brings objects whole: it does not honour min_delivery", transport.name())
        }
        ContractError::NotHonoured(field @ (Field::MinDelivery | Field::MinShare)) => {
            format!("{} honours {field} only with a table [traffic.{name}.reflex]", transport.name())
        }
        ContractError::NotHonoured(field) => {
            let who = these_do(|name| name.honours().contains(&field));
            format!("{} does not honour {field} ({who})", transport.name())
        }
    };
    document.error(&format!("traffic.{name}.contract.{field}"), why)
}
