//! Sources that send almost nothing, unable or unwilling.
//!
//! When nothing else is left to do, the other sources send the part of a block that such a source holds and does not
//! send. So each block takes a little longer because of it. A source that brings less than this costs is excluded as
//! long as there is another.

use pliant_proto::time::{Instant, Span};

/// Length of the observation of a source.
const INTERVAL: Span = Span::from_secs(10);
/// A source that brings less than one in this many symbols is not worth it. It is slower, compared with the others,
/// than any reasonable mix of links.
const LEAST: u64 = 200;
/// Symbols needed for this judgement.
const ENOUGH: u64 = 10 * LEAST;

/// The begin of each source's observation, and the symbols at that time: from it, and from all.
#[derive(Debug, Default)]
pub(super) struct Pace(Vec<Option<(Instant, u64, u64)>>);

/// A source that sends almost nothing: how many of how many symbols.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SlowSource {
    pub(super) source: usize,
    pub(super) came: u64,
    pub(super) of: u64,
}

impl Pace {
    /// The active sources that are not worth it. For each source the number of its symbols is given, `None` if it is
    /// not active, and the number of all symbols.
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
