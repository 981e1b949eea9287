//! The codecs of a batch's records.

use std::io::{Read, Write};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use lz4_flex::frame::{BlockMode, BlockSize, FrameDecoder, FrameEncoder, FrameInfo};

use super::unopened::Unopened;

/// Largest window of zstd that is followed, 8 MiB: what its strongest levels but the "ultra" ones ask for.
const MAX_ZSTD_WINDOW_LOG: u32 = 23;
/// The level that Kafka's clients use if they are not told another.
const ZSTD_LEVEL: i32 = 3;
/// How snappy's blocks are framed by the Java client: the magic bytes, a version, and the oldest that can read it.
const XERIAL: [u8; 16] = [0x82, b'S', b'N', b'A', b'P', b'P', b'Y', 0, 0, 0, 0, 1, 0, 0, 0, 1];
/// Bytes of a block in it.
const XERIAL_BLOCK: usize = 32 << 10;

/// How the records of a batch are packed, as the attributes say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Codec {
    None,
    Gzip,
    Snappy,
    Lz4,
    Zstd,
}

impl Codec {
    pub(crate) fn of(attributes: i16) -> Option<Self> {
        [Self::None, Self::Gzip, Self::Snappy, Self::Lz4, Self::Zstd].get(usize::from(attributes as u16 & 7)).copied()
    }

    /// The records, `most` bytes at most, whatever the packed bytes say of themselves: unpacking stops there.
    pub(crate) fn unpack(self, packed: &[u8], most: usize) -> Result<Vec<u8>, Unopened> {
        match self {
            Self::None => bounded(packed, most),
            Self::Gzip => bounded(GzDecoder::new(packed), most),
            Self::Snappy => snappy(packed, most),
            Self::Lz4 => bounded(FrameDecoder::new(packed), most),
            Self::Zstd => {
                let mut decoder = zstd::Decoder::with_buffer(packed).map_err(|_| Unopened::Codec)?;
                decoder.window_log_max(MAX_ZSTD_WINDOW_LOG).map_err(|_| Unopened::Codec)?;
                bounded(decoder, most)
            }
        }
    }

    /// The same records packed as before, so that clients need nothing that they did not need already.
    pub(crate) fn pack(self, plain: &[u8]) -> Vec<u8> {
        let whole = "a vector takes all";
        match self {
            Self::None => plain.to_vec(),
            Self::Gzip => {
                let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
                encoder.write_all(plain).expect(whole);
                encoder.finish().expect(whole)
            }
            Self::Snappy => {
                let mut packed = XERIAL.to_vec();
                let mut encoder = snap::raw::Encoder::new();
                for block in plain.chunks(XERIAL_BLOCK) {
                    let block = encoder.compress_vec(block).expect("a block is far below snappy's limit");
                    packed.extend((block.len() as i32).to_be_bytes());
                    packed.extend(block);
                }
                packed
            }
            Self::Lz4 => {
                // Kafka's reader knows no blocks that depend on others.
                let frame = FrameInfo::new().block_size(BlockSize::Max64KB).block_mode(BlockMode::Independent);
                let mut encoder = FrameEncoder::with_frame_info(frame, Vec::new());
                encoder.write_all(plain).expect(whole);
                encoder.finish().expect(whole)
            }
            Self::Zstd => zstd::encode_all(plain, ZSTD_LEVEL).expect(whole),
        }
    }
}

/// All that a reader has, if it is not too much.
fn bounded(reader: impl Read, most: usize) -> Result<Vec<u8>, Unopened> {
    let mut plain = Vec::new();
    reader.take(most as u64 + 1).read_to_end(&mut plain).map_err(|_| Unopened::Codec)?;
    if plain.len() > most { Err(Unopened::TooLarge) } else { Ok(plain) }
}

/// Snappy, in blocks as the Java client frames them, or as one block.
fn snappy(packed: &[u8], most: usize) -> Result<Vec<u8>, Unopened> {
    let mut plain = Vec::new();
    if !packed.starts_with(&XERIAL[..8]) {
        snappy_block(packed, &mut plain, most)?;
        return Ok(plain);
    }
    let mut rest = packed.get(XERIAL.len()..).ok_or(Unopened::Codec)?;
    while let Some((length, behind)) = rest.split_first_chunk() {
        let length = usize::try_from(i32::from_be_bytes(*length)).map_err(|_| Unopened::Codec)?;
        let (block, behind) = behind.split_at_checked(length).ok_or(Unopened::Codec)?;
        snappy_block(block, &mut plain, most)?;
        rest = behind;
    }
    if rest.is_empty() { Ok(plain) } else { Err(Unopened::Codec) }
}

fn snappy_block(block: &[u8], plain: &mut Vec<u8>, most: usize) -> Result<(), Unopened> {
    let length = snap::raw::decompress_len(block).map_err(|_| Unopened::Codec)?;
    let start = plain.len();
    if length > most - start {
        return Err(Unopened::TooLarge);
    }
    plain.resize(start + length, 0);
    let written = snap::raw::Decoder::new().decompress(block, &mut plain[start..]).map_err(|_| Unopened::Codec)?;
    if written == length { Ok(()) } else { Err(Unopened::Codec) }
}
