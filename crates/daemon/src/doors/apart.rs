//! A client's connection whose records travel apart from the stream: the door's end.

use std::collections::BTreeMap;
use std::io;
use std::sync::Mutex;

use pliant_kafka::apart::{Carried, Report};
use pliant_net::bundle::{BundleNode, BundleStream, IncomingMessages, MessageToken};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, split};
use tokio::net::TcpStream;
use tokio::task::block_in_place;

use super::silence::{BrokerPlaces, HeardConnection};
use crate::config::NextHop;
use crate::lossy::chunk::{ChunkKind, invalid, read_chunk, write_chunk};
use crate::mutex::lock;
use crate::relay::{PIECE_BYTES, reset};

/// Flows that wait for responses: one is used while the next is called for.
const WAITING: usize = 2;

/// Flows of messages that were called for, and wait to be used.
pub(super) struct MessageCalls<'n> {
    node: &'n BundleNode,
    next_hop: &'n NextHop,
    token: MessageToken,
    next: u32,
    waiting: BTreeMap<u32, IncomingMessages>,
}

impl<'n> MessageCalls<'n> {
    pub(super) fn new(node: &'n BundleNode, next_hop: &'n NextHop, token: MessageToken) -> Self {
        Self { node, next_hop, token, next: 0, waiting: BTreeMap::new() }
    }

    /// Calls for as many as are to wait.
    fn refill(&mut self) {
        self.waiting.retain(|_, flow| !flow.is_closed());
        while self.waiting.len() < WAITING {
            let NextHop { peer, class, .. } = self.next_hop;
            let Ok(flow) = self.node.call_for_messages(*peer, class, self.token, self.next) else { return };
            self.waiting.insert(self.next, flow);
            self.next = self.next.wrapping_add(1);
        }
    }

    /// The flow that the exit uses now; nothing if it has ended before it was used.
    fn take(&mut self, number: u32) -> Option<IncomingMessages> {
        // The exit uses them in order: what it has passed over it does not have.
        self.waiting = self.waiting.split_off(&number);
        self.waiting.remove(&number)
    }
}

/// Carries one connection until both sides have ended. What is refused ends it with a reset of both, and is told.
pub(super) async fn carry_apart(
    tcp: TcpStream,
    stream: BundleStream,
    flows: MessageCalls<'_>,
    places: impl BrokerPlaces,
    silent: impl Fn(),
) -> Option<String> {
    let _ = tcp.set_nodelay(true);
    let (mut from_client, mut to_client) = tcp.into_split();
    let (mut from_exit, to_exit) = split(stream);
    let to_exit = tokio::sync::Mutex::new(to_exit);
    let (connection, flows) = (Mutex::default(), Mutex::new(flows));
    let requests = carry_requests(&mut from_client, &to_exit, &connection, &flows, silent);
    let responses = carry_responses(&mut from_exit, &mut to_client, &to_exit, &connection, &flows, &places);
    let error = match tokio::try_join!(requests, responses) {
        Ok(_) => to_exit.lock().await.shutdown().await.err()?,
        Err(error) => error,
    };
    reset(&from_client.reunite(to_client).expect("they are halves of one"));
    (error.kind() == io::ErrorKind::InvalidData).then(|| error.to_string())
}

async fn carry_requests(
    from: &mut (impl AsyncRead + Unpin),
    to: &tokio::sync::Mutex<impl AsyncWrite + Unpin>,
    connection: &Mutex<HeardConnection>,
    flows: &Mutex<MessageCalls<'_>>,
    silent: impl Fn(),
) -> io::Result<()> {
    let (mut piece, mut output) = (vec![0; PIECE_BYTES], Vec::new());
    loop {
        let count = from.read(&mut piece).await?;
        if count == 0 {
            lock(connection).end_requests(silent)?;
            return write_chunk(&mut *to.lock().await, ChunkKind::End, &[]).await;
        }
        output.clear();
        let fetches = {
            let mut heard = lock(connection);
            heard.take_request(&piece[..count], &mut output)?;
            heard.connection.fetches()
        };
        // Before the exit has something to send they are to stand.
        if fetches {
            lock(flows).refill();
        }
        write_chunk(&mut *to.lock().await, ChunkKind::Bytes, &output).await?;
    }
}

async fn carry_responses(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    to_exit: &tokio::sync::Mutex<impl AsyncWrite + Unpin>,
    connection: &Mutex<HeardConnection>,
    flows: &Mutex<MessageCalls<'_>>,
    places: &impl BrokerPlaces,
) -> io::Result<()> {
    let (mut content, mut whole, mut output) = (Vec::new(), Vec::new(), Vec::new());
    while let Some(kind) = read_chunk(from, &mut content).await? {
        let bytes = match kind {
            ChunkKind::Bytes => &content,
            ChunkKind::Response => {
                let mut carried = Carried::parse(&content).map_err(invalid)?;
                let flow = lock(flows).take(carried.flow());
                lock(flows).refill();
                let report = gather(&mut carried, flow.as_ref()).await?;
                drop(flow);
                write_chunk(&mut *to_exit.lock().await, ChunkKind::Report, &report.encode()).await?;
                if !report.again.is_empty() {
                    if read_chunk(from, &mut content).await? != Some(ChunkKind::Again) {
                        return Err(invalid("the exit does not send what it was asked for"));
                    }
                    carried.take_again(&content).map_err(invalid)?;
                    if carried.report() != (Report { lost: report.lost, again: Vec::new() }) {
                        return Err(invalid("the exit sends something else than what it was asked for"));
                    }
                }
                whole.clear();
                // Other connections do not wait until all is packed again.
                block_in_place(|| carried.write(&mut whole)).map_err(invalid)?;
                &whole
            }
            ChunkKind::End => {
                lock(connection).end_responses()?;
                to.shutdown().await?;
                continue;
            }
            ChunkKind::Again | ChunkKind::Report => return Err(invalid("the exit sends what nobody asked for")),
        };
        output.clear();
        lock(connection).take_response(bytes, places, None, &mut output)?;
        to.write_all(&output).await?;
        output.shrink_to(2 * PIECE_BYTES);
    }
    Ok(())
}

/// Takes the messages of a response as they come, until all are here or no more will come. What its flow does not bring any
/// more is lost as far as it may be; the exit gives the rest.
async fn gather(carried: &mut Carried, flow: Option<&IncomingMessages>) -> io::Result<Report> {
    while let Some(flow) = flow.filter(|_| !carried.is_whole()) {
        let Ok(Some((_, message))) = flow.recv().await else { break };
        carried.take(&message).map_err(invalid)?;
    }
    Ok(carried.report())
}
