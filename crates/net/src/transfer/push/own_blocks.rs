//! What a receiver has already of what it fetches.

/// A block that is not of those that sources are to send.
pub enum OwnBlock {
    /// What may be it: its hash decides.
    Candidate(Vec<u8>),
    /// Nothing of it is wanted: it is passed over.
    NotWanted,
}

/// What a receiver has already of what it fetches.
pub trait OwnBlocks: Send + Sync {
    /// What may be a block, if something may.
    fn block(&self, number: u32) -> Option<OwnBlock>;
}
