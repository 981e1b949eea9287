//! Ethernet frames as a switch reads them: where they go, their traffic class, and how a mark gets in.

use pliant_proto::packet::TrafficClass;

/// Bytes of an Ethernet header without tags.
pub const ETHERNET_BYTES: usize = 14;

const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_ARP: u16 = 0x0806;
const ETHERTYPE_IPV6: u16 = 0x86dd;
const ETHERTYPE_VLAN: u16 = 0x8100;

/// A protocol above IP, as far as the size on the wire depends on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Layer4 {
    /// UDP: Pliant's own transports.
    Udp,
    /// TCP: the kernel's.
    Tcp,
    /// Anything else.
    Other,
}

/// What a switch reads of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// Destination address on the link.
    pub mac: [u8; 6],
    /// Destination address of IPv4, or target of ARP.
    pub ipv4: Option<u32>,
    /// The octet with DSCP and ECN; zero for what is not IP.
    pub octet: u8,
    /// What it carries.
    pub layer4: Layer4,
    /// Where the header of what it carries begins, and where that ends.
    pub layer4_at: (usize, usize),
    /// Hash of addresses, protocol and ports: the same for all frames of a flow, and both its directions.
    pub flow: u32,
}

impl Header {
    /// Whether the frame goes to more than one station.
    pub fn is_group(&self) -> bool {
        self.mac[0] & 1 != 0
    }

    /// What is behind the header of UDP; empty if there is nothing.
    #[inline]
    pub fn layer4_payload<'a>(&self, frame: &'a [u8]) -> &'a [u8] {
        let (start, end) = self.layer4_at;
        frame.get(start + 8..end).unwrap_or_default()
    }
}

/// Why a frame is not forwarded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FrameError {
    /// It ends within its headers, or its IP header contradicts itself.
    Malformed,
    /// It has a VLAN tag, of which a plan says nothing.
    Tagged,
}

fn u16_at(frame: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(frame.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(frame: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(frame.get(at..at + 4)?.try_into().ok()?))
}

/// Reads the headers.
pub fn parse(frame: &[u8]) -> Result<Header, FrameError> {
    let ethertype = u16_at(frame, 12).ok_or(FrameError::Malformed)?;
    let mac: [u8; 6] = frame[..6].try_into().expect("six bytes");
    let mut header = Header { mac, ipv4: None, octet: 0, layer4: Layer4::Other, layer4_at: (0, 0), flow: 0 };
    match ethertype {
        ETHERTYPE_IPV4 => parse_ipv4(frame, &mut header).ok_or(FrameError::Malformed)?,
        ETHERTYPE_IPV6 => parse_ipv6(frame, &mut header).ok_or(FrameError::Malformed)?,
        // Answers go to the address that asked, whose station address a plan need not know.
        ETHERTYPE_ARP => header.ipv4 = u32_at(frame, ETHERNET_BYTES + 24),
        ETHERTYPE_VLAN => return Err(FrameError::Tagged),
        _ => {}
    }
    Ok(header)
}

fn parse_ipv4(frame: &[u8], header: &mut Header) -> Option<()> {
    let (&first, length) = (frame.get(ETHERNET_BYTES)?, u16_at(frame, ETHERNET_BYTES + 2)?);
    let header_bytes = usize::from(first & 0xf) * 4;
    let whole = first >> 4 == 4 && header_bytes >= 20 && usize::from(length) >= header_bytes;
    if !whole || frame.len() < ETHERNET_BYTES + usize::from(length) {
        return None;
    }
    header.octet = frame[ETHERNET_BYTES + 1];
    let (source, destination) = (u32_at(frame, ETHERNET_BYTES + 12)?, u32_at(frame, ETHERNET_BYTES + 16)?);
    header.ipv4 = Some(destination);
    // Fragments beyond the first have no ports.
    let fragment = u16_at(frame, ETHERNET_BYTES + 6)? & 0x1fff != 0;
    finish(
        frame,
        header,
        source ^ destination,
        frame[ETHERNET_BYTES + 9],
        (ETHERNET_BYTES + header_bytes, ETHERNET_BYTES + usize::from(length)),
        fragment,
    );
    Some(())
}

fn parse_ipv6(frame: &[u8], header: &mut Header) -> Option<()> {
    let (first, length) = (u16_at(frame, ETHERNET_BYTES)?, u16_at(frame, ETHERNET_BYTES + 4)?);
    if first >> 12 != 6 || frame.len() < ETHERNET_BYTES + 40 + usize::from(length) {
        return None;
    }
    header.octet = (first >> 4) as u8;
    let addresses = (0..8).fold(0, |sum, word| sum ^ u32_at(frame, ETHERNET_BYTES + 8 + 4 * word).unwrap_or(0));
    finish(
        frame,
        header,
        addresses,
        frame[ETHERNET_BYTES + 6],
        (ETHERNET_BYTES + 40, ETHERNET_BYTES + 40 + usize::from(length)),
        false,
    );
    Some(())
}

fn finish(
    frame: &[u8],
    header: &mut Header,
    addresses: u32,
    protocol: u8,
    (layer4, end): (usize, usize),
    fragment: bool,
) {
    header.layer4 = match protocol {
        6 => Layer4::Tcp,
        17 => Layer4::Udp,
        _ => Layer4::Other,
    };
    let ports = match (header.layer4, fragment) {
        (Layer4::Other, _) | (_, true) => 0,
        _ => u16_at(frame, layer4).unwrap_or(0) ^ u16_at(frame, layer4 + 2).unwrap_or(0),
    };
    header.layer4_at = (layer4, end);
    header.flow = mix(addresses ^ u32::from(ports) << 8 ^ u32::from(protocol));
}

/// Every bit of the input reaches every bit of the output (MurmurHash3's finaliser).
fn mix(mut value: u32) -> u32 {
    value = (value ^ value >> 16).wrapping_mul(0x85eb_ca6b);
    value = (value ^ value >> 13).wrapping_mul(0xc2b2_ae35);
    value ^ value >> 16
}

/// Writes the ECN codepoint of `traffic_class` into a frame that [`parse`] accepted as IP, with IPv4's header checksum
/// (RFC 1624, equation 3). DSCP stays.
pub fn set_ecn(frame: &mut [u8], traffic_class: TrafficClass) {
    let ecn = traffic_class.ecn() as u8;
    match u16_at(frame, 12) {
        Some(ETHERTYPE_IPV4) => {
            let before = u16_at(frame, ETHERNET_BYTES).expect("parsed");
            let after = before & !0b11 | u16::from(ecn);
            let checksum = u16_at(frame, ETHERNET_BYTES + 10).expect("parsed");
            let sum = u32::from(!checksum) + u32::from(!before) + u32::from(after);
            frame[ETHERNET_BYTES..ETHERNET_BYTES + 2].copy_from_slice(&after.to_be_bytes());
            frame[ETHERNET_BYTES + 10..ETHERNET_BYTES + 12].copy_from_slice(&(!fold(u64::from(sum))).to_be_bytes());
        }
        Some(ETHERTYPE_IPV6) => {
            let octet = &mut frame[ETHERNET_BYTES + 1];
            *octet = *octet & !0b0011_0000 | ecn << 4;
        }
        _ => {}
    }
}

/// The traffic class of a frame with this octet, whose DSCP `class_of_dscp` maps. The lowest bit of DSCP is the colour.
#[inline]
pub fn classify(octet: u8, class_of_dscp: &[u8; 64]) -> TrafficClass {
    let wire = TrafficClass::from_octet(octet);
    let class = TrafficClass::new(class_of_dscp[usize::from(octet >> 2)]);
    class.with_red(wire.is_red()).with_ecn(wire.ecn())
}

/// DSCP maps to classes as Pliant writes them: the upper five bits are the class.
pub const PLIANT_CLASSES: [u8; 64] = {
    let mut classes = [0; 64];
    let mut dscp = 0;
    while dscp < 64 {
        classes[dscp] = dscp as u8 >> 1;
        dscp += 1;
    }
    classes
};

/// Completes the checksum of TCP or UDP in a frame that a kernel left to its interface: the field holds the sum of the
/// pseudo-header so far. False if the frame has no such checksum.
pub fn complete_checksum(frame: &mut [u8]) -> bool {
    let (layer4, protocol, end) = match u16_at(frame, 12) {
        Some(ETHERTYPE_IPV4) => {
            let header_bytes = usize::from(frame[ETHERNET_BYTES] & 0xf) * 4;
            let length = usize::from(u16_at(frame, ETHERNET_BYTES + 2).unwrap_or(0));
            (ETHERNET_BYTES + header_bytes, frame[ETHERNET_BYTES + 9], ETHERNET_BYTES + length)
        }
        Some(ETHERTYPE_IPV6) => {
            let length = usize::from(u16_at(frame, ETHERNET_BYTES + 4).unwrap_or(0));
            (ETHERNET_BYTES + 40, frame[ETHERNET_BYTES + 6], ETHERNET_BYTES + 40 + length)
        }
        _ => return false,
    };
    let field = match protocol {
        6 => layer4 + 16,
        17 => layer4 + 6,
        _ => return false,
    };
    if field + 2 > end || end > frame.len() {
        return false;
    }
    let checksum = match !fold(sum(&frame[layer4..end])) {
        // UDP's zero stands for none.
        0 if protocol == 17 => 0xffff,
        checksum => checksum,
    };
    frame[field..field + 2].copy_from_slice(&checksum.to_be_bytes());
    true
}

/// The sum of the 16-bit words.
fn sum(bytes: &[u8]) -> u64 {
    // The order of bytes may be changed afterwards (RFC 1071, section 2(B)); in the machine's own it vectorises.
    let (chunks, rest) = bytes.as_chunks::<4>();
    let mut sum: u64 = chunks.iter().map(|chunk| u64::from(u32::from_ne_bytes(*chunk))).sum();
    let mut last = [0; 4];
    last[..rest.len()].copy_from_slice(rest);
    sum += u64::from(u32::from_ne_bytes(last));
    u64::from(fold(sum).to_be())
}

fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// The checksum of RFC 1071 over these bytes and a sum that goes before them.
pub(super) fn internet_checksum(bytes: &[u8], before: u64) -> u16 {
    !fold(sum(bytes) + before)
}

#[cfg(test)]
mod tests;
