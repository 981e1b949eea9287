//! The division of an object into blocks and symbols, the same at every source and at the receiver.

/// Most source symbols of a block (RFC 6330, table 2).
pub const MAX_BLOCK_SYMBOLS: u32 = 56_403;
/// Largest symbol number: it has 24 bits on the wire (RFC 6330 section 3.2).
pub const MAX_SYMBOL: u32 = (1 << 24) - 1;

/// An object in blocks of equally many symbols. The last block may be shorter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Partition {
    bytes: u64,
    symbols: u64,
    block_symbols: u32,
}

impl Partition {
    /// An object of `bytes` bytes in symbols of `symbol` bytes and blocks of `block_symbols` symbols. `None` if the object
    /// is empty or has more blocks than 32 bits count.
    pub fn new(bytes: u64, symbol: u16, block_symbols: u32) -> Option<Self> {
        let symbols = bytes.div_ceil(symbol.into());
        let countable = u32::try_from(symbols.div_ceil(block_symbols.into())).is_ok_and(|blocks| blocks > 0);
        countable.then_some(Self { bytes, symbols, block_symbols })
    }

    /// An object of `bytes` bytes in blocks of `block_bytes` bytes, each in symbols of `symbol` bytes, the last one
    /// padded. For blocks whose boundaries something other than symbols determines. `None` as for [`new`](Self::new).
    pub fn in_blocks_of(bytes: u64, symbol: u16, block_bytes: u32) -> Option<Self> {
        let (symbol, block_bytes) = (u64::from(symbol), u64::from(block_bytes));
        let block_symbols = block_bytes.div_ceil(symbol);
        let symbols = bytes / block_bytes * block_symbols + (bytes % block_bytes).div_ceil(symbol);
        let countable = u32::try_from(bytes.div_ceil(block_bytes)).is_ok_and(|blocks| blocks > 0);
        countable.then_some(Self { bytes, symbols, block_symbols: block_symbols as u32 })
    }

    /// Bytes of the object.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Source symbols of the object.
    pub const fn symbols(&self) -> u64 {
        self.symbols
    }

    /// Number of blocks.
    pub const fn blocks(&self) -> u32 {
        self.symbols.div_ceil(self.block_symbols as u64) as u32
    }

    /// Source symbols (K) of block number `block`; zero beyond the last.
    pub fn symbols_of(&self, block: u32) -> u32 {
        let before = u64::from(block) * u64::from(self.block_symbols);
        self.symbols.saturating_sub(before).min(self.block_symbols.into()) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_block_is_shorter() {
        let partition = Partition::new(10_001, 100, 40).expect("not empty");
        assert_eq!((partition.symbols(), partition.blocks()), (101, 3));
        assert_eq!([0, 1, 2, 3].map(|block| partition.symbols_of(block)), [40, 40, 21, 0]);
        assert_eq!(Partition::new(0, 100, 40), None);
        assert_eq!(Partition::new(1 << 50, 1, 1), None, "more blocks than are counted");
    }

    #[test]
    fn blocks_begin_where_they_are_wanted() {
        let partition = Partition::in_blocks_of(10_001, 100, 4096).expect("not empty");
        assert_eq!((partition.symbols(), partition.blocks()), (41 + 41 + 19, 3));
        assert_eq!([0, 1, 2, 3].map(|block| partition.symbols_of(block)), [41, 41, 19, 0]);
        let whole = Partition::in_blocks_of(8192, 100, 4096).expect("not empty");
        assert_eq!((whole.symbols(), whole.blocks(), whole.symbols_of(1)), (82, 2, 41));
        assert_eq!(Partition::in_blocks_of(0, 100, 4096), None);
        assert_eq!(Partition::in_blocks_of(1 << 50, 100, 4096), None, "more blocks than are counted");
    }
}
