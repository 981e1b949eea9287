//! The messages between the receiver and the sources of a file, other than symbols and acknowledgements.
//!
//! ```text
//!  byte      0     1..                                                            bytes
//!  Request   0x83  1..3 bytes of a symbol  3 slots  4..8 bytes under way          8
//!  Call      0x84  1..8 as a request  8 which                                     then its hash (1) or its name (2)
//!  Offered   0x82  1..9 bytes  9..41 BLAKE3 hash                                  then the name
//!  In part   0x85  as Offered
//!  Push      0     1..5 number  5 slot  6 slots  7 sources  8..12 block  12..16 start  16..24 weight
//!  Theta     1     1..5 number  5..13 weight
//!  Pause     2     1..5 number
//!  Stop      3     1..5 number
//!  Accepted  4     1..5 number  5 slot
//!  Ask       5     1 level  2..10 index                                           10
//!  Page      6     1 level  2..10 index                                           then 1 to 4 values of 32 bytes
//!  Holding   7     1..5 blocks  5..13 who                                         13
//! ```
//!
//! Numbers are in network byte order, weights IEEE 754. The request is a connection's opening, and the offer is its
//! answer. The others are notices: orders to a source, its acceptance of one, a receiver's request for a page of a
//! file's hash tree, a source's answer of one page for each request, and how many blocks it has of a file that it still
//! fetches. A call is a request for one of many files. A request alone is for the only one.

use std::sync::Arc;

use pliant_proto::congestion::weighted_fair::WeightedFairConfig;
use pliant_proto::transport::push::weights::LOW_WEIGHT;
use pliant_proto::transport::push::{MAX_BLOCK_SYMBOLS, Order, Partition, PushConfig, ToController, ToSource};

use super::hash_tree::{BLOCK_BYTES, PAGE_VALUES, PageNumber};
use crate::flow::{FlowError, FlowSettings, Path};

const REQUEST: u8 = 0x83;
const OFFERED: u8 = 0x82;
const CALL: u8 = 0x84;
const OFFERED_IN_PART: u8 = 0x85;
const PUSH: u8 = 0;
const THETA: u8 = 1;
const PAUSE: u8 = 2;
const STOP: u8 = 3;
const ACCEPTED: u8 = 4;
const ASK: u8 = 5;
const PAGE: u8 = 6;
const HOLDING: u8 = 7;

const REQUEST_BYTES: usize = 8;
const PAGE_HEADER_BYTES: usize = 10;
const HOLDING_BYTES: usize = 13;
const BY_HASH: u8 = 1;
const BY_NAME: u8 = 2;
const NAME_AT: usize = 41;
pub(super) const MAX_NAME_BYTES: usize = 255;
const MAX_BYTES: u64 = 1 << 56;
const MAX_SLOTS: u8 = 32;
const MAX_WEIGHT: f64 = 1e9;

fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("the length is checked")
}

fn number(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(array(bytes, at))
}

fn weight(bytes: &[u8], at: usize) -> Option<f64> {
    let weight = f64::from_be_bytes(array(bytes, at));
    (LOW_WEIGHT..=MAX_WEIGHT).contains(&weight).then_some(weight)
}

/// Bytes that all sources together have under way at first.
const FIRST_UNDER_WAY: u64 = 512 << 10;
/// How a source must send its offer to a receiver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// Bytes of a symbol.
    pub symbol: u16,
    /// Slots: most sources that send at once.
    pub slots: u8,
    /// Most bytes that this source may have in flight, once it found that the path takes them.
    pub window: u32,
}

impl Request {
    /// The settings of both sides' machines. Sources of any speed distribute the source symbols by claims, because
    /// decoding costs more than sending.
    pub(super) fn config(self, flow: &FlowSettings, path: Path) -> Result<Arc<PushConfig>, FlowError> {
        let Self { symbol, slots, window } = self;
        let first = FIRST_UNDER_WAY / u64::from(slots.max(1));
        let config = PushConfig {
            data_class: FlowSettings::class(flow.classes.data),
            ack_class: FlowSettings::class(flow.classes.control),
            block_symbols: self.block_symbols(),
            slots,
            window: WeightedFairConfig { weight: flow.contract.weight, ..WeightedFairConfig::default() },
            rto: flow.rto(),
            max_under_way: Some(first.min(window.into())),
            largest_under_way: Some(window.into()),
            claims: true,
            ..PushConfig::new(symbol, path.wire(flow.mtu))
        };
        config.check().map_err(FlowError::Push)?;
        Ok(Arc::new(config))
    }

    /// Source symbols of a full block. The last one is padded with zeros.
    pub fn block_symbols(self) -> u32 {
        BLOCK_BYTES.div_ceil(self.symbol.into())
    }

    /// The division of a file of this many bytes into blocks of 2 MiB. `None` if it is empty or has more blocks than 32
    /// bits can count.
    pub fn partition(self, bytes: u64) -> Option<Partition> {
        Partition::in_blocks_of(bytes, self.symbol, BLOCK_BYTES)
    }

    /// As bytes.
    pub fn encode(self) -> Vec<u8> {
        let Self { symbol, slots, window } = self;
        [&[REQUEST][..], &symbol.to_be_bytes(), &[slots], &window.to_be_bytes()].concat()
    }

    /// From bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, &'static str> {
        if bytes.len() != REQUEST_BYTES || bytes[0] != REQUEST {
            return Err("it offers a file and takes none: it is for `pliant fetch`");
        }
        let request = Self { symbol: u16::from_be_bytes(array(bytes, 1)), slots: bytes[3], window: number(bytes, 4) };
        let slots = (1..=MAX_SLOTS).contains(&request.slots);
        if request.symbol == 0 || request.block_symbols() > MAX_BLOCK_SYMBOLS || !slots {
            return Err("it was asked for blocks that cannot be");
        }
        Ok(request)
    }
}

/// Selects one of the files of a source.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FileSelector {
    /// The only one.
    Only,
    /// The one with this BLAKE3 hash.
    Hash(blake3::Hash),
    /// The one with this name.
    Name(String),
}

/// A receiver's first message: what it wants, and how.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FetchCall {
    /// How it must be sent.
    pub request: Request,
    /// Which file.
    pub file: FileSelector,
}

impl FetchCall {
    /// Encodes it. A long name is cut, and then matches no file.
    pub fn encode(&self) -> Vec<u8> {
        let request = self.request.encode();
        let (which, what) = match &self.file {
            FileSelector::Only => return request,
            FileSelector::Hash(hash) => (BY_HASH, &hash.as_bytes()[..]),
            FileSelector::Name(name) => (BY_NAME, crate::text::truncated(name, MAX_NAME_BYTES).as_bytes()),
        };
        [&[CALL][..], &request[1..], &[which], what].concat()
    }

    /// From bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, &'static str> {
        let Some((fixed, what)) = bytes.split_at_checked(REQUEST_BYTES + 1).filter(|_| bytes[0] == CALL) else {
            return Ok(Self { request: Request::decode(bytes)?, file: FileSelector::Only });
        };
        let request = Request::decode(&[&[REQUEST][..], &fixed[1..REQUEST_BYTES]].concat())?;
        let file = match (fixed[REQUEST_BYTES], what.len()) {
            (BY_HASH, blake3::OUT_LEN) => FileSelector::Hash(array::<{ blake3::OUT_LEN }>(what, 0).into()),
            (BY_NAME, 1..=MAX_NAME_BYTES) => {
                FileSelector::Name(str::from_utf8(what).map_err(|_| "it was asked for a name that is none")?.to_owned())
            }
            _ => return Err("it was asked for a file in a way that it does not know"),
        };
        Ok(Self { request, file })
    }
}

/// A source's offer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Offered {
    /// Bytes of the file.
    pub bytes: u64,
    /// BLAKE3 hash of the file.
    pub hash: blake3::Hash,
    /// Its name; not a path.
    pub name: String,
}

impl Offered {
    /// Encodes it. A long name is cut.
    pub fn encode(&self) -> Vec<u8> {
        self.encode_as(OFFERED)
    }

    /// The same for a file that its source still fetches.
    pub fn encode_in_part(&self) -> Vec<u8> {
        self.encode_as(OFFERED_IN_PART)
    }

    fn encode_as(&self, kind: u8) -> Vec<u8> {
        let name = crate::text::truncated(&self.name, MAX_NAME_BYTES).as_bytes();
        [&[kind][..], &self.bytes.to_be_bytes(), self.hash.as_bytes(), name].concat()
    }

    /// From bytes.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        Self::decode_as(OFFERED, bytes)
    }

    /// The same for a file that its source still fetches.
    pub fn decode_in_part(bytes: &[u8]) -> Option<Self> {
        Self::decode_as(OFFERED_IN_PART, bytes)
    }

    fn decode_as(kind: u8, bytes: &[u8]) -> Option<Self> {
        let (fixed, name) = bytes.split_at_checked(NAME_AT)?;
        let size = u64::from_be_bytes(array(fixed, 1));
        let valid = fixed[0] == kind && size <= MAX_BYTES && name.len() <= MAX_NAME_BYTES;
        let hash = array::<{ blake3::OUT_LEN }>(fixed, 9).into();
        let name = str::from_utf8(name).ok().filter(|_| valid)?.to_owned();
        Some(Self { bytes: size, hash, name })
    }

    /// Whether it is the same file, whatever its name.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        (self.bytes, self.hash) == (other.bytes, other.hash)
    }
}

/// An order to a source, or its acceptance of one, as a notice.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum PushNotice {
    /// To a source.
    ToSource(ToSource),
    /// From a source.
    Accepted {
        /// The slot for which it sends.
        slot: u8,
        /// The order's number.
        number: u32,
    },
}

impl PushNotice {
    /// A source's message to the controller as a notice, if it is one.
    pub(super) fn of(message: ToController) -> Option<Self> {
        match message {
            ToController::Accepted { slot, number } => Some(Self::Accepted { slot, number }),
            _ => None,
        }
    }

    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        let (kind, number, rest) = match *self {
            Self::ToSource(ToSource { number, order }) => match order {
                Order::Push { slot, slots, sources, block, start, weight } => {
                    let fields = [&[slot, slots, sources][..], &block.to_be_bytes(), &start.to_be_bytes()].concat();
                    (PUSH, number, [&fields[..], &weight.to_be_bytes()].concat())
                }
                Order::Theta { weight } => (THETA, number, weight.to_be_bytes().to_vec()),
                Order::Pause => (PAUSE, number, Vec::new()),
                Order::Stop => (STOP, number, Vec::new()),
            },
            Self::Accepted { slot, number } => (ACCEPTED, number, vec![slot]),
        };
        [&[kind][..], &number.to_be_bytes(), &rest].concat()
    }

    /// From bytes.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (&kind, _) = bytes.split_first()?;
        let expected = match kind {
            PUSH => 24,
            THETA => 13,
            PAUSE | STOP => 5,
            ACCEPTED => 6,
            _ => return None,
        };
        if bytes.len() != expected {
            return None;
        }
        let order = match kind {
            PUSH => {
                let (slot, slots, sources) = (bytes[5], bytes[6], bytes[7]);
                let valid = slot < slots && slots <= MAX_SLOTS && (1..=MAX_SLOTS).contains(&sources);
                let (block, start, weight) = (number(bytes, 8), number(bytes, 12), weight(bytes, 16)?);
                valid.then_some(Order::Push { slot, slots, sources, block, start, weight })?
            }
            THETA => Order::Theta { weight: weight(bytes, 5)? },
            PAUSE => Order::Pause,
            STOP => Order::Stop,
            _ => return Some(Self::Accepted { slot: bytes[5], number: number(bytes, 1) }),
        };
        Some(Self::ToSource(ToSource { number: number(bytes, 1), order }))
    }
}

/// How much a source has of a file that it still fetches, as a notice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HoldingNotice {
    /// Number of blocks, from the first on.
    pub blocks: u32,
    /// A random number of the receiver. Of two with the same blocks the lower is served first.
    pub who: u64,
}

impl HoldingNotice {
    /// As bytes.
    pub fn encode(self) -> Vec<u8> {
        [&[HOLDING][..], &self.blocks.to_be_bytes(), &self.who.to_be_bytes()].concat()
    }

    /// From bytes.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let valid = bytes.len() == HOLDING_BYTES && bytes[0] == HOLDING;
        valid.then(|| Self { blocks: number(bytes, 1), who: u64::from_be_bytes(array(bytes, 5)) })
    }
}

/// A notice about a file's hash tree.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum HashNotice {
    /// To a source: send this page.
    Ask(PageNumber),
    /// From a source: the page's chaining values, at most four neighbours.
    Page(PageNumber, Vec<[u8; blake3::OUT_LEN]>),
}

impl HashNotice {
    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        let (kind, page, values) = match self {
            Self::Ask(page) => (ASK, page, &[][..]),
            Self::Page(page, values) => (PAGE, page, &values[..]),
        };
        [&[kind, page.level][..], &page.index.to_be_bytes(), values.as_flattened()].concat()
    }

    /// From bytes.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (fixed, rest) = bytes.split_at_checked(PAGE_HEADER_BYTES)?;
        let page = PageNumber { level: fixed[1], index: u64::from_be_bytes(array(fixed, 2)) };
        let (values, cut) = rest.as_chunks();
        match fixed[0] {
            ASK if rest.is_empty() => Some(Self::Ask(page)),
            PAGE if cut.is_empty() && (1..=PAGE_VALUES).contains(&values.len()) => {
                Some(Self::Page(page, values.to_vec()))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn orders() -> impl Strategy<Value = Order> {
        let push = (0u8..32, 1u8..33, any::<u32>(), any::<u32>(), 0.5..1e9).prop_map(
            |(slot, sources, block, start, weight)| Order::Push { slot, slots: 32, sources, block, start, weight },
        );
        prop_oneof![push, (0.5..1e9).prop_map(|weight| Order::Theta { weight }), Just(Order::Pause), Just(Order::Stop)]
    }

    proptest! {
        /// What is said is heard; a byte more or less is nothing, nor is noise anything but what encodes to it.
        #[test]
        fn notices_round_trip(number in any::<u32>(), order in orders(), slot in any::<u8>(), noise: Vec<u8>) {
            for notice in [PushNotice::ToSource(ToSource { number, order }), PushNotice::Accepted { slot, number }] {
                let bytes = notice.encode();
                prop_assert_eq!(PushNotice::decode(&bytes), Some(notice));
                prop_assert_eq!(PushNotice::decode(&bytes[..bytes.len() - 1]), None);
                prop_assert_eq!(PushNotice::decode(&[&bytes[..], &[0]].concat()), None);
            }
            if let Some(order) = PushNotice::decode(&noise) {
                prop_assert_eq!(order.encode(), noise);
            }
        }

        /// The same of calls and of what a source has in part; neither is anything else.
        #[test]
        fn calls_round_trip(name in "[a-z./ é]{1,60}", hash in any::<[u8; 32]>(), blocks in any::<u32>(), who in any::<u64>(), noise in prop::collection::vec(any::<u8>(), 0..60)) {
            let request = Request { symbol: 1000, slots: 3, window: 100_000 };
            for file in [FileSelector::Only, FileSelector::Hash(hash.into()), FileSelector::Name(name.clone())] {
                let call = FetchCall { request, file };
                let bytes = call.encode();
                prop_assert!(bytes.len() <= crate::connection::MAX_OPENING_BYTES);
                prop_assert_eq!(FetchCall::decode(&bytes), Ok(call));
            }
            let noise = [&[CALL][..], &noise].concat();
            if let Ok(call) = FetchCall::decode(&noise) {
                prop_assert_eq!(call.encode(), noise);
            }
            let holding = HoldingNotice { blocks, who };
            let bytes = holding.encode();
            prop_assert_eq!(HoldingNotice::decode(&bytes), Some(holding));
            prop_assert!(HoldingNotice::decode(&bytes[..12]).is_none() && HashNotice::decode(&bytes).is_none());
            prop_assert!(PushNotice::decode(&bytes).is_none());
            let offered = Offered { bytes: 7, hash: hash.into(), name };
            prop_assert_eq!(Offered::decode_in_part(&offered.encode_in_part()), Some(offered.clone()));
            prop_assert!(Offered::decode(&offered.encode_in_part()).is_none() && Offered::decode_in_part(&offered.encode()).is_none());
        }

        /// The same of pages; all fit a notice, and none is an order.
        #[test]
        fn pages_round_trip(level in any::<u8>(), index in any::<u64>(), values in prop::collection::vec(any::<[u8; 32]>(), 1..5)) {
            let page = PageNumber { level, index };
            for notice in [HashNotice::Ask(page), HashNotice::Page(page, values)] {
                let bytes = notice.encode();
                prop_assert!(bytes.len() <= crate::connection::MAX_NOTICE_BYTES);
                prop_assert_eq!(HashNotice::decode(&bytes), Some(notice));
                prop_assert_eq!(PushNotice::decode(&bytes), None);
                prop_assert_eq!(HashNotice::decode(&bytes[..bytes.len() - 1]), None);
                prop_assert_eq!(HashNotice::decode(&[&bytes[..], &[0]].concat()), None);
            }
        }
    }

    /// Requests and offers round trip; blocks that would fill a source's memory, slots that nobody has, and weights that
    /// are no weights are refused.
    #[test]
    fn nonsense_is_refused() {
        let request = Request { symbol: 1000, slots: 3, window: 100_000 };
        assert_eq!(Request::decode(&request.encode()), Ok(request));
        let offered = Offered { bytes: 7, hash: blake3::hash(b"content"), name: "model.bin".into() };
        assert_eq!(Offered::decode(&offered.encode()), Some(offered.clone()));
        for broken in [
            Request { symbol: 0, ..request },
            // 2 MiB would be more symbols than a block may have.
            Request { symbol: 37, ..request },
            Request { slots: 33, ..request },
            Request { slots: 0, ..request },
        ] {
            assert!(Request::decode(&broken.encode()).is_err(), "{broken:?}");
        }
        assert!(Request::decode(&offered.encode()).is_err());
        assert_eq!(Offered::decode(&Offered { bytes: u64::MAX, ..offered }.encode()), None);
        for weight in [f64::NAN, f64::INFINITY, 0.0, -1.0, 0.4] {
            let order = Order::Theta { weight };
            assert_eq!(
                PushNotice::decode(&PushNotice::ToSource(ToSource { number: 0, order }).encode()),
                None,
                "{weight}"
            );
        }
    }
}
