//! What the flows of one host have in common: machines of which a driver keeps one set per host.
//!
//! A transport is one side of one flow and knows no other. Where flows of a host must take turns, its transports ask by
//! [`Event::Ask`](crate::transport::Event) with a [`HostRequest`], and the driver brings the [`HostAnswer`]. Requests are
//! answered in the order of the machine, never inside the call that asks, so no transport calls another.

mod answer;
pub mod fair_rates;
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
///
/// A host with several links has turns and grants for each: what leaves or arrives by one link waits for nothing that uses
/// another. Where packets of a flow arrive by any link, those that arrive share one set, at the rate of all links together.
#[derive(Clone, Debug)]
pub struct Host {
    /// Turns to send, by link.
    sends: Vec<Turns>,
    /// What governs what arrives, by link; or one of each for all links.
    pulls: Vec<Turns>,
    grants: Vec<Grants>,
    /// The endpoints of objects under way.
    objects: BTreeMap<u64, Vec<EndpointId>>,
    /// Due at once.
    answers: VecDeque<(EndpointId, HostAnswer)>,
}

impl Host {
    /// The machines of a host whose link has this rate.
    pub fn new(link: Rate) -> Self {
        Self::with_links(&[link], &[link])
    }

    /// The machines of a host whose links have these rates, by which flows `send`. What arrives is governed link by link, or
    /// `arrive` has one rate, of all together.
    pub fn with_links(send: &[Rate], arrive: &[Rate]) -> Self {
        assert!(!send.is_empty() && (arrive.len() == 1 || arrive.len() == send.len()), "a host has links");
        let turns = |rates: &[Rate]| rates.iter().map(|&rate| Turns::new(rate)).collect();
        Self {
            sends: turns(send),
            pulls: turns(arrive),
            grants: arrive.iter().map(|_| Grants::new(GrantPolicy::default())).collect(),
            objects: BTreeMap::new(),
            answers: VecDeque::new(),
        }
    }

    /// Takes a request of one of the host's endpoints, whose other side is at host `peer`.
    pub fn handle_request(&mut self, endpoint: EndpointId, peer: u32, request: HostRequest) {
        self.handle_request_on(0, endpoint, peer, request);
    }

    /// The same of an endpoint whose flow takes the host's link of this place.
    pub fn handle_request_on(&mut self, link: usize, endpoint: EndpointId, peer: u32, request: HostRequest) {
        let arrives = if self.pulls.len() == 1 { 0 } else { link };
        match request {
            HostRequest::SendTurn { remaining, bytes } => self.sends[link].request(endpoint, remaining, bytes),
            // The flow may have moved to another link since it asked.
            HostRequest::EndSendTurn => self.sends.iter_mut().for_each(|turns| turns.withdraw(endpoint)),
            HostRequest::GrantBy(policy) => self.grants.iter_mut().for_each(|grants| grants.set_policy(policy)),
            HostRequest::Grants { size, arrived } => {
                for (other, grants) in self.grants.iter_mut().enumerate() {
                    if other != arrives {
                        grants.forget(endpoint);
                    }
                }
                self.grants[arrives].report(endpoint, peer, size, arrived);
            }
            HostRequest::PullTurn { bytes } => self.pulls[arrives].request(endpoint, 0, bytes),
            HostRequest::EndPullTurn => self.pulls.iter_mut().for_each(|turns| turns.withdraw(endpoint)),
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
        if let Some(grant) = self.grants.iter_mut().find_map(Grants::poll) {
            return Some(grant);
        }
        let turn = self.pulls.iter_mut().chain(&mut self.sends).find_map(|turns| turns.poll(now));
        turn.map(|endpoint| (endpoint, HostAnswer::Turn))
    }

    /// When an answer is due next.
    pub fn poll_timeout(&self) -> Option<Instant> {
        if self.grants.iter().any(Grants::is_due) || !self.answers.is_empty() {
            return Some(Instant::ZERO);
        }
        self.pulls.iter().chain(&self.sends).filter_map(Turns::next_at).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Side;

    fn endpoint(flow: u32) -> EndpointId {
        EndpointId::new(flow, Side::Responder)
    }

    /// All that is due at this time, in order.
    fn due(host: &mut Host, ps: u64) -> Vec<u32> {
        core::iter::from_fn(|| host.poll(Instant::from_ps(ps))).map(|(endpoint, _)| endpoint.flow()).collect()
    }

    /// Two links of 10 Gbit/s: 1250 bytes take a microsecond on each, and what waits for one does not hold up the other. One
    /// set at the rate of both gives a turn each half a microsecond, whichever link a flow takes.
    #[test]
    fn links_have_turns_of_their_own() {
        let rate = Rate::from_gbit_per_sec(10);
        let pull = HostRequest::PullTurn { bytes: 1250 };
        let mut apart = Host::with_links(&[rate; 2], &[rate; 2]);
        let mut together = Host::with_links(&[rate; 2], &[Rate::from_gbit_per_sec(20)]);
        for host in [&mut apart, &mut together] {
            for (flow, link) in [(0, 0), (1, 0), (2, 1)] {
                host.handle_request_on(link, endpoint(flow), 9, pull);
            }
        }
        assert_eq!((due(&mut apart, 0), due(&mut apart, 999_999)), ([0, 2].into(), [].into()));
        assert_eq!(apart.poll_timeout(), Some(Instant::from_ps(1_000_000)));
        assert_eq!(due(&mut apart, 1_000_000), [1]);
        assert_eq!((due(&mut together, 0), due(&mut together, 500_000)), ([0].into(), [1].into()));
        assert_eq!(due(&mut together, 1_000_000), [2]);
        let send = HostRequest::SendTurn { remaining: 5, bytes: 1250 };
        for (flow, link) in [(0, 0), (1, 1), (2, 1), (3, 1)] {
            together.handle_request_on(link, endpoint(flow), 9, send);
        }
        // It has moved to the other link meanwhile.
        together.handle_request_on(0, endpoint(2), 9, HostRequest::EndSendTurn);
        assert_eq!((due(&mut together, 2_000_000), due(&mut together, 3_000_000)), ([0, 1].into(), [3].into()));
    }

    /// Each link has its best messages; one that moves to another link leaves its place to the next.
    #[test]
    fn links_have_grants_of_their_own() {
        let rate = Rate::from_gbit_per_sec(10);
        let mut host = Host::with_links(&[rate; 2], &[rate; 2]);
        let policy = GrantPolicy { rtt_bytes: 10_000, levels: 8, scheduled_levels: 7, overcommit: 1 };
        host.handle_request(endpoint(0), 9, HostRequest::GrantBy(policy));
        let arrived = |host: &mut Host, flow: u32, link: usize, arrived: u64| {
            let grants = HostRequest::Grants { size: 100_000, arrived };
            host.handle_request_on(link, endpoint(flow), flow, grants);
            due(host, 0)
        };
        assert_eq!(arrived(&mut host, 0, 0, 2000), [0]);
        assert_eq!(arrived(&mut host, 1, 0, 1000), [], "one at a time");
        assert_eq!(arrived(&mut host, 2, 1, 1000), [2], "on the other link");
        assert_eq!(arrived(&mut host, 0, 1, 3000), [1, 0]);
    }
}
