//! Sources that are slow on purpose: they send just often enough to be taken for sources at work.

use std::sync::atomic::AtomicBool;

use pliant_proto::time::Span;

use super::network::Link;
use super::scenario::{LONGEST, MS, PORT, content};
use super::schedule::{HostConfig, World};
use crate::connection::Keys;
use crate::flow::{FlowSettings, SocketTransport};
use crate::transfer::{Fetched, Offer, Settings, Target, fetch};

const BYTES: usize = 48 << 20;
/// Bits per second of each of two honest sources.
const RATE: u64 = 16_000_000;

/// A link that lets something pass for `up_ms` of each `period_ms`, from `from_ms` until `until_ms`.
fn in_bursts(rate: u64, (from_ms, until_ms): (u64, u64), up_ms: u64, period_ms: u64) -> Link {
    let down = |at: u64| ((at + up_ms) * MS, (at + period_ms) * MS);
    let down = (from_ms..until_ms).step_by(period_ms as usize).map(down).collect();
    Link { rate, down, ..Link::default() }
}

/// Seconds of a fetch from sources behind these links, with what came of it and what was told.
fn fetch_from(links: &[Link]) -> (f64, Fetched, Vec<String>) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("object");
    let bytes = content(7, BYTES);
    std::fs::write(&path, &bytes).unwrap();
    let world = World::new(7, LONGEST, None);
    let transport = SocketTransport::Tcp(pliant_proto::congestion::Algorithm::WeightedFair);
    let settings = Settings {
        flow: FlowSettings { transport, ..FlowSettings::default() },
        keys: Keys::Preshared([7; 32]),
        idle_timeout: Span::from_secs(20),
        ..Settings::default()
    };
    let mut sources = Vec::new();
    for link in links {
        let host = world.add_host(HostConfig { link: link.clone(), ..HostConfig::default() });
        let address = World::address(host, PORT);
        sources.push(address);
        let (path, settings) = (path.clone(), settings.clone());
        world.spawn(host, "source", 0, false, move |_| {
            let offer = Offer::bind(address, &path, settings).expect("a source listens");
            let _ = offer.serve(None, &AtomicBool::new(false), |_| {});
        });
    }
    let into = directory.path().join("into");
    std::fs::create_dir(&into).unwrap();
    let receiver =
        world.add_host(HostConfig { link: Link { rate: 1_000_000_000, ..Link::default() }, ..HostConfig::default() });
    let target = Target::Directory(into.clone());
    let task = world.spawn(receiver, "fetch", MS, true, move |world| {
        let mut told = Vec::new();
        let tell = |news: crate::transfer::FetchNews<'_>| told.push(news.to_string());
        let fetched = fetch(&sources, None, &target, &settings, &AtomicBool::new(false), |_| {}, tell);
        (fetched, told, world.now_ns())
    });
    let ending = world.run();
    assert!(ending.failure.is_none(), "{:?}", ending.failure);
    let (fetched, told, done_ns) = task.join().ok().flatten().expect("it has a result");
    assert!(std::fs::read(into.join("object")).unwrap() == bytes);
    (done_ns as f64 * 1e-9, fetched.unwrap(), told)
}

/// Beside two honest sources, one that trickles, one that sends in bursts with long pauses, and one that is fast until it has
/// claimed much and then sends next to nothing cost at most a fifth of the time and a second; nothing is lost. The first is
/// named, and rests; the others bring more than one packet in 200.
#[test]
fn a_source_that_is_slow_on_purpose_costs_little() {
    let honest = Link { rate: RATE, ..Link::default() };
    let (alone, ..) = fetch_from(&[honest.clone(), honest.clone()]);
    let trickle = Link { rate: 100_000, ..Link::default() };
    let pauses = in_bursts(100_000_000, (0, 120_000), 50, 1000);
    let fast_first = in_bursts(20_000_000, (1000, 120_000), 1, 100);
    for (name, link, rests) in
        [("trickle", trickle, true), ("pauses", pauses, false), ("fast first", fast_first, false)]
    {
        let (took, fetched, told) = fetch_from(&[honest.clone(), honest.clone(), link]);
        assert!(took <= 1.2 * alone + 1.0, "{name}: alone they took {alone:.1} s, with it {took:.1} s");
        let named = fetched.sources[2].lost.as_ref().is_some_and(|why| why.contains("it sends next to nothing"));
        assert_eq!(named, rests, "{name}: {fetched:?} {told:?}");
        assert_eq!(told.iter().filter(|news| news.contains("next to nothing")).count(), usize::from(rests), "{told:?}");
        assert!(fetched.sources[..2].iter().all(|source| source.lost.is_none()), "{name}: {fetched:?}");
    }
}

/// Who was left to rest is taken from again a second after nothing comes from the others any more, and brings what is missing.
#[test]
fn a_slow_source_is_taken_from_when_it_is_the_last() {
    let leaves = Link { rate: RATE, down: vec![(12_000 * MS, u64::MAX)], ..Link::default() };
    let slow_at_first = in_bursts(5_000_000, (100, 12_000), 1, 250);
    let (took, fetched, told) = fetch_from(&[leaves.clone(), leaves, slow_at_first]);
    assert!(told.iter().any(|news| news.contains("next to nothing")), "{told:?}");
    assert!(fetched.sources[2].symbols > 1000, "{fetched:?}");
    // What is left takes ten seconds at its rate; the others are given up after twenty.
    assert!(took <= 30.0, "{took:.1} s");
}
