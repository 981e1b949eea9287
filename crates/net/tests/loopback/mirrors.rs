//! A file from mirrors, beside sources and alone: whole, verified, and in spite of mirrors that lie or fail.

use std::net::SocketAddr;
use std::ops::{ControlFlow, Range};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use crate::common::{NEVER, content, files, loopback, settings, write_file};
use pliant_net::flow::{FlowSettings, SocketTransport};
use pliant_net::transfer::{
    Fetched, Hash, Limits, Mirror, MirrorError, MirrorFile, Offer, Settings, Target, TransferError, WantedFile, ask,
    fetch,
};
use pliant_proto::congestion::Algorithm;
use pliant_proto::time::Span;
use pliant_proto::units::Rate;

const MB: usize = 1 << 20;
const BLOCK: usize = 2 * MB;

/// What a mirror does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    Right,
    /// One byte of a block is another.
    Lies(usize),
    /// It fails for good behind so many bytes.
    Fails(usize),
    /// It ends early again and again, each time after so many bytes.
    EndsEarly(usize),
    /// It sends nothing until nobody wants it any more.
    Stalls,
    /// It has another file, of another size.
    Other,
}

/// A mirror in this process, and the bytes that it was asked for.
#[derive(Debug)]
struct Held {
    name: &'static str,
    content: Arc<Vec<u8>>,
    way: Way,
    asked: AtomicU64,
}

struct HeldAt(Arc<Held>);

impl Mirror for HeldMirror {
    fn name(&self) -> &str {
        self.0.name
    }

    fn only_file(&self) -> Option<String> {
        Some("source".to_owned())
    }

    fn file(&self, _: &str) -> Box<dyn MirrorFile> {
        Box::new(HeldAt(self.0.clone()))
    }
}

#[derive(Debug)]
struct HeldMirror(Arc<Held>);

impl MirrorFile for HeldAt {
    fn bytes(&mut self) -> Result<u64, MirrorError> {
        Ok(self.0.content.len() as u64)
    }

    fn read(
        &mut self,
        range: Range<u64>,
        _: u64,
        take: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<(), MirrorError> {
        let held = &self.0;
        let fails = |why: &str, passes| Err(MirrorError { why: why.to_owned(), passes });
        let (start, end) = (range.start as usize, (range.end as usize).min(held.content.len()));
        held.asked.fetch_add(range.end - range.start, Ordering::Relaxed);
        if held.way == Way::Stalls {
            while take(&[]).is_continue() {
                thread::yield_now();
            }
            return Ok(());
        }
        for (number, piece) in held.content[start..end].chunks(64 << 10).enumerate() {
            let at = start + number * (64 << 10);
            let mut piece = piece.to_vec();
            match held.way {
                Way::Lies(byte) if (at..at + piece.len()).contains(&byte) => piece[byte - at] ^= 1,
                Way::Fails(after) if at >= after => return fails("it broke", false),
                Way::EndsEarly(after) if at - start >= after => return fails("it ended early", true),
                _ => {}
            }
            if take(&piece).is_break() {
                return Ok(());
            }
        }
        if end - start < (range.end - range.start) as usize { fails("its file ends before", false) } else { Ok(()) }
    }
}

/// Mirrors of a file of so many bytes.
fn mirrors(bytes: usize, ways: &[Way]) -> Vec<Arc<Held>> {
    let names = ["one", "two", "three"];
    let held = |(way, name): (&Way, &'static str)| {
        let content = if *way == Way::Other { content(bytes + 5) } else { content(bytes) };
        Arc::new(Held { name, content: Arc::new(content), way: *way, asked: AtomicU64::new(0) })
    };
    ways.iter().zip(names).map(held).collect()
}

fn weighted(mbit_per_s: Option<u64>) -> Settings {
    let transport = SocketTransport::Tcp(Algorithm::WeightedFair);
    let mut flow = FlowSettings { transport, ..settings().flow };
    flow.contract.max_rate = mbit_per_s.map(|mbit| Rate::from_bits_per_sec(mbit * 1_000_000));
    Settings { flow, overwrite: true, ..settings() }
}

fn wanted(mirrors: &[Arc<Held>], hash: Option<Hash>) -> WantedFile {
    let mirrors = mirrors.iter().map(|held| Arc::new(HeldMirror(held.clone())) as Arc<dyn Mirror>).collect();
    WantedFile { hash, mirrors, ..WantedFile::default() }
}

fn fetch_into(
    into: &Path,
    sources: &[SocketAddr],
    wanted: WantedFile,
    settings: &Settings,
) -> (Result<Fetched, TransferError>, Vec<String>) {
    let (target, mut lost) = (Target::Directory(into.to_owned()), Vec::new());
    let fetched = fetch(sources, wanted, &target, settings, &NEVER, |_| {}, |news| lost.push(news.to_string()));
    (fetched, lost)
}

fn intact(into: &Path, bytes: usize) {
    assert!(std::fs::read(into.join("source")).unwrap() == content(bytes));
    assert_eq!(files(into), ["source"]);
}

/// Beside a source of 60 Mbit/s, a mirror gives most blocks; one that lies in its first answer, or breaks, is named and nothing
/// of it is kept; one that ends early goes on where it was; one that stalls holds nobody up.
#[test]
fn mirrors_fill_in_beside_a_source() {
    let bytes = 8 * BLOCK + 7;
    let all_lie = "what it sends is not of the file";
    for (way, lost) in [
        (Way::Right, None),
        (Way::EndsEarly(MB / 2), None),
        (Way::Lies(3 * BLOCK + 5), Some(all_lie)),
        (Way::Fails(0), Some("it broke")),
        (Way::Stalls, None),
    ] {
        let site = tempfile::tempdir().unwrap();
        let into = site.path().join("into");
        std::fs::create_dir(&into).unwrap();
        let path = write_file(site.path(), "source", bytes);
        let slow = matches!(way, Way::Right | Way::EndsEarly(_) | Way::Lies(_));
        let offer = Offer::bind(loopback(), &path, weighted(slow.then_some(60))).unwrap();
        let (address, stop) = (offer.address(), AtomicBool::new(false));
        let held = mirrors(bytes, &[way]);
        let (fetched, told) = thread::scope(|scope| {
            scope.spawn(|| offer.serve(None, &stop, |_| {}));
            let fetched = fetch_into(&into, &[address], wanted(&held, None), &weighted(None));
            stop.store(true, Ordering::Relaxed);
            fetched
        });
        let fetched = fetched.unwrap();
        intact(&into, bytes);
        let mirror = &fetched.mirrors[0];
        assert_eq!((mirror.lost.as_deref(), told.len()), (lost, usize::from(lost.is_some())), "{way:?} {told:?}");
        let given = match way {
            Way::Right | Way::EndsEarly(_) => mirror.bytes > 4 * BLOCK as u64,
            Way::Lies(_) => mirror.bytes < bytes as u64 / 2,
            _ => mirror.bytes == 0,
        };
        assert!(given, "{way:?} {fetched:?}");
        assert!(held[0].asked.load(Ordering::Relaxed) > 0);
    }
}

/// Without a source, and when none is left, the size of a file is asked of mirrors, and no byte of it.
#[test]
fn mirrors_say_the_size_and_send_nothing() {
    let (bytes, nobody) = (2 * BLOCK + 9, "127.0.0.1:9".parse().unwrap());
    let hash = blake3::hash(&content(bytes));
    let impatient = Settings { connect_timeout: Span::from_ms(200), ..weighted(None) };
    for sources in [&[][..], &[nobody]] {
        let held = mirrors(bytes, &[Way::Right]);
        let asked = ask(sources, wanted(&held, Some(hash)), &impatient, &NEVER).unwrap();
        assert_eq!((asked.bytes, asked.hash, &asked.name[..]), (bytes as u64, hash, "source"));
        assert_eq!(held[0].asked.load(Ordering::Relaxed), 0);
        let limits = Limits { max_bytes: BLOCK as u64, ..impatient.limits };
        let small = Settings { limits, ..impatient.clone() };
        let refused = ask(sources, wanted(&held, Some(hash)), &small, &NEVER).unwrap_err().to_string();
        assert!(refused.contains("it has 4194313 bytes, and 2097152 may be fetched"), "{refused}");
    }
}

/// Mirrors alone give all of a file whose hash is said: the first that has it; who lies, breaks or has another is named; what
/// came of one that broke is not asked for again.
#[test]
fn mirrors_alone_give_what_has_the_hash() {
    let bytes = 2 * BLOCK + 9;
    let hash = blake3::hash(&content(bytes));
    for (ways, expected) in [
        (&[Way::Right][..], &[None][..]),
        (&[Way::EndsEarly(MB)], &[None]),
        (&[Way::Other, Way::Right], &[Some("another hash"), None]),
        (&[Way::Lies(BLOCK + 1), Way::Right], &[Some("another hash"), None]),
        (&[Way::Fails(BLOCK + MB), Way::Right], &[Some("it broke"), None]),
    ] {
        let site = tempfile::tempdir().unwrap();
        let held = mirrors(bytes, ways);
        let (fetched, _) = fetch_into(site.path(), &[], wanted(&held, Some(hash)), &weighted(None));
        let fetched = fetched.unwrap_or_else(|error| panic!("{ways:?}: {error}"));
        intact(site.path(), bytes);
        assert_eq!((fetched.hash, fetched.bytes, fetched.sources.len()), (hash, bytes as u64, 0));
        for (mirror, expected) in fetched.mirrors.iter().zip(expected) {
            let named = match (mirror.lost.as_deref(), expected) {
                (Some(lost), Some(expected)) => lost.contains(expected),
                (lost, expected) => lost.is_none() == expected.is_none(),
            };
            assert!(named, "{ways:?} {fetched:?}");
        }
        if ways[0] == Way::Fails(BLOCK + MB) {
            assert_eq!(held[1].asked.load(Ordering::Relaxed), (bytes - BLOCK) as u64, "whole blocks are kept");
        }
    }
}

/// A mirror that finishes what a liar began is asked for all of it by itself before it is taken for a liar, too.
#[test]
fn nobody_is_blamed_for_what_another_sent() {
    let bytes = 2 * BLOCK + 9;
    let hash = blake3::hash(&content(bytes));
    let site = tempfile::tempdir().unwrap();
    let mut held = mirrors(bytes, &[Way::Fails(BLOCK), Way::Right]);
    let mut false_content = content(bytes);
    false_content[3] ^= 1;
    Arc::get_mut(&mut held[0]).unwrap().content = Arc::new(false_content);
    let (fetched, lost) = fetch_into(site.path(), &[], wanted(&held, Some(hash)), &weighted(None));
    let fetched = fetched.unwrap();
    intact(site.path(), bytes);
    assert_eq!((fetched.mirrors[1].lost.as_deref(), lost.len()), (None, 1), "{lost:?}");
}

/// An empty file; nobody who has it; no hash; too large a file: each is told, and nothing is left behind.
#[test]
fn what_mirrors_cannot_give_is_told() {
    let site = tempfile::tempdir().unwrap();
    let empty = blake3::hash(&[]);
    let fetched = fetch_into(site.path(), &[], wanted(&mirrors(0, &[Way::Right]), Some(empty)), &weighted(None)).0;
    assert_eq!(fetched.unwrap().bytes, 0);
    intact(site.path(), 0);
    std::fs::remove_file(site.path().join("source")).unwrap();
    let hash = blake3::hash(&content(BLOCK));
    let why = |mirrors: &[Arc<Held>], hash, settings: &Settings| {
        fetch_into(site.path(), &[], wanted(mirrors, hash), settings).0.unwrap_err().to_string()
    };
    let plain = weighted(None);
    assert!(why(&mirrors(BLOCK, &[Way::Right]), None, &plain).contains("hash must be said"));
    assert_eq!(
        why(&mirrors(BLOCK, &[Way::Lies(0)]), Some(hash), &plain),
        "one: its content has another hash than what is fetched"
    );
    assert_eq!(why(&mirrors(BLOCK, &[Way::Fails(0)]), Some(hash), &plain), "one: it broke");
    let limited = Settings { limits: Limits { max_bytes: 5, ..Limits::default() }, ..plain };
    assert!(why(&mirrors(BLOCK, &[Way::Right]), Some(hash), &limited).contains("and 5 may be fetched"));
    assert_eq!(files(site.path()), Vec::<String>::new());
}

/// Where no source answers, or the only one lies, a mirror gives the rest.
#[test]
fn mirrors_give_the_rest_when_no_source_is_left() {
    let bytes = 2 * BLOCK + 9;
    let hash = blake3::hash(&content(bytes));
    let site = tempfile::tempdir().unwrap();
    let nobody = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let settings = Settings { connect_timeout: Span::from_ms(300), ..weighted(None) };
    let held = mirrors(bytes, &[Way::Right]);
    let (fetched, told) = fetch_into(site.path(), &[nobody], wanted(&held, Some(hash)), &settings);
    assert_eq!(fetched.unwrap().bytes, bytes as u64);
    intact(site.path(), bytes);
    assert!(told.iter().any(|news| news.contains("no source is left")), "{told:?}");
    let (fetched, _) = fetch_into(site.path(), &[nobody], wanted(&held, None), &settings);
    assert!(matches!(fetched, Err(TransferError::NoAnswer { .. })), "without a hash nobody knows what is right");
}

/// The variable that says that files of this process are bounded.
const LIMITED: &str = "PLIANT_TEST_FILES_ARE_LIMITED";

/// A mirror whose file has no room on the disk does not keep the next from giving the right one.
#[test]
fn a_disk_that_one_mirror_fills_has_room_for_the_next() {
    if std::env::var_os(LIMITED).is_none() {
        // 4 MiB are the most for a file, and more is an error in place of a signal.
        let limited = "trap '' XFSZ; ulimit -f 4096; exec \"$@\"";
        let name = "mirrors::a_disk_that_one_mirror_fills_has_room_for_the_next";
        let mut command = std::process::Command::new("bash");
        command.args(["-c", limited, "bash"]).arg(std::env::current_exe().unwrap()).args(["--exact", name]);
        let output = command.env(LIMITED, "1").output().unwrap();
        let told = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && told.contains("1 passed"), "{told}");
        return;
    }
    let bytes = BLOCK + 9;
    let hash = blake3::hash(&content(bytes));
    let mut held = mirrors(bytes, &[Way::Right, Way::Right]);
    Arc::get_mut(&mut held[0]).unwrap().content = Arc::new(vec![7; 4 * BLOCK]);
    let site = tempfile::tempdir().unwrap();
    let (fetched, lost) = fetch_into(site.path(), &[], wanted(&held, Some(hash)), &weighted(None));
    let fetched = fetched.unwrap();
    intact(site.path(), bytes);
    assert!(fetched.mirrors[0].lost.as_deref().is_some_and(|lost| lost.contains("no room")), "{fetched:?}");
    assert!(fetched.mirrors[1].lost.is_none() && lost.len() == 1, "{lost:?}");
    // Where it is the disk alone, that is said.
    let site = tempfile::tempdir().unwrap();
    let (fetched, _) = fetch_into(site.path(), &[], wanted(&held[..1], Some(hash)), &weighted(None));
    assert!(matches!(fetched, Err(TransferError::File { .. })), "{fetched:?}");
}
