//! The order of initiations: from one caller at one address, only newer ones are accepted (as in WireGuard, section 5.1
//! of its paper).

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

use pliant_proto::time::Instant;

use super::cookie::LIFETIME;
use super::noise::KEY_BYTES;

/// The caller and its address. Callers that share a key each have their own order.
type Caller = ([u8; KEY_BYTES], SocketAddr);

/// The newest initiation of each caller. An initiation is valid no longer than its cookie, so older ones need not be
/// known. It remembers as many as handshakes can succeed in that time.
#[derive(Default)]
pub(super) struct Initiations {
    newest: BTreeMap<Caller, (u64, Instant)>,
    /// When to check whether one can be forgotten.
    ends: VecDeque<(Instant, Caller)>,
}

impl Initiations {
    /// Whether an initiation of this time, in nanoseconds of the caller's clock, is newer than all before. If so, it is
    /// remembered.
    pub(super) fn take(&mut self, now: Instant, caller: Caller, timestamp: u64) -> bool {
        while let Some((_, caller)) = self.ends.front().filter(|(at, _)| *at < now) {
            if self.newest.get(caller).is_some_and(|(_, until)| *until < now) {
                self.newest.remove(caller);
            }
            self.ends.pop_front();
        }
        if self.newest.get(&caller).is_some_and(|(newest, _)| *newest >= timestamp) {
            return false;
        }
        let until = now.after(LIFETIME);
        self.newest.insert(caller, (timestamp, until));
        self.ends.push_back((until, caller));
        true
    }
}

#[cfg(test)]
mod tests {
    use pliant_proto::time::Span;

    use super::*;

    /// Of each caller only newer ones are taken, and nobody is remembered for longer than a cookie lives.
    #[test]
    fn initiations_are_ordered_by_caller() {
        let mut initiations = Initiations::default();
        let at = |seconds| Instant::ZERO.after(Span::from_secs(seconds));
        let caller = |key, port| ([key; 32], ([192, 0, 2, 1], port).into());
        let mut take = |seconds, caller, timestamp| initiations.take(at(seconds), caller, timestamp);
        assert!(take(0, caller(1, 1), 50));
        assert!(!take(0, caller(1, 1), 50), "the same");
        assert!(!take(1, caller(1, 1), 49), "an older one");
        assert!(take(1, caller(1, 1), 51));
        assert!(take(1, caller(2, 1), 10) && take(1, caller(1, 2), 10), "of others");
        assert!(!take(11, caller(1, 1), 51), "its cookie may live yet");
        for port in 3..1000 {
            assert!(take(12, caller(1, port), 1));
        }
        assert!(take(30, caller(1, 1), 1));
        assert_eq!((initiations.newest.len(), initiations.ends.len()), (1, 1));
    }
}
