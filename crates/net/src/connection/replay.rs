//! Packet numbers already seen (RFC 4303 section 3.4.3, the ring of RFC 6479).

const WORDS: usize = 64;
const WINDOW: u64 = (WORDS as u64 - 1) * 64;

/// Remembers at least the last 4032 numbers. Older ones count as seen.
pub(super) struct ReplayWindow {
    /// One past the highest number seen.
    end: u64,
    bits: [u64; WORDS],
}

impl Default for ReplayWindow {
    fn default() -> Self {
        Self { end: 0, bits: [0; WORDS] }
    }
}

fn position(number: u64) -> (usize, u64) {
    ((number / 64) as usize % WORDS, 1 << (number % 64))
}

impl ReplayWindow {
    /// Whether `number` was not seen and is not too old.
    pub(super) fn is_new(&self, number: u64) -> bool {
        let (word, bit) = position(number);
        number < u64::MAX && (number >= self.end || self.end - number <= WINDOW && self.bits[word] & bit == 0)
    }

    /// Whether no greater number was seen.
    pub(super) fn is_newest(&self, number: u64) -> bool {
        self.end <= number + 1
    }

    /// Marks `number`, which [is new](Self::is_new), as seen.
    pub(super) fn take(&mut self, number: u64) {
        if number >= self.end {
            // Words that come into the window are of numbers long past.
            let (from, to) = (self.end.div_ceil(64), number / 64 + 1);
            for word in from..to.min(from + WORDS as u64) {
                self.bits[word as usize % WORDS] = 0;
            }
            self.end = number + 1;
        }
        let (word, bit) = position(number);
        self.bits[word] |= bit;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        /// Beside a set of all numbers seen: nothing seen is ever new, and what was not seen is new unless it is older
        /// than the window.
        #[test]
        fn nothing_is_taken_twice(steps in prop::collection::vec((0u64..10_000, any::<bool>()), 1..400)) {
            let (mut window, mut seen, mut highest) = (ReplayWindow::default(), BTreeSet::new(), 0u64);
            for (step, ahead) in steps {
                let number = if ahead { highest + step } else { highest.saturating_sub(step) };
                let new = window.is_new(number);
                let fresh = !seen.contains(&number);
                let old = number < highest && highest - number >= WINDOW;
                prop_assert_eq!(new, fresh && !old, "{} after {}", number, highest);
                if new {
                    window.take(number);
                    seen.insert(number);
                    highest = highest.max(number);
                }
            }
        }
    }

    #[test]
    fn the_last_number_is_never_new() {
        let mut window = ReplayWindow::default();
        assert!(window.is_new(0) && window.is_new(u64::MAX - 1) && !window.is_new(u64::MAX));
        window.take(u64::MAX - 1);
        assert!(!window.is_new(u64::MAX - 1) && window.is_new(u64::MAX - 2) && !window.is_new(0));
    }
}
