//! Responses that a door changes.

use crate::api;
use crate::refusal::Refusal;
use crate::walk::{Malformed, Walk};

/// A broker as a response advertises it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advertised {
    /// Its number.
    pub node: i32,
    /// Its name or address.
    pub host: String,
    /// Its TCP port.
    pub port: u16,
}

/// Where clients are to find a broker instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Local {
    /// A name or address.
    pub host: String,
    /// A TCP port.
    pub port: u16,
}

/// Says where a broker is to be found, or why there is no such place.
pub(crate) type Place<'p> = dyn FnMut(&Advertised) -> Result<Local, String> + 'p;

/// The error code of a version that the other side does not know (protocol guide, error codes).
pub(crate) const UNSUPPORTED_VERSION: i16 = 35;

/// Most brokers that a response names, each time that it does: coordinators are named once for every group. Each is looked
/// up while other connections wait.
const MAX_ADVERTISED: usize = 1 << 16;

/// A response whose body is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Metadata,
    FindCoordinator,
    DescribeCluster,
    /// With the addresses of new leaders, from version 16.
    Fetch,
    /// With the addresses of new leaders, from version 10.
    Produce,
    /// `refused` answers a request of a version that is not known, which the broker got as one of version 0.
    ApiVersions {
        refused: bool,
    },
}

impl Kind {
    /// What responses to a request have to be changed in, if in anything.
    pub(crate) fn of(key: i16, version: i16) -> Option<Self> {
        match key {
            api::METADATA => Some(Self::Metadata),
            api::FIND_COORDINATOR => Some(Self::FindCoordinator),
            api::DESCRIBE_CLUSTER => Some(Self::DescribeCluster),
            api::FETCH if version >= 16 => Some(Self::Fetch),
            api::PRODUCE if version >= 10 => Some(Self::Produce),
            api::API_VERSIONS => Some(Self::ApiVersions { refused: false }),
            _ => None,
        }
    }

    fn flexible(self, version: i16) -> bool {
        version
            >= match self {
                Self::Metadata | Self::Produce => 9,
                Self::FindCoordinator | Self::ApiVersions { .. } => 3,
                Self::DescribeCluster => 0,
                Self::Fetch => 12,
            }
    }
}

/// Writes a response's body, from behind the correlation number, with other addresses.
pub(crate) fn rewrite(
    kind: Kind,
    version: i16,
    body: &[u8],
    place: &mut Place<'_>,
    output: &mut Vec<u8>,
) -> Result<(), Refusal> {
    if let Kind::ApiVersions { refused } = kind {
        return api_versions(version, refused, body, output).map_err(Refusal::from);
    }
    let place: &mut Place<'_> = &mut bounded(place);
    let mut walk = Walk::new(body, output, kind.flexible(version));
    // The header's tagged fields.
    walk.tags()?;
    match kind {
        Kind::Metadata => {
            if version >= 3 {
                walk.copy(4)?; // throttle_time_ms
            }
            walk.array(|walk| {
                broker(walk, place)?;
                if version >= 1 {
                    walk.copy_string()?; // rack
                }
                Ok::<_, Refusal>(walk.tags()?)
            })?;
        }
        Kind::FindCoordinator if version >= 4 => {
            walk.copy(4)?; // throttle_time_ms
            walk.array(|walk| {
                walk.copy_string()?; // key
                broker(walk, place)?;
                walk.copy(2)?; // error_code
                walk.copy_string()?; // error_message
                Ok::<_, Refusal>(walk.tags()?)
            })?;
        }
        Kind::FindCoordinator => {
            if version >= 1 {
                walk.copy(4)?; // throttle_time_ms
            }
            walk.copy(2)?; // error_code
            if version >= 1 {
                walk.copy_string()?; // error_message
            }
            broker(&mut walk, place)?;
        }
        Kind::DescribeCluster => {
            walk.copy(4 + 2)?; // throttle_time_ms, error_code
            walk.copy_string()?; // error_message
            if version >= 1 {
                walk.copy(1)?; // endpoint_type
            }
            walk.copy_string()?; // cluster_id
            walk.copy(4)?; // controller_id
            walk.array(|walk| {
                broker(walk, place)?;
                walk.copy_string()?; // rack
                if version >= 2 {
                    walk.copy(1)?; // is_fenced
                }
                Ok::<_, Refusal>(walk.tags()?)
            })?;
        }
        Kind::Fetch => {
            walk.copy(4 + 2 + 4)?; // throttle_time_ms, error_code, session_id
            walk.array(|walk| {
                walk.copy(16)?; // topic_id
                walk.array(|walk| {
                    walk.copy(4 + 2 + 3 * 8)?; // partition, error_code, three offsets
                    walk.array(|walk| {
                        walk.copy(2 * 8)?; // producer_id and first_offset of an aborted transaction
                        walk.tags()
                    })?;
                    walk.copy(4)?; // preferred_read_replica
                    walk.copy_compact_bytes()?; // records
                    walk.tags()
                })?;
                walk.tags()
            })?;
            walk.tags_with(0, |walk| endpoints(walk, place))?;
        }
        Kind::Produce => {
            walk.array(|walk| {
                if version >= 13 {
                    walk.copy(16)?; // topic_id
                } else {
                    walk.copy_string()?; // name
                }
                walk.array(|walk| {
                    walk.copy(4 + 2 + 3 * 8)?; // partition, error_code, two offsets and a time
                    walk.array(|walk| {
                        walk.copy(4)?; // batch_index
                        walk.copy_string()?; // error message of a record
                        walk.tags()
                    })?;
                    walk.copy_string()?; // error_message
                    walk.tags()
                })?;
                walk.tags()
            })?;
            walk.copy(4)?; // throttle_time_ms
            walk.tags_with(0, |walk| endpoints(walk, place))?;
        }
        Kind::ApiVersions { .. } => unreachable!("is served above"),
    }
    walk.copy_rest();
    Ok(())
}

/// The same place for so many brokers as a response may advertise.
fn bounded<'p>(place: &'p mut Place<'_>) -> impl FnMut(&Advertised) -> Result<Local, String> + 'p {
    let mut advertised = 0;
    move |broker| {
        advertised += 1;
        if advertised > MAX_ADVERTISED {
            return Err(format!("a response advertises brokers more than {MAX_ADVERTISED} times"));
        }
        place(broker)
    }
}

/// Writes the end of a response to Fetch, its tagged fields, with other addresses and in as many bytes: how long the
/// response is was said at its beginning. If the addresses are too long it names no broker; clients then ask for Metadata, as
/// they do of brokers that name none.
pub(crate) fn rewrite_end(end: &[u8], place: &mut Place<'_>, output: &mut Vec<u8>) -> Result<(), Refusal> {
    let place: &mut Place<'_> = &mut bounded(place);
    let start = output.len();
    fields(end, output, |walk| endpoints(walk, place))?;
    if pad(output, start, end.len()) {
        return Ok(());
    }
    output.truncate(start);
    fields(end, output, |walk| {
        walk.skip_rest();
        walk.put_count(Some(0));
        Ok(())
    })?;
    if pad(output, start, end.len()) { Ok(()) } else { Err(Refusal::Malformed) }
}

/// The tagged fields, with other endpoints.
fn fields(
    end: &[u8],
    output: &mut Vec<u8>,
    endpoints: impl FnMut(&mut Walk<'_, '_>) -> Result<(), Refusal>,
) -> Result<(), Refusal> {
    let mut walk = Walk::new(end, output, true);
    walk.tags_with(0, endpoints)?;
    if walk.rest().is_empty() { Ok(()) } else { Err(Refusal::Malformed) }
}

/// Tagged fields that no reader knows, the largest numbers of a byte. Each reader passes over them (KIP-482).
const PADDING: [u32; 2] = [126, 127];

/// Fills tagged fields from `start` on with others up to a size; false if that cannot be.
fn pad(output: &mut Vec<u8>, start: usize, size: usize) -> bool {
    let written = output.len() - start;
    let Some(room) = size.checked_sub(written) else { return false };
    if room == 0 {
        return true;
    }
    let mut sizes = Vec::new();
    match padding(room) {
        Some(one) => sizes.push(one),
        // No field is as long. One of two bytes, and another.
        None => match room.checked_sub(2).and_then(padding) {
            Some(other) => sizes.extend([0, other]),
            None => return false,
        },
    }
    // Of more fields the count would take another byte; no response has so many.
    let count = usize::from(output[start]) + sizes.len();
    if count >= 0x80 {
        return false;
    }
    output[start] = count as u8;
    for (tag, size) in PADDING.into_iter().skip(PADDING.len() - sizes.len()).zip(sizes) {
        let mut walk = Walk::new(&[], output, true);
        walk.put_varint(tag);
        walk.put_varint(size);
        output.resize(output.len() + size as usize, 0);
    }
    true
}

/// The size of a tagged field that takes so many bytes in all, with a number of one byte.
fn padding(room: usize) -> Option<u32> {
    (1..=5).find_map(|bytes| {
        let size = u32::try_from(room.checked_sub(1 + bytes)?).ok()?;
        let needs = (32 - (size | 1).leading_zeros()).div_ceil(7);
        (needs as usize == bytes).then_some(size)
    })
}

/// The field `node_endpoints`.
fn endpoints(walk: &mut Walk<'_, '_>, place: &mut Place<'_>) -> Result<(), Refusal> {
    walk.array(|walk| {
        broker(walk, place)?;
        walk.copy_string()?; // rack
        Ok::<_, Refusal>(walk.tags()?)
    })
}

/// A broker's number, host and port.
fn broker(walk: &mut Walk<'_, '_>, place: &mut Place<'_>) -> Result<(), Refusal> {
    let node = walk.take_i32()?;
    let host = walk.take_string()?;
    let number = walk.take_i32()?;
    walk.put(&node.to_be_bytes());
    // A coordinator that is not there is number -1 with an empty host.
    let Some(name) = host.filter(|host| !host.is_empty()) else {
        walk.put_string(host);
        walk.put(&number.to_be_bytes());
        return Ok(());
    };
    // Its address must not pass: a client would connect to it without the door.
    let Some(port) = u16::try_from(number).ok().filter(|_| node >= 0) else {
        return Err(Refusal::Broker(format!("broker {node} advertises `{name}:{number}`")));
    };
    let advertised = Advertised { node, host: name.to_owned(), port };
    let local = place(&advertised).map_err(Refusal::Broker)?;
    walk.put_string(Some(&local.host));
    walk.put(&i32::from(local.port).to_be_bytes());
    Ok(())
}

/// Takes out messages that are not known, and lowers the versions of those that are. The header is of version 0
/// always, as the client does not know yet what the broker understands.
fn api_versions(version: i16, refused: bool, body: &[u8], output: &mut Vec<u8>) -> Result<(), Malformed> {
    let mut ignored = Vec::new();
    let code = Walk::new(body, &mut ignored, false).take_i16()?;
    // A broker answers a version that it does not know in version 0.
    let form = if code == UNSUPPORTED_VERSION { 0 } else { version };
    let flexible = Kind::ApiVersions { refused }.flexible(form);
    let mut kept = Vec::new();
    let mut count = 0;
    let mut list = Walk::new(&body[2..], &mut kept, flexible);
    for _ in 0..list.take_count()?.unwrap_or(0) {
        let (key, min, max) = (list.take_i16()?, list.take_i16()?, list.take_i16()?);
        if let Some((min, max)) = api::clamp(key, min, max) {
            count += 1;
            for value in [key, min, max] {
                list.put(&value.to_be_bytes());
            }
            list.tags()?;
        } else {
            list.skip_tags()?;
        }
    }
    let rest = list.rest();
    let code = if refused { UNSUPPORTED_VERSION } else { code };
    let mut head = Walk::new(&[], output, flexible);
    head.put(&code.to_be_bytes());
    head.put_count(Some(count));
    head.put(&kept);
    head.put(rest);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every room but that of one byte is filled exactly, by fields that are read over again.
    #[test]
    fn padding_fills_any_room() {
        for room in (0..400).chain(16_300..16_500) {
            let mut fields = vec![9, 9, 0];
            let filled = pad(&mut fields, 2, 1 + room);
            assert_eq!(filled, room != 1, "{room}");
            if filled {
                assert_eq!(fields.len(), 3 + room);
                let mut read = Vec::new();
                let mut walk = Walk::new(&fields[2..], &mut read, true);
                walk.tags().unwrap();
                assert!(walk.rest().is_empty());
                assert_eq!(read, fields[2..]);
            }
        }
    }
}
