//! The receiving side: ack vectors.

use alloc::sync::Arc;
use core::convert::Infallible;

use super::DccpConfig;
use crate::packet::{Body, ByteRange, DataFlags, Ecn, Packet, SackBlocks};
use crate::time::Instant;
use crate::transport::arrivals::Arrivals;
use crate::transport::tcp::MAX_STREAM;
use crate::transport::{Command, Deadline, Event, Statistics, Timer, Transport};

/// Most gaps remembered until lost data is given again.
const GAPS_MAX: usize = 1 << 16;

/// Receives one flow by DCCP.
pub struct DccpReceiver {
    config: Arc<DccpConfig>,
    pub(super) arrivals: Arrivals,
    /// Highest packet number so far.
    highest: u32,
    /// Bit `i`: packet `highest - 1 - i` has arrived.
    received: u64,
    /// Bit `i`: packet `highest - i` was marked.
    marked: u32,
    /// Packets that no acknowledgement has answered.
    unanswered: u16,
    ack_due: bool,
    ack_at: Option<Instant>,
    acks: u16,
    /// Where the stream ends; `u64::MAX` until it is known.
    end: u64,
    done: bool,
    marks: u64,
    any: bool,
}

impl DccpReceiver {
    /// A receiver that has seen nothing.
    pub fn new(config: Arc<DccpConfig>) -> Self {
        Self {
            config,
            arrivals: Arrivals::new(GAPS_MAX),
            highest: 0,
            received: 0,
            marked: 0,
            unanswered: 0,
            ack_due: false,
            ack_at: None,
            acks: 0,
            end: u64::MAX,
            done: false,
            marks: 0,
            any: false,
        }
    }

    /// Notes a packet number; whether a packet before it is missing.
    fn note(&mut self, number: u32, marked: bool) -> bool {
        let ahead = number.wrapping_sub(self.highest);
        if !self.any {
            (self.any, self.highest, self.marked) = (true, number, u32::from(marked));
            return number != 0;
        }
        if ahead == 0 || ahead > u32::MAX / 2 {
            let back = self.highest.wrapping_sub(number);
            if let Some(bit) = back.checked_sub(1).filter(|bit| *bit < u64::BITS) {
                self.received |= 1 << bit;
            }
            self.marked |= u32::from(marked).checked_shl(back).unwrap_or(0);
            return true;
        }
        self.received = self.received.checked_shl(ahead).unwrap_or(0) | 1u64.checked_shl(ahead - 1).unwrap_or(0);
        self.marked = self.marked.checked_shl(ahead).unwrap_or(0) | u32::from(marked);
        self.highest = number;
        ahead > 1
    }
}

impl Transport for DccpReceiver {
    type Request = Infallible;
    type Answer = Infallible;

    #[inline]
    fn handle_packet(&mut self, now: Instant, packet: &Packet, _sack: &SackBlocks) {
        let Body::Datagram { seq, number, ack_ratio, len, flags } = packet.body() else { return };
        let fin = flags.contains(DataFlags::FIN);
        let end = seq.checked_add(u64::from(len)).filter(|end| *end <= MAX_STREAM.min(self.end));
        let Some(end) = end.filter(|end| !fin || self.end == u64::MAX || self.end == *end) else { return };
        let marked = packet.traffic_class.ecn() == Ecn::Ce;
        self.marks += u64::from(marked);
        if fin {
            self.end = end;
        }
        self.arrivals.take(ByteRange::new(seq, end));
        let gap = self.note(number, marked);
        self.unanswered += 1;
        // Losses and marks, and the end, are told at once, as TCP tells them.
        self.ack_due |= gap || marked || fin || self.unanswered >= ack_ratio;
        self.ack_at.get_or_insert(now.after(self.config.max_ack_delay));
    }

    fn handle_command(&mut self, _now: Instant, _command: Command) {}

    fn handle_timeout(&mut self, now: Instant) {
        self.ack_due |= self.ack_at.is_some_and(|at| at <= now);
    }

    #[inline]
    fn poll_transmit(&mut self, _now: Instant) -> Option<Packet> {
        if !self.ack_due {
            return None;
        }
        (self.ack_due, self.ack_at, self.unanswered) = (false, None, 0);
        let count = self.acks;
        self.acks = count.wrapping_add(1);
        let body = Body::AckVector { number: self.highest, received: self.received, marked: self.marked, count };
        Some(Packet::new(self.config.ack_class.with_ecn(Ecn::NotEct), self.config.wire.wire_bytes(0), body))
    }

    #[inline]
    fn poll_event(&mut self) -> Option<Event> {
        if let Some(range) = self.arrivals.poll() {
            return Some(Event::Deliver(range));
        }
        if self.arrivals.unique_bytes() == self.end && !self.done {
            self.done = true;
            return Some(Event::Received);
        }
        None
    }

    #[inline]
    fn poll_timeout(&self) -> Option<Deadline> {
        Some(Deadline { at: self.ack_at?, why: Timer::DelayedAck })
    }

    fn statistics(&self) -> Statistics {
        Statistics { marks: self.marks, duplicate_bytes: self.arrivals.duplicate_bytes(), ..Statistics::default() }
    }
}
