//! Selective acknowledgements and what else an acknowledgement has no room for, which travel beside a packet.

use super::ByteRange;

/// Most SACK blocks an acknowledgement carries (RFC 2018: four, three beside timestamps in a TCP header).
pub const MAX_SACK_BLOCKS: usize = 4;

/// The SACK blocks of one acknowledgement, in the order reported: the most recent first (RFC 2018 section 4).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SackBlocks {
    blocks: [ByteRange; MAX_SACK_BLOCKS],
    /// The one-way delay that [`Packet::set_delay`](super::Packet::set_delay) put here: beside blocks the packet has no room for it.
    pub(super) delay: u32,
    /// The hold time that [`Packet::set_hold`](super::Packet::set_hold) put here, in nanoseconds.
    pub(super) hold: u32,
    count: u8,
}

impl SackBlocks {
    /// No blocks.
    pub const EMPTY: Self = Self { blocks: [ByteRange::new(0, 0); MAX_SACK_BLOCKS], delay: 0, hold: 0, count: 0 };

    /// Adds a block after the others; false if all places are taken.
    pub fn push(&mut self, block: ByteRange) -> bool {
        let free = usize::from(self.count) < MAX_SACK_BLOCKS;
        if free {
            self.blocks[usize::from(self.count)] = block;
            self.count += 1;
        }
        free
    }

    /// The blocks.
    pub fn as_slice(&self) -> &[ByteRange] {
        &self.blocks[..usize::from(self.count)]
    }
}
