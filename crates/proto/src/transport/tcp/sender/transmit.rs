//! Sending in unusual states: retransmissions, pacing, probes, the connection request. And the timers.

use super::loss::Phase;
use super::{HANDSHAKE, PACED, PERSIST, TcpSender, Unusual};
use crate::congestion::{Cause, CongestionControl, EcnMode};
use crate::packet::{Body, ByteRange, DataFlags, Ecn, Packet, TrafficClass};
use crate::recovery::rack::Rack;
use crate::time::{Instant, Span};
use crate::transport::tcp::{LONG_ROUND_TRIP, PacingFactors};
use crate::transport::{Deadline, Timer};

/// What to send next.
#[derive(Clone, Copy)]
enum Next {
    /// This many new bytes.
    New(u16),
    /// The beginning of this hole.
    Again(ByteRange),
    /// The end of this hole, against the loss of a recovery's last segments (RFC 6675, NextSeg rule 4).
    Rescue(ByteRange),
}

impl<C: CongestionControl> TcpSender<C> {
    #[inline(never)]
    pub(super) fn transmit_unusual(&mut self, now: Instant) -> Option<Packet> {
        let mut unusual = self.unusual.take().unwrap_or_default();
        let packet = if self.is(HANDSHAKE) {
            self.transmit_request(now, &mut unusual)
        } else if self.is(PERSIST) {
            self.transmit_window_probe(now, &mut unusual)
        } else if unusual.rack.is_some() && unusual.probe_due {
            self.transmit_loss_probe(now, &mut unusual)
        } else {
            self.transmit_next(now, &mut unusual)
        };
        self.unusual = Some(unusual);
        packet
    }

    fn transmit_request(&mut self, now: Instant, unusual: &mut Unusual) -> Option<Packet> {
        if !core::mem::take(&mut unusual.probe_due) {
            return None;
        }
        self.timer = Some(now.after(self.rtt.rto()));
        // RFC 3168 forbids ECT here, RFC 8257 section 3.5 wants it.
        let class = self.repeat_class();
        Some(Packet::new(class, self.config.wire.wire_bytes(0), Body::Syn { sent_at: now }))
    }

    /// Class of retransmissions and probes: Not-ECT (RFC 3168 section 6.1.5), except in DCTCP's datacenters.
    fn repeat_class(&self) -> TrafficClass {
        if self.config.ecn == EcnMode::Accurate { self.data_class } else { self.data_class.with_ecn(Ecn::NotEct) }
    }

    fn transmit_next(&mut self, now: Instant, unusual: &mut Unusual) -> Option<Packet> {
        let next = self.choose(now, unusual)?;
        let paced = self.is(PACED);
        if paced
            && unusual.pace_burst == 0
            && let Some(at) = self.pace_start(unusual).filter(|at| *at > now)
        {
            unusual.pace_timer = Some(at);
            return None;
        }
        let packet = match next {
            Next::New(len) => self.transmit_new(now, unusual, len),
            Next::Again(hole) => self.retransmit(now, unusual, hole),
            Next::Rescue(hole) => self.transmit_rescue(now, unusual, hole),
        };
        if paced {
            let gap = self.pacing_gap(&packet);
            let burst = self.controller.pacing_burst();
            // Every packet of a burst takes its time after the last one.
            unusual.pace_burst = if unusual.pace_burst == 0 { burst } else { unusual.pace_burst }.saturating_sub(1);
            // A timer that came late does not slow the flow down; a pause earns no burst.
            let due = unusual.pace_next.filter(|at| now.since(*at) < gap.times(burst.into())).unwrap_or(now);
            unusual.pace_next = Some(due.after(gap));
        }
        Some(packet)
    }

    /// What the windows allow now.
    fn choose(&mut self, now: Instant, unusual: &Unusual) -> Option<Next> {
        let (mss, window, loss) = (self.mss(), self.controller.window(), &unusual.loss);
        let flight = self.snd_nxt - self.snd_una;
        if let Some(rack) = &unusual.rack {
            let window = loss.window(rack.in_flight(), window);
            return self.choose_by_rack(now, (rack.in_flight(), window), rack.next_lost(), loss.retransmit_first);
        }
        match (loss.phase, self.config.sack) {
            (Phase::Fast, true) => self.choose_by_scoreboard(now, unusual),
            (Phase::Fast, false) if loss.retransmit_first => {
                Some(Next::Again(ByteRange::new(self.snd_una, self.snd_nxt)))
            }
            (Phase::Fast, false) => {
                let window = window.saturating_add_signed(loss.inflation).max(mss);
                self.next_new(now, flight, window).map(Next::New)
            }
            (Phase::Timeout, _) => {
                let in_flight = loss.in_flight_after_timeout(self.snd_una, self.snd_nxt);
                match loss.scoreboard.next_hole(loss.recovery_point.unwrap_or(self.snd_nxt)) {
                    Some(hole) => self.has_room(in_flight, window).then_some(Next::Again(hole)),
                    None => self.next_new(now, in_flight, window).map(Next::New),
                }
            }
            (Phase::Open, sack) => {
                // Limited transmit: what has left the network makes room for new data, two segments at most without
                // SACK (RFC 3042; RFC 6675 section 5, step 3).
                let (left, allowance) = match (self.config.limited_transmit, sack) {
                    (false, _) => (0, 0),
                    (true, true) => (loss.scoreboard.sacked_bytes(), 0),
                    (true, false) => (0, u64::from(loss.duplicates.min(2)) * mss),
                };
                self.next_new(now, flight - left, window.saturating_add(allowance)).map(Next::New)
            }
        }
    }

    fn has_room(&mut self, in_flight: u64, window: u64) -> bool {
        let mss = self.mss();
        let room = in_flight + mss <= window.max(mss);
        self.window_limited = !room;
        room
    }

    /// RFC 6675 section 5, step C, and NextSeg.
    fn choose_by_scoreboard(&mut self, now: Instant, unusual: &Unusual) -> Option<Next> {
        let (mss, window, board) = (self.mss(), self.controller.window(), &unusual.loss.scoreboard);
        if unusual.loss.retransmit_first {
            return board.next_hole(self.snd_nxt).map(Next::Again);
        }
        let pipe = board.pipe(self.snd_una, self.snd_nxt, mss);
        let window = unusual.loss.window(pipe, window);
        if !self.has_room(pipe, window) {
            return None;
        }
        if let Some(hole) = board.next_lost(mss) {
            return Some(Next::Again(hole));
        }
        if let Some(len) = self.next_new(now, pipe, window) {
            return Some(Next::New(len));
        }
        let rescue = || board.rescue(self.snd_una, self.snd_nxt).map(Next::Rescue);
        board.next_unsacked().map(Next::Again).or_else(rescue)
    }

    fn choose_by_rack(
        &mut self,
        now: Instant,
        (in_flight, window): (u64, u64),
        lost: Option<ByteRange>,
        first: bool,
    ) -> Option<Next> {
        match lost {
            Some(segment) => (first || self.has_room(in_flight, window)).then_some(Next::Again(segment)),
            None => self.next_new(now, in_flight, window).map(Next::New),
        }
    }

    fn transmit_new(&mut self, now: Instant, unusual: &mut Unusual, len: u16) -> Packet {
        let start = self.snd_nxt;
        let packet = self.send_new(now, len);
        unusual.loss.on_sent(u64::from(len));
        if unusual.loss.phase == Phase::Open && unusual.loss.duplicates > 0 {
            unusual.loss.limited_bytes += u64::from(len);
        }
        if let Some(rack) = &mut unusual.rack {
            rack.on_sent(now, ByteRange::new(start, self.snd_nxt));
            self.arm_loss_probe(now, unusual);
        }
        packet
    }

    /// Sends the beginning of `hole` again.
    fn retransmit(&mut self, now: Instant, unusual: &mut Unusual, hole: ByteRange) -> Packet {
        let data_end = (hole.start + self.mss()).min(hole.end).min(self.written);
        // FIN rides on the last data segment, as it did the first time.
        let fin = data_end == self.written && hole.end > self.written;
        unusual.loss.retransmit_first = false;
        unusual.loss.scoreboard.retransmitted(data_end + u64::from(fin));
        if let Some(rack) = &mut unusual.rack {
            rack.on_retransmitted(now, hole.start);
        }
        if self.config.restart_timer && hole.start == self.snd_una {
            self.timer = Some(now.after(self.rtt.rto()));
        }
        let range = ByteRange::new(hole.start, data_end);
        self.controller.on_lost(range.len());
        self.repeat_packet(now, unusual, range, fin)
    }

    /// Sends the end of `hole` again.
    fn transmit_rescue(&mut self, now: Instant, unusual: &mut Unusual, hole: ByteRange) -> Packet {
        let data_end = hole.end.min(self.written);
        let start = hole.start.max(data_end.saturating_sub(self.mss()));
        unusual.loss.scoreboard.rescued(unusual.loss.recovery_point.unwrap_or(self.snd_nxt));
        self.repeat_packet(now, unusual, ByteRange::new(start, data_end), hole.end > self.written)
    }

    fn repeat_packet(&mut self, now: Instant, unusual: &mut Unusual, range: ByteRange, fin: bool) -> Packet {
        unusual.retransmissions += 1;
        unusual.loss.on_sent(range.len());
        unusual.loss.on_sent_again(range);
        if self.timer.is_none() {
            self.timer = Some(now.after(self.rtt.rto()));
        }
        let flags = DataFlags::RETRANSMISSION.with_if(DataFlags::FIN, fin);
        self.data_packet(now, self.repeat_class(), range.start, range.len() as u16, flags)
    }

    /// When the pacer allows the next packet. A window of less than one segment allows one in more than a round trip
    /// since the last, by the present window.
    fn pace_start(&self, unusual: &Unusual) -> Option<Instant> {
        let window = self.controller.window();
        if window >= self.mss() || self.packets_sent == 0 {
            return unusual.pace_next;
        }
        let gap = self.time_by_window(self.config.mss, window.max(1) as f64);
        unusual.pace_next.max(Some(self.last_sent.after(gap)))
    }

    /// Time between this packet and the next, whatever the window.
    fn pacing_gap(&self, packet: &Packet) -> Span {
        if let Some(rate) = self.controller.pacing_rate() {
            return rate.time_for(packet.payload().into());
        }
        let Some(PacingFactors { slow_start, avoidance }) = self.config.pacing else { return Span::ZERO };
        let window = self.controller.window();
        let factor = if window < self.controller.ssthresh() { slow_start } else { avoidance };
        self.time_by_window(packet.payload(), factor * window.max(1) as f64)
    }

    /// Time in which `window` bytes per round trip amount to `payload`.
    fn time_by_window(&self, payload: u16, window: f64) -> Span {
        let measured = self.rtt.smoothed();
        let rtt = if measured == Span::ZERO { self.config.initial_rtt.unwrap_or_default() } else { measured };
        Span::from_ps((rtt.as_ps() as f64 * (f64::from(payload) / window)) as u64)
    }

    /// The peer's window is too small for `len` new bytes. Sends what fits if that is worth a packet (sender's silly
    /// window avoidance, RFC 9293 section 3.8.6.2.1), or starts to probe if nothing else will come.
    #[inline(never)]
    pub(super) fn next_within_peer_window(&mut self, now: Instant, len: u64) -> Option<u16> {
        let usable = self.window_end.saturating_sub(self.snd_nxt).min(len);
        let largest = super::window_end(0, self.largest_window);
        if usable > 0 && usable >= largest / 2 {
            return Some(usable as u16);
        }
        self.window_limited = false;
        if self.rtt.smoothed() >= LONG_ROUND_TRIP {
            self.next_flags = self.next_flags.with(DataFlags::WINDOW_FULL);
        }
        if self.snd_nxt == self.snd_una {
            self.state |= PERSIST;
            self.timer = Some(now.after(self.rtt.rto()));
        }
        None
    }

    /// An acknowledgement came while the window was closed.
    pub(super) fn leave_persist(&mut self, ack: u64) {
        let usable = self.window_end.saturating_sub(ack);
        if ack == self.snd_una && usable < self.mss().min(self.written - ack) {
            return;
        }
        self.state &= !PERSIST;
        self.timer = None;
        // A probe's byte that was refused was never sent.
        self.snd_nxt = ack;
        let unusual = self.unusual();
        unusual.persist_interval = Span::ZERO;
        unusual.probe_due = false;
    }

    /// Zero-window probe: one byte, or what fits if silly window avoidance held it back for a timeout.
    fn transmit_window_probe(&mut self, now: Instant, unusual: &mut Unusual) -> Option<Packet> {
        if !core::mem::take(&mut unusual.probe_due) {
            return None;
        }
        let seq = self.snd_una;
        let usable = self.window_end.saturating_sub(seq).clamp(1, self.mss()).min(self.written - seq);
        self.snd_nxt = seq + usable;
        Some(self.data_packet(now, self.repeat_class(), seq, usable as u16, DataFlags::NONE))
    }

    /// Tail loss probe: new data if there is any, else the last segment again (RFC 8985 section 7.3).
    fn transmit_loss_probe(&mut self, now: Instant, unusual: &mut Unusual) -> Option<Packet> {
        unusual.probe_due = false;
        let new = self.next_new(now, 0, u64::MAX);
        let last = unusual.rack.as_ref().and_then(Rack::last_segment);
        let packet = match (new, last) {
            (Some(len), _) => self.transmit_new(now, unusual, len),
            (None, Some(segment)) => self.retransmit(now, unusual, segment),
            (None, None) => return None,
        };
        let again = last.filter(|_| new.is_none());
        if let Some(rack) = &mut unusual.rack {
            rack.on_probe_sent(self.snd_nxt, again);
        }
        self.arm_loss_probe(now, unusual);
        self.timer = Some(now.after(self.rtt.rto()));
        Some(packet)
    }

    pub(super) fn arm_loss_probe(&self, now: Instant, unusual: &mut Unusual) {
        let repairing = unusual.loss.phase != Phase::Open;
        if let Some(rack) = &mut unusual.rack {
            rack.arm_probe(now, self.rtt.smoothed(), self.timer, repairing);
        }
    }

    /// The flow's clock stood still while the network continued.
    pub(super) fn on_clock_stopped(&mut self) {
        if let Some(rack) = self.unusual.as_mut().and_then(|unusual| unusual.rack.as_mut()) {
            rack.on_clock_stopped();
        }
    }

    /// Outstanding data may have waited as long as the clock stood still, so timers of its journey start again.
    pub(super) fn restart_timers(&mut self, now: Instant) {
        if self.timer.is_some() && !self.is(HANDSHAKE | PERSIST) {
            self.timer = Some(now.after(self.rtt.rto()));
        }
        if let Some(mut unusual) = self.unusual.take() {
            self.arm_loss_probe(now, &mut unusual);
            self.unusual = Some(unusual);
        }
    }

    pub(super) fn earliest_deadline(&self) -> Option<Deadline> {
        let why = if self.is(PERSIST) { Timer::Persist } else { Timer::Retransmit };
        let timer = self.timer.map(|at| Deadline { at, why });
        let Some(unusual) = &self.unusual else { return timer };
        let policy = self.policy_deadline(unusual).map(|at| Deadline { at, why: Timer::Policy });
        let pace = unusual.pace_timer.map(|at| Deadline { at, why: Timer::Pace });
        let rack = unusual.rack.as_ref().and_then(Rack::deadline);
        let loss = rack.map(|at| Deadline { at, why: Timer::LossDetection });
        let overtaken = unusual.loss.overtaken.filter(|overtaken| self.snd_una < overtaken.end);
        let overtaken = overtaken.map(|overtaken| Deadline { at: overtaken.until, why: Timer::LossDetection });
        [policy, timer, pace, loss, overtaken].into_iter().flatten().min_by_key(|deadline| deadline.at)
    }

    /// The timer that every flow has expired.
    #[inline(never)]
    pub(super) fn handle_expiry(&mut self, now: Instant) {
        let mut unusual = self.unusual.take().unwrap_or_default();
        self.timer = None;
        if self.is(HANDSHAKE) {
            (unusual.syn_lost, unusual.probe_due) = (true, true);
            self.rtt.back_off(&self.config.rto);
        } else if self.is(PERSIST) {
            unusual.probe_due = true;
            let interval = unusual.persist_interval.max(self.rtt.rto()).times(2).min(self.config.rto.maximum);
            unusual.persist_interval = interval;
            self.timer = Some(now.after(interval));
        } else if self.snd_una < self.snd_nxt {
            self.time_out(now, &mut unusual);
        }
        self.unusual = Some(unusual);
    }

    /// Retransmission timeout (RFC 6298 section 5, RFC 5681 section 3.1).
    fn time_out(&mut self, now: Instant, unusual: &mut Unusual) {
        let flight = self.in_flight(unusual).saturating_sub(unusual.loss.limited_bytes);
        let first = unusual.loss.timed_out != Some(self.snd_una);
        let smoothed = self.rtt.smoothed();
        unusual.timeouts += 1;
        unusual.loss.timed_out = Some(self.snd_una);
        unusual.loss.scoreboard.forget_if_reneged(self.snd_una);
        unusual.loss.begin(Phase::Timeout, self.snd_una, self.snd_nxt);
        unusual.loss.forget_overtaken();
        if let Some(rack) = &mut unusual.rack {
            rack.on_timeout(now, smoothed);
            unusual.loss.retransmit_first = true;
        }
        self.rtt.back_off(&self.config.rto);
        self.timer = Some(now.after(self.rtt.rto()));
        self.congestion(now, Cause::Timeout, flight, first);
        self.set_loss_state(unusual);
    }

    #[inline(never)]
    pub(super) fn handle_unusual_timeout(&mut self, now: Instant) {
        let Some(mut unusual) = self.unusual.take() else { return };
        self.ask_policy(now, &mut unusual);
        unusual.pace_timer = unusual.pace_timer.filter(|at| *at > now);
        if unusual.loss.overtaken.is_some_and(|overtaken| overtaken.until <= now) {
            self.stop_waiting_for_overtaken(now, &mut unusual);
        }
        let (smoothed, repairing) = (self.rtt.smoothed(), unusual.loss.phase != Phase::Open);
        let (mut lost, mut probe) = (false, false);
        if let Some(rack) = &mut unusual.rack {
            lost = rack.reordering_settled(now) && rack.detect(now, smoothed, repairing);
            probe = rack.take_probe(now);
        }
        if lost && !repairing {
            self.begin_fast_recovery(now, &mut unusual);
            self.set_loss_state(&unusual);
        } else if probe {
            unusual.probe_due = true;
            self.timer = Some(now.after(self.rtt.rto()));
        }
        self.unusual = Some(unusual);
    }
}
