//! One source and receivers that serve each other, each behind a link of the same rate.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use pliant_proto::time::Span;

use super::network::Link;
use super::scenario::{LONGEST, MS, PORT, content};
use super::schedule::{HostConfig, World};
use crate::connection::Keys;
use crate::flow::{FlowSettings, SocketTransport};
use crate::transfer::{Fetched, Offer, OfferedFiles, Settings, Target, WantedFile, fetch};

/// Bytes of a symbol, about.
const SYMBOL: f64 = 8800.0;

/// Receivers of one object.
#[derive(Clone, Debug)]
pub(crate) struct Receivers {
    pub(crate) seed: u64,
    pub(crate) bytes: usize,
    /// Bits per second that each host sends.
    pub(crate) rate: u64,
    /// The rates of receivers that differ, by their number.
    pub(crate) slow: Vec<(usize, u64)>,
    pub(crate) count: usize,
}

/// What came of it: when each had all of it, in nanoseconds, and what came from whom.
pub(crate) struct Served {
    pub(crate) done_ns: Vec<u64>,
    pub(crate) fetched: Vec<Fetched>,
}

impl Receivers {
    pub(crate) fn run(&self) -> Result<Served, String> {
        let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
        let path = directory.path().join("object");
        std::fs::write(&path, content(self.seed, self.bytes)).map_err(|error| error.to_string())?;
        let world = World::new(self.seed, LONGEST, None);
        let link = |rate| Link { rate, ..Link::default() };
        let host = |rate| world.add_host(HostConfig { link: link(rate), ..HostConfig::default() });
        let transport = SocketTransport::Tcp(pliant_proto::congestion::Algorithm::WeightedFair);
        let settings = Settings {
            flow: FlowSettings { transport, mtu: 9000, ..FlowSettings::default() },
            keys: Keys::Preshared([7; 32]),
            idle_timeout: Span::from_secs(20),
            ..Settings::default()
        };
        let source = World::address(host(self.rate), PORT);
        let offering = settings.clone();
        world.spawn(0, "source", 0, false, move |_| {
            let offer = Offer::bind(source, &path, offering).expect("a source listens");
            let _ = offer.serve(None, &AtomicBool::new(false), |_| {});
        });
        let rate_of = |number| self.slow.iter().find(|(slow, _)| *slow == number).map_or(self.rate, |(_, rate)| *rate);
        let hosts: Vec<usize> = (0..self.count).map(|number| host(rate_of(number))).collect();
        let all: Arc<Vec<_>> = Arc::new(hosts.iter().map(|host| World::address(*host, PORT)).collect());
        let mut tasks = Vec::new();
        for (number, host) in hosts.into_iter().enumerate() {
            let into = directory.path().join(number.to_string());
            std::fs::create_dir(&into).map_err(|error| error.to_string())?;
            let files = OfferedFiles::new();
            let (served, offering, address) = (files.clone(), settings.clone(), all[number]);
            world.spawn(host, "serve", MS, false, move |_| {
                let offer = Offer::of(address, served, offering).expect("a receiver listens");
                let _ = offer.serve(None, &AtomicBool::new(false), |_| {});
            });
            let (all, settings) = (all.clone(), settings.clone());
            tasks.push(world.spawn(host, "fetch", 2 * MS, true, move |world| {
                let peers = all.iter().copied().filter(|peer| *peer != address).collect();
                let wanted = WantedFile { peers, offered_in: Some(files), ..WantedFile::default() };
                let target = Target::Directory(into);
                let fetched = fetch(&[source], wanted, &target, &settings, &AtomicBool::new(false), |_| {}, |_| {});
                (fetched, world.now_ns())
            }));
        }
        let ending = world.run();
        if let Some(failure) = ending.failure {
            return Err(failure);
        }
        let mut served = Served { done_ns: Vec::new(), fetched: Vec::new() };
        for task in tasks {
            let (fetched, done_ns) = task.join().ok().flatten().ok_or("a receiver has no result")?;
            served.fetched.push(fetched.map_err(|error| error.to_string())?);
            served.done_ns.push(done_ns);
        }
        Ok(served)
    }
}

/// Seconds until the last of these, but for the slow ones, has all of it, and how often the source sent it.
fn last_of(receivers: &Receivers) -> (f64, f64) {
    let Served { done_ns, fetched } = receivers.run().unwrap_or_else(|why| panic!("{receivers:?}: {why}"));
    let is_slow = |number: &usize| receivers.slow.iter().any(|(slow, _)| slow == number);
    let last = (0..receivers.count).filter(|number| !is_slow(number)).map(|number| done_ns[number]).max();
    let source = World::address(0, PORT);
    let of_source = fetched.iter().flat_map(|fetched| &fetched.sources).filter(|from| from.address == source);
    let symbols: u64 = of_source.map(|from| from.symbols).sum();
    let alone = fetched[0].bytes as f64 / SYMBOL;
    (last.unwrap_or(0) as f64 * 1e-9, symbols as f64 / alone)
}

/// Eight that begin together stand in a row at once, whose last is done about seven blocks after one alone would be: within a
/// fifth of that time, for what is lost until they have found each other.
#[test]
fn eight_take_little_longer_than_one() {
    let one = Receivers { seed: 3, bytes: 16 << 20, rate: 20_000_000, slow: Vec::new(), count: 1 };
    let (alone, _) = last_of(&one);
    let block = f64::from(2u32 << 20) * 8.0 / one.rate as f64;
    let (last, sent) = last_of(&Receivers { count: 8, ..one });
    assert!(last <= 1.2 * (alone + 7.0 * block), "one alone took {alone:.1} s, the last of eight {last:.1} s");
    assert!(sent <= 2.0, "the source sent it {sent:.2} times");
}
