//! The receiving side.

use alloc::collections::VecDeque;
use alloc::sync::Arc;

use super::NearOptConfig;
use crate::packet::{Body, ByteRange, Ecn, Flags, Packet, SackBlocks, WINDOW_UNLIMITED};
use crate::recovery::reassembly::Reassembly;
use crate::time::Instant;
use crate::transport::tcp::MAX_STREAM;
use crate::transport::{Command, Deadline, Event, Statistics, Transport};

/// Acknowledgements kept for the next poll; a driver polls after every packet, so more never wait.
const QUEUE_MAX: usize = 64;

/// Receives one flow and acknowledges every packet at once: all bytes so far, and when this packet was sent.
pub struct NearOptReceiver {
    config: Arc<NearOptConfig>,
    /// Next byte expected; FIN does not count.
    next: u64,
    delivered: u64,
    /// Number of FIN, `u64::MAX` until it is known.
    fin: u64,
    received: bool,
    reassembly: Reassembly,
    /// When the packets were sent that acknowledgements are due for.
    due: VecDeque<Instant>,
    marks: u64,
    duplicate_bytes: u64,
}

impl NearOptReceiver {
    /// A receiver that has seen nothing.
    pub fn new(config: Arc<NearOptConfig>) -> Self {
        Self {
            config,
            next: 0,
            delivered: 0,
            fin: u64::MAX,
            received: false,
            reassembly: Reassembly::default(),
            due: VecDeque::new(),
            marks: 0,
            duplicate_bytes: 0,
        }
    }

    /// Takes the bytes of a packet; false if there is no room for them.
    fn take(&mut self, range: ByteRange) -> bool {
        let old = ByteRange::new(range.start, range.end.min(self.next));
        self.duplicate_bytes += old.len();
        let fresh = ByteRange::new(range.start.max(self.next), range.end);
        if fresh.is_empty() {
            return true;
        }
        if fresh.start == self.next && self.reassembly.is_empty() {
            self.next = fresh.end;
            return true;
        }
        let Some((duplicate_bytes, _)) = self.reassembly.insert(fresh) else { return false };
        self.duplicate_bytes += duplicate_bytes;
        self.next = self.reassembly.take_in_order(self.next);
        true
    }
}

impl Transport for NearOptReceiver {
    #[inline]
    fn handle_packet(&mut self, _now: Instant, packet: &Packet, _sack: &SackBlocks) {
        let Body::Data { seq, sent_at, len, flags } = packet.body() else { return };
        let Some(end) = seq.checked_add(u64::from(len)).filter(|end| *end <= MAX_STREAM) else { return };
        let fin = flags.contains(Flags::FIN);
        let highest = self.reassembly.highest().max(self.next);
        let plausible = if fin { end >= highest && (self.fin == u64::MAX || self.fin == end) } else { end <= self.fin };
        if !plausible || self.due.len() == QUEUE_MAX || !self.take(ByteRange::new(seq, end)) {
            return;
        }
        if fin {
            self.fin = end;
        }
        self.marks += u64::from(packet.traffic_class.ecn() == Ecn::Ce);
        self.due.push_back(sent_at);
    }

    fn handle_command(&mut self, _now: Instant, _command: Command) {}

    fn handle_timeout(&mut self, _now: Instant) {}

    #[inline]
    fn poll_transmit(&mut self, _now: Instant) -> Option<Packet> {
        let echo = Some(self.due.pop_front()?);
        let ack = self.next + u64::from(self.next == self.fin);
        let body = Body::Ack { ack, echo, window: WINDOW_UNLIMITED, flags: Flags::NONE };
        Some(Packet::new(self.config.ack_class.with_ecn(Ecn::NotEct), self.config.wire.wire_bytes(0), body))
    }

    #[inline]
    fn poll_event(&mut self) -> Option<Event> {
        if self.delivered < self.next {
            let range = ByteRange::new(self.delivered, self.next);
            self.delivered = self.next;
            return Some(Event::Deliver(range));
        }
        if self.next == self.fin && !self.received {
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
        Statistics { marks: self.marks, duplicate_bytes: self.duplicate_bytes, ..Statistics::default() }
    }
}
