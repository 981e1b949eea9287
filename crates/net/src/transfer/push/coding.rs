//! Blocks and their symbols as bytes: RaptorQ (RFC 6330), systematic, so that a block of which all source symbols come
//! needs no decoding.

use std::collections::BTreeMap;

use raptorq::{EncodingPacket, ObjectTransmissionInformation, PayloadId, SourceBlockDecoder, SourceBlockEncoder};

/// Symbols that a receiver keeps of a block beyond as many as its source symbols: with fewer than two more it fails to
/// decode once in 256³ times, so who needs all of these has been lied to.
const MAX_EXTRA: usize = 64;

/// One block by itself: blocks are numbered here with 32 bits, not RFC 6330's 8.
fn configuration(symbol: u16, symbols: u32) -> ObjectTransmissionInformation {
    ObjectTransmissionInformation::new(u64::from(symbol) * u64::from(symbols), symbol, 1, 1, 1)
}

/// Makes a block's repair symbols.
pub(super) struct Encoder {
    symbols: u32,
    encoder: SourceBlockEncoder,
}

impl Encoder {
    /// For a block of whole symbols.
    pub(super) fn new(symbol: u16, content: &[u8]) -> Self {
        let symbols = (content.len() / usize::from(symbol)) as u32;
        Self { symbols, encoder: SourceBlockEncoder::new(0, &configuration(symbol, symbols), content) }
    }

    /// Writes repair symbol number `symbol`, which is at least the number of source symbols.
    pub(super) fn write(&self, symbol: u32, into: &mut [u8]) {
        let packets = self.encoder.repair_packets(symbol - self.symbols, 1);
        into.copy_from_slice(packets[0].data());
    }
}

/// A block as it comes in.
pub(super) struct Block {
    symbol: u16,
    symbols: u32,
    /// Source symbols in their places.
    content: Vec<u8>,
    /// Bit of each source symbol that came.
    seen: Vec<u64>,
    sources: u32,
    repair: BTreeMap<u32, Vec<u8>>,
}

impl Block {
    pub(super) fn new(symbol: u16, symbols: u32) -> Self {
        Self {
            symbol,
            symbols,
            content: vec![0; usize::from(symbol) * symbols as usize],
            seen: vec![0; symbols.div_ceil(64) as usize],
            sources: 0,
            repair: BTreeMap::new(),
        }
    }

    /// Keeps a symbol of the right length. False if there are too many that do not decode it.
    pub(super) fn keep(&mut self, symbol: u32, payload: &[u8]) -> bool {
        if symbol >= self.symbols {
            if self.sources as usize + self.repair.len() >= self.symbols as usize + MAX_EXTRA {
                return false;
            }
            self.repair.entry(symbol).or_insert_with(|| payload.to_vec());
            return true;
        }
        let (word, bit) = ((symbol / 64) as usize, 1 << (symbol % 64));
        if self.seen[word] & bit == 0 {
            self.seen[word] |= bit;
            self.sources += 1;
            let at = symbol as usize * payload.len();
            self.content[at..at + payload.len()].copy_from_slice(payload);
        }
        true
    }

    /// Whether the symbols make the block; then [`content`](Self::content) is all of it.
    pub(super) fn decode(&mut self) -> bool {
        if self.sources == self.symbols {
            return true;
        }
        if self.sources as usize + self.repair.len() < self.symbols as usize {
            return false;
        }
        let length = self.content.len() as u64;
        let mut decoder = SourceBlockDecoder::new(0, &configuration(self.symbol, self.symbols), length);
        let packet = |symbol, bytes: &[u8]| EncodingPacket::new(PayloadId::new(0, symbol), bytes.to_vec());
        let came = |symbol: &u32| self.seen[(symbol / 64) as usize] >> (symbol % 64) & 1 != 0;
        let sources = (0..self.symbols).zip(self.content.chunks(self.symbol.into())).filter(|(symbol, _)| came(symbol));
        let repair = self.repair.iter().map(|(symbol, bytes)| packet(*symbol, bytes));
        let Some(content) = decoder.decode(sources.map(|(symbol, bytes)| packet(symbol, bytes)).chain(repair)) else {
            return false;
        };
        (self.content, self.sources) = (content, self.symbols);
        self.repair.clear();
        self.seen.fill(u64::MAX);
        true
    }

    /// The block's bytes, once it is decoded.
    pub(super) fn content(&self) -> &[u8] {
        &self.content
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

        /// Any of a block's symbols, two more than it has source symbols (RFC 6330: all but one set in 256³ decode), make
        /// the block, whichever were lost.
        #[test]
        fn any_symbols_make_the_block(symbol in 1u16..40, symbols in 1u32..60, seed in any::<u64>()) {
            let mut rng = pliant_proto::rng::Stream::named(seed, "coding");
            let content: Vec<u8> = (0..symbols * u32::from(symbol)).map(|_| rng.next_u64() as u8).collect();
            let encoder = Encoder::new(symbol, &content);
            let mut numbers: Vec<u32> = (0..3 * symbols + 10).collect();
            for place in (1..numbers.len()).rev() {
                numbers.swap(place, rng.below(place as u64 + 1) as usize);
            }
            let mut block = Block::new(symbol, symbols);
            for (count, &number) in numbers.iter().enumerate().take(symbols as usize + 2) {
                prop_assert!(!block.decode() || count >= symbols as usize, "too few symbols decode nothing");
                let mut payload = vec![0; symbol.into()];
                if number < symbols {
                    payload.copy_from_slice(&content[number as usize * usize::from(symbol)..][..usize::from(symbol)]);
                } else {
                    encoder.write(number, &mut payload);
                }
                prop_assert!(block.keep(number, &payload));
                prop_assert!(block.keep(number, &payload), "twice is once");
            }
            prop_assert!(block.decode());
            prop_assert_eq!(block.content(), &content[..]);
        }
    }

    /// Symbols that do not decode, for they are of no block, fill no memory.
    #[test]
    fn false_symbols_are_bounded() {
        let mut block = Block::new(8, 10);
        let kept = (10..1000).filter(|symbol| block.keep(*symbol, &[0xff; 8])).count();
        assert_eq!(kept, 10 + MAX_EXTRA);
    }
}
