//! The exit's end of a Kafka door that bears loss: records are left out of what brokers give to consumers.
//!
//! A class carries streams of bytes, all of which arrive. So either the sender decides, and what may be missing is left out
//! before it is sent, while the path is congested; or records travel apart from the stream, in messages, and the path
//! decides.

mod apart;
mod both;
mod carrying;
pub(crate) mod chunk;
mod congestion;
mod exit;
pub(crate) mod journal;
pub(crate) mod rules;
mod thinner;

use std::io;
use std::sync::Mutex;

use pliant_kafka::LossyConnection;
use pliant_net::bundle::{BundleStream, ExpectedMessages, reset_code};
use tokio::io::{AsyncRead, AsyncWrite, split};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

use self::apart::carry_apart;
use self::both::{SharedBoth, note_written, take_response, turn};
pub(crate) use self::exit::{LossyExit, Path};
use self::rules::TopicRules;
use self::thinner::ConnectionThinner;
use crate::mutex::lock;
use crate::relay::{Watch, carry_frames, reset};

/// What a connection's thinner hears of its path.
struct PathWatch<'b, 's> {
    both: SharedBoth<'b, 's>,
    unpacking: &'b Semaphore,
}

impl Watch for PathWatch<'_, '_> {
    async fn turn(&mut self, bytes: usize) -> Option<SemaphorePermit<'_>> {
        turn(self.both, bytes, self.unpacking).await
    }

    fn sent(&mut self, bytes: usize, begun: Instant) -> Option<Instant> {
        note_written(self.both);
        lock(self.both).1.congestion.sent(bytes, begun, Instant::now())
    }

    fn look(&mut self) {
        lock(self.both).1.look();
    }
}

/// Carries one connection until both sides have ended. What is refused ends it with a reset of both, and is told. Where
/// receivers of messages are expected, records may travel apart.
pub(crate) async fn carry(
    tcp: TcpStream,
    stream: BundleStream,
    path: &Path<'_>,
    rules: &TopicRules,
    exit: &LossyExit,
    expected: Option<&ExpectedMessages>,
) {
    let _ = tcp.set_nodelay(true);
    let thinner = ConnectionThinner::new(exit, rules, path, expected);
    let both = Mutex::new((LossyConnection::default(), thinner));
    let (mut from_broker, mut to_broker) = tcp.into_split();
    let (mut from_client, mut to_client) = split(stream);
    let broker = (&mut from_broker, &mut to_broker);
    let client = (&mut from_client, &mut to_client);
    let ended = match expected {
        Some(_) => carry_apart(broker, client, &both, exit, path.unpacking).await,
        None => carry_in_stream(broker, client, &both, path.unpacking).await,
    };
    let Err(error) = ended else { return };
    reset(&from_broker.reunite(to_broker).expect("they are halves of one"));
    from_client.unsplit(to_client).reset(reset_code::ABORTED);
    if error.kind() == io::ErrorKind::InvalidData {
        exit.tell(error.to_string());
    }
}

/// Carries one connection, of which these are the halves, until both sides have ended: records are left out, or go in the stream.
async fn carry_in_stream(
    (from_broker, to_broker): (&mut (impl AsyncRead + Unpin), &mut (impl AsyncWrite + Unpin)),
    (from_client, to_client): (&mut (impl AsyncRead + Unpin), &mut (impl AsyncWrite + Unpin)),
    both: SharedBoth<'_, '_>,
    unpacking: &Semaphore,
) -> io::Result<()> {
    let take_request = |piece: &[u8], output: &mut Vec<u8>| {
        let (connection, thinner) = &mut *lock(both);
        if piece.is_empty() { connection.end_requests() } else { connection.take_request(piece, thinner, output) }
    };
    let take_response = |piece: &[u8], output: &mut Vec<u8>| take_response(both, piece, output);
    let requests = carry_frames(from_client, to_broker, take_request, ());
    let responses = carry_frames(from_broker, to_client, take_response, PathWatch { both, unpacking });
    tokio::try_join!(requests, responses).map(|_| ())
}
