//! Real-time priority for the process that runs a testbed.

use std::process::{Command, Stdio};

/// Real-time priorities, of 1 to 99.
pub(crate) const HOST_PRIORITY: &str = "5";
pub(crate) const SWITCH_PRIORITY: &str = "10";

/// While it is there this thread, and those that it starts, have the hosts' priority.
pub(crate) struct RealTime {
    thread: String,
}

impl RealTime {
    /// From now on, until it is dropped.
    pub(crate) fn begin() -> Self {
        let this = Self { thread: rustix::thread::gettid().as_raw_nonzero().to_string() };
        this.change(&["--rr", "-p", HOST_PRIORITY]);
        this
    }

    /// Best effort: where it is not allowed the processes fail at once, and say so.
    fn change(&self, arguments: &[&str]) {
        let _ = Command::new("chrt").args(arguments).arg(&self.thread).stderr(Stdio::null()).status();
    }
}

impl Drop for RealTime {
    fn drop(&mut self) {
        self.change(&["--other", "-p", "0"]);
    }
}
