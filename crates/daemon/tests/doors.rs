//! Two daemons on loopback, programs on one side and services on the other.

mod common;

use common::{CLASS, PROXY, Pair, Way, block_on, bundle_class, closed, echo, exchange, forward};
use pliant_daemon::doctor::Verdict;
use pliant_daemon::{Config, Daemon};
use pliant_net::bundle::{AcceptedStreams, BundleNode};
use pliant_net::connection::{Closed, Keys};
use pliant_net::transfer::Settings;
use pliant_proto::time::Span;
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

/// A daemon that listens for both kinds of addresses calls a peer of IPv4, and names it so.
#[test]
fn a_socket_for_all_addresses_calls_ipv4() {
    if std::net::UdpSocket::bind("[::]:0").is_err() {
        return;
    }
    block_on(async {
        let service = echo().await;
        let pair = Pair::new(&forward(service), &format!("\"{service}\"")).await;
        let both = pair.another_at("[::]:0", &format!("{CLASS}{}", forward(service))).await;
        let back = exchange(TcpStream::connect(both.doors()[0]).await.unwrap(), b"hello").await;
        assert_eq!(back.unwrap(), b"hello");
        let status = both.status();
        assert_eq!((status.bundles[0].peer.as_str(), status.peers[0].open), (&*pair.far.address().to_string(), true));
    });
}

fn node() -> (BundleNode, AcceptedStreams) {
    let settings = Settings { keys: Keys::Preshared([7; 32]), idle_timeout: Span::from_secs(5), ..Settings::default() };
    BundleNode::bind(([127, 0, 0, 1], 0).into(), settings, vec![bundle_class(64)]).unwrap()
}

/// A bundle whose way is cut is told of at both ends, with the streams that are lost, and without those that were over. One that
/// its peer ends is not.
#[test]
fn a_cut_bundle_is_told_at_both_ends() {
    block_on(async {
        let way = Way::new().await;
        let ((near, _near_streams), (far, mut accepted)) = (node(), node());
        let (mut near_ends, mut far_ends) = (near.follow_ends(), far.follow_ends());
        way.join(far.local_address()).await;
        let mut held = Vec::new();
        for number in 0..3 {
            let mut stream = near.open(way.address, "bulk", Vec::new()).unwrap();
            stream.write_all(b"hello").await.unwrap();
            let mut there = accepted.next().await.unwrap().stream;
            there.write_u8(number).await.unwrap();
            assert_eq!(stream.read_u8().await.unwrap(), number);
            if number > 0 {
                held.push((stream, there));
            }
        }
        way.cut().await;
        // Whoever waits for a stream hears it after that.
        for stream in held.iter_mut().flat_map(|(near, far)| [near, far]) {
            stream.read_to_end(&mut Vec::new()).await.unwrap_err();
        }
        for ends in [&mut near_ends, &mut far_ends] {
            let end = ends.try_recv().unwrap();
            assert!(matches!(end.why, Closed::Silent(_)), "{end:?}");
            assert_eq!((end.class.as_str(), end.streams), ("bulk", 2));
        }
        way.join(far.local_address()).await;
        let mut stream = near.open(way.address, "bulk", Vec::new()).unwrap();
        let there = accepted.next().await.unwrap();
        drop(far);
        stream.read_u8().await.unwrap_err();
        drop((near, there, held));
        assert!(near_ends.try_recv().is_err() && far_ends.try_recv().is_err());
    });
}

/// Where a caller has moved to is what the status says, and its connections go on.
#[test]
fn the_status_follows_a_caller() {
    block_on(async {
        let (way, service) = (Way::new().await, echo().await);
        let near = format!("{CLASS}{}", forward(service));
        let far = format!("{CLASS}[exit]\nallow = [\"{service}\"]\n");
        let pair = Pair::with_way(&near, &far, Some(way.address)).await;
        let mut tcp = None;
        for byte in 0..2 {
            let address = way.join(pair.far.address()).await.to_string();
            let tcp = match &mut tcp {
                Some(tcp) => tcp,
                None => tcp.insert(TcpStream::connect(pair.near.doors()[0]).await.unwrap()),
            };
            // A new address is proven first.
            for round in 0.. {
                tcp.write_u8(byte).await.unwrap();
                assert_eq!(tcp.read_u8().await.unwrap(), byte);
                let bundles = pair.far.status().bundles;
                assert_eq!(bundles.len(), 1);
                if bundles[0].peer == address {
                    break;
                }
                assert!(byte == 1 && round < 10_000, "{}", bundles[0].peer);
            }
            assert_eq!(pair.near.status().bundles[0].peer, way.address.to_string());
        }
    });
}

/// The first connection after the far daemon has died and come back is made, though the bundle before has not ended yet.
#[test]
fn a_far_daemon_that_was_restarted_is_called_again() {
    block_on(async {
        let (way, service) = (Way::new().await, echo().await);
        let far = format!("{CLASS}[exit]\nallow = [\"{service}\"]\n");
        let pair = Pair::with_way(&format!("{CLASS}{}", forward(service)), &far, Some(way.address)).await;
        let from = way.join(pair.far.address()).await;
        let door = pair.near.doors()[0];
        assert_eq!(exchange(TcpStream::connect(door).await.unwrap(), b"before").await.unwrap(), b"before");
        // As if it was killed: its last word does not arrive.
        way.cut().await;
        let pair = pair.restart_far(&far).await;
        way.join_from(from, pair.far.address()).await;
        assert_eq!(exchange(TcpStream::connect(door).await.unwrap(), b"after").await.unwrap(), b"after");
    });
}

/// The first byte of a connection. A reset may be met as early as in `connect`.
async fn greeting(door: std::net::SocketAddr) -> std::io::Result<u8> {
    TcpStream::connect(door).await?.read_u8().await
}

/// What is not allowed, or not there, is a connection that was reset; SOCKS5 and HTTP say why.
#[test]
fn what_is_denied_or_absent_is_told() {
    block_on(async {
        let (service, absent, denied) = (echo().await, closed(), echo().await);
        let doors = [forward(absent), forward(denied), PROXY.to_owned()].concat();
        let pair = Pair::new(&doors, &format!("\"{service}\", \"{absent}\"")).await;
        for door in &pair.near.doors()[..2] {
            let error = greeting(*door).await.unwrap_err();
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
        // No route, not allowed, an address of the proxy itself, and no language at all.
        for (request, expected) in [
            ("CONNECT 10.0.0.1:80 HTTP/1.1\r\n\r\n", "HTTP/1.1 403"),
            ("GET http://127.0.0.1/ HTTP/1.1\r\n\r\n", "HTTP/1.1 403"),
            ("GET / HTTP/1.1\r\n\r\n", "HTTP/1.1 405"),
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

/// What the far daemon refuses is not what a service refuses.
#[test]
fn a_class_that_the_far_daemon_lacks_is_no_refusal_of_the_service() {
    block_on(async {
        let service = echo().await;
        let near = [CLASS.replace("bulk", "other"), PROXY.replace("bulk", "other")].concat();
        let pair = Pair::with(&near, &format!("{CLASS}[exit]\nallow = [\"{service}\"]\n")).await;
        let mut tcp = TcpStream::connect(pair.near.doors()[0]).await.unwrap();
        let [high, low] = service.port().to_be_bytes();
        tcp.write_all(&[5, 1, 0, 5, 1, 0, 1, 127, 0, 0, 1, high, low]).await.unwrap();
        let mut answer = [0; 12];
        tcp.read_exact(&mut answer).await.unwrap();
        assert_eq!(answer[..4], [5, 0, 5, 1]);
    });
}

/// An exit does not connect to its own daemon's doors, by none of their addresses and in no spelling: bytes could go round
/// for ever.
#[test]
fn loops_are_refused() {
    block_on(async {
        for listen in ["127.0.0.1", "0.0.0.0"] {
            // The far side's door is fixed only once it is open: the near side asks for it by the proxy.
            let far_door = format!("[[forward]]\nlisten = \"{listen}:0\"\nto = \"self\"\ntarget = \"127.0.0.1:9\"\n");
            let peers = "[peers]\nself = \"127.0.0.1:9\"\n";
            let far = format!("{peers}{CLASS}{far_door}class = \"bulk\"\n[exit]\nallow = [\"0.0.0.0/0:*\"]\n");
            let everywhere = PROXY.replace("127.0.0.0/8", "*");
            let pair = Pair::with(&format!("{CLASS}{everywhere}"), &far).await;
            let port = pair.far.doors()[0].port();
            for host in
                ["127.0.0.1", "127.0.0.2", "127.1", "2130706433", "0.0.0.0", "[::ffff:127.0.0.1]", "[::ffff:0.0.0.0]"]
            {
                let mut tcp = TcpStream::connect(pair.near.doors()[0]).await.unwrap();
                tcp.write_all(format!("CONNECT {host}:{port} HTTP/1.1\r\n\r\n").as_bytes()).await.unwrap();
                let mut answer = [0; 12];
                tcp.read_exact(&mut answer).await.unwrap();
                // Nobody listens there if the door is at the other address only.
                let expected = if listen == "127.0.0.1" && host == "127.0.0.2" { "502" } else { "403" };
                assert_eq!(str::from_utf8(&answer).unwrap(), format!("HTTP/1.1 {expected}"), "{listen} {host}");
            }
        }
    });
}

/// A peer has so many connections to services and no more; when one ends, there is room for another.
#[test]
fn connections_of_a_peer_are_bounded() {
    block_on(async {
        let service = echo().await;
        let far = format!("{CLASS}[exit]\nallow = [\"{service}\"]\n[limits]\npeer_connections = 2\n");
        let pair = Pair::with(&format!("{CLASS}{}", forward(service)), &far).await;
        let door = pair.near.doors()[0];
        let connect = async || {
            let mut tcp = TcpStream::connect(door).await?;
            tcp.write_all(b"x").await?;
            tcp.read_u8().await.map(|_| tcp)
        };
        let (first, second) = (connect().await.unwrap(), connect().await.unwrap());
        connect().await.unwrap_err();
        assert_eq!(exchange(first, b"last").await.unwrap(), b"last");
        // The far side ends its connection in its own time.
        let mut third = connect().await;
        while third.is_err() {
            third = connect().await;
        }
        drop((second, third));
    });
}

/// A local user has so many connections to a door and no more; when one ends, there is room for another.
#[test]
fn connections_of_a_user_are_bounded() {
    block_on(async {
        let service = echo().await;
        let far = format!("{CLASS}[exit]\nallow = [\"{service}\"]\n");
        let near = format!("{CLASS}{}[limits]\nuser_connections = 2\n", forward(service));
        let pair = Pair::with(&near, &far).await;
        let door = pair.near.doors()[0];
        let connect = async || {
            let mut tcp = TcpStream::connect(door).await?;
            tcp.write_all(b"x").await?;
            tcp.read_u8().await.map(|_| tcp)
        };
        let (first, second) = (connect().await.unwrap(), connect().await.unwrap());
        let error = connect().await.unwrap_err();
        assert!(
            matches!(error.kind(), std::io::ErrorKind::ConnectionReset | std::io::ErrorKind::BrokenPipe),
            "{error}"
        );
        assert_eq!(exchange(first, b"last").await.unwrap(), b"last");
        let mut third = connect().await;
        while third.is_err() {
            third = connect().await;
        }
        drop((second, third));
    });
}

/// What one peer's rules allow, another cannot reach; what is for all, both can.
#[test]
fn a_peer_has_its_own_exit_rules() {
    block_on(async {
        let (shared, of_a) = (echo().await, echo().await);
        let folder = tempfile::tempdir().unwrap();
        let pairs: Vec<(String, String)> = (1..=3).map(common::key_pair).collect();
        let write_key = |name: &str, own: usize, peers: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, format!("private {}\n{peers}", pairs[own].0)).unwrap();
            std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        };
        write_key("far", 0, &format!("peer {} a open\npeer {} b open\n", pairs[1].1, pairs[2].1));
        let start = async |name: &str, text: String| {
            let path = folder.path().join(format!("{name}.toml"));
            std::fs::write(&path, format!("listen = \"127.0.0.1:0\"\nkey = \"{name}\"\n{text}")).unwrap();
            Daemon::start(Config::read(&path).unwrap()).await.unwrap()
        };
        let rules = format!("[exit]\nallow = [\"{shared}\"]\n[exit.peers.a]\nallow = [\"{of_a}\"]\n");
        let far = start("far", format!("{CLASS}{rules}")).await;
        let mut peers_here = Vec::new();
        for (name, own, reaches) in [("a", 1, true), ("b", 2, false)] {
            write_key(name, own, &format!("peer {} hostb\n", pairs[0].1));
            let peers = format!("[peers]\nhostb = \"{}\"\n", far.address());
            let near = start(name, format!("{peers}{CLASS}{}{}", forward(shared), forward(of_a))).await;
            let doors = near.doors();
            assert_eq!(exchange(TcpStream::connect(doors[0]).await.unwrap(), b"hello").await.unwrap(), b"hello");
            let answer = async { exchange(TcpStream::connect(doors[1]).await?, b"hello").await }.await;
            assert_eq!(answer.is_ok_and(|answer| answer == b"hello"), reaches, "{name}");
            peers_here.push(near);
        }
        let mut names: Vec<_> = far.reports().into_iter().map(|report| report.name.unwrap()).collect();
        names.sort();
        assert_eq!(names, ["a", "b"]);
    });
}

/// A peer with a valid key that fills connections to a service that does not read: what the exit holds for it stays within
/// `unread`, and another peer's connections go on meanwhile.
#[test]
fn a_hostile_peer_is_bounded_and_hurts_no_other() {
    block_on(async {
        let service = echo().await;
        let stalled = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stalled_at = stalled.local_addr().unwrap();
        let holds = tokio::spawn(async move {
            let mut held = Vec::new();
            while let Ok((tcp, _)) = stalled.accept().await {
                held.push(tcp);
            }
        });
        let exit = format!("[exit]\nallow = [\"{service}\", \"{stalled_at}\"]\n");
        let class = format!("{CLASS}unread = \"8MiB\"\n");
        let pair = Pair::with(&format!("{CLASS}{}", forward(stalled_at)), &format!("{class}{exit}")).await;
        let other = pair.another(&format!("{CLASS}{}", forward(service))).await;
        let (hostile, good) = (pair.near.doors()[0], other.doors()[0]);
        let mut writers = tokio::task::JoinSet::new();
        for _ in 0..40 {
            writers.spawn(async move {
                let mut tcp = TcpStream::connect(hostile).await?;
                // It blocks, or is reset, long before.
                tcp.write_all(&vec![0; 64 << 20]).await
            });
        }
        // Until one was reset there was more than the exit holds.
        let mut exchanged = 0;
        loop {
            let bytes = vec![exchanged as u8; 100_000];
            assert!(exchange(TcpStream::connect(good).await.unwrap(), &bytes).await.unwrap() == bytes);
            exchanged += 1;
            let reports = pair.far.reports();
            let report = reports.iter().find(|report| report.peer == pair.near.address()).unwrap();
            assert!(report.held_bytes <= (8 << 20) + (64 << 10), "{}", report.held_bytes);
            if let Some(ended) = writers.try_join_next() {
                ended.unwrap().unwrap_err();
                break;
            }
        }
        writers.shutdown().await;
        holds.abort();
        assert!(exchanged > 0);
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

/// A doctor's call finds a peer that answers, and a class that the peer lacks.
#[test]
fn a_doctor_calls_peers() {
    block_on(async {
        let pair = Pair::new(&forward(closed()), "\"127.0.0.1:1\"").await;
        let other = CLASS.replace("bulk", "other");
        let door = |to: &str, class: &str| {
            format!("[[proxy.route]]\nhost = \"{class}.example\"\nto = \"{to}\"\nclass = \"{class}\"\n")
        };
        let (good, lacking) = (door("hostb", "bulk"), door("hostb", "other"));
        pair.write_near(&format!("{CLASS}{other}[proxy]\nlisten = \"127.0.0.1:0\"\n{good}{lacking}"));
        let findings = pair.near_config().examine().await.unwrap();
        let verdicts = findings.iter().filter(|finding| !finding.subject.ends_with("MTU"));
        let verdicts: Vec<_> = verdicts.map(|finding| (finding.subject.as_str(), finding.verdict)).collect();
        assert_eq!(
            verdicts[2..],
            [("peer hostb, class bulk", Verdict::Good), ("peer hostb, class other", Verdict::Broken)],
            "{findings:?}"
        );
    });
}
