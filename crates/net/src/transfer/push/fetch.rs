//! The receiver of a file from many sources.

use std::cell::RefCell;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use blake3::hazmat::ChainingValue;
use pliant_proto::time::Instant;
use pliant_proto::transport::any::AnyTransport;
use pliant_proto::transport::push::{
    Controller, ControllerConfig, Holding, Outgoing, Partition, PushConfig, PushPort, ReceiverCounts, TaskId, Weighting,
};

use super::agreement::{Agreement, Judgement, SourceAnswer, Standing};
use super::hash_tree::{BLOCK_BYTES, PageNumber, VerifiedHashes};
use super::inquiry::Inquiry;
use super::message::{HashNotice, Offered, PushNotice, Request};
use super::object::{FetchApplication, Object, Pages, SharedObject, Sink, open_sink};
use crate::clock::Clock;
use crate::connection::{Caller, Closed, ConnectionId, Event, Refused};
use crate::driver::{ConnectionHandler, Driver, Session};
use crate::transfer::close_code;
use crate::transfer::error::TransferError;
use crate::transfer::hash::check_hash;
use crate::transfer::output::Target;
use crate::transfer::progress::{MAX_SLEEP, PROGRESS_INTERVAL, Progress};
use crate::transfer::settings::Settings;

/// Why a source is left out that lies.
const FALSE_SYMBOLS: &str = "it sends symbols that are not of the file";
const FALSE_HASHES: &str = "it sends hashes that are not of the file";
const NO_HASHES: &str = "it does not say the hashes of the file's parts";
/// Most sources that send at once; the others wait for one that fails.
const MAX_SLOTS: usize = 32;
/// The one task of this receiver's controller.
const TASK: TaskId = 1;

/// What was fetched.
#[derive(Clone, Debug)]
pub struct Fetched {
    /// The name that most of its sources gave.
    pub name: String,
    /// Where it is now, unless it was discarded.
    pub path: Option<PathBuf>,
    /// Its bytes.
    pub bytes: u64,
    /// Of these, those that were there from a fetch that was cut off.
    pub kept: u64,
    /// BLAKE3 hash of the content, which is the one that the sources said.
    pub hash: blake3::Hash,
    /// From the call to the last byte.
    pub elapsed: Duration,
    /// What each source has sent.
    pub sources: Vec<FromSource>,
    /// Blocks, and symbols that were of no use.
    pub counts: ReceiverCounts,
    /// Datagrams that were not passed to any transport.
    pub refused: Refused,
}

/// What came from one source.
#[derive(Clone, Debug)]
pub struct FromSource {
    /// The source.
    pub address: SocketAddr,
    /// Symbols that came from it.
    pub symbols: u64,
    /// Of these, those that came twice or too late.
    pub excess_symbols: u64,
    /// Of the packets, those that were marked.
    pub marks: u64,
    /// Why it was lost, if it was.
    pub lost: Option<String>,
}

/// Fetches a file from those of `sources` that offer it, with their weight (theta) that of the settings' contract and no more
/// under way than the settings' receive buffer: that, against the rate times the round trip, bounds the rate of long paths,
/// and against blocks of 2 MiB the symbols that are sent in vain where no switch marks.
///
/// The file is the one with this BLAKE3 `hash`, or, without one, the one that more than half of the sources that answer
/// offer; a tie is an error. It waits for all answers, but no longer than a second once more than half of all sources agree,
/// or one source offers what has the hash. When all agree that have answered, it begins a few round trips later; the file
/// still gets its place only once the others have answered or were given up, and if one of them disagrees, all begins anew
/// with the answers of all. Sources that cannot be reached, are lost or offer another content are told to `tell`; it goes on
/// as long as there is one.
pub fn fetch(
    sources: &[SocketAddr],
    hash: Option<blake3::Hash>,
    target: &Target,
    settings: &Settings,
    interrupted: &AtomicBool,
    mut progress: impl FnMut(Progress),
    mut tell: impl FnMut(FetchNews<'_>),
) -> Result<Fetched, TransferError> {
    for eager in [true, false] {
        let fetched = fetch_once(sources, hash, target, settings, interrupted, eager, &mut progress, &mut tell)?;
        if let Some(fetched) = fetched {
            return Ok(fetched);
        }
        tell(FetchNews::Disputed);
    }
    unreachable!("what is begun when all were heard is not disputed")
}

/// What the user hears of a fetch under way.
#[derive(Debug)]
pub enum FetchNews<'e> {
    /// A source is lost, or left out.
    Lost(&'e TransferError),
    /// Not all sources have answered, and what the others offer is fetched already.
    Begun {
        /// Sources that have answered.
        answered: usize,
        /// Sources in all.
        called: usize,
    },
    /// A source answered after that, and offers something else.
    Disputed,
}

impl fmt::Display for FetchNews<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lost(error) => error.fmt(f),
            Self::Begun { answered, called } => write!(
                f,
                "{answered} of {called} sources have answered, and offer the same: it is fetched, and gets its place once the \
                 others have answered or are given up"
            ),
            Self::Disputed => f.write_str(
                "a source that answered late offers something else: all sources are asked again, and waited for",
            ),
        }
    }
}

/// `None` if something was begun before all sources were heard, and is disputed.
#[expect(clippy::too_many_arguments, reason = "those of `fetch`, and one more")]
fn fetch_once(
    sources: &[SocketAddr],
    hash: Option<blake3::Hash>,
    target: &Target,
    settings: &Settings,
    interrupted: &AtomicBool,
    eager: bool,
    progress: &mut impl FnMut(Progress),
    tell: &mut impl FnMut(FetchNews<'_>),
) -> Result<Option<Fetched>, TransferError> {
    let mut distinct = sources.to_vec();
    distinct.sort_unstable();
    distinct.dedup();
    let Some(&first) = distinct.first() else { return Err(TransferError::Sources("there is no source")) };
    if distinct.iter().any(|source| source.is_ipv4() != first.is_ipv4()) {
        return Err(TransferError::Sources("sources must all have IPv4 or all IPv6 addresses"));
    }
    if distinct.len() > usize::from(u16::MAX) {
        return Err(TransferError::Sources("there are more than 65535 sources"));
    }
    distinct.iter().try_for_each(|source| settings.check(*source))?;
    let symbol = settings.path_to(first).payload(settings.flow.mtu);
    let slots = distinct.len().min(MAX_SLOTS) as u8;
    let window = (settings.flow.receive_buffer / u64::from(slots)).min(u32::MAX.into()) as u32;
    let request = Request { symbol, slots, window };
    let config = request.config(&settings.flow, settings.path_to(first)).map_err(TransferError::Flow)?;
    let socket_error = |error| TransferError::Socket { address: first, error };
    let farthest = distinct.iter().find(|source| !source.ip().is_loopback()).unwrap_or(&first);
    let mut driver = settings.driver_to::<FetchApplication>(*farthest)?;
    let opening = request.encode();
    let call = |address| {
        let connection = driver.connect(address, &opening).map_err(TransferError::Connect)?;
        Ok(SourceConnection { address, connection, answer: None, joined: false, ended: None, told: false, left: None })
    };
    let calls = distinct.into_iter().map(call).collect::<Result<Vec<_>, TransferError>>()?;
    let mut handler = FetchHandler {
        target,
        overwrite: settings.overwrite,
        request,
        config,
        clock: driver.clock(),
        hash,
        calls,
        agreement: Agreement::new(driver.now(), eager && hash.is_none()),
        open: None,
        pages: Pages::default(),
        inquiry: Inquiry::new(settings.idle_timeout),
        hashes_known_at: None,
        controller: Controller::new(ControllerConfig::default()),
        weighting: Weighting::Fixed(settings.flow.contract.weight),
        stage: Stage::Asking,
        over: Vec::new(),
        failed: None,
    };
    let (started, mut told_at) = (driver.now(), driver.now());
    loop {
        driver.run_once(&mut handler, MAX_SLEEP).map_err(socket_error)?;
        let now = driver.now();
        if interrupted.load(Ordering::Relaxed) {
            handler.close(&mut driver, close_code::INTERRUPTED, "interrupted").map_err(socket_error)?;
            return Err(TransferError::Interrupted);
        }
        handler.count_losses(now);
        let done = handler.advance(now, &mut driver).map_err(socket_error)?;
        handler.tell_news(tell);
        if done {
            break;
        }
        if handler.is_disputed() {
            handler.close(&mut driver, close_code::FAILED, "the sources do not agree").map_err(socket_error)?;
            return Ok(None);
        }
        if let Some(error) = handler.problem() {
            handler.close(&mut driver, close_code::FAILED, "it cannot go on").map_err(socket_error)?;
            return Err(error);
        }
        if let Stage::Fetching(object) = &handler.stage
            && now.since(told_at) >= PROGRESS_INTERVAL
        {
            told_at = now;
            let object = object.borrow();
            let (done_bytes, total_bytes) = (object.bytes(), object.offered.bytes);
            let placing = done_bytes == total_bytes;
            progress(Progress { done_bytes, total_bytes: Some(total_bytes), placing, late: None });
        }
    }
    let elapsed = Duration::from_nanos(driver.clock().now().since(started).as_ps() / 1000);
    let refused = driver.refused();
    handler.close(&mut driver, close_code::DONE, "").map_err(socket_error)?;
    let sources = handler.calls.iter_mut().map(SourceConnection::outcome).collect();
    let (offered, counts, kept, path) = match handler.stage {
        Stage::Fetching(object) => {
            let object = Rc::into_inner(object).expect("no connection is left").into_inner();
            let (offered, counts, kept) = (object.offered.clone(), object.receiver.borrow().counts(), object.kept);
            (offered, counts, kept, object.commit()?)
        }
        Stage::Empty(offered) => {
            check_hash(&offered.name, blake3::hash(&[]), offered.hash)?;
            let path = open_sink(target, &offered, settings.overwrite)?.commit()?;
            (offered, ReceiverCounts::default(), 0, path)
        }
        Stage::Asking | Stage::Checking(_) => unreachable!("it ends with a file or an error"),
    };
    let Offered { bytes, hash, name } = offered;
    Ok(Some(Fetched { name, path, bytes, kept, hash, elapsed, sources, counts, refused }))
}

/// A connection to a source.
type FetchSession = Session<AnyTransport, FetchApplication>;

/// One source, called.
struct SourceConnection {
    address: SocketAddr,
    connection: ConnectionId,
    /// What it offers, and whether it takes part in the fetch of that.
    answer: Option<Offered>,
    joined: bool,
    /// Why there is no connection any more, and whether the application knows.
    ended: Option<TransferError>,
    told: bool,
    left: Option<FetchSession>,
}

impl SourceConnection {
    fn outcome(&mut self) -> FromSource {
        let statistics = self.left.take().map(|session| session.receiver_statistics()).unwrap_or_default();
        FromSource {
            address: self.address,
            symbols: statistics.symbols,
            excess_symbols: statistics.excess_symbols,
            marks: statistics.marks,
            lost: self.ended.as_ref().map(ToString::to_string),
        }
    }
}

/// How far a fetch is.
enum Stage {
    /// What the sources offer is not known of enough of them.
    Asking,
    /// What is there from a fetch before is held against the content's hash tree.
    Checking(Box<Checking>),
    /// The file comes in.
    Fetching(SharedObject),
    /// It has no bytes.
    Empty(Offered),
}

/// A content of which a part may be there.
struct Checking {
    offered: Offered,
    partition: Partition,
    sink: Sink,
    hashes: VerifiedHashes,
    /// The values of the blocks that are there.
    kept: Vec<ChainingValue>,
}

/// The receiver's side of all connections, and the controller.
struct FetchHandler<'a> {
    target: &'a Target,
    overwrite: bool,
    request: Request,
    config: std::sync::Arc<PushConfig>,
    clock: Clock,
    /// Of the content that the user wants, if they said.
    hash: Option<blake3::Hash>,
    /// A source's number is its place here.
    calls: Vec<SourceConnection>,
    agreement: Agreement,
    /// How the vote stands, and whether the user knows, if something was begun before it was over.
    open: Option<OpenVote>,
    /// What has come of the content's hash tree, and what was asked for.
    pages: Pages,
    inquiry: Inquiry,
    /// No page is missing that blocks from this one on need.
    hashes_known_at: Option<u64>,
    controller: Controller,
    weighting: Weighting,
    stage: Stage,
    over: Vec<(ConnectionId, Option<FetchSession>, Closed)>,
    failed: Option<TransferError>,
}

/// A vote that is not over, of something that was begun.
#[derive(Clone, Copy)]
struct OpenVote {
    answered: usize,
    told: bool,
    standing: Standing,
}

/// A driver of connections to sources.
type FetchDriver = Driver<AnyTransport, FetchApplication>;

impl FetchHandler<'_> {
    /// Forgets sources whose connections are over.
    fn count_losses(&mut self, now: Instant) {
        for (connection, session, why) in std::mem::take(&mut self.over) {
            let Some(source) = self.calls.iter().position(|call| call.connection == connection) else { continue };
            let call = &mut self.calls[source];
            call.left = session;
            call.ended.get_or_insert(TransferError::ended(call.address, why));
            self.controller.remove_source(now, source as u64);
        }
    }

    fn tell_news(&mut self, tell: &mut impl FnMut(FetchNews<'_>)) {
        if let Some(vote) = self.open.as_mut().filter(|vote| !vote.told) {
            vote.told = true;
            tell(FetchNews::Begun { answered: vote.answered, called: self.calls.len() });
        }
        for call in self.calls.iter_mut().filter(|call| !call.told) {
            if let Some(error) = &call.ended {
                tell(FetchNews::Lost(error));
                call.told = true;
            }
        }
    }

    /// Whether a source offers something else than what was begun before all were heard.
    fn is_disputed(&self) -> bool {
        self.open.is_some_and(|vote| vote.standing == Standing::Disputed)
    }

    /// What the sources have said so far.
    fn answers(calls: &[SourceConnection]) -> impl Iterator<Item = SourceAnswer<'_>> {
        calls.iter().map(|call| match (&call.answer, &call.ended) {
            (_, Some(_)) => SourceAnswer::Out,
            (Some(offered), None) => SourceAnswer::Offers(offered),
            (None, None) => SourceAnswer::Pending,
        })
    }

    /// Looks at a vote that is not over yet.
    fn follow_vote(&mut self) {
        if let (Some(vote), Some(begun)) = (self.open, self.taken()) {
            let standing = Agreement::standing(&begun, Self::answers(&self.calls));
            self.open = (standing != Standing::Won).then_some(OpenVote { standing, ..vote });
        }
    }

    /// Goes on as far as what has come allows; true once everything is here.
    fn advance(&mut self, now: Instant, driver: &mut FetchDriver) -> io::Result<bool> {
        if let Stage::Asking = self.stage {
            self.agree(now, driver)?;
        }
        self.follow_vote();
        if self.is_disputed() {
            return Ok(false);
        }
        self.take_pages(now, driver)?;
        if let Stage::Checking(checking) = &mut self.stage {
            match checking.hashes.right_blocks(&checking.kept) {
                Ok(right) => self.resume(right),
                Err(block) => {
                    let wanted = checking.hashes.wanted(block);
                    self.ask(now, &wanted, driver)?;
                }
            }
        }
        match &self.stage {
            Stage::Asking | Stage::Checking(_) => Ok(false),
            Stage::Empty(_) => Ok(self.open.is_none()),
            Stage::Fetching(object) => {
                let object = object.clone();
                self.join(now, &object, driver);
                self.leave_out_liars(now, &object, driver)?;
                if self.control(now, &object, driver) {
                    return Ok(self.open.is_none());
                }
                let first = object.borrow().first_missing();
                if self.hashes_known_at != Some(first) {
                    let wanted = object.borrow_mut().hashes.wanted(first);
                    self.hashes_known_at = wanted.is_empty().then_some(first);
                    self.ask(now, &wanted, driver)?;
                }
                Ok(false)
            }
        }
    }

    /// Takes the pages that have come; leaves out who sent false ones.
    fn take_pages(&mut self, now: Instant, driver: &mut FetchDriver) -> io::Result<()> {
        let came = std::mem::take(&mut *self.pages.borrow_mut());
        if came.is_empty() {
            return Ok(());
        }
        self.hashes_known_at = None;
        let mut liars = Vec::new();
        let take = |hashes: &mut VerifiedHashes, inquiry: &mut Inquiry| {
            for (source, page, values) in came {
                inquiry.note_answer(source);
                for liar in hashes.take(source, page, values) {
                    hashes.forget_source(liar);
                    liars.push(liar);
                }
            }
        };
        match &mut self.stage {
            Stage::Checking(checking) => take(&mut checking.hashes, &mut self.inquiry),
            Stage::Fetching(object) => {
                let mut object = object.borrow_mut();
                take(&mut object.hashes, &mut self.inquiry);
                // A block that cannot be written is the object's problem, which ends the fetch.
                let _ = object.verify_waiting();
            }
            Stage::Asking | Stage::Empty(_) => {}
        }
        liars.into_iter().try_for_each(|liar| self.leave_out(now, liar, FALSE_HASHES, driver))
    }

    /// Asks sources for pages, each of one at a time.
    fn ask(&mut self, now: Instant, wanted: &[PageNumber], driver: &mut FetchDriver) -> io::Result<()> {
        let standing = |(_, call): &(usize, &SourceConnection)| call.answer.is_some() && call.ended.is_none();
        let standing: Vec<usize> = self.calls.iter().enumerate().filter(standing).map(|(source, _)| source).collect();
        for (source, page) in self.inquiry.asks(now, wanted, &standing) {
            driver.notify(self.calls[source].connection, &HashNotice::Ask(page).encode());
        }
        for source in self.inquiry.silent(now) {
            self.leave_out(now, source, NO_HASHES, driver)?;
        }
        Ok(())
    }

    /// Leaves out sources whose symbols were false.
    fn leave_out_liars(&mut self, now: Instant, object: &SharedObject, driver: &mut FetchDriver) -> io::Result<()> {
        let liars = std::mem::take(&mut object.borrow_mut().new_liars);
        liars.into_iter().try_for_each(|liar| self.leave_out(now, liar.into(), FALSE_SYMBOLS, driver))
    }

    /// Leaves out a source that does not do what it should.
    fn leave_out(
        &mut self,
        now: Instant,
        source: usize,
        why: &'static str,
        driver: &mut FetchDriver,
    ) -> io::Result<()> {
        self.inquiry.forget(source);
        if self.calls[source].ended.is_some() {
            return Ok(());
        }
        let why = TransferError::NotATransfer { address: self.calls[source].address, why };
        self.close_one(source, why, driver)?;
        self.controller.remove_source(now, source as u64);
        Ok(())
    }

    /// Loads what is behind the first `right` blocks.
    fn resume(&mut self, right: u64) {
        let Stage::Checking(checking) = std::mem::replace(&mut self.stage, Stage::Asking) else { return };
        let Checking { offered, partition, mut sink, hashes, .. } = *checking;
        let right = right as u32;
        if let Err(error) = sink.resume((u64::from(right) * u64::from(BLOCK_BYTES)).min(offered.bytes)) {
            self.failed = Some(error);
            return;
        }
        let object = Object::begin(offered, self.config.clone(), partition, sink, (hashes, right), self.clock);
        self.controller.add_task(TASK, 0, partition.symbols(), self.config.slots, self.weighting);
        self.stage = Stage::Fetching(Rc::new(RefCell::new(object)));
    }

    /// Begins to fetch what the sources agree on.
    fn agree(&mut self, now: Instant, driver: &mut FetchDriver) -> io::Result<()> {
        let chosen = self.hash.is_some();
        match self.agreement.judge(now, chosen, Self::answers(&self.calls)) {
            Judgement::Wait => {}
            Judgement::Tie => {
                let said = |call: &SourceConnection| {
                    let offered = call.answer.as_ref().filter(|_| call.ended.is_none())?;
                    Some((call.address, offered.bytes, offered.hash))
                };
                let offers = self.calls.iter().filter_map(said).collect();
                self.failed = Some(TransferError::NoMajority { offers });
            }
            Judgement::Begin(offered, answered) => {
                self.open = Some(OpenVote { answered, told: false, standing: Standing::Open });
                self.begin(offered);
            }
            Judgement::Take(offered) => {
                for source in 0..self.calls.len() {
                    let why = self.other_content(&self.calls[source], &offered);
                    if let Some(why) = why {
                        self.close_one(source, why, driver)?;
                    }
                }
                self.begin(offered);
            }
        }
        Ok(())
    }

    /// Why a source is left out, if it offers something else.
    fn other_content(&self, call: &SourceConnection, taken: &Offered) -> Option<TransferError> {
        let said = call.answer.as_ref().filter(|said| call.ended.is_none() && !said.is_same(taken))?;
        if said.hash == taken.hash {
            let why = "it gives another size for the same content than most sources";
            return Some(TransferError::NotATransfer { address: call.address, why });
        }
        let answers = || self.calls.iter().filter(|call| call.ended.is_none()).filter_map(|call| call.answer.as_ref());
        let votes = if self.hash.is_some() { 0 } else { answers().filter(|said| said.is_same(taken)).count() };
        let (offered, taken, answers) = (said.hash, taken.hash, answers().count());
        Some(TransferError::OtherContent { address: call.address, offered, taken, votes, answers })
    }

    /// Makes ready for a content.
    fn begin(&mut self, offered: Offered) {
        if offered.bytes == 0 {
            self.stage = Stage::Empty(offered);
            return;
        }
        let Some(partition) = self.request.partition(offered.bytes) else {
            self.failed = Some(TransferError::Sources("the file has more blocks than can be counted"));
            return;
        };
        let checked = open_sink(self.target, &offered, self.overwrite).and_then(|mut sink| {
            let kept = sink.values(offered.bytes)?;
            let hashes = VerifiedHashes::new(offered.bytes, offered.hash);
            Ok(Checking { offered, partition, sink, hashes, kept })
        });
        match checked {
            Ok(checking) => self.stage = Stage::Checking(Box::new(checking)),
            Err(error) => self.failed = Some(error),
        }
    }

    /// Lets sources that have answered take part.
    fn join(&mut self, now: Instant, object: &SharedObject, driver: &mut FetchDriver) {
        for (source, call) in self.calls.iter_mut().enumerate() {
            if call.joined || call.answer.is_none() || call.ended.is_some() {
                continue;
            }
            let Some(application) = driver.application(call.connection) else { continue };
            application.object = Some(object.clone());
            let receiver = object.borrow().receiver.clone();
            let peer = receiver.borrow_mut().add_peer();
            driver.receive_by(call.connection, PushPort::new(receiver, peer).into());
            self.controller.add_source(now, TASK, Holding { source: source as u64, path: Vec::new() });
            call.joined = true;
        }
    }

    /// Lets the controller act; true once everything is here.
    fn control(&mut self, now: Instant, object: &SharedObject, driver: &mut FetchDriver) -> bool {
        let receiver = {
            let mut object = object.borrow_mut();
            let receiver = object.receiver.clone();
            // An end towards one source would keep the time only as long as that source is there.
            receiver.borrow_mut().handle_timeout(now);
            while let Some(message) = receiver.borrow_mut().poll_message() {
                object.mail.push(message);
            }
            for message in object.mail.drain(..) {
                self.controller.handle_message(now, TASK, message);
            }
            if object.is_complete() {
                return true;
            }
            receiver
        };
        self.controller.handle_timeout(now);
        while let Some(message) = self.controller.poll_message() {
            match message {
                Outgoing::Receiver(_, message) => receiver.borrow_mut().handle_message(message),
                Outgoing::Source(_, source, order) => {
                    let to = self.calls[source as usize].connection;
                    driver.notify(to, &PushNotice::ToSource(order).encode());
                }
            }
        }
        false
    }

    /// Leaves a source out, with `why`.
    fn close_one(&mut self, source: usize, why: TransferError, driver: &mut FetchDriver) -> io::Result<()> {
        let call = &mut self.calls[source];
        call.left = driver.close(call.connection, close_code::FAILED, &why.to_string())?;
        call.ended = Some(why);
        Ok(())
    }

    /// Why it cannot go on.
    fn problem(&mut self) -> Option<TransferError> {
        let of_object = match &self.stage {
            Stage::Fetching(object) => object.borrow_mut().problem.take(),
            Stage::Asking | Stage::Checking(_) | Stage::Empty(_) => None,
        };
        let problem = self.failed.take().or(of_object);
        if problem.is_some() || self.calls.iter().any(|call| call.ended.is_none()) {
            return problem;
        }
        // A source that was there and is lost says more than one that never answered.
        let last = self.calls.iter_mut().filter_map(|call| call.ended.take());
        last.max_by_key(|error| !matches!(error, TransferError::NoAnswer { .. }))
    }

    fn close(&mut self, driver: &mut FetchDriver, code: u8, reason: &str) -> io::Result<()> {
        for call in self.calls.iter_mut().filter(|call| call.ended.is_none()) {
            call.left = driver.close(call.connection, code, reason)?;
        }
        Ok(())
    }

    /// What a source answers, if it may be fetched.
    fn answered(&mut self, source: usize, answer: &[u8]) -> Result<Offered, TransferError> {
        let address = self.calls[source].address;
        let refuse = |why| TransferError::NotATransfer { address, why };
        let offered = Offered::decode(answer).ok_or_else(|| refuse("it does not answer as `pliant offer` does"))?;
        if let Some(wanted) = self.hash.filter(|wanted| *wanted != offered.hash) {
            let (offered, taken) = (offered.hash, wanted);
            return Err(TransferError::OtherContent { address, offered, taken, votes: 0, answers: 0 });
        }
        if offered.bytes > 0 && self.request.partition(offered.bytes).is_none() {
            return Err(refuse("it has more blocks than can be counted"));
        }
        Ok(offered)
    }

    /// What is fetched, once that is known.
    fn taken(&self) -> Option<Offered> {
        match &self.stage {
            Stage::Asking => None,
            Stage::Checking(checking) => Some(checking.offered.clone()),
            Stage::Fetching(object) => Some(object.borrow().offered.clone()),
            Stage::Empty(offered) => Some(offered.clone()),
        }
    }
}

impl ConnectionHandler<AnyTransport, FetchApplication> for FetchHandler<'_> {
    fn answer(&mut self, _: Caller<'_>, _: &[u8]) -> Result<Vec<u8>, String> {
        Err("this side fetches".into())
    }

    fn open(&mut self, _: Instant, connection: ConnectionId, event: Event) -> Option<FetchSession> {
        let Event::Connected { answer } = event else { return None };
        let source = self.calls.iter().position(|call| call.connection == connection)?;
        match self.answered(source, &answer) {
            Ok(offered) => self.calls[source].answer = Some(offered),
            Err(error) => self.calls[source].ended = Some(error),
        }
        // While the vote is open, who offers something else disputes it.
        let taken = self.taken().filter(|_| self.open.is_none());
        let other = taken.and_then(|taken| self.other_content(&self.calls[source], &taken));
        let call = &mut self.calls[source];
        call.ended = call.ended.take().or(other);
        let (source, pages) = (source as u16, self.pages.clone());
        call.ended.is_none().then(|| Session::new(FetchApplication { source, object: None, pages }))
    }

    fn closed(&mut self, connection: ConnectionId, session: Option<FetchSession>, why: Closed) {
        self.over.push((connection, session, why));
    }
}
