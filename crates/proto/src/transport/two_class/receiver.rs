//! The receiving side: puts both sub-flows in order and reports what each met.

use alloc::sync::Arc;
use core::convert::Infallible;

use super::config::TwoClassConfig;
use crate::packet::{
    AckFlags, Body, ByteRange, DataFlags, Ecn, Packet, SackBlocks, ShortTime, Subflow, WINDOW_UNLIMITED,
};
use crate::recovery::delivery::InOrderDelivery;
use crate::time::{Instant, Span};
use crate::transport::flex_pass::Run;
use crate::transport::tcp::MAX_STREAM;
use crate::transport::{Command, Deadline, Event, Statistics, Timer, Transport};

/// The path's least delay is searched in two stretches of this length, because routes change and clocks drift.
const BASE_LIFE: Span = Span::from_secs(10);
/// Weight of the newest marked packet in their mean wait.
const GAIN: f64 = 1.0 / 16.0;

/// Tells from the delays of its packets whether a class is busy.
///
/// Delays are in units of [`ShortTime`], modulo 2³², between two clocks: only differences count.
#[derive(Clone, Copy, Debug, Default)]
struct Waiting {
    /// Least delay of this stretch of time and of the one before.
    least: Option<(u32, u32)>,
    stretch_began: Instant,
    /// Mean wait of packets that were marked; zero before the first.
    marked: f64,
}

impl Waiting {
    /// Whether a packet sent at `sent_at` has waited at least half as long as marked packets do.
    fn on_arrival(&mut self, now: Instant, sent_at: ShortTime, marked: bool) -> bool {
        let delay = ShortTime::of(now).bits().wrapping_sub(sent_at.bits());
        let lower = |one: u32, other: u32| if one.wrapping_sub(other) as i32 > 0 { other } else { one };
        let (current, before) = self.least.unwrap_or((delay, delay));
        self.least = Some((lower(current, delay), before));
        if now.since(self.stretch_began) >= BASE_LIFE {
            (self.least, self.stretch_began) = (Some((delay, lower(current, delay))), now);
        }
        let (current, before) = self.least.unwrap_or_default();
        let wait = f64::from(delay.wrapping_sub(lower(current, before)).cast_signed().max(0));
        if marked {
            self.marked = if self.marked == 0.0 { wait } else { self.marked + GAIN * (wait - self.marked) };
        }
        marked || self.marked > 0.0 && wait >= self.marked / 2.0
    }
}

/// Receives one flow.
pub struct TwoClassReceiver {
    config: Arc<TwoClassConfig>,
    stream: InOrderDelivery,
    guarantee: Run,
    scavenger: Run,
    waiting: Waiting,
    /// Packets of the scavenger since the last acknowledgement of it, and whether they were marked.
    unanswered: u8,
    marked: bool,
    /// When those must be answered at the latest, if there are any.
    answer_by: Instant,
    /// The answers of the next polls.
    answers: [Option<Answer>; 2],
    stop_ack_due: bool,
    marks: u64,
    duplicate_bytes: u64,
    reactive_bytes: u64,
    reorder_bytes: u64,
}

/// An acknowledgement that is due.
#[derive(Clone, Copy)]
struct Answer {
    subflow: Subflow,
    run: Run,
    flags: AckFlags,
}

/// A data packet's content.
#[derive(Clone, Copy)]
struct Segment {
    seq: u64,
    number: u32,
    len: u16,
    fin: bool,
    subflow: Subflow,
}

impl TwoClassReceiver {
    /// `config` must pass [`TwoClassConfig::check`].
    pub fn new(config: Arc<TwoClassConfig>) -> Self {
        assert_eq!(config.check(), Ok(()), "configurations are checked when they are read");
        Self {
            config,
            stream: InOrderDelivery::new(),
            guarantee: Run::default(),
            scavenger: Run::default(),
            waiting: Waiting::default(),
            unanswered: 0,
            marked: false,
            answer_by: Instant::ZERO,
            answers: [None; 2],
            stop_ack_due: false,
            marks: 0,
            duplicate_bytes: 0,
            reactive_bytes: 0,
            reorder_bytes: 0,
        }
    }

    /// Takes in `segment`; false if no correct sender sends it, or there is no room to keep it out of order.
    #[inline]
    fn reassemble(&mut self, segment: &Segment) -> bool {
        let end = segment.seq.checked_add(u64::from(segment.len));
        // What does not fit counts as lost on the way: it is not answered, and the next answer shows the gap.
        let room = self.config.reorder_buffer.map_or(u64::MAX, |bytes| self.stream.next().saturating_add(bytes));
        let most = MAX_STREAM.min(self.stream.end()).min(room);
        let Some(end) = end.filter(|end| *end <= most) else { return false };
        let Some(taken) = self.stream.take(ByteRange::new(segment.seq, end)) else { return false };
        if segment.fin {
            self.stream.set_end(end);
        }
        self.duplicate_bytes += taken.duplicate;
        self.reorder_bytes = self.reorder_bytes.max(taken.stretch);
        if segment.subflow == Subflow::Reactive {
            self.reactive_bytes += taken.fresh;
        }
        true
    }

    /// At most two answers wait, because both are taken after each packet.
    fn answer(&mut self, answer: Answer) {
        let free = usize::from(self.answers[0].is_some());
        self.answers[free] = Some(answer);
    }

    fn answer_scavenger(&mut self, run: Run, marked: bool) {
        self.unanswered = 0;
        self.answer(Answer { subflow: Subflow::Reactive, run, flags: AckFlags::NONE.with_if(AckFlags::ECE, marked) });
    }

    #[inline]
    fn on_scavenger(&mut self, now: Instant, segment: &Segment, marked: bool) {
        let before = self.scavenger;
        let (run, ahead) = self.scavenger.take(segment.number);
        // As DCTCP does: packets so far are answered under their own mark (RFC 8257 section 3.2).
        let changed = marked != self.marked;
        if changed && self.unanswered > 0 {
            self.answer_scavenger(before, self.marked);
        }
        self.marked = marked;
        if self.unanswered == 0 {
            self.answer_by = now.after(self.config.max_ack_delay);
        }
        self.unanswered += 1;
        if ahead != 0 || changed || self.unanswered >= self.config.ack_every || self.stream.is_complete() {
            self.answer_scavenger(run, marked);
        }
    }

    fn control(&self, body: Body) -> Packet {
        Packet::new(self.config.ack_class, self.config.wire.wire_bytes(0), body)
    }
}

impl Transport for TwoClassReceiver {
    type Request = Infallible;
    type Answer = Infallible;

    #[inline]
    fn handle_packet(&mut self, now: Instant, packet: &Packet, _sack: &SackBlocks) {
        let marked = packet.traffic_class.ecn() == Ecn::Ce;
        match packet.body() {
            Body::Scheduled { seq, number, credit, len, flags } => {
                let fin = flags.contains(DataFlags::FIN);
                let waited = self.waiting.on_arrival(now, credit.sent_at, marked);
                if self.reassemble(&Segment { seq, number, len, fin, subflow: Subflow::Proactive }) {
                    self.marks += u64::from(marked);
                    let (run, _) = self.guarantee.take(number);
                    let flags = AckFlags::NONE.with_if(AckFlags::ECE, marked).with_if(AckFlags::WAITED, waited);
                    self.answer(Answer { subflow: Subflow::Proactive, run, flags });
                }
            }
            Body::Unscheduled { seq, number, len, flags } => {
                let segment =
                    Segment { seq, number, len, fin: flags.contains(DataFlags::FIN), subflow: Subflow::Reactive };
                if self.reassemble(&segment) {
                    self.marks += u64::from(marked);
                    self.on_scavenger(now, &segment, marked);
                }
            }
            Body::CreditStop { end, flags } if end <= MAX_STREAM => {
                self.stop_ack_due = true;
                if flags.contains(DataFlags::FIN) && self.stream.end() == u64::MAX && end >= self.stream.highest() {
                    self.stream.set_end(end);
                }
            }
            _ => {}
        }
    }

    fn handle_command(&mut self, _now: Instant, command: Command) {
        if command == Command::Acknowledge && self.unanswered > 0 {
            self.answer_scavenger(self.scavenger, self.marked);
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        if self.unanswered > 0 && self.answer_by <= now {
            self.answer_scavenger(self.scavenger, self.marked);
        }
    }

    #[inline]
    fn poll_transmit(&mut self, _now: Instant) -> Option<Packet> {
        if let Some(Answer { subflow, run, flags }) = self.answers[0].take() {
            self.answers.swap(0, 1);
            let body = Body::SubflowAck { ack: self.stream.ack(), first: run.first, end: run.end, subflow, flags };
            return Some(self.control(body));
        }
        core::mem::take(&mut self.stop_ack_due).then(|| {
            let flags = AckFlags::NONE;
            self.control(Body::Ack { ack: self.stream.ack(), echo: None, window: WINDOW_UNLIMITED, flags })
        })
    }

    #[inline]
    fn poll_event(&mut self) -> Option<Event> {
        self.stream.poll_event()
    }

    #[inline]
    fn poll_timeout(&self) -> Option<Deadline> {
        (self.unanswered > 0).then_some(Deadline { at: self.answer_by, why: Timer::DelayedAck })
    }

    fn statistics(&self) -> Statistics {
        Statistics {
            marks: self.marks,
            duplicate_bytes: self.duplicate_bytes,
            reactive_bytes: self.reactive_bytes,
            reorder_bytes: self.reorder_bytes,
            ..Statistics::default()
        }
    }
}
