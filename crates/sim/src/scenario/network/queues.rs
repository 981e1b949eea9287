//! The tables `queues` and `host_queues`: a named plan, or one written out.

use pliant_proto::packet::CLASSES;
use pliant_proto::switch::marker::MarkerConfig;
use pliant_proto::switch::plan::{Discipline, QueueConfig, QueuePlan, SchedulerConfig, ShaperConfig, ShaperRate};
use pliant_proto::time::Span;
use pliant_proto::units::{Bytes, Rate};
use serde::{Deserialize, Serialize};

use super::direction::Direction;
use super::disciplines::DisciplineName;
use super::limit::Limit;
use super::marking::{EcnSpec, RedSpec};
use crate::tables::KeyError;
use crate::units_serde;

/// Bytes per unit of weight and round of DWRR where a plan does not say: one full Ethernet frame.
pub(super) const DEFAULT_QUANTUM: Bytes = Bytes(1538);

/// Queues of every port of one kind of node. Either `plan` names them, with `limit` and `ecn` in place of the plan's
/// own, or `scheduler` and `queue` write them out.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct QueuesSpec {
    /// A named plan: see [`PRESETS`](crate::scenario::PRESETS). Default: `"shared"` unless `queue` is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
    /// What each queue of a named plan holds: `"466 packets"`, `"1MB"`, `"40ms"`, or several. Default: the plan's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<Limit>,
    /// How each queue of a named plan marks; `false` for not at all. Default: the plan's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ecn: Option<EcnSpec>,
    /// Bytes of red packets that the queue of a named plan holds which limits them. Default: the plan's.
    #[serde(skip_serializing_if = "Option::is_none", with = "units_serde::optional")]
    pub colour_limit: Option<Bytes>,
    /// Share of each link that plans with credits reserve for them, FlexPass's w_q: in (0, 1], or `"traffic"` for the
    /// share of bytes whose ends are both deployed. Default: the plan's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reserve: Option<Reserve>,
    /// `"strict"`, `"dwrr"` (deficit weighted round robin) or `"wfq"` (self-clocked fair queueing). Default: `"strict"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduler: Option<Scheduler>,
    /// How many of the first queues DWRR and WFQ serve by strict priority before the others. Default: 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strict: Option<u8>,
    /// Bytes per unit of weight and round of DWRR. Default: `"1538B"`, one full Ethernet frame.
    #[serde(skip_serializing_if = "Option::is_none", with = "units_serde::optional")]
    pub quantum: Option<Bytes>,
    /// Packets in a device FIFO behind the scheduler, which no marker sees. Default: the plan's, or 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device_fifo_packets: Option<u32>,
    /// Bytes that all queues of a node share under dynamic thresholds (Choudhury and Hahne). Default: none.
    #[serde(skip_serializing_if = "Option::is_none", with = "units_serde::optional")]
    pub shared_buffer: Option<Bytes>,
    /// The queues, by priority where that matters.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub queue: Vec<QueueSpec>,
    /// Ports whose queues differ: each element chooses ports by `rate`, `tier` and `direction`, and has the other keys of
    /// this table, laid over it. Of several elements that choose a port the last counts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<Self>,
    /// In an element of `ports`: the rate of its ports' links. Default: any.
    #[serde(skip_serializing_if = "Option::is_none", with = "units_serde::optional")]
    pub rate: Option<Rate>,
    /// In an element of `ports`: the tier of its switches, 1 for those with hosts. Default: any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tier: Option<u32>,
    /// In an element of `ports`: where its ports lead, `"up"`, `"down"` or `"across"`. Default: anywhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub direction: Option<Direction>,
}

/// Share of each link that a plan reserves for transports with credits.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(untagged, expecting = "must be a share, a number above 0 and up to 1, or \"traffic\"")]
pub enum Reserve {
    /// This share, in (0, 1].
    Share(f64),
    /// By what the share follows.
    Following(ReserveBy),
}

/// What a reserved share follows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReserveBy {
    /// The share of bytes of flows whose ends are both deployed: an oracle's knowledge.
    Traffic,
}

/// How the next queue is chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scheduler {
    /// The first queue that holds something.
    Strict,
    /// Deficit weighted round robin.
    Dwrr,
    /// Weighted round robin by packets.
    Wrr,
    /// Self-clocked fair queueing.
    Wfq,
}

impl Scheduler {
    /// The scheduler of weighted queues that has this name.
    pub(super) fn weighted(name: &str) -> Option<Self> {
        match name {
            "dwrr" => Some(Self::Dwrr),
            "wrr" => Some(Self::Wrr),
            "wfq" => Some(Self::Wfq),
            _ => None,
        }
    }
}

/// One queue.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueueSpec {
    /// Its name in tables; no two alike.
    pub name: String,
    /// Traffic classes, 0 to 31, that it takes.
    pub classes: Vec<u8>,
    /// Its share against others under DWRR, WRR and WFQ, above 0. Default: 1.
    #[serde(default = "one")]
    pub weight: u32,
    /// What it holds: `"466 packets"`, `"1MB"`, `"40ms"` of what its link sends, or several: `"466 packets, 1MB"`.
    pub limit: Limit,
    /// Marks above a threshold: `"65 packets"` or a table. Default: not.
    #[serde(default, skip_serializing_if = "EcnSpec::is_off")]
    pub ecn: EcnSpec,
    /// Marks by random early detection, instead of `ecn`. Default: not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub red: Option<RedSpec>,
    /// Bytes of red packets it holds (selective dropping, FlexPass). Default: no limit of their own.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "units_serde::optional")]
    pub colour_limit: Option<Bytes>,
    /// Its share of the free shared buffer, in (0, 1024]. Default: 1.
    #[serde(default = "one_f64")]
    pub buffer_alpha: f64,
    /// Bytes set aside for it outside the shared buffer. Default: `"0B"`.
    #[serde(default, with = "units_serde")]
    pub reserved: Bytes,
    /// Token bucket that limits it; strict queues only. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shaper: Option<ShaperSpec>,
    /// `"fifo"`, `"pfabric"`, `"return-to-sender"`, or one that a program has registered. Default: `"fifo"`.
    #[serde(default)]
    pub discipline: DisciplineName,
    /// When it is full, cuts the payload off instead of dropping (NDP). Default: not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trim: Option<TrimSpec>,
    /// Under DWRR: queues with the same lane, 0 to 31, are one participant, with strict priority inside it. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lane: Option<u8>,
}

/// What is left of a packet whose payload is cut off: `{ size = "84B", class = 31 }`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrimSpec {
    /// Its size on the wire, above zero.
    #[serde(with = "units_serde")]
    pub size: Bytes,
    /// Its traffic class, which a queue with the discipline `"return-to-sender"` takes.
    pub class: u8,
}

/// A token bucket: `{ rate = "500Mbit/s", depth = "168B" }`, or `{ share = 0.05, depth = "168B" }`.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShaperSpec {
    /// Rate at which tokens come, above zero.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "units_serde::optional")]
    pub rate: Option<Rate>,
    /// In place of `rate`: so much of the link's rate, in (0, 1].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<f64>,
    /// Most tokens kept, above zero.
    #[serde(with = "units_serde")]
    pub depth: Bytes,
}

fn one() -> u32 {
    1
}

fn one_f64() -> f64 {
    1.0
}

impl QueuesSpec {
    /// The number of the queue that takes a class.
    pub(in super::super) fn queue_of(&self, class: u8) -> Option<usize> {
        self.queue.iter().position(|queue| queue.classes.contains(&class))
    }

    /// The queue that takes a class, itself.
    pub(in super::super) fn queue_for(&self, class: u8) -> Option<&QueueSpec> {
        self.queue_of(class).map(|queue| &self.queue[queue])
    }

    /// This table, then its elements of `ports`, each with its key.
    pub(in super::super) fn tables(&self) -> impl Iterator<Item = (String, &Self)> {
        let ports = self.ports.iter().enumerate().map(|(index, ports)| (format!("ports.{index}."), ports));
        std::iter::once((String::new(), self)).chain(ports)
    }

    /// Whether the reserved share follows the traffic.
    pub(in super::super) fn follows_traffic(&self) -> bool {
        self.reserve == Some(Reserve::Following(ReserveBy::Traffic))
    }

    /// The plan that an [expanded](Self::expanded) table describes.
    pub(in super::super) fn build(&self) -> Result<QueuePlan, KeyError> {
        let strict = self.strict.unwrap_or(0);
        let quantum = self.quantum.unwrap_or(DEFAULT_QUANTUM);
        let plan = QueuePlan {
            queues: self.queue.iter().enumerate().map(|(index, queue)| queue.build(index)).collect::<Result<_, _>>()?,
            scheduler: match self.scheduler.unwrap_or(Scheduler::Strict) {
                Scheduler::Strict => SchedulerConfig::Strict,
                Scheduler::Dwrr => SchedulerConfig::Dwrr { strict, quantum_bytes: narrow(quantum, "quantum")? },
                Scheduler::Wrr => SchedulerConfig::Wrr { strict },
                Scheduler::Wfq => SchedulerConfig::Wfq { strict },
            },
            queue_of_class: self.queue_of_class()?.map(|queue| queue.unwrap_or(0)),
            device_fifo_packets: self.device_fifo_packets.unwrap_or(0),
            shared_buffer: self.shared_buffer,
            jitter: Span::ZERO,
        };
        plan.check().map_err(|error| {
            let queue = error.queue.and_then(|name| plan.queues.iter().rposition(|queue| queue.name == name));
            (queue.map_or(String::new(), |index| format!("queue.{index}")), error.why.to_owned())
        })?;
        Ok(plan)
    }

    /// Queue of each class; `None` for classes that no queue takes.
    pub(in super::super) fn queue_of_class(&self) -> Result<[Option<u8>; CLASSES], KeyError> {
        let mut queue_of_class = [None; CLASSES];
        for (index, queue) in self.queue.iter().enumerate() {
            for &class in &queue.classes {
                let error = |why: String| (format!("queue.{index}.classes"), why);
                let place = queue_of_class
                    .get_mut(usize::from(class))
                    .ok_or_else(|| error(format!("class {class} does not exist, classes are 0 to {}", CLASSES - 1)))?;
                if let Some(other) = place.replace(index as u8) {
                    let other = &self.queue[usize::from(other)].name;
                    return Err(error(format!("class {class} already goes to queue \"{other}\"")));
                }
            }
        }
        Ok(queue_of_class)
    }
}

impl QueueSpec {
    fn build(&self, index: usize) -> Result<QueueConfig, KeyError> {
        let below = |key: &str| format!("queue.{index}.{key}");
        let marker = match (self.ecn.marker(), &self.red) {
            (MarkerConfig::None, Some(red)) => red.marker().map_err(|why| (below("red"), why.to_owned()))?,
            (_, Some(_)) => return Err((below("red"), "give either ecn or red, not both".to_owned())),
            (marker, None) => marker,
        };
        Ok(QueueConfig {
            name: self.name.clone(),
            limit_packets: self.limit.packets(),
            limit_bytes: self.limit.bytes(),
            limit_time: self.limit.time(),
            red_limit_bytes: self.colour_limit.map_or(u64::MAX, |limit| limit.0),
            marker,
            weight: self.weight,
            buffer_alpha: self.buffer_alpha,
            reserved_bytes: self.reserved.0,
            shaper: match self.shaper {
                Some(shaper) => Some(ShaperConfig {
                    rate: shaper.rate().map_err(|why| (below("shaper"), why.to_owned()))?,
                    depth_bytes: narrow(shaper.depth, &below("shaper.depth"))?,
                }),
                None => None,
            },
            discipline: match (self.discipline, self.trim) {
                (DisciplineName::Fifo, Some(TrimSpec { size, class })) => Discipline::Trim {
                    header_bytes: u16::try_from(size.0)
                        .map_err(|_| (below("trim.size"), "must be at most 65535B".to_owned()))?,
                    header_class: class,
                },
                (_, Some(_)) => return Err((below("trim"), "only a queue of discipline \"fifo\" trims".to_owned())),
                (discipline, None) => discipline.discipline(),
            },
            lane: self.lane,
        })
    }
}

impl ShaperSpec {
    fn rate(&self) -> Result<ShaperRate, &'static str> {
        match (self.rate, self.share) {
            (Some(rate), None) => Ok(ShaperRate::Fixed(rate)),
            (None, Some(share)) => Ok(ShaperRate::Share(share)),
            _ => Err("needs either a rate or a share of the link"),
        }
    }
}

fn narrow(bytes: Bytes, key: &str) -> Result<u32, KeyError> {
    u32::try_from(bytes.0).map_err(|_| (key.to_owned(), format!("{bytes} is more than the largest value, 4GB")))
}
