//! A client's connection whose class follows from the topics that it names: the door's end.

use std::io;
use std::sync::Mutex;
use std::time::Duration;

use pliant_kafka::{RequestHead, Subject, topics};
use pliant_net::bundle::{BundleNode, BundleStream};
use tokio::io::{
    AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, Interest, ReadHalf, Ready, WriteHalf, copy, sink, split,
};
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedReadHalf;
use tokio::sync::Notify;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::timeout;

use super::open::open_with;
use super::silence::{BrokerPlaces, HeardConnection};
use crate::config::NextHop;
use crate::header::StreamHeader;
use crate::lossy::chunk::invalid;
use crate::mutex::lock;
use crate::relay::{PIECE_BYTES, reset};
use crate::topics::{ConnectionClass, TopicClasses, TopicNumbers};

/// So much of a request is looked at for its topics. What it names behind that says nothing.
const MAX_LOOKED_AT: usize = 64 << 10;
/// So often it is seen whether a client has gone that waits for an answer.
const GOING: Duration = Duration::from_secs(30);
/// How long the broker may take to end a connection from which a client has moved away.
const ENDING: Duration = Duration::from_secs(30);

/// How a connection reaches its broker in another class.
pub(super) struct Moves<'d> {
    pub(super) node: &'d BundleNode,
    pub(super) next_hop: &'d NextHop,
    pub(super) header: &'d StreamHeader,
    pub(super) classes: &'d TopicClasses,
    pub(super) numbers: &'d Mutex<TopicNumbers>,
}

/// What both directions of a connection know.
#[derive(Default)]
struct Both {
    connection: Mutex<HeardConnection>,
    /// A piece of a response has been taken.
    answered: Notify,
}

/// Carries one connection until both sides have ended. What is refused ends it with a reset of both, and is told.
pub(super) async fn carry_by_topic(
    tcp: TcpStream,
    stream: BundleStream,
    moves: Moves<'_>,
    places: impl BrokerPlaces,
    silent: impl Fn(),
) -> Option<String> {
    let _ = tcp.set_nodelay(true);
    let (mut from_client, mut to_client) = tcp.into_split();
    let (from_exit, to_exit) = split(stream);
    let (moved, hear) = channel(1);
    let both = Both::default();
    let requests = carry_requests(&mut from_client, to_exit, &both, &moves, moved, silent);
    let responses = carry_responses(from_exit, &mut to_client, &both, moves.numbers, hear, &places);
    let error = tokio::try_join!(requests, responses).err()?;
    reset(&from_client.reunite(to_client).expect("they are halves of one"));
    (error.kind() == io::ErrorKind::InvalidData).then(|| error.to_string())
}

async fn carry_requests(
    from: &mut OwnedReadHalf,
    mut to: WriteHalf<BundleStream>,
    both: &Both,
    moves: &Moves<'_>,
    moved: Sender<ReadHalf<BundleStream>>,
    silent: impl Fn(),
) -> io::Result<()> {
    let mut class = ConnectionClass::new(moves.classes);
    let (mut request, mut output) = (Vec::new(), Vec::new());
    loop {
        request.clear();
        read_up_to(from, RequestHead::BYTES, &mut request).await?;
        let head = request[..].first_chunk::<{ RequestHead::BYTES }>().and_then(|head| RequestHead::read(head));
        if let Some(RequestHead { size, subject }) = head {
            match subject {
                Subject::Authentication => class.settle(),
                Subject::Topics => {
                    read_up_to(from, size.min(MAX_LOOKED_AT), &mut request).await?;
                    let to_class = class.name(&topics(&request), &lock(moves.numbers));
                    if let Some(to_class) = to_class {
                        all_answered(both, from).await?;
                        to = move_to(to_class, to, moves, &moved).await?;
                    }
                }
                Subject::Other => {}
            }
        }
        // What is no request is the connection's to refuse.
        let mut left = head.map_or(0, |head| head.size.saturating_sub(request.len()));
        if request.is_empty() {
            lock(&both.connection).end_requests(silent)?;
            return to.shutdown().await;
        }
        loop {
            output.clear();
            lock(&both.connection).take_request(&request, &mut output)?;
            to.write_all(&output).await?;
            if left == 0 {
                break;
            }
            request.clear();
            read_up_to(from, left.min(PIECE_BYTES), &mut request).await?;
            if request.is_empty() {
                break;
            }
            left -= request.len();
        }
    }
}

/// Reads until there are so many bytes, or no more come.
async fn read_up_to(from: &mut (impl AsyncRead + Unpin), count: usize, into: &mut Vec<u8>) -> io::Result<()> {
    let missing = count.saturating_sub(into.len());
    from.take(missing as u64).read_to_end(into).await.map(drop)
}

/// Waits until everything was answered: a broker, too, answers a connection's requests one after the other. It may take as long
/// as it likes, unless the client has gone.
async fn all_answered(both: &Both, client: &OwnedReadHalf) -> io::Result<()> {
    while lock(&both.connection).connection.pending() > 0 {
        if timeout(GOING, both.answered.notified()).await.is_err()
            && timeout(Duration::ZERO, client.ready(Interest::READABLE))
                .await
                .is_ok_and(|ready| ready.is_ok_and(Ready::is_read_closed))
        {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
    }
    Ok(())
}

/// Goes on by another connection with the same broker.
async fn move_to(
    class: &str,
    mut from: WriteHalf<BundleStream>,
    moves: &Moves<'_>,
    moved: &Sender<ReadHalf<BundleStream>>,
) -> io::Result<WriteHalf<BundleStream>> {
    let next_hop = NextHop { class: class.to_owned(), ..moves.next_hop.clone() };
    let (stream, _) = open_with(moves.node, &next_hop, moves.header).await.map_err(invalid)?;
    let (read, write) = split(stream);
    // Who reads must not take the end of the old one for the end of all.
    moved.send(read).await.map_err(|_| io::Error::from(io::ErrorKind::ConnectionReset))?;
    from.shutdown().await?;
    Ok(write)
}

async fn carry_responses(
    mut from: ReadHalf<BundleStream>,
    to: &mut (impl AsyncWrite + Unpin),
    both: &Both,
    numbers: &Mutex<TopicNumbers>,
    mut moved: Receiver<ReadHalf<BundleStream>>,
    places: &impl BrokerPlaces,
) -> io::Result<()> {
    let (mut piece, mut output) = (vec![0; PIECE_BYTES], Vec::new());
    loop {
        let count = tokio::select! {
            biased;
            Some(read) = moved.recv() => {
                let mut before = std::mem::replace(&mut from, read);
                // Until the broker has ended it, what was sent to it is on the way.
                tokio::spawn(async move { timeout(ENDING, copy(&mut before, &mut sink())).await });
                continue;
            }
            count = from.read(&mut piece) => count?,
        };
        if count == 0 {
            lock(&both.connection).end_responses()?;
            return to.shutdown().await;
        }
        output.clear();
        let mut learn = |id, name: &str| lock(numbers).learn(id, name);
        lock(&both.connection).take_response(&piece[..count], places, Some(&mut learn), &mut output)?;
        both.answered.notify_one();
        to.write_all(&output).await?;
        output.shrink_to(2 * PIECE_BYTES);
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    /// Who waits for the answer of a broker that is silent, and goes, takes no place any more; who stays waits on.
    #[tokio::test(start_paused = true)]
    async fn who_has_gone_is_not_waited_for() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (tcp, _) = listener.accept().await.unwrap();
        let (from, _to) = tcp.into_split();
        let both = Both::default();
        all_answered(&both, &from).await.unwrap();
        let heartbeat = [0, 0, 0, 10, 0, 12, 0, 0, 0, 0, 0, 9, 0xff, 0xff];
        lock(&both.connection).take_request(&heartbeat, &mut Vec::new()).unwrap();
        timeout(10 * GOING, all_answered(&both, &from)).await.unwrap_err();
        drop(client);
        all_answered(&both, &from).await.unwrap_err();
    }
}
