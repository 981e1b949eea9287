//! Messages of which, by contract, some may be missing (ATP).

use std::future::poll_fn;
use std::io;
use std::task::Poll;

use pliant_proto::transport::atp::SizeClass;

use super::handle::Handle;
use super::report::{Delivery, Report};

/// Bytes of messages that a sender holds: all of them until the flow ends, for any may have to be sent again.
const MOST_BYTES: u64 = 1 << 30;

/// Sends messages; at least the contract's `min_delivery` of them arrive.
pub struct MessageSender {
    handle: Handle,
}

/// Receives messages.
pub struct MessageReceiver {
    handle: Handle,
}

impl MessageSender {
    pub(super) fn new(handle: Handle) -> Self {
        Self { handle }
    }

    /// How the connection stands.
    pub fn report(&self) -> Report {
        self.handle.report()
    }

    /// Says how many messages there will be: the flow may then end before all of them were sent.
    pub fn announce(&self, messages: u32) {
        self.handle.lock().wanted.announce = Some(messages);
        self.handle.queue();
    }

    /// Sends a message of 1 byte at least and of no more than the receiver's buffer; its number. Fails with `OutOfMemory`
    /// when the flow's messages exceed a gigabyte.
    pub fn send(&self, message: &[u8]) -> io::Result<u32> {
        let mut buffers = self.handle.lock();
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
        self.handle.queue();
        Ok(number)
    }

    /// Ends the flow; ready once enough has arrived.
    pub async fn finish(&self) -> io::Result<()> {
        poll_fn(|context| self.handle.poll_finish(context)).await
    }

    /// How many messages of each size there were and how many of them arrived, once the flow is over: class `i` holds
    /// those of up to 2^i packets, the last one larger ones, too. An estimate from what arrived is biased if it depends on
    /// sizes of which more is missing; only the sender knows the sizes of what is missing. Of messages whose
    /// acknowledgement was lost it does not know that they arrived: the sum may be below [`Delivery::delivered`].
    pub async fn by_size(&self) -> io::Result<[SizeClass; 16]> {
        poll_fn(|context| {
            let mut buffers = self.handle.lock();
            let by_size = buffers.outgoing.by_size;
            buffers.poll(by_size, context)
        })
        .await
    }
}

impl MessageReceiver {
    pub(super) fn new(handle: Handle) -> Self {
        Self { handle }
    }

    /// How the connection stands.
    pub fn report(&self) -> Report {
        self.handle.report()
    }

    /// The next message, with its number, in the order in which they became whole; `None` after the last. Of a program that
    /// does not keep up 64 receive buffers wait; what comes then is lost, which slows the sender down.
    pub async fn recv(&self) -> io::Result<Option<(u32, Box<[u8]>)>> {
        poll_fn(|context| {
            let mut buffers = self.handle.lock();
            if let Some(message) = buffers.incoming.take_message() {
                buffers.wanted.consume += message.1.len() as u64;
                drop(buffers);
                self.handle.queue();
                return Poll::Ready(Ok(Some(message)));
            }
            let over = buffers.incoming.delivery.is_some().then_some(None);
            buffers.poll(over, context)
        })
        .await
    }

    /// What became of the messages, once the sender is done.
    pub fn delivery(&self) -> Option<Delivery> {
        self.handle.lock().incoming.delivery.clone()
    }

    /// Messages that have arrived so far.
    pub fn delivered(&self) -> u32 {
        self.handle.lock().messages_delivered()
    }
}
