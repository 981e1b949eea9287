//! The sender's side of a flow's credits: requests, stops and their timers.

use super::config::CreditConfig;
use crate::packet::{Body, DataFlags, Packet};
use crate::time::{Instant, Span};

/// The state of a sender's credits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    /// Wants none.
    Closed,
    /// Has asked for some.
    Requested,
    /// Gets them.
    Receiving,
    /// Has asked for no more and waits for the answer.
    Stopped,
}

/// Asks for credits and for their end.
pub(crate) struct Requester {
    phase: Phase,
    /// The request or stop must be sent now.
    message_due: bool,
    /// Repeats the last message. While credits arrive, asks again if none does.
    timer: Option<Instant>,
    /// Requests since credits stopped coming, at most 64; zero while they come, and before the first.
    repetitions: u8,
    /// When credits were asked for the first time.
    requested_at: Option<Instant>,
    /// Time from then to the first credit; zero before. A repeated request makes it too long, never too short.
    rtt: Span,
    wasted: u64,
    /// Credits since `round_began`, and those of the round trip before.
    round: u32,
    last_round: u32,
    round_began: Instant,
}

impl Requester {
    pub(crate) fn new() -> Self {
        Self {
            phase: Phase::Closed,
            message_due: false,
            timer: None,
            repetitions: 0,
            requested_at: None,
            rtt: Span::ZERO,
            wasted: 0,
            round: 0,
            last_round: 0,
            round_began: Instant::ZERO,
        }
    }

    pub(crate) fn phase(&self) -> Phase {
        self.phase
    }

    /// When to call [`handle_timeout`](Self::handle_timeout).
    pub(crate) fn timer(&self) -> Option<Instant> {
        self.timer
    }

    /// Credits that were not used.
    pub(crate) fn wasted(&self) -> u64 {
        self.wasted
    }

    /// Credits that came in the last whole round trip; zero before the first.
    pub(crate) fn credits_per_round_trip(&self) -> u32 {
        self.last_round
    }

    /// There is data: asks for credits, unless it has asked.
    pub(crate) fn request(&mut self) {
        if matches!(self.phase, Phase::Closed | Phase::Stopped) {
            self.request_anew();
        }
    }

    /// Asks again, whatever was asked before, because something was lost.
    pub(crate) fn request_anew(&mut self) {
        self.phase = Phase::Requested;
        self.message_due = true;
    }

    /// A credit arrived; `used` if data was sent on it.
    #[inline]
    pub(crate) fn on_credit(&mut self, now: Instant, config: &CreditConfig, used: bool) {
        self.wasted += u64::from(!used);
        self.round += 1;
        if self.rtt > Span::ZERO && now.since(self.round_began) >= self.rtt {
            (self.last_round, self.round, self.round_began) = (self.round, 0, now);
        }
        self.repetitions = 0;
        match self.phase {
            Phase::Requested => {
                if self.rtt == Span::ZERO {
                    self.rtt = now.since(self.requested_at.unwrap_or(now));
                    (self.round, self.round_began) = (1, now);
                }
                self.phase = Phase::Receiving;
                self.message_due = false;
                self.timer = Some(now.after(config.recovery_timeout));
            }
            Phase::Receiving => self.timer = Some(now.after(config.recovery_timeout)),
            // A request that came late has opened what was closed.
            Phase::Closed => self.stop_again(),
            Phase::Stopped => {}
        }
    }

    /// Everything was sent: asks for no more credits, once.
    pub(crate) fn stop(&mut self) {
        if matches!(self.phase, Phase::Requested | Phase::Receiving) {
            self.stop_again();
        }
    }

    /// Repeats a stop with what has changed since.
    pub(crate) fn stop_again(&mut self) {
        self.phase = Phase::Stopped;
        self.repetitions = 0;
        self.message_due = true;
    }

    /// The receiver has answered the stop.
    pub(crate) fn on_stopped(&mut self) {
        if self.phase == Phase::Stopped {
            self.phase = Phase::Closed;
            self.message_due = false;
            self.timer = None;
        }
    }

    /// The message that is due, if any: `backlog` bytes wait, and the stream ends at `end`, finally if `fin`.
    #[inline]
    pub(crate) fn poll(
        &mut self,
        now: Instant,
        config: &CreditConfig,
        backlog: u64,
        end: u64,
        fin: bool,
    ) -> Option<Packet> {
        if !self.message_due {
            return None;
        }
        self.message_due = false;
        let body = match self.phase {
            Phase::Requested => {
                self.requested_at.get_or_insert(now);
                self.timer = Some(now.after(self.until_repetition(config)));
                Body::CreditRequest { sent_at: now, backlog }
            }
            Phase::Stopped => {
                let timeout = if self.rtt == Span::ZERO { config.stop_timeout } else { self.rtt.times(2) };
                self.timer = Some(now.after(timeout));
                Body::CreditStop { end, flags: DataFlags::NONE.with_if(DataFlags::FIN, fin) }
            }
            Phase::Closed | Phase::Receiving => return None,
        };
        Some(Packet::new(config.data_class, config.control_bytes(), body))
    }

    /// How long to wait for an answer to the request sent now. A flow that had credits before may only have slow ones.
    /// Requests at a fixed pace would then take more of the network than the data.
    fn until_repetition(&mut self, config: &CreditConfig) -> Span {
        let doublings = u32::from(self.repetitions.saturating_sub(1));
        if self.repetitions > 0 {
            self.repetitions = (self.repetitions + 1).min(64);
        }
        let longest = config.recovery_timeout.max(config.request_timeout);
        config.request_timeout.times(1 << doublings).min(longest)
    }

    /// The timer may have expired: repeats the last message, or asks again because credits stopped.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        if self.timer.is_none_or(|at| at > now) {
            return;
        }
        self.timer = None;
        match self.phase {
            Phase::Requested | Phase::Stopped => self.message_due = true,
            Phase::Receiving => {
                self.repetitions = 1;
                self.request_anew();
            }
            Phase::Closed => {}
        }
    }
}
