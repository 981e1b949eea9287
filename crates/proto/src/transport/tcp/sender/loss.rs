//! The state of loss repair at a sender.

use crate::packet::ByteRange;
use crate::recovery::proportional_rate::ProportionalRate;
use crate::recovery::rack::WIDENED_RECOVERIES;
use crate::recovery::scoreboard::{DUP_THRESH, Scoreboard};
use crate::time::Instant;

/// How losses are being repaired.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Phase {
    /// Nothing is being repaired.
    #[default]
    Open,
    /// Fast recovery: RFC 6675 with SACK, RFC 6582 without, RFC 8985 with RACK.
    Fast,
    /// After a timeout: everything not SACKed below the recovery point is sent again in slow start.
    Timeout,
}

/// Data sent in a lower class, which data sent later overtakes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Overtaken {
    /// It ends at this byte.
    pub(super) end: u64,
    /// From then on it counts as any other.
    pub(super) until: Instant,
}

/// What a fast recovery sent again.
#[derive(Clone, Copy, Debug, Default)]
struct SentAgain {
    /// What slow start may lead back to.
    ssthresh: u64,
    /// From the lowest to the highest byte.
    range: ByteRange,
    /// Bytes that are not known to have arrived twice.
    needed: u64,
}

/// Most times that the number of SACKed segments that make a segment lost is doubled. A cut is taken back only with a doubling,
/// so a receiver that calls losses spurious gains five cuts.
const MOST_DOUBLINGS: u8 = 5;

/// How far packets overtake each other.
#[derive(Clone, Copy, Debug, Default)]
struct Reordering {
    /// Doublings of what makes a segment lost.
    doublings: u8,
    /// Needed recoveries since the last one.
    needed_recoveries: u32,
    /// Of the present or the last fast recovery, until it is known whether it was needed.
    sent_again: Option<SentAgain>,
}

/// Loss recovery of one flow.
#[derive(Default)]
pub(super) struct Loss {
    pub(super) phase: Phase,
    /// SND.NXT when the current or the last repair began (RecoveryPoint, `recover`).
    pub(super) recovery_point: Option<u64>,
    /// Duplicate acknowledgements since SND.UNA moved.
    pub(super) duplicates: u32,
    /// New bytes sent on duplicates. They are not part of the flight that ssthresh follows (RFC 5681).
    pub(super) limited_bytes: u64,
    /// NewReno's inflation of the window, negative after deflation (RFC 6582).
    pub(super) inflation: i64,
    /// The first hole is sent whatever the window allows: at the start of recovery, and on NewReno's partial
    /// acknowledgements.
    pub(super) retransmit_first: bool,
    /// A partial acknowledgement has come in this recovery.
    pub(super) partial_seen: bool,
    /// SND.UNA at the last timeout.
    pub(super) timed_out: Option<u64>,
    pub(super) scoreboard: Scoreboard,
    /// Nothing beyond was sent again.
    pub(super) sent_again_end: u64,
    /// Until then, data sent before a move to a higher class does not count as lost.
    pub(super) overtaken: Option<Overtaken>,
    reordering: Reordering,
    /// How much fast recovery may send, if it follows what arrives.
    pub(super) rate: Option<ProportionalRate>,
}

impl Reordering {
    /// After enough of them packets no longer overtake each other, as with RACK.
    fn on_needed_recovery(&mut self) {
        self.needed_recoveries += 1;
        if self.needed_recoveries >= WIDENED_RECOVERIES {
            (self.doublings, self.needed_recoveries) = (0, 0);
        }
    }
}

impl Loss {
    /// Whether every acknowledgement must be handled here.
    pub(super) fn is_active(&self) -> bool {
        self.phase != Phase::Open || self.duplicates > 0 || !self.scoreboard.is_empty()
    }

    /// Begins a repair: nothing of `unacked..next` has been sent again.
    pub(super) fn begin(&mut self, phase: Phase, unacked: u64, next: u64) {
        self.phase = phase;
        self.recovery_point = Some(next);
        self.duplicates = 0;
        self.limited_bytes = 0;
        self.inflation = 0;
        self.retransmit_first = false;
        self.partial_seen = false;
        self.rate = None;
        self.scoreboard.begin(unacked);
        if self.reordering.sent_again.take().is_some() {
            self.reordering.on_needed_recovery();
        }
    }

    /// What this fast recovery sends again is followed, to learn whether it was needed.
    pub(super) fn follow_reordering(&mut self, ssthresh: u64) {
        self.reordering.sent_again = Some(SentAgain { ssthresh, ..SentAgain::default() });
    }

    /// `range` is sent again.
    pub(super) fn on_sent_again(&mut self, range: ByteRange) {
        self.sent_again_end = self.sent_again_end.max(range.end);
        if let Some(sent) = &mut self.reordering.sent_again
            && self.phase == Phase::Fast
        {
            let start = if sent.range.is_empty() { range.start } else { sent.range.start.min(range.start) };
            *sent = SentAgain {
                range: ByteRange::new(start, sent.range.end.max(range.end)),
                needed: sent.needed + range.len(),
                ..*sent
            };
        }
    }

    /// `range` arrived twice (RFC 2883).
    pub(super) fn on_duplicate(&mut self, range: ByteRange) {
        if let Some(sent) = &mut self.reordering.sent_again
            && range.start >= sent.range.start
            && range.end <= sent.range.end
        {
            sent.needed = sent.needed.saturating_sub(range.len());
        }
    }

    /// If the fast recovery that is over was spurious, as all that it sent again arrived twice: what slow start may lead back to.
    /// `Some` once, and only if more SACKed segments make a segment lost from now on.
    pub(super) fn was_spurious(&mut self) -> Option<u64> {
        let Reordering { doublings, needed_recoveries, sent_again } = &mut self.reordering;
        if self.phase != Phase::Open {
            return None;
        }
        let sent = sent_again.take_if(|sent| sent.needed == 0 && !sent.range.is_empty())?;
        *needed_recoveries = 0;
        let more = *doublings < MOST_DOUBLINGS;
        *doublings += u8::from(more);
        more.then_some(sent.ssthresh)
    }

    /// What makes a segment lost, with so many bytes in flight: at most half of their segments may have to be SACKed.
    pub(super) fn set_dup_thresh(&mut self, flight: u64, mss: u64) {
        let mut doublings = self.reordering.doublings;
        if doublings > 0 {
            let most = (flight / mss / (2 * u64::from(DUP_THRESH))).checked_ilog2().unwrap_or(0);
            doublings = doublings.min(most as u8);
        }
        self.scoreboard.double_dup_thresh(doublings);
    }

    /// Data sent before a move to a higher class has arrived, or a timeout repairs it.
    pub(super) fn forget_overtaken(&mut self) {
        self.overtaken = None;
        self.scoreboard.spare(ByteRange::default());
    }

    /// Whether everything outstanding when repair began is acknowledged.
    pub(super) fn is_repaired(&self, unacked: u64) -> bool {
        self.recovery_point.is_none_or(|point| unacked >= point)
    }

    /// Ends the repair.
    pub(super) fn end(&mut self) {
        self.phase = Phase::Open;
        self.duplicates = 0;
        self.inflation = 0;
        self.retransmit_first = false;
        self.rate = None;
    }

    /// The window for the repair: the controller's, or the flight and what may join it.
    pub(super) fn window(&self, in_flight: u64, window: u64) -> u64 {
        self.rate.map_or(window, |rate| in_flight + rate.allowance())
    }

    /// This many bytes were sent.
    pub(super) fn on_sent(&mut self, bytes: u64) {
        if let Some(rate) = &mut self.rate {
            rate.on_sent(bytes);
        }
    }

    /// Whether fast recovery may begin: not again for data that an earlier repair covers. RFC 6582 requires the
    /// acknowledgement to cover more than `recover`, RFC 6675 at least RecoveryPoint.
    pub(super) fn may_begin(&self, unacked: u64, sack: bool) -> bool {
        self.recovery_point.is_none_or(|point| if sack { unacked >= point } else { unacked > point })
    }

    /// After a timeout: bytes sent since then, again or for the first time.
    pub(super) fn in_flight_after_timeout(&self, unacked: u64, next: u64) -> u64 {
        let point = self.recovery_point.unwrap_or(next).max(unacked);
        let high_rxt = self.scoreboard.high_rxt().min(point);
        self.scoreboard.holes_within(unacked, high_rxt) + self.scoreboard.holes_within(point, next)
    }
}
