//! The flow's promise and what it got, and so how fast the guarantee must send.

use super::competitors::Competitors;
use super::config::TwoClassConfig;
use super::estimator::{Estimate, Interval};
use crate::time::Span;

/// The flow's account, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ledger {
    share: f64,
    /// Arrived bytes beyond the promised share; below zero they are owed.
    balance: f64,
    competitors: Competitors,
    /// The fair rate of the last interval, in bytes per second.
    fair: f64,
}

impl Ledger {
    pub(super) fn new(share: f64) -> Self {
        Self { share, balance: 0.0, competitors: Competitors::new(), fair: 0.0 }
    }

    pub(super) fn set_share(&mut self, share: f64) {
        self.share = share;
    }

    /// The fair rate of the last interval, in bytes per second.
    pub(super) fn fair(&self) -> f64 {
        self.fair
    }

    /// Arrived bytes beyond the promised share.
    #[cfg(test)]
    pub(super) fn balance(&self) -> f64 {
        self.balance
    }

    /// Books an interval and returns the guarantee's rate for the next one.
    pub(super) fn book(&mut self, config: &TwoClassConfig, interval: &Interval, estimate: &Estimate) -> f64 {
        let Estimate { joining_rate, line, .. } = *estimate;
        let trickle = config.trickle * line;
        let fair = self.competitors.fair_rate(config.marked_wait.map(Span::as_secs_f64), trickle, interval, estimate);
        let fair = interval.told.unwrap_or(fair);
        self.fair = fair;
        let bounds = config.bounds_if(interval.told.is_some());
        let aim = if self.share > 0.0 { (self.share + bounds.margin).min(1.0) } else { 0.0 };
        self.balance += (interval.scavenger + interval.guarantee - aim * fair) * interval.seconds;

        // At the fair rate to the end it earns the rest of its share of what remains.
        let may_owe = bounds.debt * (1.0 - self.share).max(0.0) * interval.remaining;
        let owed = -self.balance - may_owe;
        let due = if aim > 0.0 && owed > 0.0 {
            (aim * fair + owed / config.catch_up.as_secs_f64().max(interval.seconds)).min(bounds.greatest_share * fair)
        } else {
            0.0
        };
        let missing = if interval.scavenger_dead {
            due.max((1.0 - estimate.busy) * joining_rate)
        } else {
            due - self.competitors.scavenger()
        };
        missing.min(bounds.greatest_weight * joining_rate).clamp(trickle, line.max(trickle))
    }
}
