//! Estimates with how many others the flow shares its path, from what the scavenger meets in the low class.

use super::estimator::{Estimate, Interval};

/// Weight of the newest interval.
const GAIN: f64 = 0.25;
/// The low class is free if marks were seen in fewer than this fraction of the last intervals.
const FREE: f64 = 0.05;
/// Greatest count of flows.
const MOST: f64 = 1000.0;

/// Smoothed counts of flows, and the values from which they follow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Competitors {
    /// Flows that give way, this one among them, and flows that do not.
    yielding: f64,
    regular: f64,
    /// Wait of the scavenger's packets in seconds, and rates of both sub-flows in bytes per second.
    wait: f64,
    scavenger: f64,
    guarantee: f64,
    /// Fraction of the intervals in which a mark was seen in the low class.
    marked: f64,
    /// Least smoothed wait of the scavenger's packets, in seconds, among intervals that saw a mark.
    least_wait: f64,
}

impl Competitors {
    /// Begins as if the flow were alone.
    pub(super) fn new() -> Self {
        Self {
            yielding: 1.0,
            regular: 0.0,
            wait: 0.0,
            scavenger: 0.0,
            guarantee: 0.0,
            marked: 0.0,
            least_wait: f64::INFINITY,
        }
    }

    /// Smoothed rate of the scavenger.
    pub(super) fn scavenger(&self) -> f64 {
        self.scavenger
    }

    /// How long, in seconds, a marked packet waits while its class has the line alone: the wait in the high class,
    /// which has almost all of it, or the shortest wait of marked packets so far.
    fn marked_wait(&mut self, interval: &Interval, seen: &Estimate) -> f64 {
        if interval.marked && self.wait > 0.0 {
            self.least_wait = self.least_wait.min(self.wait);
        }
        seen.marked_wait.unwrap_or(self.least_wait)
    }

    /// The fair rate according to an interval. `marked_wait` is how long, in seconds, a marked packet waits while its
    /// class has the line alone, if that was told. A rate of the scavenger below `trickle` counts as none.
    pub(super) fn fair_rate(
        &mut self,
        marked_wait: Option<f64>,
        trickle: f64,
        interval: &Interval,
        seen: &Estimate,
    ) -> f64 {
        let Estimate { busy_rate, joining_rate, busy, line, .. } = *seen;
        let smooth = |value: &mut f64, newest: f64| *value += GAIN * (newest - *value);
        smooth(&mut self.scavenger, interval.scavenger);
        if interval.scavenger_dead {
            return busy * busy_rate + (1.0 - busy) * joining_rate;
        }
        smooth(&mut self.wait, interval.wait);
        smooth(&mut self.guarantee, interval.guarantee);
        smooth(&mut self.marked, f64::from(u8::from(interval.marked)));
        let marked_wait = marked_wait.unwrap_or_else(|| self.marked_wait(interval, seen));
        // A packet that is marked has the same queue before it whatever its class may send: it waits the longer the less that is.
        let of_low = if interval.marked && self.wait > 0.0 { (marked_wait / self.wait).clamp(0.01, 1.0) } else { 1.0 };
        let low = of_low * line;
        let yielding = (low / self.scavenger.max(1.0)).clamp(1.0, MOST);
        let of_regular = line - low - yielding * self.guarantee;
        smooth(&mut self.yielding, yielding);
        smooth(&mut self.regular, (of_regular / joining_rate.max(1.0)).clamp(0.0, MOST));
        let brought = interval.scavenger.min(line);
        if self.marked < FREE && interval.scavenger < trickle {
            // It is silent, so it tells nothing.
            return (busy * busy_rate + (1.0 - busy) * joining_rate).max(brought);
        }
        let by_count = line / (self.yielding + self.regular);
        let by_marks = busy * busy_rate + interval.scavenger.min((1.0 - busy) * line);
        by_count.min(line).max(by_marks).max(brought)
    }
}
