//! Controllers of other crates.

use alloc::boxed::Box;
use core::fmt;

use super::controller::{AckSample, Congestion, CongestionControl, EcnMode};
use crate::units::Rate;

/// A controller of another crate, behind a pointer. Every [`CongestionControl`] that is `Clone` and `Debug` is one.
pub trait ForeignController: CongestionControl + fmt::Debug + Send + Sync {
    /// Another controller in the same state.
    fn clone_boxed(&self) -> Box<dyn ForeignController>;
}

impl<C: CongestionControl + Clone + fmt::Debug + Send + Sync + 'static> ForeignController for C {
    fn clone_boxed(&self) -> Box<dyn ForeignController> {
        Box::new(self.clone())
    }
}

/// A controller of another crate as a member. It caches the windows after each call that may change them, because
/// senders ask for them before each packet.
#[derive(Debug)]
pub struct Foreign {
    controller: Box<dyn ForeignController>,
    window: u64,
    ssthresh: u64,
}

impl Foreign {
    pub(super) fn new(controller: Box<dyn ForeignController>) -> Self {
        Self { window: controller.window(), ssthresh: controller.ssthresh(), controller }
    }

    /// Lets the controller act, and then caches its windows.
    fn with(&mut self, act: impl FnOnce(&mut dyn ForeignController)) {
        act(&mut *self.controller);
        (self.window, self.ssthresh) = (self.controller.window(), self.controller.ssthresh());
    }
}

impl Clone for Foreign {
    fn clone(&self) -> Self {
        Self { controller: self.controller.clone_boxed(), ..*self }
    }
}

impl CongestionControl for Foreign {
    fn on_ack(&mut self, sample: &AckSample) {
        self.with(|controller| controller.on_ack(sample));
    }

    fn on_congestion(&mut self, event: &Congestion) {
        self.with(|controller| controller.on_congestion(event));
    }

    fn on_lost(&mut self, bytes: u64) {
        self.with(|controller| controller.on_lost(bytes));
    }

    fn on_recovered(&mut self, flight: u64) {
        self.with(|controller| controller.on_recovered(flight));
    }

    fn on_spurious_loss(&mut self, ssthresh: u64) {
        self.with(|controller| controller.on_spurious_loss(ssthresh));
    }

    fn on_idle(&mut self) {
        self.with(|controller| controller.on_idle());
    }

    #[inline]
    fn window(&self) -> u64 {
        self.window
    }

    #[inline]
    fn ssthresh(&self) -> u64 {
        self.ssthresh
    }

    fn pacing_rate(&self) -> Option<Rate> {
        self.controller.pacing_rate()
    }

    fn pacing_burst(&self) -> u8 {
        self.controller.pacing_burst()
    }

    fn ecn_mode(&self) -> EcnMode {
        self.controller.ecn_mode()
    }

    fn needs_one_way_delay(&self) -> bool {
        self.controller.needs_one_way_delay()
    }

    fn needs_hold_time(&self) -> bool {
        self.controller.needs_hold_time()
    }

    fn needs_pacing(&self) -> bool {
        self.controller.needs_pacing()
    }

    fn set_hops(&mut self, hops: u8) {
        self.with(|controller| controller.set_hops(hops));
    }

    fn marked_fraction(&self) -> Option<f64> {
        self.controller.marked_fraction()
    }

    fn set_weight(&mut self, weight: f64) {
        self.with(|controller| controller.set_weight(weight));
    }

    fn set_min_share(&mut self, share: f64) {
        self.with(|controller| controller.set_min_share(share));
    }

    fn set_min_rate(&mut self, rate: Rate) {
        self.with(|controller| controller.set_min_rate(rate));
    }

    fn set_needed_rate(&mut self, rate: Rate) {
        self.with(|controller| controller.set_needed_rate(rate));
    }

    fn measures_gaps(&self) -> bool {
        self.controller.measures_gaps()
    }

    fn normal_rate(&self) -> Option<Rate> {
        self.controller.normal_rate()
    }
}
