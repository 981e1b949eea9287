//! State that the tasks of a daemon share.

use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use pliant_net::bundle::{BundleNode, BundleReport};
use pliant_net::socket::canonical;
use rustix::process::{Resource, getrlimit};
use tokio::sync::{Semaphore, watch};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, timeout};

use crate::config::{Config, Door, ExitRules, Limits};
use crate::doors::brokers::Brokers;
use crate::log::Told;
use crate::lossy::LossyExit;
use crate::mutex::lock;
use crate::objects::Objects;
use crate::questions::Questions;
use crate::topics::TopicNumbers;

/// How often a drain checks whether its peers have everything.
const DRAIN_INTERVAL: Duration = Duration::from_millis(5);
/// Descriptors for the daemon's own sockets and files. Each connection takes one more.
pub(crate) const OWN_DESCRIPTORS: usize = 64;
/// Most responses of Kafka's brokers that are unpacked for a peer at a time. Each occupies a thread.
const MAX_UNPACKING: usize = 2;

/// An open door.
pub(crate) struct OpenDoor {
    /// Its present configuration.
    pub(crate) door: RwLock<Arc<Door>>,
    /// Its address.
    pub(crate) local: SocketAddr,
    /// Connections that it has accepted.
    pub(crate) accepted: AtomicU64,
    /// Those of them that are open.
    pub(crate) connections: AtomicUsize,
    /// The brokers of its Kafka cluster.
    pub(crate) brokers: Brokers,
    /// The topics of its Kafka cluster. A client hears of their numbers on one connection and uses them on all.
    pub(crate) topics: Mutex<TopicNumbers>,
    told: Told,
    /// The task that accepts connections. They continue without it.
    task: Mutex<Option<AbortHandle>>,
}

impl OpenDoor {
    /// Says something of the door, unless it is no news.
    pub(crate) fn tell(&self, what: &str) {
        self.told.tell(&format!("{} door {}", self.door().kind.name(), self.local), what);
    }

    pub(crate) fn new(door: Door, local: SocketAddr) -> Arc<Self> {
        let door = RwLock::new(Arc::new(door));
        Arc::new(Self {
            door,
            local,
            accepted: AtomicU64::new(0),
            connections: AtomicUsize::new(0),
            brokers: Brokers::default(),
            topics: Mutex::default(),
            told: Told::default(),
            task: Mutex::default(),
        })
    }

    pub(crate) fn door(&self) -> Arc<Door> {
        self.door.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_door(&self, door: Door) {
        *self.door.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(door);
    }

    pub(crate) fn set_task(&self, task: AbortHandle) {
        *lock(&self.task) = Some(task);
    }

    /// Accepts no more connections.
    pub(crate) fn close(&self) {
        if let Some(task) = lock(&self.task).take() {
            task.abort();
        }
        self.brokers.close();
    }
}

/// The speed of a bundle's streams.
#[derive(Clone, Copy, Default)]
pub(crate) struct Speed {
    /// Bytes per second that were framed to be sent.
    pub(crate) sent: f64,
    /// Bytes per second that arrived in order.
    pub(crate) received: f64,
}

/// A bundle's counters at a time.
struct Sample {
    at: Instant,
    sent: u64,
    received: u64,
    speed: Speed,
}

/// State that the tasks of a daemon share.
pub(crate) struct Shared {
    pub(crate) node: BundleNode,
    /// The configuration in force.
    pub(crate) config: Mutex<Config>,
    pub(crate) doors: Mutex<Vec<Arc<OpenDoor>>>,
    /// Files that it offers and fetches.
    pub(crate) objects: Option<Arc<Objects>>,
    /// The task that serves programs with the preload library.
    preload: Mutex<Option<AbortHandle>>,
    /// Connections that it has handed over, and what was told of it.
    pub(crate) handed_over: AtomicU64,
    pub(crate) preload_told: Told,
    exit: RwLock<Arc<Exit>>,
    /// Leaves Kafka records out, if there is a ledger for it.
    pub(crate) lossy: Option<LossyExit>,
    /// Peers that have connections to services.
    served: Mutex<HashMap<String, ServedPeer>>,
    /// Number of connections, of programs and to services.
    connections: watch::Sender<usize>,
    draining: AtomicBool,
    /// Whether it is to end, and why if it cannot go on.
    ended: watch::Sender<Option<Result<(), String>>>,
    /// One change at a time.
    pub(crate) changing: tokio::sync::Mutex<()>,
    samples: Mutex<HashMap<u64, Sample>>,
    /// As many this process may open.
    descriptors: Option<u64>,
    pub(crate) started: Instant,
}

impl Shared {
    pub(crate) fn new(
        node: BundleNode,
        config: Config,
        objects: Option<Arc<Objects>>,
        lossy: Option<LossyExit>,
    ) -> Arc<Self> {
        Arc::new(Self {
            node,
            objects,
            exit: RwLock::new(Exit::of(&config)),
            lossy,
            preload: Mutex::default(),
            handed_over: AtomicU64::new(0),
            preload_told: Told::default(),
            served: Mutex::default(),
            config: Mutex::new(config),
            doors: Mutex::default(),
            connections: watch::Sender::new(0),
            draining: AtomicBool::new(false),
            ended: watch::Sender::new(None),
            changing: tokio::sync::Mutex::default(),
            samples: Mutex::default(),
            descriptors: getrlimit(Resource::Nofile).current,
            started: Instant::now(),
        })
    }

    pub(crate) fn config(&self) -> MutexGuard<'_, Config> {
        lock(&self.config)
    }

    pub(crate) fn doors(&self) -> MutexGuard<'_, Vec<Arc<OpenDoor>>> {
        lock(&self.doors)
    }

    pub(crate) fn set_preload(&self, task: AbortHandle) {
        *lock(&self.preload) = Some(task);
    }

    pub(crate) fn exit(&self) -> Arc<Exit> {
        self.exit.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_exit(&self, config: &Config) {
        *self.exit.write().unwrap_or_else(PoisonError::into_inner) = Exit::of(config);
    }

    /// Whether one of its own doors listens there, or the port of a broker. An exit that connected to it could create a loop.
    pub(crate) fn is_own_door(&self, address: SocketAddr) -> bool {
        let ip = address.ip().to_canonical();
        let is_door = |door: &Arc<OpenDoor>| {
            let own = door.local.ip();
            let has_port = door.local.port() == address.port() || door.brokers.has_port(address.port());
            // Only an address of this host can be bound.
            has_port && (own.to_canonical() == ip || own.is_unspecified() && is_of_this_host(address))
        };
        self.doors().iter().any(is_door)
    }

    /// The most connections of one peer, or of one user, who may have `limit`.
    pub(crate) fn most(&self, limit: usize) -> usize {
        most_of_one(limit, self.descriptors, self.connections())
    }

    /// Counts a connection to a service for a peer until the returned value is dropped; `None` if the peer has too
    /// many.
    pub(crate) fn serve_peer(self: &Arc<Self>, peer: &str) -> Option<ServedConnection> {
        let most = self.most(self.exit().limits.peer_connections);
        let mut served = lock(&self.served);
        if most == 0 || served.get(peer).is_some_and(|served| served.connections >= most) {
            return None;
        }
        let of_peer = served.entry(peer.to_owned()).or_default();
        of_peer.connections += 1;
        let (questions, unpacking) = (of_peer.questions.clone(), of_peer.unpacking.clone());
        Some(ServedConnection { shared: self.clone(), peer: peer.to_owned(), questions, unpacking })
    }

    /// Counts a connection until the returned value is dropped.
    pub(crate) fn count_connection(self: &Arc<Self>) -> CountedConnection {
        self.connections.send_modify(|count| *count += 1);
        CountedConnection(self.clone())
    }

    pub(crate) fn connections(&self) -> usize {
        *self.connections.borrow()
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    /// Stops offering and fetching files.
    pub(crate) fn stop_objects(&self) {
        if let Some(objects) = &self.objects {
            objects.stop();
        }
    }

    pub(crate) fn close_doors(&self) {
        for door in self.doors().iter() {
            door.close();
        }
        if let Some(task) = lock(&self.preload).take() {
            task.abort();
        }
    }

    /// Asks the daemon to end.
    pub(crate) fn end(&self) {
        self.ended.send_replace(Some(Ok(())));
    }

    /// The daemon cannot go on.
    pub(crate) fn fail(&self, why: &io::Error) {
        self.ended.send_replace(Some(Err(why.to_string())));
    }

    /// Waits until it is to end. The error says why it cannot go on.
    pub(crate) async fn ended(&self) -> io::Result<()> {
        let mut ended = self.ended.subscribe();
        // It fails only if the sender is gone, which is here.
        let ended = ended.wait_for(Option::is_some).await.map_or(Some(Ok(())), |ended| ended.clone());
        ended.unwrap_or(Ok(())).map_err(io::Error::other)
    }

    /// Takes no more connections, and waits until the last has ended and its peer has everything, at most `limit`.
    /// Returns how many connections are left.
    pub(crate) async fn drain(&self, limit: Duration) -> usize {
        self.draining.store(true, Ordering::Relaxed);
        self.close_doors();
        let mut connections = self.connections.subscribe();
        let over = async {
            // It fails only if the sender is gone, which is here.
            let _ = connections.wait_for(|count| *count == 0).await;
            while !self.node.is_idle() {
                sleep(DRAIN_INTERVAL).await;
            }
        };
        let _ = timeout(limit, over).await;
        self.connections()
    }

    /// Samples the counters of bundles.
    pub(crate) fn sample(&self, now: Instant) {
        let reports = self.node.reports();
        let mut samples = lock(&self.samples);
        samples.retain(|number, _| reports.iter().any(|report| report.number == *number));
        for report in &reports {
            let (sent, received) = (report.counts.sent_bytes, report.counts.received_bytes);
            let sample = samples.entry(report.number);
            sample
                .and_modify(|sample| {
                    let seconds = now.duration_since(sample.at).as_secs_f64();
                    if seconds > 0.0 {
                        let speed = |new: u64, old: u64| (new - old) as f64 / seconds;
                        sample.speed =
                            Speed { sent: speed(sent, sample.sent), received: speed(received, sample.received) };
                    }
                    (sample.at, sample.sent, sample.received) = (now, sent, received);
                })
                .or_insert(Sample { at: now, sent, received, speed: Speed::default() });
        }
    }

    /// The speed of a bundle in the last interval between two samples.
    pub(crate) fn speed(&self, bundle: &BundleReport) -> Speed {
        lock(&self.samples).get(&bundle.number).map(|sample| sample.speed).unwrap_or_default()
    }
}

/// The most connections of one who may have `limit`, of a process that may open so many descriptors and has so many connections
/// in all: no more than there are descriptors left. So nobody, and no few together, take all.
fn most_of_one(limit: usize, descriptors: Option<u64>, connections: usize) -> usize {
    let all = descriptors.map_or(usize::MAX, |all| usize::try_from(all).unwrap_or(usize::MAX));
    limit.min(all.saturating_sub(OWN_DESCRIPTORS).saturating_sub(connections)).max(1)
}

/// Whether this host has an address, which may be one of a link.
fn is_of_this_host(address: SocketAddr) -> bool {
    // With its scope: without it no socket can have a link's address.
    let mut any_port = canonical(address);
    any_port.set_port(0);
    UdpSocket::bind(any_port).is_ok()
}

/// The services of an exit.
pub(crate) struct Exit {
    pub(crate) rules: ExitRules,
    pub(crate) limits: Limits,
}

impl Exit {
    fn of(config: &Config) -> Arc<Self> {
        Arc::new(Self { rules: config.exit.clone(), limits: config.limits })
    }
}

/// A peer that has connections to services.
struct ServedPeer {
    connections: usize,
    questions: Questions,
    unpacking: Arc<Semaphore>,
}

impl Default for ServedPeer {
    fn default() -> Self {
        let unpacking = Arc::new(Semaphore::new(MAX_UNPACKING));
        Self { connections: 0, questions: Questions::default(), unpacking }
    }
}

/// A connection to a service. It counts until it is dropped.
pub(crate) struct ServedConnection {
    shared: Arc<Shared>,
    peer: String,
    /// Questions for names that its peer asks.
    pub(crate) questions: Questions,
    /// Limits how many responses of Kafka's brokers are unpacked for its peer at a time.
    pub(crate) unpacking: Arc<Semaphore>,
}

impl Drop for ServedConnection {
    fn drop(&mut self) {
        let mut served = lock(&self.shared.served);
        if let Some(of_peer) = served.get_mut(&self.peer) {
            of_peer.connections -= 1;
            if of_peer.connections == 0 {
                // Questions outlive the connection for which they were asked.
                served.retain(|_, peer| peer.connections > 0 || !peer.questions.are_answered());
            }
        }
    }
}

/// A connection. It counts until it is dropped.
pub(crate) struct CountedConnection(Arc<Shared>);

impl Drop for CountedConnection {
    fn drop(&mut self) {
        self.0.connections.send_modify(|count| *count -= 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever takes what they can leaves as much as they have to all others: of 1,024 descriptors one takes 480, then another
    /// 240, a third 120. Without a bound of descriptors the file's limit holds.
    #[test]
    fn limits_leave_descriptors_for_others() {
        let mut connections = 0;
        let taken = [(); 3].map(|()| {
            let mut own = 0;
            while own < most_of_one(10_000, Some(1024), connections) {
                (own, connections) = (own + 1, connections + 1);
            }
            own
        });
        assert_eq!(taken, [480, 240, 120]);
        for (limit, descriptors, expected) in
            [(300, Some(1024), 300), (300, None, 300), (300, Some(u64::MAX), 300), (300, Some(10), 1)]
        {
            assert_eq!(most_of_one(limit, descriptors, 0), expected);
        }
    }

    /// The address of a link is this host's too, if it has one: such an address comes from a name with a scope, `fe80::7%eth0`.
    #[test]
    fn addresses_of_links_are_of_this_host() {
        for (text, is_here) in [("127.0.0.1:7", true), ("[::ffff:127.0.0.1]:7", true), ("203.0.113.7:7", false)] {
            assert_eq!(is_of_this_host(text.parse().unwrap()), is_here, "{text}");
        }
        // Address, interface, prefix, scope and flags, of which 0x40 says that it is not the host's yet.
        let table = std::fs::read_to_string("/proc/net/if_inet6").unwrap_or_default();
        for line in table.lines().filter(|line| line.starts_with("fe80")) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let number = |at: usize| u32::from_str_radix(words[at], 16).unwrap();
            if number(4) & 0x40 == 0 {
                let ip = u128::from_str_radix(words[0], 16).unwrap().into();
                assert!(is_of_this_host(std::net::SocketAddrV6::new(ip, 7, 0, number(1)).into()), "{line}");
            }
        }
    }
}
