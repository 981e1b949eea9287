//! Rows of what is not a flow: queues of ports, samples over time, groups.

use pliant_proto::contract::reflex::Standing;
use pliant_proto::switch::queue::{DropReason, Occupancy, QueueCounters, Tally};
use pliant_proto::time::Instant;
use pliant_proto::transport::WindowState;
use serde::{Deserialize, Serialize};

/// One queue of one port, with what it counted during the run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PortRow {
    /// Index of the port, as in [`QueueSample::port`].
    pub port: u32,
    /// Index of the queue at its port, as in [`QueueSample::queue`].
    pub queue: u8,
    /// The port's name: `leaf 0 -> host 3`.
    pub name: String,
    /// The queue's name in the queue plan.
    pub queue_name: String,
    /// What it counted.
    pub counters: QueueCounters,
    /// What it still held at the end.
    pub left: Occupancy,
}

impl PortRow {
    /// Packets and bytes that left the queue for the wire.
    pub fn dequeued(&self) -> Tally {
        let admitted = self.counters.admitted;
        Tally { packets: admitted.packets - u64::from(self.left.packets), bytes: admitted.bytes - self.left.bytes }
    }

    /// Packets and bytes refused for `reason`.
    pub fn dropped(&self, reason: DropReason) -> Tally {
        self.counters.dropped[reason as usize]
    }

    /// Packets refused for any reason.
    pub fn dropped_packets(&self) -> u64 {
        self.counters.dropped.iter().map(|tally| tally.packets).sum()
    }
}

/// What one queue held at one moment. An empty queue has no sample.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueSample {
    /// When.
    pub at: Instant,
    /// Index of the port.
    pub port: u32,
    /// Index of the queue at its port.
    pub queue: u8,
    /// Packets held.
    pub packets: u32,
    /// Bytes held.
    pub bytes: u64,
    /// Bytes of red packets among them, in a queue that limits red packets; 0 in others.
    pub red_bytes: u64,
}

/// What one traffic group delivered since its last sample, or since the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ThroughputSample {
    /// End of the interval.
    pub at: Instant,
    /// Index of the traffic group.
    pub group: u16,
    /// Payload bytes delivered to receiving applications in the interval.
    pub delivered_bytes: u64,
    /// Payload bytes that arrived without a credit in the interval, of transports with credits.
    pub reactive_bytes: u64,
}

/// How a flow under REFLEX stood when one of its intervals ended.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ReflexSample {
    /// The flow's number, as in [`FlowRow::id`](super::FlowRow::id).
    pub flow: u64,
    /// Index of its traffic group.
    pub group: u16,
    /// How it stood.
    pub standing: Standing,
}

impl ReflexSample {
    /// The flow's rate during the interval, in bytes per second; zero for an interval of no time.
    pub fn rate(&self) -> f64 {
        let seconds = self.standing.interval.as_secs_f64();
        if seconds > 0.0 { self.standing.acked_bytes as f64 / seconds } else { 0.0 }
    }
}

/// How a sender's window stood at one moment.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct WindowSample {
    /// When.
    pub at: Instant,
    /// The flow's number, as in [`FlowRow::id`](super::FlowRow::id).
    pub flow: u64,
    /// Index of its traffic group.
    pub group: u16,
    /// How it stood.
    pub window: WindowState,
}

/// A traffic group, described in words.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct GroupInfo {
    /// Its name in the scenario.
    pub name: String,
    /// Its transport.
    pub transport: String,
    /// Its traffic class or queue.
    pub class: String,
    /// Its service contract.
    pub contract: String,
    /// The least share of their fair rate that the contract grants its flows, in [0, 1].
    pub min_share: f64,
}
