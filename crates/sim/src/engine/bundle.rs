//! Bundles: flows between two hosts that share one transport, with one congestion state and under one contract.
//!
//! The members take turns to write a segment each into the stream of the transport. Only a few segments wait there, so a
//! member that arrives later waits for these and for what is in flight, not for all of a large one.

use std::collections::{BTreeMap, VecDeque};

use pliant_proto::packet::ByteRange;
use pliant_proto::time::{Instant, Span};
use pliant_proto::transport::{Command, Statistics, Transport};

use crate::results::ObjectPart;
use crate::traffic::FlowSpec;

/// Segments that wait in the transport while members have more. Transports send in pairs and in two sub-flows, and each
/// packet must find a full segment.
const WAITING_SEGMENTS: u64 = 4;

/// What tells bundles apart: group, source, destination, and the class that a trace asks for.
pub(super) type BundleKey = (u16, u32, u32, Option<u8>);

/// The bundle that a flow of a bundled group belongs to.
pub(super) fn key_of(spec: &FlowSpec) -> BundleKey {
    (spec.group, spec.source, spec.destination, spec.class)
}

/// A flow of a bundle.
pub(super) struct BundledFlow {
    pub(super) spec: FlowSpec,
    pub(super) ideal_fct: Span,
    /// The object that it brings a part of.
    pub(super) object: Option<ObjectPart>,
    /// Bytes that are not in the stream yet.
    unwritten: u64,
    /// Bytes that the receiver delivered.
    pub(super) delivered: u64,
    /// Bytes that the sender knows to be delivered.
    released: u64,
    /// When the receiver had all of them.
    pub(super) received: Option<Instant>,
}

impl BundledFlow {
    /// A flow that starts.
    pub(super) fn new(spec: FlowSpec, ideal_fct: Span, object: Option<ObjectPart>) -> Self {
        Self { spec, ideal_fct, object, unwritten: spec.bytes, delivered: 0, released: 0, received: None }
    }

    /// Whether its sender has no more to do.
    pub(super) fn is_over(&self) -> bool {
        self.released == self.spec.bytes
    }
}

/// A stretch of the stream that belongs to one member. It begins where the one before it ends.
struct Piece {
    end: u64,
    member: u64,
}

/// The members of one bundle, and whose bytes are where in its stream.
pub(super) struct Bundle {
    segment: u64,
    /// By the flows' numbers.
    members: BTreeMap<u64, BundledFlow>,
    /// Members with bytes that are not in the stream yet, in the order of their turns.
    turns: VecDeque<u64>,
    /// Those stretches that the sender may have to send again, or may not know to be delivered.
    pieces: VecDeque<Piece>,
    /// How many of these the receiver has delivered whole.
    delivered_pieces: usize,
    written: u64,
    delivered: u64,
    released: u64,
    /// Members that are over since they were taken last.
    over: Vec<u64>,
    /// What rows have told so far of what the transports and the network counted.
    told: (Statistics, Statistics, u32),
}

impl Bundle {
    /// A bundle without members, whose turns are a `segment` long.
    pub(super) fn new(segment: u64) -> Self {
        Self {
            segment,
            members: BTreeMap::new(),
            turns: VecDeque::new(),
            pieces: VecDeque::new(),
            delivered_pieces: 0,
            written: 0,
            delivered: 0,
            released: 0,
            over: Vec::new(),
            told: (Statistics::default(), Statistics::default(), 0),
        }
    }

    /// Whether any of its flows is under way.
    pub(super) fn has_members(&self) -> bool {
        !self.members.is_empty()
    }

    /// A flow starts. Its first turn comes after those of all others.
    pub(super) fn join(&mut self, number: u64, member: BundledFlow) {
        self.members.insert(number, member);
        self.turns.push_back(number);
    }

    /// Lets members write in turn, until a few segments wait in the transport.
    pub(super) fn write<T: Transport>(&mut self, transport: &mut T, now: Instant) {
        if self.turns.is_empty() {
            return;
        }
        let waiting = transport.unsent();
        let room = (WAITING_SEGMENTS * self.segment).saturating_sub(waiting).min(transport.send_space());
        let before = self.written;
        let full = before + room;
        while self.written < full
            && let Some(number) = self.turns.pop_front()
        {
            let member = self.members.get_mut(&number).expect("a member that has a turn");
            let bytes = member.unwritten.min(self.segment).min(full - self.written);
            member.unwritten -= bytes;
            if member.unwritten > 0 {
                self.turns.push_back(number);
            }
            self.written += bytes;
            // A stretch that is delivered whole cannot grow.
            let last = self.pieces.back_mut().filter(|piece| piece.member == number);
            match last.filter(|piece| piece.end > self.delivered) {
                Some(piece) => piece.end = self.written,
                None => self.pieces.push_back(Piece { end: self.written, member: number }),
            }
        }
        let bytes = self.written - before;
        if bytes > 0 {
            transport.handle_command(now, Command::Send { bytes });
        }
    }

    /// The receiver delivered bytes of the stream, which it does in order.
    pub(super) fn on_delivered(&mut self, now: Instant, range: ByteRange) {
        assert_eq!(range.start, self.delivered, "a bundle's bytes arrive in order, each once");
        while self.delivered < range.end {
            let piece = &self.pieces[self.delivered_pieces];
            let end = piece.end.min(range.end);
            let member = self.members.get_mut(&piece.member).expect("a member is open until its bytes are released");
            member.delivered += end - self.delivered;
            if member.delivered == member.spec.bytes {
                member.received = Some(now);
            }
            self.delivered_pieces += usize::from(end == piece.end);
            self.delivered = end;
        }
    }

    /// The sender knows that bytes of the stream were delivered. Whether a member is over.
    pub(super) fn on_released(&mut self, range: ByteRange) -> bool {
        assert!(range.end <= self.delivered, "only what was delivered is acknowledged");
        while self.released < range.end {
            let piece = self.pieces.front().expect("every byte belongs to a member");
            let end = piece.end.min(range.end);
            let member = self.members.get_mut(&piece.member).expect("a member is open until its bytes are released");
            member.released += end - self.released;
            if member.is_over() {
                self.over.push(piece.member);
            }
            if end == piece.end {
                self.pieces.pop_front();
                self.delivered_pieces -= 1;
            }
            self.released = end;
        }
        !self.over.is_empty()
    }

    /// Takes a member that is over, and its number.
    pub(super) fn take_over(&mut self) -> Option<(u64, BundledFlow)> {
        let number = self.over.pop()?;
        let member = self.members.remove(&number).expect("a member is over once");
        Some((number, member))
    }

    /// Takes the first of the members, over or not.
    pub(super) fn take_first(&mut self) -> Option<(u64, BundledFlow)> {
        self.members.pop_first()
    }

    /// What transports and network counted since this was asked last: of `sender`, `receiver` and the drops.
    pub(super) fn tell(
        &mut self,
        sender: Statistics,
        receiver: Statistics,
        drops: u32,
    ) -> (Statistics, Statistics, u32) {
        let (told_sender, told_receiver, told_drops) = std::mem::replace(&mut self.told, (sender, receiver, drops));
        (sender.since(&told_sender), receiver.since(&told_receiver), drops - told_drops)
    }
}
