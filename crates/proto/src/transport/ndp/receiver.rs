//! The receiving side.

use alloc::collections::VecDeque;
use alloc::sync::Arc;

use super::NdpConfig;
use crate::host::{HostAnswer, HostRequest};
use crate::packet::{Body, ByteRange, Ecn, Packet, PulledFlags, SackBlocks};
use crate::recovery::delivery::InOrderDelivery;
use crate::time::Instant;
use crate::transport::tcp::MAX_STREAM;
use crate::transport::{Command, Deadline, Event, Statistics, Transport};

/// Answers kept for the next poll; a driver polls after every packet, so more never wait.
const QUEUE_MAX: usize = 64;

/// Pulls of one flow: how many are owed, and whether a turn was requested.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::transport) struct Pulls {
    owed: u32,
    sent: u32,
    due: bool,
    asked: bool,
    /// A requested turn is no longer needed.
    withdraw: bool,
}

impl Pulls {
    /// A packet or a header has arrived: one more packet may follow.
    #[inline]
    pub(in crate::transport) fn owe(&mut self) {
        self.owed += 1;
    }

    /// Nothing more is needed.
    pub(in crate::transport) fn stop(&mut self) {
        (self.owed, self.due) = (0, false);
        self.withdraw = self.asked;
    }

    /// The host gives a turn.
    #[inline]
    pub(in crate::transport) fn on_turn(&mut self) {
        self.asked = false;
        self.withdraw = false;
        if self.owed > 0 {
            self.owed -= 1;
            self.due = true;
        }
    }

    /// The pull to send now, if any.
    #[inline]
    pub(in crate::transport) fn poll(&mut self) -> Option<Body> {
        if !core::mem::take(&mut self.due) {
            return None;
        }
        self.sent = self.sent.wrapping_add(1);
        Some(Body::Pull { count: self.sent })
    }

    /// Pulls sent so far.
    pub(in crate::transport) fn sent(&self) -> u32 {
        self.sent
    }

    /// The request to the host, if any. A turn lasts `bytes` on the wire.
    #[inline]
    pub(in crate::transport) fn poll_request(&mut self, bytes: u16) -> Option<HostRequest> {
        if core::mem::take(&mut self.withdraw) {
            self.asked = false;
            return Some(HostRequest::EndPullTurn);
        }
        if self.owed == 0 || self.asked {
            return None;
        }
        self.asked = true;
        Some(HostRequest::PullTurn { bytes })
    }
}

/// Receives one flow by NDP.
pub struct NdpReceiver {
    config: Arc<NdpConfig>,
    pulls: Pulls,
    stream: InOrderDelivery,
    /// Packets to be answered: first byte, when they were sent, whether only the header came.
    answers: VecDeque<(u64, Instant, bool)>,
    duplicate_bytes: u64,
}

impl NdpReceiver {
    /// A receiver that has seen nothing.
    pub fn new(config: Arc<NdpConfig>) -> Self {
        Self {
            config,
            pulls: Pulls::default(),
            stream: InOrderDelivery::new(),
            answers: VecDeque::new(),
            duplicate_bytes: 0,
        }
    }

    /// Takes the bytes of a packet; false if there is no room for them.
    fn take(&mut self, range: ByteRange) -> bool {
        let taken = self.stream.take(range);
        self.duplicate_bytes += taken.map_or(0, |taken| taken.duplicate);
        taken.is_some()
    }
}

impl Transport for NdpReceiver {
    type Request = HostRequest;
    type Answer = HostAnswer;

    #[inline]
    fn handle_packet(&mut self, _now: Instant, packet: &Packet, _sack: &SackBlocks) {
        let Body::Pulled { seq, sent_at, len, flags } = packet.body() else { return };
        let Some(end) = seq.checked_add(u64::from(len)).filter(|end| *end <= MAX_STREAM) else { return };
        let (fin, trimmed) = (flags.contains(PulledFlags::FIN), flags.contains(PulledFlags::TRIMMED));
        let (highest, known) = (self.stream.highest(), self.stream.end());
        let plausible = if fin { end >= highest && (known == u64::MAX || known == end) } else { end <= known };
        if !plausible || self.answers.len() == QUEUE_MAX || !trimmed && !self.take(ByteRange::new(seq, end)) {
            return;
        }
        if fin {
            self.stream.set_end(end);
        }
        self.answers.push_back((seq, sent_at, trimmed));
        if self.stream.is_complete() {
            self.pulls.stop();
        } else {
            self.pulls.owe();
        }
    }

    fn handle_command(&mut self, _now: Instant, command: Command<HostAnswer>) {
        if command == Command::Answer(HostAnswer::Turn) {
            self.pulls.on_turn();
        }
    }

    fn handle_timeout(&mut self, _now: Instant) {}

    #[inline]
    fn poll_transmit(&mut self, _now: Instant) -> Option<Packet> {
        let body = match self.answers.pop_front() {
            Some((seq, echo, trimmed)) => Body::PulledAck { seq, echo, trimmed, complete: self.stream.is_complete() },
            None => self.pulls.poll()?,
        };
        Some(Packet::new(self.config.control_class.with_ecn(Ecn::NotEct), self.config.wire.wire_bytes(0), body))
    }

    #[inline]
    fn poll_event(&mut self) -> Option<Event<HostRequest>> {
        let request = self.pulls.poll_request(self.config.wire.wire_bytes(self.config.payload));
        request.map(Event::Ask).or_else(|| self.stream.poll_event())
    }

    #[inline]
    fn poll_timeout(&self) -> Option<Deadline> {
        None
    }

    fn statistics(&self) -> Statistics {
        Statistics {
            duplicate_bytes: self.duplicate_bytes,
            credits_sent: self.pulls.sent().into(),
            ..Statistics::default()
        }
    }
}
