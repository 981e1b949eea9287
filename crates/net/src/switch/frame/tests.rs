use pliant_proto::packet::Ecn;
use proptest::prelude::*;

use super::*;

/// The IPv4 header of RFC 1071's usual worked example: its checksum is 0xb861.
const EXAMPLE: [u8; 20] = [
    0x45, 0x00, 0x00, 0x73, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0xb8, 0x61, 0xc0, 0xa8, 0x00, 0x01, 0xc0, 0xa8, 0x00,
    0xc7,
];

/// A frame of UDP over IPv4 with this octet and payload, all checksums right.
fn udp_frame(octet: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x08, 0x00];
    let length = (28 + payload.len()) as u16;
    let mut ip = EXAMPLE;
    ip[1] = octet;
    ip[2..4].copy_from_slice(&length.to_be_bytes());
    ip[10..12].fill(0);
    let checksum = !fold(sum(&ip));
    ip[10..12].copy_from_slice(&checksum.to_be_bytes());
    frame.extend(ip);
    let udp_length = (8 + payload.len()) as u16;
    frame.extend([0x1b, 0x58, 0x1b, 0x59]);
    frame.extend(udp_length.to_be_bytes());
    // The sum of the pseudo-header, as a kernel leaves it.
    let pseudo = sum(&ip[12..20]) + 17 + u64::from(udp_length);
    frame.extend(fold(pseudo).to_be_bytes());
    frame.extend(payload);
    assert!(complete_checksum(&mut frame));
    frame
}

/// Whether the checksums of IPv4 and UDP hold, computed from scratch.
fn checksums_hold(frame: &[u8]) -> bool {
    let ip = &frame[14..34];
    let udp = &frame[34..];
    let pseudo = sum(&ip[12..20]) + 17 + udp.len() as u64;
    fold(sum(ip)) == 0xffff && fold(sum(udp) + pseudo) == 0xffff
}

#[test]
fn the_known_checksum_comes_out() {
    let mut header = EXAMPLE;
    header[10..12].fill(0);
    assert_eq!(!fold(sum(&header)), 0xb861);
}

/// What is read is what was written, and the way back has the same flow.
#[test]
fn headers_are_read() {
    let frame = udp_frame(0xb8, b"hello");
    let header = parse(&frame).unwrap();
    assert_eq!(header.mac, [2, 0, 0, 0, 0, 2]);
    assert_eq!(header.ipv4, Some(u32::from_be_bytes([192, 168, 0, 199])));
    assert_eq!((header.octet, header.layer4), (0xb8, Layer4::Udp));
    let mut back = frame.clone();
    back[26..30].copy_from_slice(&frame[30..34]);
    back[30..34].copy_from_slice(&frame[26..30]);
    back[34..36].copy_from_slice(&frame[36..38]);
    back[36..38].copy_from_slice(&frame[34..36]);
    assert_eq!(parse(&back).unwrap().flow, header.flow);
}

/// Every octet marks to CE, keeps its DSCP, and the header's checksum holds, as does that of UDP, which does not cover it.
#[test]
fn a_mark_keeps_dscp_and_checksums() {
    for octet in 0..=255 {
        let mut frame = udp_frame(octet, b"payload");
        assert!(checksums_hold(&frame));
        set_ecn(&mut frame, TrafficClass::from_octet(octet).with_ecn(Ecn::Ce));
        assert_eq!(frame[15], octet | 0b11);
        assert!(checksums_hold(&frame), "octet {octet}");
    }
}

#[test]
fn a_mark_in_ipv6_keeps_its_neighbours() {
    let mut frame = vec![0; 54];
    frame[12..14].copy_from_slice(&[0x86, 0xdd]);
    frame[14..18].copy_from_slice(&[0x6b, 0x8a, 0xbc, 0xde]);
    assert_eq!(parse(&frame).unwrap().octet, 0xb8);
    set_ecn(&mut frame, TrafficClass::from_octet(0xb8).with_ecn(Ecn::Ce));
    assert_eq!(frame[14..18], [0x6b, 0xba, 0xbc, 0xde]);
}

#[test]
fn classes_are_those_of_the_map() {
    assert_eq!(classify(TrafficClass::new(31).octet(), &PLIANT_CLASSES).class(), 31);
    let mut voice_first = [1; 64];
    voice_first[46] = 0;
    assert_eq!(classify(46 << 2 | 0b10, &voice_first), TrafficClass::new(0).with_ecn(Ecn::Ect0));
    assert_eq!(classify(0b01, &voice_first), TrafficClass::new(1).with_ecn(Ecn::Ect1));
}

#[test]
fn tags_are_told_from_garbage() {
    let mut frame = udp_frame(0, b"x");
    frame[12..14].copy_from_slice(&[0x81, 0x00]);
    assert_eq!(parse(&frame), Err(FrameError::Tagged));
    assert_eq!(parse(&frame[..13]), Err(FrameError::Malformed));
}

proptest! {
    /// No sequence of bytes makes the parser or what follows it panic.
    #[test]
    fn any_bytes_are_parsed_or_refused(mut bytes in proptest::collection::vec(any::<u8>(), 0..120), ip in any::<bool>()) {
        if ip && bytes.len() > 14 {
            bytes[12..14].copy_from_slice(&[0x08, 0x00]);
            bytes[14] = 0x45 + bytes[14] % 11;
        }
        if let Ok(header) = parse(&bytes) {
            complete_checksum(&mut bytes);
            set_ecn(&mut bytes, TrafficClass::from_octet(header.octet).with_ecn(Ecn::Ce));
        }
    }

    /// A frame cut short anywhere inside what IP says is refused.
    #[test]
    fn cut_frames_are_refused(cut in 1usize..40) {
        let frame = udp_frame(0, b"a payload of some length");
        prop_assert_eq!(parse(&frame[..frame.len() - cut]), Err(FrameError::Malformed));
    }

    /// One bit flipped behind the IP header is always seen by UDP's checksum.
    #[test]
    fn a_flipped_bit_breaks_the_checksum(bit in 0usize..(8 + 24) * 8) {
        let mut frame = udp_frame(0, b"a payload of some length");
        frame[34 + bit / 8] ^= 1 << (bit % 8);
        prop_assert!(!checksums_hold(&frame));
    }
}
