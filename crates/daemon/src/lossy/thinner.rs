//! What decides which of a connection's records are lost.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use pliant_kafka::apart::{Cut, put_as_they_are};
use pliant_kafka::batch::Room;
use pliant_kafka::ledger::Ledger;
use pliant_kafka::thin::{Bound, LossOrder, thin};
use pliant_kafka::{Fetched, Refusal, Thinner, TopicName};
use pliant_net::bundle::ExpectedMessages;
use tokio::sync::OwnedSemaphorePermit;

use super::carrying::Apart;
use super::congestion::Congestion;
use super::exit::{LossyExit, Path};
use super::journal::LedgerKey;
use super::rules::{Carry, TopicContract, TopicRules};
use crate::mutex::lock;
use crate::topics::MAX_TOPICS;

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
pub(super) struct ConnectionThinner<'s> {
    exit: &'s LossyExit,
    rules: &'s TopicRules,
    path: &'s Path<'s>,
    policies: BTreeMap<String, Policy>,
    /// Of these a policy is to be asked for.
    wanted: Vec<String>,
    pub(super) congestion: Congestion,
    pub(super) apart: Apart<'s>,
    /// For what the batches of this response are unpacked to.
    room: Room,
    /// For responses that are kept, or not yet written.
    kept: Option<OwnedSemaphorePermit>,
}

impl<'s> ConnectionThinner<'s> {
    pub(super) fn new(
        exit: &'s LossyExit,
        rules: &'s TopicRules,
        path: &'s Path<'s>,
        expected: Option<&'s ExpectedMessages>,
    ) -> Self {
        Self {
            exit,
            rules,
            path,
            policies: BTreeMap::new(),
            wanted: Vec::new(),
            congestion: Congestion::new(path.state().signs),
            apart: Apart::new(expected),
            room: Room::for_response(0),
            kept: None,
        }
    }

    /// A topic's name and number, if there is a rule about it.
    fn name(&self, topic: TopicName<'_>) -> Option<(Arc<str>, String)> {
        let digits = |id: [u8; 16]| format!("{:032x}", u128::from_be_bytes(id));
        let topics = lock(&self.exit.topics);
        let (name, id): (Arc<str>, _) = match topic {
            TopicName::Name(name) => (name.into(), topics.number(name).map(digits).unwrap_or_default()),
            TopicName::Id(id) => (topics.name(id)?, digits(id)),
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

/// How a partition's records are given on.
struct Decision {
    topic: Arc<str>,
    id: String,
    contract: TopicContract,
    /// Whether as many are lost as may be.
    lossy: bool,
}

impl Decision {
    /// The order in which records of a partition are left out.
    fn order(&self, partition: i32) -> LossOrder {
        LossOrder::new(self.contract.pattern, &self.topic, partition)
    }
}

impl ConnectionThinner<'_> {
    /// How records are given on; nothing if all are, and none is counted.
    fn decide(&mut self, fetched: &Fetched<'_>) -> Option<Decision> {
        let (topic, id) = self.name(fetched.topic)?;
        let contract = self.rules.of(&topic)?;
        self.want(&topic);
        let known = if contract.compacted { Some(Policy::Deletes) } else { self.policies.get(&*topic).copied() };
        if known == Some(Policy::Keeps) {
            return None;
        }
        let congested = contract.always || self.congestion.is_congested(|| self.path.state());
        Some(Decision { topic, id, contract, lossy: known == Some(Policy::Deletes) && congested })
    }

    /// The ledger of a partition, if it can be kept.
    fn ledger_of(&self, fetched: &Fetched<'_>, decision: &Decision) -> Option<(LedgerKey, Arc<Mutex<Ledger>>)> {
        let (class, id, partition) = (self.path.class.clone(), decision.id.clone(), fetched.partition);
        let known = self.exit.ledgers.of(&LedgerKey { class, topic: decision.topic.to_string(), partition, id });
        if known.is_none() {
            self.exit.tell(format!("nothing is left out of topic `{}`: its ledger cannot be kept", decision.topic));
        }
        known
    }

    /// Appends the records to `output`, without those that are left out.
    fn leave_out(&mut self, fetched: &Fetched<'_>, decision: &Decision, output: &mut Vec<u8>) {
        let whole = |output: &mut Vec<u8>| output.extend_from_slice(fetched.records);
        let Some((key, ledger)) = self.ledger_of(fetched, decision) else { return whole(output) };
        let changing = self.exit.ledgers.changing();
        let mut ledger = lock(&ledger);
        ledger.forget_below(fetched.log_start);
        let start = output.len();
        let bound = Bound { min_delivery: decision.contract.min_delivery, order: decision.order(fetched.partition) };
        let lossy = decision.lossy.then_some(bound);
        let entry = thin(fetched.records, &mut ledger, lossy, &mut self.room, output);
        if !entry.is_empty() && !self.exit.note(&key, entry) {
            output.truncate(start);
            whole(output);
        }
        self.congestion.leave_out(fetched.records.len().saturating_sub(output.len() - start));
        drop((ledger, changing));
        self.exit.ledgers.compact();
    }

    /// All that was taken so far is written.
    pub(super) fn written(&mut self) {
        self.kept = None;
    }

    pub(super) fn look(&mut self) {
        self.congestion.look(|| self.path.state());
    }
}

impl Thinner for ConnectionThinner<'_> {
    fn learn(&mut self, id: [u8; 16], name: &str) {
        if self.rules.of(name).is_some() {
            lock(&self.exit.topics).learn(id, name);
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

    fn has_room(&mut self, bytes: usize) -> bool {
        let Some(more) = self.exit.keep(bytes) else { return false };
        match &mut self.kept {
            Some(kept) => kept.merge(more),
            None => self.kept = Some(more),
        }
        true
    }

    fn thin(&mut self, fetched: &Fetched<'_>, output: &mut Vec<u8>) {
        match self.decide(fetched) {
            Some(decision) => self.leave_out(fetched, &decision, output),
            None => output.extend_from_slice(fetched.records),
        }
    }

    fn begins(&mut self, bytes: usize) -> bool {
        self.room = Room::for_response(bytes);
        self.apart.begins(bytes, self.path)
    }

    fn take_apart(&mut self, fetched: &Fetched<'_>, output: &mut Vec<u8>) {
        let Some(decision) = self.decide(fetched) else { return put_as_they_are(fetched.records, output) };
        if decision.contract.carry == Carry::Stream {
            let mut left = Vec::with_capacity(fetched.records.len());
            self.leave_out(fetched, &decision, &mut left);
            return put_as_they_are(&left, output);
        }
        let Some((key, ledger)) = self.ledger_of(fetched, &decision) else {
            return put_as_they_are(fetched.records, output);
        };
        let carrying = self.apart.current.as_mut().expect("it has begun");
        carrying.ends_early |= decision.lossy;
        let cut = Cut {
            min_delivery: decision.contract.min_delivery,
            payload: carrying.payload,
            order: decision.order(fetched.partition),
            leaves_out: decision.lossy,
        };
        let changing = self.exit.ledgers.changing();
        let mut known = lock(&ledger);
        known.forget_below(fetched.log_start);
        let start = output.len();
        let entry = carrying.plan.take_apart(fetched.records, &mut known, cut, output);
        if entry.is_empty() || self.exit.note(&key, entry) {
            carrying.ledgers.push((key, ledger.clone()));
        } else {
            carrying.plan.drop_partition();
            output.truncate(start);
            put_as_they_are(fetched.records, output);
        }
        drop((known, changing));
        self.exit.ledgers.compact();
    }

    fn carry(&mut self, version: i16, response: Vec<u8>, output: &mut Vec<u8>) -> Result<(), Refusal> {
        self.apart.end(version, response, output)
    }
}
