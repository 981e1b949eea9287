//! Files that daemons offer, and that programs fetch from all of them by HTTP.

mod common;

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use common::block_on;
use pliant_daemon::{Config, Daemon};
use pliant_net::connection::Keys;
use pliant_net::transfer::{FileSelector, FolderFilter, OfferedFiles, Settings, Target, WantedFolder, fetch_folder};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const MB: usize = 1 << 20;

fn content(bytes: usize) -> Vec<u8> {
    (0..bytes as u32).map(|byte| (byte.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

/// Daemons with their folders, all under one key.
struct Site {
    folder: tempfile::TempDir,
}

impl Site {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let key = folder.path().join("key");
        std::fs::write(&key, format!("preshared {}", "0b".repeat(32))).unwrap();
        std::fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A daemon that offers its folder and fetches from these.
    async fn daemon(&self, name: &str, sources: &[SocketAddr], more: &str) -> Daemon {
        self.daemon_of_class(name, sources, more, "").await
    }

    /// The same with more keys of its class.
    async fn daemon_of_class(&self, name: &str, sources: &[SocketAddr], more: &str, class: &str) -> Daemon {
        std::fs::create_dir_all(self.path(&format!("{name}-offered"))).unwrap();
        let source = |(at, source): (usize, &SocketAddr)| format!("s{at} = \"{source}\"\n");
        let sources = sources.iter().enumerate().map(source).collect::<Vec<_>>().concat();
        let text = format!(
            "listen = \"127.0.0.1:0\"\nkey = \"key\"\n[classes.images]\ntransport = \"weighted-fair\"\n{class}[objects]\n\
             listen = \"127.0.0.1:0\"\nclass = \"images\"\noffer = [\"{name}-offered\"]\ncache = \"{name}-cache\"\n\
             door = \"127.0.0.1:0\"\n{more}\n[objects.sources]\n{sources}"
        );
        let file = self.path(&format!("{name}.toml"));
        std::fs::write(&file, text).unwrap();
        Daemon::start(Config::read(&file).unwrap()).await.unwrap()
    }

    /// Two daemons that offer these files, and one that offers none.
    async fn three(&self, files: &[(&str, usize)], more: &str) -> [Daemon; 3] {
        for name in ["one", "two"] {
            std::fs::create_dir_all(self.path(&format!("{name}-offered"))).unwrap();
            for (file, bytes) in files {
                std::fs::write(self.path(&format!("{name}-offered/{file}")), content(*bytes)).unwrap();
            }
        }
        let (one, two) = (self.daemon("one", &[], "").await, self.daemon("two", &[], "").await);
        let sources = [one.objects().unwrap(), two.objects().unwrap()];
        for daemon in [&one, &two] {
            while daemon.status().objects.unwrap().files < files.len() {
                tokio::task::yield_now().await;
            }
        }
        let near = self.daemon("near", &sources, more).await;
        [one, two, near]
    }
}

/// A response's head, in lower case, and its body.
async fn ask(door: SocketAddr, request: &str) -> (String, Vec<u8>) {
    let mut tcp = TcpStream::connect(door).await.unwrap();
    let host = if request.contains("\r\nHost: ") { String::new() } else { format!("\r\nHost: {door}") };
    tcp.write_all(format!("{request}{host}\r\nConnection: close\r\n\r\n").as_bytes()).await.unwrap();
    let mut response = Vec::new();
    let _ = tcp.read_to_end(&mut response).await;
    let end = response.windows(4).position(|four| four == b"\r\n\r\n").unwrap_or_else(|| panic!("{request}")) + 4;
    let body = response.split_off(end);
    (String::from_utf8(response).unwrap().to_lowercase(), body)
}

/// One user has at most half of the fetches, so that another finds one: of requests whose source is silent, the ninth is
/// refused at once.
#[test]
fn a_user_has_half_of_the_fetches() {
    block_on(async {
        let site = Site::new();
        let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let near = site.daemon("near", &[silent.local_addr().unwrap()], "").await;
        let door = near.doors()[0];
        let mut waiting = Vec::new();
        for number in 0..8 {
            let mut tcp = TcpStream::connect(door).await.unwrap();
            let request = format!("GET /objects/{number}.bin HTTP/1.1\r\nHost: {door}\r\n\r\n");
            tcp.write_all(request.as_bytes()).await.unwrap();
            waiting.push(tcp);
        }
        while near.status().objects.unwrap().fetches < 8 {
            tokio::task::yield_now().await;
        }
        let (head, body) = ask(door, "GET /objects/8.bin HTTP/1.1").await;
        assert!(head.starts_with("http/1.1 503 "), "{head}");
        assert!(String::from_utf8(body).unwrap().contains("by all users of this host or by this one"));
    });
}

/// A program gets a file by its name and by its hash from two sources, and parts of it; what it has already is not sent;
/// what nobody has, or what is no name, is said.
#[test]
fn programs_fetch_by_http() {
    block_on(async {
        let site = Site::new();
        let [_one, _two, near] = site.three(&[("model.bin", 5 * MB + 7), ("empty", 0)], "").await;
        let (door, all) = (near.doors()[0], content(5 * MB + 7));
        let (head, body) = ask(door, "GET /objects/model.bin HTTP/1.1").await;
        assert!(head.starts_with("http/1.1 200 ok") && body == all, "{head}");
        let tag = head.lines().find_map(|line| line.strip_prefix("etag: ")).unwrap().to_owned();
        let hash = tag.trim_matches('"').to_owned();
        let get = |more: &str| format!("GET /objects/{hash} HTTP/1.1\r\n{more}");
        for (request, status, expected) in [
            (get("Range: bytes=4000000-4000009"), "206", &all[4_000_000..4_000_010]),
            (get("Range: bytes=-7"), "206", &all[5 * MB..]),
            (get("Range: bytes=5242880-99999999"), "206", &all[5 * MB..]),
            (get("Range: bytes=5242880-\r\nIf-Range: \"other\""), "200", &all[..]),
            (get(&format!("If-None-Match: {tag}")), "304", b""),
            (format!("HEAD /objects/{hash} HTTP/1.1"), "200", b""),
            ("GET /objects/empty HTTP/1.1".to_owned(), "200", b""),
        ] {
            let (head, body) = ask(door, &request).await;
            assert!(head.starts_with(&format!("http/1.1 {status}")) && body == expected, "{request}: {head}");
        }
        let (head, _) = ask(door, &get("Range: bytes=9999999-")).await;
        assert!(head.starts_with("http/1.1 416") && head.contains(&format!("content-range: bytes */{}", all.len())));
        let (head, _) = ask(door, "HEAD /objects/model.bin HTTP/1.1").await;
        assert!(head.contains(&format!("content-length: {}", all.len())) && head.contains("accept-ranges: bytes"));
        for (request, status, why) in [
            ("GET /objects/nothing HTTP/1.1", "404", "it offers no `nothing`"),
            (&format!("GET /objects/{} HTTP/1.1", "0".repeat(64)), "404", "it offers nothing with the hash"),
            ("GET /objects/..%2fkey HTTP/1.1", "404", "files are at /objects/"),
            ("GET / HTTP/1.1", "404", "files are at /objects/"),
            ("POST /objects/model.bin HTTP/1.1", "405", "GET and HEAD only"),
            ("GET /objects/model.bin HTTP/1.1\r\nHost: pages.example:7480", "421", "for programs of this host"),
            ("GET /objects/nothing HTTP/1.1\r\nHost: LocalHost", "404", "it offers no `nothing`"),
            ("GET /objects/nothing HTTP/1.1\r\nHost: [::1]:7480", "404", "it offers no `nothing`"),
        ] {
            check_answer(door, request, status, why).await;
        }
        let (_, list) = ask(door, "GET /objects/ HTTP/1.1").await;
        assert!(String::from_utf8(list).unwrap().contains("<a href=\"model.bin\">model.bin</a>"));
    });
}

/// HEAD has the status and the headers of GET, by name, by hash, in part and of a folder's file, and fetches nothing: the cache
/// stays empty.
#[test]
fn a_head_fetches_nothing() {
    block_on(async {
        let site = Site::new();
        let more = "cache_limit = \"12MiB\"\n";
        let [one, two, near] = site.three(&[("model.bin", 5 * MB + 7), ("empty", 0), ("large", 13 * MB)], more).await;
        write_folder(&site.path("models"));
        let folder = format!("[objects.folders.models]\npath = {:?}\n", site.path("models"));
        let third = site.daemon("three", &[], &folder).await;
        while third.status().objects.unwrap().folders[0].hash.is_none() {
            tokio::task::yield_now().await;
        }
        let far = site.daemon("far", &[third.objects().unwrap()], "").await;
        let (head, _) = ask(near.doors()[0], "HEAD /objects/model.bin HTTP/1.1").await;
        let tag = head.lines().find_map(|line| line.strip_prefix("etag: ")).unwrap().to_owned();
        let hash = tag.trim_matches('"').to_owned();
        let asked = [
            (&near, "model.bin".to_owned(), ""),
            (&near, hash.clone(), ""),
            (&near, hash.clone(), "\r\nRange: bytes=4000000-4000009"),
            (&near, hash.clone(), "\r\nRange: bytes=99999999-"),
            (&near, "empty".to_owned(), ""),
            (&near, "large".to_owned(), ""),
            (&near, "nothing".to_owned(), ""),
            (&near, "0".repeat(64), ""),
            (&far, "models/sub/deep.bin".to_owned(), ""),
            (&far, "models/latest".to_owned(), "\r\nRange: bytes=-5"),
            (&far, "models/none".to_owned(), ""),
        ];
        let tagged = format!("\r\nIf-None-Match: {tag}");
        let all: Vec<_> = asked.into_iter().chain([(&near, hash.clone(), &tagged[..])]).collect();
        let answers = async |method: &str| {
            let mut heads = Vec::new();
            for (daemon, path, more) in &all {
                let (head, body) = ask(daemon.doors()[0], &format!("{method} /objects/{path} HTTP/1.1{more}")).await;
                assert!(method == "GET" || body.is_empty(), "{path}");
                heads.push(head.lines().filter(|line| !line.starts_with("date: ")).collect::<Vec<_>>().join("\n"));
            }
            heads
        };
        let heads = answers("HEAD").await;
        let statuses: Vec<&str> = heads.iter().map(|head| &head[9..12]).collect();
        let expected = ["200", "200", "206", "416", "200", "507", "404", "404", "200", "206", "404", "304"];
        assert_eq!(statuses, expected);
        for (daemon, name) in [(&near, "near"), (&far, "far")] {
            let status = daemon.status().objects.unwrap();
            let cached = std::fs::read_dir(site.path(&format!("{name}-cache"))).unwrap().count();
            assert_eq!((status.files, status.fetches, cached), (0, 0, 0), "{name}");
        }
        for (head, (get, (_, path, more))) in heads.iter().zip(answers("GET").await.iter().zip(&all)) {
            // The lengths of texts that say why differ by what they say.
            let of_file = |head: &str| {
                let text = head.contains("text/plain");
                head.lines().filter(|line| !text || !line.starts_with("content-length")).collect::<Vec<_>>().join("\n")
            };
            assert_eq!(of_file(head), of_file(get), "{path}{more}");
        }
        drop((one, two, third));
    });
}

/// A request is answered with this status, and a text that has `why` in it.
async fn check_answer(door: SocketAddr, request: &str, status: &str, why: &str) {
    let (head, body) = ask(door, request).await;
    let body = String::from_utf8(body).unwrap();
    assert!(head.starts_with(&format!("http/1.1 {status}")) && body.contains(why), "{request}: {head} {body}");
}

/// A folder like those of the other sources.
fn write_folder(folder: &Path) {
    let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(784_111_777);
    std::fs::create_dir_all(folder.join("sub")).unwrap();
    for (name, bytes) in [("sub/deep.bin", 3 * MB + 5), ("b & c", 9), ("empty", 0), (".hidden", 1)] {
        std::fs::write(folder.join(name), content(bytes)).unwrap();
        std::fs::File::options().write(true).open(folder.join(name)).unwrap().set_modified(time).unwrap();
    }
    std::fs::hard_link(folder.join("sub/deep.bin"), folder.join("sub/other")).unwrap();
    std::os::unix::fs::symlink("sub/deep.bin", folder.join("latest")).unwrap();
}

/// A program gets files of a folder that two daemons offer, by their paths, over links and in parts, with their times; lists
/// name what is there, and nothing else is. The same folder is fetched as a whole, and the hash of its listing is told.
#[test]
fn programs_fetch_from_a_folder() {
    block_on(async {
        let site = Site::new();
        let mut daemons = Vec::new();
        for name in ["one", "two"] {
            write_folder(&site.path(&format!("{name}-models")));
            let more = format!("[objects.folders.models]\npath = \"{name}-models\"\n");
            daemons.push(site.daemon(name, &[], &more).await);
        }
        let sources: Vec<SocketAddr> = daemons.iter().map(|daemon| daemon.objects().unwrap()).collect();
        let mut hashes = Vec::new();
        for daemon in &daemons {
            hashes.push(loop {
                let folders = daemon.status().objects.unwrap().folders;
                if let Some(hash) = folders[0].hash.clone() {
                    break hash;
                }
                tokio::task::yield_now().await;
            });
        }
        assert_eq!(hashes[0], hashes[1]);
        let near = site.daemon("near", &sources, "").await;
        let (door, all) = (near.doors()[0], content(3 * MB + 5));
        let (head, body) = ask(door, "GET /objects/models/sub/deep.bin HTTP/1.1").await;
        assert!(head.starts_with("http/1.1 200 ok") && body == all, "{head}");
        assert!(head.contains("last-modified: sun, 06 nov 1994 08:49:37 gmt"), "{head}");
        for (request, status, expected) in [
            (
                "GET /objects/models/latest HTTP/1.1\r\nRange: bytes=3145727-3145730",
                "206",
                &all[3 * MB - 1..3 * MB + 3],
            ),
            ("GET /objects/models/sub/other HTTP/1.1\r\nRange: bytes=-5", "206", &all[3 * MB..]),
            ("GET /objects/models/b%20%26%20c HTTP/1.1", "200", &content(9)[..]),
            ("GET /objects/models/empty HTTP/1.1", "200", b""),
            ("HEAD /objects/models/latest HTTP/1.1", "200", b""),
        ] {
            let (head, body) = ask(door, request).await;
            assert!(head.starts_with(&format!("http/1.1 {status}")) && body == expected, "{request}: {head}");
        }
        for (request, status, why) in [
            ("GET /objects/models/ HTTP/1.1", "200", "<a href=\"b%20%26%20c\">b &amp; c</a>\n<a href=\"empty\">"),
            ("GET /objects/models/ HTTP/1.1", "200", "<a href=\"sub/\">sub/</a>\n</pre>"),
            ("GET /objects/models/sub/ HTTP/1.1", "200", "<a href=\"deep.bin\">deep.bin</a>\n<a href=\"other\">"),
            ("GET /objects/models/sub HTTP/1.1", "301", "it is a folder"),
            ("GET /objects/models/none HTTP/1.1", "404", "models/none: it is not in the folder"),
            ("GET /objects/models/empty/ HTTP/1.1", "404", "it is not in the folder"),
            ("GET /objects/models/.hidden HTTP/1.1", "404", "files are at"),
            ("GET /objects/models/sub/../b HTTP/1.1", "404", "files are at"),
            ("GET /objects/none/file HTTP/1.1", "404", "it offers no `none/`"),
            ("GET /objects/deep.bin HTTP/1.1", "404", "it offers no `deep.bin`"),
        ] {
            check_answer(door, request, status, why).await;
        }
        let (head, _) = ask(door, "GET /objects/models/sub HTTP/1.1").await;
        assert!(head.contains("\r\nlocation: /objects/models/sub/\r\n"), "{head}");
        let (_, list) = ask(door, "GET /objects/ HTTP/1.1").await;
        assert!(!String::from_utf8(list).unwrap().contains("href"), "what is kept under its hash is not listed");
        let (_, list) = ask(daemons[0].doors()[0], "GET /objects/ HTTP/1.1").await;
        assert!(String::from_utf8(list).unwrap().contains("<a href=\"models/\">models/</a>"));
        let into = site.path("copy");
        let copied = into.clone();
        let fetched = tokio::task::spawn_blocking(move || {
            let settings = Settings { keys: Keys::Preshared([0x0b; 32]), ..Settings::default() };
            let wanted = WantedFolder { name: "models/".to_owned(), ..WantedFolder::default() };
            let (target, going) = (Target::File(copied), AtomicBool::new(false));
            fetch_folder(&sources, &wanted, &target, &settings, &going, |_| {}, |_| {})
        });
        let fetched = fetched.await.unwrap().unwrap();
        assert_eq!(fetched.hash.to_string(), hashes[0]);
        assert!(std::fs::read(into.join("latest")).unwrap() == all);
        assert_eq!(std::fs::metadata(into.join("sub/other")).unwrap().nlink(), 2);
    });
}

/// A program that reads a folder file by file finds the next ones here: four are fetched ahead once it asks for one that
/// follows the one before, and none for a single request.
#[test]
fn the_next_files_of_a_folder_come_ahead() {
    block_on(async {
        let site = Site::new();
        let folder = site.path("one-models");
        std::fs::create_dir_all(&folder).unwrap();
        for number in 0..9 {
            std::fs::write(folder.join(format!("{number}.bin")), content(10_000 + number)).unwrap();
        }
        let one = site.daemon("one", &[], "[objects.folders.models]\npath = \"one-models\"\n").await;
        while one.status().objects.unwrap().folders[0].hash.is_none() {
            tokio::task::yield_now().await;
        }
        let near = site.daemon("near", &[one.objects().unwrap()], "").await;
        let (door, cache) = (near.doors()[0], site.path("near-cache"));
        let files = OfferedFiles::new();
        files.add_folder(&folder, &FolderFilter::default()).unwrap();
        let hash = |number: usize| files.find(&FileSelector::Name(format!("{number}.bin"))).unwrap().offered().hash;
        let here = |number: usize| cache.join(hash(number).to_string()).exists();
        let which = || (0..9).filter(|number| here(*number)).collect::<Vec<_>>();
        let get = async |number: usize| {
            let (head, body) = ask(door, &format!("GET /objects/models/{number}.bin HTTP/1.1")).await;
            assert!(head.starts_with("http/1.1 200") && body == content(10_000 + number), "{head}");
        };
        for (number, expected) in
            [(7, vec![7]), (0, vec![0, 7]), (1, vec![0, 1, 2, 3, 4, 5, 7]), (3, vec![0, 1, 2, 3, 4, 5, 6, 7])]
        {
            get(number).await;
            while which() != expected {
                assert!(which().iter().all(|number| expected.contains(number)), "{:?}", which());
                tokio::task::yield_now().await;
            }
        }
    });
}

/// Many programs ask for one file at once: it is fetched once, and who has it in its cache is a source of it.
#[test]
fn a_cache_is_a_source() {
    block_on(async {
        let site = Site::new();
        let [one, two, near] = site.three(&[("model.bin", 3 * MB)], "").await;
        let door = near.doors()[0];
        let asks: Vec<_> =
            (0..8).map(|_| tokio::spawn(async move { ask(door, "GET /objects/model.bin HTTP/1.1").await.1 })).collect();
        for ask in asks {
            assert!(ask.await.unwrap() == content(3 * MB));
        }
        drop((one, two));
        let last = site.daemon("last", &[near.objects().unwrap()], "").await;
        let (head, body) = ask(last.doors()[0], "GET /objects/model.bin HTTP/1.1").await;
        assert!(head.starts_with("http/1.1 200") && body == content(3 * MB), "{head}");
    });
}

/// A source that is asked for what it alone has, by its hash, does not choose what a name means here: who asks for a name gets
/// what most sources offer under it.
#[test]
fn a_source_names_nothing_here() {
    block_on(async {
        let site = Site::new();
        let [one, two, near] = site.three(&[("model.bin", MB)], "").await;
        std::fs::create_dir_all(site.path("liar-offered")).unwrap();
        std::fs::write(site.path("liar-offered/model.bin"), b"another model").unwrap();
        let liar = site.daemon("liar", &[], "").await;
        while liar.status().objects.unwrap().files < 1 {
            tokio::task::yield_now().await;
        }
        drop(near);
        let sources = [&one, &two, &liar].map(|daemon| daemon.objects().unwrap());
        let near = site.daemon("nearer", &sources, "").await;
        let (head, _) = ask(liar.doors()[0], "HEAD /objects/model.bin HTTP/1.1").await;
        let hash =
            head.lines().find_map(|line| line.strip_prefix("etag: \"")).unwrap().trim_end_matches('"').to_owned();
        let door = near.doors()[0];
        let (_, body) = ask(door, &format!("GET /objects/{hash} HTTP/1.1")).await;
        assert_eq!(body, b"another model");
        let (head, body) = ask(door, "GET /objects/model.bin HTTP/1.1").await;
        assert!(body == content(MB), "{head}");
        let (_, body) = ask(door, &format!("GET /objects/{hash} HTTP/1.1")).await;
        assert_eq!(body, b"another model");
    });
}

/// A program that asks for the end of a file gets it before the rest is here.
#[test]
fn the_end_comes_ahead_of_the_rest() {
    block_on(async {
        let site = Site::new();
        let all = content(48 * MB);
        std::fs::create_dir_all(site.path("one-offered")).unwrap();
        std::fs::write(site.path("one-offered/model.bin"), &all).unwrap();
        // The rest takes ten seconds more.
        let one = site.daemon_of_class("one", &[], "", "max_rate = \"40Mbit/s\"\n").await;
        while one.status().objects.unwrap().files == 0 {
            tokio::task::yield_now().await;
        }
        let near = site.daemon("near", &[one.objects().unwrap()], "").await;
        let range = "GET /objects/model.bin HTTP/1.1\r\nRange: bytes=-1000000";
        let (head, body) = ask(near.doors()[0], range).await;
        assert!(head.starts_with("http/1.1 206") && body == all[all.len() - 1_000_000..], "{head}");
        assert!(!site.path("near-cache/model.bin").exists());
    });
}

/// One user has two of the four places for parts that are fetched ahead: the third part waits for the bytes before it.
#[test]
fn a_user_has_half_of_the_parts_ahead() {
    block_on(async {
        let site = Site::new();
        std::fs::create_dir_all(site.path("one-offered")).unwrap();
        std::fs::write(site.path("one-offered/model.bin"), content(48 * MB)).unwrap();
        // No part comes whole while this test runs.
        let one = site.daemon_of_class("one", &[], "", "max_rate = \"4Mbit/s\"\n").await;
        while one.status().objects.unwrap().files == 0 {
            tokio::task::yield_now().await;
        }
        let near = site.daemon("near", &[one.objects().unwrap()], "").await;
        let mut waiting = Vec::new();
        for first_mb in [24, 30, 36] {
            let mut tcp = TcpStream::connect(near.doors()[0]).await.unwrap();
            let range = format!("Range: bytes={}-", first_mb * MB);
            let request = format!("GET /objects/model.bin HTTP/1.1\r\nHost: localhost\r\n{range}\r\n\r\n");
            tcp.write_all(request.as_bytes()).await.unwrap();
            let mut head = [0; 12];
            tcp.read_exact(&mut head).await.unwrap();
            assert_eq!(&head, b"HTTP/1.1 206");
            waiting.push(tcp);
        }
        let entries = std::fs::read_dir(site.path("near-cache")).unwrap().flatten();
        let is_part = |entry: &std::fs::DirEntry| entry.file_name().to_string_lossy().starts_with(".pliant-beside-");
        assert_eq!(entries.filter(is_part).count(), 2);
    });
}

/// Sources that are gone, or do not agree, are a bad gateway; a file that is larger than the cache may be is refused, and the
/// cache keeps below its limit.
#[test]
fn what_cannot_be_fetched_is_said() {
    block_on(async {
        let site = Site::new();
        let files = [("a", MB), ("b", MB), ("large", 3 * MB)];
        let [_one, _two, near] = site.three(&files, "cache_limit = \"2MiB\"\n").await;
        let door = near.doors()[0];
        for _ in 0..2 {
            for name in ["a", "b"] {
                assert!(ask(door, &format!("GET /objects/{name} HTTP/1.1")).await.1 == content(MB));
            }
        }
        let (head, body) = ask(door, "GET /objects/large HTTP/1.1").await;
        assert!(head.starts_with("http/1.1 507"), "{head} {}", String::from_utf8_lossy(&body));
        let cached: u64 = std::fs::read_dir(site.path("near-cache"))
            .unwrap()
            .map(|file| file.unwrap().metadata().unwrap().len())
            .sum();
        assert!(cached <= 2 * MB as u64, "{cached}");
        std::fs::write(site.path("odd"), b"x").unwrap();
        let nobody = site.daemon("alone", &["127.0.0.1:9".parse().unwrap()], "").await;
        let (head, _) = ask(nobody.doors()[0], "GET /objects/a HTTP/1.1").await;
        assert!(head.starts_with("http/1.1 502"), "{head}");
    });
}

/// A mirror without TLS that redirects to a place with it, whose certificate nobody knows, or which speaks none: the program hears of
/// it, and so does the next one. The fetch keeps no place.
#[test]
fn a_redirection_to_tls_keeps_no_place() {
    block_on(async {
        let mirror = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let at = mirror.local_addr().unwrap();
        std::thread::spawn(move || {
            for mut stream in mirror.incoming().flatten() {
                let _ = std::io::Read::read(&mut stream, &mut [0; 1024]);
                let head = format!("HTTP/1.1 302 Found\r\nLocation: https://{at}/x\r\nContent-Length: 0\r\n\r\n");
                let _ = std::io::Write::write_all(&mut stream, head.as_bytes());
            }
        });
        let site = Site::new();
        let hash = "0c".repeat(32);
        let more = format!("mirrors = [\"http://{at}/\"]\n[objects.hashes]\n\"model.bin\" = \"{hash}\"\n");
        let near = site.daemon("near", &[], &more).await;
        for _ in 0..2 {
            let asked = check_answer(near.doors()[0], "GET /objects/model.bin HTTP/1.1", "502", "TLS: ");
            tokio::time::timeout(Duration::from_secs(20), asked).await.unwrap();
        }
        assert_eq!(near.status().objects.unwrap().fetches, 0);
    });
}

/// A hash that no source has, and for which there is no name to ask a mirror by, is unknown: the program hears of it, and the fetch
/// keeps no place.
#[test]
fn a_hash_without_a_name_is_not_left_to_mirrors() {
    block_on(async {
        let site = Site::new();
        let far = site.daemon("far", &[], "").await;
        let near = site.daemon("near", &[far.objects().unwrap()], "mirrors = [\"http://127.0.0.1:9/\"]").await;
        for method in ["GET", "HEAD"] {
            let request = format!("{method} /objects/{} HTTP/1.1", "0c".repeat(32));
            let asked = ask(near.doors()[0], &request);
            let (head, _) = tokio::time::timeout(Duration::from_secs(20), asked).await.unwrap();
            assert!(head.starts_with("http/1.1 404"), "{method}: {head}");
        }
        assert_eq!(near.status().objects.unwrap().fetches, 0);
    });
}

/// A file that is larger than the cache is told as such, even if another source does not have it.
#[test]
fn what_does_not_fit_is_not_unknown() {
    block_on(async {
        let site = Site::new();
        let [one, two, _] = site.three(&[("model.bin", 5 * MB)], "").await;
        std::fs::write(site.path("one-offered/other.bin"), content(5 * MB)).unwrap();
        std::fs::write(site.path("two-offered/more.bin"), content(5 * MB)).unwrap();
        let sources = [one.objects().unwrap(), two.objects().unwrap()];
        let small = site.daemon("small", &sources, "cache_limit = \"4MB\"").await;
        for daemon in [&one, &two] {
            while daemon.status().objects.unwrap().files < 2 {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
        for name in ["model.bin", "other.bin", "more.bin"] {
            let (head, _) = ask(small.doors()[0], &format!("GET /objects/{name} HTTP/1.1")).await;
            assert!(head.starts_with("http/1.1 507"), "{name}: {head}");
        }
    });
}

/// A file that goes from a folder of this daemon, which has not seen that yet, comes from a source that offers the same.
#[test]
fn what_cannot_be_read_here_is_fetched() {
    block_on(async {
        let site = Site::new();
        for name in ["here", "there"] {
            std::fs::create_dir_all(site.path(name)).unwrap();
            std::fs::write(site.path(name).join("a"), content(1000)).unwrap();
        }
        let there = site.daemon("far", &[], "[objects.folders.there]\npath = \"there\"\n").await;
        let here = site.daemon("near", &[there.objects().unwrap()], "[objects.folders.here]\npath = \"here\"\n").await;
        for daemon in [&here, &there] {
            while daemon.status().objects.unwrap().folders[0].hash.is_none() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
        std::fs::remove_file(site.path("here/a")).unwrap();
        let (head, body) = ask(here.doors()[0], "GET /objects/there/a HTTP/1.1").await;
        assert!(head.starts_with("http/1.1 200") && body == content(1000), "{head}{}", String::from_utf8_lossy(&body));
    });
}

/// A disk that is full, and sources that are all gone, are told to the program as long as nothing was sent to it, and in the log in
/// any case, on one line. The log is a process's own, and so is the limit that stands for a full disk: the test calls itself.
#[test]
fn why_a_fetch_fails_is_said_and_logged() {
    const SOURCES: &str = "PLIANT_TEST_SOURCES";
    if let Ok(sources) = std::env::var(SOURCES) {
        return block_on(async {
            let sources: Vec<SocketAddr> = sources.split(' ').map(|source| source.parse().unwrap()).collect();
            let site = Site::new();
            let near = site.daemon("near", &sources, "").await;
            let (head, body) = ask(near.doors()[0], "GET /objects/model.bin HTTP/1.1").await;
            let shown = &body[..body.len().min(300)];
            println!("{head}{} bytes: {}", body.len(), String::from_utf8_lossy(shown));
            // A fetch writes its line before it is over, and the program may have its answer before that.
            while near.status().objects.unwrap().fetches > 0 {
                tokio::task::yield_now().await;
            }
        });
    }
    block_on(async {
        let site = Site::new();
        let [one, two, _near] = site.three(&[("model.bin", 5 * MB)], "").await;
        let there = [one.objects().unwrap(), two.objects().unwrap()];
        let silent = [(); 2].map(|()| std::net::UdpSocket::bind("127.0.0.1:0").unwrap());
        let gone = [0, 1].map(|at: usize| silent[at].local_addr().unwrap());
        let named = format!("no source answers within 5s; asked were s0 at {}, s1 at {}", gone[0], gone[1]);
        // Shells count in blocks of 512 or of 1,024 bytes. A block of the file has 2 MiB: the second disk has room for the first,
        // which the program has or has not when the second fails.
        for (sources, limit, statuses, why) in [
            (there, 1024, ["507", "507"], "File too large"),
            (there, 4500, ["200", "507"], "File too large"),
            (gone, 100_000, ["502", "502"], &*named),
        ] {
            let mut child = Command::new("sh");
            let call = format!("trap '' XFSZ; ulimit -f {limit}; exec \"$0\" --exact \"$1\" --nocapture");
            child.args(["-c", &call]).arg(std::env::current_exe().unwrap()).arg("why_a_fetch_fails_is_said_and_logged");
            child.env(SOURCES, sources.map(|source| source.to_string()).join(" "));
            let output = tokio::task::spawn_blocking(move || child.output()).await.unwrap().unwrap();
            let (said, log) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            let told: Vec<&str> = log.lines().filter(|line| line.starts_with("objects: ")).collect();
            let status = statuses.into_iter().find(|status| said.contains(&format!("http/1.1 {status}")));
            let status = status.unwrap_or_else(|| panic!("{said}{log}"));
            assert!(status == "200" || said.contains(why.split(';').next().unwrap()), "{said}{log}");
            assert!(told.len() == 1 && told[0].starts_with("objects: model.bin: ") && told[0].contains(why), "{log}");
        }
    });
}

/// curl gets a file from two sources, goes on where it was cut off, and does not load again what it has.
#[test]
fn curl_fetches_from_two_sources() {
    if Command::new("curl").arg("--version").output().is_err() {
        eprintln!("skipped: curl is not installed");
        return;
    }
    block_on(async {
        let site = Site::new();
        let [_one, _two, near] = site.three(&[("model.bin", 5 * MB)], "").await;
        let url = format!("http://{}/objects/model.bin", near.doors()[0]);
        let (copy, tag) = (site.path("copy"), site.path("tag"));
        let curl = |arguments: &[&str], copy: &Path| {
            let mut curl = Command::new("curl");
            curl.args(["--silent", "--show-error", "--fail", "--noproxy", "*", "--output"])
                .arg(copy)
                .args(arguments)
                .arg(&url);
            let output = curl.output().unwrap();
            (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
        };
        let run = |arguments: &[&str], copy: &Path| tokio::task::block_in_place(|| curl(arguments, copy));
        let (tag_text, copy_path) = (tag.display().to_string(), copy.clone());
        assert_eq!(run(&["--etag-save", &tag_text], &copy_path), (Some(0), String::new()));
        assert!(std::fs::read(&copy).unwrap() == content(5 * MB));
        let cut = std::fs::OpenOptions::new().write(true).open(&copy).unwrap();
        cut.set_len(3_000_001).unwrap();
        assert_eq!(run(&["--continue-at", "-"], &copy), (Some(0), String::new()));
        assert!(std::fs::read(&copy).unwrap() == content(5 * MB));
        let again = site.path("again");
        assert_eq!(run(&["--etag-compare", &tag_text], &again), (Some(0), String::new()));
        assert!(!again.exists() || std::fs::read(&again).unwrap().is_empty());
    });
}

fn sha256(content: &[u8]) -> String {
    let hash = ring::digest::digest(&ring::digest::SHA256, content);
    hash.as_ref().iter().fold(String::new(), |mut digits, byte| {
        let _ = write!(digits, "{byte:02x}");
        digits
    })
}

/// A layout with one image of one layer; the digests of its manifest and of the layer.
fn write_layout(folder: &Path, tag: &str, layer: &[u8]) -> (String, String) {
    let blobs = folder.join("blobs/sha256");
    std::fs::create_dir_all(&blobs).unwrap();
    let write = |content: &[u8]| {
        let digest = sha256(content);
        std::fs::write(blobs.join(&digest), content).unwrap();
        (digest, content.len())
    };
    let (layer, layer_bytes) = write(layer);
    let (config, config_bytes) = write(
        format!(
            r#"{{"architecture":"amd64","os":"linux","config":{{}},"rootfs":{{"type":"layers","diff_ids":["sha256:{layer}"]}}}}"#
        )
        .as_bytes(),
    );
    let (manifest, manifest_bytes) = write(
        format!(
            r#"{{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json",
            "config":{{"mediaType":"application/vnd.oci.image.config.v1+json","digest":"sha256:{config}","size":{config_bytes}}},
            "layers":[{{"mediaType":"application/vnd.oci.image.layer.v1.tar","digest":"sha256:{layer}","size":{layer_bytes}}}]}}"#
        )
        .as_bytes(),
    );
    std::fs::write(folder.join("oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#).unwrap();
    let index = format!(
        r#"{{"schemaVersion":2,"manifests":[{{"mediaType":"application/vnd.oci.image.manifest.v1+json",
        "digest":"sha256:{manifest}","size":{manifest_bytes},
        "annotations":{{"org.opencontainers.image.ref.name":"{tag}"}}}}]}}"#
    );
    std::fs::write(folder.join("index.json"), index).unwrap();
    (manifest, layer)
}

/// Two hosts with this image, whose files may be spoiled, and one that has none and is asked; the digests of its manifest and
/// of the layer.
async fn images(site: &Site, layer: &[u8], spoiled: bool) -> ([Daemon; 3], String, String) {
    let layouts = ["one", "two"].map(|name| site.path(&format!("{name}-offered")));
    let [digests, _] = layouts.each_ref().map(|layout| write_layout(layout, "team/app:1.0", layer));
    for layout in layouts.iter().filter(|_| spoiled) {
        for digest in [&digests.0, &digests.1] {
            std::fs::write(layout.join("blobs/sha256").join(digest), "{}").unwrap();
        }
    }
    let (one, two) = (site.daemon("one", &[], "").await, site.daemon("two", &[], "").await);
    for daemon in [&one, &two] {
        // Three blobs, and what the name stands for.
        while daemon.status().objects.unwrap().files < 4 {
            tokio::task::yield_now().await;
        }
    }
    let near = site.daemon("near", &[one.objects().unwrap(), two.objects().unwrap()], "").await;
    ([one, two, near], digests.0, digests.1)
}

/// An image is pulled by its name and by digests; a host has what it pulled; what nobody has, or is no name, is said with the
/// codes of the specification.
#[test]
fn images_are_pulled() {
    block_on(async {
        let site = Site::new();
        let all = content(3 * MB);
        let ([one, two, near], manifest, layer) = images(&site, &all, false).await;
        let door = near.doors()[0];
        assert!(ask(door, "GET /v2/ HTTP/1.1").await.0.starts_with("http/1.1 200"));
        let path = format!("/v2/team/app/blobs/sha256:{layer}");
        let by_digest = format!("/v2/team/app/manifests/sha256:{manifest}");
        let by_tag = "/v2/team/app/manifests/1.0".to_owned();
        for path in [&by_tag, &format!("{by_tag}?ns=registry.example"), &by_digest] {
            for method in ["GET", "HEAD"] {
                let (head, body) = ask(door, &format!("{method} {path} HTTP/1.1")).await;
                assert!(head.starts_with("http/1.1 200"), "{head}");
                assert!(head.contains(&format!("docker-content-digest: sha256:{manifest}")), "{head}");
                assert!(head.contains("content-type: application/vnd.oci.image.manifest.v1+json"), "{head}");
                assert_eq!(body.is_empty(), method == "HEAD");
                assert!(method == "HEAD" || sha256(&body) == manifest);
            }
        }
        let (head, body) = ask(door, &format!("GET {path} HTTP/1.1")).await;
        assert!(head.starts_with("http/1.1 200") && body == all, "{head}");
        let (head, body) = ask(door, &format!("GET {path} HTTP/1.1\r\nRange: bytes=7-9")).await;
        assert!(head.starts_with("http/1.1 206") && body == all[7..10], "{head}");
        for (request, status, code) in [
            ("GET /v2/team/app/manifests/2.0 HTTP/1.1".to_owned(), "404", "MANIFEST_UNKNOWN"),
            (format!("GET /v2/team/app/blobs/sha256:{} HTTP/1.1", "0".repeat(64)), "404", "BLOB_UNKNOWN"),
            ("GET /v2/team/app/blobs/sha256:0 HTTP/1.1".to_owned(), "400", "DIGEST_INVALID"),
            ("GET /v2/../app/manifests/1.0 HTTP/1.1".to_owned(), "400", "NAME_INVALID"),
            ("GET /v2/team/app/tags/list HTTP/1.1".to_owned(), "404", "UNSUPPORTED"),
            ("POST /v2/team/app/blobs/uploads/ HTTP/1.1".to_owned(), "405", "UNSUPPORTED"),
        ] {
            let (head, body) = ask(door, &request).await;
            let body = String::from_utf8(body).unwrap();
            assert!(head.starts_with(&format!("http/1.1 {status}")) && body.contains(code), "{request}: {head} {body}");
        }
        drop((one, two));
        let (head, body) = ask(door, &format!("GET {path} HTTP/1.1")).await;
        assert!(head.starts_with("http/1.1 200") && body == all, "{head}");
    });
}

/// However often a blob is asked for while it comes, nothing is kept of the requests, and one task waits to verify it.
#[test]
fn a_blob_is_verified_once() {
    block_on(async {
        let site = Site::new();
        let all = content(3 * MB);
        let (_, layer) = write_layout(&site.path("one-offered"), "team/app:1.0", &all);
        let one = site.daemon_of_class("one", &[], "", "max_rate = \"8Mbit/s\"\n").await;
        while one.status().objects.unwrap().files < 4 {
            tokio::task::yield_now().await;
        }
        let near = site.daemon("near", &[one.objects().unwrap()], "").await;
        let request = format!("/v2/team/app/blobs/sha256:{layer} HTTP/1.1");
        let head = async || {
            let (head, _) = ask(near.doors()[0], &format!("HEAD {request}")).await;
            assert!(
                head.starts_with("http/1.1 200") && head.contains(&format!("content-length: {}", all.len())),
                "{head}"
            );
        };
        head().await;
        assert_eq!(near.status().objects.unwrap().files, 0, "it is not fetched for that");
        let (_, first) = ask(near.doors()[0], &format!("GET {request}\r\nRange: bytes=0-0")).await;
        assert_eq!(first, all[..1]);
        let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
        let before = tasks();
        for _ in 0..100 {
            head().await;
        }
        // A connection's own task may be about to end.
        assert!(tasks() < before + 10, "{} tasks after {before}", tasks());
        assert!(ask(near.doors()[0], &format!("GET {request}")).await.1 == all);
        assert!(ask(near.doors()[0], &format!("GET {request}")).await.1 == all, "it was verified");
    });
}

/// Sources that agree on what has not the digest by which it is named: a manifest is refused, and nothing of it is kept.
#[test]
fn what_is_false_is_not_kept() {
    block_on(async {
        let site = Site::new();
        let (daemons, manifest, layer) = images(&site, b"layer", true).await;
        let door = daemons[2].doors()[0];
        for asked in [format!("manifests/sha256:{manifest}"), "manifests/1.0".to_owned()] {
            let (head, body) = ask(door, &format!("GET /v2/team/app/{asked} HTTP/1.1")).await;
            assert!(head.starts_with("http/1.1 502"), "{head}");
            let said = String::from_utf8(body).unwrap();
            assert!(said.contains("MANIFEST_INVALID") && said.contains("another digest"), "{said}");
        }
        let (head, body) = ask(door, &format!("GET /v2/team/app/blobs/sha256:{layer} HTTP/1.1")).await;
        assert!(head.starts_with("http/1.1 502"), "{head}");
        assert!(String::from_utf8(body).unwrap().contains("another digest"));
        let kept = || [&manifest, &layer].iter().any(|digest| site.path(&format!("near-cache/{digest}")).exists());
        while daemons[2].status().objects.unwrap().files > 0 || kept() {
            tokio::task::yield_now().await;
        }
    });
}

/// A false blob of many pieces, whose first ones are given before it is known to be false, is never given to its end: not as a
/// whole, nor where a program goes on after it was cut off.
#[test]
fn a_false_blob_has_no_end() {
    block_on(async {
        let site = Site::new();
        let (all, named) = (content(3 * MB), sha256(b"what it is named by"));
        for name in ["one", "two"] {
            let blobs = site.path(&format!("{name}-offered/blobs/sha256"));
            write_layout(&site.path(&format!("{name}-offered")), "team/app:1.0", b"layer");
            std::fs::write(blobs.join(&named), &all).unwrap();
        }
        let (one, two) = (site.daemon("one", &[], "").await, site.daemon("two", &[], "").await);
        for daemon in [&one, &two] {
            while daemon.status().objects.unwrap().files < 5 {
                tokio::task::yield_now().await;
            }
        }
        let near = site.daemon("near", &[one.objects().unwrap(), two.objects().unwrap()], "").await;
        let request = format!("GET /v2/team/app/blobs/sha256:{named} HTTP/1.1");
        for from in [0, 2 * MB, 3 * MB - 1] {
            let (head, body) = ask(near.doors()[0], &format!("{request}\r\nRange: bytes={from}-")).await;
            let is_begun = head.starts_with("http/1.1 206") && body.len() < all.len() - from;
            assert!(is_begun || head.starts_with("http/1.1 502"), "{from}: {head}, {} bytes", body.len());
        }
        // Parts before the end are for programs that verify them.
        let (head, body) = ask(near.doors()[0], &format!("{request}\r\nRange: bytes=0-9")).await;
        assert!(head.starts_with("http/1.1 206") && body == all[..10], "{head}");
    });
}

/// A tag's descriptor of more bytes than are read is a fault of its source, and none of the cache.
#[test]
fn a_large_descriptor_is_refused() {
    block_on(async {
        let site = Site::new();
        let folder = site.path("one-offered");
        write_layout(&folder, "team/app:1.0", b"layer");
        let index = std::fs::read_to_string(folder.join("index.json")).unwrap();
        let long = format!("application/{}", "x".repeat(5000));
        let index = index.replacen(
            r#"{"mediaType":"application/vnd.oci.image.manifest.v1+json""#,
            &format!(r#"{{"mediaType":"{long}""#),
            1,
        );
        std::fs::write(folder.join("index.json"), index).unwrap();
        let one = site.daemon("one", &[], "").await;
        while one.status().objects.unwrap().files < 4 {
            tokio::task::yield_now().await;
        }
        let near = site.daemon("near", &[one.objects().unwrap()], "").await;
        let request = "GET /v2/team/app/manifests/1.0 HTTP/1.1";
        check_answer(near.doors()[0], request, "502", "bytes, and 4096 may be fetched").await;
        check_answer(one.doors()[0], request, "502", "at most 4096 are read").await;
    });
}

/// The same of what is known under its right digest, and named by another one.
#[test]
fn a_blob_has_one_digest() {
    block_on(async {
        let site = Site::new();
        let other = "0a".repeat(32);
        for name in ["one", "two"] {
            let blobs = site.path(&format!("{name}-offered/blobs/sha256"));
            std::fs::create_dir_all(&blobs).unwrap();
            std::fs::write(blobs.join(&other), b"layer").unwrap();
        }
        let (daemons, _, layer) = images(&site, b"layer", false).await;
        while daemons[..2].iter().any(|daemon| daemon.status().objects.unwrap().files < 5) {
            tokio::task::yield_now().await;
        }
        let door = daemons[2].doors()[0];
        let blob = |digest: &str| format!("GET /v2/team/app/blobs/sha256:{digest} HTTP/1.1");
        assert_eq!(ask(door, &blob(&layer)).await.1, b"layer");
        let _ = ask(door, &blob(&other)).await;
        // It may have begun before it is known to be false.
        let is_kept = || site.path(&format!("near-cache/{other}")).exists();
        while daemons[2].status().objects.unwrap().fetches > 0 || is_kept() {
            tokio::task::yield_now().await;
        }
        assert_eq!(ask(door, &blob(&layer)).await.1, b"layer");
    });
}

/// skopeo copies an image from a host that has none of it.
#[test]
fn skopeo_pulls_from_two_sources() {
    if Command::new("skopeo").arg("--version").output().is_err() {
        eprintln!("skipped: skopeo is not installed");
        return;
    }
    block_on(async {
        let site = Site::new();
        let (daemons, manifest, layer) = images(&site, &content(3 * MB), false).await;
        let from = format!("docker://{}/team/app:1.0", daemons[2].doors()[0]);
        let mut skopeo = Command::new("skopeo");
        skopeo.args(["copy", "--insecure-policy", "--src-tls-verify=false", "--quiet", &from]);
        skopeo.arg(format!("dir:{}", site.path("copy").display())).env("NO_PROXY", "*");
        let output = tokio::task::block_in_place(|| skopeo.output().unwrap());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let copied = |digest: &str| std::fs::read(site.path(&format!("copy/{digest}"))).unwrap();
        assert!(copied(&layer) == content(3 * MB));
        assert_eq!(sha256(&copied("manifest.json")), manifest);
    });
}
