//! Files that daemons offer, and that programs fetch from all of them by HTTP.

mod common;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::block_on;
use pliant_daemon::{Config, Daemon};
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
        std::fs::create_dir_all(self.path(&format!("{name}-offered"))).unwrap();
        let source = |(at, source): (usize, &SocketAddr)| format!("s{at} = \"{source}\"\n");
        let sources = sources.iter().enumerate().map(source).collect::<Vec<_>>().concat();
        let text = format!(
            "listen = \"127.0.0.1:0\"\nkey = \"key\"\n[classes.images]\ntransport = \"weighted-fair\"\n[objects]\n\
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
            let (head, body) = ask(door, request).await;
            let body = String::from_utf8(body).unwrap();
            assert!(head.starts_with(&format!("http/1.1 {status}")) && body.contains(why), "{request}: {head} {body}");
        }
        let (_, list) = ask(door, "GET /objects/ HTTP/1.1").await;
        assert!(String::from_utf8(list).unwrap().contains("<a href=\"model.bin\">model.bin</a>"));
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
