//! Objects: the flows that bring one, taken together.

use std::collections::BTreeMap;

use pliant_proto::time::{Instant, Span};

use super::{FlowRow, FlowState, RunResult};

/// One object on its way to one host.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ObjectRow {
    /// Index of its traffic group.
    pub group: u16,
    /// Its number within the group, from 0.
    pub object: u64,
    /// Receiving host.
    pub receiver: u32,
    /// Number of its sources.
    pub sources: u32,
    /// Its payload bytes.
    pub bytes: u64,
    /// When it was asked for.
    pub start: Instant,
    /// When the receiver had all of it.
    pub completed: Option<Instant>,
    /// Payload bytes that arrived.
    pub delivered_bytes: u64,
    /// Largest part of what arrived that one source sent, in [0, 1].
    pub largest_part: f64,
    /// Packets with symbols that arrived; zero unless it was pushed.
    pub symbols: u64,
    /// Of these, those beyond need.
    pub excess_symbols: u64,
    /// Blocks that had to be decoded.
    pub decoded_blocks: u32,
    /// Blocks that needed no decoding.
    pub whole_blocks: u32,
    /// Timeouts of all its flows.
    pub timeouts: u32,
}

impl ObjectRow {
    /// Task completion time.
    pub fn completion_time(&self) -> Option<Span> {
        self.completed.map(|completed| completed.since(self.start))
    }

    fn of(group: u16, object: u64, flows: &[&FlowRow]) -> Self {
        let first = flows[0];
        let sum = |value: fn(&FlowRow) -> u64| flows.iter().map(|flow| value(flow)).sum::<u64>();
        let delivered_bytes = sum(|flow| flow.delivered_bytes);
        let largest = flows.iter().map(|flow| flow.delivered_bytes).max().unwrap_or(0);
        let all = flows.iter().all(|flow| flow.state == FlowState::Completed);
        Self {
            group,
            object,
            receiver: first.destination,
            sources: flows.len() as u32,
            bytes: if first.shares_object { first.bytes } else { sum(|flow| flow.bytes) },
            start: first.start,
            completed: flows.iter().filter_map(|flow| flow.completed).max().filter(|_| all),
            delivered_bytes,
            largest_part: largest as f64 / delivered_bytes.max(1) as f64,
            symbols: sum(|flow| flow.symbols),
            excess_symbols: sum(|flow| flow.excess_symbols),
            decoded_blocks: sum(|flow| flow.decoded_blocks.into()) as u32,
            whole_blocks: sum(|flow| flow.whole_blocks.into()) as u32,
            timeouts: sum(|flow| flow.timeouts.into()) as u32,
        }
    }
}

impl RunResult {
    /// The objects that were asked for in the measured time, by group and number.
    pub fn objects(&self) -> Vec<ObjectRow> {
        let mut flows: BTreeMap<(u16, u64), Vec<&FlowRow>> = BTreeMap::new();
        for flow in &self.flows {
            if let Some(object) = flow.object {
                flows.entry((flow.group, object)).or_default().push(flow);
            }
        }
        flows.into_iter().map(|((group, object), flows)| ObjectRow::of(group, object, &flows)).collect()
    }
}
