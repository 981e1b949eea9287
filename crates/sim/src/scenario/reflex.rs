//! The table `traffic.NAME.reflex`: bounded degradation (REFLEX).

use std::sync::Arc;

use pliant_proto::contract::reflex::{GiveWay, Reflex, ReflexConfig, ReflexError};
use pliant_proto::contract::{Contract, Field};
use pliant_proto::packet::TrafficClass;
use pliant_proto::rng::Stream;
use pliant_proto::settings::Range;
use pliant_proto::time::Span;
use pliant_proto::{choices, settings};

use super::file::group::{GroupSpec, REFLEX_TABLE};
use super::network::queues::QueuesSpec;
use crate::tables::{KeyError, read_table, write};
use crate::traffic::{FlowSpec, TrafficSpec, UNLIMITED_BYTES};

choices! {
    /// How a flow gives way.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum GiveWayName {
        /// Its data takes another class.
        Queue = "queue",
        /// Its controller takes another weight.
        Weight = "weight",
    }
}

settings! {
    /// Lets a group's flows give way as far as its contract allows: `min_share` is alpha, `min_delivery` is r.
    #[derive(Clone, PartialEq, Debug)]
    pub struct ReflexSettings {
        /// Length of an interval (T_int), longer than a round trip.
        pub interval: Span = Span::from_ms(5) => [range: Range::above(Span::ZERO), source: "REFLEX, section 4"],
        /// Intervals of the warm-up phase (D_w).
        pub warmup: u32 = 1 => [range: Range::from(1).of("interval"), source: "REFLEX, section 4"],
        /// Intervals of the measure phase (D_m).
        pub measure: u32 = 1 => [range: Range::from(1).of("interval"), source: "REFLEX, section 4"],
        /// Intervals of the exploit phase (D_e).
        pub exploit: u32 = 3 => [range: Range::from(1).of("interval"), source: "REFLEX, section 4"],
        /// How a flow gives way: its data takes another class (`"queue"`), or its controller another weight (`"weight"`).
        pub give_way: GiveWayName = GiveWayName::Queue => [],
        /// With `"queue"`: class of a flow's data while it gives way, taken somewhere by another queue than the group's `class`.
        /// Acknowledgements keep theirs.
        pub low_class: Option<u8> = None => [range: Range::up_to(31), default: "1"],
        /// With `"weight"`: weight of a flow while it gives way, as a part of its own.
        pub low_weight: Option<f64> = None => [range: Range::open(0.0, 1.0), default: "1/9"],
        /// Most by which a host's clock is ahead or behind. Each host's is drawn uniformly from there.
        pub clock_offset: Span = Span::ZERO => [range: Range::up_to(Span::from_secs(1))],
    }
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
    /// The shorter of the phases that measure.
    settles: Span,
}

/// REFLEX for a group that has such a table. Writes the defaults into it.
pub(super) fn resolve(group: &mut GroupSpec, queues: &[(&str, &QueuesSpec)]) -> Result<Option<ReflexGroup>, KeyError> {
    if !group.tables.contains_key(REFLEX_TABLE) {
        return Ok(None);
    }
    let mut settings: ReflexSettings = read_table(&group.tables, REFLEX_TABLE)?;
    let reflex = settings.build(group, queues)?;
    group.tables.insert(REFLEX_TABLE.to_owned(), write(&settings));
    Ok(Some(reflex))
}

impl ReflexSettings {
    fn build(&mut self, group: &GroupSpec, queues: &[(&str, &QueuesSpec)]) -> Result<ReflexGroup, KeyError> {
        let refuse = |key: &str, why: String| Err((format!("{REFLEX_TABLE}.{key}"), why));
        let group = &group.keys;
        let contract = Contract::from(group.contract);
        let give_way = match self.give_way {
            GiveWayName::Queue if self.low_weight.is_some() => {
                return refuse("low_weight", "goes with give_way = \"weight\"".to_owned());
            }
            GiveWayName::Queue => {
                let low = *self.low_class.get_or_insert(LOW_CLASS);
                if let Some((table, _)) = queues.iter().find(|(_, plan)| plan.queue_of(low).is_none()) {
                    return refuse("low_class", format!("no queue of `{table}` takes class {low}"));
                }
                GiveWay::Queue { high: TrafficClass::new(group.class), low: TrafficClass::new(low) }
            }
            GiveWayName::Weight if self.low_class.is_some() => {
                return refuse("low_class", "goes with give_way = \"queue\"".to_owned());
            }
            GiveWayName::Weight if !group.transport.honours().contains(&Field::Weight) => {
                let why = format!("{} has no weight; dctcp, weighted-fair and push have", group.transport.name());
                return refuse("give_way", why);
            }
            GiveWayName::Weight => {
                let low = *self.low_weight.get_or_insert(LOW_WEIGHT);
                GiveWay::Weight { high: contract.weight, low: contract.weight * low }
            }
        };
        let Self { interval, warmup, measure, exploit, clock_offset, .. } = *self;
        let config = ReflexConfig { interval, warmup, measure, exploit, contract, give_way };
        config.check().map_err(|why| (culprit(why), why.to_string()))?;
        if contract.min_delivery < 1.0 && group.traffic.has_endless_flows() {
            let why = "below 1 needs flows whose size is known, and some here have no end";
            return Err(("contract.min_delivery".to_owned(), why.to_owned()));
        }
        let only = self.low_class.and_then(|low| Some((low, only_queue(group.class, &group.traffic, low, queues)?)));
        if let Some((low, queue)) = only {
            let why = format!(
                "class {low} goes through \"{queue}\", the queue of class {} itself: nobody would give way",
                group.class
            );
            return refuse("low_class", why);
        }
        Ok(ReflexGroup { config, clock_offset, settles: interval.times(u64::from(warmup.min(measure))) })
    }
}

/// The key that a refusal is about. Ranges are checked before.
fn culprit(why: ReflexError) -> String {
    let key = match why {
        ReflexError::Contract | ReflexError::SizeUnknown => return "contract".to_owned(),
        ReflexError::Weight => "low_weight",
        ReflexError::Interval => "interval",
        ReflexError::Phase => "exploit",
    };
    format!("{REFLEX_TABLE}.{key}")
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

    /// What is odd about it, if anything: the key and why. `round_trip` is that of the group's flows.
    pub(super) fn oddity(&self, round_trip: Span) -> Option<KeyError> {
        (self.settles < round_trip).then(|| {
            let why = format!(
                "phases of {} are shorter than a round trip of {}: shares cannot be told",
                self.settles,
                round_trip.rounded()
            );
            ("reflex.interval".to_owned(), why)
        })
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

/// The name of the queue that takes data of a group of `class` whether it gives way or not, if no plan has another. A
/// trace says the class of each flow.
fn only_queue<'q>(class: u8, traffic: &TrafficSpec, low: u8, queues: &[(&str, &'q QueuesSpec)]) -> Option<&'q str> {
    if matches!(traffic, TrafficSpec::Trace(_)) {
        return None;
    }
    let shared = |plan: &QueuesSpec| plan.queue_of(low).filter(|&queue| Some(queue) == plan.queue_of(class));
    let all = queues.iter().all(|(_, plan)| shared(plan).is_some());
    let (_, first) = queues.first().filter(|_| all)?;
    shared(first).map(|queue| first.queue[queue].name.as_str())
}
