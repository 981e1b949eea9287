//! Datagrams of one flow that leave a switch together, joined into one superframe.
//!
//! A kernel's work is per message, not per byte. Network cards join what arrives together (receive offload) to spare
//! their host that work; this does the same on the way out, behind all queues, which hold single frames. The receiving
//! kernel cuts the superframe where it was joined, or hands it whole to a socket that asked for that (UDP_GRO).

use super::frame::{ETHERNET_BYTES, internet_checksum};
use super::packet_ring::OFFLOAD_BYTES;

/// Where the headers of a datagram over IPv4 without options lie.
const IP: usize = OFFLOAD_BYTES + ETHERNET_BYTES;
const UDP: usize = IP + 20;
/// All that stands before the payload.
pub(super) const HEADERS: usize = UDP + 8;
/// Most bytes of payload in a superframe: those of a datagram.
const MAX_BYTES: usize = 65_507;
/// Most segments that every kernel cuts (UDP_MAX_SEGMENTS).
const MAX_SEGMENTS: usize = 64;

/// The only flag of IPv4 that a whole datagram may have.
const DO_NOT_FRAGMENT: u16 = 0x4000;

/// The fields of a `virtio_net_hdr` in the machine's byte order, and their values.
const FLAGS: usize = 0;
const NEEDS_CHECKSUM: u8 = 1;
const KIND: usize = 1;
const SINGLE: u8 = 0;
const UDP_SEGMENTS: u8 = 5;
const HEADER_BYTES: usize = 2;
const SEGMENT_BYTES: usize = 4;
const CHECKSUM_START: usize = 6;
const CHECKSUM_OFFSET: usize = 8;

fn get(frame: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([frame[at], frame[at + 1]])
}

fn put(frame: &mut [u8], at: usize, value: u16) {
    frame[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

fn get_native(frame: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes([frame[at], frame[at + 1]])
}

fn put_native(frame: &mut [u8], at: usize, value: u16) {
    frame[at..at + 2].copy_from_slice(&value.to_ne_bytes());
}

/// Nothing is left to be done to a frame.
pub(super) fn clear_offload_header(frame: &mut [u8]) {
    frame[..OFFLOAD_BYTES].fill(0);
}

/// Payload of a frame that can be joined with others: a whole datagram whose checksum its kernel left open.
fn payload(frame: &[u8]) -> Option<usize> {
    let open = frame.len() > HEADERS
        && frame[FLAGS] & NEEDS_CHECKSUM != 0
        && frame[KIND] == SINGLE
        && usize::from(get_native(frame, CHECKSUM_START)) == UDP - OFFLOAD_BYTES
        && get_native(frame, CHECKSUM_OFFSET) == 6;
    let bytes = frame.len().saturating_sub(HEADERS);
    let whole = open
        && get(frame, IP - 2) == 0x0800
        && frame[IP] == 0x45
        // Neither a fragment nor one that has more.
        && matches!(get(frame, IP + 6), 0 | DO_NOT_FRAGMENT)
        && frame[IP + 9] == 17
        && usize::from(get(frame, IP + 2)) == bytes + 28
        && usize::from(get(frame, UDP + 4)) == bytes + 8;
    whole.then_some(bytes)
}

/// Whether two datagrams have the same addresses, ports, DSCP and ECN, and may live as long.
fn alike(a: &[u8], b: &[u8]) -> bool {
    let same = |from: usize, to: usize| a[from..to] == b[from..to];
    same(OFFLOAD_BYTES, IP + 2) && same(IP + 6, IP + 10) && same(IP + 12, UDP + 4)
}

/// Writes the length of the payload into the headers, and what the kernel expects where the checksum is left open.
fn set_payload(frame: &mut [u8], bytes: usize) {
    let udp_bytes = (bytes + 8) as u16;
    put(frame, IP + 2, udp_bytes + 20);
    put(frame, IP + 10, 0);
    let checksum = internet_checksum(&frame[IP..UDP], 0);
    put(frame, IP + 10, checksum);
    put(frame, UDP + 4, udp_bytes);
    let pseudo = !internet_checksum(&frame[IP + 12..UDP], 17 + u64::from(udp_bytes));
    put(frame, UDP + 6, pseudo);
}

/// Frames that leave as one.
pub(super) struct Superframe {
    /// Bytes of each segment but the last.
    segment: usize,
    /// Bytes of all so far.
    bytes: usize,
    segments: usize,
    /// A shorter one was the last.
    closed: bool,
}

impl Superframe {
    /// Begins with a frame, if it can be joined with others.
    pub(super) fn begin(first: &[u8]) -> Option<Self> {
        let segment = payload(first)?;
        Some(Self { segment, bytes: segment, segments: 1, closed: false })
    }

    /// Takes the next frame, if it belongs here.
    pub(super) fn append(&mut self, first: &[u8], next: &[u8]) -> bool {
        let Some(bytes) = payload(next) else { return false };
        let fits = !self.closed
            && bytes <= self.segment
            && self.segments < MAX_SEGMENTS
            && self.bytes + bytes <= MAX_BYTES
            && alike(first, next);
        if fits {
            self.bytes += bytes;
            self.segments += 1;
            self.closed = bytes < self.segment;
        }
        fits
    }

    /// Makes the first frame's headers those of all.
    pub(super) fn write_headers(&self, first: &mut [u8]) {
        if self.segments < 2 {
            return;
        }
        first[KIND] = UDP_SEGMENTS;
        put_native(first, HEADER_BYTES, (HEADERS - OFFLOAD_BYTES) as u16);
        put_native(first, SEGMENT_BYTES, self.segment as u16);
        set_payload(first, self.bytes);
    }
}

/// Undoes [`Superframe::write_headers`].
pub(super) fn split(first: &mut [u8]) {
    if first[KIND] == UDP_SEGMENTS {
        first[KIND] = SINGLE;
        put_native(first, SEGMENT_BYTES, 0);
        set_payload(first, first.len() - HEADERS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame as a kernel hands it over: to `port`, with this octet of DSCP and ECN.
    fn frame(port: u16, octet: u8, payload: &[u8]) -> Vec<u8> {
        let mut frame = vec![0; HEADERS];
        frame[FLAGS] = NEEDS_CHECKSUM;
        put_native(&mut frame, CHECKSUM_START, 34);
        put_native(&mut frame, CHECKSUM_OFFSET, 6);
        put(&mut frame, IP - 2, 0x0800);
        frame[IP..IP + 2].copy_from_slice(&[0x45, octet]);
        frame[IP + 8..IP + 10].copy_from_slice(&[64, 17]);
        frame[IP + 12..UDP].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        put(&mut frame, UDP + 2, port);
        frame.extend_from_slice(payload);
        set_payload(&mut frame, payload.len());
        frame
    }

    /// Frames of one flow join until a shorter one ends the superframe; the first says so to the kernel; undone, it is what it
    /// was.
    #[test]
    fn datagrams_of_a_flow_join() {
        let mut first = frame(7, 2, &[1; 100]);
        let before = first.clone();
        let mut superframe = Superframe::begin(&first).unwrap();
        assert!(superframe.append(&first, &frame(7, 2, &[2; 100])));
        assert!(superframe.append(&first, &frame(7, 2, &[3; 40])));
        assert!(!superframe.append(&first, &frame(7, 2, &[4; 40])), "only the last may be shorter");
        superframe.write_headers(&mut first);
        assert_eq!((first[KIND], get_native(&first, SEGMENT_BYTES)), (UDP_SEGMENTS, 100));
        assert_eq!((get(&first, IP + 2), get(&first, UDP + 4)), (268, 248));
        assert_eq!(internet_checksum(&first[IP..UDP], 0), 0, "the header's checksum holds");
        split(&mut first);
        put_native(&mut first, HEADER_BYTES, 0);
        assert_eq!(first, before);
    }

    /// Another flow, another mark, a longer datagram, or one whose checksum is complete stay apart.
    #[test]
    fn what_differs_stays_apart() {
        let first = frame(7, 2, &[1; 100]);
        let mut complete = frame(7, 2, &[1; 100]);
        clear_offload_header(&mut complete);
        let mut fragment = frame(7, 2, &[1; 100]);
        put(&mut fragment, IP + 6, 0x2000);
        for (other, what) in [
            (frame(8, 2, &[1; 100]), "port"),
            (frame(7, 3, &[1; 100]), "mark"),
            (frame(7, 2, &[1; 101]), "length"),
            (complete, "checksum"),
            (fragment, "fragment"),
            (vec![0; 20], "no datagram"),
        ] {
            assert!(!Superframe::begin(&first).unwrap().append(&first, &other), "{what}");
        }
    }

    /// No superframe is longer than a datagram may be.
    #[test]
    fn a_superframe_has_an_end() {
        let first = frame(7, 2, &[1; 1472]);
        let mut superframe = Superframe::begin(&first).unwrap();
        let taken = (0..100).take_while(|_| superframe.append(&first, &first)).count();
        assert_eq!(taken + 1, 65_507 / 1472);
    }
}
