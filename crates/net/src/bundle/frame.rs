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
    /// The beginning of a data frame, whose own bytes are not all here.
    Begun(BegunData),
    /// The beginning of a frame.
    Incomplete,
}

/// Data whose frame is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct BegunData {
    pub(super) stream: StreamId,
    pub(super) offset: u64,
    /// Bytes of the frame from there on.
    pub(super) left: usize,
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

    /// What stands before its own bytes.
    pub(super) fn head(&self) -> Head {
        let mut head = Head { bytes: [0; DATA_OVERHEAD], count: 0 };
        let (kind, stream) = match self {
            Self::Open { stream, .. } => (OPEN, stream),
            Self::Data { stream, .. } => (DATA, stream),
            Self::End { stream, .. } => (END, stream),
            Self::Reset { stream, .. } => (RESET, stream),
            Self::Window { stream, .. } => (WINDOW, stream),
        };
        head.push([kind]);
        head.push(stream.to_be_bytes());
        match self {
            Self::Open { header, .. } => head.push((header.len() as u16).to_be_bytes()),
            Self::Data { stream, offset, bytes } => return data_head(*stream, *offset, bytes.len()),
            Self::End { size: number, .. } | Self::Window { limit: number, .. } => head.push(number.to_be_bytes()),
            Self::Reset { code, .. } => head.push([*code]),
        }
        head
    }

    /// Its own bytes: the header of a stream, or data.
    pub(super) fn body(&self) -> &'b [u8] {
        match *self {
            Self::Open { header: bytes, .. } | Self::Data { bytes, .. } => bytes,
            Self::End { .. } | Self::Reset { .. } | Self::Window { .. } => &[],
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
            Err(Short) => return Some(Self::begun(bytes).map_or(Parsed::Incomplete, Parsed::Begun)),
        };
        if matches!(frame, StreamFrame::Open { header, .. } if header.len() > MAX_HEADER_BYTES) {
            return None;
        }
        Some(Parsed::Frame(frame, reader.at))
    }

    /// The data frame that begins here, if all is here that stands before its data.
    fn begun(bytes: &[u8]) -> Option<BegunData> {
        let mut reader = Reader { bytes, at: 1 };
        (bytes[0] == DATA).then_some(())?;
        let (stream, offset, left) = (reader.number(4)?, reader.number(8)?, reader.number(2)?);
        Some(BegunData { stream: stream as StreamId, offset, left: left as usize })
    }
}

/// What stands before data of so many bytes.
pub(super) fn data_head(stream: StreamId, offset: u64, count: usize) -> Head {
    let mut head = Head { bytes: [0; DATA_OVERHEAD], count: 0 };
    head.push([DATA]);
    head.push(stream.to_be_bytes());
    head.push(offset.to_be_bytes());
    head.push((count as u16).to_be_bytes());
    head
}

/// The bytes of a frame before its own.
pub(super) struct Head {
    bytes: [u8; DATA_OVERHEAD],
    count: usize,
}

impl Head {
    fn push<const N: usize>(&mut self, bytes: [u8; N]) {
        self.bytes[self.count..][..N].copy_from_slice(&bytes);
        self.count += N;
    }

    pub(super) fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.count]
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

    fn encode(frame: &StreamFrame<'_>) -> Vec<u8> {
        [frame.head().as_slice(), frame.body()].concat()
    }

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
            let mut bytes = encode(&frame);
            assert_eq!(bytes.len(), frame.len());
            for shorter in 0..bytes.len() {
                let begun = match frame {
                    StreamFrame::Data { stream, offset, bytes } if shorter >= DATA_OVERHEAD => {
                        Parsed::Begun(BegunData { stream, offset, left: bytes.len() })
                    }
                    _ => Parsed::Incomplete,
                };
                assert_eq!(StreamFrame::parse(&bytes[..shorter]), Some(begun), "{frame:?} {shorter}");
            }
            let length = bytes.len();
            bytes.push(0);
            assert_eq!(StreamFrame::parse(&bytes), Some(Parsed::Frame(frame, length)));
        }
        assert_eq!(StreamFrame::parse(&[0, 9]), Some(Parsed::Padding));
        assert_eq!(StreamFrame::parse(&[6, 0, 0]), None);
        let long = StreamFrame::Open { stream: 0, header: &[0; MAX_HEADER_BYTES + 1] };
        assert_eq!(StreamFrame::parse(&encode(&long)), None);
    }
}
