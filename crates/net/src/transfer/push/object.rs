//! An incoming file from many sources.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use blake3::hazmat::ChainingValue;
use pliant_proto::transport::Event;
use pliant_proto::transport::any::AnyRequest;
use pliant_proto::transport::push::{
    OPEN_BLOCKS, Partition, PushConfig, PushReceiver, PushRequest, SharedReceiver, ToController,
};

use super::coding::{Block, Dispute, Resolution};
use super::hash_tree::{BLOCK_BYTES, PageNumber, VerifiedHashes, value_of};
use super::message::{HashNotice, HoldingNotice, Offered, PushNotice};
use super::offered_files::Growing;
use super::own_blocks::OwnBlocks;
use crate::clock::Clock;
use crate::driver::{Application, PayloadLocation};
use crate::seam::{Mutant, is_mutant};
use crate::transfer::announcement::{Announcement, Kind};
use crate::transfer::checkpoint::Checkpoint;
use crate::transfer::error::{TransferError, copy};
use crate::transfer::missing::committed_whole;
use crate::transfer::output::{Output, OutputError, Target, path_in, plain_name, require_free};

/// The destination of a fetched file.
pub(super) enum Sink {
    /// The part that is kept after an interruption, and whether the file replaces an existing one.
    Resumable(Checkpoint, bool),
    /// Nowhere, or a temporary file while another fetch keeps the blocks.
    Once(Output),
}

/// The name of a file beside others: the last component of its path, if it is in a folder.
fn name_beside(name: &str) -> &str {
    let all_plain = name.split('/').all(|part| plain_name(part).is_some());
    name.rsplit('/').next().filter(|_| all_plain).unwrap_or(name)
}

/// Opens the destination of an offer.
pub(super) fn open_sink(target: &Target, offered: &Offered, overwrite: bool) -> Result<Sink, TransferError> {
    let (name, size) = (name_beside(&offered.name).to_owned(), Some(offered.bytes));
    let (kind, message_bytes) = (Kind::File, None);
    let file = Announcement {
        kind,
        name,
        size,
        partial: false,
        hashed: false,
        min_delivery: 1.0,
        message_bytes,
        identity: None,
    };
    let opened = || {
        if let Some(path) = path_in(target, &file)? {
            let replaces = target.replaces(overwrite);
            if !replaces {
                require_free(&path)?;
            }
            let kept = Checkpoint::open(&path, &offered.hash).map_err(|error| OutputError::File(path, error))?;
            if let Some(kept) = kept {
                return Ok(Sink::Resumable(kept, replaces));
            }
        }
        Output::open(target, &file, overwrite, None, None).map(Sink::Once)
    };
    opened().map_err(|error| match error {
        OutputError::Name => {
            let kind = io::ErrorKind::InvalidInput;
            let error = io::Error::new(kind, "the name that the sources give is not a plain file name");
            TransferError::File { path: offered.name.clone().into(), error }
        }
        OutputError::File(path, error) => TransferError::File { path, error },
    })
}

impl Sink {
    /// The values of the blocks that are there, for a file of `size` bytes.
    pub(super) fn values(&mut self, size: u64) -> Result<Vec<ChainingValue>, TransferError> {
        self.of_kept(Vec::new(), |kept| kept.values(size))
    }

    /// Continues after the first `bytes`.
    pub(super) fn resume(&mut self, bytes: u64) -> Result<(), TransferError> {
        self.of_kept((), |kept| kept.resume(bytes))
    }

    /// Appends content.
    pub(super) fn write(&mut self, content: &[u8]) -> io::Result<()> {
        match self {
            Self::Once(output) => output.write(content),
            Self::Resumable(kept, _) => kept.write(content),
        }
    }

    /// Skips this many unwanted bytes, at most a block.
    fn skip(&mut self, bytes: u64) -> io::Result<()> {
        match self {
            Self::Once(output) => output.write(&vec![0; bytes as usize]),
            Self::Resumable(kept, _) => kept.skip(bytes),
        }
    }

    /// Its final path, for messages.
    pub(super) fn path(&self) -> PathBuf {
        match self {
            Self::Once(output) => output.path().map(PathBuf::from).unwrap_or_default(),
            Self::Resumable(kept, _) => kept.path().to_owned(),
        }
    }

    fn of_kept<T>(
        &mut self,
        otherwise: T,
        act: impl FnOnce(&mut Checkpoint) -> io::Result<T>,
    ) -> Result<T, TransferError> {
        match self {
            Self::Resumable(kept, _) => {
                act(kept).map_err(|error| TransferError::File { path: kept.path().to_owned(), error })
            }
            Self::Once(_) => Ok(otherwise),
        }
    }

    /// A handle for reading the file while it arrives, and its final path; `None` unless it is kept.
    pub(super) fn part(&self) -> Result<Option<(File, &Path)>, TransferError> {
        let Self::Resumable(kept, _) = self else { return Ok(None) };
        let fail = |error| TransferError::File { path: kept.path().to_owned(), error };
        Ok(Some((kept.part().map_err(fail)?, kept.path())))
    }

    /// Puts it into its place.
    pub(super) fn commit(self) -> Result<Option<PathBuf>, TransferError> {
        let (replaces, committed) = match self {
            Self::Resumable(kept, replaces) => (replaces, kept.commit(replaces).map(Some)),
            Self::Once(output) => (output.replaces(), output.commit()),
        };
        let committed = if replaces { committed.and_then(committed_whole) } else { committed };
        committed.map_err(|(path, error)| TransferError::File { path, error })
    }
}

/// The state of a block that is not written yet.
enum Open {
    /// Symbols are arriving.
    Coming(Block),
    /// It is decoded, and its hash is not known yet. Without bytes here, its source symbols are the block.
    Unverified(Block, Option<Vec<u8>>),
    /// Some of its symbols are false.
    Disputed(Dispute),
    /// It is verified, and earlier blocks are not.
    Done(Vec<u8>),
}

/// The state of the search among the receiver's own blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum OwnProgress {
    /// The first missing block was not searched yet, because its hash is not known.
    Waits,
    /// There are more to search now.
    GoesOn,
    /// Others must send the first missing block.
    Others,
}

/// The result for a block that arrived whole.
pub(super) enum MirroredBlock {
    /// It is verified.
    Kept,
    /// It was already there.
    NotNeeded,
    /// It does not belong to the file.
    False,
    /// Its hash is not known yet.
    Unknown(Vec<u8>),
}

/// The content of one file at its receiver. It has the same blocks open as the machine.
pub(super) struct Object {
    pub(super) offered: Offered,
    pub(super) receiver: SharedReceiver,
    pub(super) hashes: VerifiedHashes,
    symbol: u16,
    partition: Partition,
    /// Number of the first unwritten block.
    first: u32,
    open: VecDeque<Open>,
    /// Memory of a written block.
    spare: Vec<u8>,
    sink: Sink,
    /// The offer of the file to others while it arrives.
    growing: Option<Growing>,
    /// The receiver's own blocks, and the first block that was not searched there.
    own: Option<Arc<dyn OwnBlocks>>,
    own_next: u32,
    written: u64,
    /// Bytes kept from before.
    pub(super) kept: u64,
    clock: Clock,
    /// Symbols from each source, by its number.
    came: Vec<u64>,
    /// Messages to the controller.
    pub(super) mail: Vec<ToController>,
    /// Sources that have sent false symbols. Nothing more from them counts.
    liars: BTreeSet<u16>,
    /// Those of them that were not yet reported to the owner of the connections.
    pub(super) new_liars: Vec<u16>,
    /// Why it failed.
    pub(super) problem: Option<TransferError>,
}

impl Object {
    /// A file divided by `config` and `partition`, of which the first `had` blocks are in `sink`.
    pub(super) fn begin(
        offered: Offered,
        config: Arc<PushConfig>,
        partition: Partition,
        (sink, growing): (Sink, Option<Growing>),
        own: Option<Arc<dyn OwnBlocks>>,
        (hashes, had): (VerifiedHashes, u32),
        clock: Clock,
    ) -> Self {
        let kept = (u64::from(had) * u64::from(BLOCK_BYTES)).min(offered.bytes);
        let symbol = config.symbol;
        let receiver = PushReceiver::beside_decoder(config, partition, had, clock.now()).into_shared();
        let mut object = Self {
            offered,
            receiver,
            hashes,
            symbol,
            partition,
            first: had,
            open: VecDeque::with_capacity(OPEN_BLOCKS as usize),
            spare: Vec::new(),
            sink,
            growing,
            own,
            own_next: had,
            written: kept,
            kept,
            clock,
            came: Vec::new(),
            mail: Vec::new(),
            liars: BTreeSet::new(),
            new_liars: Vec::new(),
            problem: None,
        };
        object.open_blocks();
        object
    }

    fn open_blocks(&mut self) {
        while self.open.len() < OPEN_BLOCKS as usize {
            let symbols = self.partition.symbols_of(self.first + self.open.len() as u32);
            if symbols == 0 {
                return;
            }
            let buffer = std::mem::take(&mut self.spare);
            self.open.push_back(Open::Coming(Block::new(self.symbol, symbols, buffer)));
        }
    }

    /// Bytes that have arrived, in whole symbols.
    pub(super) fn bytes(&self) -> u64 {
        let missing = self.receiver.borrow().remaining() * u64::from(self.symbol);
        self.offered.bytes.saturating_sub(missing)
    }

    /// Symbols from a source, useful or not.
    pub(super) fn came_from(&self, source: usize) -> u64 {
        self.came.get(source).copied().unwrap_or(0)
    }

    /// Makes room for the counts of this many sources.
    pub(super) fn count_sources(&mut self, sources: usize) {
        self.came.resize(sources, 0);
    }

    /// Blocks of the file.
    pub(super) fn blocks(&self) -> u32 {
        self.partition.blocks()
    }

    /// Number of the first unwritten block.
    pub(super) fn first_missing(&self) -> u64 {
        self.first.into()
    }

    fn index_of(&self, block: u32) -> Option<usize> {
        let index = block.checked_sub(self.first)? as usize;
        (index < self.open.len()).then_some(index)
    }

    /// Bytes of a block.
    fn length_of(&self, block: u32) -> usize {
        let start = u64::from(block) * u64::from(BLOCK_BYTES);
        (self.offered.bytes - start).min(BLOCK_BYTES.into()) as usize
    }

    fn keep(&mut self, source: u16, block: u32, symbol: u32, payload: &[u8]) -> io::Result<()> {
        if payload.len() != usize::from(self.symbol) {
            return Err(io::Error::other("its symbols have another length than was asked for"));
        }
        if let Some(came) = self.came.get_mut(usize::from(source)) {
            *came += 1;
        }
        // What comes late is of a block that is done.
        let Some(index) = self.index_of(block).filter(|_| !self.liars.contains(&source)) else { return Ok(()) };
        match &mut self.open[index] {
            Open::Coming(coming) => {
                if !coming.keep(source, symbol, payload) {
                    self.dispute(index);
                    self.resolve(index)?;
                }
            }
            Open::Disputed(dispute) => {
                dispute.keep(source, symbol, payload);
                self.resolve(index)?;
            }
            Open::Unverified(..) | Open::Done(_) => {}
        }
        Ok(())
    }

    /// Whether a block is wanted.
    pub(super) fn is_open(&self, block: u32) -> bool {
        self.index_of(block).is_some_and(|index| !matches!(self.open[index], Open::Done(_)))
    }

    /// The last wanted block that is not `taken`, which sources would send last.
    pub(super) fn last_open(&self, taken: impl Fn(u32) -> bool) -> Option<u32> {
        let blocks = (self.first..self.first + self.open.len() as u32).rev();
        blocks.into_iter().find(|block| self.is_open(*block) && !taken(*block))
    }

    /// Takes a whole block, from a source without symbols.
    pub(super) fn take_block(&mut self, block: u32, content: Vec<u8>) -> MirroredBlock {
        let Some(index) = self.index_of(block).filter(|_| self.is_open(block)) else { return MirroredBlock::NotNeeded };
        let Some(value) = self.hashes.value(block.into()) else { return MirroredBlock::Unknown(content) };
        if content.len() != self.length_of(block) || value_of(self.hashes.blocks(), block.into(), &content) != value {
            return MirroredBlock::False;
        }
        // A block that cannot be written is the object's problem, which ends the fetch.
        let _ = self.finish(index, content);
        MirroredBlock::Kept
    }

    /// Takes open blocks from the receiver's own, at most this many at once.
    pub(super) fn take_own(&mut self, most: u32) -> io::Result<OwnProgress> {
        let Some(own) = self.own.clone() else { return Ok(OwnProgress::Others) };
        for _ in 0..most {
            self.own_next = self.own_next.max(self.first);
            let block = self.own_next;
            let waits = if block == self.first { OwnProgress::Waits } else { OwnProgress::Others };
            let Some(index) = self.index_of(block) else { return Ok(OwnProgress::Others) };
            if self.is_open(block) {
                if own.is_wanted(block) {
                    let Some(value) = self.hashes.value(block.into()) else { return Ok(waits) };
                    let length = self.length_of(block);
                    let candidate = own.candidate(block).filter(|content| content.len() == length);
                    let is_right = |content: &Vec<u8>| value_of(self.hashes.blocks(), block.into(), content) == value;
                    if let Some(content) = candidate.filter(is_right) {
                        self.kept += length as u64;
                        self.finish(index, content)?;
                    }
                } else {
                    // It needs no hash.
                    self.finish(index, Vec::new())?;
                }
            }
            self.own_next = block + 1;
        }
        let more = self.index_of(self.own_next.max(self.first)).is_some();
        Ok(if more { OwnProgress::GoesOn } else { OwnProgress::Others })
    }

    /// The machine considers an attempt to decode a block worthwhile.
    fn decode(&mut self, block: u32) -> io::Result<()> {
        let Some(index) = self.index_of(block) else { return Ok(()) };
        match &self.open[index] {
            Open::Coming(coming) if coming.count() < coming.needed() => {
                // Symbols were taken out that the machine has counted.
                let missing = (coming.needed() - coming.count()) as u32;
                self.receiver.borrow_mut().handle_missing(block, missing);
                Ok(())
            }
            Open::Coming(coming) => {
                let decoded = if coming.is_whole() { None } else { coming.decode() };
                if decoded.is_none() && !coming.is_whole() {
                    return Ok(());
                }
                let placeholder = Open::Done(Vec::new());
                if let Open::Coming(coming) = std::mem::replace(&mut self.open[index], placeholder) {
                    self.open[index] = Open::Unverified(coming, decoded);
                }
                self.verify(index)
            }
            Open::Disputed(_) => {
                self.order_more(index);
                Ok(())
            }
            Open::Unverified(..) | Open::Done(_) => Ok(()),
        }
    }

    /// Compares a decoded block with its hash, once that is known.
    fn verify(&mut self, index: usize) -> io::Result<()> {
        let block = self.first + index as u32;
        let Some(value) = self.hashes.value(block.into()) else { return Ok(()) };
        let Open::Unverified(symbols, decoded) = &self.open[index] else { return Ok(()) };
        let content = decoded.as_deref().unwrap_or(symbols.content());
        let is_right = value_of(self.hashes.blocks(), block.into(), &content[..self.length_of(block)]) == value;
        if !is_right && !is_mutant(Mutant::BlocksAreBelieved) {
            self.dispute(index);
            return self.resolve(index);
        }
        let placeholder = Open::Done(Vec::new());
        if let Open::Unverified(symbols, decoded) = std::mem::replace(&mut self.open[index], placeholder) {
            self.finish(index, decoded.unwrap_or_else(|| symbols.into_content()))?;
        }
        Ok(())
    }

    /// Hashes have arrived, for which blocks may have waited.
    pub(super) fn verify_waiting(&mut self) -> io::Result<()> {
        let first = self.first;
        for block in first..first + OPEN_BLOCKS {
            if let Some(index) = self.index_of(block) {
                self.verify(index)?;
                self.resolve(index)?;
            }
        }
        Ok(())
    }

    /// Some of a block's symbols are false. Orders more, until it is clear which.
    fn dispute(&mut self, index: usize) {
        let placeholder = Open::Done(Vec::new());
        self.open[index] = match std::mem::replace(&mut self.open[index], placeholder) {
            Open::Coming(symbols) | Open::Unverified(symbols, _) => Open::Disputed(symbols.dispute()),
            other => other,
        };
        self.order_more(index);
    }

    /// Orders as many symbols as a block has again.
    fn order_more(&mut self, index: usize) {
        let block = self.first + index as u32;
        self.receiver.borrow_mut().handle_missing(block, self.partition.symbols_of(block));
    }

    /// Tries to find who lies about a disputed block.
    fn resolve(&mut self, index: usize) -> io::Result<()> {
        let block = self.first + index as u32;
        let Some(value) = self.hashes.value(block.into()) else { return Ok(()) };
        let (blocks, length) = (self.hashes.blocks(), self.length_of(block));
        let is_right = |content: &[u8]| value_of(blocks, block.into(), content) == value;
        let Open::Disputed(dispute) = &mut self.open[index] else { return Ok(()) };
        match dispute.resolve(length, is_right) {
            Resolution::Open => Ok(()),
            Resolution::Liar(liar) => {
                self.leave_out(liar);
                self.resolve(index)
            }
            Resolution::Block(content, liars) => {
                for liar in liars {
                    self.leave_out(liar);
                }
                self.finish(index, content)
            }
        }
    }

    /// Forgets everything from a source, and counts nothing more from it.
    fn leave_out(&mut self, liar: u16) {
        if self.liars.insert(liar) {
            self.new_liars.push(liar);
        }
        for open in &mut self.open {
            match open {
                Open::Coming(block) => block.forget(liar),
                Open::Disputed(dispute) => dispute.forget(liar),
                // What is decoded is judged as a whole.
                Open::Unverified(..) | Open::Done(_) => {}
            }
        }
        // Whether that leaves too little, the machine asks with the next symbol.
    }

    /// A block is verified or, without content, skipped. Writes the blocks before which nothing is missing.
    fn finish(&mut self, index: usize, content: Vec<u8>) -> io::Result<()> {
        self.open[index] = Open::Done(content);
        self.receiver.borrow_mut().handle_decoded(self.clock.now(), self.first + index as u32);
        while let Some(Open::Done(content)) = self.open.front_mut() {
            let content = std::mem::take(content);
            self.open.pop_front();
            let bytes = self.length_of(self.first);
            self.first += 1;
            if content.is_empty() {
                self.pass_over(bytes as u64)?;
            } else {
                self.write(&content[..bytes])?;
            }
            if let Some(growing) = &self.growing {
                growing.grow(self.first);
            }
            self.spare = content;
        }
        self.open_blocks();
        Ok(())
    }

    fn write(&mut self, content: &[u8]) -> io::Result<()> {
        let written = self.sink.write(content);
        self.note_written(content.len() as u64, written)
    }

    fn pass_over(&mut self, bytes: u64) -> io::Result<()> {
        let passed = self.sink.skip(bytes);
        self.note_written(bytes, passed)
    }

    fn note_written(&mut self, bytes: u64, written: io::Result<()>) -> io::Result<()> {
        written.inspect_err(|error| {
            self.problem = Some(TransferError::File { path: self.sink.path(), error: copy(error) });
        })?;
        self.written += bytes;
        Ok(())
    }

    /// Whether all of it is written. The last block may be verified and not fit on the disk.
    pub(super) fn is_complete(&self) -> bool {
        self.first == self.partition.blocks() && (self.problem.is_none() || is_mutant(Mutant::LastBlockIsWritten))
    }

    /// Offers it to others, if it is to be.
    pub(super) fn offer(&self) -> Result<(), TransferError> {
        self.growing.as_ref().map_or(Ok(()), Growing::offer)
    }

    /// Puts it into its place.
    pub(super) fn commit(self) -> Result<Option<PathBuf>, TransferError> {
        let all = self.written == self.offered.bytes || is_mutant(Mutant::LastBlockIsWritten);
        assert!(all, "every block is written once");
        self.sink.commit()
    }
}

/// A file shared by the connections to all its sources.
pub(super) type SharedObject = Rc<RefCell<Object>>;

/// Arrived pages of the hash tree, with their sources.
pub(super) type Pages = Rc<RefCell<Vec<(usize, PageNumber, Vec<ChainingValue>)>>>;

/// The last notice of each source about its blocks of a file that it still fetches.
pub(super) type Holdings = Rc<RefCell<BTreeMap<usize, HoldingNotice>>>;

/// Most pages that wait for an iteration. Further ones are requested again.
const MAX_PAGES: usize = 256;

/// The application of one connection.
pub(super) struct FetchApplication {
    /// The source's number.
    pub(super) source: u16,
    /// The file being fetched, once known.
    pub(super) object: Option<SharedObject>,
    pub(super) pages: Pages,
    pub(super) holdings: Holdings,
}

impl Application for FetchApplication {
    fn read(&mut self, _: PayloadLocation, _: &mut [u8]) -> io::Result<()> {
        Ok(())
    }

    fn write(&mut self, location: PayloadLocation, payload: &[u8]) -> io::Result<()> {
        match (location, &self.object) {
            (PayloadLocation::Symbol { block, symbol }, Some(object)) => {
                object.borrow_mut().keep(self.source, block, symbol, payload)
            }
            _ => Ok(()),
        }
    }

    fn event(&mut self, event: Event<AnyRequest>) -> io::Result<()> {
        match (event, &self.object) {
            (Event::Ask(AnyRequest::Push(PushRequest::Decode { block })), Some(object)) => {
                object.borrow_mut().decode(block)
            }
            (Event::Ask(AnyRequest::Push(PushRequest::Controller(message))), Some(object)) => {
                object.borrow_mut().mail.push(message);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn notice(&mut self, content: &[u8]) {
        if let Some(HashNotice::Page(page, values)) = HashNotice::decode(content) {
            let mut pages = self.pages.borrow_mut();
            if pages.len() < MAX_PAGES {
                pages.push((self.source.into(), page, values));
            }
        }
        if let Some(holding) = HoldingNotice::decode(content) {
            self.holdings.borrow_mut().insert(self.source.into(), holding);
        }
        if let (Some(PushNotice::Accepted { slot, number }), Some(object)) = (PushNotice::decode(content), &self.object)
        {
            object.borrow_mut().mail.push(ToController::Accepted { slot, number });
        }
    }
}
