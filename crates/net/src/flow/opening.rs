//! What the two sides of a flow tell each other before its first packet.

use super::path::MIN_MTU;
use super::transport::Protocol;

const OPENING_VERSION: u8 = 1;

/// What a sender tells the receiver before anything else.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Opening {
    /// How it could send, best first.
    pub offers: Vec<Protocol>,
    /// Its largest packet.
    pub mtu: u16,
    /// The application's own.
    pub content: Vec<u8>,
}

impl Opening {
    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        let offers: Vec<u8> = self.offers.iter().map(|protocol| *protocol as u8).collect();
        [&[OPENING_VERSION, offers.len() as u8], &offers[..], &self.mtu.to_be_bytes(), &self.content].concat()
    }

    /// From bytes; protocols that are not known are left out.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (&[version, count], rest) = bytes.split_first_chunk()?;
        let (offers, rest) = rest.split_at_checked(usize::from(count))?;
        let (mtu, content) = rest.split_first_chunk()?;
        let mtu = u16::from_be_bytes(*mtu);
        let offers = offers.iter().filter_map(|octet| Protocol::from_octet(*octet)).collect();
        let valid = version == OPENING_VERSION && mtu >= MIN_MTU;
        valid.then(|| Self { offers, mtu, content: content.to_vec() })
    }
}

/// What the receiver answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Answer {
    /// How the sender is to send.
    pub protocol: Protocol,
    /// The receiver's clock, in nanoseconds since 1970.
    pub unix_ns: u64,
    /// What the application has to say of the content; 0 if nothing.
    pub note: u64,
}

impl Answer {
    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        let note = self.note.to_be_bytes();
        let note = if self.note == 0 { &[][..] } else { &note };
        [&[self.protocol as u8][..], &self.unix_ns.to_be_bytes(), note].concat()
    }

    /// From bytes.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (protocol, numbers) = bytes.split_first()?;
        let (unix_ns, note) = numbers.split_first_chunk()?;
        let unix_ns = u64::from_be_bytes(*unix_ns);
        let note =
            if note.is_empty() { 0 } else { u64::from_be_bytes(note.try_into().ok().filter(|note| *note != [0; 8])?) };
        Some(Self { protocol: Protocol::from_octet(*protocol)?, unix_ns, note })
    }
}
