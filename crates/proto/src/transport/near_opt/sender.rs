//! The sending side.

use alloc::collections::VecDeque;
use alloc::sync::Arc;

use super::pacer::Pacer;
use super::{NearOptConfig, OracleAnswer, OracleRequest, PacketFate};
use crate::packet::{Body, ByteRange, DataFlags, Ecn, Packet, SackBlocks};
use crate::recovery::rtt::RttEstimator;
use crate::time::Instant;
use crate::transport::tcp::MAX_STREAM;
use crate::transport::{Command, Deadline, Event, Statistics, Timer, Transport};

/// A data packet that was sent and is not acknowledged.
#[derive(Clone, Copy, Debug)]
struct Segment {
    seq: u64,
    /// When it was sent, or when the oracle last knew of no drop.
    at: Instant,
    len: u16,
    fin: bool,
    /// Whether `at` is the oracle's answer.
    vouched: bool,
}

impl Segment {
    /// One past its last sequence number; FIN counts as one.
    fn end(&self) -> u64 {
        self.seq + u64::from(self.len) + u64::from(self.fin)
    }
}

/// Sends one flow at the rate it is told.
pub struct NearOptSender {
    config: Arc<NearOptConfig>,
    pacer: Pacer,
    rtt: RttEstimator,
    /// Everything below is acknowledged; FIN counts as one.
    acked: u64,
    /// Next byte to send for the first time; FIN counts as one.
    next: u64,
    written: u64,
    released: u64,
    /// By [`Segment::at`], the oldest first. Those acknowledged meanwhile leave when they reach the front.
    in_flight: VecDeque<Segment>,
    /// Packets that wait for the oracle's answer. The driver knows of the first `asked`.
    doubted: VecDeque<Segment>,
    asked: usize,
    /// Dropped, to be sent again before anything new.
    dropped: VecDeque<Segment>,
    finish: bool,
    finished: bool,
    /// Whether the oracle knows that there is data to send.
    follows: bool,
    packets_sent: u64,
    bytes_sent: u64,
    retransmissions: u64,
    timeouts: u64,
}

impl NearOptSender {
    /// A sender with nothing to send yet. A full packet of `config` takes at most 65535 bytes on the wire.
    pub fn new(config: Arc<NearOptConfig>) -> Self {
        assert!(config.mss > 0, "a packet carries something");
        assert!(config.mss.checked_add(config.wire.header_bytes).is_some(), "packets stay below 65536 bytes");
        Self {
            pacer: Pacer::stopped(),
            rtt: RttEstimator::new(&config.rto),
            config,
            acked: 0,
            next: 0,
            written: 0,
            released: 0,
            in_flight: VecDeque::new(),
            doubted: VecDeque::new(),
            asked: 0,
            dropped: VecDeque::new(),
            finish: false,
            finished: false,
            follows: false,
            packets_sent: 0,
            bytes_sent: 0,
            retransmissions: 0,
            timeouts: 0,
        }
    }

    /// One past the last sequence number there is to send so far.
    fn end(&self) -> u64 {
        self.written + u64::from(self.finish)
    }

    fn has_more(&self) -> bool {
        self.next < self.end() || !self.dropped.is_empty()
    }

    /// The next packet's content, dropped data first.
    fn take_next(&mut self, now: Instant) -> Segment {
        if let Some(segment) = self.dropped.pop_front() {
            self.retransmissions += 1;
            return Segment { at: now, vouched: false, ..segment };
        }
        let len = (self.written - self.next).min(u64::from(self.config.mss)) as u16;
        let fin = self.finish && self.next + u64::from(len) == self.written;
        let segment = Segment { seq: self.next, at: now, len, fin, vouched: false };
        self.next = segment.end();
        segment
    }

    /// Removes what is acknowledged from the flight, and asks about packets that a packet sent later, at `echo`, has
    /// overtaken.
    #[inline]
    fn settle(&mut self, echo: Instant) {
        while let Some(first) = self.in_flight.front() {
            if first.end() > self.acked {
                if first.at > echo {
                    return;
                }
                // The packet sent at `echo` is the one answered: it arrived, though others before it are missing.
                if first.at < echo || first.vouched {
                    self.doubted.push_back(*first);
                }
            }
            self.in_flight.pop_front();
        }
    }

    fn handle_fate(&mut self, now: Instant, seq: u64, fate: PacketFate) {
        let Some(index) = self.doubted.iter().take(self.asked).position(|segment| segment.seq == seq) else { return };
        let segment = self.doubted.remove(index).expect("it was found there");
        self.asked -= 1;
        match fate {
            PacketFate::Dropped => return self.dropped.push_back(segment),
            PacketFate::Arrived { ack } => self.acked = self.acked.max(ack.min(self.next)),
            PacketFate::UnderWay => {}
        }
        if segment.end() > self.acked {
            self.in_flight.push_back(Segment { at: now, vouched: true, ..segment });
        }
    }
}

impl Transport for NearOptSender {
    type Request = OracleRequest;
    type Answer = OracleAnswer;

    #[inline]
    fn handle_packet(&mut self, now: Instant, packet: &Packet, _sack: &SackBlocks) {
        let Body::Ack { ack, echo, .. } = packet.body() else { return };
        let Some(echo) = echo.filter(|echo| *echo <= now && ack <= self.next) else { return };
        self.acked = self.acked.max(ack);
        self.rtt.sample(&self.config.rto, now.since(echo));
        self.settle(echo);
    }

    fn handle_command(&mut self, now: Instant, command: Command<OracleAnswer>) {
        match command {
            Command::Send { bytes } if !self.finish => {
                self.written = self.written.saturating_add(bytes).min(MAX_STREAM);
            }
            Command::Finish => self.finish = true,
            Command::Answer(OracleAnswer::Rate(rate)) => self.pacer.set_rate(now, rate),
            Command::Answer(OracleAnswer::Fate { seq, fate }) => self.handle_fate(now, seq, fate),
            _ => {}
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        let before = self.doubted.len();
        while let Some(first) = self.in_flight.front().filter(|first| first.at.after(self.rtt.rto()) <= now) {
            if first.end() > self.acked {
                self.doubted.push_back(*first);
            }
            self.in_flight.pop_front();
        }
        self.timeouts += u64::from(self.doubted.len() > before);
    }

    #[inline]
    fn poll_transmit(&mut self, now: Instant) -> Option<Packet> {
        if !self.has_more() || !self.pacer.allows(now) {
            return None;
        }
        let again = !self.dropped.is_empty();
        let segment = self.take_next(now);
        let Segment { seq, len, fin, .. } = segment;
        let wire_bytes = self.config.wire.wire_bytes(len);
        self.pacer.on_sent(wire_bytes);
        self.in_flight.push_back(segment);
        self.packets_sent += 1;
        self.bytes_sent += u64::from(len);
        let flags = DataFlags::NONE.with_if(DataFlags::FIN, fin).with_if(DataFlags::RETRANSMISSION, again);
        let class = self.config.data_class.with_ecn(Ecn::NotEct);
        Some(Packet::new(class, wire_bytes, Body::Data { seq, sent_at: now, len, flags }))
    }

    #[inline]
    fn poll_event(&mut self) -> Option<Event<OracleRequest>> {
        let pending = self.acked < self.end();
        if pending != self.follows {
            self.follows = pending;
            if !pending {
                // By the time there is data again this rate is old.
                self.pacer = Pacer::stopped();
            }
            let class = self.config.data_class;
            let request = if pending { OracleRequest::FollowRate { class } } else { OracleRequest::UnfollowRate };
            return Some(Event::Ask(request));
        }
        if let Some(segment) = self.doubted.get(self.asked) {
            self.asked += 1;
            return Some(Event::Ask(OracleRequest::Fate { seq: segment.seq }));
        }
        let acked = self.acked.min(self.written);
        if self.released < acked {
            let range = ByteRange::new(self.released, acked);
            self.released = acked;
            return Some(Event::Release(range));
        }
        if self.finish && !pending && !self.finished {
            self.finished = true;
            return Some(Event::Finished);
        }
        None
    }

    #[inline]
    fn poll_timeout(&self) -> Option<Deadline> {
        let pace = if self.has_more() { self.pacer.next_at() } else { None };
        let pace = pace.map(|at| Deadline { at, why: Timer::Pace });
        let expiry = self.in_flight.front().map(|first| first.at.after(self.rtt.rto()));
        let expiry = expiry.map(|at| Deadline { at, why: Timer::Retransmit });
        match (pace, expiry) {
            (Some(pace), Some(expiry)) => Some(if expiry.at < pace.at { expiry } else { pace }),
            (pace, expiry) => pace.or(expiry),
        }
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
