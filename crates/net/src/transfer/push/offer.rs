//! A source of files.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pliant_proto::time::{Instant, Span};
use pliant_proto::transport::any::{AnyRequest, AnyTransport};
use pliant_proto::transport::push::{Partition, PushRequest, PushSource, ToSource};
use pliant_proto::transport::{Command, Event as TransportEvent, Statistics};

use super::hash_tree::{BLOCK_BYTES, PageNumber};
use super::message::{FetchCall, HashNotice, HoldingNotice, Offered, PushNotice, Request};
use super::offered_files::{Encoders, HeldFile, OfferedFiles};
use super::read_ahead::ReadAhead;
use crate::clock::Clock;
use crate::connection::{Caller, Closed, ConnectionId, Event, require_right};
use crate::driver::{Application, ConnectionHandler, Driver, PayloadLocation, Session};
use crate::poll::PollWaker;
use crate::transfer::close_code;
use crate::transfer::error::TransferError;
use crate::transfer::progress::MAX_SLEEP;
use crate::transfer::settings::Settings;

/// Most orders that wait for the next iteration. Lost ones are sent again.
const MAX_ORDERS: usize = 16;
/// Most pages of the hash tree that are answered in one iteration. Lost requests are repeated.
const MAX_ASKED_PAGES: usize = 64;

/// How often a receiver is told how much there is of a file that its source is still fetching.
const TELL_AGAIN: Span = Span::from_ms(500);

/// A receiver that was served.
#[derive(Clone, Debug)]
pub struct Served {
    /// The file.
    pub file: Offered,
    /// The receiver.
    pub to: SocketAddr,
    /// Duration.
    pub elapsed: Duration,
    /// Weight of the flow (theta) in the receiver's last order.
    pub weight: f64,
    /// The transport's counters.
    pub statistics: Statistics,
}

/// A receiver's request.
struct Requested {
    request: Request,
    partition: Partition,
}

/// The application of one connection.
struct OfferApplication {
    to: SocketAddr,
    file: Arc<HeldFile>,
    encoders: Arc<Encoders>,
    ahead: ReadAhead,
    asked: Requested,
    /// Blocks that the transport knows of, and when the receiver was told how many there are, if they are not all.
    known: u32,
    told_at: Option<Instant>,
    orders: VecDeque<ToSource>,
    accepted: VecDeque<PushNotice>,
    /// Requested pages of the hash tree. Each is answered once.
    asked_pages: VecDeque<PageNumber>,
    opened_at: Instant,
}

impl OfferApplication {
    /// How many more blocks are there than the transport knows of, and the notice to the receiver about it. It is sent
    /// at once, and repeated because notices may be lost. For a file that was complete when it was requested there is
    /// none.
    fn follow(&mut self, who: u64, now: Instant) -> (u32, Option<HoldingNotice>) {
        let there = self.file.there();
        let more = there - self.known;
        let first = self.told_at.is_none() && !self.file.is_whole();
        let again = self.told_at.is_some_and(|at| now >= at.after(TELL_AGAIN));
        if more == 0 && !first && !again {
            return (0, None);
        }
        (self.known, self.told_at) = (there, Some(now));
        (more, Some(HoldingNotice { blocks: there, who }))
    }
}

impl Application for OfferApplication {
    fn read(&mut self, location: PayloadLocation, payload: &mut [u8]) -> io::Result<()> {
        let PayloadLocation::Symbol { block, symbol } = location else { unreachable!("a source sends symbols") };
        debug_assert_eq!(payload.len(), usize::from(self.asked.request.symbol), "symbols are of one length");
        let symbols = self.asked.partition.symbols_of(block);
        if symbol >= symbols {
            return self.encoders.write(&self.file, symbols, (block, symbol), payload);
        }
        let (bytes, file) = (payload.len() as u64, &self.file);
        let place = (block, u64::from(symbol) * bytes);
        self.ahead.read(place, u64::from(symbols) * bytes, payload, |offset, into| file.read(block, offset, into))
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

/// Offers files to all receivers that [fetch](super::fetch) them. The shared state of its connections belongs to one
/// driver. The cells are atomic so that it may move to another thread.
pub struct Offer {
    driver: Driver<AnyTransport, OfferApplication>,
    address: SocketAddr,
    files: OfferedFiles,
    settings: Settings,
    who: u64,
}

impl Offer {
    /// Offers the file at `path`, or the files of the folder there, on `address`; port 0 is any free one. Reads each
    /// file once, for its hash.
    pub fn bind(address: SocketAddr, path: &Path, settings: Settings) -> Result<Self, TransferError> {
        settings.check(address)?;
        let files = OfferedFiles::new();
        files.add(path)?;
        Self::of(address, files, settings)
    }

    /// Offers these files, and those added to them later.
    pub fn of(address: SocketAddr, files: OfferedFiles, settings: Settings) -> Result<Self, TransferError> {
        settings.check(address)?;
        let socket_error = |error| TransferError::Socket { address, error };
        let (mut driver, _) = settings.driver(address, true).map_err(socket_error)?;
        let address = driver.local_address().map_err(socket_error)?;
        let waker = PollWaker::new().map_err(socket_error)?;
        driver.set_waker(waker.clone());
        files.add_waker(waker);
        let who = files.who();
        Ok(Self { driver, address, files, settings, who })
    }

    /// The address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its present offer.
    pub fn offered(&self) -> Vec<Offered> {
        self.files.list().iter().map(|file| file.offered().clone()).collect()
    }

    /// Serves until `count` receivers have fetched a file, if given, or until it is interrupted. Reports each result to
    /// `each`. Fails if the socket fails or it is interrupted.
    pub fn serve(
        mut self,
        count: Option<u64>,
        interrupted: &AtomicBool,
        mut each: impl FnMut(Result<Served, TransferError>),
    ) -> Result<(), TransferError> {
        let address = self.address;
        let socket_error = |error| TransferError::Socket { address, error };
        let (settings, clock) = (&self.settings, self.driver.clock());
        let encoders = Arc::new(Encoders::default());
        let mut handler = OfferHandler { settings, files: self.files, encoders, clock, over: Vec::new() };
        let mut done = 0;
        while count.is_none_or(|count| done < count) {
            self.driver.run_once(&mut handler, MAX_SLEEP).map_err(socket_error)?;
            settings.update_keys(&mut self.driver);
            for (session, why) in handler.over.drain(..) {
                let Some(served) = finish(&session, why, self.driver.now()) else { continue };
                done += u64::from(served.is_ok());
                each(served);
            }
            let connections: Vec<ConnectionId> = self.driver.connections().collect();
            let (stop, now) = (interrupted.load(Ordering::Relaxed), self.driver.now());
            for connection in connections {
                if stop {
                    self.driver.close(connection, close_code::INTERRUPTED, "interrupted").map_err(socket_error)?;
                    continue;
                }
                let Some(outgoing) = self.driver.application(connection) else { continue };
                let (orders, accepted) = (std::mem::take(&mut outgoing.orders), std::mem::take(&mut outgoing.accepted));
                let (pages, file) = (std::mem::take(&mut outgoing.asked_pages), outgoing.file.clone());
                let (more, holding) = outgoing.follow(self.who, now);
                for order in orders {
                    self.driver.command(connection, Command::Answer(order.into()));
                }
                for notice in accepted {
                    self.driver.notify(connection, &notice.encode());
                }
                for page in pages {
                    if let Some(values) = file.page(page) {
                        self.driver.notify(connection, &HashNotice::Page(page, values).encode());
                    }
                }
                for _ in 0..more {
                    self.driver.command(connection, Command::SendMessage { bytes: BLOCK_BYTES });
                }
                if let Some(holding) = holding {
                    self.driver.notify(connection, &holding.encode());
                }
            }
            if stop {
                return Err(TransferError::Interrupted);
            }
        }
        Ok(())
    }
}

/// The result for a receiver; none for one that only asked.
fn finish(
    session: &Session<AnyTransport, OfferApplication>,
    why: Closed,
    now: Instant,
) -> Option<Result<Served, TransferError>> {
    let OfferApplication { to, file, opened_at, .. } = &session.application;
    Some(match why {
        Closed::ByPeer { code: close_code::ASKED, .. } => return None,
        Closed::ByPeer { code: close_code::DONE, .. } => {
            let elapsed = Duration::from_nanos(now.since(*opened_at).as_ps() / 1000);
            let weight = match session.sender() {
                Some(AnyTransport::PushSource(source)) => source.weight(),
                _ => unreachable!("a source pushes"),
            };
            Ok(Served {
                file: file.offered().clone(),
                to: *to,
                elapsed,
                weight,
                statistics: session.sender_statistics(),
            })
        }
        Closed::Failed(why) => Err(TransferError::File { path: file.path().to_owned(), error: io::Error::other(why) }),
        why => Err(TransferError::ended(*to, why)),
    })
}

struct OfferHandler<'s> {
    settings: &'s Settings,
    files: OfferedFiles,
    encoders: Arc<Encoders>,
    clock: Clock,
    over: Vec<(Session<AnyTransport, OfferApplication>, Closed)>,
}

impl OfferHandler<'_> {
    /// The request, or why it is refused.
    fn judge(&self, to: SocketAddr, opening: &[u8]) -> Result<(Request, Arc<HeldFile>), String> {
        let FetchCall { request, file } = FetchCall::decode(opening)?;
        let largest = self.settings.path_to(to).payload(u16::MAX);
        if request.symbol > largest {
            return Err("it was asked for symbols that fit no packet".to_owned());
        }
        Ok((request, self.files.find(&file)?))
    }
}

impl ConnectionHandler<AnyTransport, OfferApplication> for OfferHandler<'_> {
    fn answer(&mut self, caller: Caller<'_>, opening: &[u8]) -> Result<Vec<u8>, String> {
        require_right(caller.rights().fetch, "fetch")?;
        let (_, file) = self.judge(caller.from, opening)?;
        let offered = file.offered();
        Ok(if file.is_whole() { offered.encode() } else { offered.encode_in_part() })
    }

    fn open(&mut self, _: Instant, _: ConnectionId, event: Event) -> Option<Session<AnyTransport, OfferApplication>> {
        let Event::Accepted { from, opening, .. } = event else { return None };
        let (request, file) = self.judge(from, &opening).ok()?;
        // Of an empty file nobody orders a symbol. Its receiver waits for other sources' answers, then closes.
        let partition = request.partition(file.offered().bytes.max(1))?;
        let flow = &self.settings.flow;
        let config = request.config(flow, self.settings.path_to(from)).ok()?;
        let known = file.there();
        let outgoing = OfferApplication {
            to: from,
            file,
            encoders: self.encoders.clone(),
            ahead: ReadAhead::default(),
            asked: Requested { request, partition },
            known,
            told_at: None,
            orders: VecDeque::new(),
            accepted: VecDeque::new(),
            asked_pages: VecDeque::new(),
            opened_at: self.clock.now(),
        };
        let source = PushSource::growing(config, partition, known);
        Some(Session::new(outgoing).sending(source.into(), flow.contract.max_rate))
    }

    fn closed(&mut self, _: ConnectionId, session: Option<Session<AnyTransport, OfferApplication>>, why: Closed) {
        self.over.extend(session.map(|session| (session, why)));
    }
}
