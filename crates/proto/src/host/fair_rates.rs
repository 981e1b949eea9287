//! What a host knows of one of its links, up or down: the max-min fair rate there.
//!
//! Hosts tell each other this rate, the *level* of the link, in packets that they send anyway. A flow whose other end has a lower
//! level cannot use more than that. The link's level is then the rate at which the flows that can use it fill the link, if each
//! of the others has what its other end says (water-filling; Charny, Clark and Jain, ICC 1995). A few reports bring all levels
//! to the max-min fair rates of a network whose bottlenecks are hosts' links. Links inside the network tell nothing: where one
//! of them is the bottleneck, levels are too high.
//!
//! A host counts the flows on its links itself, those of transports that do not bend among them. It need not measure their rates:
//! a flow that takes more than its share because others yield would look as if it had a right to that.

use alloc::vec::Vec;

/// One link of a host, between two reports. Rates are in any one unit.
#[derive(Clone, PartialEq, Debug)]
pub struct HostLink {
    capacity: f64,
    level: f64,
    /// What the other ends of its flows have said, in this interval.
    others: Vec<f64>,
}

impl HostLink {
    /// A link without flows. `capacity` is above zero.
    pub const fn new(capacity: f64) -> Self {
        Self { capacity, level: capacity, others: Vec::new() }
    }

    /// The fair rate on this link as of the last interval: what its host tells.
    pub const fn level(&self) -> f64 {
        self.level
    }

    /// A flow is open on this link, whose other end last said that `other` is fair there; infinity if it said nothing.
    pub fn count(&mut self, other: f64) {
        self.others.push(other.max(0.0));
    }

    /// Ends an interval in which each flow was counted once.
    pub fn end_interval(&mut self) {
        self.others.sort_unstable_by(f64::total_cmp);
        let (mut left, mut greatest) = (self.capacity, 0.0);
        let mut waiting = self.others.len();
        for &other in &self.others {
            let even = left / waiting as f64;
            if other >= even {
                break;
            }
            left -= other;
            greatest = other;
            waiting -= 1;
        }
        // Where no flow can fill the link, each may have what is left beside the others.
        self.level = if waiting > 0 { left / waiting as f64 } else { left + greatest };
        self.others.clear();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn level(capacity: f64, others: &[f64]) -> f64 {
        let mut link = HostLink::new(capacity);
        for &other in others {
            link.count(other);
        }
        link.end_interval();
        link.level()
    }

    /// By hand: nobody has all, three have a third each; one that can use only 1 of 10 leaves 9 for two; if all are held back
    /// elsewhere, one that is let go would have what is left with its own.
    #[test]
    fn flows_that_are_held_back_leave_the_rest() {
        assert_eq!(level(10.0, &[]), 10.0);
        assert_eq!(level(9.0, &[f64::INFINITY; 3]), 3.0);
        assert_eq!(level(10.0, &[f64::INFINITY, 1.0, 5.0]), 4.5);
        assert_eq!(level(10.0, &[1.0, 2.0]), 9.0);
        assert_eq!(level(10.0, &[-1.0, f64::NAN]), 10.0);
    }

    /// A chain: A sends to B, and so do three others; A also sends to C, alone there. B's level is a quarter, and A's the rest, after two
    /// reports.
    #[test]
    fn reports_bring_levels_to_the_max_min_rates() {
        let (mut up, mut down) = (HostLink::new(10.0), HostLink::new(10.0));
        for _ in 0..2 {
            let (of_up, of_down) = (up.level(), down.level());
            up.count(of_down);
            up.count(10.0);
            down.count(of_up);
            for _ in 0..3 {
                down.count(10.0);
            }
            up.end_interval();
            down.end_interval();
        }
        assert_eq!((up.level(), down.level()), (7.5, 2.5));
    }

    proptest! {
        /// A level is never below an even share of the link, nor above the link, whatever other ends say.
        #[test]
        fn a_lie_takes_nobody_below_an_even_share(
            capacity in 1e-3..1e12,
            others in prop::collection::vec(prop_oneof![any::<f64>(), 0.0..1e12], 1..50),
        ) {
            let level = level(capacity, &others);
            prop_assert!(level >= capacity / others.len() as f64 * (1.0 - 1e-9) && level <= capacity * (1.0 + 1e-9), "{level}");
        }
    }
}
