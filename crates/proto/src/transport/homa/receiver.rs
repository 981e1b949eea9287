//! The receiving side.

use alloc::collections::VecDeque;
use alloc::sync::Arc;

use super::HomaConfig;
use crate::host::{HostAnswer, HostRequest};
use crate::packet::{Body, ByteRange, DataFlags, Packet, SackBlocks};
use crate::recovery::delivery::InOrderDelivery;
use crate::time::Instant;
use crate::transport::tcp::MAX_STREAM;
use crate::transport::{Command, Deadline, Event, Statistics, Timer, Transport};

/// Control packets kept for the next poll; a driver polls after every input, so more never wait.
const QUEUE_MAX: usize = 16;

/// Receives one message by Homa.
pub struct HomaReceiver {
    config: Arc<HomaConfig>,
    /// `None` until a packet has given it.
    size: Option<u64>,
    stream: InOrderDelivery,
    /// Different bytes that have arrived.
    arrived: u64,
    granted: u64,
    level: u8,
    /// News for the host: how to grant, or that more bytes have arrived.
    policy_due: bool,
    report_due: bool,
    control: VecDeque<Body>,
    /// When data, or news of it, came last, and how often it was requested since.
    active_at: Instant,
    asked: u32,
    duplicate_bytes: u64,
    grants_sent: u64,
}

impl HomaReceiver {
    /// A receiver that has seen nothing.
    pub fn new(config: Arc<HomaConfig>) -> Self {
        Self {
            config,
            size: None,
            stream: InOrderDelivery::new(),
            arrived: 0,
            granted: 0,
            level: 0,
            policy_due: true,
            report_due: false,
            control: VecDeque::new(),
            active_at: Instant::ZERO,
            asked: 0,
            duplicate_bytes: 0,
            grants_sent: 0,
        }
    }

    fn say(&mut self, body: Body) {
        if self.control.len() < QUEUE_MAX {
            self.control.push_back(body);
        }
    }

    /// Data that was allowed and has not arrived, up to the first byte that has; empty if nothing is missing.
    fn first_gap(&self) -> ByteRange {
        let Some(size) = self.size else { return ByteRange::default() };
        let expected = self.granted.max(self.config.unscheduled(size));
        let held = self.stream.first_held().map_or(expected, |held| held.start);
        ByteRange::new(self.stream.next(), held.min(expected))
    }
}

impl Transport for HomaReceiver {
    type Request = HostRequest;
    type Answer = HostAnswer;

    #[inline]
    fn handle_packet(&mut self, now: Instant, packet: &Packet, _sack: &SackBlocks) {
        match packet.body() {
            Body::HomaData { seq, size, len, flags } => {
                let end = seq.checked_add(u64::from(len)).filter(|end| *end <= size && size <= MAX_STREAM);
                let Some(end) = end.filter(|_| self.size.is_none_or(|known| known == size)) else { return };
                if self.stream.is_complete() {
                    // The word that all has arrived was lost.
                    return self.say(Body::Done);
                }
                self.size = Some(size);
                self.stream.set_end(size);
                let Some(taken) = self.stream.take(ByteRange::new(seq, end)) else { return };
                self.arrived += taken.fresh;
                self.duplicate_bytes += taken.duplicate;
                (self.active_at, self.asked) = (now, 0);
                self.report_due = self.granted.max(self.config.unscheduled(size)) < size;
                if self.stream.is_complete() {
                    self.say(Body::Done);
                } else if flags.contains(DataFlags::RETRANSMISSION) && taken.fresh == 0 {
                    self.say(Body::Busy);
                }
            }
            Body::Busy => (self.active_at, self.asked) = (now, 0),
            _ => {}
        }
    }

    fn handle_command(&mut self, _now: Instant, command: Command<HostAnswer>) {
        if let Command::Answer(HostAnswer::Grant { end, level }) = command {
            (self.granted, self.level) = (self.granted.max(end), level);
            self.grants_sent += 1;
            self.say(Body::Grant { end, level });
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        if self.poll_timeout().is_none_or(|deadline| deadline.at > now) {
            return;
        }
        self.active_at = now;
        self.asked += 1;
        let (range, level) = (self.first_gap(), self.level);
        self.say(Body::Resend { range, level });
    }

    #[inline]
    fn poll_transmit(&mut self, _now: Instant) -> Option<Packet> {
        let body = self.control.pop_front()?;
        Some(Packet::new(self.config.control_class, self.config.wire.wire_bytes(0), body))
    }

    #[inline]
    fn poll_event(&mut self) -> Option<Event<HostRequest>> {
        if core::mem::take(&mut self.report_due)
            && let Some(size) = self.size
        {
            if core::mem::take(&mut self.policy_due) {
                self.report_due = true;
                return Some(Event::Ask(HostRequest::GrantBy(self.config.policy())));
            }
            return Some(Event::Ask(HostRequest::Grants { size, arrived: self.arrived }));
        }
        self.stream.poll_event()
    }

    #[inline]
    fn poll_timeout(&self) -> Option<Deadline> {
        let at = self.active_at.after(self.config.resend_after(self.asked));
        (!self.stream.is_complete() && !self.first_gap().is_empty())
            .then_some(Deadline { at, why: Timer::LossDetection })
    }

    fn statistics(&self) -> Statistics {
        Statistics { duplicate_bytes: self.duplicate_bytes, credits_sent: self.grants_sent, ..Statistics::default() }
    }
}
