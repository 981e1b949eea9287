//! What a run yields: plain data, and the statistics computed from it.
//!
//! The columns of each kind of row are declared once, with their names, units and meanings: those of flows beside
//! [`FlowRow`], the others in `tables`. Whatever reads or writes a row by column takes it from there.

use pliant_proto::time::{Instant, Span};

pub mod comparison;
pub mod decision;
mod flow;
mod flow_facts;
pub mod objects;
pub mod repetition;
mod rows;
pub mod statistics;
pub(crate) mod table;
mod tables;

pub(crate) use flow::FLOWS;
pub use flow::{FlowEnd, FlowRow};
pub use flow_facts::{FlowState, MessageCounts, ObjectPart, Share};
pub use rows::{GroupInfo, PortRow, QueueSample, ReflexSample, ThroughputSample, WindowSample};
pub(crate) use tables::{OBJECTS, PORTS, QUEUE_SERIES, REFLEX_SERIES, THROUGHPUT_SERIES, WINDOW_SERIES};

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
