//! What the beginning of a frame says.

use crate::api::{self, Api};
use crate::refusal::{MAX_FRAME, Refusal};
use crate::walk::{Malformed, Walk};

/// Longest beginning of a request that has to be understood, in bytes: two names of 32 kB.
pub(super) const MAX_HEAD: usize = 80 << 10;
/// The size, the key, the version and the correlation number.
pub(super) const FIXED_HEAD: usize = 12;

/// What a request's beginning says.
pub(super) struct Request {
    pub(super) key: i16,
    pub(super) version: i16,
    pub(super) correlation: i32,
    /// Whether it has a response: a produce request with acks = 0 has none.
    pub(super) answered: bool,
    /// Whether the broker may get another request in its place.
    pub(super) replaced: bool,
}

impl Request {
    /// Reads the beginning of a frame: nothing if that is too short yet, or the request and the frame's size.
    pub(super) fn read(head: &[u8]) -> Result<Option<(Self, usize)>, Refusal> {
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
        let replaced = match key {
            api::API_VERSIONS => !api.knows(version),
            // Kerberos, and version 0, are refused by the broker itself.
            api::SASL_HANDSHAKE => version == 0 || api.knows(version),
            _ => false,
        };
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
        Ok(Some((Self { key, version, correlation, answered, replaced }, size)))
    }
}

/// How many replicas a produce request waits for, from behind its correlation number.
fn acks(body: &[u8], version: i16) -> Result<i16, Malformed> {
    produce_from_acks(body, version, &mut Vec::new())?.take_i16()
}

/// A walk through a produce request, given from behind its correlation number, from its acks on.
pub(super) fn produce_from_acks<'a, 'o>(
    body: &'a [u8],
    version: i16,
    ignored: &'o mut Vec<u8>,
) -> Result<Walk<'a, 'o>, Malformed> {
    let mut walk = behind_header(body, version >= 9, ignored)?;
    if version >= 3 {
        walk.take_string()?; // transactional_id
    }
    Ok(walk)
}

/// A walk through a request, given from behind its correlation number, from behind the rest of its header on.
pub(super) fn behind_header<'a, 'o>(
    body: &'a [u8],
    flexible: bool,
    ignored: &'o mut Vec<u8>,
) -> Result<Walk<'a, 'o>, Malformed> {
    let mut header = Walk::new(body, ignored, false);
    // A client_id has a plain length in every version.
    header.take_string()?;
    let rest = header.rest();
    let mut walk = Walk::new(rest, ignored, flexible);
    walk.skip_tags()?;
    Ok(walk)
}

pub(super) fn i16_at(bytes: &[u8], at: usize) -> i16 {
    i16::from_be_bytes([bytes[at], bytes[at + 1]])
}

pub(super) fn i32_at(bytes: &[u8], at: usize) -> i32 {
    i32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// A frame's size in all, from its first four bytes, if it can hold `least` bytes.
pub(super) fn frame_size(head: &[u8], least: usize) -> Result<usize, Refusal> {
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
