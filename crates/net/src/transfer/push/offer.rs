//! A source of one file.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use atomic_refcell::AtomicRefCell;
use pliant_proto::time::Instant;
use pliant_proto::transport::any::{AnyRequest, AnyTransport};
use pliant_proto::transport::push::{Partition, PushRequest, PushSource, ToSource};
use pliant_proto::transport::{Command, Event as TransportEvent, Statistics};

use super::coding::Encoder;
use super::hash_tree::{BLOCK_BYTES, HashTree, PageNumber};
use super::message::{HashNotice, Offered, PushNotice, Request};
use crate::clock::Clock;
use crate::connection::{Caller, Closed, ConnectionId, Event, require_right};
use crate::driver::{Application, ConnectionHandler, Driver, PayloadLocation, Session};
use crate::transfer::close_code;
use crate::transfer::error::TransferError;
use crate::transfer::progress::MAX_SLEEP;
use crate::transfer::settings::Settings;
use crate::transfer::source::{self, Source};

/// Blocks whose intermediate symbols are kept: those that four receivers have open, wherever they are.
const ENCODERS: usize = 16;
/// Orders that wait for the next iteration; what is lost beyond is ordered again.
const MAX_ORDERS: usize = 16;
/// Pages of the hash tree that are answered in one iteration; what is lost beyond is asked for again.
const MAX_ASKED_PAGES: usize = 64;

/// Who fetched what is offered.
#[derive(Clone, Debug)]
pub struct Served {
    /// The receiver.
    pub to: SocketAddr,
    /// For how long.
    pub elapsed: Duration,
    /// Weight of the flow (theta), as the receiver ordered it last.
    pub weight: f64,
    /// The transport's counts.
    pub statistics: Statistics,
}

/// A file, open, its hash tree and its coding.
struct OfferedFile {
    file: File,
    path: PathBuf,
    offered: Offered,
    tree: HashTree,
    /// Of symbols of so many bytes, for these blocks.
    encoders: VecDeque<((u16, u32), Encoder)>,
}

impl OfferedFile {
    fn open(path: &Path) -> Result<Self, TransferError> {
        let source = Source::open(path)?;
        let fail = |error| TransferError::File { path: path.into(), error };
        let source::Content::File { mut file, .. } = source.content else {
            return Err(fail(io::Error::new(io::ErrorKind::InvalidInput, "only a file can be offered: pack it first")));
        };
        let tree = HashTree::read(&mut file).map_err(fail)?;
        let offered = Offered { bytes: tree.bytes(), hash: tree.root(), name: source.name };
        Ok(Self { file, path: path.into(), offered, tree, encoders: VecDeque::with_capacity(ENCODERS) })
    }

    /// Reads a block from its byte `offset` on; what lies beyond its end is zero.
    fn read(&self, block: u32, offset: u64, into: &mut [u8]) -> io::Result<()> {
        let start = u64::from(block) * u64::from(BLOCK_BYTES);
        let (offset, end) = (start + offset, self.offered.bytes.min(start + u64::from(BLOCK_BYTES)));
        let there = end.saturating_sub(offset).min(into.len() as u64) as usize;
        into[there..].fill(0);
        self.file.read_exact_at(&mut into[..there], offset)
    }

    fn read_symbol(&mut self, ask: &Requested, block: u32, symbol: u32, into: &mut [u8]) -> io::Result<()> {
        let bytes = ask.request.symbol;
        let symbols = ask.partition.symbols_of(block);
        if symbol < symbols {
            return self.read(block, u64::from(symbol) * u64::from(bytes), into);
        }
        let key = (bytes, block);
        if let Some(at) = self.encoders.iter().position(|(known, _)| *known == key) {
            self.encoders[at].1.write(symbol, into);
            return Ok(());
        }
        let mut content = vec![0; symbols as usize * usize::from(bytes)];
        self.read(block, 0, &mut content)?;
        let encoder = Encoder::new(bytes, &content);
        encoder.write(symbol, into);
        if self.encoders.len() == ENCODERS {
            self.encoders.pop_front();
        }
        self.encoders.push_back((key, encoder));
        Ok(())
    }
}

/// What a receiver asked for.
struct Requested {
    request: Request,
    partition: Partition,
}

/// What is at the end of one connection.
struct OfferApplication {
    to: SocketAddr,
    held: Arc<AtomicRefCell<OfferedFile>>,
    asked: Requested,
    orders: VecDeque<ToSource>,
    accepted: VecDeque<PushNotice>,
    /// Pages of the hash tree that it was asked for: each is answered once.
    asked_pages: VecDeque<PageNumber>,
    opened_at: Instant,
}

impl Application for OfferApplication {
    fn read(&mut self, location: PayloadLocation, payload: &mut [u8]) -> io::Result<()> {
        let PayloadLocation::Symbol { block, symbol } = location else { unreachable!("a source sends symbols") };
        self.held.borrow_mut().read_symbol(&self.asked, block, symbol, payload)
    }

    fn write(&mut self, _: PayloadLocation, _: &[u8]) -> io::Result<()> {
        Ok(())
    }

    fn event(&mut self, event: TransportEvent<AnyRequest>) -> io::Result<()> {
        if let TransportEvent::Ask(AnyRequest::Push(PushRequest::Controller(message))) = event {
            self.accepted.extend(PushNotice::of(message));
        }
        Ok(())
    }

    fn notice(&mut self, content: &[u8]) {
        if let Some(PushNotice::ToSource(order)) = PushNotice::decode(content)
            && self.orders.len() < MAX_ORDERS
        {
            self.orders.push_back(order);
        }
        if let Some(HashNotice::Ask(page)) = HashNotice::decode(content)
            && self.asked_pages.len() < MAX_ASKED_PAGES
        {
            self.asked_pages.push_back(page);
        }
    }
}

/// Offers a file to all who [fetch](super::fetch) it. What its connections share belongs to one driver; the cell is atomic
/// so that it may move to another thread.
pub struct Offer {
    driver: Driver<AnyTransport, OfferApplication>,
    address: SocketAddr,
    held: Arc<AtomicRefCell<OfferedFile>>,
    settings: Settings,
}

impl Offer {
    /// Offers the file at `path` on `address`, port 0 for any free one. Reads the file once, for its hash.
    pub fn bind(address: SocketAddr, path: &Path, settings: Settings) -> Result<Self, TransferError> {
        settings.check(address)?;
        let held = OfferedFile::open(path)?;
        let socket_error = |error| TransferError::Socket { address, error };
        let (driver, _) = settings.driver(address, true).map_err(socket_error)?;
        let address = driver.local_address().map_err(socket_error)?;
        Ok(Self { driver, address, held: Arc::new(AtomicRefCell::new(held)), settings })
    }

    /// The address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it offers.
    pub fn offered(&self) -> Offered {
        self.held.borrow().offered.clone()
    }

    /// Serves until `count` receivers have fetched the file, if that is said, or until it is interrupted; tells `each`
    /// what came of it. Fails if the socket does or when it is interrupted.
    pub fn serve(
        mut self,
        count: Option<u64>,
        interrupted: &AtomicBool,
        mut each: impl FnMut(Result<Served, TransferError>),
    ) -> Result<(), TransferError> {
        let address = self.address;
        let socket_error = |error| TransferError::Socket { address, error };
        let (settings, clock) = (&self.settings, self.driver.clock());
        let mut handler = OfferHandler { settings, held: self.held, clock, over: Vec::new() };
        let mut done = 0;
        while count.is_none_or(|count| done < count) {
            self.driver.run_once(&mut handler, MAX_SLEEP).map_err(socket_error)?;
            settings.update_keys(&mut self.driver);
            for (session, why) in handler.over.drain(..) {
                let served = finish(&session, why, self.driver.now());
                done += u64::from(served.is_ok());
                each(served);
            }
            let connections: Vec<ConnectionId> = self.driver.connections().collect();
            let stop = interrupted.load(Ordering::Relaxed);
            for connection in connections {
                if stop {
                    self.driver.close(connection, close_code::INTERRUPTED, "interrupted").map_err(socket_error)?;
                    continue;
                }
                let Some(outgoing) = self.driver.application(connection) else { continue };
                let (orders, accepted) = (std::mem::take(&mut outgoing.orders), std::mem::take(&mut outgoing.accepted));
                let (pages, held) = (std::mem::take(&mut outgoing.asked_pages), outgoing.held.clone());
                for order in orders {
                    self.driver.command(connection, Command::Answer(order.into()));
                }
                for notice in accepted {
                    self.driver.notify(connection, &notice.encode());
                }
                for page in pages {
                    if let Some(values) = held.borrow().tree.page(page) {
                        self.driver.notify(connection, &HashNotice::Page(page, values.to_vec()).encode());
                    }
                }
            }
            if stop {
                return Err(TransferError::Interrupted);
            }
        }
        Ok(())
    }
}

/// What became of a receiver.
fn finish(
    session: &Session<AnyTransport, OfferApplication>,
    why: Closed,
    now: Instant,
) -> Result<Served, TransferError> {
    let OfferApplication { to, held, opened_at, .. } = &session.application;
    match why {
        Closed::ByPeer { code: close_code::DONE, .. } => {
            let elapsed = Duration::from_nanos(now.since(*opened_at).as_ps() / 1000);
            let weight = match session.sender() {
                Some(AnyTransport::PushSource(source)) => source.weight(),
                _ => unreachable!("a source pushes"),
            };
            Ok(Served { to: *to, elapsed, weight, statistics: session.sender_statistics() })
        }
        Closed::Failed(why) => {
            Err(TransferError::File { path: held.borrow().path.clone(), error: io::Error::other(why) })
        }
        why => Err(TransferError::ended(*to, why)),
    }
}

struct OfferHandler<'s> {
    settings: &'s Settings,
    held: Arc<AtomicRefCell<OfferedFile>>,
    clock: Clock,
    over: Vec<(Session<AnyTransport, OfferApplication>, Closed)>,
}

impl OfferHandler<'_> {
    /// What is asked for, or why it is refused.
    fn judge(&self, to: SocketAddr, opening: &[u8]) -> Result<Request, &'static str> {
        let request = Request::decode(opening)?;
        let largest = self.settings.path_to(to).payload(u16::MAX);
        if request.symbol > largest { Err("it was asked for symbols that fit no packet") } else { Ok(request) }
    }
}

impl ConnectionHandler<AnyTransport, OfferApplication> for OfferHandler<'_> {
    fn answer(&mut self, caller: Caller<'_>, opening: &[u8]) -> Result<Vec<u8>, String> {
        require_right(caller.rights().fetch, "fetch")?;
        self.judge(caller.from, opening)?;
        Ok(self.held.borrow().offered.encode())
    }

    fn open(&mut self, _: Instant, _: ConnectionId, event: Event) -> Option<Session<AnyTransport, OfferApplication>> {
        let Event::Accepted { from, opening, .. } = event else { return None };
        let request = self.judge(from, &opening).ok()?;
        // Of an empty file nobody orders a symbol. Its receiver waits for other sources' answers, then closes.
        let partition = request.partition(self.held.borrow().offered.bytes.max(1))?;
        let flow = &self.settings.flow;
        let config = request.config(flow, self.settings.path_to(from)).ok()?;
        let outgoing = OfferApplication {
            to: from,
            held: self.held.clone(),
            asked: Requested { request, partition },
            orders: VecDeque::new(),
            accepted: VecDeque::new(),
            asked_pages: VecDeque::new(),
            opened_at: self.clock.now(),
        };
        Some(Session::new(outgoing).sending(PushSource::new(config, partition).into(), flow.contract.max_rate))
    }

    fn closed(&mut self, _: ConnectionId, session: Option<Session<AnyTransport, OfferApplication>>, why: Closed) {
        self.over.extend(session.map(|session| (session, why)));
    }
}
