//! A client's connection with a broker as an exit carries it: records may be left out of the responses to fetches.

use std::cell::RefCell;

use super::frames::{Due, Frames, HandleRequests, Keep, Kept, Pending, write_response};
use super::head::{FIXED_HEAD, Request, i16_at, i32_at};
use super::topics::{FETCH_BY_ID, OLDEST_TOPIC_IDS, TopicName, fetch_request, learn, topic};
use crate::api;
use crate::refusal::Refusal;
use crate::walk::{Malformed, Walk};

/// Longest request for records, in bytes: a hundred thousand partitions in one.
const MAX_FETCH_REQUEST: usize = 8 << 20;
/// The oldest request for records whose responses have batches of magic 2.
pub(crate) const OLDEST_FETCH: i16 = 4;
/// The version of the question for a topic's settings, which every broker since Apache Kafka 1.1 knows.
const CONFIGS_VERSION: i16 = 1;
/// Most topics that are asked for at a time.
const MAX_ASKED: usize = 100;
/// What a question is about, and which setting it is for.
const TOPIC: i8 = 2;
const CLEANUP_POLICY: &str = "cleanup.policy";

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
    /// A response of so many bytes begins that would be kept in memory: whether there is room. Else it passes as it is.
    fn has_room(&mut self, _bytes: usize) -> bool {
        true
    }
    /// Appends to `output` what the client gets in place of the records.
    fn thin(&mut self, fetched: &Fetched<'_>, output: &mut Vec<u8>);
    /// A response to a fetch has come, a frame of so many bytes: whether its records are [taken apart](Self::take_apart).
    fn begins(&mut self, _bytes: usize) -> bool {
        false
    }
    /// Appends to `output` what travels in place of the records: parts of a [`Plan`](crate::apart::Plan).
    fn take_apart(&mut self, _fetched: &Fetched<'_>, _output: &mut Vec<u8>) {
        unreachable!("nothing is taken apart where `begins` does not say so");
    }
    /// A response is taken apart, and is these bytes from its correlation number on: appends to `output` what of it goes to
    /// the client as it is.
    fn carry(&mut self, _version: i16, _response: Vec<u8>, _output: &mut Vec<u8>) -> Result<(), Refusal> {
        Ok(())
    }
}

/// What comes of a response that does not just pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Fetch,
    Metadata,
    /// It answers a question of the exit's own, and does not go to the client.
    Policies,
}

impl Kind {
    fn of(key: i16, version: i16) -> Option<Self> {
        match key {
            api::FETCH if version >= OLDEST_FETCH => Some(Self::Fetch),
            api::METADATA if version >= OLDEST_TOPIC_IDS => Some(Self::Metadata),
            _ => None,
        }
    }
}

/// A client's connection with a broker, of which records may be left out.
#[derive(Debug, Default)]
pub struct LossyConnection {
    frames: Frames<Kind>,
}

impl LossyConnection {
    /// Takes bytes of the client, in pieces of any size, and appends to `output` what the broker is to get.
    pub fn take_request(
        &mut self,
        bytes: &[u8],
        thinner: &mut dyn Thinner,
        output: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        self.frames.take_request(bytes, &mut Asking { thinner }, output)
    }

    /// Takes bytes of the broker, in pieces of any size, and appends to `output` what the client is to get.
    pub fn take_response(
        &mut self,
        bytes: &[u8],
        thinner: &mut dyn Thinner,
        output: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        let thinner = RefCell::new(thinner);
        // What answers a question of the exit's own is not for the client.
        let keep = |kind, bytes| {
            if kind == Kind::Policies || thinner.borrow_mut().has_room(bytes) { Keep::Whole } else { Keep::Nothing }
        };
        let collected = |kind, version, kept: Kept<'_>, output: &mut Vec<u8>| {
            let Kept::Whole(frame) = kept else { unreachable!("responses are kept whole") };
            let mut thinner = thinner.borrow_mut();
            let thinner = &mut **thinner;
            match kind {
                Kind::Fetch if thinner.begins(frame.len()) => {
                    let mut response = frame[4..8].to_vec();
                    let mut take_apart = |fetched: &Fetched<'_>, left: &mut Vec<u8>| {
                        thinner.take_apart(fetched, left);
                        Ok(())
                    };
                    fetch(version, &frame[8..], &mut take_apart, &mut response)?;
                    thinner.carry(version, response, output)?;
                }
                Kind::Fetch => {
                    let mut thin = |fetched: &Fetched<'_>, left: &mut Vec<u8>| {
                        thinner.thin(fetched, left);
                        Ok(())
                    };
                    return write_response(frame, output, |body, output| fetch(version, body, &mut thin, output));
                }
                Kind::Metadata => {
                    learn(version, &frame[8..], &mut |id, name| thinner.learn(id, name))?;
                    output.extend_from_slice(frame);
                }
                Kind::Policies => policies(&frame[8..], thinner)?,
            }
            Ok(())
        };
        self.frames.take_response(bytes, keep, collected, output)
    }

    /// Whether so many bytes of the broker may complete a response.
    pub fn completes(&self, bytes: usize) -> bool {
        self.frames.completes(bytes)
    }

    /// Whether a response is being kept that has not come whole yet.
    pub fn keeps(&self) -> bool {
        self.frames.keeps()
    }

    /// The client has ended. An error says that it did so within a frame.
    pub fn end_requests(&self) -> Result<(), Refusal> {
        self.frames.end_requests()
    }

    /// The broker has ended. An error says that it did so within a frame.
    pub fn end_responses(&self) -> Result<(), Refusal> {
        self.frames.end_responses()
    }
}

/// Fetches are collected, and questions for their topics' policies go in front of them.
struct Asking<'t> {
    thinner: &'t mut dyn Thinner,
}

impl HandleRequests<Kind> for Asking<'_> {
    fn begin(&mut self, request: Request, size: usize, due: &mut Due<Kind>) -> Result<bool, Refusal> {
        let Request { key, version, correlation, answered, .. } = request;
        let kind = Kind::of(key, version);
        let is_fetch = kind == Some(Kind::Fetch);
        if is_fetch && size > MAX_FETCH_REQUEST {
            return Err(Refusal::Oversized { bytes: size, most: MAX_FETCH_REQUEST });
        }
        // A fetch is expected when its questions are on the way in front of it.
        if answered && !is_fetch {
            due.expect(Pending { correlation, version, kind })?;
        }
        Ok(is_fetch)
    }

    fn collected(&mut self, frame: &[u8], due: &mut Due<Kind>, output: &mut Vec<u8>) -> Result<(), Refusal> {
        let (version, correlation) = (i16_at(frame, 6), i32_at(frame, 8));
        let replica = fetch_request(&frame[FIXED_HEAD..], version, &mut |topic| self.thinner.fetches(topic))?;
        if replica >= 0 {
            return Err(Refusal::Replica(replica));
        }
        self.ask(due, output)?;
        due.expect(Pending { correlation, version, kind: Some(Kind::Fetch) })?;
        output.extend_from_slice(frame);
        Ok(())
    }
}

impl Asking<'_> {
    /// Asks for policies in front of the client's next request: a broker answers in order.
    fn ask(&mut self, due: &mut Due<Kind>, output: &mut Vec<u8>) -> Result<(), Refusal> {
        let topics = self.thinner.wanted();
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
            due.expect(Pending { correlation, version: CONFIGS_VERSION, kind: Some(Kind::Policies) })?;
        }
        Ok(())
    }
}

/// What is written in place of the records of a partition.
pub(crate) type ReplaceRecords<'r> = dyn FnMut(&Fetched<'_>, &mut Vec<u8>) -> Result<(), Refusal> + 'r;

/// Writes the body of a response to a fetch, from behind the correlation number.
pub(crate) fn fetch(
    version: i16,
    body: &[u8],
    replace: &mut ReplaceRecords<'_>,
    output: &mut Vec<u8>,
) -> Result<(), Refusal> {
    let mut walk = Walk::new(body, output, version >= 12);
    walk.tags()?;
    walk.copy(4)?; // throttle_time_ms
    if version >= 7 {
        walk.copy(2 + 4)?; // error_code, session_id
    }
    walk.array(|walk| {
        let topic = topic(walk, version >= FETCH_BY_ID)?;
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
                    replace(&Fetched { topic, partition, log_start, records }, &mut left)?;
                    walk.put_bytes(Some(&left));
                }
                other => walk.put_bytes(other),
            }
            Ok::<_, Refusal>(walk.tags()?)
        })?;
        Ok::<_, Refusal>(walk.tags()?)
    })?;
    walk.copy_rest();
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
