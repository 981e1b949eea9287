//! A Kafka door between two daemons on loopback, with brokers of a few lines.

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use common::{CLASS, PROXY, Pair, block_on, bundle_class};
use pliant_daemon::control::{KafkaLedger, Request, Status, request};
use pliant_net::bundle::{BundleNode, BundleStream, IncomingMessages};
use pliant_net::clock::SharedClock;
use pliant_net::connection::Keys;
use pliant_net::switch::forwarder::DEFAULT_FRAMES;
use pliant_net::switch::relay::{Relay, RelayConfig, RelayPort};
use pliant_net::switch::{
    FabricConfig, FaultConfig, Ingress, LinkConfig, LoadBalancing, NextHop, SwitchConfig, WireSize,
};
use pliant_net::transfer::Settings;
use pliant_proto::switch::plan::SchedulerConfig;
use pliant_proto::switch::{QueueConfig, QueuePlan};
use pliant_proto::time::Span;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const METADATA: i16 = 3;
const HEARTBEAT: i16 = 12;

/// The addresses that brokers 0, 1 ... advertise.
type Addresses = Arc<Mutex<Vec<SocketAddr>>>;

/// Two daemons; the near one has a Kafka door to `bootstrap`, with more lines of its table.
async fn daemons(bootstrap: SocketAddr, more: &str) -> Pair {
    let door = format!(
        "[[kafka]]\nlisten = \"127.0.0.1:0\"\nto = \"hostb\"\nbootstrap = \"{bootstrap}\"\nclass = \"bulk\"\n{more}"
    );
    Pair::new(&door, "\"127.0.0.1:*\"").await
}

/// A broker that answers Metadata of version 0 with all addresses, and anything else with its number and the request.
async fn broker(number: u8, addresses: &Addresses) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let addresses = addresses.clone();
    tokio::spawn(async move {
        while let Ok((mut tcp, _)) = listener.accept().await {
            let addresses = addresses.clone();
            tokio::spawn(async move {
                while let Ok(length) = tcp.read_u32().await {
                    let mut request = vec![0; length as usize];
                    tcp.read_exact(&mut request).await.unwrap();
                    let mut response = request[4..8].to_vec();
                    if request[..2] == METADATA.to_be_bytes() {
                        let addresses = addresses.lock().unwrap().clone();
                        response.extend((addresses.len() as i32).to_be_bytes());
                        for (node, address) in addresses.iter().enumerate() {
                            response.extend((node as i32).to_be_bytes());
                            let host = address.ip().to_string();
                            response.extend((host.len() as i16).to_be_bytes());
                            response.extend(host.as_bytes());
                            response.extend(i32::from(address.port()).to_be_bytes());
                        }
                        response.extend(0i32.to_be_bytes());
                    } else {
                        response.push(number);
                        response.extend(&request[8..]);
                    }
                    tcp.write_u32(response.len() as u32).await.unwrap();
                    tcp.write_all(&response).await.unwrap();
                }
            });
        }
    });
    address
}

/// Sends a request and reads the response behind its correlation number.
async fn ask(tcp: &mut TcpStream, key: i16, body: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut frame = ((8 + body.len()) as i32).to_be_bytes().to_vec();
    frame.extend(key.to_be_bytes());
    frame.extend(0i16.to_be_bytes());
    frame.extend(99i32.to_be_bytes());
    frame.extend(body);
    tcp.write_all(&frame).await?;
    let mut response = vec![0; tcp.read_u32().await? as usize];
    tcp.read_exact(&mut response).await?;
    assert_eq!(response[..4], 99i32.to_be_bytes());
    Ok(response.split_off(4))
}

/// The ports of a response to Metadata, by broker, all on loopback.
async fn ports(door: SocketAddr) -> std::io::Result<Vec<u16>> {
    let mut tcp = TcpStream::connect(door).await?;
    let body = ask(&mut tcp, METADATA, &[0xff, 0xff, 0, 0, 0, 0]).await?;
    let rows = body[4..].chunks_exact(4 + 2 + 9 + 4);
    Ok(rows
        .enumerate()
        .map(|(node, row)| {
            assert_eq!((row[3], &row[6..15]), (node as u8, &b"127.0.0.1"[..]));
            u16::from_be_bytes([row[17], row[18]])
        })
        .collect())
}

/// A client is led from the bootstrap address to a port for each broker, and megabytes go through unchanged; a broker
/// that has moved keeps its port.
#[test]
fn clients_are_led_to_every_broker() {
    block_on(async {
        let addresses = Addresses::default();
        let (first, second) = (broker(0, &addresses).await, broker(1, &addresses).await);
        *addresses.lock().unwrap() = vec![first, second];
        let pair = daemons(first, "").await;
        let door = pair.near.doors()[0];
        let found = ports(door).await.unwrap();
        assert!(found.len() == 2 && !found.contains(&first.port()) && !found.contains(&second.port()), "{found:?}");
        let body: Vec<u8> = (0..3_000_000u32).map(|byte| (byte / 7) as u8).collect();
        for (number, port) in found.iter().enumerate() {
            let mut tcp = TcpStream::connect(("127.0.0.1", *port)).await.unwrap();
            let back = ask(&mut tcp, HEARTBEAT, &body).await.unwrap();
            assert!(back[0] == number as u8 && back[1..] == body, "broker {number}");
            assert_eq!(ports(([127, 0, 0, 1], *port).into()).await.unwrap(), found, "the same from every broker");
        }
        let moved = broker(7, &addresses).await;
        addresses.lock().unwrap()[1] = moved;
        assert_eq!(ports(door).await.unwrap(), found);
        let mut tcp = TcpStream::connect(("127.0.0.1", found[1])).await.unwrap();
        assert_eq!(ask(&mut tcp, HEARTBEAT, b"hello").await.unwrap(), b"\x07hello");
    });
}

/// The ports of brokers are doors as well: an exit of the same daemon does not connect to them.
#[test]
fn loops_by_brokers_ports_are_refused() {
    block_on(async {
        let addresses = Addresses::default();
        let address = broker(0, &addresses).await;
        addresses.lock().unwrap().push(address);
        let exit = "[exit]\nallow = [\"127.0.0.1:*\"]\n";
        let door = format!(
            "[[kafka]]\nlisten = \"127.0.0.1:0\"\nto = \"hostb\"\nbootstrap = \"{address}\"\nclass = \"bulk\"\n"
        );
        let pair = Pair::with(&format!("{CLASS}{door}{exit}"), &format!("{CLASS}{exit}")).await;
        let port = ports(pair.near.doors()[0]).await.unwrap()[0];
        let proxy = PROXY.replace("hostb", "near");
        let another = pair.another(&format!("near = \"{}\"\n{CLASS}{proxy}", pair.near.address())).await;
        for (to, expected) in [(address.port(), "HTTP/1.1 200"), (port, "HTTP/1.1 403")] {
            let mut tcp = TcpStream::connect(another.doors()[0]).await.unwrap();
            tcp.write_all(format!("CONNECT 127.0.0.1:{to} HTTP/1.1\r\n\r\n").as_bytes()).await.unwrap();
            let mut answer = [0; 12];
            tcp.read_exact(&mut answer).await.unwrap();
            assert_eq!(str::from_utf8(&answer).unwrap(), expected);
        }
    });
}

/// The ports of brokers can be chosen; one that is taken ends the connection that asks, not the door.
#[test]
fn brokers_ports_follow_from_their_numbers() {
    block_on(async {
        let addresses = Addresses::default();
        let address = broker(0, &addresses).await;
        addresses.lock().unwrap().push(address);
        let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = taken.local_addr().unwrap().port();
        let pair = daemons(address, &format!("broker_ports = {port}\n")).await;
        let door = pair.near.doors()[0];
        assert_eq!(ports(door).await.unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
        drop(taken);
        assert_eq!(ports(door).await.unwrap(), [port]);
    });
}

/// A cluster that names more brokers than may have ports: the first have theirs and are served, and all others share one that
/// refuses connections. So it stays at each later response.
#[test]
fn brokers_beyond_the_bound_are_refused_alone() {
    block_on(async {
        for (named, most, more) in [(130, 100, ""), (5, 2, "max_brokers = 2\n")] {
            let addresses = Addresses::default();
            let (first, second) = (broker(0, &addresses).await, broker(1, &addresses).await);
            *addresses.lock().unwrap() = vec![first, second];
            addresses.lock().unwrap().resize(named, first);
            let pair = daemons(first, more).await;
            let door = pair.near.doors()[0];
            let found = ports(door).await.unwrap();
            assert_eq!(found.len(), named);
            assert_eq!(BTreeSet::from_iter(&found).len(), most + 1, "one more refuses");
            assert_eq!(BTreeSet::from_iter(&found[most..]).len(), 1);
            for (number, port) in found.iter().enumerate().take(2) {
                let mut tcp = TcpStream::connect(("127.0.0.1", *port)).await.unwrap();
                assert_eq!(ask(&mut tcp, HEARTBEAT, b"hello").await.unwrap()[1..], b"hello"[..], "broker {number}");
            }
            let refused = TcpStream::connect(("127.0.0.1", found[most])).await.unwrap_err();
            assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
            assert_eq!(ports(door).await.unwrap(), found);
        }
    });
}

/// The port of a broker that refuses connections refuses them, until the broker is back.
#[test]
fn the_port_of_a_broker_that_is_down_refuses() {
    block_on(async {
        let addresses = Addresses::default();
        let first = broker(0, &addresses).await;
        let down = common::closed();
        *addresses.lock().unwrap() = vec![first, down];
        let pair = daemons(first, "").await;
        let door = pair.near.doors()[0];
        let found = ports(door).await.unwrap();
        let to_second = || TcpStream::connect(("127.0.0.1", found[1]));
        // The reset may be met as early as in `connect`.
        let greeting = async { to_second().await?.read(&mut [0]).await };
        assert_eq!(greeting.await.unwrap_err().kind(), std::io::ErrorKind::ConnectionReset, "nobody knew");
        while to_second().await.is_ok() {
            tokio::task::yield_now().await;
        }
        assert_eq!(to_second().await.unwrap_err().kind(), std::io::ErrorKind::ConnectionRefused);
        assert_eq!(ports(door).await.unwrap(), found, "its port stays its own");
        // It is back, at another address: the port listens again.
        let back = broker(7, &addresses).await;
        addresses.lock().unwrap()[1] = back;
        assert_eq!(ports(door).await.unwrap(), found);
        let mut tcp = loop {
            match to_second().await {
                Ok(tcp) => break tcp,
                Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused),
            }
            tokio::task::yield_now().await;
        };
        assert_eq!(ask(&mut tcp, HEARTBEAT, b"hello").await.unwrap(), b"\x07hello");
        assert_eq!(ports(door).await.unwrap(), found);
    });
}

/// TLS, a version that nobody knows and a broker that is not there are connections that were reset.
#[test]
fn what_a_door_cannot_serve_is_reset() {
    block_on(async {
        let addresses = Addresses::default();
        let pair = daemons(broker(0, &addresses).await, "").await;
        let version_99 = [0, 0, 0, 10, 0, 1, 0, 99, 0, 0, 0, 1, 0xff, 0xff];
        for bytes in [&[22, 3, 1, 2, 0, 1][..], b"GET / HTTP/1.1\r\n\r\n", &version_99] {
            let mut tcp = TcpStream::connect(pair.near.doors()[0]).await.unwrap();
            tcp.write_all(bytes).await.unwrap();
            let error = tcp.read(&mut [0]).await.unwrap_err();
            assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{bytes:?}");
        }
        let absent = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let pair = daemons(absent, "").await;
        // A reset that comes at once is an error of the call already.
        let ask = async || TcpStream::connect(pair.near.doors()[0]).await?.read(&mut [0]).await;
        assert_eq!(ask().await.unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
    });
}

/// A request with a version and a number.
fn numbered(key: i16, version: i16, number: i32, body: &[u8]) -> Vec<u8> {
    let length = (8 + body.len()) as i32;
    [&length.to_be_bytes()[..], &key.to_be_bytes(), &version.to_be_bytes(), &number.to_be_bytes(), body].concat()
}

/// What a client produces to one partition of each topic, of as many bytes each (Produce, version 3).
fn produce(number: i32, topics: &[&str], bytes: usize) -> Vec<u8> {
    // No client_id, no transactional_id, acks = 1 and a timeout.
    let mut body = vec![0xff, 0xff, 0xff, 0xff, 0, 1, 0, 0, 0, 9];
    body.extend((topics.len() as i32).to_be_bytes());
    for topic in topics {
        body.extend(string(topic));
        body.extend([0, 0, 0, 1, 0, 0, 0, 0]);
        body.extend((bytes as i32).to_be_bytes());
        body.extend((0..bytes).map(|byte| (byte / 5) as u8));
    }
    numbered(0, 3, number, &body)
}

/// Sends requests at once, and reads their responses, which are echoes, in order.
async fn echoed(tcp: &mut TcpStream, requests: &[Vec<u8>]) {
    let (mut from, mut to) = tcp.split();
    let all = requests.concat();
    let answered = async {
        for request in requests {
            let mut response = vec![0; from.read_u32().await.unwrap() as usize];
            from.read_exact(&mut response).await.unwrap();
            // Behind the numbers of the response and of the broker.
            assert!(response[..4] == request[8..12] && response[5..] == request[12..]);
        }
    };
    tokio::join!(async { to.write_all(&all).await.unwrap() }, answered);
}

/// How many streams each class of the near side has opened.
async fn streams(pair: &Pair) -> BTreeMap<String, u64> {
    let control = pair.near.control().unwrap();
    let answer = tokio::task::spawn_blocking(move || request(&control, &Request::Status)).await.unwrap().unwrap();
    let status: Status = serde_json::from_value(answer).unwrap();
    status.bundles.into_iter().map(|bundle| (bundle.class, bundle.opened_streams)).collect()
}

/// A connection is of the door's class until it names topics of another, and again once it names others; whoever has
/// authenticated stays. Requests that wait for each other are answered in order on all ways.
#[test]
fn connections_move_to_the_class_of_their_topics() {
    block_on(async {
        let broker = broker(3, &Addresses::default()).await;
        let classes = format!("{CLASS}[classes.low]\ntransport = \"cubic\"\n");
        let door = format!(
            "[[kafka]]\nlisten = \"127.0.0.1:0\"\nto = \"hostb\"\nbootstrap = \"{broker}\"\nclass = \"bulk\"\n\
             [kafka.topics.\"clicks.*\"]\nclass = \"low\"\n"
        );
        let pair =
            Pair::with(&format!("{classes}{door}"), &format!("{classes}[exit]\nallow = [\"127.0.0.1:*\"]\n")).await;
        let connect = || TcpStream::connect(pair.near.doors()[0]);
        let opened = |bulk, low| {
            [("bulk", bulk), ("low", low)]
                .into_iter()
                .filter(|(_, count)| *count > 0)
                .map(|(class, count)| (class.to_owned(), count))
                .collect::<BTreeMap<_, _>>()
        };
        let heartbeat = |number| numbered(HEARTBEAT, 0, number, &[0xff, 0xff, 7]);

        let mut tcp = connect().await.unwrap();
        echoed(&mut tcp, &[heartbeat(1), heartbeat(2)]).await;
        assert_eq!(streams(&pair).await, opened(1, 0));
        // The second names its topics again, in far more than is looked at.
        let clicks = |number| produce(number, &["clicks.eu", "clicks.us"], 300_000);
        echoed(&mut tcp, &[heartbeat(3), clicks(4), heartbeat(5), clicks(6)]).await;
        assert_eq!(streams(&pair).await, opened(1, 1));
        let orders = produce(7, &["orders"], 10);
        echoed(&mut tcp, &[clicks(6), orders.clone(), clicks(8), orders]).await;
        assert_eq!(streams(&pair).await, opened(2, 1), "back for good");
        drop(tcp);

        let mut mixed = connect().await.unwrap();
        echoed(&mut mixed, &[produce(1, &["clicks.eu", "orders"], 10), clicks(2)]).await;
        let mut authenticated = connect().await.unwrap();
        echoed(
            &mut authenticated,
            &[numbered(17, 1, 1, &[[0xff, 0xff].to_vec(), string("PLAIN")].concat()), clicks(2)],
        )
        .await;
        assert_eq!(streams(&pair).await, opened(4, 1));

        // A request that ends within its head, or within its body, ends the connection.
        for cut in [5, 40] {
            let mut short = connect().await.unwrap();
            short.write_all(&clicks(1)[..cut]).await.unwrap();
            short.shutdown().await.unwrap();
            assert_eq!(short.read(&mut [0]).await.unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
        }
    });
}

/// A batch of records of one byte, by hand (magic 2).
fn a_batch(base: i64, count: i64) -> Vec<u8> {
    let mut tail = 0i16.to_be_bytes().to_vec();
    tail.extend((count as i32 - 1).to_be_bytes());
    tail.extend([0; 16]);
    tail.extend([0xff; 14]);
    tail.extend((count as i32).to_be_bytes());
    for delta in 0..count {
        let zigzag = (delta * 2) as u64;
        let delta = if zigzag < 0x80 { vec![zigzag as u8] } else { vec![zigzag as u8 | 0x80, (zigzag >> 7) as u8] };
        tail.push(((6 + delta.len()) * 2) as u8);
        tail.extend([0, 0]);
        tail.extend(&delta);
        tail.extend([1, 2, b'x', 0]);
    }
    let mut batch = base.to_be_bytes().to_vec();
    batch.extend((tail.len() as i32 + 9).to_be_bytes());
    batch.extend([0, 0, 0, 0, 2]);
    batch.extend(crc32c::crc32c(&tail).to_be_bytes());
    batch.extend(tail);
    batch
}

fn string(text: &str) -> Vec<u8> {
    [&(text.len() as i16).to_be_bytes(), text.as_bytes()].concat()
}

const FETCH: i16 = 1;
const DESCRIBE_CONFIGS: i16 = 32;

/// A broker with a topic `clicks` of one partition. A fetch gets a batch of a hundred records from its offset on.
async fn broker_of_clicks(policy: &'static str) -> SocketAddr {
    broker_of_batches(policy, 100).await
}

/// The same, of batches of so many records.
async fn broker_of_batches(policy: &'static str, records: i64) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut tcp, _)) = listener.accept().await {
            tokio::spawn(async move {
                while let Ok(length) = tcp.read_u32().await {
                    let mut request = vec![0; length as usize];
                    tcp.read_exact(&mut request).await.unwrap();
                    let mut response = request[4..8].to_vec();
                    response.extend([0; 4]); // throttle_time_ms
                    response.extend(1i32.to_be_bytes());
                    if request[..2] == FETCH.to_be_bytes() {
                        let offset = i64::from_be_bytes(request[request.len() - 12..][..8].try_into().unwrap());
                        let records = a_batch(offset, records);
                        response.extend(string("clicks"));
                        response.extend([1i32.to_be_bytes(), 0i32.to_be_bytes()].concat());
                        response.extend([0; 2 + 8 + 8]);
                        response.extend((-1i32).to_be_bytes()); // no aborted transactions
                        response.extend((records.len() as i32).to_be_bytes());
                        response.extend(records);
                    } else {
                        assert_eq!(request[..2], DESCRIBE_CONFIGS.to_be_bytes());
                        response.extend([0; 2]);
                        response.extend((-1i16).to_be_bytes());
                        response.push(2);
                        response.extend(string("clicks"));
                        response.extend(1i32.to_be_bytes());
                        response.extend([string("cleanup.policy"), string(policy), vec![0; 3 + 4]].concat());
                    }
                    tcp.write_u32(response.len() as u32).await.unwrap();
                    tcp.write_all(&response).await.unwrap();
                }
            });
        }
    });
    address
}

/// How many records a fetch of version 4 gets, after its length and checksum were found right.
async fn fetch(tcp: &mut TcpStream, offset: i64, replica: i32) -> std::io::Result<u32> {
    fetch_of(tcp, offset, replica, 100).await
}

/// A request for records of version 4.
fn fetch_request(offset: i64, replica: i32) -> Vec<u8> {
    let mut body = string("client");
    for value in [replica, 500, 1, 1 << 20] {
        body.extend(i32::to_be_bytes(value));
    }
    body.push(0);
    body.extend(1i32.to_be_bytes());
    body.extend(string("clicks"));
    body.extend([1i32.to_be_bytes(), 0i32.to_be_bytes()].concat());
    body.extend(offset.to_be_bytes());
    body.extend((1i32 << 20).to_be_bytes());
    let mut frame = ((8 + body.len()) as i32).to_be_bytes().to_vec();
    frame.extend([FETCH.to_be_bytes(), 4i16.to_be_bytes()].concat());
    frame.extend(99i32.to_be_bytes());
    frame.extend(body);
    frame
}

/// The same of a batch that has so many records at the broker.
async fn fetch_of(tcp: &mut TcpStream, offset: i64, replica: i32, count: i32) -> std::io::Result<u32> {
    tcp.write_all(&fetch_request(offset, replica)).await?;
    let mut response = vec![0; tcp.read_u32().await? as usize];
    tcp.read_exact(&mut response).await?;
    let records = &response[4 + 4 + 4 + 8 + 4 + 4 + 18 + 4..];
    let (length, batch) = records.split_first_chunk().unwrap();
    assert_eq!(i32::from_be_bytes(*length) as usize, batch.len());
    assert_eq!(batch[..8], offset.to_be_bytes());
    assert_eq!(batch[23..27], (count - 1).to_be_bytes(), "the last offset's distance stays");
    assert_eq!(crc32c::crc32c(&batch[21..]).to_be_bytes(), batch[17..21]);
    Ok(u32::from_be_bytes(batch[57..61].try_into().unwrap()))
}

/// Two daemons; the near one's door bears the loss of a fifth of `clicks`, always; the far one has a ledger, or not.
async fn lossy_daemons(broker: SocketAddr, ledger: Option<&std::path::Path>) -> Pair {
    lossy_daemons_with(broker, ledger, "when = \"always\"\n").await
}

/// The same with other lines of the rule.
async fn lossy_daemons_with(broker: SocketAddr, ledger: Option<&std::path::Path>, rule: &str) -> Pair {
    let door = format!(
        "{}[[kafka]]\nlisten = \"127.0.0.1:0\"\nto = \"hostb\"\nbootstrap = \"{broker}\"\nclass = \"bulk\"\n\
         [kafka.topics.\"cl*\"]\nmin_delivery = 0.8\n{rule}",
        common::CLASS
    );
    let ledger = ledger.map_or(String::new(), |path| format!("kafka_ledger = \"{}\"\n", path.display()));
    Pair::with(&door, &format!("{}[exit]\nallow = [\"127.0.0.1:*\"]\n{ledger}", common::CLASS)).await
}

/// Fetches lose what may be lost, the first as well: the broker has been asked whether it compacts the topic. The same fetch
/// gets the same, also from the next daemon with the ledger.
#[test]
fn records_are_left_out_within_the_bound_and_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger");
    block_on(async {
        let pair = lossy_daemons(broker_of_clicks("delete").await, Some(&path)).await;
        let mut tcp = TcpStream::connect(pair.near.doors()[0]).await.unwrap();
        for (offset, records) in [(0, 80), (100, 80), (200, 80), (100, 80), (0, 80)] {
            assert_eq!(fetch(&mut tcp, offset, -1).await.unwrap(), records, "{offset}");
        }
        let [status] = &pair.far.status().kafka_partitions[..] else { panic!("one partition") };
        assert_eq!(
            (status.topic.as_str(), status.class.as_str(), status.fetched, status.lost),
            ("clicks", "bulk", 300, 60)
        );
    });
    block_on(async {
        let pair = lossy_daemons(broker_of_clicks("delete").await, Some(&path)).await;
        let mut tcp = TcpStream::connect(pair.near.doors()[0]).await.unwrap();
        for (offset, records) in [(100, 80), (300, 80), (400, 80)] {
            assert_eq!(fetch(&mut tcp, offset, -1).await.unwrap(), records, "{offset}");
        }
        let ledger = ledger_of(&pair).await;
        assert_eq!((ledger.partition, ledger.fetched, ledger.lost, ledger.truncated), (0, 500, 100, false));
        assert_eq!(named(&ledger), 100);
        assert!(ledger.lost_offsets.iter().all(|range| !(range.0..=range.1).contains(&199)), "the anchor");
    });
}

/// A topic that the broker compacts is whole, as is any without a ledger; a replica is refused.
#[test]
fn what_must_not_be_lost_is_not() {
    block_on(async {
        let folder = tempfile::tempdir().unwrap();
        for (policy, ledger) in [("compact", Some("a")), ("compact,delete", Some("b")), ("delete", None)] {
            let ledger = ledger.map(|name| folder.path().join(name));
            let pair = lossy_daemons(broker_of_clicks(policy).await, ledger.as_deref()).await;
            let mut tcp = TcpStream::connect(pair.near.doors()[0]).await.unwrap();
            for offset in [0, 100, 200] {
                assert_eq!(fetch(&mut tcp, offset, -1).await.unwrap(), 100, "{policy}");
            }
            if ledger.is_some() {
                assert!(fetch(&mut tcp, 300, 2).await.is_err(), "a replica");
            }
        }
    });
}

const MESSAGES: &str = "carry = \"messages\"\n";

async fn ledger_of(pair: &Pair) -> KafkaLedger {
    let control = pair.far.control().unwrap();
    let asked = Request::KafkaLedger { topic: "clicks".to_owned() };
    let answer = tokio::task::spawn_blocking(move || request(&control, &asked)).await.unwrap().unwrap();
    let [ledger]: [KafkaLedger; 1] = serde_json::from_value(answer).unwrap();
    ledger
}

/// How many offsets a ledger names as lost.
fn named(ledger: &KafkaLedger) -> u64 {
    ledger.lost_offsets.iter().map(|(first, last)| (last - first + 1) as u64).sum()
}

/// The ledger once the exit has heard what became of all records but so many.
async fn settled(pair: &Pair, unsettled: u64) -> KafkaLedger {
    loop {
        let ledger = ledger_of(pair).await;
        if ledger.unsettled == unsettled {
            return ledger;
        }
    }
}

/// Fetches so many batches of 8000 records. How many of each came, and the ledger, which names as many as did not.
async fn fetched(pair: &Pair, tcp: &mut TcpStream, batches: i64) -> (Vec<u32>, KafkaLedger) {
    let mut got = Vec::new();
    for batch in 0..batches {
        got.push(fetch_of(tcp, batch * 8000, -1, 8000).await.unwrap());
    }
    let ledger = settled(pair, 0).await;
    let lost = (batches * 8000) as u64 - u64::from(got.iter().sum::<u32>());
    assert_eq!((ledger.fetched, ledger.lost, ledger.unsettled), ((batches * 8000) as u64, lost, 0), "{got:?}");
    assert_eq!(named(&ledger), lost);
    (got, ledger)
}

/// The same batches come again.
async fn check_same(tcp: &mut TcpStream, got: &[u32]) {
    for (batch, expected) in (0..).zip(got) {
        assert_eq!(fetch_of(tcp, batch * 8000, -1, 8000).await.unwrap(), *expected, "batch {batch}");
    }
}

/// Records travel in messages. While the path is free all come; if as many are lost as may be, whichever come make a whole
/// batch, the ledger names the others, and the same fetch gets the same.
#[test]
fn records_travel_in_messages() {
    let folder = tempfile::tempdir().unwrap();
    block_on(async {
        for (name, rule) in [("free", MESSAGES.to_owned()), ("always", format!("{MESSAGES}when = \"always\"\n"))] {
            let path = folder.path().join(name);
            let pair = lossy_daemons_with(broker_of_batches("delete", 8000).await, Some(&path), &rule).await;
            let mut tcp = TcpStream::connect(pair.near.doors()[0]).await.unwrap();
            let (got, ledger) = fetched(&pair, &mut tcp, 6).await;
            assert!(
                ledger.lost_offsets.iter().all(|(first, last)| !(*first..=*last).any(|offset| offset % 8000 == 7999))
            );
            // What was under way when enough had come is not lost. A host that is busy looks like a path that is.
            let least = u64::from(name == "always");
            assert!((least..=9600).contains(&ledger.lost), "{name}: {}", ledger.lost);
            // The first may come before the door's call for messages.
            assert!((5..=6).contains(&pair.far.status().kafka_responses_in_messages), "{name}");
            check_same(&mut tcp, &got).await;
            assert_eq!(settled(&pair, 0).await, ledger);
        }
    });
}

/// A switch on loopback between two daemons: 20 Mbit/s each way, class 0 in a long queue, all others in one of five packets.
/// It runs until it is dropped.
struct DroppingSwitch {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<u64>>,
}

impl DroppingSwitch {
    /// Between `near` and `far`, of which the far one is reached at `way`.
    fn start(near: SocketAddr, far: SocketAddr, way: SocketAddr) -> Self {
        let queue = |name, packets| QueueConfig::tail_drop(name, packets);
        let scheduler = SchedulerConfig::Dwrr { strict: 0, quantum_bytes: 1538 };
        let plan = QueuePlan::per_class(vec![queue("accurate", 1000), queue("early", 5)], scheduler);
        let link = |port: u16| LinkConfig {
            hash_turn: 0,
            name: format!("port {port}"),
            owner: 0,
            to: NextHop::Port(port),
            rate: "20Mbit/s".parse().unwrap(),
            delay: Span::ZERO,
            plan: 0,
        };
        let v4 = |address: SocketAddr| match address {
            SocketAddr::V4(address) => address,
            SocketAddr::V6(_) => panic!("loopback is IPv4 here"),
        };
        let config = RelayConfig {
            switch: SwitchConfig {
                fabric: FabricConfig {
                    plans: vec![plan],
                    links: vec![link(0), link(1)],
                    ingress: vec![Ingress::Node(0); 2],
                    routes: vec![vec![vec![0], vec![1]]],
                    load_balancing: LoadBalancing::Ecmp,
                    seed: 1,
                },
                ports: vec!["near".to_owned(), "far".to_owned()],
                faults: FaultConfig::default(),
                frames: DEFAULT_FRAMES,
                frame_bytes: 2048,
                sample_interval: None,
            },
            ports: vec![
                RelayPort { host: v4(near), alias: v4(free_udp()) },
                RelayPort { host: v4(far), alias: v4(way) },
            ],
            wire_size: WireSize::default(),
        };
        let mut relay = Relay::open(&config, SharedClock::start()).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                relay.run_once(Duration::from_millis(10)).unwrap();
            }
            relay.switch().assert_conserved();
            relay
                .switch()
                .fabric()
                .counters()
                .flatten()
                .map(|queue| queue.dropped.iter().map(|d| d.packets).sum::<u64>())
                .sum()
        });
        Self { stop, thread: Some(thread) }
    }

    /// How many packets its queues have dropped; it ends.
    fn dropped(mut self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Drop for DroppingSwitch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// An address of loopback at which nobody receives.
fn free_udp() -> SocketAddr {
    std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// Records travel in messages through queues that drop: on a path that others share, and as ATP's paper has it. What is lost is
/// within the bound, the ledger names it, and the same fetch gets the same.
#[test]
fn records_are_lost_on_the_way_within_the_bound() {
    let folder = tempfile::tempdir().unwrap();
    block_on(async {
        let alone = "message_line_rate = \"40Mbit/s\"\n";
        for (name, more, when) in [
            ("shared", "", "congested"),
            ("early", "", "always"),
            ("alone", alone, "congested"),
            ("both", alone, "always"),
        ] {
            let class = format!("{}message_class = 1\n{more}", common::CLASS);
            let broker = broker_of_batches("delete", 8000).await;
            let door = format!(
                "{class}[[kafka]]\nlisten = \"127.0.0.1:0\"\nto = \"hostb\"\nbootstrap = \"{broker}\"\nclass = \"bulk\"\n\
                 [kafka.topics.clicks]\nmin_delivery = 0.8\n{MESSAGES}when = \"{when}\"\n"
            );
            let ledger = folder.path().join(name);
            let exit = format!("{class}[exit]\nallow = [\"127.0.0.1:*\"]\nkafka_ledger = \"{}\"\n", ledger.display());
            let way = free_udp();
            let pair = Pair::with_way(&door, &exit, Some(way)).await;
            let switch = DroppingSwitch::start(pair.near.address(), pair.far.address(), way);
            let mut tcp = TcpStream::connect(pair.near.doors()[0]).await.unwrap();
            let (got, ledger) = fetched(&pair, &mut tcp, 8).await;
            assert!((1..=12_800).contains(&ledger.lost), "{name}: {}", ledger.lost);
            check_same(&mut tcp, &got).await;
            assert!(pair.far.status().kafka_responses_in_messages >= 7, "{name}");
            let dropped = switch.dropped();
            assert!(dropped > 0, "{name}: the switch has dropped nothing");
        }
    });
}

/// An exit without a ledger carries nothing in messages, and all come.
#[test]
fn an_exit_without_a_ledger_has_no_messages() {
    block_on(async {
        let rule = format!("{MESSAGES}when = \"always\"\n");
        let pair = lossy_daemons_with(broker_of_batches("delete", 8000).await, None, &rule).await;
        let mut tcp = TcpStream::connect(pair.near.doors()[0]).await.unwrap();
        for fetch in 0..2 {
            assert_eq!(fetch_of(&mut tcp, fetch * 8000, -1, 8000).await.unwrap(), 8000);
        }
    });
}

/// A chunk of what doors and exits say to each other.
fn chunk(kind: u8, content: &[u8]) -> Vec<u8> {
    [&[kind][..], &(content.len() as u32).to_be_bytes(), content].concat()
}

/// A door of a few lines: it asks for records, and has the head of the response whose records travel apart.
async fn a_door(far: SocketAddr, broker: SocketAddr) -> (BundleNode, IncomingMessages, BundleStream, Vec<u8>) {
    let settings = Settings { keys: Keys::Preshared([10; 32]), ..Settings::default() };
    let (node, _) = BundleNode::bind("127.0.0.1:0".parse().unwrap(), settings, vec![bundle_class(100)]).unwrap();
    let rules =
        "[{\"topics\":\"clicks\",\"min_delivery\":800000,\"compacted\":false,\"always\":true,\"carry\":\"messages\"}]";
    let mut stream = node.open(far, "bulk", format!("{broker}\n{rules}").into_bytes()).unwrap();
    let mut connected = [0; 17];
    stream.read_exact(&mut connected).await.unwrap();
    assert_eq!(connected[0], 2);
    let flow = node.call_for_messages(far, "bulk", connected[1..].try_into().unwrap(), 0).unwrap();
    for offset in 0.. {
        stream.write_all(&chunk(0, &fetch_request(offset * 8000, -1))).await.unwrap();
        let mut head = [0; 5];
        stream.read_exact(&mut head).await.unwrap();
        let mut content = vec![0; u32::from_be_bytes(head[1..].try_into().unwrap()) as usize];
        stream.read_exact(&mut content).await.unwrap();
        if head[0] == 1 {
            return (node, flow, stream, content);
        }
        // The call had not come yet: the response is in the stream, in some pieces.
        let mut left = u32::from_be_bytes(content[..4].try_into().unwrap()) as usize + 4 - content.len();
        while left > 0 {
            stream.read_exact(&mut head).await.unwrap();
            let mut piece = vec![0; u32::from_be_bytes(head[1..].try_into().unwrap()) as usize];
            stream.read_exact(&mut piece).await.unwrap();
            left -= piece.len();
        }
    }
    unreachable!()
}

/// A door is killed before it tells what became of the records: nobody knows, so as many count as lost as may be, and
/// whoever fetches them again gets them all. What is fetched later loses no more than is left.
#[test]
fn a_killed_door_leaves_the_bound_kept() {
    let folder = tempfile::tempdir().unwrap();
    block_on(async {
        let broker = broker_of_batches("delete", 8000).await;
        let rule = format!("{MESSAGES}when = \"always\"\n");
        let pair = lossy_daemons_with(broker, Some(&folder.path().join("ledger")), &rule).await;
        let (node, flow, stream, _) = a_door(pair.far.address(), broker).await;
        drop((stream, flow, node));
        let killed = ledger_of(&pair).await;
        assert!(killed.unsettled > 1500 && killed.lost + killed.unsettled <= killed.fetched / 5, "{killed:?}");
        let mut tcp = TcpStream::connect(pair.near.doors()[0]).await.unwrap();
        let last = killed.fetched as i64 - 8000;
        assert_eq!(fetch_of(&mut tcp, last, -1, 8000).await.unwrap(), 8000);
        assert_eq!(ledger_of(&pair).await, killed);
        for fetch in 1..4 {
            fetch_of(&mut tcp, last + fetch * 8000, -1, 8000).await.unwrap();
        }
        let later = settled(&pair, killed.unsettled).await;
        assert_eq!(later.fetched, killed.fetched + 24_000);
        assert!(later.lost + later.unsettled <= later.fetched / 5 && later.lost > killed.lost, "{later:?}");
    });
}

/// A door that says more was lost than may be, or what cannot be read, is reset, and nothing of it is in the ledger.
#[test]
fn a_door_that_lies_is_reset() {
    let folder = tempfile::tempdir().unwrap();
    block_on(async {
        let broker = broker_of_batches("delete", 8000).await;
        for (number, report) in [
            [0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 40, 0, 0, 0, 0].to_vec(),
            [0, 0, 0, 1, 0, 0, 0, 5, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0].to_vec(),
            vec![0, 0, 0, 9],
        ]
        .into_iter()
        .enumerate()
        {
            let path = folder.path().join(number.to_string());
            let pair = lossy_daemons_with(broker, Some(&path), MESSAGES).await;
            let (node, _flow, mut stream, _) = a_door(pair.far.address(), broker).await;
            let before = ledger_of(&pair).await;
            stream.write_all(&chunk(3, &report)).await.unwrap();
            assert!(stream.read_exact(&mut [0]).await.is_err(), "{report:?}");
            assert_eq!(ledger_of(&pair).await, before);
            drop(node);
        }
    });
}
