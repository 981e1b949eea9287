//! What every kind of datagram has in common.

use core::fmt;

use crate::packet::{DataFlags, EndpointId};
use crate::time::Instant;

/// First byte of every datagram.
const MAGIC: u8 = 0x50;
/// Version of this format, in the upper half of the second byte.
const VERSION: u8 = 1;

/// What the second byte says of the kinds that stand in a byte of their own.
pub(super) const KIND_EXTENDED: u8 = 15;

/// No flag of any kind.
pub(super) const NO_FLAGS: u8 = 0;
/// Of an answer to pulled data or to a symbol: nothing more is needed.
pub(super) const COMPLETE: u8 = 1;

/// Flags of a stream's data.
pub(super) const DATA_FLAGS: DataFlags = DataFlags::FIN
    .with(DataFlags::CWR)
    .with(DataFlags::RETRANSMISSION)
    .with(DataFlags::WINDOW_FULL)
    .with(DataFlags::DELAY)
    .with(DataFlags::HOLD);

/// Why a datagram is no packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WireError {
    /// It ends before its header does.
    TooShort,
    /// It has bytes beyond its end, or a payload of another length than it says.
    WrongLength,
    /// It does not begin as this protocol's datagrams do.
    WrongMagic,
    /// It is of another version of this format.
    UnknownVersion(u8),
    /// It is of a kind that this version does not know.
    UnknownKind(u8),
    /// It has a flag that is unknown or does not belong to its kind.
    WrongFlags(u8),
    /// It counts SACK blocks that its kind or flags do not allow, or too many.
    WrongSackCount(u8),
    /// A SACK block holds no byte.
    EmptySackBlock,
    /// A time or a stream offset is beyond what can be represented, or a fragment beyond its message.
    OutOfRange,
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooShort => f.write_str("the datagram ends within its header"),
            Self::WrongLength => f.write_str("the datagram is not as long as it says"),
            Self::WrongMagic => f.write_str("the datagram is of another protocol"),
            Self::UnknownVersion(version) => write!(f, "format version {version} is not known"),
            Self::UnknownKind(kind) => write!(f, "packet kind {kind} is not known"),
            Self::WrongFlags(flags) => write!(f, "flags {flags:#04x} do not belong to the packet's kind"),
            Self::WrongSackCount(count) => write!(f, "{count} SACK blocks do not fit the packet's kind and flags"),
            Self::EmptySackBlock => f.write_str("a SACK block is empty"),
            Self::OutOfRange => f.write_str("a time, a stream offset or a fragment is out of range"),
        }
    }
}

impl core::error::Error for WireError {}

/// FIN takes a sequence number of its own.
pub(super) fn check_end(seq: u64, len: u16, fin: bool) -> Result<(), WireError> {
    let taken = u64::from(len) + u64::from(fin);
    seq.checked_add(taken).map(|_| ()).ok_or(WireError::OutOfRange)
}

/// What every datagram begins with.
pub(super) struct Common {
    pub(super) kind: u8,
    flags: u8,
    pub(super) sack_blocks: u8,
    pub(super) to: EndpointId,
}

impl Common {
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let [magic, version_and_kind, flags, sack_blocks] = reader.take()?;
        if magic != MAGIC {
            return Err(WireError::WrongMagic);
        }
        if version_and_kind >> 4 != VERSION {
            return Err(WireError::UnknownVersion(version_and_kind >> 4));
        }
        let to = EndpointId::from_index(u32::from_be_bytes(reader.take()?));
        Ok(Self { kind: version_and_kind & 0xf, flags, sack_blocks, to })
    }

    pub(super) fn flags_among(&self, allowed: u8) -> Result<u8, WireError> {
        if self.flags & !allowed == 0 { Ok(self.flags) } else { Err(WireError::WrongFlags(self.flags)) }
    }

    pub(super) fn no_sack(&self) -> Result<(), WireError> {
        if self.sack_blocks == 0 { Ok(()) } else { Err(WireError::WrongSackCount(self.sack_blocks)) }
    }
}

/// The rest of a datagram.
pub(super) struct Reader<'a> {
    pub(super) rest: &'a [u8],
}

impl Reader<'_> {
    pub(super) fn take<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or(WireError::TooShort)?;
        self.rest = rest;
        Ok(*taken)
    }

    pub(super) fn u16(&mut self) -> Result<u16, WireError> {
        self.take().map(u16::from_be_bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32, WireError> {
        self.take().map(u32::from_be_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64, WireError> {
        self.take().map(u64::from_be_bytes)
    }

    pub(super) fn time(&mut self) -> Result<Instant, WireError> {
        let ps = self.u64()?;
        if ps > Instant::MAX.as_ps() { Err(WireError::OutOfRange) } else { Ok(Instant::from_ps(ps)) }
    }
}

/// A datagram under construction.
pub(super) struct Writer<'a> {
    pub(super) buffer: &'a mut [u8],
    pub(super) at: usize,
}

impl Writer<'_> {
    pub(super) fn common(&mut self, kind: u8, flags: u8, sack_blocks: u8, to: EndpointId) {
        self.put(&[MAGIC, VERSION << 4 | kind, flags, sack_blocks]);
        self.put(&to.index().to_be_bytes());
    }

    /// The start of a datagram whose kind has no place in the second byte.
    pub(super) fn extended(&mut self, kind: u8, flags: u8, to: EndpointId) {
        self.common(KIND_EXTENDED, flags, 0, to);
        self.put(&[kind]);
    }

    pub(super) fn put(&mut self, bytes: &[u8]) {
        self.buffer[self.at..self.at + bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len();
    }

    pub(super) fn u16(&mut self, value: u16) {
        self.put(&value.to_be_bytes());
    }

    pub(super) fn u32(&mut self, value: u32) {
        self.put(&value.to_be_bytes());
    }

    pub(super) fn u64(&mut self, value: u64) {
        self.put(&value.to_be_bytes());
    }
}
