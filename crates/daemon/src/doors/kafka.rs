//! A door to a Kafka cluster: clients are given its address as their bootstrap server. Each broker that a response
//! advertises gets a port of its own here, and the response names that one instead.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use pliant_kafka::{Advertised, Local};
use pliant_net::bundle::{BundleStream, ChangeBytes};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::sleep;

use super::accept::accept;
use super::apart::{MessageCalls, carry_apart};
use super::brokers::{BrokerPort, RefusingPort, Target, tcp_socket};
use super::by_topic::{Moves, carry_by_topic};
use super::open::{open, open_with};
use super::silence::{BrokerPlaces, HeardConnection};
use crate::config::{DoorKind, KafkaCluster};
use crate::header::{Service, StreamHeader};
use crate::mutex::lock;
use crate::relay::reset;
use crate::shared::{OpenDoor, Shared};

/// How long the port of a broker that refuses connections refuses them, before the door asks whether the broker still does.
const REFUSED_FOR: Duration = Duration::from_secs(1);
/// So often the door asks. Then the port listens again, and the next client finds out.
const MAX_ASKED: u32 = 300;
/// Connections that wait to be accepted at a broker's port.
const BACKLOG: u32 = 1024;

/// Serves a connection to the cluster's bootstrap address, or to a broker. Whether it was refused where it leads.
pub(super) async fn serve(
    tcp: TcpStream,
    cluster: &KafkaCluster,
    broker: Option<&Target>,
    door: &Arc<OpenDoor>,
    shared: &Arc<Shared>,
) -> bool {
    let service = broker.map_or_else(|| cluster.bootstrap.clone(), |target| lock(target).clone());
    let lossy = (!cluster.topics.0.is_empty()).then(|| cluster.topics.clone());
    let mut header = StreamHeader { service, lossy };
    let wants_messages = cluster.topics.carries_messages();
    let mut opened = open_with(&shared.node, &cluster.next_hop, &header).await;
    // Exits of an earlier version do not read rules with messages.
    if wants_messages && opened.as_ref().is_err_and(|error| error.says(io::ErrorKind::PermissionDenied)) {
        header.lossy = Some(cluster.topics.in_stream());
        opened = open_with(&shared.node, &cluster.next_hop, &header).await;
    }
    let refused = opened.as_ref().is_err_and(|error| error.says(io::ErrorKind::ConnectionRefused));
    let Ok(reached) = tcp.local_addr() else { return refused };
    let runtime = Handle::current();
    let places = ClientPlaces {
        cluster: cluster.clone(),
        host: reached.ip(),
        door: door.clone(),
        shared: shared.clone(),
        runtime: runtime.clone(),
    };
    let (told, service) = (door.clone(), header.service.text());
    // The node's thread, which may find it, does not wait for the log.
    let silent = move || {
        let (told, why) =
            (told.clone(), format!("{service} takes connections but does not answer; a client has given up"));
        drop(runtime.spawn(async move { told.tell(&why) }));
    };
    let why = match opened {
        Ok((stream, None)) => {
            if wants_messages {
                door.tell("the exit carries no records in messages; if it has a ledger it leaves some out itself");
            }
            if cluster.classes.rules.is_empty() {
                carry(tcp, stream, places, silent).await
            } else {
                let KafkaCluster { next_hop, classes, .. } = cluster;
                let (node, numbers, header) = (&shared.node, &door.topics, &header);
                carry_by_topic(tcp, stream, Moves { node, next_hop, header, classes, numbers }, places, silent).await
            }
        }
        Ok((stream, Some(token))) => {
            let flows = MessageCalls::new(&shared.node, &cluster.next_hop, token);
            carry_apart(tcp, stream, flows, places, silent).await
        }
        Err(error) => {
            reset(&tcp);
            Some(error.to_string())
        }
    };
    if let Some(why) = why {
        door.tell(&why);
    }
    refused
}

/// Where one client finds the brokers: each at a port here, which is opened when it is advertised first.
struct ClientPlaces {
    cluster: KafkaCluster,
    /// How this client reached the door.
    host: IpAddr,
    door: Arc<OpenDoor>,
    shared: Arc<Shared>,
    /// Ports may be opened by the node's thread, which is none of the runtime's.
    runtime: Handle,
}

impl BrokerPlaces for ClientPlaces {
    fn place(&self, broker: &Advertised) -> Result<Local, String> {
        let _entered = self.runtime.enter();
        let Self { cluster, door, shared, .. } = self;
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
            let task = tokio::spawn(listen(listener, target.clone(), door.clone(), shared.clone()));
            Ok(BrokerPort { port, target, task: task.abort_handle() })
        };
        let refuse = || {
            let ip = door.local.ip();
            RefusingPort::bind(ip).map_err(|error| format!("broker {number}: there is no port on {ip}: {error}"))
        };
        let port = door.brokers.port(number, service, cluster.max_brokers, open, refuse)?;
        Ok(Local { host: self.host.to_string(), port })
    }

    fn tell_refused(&self) {
        let Some(refused) = self.door.brokers.take_refused() else { return };
        let (door, why) = (self.door.clone(), format!("{refused}; max_brokers is {}", self.cluster.max_brokers));
        // The node's thread, which may find it, does not wait for the log.
        drop(self.runtime.spawn(async move { door.tell(&why) }));
    }
}

/// Accepts the connections of a broker's port, for ever. While the broker refuses connections its port does.
async fn listen(mut listener: TcpListener, target: Target, door: Arc<OpenDoor>, shared: Arc<Shared>) {
    let Ok(address) = listener.local_addr() else { return };
    loop {
        let refused = Arc::new(Notify::new());
        let accepting = accept(listener, door.clone(), shared.clone(), {
            let (door, shared, target, refused) = (door.clone(), shared.clone(), target.clone(), refused.clone());
            move |tcp| serve_broker(tcp, target.clone(), door.clone(), shared.clone(), refused.clone())
        });
        tokio::select! {
            () = accepting => return,
            () = refused.notified() => {}
        }
        // The listener is closed; connections that are served go on.
        listener = listen_again(address, &target, &door, &shared).await;
    }
}

/// The port listens again once the broker does not refuse connections any more.
async fn listen_again(address: SocketAddr, target: &Target, door: &OpenDoor, shared: &Shared) -> TcpListener {
    loop {
        // A socket that does not listen keeps the port, and connections to it are refused.
        let held = hold(address);
        if held.is_ok() {
            for _ in 0..MAX_ASKED {
                sleep(REFUSED_FOR).await;
                if !refuses(target, door, shared).await {
                    break;
                }
            }
        }
        match held.and_then(|socket| socket.listen(BACKLOG)) {
            Ok(listener) => return listener,
            Err(error) => door.tell(&format!("cannot listen on {address}: {error}")),
        }
        sleep(REFUSED_FOR).await;
    }
}

fn hold(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = tcp_socket(address.ip())?;
    // Connections of before may still be there.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}

/// Whether a broker refuses connections.
async fn refuses(target: &Target, door: &OpenDoor, shared: &Shared) -> bool {
    let DoorKind::Kafka(cluster) = &door.door().kind else { return false };
    let service = lock(target).clone();
    let opened = open(&shared.node, &cluster.next_hop, &service).await;
    opened.is_err_and(|error| error.says(io::ErrorKind::ConnectionRefused))
}

async fn serve_broker(tcp: TcpStream, target: Target, door: Arc<OpenDoor>, shared: Arc<Shared>, refused: Arc<Notify>) {
    match &door.door().kind {
        DoorKind::Kafka(cluster) => {
            if serve(tcp, cluster, Some(&target), &door, &shared).await {
                refused.notify_one();
            }
        }
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

/// A client's connection, as the node's thread carries it.
struct Carried<P, S> {
    heard: HeardConnection,
    places: P,
    /// Hears that the client has given up because the broker is silent.
    silent: S,
}

impl<P, S> ChangeBytes for Carried<P, S>
where
    P: BrokerPlaces + Send,
    S: Fn() + Send,
{
    fn take_from_socket(&mut self, piece: &[u8], output: &mut Vec<u8>) -> io::Result<()> {
        match piece {
            [] => self.heard.end_requests(&self.silent),
            piece => self.heard.take_request(piece, output),
        }
    }

    fn take_from_stream(&mut self, piece: &[u8], output: &mut Vec<u8>) -> io::Result<()> {
        match piece {
            [] => self.heard.end_responses(),
            piece => self.heard.take_response(piece, &self.places, None, output),
        }
    }

    fn passing(&self) -> usize {
        self.heard.connection.passing()
    }

    fn pass(&mut self, count: usize) {
        self.heard.pass(count);
    }
}

/// Carries one connection until both sides have ended. What is refused ends it with a reset of both, and is told.
async fn carry(
    tcp: TcpStream,
    stream: BundleStream,
    places: impl BrokerPlaces + Send + 'static,
    silent: impl Fn() + Send + 'static,
) -> Option<String> {
    let _ = tcp.set_nodelay(true);
    let carried = Carried { heard: HeardConnection::default(), places, silent };
    let error = stream.carry_changed(tcp.into_std().ok()?.into(), Box::new(carried)).await.err()?;
    (error.kind() == io::ErrorKind::InvalidData).then(|| error.to_string())
}
