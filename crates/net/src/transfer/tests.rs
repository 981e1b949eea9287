//! The stream's header, and machines with their files behind them fed with whatever may arrive.

use pliant_proto::packet::{Body, ByteRange, Ecn, EndpointId, Flags, Packet, SackBlocks, Side, TrafficClass};
use pliant_proto::time::Instant;
use pliant_proto::transport::tcp::{TcpReceiver, TcpSender};
use pliant_proto::transport::{Command, Transport};
use pliant_proto::wire;
use proptest::prelude::*;

use super::*;
use crate::driver::{Application, Clock, Driver};
use crate::socket::{Datagram, Socket};

#[test]
fn the_header_round_trips_and_refuses_nonsense() {
    let header = encode_header("model.bin", 256);
    assert_eq!(decode_header(&header), Ok(("model.bin".into(), 256)));
    for (index, value) in [(0, 0u8), (4, 9), (6, 255), (NAME_AT, 0xff)] {
        let mut broken = header;
        broken[index] = value;
        assert!(decode_header(&broken).is_err(), "byte {index}");
    }
}

#[test]
fn long_names_are_cut_between_characters() {
    let name = "é".repeat(200);
    assert_eq!(decode_header(&encode_header(&name, 0)), Ok(("é".repeat(127), 0)));
}

#[test]
fn only_loopback_is_allowed() {
    for (address, allowed) in
        [("127.0.0.1:1", true), ("[::1]:1", true), ("10.0.0.1:1", false), ("0.0.0.0:1", false), ("[::]:1", false)]
    {
        assert_eq!(require_loopback(address.parse().unwrap()).is_ok(), allowed, "{address}");
    }
}

const FLOW: u32 = 7;

fn bytes_of(packet: Packet, sack: &SackBlocks, payload: &[u8]) -> Vec<u8> {
    let mut header = [0; wire::MAX_HEADER_BYTES];
    let length = wire::encode(&packet, sack, &mut header);
    [&header[..length], payload].concat()
}

/// Offsets around the window's edges, and far from them.
fn offsets() -> impl Strategy<Value = u64> {
    prop_oneof![0..2000u64, (1 << 20) - 2000..(1 << 20) + 300_000u64, Just((1 << 62) - 1), any::<u64>()]
}

fn flags(among: Flags) -> impl Strategy<Value = Flags> {
    any::<u8>().prop_map(move |bits| Flags::from_bits(bits & among.bits()))
}

fn times() -> impl Strategy<Value = Instant> {
    prop_oneof![0..1_000_000_000u64, 0..u64::MAX - 1].prop_map(Instant::from_ps)
}

fn data(to: Side) -> impl Strategy<Value = Vec<u8>> {
    let known = Flags::FIN.with(Flags::CWR).with(Flags::RETRANSMISSION);
    let payload = prop_oneof![Just(0usize), 1..40usize, 1400..1500usize];
    (offsets(), times(), flags(known), payload).prop_map(move |(seq, sent_at, flags, length)| {
        let body = Body::Data { seq, sent_at, len: length as u16, flags };
        let packet = Packet::new(TrafficClass::default(), 0, body).to(EndpointId::new(FLOW, to));
        bytes_of(packet, &SackBlocks::EMPTY, &vec![1; length])
    })
}

fn acknowledgements(to: Side) -> impl Strategy<Value = Vec<u8>> {
    let blocks = prop::collection::vec((offsets(), 1..5000u64), 0..4);
    (offsets(), prop::option::of(times()), any::<u16>(), any::<[bool; 2]>(), blocks).prop_map(
        move |(ack, echo, window, [ece, dsack], blocks)| {
            let mut sack = SackBlocks::EMPTY;
            for (start, length) in blocks {
                sack.push(ByteRange::new(start.min(u64::MAX - length), start.min(u64::MAX - length) + length));
            }
            let some = !sack.as_slice().is_empty();
            let flags = Flags::NONE.with_if(Flags::ECE, ece).with_if(Flags::SACK, some);
            let body = Body::Ack { ack, echo, window, flags: flags.with_if(Flags::DSACK, some && dsack) };
            let packet = Packet::new(TrafficClass::default(), 0, body).to(EndpointId::new(FLOW, to));
            bytes_of(packet, &sack, &[])
        },
    )
}

fn requests(to: Side) -> impl Strategy<Value = Vec<u8>> {
    (times(), any::<u16>(), any::<bool>()).prop_map(move |(at, window, granted)| {
        let body = if granted { Body::SynAck { echo: at, window } } else { Body::Syn { sent_at: at } };
        let packet = Packet::new(TrafficClass::default(), 0, body).to(EndpointId::new(FLOW, to));
        bytes_of(packet, &SackBlocks::EMPTY, &[])
    })
}

/// Well-formed packets for `to` with any content, such packets cut or with a byte changed, and noise.
fn datagrams(to: Side) -> impl Strategy<Value = Vec<u8>> {
    let whole = || prop_oneof![4 => data(to), 4 => acknowledgements(to), 1 => requests(to)];
    let broken = (whole(), any::<prop::sample::Index>(), any::<Option<u8>>()).prop_map(|(mut bytes, at, change)| {
        let at = at.index(bytes.len());
        match change {
            Some(byte) => bytes[at] = byte,
            None => bytes.truncate(at),
        }
        bytes
    });
    prop_oneof![6 => whole(), 2 => broken, 1 => prop::collection::vec(any::<u8>(), 0..100)]
}

/// Feeds `arrivals` into a driver as if they came from its peer; an error ends a transfer, a panic fails the test.
fn feed<T: Transport>(transport: T, side: Side, application: &mut impl Application, arrivals: &[(Vec<u8>, bool)]) {
    let socket = Socket::bind(([127, 0, 0, 1], 0).into()).unwrap();
    let nobody = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let peer = nobody.local_addr().unwrap();
    let mut driver = Driver::new(transport, socket, Clock::start(), EndpointId::new(FLOW, side), peer);
    if side == Side::Initiator {
        driver.command(Command::Send { bytes: 1 << 20 }, application).unwrap();
    }
    for (bytes, marked) in arrivals {
        let ecn = if *marked { Ecn::Ce } else { Ecn::Ect0 };
        if driver.datagram(Datagram { from: peer, ecn, bytes }, application).is_err() {
            return;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn no_arrivals_make_a_receiver_panic(
        arrivals in prop::collection::vec((datagrams(Side::Responder), any::<bool>()), 0..60),
    ) {
        let settings = Settings::default();
        let opening = Packet::new(TrafficClass::default(), 0, Body::Syn { sent_at: Instant::ZERO });
        let opening = bytes_of(opening.to(EndpointId::new(FLOW, Side::Responder)), &SackBlocks::EMPTY, &[]);
        let arrivals: Vec<_> = [(opening, false)].into_iter().chain(arrivals).collect();
        let mut incoming = receive::Incoming::new(Target::Discard, settings.receive_buffer);
        feed(TcpReceiver::new(settings.tcp()), Side::Responder, &mut incoming, &arrivals);
    }

    #[test]
    fn no_arrivals_make_a_sender_panic(
        arrivals in prop::collection::vec((datagrams(Side::Initiator), any::<bool>()), 0..60),
    ) {
        let settings = Settings::default();
        let grant = Packet::new(TrafficClass::default(), 0, Body::SynAck { echo: Instant::ZERO, window: 4096 });
        let grant = bytes_of(grant.to(EndpointId::new(FLOW, Side::Initiator)), &SackBlocks::EMPTY, &[]);
        let arrivals: Vec<_> = [(grant, false)].into_iter().chain(arrivals).collect();
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(1 << 20).unwrap();
        let mut outgoing = send::Outgoing::new(Source::open(file.path()).unwrap());
        feed(TcpSender::new(settings.tcp(), settings.controller()), Side::Initiator, &mut outgoing, &arrivals);
    }
}
