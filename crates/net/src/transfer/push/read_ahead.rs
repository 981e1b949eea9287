//! Source symbols of a block, read many at a time. A receiver's symbols mostly follow each other, upwards or, of those that others
//! may send too, downwards. A call of the kernel for each would cost as much as sending it.

use std::io;
use std::ops::Range;

/// Bytes that are read at once, of which each connection of a source keeps as many.
const AHEAD_BYTES: usize = 64 << 10;
/// Symbols that may be left out and count as following: those of other sources.
const GAP: u64 = 8;

/// What was read of one block, and not only asked for.
#[derive(Default)]
pub(super) struct ReadAhead {
    block: u32,
    /// Where in the block it begins.
    start: u64,
    bytes: Vec<u8>,
    there: usize,
    /// Where the last symbol that was asked for lay.
    last: Range<u64>,
}

impl ReadAhead {
    /// Fills `into` from this place of a block of `block_bytes`. `read` reads from a place on.
    pub(super) fn read(
        &mut self,
        (block, offset): (u32, u64),
        block_bytes: u64,
        into: &mut [u8],
        mut read: impl FnMut(u64, &mut [u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        let length = into.len() as u64;
        let end = offset + length;
        let (same, near) = (block == self.block, GAP * length);
        let goes_up = same && (self.last.end..=self.last.end + near).contains(&offset);
        let goes_down = same && (end..=end + near).contains(&self.last.start);
        let is_here = same && self.start <= offset && end <= self.start + self.there as u64;
        self.last = offset..end;
        if !is_here {
            (self.block, self.there) = (block, 0);
            let whole = AHEAD_BYTES - AHEAD_BYTES % into.len().max(1);
            let there = if goes_down { end } else { block_bytes.saturating_sub(offset) };
            let most = there.min(whole as u64);
            if !(goes_up || goes_down) || most <= length {
                return read(offset, into);
            }
            self.start = if goes_down { end - most } else { offset };
            if self.bytes.len() < whole {
                self.bytes.resize(whole, 0);
            }
            read(self.start, &mut self.bytes[..most as usize])?;
            self.there = most as usize;
        }
        let at = (offset - self.start) as usize;
        into.copy_from_slice(&self.bytes[at..at + into.len()]);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SYMBOL: u64 = 1000;

    /// How many bytes each call reads, for these symbols of a block of 2 MB.
    fn calls(symbols: impl Iterator<Item = u64>) -> Vec<usize> {
        let (mut ahead, mut calls) = (ReadAhead::default(), Vec::new());
        for symbol in symbols {
            let read = |_, into: &mut [u8]| {
                calls.push(into.len());
                Ok(())
            };
            ahead.read((7, symbol * SYMBOL), 2_000_000, &mut [0; SYMBOL as usize], read).unwrap();
        }
        calls
    }

    /// Symbols in order take one call for 65 of them, upwards and downwards, also where each second or third is another source's;
    /// the ends of the block are not passed; scattered ones are read by themselves.
    #[test]
    fn symbols_in_order_take_few_calls() {
        let in_order = calls(0..2000);
        assert!(in_order.len() <= 2 + 2000 / 65, "{} calls", in_order.len());
        assert_eq!(in_order.iter().sum::<usize>(), 2_000_000, "each byte once");
        assert!(calls((0..2000).filter(|symbol| symbol % 3 > 0)).len() <= 2 + 2000 / 64);
        let downwards = calls((0..2000).rev().filter(|symbol| symbol % 2 > 0));
        assert!(downwards.len() <= 2 + 2000 / 64, "{} calls", downwards.len());
        assert_eq!(calls([1990, 5, 900, 300].into_iter()), [1000; 4]);
    }

    proptest! {
        /// Whatever is asked for comes, of whichever block; a read that fails leaves nothing false behind.
        #[test]
        fn what_is_read_is_right(asks in prop::collection::vec((0u32..2, 0u64..300, prop::bool::weighted(0.1)), 1..80)) {
            let byte = |block: u32, at: u64| (at as u32).wrapping_mul(2_654_435_761).wrapping_add(block) as u8;
            let mut ahead = ReadAhead::default();
            let mut next = 0;
            for (block, symbol, fails) in asks {
                let symbol = if symbol < 200 { next } else { symbol - 200 };
                next = if symbol % 3 == 0 { symbol.saturating_sub(2) } else { (symbol + 1) % 300 };
                let mut into = [0; SYMBOL as usize];
                let read = |offset: u64, into: &mut [u8]| {
                    if fails {
                        return Err(io::ErrorKind::Other.into());
                    }
                    into.iter_mut().zip(offset..).for_each(|(into, at)| *into = byte(block, at));
                    Ok(())
                };
                let done = ahead.read((block, symbol * SYMBOL), 300 * SYMBOL, &mut into, read);
                let right = into.iter().zip(symbol * SYMBOL..).all(|(came, at)| *came == byte(block, at));
                prop_assert!(right || done.is_err() && fails);
            }
        }
    }
}
