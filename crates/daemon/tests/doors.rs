//! Two daemons on loopback, programs on one side and services on the other.

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use pliant_daemon::{Config, Daemon};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Two daemons: programs connect to the doors of the first, services are at the second.
struct Pair {
    near: Daemon,
    _far: Daemon,
    _folder: tempfile::TempDir,
}

impl Pair {
    /// `doors` are tables of the near side's file, with HOSTB for the far peer; the far side allows `allow`.
    async fn new(doors: &str, allow: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let key = folder.path().join("key");
        std::fs::write(&key, format!("preshared {}", "0a".repeat(32))).unwrap();
        std::fs::set_permissions(&key, PermissionsExt::from_mode(0o600)).unwrap();
        let start = |text: String| {
            let head = format!("listen = \"127.0.0.1:0\"\nkey = \"{}\"\n", key.display());
            let config = Config::parse(&(head + &text), Path::new("pliant.toml")).unwrap();
            async move { Daemon::start(config).await.unwrap() }
        };
        let class = "[classes.bulk]\ntransport = \"dctcp\"\n";
        let far = start(format!("{class}[exit]\nallow = [{allow}]\n")).await;
        let peers = format!("[peers]\nhostb = \"{}\"\n", far.address());
        let near = start(format!("{peers}{class}{doors}")).await;
        Self { near, _far: far, _folder: folder }
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap().block_on(future)
}

/// A service that sends back what it gets, until the other side ends.
async fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut tcp, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut from, mut to) = tcp.split();
                let _ = tokio::io::copy(&mut from, &mut to).await;
                let _ = to.shutdown().await;
            });
        }
    });
    address
}

/// A service that nobody serves.
async fn closed() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap()
}

fn forward(target: SocketAddr) -> String {
    format!("[[forward]]\nlisten = \"127.0.0.1:0\"\nto = \"hostb\"\ntarget = \"{target}\"\nclass = \"bulk\"\n")
}

const PROXY: &str =
    "[proxy]\nlisten = \"127.0.0.1:0\"\n[[proxy.route]]\nhost = \"127.0.0.0/8\"\nto = \"hostb\"\nclass = \"bulk\"\n";

/// Sends all, ends, and reads what comes back until the end.
async fn exchange(mut tcp: TcpStream, bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    let (mut from, mut to) = tcp.split();
    let mut back = Vec::new();
    let sending = async {
        to.write_all(bytes).await?;
        to.shutdown().await
    };
    tokio::try_join!(sending, from.read_to_end(&mut back))?;
    Ok(back)
}

/// Megabytes go through a door and back, on many connections at once; each side ends by itself.
#[test]
fn connections_are_carried_both_ways() {
    block_on(async {
        let service = echo().await;
        let pair = Pair::new(&forward(service), &format!("\"{service}\"")).await;
        let door = pair.near.doors()[0];
        let mut tasks = tokio::task::JoinSet::new();
        for number in 0..20u8 {
            tasks.spawn(async move {
                let bytes: Vec<u8> = (0..300_000).map(|byte| (byte / 3) as u8 ^ number).collect();
                let back = exchange(TcpStream::connect(door).await.unwrap(), &bytes).await.unwrap();
                assert!(back == bytes);
            });
        }
        tasks.join_all().await;
        assert_eq!(pair.near.reports().len(), 1, "all in one bundle");
    });
}

/// What is not allowed, or not there, is a connection that was reset; SOCKS5 and HTTP say why.
#[test]
fn what_is_denied_or_absent_is_told() {
    block_on(async {
        let (service, absent, denied) = (echo().await, closed().await, echo().await);
        let doors = [forward(absent), forward(denied), PROXY.to_owned()].concat();
        let pair = Pair::new(&doors, &format!("\"{service}\", \"{absent}\"")).await;
        for door in &pair.near.doors()[..2] {
            let mut tcp = TcpStream::connect(door).await.unwrap();
            let error = tcp.read(&mut [0]).await.unwrap_err();
            assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
        }
        let proxy = pair.near.doors()[2];
        for (to, socks, http) in [(service, 0, "200"), (absent, 5, "502"), (denied, 2, "403")] {
            let mut tcp = TcpStream::connect(proxy).await.unwrap();
            let [high, low] = to.port().to_be_bytes();
            tcp.write_all(&[5, 1, 0, 5, 1, 0, 1, 127, 0, 0, 1, high, low]).await.unwrap();
            let mut answer = [0; 12];
            tcp.read_exact(&mut answer).await.unwrap();
            assert_eq!(answer[..4], [5, 0, 5, socks], "{to}");
            if socks == 0 {
                assert_eq!(exchange(tcp, b"hello").await.unwrap(), b"hello");
            }
            let mut tcp = TcpStream::connect(proxy).await.unwrap();
            tcp.write_all(format!("CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n\r\n").as_bytes()).await.unwrap();
            let mut answer = [0; 12];
            tcp.read_exact(&mut answer).await.unwrap();
            assert_eq!(str::from_utf8(&answer).unwrap(), format!("HTTP/1.1 {http}"), "{to}");
        }
        // No route, not CONNECT, and no language at all.
        for (request, expected) in [
            ("CONNECT 10.0.0.1:80 HTTP/1.1\r\n\r\n", "HTTP/1.1 403"),
            ("GET http://127.0.0.1/ HTTP/1.1\r\n\r\n", "HTTP/1.1 405"),
            ("CONNECT nonsense HTTP/1.1\r\n\r\n", "HTTP/1.1 400"),
            ("\x01\x02\x03\n\n", ""),
        ] {
            let mut tcp = TcpStream::connect(proxy).await.unwrap();
            tcp.write_all(request.as_bytes()).await.unwrap();
            let mut answer = Vec::new();
            let _ = tcp.read_to_end(&mut answer).await;
            assert!(String::from_utf8_lossy(&answer).starts_with(expected), "{request:?}: {answer:?}");
        }
    });
}

/// A reset on either side is a reset on the other.
#[test]
fn resets_go_through() {
    block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let service = listener.local_addr().unwrap();
        let pair = Pair::new(&forward(service), &format!("\"{service}\"")).await;
        for from_service in [true, false] {
            let mut program = TcpStream::connect(pair.near.doors()[0]).await.unwrap();
            program.write_all(b"x").await.unwrap();
            let (mut served, _) = listener.accept().await.unwrap();
            served.read_exact(&mut [0]).await.unwrap();
            let (ends, mut hears) = if from_service { (served, program) } else { (program, served) };
            rustix::net::sockopt::set_socket_linger(&ends, Some(std::time::Duration::ZERO)).unwrap();
            drop(ends);
            let error = hears.read(&mut [0]).await.unwrap_err();
            assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{from_service}");
        }
    });
}
