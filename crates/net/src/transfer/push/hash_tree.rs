//! BLAKE3's tree over a file, so that each block is verified by itself against the file's hash.
//!
//! A block of 2 MiB is a subtree of BLAKE3's binary tree ([`blake3::hazmat`]). Its chaining value needs only its own
//! bytes, and merging the values of all blocks gives the file's hash. A source sends these values in pages of four
//! siblings. Four siblings merge to one value of the page above, and those of the top page to the file's hash. So each
//! page is verified when it arrives, and a false page names its source. A receiver keeps the pages around the blocks
//! that it fetches: three per level of the tree for any file size.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::sync::{Arc, Mutex, PoisonError};

use blake3::Hasher;
use blake3::hazmat::{ChainingValue, HasherExt, Mode, merge_subtrees_non_root, merge_subtrees_root};

/// Bytes of a block: a power of two, as BLAKE3's subtrees have, and few enough to be decoded quickly.
pub(in crate::transfer) const BLOCK_BYTES: u32 = 2 << 20;
/// Values of a full page. Four fit into a notice.
pub(super) const PAGE_VALUES: usize = 4;
/// Blocks ahead of the first missing one whose values are requested: half a second at 1 Gbit/s.
const LOOKAHEAD: u64 = 32;

/// Position of a page in a file's hash tree.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct PageNumber {
    /// Its values belong to subtrees of `4^level` blocks.
    pub level: u8,
    /// Its number in the level, from 0.
    pub index: u64,
}

/// Number of blocks of a file of this many bytes.
pub(in crate::transfer) fn blocks_of(bytes: u64) -> u64 {
    bytes.div_ceil(BLOCK_BYTES.into())
}

/// The value of a block. For the only block of a file it is the file's hash.
pub(in crate::transfer) fn value_of(blocks: u64, block: u64, content: &[u8]) -> ChainingValue {
    let mut hasher = Hasher::new();
    hasher.set_input_offset(block * u64::from(BLOCK_BYTES)).update(content);
    if blocks == 1 { *hasher.finalize().as_bytes() } else { hasher.finalize_non_root() }
}

/// The value above neighbours. They are equally large subtrees, the last of which may be smaller.
fn merge(values: &[ChainingValue]) -> ChainingValue {
    match values {
        [value] => *value,
        values => {
            let (left, right) = halves(values);
            merge_subtrees_non_root(&merge(left), &merge(right), Mode::Hash)
        }
    }
}

/// The same at the top of the tree. For a file of one block it is that block's value.
fn merge_root(values: &[ChainingValue]) -> blake3::Hash {
    match values {
        [] => blake3::hash(&[]),
        [value] => (*value).into(),
        values => {
            let (left, right) = halves(values);
            merge_subtrees_root(&merge(left), &merge(right), Mode::Hash)
        }
    }
}

/// The hash of a file whose blocks have these values.
pub(super) fn root_of(values: &[ChainingValue]) -> blake3::Hash {
    merge_root(values)
}

/// BLAKE3's left subtree is the largest whole one that leaves something to the right.
fn halves(values: &[ChainingValue]) -> (&[ChainingValue], &[ChainingValue]) {
    values.split_at(values.len().next_power_of_two() / 2)
}

/// The pages of a tree over this many blocks.
#[derive(Clone, Copy, Debug)]
struct Shape {
    blocks: u64,
}

impl Shape {
    /// Blocks below one value of a level.
    fn span(level: u8) -> u64 {
        1 << (2 * u32::from(level)).min(63)
    }

    /// Values of a level.
    fn values(self, level: u8) -> u64 {
        self.blocks.div_ceil(Self::span(level))
    }

    /// The level whose values make one page.
    fn top(self) -> u8 {
        (0..32).find(|level| self.values(*level) <= PAGE_VALUES as u64).expect("4^32 blocks are more than there can be")
    }

    /// Number of values of a page; 0 if there is no such page.
    fn values_in(self, PageNumber { level, index }: PageNumber) -> usize {
        if level > self.top() || self.blocks < 2 {
            return 0;
        }
        let before = index.saturating_mul(PAGE_VALUES as u64);
        self.values(level).saturating_sub(before).min(PAGE_VALUES as u64) as usize
    }

    /// The page of a level above a block.
    fn page(level: u8, block: u64) -> PageNumber {
        PageNumber { level, index: block / Self::span(level + 1) }
    }
}

/// The tree of an offered file: 32 bytes for each block, and a third of that above them.
#[derive(Clone)]
pub(super) struct HashTree {
    shape: Shape,
    bytes: u64,
    root: blake3::Hash,
    /// The values of each level, from the blocks on.
    levels: Vec<Vec<ChainingValue>>,
}

/// Builds the tree of a file from its bytes, in order.
pub(super) struct TreeBuilder {
    values: Vec<ChainingValue>,
    bytes: u64,
    /// The hash of the first block, if it is the only one.
    root: blake3::Hash,
    block: Hasher,
    in_block: usize,
}

impl TreeBuilder {
    pub(super) fn new() -> Self {
        Self { values: Vec::new(), bytes: 0, root: blake3::hash(&[]), block: Hasher::new(), in_block: 0 }
    }

    /// Takes more bytes.
    pub(super) fn update(&mut self, mut content: &[u8]) {
        while !content.is_empty() {
            if self.in_block == 0 {
                self.block = Hasher::new();
                self.block.set_input_offset(self.bytes);
            }
            let (now, later) = content.split_at(content.len().min(BLOCK_BYTES as usize - self.in_block));
            self.block.update(now);
            self.in_block += now.len();
            if self.in_block == BLOCK_BYTES as usize {
                self.end_block();
            }
            content = later;
        }
    }

    /// Takes the next block by its value, of this many bytes. It is not the only one of the file, whose value is another.
    pub(super) fn take_block(&mut self, value: ChainingValue, bytes: u64) {
        assert!(self.in_block == 0, "blocks are taken whole");
        self.values.push(value);
        self.bytes += bytes;
    }

    fn end_block(&mut self) {
        if self.in_block == 0 {
            return;
        }
        if self.values.is_empty() {
            self.root = self.block.finalize();
        }
        self.values.push(self.block.finalize_non_root());
        self.bytes += std::mem::take(&mut self.in_block) as u64;
    }

    pub(super) fn finish(mut self) -> HashTree {
        self.end_block();
        let root = if self.values.len() > 1 { merge_root(&self.values) } else { self.root };
        let shape = Shape { blocks: self.values.len() as u64 };
        let mut levels = vec![self.values];
        for _ in 0..shape.top() {
            let below = levels.last().expect("there is a first");
            levels.push(below.chunks(PAGE_VALUES).map(merge).collect());
        }
        HashTree { shape, bytes: self.bytes, root, levels }
    }
}

impl HashTree {
    /// Reads a file to its end.
    pub(super) fn read(mut file: impl Read) -> io::Result<Self> {
        let mut tree = TreeBuilder::new();
        let mut content = Vec::with_capacity(BLOCK_BYTES as usize);
        while file.by_ref().take(BLOCK_BYTES.into()).read_to_end(&mut content)? > 0 {
            tree.update(&content);
            content.clear();
        }
        Ok(tree.finish())
    }

    /// Bytes of the file.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// BLAKE3 hash of the file.
    pub(super) fn root(&self) -> blake3::Hash {
        self.root
    }

    /// The value of a block, unless it is the only one.
    pub(super) fn value(&self, block: u64) -> Option<ChainingValue> {
        let values = &self.levels[0];
        values.get(block as usize).filter(|_| values.len() > 1).copied()
    }

    /// The values of a page, if there is one.
    pub(super) fn page(&self, page: PageNumber) -> Option<&[ChainingValue]> {
        let count = self.shape.values_in(page);
        let start = page.index as usize * PAGE_VALUES;
        (count > 0).then(|| &self.levels[usize::from(page.level)][start..start + count])
    }
}

/// Verified pages by position. Those of a whole file take 43 bytes for each of its blocks.
pub(super) type VerifiedPages = BTreeMap<PageNumber, Vec<ChainingValue>>;

/// The pages that follow from the values of the first blocks alone.
pub(super) fn pages_of(bytes: u64, first: &[ChainingValue]) -> VerifiedPages {
    let shape = Shape { blocks: blocks_of(bytes) };
    let mut pages = VerifiedPages::new();
    let (mut level, mut values) = (0, first.to_vec());
    while level <= shape.top() && shape.blocks > 1 {
        let whole = values.len() as u64 == shape.values(level);
        let mut above = Vec::new();
        for (index, page) in values.chunks(PAGE_VALUES).enumerate() {
            if page.len() < PAGE_VALUES && !whole {
                break;
            }
            pages.insert(PageNumber { level, index: index as u64 }, page.to_vec());
            above.push(merge(page));
        }
        (level, values) = (level + 1, above);
    }
    pages
}

/// The known part of the tree of a file being fetched: pages verified from its hash on.
pub(super) struct VerifiedHashes {
    shape: Shape,
    root: blake3::Hash,
    pages: BTreeMap<PageNumber, Vec<ChainingValue>>,
    /// Pages that arrived before those that verify them, with their sources.
    unverified: BTreeMap<PageNumber, (usize, Vec<ChainingValue>)>,
    /// All verified pages, for receivers that fetch the same file from here.
    shared: Option<Arc<Mutex<VerifiedPages>>>,
}

impl VerifiedHashes {
    /// For a file of this many bytes, at least one, with this hash.
    pub(super) fn new(bytes: u64, root: blake3::Hash) -> Self {
        let shape = Shape { blocks: blocks_of(bytes) };
        Self { shape, root, pages: BTreeMap::new(), unverified: BTreeMap::new(), shared: None }
    }

    /// Blocks of the file.
    pub(super) fn blocks(&self) -> u64 {
        self.shape.blocks
    }

    /// Stores everything verified so far, and from now on, in these pages too.
    pub(super) fn share(&mut self, with: Arc<Mutex<VerifiedPages>>) {
        with.lock().unwrap_or_else(PoisonError::into_inner).extend(self.pages.clone());
        self.shared = Some(with);
    }

    /// The value that a block must have, once known.
    pub(super) fn value(&self, block: u64) -> Option<ChainingValue> {
        if self.shape.blocks == 1 {
            return Some(*self.root.as_bytes());
        }
        let values = self.pages.get(&Shape::page(0, block))?;
        values.get((block % PAGE_VALUES as u64) as usize).copied()
    }

    /// Takes a page from a source. Returns the sources whose pages turn out to be false.
    pub(super) fn take(&mut self, source: usize, page: PageNumber, values: Vec<ChainingValue>) -> Vec<usize> {
        if self.shape.values_in(page) == 0 || self.pages.contains_key(&page) {
            return Vec::new();
        }
        if values.len() != self.shape.values_in(page) {
            return vec![source];
        }
        self.unverified.entry(page).or_insert((source, values));
        let mut liars = Vec::new();
        // From the top down: each page that is verified may verify those below it.
        let waiting: Vec<PageNumber> = self.unverified.keys().rev().copied().collect();
        for page in waiting {
            let Some(is_true) = self.verify(page) else { continue };
            let (source, values) = self.unverified.remove(&page).expect("it waits");
            if is_true {
                if let Some(shared) = &self.shared {
                    shared.lock().unwrap_or_else(PoisonError::into_inner).insert(page, values.clone());
                }
                self.pages.insert(page, values);
            } else {
                liars.push(source);
            }
        }
        liars
    }

    /// Whether a waiting page is true, if what is above it is known.
    fn verify(&self, page: PageNumber) -> Option<bool> {
        let (_, values) = self.unverified.get(&page)?;
        if page.level == self.shape.top() {
            return Some(merge_root(values) == self.root);
        }
        let PageNumber { level, index } = page;
        let above = self.pages.get(&PageNumber { level: level + 1, index: index / PAGE_VALUES as u64 })?;
        Some(merge(values) == above[(index % PAGE_VALUES as u64) as usize])
    }

    /// Forgets the unverified pages of a source.
    pub(super) fn forget_source(&mut self, source: usize) {
        self.unverified.retain(|_, (from, _)| *from != source);
    }

    /// The missing pages for the blocks from `first` on. Forgets pages for none of them. At most three for each level,
    /// and those of the blocks ahead.
    pub(super) fn wanted(&mut self, first: u64) -> Vec<PageNumber> {
        if self.shape.blocks < 2 {
            return Vec::new();
        }
        let last = (first + LOOKAHEAD).min(self.shape.blocks - 1);
        let places = |level| {
            let page = |block| Shape::page(level, block).index;
            (page(first)..=page(last)).map(move |index| PageNumber { level, index })
        };
        let near: BTreeSet<PageNumber> = (0..=self.shape.top()).flat_map(places).collect();
        self.pages.retain(|page, _| near.contains(page));
        self.unverified.retain(|page, _| near.contains(page));
        let is_missing = |page: &PageNumber| !self.pages.contains_key(page) && !self.unverified.contains_key(page);
        near.into_iter().rev().filter(is_missing).collect()
    }

    /// How many of the first blocks, with the values `kept`, are right. The error is the block whose pages it needs.
    pub(super) fn right_blocks(&self, kept: &[ChainingValue]) -> Result<u64, u64> {
        let there = kept.len() as u64;
        let all_right = there == self.shape.blocks && merge_root(kept) == self.root;
        if there == 0 || all_right || self.shape.blocks == 1 {
            return Ok(if all_right { there } else { 0 });
        }
        let mut page = PageNumber { level: self.shape.top(), index: 0 };
        loop {
            let span = Shape::span(page.level);
            let begin = page.index * PAGE_VALUES as u64 * span;
            let values = self.pages.get(&page).ok_or(begin)?;
            let is_right = |place: &usize| {
                let start = begin + *place as u64 * span;
                let end = (start + span).min(self.shape.blocks);
                end <= there && merge(&kept[start as usize..end as usize]) == values[*place]
            };
            let right = (0..values.len()).take_while(is_right).count() as u64;
            let first = begin + right * span;
            if page.level == 0 || first >= there {
                return Ok(first.min(there));
            }
            page = Shape::page(page.level - 1, first);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Files of so many blocks, the last of `rest` bytes.
    fn content(blocks: usize, rest: usize) -> Vec<u8> {
        let bytes = (blocks - 1) * BLOCK_BYTES as usize + rest;
        (0..bytes as u32).map(|byte| (byte.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
    }

    /// The values of blocks need not be hashes of anything for the tree above them.
    fn tree(blocks: u64) -> HashTree {
        let values: Vec<ChainingValue> =
            (0..blocks).map(|block| *blake3::hash(&block.to_be_bytes()).as_bytes()).collect();
        let (shape, root) = (Shape { blocks }, merge_root(&values));
        let mut levels = vec![values];
        for _ in 0..shape.top() {
            levels.push(levels[levels.len() - 1].chunks(PAGE_VALUES).map(merge).collect());
        }
        HashTree { shape, bytes: blocks * u64::from(BLOCK_BYTES), root, levels }
    }

    /// The root is what `b3sum` prints, and every block has the value that the tree has for it, whatever the size.
    #[test]
    fn the_root_is_the_plain_hash() {
        let sizes = [(1, 1), (1, 1023), (1, 1025), (1, 2 << 20), (2, 1), (2, 2 << 20), (3, 5000), (5, 1024), (6, 7)];
        for (blocks, rest) in sizes {
            let content = content(blocks, rest);
            let tree = HashTree::read(&content[..]).unwrap();
            assert_eq!((tree.bytes(), tree.root()), (content.len() as u64, blake3::hash(&content)), "{blocks} {rest}");
            let mut known = VerifiedHashes::new(tree.bytes(), tree.root());
            for page in known.wanted(0) {
                assert_eq!(known.take(0, page, tree.page(page).unwrap().to_vec()), Vec::<usize>::new());
            }
            for (block, bytes) in content.chunks(BLOCK_BYTES as usize).enumerate() {
                assert_eq!(known.value(block as u64), Some(value_of(blocks as u64, block as u64, bytes)));
            }
        }
        assert_eq!(HashTree::read(&[][..]).unwrap().root(), blake3::hash(&[]));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

        /// From the first block to the last, the pages that are asked for verify every value, in whatever order they come,
        /// and few are held. A page in which a bit is wrong names its source and is asked for again.
        #[test]
        fn false_pages_are_named(blocks in 2u64..700, seed in any::<u64>(), lies in 0u64..4) {
            let mut random = pliant_proto::rng::Stream::named(seed, "pages");
            let tree = tree(blocks);
            let mut known = VerifiedHashes::new(tree.bytes(), tree.root());
            let (mut liars, mut lied) = (Vec::new(), 0);
            for block in 0..blocks {
                let mut rounds = 0;
                while known.value(block).is_none() {
                    let mut wanted = known.wanted(block);
                    prop_assert!(!wanted.is_empty() && rounds < 100, "{wanted:?}");
                    rounds += 1;
                    let place = random.below(wanted.len() as u64) as usize;
                    wanted.rotate_left(place);
                    for page in wanted {
                        let mut values = tree.page(page).unwrap().to_vec();
                        let lie = random.below(8) < lies;
                        if lie {
                            let value = random.below(values.len() as u64) as usize;
                            values[value][random.below(32) as usize] ^= 1 << random.below(8);
                        }
                        lied += u64::from(lie);
                        liars.extend(known.take(usize::from(lie), page, values));
                    }
                    prop_assert!(liars.iter().all(|source| *source == 1), "who tells the truth is not named");
                    prop_assert!(liars.len() as u64 <= lied);
                }
                prop_assert_eq!(known.value(block), Some(tree.levels[0][block as usize]));
                known.wanted(block);
                prop_assert!(known.pages.len() <= 3 * usize::from(tree.shape.top() + 1) + LOOKAHEAD as usize / 2);
            }
        }

        /// Of what was kept from before everything up to the first false block is right.
        #[test]
        fn kept_blocks_are_checked(blocks in 2u64..300, kept in 0u64..300, wrong in 0u64..400) {
            let tree = tree(blocks);
            let mut kept = tree.levels[0][..kept.min(blocks) as usize].to_vec();
            let expected = wrong.min(kept.len() as u64);
            if let Some(value) = kept.get_mut(wrong as usize) {
                value[0] ^= 1;
            }
            let mut known = VerifiedHashes::new(tree.bytes(), tree.root());
            let mut rounds = 0;
            let right = loop {
                match known.right_blocks(&kept) {
                    Ok(right) => break right,
                    Err(block) => {
                        for page in known.wanted(block) {
                            known.take(0, page, tree.page(page).unwrap().to_vec());
                        }
                    }
                }
                rounds += 1;
                prop_assert!(rounds < 40);
            };
            prop_assert_eq!(right, expected);
        }

        /// The pages that follow from the first blocks are the tree's, and those of all blocks are all pages.
        #[test]
        fn first_blocks_make_their_pages(blocks in 1u64..300, first in 0usize..300) {
            let tree = tree(blocks);
            let first = &tree.levels[0][..first.min(blocks as usize)];
            let pages = pages_of(tree.bytes(), first);
            for (page, values) in &pages {
                prop_assert_eq!(tree.page(*page), Some(&values[..]));
            }
            for block in 0..first.len() as u64 / 4 {
                let page = PageNumber { level: 0, index: block };
                prop_assert!(blocks < 2 || pages.contains_key(&page));
            }
            let all = (0..=tree.shape.top()).map(|level| tree.levels[usize::from(level)].len().div_ceil(PAGE_VALUES)).sum();
            prop_assert!(first.len() as u64 != blocks || blocks < 2 || pages.len() == all);
        }

        /// A size that is not the file's cannot be proven.
        #[test]
        fn another_number_of_blocks_is_a_lie(blocks in 2u64..200, other in 2u64..200) {
            prop_assume!(blocks != other);
            let tree = tree(blocks);
            let mut known = VerifiedHashes::new(other * u64::from(BLOCK_BYTES), tree.root());
            for page in known.wanted(0) {
                if let Some(values) = tree.page(page) {
                    known.take(0, page, values.to_vec());
                }
            }
            prop_assert_eq!(known.value(other - 1), None);
        }
    }
}
