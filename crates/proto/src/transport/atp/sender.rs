//! The sending side.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::convert::Infallible;

use super::backup::Backup;
use super::config::{AtpConfig, LossDetection};
use super::knowledge::Knowledge;
use super::messages::{Messages, Pick, SizeClass};
use super::rate::RateControl;
use super::subflow::Subflow;
use crate::packet::{Body, DataFlags, Packet, SackBlocks, TrafficClass};
use crate::recovery::flight::{Flight, NEVER, Sent};
use crate::recovery::rtt::RttEstimator;
use crate::time::{Instant, Span};
use crate::transport::{Command, Deadline, Event, Statistics, Timer, Transport};

/// How often `Close` is sent before the application hears that the flow has ended. `Close` is still repeated then, because
/// the receiver learns only from it that everything has arrived, and an outage may outlast these tries.
const CLOSE_TRIES: u8 = 8;
/// Longest time between two of them.
const CLOSE_RETRY_MAX: Span = Span::from_secs(5);
/// The tail timer doubles at most this often.
const BACK_OFF_MAX: u32 = 6;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// Messages are sent.
    Open,
    /// `Close` is due.
    CloseDue,
    /// `Close` was sent, and is sent again at this time.
    Closing(Instant),
    /// The peer has answered.
    Over,
}

/// Sends messages until enough of them have arrived.
pub struct AtpSender {
    config: Arc<AtpConfig>,
    phase: Phase,
    /// Messages of the flow, once the application has said how many.
    total: Option<u32>,
    finish: bool,
    /// Whole messages that the receiver has counted.
    complete: u32,
    close_tries: u8,
    /// The application knows that the flow has ended.
    told: bool,
    /// Timeouts since the last arrival, and when the last one was.
    back_off: u32,
    backed_off_at: Instant,
    last_arrival: Instant,
    /// The receiver's count of marks.
    marks: u16,
    rtt: RttEstimator,
    base_rtt: Option<Span>,
    primary: Subflow,
    control: Option<Box<RateControl>>,
    backup: Option<Box<Backup>>,
    messages: Box<Messages>,
    statistics: Box<Statistics>,
}

impl AtpSender {
    /// A sender without messages; `config` must pass [`AtpConfig::check`].
    pub fn new(config: Arc<AtpConfig>) -> Self {
        assert_eq!(config.check(), Ok(()), "configurations are checked when they are read");
        let threshold = match config.loss {
            LossDetection::Order { threshold } => threshold,
            LossDetection::Timeout(_) => NEVER,
        };
        let rtt = RttEstimator::new(&config.timer);
        let guess = config.timer.initial;
        let control = config.rate_control.map(|control| Box::new(RateControl::new(&config, control, guess)));
        let rate = control.as_ref().map_or(config.max_rate, |control| control.rate());
        let backup = || Box::new(Backup::new(Subflow::new(threshold, config.max_rate)));
        Self {
            phase: Phase::Open,
            total: None,
            finish: false,
            complete: 0,
            close_tries: 0,
            told: false,
            back_off: 0,
            backed_off_at: Instant::ZERO,
            last_arrival: Instant::ZERO,
            marks: 0,
            rtt,
            base_rtt: None,
            primary: Subflow::new(threshold, rate),
            control,
            backup: config.backup.then(backup),
            messages: Box::new(Messages::new(config.payload, config.order)),
            statistics: Box::default(),
            config,
        }
    }

    /// The paper's N_ack: for how many messages those that arrived are enough.
    pub fn acknowledged(&self) -> u64 {
        self.config.max_loss.acknowledged(self.complete)
    }

    /// Whole messages that the receiver has counted, as far as the sender knows.
    pub fn complete(&self) -> u32 {
        self.complete
    }

    /// The messages known to have arrived, by size: class `i` holds messages of up to 2^i packets. More may have
    /// arrived if acknowledgements were lost; [`Self::complete`] is the receiver's own count.
    pub fn by_size(&self) -> [SizeClass; 16] {
        self.messages.by_size()
    }

    /// The rate of the primary sub-flow in bits per second, on the wire.
    pub fn rate(&self) -> u64 {
        self.control.as_ref().map_or(self.config.max_rate, |control| control.rate()).bits_per_sec()
    }

    /// The priority that follows from the rate, from 1, the highest.
    pub fn priority(&self) -> u8 {
        1 + self.control.as_ref().map_or(0, |control| control.priority())
    }

    fn smoothed_rtt(&self) -> Span {
        let rtt = self.rtt.smoothed();
        if rtt == Span::ZERO { self.config.timer.initial } else { rtt }
    }

    /// Whether lost packets are sent again: all new messages were sent, and too few have arrived.
    #[inline]
    fn repairs(&self) -> bool {
        !self.messages.has_fresh() && self.complete < self.config.max_loss.needed(self.messages.sent())
    }

    /// Ends the flow once enough of its messages have arrived.
    fn close_if_enough(&mut self) {
        if let Some(total) = self.total
            && self.phase == Phase::Open
            && self.complete >= self.config.max_loss.needed(total.max(self.messages.count()))
            && !(self.config.sends_all && self.is_sending())
        {
            self.phase = Phase::CloseDue;
        }
    }

    /// Whether a packet waits for its first turn, or is under way.
    fn is_sending(&self) -> bool {
        let under_way = |subflow: &Subflow| subflow.flight.under_way() > 0;
        let backup = self.backup.as_ref().is_some_and(|backup| under_way(&backup.subflow));
        self.messages.has_fresh() || under_way(&self.primary) || backup
    }

    /// Whether a window law lets another packet go.
    #[inline]
    fn has_room(&self) -> bool {
        self.control.as_ref().is_none_or(|control| control.has_room(self.primary.flight.under_way()))
    }

    fn knowledge(&self) -> Knowledge {
        let flight = &self.primary.flight;
        Knowledge {
            rtt: self.smoothed_rtt(),
            base_rtt: self.base_rtt,
            settled: flight.settled(),
            next: flight.next_number(),
            under_way: flight.under_way(),
        }
    }

    /// Lets the rate control evaluate its windows.
    fn advance_control(&mut self, now: Instant) {
        let Some(control) = &self.control else { return };
        let (mut changed, settled) = (control.listens(), self.primary.flight.settled());
        if control.is_due(now, settled) {
            let know = self.knowledge();
            let judged = self.control.as_mut().expect("as above").advance(now, &know);
            if judged && let Some(backup) = &mut self.backup {
                backup.on_window();
            }
            changed |= judged;
        }
        if changed {
            self.follow_rate();
        }
    }

    fn follow_rate(&mut self) {
        let Some(control) = &self.control else { return };
        self.primary.pacer.set_rate(control.rate());
        if let Some(backup) = &mut self.backup {
            backup.set_rate(control.spare());
        }
    }

    fn handle_ack(&mut self, now: Instant, number: u32, received: u64, complete: u32, marks: u16, is_backup: bool) {
        if complete > self.messages.count() || self.phase != Phase::Open {
            return;
        }
        let subflow = match &mut self.backup {
            Some(backup) if is_backup => &mut backup.subflow,
            None if is_backup => return,
            _ => &mut self.primary,
        };
        let Some(number) = subflow.flight.expand(number) else { return };
        self.complete = self.complete.max(complete);
        let mut bits = subflow.news(number, received);
        let mut news = self.handle_arrival(now, number, is_backup, true);
        while bits != 0 {
            let below = u64::from(bits.trailing_zeros());
            bits &= bits - 1;
            if let Some(number) = number.checked_sub(1 + below) {
                news |= self.handle_arrival(now, number, is_backup, false);
            }
        }
        if news {
            (self.back_off, self.last_arrival) = (0, now);
            self.judge_order(now, is_backup);
        }
        // A count that went back comes from an acknowledgement that was overtaken.
        let more = marks.wrapping_sub(self.marks);
        if !is_backup && more > 0 && more < 1 << 15 {
            self.marks = marks;
            self.statistics.marks += u64::from(more);
            let know = self.knowledge();
            if let Some(control) = &mut self.control {
                control.on_marked(now, number, &know);
            }
        }
        self.advance_control(now);
        self.close_if_enough();
    }

    /// Packet `number` has arrived; `answered` if this acknowledgement answers it, so that its time is known.
    fn handle_arrival(&mut self, now: Instant, number: u64, is_backup: bool, answered: bool) -> bool {
        let subflow = match &mut self.backup {
            Some(backup) if is_backup => &mut backup.subflow,
            _ => &mut self.primary,
        };
        let Some(Sent { at, message, fragment, .. }) = subflow.flight.arrived(number) else { return false };
        self.messages.arrived(message, fragment);
        if is_backup {
            self.backup.as_mut().expect("it sent the packet").on_arrived();
            return true;
        }
        let rtt = answered.then(|| now.since(at));
        if let Some(rtt) = rtt {
            self.sample_rtt(rtt);
        }
        if let Some(control) = &mut self.control {
            control.on_arrived(number);
            if control.listens() {
                let know = self.knowledge();
                self.control.as_mut().expect("as above").on_ack(now, rtt, &know);
            }
        }
        true
    }

    fn sample_rtt(&mut self, rtt: Span) {
        self.rtt.sample(&self.config.timer, rtt);
        let first = self.base_rtt.is_none();
        self.base_rtt = Some(self.base_rtt.map_or(rtt, |base| base.min(rtt)));
        if first && let Some(control) = &mut self.control {
            control.on_first_rtt(rtt);
        }
    }

    fn judge_order(&mut self, now: Instant, is_backup: bool) {
        if let Some(backup) = &mut self.backup
            && is_backup
        {
            let (messages, mut lost) = (&mut self.messages, 0);
            backup.subflow.flight.judge_order(|_, sent| {
                messages.lost_backup(sent.message, sent.fragment);
                lost += 1;
            });
            backup.on_lost(lost);
            return;
        }
        let know = self.knowledge();
        let (messages, control) = (&mut self.messages, &mut self.control);
        self.primary.flight.judge_order(|number, sent| {
            messages.lost(sent.message, sent.fragment);
            if let Some(control) = control {
                control.on_lost(now, number, &know);
            }
        });
    }

    /// When the tail timer of a sub-flow expires; [`Instant::MAX`] if nothing is in flight. While acknowledgements
    /// arrive, order reveals losses. So the timer runs from the last acknowledgement; otherwise lost acknowledgements
    /// would make it too fast.
    #[inline]
    fn tail_at(&self, flight: &Flight) -> Instant {
        let Some(oldest) = flight.oldest() else { return Instant::MAX };
        match self.config.loss {
            LossDetection::Timeout(span) => oldest.after(span),
            LossDetection::Order { .. } => {
                oldest.max(self.last_arrival).after(self.rtt.rto().times(1 << self.back_off.min(BACK_OFF_MAX)))
            }
        }
    }

    fn handle_tail(&mut self, now: Instant) {
        // Where order should have told and did not, the packets of a whole round trip are gone. The timer alone judges
        // each packet by itself.
        let waited = match self.config.loss {
            LossDetection::Timeout(span) => span,
            LossDetection::Order { .. } => self.smoothed_rtt().min(self.rtt.rto()),
        };
        let Some(until) = now.as_ps().checked_sub(waited.as_ps()) else { return };
        let until = Instant::from_ps(until);
        let know = self.knowledge();
        let (messages, control) = (&mut self.messages, &mut self.control);
        let mut last_sent = None;
        self.primary.flight.judge_time(until, |number, sent| {
            messages.lost(sent.message, sent.fragment);
            last_sent = Some(sent.at);
            if let Some(control) = control {
                control.on_lost(now, number, &know);
            }
        });
        // The timer doubles when what was sent after its last expiry is lost again.
        if last_sent.is_some_and(|at| at >= self.backed_off_at) {
            self.statistics.timeouts += 1;
            self.back_off += 1;
            self.backed_off_at = now;
        }
        if let Some(backup) = &mut self.backup {
            let mut lost = 0;
            backup.subflow.flight.judge_time(until, |_, sent| {
                messages.lost_backup(sent.message, sent.fragment);
                lost += 1;
            });
            backup.on_lost(lost);
        }
    }

    fn handle_close_timeout(&mut self, now: Instant) {
        if let Phase::Closing(at) = self.phase
            && at <= now
        {
            self.statistics.timeouts += 1;
            self.phase = Phase::CloseDue;
        }
    }

    fn transmit_close(&mut self, now: Instant) -> Packet {
        let total = self.total.expect("a flow closes once its messages are counted");
        let messages = total.max(self.messages.count());
        let wait = self.rtt.rto().times(1 << self.close_tries.min(CLOSE_TRIES - 1)).min(CLOSE_RETRY_MAX);
        self.close_tries = self.close_tries.saturating_add(1);
        self.phase = Phase::Closing(now.after(wait));
        Packet::new(self.config.control_class, self.config.wire.wire_bytes(0), Body::Close { messages })
    }

    fn transmit_primary(&mut self, now: Instant) -> Option<Packet> {
        if self.primary.pacer.next_at() > now || !self.has_room() {
            return None;
        }
        let pick = self.messages.next(self.repairs())?;
        let rtt = self.smoothed_rtt();
        let class = self.config.class_of(self.control.as_ref().map_or(0, |control| control.priority()));
        let number = self.primary.flight.push(sent(now, &pick, class));
        if let Some(control) = &mut self.control {
            control.on_sent(now, number, rtt);
        }
        let packet = self.packet(pick, number, class, DataFlags::NONE);
        self.primary.pacer.on_sent(now, packet.wire_bytes);
        Some(packet)
    }

    #[inline]
    fn transmit_backup(&mut self, now: Instant) -> Option<Packet> {
        if self.backup_at()? > now {
            return None;
        }
        self.send_backup(now)
    }

    fn send_backup(&mut self, now: Instant) -> Option<Packet> {
        let pick = self.messages.next_backup()?;
        let class = self.config.backup_class();
        let backup = self.backup.as_mut()?;
        let number = backup.subflow.flight.push(sent(now, &pick, class));
        backup.on_sent();
        let packet = self.packet(pick, number, class, DataFlags::BACKUP);
        self.backup.as_mut()?.subflow.pacer.on_sent(now, packet.wire_bytes);
        Some(packet)
    }

    /// When the backup sub-flow may send, if it may.
    #[inline]
    fn backup_at(&self) -> Option<Instant> {
        let backup = self.backup.as_ref().filter(|backup| backup.may_send())?;
        self.messages.has_next_backup().then(|| backup.subflow.pacer.next_at())
    }

    fn packet(&mut self, pick: Pick, number: u64, class: TrafficClass, flags: DataFlags) -> Packet {
        let Pick { message, fragment, length, len, last, retransmission } = pick;
        self.statistics.packets_sent += 1;
        self.statistics.bytes_sent += u64::from(len);
        self.statistics.retransmissions += u64::from(retransmission);
        let missing = || self.messages.missing_bytes().min(u32::MAX.into()) as u32;
        let body = Body::Message {
            number: number as u32,
            message,
            fragment,
            length,
            priority: if self.config.remaining_as_priority { missing() } else { 0 },
            len,
            flags: flags.with_if(DataFlags::FIN, last).with_if(DataFlags::RETRANSMISSION, retransmission),
        };
        Packet::new(class, self.config.wire.wire_bytes(len), body)
    }

    /// The earliest deadline of an open flow.
    #[inline]
    fn open_deadline(&self) -> Option<Deadline> {
        let mut next = Deadline { at: Instant::MAX, why: Timer::Pace };
        let mut consider = |at: Instant, why| {
            if at < next.at {
                next = Deadline { at, why };
            }
        };
        if self.messages.has_next(self.repairs()) && self.has_room() {
            consider(self.primary.pacer.next_at(), Timer::Pace);
        }
        consider(self.tail_at(&self.primary.flight), Timer::LossDetection);
        if let Some(control) = &self.control {
            consider(control.deadline(), Timer::RateControl);
        }
        if let Some(backup) = &self.backup {
            if let Some(at) = self.backup_at() {
                consider(at, Timer::Pace);
            }
            consider(self.tail_at(&backup.subflow.flight), Timer::LossDetection);
        }
        (next.at < Instant::MAX).then_some(next)
    }
}

fn sent(at: Instant, pick: &Pick, class: TrafficClass) -> Sent {
    Sent { at, message: pick.message, fragment: pick.fragment, class: class.class() as u8 }
}

impl Transport for AtpSender {
    type Request = Infallible;
    type Answer = Infallible;

    fn handle_packet(&mut self, now: Instant, packet: &Packet, _sack: &SackBlocks) {
        match packet.body() {
            Body::MessageAck { number, received, complete, marks, backup } => {
                self.handle_ack(now, number, received, complete, marks, backup);
            }
            Body::CloseAck { .. } if matches!(self.phase, Phase::Closing(_) | Phase::CloseDue) => {
                self.phase = Phase::Over;
            }
            _ => {}
        }
    }

    fn handle_command(&mut self, _now: Instant, command: Command) {
        match command {
            Command::AnnounceMessages { messages } if self.total.is_none() => {
                self.total = Some(messages);
                self.messages.reserve(messages);
                self.primary.flight.reserve(messages);
                self.close_if_enough();
            }
            // More messages never make enough of those that have arrived.
            Command::SendMessage { bytes } if !self.finish && self.phase == Phase::Open => {
                self.messages.push(bytes);
            }
            Command::Send { bytes } if !self.finish && self.phase == Phase::Open => {
                let payload = u64::from(self.config.payload);
                let mut rest = bytes;
                while rest > 0 && self.messages.push(rest.min(payload) as u32) {
                    rest -= rest.min(payload);
                }
            }
            Command::Finish => {
                self.finish = true;
                if self.phase == Phase::Open {
                    self.total = Some(self.messages.count());
                }
                self.close_if_enough();
            }
            _ => {}
        }
    }

    /// The smoothed round-trip time adapts within a few packets. Until then it spreads the first window.
    fn handle_new_path(&mut self, _now: Instant) {
        self.base_rtt = None;
        let rtt = self.rtt.smoothed();
        if let Some(control) = &mut self.control {
            control.on_new_path(rtt);
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        if self.phase == Phase::Open {
            let backup = self.backup.as_ref().map(|backup| &backup.subflow.flight);
            let expired = |flight: &Flight| self.tail_at(flight) <= now;
            if expired(&self.primary.flight) || backup.is_some_and(expired) {
                self.handle_tail(now);
                self.close_if_enough();
            }
            self.advance_control(now);
        }
        self.handle_close_timeout(now);
    }

    #[inline]
    fn poll_transmit(&mut self, now: Instant) -> Option<Packet> {
        match self.phase {
            Phase::Open => self.transmit_primary(now).or_else(|| self.transmit_backup(now)),
            Phase::CloseDue => Some(self.transmit_close(now)),
            Phase::Closing(_) | Phase::Over => None,
        }
    }

    #[inline]
    fn poll_event(&mut self) -> Option<Event> {
        let over = self.phase == Phase::Over || self.close_tries > CLOSE_TRIES;
        if !over || self.told {
            return None;
        }
        self.told = true;
        Some(Event::Finished)
    }

    #[inline]
    fn poll_timeout(&self) -> Option<Deadline> {
        match self.phase {
            Phase::Open => self.open_deadline(),
            Phase::Closing(at) => Some(Deadline { at, why: Timer::Retransmit }),
            Phase::CloseDue | Phase::Over => None,
        }
    }

    fn statistics(&self) -> Statistics {
        *self.statistics
    }
}
