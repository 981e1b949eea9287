//! Messages of which, by contract, some may be missing (ATP).

use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::Poll;

use pliant_proto::transport::atp::SizeClass;

use super::Report;
use super::buffers::Shared;
use super::node::Desk;
use super::stream::{poll_finish, report};

/// Bytes of messages that a sender holds: all of them until the flow ends, for any may have to be sent again.
const MOST_BYTES: u64 = 1 << 30;

/// What became of a flow's messages.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Delivery {
    /// Messages that the flow had.
    pub messages: u32,
    /// Messages that arrived.
    pub delivered: u32,
    /// Those that did not, in order.
    pub missing: Vec<u32>,
}

/// Sends messages; at least the contract's `min_delivery` of them arrive.
pub struct MessageSender {
    desk: Arc<Desk>,
    shared: Arc<Shared>,
}

/// Receives messages.
pub struct MessageReceiver {
    desk: Arc<Desk>,
    shared: Arc<Shared>,
}

macro_rules! abandon_on_drop {
    ($type:ty) => {
        impl Drop for $type {
            fn drop(&mut self) {
                self.shared.lock().wanted.abandoned = true;
                self.desk.queue(&self.shared);
            }
        }

        impl $type {
            pub(super) fn new(desk: Arc<Desk>, shared: Arc<Shared>) -> Self {
                Self { desk, shared }
            }

            /// How the connection stands.
            pub fn report(&self) -> Report {
                report(&self.shared)
            }
        }
    };
}

abandon_on_drop!(MessageSender);
abandon_on_drop!(MessageReceiver);

impl MessageSender {
    /// Says how many messages there will be: the flow may then end before all of them were sent.
    pub fn announce(&self, messages: u32) {
        self.shared.lock().wanted.announce = Some(messages);
        self.desk.queue(&self.shared);
    }

    /// Sends a message of 1 byte at least and of no more than the receiver's buffer; its number. Fails with `OutOfMemory`
    /// when the flow's messages exceed a gigabyte.
    pub fn send(&self, message: &[u8]) -> io::Result<u32> {
        let mut buffers = self.shared.lock();
        if let Some(error) = buffers.failure() {
            return Err(error);
        }
        let number = buffers.messages_written();
        if message.is_empty() || message.len() as u64 > buffers.receive_buffer {
            let why = format!("a message has 1 to {} bytes", buffers.receive_buffer);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        if buffers.outgoing.finish {
            return Err(io::Error::new(io::ErrorKind::BrokenPipe, "the flow was finished"));
        }
        if !buffers.write_message(message, MOST_BYTES) {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        drop(buffers);
        self.desk.queue(&self.shared);
        Ok(number)
    }

    /// Ends the flow; ready once enough has arrived.
    pub async fn finish(&self) -> io::Result<()> {
        poll_fn(|context| poll_finish(&self.desk, &self.shared, context)).await
    }

    /// How many messages of each size there were and how many of them arrived, once the flow is over: class `i` holds
    /// those of up to 2^i packets, the last one larger ones, too. An estimate from what arrived is biased if it depends on
    /// sizes of which more is missing; only the sender knows the sizes of what is missing. Of messages whose
    /// acknowledgement was lost it does not know that they arrived: the sum may be below [`Delivery::delivered`].
    pub async fn by_size(&self) -> io::Result<[SizeClass; 16]> {
        poll_fn(|context| {
            let mut buffers = self.shared.lock();
            let by_size = buffers.outgoing.by_size;
            buffers.poll(by_size, context)
        })
        .await
    }
}

impl MessageReceiver {
    /// The next message, with its number, in the order in which they became whole; `None` after the last. Of a program that
    /// does not keep up 64 receive buffers wait; what comes then is lost, which slows the sender down.
    pub async fn recv(&self) -> io::Result<Option<(u32, Box<[u8]>)>> {
        poll_fn(|context| {
            let mut buffers = self.shared.lock();
            if let Some(message) = buffers.incoming.take_message() {
                buffers.wanted.consume += message.1.len() as u64;
                drop(buffers);
                self.desk.queue(&self.shared);
                return Poll::Ready(Ok(Some(message)));
            }
            let over = buffers.incoming.delivery.is_some().then_some(None);
            buffers.poll(over, context)
        })
        .await
    }

    /// What became of the messages, once the sender is done.
    pub fn delivery(&self) -> Option<Delivery> {
        self.shared.lock().incoming.delivery.clone()
    }

    /// Messages that have arrived so far.
    pub fn delivered(&self) -> u32 {
        self.shared.lock().messages_delivered()
    }
}
