//! What the flows of one host have in common: machines of which a driver keeps one set per host.
//!
//! A transport is one side of one flow and knows no other. Where flows of a host must take turns, its transports ask by
//! [`Event::Ask`](crate::transport::Event) with a [`HostRequest`], and the driver brings the [`HostAnswer`]. Requests are
//! answered in the order of the machine, never inside the call that asks, so no transport calls another.

mod answer;
pub mod grants;
pub mod turns;

pub use answer::HostAnswer;

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use self::grants::{GrantPolicy, Grants};
use self::turns::Turns;
use crate::packet::EndpointId;
use crate::time::Instant;
use crate::units::Rate;

/// What a transport wants of its host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HostRequest {
    /// A turn to send a pull, answered by [`HostAnswer::Turn`]. Turns go round, each as long as the packet pulled takes.
    PullTurn {
        /// Bytes of the packet that the pull lets go, on the wire.
        bytes: u16,
    },
    /// The turn asked for is not needed any more.
    EndPullTurn,
    /// A turn to send a packet of a message, answered by [`HostAnswer::Turn`]. The message with the fewest bytes left goes
    /// first.
    SendTurn {
        /// Bytes of the message that were not sent.
        remaining: u64,
        /// Bytes of the packet on the wire.
        bytes: u16,
    },
    /// That turn is not needed any more.
    EndSendTurn,
    /// How the host grants, to all messages on their way to it; what was said last holds.
    GrantBy(GrantPolicy),
    /// Bytes of a message have arrived that wants grants, answered by [`HostAnswer::Grant`] while it is among the best.
    Grants {
        /// Bytes of the message.
        size: u64,
        /// Bytes that have arrived.
        arrived: u64,
    },
    /// The flow brings a part of an object.
    JoinObject {
        /// Which of the host's objects.
        object: u64,
    },
    /// The object is complete: its other flows are told by [`HostAnswer::ObjectComplete`].
    CompleteObject {
        /// Which of the host's objects.
        object: u64,
    },
}

/// The shared machines of one host.
#[derive(Clone, Debug)]
pub struct Host {
    pulls: Turns,
    sends: Turns,
    grants: Grants,
    /// The endpoints of objects under way.
    objects: BTreeMap<u64, Vec<EndpointId>>,
    /// Due at once.
    answers: VecDeque<(EndpointId, HostAnswer)>,
}

impl Host {
    /// The machines of a host whose link has this rate.
    pub fn new(link: Rate) -> Self {
        let turns = Turns::new(link);
        let grants = Grants::new(GrantPolicy::default());
        Self { pulls: turns.clone(), sends: turns, grants, objects: BTreeMap::new(), answers: VecDeque::new() }
    }

    /// Takes a request of one of the host's endpoints, whose other side is at host `peer`.
    pub fn handle_request(&mut self, endpoint: EndpointId, peer: u32, request: HostRequest) {
        match request {
            HostRequest::SendTurn { remaining, bytes } => self.sends.request(endpoint, remaining, bytes),
            HostRequest::EndSendTurn => self.sends.withdraw(endpoint),
            HostRequest::GrantBy(policy) => self.grants.set_policy(policy),
            HostRequest::Grants { size, arrived } => self.grants.report(endpoint, peer, size, arrived),
            HostRequest::PullTurn { bytes } => self.pulls.request(endpoint, 0, bytes),
            HostRequest::EndPullTurn => self.pulls.withdraw(endpoint),
            HostRequest::JoinObject { object } => self.objects.entry(object).or_default().push(endpoint),
            HostRequest::CompleteObject { object } => {
                let members = self.objects.remove(&object).unwrap_or_default();
                let others = members.into_iter().filter(|member| *member != endpoint);
                self.answers.extend(others.map(|member| (member, HostAnswer::ObjectComplete)));
            }
        }
    }

    /// The next answer that is due.
    pub fn poll(&mut self, now: Instant) -> Option<(EndpointId, HostAnswer)> {
        if let Some(answer) = self.answers.pop_front() {
            return Some(answer);
        }
        if let Some(grant) = self.grants.poll() {
            return Some(grant);
        }
        let turn = self.pulls.poll(now).or_else(|| self.sends.poll(now));
        turn.map(|endpoint| (endpoint, HostAnswer::Turn))
    }

    /// When an answer is due next.
    pub fn poll_timeout(&self) -> Option<Instant> {
        if self.grants.is_due() || !self.answers.is_empty() {
            return Some(Instant::ZERO);
        }
        match (self.pulls.next_at(), self.sends.next_at()) {
            (Some(pull), Some(send)) => Some(pull.min(send)),
            (pull, send) => pull.or(send),
        }
    }
}
