//! The sending side: what to send when, until everything is acknowledged.
//!
//! This file holds the state, and the path of a flow without loss. [`acknowledge`] and [`transmit`] take over when a
//! bit of [`SLOW`] reports something unusual.

mod acknowledge;
mod bend;
mod cross_queue;
mod deadline;
mod loss;
mod transmit;

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::convert::Infallible;

pub use self::cross_queue::CrossQueueSender;
pub use self::deadline::DeadlineSender;
use self::loss::Loss;
use super::{MAX_STREAM, TcpConfig, window_end, window_field};
use crate::congestion::{AckSample, Cause, Congestion, CongestionControl, EcnMode};
use crate::contract::policy::Policy;
use crate::packet::{AckFlags, Body, ByteRange, DataFlags, Ecn, Packet, SackBlocks, TrafficClass, WINDOW_UNLIMITED};
use crate::recovery::rack::Rack;
use crate::recovery::rtt::RttEstimator;
use crate::time::{Instant, OneWayDelay, Span};
use crate::transport::{Command, Deadline, Event, Statistics, Timer, Transport, WindowState};
use crate::units::Rate;

/// The connection is being requested.
const HANDSHAKE: u8 = 1;
/// Duplicates or SACK blocks arrived, or a loss is being repaired.
const LOSS: u8 = 2;
/// The peer's window is closed and nothing is in flight.
const PERSIST: u8 = 4;
/// Losses are detected by time.
const RACK: u8 = 8;
/// The configuration or the controller asks for pacing.
const PACED: u8 = 16;
/// Any of these leaves the fast path.
const SLOW: u8 = HANDSHAKE | LOSS | PERSIST | RACK;
/// Nothing follows the bytes written so far.
const FINISH: u8 = 32;
/// The application has not yet been told of the connection.
const CONNECTED: u8 = 64;
/// The application was told that everything is acknowledged.
const FINISHED: u8 = 128;

/// Flags of acknowledgements that report something.
const REPORTS: AckFlags = AckFlags::DELAY.with(AckFlags::HOLD);

/// The sender of one flow under the congestion controller `C`.
pub struct TcpSender<C> {
    /// First byte not acknowledged (SND.UNA).
    snd_una: u64,
    /// Next byte to send for the first time (SND.NXT); FIN counts as one.
    snd_nxt: u64,
    /// Bytes the application has given.
    written: u64,
    /// Right edge of the peer's window; never moves back.
    window_end: u64,
    /// Retransmission timeout; zero-window probe in the state [`PERSIST`].
    timer: Option<Instant>,
    rtt: RttEstimator,
    config: Arc<TcpConfig>,
    state: u8,
    /// Flags that the next new segment carries (CWR, WINDOW_FULL).
    next_flags: DataFlags,
    /// Flags of every packet (HOLD, DELAY).
    standing_flags: DataFlags,
    data_class: TrafficClass,
    /// Whether the window left no room for a full segment when sending stopped.
    window_limited: bool,
    /// Largest window field received.
    largest_window: u16,
    /// One past the last byte released to the application.
    released: u64,
    last_sent: Instant,
    /// SND.NXT when the window was last reduced: ECN reduces once per window of data.
    reduced_at: u64,
    packets_sent: u64,
    bytes_sent: u64,
    marks: u64,
    unusual: Option<Box<Unusual>>,
    controller: C,
}

/// State that a flow without loss, pacing, handshake, policy and closed windows does not need.
#[derive(Default)]
struct Unusual {
    loss: Loss,
    rack: Option<Rack>,
    /// From then on the pacer allows the next packet.
    pace_next: Option<Instant>,
    /// Packets that may leave before it.
    pace_burst: u8,
    /// Set while a packet waits for `pace_next`.
    pace_timer: Option<Instant>,
    persist_interval: Span,
    /// A zero-window probe or a connection request is due.
    probe_due: bool,
    syn_lost: bool,
    /// Bends the flow.
    policy: Option<Box<Policy>>,
    given_up_bytes: u64,
    retransmissions: u64,
    timeouts: u64,
    fast_recoveries: u64,
}

/// The fields of an acknowledgement that the sender reads.
#[derive(Clone, Copy)]
struct Ack {
    /// Everything below is acknowledged.
    cumulative: u64,
    echo: Option<Instant>,
    window: u16,
    flags: AckFlags,
    delay: Option<OneWayDelay>,
    hold: Option<Span>,
}

impl<C: CongestionControl> TcpSender<C> {
    /// A sender. `config` must pass [`TcpConfig::check`]. Both sides of a flow use the same configuration, because
    /// without a handshake the first window comes from it.
    pub fn new(config: Arc<TcpConfig>, controller: C) -> Self {
        assert_eq!(config.check(), Ok(()), "configurations are checked when they are read");
        let mut state = 0;
        let mut unusual = None;
        if config.handshake {
            state |= HANDSHAKE;
            unusual = Some(Box::new(Unusual { probe_due: true, ..Unusual::default() }));
        }
        if config.rack {
            let ack_delay = if config.ack_every > 1 { config.max_ack_delay } else { Span::ZERO };
            state |= RACK;
            unusual.get_or_insert_with(Box::<Unusual>::default).rack = Some(Rack::new(ack_delay));
        }
        if config.pacing.is_some() || controller.needs_pacing() {
            state |= PACED;
        }
        let first_window = config.receive_buffer.map_or(WINDOW_UNLIMITED, window_field);
        let ecn = if config.ecn == EcnMode::Off { Ecn::NotEct } else { Ecn::Ect0 };
        Self {
            snd_una: 0,
            snd_nxt: 0,
            written: 0,
            window_end: window_end(0, first_window),
            timer: None,
            rtt: RttEstimator::new(&config.rto),
            state,
            next_flags: DataFlags::NONE,
            standing_flags: DataFlags::NONE
                .with_if(DataFlags::DELAY, config.one_way_delay)
                .with_if(DataFlags::HOLD, controller.needs_hold_time()),
            data_class: config.data_class.with_ecn(ecn),
            window_limited: false,
            largest_window: first_window,
            released: 0,
            last_sent: Instant::ZERO,
            reduced_at: 0,
            packets_sent: 0,
            bytes_sent: 0,
            marks: 0,
            unusual,
            config,
            controller,
        }
    }

    /// The same sender with `policy`. To be called before anything is written.
    pub fn with_policy(mut self, policy: Policy) -> Self {
        self.unusual().policy = Some(Box::new(policy));
        self
    }

    /// The congestion controller.
    pub fn controller(&self) -> &C {
        &self.controller
    }

    /// The congestion controller, for changes of the flow's contract.
    fn controller_mut(&mut self) -> &mut C {
        &mut self.controller
    }

    /// First byte not acknowledged (SND.UNA).
    pub fn unacked(&self) -> u64 {
        self.snd_una
    }

    /// Next byte to send for the first time (SND.NXT).
    pub fn next(&self) -> u64 {
        self.snd_nxt
    }

    /// Whether a connection is still being requested.
    pub fn is_connecting(&self) -> bool {
        self.is(HANDSHAKE)
    }

    /// Whether anything waits to be sent, or may have to be sent again because a loss is being repaired.
    pub fn has_backlog(&self) -> bool {
        let fin = self.is(FINISH) && self.snd_nxt <= self.written;
        let probe = self.unusual.as_ref().is_some_and(|unusual| unusual.probe_due);
        self.unsent() > 0 || fin || probe || self.is(LOSS | PERSIST)
    }

    /// Smoothed round-trip time; zero before the first sample.
    pub fn smoothed_rtt(&self) -> Span {
        self.rtt.smoothed()
    }

    /// Sends in this class from now on (its ECN bits follow from the configuration).
    pub fn set_data_class(&mut self, class: TrafficClass) {
        self.data_class = class.with_ecn(self.data_class.ecn());
    }

    #[inline]
    fn is(&self, bits: u8) -> bool {
        self.state & bits != 0
    }

    fn unusual(&mut self) -> &mut Unusual {
        self.unusual.get_or_insert_with(Box::default)
    }

    #[inline]
    fn mss(&self) -> u64 {
        u64::from(self.config.mss)
    }

    /// Takes the peer's window; true if its right edge moved.
    #[inline]
    fn update_window(&mut self, ack: u64, window: u16) -> bool {
        let end = window_end(ack, window);
        let moved = end > self.window_end;
        self.window_end = self.window_end.max(end);
        self.largest_window = self.largest_window.max(window);
        moved
    }

    /// New data is acknowledged: moves SND.UNA, measures, restarts the timer. Returns the sample, if any.
    #[inline]
    fn advance(&mut self, now: Instant, ack: &Ack) -> Option<Span> {
        self.snd_una = ack.cumulative;
        let sample = ack.echo.filter(|echo| *echo <= now).map(|echo| now.since(echo));
        if let Some(rtt) = sample {
            self.rtt.sample(&self.config.rto, rtt);
        }
        self.timer = if self.snd_una == self.snd_nxt { None } else { Some(now.after(self.rtt.rto())) };
        sample
    }

    /// Tells the controller of an acknowledgement that moved SND.UNA by `acked`.
    #[inline]
    fn report(&mut self, now: Instant, ack: &Ack, acked: u64, flight: u64, rtt: Option<Span>, in_recovery: bool) {
        // FIN has a sequence number but is no byte.
        let fin = u64::from(acked > 0 && self.snd_una > self.written);
        self.controller.on_ack(&AckSample {
            now,
            acked: acked - fin,
            unacked: self.snd_una,
            next: self.snd_nxt,
            flight,
            ece: ack.flags.contains(AckFlags::ECE),
            rtt,
            delay: ack.delay,
            hold: ack.hold,
            smoothed_rtt: self.rtt.smoothed(),
            window_limited: self.window_limited,
            in_recovery,
        });
    }

    /// An acknowledgement echoes congestion. The controller is told once per window of data (RFC 3168 section 6.1.2),
    /// and not within a window that a loss has reduced.
    #[inline(never)]
    fn echo_congestion(&mut self, now: Instant) {
        self.marks += 1;
        if self.config.ecn != EcnMode::Off && self.snd_una > self.reduced_at {
            self.congestion(now, Cause::Ecn, self.snd_nxt - self.snd_una, false);
            self.next_flags = self.next_flags.with(DataFlags::CWR);
        }
    }

    /// Reports congestion. During recovery `flight` includes what SACK blocks report as arrived, which is many windows
    /// if a retransmission is lost. Beyond the window it says nothing of the network, and must not raise ssthresh above
    /// it.
    fn congestion(&mut self, now: Instant, cause: Cause, flight: u64, first: bool) {
        let (unacked, next) = (self.snd_una, self.snd_nxt);
        let flight = flight.min(self.controller.window());
        self.controller.on_congestion(&Congestion { now, cause, flight, unacked, next, first });
        self.reduced_at = next;
    }

    /// Length of the next new segment, if the window `window`, of which `in_flight` bytes are used, allows it.
    #[inline]
    fn next_new(&mut self, now: Instant, in_flight: u64, window: u64) -> Option<u16> {
        let mss = self.mss();
        let remaining = self.written.saturating_sub(self.snd_nxt);
        let len = remaining.min(mss);
        // With nothing in flight one segment may always go: a window below one segment must not starve the flow.
        let blocked = in_flight + len > window.max(len);
        let nothing = remaining == 0 && !(self.is(FINISH) && self.snd_nxt == self.written);
        if blocked || nothing {
            self.window_limited = in_flight + mss > window;
            return None;
        }
        if self.snd_nxt + len > self.window_end && len > 0 {
            return self.next_within_peer_window(now, len);
        }
        Some(len as u16)
    }

    /// Sends `len` new bytes, with FIN if they are the last.
    #[inline]
    fn send_new(&mut self, now: Instant, len: u16) -> Packet {
        let seq = self.snd_nxt;
        self.snd_nxt += u64::from(len);
        let mut flags = core::mem::take(&mut self.next_flags);
        if self.snd_nxt == self.written && self.is(FINISH) {
            self.snd_nxt += 1;
            flags = flags.with(DataFlags::FIN);
        }
        if self.timer.is_none() {
            self.timer = Some(now.after(self.rtt.rto()));
        }
        self.data_packet(now, self.data_class, seq, len, flags)
    }

    #[inline]
    fn data_packet(&mut self, now: Instant, class: TrafficClass, seq: u64, len: u16, flags: DataFlags) -> Packet {
        self.last_sent = now;
        self.packets_sent += 1;
        self.bytes_sent += u64::from(len);
        let flags = flags.with(self.standing_flags);
        Packet::new(class, self.config.wire.wire_bytes(len), Body::Data { seq, sent_at: now, len, flags })
    }

    fn write(&mut self, now: Instant, bytes: u64) {
        if self.is(FINISH) {
            return;
        }
        self.written += bytes.min(self.send_space());
        // RFC 5681 section 4.1: the window says nothing about the network any more.
        let idle = self.snd_una == self.snd_nxt && self.packets_sent > 0 && !self.is(PERSIST);
        if idle && now.since(self.last_sent) > self.rtt.rto() {
            self.controller.on_idle();
        }
        self.start_policy(now);
    }
}

impl<C: CongestionControl> Transport for TcpSender<C> {
    type Request = Infallible;
    type Answer = Infallible;

    #[inline]
    fn handle_packet(&mut self, now: Instant, packet: &Packet, sack: &SackBlocks) {
        let Body::Ack { ack, echo, window, flags, .. } = packet.body() else {
            if let Body::SynAck { echo, window } = packet.body() {
                self.handle_syn_ack(now, echo, window);
            }
            return;
        };
        let (delay, hold) =
            if flags.intersects(REPORTS) { (packet.delay(sack), packet.hold(sack)) } else { (None, None) };
        let ack = Ack { cumulative: ack, echo, window, flags, delay, hold };
        let flight = self.snd_nxt - self.snd_una;
        let acked = ack.cumulative.wrapping_sub(self.snd_una);
        // One comparison finds duplicates, old acknowledgements and those of bytes never sent.
        if acked.wrapping_sub(1) >= flight || self.is(SLOW) || flags.contains(AckFlags::SACK) {
            return self.handle_unusual_ack(now, &ack, sack);
        }
        self.update_window(ack.cumulative, ack.window);
        let rtt = self.advance(now, &ack);
        self.report(now, &ack, acked, flight, rtt, false);
        if flags.contains(AckFlags::ECE) {
            self.echo_congestion(now);
        }
    }

    fn handle_command(&mut self, now: Instant, command: Command) {
        match command {
            Command::Send { bytes } => self.write(now, bytes),
            Command::SendMessage { bytes } => self.write(now, bytes.into()),
            Command::Finish => self.state |= FINISH,
            Command::SetWeight(weight) => self.controller.set_weight(weight),
            Command::SetMinShare(share) => self.controller.set_min_share(share),
            Command::SetMinRate(rate) => self.controller.set_min_rate(rate),
            Command::SetMaxRate(_)
            | Command::SetFairRate(_)
            | Command::SetDoneBy(_)
            | Command::SetSize(_)
            | Command::Consume { .. }
            | Command::Acknowledge
            | Command::AnnounceMessages { .. } => {}
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        // A loss probe due together with the retransmission timeout goes first and restarts it.
        if self.unusual.is_some() {
            self.handle_unusual_timeout(now);
        }
        if self.timer.is_some_and(|at| at <= now) {
            self.handle_expiry(now);
        }
    }

    /// Slow start begins again, up to the window at which it ended on the old path. This is no faster than RFC 9000
    /// allows.
    fn handle_new_path(&mut self, now: Instant) {
        self.controller.on_idle();
        self.rtt = RttEstimator::new(&self.config.rto);
        if self.timer.is_some() {
            self.timer = Some(now.after(self.rtt.rto()));
        }
    }

    #[inline]
    fn poll_transmit(&mut self, now: Instant) -> Option<Packet> {
        if self.is(SLOW | PACED) {
            return self.transmit_unusual(now);
        }
        let len = self.next_new(now, self.snd_nxt - self.snd_una, self.controller.window())?;
        Some(self.send_new(now, len))
    }

    #[inline]
    fn poll_event(&mut self) -> Option<Event> {
        if self.is(CONNECTED) {
            self.state &= !CONNECTED;
            return Some(Event::Connected);
        }
        let acknowledged = self.snd_una.min(self.written);
        if self.released < acknowledged {
            let range = ByteRange::new(self.released, acknowledged);
            self.released = acknowledged;
            return Some(Event::Release(range));
        }
        // Only FIN lies beyond what was written.
        if self.snd_una > self.written && !self.is(FINISHED) {
            self.state |= FINISHED;
            return Some(Event::Finished);
        }
        None
    }

    #[inline]
    fn poll_timeout(&self) -> Option<Deadline> {
        if self.unusual.is_some() || self.is(PERSIST) {
            return self.earliest_deadline();
        }
        self.timer.map(|at| Deadline { at, why: Timer::Retransmit })
    }

    fn send_space(&self) -> u64 {
        let held = self.written - self.snd_una.min(self.written);
        let room = self.config.send_buffer.map_or(u64::MAX, |buffer| buffer.saturating_sub(held));
        room.min(MAX_STREAM - self.written)
    }

    fn unsent(&self) -> u64 {
        self.written.saturating_sub(self.snd_nxt)
    }

    fn statistics(&self) -> Statistics {
        let base = Statistics {
            packets_sent: self.packets_sent,
            bytes_sent: self.bytes_sent,
            marks: self.marks,
            ..Statistics::default()
        };
        self.unusual.as_ref().map_or(base, |unusual| Statistics {
            retransmissions: unusual.retransmissions,
            timeouts: unusual.timeouts,
            fast_recoveries: unusual.fast_recoveries,
            given_up_bytes: unusual.given_up_bytes,
            policy: unusual
                .policy
                .as_ref()
                .map_or(base.policy, |policy| policy.counts(self.last_sent, self.progress())),
            ..base
        })
    }

    fn policy(&self) -> Option<&Policy> {
        self.unusual.as_ref()?.policy.as_deref()
    }

    fn window_state(&self) -> Option<WindowState> {
        let packets = self.controller.window() as f64 / f64::from(self.config.mss);
        Some(WindowState { packets, alpha: self.controller.marked_fraction(), rtt: self.rtt.smoothed() })
    }

    fn measures_gaps(&self) -> bool {
        self.controller.measures_gaps()
    }

    fn normal_rate(&self) -> Option<Rate> {
        self.controller.normal_rate()
    }
}
