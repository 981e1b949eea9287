//! A sub-flow: its packets in flight, and when the next may leave.

use crate::recovery::flight::Flight;
use crate::time::Instant;
use crate::units::{Rate, Serializer};

/// Spreads packets at a rate on the wire. Queues are only a few packets deep, so a pause earns at most one packet.
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
    /// The content of the last acknowledgement: a packet's number, and which of the 64 before it had arrived.
    told: Option<(u64, u64)>,
}

impl Subflow {
    pub(super) fn new(threshold: u32, rate: Rate) -> Self {
        Self { flight: Flight::new(threshold), pacer: Pacer::new(rate), told: None }
    }

    /// An acknowledgement of packet `number` says which of the 64 before it have `arrived`; bit `i` is that of `number
    /// - 1 - i`. Returns those for which this is news, as far as known. A packet is reported up to 64 times.
    #[inline]
    pub(super) fn news(&mut self, number: u64, arrived: u64) -> u64 {
        // What is settled needs no second look.
        let open = number.saturating_sub(self.flight.settled());
        let mut news = if open < 64 { arrived & ((1 << open) - 1) } else { arrived };
        if let Some((before, known)) = self.told
            && let Some(ahead @ 1..64) = number.checked_sub(before)
        {
            news &= !(known << ahead | 1 << (ahead - 1));
        }
        self.told = Some((number, arrived));
        news
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recovery::flight::Sent;
    use crate::time::Span;

    /// What an acknowledgement repeats is no news, whether it is the next one, or one after lost ones, or comes late.
    #[test]
    fn what_was_told_is_no_news() {
        let mut subflow = Subflow::new(3, Rate::from_gbit_per_sec(1));
        for fragment in 0..100 {
            subflow.flight.push(Sent { at: Instant::ZERO, message: 0, fragment, class: 1 });
        }
        for (number, arrived, news, what) in [
            (10, 0b101, 0b101, "9 and 7"),
            (11, 0b1011, 0, "10, 9 and 7 again"),
            (14, 0b0111_1100, 0b10_0000, "of 11 to 7 only 8"),
            (12, 0b111, 0b111, "a late one is looked at in full"),
        ] {
            assert_eq!(subflow.news(number, arrived), news, "{what}");
        }
    }

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
