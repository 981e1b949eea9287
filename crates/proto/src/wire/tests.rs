use alloc::vec::Vec;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::packet::{CreditStamp, EndpointId, PulledFlags, ShortTime, Side, Subflow};
use crate::transport::push::MAX_SYMBOL;

const CLASS: TrafficClass = TrafficClass::from_octet(0x0a);

fn packet(body: Body) -> Packet {
    Packet::new(CLASS, 0, body).to(EndpointId::new(7, Side::Responder))
}

fn blocks(ranges: &[(u64, u64)]) -> SackBlocks {
    let mut sack = SackBlocks::EMPTY;
    for &(start, end) in ranges {
        assert!(sack.push(ByteRange::new(start, end)));
    }
    sack
}

fn encoded(packet: &Packet, sack: &SackBlocks) -> Vec<u8> {
    let mut buffer = [0; MAX_HEADER_BYTES];
    let length = encode(packet, sack, &mut buffer);
    buffer[..length].to_vec()
}

fn data(len: u16) -> Packet {
    let flags = DataFlags::FIN.with(DataFlags::RETRANSMISSION);
    packet(Body::Data { seq: 0x0102_0304_0506_0708, sent_at: Instant::from_ps(0x1112), len, flags })
}

fn message(len: u16) -> Packet {
    let (number, message, fragment, length, priority) = (1, 2, 3, 0x1004, 5);
    packet(Body::Message {
        number,
        message,
        fragment,
        length,
        priority,
        len,
        flags: DataFlags::FIN.with(DataFlags::BACKUP),
    })
}

fn ack(flags: AckFlags) -> Packet {
    packet(Body::Ack { ack: 1000, echo: Some(Instant::from_ps(5)), window: 0xabcd, flags })
}

/// The format is fixed byte by byte: peers of the same version understand each other.
#[test]
fn known_encodings() {
    let to = [0, 0, 0, 15];
    let expect = |kind: u8, flags: u8, count: u8, fields: &[&[u8]]| {
        [&[0x50, 0x10 | kind, flags, count], &to[..], &fields.concat()].concat()
    };
    let five = 5u64.to_be_bytes();
    assert_eq!(
        encoded(&data(3), &SackBlocks::EMPTY),
        expect(0, 0b101, 0, &[&[1, 2, 3, 4, 5, 6, 7, 8], &[0, 0, 0, 0, 0, 0, 0x11, 0x12], &[0, 3]])
    );
    assert_eq!(
        encoded(&ack(AckFlags::ECE.with(AckFlags::SACK)), &blocks(&[(2000, 0x1000)])),
        expect(
            1,
            0b01_1000,
            1,
            &[
                &[0, 0, 0, 0, 0, 0, 3, 0xe8],
                &five,
                &[0xab, 0xcd],
                &[0, 0, 0, 0, 0, 0, 7, 0xd0],
                &[0, 0, 0, 0, 0, 0, 0x10, 0]
            ]
        )
    );
    let delay = OneWayDelay::from_ns(-2);
    let mut delayed = (ack(AckFlags::ECE), SackBlocks::EMPTY);
    delayed.0.set_delay(delay, &mut delayed.1);
    let ack_fields = |rest: &[u8]| [&[0, 0, 0, 0, 0, 0, 3, 0xe8], &five[..], &[0xab, 0xcd], rest].concat();
    assert_eq!(encoded(&delayed.0, &delayed.1), expect(1, 0b100_1000, 0, &[&ack_fields(&[0xff, 0xff, 0xff, 0xfe])]));
    let mut delayed = (ack(AckFlags::SACK), blocks(&[(1, 2)]));
    delayed.0.set_delay(delay, &mut delayed.1);
    let block = [0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2];
    let rest = [&[0xff, 0xff, 0xff, 0xfe], &block[..]].concat();
    assert_eq!(encoded(&delayed.0, &delayed.1), expect(1, 0b101_0000, 1, &[&ack_fields(&rest)]), "before the blocks");
    let mut held = (ack(AckFlags::ECE), SackBlocks::EMPTY);
    held.0.set_hold(Span::from_ns(0x0102_0304), &mut held.1);
    assert_eq!(encoded(&held.0, &held.1), expect(1, 0b1010, 0, &[&ack_fields(&[1, 2, 3, 4])]));
    held.0.set_delay(delay, &mut held.1);
    let both = ack_fields(&[0xff, 0xff, 0xff, 0xfe, 1, 2, 3, 4]);
    assert_eq!(encoded(&held.0, &held.1), expect(1, 0b100_1010, 0, &[&both]), "behind the delay");
    let no_echo = packet(Body::Ack { ack: 0, echo: None, window: 1, flags: AckFlags::NONE });
    assert_eq!(encoded(&no_echo, &SackBlocks::EMPTY), expect(1, 0, 0, &[&[0; 8], &[0xff; 8], &[0, 1]]));
    let syn = packet(Body::Syn { sent_at: Instant::from_ps(5) });
    assert_eq!(encoded(&syn, &SackBlocks::EMPTY), expect(2, 0, 0, &[&five]));
    let syn_ack = packet(Body::SynAck { echo: Instant::from_ps(5), window: 0xffff });
    assert_eq!(encoded(&syn_ack, &SackBlocks::EMPTY), expect(3, 0, 0, &[&five, &[0xff, 0xff]]));
    let (number, time) = ([0xa, 0xb, 0xc, 0xd], [1, 2, 3, 4]);
    let credit = CreditStamp { number: 0x0a0b_0c0d, sent_at: ShortTime::from_bits(0x0102_0304) };
    let request = packet(Body::CreditRequest { sent_at: Instant::from_ps(5), backlog: 5 });
    assert_eq!(encoded(&request, &SackBlocks::EMPTY), expect(10, 0, 0, &[&[0], &five, &five]));
    assert_eq!(encoded(&packet(Body::Credit(credit)), &SackBlocks::EMPTY), expect(11, 0, 0, &[&number, &time]));
    let stop = packet(Body::CreditStop { end: 5, flags: DataFlags::FIN });
    assert_eq!(encoded(&stop, &SackBlocks::EMPTY), expect(10, 1, 0, &[&[1], &five]));
    let flags = DataFlags::RETRANSMISSION;
    let scheduled = packet(Body::Scheduled { seq: 5, number: 0x0a0b_0c0d, credit, len: 0x0102, flags });
    let fields: [&[u8]; 5] = [&five, &number, &number, &time, &[1, 2]];
    assert_eq!(encoded(&scheduled, &SackBlocks::EMPTY), expect(12, 4, 0, &fields));
    let unscheduled = packet(Body::Unscheduled { seq: 5, number: 0x0a0b_0c0d, len: 0x0102, flags });
    assert_eq!(encoded(&unscheduled, &SackBlocks::EMPTY), expect(13, 4, 0, &[&five, &number, &[1, 2]]));
    let subflow = Subflow::Reactive;
    let ack = packet(Body::SubflowAck { ack: 5, first: 0x0a0b_0c0d, end: 0x0102_0304, subflow, flags: AckFlags::ECE });
    assert_eq!(encoded(&ack, &SackBlocks::EMPTY), expect(14, 8, 0, &[&five, &number, &time, &[1]]));
    let (ack_ratio, len, flags) = (2, 0x106, DataFlags::FIN);
    let datagram = packet(Body::Datagram { seq: 5, number: 0x0a0b_0c0d, ack_ratio, len, flags });
    assert_eq!(encoded(&datagram, &SackBlocks::EMPTY), expect(15, 1, 0, &[&[24], &five, &number, &[0, 2], &[1, 6]]));
    let vector = packet(Body::AckVector { number: 0x0a0b_0c0d, received: 5, marked: 0x0102_0304, count: 9 });
    assert_eq!(encoded(&vector, &SackBlocks::EMPTY), expect(15, 0, 0, &[&[25], &number, &five, &time, &[0, 9]]));
    let (echo, flags) = (Instant::from_ps(5), PulledFlags::RETRANSMISSION.with(PulledFlags::TRIMMED));
    let pulled = packet(Body::Pulled { seq: 5, sent_at: echo, len: 0x106, flags });
    assert_eq!(encoded(&pulled, &SackBlocks::EMPTY), expect(15, 0b1_0100, 0, &[&[26], &five, &five, &[1, 6]]));
    let answer = packet(Body::PulledAck { seq: 5, echo, trimmed: true, complete: false });
    assert_eq!(encoded(&answer, &SackBlocks::EMPTY), expect(15, 0b1_0000, 0, &[&[27], &five, &five]));
    let pull = packet(Body::Pull { count: 0x0a0b_0c0d });
    assert_eq!(encoded(&pull, &SackBlocks::EMPTY), expect(15, 0, 0, &[&[28], &number]));
    let homa = packet(Body::HomaData { seq: 5, size: 0x1005, len: 0x106, flags: DataFlags::RETRANSMISSION });
    let size = 0x1005u64.to_be_bytes();
    assert_eq!(encoded(&homa, &SackBlocks::EMPTY), expect(15, 0b100, 0, &[&[29], &five, &size, &[1, 6]]));
    let grant = packet(Body::Grant { end: 5, level: 6 });
    assert_eq!(encoded(&grant, &SackBlocks::EMPTY), expect(15, 0, 0, &[&[30], &five, &[6]]));
    let resend = packet(Body::Resend { range: ByteRange::new(5, 0x1005), level: 6 });
    assert_eq!(encoded(&resend, &SackBlocks::EMPTY), expect(15, 0, 0, &[&[31], &five, &size, &[6]]));
    assert_eq!(encoded(&packet(Body::Busy), &SackBlocks::EMPTY), expect(15, 0, 0, &[&[32]]));
    assert_eq!(encoded(&packet(Body::Done), &SackBlocks::EMPTY), expect(15, 0, 0, &[&[33]]));
    let probe = packet(Body::Probe { sent_at: Instant::from_ps(5) });
    assert_eq!(encoded(&probe, &SackBlocks::EMPTY), expect(4, 0, 0, &[&five]));
    for (marked, flags) in [(false, 0), (true, 0b1000)] {
        let probe_echo = packet(Body::ProbeEcho { echo: Instant::from_ps(5), marked });
        assert_eq!(encoded(&probe_echo, &SackBlocks::EMPTY), expect(5, flags, 0, &[&five]));
    }
    let fields: [&[u8]; 6] = [&[0, 0, 0, 1], &[0, 0, 0, 2], &[0, 0, 0, 3], &[0, 0, 0x10, 4], &[0, 0, 0, 5], &[1, 6]];
    assert_eq!(encoded(&message(0x106), &SackBlocks::EMPTY), expect(6, 0b1000_0001, 0, &fields));
    let ack = Body::MessageAck { number: 9, received: 5, complete: 7, marks: 8, backup: true };
    let fields: [&[u8]; 4] = [&[0, 0, 0, 9], &five, &[0, 0, 0, 7], &[0, 8]];
    assert_eq!(encoded(&packet(ack), &SackBlocks::EMPTY), expect(7, 0b1000_0000, 0, &fields));
    let (close, close_ack) = (packet(Body::Close { messages: 5 }), packet(Body::CloseAck { complete: 4 }));
    assert_eq!(encoded(&close, &SackBlocks::EMPTY), expect(8, 0, 0, &[&[0, 0, 0, 5]]));
    assert_eq!(encoded(&close_ack, &SackBlocks::EMPTY), expect(9, 0, 0, &[&[0, 0, 0, 4]]));
}

#[test]
fn header_sizes_are_the_constants() {
    assert_eq!(encoded(&data(0), &SackBlocks::EMPTY).len(), DATA_HEADER_BYTES);
    assert_eq!(DATA_HEADER_BYTES, 26);
    let full = blocks(&[(1, 2), (3, 4), (5, 6), (7, 8)]);
    let (mut longest, mut with_delay) = (ack(AckFlags::SACK), full);
    longest.set_hold(Span::from_ns(1), &mut with_delay);
    longest.set_delay(OneWayDelay::from_ns(1), &mut with_delay);
    assert_eq!(encoded(&longest, &with_delay).len(), MAX_HEADER_BYTES);
    assert_eq!(
        encoded(&ack(AckFlags::SACK), &full).len(),
        MAX_HEADER_BYTES - 8,
        "who reports nothing pays for nothing"
    );
    assert_eq!(encoded(&packet(Body::Syn { sent_at: Instant::ZERO }), &SackBlocks::EMPTY).len(), 16);
    let syn_ack = packet(Body::SynAck { echo: Instant::ZERO, window: 0 });
    assert_eq!(encoded(&syn_ack, &SackBlocks::EMPTY).len(), 18);
}

/// Blocks are written only if the packet says that it has some.
#[test]
fn blocks_without_the_flag_stay_home() {
    assert_eq!(encoded(&ack(AckFlags::NONE), &blocks(&[(1, 2)])).len(), ACK_BYTES);
}

#[test]
fn payload_lies_behind_the_header() {
    let mut datagram = encoded(&data(3), &SackBlocks::EMPTY);
    datagram.extend([7, 8, 9]);
    let (decoded, sack, payload) = decode(&datagram, CLASS).unwrap();
    assert_eq!((decoded.wire_bytes, decoded.traffic_class, sack), (29, CLASS, SackBlocks::EMPTY));
    assert_eq!(datagram[payload], [7, 8, 9]);
}

/// One damage each to a good datagram, and the reason it is refused for.
#[test]
fn damaged_datagrams_are_refused_by_reason() {
    let good_data = encoded(&data(0), &SackBlocks::EMPTY);
    let good_ack = encoded(&ack(AckFlags::SACK), &blocks(&[(1, 2), (3, 4)]));
    let refused = |good: &[u8], damage: &dyn Fn(&mut Vec<u8>)| {
        let mut datagram = good.to_vec();
        damage(&mut datagram);
        decode(&datagram, CLASS).unwrap_err()
    };
    for length in 0..good_data.len() {
        assert_eq!(refused(&good_data, &|bytes| bytes.truncate(length)), WireError::TooShort);
    }
    assert_eq!(refused(&good_ack, &|bytes| bytes.truncate(57)), WireError::TooShort);
    assert_eq!(refused(&good_data, &|bytes| bytes.push(0)), WireError::WrongLength, "payload longer than len");
    assert_eq!(refused(&good_data, &|bytes| bytes[25] = 1), WireError::WrongLength, "payload shorter than len");
    assert_eq!(refused(&good_ack, &|bytes| bytes.push(0)), WireError::WrongLength);
    assert_eq!(refused(&good_data, &|bytes| bytes[0] = 0), WireError::WrongMagic);
    assert_eq!(refused(&good_data, &|bytes| bytes[1] = 0x20), WireError::UnknownVersion(2));
    assert_eq!(refused(&good_data, &|bytes| bytes[1] = 0x1f), WireError::UnknownKind(1), "a kind of its own byte");
    assert_eq!(refused(&good_data, &|bytes| bytes[2] = 0x80), WireError::WrongFlags(0x80));
    assert_eq!(refused(&good_ack, &|bytes| bytes[2] |= 0x40), WireError::TooShort, "DELAY without a delay");
    let plain = encoded(&ack(AckFlags::NONE), &SackBlocks::EMPTY);
    assert_eq!(refused(&plain, &|bytes| bytes[2] = 0x40), WireError::TooShort, "DELAY without a delay");
    assert_eq!(refused(&plain, &|bytes| bytes.extend([1; 4])), WireError::WrongLength, "a delay without DELAY");
    assert_eq!(refused(&good_data, &|bytes| bytes[2] = 0x20), WireError::WrongFlags(0x20), "DSACK is no flag of data");
    assert_eq!(refused(&good_ack, &|bytes| bytes[2] = 0x20), WireError::WrongFlags(0x20), "DSACK without SACK");
    let good_probe = encoded(&packet(Body::Probe { sent_at: Instant::ZERO }), &SackBlocks::EMPTY);
    assert_eq!(refused(&good_probe, &|bytes| bytes[2] = 8), WireError::WrongFlags(8), "ECE is no flag of a probe");
    assert_eq!(refused(&good_data, &|bytes| bytes[3] = 1), WireError::WrongSackCount(1));
    assert_eq!(refused(&good_ack, &|bytes| bytes[3] = 0), WireError::WrongSackCount(0));
    assert_eq!(refused(&good_ack, &|bytes| bytes[2] = 0), WireError::WrongSackCount(2));
    assert_eq!(refused(&good_ack, &|bytes| bytes[41] = 1), WireError::EmptySackBlock);
    assert_eq!(refused(&good_data, &|bytes| bytes[8..16].fill(0xff)), WireError::OutOfRange, "no room for FIN");
    assert_eq!(refused(&good_data, &|bytes| bytes[16..24].fill(0xff)), WireError::OutOfRange);
    let stop = encoded(&packet(Body::CreditStop { end: 5, flags: DataFlags::NONE }), &SackBlocks::EMPTY);
    assert_eq!(refused(&stop, &|bytes| bytes[2] = 2), WireError::WrongFlags(2), "CWR is no flag of a stop");
    let (subflow, flags) = (Subflow::Proactive, AckFlags::NONE);
    let ack = encoded(&packet(Body::SubflowAck { ack: 5, first: 0, end: 1, subflow, flags }), &SackBlocks::EMPTY);
    assert_eq!(refused(&ack, &|bytes| bytes[24] = 2), WireError::OutOfRange, "there are two sub-flows");
    let good_message = datagram(&(message(1), SackBlocks::EMPTY));
    assert_eq!(refused(&good_message, &|bytes| bytes[2] = 8), WireError::WrongFlags(8), "ECE is no flag of a message");
    assert_eq!(refused(&good_message, &|bytes| bytes[29] = 0), WireError::OutOfRange, "an empty fragment");
    assert_eq!(refused(&good_message, &|bytes| bytes[16] = 1), WireError::OutOfRange, "a fragment behind its message");
    let five_blocks = |bytes: &mut Vec<u8>| {
        bytes[3] = 5;
        bytes.extend([[0; 15].as_slice(), &[1]].concat().repeat(3));
    };
    assert_eq!(refused(&good_ack, &five_blocks), WireError::WrongSackCount(5));
}

fn instant() -> impl Strategy<Value = Instant> {
    any::<u64>().prop_map(Instant::from_ps)
}

fn data_flags(allowed: DataFlags) -> impl Strategy<Value = DataFlags> {
    any::<u8>().prop_map(move |bits| DataFlags::from_bits(bits & allowed.bits()))
}

/// Flags of an acknowledgement, but for those that a delay and a hold set.
fn ack_flags(allowed: AckFlags) -> impl Strategy<Value = AckFlags> {
    any::<u8>().prop_map(move |bits| AckFlags::from_bits(bits & allowed.bits()))
}

fn data_body() -> impl Strategy<Value = Body> {
    (0..u64::MAX >> 1, instant(), 0..2000u16, data_flags(DATA_FLAGS))
        .prop_map(|(seq, sent_at, len, flags)| Body::Data { seq, sent_at, len, flags })
}

fn ack_body(flags: impl Strategy<Value = AckFlags>) -> impl Strategy<Value = Body> {
    (any::<u64>(), proptest::option::of(instant()), any::<u16>(), flags)
        .prop_map(|(ack, echo, window, flags)| Body::Ack { ack, echo, window, flags })
}

fn stamp() -> impl Strategy<Value = CreditStamp> {
    any::<(u32, u32)>().prop_map(|(number, time)| CreditStamp { number, sent_at: ShortTime::from_bits(time) })
}

/// What only transports with credits send.
fn credit_body() -> impl Strategy<Value = Body> {
    let (seq, len) = (|| 0..u64::MAX >> 1, || 0..2000u16);
    prop_oneof![
        (instant(), any::<u64>()).prop_map(|(sent_at, backlog)| Body::CreditRequest { sent_at, backlog }),
        stamp().prop_map(Body::Credit),
        (any::<u64>(), data_flags(DataFlags::FIN)).prop_map(|(end, flags)| Body::CreditStop { end, flags }),
        (seq(), any::<u32>(), stamp(), len(), data_flags(credit::SCHEDULED_FLAGS))
            .prop_map(|(seq, number, credit, len, flags)| Body::Scheduled { seq, number, credit, len, flags }),
        (seq(), any::<u32>(), len(), data_flags(credit::UNSCHEDULED_FLAGS))
            .prop_map(|(seq, number, len, flags)| Body::Unscheduled { seq, number, len, flags }),
        (any::<(u64, u32, u32, bool)>(), ack_flags(credit::SUBFLOW_ACK_FLAGS)).prop_map(
            |((ack, first, end, reactive), flags)| {
                let subflow = if reactive { Subflow::Reactive } else { Subflow::Proactive };
                Body::SubflowAck { ack, first, end, subflow, flags }
            }
        ),
    ]
}

fn message_body() -> impl Strategy<Value = Body> {
    let place = (any::<u32>(), any::<u32>(), 0..1000u32, any::<u32>());
    (place, 1..2000u16, 0..5000u32, data_flags(MESSAGE_FLAGS)).prop_map(|(place, len, rest, flags)| {
        let (number, message, fragment, priority) = place;
        let length = fragment + u32::from(len) + rest;
        Body::Message { number, message, fragment, length, priority, len, flags }
    })
}

fn message_ack_body() -> impl Strategy<Value = Body> {
    (any::<u32>(), any::<u64>(), any::<u32>(), any::<u16>(), any::<bool>()).prop_map(
        |(number, received, complete, marks, backup)| Body::MessageAck { number, received, complete, marks, backup },
    )
}

fn symbol_body() -> impl Strategy<Value = Body> {
    let fields = (any::<u32>(), any::<u32>(), any::<u32>(), any::<u32>(), any::<u32>(), any::<u16>());
    let ack = (fields, any::<bool>()).prop_map(|((number, received, decoded, needed, claim, marks), complete)| {
        Body::SymbolAck { number, received, decoded, needed, claim, marks, complete }
    });
    let symbol = (any::<u32>(), any::<u32>(), 0..=MAX_SYMBOL, 1..2000u16, data_flags(DataFlags::RETRANSMISSION))
        .prop_map(|(number, block, symbol, len, flags)| Body::Symbol { number, block, symbol, len, flags });
    prop_oneof![symbol, ack]
}

/// What has a kind beyond the short ones.
fn extended_body() -> impl Strategy<Value = Body> {
    let (seq, len) = (|| 0..u64::MAX >> 1, || 0..2000u16);
    prop_oneof![
        (seq(), any::<(u32, u16)>(), len(), data_flags(extended::DATAGRAM_FLAGS))
            .prop_map(|(seq, (number, ack_ratio), len, flags)| Body::Datagram { seq, number, ack_ratio, len, flags }),
        (seq(), instant(), len(), any::<u8>()).prop_map(|(seq, sent_at, len, bits)| {
            let flags = PulledFlags::from_bits(bits & extended::PULLED_FLAGS.bits());
            let returned = flags.contains(PulledFlags::RETURNED);
            Body::Pulled { seq, sent_at, len, flags: flags.with_if(PulledFlags::TRIMMED, returned) }
        }),
        (any::<u64>(), instant(), any::<(bool, bool)>()).prop_map(|(seq, echo, (trimmed, complete))| Body::PulledAck {
            seq,
            echo,
            trimmed,
            complete
        }),
        any::<u32>().prop_map(|count| Body::Pull { count }),
        (seq(), any::<u32>(), len(), data_flags(extended::HOMA_DATA_FLAGS)).prop_map(|(seq, rest, len, flags)| {
            Body::HomaData { seq, size: seq + u64::from(len) + u64::from(rest), len, flags }
        }),
        any::<(u64, u8)>().prop_map(|(end, level)| Body::Grant { end, level }),
        any::<(u64, u64, u8)>()
            .prop_map(|(start, end, level)| Body::Resend { range: ByteRange::new(start, end), level }),
        Just(Body::Busy),
        Just(Body::Done),
        any::<(u32, u64, u32, u16)>().prop_map(|(number, received, marked, count)| Body::AckVector {
            number,
            received,
            marked,
            count
        }),
    ]
}

/// A packet as [`decode`] returns it, but for its size, with its blocks.
fn any_packet() -> impl Strategy<Value = (Packet, SackBlocks)> {
    let sack_flags = ack_flags(AckFlags::ECE.with(AckFlags::DSACK)).prop_map(|flags| flags.with(AckFlags::SACK));
    let range = (0..u64::MAX, 1..u64::MAX).prop_map(|(start, len)| (start, start.saturating_add(len)));
    let plain = prop_oneof![
        data_body(),
        ack_body(ack_flags(AckFlags::ECE)),
        instant().prop_map(|sent_at| Body::Syn { sent_at }),
        (instant(), any::<u16>()).prop_map(|(echo, window)| Body::SynAck { echo, window }),
        instant().prop_map(|sent_at| Body::Probe { sent_at }),
        (instant(), any::<bool>()).prop_map(|(echo, marked)| Body::ProbeEcho { echo, marked }),
        message_body(),
        message_ack_body(),
        any::<u32>().prop_map(|messages| Body::Close { messages }),
        any::<u32>().prop_map(|complete| Body::CloseAck { complete }),
    ];
    let with_blocks = prop_oneof![
        3 => plain.prop_map(|body| (body, SackBlocks::EMPTY)),
        2 => credit_body().prop_map(|body| (body, SackBlocks::EMPTY)),
        1 => symbol_body().prop_map(|body| (body, SackBlocks::EMPTY)),
        2 => extended_body().prop_map(|body| (body, SackBlocks::EMPTY)),
        1 => (ack_body(sack_flags), vec(range, 1..=MAX_SACK_BLOCKS)).prop_map(|(body, ranges)| (body, blocks(&ranges))),
    ];
    let delay = proptest::option::of(any::<u32>().prop_map(OneWayDelay::from_bits));
    let hold = proptest::option::of(any::<u32>().prop_map(|ns| Span::from_ns(ns.into())));
    (with_blocks, (delay, hold), any::<u32>(), any::<u8>()).prop_map(|((body, mut sack), (delay, hold), to, octet)| {
        let mut packet = Packet::new(TrafficClass::from_octet(octet), 0, body);
        if let (Body::Ack { .. }, Some(hold)) = (body, hold) {
            packet.set_hold(hold, &mut sack);
        }
        if let (Body::Ack { .. }, Some(delay)) = (body, delay) {
            packet.set_delay(delay, &mut sack);
        }
        (packet.to(EndpointId::from_index(to)), sack)
    })
}

/// A datagram with a payload of zeros.
fn datagram((packet, sack): &(Packet, SackBlocks)) -> Vec<u8> {
    let mut bytes = encoded(packet, sack);
    bytes.resize(bytes.len() + usize::from(packet.payload()), 0);
    bytes
}

/// Decodes; if that succeeds, the header must encode to the same bytes.
fn reencodes(bytes: &[u8]) -> Result<(), TestCaseError> {
    if let Ok((packet, sack, payload)) = decode(bytes, CLASS) {
        prop_assert_eq!(encoded(&packet, &sack), &bytes[..payload.start]);
        prop_assert_eq!(payload.end, bytes.len());
    }
    Ok(())
}

proptest! {
    /// What is encoded decodes to the same.
    #[test]
    fn packets_survive_the_round_trip(sent in any_packet()) {
        let bytes = datagram(&sent);
        let (packet, sack, payload) = decode(&bytes, sent.0.traffic_class).unwrap();
        let mut expected = sent.0;
        expected.wire_bytes = bytes.len() as u16;
        prop_assert_eq!((packet, sack), (expected, sent.1));
        prop_assert_eq!(payload.len(), usize::from(packet.payload()));
    }

    /// No bytes make the decoder panic, and it accepts only what the encoder writes.
    #[test]
    fn arbitrary_bytes_are_refused_or_canonical(bytes in vec(any::<u8>(), 0..200)) {
        reencodes(&bytes)?;
    }

    /// The same close to good datagrams, where most checks lie.
    #[test]
    fn damaged_datagrams_are_refused_or_canonical(
        sent in any_packet(),
        damage in vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        length in any::<prop::sample::Index>(),
        keep_length in any::<bool>(),
    ) {
        let mut bytes = datagram(&sent);
        for (at, value) in damage {
            let at = at.index(bytes.len().min(MAX_HEADER_BYTES));
            bytes[at] = value;
        }
        if !keep_length {
            bytes.truncate(length.index(bytes.len() + 1));
        }
        reencodes(&bytes)?;
    }
}
