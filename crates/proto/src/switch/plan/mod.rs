//! The neutral description of a port's queues, from which every back end builds its own.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt::{self, Debug};

use super::foreign::ForeignQueue;
use super::marker::MarkerConfig;
use crate::packet::CLASSES;
use crate::rng::Stream;
use crate::time::Span;
use crate::units::{Bytes, Rate};

/// Most jitter of a port.
const JITTER_MAX: Span = Span::from_ms(1000);

/// The queues of a port.
#[derive(Clone, PartialEq, Debug)]
pub struct QueuePlan {
    /// The queues, in order of strict priority where that matters: queue 0 first.
    pub queues: Vec<QueueConfig>,
    /// How the next queue is chosen.
    pub scheduler: SchedulerConfig,
    /// Queue of each traffic class.
    pub queue_of_class: [u8; CLASSES],
    /// Packets that a tail-drop device FIFO behind the scheduler takes before the scheduler must wait; 0 for none.
    /// They are delay that no marker sees (ns-3's device queue; REFLEX has one of 20 packets).
    pub device_fifo_packets: u32,
    /// Bytes all queues of one switch share under dynamic thresholds; `None`: each queue has only its own limit.
    pub shared_buffer: Option<Bytes>,
    /// A packet that finds the port idle starts up to so much later, by a uniform draw: what timers, interrupts and
    /// processing add at a real host. Hosts without it are exactly in step, and ties at a full drop-tail queue always
    /// fall to the same flows (phase effects; Floyd and Jacobson, 1991).
    pub jitter: Span,
}

/// One queue.
#[derive(Clone, PartialEq, Debug)]
pub struct QueueConfig {
    /// Its name in tables and files.
    pub name: String,
    /// Packets it holds.
    pub limit_packets: u32,
    /// Bytes it holds.
    pub limit_bytes: u64,
    /// It holds no more bytes than its link sends in this time.
    pub limit_time: Option<Span>,
    /// Bytes of red packets it holds (selective dropping); green packets see only the other limits.
    pub red_limit_bytes: u64,
    /// How it marks.
    pub marker: MarkerConfig,
    /// Its share against the others under DWRR and WFQ, above 0.
    pub weight: u32,
    /// Its share α of the free shared buffer (Choudhury-Hahne).
    pub buffer_alpha: f64,
    /// Bytes set aside for it outside the shared buffer.
    pub reserved_bytes: u64,
    /// Token bucket that limits it; only on strict queues.
    pub shaper: Option<ShaperConfig>,
    /// In which order its packets leave, and which it drops when it is full.
    pub discipline: Discipline,
    /// Under DWRR, queues with the same lane are one participant, which has the weight of its first queue: inside it the
    /// first queue that holds something is served. `None`: a lane of its own.
    pub lane: Option<u8>,
}

/// In which order a queue's packets leave, and which it drops when it is full.
#[derive(Clone, PartialEq, Debug, Default)]
pub enum Discipline {
    /// First in, first out; the arriving packet is dropped.
    #[default]
    Fifo,
    /// pFabric (SIGCOMM 2013, section 4.1): the packet with the least [priority](crate::packet::Packet::priority) value
    /// picks the flow, whose earliest packet leaves; the packet with the greatest is dropped, the latest of several,
    /// which may be the arriving one.
    PFabric,
    /// First in, first out; when it is full, the arriving packet or the last one queued, with equal probability, loses its
    /// payload and goes on in `header_class` (NDP, SIGCOMM 2017, section 3.1). Packets that are not
    /// [trimmable](crate::packet::Packet::is_trimmable) are dropped.
    Trim {
        /// Bytes that are left of a packet, on the wire; above 0.
        header_bytes: u16,
        /// Its class then, which a queue with `ReturnToSender` takes.
        header_class: u8,
    },
    /// First in, first out; a trimmed packet that arrives when it is full goes back to its sender, once.
    ReturnToSender,
    /// As a discipline of another crate says, which alone decides what is dropped and what is marked.
    Foreign(Arc<dyn ForeignDiscipline>),
}

/// Makes the queues of a discipline. Plans that hold the same one are equal.
pub trait ForeignDiscipline: Debug + Send + Sync {
    /// Its name in tables and files.
    fn name(&self) -> &str;

    /// An empty queue for a port to a link of rate `link`. Of `config` it honours what it wants to, the limits too; what
    /// it draws comes from `stream`, which no other queue shares.
    fn queue(&self, config: &QueueConfig, link: Rate, stream: Stream) -> Box<dyn ForeignQueue>;
}

impl PartialEq for dyn ForeignDiscipline {
    fn eq(&self, other: &Self) -> bool {
        core::ptr::addr_eq(self, other)
    }
}

/// How the next queue is chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SchedulerConfig {
    /// Lowest queue first, without preemption.
    Strict,
    /// The first `strict` queues by strict priority, the others by deficit weighted round robin. The quantum of a queue
    /// is its weight times `quantum_bytes`.
    Dwrr {
        /// Number of strict queues before the weighted ones.
        strict: u8,
        /// Bytes per unit of weight and visit.
        quantum_bytes: u32,
    },
    /// The first `strict` queues by strict priority, the others by weighted round robin: in a round each sends as many
    /// packets as its weight, whatever their size.
    Wrr {
        /// Number of strict queues before the weighted ones.
        strict: u8,
    },
    /// The first `strict` queues by strict priority, the others by self-clocked fair queueing.
    Wfq {
        /// Number of strict queues before the weighted ones.
        strict: u8,
    },
}

impl SchedulerConfig {
    /// How many of `queues` queues are served by strict priority.
    pub fn strict_queues(self, queues: usize) -> usize {
        match self {
            Self::Strict => queues,
            Self::Dwrr { strict, .. } | Self::Wrr { strict } | Self::Wfq { strict } => usize::from(strict),
        }
    }

    /// What scenarios call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Strict => "strict",
            Self::Dwrr { .. } => "dwrr",
            Self::Wrr { .. } => "wrr",
            Self::Wfq { .. } => "wfq",
        }
    }
}

/// A token bucket.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ShaperConfig {
    /// Rate at which tokens come.
    pub rate: ShaperRate,
    /// Most tokens kept, in bytes.
    pub depth_bytes: u32,
}

/// The rate of a token bucket.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum ShaperRate {
    /// The same at every port.
    Fixed(Rate),
    /// So much of the link's rate, in (0, 1]: credits of ExpressPass.
    Share(f64),
}

impl ShaperRate {
    /// The rate at a link of rate `link`, rounded to a bit per second, at least one.
    pub fn at(self, link: Rate) -> Rate {
        match self {
            Self::Fixed(rate) => rate,
            Self::Share(share) => {
                Rate::from_bits_per_sec((libm::round(share * link.bits_per_sec() as f64) as u64).max(1))
            }
        }
    }
}

impl QueueConfig {
    /// A tail-drop queue of `limit_packets` packets that does not mark.
    pub fn tail_drop(name: &str, limit_packets: u32) -> Self {
        Self {
            name: name.into(),
            limit_packets,
            limit_bytes: u64::MAX,
            limit_time: None,
            red_limit_bytes: u64::MAX,
            marker: MarkerConfig::None,
            weight: 1,
            buffer_alpha: 1.0,
            reserved_bytes: 0,
            shaper: None,
            discipline: Discipline::Fifo,
            lane: None,
        }
    }

    /// Bytes that it holds at a `link`, by its limits in bytes and in time.
    pub fn bytes_at(&self, link: Rate) -> u64 {
        self.limit_bytes.min(self.limit_time.map_or(u64::MAX, |span| link.bytes_in(span)))
    }
}

impl QueuePlan {
    /// The queue that trims first, if one does.
    pub fn trims(&self) -> Option<usize> {
        self.queues.iter().position(|queue| matches!(queue.discipline, Discipline::Trim { .. }))
    }

    /// One queue for every class.
    pub fn single(queue: QueueConfig) -> Self {
        Self {
            queues: alloc::vec![queue],
            scheduler: SchedulerConfig::Strict,
            queue_of_class: [0; CLASSES],
            device_fifo_packets: 0,
            shared_buffer: None,
            jitter: Span::ZERO,
        }
    }

    /// One queue per traffic class; classes above the last queue use the last.
    pub fn per_class(queues: Vec<QueueConfig>, scheduler: SchedulerConfig) -> Self {
        let last = queues.len().saturating_sub(1);
        let queue_of_class = core::array::from_fn(|class| class.min(last) as u8);
        Self { queues, scheduler, queue_of_class, device_fifo_packets: 0, shared_buffer: None, jitter: Span::ZERO }
    }

    /// Checks every value against its range and the others.
    pub fn check(&self) -> Result<(), PlanError> {
        let queue_error = |queue: usize, why| Err(PlanError { queue: Some(self.queues[queue].name.clone()), why });
        let plan_error = |why| Err(PlanError { queue: None, why });
        if self.queues.is_empty() || self.queues.len() > CLASSES {
            return plan_error("a plan needs 1 to 32 queues");
        }
        if self.queue_of_class.iter().any(|&queue| usize::from(queue) >= self.queues.len()) {
            return plan_error("a class is mapped to a queue that does not exist");
        }
        let strict = self.scheduler.strict_queues(self.queues.len());
        if strict > self.queues.len() {
            return plan_error("more strict queues than queues");
        }
        if matches!(self.scheduler, SchedulerConfig::Dwrr { quantum_bytes: 0, .. }) {
            return plan_error("the quantum must be above 0");
        }
        if self.shared_buffer == Some(Bytes(0)) {
            return plan_error("a shared buffer needs bytes");
        }
        if self.jitter > JITTER_MAX {
            return plan_error("the jitter is at most a second");
        }
        for (index, queue) in self.queues.iter().enumerate() {
            if self.queues[..index].iter().any(|other| other.name == queue.name) {
                return queue_error(index, "two queues have this name");
            }
            if queue.limit_packets == 0 || queue.limit_bytes == 0 || queue.limit_time == Some(Span::ZERO) {
                return queue_error(index, "its limit must be above 0");
            }
            if queue.weight == 0 {
                return queue_error(index, "its weight must be above 0");
            }
            if !(queue.buffer_alpha > 0.0 && queue.buffer_alpha <= 1024.0) {
                return queue_error(index, "its buffer alpha must lie in (0, 1024]");
            }
            if let Some(shaper) = queue.shaper {
                if index >= strict {
                    return queue_error(index, "only a strict queue can be shaped");
                }
                if shaper.rate == ShaperRate::Fixed(Rate::default()) || shaper.depth_bytes == 0 {
                    return queue_error(index, "a shaper needs a rate and a depth");
                }
                if let ShaperRate::Share(share) = shaper.rate
                    && !(share > 0.0 && share <= 1.0)
                {
                    return queue_error(index, "a shaper's share of the link must lie in (0, 1]");
                }
            }
            if queue.discipline == Discipline::PFabric && self.shared_buffer.is_some() {
                return queue_error(index, "a pFabric queue cannot share a buffer: it would drop packets of others");
            }
            let weighs = matches!(self.scheduler, SchedulerConfig::Wfq { .. }) && index >= strict;
            if queue.discipline == Discipline::PFabric && (weighs || queue.marker != MarkerConfig::None) {
                return queue_error(index, "a pFabric queue neither marks nor takes part in fair queueing");
            }
            if let Discipline::Foreign(_) = queue.discipline {
                if self.shared_buffer.is_some() {
                    return queue_error(index, "a queue of another crate's discipline cannot share a buffer");
                }
                if weighs || queue.marker != MarkerConfig::None || queue.red_limit_bytes != u64::MAX {
                    return queue_error(
                        index,
                        "a queue of another crate's discipline marks and drops by itself and is not fairly queued",
                    );
                }
            }
            if let Discipline::Trim { header_bytes, header_class } = queue.discipline {
                let headers = self.queue_of_class.get(usize::from(header_class)).copied();
                let takes_headers = headers.map(|queue| &self.queues[usize::from(queue)].discipline);
                if header_bytes == 0 || takes_headers != Some(&Discipline::ReturnToSender) {
                    return queue_error(
                        index,
                        "a queue that trims needs a queue of discipline \"return-to-sender\" for headers",
                    );
                }
            }
            if matches!(queue.discipline, Discipline::Trim { .. } | Discipline::ReturnToSender) {
                if weighs || queue.marker != MarkerConfig::None || self.shared_buffer.is_some() {
                    return queue_error(
                        index,
                        "a queue that trims neither marks, shares a buffer nor is fairly queued",
                    );
                }
                if queue.red_limit_bytes != u64::MAX {
                    return queue_error(index, "a queue that trims does not limit red packets");
                }
                if self.device_fifo_packets > 0 {
                    return queue_error(index, "a queue that trims cannot stand before a device FIFO");
                }
            }
            if queue.lane.is_some() && (index < strict || !matches!(self.scheduler, SchedulerConfig::Dwrr { .. })) {
                return queue_error(index, "only queues under DWRR have lanes");
            }
            if queue.lane.is_some_and(|lane| usize::from(lane) >= CLASSES) {
                return queue_error(index, "lanes are 0 to 31");
            }
            if let Err(why) = queue.marker.check() {
                return queue_error(index, why);
            }
        }
        Ok(())
    }
}

/// Why a plan was refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlanError {
    /// The queue concerned, if one is.
    pub queue: Option<String>,
    /// What is wrong.
    pub why: &'static str,
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.queue {
            Some(queue) => write!(f, "queue \"{queue}\": {}", self.why),
            None => f.write_str(self.why),
        }
    }
}

impl core::error::Error for PlanError {}

#[cfg(test)]
mod tests;
