//! Worlds by their seeds.
//!
//! Without a variable a run has a fixed number of seeds. `PLIANT_WORLD_SEED=7` runs one; `PLIANT_WORLD_SECONDS=3600` goes on
//! with ever new ones for that time, from `PLIANT_WORLD_FIRST` on, by which a long run goes on where another ended.

use std::fmt::Debug;

use pliant_proto::congestion::Algorithm;
use pliant_proto::time::Span;

use super::fetching::{FetchReport, Fetching, Role};
use super::network::Link;
use super::scenario::{Lies, Report, Scenario, Sending, send_in_vain, send_to_a_liar};
use super::schedule::HostConfig;
use crate::clock::SharedClock;
use crate::flow::SocketTransport;
use crate::seam::Mutant;

/// Seeds of a run that is told nothing.
const SEEDS: u64 = 20;
/// Seeds within which a mistake is found.
const SEEDS_OF_MUTANTS: u64 = 60;

const MUTANTS: [Mutant; 10] = [
    Mutant::DestinationErrorsAreFatal,
    Mutant::HellosAreUnbound,
    Mutant::EverythingIsPlaced,
    Mutant::ContentIsNotSynced,
    Mutant::NamesAreNotSynced,
    Mutant::HashNeedNotArrive,
    Mutant::PlacedInTheLoop,
    Mutant::ResetsAreShared,
    Mutant::FilesAreReplaced,
    Mutant::AddressesAreFixed,
];

const MUTANTS_OF_FETCHES: [Mutant; 3] =
    [Mutant::LastBlockIsWritten, Mutant::BlocksAreBelieved, Mutant::FirstSourceIsBelieved];

fn number(variable: &str) -> Option<u64> {
    let value = std::env::var(variable).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{variable}={value}: not a number")))
}

/// `scenario`, printed where one seed is run.
fn shown<S: Debug>(scenario: S) -> S {
    if number("PLIANT_WORLD_SEED").is_some() {
        eprintln!("{scenario:#?}");
    }
    scenario
}

/// Lets `run` run the seeds that the user wants, and tells `each` what came of it.
fn run_all<R: Debug>(test: &str, run: impl Fn(u64) -> Result<R, String>, mut each: impl FnMut(R)) {
    let run = |seed: u64| {
        run(seed).unwrap_or_else(|why| {
            let again = format!("PLIANT_WORLD_SEED={seed} cargo test -p pliant-net --lib world::tests::{test}");
            panic!("seed {seed}: {why}\nAgain: {again}")
        })
    };
    if let Some(seed) = number("PLIANT_WORLD_SEED") {
        let report = run(seed);
        eprintln!("seed {seed}: {report:?}");
        return each(report);
    }
    let clock = SharedClock::start();
    let until = number("PLIANT_WORLD_SECONDS").map(|seconds| clock.now().after(Span::from_secs(seconds)));
    let first = if until.is_some() { number("PLIANT_WORLD_FIRST").unwrap_or(SEEDS) } else { 0 };
    for seed in first.. {
        let over = until.map_or(seed == SEEDS, |until| clock.now() >= until);
        if over {
            return eprintln!("{test}: {} seeds", seed - first);
        }
        each(run(seed));
    }
}

/// Whatever links, clocks, addresses and disks do: who says that a file is in its place is right, and where nothing keeps
/// transfers from success they succeed.
#[test]
fn success_means_success() {
    let (mut succeeded, mut disk_failures) = (0, 0);
    run_all(
        "success_means_success",
        |seed| shown(Scenario::of_seed(seed)).run(),
        |report: Report| {
            succeeded += report.succeeded;
            disk_failures += report.disk_failures;
        },
    );
    if number("PLIANT_WORLD_SEED").is_none() {
        assert!(succeeded > 0 && disk_failures > 0, "{succeeded} transfers, {disk_failures} failures of disks");
    }
}

/// Whatever links, addresses, disks and some of the sources do: who fetches gets the file that was asked for, or the one that
/// most sources offer, and nothing else; and gets it where one source has it and nothing keeps it from success.
#[test]
fn a_fetch_brings_the_right_file() {
    let (mut succeeded, mut liars) = (0, 0);
    run_all(
        "a_fetch_brings_the_right_file",
        |seed| shown(Fetching::of_seed(seed)).run(),
        |report: FetchReport| {
            succeeded += u32::from(report.succeeded);
            liars += report.liars;
        },
    );
    if number("PLIANT_WORLD_SEED").is_none() {
        assert!(succeeded > 0 && liars > 0, "{succeeded} fetches, {liars} sources that lie");
    }
}

/// A sender that gets a new address while its file is put into its place still hears that it is.
#[test]
fn a_verdict_finds_a_sender_who_has_moved() {
    for rebinds_ms in (50..2000).step_by(150) {
        let mut scenario = quiet(20_000);
        scenario.receiver.disk.delay_ns = 100_000_000;
        scenario.senders[0].host.rebinds = vec![rebinds_ms * 1_000_000];
        // What the receiver says on the way is lost, too.
        scenario.senders[0].host.link.down = vec![(rebinds_ms * 1_000_000, (rebinds_ms + 900) * 1_000_000)];
        let report = scenario.run().unwrap_or_else(|why| panic!("moved after {rebinds_ms} ms: {why}"));
        assert_eq!(report.succeeded, 1, "moved after {rebinds_ms} ms");
    }
}

/// A receiver that gets a new address, while a file comes in or while it is put into its place, is followed by its sender.
#[test]
fn a_receiver_that_moves_is_followed() {
    for rebinds_ms in (100..2000).step_by(300) {
        let mut scenario = quiet(1_000_000);
        scenario.receiver.disk.delay_ns = 100_000_000;
        scenario.receiver.rebinds = vec![rebinds_ms * 1_000_000];
        let report = scenario.clone().run().unwrap_or_else(|why| panic!("moved after {rebinds_ms} ms: {why}"));
        assert_eq!(report.succeeded, 1, "moved after {rebinds_ms} ms");
    }
}

/// A fast source does not send on what waits for its hashes: the acknowledgements would fill the receiver's slow line, and the
/// requests for the hashes would be lost in its queue. The two that are asked first are gone by then.
#[test]
fn what_waits_for_its_hashes_is_not_sent_for_ever() {
    let source = |delay_ms: u64, link: Link| {
        let link = Link { delay_ns: delay_ms * 1_000_000, rate: 160_000_000, ..link };
        (Role::Honest, HostConfig { link, ..HostConfig::default() })
    };
    let gone = Link { down: vec![(100_000_000, u64::MAX)], ..Link::default() };
    let line = Link { delay_ns: 24_000_000, rate: 5_000_000, queue_ns: 12_000_000, ..Link::default() };
    let fetching = Fetching {
        bytes: 5_000_000,
        sources: vec![source(1, gone.clone()), source(1, gone), source(29, Link::default())],
        receiver: HostConfig { link: line, ..HostConfig::default() },
        by_hash: true,
        faulty: false,
        ..Fetching::of_seed(0)
    };
    let report = fetching.run().unwrap();
    let (came, bytes) = (report.came_bytes, fetching.bytes as u64);
    assert!(report.succeeded && came < 2 * bytes, "{came} bytes came of {bytes}");
}

/// A receiver that has every message, and is cut off before it hears that there are no more, hears it after an outage that is
/// longer than eight tries to say so: the file gets its place, and both sides know, whenever the outage begins.
#[test]
fn the_end_of_messages_outlasts_an_outage() {
    for begins_us in (40_000..56_000).step_by(500) {
        let mut scenario = quiet(1000);
        scenario.senders[0].settings.flow.transport = SocketTransport::Atp;
        scenario.receiver.link.down = vec![(begins_us * 1000, 6_000_000_000)];
        let report = scenario.run().unwrap_or_else(|why| panic!("down from {begins_us} us: {why}"));
        assert_eq!(report.succeeded, 1, "down from {begins_us} us");
    }
}

/// A receiver that gets a new address when it has given its sender up, who heard nothing of it for so long, still tells it that
/// the file is in its place: the sender would call the old address until it gives up as well.
#[test]
fn a_receiver_that_has_closed_and_moves_is_heard() {
    for down_ms in [4000, 6000] {
        let mut scenario = quiet(1000);
        scenario.receiver.disk.delay_ns = 20_000_000;
        // From when all of it has arrived.
        scenario.senders[0].host.link.down = vec![(30_000_000, down_ms * 1_000_000)];
        scenario.receiver.rebinds = vec![3_800_000_000];
        let report = scenario.run().unwrap_or_else(|why| panic!("down until {down_ms} ms: {why}"));
        assert_eq!(report.succeeded, 1, "down until {down_ms} ms");
    }
}

/// The same seed gives the same run, event by event.
#[test]
fn a_seed_gives_the_same_run() {
    for seed in 0..5 {
        let digest = || Scenario::of_seed(seed).run().unwrap().ending;
        assert_eq!(digest(), digest(), "seed {seed}");
        let digest = || Fetching::of_seed(seed).run().unwrap().ending;
        assert_eq!(digest(), digest(), "fetch of seed {seed}");
    }
}

/// One transfer, with which nothing is wrong, over a link of 8 Mbit/s.
fn quiet(bytes: usize) -> Scenario {
    let mut scenario = Scenario::of_seed(0);
    let settings = scenario.senders[0].settings.clone();
    let host = HostConfig { link: Link { rate: 8_000_000, ..Link::default() }, ..HostConfig::default() };
    scenario.receiver = HostConfig::default();
    scenario.senders =
        vec![Sending { name: "a".into(), bytes, files: 0, begins_ns: 0, host, settings, occupied: false }];
    scenario.must_succeed = true;
    (scenario.observed, scenario.idle_connections) = (false, 0);
    scenario
}

/// A link of 8 Mbit/s takes a second for a megabyte, and its headers and slow start a little longer.
#[test]
fn a_link_has_its_rate() {
    let scenario = quiet(1_000_000);
    let report = scenario.run().unwrap();
    let ms = report.ending.now_ns / 1_000_000;
    assert!((1000..1500).contains(&ms), "{ms} ms");
}

/// The unpacking of a directory of many files takes the disk minutes, and holds up nobody: what is sent meanwhile is in its
/// place long before. If the event loop unpacked, it would not be.
#[test]
fn unpacking_holds_up_nobody() {
    let mut scenario = quiet(10);
    scenario.senders[0].settings.flow.transport = SocketTransport::Tcp(Algorithm::Cubic);
    scenario.senders[0].files = 1500;
    let mut file =
        Sending { name: "b".into(), bytes: 20_000, files: 0, begins_ns: 20_000_000_000, ..scenario.senders[0].clone() };
    file.host = HostConfig { link: Link { rate: 8_000_000, ..Link::default() }, ..HostConfig::default() };
    scenario.senders.push(file);
    // For each file, one after the other.
    scenario.receiver.disk.delay_ns = 100_000_000;
    let report = scenario.run().unwrap();
    let [directory, file] = [0, 1].map(|number| report.done_ns[&number] / 1_000_000_000);
    assert!(directory > 150 && file < 25, "{directory} s, {file} s");
    let stuck = Scenario { mutant: Some(Mutant::PlacedInTheLoop), ..scenario }.run();
    let is_late = |report: &Report| report.done_ns.get(&1).is_none_or(|at| *at > 150_000_000_000);
    assert!(stuck.as_ref().map_or(true, is_late), "{stuck:?}");
}

/// A disk that takes the archive of a directory and fills while that is unpacked: nothing is in its place, and both sides
/// know it.
#[test]
fn a_disk_that_fills_while_unpacking_is_no_success() {
    let mut scenario = quiet(10_000);
    scenario.senders[0].settings.flow.transport = SocketTransport::Tcp(Algorithm::Cubic);
    (scenario.senders[0].files, scenario.must_succeed) = (10, false);
    // The archive has 10,000 bytes and a header of each.
    for (free_bytes, succeeded) in [(110_000, 0), (150_000, 0), (205_000, 0), (215_000, 1)] {
        scenario.receiver.disk.free_bytes = free_bytes;
        let report = scenario.run().unwrap_or_else(|why| panic!("{free_bytes} bytes free: {why}"));
        assert_eq!(report.succeeded, succeeded, "{free_bytes} bytes free");
        assert_eq!(report.disk_failures > 0, succeeded == 0, "{free_bytes} bytes free");
    }
}

/// A receiver that acknowledges what it has not got is noticed over any link, and was believed before.
#[test]
fn who_acknowledges_ahead_is_noticed() {
    for seed in 0..SEEDS {
        send_to_a_liar(seed, 200_000, None).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
    }
    let believed = send_to_a_liar(0, 200_000, Some(Mutant::ReceiptsAreBelieved)).unwrap_err();
    // It has given all, and waits for a verdict that does not come.
    assert_eq!(believed, "not done in time: sender");
}

/// What a receiver leaves unsaid: bytes of what is sent to it, of how many files if that is a directory, and what it says that it
/// has already.
const UNSAID: [(usize, usize, u64, &str); 3] = [
    (100_000, 0, 0, "what became of it"),
    (7_000_000, 0, 3, "how much of it is there"),
    (100, 5, 5, "which files of the directory it has"),
];

/// A receiver that is there, but does not say what its sender waits to hear, is left: of a file, of what it says it has kept of
/// it, and of a directory of which it says it has files.
#[test]
fn who_says_nothing_is_left() {
    for (bytes, files, note, what) in UNSAID {
        let (ending, error) = send_in_vain(1, bytes, files, Lies { note, ..Lies::default() }, None)
            .unwrap_or_else(|why| panic!("{what}: {why}"));
        assert!(error.ends_with(&format!("is there, but has not said {what} for 20s")), "{error}");
        let seconds = ending.now_ns / 1_000_000_000;
        assert!((20..40).contains(&seconds), "{what}: {seconds} s");
    }
}

/// Whoever says for ever that it is at work is left as well: ten minutes and a second for each megabyte are enough.
#[test]
fn who_is_at_work_for_ever_is_left() {
    for (bytes, files, note, what) in UNSAID {
        let lies = Lies { note, at_work: true, ..Lies::default() };
        let (ending, error) = send_in_vain(1, bytes, files, lies, None).unwrap_or_else(|why| panic!("{what}: {why}"));
        assert!(error.contains(&format!("is there, but has not said {what} for 60")), "{error}");
        let seconds = ending.now_ns / 1_000_000_000;
        assert!((600..640).contains(&seconds), "{what}: {seconds} s");
    }
}

/// Every mistake that was made once is found, when it is put back, within the seeds of a short run; without it nothing is
/// wrong with that seed.
#[test]
fn mistakes_are_found_again() {
    for mutant in MUTANTS {
        find(mutant, |seed, mutant| Scenario { mutant, ..Scenario::of_seed(seed) }.run().map(drop));
    }
}

/// The same of fetches.
#[test]
fn mistakes_of_fetches_are_found_again() {
    for mutant in MUTANTS_OF_FETCHES {
        find(mutant, |seed, mutant| Fetching { mutant, ..Fetching::of_seed(seed) }.run().map(drop));
    }
}

fn find(mutant: Mutant, run: impl Fn(u64, Option<Mutant>) -> Result<(), String>) {
    let found = (0..SEEDS_OF_MUTANTS).find_map(|seed| Some((seed, run(seed, Some(mutant)).err()?)));
    let (seed, why) = found.unwrap_or_else(|| panic!("{mutant:?} is not found within {SEEDS_OF_MUTANTS} seeds"));
    eprintln!("{mutant:?}: seed {seed}: {why}");
    run(seed, None).unwrap_or_else(|why| panic!("seed {seed} without {mutant:?}: {why}"));
}
