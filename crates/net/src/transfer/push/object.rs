//! A file as it comes in from many sources.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, Write};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use pliant_proto::transport::Event;
use pliant_proto::transport::any::AnyRequest;
use pliant_proto::transport::push::{
    OPEN_BLOCKS, Partition, PushConfig, PushReceiver, PushRequest, SharedReceiver, ToController,
};

use super::checkpoint::Checkpoint;
use super::coding::Block;
use super::message::{Offered, PushNotice};
use crate::clock::Clock;
use crate::driver::{Application, PayloadLocation};
use crate::transfer::announcement::{Announcement, Kind};
use crate::transfer::error::{TransferError, copy};
use crate::transfer::hash::check_hash;
use crate::transfer::missing::committed_whole;
use crate::transfer::output::{Output, OutputError, Target, path_in};

/// Where a file goes that is fetched.
pub(super) enum Sink {
    /// What is kept of it if it is cut off.
    Resumable(Checkpoint),
    /// Nowhere, or into a temporary file while another fetch keeps its blocks.
    Once(Output),
}

/// A file for what is offered.
pub(super) fn open_sink(target: &Target, offered: &Offered) -> Result<Sink, TransferError> {
    let (name, size) = (offered.name.clone(), Some(offered.bytes));
    let (kind, message_bytes) = (Kind::File, None);
    let file = Announcement { kind, name, size, partial: false, hashed: false, min_delivery: 1.0, message_bytes };
    let opened = || {
        if let Some(path) = path_in(target, &file)? {
            let kept = Checkpoint::open(&path, &offered.hash).map_err(|error| OutputError::File(path, error))?;
            if let Some(kept) = kept {
                return Ok(Sink::Resumable(kept));
            }
        }
        Output::open(target, &file, true).map(Sink::Once)
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
    /// Puts it into its place.
    pub(super) fn commit(self) -> Result<Option<PathBuf>, TransferError> {
        let committed = match self {
            Self::Resumable(kept) => kept.commit().map(Some),
            Self::Once(output) => output.commit(),
        };
        committed.and_then(committed_whole).map_err(|(path, error)| TransferError::File { path, error })
    }
}

/// A block that is not written yet.
struct Open {
    block: Block,
    decoded: bool,
}

/// The bytes behind a receiver of one file. It has the same blocks open as the machine.
pub(super) struct Object {
    pub(super) offered: Offered,
    pub(super) receiver: SharedReceiver,
    symbol: u16,
    partition: Partition,
    /// Number of the first block that is not written.
    first: u32,
    open: VecDeque<Open>,
    sink: Sink,
    hasher: blake3::Hasher,
    written: u64,
    /// Bytes that were there from a fetch before.
    pub(super) kept: u64,
    clock: Clock,
    /// What is said to the controller.
    pub(super) mail: Vec<ToController>,
    /// What made it fail.
    pub(super) problem: Option<TransferError>,
}

impl Object {
    /// A file as `config` cuts it, from what is there of it on.
    pub(super) fn begin(
        offered: Offered,
        config: Arc<PushConfig>,
        partition: Partition,
        mut sink: Sink,
        clock: Clock,
    ) -> Result<Self, TransferError> {
        let symbol = config.symbol;
        let block_bytes = u64::from(config.block_symbols) * u64::from(symbol);
        let (kept, hasher) = match &mut sink {
            Sink::Resumable(kept) => kept
                .resume(block_bytes, offered.bytes)
                .map_err(|error| TransferError::File { path: kept.path().to_owned(), error })?,
            Sink::Once(_) => (0, blake3::Hasher::new()),
        };
        let first = kept.div_ceil(block_bytes) as u32;
        let receiver = PushReceiver::beside_decoder(config, partition, first, clock.now()).into_shared();
        let mut object = Self {
            offered,
            receiver,
            symbol,
            partition,
            first,
            open: VecDeque::with_capacity(OPEN_BLOCKS as usize),
            sink,
            hasher,
            written: kept,
            kept,
            clock,
            mail: Vec::new(),
            problem: None,
        };
        object.open_blocks();
        Ok(object)
    }

    fn open_blocks(&mut self) {
        while self.open.len() < OPEN_BLOCKS as usize {
            let symbols = self.partition.symbols_of(self.first + self.open.len() as u32);
            if symbols == 0 {
                return;
            }
            self.open.push_back(Open { block: Block::new(self.symbol, symbols), decoded: false });
        }
    }

    /// Bytes that have come, in whole symbols.
    pub(super) fn bytes(&self) -> u64 {
        let missing = self.receiver.borrow().remaining() * u64::from(self.symbol);
        self.offered.bytes.saturating_sub(missing)
    }

    fn open_block(&mut self, block: u32) -> Option<&mut Open> {
        let index = block.checked_sub(self.first)? as usize;
        self.open.get_mut(index).filter(|open| !open.decoded)
    }

    fn keep(&mut self, block: u32, symbol: u32, payload: &[u8]) -> io::Result<()> {
        if payload.len() != usize::from(self.symbol) {
            return Err(io::Error::other("its symbols have another length than was asked for"));
        }
        // What comes late is of a block that is done.
        let Some(open) = self.open_block(block) else { return Ok(()) };
        if open.block.keep(symbol, payload) { Ok(()) } else { Err(io::Error::other("its symbols decode to nothing")) }
    }

    fn decode(&mut self, block: u32) -> io::Result<()> {
        let Some(open) = self.open_block(block) else { return Ok(()) };
        if !open.block.decode() {
            return Ok(());
        }
        open.decoded = true;
        self.receiver.borrow_mut().handle_decoded(self.clock.now(), block);
        while self.open.front().is_some_and(|open| open.decoded) {
            let done = self.open.pop_front().expect("there is a first");
            self.first += 1;
            self.write(done.block.content())?;
        }
        self.open_blocks();
        Ok(())
    }

    /// Writes the next block, without what fills its last symbol.
    fn write(&mut self, block: &[u8]) -> io::Result<()> {
        let bytes = (self.offered.bytes - self.written).min(block.len() as u64);
        let content = &block[..bytes as usize];
        self.hasher.update(content);
        self.written += bytes;
        let (written, path) = match &mut self.sink {
            Sink::Once(Output::Discarded) => return Ok(()),
            Sink::Once(Output::Temporary { file, path, .. }) => (file.write_all(content), &**path),
            Sink::Resumable(kept) => (kept.write(content, &self.hasher), kept.path()),
        };
        written.inspect_err(|error| {
            self.problem = Some(TransferError::File { path: path.to_owned(), error: copy(error) });
        })
    }

    /// Whether all of it is written.
    pub(super) fn is_complete(&self) -> bool {
        self.first == self.partition.blocks()
    }

    /// Puts it into its place, if it is what was offered.
    pub(super) fn commit(self) -> Result<Option<PathBuf>, TransferError> {
        if let Err(error) = check_hash(&self.offered.name, self.hasher.finalize(), self.offered.hash) {
            if let Sink::Resumable(kept) = self.sink {
                kept.discard();
            }
            return Err(error);
        }
        self.sink.commit()
    }
}

/// A file that the connections to all its sources share.
pub(super) type SharedObject = Rc<RefCell<Object>>;

/// What is at the end of one connection.
pub(super) struct FetchApplication {
    /// What is fetched, once that is known.
    pub(super) object: Option<SharedObject>,
}

impl Application for FetchApplication {
    fn read(&mut self, _: PayloadLocation, _: &mut [u8]) -> io::Result<()> {
        Ok(())
    }

    fn write(&mut self, location: PayloadLocation, payload: &[u8]) -> io::Result<()> {
        match (location, &self.object) {
            (PayloadLocation::Symbol { block, symbol }, Some(object)) => {
                object.borrow_mut().keep(block, symbol, payload)
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
        if let (Some(PushNotice::Accepted { slot, number }), Some(object)) = (PushNotice::decode(content), &self.object)
        {
            object.borrow_mut().mail.push(ToController::Accepted { slot, number });
        }
    }
}
