//! Estimates the flow's fair rate from what the guarantee's packets meet in the high class.

use crate::congestion::dctcp::{Dctcp, DctcpConfig};
use crate::congestion::{AckSample, Cause, Congestion, CongestionControl, EcnMode};
use crate::time::{Instant, Span};

/// Length in seconds of a stretch of time over which the line's rate is measured.
const STRETCH: f64 = 0.1;
/// Marked packets over which the mean of their round-trip times is taken. At least this many must have come.
const MEMORY: u32 = 64;

/// A virtual DCTCP flow in the high class, and how often that class is busy.
///
/// It is the controller of the guarantee's sub-flow, but its window is no limit there, because the ledger chooses the
/// rate. Rates are bytes of payload per second.
pub(super) struct FairRate {
    window: Dctcp,
    mss: u16,
    /// Rate of the line, or the greatest rate seen if it was not told.
    line: f64,
    told: bool,
    /// Bytes that arrived in this stretch of time, from which the line's rate is measured.
    arrived: u64,
    stretch_began: Instant,
    /// The virtual flow's rounds so far: its window of data is acknowledged as one.
    rounds: u64,
    round_began: Instant,
    /// Marks before this are of packets that were under way at the last cut.
    no_cut_before: Instant,
    /// Bytes acknowledged in this round, those of them marked, and whether any were lost.
    acked: u64,
    marked: u64,
    lost: bool,
    /// Packets that arrived in this interval, and those that had waited.
    packets: u32,
    waited: u32,
    busy: f64,
    rtt: Span,
    /// Round-trip times in seconds: the least, the mean of marked packets, and how many of those there were.
    least_rtt: f64,
    marked_rtt: f64,
    marks: u32,
}

/// Measurements of one interval.
#[derive(Clone, Copy, Debug)]
pub(super) struct Interval {
    pub(super) seconds: f64,
    /// Bytes per second of both sub-flows.
    pub(super) scavenger: f64,
    pub(super) guarantee: f64,
    /// The low class carries nothing.
    pub(super) scavenger_dead: bool,
    /// How long packets of the scavenger waited, in seconds, and whether any was marked.
    pub(super) wait: f64,
    pub(super) marked: bool,
    /// Bytes that have yet to arrive, if the flow's end is known.
    pub(super) remaining: f64,
    /// The fair rate, if hosts tell it.
    pub(super) told: Option<f64>,
}

/// Estimates from an interval.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Estimate {
    /// The flow's fair rate while the high class is busy.
    pub(super) busy_rate: f64,
    /// The rate of a DCTCP flow that joined the high class now.
    pub(super) joining_rate: f64,
    /// The part of the time in which the high class is busy.
    pub(super) busy: f64,
    /// The rate of the line, as far as it is known.
    pub(super) line: f64,
    /// How long marked packets wait in the high class, in seconds, if that is known.
    pub(super) marked_wait: Option<f64>,
}

impl FairRate {
    /// Begins with no knowledge, except perhaps the line's rate.
    pub(super) fn new(mss: u16, line: Option<f64>) -> Self {
        Self {
            window: Dctcp::new(DctcpConfig::default(), mss),
            mss,
            line: line.unwrap_or(0.0),
            told: line.is_some(),
            arrived: 0,
            stretch_began: Instant::ZERO,
            rounds: 0,
            round_began: Instant::ZERO,
            no_cut_before: Instant::ZERO,
            acked: 0,
            marked: 0,
            lost: false,
            packets: 0,
            waited: 0,
            busy: 0.0,
            rtt: Span::ZERO,
            least_rtt: f64::INFINITY,
            marked_rtt: 0.0,
            marks: 0,
        }
    }

    /// A packet of the guarantee arrived; `waited` if it had waited.
    #[inline]
    pub(super) fn on_arrival(&mut self, waited: bool) {
        self.packets += 1;
        self.waited += u32::from(waited);
    }

    /// This many bytes arrived since the last call. A busy host learns of them in lumps, so the rate is taken over a
    /// stretch of time.
    pub(super) fn on_arrived(&mut self, now: Instant, bytes: u64) {
        self.arrived += bytes;
        let seconds = now.since(self.stretch_began).as_secs_f64();
        if self.told || seconds < STRETCH {
            return;
        }
        self.line = self.line.max(self.arrived as f64 / seconds);
        (self.arrived, self.stretch_began) = (0, now);
    }

    /// Rate of the line, as told or seen.
    pub(super) fn line(&self) -> f64 {
        self.line
    }

    /// Nobody answers in the high class, so everything known of it is out of date.
    pub(super) fn forget(&mut self) {
        self.window = Dctcp::new(DctcpConfig::default(), self.mss);
        self.busy = 0.0;
    }

    /// Bytes of the line in a round trip, the limit of the virtual flow.
    fn line_window(&self) -> f64 {
        self.line * self.rtt.as_secs_f64()
    }

    /// The virtual flow's window of data is acknowledged, marked as the guarantee's packets were.
    fn end_round(&mut self, now: Instant) {
        let cwnd = self.window.window();
        let marked = (cwnd as f64 * self.marked as f64 / self.acked as f64) as u64;
        let sample = |acked: u64, round: u64, ece: bool, limited: bool| AckSample {
            now,
            acked,
            unacked: round,
            next: round,
            flight: cwnd,
            ece,
            rtt: Some(self.rtt),
            delay: None,
            hold: None,
            smoothed_rtt: self.rtt,
            window_limited: limited,
            in_recovery: self.lost,
        };
        let limited = (cwnd as f64) < self.line_window();
        // The round ends with the second: DCTCP then takes both for one observation window.
        let (first, second) =
            (sample(marked, self.rounds, true, limited), sample(cwnd - marked, self.rounds + 1, false, limited));
        if marked > 0 {
            self.window.on_ack(&first);
        }
        self.window.on_ack(&second);
        // Slow start counts a segment for each acknowledgement, and this one stands for many.
        for _ in 1..(cwnd - marked) / u64::from(self.mss).max(1) {
            if !limited || self.window.window() >= self.window.ssthresh() {
                break;
            }
            self.window.on_ack(&AckSample { acked: self.mss.into(), unacked: self.rounds + 1, ..second });
        }
        self.rounds += 1;
        if self.lost {
            self.cut(now, Cause::Loss);
        }
        (self.acked, self.marked, self.lost) = (0, 0, false);
        self.round_began = now;
    }

    fn cut(&mut self, now: Instant, cause: Cause) {
        let (flight, unacked, next) = (self.window.window(), self.rounds, self.rounds);
        self.window.on_congestion(&Congestion { now, cause, flight, unacked, next, first: true });
    }

    /// The rate of the virtual flow, as of its last round.
    #[inline]
    pub(super) fn window_rate(&self) -> f64 {
        let rtt = self.rtt.as_secs_f64();
        if rtt > 0.0 { self.window.window() as f64 / rtt } else { 0.0 }
    }

    fn marked_wait(&self) -> Option<f64> {
        let wait = self.marked_rtt - self.least_rtt;
        (self.marks >= MEMORY && wait > 0.0).then_some(wait)
    }

    /// Ends an interval in which the guarantee delivered `own` bytes per second.
    pub(super) fn estimate(&mut self, own: f64) -> Estimate {
        if self.packets > 0 {
            self.busy = f64::from(self.waited) / f64::from(self.packets);
        }
        (self.packets, self.waited) = (0, 0);
        let rate = self.window_rate();
        let line = self.line.max(if self.told { 0.0 } else { own });
        let joining_rate = rate.min(line);
        let others = (line - own).max(0.0) + joining_rate;
        let busy_rate = if others > 0.0 { joining_rate * line / others } else { 0.0 };
        Estimate {
            busy_rate: busy_rate.min(line),
            joining_rate,
            busy: self.busy,
            line,
            marked_wait: self.marked_wait(),
        }
    }
}

impl CongestionControl for FairRate {
    #[inline]
    fn on_ack(&mut self, sample: &AckSample) {
        self.rtt = sample.smoothed_rtt;
        self.acked = self.acked.saturating_add(sample.acked);
        if sample.ece {
            self.marked = self.marked.saturating_add(sample.acked);
        }
        if let Some(rtt) = sample.rtt.map(Span::as_secs_f64) {
            self.least_rtt = self.least_rtt.min(rtt);
            if sample.ece {
                self.marks = self.marks.saturating_add(1);
                self.marked_rtt += (rtt - self.marked_rtt) / f64::from(self.marks.min(MEMORY));
            }
        }
        // The first mark cuts at once; those of a round trip from then on are of packets that were under way (RFC 3168 section
        // 6.1.2). A cut for each round with marks would count one stretch of them twice if it lies in two rounds.
        if sample.ece && sample.now >= self.no_cut_before {
            self.cut(sample.now, Cause::Ecn);
            self.no_cut_before = sample.now.after(self.rtt);
        }
        self.lost |= sample.in_recovery;
        if self.acked > 0 && sample.now.since(self.round_began) >= self.rtt {
            self.end_round(sample.now);
        }
    }

    fn on_congestion(&mut self, event: &Congestion) {
        if event.cause == Cause::Timeout {
            self.window.on_congestion(event);
        }
    }

    fn on_idle(&mut self) {
        self.window.on_idle();
        (self.least_rtt, self.marked_rtt, self.marks) = (f64::INFINITY, 0.0, 0);
    }

    fn window(&self) -> u64 {
        u64::MAX
    }

    fn ssthresh(&self) -> u64 {
        u64::MAX
    }

    fn marked_fraction(&self) -> Option<f64> {
        self.window.marked_fraction()
    }

    fn ecn_mode(&self) -> EcnMode {
        EcnMode::Accurate
    }
}
