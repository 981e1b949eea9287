//! The exit's end of a Kafka door that bears loss: records are left out of what brokers give to consumers.
//!
//! The sender decides. What a class carries is a stream of bytes, all of which arrive; so what may be missing is left out
//! before it is sent, while the path is congested.

pub(crate) mod journal;
pub(crate) mod rules;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pliant_kafka::thin::thin;
use pliant_kafka::{Fetched, LossyConnection, Thinner, TopicName};
use pliant_net::bundle::{BundleNode, BundleStream, reset_code};
use tokio::io::split;
use tokio::net::TcpStream;

use self::journal::{LedgerKey, Ledgers};
use self::rules::TopicRules;
use crate::mutex::lock;
use crate::relay::{PIECE_BYTES, carry_frames, reset};

/// Most topics whose numbers are known, and most that are asked for on a connection.
const MAX_TOPICS: usize = 10_000;
/// A path that takes longer than this to take a response is congested, until it takes one of [`PIECE_BYTES`] in less.
const SLOW: Duration = Duration::from_millis(20);
/// A path on which more of the class's bytes wait than this, in front of a response, is congested.
const MAX_WAITING: u64 = 64 << 10;

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
    /// Signs of congestion so far, and the bytes that wait.
    fn signs(&self) -> (u64, u64) {
        let own =
            self.node.reports().into_iter().filter(|report| report.peer == self.peer && report.class == self.class);
        own.fold((0, 0), |(signs, waiting), report| {
            (signs + report.sender.marks + report.sender.retransmissions, waiting + report.held_bytes)
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
    /// Signs of congestion up to the last response.
    signs: u64,
    /// Whether the path took long for the last response.
    slow: bool,
    /// Whether the path is congested for this response; nothing if it was not looked at.
    congested: Option<bool>,
}

impl ConnectionThinner<'_> {
    fn is_congested(&mut self) -> bool {
        if let Some(known) = self.congested {
            return known;
        }
        let (signs, waiting) = self.path.signs();
        let more = signs > std::mem::replace(&mut self.signs, signs);
        let congested = more || waiting > MAX_WAITING || self.slow;
        self.congested = Some(congested);
        congested
    }

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

    /// Responses of so many bytes took so long to be taken by the path. Of few bytes nothing follows.
    fn has_sent(&mut self, bytes: usize, took: Duration) {
        if bytes >= PIECE_BYTES || took > SLOW {
            self.slow = took > SLOW;
        }
        self.congested = None;
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
        let lossy = known == Some(Policy::Deletes) && (contract.always || self.is_congested());
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
        let entry = thin(fetched.records, &mut ledger, contract.min_delivery, lossy, output);
        if !entry.is_empty()
            && let Err(error) = self.exit.ledgers.note(&key, entry)
        {
            self.exit.tell(format!("the ledger cannot be written, and nothing is left out any more: {error}"));
            output.truncate(start);
            whole(output);
        }
        drop((ledger, changing));
        self.exit.ledgers.compact();
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
        signs: path.signs().0,
        slow: false,
        congested: None,
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
    let has_sent = |bytes, took| lock(&both).1.has_sent(bytes, took);
    let requests = carry_frames(&mut from_client, &mut to_broker, take_request, |_, _| {});
    let responses = carry_frames(&mut from_broker, &mut to_client, take_response, has_sent);
    let Err(error) = tokio::try_join!(requests, responses) else { return };
    reset(&from_broker.reunite(to_broker).expect("they are halves of one"));
    from_client.unsplit(to_client).reset(reset_code::ABORTED);
    if error.kind() == io::ErrorKind::InvalidData {
        exit.tell(error.to_string());
    }
}
