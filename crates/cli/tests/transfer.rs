//! `send`, `recv` and `keygen` as users run them: two processes on loopback.

mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdin, Command, Output, Stdio};

use common::limited;
use pliant_net::flow::SocketTransport;
use tempfile::TempDir;

const MB: usize = 1 << 20;

fn pliant() -> Command {
    Command::new(env!("CARGO_BIN_EXE_pliant"))
}

fn run(arguments: &[&str]) -> Output {
    pliant().args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// One line that says `expected`, with this exit code.
fn assert_ends(output: &Output, code: i32, expected: &str) {
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{stderr}");
    assert!(stderr.contains(expected), "{stderr}");
    assert_eq!(stderr.lines().filter(|line| line.starts_with("error: ")).count(), 1, "{stderr}");
}

/// A folder with a key and a file.
struct Place {
    folder: TempDir,
    key: String,
    file: String,
    content: Vec<u8>,
}

impl Place {
    fn new(bytes: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        let (key, file) = (path("key"), path("file"));
        let made = run(&["keygen", &key]);
        assert!(made.status.success(), "{}", text(&made.stderr));
        let content: Vec<u8> = (0..bytes).map(|byte| (byte / 7) as u8).collect();
        std::fs::write(&file, &content).unwrap();
        Self { folder, key, file, content }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

/// A receiver that listens.
struct Receiver {
    child: Child,
    address: String,
    stderr: BufReader<ChildStderr>,
}

impl Receiver {
    fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        stderr.read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on ").unwrap_or_else(|| panic!("{line}")).to_owned();
        Self { child, address, stderr }
    }

    fn new(arguments: &[&str]) -> Self {
        let mut command = pliant();
        command.args(["recv", "--listen", "127.0.0.1:0"]).args(arguments);
        Self::start(command)
    }

    fn offering(file: &str, arguments: &[&str]) -> Self {
        let mut command = pliant();
        command.args(["offer", file, "--listen", "127.0.0.1:0"]).args(arguments);
        Self::start(command)
    }

    fn stop(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    fn finish(mut self) -> Output {
        let mut stderr = Vec::new();
        self.stderr.read_to_end(&mut stderr).unwrap();
        Output { stderr, ..self.child.wait_with_output().unwrap() }
    }
}

fn send(what: &str, to: &str, more: &[&str]) -> Output {
    pliant().args(["send", what, to]).args(more).output().unwrap()
}

/// A file goes encrypted from one process to another; both print the same hash, as JSON on request.
#[test]
fn a_file_is_sent_encrypted() {
    let place = Place::new(3 * MB);
    let copy = place.path("copy");
    let receiver = Receiver::new(&[copy.to_str().unwrap(), "--key", &place.key, "--json"]);
    let sent = send(&place.file, &receiver.address.clone(), &["--key", &place.key, "--json", "--transport", "cubic"]);
    assert!(sent.status.success(), "{}", text(&sent.stderr));
    let received = receiver.finish();
    assert!(received.status.success(), "{}", text(&received.stderr));
    assert_eq!(std::fs::read(copy).unwrap(), place.content);
    let json = |output: &Output| serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap();
    let (sent, received) = (json(&sent), json(&received));
    assert_eq!(sent["blake3"], received["blake3"]);
    assert_eq!((&sent["bytes"], &sent["encrypted"]), (&(3 * MB).into(), &true.into()));
    assert_eq!((&sent["transport"], &received["direction"]), (&"cubic".into(), &"received".into()));
    // Both processes read the same clock.
    let (offset, uncertainty) = (&sent["clock_offset_us"], &sent["clock_uncertainty_us"]);
    assert!(offset.as_f64().unwrap().abs() <= uncertainty.as_f64().unwrap() + 1.0, "{sent}");
}

/// Standard input and a directory arrive under their names, side by side at one receiver.
#[test]
fn streams_and_directories_are_sent() {
    let place = Place::new(MB);
    let (into, tree) = (place.path("into"), place.path("tree"));
    std::fs::create_dir(&into).unwrap();
    std::fs::create_dir(&tree).unwrap();
    std::fs::write(tree.join("leaf"), "green").unwrap();
    let receiver = Receiver::new(&[into.to_str().unwrap(), "--key", &place.key, "--count", "2", "--json"]);
    let to = receiver.address.clone();
    let mut piped = pliant();
    piped.args(["send", "-", &to, "--key", &place.key]).stdin(Stdio::piped()).stdout(Stdio::null());
    let mut piped = piped.spawn().unwrap();
    let mut input = piped.stdin.take().unwrap();
    input.write_all(&place.content).unwrap();
    drop(input);
    assert!(piped.wait().unwrap().success());
    let sent = send(tree.to_str().unwrap(), &to, &["--key", &place.key]);
    assert!(sent.status.success(), "{}", text(&sent.stderr));
    let received = receiver.finish();
    assert!(received.status.success(), "{}", text(&received.stderr));
    assert_eq!(text(&received.stdout).lines().count(), 2);
    assert_eq!(std::fs::read(into.join("stdin")).unwrap(), place.content);
    assert_eq!(std::fs::read_to_string(into.join("tree/leaf")).unwrap(), "green");
}

/// Mistakes, peers that are not there or refuse: each has one line and its exit code.
#[test]
fn what_goes_wrong_is_told_in_one_line() {
    let place = Place::new(10);
    let other = place.path("other").display().to_string();
    assert!(run(&["keygen", &other]).status.success());
    assert_ends(&run(&["keygen", &other]), 2, "other: is there already");
    let nobody = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let nobody = nobody.local_addr().unwrap().to_string();
    let file = &place.file;
    let quick = ["--connect-timeout", "600ms"];
    let with_key = |more: &[&str]| send(file, &nobody, &[&["--key", &place.key], more].concat());
    assert_ends(&send(file, &nobody, &[]), 2, "a transfer needs a key");
    assert_ends(&with_key(&quick), 3, "no answer from");
    assert_ends(&send(file, "192.0.2.1:7", &["--plain"]), 2, "192.0.2.1:7 is not a loopback address");
    assert_ends(&send(file, "nowhere", &["--plain"]), 2, "nowhere: an address is HOST:PORT");
    let by_name = format!("localhost:{}", nobody.rsplit_once(':').unwrap().1);
    assert_ends(&send(file, &by_name, &[&["--plain"], &quick[..]].concat()), 3, &format!("no answer from {nobody}"));
    assert_ends(&send(file, "no.host.invalid:7", &["--plain"]), 2, "no.host.invalid:7: ");
    assert_ends(&run(&["recv", "nowhere/", "--plain"]), 2, "nowhere/: no such folder");
    assert_ends(&with_key(&["--bytes", "1MB"]), 2, "--bytes and --for go without a FILE");
    assert_ends(
        &with_key(&["--transport", "expresspass", "--min-share", "0.5"]),
        2,
        "--min-share: expresspass does not honour it",
    );
    let rate = ["--transport", "bounded", "--min-rate", "1Mbit/s"];
    assert_ends(&with_key(&rate), 2, "--min-rate: it has no effect without --min-share below 1");
    assert_ends(&with_key(&["--transport", "near-opt"]), 2, "near-opt needs an oracle");
    assert_ends(&with_key(&["--rate-cap", "0bit/s"]), 2, "'--max-rate <RATE>': it must be above 0");
    assert_ends(&send("none", &nobody, &["--plain"]), 2, "none: No such file");
    assert_ends(&run(&["recv", "--listen", &nobody, "--plain"]), 2, "in use");
    std::fs::set_permissions(&other, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    assert_ends(&send(file, &nobody, &["--key", &other]), 2, "others may read this key");
    std::fs::set_permissions(&other, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();

    let mut receiver = Receiver::new(&["--discard", "--key", &place.key]);
    let to = receiver.address.clone();
    assert_ends(&send(file, &to, &[&["--key", &other], &quick[..]].concat()), 3, "not to this key");
    assert_ends(&send(file, &to, &["--plain"]), 3, "another kind of key");
    let large = ["--transport", "atp", "--min-delivery", "0.5", "--message-bytes"];
    let large = |size| [&["--key", &place.key], &large[..], &[size]].concat();
    let why =
        "a message of 20MB (the sender's --message-bytes) is larger than the receive buffer of 1MiB (--receive-buffer)";
    assert_ends(&send(file, &to, &large("20MB")), 3, why);
    assert_ends(&send(file, &to, &large("0B")), 2, "'--message-bytes <SIZE>': it must be from 1B to");
    receiver.child.kill().unwrap();
}

/// A sender in the middle of a stream: its input stays open, and what it has sent is with the receiver.
struct Midway {
    sender: Child,
    _input: ChildStdin,
}

impl Midway {
    fn new(to: &str, more: &[&str], into: &Path) -> Self {
        let mut command = pliant();
        command.args(["send", "-", to]).args(more).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut sender = command.spawn().unwrap();
        let mut input = sender.stdin.take().unwrap();
        input.write_all(&vec![1; MB]).unwrap();
        // The receiver's temporary file shows that the connection stands.
        while std::fs::read_dir(into).unwrap().next().is_none() {
            std::thread::yield_now();
        }
        Self { sender, _input: input }
    }
}

/// A peer that is killed is noticed, on either side and whatever carries the file; one that was started again says that it knows of nothing.
#[test]
fn killed_peers_are_noticed() {
    let place = Place::new(10);
    let patience = ["--key", &place.key, "--idle-timeout", "1s"];
    let folder = |name: &str| {
        let into = place.path(name);
        std::fs::create_dir(&into).unwrap();
        into
    };
    let receiving = |listen: &str, into: &Path| {
        let mut command = pliant();
        command.args(["recv", "--listen", listen, "--line-rate", "1Gbit/s"]).arg(into).args(patience);
        Receiver::start(command)
    };
    let kill = |child: &mut Child| {
        child.kill().unwrap();
        child.wait().unwrap();
    };
    // The receiver dies, and nobody takes its place.
    let into = folder("first");
    let mut receiver = receiving("127.0.0.1:0", &into);
    let midway = Midway::new(&receiver.address, &patience, &into);
    kill(&mut receiver.child);
    assert_ends(&midway.sender.wait_with_output().unwrap(), 4, "nothing heard for 1s");
    // It dies and is started again.
    let into = folder("second");
    let mut receiver = receiving("127.0.0.1:0", &into);
    let midway = Midway::new(&receiver.address, &["--key", &place.key], &into);
    kill(&mut receiver.child);
    let mut receiver = receiving(&receiver.address, &into);
    assert_ends(&midway.sender.wait_with_output().unwrap(), 4, "the peer was restarted");
    kill(&mut receiver.child);
    // What can be read again goes on behind what the receiver has.
    let into = folder("third");
    std::fs::write(&place.file, vec![7; 16 * MB]).unwrap();
    let mut receiver = receiving("127.0.0.1:0", &into);
    let mut command = pliant();
    command.args(["send", &place.file, &receiver.address, "--key", &place.key, "--rate-cap", "200Mbit/s"]);
    let sender = command.args(["--progress", "json"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let has_blocks = |into: &Path| {
        let mut there = std::fs::read_dir(into).unwrap();
        there.next().is_some_and(|entry| entry.unwrap().metadata().unwrap().len() > 6 * MB as u64)
    };
    while !has_blocks(&into) {
        std::thread::yield_now();
    }
    kill(&mut receiver.child);
    let receiver = receiving(&receiver.address, &into);
    let sent = sender.wait_with_output().unwrap();
    assert!(text(&sent.stdout).contains(" of them were there"), "{sent:?}");
    assert!(sent.status.success(), "{}", text(&sent.stderr));
    assert!(text(&sent.stderr).contains("retrying: ") && text(&sent.stderr).contains("{\"elapsed_s\":"), "{sent:?}");
    assert!(receiver.finish().status.success());
    assert!(std::fs::read(into.join("file")).unwrap() == vec![7; 16 * MB]);
}

/// A transfer that is done by its time says so in its result; one that is not says so on stderr, and goes on to its end.
#[test]
fn a_transfer_says_whether_it_was_done_in_time() {
    let place = Place::new(3 * MB);
    for (when, in_time) in [("10min", true), ("1us", false)] {
        let receiver = Receiver::new(&["--discard", "--key", &place.key]);
        let by = ["--transport", "bounded", "--min-share", "0", "--done-by", when];
        let sent = send(&place.file, &receiver.address.clone(), &[&["--key", &place.key, "--json"], &by[..]].concat());
        assert!(sent.status.success() && receiver.finish().status.success(), "{}", text(&sent.stderr));
        let result: serde_json::Value = serde_json::from_slice(&sent.stdout).unwrap();
        assert_eq!((result["done_in_time"].as_bool(), result["said_late_s"].is_null()), (Some(in_time), in_time));
        assert_eq!(text(&sent.stderr).contains("warning: it will not be done in time"), !in_time, "{sent:?}");
    }
}

/// A sender dies: its receiver notices, and no half of a file stays behind.
#[test]
fn killed_senders_leave_no_half_of_a_file() {
    let place = Place::new(10);
    let patience = ["--key", &place.key, "--idle-timeout", "1s"];
    for transport in ["dctcp", "ledbat++", "weighted-fair", "expresspass", "flexpass", "bounded-two-class"] {
        let into = place.path(transport);
        std::fs::create_dir(&into).unwrap();
        let mut command = pliant();
        command.args(["recv", "--listen", "127.0.0.1:0", "--line-rate", "1Gbit/s"]).arg(&into).args(patience);
        let receiver = Receiver::start(command);
        let with = [&patience[..], &["--transport", transport]].concat();
        let mut midway = Midway::new(&receiver.address, &with, &into);
        midway.sender.kill().unwrap();
        midway.sender.wait().unwrap();
        assert_ends(&receiver.finish(), 4, "nothing heard for 1s");
        assert_eq!(std::fs::read_dir(&into).unwrap().count(), 0, "{transport}: a part is not passed off as whole");
    }
}

/// A peer that stalls, stopped in the middle but there, is given up after the idle timeout, whichever side it is.
#[test]
fn stalled_peers_are_given_up() {
    let place = Place::new(10);
    let patience = ["--key", &place.key, "--idle-timeout", "1s"];
    let stop = |child: &Child| {
        assert!(Command::new("kill").args(["-STOP", &child.id().to_string()]).status().unwrap().success());
    };
    let receiving = |into: &Path| {
        std::fs::create_dir(into).unwrap();
        Receiver::new(&[&[into.to_str().unwrap()], &patience[..]].concat())
    };
    let into = place.path("first");
    let mut receiver = receiving(&into);
    let midway = Midway::new(&receiver.address, &patience, &into);
    stop(&receiver.child);
    assert_ends(&midway.sender.wait_with_output().unwrap(), 4, "nothing heard for 1s");
    receiver.child.kill().unwrap();
    let into = place.path("second");
    let receiver = receiving(&into);
    let mut midway = Midway::new(&receiver.address, &patience, &into);
    stop(&midway.sender);
    assert_ends(&receiver.finish(), 4, "nothing heard for 1s");
    midway.sender.kill().unwrap();
    assert_eq!(std::fs::read_dir(&into).unwrap().count(), 0);
}

/// Somebody who speaks another version says so, and the user reads which.
#[test]
fn another_version_is_named() {
    let place = Place::new(10);
    let other = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let to = other.local_addr().unwrap().to_string();
    let answering = std::thread::spawn(move || {
        let mut hello = [0; 2000];
        let (_, from) = other.recv_from(&mut hello).unwrap();
        // A refusal, kind 3, of version 9: because of the version, 0, which is 9.
        let refusal = [&[0x51, 9 << 4 | 3, 0, 0][..], &hello[4..8], &[0, 9]].concat();
        other.send_to(&refusal, from).unwrap();
    });
    let sent = send(&place.file, &to, &["--key", &place.key, "--connect-timeout", "5s"]);
    assert_ends(&sent, 3, "it speaks version 9 of the protocol");
    answering.join().unwrap();
}

/// A receiver that cannot write any more, here for a limit on the size of files, ends both sides with the reason.
#[test]
fn a_full_disk_is_told() {
    let place = Place::new(4 * MB);
    let into = place.path("into");
    std::fs::create_dir(&into).unwrap();
    let mut command = limited("-f 1000");
    command.args(["recv", "--listen", "127.0.0.1:0", into.to_str().unwrap(), "--key", &place.key]);
    let receiver = Receiver::start(command);
    let sent = send(&place.file, &receiver.address.clone(), &["--key", &place.key]);
    assert_ends(&sent, 4, "closed by the peer: File too large");
    assert!(!text(&sent.stderr).contains(".pliant-"), "the receiver's paths are no business of the sender's");
    assert_ends(&receiver.finish(), 1, "file: File too large");
    assert_eq!(std::fs::read_dir(Path::new(&into)).unwrap().count(), 0);
    // The same of a file that is fetched; the source hears of it and goes on.
    let mut offer = Receiver::offering(&place.file, &["--key", &place.key]);
    let mut fetching = limited("-f 1000");
    fetching.args(["fetch", &offer.address, "--key", &place.key, "--into", into.to_str().unwrap()]);
    assert_ends(&fetching.output().unwrap(), 1, "file: File too large");
    assert_eq!(std::fs::read_dir(Path::new(&into)).unwrap().count(), 0);
    assert!(offer.child.try_wait().unwrap().is_none(), "it serves others");
    offer.child.kill().unwrap();
}

/// What arrives whole and cannot be put into its place is a success of neither side: a folder took the name, or there is
/// more in an archive than the receiver takes. Both say why.
#[test]
fn what_has_no_place_is_no_success() {
    let place = Place::new(MB);
    let target = place.path("target");
    let receiver = Receiver::new(&[target.to_str().unwrap(), "--key", &place.key]);
    std::fs::create_dir(&target).unwrap();
    let sent = send(&place.file, &receiver.address.clone(), &["--key", &place.key]);
    assert_ends(&sent, 4, "has all of it but did not keep it: Is a directory");
    assert_ends(&receiver.finish(), 2, "target: Is a directory");

    let tree = place.path("tree");
    std::fs::create_dir(&tree).unwrap();
    (0..5).for_each(|file| std::fs::write(tree.join(file.to_string()), "x").unwrap());
    let into = target.to_str().unwrap();
    for (limit, why, begins) in
        [(["--max-files", "4"], "more than 4 files", true), (["--max-bytes", "2kB"], "larger than the receiver", false)]
    {
        let receiver = Receiver::new(&[&[into, "--key", &place.key], &limit[..]].concat());
        let sent = send(tree.to_str().unwrap(), &receiver.address.clone(), &["--key", &place.key]);
        assert!(matches!(sent.status.code(), Some(3 | 4)), "{}", text(&sent.stderr));
        assert!(text(&sent.stderr).contains(why), "{}", text(&sent.stderr));
        // It ends when it has removed what it began to unpack. What it refuses at once is no transfer, and it waits for one.
        if begins {
            assert_ends(&receiver.finish(), 1, why);
        } else {
            receiver.stop();
        }
        assert_eq!(std::fs::read_dir(&target).unwrap().count(), 0);
    }
}

/// A file that is changed under way is a success of neither side, and nothing of it is kept.
#[test]
fn a_file_that_changes_is_no_success() {
    let place = Place::new(4 * MB);
    let into = place.path("into");
    std::fs::create_dir(&into).unwrap();
    for shorter in [false, true] {
        let receiver = Receiver::new(&[into.to_str().unwrap(), "--key", &place.key]);
        let mut command = pliant();
        command.args(["send", &place.file, &receiver.address, "--key", &place.key, "--rate-cap", "40Mbit/s"]);
        let sender = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        while std::fs::read_dir(&into).unwrap().next().is_none() {
            std::thread::yield_now();
        }
        let mut file = std::fs::OpenOptions::new().append(true).open(&place.file).unwrap();
        if shorter {
            file.set_len(1000).unwrap();
        } else {
            file.write_all(b"more").unwrap();
        }
        assert_ends(&sender.wait_with_output().unwrap(), 5, "file: it was changed while it was sent");
        assert_ends(&receiver.finish(), 4, "it was changed while it was sent");
        assert_eq!(std::fs::read_dir(&into).unwrap().count(), 0);
    }
}

/// A name that the sender gives replaces nothing unless the receiver's user wants it; a name that this user gives does.
#[test]
fn names_from_elsewhere_replace_nothing() {
    let place = Place::new(1000);
    let into = place.path("into");
    std::fs::create_dir(&into).unwrap();
    let there = into.join("file");
    std::fs::write(&there, "mine").unwrap();
    let receive = |more: &[&str]| {
        let receiver = Receiver::new(&[&["--key", &place.key], more].concat());
        let sent = send(&place.file, &receiver.address.clone(), &["--key", &place.key]);
        (sent, receiver.finish())
    };
    let (sent, received) = receive(&[into.to_str().unwrap()]);
    assert_ends(&sent, 4, "already there");
    assert_ends(&received, 2, "file: already there: `--overwrite` replaces it");
    assert_eq!(std::fs::read(&there).unwrap(), b"mine");
    for how in [&[into.to_str().unwrap(), "--overwrite"][..], &[there.to_str().unwrap()]] {
        std::fs::write(&there, "mine").unwrap();
        let (sent, received) = receive(how);
        assert!(sent.status.success() && received.status.success(), "{}", text(&received.stderr));
        assert_eq!(std::fs::read(&there).unwrap(), place.content);
    }
}

/// Neither a FIFO nor what lies in a folder besides files makes `send` wait or fail.
#[test]
fn fifos_and_sockets_are_no_files() {
    let place = Place::new(10);
    let tree = place.path("tree");
    std::fs::create_dir(&tree).unwrap();
    std::fs::write(tree.join("leaf"), "green").unwrap();
    let fifo = tree.join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let _socket = std::os::unix::net::UnixListener::bind(tree.join("socket")).unwrap();
    assert_ends(&send(fifo.to_str().unwrap(), "127.0.0.1:1", &["--plain"]), 2, "fifo: neither a regular file");
    let into = place.path("into");
    std::fs::create_dir(&into).unwrap();
    let receiver = Receiver::new(&[into.to_str().unwrap(), "--key", &place.key]);
    let sent = send(tree.to_str().unwrap(), &receiver.address.clone(), &["--key", &place.key]);
    assert!(sent.status.success(), "{}", text(&sent.stderr));
    for left in ["fifo", "socket"] {
        assert!(text(&sent.stderr).contains(&format!("tree/{left} is not sent")), "{}", text(&sent.stderr));
    }
    assert!(receiver.finish().status.success());
    assert_eq!(std::fs::read_dir(into.join("tree")).unwrap().count(), 1);
}

/// Every transport with every field of a contract that it honours, alone and together: all that must arrive does.
#[test]
fn every_contract_is_kept_by_every_transport() {
    let place = Place::new(300_000);
    let receiver = Receiver::new(&[
        "--discard",
        "--key",
        &place.key,
        "--count",
        "0",
        "--min-delivery",
        "0.5",
        "--line-rate",
        "1Gbit/s",
    ]);
    let fields = [["--min-delivery", "0.9"], ["--min-share", "0.5"], ["--weight", "2"]];
    let mut done = 0;
    for transport in SocketTransport::all() {
        for chosen in 0..1 << fields.len() {
            let chosen = fields.iter().enumerate().filter(|(field, _)| chosen >> field & 1 != 0);
            let contract: Vec<&str> = chosen.flat_map(|(_, field)| field).copied().collect();
            let options = [&["--transport", transport.name(), "--key", &place.key, "--json"], &contract[..]].concat();
            let sent = send(&place.file, &receiver.address, &options);
            let refused = text(&sent.stderr).contains("does not honour it");
            assert!(refused || sent.status.success(), "{transport} {contract:?}: {}", text(&sent.stderr));
            done += i32::from(!refused);
        }
    }
    // Three with REFLEX, two with a weight besides, ATP with its bound, `bounded` with its share in one class and in two, and
    // five that honour nothing.
    assert_eq!(done, 3 * 4 + 2 * 8 + 2 + 2 * 2 + 5);
    receiver.stop();
}

/// A file through `pliant switch` as a relay that loses packets: the sender takes the address that the plan gives it. From
/// any other it is a stranger, which the switch says.
#[test]
fn a_file_goes_through_a_relay() {
    let place = Place::new(MB);
    let plan = place.path("relay.toml");
    let net = format!("127.{}", std::process::id() % 200 + 20);
    let port = |host: &str, alias: &str| format!("[[port]]\nhost = \"{net}.{host}\"\nalias = \"{net}.{alias}\"\n");
    let ports = port("1.1:7410", "2.1:7410") + &port("1.2:7500", "2.2:7500");
    std::fs::write(&plan, format!("rate = \"200Mbit/s\"\nfaults = {{ loss = 0.01 }}\n{ports}")).unwrap();
    let mut switch = pliant()
        .args(["switch", plan.to_str().unwrap()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(switch.stderr.take().unwrap()).lines();
    assert!(said.next().unwrap().unwrap().starts_with("forwarding between 2 ports"));
    let copy = place.path("copy");
    let mut receiver = pliant();
    receiver.args(["recv", copy.to_str().unwrap(), "--plain", "--listen", &format!("{net}.1.1:7410")]);
    let receiver = Receiver::start(receiver);
    let alias = format!("{net}.2.1:7410");
    assert_ends(&send(&place.file, &alias, &["--plain", "--connect-timeout", "600ms"]), 3, "no answer from");
    let stranger = said.next().unwrap().unwrap();
    assert!(stranger.starts_with("warning: port ") && stranger.contains("--bind"), "{stranger}");
    let sent = send(&place.file, &alias, &["--plain", "--bind", &format!("{net}.1.2:7500")]);
    assert!(sent.status.success(), "{}", text(&sent.stderr));
    assert!(receiver.finish().status.success());
    assert_eq!(std::fs::read(&copy).unwrap(), place.content);
    assert!(Command::new("kill").args(["-INT", &switch.id().to_string()]).status().unwrap().success());
    let counted = switch.wait_with_output().unwrap();
    assert_eq!(counted.status.code(), Some(130));
    let counters = text(&counted.stdout);
    assert!(counters.contains("stranger_frames") && counters.contains("faults: "), "{counters}");
}

/// Three processes offer a file and one of them is killed under way: the others bring the rest, the file is whole, and
/// who is left is told that the receiver has all. What cannot work ends with its line and code.
#[test]
fn a_file_is_fetched_though_a_source_is_killed() {
    let place = Place::new(16 * MB);
    let key = ["--key", place.key.as_str()];
    let slow = [&key[..], &["--rate-cap", "50Mbit/s", "--count", "1", "--idle-timeout", "5s"]].concat();
    let mut offers = [(); 3].map(|()| Receiver::offering(&place.file, &slow));
    let addresses = offers.each_ref().map(|offer| offer.address.clone());
    let into = place.path("into");
    std::fs::create_dir(&into).unwrap();
    let mut command = pliant();
    command.arg("fetch").args(&addresses).args(key).args(["--json", "--idle-timeout", "1s", "--into"]).arg(&into);
    let mut fetching = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // The temporary file grows with the first block: all have begun, and none is done.
    let begun = |entry: std::io::Result<std::fs::DirEntry>| entry.unwrap().metadata().unwrap().len() > 0;
    while !std::fs::read_dir(&into).unwrap().any(begun) {
        assert!(fetching.try_wait().unwrap().is_none(), "it fetches");
        std::thread::yield_now();
    }
    offers[0].child.kill().unwrap();
    offers[0].child.wait().unwrap();
    let fetched = fetching.wait_with_output().unwrap();
    assert!(fetched.status.success(), "{}", text(&fetched.stderr));
    assert!(std::fs::read(into.join("file")).unwrap() == place.content);
    let json: serde_json::Value = serde_json::from_slice(&fetched.stdout).unwrap();
    assert_eq!(json["sources"].as_array().unwrap().len(), 3);
    assert_eq!(text(&fetched.stderr).trim(), format!("lost: {}: nothing heard for 1s", addresses[0]));
    let [_, second, third] = offers;
    for offer in [second, third] {
        let offered = offer.finish();
        assert!(offered.status.success(), "{}", text(&offered.stderr));
        assert!(text(&offered.stdout).starts_with("offered file to 127.0.0.1:"), "{}", text(&offered.stdout));
    }

    let fetch = |more: &[&str]| run(&[&["fetch"], more].concat());
    let quick = ["--connect-timeout", "600ms"];
    assert_ends(&fetch(&["nowhere", "--plain"]), 2, "nowhere: an address is HOST:PORT");
    assert_ends(&fetch(&["127.0.0.1:9", "--plain", "--weight", "0.1"]), 2, "it must be a number from 0.5");
    assert_ends(&fetch(&[&[addresses[0].as_str()], &key[..], &quick].concat()), 3, "no answer from");
    assert_ends(&run(&["offer", "/dev/null", "--plain"]), 2, "neither a regular file nor a directory");
    // Who sends to an offer, or fetches from a receiver, is told.
    let mut offer = Receiver::offering(&place.file, &key);
    assert_ends(&send(&place.file, &offer.address, &key), 3, "it offers a file and takes none");
    let other = place.path("other").display().to_string();
    assert!(run(&["keygen", &other]).status.success());
    let wrong = fetch(&[&[offer.address.as_str(), "--key", &other], &quick[..]].concat());
    assert_ends(&wrong, 3, "not to this key");
    offer.child.kill().unwrap();
    let mut receiver = Receiver::new(&[&["--discard"], &key[..]].concat());
    assert_ends(&fetch(&[&[receiver.address.as_str()], &key[..]].concat()), 3, "does not begin as a transfer does");
    receiver.child.kill().unwrap();
}

/// Peers with keys of their own: each is called by its name, may do what its line says, and is gone once it has no line.
#[test]
fn peers_have_names_and_rights_until_they_are_taken_away() {
    let place = Place::new(MB);
    let path = |name: &str| place.path(name).display().to_string();
    let pair = |name: &str| {
        let made = run(&["keygen", "--pair", &path(name)]);
        assert!(made.status.success(), "{}", text(&made.stderr));
        text(&made.stdout).trim().trim_start_matches("peer ").to_owned()
    };
    let [store, west, east] = ["store.key", "west.key", "east.key"].map(pair);
    let add = |name: &str, lines: &str| {
        let own = std::fs::read_to_string(path(name)).unwrap();
        let private = own.lines().find(|line| line.starts_with("private ")).unwrap();
        std::fs::write(path(name), format!("{private}\n{lines}\n")).unwrap();
    };
    let rights_of_east = format!("peer {east} east fetch open");
    add("store.key", &format!("peer {west} west send:west/\n{rights_of_east}"));
    add("west.key", &format!("peer {store} store\npeer {east} east"));
    add("east.key", &format!("peer {store}"));

    let into = path("into");
    std::fs::create_dir(&into).unwrap();
    let (store_key, count) = (path("store.key"), ["--count", "0"]);
    let mut receiver = Receiver::new(&[&[into.as_str(), "--key", &store_key], &count[..]].concat());
    let send_to = |name: &str, key: &str| {
        let to = format!("{name}{}", receiver.address);
        run(&["send", &place.file, &to, "--key", &path(key), "--connect-timeout", "600ms"])
    };
    assert_ends(&send_to("", "west.key"), 2, "more than one peer, or none: say which, as in NAME@HOST:PORT");
    assert_ends(&send_to("south@", "west.key"), 2, "the key file has no peer that is called south");
    let sent = send_to("store@", "west.key");
    assert!(sent.status.success(), "{}", text(&sent.stderr));
    assert_eq!(std::fs::read(place.path("into/west/file")).unwrap(), place.content);
    assert_ends(&send_to("", "east.key"), 3, "its key has no right to send here");

    let hang_up = |receiver: &mut Receiver, expected: &str| {
        let id = receiver.child.id().to_string();
        assert!(Command::new("kill").args(["-HUP", &id]).status().unwrap().success());
        let mut line = String::new();
        while !line.contains(expected) {
            line.clear();
            assert!(receiver.stderr.read_line(&mut line).unwrap() > 0, "it ended before it said: {expected}");
        }
    };
    add("store.key", &rights_of_east);
    hang_up(&mut receiver, "store.key was read again");
    let to = format!("store@{}", receiver.address);
    let gone = run(&["send", &place.file, &to, "--key", &path("west.key"), "--connect-timeout", "600ms"]);
    assert_ends(&gone, 3, "not to this key");
    add("store.key", "peer nonsense");
    hang_up(&mut receiver, "the keys stay as they were");
    receiver.stop();

    let offer = Receiver::offering(&place.file, &["--key", &path("east.key")]);
    let from = format!("east@{}", offer.address);
    assert_ends(
        &run(&["fetch", &from, "--key", &path("west.key"), "--discard", "--connect-timeout", "600ms"]),
        3,
        "key",
    );
    offer.stop();
    add("east.key", &format!("peer {store}\npeer {west} west"));
    let offer = Receiver::offering(&place.file, &["--key", &path("east.key")]);
    let from = format!("east@{}", offer.address);
    let fetched = run(&["fetch", &from, "--key", &path("west.key"), "--discard"]);
    assert!(fetched.status.success(), "{}", text(&fetched.stderr));
    offer.stop();
}

/// `offer` prints the hash of its content, by which `fetch --hash` chooses among sources that differ; without it two that
/// differ are a tie, which names what each offers.
#[test]
fn sources_that_differ_are_chosen_by_hash() {
    let (place, other) = (Place::new(MB), Place::new(2 * MB));
    let key = ["--key", place.key.as_str()];
    let mut offers = [&place, &other].map(|place| Receiver::offering(&place.file, &key));
    let mut said = [String::new(), String::new()];
    for (offer, said) in offers.iter_mut().zip(&mut said) {
        offer.stderr.read_line(said).unwrap();
    }
    let [hash, other_hash] = said.each_ref().map(|line| line.trim().rsplit_once("blake3 ").unwrap().1);
    assert_eq!(said[0], format!("offering file: {MB} bytes, blake3 {hash}\n"));
    let copy = place.path("copy").display().to_string();
    let fetch = |more: &[&str]| {
        let [first, second] = offers.each_ref().map(|offer| offer.address.as_str());
        run(&[&["fetch", first, second, "--into", &copy], &key[..], more].concat())
    };
    let tied = fetch(&[]);
    assert_ends(&tied, 5, "the sources do not agree, so that none is believed; name a content by `--hash`");
    assert!([hash, other_hash].iter().all(|hash| text(&tied.stderr).contains(hash)), "{}", text(&tied.stderr));
    assert_ends(&fetch(&["--hash", "abc"]), 2, "it must be a BLAKE3 hash: 64 hexadecimal digits");
    let chosen = fetch(&["--hash", hash, "--json"]);
    assert!(chosen.status.success(), "{}", text(&chosen.stderr));
    let lost = format!("lost: {}: it refuses: it offers nothing with the hash {hash}\n", offers[1].address);
    assert_eq!(text(&chosen.stderr), lost);
    let json: serde_json::Value = serde_json::from_slice(&chosen.stdout).unwrap();
    assert_eq!(json["blake3"], hash);
    assert!(std::fs::read(&copy).unwrap() == place.content);
    for offer in offers {
        offer.stop();
    }
}

/// Packets that the link does not take end one fetch, with the reason on both sides. The offer goes on: the next receiver
/// has the file.
#[test]
fn packets_that_do_not_fit_concern_one_receiver() {
    let place = Place::new(3 * MB);
    let script = "ip link set lo up mtu 1500 || exit 77
        mkfifo said; \"$0\" offer file --plain --listen 127.0.0.1:7410 --count 1 2> said & exec 3< said
        read listening <&3
        \"$0\" fetch 127.0.0.1:7410 --plain --mtu 9000 --into large; echo \"$?\"
        \"$0\" fetch 127.0.0.1:7410 --plain --into copy > fetched || { kill $!; exit 1; }
        wait; cat <&3";
    let mut command = Command::new("unshare");
    command.args(["--map-root-user", "--net", "sh", "-c", script, env!("CARGO_BIN_EXE_pliant")]);
    let Ok(output) = command.current_dir(place.folder.path()).output() else { return };
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    if output.status.code() == Some(77) || stderr.contains("unshare: ") {
        eprintln!("skipped: no right to a network namespace");
        return;
    }
    assert!(output.status.success(), "{stderr}");
    let why = "packets of that size do not fit the link: use a smaller --mtu";
    assert!(stderr.contains(&format!("error: 127.0.0.1:7410: closed by the peer: {why}")), "{stderr}");
    assert!(stdout.starts_with("4\n") && stdout.contains(&format!("error: file: {why}")), "{stdout}");
    assert!(std::fs::read(place.path("copy")).unwrap() == place.content && !place.path("large").exists());
}

/// A fetch that is killed under way leaves its blocks; the next does not load them again, and the file is whole.
#[test]
fn a_killed_fetch_is_resumed() {
    let place = Place::new(16 * MB);
    let key = ["--key", place.key.as_str()];
    let mut offers =
        [(); 2].map(|()| Receiver::offering(&place.file, &[&key[..], &["--rate-cap", "40Mbit/s"]].concat()));
    let addresses = offers.each_ref().map(|offer| offer.address.clone());
    let into = place.path("into");
    std::fs::create_dir(&into).unwrap();
    let fetch = || {
        let mut command = pliant();
        command.arg("fetch").args(&addresses).args(key).args(["--json", "--into"]).arg(&into);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let hidden =
        || -> Vec<PathBuf> { std::fs::read_dir(&into).unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<_>>() };
    let mut killed = fetch();
    // Two blocks of 2 MiB are there, and most are not.
    let there = |blocks: u64| {
        hidden().iter().any(|path| path.metadata().is_ok_and(|file| file.len() >= blocks * 2 * MB as u64))
    };
    while !there(2) {
        assert!(killed.try_wait().unwrap().is_none(), "it fetches");
        std::thread::yield_now();
    }
    // SIGKILL: nothing is tidied up.
    killed.kill().unwrap();
    killed.wait().unwrap();
    assert_eq!(hidden().len(), 1, "its blocks");

    let fetched = fetch().wait_with_output().unwrap();
    assert!(fetched.status.success(), "{}", text(&fetched.stderr));
    assert!(std::fs::read(into.join("file")).unwrap() == place.content);
    assert_eq!(hidden(), [into.join("file")]);
    let json: serde_json::Value = serde_json::from_slice(&fetched.stdout).unwrap();
    let kept = json["kept_bytes"].as_u64().unwrap();
    assert!(kept > 3 * MB as u64, "{json}");
    let symbols =
        |key: &str| json["sources"].as_array().unwrap().iter().map(|source| source[key].as_u64().unwrap()).sum::<u64>();
    // A symbol has less than 1200 bytes. Beside what was missing there came what is sent in vain at the end of each block.
    let needed = (place.content.len() as u64 - kept).div_ceil(1100);
    let all = place.content.len() as u64 / 1200;
    assert!(symbols("symbols") - symbols("excess_symbols") <= needed + 100, "{json}");
    assert!(symbols("symbols") < all, "what was there was loaded again: {json}");
    for offer in &mut offers {
        offer.child.kill().unwrap();
    }
}

/// A receiver without a line rate gives no credits: a sender that wanted some says what it took in their place.
#[test]
fn a_sender_without_credits_says_so() {
    let place = Place::new(MB);
    for (rate, told) in [(&[][..], true), (&["--line-rate", "1Gbit/s"], false)] {
        let copy = place.path(if told { "plain" } else { "credits" });
        let receiver = Receiver::new(&[&[copy.to_str().unwrap(), "--key", &place.key], rate].concat());
        let with = ["--key", &place.key, "--transport", "expresspass"];
        let sent = send(&place.file, &receiver.address.clone(), &with);
        let line = "the receiver gives no credits (`pliant recv --line-rate RATE`): sent by dctcp, not expresspass\n";
        assert_eq!(text(&sent.stderr), if told { line } else { "" });
        assert!(sent.status.success() && receiver.finish().status.success());
    }
}

/// A receiver whose messages nobody reads any more ends when it is asked to.
#[test]
fn a_receiver_without_a_reader_stops() {
    let Receiver { mut child, stderr, .. } = Receiver::new(&["--plain"]);
    drop((stderr, child.stdout.take()));
    assert!(Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

/// Ctrl-C promises nothing that is not so: a receiver that waits has nothing to keep.
#[test]
fn an_interrupted_receiver_stops() {
    let receiver = Receiver::new(&["--plain"]);
    let pid = receiver.child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    let ended = receiver.finish();
    assert_eq!(ended.status.code(), Some(130));
    assert_eq!(text(&ended.stderr).trim(), "interrupted: stopping (again to stop at once)");
}

/// A transport has one name: scenarios take those that `send` takes.
#[test]
fn scenarios_know_the_same_names() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("names.toml");
    for transport in SocketTransport::all() {
        let (plan, class) = if transport == SocketTransport::TwoClass { ("strict", 1) } else { ("expresspass", 0) };
        let scenario = format!(
            "duration = \"1ms\"\n[topology]\nkind = \"star\"\nhosts = 2\nlink = {{ rate = \"1Gbit/s\", delay = \"1us\" }}\n\
             [queues]\nplan = \"{plan}\"\n[traffic.a]\nkind = \"permutation\"\nsize = \"1kB\"\nclass = {class}\n\
             transport = \"{transport}\"\n"
        );
        std::fs::write(&file, scenario).unwrap();
        let output = run(&["check", file.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    }
}

/// Sends a UDP datagram from port 0, to which nobody can answer. False without the right to (CAP_NET_RAW).
fn send_from_port_zero(to: &str, content: &[u8]) -> bool {
    use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrIn, sendto, socket};
    let to: std::net::SocketAddrV4 = to.parse().unwrap();
    let raw = socket(AddressFamily::Inet, SockType::Raw, SockFlag::empty(), SockProtocol::Udp);
    let Ok(raw) = raw else {
        eprintln!("skipped: no right to raw sockets");
        return false;
    };
    let length = 8 + content.len() as u16;
    // Source, destination, length, and no checksum (RFC 768).
    let header = [[0; 2], to.port().to_be_bytes(), length.to_be_bytes(), [0; 2]];
    let datagram = [header.as_flattened(), content].concat();
    let sent = sendto(std::os::fd::AsRawFd::as_raw_fd(&raw), &datagram, &SockaddrIn::from(to), MsgFlags::empty());
    assert_eq!(sent, Ok(datagram.len()));
    true
}

/// A hello from port 0, to which nothing can be answered, ends neither `recv` nor `offer`: who comes next is served.
#[test]
fn a_hello_from_port_zero_ends_nothing() {
    let place = Place::new(MB);
    let hello = [&[0x51, 0x30, 1, 0, 0, 0, 0, 1][..], &[0; 56]].concat();
    let copy = place.path("copy");
    let receiver = Receiver::new(&[copy.to_str().unwrap(), "--key", &place.key]);
    if !send_from_port_zero(&receiver.address, &hello) {
        receiver.stop();
        return;
    }
    let sent = send(&place.file, &receiver.address.clone(), &["--key", &place.key]);
    assert!(sent.status.success(), "{}", text(&sent.stderr));
    let received = receiver.finish();
    assert!(received.status.success(), "{}", text(&received.stderr));
    assert_eq!(std::fs::read(&copy).unwrap(), place.content);
    let offering = Receiver::offering(&place.file, &["--key", &place.key, "--count", "1"]);
    assert!(send_from_port_zero(&offering.address, &hello));
    let fetched = pliant()
        .args(["fetch", &offering.address, "--into", place.path("fetched").to_str().unwrap(), "--key", &place.key])
        .output()
        .unwrap();
    assert!(fetched.status.success(), "{}", text(&fetched.stderr));
    assert!(offering.finish().status.success());
}

/// A name with two addresses, of which one is dead: the other is called, and what went into standard input arrives. If both
/// are dead, both are named. It needs a file of hosts of its own and is left out where there are no user namespaces.
#[test]
fn a_name_leads_to_its_next_address() {
    let place = Place::new(10_000);
    let quick = ["--plain", "--connect-timeout", "600ms"];
    let net = format!("127.{}", std::process::id() % 200 + 20);
    let with_hosts = |arguments: &[&str]| {
        let script = "mount --bind \"$0\" /etc/hosts 2> /dev/null || exit 77; exec \"$@\"";
        let mut command = Command::new("unshare");
        command.args(["--map-root-user", "--mount", "sh", "-c", script]).arg(place.path("hosts"));
        command.arg(env!("CARGO_BIN_EXE_pliant")).args(arguments).args(quick);
        command
    };
    std::fs::write(place.path("hosts"), format!("{net}.0.1 both.test\n{net}.0.2 both.test\n")).unwrap();
    let has_namespaces = with_hosts(&["--version"]).output().is_ok_and(|output| output.status.success());
    if !has_namespaces {
        eprintln!("skipped: no right to a mount namespace");
        return;
    }
    // Whichever address comes first, it is dead once.
    for (live, dead) in [("0.1", "0.2"), ("0.2", "0.1")] {
        let listening = |mut command: Command| {
            command.args(["--plain", "--listen", &format!("{net}.{live}:0")]);
            let receiver = Receiver::start(command);
            let port = receiver.address.rsplit_once(':').unwrap().1.to_owned();
            let nobody = std::net::UdpSocket::bind(format!("{net}.{dead}:{port}")).unwrap();
            (receiver, nobody, format!("both.test:{port}"))
        };
        let mut receive = pliant();
        receive.arg("recv").arg(place.path("copy"));
        let (receiver, _nobody, to) = listening(receive);
        let mut sending = with_hosts(&["send", "-", &to]);
        let piped = sending.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut sending = piped.spawn().unwrap();
        sending.stdin.take().unwrap().write_all(&place.content).unwrap();
        let sent = sending.wait_with_output().unwrap();
        assert!(sent.status.success(), "{}", text(&sent.stderr));
        assert!(receiver.finish().status.success());
        assert_eq!(std::fs::read(place.path("copy")).unwrap(), place.content);

        let mut offer = pliant();
        offer.args(["offer", &place.file, "--count", "1"]);
        let (offer, _nobody, from) = listening(offer);
        let fetched = with_hosts(&["fetch", &from, "--discard"]).output().unwrap();
        assert!(fetched.status.success() && fetched.stderr.is_empty(), "{}", text(&fetched.stderr));
        assert!(offer.finish().status.success());
        for words in [["send", &place.file, &from], ["fetch", &from, "--discard"]] {
            let ended = with_hosts(&words).output().unwrap();
            assert_ends(&ended, 3, "within 600ms each");
            let port = from.rsplit_once(':').unwrap().1;
            for address in ["0.1", "0.2"] {
                assert!(text(&ended.stderr).contains(&format!("{net}.{address}:{port}")), "{}", text(&ended.stderr));
            }
        }
    }
}

/// A mirror alone: nobody there, and no such file, is as a source that does not answer; one that breaks off is lost; another
/// content is not what was fetched.
#[test]
fn what_becomes_of_a_mirror_has_its_code() {
    let fetch = |port: u16, hash: &str| {
        let url = format!("http://127.0.0.1:{port}/file");
        run(&["fetch", "--plain", "--discard", "--hash", hash, "--source", &url])
    };
    let (hash, port_of) = ("0".repeat(64), |listener: &TcpListener| listener.local_addr().unwrap().port());
    let nobody = port_of(&TcpListener::bind("127.0.0.1:0").unwrap());
    assert_ends(&fetch(nobody, &hash), 3, "/file: ");
    let answers = [
        ("404 Not Found", "Content-Length: 0\r\n\r\n", 3),
        ("403 Forbidden", "Content-Length: 0\r\n\r\n", 3),
        ("200 OK", "Content-Length: 4\r\n\r\nfile", 5),
        ("200 OK", "Content-Length: 4\r\n\r\nfi", 4),
    ];
    for (status, rest, code) in answers {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = port_of(&listener);
        std::thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                let mut request = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
                // Up to the empty line.
                let _ = request.by_ref().find(String::is_empty);
                let _ = stream.write_all(format!("HTTP/1.1 {status}\r\nConnection: close\r\n{rest}").as_bytes());
            }
        });
        assert_ends(&fetch(port, &hash), code, "/file: ");
    }
}
