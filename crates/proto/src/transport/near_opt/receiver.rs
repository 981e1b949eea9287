//! The receiving side.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::convert::Infallible;

use super::NearOptConfig;
use crate::packet::{AckFlags, Body, ByteRange, DataFlags, Ecn, Packet, SackBlocks, WINDOW_UNLIMITED};
use crate::recovery::delivery::InOrderDelivery;
use crate::time::Instant;
use crate::transport::tcp::MAX_STREAM;
use crate::transport::{Command, Deadline, Event, Statistics, Transport};

/// Acknowledgements kept for the next poll; a driver polls after every packet, so more never wait.
const QUEUE_MAX: usize = 64;

/// Receives one flow and acknowledges every packet at once: all bytes so far, and when this packet was sent.
pub struct NearOptReceiver {
    config: Arc<NearOptConfig>,
    stream: InOrderDelivery,
    /// When the packets were sent for which acknowledgements are due.
    due: VecDeque<Instant>,
    marks: u64,
    duplicate_bytes: u64,
}

impl NearOptReceiver {
    /// A receiver that has seen nothing.
    pub fn new(config: Arc<NearOptConfig>) -> Self {
        Self { config, stream: InOrderDelivery::new(), due: VecDeque::new(), marks: 0, duplicate_bytes: 0 }
    }

    /// Takes the bytes of a packet; false if there is no room for them.
    fn take(&mut self, range: ByteRange) -> bool {
        let taken = self.stream.take(range);
        self.duplicate_bytes += taken.map_or(0, |taken| taken.duplicate);
        taken.is_some()
    }
}

impl Transport for NearOptReceiver {
    type Request = Infallible;
    type Answer = Infallible;

    #[inline]
    fn handle_packet(&mut self, _now: Instant, packet: &Packet, _sack: &SackBlocks) {
        let Body::Data { seq, sent_at, len, flags } = packet.body() else { return };
        let Some(end) = seq.checked_add(u64::from(len)).filter(|end| *end <= MAX_STREAM) else { return };
        let fin = flags.contains(DataFlags::FIN);
        let (highest, known) = (self.stream.highest(), self.stream.end());
        let plausible = if fin { end >= highest && (known == u64::MAX || known == end) } else { end <= known };
        if !plausible || self.due.len() == QUEUE_MAX || !self.take(ByteRange::new(seq, end)) {
            return;
        }
        if fin {
            self.stream.set_end(end);
        }
        self.marks += u64::from(packet.traffic_class.ecn() == Ecn::Ce);
        self.due.push_back(sent_at);
    }

    fn handle_command(&mut self, _now: Instant, _command: Command) {}

    fn handle_timeout(&mut self, _now: Instant) {}

    #[inline]
    fn poll_transmit(&mut self, _now: Instant) -> Option<Packet> {
        let echo = Some(self.due.pop_front()?);
        let body = Body::Ack { ack: self.stream.ack(), echo, window: WINDOW_UNLIMITED, flags: AckFlags::NONE };
        Some(Packet::new(self.config.ack_class.with_ecn(Ecn::NotEct), self.config.wire.wire_bytes(0), body))
    }

    #[inline]
    fn poll_event(&mut self) -> Option<Event> {
        self.stream.poll_event()
    }

    #[inline]
    fn poll_timeout(&self) -> Option<Deadline> {
        None
    }

    fn statistics(&self) -> Statistics {
        Statistics { marks: self.marks, duplicate_bytes: self.duplicate_bytes, ..Statistics::default() }
    }
}
