//! The sending side: one buffer, a scavenger and a guarantee.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::convert::Infallible;

use super::config::TwoClassConfig;
use super::estimator::{FairRate, Interval};
use super::ledger::Ledger;
use crate::congestion::CongestionControl;
use crate::host::fair_rates::REPORT_LIFE;
use crate::packet::{AckFlags, Body, ByteRange, CreditStamp, DataFlags, Packet, SackBlocks, ShortTime, Subflow};
use crate::time::{Instant, Span};
use crate::transport::flex_pass::Run;
use crate::transport::flex_pass::reactive::{Next, ReactiveAck, ReactiveSubflow};
use crate::transport::tcp::MAX_STREAM;
use crate::transport::{Command, Deadline, Event, Statistics, Timer, Transport};
use crate::units::Rate;

/// A class whose sub-flow timed out this often in a row carries nothing.
const DEAD: u32 = 2;
/// Round trips of the high class after which a packet of the low one is late.
const LATE: u64 = 2;
/// Packets of the guarantee that a late wake-up may send at once.
const BURST: u64 = 2;

/// The sender of one flow whose scavenger follows the controller `C`.
pub struct TwoClassSender<C> {
    config: Arc<TwoClassConfig>,
    scavenger: ReactiveSubflow<C>,
    guarantee: ReactiveSubflow<FairRate>,
    ledger: Ledger,
    /// The fair rate in bytes of payload per second that was told last, and when.
    told: Option<(f64, Instant)>,
    lost: VecDeque<ByteRange>,
    /// Bytes the application has given.
    written: u64,
    /// Next byte that was never sent.
    next: u64,
    /// The receiver has everything below; one more than was written once it knows the end.
    acked: u64,
    released: u64,
    finish: bool,
    /// Once it is finished, its end is one that it will reach.
    has_end: bool,
    finished: bool,
    /// When the end of the stream is sent without data, or sent again.
    stop_at: Option<Instant>,
    /// Bytes per second of the guarantee, and when it may send next.
    rate: f64,
    /// The greatest, in rates of a DCTCP flow that joined the high class now.
    greatest_weight: f64,
    pace_next: Instant,
    /// When the interval began, what each sub-flow has delivered in it, and when it ends.
    began: Instant,
    brought: (u64, u64),
    ends: Option<Instant>,
    /// Timeouts of each sub-flow since its last arrival: scavenger, guarantee.
    timeouts_in_row: (u32, u32),
    /// Least smoothed round-trip time so far in seconds, and marks of the scavenger when the interval began.
    least_rtt: f64,
    marks_before: u64,
    retransmissions: u64,
}

impl<C: CongestionControl> TwoClassSender<C> {
    /// A sender with nothing to send yet. It keeps `share` of its fair rate on a path whose slowest line has the rate
    /// `line`, on the wire, if that is known. `config` must pass [`TwoClassConfig::check`].
    pub fn new(config: Arc<TwoClassConfig>, controller: C, share: f64, line: Option<Rate>) -> Self {
        assert_eq!(config.check(), Ok(()), "configurations are checked when they are read");
        let line = line.map(|line| config.payload_rate(line));
        let estimator = FairRate::new(config.mss, line);
        Self {
            scavenger: ReactiveSubflow::new(&config.scavenger, controller),
            guarantee: ReactiveSubflow::new(&config.guarantee, estimator),
            rate: config.trickle * line.unwrap_or(0.0),
            greatest_weight: config.bounds.greatest_weight,
            config,
            ledger: Ledger::new(share),
            told: None,
            lost: VecDeque::new(),
            written: 0,
            next: 0,
            acked: 0,
            released: 0,
            finish: false,
            has_end: true,
            finished: false,
            stop_at: None,
            pace_next: Instant::ZERO,
            began: Instant::ZERO,
            brought: (0, 0),
            ends: None,
            timeouts_in_row: (0, 0),
            least_rtt: f64::INFINITY,
            marks_before: 0,
            retransmissions: 0,
        }
    }

    /// Payload bytes sent by each sub-flow, retransmissions included: guarantee, scavenger.
    pub fn sent_bytes(&self) -> (u64, u64) {
        (self.guarantee.sent_bytes(), self.scavenger.sent_bytes())
    }

    /// A flow that runs until the experiment ends. It may owe nothing, however much is written.
    pub fn without_end(self) -> Self {
        Self { has_end: false, ..self }
    }

    /// The flow's fair rate in bytes of payload per second, as estimated in the last interval; for experiments.
    #[doc(hidden)]
    pub fn fair_rate(&self) -> f64 {
        self.ledger.fair()
    }

    /// What to send next, lost or new, and whether it was sent before.
    #[inline]
    fn choose(&mut self) -> Option<(ByteRange, bool)> {
        while let Some(range) = self.lost.pop_front() {
            if range.end > self.acked {
                return Some((range, true));
            }
        }
        let len = self.sendable().min(u64::from(self.config.mss));
        if len == 0 {
            return None;
        }
        self.next += len;
        Some((ByteRange::new(self.next - len, self.next), false))
    }

    fn flags(&mut self, range: ByteRange, again: bool) -> DataFlags {
        self.retransmissions += u64::from(again);
        let end = self.finish && range.end == self.written;
        DataFlags::NONE.with_if(DataFlags::FIN, end).with_if(DataFlags::RETRANSMISSION, again)
    }

    /// Bytes that may be sent for the first time. The receiver accepts no more beyond the byte that it waits for.
    fn sendable(&self) -> u64 {
        let room = self.config.reorder_buffer.map_or(u64::MAX, |bytes| self.acked.saturating_add(bytes));
        self.written.min(room).saturating_sub(self.next)
    }

    fn has_backlog(&self) -> bool {
        self.sendable() > 0 || !self.lost.is_empty()
    }

    /// When the scavenger's oldest packet is late, measured by the round trips of the high class, if nothing but the receiver's room holds
    /// the flow back.
    fn overtakes_at(&self) -> Option<Instant> {
        let round_trip = self.guarantee.smoothed_rtt();
        let waits = self.written > self.next && !self.has_backlog() && round_trip > Span::ZERO;
        Some(self.scavenger.oldest_at().filter(|_| waits)?.after(round_trip.times(LATE)))
    }

    #[inline]
    fn transmit_guarantee(&mut self, now: Instant) -> Option<Packet> {
        if self.pace_next > now {
            return None;
        }
        let (range, again) = self.choose().or_else(|| self.overtake(now))?;
        let len = range.len() as u16;
        // As of the last round trip: an interval is too long to go on into a queue that overflows.
        let yielding = self.greatest_weight * self.guarantee.controller().window_rate();
        let gap = Span::from_secs_f64(f64::from(len) / self.rate.min(yielding).max(self.least_rate()));
        self.pace_next = self.pace_next.max(now.before(gap.times(BURST - 1))).after(gap);
        let number = self.guarantee.send(now, range);
        if self.timeouts_in_row.1 >= DEAD {
            self.lost.push_back(range);
        }
        let credit = CreditStamp { number, sent_at: ShortTime::of(now) };
        let flags = self.flags(range, again);
        let body = Body::Scheduled { seq: range.start, number, credit, len, flags };
        let class = TwoClassConfig::class_of(&self.config.guarantee);
        Some(Packet::new(class, self.config.wire.wire_bytes(len), body))
    }

    /// The receiver has no room: packets that the low class holds up keep it waiting. The guarantee sends the oldest of them again, and the
    /// scavenger yields (opportunistic retransmission and penalization, Raiciu et al., NSDI 2012).
    fn overtake(&mut self, now: Instant) -> Option<(ByteRange, bool)> {
        while self.overtakes_at().is_some_and(|at| at <= now) {
            let range = self.scavenger.take_oldest()?;
            self.scavenger.yield_window(now);
            if range.end > self.acked {
                return Some((range, true));
            }
        }
        None
    }

    /// One packet per interval, and at most a trickle of a known line.
    fn least_rate(&self) -> f64 {
        let packet = f64::from(self.config.mss) / self.config.interval.as_secs_f64();
        let line = self.guarantee.controller().line();
        if line > 0.0 { packet.min(self.config.trickle * line) } else { packet }
    }

    #[inline]
    fn transmit_scavenger(&mut self, now: Instant) -> Option<Packet> {
        let backlog = if self.lost.is_empty() { self.sendable() } else { u64::from(self.config.mss) };
        let Some(Next::Data(_)) = self.scavenger.next(&self.config.scavenger, self.config.mss, backlog) else {
            return None;
        };
        let (range, again) = self.choose()?;
        let number = self.scavenger.send(now, range);
        if self.timeouts_in_row.0 >= DEAD {
            self.lost.push_back(range);
        }
        let len = range.len() as u16;
        let body = Body::Unscheduled { seq: range.start, number, len, flags: self.flags(range, again) };
        let class = TwoClassConfig::class_of(&self.config.scavenger);
        Some(Packet::new(class, self.config.wire.wire_bytes(len), body))
    }

    /// Sends the end without data, where no data packet has told it.
    fn transmit_stop(&mut self, now: Instant) -> Option<Packet> {
        let due = self.finish && self.acked == self.written && self.stop_at.is_none_or(|at| at <= now);
        if !due {
            return None;
        }
        self.stop_at = Some(now.after(self.guarantee.rto().max(self.scavenger.rto())));
        let body = Body::CreditStop { end: self.written, flags: DataFlags::FIN };
        Some(Packet::new(self.config.ack_class, self.config.wire.wire_bytes(0), body))
    }

    #[inline]
    fn handle_subflow_ack(&mut self, now: Instant, ack: u64, subflow: Subflow, run: Run, flags: AckFlags) {
        if !self.take_ack(ack) {
            return;
        }
        let (lost, acked) = (&mut self.lost, self.acked);
        let lose = |range: ByteRange| {
            if range.end > acked {
                lost.push_back(range);
            }
        };
        let answer = ReactiveAck { run, ece: flags.contains(AckFlags::ECE) };
        match subflow {
            Subflow::Proactive => {
                let brought = self.guarantee.settle(now, &self.config.guarantee, answer, lose);
                self.brought.1 += brought;
                if brought > 0 {
                    self.guarantee.controller_mut().on_arrival(flags.contains(AckFlags::WAITED));
                    self.timeouts_in_row.1 = 0;
                }
            }
            Subflow::Reactive => {
                let brought = self.scavenger.settle(now, &self.config.scavenger, answer, lose);
                self.brought.0 += brought;
                if brought > 0 {
                    self.timeouts_in_row.0 = 0;
                }
            }
        }
        self.clear_if_done();
    }

    /// Takes the flow's own acknowledgement; false if no correct receiver sends it.
    fn take_ack(&mut self, ack: u64) -> bool {
        let end = self.written + u64::from(self.finish);
        self.acked = self.acked.max(if ack <= end { ack } else { 0 });
        ack <= end
    }

    /// The receiver may have everything that was written.
    fn clear_if_done(&mut self) {
        if self.acked >= self.written {
            self.lost.clear();
            self.scavenger.clear();
            self.guarantee.clear();
            self.ends = None;
        }
    }

    /// Ends an interval: books it and chooses the guarantee's rate.
    fn end_interval(&mut self, now: Instant) {
        let seconds = now.since(self.began).as_secs_f64();
        let (scavenger, guarantee) = self.brought;
        let (scavenger, guarantee) = (scavenger as f64 / seconds, guarantee as f64 / seconds);
        let estimator = self.guarantee.controller_mut();
        estimator.on_arrived(now, self.brought.0 + self.brought.1);
        let estimate = estimator.estimate(guarantee);
        let round_trip = self.scavenger.smoothed_rtt().as_secs_f64();
        for rtt in [round_trip, self.guarantee.smoothed_rtt().as_secs_f64()] {
            self.least_rtt = if rtt > 0.0 { self.least_rtt.min(rtt) } else { self.least_rtt };
        }
        let interval = Interval {
            seconds,
            scavenger,
            guarantee,
            scavenger_dead: self.timeouts_in_row.0 >= DEAD,
            wait: (round_trip - self.least_rtt).max(0.0),
            marked: self.scavenger.marks() > self.marks_before,
            // A flow whose end is not known earns first: without an end it would owe without end.
            remaining: if self.finish && self.has_end { self.written.saturating_sub(self.acked) as f64 } else { 0.0 },
            told: self.told.filter(|(_, at)| now.since(*at) <= REPORT_LIFE).map(|(rate, _)| rate),
        };
        self.greatest_weight = self.config.bounds_if(interval.told.is_some()).greatest_weight;
        let rate = self.ledger.book(&self.config, &interval, &estimate);
        let rate = rate.min(self.config.growth * self.rate.max(self.least_rate()));
        // A slower rate so far must not hold the faster one back.
        if rate > self.rate {
            let mss = f64::from(self.config.mss);
            self.pace_next = self.pace_next.min(now.after(Span::from_secs_f64(mss / rate)));
        }
        self.rate = rate;
        self.begin_interval(now);
    }

    fn begin_interval(&mut self, now: Instant) {
        self.began = now;
        self.brought = (0, 0);
        self.marks_before = self.scavenger.marks();
        // An interval without a packet of the guarantee tells nothing of the high class.
        let packet = Span::from_secs_f64(f64::from(self.config.mss) / self.rate.max(self.least_rate()));
        self.ends = Some(now.after(self.config.interval.max(self.guarantee.smoothed_rtt()).max(packet)));
    }
}

impl<C: CongestionControl> Transport for TwoClassSender<C> {
    type Request = Infallible;
    type Answer = Infallible;

    #[inline]
    fn handle_packet(&mut self, now: Instant, packet: &Packet, _sack: &SackBlocks) {
        match packet.body() {
            Body::SubflowAck { ack, first, end, subflow, flags } => {
                self.handle_subflow_ack(now, ack, subflow, Run { first, end }, flags);
            }
            Body::Ack { ack, .. } if self.take_ack(ack) => self.clear_if_done(),
            _ => {}
        }
    }

    fn handle_command(&mut self, now: Instant, command: Command) {
        match command {
            Command::Send { bytes } if !self.finish && bytes > 0 => {
                self.written = self.written.saturating_add(bytes).min(MAX_STREAM);
                if self.ends.is_none() {
                    self.begin_interval(now);
                }
            }
            Command::Finish => self.finish = true,
            Command::SetMinShare(share) => self.ledger.set_share(share),
            Command::SetFairRate(rate) => self.told = Some((self.config.payload_rate(rate), now)),
            _ => {}
        }
    }

    fn handle_new_path(&mut self, _now: Instant) {
        self.least_rtt = f64::INFINITY;
        self.scavenger.on_new_path();
        self.guarantee.on_new_path();
    }

    fn handle_timeout(&mut self, now: Instant) {
        let (lost, acked) = (&mut self.lost, self.acked);
        let mut lose = |range: ByteRange| {
            if range.end > acked && !range.is_empty() {
                lost.push_back(range);
            }
        };
        if self.scavenger.timer().is_some_and(|at| at <= now) {
            self.scavenger.time_out(now, &self.config.scavenger, &mut lose);
            self.timeouts_in_row.0 = self.timeouts_in_row.0.saturating_add(1);
        }
        if self.guarantee.timer().is_some_and(|at| at <= now) {
            self.guarantee.time_out(now, &self.config.guarantee, &mut lose);
            self.timeouts_in_row.1 = self.timeouts_in_row.1.saturating_add(1);
            if self.timeouts_in_row.1 >= DEAD {
                self.guarantee.controller_mut().forget();
            }
        }
        if self.ends.is_some_and(|at| at <= now) {
            self.end_interval(now);
        }
    }

    #[inline]
    fn poll_transmit(&mut self, now: Instant) -> Option<Packet> {
        let data = self.transmit_guarantee(now).or_else(|| self.transmit_scavenger(now));
        data.or_else(|| self.transmit_stop(now))
    }

    #[inline]
    fn poll_event(&mut self) -> Option<Event> {
        let acked = self.acked.min(self.written);
        if self.released < acked {
            let range = ByteRange::new(self.released, acked);
            self.released = acked;
            return Some(Event::Release(range));
        }
        if self.finish && self.acked > self.written && !self.finished {
            self.finished = true;
            return Some(Event::Finished);
        }
        None
    }

    #[inline]
    fn poll_timeout(&self) -> Option<Deadline> {
        let at = |at: Option<Instant>, why| at.map(|at| Deadline { at, why });
        let stop = self.stop_at.filter(|_| !self.finished && self.acked == self.written);
        let timers = [
            at(self.scavenger.timer(), Timer::Retransmit),
            at(self.guarantee.timer(), Timer::Retransmit),
            at(self.ends, Timer::RateControl),
            at(self.has_backlog().then_some(self.pace_next), Timer::Pace),
            at(self.overtakes_at().map(|at| at.max(self.pace_next)), Timer::Pace),
            at(stop, Timer::Retransmit),
        ];
        timers.into_iter().flatten().min_by_key(|deadline| deadline.at)
    }

    fn unsent(&self) -> u64 {
        self.written.saturating_sub(self.next)
    }

    fn statistics(&self) -> Statistics {
        Statistics {
            packets_sent: u64::from(self.guarantee.sent()) + u64::from(self.scavenger.sent()),
            bytes_sent: self.guarantee.sent_bytes() + self.scavenger.sent_bytes(),
            retransmissions: self.retransmissions,
            timeouts: self.guarantee.timeouts() + self.scavenger.timeouts(),
            marks: self.guarantee.marks() + self.scavenger.marks(),
            ..Statistics::default()
        }
    }
}
