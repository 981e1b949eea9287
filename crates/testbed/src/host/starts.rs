//! When the flows of a host start.

use std::collections::VecDeque;
use std::iter::Peekable;

use pliant_proto::time::{Instant, Span};
use pliant_sim::scenario::Resolved;
use pliant_sim::traffic::{FlowSpec, Traffic};

use crate::network::pushes;

/// A receiver is there so long before its flow starts, unless it has the first word.
pub(super) const RECEIVER_LEAD: Span = Span::from_ms(50);

/// The flows of one host: those it receives a while before they start, those it sends or fetches when they do.
pub(super) struct Starts {
    traffic: Peekable<std::iter::Enumerate<Traffic>>,
    host: u32,
    ahead: Span,
    /// Whether receivers of a group fetch, by group.
    fetches: Vec<bool>,
    /// Flows to send or fetch, seen while those to receive were looked for.
    later: VecDeque<(u64, FlowSpec)>,
}

/// What a flow that starts is to this host.
pub(super) enum Start {
    Receive(u64, FlowSpec),
    Send(u64, FlowSpec),
}

impl Starts {
    pub(super) fn new(scenario: &Resolved, host: u32, ahead: Span) -> Self {
        let traffic = scenario.traffic().expect("the scenario was checked").enumerate().peekable();
        let fetches = (0..scenario.groups.len() as u16).map(|group| pushes(scenario, group)).collect();
        Self { traffic, host, ahead, fetches, later: VecDeque::new() }
    }

    /// What is due at `now`.
    pub(super) fn next(&mut self, now: Instant) -> Option<Start> {
        if self.later.front().is_some_and(|(_, spec)| spec.start <= now) {
            let start = if self.later[0].1.source == self.host { Start::Send } else { Start::Receive };
            return self.later.pop_front().map(|(number, spec)| start(number, spec));
        }
        while let Some((number, spec)) = self.traffic.next_if(|(_, spec)| spec.start <= now.after(self.ahead)) {
            let number = number as u64;
            let fetched = spec.destination == self.host && self.fetches[usize::from(spec.group)];
            if spec.source == self.host || fetched {
                self.later.push_back((number, spec));
            } else if spec.destination == self.host {
                return Some(Start::Receive(number, spec));
            }
        }
        None
    }

    /// When to ask again.
    pub(super) fn next_at(&mut self) -> Option<Instant> {
        let later = self.later.front().map(|(_, spec)| spec.start);
        let ahead = self.traffic.peek().map(|(_, spec)| spec.start.before(self.ahead));
        [later, ahead].into_iter().flatten().min()
    }

    pub(super) fn is_empty(&mut self) -> bool {
        self.later.is_empty() && self.traffic.peek().is_none()
    }
}
