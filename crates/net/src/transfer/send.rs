//! The sending side of a transfer.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pliant_proto::congestion::CongestionControl;
use pliant_proto::contract::Contract;
use pliant_proto::time::{Instant, Span};
use pliant_proto::transport::any::AnyTransport;
use pliant_proto::transport::{Command, Statistics, Transport};

use super::announcement::{Announcement, Kind};
use super::close_code;
use super::directory::{DIGEST_BYTES, FileHashes, Held, PageRequests, Unchanged};
use super::error::TransferError;
use super::progress::{MAX_SLEEP, PROGRESS_INTERVAL, Progress};
use super::resume::{Hashing, Prefixes, ResumeNotice, blocks_kept};
use super::sender_application::SenderApplication;
use super::settings::Settings;
use super::source::{Content, Source};
use super::verdict::Verdict;
use crate::clock::{Clock, realtime_ns};
use crate::connection::{Caller, Closed, ConnectionId, Event, Refused};
use crate::day_clock::DayClock;
use crate::driver::{ConnectionHandler, Driver, Session};
use crate::flow::{Answer, FlowError, FlowSettings, Opening, Protocol, lateness};
use crate::seam;

/// How long a loop sleeps at most while content may come from a reader.
const MAX_READER_SLEEP: Duration = Duration::from_millis(2);

/// Time from a loss to the first retry. It doubles each time, up to the longest.
const FIRST_RETRY: Span = Span::from_ms(250);
const LONGEST_RETRY: Span = Span::from_secs(8);

/// How often a waiting sender sends a sign of life. A receiver that hears nothing would count it as gone, and would
/// send the verdict to the last known address.
const WAITING_INTERVAL: Span = Span::from_secs(1);

/// How long a receiver may say nothing but that it is busy. Each byte adds to this. Slow disks read and write faster.
const LONGEST_WORK: Span = Span::from_secs(600);
const LONGEST_WORK_PER_BYTE: Span = Span::from_us(1);

/// Interval in which hashes are repeated until the receiver answers.
const HASHES_INTERVAL: Span = Span::from_ms(250);

/// A sent content.
#[derive(Clone, Debug)]
pub struct Sent {
    /// Where the receiver answered.
    pub to: SocketAddr,
    /// Bytes of the content.
    pub bytes: u64,
    /// Those of them that the receiver had from an interrupted transfer.
    pub kept_bytes: u64,
    /// Files of a directory that were not sent, because the receiver had them from an earlier transfer.
    pub unchanged: Unchanged,
    /// From the request to the last acknowledgement.
    pub elapsed: Duration,
    /// BLAKE3 hash of the content, if it was sent whole.
    pub hash: Option<blake3::Hash>,
    /// How it was carried.
    pub protocol: Protocol,
    /// Congestion window at the end in bytes, for transports that have one.
    pub window_bytes: Option<u64>,
    /// The deadline, counted as `elapsed` is.
    pub done_by: Option<Duration>,
    /// The transport's counters.
    pub statistics: Statistics,
    /// Datagrams that were not passed to the transport.
    pub refused: Refused,
    /// How far the receiver's clock is ahead of this host's.
    pub clock_offset: ClockOffset,
    /// Whether the receiver's host told which rate is fair on its link.
    pub peer_reports: bool,
}

/// How far another host's clock is ahead, as measured by one handshake.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ClockOffset {
    /// The estimate, in nanoseconds.
    pub ns: i64,
    /// Largest error of the estimate, in nanoseconds.
    pub uncertainty_ns: u64,
}

impl ClockOffset {
    /// The answer, at `theirs`, came between `asked` and `answered` of this host's clock.
    fn between(asked: u64, theirs: u64, answered: u64) -> Self {
        let middle = asked.midpoint(answered);
        let uncertainty_ns = answered.saturating_sub(asked).div_ceil(2);
        Self { ns: theirs.wrapping_sub(middle) as i64, uncertainty_ns }
    }
}

/// Sends `source` to the receiver at `to`, or at the first of the settings' further addresses that answers. Returns when
/// the receiver says that it has verified the content and put it into its place.
///
/// A receiver that was restarted during the transfer is called again at growing intervals, for as long as the settings
/// say. Each loss is reported to `lost`. If a file was interrupted, now or earlier, the receiver gets the rest. If it
/// has a directory from an earlier transfer, it gets the files that differ. A stream cannot be read again, so a loss
/// ends its transfer.
pub fn send(
    source: Source,
    to: SocketAddr,
    settings: &Settings,
    interrupted: &AtomicBool,
    mut progress: impl FnMut(Progress),
    mut lost: impl FnMut(&TransferError),
) -> Result<Sent, TransferError> {
    settings.check(to)?;
    let mut callee = Callee { address: to, further: settings.further_of(to), silent: Vec::new() };
    let clock = Clock::start();
    let (mut source, mut gap) = (source, FIRST_RETRY);
    // The time for retries counts from the loss, not from the beginning of a transfer of hours.
    let mut until = None;
    let mut packed = None;
    if let Some(bytes) = source.bytes() {
        settings.flow.check_size(bytes).map_err(TransferError::Flow)?;
    } else if settings.flow.contract.done_by.is_some() && !matches!(source.content, Content::Directory) {
        return Err(TransferError::Flow(FlowError::UnknownSize));
    }
    loop {
        let again = source.again();
        let sent = if matches!(source.content, Content::Directory) {
            send_directory(&source, &mut packed, &mut callee, settings, clock, interrupted, &mut progress)
        } else {
            let settings = settings.started(clock.now());
            send_once(source, 0, &mut callee, &settings, interrupted, &mut progress).map(|(sent, _)| sent)
        };
        match (sent, again) {
            (Err(error @ TransferError::Ended { why: Closed::Reset, .. }), Some(again)) => {
                let now = clock.now();
                let until = *until.get_or_insert(now.after(settings.retry_for));
                if now.after(gap) > until {
                    return Err(error);
                }
                lost(&error);
                wait(clock, gap, interrupted)?;
                (source, gap) = (again, gap.times(2).min(LONGEST_RETRY));
            }
            (sent, _) => return sent.map_err(|error| error.after(&callee.silent)),
        }
    }
}

/// Where the receiver is called.
struct Callee {
    address: SocketAddr,
    /// Where next, if it does not answer there.
    further: Vec<SocketAddr>,
    /// Where it did not answer.
    silent: Vec<SocketAddr>,
}

/// Sends a directory, which is packed the first time.
fn send_directory(
    source: &Source,
    packed: &mut Option<(Source, Unchanged)>,
    callee: &mut Callee,
    settings: &Settings,
    clock: Clock,
    interrupted: &AtomicBool,
    progress: &mut impl FnMut(Progress),
) -> Result<Sent, TransferError> {
    if packed.is_none() {
        let held = ask_held(source, callee, settings, interrupted)?;
        *packed = Some(source.packed(&held, interrupted)?);
    }
    let again = packed.as_ref().and_then(|(archive, unchanged)| Some((archive.again()?, *unchanged)));
    let Some((archive, unchanged)) = again else {
        let error = io::Error::other("its archive cannot be read again");
        return Err(TransferError::File { path: source.path.clone(), error });
    };
    // Reading the tree took time, too.
    let settings = settings.started(clock.now());
    let (sent, _) = send_once(archive, 0, callee, &settings, interrupted, progress)?;
    Ok(Sent { unchanged, ..sent })
}

/// The files of a directory that the receiver has from an earlier transfer. Files are read only if there are any.
fn ask_held(
    source: &Source,
    callee: &mut Callee,
    settings: &Settings,
    interrupted: &AtomicBool,
) -> Result<Held, TransferError> {
    if count_noted(source, callee, settings, interrupted)? == 0 {
        return Ok(Held::default());
    }
    let hashes = source.hashes(interrupted)?;
    let (_, bits) = send_once(source.listing(&hashes)?, hashes.bytes(), callee, settings, interrupted, &mut |_| {})?;
    Ok(hashes.held(&bits))
}

/// How many files of a directory the receiver has noted from an earlier transfer. It answers this to an empty listing.
fn count_noted(
    source: &Source,
    callee: &mut Callee,
    settings: &Settings,
    interrupted: &AtomicBool,
) -> Result<u64, TransferError> {
    let mut calling = Calling::reach(source.listing(&FileHashes::default())?, callee, settings, interrupted)?;
    let to = callee.address;
    let socket_error = |error| TransferError::Socket { address: to, error };
    let Calling { driver, connection, sender } = &mut calling;
    loop {
        driver.run_once(sender, MAX_SLEEP).map_err(socket_error)?;
        if let Some(error) = sender.failed.take() {
            return Err(error);
        }
        if let Some((session, why)) = sender.over.take() {
            return Err(sender_error(to, session, why));
        }
        let interrupted = interrupted.load(Ordering::Relaxed);
        if interrupted || sender.agreed.is_some() {
            let code = if interrupted { close_code::INTERRUPTED } else { close_code::DONE };
            driver.close(*connection, code, "").map_err(socket_error)?;
            return if interrupted { Err(TransferError::Interrupted) } else { Ok(sender.note) };
        }
    }
}

/// A sender that has called.
struct Calling<'s> {
    driver: Driver<AnyTransport, SenderApplication>,
    connection: ConnectionId,
    sender: SenderHandler<'s>,
}

impl<'s> Calling<'s> {
    /// Calls the receiver at one address after the other until it answers. The last is only called.
    fn reach(
        mut source: Source,
        callee: &mut Callee,
        settings: &'s Settings,
        interrupted: &AtomicBool,
    ) -> Result<Self, TransferError> {
        let mut waited = Span::ZERO;
        loop {
            let mut calling = Self::begin(source, callee.address, settings, waited)?;
            if callee.further.is_empty() {
                return Ok(calling);
            }
            let Some(unsent) = calling.unanswered(interrupted)? else {
                callee.further.clear();
                return Ok(calling);
            };
            waited = waited.plus(calling.driver.now().since(Instant::ZERO));
            callee.silent.push(std::mem::replace(&mut callee.address, callee.further.remove(0)));
            source = unsent;
        }
    }

    /// Waits until anything is heard, or the user ends it. Gives the source back if nobody answers.
    fn unanswered(&mut self, interrupted: &AtomicBool) -> Result<Option<Source>, TransferError> {
        let Self { driver, sender, .. } = self;
        let address = sender.peer;
        loop {
            driver.run_once(sender, MAX_SLEEP).map_err(|error| TransferError::Socket { address, error })?;
            if let Some((None, Closed::NoAnswer(_))) = &sender.over {
                return Ok(sender.waiting.take().map(SenderApplication::into_source));
            }
            let is_heard = sender.waiting.is_none() || sender.over.is_some();
            if is_heard || interrupted.load(Ordering::Relaxed) {
                return Ok(None);
            }
        }
    }

    /// Calls at an address, so long after the attempt began.
    fn begin(source: Source, to: SocketAddr, settings: &'s Settings, waited: Span) -> Result<Self, TransferError> {
        let mut driver = settings.driver_to::<SenderApplication>(to)?;
        let announcement = announce(&source, settings, to)?;
        let opening =
            Opening { offers: settings.flow.offers(), mtu: settings.flow.mtu, content: announcement.encode() };
        let asked = realtime_ns();
        let left = |span: Span| Instant::ZERO.after(span.minus(waited).max(Span::from_ns(1)));
        let connection = driver.connect(to, &opening.encode()).map_err(TransferError::Connect)?;
        let sender = SenderHandler {
            settings,
            clock: driver.clock(),
            peer: to,
            asked,
            waiting: Some(SenderApplication::new(source, announcement)),
            agreed: None,
            note: 0,
            over: None,
            failed: None,
            kept_blocks: 0,
            contract: settings.flow.contract,
            until: settings.flow.contract.done_by.map(left),
        };
        Ok(Self { driver, connection, sender })
    }
}

/// Waits, unless it is interrupted.
fn wait(clock: Clock, time: Span, interrupted: &AtomicBool) -> Result<(), TransferError> {
    let until = clock.now().after(time);
    while clock.now() < until {
        if interrupted.load(Ordering::Relaxed) {
            return Err(TransferError::Interrupted);
        }
        seam::sleep(MAX_SLEEP);
    }
    Ok(())
}

/// Sends it once. Also returns the receiver's answer to a listing. The receiver must read `besides` bytes of its own
/// files.
fn send_once(
    source: Source,
    besides: u64,
    callee: &mut Callee,
    settings: &Settings,
    interrupted: &AtomicBool,
    progress: &mut impl FnMut(Progress),
) -> Result<(Sent, Vec<u8>), TransferError> {
    let total_bytes = source.bytes();
    let listed = total_bytes.filter(|_| source.kind == Kind::Listing).map(|bytes| bytes / DIGEST_BYTES as u64);
    let Calling { mut driver, connection, mut sender } = Calling::reach(source, callee, settings, interrupted)?;
    let to = callee.address;
    let socket_error = |error| TransferError::Socket { address: to, error };
    let mut held = Vec::new();
    let mut agreeing = None;
    let mut told_at = driver.now();
    let mut told_late = false;
    // When all of it was acknowledged; what comes then is the receiver's verdict.
    let mut acknowledged = None;
    let mut heard_next = None;
    let mut day = DayClock::new(settings.schedule.clone());
    // Since when something is waited for that the receiver has to say, and since when nothing was heard but that.
    let mut waits: Option<Waits> = None;
    let session = loop {
        let nap = if total_bytes.is_none() { MAX_READER_SLEEP } else { MAX_SLEEP };
        driver.run_once(&mut sender, nap).map_err(socket_error)?;
        if let Some(error) = sender.failed.take() {
            driver.close(connection, close_code::FAILED, "it cannot go on").map_err(socket_error)?;
            return Err(error);
        }
        match sender.over.take() {
            Some((Some(session), why)) if has_everything(&session, &why) => break session,
            Some((session, why)) => return Err(sender_error(to, session, why)),
            None => {}
        }
        if interrupted.load(Ordering::Relaxed) {
            driver.close(connection, close_code::INTERRUPTED, "interrupted").map_err(socket_error)?;
            return Err(TransferError::Interrupted);
        }
        let now = driver.now();
        let Some(outgoing) = driver.application(connection) else { continue };
        let heard = std::mem::take(&mut outgoing.heard);
        waits = outgoing.waits_for(agreeing.as_ref()).map(|what| Waits::go_on(waits, what, heard, now));
        let longest = LONGEST_WORK.plus(LONGEST_WORK_PER_BYTE.times(outgoing.bytes() + besides));
        if let Some((what, silence)) = waits.and_then(|waits| waits.is_over(now, settings.idle_timeout, longest)) {
            driver.close(connection, close_code::FAILED, "it was silent").map_err(socket_error)?;
            return Err(TransferError::Silent { address: to, what, silence });
        }
        if let Some(requests) = &mut outgoing.requests {
            if let Some(bits) = requests.take_all() {
                held = bits;
                let session = driver.close(connection, close_code::DONE, "").map_err(socket_error)?;
                break session.expect("it stood until now");
            }
            let due = requests.due(now);
            for notice in due {
                driver.notify(connection, &notice.encode());
            }
            continue;
        }
        let verdict = outgoing.verdict.take();
        if let (Some(Verdict::Placed), Some(digests)) = (&verdict, listed) {
            outgoing.requests = Some(PageRequests::new(digests));
            continue;
        }
        if let Some(verdict) = verdict {
            let session = driver.close(connection, close_code::DONE, "").map_err(socket_error)?;
            match verdict {
                Verdict::Placed => break session.expect("it stood until now"),
                Verdict::NotPlaced(why) => return Err(TransferError::NotPlaced { address: to, why }),
                Verdict::Differs(why) => return Err(TransferError::Differs { address: to, why }),
            }
        }
        if sender.kept_blocks > 0 {
            let agreeing = agreeing.get_or_insert_with(|| Agreeing::Begin(sender.kept_blocks));
            match agreeing.go_on(now, outgoing) {
                Ok(Agreed::NotYet(None)) => continue,
                Ok(Agreed::NotYet(Some(notice))) => {
                    driver.notify(connection, &notice);
                    continue;
                }
                Ok(Agreed::Yes) => {
                    sender.kept_blocks = 0;
                    let (protocol, _) = sender.agreed.expect("the connection stands");
                    match sender.make(protocol, outgoing) {
                        Ok(transport) => driver.send_by(connection, transport, sender.contract.max_rate),
                        Err(error) => sender.failed = Some(TransferError::Flow(error)),
                    }
                    continue;
                }
                Err(error) => {
                    let path = outgoing.path.clone();
                    driver.close(connection, close_code::FAILED, "its source failed").map_err(socket_error)?;
                    return Err(TransferError::File { path, error });
                }
            }
        }
        if let Some(contract) = settings.take_contract() {
            sender.contract = contract;
            sender.until = contract.done_by.map(|span| now.after(span));
            outgoing.late = None;
            for command in Command::of_contract(&day.contract(&contract)) {
                driver.command(connection, command);
            }
        }
        if day.read(now) {
            for command in Command::of_bounds(&day.contract(&sender.contract)) {
                driver.command(connection, command);
            }
        }
        let Some(outgoing) = driver.application(connection) else { continue };
        let commands = outgoing.commands(now);
        let path = outgoing.path.clone();
        match commands {
            Ok(commands) => commands.into_iter().for_each(|command| driver.command(connection, command)),
            Err(error) => {
                driver.close(connection, close_code::FAILED, "its source failed").map_err(socket_error)?;
                return Err(TransferError::File { path, error });
            }
        }
        let Some(outgoing) = driver.application(connection) else { continue };
        let (done_bytes, placing, late) = (outgoing.released, outgoing.finished, outgoing.late);
        if placing && acknowledged.is_none() {
            acknowledged = Some(now);
        }
        if placing && heard_next.is_none_or(|at| now >= at) {
            if heard_next.is_some() {
                driver.ping(connection);
            }
            heard_next = Some(now.after(WAITING_INTERVAL));
        }
        let news = late.is_some() && !std::mem::replace(&mut told_late, late.is_some());
        if news || now.since(told_at) >= PROGRESS_INTERVAL {
            told_at = now;
            let late = late.zip(sender.until).map(|(expected, until)| lateness(expected, until));
            progress(Progress { done_bytes, total_bytes, placing, late });
        }
    };
    if let (Some(expected), false, Some(until)) = (session.application.late, told_late, sender.until) {
        let done_bytes = session.application.bytes();
        progress(Progress { done_bytes, total_bytes, placing: true, late: Some(lateness(expected, until)) });
    }
    // What has a hash was the file when that was read; what has none may be a mixture.
    if session.application.hash().is_none() && session.application.is_changed() {
        return Err(TransferError::Changed { path: session.application.path });
    }
    let acknowledged = acknowledged.unwrap_or_else(|| driver.clock().now());
    let elapsed = Duration::from_nanos(acknowledged.as_ps() / 1000);
    let refused = driver.refused();
    let (protocol, clock_offset) = sender.agreed.expect("it was agreed when the connection stood");
    let sent = Sent {
        to,
        bytes: session.application.bytes(),
        kept_bytes: session.application.kept(),
        unchanged: Unchanged::default(),
        elapsed,
        hash: session.application.hash(),
        protocol,
        window_bytes: match session.sender() {
            Some(AnyTransport::TcpSender(sender)) => Some(sender.controller().window()),
            Some(AnyTransport::DeadlineSender(sender)) => Some(sender.sender().controller().window()),
            _ => None,
        },
        done_by: sender.until.map(|until| Duration::from_nanos(until.as_ps() / 1000)),
        statistics: session.sender_statistics(),
        refused,
        clock_offset,
        peer_reports: session.peer_reports(),
    };
    Ok((sent, held))
}

/// The announcement of `source`.
fn announce(source: &Source, settings: &Settings, to: SocketAddr) -> Result<Announcement, TransferError> {
    let Contract { min_delivery, .. } = settings.flow.contract;
    let messages = settings.flow.transport.protocol() == Protocol::Atp;
    let refuse = |why: &str| {
        let path = source.path.clone();
        Err(TransferError::File { path, error: io::Error::new(io::ErrorKind::InvalidInput, why) })
    };
    let partial = messages || min_delivery < 1.0;
    if partial && source.bytes().is_none() {
        return refuse("a stream of unknown length cannot arrive in part, nor as messages");
    }
    if partial && matches!(source.kind, Kind::Directory | Kind::Listing) {
        return refuse("a directory cannot arrive in part, nor as messages");
    }
    let payload = settings.path_to(to).payload(settings.flow.mtu);
    let message_bytes = messages.then(|| settings.flow.message_bytes.unwrap_or(u32::from(payload)).max(1));
    let (name, kind, size) = (source.name.clone(), source.kind, source.bytes());
    let hashed = messages && min_delivery >= 1.0 && kind != Kind::Test;
    let identity = if partial || kind == Kind::Listing { None } else { source.identity() };
    let announcement = Announcement { kind, name, size, partial, hashed, min_delivery, message_bytes, identity };
    if announcement.has_too_many_messages() {
        return refuse("that is more than 67108864 messages: make them larger, `--message-bytes`");
    }
    Ok(announcement)
}

/// A sender that waits for a message of its receiver.
#[derive(Clone, Copy)]
struct Waits {
    what: &'static str,
    /// Since when.
    since: Instant,
    /// When the receiver last said anything.
    heard_at: Instant,
}

impl Waits {
    fn go_on(waits: Option<Self>, what: &'static str, heard: bool, now: Instant) -> Self {
        let waits = waits.filter(|waits| waits.what == what).unwrap_or(Self { what, since: now, heard_at: now });
        Self { heard_at: if heard { now } else { waits.heard_at }, ..waits }
    }

    /// What is overdue, if anything, and the limit that has passed: `silence` for a silent receiver, `work` for a
    /// receiver that says that it is busy.
    fn is_over(self, now: Instant, silence: Span, work: Span) -> Option<(&'static str, Span)> {
        let limits = [(self.heard_at, silence), (self.since, work.max(silence))];
        let over = limits.into_iter().find(|(since, limit)| now.since(*since) > *limit);
        over.map(|(_, limit)| (self.what, limit))
    }
}

/// Whether a receiver that ended the connection did so because it has everything. It receives nothing more if its
/// acknowledgements are lost.
fn has_everything(session: &Session<AnyTransport, SenderApplication>, why: &Closed) -> bool {
    matches!(why, Closed::ByPeer { code: close_code::DONE, .. }) && session.application.is_given()
}

fn sender_error(
    to: SocketAddr,
    session: Option<Session<AnyTransport, SenderApplication>>,
    why: Closed,
) -> TransferError {
    let Some(Session { application, .. }) = session else { return TransferError::ended(to, why) };
    match why {
        Closed::Failed(_) if application.changed => TransferError::Changed { path: application.path },
        Closed::Failed(error) if application.content_failed => {
            TransferError::File { path: application.path, error: io::Error::other(error) }
        }
        Closed::ByPeer { reason, .. } if application.finished => TransferError::NotPlaced { address: to, why: reason },
        why if application.finished => TransferError::Unconfirmed { address: to, why },
        why => TransferError::ended(to, why),
    }
}

/// How far the two sides are in agreeing on what the receiver has kept.
enum Agreeing {
    /// The receiver says that it has this many blocks.
    Begin(u32),
    Hashing(Hashing),
    /// The hashes are sent again at this time.
    Asking(Prefixes, Instant),
}

/// The state of the agreement.
enum Agreed {
    /// Not reached yet. This is to be sent.
    NotYet(Option<Vec<u8>>),
    /// The sender knows where to begin.
    Yes,
}

impl SenderApplication {
    /// The message of the receiver for which it waits, if nothing else is to be done.
    fn waits_for(&self, agreeing: Option<&Agreeing>) -> Option<&'static str> {
        if self.announcement().kind == Kind::Listing && (self.finished || self.requests.is_some()) {
            Some("which files of the directory it has")
        } else if self.finished {
            Some("what became of it")
        } else if matches!(agreeing, Some(Agreeing::Asking(..))) && self.start.is_none() {
            Some("how much of it is there")
        } else {
            None
        }
    }
}

impl Agreeing {
    fn go_on(&mut self, now: Instant, outgoing: &mut SenderApplication) -> io::Result<Agreed> {
        if let Self::Begin(blocks) = self {
            *self = Self::Hashing(outgoing.hash_blocks(*blocks)?);
        }
        if let Self::Hashing(hashing) = self {
            let Some(prefixes) = hashing.poll() else { return Ok(Agreed::NotYet(None)) };
            *self = Self::Asking(prefixes?, now);
        }
        let Self::Asking(prefixes, next) = self else { unreachable!("it is hashed") };
        if let Some(blocks) = outgoing.start {
            outgoing.begin_behind(prefixes.of(blocks));
            return Ok(Agreed::Yes);
        }
        if now < *next {
            return Ok(Agreed::NotYet(None));
        }
        *next = now.after(HASHES_INTERVAL);
        Ok(Agreed::NotYet(Some(ResumeNotice::Hashes(prefixes.hashes()).encode())))
    }
}

struct SenderHandler<'s> {
    settings: &'s Settings,
    clock: Clock,
    peer: SocketAddr,
    asked: u64,
    waiting: Option<SenderApplication>,
    agreed: Option<(Protocol, ClockOffset)>,
    /// What the receiver says it has.
    note: u64,
    over: Option<(Option<Session<AnyTransport, SenderApplication>>, Closed)>,
    failed: Option<TransferError>,
    /// Blocks that the receiver says it has, until both know.
    kept_blocks: u32,
    /// The present contract.
    contract: Contract,
    /// The deadline.
    until: Option<Instant>,
}

impl SenderHandler<'_> {
    fn make(&self, protocol: Protocol, outgoing: &SenderApplication) -> Result<AnyTransport, FlowError> {
        let done_by = self.until.map(|until| until.since(self.clock.now()).max(Span::from_ns(1)));
        let contract = Contract { done_by, ..self.contract };
        let flow = FlowSettings { contract, ..self.settings.flow.clone() };
        // The hash is part of what must arrive.
        let size = outgoing.stream_bytes();
        flow.sender(protocol, self.settings.path_to(self.peer), size, self.clock.phase_ps(flow.reflex_cycle()))
    }
}

impl ConnectionHandler<AnyTransport, SenderApplication> for SenderHandler<'_> {
    fn answer(&mut self, _: Caller<'_>, _: &[u8]) -> Result<Vec<u8>, String> {
        Err("this side sends".into())
    }

    fn open(
        &mut self,
        now: Instant,
        _: ConnectionId,
        event: Event,
    ) -> Option<Session<AnyTransport, SenderApplication>> {
        let Event::Connected { answer } = event else { return None };
        let mut outgoing = self.waiting.take()?;
        let offered = |answer: &Answer| self.settings.flow.offers().contains(&answer.protocol);
        let Some(answer) = Answer::decode(&answer).filter(offered) else {
            let why = "it does not answer as a receiver does";
            self.failed = Some(TransferError::NotATransfer { address: self.peer, why });
            return None;
        };
        self.agreed = Some((answer.protocol, ClockOffset::between(self.asked, answer.unix_ns, realtime_ns())));
        self.note = answer.note;
        if let Some(size) = outgoing.announcement().identity.and(outgoing.announcement().size) {
            // It cannot have more than there is.
            let most = blocks_kept(u64::MAX, size);
            self.kept_blocks = u32::try_from(answer.note).unwrap_or(u32::MAX).min(most);
            if self.kept_blocks > 0 {
                return Some(Session::new(outgoing));
            }
        }
        let mut transport = match self.make(answer.protocol, &outgoing) {
            Ok(transport) => transport,
            Err(error) => {
                self.failed = Some(TransferError::Flow(error));
                return None;
            }
        };
        for command in outgoing.commands(now).unwrap_or_default() {
            transport.handle_command(now, command);
        }
        Some(Session::new(outgoing).sending(transport, self.contract.max_rate))
    }

    fn closed(&mut self, _: ConnectionId, session: Option<Session<AnyTransport, SenderApplication>>, why: Closed) {
        self.over = Some((session, why));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Asked at 100, answered at 140, and the other clock said 1120 in between: it is ahead by 1000, give or take 20.
    #[test]
    fn clock_offsets_lie_between() {
        assert_eq!(ClockOffset::between(100, 1120, 140), ClockOffset { ns: 1000, uncertainty_ns: 20 });
        assert_eq!(ClockOffset::between(1100, 120, 1140), ClockOffset { ns: -1000, uncertainty_ns: 20 });
    }
}
