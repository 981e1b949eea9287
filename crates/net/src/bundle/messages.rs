//! Flows of messages beside the streams of a class, for what need not all arrive (ATP).
//!
//! A program that expects messages' receivers draws a token and tells it to its peer through a stream. The peer calls with
//! it, as often as it wants, so that a connection stands before there is something to send; each carries one flow, from the
//! side that was called to the side that calls.

use std::collections::{BTreeMap, HashMap};
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use pliant_proto::transport::Statistics;
use pliant_proto::transport::atp::LossBound;

use super::shared::SharedBundles;
use crate::api::buffers::{SharedConnection, Status};
use crate::connection::Closed;

/// Who may call for messages knows it.
pub type MessageToken = [u8; 16];

/// Most flows of a token that wait to be used.
const MAX_WAITING: usize = 8;
/// Bytes of messages of a flow.
const MAX_BYTES: u64 = 1 << 28;
/// How the content of an opening begins; the token, the flow's number and the name of a class follow.
const MESSAGES: &[u8] = b"messages ";

/// What a caller that wants messages says.
pub(super) struct MessageCall {
    pub(super) token: MessageToken,
    pub(super) number: u32,
    pub(super) class: String,
}

impl MessageCall {
    pub(super) fn content(&self) -> Vec<u8> {
        [MESSAGES, &self.token, &self.number.to_be_bytes(), self.class.as_bytes()].concat()
    }

    /// From the content of an opening.
    pub(super) fn read(content: &[u8]) -> Option<Self> {
        let (token, rest) = content.strip_prefix(MESSAGES)?.split_first_chunk()?;
        let (number, class) = rest.split_first_chunk()?;
        let class = str::from_utf8(class).ok()?.to_owned();
        Some(Self { token: *token, number: u32::from_be_bytes(*number), class })
    }
}

/// How messages are to be sent.
#[derive(Clone, Copy, Debug)]
pub struct SendMessages {
    /// How many may be missing.
    pub max_loss: LossBound,
    /// Each is sent once, however many have arrived: what is missing the network has lost. Else the flow ends when enough
    /// has arrived, and those that were handed over last are missing first.
    pub all: bool,
}

/// A flow of messages.
pub(super) struct MessageFlow {
    pub(super) call: MessageCall,
    pub(super) connection: Arc<SharedConnection>,
    /// What the node's thread is to begin.
    pub(super) begin: Mutex<Option<SendMessages>>,
}

impl MessageFlow {
    fn new(call: MessageCall, peer: SocketAddr, receive_buffer: u64) -> Arc<Self> {
        let connection = Arc::new(SharedConnection::new(peer, receive_buffer, true));
        Arc::new(Self { call, connection, begin: Mutex::default() })
    }
}

/// A node's flows of messages.
#[derive(Default)]
pub(super) struct MessageFlows {
    /// By token: the class, and the flows that wait, by number.
    expected: HashMap<MessageToken, (String, BTreeMap<u32, Arc<MessageFlow>>)>,
    /// Those that the node's thread has to look at.
    queue: Vec<Arc<MessageFlow>>,
    /// Why that thread looks at none any more.
    ended: Option<Closed>,
}

impl MessageFlows {
    /// Whether a caller is expected, and there is room for it.
    pub(super) fn expects(&self, call: &MessageCall) -> bool {
        let room = |flows: &BTreeMap<u32, _>| flows.len() < MAX_WAITING && !flows.contains_key(&call.number);
        self.expected.get(&call.token).is_some_and(|(class, flows)| *class == call.class && room(flows))
    }

    /// Lets a caller's flow wait; `None` if it is not expected.
    pub(super) fn accept(
        &mut self,
        call: MessageCall,
        peer: SocketAddr,
        receive_buffer: u64,
    ) -> Option<Arc<MessageFlow>> {
        self.expects(&call).then_some(())?;
        let (_, flows) = self.expected.get_mut(&call.token)?;
        let number = call.number;
        Some(flows.entry(number).or_insert(MessageFlow::new(call, peer, receive_buffer)).clone())
    }

    /// The node's thread looks at no flow any more: those that wait for it hear why.
    pub(super) fn end(&mut self, why: &Closed) {
        for flow in self.take_queued() {
            flow.connection.lock().close(why.clone());
        }
        self.ended = Some(why.clone());
    }

    pub(super) fn take_queued(&mut self) -> Vec<Arc<MessageFlow>> {
        std::mem::take(&mut self.queue)
    }
}

/// Receivers of messages are expected until it is dropped.
pub struct ExpectedMessages {
    bundles: Arc<SharedBundles>,
    token: MessageToken,
}

impl ExpectedMessages {
    pub(super) fn new(bundles: Arc<SharedBundles>, token: MessageToken, class: String) -> Self {
        bundles.messages().expected.insert(token, (class, BTreeMap::new()));
        Self { bundles, token }
    }

    /// What a receiver has to know.
    pub fn token(&self) -> MessageToken {
        self.token
    }

    /// The flow that has waited longest and still stands.
    pub fn take(&self) -> Option<OutgoingMessages> {
        let mut flows = self.bundles.messages();
        let (_, waiting) = flows.expected.get_mut(&self.token)?;
        loop {
            let (_, flow) = waiting.pop_first()?;
            if flow.connection.lock().status == Status::Open {
                return Some(OutgoingMessages { bundles: self.bundles.clone(), flow });
            }
        }
    }
}

impl Drop for ExpectedMessages {
    fn drop(&mut self) {
        let gone = self.bundles.messages().expected.remove(&self.token);
        for flow in gone.into_iter().flat_map(|(_, flows)| flows.into_values()) {
            abandon(&self.bundles, &flow);
        }
    }
}

fn abandon(bundles: &SharedBundles, flow: &Arc<MessageFlow>) {
    flow.connection.lock().wanted.abandoned = true;
    queue(bundles, flow);
}

/// Has the node's thread look at a flow.
fn queue(bundles: &SharedBundles, flow: &Arc<MessageFlow>) {
    if std::mem::replace(&mut flow.connection.lock().wanted.queued, true) {
        return;
    }
    let mut flows = bundles.messages();
    if let Some(why) = &flows.ended {
        flow.connection.lock().close(why.clone());
        return;
    }
    flows.queue.push(flow.clone());
    drop(flows);
    bundles.waker.wake();
}

/// A flow to a receiver that waits for messages. Dropped, it ends.
pub struct OutgoingMessages {
    bundles: Arc<SharedBundles>,
    flow: Arc<MessageFlow>,
}

impl OutgoingMessages {
    /// Its number at the receiver.
    pub fn number(&self) -> u32 {
        self.flow.call.number
    }

    /// Sends messages and ends the flow.
    ///
    /// # Errors
    ///
    /// If one is empty, or all are more than [a quarter of a gigabyte](MAX_BYTES).
    pub fn send<'m>(&self, messages: impl IntoIterator<Item = &'m [u8]>, how: SendMessages) -> io::Result<()> {
        let mut buffers = self.flow.connection.lock();
        for message in messages {
            if message.is_empty() || !buffers.write_message(message, MAX_BYTES) {
                return Err(io::ErrorKind::InvalidInput.into());
            }
        }
        buffers.outgoing.finish = true;
        buffers.wanted.finish = true;
        drop(buffers);
        *lock(&self.flow.begin) = Some(how);
        queue(&self.bundles, &self.flow);
        Ok(())
    }

    /// What its transport has counted, as of the thread's last look.
    pub fn statistics(&self) -> Statistics {
        self.flow.connection.lock().sender
    }
}

impl Drop for OutgoingMessages {
    fn drop(&mut self) {
        abandon(&self.bundles, &self.flow);
    }
}

/// A flow that was called for. Dropped, it ends.
pub struct IncomingMessages {
    bundles: Arc<SharedBundles>,
    flow: Arc<MessageFlow>,
}

impl IncomingMessages {
    pub(super) fn call(bundles: Arc<SharedBundles>, call: MessageCall, peer: SocketAddr, receive_buffer: u64) -> Self {
        let flow = MessageFlow::new(call, peer, receive_buffer);
        queue(&bundles, &flow);
        Self { bundles, flow }
    }

    /// The number that it was called with.
    pub fn number(&self) -> u32 {
        self.flow.call.number
    }

    /// The next message, with its number, in the order in which they became whole; `None` when the sender has ended the flow.
    pub async fn recv(&self) -> io::Result<Option<(u32, Box<[u8]>)>> {
        poll_fn(|context| {
            let mut buffers = self.flow.connection.lock();
            if let Some(message) = buffers.incoming.take_message() {
                buffers.incoming.consumed(message.1.len() as u64);
                return Poll::Ready(Ok(Some(message)));
            }
            let over = buffers.incoming.ended.then_some(None);
            buffers.poll(over, context)
        })
        .await
    }
}

impl Drop for IncomingMessages {
    fn drop(&mut self) {
        abandon(&self.bundles, &self.flow);
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_for_messages_round_trip() {
        let call = MessageCall { token: [7; 16], number: 258, class: "bulk".into() };
        let content = call.content();
        let read = MessageCall::read(&content).unwrap();
        assert_eq!((read.token, read.number, read.class.as_str()), ([7; 16], 258, "bulk"));
        let head = MESSAGES.len() + 16 + 4;
        for shorter in 0..head {
            assert!(MessageCall::read(&content[..shorter]).is_none(), "{shorter}");
        }
        assert!(MessageCall::read(b"bundle bulk").is_none());
        assert!(MessageCall::read(&[&content[..head], &[0xff][..]].concat()).is_none(), "no text");
    }
}
