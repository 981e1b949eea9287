//! Sources that lie about the file they offer.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::common::{NEVER, content, files, loopback, settings};
use pliant_net::clock::Clock;
use pliant_net::connection::{Caller, Closed, Config, ConnectionId, Endpoint, Event as ConnectionEvent};
use pliant_net::driver::{Application, ConnectionHandler, Driver, PayloadLocation, Session};
use pliant_net::socket::Socket;
use pliant_net::transfer::{FetchCall, Offered, PushNotice, Request, Target, WantedFile, fetch};
use pliant_proto::packet::WireFormat;
use pliant_proto::time::Instant;
use pliant_proto::transport::any::{AnyRequest, AnyTransport};
use pliant_proto::transport::push::{PushConfig, PushSource, ToSource};
use pliant_proto::transport::{Command, Event};

/// Answers every request with the same bytes, and pushes `symbols` for whatever is ordered.
#[derive(Clone)]
struct Liar {
    answer: Vec<u8>,
    bytes: u64,
    symbols: u8,
}

/// The liar's end of a connection.
struct Pushed {
    symbols: u8,
    orders: VecDeque<ToSource>,
}

impl Application for Pushed {
    fn read(&mut self, _: PayloadLocation, payload: &mut [u8]) -> io::Result<()> {
        payload.fill(self.symbols);
        Ok(())
    }

    fn write(&mut self, _: PayloadLocation, _: &[u8]) -> io::Result<()> {
        Ok(())
    }

    fn event(&mut self, _: Event<AnyRequest>) -> io::Result<()> {
        Ok(())
    }

    fn notice(&mut self, notice: &[u8]) {
        if let Some(PushNotice::ToSource(order)) = PushNotice::decode(notice) {
            self.orders.push_back(order);
        }
    }
}

impl ConnectionHandler<AnyTransport, Pushed> for Liar {
    fn answer(&mut self, _: Caller<'_>, _: &[u8]) -> Result<Vec<u8>, String> {
        Ok(self.answer.clone())
    }

    fn open(&mut self, _: Instant, _: ConnectionId, event: ConnectionEvent) -> Option<Session<AnyTransport, Pushed>> {
        let ConnectionEvent::Accepted { opening, .. } = event else { return None };
        let request = FetchCall::decode(&opening).unwrap().request;
        let (partition, block_symbols) = (request.partition(self.bytes.max(1))?, request.block_symbols());
        let Request { symbol, slots, .. } = request;
        let config = PushConfig { block_symbols, slots, claims: true, ..PushConfig::new(symbol, WireFormat::IP) };
        let source = PushSource::new(Arc::new(config), partition);
        let pushed = Pushed { symbols: self.symbols, orders: VecDeque::new() };
        Some(Session::new(pushed).sending(source.into(), None))
    }

    fn closed(&mut self, _: ConnectionId, _: Option<Session<AnyTransport, Pushed>>, _: Closed) {}
}

/// Fetches from this source alone; gives what comes of it and the files that are left.
fn fetched_from(mut liar: Liar, wanted: WantedFile) -> (String, Vec<String>) {
    let directory = tempfile::tempdir().unwrap();
    let endpoint = Endpoint::new(Config::default(), [1; 32]);
    let mut driver = Driver::new(Socket::bind(loopback()).unwrap(), endpoint, Clock::start());
    let address = driver.local_address().unwrap();
    let stop = AtomicBool::new(false);
    let outcome = thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                driver.run_once(&mut liar, Duration::from_millis(1)).unwrap();
                for connection in driver.connections().collect::<Vec<_>>() {
                    while let Some(order) = driver.application(connection).and_then(|end| end.orders.pop_front()) {
                        driver.command(connection, Command::Answer(order.into()));
                    }
                }
            }
        });
        let target = Target::Directory(directory.path().into());
        let outcome = fetch(&[address], wanted, &target, &settings(), &NEVER, |_| {}, |_| {});
        stop.store(true, Ordering::Relaxed);
        outcome
    });
    let said = match outcome {
        Ok(fetched) => format!("{} bytes", fetched.bytes),
        Err(error) => error.to_string(),
    };
    (said, files(directory.path()))
}

/// A source gives a file that is asked for by its name no other one: in a folder whose files may be replaced it would choose
/// which. Who asks by hash may choose the name.
#[test]
fn sources_choose_no_other_name() {
    let zeros = vec![0; 100_000];
    let offered = Offered { bytes: 100_000, hash: blake3::hash(&zeros), name: "zeros".into() };
    let liar = Liar { answer: offered.encode(), bytes: offered.bytes, symbols: 0 };
    let asked = |name: &str| WantedFile { name: Some(name.into()), ..WantedFile::default() };
    assert_eq!(fetched_from(liar.clone(), asked("zeros")), ("100000 bytes".to_owned(), vec!["zeros".to_owned()]));
    // With its folder in front it is the same one.
    assert_eq!(fetched_from(liar.clone(), asked("in/zeros")), ("100000 bytes".to_owned(), vec!["zeros".to_owned()]));
    for other in ["ones", "nozeros", "zeros/ones"] {
        let (said, files) = fetched_from(liar.clone(), asked(other));
        assert!(said.contains("it offers another file than the one that was asked for") && files.is_empty(), "{said}");
    }
    let kept_as = Some("mine".to_owned());
    let by_hash = WantedFile { hash: Some(offered.hash), kept_as, ..WantedFile::default() };
    assert_eq!(fetched_from(liar, by_hash), ("100000 bytes".to_owned(), vec!["mine".to_owned()]));
}

/// Every lie of a source ends in one clear error and leaves nothing behind: noise for an offer, a name that leads out of the
/// directory, more bytes than may be fetched, a hash that is not the content's, of a file with bytes and of one without.
/// The same source without a lie is believed.
#[test]
fn sources_that_lie_leave_nothing() {
    let zeros = vec![0; 100_000];
    let true_offer = Offered { bytes: 100_000, hash: blake3::hash(&zeros), name: "zeros".into() };
    let liar = |offered: Offered, symbols| Liar { answer: offered.encode(), bytes: offered.bytes, symbols };
    let only = WantedFile::default;
    assert_eq!(
        fetched_from(liar(true_offer.clone(), 0), only()),
        ("100000 bytes".to_owned(), vec!["zeros".to_owned()])
    );
    let nothing = blake3::hash(&[]);
    let lies = [
        (Liar { answer: content(60), ..liar(true_offer.clone(), 0) }, "it does not answer as `pliant offer` does"),
        (liar(Offered { name: "../zeros".into(), ..true_offer.clone() }, 0), "is not a plain file name"),
        (liar(Offered { bytes: 1 << 55, ..true_offer.clone() }, 0), "and 1099511627776 may be fetched"),
        (liar(true_offer.clone(), 1), "it sends symbols that are not of the file"),
        (liar(Offered { bytes: 0, ..true_offer.clone() }, 0), "differs from what was sent"),
        (liar(Offered { hash: nothing, ..true_offer }, 0), "it sends symbols that are not of the file"),
    ];
    for (liar, expected) in lies {
        let (said, files) = fetched_from(liar, only());
        assert!(said.contains(expected), "{said}, not {expected}");
        assert!(files.is_empty(), "{said}: {files:?}");
    }
}
