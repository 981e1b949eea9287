//! What a run yields: plain data, and the statistics computed from it.

use pliant_proto::contract::reflex::Standing;
use pliant_proto::switch::queue::{DropReason, Occupancy, QueueCounters, Tally};
use pliant_proto::time::{Instant, Span};
use pliant_proto::transport::WindowState;
use serde::{Deserialize, Serialize};

pub mod comparison;
pub mod objects;
pub mod statistics;

/// How a flow stood when the run ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum FlowState {
    /// The receiver has every byte it needs.
    Completed,
    /// Still under way.
    Unfinished,
    /// The sender is through, bytes were lost, and the transport repairs nothing (UDP).
    SentWithLoss,
    /// A flow without an end, which ran as long as the run did.
    RanToEnd,
}

impl FlowState {
    /// Every state.
    pub const ALL: [Self; 4] = [Self::Completed, Self::Unfinished, Self::SentWithLoss, Self::RanToEnd];

    /// That of a flow with an end of which everything needed has arrived, or whose sender is through.
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

/// How many messages a flow had, and what became of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MessageCounts {
    /// Messages of the flow; of one without an end, those handed over.
    pub total: u32,
    /// How many must arrive under its contract.
    pub needed: u32,
    /// How many arrived whole.
    pub delivered: u32,
}

/// A share of a fair rate, or none. Half the size of an `Option`, since every flow has two.
#[derive(Clone, Copy, Debug)]
pub struct Share(f64);

impl Share {
    /// No share is known.
    pub const NONE: Self = Self(f64::NAN);

    /// A share, which is a number.
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

/// One flow that started, finished or not.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct FlowRow {
    /// Its number, by start time.
    pub id: u64,
    /// Index of its traffic group in [`RunResult::groups`].
    pub group: u16,
    /// Its number within the group, from 0. A duplicate has that of its original.
    pub request: u64,
    /// Sending host.
    pub source: u32,
    /// Receiving host.
    pub destination: u32,
    /// Payload bytes the application sent.
    pub bytes: u64,
    /// When the application started it.
    pub start: Instant,
    /// When the receiver had the last byte it needs.
    pub completed: Option<Instant>,
    /// Time it would take alone on its path.
    pub ideal_fct: Span,
    /// Distinct payload bytes that reached the receiving application.
    pub delivered_bytes: u64,
    /// Payload bytes that its contract let the sender give up.
    pub given_up_bytes: u64,
    /// Payload bytes sent while giving way, retransmissions included.
    pub low_bytes: u64,
    /// Time spent giving way.
    pub low_time: Span,
    /// How it stood at the end.
    pub state: FlowState,
    /// Data packets sent again.
    pub retransmissions: u32,
    /// Retransmission timeouts.
    pub timeouts: u32,
    /// Data packets that arrived marked CE.
    pub marks: u32,
    /// Packets of both directions that a queue refused.
    pub drops: u32,
    /// Credits that the receiver sent.
    pub credits: u64,
    /// Credits that reached the sender when it had nothing to send.
    pub wasted_credits: u64,
    /// Of the delivered bytes of a transport with credits, those that came without one: FlexPass's reactive sub-flow.
    pub reactive_bytes: u64,
    /// Largest stretch that the receiver of two sub-flows held beyond a gap.
    pub reorder_bytes: u64,
    /// Payload bytes that arrived though they had arrived before.
    pub duplicate_bytes: u64,
    /// Bytes delivered over the flow's max-min fair rate, integrated while it was open; none unless asked for.
    pub fair_share: Share,
    /// Completion time had all flows their max-min fair rates, over the flow's own; none unless asked for.
    pub fluid_share: Share,
    /// Times that it paused for a queue above its own.
    pub pauses: u32,
    /// Time for which it paused, in the pauses that are over.
    pub paused: Span,
    /// Its messages; `None` of a plain sequence of bytes.
    pub messages: Option<MessageCounts>,
    /// Number, within its group, of the object that it brings a part of; `None` of other flows.
    pub object: Option<u64>,
    /// Whether its bytes are all those of the object, which the object's flows share.
    pub shares_object: bool,
    /// Of a push flow, packets with symbols that arrived.
    pub symbols: u64,
    /// Of these, those of a block already decoded, and those that came twice.
    pub excess_symbols: u64,
    /// Blocks that the receiver had to decode: all those of the object, in the row of its first flow.
    pub decoded_blocks: u32,
    /// Blocks that needed no decoding, likewise.
    pub whole_blocks: u32,
    /// How far the mean of the records that arrived is off that of all, as a part of it; none without records.
    pub record_error: Share,
}

impl Default for FlowRow {
    /// A flow of nothing that has just started.
    fn default() -> Self {
        Self {
            id: 0,
            group: 0,
            request: 0,
            source: 0,
            destination: 0,
            bytes: 0,
            start: Instant::ZERO,
            completed: None,
            ideal_fct: Span::ZERO,
            delivered_bytes: 0,
            given_up_bytes: 0,
            low_bytes: 0,
            low_time: Span::ZERO,
            state: FlowState::Unfinished,
            retransmissions: 0,
            timeouts: 0,
            marks: 0,
            drops: 0,
            fair_share: Share::NONE,
            fluid_share: Share::NONE,
            pauses: 0,
            paused: Span::ZERO,
            messages: None,
            record_error: Share::NONE,
            credits: 0,
            wasted_credits: 0,
            reactive_bytes: 0,
            reorder_bytes: 0,
            duplicate_bytes: 0,
            object: None,
            shares_object: false,
            symbols: 0,
            excess_symbols: 0,
            decoded_blocks: 0,
            whole_blocks: 0,
        }
    }
}

impl FlowRow {
    /// Flow completion time: from the application's start to the receiver's last needed byte.
    pub fn fct(&self) -> Option<Span> {
        self.completed.map(|completed| completed.since(self.start))
    }

    /// Completion time over the ideal one on the same path; `None` until completed.
    pub fn slowdown(&self) -> Option<f64> {
        self.fct().and_then(|fct| self.slowdown_of(fct))
    }

    /// `time` over the ideal completion time; `None` for a flow without an ideal.
    pub fn slowdown_of(&self, time: Span) -> Option<f64> {
        (self.ideal_fct > Span::ZERO).then(|| time.as_ps() as f64 / self.ideal_fct.as_ps() as f64)
    }
}

/// One queue of one port: what it counted during the run.
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
    /// What it still holds at the end.
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

/// What one queue held at one moment. Empty queues are not recorded.
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
    /// Bytes of red packets among them, in queues that limit those; 0 in others.
    pub red_bytes: u64,
}

/// What one traffic group delivered since its sample before, or since the start.
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

/// A traffic group, in words for people.
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
    /// Hash over all events: equal for equal runs.
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
    /// Messages to and from the controller of objects, which travel beside the network.
    pub control_messages: u64,
    /// Whether the user stopped it before its end.
    pub interrupted: bool,
    /// Why the machine was too busy for this run on a testbed, whose times are no result then.
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

    /// Checks what no run may break: no flow beats its ideal, none delivers and gives up more than it has, groups exist.
    pub fn assert_invariants(&self) {
        for flow in &self.flows {
            assert!(usize::from(flow.group) < self.groups.len(), "flow {} has no group", flow.id);
            assert!(
                flow.delivered_bytes + flow.given_up_bytes <= flow.bytes,
                "flow {} delivered and gave up more than its {} bytes",
                flow.id,
                flow.bytes
            );
            // The ideal is of full packets. Those of messages may be smaller, and through each hop sooner; and who needs
            // only some messages may be through before the last byte could be.
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
