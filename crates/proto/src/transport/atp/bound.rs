//! How many messages may be missing, in whole numbers.

/// Units of a loss rate in one.
const UNITS: u32 = 1_000_000;

/// A maximum loss rate (MLR), in [0, 1), in millionths.
///
/// Floats do not work here: `(1 - 0.1) * 10` rounds up to ten.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LossBound {
    millionths: u32,
}

impl LossBound {
    /// Nothing may be missing.
    pub const RELIABLE: Self = Self { millionths: 0 };

    /// A loss rate in millionths, below 1,000,000.
    pub const fn from_millionths(millionths: u32) -> Option<Self> {
        if millionths < UNITS { Some(Self { millionths }) } else { None }
    }

    /// The complement of the least fraction that must arrive, in (0, 1], to the nearest millionth.
    pub fn from_min_delivery(min_delivery: f64) -> Option<Self> {
        let lost = libm::round((1.0 - min_delivery) * f64::from(UNITS));
        if lost >= 0.0 { Self::from_millionths(lost as u32) } else { None }
    }

    /// The rate as a fraction.
    pub fn fraction(self) -> f64 {
        f64::from(self.millionths) / f64::from(UNITS)
    }

    /// How many of `messages` must arrive: N − ⌊N · MLR⌋.
    pub const fn needed(self, messages: u32) -> u32 {
        messages - (messages as u64 * self.millionths as u64 / UNITS as u64) as u32
    }

    /// For how many messages `complete` ones are enough: the paper's N_ack = N / (1 − MLR), rounded down.
    ///
    /// `complete >= needed(messages)` and `acknowledged(complete) >= messages` are equivalent.
    pub const fn acknowledged(self, complete: u32) -> u64 {
        complete as u64 * UNITS as u64 / (UNITS - self.millionths) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bound(min_delivery: f64) -> LossBound {
        LossBound::from_min_delivery(min_delivery).unwrap()
    }

    /// The numbers for which floats go wrong, and the paper's own.
    #[test]
    fn known_numbers() {
        assert_eq!(bound(1.0 - 0.1).needed(10), 9);
        assert_eq!(bound(0.5).needed(1000), 500);
        assert_eq!(bound(0.75).needed(1000), 750);
        assert_eq!(bound(0.75).needed(3), 3, "a quarter of three is no whole message");
        assert_eq!(bound(0.75).acknowledged(750), 1000);
        assert_eq!(LossBound::RELIABLE.needed(7), 7);
    }

    #[test]
    fn rates_outside_the_range_are_none() {
        for min_delivery in [0.0, -1.0, 1.1, f64::NAN] {
            assert_eq!(LossBound::from_min_delivery(min_delivery), None, "{min_delivery}");
        }
        assert_eq!(LossBound::from_millionths(UNITS), None);
    }

    proptest! {
        /// The sender's rule and the paper's are one; at least one message of some must always arrive.
        #[test]
        fn both_forms_of_the_rule_agree(millionths in 0..UNITS, messages in 1..100_000u32, complete in 0..100_000u32) {
            let bound = LossBound::from_millionths(millionths).unwrap();
            let needed = bound.needed(messages);
            prop_assert!(needed >= 1 && needed <= messages);
            prop_assert_eq!(complete >= needed, bound.acknowledged(complete) >= u64::from(messages));
        }
    }
}
