//! One file from several sources over loopback: whole, shared among them, and in spite of those that fail or lie.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::common::{Faults, NEVER, Relay, content, encrypted, files, loopbacks, settings, write_file};
use pliant_net::flow::{FlowSettings, SocketTransport};
use pliant_net::transfer::{
    Fetched, FileSelector, Offer, OfferedFiles, Settings, Target, TransferError, WantedFile, ask, fetch,
};
use pliant_proto::congestion::Algorithm;
use pliant_proto::contract::Contract;
use pliant_proto::time::Span;
use pliant_proto::units::Rate;

const MB: usize = 1 << 20;

fn weighted(weight: f64) -> Settings {
    let transport = SocketTransport::Tcp(Algorithm::WeightedFair);
    let contract = Contract { weight, ..Contract::default() };
    // Tests fetch to one place again and again.
    Settings { flow: FlowSettings { transport, contract, ..settings().flow }, overwrite: true, ..settings() }
}

fn capped(settings: &Settings, mbit_per_s: u64) -> Settings {
    let mut settings = settings.clone();
    settings.flow.contract.max_rate = Some(Rate::from_bits_per_sec(mbit_per_s * 1_000_000));
    settings
}

/// A file, several that offer it, and one that fetches.
struct Site {
    directory: tempfile::TempDir,
    path: PathBuf,
}

impl Site {
    fn new(bytes: usize) -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("into")).unwrap();
        let path = write_file(directory.path(), "source", bytes);
        Self { directory, path }
    }

    fn target(&self) -> PathBuf {
        self.directory.path().join("into")
    }

    /// Fetches from sources with these settings each, of whom `way` tells the address. Gives what was told to be lost, too.
    fn fetch(
        &self,
        sources: &[Settings],
        on: SocketAddr,
        settings: &Settings,
        way: impl Fn(usize, SocketAddr) -> SocketAddr,
    ) -> (Result<Fetched, TransferError>, Vec<String>) {
        let stop = AtomicBool::new(false);
        let offers: Vec<Offer> =
            sources.iter().map(|settings| Offer::bind(on, &self.path, settings.clone()).unwrap()).collect();
        let addresses: Vec<SocketAddr> =
            offers.iter().enumerate().map(|(source, offer)| way(source, offer.address())).collect();
        thread::scope(|scope| {
            for offer in offers {
                scope.spawn(|| offer.serve(None, &stop, |_| {}));
            }
            let mut lost = Vec::new();
            let target = Target::Directory(self.target());
            let fetched =
                fetch(&addresses, None, &target, settings, &NEVER, |_| {}, |error| lost.push(error.to_string()));
            stop.store(true, Ordering::Relaxed);
            (fetched, lost)
        })
    }
}

fn intact(into: &Path, bytes: usize) {
    assert!(std::fs::read(into.join("source")).unwrap() == content(bytes));
    assert_eq!(files(into), ["source"]);
}

/// Files of every awkward size come whole from one, two and three sources, plain and encrypted, over IPv4 and IPv6: no
/// byte, one, around a symbol, around a block, several blocks.
#[test]
fn a_file_comes_whole_from_many_sources() {
    for on in loopbacks() {
        for (bytes, sources) in [(0, 2), (1, 3), (1422, 1), (1443, 2), (MB, 3), (6 * MB + 7, 3)] {
            for settings in [weighted(1.0), encrypted(weighted(1.0))] {
                let site = Site::new(bytes);
                // None may bring the large one alone while a busy machine lets the others wait.
                let source = if bytes > 6 * MB { capped(&settings, 100) } else { settings.clone() };
                let (fetched, lost) = site.fetch(&vec![source; sources], on, &settings, |_, address| address);
                let fetched = fetched.unwrap();
                intact(&site.target(), bytes);
                assert_eq!((fetched.bytes, fetched.hash), (bytes as u64, blake3::hash(&content(bytes))));
                assert_eq!((fetched.sources.len(), lost), (sources, Vec::new()));
                if bytes > 6 * MB {
                    assert!(fetched.sources.iter().all(|source| source.symbols > 0), "{fetched:?}");
                }
            }
        }
    }
}

/// Three sources send together; one falls silent in the middle, without a word: the other two bring the rest, the file is
/// whole, and its blocks had to be decoded.
#[test]
fn a_source_that_falls_silent_is_replaced() {
    let bytes = 12 * MB;
    let site = Site::new(bytes);
    let (stop, dead) = (AtomicBool::new(false), std::sync::Mutex::new(None));
    let settings = encrypted(weighted(1.0));
    let patient = Settings { idle_timeout: Span::from_secs(2), ..settings.clone() };
    thread::scope(|scope| {
        let sources = vec![capped(&settings, 200); 3];
        let (fetched, _) = site.fetch(&sources, crate::common::loopback(), &patient, |source, address| {
            if source > 0 {
                return address;
            }
            // Dark for longer than the transfer takes, from the hundredth datagram with data on.
            let blackout = Some(Span::from_secs(600));
            let relay = Relay::new(Faults { blackout, ..Faults::default() }, address);
            let way = relay.address();
            let stop = &stop;
            *dead.lock().unwrap() = Some(way);
            scope.spawn(move || relay.run(stop));
            way
        });
        stop.store(true, Ordering::Relaxed);
        let fetched = fetched.unwrap();
        intact(&site.target(), bytes);
        let symbols = |lost: bool| {
            let of = fetched.sources.iter().filter(|source| (Some(source.address) == *dead.lock().unwrap()) == lost);
            of.map(|source| source.symbols).sum::<u64>()
        };
        assert!(symbols(true) >= 1 && symbols(true) <= 200, "{fetched:?}");
        assert!(symbols(false) * 1442 > bytes as u64 * 9 / 10, "{fetched:?}");
    });
}

/// A source that stops says so; told, counted, and the rest goes on. When the last one is gone the fetch fails and leaves
/// nothing.
#[test]
fn fetches_end_with_their_last_source() {
    let site = Site::new(8 * MB);
    let settings = weighted(1.0);
    let slow = capped(&settings, 50);
    let target = Target::Directory(site.target());
    let offers = [(); 2].map(|()| Offer::bind(crate::common::loopback(), &site.path, slow.clone()).unwrap());
    let addresses = offers.each_ref().map(Offer::address);
    let stops = [AtomicBool::new(false), AtomicBool::new(false)];
    thread::scope(|scope| {
        for (offer, stop) in offers.into_iter().zip(&stops) {
            scope.spawn(|| offer.serve(None, stop, |_| {}));
        }
        let mut lost = Vec::new();
        // Each has sent something when it stops: progress is told only then.
        let progress = |progress: pliant_net::transfer::Progress| {
            stops[0].store(progress.done_bytes > 0, Ordering::Relaxed);
            stops[1].store(progress.done_bytes > MB as u64, Ordering::Relaxed);
        };
        let fetched =
            fetch(&addresses, None, &target, &settings, &NEVER, progress, |error| lost.push(error.to_string()));
        for stop in &stops {
            stop.store(true, Ordering::Relaxed);
        }
        let error = fetched.unwrap_err();
        assert!(matches!(error, TransferError::Ended { .. }), "{error}");
        assert_eq!(lost.len(), 2, "{lost:?}");
        assert!(lost.iter().all(|lost| lost.ends_with("closed by the peer: interrupted")), "{lost:?}");
        assert_eq!(files(&site.target()), Vec::<String>::new());
    });
}

/// Two receivers of one source at once, with weights of 1 and 4: both get the file, and the source's flows had these
/// weights.
#[test]
fn sources_follow_each_receivers_weight() {
    let site = Site::new(2 * MB);
    let offer = Offer::bind(crate::common::loopback(), &site.path, weighted(1.0)).unwrap();
    let address = offer.address();
    let mut weights = Vec::new();
    thread::scope(|scope| {
        for weight in [1.0, 4.0] {
            scope.spawn(move || {
                let fetched = fetch(&[address], None, &Target::Discard, &weighted(weight), &NEVER, |_| {}, |_| {});
                assert_eq!(fetched.unwrap().hash, blake3::hash(&content(2 * MB)));
            });
        }
        offer.serve(Some(2), &NEVER, |served| weights.push(served.unwrap().weight)).unwrap();
    });
    weights.sort_by(f64::total_cmp);
    assert_eq!(weights, [1.0, 4.0]);
}

/// Through a relay that loses, repeats, reorders and corrupts, the file is whole.
#[test]
fn a_file_comes_whole_through_faults() {
    let bytes = 3 * MB;
    let site = Site::new(bytes);
    let stop = AtomicBool::new(false);
    let faults = Faults { mark: 20, loss: 0.05, duplicate: 29, reorder: 13, corrupt: 31, ..Faults::default() };
    let settings = encrypted(weighted(1.0));
    thread::scope(|scope| {
        let (fetched, lost) =
            site.fetch(&vec![settings.clone(); 2], crate::common::loopback(), &settings, |_, address| {
                let relay = Relay::new(faults, address);
                let way = relay.address();
                let stop = &stop;
                scope.spawn(move || relay.run(stop));
                way
            });
        stop.store(true, Ordering::Relaxed);
        let fetched = fetched.unwrap();
        intact(&site.target(), bytes);
        assert_eq!(lost, Vec::<String>::new());
        assert!(fetched.refused.forged > 0, "{fetched:?}");
    });
}

/// The majority decides what is fetched, and who offers something else is left out by name. Two that differ are a tie, which
/// is an error that names both, until a hash decides; a hash that nobody offers is refused by name.
#[test]
fn the_majority_or_a_hash_decides() {
    let (site, other) = (Site::new(MB), Site::new(MB + 1));
    let settings = encrypted(weighted(1.0));
    let offers = [&site, &site, &other]
        .map(|site| Offer::bind(crate::common::loopback(), &site.path, settings.clone()).unwrap());
    let addresses = offers.each_ref().map(Offer::address);
    let (right, wrong) = (blake3::hash(&content(MB)), blake3::hash(&content(MB + 1)));
    let stop = AtomicBool::new(false);
    let target = Target::Directory(site.target());
    let fetch = |addresses: &[SocketAddr], hash| {
        let mut lost = Vec::new();
        let fetched = fetch(addresses, hash, &target, &settings, &NEVER, |_| {}, |error| lost.push(error.to_string()));
        (fetched.map(|fetched| fetched.hash).map_err(|error| error.to_string()), lost)
    };
    thread::scope(|scope| {
        for offer in offers {
            scope.spawn(|| offer.serve(None, &stop, |_| {}));
        }
        let (fetched, lost) = fetch(&addresses, None);
        assert_eq!(fetched, Ok(right));
        let [_, _, last] = addresses;
        let named = format!("{last} offers another content: {wrong}; {right} is fetched, which 2 of 3 sources offer");
        assert_eq!(lost, [named]);
        intact(&site.target(), MB);

        let (tied, _) = fetch(&addresses[1..], None);
        let tied = tied.unwrap_err();
        for (address, hash) in [(addresses[1], right), (last, wrong)] {
            assert!(tied.contains("--hash") && tied.contains(&format!("{address} offers {hash}")), "{tied}");
        }
        for (hash, left_out) in [(wrong, addresses[1]), (right, last)] {
            let (fetched, lost) = fetch(&addresses[1..], Some(hash));
            assert_eq!(fetched, Ok(hash));
            assert_eq!(lost, [format!("{left_out}: it refuses: it offers nothing with the hash {hash}")]);
        }
        let (fetched, lost) = fetch(&addresses, Some(blake3::hash(b"nobody has it")));
        assert!(fetched.unwrap_err().contains("it offers nothing with the hash") && lost.len() == 3, "{lost:?}");
        stop.store(true, Ordering::Relaxed);
    });
}

/// What becomes of a file of so many bytes from three sources, of which each comes through a relay with these faults, and
/// each kept to 100 Mbit/s, so that all take part. Gives the outcome, what is told to be lost, the addresses, and how much
/// each relay has falsified.
fn fetched_through(
    site: &Site,
    faults: &[Faults],
) -> (Result<Fetched, TransferError>, Vec<String>, Vec<SocketAddr>, Vec<u64>) {
    let settings = Settings { idle_timeout: Span::from_secs(2), ..weighted(1.0) };
    let stop = AtomicBool::new(false);
    let ways = std::sync::Mutex::new(Vec::new());
    thread::scope(|scope| {
        let relaying = std::sync::Mutex::new(Vec::new());
        let sources = vec![capped(&settings, 100); faults.len()];
        let (fetched, lost) = site.fetch(&sources, crate::common::loopback(), &settings, |source, address| {
            let relay = Relay::new(faults[source], address);
            let way = relay.address();
            let stop = &stop;
            relaying.lock().unwrap().push(scope.spawn(move || relay.run(stop)));
            ways.lock().unwrap().push(way);
            way
        });
        stop.store(true, Ordering::Relaxed);
        let falsified =
            relaying.into_inner().unwrap().into_iter().map(|relay| relay.join().unwrap().falsified).collect();
        (fetched, lost, std::mem::take(&mut *ways.lock().unwrap()), falsified)
    })
}

/// A source that changes one symbol in a hundred is named and left out. The file arrives whole from the others, and no block
/// that was right is loaded again.
#[test]
fn a_liar_is_named_and_the_file_arrives_whole() {
    let bytes = 12 * MB + 5;
    let site = Site::new(bytes);
    let liar = Faults { falsify: 100, ..Faults::default() };
    let (fetched, lost, ways, falsified) = fetched_through(&site, &[Faults::default(), liar, Faults::default()]);
    let fetched = fetched.unwrap();
    intact(&site.target(), bytes);
    assert_eq!(lost, [format!("{} does not send a file: it sends symbols that are not of the file", ways[1])]);
    assert!(falsified[1] > 0, "{falsified:?}");
    let symbols: u64 = fetched.sources.iter().map(|source| source.symbols).sum();
    // A symbol has about 1440 bytes. Four blocks of 2 MiB are open while one is disputed.
    assert!(symbols * 1440 < (bytes + 10 * 2 * MB) as u64, "{fetched:?}");
}

/// Two liars among four are named, one after the other.
#[test]
fn several_liars_are_named() {
    let bytes = 9 * MB;
    let site = Site::new(bytes);
    let (often, seldom) = (Faults { falsify: 3, ..Faults::default() }, Faults { falsify: 50, ..Faults::default() });
    let (fetched, mut lost, ways, _) = fetched_through(&site, &[often, Faults::default(), seldom, Faults::default()]);
    fetched.unwrap();
    intact(&site.target(), bytes);
    let named = |way| format!("{way} does not send a file: it sends symbols that are not of the file");
    let mut expected = [named(ways[0]), named(ways[2])];
    lost.sort();
    expected.sort();
    assert_eq!(lost, expected);
}

/// A source that lies alone is named by the error. The blocks that were verified before stay for the next fetch, from a source
/// that does not lie.
#[test]
fn the_only_source_is_named_and_what_was_kept_stays() {
    let bytes = 16 * MB;
    let site = Site::new(bytes);
    let seldom = Faults { falsify: 6000, ..Faults::default() };
    let (fetched, lost, ways, _) = fetched_through(&site, &[seldom]);
    let why = format!("{} does not send a file: it sends symbols that are not of the file", ways[0]);
    assert_eq!((fetched.unwrap_err().to_string(), lost), (why.clone(), vec![why]));
    assert_eq!(files(&site.target()).len(), 1, "what was kept");
    let (fetched, ..) = fetched_through(&site, &[Faults::default()]);
    let fetched = fetched.unwrap();
    intact(&site.target(), bytes);
    assert!(fetched.kept >= 2 * MB as u64 && fetched.kept < bytes as u64, "{fetched:?}");
}

/// Sources whose hashes of parts are false, or who do not say them, are named; the others say them.
#[test]
fn hashes_that_are_false_or_missing_name_their_source() {
    let bytes = 24 * MB;
    let site = Site::new(bytes);
    let falsifies = Faults { false_pages: true, ..Faults::default() };
    let (fetched, lost, ways, falsified) = fetched_through(&site, &[Faults::default(), falsifies]);
    fetched.unwrap();
    intact(&site.target(), bytes);
    assert_eq!(lost, [format!("{} does not send a file: it sends hashes that are not of the file", ways[1])]);
    assert!(falsified[1] > 0);
    let says_nothing = Faults { no_pages: true, ..Faults::default() };
    let (fetched, lost, ways, _) = fetched_through(&site, &[says_nothing]);
    let why = format!("{} does not send a file: it does not say the hashes of the file's parts", ways[0]);
    assert_eq!((fetched.unwrap_err().to_string(), lost), (why.clone(), vec![why]));
}

/// A wrong source that answers before the others have begun does not decide what is fetched; it is named.
#[test]
fn the_first_answer_decides_nothing() {
    let (site, other) = (Site::new(MB), Site::new(MB));
    let wrong: Vec<u8> = content(MB).iter().map(|byte| byte ^ 1).collect();
    std::fs::write(&other.path, &wrong).unwrap();
    let settings = weighted(1.0);
    let offer = |site: &Site| Offer::bind(crate::common::loopback(), &site.path, settings.clone()).unwrap();
    let (wrong_offer, right) = (offer(&other), [offer(&site), offer(&site)]);
    let wrong_address = wrong_offer.address();
    let addresses = [right[0].address(), wrong_address, right[1].address()];
    let (stop, answered) = (AtomicBool::new(false), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| wrong_offer.serve(None, &stop, |_| {}));
        // Who fetches from the wrong source alone has its answer, and so has the other receiver.
        scope.spawn(|| {
            fetch(&[wrong_address], None, &Target::Discard, &settings, &NEVER, |_| {}, |_| {}).unwrap();
            answered.store(true, Ordering::Relaxed);
        });
        for offer in right {
            scope.spawn(|| {
                while !answered.load(Ordering::Relaxed) {
                    thread::yield_now();
                }
                offer.serve(None, &stop, |_| {})
            });
        }
        let mut lost = Vec::new();
        let target = Target::Directory(site.target());
        let fetched = fetch(&addresses, None, &target, &settings, &NEVER, |_| {}, |error| lost.push(error.to_string()));
        stop.store(true, Ordering::Relaxed);
        assert_eq!(fetched.unwrap().hash, blake3::hash(&content(MB)));
        assert!(
            lost.len() == 1 && lost[0].starts_with(&format!("{wrong_address} offers another content: ")),
            "{lost:?}"
        );
    });
    intact(&site.target(), MB);
}

/// A source that does not answer does not hold up the beginning of a fetch. But the file gets its place only when that source
/// was given up or has answered: one that disagrees makes a tie, and two that do are the majority.
#[test]
fn who_answers_late_is_heard_before_the_file_has_its_place() {
    let settings = Settings { connect_timeout: Span::from_secs(3), ..encrypted(weighted(1.0)) };
    let changed: Vec<u8> = content(MB).iter().map(|byte| byte ^ 1).collect();
    let (right, wrong) = (blake3::hash(&content(MB)), blake3::hash(&changed));
    let nobody = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    // Who answers late offers the wrong file, or the right one; without any a source is silent.
    for (late, expected) in
        [(&[][..], Ok(right)), (&[false], Ok(right)), (&[true], Err(())), (&[true, true], Ok(wrong))]
    {
        let (site, other) = (Site::new(MB), Site::new(MB));
        std::fs::write(&other.path, &changed).unwrap();
        let offer = |site: &Site| Offer::bind(crate::common::loopback(), &site.path, settings.clone()).unwrap();
        let first = offer(&site);
        let others: Vec<Offer> = late.iter().map(|wrong| offer(if *wrong { &other } else { &site })).collect();
        let silent = late.is_empty().then(|| nobody.local_addr().unwrap());
        let addresses: Vec<SocketAddr> =
            [first.address()].into_iter().chain(others.iter().map(Offer::address)).chain(silent).collect();
        let (stop, begun) = (AtomicBool::new(false), AtomicBool::new(false));
        let mut news = Vec::new();
        let fetched = thread::scope(|scope| {
            scope.spawn(|| first.serve(None, &stop, |_| {}));
            for offer in others {
                scope.spawn(|| {
                    while !begun.load(Ordering::Relaxed) {
                        thread::yield_now();
                    }
                    offer.serve(None, &stop, |_| {})
                });
            }
            let fetched = fetch(
                &addresses,
                None,
                &Target::Directory(site.target()),
                &settings,
                &NEVER,
                |_| {},
                |told| {
                    begun.store(true, Ordering::Relaxed);
                    news.push(told.to_string());
                },
            );
            stop.store(true, Ordering::Relaxed);
            fetched
        });
        assert!(news[0].starts_with(&format!("1 of {} sources have answered", addresses.len())), "{late:?}: {news:?}");
        let disputed = news.iter().any(|told| told.contains("all sources are asked again"));
        assert_eq!(disputed, late.contains(&true), "{late:?}: {news:?}");
        let placed = std::fs::read(site.target().join("source")).ok().map(|content| blake3::hash(&content));
        assert_eq!(placed, expected.ok(), "{late:?}: {news:?}");
        match fetched {
            Ok(fetched) => assert_eq!(Ok(fetched.hash), expected, "{late:?}"),
            Err(error) => assert!(expected.is_err() && error.to_string().contains("do not agree"), "{late:?}: {error}"),
        }
    }
}

/// A receiver that serves what it fetches begins with the sources that answer, too, and offers nothing of it before the vote is
/// over: all of it is here while nobody can have it from here.
#[test]
fn what_is_not_agreed_on_is_fetched_and_not_offered() {
    let settings = Settings { connect_timeout: Span::from_secs(3), ..encrypted(weighted(1.0)) };
    let nobody = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let site = Site::new(3 * MB);
    let offer = Offer::bind(crate::common::loopback(), &site.path, settings.clone()).unwrap();
    let addresses = [offer.address(), nobody.local_addr().unwrap()];
    let (stop, files) = (AtomicBool::new(false), OfferedFiles::new());
    let (mut news, mut offered_when_here) = (Vec::new(), Vec::new());
    let fetched = thread::scope(|scope| {
        scope.spawn(|| offer.serve(None, &stop, |_| {}));
        let wanted = WantedFile { offered_in: Some(files.clone()), ..WantedFile::default() };
        let fetched = fetch(
            &addresses,
            wanted,
            &Target::Directory(site.target()),
            &settings,
            &NEVER,
            |progress| {
                if progress.placing {
                    offered_when_here.push(files.list().len());
                }
            },
            |told| news.push(told.to_string()),
        );
        stop.store(true, Ordering::Relaxed);
        fetched.unwrap()
    });
    assert!(news[0].starts_with("1 of 2 sources have answered"), "{news:?}");
    assert!(news[1].starts_with(&format!("no answer from {}", addresses[1])), "{news:?}");
    assert!(
        !offered_when_here.is_empty() && offered_when_here.iter().all(|files| *files == 0),
        "{offered_when_here:?}"
    );
    let lost: Vec<bool> = fetched.sources.iter().map(|source| source.lost.is_some()).collect();
    assert_eq!(lost.iter().filter(|lost| **lost).count(), 1, "{fetched:?}");
    assert!(files.list()[0].is_whole());
    intact(&site.target(), 3 * MB);
}

/// What sources offer is asked of them without a symbol of it: as they vote, by name, by hash; who has no such thing, or too much,
/// is told as by a fetch.
#[test]
fn sources_that_are_only_asked_send_nothing() {
    let (site, settings) = (Site::new(3 * MB), encrypted(weighted(1.0)));
    let hash = blake3::hash(&content(3 * MB));
    let stop = AtomicBool::new(false);
    let offers: Vec<Offer> =
        (0..3).map(|_| Offer::bind(crate::common::loopback(), &site.path, settings.clone()).unwrap()).collect();
    let addresses: Vec<SocketAddr> = offers.iter().map(Offer::address).collect();
    // Who reads for a symbol finds nothing.
    std::fs::File::options().write(true).open(&site.path).unwrap().set_len(0).unwrap();
    let served = std::sync::Mutex::new(0);
    thread::scope(|scope| {
        let _stops = StopsAtEnd([&stop, &stop]);
        for offer in offers {
            scope.spawn(|| offer.serve(None, &stop, |_| *served.lock().unwrap() += 1));
        }
        let ask = |wanted: WantedFile, settings: &Settings| ask(&addresses, wanted, settings, &NEVER);
        let fetch = || fetch(&addresses, None, &Target::Directory(site.target()), &settings, &NEVER, |_| {}, |_| {});
        let named = |name: &str| WantedFile { name: Some(name.to_owned()), ..WantedFile::default() };
        for wanted in [WantedFile::default(), named("source"), Some(hash).into()] {
            let asked = ask(wanted, &settings).unwrap();
            assert_eq!((asked.bytes, asked.hash, &asked.name[..]), (3 * MB as u64, hash, "source"));
            assert!(asked.path.is_none() && asked.sources.iter().any(|source| source.answered));
        }
        assert!(ask(named("other"), &settings).unwrap_err().to_string().contains("it offers no `other`"));
        let limits = pliant_net::transfer::Limits { max_bytes: MB as u64, ..settings.limits };
        let small = Settings { limits, ..settings.clone() };
        assert_eq!(*served.lock().unwrap(), 0, "no receiver was served, and none was lost");
        assert!(matches!(ask(WantedFile::default(), &small), Err(TransferError::TooLarge { .. })));
        fetch().unwrap_err();
    });
}

/// Addresses that cannot go together, weights below theta's floor and what is no file are refused.
#[test]
fn what_cannot_be_fetched_is_told() {
    let (site, settings) = (Site::new(MB), weighted(1.0));
    let target = Target::Directory(site.target());
    let addresses = [SocketAddr::from(([127, 0, 0, 1], 9))];
    let refused = |addresses: &[SocketAddr], settings: &Settings| {
        fetch(addresses, None, &target, settings, &NEVER, |_| {}, |_| {}).unwrap_err().to_string()
    };
    let six = SocketAddr::from((std::net::Ipv6Addr::LOCALHOST, 1));
    assert_eq!(refused(&[], &settings), "there is no source");
    assert!(refused(&[addresses[0], six], &settings).contains("all IPv6 addresses"));
    assert!(refused(&addresses, &weighted(0.4)).contains("weight must lie in 0.5"));
    let nothing = Offer::bind(crate::common::loopback(), &site.target().join("none"), settings.clone()).err().unwrap();
    assert!(nothing.to_string().ends_with("none: No such file or directory (os error 2)"), "{nothing}");
}

/// Of a folder every file is fetched by its name, by its hash, or alone; what is not there is named.
#[test]
fn one_of_many_files_is_fetched() {
    let (site, settings) = (Site::new(3 * MB), encrypted(weighted(1.0)));
    let shelf = site.directory.path().join("shelf");
    std::fs::create_dir(&shelf).unwrap();
    for (name, bytes) in [("source", 3 * MB), ("other", 5), ("empty", 0)] {
        write_file(&shelf, name, bytes);
    }
    let offer = Offer::bind(crate::common::loopback(), &shelf, settings.clone()).unwrap();
    assert_eq!(
        offer.offered().iter().map(|file| &file.name[..]).collect::<Vec<_>>(),
        ["empty", "other", "source", "shelf/"]
    );
    let (address, stop) = (offer.address(), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| offer.serve(None, &stop, |_| {}));
        let fetch = |hash: Option<&[u8]>, name: Option<&str>| {
            let wanted =
                WantedFile { hash: hash.map(blake3::hash), name: name.map(str::to_owned), ..WantedFile::default() };
            let target = Target::Directory(site.target());
            fetch(&[address], wanted, &target, &settings, &NEVER, |_| {}, |_| {})
        };
        fetch(None, Some("source")).unwrap();
        intact(&site.target(), 3 * MB);
        assert_eq!(fetch(Some(&content(5)), None).unwrap().name, "other");
        assert_eq!(fetch(None, Some("empty")).unwrap().bytes, 0);
        assert_eq!(fetch(None, Some("shelf/empty")).unwrap().name, "shelf/empty");
        for (hash, name, why) in [
            (None, None, "it offers 3 files: say which by name or hash"),
            (None, Some("../source"), "it offers no `../source`"),
            (Some(&b"nobody has it"[..]), None, "it offers nothing with the hash"),
        ] {
            let error = fetch(hash, name).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
        stop.store(true, Ordering::Relaxed);
    });
}

/// Sets these when it goes.
struct StopsAtEnd<'a>([&'a AtomicBool; 2]);

impl Drop for StopsAtEnd<'_> {
    fn drop(&mut self) {
        for stop in self.0 {
            stop.store(true, Ordering::Relaxed);
        }
    }
}

/// Receivers of one slow source serve each other while they fetch: the source sends much less than the file to each, and
/// all have it whole, though one of them leaves in the middle. Who comes later gets it from them alone.
#[test]
fn receivers_serve_each_other() {
    let bytes = 12 * MB;
    let (site, settings) = (Site::new(bytes), encrypted(weighted(1.0)));
    let offer = Offer::bind(crate::common::loopback(), &site.path, capped(&settings, 40)).unwrap();
    let source = offer.address();
    let serve = || {
        let files = OfferedFiles::new();
        (Offer::of(crate::common::loopback(), files.clone(), settings.clone()).unwrap(), files)
    };
    let receivers: Vec<(Offer, OfferedFiles)> = (0..4).map(|_| serve()).collect();
    let addresses: Vec<SocketAddr> = receivers.iter().map(|(offer, _)| offer.address()).collect();
    let (stop, leaves) = (AtomicBool::new(false), AtomicBool::new(false));
    thread::scope(|scope| {
        let settings = &settings;
        let (stop, leaves, site) = (&stop, &leaves, &site);
        // A failed assertion ends the test: nobody waits for those who serve.
        let _stops = StopsAtEnd([stop, leaves]);
        let ended = scope.spawn(|| offer.serve(None, stop, |_| {}));
        let mut fetching = Vec::new();
        for (number, (offer, files)) in receivers.into_iter().enumerate() {
            let last = number == 3;
            scope.spawn(move || offer.serve(None, if last { leaves } else { stop }, |_| {}));
            let peers = addresses.iter().copied().filter(|other| *other != addresses[number]).collect();
            fetching.push(scope.spawn(move || {
                let into = site.directory.path().join(format!("into{number}"));
                std::fs::create_dir(&into).unwrap();
                let wanted = WantedFile { peers, offered_in: Some(files.clone()), ..WantedFile::default() };
                let half = |progress: pliant_net::transfer::Progress| {
                    leaves.fetch_or(last && progress.done_bytes > bytes as u64 / 2, Ordering::Relaxed);
                };
                let target = Target::Directory(into.clone());
                let interrupted = if last { leaves } else { &NEVER };
                let fetched = fetch(&[source], wanted, &target, settings, interrupted, half, |_| {});
                (fetched, into, files)
            }));
        }
        let mut from_source = 0;
        for (number, fetching) in fetching.into_iter().enumerate() {
            let (fetched, into, files) = fetching.join().unwrap();
            if number == 3 {
                assert!(matches!(fetched, Err(TransferError::Interrupted)) && files.list().is_empty());
                continue;
            }
            let fetched = fetched.unwrap();
            intact(&into, bytes);
            assert!(files.find(&FileSelector::Only).unwrap().is_whole());
            let of = |source: &SocketAddr| fetched.sources.iter().find(|from| from.address == *source).unwrap().symbols;
            from_source += of(&source);
        }
        let symbols = bytes as u64 / 1400;
        assert!(from_source < 2 * symbols, "{from_source} of three times {symbols} came from the source");
        let target = Target::Directory(site.target());
        fetch(&addresses[..2], None, &target, settings, &NEVER, |_| {}, |_| {}).unwrap();
        intact(&site.target(), bytes);
        stop.store(true, Ordering::Relaxed);
        assert!(matches!(ended.join().unwrap(), Err(TransferError::Interrupted)));
    });
}

/// A source is called at its next address if it does not answer at the first, and has one vote: not a second one at an address
/// that is another source's. Where it answers at none, all are named.
#[test]
fn a_source_is_called_at_its_next_address() {
    let site = Site::new(MB);
    let silent = [(); 2].map(|()| std::net::UdpSocket::bind("127.0.0.1:0").unwrap());
    let [first, second] = silent.each_ref().map(|socket| socket.local_addr().unwrap());
    let settings = Settings { connect_timeout: Span::from_ms(300), ..weighted(1.0) };
    let offer = Offer::bind(crate::common::loopback(), &site.path, settings.clone()).unwrap();
    let (stop, live) = (AtomicBool::new(false), offer.address());
    let fetch_of = |sources: &[SocketAddr], further: Vec<SocketAddr>| {
        let settings = Settings { further: vec![(first, further)], ..settings.clone() };
        let (target, mut news) = (Target::Directory(site.target()), Vec::new());
        let wanted = WantedFile::default();
        let fetched = fetch(sources, wanted, &target, &settings, &NEVER, |_| {}, |told| news.push(told.to_string()));
        (fetched, news)
    };
    thread::scope(|scope| {
        scope.spawn(|| offer.serve(None, &stop, |_| {}));
        let (fetched, news) = fetch_of(&[first], vec![second, live]);
        assert_eq!(fetched.unwrap().sources.iter().map(|source| source.address).collect::<Vec<_>>(), [live]);
        assert!(news.is_empty(), "{news:?}");
        intact(&site.target(), MB);
        let (fetched, news) = fetch_of(&[first, live], vec![live, second]);
        let lost = fetched.unwrap().sources.into_iter().filter_map(|source| source.lost).collect::<Vec<_>>();
        let told = format!("no answer from {first} and {second} within 300ms each");
        assert!(lost.len() == 1 && lost[0].starts_with(&told), "{lost:?} {news:?}");
        let (fetched, _) = fetch_of(&[first], vec![second]);
        let Err(TransferError::NoAnswer { addresses, .. }) = fetched else { panic!("{fetched:?}") };
        assert_eq!(addresses, [first, second]);
        stop.store(true, Ordering::Relaxed);
    });
}
