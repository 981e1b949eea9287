//! The receiving side of a transfer.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pliant_proto::packet::ByteRange;
use pliant_proto::time::{Instant, Span};
use pliant_proto::transport::any::AnyTransport;
use pliant_proto::transport::{Event as TransportEvent, Statistics};
use pliant_proto::units::Bytes;

use super::partial::Partial;
use super::send::path_to;
use super::whole::{Output, OutputError, Whole};
use super::{
    Announcement, CODE_DONE, CODE_INTERRUPTED, Kind, NAP, PROGRESS_INTERVAL, Progress, Settings, TransferError,
    hold_hash,
};
use crate::clock::realtime_ns;
use crate::connection::{Closed, ConnectionId, Event, Refused};
use crate::driver::{Application, Clock, Driver, Link, Place, Service};
use crate::flow::{Answer, Family, Opening};

/// How long a receiver that has everything waits for the sender's goodbye, counted from when it was heard last.
const LINGER: Span = Span::from_secs(1);

/// Where received contents go.
#[derive(Clone, Debug)]
pub enum Target {
    /// Into this directory, under the sender's name.
    Directory(PathBuf),
    /// Into this file.
    File(PathBuf),
    /// Nowhere: received, hashed and forgotten.
    Discard,
}

/// What was received.
#[derive(Clone, Debug)]
pub struct Received {
    /// Who sent it.
    pub from: SocketAddr,
    /// The name that the sender gave.
    pub name: String,
    /// Where it is now, unless it was discarded.
    pub path: Option<PathBuf>,
    /// Bytes that arrived.
    pub bytes: u64,
    /// The parts that are missing, as its contract allows.
    pub missing: Vec<ByteRange>,
    /// From the connection to the last byte.
    pub elapsed: Duration,
    /// BLAKE3 hash of the content, which agrees with the sender's, if it was sent whole.
    pub hash: Option<blake3::Hash>,
    /// How it was carried.
    pub family: Family,
    /// The transport's counts.
    pub statistics: Statistics,
    /// Datagrams that were not passed to any transport, so far.
    pub refused: Refused,
}

/// Waits for transfers on an address.
pub struct Receiver {
    driver: Driver<AnyTransport, Incoming>,
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

    /// Takes contents from all who send, `count` of them if that is said, and tells `each` what came of it. Ends with an
    /// error if the socket fails or when it is interrupted.
    pub fn serve(
        mut self,
        target: &Target,
        count: Option<u64>,
        interrupted: &AtomicBool,
        mut progress: impl FnMut(Progress),
        mut each: impl FnMut(Result<Received, TransferError>),
    ) -> Result<(), TransferError> {
        let address = self.address;
        let socket_error = |error| TransferError::Socket { address, error };
        let settings = &self.settings;
        let clock = self.driver.clock();
        let mut host = Host { settings, target, clock, count, begun: 0, over: Vec::new() };
        let (mut told_at, mut done) = (self.driver.now(), 0);
        while count.is_none_or(|count| done < count) {
            self.driver.turn(&mut host, NAP).map_err(socket_error)?;
            let now = self.driver.now();
            // The sender's goodbye may be lost; what it has sent is here.
            let here: Vec<ConnectionId> = self.driver.connections().collect();
            for connection in &here {
                let received = self.driver.application(*connection).is_some_and(|incoming| incoming.received());
                if received && self.driver.silence(*connection) > LINGER {
                    let link = self.driver.close(*connection, CODE_DONE, "").map_err(socket_error)?;
                    host.over
                        .extend(link.map(|link| (link, Closed::ByPeer { code: CODE_DONE, reason: String::new() })));
                }
            }
            for (link, why) in host.over.drain(..) {
                done += 1;
                each(finish(link, why, self.driver.refused()));
            }
            // What is done is done, whenever the interruption came.
            if count.is_none_or(|count| done < count) && interrupted.load(Ordering::Relaxed) {
                for connection in here {
                    self.driver.close(connection, CODE_INTERRUPTED, "interrupted").map_err(socket_error)?;
                }
                return Err(TransferError::Interrupted);
            }
            if now.since(told_at) >= PROGRESS_INTERVAL {
                told_at = now;
                let links = here.iter().filter_map(|connection| self.driver.link(*connection));
                let of = |(done, total): (u64, Option<u64>), link: &Link<_, Incoming>| {
                    (done + link.application.bytes(), total.zip(link.application.announcement.size).map(|(a, b)| a + b))
                };
                let (done_bytes, total_bytes) = links.fold((0, Some(0)), of);
                if !here.is_empty() {
                    progress(Progress { done_bytes, total_bytes });
                }
            }
        }
        Ok(())
    }
}

/// What became of a transfer that is over.
fn finish(link: Link<AnyTransport, Incoming>, why: Closed, refused: Refused) -> Result<Received, TransferError> {
    let statistics = link.receiver_statistics();
    let Incoming { from, family, content, announcement, opened_at, received_at, problem, .. } = link.application;
    let Announcement { name, size, .. } = announcement;
    let lie = |why| TransferError::NotATransfer { address: from, why };
    if let Content::Whole(whole) = &content
        && let Some(why) = whole.lie
    {
        return Err(lie(why));
    }
    if let Some(problem) = problem {
        return Err(problem);
    }
    let (Some(received_at), false) = (received_at, matches!(why, Closed::Failed(_))) else {
        return Err(TransferError::ended(from, why));
    };
    let mut missing = Vec::new();
    let file = |(path, error)| TransferError::File { path, error };
    let (bytes, hash, path) = match content {
        Content::Whole(whole) => {
            let (got, expected) = whole.hashes();
            hold_hash(&name, got, expected)?;
            (whole.taken(), Some(got), whole.place().map_err(file)?)
        }
        Content::Partial(mut partial) => {
            let delivered = partial.delivered();
            if !partial.keeps_bound() {
                let total = size.unwrap_or(delivered);
                return Err(TransferError::BoundMissed { name, delivered, total });
            }
            missing = partial.missing();
            let hashes = partial.hashes();
            let hashes =
                hashes.map_err(|error| file((partial.path().map(PathBuf::from).unwrap_or_default(), error)))?;
            if let Some((got, expected)) = hashes {
                hold_hash(&name, got, expected)?;
            }
            (delivered, hashes.map(|(got, _)| got), partial.place().map_err(file)?)
        }
        Content::Counted(bytes) => {
            if size.is_some_and(|size| bytes < size) {
                return Err(lie("it is shorter than announced"));
            }
            (bytes, None, None)
        }
    };
    let elapsed = Duration::from_nanos(received_at.since(opened_at).as_ps() / 1000);
    Ok(Received { from, name, path, bytes, missing, elapsed, hash, family, statistics, refused })
}

/// The same error once more.
pub(super) fn copy(error: &io::Error) -> io::Error {
    error.raw_os_error().map_or_else(|| io::Error::new(error.kind(), error.to_string()), io::Error::from_raw_os_error)
}

/// The bytes behind a receiver.
enum Content {
    Whole(Box<Whole>),
    Partial(Partial),
    /// So many bytes of a measurement.
    Counted(u64),
}

impl Content {
    fn path(&self) -> Option<PathBuf> {
        match self {
            Self::Whole(whole) => whole.path(),
            Self::Partial(partial) => partial.path(),
            Self::Counted(_) => None,
        }
        .map(PathBuf::from)
    }
}

/// A receiver's application.
pub(super) struct Incoming {
    from: SocketAddr,
    family: Family,
    announcement: Announcement,
    content: Content,
    opened_at: Instant,
    /// When the last byte was delivered; a stamp of the driver's is not at hand where the event comes.
    received_at: Option<Instant>,
    clock: Clock,
    /// What made it fail.
    problem: Option<TransferError>,
}

impl Incoming {
    /// Remembers which file an error is of.
    fn of_file(&mut self, result: io::Result<()>) -> io::Result<()> {
        if let (Err(error), Some(path)) = (&result, self.content.path()) {
            self.problem = Some(TransferError::File { path, error: copy(error) });
        }
        result
    }

    /// Bytes of the content that have arrived.
    fn bytes(&self) -> u64 {
        match &self.content {
            Content::Whole(whole) => whole.taken(),
            Content::Partial(partial) => partial.delivered(),
            Content::Counted(bytes) => *bytes,
        }
    }

    fn received(&self) -> bool {
        self.received_at.is_some()
    }
}

impl Application for Incoming {
    fn read(&mut self, _: Place, _: &mut [u8]) -> io::Result<()> {
        Ok(())
    }

    fn write(&mut self, place: Place, payload: &[u8]) -> io::Result<()> {
        match (&mut self.content, place) {
            (Content::Whole(whole), Place::Stream(offset)) => {
                whole.write(offset, payload);
                Ok(())
            }
            (Content::Partial(partial), place) => {
                let written = partial.write(place, payload);
                self.of_file(written)
            }
            _ => Ok(()),
        }
    }

    fn event(&mut self, event: TransportEvent) -> io::Result<()> {
        if event == TransportEvent::Received {
            self.received_at = Some(self.clock.now());
        }
        let taken = match &mut self.content {
            Content::Whole(whole) => whole.event(event),
            Content::Partial(partial) => partial.event(event),
            Content::Counted(bytes) => {
                match event {
                    TransportEvent::Deliver(range) => *bytes = range.end,
                    TransportEvent::DeliverMessage { bytes: more, .. } => *bytes += u64::from(more),
                    _ => {}
                }
                Ok(())
            }
        };
        self.of_file(taken)
    }
}

struct Host<'s> {
    settings: &'s Settings,
    target: &'s Target,
    clock: Clock,
    count: Option<u64>,
    begun: u64,
    over: Vec<(Link<AnyTransport, Incoming>, Closed)>,
}

impl Host<'_> {
    /// What is offered and how it is to be carried, or why not.
    fn judge(&self, opening: &[u8]) -> Result<(Opening, Announcement, Family), String> {
        let opening = Opening::decode(opening).ok_or("the connection does not begin as a transfer does")?;
        let announcement = Announcement::decode(&opening.content)?;
        let family = self.settings.flow.choose(&opening.offers).ok_or("no transport that both sides have")?;
        let messages = announcement.message_bytes;
        if (family == Family::Atp) != messages.is_some() {
            return Err("messages need atp, and atp needs messages".into());
        }
        let (message, buffer) = (Bytes(messages.unwrap_or(0).into()), Bytes(self.settings.flow.receive_buffer));
        if message > buffer {
            return Err(format!(
                "a message of {message} (the sender's --message-bytes) is larger than the receive buffer of {buffer} \
                 (--receive-buffer)"
            ));
        }
        let kept = announcement.kind != Kind::Test && !matches!(self.target, Target::Discard);
        if kept && announcement.partial && announcement.min_delivery < self.settings.min_delivery {
            let (promised, least) = (announcement.min_delivery, self.settings.min_delivery);
            return Err(format!(
                "only {promised} of it need arrive, and the receiver wants {least}: `recv --min-delivery`"
            ));
        }
        Ok((opening, announcement, family))
    }
}

impl Service<AnyTransport, Incoming> for Host<'_> {
    fn answer(&mut self, _: SocketAddr, opening: &[u8]) -> Result<Vec<u8>, String> {
        if self.count.is_some_and(|count| self.begun >= count) {
            return Err("it receives from somebody else".into());
        }
        let (_, _, family) = self.judge(opening)?;
        Ok(Answer { family, unix_ns: realtime_ns() }.encode())
    }

    fn open(&mut self, now: Instant, connection: ConnectionId, event: Event) -> Option<Link<AnyTransport, Incoming>> {
        let Event::Accepted { from, opening } = event else { return None };
        if self.count.is_some_and(|count| self.begun >= count) {
            return None;
        }
        let (opening, announcement, family) = self.judge(&opening).ok()?;
        self.begun += 1;
        let receive_buffer = self.settings.flow.receive_buffer;
        let opened = Output::open(self.target, &announcement);
        let (output, failure) = match opened {
            Ok(output) => (output, None),
            Err(error) => (Output::Discarded, Some(error)),
        };
        let content = match announcement.kind {
            _ if announcement.partial => Content::Partial(Partial::new(&announcement, output)),
            Kind::Test => Content::Counted(0),
            Kind::File | Kind::Directory | Kind::Stream => {
                Content::Whole(Box::new(Whole::new(&announcement, output, receive_buffer)))
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
        let (clock, opened_at, received_at) = (self.clock, now, None);
        let incoming = Incoming { from, family, announcement, content, opened_at, received_at, clock, problem };
        let path = path_to(from, self.settings);
        let receiver = self.settings.flow.receiver(family, path, opening.mtu, u64::from(connection.get()));
        let link = Link::new(incoming).receiving(receiver);
        Some(match said {
            None => link,
            Some(error) => link.failing(error),
        })
    }

    fn closed(&mut self, _: ConnectionId, link: Option<Link<AnyTransport, Incoming>>, why: Closed) {
        self.over.extend(link.map(|link| (link, why)));
    }
}
