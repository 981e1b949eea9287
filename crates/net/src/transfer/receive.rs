//! The receiving side of a transfer.

use std::borrow::Cow;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver as MpscReceiver, channel};
use std::sync::{Arc, Weak};
use std::time::Duration;

use pliant_proto::packet::ByteRange;
use pliant_proto::time::{Instant, Span};
use pliant_proto::transport::any::{AnyRequest, AnyTransport};
use pliant_proto::transport::{Event as TransportEvent, Statistics};
use pliant_proto::units::Bytes;

use super::announcement::{Announcement, Kind};
use super::checkpoint::kept_bytes;
use super::close_code;
use super::directory::{DIGEST_BYTES, HeldNotice, Index, Unchanged, index_path};
use super::error::{TransferError, copy};
use super::output::{Output, OutputError, Target, path_in};
use super::partial::Partial;
use super::placement::{Arrived, Placed, PlacementError, verdict};
use super::progress::{MAX_SLEEP, PROGRESS_INTERVAL, Progress};
use super::resume::{Hashes, Hashing, Prefixes, RESUME_BLOCK_BYTES, ResumeNotice, blocks_kept, name_of};
use super::settings::Settings;
use super::verdict::{AT_WORK, Verdict};
use super::whole::{TOO_LARGE, Whole};
use crate::clock::{Clock, realtime_ns};
use crate::connection::{Caller, Closed, ConnectionId, Event, Refused, require_right};
use crate::driver::{Application, ConnectionHandler, Driver, PayloadLocation, Session};
use crate::flow::{Answer, Opening, Protocol};
use crate::poll::PollWaker;
use crate::seam::{self, Mutant};

/// How long a receiver waits for the sender's goodbye after its verdict, counted from the sender's last sign of life.
const LINGER: Span = Span::from_secs(3);
/// How long it waits for a sender that is heard but says no goodbye.
const LONGEST_LINGER: Span = Span::from_secs(10);
/// Time from the first verdict to the next. It doubles with each repetition, up to the longest.
const VERDICT_INTERVAL: Span = Span::from_ms(250);
const LONGEST_VERDICT_INTERVAL: Span = Span::from_secs(2);

/// How often a busy receiver tells its sender so.
const AT_WORK_INTERVAL: Span = Span::from_secs(1);

/// Most pages of the answer to a listing that are sent at once. A sender asks again for the others.
const MAX_ASKED: usize = 64;

/// A received content.
#[derive(Clone, Debug)]
pub struct Received {
    /// Who sent it.
    pub from: SocketAddr,
    /// The sender's name for it.
    pub name: String,
    /// Its path, unless it was discarded.
    pub path: Option<PathBuf>,
    /// Bytes that arrived.
    pub bytes: u64,
    /// Those of them that were there from an interrupted transfer.
    pub kept_bytes: u64,
    /// Files of a directory that did not travel, because they were there from an earlier transfer.
    pub unchanged: Unchanged,
    /// The missing parts, as its contract allows.
    pub missing: Vec<ByteRange>,
    /// From the connection to the last byte.
    pub elapsed: Duration,
    /// BLAKE3 hash of the content, which equals the sender's, if it was sent whole.
    pub hash: Option<blake3::Hash>,
    /// How it was carried.
    pub protocol: Protocol,
    /// The transport's counters.
    pub statistics: Statistics,
    /// Datagrams so far that were not passed to any transport.
    pub refused: Refused,
}

/// Waits for transfers on an address.
pub struct Receiver {
    driver: Driver<AnyTransport, ReceiverApplication>,
    address: SocketAddr,
    settings: Settings,
}

impl Receiver {
    /// Listens on `address`, port 0 for any free one.
    pub fn bind(address: SocketAddr, mut settings: Settings) -> Result<Self, TransferError> {
        settings.check(address)?;
        let socket_error = |error| TransferError::Socket { address, error };
        let (driver, buffer) = settings.driver(address, true).map_err(socket_error)?;
        let address = driver.local_address().map_err(socket_error)?;
        // The kernel counts its overhead too: up to as much again, if nothing is coalesced.
        settings.flow.receive_buffer = settings.flow.receive_buffer.min(buffer as u64 / 2);
        Ok(Self { driver, address, settings })
    }

    /// The address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits for a sender and takes one content from it.
    pub fn receive(
        self,
        target: &Target,
        interrupted: &AtomicBool,
        progress: impl FnMut(Progress),
    ) -> Result<Received, TransferError> {
        let mut result = None;
        self.serve(target, Some(1), interrupted, progress, |received| result = Some(received))?;
        result.expect("one was taken")
    }

    /// Takes contents from all senders, `count` of them if given, and reports the result of each to `each`. Ends with
    /// an error if the socket fails or it is interrupted.
    pub fn serve(
        mut self,
        target: &Target,
        count: Option<u64>,
        interrupted: &AtomicBool,
        mut progress: impl FnMut(Progress),
        mut each: impl FnMut(Result<Received, TransferError>),
    ) -> Result<(), TransferError> {
        let address = self.address;
        let failed = |error| TransferError::Socket { address, error };
        let waker = PollWaker::new().map_err(failed)?;
        self.driver.set_waker(waker.clone());
        let cancelled = AtomicBool::new(false);
        // It waits for the threads that place contents.
        std::thread::scope(|scope| {
            let (results, placements) = channel();
            let place = |connection: ConnectionId, (content, announcement, wanted): Work| {
                let (results, waker, cancelled) = (results.clone(), waker.clone(), &cancelled);
                let limits = self.settings.limits;
                let work = move || {
                    let placed = content.place(&announcement, &limits, cancelled, &wanted);
                    // Nobody listens any more once the socket has failed.
                    let _ = results.send((connection, placed));
                    waker.wake();
                };
                if seam::is_mutant(Mutant::PlacedInTheLoop) {
                    work();
                } else {
                    scope.spawn(seam::task(work));
                }
            };
            let (settings, clock) = (&self.settings, self.driver.clock());
            let mut serving = Serving {
                handler: ReceiverHandler { settings, target, clock, count, begun: 0, over: Vec::new() },
                driver: &mut self.driver,
                count,
                done: 0,
            };
            let served = serving.serve(&placements, place, interrupted, &mut progress, &mut each);
            cancelled.store(true, Ordering::Relaxed);
            let result = match served {
                Err(ServeError::Socket(error)) => Err(failed(error)),
                Err(ServeError::Interrupted) => {
                    // What is in its place is there, whenever the interruption came.
                    serving.wait_for_placements(&placements, &mut each);
                    Err(TransferError::Interrupted)
                }
                Ok(()) => Ok(()),
            };
            seam::before_join();
            result
        })
    }
}

/// Work for a placing thread, and a mark that exists as long as its connection.
type Work = (Arrived, Announcement, Weak<()>);

/// Why a receiver stops.
enum ServeError {
    Socket(io::Error),
    Interrupted,
}

impl From<io::Error> for ServeError {
    fn from(error: io::Error) -> Self {
        Self::Socket(error)
    }
}

type Placements = MpscReceiver<(ConnectionId, Result<Placed, PlacementError>)>;

/// A running receiver.
struct Serving<'s> {
    driver: &'s mut Driver<AnyTransport, ReceiverApplication>,
    handler: ReceiverHandler<'s>,
    count: Option<u64>,
    done: u64,
}

impl Serving<'_> {
    fn has_all(&self) -> bool {
        self.count.is_some_and(|count| self.done >= count)
    }

    fn serve(
        &mut self,
        placements: &Placements,
        place: impl Fn(ConnectionId, Work),
        interrupted: &AtomicBool,
        progress: &mut impl FnMut(Progress),
        each: &mut impl FnMut(Result<Received, TransferError>),
    ) -> Result<(), ServeError> {
        let (mut told_at, mut at_work_at) = (self.driver.now(), self.driver.now());
        while !self.has_all() {
            self.driver.run_once(&mut self.handler, MAX_SLEEP)?;
            self.handler.settings.update_keys(self.driver);
            let now = self.driver.now();
            let here: Vec<ConnectionId> = self.driver.connections().collect();
            for connection in &here {
                let Some(incoming) = self.driver.application(*connection) else { continue };
                if let Some(work) = incoming.take_received() {
                    place(*connection, work);
                }
            }
            for (connection, session, _) in &mut self.handler.over {
                if let Some(work) = session.application.take_received() {
                    place(*connection, work);
                }
            }
            for (connection, placed) in placements.try_iter() {
                self.placed(now, connection, placed);
            }
            for connection in &here {
                self.tell_start(*connection);
                self.tell_held(now, *connection);
                self.tell_verdict(now, *connection)?;
            }
            if now.since(at_work_at) >= AT_WORK_INTERVAL {
                at_work_at = now;
                for connection in &here {
                    self.tell_of_work(*connection);
                }
            }
            self.finish_all(each);
            if !self.has_all() && interrupted.load(Ordering::Relaxed) {
                for connection in here {
                    if self.driver.session(connection).is_some_and(|session| session.application.is_receiving()) {
                        self.driver.close(connection, close_code::INTERRUPTED, "interrupted")?;
                    }
                }
                return Err(ServeError::Interrupted);
            }
            if now.since(told_at) >= PROGRESS_INTERVAL && !here.is_empty() {
                told_at = now;
                progress(self.progress());
            }
        }
        Ok(())
    }

    /// Waits until what has arrived is in its place or given up, and tells the senders once.
    fn wait_for_placements(&mut self, placements: &Placements, each: &mut impl FnMut(Result<Received, TransferError>)) {
        let placing =
            |session: &Session<_, ReceiverApplication>| matches!(session.application.stage, Stage::Placing { .. });
        let here = self.driver.connections().filter_map(|connection| self.driver.session(connection));
        let over = self.handler.over.iter().map(|(_, session, _)| session);
        for _ in 0..here.chain(over).filter(|session| placing(session)).count() {
            let Ok((connection, placed)) = seam::receive(placements) else { break };
            self.placed(self.driver.now(), connection, placed);
        }
        let here: Vec<ConnectionId> = self.driver.connections().collect();
        for connection in here {
            // A socket that fails now changes nothing of what is in its place.
            let _ = self.close_with_verdict(connection);
        }
        self.finish_all(each);
    }

    /// Notes the result for a content.
    fn placed(&mut self, now: Instant, connection: ConnectionId, placed: Result<Placed, PlacementError>) {
        let over = self.handler.over.iter_mut().find(|(known, ..)| *known == connection);
        let application = match over {
            Some((_, session, _)) => Some(&mut session.application),
            None => self.driver.application(connection),
        };
        if let Some(application) = application {
            let telling = Telling { first: now, next: now, interval: VERDICT_INTERVAL };
            application.stage = Stage::Placed(placed, telling);
        }
    }

    /// Tells a sender that has sent its hashes where to begin.
    fn tell_start(&mut self, connection: ConnectionId) {
        let Some(incoming) = self.driver.application(connection) else { return };
        if let Some(start) = incoming.start_to_tell() {
            self.driver.notify(connection, &start.encode());
        }
    }

    /// Tells a waiting sender that its content is being read, verified or stored.
    fn tell_of_work(&mut self, connection: ConnectionId) {
        if self.driver.session(connection).is_some_and(|session| session.application.is_at_work()) {
            self.driver.notify(connection, AT_WORK);
        }
    }

    /// Answers a sender that asks which files of its listing are here.
    fn tell_held(&mut self, now: Instant, connection: ConnectionId) {
        let Some(incoming) = self.driver.application(connection) else { return };
        let asked = std::mem::take(&mut incoming.asked);
        let Stage::Placed(Ok(Placed { held, .. }), telling) = &mut incoming.stage else { return };
        if !asked.is_empty() {
            telling.first = now;
        }
        let pages: Vec<_> = asked.into_iter().filter_map(|page| HeldNotice::page_of(held, page)).collect();
        for page in pages {
            self.driver.notify(connection, &page.encode());
        }
    }

    /// Tells a sender the result for its content from time to time. Closes the connection when the sender is silent for
    /// too long.
    fn tell_verdict(&mut self, now: Instant, connection: ConnectionId) -> io::Result<()> {
        let silence = self.driver.silence(connection);
        let Some(incoming) = self.driver.application(connection) else { return Ok(()) };
        let Stage::Placed(placed, telling) = &mut incoming.stage else { return Ok(()) };
        let waited = now.since(telling.first);
        if waited > LINGER && silence > LINGER || waited > LONGEST_LINGER {
            // The sender's goodbye may be lost.
            return self.close_with_verdict(connection);
        }
        if now >= telling.next {
            telling.next = now.after(telling.interval);
            telling.interval = telling.interval.times(2).min(LONGEST_VERDICT_INTERVAL);
            let verdict = verdict(placed).encode();
            self.driver.notify(connection, &verdict);
        }
        Ok(())
    }

    /// Closes a connection with the result for its content.
    fn close_with_verdict(&mut self, connection: ConnectionId) -> io::Result<()> {
        let Some(session) = self.driver.session(connection) else { return Ok(()) };
        let Stage::Placed(placed, _) = &session.application.stage else { return Ok(()) };
        let (code, reason) = match verdict(placed) {
            Verdict::Placed => (close_code::DONE, String::new()),
            Verdict::NotPlaced(why) | Verdict::Differs(why) => (close_code::FAILED, why),
        };
        let session = self.driver.close(connection, code, &reason)?;
        let why = Closed::ByPeer { code, reason };
        self.handler.over.extend(session.map(|session| (connection, session, why)));
        Ok(())
    }

    /// Reports the results of transfers that are over and not being placed.
    fn finish_all(&mut self, each: &mut impl FnMut(Result<Received, TransferError>)) {
        let is_over = |(_, session, _): &mut (_, Session<_, ReceiverApplication>, _)| {
            !matches!(session.application.stage, Stage::Placing { .. })
        };
        for (_, session, why) in self.handler.over.extract_if(.., is_over) {
            // A directory is yet to come.
            if session.application.announcement.kind == Kind::Listing {
                continue;
            }
            self.done += 1;
            each(finish(session, why, self.driver.refused()));
        }
    }

    /// Progress of all current transfers.
    fn progress(&self) -> Progress {
        let mut all = Progress { done_bytes: 0, total_bytes: Some(0), placing: true, late: None };
        for connection in self.driver.connections() {
            let Some(session) = self.driver.session(connection) else { continue };
            let application = &session.application;
            all.done_bytes += application.bytes();
            all.total_bytes = all.total_bytes.zip(application.announcement.size).map(|(sum, size)| sum + size);
            all.placing &= !application.is_receiving();
        }
        all
    }
}

/// The result of a transfer that is over.
fn finish(
    session: Session<AnyTransport, ReceiverApplication>,
    why: Closed,
    refused: Refused,
) -> Result<Received, TransferError> {
    let statistics = session.receiver_statistics();
    let ReceiverApplication { from, protocol, announcement, stage, opened_at, received_at, problem, .. } =
        session.application;
    if let Some(problem) = problem {
        if let Stage::Receiving(content) = stage {
            content.discard();
        }
        return Err(problem);
    }
    let (placed, received_at) = match (stage, received_at) {
        (Stage::Placed(placed, _), Some(received_at)) => (placed, received_at),
        (stage, _) => {
            // A sender that fails has changed its file or cannot read it: what came of it is of no use.
            if let (Stage::Receiving(content), Closed::ByPeer { code: close_code::FAILED, .. }) = (stage, &why) {
                content.discard();
            }
            return Err(TransferError::ended(from, why));
        }
    };
    let Placed { path, bytes, kept: kept_bytes, unchanged, missing, hash, .. } =
        placed.map_err(|error| error.into_transfer_error(from))?;
    let elapsed = Duration::from_nanos(received_at.since(opened_at).as_ps() / 1000);
    let name = announcement.name;
    Ok(Received {
        from,
        name,
        path,
        bytes,
        kept_bytes,
        unchanged,
        missing,
        elapsed,
        hash,
        protocol,
        statistics,
        refused,
    })
}

/// The state of a transfer.
enum Stage {
    /// Bytes are still to come, or were not yet handled.
    Receiving(Arrived),
    /// It is being verified and put into its place. This many bytes have arrived.
    Placing { bytes: u64 },
    /// Its result.
    Placed(Result<Placed, PlacementError>, Telling),
}

/// Where the sender of a content of `size` bytes must begin. What is kept is hashed first.
fn start_behind(output: &mut Output, size: Option<u64>) -> io::Result<Start> {
    let Output::Kept { checkpoint, .. } = output else { return Ok(Start::Behind(0)) };
    let blocks = blocks_kept(checkpoint.written(), size.unwrap_or(0));
    if blocks == 0 {
        checkpoint.resume(0)?;
        return Ok(Start::Behind(0));
    }
    Ok(Start::Hashing(Hashing::begin(checkpoint.part()?, blocks)))
}

/// The schedule on which a sender is told the verdict.
struct Telling {
    first: Instant,
    next: Instant,
    interval: Span,
}

/// A receiver's application.
pub(super) struct ReceiverApplication {
    from: SocketAddr,
    protocol: Protocol,
    announcement: Announcement,
    stage: Stage,
    opened_at: Instant,
    /// When the last byte was delivered. The driver's time is not available where the event arrives.
    received_at: Option<Instant>,
    clock: Clock,
    /// Why it failed.
    problem: Option<TransferError>,
    /// Where the sender must begin.
    start: Start,
    /// The sender's hashes, until they are answered.
    hashes: Option<Hashes>,
    /// Why what is kept cannot be continued. The next event reports it.
    failure: Option<io::Error>,
    /// Requested pages of the answer to a listing.
    asked: Vec<u32>,
    /// Its threads continue as long as this exists.
    here: Arc<()>,
}

/// Where a sender must begin.
enum Start {
    /// This depends on what is kept, which is being hashed.
    Hashing(Hashing),
    Hashed(Prefixes),
    /// After this many blocks.
    Behind(u32),
}

impl ReceiverApplication {
    /// The content, once all of it has arrived. It is returned only once.
    fn take_received(&mut self) -> Option<Work> {
        self.received_at.filter(|_| self.problem.is_none() && self.is_receiving())?;
        let placing = Stage::Placing { bytes: self.bytes() };
        let Stage::Receiving(content) = std::mem::replace(&mut self.stage, placing) else { unreachable!() };
        Some((content, self.announcement.clone(), Arc::downgrade(&self.here)))
    }

    /// Where the sender must begin, if it has asked and the answer is known.
    fn start_to_tell(&mut self) -> Option<ResumeNotice> {
        let Stage::Receiving(Arrived::Whole(whole)) = &mut self.stage else { return None };
        let theirs = self.hashes.as_ref()?;
        if let Start::Hashing(hashing) = &self.start {
            self.start = match hashing.poll()? {
                Ok(prefixes) => Start::Hashed(prefixes),
                // What cannot be read is not kept.
                Err(_) => Start::Behind(0),
            };
        }
        if let Start::Hashed(prefixes) = &self.start {
            let common = prefixes.common(theirs);
            let blocks = common.as_ref().map_or(0, |prefix| prefix.bytes / RESUME_BLOCK_BYTES);
            self.start = Start::Behind(blocks as u32);
            let begun = whole.begin_behind(common);
            self.failure = begun.err();
        }
        self.hashes = None;
        let Start::Behind(blocks) = self.start else { return None };
        Some(ResumeNotice::Start(blocks))
    }

    /// Whether a thread works for it.
    fn is_at_work(&self) -> bool {
        match &self.stage {
            Stage::Receiving(_) => matches!(self.start, Start::Hashing(_)),
            Stage::Placing { .. } => true,
            Stage::Placed(..) => false,
        }
    }

    fn is_receiving(&self) -> bool {
        matches!(self.stage, Stage::Receiving(_))
    }

    /// Remembers an error together with its file or sender.
    fn note(&mut self, result: io::Result<()>) -> io::Result<()> {
        if let (Err(error), Stage::Receiving(content)) = (&result, &self.stage) {
            let lie = if let Arrived::Whole(whole) = content { whole.lie } else { None };
            self.problem = match (lie, content.path()) {
                (Some(why), _) => Some(TransferError::NotATransfer { address: self.from, why }),
                (None, Some(path)) => Some(TransferError::File { path: path.into(), error: copy(error) }),
                (None, None) => None,
            };
        }
        result
    }

    /// Bytes of the content that have arrived.
    fn bytes(&self) -> u64 {
        match &self.stage {
            Stage::Receiving(content) => content.bytes(),
            Stage::Placing { bytes } | Stage::Placed(Ok(Placed { bytes, .. }), _) => *bytes,
            Stage::Placed(Err(_), _) => 0,
        }
    }
}

impl Application for ReceiverApplication {
    fn read(&mut self, _: PayloadLocation, _: &mut [u8]) -> io::Result<()> {
        Ok(())
    }

    fn write(&mut self, location: PayloadLocation, payload: &[u8]) -> io::Result<()> {
        // What comes late has come before.
        let Stage::Receiving(content) = &mut self.stage else { return Ok(()) };
        match (content, location) {
            (Arrived::Whole(whole), PayloadLocation::Stream(offset)) => {
                whole.write(offset, payload);
                Ok(())
            }
            (Arrived::Partial(partial), location) => {
                let written = partial.write(location, payload);
                self.note(written)
            }
            _ => Ok(()),
        }
    }

    fn event(&mut self, event: TransportEvent<AnyRequest>) -> io::Result<()> {
        if event == TransportEvent::Received {
            self.received_at = Some(self.clock.now());
        }
        let Stage::Receiving(content) = &mut self.stage else { return Ok(()) };
        if let Some(failure) = self.failure.take() {
            return self.note(Err(failure));
        }
        if let (Arrived::Whole(whole), Start::Hashing(_) | Start::Hashed(_), TransportEvent::Deliver(_)) =
            (&mut *content, &self.start, &event)
        {
            // A sender that does not ask where to begin begins at the beginning.
            self.start = Start::Behind(0);
            let begun = whole.begin_behind(None);
            if begun.is_err() {
                return self.note(begun);
            }
        }
        let taken = match content {
            Arrived::Whole(whole) => whole.event(event),
            Arrived::Partial(partial) => partial.event(event),
            Arrived::Counted(bytes) => {
                match event {
                    TransportEvent::Deliver(range) => *bytes = range.end,
                    TransportEvent::DeliverMessage { bytes: more, .. } => *bytes += u64::from(more),
                    _ => {}
                }
                Ok(())
            }
        };
        self.note(taken)
    }

    fn notice(&mut self, content: &[u8]) {
        if let Some(ResumeNotice::Hashes(hashes)) = ResumeNotice::decode(content) {
            self.hashes = Some(hashes);
        } else if let Some(HeldNotice::Ask(page)) = HeldNotice::decode(content)
            && self.asked.len() < MAX_ASKED
        {
            self.asked.push(page);
        }
    }
}

/// The name under which a content is kept if its transfer is interrupted.
fn kept_name(announcement: &Announcement, caller: Caller<'_>) -> Option<blake3::Hash> {
    let worth_it = announcement.size.is_some_and(|size| size > RESUME_BLOCK_BYTES);
    announcement.identity.as_ref().filter(|_| worth_it).map(|own| name_of(own, caller.peer.map(|peer| &peer.key)))
}

/// The destination for a caller's content, or why the caller may not send.
fn target_of<'t>(target: &'t Target, caller: Caller<'_>) -> Result<Cow<'t, Target>, String> {
    let rights = caller.rights();
    require_right(rights.send.is_some(), "send")?;
    match (rights.send.filter(|folder| !folder.as_os_str().is_empty()), target) {
        (None, _) => Ok(Cow::Borrowed(target)),
        (Some(_), Target::Discard) => Ok(Cow::Owned(Target::Discard)),
        (Some(folder), Target::Directory(directory)) => Ok(Cow::Owned(Target::Directory(directory.join(folder)))),
        (Some(_), _) => Err("its key may send into a folder of the receiver's, which receives no folder".into()),
    }
}

/// Creates the folder into which only this caller sends.
fn make_folder(target: &Target) -> Result<(), OutputError> {
    let Target::Directory(folder) = target else { return Ok(()) };
    std::fs::create_dir_all(folder).map_err(|error| OutputError::File(folder.clone(), error))
}

struct ReceiverHandler<'s> {
    settings: &'s Settings,
    target: &'s Target,
    clock: Clock,
    count: Option<u64>,
    begun: u64,
    over: Vec<(ConnectionId, Session<AnyTransport, ReceiverApplication>, Closed)>,
}

impl ReceiverHandler<'_> {
    fn overwrites(&self) -> bool {
        self.settings.overwrite || seam::is_mutant(Mutant::FilesAreReplaced)
    }

    /// The path of the note on which files of a directory this caller has sent, if it may replace the directory.
    fn index_of(
        &self,
        announcement: &Announcement,
        path: Option<&Path>,
        target: &Target,
        caller: Caller<'_>,
    ) -> Option<PathBuf> {
        let of_directory = matches!(announcement.kind, Kind::Directory | Kind::Listing);
        let path = path.filter(|_| of_directory && target.replaces(self.overwrites()))?;
        Some(index_path(path, caller.peer.map(|peer| &peer.key)))
    }

    /// The announcement and how it is carried, or why it is refused.
    fn judge(&self, opening: &[u8]) -> Result<(Opening, Announcement, Protocol), String> {
        let opening = Opening::decode(opening).ok_or("the connection does not begin as a transfer does")?;
        let announcement = Announcement::decode(&opening.content)?;
        let protocol = self.settings.flow.choose(&opening.offers).ok_or("no transport that both sides have")?;
        let messages = announcement.message_bytes;
        if (protocol == Protocol::Atp) != messages.is_some() {
            return Err("messages need atp, and atp needs messages".into());
        }
        let (message, buffer) = (Bytes(messages.unwrap_or(0).into()), Bytes(self.settings.flow.receive_buffer));
        if message > buffer {
            return Err(format!(
                "a message of {message} (the sender's --message-bytes) is larger than the receive buffer of {buffer} \
                 (--receive-buffer)"
            ));
        }
        let most = self.settings.limits.max_bytes;
        if announcement.kind != Kind::Test && announcement.size.is_some_and(|size| size > most) {
            return Err(TOO_LARGE.into());
        }
        let most = self.settings.limits.max_files.saturating_mul(DIGEST_BYTES as u64);
        if announcement.kind == Kind::Listing && announcement.size.is_some_and(|size| size > most) {
            return Err(format!("more than {} files: `recv --max-files`", self.settings.limits.max_files));
        }
        let kept = announcement.kind != Kind::Test && !matches!(self.target, Target::Discard);
        if kept && announcement.partial && announcement.min_delivery < self.settings.min_delivery {
            let (promised, least) = (announcement.min_delivery, self.settings.min_delivery);
            return Err(format!(
                "only {promised} of it need arrive, and the receiver wants {least}: `recv --min-delivery`"
            ));
        }
        Ok((opening, announcement, protocol))
    }
}

impl ConnectionHandler<AnyTransport, ReceiverApplication> for ReceiverHandler<'_> {
    fn answer(&mut self, caller: Caller<'_>, opening: &[u8]) -> Result<Vec<u8>, String> {
        let target = target_of(self.target, caller)?;
        if self.count.is_some_and(|count| self.begun >= count) {
            return Err("it receives from somebody else".into());
        }
        let (_, announcement, protocol) = self.judge(opening)?;
        let path = path_in(&target, &announcement).ok().flatten();
        let kept = kept_name(&announcement, caller)
            .zip(path.as_deref())
            .and_then(|(name, path)| Some(blocks_kept(kept_bytes(path, &name), announcement.size?)));
        let index = self.index_of(&announcement, path.as_deref(), &target, caller);
        let earlier = path
            .zip(index.filter(|_| announcement.kind == Kind::Listing))
            .and_then(|(path, index)| Index::open(&path, &index).ok()?);
        let note = earlier.map_or_else(|| kept.unwrap_or(0).into(), |earlier| earlier.files());
        Ok(Answer { protocol, unix_ns: realtime_ns(), note }.encode())
    }

    fn open(
        &mut self,
        now: Instant,
        connection: ConnectionId,
        event: Event,
    ) -> Option<Session<AnyTransport, ReceiverApplication>> {
        let Event::Accepted { from, caller, opening } = event else { return None };
        if self.count.is_some_and(|count| self.begun >= count) {
            return None;
        }
        let (opening, announcement, protocol) = self.judge(&opening).ok()?;
        let caller = Caller { from, peer: caller.as_deref() };
        let target = target_of(self.target, caller).ok()?;
        self.begun += u64::from(announcement.kind != Kind::Listing);
        let overwrite = self.overwrites();
        let made = if let Cow::Owned(own) = &target { make_folder(own) } else { Ok(()) };
        let kept = kept_name(&announcement, caller);
        let path = path_in(&target, &announcement).ok().flatten();
        let index = self.index_of(&announcement, path.as_deref(), &target, caller);
        let opened =
            made.and_then(|()| Output::open(&target, &announcement, overwrite, kept.as_ref(), index.as_deref()));
        let started = opened.and_then(|mut output| match start_behind(&mut output, announcement.size) {
            Ok(start) => Ok((output, start)),
            Err(error) => Err(OutputError::File(output.path().map(PathBuf::from).unwrap_or_default(), error)),
        });
        let (output, start, failure) = match started {
            Ok((output, start)) => (output, start, None),
            Err(error) => (Output::Discarded, Start::Behind(0), Some(error)),
        };
        let content = match announcement.kind {
            _ if announcement.partial => Arrived::Partial(Partial::new(&announcement, output)),
            Kind::Test => Arrived::Counted(0),
            Kind::File | Kind::Directory | Kind::Stream | Kind::Listing => {
                let max_bytes = self.settings.limits.max_bytes;
                let mut whole = Whole::new(&announcement, output, &self.settings.flow, max_bytes);
                whole.index = index;
                Arrived::Whole(Box::new(whole))
            }
        };
        let (said, problem) = match failure {
            None => (None, None),
            Some(OutputError::Name) => {
                let why = "the name it gives is not a plain file name";
                (Some(io::Error::other(why)), Some(TransferError::NotATransfer { address: from, why }))
            }
            // The peer hears what happened, not where.
            Some(OutputError::File(path, error)) => (Some(copy(&error)), Some(TransferError::File { path, error })),
        };
        let (clock, stage, opened_at, received_at) = (self.clock, Stage::Receiving(content), now, None);
        let incoming = ReceiverApplication {
            from,
            protocol,
            announcement,
            stage,
            opened_at,
            received_at,
            clock,
            problem,
            start,
            hashes: None,
            failure: None,
            asked: Vec::new(),
            here: Arc::default(),
        };
        let path = self.settings.path_to(from);
        let receiver = self.settings.flow.receiver(protocol, path, opening.mtu, u64::from(connection.get()));
        let session = Session::new(incoming).receiving(receiver);
        Some(match said {
            None => session,
            Some(error) => session.failing(error),
        })
    }

    fn closed(
        &mut self,
        connection: ConnectionId,
        session: Option<Session<AnyTransport, ReceiverApplication>>,
        why: Closed,
    ) {
        self.over.extend(session.map(|session| (connection, session, why)));
    }
}
