//! A sender that pauses while a queue above its own is congested (TCP+).
//!
//! A pause stops the flow's clock. The inner sender reads a time without pauses, so nothing in it can depend on a
//! pause: no timer, no round-trip time, and not CUBIC's curve. Packets that arrive meanwhile are kept and handled in
//! order on resuming, so that windows and losses are then treated in the normal way. The retransmission timer and the
//! tail loss probe start again, because outstanding data may still wait where it stopped. They do so only once until an
//! acknowledgement brings news. Otherwise pauses in quick succession would postpone a timeout without end.
//!
//! Times on the wire stay true, for receivers that measure one-way delays. A round-trip time that spans a pause is not
//! a sample. Probes begin once the connection is established: a connection request has its own timer and no data to
//! lose.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use core::convert::Infallible;

use super::{FINISH, HANDSHAKE, TcpSender};
use crate::congestion::CongestionControl;
use crate::contract::cross_queue_notification::{Change, CrossQueueConfig, CrossQueueNotification};
use crate::packet::{Body, Ecn, Packet, SackBlocks};
use crate::time::{Instant, Span};
use crate::transport::{Command, Deadline, Event, Statistics, Timer, Transport};

/// Least bytes of a probe on the wire.
const PROBE_BYTES: u16 = 64;
/// Packets kept during a pause; beyond it the oldest are forgotten, as if the network had lost them.
const HELD_MAX: usize = 4096;

/// The sender of one flow under cross-queue congestion notification.
pub struct CrossQueueSender<C>(Box<Parts<C>>);

struct Parts<C> {
    sender: TcpSender<C>,
    notification: CrossQueueNotification,
    clock: FlowClock,
    /// SND.UNA when timers last started again.
    restarted_at: Option<u64>,
    held: VecDeque<(Packet, SackBlocks)>,
}

/// Time without the flow's pauses.
#[derive(Clone, Copy, Debug)]
struct FlowClock {
    /// Sum of the past pauses: how far the clock is behind.
    behind: Span,
    paused_since: Option<Instant>,
    resumed_at: Instant,
    pauses: u64,
}

impl FlowClock {
    const fn new() -> Self {
        Self { behind: Span::ZERO, paused_since: None, resumed_at: Instant::ZERO, pauses: 0 }
    }

    fn is_paused(&self) -> bool {
        self.paused_since.is_some()
    }

    fn pause(&mut self, now: Instant) {
        self.paused_since = Some(now);
        self.pauses += 1;
    }

    fn resume(&mut self, now: Instant) {
        if let Some(since) = self.paused_since.take() {
            self.behind = self.behind.plus(now.since(since));
            self.resumed_at = now;
        }
    }

    /// What the clock shows at `now`.
    fn read(&self, now: Instant) -> Instant {
        self.paused_since.unwrap_or(now).before(self.behind)
    }

    /// When the clock will show `at`, if no other pause comes.
    fn when(&self, at: Instant) -> Instant {
        at.after(self.behind)
    }

    /// An arriving packet with its times in the flow's time. A time from before the end of the last pause is left out.
    fn localise(&self, packet: &Packet) -> Packet {
        let Body::Ack { ack, echo, window, flags } = packet.body() else { return *packet };
        let echo = echo.filter(|echo| *echo >= self.resumed_at).map(|echo| echo.before(self.behind));
        let mut local = Packet::new(packet.traffic_class, packet.wire_bytes, Body::Ack { ack, echo, window, flags });
        // Where the one-way delay travels.
        local.set_attachment(packet.attachment());
        local
    }
}

impl<C: CongestionControl> CrossQueueSender<C> {
    /// Makes `sender` pause. `config` must pass [`CrossQueueConfig::check`].
    pub fn new(sender: TcpSender<C>, config: CrossQueueConfig) -> Self {
        Self(Box::new(Parts {
            sender,
            notification: CrossQueueNotification::new(config),
            clock: FlowClock::new(),
            restarted_at: None,
            held: VecDeque::new(),
        }))
    }

    /// The inner sender. Its times leave out the pauses.
    pub fn sender(&self) -> &TcpSender<C> {
        &self.0.sender
    }

    /// Whether it is paused.
    pub fn is_paused(&self) -> bool {
        self.0.notification.is_paused()
    }
}

impl<C: CongestionControl> Parts<C> {
    fn follow(&mut self, now: Instant, change: Option<Change>) {
        match change {
            None => {}
            Some(Change::Pause) => self.clock.pause(now),
            Some(Change::Resume) => {
                self.clock.resume(now);
                self.sender.on_clock_stopped();
                let unacked = Some(self.sender.unacked());
                if core::mem::replace(&mut self.restarted_at, unacked) != unacked {
                    self.sender.restart_timers(self.clock.read(now));
                }
                while let Some((packet, sack)) = self.held.pop_front() {
                    self.pass_on(now, &packet, &sack);
                }
            }
        }
    }

    fn pass_on(&mut self, now: Instant, packet: &Packet, sack: &SackBlocks) {
        let packet = self.clock.localise(packet);
        self.sender.handle_packet(self.clock.read(now), &packet, sack);
    }

    fn hold(&mut self, packet: &Packet, sack: &SackBlocks) {
        if self.held.len() >= HELD_MAX {
            self.held.pop_front();
        }
        self.held.push_back((*packet, *sack));
    }

    fn probe(&self, now: Instant) -> Packet {
        let class = self.notification.config().probe_class.with_ecn(Ecn::Ect0);
        let wire_bytes = self.sender.config.wire.wire_bytes(0).max(PROBE_BYTES);
        Packet::new(class, wire_bytes, Body::Probe { sent_at: now })
    }
}

impl<C: CongestionControl> Transport for CrossQueueSender<C> {
    type Request = Infallible;
    type Answer = Infallible;

    fn handle_packet(&mut self, now: Instant, packet: &Packet, sack: &SackBlocks) {
        let parts = &mut *self.0;
        match packet.body() {
            Body::ProbeEcho { echo, marked } => {
                let change = parts.notification.handle_echo(now, echo, marked);
                parts.follow(now, change);
            }
            _ if parts.clock.is_paused() => parts.hold(packet, sack),
            _ => parts.pass_on(now, packet, sack),
        }
    }

    fn handle_command(&mut self, now: Instant, command: Command) {
        let parts = &mut *self.0;
        parts.sender.handle_command(parts.clock.read(now), command);
    }

    fn handle_timeout(&mut self, now: Instant) {
        let parts = &mut *self.0;
        let change = parts.notification.handle_timeout(now);
        parts.follow(now, change);
        if !parts.clock.is_paused() {
            parts.sender.handle_timeout(parts.clock.read(now));
        }
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Packet> {
        let parts = &mut *self.0;
        parts.notification.set_watching(parts.sender.has_data());
        if parts.notification.poll_probe(now) {
            return Some(parts.probe(now));
        }
        if parts.clock.is_paused() {
            return None;
        }
        let packet = parts.sender.poll_transmit(parts.clock.read(now))?;
        let Body::Data { seq, len, flags, .. } = packet.body() else { return Some(packet) };
        let body = Body::Data { seq, sent_at: now, len, flags };
        Some(Packet::new(packet.traffic_class, packet.wire_bytes, body))
    }

    fn sack_blocks(&self) -> &SackBlocks {
        self.0.sender.sack_blocks()
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.0.sender.poll_event()
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        let parts = &*self.0;
        let probe = parts.notification.poll_timeout().map(|at| Deadline { at, why: Timer::Probe });
        let running = if parts.clock.is_paused() { None } else { parts.sender.poll_timeout() };
        let running = running.map(|deadline| Deadline { at: parts.clock.when(deadline.at), ..deadline });
        [probe, running].into_iter().flatten().min_by_key(|deadline| deadline.at)
    }

    fn send_space(&self) -> u64 {
        self.0.sender.send_space()
    }

    fn unsent(&self) -> u64 {
        self.0.sender.unsent()
    }

    fn statistics(&self) -> Statistics {
        let FlowClock { pauses, behind, .. } = self.0.clock;
        Statistics { pauses, paused: behind, ..self.0.sender.statistics() }
    }
}

impl<C: CongestionControl> TcpSender<C> {
    /// Whether anything is still to be sent or acknowledged on an established connection.
    fn has_data(&self) -> bool {
        let fin = u64::from(self.is(FINISH));
        !self.is(HANDSHAKE) && self.snd_una < self.written + fin
    }
}
