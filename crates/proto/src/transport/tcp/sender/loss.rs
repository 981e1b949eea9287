//! The state of loss repair at a sender.

use crate::packet::ByteRange;
use crate::recovery::proportional_rate::ProportionalRate;
use crate::recovery::scoreboard::Scoreboard;
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
    /// Until then, data sent before a move to a higher class does not count as lost.
    pub(super) overtaken: Option<Overtaken>,
    /// How much fast recovery may send, if it follows what arrives.
    pub(super) rate: Option<ProportionalRate>,
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
