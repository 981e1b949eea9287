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

/// Since when each source is looked at, and what had come then: from it, and from all.
#[derive(Debug, Default)]
pub(super) struct Pace(Vec<Option<(Instant, u64, u64)>>);

/// A source that sends next to nothing, and how much of how many symbols.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SlowSource {
    pub(super) source: usize,
    pub(super) came: u64,
    pub(super) of: u64,
}

impl Pace {
    /// Who of those at work is not worth it. Of each source it is said how many symbols have come from it, `None` if it is not at
    /// work, and of all together how many.
    pub(super) fn judge(
        &mut self,
        now: Instant,
        came: impl ExactSizeIterator<Item = Option<u64>>,
        all: u64,
    ) -> Vec<SlowSource> {
        self.0.resize(came.len(), None);
        let mut slow = Vec::new();
        for (source, (since, came)) in self.0.iter_mut().zip(came).enumerate() {
            // Who rested or was not there has no interval of its own.
            let Some(came) = came else {
                *since = None;
                continue;
            };
            let (began, before, all_before) = *since.get_or_insert((now, came, all));
            if now.since(began) < INTERVAL {
                continue;
            }
            let (its, of) = (came - before, all - all_before);
            if of >= ENOUGH && its.saturating_mul(LEAST) < of {
                slow.push(SlowSource { source, came: its, of });
            }
            *since = Some((now, came, all));
        }
        slow
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One in 200 symbols is enough, and less is not; who has just come, and who rests, is not judged, nor is anybody while
    /// next to nothing comes from anybody.
    #[test]
    fn who_brings_next_to_nothing_is_found() {
        let mut pace = Pace::default();
        let mut judge = |seconds, came: [Option<u64>; 2], all| {
            pace.judge(Instant::ZERO.after(Span::from_secs(seconds)), came.into_iter(), all)
        };
        let slow = |source, came, of| SlowSource { source, came, of };
        assert_eq!(judge(0, [Some(0), None], 0), []);
        assert_eq!(judge(5, [Some(50), Some(0)], 10_000), []);
        assert_eq!(judge(10, [Some(100), Some(0)], 20_000), []);
        assert_eq!(judge(15, [Some(100), Some(49)], 20_000), [slow(1, 49, 10_000)]);
        assert_eq!(judge(20, [Some(199), None], 40_000), [slow(0, 99, 20_000)]);
        assert_eq!(judge(25, [None, Some(49)], 60_000), []);
        assert_eq!(judge(30, [Some(199), Some(49)], 80_000), []);
        assert_eq!(judge(40, [Some(199), Some(49)], 81_999), [slow(1, 0, 21_999)]);
    }
}
