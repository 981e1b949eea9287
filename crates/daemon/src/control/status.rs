//! The state of a daemon.

use pliant_net::clock::time_of_day;
use pliant_proto::contract::Contract;
use pliant_proto::units::Rate;
use serde::{Deserialize, Serialize};

use crate::config::{DoorKind, KafkaCluster, NextHop, PreloadRule};
use crate::lossy::LossyExit;
use crate::mutex::lock;
use crate::shared::Shared;

/// The state of a daemon.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Status {
    /// Its version.
    pub version: String,
    /// Its process number.
    pub process: u32,
    /// The path of its file.
    pub configuration: String,
    /// Seconds since it was started.
    pub uptime_seconds: f64,
    /// Its UDP socket's address.
    pub listen: String,
    /// It takes no more connections.
    pub draining: bool,
    /// Connections of programs and to services.
    pub connections: usize,
    /// The peers of its file.
    pub peers: Vec<PeerStatus>,
    /// Its classes at present.
    pub classes: Vec<ClassStatus>,
    /// Its doors.
    pub doors: Vec<DoorStatus>,
    /// Its bundles, by peer and class.
    pub bundles: Vec<BundleStatus>,
    /// The files that it offers and fetches, if it does.
    #[serde(default)]
    pub objects: Option<ObjectsStatus>,
    /// The path of its exit's ledger of Kafka records, if it has one.
    #[serde(default)]
    pub kafka_ledger: Option<String>,
    /// Partitions of Kafka's topics of which its exit may leave records out.
    #[serde(default)]
    pub kafka_partitions: Vec<KafkaPartitionStatus>,
    /// Responses to Kafka's consumers whose records its exit has given to the path in messages.
    #[serde(default)]
    pub kafka_responses_in_messages: u64,
}

/// The files of a daemon.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ObjectsStatus {
    /// Its socket's address, for files.
    pub listen: String,
    /// Number of offered files, including incoming ones.
    pub files: usize,
    /// Number of running fetches.
    pub fetches: usize,
    /// Its offered folders.
    #[serde(default)]
    pub folders: Vec<FolderStatus>,
}

/// An offered folder.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FolderStatus {
    /// Its name.
    pub name: String,
    /// BLAKE3 hash of its listing, if it is offered.
    pub hash: Option<String>,
    /// Why its present state is not offered.
    pub problem: Option<String>,
}

/// A partition of which an exit may leave records out.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct KafkaPartitionStatus {
    /// The class of the doors that bear it.
    pub class: String,
    /// The topic.
    pub topic: String,
    /// The topic's number in hexadecimal digits; empty if clients fetch by its name.
    pub topic_id: String,
    /// The partition.
    pub partition: i32,
    /// Records that were fetched, each once.
    pub fetched: u64,
    /// Of these, those that were left out.
    pub lost: u64,
    /// Of those that are not among them, so many may be lost, and nobody has said whether they are: they are under way, or
    /// the door that was to tell has gone.
    #[serde(default)]
    pub unsettled: u64,
}

/// A peer of the file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PeerStatus {
    /// Its name in the file.
    pub name: String,
    /// Its address.
    pub address: String,
    /// Whether a bundle to or from it is open.
    pub open: bool,
}

/// A class.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ClassStatus {
    /// Its name.
    pub name: String,
    /// Its transport.
    pub transport: String,
    /// Its weight.
    pub weight: f64,
    /// Least share of the fair rate.
    pub min_share: f64,
    /// Least rate of payload in bits per second, if the contract has one.
    #[serde(default)]
    pub min_rate_bits_per_second: Option<u64>,
    /// Greatest rate on the wire in bits per second.
    pub max_rate_bits_per_second: Option<u64>,
    /// Traffic class, 0 to 31.
    pub class: u8,
    /// Most streams that a peer may have open.
    pub max_streams: usize,
}

/// A door.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DoorStatus {
    /// Its address.
    pub listen: String,
    /// Connections that it has accepted.
    pub accepted: u64,
    /// What it does with them.
    #[serde(flatten)]
    pub kind: DoorStatusKind,
}

/// What a door does with connections.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum DoorStatusKind {
    /// Connects them to one service.
    Forward {
        /// The peer's name.
        to: String,
        /// The service.
        target: String,
        /// The class.
        class: String,
    },
    /// Leads to a Kafka cluster.
    Kafka {
        /// The peer's name.
        to: String,
        /// The bootstrap server.
        target: String,
        /// The class.
        class: String,
    },
    /// Serves the daemon's metrics.
    Metrics,
    /// Serves files by HTTP.
    Objects,
    /// Hands connections to programs with the preload library.
    Preload {
        /// Its rules.
        rules: Vec<PreloadRuleStatus>,
    },
    /// Speaks SOCKS5 and HTTP.
    Proxy,
}

/// Services that programs with the preload library reach through a peer.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PreloadRuleStatus {
    /// Their addresses and ports.
    pub service: String,
    /// The peer's name.
    pub to: String,
    /// The class.
    pub class: String,
}

impl PreloadRuleStatus {
    fn of(rule: &PreloadRule) -> Self {
        let PreloadRule { service, next_hop: NextHop { to, class, .. } } = rule;
        Self { service: service.to_string(), to: to.clone(), class: class.clone() }
    }
}

impl DoorStatusKind {
    /// Its name, as in the JSON.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Forward { .. } => "forward",
            Self::Kafka { .. } => "kafka",
            Self::Metrics => "metrics",
            Self::Objects => "objects",
            Self::Preload { .. } => "preload",
            Self::Proxy => "proxy",
        }
    }
}

/// A bundle: all streams of a class between this daemon and a peer.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct BundleStatus {
    /// Its number at this daemon.
    pub number: u64,
    /// The peer's present address.
    pub peer: String,
    /// The peer's name, by its key or by the file.
    pub name: Option<String>,
    /// The class.
    pub class: String,
    /// `calling`, `open`, or `ending` after its class has changed.
    pub state: String,
    /// Number of open streams.
    pub streams: usize,
    /// Streams that either side has opened so far.
    pub opened_streams: u64,
    /// Streams that the peer was not allowed to open.
    pub refused_streams: u64,
    /// Bytes of streams that were sent, each once.
    pub sent_bytes: u64,
    /// Bytes of streams that have arrived, each once.
    pub received_bytes: u64,
    /// Bytes of streams per second that were sent in the last second.
    pub sent_bytes_per_second: f64,
    /// Bytes of streams per second that arrived in the last second.
    pub received_bytes_per_second: f64,
    /// Bytes of streams that this side holds.
    pub held_bytes: u64,
    /// Data packets sent.
    pub packets: u64,
    /// Those of them that were retransmissions.
    pub retransmissions: u64,
    /// Acknowledgements that reported congestion marks.
    pub marks: u64,
    /// Smoothed round-trip time in seconds; 0 before the first sample.
    #[serde(default)]
    pub round_trip_seconds: f64,
    /// By how much it is above the least one since the bundle stands: what waits in queues now, the bundle's own packets included.
    #[serde(default)]
    pub added_delay_seconds: f64,
    /// The floor of its rate: the greater of the class's `min_rate`, and its `min_share` of what a normal flow would have there.
    /// Only for transports that estimate the latter.
    #[serde(default)]
    pub floor_bits_per_second: Option<f64>,
    /// Whether what was sent in the last second is no less than nine tenths of the floor, which varies within the second, or was
    /// all that there was.
    #[serde(default)]
    pub floor_kept: Option<bool>,
}

/// So much of its floor at least a bundle sends in a second in which the floor is kept: both vary within the second.
const LEAST_OF_FLOOR: f64 = 0.9;

/// The floor of a contract in bits per second where a normal flow would have `normal`, if it promises anything.
fn floor(contract: &Contract, normal: Rate) -> Option<f64> {
    let share = contract.min_share * normal.bits_per_sec() as f64;
    Some(share.max(contract.min_rate.bits_per_sec() as f64)).filter(|floor| *floor > 0.0)
}

/// Whether a floor was kept by what was `sent` in the last second, in bits, with so many bytes waiting.
fn is_kept(floor: f64, sent: f64, unsent_bytes: u64) -> bool {
    unsent_bytes == 0 || sent >= LEAST_OF_FLOOR * floor
}

impl Status {
    pub(crate) fn of(shared: &Shared) -> Self {
        let config = shared.config().clone();
        let reports = shared.node.reports();
        let classes_now = config.classes_at(time_of_day());
        let bundles = reports.iter().map(|report| {
            let speed = shared.speed(report);
            let contract = classes_now.iter().find(|class| class.name == report.class).map(|class| class.flow.contract);
            let floor = contract.and_then(|contract| floor(&contract, report.path.normal_rate?));
            let state = match (report.open, report.retired) {
                (_, true) => "ending",
                (true, false) => "open",
                (false, false) => "calling",
            };
            BundleStatus {
                number: report.number,
                peer: report.address.to_string(),
                name: report
                    .name
                    .clone()
                    .or_else(|| config.peer_at(report.peer))
                    .or_else(|| config.peer_at(report.address)),
                class: report.class.clone(),
                state: state.to_owned(),
                streams: report.streams,
                opened_streams: report.counts.opened,
                refused_streams: report.counts.refused,
                sent_bytes: report.counts.sent_bytes,
                received_bytes: report.counts.received_bytes,
                sent_bytes_per_second: speed.sent,
                received_bytes_per_second: speed.received,
                held_bytes: report.held_bytes,
                packets: report.sender.packets_sent,
                retransmissions: report.sender.retransmissions,
                marks: report.sender.marks,
                round_trip_seconds: report.path.round_trip.as_secs_f64(),
                added_delay_seconds: report.path.round_trip.saturating_sub(report.path.least_round_trip).as_secs_f64(),
                floor_bits_per_second: floor,
                floor_kept: floor.map(|floor| is_kept(floor, 8.0 * speed.sent, report.unsent_bytes)),
            }
        });
        let peers = config.peers.iter().map(|(name, address)| PeerStatus {
            name: name.clone(),
            address: address.to_string(),
            open: reports.iter().any(|report| report.open && [report.peer, report.address].contains(address)),
        });
        let classes = classes_now.iter().map(|class| ClassStatus {
            name: class.name.clone(),
            transport: class.flow.transport.to_string(),
            weight: class.flow.contract.weight,
            min_share: class.flow.contract.min_share,
            min_rate_bits_per_second: Some(class.flow.contract.min_rate.bits_per_sec()).filter(|rate| *rate > 0),
            max_rate_bits_per_second: class.flow.contract.max_rate.map(Rate::bits_per_sec),
            class: class.flow.classes.data,
            max_streams: class.max_streams,
        });
        let doors = shared.doors();
        let doors = doors.iter().map(|open| {
            let door = open.door();
            let kind = match &door.kind {
                DoorKind::Forward { next_hop: NextHop { to, class, .. }, target } => {
                    DoorStatusKind::Forward { to: to.clone(), target: target.text(), class: class.clone() }
                }
                DoorKind::Kafka(KafkaCluster { next_hop: NextHop { to, class, .. }, bootstrap, .. }) => {
                    DoorStatusKind::Kafka { to: to.clone(), target: bootstrap.text(), class: class.clone() }
                }
                DoorKind::Metrics => DoorStatusKind::Metrics,
                DoorKind::Objects => DoorStatusKind::Objects,
                DoorKind::Proxy { .. } => DoorStatusKind::Proxy,
            };
            let accepted = open.accepted.load(std::sync::atomic::Ordering::Relaxed);
            DoorStatus { listen: open.local.to_string(), accepted, kind }
        });
        let preload = config.preload.iter().map(|preload| DoorStatus {
            listen: preload.socket.display().to_string(),
            accepted: shared.handed_over.load(std::sync::atomic::Ordering::Relaxed),
            kind: DoorStatusKind::Preload { rules: preload.rules.iter().map(PreloadRuleStatus::of).collect() },
        });
        let objects = shared.objects.as_ref().map(|objects| {
            let (files, fetches) = objects.counts();
            let folders = objects.folders().into_iter().map(|folder| FolderStatus {
                name: folder.name,
                hash: folder.hash.map(|hash| hash.to_string()),
                problem: folder.problem,
            });
            let folders = folders.collect();
            ObjectsStatus { listen: objects.address().to_string(), files, fetches, folders }
        });
        let ledgers = shared.lossy.as_ref().map(|exit| exit.ledgers.all());
        let kafka_partitions = ledgers.into_iter().flatten().map(|(key, ledger)| {
            let (counts, unsettled) = {
                let ledger = lock(&ledger);
                (ledger.counts(), ledger.unsettled())
            };
            KafkaPartitionStatus {
                class: key.class,
                topic: key.topic,
                topic_id: key.id,
                partition: key.partition,
                fetched: counts.fetched,
                lost: counts.lost,
                unsettled,
            }
        });
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            process: std::process::id(),
            configuration: config.path.display().to_string(),
            uptime_seconds: shared.started.elapsed().as_secs_f64(),
            listen: shared.node.local_address().to_string(),
            draining: shared.is_draining(),
            connections: shared.connections(),
            peers: peers.collect(),
            classes: classes.collect(),
            doors: doors.chain(preload).collect(),
            bundles: bundles.collect(),
            objects,
            kafka_ledger: shared.config().kafka_ledger.as_ref().map(|ledger| ledger.path.display().to_string()),
            kafka_partitions: kafka_partitions.collect(),
            kafka_responses_in_messages: shared.lossy.as_ref().map_or(0, LossyExit::carried),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The greater of both promises; none where nothing is promised. What has all sent that there is has kept it.
    #[test]
    fn floors_and_whether_they_are_kept() {
        let mbit = |count: u64| Rate::from_bits_per_sec(count * 1_000_000);
        let floor = |min_share, min_rate| {
            floor(&Contract { min_share, min_rate: mbit(min_rate), ..Contract::default() }, mbit(40))
        };
        let found = [floor(0.5, 0), floor(0.5, 30), floor(0.0, 30), floor(0.0, 0)];
        assert_eq!(found, [Some(20e6), Some(30e6), Some(30e6), None]);
        assert!(is_kept(20e6, 18e6, 1000) && is_kept(20e6, 0.0, 0) && !is_kept(20e6, 17e6, 1000));
    }
}
