//! Whether a peer has received what it acknowledges.
//!
//! A receiver that acknowledges packets before they come, or that never come, makes its sender go faster than the network
//! can bear (RFC 9000 section 21.4; Savage et al., "TCP congestion control with a misbehaving receiver", 1999). It cannot
//! do so here for long:
//!
//! - What was never sent cannot be acknowledged.
//! - A stream's acknowledgement returns the time that stood in a packet. One that moves on must return that of a packet
//!   sent no earlier than the first byte that it newly acknowledges: RFC 7323 has receivers take it from the packet with
//!   that byte, or from a later one. Nobody else knows it: times are in nanoseconds, and what is below is random.
//! - Numbers of packets are skipped at random. An acknowledgement of a skipped one is a lie.
//!
//! Counts of marks are believed as far as packets were sent that can be marked (RFC 9000 section 13.4.2). Whether marks are
//! reported at all, packets show that this side has marked itself ([`MarkProbes`]): their transport does not hear of them.
//!
//! Only sealed connections are held to all this: on a plain one anybody may have changed what arrives.

use std::collections::VecDeque;

use pliant_proto::packet::{AckFlags, Body, ByteRange, DataFlags, Ecn, Packet, SackBlocks, TrafficClass};
use pliant_proto::time::Instant;

use super::mark_probes::MarkProbes;
use super::octets::Octets;

/// Low bits of a time in picoseconds that are random: less than a nanosecond.
const SALT_BITS: u32 = 8;
/// Least packets between two skipped numbers; as many as an octet says come on top.
const LEAST_GAP: u32 = 32;
/// Skipped numbers that are remembered: thousands of packets. Older acknowledgements tell nothing.
const SKIPPED_MAX: usize = 64;

/// Why an acknowledgement is not passed on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ReceiptError {
    /// The peer cannot have received that.
    Lie,
    /// It is of packets long forgotten.
    Stale,
}

/// What one flow has sent, and what of it was acknowledged.
pub(super) struct Receipts {
    random: Octets,
    probes: MarkProbes,
    stream: Stream,
    /// Of each sub-flow.
    numbers: [Numbers; 2],
}

impl Receipts {
    /// Nothing sent; `seed` is random and secret.
    pub(super) fn new(seed: [u8; 32]) -> Self {
        let (random, probes) = (Octets::from_seed(seed), MarkProbes::default());
        Self { random, probes, stream: Stream::default(), numbers: Default::default() }
    }

    /// Whether packets are not sent as ECN-capable any more, as marks are not reported.
    pub(super) fn marks_are_hidden(&self) -> bool {
        self.probes.are_hidden()
    }

    /// A packet of the flow's sender, as it travels.
    #[inline]
    pub(super) fn note(&mut self, packet: Packet) -> Packet {
        let (mut class, random, probes) = (packet.traffic_class, &mut self.random, &mut self.probes);
        let body = match packet.body() {
            Body::Data { seq, sent_at, len, flags } => {
                let end = seq + u64::from(len) + u64::from(flags.contains(DataFlags::FIN));
                class = self.stream.mark(ByteRange::new(seq, end), class, random, probes);
                let sent_at = self.stream.note(sent_at, end, random);
                Body::Data { seq, sent_at, len, flags }
            }
            Body::Message { number, message, fragment, length, priority, len, flags } => {
                let subflow = &mut self.numbers[usize::from(flags.contains(DataFlags::BACKUP))];
                let number = subflow.note(number, &mut class, random, probes);
                Body::Message { number, message, fragment, length, priority, len, flags }
            }
            Body::Symbol { number, block, symbol, len, flags } => {
                let number = self.numbers[0].note(number, &mut class, random, probes);
                Body::Symbol { number, block, symbol, len, flags }
            }
            Body::Scheduled { seq, len, flags, .. } | Body::Unscheduled { seq, len, flags, .. } => {
                let end = seq + u64::from(len) + u64::from(flags.contains(DataFlags::FIN));
                self.stream.end = self.stream.end.max(end);
                return packet;
            }
            _ => return packet,
        };
        Packet::new(class, packet.wire_bytes, body).to(packet.to)
    }

    /// A packet of the peer's, as the flow's sender is to hear it.
    #[inline]
    pub(super) fn check(&mut self, packet: &Packet, sack: &SackBlocks) -> Result<Packet, ReceiptError> {
        let body = match packet.body() {
            Body::Ack { ack, echo, flags, .. } => {
                self.stream.check(ack, echo, sack)?;
                let own = self.stream.is_own_mark(ack, flags, sack, &mut self.probes);
                return Ok(if own { without_ece(packet, sack) } else { *packet });
            }
            Body::SubflowAck { ack, .. } => {
                return if ack > self.stream.end { Err(ReceiptError::Lie) } else { Ok(*packet) };
            }
            Body::MessageAck { number, received, complete, marks, backup } => {
                let subflow = &mut self.numbers[usize::from(backup)];
                let (number, received) = subflow.check(number, received)?;
                let marks = subflow.check_marks(number, received, marks, &mut self.probes);
                Body::MessageAck { number: number as u32, received, complete, marks, backup }
            }
            Body::SymbolAck { number, received, decoded, needed, claim, marks, complete: false } => {
                let (number, received) = self.numbers[0].check(number, received.into())?;
                let marks = self.numbers[0].check_marks(number, received, marks, &mut self.probes);
                let (number, received) = (number as u32, received as u32);
                Body::SymbolAck { number, received, decoded, needed, claim, marks, complete: false }
            }
            _ => return Ok(*packet),
        };
        Ok(Packet::new(packet.traffic_class, packet.wire_bytes, body).to(packet.to))
    }
}

/// The same acknowledgement, but it echoes no congestion.
fn without_ece(packet: &Packet, sack: &SackBlocks) -> Packet {
    let Body::Ack { ack, echo, window, flags } = packet.body() else { return *packet };
    let flags = AckFlags::from_bits(flags.bits() & !AckFlags::ECE.bits());
    let body = Body::Ack { ack, echo, window, flags };
    let mut plain = Packet::new(packet.traffic_class, packet.wire_bytes, body).to(packet.to);
    // A delay travels beside it if anything does.
    if let Some(delay) = packet.delay(sack).filter(|_| !packet.has_attachment()) {
        plain.set_delay(delay, &mut SackBlocks::default());
    }
    plain
}

/// A stream's bytes, FIN with them.
#[derive(Default)]
struct Stream {
    /// Times as they stood in packets, ascending, each with one past the highest byte that was sent by then; from the time
    /// on when the first byte was sent that is not acknowledged.
    sent: VecDeque<(Instant, u64)>,
    /// One past the highest byte that was sent.
    end: u64,
    acknowledged: u64,
    /// Bytes in a packet that this side has marked, until it is known whether that was reported.
    probe: Option<ByteRange>,
    /// The probe was acknowledged without its mark. That may be reported still, by an acknowledgement that was overtaken,
    /// until what was sent by then is acknowledged: up to here.
    unmarked_until: Option<u64>,
    /// One past the latest probe that was reported.
    reported: u64,
}

impl Stream {
    /// The class in which a packet with these bytes travels.
    #[inline]
    fn mark(
        &mut self,
        bytes: ByteRange,
        class: TrafficClass,
        random: &mut Octets,
        probes: &mut MarkProbes,
    ) -> TrafficClass {
        if class.ecn() == Ecn::NotEct {
            return class;
        }
        if let Some(probe) = self.probe {
            // Which of the two packets is acknowledged will not be known.
            if bytes.start < probe.end && probe.start < bytes.end {
                (self.probe, self.unmarked_until) = (None, None);
            }
        } else if bytes.start >= self.end && probes.is_due(random) {
            self.probe = Some(bytes);
            return class.with_ecn(Ecn::Ce);
        }
        if probes.are_hidden() { class.with_ecn(Ecn::NotEct) } else { class }
    }

    /// Whether an acknowledgement echoes the mark of a probe, and no other. A receiver answers a packet whose mark is not
    /// that of the packet before it at once, and by itself (RFC 8257 section 3.2).
    #[inline]
    fn is_own_mark(&mut self, ack: u64, flags: AckFlags, sack: &SackBlocks, probes: &mut MarkProbes) -> bool {
        let (echoes, sack) = (flags.contains(AckFlags::ECE), sack.as_slice());
        // That acknowledgement is repeated when the window opens.
        let repeated = echoes && ack == self.reported && sack.is_empty();
        let Some(probe) = self.probe else { return repeated };
        let ahead = || sack.first().is_some_and(|latest| latest.start <= probe.start && probe.end <= latest.end);
        // The first that tells of it: what came in disorder behind it may be acknowledged with it.
        let tells = ack == probe.end || ack > probe.end && self.unmarked_until.is_none() || ahead();
        if echoes && tells {
            probes.note_reported();
            (self.probe, self.unmarked_until, self.reported) = (None, None, ack.max(probe.end));
            return true;
        }
        if ack >= probe.end && *self.unmarked_until.get_or_insert(self.end) <= ack {
            probes.note_missing();
            (self.probe, self.unmarked_until) = (None, None);
        }
        repeated
    }

    /// Bytes up to `end` are sent; gives the time that stands in the packet.
    #[inline]
    fn note(&mut self, sent_at: Instant, end: u64, random: &mut Octets) -> Instant {
        self.end = self.end.max(end);
        let tick = sent_at.as_ps() >> SALT_BITS;
        match self.sent.back_mut() {
            Some((time, highest)) if time.as_ps() >> SALT_BITS >= tick => {
                *highest = self.end;
                *time
            }
            _ => {
                let time = Instant::from_ps(tick << SALT_BITS | u64::from(random.next()));
                self.sent.push_back((time, self.end));
                time
            }
        }
    }

    #[inline]
    fn check(&mut self, ack: u64, echo: Option<Instant>, sack: &SackBlocks) -> Result<(), ReceiptError> {
        if ack > self.end || sack.as_slice().iter().any(|block| block.end > self.end) {
            return Err(ReceiptError::Lie);
        }
        // Of credit-based transports no times are kept: their receivers grant what is sent.
        if ack <= self.acknowledged || self.sent.is_empty() {
            return Ok(());
        }
        while self.sent.front().is_some_and(|(_, end)| *end <= self.acknowledged) {
            self.sent.pop_front();
        }
        self.acknowledged = ack;
        let known = |echo: &Instant| self.sent.binary_search_by_key(echo, |(time, _)| *time).is_ok();
        echo.filter(known).map(drop).ok_or(ReceiptError::Lie)
    }
}

/// The numbers of a sub-flow's packets, of which some are skipped on the wire.
#[derive(Default)]
struct Numbers {
    /// Packets sent, as their sender numbers them.
    sent: u64,
    /// Of these, packets that can be marked.
    markable: u64,
    /// The latest numbers that were skipped, ascending, as on the wire; and how many were before them.
    skipped: VecDeque<u64>,
    forgotten: u64,
    /// Packets until the next skip.
    gap: u32,
    /// Marks that were told of and believed, and how many of them were probes.
    marks: u64,
    own_marks: u64,
    /// A packet that this side has marked, as its sender numbers them, until it is known whether that was reported.
    probe: Option<u64>,
}

impl Numbers {
    /// Packet `number` is sent; gives its number on the wire, and changes its class to that in which it travels.
    #[inline]
    fn note(&mut self, number: u32, class: &mut TrafficClass, random: &mut Octets, probes: &mut MarkProbes) -> u32 {
        debug_assert_eq!(number, self.sent as u32, "packets are numbered as they are sent");
        if self.gap == 0 {
            self.gap = LEAST_GAP + u32::from(random.next());
            if self.sent > 0 {
                self.skip();
            }
        }
        self.gap -= 1;
        let on_the_wire = self.next();
        if class.ecn() != Ecn::NotEct {
            if probes.are_hidden() {
                *class = class.with_ecn(Ecn::NotEct);
            } else {
                self.markable += 1;
                if self.probe.is_none() && probes.is_due(random) {
                    self.probe = Some(self.sent);
                    *class = class.with_ecn(Ecn::Ce);
                }
            }
        }
        self.sent += 1;
        on_the_wire as u32
    }

    #[cold]
    fn skip(&mut self) {
        if self.skipped.len() == SKIPPED_MAX {
            self.skipped.pop_front();
            self.forgotten += 1;
        }
        self.skipped.push_back(self.next());
    }

    /// The next number on the wire.
    fn next(&self) -> u64 {
        self.sent + self.forgotten + self.skipped.len() as u64
    }

    /// An acknowledgement of packet `number` and, bit by bit, of those before it, as its sender numbers them.
    #[inline]
    fn check(&self, number: u32, received: u64) -> Result<(u64, u64), ReceiptError> {
        let next = self.next();
        let back = u64::from((next as u32).wrapping_sub(number));
        if back == 0 || back > next || back > 1 << 31 {
            return Err(ReceiptError::Lie);
        }
        let number = next - back;
        let at = self.skipped.partition_point(|skipped| *skipped < number);
        // All numbers that it tells of must lie behind the first that is remembered.
        if self.forgotten > 0 && (at as u64) < 1 + u64::from(u64::BITS) / u64::from(LEAST_GAP) {
            return Err(ReceiptError::Stale);
        }
        let mut received = received;
        if self.skipped.get(at) == Some(&number) {
            return Err(ReceiptError::Lie);
        }
        for (removed, skipped) in self.skipped.range(..at).rev().enumerate() {
            let place = number - 1 - skipped;
            if place >= u64::from(u64::BITS) {
                break;
            }
            let place = place as u32 - removed as u32;
            if received >> place & 1 != 0 {
                return Err(ReceiptError::Lie);
            }
            let below = (1 << place) - 1;
            received = received & below | received >> 1 & !below;
        }
        Ok((number - self.forgotten - at as u64, received))
    }

    /// Marks told of so far, modulo 2¹⁶, as far as they are believed, without probes; by an acknowledgement as
    /// [`check`](Self::check) gives it.
    #[inline]
    fn check_marks(&mut self, number: u64, received: u64, marks: u16, probes: &mut MarkProbes) -> u16 {
        let more = u64::from(marks.wrapping_sub(self.marks as u16));
        // A count that went back comes from an acknowledgement that was overtaken.
        let overtaken = more >= 1 << 15;
        let more = if overtaken || self.marks + more > self.markable { 0 } else { more };
        if let Some(back) = self.probe.and_then(|probe| number.checked_sub(probe)) {
            // Acknowledgements that did not tell of it so far are older than its arrival, and so are their counts.
            if back == 0 || back <= u64::from(u64::BITS) && received >> (back - 1) & 1 != 0 {
                self.probe = None;
                if more > 0 {
                    self.own_marks += 1;
                    probes.note_reported();
                } else {
                    probes.note_missing();
                }
            } else if back > u64::from(u64::BITS) {
                // It was lost, or every acknowledgement that would have told of it.
                self.probe = None;
            }
        }
        self.marks += more;
        (if overtaken { marks } else { self.marks as u16 }).wrapping_sub(self.own_marks as u16)
    }
}

#[cfg(test)]
mod tests {
    use pliant_proto::contract::Contract;
    use pliant_proto::packet::ByteRange;
    use pliant_proto::rng::Stream as Rng;
    use pliant_proto::time::Span;
    use pliant_proto::transport::any::AnyTransport;
    use pliant_proto::transport::{Command, Transport};
    use proptest::prelude::*;

    use super::*;
    use crate::flow::{FlowSettings, Path, Protocol, SocketTransport};

    const PATH: Path = Path { ipv6: false, sealing_bytes: 32 };

    /// What a network does, each as a probability.
    #[derive(Clone, Copy, Debug)]
    struct Network {
        loss: f64,
        late: f64,
        marked: f64,
        /// How long a driver sleeps at most while packets come.
        nap: Span,
    }

    /// A flow through a bad network, with what its driver does about receipts. What goes wrong first, unless all arrives;
    /// `change` may change what the receiver says.
    fn run(
        settings: &FlowSettings,
        network: Network,
        bytes: u64,
        seed: u64,
        change: impl FnMut(&mut Rng, Packet) -> Packet,
    ) -> Result<(), ReceiptError> {
        run_whole(settings, network, bytes, seed, change).map(drop)
    }

    /// What a flow has come to.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    struct Outcome {
        marks_are_hidden: bool,
        /// Marks that its sender's transport was told of.
        marks: u64,
        /// Packets that this side has marked, and packets that were sent as not ECN-capable.
        probes: u64,
        unmarkable: u64,
    }

    fn run_whole(
        settings: &FlowSettings,
        network: Network,
        bytes: u64,
        seed: u64,
        mut change: impl FnMut(&mut Rng, Packet) -> Packet,
    ) -> Result<Outcome, ReceiptError> {
        let (mut probes, mut unmarkable) = (0, 0);
        let protocol = settings.transport.protocol();
        let mut sender = settings.sender(protocol, PATH, Some(bytes), 0).unwrap();
        let mut receiver = settings.receiver(protocol, PATH, settings.mtu, 1);
        let mut receipts = Receipts::new([seed as u8; 32]);
        let mut rng = Rng::named(seed, "network");
        let mut now = Instant::ZERO.after(Span::from_ms(1));
        let mut wire: Vec<(Instant, bool, Packet, SackBlocks)> = Vec::new();
        sender.handle_command(now, Command::Send { bytes });
        sender.handle_command(now, Command::Finish);
        for _ in 0..200_000 {
            for to_receiver in [true, false] {
                let from: &mut AnyTransport = if to_receiver { &mut sender } else { &mut receiver };
                while let Some(packet) = from.poll_transmit(now) {
                    let sack = *from.sack_blocks();
                    let mut packet = if to_receiver { receipts.note(packet) } else { change(&mut rng, packet) };
                    if to_receiver {
                        probes += u64::from(packet.traffic_class.ecn() == Ecn::Ce);
                        unmarkable += u64::from(packet.payload() > 0 && !packet.traffic_class.is_ect());
                    }
                    if rng.unit() < network.loss {
                        continue;
                    }
                    if rng.unit() < network.marked && packet.traffic_class.ecn() != Ecn::NotEct {
                        packet.traffic_class = packet.traffic_class.with_ecn(Ecn::Ce);
                    }
                    let late = if rng.unit() < network.late { rng.below(8_000) } else { 0 };
                    // Without late packets all arrive in order.
                    let jitter = if network.late > 0.0 { rng.below(1000) } else { 0 };
                    let at = now.after(Span::from_us(2_000 + late)).after(Span::from_ns(jitter));
                    wire.push((at, to_receiver, packet, sack));
                }
                while let Some(event) = from.poll_event() {
                    if !to_receiver && event == pliant_proto::transport::Event::Received {
                        let (marks_are_hidden, marks) = (receipts.marks_are_hidden(), sender.statistics().marks);
                        return Ok(Outcome { marks_are_hidden, marks, probes, unmarkable });
                    }
                }
            }
            let deadlines = [sender.poll_timeout(), receiver.poll_timeout()].into_iter().flatten();
            let times = deadlines.map(|deadline| deadline.at).chain(wire.iter().map(|(at, ..)| *at));
            let next = times.min().expect("there is more to do");
            now = next.max(now).after(Span::from_ps(rng.below(network.nap.as_ps() + 1)));
            wire.sort_by_key(|(at, to_receiver, ..)| (*at, *to_receiver));
            let arrived = wire.iter().take_while(|(at, ..)| *at <= now).count();
            for (_, to_receiver, packet, sack) in wire.drain(..arrived) {
                if to_receiver {
                    receiver.handle_packet(now, &packet, &sack);
                } else {
                    match receipts.check(&packet, &sack) {
                        Ok(packet) => sender.handle_packet(now, &packet, &sack),
                        Err(ReceiptError::Stale) => {}
                        Err(error) => return Err(error),
                    }
                }
            }
            receiver.handle_timeout(now);
            sender.handle_timeout(now);
        }
        panic!("it does not come to an end");
    }

    fn transports() -> Vec<SocketTransport> {
        SocketTransport::all()
            .filter(|transport| [Protocol::Tcp, Protocol::Atp].contains(&transport.protocol()))
            .collect()
    }

    fn by(transport: SocketTransport) -> FlowSettings {
        FlowSettings { transport, ..FlowSettings::default() }
    }

    const FAIR: Network = Network { loss: 0.0, late: 0.0, marked: 0.0, nap: Span::from_us(50) };

    proptest! {
        #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

        /// Whatever a network does to packets and acknowledgements, loses, delays, marks, and however drivers batch, an
        /// honest receiver is never taken for a liar, and all arrives. With a small receive buffer the window closes again
        /// and again.
        #[test]
        fn honest_receivers_are_believed(
            which in any::<prop::sample::Index>(), seed in any::<u64>(), small in any::<bool>(),
            loss in 0.0..0.1, late in 0.0..0.4, marked in 0.0..0.3, nap in 0u64..3000, bytes in 1u64..600_000,
        ) {
            let mut settings = by(*which.get(&transports()));
            if small {
                settings.receive_buffer = 20_000;
            }
            let network = Network { loss, late, marked, nap: Span::from_us(nap) };
            prop_assert_eq!(run(&settings, network, bytes, seed, |_, packet| packet), Ok(()));
        }

        /// Numbers on the wire stand for those of the sender, bit by bit, whichever packets arrive; skipped ones are never
        /// sent.
        #[test]
        fn numbers_are_translated(lost in prop::collection::vec(prop::bool::weighted(0.2), 1..9000), seed in any::<u8>()) {
            let mut random = Octets::from_seed([seed; 32]);
            let (mut numbers, mut probes) = (Numbers::default(), MarkProbes::default());
            let (mut history, mut highest) = (0u128, 0);
            for own in 0..lost.len() as u32 {
                let mut class = TrafficClass::default().with_ecn(Ecn::Ect0);
                let number = numbers.note(own, &mut class, &mut random, &mut probes);
                if lost[own as usize] {
                    continue;
                }
                history = history.checked_shl(number - highest).unwrap_or(0) | 1;
                highest = number;
                let (answered, received) = numbers.check(number, (history >> 1) as u64).unwrap();
                prop_assert_eq!(answered, u64::from(own));
                let skipped = numbers.skipped.iter().filter(|skipped| u64::from(number) - **skipped <= 64).count();
                for bit in 0..64 - skipped as u32 {
                    let arrived = own.checked_sub(1 + bit).is_some_and(|own| !lost[own as usize]);
                    prop_assert_eq!(received >> bit & 1 != 0, arrived, "packet {}, bit {}", own, bit);
                }
            }
            prop_assert!(lost.len() < 300 || !numbers.skipped.is_empty());
        }
    }

    /// A receiver that acknowledges a stream's bytes before they come, by the latest time that it knows, by one it makes
    /// up, or without one, is found out.
    #[test]
    fn streams_acknowledged_ahead_are_lies() {
        for transport in transports().into_iter().filter(|transport| transport.protocol() == Protocol::Tcp) {
            for how in 0..3 {
                let lied = run(&by(transport), FAIR, 3_000_000, how, |rng, packet| {
                    let Body::Ack { ack, echo, window, flags } = packet.body() else { return packet };
                    let echo = match how {
                        0 => echo,
                        1 => echo.map(|echo| echo.after(Span::from_ps(rng.below(10_000_000)))),
                        _ => None,
                    };
                    let ack = ack + 5_000;
                    Packet::new(packet.traffic_class, packet.wire_bytes, Body::Ack { ack, echo, window, flags })
                });
                assert_eq!(lied, Err(ReceiptError::Lie), "{transport:?}, way {how}");
            }
        }
    }

    /// So is one that says of messages that packets arrived which did not.
    #[test]
    fn messages_acknowledged_ahead_are_lies() {
        let atp = transports().into_iter().find(|transport| transport.protocol() == Protocol::Atp).unwrap();
        for way in 0..3 {
            let lied = run(&by(atp), Network { loss: 0.05, ..FAIR }, 3_000_000, way, |_, packet| {
                let Body::MessageAck { number, received, complete, marks, backup } = packet.body() else {
                    return packet;
                };
                let (number, received) = match way {
                    // Everything before it has come; the next has come; one that cannot have been sent has.
                    0 => (number, u64::MAX),
                    1 => (number + 1, received << 1 | 1),
                    _ => (number + 1_000_000, received),
                };
                let body = Body::MessageAck { number, received, complete, marks, backup };
                Packet::new(packet.traffic_class, packet.wire_bytes, body)
            });
            assert_eq!(lied, Err(ReceiptError::Lie), "way {way}");
        }
    }

    /// What was never sent cannot be acknowledged, nor selectively.
    #[test]
    fn what_was_never_sent_is_a_lie() {
        let time = Instant::ZERO.after(Span::from_ms(5));
        let class = pliant_proto::packet::TrafficClass::default();
        let data = Body::Data { seq: 0, sent_at: time, len: 1000, flags: DataFlags::NONE };
        let fresh = || {
            let mut receipts = Receipts::new([1; 32]);
            let Body::Data { sent_at, .. } = receipts.note(Packet::new(class, 1000, data)).body() else {
                unreachable!()
            };
            (receipts, sent_at)
        };
        let ack = |ack, echo| {
            let body = Body::Ack { ack, echo: Some(echo), window: 9, flags: pliant_proto::packet::AckFlags::NONE };
            Packet::new(class, 60, body)
        };
        let (mut receipts, echo) = fresh();
        assert!(receipts.check(&ack(1000, echo), &SackBlocks::EMPTY).is_ok());
        let (mut receipts, echo) = fresh();
        assert_eq!(receipts.check(&ack(1001, echo), &SackBlocks::EMPTY), Err(ReceiptError::Lie));
        let (mut receipts, echo) = fresh();
        let mut sack = SackBlocks::EMPTY;
        sack.push(ByteRange::new(900, 1001));
        assert_eq!(receipts.check(&ack(0, echo), &sack), Err(ReceiptError::Lie));
    }

    /// More marks than packets that can be marked are not believed; what was believed before stands.
    #[test]
    fn marks_are_believed_as_far_as_they_can_be() {
        let mut numbers = Numbers { markable: 10, ..Numbers::default() };
        let mut check = |marks| numbers.check_marks(12, 0, marks, &mut MarkProbes::default());
        assert_eq!([4, 3, 10, 11, 9, 60_000].map(&mut check), [4, 3, 10, 10, 9, 60_000]);
        assert_eq!(numbers.marks, 10);
        let mut unmarkable = Numbers::default();
        assert_eq!(unmarkable.check_marks(0, 0, 1, &mut MarkProbes::default()), 0);
    }

    /// Transports whose packets can be marked.
    fn markable() -> Vec<SocketTransport> {
        let names = ["dctcp", "weighted-fair", "atp"];
        SocketTransport::all().filter(|transport| names.contains(&transport.name())).collect()
    }

    /// Without the flag by which a stream's receiver reports marks, and with the same count of marks in all acknowledgements
    /// of messages; each with a probability.
    fn hide_marks(probability: f64) -> impl FnMut(&mut Rng, Packet) -> Packet {
        let (mut told, mut hidden) = (0, 0);
        move |rng, packet| match packet.body() {
            Body::Ack { flags, .. } if flags.contains(AckFlags::ECE) && rng.unit() < probability => {
                without_ece(&packet, &SackBlocks::EMPTY)
            }
            Body::MessageAck { number, received, complete, marks, backup } => {
                if marks > told && rng.unit() < probability {
                    hidden += marks - told;
                }
                told = told.max(marks);
                let body = Body::MessageAck { number, received, complete, marks: marks.saturating_sub(hidden), backup };
                Packet::new(packet.traffic_class, packet.wire_bytes, body)
            }
            _ => packet,
        }
    }

    /// A receiver that hides marks, all or three of four, is sent to without ECN from then on, whether the network marks
    /// packets or not.
    #[test]
    fn who_hides_marks_is_noticed() {
        for transport in markable() {
            for (marked, hides) in [(0.0, 1.0), (0.02, 1.0), (0.0, 0.75), (0.02, 0.75)] {
                let network = Network { loss: 0.001, marked, ..FAIR };
                let outcome = run_whole(&by(transport), network, 20_000_000, 3, hide_marks(hides)).unwrap();
                assert!(outcome.marks_are_hidden && outcome.unmarkable > 1000, "{transport}, {marked}: {outcome:?}");
            }
        }
    }

    /// A receiver that reports marks is believed to, though the network loses, delays and marks. Its sender's transport hears of
    /// no mark that the network has not made.
    #[test]
    fn who_reports_marks_is_sent_to_as_before() {
        for transport in markable() {
            let outcome = run_whole(&by(transport), FAIR, 20_000_000, 3, |_, packet| packet).unwrap();
            assert!(outcome.probes > 5, "{transport}: {outcome:?}");
            assert_eq!(
                Outcome { probes: 0, ..outcome },
                Outcome { marks_are_hidden: false, marks: 0, probes: 0, unmarkable: 0 }
            );
            for seed in 0..5 {
                let network = Network { loss: 0.02, late: 0.1, marked: 0.05, nap: Span::from_ms(1) };
                let outcome = run_whole(&by(transport), network, 5_000_000, seed, |_, packet| packet).unwrap();
                assert!(!outcome.marks_are_hidden && outcome.probes > 1, "{transport}: {outcome:?}");
            }
        }
    }

    /// Bounds can be missed on purpose: a contract that lets bytes be missing is kept to as well.
    #[test]
    fn contracts_do_not_look_like_lies() {
        for transport in transports() {
            let contract = Contract { min_delivery: 0.9, ..Contract::default() };
            let settings = FlowSettings { contract, ..by(transport) };
            if settings.check().is_ok() {
                assert_eq!(run(&settings, Network { loss: 0.03, ..FAIR }, 500_000, 5, |_, packet| packet), Ok(()));
            }
        }
    }
}
