//! SONiC's tables: `config_db.json`, whose values are all text.
//!
//! Ranges are those of SONiC's YANG models (sonic-net/sonic-buildimage, `sonic-yang-models`). SONiC serves strict queues
//! from the highest number down, so queue 0 of a plan gets the highest.

use std::collections::BTreeMap;

use pliant_proto::switch::marker::{MarkAt, MarkerConfig, Scope};
use pliant_proto::switch::plan::QueueConfig;
use serde_json::{Map, Value, json};

use super::form::Exported;
use super::port::Port;

/// Queues of a port.
const MAX_QUEUES: usize = 8;
/// Greatest weight of a scheduler.
const MAX_WEIGHT: u32 = 100;
/// Exponents of 2 that a share of the free buffer can have.
const MIN_DYNAMIC: i32 = -8;
const MAX_DYNAMIC: i32 = 7;

/// Name of both maps, and of the pool.
const MAP: &str = "PLIANT";
const POOL: &str = "pliant_egress_pool";

pub(super) fn export(port: &Port<'_>) -> Result<Exported, String> {
    let plan = port.plan;
    let count = plan.queues.len();
    if count > MAX_QUEUES {
        return Err(format!("the plan has {count} queues, and a SONiC port has {MAX_QUEUES}"));
    }
    let mut not_expressed = port.beyond_switches();
    let (weights, off) = port.weights(MAX_WEIGHT);
    if off > 0.0 {
        not_expressed.push(format!("weights above {MAX_WEIGHT}: rounded, off by up to {:.1} %", 100.0 * off));
    }
    let mut tables = Tables::default();
    let mut dscp_to_tc = Map::new();
    let mut tc_to_queue = Map::new();
    let names: Vec<String> = plan.queues.iter().map(|queue| plain(&queue.name)).collect();
    for (index, queue) in plan.queues.iter().enumerate() {
        let number = (count - 1 - index).to_string();
        tc_to_queue.insert(number.clone(), json!(number));
        for dscp in port.dscps(index) {
            dscp_to_tc.insert(dscp.to_string(), json!(number));
        }
        let name = &names[index];
        let scheduler = format!("{}.{name}", port.of_kind("pliant"));
        let weight = index.checked_sub(port.strict()).map(|weighted| weights[weighted]);
        tables.add("SCHEDULER", &scheduler, scheduling(port, queue, weight));
        let wred = wred_profile(port, queue, &mut not_expressed);
        let profile = buffer_profile(port, queue, &mut not_expressed);
        for port in port.names {
            let mut entry = Map::from_iter([("scheduler".to_owned(), json!(scheduler))]);
            if wred.is_some() {
                entry.insert("wred_profile".to_owned(), json!(scheduler));
            }
            let key = format!("{port}|{number}");
            tables.add("QUEUE", &key, Value::Object(entry));
            if profile.is_some() {
                tables.add("BUFFER_QUEUE", &key, json!({ "profile": scheduler }));
            }
        }
        if let Some(wred) = wred {
            tables.add("WRED_PROFILE", &scheduler, wred);
        }
        if let Some(profile) = profile {
            tables.add("BUFFER_PROFILE", &scheduler, profile);
        }
        if queue.red_limit_bytes != u64::MAX {
            not_expressed.push(format!(
                "queue \"{}\": its limit of {} bytes for red packets: no table gives a packet its colour by DSCP; send the \
                 droppable class as not-ECT and the other as ECT, and the queue drops the first where it marks the second",
                queue.name, queue.red_limit_bytes
            ));
        }
    }
    let map = port.of_kind(MAP);
    tables.add("DSCP_TO_TC_MAP", &map, Value::Object(dscp_to_tc));
    tables.add("TC_TO_QUEUE_MAP", &map, Value::Object(tc_to_queue));
    for name in port.names {
        tables.add("PORT_QOS_MAP", name, json!({ "dscp_to_tc_map": map, "tc_to_queue_map": map }));
    }
    if let Some(pool) = pool(port) {
        tables.add("BUFFER_POOL", &pool_name(port), pool);
    }
    not_expressed.dedup();
    let mut text = serde_json::to_string_pretty(&tables.0).expect("plain values");
    text.push('\n');
    Ok(Exported { text, not_expressed })
}

#[derive(Default)]
struct Tables(BTreeMap<&'static str, Map<String, Value>>);

impl Tables {
    fn add(&mut self, table: &'static str, key: &str, value: Value) {
        self.0.entry(table).or_default().insert(key.to_owned(), value);
    }
}

/// A name as SONiC's tables take it.
fn plain(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}

fn scheduling(port: &Port<'_>, queue: &QueueConfig, weight: Option<u32>) -> Value {
    let mut scheduler = Map::new();
    match weight {
        Some(weight) => {
            scheduler
                .insert("type".to_owned(), json!(if port.plan.scheduler.name() == "wrr" { "WRR" } else { "DWRR" }));
            scheduler.insert("weight".to_owned(), json!(weight.to_string()));
        }
        None => _ = scheduler.insert("type".to_owned(), json!("STRICT")),
    }
    if let Some(shaper) = queue.shaper {
        let rate = (shaper.rate.at(port.rate).bits_per_sec() / 8).max(1).to_string();
        let depth = shaper.depth_bytes.to_string();
        scheduler.insert("meter_type".to_owned(), json!("bytes"));
        for (key, value) in [("cir", &rate), ("pir", &rate), ("cbs", &depth), ("pbs", &depth)] {
            scheduler.insert(key.to_owned(), json!(value));
        }
    }
    Value::Object(scheduler)
}

fn wred_profile(port: &Port<'_>, queue: &QueueConfig, not_expressed: &mut Vec<String>) -> Option<Value> {
    let name = &queue.name;
    let (min, max, percent) = match queue.marker {
        MarkerConfig::None | MarkerConfig::Phantom(_) => return None,
        MarkerConfig::Threshold(threshold) => {
            let bytes = port.level_bytes(threshold.level);
            if threshold.pass_not_ect {
                not_expressed.push(format!(
                    "queue \"{name}\": packets that cannot be marked pass: marking and dropping have one threshold, and they \
                     are dropped there"
                ));
            }
            if threshold.at == MarkAt::Dequeue {
                not_expressed.push(format!("queue \"{name}\": marking as packets leave: when, the switch decides"));
            }
            if threshold.scope == Scope::Port {
                not_expressed.push(format!("queue \"{name}\": a threshold for the whole port: it holds for the queue"));
            }
            (bytes, bytes, 100.0)
        }
        MarkerConfig::Red(red) => {
            not_expressed.push(format!(
                "queue \"{name}\": the weight of RED's average ({}) and what lies above its maximum: the switch decides",
                red.weight
            ));
            let (min, max) = red.bytes(port.packet_bytes, port.rate);
            (min, max, 100.0 * red.max_probability)
        }
    };
    let percent = percent.round().clamp(1.0, 100.0).to_string();
    let mut profile = Map::from_iter([("ecn".to_owned(), json!("ecn_all"))]);
    // What no packet's colour is set by is green; the others have the same thresholds, in case some rule colours them.
    for colour in ["green", "yellow", "red"] {
        profile.insert(format!("wred_{colour}_enable"), json!("true"));
        profile.insert(format!("{colour}_min_threshold"), json!(min.to_string()));
        profile.insert(format!("{colour}_max_threshold"), json!(max.to_string()));
        profile.insert(format!("{colour}_drop_probability"), json!(percent));
    }
    Some(Value::Object(profile))
}

fn buffer_profile(port: &Port<'_>, queue: &QueueConfig, not_expressed: &mut Vec<String>) -> Option<Value> {
    let limit = port.limit_bytes(queue);
    let reserved = queue.reserved_bytes.to_string();
    if port.plan.shared_buffer.is_none() {
        let limit = (limit != u64::MAX).then_some(limit)?;
        return Some(json!({ "pool": pool_name(port), "size": reserved, "static_th": limit.to_string() }));
    }
    let exponent = queue.buffer_alpha.log2();
    let dynamic = (exponent.round() as i32).clamp(MIN_DYNAMIC, MAX_DYNAMIC);
    if f64::from(dynamic) != exponent {
        not_expressed.push(format!(
            "queue \"{}\": {} of the free buffer: written as 2 to the power of {dynamic}",
            queue.name, queue.buffer_alpha
        ));
    }
    if limit < port.plan.shared_buffer.map_or(u64::MAX, |bytes| bytes.0) {
        not_expressed.push(format!(
            "queue \"{}\": its own limit of {limit} bytes beside its share of the free buffer: the share alone holds",
            queue.name
        ));
    }
    Some(json!({ "pool": pool_name(port), "size": reserved, "dynamic_th": dynamic.to_string() }))
}

/// The name of the buffer: one that is shared is that of all kinds of ports.
fn pool_name(port: &Port<'_>) -> String {
    if port.plan.shared_buffer.is_some() { POOL.to_owned() } else { port.of_kind(POOL) }
}

/// The buffer that the queues take their bytes from; `None` if no queue has a limit.
fn pool(port: &Port<'_>) -> Option<Value> {
    let (mode, size) = if let Some(bytes) = port.plan.shared_buffer {
        ("dynamic", bytes.0)
    } else {
        let limits = port.plan.queues.iter().map(|queue| port.limit_bytes(queue)).filter(|limit| *limit != u64::MAX);
        ("static", limits.sum::<u64>() * port.names.len() as u64)
    };
    (size > 0).then(|| json!({ "type": "egress", "mode": mode, "size": size.to_string() }))
}
