//! A client's connection, and how long its broker says nothing while requests wait for it.

use std::io;
use std::time::Duration;

use pliant_kafka::{Advertised, Connection, LearnTopic, Local};
use tokio::time::Instant;

use crate::lossy::chunk::invalid;

/// A consumer that ends may leave a Fetch behind, which a broker holds back for half a second, or for as long as it was asked.
const PATIENCE: Duration = Duration::from_secs(5);

/// Where a client finds brokers.
pub(super) trait BrokerPlaces {
    /// The place of a broker, or why there is none.
    fn place(&self, broker: &Advertised) -> Result<Local, String>;

    /// All that came has its places. Tells of brokers that are refused.
    fn tell_refused(&self);
}

/// A client's connection whose broker is listened to.
#[derive(Default)]
pub(super) struct HeardConnection {
    pub(super) connection: Connection,
    silence: Silence,
}

impl HeardConnection {
    /// Takes bytes of the client, and appends to `output` what the broker is to get.
    pub(super) fn take_request(&mut self, bytes: &[u8], output: &mut Vec<u8>) -> io::Result<()> {
        self.connection.take_request(bytes, output).map_err(invalid)?;
        self.silence.asked(&self.connection, Instant::now());
        Ok(())
    }

    /// Takes bytes of the broker, and appends to `output` what the client is to get.
    pub(super) fn take_response(
        &mut self,
        bytes: &[u8],
        places: &impl BrokerPlaces,
        learn: Option<&mut LearnTopic<'_>>,
        output: &mut Vec<u8>,
    ) -> io::Result<()> {
        let place = |broker: &Advertised| places.place(broker);
        let taken = self.connection.take_response_with(bytes, place, learn, output);
        places.tell_refused();
        self.silence.answered(&self.connection, Instant::now());
        taken.map_err(invalid)
    }

    /// So many bytes of the broker have gone to the client as they are.
    pub(super) fn pass(&mut self, count: usize) {
        self.connection.pass(count);
        self.silence.answered(&self.connection, Instant::now());
    }

    /// The client has ended. `silent` hears if it has done so because the broker is silent.
    pub(super) fn end_requests(&self, silent: impl Fn()) -> io::Result<()> {
        if self.silence.is_reason(Instant::now()) {
            silent();
        }
        self.connection.end_requests().map_err(invalid)
    }

    /// The broker has ended.
    pub(super) fn end_responses(&mut self) -> io::Result<()> {
        self.silence.answered(&self.connection, Instant::now());
        self.connection.end_responses().map_err(invalid)
    }
}

/// What was heard of a broker in a connection.
#[derive(Default)]
struct Silence {
    /// Since when requests wait without a byte of a response.
    since: Option<Instant>,
    heard: bool,
}

impl Silence {
    /// The client has sent something.
    fn asked(&mut self, connection: &Connection, now: Instant) {
        if connection.pending() > 0 {
            self.since.get_or_insert(now);
        }
    }

    /// The broker has sent something.
    fn answered(&mut self, connection: &Connection, now: Instant) {
        self.heard = true;
        self.since = (connection.pending() > 0).then_some(now);
    }

    /// Whether a client that ends now does so because the broker is silent.
    fn is_reason(&self, now: Instant) -> bool {
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
