//! Following a policy: the class, and where the stream ends.

use super::{FINISH, FINISHED, PERSIST, TcpSender, Unusual};
use crate::congestion::CongestionControl;
use crate::contract::policy::{Directive, Progress};
use crate::time::Instant;

impl<C: CongestionControl> TcpSender<C> {
    pub(super) fn progress(&self) -> Progress {
        Progress { acked_bytes: self.snd_una.min(self.written), sent_bytes: self.bytes_sent }
    }

    /// The application has written something.
    pub(super) fn start_policy(&mut self, now: Instant) {
        let Some(mut unusual) = self.unusual.take() else { return };
        if let Some(policy) = &mut unusual.policy {
            policy.on_start(now);
            let end = policy.stream_end();
            self.end_stream_at(&mut unusual, end);
        }
        self.unusual = Some(unusual);
    }

    /// When the policy must be asked. Nothing is left to ask once everything is acknowledged.
    pub(super) fn policy_deadline(&self, unusual: &Unusual) -> Option<Instant> {
        if self.is(FINISHED) { None } else { unusual.policy.as_ref()?.deadline() }
    }

    /// Asks the policy if its deadline has come.
    pub(super) fn ask_policy(&mut self, now: Instant, unusual: &mut Unusual) {
        let progress = self.progress();
        if let Some(policy) = unusual.policy.as_mut().filter(|policy| policy.deadline().is_some_and(|at| at <= now)) {
            let directive = policy.on_deadline(now, progress);
            self.follow_directive(now, unusual, &directive);
        }
    }

    /// Follows a policy's directive.
    pub(super) fn follow_directive(&mut self, now: Instant, unusual: &mut Unusual, directive: &Directive) {
        if let Some(class) = directive.class {
            self.set_data_class(class);
            if directive.overtakes && self.config.expect_overtaking {
                self.expect_overtaking(now, unusual);
            }
        }
        if let Some(weight) = directive.weight {
            self.controller.set_weight(weight);
        }
        if let Some(end) = directive.stream_end {
            self.end_stream_at(unusual, end);
        }
        if directive.finish {
            self.state |= FINISH;
        }
    }

    /// Gives up what was written from byte `end` on and never sent.
    fn end_stream_at(&mut self, unusual: &mut Unusual, end: u64) {
        let end = end.max(self.snd_nxt).min(self.written);
        unusual.given_up_bytes += self.written - end;
        self.written = end;
        // No byte is left for the peer's window to let go; FIN needs none.
        if self.is(PERSIST) && self.snd_una == end {
            self.state &= !PERSIST;
            self.timer = None;
        }
    }
}
