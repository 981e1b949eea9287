//! Sources that recently failed to answer.
//!
//! For the content of a name, more than half of the answering sources must agree, so each absent source is waited for.
//! An image has many blobs, and each would wait again.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::time::Duration;

use pliant_net::transfer::FromSource;
use tokio::time::Instant;

use crate::mutex::lock;

/// How long an absent source has no vote. A fetch calls it all the same.
const ABSENCE: Duration = Duration::from_secs(5);
/// A source that did not answer within this time may only be far away.
const LEAST_WAIT: Duration = Duration::from_millis(500);

/// Until when sources are not asked.
#[derive(Debug, Default)]
pub(super) struct AbsentSources(Mutex<HashMap<SocketAddr, Instant>>);

impl AbsentSources {
    /// Notes the sources that did not answer a fetch of this length.
    pub(super) fn note(&self, now: Instant, elapsed: Duration, sources: &[FromSource]) {
        let mut absent = lock(&self.0);
        for source in sources {
            if source.answered {
                absent.remove(&source.address);
            } else if elapsed >= LEAST_WAIT {
                absent.entry(source.address).or_insert(now + ABSENCE);
            }
        }
    }

    /// The sources to ask: all if none would be left.
    pub(super) fn without(&self, now: Instant, sources: &[SocketAddr]) -> Vec<SocketAddr> {
        let mut absent = lock(&self.0);
        absent.retain(|_, until| *until > now);
        let there: Vec<SocketAddr> = sources.iter().copied().filter(|source| !absent.contains_key(source)).collect();
        if there.is_empty() { sources.to_vec() } else { there }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(port: u16, answered: bool) -> FromSource {
        let address = ([127, 0, 0, 1], port).into();
        FromSource { address, answered, symbols: 0, excess_symbols: 0, marks: 0, lost: None }
    }

    /// Who did not answer is not asked for five seconds, unless it answers, or nobody else is there; a short fetch tells nothing.
    #[test]
    fn who_did_not_answer_is_left_alone_for_a_while() {
        let (absent, now) = (AbsentSources::default(), Instant::now());
        let sources: Vec<SocketAddr> = [1, 2].map(|port| ([127, 0, 0, 1], port).into()).to_vec();
        absent.note(now, Duration::from_millis(100), &[from(1, true), from(2, false)]);
        assert_eq!(absent.without(now, &sources), sources);
        absent.note(now, Duration::from_secs(1), &[from(1, true), from(2, false)]);
        // It is not called a second time to lengthen its absence.
        absent.note(now + Duration::from_secs(4), Duration::from_secs(1), &[from(2, false)]);
        assert_eq!(absent.without(now + Duration::from_secs(4), &sources), sources[..1]);
        assert_eq!(absent.without(now + Duration::from_secs(5), &sources), sources);
        absent.note(now, Duration::from_secs(1), &[from(1, false), from(2, false)]);
        assert_eq!(absent.without(now, &sources), sources);
        absent.note(now, Duration::ZERO, &[from(2, true)]);
        assert_eq!(absent.without(now, &sources), sources[1..]);
    }
}
