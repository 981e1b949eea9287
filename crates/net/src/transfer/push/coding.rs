//! Blocks and their symbols as bytes: RaptorQ (RFC 6330), systematic, so that a block needs no decoding if all its
//! source symbols arrive.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use raptorq::{
    EncodingPacket, ObjectTransmissionInformation, PayloadId, SourceBlockDecoder, SourceBlockEncoder,
    SourceBlockEncodingPlan,
};

/// Symbols that a receiver keeps of a block beyond the number of its source symbols. With two more, decoding fails once
/// in 256³ times. A receiver that needs all of these has received false symbols.
pub(super) const MAX_EXTRA: usize = 64;

/// One block by itself. Blocks are numbered here with 32 bits, not with RFC 6330's 8.
fn configuration(symbol: u16, symbols: u32) -> ObjectTransmissionInformation {
    ObjectTransmissionInformation::new(u64::from(symbol) * u64::from(symbols), symbol, 1, 1, 1)
}

/// How blocks of so many symbols are encoded, for the numbers that were used last. Full blocks have one number; the last block of
/// each file has its own. A plan takes up to 2 MB, and the library would keep 64 for the life of the process.
struct Plans(Mutex<VecDeque<(u16, Arc<SourceBlockEncodingPlan>)>>);

static PLANS: Plans = Plans(Mutex::new(VecDeque::new()));
const MAX_PLANS: usize = 8;

impl Plans {
    fn find(&self, symbols: u16) -> Arc<SourceBlockEncodingPlan> {
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let take = |plans: &mut VecDeque<_>| {
            let at = plans.iter().position(|(of, _)| *of == symbols)?;
            plans.remove(at).map(|(_, plan)| plan)
        };
        let found = take(&mut lock());
        // It takes a while, for which nobody else waits.
        let plan = found.unwrap_or_else(|| Arc::new(SourceBlockEncodingPlan::generate(symbols)));
        let mut plans = lock();
        let _same = take(&mut plans);
        plans.push_front((symbols, plan.clone()));
        plans.truncate(MAX_PLANS);
        plan
    }
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
        let plan = PLANS.find(symbols as u16);
        let encoder = SourceBlockEncoder::with_encoding_plan(0, &configuration(symbol, symbols), content, &plan);
        Self { symbols, encoder }
    }

    /// Writes repair symbol number `symbol`, which is at least the number of source symbols.
    pub(super) fn write(&self, symbol: u32, into: &mut [u8]) {
        let packets = self.encoder.repair_packets(symbol - self.symbols, 1);
        into.copy_from_slice(packets[0].data());
    }
}

/// Decodes a block from symbols; `None` if they are too few, or do not determine it.
pub(super) fn decode<'s>(symbol: u16, symbols: u32, came: impl Iterator<Item = (u32, &'s [u8])>) -> Option<Vec<u8>> {
    let length = u64::from(symbol) * u64::from(symbols);
    let mut decoder = SourceBlockDecoder::new(0, &configuration(symbol, symbols), length);
    decoder.decode(came.map(|(number, bytes)| EncodingPacket::new(PayloadId::new(0, number), bytes.to_vec())))
}

/// An incoming block, with the source of each symbol.
pub(super) struct Block {
    symbol: u16,
    symbols: u32,
    /// Source symbols in their places, and who sent each.
    content: Vec<u8>,
    senders: Vec<Option<u16>>,
    sources: u32,
    repair: BTreeMap<u32, (u16, Vec<u8>)>,
}

impl Block {
    /// An empty block. The content of `buffer` does not matter; its memory is reused.
    pub(super) fn new(symbol: u16, symbols: u32, mut buffer: Vec<u8>) -> Self {
        buffer.resize(usize::from(symbol) * symbols as usize, 0);
        Self {
            symbol,
            symbols,
            content: buffer,
            senders: vec![None; symbols as usize],
            sources: 0,
            repair: BTreeMap::new(),
        }
    }

    /// Keeps a symbol of the right length unless it is there. False if there are too many that do not decode the block.
    pub(super) fn keep(&mut self, source: u16, symbol: u32, payload: &[u8]) -> bool {
        if symbol >= self.symbols {
            if self.count() >= self.symbols as usize + MAX_EXTRA {
                return false;
            }
            self.repair.entry(symbol).or_insert_with(|| (source, payload.to_vec()));
            return true;
        }
        let sender = &mut self.senders[symbol as usize];
        if sender.is_none() {
            *sender = Some(source);
            self.sources += 1;
            let at = symbol as usize * payload.len();
            self.content[at..at + payload.len()].copy_from_slice(payload);
        }
        true
    }

    /// Symbols that are there.
    pub(super) fn count(&self) -> usize {
        self.sources as usize + self.repair.len()
    }

    /// Least number of symbols that decode it.
    pub(super) fn needed(&self) -> usize {
        self.symbols as usize
    }

    /// Forgets the symbols of a source.
    pub(super) fn forget(&mut self, source: u16) {
        for sender in self.senders.iter_mut().filter(|sender| **sender == Some(source)) {
            *sender = None;
            self.sources -= 1;
        }
        self.repair.retain(|_, (sender, _)| *sender != source);
    }

    /// Whether all source symbols are there. Then [`content`](Self::content) is the block.
    pub(super) fn is_whole(&self) -> bool {
        self.sources == self.symbols
    }

    /// The source symbols in their places.
    pub(super) fn content(&self) -> &[u8] {
        &self.content
    }

    /// The same without the block.
    pub(super) fn into_content(self) -> Vec<u8> {
        self.content
    }

    /// The decoded block, if the symbols decode one.
    pub(super) fn decode(&self) -> Option<Vec<u8>> {
        if self.count() < self.needed() {
            return None;
        }
        decode(self.symbol, self.symbols, self.came().map(|(_, symbol, bytes)| (symbol, bytes)))
    }

    /// All symbols: source, number and bytes.
    fn came(&self) -> impl Iterator<Item = (u16, u32, &[u8])> {
        let sources = self.senders.iter().zip(0u32..).zip(self.content.chunks(self.symbol.into()));
        let sources = sources.filter_map(|((sender, symbol), bytes)| Some(((*sender)?, symbol, bytes)));
        sources.chain(self.repair.iter().map(|(symbol, (sender, bytes))| (*sender, *symbol, &bytes[..])))
    }

    /// Its symbols decode another block than expected, so some are false.
    pub(super) fn dispute(self) -> Dispute {
        let (symbol, symbols, came) = (self.symbol, self.symbols, BTreeMap::new());
        let mut dispute = Dispute { symbol, symbols, came, counts: BTreeMap::new(), again_at: BTreeMap::new() };
        for (source, symbol, bytes) in self.came() {
            dispute.keep(source, symbol, bytes);
        }
        dispute
    }
}

/// Most symbols kept of a block with false symbols, in multiples of a block's symbols.
const MAX_BLOCKS_KEPT: usize = 6;

/// Some of the symbols of a block.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Part {
    /// Those of one source. If they decode another block, it lies.
    Of(u16),
    /// All but those of one source.
    Without(u16),
}

/// The result for a disputed block.
pub(super) enum Resolution {
    /// More symbols are needed.
    Open,
    /// The symbols of this source alone decode another block.
    Liar(u16),
    /// The block, and the sources that sent symbols that are not from it.
    Block(Vec<u8>, BTreeSet<u16>),
}

/// A block with some false symbols. Each source is asked for more, until the symbols of one alone, or of all but one,
/// decode the block. Then every symbol is compared with it. A symbol counts for each source that sends it, so no source
/// can block another by sending its symbols first.
pub(super) struct Dispute {
    symbol: u16,
    symbols: u32,
    came: BTreeMap<(u16, u32), Box<[u8]>>,
    /// Number of symbols of each source.
    counts: BTreeMap<u16, usize>,
    /// Number of symbols from which a part is tried again; never if it decoded another block.
    again_at: BTreeMap<Part, usize>,
}

impl Dispute {
    /// Keeps a symbol of the right length, if it can be useful.
    pub(super) fn keep(&mut self, source: u16, symbol: u32, payload: &[u8]) {
        let most = self.symbols as usize + MAX_EXTRA;
        if self.counts.get(&source).is_some_and(|count| *count >= most) {
            return;
        }
        if self.came.len() >= MAX_BLOCKS_KEPT * most {
            // Whoever has sent the least is the farthest from an end.
            let least = self.counts.iter().min_by_key(|(_, count)| **count).map(|(source, _)| *source);
            match least.filter(|least| *least != source) {
                Some(least) => self.forget(least),
                None => return,
            }
        }
        if let Entry::Vacant(place) = self.came.entry((source, symbol)) {
            place.insert(payload.into());
            *self.counts.entry(source).or_default() += 1;
        }
    }

    /// Forgets the symbols of a source.
    pub(super) fn forget(&mut self, source: u16) {
        self.came.retain(|(sender, _), _| *sender != source);
        self.counts.remove(&source);
        self.again_at.retain(|part, _| matches!(part, Part::Of(of) if *of != source));
    }

    /// Tries what has become possible. `is_right` checks a block's first `length` bytes; zeros pad it.
    pub(super) fn resolve(&mut self, length: usize, is_right: impl Fn(&[u8]) -> bool) -> Resolution {
        let needed = self.symbols as usize;
        let parts: Vec<(Part, usize)> = self
            .counts
            .iter()
            .flat_map(|(source, count)| {
                [(Part::Of(*source), *count), (Part::Without(*source), self.came.len() - count)]
            })
            .collect();
        for (part, count) in parts {
            if count < self.again_at.get(&part).copied().unwrap_or(needed) {
                continue;
            }
            let mut distinct: BTreeMap<u32, &[u8]> = BTreeMap::new();
            for ((source, symbol), bytes) in &self.came {
                let is_in = match part {
                    Part::Of(of) => *source == of,
                    Part::Without(without) => *source != without,
                };
                if is_in {
                    distinct.entry(*symbol).or_insert(bytes);
                }
            }
            let missing = needed.saturating_sub(distinct.len()).max(1);
            let Some(mut content) = decode(self.symbol, self.symbols, distinct.into_iter()) else {
                // A true source's symbols fail to decode 256 times more seldom with each one more.
                if let (Part::Of(source), true) = (part, count >= needed + MAX_EXTRA) {
                    return Resolution::Liar(source);
                }
                self.again_at.insert(part, count + missing);
                continue;
            };
            if is_right(&content[..length]) {
                content[length..].fill(0);
                let liars = self.liars(&content);
                return Resolution::Block(content, liars);
            }
            if let Part::Of(source) = part {
                return Resolution::Liar(source);
            }
            self.again_at.insert(part, usize::MAX);
        }
        Resolution::Open
    }

    /// The sources that sent a symbol that is not from the block.
    fn liars(&self, content: &[u8]) -> BTreeSet<u16> {
        let encoder = Encoder::new(self.symbol, content);
        let mut right = vec![0; self.symbol.into()];
        let mut liars = BTreeSet::new();
        for ((source, symbol), bytes) in &self.came {
            if *symbol < self.symbols {
                let at = *symbol as usize * right.len();
                right.copy_from_slice(&content[at..at + bytes.len()]);
            } else {
                encoder.write(*symbol, &mut right);
            }
            if right[..] != bytes[..] {
                liars.insert(*source);
            }
        }
        liars
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Plans are kept of the numbers that were used last, and of no others.
    #[test]
    fn few_plans_are_kept() {
        let plans = Plans(Mutex::default());
        for symbols in 2..3 * MAX_PLANS as u16 {
            plans.find(symbols);
            plans.find(1);
        }
        let kept: Vec<u16> = plans.0.lock().unwrap().iter().map(|(of, _)| *of).collect();
        assert_eq!((kept.len(), kept[..3].to_vec()), (MAX_PLANS, vec![1, 23, 22]));
    }

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
            let mut block = Block::new(symbol, symbols, vec![0xaa; 100]);
            for (count, &number) in numbers.iter().enumerate().take(symbols as usize + 2) {
                prop_assert!(block.decode().is_none() || count >= symbols as usize, "too few symbols decode nothing");
                let mut payload = vec![0; symbol.into()];
                if number < symbols {
                    payload.copy_from_slice(&content[number as usize * usize::from(symbol)..][..usize::from(symbol)]);
                } else {
                    encoder.write(number, &mut payload);
                }
                prop_assert!(block.keep(0, number, &payload));
                prop_assert!(block.keep(1, number, &payload), "twice is once");
            }
            prop_assert!(block.decode().is_some_and(|made| made == content));
            prop_assert!(!block.is_whole() || block.content() == content);
        }
    }

    /// Symbols that do not decode, for they are of no block, fill no memory.
    #[test]
    fn false_symbols_are_bounded() {
        let mut block = Block::new(8, 10, Vec::new());
        let kept = (10..1000).filter(|symbol| block.keep(0, *symbol, &[0xff; 8])).count();
        assert_eq!(kept, 10 + MAX_EXTRA);
    }

    /// Symbols as sources of a block would send them, each from a place of its own on.
    fn payload(encoder: &Encoder, content: &[u8], symbol: u32) -> Vec<u8> {
        let bytes = usize::from(SYMBOL);
        let mut payload = vec![0; bytes];
        match content.chunks(bytes).nth(symbol as usize) {
            Some(source) => payload.copy_from_slice(source),
            None => encoder.write(symbol, &mut payload),
        }
        payload
    }

    const SYMBOL: u16 = 16;
    const SYMBOLS: u32 = 40;
    /// The last symbol of the block is filled up.
    const LENGTH: usize = 630;

    /// What comes of a block of which sources send symbols in turn; the liars change one in `every`, and stop after so many.
    /// Gives who was named, in the order of their naming.
    fn dispute(sources: u16, liars: &[u16], every: u32, stop: u32, seed: u64) -> (Option<Vec<u8>>, Vec<u16>) {
        let mut rng = pliant_proto::rng::Stream::named(seed, "dispute");
        let mut content: Vec<u8> = (0..LENGTH).map(|_| rng.next_u64() as u8).collect();
        content.resize(usize::from(SYMBOL) * SYMBOLS as usize, 0);
        let is_right = |bytes: &[u8]| bytes == &content[..LENGTH];
        let encoder = Encoder::new(SYMBOL, &content);
        let mut block = Some(Block::new(SYMBOL, SYMBOLS, vec![0xaa; 700]));
        let (mut disputed, mut named): (Option<Dispute>, Vec<u16>) = (None, Vec::new());
        for place in 0..2000u32 {
            for source in (0..sources).filter(|source| !named.contains(source)).collect::<Vec<_>>() {
                let lies = liars.contains(&source);
                if lies && place >= stop {
                    continue;
                }
                let symbol = place * u32::from(sources) + u32::from(source);
                let mut payload = payload(&encoder, &content, symbol);
                if lies && place % every == every - 1 {
                    payload[rng.below(16) as usize] ^= 1 << rng.below(8);
                }
                if let Some(coming) = &mut block {
                    coming.keep(source, symbol, &payload);
                    let Some(made) = coming.decode() else { continue };
                    if is_right(&made[..LENGTH]) {
                        return (Some(made), named);
                    }
                    disputed = block.take().map(Block::dispute);
                }
                let Some(open) = &mut disputed else { continue };
                open.keep(source, symbol, &payload);
                loop {
                    match open.resolve(LENGTH, is_right) {
                        Resolution::Open => break,
                        Resolution::Liar(source) => {
                            named.push(source);
                            open.forget(source);
                        }
                        Resolution::Block(made, liars) => {
                            named.extend(liars);
                            return (Some(made), named);
                        }
                    }
                }
            }
        }
        (None, named)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

        /// However many of the sources lie, and even if they say no more in the middle: the block is made as long as one
        /// tells the truth, who tells the truth is not named, and a liar is.
        #[test]
        fn liars_are_named(
            sources in 2u16..6, lying in 1u16..6, every in 1u32..8, stop in prop::sample::select(vec![15u32, 39, 2000]),
            seed in any::<u64>(),
        ) {
            let liars: Vec<u16> = (0..lying.min(sources - 1)).collect();
            let (made, named) = dispute(sources, &liars, every, stop, seed);
            prop_assert!(made.is_some(), "{named:?}");
            prop_assert!(named.iter().all(|source| liars.contains(source)), "{named:?} of {liars:?}");
            // Whoever sent a false symbol into this block before it was made.
            prop_assert!(!named.is_empty());
        }

        /// One source alone that lies is named, and makes no block.
        #[test]
        fn the_only_source_is_named(every in 1u32..20, seed in any::<u64>()) {
            prop_assert_eq!(dispute(1, &[0], every, 2000, seed), (None, vec![0]));
        }
    }

    /// A source that sends another's symbols ahead of it takes none of them away.
    #[test]
    fn symbols_sent_in_advance_are_of_no_use() {
        let content: Vec<u8> = (0..usize::from(SYMBOL) * SYMBOLS as usize).map(|byte| byte as u8).collect();
        let encoder = Encoder::new(SYMBOL, &content);
        let mut block = Block::new(SYMBOL, SYMBOLS, vec![0xaa; 700]);
        for symbol in 0..SYMBOLS {
            block.keep(0, symbol, &[0xee; SYMBOL as usize]);
            block.keep(1, symbol, &payload(&encoder, &content, symbol));
        }
        assert!(block.is_whole() && block.content() != content);
        let mut dispute = block.dispute();
        let is_right = |bytes: &[u8]| bytes == content;
        assert!(matches!(dispute.resolve(content.len(), is_right), Resolution::Liar(0)));
        dispute.forget(0);
        for symbol in 0..SYMBOLS {
            dispute.keep(1, symbol, &payload(&encoder, &content, symbol));
        }
        let Resolution::Block(made, liars) = dispute.resolve(content.len(), is_right) else {
            panic!("one tells the truth")
        };
        assert_eq!((made == content, liars), (true, BTreeSet::new()));
    }

    /// With more sources than there is memory for, half of them liars, a dispute ends all the same: those that have sent the
    /// least are forgotten, and the others come to an end.
    #[test]
    fn a_dispute_among_many_sources_ends() {
        let (symbol, needed, sources) = (8u16, 70u32, 20u16);
        let content: Vec<u8> = (0..needed * u32::from(symbol)).map(|byte| (byte * byte % 251) as u8).collect();
        let encoder = Encoder::new(symbol, &content);
        let mut dispute = Block::new(symbol, needed, Vec::new()).dispute();
        let mut gone = BTreeSet::new();
        for round in 0..2 * needed {
            for source in (0..sources).filter(|source| !gone.contains(source)).collect::<Vec<_>>() {
                // Each source has symbols of its own.
                let number = needed + u32::from(source) * 1000 + round;
                let mut bytes = vec![0; symbol.into()];
                encoder.write(number, &mut bytes);
                if source % 2 == 1 {
                    bytes[0] ^= 1;
                }
                dispute.keep(source, number, &bytes);
                match dispute.resolve(content.len(), |block| block == content) {
                    Resolution::Open => {}
                    Resolution::Liar(liar) => {
                        assert_eq!(liar % 2, 1);
                        gone.insert(liar);
                        dispute.forget(liar);
                    }
                    Resolution::Block(block, liars) => {
                        assert_eq!(block, content);
                        assert!(liars.iter().all(|liar| liar % 2 == 1), "{liars:?}");
                        // No more than each source's block.
                        assert!(round <= needed + MAX_EXTRA as u32, "{round}");
                        return;
                    }
                }
            }
        }
        panic!("it does not end");
    }

    /// However much is sent, what is kept of a disputed block is bounded.
    #[test]
    fn disputes_are_bounded() {
        let mut dispute = Block::new(8, 10, Vec::new()).dispute();
        for symbol in 0..1000 {
            for source in 0..20 {
                dispute.keep(source, symbol, &[source as u8; 8]);
            }
        }
        assert!(dispute.came.len() <= MAX_BLOCKS_KEPT * (10 + MAX_EXTRA));
    }
}
