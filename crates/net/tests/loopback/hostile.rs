//! Datagrams, streams and packets that no honest peer sends.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::common::{by, content, encrypted, files, loopback, settings, stranger, write_file};
use pliant_net::clock::Clock;
use pliant_net::connection::{Caller, Closed, Config, ConnectionId, Endpoint, Event as ConnectionEvent};
use pliant_net::driver::{Application, ConnectionHandler, Driver, PayloadLocation, Session};
use pliant_net::flow::{Opening, Path, Protocol, SocketTransport};
use pliant_net::socket::Socket;
use pliant_net::transfer::{Announcement, Kind, Receiver, Settings, Source, Target, TransferError, send};
use pliant_proto::congestion::Algorithm;
use pliant_proto::packet::{
    AckFlags, Body, ByteRange, CreditStamp, DataFlags, EndpointId, Packet, SackBlocks, ShortTime, Side, Subflow,
    TrafficClass,
};
use pliant_proto::time::Instant;
use pliant_proto::transport::any::{AnyRequest, AnyTransport};
use pliant_proto::transport::{Command, Event, Transport};
use pliant_proto::wire;
use proptest::prelude::*;

/// During a transfer through a relay the receiver is sent noise, cut packets, its own acknowledgements and packets of
/// another connection, and the sender packets for the other side: each is counted and dropped, and the file arrives.
#[test]
fn hostile_datagrams_are_counted_and_dropped() {
    const EACH: u64 = 8;
    let directory = tempfile::tempdir().unwrap();
    let path = write_file(directory.path(), "source", 1 << 20);
    let copy = directory.path().join("copy");
    let receiver = Receiver::bind(loopback(), settings()).unwrap();
    let mut relay = crate::common::Relay::new(crate::common::Faults::default(), receiver.address());
    relay.hostility = EACH;
    let (way, stop) = (relay.address(), AtomicBool::new(false));
    let (sent, received) = thread::scope(|scope| {
        let relaying = scope.spawn(|| relay.run(&stop));
        let target = Target::File(copy.clone());
        let receiving = scope.spawn(move || receiver.receive(&target, &crate::common::NEVER, |_| {}));
        let sent = send(Source::open(&path).unwrap(), way, &settings(), &crate::common::NEVER, |_| {}, |_| {}).unwrap();
        stop.store(true, Ordering::Relaxed);
        relaying.join().unwrap();
        (sent, receiving.join().unwrap().unwrap())
    });
    assert_eq!(std::fs::read(copy).unwrap(), content(1 << 20));
    assert_eq!(sent.hash, received.hash);
    // Noise and a cut packet; another connection, another port, and an acknowledgement of its own.
    let refused = received.refused;
    assert_eq!((refused.malformed, refused.stray), (2 * EACH, 3 * EACH));
    assert_eq!(sent.refused.reflected, EACH);
}

/// A stream of any bytes, for those who lie about files.
struct Forged(Vec<u8>);

impl Application for Forged {
    fn read(&mut self, place: PayloadLocation, payload: &mut [u8]) -> io::Result<()> {
        let PayloadLocation::Stream(offset) = place else { unreachable!("it sends a stream") };
        payload.copy_from_slice(&self.0[offset as usize..][..payload.len()]);
        Ok(())
    }

    fn write(&mut self, _: PayloadLocation, _: &[u8]) -> io::Result<()> {
        Ok(())
    }

    fn event(&mut self, _: Event<AnyRequest>) -> io::Result<()> {
        Ok(())
    }
}

const PATH: Path = Path { ipv6: false, sealing_bytes: 0 };

/// Sends a stream, whatever the other side thinks of it.
struct Forger(Option<Vec<u8>>);

impl ConnectionHandler<AnyTransport, Forged> for Forger {
    fn answer(&mut self, _: Caller<'_>, _: &[u8]) -> Result<Vec<u8>, String> {
        Err("nobody calls".into())
    }

    fn open(&mut self, now: Instant, _: ConnectionId, _: ConnectionEvent) -> Option<Session<AnyTransport, Forged>> {
        let stream = self.0.take()?;
        let mut transport = settings().flow.sender(Protocol::Tcp, PATH, None, 0).unwrap();
        transport.handle_command(now, Command::Send { bytes: stream.len() as u64 });
        transport.handle_command(now, Command::Finish);
        Some(Session::new(Forged(stream)).sending(transport, None))
    }

    fn closed(&mut self, _: ConnectionId, _: Option<Session<AnyTransport, Forged>>, _: Closed) {}
}

/// Announces `content` and sends `stream` to `to` until `stop`.
fn send_forged(content: Vec<u8>, stream: Vec<u8>, to: SocketAddr, stop: &AtomicBool) {
    let socket = Socket::bind(loopback()).unwrap();
    let endpoint = Endpoint::new(Config { accepts: false, ..Config::default() }, [1; 32]);
    let mut driver = Driver::new(socket, endpoint, Clock::start());
    let opening = Opening { offers: vec![Protocol::Tcp], mtu: 1500, content };
    driver.connect(to, &opening.encode()).unwrap();
    let mut forger = Forger(Some(stream));
    while !stop.load(Ordering::Relaxed) {
        driver.run_once(&mut forger, Duration::from_millis(10)).unwrap();
    }
}

fn announcement(name: &str, size: Option<u64>) -> Announcement {
    let kind = if size.is_some() { Kind::File } else { Kind::Stream };
    Announcement {
        kind,
        name: name.into(),
        size,
        partial: false,
        hashed: false,
        min_delivery: 1.0,
        message_bytes: None,
        identity: None,
    }
}

/// Every lie ends in one clear error; no file appears, and one that was there stays as it was.
#[test]
fn lying_streams_are_refused_and_leave_nothing() {
    let body = content(300_000);
    let size = body.len() as u64;
    let hash = *blake3::hash(&body).as_bytes();
    let stream = |body: &[u8], hash: [u8; 32]| [body, &hash].concat();
    let of = |name: &str, size: u64| announcement(name, Some(size));
    for (announced, forged, why) in [
        (of("old", size), stream(&body, [7; 32]), "content of old differs from what was sent"),
        (of("old", size), stream(&body[..299_999], hash), "it is shorter than announced"),
        (of("old", size + 1_000_000), stream(&body, hash), "it is shorter than announced"),
        (of("old", size - 1), stream(&body, hash), "it is longer than announced"),
        (of("../old", size), stream(&body, hash), "the name it gives is not a plain file name"),
        (of("/etc/passwd", size), stream(&body, hash), "the name it gives is not a plain file name"),
        (of("", size), stream(&body, hash), "the name it gives is not a plain file name"),
        (of("old", size), Vec::new(), "it is shorter than announced"),
        (announcement("old", None), stream(&body, [7; 32]), "content of old differs from what was sent"),
        (announcement("old", None), hash[..31].to_vec(), "it is shorter than announced"),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let into = directory.path().join("into");
        std::fs::create_dir(&into).unwrap();
        std::fs::write(into.join("old"), "what was there").unwrap();
        let receiver = Receiver::bind(loopback(), Settings { overwrite: true, ..settings() }).unwrap();
        let (to, stop) = (receiver.address(), AtomicBool::new(false));
        let error = thread::scope(|scope| {
            scope.spawn(|| send_forged(announced.encode(), forged, to, &stop));
            let result = receiver.receive(&Target::Directory(into.clone()), &crate::common::NEVER, |_| {});
            stop.store(true, Ordering::Relaxed);
            result.map(|received| received.bytes).unwrap_err()
        });
        let message = error.to_string();
        assert!(message.contains(why), "{message} instead of {why}");
        assert!(!message.contains('\n'), "{message}");
        assert_eq!(files(&into), ["old"], "{why}");
        assert_eq!(files(directory.path()), ["into"], "{why}");
        assert_eq!(std::fs::read(into.join("old")).unwrap(), b"what was there", "{why}");
    }
}

/// A receiver that nobody speaks to sensibly keeps waiting, and can be stopped.
#[test]
fn noise_opens_no_transfer() {
    for settings in [settings(), encrypted(settings())] {
        let receiver = Receiver::bind(loopback(), settings).unwrap();
        let to = receiver.address();
        for noise in [&b""[..], b"P", &[0x50; 8], &[0x51; 40], &[0x51, 0x20, 1, 0, 5], &[0xff; 1400]] {
            stranger().send_to(noise, to).unwrap();
        }
        let stop = AtomicBool::new(true);
        assert!(matches!(receiver.receive(&Target::Discard, &stop, |_| {}), Err(TransferError::Interrupted)));
    }
}

/// Gives bytes until it is told to end.
struct Until<'f>(&'f AtomicBool);

impl io::Read for Until<'static> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        into.fill(7);
        Ok(if self.0.load(Ordering::Relaxed) { 0 } else { into.len() })
    }
}

/// While 100,000 handshakes are begun by somebody who never goes on, a transfer that stands goes on to its end, and one
/// that begins in the middle of it does so, too.
#[test]
fn half_open_handshakes_do_not_stop_a_transfer() {
    const HELLOS: u32 = 100_000;
    static FLOODED: AtomicBool = AtomicBool::new(false);
    let settings = encrypted(settings());
    let receiver = Receiver::bind(loopback(), settings.clone()).unwrap();
    let to = receiver.address();
    let mut results = Vec::new();
    thread::scope(|scope| {
        let sending = scope.spawn(|| {
            send(Source::stream(Until(&FLOODED), "flood"), to, &settings, &crate::common::NEVER, |_| {}, |_| {})
        });
        scope.spawn(|| {
            let socket = stranger();
            for number in 0..HELLOS {
                // Kind hello, version 2, preshared key; a nonce; no cookie.
                let hello = [&[0x51, 0x20, 1, 0][..], &number.to_be_bytes(), &[9; 8], &[0; 24]].concat();
                socket.send_to(&hello, to).unwrap();
                if number == HELLOS / 2 {
                    let late = send(Source::zeros(1 << 20), to, &settings, &crate::common::NEVER, |_| {}, |_| {});
                    assert_eq!(late.unwrap().bytes, 1 << 20);
                }
            }
            FLOODED.store(true, Ordering::Relaxed);
        });
        receiver
            .serve(&Target::Discard, Some(2), &crate::common::NEVER, |_| {}, |received| results.push(received.unwrap()))
            .unwrap();
        let sent = sending.join().unwrap().unwrap();
        assert!(results.iter().any(|received| received.hash == sent.hash && received.bytes == sent.bytes));
    });
    // As many as the kernel had room for.
    assert!(results[1].refused.unproven > 1000, "{:?}", results[1].refused);
}

/// Offsets around the window's edges, and far from them.
fn offsets() -> impl Strategy<Value = u64> {
    prop_oneof![0..2000u64, (1 << 20) - 2000..(1 << 20) + 300_000u64, Just((1 << 62) - 1), any::<u64>()]
}

fn times() -> impl Strategy<Value = Instant> {
    prop_oneof![0..1_000_000_000u64, 0..u64::MAX - 1].prop_map(Instant::from_ps)
}

fn stamps() -> impl Strategy<Value = CreditStamp> {
    (prop_oneof![0..20u32, any::<u32>()], any::<u32>())
        .prop_map(|(number, bits)| CreditStamp { number, sent_at: ShortTime::from_bits(bits) })
}

/// A body of any kind with any content that the codec can write.
fn bodies() -> impl Strategy<Value = Body> {
    let length = || prop_oneof![Just(0u16), 1..40u16, 1300..1400u16];
    let number = || prop_oneof![0..50u32, any::<u32>()];
    let flags = |allowed: DataFlags| any::<u8>().prop_map(move |bits| DataFlags::from_bits(bits & allowed.bits()));
    let ack_flags = |allowed: AckFlags| any::<u8>().prop_map(move |bits| AckFlags::from_bits(bits & allowed.bits()));
    let data = DataFlags::FIN.with(DataFlags::CWR).with(DataFlags::RETRANSMISSION).with(DataFlags::DELAY);
    let again = DataFlags::FIN.with(DataFlags::RETRANSMISSION);
    let subflow = prop_oneof![Just(Subflow::Proactive), Just(Subflow::Reactive)];
    prop_oneof![
        4 => (offsets(), times(), length(), flags(data))
            .prop_map(|(seq, sent_at, len, flags)| Body::Data { seq, sent_at, len, flags }),
        4 => (offsets(), prop::option::of(times()), any::<u16>(), ack_flags(AckFlags::ECE.with(AckFlags::SACK)))
            .prop_map(|(ack, echo, window, flags)| Body::Ack { ack, echo, window, flags }),
        2 => (number(), number(), 0..40u32, 1..70_000u32, length(), flags(again.with(DataFlags::BACKUP))).prop_map(
            |(number, message, fragment, length, len, flags)| {
                let len = len.max(1);
                let length = length.max(fragment + u32::from(len));
                Body::Message { number, message, fragment, length, priority: 0, len, flags }
            },
        ),
        2 => (number(), any::<u64>(), number(), any::<u16>(), any::<bool>()).prop_map(
            |(number, received, complete, marks, backup)| Body::MessageAck { number, received, complete, marks, backup },
        ),
        1 => number().prop_map(|messages| Body::Close { messages }),
        1 => number().prop_map(|complete| Body::CloseAck { complete }),
        1 => times().prop_map(|sent_at| Body::Syn { sent_at }),
        1 => (times(), any::<u16>()).prop_map(|(echo, window)| Body::SynAck { echo, window }),
        1 => (times(), any::<u64>()).prop_map(|(sent_at, backlog)| Body::CreditRequest { sent_at, backlog }),
        2 => stamps().prop_map(Body::Credit),
        1 => (offsets(), flags(DataFlags::FIN)).prop_map(|(end, flags)| Body::CreditStop { end, flags }),
        2 => (offsets(), number(), stamps(), length(), flags(data))
            .prop_map(|(seq, number, credit, len, flags)| Body::Scheduled { seq, number, credit, len, flags }),
        2 => (offsets(), number(), length(), flags(again))
            .prop_map(|(seq, number, len, flags)| Body::Unscheduled { seq, number, len, flags }),
        2 => (offsets(), number(), number(), subflow, ack_flags(AckFlags::ECE))
            .prop_map(|(ack, first, end, subflow, flags)| Body::SubflowAck { ack, first, end, subflow, flags }),
    ]
}

/// What arrives: a packet, or one with a byte changed or cut off.
#[derive(Clone, Debug)]
struct Arrival {
    body: Body,
    blocks: Vec<(u64, u64)>,
    change: Option<(prop::sample::Index, Option<u8>)>,
}

fn arrivals() -> impl Strategy<Value = Vec<Arrival>> {
    let blocks = prop::collection::vec((offsets(), 1..5000u64), 1..4);
    let change = prop::option::weighted(0.2, (any::<prop::sample::Index>(), any::<Option<u8>>()));
    let one = (bodies(), blocks, change).prop_map(|(body, blocks, change)| Arrival { body, blocks, change });
    prop::collection::vec(one, 0..60)
}

impl Arrival {
    fn bytes(&self, to: EndpointId) -> Option<Vec<u8>> {
        let mut sack = SackBlocks::EMPTY;
        for (start, length) in &self.blocks {
            let start = *start.min(&(u64::MAX - length));
            sack.push(ByteRange::new(start, start + length));
        }
        let packet = Packet::new(TrafficClass::default(), 0, self.body).to(to);
        let mut header = [0; wire::MAX_HEADER_BYTES];
        let length = wire::encode(&packet, &sack, &mut header);
        let mut bytes = [&header[..length], &vec![1; usize::from(packet.payload())]].concat();
        match &self.change {
            Some((at, Some(byte))) => *at.get_mut(&mut bytes[..]) = *byte,
            Some((at, None)) => bytes.truncate(at.index(bytes.len())),
            None => {}
        }
        (!bytes.is_empty()).then_some(bytes)
    }
}

/// A peer that shakes hands as it should, plainly, and then sends what it likes.
struct Intruder {
    socket: UdpSocket,
    endpoint: Endpoint,
    clock: Clock,
    connection: Option<(ConnectionId, u32)>,
}

impl Intruder {
    fn new(accepts: bool) -> Self {
        let endpoint = Endpoint::new(Config { accepts, ..Config::default() }, [9; 32]);
        let socket = stranger();
        socket.set_nonblocking(true).unwrap();
        Self { socket, endpoint, clock: Clock::start(), connection: None }
    }

    /// Passes handshakes on; a sender is answered that it may send by `protocol`.
    fn run_once(&mut self, protocol: Protocol) {
        let mut bytes = [0; 2000];
        let now = self.clock.now();
        while let Ok((length, from)) = self.socket.recv_from(&mut bytes) {
            let mut accept = |_: Caller<'_>, _: &[u8]| Ok([&[protocol as u8][..], &[0; 8]].concat());
            self.endpoint.handle_datagram(now, from, &mut bytes[..length], &mut accept);
        }
        self.endpoint.handle_timeout(now);
        while let Some((connection, event)) = self.endpoint.poll_event() {
            if !matches!(event, ConnectionEvent::Closed(_)) {
                self.connection = self.endpoint.remote(connection).map(|remote| (connection, remote));
            }
        }
        while let Some((to, bytes)) = self.endpoint.poll_transmit() {
            self.socket.send_to(&bytes, to).unwrap();
        }
    }

    fn send(&self, arrivals: &[Arrival], side: Side) {
        let (connection, remote) = self.connection.unwrap();
        let peer = self.endpoint.peer(connection).unwrap();
        // The flow of the side that called has an even number.
        let to = EndpointId::new(remote << 1, side);
        for bytes in arrivals.iter().filter_map(|arrival| arrival.bytes(to)) {
            self.socket.send_to(&bytes, peer).unwrap();
        }
    }
}

fn every_protocol() -> [SocketTransport; 5] {
    [
        SocketTransport::Tcp(Algorithm::Dctcp),
        SocketTransport::ExpressPass,
        SocketTransport::FlexPass,
        SocketTransport::TwoClass,
        SocketTransport::Atp,
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Whatever a peer sends that is allowed to send: the receiver of every transport counts, answers or ends the
    /// transfer with an error, and does not panic, nor takes it for whole.
    #[test]
    fn no_packets_make_a_receiver_panic(arrivals in arrivals()) {
        for transport in every_protocol() {
            let protocol = transport.protocol();
            let receiver = Receiver::bind(loopback(), by(transport)).unwrap();
            let (to, stop, over) = (receiver.address(), AtomicBool::new(false), AtomicBool::new(false));
            let result = thread::scope(|scope| {
                let receiving = scope.spawn(|| {
                    let result = receiver.receive(&Target::Discard, &stop, |_| {});
                    over.store(true, Ordering::Relaxed);
                    result
                });
                let mut intruder = Intruder::new(false);
                let (partial, message_bytes) = (protocol == Protocol::Atp, (protocol == Protocol::Atp).then_some(1400));
                let content = Announcement { partial, message_bytes, ..announcement("x", Some(1 << 20)) }.encode();
                let opening = Opening { offers: vec![protocol], mtu: 1500, content }.encode();
                intruder.endpoint.connect(intruder.clock.now(), to, &opening).unwrap();
                while intruder.connection.is_none() && !over.load(Ordering::Relaxed) {
                    intruder.run_once(protocol);
                }
                intruder.run_once(protocol);
                intruder.send(&arrivals, Side::Responder);
                // The end of the connection follows the packets: a receiver that has heard it has heard them.
                let (connection, _) = intruder.connection.unwrap();
                intruder.endpoint.close(intruder.clock.now(), connection, 3, "done");
                intruder.run_once(protocol);
                while !over.load(Ordering::Relaxed) && !receiving.is_finished() {
                    intruder.run_once(protocol);
                    // A receiver that was told nothing of the end, the datagram being lost, is told to stop.
                    stop.store(intruder.endpoint.connections() == 0, Ordering::Relaxed);
                }
                receiving.join().expect("a receiver does not panic")
            });
            prop_assert!(result.is_err());
        }
    }

    /// The same for the sender of every transport.
    #[test]
    fn no_packets_make_a_sender_panic(arrivals in arrivals()) {
        for transport in every_protocol() {
            let mut intruder = Intruder::new(true);
            let to = intruder.socket.local_addr().unwrap();
            let (stop, over) = (AtomicBool::new(false), AtomicBool::new(false));
            thread::scope(|scope| {
                let sending = scope.spawn(|| {
                    let settings: Settings = by(transport);
                    let result = send(Source::zeros(1 << 20), to, &settings, &stop, |_| {}, |_| {});
                    over.store(true, Ordering::Relaxed);
                    result
                });
                while intruder.connection.is_none() {
                    intruder.run_once(transport.protocol());
                }
                intruder.run_once(transport.protocol());
                intruder.send(&arrivals, Side::Initiator);
                stop.store(true, Ordering::Relaxed);
                while !over.load(Ordering::Relaxed) && !sending.is_finished() {
                    intruder.run_once(transport.protocol());
                }
                // What is not true may be believed: a peer that says that it has everything ends the transfer.
                let _ = sending.join().expect("a sender does not panic");
            });
        }
    }
}

/// How a receiver lies.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lie {
    /// Its acknowledgements run ahead of what has come.
    Ahead,
    /// It says nothing of marks.
    HidesMarks,
}

/// A transport that lies, and how many packets have come to it that can be marked, and then that cannot.
struct Lying {
    honest: AnyTransport,
    lie: Lie,
    markable: u64,
    unmarkable: u64,
}

impl Transport for Lying {
    type Request = <AnyTransport as Transport>::Request;
    type Answer = <AnyTransport as Transport>::Answer;

    fn handle_packet(&mut self, now: Instant, packet: &Packet, sack: &SackBlocks) {
        if packet.payload() > 0 {
            let count = if packet.traffic_class.is_ect() { &mut self.markable } else { &mut self.unmarkable };
            *count += 1;
        }
        self.honest.handle_packet(now, packet, sack);
    }

    fn handle_command(&mut self, now: Instant, command: Command<Self::Answer>) {
        self.honest.handle_command(now, command);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.honest.handle_timeout(now);
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Packet> {
        let packet = self.honest.poll_transmit(now)?;
        let body = match (packet.body(), self.lie) {
            (Body::Ack { ack, echo, window, .. }, Lie::Ahead) => {
                Body::Ack { ack: ack + 3000, echo, window, flags: AckFlags::NONE }
            }
            (Body::Ack { ack, echo, window, .. }, Lie::HidesMarks) => {
                Body::Ack { ack, echo, window, flags: AckFlags::NONE }
            }
            (Body::MessageAck { number, complete, marks, backup, .. }, Lie::Ahead) => {
                Body::MessageAck { number: number + 2, received: u64::MAX, complete, marks, backup }
            }
            (Body::MessageAck { number, received, complete, backup, .. }, Lie::HidesMarks) => {
                Body::MessageAck { number, received, complete, marks: 0, backup }
            }
            _ => return Some(packet),
        };
        Some(Packet::new(packet.traffic_class, packet.wire_bytes, body))
    }

    fn sack_blocks(&self) -> &SackBlocks {
        &SackBlocks::EMPTY
    }

    fn poll_event(&mut self) -> Option<Event<Self::Request>> {
        self.honest.poll_event()
    }

    fn poll_timeout(&self) -> Option<pliant_proto::transport::Deadline> {
        self.honest.poll_timeout()
    }

    fn statistics(&self) -> pliant_proto::transport::Statistics {
        self.honest.statistics()
    }
}

/// Receives whatever comes and lies about it.
struct Liar {
    protocol: Protocol,
    lie: Lie,
    connection: Option<ConnectionId>,
    over: bool,
}

impl ConnectionHandler<Lying, Forged> for Liar {
    fn answer(&mut self, _: Caller<'_>, _: &[u8]) -> Result<Vec<u8>, String> {
        Ok(pliant_net::flow::Answer { protocol: self.protocol, unix_ns: 0, note: 0 }.encode())
    }

    fn open(&mut self, _: Instant, connection: ConnectionId, _: ConnectionEvent) -> Option<Session<Lying, Forged>> {
        let path = Path { sealing_bytes: 32, ..PATH };
        let honest = settings().flow.receiver(self.protocol, path, 1500, 1);
        self.connection = Some(connection);
        let lying = Lying { honest, lie: self.lie, markable: 0, unmarkable: 0 };
        Some(Session::new(Forged(Vec::new())).receiving(lying))
    }

    fn closed(&mut self, _: ConnectionId, _: Option<Session<Lying, Forged>>, _: Closed) {
        self.over = true;
    }
}

/// Sends 100 MiB to a receiver that lies, until the connection is over or so many packets have come that cannot be marked.
/// What the sender ends with, and how many packets came that can be marked and that cannot.
fn send_to_a_liar(transport: SocketTransport, lie: Lie, unmarkable: u64) -> (TransferError, u64, u64) {
    let settings = encrypted(by(transport));
    let keys = Config { keys: settings.keys.clone(), ..Config::default() };
    let mut driver = Driver::new(Socket::bind(loopback()).unwrap(), Endpoint::new(keys, [1; 32]), Clock::start());
    let to = driver.local_address().unwrap();
    thread::scope(|scope| {
        let sending = scope.spawn(|| {
            send(Source::zeros(100 << 20), to, &settings, &crate::common::NEVER, |_| {}, |_| {}).unwrap_err()
        });
        let mut liar = Liar { protocol: transport.protocol(), lie, connection: None, over: false };
        let mut came = (0, 0);
        while !liar.over {
            driver.run_once(&mut liar, Duration::from_millis(10)).unwrap();
            let Some(connection) = liar.connection else { continue };
            if let Some(lying) = driver.session(connection).and_then(Session::receiver) {
                came = (lying.markable, lying.unmarkable);
            }
            if came.1 >= unmarkable {
                driver.close(connection, 1, "enough").unwrap();
                break;
            }
        }
        (sending.join().unwrap(), came.0, came.1)
    })
}

/// A receiver that acknowledges what it has not got, to be sent to faster than the network bears, is left.
#[test]
fn who_acknowledges_ahead_is_left() {
    for transport in [SocketTransport::Tcp(Algorithm::Cubic), SocketTransport::Atp] {
        let (error, ..) = send_to_a_liar(transport, Lie::Ahead, u64::MAX);
        assert!(error.to_string().contains("the peer acknowledges what it has not got"), "{error}");
    }
}

/// A receiver that hides marks is sent to without ECN before long: what it hid as a mark it will see as a loss.
#[test]
fn who_hides_marks_is_sent_to_without_ecn() {
    for transport in [SocketTransport::Tcp(Algorithm::Dctcp), SocketTransport::Atp] {
        let (error, markable, unmarkable) = send_to_a_liar(transport, Lie::HidesMarks, 2000);
        assert!(error.to_string().contains("enough"), "{error}");
        assert!(markable > 100 && unmarkable >= 2000, "{markable}, {unmarkable}");
    }
}
