//! Whatever a station puts on the wire is no frame to the switch, or one whose headers lie within it and stay what they are
//! when the switch marks it and completes its checksum.

use pliant_net::switch::WireSize;
use pliant_net::switch::frame::{self, PLIANT_CLASSES};
use pliant_proto::packet::Ecn;

pub(crate) fn check(bytes: &[u8]) {
    let Ok(header) = frame::parse(bytes) else { return };
    let payload = header.layer4_payload(bytes);
    assert!(payload.len() <= bytes.len());
    assert!(WireSize::default().of_datagram(bytes.len(), payload) >= WireSize::default().least);
    let class = frame::classify(header.octet, &PLIANT_CLASSES).with_ecn(Ecn::Ce);
    let mut marked = bytes.to_vec();
    frame::set_ecn(&mut marked, class);
    let is_ip = matches!(bytes[12..14], [0x08, 0x00] | [0x86, 0xdd]);
    let octet = if is_ip { header.octet | 0b11 } else { header.octet };
    assert_eq!(frame::parse(&marked), Ok(frame::Header { octet, ..header }));
    frame::complete_checksum(&mut marked);
    assert_eq!(frame::parse(&marked), Ok(frame::Header { octet, ..header }));
    assert_eq!(marked.len(), bytes.len());
}
