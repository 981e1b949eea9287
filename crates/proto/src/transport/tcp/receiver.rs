//! The receiving side: acknowledgements, reassembly, ECN echo, receive window.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::convert::Infallible;

use super::{LONG_ROUND_TRIP, MAX_STREAM, TcpConfig, window_end, window_field};
use crate::congestion::EcnMode;
use crate::packet::{AckFlags, Body, ByteRange, DataFlags, Ecn, Packet, SackBlocks, TrafficClass, WINDOW_UNLIMITED};
use crate::recovery::reassembly::Reassembly;
use crate::time::{Instant, OneWayDelay};
use crate::transport::{Command, Deadline, Event, Statistics, Timer, Transport};

/// Acknowledgements kept for the next poll; beyond it the latest replaces the one before.
const QUEUE_MAX: usize = 64;

/// Connection requests are awaited.
const LISTENING: u8 = 1;
/// Something waits out of order.
const DISORDERED: u8 = 2;
/// A plain acknowledgement of the current state is due.
const ACK_DUE: u8 = 4;
/// Acknowledgements of earlier states are queued.
const ACKS_QUEUED: u8 = 8;
/// A grant of the connection or the answer to a probe is due.
const REPLY_DUE: u8 = 16;
/// The application has yet to hear of the connection.
const CONNECTED: u8 = 32;
/// The application has heard that everything arrived.
const RECEIVED: u8 = 64;
/// FIN was seen.
const FIN_KNOWN: u8 = 128;

/// Flags of data that ask for something to be reported.
const ASKS: DataFlags = DataFlags::DELAY.with(DataFlags::HOLD).with(DataFlags::WINDOW_FULL);

/// The receiver of one flow.
///
/// Acknowledges in-order data with a delay ([`TcpConfig::ack_every`], [`TcpConfig::max_ack_delay`]) and everything
/// else at once: out-of-order data, data that fills a gap, duplicates, FIN, a change of congestion marks (RFC 8257).
pub struct TcpReceiver {
    /// Next byte expected (RCV.NXT); FIN counts as one.
    rcv_nxt: u64,
    /// One past the last byte given to the application.
    delivered: u64,
    /// Right edge of the advertised window; `u64::MAX` without a limit.
    window_end: u64,
    /// TS.Recent of RFC 7323: the earliest unacknowledged packet's timestamp.
    echo: Option<Instant>,
    /// Of the latest packet that asked for it, until it is reported.
    delay: Option<OneWayDelay>,
    last_ack_sent: u64,
    ack_deadline: Option<Instant>,
    /// Number of FIN, `u64::MAX` until it is known.
    fin: u64,
    consumed: u64,
    marks: u64,
    config: Arc<TcpConfig>,
    disorder: Option<Box<Disorder>>,
    state: u8,
    /// In-order packets not acknowledged yet.
    withheld: u8,
    /// Mark of the last packet (RFC 8257's DCTCP.CE); stays false in the other modes.
    ce: bool,
    /// Whether acknowledgements carry ECE.
    ece: bool,
}

/// What only disorder needs.
#[derive(Default)]
struct Disorder {
    reassembly: Reassembly,
    queue: VecDeque<PendingAck>,
    /// Blocks of the acknowledgement that was polled last.
    sack: SackBlocks,
    duplicate_bytes: u64,
    /// Packets that arrived after one that was sent later, and the latest of those: when it was sent, and what it holds.
    overtaken: u64,
    latest: (Instant, u64),
    /// When the packet arrived whose time acknowledgements echo, if its sender asks for how long it is held.
    held_since: Option<Instant>,
    connection_echo: Option<Instant>,
    /// What the buffer has become for a sender that waits.
    widening: Option<Widening>,
    /// The answer to the latest probe.
    probe_echo: Option<Packet>,
}

/// A receive buffer that may grow.
#[derive(Clone, Copy)]
struct Widening {
    /// Most bytes that it holds.
    buffer: u64,
    /// When, and behind which byte, its present stretch began.
    since: Instant,
    from: u64,
}

/// An acknowledgement as it was when the packet that caused it arrived.
struct PendingAck {
    ack: u64,
    echo: Option<Instant>,
    delay: Option<OneWayDelay>,
    held_since: Option<Instant>,
    flags: AckFlags,
    sack: SackBlocks,
}

/// A data packet's content.
#[derive(Clone, Copy)]
struct Segment {
    seq: u64,
    sent_at: Instant,
    len: u16,
    flags: DataFlags,
    ce: bool,
}

impl TcpReceiver {
    /// A receiver; `config` must pass [`TcpConfig::check`].
    pub fn new(config: Arc<TcpConfig>) -> Self {
        assert_eq!(config.check(), Ok(()), "configurations are checked when they are read");
        Self {
            rcv_nxt: 0,
            delivered: 0,
            window_end: window_end(0, config.receive_buffer.map_or(WINDOW_UNLIMITED, window_field)),
            echo: None,
            delay: None,
            last_ack_sent: 0,
            ack_deadline: None,
            fin: u64::MAX,
            consumed: 0,
            marks: 0,
            state: if config.handshake { LISTENING } else { 0 },
            config,
            disorder: None,
            withheld: 0,
            ce: false,
            ece: false,
        }
    }

    /// Next byte expected (RCV.NXT); one more once FIN has arrived.
    pub fn next_expected(&self) -> u64 {
        self.rcv_nxt
    }

    #[inline]
    fn is(&self, bits: u8) -> bool {
        self.state & bits != 0
    }

    fn disorder(&mut self) -> &mut Disorder {
        self.disorder.get_or_insert_with(Box::default)
    }

    /// Measures a packet's one-way delay if it asks for that, on arrival: what an acknowledgement is delayed by is no
    /// part of it. One acknowledgement reports one delay, that of the latest packet: it tells most about the queue as
    /// it is now. Each is reported once.
    #[inline]
    fn measure(&mut self, now: Instant, sent_at: Instant, flags: DataFlags) {
        if flags.contains(DataFlags::DELAY) {
            self.delay = Some(OneWayDelay::between(sent_at, now));
        }
    }

    /// A packet arrived that asks for how long it is held; `echoed` if acknowledgements echo its time from now on. They
    /// tell how long that packet has been here, so that what is left of a round-trip time is the network's. They leave
    /// through the queue, which has room for what travels beside them.
    #[cold]
    fn hold(&mut self, now: Instant, echoed: bool) {
        self.state |= ACKS_QUEUED;
        if echoed {
            self.disorder().held_since = Some(now);
        }
    }

    /// The sender had to wait for the window. It doubles if its bytes take long to come, as on a long path: there, and not on
    /// a short one, the window is what limits the flow.
    #[cold]
    fn widen(&mut self, now: Instant) {
        let (arrived, buffer) = (self.rcv_nxt, self.buffer());
        let Some(most) = self.config.largest_receive_buffer.filter(|most| buffer < *most) else { return };
        let began = Widening { buffer, since: now, from: arrived };
        let widening = self.disorder().widening.get_or_insert(began);
        if arrived - widening.from >= buffer {
            let long = now.since(widening.since) >= LONG_ROUND_TRIP;
            *widening = if long { Widening { buffer: most.min(2 * buffer), ..began } } else { began };
        }
    }

    /// An acknowledgement is due that no packet asks for just now.
    fn acknowledge_unasked(&mut self) {
        let holds = self.disorder.as_ref().is_some_and(|disorder| disorder.held_since.is_some());
        self.state |= if holds { ACK_DUE | ACKS_QUEUED } else { ACK_DUE };
    }

    /// In-order data arrived: acknowledge now, or later.
    #[inline]
    fn count_in_order(&mut self, now: Instant) {
        self.withheld = self.withheld.saturating_add(1);
        if self.withheld >= self.config.ack_every {
            self.state |= ACK_DUE;
        } else if self.ack_deadline.is_none() {
            self.ack_deadline = Some(now.after(self.config.max_ack_delay));
        }
    }

    #[inline(never)]
    fn handle_unusual(&mut self, now: Instant, segment: Segment) {
        let Some(end) = self.plausible_end(&segment) else { return };
        // What is due belongs to the state before this packet.
        if self.is(ACK_DUE) {
            self.queue_ack(None);
        }
        self.measure(now, segment.sent_at, segment.flags);
        let data_end = segment.seq + u64::from(segment.len);
        let whole = data_end <= self.acceptable_end();
        let fresh = ByteRange::new(segment.seq.max(self.rcv_nxt), if whole { end } else { self.acceptable_end() });
        if fresh.is_empty() {
            self.refuse(&segment);
            return;
        }
        if whole && segment.flags.contains(DataFlags::FIN) {
            self.fin = data_end;
            self.state |= FIN_KNOWN;
        }
        let mark_changed = self.note_mark(&segment);
        let echoed = segment.seq <= self.last_ack_sent && Some(segment.sent_at) >= self.echo;
        if echoed {
            self.echo = Some(segment.sent_at);
        }
        if segment.flags.contains(DataFlags::HOLD) {
            self.hold(now, echoed);
        }
        if segment.flags.contains(DataFlags::WINDOW_FULL) {
            self.widen(now);
        }
        self.accept(now, &segment, fresh, mark_changed);
    }

    /// One past the packet's last sequence number; `None` if no honest sender sends such a packet.
    fn plausible_end(&self, segment: &Segment) -> Option<u64> {
        let fin = segment.flags.contains(DataFlags::FIN);
        let data_end = segment.seq.checked_add(u64::from(segment.len)).filter(|end| *end <= MAX_STREAM)?;
        let highest = self.disorder.as_ref().map_or(0, |disorder| disorder.reassembly.highest()).max(self.rcv_nxt);
        let plausible = match (fin, self.fin) {
            (true, u64::MAX) => data_end >= highest,
            (true, known) => data_end == known,
            (false, known) => segment.len > 0 && data_end <= known,
        };
        (plausible && !self.is(LISTENING)).then_some(data_end + u64::from(fin))
    }

    /// Answers a packet of which nothing is new or nothing fits.
    fn refuse(&mut self, segment: &Segment) {
        let end = segment.seq + u64::from(segment.len);
        let old = ByteRange::new(segment.seq, end.min(self.rcv_nxt));
        self.disorder().duplicate_bytes += old.len();
        self.queue_ack((!old.is_empty()).then_some(old));
    }

    fn accept(&mut self, now: Instant, segment: &Segment, fresh: ByteRange, mark_changed: bool) {
        let old = ByteRange::new(segment.seq, fresh.start.min(self.rcv_nxt));
        if fresh.start == self.rcv_nxt && old.is_empty() && !self.is(DISORDERED) {
            self.rcv_nxt = fresh.end;
            self.count_in_order(now);
            if mark_changed || segment.flags.contains(DataFlags::FIN) {
                self.state |= ACK_DUE;
            }
            return;
        }
        self.accept_out_of_order(segment, fresh, old);
    }

    /// Apart, so that what comes in order stays short enough to be inlined.
    #[inline(never)]
    fn accept_out_of_order(&mut self, segment: &Segment, fresh: ByteRange, old: ByteRange) {
        let (rcv_nxt, fin) = (self.rcv_nxt, self.fin);
        let disorder = self.disorder.get_or_insert_with(Box::default);
        let sent = (segment.sent_at, segment.seq);
        if sent < disorder.latest {
            disorder.overtaken += 1;
        } else {
            disorder.latest = sent;
        }
        let mut duplicate = (!old.is_empty()).then_some(old);
        disorder.duplicate_bytes += old.len();
        let mut next = rcv_nxt;
        if let Some((_, repeated)) = disorder.reassembly.insert(fresh) {
            // FIN has a sequence number but is no byte.
            let repeated = repeated.map(|range| ByteRange::new(range.start, range.end.min(fin)));
            disorder.duplicate_bytes += repeated.map_or(0, ByteRange::len);
            duplicate = duplicate.or(repeated.filter(|range| !range.is_empty()));
        } else if fresh.start == rcv_nxt {
            next = fresh.end;
        }
        self.rcv_nxt = disorder.reassembly.take_in_order(next);
        let gaps = !disorder.reassembly.is_empty();
        self.state = if gaps { self.state | DISORDERED } else { self.state & !DISORDERED };
        self.queue_ack(duplicate);
    }

    /// Follows the marks; true if an accurate echo changed, which asks for an acknowledgement at once.
    fn note_mark(&mut self, segment: &Segment) -> bool {
        match self.config.ecn {
            EcnMode::Off => false,
            EcnMode::Classic => {
                self.ece = segment.ce || self.ece && !segment.flags.contains(DataFlags::CWR);
                false
            }
            EcnMode::Accurate => {
                let changed = segment.ce != self.ce;
                // RFC 8257 section 3.2: packets so far are answered under the old mark.
                if changed && self.withheld > 0 {
                    self.queue_ack(None);
                }
                (self.ce, self.ece) = (segment.ce, segment.ce);
                changed
            }
        }
    }

    /// One past the last byte that fits: at least the advertised window.
    fn acceptable_end(&self) -> u64 {
        self.window_end.max(self.consumed().saturating_add(self.buffer()))
    }

    /// Most bytes that it holds now.
    fn buffer(&self) -> u64 {
        let grown = self.disorder.as_ref().and_then(|disorder| disorder.widening);
        grown.map_or_else(|| self.config.receive_buffer.unwrap_or(u64::MAX), |grown| grown.buffer)
    }

    fn consumed(&self) -> u64 {
        if self.config.auto_consume { self.rcv_nxt.min(self.fin) } else { self.consumed }
    }

    /// The window field of an acknowledgement of `ack`. The right edge moves in steps that are worth a packet
    /// (receiver's silly window avoidance, RFC 9293 section 3.8.6.2.2) and never back.
    #[inline]
    fn advertise(&mut self, ack: u64) -> u16 {
        if self.window_end == u64::MAX { WINDOW_UNLIMITED } else { self.advertise_limited(ack) }
    }

    fn advertise_limited(&mut self, ack: u64) -> u16 {
        if self.openable() >= self.window_step(1) {
            let free = (self.window_end + self.openable()).saturating_sub(self.rcv_nxt);
            self.window_end = self.window_end.max(window_end(self.rcv_nxt, window_field(free)));
        }
        window_field(self.window_end.saturating_sub(ack))
    }

    /// Bytes by which the right edge could move.
    fn openable(&self) -> u64 {
        self.consumed().saturating_add(self.buffer()).saturating_sub(self.window_end)
    }

    fn window_step(&self, segments: u64) -> u64 {
        (self.buffer() / 2).min(segments * u64::from(self.config.mss))
    }

    /// Queues an acknowledgement of the state as it is now.
    fn queue_ack(&mut self, duplicate: Option<ByteRange>) {
        let (limit, sack_on) = (usize::from(self.config.sack_blocks), self.config.sack);
        let (ack, echo, delay, ece) = (self.rcv_nxt, self.echo, self.delay.take(), self.ece);
        let disorder = self.disorder();
        let mut sack = SackBlocks::EMPTY;
        let mut flags = AckFlags::NONE.with_if(AckFlags::ECE, ece);
        if sack_on {
            if let Some(duplicate) = duplicate {
                flags = flags.with(AckFlags::DSACK);
                sack.push(duplicate);
            }
            // The block that holds the duplicate, if one does, comes next: its arrival is the latest (RFC 2883).
            disorder.reassembly.report(&mut sack, limit);
            flags = flags.with_if(AckFlags::SACK, !sack.as_slice().is_empty());
        }
        if disorder.queue.len() >= QUEUE_MAX {
            disorder.queue.pop_back();
        }
        let held_since = disorder.held_since;
        disorder.queue.push_back(PendingAck { ack, echo, delay, held_since, flags, sack });
        self.state |= ACKS_QUEUED;
        self.acknowledged();
    }

    /// An acknowledgement covers everything up to now.
    #[inline]
    fn acknowledged(&mut self) {
        self.state &= !ACK_DUE;
        self.withheld = 0;
        self.ack_deadline = None;
        self.last_ack_sent = self.rcv_nxt;
    }

    #[inline]
    fn ack_packet(&mut self, ack: u64, echo: Option<Instant>, flags: AckFlags) -> Packet {
        let window = self.advertise(ack);
        let body = Body::Ack { ack, echo, window, flags };
        Packet::new(self.traffic_class(), self.config.wire.wire_bytes(0), body)
    }

    /// Pure acknowledgements are not ECN-capable (RFC 3168 section 6.1.4), except in DCTCP's datacenters.
    #[inline]
    fn traffic_class(&self) -> TrafficClass {
        let ecn = if self.config.ecn == EcnMode::Accurate { Ecn::Ect0 } else { Ecn::NotEct };
        self.config.ack_class.with_ecn(ecn)
    }

    #[inline(never)]
    fn transmit_unusual(&mut self, now: Instant) -> Option<Packet> {
        if self.is(REPLY_DUE) {
            let disorder = self.disorder();
            if let Some(probe_echo) = disorder.probe_echo.take() {
                return Some(probe_echo);
            }
            let grant = disorder.connection_echo.take();
            self.state &= !REPLY_DUE;
            if let Some(echo) = grant {
                let window = self.advertise(0);
                let wire_bytes = self.config.wire.wire_bytes(0);
                return Some(Packet::new(self.traffic_class(), wire_bytes, Body::SynAck { echo, window }));
            }
        }
        if self.is(ACK_DUE) && self.is(DISORDERED | ACKS_QUEUED) {
            self.queue_ack(None);
        }
        let disorder = self.disorder();
        let Some(pending) = disorder.queue.pop_front() else {
            self.state &= !ACKS_QUEUED;
            return None;
        };
        disorder.sack = pending.sack;
        if disorder.queue.is_empty() {
            self.state &= !ACKS_QUEUED;
        }
        let mut packet = self.ack_packet(pending.ack, pending.echo, pending.flags);
        if let Some(since) = pending.held_since {
            packet.set_hold(now.since(since), &mut self.disorder().sack);
        }
        if let Some(delay) = pending.delay {
            packet.set_delay(delay, &mut self.disorder().sack);
        }
        Some(packet)
    }

    fn handle_syn(&mut self, sent_at: Instant) {
        if !self.config.handshake {
            return;
        }
        self.disorder().connection_echo = Some(sent_at);
        self.state |= REPLY_DUE;
        if self.is(LISTENING) {
            self.state = self.state & !LISTENING | CONNECTED;
        }
    }

    /// Answers a probe in its own class, at once; of several before the next poll the latest tells enough.
    fn handle_probe(&mut self, sent_at: Instant, probe: &Packet) {
        if self.is(LISTENING) {
            return;
        }
        let marked = probe.traffic_class.ecn() == Ecn::Ce;
        // ECN-capable like the probe, so that no marker drops it; a mark on the way back tells nothing.
        let class = probe.traffic_class.with_ecn(Ecn::Ect0);
        let body = Body::ProbeEcho { echo: sent_at, marked };
        self.disorder().probe_echo = Some(Packet::new(class, probe.wire_bytes, body));
        self.state |= REPLY_DUE;
    }
}

impl Transport for TcpReceiver {
    type Request = Infallible;
    type Answer = Infallible;

    #[inline]
    fn handle_packet(&mut self, now: Instant, packet: &Packet, _sack: &SackBlocks) {
        let Body::Data { seq, sent_at, len, flags } = packet.body() else {
            match packet.body() {
                Body::Syn { sent_at } => self.handle_syn(sent_at),
                Body::Probe { sent_at } => self.handle_probe(sent_at, packet),
                _ => {}
            }
            return;
        };
        let ce = packet.traffic_class.ecn() == Ecn::Ce;
        self.marks += u64::from(ce);
        let end = seq.wrapping_add(u64::from(len));
        let in_order = seq == self.rcv_nxt && end <= self.window_end && !self.is(LISTENING | DISORDERED | FIN_KNOWN);
        let plain = ce == self.ce && len > 0 && !flags.contains(DataFlags::FIN) && !flags.contains(DataFlags::CWR);
        if !(in_order && plain) {
            return self.handle_unusual(now, Segment { seq, sent_at, len, flags, ce });
        }
        let echoed = self.withheld == 0 && Some(sent_at) >= self.echo;
        if echoed {
            self.echo = Some(sent_at);
        }
        if flags.intersects(ASKS) {
            self.measure(now, sent_at, flags);
            if flags.contains(DataFlags::HOLD) {
                self.hold(now, echoed);
            }
            if flags.contains(DataFlags::WINDOW_FULL) {
                self.widen(now);
            }
        }
        self.rcv_nxt = end;
        self.count_in_order(now);
    }

    fn handle_command(&mut self, _now: Instant, command: Command) {
        match command {
            Command::Consume { bytes } => {
                self.consumed = self.consumed.saturating_add(bytes).min(self.delivered);
                if self.window_end != u64::MAX && self.openable() >= self.window_step(2) {
                    self.acknowledge_unasked();
                }
            }
            Command::Acknowledge if self.withheld > 0 => self.acknowledge_unasked(),
            _ => {}
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        if self.ack_deadline.is_some_and(|at| at <= now) {
            self.acknowledge_unasked();
        }
    }

    #[inline]
    fn poll_transmit(&mut self, now: Instant) -> Option<Packet> {
        if !self.is(ACK_DUE | ACKS_QUEUED | REPLY_DUE) {
            return None;
        }
        if self.is(ACKS_QUEUED | REPLY_DUE | DISORDERED) {
            let packet = self.transmit_unusual(now);
            if packet.is_some() || !self.is(ACK_DUE) {
                return packet;
            }
        }
        let flags = AckFlags::NONE.with_if(AckFlags::ECE, self.ece);
        self.acknowledged();
        let mut packet = self.ack_packet(self.rcv_nxt, self.echo, flags);
        if let Some(delay) = self.delay.take() {
            packet.set_delay(delay, &mut SackBlocks::default());
        }
        Some(packet)
    }

    fn sack_blocks(&self) -> &SackBlocks {
        self.disorder.as_ref().map_or(&SackBlocks::EMPTY, |disorder| &disorder.sack)
    }

    #[inline]
    fn poll_event(&mut self) -> Option<Event> {
        if self.is(CONNECTED) {
            self.state &= !CONNECTED;
            return Some(Event::Connected);
        }
        let received = self.rcv_nxt.min(self.fin);
        if self.delivered < received {
            let range = ByteRange::new(self.delivered, received);
            self.delivered = received;
            return Some(Event::Deliver(range));
        }
        if self.rcv_nxt > self.fin && !self.is(RECEIVED) {
            self.state |= RECEIVED;
            return Some(Event::Received);
        }
        None
    }

    #[inline]
    fn poll_timeout(&self) -> Option<Deadline> {
        self.ack_deadline.map(|at| Deadline { at, why: Timer::DelayedAck })
    }

    fn statistics(&self) -> Statistics {
        let (duplicate_bytes, overtaken) =
            self.disorder.as_ref().map_or((0, 0), |disorder| (disorder.duplicate_bytes, disorder.overtaken));
        Statistics { marks: self.marks, duplicate_bytes, overtaken, ..Statistics::default() }
    }
}
