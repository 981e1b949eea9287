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

#[cfg(not(test))]
mod system {
    use std::io;
    use std::path::Path;
    use std::sync::mpsc::{Receiver, RecvError};
    use std::time::Duration;

    use super::DiskOperation;

    /// Whether the disk does it; in a world it may not. `path` is where the content is to lie in the end.
    #[inline]
    #[expect(clippy::unnecessary_wraps, reason = "only a simulated disk fails here")]
    pub(crate) fn before(_: DiskOperation, _path: &Path) -> io::Result<()> {
        Ok(())
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
pub(crate) use system::{before, before_join, receive, sleep, task};

#[cfg(test)]
pub(crate) use crate::world::here::{before, before_join, receive, sleep, task};
