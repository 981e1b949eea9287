//! The receiving side of a transfer.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pliant_proto::packet::ByteRange;
use pliant_proto::time::{Instant, Span};
use pliant_proto::transport::any::{AnyRequest, AnyTransport};
use pliant_proto::transport::{Event as TransportEvent, Statistics};
use pliant_proto::units::Bytes;

use super::announcement::{Announcement, Kind};
use super::close_code;
use super::error::{TransferError, copy};
use super::hash::check_hash;
use super::output::{Output, OutputError, Target};
use super::partial::Partial;
use super::progress::{MAX_SLEEP, PROGRESS_INTERVAL, Progress};
use super::settings::Settings;
use super::whole::Whole;
use crate::clock::{Clock, realtime_ns};
use crate::connection::{Closed, ConnectionId, Event, Refused};
use crate::driver::{Application, ConnectionHandler, Driver, PayloadLocation, Session};
use crate::flow::{Answer, Opening, Protocol};

/// How long a receiver that has everything waits for the sender's goodbye, counted from when it was heard last.
const LINGER: Span = Span::from_secs(1);

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
    pub protocol: Protocol,
    /// The transport's counts.
    pub statistics: Statistics,
    /// Datagrams that were not passed to any transport, so far.
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
        let mut handler = ReceiverHandler { settings, target, clock, count, begun: 0, over: Vec::new() };
        let (mut told_at, mut done) = (self.driver.now(), 0);
        while count.is_none_or(|count| done < count) {
            self.driver.run_once(&mut handler, MAX_SLEEP).map_err(socket_error)?;
            let now = self.driver.now();
            // The sender's goodbye may be lost; what it has sent is here.
            let here: Vec<ConnectionId> = self.driver.connections().collect();
            for connection in &here {
                let received = self.driver.application(*connection).is_some_and(|incoming| incoming.received());
                if received && self.driver.silence(*connection) > LINGER {
                    let session = self.driver.close(*connection, close_code::DONE, "").map_err(socket_error)?;
                    handler
                        .over
                        .extend(session.map(|session| {
                            (session, Closed::ByPeer { code: close_code::DONE, reason: String::new() })
                        }));
                }
            }
            for (session, why) in handler.over.drain(..) {
                done += 1;
                each(finish(session, why, self.driver.refused()));
            }
            // What is done is done, whenever the interruption came.
            if count.is_none_or(|count| done < count) && interrupted.load(Ordering::Relaxed) {
                for connection in here {
                    self.driver.close(connection, close_code::INTERRUPTED, "interrupted").map_err(socket_error)?;
                }
                return Err(TransferError::Interrupted);
            }
            if now.since(told_at) >= PROGRESS_INTERVAL {
                told_at = now;
                let sessions = here.iter().filter_map(|connection| self.driver.session(*connection));
                let of = |(done, total): (u64, Option<u64>), session: &Session<_, ReceiverApplication>| {
                    (
                        done + session.application.bytes(),
                        total.zip(session.application.announcement.size).map(|(a, b)| a + b),
                    )
                };
                let (done_bytes, total_bytes) = sessions.fold((0, Some(0)), of);
                if !here.is_empty() {
                    progress(Progress { done_bytes, total_bytes });
                }
            }
        }
        Ok(())
    }
}

/// What became of a transfer that is over.
fn finish(
    session: Session<AnyTransport, ReceiverApplication>,
    why: Closed,
    refused: Refused,
) -> Result<Received, TransferError> {
    let statistics = session.receiver_statistics();
    let ReceiverApplication { from, protocol, content, announcement, opened_at, received_at, problem, .. } =
        session.application;
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
            check_hash(&name, got, expected)?;
            (whole.taken(), Some(got), whole.commit().map_err(file)?)
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
                check_hash(&name, got, expected)?;
            }
            (delivered, hashes.map(|(got, _)| got), partial.commit().map_err(file)?)
        }
        Content::Counted(bytes) => {
            if size.is_some_and(|size| bytes < size) {
                return Err(lie("it is shorter than announced"));
            }
            (bytes, None, None)
        }
    };
    let elapsed = Duration::from_nanos(received_at.since(opened_at).as_ps() / 1000);
    Ok(Received { from, name, path, bytes, missing, elapsed, hash, protocol, statistics, refused })
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
pub(super) struct ReceiverApplication {
    from: SocketAddr,
    protocol: Protocol,
    announcement: Announcement,
    content: Content,
    opened_at: Instant,
    /// When the last byte was delivered; a stamp of the driver's is not at hand where the event comes.
    received_at: Option<Instant>,
    clock: Clock,
    /// What made it fail.
    problem: Option<TransferError>,
}

impl ReceiverApplication {
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

impl Application for ReceiverApplication {
    fn read(&mut self, _: PayloadLocation, _: &mut [u8]) -> io::Result<()> {
        Ok(())
    }

    fn write(&mut self, location: PayloadLocation, payload: &[u8]) -> io::Result<()> {
        match (&mut self.content, location) {
            (Content::Whole(whole), PayloadLocation::Stream(offset)) => {
                whole.write(offset, payload);
                Ok(())
            }
            (Content::Partial(partial), location) => {
                let written = partial.write(location, payload);
                self.of_file(written)
            }
            _ => Ok(()),
        }
    }

    fn event(&mut self, event: TransportEvent<AnyRequest>) -> io::Result<()> {
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

struct ReceiverHandler<'s> {
    settings: &'s Settings,
    target: &'s Target,
    clock: Clock,
    count: Option<u64>,
    begun: u64,
    over: Vec<(Session<AnyTransport, ReceiverApplication>, Closed)>,
}

impl ReceiverHandler<'_> {
    /// What is offered and how it is to be carried, or why not.
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
    fn answer(&mut self, _: SocketAddr, opening: &[u8]) -> Result<Vec<u8>, String> {
        if self.count.is_some_and(|count| self.begun >= count) {
            return Err("it receives from somebody else".into());
        }
        let (_, _, protocol) = self.judge(opening)?;
        Ok(Answer { protocol, unix_ns: realtime_ns() }.encode())
    }

    fn open(
        &mut self,
        now: Instant,
        connection: ConnectionId,
        event: Event,
    ) -> Option<Session<AnyTransport, ReceiverApplication>> {
        let Event::Accepted { from, opening } = event else { return None };
        if self.count.is_some_and(|count| self.begun >= count) {
            return None;
        }
        let (opening, announcement, protocol) = self.judge(&opening).ok()?;
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
        let incoming =
            ReceiverApplication { from, protocol, announcement, content, opened_at, received_at, clock, problem };
        let path = self.settings.path_to(from);
        let receiver = self.settings.flow.receiver(protocol, path, opening.mtu, u64::from(connection.get()));
        let session = Session::new(incoming).receiving(receiver);
        Some(match said {
            None => session,
            Some(error) => session.failing(error),
        })
    }

    fn closed(&mut self, _: ConnectionId, session: Option<Session<AnyTransport, ReceiverApplication>>, why: Closed) {
        self.over.extend(session.map(|session| (session, why)));
    }
}
