//! A sub-flow: packets under way, and when the next may leave.

use crate::recovery::flight::Flight;
use crate::time::Instant;
use crate::units::{Rate, Serializer};

/// Spreads packets at a rate on the wire. Queues are a few packets deep, so a pause earns one packet at most.
#[derive(Clone, Debug)]
pub(super) struct Pacer {
    rate: Rate,
    serializer: Serializer,
    next_at: Instant,
}

impl Pacer {
    pub(super) fn new(rate: Rate) -> Self {
        Self { rate, serializer: Serializer::new(rate), next_at: Instant::ZERO }
    }

    pub(super) fn set_rate(&mut self, rate: Rate) {
        if rate != self.rate {
            (self.rate, self.serializer) = (rate, Serializer::new(rate));
        }
    }

    /// When the next packet may leave.
    #[inline]
    pub(super) fn next_at(&self) -> Instant {
        self.next_at
    }

    /// A packet leaves.
    #[inline]
    pub(super) fn on_sent(&mut self, now: Instant, wire_bytes: u16) {
        let interval = self.serializer.transmit(wire_bytes.into());
        self.next_at = self.next_at.max(now.before(interval)).after(interval);
    }
}

/// One of the two sub-flows.
#[derive(Clone, Debug)]
pub(super) struct Subflow {
    pub(super) flight: Flight,
    pub(super) pacer: Pacer,
}

impl Subflow {
    pub(super) fn new(threshold: u32, rate: Rate) -> Self {
        Self { flight: Flight::new(threshold), pacer: Pacer::new(rate) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Span;

    #[test]
    fn a_pause_earns_one_packet() {
        let mut pacer = Pacer::new(Rate::from_gbit_per_sec(1));
        let at = |us| Instant::ZERO.after(Span::from_us(us));
        pacer.on_sent(at(0), 1250);
        assert_eq!(pacer.next_at(), at(10));
        pacer.on_sent(at(100), 1250);
        assert_eq!(pacer.next_at(), at(100));
        pacer.on_sent(at(100), 1250);
        assert_eq!(pacer.next_at(), at(110));
    }
}
