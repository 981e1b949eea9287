//! One connection's transports and application.

use std::io;
use std::net::SocketAddr;

use pliant_proto::host::fair_rates::{FlowCounts, LinkReport, REPORT_LIFE};
use pliant_proto::packet::{Body, DataFlags, EndpointId, Packet, SackBlocks, Side, TrafficClass};
use pliant_proto::time::Instant;
use pliant_proto::transport::any::{AnyRequest, Member};
use pliant_proto::transport::rate_cap::RateCap;
use pliant_proto::transport::{Command, Deadline, Event, Outlet, Statistics, Timer, Transport, drain};
use pliant_proto::units::Rate;
use pliant_proto::wire;

use super::outbox::send;
use super::receipts::{ReceiptError, Receipts};
use crate::connection::{ConnectionId, Endpoint, Refused};
use crate::event_loop::{Schedule, Timed};
use crate::host_reports::OwnFlow;
use crate::seam::{Mutant, is_mutant};
use crate::socket::{Batch, Socket};

/// Where payload lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PayloadLocation {
    /// From this byte of the stream on.
    Stream(u64),
    /// In a message.
    Message {
        /// Which, from 0.
        message: u32,
        /// From this byte of it on.
        offset: u32,
        /// Its bytes.
        length: u32,
    },
    /// In an object.
    Symbol {
        /// Which block, from 0.
        block: u32,
        /// Which symbol of it; those from K on are repair symbols.
        symbol: u32,
    },
}

/// The bytes behind a connection's transports: they move ranges, the application holds what they mean.
pub trait Application {
    /// Writes what is to be sent from `location` on into `payload`.
    fn read(&mut self, location: PayloadLocation, payload: &mut [u8]) -> io::Result<()>;
    /// Keeps payload that arrived; it may lie ahead of what was delivered, repeat it, or be refused by the transport.
    fn write(&mut self, location: PayloadLocation, payload: &[u8]) -> io::Result<()>;
    /// Hears what a transport has to say; what `Deliver`, `DeliverMessage` and `Received` are about came in, the rest is
    /// about what goes out.
    fn event(&mut self, event: Event<AnyRequest>) -> io::Result<()>;
    /// Hears what the peer's application says beside its packets. Default: nobody listens.
    fn notice(&mut self, _content: &[u8]) {}
}

/// Seen from this side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Direction {
    Outgoing,
    Incoming,
}

impl Direction {
    pub(super) const BOTH: [Self; 2] = [Self::Outgoing, Self::Incoming];
}

/// Number of a flow in its driver's schedule.
pub(super) fn number(connection: ConnectionId, direction: Direction) -> u32 {
    (connection.index() as u32) << 1 | u32::from(direction == Direction::Incoming)
}

/// PayloadLocation of a connection and direction of its flow, from the flow's number.
pub(super) fn of_number(number: u32) -> (usize, Direction) {
    ((number >> 1) as usize, Direction::BOTH[(number & 1) as usize])
}

/// One side of one flow.
pub(super) struct Flow<T> {
    pub(super) timed: Timed<RateCap<T>>,
    /// What it said when it was asked at once, to be sent with the rest.
    answers: Vec<(Packet, SackBlocks)>,
}

impl<T: Member> Flow<T> {
    fn new(transport: T, rate: Option<Rate>) -> Self {
        Self { timed: Timed::new(RateCap::new(transport, rate)), answers: Vec::new() }
    }
}

/// Keeps what a transport has to say for later.
struct Deferred<'d, A> {
    answers: &'d mut Vec<(Packet, SackBlocks)>,
    application: &'d mut A,
    failure: &'d mut Option<io::Error>,
}

impl<A: Application, R: Into<AnyRequest>> Outlet<R> for Deferred<'_, A> {
    fn transmit(&mut self, packet: Packet, sack: &SackBlocks) {
        self.answers.push((packet, *sack));
    }

    fn event(&mut self, event: Event<R>) {
        if self.failure.is_none() {
            *self.failure = self.application.event(event.map_request(Into::into)).err();
        }
    }

    /// The flow is drained once more when it may send.
    fn arm(&mut self, _deadline: Option<Deadline>) {}
}

/// Whether many of these may be handled before one answer: TCP's acknowledgements are cumulative. A credit is spent or
/// lost before the next comes, and an acknowledgement of a message tells of few packets before it.
fn may_wait(packet: &Packet) -> bool {
    matches!(packet.body(), Body::Data { .. } | Body::Ack { .. })
}

/// One connection's transports and application.
pub struct Session<T, A> {
    /// The application.
    pub application: A,
    outgoing: Option<Flow<T>>,
    incoming: Option<Flow<T>>,
    /// Of what goes out, where nobody but the peer can have written what comes in.
    receipts: Option<Box<Receipts>>,
    /// Bytes of payload that came in, repetitions among them.
    incoming_bytes: u64,
    /// What its flows had moved when they were last seen to move, and when that was.
    moved: [(u64, Instant); 2],
    /// What the peer's host reported last, and when.
    pub(super) heard: Option<(Instant, LinkReport)>,
    pub(super) connection: ConnectionId,
    peer: SocketAddr,
    remote: u32,
    /// Of the outgoing flow's number: 0 for the side that called.
    outgoing_bit: u32,
    pub(super) touched: bool,
    pub(super) failure: Option<io::Error>,
}

impl<T: Member, A: Application> Session<T, A> {
    /// A session that neither sends nor receives.
    pub fn new(application: A) -> Self {
        Self {
            application,
            outgoing: None,
            incoming: None,
            receipts: None,
            incoming_bytes: 0,
            moved: [(0, Instant::ZERO); 2],
            heard: None,
            connection: ConnectionId(0),
            peer: ([0, 0, 0, 0], 0).into(),
            remote: 0,
            outgoing_bit: 0,
            touched: false,
            failure: None,
        }
    }

    /// Sends by `transport`, at no more than `rate` on the wire.
    pub fn sending(mut self, transport: T, rate: Option<Rate>) -> Self {
        self.send_by(transport, rate);
        self
    }

    pub(super) fn send_by(&mut self, transport: T, rate: Option<Rate>) {
        self.outgoing = Some(Flow::new(transport, rate));
    }

    /// Receives by `transport`.
    pub fn receiving(mut self, transport: T) -> Self {
        self.receive_by(transport);
        self
    }

    pub(super) fn receive_by(&mut self, transport: T) {
        self.incoming = Some(Flow::new(transport, None));
    }

    /// Ends as soon as it stands, because of `error`.
    pub fn failing(mut self, error: io::Error) -> Self {
        self.failure = Some(error);
        self
    }

    /// What sends.
    pub fn sender(&self) -> Option<&T> {
        self.outgoing.as_ref().map(|flow| flow.timed.transport.inner())
    }

    /// What receives.
    pub fn receiver(&self) -> Option<&T> {
        self.incoming.as_ref().map(|flow| flow.timed.transport.inner())
    }

    /// The counts of what sends.
    pub fn sender_statistics(&self) -> Statistics {
        self.outgoing.as_ref().map_or_else(Statistics::default, |flow| flow.timed.transport.statistics())
    }

    /// The counts of what receives.
    pub fn receiver_statistics(&self) -> Statistics {
        self.incoming.as_ref().map_or_else(Statistics::default, |flow| flow.timed.transport.statistics())
    }

    /// The peer's address.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Whether the peer's host has told which rate is fair on its link.
    pub fn peer_reports(&self) -> bool {
        self.heard.is_some()
    }

    /// Whether packets are sent without ECN, as the peer does not report marks, or the network erases them.
    pub fn marks_are_hidden(&self) -> bool {
        self.receipts.as_ref().is_some_and(|receipts| receipts.marks_are_hidden())
    }

    pub(super) fn stand(&mut self, connection: ConnectionId, peer: SocketAddr, remote: u32, calls: bool) {
        (self.connection, self.peer, self.remote) = (connection, peer, remote);
        self.outgoing_bit = u32::from(!calls);
    }

    /// The peer has another address. At another port of the same host it is behind the same path, most likely (RFC 9000
    /// section 9.4).
    pub(super) fn move_to(&mut self, now: Instant, peer: SocketAddr) {
        let old = std::mem::replace(&mut self.peer, peer);
        if old.ip() != peer.ip() {
            self.take_new_path(now);
        }
    }

    /// Packets take another path from now on.
    pub(super) fn take_new_path(&mut self, now: Instant) {
        for flow in [&mut self.outgoing, &mut self.incoming].into_iter().flatten() {
            flow.timed.tell(now).handle_new_path(now);
        }
    }

    /// Ends if the peer acknowledges what it cannot have; `seed` is random and secret.
    pub(super) fn hold_to_receipts(&mut self, seed: [u8; 32]) {
        self.receipts = self.outgoing.is_some().then(|| Box::new(Receipts::new(seed)));
    }

    pub(super) fn flow(&mut self, direction: Direction) -> Option<&mut Flow<T>> {
        match direction {
            Direction::Outgoing => self.outgoing.as_mut(),
            Direction::Incoming => self.incoming.as_mut(),
        }
    }

    /// Which of its flows are under way: what goes out, what comes in.
    pub(super) fn own_flow(&mut self, now: Instant) -> OwnFlow {
        let outgoing = self.outgoing.as_ref().map_or(0, |flow| flow.timed.transport.statistics().bytes_sent);
        let [up, down] = [(0, outgoing), (1, self.incoming_bytes)].map(|(direction, bytes)| {
            let (before, at) = &mut self.moved[direction];
            if *before != bytes {
                (*before, *at) = (bytes, now);
            }
            u32::from(bytes > 0 && now.since(*at) <= REPORT_LIFE)
        });
        let (connection, peer, heard) = (self.connection, self.peer.ip().to_canonical(), self.heard);
        OwnFlow { connection, peer, flows: FlowCounts { up, down }, heard }
    }

    /// Until when its pacer holds back what goes out, if that is all it waits for.
    pub(super) fn held_until(&self) -> Option<Instant> {
        let outgoing = self.outgoing.as_ref().filter(|_| self.incoming.is_none())?;
        let deadline = outgoing.timed.transport.poll_timeout()?;
        (deadline.why == Timer::Pace).then_some(deadline.at)
    }

    pub(super) fn touch(&mut self, touched: &mut Vec<usize>) {
        if !self.touched {
            self.touched = true;
            touched.push(self.connection.index());
        }
    }

    /// Handles a packet that is authentic; the error is what to count.
    #[inline]
    pub(super) fn handle(
        &mut self,
        now: Instant,
        packet: &Packet,
        sack: &SackBlocks,
        payload: &[u8],
    ) -> Result<(), fn(&mut Refused)> {
        let (flow, side) = (packet.to.flow(), packet.to.side());
        if flow >> 1 != self.connection.get() {
            return Err(|refused| refused.stray += 1);
        }
        let (direction, own) = if flow & 1 == self.outgoing_bit {
            (Direction::Outgoing, Side::Initiator)
        } else {
            (Direction::Incoming, Side::Responder)
        };
        if side != own {
            return Err(|refused| refused.reflected += 1);
        }
        let flow = match direction {
            Direction::Outgoing => &mut self.outgoing,
            Direction::Incoming => &mut self.incoming,
        };
        let Some(flow) = flow else { return Err(|refused| refused.stray += 1) };
        if direction == Direction::Incoming {
            self.incoming_bytes += payload.len() as u64;
        }
        if let Some(location) = location(packet)
            && self.failure.is_none()
        {
            self.failure = self.application.write(location, payload).err();
        }
        let mut packet = *packet;
        let held = direction == Direction::Outgoing && !is_mutant(Mutant::ReceiptsAreBelieved);
        if let Some(receipts) = self.receipts.as_mut().filter(|_| held) {
            packet = match receipts.check(&packet, sack) {
                Ok(packet) => packet,
                Err(ReceiptError::Stale) => return Err(|refused| refused.stray += 1),
                Err(ReceiptError::Lie) => {
                    self.failure.get_or_insert_with(|| io::Error::other("the peer acknowledges what it has not got"));
                    return Ok(());
                }
            };
        }
        let Flow { timed, answers } = flow;
        timed.tell(now).handle_packet(now, &packet, sack);
        if !may_wait(&packet) {
            let (application, failure) = (&mut self.application, &mut self.failure);
            drain(&mut timed.transport, now, &mut Deferred { answers, application, failure });
        }
        Ok(())
    }

    /// Sends what both flows have to say, except for what stays in the outbox, and arms their deadlines.
    #[inline]
    pub(super) fn drain_all(&mut self, now: Instant, way: &mut WayOut<'_>) {
        let data = self.drain_flow(now, Direction::Outgoing, None, way);
        self.drain_incoming(now, data, way);
    }

    /// The same of one flow, and of the other if an acknowledgement goes with its data.
    #[inline]
    pub(super) fn drain(&mut self, now: Instant, direction: Direction, way: &mut WayOut<'_>) {
        let data = match direction {
            Direction::Outgoing => self.drain_flow(now, direction, None, way),
            Direction::Incoming => return self.drain_incoming(now, None, way),
        };
        if data.is_some() {
            self.drain_incoming(now, data, way);
        }
    }

    /// Sends acknowledgements. One that is withheld goes `with` data of that class, so that the peer wakes up once for both.
    fn drain_incoming(&mut self, now: Instant, with: Option<TrafficClass>, way: &mut WayOut<'_>) {
        if with.is_some()
            && let Some(incoming) = &mut self.incoming
        {
            incoming.timed.tell(now).handle_command(now, Command::Acknowledge);
        }
        self.drain_flow(now, Direction::Incoming, with, way);
    }

    /// Drains one flow. Returns the class of the data that it sent last. Packets that go `with` data of their class take its ECN
    /// field, because the kernel takes packets together only if these are alike in it.
    #[inline]
    fn drain_flow(
        &mut self,
        now: Instant,
        direction: Direction,
        with: Option<TrafficClass>,
        way: &mut WayOut<'_>,
    ) -> Option<TrafficClass> {
        let (flow, bit, to) = match direction {
            Direction::Outgoing => (&mut self.outgoing, self.outgoing_bit, Side::Responder),
            Direction::Incoming => (&mut self.incoming, self.outgoing_bit ^ 1, Side::Initiator),
        };
        let flow = flow.as_mut()?;
        let receipts = self.receipts.as_deref_mut().filter(|_| direction == Direction::Outgoing);
        let mut deadline = None;
        let overhead = way.endpoint.overhead();
        let max_segments = if flow.timed.transport.measures_gaps() { 1 } else { way.socket.max_segments() };
        let mut outlet = PacketWriter {
            socket: way.socket,
            max_segments,
            endpoint: way.endpoint,
            outbox: way.outbox,
            overhead,
            receipts,
            connection: self.connection,
            peer: self.peer,
            to: EndpointId::new(self.remote << 1 | bit, to),
            with,
            data: None,
            deadline: &mut deadline,
            application: &mut self.application,
            failure: &mut self.failure,
        };
        for (packet, sack) in flow.answers.drain(..) {
            Outlet::<T::Request>::transmit(&mut outlet, packet, &sack);
        }
        drain(flow.timed.tell(now), now, &mut outlet);
        let data = outlet.data;
        way.schedule.arm(&mut flow.timed, number(self.connection, direction), deadline, now);
        data
    }
}

/// What packets pass on their way out, and where deadlines are kept.
pub(super) struct WayOut<'d> {
    pub(super) socket: &'d Socket,
    pub(super) endpoint: &'d mut Endpoint,
    pub(super) outbox: &'d mut Batch,
    pub(super) schedule: &'d mut Schedule,
}

/// Where a packet's payload lies, if it has any.
#[inline]
fn location(packet: &Packet) -> Option<PayloadLocation> {
    match packet.body() {
        Body::Data { seq, .. } | Body::Scheduled { seq, .. } | Body::Unscheduled { seq, .. } => {
            Some(PayloadLocation::Stream(seq))
        }
        Body::Message { message, fragment, length, len, flags, .. } => {
            // All fragments but the last are equally long.
            let last = flags.contains(DataFlags::FIN);
            let offset = if last {
                length.saturating_sub(u32::from(len))
            } else {
                fragment.checked_mul(u32::from(len)).filter(|offset| *offset < length)?
            };
            Some(PayloadLocation::Message { message, offset, length })
        }
        Body::Symbol { block, symbol, .. } => Some(PayloadLocation::Symbol { block, symbol }),
        // The first three are data of transports that only a testbed's hosts have, which no connection carries.
        Body::Datagram { .. }
        | Body::Pulled { .. }
        | Body::HomaData { .. }
        | Body::Ack { .. }
        | Body::Syn { .. }
        | Body::SynAck { .. }
        | Body::Probe { .. }
        | Body::ProbeEcho { .. }
        | Body::MessageAck { .. }
        | Body::Close { .. }
        | Body::CloseAck { .. }
        | Body::CreditRequest { .. }
        | Body::Credit(_)
        | Body::CreditStop { .. }
        | Body::SubflowAck { .. }
        | Body::SymbolAck { .. }
        | Body::AckVector { .. }
        | Body::PulledAck { .. }
        | Body::Pull { .. }
        | Body::Grant { .. }
        | Body::Resend { .. }
        | Body::Busy
        | Body::Done => None,
    }
}

/// The way out: from a transport to batches and the application.
struct PacketWriter<'d, A> {
    socket: &'d Socket,
    endpoint: &'d mut Endpoint,
    outbox: &'d mut Batch,
    /// Most datagrams of a batch.
    max_segments: usize,
    overhead: (usize, usize),
    receipts: Option<&'d mut Receipts>,
    connection: ConnectionId,
    peer: SocketAddr,
    to: EndpointId,
    /// The class of the data that these packets go with.
    with: Option<TrafficClass>,
    /// The class of the data that was sent last.
    data: Option<TrafficClass>,
    deadline: &'d mut Option<Deadline>,
    application: &'d mut A,
    failure: &'d mut Option<io::Error>,
}

impl<A: Application, R: Into<AnyRequest>> Outlet<R> for PacketWriter<'_, A> {
    #[inline]
    fn transmit(&mut self, mut packet: Packet, sack: &SackBlocks) {
        if self.failure.is_some() {
            return;
        }
        if let Some(receipts) = &mut self.receipts {
            packet = receipts.note(packet);
        }
        packet.to = self.to;
        let mut header = [0; wire::MAX_HEADER_BYTES];
        let header_bytes = wire::encode(&packet, sack, &mut header);
        let (before, behind) = self.overhead;
        let bytes = before + header_bytes + usize::from(packet.payload()) + behind;
        let mut class = packet.traffic_class;
        if let Some(data) = self.with.filter(|data| data.with_ecn(class.ecn()) == class) {
            class = data;
        }
        if !self.outbox.accepts(self.peer, class, bytes, self.max_segments) {
            *self.failure = send(self.socket, self.outbox).err();
        }
        let datagram = self.outbox.push(self.peer, class, bytes);
        datagram[before..before + header_bytes].copy_from_slice(&header[..header_bytes]);
        if let Some(location) = location(&packet) {
            self.data = Some(class);
            let payload = &mut datagram[before + header_bytes..bytes - behind];
            if let Err(error) = self.application.read(location, payload) {
                *self.failure = Some(error);
                // Nothing is sent in the place of what cannot be read.
                self.outbox.take_back(bytes);
                return;
            }
        }
        if !self.endpoint.seal(self.connection, datagram) {
            // Nothing leaves unsealed: the connection is over, and its session will be.
            datagram.fill(0);
        }
    }

    fn event(&mut self, event: Event<R>) {
        if self.failure.is_none() {
            *self.failure = self.application.event(event.map_request(Into::into)).err();
        }
    }

    fn arm(&mut self, deadline: Option<Deadline>) {
        *self.deadline = deadline;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use pliant_proto::congestion::Algorithm;

    use super::*;
    use crate::connection::{Config, Keys};
    use crate::flow::{FlowSettings, Path, Protocol, SocketTransport};

    /// Counts the paths that it is told of.
    #[derive(Default)]
    struct Counting(u32);

    impl Transport for Counting {
        type Request = std::convert::Infallible;
        type Answer = std::convert::Infallible;

        fn handle_packet(&mut self, _: Instant, _: &Packet, _: &SackBlocks) {}
        fn handle_command(&mut self, _: Instant, _: Command<Self::Answer>) {}
        fn handle_timeout(&mut self, _: Instant) {}
        fn handle_new_path(&mut self, _: Instant) {
            self.0 += 1;
        }
        fn poll_transmit(&mut self, _: Instant) -> Option<Packet> {
            None
        }
        fn poll_event(&mut self) -> Option<Event<Self::Request>> {
            None
        }
        fn poll_timeout(&self) -> Option<Deadline> {
            None
        }
        fn statistics(&self) -> Statistics {
            Statistics::default()
        }
    }

    struct Nobody;

    impl Application for Nobody {
        fn read(&mut self, _: PayloadLocation, _: &mut [u8]) -> io::Result<()> {
            Ok(())
        }
        fn write(&mut self, _: PayloadLocation, _: &[u8]) -> io::Result<()> {
            Ok(())
        }
        fn event(&mut self, _: Event<AnyRequest>) -> io::Result<()> {
            Ok(())
        }
    }

    /// A session that only sends waits for nothing but its pacer while its cap holds it; one that also receives, or has no cap,
    /// waits for what arrives.
    #[test]
    fn a_capped_sender_waits_for_its_pacer() {
        let (now, flow) = (Instant::ZERO, FlowSettings::default());
        let path = Path { ipv6: false, sealing_bytes: 32 };
        let cap = Some(Rate::from_bits_per_sec(10_000_000));
        for (rate, receives, waits) in [(cap, false, true), (cap, true, false), (None, false, false)] {
            let sender = flow.sender(Protocol::Tcp, path, None, 0).unwrap();
            let mut session = Session::new(Nobody).sending(sender, rate);
            if receives {
                session.receive_by(flow.receiver(Protocol::Tcp, path, flow.mtu, 1));
            }
            let transport = session.flow(Direction::Outgoing).unwrap().timed.tell(now);
            transport.handle_command(now, Command::Send { bytes: 1 << 20 });
            while transport.poll_transmit(now).is_some() {}
            assert_eq!(session.held_until().is_some(), waits, "{rate:?}, {receives}");
        }
    }

    /// The acknowledgement that is withheld of a request goes with the answer in one batch, for which the peer wakes up once.
    #[test]
    fn an_answer_takes_the_acknowledgement_along() {
        let bind = || Socket::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let (socket, mut peer) = (bind(), bind());
        let (now, flow, path) = (Instant::ZERO, FlowSettings::default(), Path { ipv6: false, sealing_bytes: 0 });
        let mut session = Session::new(Nobody)
            .sending(flow.sender(Protocol::Tcp, path, None, 0).unwrap(), None)
            .receiving(flow.receiver(Protocol::Tcp, path, flow.mtu, 1));
        session.stand(ConnectionId(1), peer.local_address().unwrap(), 1, true);
        let request = Body::Data { seq: 0, sent_at: now, len: 36, flags: DataFlags::NONE };
        let mut packet = Packet::new(TrafficClass::default(), 100, request);
        packet.to = EndpointId::new(1 << 1 | session.outgoing_bit ^ 1, Side::Responder);
        session.handle(now, &packet, &SackBlocks::EMPTY, &[0; 36]).expect("it is the session's");
        session.flow(Direction::Outgoing).unwrap().timed.tell(now).handle_command(now, Command::Send { bytes: 100 });

        let (mut outbox, mut schedule) = (Batch::default(), Schedule::default());
        let mut endpoint = Endpoint::new(Config { keys: Keys::Plain, ..Config::default() }, [1; 32]);
        let mut way = WayOut { socket: &socket, endpoint: &mut endpoint, outbox: &mut outbox, schedule: &mut schedule };
        session.drain_all(now, &mut way);
        let mut arrived = 0;
        peer.receive(|_| arrived += 1).unwrap();
        assert_eq!(arrived, 0, "nothing has left before the batch");
        send(&socket, &mut outbox).unwrap();
        peer.wait_readable(Duration::from_secs(10)).unwrap();
        peer.receive(|_| arrived += 1).unwrap();
        assert_eq!(arrived, 2);
    }

    /// Packets of a transport that measures gaps are handed to the kernel one by one; those of others, many at once.
    #[test]
    fn packets_whose_gaps_are_measured_are_not_joined() {
        let bind = || Socket::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let (socket, peer) = (bind(), bind());
        let (now, path) = (Instant::ZERO, Path { ipv6: false, sealing_bytes: 0 });
        for (algorithm, joins) in [(Algorithm::Bounded, false), (Algorithm::Cubic, socket.max_segments() > 1)] {
            let flow = FlowSettings { transport: SocketTransport::Tcp(algorithm), ..FlowSettings::default() };
            let mut session = Session::new(Nobody).sending(flow.sender(Protocol::Tcp, path, None, 0).unwrap(), None);
            session.stand(ConnectionId(1), peer.local_address().unwrap(), 1, true);
            let transport = session.flow(Direction::Outgoing).unwrap().timed.tell(now);
            transport.handle_command(now, Command::Send { bytes: 1 << 20 });
            let (mut outbox, mut schedule) = (Batch::default(), Schedule::default());
            let mut endpoint = Endpoint::new(Config { keys: Keys::Plain, ..Config::default() }, [1; 32]);
            let mut way =
                WayOut { socket: &socket, endpoint: &mut endpoint, outbox: &mut outbox, schedule: &mut schedule };
            session.drain_all(now, &mut way);
            let sent = session.sender().unwrap().statistics().packets_sent;
            assert!(sent > 1, "{algorithm:?}: {sent} packets");
            assert_eq!(outbox.segments() > 1, joins, "{algorithm:?}");
        }
    }

    /// Both directions hear of a new path when a peer moves to another host's address, or this side does; at another port of
    /// the same host nothing begins anew.
    #[test]
    fn another_host_is_another_path() {
        let mut session = Session::new(Nobody).sending(Counting(0), None).receiving(Counting(0));
        session.stand(ConnectionId(1), "192.0.2.1:7410".parse().unwrap(), 1, true);
        let paths = |session: &Session<Counting, Nobody>| (session.sender().unwrap().0, session.receiver().unwrap().0);
        for (to, expected) in [("192.0.2.1:7411", (0, 0)), ("192.0.2.2:7411", (1, 1)), ("192.0.2.2:7410", (1, 1))] {
            session.move_to(Instant::ZERO, to.parse().unwrap());
            assert_eq!(paths(&session), expected, "{to}");
        }
        session.take_new_path(Instant::ZERO);
        assert_eq!(paths(&session), (2, 2));
    }
}
