//! What streams say to each other through a bundle.
//!
//! ```text
//!  byte  0      1..5       5..
//!        0                                                         padding: the rest of the cell is empty
//!        1      stream     2 bytes of length, header               opens it; the header is the application's
//!        2      stream     8 bytes of offset, 2 of length, data    bytes of it from an offset on
//!        3      stream     8 bytes of size                         its end: so many bytes in all
//!        4      stream     code                                    it is reset, both ways
//!        5      stream     8 bytes of offset                       bytes up to there may be sent
//! ```
//!
//! Numbers are in network byte order.

/// Most bytes of a header.
pub const MAX_HEADER_BYTES: usize = 1024;
/// Bytes of a data frame before the data.
pub(super) const DATA_OVERHEAD: usize = 15;

/// A stream's number: even ones are opened by the side that called.
pub type StreamId = u32;

/// A frame.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum StreamFrame<'b> {
    Open { stream: StreamId, header: &'b [u8] },
    Data { stream: StreamId, offset: u64, bytes: &'b [u8] },
    End { stream: StreamId, size: u64 },
    Reset { stream: StreamId, code: u8 },
    Window { stream: StreamId, limit: u64 },
}

/// What stands at the beginning of some bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Parsed<'b> {
    /// A frame of so many bytes.
    Frame(StreamFrame<'b>, usize),
    /// Nothing more in this cell.
    Padding,
    /// The beginning of a frame.
    Incomplete,
}

const PADDING: u8 = 0;
const OPEN: u8 = 1;
const DATA: u8 = 2;
const END: u8 = 3;
const RESET: u8 = 4;
const WINDOW: u8 = 5;

impl<'b> StreamFrame<'b> {
    /// Bytes that it takes.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Open { header, .. } => 7 + header.len(),
            Self::Data { bytes, .. } => DATA_OVERHEAD + bytes.len(),
            Self::End { .. } | Self::Window { .. } => 13,
            Self::Reset { .. } => 6,
        }
    }

    /// Appends it.
    pub(super) fn encode(&self, into: &mut Vec<u8>) {
        let (kind, stream) = match self {
            Self::Open { stream, .. } => (OPEN, stream),
            Self::Data { stream, .. } => (DATA, stream),
            Self::End { stream, .. } => (END, stream),
            Self::Reset { stream, .. } => (RESET, stream),
            Self::Window { stream, .. } => (WINDOW, stream),
        };
        into.push(kind);
        into.extend(stream.to_be_bytes());
        match self {
            Self::Open { header, .. } => {
                into.extend((header.len() as u16).to_be_bytes());
                into.extend(*header);
            }
            Self::Data { offset, bytes, .. } => {
                into.extend(offset.to_be_bytes());
                into.extend((bytes.len() as u16).to_be_bytes());
                into.extend(*bytes);
            }
            Self::End { size: number, .. } | Self::Window { limit: number, .. } => into.extend(number.to_be_bytes()),
            Self::Reset { code, .. } => into.push(*code),
        }
    }

    /// The frame at the beginning of `bytes`; `None` if there can be none.
    pub(super) fn parse(bytes: &'b [u8]) -> Option<Parsed<'b>> {
        let mut reader = Reader { bytes, at: 0 };
        let Some(kind) = reader.number(1) else { return Some(Parsed::Incomplete) };
        match kind as u8 {
            PADDING => return Some(Parsed::Padding),
            OPEN..=WINDOW => {}
            _ => return None,
        }
        let frame = match reader.frame(kind as u8) {
            Ok(frame) => frame,
            Err(Short) => return Some(Parsed::Incomplete),
        };
        if matches!(frame, StreamFrame::Open { header, .. } if header.len() > MAX_HEADER_BYTES) {
            return None;
        }
        Some(Parsed::Frame(frame, reader.at))
    }
}

/// More bytes are needed.
struct Short;

struct Reader<'b> {
    bytes: &'b [u8],
    at: usize,
}

impl<'b> Reader<'b> {
    fn take(&mut self, count: usize) -> Result<&'b [u8], Short> {
        let taken = self.bytes.get(self.at..self.at + count).ok_or(Short)?;
        self.at += count;
        Ok(taken)
    }

    fn number(&mut self, count: usize) -> Option<u64> {
        let bytes = self.take(count).ok()?;
        Some(bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    fn frame(&mut self, kind: u8) -> Result<StreamFrame<'b>, Short> {
        let stream = self.number(4).ok_or(Short)? as StreamId;
        Ok(match kind {
            OPEN => {
                let length = self.number(2).ok_or(Short)? as usize;
                StreamFrame::Open { stream, header: self.take(length)? }
            }
            DATA => {
                let offset = self.number(8).ok_or(Short)?;
                let length = self.number(2).ok_or(Short)? as usize;
                StreamFrame::Data { stream, offset, bytes: self.take(length)? }
            }
            END => StreamFrame::End { stream, size: self.number(8).ok_or(Short)? },
            RESET => StreamFrame::Reset { stream, code: self.number(1).ok_or(Short)? as u8 },
            _ => StreamFrame::Window { stream, limit: self.number(8).ok_or(Short)? },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every frame comes back, of every shorter part it is told that more is needed, and unknown kinds are refused.
    #[test]
    fn frames_round_trip() {
        for frame in [
            StreamFrame::Open { stream: 2, header: b"127.0.0.1:6379" },
            StreamFrame::Data { stream: 7, offset: 1 << 40, bytes: &[1, 2, 3] },
            StreamFrame::Data { stream: 7, offset: 0, bytes: &[] },
            StreamFrame::End { stream: 9, size: u64::MAX },
            StreamFrame::Reset { stream: u32::MAX, code: 4 },
            StreamFrame::Window { stream: 0, limit: 65536 },
        ] {
            let mut bytes = Vec::new();
            frame.encode(&mut bytes);
            assert_eq!(bytes.len(), frame.len());
            for shorter in 0..bytes.len() {
                assert_eq!(StreamFrame::parse(&bytes[..shorter]), Some(Parsed::Incomplete), "{frame:?} {shorter}");
            }
            let length = bytes.len();
            bytes.push(0);
            assert_eq!(StreamFrame::parse(&bytes), Some(Parsed::Frame(frame, length)));
        }
        assert_eq!(StreamFrame::parse(&[0, 9]), Some(Parsed::Padding));
        assert_eq!(StreamFrame::parse(&[6, 0, 0]), None);
        let long = StreamFrame::Open { stream: 0, header: &[0; MAX_HEADER_BYTES + 1] };
        let mut bytes = Vec::new();
        long.encode(&mut bytes);
        assert_eq!(StreamFrame::parse(&bytes), None);
    }
}
