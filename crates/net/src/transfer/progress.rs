//! Progress of a transfer, and how often it is reported.

use std::time::Duration;

use pliant_proto::time::Span;

/// Longest sleep of a loop, so that it notices interrupts.
pub(super) const MAX_SLEEP: Duration = Duration::from_millis(50);
/// Time between reports of progress.
pub(super) const PROGRESS_INTERVAL: Span = Span::from_ms(100);

/// Progress of a transfer.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Progress {
    /// Bytes of the content that have been transferred.
    pub done_bytes: u64,
    /// Bytes of the content, if known.
    pub total_bytes: Option<u64>,
    /// All bytes have been transferred. The receiver verifies them and puts them into their place.
    pub placing: bool,
    /// Expected lateness, once the transfer has announced that it will miss its deadline. [`Duration::MAX`] while
    /// nothing moves.
    pub late: Option<Duration>,
}
