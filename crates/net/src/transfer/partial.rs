//! Contents that may arrive in part, or in pieces of which none may be missing, at the receiver.

use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use pliant_proto::contract::Contract;
use pliant_proto::packet::ByteRange;
use pliant_proto::transport::Event;
use pliant_proto::transport::any::AnyRequest;
use pliant_proto::transport::atp::LossBound;

use super::announcement::Announcement;
use super::hash::HASH_BYTES;
use super::missing;
use super::output::Output;
use crate::driver::PayloadLocation;

/// Adjacent payloads are written together, up to this many bytes.
const WRITE_BYTES: usize = 128 << 10;

/// Content of which parts may be missing: the end of a stream, or messages.
pub(super) struct Partial {
    size: u64,
    min_delivery: f64,
    message_bytes: Option<u32>,
    output: Output,
    /// Not yet written, from `pending_at` on.
    pending: Vec<u8>,
    pending_at: u64,
    /// A stream is complete up to here.
    delivered: u64,
    /// Bit of each whole message.
    whole: Vec<u64>,
    messages: u64,
    /// For messages that must all arrive.
    hash: Option<Box<Hash>>,
}

/// A hash of messages, which arrive in any order. Messages before the first gap are read back from the file.
#[derive(Default)]
struct Hash {
    hasher: blake3::Hasher,
    hashed: u64,
    /// Whole messages before the first gap.
    prefix: u64,
    /// The sender's hash.
    expected: [u8; HASH_BYTES],
    piece: Vec<u8>,
}

impl Partial {
    /// Begins. `announcement` must be of partial content.
    pub(super) fn new(announcement: &Announcement, output: Output) -> Self {
        Self {
            size: announcement.size.expect("partial contents have a size"),
            min_delivery: announcement.min_delivery,
            message_bytes: announcement.message_bytes,
            output,
            pending: Vec::new(),
            pending_at: 0,
            delivered: 0,
            whole: Vec::new(),
            messages: 0,
            hash: announcement.hashed.then(Box::default),
        }
    }

    /// Bytes that have arrived completely.
    pub(super) fn delivered(&self) -> u64 {
        self.delivered
    }

    pub(super) fn path(&self) -> Option<&Path> {
        self.output.path()
    }

    pub(super) fn write(&mut self, location: PayloadLocation, payload: &[u8]) -> io::Result<()> {
        let hash_number = self.count();
        if let (Some(hash), PayloadLocation::Message { message, offset, length }) = (&mut self.hash, location)
            && u64::from(message) == hash_number
            && length == HASH_BYTES as u32
        {
            let room = hash.expected.get_mut(offset as usize..).unwrap_or_default();
            room.iter_mut().zip(payload).for_each(|(to, from)| *to = *from);
            return Ok(());
        }
        if matches!(self.output, Output::Discarded) {
            return Ok(());
        }
        let at = match (location, self.message_bytes) {
            (PayloadLocation::Stream(offset), None) => offset,
            (PayloadLocation::Message { message, offset, length }, Some(bytes)) => {
                // No message of the content's: the machine may take it, but it is not kept.
                if u64::from(length) != self.length_of(message) {
                    return Ok(());
                }
                u64::from(message) * u64::from(bytes) + u64::from(offset)
            }
            _ => return Ok(()),
        };
        if at.checked_add(payload.len() as u64).is_none_or(|end| end > self.size) {
            return Ok(());
        }
        if at != self.pending_at + self.pending.len() as u64 || self.pending.len() + payload.len() > WRITE_BYTES {
            self.flush()?;
            self.pending_at = at;
        }
        self.pending.extend_from_slice(payload);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        if let Output::Temporary { file, .. } = &self.output {
            file.as_file().write_all_at(&self.pending, self.pending_at)?;
        }
        self.pending.clear();
        Ok(())
    }

    /// Number of messages of the content.
    fn count(&self) -> u64 {
        self.message_bytes.map_or(0, |bytes| self.size.div_ceil(u64::from(bytes)))
    }

    /// Bytes of a message of the content; zero beyond the last.
    fn length_of(&self, message: u32) -> u64 {
        let bytes = self.message_bytes.map_or(0, u64::from);
        self.size.saturating_sub(u64::from(message) * bytes).min(bytes)
    }

    fn is_whole(&self, message: u64) -> bool {
        self.whole.get(message as usize / 64).is_some_and(|word| word >> (message % 64) & 1 != 0)
    }

    /// Hashes what is before the first gap: a piece of it, or all.
    fn hash_prefix(&mut self, least: u64) -> io::Result<()> {
        let Some(mut hash) = self.hash.take() else { return Ok(()) };
        let hashed = self.hash_up_to(&mut hash, least);
        self.hash = Some(hash);
        hashed
    }

    fn hash_up_to(&mut self, hash: &mut Hash, least: u64) -> io::Result<()> {
        while self.is_whole(hash.prefix) {
            hash.prefix += 1;
        }
        let end = (hash.prefix * u64::from(self.message_bytes.unwrap_or(0))).min(self.size);
        if end - hash.hashed < least || matches!(self.output, Output::Discarded) {
            return Ok(());
        }
        self.flush()?;
        let Output::Temporary { file, .. } = &self.output else { return Ok(()) };
        while hash.hashed < end {
            hash.piece.resize((end - hash.hashed).min(WRITE_BYTES as u64) as usize, 0);
            file.as_file().read_exact_at(&mut hash.piece, hash.hashed)?;
            hash.hasher.update(&hash.piece);
            hash.hashed += hash.piece.len() as u64;
        }
        Ok(())
    }

    /// The hash of what arrived, and the sender's; `None` if parts may be missing, or nothing was kept.
    pub(super) fn hashes(&mut self) -> io::Result<Option<(blake3::Hash, blake3::Hash)>> {
        if matches!(self.output, Output::Discarded) {
            return Ok(None);
        }
        self.hash_prefix(0)?;
        Ok(self.hash.as_ref().map(|hash| (hash.hasher.finalize(), hash.expected.into())))
    }

    pub(super) fn event(&mut self, event: Event<AnyRequest>) -> io::Result<()> {
        match event {
            Event::Deliver(range) if self.message_bytes.is_none() => self.delivered = range.end.min(self.size),
            Event::DeliverMessage { message, bytes } if bytes > 0 && u64::from(bytes) == self.length_of(message) => {
                let (word, bit) = (message as usize / 64, 1 << (message % 64));
                if self.whole.len() <= word {
                    self.whole.resize(word + 1, 0);
                }
                self.whole[word] |= bit;
                self.messages += 1;
                self.delivered += u64::from(bytes);
                self.hash_prefix(WRITE_BYTES as u64)?;
            }
            _ => {}
        }
        Ok(())
    }

    /// The missing parts in order, adjacent ones joined.
    pub(super) fn missing(&self) -> Vec<ByteRange> {
        let Some(bytes) = self.message_bytes.map(u64::from) else {
            let rest = ByteRange::new(self.delivered, self.size);
            return if rest.is_empty() { Vec::new() } else { vec![rest] };
        };
        let mut missing: Vec<ByteRange> = Vec::new();
        for message in 0..self.size.div_ceil(bytes) {
            if self.is_whole(message) {
                continue;
            }
            let (start, end) = (message * bytes, ((message + 1) * bytes).min(self.size));
            match missing.last_mut() {
                Some(last) if last.end == start => last.end = end,
                _ => missing.push(ByteRange::new(start, end)),
            }
        }
        missing
    }

    /// Whether as much arrived as the contract promises: of messages or, in a stream, of bytes.
    pub(super) fn keeps_bound(&self) -> bool {
        if self.message_bytes.is_some() {
            let bound = LossBound::from_min_delivery(self.min_delivery).unwrap_or(LossBound::RELIABLE);
            return self.messages >= u64::from(bound.needed(self.count() as u32));
        }
        let contract = Contract { min_delivery: self.min_delivery, ..Contract::default() };
        self.delivered >= contract.needed_bytes(self.size)
    }

    /// Puts it into its place, with a list of missing parts beside it if there are any. Missing parts are zeros, or cut
    /// off at the end of a stream.
    pub(super) fn commit(mut self) -> Result<Option<PathBuf>, (PathBuf, io::Error)> {
        let missing = self.missing();
        let Some(path) = self.output.path().map(Path::to_owned) else { return Ok(None) };
        self.finish(&missing, &path).map_err(|error| (path, error))?;
        self.output.commit()
    }

    fn finish(&mut self, missing: &[ByteRange], path: &Path) -> io::Result<()> {
        self.flush()?;
        if let Output::Temporary { file, .. } = &self.output {
            let file = file.as_file();
            file.set_len(if self.message_bytes.is_some() { self.size } else { self.delivered })?;
            if self.message_bytes.is_some() {
                // Of a message that is missing, fragments may have come.
                missing.iter().try_for_each(|range| write_zeros(file, *range))?;
            }
        }
        if missing.is_empty() {
            // One that may not be replaced is not this transfer's.
            return if self.output.replaces() { missing::forget_list(path) } else { Ok(()) };
        }
        missing::write_list(path, missing, self.size, self.output.replaces())
    }
}

fn write_zeros(file: &std::fs::File, range: ByteRange) -> io::Result<()> {
    let zeros = [0; 16 << 10];
    let mut at = range.start;
    while at < range.end {
        let count = (range.end - at).min(zeros.len() as u64);
        file.write_all_at(&zeros[..count as usize], at)?;
        at += count;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::announcement::Kind;
    use super::super::output::temporary_beside;
    use super::*;
    use proptest::prelude::*;

    fn announcement(size: u64, min_delivery: f64, message_bytes: Option<u32>) -> Announcement {
        let (kind, name) = (Kind::File, "x".into());
        Announcement {
            kind,
            name,
            size: Some(size),
            partial: true,
            hashed: false,
            min_delivery,
            message_bytes,
            identity: None,
        }
    }

    fn output(path: &Path) -> Output {
        Output::Temporary { file: temporary_beside(path).unwrap(), path: path.into(), replaces: true }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

        /// Whichever messages arrive, in pieces and any order: the file has them in their places and zeros elsewhere, and
        /// the list names what is missing, and only that.
        #[test]
        fn files_have_what_arrived(
            size in 1u64..5000, bytes in 1u32..700, arrives in prop::collection::vec(any::<(bool, bool)>(), 5000),
        ) {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("x");
            let mut partial = Partial::new(&announcement(size, 0.0001, Some(bytes)), output(&path));
            let mut expected = vec![0u8; size as usize];
            let messages = size.div_ceil(u64::from(bytes)) as u32;
            for message in (0..messages).rev() {
                let start = u64::from(message) * u64::from(bytes);
                let length = (size - start).min(u64::from(bytes)) as u32;
                let (whole, begun) = arrives[message as usize];
                let half = length / 2;
                let part = |from: u32, to: u32| vec![message as u8 | 1; (to - from) as usize];
                if whole || begun {
                    let place = PayloadLocation::Message { message, offset: half, length };
                    partial.write(place, &part(half, length)).unwrap();
                }
                if whole {
                    partial.write(PayloadLocation::Message { message, offset: 0, length }, &part(0, half)).unwrap();
                    partial.event(Event::DeliverMessage { message, bytes: length }).unwrap();
                    expected[start as usize..][..length as usize].fill(message as u8 | 1);
                }
            }
            // What no such content has is not kept.
            partial.write(PayloadLocation::Message { message: messages, offset: 0, length: bytes }, &[9]).unwrap();
            partial.write(PayloadLocation::Message { message: 0, offset: 0, length: bytes + 1 }, &[9]).unwrap();
            partial.event(Event::DeliverMessage { message: messages, bytes }).unwrap();
            partial.event(Event::DeliverMessage { message: 0, bytes: bytes + 1 }).unwrap();
            let missing = partial.missing();
            prop_assert_eq!(missing.iter().map(|range| range.len()).sum::<u64>() + partial.delivered(), size);
            let place = partial.commit();
            prop_assert!(place.is_ok());
            prop_assert_eq!(std::fs::read(&path).unwrap(), expected.clone());
            let covered = |byte: u64| missing.iter().any(|range| (range.start..range.end).contains(&byte));
            prop_assert!(expected.iter().enumerate().all(|(at, byte)| (*byte == 0) == covered(at as u64)));
            let list = std::fs::read_to_string(directory.path().join("x.missing")).ok();
            prop_assert_eq!(list.map_or(0, |list| list.lines().count() - 1), missing.len());
        }
    }

    /// A stream that ends early is as long as what arrived; nine tenths of it are enough for a bound of nine tenths.
    #[test]
    fn streams_may_end_early() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x");
        for (delivered, kept) in [(899, false), (900, true), (1000, true)] {
            let mut partial = Partial::new(&announcement(1000, 0.9, None), output(&path));
            partial.write(PayloadLocation::Stream(0), &vec![7; delivered as usize]).unwrap();
            partial.event(Event::Deliver(ByteRange::new(0, delivered))).unwrap();
            assert_eq!(partial.keeps_bound(), kept);
            partial.commit().unwrap();
            assert_eq!(std::fs::read(&path).unwrap(), vec![7; delivered as usize]);
            let list = std::fs::read_to_string(directory.path().join("x.missing"));
            assert_eq!(list.is_ok(), delivered < 1000, "{list:?}");
        }
    }

    /// Messages that come in any order have the hash of all, with a bit wrong another; what is missing shows, too.
    #[test]
    fn messages_have_a_hash() {
        let (size, bytes) = (300_000u64, 1000u32);
        let content: Vec<u8> = (0..size).map(|byte| (byte * byte % 251) as u8).collect();
        let announced = Announcement { hashed: true, ..announcement(size, 1.0, Some(bytes)) };
        for damage in [None, Some(123_456u32)] {
            let directory = tempfile::tempdir().unwrap();
            let mut partial = Partial::new(&announced, output(&directory.path().join("x")));
            let hash = blake3::hash(&content);
            partial.write(PayloadLocation::Message { message: 300, offset: 0, length: 32 }, hash.as_bytes()).unwrap();
            partial.event(Event::DeliverMessage { message: 300, bytes: 32 }).unwrap();
            let mut arriving = content.clone();
            if let Some(byte) = damage {
                arriving[byte as usize] ^= 1;
            }
            for message in (0..300u32).map(|number| number * 7 % 300) {
                let place = PayloadLocation::Message { message, offset: 0, length: bytes };
                partial.write(place, &arriving[message as usize * 1000..][..1000]).unwrap();
                partial.event(Event::DeliverMessage { message, bytes }).unwrap();
            }
            assert!(partial.keeps_bound() && partial.missing().is_empty());
            assert_eq!(partial.delivered(), size);
            let (got, expected) = partial.hashes().unwrap().expect("all must arrive");
            assert_eq!((got, expected), (blake3::hash(&arriving), hash));
            assert_eq!(got == expected, damage.is_none());
        }
    }
}
