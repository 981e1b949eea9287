//! A receiver's verdict on a content, once all of it has arrived.
//!
//! ```text
//!  byte  0                 1..
//!        1: placed         why not, in UTF-8
//!        2: not placed
//!        3: it differs
//! ```
//!
//! It is a notice of the connection, which may be lost, so the receiver repeats it until the sender closes. Until it is
//! known, the receiver says from time to time that it is [at work](AT_WORK).

/// The verdict on a content.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    /// It was verified and is in its place.
    Placed,
    /// The receiver could not store it.
    NotPlaced(String),
    /// It differs from what the sender announced.
    Differs(String),
}

/// Notice of a receiver that still reads, verifies or stores.
pub(crate) const AT_WORK: &[u8] = &[8];

const PLACED: u8 = 1;
const NOT_PLACED: u8 = 2;
const DIFFERS: u8 = 3;

/// Most bytes of the reason. A notice holds one byte more.
const MAX_REASON_BYTES: usize = crate::connection::MAX_NOTICE_BYTES - 1;

impl Verdict {
    /// Encodes it. A long reason is cut.
    pub(super) fn encode(&self) -> Vec<u8> {
        let (code, reason) = match self {
            Self::Placed => (PLACED, ""),
            Self::NotPlaced(why) => (NOT_PLACED, why.as_str()),
            Self::Differs(why) => (DIFFERS, why.as_str()),
        };
        [&[code], crate::text::truncated(reason, MAX_REASON_BYTES).as_bytes()].concat()
    }

    /// From bytes; `None` if they are another notice.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let (&code, reason) = bytes.split_first()?;
        let reason = || str::from_utf8(reason).ok().map(str::to_owned);
        match code {
            PLACED => Some(Self::Placed),
            NOT_PLACED => Some(Self::NotPlaced(reason()?)),
            DIFFERS => Some(Self::Differs(reason()?)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_round_trip_and_nonsense_is_none() {
        for verdict in [Verdict::Placed, Verdict::NotPlaced("no space left".into()), Verdict::Differs("é".into())] {
            assert_eq!(Verdict::decode(&verdict.encode()), Some(verdict));
        }
        for nonsense in [&[][..], &[0], &[4], &[2, 0xff], AT_WORK] {
            assert_eq!(Verdict::decode(nonsense), None, "{nonsense:?}");
        }
        assert!(Verdict::NotPlaced("x".repeat(500)).encode().len() <= crate::connection::MAX_NOTICE_BYTES);
    }
}
