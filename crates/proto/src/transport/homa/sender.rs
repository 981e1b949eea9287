//! The sending side.

use alloc::collections::VecDeque;
use alloc::sync::Arc;

use super::HomaConfig;
use crate::host::{HostAnswer, HostRequest};
use crate::packet::{Body, ByteRange, DataFlags, Packet, SackBlocks};
use crate::time::Instant;
use crate::transport::tcp::MAX_STREAM;
use crate::transport::{Command, Deadline, Event, Statistics, Timer, Transport};

/// Most ranges to be sent again that are remembered; a receiver asks for one at a time.
const AGAIN_MAX: usize = 64;

/// Sends one message by Homa.
pub struct HomaSender {
    config: Arc<HomaConfig>,
    size: u64,
    finish: bool,
    /// Next byte to send for the first time.
    next: u64,
    /// Bytes that may be sent, and the level for those beyond the unscheduled ones.
    granted: u64,
    level: u8,
    /// Requested again, each with its level.
    again: VecDeque<(ByteRange, u8)>,
    busy_due: bool,
    turn_asked: bool,
    turn: bool,
    /// When something was last sent or received, and how often the receiver was reminded since it answered.
    active_at: Instant,
    reminded: u32,
    heard: bool,
    done: bool,
    finished: bool,
    packets_sent: u64,
    bytes_sent: u64,
    retransmissions: u64,
    timeouts: u64,
}

impl HomaSender {
    /// A sender with nothing to send yet; `config` must pass [`HomaConfig::check`].
    pub fn new(config: Arc<HomaConfig>) -> Self {
        assert_eq!(config.check(), Ok(()), "configurations are checked when they are read");
        Self {
            config,
            size: 0,
            finish: false,
            next: 0,
            granted: 0,
            level: 0,
            again: VecDeque::new(),
            busy_due: false,
            turn_asked: false,
            turn: false,
            active_at: Instant::ZERO,
            reminded: 0,
            heard: false,
            done: false,
            finished: false,
            packets_sent: 0,
            bytes_sent: 0,
            retransmissions: 0,
            timeouts: 0,
        }
    }

    /// The end of what may be sent.
    fn limit(&self) -> u64 {
        self.granted.max(self.config.unscheduled(self.size))
    }

    /// An empty message is one empty packet.
    fn has_packet(&self) -> bool {
        !self.done
            && self.finish
            && (!self.again.is_empty() || self.next < self.limit() || self.size == 0 && self.packets_sent == 0)
    }

    /// Notes that the receiver answered.
    fn hear(&mut self, now: Instant) {
        (self.active_at, self.reminded, self.heard) = (now, 0, true);
    }

    fn handle_resend(&mut self, range: ByteRange, level: u8) {
        let end = range.end.min(self.size);
        // It has been granted, whether or not the grant arrived.
        if end > self.granted {
            (self.granted, self.level) = (end, level);
        }
        let lost = ByteRange::new(range.start, end.min(self.next));
        if lost.is_empty() {
            self.busy_due = true;
        } else if self.again.len() < AGAIN_MAX
            && self.again.iter().all(|(known, _)| known.start > lost.start || known.end <= lost.start)
        {
            self.again.push_back((lost, level));
        }
    }

    /// The next packet's bytes and level, and whether they were sent before.
    fn take_next(&mut self) -> (ByteRange, u8, bool) {
        let payload = u64::from(self.config.payload);
        if let Some((range, level)) = self.again.front_mut() {
            let first = ByteRange::new(range.start, range.end.min(range.start + payload));
            let level = *level;
            range.start = first.end;
            if range.is_empty() {
                self.again.pop_front();
            }
            return (first, level, true);
        }
        let unscheduled = self.config.unscheduled(self.size);
        let (limit, level) = if self.next < unscheduled {
            (unscheduled, self.config.levels.of_size(self.size))
        } else {
            (self.limit(), self.level)
        };
        let range = ByteRange::new(self.next, limit.min(self.next + payload));
        self.next = range.end;
        (range, level, false)
    }
}

impl Transport for HomaSender {
    type Request = HostRequest;
    type Answer = HostAnswer;

    #[inline]
    fn handle_packet(&mut self, now: Instant, packet: &Packet, _sack: &SackBlocks) {
        match packet.body() {
            Body::Grant { end, level } => {
                if end.min(self.size) > self.granted {
                    (self.granted, self.level) = (end.min(self.size), level);
                }
            }
            Body::Resend { range, level } => self.handle_resend(range, level),
            Body::Busy => {}
            Body::Done => self.done = self.finish,
            _ => return,
        }
        self.hear(now);
    }

    fn handle_command(&mut self, now: Instant, command: Command<HostAnswer>) {
        match command {
            Command::Finish => (self.finish, self.active_at) = (true, now),
            Command::Answer(HostAnswer::Turn) => (self.turn, self.turn_asked) = (true, false),
            _ => {
                if let Some(bytes) = command.bytes().filter(|_| !self.finish) {
                    self.size = self.size.saturating_add(bytes).min(MAX_STREAM);
                }
            }
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        if self.poll_timeout().is_none_or(|deadline| deadline.at > now) {
            return;
        }
        // The receiver knows nothing of the message, or its word that all has arrived was lost.
        self.timeouts += 1;
        self.reminded += 1;
        self.active_at = now;
        let start = if self.heard { self.next.saturating_sub(self.config.payload.into()) } else { 0 };
        let range = ByteRange::new(start, self.next.min(start + u64::from(self.config.payload)));
        let level = self.config.levels.of_size(self.size);
        if self.again.is_empty() {
            self.again.push_back((range, level));
        }
    }

    #[inline]
    fn poll_transmit(&mut self, now: Instant) -> Option<Packet> {
        if core::mem::take(&mut self.busy_due) {
            let wire_bytes = self.config.wire.wire_bytes(0);
            return Some(Packet::new(self.config.control_class, wire_bytes, Body::Busy));
        }
        if !core::mem::take(&mut self.turn) || !self.has_packet() {
            return None;
        }
        let (range, level, again) = self.take_next();
        self.active_at = now;
        self.packets_sent += 1;
        self.bytes_sent += range.len();
        self.retransmissions += u64::from(again);
        let (len, flags) = (range.len() as u16, DataFlags::NONE.with_if(DataFlags::RETRANSMISSION, again));
        let body = Body::HomaData { seq: range.start, size: self.size, len, flags };
        Some(Packet::new(self.config.class(level), self.config.wire.wire_bytes(len), body))
    }

    #[inline]
    fn poll_event(&mut self) -> Option<Event<HostRequest>> {
        if self.done && core::mem::take(&mut self.turn_asked) {
            return Some(Event::Ask(HostRequest::EndSendTurn));
        }
        if !self.turn_asked && !self.turn && self.has_packet() {
            self.turn_asked = true;
            let remaining = self.size - self.next;
            let bytes = self.config.wire.wire_bytes(self.config.payload.min(remaining.min(u64::from(u16::MAX)) as u16));
            return Some(Event::Ask(HostRequest::SendTurn { remaining, bytes }));
        }
        if !self.done || self.finished {
            return None;
        }
        if self.size > 0 {
            return Some(Event::Release(ByteRange::new(0, core::mem::take(&mut self.size))));
        }
        self.finished = true;
        Some(Event::Finished)
    }

    #[inline]
    fn poll_timeout(&self) -> Option<Deadline> {
        // Once the receiver knows of the message, it is the receiver who asks, but for the last word.
        let waits =
            self.packets_sent > 0 && !self.done && !self.has_packet() && (!self.heard || self.next == self.size);
        // Later than the receiver, who knows what is missing.
        let at = self.active_at.after(self.config.resend_after(self.reminded).times(2));
        waits.then_some(Deadline { at, why: Timer::Retransmit })
    }

    fn statistics(&self) -> Statistics {
        Statistics {
            packets_sent: self.packets_sent,
            bytes_sent: self.bytes_sent,
            retransmissions: self.retransmissions,
            timeouts: self.timeouts,
            ..Statistics::default()
        }
    }
}
