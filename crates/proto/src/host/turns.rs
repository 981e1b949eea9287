//! Turns at a link: who sends next, and when the link has time for it.

use alloc::collections::BinaryHeap;
use core::cmp::Reverse;

use crate::packet::EndpointId;
use crate::time::Instant;
use crate::units::{Rate, Serializer};

/// Hands out turns, the least key first and among equals the one that has waited longest. A turn lasts as long as its
/// bytes take at the rate of the link; time in which nobody waits is not saved up.
#[derive(Clone, Debug)]
pub struct Turns {
    serializer: Serializer,
    free_at: Instant,
    waiting: BinaryHeap<Reverse<Waiting>>,
    requests: u64,
}

/// In declared order: by key, then by order of requests.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Waiting {
    key: u64,
    number: u64,
    endpoint: EndpointId,
    bytes: u16,
}

impl Turns {
    /// Turns at a link of this rate.
    pub fn new(link: Rate) -> Self {
        Self { serializer: Serializer::new(link), free_at: Instant::ZERO, waiting: BinaryHeap::new(), requests: 0 }
    }

    /// `endpoint` asks for a turn of `bytes` on the wire. It asks again only after it had it.
    #[inline]
    pub fn request(&mut self, endpoint: EndpointId, key: u64, bytes: u16) {
        self.requests += 1;
        self.waiting.push(Reverse(Waiting { key, number: self.requests, endpoint, bytes }));
    }

    /// `endpoint` needs no turn any more.
    #[cold]
    pub fn withdraw(&mut self, endpoint: EndpointId) {
        self.waiting.retain(|Reverse(waiting)| waiting.endpoint != endpoint);
    }

    /// Whose turn it is now.
    #[inline]
    pub fn poll(&mut self, now: Instant) -> Option<EndpointId> {
        if self.free_at > now {
            return None;
        }
        let Reverse(Waiting { endpoint, bytes, .. }) = self.waiting.pop()?;
        self.free_at = now.after(self.serializer.transmit(bytes.into()));
        Some(endpoint)
    }

    /// When the next turn begins; `None` while nobody waits.
    #[inline]
    pub fn next_at(&self) -> Option<Instant> {
        (!self.waiting.is_empty()).then_some(self.free_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Side;
    use alloc::vec::Vec;

    fn endpoint(flow: u32) -> EndpointId {
        EndpointId::new(flow, Side::Responder)
    }

    /// Flows that ask again after each turn go round; 1538 bytes at 10 Gbit/s last 1230.4 ns.
    #[test]
    fn equals_go_round() {
        let mut turns = Turns::new(Rate::from_gbit_per_sec(10));
        for flow in 0..3 {
            turns.request(endpoint(flow), 0, 1538);
        }
        let mut order = Vec::new();
        while order.len() < 7 {
            let at = turns.next_at().expect("somebody waits");
            let flow = turns.poll(at).expect("it is somebody's turn");
            assert_eq!(turns.poll(at), None, "one at a time");
            turns.request(flow, 0, 1538);
            order.push((flow.flow(), at.as_ps()));
        }
        assert_eq!(order, [0, 1, 2, 0, 1, 2, 0].into_iter().zip((0..).map(|n| n * 1_230_400)).collect::<Vec<_>>());
    }

    /// The least key goes first, whenever it asked; who withdraws is passed over; idle time buys nothing.
    #[test]
    fn the_least_key_goes_first() {
        let mut turns = Turns::new(Rate::from_gbit_per_sec(10));
        for (flow, key) in [(0, 50), (1, 20), (2, 30), (3, 20)] {
            turns.request(endpoint(flow), key, 1250);
        }
        turns.withdraw(endpoint(2));
        let late = Instant::from_ps(5_000_000);
        assert_eq!(turns.poll(late), Some(endpoint(1)));
        assert_eq!(turns.next_at(), Some(Instant::from_ps(6_000_000)));
        assert_eq!(turns.poll(Instant::from_ps(6_000_000)), Some(endpoint(3)));
        assert_eq!(turns.poll(Instant::from_ps(7_000_000)), Some(endpoint(0)));
        assert_eq!(turns.next_at(), None);
    }
}
