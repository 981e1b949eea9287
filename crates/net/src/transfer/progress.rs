//! How far a transfer is, and how often it is looked at.

use std::time::Duration;

use pliant_proto::time::Span;

/// How long a loop sleeps at most, so that an interrupt is noticed.
pub(super) const MAX_SLEEP: Duration = Duration::from_millis(50);
/// Between reports of progress.
pub(super) const PROGRESS_INTERVAL: Span = Span::from_ms(100);

/// How far a transfer is.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Progress {
    /// Bytes of the content that are across.
    pub done_bytes: u64,
    /// Bytes of the content, if that is known.
    pub total_bytes: Option<u64>,
    /// All bytes are across; the receiver verifies them and puts them into their place.
    pub placing: bool,
    /// How late it will be done, since it said that it will not be done by its time; [`Duration::MAX`] while nothing moves.
    pub late: Option<Duration>,
}
