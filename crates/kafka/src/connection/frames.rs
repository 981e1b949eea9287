//! Frames in both directions of a connection, and which response belongs to which request.

use std::collections::VecDeque;

use super::head::{MAX_HEAD, Request, frame_size, i32_at};
use super::skim::Skim;
use crate::refusal::{MAX_PENDING, MAX_REWRITTEN, Refusal};

/// Bytes of a response up to and with its correlation number.
pub(super) const RESPONSE_HEAD: usize = 8;

/// A request whose response is due.
#[derive(Debug)]
pub(super) struct Pending<K> {
    pub(super) correlation: i32,
    pub(super) version: i16,
    /// What is done with the response, if it does not just pass.
    pub(super) kind: Option<K>,
}

/// What of a response is kept until all of it has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keep {
    /// It passes as it comes.
    Nothing,
    /// Its end, where a response to Fetch names brokers.
    End,
    Whole,
}

/// What was kept of a response.
#[derive(Clone, Copy)]
pub(super) enum Kept<'f> {
    End(&'f [u8]),
    Whole(&'f [u8]),
}

/// How far one direction is in its frame.
#[derive(Debug)]
enum Progress {
    /// These are a frame's first bytes, too few yet.
    Head(Vec<u8>),
    /// So many bytes pass through.
    Through(usize),
    /// All but the end of a frame passes through, of which so many bytes are to come.
    End { skim: Skim, end: Vec<u8>, left: usize },
    /// A whole frame is collected, so many bytes of it in all.
    Whole(Vec<u8>, usize),
}

impl Progress {
    const START: Self = Self::Head(Vec::new());

    fn end(&self) -> Result<(), Refusal> {
        let between_frames = matches!(self, Self::Head(head) if head.is_empty());
        if between_frames { Ok(()) } else { Err(Refusal::Truncated) }
    }

    /// Takes bytes behind a head; true once the frame is over.
    fn take(&mut self, bytes: &mut &[u8], output: &mut Vec<u8>) -> Result<bool, Refusal> {
        Ok(match self {
            Self::Head(_) => false,
            Self::Through(left) => {
                let (taken, rest) = bytes.split_at(bytes.len().min(*left));
                output.extend_from_slice(taken);
                *left -= taken.len();
                *bytes = rest;
                *left == 0
            }
            Self::End { skim, end, left } => {
                let (taken, rest) = bytes.split_at(bytes.len().min(*left));
                let (before, of_end) = taken.split_at(skim.take(taken)?);
                output.extend_from_slice(before);
                *left -= taken.len();
                if end.len() + of_end.len() + *left > MAX_REWRITTEN && skim.is_at_end() {
                    let bytes = end.len() + of_end.len() + *left;
                    return Err(Refusal::Oversized { bytes, most: MAX_REWRITTEN });
                }
                end.extend_from_slice(of_end);
                *bytes = rest;
                if skim.passing() > *left as u64 || *left == 0 && !skim.is_at_end() {
                    return Err(Refusal::Truncated);
                }
                *left == 0
            }
            Self::Whole(frame, size) => {
                let (taken, rest) = bytes.split_at(bytes.len().min(*size - frame.len()));
                frame.extend_from_slice(taken);
                *bytes = rest;
                frame.len() == *size
            }
        })
    }

    /// Starts over; how far it was.
    fn finish(&mut self) -> Self {
        std::mem::replace(self, Self::START)
    }
}

/// Requests whose responses are due, the oldest first.
#[derive(Debug)]
pub(super) struct Due<K>(pub(super) VecDeque<Pending<K>>);

impl<K> Due<K> {
    /// The response to a request is due, behind those of all before.
    pub(super) fn expect(&mut self, pending: Pending<K>) -> Result<(), Refusal> {
        if self.0.len() == MAX_PENDING {
            return Err(Refusal::TooManyRequests);
        }
        self.0.push_back(pending);
        Ok(())
    }
}

/// What is done with requests.
pub(super) trait HandleRequests<K> {
    /// A request begins, of so many bytes in all: true if it is collected, and does not just pass.
    fn begin(&mut self, request: Request, size: usize, due: &mut Due<K>) -> Result<bool, Refusal>;

    /// One is collected: appends to `output` what the broker gets.
    fn collected(&mut self, frame: &[u8], due: &mut Due<K>, output: &mut Vec<u8>) -> Result<(), Refusal>;
}

/// A connection of a client with a broker.
#[derive(Debug)]
pub(super) struct Frames<K> {
    requests: Progress,
    responses: Progress,
    pub(super) due: Due<K>,
}

impl<K> Default for Frames<K> {
    fn default() -> Self {
        Self { requests: Progress::START, responses: Progress::START, due: Due(VecDeque::new()) }
    }
}

impl<K: Copy> Frames<K> {
    /// Takes bytes of the client, in pieces of any size, and appends to `output` what the broker is to get.
    pub(super) fn take_request(
        &mut self,
        mut bytes: &[u8],
        handler: &mut impl HandleRequests<K>,
        output: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        while !bytes.is_empty() {
            if let Progress::Head(head) = &mut self.requests {
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
                self.requests = if handler.begin(request, size, &mut self.due)? {
                    Progress::Whole(head, size)
                } else {
                    output.extend_from_slice(&head);
                    Progress::Through(size - within)
                };
            }
            if self.requests.take(&mut bytes, output)?
                && let Progress::Whole(frame, _) = self.requests.finish()
            {
                handler.collected(&frame, &mut self.due, output)?;
            }
        }
        Ok(())
    }

    /// Takes bytes of the broker, in pieces of any size, and appends to `output` what the client is to get: of a response
    /// with a kind what `collected` makes of its version and of what `keep` says is to be kept, by its kind and its bytes.
    pub(super) fn take_response(
        &mut self,
        mut bytes: &[u8],
        mut keep: impl FnMut(K, usize) -> Keep,
        mut collected: impl FnMut(K, i16, Kept<'_>, &mut Vec<u8>) -> Result<(), Refusal>,
        output: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        while !bytes.is_empty() {
            if let Progress::Head(head) = &mut self.responses {
                let (taken, rest) = bytes.split_at(bytes.len().min(RESPONSE_HEAD - head.len()));
                head.extend_from_slice(taken);
                bytes = rest;
                // An alert of TLS 1.x, by which a broker answers what is none: shorter than a head.
                if matches!(head[..], [21, 3, 0..=4, ..]) {
                    return Err(Refusal::BrokerTls);
                }
                if head.len() < RESPONSE_HEAD {
                    continue;
                }
                let head = std::mem::take(head);
                self.responses = self.begin_response(head, &mut keep, output)?;
            }
            if self.responses.take(&mut bytes, output)? {
                let Pending { version, kind, .. } = self.due.0.pop_front().expect("its response has begun");
                let mut collected = |kept: Kept<'_>, output: &mut Vec<u8>| {
                    kind.map_or(Ok(()), |kind| collected(kind, version, kept, output))
                };
                match self.responses.finish() {
                    Progress::Whole(frame, _) => collected(Kept::Whole(&frame), output)?,
                    Progress::End { end, .. } => collected(Kept::End(&end), output)?,
                    Progress::Head(_) | Progress::Through(_) => {}
                }
            }
        }
        Ok(())
    }

    fn begin_response(
        &self,
        head: Vec<u8>,
        keep: &mut impl FnMut(K, usize) -> Keep,
        output: &mut Vec<u8>,
    ) -> Result<Progress, Refusal> {
        let size = frame_size(&head, RESPONSE_HEAD)?;
        let got = i32_at(&head, 4);
        let expected = self.due.0.front();
        let Some(pending) = expected.filter(|pending| pending.correlation == got) else {
            return Err(Refusal::Uncorrelated { got, expected: expected.map(|pending| pending.correlation) });
        };
        let Some(kind) = pending.kind else {
            output.extend_from_slice(&head);
            return Ok(Progress::Through(size - head.len()));
        };
        let keep = keep(kind, size);
        if keep == Keep::Whole {
            if size > MAX_REWRITTEN {
                return Err(Refusal::Oversized { bytes: size, most: MAX_REWRITTEN });
            }
            return Ok(Progress::Whole(head, size));
        }
        output.extend_from_slice(&head);
        let left = size - head.len();
        Ok(match keep {
            Keep::End if left == 0 => return Err(Refusal::Truncated),
            Keep::End => Progress::End { skim: Skim::new(), end: Vec::new(), left },
            Keep::Nothing | Keep::Whole => Progress::Through(left),
        })
    }

    /// Whether so many bytes of the broker may complete a response.
    pub(super) fn completes(&self, bytes: usize) -> bool {
        match &self.responses {
            Progress::Head(_) => true,
            Progress::Through(left) | Progress::End { left, .. } => bytes >= *left,
            Progress::Whole(frame, size) => frame.len() + bytes >= *size,
        }
    }

    /// Whether a response is being kept that has not come whole yet.
    pub(super) fn keeps(&self) -> bool {
        matches!(self.responses, Progress::Whole(..))
    }

    /// So many bytes of the broker that come next go to the client as they are.
    pub(super) fn passing(&self) -> usize {
        match &self.responses {
            Progress::Through(left) => *left,
            // The last byte is looked at: the frame must have come to its end.
            Progress::End { skim, left, .. } => skim.passing().min(*left as u64 - 1) as usize,
            Progress::Head(_) | Progress::Whole(..) => 0,
        }
    }

    /// So many of them have gone.
    ///
    /// # Panics
    ///
    /// If they are more.
    pub(super) fn pass(&mut self, count: usize) {
        assert!(count <= self.passing(), "they are to be looked at");
        match &mut self.responses {
            Progress::Through(left) => {
                *left -= count;
                if *left == 0 {
                    self.responses = Progress::START;
                    self.due.0.pop_front();
                }
            }
            Progress::End { skim, left, .. } => {
                skim.pass(count as u64);
                *left -= count;
            }
            Progress::Head(_) | Progress::Whole(..) => {}
        }
    }

    /// The client has ended. An error says that it did so within a frame.
    pub(super) fn end_requests(&self) -> Result<(), Refusal> {
        self.requests.end()
    }

    /// The broker has ended. An error says that it did so within a frame.
    pub(super) fn end_responses(&self) -> Result<(), Refusal> {
        self.responses.end()
    }

    /// How many requests wait for their responses.
    pub(super) fn pending(&self) -> usize {
        self.due.0.len()
    }
}

/// Appends the response of `frame` with another body, which `write` appends.
pub(super) fn write_response(
    frame: &[u8],
    output: &mut Vec<u8>,
    write: impl FnOnce(&[u8], &mut Vec<u8>) -> Result<(), Refusal>,
) -> Result<(), Refusal> {
    let start = output.len();
    output.extend([0; 4]);
    output.extend_from_slice(&frame[4..RESPONSE_HEAD]);
    write(&frame[RESPONSE_HEAD..], output)?;
    let length = output.len() - start - 4;
    output[start..start + 4].copy_from_slice(&(length as i32).to_be_bytes());
    Ok(())
}
