//! The proactive sub-flow's packets in flight, and their timer.

use alloc::collections::VecDeque;

use super::{Run, Sent};
use crate::packet::ByteRange;
use crate::time::{Instant, Span};

/// Packets sent on credits and not acknowledged.
#[derive(Default)]
pub(super) struct Proactive {
    outstanding: VecDeque<Sent>,
    /// Number of the next packet.
    next: u32,
    /// Everything outstanding is lost if nothing of it is acknowledged until then.
    timer: Option<Instant>,
}

impl Proactive {
    pub(super) fn timer(&self) -> Option<Instant> {
        self.timer
    }

    /// Packets sent so far, modulo 2³².
    pub(super) fn sent(&self) -> u32 {
        self.next
    }

    /// Notes a packet sent now and returns its number.
    #[inline]
    pub(super) fn send(&mut self, now: Instant, range: ByteRange, timeout: Span) -> u32 {
        let number = self.next;
        self.next = number.wrapping_add(1);
        self.outstanding.push_back(Sent { start: range.start, at: now, number, len: range.len() as u16 });
        if self.timer.is_none() {
            self.timer = Some(now.after(timeout));
        }
        number
    }

    /// Settles what the receiver has reported. Packets in gaps go to `lost`.
    #[inline]
    pub(super) fn settle(&mut self, now: Instant, run: Run, timeout: Span, mut lost: impl FnMut(ByteRange)) {
        if run.end.wrapping_sub(self.next) as i32 > 0 {
            return;
        }
        let before = self.outstanding.len();
        while let Some(sent) = self.outstanding.front().filter(|sent| run.settles(sent.number)) {
            if !run.holds(sent.number) {
                lost(sent.range());
            }
            self.outstanding.pop_front();
        }
        if self.outstanding.len() < before {
            self.timer = (!self.outstanding.is_empty()).then(|| now.after(timeout));
        }
    }

    /// Gives everything outstanding to `lost`; true if there was anything.
    pub(super) fn lose_all(&mut self, mut lost: impl FnMut(ByteRange)) -> bool {
        self.timer = None;
        let any = !self.outstanding.is_empty();
        self.outstanding.drain(..).for_each(|sent| lost(sent.range()));
        any
    }
}
