//! The reactive sub-flow: a window that slides over losses, or a burst.

use alloc::boxed::Box;
use alloc::collections::VecDeque;

use super::config::Reactive;
use super::{Run, Sent};
use crate::congestion::dctcp::LossCut;
use crate::congestion::{AckSample, Cause, Congestion, CongestionControl};
use crate::packet::ByteRange;
use crate::recovery::rtt::{RtoBounds, RttEstimator};
use crate::time::{Instant, Span};

/// The state of the sub-flow's handshake or burst.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// A connection must be requested first; true while the request is due.
    Requesting(bool),
    /// Sends as the window allows.
    Open,
    /// This many bytes of the burst are left.
    Bursting(u64),
    /// The burst is over and the probe is due.
    ProbeDue,
    /// Sends nothing more.
    Over,
}

/// What the sub-flow would send now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Next {
    /// A connection request.
    Syn,
    /// Pending data, this long.
    Data(u16),
    /// The probe after a burst.
    Probe,
}

/// Packets sent without credits, and the window over them.
///
/// Packets are settled in the order sent, by an acknowledgement, a gap, a proactive retransmission or a timeout. So the
/// left edge of the window is a count of bytes settled, and the right edge one of bytes sent.
pub(crate) struct ReactiveSubflow<C> {
    /// Boxed, because with the largest controller inline a sender would outgrow its cache lines.
    controller: Box<C>,
    rtt: RttEstimator,
    outstanding: VecDeque<Sent>,
    /// Number of the next packet.
    next: u32,
    state: State,
    timer: Option<Instant>,
    sent_bytes: u64,
    settled_bytes: u64,
    /// `sent_bytes` when the window was last reduced.
    reduced_at: u64,
    /// Whether the window left no room for a full segment when sending stopped.
    window_limited: bool,
    marks: u64,
    timeouts: u64,
}

/// An acknowledgement of the sub-flow.
#[derive(Clone, Copy)]
pub(crate) struct ReactiveAck {
    pub(crate) run: Run,
    /// It echoes a mark.
    pub(crate) ece: bool,
}

fn rto_bounds(reactive: &Reactive) -> RtoBounds {
    match reactive {
        Reactive::Window(window) => window.rto,
        Reactive::Burst { timeout, .. } => RtoBounds { minimum: *timeout, initial: *timeout, ..RtoBounds::default() },
    }
}

impl<C: CongestionControl> ReactiveSubflow<C> {
    pub(crate) fn new(reactive: &Reactive, controller: C) -> Self {
        let state = match reactive {
            Reactive::Window(window) if window.handshake => State::Requesting(true),
            Reactive::Window(_) => State::Open,
            Reactive::Burst { bytes, .. } => State::Bursting(*bytes),
        };
        Self {
            controller: Box::new(controller),
            rtt: RttEstimator::new(&rto_bounds(reactive)),
            outstanding: VecDeque::new(),
            next: 0,
            state,
            timer: None,
            sent_bytes: 0,
            settled_bytes: 0,
            reduced_at: 0,
            window_limited: false,
            marks: 0,
            timeouts: 0,
        }
    }

    pub(crate) fn timer(&self) -> Option<Instant> {
        self.timer
    }

    pub(crate) fn rto(&self) -> Span {
        self.rtt.rto()
    }

    pub(crate) fn marks(&self) -> u64 {
        self.marks
    }

    pub(crate) fn timeouts(&self) -> u64 {
        self.timeouts
    }

    pub(crate) fn sent_bytes(&self) -> u64 {
        self.sent_bytes
    }

    /// Packets sent so far, modulo 2³².
    pub(crate) fn sent(&self) -> u32 {
        self.next
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.outstanding.is_empty() && !matches!(self.state, State::ProbeDue)
    }

    /// When the oldest packet under way was sent.
    pub(crate) fn oldest_at(&self) -> Option<Instant> {
        self.outstanding.front().map(|sent| sent.at)
    }

    fn flight(&self) -> u64 {
        self.sent_bytes - self.settled_bytes
    }

    /// What may be sent now while `pending` bytes wait.
    #[inline]
    pub(crate) fn next(&mut self, reactive: &Reactive, mss: u16, pending: u64) -> Option<Next> {
        let mss = u64::from(mss);
        let len = pending.min(mss);
        match self.state {
            State::Open => {
                let maximum = match reactive {
                    Reactive::Window(window) => window.maximum.unwrap_or(u64::MAX),
                    Reactive::Burst { .. } => u64::MAX,
                };
                let (flight, window) = (self.flight(), self.controller.window().min(maximum));
                if len > 0 && flight + len <= window.max(len) {
                    return Some(Next::Data(len as u16));
                }
                self.window_limited = flight + mss > window;
                None
            }
            State::Bursting(left) => {
                let len = len.min(left);
                if len > 0 {
                    return Some(Next::Data(len as u16));
                }
                if self.outstanding.is_empty() {
                    return None;
                }
                self.end_burst();
                (self.state == State::ProbeDue).then_some(Next::Probe)
            }
            State::ProbeDue => Some(Next::Probe),
            State::Requesting(true) => Some(Next::Syn),
            State::Requesting(false) | State::Over => None,
        }
    }

    /// Notes a packet sent now and returns its number. A probe has no bytes.
    #[inline]
    pub(crate) fn send(&mut self, now: Instant, range: ByteRange) -> u32 {
        let (number, len) = (self.next, range.len());
        self.next = number.wrapping_add(1);
        self.outstanding.push_back(Sent { start: range.start, at: now, number, len: len as u16 });
        self.sent_bytes += len;
        match self.state {
            State::Bursting(left) => self.state = State::Bursting(left - len),
            State::ProbeDue => self.state = State::Over,
            State::Requesting(_) | State::Open | State::Over => {}
        }
        if self.timer.is_none() {
            self.timer = Some(now.after(self.rtt.rto()));
        }
        number
    }

    /// A connection request is sent now.
    pub(crate) fn send_syn(&mut self, now: Instant) {
        self.state = State::Requesting(false);
        self.timer = Some(now.after(self.rtt.rto()));
    }

    /// The connection is established. `echo` is when its request was sent.
    pub(crate) fn open(&mut self, reactive: &Reactive, now: Instant, echo: Instant) {
        if matches!(self.state, State::Requesting(_)) && echo <= now {
            self.state = State::Open;
            self.timer = None;
            self.rtt.sample(&rto_bounds(reactive), now.since(echo));
        }
    }

    /// The first round trip is over, and with it the burst.
    pub(crate) fn end_burst(&mut self) {
        if let State::Bursting(_) = self.state {
            self.state = if self.outstanding.is_empty() { State::Over } else { State::ProbeDue };
        }
    }

    /// Settles what the receiver has reported. Packets in gaps go to `lost`. Returns the bytes that have arrived.
    #[inline]
    pub(crate) fn settle(
        &mut self,
        now: Instant,
        reactive: &Reactive,
        ack: ReactiveAck,
        mut lost: impl FnMut(ByteRange),
    ) -> u64 {
        if ack.run.end.wrapping_sub(self.next) as i32 > 0 {
            return 0;
        }
        self.marks += u64::from(ack.ece);
        let flight = self.flight();
        let (mut acked, mut gone, mut newest) = (0, 0, None);
        while let Some(sent) = self.outstanding.front().copied().filter(|sent| ack.run.settles(sent.number)) {
            self.outstanding.pop_front();
            if ack.run.holds(sent.number) {
                acked += u64::from(sent.len);
                newest = Some(sent);
            } else {
                gone += u64::from(sent.len);
                lost(sent.range());
            }
        }
        if newest.is_none() && gone == 0 {
            return 0;
        }
        self.settled_bytes += acked + gone;
        // Nothing is sent twice here, so every echo is unambiguous.
        let sample = newest.filter(|sent| sent.number.wrapping_add(1) == ack.run.end);
        let rtt = sample.map(|sent| now.since(sent.at));
        if let Some(rtt) = rtt {
            self.rtt.sample(&rto_bounds(reactive), rtt);
        }
        self.timer = (!self.outstanding.is_empty()).then(|| now.after(self.rtt.rto()));
        self.controller.on_ack(&AckSample {
            now,
            acked,
            unacked: self.settled_bytes,
            next: self.sent_bytes,
            flight,
            ece: ack.ece,
            rtt,
            delay: None,
            hold: None,
            smoothed_rtt: self.rtt.smoothed(),
            window_limited: self.window_limited,
            in_recovery: gone > 0,
        });
        if gone > 0 {
            self.controller.on_lost(gone);
        }
        let cut = match reactive {
            Reactive::Window(window) if window.loss_cut == LossCut::AsMark => Cause::Ecn,
            _ => Cause::Loss,
        };
        let cause = if gone > 0 { Some(cut) } else { ack.ece.then_some(Cause::Ecn) };
        if let Some(cause) = cause
            && self.settled_bytes > self.reduced_at
        {
            self.congestion(now, cause, flight);
        }
        acked
    }

    fn congestion(&mut self, now: Instant, cause: Cause, flight: u64) {
        let flight = flight.min(self.controller.window());
        let (unacked, next) = (self.settled_bytes, self.sent_bytes);
        self.controller.on_congestion(&Congestion { now, cause, flight, unacked, next, first: true });
        self.reduced_at = next;
    }

    /// Takes the oldest packet out of the window, because its data is sent on a credit. Probes are not data.
    pub(crate) fn take_oldest(&mut self) -> Option<ByteRange> {
        loop {
            let sent = self.outstanding.pop_front()?;
            self.settled_bytes += u64::from(sent.len);
            if self.outstanding.is_empty() {
                self.timer = None;
            }
            if sent.len > 0 {
                return Some(sent.range());
            }
        }
    }

    /// Its packets wait for longer than they should: it sends less, at most once in a window.
    pub(crate) fn yield_window(&mut self, now: Instant) {
        if self.settled_bytes > self.reduced_at {
            self.congestion(now, Cause::Loss, self.flight());
        }
    }

    /// The timer has expired: everything outstanding goes to `lost`, or the request is due again.
    pub(crate) fn time_out(&mut self, now: Instant, reactive: &Reactive, mut lost: impl FnMut(ByteRange)) {
        self.timer = None;
        self.timeouts += 1;
        self.rtt.back_off(&rto_bounds(reactive));
        if let State::Requesting(_) = self.state {
            self.state = State::Requesting(true);
            return;
        }
        let flight = self.flight();
        self.outstanding.drain(..).for_each(|sent| lost(sent.range()));
        self.settled_bytes = self.sent_bytes;
        self.congestion(now, Cause::Timeout, flight);
    }

    /// Nothing is outstanding any more: the receiver has everything.
    pub(crate) fn clear(&mut self) {
        self.outstanding.clear();
        self.settled_bytes = self.sent_bytes;
        if self.state != State::Requesting(false) {
            self.timer = None;
        }
        if self.state == State::ProbeDue {
            self.state = State::Over;
        }
    }

    /// Smoothed round-trip time; zero before the first sample.
    pub(crate) fn smoothed_rtt(&self) -> Span {
        self.rtt.smoothed()
    }

    /// Forgets the path.
    pub(crate) fn on_new_path(&mut self) {
        self.controller.on_idle();
    }

    /// The congestion controller.
    pub(crate) fn controller(&self) -> &C {
        &self.controller
    }

    /// The congestion controller, for reports that no acknowledgement of a window gives.
    pub(crate) fn controller_mut(&mut self) -> &mut C {
        &mut self.controller
    }
}
