//! A sender's announcement.
//!
//! ```text
//!  byte  0      1            2..10                  10..18                18..22           22..
//!        kind   flags        size, all ones if      least fraction that   bytes of every   name
//!               1: may be    it is not known        arrives (IEEE 754)    message but the
//!               partial                                                   last, or zero
//!               3: messages
//!               and a hash
//!               4: identity                                                               22..54 identity, then the name
//! ```
//!
//! A stream's hash follows its last byte. Messages that must all arrive are followed by one more message, with the hash
//! of all.

use pliant_proto::transport::atp::MAX_MESSAGES;

use super::directory::DIGEST_BYTES;

/// Larger sizes are refused as malformed.
const MAX_BYTES: u64 = 1 << 56;
const UNKNOWN: u64 = u64::MAX;
const NAME_AT: usize = 22;
const MAX_NAME_BYTES: usize = 255;
const IDENTITY_BYTES: usize = 32;

/// What is sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Kind {
    /// A file.
    File = 0,
    /// A directory, as a tar archive.
    Directory = 1,
    /// A stream that the sender reads until it ends.
    Stream = 2,
    /// Zeros, which nobody keeps, for a measurement.
    Test = 3,
    /// Sorted digests of the files of a directory to be sent. The receiver says which of them it has.
    Listing = 4,
}

/// A sender's announcement.
#[derive(Clone, PartialEq, Debug)]
pub struct Announcement {
    /// What is sent.
    pub kind: Kind,
    /// Its name; not a path.
    pub name: String,
    /// Its size in bytes, if known.
    pub size: Option<u64>,
    /// Whether it arrives in pieces of which some may be missing, unless it is `hashed`.
    pub partial: bool,
    /// Whether all of it arrives as messages, with one more for its hash.
    pub hashed: bool,
    /// Least fraction of it that arrives.
    pub min_delivery: f64,
    /// Bytes of every message but the last, if it is sent as messages.
    pub message_bytes: Option<u32>,
    /// Identity of the content, under which a receiver keeps what arrives of an interrupted transfer.
    pub identity: Option<[u8; IDENTITY_BYTES]>,
}

impl Announcement {
    /// Encodes it. A long name is cut.
    pub fn encode(&self) -> Vec<u8> {
        let name = crate::text::truncated(&self.name, MAX_NAME_BYTES);
        let flags = u8::from(self.partial) | u8::from(self.hashed) << 1 | u8::from(self.identity.is_some()) << 2;
        let mut bytes = vec![self.kind as u8, flags];
        bytes.extend(self.size.unwrap_or(UNKNOWN).to_be_bytes());
        bytes.extend(self.min_delivery.to_be_bytes());
        bytes.extend(self.message_bytes.unwrap_or(0).to_be_bytes());
        bytes.extend(self.identity.iter().flatten());
        bytes.extend(name.as_bytes());
        bytes
    }

    /// Decodes it.
    pub fn decode(bytes: &[u8]) -> Result<Self, &'static str> {
        const SHORT: &str = "the connection does not begin as a transfer does";
        let (fixed, mut name) = bytes.split_at_checked(NAME_AT).ok_or(SHORT)?;
        let kinds = [Kind::File, Kind::Directory, Kind::Stream, Kind::Test, Kind::Listing];
        let kind = kinds.into_iter().find(|kind| *kind as u8 == fixed[0]).ok_or("it speaks another version")?;
        let (partial, hashed, identified) = match fixed[1] {
            0 => (false, false, false),
            1 => (true, false, false),
            3 => (true, true, false),
            4 => (false, false, true),
            _ => return Err("it speaks another version"),
        };
        let mut identity = None;
        if identified {
            let (first, rest) = name.split_first_chunk().ok_or(SHORT)?;
            (identity, name) = (Some(*first), rest);
        }
        let number = |at: usize| u64::from_be_bytes(fixed[at..at + 8].try_into().expect("eight bytes"));
        let size = Some(number(2)).filter(|size| *size != UNKNOWN);
        let min_delivery = f64::from_bits(number(10));
        let message_bytes = u32::from_be_bytes(fixed[18..].try_into().expect("four bytes"));
        if size.is_some_and(|size| size > MAX_BYTES) {
            return Err("it announces an absurd size");
        }
        if !(0.0..=1.0).contains(&min_delivery) || partial && (size.is_none() || kind == Kind::Directory) {
            return Err("it announces a contract that cannot be kept");
        }
        if message_bytes != 0 && !partial {
            return Err("it announces messages that are a stream");
        }
        if hashed && (message_bytes == 0 || min_delivery < 1.0 || kind == Kind::Test) {
            return Err("it announces a hash of what may be missing");
        }
        if identity.is_some() && (size.is_none() || kind == Kind::Test) {
            return Err("it announces to go on with what has no end");
        }
        if kind == Kind::Listing
            && (partial || identity.is_some() || size.is_none_or(|size| size % DIGEST_BYTES as u64 != 0))
        {
            return Err("it announces a listing that is none");
        }
        if name.len() > MAX_NAME_BYTES {
            return Err("the name it gives is too long");
        }
        let name = str::from_utf8(name).map_err(|_| "the name it gives is not UTF-8")?.to_owned();
        let message_bytes = Some(message_bytes).filter(|bytes| *bytes > 0);
        let this = Self { kind, name, size, partial, hashed, min_delivery, message_bytes, identity };
        if this.has_too_many_messages() {
            return Err("it announces too many messages");
        }
        Ok(this)
    }

    /// Whether there are more messages than a flow can have.
    pub(super) fn has_too_many_messages(&self) -> bool {
        self.messages() + u64::from(self.hashed) > u64::from(MAX_MESSAGES)
    }

    /// Number of its messages, without that of the hash.
    pub fn messages(&self) -> u64 {
        match (self.size, self.message_bytes) {
            (Some(size), Some(bytes)) => size.div_ceil(u64::from(bytes)),
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> Announcement {
        let (size, message_bytes) = (Some(256), None);
        Announcement {
            kind: Kind::File,
            name: "model.bin".into(),
            size,
            partial: false,
            hashed: false,
            min_delivery: 1.0,
            message_bytes,
            identity: None,
        }
    }

    #[test]
    fn announcements_round_trip_and_refuse_nonsense() {
        let partial = Announcement { partial: true, min_delivery: 0.9, message_bytes: Some(1000), ..file() };
        let stream = Announcement { kind: Kind::Stream, size: None, ..file() };
        let hashed = Announcement { partial: true, hashed: true, message_bytes: Some(1000), ..file() };
        assert_eq!(partial.messages(), 1);
        let identified = Announcement { identity: Some([7; IDENTITY_BYTES]), ..file() };
        let listing = Announcement { kind: Kind::Listing, size: Some(32), ..file() };
        for announcement in [file(), partial, stream, listing.clone(), hashed.clone(), identified.clone()] {
            assert_eq!(Announcement::decode(&announcement.encode()), Ok(announcement));
        }
        // Kind, flags, size, fraction, messages of a stream, name.
        for (at, value) in [(0, 5), (1, 2), (2, 0x7f), (10, 0xff), (20, 1), (22, 0xff)] {
            let mut broken = file().encode();
            broken[at] = value;
            assert!(Announcement::decode(&broken).is_err(), "byte {at}");
        }
        assert!(Announcement::decode(&file().encode()[..21]).is_err());
        assert!(Announcement::decode(&[&file().encode()[..], &[b'a'; 250]].concat()).is_err());
        assert!(
            Announcement::decode(&Announcement { kind: Kind::Directory, partial: true, ..file() }.encode()).is_err()
        );
        for broken in [
            Announcement { min_delivery: 0.9, ..hashed.clone() },
            Announcement { message_bytes: None, ..hashed.clone() },
            Announcement { kind: Kind::Test, ..hashed },
            Announcement { kind: Kind::Test, ..identified.clone() },
            Announcement { size: None, ..identified.clone() },
            Announcement { partial: true, ..identified },
            Announcement { size: Some(33), ..listing.clone() },
            Announcement { size: None, ..listing },
        ] {
            assert!(Announcement::decode(&broken.encode()).is_err(), "{broken:?}");
        }
        let many = Announcement { partial: true, message_bytes: Some(1), size: Some(1 << 40), ..file() };
        assert!(Announcement::decode(&many.encode()).is_err());
        assert!(Announcement::decode(&Announcement { size: None, partial: true, ..file() }.encode()).is_err());
    }

    #[test]
    fn long_names_are_cut_between_characters() {
        let long = Announcement { name: "é".repeat(200), ..file() };
        assert_eq!(Announcement::decode(&long.encode()).unwrap().name, "é".repeat(127));
    }
}
