//! By when what a flow sends must be across, and how late it will be.

use std::time::Duration;

use pliant_proto::time::{Instant, Span};
use pliant_proto::transport::Command;

/// Lateness of what is expected to be across at `expected`.
pub(crate) fn lateness(expected: Instant, until: Instant) -> Duration {
    if expected == Instant::MAX { Duration::MAX } else { Duration::from_nanos(expected.since(until).as_ps() / 1000) }
}

/// The deadline that was set last of a flow whose size is not known.
#[derive(Debug, Default)]
pub(crate) struct SendDeadline {
    /// The transport is to be told of this; [`Span::MAX`] removes it.
    wanted: Option<Span>,
    until: Option<Instant>,
    late: Option<Duration>,
}

impl SendDeadline {
    /// Sets it to `span` from now, or removes it.
    pub(crate) fn set(&mut self, span: Option<Span>) {
        (self.wanted, self.until, self.late) = (Some(span.unwrap_or(Span::MAX)), None, None);
    }

    /// What the transport is to be told, at `now`, after the size.
    pub(crate) fn take_command<A>(&mut self, now: Instant) -> Option<Command<A>> {
        let span = self.wanted.take()?;
        self.until = (span < Span::MAX).then(|| now.after(span));
        Some(Command::SetDoneBy(span))
    }

    /// The transport says that all will be across at `expected` only.
    pub(crate) fn note_late(&mut self, expected: Instant) {
        self.late = self.until.map(|until| lateness(expected, until));
    }

    /// How late it will be, once that was said.
    pub(crate) fn late(&self) -> Option<Duration> {
        self.late
    }
}
