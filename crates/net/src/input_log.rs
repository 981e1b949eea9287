//! A log of everything a machine was told, and of everything it said.
//!
//! Machines are deterministic: the same inputs at the same times give the same outputs, on any host. A log taken on a
//! real socket is therefore a complete record of what a transport did, and can be replayed without one.

use pliant_proto::packet::{Packet, SackBlocks};
use pliant_proto::time::Instant;
use pliant_proto::transport::{Command, Deadline, Event, Statistics, Transport};

/// One input.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Input<A> {
    /// A packet arrived.
    Packet(Packet, SackBlocks),
    /// The application spoke.
    Command(Command<A>),
    /// A deadline came.
    Timeout,
    /// The machine was polled for packets.
    Poll,
}

/// One output.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Output<R> {
    /// A packet to send.
    Packet(Packet, SackBlocks),
    /// An event.
    Event(Event<R>),
}

/// A transport that keeps a log of its inputs and outputs.
#[derive(Debug)]
pub struct Logged<T: Transport> {
    transport: T,
    /// Inputs with their times, in order.
    pub inputs: Vec<(Instant, Input<T::Answer>)>,
    /// Outputs, in order.
    pub outputs: Vec<Output<T::Request>>,
}

impl<T: Transport> Logged<T> {
    /// Logs all that passes to and from `transport`.
    pub fn new(transport: T) -> Self {
        Self { transport, inputs: Vec::new(), outputs: Vec::new() }
    }
}

impl<T: Transport> Transport for Logged<T> {
    type Request = T::Request;
    type Answer = T::Answer;

    fn handle_packet(&mut self, now: Instant, packet: &Packet, sack: &SackBlocks) {
        self.inputs.push((now, Input::Packet(*packet, *sack)));
        self.transport.handle_packet(now, packet, sack);
    }

    fn handle_command(&mut self, now: Instant, command: Command<T::Answer>) {
        self.inputs.push((now, Input::Command(command)));
        self.transport.handle_command(now, command);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.inputs.push((now, Input::Timeout));
        self.transport.handle_timeout(now);
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Packet> {
        self.inputs.push((now, Input::Poll));
        let packet = self.transport.poll_transmit(now)?;
        self.outputs.push(Output::Packet(packet, *self.transport.sack_blocks()));
        Some(packet)
    }

    fn sack_blocks(&self) -> &SackBlocks {
        self.transport.sack_blocks()
    }

    fn poll_event(&mut self) -> Option<Event<T::Request>> {
        let event = self.transport.poll_event()?;
        self.outputs.push(Output::Event(event));
        Some(event)
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        self.transport.poll_timeout()
    }

    fn statistics(&self) -> Statistics {
        self.transport.statistics()
    }
}

/// What a fresh `transport` says to logged inputs. Events are polled once the packets of a poll are exhausted, as
/// [`pliant_proto::transport::drain`] does.
pub fn replay<T: Transport>(mut transport: T, inputs: &[(Instant, Input<T::Answer>)]) -> Vec<Output<T::Request>> {
    let mut outputs = Vec::new();
    for &(now, input) in inputs {
        match input {
            Input::Packet(packet, sack) => transport.handle_packet(now, &packet, &sack),
            Input::Command(command) => transport.handle_command(now, command),
            Input::Timeout => transport.handle_timeout(now),
            Input::Poll => match transport.poll_transmit(now) {
                Some(packet) => outputs.push(Output::Packet(packet, *transport.sack_blocks())),
                None => outputs.extend(std::iter::from_fn(|| transport.poll_event()).map(Output::Event)),
            },
        }
    }
    outputs
}
