//! The receiver's end for one source.

use alloc::collections::VecDeque;
use alloc::sync::Arc;

use super::{ScdpConfig, ScdpObject};
use crate::host::{HostAnswer, HostRequest};
use crate::packet::{Body, ByteRange, Ecn, Packet, PulledFlags, SackBlocks};
use crate::recovery::reassembly::Reassembly;
use crate::time::Instant;
use crate::transport::ndp::Pulls;
use crate::transport::tcp::MAX_STREAM;
use crate::transport::{Command, Deadline, Event, Statistics, Transport};

/// Answers kept for the next poll; a driver polls after every packet, so more never wait.
const QUEUE_MAX: usize = 64;

/// Receives the symbols of one source of an object.
pub struct ScdpReceiver {
    config: Arc<ScdpConfig>,
    object: Arc<ScdpObject>,
    pulls: Pulls,
    /// Symbols that arrived, whole or trimmed: below `next` and in `seen`. In units of a source's symbols.
    next: u64,
    seen: Reassembly,
    slots: u64,
    /// Symbols to be answered: number, when they were sent, whether only the header came.
    answers: VecDeque<(u64, Instant, bool)>,
    joined: bool,
    complete: bool,
    /// A symbol from here completed the object.
    completed: bool,
    told: bool,
    received: bool,
    /// Bytes of the object that symbols from here stood for and that were reported to the application.
    delivered: u64,
    given: u64,
    symbols: u64,
    excess: u64,
}

impl ScdpReceiver {
    /// An end for one of `slots` sources of `object`.
    pub fn new(config: Arc<ScdpConfig>, object: Arc<ScdpObject>, slots: u32) -> Self {
        Self {
            config,
            object,
            pulls: Pulls::default(),
            next: 0,
            seen: Reassembly::default(),
            slots: slots.into(),
            answers: VecDeque::new(),
            joined: false,
            complete: false,
            completed: false,
            told: false,
            received: false,
            delivered: 0,
            given: 0,
            symbols: 0,
            excess: 0,
        }
    }

    /// Notes a symbol; false if it arrived before.
    fn is_new(&mut self, number: u64) -> bool {
        let index = number / self.slots;
        if index < self.next {
            return false;
        }
        if index == self.next && self.seen.is_empty() {
            self.next += 1;
            return true;
        }
        let new = self.seen.insert(ByteRange::new(index, index + 1)).is_some_and(|(duplicates, _)| duplicates == 0);
        self.next = self.seen.take_in_order(self.next);
        new
    }

    fn end(&mut self) {
        self.complete = true;
        self.pulls.stop();
    }
}

impl Transport for ScdpReceiver {
    type Request = HostRequest;
    type Answer = HostAnswer;

    #[inline]
    fn handle_packet(&mut self, _now: Instant, packet: &Packet, _sack: &SackBlocks) {
        let Body::Pulled { seq: number, sent_at, flags, .. } = packet.body() else { return };
        if number > MAX_STREAM || self.answers.len() == QUEUE_MAX {
            return;
        }
        let trimmed = flags.contains(PulledFlags::TRIMMED);
        self.answers.push_back((number, sent_at, trimmed));
        let mut complete = self.object.is_complete();
        if self.is_new(number) && !trimmed {
            self.symbols += 1;
            self.excess += u64::from(complete);
            self.delivered += self.object.take(number);
            self.completed |= !complete && self.object.is_complete();
            complete = self.object.is_complete();
        }
        if complete {
            self.end();
        } else {
            self.pulls.owe();
        }
    }

    fn handle_command(&mut self, _now: Instant, command: Command<HostAnswer>) {
        match command {
            Command::Answer(HostAnswer::Turn) => self.pulls.on_turn(),
            // Another source's symbol was the last one needed: this source is told.
            Command::Answer(HostAnswer::ObjectComplete) => {
                self.told = true;
                self.end();
                self.answers.push_back((u64::MAX, Instant::ZERO, false));
            }
            _ => {}
        }
    }

    fn handle_timeout(&mut self, _now: Instant) {}

    #[inline]
    fn poll_transmit(&mut self, _now: Instant) -> Option<Packet> {
        let body = match self.answers.pop_front() {
            Some((seq, echo, trimmed)) => Body::PulledAck { seq, echo, trimmed, complete: self.complete },
            None => self.pulls.poll()?,
        };
        Some(Packet::new(self.config.control_class.with_ecn(Ecn::NotEct), self.config.wire.wire_bytes(0), body))
    }

    #[inline]
    fn poll_event(&mut self) -> Option<Event<HostRequest>> {
        if self.given < self.delivered {
            let range = ByteRange::new(self.given, self.delivered);
            self.given = self.delivered;
            return Some(Event::Deliver(range));
        }
        let shared_as = self.object.shared_as;
        if let Some(object) = shared_as {
            if !self.joined {
                self.joined = true;
                return Some(Event::Ask(HostRequest::JoinObject { object }));
            }
            if self.complete && !self.told {
                self.told = true;
                return Some(Event::Ask(HostRequest::CompleteObject { object }));
            }
        }
        if let Some(request) = self.pulls.poll_request(self.config.wire.wire_bytes(self.config.symbol)) {
            return Some(Event::Ask(request));
        }
        if self.complete && !self.received {
            self.received = true;
            return Some(Event::Received);
        }
        None
    }

    #[inline]
    fn poll_timeout(&self) -> Option<Deadline> {
        None
    }

    fn statistics(&self) -> Statistics {
        let symbol = u64::from(self.config.symbol);
        let decoded = self.object.was_decoded();
        Statistics {
            duplicate_bytes: self.excess * symbol,
            credits_sent: self.pulls.sent().into(),
            symbols: self.symbols,
            excess_symbols: self.excess,
            // The object is one block, which one of its ends tells of.
            decoded_blocks: u32::from(self.completed && decoded),
            whole_blocks: u32::from(self.completed && !decoded),
            ..Statistics::default()
        }
    }
}
