//! What a door and an exit say to each other through a stream, where records travel apart from it.
//!
//! ```text
//!  byte  0         1..5        5..
//!        kind      length      content
//!        0                     bytes of the client, or of the broker
//!        1                     a response whose records travel apart (`Plan::head`)
//!        2                     records that were asked for again (`Plan::again`)
//!        3                     what became of the records (`Report`)
//!        4         0           the client, or the broker, has ended
//! ```

use std::io;

use pliant_kafka::MAX_REWRITTEN;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::relay::PIECE_BYTES;

/// What a chunk is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum ChunkKind {
    Bytes = 0,
    Response = 1,
    Again = 2,
    Report = 3,
    End = 4,
}

impl ChunkKind {
    fn read(byte: u8) -> Option<Self> {
        [Self::Bytes, Self::Response, Self::Again, Self::Report, Self::End].get(usize::from(byte)).copied()
    }

    /// Most bytes.
    fn most(self) -> usize {
        match self {
            Self::Bytes => PIECE_BYTES,
            // The records are not more than a response has, and the table of their messages comes to it.
            Self::Response | Self::Again => MAX_REWRITTEN + (4 << 20),
            Self::Report => 4 << 20,
            Self::End => 0,
        }
    }
}

/// Reads a chunk into `content`; `None` at the stream's end.
pub(crate) async fn read_chunk(
    from: &mut (impl AsyncRead + Unpin),
    content: &mut Vec<u8>,
) -> io::Result<Option<ChunkKind>> {
    content.clear();
    let mut head = [0; 5];
    if from.read(&mut head[..1]).await? == 0 {
        return Ok(None);
    }
    from.read_exact(&mut head[1..]).await?;
    let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
    let kind = ChunkKind::read(head[0]).filter(|kind| length <= kind.most());
    let kind = kind.ok_or_else(|| invalid("the other daemon sends what is no chunk"))?;
    // As much room as comes: a false length reserves none.
    let read = from.take(length as u64).read_to_end(content).await?;
    if read == length { Ok(Some(kind)) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

/// Writes a chunk; bytes of any number go as several.
pub(crate) async fn write_chunk(to: &mut (impl AsyncWrite + Unpin), kind: ChunkKind, content: &[u8]) -> io::Result<()> {
    let pieces: Vec<&[u8]> = match kind {
        ChunkKind::Bytes => content.chunks(PIECE_BYTES).collect(),
        _ => vec![content],
    };
    for piece in pieces {
        let mut head = [kind as u8, 0, 0, 0, 0];
        head[1..].copy_from_slice(&(piece.len() as u32).to_be_bytes());
        to.write_all(&head).await?;
        to.write_all(piece).await?;
    }
    Ok(())
}

/// The other side breaks the rules.
pub(crate) fn invalid(why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Chunks come back one by one; what is cut short, of no kind or too long is an error.
    #[tokio::test]
    async fn chunks_round_trip() {
        let mut bytes = Vec::new();
        let long: Vec<u8> = (0..PIECE_BYTES + 5).map(|at| at as u8).collect();
        for (kind, content) in [
            (ChunkKind::Bytes, &long[..]),
            (ChunkKind::Report, b"lost"),
            (ChunkKind::Bytes, b""),
            (ChunkKind::End, b""),
        ] {
            write_chunk(&mut bytes, kind, content).await.unwrap();
        }
        let (mut from, mut content) = (&bytes[..], Vec::new());
        for (kind, expected) in [
            (ChunkKind::Bytes, &long[..PIECE_BYTES]),
            (ChunkKind::Bytes, &long[PIECE_BYTES..]),
            (ChunkKind::Report, b"lost"),
            (ChunkKind::End, b""),
        ] {
            assert_eq!(read_chunk(&mut from, &mut content).await.unwrap(), Some(kind));
            assert_eq!(content, expected);
        }
        assert_eq!(read_chunk(&mut from, &mut content).await.unwrap(), None);
        for wrong in [
            &[0][..],
            &[0, 0, 0, 0, 2, 1],
            &[0, 0, 1, 0, 1],
            &[1, 0xff, 0xff, 0xff, 0xff, 1],
            &[4, 0, 0, 0, 1, 0],
            &[5, 0, 0, 0, 0],
            b"\x16\x03\x01\x02\x00\x01",
        ] {
            assert!(read_chunk(&mut &wrong[..], &mut content).await.is_err(), "{wrong:?}");
        }
    }
}
