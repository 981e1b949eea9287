//! The counters of a transport, also as plain words for a driver that reports them to another process.

use alloc::vec::Vec;

use crate::contract::policy::PolicyCounts;
use crate::time::{Instant, Span};

/// A counter as words of 64 bits.
trait Words: Sized {
    fn write(self, words: &mut Vec<u64>);

    /// `None` if there are too few words, or if one is too large for the counter.
    fn read(words: &mut impl Iterator<Item = u64>) -> Option<Self>;

    /// What was counted after it stood at `before`. A time is no count, and stays.
    fn since(self, before: Self) -> Self;
}

impl Words for u64 {
    fn write(self, words: &mut Vec<u64>) {
        words.push(self);
    }

    fn read(words: &mut impl Iterator<Item = u64>) -> Option<Self> {
        words.next()
    }

    fn since(self, before: Self) -> Self {
        self.saturating_sub(before)
    }
}

impl Words for u32 {
    fn write(self, words: &mut Vec<u64>) {
        words.push(self.into());
    }

    fn read(words: &mut impl Iterator<Item = u64>) -> Option<Self> {
        words.next()?.try_into().ok()
    }

    fn since(self, before: Self) -> Self {
        self.saturating_sub(before)
    }
}

impl Words for Span {
    fn write(self, words: &mut Vec<u64>) {
        words.push(self.as_ps());
    }

    fn read(words: &mut impl Iterator<Item = u64>) -> Option<Self> {
        words.next().map(Self::from_ps)
    }

    fn since(self, before: Self) -> Self {
        Self::from_ps(self.as_ps().saturating_sub(before.as_ps()))
    }
}

impl Words for Option<Instant> {
    fn write(self, words: &mut Vec<u64>) {
        words.push(self.unwrap_or(Instant::MAX).as_ps());
    }

    fn read(words: &mut impl Iterator<Item = u64>) -> Option<Self> {
        let at = words.next().map(Instant::from_ps)?;
        Some(Some(at).filter(|at| *at != Instant::MAX))
    }

    fn since(self, _: Self) -> Self {
        self
    }
}

impl Words for PolicyCounts {
    fn write(self, words: &mut Vec<u64>) {
        let Self { low_bytes, low_ps } = self;
        words.extend([low_bytes, low_ps]);
    }

    fn read(words: &mut impl Iterator<Item = u64>) -> Option<Self> {
        Some(Self { low_bytes: words.next()?, low_ps: words.next()? })
    }

    fn since(self, before: Self) -> Self {
        let Self { low_bytes, low_ps } = before;
        Self { low_bytes: self.low_bytes.since(low_bytes), low_ps: self.low_ps.since(low_ps) }
    }
}

/// Declares the counters once: as fields, and as words.
macro_rules! statistics {
    ($($(#[doc = $doc:literal])+ $field:ident: $type:ty,)+) => {
        /// The counters of a transport.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        pub struct Statistics {
            $($(#[doc = $doc])+ pub $field: $type,)+
        }

        impl Statistics {
            /// Every counter, in an order that [`from_words`](Self::from_words) of the same build knows. Times are in
            /// picoseconds.
            pub fn to_words(&self) -> Vec<u64> {
                let mut words = Vec::new();
                $(self.$field.write(&mut words);)+
                words
            }

            /// The statistics that [`to_words`](Self::to_words) gave. `None` if the number of words differs, or if a
            /// word is too large for its counter.
            pub fn from_words(words: &[u64]) -> Option<Self> {
                let mut words = words.iter().copied();
                let statistics = Self { $($field: Words::read(&mut words)?,)+ };
                words.next().is_none().then_some(statistics)
            }

            /// What was counted after the counters stood at `before`. What is no sum stays: times, and the largest stretch.
            pub fn since(&self, before: &Self) -> Self {
                Self { $($field: Words::since(self.$field, before.$field),)+ }.with_largest_of(self)
            }
        }
    };
}

statistics! {
    /// Data packets sent, retransmissions included.
    packets_sent: u64,
    /// Payload bytes sent, retransmissions included.
    bytes_sent: u64,
    /// Data packets sent again.
    retransmissions: u64,
    /// Retransmission timeouts.
    timeouts: u64,
    /// Times that loss recovery began without a timeout.
    fast_recoveries: u64,
    /// Data packets that arrived marked CE (receiver), or acknowledgements with ECE (sender).
    marks: u64,
    /// Payload bytes that arrived more than once (receiver).
    duplicate_bytes: u64,
    /// Data packets that arrived after one that was sent later (receiver of the TCP family).
    overtaken: u64,
    /// Credits sent (receiver).
    credits_sent: u64,
    /// Credits that arrived when there was nothing to send (sender).
    wasted_credits: u64,
    /// Payload bytes that arrived for the first time and without a credit (receiver).
    reactive_bytes: u64,
    /// Largest distance from the next expected byte to the end of the data waiting beyond it (receiver of two
    /// sub-flows).
    reorder_bytes: u64,
    /// Packets of an object's symbols that arrived (receiver).
    symbols: u64,
    /// Those of them whose block was already decoded, or that came twice.
    excess_symbols: u64,
    /// Blocks of the object that had to be decoded (receiver, at its end for the first source).
    decoded_blocks: u32,
    /// Blocks of the object that needed no decoding.
    whole_blocks: u32,
    /// Times that the sender was told to pause (cross-queue congestion notification).
    pauses: u64,
    /// Length of the pauses that are over.
    paused: Span,
    /// Bytes that the application gave and the policy decided not to send (sender).
    given_up_bytes: u64,
    /// When the flow must be done (sender).
    done_by: Option<Instant>,
    /// When the flow announced that it will be late (sender).
    said_late: Option<Instant>,
    /// What the policy counted (sender).
    policy: PolicyCounts,
}

impl Statistics {
    /// The same with the largest stretch of `all`, which is no sum.
    fn with_largest_of(self, all: &Self) -> Self {
        Self { reorder_bytes: all.reorder_bytes, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Words that all differ come back in their places: no counter is lost and no two change places.
    #[test]
    fn every_counter_has_words_of_its_own() {
        let count = Statistics::default().to_words().len() as u64;
        let words: Vec<u64> = (1..=count).collect();
        let statistics = Statistics::from_words(&words).expect("as many words as counters");
        assert_eq!(statistics.to_words(), words);
        assert_eq!((statistics.packets_sent, statistics.policy.low_ps), (1, count));
    }

    /// Counts of two stretches add up to those of both. The largest stretch and times are of the whole flow in each.
    #[test]
    fn counts_since_then_leave_out_what_was_counted_before() {
        let words = Statistics::default().to_words().len() as u64;
        let of = |factor: u64| {
            Statistics::from_words(&(1..=words).map(|word| factor * word).collect::<Vec<_>>()).expect("as many words")
        };
        let (before, all) = (of(2), of(5));
        let since = all.since(&before);
        let whole =
            Statistics { reorder_bytes: all.reorder_bytes, done_by: all.done_by, said_late: all.said_late, ..of(3) };
        assert_eq!(since, whole);
    }

    #[test]
    fn other_words_are_refused() {
        let words = Statistics::default().to_words();
        assert_eq!(Statistics::from_words(&words), Some(Statistics::default()));
        assert_eq!(Statistics::from_words(&words[1..]), None);
        assert_eq!(Statistics::from_words(&[&words[..], &[0]].concat()), None);
        assert_eq!(Statistics::from_words(&alloc::vec![u64::MAX; words.len()]), None, "`decoded_blocks` has 32 bits");
    }
}
