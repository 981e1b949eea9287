//! The receiving side of ExpressPass: credits, in-order delivery, NACKs.

use alloc::sync::Arc;
use core::convert::Infallible;

use super::config::CreditConfig;
use super::source::CreditSource;
use crate::packet::{AckFlags, Body, ByteRange, DataFlags, Ecn, Packet, SackBlocks, WINDOW_UNLIMITED};
use crate::recovery::delivery::InOrderDelivery;
use crate::rng::Stream;
use crate::time::Instant;
use crate::transport::tcp::MAX_STREAM;
use crate::transport::{Command, Deadline, Event, Statistics, Timer, Transport};

/// Receives one flow by ExpressPass.
pub struct ExpressPassReceiver {
    config: Arc<CreditConfig>,
    source: CreditSource,
    stream: InOrderDelivery,
    /// When to ask for missing data again.
    nack_at: Option<Instant>,
    ack_due: bool,
    marks: u64,
    duplicate_bytes: u64,
}

impl ExpressPassReceiver {
    /// A receiver that paces up to `greatest` bytes of credits per second; the jitter between them is drawn from
    /// `stream`, which no other flow shares. `config` must pass [`CreditConfig::check`].
    pub fn new(config: Arc<CreditConfig>, greatest: f64, stream: Stream) -> Self {
        assert_eq!(config.check(), Ok(()), "configurations are checked when they are read");
        Self {
            source: CreditSource::new(&config, greatest, stream),
            config,
            stream: InOrderDelivery::new(),
            nack_at: None,
            ack_due: false,
            marks: 0,
            duplicate_bytes: 0,
        }
    }

    fn handle_data(&mut self, now: Instant, seq: u64, len: u16, fin: bool) {
        let end = seq.checked_add(u64::from(len)).filter(|end| *end <= MAX_STREAM.min(self.stream.end()));
        let Some(end) = end else { return };
        let next = self.stream.next();
        if seq > next {
            if self.nack_at.is_none() {
                self.ack_due = true;
                self.nack_at = Some(now.after(self.config.nack_interval));
            }
            return;
        }
        // Nothing is ever held, so there is always room.
        self.duplicate_bytes += self.stream.take(ByteRange::new(seq, end)).map_or(0, |taken| taken.duplicate);
        if end > next {
            self.nack_at = None;
        }
        if fin && end == self.stream.next() {
            self.stream.set_end(end);
        }
    }

    fn handle_stop(&mut self, end: u64, fin: bool) {
        if end > MAX_STREAM {
            return;
        }
        self.source.stop();
        self.ack_due = true;
        self.nack_at = None;
        if fin && end >= self.stream.next() {
            self.stream.set_end(end);
        }
    }
}

impl Transport for ExpressPassReceiver {
    type Request = Infallible;
    type Answer = Infallible;

    #[inline]
    fn handle_packet(&mut self, now: Instant, packet: &Packet, _sack: &SackBlocks) {
        match packet.body() {
            Body::Scheduled { seq, credit, len, flags, .. } => {
                self.source.on_echo(now, credit);
                self.marks += u64::from(packet.traffic_class.ecn() == Ecn::Ce);
                self.handle_data(now, seq, len, flags.contains(DataFlags::FIN));
            }
            Body::CreditRequest { backlog, .. } => self.source.start(now, &self.config, backlog),
            Body::CreditStop { end, flags } => self.handle_stop(end, flags.contains(DataFlags::FIN)),
            _ => {}
        }
    }

    fn handle_command(&mut self, _now: Instant, _command: Command) {}

    fn handle_timeout(&mut self, now: Instant) {
        if self.nack_at.is_some_and(|at| at <= now) {
            self.ack_due = true;
            self.nack_at = Some(now.after(self.config.nack_interval));
        }
    }

    #[inline]
    fn poll_transmit(&mut self, now: Instant) -> Option<Packet> {
        if self.ack_due {
            self.ack_due = false;
            let body =
                Body::Ack { ack: self.stream.ack(), echo: None, window: WINDOW_UNLIMITED, flags: AckFlags::NONE };
            return Some(Packet::new(self.config.data_class, self.config.control_bytes(), body));
        }
        self.source.poll(now, &self.config)
    }

    #[inline]
    fn poll_event(&mut self) -> Option<Event> {
        self.stream.poll_event()
    }

    #[inline]
    fn poll_timeout(&self) -> Option<Deadline> {
        let pace = self.source.due().map(|at| Deadline { at, why: Timer::Pace });
        match (self.nack_at, pace) {
            (Some(at), pace) if pace.is_none_or(|pace| at < pace.at) => {
                Some(Deadline { at, why: Timer::LossDetection })
            }
            (_, pace) => pace,
        }
    }

    fn statistics(&self) -> Statistics {
        Statistics {
            marks: self.marks,
            duplicate_bytes: self.duplicate_bytes,
            credits_sent: self.source.sent(),
            ..Statistics::default()
        }
    }
}
