//! The exit's end of a Kafka door that bears loss: records are left out of what brokers give to consumers.
//!
//! The sender decides. What a class carries is a stream of bytes, all of which arrive; so what may be missing is left out
//! before it is sent, while the path is congested.

mod congestion;
pub(crate) mod journal;
pub(crate) mod rules;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use pliant_kafka::thin::{Bound, thin};
use pliant_kafka::{Fetched, LossyConnection, Thinner, TopicName};
use pliant_net::bundle::{BundleNode, BundleStream, reset_code};
use tokio::io::split;
use tokio::net::TcpStream;
use tokio::time::Instant;

use self::congestion::{Congestion, PathState};
use self::journal::{LedgerKey, Ledgers};
use self::rules::TopicRules;
use crate::mutex::lock;
use crate::relay::{Watch, carry_frames, reset};

/// Most topics whose numbers are known, and most that are asked for on a connection.
const MAX_TOPICS: usize = 10_000;
/// What the connections of an exit share.
pub(crate) struct LossyExit {
    pub(crate) ledgers: Ledgers,
    /// Names of topics by their numbers: a client hears of them on one connection and uses them on all.
    names: Mutex<HashMap<[u8; 16], Arc<str>>>,
    told: Mutex<BTreeSet<String>>,
}

impl LossyExit {
    pub(crate) fn new(ledgers: Ledgers) -> Self {
        Self { ledgers, names: Mutex::default(), told: Mutex::default() }
    }

    /// Forces to the disk what was noted.
    pub(crate) fn sync_ledgers(&self) {
        if let Err(error) = self.ledgers.sync() {
            self.tell(format!("the ledger cannot be forced to the disk, and nothing is left out any more: {error}"));
        }
    }

    /// Says something once.
    fn tell(&self, what: String) {
        let mut told = lock(&self.told);
        if told.len() < MAX_TOPICS && !told.contains(&what) {
            eprintln!("kafka exit: {what}");
            told.insert(what);
        }
    }
}

/// A class's path to a peer.
pub(crate) struct Path<'n> {
    pub(crate) node: &'n BundleNode,
    pub(crate) peer: SocketAddr,
    pub(crate) class: String,
}

impl Path<'_> {
    fn state(&self) -> PathState {
        let own =
            self.node.reports().into_iter().filter(|report| report.peer == self.peer && report.class == self.class);
        own.fold(PathState::default(), |state, report| PathState {
            signs: state.signs + report.sender.marks + report.sender.retransmissions,
            waiting: state.waiting + report.unsent_bytes,
        })
    }
}

/// What a broker says of a topic's records.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Policy {
    /// It is asked.
    Asked,
    /// They are only deleted by age or size.
    Deletes,
    /// The last of each key is kept for ever, or nothing was told.
    Keeps,
}

/// What decides for a connection.
struct ConnectionThinner<'s> {
    exit: &'s LossyExit,
    rules: &'s TopicRules,
    path: &'s Path<'s>,
    policies: BTreeMap<String, Policy>,
    /// Of these a policy is to be asked for.
    wanted: Vec<String>,
    congestion: Congestion,
}

impl ConnectionThinner<'_> {
    /// A topic's name and number, if there is a rule about it.
    fn name(&self, topic: TopicName<'_>) -> Option<(Arc<str>, String)> {
        let digits = |id: &[u8; 16]| format!("{:032x}", u128::from_be_bytes(*id));
        let names = lock(&self.exit.names);
        let (name, id): (Arc<str>, _) = match topic {
            TopicName::Name(name) => {
                let mut same = names.iter().filter(|(_, known)| ***known == *name).map(|(id, _)| digits(id));
                let only = same.next().filter(|_| same.next().is_none());
                (name.into(), only.unwrap_or_default())
            }
            TopicName::Id(id) => (names.get(&id)?.clone(), digits(&id)),
        };
        self.rules.of(&name).is_some().then_some((name, id))
    }

    /// Has the broker be asked for a topic's policy, once.
    fn want(&mut self, name: &str) {
        let is_asked = self.policies.contains_key(name) || self.policies.len() == MAX_TOPICS;
        if !is_asked && self.rules.of(name).is_some_and(|contract| !contract.compacted) {
            self.policies.insert(name.to_owned(), Policy::Asked);
            self.wanted.push(name.to_owned());
        }
    }
}

impl Thinner for ConnectionThinner<'_> {
    fn learn(&mut self, id: [u8; 16], name: &str) {
        let mut names = lock(&self.exit.names);
        if self.rules.of(name).is_some() && (names.len() < MAX_TOPICS || names.contains_key(&id)) {
            names.insert(id, name.into());
        }
    }

    fn fetches(&mut self, topic: TopicName<'_>) {
        if let Some((name, _)) = self.name(topic) {
            self.want(&name);
        }
    }

    fn wanted(&mut self) -> Vec<String> {
        std::mem::take(&mut self.wanted)
    }

    fn policy(&mut self, topic: &str, policy: Option<&str>) {
        let Some(known) = self.policies.get_mut(topic) else { return };
        *known = if policy == Some("delete") { Policy::Deletes } else { Policy::Keeps };
        if *known == Policy::Keeps {
            let why = policy.map_or("the broker does not tell its cleanup.policy".to_owned(), |policy| {
                format!("its cleanup.policy is `{policy}`")
            });
            self.exit.tell(format!("nothing is left out of topic `{topic}`: {why}"));
        }
    }

    fn thin(&mut self, fetched: &Fetched<'_>, output: &mut Vec<u8>) {
        let whole = |output: &mut Vec<u8>| output.extend_from_slice(fetched.records);
        let Some((name, id)) = self.name(fetched.topic) else { return whole(output) };
        let Some(contract) = self.rules.of(&name) else { return whole(output) };
        self.want(&name);
        let known = if contract.compacted { Some(Policy::Deletes) } else { self.policies.get(&*name).copied() };
        if known == Some(Policy::Keeps) {
            return whole(output);
        }
        let lossy =
            known == Some(Policy::Deletes) && (contract.always || self.congestion.is_congested(|| self.path.state()));
        let class = self.path.class.clone();
        let wanted = LedgerKey { class, topic: name.to_string(), partition: fetched.partition, id };
        let Some((key, ledger)) = self.exit.ledgers.of(&wanted) else {
            self.exit.tell(format!("nothing is left out of topic `{name}`: its ledger cannot be kept"));
            return whole(output);
        };
        let changing = self.exit.ledgers.changing();
        let mut ledger = lock(&ledger);
        ledger.forget_below(fetched.log_start);
        let start = output.len();
        let bound = Bound { min_delivery: contract.min_delivery, pattern: contract.pattern };
        let entry = thin(fetched.records, &mut ledger, bound, lossy, output);
        if !entry.is_empty()
            && let Err(error) = self.exit.ledgers.note(&key, entry)
        {
            self.exit.tell(format!("the ledger cannot be written, and nothing is left out any more: {error}"));
            output.truncate(start);
            whole(output);
        }
        self.congestion.leave_out(fetched.records.len().saturating_sub(output.len() - start));
        drop((ledger, changing));
        self.exit.ledgers.compact();
    }
}

/// What a connection's thinner hears of its path.
struct PathWatch<'b, 's>(&'b Mutex<(LossyConnection, ConnectionThinner<'s>)>);

impl Watch for PathWatch<'_, '_> {
    fn sent(&mut self, bytes: usize, begun: Instant) -> Option<Instant> {
        lock(self.0).1.congestion.sent(bytes, begun, Instant::now())
    }

    fn look(&mut self) {
        let thinner = &mut lock(self.0).1;
        thinner.congestion.look(|| thinner.path.state());
    }
}

/// Carries one connection until both sides have ended. What is refused ends it with a reset of both, and is told.
pub(crate) async fn carry(tcp: TcpStream, stream: BundleStream, path: &Path<'_>, rules: &TopicRules, exit: &LossyExit) {
    let _ = tcp.set_nodelay(true);
    let (mut from_broker, mut to_broker) = tcp.into_split();
    let (mut from_client, mut to_client) = split(stream);
    let thinner = ConnectionThinner {
        exit,
        rules,
        path,
        policies: BTreeMap::new(),
        wanted: Vec::new(),
        congestion: Congestion::new(path.state().signs),
    };
    let both = Mutex::new((LossyConnection::default(), thinner));
    let take_request = |piece: &[u8], output: &mut Vec<u8>| {
        let (connection, thinner) = &mut *lock(&both);
        if piece.is_empty() { connection.end_requests() } else { connection.take_request(piece, thinner, output) }
    };
    let take_response = |piece: &[u8], output: &mut Vec<u8>| {
        let (connection, thinner) = &mut *lock(&both);
        if piece.is_empty() { connection.end_responses() } else { connection.take_response(piece, thinner, output) }
    };
    let requests = carry_frames(&mut from_client, &mut to_broker, take_request, ());
    let responses = carry_frames(&mut from_broker, &mut to_client, take_response, PathWatch(&both));
    let Err(error) = tokio::try_join!(requests, responses) else { return };
    reset(&from_broker.reunite(to_broker).expect("they are halves of one"));
    from_client.unsplit(to_client).reset(reset_code::ABORTED);
    if error.kind() == io::ErrorKind::InvalidData {
        exit.tell(error.to_string());
    }
}
