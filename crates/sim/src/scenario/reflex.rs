//! The table `traffic.NAME.reflex`: bounded degradation (REFLEX).

use std::sync::Arc;

use pliant_proto::contract::reflex::{GiveWay, Reflex, ReflexConfig, ReflexError};
use pliant_proto::contract::{Contract, Field};
use pliant_proto::packet::{CLASSES, TrafficClass};
use pliant_proto::rng::Stream;
use pliant_proto::time::Span;
use serde::{Deserialize, Serialize};

use super::group::GroupSpec;
use super::queues::{KeyError, QueuesSpec};
use crate::traffic::{FlowSpec, TrafficSpec, UNLIMITED_BYTES};
use crate::units_serde;

/// Lets a group's flows give way as far as its contract allows: `min_share` is alpha, `min_delivery` is r.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ReflexSpec {
    /// Length of an interval (T_int), above 0s. Default: `"5ms"`.
    #[serde(with = "units_serde")]
    pub interval: Span,
    /// Intervals of the warm-up phase (D_w), at least 1. Default: 1.
    pub warmup: u32,
    /// Intervals of the measure phase (D_m), at least 1. Default: 1.
    pub measure: u32,
    /// Intervals of the exploit phase (D_e), at least 1. Default: 3.
    pub exploit: u32,
    /// How a flow gives way: by `"queue"` or by `"weight"`. Default: `"queue"`.
    pub give_way: GiveWayName,
    /// With `"queue"`: class of a flow's data while it gives way, 0 to 31. Default: 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub low_class: Option<u8>,
    /// With `"weight"`: weight of a flow while it gives way, as a part of its own, in (0, 1). Default: 1/9.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub low_weight: Option<f64>,
    /// Most by which a host's clock is ahead or behind; each host's is drawn uniformly from there. Default: `"0s"`.
    #[serde(with = "units_serde")]
    pub clock_offset: Span,
}

impl Default for ReflexSpec {
    fn default() -> Self {
        Self {
            interval: Span::from_ms(5),
            warmup: 1,
            measure: 1,
            exploit: 3,
            give_way: GiveWayName::Queue,
            low_class: None,
            low_weight: None,
            clock_offset: Span::ZERO,
        }
    }
}

/// How a flow gives way.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GiveWayName {
    /// Its data takes another class.
    #[default]
    Queue,
    /// Its controller takes another weight.
    Weight,
}

/// Class of flows that give way where a file does not say: the second queue of two.
const LOW_CLASS: u8 = 1;
/// Weight of flows that give way where a file does not say: what the low queue of REFLEX's plan has of the high one's.
const LOW_WEIGHT: f64 = 1.0 / 9.0;

/// REFLEX for the flows of one group.
#[derive(Clone, Debug)]
pub struct ReflexGroup {
    /// What the flows have in common, for those of the group's own class.
    pub config: ReflexConfig,
    clock_offset: Span,
}

impl ReflexSpec {
    /// Writes the defaults out and makes the policy of the group's flows.
    pub(super) fn build(&mut self, group: &GroupSpec, queues: &[(&str, &QueuesSpec)]) -> Result<ReflexGroup, KeyError> {
        let refuse = |key: &str, why: String| Err((format!("reflex.{key}"), why));
        let contract = Contract::from(group.contract);
        let give_way = match self.give_way {
            GiveWayName::Queue if self.low_weight.is_some() => {
                return refuse("low_weight", "goes with give_way = \"weight\"".to_owned());
            }
            GiveWayName::Queue => {
                let low = *self.low_class.get_or_insert(LOW_CLASS);
                if usize::from(low) >= CLASSES {
                    return refuse(
                        "low_class",
                        format!("class {low} does not exist, classes are 0 to {}", CLASSES - 1),
                    );
                }
                if let Some((table, _)) = queues.iter().find(|(_, plan)| queue_of(plan, low).is_none()) {
                    return refuse("low_class", format!("no queue of `{table}` takes class {low}"));
                }
                GiveWay::Queue { high: TrafficClass::new(group.class), low: TrafficClass::new(low) }
            }
            GiveWayName::Weight if self.low_class.is_some() => {
                return refuse("low_class", "goes with give_way = \"queue\"".to_owned());
            }
            GiveWayName::Weight if !group.transport.honours().contains(&Field::Weight) => {
                let why = format!("{} has no weight, weighted-fair and push have", group.transport.name());
                return refuse("give_way", why);
            }
            GiveWayName::Weight => {
                let low = *self.low_weight.get_or_insert(LOW_WEIGHT);
                GiveWay::Weight { high: contract.weight, low: contract.weight * low }
            }
        };
        let Self { interval, warmup, measure, exploit, clock_offset, .. } = *self;
        let config = ReflexConfig { interval, warmup, measure, exploit, contract, give_way };
        config.check().map_err(|why| (self.culprit(why), why.to_string()))?;
        if contract.min_delivery < 1.0 && has_endless_flows(&group.traffic) {
            let why = "below 1 needs flows whose size is known, and some here have no end";
            return Err(("contract.min_delivery".to_owned(), why.to_owned()));
        }
        if clock_offset > Span::from_secs(1) {
            return refuse("clock_offset", "must be at most 1s".to_owned());
        }
        if let Some((low, queue)) = self.low_class.and_then(|low| Some((low, only_queue(group, low, queues)?))) {
            let why = format!(
                "class {low} goes through \"{queue}\", the queue of class {} itself: nobody would give way",
                group.class
            );
            return refuse("low_class", why);
        }
        Ok(ReflexGroup { config, clock_offset })
    }

    /// The key that a refusal is about.
    fn culprit(&self, why: ReflexError) -> String {
        let key = match why {
            ReflexError::Contract | ReflexError::SizeUnknown => return "contract".to_owned(),
            ReflexError::Weight => "low_weight",
            ReflexError::Interval => "interval",
            ReflexError::Phase if self.warmup == 0 => "warmup",
            ReflexError::Phase if self.measure == 0 => "measure",
            ReflexError::Phase => "exploit",
        };
        format!("reflex.{key}")
    }

    /// What is odd about it, if anything: the key and why. `round_trip` is that of the group's flows.
    pub(super) fn oddity(&self, round_trip: Span) -> Option<KeyError> {
        let settles = self.interval.times(u64::from(self.warmup.min(self.measure)));
        if settles < round_trip {
            let why = format!(
                "phases of {settles} are shorter than a round trip of {}: shares cannot be told",
                round_trip.rounded()
            );
            return Some(("reflex.interval".to_owned(), why));
        }
        None
    }
}

impl ReflexGroup {
    /// The configuration of flows whose data takes `class` before they give way.
    pub fn config_in(&self, class: TrafficClass) -> ReflexConfig {
        let give_way = match self.config.give_way {
            GiveWay::Queue { low, .. } => GiveWay::Queue { high: class, low },
            weight @ GiveWay::Weight { .. } => weight,
        };
        ReflexConfig { give_way, ..self.config.clone() }
    }

    /// The policy of one flow under `config`.
    pub fn policy(&self, config: Arc<ReflexConfig>, flow: &FlowSpec, seed: u64) -> Reflex {
        let size = (flow.bytes != UNLIMITED_BYTES).then_some(flow.bytes);
        Reflex::new(config, size, self.clock_offset_ps(flow.source, seed)).expect("checked when the scenario was read")
    }

    /// How far a host's clock is ahead. A host has one clock, whatever groups it is in.
    fn clock_offset_ps(&self, host: u32, seed: u64) -> i64 {
        if self.clock_offset == Span::ZERO {
            return 0;
        }
        let place = Stream::named(seed, &format!("clock.host{host}")).unit();
        ((2.0 * place - 1.0) * self.clock_offset.as_ps() as f64) as i64
    }
}

/// The queue that takes a class.
pub(super) fn queue_of(plan: &QueuesSpec, class: u8) -> Option<usize> {
    plan.queue.iter().position(|queue| queue.classes.contains(&class))
}

/// The name of the queue that takes data of the group whether it gives way or not, if no plan has another. A trace says
/// the class of each flow.
fn only_queue<'q>(group: &GroupSpec, low: u8, queues: &[(&str, &'q QueuesSpec)]) -> Option<&'q str> {
    if matches!(group.traffic, TrafficSpec::Trace(_)) {
        return None;
    }
    let shared = |plan: &QueuesSpec| queue_of(plan, low).filter(|&queue| Some(queue) == queue_of(plan, group.class));
    let all = queues.iter().all(|(_, plan)| shared(plan).is_some());
    let (_, first) = queues.first().filter(|_| all)?;
    shared(first).map(|queue| first.queue[queue].name.as_str())
}

/// Whether some flows have no end.
fn has_endless_flows(traffic: &TrafficSpec) -> bool {
    match traffic {
        TrafficSpec::Flows(spec) => spec.flows.iter().any(|flow| flow.size.is_none()),
        TrafficSpec::Permutation(spec) => spec.size.is_none() && spec.workload.is_none(),
        _ => false,
    }
}
