//! Datagrams at a constant rate: no feedback, no retransmission.
//!
//! Packets leave `wire bits / rate` apart. The fraction of a picosecond is carried over. The sender adds no jitter;
//! drivers draw it.

use alloc::collections::VecDeque;
use core::convert::Infallible;

use super::arrivals::Arrivals;
use crate::contract::Field;
use crate::packet::{Body, ByteRange, DataFlags, Ecn, Packet, SackBlocks, TrafficClass, WireFormat};
use crate::time::Instant;
use crate::transport::tcp::MAX_STREAM;
use crate::transport::{Command, Deadline, Event, Statistics, Timer, Transport};
use crate::units::{Rate, Serializer};

/// The contract fields that it honours: none.
pub const HONOURS: &[Field] = &[];

/// Settings of a sender at a constant rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UdpConfig {
    /// Rate on the wire, headers and framing included; above 0.
    pub rate: Rate,
    /// Payload bytes per packet, above 0; a full packet takes at most 65535 bytes on the wire. Usual: 1460.
    pub payload: u16,
    /// Bytes around a payload.
    pub wire: WireFormat,
    /// Class of its packets; they are Not-ECT.
    pub class: TrafficClass,
}

/// Sends at a constant rate. It is finished when everything was sent.
pub struct UdpSender {
    config: UdpConfig,
    serializer: Serializer,
    next: u64,
    written: u64,
    released: u64,
    packets_sent: u64,
    /// Ends of the messages that were not sent yet. No packet holds parts of two messages.
    message_ends: VecDeque<u64>,
    /// The next packet leaves at this time or later; set while packets follow each other.
    next_at: Option<Instant>,
    finish: bool,
    fin_sent: bool,
    finished: bool,
}

impl UdpSender {
    /// A sender with nothing to send yet.
    pub fn new(config: UdpConfig) -> Self {
        assert!(config.payload > 0, "a packet carries something");
        assert!(config.payload.checked_add(config.wire.header_bytes).is_some(), "packets stay below 65536 bytes");
        Self {
            serializer: Serializer::new(config.rate),
            config,
            next: 0,
            written: 0,
            released: 0,
            packets_sent: 0,
            message_ends: VecDeque::new(),
            next_at: None,
            finish: false,
            fin_sent: false,
            finished: false,
        }
    }

    fn has_more(&self) -> bool {
        self.next < self.written || self.finish && !self.fin_sent
    }
}

impl Transport for UdpSender {
    type Request = Infallible;
    type Answer = Infallible;

    fn handle_packet(&mut self, _now: Instant, _packet: &Packet, _sack: &SackBlocks) {}

    fn handle_command(&mut self, now: Instant, command: Command) {
        if !self.has_more() {
            self.next_at = self.next_at.filter(|at| *at > now);
        }
        match command {
            Command::Send { bytes } if !self.finish => {
                self.written = self.written.saturating_add(bytes).min(MAX_STREAM);
            }
            Command::SendMessage { bytes } if !self.finish => {
                self.written = self.written.saturating_add(bytes.into()).min(MAX_STREAM);
                self.message_ends.push_back(self.written);
            }
            Command::Finish => self.finish = true,
            _ => {}
        }
    }

    fn handle_timeout(&mut self, _now: Instant) {}

    #[inline]
    fn poll_transmit(&mut self, now: Instant) -> Option<Packet> {
        let at = self.next_at.unwrap_or(now);
        if at > now || !self.has_more() {
            return None;
        }
        let end = self.message_ends.front().map_or(self.written, |&end| end);
        let len = (end - self.next).min(u64::from(self.config.payload)) as u16;
        let seq = self.next;
        self.next += u64::from(len);
        if self.next == end {
            self.message_ends.pop_front();
        }
        self.fin_sent = self.finish && self.next == self.written;
        let wire_bytes = self.config.wire.wire_bytes(len);
        self.next_at = Some(at.after(self.serializer.transmit(u32::from(wire_bytes))));
        self.packets_sent += 1;
        let flags = DataFlags::NONE.with_if(DataFlags::FIN, self.fin_sent);
        let class = self.config.class.with_ecn(Ecn::NotEct);
        Some(Packet::new(class, wire_bytes, Body::Data { seq, sent_at: now, len, flags }))
    }

    #[inline]
    fn poll_event(&mut self) -> Option<Event> {
        if self.released < self.next {
            let range = ByteRange::new(self.released, self.next);
            self.released = self.next;
            return Some(Event::Release(range));
        }
        if self.fin_sent && !self.finished {
            self.finished = true;
            return Some(Event::Finished);
        }
        None
    }

    #[inline]
    fn poll_timeout(&self) -> Option<Deadline> {
        let at = self.next_at.filter(|_| self.has_more())?;
        Some(Deadline { at, why: Timer::Pace })
    }

    fn statistics(&self) -> Statistics {
        Statistics { packets_sent: self.packets_sent, bytes_sent: self.next, ..Statistics::default() }
    }
}

/// Most gaps remembered for late packets. Bytes of forgotten gaps count as duplicates.
const GAPS_MAX: usize = 64;

/// Counts what arrives, each byte once.
pub struct UdpReceiver {
    arrivals: Arrivals,
    marks: u64,
    /// One past the flow's last byte, once the packet that tells it has arrived.
    end: Option<u64>,
    received: bool,
}

impl Default for UdpReceiver {
    fn default() -> Self {
        Self::new()
    }
}

impl UdpReceiver {
    /// A receiver that has seen nothing.
    pub fn new() -> Self {
        Self { arrivals: Arrivals::new(GAPS_MAX), marks: 0, end: None, received: false }
    }

    /// Different bytes that arrived.
    pub fn unique_bytes(&self) -> u64 {
        self.arrivals.unique_bytes()
    }
}

impl Transport for UdpReceiver {
    type Request = Infallible;
    type Answer = Infallible;

    #[inline]
    fn handle_packet(&mut self, _now: Instant, packet: &Packet, _sack: &SackBlocks) {
        let Body::Data { seq, len, flags, .. } = packet.body() else { return };
        let Some(end) = seq.checked_add(u64::from(len)).filter(|end| *end <= MAX_STREAM) else { return };
        self.marks += u64::from(packet.traffic_class.ecn() == Ecn::Ce);
        if flags.contains(DataFlags::FIN) {
            self.end = Some(end);
        }
        self.arrivals.take(ByteRange::new(seq, end));
    }

    fn handle_command(&mut self, _now: Instant, _command: Command) {}

    fn handle_timeout(&mut self, _now: Instant) {}

    #[inline]
    fn poll_transmit(&mut self, _now: Instant) -> Option<Packet> {
        None
    }

    #[inline]
    fn poll_event(&mut self) -> Option<Event> {
        if let Some(range) = self.arrivals.poll() {
            return Some(Event::Deliver(range));
        }
        // The last packet may overtake others.
        if !self.received && self.end == Some(self.arrivals.unique_bytes()) {
            self.received = true;
            return Some(Event::Received);
        }
        None
    }

    #[inline]
    fn poll_timeout(&self) -> Option<Deadline> {
        None
    }

    fn statistics(&self) -> Statistics {
        Statistics { marks: self.marks, duplicate_bytes: self.arrivals.duplicate_bytes(), ..Statistics::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Span;
    use crate::transport::pair::{Fate, Pair, Path};
    use alloc::vec::Vec;

    fn config(rate: Rate) -> UdpConfig {
        UdpConfig { rate, payload: 1460, wire: WireFormat::ETHERNET, class: TrafficClass::new(1) }
    }

    fn pair(rate: Rate, forth: Path) -> Pair<UdpSender, UdpReceiver> {
        let back = Path::new(Span::from_us(10));
        Pair::new(UdpSender::new(config(rate)), UdpReceiver::new(), forth, back)
    }

    fn path() -> Path {
        Path::new(Span::from_us(10))
    }

    #[test]
    fn packets_leave_at_the_wire_rate_without_drift() {
        // 1538 bytes at 7 Gbit/s take 1757714 2/7 ps.
        let mut pair = pair(Rate::from_gbit_per_sec(7), path());
        pair.transfer(701 * 1460);
        assert!(pair.run_until(Instant::MAX));
        assert_eq!(pair.sender.sent[700].at.as_ps(), 700 * 1538 * 8_000 / 7);
        assert_eq!(pair.sender.sent.len(), 701);
        assert_eq!(pair.receiver.delivered(), 701 * 1460);
        assert_eq!(pair.sender.time_of(Event::Finished), Some(pair.sender.sent[700].at), "when everything is sent");
        assert_eq!(pair.receiver.time_of(Event::Received), Some(pair.sender.sent[700].at.after(Span::from_us(10))));
    }

    #[test]
    fn no_packet_holds_parts_of_two_messages() {
        let mut pair = pair(Rate::from_gbit_per_sec(10), path());
        for bytes in [100, 2000, 1460] {
            pair.command_sender(Command::SendMessage { bytes });
        }
        pair.command_sender(Command::Finish);
        assert!(pair.run_until(Instant::MAX));
        let sizes: Vec<_> = pair.sender.sent.iter().map(|sent| sent.packet.payload()).collect();
        assert_eq!(sizes, [100, 1460, 540, 1460]);
    }

    #[test]
    fn a_pause_earns_no_burst() {
        let mut pair = pair(Rate::from_gbit_per_sec(10), path());
        for start_us in [0, 100] {
            pair.now = Instant::ZERO.after(Span::from_us(start_us));
            pair.command_sender(Command::Send { bytes: 2 * 1460 });
            pair.run_until(Instant::MAX);
        }
        let times: Vec<_> = pair.sender.sent.iter().map(|sent| sent.at.as_ps()).collect();
        assert_eq!(times, [0, 1_230_400, 100_000_000, 101_230_400]);
    }

    #[test]
    fn each_byte_counts_once() {
        let fate = |number: usize, _: Instant, _: &Packet| match number % 4 {
            0 => Fate::Drop,
            1 => Fate::Duplicate,
            2 => Fate::Delay(Span::from_us(50)),
            _ => Fate::Pass,
        };
        let mut pair = pair(Rate::from_gbit_per_sec(10), path().with_fate(fate));
        pair.transfer(400 * 1460);
        assert!(pair.run_until(Instant::MAX));
        assert_eq!(pair.receiver.transport.unique_bytes(), 300 * 1460);
        assert_eq!(pair.receiver.transport.statistics().duplicate_bytes, 100 * 1460);
        let delivered = pair.receiver.events.iter().map(|(_, event)| match event {
            Event::Deliver(range) => range.len(),
            _ => 0,
        });
        assert_eq!(delivered.sum::<u64>(), 300 * 1460);
    }

    /// Ten packets, of which number `which` meets `fate`.
    fn with_fate_of(which: usize, fate: Fate) -> Pair<UdpSender, UdpReceiver> {
        let fates = move |number: usize, _: Instant, _: &Packet| if number == which { fate } else { Fate::Pass };
        let mut pair = pair(Rate::from_gbit_per_sec(10), path().with_fate(fates));
        pair.transfer(10 * 1460);
        assert!(pair.run_until(Instant::MAX));
        assert!(pair.sender.time_of(Event::Finished).is_some());
        pair
    }

    #[test]
    fn with_a_packet_lost_nothing_is_said_to_be_received() {
        for which in [0, 5, 9] {
            assert_eq!(with_fate_of(which, Fate::Drop).receiver.time_of(Event::Received), None);
        }
    }

    /// A flow is complete with its last byte, not with its last packet, which may overtake others.
    #[test]
    fn all_has_been_received_when_the_latest_packet_arrives() {
        let pair = with_fate_of(5, Fate::Delay(Span::from_us(50)));
        let latest = pair.sender.sent[5].at.after(Span::from_us(60));
        assert!(latest > pair.sender.sent[9].at.after(Span::from_us(10)));
        assert_eq!(pair.receiver.time_of(Event::Received), Some(latest));
    }

    #[test]
    fn impossible_packets_change_nothing() {
        let mut receiver = UdpReceiver::new();
        for (seq, len) in [(u64::MAX, 1), (u64::MAX - 5, 1000), (MAX_STREAM, 1)] {
            let body = Body::Data { seq, sent_at: Instant::ZERO, len, flags: DataFlags::FIN };
            receiver.handle_packet(Instant::ZERO, &Packet::new(TrafficClass::new(0), 84, body), &SackBlocks::EMPTY);
        }
        assert_eq!((receiver.unique_bytes(), receiver.poll_event()), (0, None));
    }
}
