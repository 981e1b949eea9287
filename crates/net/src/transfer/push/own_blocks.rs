//! What a receiver already has of a content.

/// A block that sources need not send.
pub enum OwnBlock {
    /// A candidate for it. Its hash decides.
    Candidate(Vec<u8>),
    /// Nothing of it is wanted, so it is skipped.
    NotWanted,
}

/// What a receiver already has of a content.
pub trait OwnBlocks: Send + Sync {
    /// A candidate for a block, if there is one.
    fn block(&self, number: u32) -> Option<OwnBlock>;
}
