//! Waiting for files, and waking who waits.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, poll};

/// Ends the wait of a thread at a socket, from another thread (eventfd(2)).
#[derive(Clone, Debug)]
pub struct PollWaker(Arc<OwnedFd>);

impl PollWaker {
    /// A waker that was not called yet.
    pub fn new() -> io::Result<Self> {
        let fd = rustix::event::eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Self(Arc::new(fd)))
    }

    /// Ends the wait that is, or the next.
    pub fn wake(&self) {
        #[cfg(test)]
        crate::world::here::wake();
        // It fails only after 2^64 calls that nobody has cleared.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    /// What becomes readable when it is called.
    pub(crate) fn file(&self) -> &OwnedFd {
        &self.0
    }

    /// Makes the next wait last.
    pub(crate) fn clear(&self) {
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }
}

/// Waits until one of these is ready, for `at_most` at the longest if there is a bound.
pub(crate) fn wait(files: &mut [PollFd<'_>], at_most: Option<Duration>) -> io::Result<()> {
    let timeout = at_most.map(|at_most| Timespec {
        tv_sec: i64::try_from(at_most.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(at_most.subsec_nanos()),
    });
    match poll(files, timeout.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Waits until there is room to send.
pub(crate) fn wait_writable(socket: BorrowedFd<'_>) -> io::Result<()> {
    wait(&mut [PollFd::from_borrowed_fd(socket, PollFlags::OUT)], None)
}
