//! The receiver of a file from many sources.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use blake3::hazmat::ChainingValue;
use pliant_proto::time::{Instant, Span};
use pliant_proto::transport::any::AnyTransport;
use pliant_proto::transport::push::{
    Controller, ControllerConfig, Holding, Outgoing, Partition, PushConfig, PushPort, ReceiverCounts, TaskId, Weighting,
};

use super::agreement::{Agreement, Judgement, SourceAnswer, Standing};
use super::alone;
use super::fetched::{FetchNews, Fetched, FromSource, WantedFile};
use super::following::{Following, PeerProgress, TakesFrom, rests};
use super::hash_tree::{BLOCK_BYTES, PageNumber, VerifiedHashes, pages_of};
use super::inquiry::Inquiry;
use super::message::{FetchCall, FileSelector, HashNotice, HoldingNotice, Offered, PushNotice, Request};
use super::mirror::{Mirror, Mirrors};
use super::object::{FetchApplication, Holdings, Object, OwnProgress, Pages, SharedObject, Sink, open_sink};
use super::offered_files::{Growing, OfferedFiles};
use super::own_blocks::OwnBlocks;
use super::pace::{Pace, SlowSource};
use crate::clock::Clock;
use crate::connection::{Caller, Closed, ConnectionId, Event};
use crate::driver::{ConnectionHandler, Driver, Session};
use crate::poll::PollWaker;
use crate::transfer::close_code;
use crate::transfer::error::TransferError;
use crate::transfer::hash::check_hash;
use crate::transfer::output::Target;
use crate::transfer::progress::{MAX_SLEEP, PROGRESS_INTERVAL, Progress};
use crate::transfer::settings::Settings;

/// Why a lying source is excluded.
const FALSE_SYMBOLS: &str = "it sends symbols that are not of the file";
const FALSE_HASHES: &str = "it sends hashes that are not of the file";
const NO_HASHES: &str = "it does not say the hashes of the file's parts";
const OTHER_NAME: &str = "it offers another file than the one that was asked for";
const IN_PART: &str = "it has only a part of the file yet: it is a peer, and no source";
/// When a peer is called again that was absent, has not begun, or was lost: after as long as it has been so, within
/// these limits. Receivers that begin together find each other before the first has a block.
const CALL_AGAIN: Span = Span::from_ms(100);
const CALL_AGAIN_MAX: Span = Span::from_secs(1);
/// Most sources that send at once. The others wait until one fails.
const MAX_SLOTS: usize = 32;
/// After this long without a symbol, resting sources are used again.
const NOTHING_COMES: Span = Span::from_secs(1);
/// Blocks searched at once in what the receiver already has.
const OWN_BLOCKS: u32 = 8;
/// The one task of this receiver's controller.
const TASK: TaskId = 1;

/// Fetches a file from those of `sources` that offer it. Their weight (theta) is that of the settings' contract, and no
/// more is in flight than the settings' receive buffer. This limits the rate on long paths, and, compared with blocks
/// of 2 MiB, the symbols that are sent for nothing where no switch marks.
///
/// The file is the one with the `wanted` hash. Without a hash it is the one that more than half of the answering
/// sources offer, under the wanted name if they offer many. A tie is an error. The fetch waits for all answers, but not for those
/// who are silent once more than half of all sources agree, or one source offers the content with the hash: then it begins a few
/// round trips later, after 50 ms to a second. If
/// all that have answered agree, it begins a few round trips later. The file still gets its place only once the others
/// have answered or were given up. If one of them disagrees, the fetch starts again after all answers. Sources that
/// cannot be reached, are lost or offer another content are reported to `tell`. The fetch continues as long as there is
/// one source.
pub fn fetch(
    sources: &[SocketAddr],
    wanted: impl Into<WantedFile>,
    target: &Target,
    settings: &Settings,
    interrupted: &AtomicBool,
    mut progress: impl FnMut(Progress),
    mut tell: impl FnMut(FetchNews<'_>),
) -> Result<Fetched, TransferError> {
    let wanted = wanted.into();
    if sources.is_empty() && !wanted.mirrors.is_empty() {
        let Some(hash) = wanted.hash else {
            return Err(TransferError::Sources("without a source that offers it, the file's hash must be said"));
        };
        return alone::fetch(&wanted, hash, target, settings, interrupted, &mut progress, &mut tell);
    }
    for hearing in [Hearing::Beside, Hearing::First] {
        let mut attempt = Attempt::new(hearing);
        let fetched =
            fetch_once(sources, &wanted, target, settings, interrupted, &mut attempt, &mut progress, &mut tell);
        match (fetched, attempt.left) {
            (Ok(Some(fetched)), _) => return Ok(fetched),
            (Ok(None), _) => tell(FetchNews::Disputed),
            (Err(error), Some(left)) if !wanted.mirrors.is_empty() => {
                let Some((hash, wanted)) = left.wanted(&wanted) else { return Err(error) };
                tell(FetchNews::MirrorsAlone(&error));
                let alone = alone::fetch(&wanted, hash, target, settings, interrupted, &mut progress, &mut tell);
                // A source that was there and is lost says more than a mirror that never was.
                let was_there = !error.is_absence();
                return alone
                    .map_err(|of_mirrors| if was_there && of_mirrors.is_absence() { error } else { of_mirrors });
            }
            (Err(error), _) => return Err(error),
        }
    }
    unreachable!("what is begun when all were heard is not disputed")
}

/// What [`fetch`] would fetch: the sources vote on it, and nothing of it is fetched. Mirrors say only its size, and are asked if
/// there is no source.
pub fn ask(
    sources: &[SocketAddr],
    wanted: impl Into<WantedFile>,
    settings: &Settings,
    interrupted: &AtomicBool,
) -> Result<Fetched, TransferError> {
    let wanted = WantedFile { peers: Vec::new(), own: None, offered_in: None, ..wanted.into() };
    if sources.is_empty()
        && let Some(hash) = wanted.hash
    {
        return alone::ask(&wanted, hash, settings, interrupted);
    }
    let mut attempt = Attempt { asks: true, ..Attempt::new(Hearing::First) };
    let (target, progress, tell) = (Target::Discard, &mut |_| {}, &mut |_: FetchNews<'_>| {});
    let asked = fetch_once(sources, &wanted, &target, settings, interrupted, &mut attempt, progress, tell);
    match (asked, attempt.left.and_then(|left| left.wanted(&wanted))) {
        (Ok(asked), _) => Ok(asked.expect("what is begun when all were heard is not disputed")),
        (Err(_), Some((hash, wanted))) => alone::ask(&wanted, hash, settings, interrupted),
        (Err(error), None) => Err(error),
    }
}

/// When the sources are heard that are slow to say what they offer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Hearing {
    /// Before the fetch begins.
    First,
    /// While it runs, and before the file gets its place or is offered to others.
    Beside,
    /// By the next fetch, which is of what this one brings.
    Later,
}

/// One attempt at a fetch.
pub(super) struct Attempt {
    hearing: Hearing,
    /// Whether it ends with what the sources agree on, and fetches nothing.
    asks: bool,
    /// The open vote on another file, which must be won before this one gets its place.
    elsewhere: Option<Elsewhere>,
    /// The open vote on what was fetched, if it is heard later.
    pub(super) unheard: Option<Elsewhere>,
    /// What is left to mirrors, if it failed.
    left: Option<LeftToMirrors>,
}

impl Attempt {
    pub(super) fn new(hearing: Hearing) -> Self {
        Self { hearing, asks: false, elsewhere: None, unheard: None, left: None }
    }

    /// A fetch of what depends on another file, whose vote is open.
    pub(super) fn beside(elsewhere: Option<Elsewhere>) -> Self {
        Self { elsewhere, ..Self::new(Hearing::Beside) }
    }
}

/// An open vote on a file that was fetched already.
pub(super) struct Elsewhere {
    offered: Offered,
    /// How sources are asked for it.
    file: FileSelector,
    /// How many offer it, and how many are out.
    votes: usize,
    out: usize,
    silent: Vec<Silent>,
}

/// A source that has not said yet whether it offers that file.
struct Silent {
    address: SocketAddr,
    connection: Option<ConnectionId>,
    /// Its offer, and whether it has none.
    answer: Option<Offered>,
    is_out: bool,
}

impl Elsewhere {
    fn answers(&self) -> impl Iterator<Item = SourceAnswer<'_>> {
        let silent = self.silent.iter().map(|silent| match &silent.answer {
            Some(offered) => SourceAnswer::Offers(offered),
            None if silent.is_out => SourceAnswer::Out,
            None => SourceAnswer::Pending,
        });
        let votes = std::iter::repeat_n(SourceAnswer::Offers(&self.offered), self.votes);
        votes.chain(std::iter::repeat_n(SourceAnswer::Out, self.out)).chain(silent)
    }

    fn silent(&mut self, connection: ConnectionId) -> Option<&mut Silent> {
        self.silent.iter_mut().find(|silent| silent.connection == Some(connection))
    }
}

/// What is left to mirrors when there is no source.
struct LeftToMirrors {
    hash: blake3::Hash,
    /// The name given by the sources.
    name: Option<String>,
    /// Mirrors that were already excluded.
    lost: Vec<String>,
}

impl LeftToMirrors {
    /// What is wanted of the mirrors that are left, if there are any, and the file has a name for them.
    fn wanted(self, wanted: &WantedFile) -> Option<(blake3::Hash, WantedFile)> {
        let mut wanted = wanted.clone();
        wanted.name = self.name.or(wanted.name);
        wanted.mirrors.retain(|mirror| !self.lost.iter().any(|lost| lost == mirror.name()));
        let can_be_asked = !wanted.mirrors.is_empty() && alone::names_of(&wanted).is_ok();
        can_be_asked.then_some((self.hash, wanted))
    }
}

/// `None` if a fetch began before all sources were heard, and is disputed.
#[expect(clippy::too_many_arguments, reason = "those of `fetch`, and one more")]
pub(super) fn fetch_once(
    sources: &[SocketAddr],
    wanted: &WantedFile,
    target: &Target,
    settings: &Settings,
    interrupted: &AtomicBool,
    attempt: &mut Attempt,
    progress: &mut impl FnMut(Progress),
    tell: &mut impl FnMut(FetchNews<'_>),
) -> Result<Option<Fetched>, TransferError> {
    let mut distinct = sources.to_vec();
    distinct.sort_unstable();
    distinct.dedup();
    let mut peers = wanted.peers.clone();
    peers.sort_unstable();
    peers.dedup();
    let returning: Vec<SocketAddr> = peers.extract_if(.., |peer| distinct.contains(peer)).collect();
    let Some(&first) = distinct.first() else { return Err(TransferError::Sources("there is no source")) };
    if distinct.iter().chain(&peers).any(|source| source.is_ipv4() != first.is_ipv4()) {
        return Err(TransferError::Sources("sources must all have IPv4 or all IPv6 addresses"));
    }
    if distinct.len() > usize::from(u16::MAX) {
        return Err(TransferError::Sources("there are more than 65535 sources"));
    }
    if !peers.is_empty() && distinct.len() + peers.len() > MAX_SLOTS {
        return Err(TransferError::Sources("there are more than 32 sources and peers"));
    }
    distinct.iter().chain(&peers).try_for_each(|source| settings.check(*source))?;
    let symbol = settings.path_to(first).payload(settings.flow.mtu);
    let slots = (distinct.len() + peers.len()).min(MAX_SLOTS) as u8;
    // Of peers one sends at a time, or all are as good as sources.
    let window = (settings.flow.largest_receive_buffer / u64::from(slots)).min(u32::MAX.into()) as u32;
    let request = Request { symbol, slots, window };
    let config = request.config(&settings.flow, settings.path_to(first)).map_err(TransferError::Flow)?;
    let socket_error = |error| TransferError::Socket { address: first, error };
    // All are called from one socket.
    let is_ipv4 = first.is_ipv4();
    let further = |of| -> VecDeque<SocketAddr> {
        settings.further_of(of).into_iter().filter(|address| address.is_ipv4() == is_ipv4).collect()
    };
    let all: Vec<SocketAddr> =
        distinct.iter().flat_map(|source| further(*source).into_iter().chain([*source])).collect();
    let farthest = all.iter().find(|source| !source.ip().is_loopback()).unwrap_or(&first);
    let mut driver = settings.driver_to::<FetchApplication>(*farthest)?;
    let opening = FetchCall { request, file: wanted.selector() }.encode();
    let call = |address| {
        let connection = driver.connect(address, &opening).map_err(TransferError::Connect)?;
        let (returns, further) = (returning.contains(&address), further(address));
        Ok(SourceConnection { connection: Some(connection), returns, further, ..SourceConnection::new(address) })
    };
    let mut calls = distinct.into_iter().map(call).collect::<Result<Vec<_>, TransferError>>()?;
    let called_again = |address| SourceConnection {
        is_peer: true,
        returns: true,
        again_at: Some(Instant::ZERO),
        further: further(address),
        ..SourceConnection::new(address)
    };
    calls.extend(peers.into_iter().map(called_again));
    let mut elsewhere = attempt.elsewhere.take();
    if let Some(Elsewhere { file, silent, .. }) = &mut elsewhere {
        let opening = FetchCall { request, file: file.clone() }.encode();
        for silent in silent {
            silent.connection = Some(driver.connect(silent.address, &opening).map_err(TransferError::Connect)?);
        }
    }
    let waker = (!wanted.mirrors.is_empty()).then(PollWaker::new).transpose().map_err(socket_error)?;
    if let Some(waker) = &waker {
        driver.set_waker(waker.clone());
    }
    // Who is offered nothing by this one has no place in the row: it is behind all.
    let who = wanted.offered_in.as_ref().map_or(u64::MAX, OfferedFiles::who);
    let mut handler = FetchHandler {
        target,
        overwrite: settings.overwrite,
        request,
        config,
        clock: driver.clock(),
        hash: wanted.hash,
        asked_name: wanted.name.as_deref().filter(|_| wanted.hash.is_none()),
        kept_as: wanted.kept_as.as_deref(),
        sources_name: None,
        offered_in: wanted.offered_in.as_ref(),
        calls,
        holdings: Holdings::default(),
        following: Following::new(who),
        taken_from: None,
        missing_since: (0, driver.now()),
        patience: settings.idle_timeout,
        max_bytes: settings.limits.max_bytes,
        agreement: Agreement::new(driver.now(), attempt.hearing != Hearing::First && wanted.hash.is_none()),
        open: elsewhere.as_ref().map(|vote| OpenVote { answered: vote.votes, told: true, standing: Standing::Open }),
        elsewhere,
        hears_later: attempt.hearing == Hearing::Later,
        asks: attempt.asks,
        pages: Pages::default(),
        inquiry: Inquiry::new(settings.idle_timeout),
        hashes_known_at: None,
        mirrors: waker.map(|waker| MirrorsOf { wanted: &wanted.mirrors, waker, begun: Mirrors::default() }),
        controller: Controller::new(ControllerConfig::default()),
        weighting: Weighting::Fixed(settings.flow.contract.weight),
        stage: Stage::Asking,
        deserted: false,
        pace: Pace::default(),
        came_last: (0, driver.now()),
        own: wanted.own.as_ref(),
        has_own: false,
        over: Vec::new(),
        failed: None,
    };
    let (started, mut told_at) = (driver.now(), driver.now());
    loop {
        let sleep = if handler.has_own { Duration::ZERO } else { MAX_SLEEP };
        driver.run_once(&mut handler, sleep).map_err(socket_error)?;
        let now = driver.now();
        if interrupted.load(Ordering::Relaxed) {
            handler.close(&mut driver, close_code::INTERRUPTED, "interrupted").map_err(socket_error)?;
            return Err(TransferError::Interrupted);
        }
        handler.count_losses(now);
        handler.call_elsewhere(&mut driver, &opening);
        let done = handler.advance(now, &mut driver).map_err(socket_error)?;
        handler.tell_news(tell);
        if done {
            break;
        }
        if handler.is_disputed() {
            handler.close(&mut driver, close_code::FAILED, "the sources do not agree").map_err(socket_error)?;
            return Ok(None);
        }
        if let Some(error) = handler.problem(now) {
            attempt.left = handler.left_to_mirrors();
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
    attempt.unheard = handler.unheard(wanted.selector());
    let refused = driver.refused();
    let code = if attempt.asks { close_code::ASKED } else { close_code::DONE };
    handler.close(&mut driver, code, "").map_err(socket_error)?;
    let sources = handler.calls.iter_mut().map(SourceConnection::outcome).collect();
    let mirrors = handler.mirrors.map_or_else(Vec::new, |mirrors| mirrors.begun.outcome());
    let (offered, counts, kept, path) = match handler.stage {
        Stage::Fetching(object) => {
            let object = Rc::into_inner(object).expect("no connection is left").into_inner();
            let (offered, counts, kept) = (object.offered.clone(), object.receiver.borrow().counts(), object.kept);
            (offered, counts, kept, object.commit()?)
        }
        Stage::Told(offered) if attempt.asks => (offered, ReceiverCounts::default(), 0, None),
        Stage::Told(offered) => {
            check_hash(&offered.name, blake3::hash(&[]), offered.hash)?;
            let path = open_sink(target, &offered, settings.overwrite)?.commit()?;
            if let (Some(files), Some(path)) = (&wanted.offered_in, &path) {
                files.add(path)?;
            }
            (offered, ReceiverCounts::default(), 0, path)
        }
        Stage::Asking | Stage::Checking(_) => unreachable!("it ends with a file or an error"),
    };
    let Offered { bytes, hash, name } = offered;
    Ok(Some(Fetched { name, path, bytes, kept, hash, elapsed, sources, mirrors, counts, refused }))
}

/// A connection to a source.
type FetchSession = Session<AnyTransport, FetchApplication>;

/// A source, called or a peer.
struct SourceConnection {
    address: SocketAddr,
    /// Where else it may be called, and where it did not answer.
    further: VecDeque<SocketAddr>,
    silent: Vec<SocketAddr>,
    /// It is to be called at this address, and was not yet.
    is_moved: bool,
    connection: Option<ConnectionId>,
    /// When it is called again, if it is a peer that is not connected.
    again_at: Option<Instant>,
    /// Since when it is absent, or has nothing.
    absent_since: Option<Instant>,
    is_peer: bool,
    /// It is called again, as a peer, if it has nothing or is lost.
    returns: bool,
    /// It has only a part of its offer.
    in_part: bool,
    /// Its offer, and whether it takes part in the fetch.
    answer: Option<Offered>,
    joined: bool,
    answered: bool,
    /// Why it is no longer connected, and whether the application knows.
    ended: Option<TransferError>,
    told: bool,
    /// Why it rests, because it sends almost nothing.
    slow: Option<String>,
    slow_told: bool,
    /// Why it was unconnected for a while, if it is called again.
    lost: Option<TransferError>,
    /// Counts of past connections: symbols, those in excess, marks.
    came: [u64; 3],
}

impl SourceConnection {
    fn new(address: SocketAddr) -> Self {
        let (connection, again_at, answer, ended) = (None, None, None, None);
        Self {
            address,
            further: VecDeque::new(),
            silent: Vec::new(),
            is_moved: false,
            connection,
            again_at,
            absent_since: None,
            is_peer: false,
            returns: false,
            in_part: false,
            answer,
            joined: false,
            answered: false,
            ended,
            slow: None,
            slow_told: false,
            lost: None,
            told: false,
            came: [0; 3],
        }
    }

    /// Its connection is over.
    fn leave(&mut self, session: Option<FetchSession>) {
        self.connection = None;
        if let Some(statistics) = session.map(|session| session.receiver_statistics()) {
            let counts = [statistics.symbols, statistics.excess_symbols, statistics.marks];
            self.came.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        }
    }

    fn outcome(&mut self) -> FromSource {
        let [symbols, excess_symbols, marks] = self.came;
        FromSource {
            address: self.address,
            answered: self.answered,
            symbols,
            excess_symbols,
            marks,
            lost: self.ended.as_ref().map(ToString::to_string).or_else(|| self.slow.clone()),
        }
    }
}

/// The state of a fetch.
enum Stage {
    /// Too few sources have said what they offer.
    Asking,
    /// What is kept from an earlier fetch is compared with the content's hash tree.
    Checking(Box<Checking>),
    /// The file is being fetched.
    Fetching(SharedObject),
    /// There is nothing to fetch: it has no bytes, or only what it is was asked.
    Told(Offered),
}

/// A content of which a part may be there.
struct Checking {
    offered: Offered,
    partition: Partition,
    sink: Sink,
    hashes: VerifiedHashes,
    /// The values of the kept blocks.
    kept: Vec<ChainingValue>,
}

/// Whether a source that gives a file this name may be asked for it by the other: that has the name of the file's folder in
/// front, which `pliant offer` leaves out.
fn answers_to(name: &str, asked: &str) -> bool {
    asked.strip_suffix(name).is_some_and(|folder| folder.is_empty() || folder.ends_with('/'))
}

/// The receiver's side of all connections, and the controller.
struct FetchHandler<'a> {
    target: &'a Target,
    overwrite: bool,
    request: Request,
    config: Arc<PushConfig>,
    clock: Clock,
    /// Hash of the content that the user wants, if given.
    hash: Option<blake3::Hash>,
    /// The name by which sources are asked for it.
    asked_name: Option<&'a str>,
    /// Its name here, if sources do not choose it, and the one that they give it.
    kept_as: Option<&'a str>,
    sources_name: Option<String>,
    offered_in: Option<&'a OfferedFiles>,
    /// A source's number is its position here.
    calls: Vec<SourceConnection>,
    /// The blocks of peers, and which peer is used.
    holdings: Holdings,
    following: Following,
    taken_from: Option<TakesFrom>,
    /// The first missing block, and since when it is missing.
    missing_since: (u32, Instant),
    patience: Span,
    max_bytes: u64,
    agreement: Agreement,
    /// The vote, and whether the user knows, if a fetch began before its end.
    open: Option<OpenVote>,
    /// The file that it is about, if not this one.
    elsewhere: Option<Elsewhere>,
    /// Whether the fetch ends before the vote, and whether it ends with it.
    hears_later: bool,
    asks: bool,
    /// Arrived pages of the content's hash tree, and requested ones.
    pages: Pages,
    inquiry: Inquiry,
    /// From this block on, all needed pages are known.
    hashes_known_at: Option<u64>,
    mirrors: Option<MirrorsOf<'a>>,
    controller: Controller,
    weighting: Weighting,
    stage: Stage,
    /// No source is left.
    deserted: bool,
    pace: Pace,
    /// Symbols that had arrived at the last arrival, and when that was.
    came_last: (u64, Instant),
    /// What this host may already have of the content, and whether to search on at once.
    own: Option<&'a Arc<dyn OwnBlocks>>,
    has_own: bool,
    over: Vec<(ConnectionId, Option<FetchSession>, Closed)>,
    failed: Option<TransferError>,
}

/// Mirrors, which begin once the content is known.
struct MirrorsOf<'a> {
    wanted: &'a [Arc<dyn Mirror>],
    waker: PollWaker,
    begun: Mirrors,
}

/// An open vote on a content whose fetch has begun.
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
            if let Some(silent) = self.elsewhere.as_mut().and_then(|vote| vote.silent(connection)) {
                silent.is_out = true;
                continue;
            }
            let called = |call: &SourceConnection| call.connection == Some(connection);
            let Some(source) = self.calls.iter().position(called) else { continue };
            let next = if matches!(why, Closed::NoAnswer(_)) { self.next_address(source) } else { None };
            let call = &mut self.calls[source];
            call.leave(session);
            call.answered |= matches!(why, Closed::Refused(_));
            if call.returns && call.ended.is_none() {
                // It may be there again, or begin; the others go on without it.
                call.lost = Some(TransferError::ended(call.address, why));
                if let Some(next) = next {
                    call.further.push_back(std::mem::replace(&mut call.address, next));
                }
                let absent = call.absent_since.get_or_insert(now);
                let wait = now.since(*absent).max(CALL_AGAIN).min(CALL_AGAIN_MAX);
                (call.is_peer, call.answer, call.joined, call.again_at) = (true, None, false, Some(now.after(wait)));
                self.holdings.borrow_mut().remove(&source);
                self.inquiry.forget(source);
            } else if call.ended.is_none()
                && let Some(next) = next
            {
                call.silent.push(std::mem::replace(&mut call.address, next));
                call.is_moved = true;
            } else {
                let ended = TransferError::ended(call.address, why).after(&call.silent);
                call.ended.get_or_insert(ended);
            }
            self.taken_from = None;
            self.controller.remove_source(now, source as u64);
        }
    }

    /// Where else a source may be called: where no other is, or one host would have two votes.
    fn next_address(&mut self, source: usize) -> Option<SocketAddr> {
        loop {
            let next = self.calls[source].further.pop_front()?;
            if self.calls.iter().all(|call| call.address != next) {
                return Some(next);
            }
        }
    }

    /// Calls sources that have not answered at their next address.
    fn call_elsewhere(&mut self, driver: &mut FetchDriver, opening: &[u8]) {
        for call in self.calls.iter_mut().filter(|call| call.is_moved) {
            call.is_moved = false;
            match driver.connect(call.address, opening) {
                Ok(connection) => call.connection = Some(connection),
                Err(error) => call.ended = Some(TransferError::Connect(error)),
            }
        }
    }

    fn tell_news(&mut self, tell: &mut impl FnMut(FetchNews<'_>)) {
        if let Some(vote) = self.open.as_mut().filter(|vote| !vote.told) {
            vote.told = true;
            let called = self.calls.iter().filter(|call| !call.is_peer).count();
            tell(FetchNews::Begun { answered: vote.answered, called });
        }
        if let Some(mirrors) = &mut self.mirrors {
            mirrors.begun.tell(|error| tell(FetchNews::Lost(error)));
        }
        for call in self.calls.iter_mut().filter(|call| !call.slow_told) {
            if let Some(why) = &call.slow {
                tell(FetchNews::Slow(why));
                call.slow_told = true;
            }
        }
        if let Stage::Fetching(object) = &self.stage
            && object.borrow().problem.is_some()
        {
            // Its flow ended because of this host's file.
            return;
        }
        for call in self.calls.iter_mut().filter(|call| !call.told) {
            if let Some(error) = &call.ended {
                tell(FetchNews::Lost(error));
                call.told = true;
            }
        }
    }

    /// Whether a source offers something else than the content whose fetch began before all were heard.
    fn is_disputed(&self) -> bool {
        self.open.is_some_and(|vote| vote.standing == Standing::Disputed)
    }

    /// The answers of the sources so far.
    fn answers(calls: &[SourceConnection]) -> impl Iterator<Item = SourceAnswer<'_>> {
        calls.iter().filter(|call| !call.is_peer).map(|call| match (&call.answer, &call.ended) {
            (_, Some(_)) => SourceAnswer::Out,
            (Some(offered), None) => SourceAnswer::Offers(offered),
            (None, None) => SourceAnswer::Pending,
        })
    }

    /// Evaluates an open vote. What has won it is offered to others from now on.
    fn follow_vote(&mut self) {
        let Some(vote) = self.open else { return };
        let standing = match (&self.elsewhere, self.taken()) {
            (Some(elsewhere), _) => Agreement::standing(&elsewhere.offered, elsewhere.answers()),
            (None, Some(begun)) => Agreement::standing(&begun, Self::answers(&self.calls)),
            (None, None) => return,
        };
        self.open = (standing != Standing::Won).then_some(OpenVote { standing, ..vote });
        if self.open.is_none()
            && let Stage::Fetching(object) = &self.stage
            && let Err(error) = object.borrow_mut().offer()
        {
            self.failed = Some(error);
        }
    }

    /// The open vote on what was fetched, for the next fetch.
    fn unheard(&self, file: FileSelector) -> Option<Elsewhere> {
        let offered = self.taken().filter(|_| self.open.is_some())?;
        let (mut votes, mut out, mut silent) = (0, 0, Vec::new());
        for (call, answer) in self.calls.iter().filter(|call| !call.is_peer).zip(Self::answers(&self.calls)) {
            match answer {
                SourceAnswer::Offers(_) => votes += 1,
                SourceAnswer::Out => out += 1,
                SourceAnswer::Pending => {
                    silent.push(Silent { address: call.address, connection: None, answer: None, is_out: false });
                }
            }
        }
        Some(Elsewhere { offered, file, votes, out, silent })
    }

    /// Whether the fetch may end, once everything is here.
    fn may_end(&self) -> bool {
        self.open.is_none() || self.hears_later
    }

    /// Continues as far as possible; true once everything is here.
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
            Stage::Told(_) => Ok(self.may_end()),
            Stage::Fetching(object) => {
                let object = object.clone();
                self.call_peers(now, &object, driver);
                // A block that cannot be written is the object's problem, which ends the fetch.
                let own = object.borrow_mut().take_own(OWN_BLOCKS).unwrap_or(OwnProgress::Others);
                self.has_own = own == OwnProgress::GoesOn;
                let sends = self.calls.iter().any(|call| call.joined);
                if own == OwnProgress::Others || sends {
                    self.join(now, &object, driver);
                }
                self.choose(now, &object);
                self.rest_slow(now, &object);
                self.leave_out_liars(now, &object, driver)?;
                if let Some(mirrors) = &mut self.mirrors {
                    mirrors.begun.advance(&object);
                }
                if self.control(now, &object, driver) {
                    return Ok(self.may_end());
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

    /// Takes the pages that have arrived, and excludes sources of false ones.
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
            Stage::Asking | Stage::Told(_) => {}
        }
        liars.into_iter().try_for_each(|liar| self.leave_out(now, liar, FALSE_HASHES, driver))
    }

    /// Asks sources for pages, each for one at a time.
    fn ask(&mut self, now: Instant, wanted: &[PageNumber], driver: &mut FetchDriver) -> io::Result<()> {
        let standing = |(_, call): &(usize, &SourceConnection)| call.answer.is_some() && call.ended.is_none();
        let mut standing: Vec<usize> =
            self.calls.iter().enumerate().filter(standing).map(|(source, _)| source).collect();
        // Peers may not know them yet: they are asked when nobody else is left.
        if standing.iter().any(|source| !self.calls[*source].is_peer) {
            standing.retain(|source| !self.calls[*source].is_peer);
        }
        for (source, page) in self.inquiry.asks(now, wanted, &standing) {
            if let Some(connection) = self.calls[source].connection {
                driver.notify(connection, &HashNotice::Ask(page).encode());
            }
        }
        for source in self.inquiry.silent(now) {
            if self.calls[source].is_peer {
                continue;
            }
            self.leave_out(now, source, NO_HASHES, driver)?;
        }
        Ok(())
    }

    /// Excludes sources whose symbols were false.
    fn leave_out_liars(&mut self, now: Instant, object: &SharedObject, driver: &mut FetchDriver) -> io::Result<()> {
        let liars = std::mem::take(&mut object.borrow_mut().new_liars);
        liars.into_iter().try_for_each(|liar| self.leave_out(now, liar.into(), FALSE_SYMBOLS, driver))
    }

    /// Excludes a source that misbehaves.
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

    /// Fetches what follows the first `right` blocks.
    fn resume(&mut self, right: u64) {
        let Stage::Checking(checking) = std::mem::replace(&mut self.stage, Stage::Asking) else { return };
        let Checking { offered, partition, mut sink, mut hashes, mut kept } = *checking;
        let right = right as u32;
        kept.truncate(right as usize);
        let resumed = sink.resume((u64::from(right) * u64::from(BLOCK_BYTES)).min(offered.bytes));
        let growing = match resumed.and_then(|()| self.offer(&offered, &sink, &kept, &mut hashes)) {
            Ok(growing) => growing,
            Err(error) => {
                self.failed = Some(error);
                return;
            }
        };
        let (sink, hashes) = ((sink, growing), (hashes, right));
        if let Some(MirrorsOf { wanted, waker, begun }) = &mut self.mirrors {
            let name = self.sources_name.as_ref().unwrap_or(&offered.name);
            *begun = Mirrors::begin(wanted, name, offered.bytes, waker);
        }
        let own = self.own.cloned();
        let mut object = Object::begin(offered, self.config.clone(), partition, sink, own, hashes, self.clock);
        object.count_sources(self.calls.len());
        self.controller.add_task(TASK, 0, partition.symbols(), self.config.slots, self.weighting);
        self.stage = Stage::Fetching(Rc::new(RefCell::new(object)));
    }

    /// Offers the content to others: what is there, with the values `kept`, and what arrives.
    fn offer(
        &self,
        offered: &Offered,
        sink: &Sink,
        kept: &[ChainingValue],
        hashes: &mut VerifiedHashes,
    ) -> Result<Option<Growing>, TransferError> {
        let Some(files) = self.offered_in else { return Ok(None) };
        let Some((file, path)) = sink.part()? else {
            return Err(TransferError::CannotBeOffered);
        };
        let pages = pages_of(offered.bytes, kept);
        let growing = files.begin(offered.clone(), path, file, pages, kept.len() as u32);
        if self.open.is_none() {
            growing.offer()?;
        }
        hashes.share(growing.pages());
        Ok(Some(growing))
    }

    /// Begins to fetch the content on which the sources agree.
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

    /// Why a source is excluded, if it offers something else.
    fn other_content(&self, call: &SourceConnection, taken: &Offered) -> Option<TransferError> {
        let said = call.answer.as_ref().filter(|said| call.ended.is_none() && !said.is_same(taken))?;
        if said.hash == taken.hash {
            let why = "it gives another size for the same content than most sources";
            return Some(TransferError::NotATransfer { address: call.address, why });
        }
        let votes = |call: &&SourceConnection| call.ended.is_none() && !call.is_peer;
        let answers = || self.calls.iter().filter(votes).filter_map(|call| call.answer.as_ref());
        let votes = if self.hash.is_some() { 0 } else { answers().filter(|said| said.is_same(taken)).count() };
        let (offered, taken, answers) = (said.hash, taken.hash, answers().count());
        Some(TransferError::OtherContent { address: call.address, offered, taken, votes, answers })
    }

    /// Prepares for a content.
    fn begin(&mut self, mut offered: Offered) {
        if let Some(name) = self.kept_as {
            self.sources_name = Some(std::mem::replace(&mut offered.name, name.to_owned()));
        }
        if self.asks || offered.bytes == 0 {
            self.stage = Stage::Told(offered);
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

    /// Calls peers that are not connected, once the content is known.
    fn call_peers(&mut self, now: Instant, object: &SharedObject, driver: &mut FetchDriver) {
        for call in self.calls.iter_mut().filter(|call| call.ended.is_none()) {
            if call.again_at.is_none_or(|at| at > now) {
                continue;
            }
            let file = FileSelector::Hash(object.borrow().offered.hash);
            let opening = FetchCall { request: self.request, file }.encode();
            call.again_at = None;
            match driver.connect(call.address, &opening) {
                Ok(connection) => call.connection = Some(connection),
                Err(error) => call.ended = Some(TransferError::Connect(error)),
            }
        }
    }

    /// If there are peers, makes those rest that are not to be used now.
    fn choose(&mut self, now: Instant, object: &SharedObject) {
        if self.calls.iter().all(|call| !call.is_peer) {
            return;
        }
        let (first, blocks) = {
            let object = object.borrow();
            (object.first_missing() as u32, object.blocks())
        };
        if self.missing_since.0 != first {
            self.missing_since = (first, now);
        }
        let holdings = self.holdings.borrow();
        let progress = |(source, call): (usize, &SourceConnection)| {
            let joined = call.is_peer && call.joined && call.ended.is_none();
            // One that was whole when it was called says nothing; one that is not and has said nothing yet has nothing.
            let unsaid = HoldingNotice { blocks: if call.in_part { 0 } else { blocks }, who: u64::MAX };
            let holding = holdings.get(&source).copied().unwrap_or(unsaid);
            joined.then_some(PeerProgress { source, who: holding.who, blocks: holding.blocks })
        };
        let peers: Vec<PeerProgress> = self.calls.iter().enumerate().filter_map(progress).collect();
        let takes = self.following.choose(now, first, blocks, &peers);
        if self.taken_from.as_ref() == Some(&takes) {
            return;
        }
        drop(holdings);
        self.taken_from = Some(takes);
        self.let_rest(now);
    }

    /// Lets those sources and peers rest that are not to be used now, and no others.
    fn let_rest(&mut self, now: Instant) {
        for (source, call) in self.calls.iter().enumerate().filter(|(_, call)| call.joined) {
            let rests = rests((source, call.is_peer, call.slow.is_some()), self.taken_from.as_ref());
            self.controller.set_resting(now, TASK, source as u64, rests);
        }
    }

    /// Makes sources rest that send almost nothing, as long as another sends.
    fn rest_slow(&mut self, now: Instant, object: &SharedObject) {
        let sends = |call: &SourceConnection| call.joined && call.ended.is_none() && call.slow.is_none();
        let all: u64 = {
            let object = object.borrow();
            (0..self.calls.len()).map(|source| object.came_from(source)).sum()
        };
        if self.came_last.0 != all {
            self.came_last = (all, now);
        }
        if !self.calls.iter().any(sends) || now.since(self.came_last.1) >= NOTHING_COMES {
            if self.calls.iter().any(|call| call.slow.is_some()) {
                self.calls.iter_mut().for_each(|call| (call.slow, call.slow_told) = (None, false));
                self.let_rest(now);
            }
            return;
        }
        // A peer has what it has, and another is taken from where it gets no further.
        let judged = |call: &SourceConnection| sends(call) && !call.is_peer && self.takes_from_sources();
        let came: Vec<Option<u64>> = {
            let object = object.borrow();
            let came = |(source, call): (usize, &SourceConnection)| judged(call).then(|| object.came_from(source));
            self.calls.iter().enumerate().map(came).collect()
        };
        let slow = self.pace.judge(now, came.into_iter(), all);
        if slow.is_empty() {
            return;
        }
        for SlowSource { source, came, of } in slow {
            self.calls[source].slow = Some(format!(
                "{}: it sends next to nothing, {came} of {of} packets, and holds the others up: it rests while there is another",
                self.calls[source].address
            ));
        }
        self.let_rest(now);
    }

    fn takes_from_sources(&self) -> bool {
        self.taken_from.as_ref().is_none_or(|takes| takes.sources)
    }

    /// Adds sources that have answered.
    fn join(&mut self, now: Instant, object: &SharedObject, driver: &mut FetchDriver) {
        for (source, call) in self.calls.iter_mut().enumerate() {
            if call.joined || call.answer.is_none() || call.ended.is_some() {
                continue;
            }
            let Some(connection) = call.connection else { continue };
            let Some(application) = driver.application(connection) else { continue };
            application.object = Some(object.clone());
            let receiver = object.borrow().receiver.clone();
            let peer = receiver.borrow_mut().add_peer();
            driver.receive_by(connection, PushPort::new(receiver, peer).into());
            self.controller.add_source(now, TASK, Holding { source: source as u64, path: Vec::new() });
            (call.joined, call.absent_since) = (true, None);
            self.taken_from = None;
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
                    if let Some(to) = self.calls[source as usize].connection {
                        driver.notify(to, &PushNotice::ToSource(order).encode());
                    }
                }
            }
        }
        false
    }

    /// Excludes a source because of `why`.
    fn close_one(&mut self, source: usize, why: TransferError, driver: &mut FetchDriver) -> io::Result<()> {
        let call = &mut self.calls[source];
        if let Some(connection) = call.connection {
            call.leave(driver.close(connection, close_code::FAILED, &why.to_string())?);
        }
        call.ended = Some(why);
        Ok(())
    }

    /// Why it cannot continue.
    fn problem(&mut self, now: Instant) -> Option<TransferError> {
        let of_object = match &self.stage {
            Stage::Fetching(object) => object.borrow_mut().problem.take(),
            Stage::Asking | Stage::Checking(_) | Stage::Told(_) => None,
        };
        let problem = self.failed.take().or(of_object);
        // A peer that is not connected may never be, and peers alone may lack the same.
        let hopeless = now.since(self.missing_since.1) >= self.patience;
        let is_there = |call: &SourceConnection| !call.is_peer || call.connection.is_some() && !hopeless;
        let stands = |call: &SourceConnection| call.ended.is_none() && is_there(call);
        if problem.is_some() || self.calls.iter().any(stands) {
            return problem;
        }
        self.deserted = true;
        // A source that was there and is lost says more than one that has nothing, and that more than one that never answered.
        let last = self.calls.iter_mut().filter_map(|call| call.ended.take().or_else(|| call.lost.take()));
        last.max_by_key(|error| (!error.is_absence(), !matches!(error, TransferError::NoAnswer { .. })))
    }

    /// What is left to mirrors, if there is no source and the wanted content is known.
    fn left_to_mirrors(&self) -> Option<LeftToMirrors> {
        let taken = self.taken().filter(|_| self.open.is_none());
        let hash = self.hash.or(taken.as_ref().map(|taken| taken.hash)).filter(|_| self.deserted)?;
        let mirrors = self.mirrors.as_ref()?.begun.outcome();
        let lost = mirrors.into_iter().filter(|mirror| mirror.lost.is_some()).map(|mirror| mirror.name).collect();
        let name = self.sources_name.clone().or(taken.map(|taken| taken.name));
        Some(LeftToMirrors { hash, name, lost })
    }

    fn close(&mut self, driver: &mut FetchDriver, code: u8, reason: &str) -> io::Result<()> {
        for call in self.calls.iter_mut().filter(|call| call.ended.is_none()) {
            if let Some(connection) = call.connection {
                call.leave(driver.close(connection, code, reason)?);
            }
        }
        Ok(())
    }

    /// A source's offer, if it may be fetched.
    fn answered(&mut self, source: usize, answer: &[u8]) -> Result<Offered, TransferError> {
        let address = self.calls[source].address;
        let refuse = |why| TransferError::NotATransfer { address, why };
        // Peers are asked by the hash of what was agreed on.
        let asked_name = self.asked_name.filter(|_| !self.calls[source].is_peer);
        let in_part = Offered::decode_in_part(answer);
        if in_part.is_some() {
            if !self.calls[source].returns {
                return Err(refuse(IN_PART));
            }
            self.calls[source].is_peer = true;
        }
        self.calls[source].in_part = in_part.is_some();
        let offered = in_part.or_else(|| Offered::decode(answer));
        let mut offered = offered.ok_or_else(|| refuse("it does not answer as `pliant offer` does"))?;
        if let Some(asked) = asked_name {
            if !answers_to(&offered.name, asked) {
                return Err(refuse(OTHER_NAME));
            }
            asked.clone_into(&mut offered.name);
        }
        if let Some(wanted) = self.hash.filter(|wanted| *wanted != offered.hash) {
            let (offered, taken) = (offered.hash, wanted);
            return Err(TransferError::OtherContent { address, offered, taken, votes: 0, answers: 0 });
        }
        if offered.bytes > self.max_bytes {
            return Err(TransferError::TooLarge { address, bytes: offered.bytes, most: self.max_bytes });
        }
        if offered.bytes > 0 && self.request.partition(offered.bytes).is_none() {
            return Err(refuse("it has more blocks than can be counted"));
        }
        Ok(offered)
    }

    /// The content being fetched, once known.
    fn taken(&self) -> Option<Offered> {
        match &self.stage {
            Stage::Asking => None,
            Stage::Checking(checking) => Some(checking.offered.clone()),
            Stage::Fetching(object) => Some(object.borrow().offered.clone()),
            Stage::Told(offered) => Some(offered.clone()),
        }
    }
}

impl ConnectionHandler<AnyTransport, FetchApplication> for FetchHandler<'_> {
    fn answer(&mut self, _: Caller<'_>, _: &[u8]) -> Result<Vec<u8>, String> {
        Err("this side fetches".into())
    }

    fn open(&mut self, _: Instant, connection: ConnectionId, event: Event) -> Option<FetchSession> {
        let Event::Connected { answer } = event else { return None };
        if let Some(vote) = &mut self.elsewhere {
            let asked = vote.file.clone();
            if let Some(silent) = vote.silent(connection) {
                let is_it = |offered: &Offered| match &asked {
                    FileSelector::Name(name) => answers_to(&offered.name, name),
                    FileSelector::Hash(hash) => offered.hash == *hash,
                    FileSelector::Only => true,
                };
                silent.answer = Offered::decode(&answer).filter(is_it);
                silent.is_out = silent.answer.is_none();
                return None;
            }
        }
        let source = self.calls.iter().position(|call| call.connection == Some(connection))?;
        self.calls[source].answered = true;
        match self.answered(source, &answer) {
            Ok(offered) => self.calls[source].answer = Some(offered),
            Err(error) => self.calls[source].ended = Some(error),
        }
        // While the vote is open, who offers something else disputes it.
        let disputes = self.open.is_some() && self.elsewhere.is_none() && !self.calls[source].is_peer;
        let taken = self.taken().filter(|_| !disputes);
        let other = taken.and_then(|taken| self.other_content(&self.calls[source], &taken));
        let call = &mut self.calls[source];
        call.ended = call.ended.take().or(other);
        let (source, pages, holdings) = (source as u16, self.pages.clone(), self.holdings.clone());
        call.ended.is_none().then(|| Session::new(FetchApplication { source, object: None, pages, holdings }))
    }

    fn closed(&mut self, connection: ConnectionId, session: Option<FetchSession>, why: Closed) {
        self.over.push((connection, session, why));
    }
}
