//! A Kafka door between two daemons on loopback, with brokers of a few lines.

mod common;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use common::{Pair, block_on};
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
        let mut tcp = TcpStream::connect(pair.near.doors()[0]).await.unwrap();
        assert_eq!(tcp.read(&mut [0]).await.unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
    });
}
