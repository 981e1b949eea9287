//! Two daemons on loopback, programs on one side and services on the other.

mod common;

use common::{PROXY, Pair, block_on, closed, echo, exchange, forward};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

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
        let (service, absent, denied) = (echo().await, closed(), echo().await);
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
