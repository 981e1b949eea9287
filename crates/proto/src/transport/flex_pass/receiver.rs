//! The receiving side: credits, reassembly of both sub-flows, acknowledgements.

use alloc::sync::Arc;
use core::convert::Infallible;

use super::Run;
use super::config::{FlexPassConfig, Reactive};
use crate::packet::{AckFlags, Body, ByteRange, DataFlags, Ecn, Packet, SackBlocks, Subflow, WINDOW_UNLIMITED};
use crate::recovery::delivery::InOrderDelivery;
use crate::rng::Stream;
use crate::time::Instant;
use crate::transport::express_pass::CreditSource;
use crate::transport::tcp::MAX_STREAM;
use crate::transport::{Command, Deadline, Event, Statistics, Timer, Transport};

/// Receives one FlexPass flow.
pub struct FlexPassReceiver {
    config: Arc<FlexPassConfig>,
    source: CreditSource,
    stream: InOrderDelivery,
    proactive: Run,
    reactive: Run,
    /// Proactive packets since the last acknowledgement.
    unanswered: u16,
    /// When the oldest of those must be answered at the latest, if there is one.
    answer_by: Instant,
    /// The answer of the next poll.
    answer: Option<Answer>,
    stop_ack_due: bool,
    syn_echo: Option<Instant>,
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
    marked: bool,
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

impl FlexPassReceiver {
    /// A receiver that paces up to `greatest` bytes of credits per second; the jitter between them is drawn from
    /// `stream`, which no other flow shares. `config` must pass [`FlexPassConfig::check`].
    pub fn new(config: Arc<FlexPassConfig>, greatest: f64, stream: Stream) -> Self {
        assert_eq!(config.check(), Ok(()), "configurations are checked when they are read");
        Self {
            source: CreditSource::new(&config.credit, greatest, stream),
            config,
            stream: InOrderDelivery::new(),
            proactive: Run::default(),
            reactive: Run::default(),
            unanswered: 0,
            answer_by: Instant::ZERO,
            answer: None,
            stop_ack_due: false,
            syn_echo: None,
            marks: 0,
            duplicate_bytes: 0,
            reactive_bytes: 0,
            reorder_bytes: 0,
        }
    }

    #[inline]
    fn handle_data(&mut self, now: Instant, segment: Segment, marked: bool) {
        let end = segment.seq.checked_add(u64::from(segment.len));
        let Some(end) = end.filter(|end| *end <= MAX_STREAM.min(self.stream.end())) else { return };
        // What does not fit counts as lost on the way: it is not answered, and the next answer shows the gap.
        let room = self.config.reorder_buffer.map_or(u64::MAX, |bytes| self.stream.next().saturating_add(bytes));
        if end > room || !self.reassemble(&segment, end) {
            return;
        }
        if segment.fin {
            self.stream.set_end(end);
        }
        self.marks += u64::from(marked);
        self.acknowledge(now, &segment, marked);
    }

    /// Takes in `segment`, which ends at `end`; false if there is no room to keep it out of order.
    #[inline]
    fn reassemble(&mut self, segment: &Segment, end: u64) -> bool {
        let Some(taken) = self.stream.take(ByteRange::new(segment.seq, end)) else { return false };
        self.duplicate_bytes += taken.duplicate;
        self.reorder_bytes = self.reorder_bytes.max(taken.stretch);
        if segment.subflow == Subflow::Reactive {
            self.reactive_bytes += taken.fresh;
        }
        true
    }

    /// Notes the packet's number and decides whether to answer.
    #[inline]
    fn acknowledge(&mut self, now: Instant, segment: &Segment, marked: bool) {
        let Segment { number, subflow, .. } = *segment;
        let run = match subflow {
            Subflow::Proactive => &mut self.proactive,
            Subflow::Reactive => &mut self.reactive,
        };
        let (answered, ahead) = run.take(number);
        if subflow == Subflow::Proactive {
            if self.unanswered == 0 {
                self.answer_by = now.after(self.config.longest_silence());
            }
            self.unanswered = self.unanswered.saturating_add(1);
            let wanted = self.unanswered >= self.config.proactive_ack_every
                || ahead != 0
                || self.stream.next() >= self.stream.end();
            if !wanted {
                return;
            }
            self.unanswered = 0;
        }
        self.answer = Some(Answer { subflow, run: answered, marked });
    }

    fn handle_stop(&mut self, end: u64, fin: bool) {
        if end > MAX_STREAM {
            return;
        }
        self.source.stop();
        self.stop_ack_due = true;
        // The answer to the stop tells everything.
        self.unanswered = 0;
        if fin && self.stream.end() == u64::MAX && end >= self.stream.highest() {
            self.stream.set_end(end);
        }
    }

    fn control(&self, body: Body, red: bool) -> Packet {
        let config = &self.config.credit;
        Packet::new(config.data_class.with_red(red), config.control_bytes(), body)
    }

    fn red_acks(&self) -> bool {
        matches!(&self.config.reactive, Reactive::Window(window) if window.red_acks)
    }
}

impl Transport for FlexPassReceiver {
    type Request = Infallible;
    type Answer = Infallible;

    #[inline]
    fn handle_packet(&mut self, now: Instant, packet: &Packet, _sack: &SackBlocks) {
        let marked = packet.traffic_class.ecn() == Ecn::Ce;
        match packet.body() {
            Body::Scheduled { seq, number, credit, len, flags } => {
                self.source.on_echo(now, credit);
                let fin = flags.contains(DataFlags::FIN);
                self.handle_data(now, Segment { seq, number, len, fin, subflow: Subflow::Proactive }, marked);
            }
            Body::Unscheduled { seq, number, len, flags } => {
                let fin = flags.contains(DataFlags::FIN);
                self.handle_data(now, Segment { seq, number, len, fin, subflow: Subflow::Reactive }, marked);
            }
            Body::CreditRequest { backlog, .. } => self.source.start(now, &self.config.credit, backlog),
            Body::CreditStop { end, flags } => self.handle_stop(end, flags.contains(DataFlags::FIN)),
            Body::Syn { sent_at } => self.syn_echo = Some(sent_at),
            _ => {}
        }
    }

    fn handle_command(&mut self, _now: Instant, _command: Command) {}

    fn handle_timeout(&mut self, now: Instant) {
        if self.unanswered > 0 && self.answer_by <= now {
            self.unanswered = 0;
            self.answer = Some(Answer { subflow: Subflow::Proactive, run: self.proactive, marked: false });
        }
    }

    #[inline]
    fn poll_transmit(&mut self, now: Instant) -> Option<Packet> {
        if let Some(Answer { subflow, run: Run { first, end }, marked }) = self.answer.take() {
            let red = subflow == Subflow::Reactive && self.red_acks();
            let flags = AckFlags::NONE.with_if(AckFlags::ECE, marked);
            return Some(self.control(Body::SubflowAck { ack: self.stream.ack(), first, end, subflow, flags }, red));
        }
        if core::mem::take(&mut self.stop_ack_due) {
            let body =
                Body::Ack { ack: self.stream.ack(), echo: None, window: WINDOW_UNLIMITED, flags: AckFlags::NONE };
            return Some(self.control(body, false));
        }
        if let Some(echo) = self.syn_echo.take() {
            return Some(self.control(Body::SynAck { echo, window: WINDOW_UNLIMITED }, self.red_acks()));
        }
        self.source.poll(now, &self.config.credit)
    }

    #[inline]
    fn poll_event(&mut self) -> Option<Event> {
        self.stream.poll_event()
    }

    #[inline]
    fn poll_timeout(&self) -> Option<Deadline> {
        let pace = self.source.due().map(|at| Deadline { at, why: Timer::Pace });
        let answer = (self.unanswered > 0).then_some(Deadline { at: self.answer_by, why: Timer::DelayedAck });
        pace.into_iter().chain(answer).min_by_key(|deadline| deadline.at)
    }

    fn statistics(&self) -> Statistics {
        Statistics {
            marks: self.marks,
            duplicate_bytes: self.duplicate_bytes,
            credits_sent: self.source.sent(),
            reactive_bytes: self.reactive_bytes,
            reorder_bytes: self.reorder_bytes,
            ..Statistics::default()
        }
    }
}
