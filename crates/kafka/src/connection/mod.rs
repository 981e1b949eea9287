//! One connection of a client with a broker: frames, and which response belongs to which request.

mod lossy;

use std::collections::VecDeque;

pub use lossy::{Fetched, LossyConnection, Thinner, TopicName};

use crate::api::{self, Api};
use crate::refusal::{MAX_FRAME, MAX_PENDING, MAX_REWRITTEN, Refusal};
use crate::rewrite::{Advertised, Kind, Local, rewrite};
use crate::walk::{Malformed, Walk};

/// Longest beginning of a request that has to be understood, in bytes: two names of 32 kB.
const MAX_HEAD: usize = 80 << 10;
/// The size, the key, the version and the correlation number.
const FIXED_HEAD: usize = 12;

/// A request whose response is due.
#[derive(Debug)]
struct Pending {
    correlation: i32,
    version: i16,
    kind: Option<Kind>,
}

/// How far one direction is in its frame.
#[derive(Debug)]
enum Progress {
    /// These are a frame's first bytes, too few yet.
    Head(Vec<u8>),
    /// So many bytes pass through.
    Through(usize),
    /// A whole frame is collected, so many bytes of it in all.
    Whole(Vec<u8>, usize),
}

impl Progress {
    fn start() -> Self {
        Self::Head(Vec::new())
    }

    fn between_frames(&self) -> bool {
        matches!(self, Self::Head(head) if head.is_empty())
    }
}

/// A client's connection with a broker.
#[derive(Debug)]
pub struct Connection {
    requests: Progress,
    responses: Progress,
    pending: VecDeque<Pending>,
}

impl Default for Connection {
    fn default() -> Self {
        Self { requests: Progress::start(), responses: Progress::start(), pending: VecDeque::new() }
    }
}

impl Connection {
    /// Takes bytes of the client, in pieces of any size, and appends to `output` what the broker is to get.
    pub fn take_request(&mut self, mut bytes: &[u8], output: &mut Vec<u8>) -> Result<(), Refusal> {
        while !bytes.is_empty() {
            match &mut self.requests {
                Progress::Head(head) => {
                    // All that a head can need, and at least one byte: what is too much goes on as the frame's body.
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
                    if request.answered {
                        if self.pending.len() == MAX_PENDING {
                            return Err(Refusal::TooManyRequests);
                        }
                        self.pending.push_back(request.pending);
                    }
                    self.requests = if request.replaced {
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
                    // A version of ApiVersions that is not known: the broker is asked in version 0, and the client is
                    // told so, by which it learns what to use (KIP-511).
                    let mut asked = frame[4..FIXED_HEAD].to_vec();
                    asked[2..4].copy_from_slice(&0i16.to_be_bytes());
                    asked.extend((-1i16).to_be_bytes()); // no client_id
                    output.extend((asked.len() as i32).to_be_bytes());
                    output.extend(asked);
                    self.requests = Progress::start();
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Takes bytes of the broker, in pieces of any size, and appends to `output` what the client is to get. `place`
    /// says where each broker is to be found, or why it is nowhere; it is asked every time that one is advertised.
    pub fn take_response(
        &mut self,
        mut bytes: &[u8],
        mut place: impl FnMut(&Advertised) -> Result<Local, String>,
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
            match &self.responses {
                Progress::Through(0) => self.finish_response(),
                Progress::Whole(frame, size) if frame.len() == *size => {
                    let pending = self.pending.front().expect("its response has begun");
                    let kind = pending.kind.expect("only these are collected");
                    let start = output.len();
                    output.extend([0; 4]);
                    output.extend_from_slice(&frame[4..8]);
                    rewrite(kind, pending.version, &frame[8..], &mut place, output)?;
                    let length = output.len() - start - 4;
                    output[start..start + 4].copy_from_slice(&(length as i32).to_be_bytes());
                    self.finish_response();
                }
                _ => {}
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

    /// How many requests wait for their responses.
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    fn begin_response(&self, head: Vec<u8>, output: &mut Vec<u8>) -> Result<Progress, Refusal> {
        let size = frame_size(&head, 8)?;
        let got = i32_at(&head, 4);
        let expected = self.pending.front();
        let Some(pending) = expected.filter(|pending| pending.correlation == got) else {
            return Err(Refusal::Uncorrelated { got, expected: expected.map(|pending| pending.correlation) });
        };
        if pending.kind.is_none() {
            output.extend_from_slice(&head);
            return Ok(Progress::Through(size - head.len()));
        }
        if size > MAX_REWRITTEN {
            return Err(Refusal::Oversized { bytes: size, most: MAX_REWRITTEN });
        }
        Ok(Progress::Whole(head, size))
    }

    fn finish_response(&mut self) {
        self.pending.pop_front();
        self.responses = Progress::start();
    }
}

fn pass(bytes: &mut &[u8], left: &mut usize, output: &mut Vec<u8>) {
    let (taken, rest) = bytes.split_at(bytes.len().min(*left));
    output.extend_from_slice(taken);
    *left -= taken.len();
    *bytes = rest;
}

fn collect(bytes: &mut &[u8], frame: &mut Vec<u8>, size: usize) {
    let (taken, rest) = bytes.split_at(bytes.len().min(size - frame.len()));
    frame.extend_from_slice(taken);
    *bytes = rest;
}

fn i16_at(bytes: &[u8], at: usize) -> i16 {
    i16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn i32_at(bytes: &[u8], at: usize) -> i32 {
    i32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// A frame's size in all, from its first four bytes, if it can hold `least` bytes.
fn frame_size(head: &[u8], least: usize) -> Result<usize, Refusal> {
    let length = i32_at(head, 0);
    let size = usize::try_from(length).map_err(|_| Refusal::Length(length))? + 4;
    if size < least {
        return Err(Refusal::Length(length));
    }
    if size > MAX_FRAME {
        return Err(Refusal::Oversized { bytes: size, most: MAX_FRAME });
    }
    Ok(size)
}

/// What a request's beginning says.
struct Request {
    pending: Pending,
    /// Whether it has a response: a produce request with acks = 0 has none.
    answered: bool,
    /// Whether the broker gets another request in its place.
    replaced: bool,
}

impl Request {
    /// Reads the beginning of a frame: nothing if that is too short yet, or the request and the frame's size.
    fn read(head: &[u8]) -> Result<Option<(Self, usize)>, Refusal> {
        // A handshake record of TLS 1.x.
        if head.starts_with(&[22, 3]) {
            return Err(Refusal::Tls);
        }
        if head.len() < 4 {
            return Ok(None);
        }
        let size = frame_size(head, FIXED_HEAD)?;
        if head.len() < FIXED_HEAD {
            return Ok(None);
        }
        let (key, version, correlation) = (i16_at(head, 4), i16_at(head, 6), i32_at(head, 8));
        let api: &Api = api::api(key).ok_or(Refusal::UnknownKey(key))?;
        let replaced = key == api::API_VERSIONS && !api.knows(version);
        if !api.knows(version) && !replaced {
            return Err(Refusal::UnknownVersion { api: api.name, version });
        }
        if replaced && size > MAX_HEAD {
            return Err(Refusal::Oversized { bytes: size, most: MAX_HEAD });
        }
        let mut answered = true;
        if key == api::PRODUCE {
            let frame = &head[..head.len().min(size)];
            match acks(&frame[FIXED_HEAD..], version) {
                Ok(acks) => answered = acks != 0,
                Err(Malformed::Truncated) if frame.len() < size => return Ok(None),
                Err(malformed) => return Err(malformed.into()),
            }
        }
        let pending = if replaced {
            Pending { correlation, version: 0, kind: Some(Kind::ApiVersions { refused: true }) }
        } else {
            Pending { correlation, version, kind: Kind::of(key, version) }
        };
        Ok(Some((Self { pending, answered, replaced }, size)))
    }
}

/// How many replicas a produce request waits for, from behind its correlation number.
fn acks(body: &[u8], version: i16) -> Result<i16, Malformed> {
    let mut ignored = Vec::new();
    let mut header = Walk::new(body, &mut ignored, false);
    // A client_id has a plain length in every version.
    header.take_string()?;
    let rest = header.rest();
    let mut walk = Walk::new(rest, &mut ignored, version >= 9);
    walk.skip_tags()?;
    if version >= 3 {
        walk.take_string()?; // transactional_id
    }
    walk.take_i16()
}

#[cfg(test)]
mod tests;
