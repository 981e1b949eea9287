//! The part of a stream that has arrived and was not taken yet.

/// Bytes of a stream: byte `n` lies at `n` modulo the ring's length. The ring grows once bytes come that lie further ahead.
pub(crate) struct Ring {
    bytes: Box<[u8]>,
    most: usize,
}

impl Ring {
    /// A ring of `length` bytes, above 0, that grows to at most `most`. It doubles, so each length but the last is a multiple of
    /// `length`.
    pub(crate) fn new(length: u64, most: u64) -> Self {
        assert!(length > 0, "a ring holds at least one byte");
        Self { bytes: vec![0; length as usize].into(), most: most.max(length) as usize }
    }

    /// Takes bytes from `offset` on, which is `taken` or later. `taken` bytes were taken out. What lies too far ahead is left out.
    pub(crate) fn write(&mut self, taken: u64, offset: u64, payload: &[u8]) {
        let ahead = offset.saturating_sub(taken).saturating_add(payload.len() as u64);
        if payload.is_empty() || ahead > self.most as u64 {
            return;
        }
        if ahead > self.bytes.len() as u64 {
            self.grow(taken, ahead as usize);
        }
        let at = self.position(offset);
        let until_end = payload.len().min(self.bytes.len() - at);
        self.bytes[at..at + until_end].copy_from_slice(&payload[..until_end]);
        self.bytes[..payload.len() - until_end].copy_from_slice(&payload[until_end..]);
    }

    /// The `length` bytes from `offset` on, which were written, in one or two parts.
    pub(crate) fn parts(&self, offset: u64, length: usize) -> (&[u8], &[u8]) {
        let at = self.position(offset);
        let until_end = length.min(self.bytes.len() - at);
        (&self.bytes[at..at + until_end], &self.bytes[..length - until_end])
    }

    fn position(&self, offset: u64) -> usize {
        (offset % self.bytes.len() as u64) as usize
    }

    #[cold]
    fn grow(&mut self, taken: u64, least: usize) {
        let mut length = self.bytes.len();
        while length < least {
            length = length.saturating_mul(2).min(self.most);
        }
        let old = std::mem::replace(self, Self { bytes: vec![0; length].into(), most: self.most });
        let (first, second) = old.parts(taken, old.bytes.len());
        self.write(taken, taken, first);
        self.write(taken, taken + first.len() as u64, second);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn byte(offset: u64) -> u8 {
        (offset % 251) as u8
    }

    proptest! {
        /// Whatever is written within reach is read as it was written, in any order, before and after the ring grew.
        #[test]
        fn what_is_written_is_read(
            length in 1_u64..20,
            factor in 1_u64..9,
            writes in prop::collection::vec((0_u64..200, 0_usize..30, 0_u64..20), 0..60),
        ) {
            let mut ring = Ring::new(length, factor * length);
            let (mut taken, mut there) = (0, std::collections::BTreeSet::new());
            for (ahead, bytes, take) in writes {
                let (offset, end) = (taken + ahead, taken + ahead + bytes as u64);
                let payload: Vec<u8> = (offset..end).map(byte).collect();
                ring.write(taken, offset, &payload);
                if end - taken <= factor * length {
                    there.extend(offset..end);
                }
                for offset in &there {
                    prop_assert_eq!(ring.parts(*offset, 1).0, [byte(*offset)]);
                }
                taken += take;
                there = there.split_off(&taken);
            }
        }
    }

    /// No memory is taken for bytes that lie too far ahead, and a ring stays as small as what comes allows.
    #[test]
    fn it_is_as_long_as_it_must_be() {
        let mut ring = Ring::new(16, 100);
        for (offset, length) in [(15, 16), (16, 32), (99, 100), (100, 100), (u64::MAX, 100)] {
            ring.write(0, offset, &[7]);
            assert_eq!(ring.bytes.len(), length);
        }
        assert_eq!(ring.parts(15, 2), (&[7, 7][..], &[][..]));
    }
}
