//! What an application's thread and the node's thread share of one connection.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use pliant_proto::contract::Contract;
use pliant_proto::packet::ByteRange;
use pliant_proto::transport::any::AnyRequest;
use pliant_proto::transport::atp::SizeClass;
use pliant_proto::transport::{Event, Statistics};

use super::report::Delivery;
use crate::connection::{Closed, ConnectionId};
use crate::driver::{Application, PayloadLocation};
use crate::flow::{Protocol, SendDeadline, WAITING_BUFFERS};
use crate::ring::Ring;

/// One connection, shared.
pub(crate) struct SharedConnection(Mutex<Buffers>);

impl SharedConnection {
    /// A connection of which this side holds `receive_buffer` bytes in each direction; a stream up to `largest`.
    pub(crate) fn new(peer: SocketAddr, receive_buffer: u64, largest: u64, messages: bool) -> Self {
        Self(Mutex::new(Buffers {
            peer,
            receive_buffer,
            send_buffer: receive_buffer,
            largest,
            connection: None,
            protocol: None,
            status: Status::Calling,
            outgoing: SendBuffer { messages, ..SendBuffer::default() },
            incoming: ReceiveBuffer::new(receive_buffer, largest, messages),
            wanted: Wanted::default(),
            contract: None,
            deadline: SendDeadline::default(),
            sender: Statistics::default(),
            receiver: Statistics::default(),
            wakers: Vec::new(),
        }))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Buffers> {
        // Whoever panicked has not left the buffers between two states: they change in whole steps.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where the connection stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Status {
    Calling,
    Open,
    Closed(Closed),
}

/// What the application wants of the node.
#[derive(Default)]
pub(crate) struct Wanted {
    /// It is in the node's list.
    pub(crate) queued: bool,
    /// Bytes, or messages, that were written and are not given to the transport yet.
    pub(crate) send: u64,
    pub(crate) messages: VecDeque<u32>,
    pub(crate) announce: Option<u32>,
    pub(crate) finish: bool,
    pub(crate) consume: u64,
    pub(crate) contract: bool,
    /// The size of the stream that its deadline counts.
    pub(crate) size: Option<u64>,
    /// Nobody holds it any more.
    pub(crate) abandoned: bool,
}

/// What goes out.
#[derive(Default)]
pub(crate) struct SendBuffer {
    messages: bool,
    /// The stream from `base` on.
    stream: VecDeque<u8>,
    base: u64,
    whole: Vec<Box<[u8]>>,
    whole_bytes: u64,
    pub(crate) finish: bool,
    pub(crate) finished: bool,
    /// What has arrived by size of message, once the flow is over.
    pub(crate) by_size: Option<[SizeClass; 16]>,
}

/// What came in.
pub(crate) struct ReceiveBuffer {
    /// Of a stream; messages have none.
    window: Option<Ring>,
    delivered: u64,
    consumed: u64,
    /// Messages that have begun, and those that are whole.
    begun: BTreeMap<u32, Box<[u8]>>,
    whole: VecDeque<(u32, Box<[u8]>)>,
    /// Bytes of whole messages, until the machine is told that they were taken.
    waiting_bytes: u64,
    waiting_most: u64,
    begun_most: u64,
    begun_bytes: u64,
    pub(crate) ended: bool,
    /// What became of the messages, once the peer is done.
    pub(crate) delivery: Option<Delivery>,
    count: u32,
}

impl ReceiveBuffer {
    fn new(receive_buffer: u64, largest: u64, messages: bool) -> Self {
        Self {
            window: (!messages).then(|| Ring::new(receive_buffer, largest)),
            delivered: 0,
            consumed: 0,
            begun: BTreeMap::new(),
            whole: VecDeque::new(),
            waiting_bytes: 0,
            waiting_most: receive_buffer * WAITING_BUFFERS,
            begun_most: receive_buffer,
            begun_bytes: 0,
            ended: false,
            delivery: None,
            count: 0,
        }
    }

    fn copy_in(&mut self, offset: u64, payload: &[u8]) {
        // The machine refuses what lies outside its window; so does the buffer, before it.
        let skip = self.delivered.saturating_sub(offset).min(payload.len() as u64);
        let (offset, payload) = (offset.saturating_add(skip), &payload[skip as usize..]);
        if let Some(window) = &mut self.window {
            window.write(self.consumed, offset, payload);
        }
    }

    /// Takes bytes of the stream; how many.
    pub(crate) fn take(&mut self, into: &mut [u8]) -> usize {
        let count = (self.delivered - self.consumed).min(into.len() as u64) as usize;
        let Some(window) = &self.window else { return 0 };
        let (first, second) = window.parts(self.consumed, count);
        into[..first.len()].copy_from_slice(first);
        into[first.len()..count].copy_from_slice(second);
        self.consumed += count as u64;
        count
    }

    /// Takes the next whole message.
    pub(crate) fn take_message(&mut self) -> Option<(u32, Box<[u8]>)> {
        self.whole.pop_front()
    }

    fn message(&mut self, message: u32, offset: u32, length: u32, payload: &[u8]) {
        if !self.begun.contains_key(&message) {
            // What the machine refuses, and nothing else.
            let in_parts = payload.len() < length as usize;
            if self.waiting_bytes >= self.waiting_most
                || (in_parts && self.begun_bytes + u64::from(length) > self.begun_most)
            {
                return;
            }
            self.begun_bytes += u64::from(length);
            self.begun.insert(message, vec![0; length as usize].into());
        }
        let Some(bytes) = self.begun.get_mut(&message) else { return };
        let (from, to) = (offset as usize, offset as usize + payload.len());
        if bytes.len() == length as usize && to <= bytes.len() {
            bytes[from..to].copy_from_slice(payload);
        }
    }

    /// The machine is told that so many bytes were taken.
    pub(crate) fn consumed(&mut self, bytes: u64) {
        self.waiting_bytes = self.waiting_bytes.saturating_sub(bytes);
    }

    fn deliver_message(&mut self, message: u32, length: u32) -> io::Result<()> {
        let Some(bytes) = self.begun.remove(&message).filter(|bytes| bytes.len() == length as usize) else {
            return Err(io::Error::other("a message was delivered that never came"));
        };
        self.begun_bytes -= u64::from(length);
        self.waiting_bytes += u64::from(length);
        self.count += 1;
        self.whole.push_back((message, bytes));
        Ok(())
    }
}

/// Both directions of one connection.
pub(crate) struct Buffers {
    pub(crate) peer: SocketAddr,
    pub(crate) receive_buffer: u64,
    /// Most bytes of the stream that wait to be sent or acknowledged; it grows as the receive buffer does.
    send_buffer: u64,
    largest: u64,
    pub(crate) connection: Option<ConnectionId>,
    pub(crate) protocol: Option<Protocol>,
    pub(crate) status: Status,
    pub(crate) outgoing: SendBuffer,
    pub(crate) incoming: ReceiveBuffer,
    pub(crate) wanted: Wanted,
    /// What goes out is under it, and not under the node's.
    pub(crate) contract: Option<Contract>,
    pub(crate) deadline: SendDeadline,
    pub(crate) sender: Statistics,
    pub(crate) receiver: Statistics,
    wakers: Vec<Waker>,
}

impl Buffers {
    /// Wakes whoever waits; everybody looks for himself.
    pub(crate) fn wake(&mut self) {
        self.wakers.drain(..).for_each(Waker::wake);
    }

    /// Wakes this one at the next change.
    pub(crate) fn wait(&mut self, waker: &Waker) {
        if !self.wakers.iter().any(|known| known.will_wake(waker)) {
            self.wakers.push(waker.clone());
        }
    }

    /// Nothing more goes either way. What it was closed for first stands.
    pub(crate) fn close(&mut self, why: Closed) {
        if !matches!(self.status, Status::Closed(_)) {
            self.status = Status::Closed(why);
        }
        self.wake();
    }

    /// Why nothing more goes either way, if so.
    pub(crate) fn failure(&self) -> Option<io::Error> {
        let Status::Closed(why) = &self.status else { return None };
        let kind = match why {
            Closed::NoAnswer(_) | Closed::Silent(_) => io::ErrorKind::TimedOut,
            Closed::ByPeer { .. } | Closed::Reset => io::ErrorKind::ConnectionReset,
            why if why.is_refusal() => io::ErrorKind::ConnectionRefused,
            _ => io::ErrorKind::Other,
        };
        Some(io::Error::new(kind, why.clone()))
    }

    /// What is there, or why nothing will be; else whoever asks is woken at the next change.
    pub(crate) fn poll<T>(&mut self, there: Option<T>, context: &Context<'_>) -> Poll<io::Result<T>> {
        if let Some(there) = there {
            return Poll::Ready(Ok(there));
        }
        if let Some(error) = self.failure() {
            return Poll::Ready(Err(error));
        }
        self.wait(context.waker());
        Poll::Pending
    }

    /// Bytes of the stream that were sent and are not acknowledged, about: retransmissions count as mean packets.
    fn in_flight(&self) -> u64 {
        let Statistics { bytes_sent, packets_sent, retransmissions, .. } = self.sender;
        let again = bytes_sent / packets_sent.max(1) * retransmissions;
        bytes_sent.saturating_sub(again).saturating_sub(self.outgoing.base)
    }

    /// Appends to the stream what fits; how much.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> usize {
        let held = self.outgoing.stream.len() as u64;
        if held + bytes.len() as u64 > self.send_buffer && 4 * self.in_flight() > 3 * self.send_buffer {
            self.send_buffer = self.largest.min(2 * self.send_buffer);
        }
        let room = self.send_buffer.saturating_sub(held) as usize;
        let count = room.min(bytes.len());
        self.outgoing.stream.extend(&bytes[..count]);
        self.wanted.send += count as u64;
        count
    }

    /// Bytes of the stream that were written.
    pub(crate) fn written(&self) -> u64 {
        self.outgoing.base + self.outgoing.stream.len() as u64
    }

    /// Appends a message. False if there is no room for more.
    pub(crate) fn write_message(&mut self, bytes: &[u8], most: u64) -> bool {
        let outgoing = &mut self.outgoing;
        if outgoing.whole_bytes + bytes.len() as u64 > most {
            return false;
        }
        outgoing.whole_bytes += bytes.len() as u64;
        outgoing.whole.push(bytes.into());
        self.wanted.messages.push_back(bytes.len() as u32);
        true
    }

    /// Whether it carries messages.
    pub(crate) fn carries_messages(&self) -> bool {
        self.outgoing.messages
    }

    /// Messages written so far.
    pub(crate) fn messages_written(&self) -> u32 {
        self.outgoing.whole.len() as u32
    }

    fn read(&self, location: PayloadLocation, payload: &mut [u8]) {
        match location {
            PayloadLocation::Stream(offset) => {
                let skip = (offset - self.outgoing.base) as usize;
                let (front, back) = self.outgoing.stream.as_slices();
                let first = front.get(skip..).unwrap_or_default();
                let count = first.len().min(payload.len());
                payload[..count].copy_from_slice(&first[..count]);
                let from = skip.saturating_sub(front.len());
                let rest = payload.len() - count;
                payload[count..].copy_from_slice(&back[from..from + rest]);
            }
            PayloadLocation::Message { message, offset, .. } => {
                let bytes = &self.outgoing.whole[message as usize];
                payload.copy_from_slice(&bytes[offset as usize..][..payload.len()]);
            }
            PayloadLocation::Symbol { .. } => unreachable!("programs send streams and messages"),
        }
    }

    fn event(&mut self, event: Event<AnyRequest>) -> io::Result<()> {
        match event {
            Event::Deliver(ByteRange { end, .. }) => self.incoming.delivered = end,
            Event::DeliverMessage { message, bytes } => self.incoming.deliver_message(message, bytes)?,
            Event::Release(ByteRange { end, .. }) => {
                let outgoing = &mut self.outgoing;
                let count = end.saturating_sub(outgoing.base).min(outgoing.stream.len() as u64);
                outgoing.stream.drain(..count as usize);
                outgoing.base += count;
            }
            Event::Received => self.incoming.ended = true,
            Event::Finished => {
                self.outgoing.finished = true;
                self.outgoing.whole = Vec::new();
            }
            Event::WillBeLate { expected } => self.deadline.note_late(expected),
            Event::Connected | Event::Ask(_) | Event::GiveUp { .. } | Event::DeliverSymbol { .. } => return Ok(()),
        }
        self.wake();
        Ok(())
    }

    /// Messages that have arrived whole.
    pub(crate) fn messages_delivered(&self) -> u32 {
        self.incoming.count
    }
}

/// A connection's application: its bytes are in buffers.
pub(crate) struct BufferedApplication(pub(crate) std::sync::Arc<SharedConnection>);

impl Application for BufferedApplication {
    fn read(&mut self, location: PayloadLocation, payload: &mut [u8]) -> io::Result<()> {
        self.0.lock().read(location, payload);
        Ok(())
    }

    fn write(&mut self, location: PayloadLocation, payload: &[u8]) -> io::Result<()> {
        let mut buffers = self.0.lock();
        match location {
            PayloadLocation::Stream(offset) if buffers.incoming.window.is_some() => {
                buffers.incoming.copy_in(offset, payload);
            }
            PayloadLocation::Message { message, offset, length } if buffers.outgoing.messages => {
                buffers.incoming.message(message, offset, length, payload);
            }
            _ => {}
        }
        Ok(())
    }

    fn event(&mut self, event: Event<AnyRequest>) -> io::Result<()> {
        self.0.lock().event(event)
    }
}
