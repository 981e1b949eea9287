//! Whatever arrives from the network is refused without panic, or is exactly what the encoder writes.

use pliant_proto::packet::TrafficClass;
use pliant_proto::wire::{MAX_HEADER_BYTES, decode, encode};

pub(crate) fn check(datagram: &[u8]) {
    let Ok((packet, sack, payload)) = decode(datagram, TrafficClass::default()) else { return };
    let mut header = [0; MAX_HEADER_BYTES];
    let length = encode(&packet, &sack, &mut header);
    assert_eq!(header[..length], datagram[..payload.start]);
    assert_eq!(payload.end, datagram.len());
    assert_eq!(payload.len(), usize::from(packet.payload()));
}
