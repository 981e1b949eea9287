//! The backup sub-flow (section 5.3): it fills what the primary leaves of the line rate, at the lowest priority.

use super::subflow::Subflow;
use crate::units::Rate;

/// Windows over which the delivered share is measured.
const WINDOWS: u8 = 8;
/// With less delivered the sub-flow is silenced: what it sends is dropped behind links that others need.
const LEAST_SHARE: f64 = 0.05;

/// The sub-flow with what became of its packets.
#[derive(Clone, Debug)]
pub(super) struct Backup {
    pub(super) subflow: Subflow,
    arrived: u32,
    lost: u32,
    windows: u8,
    silenced: bool,
    /// While it is silenced: whether this window's probe may go.
    probe: bool,
    /// Whether the primary leaves anything.
    has_rate: bool,
}

impl Backup {
    pub(super) fn new(subflow: Subflow) -> Self {
        Self { subflow, arrived: 0, lost: 0, windows: 0, silenced: false, probe: false, has_rate: false }
    }

    /// What the primary leaves of the line rate, if that is enough for anything.
    pub(super) fn set_rate(&mut self, spare: Option<Rate>) {
        self.has_rate = spare.is_some();
        if let Some(rate) = spare {
            self.subflow.pacer.set_rate(rate);
        }
    }

    /// Whether it may send.
    #[inline]
    pub(super) fn may_send(&self) -> bool {
        self.has_rate && (!self.silenced || self.probe)
    }

    pub(super) fn on_sent(&mut self) {
        self.probe = false;
    }

    pub(super) fn on_arrived(&mut self) {
        self.arrived += 1;
    }

    pub(super) fn on_lost(&mut self) {
        self.lost += 1;
    }

    /// A window of the primary's rate control has ended.
    pub(super) fn on_window(&mut self) {
        self.probe = true;
        self.windows += 1;
        if self.windows < WINDOWS {
            return;
        }
        let known = self.arrived + self.lost;
        if known > 0 {
            self.silenced = f64::from(self.arrived) < LEAST_SHARE * f64::from(known);
        }
        (self.windows, self.arrived, self.lost) = (0, 0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silenced_while_nothing_arrives_but_for_probes() {
        let mut backup = Backup::new(Subflow::new(3, Rate::from_gbit_per_sec(1)));
        assert!(!backup.may_send(), "nothing is left at the line rate");
        backup.set_rate(Some(Rate::from_gbit_per_sec(1)));
        let windows = |backup: &mut Backup| (0..WINDOWS).for_each(|_| backup.on_window());
        (0..100).for_each(|_| backup.on_lost());
        (0..4).for_each(|_| backup.on_arrived());
        windows(&mut backup);
        assert!(backup.may_send(), "the first probe");
        backup.on_sent();
        assert!(!backup.may_send());
        backup.on_window();
        assert!(backup.may_send(), "another window, another probe");
        backup.on_arrived();
        windows(&mut backup);
        backup.on_sent();
        assert!(backup.may_send(), "the probes arrive");
    }
}
