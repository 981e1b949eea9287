//! Homa's receiver: which of the messages on their way to a host may send, how much, and at which priority (Montazeri et
//! al., SIGCOMM 2018, sections 3.3 to 3.5).

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::HostAnswer;
use crate::packet::EndpointId;

/// How a receiver grants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GrantPolicy {
    /// Bytes that are granted and have not arrived, at most: a round trip's worth.
    pub rtt_bytes: u64,
    /// Levels of priority, the lowest numbers first.
    pub levels: u8,
    /// Of these, the last so many are for granted data; at least one.
    pub scheduled_levels: u8,
    /// Messages granted at once, at most; at least one.
    pub overcommit: u8,
}

/// A message of which not everything is granted.
#[derive(Clone, Copy, Debug)]
struct Inbound {
    /// Bytes that have not arrived; then the order of arrival. The list is sorted by both.
    left: u64,
    number: u64,
    endpoint: EndpointId,
    peer: u32,
    size: u64,
    granted: u64,
}

/// The messages on their way to one host.
#[derive(Clone, Debug)]
pub struct Grants {
    policy: GrantPolicy,
    messages: Vec<Inbound>,
    numbers: u64,
    answers: VecDeque<(EndpointId, HostAnswer)>,
}

impl Default for GrantPolicy {
    /// The paper's at 10 Gbit/s, with one level of unscheduled data.
    fn default() -> Self {
        Self { rtt_bytes: 10_000, levels: 8, scheduled_levels: 7, overcommit: 7 }
    }
}

impl Grants {
    /// No messages yet.
    pub fn new(policy: GrantPolicy) -> Self {
        Self { policy, messages: Vec::new(), numbers: 0, answers: VecDeque::new() }
    }

    /// Grants by `policy` from now on.
    pub fn set_policy(&mut self, policy: GrantPolicy) {
        self.policy = policy;
    }

    /// So many bytes of a message of `size` bytes have arrived at `endpoint` from host `peer`.
    pub fn report(&mut self, endpoint: EndpointId, peer: u32, size: u64, arrived: u64) {
        let known = self.messages.iter().position(|message| message.endpoint == endpoint);
        let mut message = if let Some(index) = known {
            self.messages.remove(index)
        } else {
            self.numbers += 1;
            let granted = size.min(self.policy.rtt_bytes);
            Inbound { left: 0, number: self.numbers, endpoint, peer, size, granted }
        };
        message.left = size - arrived;
        // By bytes that have not arrived, not by those not granted: who is granted would lose its rank by that.
        let place = self.messages.partition_point(|other| (other.left, other.number) < (message.left, message.number));
        self.messages.insert(place, message);
        self.grant();
    }

    /// The message is granted elsewhere from now on.
    pub fn forget(&mut self, endpoint: EndpointId) {
        let before = self.messages.len();
        self.messages.retain(|message| message.endpoint != endpoint);
        if self.messages.len() < before {
            self.grant();
        }
    }

    /// Grants what the best messages lack, one of each sender. Who is granted whole makes room for the next at once: its
    /// last bytes are not reported.
    fn grant(&mut self) {
        while self.grant_best() {}
    }

    /// Grants to those who are the best now. Returns whether one is granted whole.
    fn grant_best(&mut self) -> bool {
        let policy = self.policy;
        let mut active: [usize; 8] = [0; 8];
        let most = usize::from(policy.overcommit).min(active.len());
        let mut count = 0;
        for (index, message) in self.messages.iter().enumerate() {
            if count == most {
                break;
            }
            if active[..count].iter().all(|&other| self.messages[other].peer != message.peer) {
                active[count] = index;
                count += 1;
            }
        }
        // Few messages use the lowest levels: a newcomer finds a higher one free.
        let used = count.min(usize::from(policy.scheduled_levels));
        let first = usize::from(policy.levels) - used;
        for (rank, &index) in active[..count].iter().enumerate() {
            let message = &mut self.messages[index];
            let arrived = message.size - message.left;
            let end = message.size.min(arrived + policy.rtt_bytes);
            if end > message.granted {
                message.granted = end;
                let level = (first + rank).min(usize::from(policy.levels) - 1) as u8;
                self.answers.push_back((message.endpoint, HostAnswer::Grant { end, level }));
            }
        }
        let before = self.messages.len();
        self.messages.retain(|message| message.granted < message.size);
        self.messages.len() < before
    }

    /// The next grant.
    pub fn poll(&mut self) -> Option<(EndpointId, HostAnswer)> {
        self.answers.pop_front()
    }

    /// Whether there are grants to give.
    pub fn is_due(&self) -> bool {
        !self.answers.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Side;

    const POLICY: GrantPolicy = GrantPolicy { rtt_bytes: 10_000, levels: 8, scheduled_levels: 4, overcommit: 4 };

    fn endpoint(flow: u32) -> EndpointId {
        EndpointId::new(flow, Side::Responder)
    }

    fn report(grants: &mut Grants, flow: u32, peer: u32, size: u64, arrived: u64) {
        grants.report(endpoint(flow), peer, size, arrived);
    }

    fn answers(grants: &mut Grants) -> Vec<(u32, u64, u8)> {
        let next = || match grants.poll()? {
            (endpoint, HostAnswer::Grant { end, level }) => Some((endpoint.flow(), end, level)),
            other => panic!("{other:?}"),
        };
        core::iter::from_fn(next).collect()
    }

    /// Two inbound messages, 8 levels of which 4 are scheduled: the shorter one on level 6, the longer one on level 7. A
    /// third, shorter still, moves the others no lower: level 5.
    #[test]
    fn few_messages_use_the_lowest_levels() {
        let mut grants = Grants::new(POLICY);
        report(&mut grants, 1, 1, 500_000, 1000);
        assert_eq!(answers(&mut grants), [(1, 11_000, 7)]);
        report(&mut grants, 2, 2, 100_000, 1000);
        assert_eq!(answers(&mut grants), [(2, 11_000, 6)]);
        report(&mut grants, 1, 1, 500_000, 2000);
        assert_eq!(answers(&mut grants), [(1, 12_000, 7)]);
        report(&mut grants, 3, 3, 50_000, 1000);
        assert_eq!(answers(&mut grants), [(3, 11_000, 5)]);
    }

    /// Of one sender one message is active; with more senders than `overcommit` the longest waits until one is granted
    /// whole. Equals go by age.
    #[test]
    fn one_message_per_sender_and_so_many_senders() {
        let mut grants = Grants::new(POLICY);
        report(&mut grants, 0, 9, 100_000, 1000);
        report(&mut grants, 1, 9, 90_000, 500);
        assert_eq!(answers(&mut grants), [(0, 11_000, 7), (1, 10_500, 7)], "the shorter replaces the older");
        report(&mut grants, 0, 9, 100_000, 2000);
        assert_eq!(answers(&mut grants), []);
        for flow in 2..5 {
            report(&mut grants, flow, flow, 80_000, 1000);
        }
        assert_eq!(answers(&mut grants).len(), 3);
        report(&mut grants, 5, 5, 95_000, 1000);
        assert_eq!(answers(&mut grants), [], "four are active");
        report(&mut grants, 2, 2, 80_000, 75_000);
        let granted = answers(&mut grants);
        assert_eq!(granted, [(2, 80_000, 4), (5, 11_000, 7)], "the one makes room for the other");
    }

    /// Two messages of one sender: the last grant of the first lets the second go, though nothing else arrives.
    #[test]
    fn the_last_grant_lets_the_next_message_go() {
        let mut grants = Grants::new(POLICY);
        report(&mut grants, 0, 9, 20_000, 10_000);
        assert_eq!(answers(&mut grants), [(0, 20_000, 7)]);
        report(&mut grants, 1, 9, 15_000, 2000);
        report(&mut grants, 2, 9, 30_000, 10_000);
        assert_eq!(answers(&mut grants), [(1, 12_000, 7)], "one at a time");
        report(&mut grants, 1, 9, 15_000, 5000);
        assert_eq!(answers(&mut grants), [(1, 15_000, 7), (2, 20_000, 7)]);
    }
}
