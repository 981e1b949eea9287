//! What a receiver already has of a content, or does not want of it.

use std::ops::Range;

use super::hash_tree::BLOCK_BYTES;

/// What a receiver already has of a content, and what it wants of it.
pub trait OwnBlocks: Send + Sync {
    /// Whether a block is wanted. One that is not is skipped.
    fn is_wanted(&self, number: u32) -> bool;

    /// A candidate for a wanted block, if there is one. Its hash decides.
    fn candidate(&self, number: u32) -> Option<Vec<u8>>;
}

/// Nothing but some blocks of a content is wanted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OnlyBlocks(Range<u32>);

impl OnlyBlocks {
    /// The blocks that hold these bytes.
    pub fn of_bytes(bytes: &Range<u64>) -> Self {
        let block = |byte: u64| (byte / u64::from(BLOCK_BYTES)) as u32;
        let end = if bytes.is_empty() { block(bytes.start) } else { block(bytes.end - 1) + 1 };
        Self(block(bytes.start)..end)
    }

    /// The first of them.
    pub fn first(&self) -> u32 {
        self.0.start
    }
}

impl OwnBlocks for OnlyBlocks {
    fn is_wanted(&self, number: u32) -> bool {
        self.0.contains(&number)
    }

    fn candidate(&self, _: u32) -> Option<Vec<u8>> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_of_bytes_lies_in_blocks() {
        let block = u64::from(BLOCK_BYTES);
        for (bytes, expected) in [
            (0..1, 0..1),
            (block - 1..block, 0..1),
            (block - 1..block + 1, 0..2),
            (block..3 * block, 1..3),
            (5..5, 0..0),
        ] {
            assert_eq!(OnlyBlocks::of_bytes(&bytes), OnlyBlocks(expected), "{bytes:?}");
        }
        let only = OnlyBlocks(1..2);
        assert!(!only.is_wanted(0) && only.is_wanted(1) && !only.is_wanted(2));
    }
}
