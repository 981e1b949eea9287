//! Whole transfers over loopback, and through a relay that marks, drops, duplicates, reorders and corrupts.

use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::common::{
    Faults, NEVER, by, content, encrypted, files, loopback, loopbacks, settings, transfer, transfer_of,
    transfer_through, write_file,
};
use pliant_net::connection::Keys;
use pliant_net::flow::{FlowSettings, Protocol, SocketTransport};
use pliant_net::transfer::{ContractUpdates, Receiver, Settings, Source, Target, TransferError, send};
use pliant_proto::congestion::Algorithm;
use pliant_proto::contract::Contract;
use pliant_proto::time::Span;
use pliant_proto::units::Rate;

const MB: usize = 1 << 20;

fn tcp(algorithm: Algorithm) -> SocketTransport {
    SocketTransport::Tcp(algorithm)
}

/// `check` of every transport, in a folder of its own: a few at once, as most of their time is spent waiting.
fn of_every_transport(check: impl Fn(SocketTransport, &Path) + Sync) {
    let transports: Vec<_> = SocketTransport::all().collect();
    for some in transports.chunks(4) {
        thread::scope(|scope| {
            for transport in some {
                let check = &check;
                scope.spawn(move || check(*transport, tempfile::tempdir().unwrap().path()));
            }
        });
    }
}

/// Every transport moves a file, plain and encrypted; what arrives is the file, and both sides hash the same bytes.
#[test]
fn every_transport_moves_a_file_intact() {
    of_every_transport(|transport, directory| {
        for (into, settings) in [("plain", by(transport)), ("encrypted", encrypted(by(transport)))] {
            let directory = directory.join(into);
            std::fs::create_dir(&directory).unwrap();
            let path = write_file(&directory, "source", 4 * MB);
            let copy = directory.join("copy");
            let (sent, received) = transfer(&path, &Target::File(copy.clone()), &settings, |receiver| receiver);
            let (sent, received) = (sent.unwrap(), received.unwrap());
            assert_eq!(std::fs::read(&copy).unwrap(), content(4 * MB), "{transport}");
            let hash = Some(blake3::hash(&content(4 * MB)));
            assert_eq!((sent.hash, received.hash), (hash, hash), "{transport}");
            assert_eq!((sent.bytes, received.bytes), (4 * MB as u64, 4 * MB as u64));
            assert_eq!((sent.protocol, received.protocol), (transport.protocol(), transport.protocol()));
            assert_eq!((received.name.as_str(), received.path), ("source", Some(copy)));
            assert_eq!(files(&directory), ["copy", "source"]);
        }
    });
}

/// Sizes around everything that is cut into pieces: nothing, one byte, the segment, the hashed piece.
#[test]
fn files_of_awkward_sizes_arrive() {
    let mss = 1500 - 28 - 30;
    let around = |edge: usize| [edge - 1, edge, edge + 1];
    // The stream ends with 32 bytes: these sizes end it at a segment's edge.
    let edges = [mss, 2 * mss, 10 * mss - 32, 64 << 10, 128 << 10, (128 << 10) - 32].into_iter().flat_map(around);
    for bytes in [0, 1].into_iter().chain(edges) {
        let directory = tempfile::tempdir().unwrap();
        let path = write_file(directory.path(), "source", bytes);
        let into = directory.path().join("into");
        std::fs::create_dir(&into).unwrap();
        for target in ["source", "stream"] {
            let file = || std::fs::File::open(&path).unwrap();
            let source = if target == "source" { Source::open(&path).unwrap() } else { Source::stream(file(), target) };
            let settings = settings();
            let (sent, received) =
                transfer_of(source, &Target::Directory(into.clone()), &settings, &settings, |receiver| receiver);
            assert_eq!(sent.unwrap().hash, received.unwrap().hash);
            assert_eq!(std::fs::read(into.join(target)).unwrap(), content(bytes), "{target} of {bytes} bytes");
        }
        assert_eq!(files(&into), ["source", "stream"]);
    }
}

/// The same by messages: none, one, one that is short, one beyond.
#[test]
fn messages_of_awkward_sizes_arrive() {
    for (bytes, message_bytes) in [(0, 1000), (1, 1000), (999, 1000), (1000, 1000), (1001, 1000), (50_000, 20_000)] {
        let directory = tempfile::tempdir().unwrap();
        let path = write_file(directory.path(), "source", bytes);
        let copy = directory.path().join("copy");
        let settings = by(SocketTransport::Atp);
        let flow = FlowSettings { message_bytes: Some(message_bytes), ..settings.flow };
        let settings = Settings { flow, ..settings };
        let (sent, received) = transfer(&path, &Target::File(copy.clone()), &settings, |receiver| receiver);
        sent.unwrap();
        assert_eq!(received.unwrap().missing, []);
        assert_eq!(std::fs::read(copy).unwrap(), content(bytes), "{bytes} bytes in messages of {message_bytes}");
    }
}

/// The largest and the smallest packets, and IPv6, plain and encrypted.
#[test]
fn other_packet_sizes_and_ipv6_work() {
    for (mtu, address) in loopbacks().into_iter().flat_map(|address| [576, 9000, 65_535].map(|mtu| (mtu, address))) {
        for base in [settings(), encrypted(settings())] {
            let directory = tempfile::tempdir().unwrap();
            let path = write_file(directory.path(), "source", MB);
            let settings = Settings { flow: FlowSettings { mtu, ..base.flow }, ..base };
            let receiver = Receiver::bind(address, settings.clone()).unwrap();
            let to = receiver.address();
            thread::scope(|scope| {
                let receiving = scope.spawn(|| receiver.receive(&Target::Discard, &crate::common::NEVER, |_| {}));
                let sent =
                    send(Source::open(&path).unwrap(), to, &settings, &crate::common::NEVER, |_| {}, |_| {}).unwrap();
                let received = receiving.join().unwrap().unwrap();
                assert_eq!((received.hash, received.path), (sent.hash, None), "mtu {mtu}");
            });
        }
    }
}

/// A way that marks, loses, repeats and reorders: the file arrives intact, and the sender noticed each of it.
#[test]
fn a_bad_way_is_survived_and_noticed() {
    let directory = tempfile::tempdir().unwrap();
    let path = write_file(directory.path(), "source", 2 * MB);
    let faults = Faults { mark: 7, drop: 97, duplicate: 31, reorder: 53, ..Faults::default() };
    let marked = [Algorithm::Dctcp, Algorithm::WeightedFair];
    for algorithm in
        [Algorithm::Cubic, Algorithm::NewReno, Algorithm::TcpLp, Algorithm::Ledbat].into_iter().chain(marked)
    {
        let copy = directory.path().join("copy");
        let settings = by(tcp(algorithm));
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

/// No acknowledgement comes through: the receiver, which has everything and hears nothing more, ends the connection, and
/// the sender takes that for what it is.
#[test]
fn a_receiver_that_is_done_is_believed() {
    let directory = tempfile::tempdir().unwrap();
    for (name, bytes) in [("empty", 0), ("small", 8)] {
        let path = write_file(directory.path(), name, bytes);
        let faults = Faults { mute: true, ..Faults::default() };
        let (sent, received, done) = transfer_through(faults, &path, &Target::Discard, &settings());
        assert_eq!((sent.bytes, sent.hash), (bytes as u64, Some(blake3::hash(&content(bytes)))));
        assert_eq!(received.hash, sent.hash);
        assert!(done.dropped > 0, "{name}: acknowledgements were lost");
    }
}

/// Every transport, encrypted, through random loss of 5 %, repetition, reordering and a blackout of two seconds, while
/// datagrams also arrive with a bit flipped, cut short, and back at their sender: the file is intact, and none of the
/// latter was taken for genuine.
#[test]
fn every_transport_survives_faults() {
    let blackout = Some(Span::from_secs(2));
    let faults = Faults { loss: 0.05, duplicate: 31, reorder: 23, corrupt: 17, blackout, ..Faults::default() };
    of_every_transport(|transport, directory| {
        let path = write_file(directory, "source", MB);
        let copy = directory.join("copy");
        let settings = encrypted(by(transport));
        let (sent, received, done) = transfer_through(faults, &path, &Target::File(copy.clone()), &settings);
        assert_eq!(std::fs::read(&copy).unwrap(), content(MB), "{transport}");
        assert_eq!((received.bytes, &received.missing[..]), (MB as u64, &[][..]), "{transport}");
        let happened = [done.dropped, done.duplicated, done.reordered, done.corrupted, done.blacked_out];
        assert!(happened.iter().all(|count| *count > 0), "{transport}: {done:?}");
        // A flipped bit in the header makes another connection, another kind or another number of it.
        let refused = received.refused;
        let noticed = refused.forged + refused.malformed + refused.stray + refused.replayed;
        assert!(noticed >= done.corrupted && refused.forged > 0, "{transport}: {refused:?}, {done:?}");
        assert!(sent.refused.stray > 0, "{transport}: reflected datagrams are of no connection: {:?}", sent.refused);
    });
}

/// A NAT gives the sender a new port twice on the way: every transport goes on, and the file is intact.
#[test]
fn every_transport_survives_new_addresses() {
    of_every_transport(|transport, directory| {
        let path = write_file(directory, "source", MB);
        let copy = directory.join("copy");
        let faults = Faults { rebind: 300, ..Faults::default() };
        let target = Target::File(copy.clone());
        let (_, _, done) = transfer_through(faults, &path, &target, &encrypted(by(transport)));
        assert_eq!(std::fs::read(&copy).unwrap(), content(MB), "{transport}");
        assert!(done.rebound >= 2, "{transport}: {done:?}");
    });
}

/// Under a contract a tenth may be missing: at most that is, the rest is intact, and what is missing is listed. ATP leaves
/// out messages, REFLEX the end of the stream.
#[test]
fn contracts_are_kept_through_loss() {
    let directory = tempfile::tempdir().unwrap();
    let bytes = 2 * MB;
    let path = write_file(directory.path(), "source", bytes);
    let faults = Faults { loss: 0.05, ..Faults::default() };
    let whole = content(bytes);
    for transport in [SocketTransport::Atp, tcp(Algorithm::WeightedFair), tcp(Algorithm::Dctcp)] {
        let copy = directory.path().join("copy");
        let base = by(transport);
        let contract = Contract {
            min_delivery: 0.9,
            min_share: if transport == SocketTransport::Atp { 1.0 } else { 0.5 },
            ..Contract::default()
        };
        let flow = FlowSettings { contract, ..base.flow };
        let settings = encrypted(Settings { flow, min_delivery: 0.9, ..base });
        let (sent, received, _) = transfer_through(faults, &path, &Target::File(copy.clone()), &settings);
        let missing: u64 = received.missing.iter().map(|range| range.len()).sum();
        assert_eq!((sent.bytes, received.bytes + missing), (bytes as u64, bytes as u64), "{transport}");
        assert!(missing as f64 <= 0.1 * bytes as f64, "{transport}: {missing} bytes are missing");
        let copied = std::fs::read(&copy).unwrap();
        let is_missing = |byte: u64| received.missing.iter().any(|range| (range.start..range.end).contains(&byte));
        let intact = (0..bytes).all(|byte| is_missing(byte as u64) || copied.get(byte) == Some(&whole[byte]));
        assert!(intact, "{transport}");
        let listed = directory.path().join("copy.missing").exists();
        assert_eq!(listed, missing > 0, "{transport}");
        assert_eq!(received.hash, None, "what may arrive in part is not hashed as a whole");
    }
}

/// A receiver decides too: it takes whole files alone unless told otherwise, and a file that is there stays. What may be in
/// part and what nobody keeps is no such file; a whole one that follows takes the list of what was missing with it.
#[test]
fn a_file_in_part_is_taken_if_the_receiver_agrees() {
    let directory = tempfile::tempdir().unwrap();
    let path = write_file(directory.path(), "source", MB);
    let copy = directory.path().join("copy");
    let base = by(tcp(Algorithm::Dctcp));
    let contract = Contract { min_delivery: 0.9, ..Contract::default() };
    let sender = Settings { flow: FlowSettings { contract, ..base.flow.clone() }, ..base.clone() };
    let taken = |target: &Target, sender: &Settings, min_delivery| {
        let receiver = Settings { min_delivery, ..base.clone() };
        transfer_of(Source::open(&path).unwrap(), target, sender, &receiver, |receiver| receiver).0
    };
    std::fs::write(&copy, "whole").unwrap();
    let refused = taken(&Target::File(copy.clone()), &sender, 0.95).unwrap_err().to_string();
    assert!(refused.contains("only 0.9 of it need arrive, and the receiver wants 0.95"), "{refused}");
    assert_eq!(std::fs::read(&copy).unwrap(), b"whole");
    assert!(taken(&Target::Discard, &sender, 1.0).is_ok());
    assert!(taken(&Target::File(copy.clone()), &sender, 0.9).is_ok());
    std::fs::write(directory.path().join("copy.missing"), "# of a transfer that left something out").unwrap();
    assert!(taken(&Target::File(copy.clone()), &base, 1.0).is_ok());
    assert_eq!(files(directory.path()), ["copy", "source"]);
}

/// Credits are used where the receiver has some to give; where not, the sender's window does alone.
#[test]
fn without_credits_a_window_does() {
    let directory = tempfile::tempdir().unwrap();
    let path = write_file(directory.path(), "source", MB);
    for transport in [SocketTransport::ExpressPass, SocketTransport::FlexPass] {
        let with = by(transport);
        let without = Settings { flow: FlowSettings { line_rate: None, ..with.flow.clone() }, ..with.clone() };
        for (receiver, protocol) in [(with.clone(), transport.protocol()), (without, Protocol::Tcp)] {
            let source = Source::open(&path).unwrap();
            let (sent, received) = transfer_of(source, &Target::Discard, &with, &receiver, |receiver| receiver);
            let (sent, received) = (sent.unwrap(), received.unwrap());
            assert_eq!((sent.protocol, sent.hash), (protocol, received.hash));
            assert_eq!(received.statistics.credits_sent > 0, protocol != Protocol::Tcp);
        }
    }
}

/// A peer that does not know two classes receives by one.
#[test]
fn without_two_classes_one_does() {
    let directory = tempfile::tempdir().unwrap();
    let path = write_file(directory.path(), "source", MB);
    let settings = by(SocketTransport::TwoClass);
    for older in [false, true] {
        let protocol = if older { Protocol::Tcp } else { Protocol::TwoClass };
        let (sent, received, _) =
            transfer_through(Faults { older, ..Faults::default() }, &path, &Target::Discard, &settings);
        assert_eq!((sent.protocol, received.protocol), (protocol, protocol));
        assert_eq!(sent.hash, received.hash);
    }
}

/// A sender hears what the receiver's host reports, and sends without it to one that does not.
#[test]
fn hosts_report_to_each_other() {
    let directory = tempfile::tempdir().unwrap();
    let path = write_file(directory.path(), "source", MB);
    let silent = by(SocketTransport::TwoClass);
    let line_rate = Some(Rate::from_bits_per_sec(40_000_000));
    // It takes a fifth of a second.
    let contract = Contract { max_rate: line_rate, ..Contract::default() };
    let flow = FlowSettings { line_rate, host_reports: Some(Span::from_ms(5)), contract, ..silent.flow.clone() };
    let reporting = Settings { flow, ..silent.clone() };
    for (receiver, reports) in [(&silent, false), (&reporting, true)] {
        let source = Source::open(&path).unwrap();
        let (sent, received) = transfer_of(source, &Target::Discard, &reporting, receiver, |address| address);
        let (sent, received) = (sent.unwrap(), received.unwrap());
        assert_eq!((sent.hash, sent.protocol), (received.hash, Protocol::TwoClass));
        assert_eq!(sent.peer_reports, reports);
        assert_eq!((sent.refused.malformed, received.refused.malformed), (0, 0));
    }
}

/// Whichever of two classes carries no data, the other carries the file.
#[test]
fn two_classes_survive_the_loss_of_either() {
    let directory = tempfile::tempdir().unwrap();
    let path = write_file(directory.path(), "source", MB);
    for (class, lost_kind) in [("high", 12), ("low", 13)] {
        let faults = Faults { lost_kind, ..Faults::default() };
        let (sent, received, done) = transfer_through(faults, &path, &Target::Discard, &by(SocketTransport::TwoClass));
        assert_eq!(sent.hash, received.hash, "without the {class} class");
        assert!(done.dropped > 0, "without the {class} class: {done:?}");
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
        "window {:?} with every second packet marked, {:?} without",
        marked.window_bytes,
        clean.window_bytes
    );
}

/// A transfer that takes five minutes at its greatest rate is across at once when it hears of another contract, which says
/// when it must be done, too. What cannot change, or cannot be kept, is refused before it is heard.
#[test]
fn a_contract_changes_under_a_transfer() {
    let mut settings = encrypted(by(tcp(Algorithm::Bounded)));
    let slow = Contract { min_share: 0.0, max_rate: Some(Rate::from_bits_per_sec(100_000)), ..Contract::default() };
    settings.flow.contract = slow;
    let updates = Arc::new(ContractUpdates::new(settings.flow.clone()));
    settings.contract_updates = Some(updates.clone());
    let fast = Contract { max_rate: None, done_by: Some(Span::from_secs(600)), ..slow };
    updates.put(fast).unwrap();
    for (refused, why) in [
        (Contract { min_delivery: 0.5, ..fast }, "does not honour min_delivery"),
        (Contract { min_share: 1.0, ..fast }, "done_by has no effect"),
        (Contract { done_by: Some(Span::ZERO), ..fast }, "done_by has passed"),
    ] {
        let error = updates.put(refused).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
    let source = Source::zeros(4 * MB as u64);
    let (sent, received) = transfer_of(source, &Target::Discard, &settings, &settings, |receiver| receiver);
    let sent = sent.unwrap();
    received.unwrap();
    assert!(sent.done_by.is_some_and(|by| sent.elapsed <= by));
    assert_eq!(sent.statistics.said_late, None);
}

/// A time that has no chance is refused before anybody is called, and so is one for content of unknown size.
#[test]
fn a_time_that_cannot_be_kept_is_refused() {
    let mut settings = encrypted(by(tcp(Algorithm::Bounded)));
    settings.flow.contract = Contract {
        min_share: 0.0,
        max_rate: Some(Rate::from_bits_per_sec(8_000_000)),
        done_by: Some(Span::from_secs(3)),
        ..Contract::default()
    };
    let sent =
        |source| send(source, "127.0.0.1:9".parse().unwrap(), &settings, &AtomicBool::new(false), |_| {}, |_| {});
    let why = sent(Source::zeros(4_000_000)).unwrap_err().to_string();
    assert!(why.contains("done_by cannot be kept: at max_rate the flow takes longer"), "{why}");
    let why = sent(Source::stream(std::io::empty(), "nothing")).unwrap_err().to_string();
    assert!(why.contains("done_by needs a flow of known size"), "{why}");
}

/// A cap on the rate is kept: so many bytes take at least the time that they take at it. (They may take longer.)
#[test]
fn rate_caps_are_kept() {
    let rate = Rate::from_bits_per_sec(40_000_000);
    for transport in [tcp(Algorithm::Cubic), SocketTransport::Atp] {
        let mut settings = encrypted(by(transport));
        settings.flow.contract.max_rate = Some(rate);
        let (sent, received) =
            transfer_of(Source::zeros(MB as u64), &Target::Discard, &settings, &settings, |receiver| receiver);
        sent.unwrap();
        let elapsed = received.unwrap().elapsed;
        // But for the tolerance of a millisecond, and what was sent before the receiver's clock began to count.
        let least = rate.time_for(MB as u64).as_secs_f64() - 0.01;
        assert!(elapsed.as_secs_f64() >= least, "{transport}: {elapsed:?}");
    }
}

/// Static keys: each side knows the other's public half. A third pair, or the called side's own, gets no connection.
#[test]
fn static_keys_let_only_known_peers_in() {
    let pair = |seed: u8| {
        let file = Keys::new_static([seed; 32]);
        let key = |word: &str| {
            let line = file.lines().find(|line| line.starts_with(word)).unwrap();
            line.split_whitespace().nth(1).unwrap().to_owned()
        };
        (key("private"), key("public"))
    };
    let (here, there, third) = (pair(1), pair(2), pair(3));
    let keys = |private: &str, peer: &str| Keys::parse(&format!("private {private}\npeer {peer}"), "k").unwrap();
    let with = |keys| Settings { keys, connect_timeout: Span::from_secs(1), ..settings() };
    let receiver = with(keys(&there.0, &here.1));
    let bytes = MB as u64;
    let sending = |keys| transfer_of(Source::zeros(bytes), &Target::Discard, &with(keys), &receiver, |to| to);
    let (sent, received) = sending(keys(&here.0, &there.1));
    assert_eq!((sent.unwrap().bytes, received.unwrap().bytes), (bytes, bytes));
    for wrong in [keys(&third.0, &there.1), keys(&here.0, &third.1), Keys::Preshared([1; 32])] {
        let (sent, received) = sending(wrong);
        assert!(matches!(sent, Err(TransferError::Ended { .. })), "{sent:?}");
        assert!(matches!(received, Err(TransferError::Interrupted)), "{received:?}");
    }
}

/// A directory arrives with everything in it, under its name; one that is there is not touched.
#[test]
fn directories_arrive_whole() {
    let directory = tempfile::tempdir().unwrap();
    let tree = directory.path().join("tree");
    std::fs::create_dir_all(tree.join("a/b")).unwrap();
    std::fs::create_dir(tree.join("empty")).unwrap();
    write_file(&tree, "top", 100_000);
    write_file(&tree.join("a/b"), "deep", 3);
    std::os::unix::fs::symlink("top", tree.join("link")).unwrap();
    let into = directory.path().join("into");
    std::fs::create_dir(&into).unwrap();
    let target = Target::Directory(into.clone());
    let (sent, received) = transfer(&tree, &target, &encrypted(settings()), |receiver| receiver);
    assert_eq!(sent.unwrap().hash, received.unwrap().hash);
    let there = into.join("tree");
    assert_eq!((files(&into), files(&there)), (vec!["tree".into()], files(&tree)));
    assert_eq!(std::fs::read(there.join("top")).unwrap(), content(100_000));
    assert_eq!(std::fs::read(there.join("a/b/deep")).unwrap(), content(3));
    assert_eq!(std::fs::read_link(there.join("link")).unwrap(), std::path::Path::new("top"));
    let (sent, received) = transfer(&tree, &target, &settings(), |receiver| receiver);
    assert!(error(sent).contains("already there"));
    assert!(error(received).contains("tree: already there"));
}

/// A directory that is sent again takes the place of what the same peer has sent, and only what has changed travels: here
/// or there, in content or in name. Permissions and times are those of the sender.
#[test]
fn unchanged_files_are_not_sent_again() {
    let directory = tempfile::tempdir().unwrap();
    let (tree, into) = (directory.path().join("tree"), directory.path().join("into"));
    std::fs::create_dir_all(tree.join("a/b")).unwrap();
    std::fs::create_dir(&into).unwrap();
    for name in ["top", "edited here", "edited there", "gone here", "gone there", "touched"] {
        write_file(&tree, name, 100_000 + name.len());
    }
    for file in 0..200 {
        std::fs::write(tree.join(format!("a/b/{file}")), file.to_string()).unwrap();
    }
    let target = Target::Directory(into.clone());
    let settings = encrypted(Settings { overwrite: true, ..settings() });
    let go = || {
        let (sent, received) = transfer(&tree, &target, &settings, |receiver| receiver);
        let (sent, received) = (sent.unwrap(), received.unwrap());
        assert_eq!((sent.hash, sent.unchanged), (received.hash, received.unchanged));
        let diff = std::process::Command::new("diff").arg("-r").args([&tree, &into.join("tree")]).output().unwrap();
        assert!(diff.status.success(), "{}", String::from_utf8_lossy(&diff.stdout));
        let [index, name] = &files(&into)[..] else { panic!("{:?}", files(&into)) };
        assert!(index.starts_with(".pliant-") && name == "tree", "{index} {name}");
        (sent.unchanged.files, sent.bytes)
    };
    let (unchanged, all) = go();
    assert_eq!(unchanged, 0);
    let (unchanged, few) = go();
    assert_eq!(unchanged, 206);
    assert!(few < all / 2, "{few} of {all}");

    let there = into.join("tree");
    std::fs::write(tree.join("edited here"), "other").unwrap();
    std::fs::write(there.join("edited there"), "other").unwrap();
    std::fs::remove_file(tree.join("gone here")).unwrap();
    std::fs::remove_file(there.join("gone there")).unwrap();
    std::fs::write(there.join("of somebody there"), "x").unwrap();
    std::fs::rename(tree.join("a/b/7"), tree.join("a/b/700")).unwrap();
    let touched = std::fs::File::options().write(true).open(tree.join("touched")).unwrap();
    touched.set_modified(std::time::UNIX_EPOCH + Duration::from_secs(1_000_000)).unwrap();
    touched.set_permissions(std::fs::Permissions::from_mode(0o600)).unwrap();
    // Without one edited here, two of there, one that is gone here and one with a new name.
    assert_eq!(go().0, 206 - 5);
    let touched = there.join("touched").metadata().unwrap();
    assert_eq!((touched.mode() & 0o777, touched.mtime()), (0o600, 1_000_000));
    assert_eq!(go().0, 205);

    // Nothing is known of a directory that somebody else has put there, and it is not replaced.
    std::fs::remove_dir_all(&there).unwrap();
    std::fs::create_dir(&there).unwrap();
    write_file(&there, "top", 100_003);
    let (sent, received) = transfer(&tree, &target, &settings, |receiver| receiver);
    assert!(error(sent).contains("it is not a directory that this peer has sent"));
    assert!(error(received).contains("already there"));
    assert_eq!(files(&there), ["top"]);
    // Nor is anything replaced where the receiver has not asked for it.
    let careful = Settings { overwrite: false, ..settings.clone() };
    let (sent, _) = transfer(&tree, &target, &careful, |receiver| receiver);
    assert!(error(sent).contains("`--overwrite` replaces"));
    // A directory is sent once more, and goes on where it was cut off.
    std::fs::remove_dir_all(&there).unwrap();
    go();
    write_file(&tree, "large", 32 * MB);
    interrupt_with(&tree, &into, 12_000, &settings);
    let (sent, received) = transfer(&tree, &target, &settings, |receiver| receiver);
    let (sent, received) = (sent.unwrap(), received.unwrap());
    assert!(sent.kept_bytes >= 4 * MB as u64 && sent.unchanged.files == 205, "{sent:?}");
    assert_eq!(sent.kept_bytes, received.kept_bytes);
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

/// A receiver that takes one is not there for a second; one that takes several takes them side by side.
#[test]
fn a_receiver_takes_as_many_as_it_says() {
    let receiver = Receiver::bind(crate::common::loopback(), settings()).unwrap();
    let to = receiver.address();
    let mut names = Vec::new();
    thread::scope(|scope| {
        let senders: Vec<_> = (0..3)
            .map(|_| {
                scope.spawn(move || {
                    send(Source::zeros(MB as u64), to, &settings(), &crate::common::NEVER, |_| {}, |_| {})
                })
            })
            .collect();
        let each = |received: Result<pliant_net::transfer::Received, _>| names.push(received.unwrap().from);
        receiver.serve(&Target::Discard, Some(3), &crate::common::NEVER, |_| {}, each).unwrap();
        for sender in senders {
            assert!(sender.join().unwrap().is_ok());
        }
    });
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 3);
}

/// Sends what is at `path` into a folder, until so many datagrams with data have passed.
fn interrupt(path: &Path, into: &Path, after: u64) {
    interrupt_with(path, into, after, &settings());
}

fn interrupt_with(path: &Path, into: &Path, after: u64, settings: &Settings) {
    let receiver = Receiver::bind(crate::common::loopback(), settings.clone()).unwrap();
    let to = receiver.address();
    let interrupted = Arc::new(AtomicBool::new(false));
    // The relay interrupts the sender from within: after some data has passed, before all has. The receiver hears of it.
    let relay = crate::common::Relay::new(Faults::default(), to);
    let (way, stop) = (relay.address(), AtomicBool::new(false));
    thread::scope(|scope| {
        let (flag, stop) = (&interrupted, &stop);
        scope.spawn(move || {
            let mut relay = relay;
            relay.interrupt_after = Some((after, flag.clone()));
            relay.run(stop);
        });
        let target = Target::Directory(into.to_owned());
        let receiving = scope.spawn(move || receiver.receive(&target, &crate::common::NEVER, |_| {}));
        let sent = send(Source::open(path).unwrap(), way, settings, flag, |_| {}, |_| {});
        assert!(matches!(sent, Err(TransferError::Interrupted)), "{sent:?}");
        assert!(error(receiving.join().unwrap()).ends_with("closed by the peer: interrupted"));
        stop.store(true, Ordering::Relaxed);
    });
    assert!(interrupted.load(Ordering::Relaxed));
}

/// Stopped in the middle, both sides say so. What came stays under a name of its own, and the same file goes on behind what
/// is right of it, though the receiver's disk has lost something, or the file is another with the same name and time.
#[test]
fn a_transfer_goes_on_where_it_was_cut_off() {
    let directory = tempfile::tempdir().unwrap();
    let path = write_file(directory.path(), "source", 32 * MB);
    let modified = std::fs::metadata(&path).unwrap().modified().unwrap();
    let into = directory.path().join("into");
    std::fs::create_dir(&into).unwrap();
    let flip = |path: &Path, at: u64| {
        let file = std::fs::File::options().read(true).write(true).open(path).unwrap();
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[byte[0] ^ 1], at).unwrap();
        file.set_modified(modified).unwrap();
    };
    let block = 2 * 1024 * 1024;
    for damage in ["none", "the end of the part", "the beginning of the part", "the file"] {
        interrupt(&path, &into, 12_000);
        let [part] = &files(&into)[..] else { panic!("{:?}", files(&into)) };
        assert!(part.starts_with(".pliant-"), "{part}");
        let part = into.join(part);
        assert_eq!(part.extension().unwrap(), "part");
        let there = std::fs::metadata(&part).unwrap().len();
        assert!(there >= 3 * block, "{there}");
        match damage {
            "the end of the part" => flip(&part, there / block * block - 1),
            "the beginning of the part" => flip(&part, 0),
            "the file" => flip(&path, 0),
            _ => {}
        }
        let (sent, received) = transfer(&path, &Target::Directory(into.clone()), &settings(), |receiver| receiver);
        let (sent, received) = (sent.unwrap(), received.unwrap());
        let kept = match damage {
            "none" => there / block * block,
            "the end of the part" => (there / block - 1) * block,
            _ => 0,
        };
        assert_eq!((sent.kept_bytes, received.kept_bytes), (kept, kept), "{damage}");
        assert_eq!((sent.hash, sent.bytes, received.bytes), (received.hash, 32 * MB as u64, 32 * MB as u64));
        assert_eq!(files(&into), ["source"], "{damage}");
        assert!(std::fs::read(into.join("source")).unwrap() == std::fs::read(&path).unwrap(), "{damage}");
        std::fs::remove_file(into.join("source")).unwrap();
    }
    // So does a directory; what is too short to be worth it leaves nothing.
    let tree = directory.path().join("tree");
    std::fs::create_dir(&tree).unwrap();
    write_file(&tree, "inner", 32 * MB);
    interrupt(&tree, &into, 12_000);
    let (sent, received) = transfer(&tree, &Target::Directory(into.clone()), &settings(), |receiver| receiver);
    assert!(sent.unwrap().kept_bytes >= 2 * block && received.unwrap().kept_bytes >= 2 * block);
    assert_eq!(files(&into), ["tree"]);
    assert!(std::fs::read(into.join("tree/inner")).unwrap() == content(32 * MB));
    std::fs::remove_dir_all(into.join("tree")).unwrap();
    let small = write_file(directory.path(), "small", 2 * MB);
    interrupt(&small, &into, 500);
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
    let sending =
        |to, settings| error(send(Source::open(&path).unwrap(), to, &settings, &crate::common::NEVER, |_| {}, |_| {}));
    assert!(sending(far, settings()).contains("192.0.2.1:7410 is not a loopback address"));
    let near = crate::common::loopback();
    let with = |flow: FlowSettings| Settings { flow, ..settings() };
    let flow = settings().flow;
    assert!(sending(near, with(FlowSettings { mtu: 500, ..flow.clone() })).contains("mtu of 500"));
    let contract = |transport, min_delivery, weight| {
        let contract = Contract { min_delivery, weight, ..Contract::default() };
        with(FlowSettings { transport, contract, ..flow.clone() })
    };
    for (settings, why) in [
        (contract(tcp(Algorithm::LedbatPlusPlus), 0.9, 1.0), "ledbat++: this transport does not honour min_delivery"),
        (contract(SocketTransport::ExpressPass, 1.0, 2.0), "expresspass: this transport does not honour weight"),
        (contract(SocketTransport::Atp, 0.0, 1.0), "atp needs a min_delivery above 0"),
        (contract(SocketTransport::Atp, 1.5, 1.0), "min_delivery must lie in [0, 1]"),
    ] {
        assert!(sending(near, settings.clone()).contains(why), "{}", sending(near, settings));
    }
    let stream = Source::stream(std::io::empty(), "stdin");
    let partial = contract(SocketTransport::Atp, 0.9, 1.0);
    assert!(
        error(send(stream, near, &partial, &crate::common::NEVER, |_| {}, |_| {}))
            .contains("stdin: a stream of unknown")
    );
    let tree = Source::open(directory.path()).unwrap();
    assert!(
        error(send(tree, near, &partial, &crate::common::NEVER, |_| {}, |_| {})).contains("a directory cannot arrive")
    );
    assert!(error(Source::open(&directory.path().join("none"))).contains("none: No such file"));
    assert!(error(Source::open(std::path::Path::new("/dev/null"))).contains("neither a regular file nor a directory"));
    assert!(error(Receiver::bind(far, settings())).contains("is not a loopback address"));
}

/// A file that the receiver cannot write ends both sides with the reason.
#[test]
fn what_cannot_be_written_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let path = write_file(directory.path(), "source", 10);
    let target = Target::File(directory.path().join("no/such/copy"));
    let (sent, received) = transfer(&path, &target, &encrypted(settings()), |receiver| receiver);
    assert!(error(received).contains("no/such/copy: entity not found"));
    assert!(error(sent).ends_with("closed by the peer: entity not found"));
}

/// Credits and acknowledgements of messages that arrive together are answered one by one: a transfer that keeps its link's
/// rate loses none to the driver. A credit that is not spent is lost, and then the rate falls.
#[test]
fn credits_are_spent_one_by_one() {
    let settings = by(SocketTransport::ExpressPass);
    let bytes = 4 * MB as u64;
    let (sent, received) = transfer_of(Source::zeros(bytes), &Target::Discard, &settings, &settings, |to| to);
    let (sent, received) = (sent.unwrap().statistics, received.unwrap().statistics);
    let needed = bytes.div_ceil(1500 - 28 - 30);
    assert_eq!(sent.packets_sent, needed, "{sent:?}");
    // What the receiver sent until it heard of the end was not used; everything else was.
    assert_eq!(received.credits_sent, needed + sent.wasted_credits, "{received:?}");
}

/// A receiver is called at its next address if it does not answer at the first: a file, a stream, which can be read only once,
/// and a directory, before which it is asked what it has. Where it answers at none, all are named.
#[test]
fn a_receiver_is_called_at_its_next_address() {
    let site = tempfile::tempdir().unwrap();
    let (from, into) = (site.path().join("from"), site.path().join("into"));
    std::fs::create_dir(&from).unwrap();
    std::fs::create_dir(&into).unwrap();
    let file = write_file(&from, "file", 100_000);
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let silent = silent.local_addr().unwrap();
    let sources: [(Source, &str); 3] = [
        (Source::open(&file).unwrap(), "file"),
        (Source::stream(std::fs::File::open(&file).unwrap(), "stream"), "stream"),
        (Source::open(&from).unwrap(), "from/file"),
    ];
    for (source, name) in sources {
        let receiver = Receiver::bind(loopback(), settings()).unwrap();
        let further = vec![(silent, vec![receiver.address()])];
        let sender = Settings { connect_timeout: Span::from_ms(300), further, ..settings() };
        let sent = thread::scope(|scope| {
            let receiving = scope.spawn(|| receiver.receive(&Target::Directory(into.clone()), &NEVER, |_| {}));
            let sent = send(source, silent, &sender, &NEVER, |_| {}, |_| {});
            receiving.join().unwrap().unwrap();
            sent
        });
        assert!(sent.is_ok(), "{name}: {sent:?}");
        assert!(std::fs::read(into.join(name)).unwrap() == content(100_000), "{name}");
    }
    let other = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let other = other.local_addr().unwrap();
    let sender = Settings { connect_timeout: Span::from_ms(300), further: vec![(silent, vec![other])], ..settings() };
    let sent = send(Source::open(&file).unwrap(), silent, &sender, &NEVER, |_| {}, |_| {});
    let Err(TransferError::NoAnswer { addresses, .. }) = sent else { panic!("{sent:?}") };
    assert_eq!(addresses, [silent, other]);
}
