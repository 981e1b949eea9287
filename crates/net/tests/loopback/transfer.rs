//! Whole transfers over loopback, and through a relay that marks, drops, duplicates and reorders.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::common::{Faults, content, files, settings, transfer, transfer_through, write_file};
use pliant_net::transfer::{Receiver, Settings, Source, Target, TransferError, send};
use pliant_proto::congestion::Algorithm;
use pliant_proto::wire::DATA_HEADER_BYTES;

const MB: usize = 1 << 20;

/// Every controller moves a large file; both sides hash the same bytes, which are those of the file.
#[test]
fn every_controller_moves_a_file_intact() {
    for algorithm in Algorithm::ALL {
        let directory = tempfile::tempdir().unwrap();
        let path = write_file(directory.path(), "source", 8 * MB);
        let copy = directory.path().join("copy");
        let settings = Settings { algorithm, weight: 4.0, ..settings() };
        let (sent, received) = transfer(&path, &Target::File(copy.clone()), &settings, |receiver| receiver);
        let (sent, received) = (sent.unwrap(), received.unwrap());
        assert_eq!(std::fs::read(&copy).unwrap(), content(8 * MB), "{algorithm}");
        assert_eq!((sent.hash, received.hash), (blake3::hash(&content(8 * MB)), sent.hash), "{algorithm}");
        assert_eq!((sent.bytes, received.bytes), (8 * MB as u64, 8 * MB as u64));
        assert_eq!((received.name.as_str(), received.path), ("source", Some(copy)));
    }
}

/// Sizes around everything that is cut into pieces: nothing, one byte, the segment, the hashed piece.
#[test]
fn files_of_awkward_sizes_arrive() {
    let mss = 1500 - 28 - DATA_HEADER_BYTES;
    let around = |edge: usize| [edge - 1, edge, edge + 1];
    // The stream begins with 512 bytes and ends with 32: these sizes end it at a segment's edge.
    let edges = [mss, 2 * mss, 10 * mss - 512, 10 * mss - 544, 64 << 10, 128 << 10].into_iter().flat_map(around);
    for bytes in [0, 1].into_iter().chain(edges) {
        let directory = tempfile::tempdir().unwrap();
        let path = write_file(directory.path(), "source", bytes);
        let into = directory.path().join("into");
        std::fs::create_dir(&into).unwrap();
        let (sent, received) = transfer(&path, &Target::Directory(into.clone()), &settings(), |receiver| receiver);
        assert_eq!(sent.unwrap().hash, received.unwrap().hash);
        assert_eq!(files(&into), ["source"]);
        assert_eq!(std::fs::read(into.join("source")).unwrap(), content(bytes), "{bytes} bytes");
    }
}

/// The largest and the smallest packets, and IPv6.
#[test]
fn other_packet_sizes_and_ipv6_work() {
    for (mtu, address) in
        [(576, [127, 0, 0, 1].into()), (65_535, [127, 0, 0, 1].into()), (9000, std::net::Ipv6Addr::LOCALHOST.into())]
    {
        let directory = tempfile::tempdir().unwrap();
        let path = write_file(directory.path(), "source", MB);
        let settings = Settings { mtu, ..settings() };
        let receiver = Receiver::bind(std::net::SocketAddr::new(address, 0), settings.clone()).unwrap();
        let to = receiver.address();
        thread::scope(|scope| {
            let receiving = scope.spawn(|| receiver.receive(&Target::Discard, &crate::common::NEVER, |_| {}));
            let sent = send(Source::open(&path).unwrap(), to, &settings, &crate::common::NEVER, |_| {}).unwrap();
            let received = receiving.join().unwrap().unwrap();
            assert_eq!((received.hash, received.path), (sent.hash, None), "mtu {mtu}");
        });
    }
}

/// A way that marks, loses, repeats and reorders: the file arrives intact, and the sender noticed each of it.
#[test]
fn a_bad_way_is_survived_and_noticed() {
    let directory = tempfile::tempdir().unwrap();
    let path = write_file(directory.path(), "source", 2 * MB);
    let faults = Faults { mark: 7, drop: 97, duplicate: 31, reorder: 53 };
    let marked = [Algorithm::Dctcp, Algorithm::WeightedFair];
    for algorithm in
        [Algorithm::Cubic, Algorithm::NewReno, Algorithm::TcpLp, Algorithm::Ledbat].into_iter().chain(marked)
    {
        let copy = directory.path().join("copy");
        let settings = Settings { algorithm, ..settings() };
        let (sent, received, done) = transfer_through(faults, &path, &Target::File(copy.clone()), &settings);
        assert_eq!(std::fs::read(&copy).unwrap(), content(2 * MB), "{algorithm}");
        assert_eq!(sent.hash, received.hash);
        assert!(done.dropped > 0 && done.duplicated > 0 && done.reordered > 0, "{algorithm}: {done:?}");
        assert!(sent.statistics.retransmissions >= done.dropped, "{algorithm}: {:?}", sent.statistics);
        assert!(received.statistics.duplicate_bytes > 0, "{algorithm}: {:?}", received.statistics);
        // Only these two send ECN-capable packets, which alone can be marked.
        let marks = marked.contains(&algorithm);
        assert_eq!((done.marked > 0, sent.statistics.marks > 0), (marks, marks), "{algorithm}: {done:?}");
        assert!(received.statistics.marks >= done.marked, "{algorithm}: {:?} {done:?}", received.statistics);
    }
}

/// Marks alone make DCTCP send more carefully: a marked flow never has as much in flight, and nothing is sent again.
#[test]
fn marks_reach_the_controller() {
    let directory = tempfile::tempdir().unwrap();
    let path = write_file(directory.path(), "source", 2 * MB);
    let clean = transfer_through(Faults::default(), &path, &Target::Discard, &settings()).0;
    let marked = transfer_through(Faults { mark: 2, ..Faults::default() }, &path, &Target::Discard, &settings()).0;
    assert_eq!(clean.statistics.marks, 0);
    assert!(marked.statistics.marks > 0);
    assert!(
        marked.window_bytes < clean.window_bytes,
        "window {} with every second packet marked, {} without",
        marked.window_bytes,
        clean.window_bytes
    );
}

/// An existing file is replaced by a whole one; the directory holds nothing else then.
#[test]
fn an_existing_file_is_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let path = write_file(directory.path(), "source", 100_000);
    let copy = write_file(directory.path(), "copy", 10);
    let (sent, received) = transfer(&path, &Target::File(copy.clone()), &settings(), |receiver| receiver);
    assert!(sent.is_ok() && received.is_ok());
    assert_eq!(std::fs::read(copy).unwrap(), content(100_000));
    assert_eq!(files(directory.path()), ["copy", "source"]);
}

/// Stopped in the middle, both sides say so, and neither a part nor a temporary file remains.
#[test]
fn interruption_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = write_file(directory.path(), "source", 32 * MB);
    let into = directory.path().join("into");
    std::fs::create_dir(&into).unwrap();
    let receiver = Receiver::bind(crate::common::loopback(), settings()).unwrap();
    let to = receiver.address();
    let interrupted = Arc::new(AtomicBool::new(false));
    // The relay interrupts both sides from within: after some data has passed, before all has.
    let relay = crate::common::Relay::new(Faults::default(), to);
    let way = relay.address();
    thread::scope(|scope| {
        let relaying = scope.spawn(|| relay.run_until(1000, &interrupted));
        let target = Target::Directory(into.clone());
        let flag = &interrupted;
        let receiving = scope.spawn(move || receiver.receive(&target, flag, |_| {}));
        let sent = send(Source::open(&path).unwrap(), way, &settings(), &interrupted, |_| {});
        assert!(matches!(sent, Err(TransferError::Interrupted)), "{sent:?}");
        let received = receiving.join().unwrap();
        assert!(matches!(received, Err(TransferError::Interrupted)), "{received:?}");
        assert!(relaying.join().unwrap() >= 1000);
    });
    assert!(interrupted.load(Ordering::Relaxed));
    assert_eq!(files(&into), Vec::<String>::new());
}

fn error<T>(result: Result<T, TransferError>) -> String {
    result.err().map_or_else(String::new, |error| error.to_string())
}

/// What cannot work is refused by name before anything is sent.
#[test]
fn mistakes_are_refused_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let path = write_file(directory.path(), "source", 10);
    let far = "192.0.2.1:7410".parse().unwrap();
    let sending = |settings| send(Source::open(&path).unwrap(), far, &settings, &crate::common::NEVER, |_| {});
    assert!(error(sending(settings())).contains("192.0.2.1:7410 is not a loopback address"));
    let near = crate::common::loopback();
    let small = Settings { mtu: 500, ..settings() };
    assert!(
        error(send(Source::open(&path).unwrap(), near, &small, &crate::common::NEVER, |_| {})).contains("mtu of 500")
    );
    assert!(error(Source::open(&directory.path().join("none"))).contains("none: No such file"));
    assert!(error(Source::open(directory.path())).contains("not a regular file"));
    assert!(error(Receiver::bind(far, settings())).contains("is not a loopback address"));
}
