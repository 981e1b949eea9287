//! The same for threads that wait.

use std::future::Future;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use pliant_proto::contract::Contract;
use pliant_proto::contract::schedule::DaySchedule;
use pliant_proto::time::Span;
use pliant_proto::transport::atp::SizeClass;
use tokio::io::ReadBuf;

use super::bundle::Bundle;
use super::messages::{MessageReceiver, MessageSender};
use super::report::Report;
use super::{node, stream};
use crate::transfer::Settings;

/// Wakes a thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let (mut future, mut context) = (pin!(future), Context::from_waker(&waker));
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return value;
        }
        thread::park();
    }
}

/// A node whose calls wait. Dropped, it waits until streams that were finished and dropped before have told their peers that
/// they are closed, so that a program may end at once.
pub struct Node(node::Node);

impl Drop for Node {
    fn drop(&mut self) {
        self.0.part();
    }
}

impl Node {
    /// See [`super::Node::client`].
    pub fn client(address: SocketAddr, settings: Settings) -> io::Result<Self> {
        node::Node::client(address, settings).map(Self)
    }

    /// See [`super::Node::bind`].
    pub fn bind(address: SocketAddr, settings: Settings) -> io::Result<Self> {
        node::Node::bind(address, settings).map(Self)
    }

    /// The socket's address.
    pub fn local_address(&self) -> SocketAddr {
        self.0.local_address()
    }

    /// See [`super::Node::set_schedule`].
    pub fn set_schedule(&self, schedule: DaySchedule) -> io::Result<()> {
        self.0.set_schedule(schedule)
    }

    /// Calls `to` for a byte stream.
    pub fn connect(&self, to: SocketAddr) -> io::Result<Stream> {
        block_on(self.0.connect(to)).map(Stream)
    }

    /// The next byte stream that somebody opens.
    pub fn accept(&self) -> io::Result<Stream> {
        block_on(self.0.accept()).map(Stream)
    }

    /// See [`super::Node::connect_bundle`].
    pub fn connect_bundle(&self, to: SocketAddr, contract: &Contract) -> io::Result<Bundle> {
        block_on(self.0.connect_bundle(to, contract))
    }

    /// The next bundle that somebody opens.
    pub fn accept_bundle(&self) -> io::Result<Bundle> {
        block_on(self.0.accept_bundle())
    }

    /// Calls `to` for messages.
    pub fn connect_messages(&self, to: SocketAddr) -> io::Result<MessageSender> {
        block_on(self.0.connect_messages(to))
    }

    /// The next that somebody opens for messages.
    pub fn accept_messages(&self) -> io::Result<MessageReceiver> {
        block_on(self.0.accept_messages())
    }
}

/// A byte stream whose calls wait.
pub struct Stream(stream::Stream);

impl Stream {
    /// Ends what goes out, and waits until the peer has all of it.
    pub fn finish(&self) -> io::Result<()> {
        block_on(std::future::poll_fn(|context| self.0.poll_end(context)))
    }

    /// See [`super::Stream::set_contract`].
    pub fn set_contract(&self, contract: &Contract) -> io::Result<()> {
        self.0.set_contract(contract)
    }

    /// See [`super::Stream::set_done_by`].
    pub fn set_done_by(&self, bytes: u64, span: Option<Span>) -> io::Result<()> {
        self.0.set_done_by(bytes, span)
    }

    /// How it stands.
    pub fn report(&self) -> Report {
        self.0.report()
    }
}

/// Through a shared reference: one thread may read while another writes.
impl Read for &Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut buffer = ReadBuf::new(into);
        block_on(std::future::poll_fn(|context| self.0.poll_take(context, &mut buffer)))?;
        Ok(buffer.filled().len())
    }
}

impl Write for &Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        block_on(std::future::poll_fn(|context| self.0.poll_give(context, bytes)))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        (&*self).read(into)
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&*self).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Bundle {
    /// [`open`](Self::open) for threads that wait.
    pub fn open_blocking(&self) -> io::Result<Stream> {
        self.open().map(Stream)
    }

    /// [`accept`](Self::accept) for threads that wait. Several may.
    pub fn accept_blocking(&self) -> io::Result<Stream> {
        block_on(self.accept()).map(Stream)
    }
}

impl MessageSender {
    /// [`finish`](Self::finish) for threads that wait.
    pub fn finish_blocking(&self) -> io::Result<()> {
        block_on(self.finish())
    }

    /// [`by_size`](Self::by_size) for threads that wait.
    pub fn by_size_blocking(&self) -> io::Result<[SizeClass; 16]> {
        block_on(self.by_size())
    }
}

impl MessageReceiver {
    /// [`recv`](Self::recv) for threads that wait.
    pub fn recv_blocking(&self) -> io::Result<Option<(u32, Box<[u8]>)>> {
        block_on(self.recv())
    }
}
