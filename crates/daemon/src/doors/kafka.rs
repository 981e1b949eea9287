//! A door to a Kafka cluster: clients are given its address as their bootstrap server. Each broker that a response
//! advertises gets a port of its own here, and the response names that one instead.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};

use pliant_kafka::{Advertised, Connection, Local, Refusal};
use pliant_net::bundle::{BundleNode, BundleStream};
use tokio::io::{AsyncReadExt, AsyncWriteExt, split};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;

use super::{accept_all, open};
use crate::config::Kafka;
use crate::header::Service;
use crate::relay::reset;

/// Bytes that are copied at once.
const PIECE_BYTES: usize = 64 << 10;
/// Most brokers of a cluster: each costs a listening socket.
const MAX_BROKERS: usize = 1000;

/// Serves a door and the ports of all brokers that it learns of, for ever.
pub(crate) async fn serve(listener: TcpListener, node: Arc<BundleNode>, kafka: Kafka) {
    let (learned, mut news) = unbounded_channel();
    let bootstrap = Arc::new(Mutex::new(kafka.bootstrap.clone()));
    let door = Arc::new(Door { kafka, brokers: Mutex::default(), learned, told: Mutex::default() });
    // They end with this task.
    let mut ports = JoinSet::new();
    ports.spawn(serve_port(listener, node.clone(), door.clone(), bootstrap));
    serve_learned(&mut news, &mut ports, &node, &door).await;
}

async fn serve_learned(
    news: &mut UnboundedReceiver<(std::net::TcpListener, Target)>,
    ports: &mut JoinSet<()>,
    node: &Arc<BundleNode>,
    door: &Arc<Door>,
) {
    // The door itself holds a sender: this is never over.
    while let Some((listener, target)) = news.recv().await {
        match TcpListener::from_std(listener) {
            Ok(listener) => drop(ports.spawn(serve_port(listener, node.clone(), door.clone(), target))),
            Err(error) => door.tell(&error.to_string()),
        }
    }
}

async fn serve_port(listener: TcpListener, node: Arc<BundleNode>, door: Arc<Door>, target: Target) {
    accept_all(listener, node, move |node, tcp| {
        let (door, target) = (door.clone(), target.clone());
        async move {
            let service = target.lock().expect("nothing panics with it").clone();
            match open(&node, &door.kafka.way, &service).await {
                Ok(stream) => carry(tcp, stream, &door).await,
                Err(error) => {
                    door.tell(&format!("{}: {error}", service.text()));
                    reset(&tcp);
                }
            }
        }
    })
    .await;
}

/// Where a port leads: brokers keep their number when they move.
type Target = Arc<Mutex<Service>>;

/// What all connections of a door share.
struct Door {
    kafka: Kafka,
    /// By number: the port here, and where it leads.
    brokers: Mutex<BTreeMap<i32, (u16, Target)>>,
    learned: UnboundedSender<(std::net::TcpListener, Target)>,
    /// What was told last.
    told: Mutex<String>,
}

impl Door {
    /// The place of a broker; its port is opened when it is advertised first. `host` is how this client reached the door.
    fn place(&self, host: IpAddr, broker: &Advertised) -> Result<Local, String> {
        let text = Service { host: broker.host.clone(), port: broker.port }.text();
        let service = Service::parse(&text).ok_or_else(|| format!("broker {} advertises `{text}`", broker.node))?;
        let mut brokers = self.brokers.lock().expect("nothing panics with it");
        if let Some((port, target)) = brokers.get(&broker.node) {
            *target.lock().expect("nothing panics with it") = service;
            return Ok(Local { host: host.to_string(), port: *port });
        }
        if brokers.len() == MAX_BROKERS {
            return Err(format!("broker {} is one more than {MAX_BROKERS}", broker.node));
        }
        let port = match self.kafka.broker_ports {
            None => 0,
            Some(first) => i32::from(first)
                .checked_add(broker.node)
                .and_then(|port| u16::try_from(port).ok())
                .ok_or_else(|| format!("broker {}: there is no port {first} + {}", broker.node, broker.node))?,
        };
        let address = SocketAddr::new(self.kafka.listen.ip(), port);
        let (listener, port) =
            bind(address).map_err(|error| format!("broker {}: cannot listen on {address}: {error}", broker.node))?;
        let target = Arc::new(Mutex::new(service));
        let _ = self.learned.send((listener, target.clone()));
        brokers.insert(broker.node, (port, target));
        Ok(Local { host: host.to_string(), port })
    }

    /// Says why a connection ended. Clients try again: the same reason is told once.
    fn tell(&self, why: &str) {
        let mut told = self.told.lock().expect("nothing panics with it");
        if *told != why {
            eprintln!("kafka door {}: {why}", self.kafka.listen);
            why.clone_into(&mut told);
        }
    }
}

fn bind(address: SocketAddr) -> io::Result<(std::net::TcpListener, u16)> {
    let listener = std::net::TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    let port = listener.local_addr()?.port();
    Ok((listener, port))
}

/// Carries one connection until both sides have ended. What is refused ends it with a reset of both.
async fn carry(tcp: TcpStream, stream: BundleStream, door: &Door) {
    let _ = tcp.set_nodelay(true);
    let Ok(host) = tcp.local_addr().map(|address| address.ip()) else { return };
    let (mut from_client, mut to_client) = tcp.into_split();
    let (mut from_broker, mut to_broker) = split(stream);
    let connection = Mutex::new(Connection::default());
    let requests = async {
        let (mut piece, mut output) = (vec![0; PIECE_BYTES], Vec::new());
        loop {
            let count = from_client.read(&mut piece).await?;
            let taken = {
                let mut connection = connection.lock().expect("nothing panics with it");
                if count == 0 {
                    connection.end_requests()
                } else {
                    connection.take_request(&piece[..count], &mut output)
                }
            };
            taken.map_err(refused)?;
            if count == 0 {
                return to_broker.shutdown().await;
            }
            to_broker.write_all(&output).await?;
            output.clear();
        }
    };
    let responses = async {
        let (mut piece, mut output) = (vec![0; PIECE_BYTES], Vec::new());
        loop {
            let count = from_broker.read(&mut piece).await?;
            let taken = {
                let mut connection = connection.lock().expect("nothing panics with it");
                if count == 0 {
                    connection.end_responses()
                } else {
                    connection.take_response(&piece[..count], |broker| door.place(host, broker), &mut output)
                }
            };
            taken.map_err(refused)?;
            if count == 0 {
                return to_client.shutdown().await;
            }
            to_client.write_all(&output).await?;
            output.clear();
            // A large response is the exception.
            output.shrink_to(2 * PIECE_BYTES);
        }
    };
    if let Err(error) = tokio::try_join!(requests, responses) {
        if error.kind() == io::ErrorKind::InvalidData {
            door.tell(&error.to_string());
        }
        let tcp = from_client.reunite(to_client).expect("they are halves of one");
        reset(&tcp);
    }
}

fn refused(refusal: Refusal) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, refusal)
}
