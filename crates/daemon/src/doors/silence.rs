//! How long a broker says nothing while requests wait for it.

use std::time::Duration;

use pliant_kafka::Connection;
use tokio::time::Instant;

/// A consumer that ends may leave a Fetch behind, which a broker holds back for half a second, or for as long as it was asked.
const PATIENCE: Duration = Duration::from_secs(5);

/// What was heard of a broker in a connection.
#[derive(Default)]
pub(super) struct Silence {
    /// Since when requests wait without a byte of a response.
    since: Option<Instant>,
    heard: bool,
}

impl Silence {
    /// The client has sent something.
    pub(super) fn asked(&mut self, connection: &Connection, now: Instant) {
        if connection.pending() > 0 {
            self.since.get_or_insert(now);
        }
    }

    /// The broker has sent something.
    pub(super) fn answered(&mut self, connection: &Connection, now: Instant) {
        self.heard = true;
        self.since = (connection.pending() > 0).then_some(now);
    }

    /// Whether a client that ends now does so because the broker is silent.
    pub(super) fn is_reason(&self, now: Instant) -> bool {
        self.since.is_some_and(|since| !self.heard || now.duration_since(since) >= PATIENCE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One that has never answered is the reason at once; one that has, after a while.
    #[test]
    fn a_broker_that_does_not_answer_is_the_reason() {
        let (mut connection, mut silence, now) = (Connection::default(), Silence::default(), Instant::now());
        assert!(!silence.is_reason(now));
        let (mut head, mut output) = (10i32.to_be_bytes().to_vec(), Vec::new());
        head.extend([0, 12, 0, 0, 0, 0, 0, 99, 0xff, 0xff]);
        connection.take_request(&head, &mut output).unwrap();
        silence.asked(&connection, now);
        assert!(silence.is_reason(now));
        connection.take_response(&[0, 0, 0, 4, 0, 0, 0, 99], |_| unreachable!(), &mut output).unwrap();
        silence.answered(&connection, now);
        assert!(!silence.is_reason(now + PATIENCE));
        connection.take_request(&head, &mut output).unwrap();
        silence.asked(&connection, now);
        assert!(!silence.is_reason(now) && silence.is_reason(now + PATIENCE));
    }
}
