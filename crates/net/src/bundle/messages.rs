//! Flows of messages beside the streams of a class, for what need not all arrive (ATP).
//!
//! A program that expects messages' receivers draws a token and tells it to its peer through a stream. The peer calls with
//! it, as often as it wants, so that a connection stands before there is something to send; each carries one flow, from the
//! side that was called to the side that calls.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::Poll;

use pliant_proto::transport::Statistics;

use super::message_flows::{MAX_BYTES, MessageCall, MessageFlow, MessageToken, SendMessages};
use super::mutex::lock;
use super::shared::SharedBundles;
use crate::api::buffers::Status;

/// Receivers of messages are expected until it is dropped.
pub struct ExpectedMessages {
    bundles: Arc<SharedBundles>,
    token: MessageToken,
}

impl ExpectedMessages {
    pub(super) fn new(bundles: Arc<SharedBundles>, token: MessageToken, class: String) -> Self {
        bundles.messages().expect(token, class);
        Self { bundles, token }
    }

    /// What a receiver has to know.
    pub fn token(&self) -> MessageToken {
        self.token
    }

    /// The flow that has waited longest and still stands.
    pub fn take(&self) -> Option<OutgoingMessages> {
        let flow = self.bundles.messages().take(&self.token)?;
        Some(OutgoingMessages { bundles: self.bundles.clone(), flow })
    }
}

impl Drop for ExpectedMessages {
    fn drop(&mut self) {
        let gone = self.bundles.messages().forget(&self.token);
        for flow in gone {
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
    if bundles.messages().queue(flow) {
        bundles.waker.wake();
    }
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
    /// If one is empty, or all are more than a quarter of a gigabyte.
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

    /// Whether its connection is over, or came to nothing.
    pub fn is_closed(&self) -> bool {
        matches!(self.flow.connection.lock().status, Status::Closed(_))
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
