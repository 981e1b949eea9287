//! Two multiplexers and what a transport does to the bytes between them, against what each application has written.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;

use pliant_proto::contract::Contract;
use proptest::prelude::*;

use super::cells::CellWriter;
use super::frame::StreamFrame;
use super::*;
use crate::driver::{Application, PayloadLocation};
use crate::poll::PollWaker;

const RECEIVE_BUFFER: u64 = 32 << 10;
/// More than sixteen streams may send.
const MAX_UNREAD: u64 = 32 << 20;

fn config(calls: bool) -> MultiplexerConfig {
    MultiplexerConfig {
        calls,
        max_streams: 16,
        window_budget: 1 << 20,
        max_unread: MAX_UNREAD,
        receive_buffer: RECEIVE_BUFFER,
    }
}

/// The byte that an application writes at a place of a stream.
fn byte(from: usize, stream: StreamId, offset: u64) -> u8 {
    (offset.wrapping_mul(31) ^ u64::from(stream).wrapping_mul(101) ^ from as u64) as u8
}

/// What one application knows of a stream.
#[derive(Default)]
struct Known {
    written: u64,
    finished: bool,
    read: u64,
    ended: bool,
    reset: bool,
    /// It has let the stream go.
    dropped: bool,
}

/// One side: a multiplexer, its application, and the transport's stream from it.
struct End {
    multiplexer: Multiplexer,
    streams: BTreeMap<StreamId, Known>,
    available: u64,
    sent: u64,
    delivered: u64,
    /// Segments under way, or lost and to be sent again.
    segments: Vec<(u64, usize)>,
    /// Of the other side's stream, what has arrived beyond `delivered`.
    arrived: BTreeMap<u64, u64>,
}

impl End {
    fn new(calls: bool) -> Self {
        Self {
            multiplexer: Multiplexer::new(config(calls)),
            streams: BTreeMap::new(),
            available: 0,
            sent: 0,
            delivered: 0,
            segments: Vec::new(),
            arrived: BTreeMap::new(),
        }
    }

    /// Notes what happened.
    fn hear(&mut self) {
        while let Some(event) = self.multiplexer.poll_event() {
            if let StreamEvent::Readable(stream) | StreamEvent::Writable(stream) | StreamEvent::Reset { stream, .. } =
                event
                && self.streams.get(&stream).is_some_and(|known| known.dropped)
            {
                continue;
            }
            match event {
                StreamEvent::Opened { stream, header } => {
                    assert_eq!(header, stream.to_be_bytes());
                    assert!(self.streams.insert(stream, Known::default()).is_none());
                }
                StreamEvent::Reset { stream, .. } => self.streams.get_mut(&stream).unwrap().reset = true,
                StreamEvent::Readable(stream) => assert!(self.streams.contains_key(&stream)),
                StreamEvent::Writable(_) => {}
            }
        }
    }
}

struct Pair([End; 2]);

impl Pair {
    fn new() -> Self {
        Self([End::new(true), End::new(false)])
    }

    /// Sends a segment if the peer's window allows it.
    fn send(&mut self, from: usize, size: usize) {
        let end = &mut self.0[from];
        end.available += end.multiplexer.produce();
        let size = (size as u64).min(end.available - end.sent).min(end.delivered + RECEIVE_BUFFER - end.sent);
        if size > 0 {
            end.segments.push((end.sent, size as usize));
            end.sent += size;
            // The first transmission is read.
            let mut bytes = vec![0; size as usize];
            end.multiplexer.read_sent(end.sent - size, &mut bytes);
        }
    }

    /// One of the segments arrives, whole or only its end; the rest comes later.
    fn arrive(&mut self, from: usize, which: usize, part: usize) {
        let [first, second] = &mut self.0;
        let (sender, receiver) = if from == 0 { (first, second) } else { (second, first) };
        if sender.segments.is_empty() {
            return;
        }
        let at = which % sender.segments.len();
        let (offset, size) = sender.segments.swap_remove(at);
        let kept = part % size;
        if kept > 0 {
            sender.segments.push((offset, kept));
        }
        let (offset, size) = (offset + kept as u64, size - kept);
        let mut bytes = vec![0; size];
        sender.multiplexer.read_sent(offset, &mut bytes);
        receiver.multiplexer.receive(offset, &bytes).unwrap();
        receiver.arrived.insert(offset, offset + size as u64);
        while let Some(end) = receiver.arrived.remove(&sender.delivered) {
            sender.delivered = end;
        }
        sender.multiplexer.release(sender.delivered);
        receiver.hear();
    }

    fn open(&mut self, at: usize) {
        let end = &mut self.0[at];
        if end.streams.len() < 16 {
            let stream = end.multiplexer.next_number();
            assert_eq!(end.multiplexer.open(stream.to_be_bytes().to_vec()), stream);
            end.streams.insert(stream, Known::default());
        }
    }

    fn stream(&self, at: usize, which: usize) -> Option<StreamId> {
        let held = self.0[at].streams.iter().filter(|(_, known)| !known.dropped);
        let streams: Vec<StreamId> = held.map(|(stream, _)| *stream).collect();
        streams.get(which.checked_rem(streams.len())?).copied()
    }

    fn write(&mut self, at: usize, which: usize, size: usize) {
        let Some(stream) = self.stream(at, which) else { return };
        let end = &mut self.0[at];
        let known = end.streams.get_mut(&stream).unwrap();
        let bytes: Vec<u8> = (known.written..).take(size).map(|offset| byte(at, stream, offset)).collect();
        match end.multiplexer.write(stream, &bytes) {
            Some(taken) => {
                assert!(!known.finished);
                known.written += taken as u64;
            }
            None => assert!(known.finished || known.reset),
        }
    }

    /// Writes to where it goes out from, once it is its turn.
    fn fill(&mut self, at: usize, which: usize, size: usize) {
        let Some(stream) = self.stream(at, which) else { return };
        let end = &mut self.0[at];
        let known = end.streams.get_mut(&stream).unwrap();
        let first = known.written;
        let filled = end.multiplexer.fill(stream, |places| {
            let bytes = places.iter_mut().flat_map(|place| place.iter_mut()).take(size);
            let written = bytes.zip(first..).map(|(to, offset)| *to = byte(at, stream, offset)).count();
            Ok::<_, std::convert::Infallible>(written)
        });
        match filled {
            Some(Ok(written)) => {
                assert!(!known.finished && !known.reset);
                known.written += written as u64;
            }
            None => assert!(known.finished || known.reset),
        }
    }

    fn finish(&mut self, at: usize, which: usize) {
        let Some(stream) = self.stream(at, which) else { return };
        let end = &mut self.0[at];
        end.multiplexer.finish(stream);
        end.streams.get_mut(&stream).unwrap().finished = true;
    }

    fn reset(&mut self, at: usize, which: usize) {
        let Some(stream) = self.stream(at, which) else { return };
        let end = &mut self.0[at];
        end.multiplexer.reset(stream, reset_code::ABORTED);
        end.streams.get_mut(&stream).unwrap().reset = true;
    }

    fn let_go(&mut self, at: usize, which: usize) {
        let Some(stream) = self.stream(at, which) else { return };
        let end = &mut self.0[at];
        end.multiplexer.drop_stream(stream);
        end.streams.get_mut(&stream).unwrap().dropped = true;
    }

    /// Something that the peer may have comes once more: an acknowledgement was late.
    fn repeat(&mut self, from: usize, back: u64, size: usize) {
        let [first, second] = &mut self.0;
        let (sender, receiver) = if from == 0 { (first, second) } else { (second, first) };
        let offset = sender.sent.saturating_sub(back).max(sender.delivered);
        let mut bytes = vec![0; size.min((sender.sent - offset) as usize)];
        if !bytes.is_empty() {
            sender.multiplexer.read_sent(offset, &mut bytes);
            // It is as good as the first time; what the transport makes of that is not told here.
            receiver.multiplexer.receive(offset, &bytes).unwrap();
            receiver.hear();
        }
    }

    /// What both hold is what their streams may let wait, the peer may have unread, and the transport has under way.
    fn assert_bounded(&self) {
        let most = 16 * (64 << 10) + MAX_UNREAD + RECEIVE_BUFFER + (256 << 10) + (20 << 10);
        for end in &self.0 {
            assert!(end.multiplexer.held_bytes() <= most, "{} of {most}", end.multiplexer.held_bytes());
        }
    }

    /// Reads and compares; true if there was something.
    fn read(&mut self, at: usize, stream: StreamId, size: usize) -> bool {
        let end = &mut self.0[at];
        let known = end.streams.get_mut(&stream).unwrap();
        let mut bytes = vec![0; size.max(1)];
        match end.multiplexer.read(stream, &mut bytes) {
            ReadOutcome::Bytes(count) => {
                let expected: Vec<u8> = (known.read..).take(count).map(|offset| byte(1 - at, stream, offset)).collect();
                assert_eq!(bytes[..count], expected, "stream {stream} from {}", known.read);
                known.read += count as u64;
                true
            }
            ReadOutcome::Ended => {
                known.ended = true;
                false
            }
            ReadOutcome::Reset(_) => {
                assert!(known.reset);
                false
            }
            ReadOutcome::Nothing => false,
        }
    }

    /// Lets everything arrive, and reads what may be read, until nothing moves any more.
    fn settle(&mut self, reads: impl Fn(usize, StreamId) -> bool) {
        let mut still = 0;
        while still < 3 {
            let before = self.0.each_ref().map(|end| (end.sent, end.delivered));
            let mut moved = false;
            for at in [0, 1] {
                for _ in 0..64 {
                    self.send(at, 1400);
                }
                while !self.0[at].segments.is_empty() {
                    self.arrive(at, 0, 0);
                }
                let held = self.0[at].streams.iter().filter(|(_, known)| !known.dropped);
                for stream in held.map(|(stream, _)| *stream).collect::<Vec<_>>() {
                    while reads(at, stream) && self.read(at, stream, 5000) {
                        moved = true;
                    }
                }
            }
            let same = before == self.0.each_ref().map(|end| (end.sent, end.delivered));
            still = if same && !moved { still + 1 } else { 0 };
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Open(usize),
    Write(usize, usize, usize),
    Fill(usize, usize, usize),
    Finish(usize, usize),
    Reset(usize, usize),
    Read(usize, usize, usize),
    Send(usize, usize),
    Arrive(usize, usize, usize),
    Repeat(usize, u64, usize),
    LetGo(usize, usize),
}

fn step() -> impl Strategy<Value = Step> {
    let side = || 0usize..2;
    prop_oneof![
        1 => side().prop_map(Step::Open),
        6 => (side(), 0usize..16, 1usize..9000).prop_map(|(at, which, size)| Step::Write(at, which, size)),
        6 => (side(), 0usize..16, 1usize..30_000).prop_map(|(at, which, size)| Step::Fill(at, which, size)),
        1 => (side(), 0usize..16).prop_map(|(at, which)| Step::Finish(at, which)),
        1 => (side(), 0usize..64).prop_filter("seldom", |(_, which)| *which < 8).prop_map(|(at, which)| Step::Reset(at, which)),
        4 => (side(), 0usize..16, 1usize..9000).prop_map(|(at, which, size)| Step::Read(at, which, size)),
        8 => (side(), 1usize..1400).prop_map(|(from, size)| Step::Send(from, size)),
        8 => (side(), 0usize..64, 0usize..1400).prop_map(|(from, which, part)| Step::Arrive(from, which, part)),
        2 => (side(), 0u64..20_000, 1usize..3000).prop_map(|(from, back, size)| Step::Repeat(from, back, size)),
        1 => (side(), 0usize..64).prop_filter("seldom", |(_, which)| *which < 16).prop_map(|(at, which)| Step::LetGo(at, which)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    /// Whatever applications do, and in whichever order and pieces the bytes arrive: every byte of every stream comes once,
    /// in order, to the right stream; a stream that was finished and not reset ends behind its last byte.
    #[test]
    fn every_byte_comes_once_to_its_stream(steps in prop::collection::vec(step(), 0..400)) {
        let mut pair = Pair::new();
        for step in steps {
            match step {
                Step::Open(at) => pair.open(at),
                Step::Write(at, which, size) => pair.write(at, which, size),
                Step::Fill(at, which, size) => pair.fill(at, which, size),
                Step::Finish(at, which) => pair.finish(at, which),
                Step::Reset(at, which) => pair.reset(at, which),
                Step::Read(at, which, size) => {
                    if let Some(stream) = pair.stream(at, which) {
                        pair.read(at, stream, size);
                    }
                }
                Step::Send(from, size) => pair.send(from, size),
                Step::Arrive(from, which, part) => pair.arrive(from, which, part),
                Step::Repeat(from, back, size) => pair.repeat(from, back, size),
                Step::LetGo(at, which) => pair.let_go(at, which),
            }
            pair.assert_bounded();
        }
        pair.settle(|_, _| true);
        let [first, second] = &pair.0;
        for (writer, reader) in [(first, second), (second, first)] {
            for (stream, wrote) in &writer.streams {
                let Some(read) = reader.streams.get(stream) else {
                    prop_assert!(wrote.reset || wrote.dropped, "stream {} never came", stream);
                    continue;
                };
                // What came was compared. Whoever still holds a stream that the other has let go has seen its end.
                if wrote.dropped || read.dropped {
                    prop_assert!(read.dropped || read.reset || read.ended && wrote.written == read.read);
                    continue;
                }
                prop_assert_eq!(wrote.reset, read.reset);
                if !wrote.reset {
                    prop_assert_eq!(wrote.written, read.read, "stream {}", stream);
                    prop_assert_eq!(wrote.finished, read.ended);
                }
            }
        }
    }

    /// Any bytes at all: no panic, and what is kept is bounded.
    #[test]
    fn nonsense_is_refused_or_kept_within_bounds(
        parts in prop::collection::vec((0u64..200_000, prop::collection::vec(0u8..8, 0..2000)), 0..60),
    ) {
        let mut multiplexer = Multiplexer::new(config(false));
        for (offset, bytes) in parts {
            if multiplexer.receive(offset, &bytes).is_err() {
                break;
            }
        }
        prop_assert!(multiplexer.streams() <= 16);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    /// Streams that always have more to send go equally fast, and one that has little now and then waits for what was framed
    /// and for one turn, not for one of each.
    #[test]
    fn turns_are_fair(bulk in 3usize..8, rounds in 2u64..12) {
        let mut pair = Pair::new();
        (0..=bulk).for_each(|_| pair.open(0));
        let streams: Vec<StreamId> = pair.0[0].streams.keys().copied().collect();
        let carry = |pair: &mut Pair, from: usize, segments: usize| {
            for _ in 0..segments {
                pair.send(from, 1400);
                pair.arrive(from, 0, 0);
            }
        };
        for round in 1..=rounds {
            (0..bulk).for_each(|which| pair.write(0, which, 64 << 10));
            carry(&mut pair, 0, 40);
            pair.write(0, bulk, 100);
            carry(&mut pair, 0, 60);
            for stream in &streams {
                while pair.0[1].streams.contains_key(stream) && pair.read(1, *stream, 64 << 10) {}
            }
            carry(&mut pair, 1, 4);
            prop_assert_eq!(pair.0[1].streams[&streams[bulk]].read, 100 * round);
        }
        let read: Vec<u64> = streams[..bulk].iter().map(|stream| pair.0[1].streams[stream].read).collect();
        // The first was alone when it began, and sent as much as the transport lets be framed.
        let most = (64 << 10) + 3 * (16 << 10);
        prop_assert!(read.iter().max().unwrap() - read.iter().min().unwrap() <= most, "{:?}", read);
    }
}

/// A stream whose reader has stopped holds up nobody: what another stream carries all comes.
#[test]
fn a_stalled_reader_holds_up_its_stream_alone() {
    let mut pair = Pair::new();
    pair.open(0);
    pair.open(0);
    for _ in 0..200 {
        pair.write(0, 0, 64 << 10);
        pair.write(0, 1, 64 << 10);
        pair.settle(|_, stream| stream == 2);
    }
    let (stalled, live) = (&pair.0[0].streams[&0], &pair.0[0].streams[&2]);
    assert_eq!(pair.0[1].streams[&2].read, live.written);
    assert!(live.written > 5 << 20, "{}", live.written);
    // Its window and what waits to be framed.
    assert!(stalled.written <= 128 << 10, "{}", stalled.written);
    pair.settle(|_, _| true);
    assert_eq!(pair.0[1].streams[&0].read, pair.0[0].streams[&0].written);
}

/// A peer that sends on many streams that nobody reads fills what there is for unread bytes and no more: streams that hold
/// up most are reset, and a stream that is read goes on. What is read, or reset, makes room again.
#[test]
fn unread_bytes_are_bounded() {
    let mut pair = Pair::new();
    let most = 400 << 10;
    pair.0[1].multiplexer.set_limits(16, 1 << 20, most);
    for _ in 0..12 {
        pair.open(0);
    }
    for _ in 0..4 {
        for which in 0..12 {
            pair.write(0, which, 64 << 10);
        }
        pair.settle(|_, stream| stream == 0);
    }
    let reader = &pair.0[1];
    let reset = reader.streams.values().filter(|known| known.reset).count();
    assert!(reset >= 12 - 1 - (most >> 16) as usize && !reader.streams[&0].reset, "{reset}");
    assert!(reader.multiplexer.held_bytes() <= most + (16 << 10), "{}", reader.multiplexer.held_bytes());
    pair.write(0, 0, 64 << 10);
    pair.settle(|_, _| true);
    assert_eq!(pair.0[1].streams[&0].read, pair.0[0].streams[&0].written);
    // All of it is free again.
    pair.open(0);
    pair.write(0, 12, 64 << 10);
    pair.settle(|_, _| true);
    let (last, known) = pair.0[1].streams.last_key_value().unwrap();
    assert_eq!((*last, known.reset, known.read), (24, false, 64 << 10));
}

/// However many streams wait for a peer that takes nothing, what they hold together is bounded.
#[test]
fn unsent_bytes_are_bounded() {
    let mut multiplexer = Multiplexer::new(config(true));
    let bytes = vec![0; 64 << 10];
    let mut taken = 0;
    for _ in 0..10_000 {
        let stream = multiplexer.open(Vec::new());
        taken += multiplexer.write(stream, &bytes).unwrap();
    }
    // 64 KiB of 1,024 streams, and of every later one 64 MiB over their number: 64 MiB (1 + ln(10,000 / 1,024)).
    assert!((209 << 20..211 << 20).contains(&taken), "{taken}");
    let stream = multiplexer.open(Vec::new());
    let most = (64 << 20) / 10_001;
    assert_eq!(multiplexer.write(stream, &bytes), Some(most));
    assert_eq!(multiplexer.write(stream, &bytes), Some(0));
}

/// Fills all that is shown.
fn fill_all(multiplexer: &mut Multiplexer, stream: StreamId) -> usize {
    let all =
        |places: &mut [&mut [u8]]| Ok::<_, std::convert::Infallible>(places.iter().map(|place| place.len()).sum());
    let Ok(count) = multiplexer.fill(stream, all).expect("it is not over");
    count
}

/// The peer takes as much of a stream as it may have.
fn grant(multiplexer: &mut Multiplexer, stream: StreamId, limit: u64) {
    let granted = super::frame::StreamFrame::Window { stream, limit };
    multiplexer.receive(u64::from(stream) / 2 * 13, granted.head().as_slice()).unwrap();
}

/// The streams that are told to fill more.
fn told(multiplexer: &mut Multiplexer) -> Vec<StreamId> {
    let stream = |event| match event {
        StreamEvent::Writable(stream) => stream,
        other => panic!("{other:?}"),
    };
    std::iter::from_fn(|| multiplexer.poll_event()).map(stream).collect()
}

/// A stream that fills what goes out is shown as much as may wait, twice as much as it has used at the least, and is told
/// when there is room again, or the peer takes more.
#[test]
fn a_stream_fills_what_may_wait() {
    let mut multiplexer = Multiplexer::new(config(true));
    let stream = multiplexer.open(Vec::new());
    let mut filled = Vec::new();
    while let count @ 1.. = fill_all(&mut multiplexer, stream) {
        filled.push(count);
    }
    assert!(filled.len() > 4 && filled.windows(2).take(3).all(|pair| pair[1] > pair[0]), "{filled:?}");
    let waiting = multiplexer.unsent_bytes();
    assert!((64 << 10..(64 << 10) + 64).contains(&waiting), "{waiting}");
    let framed = multiplexer.produce();
    assert_eq!((framed, multiplexer.poll_event()), (waiting, None), "the transport has taken nothing");
    multiplexer.read_sent(0, &mut vec![0; framed as usize]);
    multiplexer.produce();
    assert_eq!(told(&mut multiplexer), [stream]);
    let rest = fill_all(&mut multiplexer, stream);
    assert_eq!(filled.iter().sum::<usize>() + rest, 64 << 10, "the peer's first window");
    assert_eq!(fill_all(&mut multiplexer, stream), 0, "the peer takes no more");
    multiplexer.produce();
    assert_eq!(told(&mut multiplexer), []);
    grant(&mut multiplexer, stream, 1 << 20);
    multiplexer.produce();
    assert_eq!(told(&mut multiplexer), [stream]);
    assert!(fill_all(&mut multiplexer, stream) > 0);
}

/// Streams that fill what goes out take turns, each as much at once as a quarter of what may wait. With one that writes, all get
/// as much; one that comes goes first.
#[test]
fn streams_fill_in_turns() {
    let mut multiplexer = Multiplexer::new(MultiplexerConfig { receive_buffer: 1 << 30, ..config(true) });
    let streams: [StreamId; 8] = std::array::from_fn(|_| multiplexer.open(Vec::new()));
    let [fillers @ .., writer, late] = streams;
    for stream in &streams {
        grant(&mut multiplexer, *stream, 1 << 30);
    }
    let mut said = multiplexer.produce();
    let mut amounts = BTreeMap::<StreamId, u64>::new();
    let mut asks = fillers.to_vec();
    for round in 0..100 {
        if round == 90 {
            // It has waited for nothing yet.
            asks.insert(0, late);
        }
        let written = multiplexer.write(writer, &vec![0; 64 << 10]).unwrap() as u64;
        *amounts.entry(writer).or_default() += written;
        // What is told fills, until enough waits. Then the transport takes all of it.
        while !asks.is_empty() {
            for stream in asks {
                let filled = std::iter::from_fn(|| Some(fill_all(&mut multiplexer, stream)));
                let filled = filled.take_while(|count| *count > 0).sum::<usize>() as u64;
                *amounts.entry(stream).or_default() += filled;
                // What may wait has grown.
                assert!(round < 10 || filled == 16 * (4096 - 15), "{round}: {filled}");
            }
            said += multiplexer.produce();
            asks = told(&mut multiplexer);
            asks.retain(|stream| *stream != writer);
        }
        assert!(multiplexer.unsent_bytes() >= 64 << 10);
        multiplexer.read_sent(0, &mut vec![0; said as usize]);
        said += multiplexer.produce();
        asks = told(&mut multiplexer);
        asks.retain(|stream| *stream != writer);
    }
    let bulk = |stream: &StreamId| amounts[stream];
    let [least, most] = [fillers.iter().map(bulk).min(), fillers.iter().map(bulk).max()].map(Option::unwrap);
    assert!(least > 1 << 20 && most - least <= 128 << 10, "{amounts:?}");
    // What it has written waits for its turn.
    assert!(amounts[&writer].abs_diff(least) <= 192 << 10, "{amounts:?}");
}

/// What may wait for the transport grows to a quarter of a megabyte while the transport takes all of it at once, and falls
/// to what it takes, but not below 64 KiB. Who waits for room is told.
#[test]
fn what_may_wait_follows_the_transport() {
    let mut multiplexer = Multiplexer::new(MultiplexerConfig { receive_buffer: 1 << 30, ..config(true) });
    let stream = multiplexer.open(Vec::new());
    grant(&mut multiplexer, stream, 1 << 30);
    let mut said = 0;
    // Fills all there is room for, and lets the transport take so many bytes; how many waited.
    let mut run = |multiplexer: &mut Multiplexer, takes: u64| {
        said += multiplexer.produce();
        while fill_all(multiplexer, stream) > 0 {}
        said += multiplexer.produce();
        let waiting = multiplexer.unsent_bytes();
        let takes = takes.min(waiting);
        multiplexer.read_sent(said - waiting, &mut vec![0; takes as usize]);
        waiting >> 10
    };
    let waits: Vec<u64> = (0..5).map(|_| run(&mut multiplexer, u64::MAX)).collect();
    assert_eq!(waits, [64, 128, 256, 256, 256]);
    assert_eq!(multiplexer.poll_event(), Some(StreamEvent::Writable(stream)));
    let waits: Vec<u64> = (0..30).map(|_| run(&mut multiplexer, 10 << 10)).collect();
    assert_eq!((waits[0], waits[1] < 256, waits[29]), (256, true, 64));
}

/// What the transport has asked for is on its way, and still held until the peer has it.
#[test]
fn what_is_on_its_way_is_not_unsent() {
    let mut multiplexer = Multiplexer::new(config(true));
    let stream = multiplexer.open(Vec::new());
    multiplexer.write(stream, &vec![0; 60 << 10]).unwrap();
    multiplexer.produce();
    let all = multiplexer.unsent_bytes();
    assert!(all >= 60 << 10 && all == multiplexer.held_bytes(), "{all}");
    multiplexer.read_sent(0, &mut vec![0; 10_000]);
    assert_eq!((multiplexer.unsent_bytes(), multiplexer.held_bytes()), (all - 10_000, all));
}

/// Streams beyond the limit are reset and cost nothing; numbers far ahead are refused.
#[test]
fn streams_beyond_the_limit_are_reset() {
    let mut pair = Pair::new();
    for _ in 0..16 {
        pair.open(0);
    }
    let end = &mut pair.0[0];
    let beyond = end.multiplexer.open(32u32.to_be_bytes().to_vec());
    end.streams.insert(beyond, Known::default());
    pair.settle(|_, _| true);
    assert_eq!(pair.0[1].streams.len(), 16);
    assert!(pair.0[0].streams[&beyond].reset);
    assert_eq!(pair.0[1].multiplexer.streams(), 16);
    let mut hostile = Multiplexer::new(config(false));
    let frame = StreamFrame::End { stream: 1 << 20, size: 0 };
    assert_eq!(hostile.receive(0, frame.head().as_slice()), Err(Violation::Stream));
}

/// A stream that both sides have finished, read and let go leaves nothing behind, however many there were.
#[test]
fn streams_that_are_over_leave_nothing() {
    let mut pair = Pair::new();
    for _ in 0..1000 {
        pair.open(0);
        pair.write(0, 0, 100);
        pair.finish(0, 0);
        pair.settle(|_, _| true);
        pair.finish(1, 0);
        pair.settle(|_, _| true);
        for end in &mut pair.0 {
            for stream in std::mem::take(&mut end.streams).into_keys() {
                end.multiplexer.drop_stream(stream);
            }
        }
        pair.settle(|_, _| true);
        assert_eq!(pair.0.each_ref().map(|end| end.multiplexer.streams()), [0, 0]);
    }
}

/// What one side has framed, brought to the other; how much the first has said so far.
fn carry(from: &mut Multiplexer, to: &mut Multiplexer, said: &mut u64) {
    let bytes = from.produce();
    let mut piece = vec![0; bytes as usize];
    from.read_sent(*said, &mut piece);
    to.receive(*said, &piece).unwrap();
    *said += bytes;
}

/// A side that has finished and read lets a stream go without a reset, and forgets it when the peer ends. A peer that sends
/// more is reset, as nobody reads it.
#[test]
fn a_stream_that_is_left_waits_for_its_peer() {
    for peer_goes_on in [false, true] {
        let [mut near, mut far] = [true, false].map(|calls| Multiplexer::new(config(calls)));
        let (mut near_said, mut far_said) = (0, 0);
        let stream = near.open(Vec::new());
        assert_eq!(near.write(stream, b"ask"), Some(3));
        near.finish(stream);
        assert!(!near.has_delivered(stream));
        carry(&mut near, &mut far, &mut near_said);
        assert!(!near.has_said_all(), "the peer may not have it");
        near.release(near_said);
        assert!(near.has_delivered(stream));
        assert_eq!(near.poll_event(), Some(StreamEvent::Writable(stream)), "somebody waited for it");
        near.leave(stream);
        assert!(near.has_said_all());
        assert_eq!((near.streams(), far.streams()), (1, 1));
        if peer_goes_on {
            assert_eq!(far.write(stream, b"more"), Some(4));
        } else {
            far.finish(stream);
        }
        carry(&mut far, &mut near, &mut far_said);
        assert_eq!(near.streams(), 0);
        carry(&mut near, &mut far, &mut near_said);
        assert_eq!(far.reset_of(stream), peer_goes_on.then_some(reset_code::ABORTED));
    }
}

/// A side that has read to the end, and written nothing, ends when it is let go. With something unread, or an answer that is
/// not finished, it is reset.
#[test]
fn a_stream_that_is_left_ends_only_if_nothing_is_missing() {
    for (reads, writes, ends) in [(true, false, true), (false, false, false), (true, true, false)] {
        let [mut near, mut far] = [true, false].map(|calls| Multiplexer::new(config(calls)));
        let (mut near_said, mut far_said) = (0, 0);
        let stream = near.open(Vec::new());
        near.write(stream, b"all").unwrap();
        near.finish(stream);
        carry(&mut near, &mut far, &mut near_said);
        if reads {
            assert_eq!(far.read(stream, &mut [0; 9]), ReadOutcome::Bytes(3));
        }
        if writes {
            far.write(stream, b"half").unwrap();
        }
        far.leave(stream);
        carry(&mut far, &mut near, &mut far_said);
        let expected = if ends { ReadOutcome::Ended } else { ReadOutcome::Reset(reset_code::ABORTED) };
        assert_eq!(near.read(stream, &mut [0; 9]), expected);
        assert_eq!(far.streams(), 0);
    }
}

/// A stream that was let go and is reset by the peer before its end was framed is forgotten.
#[test]
fn a_reset_ends_what_was_let_go() {
    let [mut near, mut far] = [true, false].map(|calls| Multiplexer::new(config(calls)));
    let (mut near_said, mut far_said) = (0, 0);
    let stream = near.open(Vec::new());
    carry(&mut near, &mut far, &mut near_said);
    far.finish(stream);
    carry(&mut far, &mut near, &mut far_said);
    near.write(stream, b"x").unwrap();
    near.finish(stream);
    near.drop_stream(stream);
    assert_eq!(near.streams(), 1, "its end is not framed yet");
    far.reset(stream, reset_code::ABORTED);
    carry(&mut far, &mut near, &mut far_said);
    assert_eq!(near.streams(), 0);
}

/// Frames of a peer, each behind the one before, in cells as a peer sends them.
fn hear(multiplexer: &mut Multiplexer, said: &mut CellWriter, frames: &[StreamFrame<'_>]) -> Result<(), Violation> {
    let from = said.end();
    for frame in frames {
        said.push(frame);
    }
    let mut bytes = vec![0; (said.end() - from) as usize];
    said.read(from, &mut bytes);
    said.release(said.end());
    multiplexer.receive(from, &bytes)
}

/// Bytes that come one by one, none behind another, take the room that they take: what is held stays within the bound.
#[test]
fn scattered_bytes_are_counted_as_what_they_take() {
    let most = 400 << 10;
    let mut multiplexer = Multiplexer::new(config(false));
    multiplexer.set_limits(16, 1 << 20, most);
    let mut said = CellWriter::default();
    for stream in (0..32).step_by(2) {
        for at in 0..4096 {
            let data = StreamFrame::Data { stream, offset: 2 * at + 1, bytes: b"x" };
            hear(&mut multiplexer, &mut said, &[data]).unwrap();
        }
    }
    // A part takes about a hundred bytes.
    let kept = (0..32).step_by(2).filter(|stream| multiplexer.reset_of(*stream).is_none()).count();
    assert!(kept as u64 * 4096 * 96 <= most, "{kept} streams");
}

/// A peer that opens streams to be refused, and takes none of the answers, does not have them wait without end.
#[test]
fn answers_that_are_not_taken_are_bounded() {
    let mut multiplexer = Multiplexer::new(config(false));
    let mut said = CellWriter::default();
    let refused = (0..1_000_000).step_by(2).position(|stream| {
        let heard = hear(&mut multiplexer, &mut said, &[StreamFrame::Open { stream, header: b"" }]);
        multiplexer.reset(stream, reset_code::DENIED);
        multiplexer.drop_stream(stream);
        multiplexer.produce();
        heard == Err(Violation::Answers)
    });
    // Those that the transport has not asked for, and four times as many as streams may be open.
    let most = (64 << 10) / 6 + 4 * 16 + 16;
    assert!(refused.is_some_and(|count| count as u64 <= most + 100), "{refused:?}");
}

/// A bundle of a peer at a node.
fn bundle_of_peer(bundles: &Arc<SharedBundles>, port: u16, most: u64) -> BundleApplication {
    let mut multiplexer = Multiplexer::new(config(false));
    multiplexer.set_limits(2000, 0, most);
    let key = ((Ipv4Addr::LOCALHOST, port).into(), "bulk".to_owned());
    let bundle = SharedBundle::new(port.into(), key, multiplexer, BundleStatus::Open, Contract::default());
    bundles.lock().share_unread(&bundle, None);
    BundleApplication { bundle, bundles: bundles.clone() }
}

/// As much arrives of each of so many streams.
fn fill_streams(bundle: &mut BundleApplication, streams: u32, parts: u64) {
    let mut said = CellWriter::default();
    for stream in (0..2 * streams).step_by(2) {
        for part in 0..parts {
            let from = said.end();
            said.push(&StreamFrame::Data { stream, offset: part * 4000, bytes: &[0; 4000] });
            let mut bytes = vec![0; (said.end() - from) as usize];
            said.read(from, &mut bytes);
            said.release(said.end());
            bundle.write(PayloadLocation::Stream(from), &bytes).unwrap();
        }
    }
}

fn unread(bundle: &BundleApplication) -> u64 {
    bundle.bundle.lock().multiplexer.unread()
}

/// A peer that calls for many bundles, and fills one after another, has all of them hold no more than the bound: the fullest
/// gives way to later ones. One that holds little loses nothing. What is gone makes room again.
#[test]
fn bundles_of_a_peer_share_the_bound() {
    let most = 8 << 20;
    let bundles = Arc::new(SharedBundles::new(PollWaker::new().unwrap(), None, Vec::new()));
    let mut small = bundle_of_peer(&bundles, 100, most);
    fill_streams(&mut small, 1, 8);
    let mut filled = Vec::new();
    for port in 1..=64 {
        let mut bundle = bundle_of_peer(&bundles, port, most);
        fill_streams(&mut bundle, 140, 16);
        filled.push(bundle);
        let held: u64 = filled.iter().map(unread).sum::<u64>() + unread(&small);
        // What is reset is a stream, of up to 64 kB here.
        assert!((most - 64_000..=most).contains(&held), "{held} in {port}");
    }
    // Each of the 64 keeps a part of the bound.
    assert!(
        filled.iter().all(|bundle| unread(bundle) <= most / 32),
        "{:?}",
        filled.iter().map(unread).collect::<Vec<_>>()
    );
    assert_eq!(unread(&small), 32_000);
    drop(filled);
    let mut alone = bundle_of_peer(&bundles, 101, most);
    fill_streams(&mut alone, 140, 16);
    assert!((most - 64_000..=most).contains(&(unread(&alone) + unread(&small))), "{}", unread(&alone));
    assert_eq!(unread(&small), 32_000);
}

/// A peer that has its packets sent and acknowledges none, whatever it says of its window, has a window's bytes kept for it.
/// What it acknowledges makes room for more.
#[test]
fn what_a_peer_does_not_acknowledge_is_bounded() {
    let mut multiplexer = Multiplexer::new(config(true));
    let stream = multiplexer.open(Vec::new());
    grant(&mut multiplexer, stream, u64::MAX);
    // What is written waits, too. A turn may go beyond the bound by what may wait.
    let most = RECEIVE_BUFFER + 2 * (256 << 10) + (64 << 10);
    let (mut said, bytes) = (0, vec![0; 64 << 10]);
    for round in 1..=20 {
        for _ in 0..100 {
            multiplexer.write(stream, &bytes).unwrap();
            let new = multiplexer.produce();
            multiplexer.read_sent(said, &mut vec![0; new as usize]);
            said += new;
            assert!(multiplexer.held_bytes() <= most, "{}", multiplexer.held_bytes());
        }
        assert!(said >= round * RECEIVE_BUFFER, "{said} in round {round}");
        multiplexer.release(said);
    }
}
