//! The receiver of a file from many sources.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pliant_proto::time::Instant;
use pliant_proto::transport::any::AnyTransport;
use pliant_proto::transport::push::{
    Controller, ControllerConfig, Holding, Outgoing, Partition, PushConfig, PushPort, ReceiverCounts, TaskId, Weighting,
};

use super::message::{Offered, PushNotice, Request};
use super::object::{FetchApplication, Object, SharedObject, open_sink};
use crate::clock::Clock;
use crate::connection::{Closed, ConnectionId, Event, Refused};
use crate::driver::{ConnectionHandler, Driver, Session};
use crate::transfer::close_code;
use crate::transfer::error::TransferError;
use crate::transfer::hash::check_hash;
use crate::transfer::output::Target;
use crate::transfer::progress::{MAX_SLEEP, PROGRESS_INTERVAL, Progress};
use crate::transfer::settings::Settings;

/// About as many bytes has a block: small enough to be decoded in passing, in a few milliseconds.
const BLOCK_BYTES: u32 = 2 << 20;
/// Most sources that send at once; the others wait for one that fails.
const MAX_SLOTS: usize = 32;
/// The one task of this receiver's controller.
const TASK: TaskId = 1;

/// What was fetched.
#[derive(Clone, Debug)]
pub struct Fetched {
    /// The name that the first source gave.
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

/// Fetches the one file that all `sources` offer, with their weight (theta) that of the settings' contract and no more under
/// way than the settings' receive buffer: that, against the rate times the round trip, bounds the rate of long paths, and
/// against blocks of 2 MiB the symbols that are sent in vain where no switch marks. Sources that cannot be reached, are lost
/// or offer another file than the first that answers are told to `lost`; it goes on as long as there is one.
pub fn fetch(
    sources: &[SocketAddr],
    target: &Target,
    settings: &Settings,
    interrupted: &AtomicBool,
    mut progress: impl FnMut(Progress),
    mut lost: impl FnMut(&TransferError),
) -> Result<Fetched, TransferError> {
    let mut distinct = sources.to_vec();
    distinct.sort_unstable();
    distinct.dedup();
    let Some(&first) = distinct.first() else { return Err(TransferError::Sources("there is no source")) };
    if distinct.iter().any(|source| source.is_ipv4() != first.is_ipv4()) {
        return Err(TransferError::Sources("sources must all have IPv4 or all IPv6 addresses"));
    }
    distinct.iter().try_for_each(|source| settings.check(*source))?;
    let symbol = settings.path_to(first).payload(settings.flow.mtu);
    let block_symbols = (BLOCK_BYTES / u32::from(symbol)).max(1);
    let slots = distinct.len().min(MAX_SLOTS) as u8;
    let window = (settings.flow.receive_buffer / u64::from(slots)).min(u32::MAX.into()) as u32;
    let request = Request { symbol, block_symbols, slots, window };
    let config = request.config(&settings.flow, settings.path_to(first)).map_err(TransferError::Flow)?;
    let socket_error = |error| TransferError::Socket { address: first, error };
    let farthest = distinct.iter().find(|source| !source.ip().is_loopback()).unwrap_or(&first);
    let mut driver = settings.driver_to::<FetchApplication>(*farthest)?;
    let request = request.encode();
    let call = |address| {
        let connection = driver.connect(address, &request).map_err(TransferError::Connect)?;
        Ok(SourceConnection { address, connection, ended: None, told: false, left: None })
    };
    let calls = distinct.into_iter().map(call).collect::<Result<Vec<_>, TransferError>>()?;
    let mut handler = FetchHandler {
        target,
        config,
        clock: driver.clock(),
        calls,
        controller: Controller::new(ControllerConfig::default()),
        weighting: Weighting::Fixed(settings.flow.contract.weight),
        object: None,
        empty: None,
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
        handler.count_losses(now, &mut lost);
        if handler.advance(now, &mut driver) {
            break;
        }
        if let Some(error) = handler.problem() {
            handler.close(&mut driver, close_code::FAILED, "it cannot go on").map_err(socket_error)?;
            return Err(error);
        }
        if let Some(object) = handler.object.as_ref().filter(|_| now.since(told_at) >= PROGRESS_INTERVAL) {
            told_at = now;
            let object = object.borrow();
            progress(Progress { done_bytes: object.bytes(), total_bytes: Some(object.offered.bytes), placing: false });
        }
    }
    let elapsed = Duration::from_nanos(driver.clock().now().since(started).as_ps() / 1000);
    let refused = driver.refused();
    handler.close(&mut driver, close_code::DONE, "").map_err(socket_error)?;
    let sources = handler.calls.iter_mut().map(SourceConnection::outcome).collect();
    let (offered, counts, kept, path) = match (handler.object, handler.empty) {
        (Some(object), _) => {
            let object = Rc::into_inner(object).expect("no connection is left").into_inner();
            let (offered, counts, kept) = (object.offered.clone(), object.receiver.borrow().counts(), object.kept);
            (offered, counts, kept, object.commit()?)
        }
        (None, Some(offered)) => {
            check_hash(&offered.name, blake3::hash(&[]), offered.hash)?;
            let path = open_sink(target, &offered)?.commit()?;
            (offered, ReceiverCounts::default(), 0, path)
        }
        (None, None) => unreachable!("it ends with a file or an error"),
    };
    let Offered { bytes, hash, name } = offered;
    Ok(Fetched { name, path, bytes, kept, hash, elapsed, sources, counts, refused })
}

/// A connection to a source.
type FetchSession = Session<AnyTransport, FetchApplication>;

/// One source, called.
struct SourceConnection {
    address: SocketAddr,
    connection: ConnectionId,
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

/// The receiver's side of all connections, and the controller.
struct FetchHandler<'a> {
    target: &'a Target,
    config: std::sync::Arc<PushConfig>,
    clock: Clock,
    /// A source's number is its place here.
    calls: Vec<SourceConnection>,
    controller: Controller,
    weighting: Weighting,
    /// What is fetched, once the first source has told.
    object: Option<SharedObject>,
    /// It has no bytes.
    empty: Option<Offered>,
    over: Vec<(ConnectionId, Option<FetchSession>, Closed)>,
    failed: Option<TransferError>,
}

impl FetchHandler<'_> {
    /// Forgets sources whose connections are over.
    fn count_losses(&mut self, now: Instant, lost: &mut impl FnMut(&TransferError)) {
        for (connection, session, why) in std::mem::take(&mut self.over) {
            let Some(source) = self.calls.iter().position(|call| call.connection == connection) else { continue };
            let call = &mut self.calls[source];
            call.left = session;
            call.ended.get_or_insert(TransferError::ended(call.address, why));
            self.controller.remove_source(now, source as u64);
        }
        for call in self.calls.iter_mut().filter(|call| !call.told) {
            if let Some(error) = &call.ended {
                lost(error);
                call.told = true;
            }
        }
    }

    /// Lets the controller act; true once everything is here.
    fn advance(&mut self, now: Instant, driver: &mut Driver<AnyTransport, FetchApplication>) -> bool {
        let Some(object) = &self.object else { return self.empty.is_some() };
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

    /// Why it cannot go on.
    fn problem(&mut self) -> Option<TransferError> {
        let of_object = self.object.as_ref().and_then(|object| object.borrow_mut().problem.take());
        let problem = self.failed.take().or(of_object);
        if problem.is_some() || self.calls.iter().any(|call| call.ended.is_none()) {
            return problem;
        }
        // A source that was there and is lost says more than one that never answered.
        let last = self.calls.iter_mut().filter_map(|call| call.ended.take());
        last.max_by_key(|error| !matches!(error, TransferError::NoAnswer { .. }))
    }

    fn close(
        &mut self,
        driver: &mut Driver<AnyTransport, FetchApplication>,
        code: u8,
        reason: &str,
    ) -> std::io::Result<()> {
        for call in self.calls.iter_mut().filter(|call| call.ended.is_none()) {
            call.left = driver.close(call.connection, code, reason)?;
        }
        Ok(())
    }

    /// What a source answers is the file, or ends its part in it.
    fn answered(&mut self, source: usize, answer: &[u8]) -> Option<SharedObject> {
        let address = self.calls[source].address;
        let refuse = |why| Some(TransferError::NotATransfer { address, why });
        let Some(offered) = Offered::decode(answer) else {
            self.calls[source].ended = refuse("it does not answer as `pliant offer` does");
            return None;
        };
        let known = self.object.as_ref().map(|object| object.borrow().offered.clone()).or(self.empty.clone());
        if known.is_some_and(|known| !known.is_same(&offered)) {
            self.calls[source].ended = refuse("its file differs from that of the first source that answered");
            return None;
        }
        if self.object.is_some() {
            return self.object.clone();
        }
        if offered.bytes == 0 {
            self.empty = Some(offered);
            return None;
        }
        let Some(partition) = Partition::new(offered.bytes, self.config.symbol, self.config.block_symbols) else {
            self.calls[source].ended = refuse("it has more blocks than can be counted");
            return None;
        };
        let begun = open_sink(self.target, &offered)
            .and_then(|sink| Object::begin(offered, self.config.clone(), partition, sink, self.clock));
        let object = begun.map_err(|error| self.failed = Some(error)).ok()?;
        self.controller.add_task(TASK, 0, partition.symbols(), self.config.slots, self.weighting);
        self.object = Some(Rc::new(RefCell::new(object)));
        self.object.clone()
    }
}

impl ConnectionHandler<AnyTransport, FetchApplication> for FetchHandler<'_> {
    fn answer(&mut self, _: SocketAddr, _: &[u8]) -> Result<Vec<u8>, String> {
        Err("this side fetches".into())
    }

    fn open(&mut self, now: Instant, connection: ConnectionId, event: Event) -> Option<FetchSession> {
        let Event::Connected { answer } = event else { return None };
        let source = self.calls.iter().position(|call| call.connection == connection)?;
        let object = self.answered(source, &answer)?;
        let receiver = object.borrow().receiver.clone();
        let peer = receiver.borrow_mut().add_peer();
        self.controller.add_source(now, TASK, Holding { source: source as u64, path: Vec::new() });
        Some(Session::new(FetchApplication { object }).receiving(PushPort::new(receiver, peer).into()))
    }

    fn closed(&mut self, connection: ConnectionId, session: Option<FetchSession>, why: Closed) {
        self.over.push((connection, session, why));
    }
}
