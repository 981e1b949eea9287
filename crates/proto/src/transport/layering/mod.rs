//! Layering: ExpressPass's credits on top of TCP's window (ExpressPass+, Wei et al., SIGCOMM 2019 posters; LY of FlexPass,
//! EuroSys 2023, section 6.2). A data packet leaves when a credit arrives and the window allows it.
//!
//! TCP is complete: handshake, acknowledgements, loss recovery, timers. A credit asks TCP for its next segment, new or
//! lost. If the window is closed, the credit is wasted. Acknowledgements and connection requests leave at once. The
//! credit loop is that of [`express_pass`](super::express_pass). A stop is answered by a stop. If a loss must be
//! repaired after a stop, credits are requested again.
//!
//! The published simulator puts everything that the window allows into a hold queue, where timers already run and round-trip
//! times begin ([`hold_queue`](CreditConfig::hold_queue)). Without it a segment is made when its credit arrives. With the
//! queue a flow has slightly more beside TCP: a window of data, after which marks cut again, includes what waits for credits.
//!
//! Data on credits has no room for TCP's own time, which travels in the packet's number, in short form.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::convert::Infallible;

use super::express_pass::{CreditConfig, CreditSource, Phase, Requester};
use super::tcp::{TcpReceiver, TcpSender};
use super::{Command, Deadline, Event, Statistics, Timer, Transport};
use crate::congestion::CongestionControl;
use crate::contract::Field;
use crate::packet::{Body, CreditStamp, DataFlags, Packet, SackBlocks, ShortTime};
use crate::rng::Stream;
use crate::time::Instant;

#[cfg(test)]
mod tests;

/// The contract fields that it honours: none, whatever the controller of its window honours.
pub const HONOURS: &[Field] = &[];

/// Sends one flow by TCP under the controller `C`, on credits.
pub struct LayeredSender<C> {
    config: Arc<CreditConfig>,
    requester: Requester,
    credit: Option<CreditStamp>,
    /// TCP has nothing more to do. This is reported once the credits have stopped.
    over: bool,
    /// Segments that wait for credits.
    held: VecDeque<Packet>,
    tcp: Box<TcpSender<C>>,
}

impl<C: CongestionControl> LayeredSender<C> {
    /// A sender of `tcp`'s segments. `config` must pass [`CreditConfig::check`]. Its classes are for requests and
    /// stops; data keeps TCP's class.
    pub fn new(config: Arc<CreditConfig>, tcp: TcpSender<C>) -> Self {
        assert_eq!(config.check(), Ok(()), "configurations are checked when they are read");
        Self {
            config,
            requester: Requester::new(),
            credit: None,
            over: false,
            held: VecDeque::new(),
            tcp: Box::new(tcp),
        }
    }

    /// The TCP sender below.
    pub fn tcp(&self) -> &TcpSender<C> {
        &self.tcp
    }
}

impl<C: CongestionControl> Transport for LayeredSender<C> {
    type Request = Infallible;
    type Answer = Infallible;

    #[inline]
    fn handle_packet(&mut self, now: Instant, packet: &Packet, sack: &SackBlocks) {
        match packet.body() {
            Body::Credit(credit) => self.credit = Some(credit),
            Body::CreditStop { .. } => self.requester.on_stopped(),
            Body::Ack { ack, echo, window, flags } => {
                let echo = echo.map(|at| ShortTime::of(at).latest(now));
                let body = Body::Ack { ack, echo, window, flags };
                let mut local = Packet::new(packet.traffic_class, packet.wire_bytes, body);
                // Where the one-way delay travels.
                local.set_attachment(packet.attachment());
                self.tcp.handle_packet(now, &local, sack);
            }
            _ => self.tcp.handle_packet(now, packet, sack),
        }
    }

    fn handle_command(&mut self, now: Instant, command: Command) {
        self.tcp.handle_command(now, command);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.requester.handle_timeout(now);
        self.tcp.handle_timeout(now);
    }

    #[inline]
    fn poll_transmit(&mut self, now: Instant) -> Option<Packet> {
        if self.tcp.is_connecting() {
            return self.tcp.poll_transmit(now);
        }
        if self.config.hold_queue {
            self.held.extend(core::iter::from_fn(|| self.tcp.poll_transmit(now)));
        }
        if let Some(credit) = self.credit.take() {
            let packet = if self.config.hold_queue { self.held.pop_front() } else { self.tcp.poll_transmit(now) };
            self.requester.on_credit(now, &self.config, packet.is_some());
            if let Some(packet) = packet {
                return Some(scheduled(&packet, credit));
            }
        }
        if self.tcp.has_backlog() || !self.held.is_empty() {
            self.requester.request();
        } else {
            self.requester.stop();
        }
        let end = self.tcp.next();
        let held = self.held.len() as u64 * u64::from(self.config.mss);
        self.requester.poll(now, &self.config, (self.tcp.unsent() + held).max(1), end, false)
    }

    fn sack_blocks(&self) -> &SackBlocks {
        self.tcp.sack_blocks()
    }

    #[inline]
    fn poll_event(&mut self) -> Option<Event> {
        match self.tcp.poll_event() {
            Some(Event::Finished) => {
                self.over = true;
                self.held.clear();
            }
            None => {}
            event => return event,
        }
        // Credits on their way to a flow that is over would have nowhere to go.
        let told = self.over && self.requester.phase() == Phase::Closed;
        self.over &= !told;
        told.then_some(Event::Finished)
    }

    #[inline]
    fn poll_timeout(&self) -> Option<Deadline> {
        let requester = self.requester.timer().map(|at| Deadline { at, why: Timer::Retransmit });
        let tcp = self.tcp.poll_timeout();
        requester.into_iter().chain(tcp).min_by_key(|deadline| deadline.at)
    }

    fn statistics(&self) -> Statistics {
        Statistics { wasted_credits: self.requester.wasted(), ..self.tcp.statistics() }
    }
}

/// TCP's data packet as one that was sent on `credit`.
fn scheduled(packet: &Packet, credit: CreditStamp) -> Packet {
    let Body::Data { seq, sent_at, len, flags } = packet.body() else { unreachable!("a connected sender sends data") };
    let body = Body::Scheduled { seq, number: ShortTime::of(sent_at).bits(), credit, len, flags };
    Packet::new(packet.traffic_class, packet.wire_bytes, body)
}

/// Receives one flow by TCP, and sends credits for it.
pub struct LayeredReceiver {
    config: Arc<CreditConfig>,
    source: CreditSource,
    /// The end that a stop gave, to be answered.
    stopped: Option<u64>,
    tcp: TcpReceiver,
}

impl LayeredReceiver {
    /// A receiver that paces up to `greatest` bytes of credits per second; the jitter between them is drawn from
    /// `stream`, which no other flow shares. `config` must pass [`CreditConfig::check`].
    pub fn new(config: Arc<CreditConfig>, greatest: f64, stream: Stream, tcp: TcpReceiver) -> Self {
        assert_eq!(config.check(), Ok(()), "configurations are checked when they are read");
        Self { source: CreditSource::new(&config, greatest, stream), config, stopped: None, tcp }
    }
}

impl Transport for LayeredReceiver {
    type Request = Infallible;
    type Answer = Infallible;

    #[inline]
    fn handle_packet(&mut self, now: Instant, packet: &Packet, sack: &SackBlocks) {
        match packet.body() {
            Body::Scheduled { seq, number, credit, len, flags } => {
                self.source.on_echo(now, credit);
                let sent_at = ShortTime::from_bits(number).latest(now);
                let body = Body::Data { seq, sent_at, len, flags };
                self.tcp.handle_packet(now, &Packet::new(packet.traffic_class, packet.wire_bytes, body), sack);
            }
            Body::CreditRequest { backlog, .. } => self.source.start(now, &self.config, backlog),
            Body::CreditStop { end, .. } => {
                self.source.stop();
                self.stopped = Some(end);
            }
            _ => self.tcp.handle_packet(now, packet, sack),
        }
    }

    fn handle_command(&mut self, now: Instant, command: Command) {
        self.tcp.handle_command(now, command);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.tcp.handle_timeout(now);
    }

    #[inline]
    fn poll_transmit(&mut self, now: Instant) -> Option<Packet> {
        if let Some(packet) = self.tcp.poll_transmit(now) {
            return Some(packet);
        }
        if let Some(end) = self.stopped.take() {
            let body = Body::CreditStop { end, flags: DataFlags::NONE };
            return Some(Packet::new(self.config.data_class, self.config.control_bytes(), body));
        }
        self.source.poll(now, &self.config)
    }

    fn sack_blocks(&self) -> &SackBlocks {
        self.tcp.sack_blocks()
    }

    #[inline]
    fn poll_event(&mut self) -> Option<Event> {
        self.tcp.poll_event()
    }

    #[inline]
    fn poll_timeout(&self) -> Option<Deadline> {
        let pace = self.source.due().map(|at| Deadline { at, why: Timer::Pace });
        pace.into_iter().chain(self.tcp.poll_timeout()).min_by_key(|deadline| deadline.at)
    }

    fn statistics(&self) -> Statistics {
        Statistics { credits_sent: self.source.sent(), ..self.tcp.statistics() }
    }
}
