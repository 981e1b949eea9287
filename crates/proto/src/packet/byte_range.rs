//! Ranges of a stream.

/// A half-open range `start..end` of a flow's byte stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, PartialOrd, Ord, Hash)]
pub struct ByteRange {
    /// First byte.
    pub start: u64,
    /// One past the last byte.
    pub end: u64,
}

impl ByteRange {
    /// The range `start..end`.
    #[inline]
    pub const fn new(start: u64, end: u64) -> Self {
        Self { start, end }
    }

    /// Number of bytes.
    #[inline]
    pub const fn len(self) -> u64 {
        self.end.saturating_sub(self.start)
    }

    /// Whether it holds no byte.
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.start >= self.end
    }
}
