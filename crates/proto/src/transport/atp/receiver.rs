//! The receiving side: assembles messages, counts the whole ones, acknowledges each packet.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::convert::Infallible;

use super::config::AtpConfig;
use super::messages::MAX_MESSAGES;
use crate::packet::{Body, DataFlags, Ecn, Packet, SackBlocks};
use crate::time::Instant;
use crate::transport::{Command, Deadline, Event, Statistics, Transport};

const NONE: u32 = u32::MAX;

/// The fate of a flow's messages.
#[derive(Clone, Copy, Debug)]
pub struct Report<'a> {
    /// Messages that the flow had.
    pub messages: u32,
    /// Messages that arrived whole.
    pub delivered: u32,
    whole: &'a [u64],
}

impl Report<'_> {
    /// The fraction of messages that is missing; 0 for a flow without messages.
    pub fn loss(&self) -> f64 {
        f64::from(self.messages - self.delivered) / f64::from(self.messages.max(1))
    }

    /// Whether this message arrived whole.
    pub fn has(&self, message: u32) -> bool {
        bit(self.whole, message)
    }

    /// The messages that are missing, in order.
    pub fn missing(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.messages).filter(|&message| !self.has(message))
    }

    /// The messages that arrived, in order.
    pub fn delivered(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.messages).filter(|&message| self.has(message))
    }
}

fn bit(words: &[u64], index: u32) -> bool {
    words.get(index as usize / 64).is_some_and(|word| word >> (index % 64) & 1 != 0)
}

/// A sub-flow's packets that arrived lately.
#[derive(Clone, Copy, Debug, Default)]
struct Arrivals {
    /// The highest number; meaningless while `history` is empty.
    highest: u32,
    /// Bit `i`: the packet `highest - i` has arrived.
    history: u128,
    marks: u16,
    /// The packet to acknowledge.
    pending: Option<u32>,
}

impl Arrivals {
    fn note(&mut self, number: u32) {
        let ahead = number.wrapping_sub(self.highest) as i32;
        if self.history == 0 || ahead > 0 {
            let keep = if self.history == 0 { u32::MAX } else { ahead as u32 };
            self.history = self.history.checked_shl(keep).unwrap_or(0) | 1;
            self.highest = number;
        } else {
            self.history |= 1u128.checked_shl(ahead.unsigned_abs()).unwrap_or(0);
        }
        self.pending = Some(number);
    }

    /// The 64 packets before `number`.
    fn before(&self, number: u32) -> u64 {
        let behind = self.highest.wrapping_sub(number);
        self.history.checked_shr(behind + 1).unwrap_or(0) as u64
    }
}

/// An incomplete message.
#[derive(Clone, Debug, Default)]
struct Partial {
    bytes: u32,
    /// Bytes of every fragment but the last.
    stride: u32,
    missing: u32,
    arrived: Vec<u64>,
}

/// Receives messages.
pub struct AtpReceiver {
    config: Arc<AtpConfig>,
    complete: u32,
    /// Messages that the flow had, once the sender has closed it.
    closed: Option<u32>,
    close_ack_due: bool,
    received: bool,
    primary: Arrivals,
    state: Box<State>,
}

/// Rarely used state.
#[derive(Default)]
struct State {
    backup: Arrivals,
    /// Bit of each whole message.
    whole: Vec<u64>,
    /// Index in `partials` of each message that has begun; grows with the messages.
    partial_of: Vec<u32>,
    partials: Vec<Partial>,
    free: Vec<u32>,
    held_bytes: u64,
    /// Bytes of whole messages that wait for the application.
    waiting_bytes: u64,
    /// Whole messages not yet reported to the application, with their bytes.
    events: VecDeque<(u32, u32)>,
    marks: u64,
    duplicate_bytes: u64,
}

/// A fragment as described by a packet.
#[derive(Clone, Copy)]
struct Arrival {
    message: u32,
    fragment: u32,
    length: u32,
    len: u16,
    last: bool,
}

impl Arrival {
    /// Bytes of every fragment but the last, and the number of fragments; `None` if no division of the message gives
    /// this fragment.
    fn cut(&self) -> Option<(u32, u32)> {
        let len = u32::from(self.len);
        if !self.last {
            let fragments = self.length.div_ceil(len.max(1));
            return (len > 0 && self.fragment < fragments - 1).then_some((len, fragments));
        }
        let before = self.length.checked_sub(len).filter(|_| len > 0)?;
        if self.fragment == 0 {
            return (before == 0).then_some((len, 1));
        }
        let stride = before / self.fragment;
        (before % self.fragment == 0 && stride >= len).then(|| (stride, self.fragment + 1))
    }
}

impl AtpReceiver {
    /// A receiver that has seen nothing.
    pub fn new(config: Arc<AtpConfig>) -> Self {
        Self {
            config,
            complete: 0,
            closed: None,
            close_ack_due: false,
            received: false,
            primary: Arrivals::default(),
            state: Box::default(),
        }
    }

    /// Messages that have arrived whole.
    pub fn complete(&self) -> u32 {
        self.complete
    }

    /// The fate of the messages, once the sender is done.
    pub fn report(&self) -> Option<Report<'_>> {
        let whole = &self.state.whole;
        self.closed.map(|messages| Report { messages, delivered: self.complete, whole })
    }

    /// Takes a fragment. False if there is no room for it, or no message to which it could belong: then it counts as
    /// lost.
    fn take(&mut self, arrival: Arrival) -> bool {
        let Arrival { message, fragment, length, .. } = arrival;
        let Some((stride, fragments)) = arrival.cut().filter(|_| message < MAX_MESSAGES) else { return false };
        let state = &mut *self.state;
        if bit(&state.whole, message) {
            state.duplicate_bytes += u64::from(arrival.len);
            return true;
        }
        let index = message as usize;
        let has_begun = state.partial_of.get(index).is_some_and(|&place| place != NONE);
        if !has_begun && self.config.delivery_limit.is_some_and(|limit| state.waiting_bytes >= limit) {
            return false;
        }
        if fragments == 1 {
            self.deliver(message, length);
            return true;
        }
        if state.partial_of.len() <= index {
            state.partial_of.resize(index + 1, NONE);
        }
        if !has_begun {
            if state.held_bytes + u64::from(length) > self.config.reassembly_limit {
                return false;
            }
            state.begin(message, &Partial { bytes: length, stride, missing: fragments, arrived: Vec::new() });
        }
        let partial = &mut state.partials[state.partial_of[index] as usize];
        if (partial.bytes, partial.stride) != (length, stride) {
            return false;
        }
        let word = &mut partial.arrived[fragment as usize / 64];
        if *word >> (fragment % 64) & 1 != 0 {
            state.duplicate_bytes += u64::from(arrival.len);
            return true;
        }
        *word |= 1 << (fragment % 64);
        partial.missing -= 1;
        if partial.missing == 0 {
            state.end(message);
            self.deliver(message, length);
        }
        true
    }

    fn deliver(&mut self, message: u32, bytes: u32) {
        let whole = &mut self.state.whole;
        let word = message as usize / 64;
        if whole.len() <= word {
            whole.resize(word + 1, 0);
        }
        whole[word] |= 1 << (message % 64);
        self.complete += 1;
        self.state.waiting_bytes += u64::from(bytes);
        self.state.events.push_back((message, bytes));
    }

    fn acknowledge(&mut self, backup: bool) -> Option<Packet> {
        let arrivals = if backup { &mut self.state.backup } else { &mut self.primary };
        let number = arrivals.pending.take()?;
        let (received, marks, complete) = (arrivals.before(number), arrivals.marks, self.complete);
        let body = Body::MessageAck { number, received, complete, marks, backup };
        Some(Packet::new(self.config.control_class, self.config.wire.wire_bytes(0), body))
    }
}

impl State {
    /// Gives a message a place, a used one if there is any.
    fn begin(&mut self, message: u32, partial: &Partial) {
        self.held_bytes += u64::from(partial.bytes);
        let place = self.free.pop().unwrap_or(self.partials.len() as u32);
        if place as usize == self.partials.len() {
            self.partials.push(Partial::default());
        }
        let words = partial.missing.div_ceil(64) as usize;
        let slot = &mut self.partials[place as usize];
        let mut arrived = core::mem::take(&mut slot.arrived);
        arrived.clear();
        arrived.resize(words, 0);
        *slot = Partial { arrived, ..*partial };
        self.partial_of[message as usize] = place;
    }

    fn end(&mut self, message: u32) {
        let place = core::mem::replace(&mut self.partial_of[message as usize], NONE);
        self.held_bytes -= u64::from(self.partials[place as usize].bytes);
        self.free.push(place);
    }
}

impl Transport for AtpReceiver {
    type Request = Infallible;
    type Answer = Infallible;

    fn handle_packet(&mut self, _now: Instant, packet: &Packet, _sack: &SackBlocks) {
        match packet.body() {
            Body::Message { number, message, fragment, length, len, flags, .. } if self.closed.is_none() => {
                let last = flags.contains(DataFlags::FIN);
                if !self.take(Arrival { message, fragment, length, len, last }) {
                    return;
                }
                let is_backup = flags.contains(DataFlags::BACKUP);
                let arrivals = if is_backup { &mut self.state.backup } else { &mut self.primary };
                arrivals.note(number);
                if packet.traffic_class.ecn() == Ecn::Ce {
                    arrivals.marks = arrivals.marks.wrapping_add(1);
                    self.state.marks += 1;
                }
            }
            Body::Close { messages } => {
                // A count below what has arrived is no sender's.
                if self.closed.is_none() && messages >= self.complete {
                    self.closed = Some(messages);
                    (self.primary.pending, self.state.backup.pending) = (None, None);
                    (self.state.partials, self.state.partial_of) = (Vec::new(), Vec::new());
                }
                self.close_ack_due = self.closed.is_some();
            }
            _ => {}
        }
    }

    fn handle_command(&mut self, _now: Instant, command: Command) {
        if let Command::Consume { bytes } = command {
            self.state.waiting_bytes = self.state.waiting_bytes.saturating_sub(bytes);
        }
    }

    fn handle_timeout(&mut self, _now: Instant) {}

    #[inline]
    fn poll_transmit(&mut self, _now: Instant) -> Option<Packet> {
        if self.close_ack_due {
            self.close_ack_due = false;
            let body = Body::CloseAck { complete: self.complete };
            return Some(Packet::new(self.config.control_class, self.config.wire.wire_bytes(0), body));
        }
        self.acknowledge(false).or_else(|| self.acknowledge(true))
    }

    #[inline]
    fn poll_event(&mut self) -> Option<Event> {
        if let Some((message, bytes)) = self.state.events.pop_front() {
            return Some(Event::DeliverMessage { message, bytes });
        }
        if self.closed.is_some() && !self.received {
            self.received = true;
            return Some(Event::Received);
        }
        None
    }

    #[inline]
    fn poll_timeout(&self) -> Option<Deadline> {
        None
    }

    fn statistics(&self) -> Statistics {
        let State { marks, duplicate_bytes, .. } = *self.state;
        Statistics { marks, duplicate_bytes, ..Statistics::default() }
    }
}
