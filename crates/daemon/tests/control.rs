//! A daemon that changes while it runs: its control socket, reloads and drains.

mod common;

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;

use common::{CLASS, Pair, block_on, echo, exchange, forward};
use pliant_daemon::control::{ControlError, Request, Status, request};
use pliant_daemon::{Config, Daemon};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Asks the near side.
async fn ask(pair: &Pair, asked: Request) -> Result<Value, ControlError> {
    let path = pair.control();
    tokio::task::spawn_blocking(move || request(&path, &asked)).await.unwrap()
}

async fn status(pair: &Pair) -> Status {
    serde_json::from_value(ask(pair, Request::Status).await.unwrap()).unwrap()
}

/// The first byte of a connection. A reset may be met as early as in `connect`.
async fn greeting(door: std::net::SocketAddr) -> std::io::Result<u8> {
    TcpStream::connect(door).await?.read_u8().await
}

/// Sends a few bytes to an echo and reads them back.
async fn ping(tcp: &mut TcpStream) {
    tcp.write_all(b"ping").await.unwrap();
    let mut back = [0; 4];
    tcp.read_exact(&mut back).await.unwrap();
    assert_eq!(&back, b"ping");
}

/// The socket is its owner's alone, in a folder that is its owner's alone, and goes with the daemon.
#[test]
fn the_control_socket_is_the_owners() {
    block_on(async {
        let pair = Pair::with("", "").await;
        let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().mode() & 0o777;
        let path = pair.control();
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        assert_eq!(std::fs::read_dir(path.parent().unwrap()).unwrap().count(), 2, "nothing but the sockets");
        drop(pair.near);
        tokio::task::yield_now().await;
        while path.exists() {
            tokio::task::yield_now().await;
        }
    });
}

/// A second daemon does not take the first one's socket, and a file that is no socket is not removed.
#[test]
fn a_control_socket_that_is_in_use_is_refused() {
    block_on(async {
        let pair = Pair::with("", "").await;
        let text = |control: &str| format!("listen = \"127.0.0.1:0\"\nkey = \"key\"\ncontrol = \"{control}\"\n");
        let folder = pair.control().parent().unwrap().parent().unwrap().to_owned();
        std::fs::write(folder.join("file"), "precious").unwrap();
        for (control, why) in [("run/near.sock", "another daemon"), ("file", "no socket")] {
            let path = folder.join("second.toml");
            std::fs::write(&path, text(control)).unwrap();
            let config = Config::read(&path).unwrap();
            let error = pliant_daemon::Daemon::start(config).await.err().expect("it is refused").to_string();
            assert!(error.contains(control) && error.contains(why), "{error}");
        }
        assert_eq!(std::fs::read_to_string(folder.join("file")).unwrap(), "precious");
        assert_eq!(status(&pair).await.process, std::process::id());
    });
}

/// Nonsense is answered, and ends nothing but its own connection if it is too long.
#[test]
fn nonsense_on_the_control_socket_is_answered() {
    block_on(async {
        let pair = Pair::with("", "").await;
        let mut client = tokio::net::UnixStream::connect(pair.control()).await.unwrap();
        client.write_all(b"{\"request\":\"dance\"}\n\xff\xfe\n").await.unwrap();
        let mut lines = tokio::io::AsyncBufReadExt::lines(tokio::io::BufReader::new(&mut client));
        for _ in 0..2 {
            let line = lines.next_line().await.unwrap().unwrap();
            assert!(line.starts_with("{\"error\":\"this is no request: "), "{line}");
        }
        let mut client = tokio::net::UnixStream::connect(pair.control()).await.unwrap();
        // It may be cut before all of it is written.
        let _ = client.write_all(&vec![b' '; 1 << 20]).await;
        let mut answer = Vec::new();
        let _ = client.read_to_end(&mut answer).await;
        assert!(answer.is_empty() || answer.starts_with(b"{\"error\""));
        assert!(!status(&pair).await.draining);
    });
}

/// The status counts what has gone through: one stream, its bytes both ways.
#[test]
fn the_status_says_what_goes_on() {
    block_on(async {
        let service = echo().await;
        let pair = Pair::new(&forward(service), &format!("\"{service}\"")).await;
        let before = status(&pair).await;
        assert_eq!((before.connections, before.bundles.len(), before.peers[0].open), (0, 0, false));
        let mut tcp = TcpStream::connect(pair.near.doors()[0]).await.unwrap();
        ping(&mut tcp).await;
        let now = status(&pair).await;
        assert_eq!((now.connections, now.peers[0].open, now.doors[0].accepted), (1, true, 1));
        let bundle = &now.bundles[0];
        assert_eq!((bundle.name.as_deref(), &*bundle.class, &*bundle.state), (Some("hostb"), "bulk", "open"));
        // The byte that says that the connection stands has come, too.
        assert_eq!((bundle.streams, bundle.sent_bytes, bundle.received_bytes), (1, 4, 5));
        assert_eq!((now.classes[0].transport.as_str(), now.classes[0].max_rate_bits_per_second), ("dctcp", None));
    });
}

/// A bundle of a class that promises a rate tells its floor and its round-trip time, of a class that promises none the time only.
#[test]
fn the_status_tells_floors() {
    block_on(async {
        let service = echo().await;
        for (transport, floor, kept) in
            [("bounded\"\nmin_share = 0\nmin_rate = \"50Mbit/s", Some(50e6), Some(true)), ("cubic", None, None)]
        {
            let near = forward(service).replace("bulk", "promised");
            let class = format!("[classes.promised]\ntransport = \"{transport}\"\n");
            let pair =
                Pair::with(&format!("{class}{near}"), &format!("{class}[exit]\nallow = [\"{service}\"]\n")).await;
            ping(&mut TcpStream::connect(pair.near.doors()[0]).await.unwrap()).await;
            let bundle = &status(&pair).await.bundles[0];
            assert_eq!((bundle.floor_bits_per_second, bundle.floor_kept), (floor, kept));
            assert!(bundle.round_trip_seconds > bundle.added_delay_seconds);
        }
    });
}

/// Doors, classes and exit rules change, and a connection that stands goes on through all of it. Its bundle goes with it.
#[test]
fn a_reload_loses_no_connection() {
    block_on(async {
        let (first, second) = (echo().await, echo().await);
        let pair = Pair::new(&forward(first), &format!("\"{first}\"")).await;
        let door = pair.near.doors()[0];
        let mut old = TcpStream::connect(door).await.unwrap();
        ping(&mut old).await;

        // The door points elsewhere, where the far side does not allow it yet.
        pair.write_near(&format!("{CLASS}{}", forward(second)));
        ask(&pair, Request::Reload).await.unwrap();
        assert_eq!(pair.near.doors(), [door], "its listener is the same");
        greeting(door).await.unwrap_err();
        pair.write_far(&format!("{CLASS}[exit]\nallow = [\"{second}\"]\n"));
        pair.far.reload().await.unwrap();
        ping(&mut TcpStream::connect(door).await.unwrap()).await;
        ping(&mut old).await;

        // Another transport: what stands stays in its bundle, what comes goes by a new one.
        let class = CLASS.replace("dctcp", "cubic");
        pair.write_near(&format!("{class}{}", forward(second)));
        pair.near.reload().await.unwrap();
        let mut new = TcpStream::connect(door).await.unwrap();
        ping(&mut new).await;
        ping(&mut old).await;
        let states = |status: &Status| status.bundles.iter().map(|bundle| bundle.state.clone()).collect::<Vec<_>>();
        assert_eq!(states(&status(&pair).await), ["ending", "open"]);
        assert_eq!(exchange(old, b"last").await.unwrap(), b"last");
        while pair.near.reports().len() > 1 {
            tokio::task::yield_now().await;
        }
        ping(&mut new).await;

        // Without the door nobody new comes in.
        pair.write_near("");
        pair.near.reload().await.unwrap();
        assert_eq!(pair.near.doors(), []);
        ping(&mut new).await;
        assert_eq!(exchange(new, b"last").await.unwrap(), b"last");
        TcpStream::connect(door).await.unwrap_err();
    });
}

/// A bad file is refused with its line, and all stays as it was; so is what needs a restart, and a port that is taken.
#[test]
fn a_bad_reload_changes_nothing() {
    block_on(async {
        let service = echo().await;
        let pair = Pair::new(&forward(service), &format!("\"{service}\"")).await;
        let door = pair.near.doors()[0];
        let before = status(&pair).await;
        let taken = forward(service).replace("127.0.0.1:0", &service.to_string());
        for (text, why) in [
            (format!("{CLASS}colour = 1\n"), "near.toml:8: unknown field `colour`".to_owned()),
            (format!("{CLASS}{taken}"), format!("near.toml:9: cannot listen on {service}")),
        ] {
            pair.write_near(&text);
            let error = ask(&pair, Request::Reload).await.unwrap_err().to_string();
            assert!(error.contains(&why), "{error}");
            let now = status(&pair).await;
            assert_eq!((now.doors, now.classes), (before.doors.clone(), before.classes.clone()));
        }
        let file = pair.control().parent().unwrap().parent().unwrap().join("near.toml");
        std::fs::write(&file, "listen = \"127.0.0.2:0\"\nkey = \"key\"\n").unwrap();
        let error = pair.near.reload().await.unwrap_err().to_string();
        assert!(error.contains("near.toml:1: a change of `listen` needs a restart"), "{error}");
        ping(&mut TcpStream::connect(door).await.unwrap()).await;
    });
}

/// A port that somebody else has is refused by a check with the line of its listener, as at start; those that the daemon
/// itself has are not.
#[test]
fn a_check_refuses_ports_in_use() {
    block_on(async {
        let service = echo().await;
        let pair = Pair::new(&forward(service), &format!("\"{service}\"")).await;
        let file = pair.control().parent().unwrap().parent().unwrap().join("check.toml");
        let far = pair.far.address();
        let check = async |listen: &str, door: &str| {
            let door = forward(service).replace("127.0.0.1:0", door);
            let peers = format!("[peers]\nhostb = \"{far}\"\n");
            let head = format!("listen = \"{listen}\"\nkey = \"key\"\ncontrol = \"run/near.sock\"\n");
            std::fs::write(&file, format!("{head}{peers}{CLASS}{door}")).unwrap();
            let config = Config::read(&file).unwrap();
            let checked = tokio::task::spawn_blocking(move || config.check_start());
            checked.await.unwrap().map_err(|error| error.to_string().split_once("check.toml").unwrap().1.to_owned())
        };
        let (listen, door) = (pair.near.address().to_string(), pair.near.doors()[0].to_string());
        check(&listen, &door).await.unwrap();
        check("127.0.0.1:0", "127.0.0.1:0").await.unwrap();
        let other = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let taken = other.local_addr().unwrap();
        let error = check(&taken.to_string(), &door).await.unwrap_err();
        assert!(error.starts_with(&format!(":1: cannot listen on {taken}: ")), "{error}");
        let error = check(&listen, &service.to_string()).await.unwrap_err();
        assert!(error.starts_with(&format!(":9: cannot listen on {service}: ")), "{error}");
    });
}

/// A ledger that cannot be kept is refused by a check with its line and in the words of the start, and a check leaves
/// nothing behind. The ledger that the daemon itself has is none of these; another daemon's is.
#[test]
fn a_check_refuses_a_ledger_as_the_start_does() {
    block_on(async {
        let folder = tempfile::tempdir().unwrap();
        let exit = |ledger: &Path| {
            format!("{CLASS}[exit]\nallow = [\"127.0.0.1:*\"]\nkafka_ledger = \"{}\"\n", ledger.display())
        };
        let own = folder.path().join("own");
        let pair = Pair::with(&format!("{CLASS}{}", forward(echo().await)), &exit(&own)).await;
        let file = pair.control().parent().unwrap().parent().unwrap().join("check.toml");
        let read = |control: &str, ledger: &Path| {
            let head = format!("listen = \"127.0.0.1:0\"\nkey = \"key\"\ncontrol = \"run/{control}.sock\"\n");
            std::fs::write(&file, format!("{head}{}", exit(ledger))).unwrap();
            Config::read(&file).unwrap()
        };
        let check = async |control: &str, ledger: &Path| {
            let config = read(control, ledger);
            tokio::task::spawn_blocking(move || config.check_start()).await.unwrap().map_err(|error| error.to_string())
        };
        let (fresh, no_ledger) = (folder.path().join("fresh"), folder.path().join("text"));
        std::fs::write(&no_ledger, "important\n").unwrap();
        for refused in [&folder.path().join("none").join("ledger"), folder.path(), &no_ledger, &own] {
            let found = check("none", refused).await.unwrap_err();
            let started = Daemon::start(read("none", refused)).await.err().unwrap().to_string();
            assert_eq!(found, started);
            assert!(found.contains(&format!("check.toml:8: {}: ", refused.display())), "{found}");
        }
        check("none", &fresh).await.unwrap();
        check("far", &own).await.unwrap();
        assert!(!fresh.exists());
        Daemon::start(read("none", &fresh)).await.unwrap();
    });
}

/// A class's rate changes under a connection that stands: held to next to nothing it hardly moves, without a rate it does.
#[test]
fn a_contract_changes_under_a_connection() {
    block_on(async {
        let service = echo().await;
        let pair = Pair::new(&forward(service), &format!("\"{service}\"")).await;
        let set = |value: &str| Request::Set {
            class: "bulk".to_owned(),
            settings: [("max_rate".to_owned(), value.to_owned())].into(),
        };
        let mut tcp = TcpStream::connect(pair.near.doors()[0]).await.unwrap();
        ping(&mut tcp).await;
        ask(&pair, set("8kbit/s")).await.unwrap();
        assert_eq!(status(&pair).await.classes[0].max_rate_bits_per_second, Some(8000));
        let bytes = vec![7; 200_000];
        let mut transfer = tokio::spawn(async move { exchange(tcp, &bytes).await.unwrap().len() });
        // At that rate it takes minutes.
        tokio::time::timeout(Duration::from_millis(300), &mut transfer).await.unwrap_err();
        assert_eq!(status(&pair).await.bundles.len(), 1);
        ask(&pair, set("none")).await.unwrap();
        assert_eq!(transfer.await.unwrap(), 200_000);
        assert_eq!(status(&pair).await.bundles.len(), 1, "the bundle is the same");
        for (class, key, value, why) in [
            ("bulk", "max_rat", "1Mbit/s", "max_rat"),
            ("bulk", "max_rate", "0bit/s", "above zero"),
            ("bulk", "min_share", "1.5", "min_share must lie in"),
            ("bulk", "min_rate", "1Mbit/s", "does not honour min_rate"),
            ("bulk", "done_by", "2h", "unknown field `done_by`"),
            ("bulk", "weight", "-1", "weight"),
            ("idle", "weight", "1", "no class `idle`"),
        ] {
            let settings = [(key.to_owned(), value.to_owned())].into();
            let error = ask(&pair, Request::Set { class: class.to_owned(), settings }).await.unwrap_err().to_string();
            assert!(error.contains(why), "{why}: {error}");
        }
    });
}

/// A drain lets nobody in, and ends with the last connection; one that stays is cut at the limit.
#[test]
fn a_drain_ends_with_the_last_connection() {
    block_on(async {
        let service = echo().await;
        let pair = Pair::new(&forward(service), &format!("\"{service}\"")).await;
        let door = pair.near.doors()[0];
        let mut last = TcpStream::connect(door).await.unwrap();
        ping(&mut last).await;
        let path = pair.control();
        let asked = Request::Drain { limit_seconds: Some(60) };
        let drain = tokio::task::spawn_blocking(move || request(&path, &asked).unwrap());
        while !status(&pair).await.draining {}
        TcpStream::connect(door).await.unwrap_err();
        ping(&mut last).await;
        assert!(!drain.is_finished());
        let error = ask(&pair, Request::Reload).await.unwrap_err().to_string();
        assert!(error.contains("drains"), "{error}");
        assert_eq!(exchange(last, b"last").await.unwrap(), b"last");
        assert_eq!(drain.await.unwrap()["cut"], 0);
        pair.near.run().await.unwrap();

        let pair = Pair::new(&forward(service), &format!("\"{service}\"")).await;
        let mut stays = TcpStream::connect(pair.near.doors()[0]).await.unwrap();
        ping(&mut stays).await;
        assert_eq!(ask(&pair, Request::Drain { limit_seconds: Some(0) }).await.unwrap()["cut"], 1);
    });
}

/// The far side that drains takes no streams, and says so as a service would that is not there.
#[test]
fn an_exit_that_drains_takes_no_streams() {
    block_on(async {
        let service = echo().await;
        let pair = Pair::new(&forward(service), &format!("\"{service}\"")).await;
        let mut old = TcpStream::connect(pair.near.doors()[0]).await.unwrap();
        ping(&mut old).await;
        assert_eq!(pair.far.drain(Duration::ZERO).await, 1);
        greeting(pair.near.doors()[0]).await.unwrap_err();
        ping(&mut old).await;
    });
}

/// A folder that others may enter is the user's own business; the socket in it still is nobody else's.
#[test]
fn the_folder_is_left_as_it_is() {
    block_on(async {
        let pair = Pair::with("", "").await;
        let folder = pair.control().parent().unwrap().to_owned();
        std::fs::set_permissions(&folder, PermissionsExt::from_mode(0o755)).unwrap();
        pair.near.reload().await.unwrap();
        assert_eq!(std::fs::metadata(&folder).unwrap().mode() & 0o777, 0o755);
        assert_eq!(std::fs::metadata(pair.control()).unwrap().mode() & 0o777, 0o600);
    });
}
