//! A sender's content, and its hash unless it may arrive in part.

use std::collections::VecDeque;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::mpsc::TryRecvError;

use pliant_proto::time::{Instant, Span};
use pliant_proto::transport::any::{AnyAnswer, AnyRequest};
use pliant_proto::transport::{Command, Event};

use super::announcement::{Announcement, Kind};
use super::directory::{HeldNotice, PageRequests};
use super::hash::HASH_BYTES;
use super::resume::{Hashing, Prefix, ResumeNotice};
use super::source::{Content, Source};
use super::verdict::{AT_WORK, Verdict};
use crate::driver::{Application, PayloadLocation};
use crate::seam::{Mutant, is_mutant};

/// Bytes read from a file at once. They are read, hashed and copied while in the cache.
const CHUNK_BYTES: usize = 64 << 10;
/// For a content of unknown size: bytes given to the transport ahead of what has arrived.
const AHEAD_BYTES: u64 = 8 << 20;

/// What a receiver is told if the file has changed.
const CHANGED: &str = "it was changed while it was sent";

/// A sender's application.
pub(super) struct SenderApplication {
    pub(super) path: PathBuf,
    announcement: Announcement,
    content: Content,
    /// Bytes of a file, or the window of a stream, from `chunk_at` on.
    chunk: Vec<u8>,
    chunk_at: u64,
    /// The window of a stream, which can be read only once.
    window: VecDeque<u8>,
    /// The content's bytes, once they are known.
    size: Option<u64>,
    /// Bytes of the content that the receiver already has. The stream begins after them.
    kept: u64,
    /// Bytes of the content that were given to the transport, or kept by the receiver.
    given: u64,
    started: Option<Instant>,
    hasher: Option<blake3::Hasher>,
    hashed: u64,
    pub(super) released: u64,
    pub(super) finished: bool,
    /// When it will be done, once it was reported that this is too late.
    pub(super) late: Option<Instant>,
    finish_given: bool,
    pub(super) content_failed: bool,
    /// The file has changed since it was opened.
    pub(super) changed: bool,
    /// The receiver has sent something useful since the last check.
    pub(super) heard: bool,
    /// The receiver's verdict.
    pub(super) verdict: Option<Verdict>,
    /// How many blocks the receiver has, once known.
    pub(super) start: Option<u32>,
    /// Requests to the receiver of a listing, once it has compared it.
    pub(super) requests: Option<PageRequests>,
}

impl SenderApplication {
    pub(super) fn new(source: Source, announcement: Announcement) -> Self {
        let hashes = announcement.hashed || !announcement.partial && announcement.kind != Kind::Test;
        Self {
            size: source.bytes(),
            path: source.path,
            announcement,
            content: source.content,
            chunk: Vec::new(),
            chunk_at: 0,
            window: VecDeque::new(),
            kept: 0,
            given: 0,
            started: None,
            hasher: hashes.then(blake3::Hasher::new),
            hashed: 0,
            released: 0,
            finished: false,
            late: None,
            finish_given: false,
            content_failed: false,
            changed: false,
            heard: false,
            verdict: None,
            start: None,
            requests: None,
        }
    }

    /// The source again, of one that nobody has answered.
    pub(super) fn into_source(self) -> Source {
        Source::unread(self.announcement.kind, self.announcement.name, self.path, self.content)
    }

    pub(super) fn announcement(&self) -> &Announcement {
        &self.announcement
    }

    /// Bytes of the content so far, or in all once that is known.
    pub(super) fn bytes(&self) -> u64 {
        self.size.unwrap_or(self.given)
    }

    pub(super) fn hash(&self) -> Option<blake3::Hash> {
        self.hasher.as_ref().map(blake3::Hasher::finalize)
    }

    /// Whether all of it was given to the transport, and read if a hash follows.
    pub(super) fn is_given(&self) -> bool {
        let to_hash = self.hasher.is_some() && matches!(self.content, Content::File { .. });
        self.finish_given && (!to_hash || self.hashed == self.bytes())
    }

    /// Begins to hash the first `blocks` of its file, as the receiver does with what it has kept.
    pub(super) fn hash_blocks(&self, blocks: u32) -> io::Result<Hashing> {
        Ok(Hashing::begin(self.file().try_clone()?, blocks))
    }

    /// Sends what follows `prefix`.
    pub(super) fn begin_behind(&mut self, prefix: Option<Prefix>) {
        let Some(Prefix { bytes, hasher }) = prefix else { return };
        (self.kept, self.given, self.released) = (bytes, bytes, bytes);
        (self.chunk_at, self.hashed, self.hasher) = (bytes, bytes, Some(hasher));
    }

    /// Bytes of the content that the receiver had before.
    pub(super) fn kept(&self) -> u64 {
        self.kept
    }

    /// Bytes of the stream, including what follows the content.
    pub(super) fn stream_bytes(&self) -> Option<u64> {
        let trailer = if is_mutant(Mutant::HashNeedNotArrive) { 0 } else { self.trailer_bytes() };
        self.announcement.size.map(|size| size - self.kept + trailer)
    }

    /// Bytes that follow the content: its hash, if there is one.
    pub(super) fn trailer_bytes(&self) -> u64 {
        if self.hasher.is_some() { HASH_BYTES as u64 } else { 0 }
    }

    /// The next commands for the transport. Call it after every iteration until it has returned `Finish`.
    pub(super) fn commands(&mut self, now: Instant) -> io::Result<Vec<Command<AnyAnswer>>> {
        if self.finish_given {
            return Ok(Vec::new());
        }
        if let Some(bytes) = self.announcement.message_bytes {
            return Ok(self.messages(bytes));
        }
        let started = *self.started.get_or_insert(now);
        let mut commands = Vec::new();
        match &mut self.content {
            Content::ZerosFor(time) => {
                if now.since(started) >= Span::from_ns(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX / 1000)) {
                    self.size = Some(self.given);
                }
            }
            Content::Pieces(pieces) => {
                // A slow receiver holds the reader back.
                while self.given - self.released < AHEAD_BYTES && self.size.is_none() {
                    match pieces.try_recv() {
                        Ok(Ok(piece)) if !piece.is_empty() => {
                            self.hasher.iter_mut().for_each(|hasher| {
                                hasher.update(&piece);
                            });
                            self.given += piece.len() as u64;
                            commands.push(Command::Send { bytes: piece.len() as u64 });
                            self.window.extend(piece);
                        }
                        Ok(Ok(_)) | Err(TryRecvError::Disconnected) => self.size = Some(self.given),
                        Ok(Err(error)) => {
                            self.content_failed = true;
                            return Err(error);
                        }
                        Err(TryRecvError::Empty) => break,
                    }
                }
            }
            Content::File { .. } | Content::Zeros(_) | Content::Directory => {}
        }
        let wanted = self.size.unwrap_or_else(|| match self.content {
            Content::Pieces(_) => self.given,
            _ => self.released + AHEAD_BYTES,
        });
        if wanted > self.given {
            commands.push(Command::Send { bytes: wanted - self.given });
            self.given = wanted;
        }
        if self.size.is_some() {
            self.finish_given = true;
            if self.trailer_bytes() > 0 {
                commands.push(Command::Send { bytes: self.trailer_bytes() });
            }
            commands.push(Command::Finish);
        }
        Ok(commands)
    }

    fn messages(&mut self, bytes: u32) -> Vec<Command<AnyAnswer>> {
        self.finish_given = true;
        let (size, count) = (self.bytes(), self.announcement.messages());
        let message = |number: u64| {
            let left = size - number * u64::from(bytes);
            Command::SendMessage { bytes: left.min(u64::from(bytes)) as u32 }
        };
        let hash = (self.trailer_bytes() > 0).then_some(Command::SendMessage { bytes: HASH_BYTES as u32 });
        let announced = Command::AnnounceMessages { messages: count as u32 + u32::from(hash.is_some()) };
        [announced].into_iter().chain((0..count).map(message)).chain(hash).chain([Command::Finish]).collect()
    }

    /// Reads file bytes through a chunk. New data is requested in order, so every chunk is hashed as it is first read.
    /// Retransmitted data may lie before the chunk.
    fn read_file(&mut self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        let mut done = 0;
        while done < into.len() {
            let at = offset + done as u64;
            if at < self.chunk_at {
                let before = (self.chunk_at - at).min((into.len() - done) as u64) as usize;
                let read = self.file().read_exact_at(&mut into[done..done + before], at);
                self.told_of(read)?;
                done += before;
                continue;
            }
            let skip = (at - self.chunk_at) as usize;
            if skip >= self.chunk.len() {
                self.read_next_chunk()?;
                continue;
            }
            let count = (self.chunk.len() - skip).min(into.len() - done);
            into[done..done + count].copy_from_slice(&self.chunk[skip..skip + count]);
            done += count;
        }
        Ok(())
    }

    fn file(&self) -> &std::fs::File {
        let Content::File { file, .. } = &self.content else { unreachable!("only files are read at a place") };
        file
    }

    fn read_next_chunk(&mut self) -> io::Result<()> {
        self.chunk_at += self.chunk.len() as u64;
        let bytes = (self.bytes() - self.chunk_at).min(CHUNK_BYTES as u64) as usize;
        if bytes == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "read beyond the end of the file"));
        }
        let mut chunk = std::mem::take(&mut self.chunk);
        chunk.resize(bytes, 0);
        let read = self.file().read_exact_at(&mut chunk, self.chunk_at);
        self.chunk = chunk;
        self.told_of(read)?;
        if let Some(hasher) = &mut self.hasher {
            hasher.update(&self.chunk);
            self.hashed += bytes as u64;
        }
        Ok(())
    }

    fn read_content(&mut self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        match &self.content {
            Content::File { .. } => self.read_file(offset, into),
            Content::Directory => unreachable!("a directory is packed first"),
            Content::Zeros(_) | Content::ZerosFor(_) => {
                into.fill(0);
                Ok(())
            }
            Content::Pieces(_) => {
                let skip = (offset - self.released) as usize;
                into.iter_mut().zip(self.window.range(skip..)).for_each(|(to, from)| *to = *from);
                Ok(())
            }
        }
    }

    /// Notes that a file that is shorter than before has changed.
    fn told_of(&mut self, read: io::Result<()>) -> io::Result<()> {
        match read {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                self.changed = true;
                Err(io::Error::other(CHANGED))
            }
            read => read,
        }
    }

    /// Hashes what was not read yet, which is nothing if the stream is read in order. Fails if the file has changed, so
    /// that no receiver takes a mixture of two versions for a whole.
    fn hash_rest(&mut self) -> io::Result<()> {
        while matches!(self.content, Content::File { .. }) && self.hashed < self.bytes() {
            self.read_next_chunk()?;
        }
        self.changed |= self.is_changed();
        if self.changed { Err(io::Error::other(CHANGED)) } else { Ok(()) }
    }

    /// Whether the file has changed since it was opened, by size and modification time.
    pub(super) fn is_changed(&self) -> bool {
        let Content::File { file, bytes, modified: Some(modified) } = &self.content else { return false };
        file.metadata().is_ok_and(|now| now.len() != *bytes || now.modified().is_ok_and(|now| now != *modified))
    }
}

impl Application for SenderApplication {
    fn read(&mut self, location: PayloadLocation, payload: &mut [u8]) -> io::Result<()> {
        let offset = match location {
            PayloadLocation::Stream(offset) => self.kept + offset,
            PayloadLocation::Message { message, offset, .. } => {
                let bytes = self.announcement.message_bytes.unwrap_or(0);
                // The hash follows the last message, however short that is.
                (u64::from(message) * u64::from(bytes)).min(self.bytes()) + u64::from(offset)
            }
            PayloadLocation::Symbol { .. } => unreachable!("no sender of streams or messages sends symbols"),
        };
        let end = self.size.unwrap_or(u64::MAX);
        let content = end.saturating_sub(offset).min(payload.len() as u64) as usize;
        let (first, trailer) = payload.split_at_mut(content);
        if !first.is_empty() {
            self.read_content(offset, first).inspect_err(|_| self.content_failed = true)?;
        }
        if !trailer.is_empty() {
            self.hash_rest().inspect_err(|_| self.content_failed = true)?;
            let hash = self.hash().expect("only hashes follow the content");
            let from = (offset + content as u64 - end) as usize;
            trailer.copy_from_slice(&hash.as_bytes()[from..from + trailer.len()]);
        }
        Ok(())
    }

    fn write(&mut self, _: PayloadLocation, _: &[u8]) -> io::Result<()> {
        Ok(())
    }

    fn event(&mut self, event: Event<AnyRequest>) -> io::Result<()> {
        match event {
            Event::Release(range) => {
                let released = (self.kept + range.end).min(self.bytes());
                if matches!(self.content, Content::Pieces(_)) {
                    self.window.drain(..released.saturating_sub(self.released) as usize);
                }
                self.released = self.released.max(released);
            }
            Event::Finished => self.finished = true,
            Event::WillBeLate { expected } => self.late = Some(expected),
            Event::Connected
            | Event::Deliver(_)
            | Event::Received
            | Event::Ask(_)
            | Event::DeliverSymbol { .. }
            | Event::DeliverMessage { .. }
            | Event::GiveUp { .. } => {}
        }
        Ok(())
    }

    fn notice(&mut self, content: &[u8]) {
        self.heard |= if let Some(ResumeNotice::Start(blocks)) = ResumeNotice::decode(content) {
            self.start = Some(blocks);
            true
        } else if let Some(HeldNotice::Page(page, bits)) = HeldNotice::decode(content) {
            self.requests.as_mut().is_some_and(|requests| requests.take(page, &bits))
        } else {
            self.verdict = self.verdict.take().or(Verdict::decode(content));
            // A verdict is repeated whatever the receiver has still to say.
            content == AT_WORK
        };
    }
}
