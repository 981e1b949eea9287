//! What a run yields: plain data, and the statistics computed from it.
//!
//! The columns of each kind of row are declared once, with their names, units and meanings: those of flows beside
//! [`FlowRow`], the others in `tables`. Whatever reads or writes a row by column takes it from there.

use pliant_proto::contract::reflex::Standing;
use pliant_proto::switch::queue::{DropReason, Occupancy, QueueCounters, Tally};
use pliant_proto::time::{Instant, Span};
use pliant_proto::transport::WindowState;
use serde::{Deserialize, Serialize};

pub mod comparison;
mod flow;
pub mod objects;
pub mod statistics;
pub(crate) mod table;
mod tables;

pub(crate) use flow::FLOWS;
pub use flow::{FlowEnd, FlowRow};
pub(crate) use tables::{OBJECTS, PORTS, QUEUE_SERIES, REFLEX_SERIES, THROUGHPUT_SERIES, WINDOW_SERIES};

/// How a flow stood when the run ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Default)]
pub enum FlowState {
    /// The receiver has every byte it needs.
    Completed,
    /// The flow is still under way.
    #[default]
    Unfinished,
    /// The sender is done, bytes were lost, and the transport repairs nothing (UDP).
    SentWithLoss,
    /// The flow has no end. It ran as long as the run did.
    RanToEnd,
}

impl FlowState {
    /// Every state.
    pub const ALL: [Self; 4] = [Self::Completed, Self::Unfinished, Self::SentWithLoss, Self::RanToEnd];

    /// The state of a flow with an end, by whether everything it needs has arrived and whether its sender is done.
    pub const fn of(all_arrived: bool, sender_finished: bool) -> Self {
        match (all_arrived, sender_finished) {
            (true, _) => Self::Completed,
            (false, true) => Self::SentWithLoss,
            (false, false) => Self::Unfinished,
        }
    }

    /// Its name in tables and files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Unfinished => "unfinished",
            Self::SentWithLoss => "sent_with_loss",
            Self::RanToEnd => "ran_to_end",
        }
    }

    /// The state with this [`name`](Self::name).
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }
}

/// How many messages a flow had, and how many of them arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MessageCounts {
    /// Messages of the flow; of a flow without an end, those handed over.
    pub total: u32,
    /// Messages that must arrive under the contract of the flow.
    pub needed: u32,
    /// Messages that arrived whole.
    pub delivered: u32,
}

/// A share of a fair rate, or none. It takes half the memory of an `Option`; every flow has several.
#[derive(Clone, Copy, Debug)]
pub struct Share(f64);

impl Default for Share {
    /// [`NONE`](Self::NONE).
    fn default() -> Self {
        Self::NONE
    }
}

impl Share {
    /// No share is known.
    pub const NONE: Self = Self(f64::NAN);

    /// The share, which must be a number.
    pub fn new(share: Option<f64>) -> Self {
        assert!(share.is_none_or(|share| !share.is_nan()), "a share is a number");
        share.map_or(Self::NONE, Self)
    }

    /// The share, if there is one.
    pub fn get(self) -> Option<f64> {
        (!self.0.is_nan()).then_some(self.0)
    }
}

impl PartialEq for Share {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

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
    /// The flow's number, as in [`FlowRow::id`].
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
    /// The flow's number, as in [`FlowRow::id`].
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

/// Everything a run yields.
#[derive(Clone, PartialEq, Debug)]
pub struct RunResult {
    /// The scenario's name.
    pub scenario: String,
    /// Version of Pliant that ran it.
    pub version: String,
    /// The seed.
    pub seed: u64,
    /// Hash over all events. Equal runs have equal digests. 0 on a testbed, where no two runs are equal.
    pub digest: u64,
    /// Simulated time.
    pub simulated: Span,
    /// Elapsed real time, in seconds.
    pub wall_s: f64,
    /// Processor time, in seconds.
    pub cpu_s: f64,
    /// Packets crossing one link, counted once per link.
    pub packet_hops: u64,
    /// Events handled.
    pub events: u64,
    /// Messages to and from the controller of objects. They travel beside the network.
    pub control_messages: u64,
    /// Whether the user stopped the run before its end.
    pub interrupted: bool,
    /// Why the machine was too busy for this run on a testbed. The times of such a run are no result.
    pub overloaded: Option<String>,
    /// Traffic groups, in the scenario's order.
    pub groups: Vec<GroupInfo>,
    /// Every flow that started.
    pub flows: Vec<FlowRow>,
    /// Every queue of every port.
    pub ports: Vec<PortRow>,
    /// Queue lengths over time, by time; empty unless asked for.
    pub queue_samples: Vec<QueueSample>,
    /// Throughput over time, by time; empty unless asked for.
    pub throughput_samples: Vec<ThroughputSample>,
    /// Standings of flows under REFLEX, by time; empty unless asked for.
    pub reflex_samples: Vec<ReflexSample>,
    /// Windows of senders over time, by time; empty unless asked for.
    pub window_samples: Vec<WindowSample>,
}

impl RunResult {
    /// The digest as it is printed: 16 hexadecimal digits.
    pub fn digest_text(&self) -> String {
        format!("{:016x}", self.digest)
    }

    /// When the run ended.
    pub fn end(&self) -> Instant {
        Instant::ZERO.after(self.simulated)
    }

    /// Packet-hops per second of processor time: the unit of speed.
    pub fn hops_per_cpu_second(&self) -> f64 {
        if self.cpu_s > 0.0 { self.packet_hops as f64 / self.cpu_s } else { 0.0 }
    }

    /// Panics if the result breaks an invariant: no flow beats its ideal, no flow delivers and gives up more than it has,
    /// and every flow's group exists.
    pub fn assert_invariants(&self) {
        for flow in &self.flows {
            assert!(usize::from(flow.group) < self.groups.len(), "flow {} has no group", flow.id);
            assert!(
                flow.delivered_bytes + flow.given_up_bytes <= flow.bytes,
                "flow {} delivered and gave up more than its {} bytes",
                flow.id,
                flow.bytes
            );
            // The ideal assumes full packets. Packets of messages may be smaller and cross each hop sooner. A flow that
            // needs only some of its messages may complete before its last byte could arrive.
            let beats_ideal = flow.messages.is_none()
                && flow.delivered_bytes == flow.bytes
                && flow.fct().is_some_and(|fct| fct < flow.ideal_fct);
            assert!(!beats_ideal, "flow {} took {:?}, less than the ideal {}", flow.id, flow.fct(), flow.ideal_fct);
        }
    }
}

#[cfg(test)]
pub(crate) mod samples;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slowdown_is_measured_against_the_ideal() {
        let mut flow = samples::flow(0, 1000);
        flow.completed = Some(flow.start.after(flow.ideal_fct.times(3)));
        assert_eq!(flow.slowdown(), Some(3.0));
        flow.completed = None;
        assert_eq!((flow.fct(), flow.slowdown()), (None, None));
    }

    #[test]
    #[should_panic(expected = "less than the ideal")]
    fn a_flow_that_beats_its_ideal_is_a_broken_run() {
        let mut result = samples::run();
        let flow = &mut result.flows[0];
        flow.delivered_bytes = flow.bytes;
        flow.completed = Some(flow.start.after(flow.ideal_fct.divided_by(2)));
        result.assert_invariants();
    }

    #[test]
    fn states_have_distinct_names() {
        for state in FlowState::ALL {
            assert_eq!(FlowState::from_name(state.name()), Some(state));
        }
        assert_eq!(FlowState::from_name("paused"), None);
    }
}
