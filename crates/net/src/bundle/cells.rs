//! Frames in the byte stream of a transport, readable in any order.
//!
//! The stream is cut into cells of equal size, whatever the packets are, and no frame crosses from one into the next. A
//! receiver that has a cell from its beginning on can read it, though cells before it are still missing: a lost packet
//! holds up the few frames around it, and not those of other streams behind it.

use std::collections::{BTreeMap, BTreeSet};

use super::frame::{BegunData, DATA_OVERHEAD, Parsed, StreamFrame, StreamId, data_head};

/// Bytes of a cell.
pub(super) const CELL_BYTES: usize = 4096;
/// A smaller rest of a cell is left empty by data.
pub(super) const LEAST_ROOM: usize = 64;

/// Most cells that are filled at once.
pub(super) const FILLED_CELLS: usize = 32;

/// A ring of so many bytes is kept though less is needed.
const KEPT_BYTES: usize = 256 << 10;

/// Bytes from one offset of a stream to another. No cell of them wraps.
#[derive(Debug, Default)]
struct Ring {
    /// As many as a power of two, at least a cell; the byte at an offset lies at what is left of it modulo that.
    bytes: Box<[u8]>,
    start: u64,
    end: u64,
    /// Most that was needed since it was empty.
    most: usize,
}

impl Ring {
    fn at(&self, offset: u64) -> usize {
        (offset % self.bytes.len() as u64) as usize
    }

    /// Makes room for so many bytes more.
    fn reserve(&mut self, more: usize) {
        let wanted = (self.end - self.start) as usize + more;
        self.most = self.most.max(wanted);
        if wanted <= self.bytes.len() {
            return;
        }
        let bytes = vec![0; wanted.next_power_of_two().max(CELL_BYTES)].into();
        let old = std::mem::replace(self, Self { bytes, end: self.start, ..*self });
        old.parts(old.start, (old.end - old.start) as usize).into_iter().for_each(|part| self.append(part));
    }

    /// Appends bytes for which there is room.
    fn append(&mut self, bytes: &[u8]) {
        let at = if bytes.is_empty() { 0 } else { self.at(self.end) };
        let (first, second) = bytes.split_at(bytes.len().min(self.bytes.len() - at));
        self.bytes[at..at + first.len()].copy_from_slice(first);
        self.bytes[..second.len()].copy_from_slice(second);
        self.end += bytes.len() as u64;
    }

    /// Everything before `start` is gone. A ring that is empty is let go if it became far larger than it had to be since: what an outage
    /// held up is not kept for the life of a bundle.
    fn release(&mut self, start: u64) {
        let before = std::mem::replace(&mut self.start, start);
        if start == before || start < self.end {
            return;
        }
        let most = std::mem::take(&mut self.most);
        if self.bytes.len() > KEPT_BYTES && self.bytes.len() >= 4 * most {
            self.bytes = Box::default();
        }
    }

    /// So many bytes from an offset on.
    fn parts(&self, offset: u64, count: usize) -> [&[u8]; 2] {
        if count == 0 {
            return [&[], &[]];
        }
        let at = self.at(offset);
        let first = count.min(self.bytes.len() - at);
        [&self.bytes[at..at + first], &self.bytes[..count - first]]
    }
}

/// The bytes that go out, until the peer has them.
#[derive(Debug, Default)]
pub(super) struct CellWriter {
    /// From what the peer has on.
    ring: Ring,
    /// Up to here the transport has asked for them.
    asked: u64,
    /// Up to here it was known to have asked.
    seen: u64,
    /// Up to here it was told of them.
    told: u64,
    /// So many cells were filled at once the last time.
    filled: usize,
}

impl CellWriter {
    /// Where what goes out ends so far.
    pub(super) fn end(&self) -> u64 {
        self.ring.end
    }

    /// Bytes that the transport has not asked for yet.
    pub(super) fn waiting(&self) -> u64 {
        self.end() - self.asked
    }

    /// Bytes that the transport was told of and has not asked for yet.
    pub(super) fn left(&self) -> u64 {
        self.told.saturating_sub(self.asked)
    }

    /// Bytes that the transport has asked for since the last call.
    pub(super) fn take_asked(&mut self) -> u64 {
        self.asked - std::mem::replace(&mut self.seen, self.asked)
    }

    /// Bytes that the transport was not told of yet.
    pub(super) fn take_new(&mut self) -> u64 {
        let end = self.end();
        end - std::mem::replace(&mut self.told, end)
    }

    /// Whether the peer has all of them.
    pub(super) fn is_released(&self) -> bool {
        self.held() == 0
    }

    /// Bytes that the peer does not have.
    pub(super) fn held(&self) -> u64 {
        self.ring.end - self.ring.start
    }

    /// Bytes that are left in the cell which is being filled.
    pub(super) fn room(&self) -> usize {
        CELL_BYTES - (self.end() % CELL_BYTES as u64) as usize
    }

    /// Leaves the rest of the cell empty.
    fn pad(&mut self) {
        let room = self.room();
        self.ring.reserve(room);
        self.ring.append(&[0; CELL_BYTES][..room]);
    }

    /// Appends a frame, in a new cell if this one has no room for it.
    pub(super) fn push(&mut self, frame: &StreamFrame<'_>) {
        if frame.len() > self.room() {
            self.pad();
        }
        self.ring.reserve(frame.len());
        self.ring.append(frame.head().as_slice());
        self.ring.append(frame.body());
    }

    /// Lets `fill` write bytes of a stream from `offset` on, at most so many, to where they go out from, and frames as many
    /// as it says. There is room for twice what was filled the last time: few bundles have much to say.
    pub(super) fn fill<E>(
        &mut self,
        stream: StreamId,
        mut offset: u64,
        most: usize,
        fill: impl FnOnce(&mut [&mut [u8]]) -> Result<usize, E>,
    ) -> Result<usize, E> {
        if self.room() < LEAST_ROOM {
            self.pad();
        }
        let cells_offered = (2 * self.filled).clamp(1, FILLED_CELLS);
        self.ring.reserve(cells_offered * CELL_BYTES);
        let (at, room) = (self.ring.at(self.end()), self.room());
        let (before, from) = self.ring.bytes.split_at_mut(at);
        let (first, rest) = from.split_at_mut(room);
        let cells = std::iter::once(first).chain(rest.chunks_mut(CELL_BYTES)).chain(before.chunks_mut(CELL_BYTES));
        let mut left = most;
        let mut places = cells.take(cells_offered).map(|cell| {
            let cell = &mut cell[DATA_OVERHEAD..];
            let count = cell.len().min(left);
            left -= count;
            &mut cell[..count]
        });
        let mut places: [&mut [u8]; FILLED_CELLS] = std::array::from_fn(|_| places.next().unwrap_or_default());
        let filled = fill(&mut places)?;
        self.filled = filled.div_ceil(CELL_BYTES - DATA_OVERHEAD);
        let mut left = filled;
        while left > 0 {
            let count = left.min(self.room() - DATA_OVERHEAD);
            self.ring.append(data_head(stream, offset, count).as_slice());
            self.ring.end += count as u64;
            (offset, left) = (offset + count as u64, left - count);
        }
        Ok(filled)
    }

    /// Copies what goes out from `offset` on.
    pub(super) fn read(&mut self, offset: u64, into: &mut [u8]) {
        let [first, second] = self.ring.parts(offset, into.len());
        let (to_first, to_second) = into.split_at_mut(first.len());
        to_first.copy_from_slice(first);
        to_second.copy_from_slice(second);
        self.asked = self.asked.max(offset + into.len() as u64);
    }

    /// The peer has everything up to here.
    pub(super) fn release(&mut self, up_to: u64) {
        self.ring.release(up_to.clamp(self.ring.start, self.ring.end));
    }
}

/// A cell that is not read to its end.
#[derive(Debug, Default)]
struct Cell {
    /// Bytes up to here were read.
    read: usize,
    /// The data frame in which that is.
    within: Option<BegunData>,
    /// What has arrived and cannot be read yet.
    kept: Option<Kept>,
}

/// Bytes of a cell.
#[derive(Debug)]
struct Kept {
    bytes: Box<[u8; CELL_BYTES]>,
    /// Parts that are here, none touching another: where each begins and ends.
    parts: BTreeMap<usize, usize>,
}

impl Default for Kept {
    fn default() -> Self {
        Self { bytes: Box::new([0; CELL_BYTES]), parts: BTreeMap::new() }
    }
}

impl Kept {
    fn insert(&mut self, at: usize, part: &[u8]) {
        self.bytes[at..at + part.len()].copy_from_slice(part);
        let (mut start, mut end) = (at, at + part.len());
        // Whatever overlaps or touches becomes one part.
        while let Some((&other, &other_end)) = self.parts.range(..=end).next_back() {
            if other_end < start {
                break;
            }
            (start, end) = (start.min(other), end.max(other_end));
            self.parts.remove(&other);
        }
        self.parts.insert(start, end);
    }

    /// One past the last byte of the part which has the byte at `at`; `at` if none has.
    fn end_from(&self, at: usize) -> usize {
        self.parts.range(..=at).next_back().map_or(at, |(_, end)| *end).max(at)
    }
}

impl Cell {
    /// Takes a part that arrived, and gives to `each` what can be read. Whether the cell is read to its end.
    fn take(
        &mut self,
        at: usize,
        part: &[u8],
        each: &mut impl FnMut(StreamFrame<'_>) -> Result<(), NotFrames>,
    ) -> Result<bool, NotFrames> {
        let end = at + part.len();
        if end <= self.read {
            return Ok(false);
        }
        // What comes in order, nearly all, is read where it lies.
        if at <= self.read && self.kept.is_none() {
            let finished = self.read_from(&part[self.read - at..], each)?;
            if !finished && self.read < end {
                self.kept.get_or_insert_default().insert(self.read, &part[self.read - at..]);
            }
            return Ok(finished);
        }
        let mut kept = self.kept.take().unwrap_or_default();
        kept.insert(at, part);
        let known = kept.end_from(self.read);
        let finished = self.read_from(&kept.bytes[self.read..known], each)?;
        // Not if all that was kept was read.
        let read = self.read;
        self.kept = kept.parts.values().any(|end| *end > read).then_some(kept);
        Ok(finished)
    }

    /// Reads as far as frames, or parts of data, go. Whether the cell is read to its end.
    fn read_from(
        &mut self,
        mut bytes: &[u8],
        each: &mut impl FnMut(StreamFrame<'_>) -> Result<(), NotFrames>,
    ) -> Result<bool, NotFrames> {
        loop {
            if let Some(BegunData { stream, offset, left }) = &mut self.within {
                let (data, rest) = bytes.split_at(bytes.len().min(*left));
                if !data.is_empty() {
                    each(StreamFrame::Data { stream: *stream, offset: *offset, bytes: data })?;
                }
                (*offset, *left, bytes) = (offset.wrapping_add(data.len() as u64), *left - data.len(), rest);
                self.read += data.len();
                if *left > 0 {
                    return Ok(false);
                }
                self.within = None;
            }
            if self.read == CELL_BYTES {
                return Ok(true);
            }
            match StreamFrame::parse(bytes).ok_or(NotFrames)? {
                Parsed::Frame(frame, length) => {
                    each(frame)?;
                    self.read += length;
                    bytes = &bytes[length..];
                }
                Parsed::Begun(data) if self.read + DATA_OVERHEAD + data.left <= CELL_BYTES => {
                    self.read += DATA_OVERHEAD;
                    bytes = &bytes[DATA_OVERHEAD..];
                    self.within = Some(data);
                }
                Parsed::Padding => return Ok(true),
                Parsed::Incomplete if self.read + bytes.len() < CELL_BYTES => return Ok(false),
                // It goes on beyond its cell.
                Parsed::Begun(_) | Parsed::Incomplete => return Err(NotFrames),
            }
        }
    }
}

/// Why a peer's bytes cannot be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct NotFrames;

/// The bytes that come in, in any order and any number of times.
#[derive(Debug, Default)]
pub(super) struct CellReader {
    /// By their number. Those that were read to the end are not here.
    cells: BTreeMap<u64, Cell>,
    /// Cells before this one were read to the end.
    first: u64,
    /// Of the cells from `first` on, those that were read to the end.
    done: BTreeSet<u64>,
    /// Most bytes ahead of the first cell that is not done.
    window: u64,
}

impl CellReader {
    /// A reader that keeps bytes up to so many ahead of the first that is missing, and a cell more.
    pub(super) fn new(window: u64) -> Self {
        Self { window: window + 2 * CELL_BYTES as u64, ..Self::default() }
    }

    /// Takes bytes of the stream from `offset` on and gives every frame to `each`, once it is complete; data in parts, as
    /// they come in the order of their cell. Bytes far beyond the window are not kept: the transport refuses them as well,
    /// and they come again.
    pub(super) fn receive(
        &mut self,
        mut offset: u64,
        mut bytes: &[u8],
        each: &mut impl FnMut(StreamFrame<'_>) -> Result<(), NotFrames>,
    ) -> Result<(), NotFrames> {
        let size = CELL_BYTES as u64;
        while !bytes.is_empty() {
            let (number, at) = (offset / size, (offset % size) as usize);
            let (part, rest) = bytes.split_at(bytes.len().min(CELL_BYTES - at));
            bytes = rest;
            offset += part.len() as u64;
            let known = number < self.first || self.done.contains(&number);
            if known || offset > self.first * size + self.window {
                continue;
            }
            if self.cells.entry(number).or_default().take(at, part, each)? {
                self.cells.remove(&number);
                self.done.insert(number);
                while self.done.remove(&self.first) {
                    self.first += 1;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn frames(writer: &mut CellWriter, sizes: &[usize]) {
        for (stream, size) in (0..).zip(sizes) {
            let bytes = vec![stream as u8; *size];
            writer.push(&StreamFrame::Data { stream, offset: 0, bytes: &bytes });
        }
    }

    /// A megabyte that waited for the peer is given back once little has come and gone after it, and not while much does. What is written
    /// then is read right.
    #[test]
    fn what_an_outage_held_up_is_given_back() {
        let mut writer = CellWriter::default();
        let mut round = |sizes: &[usize]| {
            let from = writer.end();
            frames(&mut writer, sizes);
            let mut bytes = vec![0; (writer.end() - from) as usize];
            writer.read(from, &mut bytes);
            writer.release(writer.end());
            // An acknowledgement of nothing new.
            writer.release(writer.end());
            (writer.ring.bytes.len(), bytes)
        };
        for _ in 0..3 {
            assert_eq!(round(&[3000; 300]).0, 2 << 20, "300 cells, to the next power of two");
        }
        assert_eq!(round(&[100, 3000]).0, 0);
        // Up to what is kept in any case.
        assert_eq!(round(&[3000; 50]).0, KEPT_BYTES);
        let (kept, bytes) = round(&[100, 3000]);
        assert!(kept == KEPT_BYTES && bytes.ends_with(&[1; 3000]), "{kept}");
    }

    proptest! {
        /// However the stream is cut into packets, whichever come late, twice or overlapping: every byte is read once, in
        /// the order of its frame, and all are once everything is here.
        #[test]
        fn frames_are_read_in_any_order(
            sizes in prop::collection::vec(0usize..3000, 1..40),
            cuts in prop::collection::vec((0u64..100_000, 1usize..1500), 0..200),
        ) {
            let mut writer = CellWriter::default();
            frames(&mut writer, &sizes);
            let end = writer.end();
            let mut reader = CellReader::new(1 << 20);
            let mut seen = vec![Vec::<u8>::new(); sizes.len()];
            let mut take = |offset: u64, length: usize| {
                let offset = offset.min(end);
                let mut bytes = vec![0; length.min((end - offset) as usize)];
                writer.read(offset, &mut bytes);
                reader.receive(offset, &bytes, &mut |frame| {
                    let StreamFrame::Data { stream, offset, bytes } = frame else { panic!("{frame:?}") };
                    let seen = &mut seen[stream as usize];
                    assert_eq!(offset, seen.len() as u64, "parts come in order");
                    seen.extend(bytes);
                    Ok(())
                })
            };
            for (offset, length) in cuts {
                take(offset, length).unwrap();
            }
            for offset in (0..end).step_by(1000).collect::<Vec<_>>().into_iter().rev() {
                take(offset, 1000).unwrap();
            }
            for ((stream, size), seen) in (0..).zip(&sizes).zip(&seen) {
                prop_assert_eq!(seen, &vec![stream as u8; *size]);
            }
            prop_assert!(reader.cells.len() <= 1, "the last cell may be open");
        }

        /// Nonsense is refused or waited for, and never a panic; what is kept is bounded by the window.
        #[test]
        fn nonsense_is_bounded(parts in prop::collection::vec((0u64..1 << 30, prop::collection::vec(any::<u8>(), 0..2000)), 0..50)) {
            let mut reader = CellReader::new(64 << 10);
            for (offset, bytes) in parts {
                let _ = reader.receive(offset, &bytes, &mut |_| Ok(()));
                prop_assert!(reader.cells.len() <= 18);
            }
        }
    }

    /// A frame behind a hole of less than a cell waits for it; one in the next cell does not.
    #[test]
    fn a_hole_holds_up_its_cell_alone() {
        let mut writer = CellWriter::default();
        frames(&mut writer, &[1000, 1000, 4000, 100]);
        let mut bytes = vec![0; writer.end() as usize];
        writer.read(0, &mut bytes);
        let mut reader = CellReader::new(1 << 20);
        let mut seen = Vec::new();
        let mut receive = |from: usize, to: usize| {
            let mut each = |frame: StreamFrame<'_>| {
                let StreamFrame::Data { stream, .. } = frame else { panic!("{frame:?}") };
                seen.push(stream);
                Ok(())
            };
            reader.receive(from as u64, &bytes[from..to], &mut each).unwrap();
        };
        receive(500, bytes.len());
        receive(0, 500);
        seen.dedup();
        assert_eq!(seen, [2, 3, 0, 1]);
    }
}
