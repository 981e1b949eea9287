//! Two transports and a path between them, for tests: time jumps to the earlier of the next arrival and the next
//! deadline.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::convert::Infallible;

use proptest::prelude::*;

use super::any::{AnyAnswer, AnyRequest, Member};
use crate::host::Host;
use crate::packet::{ByteRange, Ecn, EndpointId, Packet, SackBlocks, Side};
use crate::rng::Stream;
use crate::time::{Instant, Span};
use crate::transport::{Command, Deadline, Event, Outlet, Transport, drain};
use crate::units::{Rate, Serializer};

/// What the path does with one packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    /// Delivers it.
    Pass,
    /// Loses it.
    Drop,
    /// Delivers it later by this much, behind packets sent after it.
    Delay(Span),
    /// Delivers it twice.
    Duplicate,
    /// Delivers it marked CE, if it is ECN-capable.
    Mark,
}

/// What becomes of a packet that is lost, delayed or repeated with these odds per thousand.
pub(crate) fn draw_fate(stream: &mut Stream, [lose, delay, repeat]: [u64; 3]) -> Fate {
    match stream.below(1000) {
        draw if draw < lose => Fate::Drop,
        draw if draw < lose + delay => Fate::Delay(Span::from_us(stream.below(300))),
        draw if draw < lose + delay + repeat => Fate::Duplicate,
        _ => Fate::Pass,
    }
}

/// What becomes, at random, of up to 200 packets in the order sent.
pub(crate) fn any_fates() -> impl Strategy<Value = Vec<Fate>> {
    let fate = prop_oneof![
        6 => Just(Fate::Pass), 2 => Just(Fate::Drop), 1 => Just(Fate::Duplicate),
        1 => (1u64..3000).prop_map(|us| Fate::Delay(Span::from_us(us))),
    ];
    prop::collection::vec(fate, 1..200)
}

/// The fate of a packet by its number: all beyond those listed pass.
pub(crate) fn by_number(fates: Vec<Fate>) -> impl Fn(usize) -> Fate {
    move |number| fates.get(number).copied().unwrap_or(Fate::Pass)
}

/// A packet that a transport sent.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Sent {
    pub(crate) at: Instant,
    pub(crate) packet: Packet,
    pub(crate) sack: SackBlocks,
}

/// One call of a transport, for replay.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Input<A = Infallible> {
    Packet(Instant, Packet, SackBlocks),
    Command(Instant, Command<A>),
    Timeout(Instant),
}

/// One side: its machine and everything that went in and came out.
pub(crate) struct End<T: Transport> {
    pub(crate) transport: T,
    pub(crate) sent: Vec<Sent>,
    pub(crate) events: Vec<(Instant, Event<T::Request>)>,
    pub(crate) inputs: Vec<Input<T::Answer>>,
    pub(crate) deadline: Option<Deadline>,
}

/// Collects what one `drain` gives.
struct Collect<'a, R> {
    now: Instant,
    sent: &'a mut Vec<Sent>,
    events: &'a mut Vec<(Instant, Event<R>)>,
    deadline: &'a mut Option<Deadline>,
}

impl<R> Outlet<R> for Collect<'_, R> {
    fn transmit(&mut self, packet: Packet, sack: &SackBlocks) {
        self.sent.push(Sent { at: self.now, packet, sack: *sack });
    }
    fn event(&mut self, event: Event<R>) {
        self.events.push((self.now, event));
    }
    fn arm(&mut self, deadline: Option<Deadline>) {
        *self.deadline = deadline;
    }
}

impl<T: Transport> End<T> {
    pub(crate) fn new(transport: T) -> Self {
        Self { transport, sent: Vec::new(), events: Vec::new(), inputs: Vec::new(), deadline: None }
    }

    /// Makes one call and drains; gives what was sent.
    pub(crate) fn feed(&mut self, input: Input<T::Answer>) -> &[Sent] {
        let from = self.sent.len();
        self.inputs.push(input);
        let now = match input {
            Input::Packet(now, packet, sack) => {
                self.transport.handle_packet(now, &packet, &sack);
                now
            }
            Input::Command(now, command) => {
                self.transport.handle_command(now, command);
                now
            }
            Input::Timeout(now) => {
                self.transport.handle_timeout(now);
                now
            }
        };
        self.drain(now);
        &self.sent[from..]
    }

    pub(crate) fn drain(&mut self, now: Instant) {
        let Self { transport, sent, events, deadline, .. } = self;
        drain(transport, now, &mut Collect { now, sent, events, deadline });
    }

    /// When `event` came.
    pub(crate) fn time_of(&self, event: Event<T::Request>) -> Option<Instant> {
        self.events.iter().find(|(_, seen)| *seen == event).map(|(at, _)| *at)
    }

    /// Bytes delivered, asserting that they came in order, each once.
    pub(crate) fn delivered(&self) -> u64 {
        let ranges = self.events.iter().filter_map(|(_, event)| match event {
            Event::Deliver(range) => Some(*range),
            _ => None,
        });
        ranges.fold(0, |next, ByteRange { start, end }| {
            assert!(start == next && end > start, "delivered {start}..{end} after {next}");
            end
        })
    }
}

impl<T: Member> End<T> {
    /// Tells the host what was asked of it since the first `seen` events.
    fn ask(&self, seen: &mut usize, host: &mut Host, side: Side) {
        for (_, event) in &self.events[*seen..] {
            if let Event::Ask(request) = *event
                && let AnyRequest::Host(request) = request.into()
            {
                host.handle_request(EndpointId::new(0, side), 0, request);
            }
        }
        *seen = self.events.len();
    }

    fn answer(&mut self, now: Instant, answer: AnyAnswer) {
        let answer = answer.try_into().ok().expect("a host answers who asked");
        self.feed(Input::Command(now, Command::Answer(answer)));
    }
}

/// Decides a packet's fate by its number on the path, the time and the packet.
type Judge = Box<dyn FnMut(usize, Instant, &Packet) -> Fate>;

/// One direction of the path.
pub(crate) struct Path {
    delay: Span,
    serializer: Option<Serializer>,
    fate: Judge,
    busy_until: Instant,
    count: usize,
}

impl Path {
    /// A path without a rate that loses nothing.
    pub(crate) fn new(delay: Span) -> Self {
        Self { delay, serializer: None, fate: Box::new(|_, _, _| Fate::Pass), busy_until: Instant::ZERO, count: 0 }
    }

    pub(crate) fn with_rate(mut self, rate: Rate) -> Self {
        self.serializer = Some(Serializer::new(rate));
        self
    }

    /// With `fate` judging every packet.
    pub(crate) fn with_fate(mut self, fate: impl FnMut(usize, Instant, &Packet) -> Fate + 'static) -> Self {
        self.fate = Box::new(fate);
        self
    }
}

/// Answers a sender's questions.
type Oracle<A> = Box<dyn FnMut(<A as Transport>::Request) -> Option<<A as Transport>::Answer>>;

/// A sender and a receiver.
pub(crate) struct Pair<A: Transport, B: Transport> {
    pub(crate) now: Instant,
    pub(crate) sender: End<A>,
    pub(crate) receiver: End<B>,
    pub(crate) forth: Path,
    pub(crate) back: Path,
    /// In flight: (arrival, number) to (goes forth, packet).
    flying: BTreeMap<(Instant, usize), (bool, Packet, SackBlocks)>,
    number: usize,
    posted: (usize, usize),
    oracle: Option<Oracle<A>>,
    /// Events of the sender that the oracle has seen.
    answered: usize,
    /// The hosts of sender and receiver, and how many events of their transports they have seen.
    hosts: [(Host, usize); 2],
}

impl<A: Member, B: Member> Pair<A, B> {
    pub(crate) fn new(sender: A, receiver: B, forth: Path, back: Path) -> Self {
        let (sender, receiver) = (End::new(sender), End::new(receiver));
        Self {
            now: Instant::ZERO,
            sender,
            receiver,
            forth,
            back,
            flying: BTreeMap::new(),
            number: 0,
            posted: (0, 0),
            oracle: None,
            answered: 0,
            hosts: [(); 2].map(|()| (Host::new(Rate::from_gbit_per_sec(10)), 0)),
        }
    }

    /// With an oracle for the sender.
    pub(crate) fn with_oracle(mut self, oracle: impl FnMut(A::Request) -> Option<A::Answer> + 'static) -> Self {
        self.oracle = Some(Box::new(oracle));
        self
    }

    /// Gives the sender a whole transfer.
    pub(crate) fn transfer(&mut self, bytes: u64) {
        self.sender.transport.handle_command(self.now, Command::Send { bytes });
        self.sender.inputs.push(Input::Command(self.now, Command::Send { bytes }));
        self.command_sender(Command::Finish);
    }

    pub(crate) fn command_sender(&mut self, command: Command<A::Answer>) {
        self.sender.feed(Input::Command(self.now, command));
        self.post();
    }

    pub(crate) fn command_receiver(&mut self, command: Command<B::Answer>) {
        self.receiver.feed(Input::Command(self.now, command));
        self.post();
    }

    /// Gives the sender so many bytes, waits so many microseconds, and so on, and the end; how many bytes that were.
    pub(crate) fn write_with_pauses(&mut self, writes: &[(u64, u64)]) -> u64 {
        let mut at = self.now;
        for (bytes, pause_us) in writes {
            self.command_sender(Command::Send { bytes: *bytes });
            at = at.after(Span::from_us(*pause_us));
            self.run_until(at);
            self.now = at;
        }
        self.command_sender(Command::Finish);
        writes.iter().map(|(bytes, _)| bytes).sum()
    }

    /// Runs to the end: `bytes` have arrived in order, both sides know, and the sender may forget all of them.
    pub(crate) fn check_everything_is_released(&mut self, bytes: u64, within: Span) -> Result<(), TestCaseError> {
        self.check_everything_arrives_within(bytes, within)?;
        let released = self.sender.events.iter().filter_map(|(_, event)| match event {
            Event::Release(range) => Some(range.len()),
            _ => None,
        });
        prop_assert_eq!(released.sum::<u64>(), bytes);
        Ok(())
    }

    /// Runs to the end: `bytes` have arrived in order, and both sides know.
    pub(crate) fn check_everything_arrives(&mut self, bytes: u64) -> Result<(), TestCaseError> {
        self.check_everything_arrives_within(bytes, Span::from_secs(1000))
    }

    fn check_everything_arrives_within(&mut self, bytes: u64, within: Span) -> Result<(), TestCaseError> {
        prop_assert!(self.run_until(Instant::ZERO.after(within)), "it ends");
        prop_assert_eq!(self.receiver.delivered(), bytes);
        prop_assert!(self.receiver.time_of(Event::Received).is_some());
        prop_assert!(self.sender.time_of(Event::Finished).is_some());
        Ok(())
    }

    /// Runs until nothing is left to happen, or until `end`; false if `end` came first.
    pub(crate) fn run_until(&mut self, end: Instant) -> bool {
        loop {
            let arrival = self.flying.keys().next().map(|(at, _)| *at);
            let deadlines = [self.sender.deadline, self.receiver.deadline].map(|deadline| deadline.map(|d| d.at));
            let turns = self.hosts.each_ref().map(|(host, _)| host.poll_timeout());
            let Some(next) = deadlines.into_iter().chain([arrival]).chain(turns).flatten().min() else { return true };
            if next > end {
                self.now = end;
                return false;
            }
            self.now = self.now.max(next);
            if arrival != Some(next) && self.answer_from_hosts() {
                continue;
            }
            self.step(arrival == Some(next));
        }
    }

    fn step(&mut self, arrival: bool) {
        let now = self.now;
        if arrival {
            let (_, (forth, packet, sack)) = self.flying.pop_first().expect("an arrival is due");
            if forth {
                self.receiver.feed(Input::Packet(now, packet, sack));
            } else {
                self.sender.feed(Input::Packet(now, packet, sack));
            }
        } else if self.sender.deadline.is_some_and(|deadline| deadline.at <= now) {
            self.sender.feed(Input::Timeout(now));
        } else {
            self.receiver.feed(Input::Timeout(now));
        }
        self.post();
    }

    /// Brings an answer of a host that is due, if there is one.
    fn answer_from_hosts(&mut self) -> bool {
        let now = self.now;
        for index in 0..2 {
            if let Some((_, answer)) = self.hosts[index].0.poll(now) {
                if index == 0 {
                    self.sender.answer(now, answer.into());
                } else {
                    self.receiver.answer(now, answer.into());
                }
                self.post();
                return true;
            }
        }
        false
    }

    /// Tells the hosts what was asked of them.
    fn ask_hosts(&mut self) {
        let [(sender_host, of_sender), (receiver_host, of_receiver)] = &mut self.hosts;
        self.sender.ask(of_sender, sender_host, Side::Initiator);
        self.receiver.ask(of_receiver, receiver_host, Side::Responder);
    }

    /// Puts on the path what was sent since the last time, and answers what was asked.
    fn post(&mut self) {
        self.post_packets();
        self.ask_hosts();
        while let (Some(oracle), Some((_, event))) = (&mut self.oracle, self.sender.events.get(self.answered)) {
            self.answered += 1;
            if let Event::Ask(request) = *event
                && let Some(answer) = oracle(request)
            {
                self.sender.feed(Input::Command(self.now, Command::Answer(answer)));
                self.post_packets();
            }
        }
    }

    fn post_packets(&mut self) {
        for sent in self.sender.sent[self.posted.0..].iter().copied() {
            post_one(&mut self.forth, sent, true, &mut self.flying, &mut self.number);
        }
        for sent in self.receiver.sent[self.posted.1..].iter().copied() {
            post_one(&mut self.back, sent, false, &mut self.flying, &mut self.number);
        }
        self.posted = (self.sender.sent.len(), self.receiver.sent.len());
    }
}

fn post_one(
    path: &mut Path,
    sent: Sent,
    forth: bool,
    flying: &mut BTreeMap<(Instant, usize), (bool, Packet, SackBlocks)>,
    number: &mut usize,
) {
    let mut packet = sent.packet;
    let fate = (path.fate)(path.count, sent.at, &packet);
    path.count += 1;
    let start = path.busy_until.max(sent.at);
    let took = path.serializer.as_mut().map_or(Span::ZERO, |serializer| serializer.transmit(packet.wire_bytes.into()));
    path.busy_until = start.after(took);
    let mut arrival = path.busy_until.after(path.delay);
    let copies = match fate {
        Fate::Drop => 0,
        Fate::Duplicate => 2,
        _ => 1,
    };
    if let Fate::Delay(extra) = fate {
        arrival = arrival.after(extra);
    }
    if fate == Fate::Mark && packet.traffic_class.is_ect() {
        packet.traffic_class = packet.traffic_class.with_ecn(Ecn::Ce);
    }
    for _ in 0..copies {
        flying.insert((arrival, *number), (forth, packet, sent.sack));
        *number += 1;
    }
}
