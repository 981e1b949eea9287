//! The sending side of ExpressPass: one packet per credit.

use alloc::sync::Arc;
use core::convert::Infallible;

use super::config::CreditConfig;
use super::requester::{Phase, Requester};
use crate::packet::{Body, ByteRange, CreditStamp, DataFlags, Packet, SackBlocks};
use crate::time::Instant;
use crate::transport::tcp::MAX_STREAM;
use crate::transport::{Command, Deadline, Event, Statistics, Timer, Transport};

/// Sends one flow by ExpressPass.
pub struct ExpressPassSender {
    config: Arc<CreditConfig>,
    requester: Requester,
    /// Bytes the application has given.
    written: u64,
    /// Next byte to send.
    next: u64,
    /// One past the highest byte sent.
    highest: u64,
    /// Everything below has arrived.
    acked: u64,
    released: u64,
    /// The credit that the next poll uses.
    credit: Option<CreditStamp>,
    number: u32,
    finish: bool,
    /// `next` when the last stop was sent. What follows was sent on credits that were already on their way.
    stopped_at: u64,
    /// The receiver has confirmed the end of the stream.
    confirmed: bool,
    finished: bool,
    bytes_sent: u64,
    retransmissions: u64,
}

impl ExpressPassSender {
    /// A sender with nothing to send yet; `config` must pass [`CreditConfig::check`].
    pub fn new(config: Arc<CreditConfig>) -> Self {
        assert_eq!(config.check(), Ok(()), "configurations are checked when they are read");
        Self {
            config,
            requester: Requester::new(),
            written: 0,
            next: 0,
            highest: 0,
            acked: 0,
            released: 0,
            credit: None,
            number: 0,
            finish: false,
            stopped_at: 0,
            confirmed: false,
            finished: false,
            bytes_sent: 0,
            retransmissions: 0,
        }
    }

    /// Whether the credits that are under way should do.
    #[inline]
    fn is_covered(&self) -> bool {
        let left = (self.written - self.next).div_ceil(u64::from(self.config.mss));
        left == 0 || self.config.early_stop && left <= u64::from(self.requester.credits_per_round_trip())
    }

    /// The receiver tells the next byte it expects, one more once it has the end of the stream.
    fn handle_ack(&mut self, ack: u64) {
        let end = self.written + u64::from(self.finish);
        if ack < self.acked || ack > if self.highest == self.written { end } else { self.highest } {
            return;
        }
        self.acked = ack.min(self.written);
        self.next = self.next.max(self.acked);
        if ack == end && self.requester.phase() == Phase::Stopped {
            self.confirmed |= self.finish;
            self.requester.on_stopped();
        } else if ack == end {
            self.requester.stop();
        } else if ack < self.next {
            if self.requester.phase() == Phase::Stopped && ack >= self.stopped_at {
                // Still on its way.
                return;
            }
            self.next = ack;
            self.requester.request();
        }
    }
}

impl Transport for ExpressPassSender {
    type Request = Infallible;
    type Answer = Infallible;

    #[inline]
    fn handle_packet(&mut self, now: Instant, packet: &Packet, _sack: &SackBlocks) {
        match packet.body() {
            Body::Credit(credit) => {
                let used = self.next < self.written;
                self.requester.on_credit(now, &self.config, used);
                self.credit = used.then_some(credit);
            }
            Body::Ack { ack, .. } => self.handle_ack(ack),
            _ => {}
        }
    }

    fn handle_command(&mut self, _now: Instant, command: Command) {
        match command {
            Command::Send { bytes } if !self.finish && bytes > 0 => {
                self.written = self.written.saturating_add(bytes).min(MAX_STREAM);
                self.requester.request();
            }
            Command::Finish if !self.finish => {
                self.finish = true;
                if self.next == self.written {
                    self.requester.stop_again();
                }
            }
            _ => {}
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        let expired = self.requester.timer().is_some_and(|at| at <= now);
        self.requester.handle_timeout(now);
        if expired && self.requester.phase() == Phase::Stopped && self.next < self.written {
            // It had stopped early, and credits that were to come were lost.
            self.requester.request_anew();
        }
    }

    #[inline]
    fn poll_transmit(&mut self, now: Instant) -> Option<Packet> {
        if let Some(credit) = self.credit.take() {
            let len = (self.written - self.next).min(u64::from(self.config.mss)) as u16;
            let seq = self.next;
            self.next += u64::from(len);
            let again = seq < self.highest;
            self.highest = self.highest.max(self.next);
            self.retransmissions += u64::from(again);
            self.bytes_sent += u64::from(len);
            let fin = self.finish && self.next == self.written;
            let flags = DataFlags::NONE.with_if(DataFlags::FIN, fin).with_if(DataFlags::RETRANSMISSION, again);
            let number = self.number;
            self.number = number.wrapping_add(1);
            if self.is_covered() {
                self.requester.stop();
            }
            let body = Body::Scheduled { seq, number, credit, len, flags };
            return Some(Packet::new(self.config.data_class, self.config.wire.wire_bytes(len), body));
        }
        let (backlog, fin) = (self.written - self.next, self.finish);
        let message = self.requester.poll(now, &self.config, backlog, self.written, fin)?;
        if self.requester.phase() == Phase::Stopped {
            self.stopped_at = self.next;
        }
        Some(message)
    }

    #[inline]
    fn poll_event(&mut self) -> Option<Event> {
        if self.released < self.acked {
            let range = ByteRange::new(self.released, self.acked);
            self.released = self.acked;
            return Some(Event::Release(range));
        }
        if self.confirmed && !self.finished {
            self.finished = true;
            return Some(Event::Finished);
        }
        None
    }

    #[inline]
    fn poll_timeout(&self) -> Option<Deadline> {
        self.requester.timer().map(|at| Deadline { at, why: Timer::Retransmit })
    }

    fn statistics(&self) -> Statistics {
        Statistics {
            packets_sent: u64::from(self.number),
            bytes_sent: self.bytes_sent,
            retransmissions: self.retransmissions,
            wasted_credits: self.requester.wasted(),
            ..Statistics::default()
        }
    }
}
