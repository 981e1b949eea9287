//! Whether a class's path is congested for a connection's next response.

use std::time::Duration;

use tokio::time::Instant;

use crate::relay::PIECE_BYTES;

/// A path that takes longer than this for a whole response is congested, until it takes one of [`PIECE_BYTES`] in less.
///
/// A response of which records are left out has as much less time as it is shorter. Else the path seemed free because of
/// what was left out, and the next response went whole.
const SLOW: Duration = Duration::from_millis(20);
/// A path on which more of the class's bytes wait than this, in front of a response or when it should have been sent, is
/// congested.
const MAX_WAITING: u64 = 64 << 10;

/// How a class's path stands.
#[derive(Clone, Copy, Default)]
pub(super) struct PathState {
    /// Signs of congestion so far: marks, and packets that were sent again.
    pub(super) signs: u64,
    /// Bytes that are not on their way yet.
    pub(super) waiting: u64,
}

/// What a connection has seen of its path.
pub(super) struct Congestion {
    /// Signs up to the last response.
    signs: u64,
    /// Whether the path took long for the last response.
    slow: bool,
    /// Bytes that were left out of responses since the last was written.
    left_out: usize,
    /// The part of the last response that was not left out, while the path is not known to have taken it.
    watched: Option<f64>,
    /// Whether the path is congested for this response; nothing if it was not looked at.
    known: Option<bool>,
}

impl Congestion {
    pub(super) fn new(signs: u64) -> Self {
        Self { signs, slow: false, left_out: 0, watched: None, known: None }
    }

    /// Whether it is for this response. It is the same for all of its topics.
    pub(super) fn is_congested(&mut self, state: impl FnOnce() -> PathState) -> bool {
        if let Some(known) = self.known {
            return known;
        }
        let PathState { signs, waiting } = state();
        let more = signs > std::mem::replace(&mut self.signs, signs);
        // The client asked for more before it was time to look: it has got the last response.
        if self.watched.take().is_some() {
            self.slow = false;
        }
        *self.known.insert(more || waiting > MAX_WAITING || self.slow)
    }

    /// So many bytes of this response are left out.
    pub(super) fn leave_out(&mut self, bytes: usize) {
        self.left_out += bytes;
    }

    /// A response of so many bytes was written, from `begun` to `now`, if only into buffers. When to look whether the path
    /// has taken it; of few bytes nothing follows.
    pub(super) fn sent(&mut self, bytes: usize, begun: Instant, now: Instant) -> Option<Instant> {
        self.known = None;
        let whole = bytes + std::mem::take(&mut self.left_out);
        let part = bytes as f64 / whole as f64;
        let due = begun + SLOW.mul_f64(part);
        if due < now {
            (self.slow, self.watched) = (true, None);
        } else if whole >= PIECE_BYTES {
            self.watched = Some(part);
            return Some(due);
        }
        None
    }

    /// Records of a response have travelled apart, in so long: so many bytes of all. The path shows signs of congestion, or not.
    pub(super) fn carried(&mut self, took: Duration, sent: u64, whole: u64, signs: bool) {
        (self.known, self.watched) = (None, None);
        let part = sent as f64 / whole.max(1) as f64;
        self.slow = signs || took > SLOW.mul_f64(part.clamp(0.0, 1.0));
    }

    /// It is time to look.
    pub(super) fn look(&mut self, state: impl FnOnce() -> PathState) {
        if let Some(part) = self.watched.take() {
            self.slow = state().waiting as f64 > MAX_WAITING as f64 * part;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: usize = 3_000_000;

    fn waiting(waiting: u64) -> impl FnOnce() -> PathState {
        move || PathState { signs: 0, waiting }
    }

    /// A response to a path of so many bytes per second, behind buffers that take a megabyte at once: whether the next finds
    /// it congested.
    fn respond(congestion: &mut Congestion, bytes: usize, rate: f64, begun: Instant) -> bool {
        congestion.leave_out(WHOLE - bytes);
        let written = bytes.saturating_sub(1_000_000) as f64 / rate;
        if let Some(due) = congestion.sent(bytes, begun, begun + Duration::from_secs_f64(written)) {
            let left = bytes as f64 - (due - begun).as_secs_f64() * rate;
            // A client that has all of it asks for more before.
            if left > 0.0 {
                congestion.look(waiting(left as u64));
            }
        }
        congestion.is_congested(waiting(0))
    }

    /// A slow path stays congested while little is sent of each response, although buffers take that at once; of a fast one
    /// the next response is whole.
    #[test]
    fn what_was_left_out_does_not_make_a_path_free() {
        let begun = Instant::now();
        for part in [1, 2, 4, 20] {
            let mut congestion = Congestion::new(0);
            assert!(!congestion.is_congested(waiting(0)), "nothing is known");
            for bytes in [WHOLE, WHOLE / part, WHOLE / part] {
                assert!(respond(&mut congestion, bytes, 5e6, begun), "a part of {part}");
            }
            assert!(!respond(&mut congestion, WHOLE / part, 500e6, begun), "a part of {part}");
        }
    }

    /// Few bytes say nothing, unless they wait themselves.
    #[test]
    fn little_says_nothing() {
        let begun = Instant::now();
        let mut congestion = Congestion::new(0);
        assert!(respond(&mut congestion, WHOLE, 5e6, begun));
        assert_eq!(congestion.sent(1000, begun, begun), None);
        assert!(congestion.is_congested(waiting(0)));
        let mut congestion = Congestion::new(0);
        assert_eq!(congestion.sent(1000, begun, begun + 2 * SLOW), None);
        assert!(congestion.is_congested(waiting(0)));
    }

    /// Marks, packets sent again and what waits count for one response each.
    #[test]
    fn signs_count_once() {
        let begun = Instant::now();
        let mut congestion = Congestion::new(7);
        for (signs, waiting, is) in
            [(7, 0, false), (8, 0, true), (8, 0, false), (8, MAX_WAITING + 1, true), (8, 0, false)]
        {
            assert_eq!(congestion.is_congested(|| PathState { signs, waiting }), is, "{signs} {waiting}");
            assert_eq!(
                congestion.is_congested(|| PathState { signs: signs + 1, waiting: 0 }),
                is,
                "once for a response"
            );
            congestion.sent(1000, begun, begun);
        }
    }
}
