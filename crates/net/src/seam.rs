//! Where the tests' simulated world stands between this crate and the operating system.
//!
//! Outside of tests every function here does nothing, or what the system does, and costs nothing. In tests it is the
//! simulated `world` that answers, on the threads that run in one.

/// What is done to a file, named before it is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DiskOperation {
    /// A file is made.
    Create,
    /// So many bytes are written.
    Write(usize),
    /// The content is made to last.
    Sync,
    /// The file gets its name.
    Rename,
    /// The name is made to last.
    SyncFolder,
}

/// A mistake that this crate has made, and that a test puts back to see that a world finds it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mutant {
    /// An error of sending to one destination ends the socket.
    DestinationErrorsAreFatal,
    /// A hello is good with any cookie, and more than once.
    HellosAreUnbound,
    /// Whatever became of a content, its sender hears that it is in its place.
    EverythingIsPlaced,
    /// Content is not synced before it gets its name.
    ContentIsNotSynced,
    /// Names are not synced.
    NamesAreNotSynced,
    /// A flow that may bend takes its hash for bytes that need not arrive.
    HashNeedNotArrive,
    /// Contents are put into their places by the event loop.
    PlacedInTheLoop,
    /// All hosts with a key make the same resets.
    ResetsAreShared,
    /// A name that the peer has chosen takes another file's place.
    FilesAreReplaced,
    /// A new address ends a connection.
    AddressesAreFixed,
    /// Whatever a receiver acknowledges is believed.
    ReceiptsAreBelieved,
    /// A fetch whose last block does not fit on the disk is over.
    LastBlockIsWritten,
    /// Blocks are not held against the hash tree.
    BlocksAreBelieved,
    /// What the first source offers is fetched.
    FirstSourceIsBelieved,
}

#[cfg(not(test))]
mod system {
    use std::io;
    use std::path::Path;
    use std::sync::mpsc::{Receiver, RecvError};
    use std::time::Duration;

    use super::{DiskOperation, Mutant};

    /// Whether the disk does it; in a world it may not. `path` is where the content is to lie in the end.
    #[inline]
    #[expect(clippy::unnecessary_wraps, reason = "only a simulated disk fails here")]
    pub(crate) fn before(_: DiskOperation, _path: &Path) -> io::Result<()> {
        Ok(())
    }

    /// Whether a mistake is made; never outside of tests.
    #[inline]
    pub(crate) const fn is_mutant(_: Mutant) -> bool {
        false
    }

    /// What a new thread is to run.
    #[inline]
    pub(crate) fn task<R>(work: impl FnOnce() -> R) -> impl FnOnce() -> R {
        work
    }

    /// Called before this thread waits for the threads that it has begun.
    #[inline]
    pub(crate) fn before_join() {}

    /// Waits for a message of another thread.
    #[inline]
    pub(crate) fn receive<T>(receiver: &Receiver<T>) -> Result<T, RecvError> {
        receiver.recv()
    }

    /// Sleeps.
    #[inline]
    pub(crate) fn sleep(time: Duration) {
        std::thread::sleep(time);
    }
}

#[cfg(not(test))]
pub(crate) use system::{before, before_join, is_mutant, receive, sleep, task};

#[cfg(test)]
pub(crate) use crate::world::here::{before, before_join, is_mutant, receive, sleep, task};
