//! The sending side: one buffer, two sub-flows.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::convert::Infallible;

use super::Run;
use super::config::{FlexPassConfig, Reactive, Splitting};
use super::proactive::Proactive;
use super::reactive::{Next, ReactiveAck, ReactiveSubflow};
use crate::congestion::CongestionControl;
use crate::packet::{AckFlags, Body, ByteRange, CreditStamp, DataFlags, Packet, SackBlocks, Subflow, TrafficClass};
use crate::time::{Instant, Span};
use crate::transport::express_pass::{Phase, Requester};
use crate::transport::tcp::MAX_STREAM;
use crate::transport::{Command, Deadline, Event, Statistics, Timer, Transport};

/// The sender of one flow whose reactive window follows the controller `C`.
pub struct FlexPassSender<C> {
    config: Arc<FlexPassConfig>,
    requester: Requester,
    reactive: ReactiveSubflow<C>,
    proactive: Proactive,
    lost: VecDeque<ByteRange>,
    /// Bytes the application has given.
    written: u64,
    /// Pending are `next..tail` and, of what was written later, `resume..written`.
    next: u64,
    tail: u64,
    resume: u64,
    /// The receiver has everything below; one more than was written once it knows the end.
    acked: u64,
    released: u64,
    /// The credit that the next poll uses.
    credit: Option<CreditStamp>,
    finish: bool,
    finished: bool,
    /// The stop with the end of the stream was answered.
    confirmed: bool,
    proactive_bytes: u64,
    retransmissions: u64,
    timeouts: u64,
}

impl<C: CongestionControl> FlexPassSender<C> {
    /// A sender with nothing to send yet; `config` must pass [`FlexPassConfig::check`].
    pub fn new(config: Arc<FlexPassConfig>, controller: C) -> Self {
        assert_eq!(config.check(), Ok(()), "configurations are checked when they are read");
        Self {
            requester: Requester::new(),
            reactive: ReactiveSubflow::new(&config.reactive, controller),
            config,
            proactive: Proactive::default(),
            lost: VecDeque::new(),
            written: 0,
            next: 0,
            tail: 0,
            resume: 0,
            acked: 0,
            released: 0,
            credit: None,
            finish: false,
            finished: false,
            confirmed: false,
            proactive_bytes: 0,
            retransmissions: 0,
            timeouts: 0,
        }
    }

    /// The reactive sub-flow's congestion controller.
    pub fn controller(&self) -> &C {
        self.reactive.controller()
    }

    /// Smoothed round-trip time of the reactive sub-flow; zero before the first sample.
    pub fn smoothed_rtt(&self) -> Span {
        self.reactive.smoothed_rtt()
    }

    /// Payload bytes sent by each sub-flow, retransmissions included: proactive, reactive.
    pub fn sent_bytes(&self) -> (u64, u64) {
        (self.proactive_bytes, self.reactive.sent_bytes())
    }

    fn pending(&self) -> u64 {
        self.tail - self.next
    }

    /// Bytes that may be sent for the first time. The receiver accepts no more beyond the byte that it waits for.
    fn room(&self) -> u64 {
        match (self.config.reorder_buffer, self.config.splitting) {
            (Some(bytes), Splitting::SharedBuffer) => self.acked.saturating_add(bytes).saturating_sub(self.next),
            _ => u64::MAX,
        }
    }

    /// Data written after the reactive sub-flow began at the end becomes pending once the rest is sent.
    #[inline]
    fn refill(&mut self) {
        if self.next == self.tail && self.resume < self.written {
            (self.next, self.tail) = (self.resume, self.written);
        }
        if self.next == self.tail {
            self.resume = self.written;
        }
    }

    /// Takes `len` pending bytes for the reactive sub-flow.
    fn take_pending(&mut self, len: u64, reactive: bool) -> ByteRange {
        if reactive && self.config.splitting == Splitting::BothEnds {
            self.resume = self.resume.max(self.tail);
            self.tail -= len;
            return ByteRange::new(self.tail, self.tail + len);
        }
        self.next += len;
        ByteRange::new(self.next - len, self.next)
    }

    /// What a credit sends, lost, pending, or the oldest reactive packet, and whether it was sent before.
    #[inline]
    fn choose(&mut self) -> Option<(ByteRange, bool)> {
        while let Some(range) = self.lost.pop_front() {
            if range.end > self.acked {
                return Some((range, true));
            }
        }
        let len = self.pending().min(u64::from(self.config.credit.mss));
        if len > 0 && len <= self.room() {
            return Some((self.take_pending(len, false), false));
        }
        while let Some(range) = self.reactive.take_oldest() {
            if range.end > self.acked {
                return Some((range, true));
            }
        }
        // Without room there may be some by the time it arrives.
        (len > 0).then(|| (self.take_pending(len, false), false))
    }

    /// The next packet of the proactive sub-flow, on a credit.
    #[inline]
    fn transmit_scheduled(&mut self, now: Instant, credit: CreditStamp) -> Option<Packet> {
        let chosen = self.choose();
        self.refill();
        self.requester.on_credit(now, &self.config.credit, chosen.is_some());
        let (range, again) = chosen?;
        let (config, len) = (&self.config.credit, range.len() as u16);
        let number = self.proactive.send(now, range, config.recovery_timeout);
        self.proactive_bytes += range.len();
        self.retransmissions += u64::from(again);
        let flags =
            DataFlags::NONE.with_if(DataFlags::FIN, self.is_end(range)).with_if(DataFlags::RETRANSMISSION, again);
        let body = Body::Scheduled { seq: range.start, number, credit, len, flags };
        Some(Packet::new(config.data_class, config.wire.wire_bytes(len), body))
    }

    fn is_end(&self, range: ByteRange) -> bool {
        self.finish && range.end == self.written
    }

    /// The next packet of the reactive sub-flow, if its window or burst allows it.
    #[inline]
    fn transmit_unscheduled(&mut self, now: Instant) -> Option<Packet> {
        let pending = self.pending();
        let fits = pending.min(u64::from(self.config.credit.mss)) <= self.room();
        let next = self.reactive.next(&self.config.reactive, self.config.credit.mss, if fits { pending } else { 0 })?;
        let class = self.reactive_class();
        let range = match next {
            Next::Data(len) => self.take_pending(u64::from(len), true),
            // Zero bytes, and green: it must tell of all that was dropped before it.
            Next::Probe => ByteRange::new(self.next, self.next),
            Next::Syn => {
                self.reactive.send_syn(now);
                let bytes = self.config.credit.control_bytes();
                return Some(Packet::new(class, bytes, Body::Syn { sent_at: now }));
            }
        };
        self.refill();
        let class = if next == Next::Probe { self.config.credit.data_class } else { class };
        let number = self.reactive.send(now, range);
        let len = range.len() as u16;
        let flags = DataFlags::NONE.with_if(DataFlags::FIN, len > 0 && self.is_end(range));
        let body = Body::Unscheduled { seq: range.start, number, len, flags };
        Some(Packet::new(class, self.config.credit.wire.wire_bytes(len), body))
    }

    fn reactive_class(&self) -> TrafficClass {
        match &self.config.reactive {
            Reactive::Window(window) => window.class,
            Reactive::Burst { class, .. } => *class,
        }
    }

    fn handle_subflow_ack(&mut self, now: Instant, ack: u64, subflow: Subflow, run: Run, ece: bool) {
        if !self.take_ack(ack) {
            return;
        }
        let (lost, acked) = (&mut self.lost, self.acked);
        let lose = |range: ByteRange| {
            if range.end > acked {
                lost.push_back(range);
            }
        };
        match subflow {
            Subflow::Proactive => self.proactive.settle(now, run, self.config.credit.recovery_timeout, lose),
            Subflow::Reactive => {
                self.reactive.settle(now, &self.config.reactive, ReactiveAck { run, ece }, lose);
            }
        }
        self.ask_for_credits_or_stop();
    }

    /// Takes the flow's own acknowledgement; false if no correct receiver sends it.
    fn take_ack(&mut self, ack: u64) -> bool {
        let end = self.written + u64::from(self.finish);
        self.acked = self.acked.max(if ack <= end { ack } else { 0 });
        ack <= end
    }

    /// A receiver answers a stop with the next byte it expects.
    fn handle_stop_ack(&mut self, ack: u64) {
        if !self.take_ack(ack) || self.requester.phase() != Phase::Stopped {
            return;
        }
        if self.acked >= self.written {
            self.forget_outstanding();
        }
        if self.acked >= self.written + u64::from(self.finish) {
            self.confirmed |= self.finish;
            self.requester.on_stopped();
        } else if self.acked < self.written {
            // The network keeps the order: what was sent before the stop and has not arrived is lost.
            self.lose_proactive();
            self.requester.request();
        }
    }

    fn lose_proactive(&mut self) -> bool {
        let (lost, acked) = (&mut self.lost, self.acked);
        self.proactive.lose_all(|range| {
            if range.end > acked {
                lost.push_back(range);
            }
        })
    }

    /// The receiver has everything that was written.
    fn forget_outstanding(&mut self) {
        self.proactive.lose_all(|_| {});
        self.lost.clear();
        self.reactive.clear();
    }

    /// Stops when nothing is left to send or to be acknowledged. Asks for credits if something turns out to be lost.
    #[inline]
    fn ask_for_credits_or_stop(&mut self) {
        if self.acked >= self.written {
            self.forget_outstanding();
            self.requester.stop();
        } else if !self.lost.is_empty() {
            self.requester.request();
        } else if self.config.proactive_ack_every > 1 && self.pending() == 0 && self.reactive.is_idle() {
            // The receiver does not tell of the last packets by itself.
            self.requester.stop();
        }
    }
}

impl<C: CongestionControl> Transport for FlexPassSender<C> {
    type Request = Infallible;
    type Answer = Infallible;

    #[inline]
    fn handle_packet(&mut self, now: Instant, packet: &Packet, _sack: &SackBlocks) {
        match packet.body() {
            Body::Credit(credit) => {
                self.reactive.end_burst();
                self.credit = Some(credit);
            }
            Body::SubflowAck { ack, first, end, subflow, flags } => {
                self.handle_subflow_ack(now, ack, subflow, Run { first, end }, flags.contains(AckFlags::ECE));
            }
            Body::Ack { ack, .. } => self.handle_stop_ack(ack),
            Body::SynAck { echo, .. } => self.reactive.open(&self.config.reactive, now, echo),
            _ => {}
        }
    }

    fn handle_command(&mut self, _now: Instant, command: Command) {
        match command {
            Command::Send { bytes } if !self.finish && bytes > 0 => {
                // Both ends of what was written so far stay where they are if the reactive sub-flow has begun at one.
                let whole = self.tail == self.written;
                self.written = self.written.saturating_add(bytes).min(MAX_STREAM);
                if whole {
                    (self.tail, self.resume) = (self.written, self.written);
                }
                self.requester.request();
            }
            Command::Finish if !self.finish => {
                self.finish = true;
                if self.acked >= self.written {
                    self.requester.stop_again();
                }
            }
            _ => {}
        }
    }

    /// Credits come over the new path at once.
    fn handle_new_path(&mut self, _now: Instant) {
        self.reactive.on_new_path();
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.requester.handle_timeout(now);
        if self.proactive.timer().is_some_and(|at| at <= now) && self.lose_proactive() {
            self.timeouts += 1;
            self.requester.request_anew();
        }
        if self.reactive.timer().is_some_and(|at| at <= now) {
            let (lost, acked) = (&mut self.lost, self.acked);
            self.reactive.time_out(now, &self.config.reactive, |range| {
                if range.end > acked && !range.is_empty() {
                    lost.push_back(range);
                }
            });
            self.ask_for_credits_or_stop();
        }
    }

    #[inline]
    fn poll_transmit(&mut self, now: Instant) -> Option<Packet> {
        if let Some(credit) = self.credit.take() {
            if let Some(packet) = self.transmit_scheduled(now, credit) {
                return Some(packet);
            }
            self.ask_for_credits_or_stop();
        }
        let (backlog, fin) = (self.written - self.acked.min(self.written), self.finish);
        let message = self.requester.poll(now, &self.config.credit, backlog, self.written, fin);
        message.or_else(|| self.transmit_unscheduled(now))
    }

    #[inline]
    fn poll_event(&mut self) -> Option<Event> {
        let acked = self.acked.min(self.written);
        if self.released < acked {
            let range = ByteRange::new(self.released, acked);
            self.released = acked;
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
        let retransmit = |at| Deadline { at, why: Timer::Retransmit };
        let recover = |at| Deadline { at, why: Timer::LossDetection };
        let timers = [
            self.requester.timer().map(retransmit),
            self.reactive.timer().map(retransmit),
            self.proactive.timer().map(recover),
        ];
        timers.into_iter().flatten().min_by_key(|deadline| deadline.at)
    }

    fn statistics(&self) -> Statistics {
        Statistics {
            packets_sent: u64::from(self.proactive.sent()) + u64::from(self.reactive.sent()),
            bytes_sent: self.proactive_bytes + self.reactive.sent_bytes(),
            retransmissions: self.retransmissions,
            timeouts: self.timeouts + self.reactive.timeouts(),
            marks: self.reactive.marks(),
            wasted_credits: self.requester.wasted(),
            ..Statistics::default()
        }
    }
}
