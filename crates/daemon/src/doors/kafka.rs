//! A door to a Kafka cluster: clients are given its address as their bootstrap server. Each broker that a response
//! advertises gets a port of its own here, and the response names that one instead.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};

use pliant_kafka::{Advertised, Connection, Local};
use pliant_net::bundle::BundleStream;
use tokio::io::split;
use tokio::net::{TcpListener, TcpStream};

use super::accept::accept;
use super::brokers::{BrokerPort, Target};
use super::open::open_with;
use crate::config::{DoorKind, KafkaCluster};
use crate::header::{Service, StreamHeader};
use crate::mutex::lock;
use crate::relay::{carry_frames, reset};
use crate::shared::{OpenDoor, Shared};

/// Serves a connection to the cluster's bootstrap address, or to a broker.
pub(super) async fn serve(
    tcp: TcpStream,
    cluster: &KafkaCluster,
    broker: Option<&Target>,
    door: &Arc<OpenDoor>,
    shared: &Arc<Shared>,
) {
    let service = broker.map_or_else(|| cluster.bootstrap.clone(), |target| lock(target).clone());
    let lossy = (!cluster.topics.0.is_empty()).then(|| cluster.topics.clone());
    let header = StreamHeader { service: service.clone(), lossy };
    let why = match open_with(&shared.node, &cluster.next_hop, &header).await {
        Ok(stream) => carry(tcp, stream, |host, broker| place(cluster, host, broker, door, shared)).await,
        Err(error) => {
            reset(&tcp);
            Some(format!("{}: {error}", service.text()))
        }
    };
    if let Some(why) = why.filter(|why| door.brokers.is_news(why)) {
        eprintln!("kafka door {}: {why}", door.local);
    }
}

/// The place of a broker here. Its port is opened when it is advertised first. `host` is how this client reached the door.
fn place(
    cluster: &KafkaCluster,
    host: IpAddr,
    broker: &Advertised,
    door: &Arc<OpenDoor>,
    shared: &Arc<Shared>,
) -> Result<Local, String> {
    let number = broker.node;
    let text = Service { host: broker.host.clone(), port: broker.port }.text();
    let service = Service::parse(&text).ok_or_else(|| format!("broker {number} advertises `{text}`"))?;
    let open = |target: Target| {
        let port = match cluster.broker_ports {
            None => 0,
            Some(first) => i32::from(first)
                .checked_add(number)
                .and_then(|port| u16::try_from(port).ok())
                .ok_or_else(|| format!("broker {number}: there is no port {first} + {number}"))?,
        };
        let address = SocketAddr::new(door.local.ip(), port);
        let (listener, port) =
            bind(address).map_err(|error| format!("broker {number}: cannot listen on {address}: {error}"))?;
        let task = tokio::spawn(accept(listener, door.clone(), shared.clone(), {
            let (door, shared, target) = (door.clone(), shared.clone(), target.clone());
            move |tcp| serve_broker(tcp, target.clone(), door.clone(), shared.clone())
        }));
        Ok(BrokerPort { port, target, task: task.abort_handle() })
    };
    let port = door.brokers.port(number, service, open)?;
    Ok(Local { host: host.to_string(), port })
}

async fn serve_broker(tcp: TcpStream, target: Target, door: Arc<OpenDoor>, shared: Arc<Shared>) {
    match &door.door().kind {
        DoorKind::Kafka(cluster) => serve(tcp, cluster, Some(&target), &door, &shared).await,
        // The file was read again and has another door here.
        _ => reset(&tcp),
    }
}

fn bind(address: SocketAddr) -> io::Result<(TcpListener, u16)> {
    let listener = std::net::TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    let port = listener.local_addr()?.port();
    Ok((TcpListener::from_std(listener)?, port))
}

/// Carries one connection until both sides have ended. What is refused ends it with a reset of both, and is told.
async fn carry(
    tcp: TcpStream,
    stream: BundleStream,
    place: impl Fn(IpAddr, &Advertised) -> Result<Local, String>,
) -> Option<String> {
    let _ = tcp.set_nodelay(true);
    let host = tcp.local_addr().ok()?.ip();
    let (mut from_client, mut to_client) = tcp.into_split();
    let (mut from_broker, mut to_broker) = split(stream);
    let connection = Mutex::new(Connection::default());
    let take_request = |piece: &[u8], output: &mut Vec<u8>| {
        let mut connection = lock(&connection);
        if piece.is_empty() { connection.end_requests() } else { connection.take_request(piece, output) }
    };
    let take_response = |piece: &[u8], output: &mut Vec<u8>| {
        let mut connection = lock(&connection);
        if piece.is_empty() {
            connection.end_responses()
        } else {
            connection.take_response(piece, |broker| place(host, broker), output)
        }
    };
    let requests = carry_frames(&mut from_client, &mut to_broker, take_request, ());
    let responses = carry_frames(&mut from_broker, &mut to_client, take_response, ());
    let error = tokio::try_join!(requests, responses).err()?;
    let tcp = from_client.reunite(to_client).expect("they are halves of one");
    reset(&tcp);
    (error.kind() == io::ErrorKind::InvalidData).then(|| error.to_string())
}
