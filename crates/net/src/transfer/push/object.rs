//! A file as it comes in from many sources.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, Write};
use std::path::PathBuf;
use std::rc::Rc;

use pliant_proto::transport::Event;
use pliant_proto::transport::push::{OPEN_BLOCKS, Partition, SharedReceiver, ToController};

use super::coding::Block;
use super::message::{Offered, Order};
use crate::driver::{Application, Clock, Place};
use crate::transfer::receive::copy;
use crate::transfer::whole::{Output, OutputError};
use crate::transfer::{Announcement, Kind, Target, TransferError};

/// A temporary file for what is offered.
pub(super) fn open_output(target: &Target, offered: &Offered) -> Result<Output, TransferError> {
    let (name, size) = (offered.name.clone(), Some(offered.bytes));
    let file = Announcement { kind: Kind::File, name, size, partial: false, min_delivery: 1.0, message_bytes: None };
    Output::open(target, &file).map_err(|error| match error {
        OutputError::Name => {
            let kind = io::ErrorKind::InvalidInput;
            let error = io::Error::new(kind, "the name that the sources give is not a plain file name");
            TransferError::File { path: offered.name.clone().into(), error }
        }
        OutputError::File(path, error) => TransferError::File { path, error },
    })
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
    output: Output,
    hasher: blake3::Hasher,
    written: u64,
    clock: Clock,
    /// What is said to the controller.
    pub(super) mail: Vec<ToController>,
    /// What made it fail.
    pub(super) problem: Option<TransferError>,
}

impl Object {
    pub(super) fn new(
        offered: Offered,
        receiver: SharedReceiver,
        (symbol, partition): (u16, Partition),
        output: Output,
        clock: Clock,
    ) -> Self {
        let mut object = Self {
            offered,
            receiver,
            symbol,
            partition,
            first: 0,
            open: VecDeque::with_capacity(OPEN_BLOCKS as usize),
            output,
            hasher: blake3::Hasher::new(),
            written: 0,
            clock,
            mail: Vec::new(),
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
        let Output::Temporary { file, path } = &mut self.output else { return Ok(()) };
        file.write_all(content).inspect_err(|error| {
            self.problem = Some(TransferError::File { path: path.clone(), error: copy(error) });
        })
    }

    /// Whether all of it is written.
    pub(super) fn is_complete(&self) -> bool {
        self.first == self.partition.blocks()
    }

    /// Puts it into its place, if it is what was offered.
    pub(super) fn place(self) -> Result<Option<PathBuf>, TransferError> {
        let (got, expected) = (self.hasher.finalize(), self.offered.hash);
        if got != expected {
            return Err(TransferError::HashMismatch { name: self.offered.name, got, expected });
        }
        self.output.place(Kind::File).map_err(|(path, error)| TransferError::File { path, error })
    }
}

/// A file that the connections to all its sources share.
pub(super) type SharedObject = Rc<RefCell<Object>>;

/// What is at the end of one connection.
pub(super) struct Incoming {
    pub(super) object: SharedObject,
}

impl Application for Incoming {
    fn read(&mut self, _: Place, _: &mut [u8]) -> io::Result<()> {
        Ok(())
    }

    fn write(&mut self, place: Place, payload: &[u8]) -> io::Result<()> {
        match place {
            Place::Symbol { block, symbol } => self.object.borrow_mut().keep(block, symbol, payload),
            _ => Ok(()),
        }
    }

    fn event(&mut self, event: Event) -> io::Result<()> {
        match event {
            Event::Decode { block } => self.object.borrow_mut().decode(block),
            Event::ToController(message) => {
                self.object.borrow_mut().mail.push(message);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn notice(&mut self, content: &[u8]) {
        if let Some(Order::Accepted { slot, number }) = Order::decode(content) {
            self.object.borrow_mut().mail.push(ToController::Accepted { slot, number });
        }
    }
}
