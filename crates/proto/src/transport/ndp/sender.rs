//! The sending side.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::convert::Infallible;

use super::NdpConfig;
use crate::packet::{Body, ByteRange, Ecn, Packet, PulledFlags, SackBlocks};
use crate::recovery::rtt::RttEstimator;
use crate::time::Instant;
use crate::transport::tcp::MAX_STREAM;
use crate::transport::{Command, Deadline, Event, Statistics, Timer, Transport};

/// How many timeouts a sender with nothing in flight waits for a pull, because a receiver of many flows takes its time.
const PULL_PATIENCE: u64 = 8;

/// The state of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    UnderWay,
    /// It was trimmed, returned or given up, and waits for a pull.
    Waiting,
    Arrived,
}

/// A packet that was sent.
#[derive(Clone, Copy, Debug)]
struct Sent {
    seq: u64,
    at: Instant,
    len: u16,
    fin: bool,
    state: State,
}

/// Sends one flow by NDP.
pub struct NdpSender {
    config: Arc<NdpConfig>,
    rtt: RttEstimator,
    /// By [`Sent::seq`]; the first has not arrived.
    log: VecDeque<Sent>,
    under_way: u32,
    /// Packets to be sent again, by `seq`, in the order in which this was learnt. Those that arrived meanwhile leave
    /// when they reach the front.
    again: VecDeque<u64>,
    waiting: u32,
    /// Transmissions by `seq` and time, the oldest first; those answered leave when they reach the front.
    order: VecDeque<(u64, Instant)>,
    /// Packets of the initial window still to be sent.
    burst: u32,
    /// Packets that pulls have allowed and that were not sent.
    allowed: u32,
    /// Pulls so far, as the receiver counts them.
    pulled: u32,
    /// Packets answered so far. Each makes the receiver pull once.
    answered: u32,
    /// When the receiver last answered.
    heard_at: Instant,
    next: u64,
    written: u64,
    released: u64,
    finish: bool,
    fin_sent: bool,
    finished: bool,
    packets_sent: u64,
    bytes_sent: u64,
    retransmissions: u64,
    timeouts: u64,
}

impl NdpSender {
    /// A sender with nothing to send yet; `config` must pass [`NdpConfig::check`].
    pub fn new(config: Arc<NdpConfig>) -> Self {
        assert_eq!(config.check(), Ok(()), "configurations are checked when they are read");
        Self {
            rtt: RttEstimator::new(&config.rto),
            log: VecDeque::new(),
            under_way: 0,
            again: VecDeque::new(),
            waiting: 0,
            order: VecDeque::new(),
            burst: config.initial_window,
            config,
            allowed: 0,
            pulled: 0,
            answered: 0,
            heard_at: Instant::ZERO,
            next: 0,
            written: 0,
            released: 0,
            finish: false,
            fin_sent: false,
            finished: false,
            packets_sent: 0,
            bytes_sent: 0,
            retransmissions: 0,
            timeouts: 0,
        }
    }

    fn has_new(&self) -> bool {
        self.next < self.written || self.finish && !self.fin_sent
    }

    fn find(&mut self, seq: u64) -> Option<&mut Sent> {
        let index = self.log.binary_search_by_key(&seq, |sent| sent.seq).ok()?;
        self.log.get_mut(index)
    }

    /// The transmission of `seq` at `echo` did not arrive whole, so it waits for a pull. False if that is not news.
    fn wait_for_pull(&mut self, seq: u64, echo: Instant) -> bool {
        let Some(sent) = self.find(seq).filter(|sent| sent.state == State::UnderWay && sent.at == echo) else {
            return false;
        };
        sent.state = State::Waiting;
        self.under_way -= 1;
        self.waiting += 1;
        self.again.push_back(seq);
        true
    }

    fn handle_answer(&mut self, now: Instant, seq: u64, echo: Instant, trimmed: bool) {
        self.heard_at = now;
        self.answered = self.answered.wrapping_add(1);
        if trimmed {
            self.wait_for_pull(seq, echo);
            return;
        }
        let Some(sent) = self.find(seq) else { return };
        let (was, at) = (core::mem::replace(&mut sent.state, State::Arrived), sent.at);
        match was {
            State::UnderWay => self.under_way -= 1,
            State::Waiting => self.waiting -= 1,
            State::Arrived => return,
        }
        if at == echo {
            self.rtt.sample(&self.config.rto, now.since(at));
        }
        while self.log.front().is_some_and(|sent| sent.state == State::Arrived) {
            self.log.pop_front();
        }
    }

    fn handle_pull(&mut self, now: Instant, count: u32) {
        let more = count.wrapping_sub(self.pulled);
        if more > u32::MAX / 2 {
            return;
        }
        self.heard_at = now;
        self.pulled = count;
        self.allowed = self.allowed.saturating_add(more);
    }

    /// A switch had no room for a header of ours. It is sent again at once if no pull is to be expected.
    fn handle_returned(&mut self, now: Instant, seq: u64, sent_at: Instant) {
        self.heard_at = now;
        if self.wait_for_pull(seq, sent_at) {
            let pulls_due = self.answered.wrapping_sub(self.pulled);
            let none_due = pulls_due == 0 || pulls_due > u32::MAX / 2;
            if self.under_way == 0 && none_due && self.allowed == 0 {
                self.allowed = 1;
            }
        }
    }

    /// The packet to send again next.
    fn next_again(&mut self) -> Option<Sent> {
        while let Some(&seq) = self.again.front() {
            if let Some(sent) = self.find(seq).filter(|sent| sent.state == State::Waiting) {
                return Some(*sent);
            }
            self.again.pop_front();
        }
        None
    }

    /// When the oldest transmission under way was sent.
    fn forget_answered(&mut self) {
        while let Some(&(seq, at)) = self.order.front() {
            if self.find(seq).is_some_and(|sent| sent.state == State::UnderWay && sent.at == at) {
                return;
            }
            self.order.pop_front();
        }
    }

    fn transmit(&mut self, now: Instant, sent: Sent, again: bool) -> Packet {
        let Sent { seq, len, fin, .. } = sent;
        self.under_way += 1;
        self.order.push_back((seq, now));
        self.packets_sent += 1;
        self.bytes_sent += u64::from(len);
        self.retransmissions += u64::from(again);
        let flags = PulledFlags::NONE.with_if(PulledFlags::FIN, fin).with_if(PulledFlags::RETRANSMISSION, again);
        let class = self.config.data_class.with_ecn(Ecn::NotEct);
        Packet::new(class, self.config.wire.wire_bytes(len), Body::Pulled { seq, sent_at: now, len, flags })
    }
}

impl Transport for NdpSender {
    type Request = Infallible;
    type Answer = Infallible;

    #[inline]
    fn handle_packet(&mut self, now: Instant, packet: &Packet, _sack: &SackBlocks) {
        match packet.body() {
            Body::PulledAck { seq, echo, trimmed, .. } if echo <= now => self.handle_answer(now, seq, echo, trimmed),
            Body::Pull { count } => self.handle_pull(now, count),
            Body::Pulled { seq, sent_at, flags, .. } if flags.contains(PulledFlags::RETURNED) => {
                self.handle_returned(now, seq, sent_at);
            }
            _ => return,
        }
        self.forget_answered();
    }

    fn handle_command(&mut self, _now: Instant, command: Command) {
        if command == Command::Finish {
            self.finish = true;
        } else if let Some(bytes) = command.bytes().filter(|_| !self.finish) {
            if self.log.is_empty() && !self.has_new() {
                // Nothing is under way that a pull could follow.
                (self.burst, self.allowed) = (self.config.initial_window, 0);
            }
            self.written = self.written.saturating_add(bytes).min(MAX_STREAM);
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        let Some(Deadline { at, .. }) = self.poll_timeout().filter(|deadline| deadline.at <= now) else { return };
        let rto = self.rtt.rto();
        self.timeouts += 1;
        let mut expired = 0;
        while let Some(&(seq, sent_at)) = self.order.front().filter(|(_, sent_at)| sent_at.after(rto) <= at) {
            self.order.pop_front();
            expired += u32::from(self.wait_for_pull(seq, sent_at));
            self.forget_answered();
        }
        // Nobody may be left who pulls: as many as a burst leave without.
        self.allowed = self.allowed.max(expired.clamp(1, self.config.initial_window));
        self.rtt.back_off(&self.config.rto);
        self.heard_at = now;
    }

    #[inline]
    fn poll_transmit(&mut self, now: Instant) -> Option<Packet> {
        if self.allowed > 0
            && self.waiting > 0
            && let Some(sent) = self.next_again()
        {
            self.again.pop_front();
            self.allowed -= 1;
            self.waiting -= 1;
            if let Some(entry) = self.find(sent.seq) {
                (entry.state, entry.at) = (State::UnderWay, now);
            }
            return Some(self.transmit(now, sent, true));
        }
        if !self.has_new() {
            return None;
        }
        let budget = if self.burst > 0 { &mut self.burst } else { &mut self.allowed };
        *budget = budget.checked_sub(1)?;
        let len = (self.written - self.next).min(u64::from(self.config.payload)) as u16;
        let seq = self.next;
        self.next += u64::from(len);
        self.fin_sent = self.finish && self.next == self.written;
        let sent = Sent { seq, at: now, len, fin: self.fin_sent, state: State::UnderWay };
        self.log.push_back(sent);
        Some(self.transmit(now, sent, false))
    }

    #[inline]
    fn poll_event(&mut self) -> Option<Event> {
        let kept = self.log.front().map_or(self.next, |sent| sent.seq);
        if self.released < kept {
            let range = ByteRange::new(self.released, kept);
            self.released = kept;
            return Some(Event::Release(range));
        }
        if self.fin_sent && self.log.is_empty() && !self.finished {
            self.finished = true;
            return Some(Event::Finished);
        }
        None
    }

    #[inline]
    fn poll_timeout(&self) -> Option<Deadline> {
        let at = match self.order.front() {
            Some((_, at)) => at.after(self.rtt.rto()),
            None if self.waiting > 0 || self.has_new() && self.next > 0 => {
                self.heard_at.after(self.rtt.rto().times(PULL_PATIENCE))
            }
            None => return None,
        };
        Some(Deadline { at, why: Timer::Retransmit })
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
