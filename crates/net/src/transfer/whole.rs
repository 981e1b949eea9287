//! Whole contents at the receiver: window, hash, file.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use pliant_proto::transport::Event;
use pliant_proto::transport::any::AnyRequest;

use super::announcement::{Announcement, Kind};
use super::directory::{Index, Unchanged, compare};
use super::hash::HASH_BYTES;
use super::missing::committed_whole;
use super::output::Output;
use super::resume::Prefix;
use super::settings::Limits;
use crate::flow::FlowSettings;
use crate::ring::Ring;

/// Bytes of the content hashed and written at once: a power of two, at whose multiples BLAKE3's tree has whole
/// subtrees.
const PIECE_BYTES: u64 = 128 << 10;
/// Why a content of unannounced size is refused.
pub(super) const TOO_LARGE: &str = "it is larger than the receiver takes: `recv --max-bytes`";

/// A stream of content and hash.
pub(super) struct Whole {
    kind: Kind,
    /// Bytes of the content before the stream's first, kept from an interrupted transfer.
    kept: u64,
    /// Bytes of the stream without the hash, once known.
    size: Option<u64>,
    /// Bytes that arrived and were not taken yet. Its length is a multiple of a piece, so that no piece wraps.
    window: Ring,
    /// The stream is complete up to this byte.
    delivered: u64,
    /// The stream is hashed and written up to this byte.
    taken: u64,
    /// Most bytes of the stream without the hash.
    max_bytes: u64,
    output: Output,
    /// Where the files of a directory are noted, if they are.
    pub(super) index: Option<PathBuf>,
    hasher: blake3::Hasher,
    /// A mistake other than the system's errors.
    pub(super) lie: Option<&'static str>,
}

impl Whole {
    /// A stream of which up to `flow.largest_receive_buffer` bytes may arrive before the first missing byte.
    pub(super) fn new(announcement: &Announcement, output: Output, flow: &FlowSettings, max_bytes: u64) -> Self {
        // Beyond what the transport takes there is a piece that waits to be full, and the hash behind it.
        let window_bytes = |buffer: u64| buffer.next_multiple_of(PIECE_BYTES) + 2 * PIECE_BYTES;
        Self {
            kind: announcement.kind,
            kept: 0,
            size: announcement.size,
            window: Ring::new(window_bytes(flow.receive_buffer), window_bytes(flow.largest_receive_buffer)),
            delivered: 0,
            taken: 0,
            max_bytes,
            output,
            index: None,
            hasher: blake3::Hasher::new(),
            lie: None,
        }
    }

    /// Continues after what is kept. Nothing may have arrived yet.
    pub(super) fn begin_behind(&mut self, prefix: Option<Prefix>) -> io::Result<()> {
        let bytes = prefix.as_ref().map_or(0, |prefix| prefix.bytes);
        if let Output::Kept { checkpoint, .. } = &mut self.output {
            checkpoint.resume(bytes)?;
        }
        self.kept = bytes;
        self.size = self.size.map(|size| size - bytes);
        self.max_bytes = self.max_bytes.saturating_sub(bytes);
        self.hasher = prefix.map_or_else(blake3::Hasher::new, |prefix| prefix.hasher);
        Ok(())
    }

    /// Bytes of the content that were kept from before.
    pub(super) fn kept(&self) -> u64 {
        self.kept
    }

    /// Bytes of the content so far.
    pub(super) fn bytes(&self) -> u64 {
        self.kept + self.taken
    }

    pub(super) fn path(&self) -> Option<&Path> {
        self.output.path()
    }

    fn refuse(&mut self, why: &'static str) -> io::Error {
        self.lie = Some(why);
        io::Error::other(why)
    }

    /// Takes delivered bytes: whole pieces, and the rest of the content once its end is known.
    fn take(&mut self) -> io::Result<()> {
        if self.size.is_some_and(|size| self.delivered > size + HASH_BYTES as u64) {
            return Err(self.refuse("it is longer than announced"));
        }
        if self.delivered > self.max_bytes.saturating_add(HASH_BYTES as u64) {
            return Err(self.refuse(TOO_LARGE));
        }
        loop {
            let end = match self.size {
                Some(size) => (self.taken + PIECE_BYTES).min(size),
                None => self.taken + PIECE_BYTES,
            };
            // The last bytes of a stream without a size are its hash.
            let ahead = if self.size.is_none() { HASH_BYTES as u64 } else { 0 };
            if end == self.taken || self.delivered < end + ahead {
                return Ok(());
            }
            let (piece, _) = self.window.parts(self.taken, (end - self.taken) as usize);
            self.hasher.update(piece);
            self.output.write(piece)?;
            self.taken = end;
        }
    }

    pub(super) fn write(&mut self, offset: u64, payload: &[u8]) {
        // The machine refuses what lies outside the window; so does the buffer, before it.
        let skip = self.delivered.saturating_sub(offset).min(payload.len() as u64);
        let (offset, payload) = (offset.saturating_add(skip), &payload[skip as usize..]);
        self.window.write(self.taken, offset, payload);
    }

    pub(super) fn event(&mut self, event: Event<AnyRequest>) -> io::Result<()> {
        match event {
            Event::Deliver(range) => {
                assert_eq!(range.start, self.delivered, "bytes are delivered in order");
                self.delivered = range.end;
                self.take()
            }
            Event::Received => {
                let content = self.delivered.checked_sub(HASH_BYTES as u64);
                let Some(content) = content.filter(|content| self.size.is_none_or(|size| size == *content)) else {
                    return Err(self.refuse("it is shorter than announced"));
                };
                self.size = Some(content);
                self.take()
            }
            _ => Ok(()),
        }
    }

    /// Its hash, and the expected one. Call it once everything is received.
    pub(super) fn hashes(&self) -> (blake3::Hash, blake3::Hash) {
        let mut expected = [0; HASH_BYTES];
        let (first, second) = self.window.parts(self.taken, HASH_BYTES);
        expected[..first.len()].copy_from_slice(first);
        expected[first.len()..].copy_from_slice(second);
        (self.hasher.finalize(), expected.into())
    }

    /// Removes everything.
    pub(super) fn discard(self) {
        self.output.discard();
    }

    /// Puts it into its place. Also returns the files of a directory that did not travel.
    pub(super) fn commit(
        self,
        limits: &Limits,
        cancelled: &AtomicBool,
    ) -> Result<(Option<PathBuf>, Unchanged), (PathBuf, io::Error)> {
        if self.kind == Kind::Directory {
            return self.output.unpack(limits, cancelled, self.index.as_deref());
        }
        let replaces = self.output.replaces();
        let committed = self.output.commit();
        let path = if replaces { committed.and_then(committed_whole) } else { committed };
        path.map(|path| (path, Unchanged::default()))
    }

    /// The files of a listing that are here.
    pub(super) fn compare(self, is_wanted: impl Fn() -> bool) -> Result<Vec<u8>, (PathBuf, io::Error)> {
        let Some((listing, directory)) = self.output.into_listing() else { return Ok(Vec::new()) };
        let index = self.index.as_deref().map(|index| Index::open(&directory, index)).transpose();
        index.and_then(|index| compare(&listing, index.flatten(), is_wanted)).map_err(|error| (directory, error))
    }
}
