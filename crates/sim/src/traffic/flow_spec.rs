//! A flow to start.

use pliant_proto::time::{Instant, Span};

use crate::workload::MAX_SIZE_BYTES;

/// Size of a flow without an end: more than any run carries.
pub const UNLIMITED_BYTES: u64 = MAX_SIZE_BYTES;

/// One flow to start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlowSpec {
    /// When the application starts it.
    pub start: Instant,
    /// Index of the sending host.
    pub source: u32,
    /// Index of the receiving host, never the source.
    pub destination: u32,
    /// Payload bytes, at least 1.
    pub bytes: u64,
    /// Index of its traffic group in the scenario.
    pub group: u16,
    /// Traffic class that a trace asks for in place of the group's own.
    pub class: Option<u8>,
    /// Its number within the group, from 0; in a closed loop that of the loop.
    pub sequence: u64,
    /// In a closed loop: what follows it.
    pub again: Option<Again>,
}

/// How a closed loop goes on: once a flow is over, another like it starts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Again {
    /// So long after the end of the one before it.
    pub pause: Span,
    /// Unless this time has come.
    pub until: Instant,
}

impl FlowSpec {
    /// The flow that follows this one, which is over `now`.
    pub fn next_in_loop(&self, now: Instant) -> Option<Self> {
        let again = self.again?;
        let start = now.after(again.pause);
        (start < again.until).then_some(Self { start, ..*self })
    }
}

/// What a generator yields; the merge adds group and sequence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Arrival {
    pub(super) start: Instant,
    pub(super) source: u32,
    pub(super) destination: u32,
    pub(super) bytes: u64,
    pub(super) class: Option<u8>,
    pub(super) again: Option<Again>,
}

impl Arrival {
    pub(super) fn new(start_ps: u64, (source, destination): (u32, u32), bytes: u64) -> Self {
        Self { start: Instant::from_ps(start_ps), source, destination, bytes, class: None, again: None }
    }
}
