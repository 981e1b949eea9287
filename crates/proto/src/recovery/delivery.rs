//! What a receiver hands to its application: a stream in order, whatever the order of arrival, and its end.

use alloc::boxed::Box;

use super::reassembly::Reassembly;
use crate::packet::ByteRange;
use crate::transport::Event;

/// A received stream up to where it has no gap, and what waits beyond one.
#[derive(Clone, Debug)]
pub(crate) struct InOrderDelivery {
    next: u64,
    delivered: u64,
    /// Where the stream ends; `u64::MAX` until it is known.
    end: u64,
    /// The application was told of the end.
    told: bool,
    /// What arrived beyond a gap; made with the first gap.
    held: Option<Box<Reassembly>>,
}

/// What a packet brought.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Taken {
    /// Bytes that are new.
    pub(crate) fresh: u64,
    /// Bytes that had arrived before.
    pub(crate) duplicate: u64,
    /// How far beyond the next byte expected the receiver held data when the packet had come; zero without a gap.
    pub(crate) stretch: u64,
}

impl InOrderDelivery {
    /// Nothing has arrived.
    pub(crate) fn new() -> Self {
        Self { next: 0, delivered: 0, end: u64::MAX, told: false, held: None }
    }

    /// Next byte expected.
    #[inline]
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Where the stream ends; `u64::MAX` until that is known.
    #[inline]
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// The stream ends at `end`.
    #[inline]
    pub(crate) fn set_end(&mut self, end: u64) {
        self.end = end;
    }

    /// The lowest range that waits beyond a gap.
    pub(crate) fn first_held(&self) -> Option<ByteRange> {
        self.held.as_ref().and_then(|held| held.first())
    }

    /// One past the highest byte that arrived.
    pub(crate) fn highest(&self) -> u64 {
        self.held.as_ref().map_or(0, |held| held.highest()).max(self.next)
    }

    /// Whether everything has arrived.
    #[inline]
    pub(crate) fn is_complete(&self) -> bool {
        self.next == self.end
    }

    /// The next byte expected, one more when everything has arrived: what an acknowledgement tells.
    #[inline]
    pub(crate) fn ack(&self) -> u64 {
        self.next + u64::from(self.is_complete())
    }

    /// Takes in what arrived; `None` if there is no room to keep it apart.
    #[inline]
    pub(crate) fn take(&mut self, range: ByteRange) -> Option<Taken> {
        let old = ByteRange::new(range.start, range.end.min(self.next));
        let new = ByteRange::new(range.start.max(self.next), range.end);
        let mut taken = Taken { fresh: new.len(), duplicate: old.len(), stretch: 0 };
        let gaps = self.held.as_ref().is_some_and(|held| !held.is_empty());
        if new.is_empty() {
            return Some(taken);
        }
        if new.start == self.next && !gaps {
            self.next = new.end;
            return Some(taken);
        }
        let held = self.held.get_or_insert_with(Box::default);
        let (repeated, _) = held.insert(new)?;
        taken.duplicate += repeated;
        taken.fresh -= repeated;
        taken.stretch = held.highest() - self.next;
        self.next = held.take_in_order(self.next);
        Some(taken)
    }

    /// What the application has not been told yet.
    #[inline]
    pub(crate) fn poll_event<R>(&mut self) -> Option<Event<R>> {
        if self.delivered < self.next {
            let range = ByteRange::new(self.delivered, self.next);
            self.delivered = self.next;
            return Some(Event::Deliver(range));
        }
        if self.is_complete() && !self.told {
            self.told = true;
            return Some(Event::Received);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    fn range(start: u64, end: u64) -> ByteRange {
        ByteRange::new(start, end)
    }

    /// A gap holds back what follows it; the packet that fills it delivers both.
    #[test]
    fn a_gap_holds_back_what_follows() {
        let mut stream = InOrderDelivery::new();
        assert_eq!(stream.take(range(0, 10)), Some(Taken { fresh: 10, duplicate: 0, stretch: 0 }));
        assert_eq!(stream.take(range(20, 30)), Some(Taken { fresh: 10, duplicate: 0, stretch: 20 }));
        assert_eq!(stream.poll_event::<()>(), Some(Event::Deliver(range(0, 10))));
        assert_eq!((stream.poll_event::<()>(), stream.highest()), (None, 30));
        assert_eq!((stream.next(), stream.first_held(), stream.end()), (10, Some(range(20, 30)), u64::MAX));
        assert_eq!(stream.take(range(5, 25)), Some(Taken { fresh: 10, duplicate: 10, stretch: 20 }));
        stream.set_end(30);
        assert_eq!((stream.next(), stream.first_held(), stream.end()), (30, None, 30));
        assert_eq!(stream.ack(), 31);
        let events: [Option<Event>; 3] = [Some(Event::Deliver(range(10, 30))), Some(Event::Received), None];
        assert_eq!(events.map(|_| stream.poll_event()), events);
    }

    proptest! {
        /// In whatever order and however often pieces arrive, every byte is delivered once and in order.
        #[test]
        fn every_byte_is_delivered_once(pieces in prop::collection::vec((0u64..200, 1u64..40), 1..80)) {
            let (mut stream, mut seen, mut expected) = (InOrderDelivery::new(), [false; 240], 0);
            for (start, len) in pieces {
                let before = seen.iter().filter(|seen| **seen).count() as u64;
                seen[start as usize..(start + len) as usize].fill(true);
                let fresh = seen.iter().filter(|seen| **seen).count() as u64 - before;
                let taken = stream.take(range(start, start + len)).expect("there is room");
                prop_assert_eq!((taken.fresh, taken.fresh + taken.duplicate), (fresh, len));
                let events: Vec<Event> = core::iter::from_fn(|| stream.poll_event()).collect();
                for event in events {
                    let Event::Deliver(delivered) = event else { panic!("{event:?}") };
                    prop_assert_eq!(delivered.start, expected);
                    expected = delivered.end;
                }
                prop_assert_eq!(expected, seen.iter().take_while(|seen| **seen).count() as u64);
            }
        }
    }
}
