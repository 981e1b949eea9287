//! What is exported, and what follows from it for every form.

use pliant_proto::switch::marker::{Level, MarkerConfig};
use pliant_proto::switch::plan::{Discipline, QueueConfig, QueuePlan, SchedulerConfig};
use pliant_proto::units::Rate;

/// A port with queues.
#[derive(Clone, Copy, Debug)]
pub struct Port<'p> {
    /// Its queues.
    pub plan: &'p QueuePlan,
    /// Rate of its link.
    pub rate: Rate,
    /// Bytes of a full IP packet, by which limits in packets become bytes. 1500 on most networks.
    pub packet_bytes: u32,
    /// The ports' names on the switch, such as `Ethernet0`, or a host's interface.
    pub names: &'p [String],
    /// What tells it from other ports of the same switch, whose queues differ, such as `up, 100Gbit/s`; empty if none differ.
    pub kind: &'p str,
}

impl Port<'_> {
    /// `name`, and after it the kind of port in letters and digits: profiles of several kinds stand side by side.
    pub(super) fn of_kind(&self, name: &str) -> String {
        let kind: Vec<&str> =
            self.kind.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()).collect();
        if kind.is_empty() { name.to_owned() } else { format!("{name}.{}", kind.join("_")) }
    }

    /// That these queues are those of some ports only.
    pub(super) fn other_kinds(&self) -> Option<String> {
        (!self.kind.is_empty()).then(|| {
            format!(
                "these are the queues of ports {}; other ports have others: export each kind, and load them all",
                self.kind
            )
        })
    }

    /// DSCPs of a queue: two for each of its classes, the second for packets that may be dropped first.
    pub(super) fn dscps(&self, queue: usize) -> Vec<u8> {
        let classes = (0u8..).zip(self.plan.queue_of_class).filter(|(_, of)| usize::from(*of) == queue);
        classes.flat_map(|(class, _)| [2 * class, 2 * class + 1]).collect()
    }

    /// How many of the first queues are served by strict priority.
    pub(super) fn strict(&self) -> usize {
        self.plan.scheduler.strict_queues(self.plan.queues.len())
    }

    /// Bytes that a queue holds, of IP packets.
    pub(super) fn limit_bytes(&self, queue: &QueueConfig) -> u64 {
        let packets = match queue.limit_packets {
            u32::MAX => u64::MAX,
            packets => u64::from(packets) * u64::from(self.packet_bytes),
        };
        packets.min(queue.bytes_at(self.rate))
    }

    /// A threshold in bytes.
    pub(super) fn level_bytes(&self, level: Level) -> u64 {
        level.bytes(self.packet_bytes, self.rate)
    }

    /// Whole weights of the queues behind the strict ones in the least numbers, at most `most`; and how far the ratio of
    /// two is off at worst, as a fraction.
    pub(super) fn weights(&self, most: u32) -> (Vec<u32>, f64) {
        let given: Vec<u32> = self.plan.queues[self.strict()..].iter().map(|queue| queue.weight.max(1)).collect();
        let divisor = given.iter().copied().fold(0, greatest_common_divisor).max(1);
        let least: Vec<u32> = given.iter().map(|weight| weight / divisor).collect();
        let greatest = least.iter().copied().max().unwrap_or(1);
        if greatest <= most {
            return (least, 0.0);
        }
        let scaled = |weight: u32| f64::from(weight) * f64::from(most) / f64::from(greatest);
        let whole: Vec<u32> = least.iter().map(|weight| (scaled(*weight).round() as u32).max(1)).collect();
        let off = least.iter().zip(&whole).map(|(weight, whole)| (f64::from(*whole) / scaled(*weight) - 1.0).abs());
        let off = off.fold(0.0, f64::max);
        (whole, off)
    }

    /// What no form but the neutral one can say of the plan: a sentence each.
    pub(super) fn beyond_switches(&self) -> Vec<String> {
        let mut all: Vec<String> = self.other_kinds().into_iter().collect();
        if let SchedulerConfig::Wfq { .. } = self.plan.scheduler {
            all.push("self-clocked fair queueing: written as deficit round robin with the same weights".to_owned());
        }
        for queue in &self.plan.queues {
            let name = &queue.name;
            let what = match &queue.discipline {
                Discipline::Fifo => None,
                Discipline::PFabric => Some("pFabric's order by urgency"),
                Discipline::Trim { .. } => Some("trimming of packets"),
                Discipline::ReturnToSender => Some("return of headers to their sender"),
                Discipline::Foreign(_) => Some("a discipline of another program"),
            };
            if let Some(what) = what {
                all.push(format!("queue \"{name}\": {what}: written as a queue that drops its tail"));
            }
            if let MarkerConfig::Phantom(_) = queue.marker {
                all.push(format!("queue \"{name}\": a phantom queue: written without marking"));
            }
            if queue.lane.is_some() {
                all.push(format!(
                    "queue \"{name}\": lanes (priority inside round robin): written as a queue of its own"
                ));
            }
        }
        if self.plan.device_fifo_packets > 0 {
            let packets = self.plan.device_fifo_packets;
            all.push(format!("the device FIFO of {packets} packets: it describes the device and cannot be set"));
        }
        all
    }
}

fn greatest_common_divisor(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}
