//! A client's connection with a broker as an exit carries it: records may be left out of the responses to fetches.

use std::collections::VecDeque;

use super::{FIXED_HEAD, MAX_HEAD, Progress, Request, collect, frame_size, i16_at, i32_at, pass};
use crate::api;
use crate::refusal::{MAX_PENDING, MAX_REWRITTEN, Refusal};
use crate::walk::{Malformed, Walk};

/// Longest request for records, in bytes: a hundred thousand partitions in one.
const MAX_FETCH_REQUEST: usize = 8 << 20;
/// The oldest request for records whose responses have batches of magic 2.
const OLDEST_FETCH: i16 = 4;
/// The oldest metadata that names a topic's number.
const OLDEST_TOPIC_IDS: i16 = 10;
/// The version of the question for a topic's settings, which every broker since Apache Kafka 1.1 knows.
const CONFIGS_VERSION: i16 = 1;
/// Most topics that are asked for at a time.
const MAX_ASKED: usize = 100;
/// What a question is about, and which setting it is for.
const TOPIC: i8 = 2;
const CLEANUP_POLICY: &str = "cleanup.policy";

/// A topic as a fetch names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TopicName<'a> {
    /// Up to version 12.
    Name(&'a str),
    /// From version 13.
    Id([u8; 16]),
}

/// What a fetch gives of a partition.
#[derive(Clone, Copy, Debug)]
pub struct Fetched<'a> {
    /// The topic.
    pub topic: TopicName<'a>,
    /// The partition.
    pub partition: i32,
    /// The oldest offset that the broker has; negative if the response does not say.
    pub log_start: i64,
    /// Batches.
    pub records: &'a [u8],
}

/// What says which records are left out.
pub trait Thinner {
    /// A topic has this number.
    fn learn(&mut self, id: [u8; 16], name: &str);
    /// A client is about to fetch from a topic.
    fn fetches(&mut self, topic: TopicName<'_>);
    /// The next topics whose `cleanup.policy` is to be asked for.
    fn wanted(&mut self) -> Vec<String>;
    /// A topic's `cleanup.policy`; `None` if the broker does not tell.
    fn policy(&mut self, topic: &str, policy: Option<&str>);
    /// Appends to `output` what the client gets in place of the records.
    fn thin(&mut self, fetched: &Fetched<'_>, output: &mut Vec<u8>);
}

/// What comes of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Passes,
    Fetch,
    Metadata,
    /// It answers a question of the exit's own, and does not go to the client.
    Policies,
}

#[derive(Debug)]
struct Pending {
    correlation: i32,
    version: i16,
    kind: Kind,
}

/// A client's connection with a broker, of which records may be left out.
#[derive(Debug)]
pub struct LossyConnection {
    requests: Progress,
    responses: Progress,
    pending: VecDeque<Pending>,
}

impl Default for LossyConnection {
    fn default() -> Self {
        Self { requests: Progress::start(), responses: Progress::start(), pending: VecDeque::new() }
    }
}

impl LossyConnection {
    /// Takes bytes of the client, in pieces of any size, and appends to `output` what the broker is to get.
    pub fn take_request(
        &mut self,
        mut bytes: &[u8],
        thinner: &mut dyn Thinner,
        output: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        while !bytes.is_empty() {
            match &mut self.requests {
                Progress::Head(head) => {
                    let (taken, rest) = bytes.split_at(bytes.len().min(MAX_HEAD));
                    let before = head.len();
                    head.extend_from_slice(taken);
                    let Some((request, size)) = Request::read(head)? else {
                        if head.len() > MAX_HEAD {
                            return Err(Refusal::Malformed);
                        }
                        bytes = rest;
                        continue;
                    };
                    let within = head.len().min(size);
                    bytes = &bytes[within - before..];
                    let mut head = std::mem::take(head);
                    head.truncate(within);
                    let (key, version) = (i16_at(&head, 4), i16_at(&head, 6));
                    let kind = match key {
                        api::FETCH if version >= OLDEST_FETCH => Kind::Fetch,
                        api::METADATA if version >= OLDEST_TOPIC_IDS => Kind::Metadata,
                        _ => Kind::Passes,
                    };
                    if kind == Kind::Fetch && size > MAX_FETCH_REQUEST {
                        return Err(Refusal::Oversized { bytes: size, most: MAX_FETCH_REQUEST });
                    }
                    // A fetch is expected when its questions are on the way in front of it.
                    if request.answered && kind != Kind::Fetch {
                        self.expect(Pending { correlation: request.pending.correlation, version, kind })?;
                    }
                    self.requests = if kind == Kind::Fetch {
                        Progress::Whole(head, size)
                    } else {
                        output.extend_from_slice(&head);
                        Progress::Through(size - within)
                    };
                }
                Progress::Through(left) => pass(&mut bytes, left, output),
                Progress::Whole(frame, size) => collect(&mut bytes, frame, *size),
            }
            match &self.requests {
                Progress::Through(0) => self.requests = Progress::start(),
                Progress::Whole(frame, size) if frame.len() == *size => {
                    let (version, correlation) = (i16_at(frame, 6), i32_at(frame, 8));
                    let replica = fetch_request(&frame[FIXED_HEAD..], version, thinner)?;
                    if replica >= 0 {
                        return Err(Refusal::Replica(replica));
                    }
                    let Progress::Whole(frame, _) = std::mem::replace(&mut self.requests, Progress::start()) else {
                        unreachable!("it is whole")
                    };
                    self.ask(thinner, output)?;
                    self.expect(Pending { correlation, version, kind: Kind::Fetch })?;
                    output.extend_from_slice(&frame);
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn expect(&mut self, pending: Pending) -> Result<(), Refusal> {
        if self.pending.len() == MAX_PENDING {
            return Err(Refusal::TooManyRequests);
        }
        self.pending.push_back(pending);
        Ok(())
    }

    /// Asks for policies in front of the client's next request: a broker answers in order.
    fn ask(&mut self, thinner: &mut dyn Thinner, output: &mut Vec<u8>) -> Result<(), Refusal> {
        let topics = thinner.wanted();
        for topics in topics.chunks(MAX_ASKED) {
            let correlation = 0;
            let mut question = Vec::new();
            let mut walk = Walk::new(&[], &mut question, false);
            for value in [api::DESCRIBE_CONFIGS, CONFIGS_VERSION] {
                walk.put(&value.to_be_bytes());
            }
            walk.put(&i32::to_be_bytes(correlation));
            walk.put_string(Some("pliant"));
            walk.put_count(Some(topics.len() as u32));
            for topic in topics {
                walk.put(&TOPIC.to_be_bytes());
                walk.put_string(Some(topic));
                walk.put_count(Some(1));
                walk.put_string(Some(CLEANUP_POLICY));
            }
            walk.put(&[0]); // no synonyms
            output.extend((question.len() as i32).to_be_bytes());
            output.extend(question);
            self.expect(Pending { correlation, version: CONFIGS_VERSION, kind: Kind::Policies })?;
        }
        Ok(())
    }

    /// Takes bytes of the broker, in pieces of any size, and appends to `output` what the client is to get.
    pub fn take_response(
        &mut self,
        mut bytes: &[u8],
        thinner: &mut dyn Thinner,
        output: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        while !bytes.is_empty() {
            match &mut self.responses {
                Progress::Head(head) => {
                    let (taken, rest) = bytes.split_at(bytes.len().min(8 - head.len()));
                    head.extend_from_slice(taken);
                    bytes = rest;
                    if head.len() == 8 {
                        let head = std::mem::take(head);
                        self.responses = self.begin_response(head, output)?;
                    }
                }
                Progress::Through(left) => pass(&mut bytes, left, output),
                Progress::Whole(frame, size) => collect(&mut bytes, frame, *size),
            }
            let is_over = match &self.responses {
                Progress::Through(0) => true,
                Progress::Whole(frame, size) if frame.len() == *size => {
                    let pending = self.pending.front().expect("its response has begun");
                    match pending.kind {
                        Kind::Fetch => {
                            let start = output.len();
                            output.extend([0; 4]);
                            output.extend_from_slice(&frame[4..8]);
                            fetch(pending.version, &frame[8..], thinner, output)?;
                            let length = output.len() - start - 4;
                            output[start..start + 4].copy_from_slice(&(length as i32).to_be_bytes());
                        }
                        Kind::Metadata => {
                            learn(pending.version, &frame[8..], thinner)?;
                            output.extend_from_slice(frame);
                        }
                        Kind::Policies => policies(&frame[8..], thinner)?,
                        Kind::Passes => unreachable!("these are not collected"),
                    }
                    true
                }
                _ => false,
            };
            if is_over {
                self.pending.pop_front();
                self.responses = Progress::start();
            }
        }
        Ok(())
    }

    /// The client has ended. An error says that it did so within a frame.
    pub fn end_requests(&self) -> Result<(), Refusal> {
        if self.requests.between_frames() { Ok(()) } else { Err(Refusal::Truncated) }
    }

    /// The broker has ended. An error says that it did so within a frame.
    pub fn end_responses(&self) -> Result<(), Refusal> {
        if self.responses.between_frames() { Ok(()) } else { Err(Refusal::Truncated) }
    }

    fn begin_response(&self, head: Vec<u8>, output: &mut Vec<u8>) -> Result<Progress, Refusal> {
        let size = frame_size(&head, 8)?;
        let got = i32_at(&head, 4);
        let expected = self.pending.front();
        let Some(pending) = expected.filter(|pending| pending.correlation == got) else {
            return Err(Refusal::Uncorrelated { got, expected: expected.map(|pending| pending.correlation) });
        };
        if pending.kind == Kind::Passes {
            output.extend_from_slice(&head);
            return Ok(Progress::Through(size - head.len()));
        }
        if size > MAX_REWRITTEN {
            return Err(Refusal::Oversized { bytes: size, most: MAX_REWRITTEN });
        }
        Ok(Progress::Whole(head, size))
    }
}

/// Reads a request for records from behind the correlation number, and tells its topics. Gives the number of the broker
/// that fetches; it is negative if a consumer does.
fn fetch_request(body: &[u8], version: i16, thinner: &mut dyn Thinner) -> Result<i32, Malformed> {
    let mut ignored = Vec::new();
    let mut walk = Walk::new(body, &mut ignored, false);
    // A client_id has a plain length in every version.
    walk.take_string()?;
    let rest = walk.rest();
    let mut walk = Walk::new(rest, &mut ignored, version >= 12);
    walk.skip_tags()?;
    let mut replica = if version < 15 { walk.take_i32()? } else { -1 };
    walk.copy(4 + 4 + 4 + 1)?; // max_wait_ms, min_bytes, max_bytes, isolation_level
    if version >= 7 {
        walk.copy(4 + 4)?; // session_id, session_epoch
    }
    // Offset, partition and partition_max_bytes; the leader's epoch, the last epoch, and the oldest offset.
    let of_partition = 8
        + 4
        + 4
        + if version >= 9 { 4 } else { 0 }
        + if version >= 12 { 4 } else { 0 }
        + if version >= 5 { 8 } else { 0 };
    walk.array(|walk| {
        thinner.fetches(topic(walk, version)?);
        walk.array(|walk| {
            walk.copy(of_partition)?;
            walk.tags()
        })?;
        walk.tags()
    })?;
    if version < 15 {
        return Ok(replica);
    }
    // What is forgotten, and rack_id.
    walk.array(|walk| {
        topic(walk, version)?;
        walk.array(|walk| walk.copy(4))?;
        walk.tags()
    })?;
    walk.copy_string()?;
    walk.tags_with(1, |walk| {
        replica = walk.take_i32()?;
        Ok::<_, Malformed>(())
    })?;
    Ok(replica)
}

/// Copies a topic's name or number.
fn topic<'a>(walk: &mut Walk<'a, '_>, version: i16) -> Result<TopicName<'a>, Malformed> {
    if version >= 13 {
        let id = walk.take_id()?;
        walk.put(&id);
        return Ok(TopicName::Id(id));
    }
    let name = walk.take_string()?;
    walk.put_string(name);
    Ok(TopicName::Name(name.unwrap_or_default()))
}

/// Writes the body of a response to a fetch, from behind the correlation number.
fn fetch(version: i16, body: &[u8], thinner: &mut dyn Thinner, output: &mut Vec<u8>) -> Result<(), Malformed> {
    let mut walk = Walk::new(body, output, version >= 12);
    walk.tags()?;
    walk.copy(4)?; // throttle_time_ms
    if version >= 7 {
        walk.copy(2 + 4)?; // error_code, session_id
    }
    walk.array(|walk| {
        let topic = topic(walk, version)?;
        walk.array(|walk| {
            let partition = walk.take_i32()?;
            walk.put(&partition.to_be_bytes());
            walk.copy(2 + 8 + 8)?; // error_code, high_watermark, last_stable_offset
            let mut log_start = -1;
            if version >= 5 {
                log_start = walk.take_i64()?;
                walk.put(&log_start.to_be_bytes());
            }
            walk.array(|walk| {
                walk.copy(2 * 8)?; // producer_id and first_offset of an aborted transaction
                walk.tags()
            })?;
            if version >= 11 {
                walk.copy(4)?; // preferred_read_replica
            }
            match walk.take_bytes()? {
                Some(records) if !records.is_empty() => {
                    let mut left = Vec::with_capacity(records.len());
                    thinner.thin(&Fetched { topic, partition, log_start, records }, &mut left);
                    walk.put_bytes(Some(&left));
                }
                other => walk.put_bytes(other),
            }
            walk.tags()
        })?;
        walk.tags()
    })?;
    walk.copy_rest();
    Ok(())
}

/// The numbers of topics in a response to Metadata, from behind the correlation number.
fn learn(version: i16, body: &[u8], thinner: &mut dyn Thinner) -> Result<(), Malformed> {
    let mut ignored = Vec::new();
    let mut walk = Walk::new(body, &mut ignored, true);
    walk.tags()?;
    walk.copy(4)?; // throttle_time_ms
    walk.array(|walk| {
        walk.copy(4)?; // node_id
        walk.copy_string()?; // host
        walk.copy(4)?; // port
        walk.copy_string()?; // rack
        walk.tags()
    })?;
    walk.copy_string()?; // cluster_id
    walk.copy(4)?; // controller_id
    walk.array(|walk| {
        walk.copy(2)?; // error_code
        let name = walk.take_string()?;
        let id = walk.take_id()?;
        if let Some(name) = name.filter(|_| id != [0; 16]) {
            thinner.learn(id, name);
        }
        walk.copy(1)?; // is_internal
        walk.array(|walk| {
            walk.copy(2 + 4 + 4 + 4)?; // error_code, partition, leader and its epoch
            for _ in 0..3 {
                walk.array(|walk| walk.copy(4))?; // replicas, those in sync, those that are offline
            }
            walk.tags()
        })?;
        walk.copy(4)?; // topic_authorized_operations
        walk.tags()
    })?;
    debug_assert!(version >= OLDEST_TOPIC_IDS);
    Ok(())
}

/// The policies in a response to DescribeConfigs of version 1, from behind the correlation number.
fn policies(body: &[u8], thinner: &mut dyn Thinner) -> Result<(), Malformed> {
    let mut ignored = Vec::new();
    let mut walk = Walk::new(body, &mut ignored, false);
    walk.copy(4)?; // throttle_time_ms
    walk.array(|walk| {
        walk.copy(2)?; // error_code
        walk.copy_string()?; // error_message
        walk.copy(1)?; // resource_type
        let topic = walk.take_string()?.unwrap_or_default();
        let mut policy = None;
        walk.array(|walk| {
            let name = walk.take_string()?;
            let value = walk.take_string()?;
            if name == Some(CLEANUP_POLICY) {
                policy = value;
            }
            walk.copy(1 + 1 + 1)?; // read_only, config_source, is_sensitive
            walk.array(|walk| {
                walk.copy_string()?;
                walk.copy_string()?;
                walk.copy(1)
            })
        })?;
        thinner.policy(topic, policy);
        Ok::<_, Malformed>(())
    })
}

#[cfg(test)]
mod tests;
