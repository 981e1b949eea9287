//! Sources that send next to nothing, whether they cannot or do not want to.
//!
//! What a source holds of a block and does not send, the others send in its place once nothing else is left to do; so each block
//! takes a little longer for it. Who brings less than that costs is left out for as long as there is another.

use pliant_proto::time::{Instant, Span};

/// For so long sources are looked at.
const INTERVAL: Span = Span::from_secs(10);
/// A source that brings less than one in so many symbols is not worth it: slower, beside the others, than any mix of links that
/// one would put together.
const LEAST: u64 = 200;
/// Symbols of which that can be told.
const ENOUGH: u64 = 10 * LEAST;

/// What has come from each source since sources are looked at.
#[derive(Debug)]
pub(super) struct Pace {
    since: Instant,
    /// Symbols that had come then from each that was at work, all the time since.
    before: Vec<Option<u64>>,
}

/// A source that sends next to nothing, and how much of how many symbols.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SlowSource {
    pub(super) source: usize,
    pub(super) came: u64,
    pub(super) of: u64,
}

impl Pace {
    pub(super) fn new(now: Instant) -> Self {
        Self { since: now, before: Vec::new() }
    }

    /// Who of those at work is not worth it. Of each source it is said how many symbols have come from it, `None` if it is not at
    /// work.
    pub(super) fn judge(&mut self, now: Instant, came: impl Iterator<Item = Option<u64>>) -> Vec<SlowSource> {
        let came: Vec<Option<u64>> = came.collect();
        self.before.resize(came.len(), None);
        // Who rested or was not there has no interval of its own.
        self.before.iter_mut().zip(&came).for_each(|(before, came)| *before = before.filter(|_| came.is_some()));
        if now.since(self.since) < INTERVAL {
            return Vec::new();
        }
        let since = |source: usize| Some(came[source]? - self.before[source]?);
        let all: u64 = (0..came.len()).filter_map(since).sum();
        let slow = |source: usize| {
            let came = since(source)?;
            (all >= ENOUGH && came.saturating_mul(LEAST) < all).then_some(SlowSource { source, came, of: all })
        };
        let slow = (0..came.len()).filter_map(slow).collect();
        (self.since, self.before) = (now, came);
        slow
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::ZERO.after(Span::from_secs(seconds))
    }

    /// One in 200 symbols is enough, and less is not; who has just come, and who rests, is not judged, nor is anybody while
    /// nothing comes.
    #[test]
    fn who_brings_next_to_nothing_is_found() {
        let mut pace = Pace::new(at(0));
        let mut judge = |seconds, came: [Option<u64>; 3]| pace.judge(at(seconds), came.into_iter());
        assert_eq!(judge(10, [Some(0), Some(0), None]), []);
        assert_eq!(judge(15, [Some(0), Some(0), Some(0)]), []);
        // The third came in the middle.
        assert_eq!(judge(20, [Some(19_900), Some(100), Some(0)]), []);
        let slow = SlowSource { source: 1, came: 99, of: 20_000 };
        let third = SlowSource { source: 2, came: 1, of: 20_000 };
        assert_eq!(judge(30, [Some(39_800), Some(199), Some(1)]), [slow, third]);
        assert_eq!(judge(35, [Some(59_700), None, None]), []);
        assert_eq!(judge(40, [Some(79_600), Some(199), None]), []);
        assert_eq!(judge(50, [Some(79_601), Some(199), None]), []);
    }
}
