//! Mirrors: servers of other kinds that supply any bytes of a file.
//!
//! In addition to sources, a mirror supplies whole blocks, one at a time: always the open block that the sources would
//! send last. Each block is compared with the file's hash tree before it counts, so a false one names its mirror.
//! Without a source nobody gives the tree. Then mirrors are asked [one after the other](super::alone), and the hash of
//! the whole decides.

use std::fmt;
use std::ops::{ControlFlow, Range};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use super::hash_tree::BLOCK_BYTES;
use super::object::{MirroredBlock, SharedObject};
use crate::poll::PollWaker;
use crate::transfer::error::{MirrorFault, TransferError};

/// How often in a row a failing mirror is asked, and the pause before the second time. The pause doubles each time.
pub(super) const ASKS: u32 = 4;
pub(super) const PAUSE: Duration = Duration::from_millis(250);
/// A mirror that breaks off after this many bytes is asked again as if it had answered.
pub(super) const WORTH_ASKING: u64 = 64 << 10;
/// No block.
const NONE: u64 = u64::MAX;
/// Why a lying mirror is excluded.
const FALSE_BLOCK: &str = "what it sends is not of the file";

/// Why a mirror supplies nothing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MirrorError {
    /// The reason.
    pub why: String,
    /// Whether it may pass soon: a lost connection, or a busy server.
    pub passes: bool,
}

/// A server that supplies any bytes of files.
pub trait Mirror: fmt::Debug + Send + Sync {
    /// Its name in messages.
    fn name(&self) -> &str;
    /// Name of the file, if it is a mirror of one.
    fn only_file(&self) -> Option<String>;
    /// The file with this name, or its only one. Nothing is requested yet.
    fn file(&self, name: &str) -> Box<dyn MirrorFile>;
}

/// A file of a mirror.
pub trait MirrorFile: Send {
    /// Its size in bytes.
    fn bytes(&mut self) -> Result<u64, MirrorError>;
    /// Passes the bytes of `range`, which is not empty, of a file of `bytes`, to `take`: in pieces and in order, until
    /// `take` stops it.
    fn read(
        &mut self,
        range: Range<u64>,
        bytes: u64,
        take: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<(), MirrorError>;
}

/// What one mirror supplied.
#[derive(Clone, Debug)]
pub struct FromMirror {
    /// Its name in messages.
    pub name: String,
    /// Bytes from it that were used.
    pub bytes: u64,
    /// Why it was excluded, if it was.
    pub lost: Option<String>,
}

/// A block from a mirror, or why there is none.
struct Answer {
    mirror: usize,
    block: u32,
    content: Result<Vec<u8>, MirrorError>,
}

/// One mirror, with its own thread.
struct Worker {
    from: FromMirror,
    error: Option<TransferError>,
    told: bool,
    asks: mpsc::Sender<u32>,
    /// The block requested from it. Its thread reads this, and does not wait for a block that is no longer wanted.
    wanted: Arc<AtomicU64>,
    /// A block that arrived before its hash was known.
    waiting: Option<(u32, Vec<u8>)>,
}

impl Worker {
    fn wanted(&self) -> Option<u32> {
        u32::try_from(self.wanted.load(Ordering::Relaxed)).ok()
    }

    fn leave_out(&mut self, fault: MirrorFault, why: String) {
        let mirror = self.from.name.clone();
        self.from.lost = Some(why.clone());
        self.error = Some(TransferError::Mirror { mirror, fault, why });
        self.waiting = None;
        self.wanted.store(NONE, Ordering::Relaxed);
    }
}

impl Drop for Worker {
    /// Its thread ends once it notices. Nobody waits for that.
    fn drop(&mut self) {
        self.wanted.store(NONE, Ordering::Relaxed);
    }
}

/// The mirrors of a fetch.
#[derive(Default)]
pub(super) struct Mirrors {
    workers: Vec<Worker>,
    answers: Option<mpsc::Receiver<Answer>>,
}

impl Mirrors {
    /// Begins to fetch the file with this name and size from them. Calls `waker` whenever something arrived.
    pub(super) fn begin(mirrors: &[Arc<dyn Mirror>], name: &str, bytes: u64, waker: &PollWaker) -> Self {
        let (sender, answers) = mpsc::channel();
        let begin = |(number, mirror): (usize, &Arc<dyn Mirror>)| {
            let (asks, asked) = mpsc::channel();
            let wanted = Arc::new(AtomicU64::new(NONE));
            let task = Task {
                mirror: number,
                file: mirror.file(name),
                bytes,
                wanted: wanted.clone(),
                answers: sender.clone(),
                waker: waker.clone(),
            };
            std::thread::spawn(move || task.run(&asked));
            let from = FromMirror { name: mirror.name().to_owned(), bytes: 0, lost: None };
            Worker { from, error: None, told: false, asks, wanted, waiting: None }
        };
        Self { workers: mirrors.iter().enumerate().map(begin).collect(), answers: Some(answers) }
    }

    /// Takes what arrived, and requests more.
    pub(super) fn advance(&mut self, object: &SharedObject) {
        while let Some(answer) = self.answers.as_ref().and_then(|answers| answers.try_recv().ok()) {
            self.take(answer, object);
        }
        for number in 0..self.workers.len() {
            if let Some((block, content)) = self.workers[number].waiting.take() {
                self.take(Answer { mirror: number, block, content: Ok(content) }, object);
            }
            let worker = &self.workers[number];
            if worker.error.is_some() || worker.waiting.is_some() {
                continue;
            }
            let is_open = |block: &u32| object.borrow().is_open(*block);
            match worker.wanted() {
                Some(block) if is_open(&block) => {}
                // It hears of that with the next piece, and answers.
                Some(_) => worker.wanted.store(NONE, Ordering::Relaxed),
                None => {
                    let taken = |block| self.workers.iter().any(|other| other.has(block));
                    // Where all are asked of somebody, one that another mirror is slow with.
                    let block = object.borrow().last_open(taken).or_else(|| object.borrow().last_open(|_| false));
                    let Some(block) = block else { continue };
                    worker.wanted.store(block.into(), Ordering::Relaxed);
                    let _ = worker.asks.send(block);
                }
            }
        }
    }

    fn take(&mut self, Answer { mirror, block, content }: Answer, object: &SharedObject) {
        let worker = &mut self.workers[mirror];
        if worker.error.is_some() {
            return;
        }
        if worker.wanted() == Some(block) {
            worker.wanted.store(NONE, Ordering::Relaxed);
        }
        let content = match content {
            Ok(content) => content,
            // Nobody wants it any more.
            Err(error) if error.why.is_empty() => return,
            Err(error) => return worker.leave_out(MirrorFault::Lost, error.why),
        };
        let bytes = content.len() as u64;
        match object.borrow_mut().take_block(block, content) {
            MirroredBlock::Kept => worker.from.bytes += bytes,
            MirroredBlock::NotNeeded => {}
            MirroredBlock::False => worker.leave_out(MirrorFault::WrongContent, FALSE_BLOCK.to_owned()),
            MirroredBlock::Unknown(content) => worker.waiting = Some((block, content)),
        }
    }

    /// Reports each excluded mirror once.
    pub(super) fn tell(&mut self, mut tell: impl FnMut(&TransferError)) {
        for worker in self.workers.iter_mut().filter(|worker| !worker.told) {
            if let Some(error) = &worker.error {
                worker.told = true;
                tell(error);
            }
        }
    }

    /// What each of them supplied.
    pub(super) fn outcome(&self) -> Vec<FromMirror> {
        self.workers.iter().map(|worker| worker.from.clone()).collect()
    }
}

impl Worker {
    /// Whether a block is requested from it, or waits for its hash.
    fn has(&self, block: u32) -> bool {
        self.wanted() == Some(block) || self.waiting.as_ref().is_some_and(|(waiting, _)| *waiting == block)
    }
}

/// The task of a mirror's thread.
struct Task {
    mirror: usize,
    file: Box<dyn MirrorFile>,
    bytes: u64,
    wanted: Arc<AtomicU64>,
    answers: mpsc::Sender<Answer>,
    waker: PollWaker,
}

impl Task {
    fn run(mut self, asks: &mpsc::Receiver<u32>) {
        while let Ok(block) = asks.recv() {
            let answer = Answer { mirror: self.mirror, block, content: self.block(block) };
            if self.answers.send(answer).is_err() {
                return;
            }
            self.waker.wake();
        }
    }

    /// Fetches a block. The error is empty if the block is no longer wanted.
    fn block(&mut self, block: u32) -> Result<Vec<u8>, MirrorError> {
        let Self { file, bytes, wanted, .. } = self;
        let start = u64::from(block) * u64::from(BLOCK_BYTES);
        let end = (start + u64::from(BLOCK_BYTES)).min(*bytes);
        let unwanted = || MirrorError { why: String::new(), passes: false };
        let is_wanted = || wanted.load(Ordering::Relaxed) == u64::from(block);
        let mut content = Vec::with_capacity((end - start) as usize);
        let mut asks = 0;
        loop {
            if !is_wanted() {
                return Err(unwanted());
            }
            let there = content.len() as u64;
            let read = file.read(start + there..end, *bytes, &mut |piece| {
                content.extend_from_slice(piece);
                if is_wanted() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            });
            match read {
                Ok(()) if is_wanted() => return Ok(content),
                Ok(()) => return Err(unwanted()),
                Err(error) if error.passes => {
                    // What has come is kept; who has brought something is asked for the rest at once.
                    if content.len() as u64 >= there + WORTH_ASKING {
                        asks = 0;
                        continue;
                    }
                    asks += 1;
                    if asks == ASKS {
                        return Err(error);
                    }
                    std::thread::sleep(PAUSE * (1 << (asks - 1)));
                }
                Err(error) => return Err(error),
            }
        }
    }
}
