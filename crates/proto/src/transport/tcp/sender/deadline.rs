//! A sender whose flow has a deadline: it needs a rate, and gives way beyond that.

use alloc::boxed::Box;
use core::convert::Infallible;

use super::TcpSender;
use crate::congestion::CongestionControl;
use crate::contract::deadline::{FlowDeadline, Need};
use crate::packet::{Packet, SackBlocks};
use crate::time::{Instant, Span};
use crate::transport::{Command, Deadline, Event, Statistics, Timer, Transport, WindowState};
use crate::units::Rate;

/// The state of the deadline.
enum Phase {
    /// The span counts from the first given byte.
    Waits(Span),
    Runs(FlowDeadline),
    /// There is none, or no longer one.
    Free,
}

struct Parts<C> {
    sender: TcpSender<C>,
    bytes: u64,
    max_rate: Option<Rate>,
    phase: Phase,
    /// When the flow will be done, if that is late and has not been reported yet.
    late: Option<Instant>,
}

/// The sender of one flow with a deadline, by which a known number of its bytes must be across. Its controller must take [a
/// needed rate](CongestionControl::set_needed_rate).
pub struct DeadlineSender<C>(Box<Parts<C>>);

impl<C: CongestionControl> DeadlineSender<C> {
    /// `sender`, of a flow of `bytes`. If there is a span, the flow must be done `span` after its first byte is given.
    /// It is limited to `max_rate`. A flow of unknown size has 0 bytes and no span until it is told otherwise.
    pub fn new(sender: TcpSender<C>, bytes: u64, span: Option<Span>, max_rate: Option<Rate>) -> Self {
        let phase = span.map_or(Phase::Free, Phase::Waits);
        Self(Box::new(Parts { sender, bytes, max_rate, phase, late: None }))
    }

    /// The sender inside.
    pub fn sender(&self) -> &TcpSender<C> {
        &self.0.sender
    }
}

impl<C: CongestionControl> Parts<C> {
    fn follow(&mut self, now: Instant) {
        let Phase::Runs(deadline) = &mut self.phase else { return };
        let across = self.sender.unacked().min(self.bytes);
        let controller = self.sender.controller_mut();
        if let Some(late) = deadline.observe(now, across, controller.normal_rate()) {
            self.late = Some(late.expected);
        }
        controller.set_needed_rate(match deadline.need(now, across) {
            Need::Nothing => Rate::default(),
            Need::AtLeast(rate) => rate,
            Need::Normal => Rate::from_bits_per_sec(u64::MAX),
        });
    }

    /// Sets the deadline to `span` from now; [`Span::MAX`] removes it.
    fn set_done_by(&mut self, now: Instant, span: Span) {
        if span == Span::MAX {
            self.phase = Phase::Free;
            self.sender.controller_mut().set_needed_rate(Rate::default());
        } else {
            let across = self.sender.unacked().min(self.bytes);
            self.phase = Phase::Runs(FlowDeadline::resumed(now, across, self.bytes, span, self.max_rate));
        }
    }
}

impl<C: CongestionControl> Transport for DeadlineSender<C> {
    type Request = Infallible;
    type Answer = Infallible;

    #[inline]
    fn handle_packet(&mut self, now: Instant, packet: &Packet, sack: &SackBlocks) {
        self.0.sender.handle_packet(now, packet, sack);
        self.0.follow(now);
    }

    fn handle_command(&mut self, now: Instant, command: Command) {
        let parts = &mut *self.0;
        match (&mut parts.phase, command) {
            (_, Command::SetDoneBy(span)) => parts.set_done_by(now, span),
            (phase, Command::SetSize(bytes)) => {
                parts.bytes = bytes;
                if let Phase::Runs(deadline) = phase {
                    deadline.set_bytes(bytes);
                }
            }
            (phase, Command::SetMaxRate(rate)) => {
                parts.max_rate = (rate != Rate::default()).then_some(rate);
                if let Phase::Runs(deadline) = phase {
                    deadline.set_max_rate(parts.max_rate);
                }
            }
            (&mut Phase::Waits(span), command) if command.bytes().is_some() => parts.set_done_by(now, span),
            _ => {}
        }
        parts.sender.handle_command(now, command);
        parts.follow(now);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.0.sender.handle_timeout(now);
        self.0.follow(now);
    }

    fn handle_new_path(&mut self, now: Instant) {
        self.0.sender.handle_new_path(now);
    }

    #[inline]
    fn poll_transmit(&mut self, now: Instant) -> Option<Packet> {
        self.0.sender.poll_transmit(now)
    }

    fn sack_blocks(&self) -> &SackBlocks {
        self.0.sender.sack_blocks()
    }

    fn poll_event(&mut self) -> Option<Event> {
        match self.0.late.take() {
            Some(expected) => Some(Event::WillBeLate { expected }),
            None => self.0.sender.poll_event(),
        }
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        let inner = self.0.sender.poll_timeout();
        let Phase::Runs(deadline) = &self.0.phase else { return inner };
        let done = self.0.sender.unacked() >= self.0.bytes;
        let own = deadline.next_at().filter(|_| !done).map(|at| Deadline { at, why: Timer::Policy });
        inner.into_iter().chain(own).min_by_key(|deadline| deadline.at)
    }

    fn send_space(&self) -> u64 {
        self.0.sender.send_space()
    }

    fn unsent(&self) -> u64 {
        self.0.sender.unsent()
    }

    fn statistics(&self) -> Statistics {
        let (done_by, said_late) = match &self.0.phase {
            Phase::Runs(deadline) => (Some(deadline.until()), deadline.said_late()),
            Phase::Waits(_) | Phase::Free => (None, None),
        };
        Statistics { done_by, said_late, ..self.0.sender.statistics() }
    }

    fn window_state(&self) -> Option<WindowState> {
        self.0.sender.window_state()
    }

    fn measures_gaps(&self) -> bool {
        self.0.sender.measures_gaps()
    }

    fn normal_rate(&self) -> Option<Rate> {
        self.0.sender.normal_rate()
    }
}
