//! The backup sub-flow (section 5.3): it uses what the primary leaves of the line rate, at the lowest priority.

use super::subflow::Subflow;
use crate::units::Rate;

/// Windows over which the delivered share is measured.
const WINDOWS: u8 = 8;
/// Below this delivered share the sub-flow is silenced, because its packets are dropped after links that others need.
const LEAST_SHARE: f64 = 0.05;
/// From this delivered share on a silenced sub-flow may send twice as much.
const GOOD_SHARE: f64 = 0.5;

/// The sub-flow and the fate of its packets.
#[derive(Clone, Debug)]
pub(super) struct Backup {
    pub(super) subflow: Subflow,
    arrived: u32,
    lost: u32,
    windows: u8,
    /// Packets that it may send in a window: any number; one probe after it was silenced; then twice as many after each
    /// good measurement. A probe may find room that would not be enough for many packets.
    allowance: u32,
    /// Packets that it may still send in this window.
    left: u32,
    /// Whether the primary leaves anything.
    has_rate: bool,
}

impl Backup {
    pub(super) fn new(subflow: Subflow) -> Self {
        Self { subflow, arrived: 0, lost: 0, windows: 0, allowance: u32::MAX, left: u32::MAX, has_rate: false }
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
        self.has_rate && self.left > 0
    }

    pub(super) fn on_sent(&mut self) {
        self.left -= 1;
    }

    pub(super) fn on_arrived(&mut self) {
        self.arrived += 1;
    }

    pub(super) fn on_lost(&mut self, packets: u32) {
        self.lost += packets;
    }

    /// A window of the primary's rate control has ended.
    pub(super) fn on_window(&mut self) {
        self.windows += 1;
        let known = f64::from(self.arrived + self.lost);
        if self.windows == WINDOWS {
            if f64::from(self.arrived) < LEAST_SHARE * known {
                self.allowance = 1;
            } else if f64::from(self.arrived) >= GOOD_SHARE * known && known > 0.0 {
                self.allowance = self.allowance.saturating_mul(2);
            }
            (self.windows, self.arrived, self.lost) = (0, 0, 0);
        }
        self.left = self.allowance;
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
        let sendable = |backup: &mut Backup| {
            (0..100).take_while(|_| backup.may_send().then(|| backup.on_sent()).is_some()).count()
        };
        backup.on_lost(100);
        (0..4).for_each(|_| backup.on_arrived());
        windows(&mut backup);
        assert_eq!(sendable(&mut backup), 1, "a probe");
        backup.on_window();
        assert_eq!(sendable(&mut backup), 1, "another window, another probe");
        (backup.windows, backup.lost) = (0, 7);
        backup.on_arrived();
        windows(&mut backup);
        assert_eq!(sendable(&mut backup), 1, "one of eight arrives");
        for allowed in [2, 4, 8] {
            (0..8).for_each(|_| backup.on_arrived());
            windows(&mut backup);
            assert_eq!(sendable(&mut backup), allowed, "all arrive");
        }
    }
}
