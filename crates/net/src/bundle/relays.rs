//! Sockets whose bytes the node's thread carries to streams and from them.
//!
//! A task between the two would be woken by the thread, and the thread by the task, for every piece. That took most of a
//! short request's time.

use std::collections::HashMap;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{Timespec, epoll};
use rustix::io::Errno;

use super::cells::FILLED_CELLS;
use super::multiplexer::ReadOutcome;
use super::shared::{Attachment, BundleState, RelayId, SharedBundles, reset_error};

/// Bytes that are read at once.
const PIECE_BYTES: usize = 64 << 10;
/// Bytes that are shown at once to what changes them: most of what comes goes as it is.
const LOOKED_AT_BYTES: usize = 4 << 10;
/// Sockets that one call tells of.
const EVENTS: usize = 256;

/// All of a node.
pub(super) struct Relays {
    bundles: Arc<SharedBundles>,
    epoll: Arc<OwnedFd>,
    all: HashMap<RelayId, Relay>,
    last: RelayId,
    /// Those that may have something to do.
    ready: Vec<RelayId>,
    piece: Box<[u8]>,
}

impl Drop for Relays {
    fn drop(&mut self) {
        self.all.drain().for_each(|(_, relay)| relay.to.end_with_node());
    }
}

/// One of them.
struct Relay {
    to: Attachment,
    /// Whether the kernel may have something to read, or room to write.
    readable: bool,
    writable: bool,
    /// The program has ended its side: what is read last is no sign that all was read.
    ended: bool,
    /// The stream has all of it, or the program has.
    read_all: bool,
    written_all: bool,
    /// What was changed, and waits for room.
    to_socket: Waiting,
    to_stream: Waiting,
}

impl Relays {
    pub(super) fn new(bundles: Arc<SharedBundles>) -> io::Result<Self> {
        let epoll = Arc::new(epoll::create(epoll::CreateFlags::CLOEXEC)?);
        let piece = vec![0; PIECE_BYTES].into();
        Ok(Self { bundles, epoll, all: HashMap::new(), last: 0, ready: Vec::new(), piece })
    }

    /// What is readable while a socket has news.
    pub(super) fn file(&self) -> Arc<OwnedFd> {
        self.epoll.clone()
    }

    /// Whether streams have had news since.
    pub(super) fn have_news(&self) -> bool {
        self.bundles.has_news()
    }

    /// Carries what can be carried now.
    pub(super) fn run(&mut self) -> io::Result<()> {
        for attachment in self.bundles.take_attachments() {
            self.add(attachment);
        }
        self.look()?;
        self.bundles.take_news(&mut self.ready);
        for id in self.ready.drain(..) {
            let Some(relay) = self.all.get_mut(&id) else { continue };
            let over = match relay.run(id, &mut self.piece) {
                Ok(over) => over.then_some(Ok(())),
                Err(error) => Some(Err(error)),
            };
            if let Some(over) = over {
                let Attachment { bundle, stream, .. } = &relay.to;
                bundle.lock().forget(*stream, &self.bundles);
                let relay = self.all.remove(&id).expect("it was just here");
                relay.to.end(over);
            }
        }
        Ok(())
    }

    fn add(&mut self, to: Attachment) {
        use epoll::EventFlags as Flags;
        self.last += 1;
        let flags = Flags::IN | Flags::OUT | Flags::RDHUP | Flags::ET;
        let registered = rustix::io::ioctl_fionbio(&to.socket, true)
            .and_then(|()| epoll::add(&*self.epoll, &to.socket, epoll::EventData::new_u64(self.last), flags));
        if let Err(error) = registered {
            to.end(Err(error.into()));
            return;
        }
        let (readable, writable) = (true, true);
        let (to_socket, to_stream) = (Waiting::default(), Waiting::default());
        let (ended, read_all, written_all) = (false, false, false);
        let relay = Relay { to, readable, writable, ended, read_all, written_all, to_socket, to_stream };
        self.all.insert(self.last, relay);
        self.ready.push(self.last);
    }

    /// Notes what the kernel has to say.
    fn look(&mut self) -> io::Result<()> {
        use epoll::EventFlags as Flags;
        loop {
            let mut events = [const { MaybeUninit::uninit() }; EVENTS];
            let at_once = Timespec::try_from(Duration::ZERO).expect("no time is a time");
            let events = match epoll::wait(&*self.epoll, &mut events, Some(&at_once)) {
                Ok((events, _)) => events,
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            };
            let count = events.len();
            for event in events {
                let (id, flags) = (event.data.u64(), event.flags);
                let Some(relay) = self.all.get_mut(&id) else { continue };
                let before = (relay.ended, relay.readable, relay.writable);
                let failed = flags.intersects(Flags::ERR | Flags::HUP);
                relay.ended |= failed || flags.contains(Flags::RDHUP);
                relay.readable |= relay.ended || flags.contains(Flags::IN);
                relay.writable |= failed || flags.contains(Flags::OUT);
                // Who waits for its stream is told by that.
                if before != (relay.ended, relay.readable, relay.writable) {
                    self.ready.push(id);
                }
            }
            if count < EVENTS {
                return Ok(());
            }
        }
    }
}

impl Relay {
    /// Carries what can be carried now; whether all was.
    fn run(&mut self, id: RelayId, piece: &mut [u8]) -> io::Result<bool> {
        let bundle = self.to.bundle.clone();
        let mut state = bundle.lock();
        // Before it looks: what comes later is told anew.
        state.set_relay(self.to.stream, id);
        if let Some(code) = state.multiplexer.reset_of(self.to.stream) {
            return Err(reset_error(code));
        }
        self.write(&mut state)?;
        self.read(&mut state, piece)?;
        Ok(self.read_all && self.written_all)
    }

    /// From the stream to the socket.
    fn write(&mut self, state: &mut BundleState) -> io::Result<()> {
        let Self { to: Attachment { stream, socket, change, .. }, to_socket, writable, .. } = self;
        while *writable && !self.written_all {
            if !to_socket.is_empty() {
                match rustix::io::write(&*socket, to_socket.bytes()) {
                    Ok(count) => {
                        to_socket.take(count);
                        *writable = to_socket.is_empty();
                    }
                    Err(Errno::INTR) => {}
                    Err(Errno::AGAIN) => *writable = false,
                    Err(error) => return Err(error.into()),
                }
                continue;
            }
            let passing = change.as_ref().map_or(usize::MAX, |change| change.passing());
            let (mut failure, mut refused, mut whole) = (None, None, true);
            let outcome = state.multiplexer.read_with(*stream, |[first, second]| {
                if let Some(change) = change.as_mut().filter(|_| passing == 0) {
                    let piece = &first[..first.len().min(LOOKED_AT_BYTES)];
                    refused = change.take_from_stream(piece, &mut to_socket.all).err();
                    return if refused.is_none() { piece.len() } else { 0 };
                }
                let first = &first[..first.len().min(passing)];
                let second = &second[..second.len().min(passing - first.len())];
                match rustix::io::writev(&*socket, &[IoSlice::new(first), IoSlice::new(second)]) {
                    Ok(count) => {
                        whole = count == first.len() + second.len();
                        if let Some(change) = change.as_mut() {
                            change.pass(count);
                        }
                        count
                    }
                    Err(error) => {
                        failure = Some(error);
                        0
                    }
                }
            });
            if let Some(error) = refused {
                return Err(error);
            }
            match failure {
                Some(Errno::INTR) => continue,
                Some(Errno::AGAIN) => {
                    *writable = false;
                    return Ok(());
                }
                Some(error) => return Err(error.into()),
                None => {}
            }
            match outcome {
                // The kernel has taken as much as it has room for.
                ReadOutcome::Bytes(_) => *writable = whole,
                ReadOutcome::Nothing => return state.failure().map_or(Ok(()), Err),
                ReadOutcome::Reset(code) => return Err(reset_error(code)),
                ReadOutcome::Ended => {
                    if let Some(change) = change {
                        change.take_from_stream(&[], &mut to_socket.all)?;
                    }
                    shutdown(socket)?;
                    self.written_all = true;
                }
            }
        }
        Ok(())
    }

    /// From the socket to the stream.
    fn read(&mut self, state: &mut BundleState, piece: &mut [u8]) -> io::Result<()> {
        let Self { to: Attachment { stream, socket, change, .. }, to_stream, readable, .. } = self;
        if self.read_all {
            return Ok(());
        }
        if let Some(error) = state.failure() {
            return Err(error);
        }
        // What nobody changes goes straight to where it is sent from.
        while *readable && change.is_none() {
            let mut offered = 0;
            let filled = state.multiplexer.fill(*stream, |places| {
                offered = places.iter().map(|place| place.len()).sum();
                if offered == 0 {
                    return Ok(0);
                }
                let mut slices: [IoSliceMut<'_>; FILLED_CELLS] = std::array::from_fn(|_| IoSliceMut::new(&mut []));
                for (slice, place) in slices.iter_mut().zip(places) {
                    *slice = IoSliceMut::new(place);
                }
                rustix::io::readv(&*socket, &mut slices)
            });
            match filled {
                None => return Err(state.write_error(*stream)),
                // It is told when its turn comes.
                Some(Ok(_)) if offered == 0 => return Ok(()),
                Some(Ok(0)) => {
                    state.multiplexer.finish(*stream);
                    self.read_all = true;
                    return Ok(());
                }
                Some(Ok(count)) => *readable = count == offered || self.ended,
                Some(Err(Errno::INTR)) => {}
                Some(Err(Errno::AGAIN)) => *readable = false,
                Some(Err(error)) => return Err(error.into()),
            }
        }
        let Some(change) = change else { return Ok(()) };
        while *readable || !to_stream.is_empty() {
            let Some(room) = state.multiplexer.room(*stream) else { return Err(state.write_error(*stream)) };
            if room == 0 {
                return Ok(());
            }
            if !to_stream.is_empty() {
                let bytes = to_stream.bytes();
                let taken = state.multiplexer.write(*stream, &bytes[..room.min(bytes.len())]);
                to_stream.take(taken.unwrap_or(0));
                continue;
            }
            let piece = &mut piece[..room.min(PIECE_BYTES)];
            match rustix::io::read(&*socket, &mut *piece) {
                Ok(count) => {
                    change.take_from_socket(&piece[..count], &mut to_stream.all)?;
                    if count == 0 {
                        state.multiplexer.finish(*stream);
                        self.read_all = true;
                        return Ok(());
                    }
                    *readable = count == piece.len() || self.ended;
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => *readable = false,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

/// Bytes that were changed, and wait for where they go.
#[derive(Default)]
struct Waiting {
    all: Vec<u8>,
    /// So many of them have gone.
    gone: usize,
}

impl Waiting {
    fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    fn bytes(&self) -> &[u8] {
        &self.all[self.gone..]
    }

    /// So many more have gone.
    fn take(&mut self, count: usize) {
        self.gone += count;
        if self.gone == self.all.len() {
            self.gone = 0;
            self.all.clear();
            // A large piece is the exception.
            self.all.shrink_to(2 * PIECE_BYTES);
        }
    }
}

fn shutdown(socket: &impl AsFd) -> io::Result<()> {
    match rustix::net::shutdown(socket, rustix::net::Shutdown::Write) {
        // The program has gone already.
        Ok(()) | Err(Errno::NOTCONN) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
