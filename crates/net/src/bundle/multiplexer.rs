//! The streams of a bundle, as a state machine: bytes of many streams in, frames in cells out, and back.
//!
//! Every stream has a window of its own: a reader that stops holds up its own stream only. What waits to be sent is framed
//! as late as possible, in turns; what a program [fills](Multiplexer::fill) stays with it until then. As in fq_codel (RFC 8290
//! section 4.2), a stream that has waited for nothing since its last turn goes before those that always have more.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use thiserror::Error;

use super::cells::{CELL_BYTES, CellReader, CellWriter, LEAST_ROOM, NotFrames};
use super::frame::{DATA_OVERHEAD, MAX_HEADER_BYTES, StreamFrame, StreamId};
use super::unread::{PeerUnread, Unread};

/// Bytes that a side may send of a stream before it hears of a window.
const FIRST_WINDOW: u64 = 64 << 10;
/// A window grows up to this while its reader keeps up.
pub(super) const GREATEST_WINDOW: u64 = 8 << 20;
/// Bytes of a stream that wait to be framed, while there are few streams.
const SEND_BUFFER: usize = 64 << 10;
/// All streams' bytes that wait to be framed, but for what every stream may have.
const SEND_BUDGET: usize = 64 << 20;
/// What every stream may have, however many there are.
const LEAST_SEND_BUFFER: usize = 4 << 10;
/// Framed bytes that wait for the transport: more could not be overtaken by another stream.
const UNSENT_BYTES: u64 = 64 << 10;
/// The same while the transport takes as much at once: it does not wait then.
const GREATEST_UNSENT: u64 = 256 << 10;
/// What may wait has room for so many turns. Of turns of one cell, what arrives at once would be of so many streams that each
/// gets little of it, and their programs would be woken for that.
const TURNS: u64 = 4;
/// Most parts of a stream that are not joined. An honest peer leaves as many as packets that are lost or late at once.
const MAX_PARTS: usize = 4096;
/// What such a part takes besides its bytes: its place in the tree, and the least that is allocated.
const PART_BYTES: usize = 128;
/// How many numbers a peer's stream may be ahead of the first that was not seen.
const NUMBERS_AHEAD: u32 = 1 << 16;

/// What a reset says.
pub mod reset_code {
    /// The application has gone, or has reset its end.
    pub const ABORTED: u8 = 0;
    /// There are too many streams.
    pub const TOO_MANY: u8 = 1;
    /// What the header asks for is not allowed.
    pub const DENIED: u8 = 2;
    /// What the header asks for refuses connections.
    pub const REFUSED: u8 = 3;
    /// There is no way to what the header asks for.
    pub const UNREACHABLE: u8 = 4;
    /// What the header asks for does not answer.
    pub const TIMED_OUT: u8 = 5;
    /// Too many bytes wait to be read.
    pub const NO_ROOM: u8 = 6;
}

/// Limits of a multiplexer.
#[derive(Clone, Copy, Debug)]
pub struct MultiplexerConfig {
    /// Whether this side has called.
    pub calls: bool,
    /// Most streams that the peer may have open.
    pub max_streams: usize,
    /// Most bytes that all streams' windows grow to together.
    pub window_budget: u64,
    /// Most bytes that wait to be read, of all bundles with the peer; beyond it the stream that holds up most is reset.
    pub max_unread: u64,
    /// The transport's receive buffer in bytes, which is as much as may be on its way to the peer.
    pub receive_buffer: u64,
}

/// Something that happened to a stream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StreamEvent {
    /// The peer has opened it.
    Opened {
        /// Which.
        stream: StreamId,
        /// What the peer's application says of it.
        header: Vec<u8>,
    },
    /// There is something to read, its end included.
    Readable(StreamId),
    /// There is room to write again.
    Writable(StreamId),
    /// The peer has reset it.
    Reset {
        /// Which.
        stream: StreamId,
        /// Why: one of [`reset_code`].
        code: u8,
    },
}

/// What reading came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReadOutcome {
    /// So many bytes.
    Bytes(usize),
    /// Nothing is there yet.
    Nothing,
    /// The peer has ended the stream, and all of it was read.
    Ended,
    /// The stream was reset.
    Reset(u8),
}

/// What a multiplexer counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MultiplexerCounts {
    /// Streams that either side has opened.
    pub opened: u64,
    /// Streams that the peer was not allowed to open.
    pub refused: u64,
    /// Streams' bytes that were framed to be sent, each once.
    pub sent_bytes: u64,
    /// Streams' bytes that arrived in order, each once.
    pub received_bytes: u64,
}

/// The peer does what it must not: the connection cannot go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum Violation {
    /// Its bytes are no frames.
    #[error("its bytes are no frames of streams")]
    Frames,
    /// It names a stream that cannot be.
    #[error("it names a stream that cannot be")]
    Stream,
    /// It sends more of a stream than its window or beyond its end.
    #[error("it sends more of a stream than it may")]
    Window,
    /// It asks for more answers than it takes.
    #[error("it asks for more answers than it takes")]
    Answers,
}

/// One direction, out.
#[derive(Debug, Default)]
struct Outgoing {
    buffer: VecDeque<u8>,
    framed: u64,
    /// The peer takes bytes up to here.
    limit: u64,
    finish: bool,
    end_framed: bool,
    /// The peer has all of it, and its end.
    end_released: bool,
    /// Whether somebody waits for that.
    awaited: bool,
    /// Whether somebody waits for room.
    blocked: bool,
    /// Whether somebody waits to [fill](Multiplexer::fill) what goes out.
    wants: bool,
    /// It is its turn to fill so many bytes.
    turn: usize,
    /// It has a turn coming.
    queued: bool,
}

impl Outgoing {
    /// Whether there is something to frame now.
    fn has_something(&self) -> bool {
        let data = (self.wants || !self.buffer.is_empty()) && self.framed < self.limit;
        data || self.finish && self.buffer.is_empty() && !self.end_framed
    }
}

/// One direction, in.
#[derive(Debug, Default)]
struct Incoming {
    /// In order, not read yet.
    ready: VecDeque<u8>,
    /// Ahead of what is in order, by offset.
    ahead: BTreeMap<u64, Vec<u8>>,
    ahead_bytes: usize,
    /// In order up to here.
    received: u64,
    read: u64,
    /// The peer may send up to here.
    granted: u64,
    window: u64,
    size: Option<u64>,
}

impl Incoming {
    /// Bytes that are here. Parts of a byte each take far more room than they have bytes.
    fn held(&self) -> usize {
        self.ready.len() + self.ahead_bytes + self.ahead.len() * PART_BYTES
    }

    /// Lets all bytes go; how many there were.
    fn clear(&mut self) -> u64 {
        let held = self.held() as u64;
        (self.ready, self.ahead, self.ahead_bytes) = (VecDeque::new(), BTreeMap::new(), 0);
        held
    }

    /// Takes bytes from an offset on; true if there is more to read than before.
    fn insert(&mut self, offset: u64, bytes: &[u8]) -> Result<bool, Violation> {
        let end = offset.checked_add(bytes.len() as u64).ok_or(Violation::Window)?;
        if end > self.granted || self.size.is_some_and(|size| end > size) {
            return Err(Violation::Window);
        }
        if bytes.is_empty() || end <= self.received {
            return Ok(false);
        }
        if offset > self.received {
            return self.insert_ahead(offset, end, bytes).map(|()| false);
        }
        self.ready.extend(&bytes[(self.received - offset) as usize..]);
        self.received = end;
        while let Some(entry) = self.ahead.first_entry() {
            if *entry.key() > self.received {
                break;
            }
            let (offset, bytes) = entry.remove_entry();
            self.ahead_bytes -= bytes.len();
            let skip = ((self.received - offset) as usize).min(bytes.len());
            self.ready.extend(&bytes[skip..]);
            self.received += (bytes.len() - skip) as u64;
        }
        Ok(true)
    }

    /// Keeps bytes that come before others that are missing, joined with those right before them. Frames come once, so that
    /// only a peer that breaks the rules sends a byte twice.
    fn insert_ahead(&mut self, offset: u64, end: u64, bytes: &[u8]) -> Result<(), Violation> {
        if self.ahead.range(offset..end).next().is_some() {
            return Err(Violation::Window);
        }
        if let Some((start, before)) = self.ahead.range_mut(..offset).next_back() {
            let before_end = start + before.len() as u64;
            if before_end == offset {
                before.extend(bytes);
                self.ahead_bytes += bytes.len();
                return Ok(());
            }
            if before_end > offset {
                return Err(Violation::Window);
            }
        }
        if self.ahead.len() >= MAX_PARTS {
            return Err(Violation::Window);
        }
        self.ahead.insert(offset, bytes.to_vec());
        self.ahead_bytes += bytes.len();
        Ok(())
    }

    fn is_complete(&self) -> bool {
        self.size == Some(self.received)
    }
}

#[derive(Debug, Default)]
struct Stream {
    outgoing: Outgoing,
    incoming: Incoming,
    /// Opened by this side, or the peer's word of it has come.
    announced: bool,
    reset: Option<u8>,
    /// The application has let it go.
    dropped: bool,
    /// It has done so without a reset, and the peer's side has not ended yet.
    lingers: bool,
}

impl Stream {
    fn new(announced: bool) -> Self {
        Self {
            outgoing: Outgoing { limit: FIRST_WINDOW, ..Outgoing::default() },
            incoming: Incoming { granted: FIRST_WINDOW, window: FIRST_WINDOW, ..Incoming::default() },
            announced,
            ..Self::default()
        }
    }
}

/// What is framed before data.
#[derive(Debug)]
enum Control {
    Open(StreamId, Vec<u8>),
    Window(StreamId),
    Reset(StreamId, u8),
}

/// How much a stream may say before the next.
#[derive(Clone, Copy, Default)]
struct Turn {
    cells: usize,
    /// There is no next: it fills what there is room for when it does.
    alone: bool,
}

/// The streams of a bundle.
#[derive(Debug)]
pub struct Multiplexer {
    config: MultiplexerConfig,
    streams: BTreeMap<StreamId, Stream>,
    next_own: StreamId,
    /// The peer's streams before this one were all seen.
    peer_first: StreamId,
    /// Those from there on that were seen.
    peer_seen: BTreeSet<StreamId>,
    /// Of the peer's streams, those that are here.
    peer_streams: usize,
    /// Of all windows beyond the first.
    windows: u64,
    /// Of all streams, bytes that wait to be read.
    unread: Unread,
    control: VecDeque<Control>,
    /// Resets of the peer's streams among it.
    answers: usize,
    /// Streams that have data or an end to frame, and had nothing before.
    fresh: VecDeque<StreamId>,
    /// Those that have had a turn since.
    queue: VecDeque<StreamId>,
    writer: CellWriter,
    /// Framed bytes that may wait for the transport.
    unsent: u64,
    /// The ends of streams in what goes out, which the peer may not have: where they end, and of which stream.
    ends: VecDeque<(u64, StreamId)>,
    reader: CellReader,
    events: VecDeque<StreamEvent>,
    counts: MultiplexerCounts,
}

impl Multiplexer {
    /// A multiplexer without streams.
    pub fn new(config: MultiplexerConfig) -> Self {
        Self {
            config,
            streams: BTreeMap::new(),
            next_own: u32::from(!config.calls),
            peer_first: u32::from(config.calls),
            peer_seen: BTreeSet::new(),
            peer_streams: 0,
            windows: 0,
            unread: Unread::default(),
            control: VecDeque::new(),
            answers: 0,
            fresh: VecDeque::new(),
            queue: VecDeque::new(),
            writer: CellWriter::default(),
            unsent: UNSENT_BYTES,
            ends: VecDeque::new(),
            reader: CellReader::new(config.receive_buffer),
            events: VecDeque::new(),
            counts: MultiplexerCounts::default(),
        }
    }

    /// What it counted.
    pub fn counts(&self) -> MultiplexerCounts {
        self.counts
    }

    /// Bytes of streams that it holds: not framed yet, not acknowledged, or not read.
    pub fn held_bytes(&self) -> u64 {
        let of_stream = |stream: &Stream| (stream.outgoing.buffer.len() + stream.incoming.held()) as u64;
        self.streams.values().map(of_stream).sum::<u64>() + self.writer.held()
    }

    /// Bytes of streams that the transport has not asked for yet.
    pub fn unsent_bytes(&self) -> u64 {
        self.unframed_bytes() + self.writer.waiting()
    }

    fn unframed_bytes(&self) -> u64 {
        self.streams.values().map(|stream| stream.outgoing.buffer.len() as u64).sum()
    }

    /// Bytes of streams that were written so far, without those that a reset has thrown away.
    pub(crate) fn written_bytes(&self) -> u64 {
        self.counts.sent_bytes + self.unframed_bytes()
    }

    /// Bytes of the transport's flow so far.
    pub(super) fn framed_end(&self) -> u64 {
        self.writer.end()
    }

    /// Opens a stream; the peer's application gets `header`, of at most [`MAX_HEADER_BYTES`].
    ///
    /// # Panics
    ///
    /// If the header is longer.
    pub fn open(&mut self, header: Vec<u8>) -> StreamId {
        assert!(header.len() <= MAX_HEADER_BYTES, "headers are short");
        let stream = self.next_own;
        self.next_own += 2;
        self.counts.opened += 1;
        self.streams.insert(stream, Stream::new(true));
        self.control.push_back(Control::Open(stream, header));
        stream
    }

    /// The number of the stream that is opened next.
    pub fn next_number(&self) -> StreamId {
        self.next_own
    }

    /// From now on these limits hold, as in [`MultiplexerConfig`]. Streams and windows beyond them stay.
    pub fn set_limits(&mut self, max_streams: usize, window_budget: u64, max_unread: u64) {
        self.config = MultiplexerConfig { max_streams, window_budget, max_unread, ..self.config };
    }

    /// From now on the bound of unread bytes is one of all bundles that share `all`.
    pub(super) fn share_unread(&mut self, all: Arc<PeerUnread>) {
        self.unread.share(all);
    }

    /// Bytes of all streams that wait to be read.
    pub(super) fn unread(&self) -> u64 {
        self.unread.own()
    }

    /// Those of all bundles that share the bound.
    pub(super) fn all_unread(&self) -> u64 {
        self.unread.all()
    }

    /// The bound of unread bytes, if all bundles that share it hold more.
    pub(super) fn exceeded(&self) -> Option<u64> {
        (self.all_unread() > self.config.max_unread).then_some(self.config.max_unread)
    }

    /// Whether this bundle has more than an equal part of the bound, which is exceeded. If it has not, another one has.
    fn must_give_way(&self) -> bool {
        self.exceeded().is_some_and(|most| self.unread.own() > most / self.unread.sharers())
    }

    /// From now on the peer opens no streams.
    pub fn take_no_streams(&mut self) {
        self.config.max_streams = 0;
    }

    /// Whether there is no stream, and the peer has all that was said.
    pub fn is_over(&self) -> bool {
        self.streams.is_empty() && self.control.is_empty() && self.writer.is_released()
    }

    /// Streams that are here.
    pub fn streams(&self) -> usize {
        self.streams.len()
    }

    /// Streams that are not over for the application, and of which both sides know.
    pub(super) fn established_streams(&self) -> usize {
        let is_established = |(stream, known): &(&StreamId, &Stream)| {
            !known.dropped && known.reset.is_none() && (self.is_peers(**stream) || known.incoming.received > 0)
        };
        self.streams.iter().filter(is_established).count()
    }

    /// Bytes that all streams may let wait to be framed, each.
    fn send_buffer(&self) -> usize {
        (SEND_BUDGET / self.streams.len().max(1)).clamp(LEAST_SEND_BUFFER, SEND_BUFFER)
    }

    /// How many bytes [`write`](Self::write) takes, 0 while there is no room ([`StreamEvent::Writable`] follows). `None` if
    /// the stream is over or was finished.
    pub fn room(&mut self, stream: StreamId) -> Option<usize> {
        let most = self.send_buffer();
        let known = self.streams.get_mut(&stream)?;
        if known.reset.is_some() || known.outgoing.finish {
            return None;
        }
        let room = most.saturating_sub(known.outgoing.buffer.len());
        known.outgoing.blocked = room == 0;
        Some(room)
    }

    /// Takes bytes to be sent; how many, 0 while there is no room ([`StreamEvent::Writable`] follows). `None` if the
    /// stream is over or was finished.
    pub fn write(&mut self, stream: StreamId, bytes: &[u8]) -> Option<usize> {
        let taken = self.room(stream)?.min(bytes.len());
        let mut rest = &bytes[..taken];
        let outgoing = &mut self.streams.get_mut(&stream)?.outgoing;
        outgoing.blocked = taken < bytes.len();
        if self.is_alone(stream) {
            let mut room = self.unsent_room() as usize;
            let outgoing = &mut self.streams.get_mut(&stream)?.outgoing;
            while !rest.is_empty() && outgoing.framed < outgoing.limit && room > 0 {
                let count = push_data(&mut self.writer, stream, outgoing.framed, outgoing.limit, rest);
                outgoing.framed += count as u64;
                self.counts.sent_bytes += count as u64;
                rest = &rest[count..];
                room = room.saturating_sub(count + DATA_OVERHEAD);
            }
        }
        self.streams.get_mut(&stream)?.outgoing.buffer.extend(rest);
        self.enqueue(stream);
        Some(taken)
    }

    /// Whether nobody has to take turns with a stream, of which nothing waits to be framed.
    fn is_alone(&self, stream: StreamId) -> bool {
        let Some(Stream { outgoing, .. }) = self.streams.get(&stream) else { return false };
        let turns = self.fresh.len() + self.queue.len();
        outgoing.buffer.is_empty() && turns == usize::from(outgoing.queued) && self.control.is_empty()
    }

    /// Lets `fill` write bytes of a stream to where they go out from: it is shown places in turn, and says how many bytes it
    /// has written. It is shown none while enough waits for the transport, the stream has to take turns with others, or the
    /// peer takes no more of it ([`StreamEvent::Writable`] follows). `None` if the stream is over or was finished.
    pub fn fill<E>(
        &mut self,
        stream: StreamId,
        fill: impl FnOnce(&mut [&mut [u8]]) -> Result<usize, E>,
    ) -> Option<Result<usize, E>> {
        self.frame_controls();
        let turn = self.turn_of(stream);
        let Stream { outgoing, reset, .. } = self.streams.get_mut(&stream)?;
        if reset.is_some() || outgoing.finish {
            return None;
        }
        let most = turn.min((outgoing.limit - outgoing.framed) as usize);
        if most == 0 || !outgoing.buffer.is_empty() {
            outgoing.wants = true;
            self.enqueue(stream);
            return Some(fill(&mut []));
        }
        let (mut offered, first) = (0, outgoing.framed);
        let filled = self.writer.fill(stream, first, most, |places| {
            offered = places.iter().map(|place| place.len()).sum();
            fill(places)
        });
        let count = *filled.as_ref().unwrap_or(&0);
        // What is left of a turn is not for later.
        outgoing.turn = if count < offered { 0 } else { outgoing.turn.saturating_sub(count) };
        outgoing.framed += count as u64;
        self.counts.sent_bytes += count as u64;
        if !std::mem::replace(&mut outgoing.queued, true) {
            self.queue.push_back(stream);
        }
        Some(filled)
    }

    /// How many bytes a stream may fill now: in its turn, or if it has waited for nothing since its last one.
    fn turn_of(&self, stream: StreamId) -> usize {
        match self.streams.get(&stream) {
            Some(Stream { outgoing, .. }) if outgoing.turn > 0 => outgoing.turn,
            _ if self.unsent_room() == 0 || !self.control.is_empty() || !self.fresh.is_empty() => 0,
            _ if self.is_alone(stream) => self.unsent_room() as usize,
            Some(Stream { outgoing, .. }) if !outgoing.queued => bytes_of(self.turn_cells(self.queue.len() + 1)),
            _ => 0,
        }
    }

    /// Ends what this side sends.
    pub fn finish(&mut self, stream: StreamId) {
        if let Some(known) = self.streams.get_mut(&stream) {
            (known.outgoing.finish, known.outgoing.wants) = (true, false);
            self.enqueue(stream);
        }
    }

    fn enqueue(&mut self, stream: StreamId) {
        let Some(known) = self.streams.get_mut(&stream) else { return };
        if known.reset.is_none() && known.outgoing.has_something() && !known.outgoing.queued {
            known.outgoing.queued = true;
            self.fresh.push_back(stream);
        }
    }

    /// Reads what has come.
    pub fn read(&mut self, stream: StreamId, into: &mut [u8]) -> ReadOutcome {
        self.read_with(stream, |[first, second]| {
            let (of_first, of_second) = into.split_at_mut(first.len().min(into.len()));
            of_first.copy_from_slice(&first[..of_first.len()]);
            let more = second.len().min(of_second.len());
            of_second[..more].copy_from_slice(&second[..more]);
            of_first.len() + more
        })
    }

    /// Shows what has come, if anything, to `take`, which says how many bytes of it it took.
    pub fn read_with(&mut self, stream: StreamId, take: impl FnOnce([&[u8]; 2]) -> usize) -> ReadOutcome {
        let Some(known) = self.streams.get_mut(&stream) else { return ReadOutcome::Reset(reset_code::ABORTED) };
        if let Some(code) = known.reset {
            return ReadOutcome::Reset(code);
        }
        let incoming = &mut known.incoming;
        if incoming.ready.is_empty() {
            return if incoming.is_complete() { ReadOutcome::Ended } else { ReadOutcome::Nothing };
        }
        let (first, second) = incoming.ready.as_slices();
        let count = take([first, second]);
        if count == 0 {
            return ReadOutcome::Nothing;
        }
        incoming.ready.drain(..count);
        self.unread.remove(count as u64);
        incoming.read += count as u64;
        // Told when half of it is used: seldom, and before the sender has to wait.
        if incoming.size.is_none() && incoming.granted - incoming.read <= incoming.window / 2 {
            let keeps_up = incoming.ready.is_empty();
            if keeps_up
                && incoming.window < GREATEST_WINDOW
                && self.windows + incoming.window <= self.config.window_budget
            {
                self.windows += incoming.window;
                incoming.window *= 2;
            }
            incoming.granted = incoming.read + incoming.window;
            self.control.push_back(Control::Window(stream));
        }
        ReadOutcome::Bytes(count)
    }

    /// Resets a stream, both ways: the peer hears `code`.
    pub fn reset(&mut self, stream: StreamId, code: u8) {
        let Some(known) = self.streams.get_mut(&stream) else { return };
        if known.reset.is_none() {
            known.reset = Some(code);
            known.outgoing.buffer = VecDeque::new();
            self.unread.remove(known.incoming.clear());
            self.say_reset(stream, code);
        }
    }

    fn say_reset(&mut self, stream: StreamId, code: u8) {
        self.control.push_back(Control::Reset(stream, code));
        self.answers += usize::from(self.is_peers(stream));
    }

    /// With which code a stream was reset, if it was. One that is forgotten was let go.
    pub fn reset_of(&self, stream: StreamId) -> Option<u8> {
        self.streams.get(&stream).map_or(Some(reset_code::ABORTED), |known| known.reset)
    }

    /// Resets the stream that holds up most bytes: not one that is read as they come.
    pub(super) fn reset_fullest(&mut self) {
        let held = |(_, stream): &(&StreamId, &Stream)| stream.incoming.held();
        let Some((&stream, known)) = self.streams.iter().max_by_key(held) else { return };
        if known.announced {
            self.events.push_back(StreamEvent::Reset { stream, code: reset_code::NO_ROOM });
        }
        self.reset(stream, reset_code::NO_ROOM);
    }

    /// The application lets a stream go. What it has finished is still sent; what it has not, or has not read, is reset.
    pub fn drop_stream(&mut self, stream: StreamId) {
        let Some(known) = self.streams.get_mut(&stream) else { return };
        known.dropped = true;
        let read = known.incoming.is_complete() && known.incoming.ready.is_empty();
        if known.reset.is_none() && !(read && known.outgoing.finish) {
            self.reset(stream, reset_code::ABORTED);
        }
        self.forget(stream);
    }

    /// The application lets a stream go, as [`drop_stream`](Self::drop_stream), but a side that waits for nothing is not reset.
    /// A stream that was finished, and of which nothing waits to be read, is reset only if the peer sends more. One that was
    /// read to its end, and to which nothing was written, ends.
    pub fn leave(&mut self, stream: StreamId) {
        let Some(known) = self.streams.get_mut(&stream) else { return };
        let (outgoing, complete) = (&known.outgoing, known.incoming.is_complete());
        let silent = outgoing.framed == 0 && outgoing.buffer.is_empty();
        if known.reset.is_some() || known.incoming.held() > 0 || !(outgoing.finish || complete && silent) {
            return self.drop_stream(stream);
        }
        if complete {
            self.finish(stream);
            return self.drop_stream(stream);
        }
        (known.dropped, known.lingers) = (true, true);
    }

    /// Whether nothing waits to be said, and the peer has all that was.
    pub fn has_said_all(&self) -> bool {
        let waits = |stream: &Stream| {
            let outgoing = &stream.outgoing;
            stream.reset.is_none() && (!outgoing.buffer.is_empty() || outgoing.finish && !outgoing.end_framed)
        };
        self.control.is_empty() && self.writer.is_released() && !self.streams.values().any(waits)
    }

    /// Forgets a stream that is over for both sides and for the application.
    fn forget(&mut self, stream: StreamId) {
        let Some(known) = self.streams.get(&stream) else { return };
        let ended = known.outgoing.end_framed && (!known.lingers || known.incoming.is_complete());
        if known.dropped && (known.reset.is_some() || ended) {
            self.windows -= known.incoming.window - FIRST_WINDOW;
            self.unread.remove(known.incoming.held() as u64);
            self.peer_streams -= usize::from(self.is_peers(stream));
            self.streams.remove(&stream);
        }
    }

    fn is_peers(&self, stream: StreamId) -> bool {
        (stream & 1 == 0) != self.config.calls
    }

    /// Whether something waits to be framed that no call of [`write`](Self::write) has announced: windows and resets.
    pub fn has_control(&self) -> bool {
        !self.control.is_empty()
    }

    /// Frames what there is to send, as far as the transport has sent what was framed before; the bytes that are new to
    /// the transport.
    pub fn produce(&mut self) -> u64 {
        self.follow_transport();
        self.frame_controls();
        let (mut granted, mut turns, mut turn) = (0, 0, Turn::default());
        while granted < self.unsent_room() {
            if turns == 0 {
                // Those whose turn it is to fill do so after this: nobody has a second turn before.
                if granted > 0 {
                    break;
                }
                turns = self.fresh.len() + self.queue.len();
                turn = Turn { cells: self.turn_cells(turns), alone: turns == 1 };
            }
            let Some(stream) = self.fresh.pop_front().or_else(|| self.queue.pop_front()) else { break };
            turns -= 1;
            if self.has_something(stream) && self.take_turn(stream, turn) {
                granted += (turn.cells * CELL_BYTES) as u64;
            }
        }
        self.writer.take_new()
    }

    /// Lets as much wait as the transport takes at once. The more that is, the fewer calls all of it takes.
    fn follow_transport(&mut self) {
        let (asked, left) = (self.writer.take_asked(), self.writer.left());
        self.unsent = match asked {
            // It may not have been its turn.
            0 => self.unsent,
            _ if left > 0 => asked,
            _ if asked >= self.unsent => 2 * self.unsent,
            _ if asked < self.unsent / 2 => self.unsent / 2,
            _ => self.unsent,
        };
        self.unsent = self.unsent.clamp(UNSENT_BYTES, GREATEST_UNSENT);
    }

    /// Bytes that may be framed before enough waits for the transport, or for the peer: what a peer says of its window, and how
    /// long it takes to acknowledge, does not decide how much is kept for it.
    fn unsent_room(&self) -> u64 {
        let kept = self.config.receive_buffer.saturating_add(self.unsent);
        self.unsent.saturating_sub(self.writer.waiting()).min(kept.saturating_sub(self.writer.held()))
    }

    /// Cells of a turn while so many streams take turns.
    fn turn_cells(&self, streams: usize) -> usize {
        let bytes = (self.unsent / TURNS).max(self.unsent_room() / streams.max(1) as u64);
        bytes.div_ceil(CELL_BYTES as u64) as usize
    }

    /// Gives a stream its turn. Whether it has yet to [fill](Self::fill) what goes out.
    fn take_turn(&mut self, stream: StreamId, turn: Turn) -> bool {
        // Its next turn is among the others, whether it has more or not: else it would always go first.
        self.queue.push_back(stream);
        let Some(Stream { outgoing, .. }) = self.streams.get_mut(&stream) else { return false };
        if !outgoing.wants || !outgoing.buffer.is_empty() {
            self.frame_data(stream, bytes_of(turn.cells));
            return false;
        }
        outgoing.wants = false;
        outgoing.turn = if turn.alone { 0 } else { bytes_of(turn.cells) };
        self.events.push_back(StreamEvent::Writable(stream));
        true
    }

    /// Frames what goes before data.
    fn frame_controls(&mut self) {
        while self.unsent_room() > 0 {
            let Some(control) = self.control.pop_front() else { break };
            self.frame_control(control);
        }
    }

    fn frame_control(&mut self, control: Control) {
        match control {
            Control::Open(stream, header) => self.writer.push(&StreamFrame::Open { stream, header: &header }),
            Control::Reset(stream, code) => {
                self.answers -= usize::from(self.is_peers(stream));
                self.writer.push(&StreamFrame::Reset { stream, code });
            }
            Control::Window(stream) => {
                if let Some(known) = self.streams.get(&stream).filter(|known| known.reset.is_none()) {
                    self.writer.push(&StreamFrame::Window { stream, limit: known.incoming.granted });
                }
            }
        }
    }

    fn frame_data(&mut self, stream: StreamId, mut turn: usize) {
        // Worth a call: who waits would be told of every frame.
        let few = self.send_buffer() / 2;
        let Some(known) = self.streams.get_mut(&stream) else { return };
        let outgoing = &mut known.outgoing;
        if known.reset.is_some() || !outgoing.has_something() {
            return;
        }
        while turn > 0 && !outgoing.buffer.is_empty() && outgoing.framed < outgoing.limit {
            // What does not lie in one piece makes two frames.
            let bytes = outgoing.buffer.as_slices().0;
            let bytes = &bytes[..bytes.len().min(turn)];
            let count = push_data(&mut self.writer, stream, outgoing.framed, outgoing.limit, bytes);
            outgoing.framed += count as u64;
            self.counts.sent_bytes += count as u64;
            outgoing.buffer.drain(..count);
            turn -= count;
            if outgoing.blocked && outgoing.buffer.len() <= few {
                outgoing.blocked = false;
                self.events.push_back(StreamEvent::Writable(stream));
            }
        }
        if outgoing.finish && outgoing.buffer.is_empty() && !outgoing.end_framed {
            outgoing.end_framed = true;
            self.writer.push(&StreamFrame::End { stream, size: outgoing.framed });
            self.ends.push_back((self.writer.end(), stream));
            self.forget(stream);
        }
    }

    /// Whether a stream whose turn has come has anything for it; if not, it has no turn any more.
    fn has_something(&mut self, stream: StreamId) -> bool {
        let Some(known) = self.streams.get_mut(&stream) else { return false };
        known.outgoing.queued = known.reset.is_none() && known.outgoing.has_something();
        known.outgoing.queued
    }

    /// Copies what the transport is to send from `offset` on.
    pub fn read_sent(&mut self, offset: u64, into: &mut [u8]) {
        self.writer.read(offset, into);
    }

    /// The peer has all bytes up to here.
    pub fn release(&mut self, up_to: u64) {
        self.writer.release(up_to);
        while let Some(&(_, stream)) = self.ends.front().filter(|(end, _)| *end <= up_to) {
            self.ends.pop_front();
            let Some(known) = self.streams.get_mut(&stream) else { continue };
            known.outgoing.end_released = true;
            if known.outgoing.awaited {
                self.events.push_back(StreamEvent::Writable(stream));
            }
        }
    }

    /// Whether the peer has all that a stream has sent, and its end; if not, [`StreamEvent::Writable`] follows when it has.
    pub fn has_delivered(&mut self, stream: StreamId) -> bool {
        let Some(known) = self.streams.get_mut(&stream) else { return false };
        known.outgoing.awaited = true;
        known.outgoing.end_released
    }

    /// Takes bytes of the transport's stream, in any order.
    pub fn receive(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Violation> {
        let mut reader = std::mem::take(&mut self.reader);
        let mut violation = None;
        let received = reader.receive(offset, bytes, &mut |frame| {
            self.handle(&frame).map_err(|why| {
                violation = Some(why);
                NotFrames
            })
        });
        self.reader = reader;
        received.map_err(|NotFrames| violation.unwrap_or(Violation::Frames))
    }

    /// What happened, oldest first.
    pub fn poll_event(&mut self) -> Option<StreamEvent> {
        self.events.pop_front()
    }

    /// The stream that a frame is of, made if the peer may open it. `None` if it is over.
    fn stream_of(&mut self, stream: StreamId) -> Result<Option<&mut Stream>, Violation> {
        if self.streams.contains_key(&stream) {
            return Ok(self.streams.get_mut(&stream));
        }
        if !self.is_peers(stream) {
            return if stream < self.next_own { Ok(None) } else { Err(Violation::Stream) };
        }
        if stream < self.peer_first || self.peer_seen.contains(&stream) {
            return Ok(None);
        }
        if stream - self.peer_first > NUMBERS_AHEAD {
            return Err(Violation::Stream);
        }
        self.peer_seen.insert(stream);
        while self.peer_seen.remove(&self.peer_first) {
            self.peer_first += 2;
        }
        // Also of streams that the application has refused: it forgets them, and they make room for others.
        if self.answers > 4 * self.config.max_streams + 16 {
            return Err(Violation::Answers);
        }
        if self.peer_streams >= self.config.max_streams {
            self.counts.refused += 1;
            self.say_reset(stream, reset_code::TOO_MANY);
            return Ok(None);
        }
        self.peer_streams += 1;
        self.counts.opened += 1;
        Ok(Some(self.streams.entry(stream).or_insert_with(|| Stream::new(false))))
    }

    fn handle(&mut self, frame: &StreamFrame<'_>) -> Result<(), Violation> {
        match *frame {
            StreamFrame::Open { stream, header } => {
                if !self.is_peers(stream) {
                    return Err(Violation::Stream);
                }
                let Some(known) = self.stream_of(stream)? else { return Ok(()) };
                if std::mem::replace(&mut known.announced, true) {
                    return Err(Violation::Stream);
                }
                let readable = !known.incoming.ready.is_empty() || known.incoming.is_complete();
                let reset = known.reset;
                self.events.push_back(StreamEvent::Opened { stream, header: header.to_vec() });
                if readable {
                    self.events.push_back(StreamEvent::Readable(stream));
                }
                if let Some(code) = reset {
                    self.events.push_back(StreamEvent::Reset { stream, code });
                }
            }
            StreamFrame::Data { stream, offset, bytes } => {
                let Some(known) = self.stream_of(stream)? else { return Ok(()) };
                if known.reset.is_some() {
                    return Ok(());
                }
                if known.lingers {
                    self.reset(stream, reset_code::ABORTED);
                    self.forget(stream);
                    return Ok(());
                }
                let (before, held) = (known.incoming.received, known.incoming.held());
                // Who left something there knows of it.
                let unknown = known.incoming.ready.is_empty() && known.announced;
                let tells = known.incoming.insert(offset, bytes)? && unknown;
                let (received, holds) = (known.incoming.received - before, known.incoming.held());
                self.counts.received_bytes += received;
                // Of bytes that came twice, fewer are held than before.
                self.unread.remove(held.saturating_sub(holds) as u64);
                self.unread.add(holds.saturating_sub(held) as u64);
                if tells {
                    self.events.push_back(StreamEvent::Readable(stream));
                }
                while self.must_give_way() {
                    self.reset_fullest();
                }
            }
            StreamFrame::End { stream, size } => {
                let Some(known) = self.stream_of(stream)? else { return Ok(()) };
                let incoming = &mut known.incoming;
                let farthest = incoming.ahead.last_key_value().map_or(0, |(offset, bytes)| offset + bytes.len() as u64);
                if incoming.size.is_some() || size < incoming.received.max(farthest) || size > incoming.granted {
                    return Err(Violation::Window);
                }
                incoming.size = Some(size);
                if known.announced && known.incoming.is_complete() {
                    self.events.push_back(StreamEvent::Readable(stream));
                }
                self.forget(stream);
            }
            StreamFrame::Reset { stream, code } => {
                let Some(known) = self.stream_of(stream)? else { return Ok(()) };
                if known.reset.replace(code).is_none() {
                    known.outgoing.buffer = VecDeque::new();
                    let freed = known.incoming.clear();
                    if known.announced {
                        self.events.push_back(StreamEvent::Reset { stream, code });
                    }
                    self.unread.remove(freed);
                    // One that was let go has nothing more to frame.
                    self.forget(stream);
                }
            }
            StreamFrame::Window { stream, limit } => {
                let Some(known) = self.stream_of(stream)? else { return Ok(()) };
                known.outgoing.limit = known.outgoing.limit.max(limit);
                self.enqueue(stream);
            }
        }
        Ok(())
    }
}

/// A stream's bytes that fill so many cells.
fn bytes_of(cells: usize) -> usize {
    cells * (CELL_BYTES - DATA_OVERHEAD)
}

/// Frames as much of a stream's bytes from `offset` on as fits the cell, and its window up to `limit`; how much that was.
fn push_data(writer: &mut CellWriter, stream: StreamId, offset: u64, limit: u64, bytes: &[u8]) -> usize {
    let room = match writer.room() {
        room if room < LEAST_ROOM => CELL_BYTES,
        room => room,
    };
    let count = bytes.len().min(room - DATA_OVERHEAD).min((limit - offset) as usize);
    writer.push(&StreamFrame::Data { stream, offset, bytes: &bytes[..count] });
    count
}
