//! All groups' flows as one stream.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use pliant_proto::time::Instant;

use super::error::TrafficError;
use super::flow_spec::{Arrival, FlowSpec};
use super::generator::Generator;
use crate::workload::Messages;

/// The flows of all groups by (start, group, sequence). It holds one flow per group.
#[derive(Debug)]
pub struct Traffic {
    groups: Vec<Group>,
    /// The start of each group's next flow. Within a group flows come in order, so the sequence need not be here.
    next_starts: BinaryHeap<Reverse<(Instant, u16)>>,
}

#[derive(Debug)]
struct Group {
    generator: Generator,
    next: Option<Arrival>,
    sequence: u64,
    /// Flows that the next arrival still starts.
    due: u32,
    /// The messages that decide the size of each flow.
    messages: Option<Messages>,
}

impl Traffic {
    /// `counted` are the messages that decide the size of each group's flows, where they do.
    pub(super) fn new(generators: Vec<Generator>, counted: impl Iterator<Item = Option<Messages>>) -> Self {
        assert!(u16::try_from(generators.len()).is_ok(), "a group's number has 16 bits");
        let first = |(mut generator, messages): (Generator, Option<Messages>)| Group {
            next: generator.next(),
            generator,
            sequence: 0,
            due: flows_of(messages.as_ref()),
            messages,
        };
        let groups: Vec<Group> = generators.into_iter().zip(counted).map(first).collect();
        let starts = groups.iter().enumerate().filter_map(|(i, group)| Some(Reverse((group.next?.start, i as u16))));
        Self { next_starts: starts.collect(), groups }
    }

    /// Why a group ended early. Only a trace that changed after it was checked can do so: ask once the flows have ended.
    pub fn error(&self) -> Option<&TrafficError> {
        self.groups.iter().find_map(|group| group.generator.error())
    }
}

impl Group {
    /// The next flow; the one after it takes its place.
    fn take(&mut self, number: u16) -> FlowSpec {
        let Arrival { start, source, destination, bytes, class, again } = self.next.expect("the heap names its start");
        self.due -= 1;
        if self.due == 0 {
            self.next = self.generator.next();
            self.due = flows_of(self.messages.as_ref());
        }
        assert!(self.next.is_none_or(|next| next.start >= start), "generators go forward in time");
        let bytes = self.messages.as_ref().map_or(bytes, |messages| messages.flow_bytes(self.sequence));
        self.sequence += 1;
        FlowSpec { start, source, destination, bytes, group: number, class, sequence: self.sequence - 1, again }
    }
}

/// Flows that each arrival starts.
fn flows_of(messages: Option<&Messages>) -> u32 {
    messages.map_or(1, Messages::flows)
}

impl Iterator for Traffic {
    type Item = FlowSpec;

    fn next(&mut self) -> Option<FlowSpec> {
        let mut earliest = self.next_starts.peek_mut()?;
        let Reverse((_, number)) = *earliest;
        let group = &mut self.groups[usize::from(number)];
        let flow = group.take(number);
        match group.next {
            Some(next) => *earliest = Reverse((next.start, number)),
            None => drop(PeekMut::pop(earliest)),
        }
        Some(flow)
    }
}
