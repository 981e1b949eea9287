//! From a SONiC switch's `config_db.json` to a plan.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};
use thiserror::Error;

use crate::scenario::QueuesSpec;

/// Why a file is no plan.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum ImportError {
    /// It is not JSON, or not an object of tables.
    #[error("{0}")]
    Json(String),
    /// A table lacks an entry, or has one with a value that it cannot have.
    #[error("{place}: {why}")]
    Entry {
        /// Table and key, as in `QUEUE|Ethernet0|3`.
        place: String,
        /// What is wrong.
        why: String,
    },
}

fn entry<T>(place: impl Into<String>, why: impl Into<String>) -> Result<T, ImportError> {
    Err(ImportError::Entry { place: place.into(), why: why.into() })
}

/// What a queue holds if the file says nothing of buffers.
const DEFAULT_LIMIT: u64 = 1_000_000;
/// DSCPs there are.
const DSCPS: usize = 64;

/// The queues of `port` in a `config_db.json`, and what of it was assumed: a sentence each. `packet_bytes` is
/// the depth of a shaper that names none.
pub fn from_sonic(text: &str, port: &str, packet_bytes: u32) -> Result<(QueuesSpec, Vec<String>), ImportError> {
    let tables = Tables::parse(text)?;
    let queues = tables.queues_of(port)?;
    if queues.is_empty() {
        let known = tables.ports();
        let known =
            if known.is_empty() { "no port has queues".to_owned() } else { format!("ports: {}", known.join(", ")) };
        return entry("QUEUE", format!("nothing about {port}; {known}"));
    }
    let mut assumed = Vec::new();
    let mut classes = tables.classes(port, &mut assumed)?;
    let mut described = Vec::new();
    let mut shared = None;
    for (number, keys) in &queues {
        let queue = tables.queue(*number, keys, packet_bytes, &mut assumed, &mut shared)?;
        let classes = classes.remove(number).unwrap_or_default();
        if classes.is_empty() {
            assumed.push(format!("queue {number}: no DSCP leads there: it is left out"));
        } else {
            described.push((queue, classes));
        }
    }
    for number in classes.keys() {
        assumed
            .push(format!("queue {number}: DSCPs lead there, and no table describes it: they go to the first queue"));
    }
    // Strict queues first, from the highest number down; behind them the weighted ones.
    described.sort_by_key(|(queue, _)| (queue.weight.is_some(), std::cmp::Reverse(queue.number)));
    let strict = described.iter().filter(|(queue, _)| queue.weight.is_none()).count();
    let weighted = described.len() - strict;
    let queue: Vec<Value> = described.iter().map(|(queue, classes)| queue.spec(classes)).collect();
    let by_packets = described.iter().filter(|(queue, _)| queue.by_packets).count();
    if by_packets > 0 && by_packets < weighted {
        assumed.push("some queues are DWRR and some WRR: all take turns by bytes here, as DWRR".to_owned());
    }
    let scheduler = match weighted {
        0 => "strict",
        weighted if weighted == by_packets => "wrr",
        _ => "dwrr",
    };
    let mut plan = json!({ "scheduler": scheduler, "queue": queue });
    if weighted > 0 {
        plan["strict"] = json!(strict);
    }
    if let Some(bytes) = shared {
        plan["shared_buffer"] = json!(format!("{bytes}B"));
    }
    let plan = QueuesSpec::deserialize(plan).map_err(|error| ImportError::Json(error.to_string()))?;
    plan.plan().or_else(|(key, why)| entry(key, why))?;
    Ok((plan, assumed))
}

/// One queue as it will be written.
struct Queue {
    number: u8,
    /// `None`: it is strict.
    weight: Option<u32>,
    /// Of a weighted one: its turns count packets, not bytes.
    by_packets: bool,
    shaper: Option<(u64, u64)>,
    /// Bytes, and marking: a threshold, or minimum, maximum and probability.
    limit: u64,
    marking: Option<Marking>,
    buffer_alpha: Option<f64>,
    reserved: u64,
}

enum Marking {
    Threshold(u64),
    Red { min: u64, max: u64, probability: f64 },
}

impl Queue {
    fn spec(&self, classes: &[u8]) -> Value {
        let mut spec = json!({
            "name": format!("queue {}", self.number),
            "classes": classes,
            "limit": format!("{}B", self.limit),
            "reserved": format!("{}B", self.reserved),
        });
        if let Some(weight) = self.weight {
            spec["weight"] = json!(weight);
        }
        if let Some((rate, depth)) = self.shaper {
            spec["shaper"] = json!({ "rate": format!("{}bit/s", 8 * rate), "depth": format!("{depth}B") });
        }
        if let Some(alpha) = self.buffer_alpha {
            spec["buffer_alpha"] = json!(alpha);
        }
        match self.marking {
            None => {}
            Some(Marking::Threshold(bytes)) => spec["ecn"] = json!(format!("{bytes}B")),
            Some(Marking::Red { min, max, probability }) => {
                spec["red"] =
                    json!({ "min": format!("{min}B"), "max": format!("{max}B"), "max_probability": probability });
            }
        }
        spec
    }
}

/// The file: tables of entries of texts.
struct Tables(BTreeMap<String, BTreeMap<String, Value>>);

type Keys = BTreeMap<String, String>;

impl Tables {
    fn parse(text: &str) -> Result<Self, ImportError> {
        let file: BTreeMap<String, Value> =
            serde_json::from_str(text).map_err(|error| ImportError::Json(error.to_string()))?;
        // Other tables may be of any form.
        let tables = file.into_iter().filter_map(|(name, table)| {
            Some((name, table.as_object()?.iter().map(|(key, value)| (key.clone(), value.clone())).collect()))
        });
        Ok(Self(tables.collect()))
    }

    /// The texts of an entry.
    fn entry(&self, table: &str, key: &str) -> Result<Keys, ImportError> {
        let place = || format!("{table}|{key}");
        let Some(value) = self.0.get(table).and_then(|table| table.get(key)) else {
            return entry(place(), "there is no such entry");
        };
        let Some(object) = value.as_object() else { return entry(place(), "it is no object") };
        let text = |value: &Value| match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        Ok(object.iter().map(|(key, value)| (key.clone(), text(value))).collect())
    }

    /// What an entry refers to: a name, or in older files `[TABLE|name]`.
    fn referred<'k>(&self, keys: &'k Keys, key: &str, table: &str) -> Result<Option<(&'k str, Keys)>, ImportError> {
        let Some(name) = keys.get(key).map(String::as_str) else { return Ok(None) };
        let inner = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        let name = inner.and_then(|inner| inner.split_once('|')).map_or(name, |(_, name)| name);
        Ok(Some((name, self.entry(table, name)?)))
    }

    /// The entries of a table about a port's queues, by the queues' numbers: keys are `PORTS|N` or `PORTS|N-M`.
    fn by_queue(&self, table: &str, port: &str) -> Result<BTreeMap<u8, Keys>, ImportError> {
        let mut all = BTreeMap::new();
        for key in self.0.get(table).into_iter().flat_map(BTreeMap::keys) {
            let Some((ports, numbers)) = key.rsplit_once('|') else { continue };
            if !ports.split(',').any(|one| one == port) {
                continue;
            }
            let (first, last) = numbers.split_once('-').unwrap_or((numbers, numbers));
            let (Ok(first), Ok(last)) = (first.parse::<u8>(), last.parse::<u8>()) else {
                return entry(format!("{table}|{key}"), "a queue is a number, or two as in 0-2");
            };
            if first > last || last > 63 {
                return entry(
                    format!("{table}|{key}"),
                    "a range of queues goes from the lower number up, to 63 at most",
                );
            }
            let keys = self.entry(table, key)?;
            all.extend((first..=last).map(|number| (number, keys.clone())));
        }
        Ok(all)
    }

    fn queues_of(&self, port: &str) -> Result<BTreeMap<u8, Keys>, ImportError> {
        let mut queues = self.by_queue("QUEUE", port)?;
        for (number, keys) in self.by_queue("BUFFER_QUEUE", port)? {
            if let (Some(queue), Some(profile)) = (queues.get_mut(&number), keys.get("profile")) {
                queue.insert("profile".to_owned(), profile.clone());
            }
        }
        Ok(queues)
    }

    /// Ports that have queues.
    fn ports(&self) -> Vec<&str> {
        let keys = self.0.get("QUEUE").into_iter().flat_map(BTreeMap::keys);
        let mut ports: Vec<&str> =
            keys.filter_map(|key| key.rsplit_once('|')).flat_map(|(ports, _)| ports.split(',')).collect();
        ports.sort_unstable();
        ports.dedup();
        ports
    }

    /// Traffic classes of each queue: a class has two DSCPs.
    fn classes(&self, port: &str, assumed: &mut Vec<String>) -> Result<BTreeMap<u8, Vec<u8>>, ImportError> {
        let maps = match self.entry("PORT_QOS_MAP", port) {
            Ok(maps) => maps,
            Err(_) => self.entry("PORT_QOS_MAP", "global")?,
        };
        let Some((_, dscp_to_tc)) = self.referred(&maps, "dscp_to_tc_map", "DSCP_TO_TC_MAP")? else {
            return entry(format!("PORT_QOS_MAP|{port}"), "no `dscp_to_tc_map`");
        };
        let tc_to_queue = self.referred(&maps, "tc_to_queue_map", "TC_TO_QUEUE_MAP")?;
        let queue_of_dscp: Vec<u8> = (0..DSCPS)
            .map(|dscp| {
                let tc = dscp_to_tc.get(&dscp.to_string()).map_or("0", String::as_str);
                let queue = tc_to_queue.as_ref().and_then(|(_, map)| map.get(tc)).map_or(tc, String::as_str);
                queue.parse().or_else(|_| entry(format!("DSCP_TO_TC_MAP, dscp {dscp}"), format!("{queue} is no queue")))
            })
            .collect::<Result<_, _>>()?;
        let mut classes: BTreeMap<u8, Vec<u8>> = BTreeMap::new();
        for (class, pair) in (0u8..).zip(queue_of_dscp.chunks(2)) {
            if pair[0] != pair[1] {
                assumed.push(format!(
                    "class {class}: DSCP {} goes to queue {} and DSCP {} to queue {}: the class goes to the first",
                    2 * class,
                    pair[0],
                    2 * class + 1,
                    pair[1]
                ));
            }
            classes.entry(pair[0]).or_default().push(class);
        }
        Ok(classes)
    }

    fn queue(
        &self,
        number: u8,
        keys: &Keys,
        packet_bytes: u32,
        assumed: &mut Vec<String>,
        shared: &mut Option<u64>,
    ) -> Result<Queue, ImportError> {
        let (mut weight, mut by_packets, mut shaper) = (Some(1), false, None);
        if let Some((name, scheduler)) = self.referred(keys, "scheduler", "SCHEDULER")? {
            let place = format!("SCHEDULER|{name}");
            let kind = scheduler.get("type").map_or("DWRR", String::as_str);
            by_packets = kind == "WRR";
            weight = match kind {
                "STRICT" => None,
                "DWRR" | "WRR" => {
                    let Ok(weight) = u32::try_from(number_of(&place, &scheduler, "weight")?.unwrap_or(1)) else {
                        return entry(place, "weight: larger than any switch takes");
                    };
                    Some(weight)
                }
                other => return entry(place, format!("type {other}: DWRR, WRR or STRICT")),
            };
            if let Some(rate) = number_of(&place, &scheduler, "pir")? {
                let depth = number_of(&place, &scheduler, "pbs")?.unwrap_or(u64::from(packet_bytes)).max(1);
                if weight.is_some() {
                    assumed.push(format!("queue {number}: a limit of {rate} byte/s: only strict queues have one here"));
                } else if rate > 0 {
                    shaper = Some((rate, depth));
                }
            }
        }
        let marking = match self.referred(keys, "wred_profile", "WRED_PROFILE")? {
            None => None,
            Some((name, profile)) => marking(number, name, &profile, assumed)?,
        };
        let (mut limit, mut buffer_alpha, mut reserved) = (None, None, 0);
        if let Some((name, profile)) = self.referred(keys, "profile", "BUFFER_PROFILE")? {
            let place = format!("BUFFER_PROFILE|{name}");
            reserved = number_of(&place, &profile, "size")?.unwrap_or(0);
            limit = number_of(&place, &profile, "static_th")?;
            if let Some(exponent) = profile.get("dynamic_th") {
                let Some(exponent) = exponent.parse::<i32>().ok().filter(|exponent| (-8..=7).contains(exponent)) else {
                    return entry(place, format!("dynamic_th {exponent}: a whole number from -8 to 7"));
                };
                buffer_alpha = Some(f64::from(exponent).exp2());
                if let Some((pool, keys)) = self.referred(&profile, "pool", "BUFFER_POOL")? {
                    let size = number_of(&format!("BUFFER_POOL|{pool}"), &keys, "size")?;
                    *shared = shared.or(size);
                    limit = limit.or(size);
                }
            }
        }
        let limit = limit.unwrap_or_else(|| {
            assumed.push(format!("queue {number}: no limit is given: {DEFAULT_LIMIT} bytes"));
            DEFAULT_LIMIT
        });
        Ok(Queue { number, weight, by_packets, shaper, limit: limit.max(1), marking, buffer_alpha, reserved })
    }
}

fn number_of(place: &str, keys: &Keys, key: &str) -> Result<Option<u64>, ImportError> {
    let Some(text) = keys.get(key) else { return Ok(None) };
    let number = text.parse().or_else(|_| entry(place, format!("{key} {text}: a whole number")))?;
    Ok(Some(number))
}

fn marking(number: u8, name: &str, profile: &Keys, assumed: &mut Vec<String>) -> Result<Option<Marking>, ImportError> {
    let place = format!("WRED_PROFILE|{name}");
    if profile.get("wred_green_enable").is_none_or(|enabled| enabled != "true") {
        assumed.push(format!("queue {number}: its profile {name} does not enable green: it does not mark"));
        return Ok(None);
    }
    if profile.get("ecn").is_none_or(|ecn| ecn == "ecn_none") {
        assumed.push(format!("queue {number}: its profile {name} drops and does not mark: marking takes its place"));
    }
    let (min, max) =
        (number_of(&place, profile, "green_min_threshold")?, number_of(&place, profile, "green_max_threshold")?);
    let (Some(min), Some(max)) = (min, max) else {
        return entry(place, "no green_min_threshold or no green_max_threshold");
    };
    if min > max {
        return entry(place, format!("green_min_threshold {min} is above green_max_threshold {max}"));
    }
    if min == max {
        return Ok(Some(Marking::Threshold(min)));
    }
    assumed.push(format!("queue {number}: the weight of its average queue is not in the file: 0.002"));
    let percent = number_of(&place, profile, "green_drop_probability")?.unwrap_or(100);
    let probability = (percent as f64 / 100.0).clamp(0.01, 1.0);
    Ok(Some(Marking::Red { min, max, probability }))
}
