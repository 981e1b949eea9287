//! A file whose missing part comes only from mirrors.
//!
//! Nobody gives the hashes of its blocks, so only the hash of the whole decides at the end. Mirrors are asked one after
//! the other. If one fails, the next continues. If the hash is wrong, it is not known which mirror sent false data.
//! Then each mirror sends the whole file by itself, and the first whose content has the hash is believed.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use blake3::hazmat::ChainingValue;
use pliant_proto::transport::push::ReceiverCounts;

use super::fetched::{FetchNews, Fetched, WantedFile};
use super::hash_tree::{BLOCK_BYTES, blocks_of, root_of, value_of};
use super::message::Offered;
use super::mirror::{ASKS, FromMirror, Mirror, MirrorError, MirrorFile, PAUSE, WORTH_ASKING};
use super::object::{Sink, open_sink};
use crate::connection::Refused;
use crate::transfer::error::{MirrorFault, TransferError};
use crate::transfer::output::Target;
use crate::transfer::progress::Progress;
use crate::transfer::settings::Settings;

/// Why a mirror is excluded whose content has another hash.
const OTHER_CONTENT: &str = "its content has another hash than what is fetched";

/// Fetches the content with this hash.
#[allow(clippy::disallowed_methods, reason = "no machine runs here: the time is for who reads what came of it")]
pub(super) fn fetch(
    wanted: &WantedFile,
    hash: blake3::Hash,
    target: &Target,
    settings: &Settings,
    interrupted: &AtomicBool,
    progress: &mut impl FnMut(Progress),
    tell: &mut impl FnMut(FetchNews<'_>),
) -> Result<Fetched, TransferError> {
    let began = Instant::now();
    let (name, place) = names_of(wanted)?;
    let mut froms: Vec<FromMirror> = Vec::new();
    let (mut worst, mut last, mut full, mut kept, mut again) = (None, None, None, None, Vec::new());
    // The second time those by themselves whose content the first time was not theirs alone.
    for by_itself in [false, true] {
        for (number, mirror) in wanted.mirrors.iter().enumerate() {
            if froms.len() == number {
                froms.push(FromMirror { name: mirror.name().to_owned(), bytes: 0, lost: None });
            }
            let from = &mut froms[number];
            if by_itself && !again.contains(&number) {
                continue;
            }
            let mut file = mirror.file(&name);
            let mut pass = Pass { name: &place, hash, target, settings, interrupted, progress, from, kept: &mut kept };
            match pass.run(mirror.as_ref(), file.as_mut(), by_itself) {
                Ok(Some((bytes, path))) => {
                    from.lost = None;
                    if let (Some(files), Some(path)) = (&wanted.offered_in, &path) {
                        files.add(path)?;
                    }
                    let fetched = fetched(place, hash, bytes, began.elapsed());
                    return Ok(Fetched { path, kept: kept.unwrap_or(0), mirrors: froms, ..fetched });
                }
                Ok(None) => {
                    from.lost = Some(OTHER_CONTENT.to_owned());
                    again.push(number);
                }
                Err(TransferError::Mirror { mirror, fault, why }) => {
                    from.lost = Some(why.clone());
                    let error = TransferError::Mirror { mirror, fault, why };
                    tell(FetchNews::Lost(&error));
                    if worst.is_none_or(|worst| fault >= worst) {
                        (worst, last) = (Some(fault), Some(error));
                    }
                }
                // A mirror says by itself how large the file is. That of the next may have room.
                Err(error) if error.is_full() => {
                    let why = format!("there is no room for what it sends: {error}");
                    from.lost = Some(why.clone());
                    let mirror = mirror.name().to_owned();
                    tell(FetchNews::Lost(&TransferError::Mirror { mirror, fault: MirrorFault::Lost, why }));
                    full = Some(error);
                }
                Err(error) => return Err(error),
            }
        }
    }
    if let Some(full) = full {
        return Err(full);
    }
    Err(last.unwrap_or(TransferError::Sources("no mirror has the file")))
}

/// The size of the content with this hash, as the first mirror says that answers. Whether that has the hash shows only when it
/// is fetched.
#[allow(clippy::disallowed_methods, reason = "no machine runs here: the time is for who reads what came of it")]
pub(super) fn ask(
    wanted: &WantedFile,
    hash: blake3::Hash,
    settings: &Settings,
    interrupted: &AtomicBool,
) -> Result<Fetched, TransferError> {
    let began = Instant::now();
    let (name, place) = names_of(wanted)?;
    let mut last = TransferError::Sources("no mirror has the file");
    for mirror in &wanted.mirrors {
        let from = &mut FromMirror { name: mirror.name().to_owned(), bytes: 0, lost: None };
        let (target, progress, kept) = (&Target::Discard, &mut |_: Progress| {}, &mut None);
        let mut pass = Pass { name: &place, hash, target, settings, interrupted, progress, from, kept };
        match pass.size(mirror.as_ref(), mirror.file(&name).as_mut()) {
            Ok(bytes) => return Ok(fetched(place, hash, bytes, began.elapsed())),
            Err(error @ TransferError::Mirror { .. }) => last = error,
            Err(error) => return Err(error),
        }
    }
    Err(last)
}

/// The file's name at the mirrors, and here.
pub(super) fn names_of(wanted: &WantedFile) -> Result<(String, String), TransferError> {
    let named = || wanted.mirrors.iter().find_map(|mirror| mirror.only_file());
    let Some(name) = wanted.name.clone().or_else(named) else {
        return Err(TransferError::Sources("mirrors of many files give one by its name: it must be said"));
    };
    let place = wanted.kept_as.clone().unwrap_or_else(|| name.clone());
    Ok((name, place))
}

/// A file of which no source has sent anything.
fn fetched(name: String, hash: blake3::Hash, bytes: u64, elapsed: Duration) -> Fetched {
    let (sources, mirrors, counts, refused) = (Vec::new(), Vec::new(), ReceiverCounts::default(), Refused::default());
    Fetched { name, path: None, bytes, kept: 0, hash, elapsed, sources, mirrors, counts, refused }
}

/// One mirror's turn.
struct Pass<'p, P> {
    name: &'p str,
    hash: blake3::Hash,
    target: &'p Target,
    settings: &'p Settings,
    interrupted: &'p AtomicBool,
    progress: &'p mut P,
    from: &'p mut FromMirror,
    /// Bytes that were there before the first turn.
    kept: &'p mut Option<u64>,
}

impl<P: FnMut(Progress)> Pass<'_, P> {
    /// The size of the file, if it may be fetched.
    fn size(&mut self, mirror: &dyn Mirror, file: &mut dyn MirrorFile) -> Result<u64, TransferError> {
        let refuse = |fault, why: String| TransferError::Mirror { mirror: mirror.name().to_owned(), fault, why };
        let bytes = self.asking(|_| file.bytes()).map_err(|error| refuse(MirrorFault::Absent, error.why))?;
        if self.interrupted.load(Ordering::Relaxed) {
            return Err(TransferError::Interrupted);
        }
        let most = self.settings.limits.max_bytes;
        if bytes > most {
            let why = format!("it has {bytes} bytes, and {most} may be fetched");
            return Err(refuse(MirrorFault::WrongContent, why));
        }
        Ok(bytes)
    }

    /// Has a mirror send what is missing, or everything. Returns the size and the path, or `None` if the content has
    /// another hash and part of it was there before.
    fn run(
        &mut self,
        mirror: &dyn Mirror,
        file: &mut dyn MirrorFile,
        by_itself: bool,
    ) -> Result<Option<(u64, Option<std::path::PathBuf>)>, TransferError> {
        let refuse = |fault, why: String| TransferError::Mirror { mirror: mirror.name().to_owned(), fault, why };
        let bytes = self.size(mirror, file)?;
        let offered = Offered { bytes, hash: self.hash, name: self.name.to_owned() };
        let mut sink = open_sink(self.target, &offered, self.settings.overwrite)?;
        let mut values = if by_itself { Vec::new() } else { sink.values(bytes)? };
        let there = (values.len() as u64 * u64::from(BLOCK_BYTES)).min(bytes);
        sink.resume(there)?;
        self.kept.get_or_insert(there);
        let mut coming = Incoming { sink, values, block: Vec::new(), bytes, there, failed: None };
        let read = self.asking(|pass| {
            if coming.done() == bytes {
                return Ok(());
            }
            let before = coming.done();
            let read = file.read(before..bytes, bytes, &mut |piece| {
                let kept = coming.take(piece);
                let (done_bytes, total_bytes) = (coming.done(), Some(bytes));
                let placing = done_bytes == bytes;
                (pass.progress)(Progress { done_bytes, total_bytes, placing, late: None });
                if kept && !pass.interrupted.load(Ordering::Relaxed) {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                }
            });
            pass.from.bytes += coming.done() - before;
            match read {
                Err(error) if error.passes && coming.done() >= before + WORTH_ASKING => Err(Asked::Again),
                read => read.map_err(Asked::Failed),
            }
        });
        if let Some(error) = coming.failed.take() {
            return Err(error);
        }
        if self.interrupted.load(Ordering::Relaxed) {
            return Err(TransferError::Interrupted);
        }
        read.map_err(|error| refuse(MirrorFault::Lost, error.why))?;
        values = std::mem::take(&mut coming.values);
        if root_of(&values) == self.hash {
            return Ok(Some((bytes, coming.sink.commit()?)));
        }
        // Nothing of it is worth keeping.
        coming.sink.resume(0)?;
        *self.kept = Some(0);
        if there == 0 { Err(refuse(MirrorFault::WrongContent, OTHER_CONTENT.to_owned())) } else { Ok(None) }
    }

    /// Asks again, with pauses, where that may help.
    fn asking<T, E: Into<Asked>>(&mut self, mut ask: impl FnMut(&mut Self) -> Result<T, E>) -> Result<T, MirrorError> {
        let mut asks = 0;
        loop {
            let error = match ask(self).map_err(Into::into) {
                Ok(answer) => return Ok(answer),
                Err(Asked::Again) => {
                    asks = 0;
                    continue;
                }
                Err(Asked::Failed(error)) => error,
            };
            asks += 1;
            if !error.passes || asks == ASKS || self.interrupted.load(Ordering::Relaxed) {
                return Err(error);
            }
            std::thread::sleep(PAUSE * (1 << (asks - 1)));
        }
    }
}

/// Why a request has failed.
enum Asked {
    /// It has brought something, so the next attempt counts as a first one.
    Again,
    Failed(MirrorError),
}

impl From<MirrorError> for Asked {
    fn from(error: MirrorError) -> Self {
        Self::Failed(error)
    }
}

/// An incoming content, block by block.
struct Incoming {
    sink: Sink,
    values: Vec<ChainingValue>,
    /// The arrived part of the current block.
    block: Vec<u8>,
    bytes: u64,
    /// Bytes of the complete blocks.
    there: u64,
    failed: Option<TransferError>,
}

impl Incoming {
    /// Bytes that are there.
    fn done(&self) -> u64 {
        self.there + self.block.len() as u64
    }

    /// Takes a piece; false if it cannot be kept.
    fn take(&mut self, mut piece: &[u8]) -> bool {
        while !piece.is_empty() && self.there < self.bytes {
            let length = (self.bytes - self.there).min(BLOCK_BYTES.into()) as usize;
            let (now, rest) = piece.split_at(piece.len().min(length - self.block.len()));
            self.block.extend_from_slice(now);
            piece = rest;
            if self.block.len() == length {
                self.values.push(value_of(blocks_of(self.bytes), self.values.len() as u64, &self.block));
                if let Err(error) = self.sink.write(&self.block) {
                    self.failed = Some(TransferError::File { path: self.sink.path(), error });
                    return false;
                }
                self.there += length as u64;
                self.block.clear();
            }
        }
        true
    }
}
