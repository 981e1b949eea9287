//! What the rest of the crate asks of the world that its thread runs in, if it runs in one.

use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvError, TryRecvError};
use std::time::Duration;

use pliant_proto::packet::Ecn;

use super::schedule::{TaskNumber, World};
use crate::seam::{DiskOperation, Mutant};

/// A task of a world, as its own thread knows it.
#[derive(Clone)]
pub(super) struct Here {
    pub(super) world: Arc<World>,
    pub(super) task: TaskNumber,
}

thread_local! {
    static HERE: RefCell<Option<Here>> = const { RefCell::new(None) };
}

/// The task that this thread is.
pub(super) fn here() -> Option<Here> {
    HERE.with_borrow(Clone::clone)
}

/// Makes this thread a task.
pub(super) fn enter(here: Here) {
    HERE.set(Some(here));
}

/// The host's clock in nanoseconds: the time of day, or since the world began.
pub(crate) fn nanoseconds(time_of_day: bool) -> Option<u64> {
    here().map(|here| here.world.read_clock(here.task, time_of_day))
}

/// Random bytes that follow from the world's seed.
pub(crate) fn seed() -> Option<[u8; 32]> {
    here().map(|here| here.world.draw_seed())
}

/// Lets a wait of this host's sockets end.
pub(crate) fn wake() {
    if let Some(here) = here() {
        here.world.wake(here.task);
    }
}

pub(crate) fn before(operation: DiskOperation, path: &Path) -> io::Result<()> {
    match here() {
        Some(here) => here.world.touch_disk(here.task, operation, path),
        None => Ok(()),
    }
}

pub(crate) fn is_mutant(mutant: Mutant) -> bool {
    here().is_some_and(|here| here.world.mutant() == Some(mutant))
}

pub(crate) fn task<R>(work: impl FnOnce() -> R) -> impl FnOnce() -> R {
    let child = here().map(|here| here.world.add_child(here.task));
    move || match child {
        Some(child) => child.run(work),
        None => work(),
    }
}

pub(crate) fn before_join() {
    if let Some(here) = here() {
        here.world.wait_for_children(here.task);
    }
}

pub(crate) fn receive<T>(receiver: &Receiver<T>) -> Result<T, RecvError> {
    let Some(here) = here() else { return receiver.recv() };
    loop {
        match receiver.try_recv() {
            Ok(message) => return Ok(message),
            Err(TryRecvError::Disconnected) => return Err(RecvError),
            Err(TryRecvError::Empty) => here.world.wait_for(here.task, Duration::from_millis(1)),
        }
    }
}

pub(crate) fn sleep(time: Duration) {
    match here() {
        Some(here) => here.world.wait_for(here.task, time),
        None => std::thread::sleep(time),
    }
}

/// A socket of a simulated host, closed when it is dropped.
#[derive(Debug)]
pub(crate) struct SimulatedSocket {
    number: usize,
    address: SocketAddr,
}

impl SimulatedSocket {
    /// A socket of this thread's host; `None` outside of a world.
    pub(crate) fn bind(address: SocketAddr) -> io::Result<Option<Self>> {
        let Some(here) = here() else { return Ok(None) };
        let (number, address) = here.world.bind(here.task, address)?;
        Ok(Some(Self { number, address }))
    }

    /// What it is bound to.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sends datagrams of `segment_bytes`; the last may be shorter.
    pub(crate) fn send(&self, to: SocketAddr, class: u8, bytes: &[u8], segment_bytes: usize) -> io::Result<()> {
        let Some(here) = here() else { return Ok(()) };
        bytes.chunks(segment_bytes.max(1)).try_for_each(|bytes| here.world.send(self.number, to, class, bytes))
    }

    /// Takes what has arrived, at most `most`.
    pub(crate) fn receive(&self, most: usize) -> Vec<(SocketAddr, Ecn, Vec<u8>)> {
        here().map_or_else(Vec::new, |here| here.world.receive(here.task, self.number, most))
    }

    /// Waits until something arrives, at most for `time`.
    pub(crate) fn wait(&self, time: Duration) {
        if let Some(here) = here() {
            here.world.wait_for_input(here.task, self.number, time);
        }
    }
}

impl Drop for SimulatedSocket {
    fn drop(&mut self) {
        if let Some(here) = here() {
            here.world.close(self.number);
        }
    }
}
