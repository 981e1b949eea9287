//! Requests for pages of the hash tree: to which source, and when again.

use std::collections::BTreeMap;

use pliant_proto::time::{Instant, Span};

use super::hash_tree::PageNumber;

/// First time to wait for an answer. It doubles each time, up to the longest.
const RETRY: Span = Span::from_ms(200);
const RETRY_MAX: Span = Span::from_secs(2);
/// A source counts as silent after this many requests without an answer.
const SILENT_ASKS: u32 = 8;

/// Requests without an answer.
#[derive(Debug)]
pub(super) struct Inquiry {
    patience: Span,
    /// When a page is requested again, and how often it was requested.
    asked: BTreeMap<PageNumber, (Instant, u32)>,
    /// Since when a source has not answered, and how often it was asked since.
    unanswered: BTreeMap<usize, (Instant, u32)>,
}

impl Inquiry {
    /// A source counts as silent if it has not answered for this long.
    pub(super) fn new(patience: Span) -> Self {
        Self { patience, asked: BTreeMap::new(), unanswered: BTreeMap::new() }
    }

    /// The requests for `wanted` pages that are due: each page to one source, and to the next when it is lost.
    pub(super) fn asks(&mut self, now: Instant, wanted: &[PageNumber], sources: &[usize]) -> Vec<(usize, PageNumber)> {
        self.asked.retain(|page, _| wanted.contains(page));
        let mut asks = Vec::new();
        for page in wanted {
            let (again_at, asked) = self.asked.get(page).copied().unwrap_or((now, 0));
            if again_at > now || sources.is_empty() {
                continue;
            }
            // Neighbours go to different sources.
            let source = sources[(page.index as usize).wrapping_add(asked as usize) % sources.len()];
            let wait = RETRY.times(1 << asked.min(8)).min(RETRY_MAX);
            self.asked.insert(*page, (now.after(wait), asked + 1));
            self.unanswered.entry(source).or_insert((now, 0)).1 += 1;
            asks.push((source, *page));
        }
        asks
    }

    /// A source answers.
    pub(super) fn note_answer(&mut self, source: usize) {
        self.unanswered.remove(&source);
    }

    /// A source is not asked any more.
    pub(super) fn forget(&mut self, source: usize) {
        self.unanswered.remove(&source);
    }

    /// Sources that were asked often and long enough, and have not answered.
    pub(super) fn silent(&self, now: Instant) -> Vec<usize> {
        let is_silent = |(since, asks): &(Instant, u32)| *asks >= SILENT_ASKS && now.since(*since) >= self.patience;
        self.unanswered.iter().filter(|(_, unanswered)| is_silent(unanswered)).map(|(source, _)| *source).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::ZERO.after(Span::from_ms(ms))
    }

    /// A page is asked of one source at a time, of the next when no answer came, with growing gaps; who never answers is
    /// found, who answers in between is not.
    #[test]
    fn sources_are_asked_in_turn() {
        let pages = [PageNumber { level: 0, index: 0 }, PageNumber { level: 0, index: 1 }];
        let mut inquiry = Inquiry::new(Span::from_secs(5));
        assert_eq!(inquiry.asks(at(0), &pages, &[4, 7]), [(4, pages[0]), (7, pages[1])]);
        assert_eq!(inquiry.asks(at(199), &pages, &[4, 7]), []);
        inquiry.note_answer(7);
        let mut asked = Vec::new();
        for ms in (200..40_000).step_by(10) {
            let asks = inquiry.asks(at(ms), &pages[..1], &[4, 7]);
            asked.extend(asks.iter().map(|(source, _)| (ms, *source)));
            if asks.iter().any(|(source, _)| *source == 7) {
                inquiry.note_answer(7);
            }
            if !inquiry.silent(at(ms)).is_empty() {
                break;
            }
        }
        assert_eq!(asked[..5], [(200, 7), (600, 4), (1400, 7), (3000, 4), (5000, 7)]);
        assert_eq!((inquiry.silent(at(50_000)), inquiry.silent(at(4000))), (vec![4], Vec::new()));
        inquiry.forget(4);
        assert_eq!(inquiry.silent(at(90_000)), [0usize; 0]);
        assert_eq!(inquiry.asks(at(90_000), &pages, &[]), []);
    }
}
